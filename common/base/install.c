#include "common/base/install.h"

#include <string.h>

const char sbx_install_script[] =
    "m=$1 off=$2\n"
    "shift 2\n"
    "p=$m\n"
    "[ $m != pip ] || p=python3\n"
    "command -v $p >/dev/null || exit 127\n"
    "case $m in\n"
    "pip)\n" SBX_INSTALL_PYTHON
    "if [ -z \"$v\" ] && python3 -c 'import os, sys, sysconfig\n"
    "sys.exit(not os.path.exists(os.path.join(sysconfig.get_path(\"stdlib\"),"
    " \"EXTERNALLY-MANAGED\")))'; then\n"
    "v=$HOME/.venv\n"
    "python3 -m venv --system-site-packages \"$v\" >&2 || exit 68\n"
    "py=$v/bin/python3\n"
    "fi\n"
    "if command -v uv >/dev/null && [ -n \"$v\" ]; then\n"
    "exec uv pip install --python \"$py\" \"$@\"\n"
    "fi\n"
    "exec \"$py\" -m pip install --disable-pip-version-check --no-input "
    "\"$@\" ;;\n"
    "npm)\n"
    "c=install\n"
    "[ $# -gt 0 ] || [ ! -f package-lock.json ] || c=ci\n"
    "exec npm $c --no-audit --no-fund ${off:+--offline} -- \"$@\" ;;\n"
    "cargo)\n"
    "for p; do\n"
    "case $p in\n"
    "/* | ./* | ../*) cargo add ${off:+--offline} --path \"$p\" ;;\n"
    "*) cargo add ${off:+--offline} -- \"$p\" ;;\n"
    "esac || exit\n"
    "done\n"
    "exec cargo fetch ${off:+--offline} ;;\n"
    "go)\n"
    "[ -z \"$off\" ] || export GOPROXY=off GOSUMDB=off\n"
    "[ $# -eq 0 ] || exec go get -- \"$@\"\n"
    "[ -n \"$off\" ] || exec go mod download\n"
    "exec go list -deps ./... ;;\n"
    "esac\n";
_Static_assert(SBX_INSTALL_NO_VENV == 68, "the script's exit code");

/* What npm adds to package.json stays until the last one is there: it takes
 * away what no package.json asks for. */
const char sbx_install_again[] =
    "i=$1; shift; a=(\"$@\") n=0 f=(package.json package-lock.json)\n"
    "for k in 0 1; do [ ! -e \"${f[k]}\" ] || f[k]=; done\n"
    "trap 's=$?; [ $s = 0 ] || printf \"package_install: command %d of %d "
    "ended with status %d: %s\\n\" $n ${#a[@]} $s \"${a[n-1]}\" >&2' EXIT\n"
    "for c in \"${a[@]}\"; do n=$((n + 1)); (\n"
    "eval \"set -- $c\"; m=$1; shift 2; d=\n"
    "case $m in cargo | go) d=$(mktemp -d) && cd \"$d\" || exit ;; esac\n"
    "case $m in\n"
    "cargo) cargo init -q --lib --vcs none --name sbx . || exit ;;\n"
    "go) go mod init sbx || exit ;;\n"
    "esac\n"
    "sh -c \"$i\" sbx \"$m\" '' \"$@\"; s=$?\n"
    "[ -z \"$d\" ] || rm -rf \"$d\"; exit $s\n"
    ") || exit; done\n"
    "for p in \"${f[@]}\"; do [ -z \"$p\" ] || rm -f \"$p\"; done\n";

#define ALNUM                                                            \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* A name's first letter, the others, and what may follow it: none of it is
 * special between single quotes. */
static const struct manager {
	const char *name, *verb, *first, *others, *more;
	bool scopes;		/* a name may be "@SCOPE/NAME" */
	bool hosts;		/* ... must be "HOST.DOMAIN/PATH" */
	bool upgrade;
} managers[] = {
	{ "pip", "install", ALNUM, ALNUM "._-", "[]<>=!~*, ._-+" ALNUM, false,
	    false, true },
	{ "npm", "install", ALNUM "_", ALNUM "._~-", "@^~<>=.*|+ -" ALNUM,
	    true, false, false },
	{ "cargo", "add", ALNUM "_", ALNUM "_-", "@^~<>=.*, +-" ALNUM, false,
	    false, false },
	{ "go", "get", ALNUM, ALNUM "._~/-", "@.+_~-" ALNUM, false, true,
	    false },
};

static const struct manager *
find(const char *name)
{
	for (size_t i = 0; i < SBX_NELEM(managers); i++)
		if (strcmp(managers[i].name, name) == 0)
			return (&managers[i]);
	return (NULL);
}

/* pip and npm take a file of such a name when there is one. */
static bool
is_archive(const char *s)
{
	static const char *const ends[] = { ".whl", ".zip", ".tar", ".tgz",
		".tbz", ".txz", ".tlz", ".gz", ".bz2", ".xz", ".lzma" };
	size_t len = strlen(s), n;

	for (size_t i = 0; i < SBX_NELEM(ends); i++) {
		n = strlen(ends[i]);
		if (len >= n && strcmp(s + len - n, ends[i]) == 0)
			return (true);
	}
	return (false);
}

bool
sbx_install_named(const char *manager, const char *package)
{
	const struct manager *m = find(manager);
	const char *s = package;
	size_t n, dot;

	if (m == NULL || is_archive(package))
		return (false);
	if (m->scopes && *s == '@') {
		n = strspn(s + 1, m->others);
		if (n == 0 || s[n + 1] != '/')
			return (false);
		s += n + 2;
	}
	if (*s == '\0' || strchr(m->first, *s) == NULL)
		return (false);
	dot = strcspn(s, ".");
	if (m->hosts && (s[dot] == '\0' || dot > strcspn(s, "/@")))
		return (false);
	s += strspn(s, m->others);
	/* npm: NAME@. is a directory, whatever its name */
	return (strspn(s, m->more) == strlen(s) && (!m->scopes ||
	    s[0] != '@' || s[1 + strspn(s + 1, " ")] != '.'));
}

int
sbx_install_line(struct sbx_buf *b, const char *manager, bool upgrade,
    const char *packages, size_t len)
{
	const struct manager *m = find(manager);
	const char *s = packages, *end, *q;
	int r;

	if (m == NULL || len == 0 || packages[len - 1] != '\0' ||
	    (upgrade && !m->upgrade))
		return (SBX_E_SYNTAX);
	end = packages + len;
	r = sbx_buf_printf(b, "%s %s%s", m->name, m->verb, upgrade ?
	    " --upgrade" : "");
	for (; r == 0 && s < end; s += strlen(s) + 1) {
		if (!sbx_install_named(manager, s))
			return (SBX_E_SYNTAX);
		q = strspn(s, ALNUM "@._/=+-") == strlen(s) ? "" : "'";
		r = sbx_buf_printf(b, " %s%s%s", q, s, q);
	}
	return (r == 0 ? sbx_buf_add(b, "", 1) : r);
}
