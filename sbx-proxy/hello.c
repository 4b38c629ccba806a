#include "sbx-proxy/hello.h"

#include "common/base/base.h"

#include <string.h>

enum {
	RECORD_HANDSHAKE = 22, RECORD_MAX = 16384, RECORD_HEADER = 5,
	CLIENT_HELLO = 1, RANDOM_BYTES = 32, SESSION_MAX = 32,
	EXT_SERVER_NAME = 0, EXT_ECH = 0xfe0d, NAME_HOST = 0,
};

static const char no_name[] = "it names no server (SNI)";

/* What is left of a vector; ok goes false when more is taken than there is. */
struct in {
	const uint8_t *p;
	size_t n;
	bool ok;
};

static struct in
take(struct in *in, size_t n)
{
	struct in part = { in->p, n, in->ok && n <= in->n };

	in->ok = part.ok;
	if (!part.ok)
		return ((struct in){ NULL, 0, false });
	in->p += n;
	in->n -= n;
	return (part);
}

/* An integer of that many bytes, big endian. */
static uint32_t
number(struct in *in, size_t bytes)
{
	struct in part = take(in, bytes);
	uint32_t v = 0;

	while (part.n-- > 0)
		v = v << 8 | *part.p++;
	return (v);
}

/* A vector behind its length of that many bytes. */
static struct in
vector(struct in *in, size_t bytes)
{
	uint32_t n = number(in, bytes);

	return (take(in, n));
}

/*
 * The handshake bytes out of the records.  Behind the whole message a record
 * must end: what else it carried would be read by the server alone.
 * 0, SBX_E_AGAIN, SBX_E_SYNTAX.
 */
static int
gather(const uint8_t *p, size_t n, uint8_t *msg, size_t *ret_len,
    const char **ret_why)
{
	size_t len = 0, want = 4, size;

	*ret_why = "it does not begin with a TLS ClientHello";
	for (;;) {
		if (n > 0 && p[0] != RECORD_HANDSHAKE)
			return (SBX_E_SYNTAX);
		if (n > 1 && p[1] != 3)
			return (SBX_E_SYNTAX);
		if (n < RECORD_HEADER)
			return (SBX_E_AGAIN);
		size = (size_t)p[3] << 8 | p[4];
		if (size == 0 || size > RECORD_MAX || len + size > HELLO_MAX)
			return (SBX_E_SYNTAX);
		p += RECORD_HEADER;
		n -= RECORD_HEADER;
		memcpy(msg + len, p, size < n ? size : n);
		len += size < n ? size : n;
		if (len > 0 && msg[0] != CLIENT_HELLO)
			return (SBX_E_SYNTAX);
		if (len >= 4)
			want = 4 + ((size_t)msg[1] << 16 |
			    (size_t)msg[2] << 8 | msg[3]);
		if (want > HELLO_MAX)
			return (SBX_E_SYNTAX);
		if (n < size)
			return (len > want ? SBX_E_SYNTAX : SBX_E_AGAIN);
		p += size;
		n -= size;
		if (len >= 4 && len >= want)
			break;
	}
	*ret_len = len;
	return (len == want ? 0 : SBX_E_SYNTAX);
}

/* RFC 6066: a list of names, of which only one of each type may be there, and
 * only one type was ever defined. */
static const char *
read_name(struct in ext, char ret_name[256])
{
	struct in list = vector(&ext, 2), name;
	uint32_t type = number(&list, 1);

	name = vector(&list, 2);
	if (!list.ok || list.n != 0 || !ext.ok || ext.n != 0 ||
	    type != NAME_HOST)
		return ("its server name is not one host name");
	if (name.n == 0 || name.n > 255 || memchr(name.p, 0, name.n) != NULL)
		return ("its server name is no host name");
	memcpy(ret_name, name.p, name.n);
	ret_name[name.n] = '\0';
	return (NULL);
}

/* NULL, or what is wrong. */
static const char *
read_extensions(struct in all, char ret_name[256])
{
	uint8_t seen[65536 / 8] = { 0 };
	const char *why = NULL;
	struct in ext;
	uint32_t type;

	ret_name[0] = '\0';
	while (all.ok && all.n > 0 && why == NULL) {
		type = number(&all, 2);
		ext = vector(&all, 2);
		if (!all.ok)
			break;
		if (seen[type / 8] & 1u << type % 8)
			return ("an extension is there twice");
		seen[type / 8] |= (uint8_t)(1u << type % 8);
		if (type == EXT_SERVER_NAME)
			why = read_name(ext, ret_name);
		else if (type == EXT_ECH)
			why = "it has an encrypted ClientHello, which hides "
			    "the name";
	}
	if (!all.ok)
		return ("its extensions are broken");
	if (why == NULL && ret_name[0] == '\0')
		why = no_name;
	return (why);
}

int
hello_name(const uint8_t *p, size_t n, char ret_name[256],
    const char **ret_why)
{
	uint8_t msg[HELLO_MAX];
	struct in in, session, suites, methods, extensions;
	size_t len;
	int r = gather(p, n, msg, &len, ret_why);

	if (r == SBX_E_AGAIN && n >= HELLO_RAW_MAX) {
		*ret_why = "its ClientHello comes in too many pieces";
		return (SBX_E_SYNTAX);
	}
	if (r != 0)
		return (r);
	in = (struct in){ msg + 4, len - 4, true };
	*ret_why = "its ClientHello is broken";
	if (number(&in, 1) != 3)
		return (SBX_E_SYNTAX);
	(void)take(&in, 1 + RANDOM_BYTES);
	session = vector(&in, 1);
	suites = vector(&in, 2);
	methods = vector(&in, 1);
	if (!in.ok || session.n > SESSION_MAX || suites.n < 2 ||
	    suites.n % 2 != 0 || methods.n == 0)
		return (SBX_E_SYNTAX);
	if (in.n == 0) {
		*ret_why = no_name;
		return (SBX_E_NOENT);
	}
	extensions = vector(&in, 2);
	if (!in.ok || in.n != 0)
		return (SBX_E_SYNTAX);
	*ret_why = read_extensions(extensions, ret_name);
	if (*ret_why == no_name)
		return (SBX_E_NOENT);
	return (*ret_why == NULL ? 0 : SBX_E_SYNTAX);
}
