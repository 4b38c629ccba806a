/* clone_repo, and what sandbox_initialize does of it. */

#include "sbxd/worker/clone.h"

#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>


/* An absolute path; name NULL: it is the work tree itself. */
static bool
dest_of(struct call *call, const char *arg, const char *name,
    char dst[4096])
{
	const char *dir = args_str(&call->args, arg, NULL), *p;
	size_t len = strlen(dir);
	int n;

	for (p = strstr(dir, "/.."); p != NULL; p = strstr(p + 1, "/.."))
		if (p[3] == '/' || p[3] == '\0')
			return (gh_bad(call, "The directory must be an absolute "
			    "path without \"..\" in it."));
	while (len > 1 && dir[len - 1] == '/')
		len--;
	n = snprintf(dst, 4096, "%.*s%s%s", len == 1 && name != NULL ? 0 :
	    (int)len, dir, name != NULL ? "/" : "", name != NULL ? name : "");
	return (n < 4096 ? true : gh_bad(call, "The path is too long."));
}

static bool
branch_ok(struct call *call, const char *branch)
{
	if (branch == NULL || sbx_rest_branch_ok(branch))
		return (true);
	return (gh_bad(call, "\"branch\" is no name that git takes."));
}

static int
result_of(struct call *call, const struct clone *c)
{
	struct result *r = call->res;

	result_str(r, "status", c->running ? "running" : "ok");
	result_str(r, "container_id", c->container);
	if (c->running)
		result_str(r, "recommended_next_action",
		    "It goes on as a job: call clone_repo again with the same "
		    "arguments and job_id, or end it with sandbox_exec_kill.");
	clone_put(call, c);
	result_open(r, "warnings", '[');
	clone_warn(call, c);
	result_close(r, ']');
	return (0);
}

static bool
modules_args(struct call *call, struct clone *c)
{
	struct gh_repo r;

	c->modules = args_bool(&call->args, "submodules");
	c->named = args_json(&call->args, "submodule_repos");
	if (c->named != NULL && !c->modules)
		return (gh_bad(call, "\"submodule_repos\" goes with "
		    "\"submodules\": true."));
	for (size_t i = 0; i < gh_len(c->named); i++)
		if (!gh_repo_parse(json_object_get_string(
		    json_object_array_get_idx(c->named, i)), &r))
			return (gh_bad(call, "\"submodule_repos\" has names as "
			    "OWNER/NAME, or HOST/OWNER/NAME."));
	return (true);
}

static bool
clone_args(struct call *call, struct clone *c)
{
	const struct args *a = &call->args;
	const char *job = args_str(a, "job_id", NULL);

	c->container = args_str(a, "container_id", NULL);
	c->branch = args_str(a, "branch", NULL);
	c->depth = (uint64_t)args_int(a, "depth");
	c->partial = args_has(a, "filter");
	c->fetch = args_bool(a, "fetch");
	if (args_int(a, "timeout") != 0)
		c->timeout_ms = (uint64_t)args_int(a, "timeout") * 1000;
	if (job != NULL)
		(void)sbx_strlcpy(c->run, job, sizeof(c->run));
	return (gh_repo_arg(call, "repo", &c->repo) &&
	    modules_args(call, c) && branch_ok(call, c->branch) &&
	    dest_of(call, "dest_dir", c->repo.name, c->dest));
}

int
tool_clone_repo(struct call *call)
{
	struct clone c;
	int r = 0;

	clone_init(call, &c);
	if (clone_args(call, &c))
		r = *c.run != '\0' ? clone_again(call, &c) :
		    clone_run(call, &c);
	if (r == 1)
		r = result_of(call, &c);
	clone_clear(&c);
	return (r);
}

/* --- for sandbox_initialize ---------------------------------------------------------- */

/* Which repository: that of the pull request, or the one to clone. */
static bool
wanted(struct call *call, struct clone *c)
{
	const struct args *a = &call->args;

	c->pr = (uint64_t)args_int(a, "pr");
	c->branch = args_str(a, "branch", NULL);
	if (c->pr != 0 && c->branch != NULL)
		return (gh_bad(call, "Give \"branch\" or \"pr\", not both."));
	if (c->pr != 0 && args_has(a, "clone_repo"))
		return (gh_bad(call, "\"pr\" goes with \"repo\", which names the "
		    "repository in place of \"clone_repo\"."));
	if (args_has(a, "allow_network") && !args_bool(a, "allow_network"))
		return (gh_bad(call, "A clone needs a way out of the sandbox: "
		    "leave \"allow_network\" out, or give true; without one, "
		    "bring the files in with copy_project."));
	if (c->branch != NULL && !args_has(a, "clone_repo"))
		return (gh_bad(call, "\"branch\" goes with \"clone_repo\"."));
	if (c->pr != 0 && !args_has(a, "repo"))
		return (gh_bad(call, "\"pr\" goes with \"repo\"."));
	if (c->pr == 0 && args_has(a, "repo"))
		return (gh_bad(call, "\"repo\" goes with \"pr\"; what is to be "
		    "cloned is \"clone_repo\"."));
	return (gh_repo_arg(call, c->pr != 0 ? "repo" : "clone_repo",
	    &c->repo) && branch_ok(call, c->branch) &&
	    dest_of(call, "clone_dest", NULL, c->dest) && deps_check(call));
}

/* Names of branches that a pull request brings are foreign. */
static int
take_pull(struct call *call, struct clone *c, struct json_object *o)
{
	const char *head = gh_str(o, "head.ref"), *base = gh_str(o,
	    "base.ref");

	if (!sbx_rest_branch_ok(head) || !sbx_rest_branch_ok(base)) {
		result_error(call->res, "bad_answer", "",
		    "The pull request's branches have no names that git "
		    "takes.");
		return (0);
	}
	(void)sbx_strlcpy(c->pull_head, head, sizeof(c->pull_head));
	(void)sbx_strlcpy(c->pull_base, base, sizeof(c->pull_base));
	c->head = c->pull_head;
	c->base = c->pull_base;
	return (1);
}

int
clone_wanted(struct call *call, struct clone *c)
{
	const struct args *a = &call->args;
	struct json_object *o;
	int r;

	c->wanted = args_has(a, "clone_repo") || args_has(a, "pr") ||
	    args_has(a, "branch") || args_has(a, "repo");
	if (!c->wanted)
		return (1);
	if (!wanted(call, c))
		return (0);
	if (c->pr == 0)
		return (1);
	r = gh_ask(call, &c->repo, &(struct gh_ask){ .op = SBX_REST_PULL,
	    .number = c->pr }, json_type_object, NULL, &o);
	if (r != 1)
		return (r);
	r = take_pull(call, c, o);
	json_object_put(o);
	return (r);
}

int
clone_failed(struct call *call, const struct clone *c)
{
	struct result *r = call->res;
	bool keep = args_bool(&call->args, "keep_on_error");
	char run[SBX_RUN_HEX + 1];
	int error;

	if (*c->run == '\0')	/* else it is there */
		result_str(r, "container_id", c->container);
	result_bool(r, "kept", keep);
	if (keep)
		return (0);
	error = sb_stop(call->ask, c->container, true, run);
	return (error == SBX_E_POLICY ? 0 : error);
}
