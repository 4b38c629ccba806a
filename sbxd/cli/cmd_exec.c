/* exec: one command, its whole stored output, its exit status */
#include "common/base/limits.h"
#include "sbxd/cli/cli.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CALL_TIMEOUT_MS 60000	/* no tool takes longer than 45 s */
#define PAGE_LINES 2000
#define STDIN_MAX (1u << 20)

/* Print a stored stream, page by page; it was recorded outside the sandbox,
 * and the page is cleaned of what a terminal would obey. */
static int
print_stream(struct client *c, const char *run, const char *stream, FILE *out,
    struct sbx_err *err)
{
	int64_t offset = 0;

	while (offset >= 0) {
		struct json_object *args = json_object_new_object(), *res;
		int r;

		json_object_object_add(args, "run_id",
		    json_object_new_string(run));
		json_object_object_add(args, "stream",
		    json_object_new_string(stream));
		json_object_object_add(args, "offset",
		    json_object_new_int64(offset));
		json_object_object_add(args, "limit",
		    json_object_new_int64(PAGE_LINES));
		r = client_call(c, "read_output", args, CALL_TIMEOUT_MS, &res,
		    err);
		if (r == 0) {
			(void)fputs(client_str(res, "output"), out);
			offset = client_int(res, "next_offset", -1);
		}
		json_object_put(res);
		if (r != 0)
			return (r);
	}
	(void)fflush(out);
	return (0);
}

/* Poll a command that outlived its call until it ended. */
static int
wait_job(struct client *c, const char *id, const char *run,
    struct json_object **res, struct sbx_err *err)
{
	while (strcmp(client_str(*res, "status"), "running") == 0) {
		struct json_object *args = json_object_new_object();
		int r;

		(void)usleep(200000);
		json_object_put(*res);
		json_object_object_add(args, "container_id",
		    json_object_new_string(id));
		json_object_object_add(args, "job_id",
		    json_object_new_string(run));
		r = client_call(c, "sandbox_exec_check", args, CALL_TIMEOUT_MS,
		    res, err);
		if (r != 0)
			return (r);
	}
	return (0);
}

static int
run_one(struct client *c, const char *id, struct json_object *args)
{
	struct json_object *res;
	struct sbx_err err;
	char run[SBX_RUN_HEX + 1], status[16];
	int r, code;

	json_object_object_add(args, "container_id",
	    json_object_new_string(id));
	r = client_call(c, "sandbox_exec", args, CALL_TIMEOUT_MS, &res, &err);
	if (r == 0)
		r = sbx_strlcpy(run, client_str(res, "run_id"), sizeof(run));
	if (r == 0)
		r = wait_job(c, id, run, &res, &err);
	if (r != 0) {
		json_object_put(res);
		return (cli_fail(CLI_FATAL, &err));
	}
	code = (int)client_int(res, "exit_code", 0);
	(void)sbx_strlcpy(status, client_str(res, "status"), sizeof(status));
	json_object_put(res);
	if (print_stream(c, run, "stdout", stdout, &err) != 0 ||
	    print_stream(c, run, "stderr", stderr, &err) != 0)
		return (cli_fail(CLI_FATAL, &err));
	if (strcmp(status, "timeout") == 0) {
		fprintf(stderr, "sbx: killed at its timeout\n");
		return (124);	/* as timeout(1) */
	}
	return (code);
}

static int
add_stdin(struct json_object *args)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char chunk[16384];
	ssize_t n;

	sbx_buf_init(&b, STDIN_MAX);
	while ((n = read(STDIN_FILENO, chunk, sizeof(chunk))) > 0)
		if (sbx_buf_add(&b, chunk, (size_t)n) != 0) {
			fprintf(stderr, "sbx: -i takes at most %u bytes; use "
			    "copy_file for more\n", STDIN_MAX);
			return (-1);
		}
	json_object_object_add(args, "stdin", json_object_new_string_len(
	    b.data != NULL ? b.data : "", (int)b.len));
	return (0);
}

int
cmd_exec(struct cli *cli, int argc, char **argv)
{
	struct json_object *args = json_object_new_object(),
			   *words = json_object_new_array();
	struct sbx_err err;
	struct client c;
	char id[16];
	uint64_t v;
	int ch, status;

	while ((ch = getopt(argc, argv, "+iw:t:")) != -1) {
		if (ch == 'w')
			json_object_object_add(args, "working_dir",
			    json_object_new_string(optarg));
		else if (ch == 't' && sbx_parse_u64(optarg, 1, 86400, &v) == 0)
			json_object_object_add(args, "timeout",
			    json_object_new_int64((int64_t)v));
		else if (ch != 'i') {
			if (ch == 't')
				fprintf(stderr, "sbx: -t takes 1 to 86400 "
				    "seconds\n");
			return (CLI_SYNTAX);
		}
		else if (add_stdin(args) != 0)
			return (CLI_USAGE);
	}
	if (argc - optind >= 2 && strcmp(argv[optind + 1], "--") == 0) {
		argv[optind + 1] = argv[optind];
		optind++;
	}
	if (argc - optind < 2)
		return (CLI_SYNTAX);
	for (int i = optind + 1; i < argc; i++)
		json_object_array_add(words, json_object_new_string(argv[i]));
	json_object_object_add(args, "argv", words);
	if (cli_find(cli, argv[optind], &c, id, &err) != 0)
		return (cli_fail(CLI_USAGE, &err));
	status = run_one(&c, id, args);
	client_close(&c);
	return (status);
}
