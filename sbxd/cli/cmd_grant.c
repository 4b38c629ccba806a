/* grant: one push, from one sandbox, of one commit to one ref */
#include "sbxd/cli/cli.h"
#include "sbxd/cli/ctl.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ANSWER_MS 20000		/* the monitor gives up after 15 s, and says so */
#define LIFE_S 60u
#define LIFE_MAX_S 3600u

struct options {
	const char *old_id;
	bool force;
	uint64_t seconds;
};

static int
take_options(int argc, char **argv, struct options *o, struct sbx_err *err)
{
	int opt;

	o->seconds = LIFE_S;
	o->old_id = NULL;
	while ((opt = getopt(argc, argv, "fo:t:")) != -1)
		switch (opt) {
		case 'f': o->force = true; break;
		case 'o': o->old_id = optarg; break;
		case 't':
			if (sbx_parse_u64(optarg, 1, LIFE_MAX_S,
			    &o->seconds) != 0)
				return (sbx_err_set(err, SBX_E_RANGE, "-t is 1 "
				    "to %u seconds", LIFE_MAX_S));
			break;
		default: return (CLI_SYNTAX);
		}
	return (argc - optind == 4 ? 0 : CLI_SYNTAX);
}

static bool
is_oid(const char *s)
{
	return (sbx_is_hex(s, 40) || sbx_is_hex(s, 64));
}

bool
cli_is_ref(const char *s)
{
	size_t n = strncmp(s, "refs/heads/", 11) == 0 ? 11 :
	    strncmp(s, "refs/tags/", 10) == 0 ? 10 : 0;

	return (n > 0 && s[n] != '\0');
}

/* What the proxy holds a push to, with a sentence for each. */
static int
check(char **argv, const char *old_id, struct sbx_err *err)
{
	const char *ref = argv[1], *new_id = argv[2];

	if (!cli_is_ref(ref))
		return (sbx_err_set(err, SBX_E_SYNTAX, "write the whole name "
		    "of the ref: refs/heads/%.100s, or refs/tags/...", ref));
	if (!is_oid(new_id) || (old_id != NULL && !is_oid(old_id)))
		return (sbx_err_set(err, SBX_E_SYNTAX, "\"%.70s\" is no whole "
		    "id of a commit (40 or 64 hexadecimal digits): `git "
		    "rev-parse` prints it", is_oid(new_id) ? old_id : new_id));
	if (old_id != NULL && strlen(old_id) != strlen(new_id))
		return (sbx_err_set(err, SBX_E_SYNTAX, "the ids are not of "
		    "one kind: 40 digits or 64, both"));
	if (strspn(new_id, "0") == strlen(new_id))
		return (sbx_err_set(err, SBX_E_SYNTAX, "no grant deletes a "
		    "ref: the new id is all zeros"));
	return (0);
}

void
cli_repo(char *text, const char **ret_host, const char **ret_repo)
{
	char *first = strchr(text, '/');

	for (char *p = text; *p != '\0'; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p += 'a' - 'A';
	*ret_host = "github.com";
	*ret_repo = text;
	if (first == NULL || strchr(first + 1, '/') == NULL)
		return;
	*first = '\0';
	*ret_host = text;
	*ret_repo = first + 1;
}

int
cmd_grant(struct cli *cli, int argc, char **argv)
{
	static const char zeros[] = "0000000000000000000000000000000000000000"
	    "000000000000000000000000";
	struct options o = { 0 };
	struct sbx_ctl_grant m = { .uses = 1 };
	struct sbx_err err = { 0 };
	struct client client;
	struct sbx_chan c;
	char id[16];
	size_t n;
	int r, slot;

	if ((r = take_options(argc, argv, &o, &err)) != 0)
		return (r == CLI_SYNTAX ? r : cli_fail(CLI_USAGE, &err));
	argv += optind;
	if (check(argv + 1, o.old_id, &err) != 0)
		return (cli_fail(CLI_USAGE, &err));
	cli_repo(argv[1], &m.host, &m.repo);
	m.ref = argv[2];
	m.new_id = argv[3];
	n = strlen(m.new_id);
	m.old_id = o.old_id != NULL ? o.old_id :
	    zeros + (n < 64 ? 64 - n : 0);
	m.force = o.force;
	m.lifetime_ms = (uint32_t)o.seconds * 1000;
	if ((r = cli_find(cli, argv[0], &client, id, &err)) != 0)
		return (cli_fail(CLI_PEER, &err));
	slot = client.slot;
	client_close(&client);
	m.container = id;
	if ((r = ctl_open(cli, slot, &c, &err)) != 0)
		return (cli_fail(CLI_PEER, &err));
	r = sbx_chan_send(&c, SBX_MSG_CTL_GRANT, 1, &m, NULL, ANSWER_MS);
	if (r != 0)
		(void)sbx_err_set(&err, r, "the grant cannot be sent: %s",
		    sbx_error_name(r));
	else if ((r = ctl_expect(&c, SBX_MSG_CTL_GRANTED, ANSWER_MS,
	    &err)) == 0)
		(void)printf("granted %s: one push of %.12s to %s of %s/%s, "
		    "within %u s\n", c.in->m.ctl_granted.grant, m.new_id,
		    m.ref, m.host, m.repo, (unsigned)o.seconds);
	sbx_chan_clear(&c);
	return (r == 0 ? CLI_OK : ctl_fail(CLI_PEER, &err));
}
