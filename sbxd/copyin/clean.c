#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/base/mask.h"
#include "sbxd/copyin/copyin.h"

/* Section, then the keys of it that are kept.  Source: git-config(1). */
static const struct {
	const char *section, *keys;
} kept[] = {
	{ "core", " repositoryformatversion filemode bare logallrefupdates "
	    "ignorecase precomposeunicode symlinks autocrlf eol " },
	{ "extensions", " objectformat refstorage " },
	{ "remote", " url fetch pushurl tagopt " },
	{ "branch", " remote merge rebase " },
	{ "user", " name email " },
	{ "submodule", " active url " },
};

/* The keys of a header's section, or NULL: all of it is dropped. */
static const char *
section_keys(const char *line, size_t len)
{
	for (size_t i = 0; i < SBX_NELEM(kept); i++) {
		size_t n = strlen(kept[i].section);

		if (len > n + 1 && strncasecmp(line + 1, kept[i].section,
		    n) == 0 && (line[n + 1] == ']' || line[n + 1] == ' '))
			return (kept[i].keys);
	}
	return (NULL);
}

static bool
key_kept(const char *keys, const char *key, size_t len)
{
	char word[64] = " ";

	if (len == 0 || len > sizeof(word) - 3)
		return (false);
	for (size_t i = 0; i < len; i++)
		word[1 + i] = (char)tolower((unsigned char)key[i]);
	word[1 + len] = ' ';
	word[2 + len] = '\0';
	return (strstr(keys, word) != NULL);
}

/* "scheme://user:secret@host": what stands before the '@' goes, but for ssh,
 * where it is a login name without a secret. */
static void
put_value(struct sbx_buf *b, const char *v, size_t len)
{
	const char *host = memmem(v, len, "://", 3), *at, *slash;

	if (host != NULL) {
		host += 3;
		slash = memchr(host, '/', len - (size_t)(host - v));
		at = memrchr(host, '@', (slash != NULL ? (size_t)(slash - host)
		    : len - (size_t)(host - v)));
		if (at != NULL && (strncmp(v, "ssh://", 6) != 0 ||
		    memchr(host, ':', (size_t)(at - host)) != NULL)) {
			(void)sbx_buf_add(b, v, (size_t)(host - v));
			len -= (size_t)(at + 1 - v);
			v = at + 1;
		}
	}
	(void)sbx_buf_add(b, v, len);
}

/* One line without its newline; *keys: of the section it is in. */
static void
clean_line(const char *line, size_t len, const char **keys, struct sbx_buf *b)
{
	const char *eq;
	size_t key;

	while (len > 0 && isspace((unsigned char)*line)) {
		line++;
		len--;
	}
	if (len == 0 || *line == '#' || *line == ';')
		return;
	if (*line == '[') {
		/* a value on the header's own line is dropped with it */
		*keys = line[len - 1] == ']' ? section_keys(line, len) : NULL;
		if (*keys != NULL && sbx_mask_find(line, len) == NULL) {
			(void)sbx_buf_add(b, line, len);
			(void)sbx_buf_str(b, "\n");
		} else
			*keys = NULL;
		return;
	}
	eq = memchr(line, '=', len);
	key = eq != NULL ? (size_t)(eq - line) : len;
	while (key > 0 && isspace((unsigned char)line[key - 1]))
		key--;
	if (*keys == NULL || !key_kept(*keys, line, key))
		return;
	(void)sbx_buf_str(b, "\t");
	if (eq == NULL)
		(void)sbx_buf_add(b, line, len);
	else {
		(void)sbx_buf_add(b, line, (size_t)(eq - line) + 1);
		put_value(b, eq + 1, len - (size_t)(eq + 1 - line));
	}
	(void)sbx_buf_str(b, "\n");
}

void
clean_git_config(const char *text, size_t len, struct sbx_buf *b)
{
	const char *p = text, *end = text + len, *keys = NULL, *nl;
	bool continued = false, drop;

	for (; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (nl == NULL)
			nl = end;
		/* a value over several lines is dropped whole */
		drop = continued;
		continued = nl > p && nl[-1] == '\\';
		if (!drop && !continued)
			clean_line(p, (size_t)(nl - p), &keys, b);
	}
}
