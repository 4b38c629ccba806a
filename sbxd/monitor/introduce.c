#include "sbxd/monitor/monitor.h"

/*
 * Channels between two children.  The monitor makes the pair and hands out
 * the ends: there is no other way for two of them to meet.
 */

static const struct {
	enum sbx_proc a, b;
} pairs[] = {
	{ SBX_PROC_ENGINE, SBX_PROC_RECORDER },	/* RUN_OPEN, RUN_CLOSED */
	{ SBX_PROC_ENGINE, SBX_PROC_PROXY },	/* PROXY_LISTENER */
	{ SBX_PROC_PROXY, SBX_PROC_JOURNALD },	/* JOURNAL_APPEND */
	{ SBX_PROC_BROKER, SBX_PROC_JOURNALD },	/* the same */
};

static int
introduce_one(struct component *to, enum sbx_proc other, int fd)
{
	const struct sbx_introduce msg = { .peer = other };

	return (sbx_send_introduce(to->peer, 0, &msg, &fd));
}

/* After each start of `started`: its new life gets new channels, and the
 * other end replaces the old one. */
void
introduce(struct monitor *m, enum sbx_proc started)
{
	struct component *a, *b;
	int pair[2];
	size_t i;

	for (i = 0; i < SBX_NELEM(pairs); i++) {
		a = &m->comps[pairs[i].a];
		b = &m->comps[pairs[i].b];
		if (a->proc != started && b->proc != started)
			continue;
		if (a->peer == NULL || b->peer == NULL)
			continue;	/* the later start of the two does it */
		if (sbx_wire_pair(pair) != 0)
			sbx_fatal("no socketpair to introduce %s and %s",
			    sbx_proc_name(a->proc), sbx_proc_name(b->proc));
		if (introduce_one(a, b->proc, pair[0]) != 0 ||
		    introduce_one(b, a->proc, pair[1]) != 0)
			log_warn("%s and %s could not be introduced, ignoring",
			    sbx_proc_name(a->proc), sbx_proc_name(b->proc));
		sbx_close(&pair[0]);
		sbx_close(&pair[1]);
	}
}
