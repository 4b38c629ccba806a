#include "sbxd/image/importer.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Images of layers.  Every part is checked against the digest that names it.
 * Source: OCI image specification 1.1 (image-layout.md, index, manifest,
 * config, layer); Docker image specification 1.2 for docker-save(1).
 */

#define MAX_INDEX_DEPTH 4

static struct json_object *
parse(struct importer *im, const char *path)
{
	SBX_CLEANUP(free) char *text = NULL;
	struct json_object *o;
	size_t len;

	text = source_json(im, path, &len);
	o = text == NULL ? NULL : json_tokener_parse(text);
	if (text != NULL && !json_object_is_type(o, json_type_object) &&
	    !json_object_is_type(o, json_type_array)) {
		(void)import_fail(im, SBX_E_SYNTAX, "'%.80s' is not what it "
		    "should be", path);
		json_object_put(o);
		o = NULL;
	}
	return (o);
}

/* A string as text; "" when it is none, or one that C would cut short. */
static const char *
plain(struct json_object *v)
{
	const char *s;

	if (!json_object_is_type(v, json_type_string))
		return ("");
	s = json_object_get_string(v);
	return (strlen(s) == (size_t)json_object_get_string_len(v) ? s : "");
}

/* A member as text; "" when it is not there or no text. */
static const char *
text_of(struct json_object *o, const char *name)
{
	struct json_object *v = NULL;

	if (!json_object_is_type(o, json_type_object) ||
	    !json_object_object_get_ex(o, name, &v))
		return ("");
	return (plain(v));
}

/* NULL when it is not there or no array. */
static struct json_object *
array_of(struct json_object *o, const char *name)
{
	struct json_object *v = NULL;

	if (!json_object_is_type(o, json_type_object) ||
	    !json_object_object_get_ex(o, name, &v) ||
	    !json_object_is_type(v, json_type_array))
		return (NULL);
	return (v);
}

static struct json_object *
object_of(struct json_object *o, const char *name)
{
	struct json_object *v = NULL;

	if (!json_object_is_type(o, json_type_object) ||
	    !json_object_object_get_ex(o, name, &v) ||
	    !json_object_is_type(v, json_type_object))
		return (NULL);
	return (v);
}

/* --- the configuration ------------------------------------------------------------- */

/* What cannot be shown on one line is left out, and counted. */
static void
take_text(struct importer *im, char *dst, size_t size, const char *src)
{
	struct sbx_image_list l = { 0 };

	if (*src != '\0' && (sbx_image_list_add(&l, src, size) != 0 ||
	    sbx_strlcpy(dst, src, size) != 0)) {
		dst[0] = '\0';
		im->config.dropped_config++;
	}
	for (size_t i = 0; i < l.n; i++)
		free(l.v[i]);
	free(l.v);
}

static void
take_list(struct importer *im, struct sbx_image_list *l, size_t max,
    struct json_object *a, bool env)
{
	size_t n = a == NULL ? 0 : json_object_array_length(a);
	struct json_object *v;
	const char *s;

	for (size_t i = 0; i < n; i++) {
		v = json_object_array_get_idx(a, i);
		s = plain(v);
		if ((*s == '\0' && json_object_get_string_len(v) != 0) ||
		    !json_object_is_type(v, json_type_string) ||
		    (env && !sbx_image_is_env(s)) ||
		    sbx_image_list_add(l, s, max) != 0)
			im->config.dropped_config++;
	}
}

static int
take_config(struct importer *im, struct json_object *o)
{
	struct json_object *c = object_of(o, "config");
	struct json_object *entry = array_of(c, "Entrypoint");

	take_text(im, im->config.user, sizeof(im->config.user),
	    text_of(c, "User"));
	take_text(im, im->config.workdir, sizeof(im->config.workdir),
	    text_of(c, "WorkingDir"));
	take_text(im, im->config.architecture, sizeof(im->config.architecture),
	    text_of(o, "architecture"));
	take_list(im, &im->config.env, SBX_IMAGE_ENV_MAX, array_of(c, "Env"),
	    true);
	take_list(im, &im->config.entrypoint, SBX_IMAGE_ENTRYPOINT_MAX, entry,
	    false);
	take_list(im, &im->config.entrypoint, SBX_IMAGE_ENTRYPOINT_MAX,
	    array_of(c, "Cmd"), false);
	/* an index may say nothing of it, and docker save has none */
	if (im->config.architecture[0] != '\0' &&
	    strcmp(im->config.architecture, im->machine) != 0)
		return (import_fail(im, SBX_E_UNSUPPORTED, "it is for %s, and "
		    "this machine is %s", im->config.architecture,
		    im->machine));
	return (0);
}

/* --- layers --------------------------------------------------------------------------- */

static int
apply(struct importer *im, const char *path, const char *diff_id)
{
	int SBX_CLEANUP(fd) fd = source_part(im, path);
	char hex[65];
	int r;

	if (fd == -1)
		return (im->err.code);
	if (++im->config.layers > MAX_LAYERS)
		return (import_fail(im, SBX_E_LIMIT, "the image has more than "
		    "%u layers", MAX_LAYERS));
	im->layered = true;
	seen_clear(&im->seen);
	if ((r = source_tar(im, fd, hex)) != 0)
		return (r);
	if (strncmp(diff_id, "sha256:", 7) != 0 ||
	    strcmp(diff_id + 7, hex) != 0)
		return (import_fail(im, SBX_E_POLICY, "layer %llu is not the "
		    "one that the configuration names",
		    (unsigned long long)im->config.layers));
	return (0);
}

static struct json_object *
diff_ids(struct importer *im, struct json_object *config, size_t layers)
{
	struct json_object *ids = array_of(object_of(config, "rootfs"),
	    "diff_ids");

	if (ids == NULL || json_object_array_length(ids) != layers ||
	    layers == 0 || layers > MAX_LAYERS) {
		(void)import_fail(im, SBX_E_SYNTAX, "the configuration and "
		    "the manifest do not name the same layers, 1 to %u",
		    MAX_LAYERS);
		return (NULL);
	}
	return (ids);
}

static const char *
string_at(struct json_object *a, size_t i)
{
	return (plain(json_object_array_get_idx(a, i)));
}

/* --- OCI ---------------------------------------------------------------------------------- */

/* blobs/sha256/HEX of a descriptor, whose bytes are what it says. */
static int
blob_path(struct importer *im, struct json_object *descriptor, char dst[96])
{
	const char *digest = text_of(descriptor, "digest");
	int SBX_CLEANUP(fd) fd = -1;
	char hex[65];
	int r;

	if (!sbx_image_is_digest(digest))
		return (import_fail(im, SBX_E_SYNTAX, "a descriptor has no "
		    "digest of sha256"));
	(void)snprintf(dst, 96, "blobs/sha256/%.64s", digest + 7);
	if ((fd = source_part(im, dst)) == -1)
		return (im->err.code);
	if ((r = hash_file(im, fd, hex)) != 0)
		return (r);
	if (strcmp(hex, digest + 7) != 0)
		return (import_fail(im, SBX_E_POLICY, "a part does not have "
		    "the digest that it is named by: %.19s...", digest));
	return (0);
}

/* The only one, under any number of tags; NULL: there are several. */
static struct json_object *
only(struct json_object *manifests, size_t n)
{
	struct json_object *first = json_object_array_get_idx(manifests, 0);

	for (size_t i = 1; i < n; i++)
		if (strcmp(text_of(json_object_array_get_idx(manifests, i),
		    "digest"), text_of(first, "digest")) != 0)
			return (NULL);
	return (first);
}

/* The one for this machine; the only one, where it names no platform. */
static struct json_object *
choose(struct importer *im, struct json_object *manifests)
{
	size_t n = manifests == NULL ? 0 : json_object_array_length(manifests);
	struct json_object *d, *p;
	size_t unsaid = 0;

	for (size_t i = 0; i < n; i++) {
		d = json_object_array_get_idx(manifests, i);
		p = object_of(d, "platform");
		if (strcmp(text_of(p, "os"), "linux") == 0 &&
		    strcmp(text_of(p, "architecture"), im->machine) == 0)
			return (d);
		unsaid += p == NULL;
	}
	if (n > 0 && unsaid == n && (d = only(manifests, n)) != NULL)
		return (d);
	if (unsaid > 1)
		(void)import_fail(im, SBX_E_EXISTS, "it holds %zu images and "
		    "does not say for which machine: copy one of them (skopeo "
		    "copy oci:FROM:TAG oci:TO)", n);
	else
		(void)import_fail(im, SBX_E_NOENT, "it holds no image for "
		    "linux/%s, but %zu others", im->machine, n);
	return (NULL);
}

static int
manifest(struct importer *im, struct json_object *m)
{
	struct json_object *layers = array_of(m, "layers"), *config, *ids;
	size_t n = layers == NULL ? 0 : json_object_array_length(layers);
	char path[96];
	int r;

	if ((r = blob_path(im, object_of(m, "config"), path)) != 0)
		return (r);
	if ((config = parse(im, path)) == NULL)
		return (im->err.code);
	ids = diff_ids(im, config, n);
	r = ids == NULL ? im->err.code : take_config(im, config);
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = blob_path(im, json_object_array_get_idx(layers, i), path);
		if (r == 0)
			r = apply(im, path, string_at(ids, i));
	}
	json_object_put(config);
	return (r);
}

int
layers_oci(struct importer *im)
{
	struct json_object *o = parse(im, "index.json"), *d;
	char path[96];
	int r = o == NULL ? im->err.code : 0;

	for (int depth = 0; r == 0 && array_of(o, "layers") == NULL; depth++) {
		d = depth < MAX_INDEX_DEPTH ? choose(im,
		    array_of(o, "manifests")) : NULL;
		r = d == NULL ? import_fail(im, SBX_E_SYNTAX, "no manifest is "
		    "found in it") : blob_path(im, d, path);
		if (r != 0)
			break;
		take_text(im, im->config.source_digest,
		    sizeof(im->config.source_digest), text_of(d, "digest"));
		json_object_put(o);
		o = parse(im, path);
		r = o == NULL ? im->err.code : 0;
	}
	if (r == 0)
		r = manifest(im, o);
	json_object_put(o);
	return (r);
}

/* --- docker save ------------------------------------------------------------------------------ */

/* Its configuration's digest is the image's id there. */
static int
docker_id(struct importer *im, const char *path)
{
	int SBX_CLEANUP(fd) fd = source_part(im, path);
	char hex[65];
	int r;

	if (fd == -1)
		return (im->err.code);
	if ((r = hash_file(im, fd, hex)) == 0)
		(void)snprintf(im->config.source_digest,
		    sizeof(im->config.source_digest), "sha256:%s", hex);
	return (r);
}

static int
docker_image(struct importer *im, struct json_object *image)
{
	const char *config_path = text_of(image, "Config");
	struct json_object *layers = array_of(image, "Layers"), *config, *ids;
	size_t n = layers == NULL ? 0 : json_object_array_length(layers);
	int r;

	if ((config = parse(im, config_path)) == NULL)
		return (im->err.code);
	ids = diff_ids(im, config, n);
	r = ids == NULL ? im->err.code : take_config(im, config);
	if (r == 0)
		r = docker_id(im, config_path);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = apply(im, string_at(layers, i), string_at(ids, i));
	json_object_put(config);
	return (r);
}

int
layers_docker(struct importer *im)
{
	struct json_object *o = parse(im, "manifest.json");
	int r;

	if (o == NULL)
		return (im->err.code);
	if (!json_object_is_type(o, json_type_array) ||
	    json_object_array_length(o) != 1)
		r = import_fail(im, SBX_E_SYNTAX, "manifest.json must name "
		    "exactly one image (docker save IMAGE)");
	else
		r = docker_image(im, json_object_array_get_idx(o, 0));
	json_object_put(o);
	return (r);
}
