/* What the tools for GitHub share (github.h). */

#include "sbxd/worker/github.h"

#include "common/base/json.h"
#include "common/base/limits.h"
#include "common/base/mask.h"
#include "sbxd/worker/files.h"
#include "sbxd/worker/worker.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOST "github.com"
#define DEPTH 32u
#define LINE_MAX_BYTES 200u
#define BODY_MAX_BYTES 65536u
/* A request needs as much of a call: its own, and a step for each who waits. */
#define LEAST_MS (SBX_API_LEAST_MS + 3 * SBX_API_STEP_MS)
#define MEND "Mend the argument and call again."

/* --- names ------------------------------------------------------------------ */

static bool
word_ok(const char *s, size_t len, size_t max)
{
	size_t i;

	if (len == 0 || len > max || (len == 1 && *s == '.') ||
	    (len == 2 && s[0] == '.' && s[1] == '.') || *s == '-')
		return (false);
	for (i = 0; i < len; i++)
		if (!isalnum((unsigned char)s[i]) &&
		    strchr("._-", s[i]) == NULL)
			return (false);
	return (true);
}

static void
lower(char *s)
{
	for (; *s != '\0'; s++)
		*s = (char)tolower((unsigned char)*s);
}

/* Up to the next slash, which *at is behind then. */
static size_t
part(const char **at, const char **ret_p)
{
	size_t n = strcspn(*at, "/");

	*ret_p = *at;
	*at += n + ((*at)[n] == '/');
	return (n);
}

bool
gh_repo_parse(const char *text, struct gh_repo *r)
{
	bool url = strncmp(text, "https://", 8) == 0;
	const char *at = url ? text + 8 : text, *p[3] = { "", "", "" };
	size_t n[3] = { 0 }, k;

	for (k = 0; k < 3 && *at != '\0'; k++)
		n[k] = part(&at, &p[k]);
	if (*at != '\0' || k < 2 || (url && k != 3))
		return (false);
	if (k == 2) {
		memmove(p + 1, p, 2 * sizeof(p[0]));
		memmove(n + 1, n, 2 * sizeof(n[0]));
		p[0] = HOST;
		n[0] = strlen(HOST);
	}
	if (n[2] > 4 && strncmp(p[2] + n[2] - 4, ".git", 4) == 0)
		n[2] -= 4;
	if (!word_ok(p[0], n[0], 253) || !word_ok(p[1], n[1], 39) ||
	    !word_ok(p[2], n[2], 100))
		return (false);
	(void)snprintf(r->host, sizeof(r->host), "%.*s", (int)n[0], p[0]);
	(void)snprintf(r->repo, sizeof(r->repo), "%.*s/%.*s", (int)n[1], p[1],
	    (int)n[2], p[2]);
	memcpy(r->key, r->repo, sizeof(r->key));
	lower(r->host);
	lower(r->key);
	r->name = r->repo + n[1] + 1;
	return (true);
}

bool
gh_repo_arg(struct call *call, const char *arg, struct gh_repo *r)
{
	const char *text = args_str(&call->args, arg, NULL);

	if (text != NULL && gh_repo_parse(text, r))
		return (true);
	result_error(call->res, "bad_argument", MEND,
	    "\"%s\" must be OWNER/NAME, or HOST/OWNER/NAME for a host other "
	    "than " HOST ", or the https URL of it.", arg);
	return (false);
}

const char *
gh_repo_text(const struct gh_repo *r, char *dst, size_t size)
{
	(void)snprintf(dst, size, "%s%s%s",
	    strcmp(r->host, HOST) == 0 ? "" : r->host,
	    strcmp(r->host, HOST) == 0 ? "" : "/", r->repo);
	return (dst);
}

bool
gh_bad(struct call *call, const char *why)
{
	result_error(call->res, "bad_argument", MEND, "%s", why);
	return (false);
}

bool
gh_branch(struct call *call, const char *arg, const char *name)
{
	char why[200];
	bool whole = name != NULL && strncmp(name, "refs/", 5) == 0;

	if (name == NULL || (!whole && sbx_rest_branch_ok(name)))
		return (true);
	(void)snprintf(why, sizeof(why), "\"%s\" is no branch's name: %s", arg,
	    whole ? "write it without refs/heads/." : "it is of letters, "
	    "digits and . _ - / + = @ # , and as git takes them.");
	return (gh_bad(call, why));
}

bool
gh_blank(const char *s)
{
	return (s == NULL || s[strspn(s, " \t\r\n")] == '\0');
}

/* --- one exchange ------------------------------------------------------------- */

#define LISTED "A private repository must be listed in allowed_repo or "  \
	"allow_read of sbx.conf to be read with a credential."
#define STATUS "`sbx broker status` tells the operator about its sources."
#define COVERS "The operator's GitHub App must be installed for the "        \
	"repository, or his token cover it."

/* Code words of API_DONE: what they mean, and what to do. */
static const struct {
	const char *code, *what, *next;
} refusals[] = {
	{ "unauthorized", "the host did not take the credential", "The "
	    "operator's credential is wrong, ended or was revoked: " STATUS },
	{ "forbidden", "the host forbids it", "The operator's credential lacks "
	    "that permission, or a rule of the repository is against it." },
	{ "not_found", "there is no such thing, or the repository is private "
	    "and not listed in allowed_repo or allow_read",
	    "Check the name and the number. " LISTED },
	{ "not_seen", "there is no such thing, or the operator's credential "
	    "may not see it", "Check the name and the number. " COVERS },
	{ "not_written", "there is no such thing, or the repository is "
	    "private, and it is none of those that may be written",
	    "Check the name and the number. Writing needs the repository in "
	    "allowed_repo of sbx.conf." },
	{ "moved", "the repository has another name or place now",
	    "Use its new name." },
	{ "gone", "it was deleted, or is switched off there", "" },
	{ "validation", "the host does not take what was sent", MEND },
	{ "rate_limited", "the host takes no more requests for now", "Try "
	    "again later. A listed repository is asked with a credential, of "
	    "which hosts take more." },
	{ "upstream", "the host failed or could not be reached",
	    "Try again later." },
	{ "tls", "the host could not prove that it is the one", "The "
	    "operator names a CA of his own in upstream_ca of sbx.conf, and "
	    "looks at the machine's clock." },
	{ "timeout", "the host did not answer in time", "Try again later." },
	{ "too_large", "the answer is too large", "" },
	{ "not_granted", "the configuration does not allow it", "Writing "
	    "needs the repository in allowed_repo of sbx.conf." },
	{ "bot_command", "a line of the text begins with / or @, which bots "
	    "take for an order", "Change that, or have the operator set "
	    "allow_bot_commands." },
	{ "bad_request", "the request was refused before it was sent", MEND },
	{ "no_source", "the repository is listed, but there is no credential "
	    "for that host, without which there is no such thing", "The "
	    "operator configures github_token_command, github_app or "
	    "github_token_file: see `sbx register`." },
	{ "no_courier", "the suite has no process free to carry it",
	    "Try again." },
	{ "locked", "a lockdown is on: nothing is done with credentials",
	    "The operator ends it with `sbx lockdown off`." },
	{ "source_failed", "no credential could be had", STATUS },
	{ "secret_in_answer", "the answer held a credential and was dropped",
	    "" },
};

/* Which of the sentences: the host says of three things the same. */
static const char *
word_of(const struct gh_ask *q, const struct ask_api *d)
{
	if (strcmp(d->code, "not_found") != 0)
		return (d->code);
	return (d->credential ? "not_seen" : q->writes ? "not_written" :
	    d->code);
}

/*
 * What the courier says of a status is said by us, in more words: its number
 * and the host's own words follow.
 */
static const char *
detail(const char *vis, const char **ret_joint)
{
	const char *status = strstr(vis, "(status ");

	*ret_joint = *vis == '\0' ? "" : status != NULL ? " " : ": ";
	return (status != NULL ? status : vis);
}

/* A refusal of API_DONE as the error object.  Always 0. */
static int
refused(struct call *call, const struct gh_repo *r, const struct gh_ask *q,
    const struct ask_api *d)
{
	const char *name = sbx_rest_row(q->op)->name, *said, *joint;
	const char *word = word_of(q, d);
	char vis[768], next[512], repo[400];
	size_t i;

	for (i = 0; i < SBX_NELEM(refusals) &&
	    strcmp(refusals[i].code, word) != 0; i++)
		;
	said = detail(sbx_vis(vis, sizeof(vis), d->reason,
	    strlen(d->reason)), &joint);
	(void)snprintf(next, sizeof(next), "%s", i < SBX_NELEM(refusals) ?
	    refusals[i].next : "Try again later.");
	if (d->retry_s != 0)
		(void)snprintf(next, sizeof(next), "Try again in %" PRIu64
		    " s.%s", d->retry_s, d->credential ? "" : " A listed "
		    "repository is asked with a credential, of which hosts "
		    "take more.");
	/* an answer of 3xx or 4xx says that it was not */
	if (d->begun && (d->status < 300 || d->status >= 500))
		(void)snprintf(next, sizeof(next), "It may have been done all "
		    "the same: look whether it was before you try again.");
	gh_repo_text(r, repo, sizeof(repo));
	result_error(call->res, i == SBX_NELEM(refusals) ? "api_failed" :
	    strcmp(word, "not_written") == 0 ? "repo_not_allowed" : d->code,
	    next, "%s of %s%s: %s%s%s.", name, repo, d->credential ? "" :
	    " (without a credential)", i < SBX_NELEM(refusals) ?
	    refusals[i].what : "it failed", joint, said);
	return (0);
}

/* All that was written, of at most GH_ANSWER_MAX bytes: a copy, as others may
 * still hold the file. */
static bool
read_answer(int fd, struct sbx_buf *b)
{
	struct stat st;
	char block[65536];
	off_t at = 0;
	ssize_t n;

	if (fstat(fd, &st) == -1 || st.st_size > (off_t)GH_ANSWER_MAX)
		return (false);
	while (at < st.st_size &&
	    (n = pread(fd, block, sizeof(block), at)) > 0) {
		if (sbx_buf_add(b, block, (size_t)n) != 0)
			return (false);
		at += n;
	}
	return (at >= st.st_size);
}

/* One JSON value of a type, NULL: it is none. */
static struct json_object *
parse(const struct sbx_buf *b, int want)
{
	struct json_tokener *tok;
	struct json_object *o = NULL;

	if (b->len == 0 || sbx_json_scan(b->data, b->len, GH_ANSWER_MAX, DEPTH,
	    NULL) != 0)
		return (NULL);
	tok = json_tokener_new_ex(DEPTH + 1);
	if (tok == NULL)
		return (NULL);
	o = json_tokener_parse_ex(tok, b->data, (int)b->len);
	if (json_tokener_get_error(tok) != json_tokener_success ||
	    !json_object_is_type(o, (enum json_type)want)) {
		json_object_put(o);
		o = NULL;
	}
	json_tokener_free(tok);
	return (o);
}

static int
bad_answer(struct call *call, const char *name, bool write)
{
	result_error(call->res, "bad_answer", write ? "It was done: look at "
	    "what came of it." : "Try again later.", "What came back for %s is "
	    "not what the API documents.", name);
	return (0);
}

int
gh_ask(struct call *call, const struct gh_repo *r, const struct gh_ask *q,
    int want, struct ask_api *ret_done, struct json_object **ret_answer)
{
	const uint32_t left = call_left_ms(call);
	const struct sbx_api_ask m = { .op = (uint8_t)q->op, .host = r->host,
		.repo = r->key, .number = q->number, .page = q->page,
		.text = q->text != NULL ? q->text : "",
		.within_ms = left < SBX_API_MS + SBX_API_STEP_MS ?
		    left - SBX_API_STEP_MS : SBX_API_MS };
	const char *body = q->body != NULL ? q->body : "";
	const struct sbx_rest *row = sbx_rest_row(q->op);
	const char *name = row->name;
	int SBX_CLEANUP(fd) in = -1, SBX_CLEANUP(fd) out = -1;
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct ask_api own, *d = ret_done != NULL ? ret_done : &own;
	int error;

	*ret_answer = NULL;
	memset(d, 0, sizeof(*d));
	if (left < LEAST_MS) {
		result_error(call->res, "timeout", "Try again.", "There was no "
		    "time left for %s.", name);
		return (0);
	}
	sbx_buf_init(&b, GH_ANSWER_MAX + 1);
	if (sbx_memfd_sealed("body", body, strlen(body), &in) != 0 ||
	    (out = memfd_create("answer", MFD_CLOEXEC)) == -1)
		return (SBX_E_SYS);
	error = api_ask(call->ask, &m, (int[]){ in, out }, d);
	if (error != 0)
		return (call_refused(call, error));
	if (d->error != 0 || *d->code != '\0')
		return (refused(call, r, q, d));
	if (!read_answer(out, &b) || (*ret_answer = parse(&b, want)) == NULL)
		return (bad_answer(call, name, row->write));
	return (1);
}

/* Move the items of one page. */
static bool
take_page(struct json_object *list, struct json_object *page)
{
	size_t i, n = gh_len(page);

	if (n > 100)
		return (false);
	for (i = 0; i < n; i++)
		json_object_array_add(list, json_object_get(
		    json_object_array_get_idx(page, i)));
	return (true);
}

/* Which page of a list. */
struct at {
	uint32_t page;
	bool small;
};

/*
 * A page with more text than an answer takes is asked in ten small ones; behind
 * these there are large ones again.  false: not even that goes.
 */
static bool
go_small(struct at *at)
{
	const uint32_t ratio = SBX_REST_ITEMS / SBX_REST_ITEMS_SMALL;

	if (at->small)
		return (false);
	*at = (struct at){ (at->page - 1) * ratio + 1, true };
	return (true);
}

/* false: no more are read. */
static bool
go_on(struct at *at, uint32_t next)
{
	const uint32_t ratio = SBX_REST_ITEMS / SBX_REST_ITEMS_SMALL;

	at->page = next;
	if (at->small && (next - 1) % ratio == 0)
		*at = (struct at){ (next - 1) / ratio + 1, false };
	return (at->page <= GH_PAGES * (at->small ? ratio : 1));
}

int
gh_list(struct call *call, const struct gh_repo *r, const struct gh_ask *q,
    const char *member, struct json_object **ret_list, bool *ret_more)
{
	struct gh_ask ask = *q;
	struct json_object *page, *list = json_object_new_array();
	struct at at = { 1, false };
	struct ask_api d;
	bool good;
	int k = 1;

	*ret_list = NULL;
	*ret_more = false;
	for (unsigned n = 0; n < GH_LIST_ASKS; n++) {
		ask.page = at.page + (at.small ? SBX_REST_SMALL : 0);
		k = gh_ask(call, r, &ask, member != NULL ? json_type_object :
		    json_type_array, &d, &page);
		if (k == 0 && strcmp(d.code, "too_large") == 0) {
			/* what was read stays; the rest is said to be missing */
			*ret_more = true;
			if (!go_small(&at) && gh_len(list) == 0)
				break;
			result_reset(call->res);
			k = 1;
			if (ask.page < SBX_REST_SMALL && call_left_ms(call) > 0)
				continue;
			break;
		}
		if (k != 1)
			break;
		good = take_page(list, member != NULL ? gh_get(page, member) :
		    page);
		json_object_put(page);
		/* the next one is after this: no answer makes a loop */
		if (!good || (d.next_page != 0 && d.next_page <= at.page)) {
			k = bad_answer(call, sbx_rest_row(q->op)->name, false);
			break;
		}
		*ret_more = d.next_page != 0;
		if (d.next_page == 0 || call_left_ms(call) == 0 ||
		    !go_on(&at, d.next_page))
			break;
	}
	if (k == 1)
		*ret_list = list;
	else
		json_object_put(list);
	return (k);
}

int
gh_may_write(struct call *call, const struct gh_repo *r,
    const struct gh_ask *q)
{
	const struct sbx_api_ask m = { .op = (uint8_t)q->op, .host = r->host,
		.repo = r->key, .number = q->number, .text = "" };
	int SBX_CLEANUP(fd) in = -1, SBX_CLEANUP(fd) out = -1;
	struct ask_api d;
	int error;

	if (sbx_memfd_sealed("body", "", 0, &in) != 0 ||
	    (out = memfd_create("answer", MFD_CLOEXEC)) == -1)
		return (SBX_E_SYS);
	error = api_ask(call->ask, &m, (int[]){ in, out }, &d);
	return (error != 0 ? call_refused(call, error) : 1);
}

/* --- what is in it ---------------------------------------------------------------- */

struct json_object *
gh_get(struct json_object *o, const char *path)
{
	char name[32];
	size_t n;

	while (o != NULL && *path != '\0') {
		n = strcspn(path, ".");
		if (n >= sizeof(name) ||
		    !json_object_is_type(o, json_type_object))
			return (NULL);
		memcpy(name, path, n);
		name[n] = '\0';
		if (!json_object_object_get_ex(o, name, &o))
			return (NULL);
		path += n + (path[n] == '.');
	}
	return (o);
}

const char *
gh_str(struct json_object *o, const char *path)
{
	o = gh_get(o, path);
	return (json_object_is_type(o, json_type_string) ?
	    json_object_get_string(o) : "");
}

uint64_t
gh_num(struct json_object *o, const char *path)
{
	int64_t v;

	o = gh_get(o, path);
	v = json_object_is_type(o, json_type_int) ? json_object_get_int64(o) :
	    0;
	return (v < 0 ? 0 : (uint64_t)v);
}

bool
gh_true(struct json_object *o, const char *path)
{
	o = gh_get(o, path);
	return (json_object_is_type(o, json_type_boolean) &&
	    json_object_get_boolean(o));
}

size_t
gh_len(struct json_object *list)
{
	return (json_object_is_type(list, json_type_array) ?
	    json_object_array_length(list) : 0);
}

struct json_object *
gh_at(struct json_object *list, size_t i)
{
	struct json_object *o = i < gh_len(list) ?
	    json_object_array_get_idx(list, i) : NULL;

	return (json_object_is_type(o, json_type_object) ? o : NULL);
}

/* --- text ------------------------------------------------------------------------- */

/*
 * It shows nothing, or makes what is around it look like something else.  What
 * chooses the look of an emoji, or joins two, is seen in it: one of each behind
 * something that can be one.
 */
static bool
hides(uint32_t c, uint32_t before)
{
	bool emoji = before >= 0x80 && !sbx_is_invisible(before);

	if (c == 0xfe0e || c == 0xfe0f)
		return (!emoji && !(before >= '0' && before <= '9') &&
		    before != '#' && before != '*');
	if (c == 0x200d)
		return (!emoji && before != 0xfe0f);
	return (sbx_is_invisible(c));
}

/* *before: the code point before it. */
static int
put_char(struct sbx_buf *b, const char *s, unsigned n,
    const struct gh_text *how, uint32_t *before)
{
	uint32_t was = *before, c;

	*before = c = n == 0 ? 0xfffd : sbx_utf8_point(s, n);
	if (n == 0)
		return (sbx_buf_str(b, "\xef\xbf\xbd"));
	if (c == '\r')
		return (0);
	if (c == '\n' || c == '\t') {
		if (how->line)
			return (sbx_buf_add(b, " ", 1));
		return (sbx_buf_str(b, c == '\n' && how->quote ? "\n> " :
		    c == '\n' ? "\n" : "\t"));
	}
	if (hides(c, was))
		return (sbx_buf_printf(b, "<U+%04" PRIX32 ">", c));
	return (sbx_buf_add(b, s, n));
}

int
gh_text(struct sbx_buf *b, const char *s, size_t len,
    const struct gh_text *how)
{
	char SBX_CLEANUP(free) *copy = NULL;
	bool cut = len > how->max;
	uint32_t before = 0;
	size_t i;
	unsigned n;
	int error = how->quote ? sbx_buf_str(b, "> ") : 0;

	/* cut after masking, so that no half of a secret is left; what is
	 * far behind the cut cannot be part of one before it */
	if (len > how->max + BODY_MAX_BYTES)
		len = how->max + BODY_MAX_BYTES;
	copy = sbx_xcalloc(1, len + 1);
	memcpy(copy, s, len);
	(void)sbx_mask(copy, &len);
	for (i = 0; error == 0 && i < len && i < how->max; i += n != 0 ? n : 1) {
		n = sbx_utf8_len(copy + i, len - i);
		error = put_char(b, copy + i, n, how, &before);
	}
	if (error == 0 && (cut || i < len))
		error = sbx_buf_str(b, how->line ? " ..." : how->quote ?
		    "\n> \n(cut here: it is longer)" :
		    "\n(cut here: it is longer)");
	return (error);
}

/* The string at path, with all that it has. */
static const char *
bytes(struct json_object *o, const char *path, size_t *ret_len)
{
	o = gh_get(o, path);
	if (!json_object_is_type(o, json_type_string)) {
		*ret_len = 0;
		return ("");
	}
	*ret_len = (size_t)json_object_get_string_len(o);
	return (json_object_get_string(o));
}

int
gh_line(struct sbx_buf *b, struct json_object *o, const char *path)
{
	size_t len;
	const char *s = bytes(o, path, &len);

	return (gh_text(b, s, len, &(struct gh_text){ .line = true,
	    .max = LINE_MAX_BYTES }));
}

int
gh_body(struct sbx_buf *b, struct json_object *o, const char *path)
{
	size_t len;
	const char *s = bytes(o, path, &len);
	int error = gh_text(b, s, len, &(struct gh_text){ .quote = true,
	    .max = BODY_MAX_BYTES });

	return (error != 0 ? error : sbx_buf_str(b, "\n"));
}

void
gh_put(struct call *call, const char *key, struct json_object *o,
    const char *path, size_t max)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	size_t len;
	const char *s = bytes(o, path, &len);

	sbx_buf_init(&b, 16384);
	(void)gh_text(&b, s, len, &(struct gh_text){ .line = true,
	    .max = max });
	result_strn(call->res, key, b.len > 0 ? b.data : "", b.len);
}

/* --- files, and the user's word ------------------------------------------------------ */

int
gh_place(struct call *call, const char *path)
{
	const char *box = args_str(&call->args, "container_id", NULL);
	SBX_CLEANUP_BUF struct sbx_buf old = { 0 };
	struct ask_filed was;
	int r;

	r = file_get(call, box, &(struct file_want){ .op = SBX_FILE_READ,
	    .path = path, .count = 1, .max_bytes = 4096 }, &was, &old);
	return (r == 0 || (r == 1 && was.error == ENOENT) ? 1 :
	    file_refused(call, r, path, &was));
}

int
gh_save(struct call *call, const char *path, const struct sbx_buf *text,
    char *ret_path)
{
	const char *box = args_str(&call->args, "container_id", NULL);
	SBX_CLEANUP_BUF struct sbx_buf old = { 0 };
	struct ask_filed was, done;
	struct file_change c = { .path = path, .was = &was,
		.data = text->data, .len = text->len };
	int r;

	r = file_get(call, box, &(struct file_want){ .op = SBX_FILE_READ,
	    .path = path, .count = 1, .max_bytes = 4096 }, &was, &old);
	if (r == 1 && was.error == ENOENT)
		c.was = NULL;
	else if (r != 0)
		return (file_refused(call, r, path, &was));
	r = file_put(call, box, &c, 1, &done);
	if (r != 0)
		return (file_refused(call, r, path, &done));
	return (sbx_strlcpy(ret_path, *done.path != '\0' ? done.path : path,
	    sizeof(done.path)) == 0 ? 1 : SBX_E_LENGTH);
}

void
gh_show(struct sbx_buf *b, const char *text)
{
	(void)gh_text(b, text, strlen(text), &(struct gh_text){
	    .quote = true, .max = BODY_MAX_BYTES });
	(void)sbx_buf_str(b, "\n");
}

bool
gh_confirmed(struct call *call, const struct sbx_buf *what)
{
	static const char key[] = "confirm", method[] = "elicitation/create";
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct json_object *answer;
	const char *action;

	if ((call->client_can & SBX_CAN_ELICIT) == 0)
		return (true);
	sbx_buf_init(&b, GH_SHOWN_MAX);
	(void)sbx_buf_str(&b, "{\"message\":");
	(void)sbx_json_str(&b, what->data, what->len, NULL);
	(void)sbx_buf_str(&b, ",\"requestedSchema\":{\"type\":\"object\","
	    "\"properties\":{}}}");
	if (what->overflow || b.overflow) {
		result_error(call->res, "too_long_to_show", "Write less, or "
		    "several smaller ones.", "The user is asked before it is "
		    "written, and sees all of it, but no question has more "
		    "than %u bytes.", GH_SHOWN_MAX);
		return (false);
	}
	answer = call_ask(call, key, method, b.data);
	if (answer == NULL)
		return (false);
	action = gh_str(answer, "action");
	if (strcmp(action, "accept") == 0)
		return (true);
	result_error(call->res, "declined", "Do not try again unless the user "
	    "asks for it.", "The user did not agree: nothing was written.");
	return (false);
}

bool
gh_clean_out(struct call *call, const char *arg, const char *text)
{
	const char *what = text == NULL ? NULL :
	    sbx_mask_find_token(text, strlen(text));

	if (what == NULL)
		return (true);
	result_error(call->res, "secret_found", "Take it out, and have it "
	    "revoked if it is a real one.", "\"%s\" holds what looks like a "
	    "secret (%s): nothing was written.", arg, what);
	return (false);
}

void
gh_json_member(struct sbx_buf *b, const char *key, const char *s)
{
	(void)sbx_buf_printf(b, "%s\"%s\":", b->len == 0 ? "{" : ",", key);
	(void)sbx_json_str(b, s != NULL ? s : "", s != NULL ? strlen(s) : 0,
	    NULL);
}
