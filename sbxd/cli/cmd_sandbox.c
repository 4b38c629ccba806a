/* ps, stop, and how a command finds the sandbox it was told */
#include "sbxd/cli/cli.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define LIST_TIMEOUT_MS 15000

/* The sandboxes of one suite, as sandbox_list_containers gives them. */
static int
suite_list(struct client *c, struct json_object **ret_list,
    struct json_object **ret_result, struct sbx_err *err)
{
	int r = client_call(c, "sandbox_list_containers",
	    json_object_new_object(), LIST_TIMEOUT_MS, ret_result, err);

	if (r == 0 && (!json_object_object_get_ex(*ret_result, "containers",
	    ret_list) || !json_object_is_type(*ret_list, json_type_array)))
		r = sbx_err_set(err, SBX_E_SYNTAX, "the list has no containers");
	if (r != 0 && *ret_result != NULL) {
		json_object_put(*ret_result);
		*ret_result = NULL;
	}
	return (r);
}

/* The next running suite at or after *slot; 0, or SBX_E_NOENT at the end. */
static int
next_suite(const struct cli *cli, int *slot, struct client *ret_c,
    struct sbx_err *err)
{
	int last = cli->slot != -1 ? cli->slot : SBX_MAX_SLOTS - 1;

	if (cli->slot != -1 && *slot < cli->slot)
		*slot = cli->slot;
	for (; *slot <= last; ++*slot) {
		int r = client_open(cli, *slot, ret_c, err);

		if (r == 0 || r != SBX_E_NOENT)
			return (r);
	}
	return (SBX_E_NOENT);
}

int
cli_find(const struct cli *cli, const char *who, struct client *ret_c,
    char ret_id[16], struct sbx_err *err)
{
	struct client c;
	bool found = false;

	for (int slot = 0; next_suite(cli, &slot, &c, err) == 0; slot++) {
		struct json_object *args = json_object_new_object(), *res;
		int r;

		json_object_object_add(args, "name_or_id",
		    json_object_new_string(who));
		r = client_call(&c, "sandbox_attach", args, LIST_TIMEOUT_MS,
		    &res, err);
		if (r == 0 && found) {
			json_object_put(res);
			client_close(&c);
			client_close(ret_c);
			return (sbx_err_set(err, SBX_E_EXISTS, "more than one "
			    "suite has '%.64s': say which with -s", who));
		}
		if (r == 0) {
			(void)sbx_strlcpy(ret_id,
			    client_str(res, "container_id"), 16);
			*ret_c = c;
			found = true;
		} else
			client_close(&c);
		json_object_put(res);
	}
	if (found)
		return (0);
	if (cli->slot >= 0)
		return (sbx_err_set(err, SBX_E_NOENT, "no sandbox '%.64s' in "
		    "suite %d: 'sbx ps' lists those of all", who, cli->slot));
	return (sbx_err_set(err, SBX_E_NOENT, "no sandbox '%.64s' in any "
	    "suite of yours: 'sbx ps' lists them", who));
}

/* Foreign text as a table cell: escaped, and cut to what fits. */
static const char *
cell(char buf[64], struct json_object *o, const char *name)
{
	const char *s = client_str(o, name);

	return (s[0] == '\0' ? "-" : sbx_vis(buf, 64, s, strlen(s)));
}

static void
print_row(struct json_object *o, int slot)
{
	char id[64], name[64], image[64], state[64];

	printf("%-12s  %-20s  %-12s  %-9s  %7lds  %7lds  %d\n",
	    cell(id, o, "container_id"), cell(name, o, "name"),
	    cell(image, o, "image"), cell(state, o, "state"),
	    (long)client_int(o, "age_seconds", 0),
	    (long)client_int(o, "idle_seconds", 0), slot);
}

int
cmd_ps(struct cli *cli, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' }, { 0 } };
	struct json_object *all = json_object_new_array();
	struct sbx_err err;
	struct client c;
	int ch, suites = 0;

	while ((ch = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (ch != 'j')
			return (CLI_SYNTAX);
		cli->json = true;
	}
	if (optind != argc)
		return (CLI_SYNTAX);
	if (cli_locked(cli))
		fprintf(stderr, "sbx: locked down: no sandbox has a way out "
		    "until `sbx lockdown off`\n");
	if (!cli->json)
		printf("%-12s  %-20s  %-12s  %-9s  %8s  %8s  %s\n", "SANDBOX",
		    "NAME", "IMAGE", "STATE", "AGE", "IDLE", "SUITE");
	for (int slot = 0; next_suite(cli, &slot, &c, &err) == 0; slot++) {
		struct json_object *list, *res;
		int r = suite_list(&c, &list, &res, &err);

		client_close(&c);
		suites++;
		if (r != 0) {
			(void)cli_fail(0, &err);
			continue;
		}
		for (size_t i = 0; i < json_object_array_length(list); i++) {
			struct json_object *o =
			    json_object_array_get_idx(list, i);

			if (!cli->json) {
				print_row(o, slot);
				continue;
			}
			json_object_object_add(o, "suite",
			    json_object_new_int(slot));
			json_object_array_add(all, json_object_get(o));
		}
		json_object_put(res);
	}
	if (cli->json)
		puts(json_object_to_json_string_ext(all,
		    JSON_C_TO_STRING_PLAIN));
	else if (suites == 0 && cli->slot >= 0)
		fprintf(stderr, "sbx: suite %d is not running\n", cli->slot);
	else if (suites == 0)
		fprintf(stderr, "sbx: no suite of yours is running\n");
	json_object_put(all);
	return (CLI_OK);
}

static int
stop_one(const struct cli *cli, const char *who, bool force)
{
	struct json_object *args = json_object_new_object(), *res;
	struct sbx_err err;
	struct client c;
	char id[16];
	int r;

	if ((r = cli_find(cli, who, &c, id, &err)) != 0) {
		json_object_put(args);
		return (cli_fail(CLI_USAGE, &err));
	}
	json_object_object_add(args, "container_id",
	    json_object_new_string(id));
	json_object_object_add(args, "force", json_object_new_boolean(force));
	r = client_call(&c, "sandbox_stop", args, LIST_TIMEOUT_MS, &res, &err);
	client_close(&c);
	json_object_put(res);
	if (r != 0)
		return (cli_fail(CLI_FATAL, &err));
	printf("%s\n", id);
	return (CLI_OK);
}

int
cmd_stop(struct cli *cli, int argc, char **argv)
{
	bool force = false;
	int ch, status = CLI_OK, r;

	while ((ch = getopt(argc, argv, "f")) != -1) {
		if (ch != 'f')
			return (CLI_SYNTAX);
		force = true;
	}
	if (optind == argc)
		return (CLI_SYNTAX);
	for (int i = optind; i < argc; i++)
		if ((r = stop_one(cli, argv[i], force)) != CLI_OK)
			status = r;
	return (status);
}
