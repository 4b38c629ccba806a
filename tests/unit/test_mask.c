/* Shapes of secrets: what is masked, and what must not be. */

#include <string.h>
#include <time.h>

#include "common/base/mask.h"
#include "tests/tap.h"

#define A16 "a1B2c3D4e5F6g7H8"
#define A20 A16 "i9J0"
#define A32 A16 A16
#define A64 A32 A32
#define PEM_LINE "MIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt"
#define PEM(label) "-----BEGIN " label "-----\n" PEM_LINE "\n" PEM_LINE \
	"\nAbc=\n-----END " label "-----"

static const struct mask_case {
	const char *in, *out;	/* out NULL: stays as it is */
} cases[] = {
	{ "", NULL },
	{ "ghp_" A16, "***" },
	{ "x ghp_" A16 "\n", "x ***\n" },
	{ "gho_" A20 " ghu_" A20 " ghr_" A20, "*** *** ***" },
	{ "ghs_" "123456_eyJhbGciOi.eyJpc3MiOi.sig-x_y", "***" },
	{ "ghp_short", NULL },
	{ "notghp_" A16, "not***" },
	{ "line\\nghp_" A16 "\\n", "line\\n***\\n" },
	{ "q=%3Dgithub_pat_" A20, "q=%3D***" },
	{ "github_pat_11ABCDE_" A20, "***" },
	{ "glpat-" A20, "***" },
	{ "xoxb-123456789012-" A16, "***" },
	{ "sk-ant-api03-" A20, "***" },
	{ "sk-" A32, "***" },
	{ "class=\"sk-fading-circle sk-cube-grid-with-long-name\"", NULL },
	{ "AKIA" "IOSFODNN7EXAMPLE", "***" },
	{ "AKIA" "IOSFODNN7EXAMPLEMORE", NULL },
	{ "AIza" A32 "abc", "***" },
	{ "npm_" A32 "abcd", "***" },
	{ "npm_config_cache", NULL },
	{ "hf_hub_download(repo)", NULL },
	{ "eyJhbGci" "OiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "***" },
	{ "eyJhbGciOiJI.notjson123456", NULL },
	{ PEM("RSA PRIVATE KEY"), "***" },
	{ "a\n" PEM("OPENSSH PRIVATE KEY") "\nb\n", "a\n***\nb\n" },
	{ "{\"k\":\"-----BEGIN PRIVATE" " KEY-----\\n" PEM_LINE
	    "\\n-----END PRIVATE" " KEY-----\\n\"}", "{\"k\":\"***\\n\"}" },
	{ "-----BEGIN EC PRIVATE" " KEY-----\n" PEM_LINE "\n", "***" },
	{ "if (memcmp(p, \"-----BEGIN RSA PRIVATE" " KEY-----\", 31) == 0)\n",
	    NULL },
	{ "-----BEGIN CERTIFICATE-----\n" PEM_LINE "\n", NULL },
	{ "Authorization: Bearer abcdefgh1", "Authorization: Bearer ***" },
	{ "authorization: basic dXNlcjpwYXNz\r\n",
	    "authorization: basic ***\r\n" },
	{ "-H 'Authorization: token " A20 "'",
	    "-H 'Authorization: token ***'" },
	{ "\"Authorization\": \"Bearer " A20 "\"",
	    "\"Authorization\": \"Bearer ***\"" },
	{ "Authorization: Bearer $TOKEN", NULL },
	{ "authorization: string", NULL },
	{ "Authorization is done elsewhere", NULL },
	{ "curl -H Bearer " A20, "curl -H Bearer ***" },
	{ "https://user:hunter2@host/", "https://user:***@host/" },
	{ "https://x-access-token:abc@github.com/a/b",
	    "https://x-access-token:***@github.com/a/b" },
	{ "https://0123456789abcdef0123456789abcdef01234567@github.com/",
	    "https://***@github.com/" },
	{ "https://user@host/", NULL },
	{ "https://host:80/a@b", NULL },
	{ "\"postgres://%s:%s@%s/%s\"", NULL },
	{ "https://$USER:$PASS@host", NULL },
	{ "GITHUB_TOKEN=abc", "GITHUB_TOKEN=***" },
	{ "GITHUB_TOKEN=x y", "GITHUB_TOKEN=* y" },
	{ "export GH_TOKEN='with a blank'", "export GH_TOKEN='***'" },
	{ "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
	    "AWS_SECRET_ACCESS_KEY=***" },
	{ "PGPASSWORD=correcthorse psql", "PGPASSWORD=*** psql" },
	{ "API_KEY=\"two words\"", "API_KEY=\"***\"" },
	{ "TOKEN=$(cat f) TOKEN=${1} TOKEN=<yours>", NULL },
	{ "T_SECRET=T_FIRST_ONE,", NULL },
	{ "MAX_TOKENS=4096", NULL },
	{ "PWD=/home/user/some1", NULL },
	{ "TOKEN=***", NULL },
	{ "password=hunter2", "password=***" },
	{ "?a=1&access_token=" A20 "&b", "?a=1&access_token=***&b" },
	{ "\"api_key\": \"" A16 "\",", "\"api_key\": \"***\"," },
	{ "password = \"hunter2\"", "password = \"***\"" },
	{ "aws_secret_access_key = " A20 A20, "aws_secret_access_key = ***" },
	{ "x-api-key: " A32, "x-api-key: ***" },
	{ "//npm.example.invalid/:_authToken=" A32,
	    "//npm.example.invalid/:_authToken=***" },
	{ "_auth = " A20, "_auth = ***" },
	/* ordinary code */
	{ "token = next_token(lexer2);", NULL },
	{ "def f(password: str, token: Optional[str] = None):", NULL },
	{ "password=password, token=token, secret=self.secret2", NULL },
	{ "if (token == TOKEN_STRING_2) return secret->value;", NULL },
	{ "case T_TOKEN: return parse1(p);", NULL },
	{ "{\"next_page_token\": \"" A20 "\"}", NULL },
	{ "\"password\": \"Passwort vergessen 2\"", NULL },
	{ "cancellationToken: CancellationToken,", NULL },
	{ "const char *secret = getenv(\"S1\");", NULL },
	{ "commit 0123456789abcdef0123456789abcdef01234567", NULL },
	{ "authorization = base64.decodebytes(authorization2)", NULL },
	{ "U_UNEXPECTED_TOKEN=0x10100,", NULL },
	{ "sha512-" A64 "==", NULL },
};

static void
test_cases(void)
{
	char buf[1024];
	size_t i, n, len, found;
	const char *want, *name;

	for (i = 0; i < SBX_NELEM(cases); i++) {
		want = cases[i].out != NULL ? cases[i].out : cases[i].in;
		n = len = strlen(cases[i].in);
		memcpy(buf, cases[i].in, n);
		name = sbx_mask_find(buf, n);
		found = sbx_mask(buf, &len);
		if (!ok(len == strlen(want) && memcmp(buf, want, len) == 0 &&
		    len <= n && (found > 0) == (cases[i].out != NULL) &&
		    (name != NULL) == (found > 0), "%.40s", n > 0 &&
		    strchr(cases[i].in, '\n') == NULL ? cases[i].in :
		    "several lines"))
			printf("# %zu: %.*s\n", found, (int)len, buf);
	}
}

static void
test_tokens(void)
{
	static const char token[] = "password=hunter2 T=ghp_" A20,
	    example[] = "password=hunter2 AKIA" "IOSFODNN7EXAMPLE";

	ok(sbx_mask_find_token(token, sizeof(token) - 1) != NULL &&
	    sbx_mask_find_token(example, sizeof(example) - 1) == NULL,
	    "tokens of vendors alone");
}

/* Nothing more is found in what was masked. */
static void
test_twice(void)
{
	char buf[1024];
	size_t i, len, bad = 0;

	for (i = 0; i < SBX_NELEM(cases); i++) {
		len = strlen(cases[i].in);
		memcpy(buf, cases[i].in, len);
		(void)sbx_mask(buf, &len);
		if (strstr(cases[i].in, "GITHUB_TOKEN=x") == NULL &&
		    sbx_mask(buf, &len) != 0)
			bad = i + 1;
	}
	ok(bad == 0, "masking is idempotent (%zu)", bad);
}

static void
test_bytes(void)
{
	static const char letters[] = "=:/@-_\"' .\0\377tokenAKIAeyJghp_"
	    "sk-0123456789BEGIN PRIVATE KEY";
	char buf[512];
	size_t i, len, n, bad = 0;

	for (i = 0; i < 20000; i++) {
		len = n = (size_t)random() % sizeof(buf);
		while (n > 0) {
			n--;
			buf[n] = letters[(size_t)random() %
			    sizeof(letters)];
		}
		n = len;
		(void)sbx_mask(buf, &len);
		bad += len > n;
	}
	ok(bad == 0, "any bytes, never longer");
	memcpy(buf, "a\0b ghp_" A16 "\0", 25);
	len = 25;
	ok(sbx_mask(buf, &len) == 1 && len == 8 &&
	    memcmp(buf, "a\0b ***\0", 8) == 0, "NUL is an ordinary byte");
}

/* Inputs that make a careless matcher quadratic. */
static void
test_linear(void)
{
	static const char *const unit[] = {
		"eyJa-", "eyJhbGciOiJI.", "a://", "token=", "x://a:b",
		"-----BEGIN PRIVATE" " KEY-----", "ghs_a-", "A_TOKEN=(",
		"secret=\"a", "Bearer ", "Authorization: Bearer ", "password:",
		"-----BEGIN PRIVATE" " KEY-----A", "sk-", "TOKEN='",
		"authorization=", "AIza-", "TOKEN=A_", "a_token: 'b",
	};
	size_t size = 4u << 20, i, n, len;
	char *p = sbx_xcalloc(1, size);
	clock_t t;
	double worst = 0, s;

	for (i = 0; i < SBX_NELEM(unit); i++) {
		n = strlen(unit[i]);
		for (len = 0; len + n <= size; len += n)
			memcpy(p + len, unit[i], n);
		t = clock();
		(void)sbx_mask_find(p, len);
		(void)sbx_mask(p, &len);
		s = (double)(clock() - t) / CLOCKS_PER_SEC;
		if (s > worst)
			worst = s;
		if (s > 3)
			printf("# %s: %.1f s\n", unit[i], s);
	}
	/* linear takes a second or so, 20 under valgrind; quadratic: hours */
	ok(worst < 300, "4 MiB of the worst takes %.2f s", worst);
	free(p);
}

int
main(void)
{
	test_cases();
	test_tokens();
	test_twice();
	test_bytes();
	test_linear();
	return tap_done();
}
