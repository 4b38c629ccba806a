#include "common/base/commitsig.h"

#include <string.h>

#define LINE_MAX_CHARS 76u

bool
sbx_commitsig_good(const char *armored)
{
	static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789+/=";
	const char *s = armored + sizeof(SBX_COMMITSIG_BEGIN) - 1;
	size_t n, lines = 0;

	if (strncmp(armored, SBX_COMMITSIG_BEGIN,
	    sizeof(SBX_COMMITSIG_BEGIN) - 1) != 0 ||
	    strlen(armored) > SBX_COMMITSIG_MAX)
		return (false);
	for (; *s != '-'; s += n + 1, lines++) {
		n = strspn(s, set);
		if (n == 0 || n > LINE_MAX_CHARS || s[n] != '\n')
			return (false);
	}
	return (lines > 0 && strcmp(s, SBX_COMMITSIG_END) == 0);
}

/* Each line but the first is continued with a blank. */
static int
add_header(struct sbx_buf *b, const char *name, const char *text)
{
	int r = sbx_buf_str(b, name);
	size_t n;

	for (; r == 0 && *text != '\0'; text += n) {
		n = strcspn(text, "\n") + 1;
		if ((r = sbx_buf_str(b, " ")) == 0)
			r = sbx_buf_add(b, text, n);
	}
	return (r);
}

int
sbx_commitsig_add(struct sbx_buf *b, const char *commit, size_t n,
    const char *armored)
{
	const char *end = memmem(commit, n, "\n\n", 2);
	const char *line = memchr(commit, '\n', n);
	size_t head;
	int r;

	if (end == NULL || n < 5 || memcmp(commit, "tree ", 5) != 0 ||
	    !sbx_commitsig_good(armored))
		return (SBX_E_SYNTAX);
	head = (size_t)(end - commit) + 1;
	if (memmem(commit, head, "\ngpgsig", 7) != NULL)
		return (SBX_E_SYNTAX);
	if ((r = sbx_buf_add(b, commit, head)) == 0)
		r = add_header(b, line - commit == 5 + 64 ? "gpgsig-sha256" :
		    "gpgsig", armored);
	return (r == 0 ? sbx_buf_add(b, commit + head, n - head) : r);
}
