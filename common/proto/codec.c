/*
 * msgs.def expanded into encoders, decoders and the table of messages.  A
 * message has exactly one encoding: what decodes, encodes to the same bytes.
 */

#include "common/proto/proto.h"

#include "common/proto/wire.h"

#include <string.h>

/* --- what the declarations promise, checked by the compiler ---------------- */

/* A message must be able to hold the longest value of each of its fields. */
#define F_NONE
#define F_U8(n) +1
#define F_U32(n) +4
#define F_U64(n) +8
#define F_I32(n) +4
#define F_STR(n, max) +4 + (max) + 1
#define F_STRS(n, count, max) +8 + (max)
#define MSG(NAME, name, num, from, to, nfds, max, fields)                     \
	_Static_assert((0 fields) <= (max), #NAME ": fields exceed max");     \
	_Static_assert((max) <= SBX_MSG_BYTES_MAX, #NAME ": too large");      \
	_Static_assert((nfds) <= SBX_MSG_FDS_MAX, #NAME ": descriptors");     \
	_Static_assert((num) > 0 && (num) < SBX_MSG_MAX, #NAME ": number");
#include "common/proto/msgs.def"
#undef MSG
#undef F_NONE
#undef F_U8
#undef F_U32
#undef F_U64
#undef F_I32
#undef F_STR
#undef F_STRS

/* --- encoding -------------------------------------------------------------- */

/* Where the next byte goes.  Once bad, nothing more is written, so the result
 * needs to be looked at only once, at the end. */
struct put {
	uint8_t *p;
	size_t left;
	bool bad;
};

/* Big endian, in `bytes` bytes. */
static void
put_int(struct put *c, uint64_t v, unsigned bytes)
{
	unsigned i;

	if (c->bad || c->left < bytes) {
		c->bad = true;
		return;
	}
	for (i = 0; i < bytes; i++)
		c->p[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
	c->p += bytes;
	c->left -= bytes;
}

static void
put_bytes(struct put *c, const void *p, size_t n)
{
	if (c->bad || c->left < n) {
		c->bad = true;
		return;
	}
	if (n > 0)
		memcpy(c->p, p, n);
	c->p += n;
	c->left -= n;
}

/* NULL is sent as "". */
static void
put_str(struct put *c, const char *s, size_t max)
{
	size_t n;

	if (s == NULL)
		s = "";
	n = strnlen(s, max + 1);
	if (n > max) {
		c->bad = true;
		return;
	}
	put_int(c, n, 4);
	put_bytes(c, s, n + 1);
}

/* Do `count` strings with their NULs fill exactly `len` bytes? */
static bool
strs_whole(const char *p, size_t len, uint32_t count)
{
	const char *nul;

	for (; count > 0; count--) {
		if (len == 0 || (nul = memchr(p, '\0', len)) == NULL)
			return (false);
		len -= (size_t)(nul + 1 - p);
		p = nul + 1;
	}
	return (len == 0);
}

static void
put_strs(struct put *c, const struct sbx_strs *s, uint32_t max_count,
    size_t max)
{
	if (s->count > max_count || s->len > max ||
	    !strs_whole(s->data, s->len, s->count)) {
		c->bad = true;
		return;
	}
	put_int(c, s->count, 4);
	put_int(c, s->len, 4);
	put_bytes(c, s->data, s->len);
}

#define F_NONE (void)m;
#define F_U8(n) put_int(&c, m->n, 1);
#define F_U32(n) put_int(&c, m->n, 4);
#define F_U64(n) put_int(&c, m->n, 8);
#define F_I32(n) put_int(&c, (uint32_t)m->n, 4);
#define F_STR(n, max) put_str(&c, m->n, max);
#define F_STRS(n, count, max) put_strs(&c, &m->n, count, max);
#define MSG(NAME, name, num, from, to, nfds, max, fields)                     \
	static int put_##name(const void *msg, uint8_t *buf, size_t size,     \
	    size_t *ret_len)                                                  \
	{                                                                     \
		const struct sbx_##name *m = msg;                             \
		struct put c = { .p = buf, .left = size };                    \
                                                                              \
		fields                                                        \
		if (c.bad)                                                    \
			return (SBX_E_LIMIT);                                 \
		*ret_len = size - c.left;                                     \
		return (0);                                                   \
	}
#include "common/proto/msgs.def"
#undef MSG
#undef F_NONE
#undef F_U8
#undef F_U32
#undef F_U64
#undef F_I32
#undef F_STR
#undef F_STRS

/* --- decoding -------------------------------------------------------------- */

/* As struct put: a bad field makes all that follow zero or empty. */
struct get {
	const uint8_t *p;
	size_t left;
	bool bad;
};

static uint64_t
get_int(struct get *c, unsigned bytes)
{
	uint64_t v = 0;
	unsigned i;

	if (c->bad || c->left < bytes) {
		c->bad = true;
		return (0);
	}
	for (i = 0; i < bytes; i++)
		v = v << 8 | c->p[i];
	c->p += bytes;
	c->left -= bytes;
	return (v);
}

/* "" when it is not there: no decoded string is ever NULL. */
static const char *
get_str(struct get *c, size_t max)
{
	size_t n = (size_t)get_int(c, 4);
	const char *s = (const char *)c->p;

	/* n < left leaves room for the NUL, which must be the first one. */
	if (c->bad || n > max || n >= c->left ||
	    memchr(s, '\0', n + 1) != s + n) {
		c->bad = true;
		return ("");
	}
	c->p += n + 1;
	c->left -= n + 1;
	return (s);
}

/* Count and bytes must agree exactly: two readers of the same list, one going
 * by each, then see the same strings. */
static struct sbx_strs
get_strs(struct get *c, uint32_t max_count, size_t max)
{
	struct sbx_strs s = { .data = "" };
	uint32_t count = (uint32_t)get_int(c, 4);
	uint32_t len = (uint32_t)get_int(c, 4);

	if (c->bad || count > max_count || len > max || len > c->left ||
	    !strs_whole((const char *)c->p, len, count)) {
		c->bad = true;
		return (s);
	}
	s.data = (const char *)c->p;
	s.count = count;
	s.len = len;
	c->p += len;
	c->left -= len;
	return (s);
}

#define F_NONE m->none_ = 0;
#define F_U8(n) m->n = (uint8_t)get_int(&c, 1);
#define F_U32(n) m->n = (uint32_t)get_int(&c, 4);
#define F_U64(n) m->n = get_int(&c, 8);
#define F_I32(n) m->n = (int32_t)(uint32_t)get_int(&c, 4);
#define F_STR(n, max) m->n = get_str(&c, max);
#define F_STRS(n, count, max) m->n = get_strs(&c, count, max);
#define MSG(NAME, name, num, from, to, nfds, max, fields)                     \
	static int get_##name(const uint8_t *buf, size_t len, void *msg)      \
	{                                                                     \
		struct sbx_##name *m = msg;                                   \
		struct get c = { .p = buf, .left = len };                     \
                                                                              \
		fields                                                        \
		return (c.bad || c.left > 0 ? SBX_E_DECODE : 0);              \
	}
#include "common/proto/msgs.def"
#undef MSG
#undef F_NONE
#undef F_U8
#undef F_U32
#undef F_U64
#undef F_I32
#undef F_STR
#undef F_STRS

/* --- tables ---------------------------------------------------------------- */

#define MSG(NAME, name_, num, from_, to_, nfds, max, fields)                  \
	[num] = {                                                             \
		.name = #NAME,                                                \
		.from = (from_),                                              \
		.to = (to_),                                                  \
		.max_bytes = (max),                                           \
		.struct_bytes = sizeof(struct sbx_##name_),                   \
		.fds = (nfds),                                                \
		.put = put_##name_,                                           \
		.get = get_##name_,                                           \
	},
const struct sbx_msg_spec sbx_msg_specs[SBX_MSG_MAX] = {
#include "common/proto/msgs.def"
};
#undef MSG

static const char *const proc_names[SBX_PROC_MAX] = {
	[SBX_PROC_MONITOR] = "monitor",
	[SBX_PROC_STARTER] = "starter",
	[SBX_PROC_ENGINE] = "engine",
	[SBX_PROC_RECORDER] = "recorder",
	[SBX_PROC_JOURNALD] = "journald",
	[SBX_PROC_BROKER] = "broker",
	[SBX_PROC_PROXY] = "proxy",
	[SBX_PROC_ZYGOTE] = "zygote",
	[SBX_PROC_FRONT] = "front",
	[SBX_PROC_WORKER] = "worker",
	[SBX_PROC_COPYIN] = "copyin",
	[SBX_PROC_INIT] = "init",
	[SBX_PROC_COURIER] = "courier",
	[SBX_PROC_JUDGE] = "judge",
	[SBX_PROC_ENGINE_DOCKER] = "engine-docker",
	[SBX_PROC_CLI] = "cli",
	[SBX_PROC_IMAGE] = "image", [SBX_PROC_COMMAND] = "command",
};

const char *
sbx_proc_name(enum sbx_proc proc)
{
	return ((unsigned)proc < SBX_PROC_MAX ? proc_names[proc] : "unknown");
}

/* --- lists of strings ------------------------------------------------------ */

const char *
sbx_strs_next(const struct sbx_strs *s, const char *last)
{
	const char *next;

	if (s->len == 0)
		return (NULL);
	next = last == NULL ? s->data : last + strlen(last) + 1;
	return (next < s->data + s->len ? next : NULL);
}

int
sbx_strs_add(struct sbx_strs *s, struct sbx_buf *b, const char *str)
{
	size_t n = strlen(str) + 1;
	int r;

	if (s->count == UINT32_MAX || n > UINT32_MAX - s->len)
		return (SBX_E_LIMIT);
	if ((r = sbx_buf_add(b, str, n)) < 0)
		return (r);
	/* The buffer may have moved. */
	s->data = b->data;
	s->count++;
	s->len += (uint32_t)n;
	return (0);
}
