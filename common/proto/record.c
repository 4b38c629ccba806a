#include "common/proto/record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIELDS_MAX 16384u
#define BACKLOG 512		/* records; the queue ends its peer at 1024 */
#define NS_S 1000000000ull

void
sbx_record_begin(struct sbx_record *r)
{
	memset(r, 0, sizeof(*r));
	sbx_buf_init(&r->buf, FIELDS_MAX);
}

void
sbx_record_add(struct sbx_record *r, const char *name, const char *fmt, ...)
{
	char value[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(value, sizeof(value), fmt, ap); /* cut, not refused */
	va_end(ap);
	if (value[0] == '\0')
		return;
	/* a record with a field too few is better than none */
	if (sbx_strs_add(&r->fields, &r->buf, name) == 0)
		(void)sbx_strs_add(&r->fields, &r->buf, value);
}

void
sbx_record_number(struct sbx_record *r, const char *name, uint64_t n)
{
	if (n != 0)
		sbx_record_add(r, name, "%" PRIu64, n);
}

bool
sbx_record_send(struct sbx_record *r, struct sbx_peer *journald,
    const struct sbx_journal_append *a, uint64_t *lost)
{
	struct sbx_journal_append m = *a;
	bool sent;

	sbx_record_number(r, "lost_records", *lost);
	m.fields = r->fields;
	sent = journald != NULL && sbx_peer_queued(journald) < BACKLOG &&
	    sbx_send_journal_append(journald, 0, &m, NULL) == 0;
	*lost = sent ? 0 : *lost + 1;
	sbx_buf_clear(&r->buf);
	return (sent);
}

bool
sbx_record_rate(struct sbx_record_rate *r, uint64_t now, unsigned most)
{
	if (now / NS_S != r->second)
		*r = (struct sbx_record_rate){ .second = now / NS_S };
	if (r->n == most)
		return (false);
	r->n++;
	return (true);
}

static int
on_done(struct sbx_peer *p, struct sbx_in *in)
{
	(void)p;
	(void)in;
	return (0);
}

const struct sbx_dispatch sbx_record_rows[SBX_MSG_MAX] = {
	[SBX_MSG_JOURNAL_DONE] = { SBX_ST_ANY, 0, on_done },
};
