#include "sbxd/monitor/publish.h"

#include "common/base/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Pushes whose end is not known: the suite was killed, or the publisher went
 * away.  Each that may begin has its place in a file beside the journal, mapped
 * before the cage, so that it is there after any end of this process without a
 * call that the cage would have to permit; it is taken out when its end is known.
 * What is left is looked at with a read grant, in a sandbox made for that, one
 * after the other, never before somebody's start.
 */

#define PUSHED_SET 0x70757331u	/* of this layout */
#define AGE_NS (30 * S_NS)	/* a server may still be at work on it */
#define TRY_NS (60 * S_NS)	/* from one look to the next */
#define TRIES 3			/* then it is left to whoever asks */
#define MAKE_NS (60 * S_NS)

/* One place.  state is written last: what is torn by an end is not there. */
struct pushed {
	_Atomic uint32_t state;		/* PUSHED_SET, else it is free */
	uint32_t unused;
	uint64_t wall_ns;
	char run[SBX_RUN_HEX + 1], who[65], work[SBX_CONTAINER_HEX + 1];
	char host[254], repo[141], branch[245];
	char old[65], commit[65], tree[65], names_hash[65];
};
_Static_assert(sizeof(struct pushed) == 1016, "another PUSHED_SET with it");

int
setup_pushes(struct monitor *m, int dir, struct sbx_err *err)
{
	const size_t size = MAX_PUSHES * sizeof(struct pushed);
	int SBX_CLEANUP(fd) fd = openat(dir, "pushes", O_RDWR | O_CREAT |
	    O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	struct stat st;
	void *map;

	if (fd == -1 || fstat(fd, &st) == -1)
		return (sbx_err_sys(err, "pushes"));
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return (sbx_err_set(err, SBX_E_POLICY, "pushes: it is no file "
		    "of this user's: remove it"));
	/* with all of its blocks: a full disk must not end us later */
	if ((errno = posix_fallocate(fd, 0, (off_t)size)) != 0)
		return (sbx_err_sys(err, "pushes"));
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return (sbx_err_sys(err, "pushes"));
	m->pushes = map;
	return (0);
}

static bool
is_set(const struct pushed *q)
{
	return (atomic_load(&q->state) == PUSHED_SET);
}

static struct pushed *
pushed_find(struct monitor *m, const char *run)
{
	for (size_t i = 0; i < MAX_PUSHES; i++)
		if (is_set(&m->pushes[i]) &&
		    strcmp(m->pushes[i].run, run) == 0)
			return (&m->pushes[i]);
	return (NULL);
}

/* The oldest makes room, for want of another: the journal has its record. */
static struct pushed *
place(struct monitor *m)
{
	struct pushed *old = &m->pushes[0];

	for (size_t i = 0; i < MAX_PUSHES; i++) {
		if (!is_set(&m->pushes[i]))
			return (&m->pushes[i]);
		if (m->pushes[i].wall_ns < old->wall_ns)
			old = &m->pushes[i];
	}
	log_warn("publication %s: how its push ended is looked for no more",
	    old->run);
	atomic_store(&old->state, 0);
	return (old);
}

void
publish_note(const struct publish *p)
{
	struct pushed *q = place(p->m);

	q->wall_ns = sbx_wall_ns();
	memcpy(q->run, p->id, sizeof(q->run));
	(void)sbx_strlcpy(q->who, p->who->name, sizeof(q->who));
	memcpy(q->work, p->work, sizeof(q->work));
	memcpy(q->host, p->host, sizeof(q->host));
	memcpy(q->repo, p->repo, sizeof(q->repo));
	memcpy(q->branch, p->branch, sizeof(q->branch));
	memcpy(q->old, p->tip, sizeof(q->old));
	memcpy(q->commit, p->commit, sizeof(q->commit));
	memcpy(q->tree, p->tree, sizeof(q->tree));
	memcpy(q->names_hash, p->names_hash, sizeof(q->names_hash));
	atomic_store(&q->state, PUSHED_SET);
	p->m->push_tries[q - p->m->pushes] = 0;
}

void
publish_known(const struct publish *p)
{
	struct pushed *q = pushed_find(p->m, p->id);

	if (q != NULL)
		atomic_store(&q->state, 0);
}

/* --- looking --------------------------------------------------------------------- */

static bool
ends(const char *s, size_t size)
{
	return (memchr(s, '\0', size) != NULL);
}

/* The file may be of another version, or damaged. */
static bool
is_good(const struct pushed *q)
{
	const size_t n = ends(q->commit, sizeof(q->commit)) ?
	    strlen(q->commit) : 0;

	return (ends(q->run, sizeof(q->run)) &&
	    sbx_is_hex(q->run, SBX_RUN_HEX) && ends(q->who, sizeof(q->who)) &&
	    ends(q->work, sizeof(q->work)) && ends(q->host, sizeof(q->host)) &&
	    ends(q->repo, sizeof(q->repo)) &&
	    ends(q->branch, sizeof(q->branch)) &&
	    ends(q->old, sizeof(q->old)) && ends(q->tree, sizeof(q->tree)) &&
	    ends(q->names_hash, sizeof(q->names_hash)) &&
	    (n == 40 || n == 64) && sbx_is_hex(q->commit, n) &&
	    (q->old[0] == '\0' || sbx_is_hex(q->old, n)) &&
	    repos_is_one(q->host, q->repo) && publish_branch_is_good(q->branch));
}

/* No publication is at it. */
static bool
is_lost(const struct monitor *m, const struct pushed *q)
{
	const struct publish *p;

	for (p = m->publishes; p < m->publishes + MAX_PUBLISHES; p++)
		if (p->used && p->phase != SBX_PUBLISH_ENDED &&
		    strcmp(p->id, q->run) == 0)
			return (false);
	return (is_set(q));
}

/* As a publication that only looks, under the id of the one that pushed. */
static void
fill(struct publish *p, const struct pushed *q)
{
	memcpy(p->id, q->run, sizeof(p->id));
	memcpy(p->whose, q->who, sizeof(p->whose));
	memcpy(p->work, q->work, sizeof(p->work));
	memcpy(p->host, q->host, sizeof(p->host));
	memcpy(p->repo, q->repo, sizeof(p->repo));
	memcpy(p->branch, q->branch, sizeof(p->branch));
	memcpy(p->tip, q->old, sizeof(p->tip));
	memcpy(p->base, q->commit, sizeof(p->base));	/* what kind ids are */
	memcpy(p->commit, q->commit, sizeof(p->commit));
	memcpy(p->tree, q->tree, sizeof(p->tree));
	memcpy(p->names_hash, q->names_hash, sizeof(p->names_hash));
}

/* NULL, or why there is none. */
static const char *
make_box(struct publish *p)
{
	struct monitor *m = p->m;
	struct limits limits;
	struct sandbox *sb;
	const char *code;
	char text[256];

	if (limits_resolve(m, &(struct sbx_sb_create){ 0 }, &limits, &code,
	    text, sizeof(text)) != NULL)
		return ("its sandbox cannot have limits");
	sb = sandbox_hidden(m, p->who, m->conf.publish_image);
	sb->network = true;
	sb->limits = limits;
	memcpy(p->box, sb->id, sizeof(p->box));
	if (sandbox_send_create(m, sb, ""))
		return (NULL);
	p->box[0] = '\0';
	sandbox_free(m, sb);
	return ("the engine is not there");
}

/* NULL, or why not. */
static const char *
look(struct monitor *m, const struct pushed *q)
{
	struct principal *who = principal_suite(m);
	struct publish *p;
	const char *why;

	for (p = m->publishes; p < m->publishes + MAX_PUBLISHES; p++)
		if (p->used && p->look && strcmp(p->id, q->run) == 0)
			publish_free(p);	/* an earlier look */
	p = who != NULL ? publish_room(m, who) : NULL;
	if (p == NULL)
		return ("as many publications are under way as may be");
	if (p->used)
		publish_free(p);
	*p = (struct publish){ .used = true, .m = m, .look = true,
		.who = who, .base_fd = -1, .began_ns = sbx_mono_ns(),
		.by_ns = sbx_mono_ns() + MAKE_NS,
		.phase = SBX_PUBLISH_MAKING };
	fill(p, q);
	if ((why = make_box(p)) != NULL) {
		publish_free(p);
		return (why);
	}
	tick_arm(m);
	journal_add(m, &(struct record){ .op = "publish", .phase = "look",
	    .who = who, .container = p->work, .run = p->id }, "of", p->whose,
	    "host", p->host, "repo", p->repo, "branch", p->branch, "commit",
	    p->commit, "sandbox", p->box, NULL);
	return (NULL);
}

/* Where the branch is, by a script of which nothing that is hostile has a part:
 * its sandbox was made for it, and what it reads is only read. */
void
publish_found(struct publish *p, const char *at, const char *in)
{
	if (strcmp(at, p->commit) == 0 || strcmp(in, "yes") == 0)
		publish_end(p, SBX_PUBLISH_PUSHED);
	else if (strcmp(at, p->tip) == 0)
		publish_refuse(p, "push", "the branch is where it was before "
		    "the push");
	else
		publish_refuse(p, "unknown", "the branch is at %s by now",
		    at[0] != '\0' ? at : "-");
}

/* A look that failed says nothing of the push; one that found the branch where
 * it was says that nothing arrived. */
enum sbx_publish_outcome
publish_look_outcome(const char *step)
{
	return (strcmp(step, "push") == 0 ? SBX_PUBLISH_REFUSED :
	    SBX_PUBLISH_UNKNOWN);
}

/* The end of a look: its record, and the word for whoever pushed. */
void
publish_reconciled(struct publish *p)
{
	struct publish *o;

	journal_add(p->m, &(struct record){ .flags = SBX_JOURNAL_RESERVED,
	    .op = "publish", .phase = "settled", .who = p->who,
	    .container = p->work, .run = p->id, .code = p->outcome ==
	    SBX_PUBLISH_UNKNOWN }, "outcome", publish_outcome(p), "reason",
	    p->reason, "of", p->whose, "host", p->host, "repo", p->repo,
	    "branch", p->branch, "commit", p->commit, NULL);
	if (p->outcome == SBX_PUBLISH_UNKNOWN)
		return;
	publish_known(p);
	for (o = p->m->publishes; o < p->m->publishes + MAX_PUBLISHES; o++)
		if (o->used && !o->look && strcmp(o->id, p->id) == 0) {
			o->outcome = p->outcome;
			memcpy(o->step, p->step, sizeof(o->step));
			(void)snprintf(o->reason, sizeof(o->reason), "%s",
			    p->outcome == SBX_PUBLISH_PUSHED ? "" : p->reason);
		}
}

/* --- when ------------------------------------------------------------------------- */

/* One at a time, and each a few times. */
void
publish_reconcile_tick(struct monitor *m, uint64_t now_ns)
{
	const uint64_t wall = sbx_wall_ns();

	if (!m->serving || m->locked)
		return;
	for (size_t i = 0; i < MAX_PUSHES; i++) {
		struct pushed *q = &m->pushes[i];

		if (!is_set(q) || m->push_tries[i] >= TRIES || !is_lost(m, q))
			continue;
		if (!is_good(q)) {
			log_warn("pushes: a damaged place is given up");
			atomic_store(&q->state, 0);
			continue;
		}
		tick_arm(m);
		/* also where the clock was set back */
		if (now_ns < m->push_next_ns || (q->wall_ns <= wall &&
		    wall - q->wall_ns < AGE_NS))
			continue;
		m->push_next_ns = now_ns + TRY_NS;
		if (look(m, q) == NULL)
			m->push_tries[i]++;	/* else again later */
		return;
	}
}

void
publish_reconcile_ask(struct ctl *c, const char *run)
{
	struct pushed *q = pushed_find(c->m, run);
	const char *why = c->m->locked ? LOCKED_WHY : NULL;

	if (q == NULL || !is_good(q) || !is_lost(c->m, q)) {
		ctl_refuse(c, "unknown_run", "`sbx publish list` shows those "
		    "whose outcome is unknown.", "publication %s has no push "
		    "whose end is to be found out", run);
		return;
	}
	if (why == NULL)
		why = look(c->m, q);
	if (why != NULL) {
		ctl_refuse(c, "busy", "Try again later.", "%s", why);
		return;
	}
	(void)sbx_send_ctl_publish_answered(c->peer, c->id,
	    &(struct sbx_ctl_publish_answered){ 0 }, NULL);
	ctl_over(c);
}
