#include "sbx-proxy/ca.h"

int
roots_read(const char *pem, size_t n, struct roots **ret, struct sbx_err *err)
{
	(void)pem;
	(void)n;
	(void)ret;
	return (sbx_err_set(err, SBX_E_SYS, "not yet"));
}

void
roots_free(struct roots *r)
{
	(void)r;
}

int
ca_make(const char *container, const struct policy *p, struct ca **ret,
    struct sbx_err *err)
{
	(void)container;
	(void)p;
	(void)ret;
	return (sbx_err_set(err, SBX_E_SYS, "not yet"));
}

int
ca_load(int fd, const char *container, struct ca **ret, struct sbx_err *err)
{
	(void)fd;
	(void)container;
	(void)ret;
	return (sbx_err_set(err, SBX_E_SYS, "not yet"));
}

int
ca_trust(const struct ca *ca, const struct roots *roots, int ret_fds[4],
    struct sbx_err *err)
{
	(void)ca;
	(void)roots;
	(void)ret_fds;
	return (sbx_err_set(err, SBX_E_SYS, "not yet"));
}

int
ca_context(struct ca *ca, const struct host *h, SSL_CTX **ret,
    struct sbx_err *err)
{
	(void)ca;
	(void)h;
	(void)ret;
	return (sbx_err_set(err, SBX_E_SYS, "not yet"));
}

void
ca_free(struct ca *ca)
{
	(void)ca;
}

SSL_CTX *
ca_upstream(const struct roots *roots)
{
	(void)roots;
	return (NULL);
}
