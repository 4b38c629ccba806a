#include "sbx-journald/journald.h"

#include "common/base/log.h"

/*
 * The proxy and the broker append their own verdicts, each over a channel of
 * its own: the component in their records is the channel's, so neither can
 * write in another's name.
 */

static enum writer_slot
slot_of(enum sbx_proc proc)
{
	return (proc == SBX_PROC_PROXY ? WRITER_PROXY :
	    proc == SBX_PROC_BROKER ? WRITER_BROKER :
	    proc == SBX_PROC_MONITOR ? WRITER_MONITOR : WRITER_MAX);
}

/*
 * Safe for a hostile writer: what it says about itself is not used; each text
 * is masked and escaped; keys are checked, so a line stays one JSON object.
 * The reserve is the monitor's: another's word for it would let a proxy that
 * was taken over use it up, and so stop the end of crossings from being
 * recorded.
 */
int
journald_on_append(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_journal_append *a = &in->m.journal_append;
	enum sbx_proc proc = sbx_peer_remote(p);
	struct journald *j = sbx_peer_ctx(p);
	struct record r = {
		.component = sbx_proc_name(proc), .op = a->op,
		.phase = a->phase, .principal = a->principal,
		.container = a->container, .run = a->run, .code = a->code,
		.fields = &a->fields,
	};

	if ((a->flags & ~(SBX_JOURNAL_DURABLE | SBX_JOURNAL_RESERVED)) != 0 ||
	    chain_check_fields(&a->fields) < 0)
		return (SBX_E_DECODE);
	if ((a->flags & SBX_JOURNAL_RESERVED) != 0 && proc != SBX_PROC_MONITOR)
		return (SBX_E_POLICY);
	commit_append(j, &j->writers[slot_of(proc)], in->hdr.id, a->flags, &r);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_JOURNAL_APPEND] = { SBX_ST_ANY, 0, journald_on_append },
};
const struct sbx_dispatch_table journald_from_proxy = {
	SBX_PROC_JOURNALD, SBX_PROC_PROXY, rows
};
const struct sbx_dispatch_table journald_from_broker = {
	SBX_PROC_JOURNALD, SBX_PROC_BROKER, rows
};

static void
on_end(struct sbx_peer *p, int error)
{
	struct journald *j = sbx_peer_ctx(p);
	enum sbx_proc proc = sbx_peer_remote(p);

	if (error != SBX_E_CLOSED)
		log_warn("channel of %s ended: %s", sbx_proc_name(proc),
		    sbx_error_name(error));
	/* its records count; their answers have nowhere to go */
	commit_now(j);
	writer_clear(&j->writers[slot_of(proc)]);
}

static void
end_writer(struct journald *j, enum writer_slot slot)
{
	struct sbx_peer *p = j->writers[slot].peer;

	if (p == NULL)
		return;
	commit_now(j);
	writer_clear(&j->writers[slot]);
	sbx_peer_free(p);
}

int
journald_add_writer(struct journald *j, enum sbx_proc proc, int fd)
{
	const struct sbx_dispatch_table *table = proc == SBX_PROC_PROXY ?
	    &journald_from_proxy : &journald_from_broker;
	enum writer_slot slot = slot_of(proc);
	struct sbx_peer *p;
	int r;

	if (slot != WRITER_PROXY && slot != WRITER_BROKER) {
		sbx_close(&fd);
		return (SBX_E_RANGE);
	}
	end_writer(j, slot);
	p = sbx_peer_new(j->base, fd, table, j, on_end);
	r = writer_init(&j->writers[slot], j, p);
	if (r < 0) {
		writer_clear(&j->writers[slot]);
		sbx_peer_free(p);
	}
	return (r);
}

void
journald_end_writers(struct journald *j)
{
	end_writer(j, WRITER_PROXY);
	end_writer(j, WRITER_BROKER);
}
