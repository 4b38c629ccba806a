/*
 * Secrets in what is added to a file.
 *
 * A file is looked at in windows that overlap, and what is found depends on
 * where in the file it is, never on how the file came in pieces.  One pass over
 * a window finds the words that some rule's matches must have (scan_words.c);
 * an expression is tried only where one of them lets a match begin.  Rules
 * without such a word are tried everywhere.
 *
 * Rules come from the operator, the text from a sandbox: every attempt to match
 * has limits of steps and memory, and a file one of time.  There is no JIT: the
 * cage has no memory that is both written and run.
 */
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "sbxd/judge/scan_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define BUF_BYTES (SCAN_WINDOW + 2 * SCAN_MAX_MATCH)
#define MATCH_STEPS 500000	/* of one beginning of one match */
#define MATCH_DEPTH 50000
#define MATCH_KIB 16384
#define MAX_SPANS 16384		/* of one rule in a window */
#define SLICE_FIRST 64
#define SLICE_MAX 4096
#define SLOW_NS 20000000u
#define FAST_NS 2000000u
#define FILE_NS 10000000000ull	/* for a file, and for each of its windows: */
#define WINDOW_NS 250000000ull

/* Where matches may begin, both ends included. */
struct span {
	uint32_t lo, hi;
};
struct spans {
	struct span *v;
	size_t n, size;
};
/* A rule and the file at hand. */
struct live {
	bool on;		/* it is for this path */
	bool everywhere;	/* no word tells where */
	bool late;		/* "generic": where nothing else was found */
	bool keyword;		/* one of its keywords was seen */
	uint64_t resume;	/* where its last match ended, in the file */
	struct spans spans;
};
/* What a word says of a rule. */
struct want {
	uint32_t word;
	uint16_t rule;
	bool keyword;
	uint8_t len;
	uint32_t pre_min, pre_max;
};
struct hit {
	size_t at, end;		/* of the secret, in the window */
	uint16_t rule;
	char fingerprint[SBX_SHA256_HEX + 1];
};
/* What is looked at: the window, or what was decoded out of it. */
struct view {
	const char *p;
	size_t len;
	size_t from, limit;	/* where a match may begin */
	bool ends;		/* nothing follows */
	uint64_t off;		/* of p in the file */
	/* Decoded: out of these bytes of that window. */
	const struct view *outer;
	size_t at, end;
};

struct scan {
	struct rules rules;
	struct words *words;
	struct want *wants;	/* by word */
	size_t nwants;
	uint32_t *first;	/* [word], and one more: its wants */
	bool (*known)(const void *ctx, const char *secret, size_t n);
	const void *known_ctx;
	struct live live[SCAN_MAX_RULES];
	uint16_t order[SCAN_MAX_RULES];
	pcre2_match_context *context;
	pcre2_match_data *match;
	/* the file: */
	char *path;
	struct old *old;
	scan_report *report;
	void *ctx;
	struct text text;
	bool limited, skip;
	uint64_t deadline, last, cpu, budget;
	size_t slice;
	unsigned total;		/* findings reported */
	/* its window: */
	char *buf;
	char decoded[BASE64_MAX];
	size_t len, from;
	uint64_t off;
	uint32_t line;		/* of buf[0] */
	const struct view *view;
	struct hit hits[SCAN_MAX_FINDINGS];
	size_t nhits;
};

/* --- beginning ------------------------------------------------------------------- */

static bool
has_text(const char *s, size_t n, const char *what)
{
	return (memmem(s, n, what, strlen(what)) != NULL);
}

static void
want(struct scan *s, size_t rule, const char *word, size_t n, bool keyword)
{
	const struct re *re = s->rules.v[rule].regex;

	s->wants = sbx_xreallocarray(s->wants, s->nwants + 1,
	    sizeof(*s->wants));
	s->wants[s->nwants++] = (struct want){
		.word = words_add(s->words, word, n), .rule = (uint16_t)rule,
		.keyword = keyword, .len = (uint8_t)n,
		.pre_min = re->pre_min, .pre_max = re->pre_max };
}

static void
want_rule(struct scan *s, size_t i)
{
	const struct rule *r = &s->rules.v[i];

	if (r->regex == NULL)
		return;
	s->live[i].everywhere = r->regex->words.n == 0;
	for (unsigned k = 0; k < r->regex->words.n; k++)
		want(s, i, r->regex->words.s[k], r->regex->words.len[k], false);
	for (size_t k = 0; k < r->nkeywords; k++)
		want(s, i, r->keywords[k], strlen(r->keywords[k]), true);
}

static int
by_word(const void *a, const void *b)
{
	const struct want *x = a, *y = b;

	return (x->word < y->word ? -1 : x->word > y->word);
}

static int
index_words(struct scan *s)
{
	uint32_t n;

	s->words = words_new();
	for (size_t i = 0; i < s->rules.n; i++)
		want_rule(s, i);
	if (words_build(s->words) != 0)
		return (-1);
	if (s->nwants > 0)
		qsort(s->wants, s->nwants, sizeof(*s->wants), by_word);
	n = s->nwants == 0 ? 0 : s->wants[s->nwants - 1].word + 1;
	s->first = sbx_xcalloc((size_t)n + 1, sizeof(*s->first));
	for (size_t i = s->nwants; i > 0; i--)
		s->first[s->wants[i - 1].word] = (uint32_t)(i - 1);
	s->first[n] = (uint32_t)s->nwants;
	return (0);
}

/* Rules whose id says "generic" come last. */
static void
put_in_order(struct scan *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->rules.n; i++)
		s->live[i].late = has_text(s->rules.v[i].id,
		    strlen(s->rules.v[i].id), "generic");
	for (int late = 0; late < 2; late++)
		for (size_t i = 0; i < s->rules.n; i++)
			if (s->live[i].late == late)
				s->order[n++] = (uint16_t)i;
}

static void
start_matching(struct scan *s)
{
	s->context = pcre2_match_context_create(NULL);
	s->match = pcre2_match_data_create(RE_MAX_GROUPS + 1, NULL);
	if (s->context == NULL || s->match == NULL)
		sbx_fatal("no memory for matching");
	(void)pcre2_set_match_limit(s->context, MATCH_STEPS);
	(void)pcre2_set_depth_limit(s->context, MATCH_DEPTH);
	(void)pcre2_set_heap_limit(s->context, MATCH_KIB);
}

struct scan *
scan_new(const char *rules, size_t n, char ret_reason[SCAN_REASON])
{
	struct scan *s = sbx_xcalloc(1, sizeof(*s));

	ret_reason[0] = '\0';
	s->buf = sbx_xcalloc(1, BUF_BYTES);
	start_matching(s);
	if (rules_read(&s->rules, n > 0 ? rules : rules_builtin, n > 0 ? n :
	    rules_builtin_len, ret_reason) == 0) {
		put_in_order(s);
		if (index_words(s) == 0)
			return (s);
		(void)snprintf(ret_reason, SCAN_REASON, "more words than are "
		    "looked for: %u bytes of keywords", WORDS_MAX_STATES);
	}
	scan_free(s);
	return (NULL);
}

void
scan_free(struct scan *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->rules.n; i++)
		free(s->live[i].spans.v);
	rules_free(&s->rules);
	words_free(s->words);
	free(s->wants);
	free(s->first);
	pcre2_match_data_free(s->match);
	pcre2_match_context_free(s->context);
	free(s->path);
	old_free(s->old);
	free(s->buf);
	free(s);
}

/* --- matching -------------------------------------------------------------------- */

/* Does it match anywhere?  What reaches a limit does not. */
static bool
matches(struct scan *s, const struct re *re, const char *p, size_t n)
{
	(void)pcre2_set_offset_limit(s->context, PCRE2_UNSET);
	return (pcre2_match(re->code, (PCRE2_SPTR)p, n, 0, 0, s->match,
	    s->context) >= 0);
}

static bool
any_matches(struct scan *s, struct re **v, size_t n, const char *p, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (matches(s, v[i], p, len))
			return (true);
	return (false);
}

/* Of this process, which does nothing else meanwhile. */
static uint64_t
cpu_ns(void)
{
	struct timespec t = { 0 };

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
}

/*
 * Has the file had its time?  What counts is the processor's, so that a busy
 * machine finds what an idle one does; the clock, which is cheaper to ask, only
 * tells when to look.
 */
static bool
is_late(struct scan *s, uint64_t now)
{
	uint64_t used;

	if (now < s->deadline)
		return (false);
	used = cpu_ns() - s->cpu;
	if (used >= s->budget)
		return (true);
	s->deadline = now + s->budget - used;
	return (false);
}

/*
 * A match that begins from lo to hi: 1, and where it is in s->match; 0: there
 * is none; -1: a limit.
 */
static int
attempt(struct scan *s, const struct view *v, const struct re *re, size_t lo,
    size_t hi)
{
	size_t end = v->len - hi > SCAN_MAX_MATCH ? hi + SCAN_MAX_MATCH : v->len;
	bool cut = end < v->len || !v->ends;
	uint64_t now;
	int r;

	(void)pcre2_set_offset_limit(s->context, hi);
	r = pcre2_match(re->code, (PCRE2_SPTR)v->p, end, lo, cut ?
	    PCRE2_NOTEOL : 0, s->match, s->context);
	now = sbx_mono_ns();
	if (now - s->last > SLOW_NS && s->slice > 1)
		s->slice /= 4;
	else if (now - s->last < FAST_NS && s->slice < SLICE_MAX)
		s->slice *= 2;
	if (s->slice == 0)
		s->slice = 1;
	s->last = now;
	if (is_late(s, now) || (r < 0 && r != PCRE2_ERROR_NOMATCH))
		return (-1);
	return (r >= 0);
}

/* Shannon's, in bits a byte. */
static double
entropy(const char *p, size_t n)
{
	size_t count[256] = { 0 };
	double sum = 0, part;

	for (size_t i = 0; i < n; i++)
		count[(uint8_t)p[i]]++;
	for (int c = 0; c < 256; c++) {
		if (count[c] == 0)
			continue;
		part = (double)count[c] / (double)n;
		sum -= part * log2(part);
	}
	return (sum);
}

/* --- what counts ------------------------------------------------------------------ */

struct finding {
	const struct rule *rule;
	const char *secret, *match;
	size_t nsecret, nmatch;
};

static bool
has_stop(const struct allow *a, const char *p, size_t n)
{
	SBX_CLEANUP(free) char *low = NULL;

	if (a->nstops == 0 || n == 0)
		return (false);
	low = sbx_xcalloc(1, n);
	for (size_t i = 0; i < n; i++)
		low[i] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] + 0x20 : p[i]);
	for (size_t i = 0; i < a->nstops; i++)
		if (has_text(low, n, a->stops[i]))
			return (true);
	return (false);
}

/* The lines that a part of a view is in, as far as they are in view; false:
 * they are not wholly. */
static bool
lines_of(const struct view *v, size_t at, size_t end, size_t *ret_at,
    size_t *ret_end)
{
	const char *from = memrchr(v->p, '\n', at);
	const char *to = memchr(v->p + (end > at ? end - 1 : at), '\n',
	    v->len - (end > at ? end - 1 : at));

	*ret_at = from != NULL ? (size_t)(from - v->p) + 1 : 0;
	*ret_end = to != NULL ? (size_t)(to - v->p) : v->len;
	return ((from != NULL || v->off == 0) && (to != NULL || v->ends));
}

static bool
regex_allows(struct scan *s, const struct view *v, const struct allow *a,
    const struct finding *f)
{
	size_t at = (size_t)(f->match - v->p), end;

	switch (a->target) {
	case ALLOW_MATCH:
		return (any_matches(s, a->regexes, a->nregexes, f->match,
		    f->nmatch));
	case ALLOW_LINE:
		(void)lines_of(v, at, at + f->nmatch, &at, &end);
		return (any_matches(s, a->regexes, a->nregexes, v->p + at,
		    end - at));
	case ALLOW_SECRET:
	default:
		return (any_matches(s, a->regexes, a->nregexes, f->secret,
		    f->nsecret));
	}
}

static bool
allows(struct scan *s, const struct view *v, const struct allow *a,
    const struct finding *f)
{
	if (!a->all)
		return (a->path_ok || regex_allows(s, v, a, f) ||
		    has_stop(a, f->secret, f->nsecret));
	return (!a->commits && (a->npaths == 0 || a->path_ok) &&
	    (a->nregexes == 0 || regex_allows(s, v, a, f)) &&
	    (a->nstops == 0 || has_stop(a, f->secret, f->nsecret)));
}

static bool
is_allowed(struct scan *s, const struct view *v, const struct finding *f)
{
	for (size_t i = 0; i < s->rules.nglobal; i++)
		if (allows(s, v, s->rules.global[i], f))
			return (true);
	for (size_t i = 0; i < f->rule->nallows; i++)
		if (allows(s, v, f->rule->allows[i], f))
			return (true);
	return (false);
}

/* Are all lines of it in the base's file?  Not, if one is longer than what is
 * in view. */
static bool
is_old(struct scan *s, const struct view *v, size_t at, size_t end)
{
	const char *nl;
	size_t to;

	if (s->old == NULL || !lines_of(v, at, end, &at, &to))
		return (false);
	for (; at <= to; at = (size_t)(nl - v->p) + 1) {
		nl = memchr(v->p + at, '\n', to - at);
		if (nl == NULL)
			nl = v->p + to;
		if (!old_has(s->old, v->p + at, (size_t)(nl - v->p) - at))
			return (false);
	}
	return (true);
}

static void
fingerprint(const char *rule, const char *path, const char *secret, size_t n,
    char ret[SBX_SHA256_HEX + 1])
{
	struct sbx_sha256 h;

	sbx_sha256_init(&h);
	sbx_sha256_add(&h, rule, strlen(rule) + 1);
	sbx_sha256_add(&h, path, strlen(path) + 1);
	sbx_sha256_add(&h, secret, n);
	sbx_sha256_add(&h, "", 1);
	sbx_sha256_end(&h, ret);
}

static void
tell(struct scan *s, const char *rule, uint32_t line, const char *print)
{
	struct scan_finding f = { .rule = rule, .path = s->path, .line = line };

	memcpy(f.fingerprint, print, sizeof(f.fingerprint));
	s->total++;
	s->report(s->ctx, &f);
}

/* A rule that knows what it found goes before one that does not. */
static bool
is_known(const struct scan *s, size_t at, size_t end)
{
	for (size_t i = 0; i < s->nhits; i++)
		if (!s->live[s->hits[i].rule].late && s->hits[i].at <= at &&
		    s->hits[i].end >= end)
			return (true);
	return (false);
}

/* -1: there is no room. */
static int
record(struct scan *s, const struct view *v, const struct finding *f)
{
	const struct view *outer = v->outer != NULL ? v->outer : v;
	size_t at = v->outer != NULL ? v->at : (size_t)(f->secret - v->p);
	size_t end = v->outer != NULL ? v->end : at + f->nsecret;
	uint16_t rule = (uint16_t)(f->rule - s->rules.v);

	if (is_old(s, outer, at, end) || (s->live[rule].late &&
	    is_known(s, at, end)))
		return (0);
	if (s->known != NULL && s->known(s->known_ctx, f->secret, f->nsecret))
		return (0);
	if (s->nhits + s->total >= SCAN_MAX_FINDINGS)
		return (-1);
	s->hits[s->nhits] = (struct hit){ at, end, rule };
	fingerprint(f->rule->id, s->path, f->secret, f->nsecret,
	    s->hits[s->nhits++].fingerprint);
	return (0);
}

/* The part of a match that is the secret: of secretGroup, or the first group
 * that has something, or all without newlines around it. */
static void
take_secret(struct scan *s, const struct view *v, struct finding *f)
{
	const PCRE2_SIZE *o = pcre2_get_ovector_pointer(s->match);
	unsigned from = 1, to = f->rule->regex->groups;
	size_t at = o[0], end = o[1];

	while (at < end && v->p[at] == '\n')
		at++;
	while (at < end && v->p[end - 1] == '\n')
		end--;
	f->match = f->secret = v->p + at;
	f->nmatch = f->nsecret = end - at;
	if (f->rule->group > 0)
		from = to = f->rule->group;
	for (unsigned i = from; i <= to; i++) {
		if (o[2 * i] == PCRE2_UNSET || o[2 * i + 1] <= o[2 * i])
			continue;
		f->secret = v->p + o[2 * i];
		f->nsecret = o[2 * i + 1] - o[2 * i];
		return;
	}
}

static int
on_match(struct scan *s, const struct view *v, const struct rule *rule)
{
	struct finding f = { .rule = rule };

	take_secret(s, v, &f);
	if (rule->entropy > 0 && entropy(f.secret, f.nsecret) <= rule->entropy)
		return (0);
	return (is_allowed(s, v, &f) ? 0 : record(s, v, &f));
}

/* --- one window ------------------------------------------------------------------ */

/* v[k] and the next are one. */
static void
span_join(struct spans *s, size_t k)
{
	if (s->v[k + 1].hi > s->v[k].hi)
		s->v[k].hi = s->v[k + 1].hi;
	memmove(s->v + k + 1, s->v + k + 2, (s->n - k - 2) * sizeof(*s->v));
	s->n--;
}

static void
span_add(struct spans *s, uint32_t lo, uint32_t hi)
{
	size_t k = s->n;

	if (s->n == s->size) {
		s->size = s->size == 0 ? 64 : 2 * s->size;
		s->v = sbx_xreallocarray(s->v, s->size, sizeof(*s->v));
	}
	/* words end in order; where they begin is almost so */
	while (k > 0 && s->v[k - 1].lo > lo)
		k--;
	memmove(s->v + k + 1, s->v + k, (s->n - k) * sizeof(*s->v));
	s->v[k] = (struct span){ lo, hi };
	s->n++;
	if (k > 0 && s->v[k - 1].hi + 1 >= lo)
		span_join(s, --k);
	while (k + 1 < s->n && s->v[k].hi + 1 >= s->v[k + 1].lo)
		span_join(s, k);
	if (s->n > MAX_SPANS)
		span_join(s, s->n - 2);
}

static void
on_word(void *ctx, uint32_t word, size_t end)
{
	struct scan *s = ctx;
	const struct view *v = s->view;

	for (uint32_t i = s->first[word]; i < s->first[word + 1]; i++) {
		const struct want *w = &s->wants[i];
		struct live *l = &s->live[w->rule];
		size_t at = end - w->len, lo, hi;

		if (!l->on)
			continue;
		if (w->keyword) {
			l->keyword = true;
			continue;
		}
		if (at < w->pre_min || at - w->pre_min < v->from)
			continue;
		hi = at - w->pre_min;
		lo = at < w->pre_max || at - w->pre_max < v->from ? v->from :
		    at - w->pre_max;
		if (lo >= v->limit)
			continue;
		if (hi >= v->limit)
			hi = v->limit - 1;
		span_add(&l->spans, (uint32_t)lo, (uint32_t)hi);
	}
}

static int
run_span(struct scan *s, const struct view *v, const struct rule *rule,
    size_t lo, size_t hi)
{
	struct live *l = &s->live[rule - s->rules.v];
	size_t at = lo, to;
	int r;

	if (v->outer == NULL && l->resume > v->off + at)
		at = (size_t)(l->resume - v->off);
	while (at <= hi) {
		const PCRE2_SIZE *o = pcre2_get_ovector_pointer(s->match);

		to = hi - at < s->slice ? hi : at + s->slice - 1;
		if ((r = attempt(s, v, rule->regex, at, to)) < 0)
			return (-1);
		if (r == 0) {
			at = to + 1;
			continue;
		}
		at = o[1];	/* no match is empty (scan_rules.c) */
		if (v->outer == NULL)
			l->resume = v->off + at;
		if (on_match(s, v, rule) != 0)
			return (-1);
	}
	return (0);
}

static int
run_rule(struct scan *s, const struct view *v, const struct rule *rule)
{
	struct live *l = &s->live[rule - s->rules.v];

	if (!l->on || rule->regex == NULL ||
	    (rule->nkeywords > 0 && !l->keyword))
		return (0);
	if (l->everywhere)
		return (v->from < v->limit ? run_span(s, v, rule, v->from,
		    v->limit - 1) : 0);
	for (size_t i = 0; i < l->spans.n; i++)
		if (run_span(s, v, rule, l->spans.v[i].lo,
		    l->spans.v[i].hi) != 0)
			return (-1);
	return (0);
}

static int
look(struct scan *s, const struct view *v)
{
	size_t to = v->limit + RE_MAX_PRE + LIT_MAX;

	for (size_t i = 0; i < s->rules.n; i++)
		s->live[i].spans.n = 0;
	s->view = v;
	words_find(s->words, v->p, v->from, to < v->len ? to : v->len, on_word,
	    s);
	for (size_t i = 0; i < s->rules.n; i++)
		if (run_rule(s, v, &s->rules.v[s->order[i]]) != 0)
			return (-1);
	return (0);
}

/* What is base64 in the window, as if it stood there decoded: once. */
static int
look_encoded(struct scan *s, const struct view *v)
{
	struct view in = { .p = s->decoded, .ends = true, .outer = v };

	for (in.at = v->from; base64_next(v->p, v->len, v->limit, &in.at,
	    &in.end); in.at = in.end) {
		size_t n = in.end - in.at;

		in.len = base64_decode(v->p + in.at, n < BASE64_MAX ? n :
		    BASE64_MAX, s->decoded);
		in.limit = in.len;
		if (in.len > 0 && look(s, &in) != 0)
			return (-1);
	}
	return (0);
}

static int
by_place(const void *a, const void *b)
{
	const struct hit *x = a, *y = b;

	if (x->at != y->at)
		return (x->at < y->at ? -1 : 1);
	return (x->rule < y->rule ? -1 : x->rule > y->rule);
}

static uint32_t
newlines(const char *p, size_t n)
{
	size_t lines = 0;

	for (size_t i = 0; i < n; i++)
		lines += p[i] == '\n';
	return ((uint32_t)lines);
}

static void
flush(struct scan *s)
{
	uint32_t line = s->line;
	size_t at = 0;

	if (s->nhits > 1)
		qsort(s->hits, s->nhits, sizeof(s->hits[0]), by_place);
	for (size_t i = 0; i < s->nhits; i++) {
		line += newlines(s->buf + at, s->hits[i].at - at);
		at = s->hits[i].at;
		tell(s, s->rules.v[s->hits[i].rule].id, line,
		    s->hits[i].fingerprint);
	}
	s->nhits = 0;
}

static int
reach_limit(struct scan *s)
{
	char print[SBX_SHA256_HEX + 1];

	s->limited = true;
	fingerprint(SCAN_LIMIT, s->path, "", 0, print);
	tell(s, SCAN_LIMIT, s->line, print);
	return (-1);
}

/* Look at what is there, and make room. */
static int
window(struct scan *s, bool ends)
{
	struct view v = { .p = s->buf, .len = s->len, .from = s->from,
		.limit = ends ? s->len : s->len - SCAN_MAX_MATCH,
		.ends = ends, .off = s->off };
	size_t keep;
	int r;

	s->last = sbx_mono_ns();
	s->budget += WINDOW_NS;
	r = look(s, &v) != 0 || look_encoded(s, &v) != 0;
	flush(s);
	if (r != 0)
		return (reach_limit(s));
	/* what \b, ^ and the lines of findings look back on */
	keep = v.limit < SCAN_MAX_MATCH ? 0 : v.limit - SCAN_MAX_MATCH;
	s->line += newlines(s->buf, keep);
	memmove(s->buf, s->buf + keep, s->len - keep);
	s->len -= keep;
	s->off += keep;
	s->from = v.limit - keep;
	return (0);
}

/* --- one file -------------------------------------------------------------------- */

static bool
is_off(const struct rule *r)
{
	for (size_t i = 0; i < r->nallows; i++)
		if (!r->allows[i]->all && r->allows[i]->path_ok)
			return (true);
	return (false);
}

/* What the path alone decides. */
static void
begin_rules(struct scan *s, bool is_new)
{
	struct finding f = { .secret = s->path, .match = s->path };
	struct view v = { .p = s->path, .ends = true };
	char print[SBX_SHA256_HEX + 1];

	for (size_t i = 0; i < s->rules.n; i++) {
		struct rule *r = &s->rules.v[i];
		struct live *l = &s->live[i];

		l->keyword = false;
		l->resume = 0;
		l->on = !s->skip && !is_off(r) && (r->path == NULL ||
		    matches(s, r->path, s->path, strlen(s->path)));
		f.rule = r;
		if (!l->on || r->regex != NULL || !is_new ||
		    is_allowed(s, &v, &f) || s->total >= SCAN_MAX_FINDINGS)
			continue;
		fingerprint(r->id, s->path, "", 0, print);
		tell(s, r->id, 1, print);
	}
}

void
scan_known(struct scan *s, bool (*known)(const void *ctx, const char *secret,
    size_t n), const void *ctx)
{
	s->known = known;
	s->known_ctx = ctx;
}

void
scan_begin(struct scan *s, const char *path, const void *old, size_t nold,
    scan_report *report, void *ctx)
{
	free(s->path);
	old_free(s->old);
	s->path = sbx_xstrdup(path);
	s->old = old != NULL ? old_new(old, nold) : NULL;
	s->report = report;
	s->ctx = ctx;
	s->text = (struct text){ 0 };
	s->limited = s->skip = false;
	s->total = 0;
	s->nhits = 0;
	s->len = s->from = 0;
	s->off = 0;
	s->line = 1;
	s->slice = SLICE_FIRST;
	s->budget = FILE_NS;
	s->deadline = sbx_mono_ns() + FILE_NS;
	s->cpu = cpu_ns();
	for (size_t i = 0; i < s->rules.nallows; i++) {
		struct allow *a = s->rules.allows[i];

		a->path_ok = any_matches(s, a->paths, a->npaths, path,
		    strlen(path));
	}
	for (size_t i = 0; i < s->rules.nglobal; i++)
		s->skip = s->skip || (!s->rules.global[i]->all &&
		    s->rules.global[i]->path_ok);
	begin_rules(s, old == NULL);
}

static int
push(struct scan *s, const char *p, size_t n)
{
	while (n > 0) {
		size_t k = n < BUF_BYTES - s->len ? n : BUF_BYTES - s->len;

		memcpy(s->buf + s->len, p, k);
		s->len += k;
		p += k;
		n -= k;
		if (s->len == BUF_BYTES && window(s, false) != 0)
			return (-1);
	}
	return (0);
}

static int
push_decoded(struct scan *s, const uint8_t *p, size_t n)
{
	char text[TEXT_ROOM(2048)];
	size_t k, out;

	for (; n > 0; p += k, n -= k) {
		k = n < 2048 ? n : 2048;
		out = text_put(&s->text, p, k, text);
		if (push(s, text, out) != 0)
			return (-1);
	}
	return (0);
}

int
scan_add(struct scan *s, const void *data, size_t n)
{
	const uint8_t *p = data;
	struct text *t = &s->text;

	if (s->limited)
		return (-1);
	if (s->skip)
		return (0);
	while (t->form == TEXT_UNKNOWN && n > 0) {
		t->held[t->nheld++] = *p++;
		n--;
		if (t->nheld < 2)
			continue;
		t->form = text_form(t->held, 2);
		t->nheld = 0;
		if (t->form == TEXT_BYTES &&
		    push(s, (const char *)t->held, 2) != 0)
			return (-1);
	}
	if (t->form == TEXT_LE || t->form == TEXT_BE)
		return (push_decoded(s, p, n));
	return (push(s, (const char *)p, n));
}

int
scan_end(struct scan *s)
{
	char rest[2];
	size_t n;
	int r = s->limited ? -1 : 0;

	if (r == 0 && !s->skip) {
		n = text_end(&s->text, rest);
		r = push(s, rest, n);
		if (r == 0)
			r = window(s, true);
	}
	old_free(s->old);	/* what it borrowed may go */
	s->old = NULL;
	return (r);
}
