#include "sbxd/monitor/monitor.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/*
 * The key process: what it is told first, the processes and connections that
 * it asks for, and what an operator is shown of it.  It never learns of a path
 * into the network: connections to the hosts of its sources come from the
 * proxy, and go on from it to a courier.
 */

#define DIAL_NS (25 * S_NS)	/* the proxy gives up after 20 s */
#define RENEW_NS (10 * S_NS)	/* for tokens to be revoked */
#define API_PORT 443
#define STATE_BYTES 15360u	/* CTL_BROKER_STATE.lines, */
#define STATE_LINES 128u	/* and how many */

int
broker_start(struct component *c)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	struct sbx_broker_start s = {
		.bot_commands = c->m->conf.allow_bot_commands,
		.author = c->m->conf.publish_author };

	if (repos_sources(&c->m->conf, c->m->given, &s.sources, &b) != 0)
		return (SBX_E_LIMIT);
	c->m->signer_bad[0] = '\0';
	if (c->m->locked)
		log_notice("locked down: the broker gives out nothing");
	return (sbx_send_broker_start(c->peer, 0, &s, &c->m->fd_roots));
}

/* A new life of it: what was locked stays so.  Whether it can sign it is asked. */
void
broker_is_up(struct monitor *m)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);

	if (m->locked && p != NULL)
		(void)sbx_send_broker_lock(p, ++m->next_id,
		    &(struct sbx_broker_lock){ .on = 1 }, NULL);
	if (p != NULL)
		(void)sbx_send_broker_status(p, ++m->next_id,
		    &(struct sbx_broker_status){ 0 }, NULL);
}

/* --- other sources ---------------------------------------------------------- */

static void
take_sources(struct monitor *m)
{
	const struct sbx_conf *c = m->renew;

	m->conf.github_app = c->github_app;
	m->conf.github_token_file = c->github_token_file;
	memcpy(m->conf.github_token_command, c->github_token_command,
	    sizeof(m->conf.github_token_command));
	m->conf.github_token_timeout = c->github_token_timeout;
	m->conf.allow_bot_commands = c->allow_bot_commands;
	memcpy(m->conf.publish_signing_key, c->publish_signing_key,
	    sizeof(m->conf.publish_signing_key));
	free(m->renew);
	m->renew = NULL;
	m->renew_id = 0;
}

static void
renew(struct monitor *m)
{
	take_sources(m);
	component_renew(&m->comps[SBX_PROC_BROKER],
	    "the sources of credentials are read anew");
}

/*
 * Nothing is done with the old ones from now on.  Their hosts are told that the
 * tokens end, as at a lockdown, and need the old settings for that; then a
 * broker that knows the new ones alone takes its place.
 */
void
broker_renew(struct monitor *m, const struct sbx_conf *c)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);

	if (m->renew == NULL)
		m->renew = sbx_xcalloc(1, sizeof(*m->renew));
	*m->renew = *c;
	if (p == NULL) {
		renew(m);
		return;
	}
	m->renew_id = ++m->next_id;
	m->renew_by_ns = sbx_mono_ns() + RENEW_NS;
	tick_arm(m);
	(void)sbx_send_broker_lock(p, m->renew_id, &(struct sbx_broker_lock){
	    .on = 1 }, NULL);
}

bool
broker_renewed(struct monitor *m, uint32_t id)
{
	if (id == 0 || id != m->renew_id)
		return (false);
	renew(m);
	return (true);
}

/* One that is being started reads the files by that. */
void
broker_look(struct monitor *m)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);

	if (p == NULL || m->renew != NULL)
		return;
	m->look_id = ++m->next_id;
	(void)sbx_send_broker_status(p, m->look_id,
	    &(struct sbx_broker_status){ 0 }, NULL);
}

/* Safe for a hostile broker: it is begun anew when an operator asked for that.
 * What cannot be used is tried again, since the cause may be elsewhere. */
static void
looked(struct monitor *m, uint32_t id, const struct sbx_broker_state *q)
{
	(void)snprintf(m->signer_bad, sizeof(m->signer_bad), "%s",
	    q->signer_bad);
	if (id == 0 || id != m->look_id)
		return;
	m->look_id = 0;
	if ((q->changed || q->bad) && m->renew == NULL)
		broker_renew(m, &m->conf);
}

/* --- processes ---------------------------------------------------------------- */

static struct courier *
courier_slot(struct monitor *m, uint8_t proc, uint32_t instance)
{
	for (size_t i = 0; i < SBX_NELEM(m->couriers); i++)
		if (m->couriers[i].instance == instance &&
		    (instance == 0 || m->couriers[i].proc == proc))
			return (&m->couriers[i]);
	return (NULL);
}

void
broker_child_exited(struct monitor *m, uint8_t proc, uint32_t instance)
{
	struct courier *c = instance != 0 ?
	    courier_slot(m, proc, instance) : NULL;

	if (c != NULL)
		memset(c, 0, sizeof(*c));
}

/* The words of the configured command, in the order they stand. */
static void
split(const char *text, struct sbx_strs *ret, struct sbx_buf *b)
{
	char word[SBX_CONF_STR_MAX];
	size_t n;

	sbx_buf_init(b, 8192);
	memset(ret, 0, sizeof(*ret));
	for (text += strspn(text, " \t"); *text != '\0';
	    text += n + strspn(text + n, " \t")) {
		n = strcspn(text, " \t");
		(void)snprintf(word, sizeof(word), "%.*s", (int)n, text);
		if (sbx_strs_add(ret, b, word) != 0)
			return;
	}
}

/*
 * Its channel leads to us for one message and no answer; what it prints goes
 * to the broker.  *ret_fd: the broker's end.
 */
static const char *
start_command(struct monitor *m, int control, int *ret_fd)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	struct sbx_command_start s = {
		.timeout_ms = (uint32_t)m->conf.github_token_timeout * 1000 };
	int pair[2], r;

	split(m->conf.github_token_command, &s.argv, &b);
	if (s.argv.count == 0)
		return ("no github_token_command is configured");
	if (sbx_wire_pair(pair) != 0)
		return ("there is no descriptor left");
	r = sbx_wire_send(control, SBX_PROC_MONITOR, SBX_MSG_COMMAND_START, 0,
	    &s, &pair[1], MSG_DONTWAIT);
	sbx_close(&pair[1]);
	if (r != 0) {
		sbx_close(&pair[0]);
		return ("it cannot be told what to run");
	}
	*ret_fd = pair[0];
	return (NULL);
}

/* NULL and the broker's end of the channel of a new process; or why there is
 * none. */
static const char *
start(struct monitor *m, uint32_t want, uint8_t proc, int *ret_fd)
{
	struct courier *c = courier_slot(m, 0, 0);
	struct sbx_start s = { .proc = proc };
	int SBX_CLEANUP(fd) ours = -1, SBX_CLEANUP(fd) theirs = -1;
	const char *why = NULL;
	int pair[2];

	if (c == NULL)
		return ("there are as many couriers as there may be");
	if (m->starter == NULL || (m->stopping && m->stop_lock_id == 0) ||
	    sbx_wire_pair(pair) != 0)
		return ("nothing can be started now");
	ours = pair[0];
	theirs = pair[1];
	if (proc == SBX_PROC_COMMAND)
		why = start_command(m, ours, ret_fd);
	if (why != NULL)
		return (why);
	s.instance = ++m->next_copy;
	if (sbx_send_start(m->starter, 0, &s, &theirs) != 0) {
		if (proc == SBX_PROC_COMMAND)
			sbx_close(ret_fd);
		return ("nothing can be started now");
	}
	*c = (struct courier){ s.instance, want, proc };
	if (proc == SBX_PROC_COURIER)
		*ret_fd = sbx_steal_fd(&ours);
	return (NULL);
}

/*
 * Safe for a hostile broker: it gets couriers, which are nobody without what it
 * tells them, and the operator's own command, as configured; so many of both.
 */
int
broker_want(struct monitor *m, uint32_t id, uint8_t proc)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);
	int SBX_CLEANUP(fd) fd = -1;
	const char *why;

	if (proc != SBX_PROC_COURIER && proc != SBX_PROC_COMMAND)
		return (SBX_E_RANGE);
	if (p == NULL)
		return (0);
	if ((why = start(m, id, proc, &fd)) != NULL)
		return (sbx_send_broker_no_child(p, id,
		    &(struct sbx_broker_no_child){ .proc = proc,
		    .reason = why }, NULL));
	if (proc == SBX_PROC_COMMAND)
		journal_add(m, &(struct record){ .op = "token_command" },
		    NULL);
	return (sbx_send_broker_child(p, id,
	    &(struct sbx_broker_child){ .proc = proc }, &fd));
}

static void
kill_courier(struct monitor *m, const struct courier *c)
{
	if (m->starter != NULL)
		(void)sbx_send_start_kill(m->starter, 0,
		    &(struct sbx_start_kill){ .proc = c->proc,
		    .instance = c->instance }, NULL);
}

/* Safe for a hostile broker: it ends couriers that it asked for itself.  One
 * that has ended meanwhile is none any more. */
void
broker_kill(struct monitor *m, uint32_t id)
{
	for (size_t i = 0; i < SBX_NELEM(m->couriers); i++)
		if (m->couriers[i].instance != 0 && id != 0 &&
		    m->couriers[i].want == id &&
		    m->couriers[i].proc == SBX_PROC_COURIER)
			kill_courier(m, &m->couriers[i]);
}

/* --- connections ---------------------------------------------------------------- */

static struct dial *
dial_slot(struct monitor *m, uint32_t id)
{
	for (size_t i = 0; i < SBX_NELEM(m->dials); i++)
		if (m->dials[i].id == id)
			return (&m->dials[i]);
	return (NULL);
}

static int
not_dialled(struct monitor *m, uint32_t id, const char *why)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);

	return (p == NULL ? 0 : sbx_send_broker_not_dialled(p, id,
	    &(struct sbx_broker_not_dialled){ .reason = why }, NULL));
}

bool
broker_proxy_dial(struct monitor *m, uint32_t id, const char *host)
{
	struct sbx_peer *proxy = component_peer(m, SBX_PROC_PROXY);

	return (proxy != NULL && sbx_send_proxy_dial(proxy, id,
	    &(struct sbx_proxy_dial){ .host = host, .port = API_PORT },
	    NULL) == 0);
}

/* Safe for a hostile broker: it reaches what mints and revokes its tokens, and
 * nothing else. */
int
broker_dial(struct monitor *m, uint32_t id, const struct sbx_broker_dial *q)
{
	struct dial *d = dial_slot(m, 0);

	if (q->port != API_PORT || !repos_is_api(m, q->host)) {
		log_warn("the broker asked for a host that has no source");
		return (not_dialled(m, id, "that is no host of a source"));
	}
	if (d == NULL)
		return (not_dialled(m, id, "too many are under way"));
	*d = (struct dial){ ++m->next_id, id, sbx_mono_ns() + DIAL_NS };
	if (!broker_proxy_dial(m, d->id, q->host)) {
		memset(d, 0, sizeof(*d));
		return (not_dialled(m, id, "the proxy is not there"));
	}
	tick_arm(m);
	return (0);
}

bool
broker_dialled(struct monitor *m, struct sbx_in *in)
{
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);
	struct dial *d = in->hdr.id != 0 ? dial_slot(m, in->hdr.id) : NULL;
	uint32_t id;

	if (d == NULL)
		return (false);
	id = d->broker_id;
	memset(d, 0, sizeof(*d));
	if (in->hdr.type == SBX_MSG_PROXY_NOT_DIALLED)
		(void)not_dialled(m, id, in->m.proxy_not_dialled.reason);
	else if (p != NULL)
		(void)sbx_send_broker_dialled(p, id,
		    &(struct sbx_broker_dialled){ 0 }, in->fds);
	return (true);
}

/* --- what is shown ------------------------------------------------------------------ */

void
broker_status_ask(struct ctl *c)
{
	struct monitor *m = c->m;
	struct sbx_peer *p = component_peer(m, SBX_PROC_BROKER);

	if (p == NULL) {
		ctl_refuse(c, "suite_degraded", "", "the broker is not there: "
		    "%s", component_why(m, SBX_PROC_BROKER));
		return;
	}
	c->back_id = ++m->next_id;
	c->by_ns = sbx_mono_ns() + 5 * S_NS;
	sbx_peer_set_state(c->peer, CTL_ASKED);
	tick_arm(m);
	(void)sbx_send_broker_status(p, c->back_id,
	    &(struct sbx_broker_status){ 0 }, NULL);
}

/* The last of a long list may be missing: better than no answer. */
static void
add_lines(struct sbx_strs *ret, struct sbx_buf *b, const char *keyword,
    const struct sbx_strs *from)
{
	const char *v = NULL;
	char line[SBX_CONF_LINE_MAX + 32];

	while (ret->count < STATE_LINES &&
	    (v = sbx_strs_next(from, v)) != NULL) {
		(void)snprintf(line, sizeof(line), "%s%s%s", keyword,
		    *keyword != '\0' ? " " : "", v);
		if (sbx_strs_add(ret, b, line) != 0)
			return;
	}
}

/* The broker's own lines, and what it is not told: the lists. */
void
broker_state(struct monitor *m, uint32_t id, const struct sbx_broker_state *q)
{
	const struct sbx_conf_list *w = &m->conf.allowed_repo;
	const struct sbx_conf_list *r = &m->conf.allow_read;
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	struct sbx_ctl_broker_state s = { .lines = { 0 } };
	struct ctl *c = ctl_of_back(m, id);

	looked(m, id, q);
	if (c == NULL)
		return;
	sbx_buf_init(&b, STATE_BYTES);
	add_lines(&s.lines, &b, "", &q->lines);
	add_lines(&s.lines, &b, "allowed_repo", &(const struct sbx_strs){
	    w->data, w->count, w->len });
	add_lines(&s.lines, &b, "allow_read", &(const struct sbx_strs){
	    r->data, r->count, r->len });
	if (w->count + r->count == 0)
		(void)sbx_strs_add(&s.lines, &b, "repositories: none is listed "
		    "(allowed_repo, allow_read)");
	(void)sbx_send_ctl_broker_state(c->peer, c->id, &s, NULL);
	ctl_over(c);
}

/* --- ends ---------------------------------------------------------------------------- */

/* Its couriers end with their channels, which are its alone, but for those that
 * hang; and the ids of the next one begin anew. */
void
broker_lost(struct monitor *m)
{
	struct courier *c;

	for (size_t i = 0; i < SBX_NELEM(m->couriers); i++) {
		c = &m->couriers[i];
		if (c->instance != 0 && c->proc == SBX_PROC_COURIER)
			kill_courier(m, c);
		c->want = 0;
	}
	memset(m->dials, 0, sizeof(m->dials));
	m->look_id = 0;
	if (m->renew != NULL)
		take_sources(m);
	publish_broker_lost(m);	/* first: it has a word for it */
	grant_broker_lost(m);
	exchange_broker_lost(m);
	api_broker_lost(m);
	lockdown_broker_lost(m);
}

void
broker_proxy_lost(struct monitor *m)
{
	struct dial *d;

	for (size_t i = 0; i < SBX_NELEM(m->dials); i++) {
		d = &m->dials[i];
		if (d->id != 0)
			(void)not_dialled(m, d->broker_id,
			    "the proxy is being restarted");
		memset(d, 0, sizeof(*d));
	}
	exchange_proxy_lost(m);
	api_proxy_lost(m);
}

void
broker_tick(struct monitor *m, uint64_t now_ns)
{
	struct dial *d;

	if (m->renew_id != 0) {
		tick_arm(m);
		if (now_ns >= m->renew_by_ns)
			renew(m);
	}
	for (size_t i = 0; i < SBX_NELEM(m->dials); i++) {
		d = &m->dials[i];
		if (d->id == 0)
			continue;
		tick_arm(m);
		if (now_ns < d->by_ns)
			continue;
		(void)not_dialled(m, d->broker_id, "the proxy did not answer "
		    "in time");
		memset(d, 0, sizeof(*d));
	}
}
