/*
 * Images of the store, for as long as a sandbox uses them.  What they say of
 * themselves comes from outside: it is shown and, of the environment, passed
 * on to guests, and never used as a path or a name here.
 */
#include "sbxd/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static struct image *
find(struct engine *e, const char *hex)
{
	struct image *im;

	LIST_FOREACH(im, &e->images, link)
		if (strcmp(im->hex, hex) == 0)
			return (im);
	return (NULL);
}

static bool
has_dir(int dir, const char *name)
{
	struct stat st;

	return (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode));
}

void
image_put(struct image *im)
{
	if (im == NULL || --im->refs > 0)
		return;
	if (im->e->recent == im)
		im->e->recent = NULL;
	LIST_REMOVE(im, link);
	sbx_close(&im->dir);
	/* It may be removed now.  Not by closing alone: a child that was
	 * forked a moment ago may not have come to that yet. */
	if (im->lock != -1)
		(void)flock(im->lock, LOCK_UN);
	sbx_close(&im->lock);
	sbx_image_config_clear(&im->config);
	free(im);
}

struct image *
image_hold(struct image *im)
{
	im->refs++;
	return (im);
}

static struct image *
image_new(struct engine *e, const char *hex)
{
	struct image *im = sbx_xcalloc(1, sizeof(*im));

	im->e = e;
	im->refs = 1;
	im->dir = im->lock = -1;
	(void)sbx_strlcpy(im->hex, hex, sizeof(im->hex));
	LIST_INSERT_HEAD(&e->images, im, link);
	return (im);
}

void
image_add_host(struct engine *e)
{
	struct image *im = image_new(e, "");

	im->binds = &e->binds;
	(void)sbx_strlcpy(im->layers[0], SKEL, sizeof(im->layers[0]));
	im->nlayers = 1;
	e->recent = im;
}

static int
load(struct image *im, struct sbx_err *err)
{
	static const char *const parts[] = { "skel", "rootfs" };
	int r = sbx_image_open(im->e->images_fd, im->hex, &im->dir, &im->lock,
	    err);

	if (r == 0)
		r = sbx_image_config_read(im->dir, &im->config, err);
	for (size_t i = 0; r == 0 && i < SBX_NELEM(parts); i++) {
		if (!has_dir(im->dir, parts[i]))
			r = sbx_err_set(err, SBX_E_NOENT, "image %.12s has no "
			    "directory %s: import it again", im->hex,
			    parts[i]);
		(void)snprintf(im->layers[i], sizeof(im->layers[i]),
		    IMAGES "/%s/%s", im->hex, parts[i]);
	}
	im->nlayers = SBX_NELEM(parts);
	return (r);
}

int
image_get(struct engine *e, const char *wanted, struct image **ret,
    struct sbx_err *err)
{
	char hex[SBX_IMAGE_HEX + 1] = "";
	struct image *im;
	int r = 0;

	if (strcmp(wanted, SBX_IMAGE_HOST) != 0)
		r = sbx_image_resolve(e->images_fd, wanted, hex, err);
	if (r < 0)
		return (r);
	if ((im = find(e, hex)) != NULL) {
		*ret = image_hold(im);
		return (0);
	}
	im = image_new(e, hex);
	if ((r = load(im, err)) < 0) {
		image_put(im);
		return (r);
	}
	*ret = im;
	return (0);
}

/* A store that cannot be read has none; whoever then names one is told why. */
const char *
image_first(struct engine *e, const struct sbx_strs *names)
{
	const char *name = NULL;
	struct sbx_err err;
	struct image *im;

	while ((name = sbx_strs_next(names, name)) != NULL)
		if (image_get(e, name, &im, &err) == 0) {
			image_put(im);
			return (name);
		}
	return ("");
}

/* --- what guests find in their environment ----------------------------------- */

static const char *const guest_env[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"LANG=C.UTF-8",
};
/* Never an image's: they say who the user is here, and what the way out is. */
static const char *const fixed_env[] = {
	"HOME=/home/sandbox", "USER=sandbox", "LOGNAME=sandbox",
	"SHELL=/bin/bash",
};
static const char *const never[] = { "http_proxy", "https_proxy", "ftp_proxy",
	"all_proxy", "no_proxy" };

/* Do two NAME=value have the same name? */
static bool
same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return (strncmp(a, b, n) == 0 && b[n] == '=');
}

static bool
ours(const char *var)
{
	size_t n = strcspn(var, "=");

	for (size_t i = 0; i < SBX_NELEM(fixed_env); i++)
		if (same_name(fixed_env[i], var))
			return (true);
	for (size_t i = 0; i < SBX_NELEM(never); i++)
		if (strlen(never[i]) == n && strncasecmp(never[i], var, n) == 0)
			return (true);
	return (false);
}

/* A variable that is given twice has the last value, as in a shell. */
static bool
given_after(const struct sbx_image_list *l, size_t from, const char *var)
{
	for (size_t i = from; i < l->n; i++)
		if (same_name(var, l->v[i]))
			return (true);
	return (false);
}

int
image_env(const struct image *im, struct sbx_strs *strs, struct sbx_buf *b)
{
	const struct sbx_image_list *l = &im->config.env;
	int r = 0;

	for (size_t i = 0; r == 0 && i < SBX_NELEM(fixed_env); i++)
		r = sbx_strs_add(strs, b, fixed_env[i]);
	for (size_t i = 0; r == 0 && i < SBX_NELEM(guest_env); i++)
		if (!given_after(l, 0, guest_env[i]))
			r = sbx_strs_add(strs, b, guest_env[i]);
	for (size_t i = 0; r == 0 && i < l->n; i++)
		if (!ours(l->v[i]) && !given_after(l, i + 1, l->v[i]))
			r = sbx_strs_add(strs, b, l->v[i]);
	return (r);
}

int
image_strs(const struct sbx_image_list *l, struct sbx_strs *strs,
    struct sbx_buf *b)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++)
		r = sbx_strs_add(strs, b, l->v[i]);
	return (r);
}
