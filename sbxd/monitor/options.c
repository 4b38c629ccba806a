#include "sbxd/monitor/monitor.h"

#include "common/base/paths.h"
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Settings: command line, then SBX_*, then sbx.conf, then the default. */

enum { OPT_COPY_ROOT = 256, OPT_HELP, OPT_HOST, OPT_PORT, OPT_PROFILE, OPT_TRANSPORT };

static const struct option long_options[] = {
	{ "copy-root", required_argument, NULL, OPT_COPY_ROOT },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "host", required_argument, NULL, OPT_HOST },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "profile", required_argument, NULL, OPT_PROFILE },
	{ "transport", required_argument, NULL, OPT_TRANSPORT },
	{ NULL, 0, NULL, 0 }
};
static const struct {
	int opt;
	const char *where, *name;
} settings[] = {
	{ OPT_COPY_ROOT, "--copy-root", "copy_root" },
	{ OPT_HOST, "--host", "host" },
	{ OPT_PORT, "--port", "port" },
	{ OPT_PROFILE, "--profile", "profile" },
	{ OPT_TRANSPORT, "--transport", "transport" },
};

static int
usage(FILE *out)
{
	(void)fprintf(out, "usage: sbxd [-dnTvV] [-f file] [-S slot] "
	    "[--transport stdio|unix|http]\n            [--host address] "
	    "[--port port] [--profile profile]\n            "
	    "[--copy-root directory]\n");
	return (out == stdout ? 0 : 1);
}

/* What a relative --copy-root means is decided here, once. */
static int
set_option(struct monitor *m, const char *where, const char *name,
    const char *value, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *whole = NULL;
	char cwd[SBX_CONF_PATH_MAX];

	if (strcmp(name, "copy_root") == 0 && value[0] != '/') {
		if (getcwd(cwd, sizeof(cwd)) == NULL)
			return (sbx_err_sys(err, "the working directory"));
		whole = sbx_xasprintf("%s/%s", cwd, value);
		value = whole;
	}
	return (sbx_conf_set(&m->conf, where, name, value, SBX_CONF_FROM_ARGS,
	    err));
}

/* The settings that have an option; each is checked as in the file. */
static int
take_long(struct monitor *m, int opt, const char *value, struct sbx_err *err)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(settings); i++)
		if (settings[i].opt == opt)
			return (set_option(m, settings[i].where,
			    settings[i].name, value, err));
	return (sbx_err_set(err, SBX_E_SYNTAX, "unknown option"));
}

struct flags {
	const char *file;
	bool check, dump, slot_set;
	unsigned verbose;
};

/* -1: go on; else the exit code */
static int
take_options(struct monitor *m, int argc, char **argv, struct flags *f,
    struct sbx_err *err)
{
	uint64_t slot;
	int opt;

	while ((opt = getopt_long(argc, argv, "df:nS:TvV", long_options,
	    NULL)) != -1) {
		switch (opt) {
		case 'd': m->debug++; break;
		case 'f': f->file = optarg; break;
		case 'n': f->check = true; break;
		case 'T': f->dump = true; break;
		case 'v': f->verbose++; break;
		case 'V':
			(void)printf("sbxd %s\n", PACKAGE_VERSION);
			return (0);
		case 'S':
			if (sbx_parse_u64(optarg, 0, SBX_MAX_SLOTS - 1,
			    &slot) != 0) {
				(void)sbx_err_set(err, SBX_E_RANGE,
				    "-S: the slot must be 0..%u",
				    SBX_MAX_SLOTS - 1);
				return (1);
			}
			m->slot = (unsigned)slot;
			f->slot_set = true;
			break;
		case OPT_HELP:
			return (usage(stdout));
		case '?':
			return (usage(stderr));
		default:
			if (take_long(m, opt, optarg, err) != 0)
				return (1);
		}
	}
	return (optind < argc ? usage(stderr) : -1);
}

/* dir -1, or no such file: nothing.  text: SBX_CONF_FILE_MAX + 1 bytes. */
static int
read_text(struct monitor *m, char *text, size_t *ret_n, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) fd = -1;
	struct stat st;
	size_t n = 0;
	ssize_t got;

	*ret_n = 0;
	if (m->dir_conf == -1)
		return (0);
	fd = openat(m->dir_conf, m->conf_name, O_RDONLY | O_CLOEXEC |
	    O_NONBLOCK | O_NOCTTY);
	if (fd == -1 && errno == ENOENT && !m->conf_named)
		return (0);
	if (fd == -1 || fstat(fd, &st) == -1)
		return (sbx_err_sys(err, "%.128s", m->conf_path));
	if (!S_ISREG(st.st_mode))
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "%.128s: not a regular file", m->conf_path));
	/* one byte more than permitted, so that the parser can refuse it */
	while ((got = read(fd, text + n, SBX_CONF_FILE_MAX + 1 - n)) > 0)
		n += (size_t)got;
	if (got == -1)
		return (sbx_err_sys(err, "%.128s", m->conf_path));
	*ret_n = n;
	return (0);
}

static int
read_file(struct monitor *m, struct sbx_conf *c, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *text = sbx_xcalloc(1, SBX_CONF_FILE_MAX + 1);
	size_t n;
	int r = read_text(m, text, &n, err);

	return (r != 0 || n == 0 ? r :
	    sbx_conf_parse(c, m->conf_path, text, n, err));
}

/* How much of n bytes of a value, at most SAID of it, the sentence has. */
#define SAID 60
static size_t
part_said(const char *p, size_t n, const char *sentence)
{
	char value[SAID + 1];

	while (n > 0 && strchr(" \t\"", *p) != NULL) {
		p++;
		n--;
	}
	n = n > SAID ? SAID : n;
	while (n > 0 && strchr(" \t\r", p[n - 1]) != NULL)
		n--;
	memcpy(value, p, n);
	value[n] = '\0';
	return (n > 0 && strstr(sentence, value) != NULL ? n : 0);
}

/* The same of a line: of its whole value, or of one entry between commas. */
static size_t
said(const char *line, size_t len, const char *sentence)
{
	size_t at = strcspn(line, " \t"), best, k, n;
	const char *end;

	if (at >= len || line[0] == '#')
		return (0);
	at += strspn(line + at, " \t\"");
	end = at < len ? line + at : line + len;
	end += strcspn(end, "#\"\n");
	best = part_said(line + at, (size_t)(end - line) - at, sentence);
	for (; line + at < end; at += n + 1) {
		n = strcspn(line + at, ",#\"\n");
		k = part_said(line + at, n, sentence);
		best = k > best ? k : best;
	}
	return (best);
}

/* The setting that the sentence begins with, or NULL. */
static const struct sbx_conf_row *
named(const char *sentence)
{
	const size_t n = strcspn(sentence, " ");

	for (size_t i = 0; i < SBX_CONF_K_MAX; i++)
		if (strlen(sbx_conf_rows[i].name) == n &&
		    strncmp(sbx_conf_rows[i].name, sentence, n) == 0)
			return (&sbx_conf_rows[i]);
	return (NULL);
}

static bool
is_of(const char *line, const struct sbx_conf_row *row)
{
	const size_t n = strlen(row->name);

	return (strncmp(line, row->name, n) == 0 &&
	    strchr(" \t", line[n]) != NULL);
}

/*
 * What is wrong with the settings together names a value and no line: it is the
 * line that has most of it, or else that of the setting.
 */
void
options_place(struct monitor *m, const struct sbx_conf *c,
    struct sbx_err *err)
{
	char SBX_CLEANUP(free) *text = sbx_xcalloc(1, SBX_CONF_FILE_MAX + 2);
	char SBX_CLEANUP(free) *was = sbx_xstrdup(err->msg);
	const struct sbx_conf_row *row = named(was);
	unsigned line = 0, found = 0;
	size_t n, len, k, best = 0;
	const char *p;

	if (read_text(m, text, &n, NULL) != 0 || n == 0 || (row != NULL &&
	    c->source[row - sbx_conf_rows] != SBX_CONF_FROM_FILE))
		return;
	for (p = text; *p != '\0'; p += len + (p[len] == '\n')) {
		line++;
		p += strspn(p, " \t");
		len = strcspn(p, "\n");
		if (row != NULL && !is_of(p, row))
			continue;
		k = said(p, len, was);
		if (k > best || (row != NULL && found == 0)) {
			best = k;
			found = line;
		}
	}
	if (found > 0)
		(void)sbx_err_set(err, err->code, "%.80s:%u: %.160s",
		    m->conf_path, found, was);
}

/* --- what a run would find missing ------------------------------------------------- */

/* That of a source belongs to the broker, whose user alone may read it. */
static int
check_file(const char *keyword, const char *file, bool secret,
    struct sbx_err *err)
{
	struct stat st;

	if (stat(file, &st) == -1) {
		if (errno != EACCES)
			return (sbx_err_sys(err, "%s %.160s", keyword, file));
		fprintf(stderr, "sbxd: %s %s: this user cannot look at it\n",
		    keyword, file);
		return (0);
	}
	if (!S_ISREG(st.st_mode))
		return (sbx_err_set(err, SBX_E_SYNTAX, "%s %.160s: it is no "
		    "file", keyword, file));
	if (secret && (st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
		return (sbx_err_set(err, SBX_E_POLICY, "%s %.120s: its mode is "
		    "%04o, others could read it: chmod 0600", keyword, file,
		    (unsigned)(st.st_mode & 07777)));
	return (0);
}

static int
check_files(const char *keyword, const struct sbx_conf_list *l,
    struct sbx_err *err)
{
	const struct sbx_strs s = { l->data, l->count, l->len };
	const char *v = NULL, *file;
	int r = 0;

	while (r == 0 && (v = sbx_strs_next(&s, v)) != NULL) {
		file = strrchr(v, ' ') != NULL ? strrchr(v, ' ') + 1 : v;
		if (*file == '/')	/* else it is systemd's to bring */
			r = check_file(keyword, file, true, err);
	}
	return (r);
}

static int
check_all_files(const struct sbx_conf *c, struct sbx_err *err)
{
	int r = c->upstream_ca[0] == '\0' ? 0 : check_file("upstream_ca",
	    c->upstream_ca, false, err);

	if (r == 0)
		r = check_files("github_app", &c->github_app, err);
	return (r != 0 ? r : check_files("github_token_file",
	    &c->github_token_file, err));
}

/* file NULL: the usual one, which need not be there, nor its directory. */
static int
find_file(struct monitor *m, const char *file, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *dir = NULL;
	char *slash;

	m->conf_named = file != NULL;
	m->conf_path = file != NULL ? sbx_xstrdup(file) :
	    sbx_xasprintf("%s/sbx.conf", m->paths.etc);
	dir = sbx_xstrdup(m->conf_path);
	slash = strrchr(dir, '/');
	m->conf_name = m->conf_path + (slash != NULL ? slash + 1 - dir : 0);
	if (slash != NULL)
		*slash = '\0';
	m->dir_conf = open(slash == NULL ? "." : dir[0] == '\0' ? "/" : dir,
	    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (m->dir_conf == -1 && (m->conf_named || errno != ENOENT))
		return (sbx_err_sys(err, "%.128s", m->conf_path));
	return (0);
}

int
options_reread(struct monitor *m, struct sbx_conf *c, struct sbx_err *err)
{
	int r;

	sbx_conf_init(c);
	if ((r = sbx_conf_env(c, getenv, err)) != 0)
		return (r);
	return (read_file(m, c, err));
}

/* log_level, raised by -v and -d. */
static void
set_log_level(struct monitor *m, const struct flags *f)
{
	static const char *const words[SBX_LOG_MAX] = { "err", "warn",
		"notice", "info", "debug" };
	enum sbx_log_level level = SBX_LOG_NOTICE;
	int i;

	for (i = 0; i < SBX_LOG_MAX; i++)
		if (strcmp(words[i], m->conf.log_level) == 0)
			level = (enum sbx_log_level)i;
	if (f->verbose > 0 && level < SBX_LOG_INFO)
		level = SBX_LOG_INFO;
	if (m->debug > 0)
		level = SBX_LOG_DEBUG;
	sbx_log_init("sbxd", level);
}

static int
dump(const struct monitor *m)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };

	sbx_buf_init(&b, 1u << 20);
	if (sbx_conf_dump(&m->conf, &b) != 0 || sbx_write_all(STDOUT_FILENO,
	    b.data, b.len) != 0)
		return (2);
	return (0);
}

static int
fail(const struct sbx_err *err)
{
	if (err->msg[0] != '\0')
		(void)fprintf(stderr, "sbxd: %s\n", err->msg);
	return (1);
}

/*
 * Everything that comes from outside before anything is opened.
 * -1: go on; else the exit code, with the sentence on stderr.
 */
int
setup_options(struct monitor *m, int argc, char **argv,
    char *(*env)(const char *))
{
	struct flags f = { 0 };
	struct sbx_err err = { 0 };
	bool public;
	int r;

	sbx_conf_init(&m->conf);
	if ((r = take_options(m, argc, argv, &f, &err)) >= 0)
		return (r == 0 ? 0 : fail(&err));
	if (sbx_paths_get(geteuid(), env, &m->paths, &err) != 0 ||
	    sbx_conf_env(&m->conf, env, &err) != 0 ||
	    find_file(m, f.file, &err) != 0 ||
	    read_file(m, &m->conf, &err) != 0)
		return (fail(&err));
	if (f.dump)
		return (dump(m));
	if (sbx_conf_check(&m->conf, &err) != 0 ||
	    egress_check(&m->conf, &err) != 0 ||
	    publish_check(&m->conf, &err) != 0) {
		options_place(m, &m->conf, &err);
		return (fail(&err));
	}
	if (setup_http_check(m, &public, &err) != 0)
		return (fail(&err));
	if (f.check) {
		int SBX_CLEANUP(fd) rules = -1;

		if (check_all_files(&m->conf, &err) != 0 ||
		    publish_rules(&m->conf, &rules, &err) != 0) {
			options_place(m, &m->conf, &err);
			return (fail(&err));
		}
		(void)printf("configuration OK\n");
		return (0);
	}
	set_log_level(m, &f);
	m->stdio = strcmp(m->conf.transport, "stdio") == 0;
	m->slot_first = f.slot_set ? m->slot : m->stdio ? 1 : 0;
	m->slot_last = f.slot_set ? m->slot : m->stdio ? SBX_MAX_SLOTS - 1 : 0;
	return (-1);
}
