/*
 * Shapes of secrets.  One table; each byte of the text is looked up by the
 * shapes that begin with it, and what a shape looks at beyond its minimum is
 * either masked and skipped or bounded, so the whole is linear.
 */

#include "common/base/mask.h"

#include <string.h>
#include <strings.h>

#define STARS 3
#define NAME_MAX_BYTES 64	/* of KEY in KEY=value */
#define VALUE_LOOK 128		/* a value is judged by its first bytes */
#define USERINFO_MAX 512

/* Character sets of token bodies, as bits. */
enum {
	C_DIGIT = 1, C_UPPER = 2, C_LOWER = 4, C_UNDER = 8, C_DASH = 16,
	C_DOT = 32, C_B64 = 64,	/* + / = */
};
#define C_ALPHA (C_UPPER | C_LOWER)
#define C_ALNUM (C_ALPHA | C_DIGIT)
#define C_WORD (C_ALNUM | C_UNDER)
#define C_URL64 (C_WORD | C_DASH)
#define C_ALL64 (C_ALNUM | C_B64)
#define C_TOKEN (C_URL64 | C_DOT | C_B64)

/* Where a shape is looked for: what was put out before it, what follows. */
struct spot {
	const char *before;
	size_t nbefore;
	const char *p;
	size_t n;
};
/* What of it is a secret: bytes [from, to) of spot.p. */
struct found {
	size_t from, to;
};

struct shape {
	const char *name, *prefix;
	bool (*fn)(const struct shape *, const struct spot *, struct found *);
	unsigned set;		/* of the body */
	unsigned min, max;	/* bytes of the body; max 0: no limit */
	bool weak;		/* stands in examples, too, or only names a key */
};

static unsigned
class_of(char ch)
{
	if (ch >= '0' && ch <= '9')
		return (C_DIGIT);
	if (ch >= 'A' && ch <= 'Z')
		return (C_UPPER);
	if (ch >= 'a' && ch <= 'z')
		return (C_LOWER);
	if (ch == '+' || ch == '/' || ch == '=')
		return (C_B64);
	return (ch == '_' ? C_UNDER : ch == '-' ? C_DASH :
	    ch == '.' ? C_DOT : 0);
}

/* Length of the run of `set` at p. */
static size_t
span(const char *p, size_t n, unsigned set)
{
	size_t i = 0;

	while (i < n && (class_of(p[i]) & set) != 0)
		i++;
	return (i);
}

/* Which classes occur in p. */
static unsigned
classes(const char *p, size_t n)
{
	unsigned all = 0;
	size_t i;

	for (i = 0; i < n; i++)
		all |= class_of(p[i]);
	return (all);
}

static bool
word_before(const struct spot *s)
{
	return (s->nbefore > 0 &&
	    (class_of(s->before[s->nbefore - 1]) & C_WORD) != 0);
}

/* --- tokens by prefix ------------------------------------------------------ */

/*
 * A prefix that no word contains, such as ghp_, counts wherever it stands:
 * behind an escape (\\n, %3D) or a field that was glued to it.  The short
 * and the plain ones (sk-, hf_, AKIA) only at the begin of a word.
 */
static bool
anywhere(const char *prefix, size_t len)
{
	return (len >= 4 && (prefix[len - 1] == '_' || prefix[len - 1] == '-'));
}

static bool
find_token(const struct shape *sh, const struct spot *s, struct found *f)
{
	size_t skip = strlen(sh->prefix), n = s->n - skip;

	if (word_before(s) && !anywhere(sh->prefix, skip))
		return (false);
	if (sh->max != 0 && n > sh->max + 1)
		n = sh->max + 1;
	n = span(s->p + skip, n, sh->set);
	if (n < sh->min || (sh->max != 0 && n > sh->max))
		return (false);
	f->from = 0;
	f->to = skip + n;
	return (true);
}

/* Three base64url parts; the first two are JSON objects.  RFC 7519. */
static bool
find_jwt(const struct shape *sh, const struct spot *s, struct found *f)
{
	size_t part, n, at = 0;

	if (word_before(s) ||
	    (s->nbefore > 0 && s->before[s->nbefore - 1] == '-'))
		return (false);
	for (part = 0; part < 3; part++) {
		n = span(s->p + at, s->n - at, C_URL64);
		if (n < sh->min || (part < 2 &&
		    (s->n - at < n + 1 || s->p[at + n] != '.')))
			return (false);
		if (part == 1 && memcmp(s->p + at, "eyJ", 3) != 0)
			return (false);
		at += n + (part < 2);
	}
	f->from = 0;
	f->to = at;
	return (true);
}

/* --- PEM ------------------------------------------------------------------- */

#define DASHES "-----"
#define PEM_LABEL_MAX 40
#define PEM_LINE_MIN 40		/* a body has a run of base64 this long */

/* Length of the "-----END ...-----" at p; 0: there is none. */
static size_t
pem_end(const char *p, size_t n)
{
	static const char end[] = DASHES "END ";
	size_t i;

	if (n < sizeof(end) - 1 || memcmp(p, end, sizeof(end) - 1) != 0)
		return (0);
	i = sizeof(end) - 1;
	while (i < n && i < PEM_LABEL_MAX && (class_of(p[i]) == C_UPPER ||
	    p[i] == ' '))
		i++;
	return (n - i >= 5 && memcmp(p + i, DASHES, 5) == 0 ? i + 5 : 0);
}

/*
 * A body, also with its newlines escaped or its lines quoted, as in JSON and
 * in sources.  It ends at the next dashes: so BEGIN after BEGIN stays linear.
 */
static size_t
pem_body(const char *p, size_t n, bool *ret_key)
{
	size_t i, run = 0;

	*ret_key = false;
	for (i = 0; i < n; i++) {
		run = (class_of(p[i]) & C_ALL64) != 0 ? run + 1 : 0;
		if (run >= PEM_LINE_MIN)
			*ret_key = true;
		if (run == 0 && (p[i] == '\0' ||
		    strchr(" \t\r\n\\\"':,-", p[i]) == NULL))
			break;
		if (n - i >= 5 && memcmp(p + i, DASHES, 5) == 0)
			break;
	}
	return (i);
}

static bool
find_pem(const struct shape *sh, const struct spot *s, struct found *f)
{
	size_t at = strlen(sh->prefix), label = at;
	bool key;

	while (at < s->n && at - label < PEM_LABEL_MAX &&
	    (class_of(s->p[at]) == C_UPPER || s->p[at] == ' '))
		at++;
	if (memmem(s->p + label, at - label, "PRIVATE KEY", 11) == NULL ||
	    s->n - at < 5 || memcmp(s->p + at, DASHES, 5) != 0)
		return (false);
	at += 5;
	at += pem_body(s->p + at, s->n - at, &key);
	if (!key)
		return (false);
	f->from = 0;
	f->to = at + pem_end(s->p + at, s->n - at);
	return (true);
}

/* --- headers, URLs ---------------------------------------------------------- */

static bool
is_blank(char ch)
{
	return (ch == ' ' || ch == '\t');
}

static size_t
skip_blanks(const char *p, size_t n, size_t at)
{
	while (at < n && is_blank(p[at]))
		at++;
	return (at);
}

/*
 * The credential at p, judged by its begin: words, as in a type or in a
 * sentence, are none.  Its length, or 0.
 */
static size_t
credential(const char *p, size_t n, unsigned set, unsigned min, bool digits)
{
	size_t look = span(p, n < VALUE_LOOK ? n : VALUE_LOOK, set);
	unsigned c = classes(p, look);

	if (look < min || (c & C_ALPHA) == 0 || ((c & C_DIGIT) == 0 &&
	    (digits || (c & C_ALPHA) != C_ALPHA)))
		return (0);
	return (look + span(p + look, n - look, set));
}

/* "Authorization: SCHEME value", also quoted as in JSON or a source. */
static bool
find_authorization(const struct shape *sh, const struct spot *s,
    struct found *f)
{
	static const char *const schemes[] = { "basic ", "bearer ", "token " };
	size_t at = strlen(sh->prefix), i, n;
	unsigned min = 16;
	char sep;

	at += at < s->n && (s->p[at] == '"' || s->p[at] == '\'');
	at = skip_blanks(s->p, s->n, at);
	if (at == s->n || (s->p[at] != ':' && s->p[at] != '='))
		return (false);
	sep = s->p[at];
	at = skip_blanks(s->p, s->n, at + 1);
	at += at < s->n && (s->p[at] == '"' || s->p[at] == '\'');
	for (i = 0; i < SBX_NELEM(schemes); i++) {
		n = strlen(schemes[i]);
		if (s->n - at < n || strncasecmp(s->p + at, schemes[i],
		    n) != 0)
			continue;
		at += n;
		min = sh->min;
		break;
	}
	if (i == SBX_NELEM(schemes) && sep == '=')
		return (false);	/* an assignment in a source */
	f->from = at;
	f->to = at + credential(s->p + at, s->n - at, sh->set, min, false);
	return (f->to > at);
}

/* A bearer token without its header's name, RFC 6750. */
static bool
find_bearer(const struct shape *sh, const struct spot *s, struct found *f)
{
	size_t at = strlen(sh->prefix);

	if (word_before(s))
		return (false);
	f->from = at;
	f->to = at + credential(s->p + at, s->n - at, sh->set, sh->min, true);
	return (f->to > at);
}

/* A value that stands for one: a variable, a format, a gap to fill in. */
static bool
is_stand_in(const char *p, size_t n)
{
	size_t i = 0;

	if (n == 0 || (p[0] != '\0' && strchr("$%{<[", p[0]) != NULL))
		return (true);
	while (i < n && p[i] == p[0])
		i++;
	return (i == n && (p[0] == '*' || (n >= 3 && (p[0] == '.' ||
	    p[0] == 'x' || p[0] == 'X'))));
}

/* scheme://user:password@ and scheme://long-token@, RFC 3986 section 3.2.1 */
static bool
find_userinfo(const struct shape *sh, const struct spot *s, struct found *f)
{
	size_t begin = strlen(sh->prefix), at, colon = 0;
	unsigned c;

	if (s->nbefore == 0 ||
	    (class_of(s->before[s->nbefore - 1]) & C_ALNUM) == 0)
		return (false);
	for (at = begin; at < s->n && at < begin + USERINFO_MAX; at++) {
		if (s->p[at] == '@')
			break;
		if (s->p[at] == ':' && colon == 0)
			colon = at + 1;
		if ((unsigned char)s->p[at] <= ' ' ||
		    strchr("/\"'<>`\\?#", s->p[at]) != NULL)
			return (false);
	}
	if (at == s->n || s->p[at] != '@')
		return (false);
	f->from = colon != 0 ? colon : begin;
	f->to = at;
	if (is_stand_in(s->p + f->from, at - f->from))
		return (false);
	c = classes(s->p + f->from, at - f->from);
	/* a name alone is no secret, a long mixed one is */
	return (colon != 0 || (at - begin >= sh->min && (c & C_DIGIT) != 0 &&
	    (c & C_ALPHA) != 0));
}

/* --- KEY=value --------------------------------------------------------------- */

/* What the name ends with; how much is known about such values. */
static const struct key_word {
	const char *word;
	bool password;		/* short and simple ones exist */
} key_words[] = {
	{ "token", false }, { "secret", false }, { "password", true },
	{ "passwd", true }, { "passphrase", true }, { "apikey", false },
	{ "api_key", false }, { "api-key", false }, { "access_key", false },
	{ "access-key", false }, { "accesskey", false },
	{ "secret_key", false }, { "secret-key", false },
	{ "secretkey", false }, { "secret_key_base", false },
	{ "mysql_pwd", true }, { "_auth", false },
};

/* A KEY=value as it was found. */
struct pair {
	const struct key_word *word;
	const char *name, *value;
	size_t nname, nvalue;
	char sep, quote;	/* quote '\0': none */
	bool tight;		/* no blank around the separator */
	bool open;		/* cut by VALUE_LOOK, or no closing quote */
	char after;		/* the byte behind it, or NUL */
};

static bool
pair_name(const struct spot *s, struct pair *pr)
{
	const char *end = s->before + s->nbefore, *p;
	size_t left = s->nbefore, i, n;

	pr->tight = true;
	while (left > 0 && is_blank(end[-1])) {
		pr->tight = false;
		end--;
		left--;
	}
	if (left > 0 && (end[-1] == '"' || end[-1] == '\'')) {
		end--;
		left--;
	}
	for (p = end; left > 0 && end - p < NAME_MAX_BYTES &&
	    (class_of(p[-1]) & (C_URL64 | C_DOT)) != 0; left--)
		p--;
	pr->name = p;
	pr->nname = (size_t)(end - p);
	for (i = 0; i < SBX_NELEM(key_words); i++) {
		n = strlen(key_words[i].word);
		if (pr->nname >= n && strncasecmp(end - n, key_words[i].word,
		    n) == 0) {
			pr->word = &key_words[i];
			return (true);
		}
	}
	return (false);
}

static bool
value_ends(const struct pair *pr, char ch)
{
	if (pr->quote != '\0')
		return (ch == pr->quote || ch == '\n');
	return (ch != '\0' && strchr(" \t\r\n\"'`,;&|()[]{}<>", ch) != NULL);
}

/* pr->nvalue is at most VALUE_LOOK. */
static void
pair_value(const struct spot *s, struct pair *pr)
{
	size_t at = skip_blanks(s->p, s->n, 1), i;
	char ch = '\0';

	pr->sep = s->p[0];
	if (at > 1 && pr->sep == '=')
		pr->tight = false;
	if (at < s->n && (s->p[at] == '"' || s->p[at] == '\''))
		pr->quote = s->p[at++];
	pr->value = s->p + at;
	for (i = at; i < s->n && i - at < VALUE_LOOK; i++) {
		ch = s->p[i];
		if (value_ends(pr, ch))
			break;
	}
	pr->nvalue = i - at;
	pr->open = i == s->n || i - at == VALUE_LOOK;
	pr->after = pr->open ? '\0' : ch;
}

static bool
name_is_env(const struct pair *pr)
{
	return ((classes(pr->name, pr->nname) &
	    ~(unsigned)(C_UPPER | C_DIGIT | C_UNDER)) == 0);
}

static bool
name_is(const struct pair *pr, const char *name)
{
	return (pr->nname == strlen(name) &&
	    memcmp(pr->name, name, pr->nname) == 0);
}

/* NAME=value, as env(1) prints it and as it stands in an env file. */
static bool
env_is_secret(const struct pair *pr, unsigned c)
{
	if (name_is(pr, "GITHUB_TOKEN") || name_is(pr, "GH_TOKEN"))
		return (true);
	if (pr->nvalue < 6 || pr->after == '(' || pr->after == '[' ||
	    memcmp(pr->value, "0x", 2) == 0)
		return (false);
	/* NAME=OTHER_NAME is C, not a credential */
	return (pr->quote != '\0' ||
	    (c & ~(unsigned)(C_UPPER | C_UNDER)) != 0);
}

static bool
value_is_secret(const struct pair *pr)
{
	unsigned c = classes(pr->value, pr->nvalue), mix = C_ALPHA | C_DIGIT;
	bool digit = (c & C_DIGIT) != 0, alpha = (c & C_ALPHA) != 0;

	if (is_stand_in(pr->value, pr->nvalue))
		return (false);
	if (pr->tight && pr->sep == '=' && name_is_env(pr))
		return (env_is_secret(pr, c));
	if (memmem(pr->name, pr->nname, "page", 4) != NULL ||
	    memchr(pr->value, ' ', pr->nvalue) != NULL)
		return (false);	/* a page token leads on, and is no secret */
	if (pr->quote != '\0')
		return ((pr->after == pr->quote || pr->open) && alpha &&
		    digit && pr->nvalue >= (pr->word->password ? 6 : 8));
	if (pr->after == '(' || pr->after == '[')
		return (false);
	if (pr->tight && pr->sep == '=')
		return (alpha && digit &&
		    pr->nvalue >= (pr->word->password ? 6 : 16));
	/* "name: value", "name = value": types and expressions look so, too */
	return (span(pr->value, pr->nvalue, C_TOKEN & ~(unsigned)C_DOT) ==
	    pr->nvalue && alpha && digit && ((pr->nvalue >= 16 &&
	    (c & mix) == mix) || pr->nvalue >= 32));
}

static bool
find_pair(const struct shape *sh, const struct spot *s, struct found *f)
{
	struct pair pr = { 0 };

	(void)sh;
	if (s->n < 2 || s->p[1] == '=' || !pair_name(s, &pr))
		return (false);
	pair_value(s, &pr);
	if (!value_is_secret(&pr))
		return (false);
	f->from = (size_t)(pr.value - s->p);
	f->to = f->from + pr.nvalue;
	/* judged by its begin, masked to its end */
	if (pr.open)
		while (f->to < s->n && !value_ends(&pr, s->p[f->to]))
			f->to++;
	return (true);
}

/* --- the table --------------------------------------------------------------- */

static const struct shape shapes[] = {
	{ "private key", DASHES "BEGIN ", find_pem },
	{ "KEY=value", "=", find_pair },
	{ "KEY: value", ":", find_pair },
	{ "URL user info", "://", find_userinfo, 0, 20 },
	{ "authorization", "Authorization", find_authorization, C_TOKEN, 8 },
	{ "authorization", "authorization", find_authorization, C_TOKEN, 8 },
	{ "authorization", "AUTHORIZATION", find_authorization, C_TOKEN, 8 },
	{ "bearer token", "Bearer ", find_bearer, C_TOKEN, 20 },
	{ "bearer token", "bearer ", find_bearer, C_TOKEN, 20 },
	{ "JSON web token", "eyJ", find_jwt, 0, 10 },
	{ "GitHub token", "ghp_", find_token, C_ALNUM, 16 },
	{ "GitHub token", "gho_", find_token, C_ALNUM, 16 },
	{ "GitHub token", "ghu_", find_token, C_ALNUM, 16 },
	{ "GitHub token", "ghr_", find_token, C_ALNUM, 16 },
	/* installation tokens may be a JWT behind their prefix */
	{ "GitHub token", "ghs_", find_token, C_URL64 | C_DOT, 16 },
	{ "GitHub token", "github_pat_", find_token, C_WORD, 20 },
	{ "GitLab token", "glpat-", find_token, C_URL64 | C_DOT, 20 },
	{ "GitLab token", "glptt-", find_token, C_URL64, 20 },
	{ "GitLab token", "glrt-", find_token, C_URL64 | C_DOT, 20 },
	{ "GitLab token", "gldt-", find_token, C_URL64, 20 },
	{ "Slack token", "xoxb-", find_token, C_ALNUM | C_DASH, 16 },
	{ "Slack token", "xoxa-", find_token, C_ALNUM | C_DASH, 16 },
	{ "Slack token", "xoxp-", find_token, C_ALNUM | C_DASH, 16 },
	{ "Slack token", "xoxr-", find_token, C_ALNUM | C_DASH, 16 },
	{ "Slack token", "xoxs-", find_token, C_ALNUM | C_DASH, 16 },
	{ "Slack token", "xapp-1-", find_token, C_ALNUM | C_DASH, 16 },
	{ "Anthropic key", "sk-ant-", find_token, C_URL64, 20 },
	{ "OpenAI key", "sk-proj-", find_token, C_URL64, 20 },
	{ "OpenAI key", "sk-svcacct-", find_token, C_URL64, 20 },
	{ "OpenRouter key", "sk-or-v1-", find_token, C_ALNUM, 32 },
	{ "API key", "sk-", find_token, C_ALNUM, 32 },
	{ "Stripe key", "sk_live_", find_token, C_ALNUM, 16 },
	{ "Stripe key", "sk_test_", find_token, C_ALNUM, 16 },
	{ "Stripe key", "rk_live_", find_token, C_ALNUM, 16 },
	{ "AWS key id", "AKIA", find_token, C_UPPER | C_DIGIT, 16, 16,
	    true },
	{ "AWS key id", "ASIA", find_token, C_UPPER | C_DIGIT, 16, 16,
	    true },
	{ "Google key", "AIza", find_token, C_URL64, 35, 35 },
	{ "Google token", "ya29.", find_token, C_URL64, 20 },
	{ "npm token", "npm_", find_token, C_ALNUM, 36 },
	{ "PyPI token", "pypi-AgE", find_token, C_URL64, 50 },
	{ "crates.io token", "cio", find_token, C_ALNUM, 32, 32,
	    true },
	{ "RubyGems key", "rubygems_", find_token, C_ALNUM, 48 },
	{ "Hugging Face token", "hf_", find_token, C_ALNUM, 30 },
	{ "Groq key", "gsk_", find_token, C_ALNUM, 40 },
	{ "xAI key", "xai-", find_token, C_ALNUM, 60 },
	{ "NVIDIA key", "nvapi-", find_token, C_URL64, 60 },
	{ "Docker token", "dckr_pat_", find_token, C_URL64, 20 },
	{ "DigitalOcean token", "dop_v1_", find_token, C_ALNUM, 64 },
	{ "Vault token", "hvs.", find_token, C_URL64, 24 },
	{ "SendGrid key", "SG.", find_token, C_URL64 | C_DOT, 60 },
	{ "Atlassian token", "ATATT3", find_token, C_URL64 | C_B64, 50 },
	{ "Grafana token", "glsa_", find_token, C_WORD, 32 },
	{ "Shopify token", "shpat_", find_token, C_ALNUM, 32 },
	{ "Linear key", "lin_api_", find_token, C_ALNUM, 32 },
	{ "age key", "AGE-SECRET-KEY-1", find_token, C_UPPER | C_DIGIT, 58 },
	{ "Tailscale key", "tskey-", find_token, C_URL64, 20 },
	{ "Slack webhook", "hooks.slack.com/services/T", find_token,
	    C_ALNUM | C_B64, 20 },
};
_Static_assert(SBX_NELEM(shapes) <= 64, "index_shapes() has 64 bits");

/* For each byte, the shapes that begin with it; tokens: only vendors'. */
static void
index_shapes(uint64_t *by_first, bool tokens)
{
	size_t i;

	memset(by_first, 0, 256 * sizeof(*by_first));
	for (i = 0; i < SBX_NELEM(shapes); i++)
		if (!tokens || (shapes[i].fn == find_token && !shapes[i].weak))
			by_first[(unsigned char)shapes[i].prefix[0]] |=
			    1ull << i;
}

static const struct shape *
find_at(const uint64_t *by_first, const struct spot *s, struct found *f)
{
	uint64_t set = by_first[(unsigned char)s->p[0]];
	const struct shape *sh;
	size_t n;

	for (; set != 0; set &= set - 1) {
		sh = &shapes[__builtin_ctzll(set)];
		n = strlen(sh->prefix);
		if (s->n >= n && memcmp(s->p, sh->prefix, n) == 0 &&
		    sh->fn(sh, s, f) && f->to > f->from)
			return (sh);
	}
	return (NULL);
}

size_t
sbx_mask(char *text, size_t *len)
{
	uint64_t by_first[256];
	size_t in = 0, out = 0, masked = 0, stars;
	struct found f;

	index_shapes(by_first, false);
	while (in < *len) {
		/* The bytes before are those put out: in place, so the
		 * original ones may be overwritten already. */
		struct spot s = { text, out, text + in, *len - in };

		if (by_first[(unsigned char)text[in]] == 0 ||
		    find_at(by_first, &s, &f) == NULL) {
			text[out++] = text[in++];
			continue;
		}
		memmove(text + out, text + in, f.from);
		out += f.from;
		stars = f.to - f.from < STARS ? f.to - f.from : STARS;
		memset(text + out, '*', stars);
		out += stars;
		in += f.to;
		masked++;
	}
	*len = out;
	return (masked);
}

static const char *
find_first(const char *text, size_t len, bool tokens)
{
	uint64_t by_first[256];
	const struct shape *sh;
	struct found f;
	size_t at;

	index_shapes(by_first, tokens);
	for (at = 0; at < len; at++) {
		struct spot s = { text, at, text + at, len - at };

		if (by_first[(unsigned char)text[at]] != 0 &&
		    (sh = find_at(by_first, &s, &f)) != NULL)
			return (sh->name);
	}
	return (NULL);
}

const char *
sbx_mask_find(const char *text, size_t len)
{
	return (find_first(text, len, false));
}

const char *
sbx_mask_find_token(const char *text, size_t len)
{
	return (find_first(text, len, true));
}
