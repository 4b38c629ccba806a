#include "sbxd/monitor/monitor.h"

#include "config.h"

#include "common/base/json.h"
#include "common/base/mask.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/*
 * The monitor's records.  It journals what it performs: start, then end.  A
 * crossing goes on only from JOURNAL_DONE of its start record; everything else
 * is sent and not waited for, and what a dead journal missed is counted in the
 * first record that it takes again.
 */

#define FIELDS_MAX 24576
#define VALUE_MAX 4096
#define BACKLOG 512		/* records; the queue ends its peer at 1024 */
#define COMMIT_S 10		/* a crossing waits for its record no longer */

bool
journal_up(const struct monitor *m, const char **ret_why)
{
	const struct component *c = &m->comps[SBX_PROC_JOURNALD];

	if (c->peer == NULL) {
		*ret_why = component_why(m, SBX_PROC_JOURNALD);
		return (false);
	}
	if (c->state == COMP_READY && !m->journal_able) {
		*ret_why = m->journal_reason;
		return (false);
	}
	return (true);
}

/* Cut rather than refused: foreign text must not be able to lose a record. */
static void
add_field(struct sbx_strs *s, struct sbx_buf *b, const char *key,
    const char *value)
{
	char cut[VALUE_MAX];

	if (strlen(value) >= sizeof(cut)) {
		(void)snprintf(cut, sizeof(cut), "%.*s...",
		    (int)sizeof(cut) - 4, value);
		value = cut;
	}
	/* a record with a field too many is better than none */
	if (sbx_strs_add(s, b, key) == 0)
		(void)sbx_strs_add(s, b, value);
}

/* --- what a run's principal may read ---------------------------------------- */

/* As journald has it: masked before escaping could break a secret's shape. */
static void
add_member(struct sbx_buf *b, const char *before, const char *key,
    const char *value)
{
	char text[VALUE_MAX];
	size_t len = strnlen(value, sizeof(text));

	memcpy(text, value, len);
	(void)sbx_mask(text, &len);
	(void)sbx_buf_printf(b, "%s\"%s\":", before, key);
	(void)sbx_json_str(b, text, len, NULL);
}

/* A line; b->overflow when it does not fit. */
static void
render(struct sbx_buf *b, const struct sbx_journal_append *a)
{
	const char *key = NULL, *value = NULL, *before = "";
	char sent[SBX_WALL_SIZE];

	sbx_wall_text(sbx_wall_ns(), sent);
	add_member(b, "{", "sent", sent);
	add_member(b, ",", "component", sbx_proc_name(SBX_PROC_MONITOR));
	add_member(b, ",", "op", a->op);
	add_member(b, ",", "phase", a->phase);
	add_member(b, ",", "principal", a->principal);
	add_member(b, ",", "container_id", a->container);
	add_member(b, ",", "run_id", a->run);
	(void)sbx_buf_printf(b, ",\"code\":%" PRId32 ",\"fields\":{", a->code);
	while ((key = sbx_strs_next(&a->fields, value)) != NULL) {
		value = sbx_strs_next(&a->fields, key);
		add_member(b, before, key, value != NULL ? value : "");
		before = ",";
		if (value == NULL)
			break;
	}
	(void)sbx_buf_str(b, "}}\n");
}

/*
 * Kept masked: what a sandbox prints may take over a worker, and that worker
 * may ask for this.
 */
static void
keep(struct monitor *m, const struct record *r,
    const struct sbx_journal_append *a)
{
	struct run *run = r->run != NULL ? run_find(m, r->run) : NULL;
	struct sbx_buf SBX_CLEANUP_BUF line = { 0 };
	const char *end;

	if (run == NULL || run->who != r->who)
		return;
	sbx_buf_init(&line, SBX_RUN_RECORDS_BYTES);
	render(&line, a);
	if (line.overflow) {
		run->records_dropped++;
		return;
	}
	while (run->nrecords == SBX_RUN_RECORDS ||
	    run->records.len + line.len > SBX_RUN_RECORDS_BYTES) {
		end = memchr(run->records.data, '\n', run->records.len);
		sbx_buf_consume(&run->records,
		    (size_t)(end - run->records.data) + 1);
		run->nrecords--;
		run->records_dropped++;
	}
	(void)sbx_buf_add(&run->records, line.data, line.len);
	run->nrecords++;
}

/* Safe for a hostile worker: the run must be its principal's. */
void
journal_run(struct monitor *m, struct worker *w, const char *id)
{
	const struct run *r = run_own(m, w, id);

	if (r == NULL)
		return;
	(void)sbx_send_run_records(w->peer, w->ask.id,
	    &(struct sbx_run_records){ .text = r->nrecords > 0 ?
	    r->records.data : "", .dropped = r->records_dropped }, NULL);
	ask_done(w);
}

/* --- sending ---------------------------------------------------------------- */

/* 0 when it is on its way; else it is counted as lost. */
static int
journal_send(struct monitor *m, uint32_t id, const struct record *r,
    uint8_t flags, va_list ap)
{
	struct sbx_peer *p = m->comps[SBX_PROC_JOURNALD].peer;
	struct sbx_journal_append a = { .flags = flags, .op = r->op,
		.phase = r->phase != NULL ? r->phase : "",
		.principal = r->who != NULL ? r->who->name : "",
		.container = r->container != NULL ? r->container : "",
		.run = r->run != NULL ? r->run : "", .code = r->code };
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	const char *key, *value;
	char lost[24];
	int res = SBX_E_CLOSED;

	sbx_buf_init(&b, FIELDS_MAX);
	while ((key = va_arg(ap, const char *)) != NULL) {
		value = va_arg(ap, const char *);
		add_field(&a.fields, &b, key, value != NULL ? value : "");
	}
	if (m->journal_lost > 0) {
		(void)snprintf(lost, sizeof(lost), "%" PRIu64,
		    m->journal_lost);
		add_field(&a.fields, &b, "lost_records", lost);
	}
	/* A journal that is slow for long must not be ended for it with all
	 * that waits in its queue; crossings wait, the rest is counted. */
	if (p != NULL && flags == 0 && sbx_peer_queued(p) > BACKLOG)
		res = SBX_E_LIMIT;
	else if (p != NULL)
		res = sbx_send_journal_append(p, id, &a, NULL);
	if (res == 0) {
		m->journal_lost = 0;
		keep(m, r, &a);
	} else
		m->journal_lost++;
	return (res);
}

/* Nobody waits for it: what it tells of has happened or is happening. */
void
journal_add(struct monitor *m, const struct record *r, ...)
{
	va_list ap;

	va_start(ap, r);
	(void)journal_send(m, 0, r, r->flags, ap); /* a lost one is counted */
	va_end(ap);
}

void
journal_cross(struct monitor *m, struct worker *w,
    void (*then)(struct monitor *, struct worker *, struct sbx_in *,
    const char *), const struct record *r, ...)
{
	const char *why;
	va_list ap;
	int res = 0;

	if (journal_up(m, &why)) {
		w->ask.back = SBX_PROC_JOURNALD;
		w->ask.back_id = ++m->next_id;
		w->ask.then = then;
		w->ask.deadline_ns = sbx_mono_ns() + COMMIT_S * S_NS;
		va_start(ap, r);
		res = journal_send(m, w->ask.back_id, r,
		    r->flags | SBX_JOURNAL_DURABLE, ap);
		va_end(ap);
		if (res == 0)
			return;
		w->ask.back_id = 0;
		why = sbx_error_name(res);
	}
	then(m, w, NULL, why);
}

const char *
journal_why(const struct sbx_in *in, const char *why)
{
	if (in == NULL)
		return (why);
	return (in->m.journal_done.seq != 0 ? NULL :
	    in->m.journal_done.reason);
}

void
journal_foreign(struct monitor *m, const struct principal *who,
    const char *what, const char *id)
{
	uint64_t now = sbx_mono_ns();

	if (now - m->foreign_ns < S_NS)
		return;
	m->foreign_ns = now;
	journal_add(m, &(struct record){ .op = "policy_refusal", .who = who,
	    .code = 1 }, "what", what, "id", id, NULL);
}

uint32_t
journal_own(struct monitor *m, const struct record *r, ...)
{
	uint32_t id = ++m->next_id;
	va_list ap;
	int res;

	va_start(ap, r);
	res = journal_send(m, id, r, SBX_JOURNAL_DURABLE, ap);
	va_end(ap);
	return (res == 0 ? id : 0);
}

/* Who and what this suite is, at both of its ends. */
uint32_t
journal_suite(struct monitor *m, const char *op, int32_t code)
{
	const struct record r = { .op = op, .code = code };
	char slot[16];

	(void)snprintf(slot, sizeof(slot), "%u", m->slot);
	return (journal_own(m, &r, "version", PACKAGE_VERSION, "transport",
	    m->conf.transport, "suite", slot, NULL));
}
