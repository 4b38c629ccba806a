#include "tests/proto/sample.h"

#include <string.h>

#define SOME_U8 0x5a
#define SOME_U32 0x01020304u
#define SOME_U64 0x0102030405060708ull
#define SOME_I32 (-2)

/* --- fields ---------------------------------------------------------------- */

#define F_NONE
#define F_U8(n) { FIELD_U8, #n, 0, 1 },
#define F_U32(n) { FIELD_U32, #n, 0, 4 },
#define F_U64(n) { FIELD_U64, #n, 0, 8 },
#define F_I32(n) { FIELD_I32, #n, 0, 4 },
#define F_STR(n, max) { FIELD_STR, #n, 0, max },
#define F_STRS(n, count, max) { FIELD_STRS, #n, count, max },
#define MSG(NAME, name, num, from, to, nfds, max, fields)                     \
	static const struct field fields_##name[] = { fields { FIELD_END } };
#include "common/proto/msgs.def"
#undef MSG
#undef F_NONE
#undef F_U8
#undef F_U32
#undef F_U64
#undef F_I32
#undef F_STR
#undef F_STRS

#define MSG(NAME, name, num, from, to, nfds, max, fields)                     \
	[num] = fields_##name,
const struct field *const fields_of[SBX_MSG_MAX] = {
#include "common/proto/msgs.def"
};
#undef MSG

/* --- samples --------------------------------------------------------------- */

/* A string of n bytes: the tail of one long one. */
static const char *
str_of(enum sample how, size_t max)
{
	static char pool[SBX_MSG_BYTES_MAX + 1];
	size_t n = how == SAMPLE_EMPTY ? 0 : how == SAMPLE_FULL ? max :
	    max < 2 ? max : 2;

	if (pool[0] == '\0')
		memset(pool, 0xe9, SBX_MSG_BYTES_MAX);
	return (pool + SBX_MSG_BYTES_MAX - n);
}

/* d has room for max bytes; full: all strings but the last are one byte. */
static struct sbx_strs
strs_of(enum sample how, char *d, uint32_t count, uint32_t max)
{
	struct sbx_strs s = { .data = d };
	uint32_t i;

	if (how == SAMPLE_EMPTY)
		return (s);
	if (how == SAMPLE_SOME) {
		memcpy(d, "k\0vv", 5);
		s.count = 2;
		s.len = 5;
		return (s);
	}
	memset(d, 's', max - 1);
	d[max - 1] = '\0';
	for (i = 0; i + 1 < count; i++)
		d[2 * i + 1] = '\0';
	s.count = count;
	s.len = max;
	return (s);
}

static uint64_t
int_of(enum sample how, uint64_t some, uint64_t full)
{
	return (how == SAMPLE_EMPTY ? 0 : how == SAMPLE_SOME ? some : full);
}

#define F_NONE (void)how; m->none_ = 0;
#define F_U8(n) m->n = (uint8_t)int_of(how, SOME_U8, UINT8_MAX);
#define F_U32(n) m->n = (uint32_t)int_of(how, SOME_U32, UINT32_MAX);
#define F_U64(n) m->n = int_of(how, SOME_U64, UINT64_MAX);
#define F_I32(n)                                                              \
	m->n = (int32_t)int_of(how, (uint64_t)SOME_I32, (uint64_t)INT32_MIN);
#define F_STR(n, max) m->n = str_of(how, max);
#define F_STRS(n, count, max)                                                 \
	{                                                                     \
		static char d[max];                                           \
		m->n = strs_of(how, d, count, max);                           \
	}
#define MSG(NAME, name, num, from, to, nfds, max, fields)                     \
	static void fill_##name(enum sample how, struct sbx_##name *m)        \
	{                                                                     \
		fields                                                        \
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

#define MSG(NAME, name, num, from, to, nfds, max, fields)                     \
	case num:                                                             \
		fill_##name(how, &m->name);                                   \
		break;
void
sample_fill(unsigned type, enum sample how, union sbx_any_msg *m)
{
	memset(m, 0, sizeof(*m));
	switch (type) {
#include "common/proto/msgs.def"
	default:
		abort();
	}
}
#undef MSG

static bool
strs_equal(const struct sbx_strs *a, const struct sbx_strs *b)
{
	return (a->count == b->count && a->len == b->len &&
	    memcmp(a->data, b->data, a->len) == 0);
}

#define F_NONE
#define F_U8(n) &&x->n == y->n
#define F_U32(n) &&x->n == y->n
#define F_U64(n) &&x->n == y->n
#define F_I32(n) &&x->n == y->n
#define F_STR(n, max) &&strcmp(x->n, y->n) == 0
#define F_STRS(n, count, max) &&strs_equal(&x->n, &y->n)
#define MSG(NAME, name, num, from, to, nfds, max, fields)                     \
	case num: {                                                           \
		const struct sbx_##name *x = &a->name, *y = &b->name;         \
		return (x != NULL && y != NULL fields);                       \
	}
bool
sample_equal(unsigned type, const union sbx_any_msg *a,
    const union sbx_any_msg *b)
{
	switch (type) {
#include "common/proto/msgs.def"
	default:
		abort();
	}
}
#undef MSG
#undef F_NONE
#undef F_U8
#undef F_U32
#undef F_U64
#undef F_I32
#undef F_STR
#undef F_STRS

/* --- the second encoder ---------------------------------------------------- */

static void
add_int(struct sbx_buf *b, uint64_t v, unsigned bytes)
{
	char c;

	while (bytes-- > 0) {
		c = (char)(v >> (8 * bytes));
		(void)sbx_buf_add(b, &c, 1);
	}
}

static void
add_field(struct sbx_buf *b, const struct field *f, enum sample how)
{
	struct sbx_strs s;
	const char *t;
	char *d;

	switch (f->kind) {
	case FIELD_END:
		break;
	case FIELD_U8:
		add_int(b, int_of(how, SOME_U8, UINT8_MAX), 1);
		break;
	case FIELD_U32:
		add_int(b, int_of(how, SOME_U32, UINT32_MAX), 4);
		break;
	case FIELD_U64:
		add_int(b, int_of(how, SOME_U64, UINT64_MAX), 8);
		break;
	case FIELD_I32:
		add_int(b, int_of(how, 0xfffffffeu, 0x80000000u), 4);
		break;
	case FIELD_STR:
		t = str_of(how, f->max);
		add_int(b, strlen(t), 4);
		(void)sbx_buf_add(b, t, strlen(t) + 1);
		break;
	case FIELD_STRS:
		d = sbx_xcalloc(1, f->max);
		s = strs_of(how, d, f->count, f->max);
		add_int(b, s.count, 4);
		add_int(b, s.len, 4);
		(void)sbx_buf_add(b, s.data, s.len);
		free(d);
		break;
	}
}

uint8_t *
sample_body(unsigned type, enum sample how, int odd, const void *raw,
    size_t raw_len, size_t *ret_len)
{
	struct sbx_buf b;
	uint8_t *p;
	int i;

	sbx_buf_init(&b, 1u << 20);
	for (i = 0; fields_of[type][i].kind != FIELD_END; i++) {
		if (i == odd)
			(void)sbx_buf_add(&b, raw, raw_len);
		else
			add_field(&b, &fields_of[type][i], how);
	}
	p = sbx_xcalloc(1, b.len);
	memcpy(p, b.data, b.len);
	*ret_len = b.len;
	sbx_buf_clear(&b);
	return (p);
}

uint8_t *
sample_record(unsigned type, uint32_t id, const uint8_t *body, size_t len,
    size_t *ret_len)
{
	struct sbx_buf b;

	sbx_buf_init(&b, 1u << 20);
	add_int(&b, len, 4);
	add_int(&b, type, 2);
	add_int(&b, SBX_PROTO_VERSION, 2);
	add_int(&b, id, 4);
	(void)sbx_buf_add(&b, body, len);
	*ret_len = b.len;
	return ((uint8_t *)b.data);
}
