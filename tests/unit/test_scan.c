/*
 * The scanner for secrets.  No example is whole in this file: they are put
 * together here, so that no scanner takes the test for a leak.
 */
#include <unistd.h>

#include "sbxd/judge/scan_parts.h"
#include "tests/tap.h"

/* Letters and digits as a generator gives them. */
#define B4 "q7Rz"
#define B10 "aB3kZ9mX2w"
#define B16 "k2Jf8Qp5Zt1Wv9Xc"
#define B20 B16 B4
#define B22 B20 "7d"
#define B24 B20 "h8Lm"
#define B30 B20 B10
#define B32 B16 "Lr6Ny3Hs0Gb4Md7e"
#define B36 B32 B4
#define B48 B32 B16
#define B64 B32 "u8Vi2Oe5Tk9Pa1Cy7Fz3Kq6Bw0Dn4Jx8"
#define H8 "3f9ac41e"
#define H16 H8 "b07d52c8"
#define H32 H16 "e16a94f07b3d285c"
#define H64 H32 H32
#define D10 "8401739265"
#define BECH20 "K7QWERT2YXCV5QNMJ3LP"

struct seen {
	unsigned n;
	char rule[16][64];
	unsigned line[16];
	char print[16][65];
	unsigned limits;
};

static void
see(void *ctx, const struct scan_finding *f)
{
	struct seen *s = ctx;

	s->limits += strcmp(f->rule, "scan-limit") == 0;
	if (s->n < 16) {
		(void)snprintf(s->rule[s->n], 64, "%s", f->rule);
		s->line[s->n] = f->line;
		memcpy(s->print[s->n], f->fingerprint, 65);
	}
	s->n++;
}

static int
scan_pieces(struct scan *s, const char *path, const char *old, const char *p,
    size_t n, size_t piece, struct seen *ret)
{
	int r = 0;

	memset(ret, 0, sizeof(*ret));
	scan_begin(s, path, old, old != NULL ? strlen(old) : 0, see, ret);
	for (size_t at = 0; at < n && r == 0; at += piece)
		r = scan_add(s, p + at, n - at < piece ? n - at : piece);
	return (scan_end(s) != 0 ? -1 : r);
}

static void
scan_text(struct scan *s, const char *text, struct seen *ret)
{
	(void)scan_pieces(s, "src/a.c", NULL, text, strlen(text), SIZE_MAX / 2,
	    ret);
}

static bool
has(const struct seen *s, const char *rule)
{
	for (unsigned i = 0; i < s->n && i < 16; i++)
		if (strcmp(s->rule[i], rule) == 0)
			return (true);
	return (false);
}

static struct scan *
must_new(const char *rules)
{
	char reason[SCAN_REASON];
	struct scan *s = scan_new(rules, strlen(rules), reason);

	if (s == NULL)
		ok(false, "rules were refused: %s", reason);
	return (s);
}

/* --- the built-in rules ------------------------------------------------------------ */

#define PEM(what) "-----BEGIN " what "PRIVATE KEY-----\n"
static const struct {
	const char *rule, *yes, *no[3];
} examples[] = {
	{ "github-token", "t = \"ghp_" B36 "\"", { "ghp_" B30, "the ghp_ prefix",
	    "gh" "q_" B36 } },
	{ "github-app-token", "ghs_" "123456_eyJhbGciOi.eyJpc3MiOiJ4." B20 "_-x",
	    { "ghs_" B20, "ghs_token_of_app" } },
	{ "github-fine-grained-token", "github_pat_" B22 "_" B36 B22,
	    { "github_pat_" B22, "github_pat_ " B64 } },
	{ "gitlab-token", "glpat-" B20, { "glpat-" B10, "glpax-" B20 } },
	{ "gitlab-runner-registration", "GR1348941" B20, { "GR1348941" B10,
	    "GR134894" B20 } },
	{ "atlassian-token", "ATATT3" B64, { "ATATT3" B30, "ATATT" B64 } },
	{ "aws-access-key-id", "id AKIA" "K7QWERT2YXCV5BNM end", {
	    "AKIA" "IOSFODNN7EXAMPLE", "AKIA" "AAAAAAAAAAAAAAAA",
	    "xAKIA" "K7QWERT2YXCV5BNM" } },
	{ "aws-secret-access-key", "aws_secret_access_key = " B32 "T/u+8Zp1",
	    { "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY"
	    "EXAMPLEKEY", "aws_secret_access_key = " B32, "sha1 " B32
	    "T/u+8Zp1" } },
	{ "gcp-api-key", "AIza" B32 "x-_", { "AIza" B32, "AIza" B36 "x" } },
	{ "gcp-oauth-client-secret", "GOCSPX-" B22 "-_ab9X", { "GOCSPX-" B20,
	    "GOCSP-" B30 } },
	{ "gcp-access-token", "ya29." B30, { "ya29." B20, "xya29." B30 } },
	{ "gcp-service-account", "\"private_key_id\": \"" H32 H8 "\"",
	    { "\"private_key_id\": \"" H32 "\"", "\"key_id\": \"" H32 H8 "\"" } },
	{ "azure-storage-key", "AccountKey=" B64 B22 "==;", { "AccountKey=" B22
	    "==", "AccountKey=" B64 B22 } },
	{ "azure-shared-access-key", "SharedAccessKey=" B32 B10 "z=", {
	    "SharedAccessKey=" B32 "=", "SharedAccessKeyName=" B32 B10 "z=" } },
	{ "azure-sas-signature", "?sv=1&sig=" B36 "%2Ba%3D", { "&sig=" B36
	    "%2Ba", "sig=" B36 "%2Ba%3D" } },
	{ "azure-client-secret", "x: aB38Q" "~" B32, { "aB38Q" "~" B20,
	    "aB3xQ" "~" B32 } },
	{ "azure-devops-token", B64 B10 "q7" "AZDO" B4, { B64 "AZDO" B4,
	    B64 B10 "q7" "AZDP" B4 } },
	{ "digitalocean-token", "dop" "_v1_" H64, { "dop" "_v1_" H32,
	    "doq" "_v1_" H64 } },
	{ "heroku-key", "HRKU-" "AA" B48 B10, { "HRKU-" "AA" B48,
	    "HRKU-" "BB" B48 B10 } },
	{ "heroku-key-old", "HEROKU_API_KEY=" H8 "-4e1f-49d2-8ab7-c0d3e5f71924",
	    { "HEROKU_APP=" H8, "id=" H8 "-4e1f-49d2-8ab7-c0d3e5f71924" } },
	{ "vault-token", "hvs." B64 B30, { "hvs." B64, "xhvs." B64 B30 } },
	{ "terraform-token", B10 B4 ".atlas" "v1." B64, { B10 ".atlas" "v1."
	    B64, B10 B4 ".atlas" "v1." B32 } },
	{ "anthropic-key", "sk-ant-" "api03-" B64 B24 "-AA", { "sk-ant-" "api03-"
	    B64, "sk-ant-" "key-" B64 B24 } },
	{ "openai-key", "sk-proj-" B64, { "sk-proj-" B30, "ask-proj-" B64,
	    "sk-" B20 "T3Blbk" B24 } },
	{ "huggingface-token", "hf_" "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
	    { "hf_" "aBcDeFgHiJkLmNoPq", "xhf_"
	    "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH" } },
	{ "groq-key", "gsk_" B48 B4, { "gsk_" B48, "xgsk_" B48 B4 } },
	{ "slack-token", "xoxb-" "123456789012-" B24, { "xoxb-" "1234567890",
	    "xoxz-" "123456789012-" B24, "xoxb-" "xxxxxxxxxxxxxxxxxxxxxxxx" } },
	{ "slack-configuration-token", "xoxe.xoxp-" "1-" B64 B48, {
	    "xoxe.xoxp-" "1-" B64, "xoxe.xoxc-" "1-" B64 B48 } },
	{ "slack-app-token", "xapp-" "1-A0B1C2D3E4F-1234567890123-" H32, {
	    "xapp-" "1-A0B1C2D3E4F-1234567890123-" H16, "xapp-" "x" } },
	{ "slack-webhook", "https://hooks.slack.com/services/" "T01ABCDEF2/"
	    "B01ABCDEF2/" B24, { "https://hooks.slack.com/services/" "T0/B0/"
	    B24, "https://hooks.slack.com/services/" "T00000000/B00000000/"
	    "XXXXXXXXXXXXXXXXXXXXXXXX" } },
	{ "stripe-key", "sk_live_" B24, { "sk_live_" B10, "risk_live_" B24 } },
	{ "stripe-webhook-secret", "whsec_" B32, { "whsec_" B20, "xwhsec_" B32 } },
	{ "twilio-key", "SK" H32, { "SK" H16, "TASK" H32 } },
	{ "twilio-auth-token", "TWILIO_AUTH_TOKEN=" H32, { "TWILIO_AUTH_TOKEN="
	    H16, "OTHER=" H32 } },
	{ "sendgrid-key", "SG." B22 "." B32 B10 "-", { "SG." B20 "." B32 B10 "-",
	    "SG." B22 "." B32 } },
	{ "mailgun-key", "key-" H32, { "key-" H16, "monkey-" H32 } },
	{ "mailgun-key-new", "mailgun: " H32 "-" H8 "-" H8, { "mailgun: " H32 "-"
	    H8, "other: " H32 "-" H8 "-" H8 } },
	{ "telegram-bot-token", D10 ":AA" B32 "x", { D10 ":AA" B32, "12345:AA"
	    B32 "x" } },
	{ "discord-bot-token", "discord MT" B22 "." "Gx-1_z." B30, { "discord AT"
	    B22 "." "Gx-1_z." B30, "other MT" B22 "." "Gx-1_z." B30 } },
	{ "discord-webhook", "https://discord.com/api/webhooks/" D10 D10 "/" B64,
	    { "https://discord.com/api/webhooks/" D10 "/" B64,
	    "https://discord.com/api/webhooks/" D10 D10 "/" B32 } },
	{ "shopify-token", "shpat_" H32, { "shpat_" H16, "shpxx_" H32 } },
	{ "npm-token", "npm_" B36, { "npm_" B32, "xnpm_" B36 } },
	{ "pypi-token", "pypi-" "AgEIcHlwaS5vcmc" B48, { "pypi-" "AgEI",
	    "pypi-" "server-name-with-a-long-tail-that-goes-on-and-on-and-on" } },
	{ "rubygems-key", "rubygems_" H32 H16, { "rubygems_" H32,
	    "rubygem_" H32 H16 } },
	{ "docker-token", "dckr_pat_" B24 "-_x", { "dckr_pat_" B20,
	    "dckr_xat_" B30 } },
	{ "private-key", PEM("RSA ") B64 "\n" B64 "\n", { PEM("") "...\n",
	    PEM("RSA ") "MIIE...\n-----END", "-----BEGIN PUBLIC KEY-----\n" B64 } },
	{ "putty-private-key", "Private-Lines: 14\r\n" B64, {
	    "Private-Lines: none", "Public-Lines: 6\n" B64 } },
	{ "age-secret-key", "AGE-SECRET-" "KEY-1" BECH20 BECH20 "QPZRY9X8GF2TVDW0SX",
	    { "AGE-SECRET-" "KEY-1QQQ", "AGE-SECRET-" "KEY-1"
	    "qpzry9x8gf2tvdw0s3jn54khce6mua7lqpzry9x8gf2tvdw0s3jn54khce6m" } },
	{ "jwt", "eyJ" "hbGciOiJIUzI1NiJ9.eyJ" "zdWIiOiJ4In0xyz." B32, {
	    "eyJ" "hbGciOiJIUzI1NiJ9.eyJ" "zdWIiOiJ4In0xyz",
	    "eyJ" "hbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ"
	    "zdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_"
	    "adQssw5c" } },
	{ "url-password", "postgres://app:" B10 "@db.internal/x", {
	    "postgres://app:${PASSWORD}@db", "postgres://postgres:postgres@db",
	    "https://example.com:8443/@scope/x" } },
	{ "generic-secret", "api_key: \"" B20 "\"", {
	    "api_key: \"your_key_goes_here\"", "token = self.tokens.next2.value",
	    "password = \"aaaaaaaa1aaaaaaa\"" } },
	{ "generic-secret", "DB_PASSWORD=" B24 "\n", { "DB_PASSWORD=${SECRET_X1}",
	    "TOKEN=$(cat /run/token1)", "token = make_token_of_user1(aB3, x)" } },
};

static void
test_examples(void)
{
	char reason[SCAN_REASON];
	struct scan *s = scan_new(NULL, 0, reason);
	struct seen got;

	if (!ok(s != NULL, "the built-in rules are read: %s", reason))
		return;
	for (size_t i = 0; i < SBX_NELEM(examples); i++) {
		scan_text(s, examples[i].yes, &got);
		ok(has(&got, examples[i].rule) && got.line[0] >= 1,
		    "%s: found, with %u", examples[i].rule, got.n);
		for (int k = 0; k < 3 && examples[i].no[k] != NULL; k++) {
			scan_text(s, examples[i].no[k], &got);
			ok(!has(&got, examples[i].rule), "%s: not in no. %d",
			    examples[i].rule, k + 1);
		}
	}
	scan_free(s);
}

static void
test_all_have_examples(void)
{
	struct rules *r = sbx_xcalloc(1, sizeof(*r));
	char reason[SCAN_REASON] = "";
	size_t lacking = 0;

	ok(rules_read(r, rules_builtin, rules_builtin_len, reason) == 0,
	    "%zu rules %s", r->n, reason);
	for (size_t i = 0; i < r->n; i++) {
		size_t k = 0;

		while (k < SBX_NELEM(examples) &&
		    strcmp(examples[k].rule, r->v[i].id) != 0)
			k++;
		if (k < SBX_NELEM(examples))
			continue;
		lacking++;
		printf("# %s\n", r->v[i].id);
	}
	ok(r->n > 40 && lacking == 0, "each of them has examples");
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].regex->words.n == 0)
			printf("# tried everywhere: %s\n", r->v[i].id);
	rules_free(r);
	free(r);
}

/* --- what changes nothing ------------------------------------------------------------ */

static void
test_splits(void)
{
	static const char text[] = "first\n" PEM("EC ") B64 "\n" B64
	    "\n-----END EC PRIVATE KEY-----\nkey = \"ghp_" B36 "\"\n";
	char reason[SCAN_REASON];
	struct scan *s = scan_new(NULL, 0, reason);
	struct seen one, got;
	size_t bad = 0;

	scan_text(s, text, &one);
	ok(has(&one, "private-key") && has(&one, "github-token"), "both found");
	for (size_t i = 1; i < sizeof(text); i++) {
		(void)scan_pieces(s, "src/a.c", NULL, text, sizeof(text) - 1, i,
		    &got);
		bad += memcmp(&got, &one, sizeof(got)) != 0;
	}
	ok(bad == 0, "the same in pieces of every size");
	scan_free(s);
}

int
main(void)
{
	struct scan *s = must_new("[[rules]]\nid='a'\nregex='''(?m)^BEGIN'''\n");

	scan_free(s);
	tap_plan(0);
	test_examples();
	test_all_have_examples();
	test_splits();
	return (tap_done());
}
