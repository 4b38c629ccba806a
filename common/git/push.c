#include "common/git/push.h"

#include "common/base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PKT_MAX = 65520, PKT_HEADER = 4 };
enum pkt_kind { PKT_DATA, PKT_FLUSH };

struct pkt {
	enum pkt_kind kind;
	const char *p;
	size_t n;		/* without a newline at its end */
};

/* Both cases of letters are written by some git. */
static int
hex(char ch)
{
	const char *digits = "0123456789abcdef", *p;

	if (ch >= 'A' && ch <= 'F')
		ch += 'a' - 'A';
	p = ch == '\0' ? NULL : strchr(digits, ch);
	return (p == NULL ? -1 : (int)(p - digits));
}

/* 0, SBX_E_AGAIN, SBX_E_SYNTAX; *p and *n move past it. */
static int
pkt_next(const char **p, size_t *n, struct pkt *ret_pkt)
{
	size_t len = 0, i;
	int v;

	for (i = 0; i < PKT_HEADER; i++) {
		if (i == *n)
			return (SBX_E_AGAIN);
		if ((v = hex((*p)[i])) < 0)
			return (SBX_E_SYNTAX);
		len = len << 4 | (size_t)v;
	}
	/* 1 to 3 are of protocol 2, which pushes do not speak */
	if (len > PKT_MAX || (len > 0 && len < PKT_HEADER))
		return (SBX_E_SYNTAX);
	if (len > *n)
		return (SBX_E_AGAIN);
	ret_pkt->kind = len == 0 ? PKT_FLUSH : PKT_DATA;
	ret_pkt->p = *p + PKT_HEADER;
	ret_pkt->n = len == 0 ? 0 : len - PKT_HEADER;
	if (ret_pkt->n > 0 && ret_pkt->p[ret_pkt->n - 1] == '\n')
		ret_pkt->n--;
	len = len == 0 ? PKT_HEADER : len;
	*p += len;
	*n -= len;
	return (0);
}

/* An object id of 40 or 64 lower-case digits at the beginning of s, and what
 * ends it.  0: it is none. */
static size_t
oid_len(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n && i < PUSH_OID_MAX; i++)
		if (strchr("0123456789abcdef", s[i]) == NULL || s[i] == '\0')
			break;
	return (i == 40 || i == 64 ? i : 0);
}

static bool
is(const char *s, size_t n, const char *text)
{
	return (strlen(text) == n && memcmp(s, text, n) == 0);
}

bool
push_ref_is_good(const char *ref)
{
	static const char *const below[] = { "refs/heads/", "refs/tags/" };
	const char *p = NULL, *end;
	size_t i;

	for (i = 0; i < SBX_NELEM(below); i++)
		if (strncmp(ref, below[i], strlen(below[i])) == 0)
			p = ref + strlen(below[i]);
	if (p == NULL || strlen(ref) > PUSH_REF_MAX)
		return (false);
	for (i = 0; p[i] != '\0'; i++)
		if ((unsigned char)p[i] <= ' ' || p[i] == 0x7f ||
		    strchr("~^:?*[\\", p[i]) != NULL)
			return (false);
	if (strstr(p, "..") != NULL || strstr(p, "@{") != NULL)
		return (false);
	for (;; p = end + 1) {		/* each component */
		end = p + strcspn(p, "/");
		if (end == p || *p == '.' || end[-1] == '.' ||
		    (end - p >= 5 && memcmp(end - 5, ".lock", 5) == 0))
			return (false);
		if (*end == '\0')
			return (true);
	}
}

static bool
is_oid(const char *s)
{
	return (sbx_is_hex(s, 40) || sbx_is_hex(s, PUSH_OID_MAX));
}

const char *
push_change_fault(const char *ref, const char *old_id, const char *new_id)
{
	if (!push_ref_is_good(ref))
		return ("its ref is none below refs/heads/ or refs/tags/");
	if (!is_oid(old_id) || !is_oid(new_id) ||
	    strlen(old_id) != strlen(new_id))
		return ("its ids are none of one kind");
	if (strspn(new_id, "0") == strlen(new_id))
		return ("it would delete the ref");
	return (NULL);
}

/* Does the list of capabilities, split by blanks, have that one? */
static bool
has_capability(const char *caps, size_t n, const char *name)
{
	size_t len;

	for (; n > 0; caps += len + 1, n -= len + 1) {
		const char *end = memchr(caps, ' ', n);

		len = end == NULL ? n : (size_t)(end - caps);
		if (is(caps, len, name))
			return (true);
		if (len == n)
			break;
	}
	return (false);
}

/* git's own reader of such a list splits it at every blank there is. */
static bool
capabilities_are_good(const char *caps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)caps[i] < ' ' || caps[i] == 0x7f)
			return (false);
	return (true);
}

/* Also with a value, which git takes for the same. */
static bool
has_options(const char *caps, size_t n)
{
	static const char name[] = "push-options";
	const size_t len = sizeof(name) - 1;

	for (size_t i = 0; i + len <= n; i++)
		if ((i == 0 || caps[i - 1] == ' ') &&
		    memcmp(caps + i, name, len) == 0)
			return (true);
	return (false);
}

/* What a packet before the flush says; all borrowed. */
struct line {
	bool shallow, cert;	/* it is no command; a signed push begins */
	size_t id;		/* of each of its two ids */
	const char *ref, *caps;	/* caps NULL: it has none */
	size_t nref, ncaps;
};

/* false: it does not parse.  first: no command came before it. */
static bool
line_read(const struct pkt *pkt, bool first, struct line *l)
{
	const char *nul = memchr(pkt->p, '\0', pkt->n);
	size_t n = nul == NULL ? pkt->n : (size_t)(nul - pkt->p);

	*l = (struct line){ .caps = nul == NULL ? NULL : nul + 1,
		.ncaps = nul == NULL ? 0 : pkt->n - n - 1 };
	if (n > 8 && memcmp(pkt->p, "shallow ", 8) == 0) {
		l->shallow = true;
		return (nul == NULL && first &&
		    oid_len(pkt->p + 8, n - 8) == n - 8);
	}
	if (nul != NULL && (!first || !capabilities_are_good(l->caps,
	    l->ncaps)))
		return (false);		/* the first has them, once */
	l->cert = nul != NULL && is(pkt->p, n, "push-cert");
	if (l->cert)
		return (true);
	l->id = oid_len(pkt->p, n);
	if (l->id == 0 || n < 2 * l->id + 3 || pkt->p[l->id] != ' ' ||
	    oid_len(pkt->p + l->id + 1, n - l->id - 1) != l->id ||
	    pkt->p[2 * l->id + 1] != ' ')
		return (false);
	l->ref = pkt->p + 2 * l->id + 2;
	l->nref = n - 2 * l->id - 2;
	return (true);
}

static bool
line_wants(const struct line *l, const char *capability)
{
	return (l->caps != NULL && has_capability(l->caps, l->ncaps,
	    capability));
}

/* "OLD NEW REF" at s, as line_read() read it: NULL, or why it is not what was
 * granted. */
static const char *
judge_command(const char *s, const struct line *l, const struct push_grant *g)
{
	static const char zeros[PUSH_OID_MAX + 1] =
	    "0000000000000000000000000000000000000000000000000000000000000000";
	const char *new = s + l->id + 1;

	if (memcmp(new, zeros, l->id) == 0)
		return ("it deletes a ref");
	if (!is(l->ref, l->nref, g->ref))
		return ("it changes another ref than the granted one");
	if (!is(new, l->id, g->new_id))
		return ("it pushes another commit than the granted one");
	if (g->force || is(s, l->id, g->old_id))
		return (NULL);
	return (strspn(g->old_id, "0") == strlen(g->old_id) ? "the ref is there "
	    "already, and was granted as a new one (`sbx grant -o` with its "
	    "commit grants the change)" : "the ref is not where it was when "
	    "this was granted");
}

/* The state of one request's head. */
struct head {
	unsigned commands;
	bool cert;		/* its commands are in a certificate */
	const char *why;	/* the first thing that was not granted */
};

/* false: it does not parse. */
static bool
command(struct head *h, const struct pkt *pkt, const struct push_grant *g)
{
	struct line l;
	const char *why;

	if (h->cert)
		return (true);
	if (!line_read(pkt, h->commands == 0, &l))
		return (false);
	if (l.shallow)
		return (true);
	if (l.cert) {
		h->cert = true;
		h->commands = 1;
		h->why = "it is signed (--signed), which is never granted";
		return (true);
	}
	/* "ci.skip": what hosts do with them nobody granted */
	if (l.caps != NULL && has_options(l.caps, l.ncaps))
		h->why = "it has push options, which are never granted";
	why = judge_command(pkt->p, &l, g);
	if (++h->commands > 1)
		why = "it changes more than one ref";
	if (h->why == NULL)
		h->why = why;
	return (true);
}

int
push_judge(const char *p, size_t n, const struct push_grant *grant,
    size_t *ret_used, const char **ret_why)
{
	struct head h = { 0 };
	const char *begin = p;
	struct pkt pkt;
	int r;

	*ret_why = "its reference update request does not parse";
	while ((r = pkt_next(&p, &n, &pkt)) == 0) {
		if (pkt.kind == PKT_FLUSH)
			break;
		if (!command(&h, &pkt, grant))
			return (SBX_E_SYNTAX);
	}
	if (r == SBX_E_AGAIN && (size_t)(p - begin) + n >= PUSH_HEAD_MAX) {
		*ret_why = "its reference update request is too long";
		return (SBX_E_SYNTAX);
	}
	if (r != 0)
		return (r);
	*ret_used = (size_t)(p - begin);
	if (h.commands == 0)
		h.why = "it changes nothing";
	if (h.why == NULL)
		return (0);
	*ret_why = h.why;
	return (SBX_E_POLICY);
}

/* --- the answer to what was refused -------------------------------------- */

/* One packet whose text is what fmt makes.  false: it does not fit. */
SBX_PRINTF(3, 4) static bool
put(struct sbx_buf *out, const char *band, const char *fmt, ...)
{
	char text[PUSH_REF_MAX + 1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return (n > 0 && n < (int)sizeof(text) && sbx_buf_printf(out,
	    "%04zx%s%s", PKT_HEADER + strlen(band) + (size_t)n, band,
	    text) == 0);
}

/* A ref that can stand in an answer: it goes to a terminal in the end. */
static bool
can_be_named(const struct line *l)
{
	size_t i;

	for (i = 0; i < l->nref; i++)
		if ((unsigned char)l->ref[i] <= ' ' || l->ref[i] == 0x7f)
			return (false);
	return (l->nref > 0 && l->nref <= PUSH_REF_MAX);
}

/* The report of what stands at p, without what it is wrapped in. */
static bool
report(const char *p, size_t n, const char *why, struct sbx_buf *out)
{
	struct pkt pkt;
	struct line l;
	bool first = true, cert = false;

	if (!put(out, "", "unpack " PUSH_BLOCKED "%s\n", why))
		return (false);
	while (pkt_next(&p, &n, &pkt) == 0 && pkt.kind == PKT_DATA) {
		if (!line_read(&pkt, first, &l)) {
			if (cert)
				continue;	/* more than commands is in it */
			return (false);
		}
		if (l.shallow)
			continue;
		if (first && (!line_wants(&l, "side-band-64k") ||
		    !(line_wants(&l, "report-status") ||
		    line_wants(&l, "report-status-v2"))))
			return (false);
		first = false;
		cert |= l.cert;
		if (!l.cert && (!can_be_named(&l) || !put(out, "", "ng %.*s "
		    PUSH_BLOCKED "%s\n", (int)l.nref, l.ref, why)))
			return (false);
	}
	return (!first && sbx_buf_str(out, "0000") == 0);
}

bool
push_report(const char *p, size_t n, const char *why, const char *mend,
    struct sbx_buf *out)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	sbx_buf_init(&b, PUSH_REPORT_MAX);
	return (report(p, n, why, &b) && put(out, "\2", PUSH_BLOCKED
	    "%s. %s.\n", why, mend) && sbx_buf_printf(out, "%04zx\1", b.len +
	    PKT_HEADER + 1) == 0 && sbx_buf_add(out, b.data, b.len) == 0 &&
	    sbx_buf_str(out, "0000") == 0);
}
