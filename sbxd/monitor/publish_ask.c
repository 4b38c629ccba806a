#include "sbxd/monitor/publish.h"

#include "common/base/image.h"
#include "common/base/json.h"
#include "common/base/publish.h"
#include "common/base/rules.h"
#include "common/base/sha256.h"

#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Publications as they are asked for, and what of the configuration is theirs:
 * all that can be refused before anything is done, and what is told of them.
 */

#define MAKE_NS (60 * S_NS)
#define WAIT_MAX_MS (3600u * 1000)
#define ASK_S 15
#define FILES_MAX 20000
#define MESSAGE_MAX (64u << 10)

/* --- configuration --------------------------------------------------------------- */

/* "NAME <MAIL>" as git takes it. */
static bool
author_is_good(const char *s)
{
	const size_t n = strlen(s), name = strcspn(s, "<>");
	const size_t mail = s[name] == '<' ? strcspn(s + name + 1, "<> ") : 0;

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
			return (false);
	return (name > 1 && s[0] != ' ' && s[name - 1] == ' ' && mail > 0 &&
	    name + mail + 2 == n && s[n - 1] == '>');
}

int
publish_check(const struct sbx_conf *c, struct sbx_err *err)
{
	if (!author_is_good(c->publish_author))
		return (sbx_err_set(err, SBX_E_SYNTAX, "publish_author %.100s: "
		    "write \"NAME <MAIL>\"", c->publish_author));
	if (!sbx_image_is_wanted(c->publish_image))
		return (sbx_err_set(err, SBX_E_SYNTAX, "publish_image %.100s: "
		    "write host, a name of `sbx image list`, or a digest",
		    c->publish_image));
	return (0);
}

int
publish_rules(const struct sbx_conf *c, int *ret_fd, struct sbx_err *err)
{
	char dir[PATH_MAX];
	int r;

	if (c->secret_rules[0] == '\0')
		return (0);
	if ((*ret_fd = sbx_rules_open(c->secret_rules, err)) == -1)
		return (err->code);
	r = setup_program_dir(dir, err);
	return (r != 0 ? r : sbx_rules_check(dir, c->secret_rules, *ret_fd,
	    err));
}

/* Before the cage: what is read later is what stood there at the start. */
int
setup_publish(struct monitor *m, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) fd = -1;
	int r = publish_rules(&m->conf, &fd, err);
	ssize_t n;

	if (r != 0 || fd == -1)
		return (r);
	m->secret_rules = sbx_xcalloc(1, SBX_RULES_MAX + 1);
	n = pread(fd, m->secret_rules, SBX_RULES_MAX, 0);
	if (n <= 0)
		return (sbx_err_set(err, SBX_E_SYS, "secret_rules: %.160s "
		    "cannot be read", m->conf.secret_rules));
	m->nsecret_rules = (size_t)n;
	return (0);
}

/* --- states ------------------------------------------------------------------------ */

void
publish_state_send(struct worker *w, const struct publish *p)
{
	const struct sbx_publish_step *row = sbx_publish_step(p->step);
	const struct sbx_publish_state s = { .publish = p->id,
		.container = p->work, .phase = p->phase,
		.outcome = p->outcome, .step = p->step, .reason = p->reason,
		.next = row != NULL ? row->mend : "", .tip = p->tip,
		.base = p->base, .tree = p->tree, .commit = p->commit,
		.branch = p->branch, .default_branch = p->default_branch,
		.grant = p->push, .added = p->added,
		.modified = p->modified, .deleted = p->deleted,
		.unchanged = p->unchanged, .bytes = p->bytes,
		.total = p->total, .findings = { p->findings.data,
		p->nfindings, (uint32_t)p->findings.len },
		.nwaived = p->waived_total, .waived = { p->waived.data,
		p->nwaived, (uint32_t)p->waived.len },
		.is_signed = (uint8_t)publish_is_signed(p),
		.elapsed_ms = ((p->ended_ns != 0 ? p->ended_ns :
		sbx_mono_ns()) - p->began_ns) / MS_NS, .gate = p->gate,
		.gate_status = p->gate_status != NULL ? p->gate_status : "",
		.gate_ran = p->gate_ran };

	(void)sbx_send_publish_state(w->peer, w->ask.id, &s, NULL);
	ask_done(w);
}

void
publish_tell(struct publish *p)
{
	struct worker *w;

	for (size_t i = 0; i < SBX_NELEM(p->m->workers); i++) {
		w = &p->m->workers[i];
		if (w->ask.type == SBX_MSG_PUBLISH_WAIT &&
		    strcmp(w->ask.run, p->id) == 0)
			publish_state_send(w, p);
	}
}

struct publish *
publish_find(struct monitor *m, const struct principal *who, const char *id)
{
	for (size_t i = 0; i < MAX_PUBLISHES; i++)
		if (m->publishes[i].used && m->publishes[i].who == who &&
		    strcmp(m->publishes[i].id, id) == 0)
			return (&m->publishes[i]);
	return (NULL);
}

/* Safe: own ones only; the wait has a limit. */
void
publish_wait(struct monitor *m, struct worker *w,
    const struct sbx_publish_wait *q)
{
	struct timeval tv = { .tv_sec = q->wait_ms / 1000,
		.tv_usec = (suseconds_t)(q->wait_ms % 1000) * 1000 };
	struct publish *p = publish_find(m, w->who, q->publish);

	if (q->wait_ms > WAIT_MAX_MS) {
		ask_refuse(w, "bad_argument", "", "the wait is longer than an "
		    "hour");
		return;
	}
	if (p == NULL) {
		ask_refuse(w, "unknown_run", "Publish again: what landed is "
		    "known again.", "there is no publication %s", q->publish);
		return;
	}
	if (p->phase == SBX_PUBLISH_ENDED || q->wait_ms == 0) {
		publish_state_send(w, p);
		return;
	}
	memcpy(w->ask.run, p->id, sizeof(p->id));
	w->ask.deadline_ns = sbx_mono_ns() + q->wait_ms * MS_NS + ASK_S * S_NS;
	(void)evtimer_add(w->timer, &tv);
}

void
publish_wait_over(struct monitor *m, struct worker *w)
{
	for (size_t i = 0; i < MAX_PUBLISHES; i++)
		if (m->publishes[i].used &&
		    strcmp(m->publishes[i].id, w->ask.run) == 0)
			publish_state_send(w, &m->publishes[i]);
}

/* --- the lines of scripts ------------------------------------------------------------- */

static const char *const keys[SBX_PUBLISH_SCRIPT_MAX][5] = {
	[SBX_PUBLISH_FETCH] = { "tip", "default", "format", "like",
	    "fork" },
	[SBX_PUBLISH_BUILD] = { "tree", "commit" },
	[SBX_PUBLISH_PUSH] = { "at", "said" },
	[SBX_PUBLISH_SHOW] = { "files", "added", "deleted", "cut" },
	[SBX_PUBLISH_LOOK] = { "at", "in" },
};

static bool
value_is_good(const struct publish *p, const char *key, const char *v)
{
	const size_t n = strlen(p->base);

	if (strcmp(key, "default") == 0)
		return (v[0] != '\0' && strlen(v) < sizeof(p->default_branch));
	if (strcmp(key, "format") == 0)
		return (strcmp(v, n == 40 ? "sha1" : "sha256") == 0);
	if (strcmp(key, "said") == 0)
		return (strcmp(v, "ok") == 0 || strcmp(v, "no") == 0 ||
		    strcmp(v, "none") == 0);
	if (strcmp(key, "in") == 0)
		return (strcmp(v, "yes") == 0 || strcmp(v, "no") == 0);
	if (strcmp(v, "-") == 0)
		return (strcmp(key, "tree") != 0 && strcmp(key, "commit") != 0);
	return (sbx_is_hex(v, n) || (strcmp(key, "at") == 0 &&
	    strcmp(v, "?") == 0));
}

/* Those of SHOW. */
static bool
number_is_good(const char *v, uint32_t *ret)
{
	uint64_t n = 0;

	if (sbx_parse_u64(v, 0, UINT32_MAX, &n) != 0)
		return (false);
	*ret = (uint32_t)n;
	return (true);
}

static bool
refused_line(struct publish *p, char *line)
{
	const char *step = strsep(&line, " ");
	char text[512];

	if (step == NULL || sbx_publish_step(step) == NULL)
		return (false);
	(void)sbx_vis(text, sizeof(text), line != NULL ? line : "",
	    line != NULL ? strlen(line) : 0);
	publish_refuse(p, step, "%s%s%s", sbx_publish_step(step)->cause,
	    text[0] != '\0' ? ": " : "", text);
	return (true);
}

bool
publish_line(struct publish *p, unsigned row, char *line,
    struct publish_said *ret)
{
	const char *word, *v;
	bool good = true;

	*ret = (struct publish_said){ .value = { "", "", "", "",
	    "" } };
	if (row != SBX_PUBLISH_PUSH && strncmp(line, "no ", 3) == 0 &&
	    refused_line(p, line + 3))
		return (false);
	for (size_t i = 0; good && i < SBX_NELEM(keys[row]) &&
	    keys[row][i] != NULL; i++) {
		word = strsep(&line, " ");
		v = strsep(&line, " ");
		good = v != NULL && strcmp(word, keys[row][i]) == 0 &&
		    (row == SBX_PUBLISH_SHOW ? number_is_good(v,
		    &ret->number[i]) : value_is_good(p, word, v));
		ret->value[i] = good && strcmp(v, "-") != 0 ? v : "";
	}
	if (good && line != NULL && row == SBX_PUBLISH_PUSH)
		(void)sbx_vis(ret->text, sizeof(ret->text), line,
		    strlen(line));
	else if (!good || line != NULL) {
		publish_refuse(p, "suite", "its script did not say what it "
		    "came to");
		return (false);
	}
	return (true);
}

/* --- what is asked for ------------------------------------------------------------------ */

/* As git-check-ref-format(1) has it, and less: nothing that has a meaning for
 * git's arguments or for a shell. */
bool
publish_branch_is_good(const char *s)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/+=@#,";
	const char *end;

	if (strspn(s, set) != strlen(s) || strstr(s, "..") != NULL ||
	    strcmp(s, "HEAD") == 0 || strcmp(s, "@") == 0 ||
	    strncmp(s, "refs/", 5) == 0 || sbx_is_hex(s, 40) ||
	    sbx_is_hex(s, 64))
		return (false);
	for (;; s = end + 1) {		/* each component */
		end = s + strcspn(s, "/");
		if (end == s || *s == '.' || *s == '-' || end[-1] == '.' ||
		    (end - s >= 5 && memcmp(end - 5, ".lock", 5) == 0))
			return (false);
		if (*end == '\0')
			return (true);
	}
}

/* Below the top of a tree, without a way up. */
static bool
path_is_good(const char *s)
{
	const char *end;

	for (;; s = end + 1) {
		size_t n;

		end = s + strcspn(s, "/");
		n = (size_t)(end - s);
		if (n == 0 || (n == 1 && s[0] == '.') ||
		    (n == 2 && s[0] == '.' && s[1] == '.'))
			return (false);
		if (*end == '\0')
			return (true);
	}
}

/* Why; in p->reason. */
static const char *
bad_path(struct publish *p, const char *s)
{
	char name[160];

	(void)sbx_vis(name, sizeof(name), s, strlen(s));
	(void)snprintf(p->reason, sizeof(p->reason), "%s: it is written as "
	    "from the top of the tree, without / at its ends, . or ..", name);
	return (p->reason);
}

/* NULL, or the step that refuses them, with why.  What is declared is the front
 * of them. */
static const char *
names_barred(struct publish *p, const char **ret_why)
{
	const char *end = p->names + p->nnames;
	size_t count = 0;

	*ret_why = "the list of files is none";
	if (p->nnames > 0 && end[-1] != '\0')
		return ("malformed");
	for (const char *s = p->names; s < end; s += strlen(s) + 1) {
		if (!path_is_good(s)) {
			*ret_why = bad_path(p, s);
			return ("path");
		}
		count++;
	}
	*ret_why = "more than 20000 files are declared, or merged";
	if (count > FILES_MAX)
		return ("too_large");
	*ret_why = "more is merged than there is";
	if (p->merged > (p->parent2[0] != '\0' ? count : 0))
		return ("malformed");
	p->declared = (uint32_t)count - p->merged;
	for (count = 0; count < p->declared; count++)
		p->ndeclared += strlen(p->names + p->ndeclared) + 1;
	return (NULL);
}

static bool
message_is_good(const struct publish *p)
{
	const char *s = p->message, *end = s + p->nmessage;
	unsigned n;

	if (p->nmessage == 0 || strspn(s, " \t\n") == p->nmessage)
		return (false);
	for (; s < end; s += n) {
		n = sbx_utf8_len(s, (size_t)(end - s));
		if (n == 0 || ((unsigned char)*s < ' ' && *s != '\n' &&
		    *s != '\t') || *s == 0x7f)
			return (false);
	}
	return (true);
}

static bool
id_is_good(const char *s)
{
	return ((sbx_is_hex(s, 40) || sbx_is_hex(s, 64)) &&
	    strspn(s, "0") != strlen(s));
}

static const char *
shape_barred(struct publish *p, const char **ret_why)
{
	*ret_why = "there can be no such repository";
	if (!repos_is_one(p->host, p->repo))
		return ("malformed");
	*ret_why = "a branch is named by letters, digits and . _ - / + = @ # , "
	    "as git takes them";
	if (strncmp(p->branch, "refs/", 5) == 0)
		*ret_why = "write the branch without refs/heads/";
	if (!publish_branch_is_good(p->branch))
		return ("malformed");
	*ret_why = "there is no base: the repository has no commit that the "
	    "work began from";
	if (p->base[0] == '\0')
		return ("no_such_base");
	*ret_why = "base and second parent are whole ids of one kind";
	if (!id_is_good(p->base) || (p->parent2[0] != '\0' &&
	    (!id_is_good(p->parent2) || strlen(p->parent2) !=
	    strlen(p->base) || strcmp(p->parent2, p->base) == 0)))
		return ("malformed");
	*ret_why = "a second parent is one of a branch of the repository";
	if ((p->parent2[0] != '\0') != (p->merge_branch[0] != '\0') ||
	    (p->parent2[0] != '\0' && !publish_branch_is_good(
	    p->merge_branch)))
		return ("malformed");
	*ret_why = "the message is empty, longer than 64 KiB, or not all text: "
	    "no UTF-8, or a control character other than tab and newline, as "
	    "the carriage return is";
	if (!message_is_good(p))
		return ("malformed");
	return (names_barred(p, ret_why));
}

/* What the operator writes; in p->reason. */
static const char *
not_listed(struct publish *p)
{
	char entry[sizeof(p->host) + sizeof(p->repo)];

	(void)snprintf(entry, sizeof(entry), "%s%s%s", strcmp(p->host,
	    SBX_GITHUB) == 0 ? "" : p->host, strcmp(p->host, SBX_GITHUB) == 0 ?
	    "" : "/", p->repo);
	(void)snprintf(p->reason, sizeof(p->reason), "it is %s: to have it "
	    "written, the operator writes `allowed_repo %.110s` into sbx.conf "
	    "and sends sbxd SIGHUP", repos_may_read(p->m, p->host, p->repo) ?
	    "in allow_read, to be read only" : "not in allowed_repo",
	    strlen(entry) <= 110 ? entry : "HOST/OWNER/NAME");
	return (p->reason);
}

static const char *
policy_barred(struct publish *p, const char **ret_why)
{
	const struct sbx_conf *c = &p->m->conf;

	*ret_why = LOCKED_WHY;
	if (p->m->locked)
		return ("locked");
	*ret_why = "a client of http_auth none cannot publish";
	if (p->who->anybody)
		return ("not_allowed");
	if (!repos_may_write(p->m, p->host, p->repo)) {
		*ret_why = not_listed(p);
		return ("not_allowed");
	}
	*ret_why = "allow_force is off";
	if ((p->flags & SBX_PUBLISH_FORCE) != 0 && !c->allow_force)
		return ("not_allowed");
	*ret_why = "main and master are the default branch of most "
	    "repositories";
	if ((strcmp(p->branch, "main") == 0 ||
	    strcmp(p->branch, "master") == 0) && !c->allow_protected_ref)
		return ("protected_ref");
	*ret_why = "the egress proxy is not there";
	if (component_peer(p->m, SBX_PROC_PROXY) == NULL)
		return ("suite");
	return (NULL);
}

/* --- begin ---------------------------------------------------------------------------- */

/* The last paragraph's lines are trailers already, or there is one more. */
static void
sign_off(struct publish *p)
{
	const char *author = p->m->conf.publish_author, *last;
	char *line, *text;

	while (p->nmessage > 0 && strchr(" \t\n",
	    p->message[p->nmessage - 1]) != NULL)
		p->message[--p->nmessage] = '\0';
	line = sbx_xasprintf("Signed-off-by: %s", author);
	last = strrchr(p->message, '\n');
	last = last != NULL ? last + 1 : p->message;
	if (strcmp(last, line) != 0) {
		text = sbx_xasprintf("%s\n%s%s\n", p->message,
		    strncmp(last, "Signed-off-by: ", 15) == 0 ? "" : "\n",
		    line);
		free(p->message);
		p->message = text;
		p->nmessage = strlen(text);
	}
	free(line);
}

struct publish *
publish_room(struct monitor *m, const struct principal *who)
{
	struct hidden_place v[MAX_PUBLISHES] = { 0 };
	const struct publish *p;
	size_t i;

	for (i = 0; i < MAX_PUBLISHES; i++)
		if ((p = &m->publishes[i])->used)
			v[i] = (struct hidden_place){ p->who, p->ended_ns };
	i = hidden_place(v, MAX_PUBLISHES, who);
	return (i == MAX_PUBLISHES || m->nsandboxes >= SBX_MAX_SANDBOXES ?
	    NULL : &m->publishes[i]);
}
_Static_assert(MAX_PUBLISHES > HIDDEN_RUNNING, "one is unused or has ended");

static void
drop(struct publish *p)
{
	free(p->dir);
	free(p->names);
	free(p->message);
	p->dir = p->names = p->message = NULL;
}

/* With its record: nobody publishes against the configuration unseen. */
static void
bar(struct worker *w, struct publish *p, const char *step, const char *why)
{
	const struct sbx_publish_step *row = sbx_publish_step(step);

	journal_add(p->m, &(struct record){ .op = "publish",
	    .phase = "refused", .who = p->who, .container = p->work,
	    .code = 1 }, "step", step, "reason", why, "host", p->host, "repo",
	    p->repo, "branch", p->branch, NULL);
	if (strcmp(row->cause, why) == 0)
		ask_refuse(w, step, row->mend, "%s", why);
	else
		ask_refuse(w, step, row->mend, "%s: %s", row->cause, why);
	drop(p);
}

static void
recorded(struct monitor *m, struct worker *w, struct sbx_in *in,
    const char *why)
{
	struct sandbox *sb = sandbox_find(m, w->ask.container);
	struct publish *p = NULL;

	why = journal_why(in, why);
	for (size_t i = 0; sb != NULL && i < MAX_PUBLISHES; i++)
		if (m->publishes[i].used &&
		    strcmp(m->publishes[i].box, sb->id) == 0)
			p = &m->publishes[i];
	if (p == NULL) {
		ask_refuse(w, "suite", "Retry.", "its sandbox ended");
		return;
	}
	if (why == NULL && m->locked)
		why = LOCKED_WHY;
	if (why == NULL && !sandbox_send_create(m, sb, ""))
		why = "the engine is not there";
	if (why != NULL) {
		ask_refuse(w, "journal_unavailable", "Try again later.",
		    "nothing is published while it cannot be recorded: %s",
		    why);
		p->box[0] = '\0';
		sandbox_free(m, sb);
		publish_free(p);
		return;
	}
	sb->maker = NULL;	/* it goes on when its call does not wait */
	p->by_ns = sbx_mono_ns() + MAKE_NS;
	tick_arm(m);
	publish_state_send(w, p);
}

/* Its sandbox: of the operator's image, with a way out. */
static const char *
make_box(struct publish *p, struct worker *w)
{
	struct monitor *m = p->m;
	struct limits limits;
	struct sandbox *sb;
	const char *code;
	static char text[256];

	/* it is the suite's own, and short: somebody waits for it */
	if (limits_resolve(m, &(struct sbx_sb_create){ .cpu_milli =
	    m->cpu_max }, &limits, &code, text, sizeof(text)) != NULL)
		return (text);
	sb = sandbox_new(m, w, m->conf.publish_image, "", "");
	sb->hidden = true;
	sb->network = true;
	sb->limits = limits;
	memcpy(p->box, sb->id, sizeof(p->box));
	memcpy(w->ask.container, sb->id, sizeof(sb->id));
	return (NULL);
}

static void
begin(struct publish *new, struct worker *w)
{
	struct monitor *m = new->m;
	struct publish *p;
	struct sbx_sha256 sha;
	const char *why;

	publish_user_again(new);
	if ((p = publish_room(m, w->who)) == NULL) {
		bar(w, new, "busy", "there are two of this client or four in "
		    "all");
		return;
	}
	if ((why = make_box(new, w)) != NULL) {
		bar(w, new, "suite", why);
		return;
	}
	if (p->used)
		publish_free(p);
	*p = *new;
	p->used = true;
	p->sign = m->conf.publish_signing_key[0] != '\0' &&
	    (p->flags & SBX_PUBLISH_DRY_RUN) == 0;
	sbx_random_hex(p->id, SBX_RUN_HEX / 2);
	sbx_sha256_init(&sha);
	sbx_sha256_add(&sha, p->names, p->ndeclared);
	sbx_sha256_end(&sha, p->names_hash);
	if (m->conf.publish_signoff)
		sign_off(p);
	journal_cross(m, w, recorded, &(struct record){ .op = "publish",
	    .phase = "start", .who = p->who, .container = p->work,
	    .run = p->id }, "sandbox", p->box, "image",
	    m->conf.publish_image, "host", p->host, "repo", p->repo,
	    "branch", p->branch, "base", p->base, "parent2", p->parent2,
	    "merge_branch", p->merge_branch,
	    "dry_run", (p->flags & SBX_PUBLISH_DRY_RUN) ? "1" : "0",
	    "force", (p->flags & SBX_PUBLISH_FORCE) ? "1" : "0", NULL);
}

/*
 * Safe for a hostile worker: what leaves is what its principal's sandbox has
 * under the names that it gives, on a base that the repository has, to where
 * the configuration permits; what else it says is only a text of the commit.
 */
void
publish_start(struct monitor *m, struct worker *w,
    const struct sbx_publish_start *q, int fds[2])
{
	struct sandbox *work = sandbox_own(m, w, q->container);
	int SBX_CLEANUP(fd) names = fds[0], SBX_CLEANUP(fd) message = fds[1];
	struct publish p = { .m = m, .who = w->who, .maker = w->call,
		.flags = q->flags, .base_fd = -1, .began_ns = sbx_mono_ns() };
	const char *step, *why = "a list of files or a message is no sealed "
	    "memory, or too long";

	if (work == NULL)
		return;
	memcpy(p.work, work->id, sizeof(p.work));
	(void)sbx_strlcpy(p.host, q->host, sizeof(p.host));
	(void)sbx_strlcpy(p.repo, q->repo, sizeof(p.repo));
	(void)sbx_strlcpy(p.branch, q->branch, sizeof(p.branch));
	(void)sbx_strlcpy(p.base, q->base, sizeof(p.base));
	(void)sbx_strlcpy(p.parent2, q->parent2, sizeof(p.parent2));
	(void)sbx_strlcpy(p.merge_branch, q->merge_branch,
	    sizeof(p.merge_branch));
	p.merged = q->merged;
	p.dir = sbx_xstrdup(q->dir);
	step = "malformed";
	if (sbx_memfd_read(names, SBX_PUBLISH_MAX_NAMES, &p.names,
	    &p.nnames) == 0 && sbx_memfd_read(message, MESSAGE_MAX,
	    &p.message, &p.nmessage) == 0 &&
	    (step = shape_barred(&p, &why)) == NULL)
		step = policy_barred(&p, &why);
	if (step != NULL)
		bar(w, &p, step, why);
	else
		begin(&p, w);
}
