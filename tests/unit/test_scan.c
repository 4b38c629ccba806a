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
		ok(r->v[i].regex->words.n > 0, "%s is found by words",
		    r->v[i].id);
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

/* What one text of rules and one file come to: the first rule, "" for none. */
static const char *
first_of(const char *rules, const char *path, const char *old, const char *text)
{
	static struct seen got;
	struct scan *s = must_new(rules);

	if (s == NULL)
		return ("refused");
	(void)scan_pieces(s, path, old, text, strlen(text), SIZE_MAX / 2, &got);
	scan_free(s);
	return (got.n == 0 ? "" : got.rule[0]);
}

/* --- windows ------------------------------------------------------------------------- */

/* Tokens all over a long file, at each place where windows meet. */
static void
test_windows(void)
{
	static const char token[] = "ghp_" B36;
	const size_t n = 3 * SCAN_WINDOW, at[] = { 0, SCAN_MAX_MATCH - 20,
		SCAN_WINDOW - 41, SCAN_WINDOW, SCAN_WINDOW + SCAN_MAX_MATCH - 7,
		SCAN_WINDOW + SCAN_MAX_MATCH + 60,
		SCAN_WINDOW + 2 * SCAN_MAX_MATCH - 39, 2 * SCAN_WINDOW - 3,
		2 * SCAN_WINDOW + SCAN_MAX_MATCH - 1, n - sizeof(token) };
	char *p = sbx_xcalloc(1, n), reason[SCAN_REASON];
	struct scan *s = scan_new(NULL, 0, reason);
	struct seen one, got;
	unsigned line = 1, k = 0;
	bool right = true;

	for (size_t i = 0; i < n; i++)
		p[i] = i % 77 == 76 ? '\n' : ' ';
	for (size_t i = 0; i < SBX_NELEM(at); i++)
		memcpy(p + at[i], token, sizeof(token) - 1);
	(void)scan_pieces(s, "a", NULL, p, n, n, &one);
	ok(one.n == SBX_NELEM(at), "%u of %zu", one.n, SBX_NELEM(at));
	for (size_t i = 0; i < n && k < one.n; i++) {
		if (k < SBX_NELEM(at) && i == at[k])
			right = right && one.line[k++] == line;
		line += p[i] == '\n';
	}
	ok(right && k == one.n, "on their lines");
	(void)scan_pieces(s, "a", NULL, p, n, 4093, &got);
	ok(memcmp(&one, &got, sizeof(got)) == 0, "the same in small pieces");
	free(p);
	scan_free(s);
}

/* One line of 100 MiB, and a key at its end. */
static void
test_long_line(void)
{
	static char block[1 << 20];
	char reason[SCAN_REASON];
	struct scan *s = scan_new(NULL, 0, reason);
	struct seen got = { 0 };
	uint64_t began = sbx_mono_ns();
	int r = 0;

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = i % 127 > 10 ? "etaoins"[i % 7] :
		    "token=(a); "[i % 127];
	scan_begin(s, "a.min.js", "other\n", 6, see, &got);
	for (int i = 0; i < 100 && r == 0; i++)
		r = scan_add(s, block, sizeof(block));
	r |= scan_add(s, "\"ghp_" B36 "\"", 42);
	ok(scan_end(s) == 0 && r == 0 && got.n == 1 && got.line[0] == 1,
	    "a line of 100 MiB in %llu ms", (unsigned long long)(sbx_mono_ns() -
	    began) / 1000000);
	scan_free(s);
}

/* --- forms of text --------------------------------------------------------------------- */

static size_t
utf16(const char *text, bool big, char *dst)
{
	size_t n = 0;

	dst[n++] = big ? '\xfe' : '\xff';
	dst[n++] = big ? '\xff' : '\xfe';
	for (; *text != '\0'; text++) {
		dst[n + big] = *text;
		dst[n + !big] = '\0';
		n += 2;
	}
	return (n);
}

static void
test_forms(void)
{
	static const char text[] = "a\nb: \"ghp_" B36 "\"\n";
	static const char nuls[] = "\0\1\0ghp_" B36 "\0\n";
	char wide[2 * sizeof(text) + 2], reason[SCAN_REASON];
	struct scan *s = scan_new(NULL, 0, reason);
	struct seen got;
	size_t n;

	for (int big = 0; big < 2; big++) {
		size_t bad = 0;

		n = utf16(text, big, wide);
		for (size_t piece = 1; piece < 9; piece++) {
			(void)scan_pieces(s, "a", NULL, wide, n, piece, &got);
			bad += got.n != 1 || got.line[0] != 2;
		}
		ok(bad == 0, "UTF-16 of %s end", big ? "the big" : "the little");
		memset(&got, 0, sizeof(got));
		scan_begin(s, "a", wide, n, see, &got);
		(void)scan_add(s, text, sizeof(text) - 1);
		ok(scan_end(s) == 0 && got.n == 0, "old, in UTF-16");
	}
	scan_text(s, "a\r\nb: \"ghp_" B36 "\"\r\n", &got);
	ok(got.n == 1 && got.line[0] == 2, "CRLF");
	(void)scan_pieces(s, "a.bin", NULL, nuls, sizeof(nuls) - 1, 7, &got);
	ok(has(&got, "github-token"), "between NULs");
	(void)scan_pieces(s, "a", NULL, "", 0, 1, &got);
	ok(got.n == 0, "an empty file");
	(void)scan_pieces(s, "a", NULL, "\xff", 1, 1, &got);
	ok(got.n == 0, "half a mark");
	scan_text(s, "key = \"ghp_" B36 "\" # gitleaks:allow", &got);
	ok(has(&got, "github-token"), "a comment that allows does not count");
	scan_text(s, "api_token = \"ghp_" B36 "\"", &got);
	ok(got.n == 1 && has(&got, "github-token"), "the rule that knows it");
	scan_free(s);
}

static void
encode(const char *p, char *dst)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = 0;
	unsigned have = 0;

	for (; *p != '\0'; p++)
		for (bits = bits << 8 | (uint8_t)*p, have += 8; have >= 6;
		    have -= 6)
			*dst++ = digits[bits >> (have - 6) & 63];
	if (have > 0)
		*dst++ = digits[bits << (6 - have) & 63];
	*dst = '\0';
}

static void
test_base64(void)
{
	static const char *const texts[] = { "ghp_" B36, "x ghp_" B36 "\n",
		"\nxy ghp_" B36 };
	char reason[SCAN_REASON], code[128], text[512];
	struct scan *s = scan_new(NULL, 0, reason);
	struct seen one, got;
	size_t bad = 0, n;

	for (size_t i = 0; i < SBX_NELEM(texts); i++) {
		encode(texts[i], code);
		n = (size_t)snprintf(text, sizeof(text), "data:\n  t: %s%s\n",
		    code, &"=="[i % 3]);
		(void)scan_pieces(s, "a", NULL, text, n, n, &one);
		ok(one.n == 1 && has(&one, "github-token") && one.line[0] == 2,
		    "in base64, with %zu before it", i);
		for (size_t piece = 1; piece < 30; piece++) {
			(void)scan_pieces(s, "a", NULL, text, n, piece, &got);
			bad += memcmp(&one, &got, sizeof(got)) != 0;
		}
		(void)scan_pieces(s, "a", text, text, n, n, &got);
		bad += got.n != 0;
	}
	ok(bad == 0, "the same in pieces, and not new if it is old");
	encode("\001\002ghp_" B36, code);
	scan_text(s, code, &got);
	ok(got.n == 0, "not in what is no text");
	encode("gh", code);
	scan_text(s, code, &got);
	ok(got.n == 0, "not in what is short");
	scan_free(s);
}

/* --- the base ------------------------------------------------------------------------- */

static void
test_old(void)
{
	static const char rules[] = "[[rules]]\nid = 'x'\n"
	    "regex = '''BEGIN[a-z\\s]+END|tok-[0-9]+'''\n";
	static const struct {
		const char *old, *text, *rule, *why;
	} v[] = {
		{ "tok-1\n", "tok-1\n", "", "an old line" },
		{ "tok-1", "\n\ntok-1\nmore", "", "elsewhere" },
		{ "tok-1\r\n", "tok-1\n", "", "with another end of line" },
		{ "tok-1\n", " tok-1\n", "x", "a line that changed" },
		{ "tok-1\n", "tok-12\n", "x", "a longer one" },
		{ "tok-12\n", "tok-1\n", "x", "a shorter one" },
		{ "", "tok-1\n", "x", "an empty base" },
		{ NULL, "tok-1\n", "x", "no base" },
		{ "BEGIN\nab\nEND\n", "BEGIN\nab\nEND\n", "", "three lines" },
		{ "BEGIN\nab\nEND\n", "BEGIN\nac\nEND\n", "x", "one of them new" },
		{ "tok-1\n", "tok-1 tok-2\n", "x", "a second on it" },
	};

	for (size_t i = 0; i < SBX_NELEM(v); i++)
		ok(strcmp(first_of(rules, "a", v[i].old, v[i].text),
		    v[i].rule) == 0, "base: %s", v[i].why);
}

/* --- what rules say ---------------------------------------------------------------------- */

#define RULE "[[rules]]\nid = 'x'\nregex = '''tok-([0-9a-f]+)(=[a-z]+)?'''\n"
#define ALLOW RULE "[[rules.allowlists]]\n"
static const struct {
	const char *rules, *path, *text, *rule, *why;
} says[] = {
	{ RULE, "a", "TOK-1", "", "letters count" },
	{ RULE "keywords = ['ToK']\n", "a", "tok-1", "x", "a keyword in any case" },
	{ RULE "keywords = ['other']\n", "a", "tok-1", "", "no keyword" },
	{ RULE "keywords = ['other']\n", "a", "tok-1 oTHer", "x",
	    "a keyword elsewhere" },
	{ RULE "entropy = 2\n", "a", "tok-1111111", "", "too even" },
	{ RULE "entropy = 2\n", "a", "tok-0123456", "x", "uneven enough" },
	{ RULE "entropy = 2.9\nsecretGroup = 2\n", "a", "tok-0123456789=aa", "",
	    "of the group that is named" },
	{ RULE "path = '''\\.py$'''\n", "a.py", "tok-1", "x", "its path" },
	{ RULE "path = '''\\.py$'''\n", "a.pyc", "tok-1", "", "another path" },
	{ "[[rules]]\nid = 'p'\npath = '''(^|/)id_rsa$'''\n", "x/id_rsa", "", "p",
	    "a path alone" },
	{ "[[rules]]\nid = 'p'\npath = '''(^|/)id_rsa$'''\n", "x/id_rsa2", "", "",
	    "not that path" },
	{ RULE "[rules.allowlist]\nregexes = ['^12$']\n", "a", "tok-12", "",
	    "the secret is allowed" },
	{ RULE "[rules.allowlist]\nregexes = ['^12$']\n", "a", "tok-123", "x",
	    "another is not" },
	{ ALLOW "regexTarget = 'match'\nregexes = ['^tok-12$']\n", "a", "tok-12",
	    "", "by the match" },
	{ ALLOW "regexTarget = 'line'\nregexes = ['^# .*$']\n", "a",
	    "x\n# tok-12 # \ny", "", "by the line" },
	{ ALLOW "regexTarget = 'line'\nregexes = ['^# .*$']\n", "a",
	    "# \n tok-12\n# ", "x", "not by another line" },
	{ ALLOW "stopwords = ['BeE']\n", "a", "tok-1bee2", "",
	    "a word that stops" },
	{ ALLOW "stopwords = ['bee']\n", "a", "bee tok-12", "x",
	    "only in the secret" },
	{ ALLOW "stopwords = ['1']\n[[rules.allowlists]]\nstopwords = ['2']\n",
	    "a", "tok-2", "", "any allowlist" },
	{ ALLOW "paths = ['''^t/''']\n", "t/a", "tok-1", "",
	    "a path that is allowed" },
	{ ALLOW "condition = 'AND'\npaths = ['''^t/''']\nstopwords = ['2']\n",
	    "t/a", "tok-1", "x", "both: one is not enough" },
	{ ALLOW "condition = 'AND'\npaths = ['''^t/''']\nstopwords = ['2']\n",
	    "t/a", "tok-12", "", "both" },
	{ ALLOW "condition = 'and'\npaths = ['''^t/''']\ncommits = ['abc']\n",
	    "t/a", "tok-12", "x", "a commit is never this one" },
	{ "[allowlist]\npaths = ['''^t/''']\n" RULE, "t/a", "tok-1", "",
	    "a path, for all rules" },
	{ "[[allowlists]]\nstopwords = ['1']\n" RULE, "a", "tok-1", "",
	    "a word, for all rules" },
	{ "[[allowlists]]\ntargetRules = ['x']\nstopwords = ['1']\n" RULE
	    "[[rules]]\nid = 'y'\nregex = 'tok-.'\n", "a", "tok-1", "y",
	    "for one of two" },
	{ "title = 't'\nminVersion = 'v8.25.0'\n" RULE "tags = ['a', \"b\", ]\n"
	    "description = \"\"\"a\nb\"\"\"\n", "a", "tok-1", "x",
	    "what says nothing" },
	{ "[[RULES]]\nID='x'\nRegex='''a''' # why\r\nSECRETGROUP=0\n", "a", "a",
	    "x", "names in any case" },
	{ "[[rules]]\nid='x'\nregex=\"\"\"\nto\\\n   k\\u002d[0-9]\"\"\"\n", "a",
	    "tok-1", "x", "a string over lines" },
	{ "[[rules]]\nid='x'\nregex=''''[a]''''\n", "a", "'a'", "x",
	    "quotes at the end of a string" },
};

static void
test_says(void)
{
	for (size_t i = 0; i < SBX_NELEM(says); i++)
		ok(strcmp(first_of(says[i].rules, says[i].path, NULL,
		    says[i].text), says[i].rule) == 0, "rules: %s", says[i].why);
}

static const struct {
	const char *rules, *why;
} refused[] = {
	{ "#", "no rules" },
	{ "[extend]\nuseDefault = true\n" RULE, "line 1: [extend]" },
	{ RULE "skipReport = true\n", "\"skipReport\" is not understood in "
	    "[[rules]]" },
	{ RULE "[[rules.required]]\nid = 'y'\n", "[[rules.required]]" },
	{ RULE "[other]\n", "[other] is not understood" },
	{ "regex = 'a'\n", "line 1: \"regex\" is not understood in the file's" },
	{ RULE "regex = 'a'\n", "line 4: \"regex\" twice" },
	{ RULE "id = 'a'\n", "\"id\" twice" },
	{ RULE RULE, "the id \"x\" twice" },
	{ "[[rules]]\nregex = 'a'\n", "has no id" },
	{ "[[rules]]\nid = 'a'\n", "a: neither regex nor path" },
	{ "[[rules]]\nid = 'scan-limit'\nregex = 'a'\n", "is taken" },
	{ "[[rules]]\nid = 'a b'\nregex = 'a'\n", "visible ASCII" },
	{ "[[rules]]\nid = 'a'\nregex = 'a*'\n", "what is empty" },
	{ "[[rules]]\nid = 'a'\nregex = 'a)'\n", "line 3: a: at byte 2" },
	{ RULE "secretGroup = 3\n", "secretGroup 3, but regex has 2" },
	{ RULE "secretGroup = 1.5\n", "secretGroup is" },
	{ RULE "entropy = '3'\n", "\"entropy\" is a number" },
	{ RULE "entropy = 9\n", "0 to 8" },
	{ RULE "entropy = 1e3\n", "a form that is not understood" },
	{ RULE "entropy = 1_0\n", "a form that is not understood" },
	{ RULE "entropy = 2026-01-01\n", "a form that is not understood" },
	{ RULE "entropy = 03\n", "a value was expected" },
	{ RULE "keywords = 'a'\n", "\"keywords\" is an array" },
	{ RULE "keywords = ['']\n", "an empty word" },
	{ RULE "keywords = [1]\n", "something but strings" },
	{ RULE "keywords = [['a']]\n", "something but strings" },
	{ RULE "keywords = ['a' 'b']\n", "lacks a comma" },
	{ RULE "keywords = ['a',\n", "line 5: an array does not end" },
	{ RULE "allowlist = { regexes = ['a'] }\n", "an inline table" },
	{ RULE "a.b = 'c'\n", "the dotted key \"a.\"" },
	{ RULE "\"id\" = 'c'\n", "a key in quotes" },
	{ RULE "tags\n", "lacks its =" },
	{ RULE "tags = []]\n", "something follows" },
	{ RULE "description = 'a\n", "a string does not end" },
	{ RULE "description = '''a\n", "a string does not end" },
	{ RULE "description = 'a\001'\n", "a control character" },
	{ RULE "description = \"\\d\"\n", "'''three quotes'''" },
	{ RULE "description = \"\\u0000\"\n", "a NUL" },
	{ RULE "description = \"\\ud800\"\n", "no character" },
	{ RULE "description = \"\\u12\"\n", "lacks digits" },
	{ RULE "description = 'a\377'\n", "not UTF-8" },
	{ RULE "description = '\300\200'\n", "not UTF-8" },
	{ ALLOW "description = 'a'\n", "says nothing" },
	{ ALLOW "regexes = ['(?=a)']\n", "x: at byte 3" },
	{ ALLOW "regexTarget = 'path'\n", "regexTarget is" },
	{ ALLOW "condition = 'XOR'\n", "condition is" },
	{ ALLOW "targetRules = ['x']\n", "not understood" },
	{ RULE "[rules.allowlist]\npaths = ['a']\n[[rules.allowlists]]\n",
	    "not both" },
	{ "[[rules.allowlists]]\npaths = ['a']\n", "before the first" },
	{ "[[allowlists]]\ntargetRules = ['z']\npaths = ['a']\n" RULE,
	    "targetRules names \"z\"" },
	{ "[rules\n", "lacks its ]" },
	{ "[[rules]\n", "lacks its ]" },
};

/* What is not taken, and why. */
static void
refuse(const char *rules, size_t n, const char *why)
{
	char reason[SCAN_REASON];
	struct scan *s = scan_new(rules, n, reason);

	ok(s == NULL && strstr(reason, why) != NULL, "refused: %s (%s)", why,
	    s == NULL ? reason : "taken");
	scan_free(s);
}

static void
test_refused(void)
{
	static const char one[] = "[[rules]]\nid='aaa'\npath='a'\n";
	const size_t n = SCAN_MAX_RULES_BYTES + 1, len = sizeof(one) - 1;
	char *text = sbx_xcalloc(1, n), id[4];
	size_t k = 0;

	for (size_t i = 0; i < SBX_NELEM(refused); i++)
		refuse(refused[i].rules, strlen(refused[i].rules),
		    refused[i].why);
	memset(text, '\n', n);
	refuse(text, n, "more than 1048576 bytes");
	memset(text, 'a', n);
	memcpy(text, "title = '", 9);
	refuse(text, n - 1, "a string of more than 32768 bytes");
	for (; k <= SCAN_MAX_RULES; k++) {
		(void)snprintf(id, sizeof(id), "%03zu", k);
		memcpy(text + k * len, one, len);
		memcpy(text + k * len + 14, id, 3);
	}
	refuse(text, k * len, "more than 512 rules");
	free(text);
}

/* --- expressions ------------------------------------------------------------------------- */

static const struct {
	const char *re, *text, *match;	/* NULL: none */
} exprs[] = {
	{ "a$", "a\n", NULL }, { "(?m)a$", "a\nb", "a" }, { "a\\z", "a\n", NULL },
	{ "(?m)^b", "a\nb", "b" }, { "^b", "a\nb", NULL }, { "(?m)^$x", "x", NULL },
	{ "a.b", "a\nb", NULL }, { "(?s)a.b", "a\nb", "a\nb" },
	{ "a.b", "a\rb", "a\rb" }, { "a\\sb", "a\vb", NULL },
	{ "a\\sb", "a\fb", "a\fb" }, { "a[\\s]b", "a\vb", NULL },
	{ "a[\\S]b", "a\vb", "a\vb" }, { "a\\vb", "a\vb", "a\vb" },
	{ "a\\vb", "a\nb", NULL }, { "[[:space:]]", "\v", "\v" },
	{ "(?i)aB", "Ab", "Ab" }, { "a(?i)b|c", "C", "C" }, { "(a(?i)b)c", "aBC",
	    NULL }, { "(?i:a)b", "Ab", "Ab" }, { "(?i:a)b", "AB", NULL },
	{ "(?i)a(?-i)b", "AB", NULL }, { "(?i)a(?-i)b", "Ab", "Ab" },
	{ "(?i)[^a]", "A", NULL }, { "(?i)[a-c]+", "aBC", "aBC" },
	{ "(?i)[[:^upper:]]", "a", NULL }, { "[^[:^alpha:]]+", "1ab", "ab" },
	{ "(?i)x(?-i:[^a])", "XA", "XA" }, { "((?i)a)b", "AB", NULL },
	{ "a{,2}", "a{,2}", "a{,2}" }, { "a{2", "a{2", "a{2" },
	{ "a{2}", "aaa", "aa" }, { "a{2,}", "aaa", "aaa" }, { "a{1,2}", "aaa",
	    "aa" }, { "a{1,2}?", "aaa", "a" }, { "(?U)a+", "aaa", "a" },
	{ "(?U)a+?", "aaa", "aaa" }, { "a{01}", "a{01}", "a{01}" },
	{ "[]a]+", "]a", "]a" }, { "[^]a]", "]ab", "b" }, { "[a-]+", "-a", "-a" },
	{ "[\\w-.]+", "a-.", "a-." }, { "[[a]+", "[a", "[a" }, { "[\\]]", "]",
	    "]" }, { "[\\x41-\\x43]+", "ABC", "ABC" }, { "\\x{41}", "A", "A" },
	{ "\\101", "A", "A" }, { "\\07", "\a", "\a" }, { "\\Qa.b\\E.", "a.bx",
	    "a.bx" }, { "\\Qa.b", "a.b", "a.b" }, { "\\_\\-\\/\\\"", "_-/\"",
	    "_-/\"" }, { "(?P<n>a)(?<m>b)", "ab", "ab" }, { "a|ab", "ab", "a" },
	{ "(?:a|ab)c", "abc", "abc" }, { "\\bfoo\\B", "foo food", "foo" },
	{ "\303\251+", "\303\251\303\251", "\303\251\303\251" },
	{ "gh[pou]_(?:x|yy)", "Agho_yy", "gho_yy" }, { "a\\.b", "axb", NULL },
	{ "[#-&]+ x", "$% x", "$% x" }, { "a{0}b", "ab", "b" }, { "(|a)b", "ab",
	    "ab" }, { "[^\\d\\D]|x", "x", "refused" },
	/* not in Go's syntax, or not the same there */
	{ "(?=a)", "", "around" }, { "(?!a)b", "", "around" }, { "(?<=a)b", "",
	    "around" }, { "(?<!a)b", "", "around" }, { "(?>a)", "", "(?..." },
	{ "(a)\\1", "", "a reference back" }, { "(?P=n)", "", "(?..." },
	{ "(?R)", "", "(?..." }, { "(?#a)", "", "(?..." }, { "(?|a)", "",
	    "(?..." }, { "(*UTF)a", "", "(*...)" }, { "a++", "", "of a repetition" },
	{ "a**", "", "of a repetition" }, { "a{2}{3}", "", "of a repetition" },
	{ "a???", "", "of a repetition" }, { "*a", "", "of nothing" },
	{ "(+a)", "", "of nothing" }, { "^*", "", "no length" },
	{ "\\b+", "", "no length" }, { "(?i)*a", "", "no length" },
	{ "a{1001}", "", "<= 1000" }, { "a{3,2}", "", "n <= m" },
	{ "\\pL", "", "Unicode" }, { "\\P{Greek}", "", "Unicode" },
	{ "\\x{e9}", "", "above 7f" }, { "\\xg", "", "without its digits" },
	{ "\\377", "", "above 177" }, { "\\8", "", "a reference back" },
	{ "\\C", "", "an escape that" }, { "\\K", "", "an escape that" },
	{ "\\h", "", "an escape that" }, { "\\R", "", "an escape that" },
	{ "\\G", "", "an escape that" }, { "\\E", "", "an escape that" },
	{ "\\Z", "", "an escape that" }, { "a\\", "", "a backslash" },
	{ "[\\b]", "", "an escape that" }, { "[a-\\d]", "", "an escape that" },
	{ "[b-a]", "", "before it begins" }, { "[a", "", "lacks its ]" },
	{ "[[:foo:]]", "", "not known" }, { "[[:<:]]", "", "not known" },
	{ "[\303\251]", "", "beyond ASCII" }, { "(?i)\303\251", "",
	    "beyond ASCII" }, { "(a", "", "lacks its )" }, { "a)", "",
	    "without its (" }, { "(?P<a-b>c)", "", "a group's name" },
	{ "(?x)a", "", "(?..." }, { "(?i", "", "(?..." }, { "(?)a", "", "(?..." },
	{ "\\Qa\\E+", "", "behind \\E" },
};

static void
test_expr(const char *expr, const char *text, const char *want,
    pcre2_match_data *m)
{
	PCRE2_SIZE *o = pcre2_get_ovector_pointer(m);
	char why[SCAN_REASON] = "";
	struct re re;
	int r = re_compile(&re, expr, why);

	if (r != 0) {
		ok(want != NULL && (text[0] == '\0' ? strstr(why, want) != NULL :
		    strcmp(want, "refused") == 0), "/%s/ is refused: %s", expr,
		    why);
	} else {
		r = pcre2_match(re.code, (PCRE2_SPTR)text, strlen(text), 0, 0,
		    m, NULL);
		ok(text[0] != '\0' && (want == NULL ? r < 0 : r >= 0 &&
		    o[1] - o[0] == strlen(want) && memcmp(text + o[0], want,
		    o[1] - o[0]) == 0 && re.min <= o[1] - o[0] && re.max >=
		    o[1] - o[0]), "/%s/ %s", expr, want == NULL ?
		    "does not match" : "matches");
	}
	re_free(&re);
}

static void
test_exprs(void)
{
	pcre2_match_data *m = pcre2_match_data_create(8, NULL);

	for (size_t i = 0; i < SBX_NELEM(exprs); i++)
		test_expr(exprs[i].re, exprs[i].text, exprs[i].match, m);
	pcre2_match_data_free(m);
}

/* How often it matches, by looking everywhere. */
static unsigned
count_all(const struct re *re, const char *p, size_t n, pcre2_match_data *m)
{
	const PCRE2_SIZE *o = pcre2_get_ovector_pointer(m);
	unsigned found = 0;

	for (size_t at = 0; pcre2_match(re->code, (PCRE2_SPTR)p, n, at, 0, m,
	    NULL) >= 0; at = o[1])
		found++;
	return (found);
}

/* What is found around words is what is found by looking everywhere. */
static void
test_around(void)
{
	static const char *const patterns[] = {
		"ab[cd]", "[abc]{0,5}abc", "(?i)(?:ab|bca|cc)d*", "a(?:bc|cb)+a",
		"(?:a|b)?cab{1,3}", "\\babc?\\b", "(?m)^ab.*$", "[ab]{2}c[ab]{2}",
		"(?:ab){2,}c", "a.{0,4}bc\\W", "(?:abc|bcd|cda){2}",
	};
	static char text[1500];
	pcre2_match_data *m = pcre2_match_data_create(8, NULL);
	char rules[256], reason[SCAN_REASON];
	uint32_t seed = 1;
	unsigned words = 0;

	for (size_t i = 0; i < SBX_NELEM(patterns); i++) {
		unsigned bad = 0, total = 0;
		struct scan *s;
		struct seen got;
		struct re re;

		(void)snprintf(rules, sizeof(rules), "[[rules]]\nid = 'x'\n"
		    "regex = '''%s'''\n", patterns[i]);
		s = must_new(rules);
		(void)re_compile(&re, patterns[i], reason);
		words += re.words.n > 0;
		for (int round = 0; round < 100; round++) {
			for (size_t k = 0; k < sizeof(text); k++) {
				seed = seed * 1664525u + 1013904223u;
				text[k] = "aabbccddabcABC \n"[seed >> 28];
			}
			(void)scan_pieces(s, "a", NULL, text, sizeof(text),
			    1 + (seed >> 16) % 999, &got);
			bad += got.n != count_all(&re, text, sizeof(text), m);
			total += got.n;
		}
		ok(bad == 0 && total > 20, "/%s/: the same %u", patterns[i],
		    total);
		re_free(&re);
		scan_free(s);
	}
	ok(words > 8, "%u of them by words", words);
	pcre2_match_data_free(m);
}

/* --- limits ------------------------------------------------------------------------------ */

static void
test_limits(void)
{
	static char text[64 << 10];
	static char long_text[SCAN_WINDOW * 3 / 2];
	struct seen got;
	struct scan *s = must_new("[[rules]]\nid='x'\n"
	    "regex='''(?:a+)+[bc]'''\n");
	uint64_t began = sbx_mono_ns(), ms;
	size_t n = 0;

	memset(text, 'a', sizeof(text));
	ok(scan_pieces(s, "a", NULL, text, sizeof(text), 999, &got) == -1 &&
	    got.limits == 1 && got.n == 1, "an expression without end");
	ms = (sbx_mono_ns() - began) / 1000000;
	ok(ms < 8000, "it took %llu ms", (unsigned long long)ms);
	ok(scan_pieces(s, "a", NULL, "aab", 3, 1, &got) == 0 && got.n == 1,
	    "the next file is looked at");
	scan_free(s);
	s = must_new("[[rules]]\nid='x'\nregex='''tok-[0-9]'''\n");
	for (; n + 6 < sizeof(text) && n < 6 * (SCAN_MAX_FINDINGS + 5); n += 6)
		memcpy(text + n, "tok-1\n", 6);
	ok(scan_pieces(s, "a", NULL, text, n, n, &got) == -1 &&
	    got.n == SCAN_MAX_FINDINGS + 1 && got.limits == 1,
	    "more findings than are told: %u", got.n);
	ok(scan_pieces(s, "a", "tok-1\n", text, n, n, &got) == 0 && got.n == 0,
	    "old ones are not counted");
	memset(long_text, '\n', sizeof(long_text) - 1);
	for (size_t i = 0; i < 700; i++) {
		memcpy(long_text + 6 * i, "tok-1\n", 6);
		memcpy(long_text + SCAN_WINDOW * 5 / 4 + 6 * i, "tok-2\n", 6);
	}
	ok(scan_pieces(s, "a", NULL, long_text, sizeof(long_text) - 1, 65536,
	    &got) == -1 && got.n == SCAN_MAX_FINDINGS + 1 && got.limits == 1,
	    "nor are more of all windows: %u", got.n);
	/* the base's line is what of this one is in view behind a window */
	memset(long_text, ' ', sizeof(long_text) - 1);
	memcpy(long_text + SCAN_WINDOW + 2 * SCAN_MAX_MATCH - 100, "tok-1", 5);
	ok(scan_pieces(s, "a", long_text + SCAN_WINDOW, long_text,
	    sizeof(long_text) - 1, 65536, &got) == 0 && got.n == 1,
	    "the end of a long line is no old line");
	scan_free(s);
	s = must_new("[[rules]]\nid='x'\nregex='''tok-a+$'''\n");
	memset(long_text, 'a', 2 * SCAN_MAX_MATCH);
	memcpy(long_text, "tok-", 4);
	long_text[2 * SCAN_MAX_MATCH] = 'b';
	ok(scan_pieces(s, "a", NULL, long_text, 2 * SCAN_MAX_MATCH + 1, 65536,
	    &got) == 0 && got.n == 0, "no text ends where one is cut");
	scan_free(s);
}

/* Keywords of more bytes than there are states for. */
static void
test_words(void)
{
	static char rules[256 << 10];
	char reason[SCAN_REASON];
	size_t n = 0;

	for (unsigned i = 0; i < 200; i++)
		n += (size_t)snprintf(rules + n, sizeof(rules) - n,
		    "[[rules]]\nid='r%u'\nregex='tok'\nkeywords=['%u%0400u']\n",
		    i, i + 1000, i);
	ok(scan_new(rules, n, reason) == NULL &&
	    strstr(reason, "more words") != NULL, "too many words: %s", reason);
}

static void
test_fingerprint(void)
{
	struct scan *s = must_new(RULE);
	struct seen one, two;

	scan_text(s, "tok-12", &one);
	scan_text(s, "\n  tok-12=a", &two);
	ok(one.n == 1 && strcmp(one.print[0], two.print[0]) == 0 &&
	    one.line[0] == 1 && two.line[0] == 2, "of the secret alone");
	/* printf 'x\0src/a.c\00012\0' | sha256sum */
	ok(strcmp(one.print[0], "4b555143232a0487bd9536154f074b11"
	    "1df07ac26cd6b406fd5409cc0d4b2b61") == 0, "%s", one.print[0]);
	scan_text(s, "tok-13", &two);
	ok(strcmp(one.print[0], two.print[0]) != 0, "another secret");
	scan_free(s);
}

int
main(void)
{
	tap_plan(0);
	test_examples();
	test_all_have_examples();
	test_splits();
	test_windows();
	test_long_line();
	test_forms();
	test_base64();
	test_old();
	test_says();
	test_refused();
	test_exprs();
	test_around();
	test_limits();
	test_words();
	test_fingerprint();
	return (tap_done());
}
