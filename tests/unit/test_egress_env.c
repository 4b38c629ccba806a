/* What programs with egress find in their environment. */
#include "common/base/egress_env.h"
#include "common/proto/proto.h"
#include "tests/tap.h"

#include <ctype.h>
#include <sys/wait.h>
#include <unistd.h>

static bool
is_name(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return (false);
	for (; *s != '\0'; s++)
		if (!isalnum((unsigned char)*s) && *s != '_')
			return (false);
	return (true);
}

/* Nothing that a shell looks at between two ''. */
static bool
is_plain(const char *s)
{
	for (; *s != '\0'; s++)
		if (!isprint((unsigned char)*s) || *s == '\'')
			return (false);
	return (true);
}

static const char *
value_of(const char *name)
{
	for (size_t i = 0; i < sbx_egress_vars_n; i++)
		if (strcmp(sbx_egress_vars[i].name, name) == 0)
			return (sbx_egress_vars[i].value);
	return (NULL);
}

static void
test_table(void)
{
	bool unique = true, names = true, plain = true;

	for (size_t i = 0; i < sbx_egress_vars_n; i++) {
		names = names && is_name(sbx_egress_vars[i].name);
		plain = plain && is_plain(sbx_egress_vars[i].value);
		for (size_t j = 0; j < i; j++)
			unique = unique && strcmp(sbx_egress_vars[i].name,
			    sbx_egress_vars[j].name) != 0;
	}
	ok(unique, "names are unique");
	ok(names, "names are names");
	ok(plain, "values need no escape in a shell");
	ok(strcmp(value_of("HTTPS_PROXY"), "http://127.0.0.1:3128") == 0 &&
	    strcmp(value_of("https_proxy"), value_of("HTTPS_PROXY")) == 0 &&
	    strcmp(value_of("http_proxy"), value_of("HTTP_PROXY")) == 0 &&
	    strcmp(value_of("no_proxy"), value_of("NO_PROXY")) == 0,
	    "both ways of writing say the same");
	ok(value_of("ALL_PROXY") == NULL && value_of("all_proxy") == NULL,
	    "nothing for protocols that are not spoken");
	ok(strcmp(value_of("SSL_CERT_FILE"), "/run/sbx/ca-bundle.pem") == 0 &&
	    strstr(value_of("JAVA_TOOL_OPTIONS"), "=/run/sbx/java.jks ") !=
	    NULL, "paths");
}

static void
test_add(void)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf small = { 0 };
	struct sbx_strs s = { .data = NULL }, t = { .data = NULL };
	const char *e = NULL;
	size_t i = 0, n;
	bool same = true;

	sbx_buf_init(&b, 8192);		/* of ENGINE_SHELL */
	ok(sbx_egress_env_add(&s, &b) == 0 && s.count == sbx_egress_vars_n &&
	    s.count <= 48 && s.len <= 4096,
	    "all fit into messages, with room for others: %u of %u bytes",
	    s.count, s.len);
	while ((e = sbx_strs_next(&s, e)) != NULL) {
		n = strlen(sbx_egress_vars[i].name);
		same = same && strncmp(e, sbx_egress_vars[i].name, n) == 0 &&
		    e[n] == '=' && strcmp(e + n + 1,
		    sbx_egress_vars[i].value) == 0;
		i++;
	}
	ok(same && i == sbx_egress_vars_n, "NAME=value");
	sbx_buf_init(&small, 100);
	ok(sbx_egress_env_add(&t, &small) == SBX_E_LIMIT, "no room");
}

/* The output of a shell that took the file, in out. */
static int
shell(const char *file, const char *then, char *out, size_t size)
{
	SBX_CLEANUP(free) char *text = sbx_xasprintf("%s%s", file, then);
	char *argv[] = { (char *)(uintptr_t)"sh", (char *)(uintptr_t)"-euc",
		text, NULL };
	char *env[] = { (char *)(uintptr_t)"PIP_CERT=/mine",
		(char *)(uintptr_t)"http_proxy=http://other", NULL };
	int pipes[2], status = 0;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	if (pipe(pipes) == -1 || (pid = fork()) == -1)
		return (-1);
	if (pid == 0) {
		(void)dup2(pipes[1], 1);
		(void)close(pipes[0]);
		(void)execve("/bin/sh", argv, env);
		_exit(127);
	}
	(void)close(pipes[1]);
	while (n < size - 1 && (got = read(pipes[0], out + n,
	    size - 1 - n)) > 0)
		n += (size_t)got;
	out[n] = '\0';
	(void)close(pipes[0]);
	(void)waitpid(pid, &status, 0);
	return (status);
}

static void
test_sh(void)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf small = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf then = { 0 };
	SBX_CLEANUP_BUF struct sbx_buf want = { 0 };
	char out[8192];

	sbx_buf_init(&b, 8192);
	sbx_buf_init(&then, 8192);
	sbx_buf_init(&want, 8192);
	ok(sbx_egress_env_sh(&b) == 0, "a file for shells");
	for (size_t i = 0; i < sbx_egress_vars_n; i++) {
		const struct sbx_egress_var *v = &sbx_egress_vars[i];

		(void)sbx_buf_printf(&then, "echo \"$%s\"\n", v->name);
		(void)sbx_buf_printf(&want, "%s\n",
		    strcmp(v->name, "PIP_CERT") == 0 ? "/mine" : v->value);
	}
	ok(shell(b.data, then.data, out, sizeof(out)) == 0 &&
	    strcmp(out, want.data) == 0, "a shell has them all, and keeps its "
	    "own but for the proxy");
	ok(shell(b.data, "export -p | grep -c GIT_CONFIG_KEY_1", out,
	    sizeof(out)) == 0 && strcmp(out, "1\n") == 0, "exported");
	ok(shell("GIT_CONFIG_COUNT=1\n", b.data, out, sizeof(out)) == 0,
	    "a shell with settings of git");
	sbx_buf_init(&small, 100);
	ok(sbx_egress_env_sh(&small) == SBX_E_LIMIT, "no room");
}

int
main(void)
{
	tap_plan(0);
	test_table();
	test_add();
	test_sh();
	ok(strcmp(sbx_egress_wgetrc, "ca_certificate = "
	    "/run/sbx/ca-bundle.pem\n") == 0, "wgetrc");
	return (tap_done());
}
