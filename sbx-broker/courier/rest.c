/*
 * COURIER_REST: one request of the REST API from the table of rest.h, its body
 * written anew, and of its answer the members that are listed.
 */

#include "sbx-broker/courier/https.h"

#include "common/base/mask.h"
#include "common/base/rest.h"
#include "sbx-broker/courier/fields.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rest {
	struct courier *c;
	const struct sbx_courier_rest *m;
	const struct sbx_rest *row;
	struct sbx_buf path, body, out;
	struct https_whole whole;
};

/* An object id, lower case. */
static bool
is_id(const char *s)
{
	return (sbx_is_hex(s, 40) || sbx_is_hex(s, 64));
}

/* RFC 3986 section 2.1, of all but the unreserved characters. */
static void
add_encoded(struct sbx_buf *b, const char *s)
{
	for (; *s != '\0'; s++)
		if (isalnum((unsigned char)*s) || strchr("-._~", *s) != NULL)
			(void)sbx_buf_add(b, s, 1);
		else
			(void)sbx_buf_printf(b, "%%%02X", (unsigned char)*s);
}

/* What stands for the letter after a colon.  false: there is none. */
static bool
add_part(struct sbx_buf *b, char letter, const struct sbx_courier_rest *m)
{
	if (letter == 'n' && m->number > 0)
		(void)sbx_buf_printf(b, "%" PRIu64, m->number);
	else if (letter == 't' && is_id(m->text))
		(void)sbx_buf_str(b, m->text);
	else if (letter == 'b' && sbx_rest_branch_ok(m->text))
		add_encoded(b, m->text);
	else if (letter == 'o')
		(void)sbx_buf_add(b, m->repo, strcspn(m->repo, "/"));
	else
		return (false);
	return (true);
}

static bool
make_path(struct rest *r)
{
	const struct sbx_courier_rest *m = r->m;
	struct sbx_buf *b = &r->path;
	const char *p = r->row->path, *colon;

	(void)sbx_buf_printf(b, "%s/repos/%s", m->prefix, m->repo);
	for (; (colon = strchr(p, ':')) != NULL; p = colon + 2) {
		(void)sbx_buf_add(b, p, (size_t)(colon - p));
		if (!add_part(b, colon[1], m))
			return (false);
	}
	(void)sbx_buf_str(b, p);
	if (r->row->paged)
		(void)sbx_buf_printf(b, "?per_page=%u&page=%u",
		    m->page < SBX_REST_SMALL ? SBX_REST_ITEMS :
		    SBX_REST_ITEMS_SMALL, m->page % SBX_REST_SMALL);
	return (!b->overflow);
}

static bool
take_row(struct rest *r)
{
	const struct sbx_courier_rest *m = r->m;

	r->row = sbx_rest_row(m->op);
	if (r->row == NULL || !courier_repo_is_good(m->repo) ||
	    !courier_prefix_is_good(m->prefix) ||
	    (r->row->paged && !sbx_rest_page_ok(m->page)) ||
	    !make_path(r))
		return (courier_fail(r->c, "bad_request", "there is no such "
		    "request"));
	return (true);
}

static bool
take_body(struct rest *r, int fd)
{
	SBX_CLEANUP(free) char *text = NULL;
	const char *code, *why;
	size_t n;
	int e;

	if (!r->row->write)
		return (true);
	e = sbx_memfd_read(fd, FIELDS_BODY_MAX, &text, &n);
	if (e == SBX_E_LIMIT)
		return (courier_fail(r->c, "too_large", "the body has more "
		    "than %u bytes", FIELDS_BODY_MAX));
	if (e < 0)
		return (courier_fail(r->c, "bad_request", "the body is no "
		    "sealed text"));
	why = fields_body((enum sbx_rest_op)r->m->op, r->m->bot_commands != 0,
	    text, n, &r->body, &code);
	if (why != NULL)
		return (courier_fail(r->c, code, "%s", why));
	r->whole.body = r->body.data;
	r->whole.body_len = r->body.len;
	return (true);
}

/* --- headers that are numbers ----------------------------------------------------- */

static uint64_t
number(const char *s)
{
	uint64_t v;

	return (sbx_parse_u64(s, 0, UINT32_MAX * UINT64_C(2), &v) == 0 ? v : 0);
}

static uint64_t
retry_after(const struct https_whole *w)
{
	uint64_t now = sbx_wall_ns() / 1000000000, at;

	if (w->retry_after[0] != '\0')
		return (number(w->retry_after));
	at = strcmp(w->remaining, "0") == 0 ? number(w->reset) : 0;
	return (at == 0 ? 0 : at > now ? at - now : 1);
}

/*
 * The page of the link whose relation is next, 0: there is none.
 * <https://api.github.com/...?per_page=100&page=2>; rel="next", <...>; ...
 */
static uint32_t
next_page(const char *link)
{
	const char *open, *close, *rest, *page;
	char digits[8];
	size_t n;

	for (; (open = strchr(link, '<')) != NULL; link = rest) {
		if ((close = strchr(open, '>')) == NULL)
			return (0);
		rest = close + strcspn(close, "<");
		page = memmem(close, (size_t)(rest - close), "rel=\"next\"",
		    10);
		if (page == NULL)
			continue;
		page = memmem(open, (size_t)(close - open), "?page=", 6);
		if (page == NULL)
			page = memmem(open, (size_t)(close - open), "&page=",
			    6);
		if (page == NULL)
			return (0);
		n = strspn(page + 6, "0123456789");
		if (n >= sizeof(digits))
			return (0);
		memcpy(digits, page + 6, n);
		digits[n] = '\0';
		return (number(digits) > SBX_REST_PAGE_MAX ? 0 :
		    (uint32_t)number(digits));
	}
	return (0);
}

/* --- what is no success --------------------------------------------------------------- */

/* Of a Location on the same host: "/repositories/ID" or "/repos/O/R". */
static bool
new_path(const struct rest *r, char *ret_path, size_t size)
{
	char begin[320], digits[24];
	const char *p = r->whole.location, *end;
	size_t n;

	(void)snprintf(begin, sizeof(begin), "https://%s%s", r->m->host,
	    r->m->prefix);
	if (strncmp(p, begin, strlen(begin)) != 0)
		return (false);
	p += strlen(begin);
	if (strncmp(p, "/repositories/", 14) == 0) {
		n = strspn(p + 14, "0123456789");
		if (n == 0 || n >= sizeof(digits) ||
		    strchr("/?", p[14 + n]) == NULL)
			return (false);
		n += 14;
	} else if (strncmp(p, "/repos/", 7) == 0) {
		end = strchr(p + 7, '/');
		if (end == NULL)
			return (false);
		n = (size_t)(end - p) + 1 + strcspn(end + 1, "/?");
	} else
		return (false);
	if (n >= size)
		return (false);
	memcpy(ret_path, p, n);
	ret_path[n] = '\0';
	return (ret_path[6] != '/' || courier_repo_is_good(ret_path + 7));
}

static bool
refused(struct rest *r)
{
	const struct https_whole *w = &r->whole;
	const char *why, *code = courier_status_code(w->status, &why);
	char message[160], path[200];
	size_t n;

	r->c->end.retry_s = retry_after(w);
	if (w->status == 403 && (strcmp(w->remaining, "0") == 0 ||
	    w->retry_after[0] != '\0'))
		code = "rate_limited";
	if (strcmp(code, "moved") == 0 && new_path(r, path, sizeof(path)))
		return (courier_fail(r->c, code, "%s", path));
	fields_message(w->answer.data == NULL ? "" : w->answer.data,
	    w->answer.len, message, sizeof(message));
	n = strlen(message);
	(void)sbx_mask(message, &n); /* how many is of no use here */
	message[n] = '\0';
	return (courier_fail(r->c, code, "%s (status %u)%s%s", why, w->status,
	    n == 0 ? "" : ": ", message));
}

/* --- the answer ----------------------------------------------------------------------- */

static bool
take_answer(struct rest *r)
{
	const struct canary *c = &r->c->secret->canary;
	const struct https_whole *w = &r->whole;
	int e;

	if (canary_find(c, w->answer.data, w->answer.len))
		return (courier_fail(r->c, "secret_in_answer", "the host's "
		    "answer has the credential in it"));
	if (w->status != r->row->answer)
		return (refused(r));
	e = fields_answer((enum sbx_rest_op)r->m->op, w->answer.data,
	    w->answer.len, &r->out);
	if (e == SBX_E_LIMIT)
		return (courier_fail(r->c, "too_large", "the answer has more "
		    "than %zu bytes", r->out.max));
	if (e < 0)
		return (courier_fail(r->c, "upstream", "the host's answer is "
		    "not the JSON that is documented"));
	/* once more: escapes of JSON are gone now */
	if (canary_find(c, r->out.data, r->out.len))
		return (courier_fail(r->c, "secret_in_answer", "the host's "
		    "answer has the credential in it"));
	return (true);
}

/* A memfd that is empty and can grow; a pipe could make us wait for ever. */
static bool
is_empty_memfd(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS), flags = fcntl(fd, F_GETFL);
	struct stat st;

	return (seals >= 0 && !(seals & (F_SEAL_WRITE | F_SEAL_GROW)) &&
	    flags >= 0 && (flags & O_ACCMODE) == O_RDWR &&
	    fstat(fd, &st) == 0 && st.st_size == 0);
}

static bool
ask(struct rest *r, int sock)
{
	struct https h;
	bool good;

	good = https_open(&h, r->c, r->m->host, r->m->port, r->path.data, sock);
	if (good) {
		https_header(&h, "Accept: application/vnd.github+json");
		https_header(&h, "X-GitHub-Api-Version: 2022-11-28");
		https_header(&h, "User-Agent: sbx");
		if (r->whole.body != NULL)
			https_header(&h, "Content-Type: application/json");
		r->whole.method = r->row->method;
		good = (!r->row->write || courier_begun(r->c)) &&
		    https_whole(&h, &r->whole);
	}
	https_close(&h);
	return (good);
}

void
courier_rest(struct courier *c, struct sbx_in *in)
{
	static struct rest r;
	int answer = in->fds[2];

	r.c = c;
	r.m = &in->m.courier_rest;
	sbx_buf_init(&r.path, 1024);
	sbx_buf_init(&r.body, 4 * FIELDS_BODY_MAX);
	sbx_buf_init(&r.out, 2 * FIELDS_ANSWER_MAX);
	sbx_buf_init(&r.whole.answer, FIELDS_ANSWER_MAX);
	if (!is_empty_memfd(answer))
		(void)courier_fail(c, "bad_request", "the answer cannot be "
		    "written to what it should");
	else if (take_row(&r) && take_body(&r, in->fds[1]) &&
	    ask(&r, sbx_steal_fd(&in->fds[0])) && take_answer(&r)) {
		c->end.next_page = next_page(r.whole.link);
		if (sbx_write_all(answer, r.out.data, r.out.len) < 0)
			(void)courier_fail(c, "too_large", "the answer cannot "
			    "be written: %s", strerror(errno));
	}
	sbx_buf_clear(&r.path);
	sbx_buf_clear(&r.body);
	sbx_buf_clear(&r.out);
	sbx_buf_clear(&r.whole.answer);
}
