#include "sbxd/monitor/monitor.h"

#include <stdio.h>
#include <string.h>

/*
 * Findings of secrets that are let out: those by which the judge refused one
 * publication, for the next ones of that principal to that branch, until one is
 * pushed or an hour is over.  What was not looked at (a limit of the scanner)
 * never is.  Each finding is on record before it holds.
 */

#define HOLD_NS (3600 * S_NS)
#define PENDING_NS (60 * S_NS)		/* for its record */
#define PER_PRINCIPAL 4
#define PRINTS_MAX 256			/* JUDGE_PUBLISH.waived */
#define LIMIT_RULE "scan-limit"		/* of the judge */
#define TOOL "secret_scan_override"

/* --- the table --------------------------------------------------------------- */

static void
override_free(struct override *o)
{
	free(o->prints);
	memset(o, 0, sizeof(*o));
}

static bool
is_for(const struct override *o, const struct publish *p)
{
	return (o->used && o->held && o->who == p->who &&
	    sbx_mono_ns() < o->until_ns && strcmp(o->host, p->host) == 0 &&
	    strcmp(o->repo, p->repo) == 0 &&
	    strcmp(o->branch, p->branch) == 0);
}

/* The one that holds, or NULL: at most one does. */
static struct override *
override_of(const struct publish *p)
{
	for (size_t i = 0; i < MAX_OVERRIDES; i++)
		if (is_for(&p->m->overrides[i], p))
			return (&p->m->overrides[i]);
	return (NULL);
}

/* NULL: as many hold as may. */
static struct override *
override_new(struct monitor *m, const struct principal *who)
{
	const uint64_t now_ns = sbx_mono_ns();
	struct override *o, *free_one = NULL;
	unsigned own = 0;

	for (o = m->overrides; o < m->overrides + MAX_OVERRIDES; o++) {
		if (o->used && now_ns >= o->until_ns)
			override_free(o);
		if (!o->used && free_one == NULL)
			free_one = o;
		own += o->used && o->who == who;
	}
	return (own < PER_PRINCIPAL ? free_one : NULL);
}

void
override_list(struct publish *p, struct sbx_strs *ret, struct sbx_buf *ret_text)
{
	const struct override *o = override_of(p);

	sbx_buf_init(ret_text, PRINTS_MAX * 65);
	p->override = o != NULL ? o->serial : 0;
	for (uint32_t i = 0; o != NULL && i < o->n; i++)
		(void)sbx_strs_add(ret, ret_text, o->prints[i]);
}

bool
override_holds(const struct publish *p)
{
	const struct override *o = override_of(p);

	return (p->waived_total == 0 || (o != NULL &&
	    o->serial == p->override));
}

void
override_end(const struct publish *p)
{
	struct override *o = override_of(p);

	if (o != NULL)
		override_free(o);
}

void
override_drop_principal(struct monitor *m, const struct principal *who)
{
	for (size_t i = 0; i < MAX_OVERRIDES; i++)
		if (m->overrides[i].who == who)
			override_free(&m->overrides[i]);
}

void
override_lockdown(struct monitor *m)
{
	for (size_t i = 0; i < MAX_OVERRIDES; i++)
		override_free(&m->overrides[i]);
}

/* --- the user's word ----------------------------------------------------------- */

static const char *
skip_blank(const char *s)
{
	return (s + strspn(s, " \t\r\n"));
}

/* Behind the string at s. */
static const char *
skip_string(const char *s)
{
	for (s++; *s != '\0' && *s != '"'; s++)
		if (*s == '\\' && s[1] != '\0')
			s++;
	return (*s == '"' ? s + 1 : s);
}

/* Behind the value at s. */
static const char *
skip_value(const char *s)
{
	unsigned depth = 0;

	for (; *s != '\0'; s++) {
		if (*s == '"') {
			s = skip_string(s) - 1;
			continue;
		}
		if (depth == 0 && strchr(",}]", *s) != NULL)
			break;
		depth += *s == '{' || *s == '[';
		depth -= *s == '}' || *s == ']';
	}
	return (s);
}

/* The value of a member of the object at s, whose name has no escape; NULL: there
 * is none.  The front composed the text of clean JSON. */
static const char *
member(const char *s, const char *name)
{
	const size_t n = strlen(name);
	const char *key;

	if (s == NULL || *s != '{')
		return (NULL);
	do {
		key = skip_blank(s + 1);
		if (*key != '"')
			return (NULL);
		s = skip_blank(skip_string(key));
		if (*s != ':')
			return (NULL);
		s = skip_blank(s + 1);
		if (strncmp(key + 1, name, n) == 0 && key[n + 1] == '"')
			return (s);
		s = skip_blank(skip_value(s));
	} while (*s == ',');
	return (NULL);
}

static bool
is_string(const char *v, const char *text)
{
	const size_t n = strlen(text);

	return (v != NULL && *v == '"' && strncmp(v + 1, text, n) == 0 &&
	    v[n + 1] == '"');
}

bool
call_user_said(const struct call *c, const char *tool, const char *action)
{
	if (c == NULL || strcmp(c->tool, tool) != 0 || c->inputs == NULL)
		return (false);
	return (is_string(member(member(member(skip_blank(c->inputs),
	    "inputResponses"), "confirm"), "action"), action));
}

bool
call_asked_of(const struct call *c, const char *name, const char *value)
{
	return (c != NULL && c->inputs != NULL && is_string(member(member(
	    skip_blank(c->inputs), "state"), name), value));
}

/* --- what is asked for ------------------------------------------------------------ */

/* A finding of a publication, in p->findings: RULE PATH LINE FINGERPRINT. */
struct finding {
	const char *v[4];
};

/* NULL when the judge told of none with that fingerprint. */
static bool
finding_find(const struct publish *p, const char *print, struct finding *ret)
{
	const struct sbx_strs all = { p->findings.data, p->nfindings,
		(uint32_t)p->findings.len };
	const char *s = NULL;

	for (;;) {
		for (size_t i = 0; i < 4; i++)
			if ((ret->v[i] = s = sbx_strs_next(&all, s)) == NULL)
				return (false);
		if (strcmp(ret->v[3], print) == 0)
			return (true);
	}
}

/* NULL, or a word for why not, with next and a sentence. */
static const char *
barred(struct monitor *m, const struct worker *w, const struct publish *p,
    const char **ret_next, const char **ret_why)
{
	*ret_next = LOCKED_NEXT;
	*ret_why = LOCKED_WHY;
	if (m->locked)
		return ("locked");
	*ret_next = "Publish again: its result names the run and the findings.";
	*ret_why = "there is no such publication of that sandbox";
	if (p == NULL)
		return ("unknown_run");
	*ret_why = "that publication was not refused for a secret";
	if (p->phase != SBX_PUBLISH_ENDED ||
	    p->outcome != SBX_PUBLISH_REFUSED || strcmp(p->step, "secret") != 0)
		return ("not_refused");
	*ret_next = "Take the secret out of the files.";
	*ret_why = "a client of http_auth none cannot let secrets out";
	if (w->who->anybody)
		return ("not_allowed");
	*ret_why = "the operator does not permit it (secret_override off)";
	if (strcmp(m->conf.secret_override, "off") == 0)
		return ("not_allowed");
	*ret_why = "a user has to agree, whom this client cannot ask "
	    "(elicitation); the operator may set secret_override on";
	if (strcmp(m->conf.secret_override, "confirm") == 0 &&
	    (w->call == NULL || (w->call->client_can & SBX_CAN_ELICIT) == 0))
		return ("not_allowed");
	return (NULL);
}

/* false: refused. */
static bool
findings_good(struct worker *w, const struct publish *p,
    const struct sbx_override_ask *q)
{
	const char *s = NULL;
	struct finding f;

	if (q->fingerprints.count == 0 || q->reason[0] == '\0') {
		ask_refuse(w, "bad_argument", "", "there is no fingerprint or "
		    "no reason");
		return (false);
	}
	while ((s = sbx_strs_next(&q->fingerprints, s)) != NULL) {
		if (!sbx_is_hex(s, 64) || !finding_find(p, s, &f)) {
			ask_refuse(w, "unknown_finding", "Name fingerprints as "
			    "that result of publish has them.", "that "
			    "publication did not tell of a finding %.64s", s);
			return (false);
		}
		if (strcmp(f.v[0], LIMIT_RULE) == 0) {
			ask_refuse(w, "not_scanned", "Leave it out, or make it "
			    "smaller.", "%.200s was not looked through: that "
			    "cannot be let out", f.v[1]);
			return (false);
		}
	}
	return (true);
}

/* false: there is no room. */
static bool
add_print(struct override *o, const char *print)
{
	for (uint32_t i = 0; i < o->n; i++)
		if (strcmp(o->prints[i], print) == 0)
			return (true);
	if (o->n == PRINTS_MAX)
		return (false);
	memcpy(o->prints[o->n++], print, 65);
	return (true);
}

/* With those that hold already.  false: they are too many. */
static bool
collect(struct override *o, const struct override *old,
    const struct sbx_strs *prints)
{
	const char *s = NULL;
	bool room = true;

	o->prints = sbx_xcalloc(PRINTS_MAX, sizeof(*o->prints));
	for (uint32_t i = 0; old != NULL && i < old->n; i++)
		(void)add_print(o, old->prints[i]);	/* as it had them */
	while (room && (s = sbx_strs_next(prints, s)) != NULL)
		room = add_print(o, s);
	return (room);
}

static void
state_send(struct worker *w, const struct publish *p, const struct override *o,
    const struct sbx_strs *prints)
{
	struct sbx_override_state s = { .host = p->host, .repo = p->repo,
		.branch = p->branch, .confirm = strcmp(
		p->m->conf.secret_override, "confirm") == 0,
		.count = o != NULL ? o->n : 0,
		.left_s = o != NULL ? HOLD_NS / S_NS : 0 };
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	const char *t = NULL;
	struct finding f;

	sbx_buf_init(&b, p->findings.len + 1);
	while (prints != NULL && (t = sbx_strs_next(prints, t)) != NULL)
		if (finding_find(p, t, &f))
			for (size_t i = 0; i < 4; i++)
				(void)sbx_strs_add(&s.findings, &b, f.v[i]);
	(void)sbx_send_override_state(w->peer, w->ask.id, &s, NULL);
	ask_done(w);
}

/* --- it holds ------------------------------------------------------------------------ */

static void
recorded(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	struct publish *p = publish_find(m, w->who, w->ask.run);
	struct override *o = NULL, *old;

	why = journal_why(in, why);
	for (size_t i = 0; i < MAX_OVERRIDES; i++)
		if (m->overrides[i].used && !m->overrides[i].held &&
		    strcmp(m->overrides[i].id, w->ask.grant) == 0)
			o = &m->overrides[i];
	if (why == NULL && (o == NULL || p == NULL))
		why = "it took too long";
	if (why != NULL) {
		if (o != NULL)
			override_free(o);
		ask_refuse(w, "journal_unavailable", "Try again later.",
		    "nothing is let out while it cannot be recorded: %s", why);
		return;
	}
	if ((old = override_of(p)) != NULL)
		override_free(old);
	o->held = true;
	o->until_ns = sbx_mono_ns() + HOLD_NS;
	state_send(w, p, o, NULL);
}

/* Each finding, before the record that it holds by.  false: one was lost. */
static bool
record_findings(const struct publish *p, const struct sbx_strs *prints)
{
	const char *s = NULL;
	struct finding f;

	while ((s = sbx_strs_next(prints, s)) != NULL) {
		if (!finding_find(p, s, &f))
			return (false);
		journal_add(p->m, &(struct record){ .op = TOOL,
		    .phase = "finding", .who = p->who, .container = p->work,
		    .run = p->id }, "rule", f.v[0], "path", f.v[1], "line",
		    f.v[2], "fingerprint", f.v[3], NULL);
		if (p->m->journal_lost > 0)
			return (false);
	}
	return (true);
}

static void
hold(struct publish *p, struct worker *w, const struct sbx_override_ask *q)
{
	struct override *o = override_new(p->m, w->who);
	char count[12];

	if (o == NULL || !collect(o, override_of(p), &q->fingerprints)) {
		ask_refuse(w, "busy", "Publish what is let out already.",
		    "findings are let out for as many branches as may be, or "
		    "%u for this one", PRINTS_MAX);
		if (o != NULL)
			override_free(o);
		return;
	}
	o->used = true;
	o->who = w->who;
	o->serial = ++p->m->override_serial;
	o->until_ns = sbx_mono_ns() + PENDING_NS;
	sbx_random_hex(o->id, SBX_RUN_HEX / 2);
	memcpy(o->host, p->host, sizeof(o->host));
	memcpy(o->repo, p->repo, sizeof(o->repo));
	memcpy(o->branch, p->branch, sizeof(o->branch));
	memcpy(w->ask.grant, o->id, sizeof(w->ask.grant));
	memcpy(w->ask.run, p->id, sizeof(w->ask.run));
	(void)snprintf(count, sizeof(count), "%u", q->fingerprints.count);
	if (!record_findings(p, &q->fingerprints))
		recorded(p->m, w, NULL, "the journal is behind");
	else
		journal_cross(p->m, w, recorded, &(struct record){ .op = TOOL,
		    .phase = "start", .who = p->who, .container = p->work,
		    .run = p->id }, "host", p->host, "repo", p->repo, "branch",
		    p->branch, "findings", count, "reason", q->reason,
		    "agreed", strcmp(p->m->conf.secret_override, "on") == 0 ?
		    "operator" : "user", NULL);
}

/*
 * Safe for a hostile worker: what is let out is what the judge told of one of its
 * principal's own publications, and the user's word is read here from what the
 * client answered.  What a worker showed him is the worker's.
 */
void
override_ask(struct monitor *m, struct worker *w,
    const struct sbx_override_ask *q)
{
	struct publish *p = publish_find(m, w->who, q->publish);
	const char *code, *next, *why;

	if (p != NULL && strcmp(p->work, q->container) != 0)
		p = NULL;
	if ((code = barred(m, w, p, &next, &why)) != NULL) {
		journal_add(m, &(struct record){ .op = TOOL,
		    .phase = "refused", .who = w->who,
		    .container = p != NULL ? p->work : "", .run = p != NULL ?
		    p->id : "", .code = 1 }, "reason", why, NULL);
		ask_refuse(w, code, next, "%s", why);
		return;
	}
	if (!findings_good(w, p, q))
		return;
	if (!q->hold)
		state_send(w, p, NULL, &q->fingerprints);
	else if (strcmp(m->conf.secret_override, "on") != 0 &&
	    !call_user_said(w->call, TOOL, "accept"))
		ask_refuse(w, "declined", "Do not try again unless the user "
		    "asks for it.", "the user did not agree");
	else
		hold(p, w, q);
}
