/* The commit's bytes (gitformat: tree, parents, author, committer, message). */
#include "common/base/commitsig.h"
#include "common/proto/copystream.h"
#include "sbxd/judge/publish.h"
#include "sbxd/judge/stream.h"

#include <string.h>

#define TIME_MAX 253402300799ull	/* the year 9999 */

static bool
printable(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)p[i] < 32 || p[i] == 127)
			return (false);
	return (utf8_valid(p, n));
}

/* "NAME <MAIL>", and nothing of either that would be a header of its own. */
static bool
author_good(const char *s)
{
	const char *open = strchr(s, '<'), *close = strchr(s, '>');

	return (open != NULL && close != NULL && open > s + 1 &&
	    open[-1] == ' ' && s[0] != ' ' && close > open + 1 &&
	    close[1] == '\0' && strchr(open + 1, '<') == NULL &&
	    memchr(open, ' ', (size_t)(close - open)) == NULL &&
	    printable(s, strlen(s)));
}

int
commit_check(struct pub *p)
{
	struct oid id;

	if (p->step[0] != '\0')
		return (-1);
	if (p->parent2[0] != '\0' && (strcmp(p->parent2, p->base) == 0 ||
	    oid_parse(p->parent2, strlen(p->parent2), &id) != p->format))
		return (pub_fail(p, "malformed", "the second parent is no other "
		    "commit's id"));
	if (!author_good(p->author))
		return (pub_fail(p, "malformed", "the author is not of the form "
		    "NAME <MAIL>"));
	if (p->time > TIME_MAX)
		return (pub_fail(p, "malformed", "the time is none"));
	while (p->message_len > 0 && p->message[p->message_len - 1] == '\n')
		p->message_len--;
	if (p->message_len == 0 || strlen(p->message) < p->message_len ||
	    !utf8_valid(p->message, p->message_len))
		return (pub_fail(p, "malformed", "the message is empty, or is no "
		    "text in UTF-8"));
	return (0);
}

static int
make(struct pub *p, struct sbx_buf *b)
{
	char hex[65];
	int r;

	sbx_buf_init(b, PUBLISH_MESSAGE_BYTES + 4096);
	oid_hex(p->format, &p->tree, hex);
	r = sbx_buf_printf(b, "tree %s\nparent %s\n", hex, p->base);
	if (r == 0 && p->parent2[0] != '\0')
		r = sbx_buf_printf(b, "parent %s\n", p->parent2);
	if (r == 0)
		r = sbx_buf_printf(b, "author %s %llu +0000\n"
		    "committer %s %llu +0000\n\n", p->author,
		    (unsigned long long)p->time, p->author,
		    (unsigned long long)p->time);
	if (r == 0)
		r = sbx_buf_add(b, p->message, p->message_len);
	return (r == 0 ? sbx_buf_add(b, "\n", 1) : r);
}

void
pub_commit(struct pub *p)
{
	if (p->step[0] == '\0' && make(p, &p->text) != 0)
		(void)pub_fail(p, "too_large", "the commit is too long");
}

/* Its shape is looked at; whether it is one, whoever has the key knows. */
void
pub_sign(struct pub *p, const char *signature)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };

	if (p->step[0] != '\0')
		return;
	sbx_buf_init(&b, p->text.len + 2 * SBX_COMMITSIG_MAX);
	if (sbx_commitsig_add(&b, p->text.data, p->text.len, signature) != 0) {
		(void)pub_fail(p, "sign", "the signature is none that git "
		    "takes");
		return;
	}
	sbx_buf_clear(&p->text);
	p->text = b;
	b = (struct sbx_buf){ 0 };
}

void
pub_end(struct pub *p, int out)
{
	const struct sbx_buf *b = &p->text;

	if (p->step[0] != '\0')
		return;
	oid_of(p->h, p->format, OBJECT_COMMIT, b->data, b->len, &p->commit);
	if (stream_head(out, SBX_COPY_T_FILE, 0644, "commit", b->len) != 0 ||
	    sbx_write_all(out, b->data, b->len) != 0 ||
	    stream_head(out, SBX_COPY_T_END, 0, "", 0) != 0)
		(void)pub_fail(p, "suite", "the files were not taken");
}
