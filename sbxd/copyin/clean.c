/*
 * A .git/config without credentials, and without what makes git execute or
 * read something of the host.  It is parsed as git does and written anew from
 * what was understood: so nothing passes that git would read in another way.
 * Source: git-config(1), "Syntax".
 */
#include "common/base/mask.h"
#include "sbxd/copyin/copyin.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define PART_MAX 8192	/* a subsection or a value; longer ones are dropped */

/* Section, then the keys of it that are kept. */
static const struct {
	const char *section, *keys;
} kept[] = {
	{ "core", " repositoryformatversion filemode bare logallrefupdates "
	    "ignorecase precomposeunicode symlinks autocrlf eol safecrlf "
	    "sparsecheckout sparsecheckoutcone quotepath abbrev " },
	{ "extensions", " objectformat refstorage partialclone noop " },
	{ "remote", " url fetch push pushurl tagopt prune promisor "
	    "partialclonefilter " },
	{ "branch", " remote pushremote merge rebase description " },
	{ "user", " name email " },
	{ "submodule", " active url update branch " },
	{ "pull", " rebase ff " },
	{ "push", " default autosetupremote " },
	{ "merge", " conflictstyle ff " },
	{ "diff", " algorithm renames " },
	{ "init", " defaultbranch " },
};

struct parser {
	const char *p, *end;
	const char *keys;	/* of the open section; NULL: dropped */
	char section[64], sub[PART_MAX], key[64], value[PART_MAX];
	size_t sub_len, value_len;
	bool has_sub, has_value;
	bool header_due;	/* the section's header is not written yet */
	struct sbx_buf *out;
};

static int
next(struct parser *g)
{
	if (g->p == g->end)
		return (-1);
	/* git reads CR LF as LF */
	if (*g->p == '\r' && g->p + 1 < g->end && g->p[1] == '\n')
		g->p++;
	return ((unsigned char)*g->p++);
}

static int
peek(const struct parser *g)
{
	return (g->p == g->end ? -1 : (unsigned char)*g->p);
}

/* A value of more than PART_MAX bytes is not kept, but read to its end. */
static void
put(char *part, size_t *len, int ch)
{
	if (*len < PART_MAX)
		part[(*len)++] = (char)ch;
}

/* --- what is kept ------------------------------------------------------------ */

static const char *
section_keys(const struct parser *g)
{
	for (size_t i = 0; i < SBX_NELEM(kept); i++)
		if (strcmp(g->section, kept[i].section) == 0)
			return (kept[i].keys);
	return (NULL);
}

static bool
key_kept(const struct parser *g)
{
	char word[sizeof(g->key) + 2];
	size_t n = strlen(g->key);

	word[0] = ' ';
	memcpy(word + 1, g->key, n);
	memcpy(word + 1 + n, " ", 2);
	return (g->keys != NULL && strstr(g->keys, word) != NULL);
}

static bool
is_ssh(const char *v, size_t len)
{
	static const char *const schemes[] = { "ssh://", "git+ssh://",
		"ssh+git://" };

	for (size_t i = 0; i < SBX_NELEM(schemes); i++)
		if (len > strlen(schemes[i]) &&
		    memcmp(v, schemes[i], strlen(schemes[i])) == 0)
			return (true);
	return (false);
}

/*
 * scheme://user:secret@host: the user info goes, but for a login name of ssh.
 * Everything up to the last '@' of what git may take as the authority.
 */
static void
drop_user_info(char *v, size_t *len)
{
	char *host = memmem(v, *len, "://", 3), *at, *colon, *from;
	size_t n;

	if (host == NULL)
		return;
	host += 3;
	for (n = 0; host + n < v + *len && host[n] != '/' && host[n] != '?' &&
	    host[n] != '#'; n++)
		;
	at = memrchr(host, '@', n);
	if (at == NULL)
		return;
	colon = memchr(host, ':', (size_t)(at - host));
	from = host;
	if (is_ssh(v, *len)) {
		if (colon == NULL)
			return;
		from = colon;
		at--;		/* the '@' stays behind the name */
	}
	memmove(from, at + 1, (size_t)(v + *len - (at + 1)));
	*len -= (size_t)(at + 1 - from);
}

/* Anything in it that looks like a secret. */
static bool
is_secret(const char *p, size_t n)
{
	return (n == PART_MAX || memchr(p, '\0', n) != NULL ||
	    sbx_mask_find(p, n) != NULL);
}

static void
put_quoted(struct sbx_buf *b, const char *p, size_t n)
{
	(void)sbx_buf_str(b, "\"");
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n')
			(void)sbx_buf_str(b, "\\n");
		else if (p[i] == '"' || p[i] == '\\')
			(void)sbx_buf_printf(b, "\\%c", p[i]);
		else
			(void)sbx_buf_add(b, p + i, 1);
	}
	(void)sbx_buf_str(b, "\"");
}

static void
keep(struct parser *g)
{
	drop_user_info(g->value, &g->value_len);
	if (!key_kept(g) || is_secret(g->value, g->value_len))
		return;
	/* submodule.NAME.update, for one, may be a command */
	if (g->value_len > 0 && g->value[0] == '!')
		return;
	if (g->header_due) {
		(void)sbx_buf_printf(g->out, "[%s", g->section);
		if (g->has_sub) {
			(void)sbx_buf_str(g->out, " ");
			put_quoted(g->out, g->sub, g->sub_len);
		}
		(void)sbx_buf_str(g->out, "]\n");
		g->header_due = false;
	}
	(void)sbx_buf_printf(g->out, "\t%s", g->key);
	if (g->has_value) {
		(void)sbx_buf_str(g->out, " = ");
		put_quoted(g->out, g->value, g->value_len);
	}
	(void)sbx_buf_str(g->out, "\n");
}

/* --- the syntax --------------------------------------------------------------- */

/* Behind '['.  false: not a header. */
static bool
parse_header(struct parser *g)
{
	size_t n = 0;
	int ch;

	g->has_sub = false;
	g->sub_len = 0;
	while (isalnum(ch = next(g)) || ch == '-' || ch == '.')
		if (n < sizeof(g->section) - 1)
			g->section[n++] = (char)tolower(ch);
	g->section[n] = '\0';
	if (ch == ' ' || ch == '\t') {
		while (ch == ' ' || ch == '\t')
			ch = next(g);
		if (ch != '"')
			return (false);
		while ((ch = next(g)) != '"') {
			if (ch == '\\')
				ch = next(g);
			if (ch == -1 || ch == '\n')
				return (false);
			put(g->sub, &g->sub_len, ch);
		}
		g->has_sub = true;
		ch = next(g);
	}
	/* [section.sub], an old way: no section of ours has a dot */
	g->keys = is_secret(g->sub, g->sub_len) || (memmem(g->sub, g->sub_len,
	    "://", 3) != NULL && memchr(g->sub, '@', g->sub_len) != NULL) ?
	    NULL : section_keys(g);
	g->header_due = true;
	return (ch == ']' && n > 0);
}

/* Behind a backslash.  -1: no such escape. */
static int
escaped(int ch)
{
	switch (ch) {
	case 'n':
		return ('\n');
	case 't':
		return ('\t');
	case 'b':
		return ('\b');
	case '"':
	case '\\':
		return (ch);
	default:
		return (-1);
	}
}

/* Behind '=', to the end of the line that ends it. */
static bool
parse_value(struct parser *g)
{
	bool quoted = false, comment = false;
	size_t solid = 0;	/* length without blanks at its end */
	int ch;

	while ((ch = next(g)) != -1 && ch != '\n') {
		if (comment)
			continue;
		if (!quoted && (ch == '#' || ch == ';')) {
			comment = true;
			continue;
		}
		if (!quoted && isspace(ch)) {
			if (g->value_len > 0)
				put(g->value, &g->value_len, ch);
			continue;
		}
		if (ch == '"') {
			quoted = !quoted;
			continue;
		}
		if (ch == '\\') {
			ch = next(g);
			if (ch == '\n')
				continue;
			if ((ch = escaped(ch)) == -1)
				return (false);
		}
		put(g->value, &g->value_len, ch);
		solid = g->value_len;
	}
	if (g->value_len < PART_MAX)
		g->value_len = solid;
	return (!quoted);
}

static bool
parse_key(struct parser *g, int ch)
{
	size_t n = 0;

	if (!isalpha(ch))
		return (false);
	for (; isalnum(ch) || ch == '-'; ch = next(g))
		if (n < sizeof(g->key) - 1)
			g->key[n++] = (char)tolower(ch);
	g->key[n] = '\0';
	while (ch == ' ' || ch == '\t')
		ch = next(g);
	g->value_len = 0;
	g->has_value = ch == '=';
	if (ch != '=' && ch != '\n' && ch != -1)
		return (false);
	return (!g->has_value || parse_value(g));
}

int
clean_git_config(const char *text, size_t len, struct sbx_buf *b)
{
	struct parser *g = sbx_xcalloc(1, sizeof(*g));
	bool good = true;
	int ch;

	g->p = text;
	g->end = text + len;
	g->out = b;
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		g->p += 3;
	while (good && (ch = next(g)) != -1) {
		if (ch == '#' || ch == ';') {
			while (peek(g) != -1 && peek(g) != '\n')
				(void)next(g);
		} else if (ch == '[') {
			good = parse_header(g);
		} else if (!isspace(ch)) {
			good = parse_key(g, ch);
			if (good)
				keep(g);
		}
	}
	free(g);
	return (good && !b->overflow ? 0 : SBX_E_SYNTAX);
}
