#ifndef SBX_MONITOR_PUBLISH_H
#define SBX_MONITOR_PUBLISH_H

/* Publications: an operator's view and word, and what is looked at later. */

#include "sbxd/monitor/monitor.h"

/* --- publish.c, publish_ask.c --------------------------------------------------- */
const char *publish_outcome(const struct publish *p);	/* a word */
void publish_end(struct publish *p, enum sbx_publish_outcome outcome);
/* Its next step is to be over by then, or it is refused. */
void publish_within(struct publish *p, uint64_t ns);
bool publish_branch_is_good(const char *s);
/* For a new one of who's; NULL: as many are under way as may be. */
struct publish *publish_room(struct monitor *m, const struct principal *who);
/* Without a grant, until its push. */
void publish_rest(struct publish *p);
/* From its verification and its approval on. */
void publish_push(struct publish *p);

/* --- publish_view.c: what operators see of them, and their word ---------------- */
#define PUBLISH_APPROVAL_NS (3600 * S_NS)	/* then it is refused */
/* Each answers c, soon or later. */
void publish_list(struct ctl *c);
void publish_show(struct ctl *c, const struct sbx_ctl_publish_show *q);
void publish_answer(struct ctl *c, const struct sbx_ctl_publish_answer *q);
/* RUN_DATA or RUN_NODATA, JOURNAL_DONE: false, it was for none of these. */
bool publish_looked(struct monitor *m, struct sbx_in *in);
bool publish_recorded(struct monitor *m, const struct sbx_in *in);
/* p ended: nobody waits for its approval any more. */
void publish_unanswered(struct publish *p);

/* --- publish_user.c ------------------------------------------------------------- */
/* That one begins: one that its user was asked about, and did not answer, ends. */
void publish_user_again(const struct publish *new);

/* --- publish_reconcile.c: pushes whose end is not known ------------------------ */
/* Before the cage; dir: borrowed, the suite's.  0, SBX_E_SYS, SBX_E_POLICY. */
int setup_pushes(struct monitor *m, int dir, struct sbx_err *err);
/* Before the grant for its push; when its end is known. */
void publish_note(const struct publish *p);
void publish_known(const struct publish *p);
void publish_found(struct publish *p, const char *at, const char *in);
enum sbx_publish_outcome publish_look_outcome(const char *step);
void publish_reconciled(struct publish *p);
void publish_reconcile_tick(struct monitor *m, uint64_t now_ns);
void publish_reconcile_ask(struct ctl *c, const char *run); /* answers c */

#endif
