/* The environment of programs that have egress (egress_env.h). */

#include "common/base/egress_env.h"

#include "common/base/limits.h"
#include "common/proto/proto.h"

#include <stdio.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define HOST "127.0.0.1"
#define PORT TEXT(SBX_EGRESS_PORT)
#define PROXY "http://" HOST ":" PORT
#define LOCAL "localhost," HOST ",::1"
#define AT "/" SBX_TRUST_DIR "/"
#define BUNDLE AT SBX_TRUST_BUNDLE

/* Its own default leaves out what is local.  Each JVM says on stderr that it
 * took them; there is no other way into all of them. */
#define JAVA "-Djavax.net.ssl.trustStore=" AT SBX_TRUST_JKS \
	" -Dhttp.proxyHost=" HOST " -Dhttp.proxyPort=" PORT \
	" -Dhttps.proxyHost=" HOST " -Dhttps.proxyPort=" PORT

/*
 * Not here: ALL_PROXY, since it would lead protocols here that are not spoken;
 * what npm, uv, Go, Ruby and httpx read, since it is one of these.
 */
const struct sbx_egress_var sbx_egress_vars[] = {
	{ "HTTP_PROXY", PROXY, true }, { "HTTPS_PROXY", PROXY, true },
	{ "http_proxy", PROXY, true }, { "https_proxy", PROXY, true },
	{ "NO_PROXY", LOCAL, true }, { "no_proxy", LOCAL, true },
	/* OpenSSL: Python, Ruby, Perl; Go; uv, and what else asks rustls */
	{ "SSL_CERT_FILE", BUNDLE, false },
	{ "CURL_CA_BUNDLE", BUNDLE, false },
	{ "GIT_SSL_CAINFO", BUNDLE, false },
	{ "REQUESTS_CA_BUNDLE", BUNDLE, false },
	{ "PIP_CERT", BUNDLE, false },
	{ "CARGO_HTTP_CAINFO", BUNDLE, false },
	{ "AWS_CA_BUNDLE", BUNDLE, false },
	/* a file of the host's npm may name another */
	{ "npm_config_cafile", BUNDLE, false },
	/* these two add to roots of their own, which lack an operator's */
	{ "DENO_CERT", BUNDLE, false },
	{ "NODE_EXTRA_CA_CERTS", BUNDLE, false },
	{ "NODE_USE_ENV_PROXY", "1", false },
	/* Yarn takes no others; it knows no list of what is local, and refuses
	 * to start with a variable that it does not know */
	{ "YARN_HTTP_PROXY", PROXY, false },
	{ "YARN_HTTPS_PROXY", PROXY, false },
	{ "JAVA_TOOL_OPTIONS", JAVA, false },
	/* Maven 3.9 asks its own settings only */
	{ "MAVEN_OPTS", "-Daether.connector.http.useSystemProperties=true",
	    false },
	/* the user's own ~/.wgetrc is read after it */
	{ "SYSTEM_WGETRC", AT SBX_TRUST_WGETRC, false },
	/* SSH goes through no proxy, and submodules are often written so */
	{ "GIT_CONFIG_COUNT", "2", false },
	{ "GIT_CONFIG_KEY_0", "url.https://github.com/.insteadOf", false },
	{ "GIT_CONFIG_VALUE_0", "git@github.com:", false },
	{ "GIT_CONFIG_KEY_1", "url.https://github.com/.insteadOf", false },
	{ "GIT_CONFIG_VALUE_1", "ssh://git@github.com/", false },
};
const size_t sbx_egress_vars_n = SBX_NELEM(sbx_egress_vars);

const char sbx_egress_wgetrc[] = "ca_certificate = " BUNDLE "\n";

int
sbx_egress_env_add(struct sbx_strs *s, struct sbx_buf *b)
{
	char line[512];

	for (size_t i = 0; i < sbx_egress_vars_n; i++) {
		const struct sbx_egress_var *v = &sbx_egress_vars[i];

		if (snprintf(line, sizeof(line), "%s=%s", v->name, v->value) >=
		    (int)sizeof(line) || sbx_strs_add(s, b, line) != 0)
			return (SBX_E_LIMIT);
	}
	return (0);
}

/* One of git's settings stands for nothing without the others: whoever has
 * settings of his own keeps his. */
static bool
is_git_setting(const char *name)
{
	return (strncmp(name, "GIT_CONFIG_", strlen("GIT_CONFIG_")) == 0);
}

static void
put_git_settings(struct sbx_buf *b)
{
	(void)sbx_buf_str(b, "if [ -z \"${GIT_CONFIG_COUNT+x}\" ]; then\n");
	for (size_t i = 0; i < sbx_egress_vars_n; i++)
		if (is_git_setting(sbx_egress_vars[i].name))
			(void)sbx_buf_printf(b, "\texport %s='%s'\n",
			    sbx_egress_vars[i].name, sbx_egress_vars[i].value);
	(void)sbx_buf_str(b, "fi\n");
}

int
sbx_egress_env_sh(struct sbx_buf *b)
{
	(void)sbx_buf_str(b, "# how programs in here reach the network\n");
	for (size_t i = 0; i < sbx_egress_vars_n; i++) {
		const struct sbx_egress_var *v = &sbx_egress_vars[i];

		if (is_git_setting(v->name))
			continue;
		if (v->always)
			(void)sbx_buf_printf(b, "export %s='%s'\n", v->name,
			    v->value);
		else
			(void)sbx_buf_printf(b, "[ -n \"${%s+x}\" ] || "
			    "export %s='%s'\n", v->name, v->name, v->value);
	}
	put_git_settings(b);
	return (b->overflow ? SBX_E_LIMIT : 0);
}
