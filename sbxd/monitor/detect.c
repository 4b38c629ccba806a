#include "sbxd/monitor/monitor.h"

#include "common/base/image.h"
#include "common/base/markers.h"

#include <stdio.h>
#include <string.h>

/*
 * Which image, when none is named: by the marker files at the top of what
 * the client may copy from.  sbxd-copyin looks, with the client's rights; the
 * engine says which images there are; nothing that goes wrong on the way is
 * an error, it makes the image `host` and the answer says why.  Both can only
 * choose among the names that are asked for here.
 */

#define FULL "full"
#define LOOK_NS (2 * S_NS)	/* of the reader, and then of the engine */

/* The reader is ended if it still runs; its peer's end finds no detect. */
static void
detect_free(struct detect *d)
{
	struct monitor *m = d->m;
	struct sbx_peer *peer = d->peer;

	if (d->instance != 0 && !d->exited && m->starter != NULL)
		(void)sbx_send_start_kill(m->starter, 0,
		    &(struct sbx_start_kill){ .proc = SBX_PROC_COPYIN,
		    .instance = d->instance }, NULL);
	memset(d, 0, sizeof(*d));
	if (peer != NULL)
		sbx_peer_end_later(peer, SBX_E_CLOSED);
}

/* image: borrowed, of this file or the engine's answer. */
static void
choose(struct detect *d, const char *image, const char *why)
{
	struct detect was = *d;
	struct worker *w = worker_find(d->m, d->worker_id);

	detect_free(d);
	if (w != NULL && w->ask.type == SBX_MSG_DEPS_MAKE)
		deps_image(was.m, w, image, why);
	if (w == NULL || w->ask.type != SBX_MSG_SB_CREATE)
		return;
	was.q.name = was.name;
	was.q.label = was.label;
	was.q.image = image;
	sandbox_create(was.m, w, &was.q, why);
}

static void
give_up(struct detect *d, const char *reason)
{
	char why[256];

	(void)snprintf(why, sizeof(why), "%s: " SBX_IMAGE_HOST, reason);
	choose(d, SBX_IMAGE_HOST, why);
}

/* --- what the engine has ------------------------------------------------- */

static void
ask_engine(struct detect *d)
{
	struct sbx_peer *engine = component_peer(d->m, SBX_PROC_ENGINE);
	struct sbx_buf b;
	struct sbx_image_find f = { .names = { .count = 0 } };

	sbx_buf_init(&b, sizeof(d->lang) + sizeof(FULL));
	d->find_id = ++d->m->next_id;
	d->by_ns = sbx_mono_ns() + LOOK_NS;
	if ((d->lang[0] != '\0' &&
	    sbx_strs_add(&f.names, &b, d->lang) != 0) ||
	    sbx_strs_add(&f.names, &b, FULL) != 0 || engine == NULL ||
	    sbx_send_image_find(engine, d->find_id, &f, NULL) != 0)
		d->find_id = 0;
	sbx_buf_clear(&b);
	if (d->find_id == 0)
		give_up(d, "the engine is not there to say which images "
		    "there are");
}

/* Its word: the engine has the store.  Another name than those asked for is
 * as good as none. */
void
detect_image_found(struct monitor *m, const struct sbx_image_found *q,
    uint32_t id)
{
	struct detect *d = NULL;
	const char *image = SBX_IMAGE_HOST, *by = "build ";
	char why[256];

	for (size_t i = 0; i < MAX_COPIES && d == NULL; i++)
		if (m->detects[i].used && m->detects[i].find_id == id)
			d = &m->detects[i];
	if (d == NULL)
		return;
	if (strcmp(d->lang, sbx_lang_image(SBX_LANG_RUST)) == 0)
		by = "Containerfile.";	/* build cannot make it */
	if (strcmp(q->name, FULL) == 0)
		image = FULL;
	if (d->lang[0] != '\0' && strcmp(q->name, d->lang) == 0) {
		image = q->name;
		(void)snprintf(why, sizeof(why), "%s: %s", d->seen, image);
	} else if (d->lang[0] != '\0') {
		(void)snprintf(why, sizeof(why), "%s, but the store has no "
		    "image %s (contrib/images/%s%s makes it): %s", d->seen,
		    d->lang, by, d->lang, image);
	} else if (strcmp(image, FULL) == 0) {
		(void)snprintf(why, sizeof(why), "%s: " FULL, d->seen);
	} else {
		(void)snprintf(why, sizeof(why), "%s, and the store has no "
		    "image " FULL ": " SBX_IMAGE_HOST, d->seen);
	}
	choose(d, image, why);
}

/* --- what the client has ------------------------------------------------- */

/* The first marker of each language, of three at most, as a half sentence. */
static void
conclude(struct detect *d)
{
	const char *first[SBX_LANG_MAX] = { NULL };
	size_t n = 0, said = 0, len = 0;
	enum sbx_lang lang = SBX_LANG_OTHER;

	for (size_t i = 0; i < sbx_markers_n; i++) {
		if (!(d->found >> i & 1) ||
		    first[sbx_markers[i].lang] != NULL)
			continue;
		lang = sbx_markers[i].lang;
		first[lang] = sbx_markers[i].name;
		n++;
	}
	for (size_t i = 0; i < SBX_LANG_MAX && said < 3; i++)
		if (first[i] != NULL)
			len += (size_t)snprintf(d->seen + len,
			    sizeof(d->seen) - len, "%s%s", said++ == 0 ? "" :
			    said == n ? " and " : ", ", first[i]);
	if (n == 0)
		(void)sbx_strlcpy(d->seen, "no file at the top of the client's "
		    "directory tells a language", sizeof(d->seen));
	else
		(void)snprintf(d->seen + len, sizeof(d->seen) - len, "%s",
		    n > 1 ? " are there, of several languages" : lang ==
		    SBX_LANG_OTHER ? " is there, for which no image is made" :
		    " is there");
	if (n == 1 && lang != SBX_LANG_OTHER)
		(void)sbx_strlcpy(d->lang, sbx_lang_image(lang),
		    sizeof(d->lang));
	ask_engine(d);
}

void
detect_looked(struct detect *d, const struct sbx_copyin_done *q)
{
	char reason[240];

	if (d->find_id != 0)
		return;
	if (q->error == 0) {
		conclude(d);
		return;
	}
	(void)snprintf(reason, sizeof(reason), "the client's directory could "
	    "not be looked at (%.120s)", q->reason);
	give_up(d, reason);
}

/* Whatever it still had to say was handled before this. */
static void
reader_ended(struct sbx_peer *p, int error)
{
	struct detect *d = detect_of_peer(sbx_peer_ctx(p), p);

	if (d == NULL)
		return;
	if (error != SBX_E_CLOSED)
		log_warn("copyin %u: channel closed: %s", d->instance,
		    sbx_error_name(error));
	d->peer = NULL;
	if (d->find_id == 0)
		give_up(d, "the look at the client's directory ended early");
}

/*
 * Safe for a hostile client: the root is the session's own, names at its top
 * are all that is read, with the client's rights and not ours.
 */
static int
look(struct detect *d, const struct worker *w)
{
	struct monitor *m = d->m;
	const int root = w->call->session->root_fd;
	const struct sbx_copyin_start cs = { .mode = SBX_COPY_MARKERS,
		.source = "", .uid = w->who->uid, .gid = w->who->gid };
	int pair[2], r;

	if ((r = sbx_wire_pair(pair)) != 0)
		return (r);
	d->instance = ++m->next_copy;
	r = sbx_send_start(m->starter, 0, &(struct sbx_start){
	    .proc = SBX_PROC_COPYIN, .instance = d->instance }, &pair[1]);
	sbx_close(&pair[1]);
	d->peer = sbx_peer_new(m->base, pair[0], &monitor_from_copyin, m,
	    reader_ended);
	if (r != 0)
		return (r);
	return (sbx_send_copyin_start(d->peer, 0, &cs,
	    (int[]){ root, root, root, root }));
}

/* --- all of it ----------------------------------------------------------- */

static struct detect *
detect_new(struct monitor *m, struct worker *w, const struct sbx_sb_create *q)
{
	struct detect *d = NULL;

	for (size_t i = 0; i < MAX_COPIES && d == NULL; i++)
		if (!m->detects[i].used)
			d = &m->detects[i];
	if (d == NULL)
		return (NULL);
	*d = (struct detect){ .used = true, .m = m, .worker_id = w->id,
		.q = *q, .by_ns = sbx_mono_ns() + LOOK_NS };
	/* the message goes away before the answer comes */
	(void)sbx_strlcpy(d->name, q->name, sizeof(d->name));
	(void)sbx_strlcpy(d->label, q->label, sizeof(d->label));
	d->q.snapshot = "";
	return (d);
}

void
detect_create(struct monitor *m, struct worker *w,
    const struct sbx_sb_create *q)
{
	struct sbx_sb_create named = *q;
	const char *why = "";
	struct detect *d;

	if (q->image[0] == '\0' && q->snapshot[0] == '\0') {
		named.image = m->conf.default_image;
		why = "none was named: default_image";
	}
	if (q->snapshot[0] != '\0' ||
	    strcmp(named.image, SBX_IMAGE_AUTO) != 0) {
		if (w->ask.type == SBX_MSG_DEPS_MAKE)
			deps_image(m, w, named.image, why);
		else
			sandbox_create(m, w, &named, why);
		return;
	}
	if ((d = detect_new(m, w, q)) == NULL) {
		ask_refuse(w, "busy", "Retry, or name an image.", "too many "
		    "sandboxes are being made");
		return;
	}
	tick_arm(m);
	if (w->call->session->root_fd == -1) {
		(void)sbx_strlcpy(d->seen, "this client opened no directory "
		    "to look at", sizeof(d->seen));
		ask_engine(d);
	} else if (look(d, w) != 0) {
		give_up(d, "the look at the client's directory could not be "
		    "started");
	}
}

struct detect *
detect_of_peer(struct monitor *m, const struct sbx_peer *p)
{
	for (size_t i = 0; i < MAX_COPIES; i++)
		if (m->detects[i].used && m->detects[i].peer == p)
			return (&m->detects[i]);
	return (NULL);
}

void
detect_exited(struct monitor *m, uint32_t instance)
{
	for (size_t i = 0; i < MAX_COPIES; i++)
		if (m->detects[i].used && m->detects[i].instance == instance)
			m->detects[i].exited = true;
}

void
detect_worker_gone(struct monitor *m, uint32_t worker_id)
{
	for (size_t i = 0; i < MAX_COPIES; i++)
		if (m->detects[i].used && m->detects[i].worker_id == worker_id)
			detect_free(&m->detects[i]);
}

void
detect_tick(struct monitor *m, uint64_t now_ns)
{
	struct detect *d;

	for (size_t i = 0; i < MAX_COPIES; i++) {
		d = &m->detects[i];
		if (!d->used)
			continue;
		tick_arm(m);
		if (now_ns > d->by_ns)
			give_up(d, d->find_id != 0 ? "the engine did not say "
			    "in 2 s which images there are" : "the look at "
			    "the client's directory took more than 2 s");
	}
}
