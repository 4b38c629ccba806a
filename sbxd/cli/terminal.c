/*
 * Nothing here trusts the other end: who holds the sandbox can make the master
 * side block, hang up, flood or never read.  So each read and write has a
 * timer that interrupts it, input is read also when it cannot be passed on,
 * and what is printed waits for nobody but the caller's own terminal.
 */
#include "sbxd/cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <termios.h>
#include <unistd.h>

#define CHUNK 16384
#define GUARD_US 200000		/* a call that should not block lasts no longer */
#define QUIET_MS 100		/* after the end: nothing more is printed */
#define HUNG_MS 200		/* then it is looked whether somebody is back */
#define AFTER_END (256u << 10)	/* printed after the end, at most */
#define EOF_MS 250		/* first repetition of the end of input */
#define EOF_TRIES 6
#define MS_NS UINT64_C(1000000)
#define CTRL_Z '\032'

/* Where the caller is in what he types. */
enum typed { TYPED_LINE_START, TYPED_TEXT, TYPED_TILDE };

struct terminal {
	struct sbx_chan *ctl;
	struct terminal_end *end;
	int master, sig;
	bool tty, raw;			/* standard input is a terminal */
	struct termios saved;
	enum typed typed;
	char in[CHUNK], out[CHUNK];	/* on the way in, on the way out */
	size_t in_len, out_len;
	bool in_eof, over, done, lost;
	char last;			/* byte of the input */
	uint64_t hung_ns;		/* until then nothing is read; 0: is */
	uint64_t eof_ns;		/* when it is said next */
	unsigned eofs;			/* how often it was said */
	size_t budget;			/* bytes after the end */
};

/* --- the caller's terminal ------------------------------------------------- */

static int
size_of_caller(struct winsize *ws)
{
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, ws) == 0 ||
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, ws) == 0)
		return (0);
	return (SBX_E_NOENT);
}

void
terminal_size(uint32_t *ret_rows, uint32_t *ret_cols)
{
	struct winsize ws = { .ws_row = 24, .ws_col = 80 };

	(void)size_of_caller(&ws);
	*ret_rows = ws.ws_row;
	*ret_cols = ws.ws_col;
}

static void
resize(struct terminal *t)
{
	struct winsize ws;

	/* the kernel sends SIGWINCH to what is in the foreground there */
	if (size_of_caller(&ws) == 0)
		(void)ioctl(t->master, TIOCSWINSZ, &ws);
}

/* In the background it is somebody else's, and left as it is.  No signal comes
 * when a process that runs is put into the foreground. */
static void
raw_begin(struct terminal *t)
{
	struct termios r = t->saved;

	if (!t->tty || tcgetpgrp(STDIN_FILENO) != getpgrp())
		return;
	cfmakeraw(&r);
	t->raw = tcsetattr(STDIN_FILENO, TCSANOW, &r) == 0;
}

/* SIGTTOU is ignored: a process in the background restores it as well.  Not
 * TCSADRAIN, which would wait for a terminal that takes nothing. */
static void
raw_end(struct terminal *t)
{
	if (t->raw)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &t->saved);
	t->raw = false;
}

/* --- calls that must not block ----------------------------------------------- */

static void
on_alarm(int sig)
{
	(void)sig;	/* it interrupts, that is all */
}

/*
 * O_NONBLOCK of the master can be taken back by who has a copy of it, and that
 * of the caller's terminal belongs to his shell, too.  A repeating timer ends
 * a call also when the first one came too early.
 */
static void
guard(bool on)
{
	const struct itimerval it = {
		.it_value.tv_usec = on ? GUARD_US : 0,
		.it_interval.tv_usec = on ? GUARD_US : 0 };

	(void)setitimer(ITIMER_REAL, &it, NULL);
}

static ssize_t
guarded_read(int fd, void *buf, size_t n)
{
	ssize_t r;

	guard(true);
	r = read(fd, buf, n);
	guard(false);
	return (r);
}

static ssize_t
guarded_write(int fd, const void *buf, size_t n)
{
	ssize_t r;

	guard(true);
	r = write(fd, buf, n);
	guard(false);
	return (r);
}

static bool
only_later(void)
{
	return (errno == EAGAIN || errno == EINTR);
}

/* --- signals --------------------------------------------------------------- */

/* Stopped like any program, with the terminal given back. */
static void
suspend(struct terminal *t)
{
	sigset_t set;

	raw_end(t);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTSTP);
	(void)kill(getpid(), SIGTSTP);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	raw_begin(t);
	resize(t);
}

static void
take_signal(struct terminal *t)
{
	struct signalfd_siginfo si;

	if (read(t->sig, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return;
	switch (si.ssi_signo) {
	case SIGWINCH:
		resize(t);
		break;
	case SIGTSTP:
		suspend(t);
		break;
	case SIGCONT:
		raw_begin(t);
		resize(t);
		break;
	default:
		t->end->signal = (int)si.ssi_signo;
		t->done = true;
		break;
	}
}

/* All that would end us with the terminal raw comes by a descriptor. */
static int
signals_begin(struct terminal *t, sigset_t *ret_old)
{
	static const int sigs[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP,
		SIGCONT, SIGWINCH };
	const struct sigaction alarm = { .sa_handler = on_alarm };
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < SBX_NELEM(sigs); i++)
		(void)sigaddset(&set, sigs[i]);
	if (sigaction(SIGALRM, &alarm, NULL) == -1 ||
	    sigaction(SIGTTOU, &ignore, NULL) == -1 ||
	    sigprocmask(SIG_BLOCK, &set, ret_old) == -1)
		return (SBX_E_SYS);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGALRM);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	for (size_t i = 0; i < SBX_NELEM(sigs); i++)
		(void)sigaddset(&set, sigs[i]);
	(void)sigdelset(&set, SIGALRM);
	t->sig = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return (t->sig == -1 ? SBX_E_SYS : 0);
}

/* --- in ---------------------------------------------------------------------- */

static void
help(void)
{
	static const char text[] = "~?\r\n"
	    "~.   end the shell and what runs in it\r\n"
	    "~^Z  suspend sbx\r\n"
	    "~~   a tilde\r\n"
	    "~?   this\r\n"
	    "(only at the beginning of a line)\r\n";

	(void)guarded_write(STDERR_FILENO, text, sizeof(text) - 1);
}

/* What has no room is lost, as with any terminal that is typed ahead on. */
static void
type(struct terminal *t, char c)
{
	if (t->in_len < sizeof(t->in))
		t->in[t->in_len++] = c;
	t->typed = c == '\r' || c == '\n' ? TYPED_LINE_START : TYPED_TEXT;
}

/* The byte after a tilde at the beginning of a line. */
static void
escape(struct terminal *t, char c)
{
	t->typed = TYPED_LINE_START;
	switch (c) {
	case '.':
		t->end->quit = t->done = true;
		break;
	case CTRL_Z:
		suspend(t);
		break;
	case '?':
		help();
		break;
	default:
		type(t, '~');
		if (c != '~')
			type(t, c);
		break;
	}
}

/* A terminal is always read, for the escape's sake; a pipe can wait. */
static void
take_input(struct terminal *t)
{
	char buf[1024];
	size_t room = sizeof(t->in) - t->in_len;
	size_t want = t->tty || room > sizeof(buf) ? sizeof(buf) : room;
	ssize_t n = guarded_read(STDIN_FILENO, buf, want);

	if (n == -1 && only_later())
		return;
	if (n <= 0) {
		/* a terminal has no end: it was hung up */
		if (t->tty) {
			t->end->signal = SIGHUP;
			t->done = true;
		}
		t->in_eof = true;
		t->eof_ns = sbx_mono_ns();
		return;
	}
	if (!t->tty) {
		memcpy(t->in + t->in_len, buf, (size_t)n);
		t->in_len += (size_t)n;
		t->last = buf[n - 1];
		return;
	}
	for (ssize_t i = 0; i < n && !t->done; i++)
		if (t->typed == TYPED_TILDE)
			escape(t, buf[i]);
		else if (t->typed == TYPED_LINE_START && buf[i] == '~')
			t->typed = TYPED_TILDE;
		else
			type(t, buf[i]);
}

static void
pass_input(struct terminal *t)
{
	ssize_t n = guarded_write(t->master, t->in, t->in_len);

	if (n <= 0)
		return;		/* a hang-up is seen when reading */
	t->in_len -= (size_t)n;
	memmove(t->in, t->in + n, t->in_len);
}

/*
 * The end of a pipe, in the way of a terminal.  A program that changes the
 * modes just then loses it (termios(3), VEOF), so it is said a few times.
 */
static void
pass_eof(struct terminal *t)
{
	struct termios m = { .c_lflag = ICANON, .c_cc[VEOF] = 004 };
	char end[3];
	size_t n = 0;

	if (t->eofs == EOF_TRIES || sbx_mono_ns() < t->eof_ns)
		return;
	(void)tcgetattr(t->master, &m);
	/* on a line of its own; what is not one yet is ended first */
	if (t->eofs == 0 && t->last != '\n' && t->last != '\0')
		end[n++] = (m.c_lflag & ICANON) != 0 ? (char)m.c_cc[VEOF] :
		    '\r';
	end[n++] = (char)m.c_cc[VEOF];
	(void)guarded_write(t->master, end, n);
	t->eof_ns = sbx_mono_ns() + ((EOF_MS * MS_NS) << t->eofs);
	t->eofs++;
}

/* --- out --------------------------------------------------------------------- */

static void
take_output(struct terminal *t)
{
	ssize_t n = guarded_read(t->master, t->out, sizeof(t->out));

	if (n == -1 && only_later())
		return;
	if (n <= 0) {
		/* nobody has it open; somebody may again */
		if (t->over)
			t->done = true;
		t->hung_ns = sbx_mono_ns() + HUNG_MS * MS_NS;
		return;
	}
	t->out_len = (size_t)n;
	if (!t->over)
		return;
	/* what descendants go on printing is not waited for */
	if ((size_t)n > t->budget)
		t->done = true;
	else
		t->budget -= (size_t)n;
}

static void
pass_output(struct terminal *t)
{
	ssize_t n = guarded_write(STDOUT_FILENO, t->out, t->out_len);

	if (n > 0) {
		t->out_len -= (size_t)n;
		memmove(t->out, t->out + n, t->out_len);
	} else if (n == -1 && !only_later()) {
		t->end->signal = errno == EPIPE ? SIGPIPE : SIGHUP;
		t->done = true;
	}
}

/* --- the suite --------------------------------------------------------------- */

static void
take_message(struct terminal *t)
{
	const struct sbx_shell_ended *q;

	if (sbx_chan_recv(t->ctl, 0) != 0 ||
	    t->ctl->in->hdr.type != SBX_MSG_SHELL_ENDED) {
		t->lost = t->done = true;
		return;
	}
	q = &t->ctl->in->m.shell_ended;
	t->end->by_suite = true;
	t->end->status = q->status;
	t->end->why = q->why;
	(void)sbx_strlcpy(t->end->reason, q->reason, sizeof(t->end->reason));
	/* not sent: what is left there is killed, as after a hang-up */
	(void)sbx_chan_send(t->ctl, SBX_MSG_SHELL_DONE, 0,
	    &(struct sbx_shell_done){ 0 }, NULL, 0);
	t->over = true;
	t->hung_ns = 0;		/* it is read once more, to its end */
	t->budget = AFTER_END;
}

/* --- the loop ---------------------------------------------------------------- */

enum { FD_CTL, FD_SIG, FD_IN, FD_MASTER, FD_OUT, FD_MAX };

static int
wait_ms(const struct terminal *t)
{
	if (t->over)
		return (t->out_len > 0 ? -1 : QUIET_MS);
	if (t->hung_ns != 0 || (t->tty && !t->raw))
		return (HUNG_MS);
	return (t->in_eof && t->eofs < EOF_TRIES ? EOF_MS : -1);
}

static void
poll_set(struct terminal *t, struct pollfd *pfd)
{
	bool input = !t->in_eof && !t->over &&
	    (t->tty || t->in_len < sizeof(t->in));
	short master = 0;

	if (t->hung_ns != 0 && sbx_mono_ns() >= t->hung_ns)
		t->hung_ns = 0;
	if (t->out_len == 0)
		master |= POLLIN;
	if (t->in_len > 0 && !t->over)
		master |= POLLOUT;
	pfd[FD_CTL] = (struct pollfd){ t->over ? -1 : t->ctl->fd, POLLIN, 0 };
	pfd[FD_SIG] = (struct pollfd){ t->sig, POLLIN, 0 };
	pfd[FD_IN] = (struct pollfd){ input ? STDIN_FILENO : -1, POLLIN, 0 };
	/* without an event asked for, a hang-up would be told all the time */
	pfd[FD_MASTER] = (struct pollfd){ master == 0 || t->hung_ns != 0 ? -1 :
	    t->master, master, 0 };
	pfd[FD_OUT] = (struct pollfd){ t->out_len > 0 ? STDOUT_FILENO : -1,
		POLLOUT, 0 };
}

static void
turn(struct terminal *t)
{
	struct pollfd pfd[FD_MAX];
	int n;

	poll_set(t, pfd);
	n = poll(pfd, FD_MAX, wait_ms(t));
	if (!t->raw)
		raw_begin(t);
	if (n == 0 && t->over && t->out_len == 0)
		t->done = true;		/* it is quiet */
	if (n > 0 && pfd[FD_SIG].revents != 0)
		take_signal(t);
	if (n > 0 && pfd[FD_IN].revents != 0 && !t->done)
		take_input(t);
	if (n > 0 && pfd[FD_OUT].revents != 0 && !t->done)
		pass_output(t);
	if (n > 0 && (pfd[FD_MASTER].revents & POLLOUT) != 0 && !t->done)
		pass_input(t);
	if (n > 0 && (pfd[FD_MASTER].revents & ~POLLOUT) != 0 &&
	    t->out_len == 0 && !t->done)
		take_output(t);
	if (n > 0 && pfd[FD_CTL].revents != 0 && !t->done)
		take_message(t);
	if (t->in_eof && t->in_len == 0 && !t->over && !t->done)
		pass_eof(t);
}

/* Without a terminal here, what is typed must not be printed back. */
static void
echo_off(int master)
{
	struct termios m;

	if (tcgetattr(master, &m) == -1)
		return;
	m.c_lflag &= ~(tcflag_t)ECHO;
	(void)tcsetattr(master, TCSANOW, &m);
}

void
terminal_say(const char *fmt, ...)
{
	char text[320];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n > 0)	/* a terminal that is stuck has not room for it */
		(void)guarded_write(STDERR_FILENO, text,
		    (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

int
terminal_run(struct sbx_chan *ctl, int master, struct terminal_end *ret_end,
    struct sbx_err *err)
{
	static struct terminal t;
	int flags = fcntl(master, F_GETFL);
	sigset_t old;

	*ret_end = (struct terminal_end){ 0 };
	t = (struct terminal){ .ctl = ctl, .end = ret_end, .master = master,
		.sig = -1 };
	t.tty = tcgetattr(STDIN_FILENO, &t.saved) == 0;
	if (flags == -1 || fcntl(master, F_SETFL, flags | O_NONBLOCK) == -1)
		return (sbx_err_sys(err, "fcntl of the terminal"));
	if (signals_begin(&t, &old) != 0)
		return (sbx_err_sys(err, "signals"));
	if (!t.tty)
		echo_off(master);
	raw_begin(&t);
	while (!t.done)
		turn(&t);
	/* what came last is not thrown away; once, it may not be taken */
	if (t.out_len > 0 && t.end->signal == 0)
		pass_output(&t);
	raw_end(&t);
	sbx_close(&t.sig);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	return (t.lost ? SBX_E_CLOSED : 0);
}
