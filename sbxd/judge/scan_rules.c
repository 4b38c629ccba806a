/*
 * Rules for secrets, out of a configuration of gitleaks.  What says nothing of
 * what is found (title, description, tags, minVersion) is read and left; all
 * else that is not known is refused by name.
 */
#include "sbxd/judge/scan_parts.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* --- memory ---------------------------------------------------------------------- */

struct pool_block {
	struct pool_block *before;
	size_t used, size;
	_Alignas(16) char data[];
};

void *
pool_get(struct pool *p, size_t n)
{
	struct pool_block *b = p->last;
	void *at;

	n = (n + 15) & ~(size_t)15;
	if (b == NULL || b->size - b->used < n) {
		size_t size = n > 8192 ? n : 8192;

		b = sbx_xcalloc(1, sizeof(*b) + size);
		b->before = p->last;
		b->size = size;
		p->last = b;
	}
	at = b->data + b->used;
	b->used += n;
	return (at);
}

char *
pool_text(struct pool *p, const char *s, size_t n)
{
	char *text = pool_get(p, n + 1);

	if (n > 0)
		memcpy(text, s, n);
	return (text);
}

void
pool_free(struct pool *p)
{
	struct pool_block *b;

	while ((b = p->last) != NULL) {
		p->last = b->before;
		free(b);
	}
}

/* --- keys ------------------------------------------------------------------------ */

enum where { IN_TOP = 1, IN_RULE = 2, IN_ALLOW = 4, IN_GLOBAL = 8 };
struct reading {
	struct rules *r;
	struct toml toml;
	enum where where;
	const char *table;	/* as it is called in sentences */
	struct rule *rule;
	struct allow *allow;
	unsigned seen;		/* keys of this table */
	/* gitleaks takes one of the two, not both */
	bool has_one, has_many, rule_has_one, rule_has_many;
};
struct key {
	const char *name;
	int where;
	enum toml_type type;
	int (*set)(struct reading *in, const struct toml_value *v);
};

static struct re *
pattern(struct reading *in, const char *text)
{
	struct rules *r = in->r;
	char reason[SCAN_REASON];
	struct re *re;

	if (r->npatterns == RULES_MAX_PATTERNS) {
		(void)toml_fail(&in->toml, "more than %u expressions",
		    RULES_MAX_PATTERNS);
		return (NULL);
	}
	re = pool_get(&r->pool, sizeof(*re));
	r->patterns[r->npatterns++] = re;
	if (re_compile(re, text, reason) == 0)
		return (re);
	if ((in->where & (IN_RULE | IN_ALLOW)) != 0 && in->rule->id != NULL)
		(void)toml_fail(&in->toml, "%s: %s", in->rule->id, reason);
	else
		(void)toml_fail(&in->toml, "%s", reason);
	return (NULL);
}

static int
patterns(struct reading *in, const struct toml_value *v, struct re ***ret,
    size_t *ret_n)
{
	*ret = pool_get(&in->r->pool, (v->n + 1) * sizeof(**ret));
	for (*ret_n = 0; *ret_n < v->n; ++*ret_n)
		if (((*ret)[*ret_n] = pattern(in, v->v[*ret_n])) == NULL)
			return (-1);
	return (0);
}

/* Words, in lower case. */
static int
words(struct reading *in, const struct toml_value *v, char ***ret, size_t *ret_n)
{
	for (size_t i = 0; i < v->n; i++) {
		if (v->v[i][0] == '\0')
			return (toml_fail(&in->toml, "an empty word"));
		for (char *p = v->v[i]; *p != '\0'; p++)
			if (*p >= 'A' && *p <= 'Z')
				*p += 0x20;
	}
	*ret = v->v;
	*ret_n = v->n;
	return (0);
}

static int
set_nothing(struct reading *in, const struct toml_value *v)
{
	(void)in;
	(void)v;
	return (0);
}

static int
set_id(struct reading *in, const struct toml_value *v)
{
	const char *id = v->v[0];

	if (id[0] == '\0' || strlen(id) > SCAN_MAX_ID)
		return (toml_fail(&in->toml, "an id has 1 to %u bytes",
		    SCAN_MAX_ID));
	for (const char *p = id; *p != '\0'; p++)
		if (*p <= ' ' || *p > '~')
			return (toml_fail(&in->toml, "an id is of visible "
			    "ASCII"));
	if (strcmp(id, SCAN_LIMIT) == 0)
		return (toml_fail(&in->toml, "the id \"" SCAN_LIMIT "\" is "
		    "taken: it tells that a limit was reached"));
	for (size_t i = 0; i + 1 < in->r->n; i++)
		if (strcmp(in->r->v[i].id, id) == 0)
			return (toml_fail(&in->toml, "the id \"%s\" twice", id));
	in->rule->id = id;
	return (0);
}

static int
set_regex(struct reading *in, const struct toml_value *v)
{
	if (v->v[0][0] == '\0')
		return (0);	/* as if it were not there */
	if ((in->rule->regex = pattern(in, v->v[0])) == NULL)
		return (-1);
	if (in->rule->regex->min == 0)
		return (toml_fail(&in->toml, "an expression that matches what "
		    "is empty"));
	return (0);
}

static int
set_path(struct reading *in, const struct toml_value *v)
{
	if (v->v[0][0] == '\0')
		return (0);
	in->rule->path = pattern(in, v->v[0]);
	return (in->rule->path != NULL ? 0 : -1);
}

static int
set_group(struct reading *in, const struct toml_value *v)
{
	if (!v->whole || v->number < 0 || v->number > RE_MAX_GROUPS)
		return (toml_fail(&in->toml, "secretGroup is a number from 0 to "
		    "%d", RE_MAX_GROUPS));
	in->rule->group = (unsigned)v->number;
	return (0);
}

static int
set_entropy(struct reading *in, const struct toml_value *v)
{
	if (v->number < 0 || v->number > 8)
		return (toml_fail(&in->toml, "entropy is a number from 0 to 8: "
		    "bits a byte"));
	in->rule->entropy = v->number;
	return (0);
}

static int
set_keywords(struct reading *in, const struct toml_value *v)
{
	if (v->n > RULE_MAX_KEYWORDS)
		return (toml_fail(&in->toml, "more than %u keywords",
		    RULE_MAX_KEYWORDS));
	return (words(in, v, &in->rule->keywords, &in->rule->nkeywords));
}

static int
set_condition(struct reading *in, const struct toml_value *v)
{
	const char *s = v->v[0];

	in->allow->all = strcasecmp(s, "AND") == 0 || strcmp(s, "&&") == 0;
	if (!in->allow->all && s[0] != '\0' && strcasecmp(s, "OR") != 0 &&
	    strcmp(s, "||") != 0)
		return (toml_fail(&in->toml, "condition is \"AND\" or \"OR\""));
	return (0);
}

static int
set_target(struct reading *in, const struct toml_value *v)
{
	static const char *const names[] = { [ALLOW_SECRET] = "secret",
		[ALLOW_MATCH] = "match", [ALLOW_LINE] = "line" };

	for (size_t i = 0; i < SBX_NELEM(names); i++)
		if (strcmp(v->v[0], names[i]) == 0)
			return (in->allow->target = (enum allow_target)i, 0);
	return (toml_fail(&in->toml, "regexTarget is \"secret\", \"match\" or "
	    "\"line\""));
}

static int
set_regexes(struct reading *in, const struct toml_value *v)
{
	return (patterns(in, v, &in->allow->regexes, &in->allow->nregexes));
}

static int
set_paths(struct reading *in, const struct toml_value *v)
{
	return (patterns(in, v, &in->allow->paths, &in->allow->npaths));
}

static int
set_stops(struct reading *in, const struct toml_value *v)
{
	return (words(in, v, &in->allow->stops, &in->allow->nstops));
}

/* They name what was published; what is judged here was not. */
static int
set_commits(struct reading *in, const struct toml_value *v)
{
	in->allow->commits = v->n > 0;
	return (0);
}

static int
set_rules(struct reading *in, const struct toml_value *v)
{
	in->allow->rules = v->v;
	in->allow->nrules = v->n;
	return (0);
}

/* In any case of letters, as gitleaks reads them. */
static const struct key keys[] = {
	{ "title", IN_TOP, TOML_TEXT, set_nothing },
	{ "minVersion", IN_TOP, TOML_TEXT, set_nothing },
	{ "description", IN_TOP | IN_RULE | IN_ALLOW | IN_GLOBAL, TOML_TEXT,
	    set_nothing },
	{ "tags", IN_RULE, TOML_TEXTS, set_nothing },
	{ "id", IN_RULE, TOML_TEXT, set_id },
	{ "regex", IN_RULE, TOML_TEXT, set_regex },
	{ "path", IN_RULE, TOML_TEXT, set_path },
	{ "secretGroup", IN_RULE, TOML_NUMBER, set_group },
	{ "entropy", IN_RULE, TOML_NUMBER, set_entropy },
	{ "keywords", IN_RULE, TOML_TEXTS, set_keywords },
	{ "condition", IN_ALLOW | IN_GLOBAL, TOML_TEXT, set_condition },
	{ "regexTarget", IN_ALLOW | IN_GLOBAL, TOML_TEXT, set_target },
	{ "regexes", IN_ALLOW | IN_GLOBAL, TOML_TEXTS, set_regexes },
	{ "paths", IN_ALLOW | IN_GLOBAL, TOML_TEXTS, set_paths },
	{ "stopwords", IN_ALLOW | IN_GLOBAL, TOML_TEXTS, set_stops },
	{ "commits", IN_ALLOW | IN_GLOBAL, TOML_TEXTS, set_commits },
	{ "targetRules", IN_GLOBAL, TOML_TEXTS, set_rules },
};

static int
on_value(void *ctx, const char *name, const struct toml_value *v)
{
	static const char *const types[] = { [TOML_TEXT] = "a string",
		[TOML_NUMBER] = "a number", [TOML_BOOL] = "true or false",
		[TOML_TEXTS] = "an array of strings" };
	struct reading *in = ctx;

	for (unsigned i = 0; i < SBX_NELEM(keys); i++) {
		if (strcasecmp(name, keys[i].name) != 0 ||
		    (keys[i].where & in->where) == 0)
			continue;
		if ((in->seen & 1u << i) != 0)
			return (toml_fail(&in->toml, "\"%s\" twice", name));
		in->seen |= 1u << i;
		if (keys[i].type != v->type)
			return (toml_fail(&in->toml, "\"%s\" is %s", name,
			    types[keys[i].type]));
		return (keys[i].set(in, v));
	}
	return (toml_fail(&in->toml, "\"%s\" is not understood in %s", name,
	    in->table));
}

/* --- tables ---------------------------------------------------------------------- */

/* What is wrong with the table that ends here. */
static int
end_table(struct reading *in)
{
	const struct allow *a = in->allow;
	const struct rule *rule = in->rule;

	if (in->where == IN_RULE && rule->id == NULL)
		return (toml_fail(&in->toml, "the rule that ends here has no "
		    "id"));
	if (in->where == IN_RULE && rule->regex == NULL && rule->path == NULL)
		return (toml_fail(&in->toml, "%s: neither regex nor path",
		    rule->id));
	if (in->where == IN_RULE && rule->regex != NULL &&
	    rule->group > rule->regex->groups)
		return (toml_fail(&in->toml, "%s: secretGroup %u, but regex has "
		    "%u groups", rule->id, rule->group, rule->regex->groups));
	if ((in->where == IN_ALLOW || in->where == IN_GLOBAL) &&
	    a->nregexes == 0 && a->npaths == 0 && a->nstops == 0 && !a->commits)
		return (toml_fail(&in->toml, "the allowlist that ends here says "
		    "nothing: regexes, paths, stopwords or commits"));
	return (0);
}

static int
begin_rule(struct reading *in)
{
	if (in->r->n == SCAN_MAX_RULES)
		return (toml_fail(&in->toml, "more than %u rules",
		    SCAN_MAX_RULES));
	in->rule = &in->r->v[in->r->n++];
	in->rule_has_one = in->rule_has_many = false;
	in->where = IN_RULE;
	in->table = "[[rules]]";
	return (0);
}

static void
attach(struct rules *r, struct rule *rule, struct allow *a)
{
	/* 0, 1, 2, 4...: full, so twice as long */
	if ((rule->nallows & (rule->nallows - 1)) == 0) {
		size_t n = rule->nallows == 0 ? 1 : 2 * rule->nallows;
		struct allow **more = pool_get(&r->pool, n * sizeof(*more));

		if (rule->nallows > 0)
			memcpy(more, rule->allows, rule->nallows *
			    sizeof(*more));
		rule->allows = more;
	}
	rule->allows[rule->nallows++] = a;
}

static int
begin_allow(struct reading *in, enum where where, bool many)
{
	bool *one = where == IN_ALLOW ? &in->rule_has_one : &in->has_one;
	bool *all = where == IN_ALLOW ? &in->rule_has_many : &in->has_many;

	if (where == IN_ALLOW && in->rule == NULL)
		return (toml_fail(&in->toml, "an allowlist of a rule before the "
		    "first [[rules]]"));
	if (*one || (!many && *all))
		return (toml_fail(&in->toml, "one [allowlist], or as many "
		    "[[allowlists]] as you like, not both"));
	*one = !many;
	*all = many;
	if (in->r->nallows == RULES_MAX_ALLOWS)
		return (toml_fail(&in->toml, "more than %u allowlists",
		    RULES_MAX_ALLOWS));
	in->allow = pool_get(&in->r->pool, sizeof(*in->allow));
	in->r->allows[in->r->nallows++] = in->allow;
	if (where == IN_ALLOW)
		attach(in->r, in->rule, in->allow);
	in->where = where;
	in->table = where == IN_ALLOW ? "a rule's allowlist" :
	    "an allowlist of all";
	return (0);
}

static int
on_table(void *ctx, const char *name, bool array)
{
	struct reading *in = ctx;

	if (end_table(in) != 0)
		return (-1);
	in->seen = 0;
	if (array && strcasecmp(name, "rules") == 0)
		return (begin_rule(in));
	if (array && strcasecmp(name, "rules.allowlists") == 0)
		return (begin_allow(in, IN_ALLOW, true));
	if (!array && strcasecmp(name, "rules.allowlist") == 0)
		return (begin_allow(in, IN_ALLOW, false));
	if (array && strcasecmp(name, "allowlists") == 0)
		return (begin_allow(in, IN_GLOBAL, true));
	if (!array && strcasecmp(name, "allowlist") == 0)
		return (begin_allow(in, IN_GLOBAL, false));
	if (strcasecmp(name, "extend") == 0)
		return (toml_fail(&in->toml, "[extend] is not understood: write "
		    "all rules into this file"));
	return (toml_fail(&in->toml, "%s%s%s is not understood", array ? "[[" :
	    "[", name, array ? "]]" : "]"));
}

/* --- the whole ------------------------------------------------------------------- */

static int
assign(struct reading *in, struct allow *a)
{
	for (size_t i = 0; i < a->nrules; i++) {
		struct rule *rule = NULL;

		for (size_t k = 0; k < in->r->n && rule == NULL; k++)
			if (strcmp(in->r->v[k].id, a->rules[i]) == 0)
				rule = &in->r->v[k];
		if (rule == NULL)
			return (toml_fail(&in->toml, "targetRules names \"%s\", "
			    "and no rule has that id", a->rules[i]));
		attach(in->r, rule, a);
	}
	return (0);
}

static bool
is_of_a_rule(const struct rules *r, const struct allow *a)
{
	for (size_t i = 0; i < r->n; i++)
		for (size_t k = 0; k < r->v[i].nallows; k++)
			if (r->v[i].allows[k] == a)
				return (true);
	return (false);
}

int
rules_read(struct rules *r, const char *p, size_t n, char *reason)
{
	struct reading in = { .r = r, .where = IN_TOP, .table = "the file's "
	    "beginning", .toml = { .pool = &r->pool, .reason = reason,
	    .table = on_table, .value = on_value } };

	in.toml.ctx = &in;
	if (n > SCAN_MAX_RULES_BYTES) {
		(void)snprintf(reason, SCAN_REASON, "more than %u bytes",
		    SCAN_MAX_RULES_BYTES);
		return (-1);
	}
	if (toml_parse(&in.toml, p, n) != 0 || end_table(&in) != 0)
		return (-1);
	if (r->n == 0)
		return (toml_fail(&in.toml, "it has no rules: nothing would be "
		    "found"));
	for (size_t i = 0; i < r->nallows; i++)
		if (assign(&in, r->allows[i]) != 0)
			return (-1);
	for (size_t i = 0; i < r->nallows; i++)
		if (!is_of_a_rule(r, r->allows[i]))
			r->global[r->nglobal++] = r->allows[i];
	return (0);
}

void
rules_free(struct rules *r)
{
	for (size_t i = 0; i < r->npatterns; i++)
		re_free(r->patterns[i]);
	pool_free(&r->pool);
}
