/* What became of the job, and the few names that go into a URL. */

#include "sbx-broker/courier/courier.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *code;
	int error;
} codes[] = {
	{ "unauthorized", SBX_E_POLICY }, { "forbidden", SBX_E_POLICY },
	{ "not_found", SBX_E_NOENT }, { "moved", SBX_E_NOENT },
	{ "gone", SBX_E_NOENT }, { "validation", SBX_E_SYNTAX },
	{ "rate_limited", SBX_E_LIMIT }, { "upstream", SBX_E_CLOSED },
	{ "tls", SBX_E_POLICY }, { "timeout", SBX_E_TIMEOUT },
	{ "too_large", SBX_E_LIMIT }, { "not_granted", SBX_E_POLICY },
	{ "bot_command", SBX_E_POLICY }, { "bad_request", SBX_E_SYNTAX },
	{ "secret_in_answer", SBX_E_POLICY },
};

static const struct {
	unsigned status;
	const char *code, *why;
} statuses[] = {
	{ 301, "moved", "the repository has moved" },
	{ 302, "moved", "the repository has moved" },
	{ 307, "moved", "the repository has moved" },
	{ 308, "moved", "the repository has moved" },
	{ 401, "unauthorized", "the host does not take the credential" },
	{ 403, "forbidden", "the host forbids it" },
	{ 404, "not_found", "there is no such thing, or the credential may "
	    "not see it" },
	{ 410, "gone", "it is gone" },
	{ 413, "too_large", "the host takes no request that large" },
	{ 422, "validation", "the host does not take these values" },
	{ 429, "rate_limited", "the host takes no more requests for now" },
};

bool
courier_fail(struct courier *c, const char *code, const char *fmt, ...)
{
	va_list ap;

	if (c->end.code != NULL)
		return (false);
	c->end.code = code;
	va_start(ap, fmt);
	(void)vsnprintf(c->end.reason, sizeof(c->end.reason), fmt, ap);
	va_end(ap);
	return (false);
}

int
courier_error(const char *code)
{
	if (code == NULL)
		return (0);
	for (size_t i = 0; i < SBX_NELEM(codes); i++)
		if (strcmp(codes[i].code, code) == 0)
			return (codes[i].error);
	return (SBX_E_SYS);
}

const char *
courier_status_code(unsigned status, const char **ret_why)
{
	for (size_t i = 0; i < SBX_NELEM(statuses); i++)
		if (statuses[i].status == status) {
			*ret_why = statuses[i].why;
			return (statuses[i].code);
		}
	*ret_why = status >= 500 ? "the host failed" :
	    "the host answered what was not expected";
	return ("upstream");
}

static bool
consists_of(const char *s, size_t n, const char *set)
{
	for (size_t i = 0; i < n; i++)
		if (strchr(set, s[i]) == NULL || s[i] == '\0')
			return (false);
	return (n > 0);
}

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"
#define NAME LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._"

bool
courier_host_is_good(const char *host)
{
	return (strlen(host) <= 253 && *host != '.' && *host != '-' &&
	    consists_of(host, strlen(host), LOWER "-.") &&
	    strstr(host, "..") == NULL);
}

bool
courier_repo_is_good(const char *repo)
{
	const char *slash = strchr(repo, '/'), *name;

	if (slash == NULL || !consists_of(repo, (size_t)(slash - repo), NAME))
		return (false);
	name = slash + 1;
	return (*repo != '.' && consists_of(name, strlen(name), NAME) &&
	    strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
}

bool
courier_prefix_is_good(const char *prefix)
{
	return (*prefix == '\0' || (*prefix == '/' &&
	    consists_of(prefix, strlen(prefix), NAME "/") &&
	    strstr(prefix, "//") == NULL && strstr(prefix, "..") == NULL));
}
