/* doctor: each prerequisite, tried; what is missing comes with its mend */
#include "config.h"
#include "sbxd/cli/doctor.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FORMAT_VERSION 1	/* of --json */

static const char *const state_names[DOCTOR_STATE_MAX] = {
	[DOCTOR_FOUND] = "found", [DOCTOR_MISSING] = "missing",
	[DOCTOR_UNTRIED] = "untried" };

struct report {
	struct doctor d;
	struct doctor_result *results;	/* as doctor_checks */
	bool *asked;
	unsigned missing, less;		/* essential, optional */
};

/* --- trying ---------------------------------------------------------------------- */

static bool
is_essential(const struct doctor_check *c, const struct doctor_result *r)
{
	return (r->grave || (c->weight == DOCTOR_ESSENTIAL && !r->minor));
}

/* Is a row missing that c needs?  Its name, or NULL. */
static const char *
needed(const struct report *rep, const struct doctor_check *c)
{
	const char *at;
	size_t len;

	for (size_t i = 0; c->needs != NULL && i < doctor_nchecks; i++) {
		const char *name = doctor_checks[i].name;

		len = strlen(name);
		for (at = c->needs; (at = strstr(at, name)) != NULL; at += len)
			if ((at == c->needs || at[-1] == ' ') &&
			    (at[len] == ' ' || at[len] == '\0') &&
			    rep->asked[i] && rep->results[i].state !=
			    DOCTOR_FOUND && !rep->results[i].minor)
				return (name);
	}
	return (NULL);
}

static void
try_one(struct report *rep, size_t i)
{
	const struct doctor_check *c = &doctor_checks[i];
	struct doctor_result *r = &rep->results[i];
	const char *other = needed(rep, c);

	rep->asked[i] = true;
	if (other != NULL) {
		*r = (struct doctor_result){ .state = DOCTOR_UNTRIED };
		doctor_detail(r, "not tried: it needs %s", other);
		return;
	}
	doctor_try(&rep->d, c, r);
	if (r->state != DOCTOR_MISSING)
		return;
	if (r->mend[0] == '\0')
		doctor_mend(r, "%s", c->mend);
	if (is_essential(c, r))
		rep->missing++;
	else
		rep->less++;
}

/* --- as text --------------------------------------------------------------------- */

/* Each line of the mend behind its own margin, so that it can be pasted. */
static void
print_mend(const char *mend)
{
	size_t len;

	for (; *mend != '\0'; mend += len + (mend[len] == '\n')) {
		len = strcspn(mend, "\n");
		printf("            %.*s\n", (int)len, mend);
	}
}

static void
print_row(const struct report *rep, size_t i)
{
	const struct doctor_check *c = &doctor_checks[i];
	const struct doctor_result *r = &rep->results[i];

	printf("%-7s %-18s %s%s%s\n", r->state == DOCTOR_FOUND ? "ok" :
	    r->state == DOCTOR_UNTRIED ? "-" : is_essential(c, r) ? "MISSING" :
	    "less", c->name, c->what, r->detail[0] == '\0' ? "" : ": ",
	    r->detail);
	if (r->state != DOCTOR_MISSING)
		return;
	if (r->error != 0)
		printf("        failed:  %s: %s (%s)\n", r->call,
		    strerrorname_np(r->error), strerror(r->error));
	else
		printf("        failed:  %s\n", r->call);
	printf("        without: %s\n", c->lost);
	if (r->mend[0] != '\0') {
		printf("        mend:\n");
		print_mend(r->mend);
	}
}

static bool
is_running(const struct cli *cli, int slot)
{
	struct sbx_err err;
	struct client c;

	if (client_open(cli, slot, &c, &err) != 0)
		return (false);
	client_close(&c);
	return (true);
}

static void
print_text(const struct report *rep)
{
	const struct cli *cli = rep->d.cli;

	for (size_t i = 0; i < doctor_nchecks; i++)
		if (rep->asked[i])
			print_row(rep, i);
	printf("state   %s\nrun     %s\nconfig  %s/sbx.conf\n",
	    cli->paths.state, cli->paths.run, cli->paths.etc);
	for (int slot = 0; slot < SBX_MAX_SLOTS; slot++)
		if (is_running(cli, slot))
			printf("suite   %d is running\n", slot);
	if (rep->missing > 0)
		printf("%u missing: mend as root what is MISSING, then run "
		    "this again\n", rep->missing);
	else if (rep->less > 0)
		printf("nothing essential is missing; %u could be better\n",
		    rep->less);
	else
		printf("nothing is missing\n");
}

/* --- as JSON --------------------------------------------------------------------- */

static void
add(struct json_object *o, const char *name, const char *text)
{
	json_object_object_add(o, name, json_object_new_string(text));
}

static struct json_object *
lines(const char *text)
{
	struct json_object *list = json_object_new_array();
	size_t len;

	for (; *text != '\0'; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		json_object_array_add(list,
		    json_object_new_string_len(text, (int)len));
	}
	return (list);
}

static struct json_object *
row_json(const struct doctor_check *c, const struct doctor_result *r)
{
	struct json_object *o = json_object_new_object();
	bool missing = r->state == DOCTOR_MISSING;
	const char *name = missing ? strerrorname_np(r->error) : NULL;

	add(o, "name", c->name);
	add(o, "what", c->what);
	add(o, "state", state_names[r->state]);
	json_object_object_add(o, "essential",
	    json_object_new_boolean(missing ? is_essential(c, r) :
	    c->weight == DOCTOR_ESSENTIAL));
	add(o, "detail", r->detail);
	add(o, "call", missing ? r->call : "");
	add(o, "errno", name == NULL || r->error == 0 ? "" : name);
	add(o, "without", missing ? c->lost : "");
	json_object_object_add(o, "mend", lines(missing ? r->mend : ""));
	json_object_object_add(o, "ms", json_object_new_int((int)r->ms));
	return (o);
}

static void
print_json(const struct report *rep)
{
	const struct cli *cli = rep->d.cli;
	struct json_object *o = json_object_new_object();
	struct json_object *rows = json_object_new_array();
	struct json_object *suites = json_object_new_array();

	json_object_object_add(o, "version",
	    json_object_new_int(FORMAT_VERSION));
	add(o, "sbx", PACKAGE_VERSION);
	json_object_object_add(o, "missing",
	    json_object_new_int((int)rep->missing));
	json_object_object_add(o, "less", json_object_new_int((int)rep->less));
	add(o, "state", cli->paths.state);
	add(o, "run", cli->paths.run);
	add(o, "config", cli->paths.etc);
	for (int slot = 0; slot < SBX_MAX_SLOTS; slot++)
		if (is_running(cli, slot))
			json_object_array_add(suites,
			    json_object_new_int(slot));
	json_object_object_add(o, "suites", suites);
	for (size_t i = 0; i < doctor_nchecks; i++)
		if (rep->asked[i])
			json_object_array_add(rows,
			    row_json(&doctor_checks[i], &rep->results[i]));
	json_object_object_add(o, "checks", rows);
	printf("%s\n", json_object_to_json_string_ext(o,
	    JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
}

int
cmd_doctor(struct cli *cli, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' }, { 0 } };
	struct report rep = { 0 };
	bool json = false;
	int ch;

	while ((ch = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (ch != 'j')
			return (CLI_SYNTAX);
		json = true;
	}
	if (optind != argc)
		return (CLI_SYNTAX);
	rep.results = sbx_xcalloc(doctor_nchecks, sizeof(*rep.results));
	rep.asked = sbx_xcalloc(doctor_nchecks, sizeof(*rep.asked));
	doctor_begin(&rep.d, cli);
	for (size_t i = 0; i < doctor_nchecks; i++)
		if (!doctor_checks[i].root_only || geteuid() == 0)
			try_one(&rep, i);
	doctor_end(&rep.d);
	if (json)
		print_json(&rep);
	else
		print_text(&rep);
	free(rep.results);
	free(rep.asked);
	return (fflush(stdout) != 0 || rep.missing > 0 ? CLI_FATAL : CLI_OK);
}
