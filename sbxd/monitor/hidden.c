#include "sbxd/monitor/monitor.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/*
 * Sandboxes that nobody can name, as verifications and publications have them:
 * files of a work sandbox go there through a judge of their own, and fixed
 * scripts run there, of which no worker chooses a word.
 */

/* --- judges ------------------------------------------------------------------- */

static void
judge_ended(struct sbx_peer *p, int error)
{
	struct monitor *m = sbx_peer_ctx(p);
	struct gate *g = gate_of_peer(m, p);
	struct publish *b = publish_of_peer(m, p);

	if (error != SBX_E_CLOSED)
		log_warn("judge: channel closed: %s", sbx_error_name(error));
	if (g != NULL)
		gate_judge_ended(g);
	if (b != NULL)
		publish_judge_ended(b);
}

int
judge_begin(struct monitor *m, struct judge *j)
{
	int pair[2], r;

	if (m->starter == NULL || (r = sbx_wire_pair(pair)) != 0)
		return (SBX_E_SYS);
	r = sbx_send_start(m->starter, 0, &(struct sbx_start){
	    .proc = SBX_PROC_JUDGE, .instance = j->instance = ++m->next_copy },
	    &pair[1]);
	sbx_close(&pair[1]);
	j->peer = sbx_peer_new(m->base, pair[0], &monitor_from_judge, m,
	    judge_ended);
	return (r);
}

/* Killed: what it reads may make it take its time, and those that linger would
 * fill the starter's table. */
void
judge_kill(struct monitor *m, struct judge *j)
{
	struct sbx_peer *peer = j->peer;

	j->peer = NULL;
	if (j->instance != 0 && m->starter != NULL)
		(void)sbx_send_start_kill(m->starter, 0,
		    &(struct sbx_start_kill){ .proc = SBX_PROC_JUDGE,
		    .instance = j->instance }, NULL);
	j->instance = 0;
	if (peer != NULL)
		sbx_peer_end_later(peer, SBX_E_CLOSED);
}

/* --- files -------------------------------------------------------------------- */

static int
judge_files(const struct crossing *c, const int fds[2])
{
	if (c->publish)
		return (sbx_send_judge_files(c->judge->peer, 0,
		    &(struct sbx_judge_files){ 0 }, fds));
	return (sbx_send_judge_tree(c->judge->peer, 0,
	    &(struct sbx_judge_tree){ 0 }, fds));
}

int
hidden_cross(struct monitor *m, const struct crossing *c, uint32_t *ret_pack,
    uint32_t *ret_unpack)
{
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);
	const struct sbx_engine_unpack unpack = { .container = c->to,
		.mode = SBX_COPY_LIST, .dest = c->dest };
	int SBX_CLEANUP(fd) r1 = -1, SBX_CLEANUP(fd) w1 = -1;
	int SBX_CLEANUP(fd) r2 = -1, SBX_CLEANUP(fd) w2 = -1;
	int a[2], b[2], r;

	if (engine == NULL || c->judge->peer == NULL)
		return (SBX_E_CLOSED);
	if (pipe2(a, O_CLOEXEC) == -1)
		return (SBX_E_SYS);
	r1 = a[0];
	w1 = a[1];
	if (pipe2(b, O_CLOEXEC) == -1)
		return (SBX_E_SYS);
	r2 = b[0];
	w2 = b[1];
	*ret_pack = ++m->next_id;
	*ret_unpack = ++m->next_id;
	r = judge_files(c, (int[]){ r1, w2 });
	if (r == 0)
		r = sbx_send_engine_file(engine, *ret_pack, c->pack,
		    (int[]){ c->list_fd, w1 });
	if (r == 0)
		r = sbx_send_engine_unpack(engine, *ret_unpack, &unpack, &r2);
	return (r);
}

/* --- scripts ------------------------------------------------------------------ */

static int
send_exec(struct monitor *m, const struct sandbox *sb, const struct script *s,
    const char *run)
{
	struct sbx_peer *engine = component_peer(m, SBX_PROC_ENGINE);
	struct sbx_engine_exec msg = { .container = sb->id, .run = run,
		.cwd = "/workspace" };
	const char *const shell[] = { "bash", "-c", s->text };
	struct sbx_buf SBX_CLEANUP_BUF argv = { 0 }, SBX_CLEANUP_BUF env = { 0 };
	int SBX_CLEANUP(fd) in = -1;
	int r = sbx_memfd_sealed("stdin", s->input, s->ninput, &in);

	if (engine == NULL)
		return (SBX_E_CLOSED);
	sbx_buf_init(&argv, 32768);
	for (size_t i = 0; r == 0 && i < SBX_NELEM(shell); i++)
		r = sbx_strs_add(&msg.argv, &argv, shell[i]);
	for (size_t i = 0; r == 0 && i < s->nargs; i++)
		r = sbx_strs_add(&msg.argv, &argv, s->args[i]);
	msg.argv.data = argv.data;
	if (r == 0)
		r = egress_env(sb, NULL, &msg.env, &env);
	return (r != 0 ? r : sbx_send_engine_exec(engine, ++m->next_id, &msg,
	    &in));
}

const char *
hidden_run(struct monitor *m, struct sandbox *sb, const struct script *s,
    char ret_run[SBX_RUN_HEX + 1])
{
	struct run *r;

	if (sb == NULL || (r = run_new(m, sb->who, sb->id, s->tool)) == NULL)
		return ("the suite has no room for another run now");
	r->background = true;
	r->timeout_ms = s->timeout_ms;
	memcpy(ret_run, r->id, sizeof(r->id));
	journal_add(m, &(struct record){ .op = "exec", .phase = "start",
	    .who = r->who, .container = r->container, .run = r->id }, "tool",
	    r->tool, "argv", s->shown, NULL);
	sb->live_runs++;
	if (send_exec(m, sb, s, r->id) == 0)
		return (NULL);
	run_free(m, r);
	sb->live_runs--;
	return ("the engine did not take what is to run");
}

uint32_t
hidden_read(struct monitor *m, const char *run)
{
	struct sbx_peer *rec = component_peer(m, SBX_PROC_RECORDER);

	if (rec == NULL)
		return (0);
	(void)sbx_send_run_read(rec, ++m->next_id, &(struct sbx_run_read){
	    .run = run, .stream = SBX_STREAM_OUT }, NULL);
	return (m->next_id);
}

/* The oldest that ended makes room: an own one, where there are several. */
size_t
hidden_place(const struct hidden_place *v, size_t n,
    const struct principal *who)
{
	size_t unused = n, old = n, own_old = n;
	unsigned all = 0, own = 0, own_kept = 0;

	for (size_t i = 0; i < n; i++) {
		bool mine = v[i].who == who;

		if (v[i].who == NULL) {
			unused = i;
			continue;
		}
		own_kept += mine;
		if (v[i].ended_ns == 0) {
			all++;
			own += mine;
			continue;
		}
		if (old == n || v[i].ended_ns < v[old].ended_ns)
			old = i;
		if (mine && (own_old == n ||
		    v[i].ended_ns < v[own_old].ended_ns))
			own_old = i;
	}
	if (all >= HIDDEN_RUNNING || own >= HIDDEN_RUNNING_OWN)
		return (n);
	if (unused != n)
		return (unused);
	return (own_kept >= HIDDEN_KEPT_OWN && own_old != n ? own_old : old);
}
