/*
 * Replacing a definition of a Python file: the sandbox's own python3 says where
 * it is, what of it stays and whether the result parses.  What it says is a
 * guest's word, so it can name a part of that one file and a text, no more.
 */

#include "sbxd/worker/edit_file.h"

#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define ANSWER_BYTES (16u << 20)
#define PYTHON_MS 10000u
#define CHECK_BYTES (1u << 20)	/* larger files are not parsed afterwards */

/* The interpreter gets the script as an argument, and that what is worked on
 * as its standard input. */
static const char shell[] =
    "command -v python3 >/dev/null 2>&1 || exit 127\n"
    "s=$1; shift; exec python3 -I -S -c \"$s\" \"$@\"\n";

/* argv: line or 0, what is kept.  stdin: three lengths, then so many bytes of
 * what was asked for, of the new definition and of the file. */
static const char find_script[] =
"import ast, json, re, sys\n"
"inp = sys.stdin.buffer\n"
"sizes = [int(x) for x in inp.readline().split()]\n"
"old, new, src = [inp.read(n) for n in sizes]\n"
"line, keep = int(sys.argv[1]), sys.argv[2]\n"
"def say(**kw):\n"
"    print(json.dumps(kw))\n"
"    sys.exit(0)\n"
"BAD = (SyntaxError, ValueError, RecursionError, MemoryError)\n"
"DEFS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)\n"
"HEAD = r'^[ \\t]*(?:(?:async[ \\t]+)?def|class)[ \\t]+([\\w.]+)'\n"
"EOL = r'\\r\\n|\\r|\\n'\n"
"def indent(row):\n"
"    return row[:len(row) - len(row.lstrip(' \\t'))]\n"
"def doc(n):\n"
"    b = getattr(n, 'body', None)\n"
"    b = b[0] if isinstance(b, list) and b else None\n"
"    return isinstance(b, ast.Expr) and isinstance(b.value, ast.Constant) \\\n"
"        and isinstance(b.value.value, str)\n"
"try:\n"
"    old, new, text = old.decode(), new.decode(), src.decode()\n"
"except UnicodeDecodeError:\n"
"    say(code='none', error='the file is not UTF-8')\n"
"name = re.search(HEAD, old, re.M)\n"
"if not name:\n"
"    say(code='none', error='old_str names no definition')\n"
"name = name.group(1)\n"
"try:\n"
"    tree = ast.parse(src)\n"
"except BAD as e:\n"
"    say(code='none', error='the file does not parse: %s' % e)\n"
"found, todo = [], [(tree, '')]\n"
"while todo:\n"
"    node, path = todo.pop()\n"
"    for c in ast.iter_child_nodes(node):\n"
"        p = path\n"
"        if isinstance(c, DEFS):\n"
"            p = path + '.' + c.name if path else c.name\n"
"            if p == name or p.endswith('.' + name):\n"
"                found.append(c)\n"
"        todo.append((c, p))\n"
"found.sort(key=lambda n: n.lineno)\n"
"if line:\n"
"    found = [n for n in found if min([n.lineno] + [d.lineno for d in\n"
"             n.decorator_list]) <= line <= n.end_lineno][-1:]\n"
"if not found:\n"
"    say(code='none', error='there is no definition of ' + name +\n"
"        (' in that line' if line else ''))\n"
"if len(found) > 1:\n"
"    say(code='ambiguous', error=name + ' is defined at lines ' +\n"
"        ', '.join(str(n.lineno) for n in found[:10]))\n"
"node = found[0]\n"
"new = re.sub(r'^(?:[ \\t]*\\n)+', '', re.sub(EOL, '\\n', new)).rstrip()\n"
"rows = new.split('\\n')\n"
"lead = indent(rows[0])\n"
"try:\n"
"    top = ast.parse('if 1:\\n' + new if lead else new)\n"
"except BAD as e:\n"
"    say(code='syntax', error='the new definition does not parse: %s' % e)\n"
"body = top.body[0].body if lead else top.body\n"
"if not body or not isinstance(body[0], DEFS):\n"
"    say(code='none', error='the new text is not a definition')\n"
"fresh, off = body[0], 1 if lead else 0\n"
"if len(body) == 1 and doc(fresh) and len(fresh.body) == 1 and \\\n"
"        len(node.body) > doc(node):\n"
"    say(code='docstring_only', error='the new definition of ' + name +\n"
"        ' has only a docstring, where the old one has statements')\n"
"starts = [3 if src.startswith(b'\\xef\\xbb\\xbf') else 0]\n"
"starts += [x.end() for x in re.finditer(EOL.encode(), src)]\n"
"pre = src[starts[node.lineno - 1]:][:node.col_offset].decode()\n"
"docs = {id(n.body[0].value) for n in ast.walk(top) if doc(n)}\n"
"fixed = set()\n"
"for n in ast.walk(top):\n"
"    if isinstance(n, (ast.Constant, ast.JoinedStr)) and id(n) not in docs:\n"
"        fixed.update(range(n.lineno - off, n.end_lineno - off))\n"
"rows = [r if i in fixed or not r.startswith(lead) or not r.strip()\n"
"        else pre + r[len(lead):] for i, r in enumerate(rows)]\n"
"first = fresh.body[0]\n"
"if keep in ('all', 'docstring') and doc(node) and not doc(fresh) and \\\n"
"        first.lineno > fresh.lineno:\n"
"    at = min([first.lineno] + [d.lineno for d in\n"
"             getattr(first, 'decorator_list', [])]) - off - 1\n"
"    d = node.body[0]\n"
"    was = src[starts[d.lineno - 1]:][:d.col_offset].decode()\n"
"    rest = src[starts[d.end_lineno - 1] + d.end_col_offset:]\n"
"    if not was.strip() and not re.split(rb'[\\r\\n]', rest, maxsplit=1)[0].strip():\n"
"        have = re.split(EOL, text)[d.lineno - 1:d.end_lineno]\n"
"        rows[at:at] = [indent(rows[at]) + r[len(was):] if r.startswith(was)\n"
"                       else r for r in have]\n"
"begin = node.lineno\n"
"if node.decorator_list and (fresh.decorator_list or\n"
"                            keep not in ('all', 'decorators')):\n"
"    begin = node.decorator_list[0].lineno\n"
"at = starts[begin - 1] + len(pre.encode())\n"
"end = starts[node.end_lineno - 1] + node.end_col_offset\n"
"out = '\\n'.join(rows)[len(pre):]\n"
"try:\n"
"    ast.parse(src[:at] + out.encode() + src[end:])\n"
"except BAD as e:\n"
"    say(code='syntax', error='the file would not parse: %s' % e)\n"
"say(start=at, end=end, text=out)\n";

static const char check_script[] =
"import ast, sys\n"
"try:\n"
"    ast.parse(sys.stdin.buffer.read())\n"
"except (SyntaxError, ValueError, RecursionError) as e:\n"
"    sys.stdout.write('line %s: %s' % (getattr(e, 'lineno', 0), e.args[0]))\n";

/* --- what is a definition ------------------------------------------------------- */

static bool
begins(struct bytes l, const char *word)
{
	size_t n = strlen(word);

	return (l.n > n && memcmp(l.p, word, n) == 0 && (l.p[n] == ' ' ||
	    l.p[n] == '\t'));
}

bool
edit_is_definition(struct bytes what, size_t *ret_lines)
{
	const char *p = what.p, *end = what.p + what.n, *nl;
	bool is = false, seen = false;
	struct bytes l;

	for (*ret_lines = 0; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		nl = nl != NULL ? nl : end;
		l = (struct bytes){ p, (size_t)(nl - p) };
		while (l.n > 0 && strchr(" \t\r", l.p[0]) != NULL) {
			l.p++;
			l.n--;
		}
		if (l.n == 0 || l.p[0] == '#')
			continue;
		++*ret_lines;
		if (seen || l.p[0] == '@')
			continue;
		seen = true;
		is = begins(l, "def") || begins(l, "class") ||
		    begins(l, "async");
	}
	return (is);
}

/* --- asking the sandbox ------------------------------------------------------- */

/* 1: it answered, *ret_text is what; 0: it did not, and it is no matter why;
 * negative as the asks of ask.h. */
static int
ask_python(struct call *call, const char *const *argv, const char *in,
    size_t in_len, struct sbx_buf *ret_text)
{
	const struct script s = { .cwd = "/", .argv = argv, .in = in,
		.in_len = in_len, .timeout_ms = PYTHON_MS };
	struct ask_run st;
	bool whole = false;
	int r;

	r = script_run(call, &s, &st);
	if (r == 1 && script_exit(&st) == 0) {
		r = script_output(call, &st, ANSWER_BYTES, ret_text, &whole);
		return (r < 0 ? r : whole);
	}
	result_reset(call->res);
	return (r < 0 ? r : 0);
}

static bool
number_of(struct json_object *o, const char *name, size_t max, size_t *ret)
{
	struct json_object *v;
	int64_t n;

	if (!json_object_object_get_ex(o, name, &v) ||
	    !json_object_is_type(v, json_type_int))
		return (false);
	n = json_object_get_int64(v);
	*ret = (size_t)n;
	return (n >= 0 && (uint64_t)n <= max);
}

static const char *
string_of(struct json_object *o, const char *name)
{
	struct json_object *v;

	return (json_object_object_get_ex(o, name, &v) &&
	    json_object_is_type(v, json_type_string) ?
	    json_object_get_string(v) : NULL);
}

/* What it answered: a span, or why there is none. */
static int
take(struct call *call, struct edit *e, struct json_object *o, bool *ret_fall)
{
	const char *text = string_of(o, "text"), *code = string_of(o, "code");
	const char *error = string_of(o, "error");
	static const char *const codes[][2] = {
		{ "ambiguous", "Give its qualified name in old_str, or line." },
		{ "docstring_only", "Give the whole definition; ast false "
		    "replaces text as it is." },
		{ "syntax", "Mend the new definition." },
		{ "none", "Give old_str as the text is in the file, and ast "
		    "false." },
	};
	size_t at, end, i;

	if (text != NULL && number_of(o, "start", e->old.n, &at) &&
	    number_of(o, "end", e->old.n, &end) && at <= end) {
		*ret_fall = false;
		e->parsed = true;
		return (edit_add(e, at, end - at, edit_endings(e, edit_join(e,
		    (struct bytes){ text, strlen(text) }, (struct bytes){ "",
		    0 }))) == 0);
	}
	for (i = 0; code != NULL && i < SBX_NELEM(codes) &&
	    strcmp(code, codes[i][0]) != 0; i++)
		;
	*ret_fall = code == NULL || i >= SBX_NELEM(codes) - 1;
	if (code == NULL || i == SBX_NELEM(codes) || error == NULL) {
		result_error(call->res, "no_definition", codes[3][1],
		    "The definition could not be looked up.");
		return (0);
	}
	result_error(call->res, strcmp(code, "none") == 0 ? "no_definition" :
	    code, codes[i][1], "Nothing was written: %s.", error);
	return (0);
}

int
edit_python(struct call *call, struct edit *e, struct bytes what,
    struct bytes with, bool *ret_fall)
{
	SBX_CLEANUP_BUF struct sbx_buf in = { 0 }, out = { 0 };
	const char *keep = args_str(&call->args, "preserve", NULL);
	char line[24];
	const char *argv[] = { "sh", "-c", shell, "sbx", find_script, line,
		keep, NULL };
	struct json_object *o = NULL;
	int r;

	(void)snprintf(line, sizeof(line), "%" PRId64, args_int(&call->args,
	    "line"));
	sbx_buf_init(&in, EDIT_MAX_BYTES + what.n + with.n + 128);
	if (sbx_buf_printf(&in, "%zu %zu %zu\n", what.n, with.n, e->old.n) !=
	    0 || sbx_buf_add(&in, what.p, what.n) != 0 ||
	    sbx_buf_add(&in, with.p, with.n) != 0 ||
	    sbx_buf_add(&in, e->old.p, e->old.n) != 0)
		return (SBX_E_LIMIT);
	*ret_fall = true;
	r = ask_python(call, argv, in.data, in.len, &out);
	if (r < 0)
		return (call_refused(call, r));
	if (r == 1)
		o = script_json(out.data != NULL ? out.data : "", out.len);
	r = take(call, e, o, ret_fall);
	json_object_put(o);
	return (r);
}

int
edit_python_check(struct call *call, const char *path, struct bytes text,
    char *ret_why, size_t size)
{
	static const char *const argv[] = { "sh", "-c", shell, "sbx",
		check_script, NULL };
	SBX_CLEANUP_BUF struct sbx_buf out = { 0 };
	size_t n = strlen(path);
	char vis[160];
	int r;

	ret_why[0] = '\0';
	if (n < 3 || strcmp(path + n - 3, ".py") != 0 ||
	    text.n > CHECK_BYTES)
		return (0);
	r = ask_python(call, argv, text.p, text.n, &out);
	if (r == 1 && out.len > 0)
		(void)snprintf(ret_why, size, "It does not parse as Python: "
		    "%s. undo_file_edit brings back what it was.",
		    sbx_vis(vis, sizeof(vis), out.data, out.len));
	return (r < 0 ? r : 0);
}
