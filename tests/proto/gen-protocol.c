/*
 * Prints PROTOCOL.ipc, the messages of msgs.def in the form for people:
 * `make protocol` writes it, test_protocol.sh compares.
 */

#include <stdio.h>

#include "tests/proto/sample.h"

static void
print_mask(const char *word, uint32_t mask)
{
	enum sbx_proc p;

	printf("    %s", word);
	for (p = 0; p < SBX_PROC_MAX; p++)
		if ((mask & (1u << p)) != 0)
			printf(" %s", sbx_proc_name(p));
	(void)putchar('\n');
}

static void
print_field(const struct field *f)
{
	static const char *const kinds[] = {
		[FIELD_U8] = "u8", [FIELD_U32] = "u32", [FIELD_U64] = "u64",
		[FIELD_I32] = "i32", [FIELD_STR] = "str",
		[FIELD_STRS] = "strs"
	};

	printf("    field %s %s", kinds[f->kind], f->name);
	if (f->kind == FIELD_STR)
		printf(", <= %u bytes", f->max);
	if (f->kind == FIELD_STRS)
		printf(", <= %u strings, <= %u bytes", f->count, f->max);
	(void)putchar('\n');
}

int
main(void)
{
	unsigned t;
	int i;

	printf("Messages between the processes of sbx, version %d.  Generated "
	    "from\ncommon/proto/msgs.def by `make protocol`; what each is for "
	    "stands there.\n\nEach is one record on an AF_UNIX SOCK_SEQPACKET "
	    "socket: u32 length of the body,\nu16 type, u16 version, u32 "
	    "request id, then the fields in order.  Integers are\nbig endian.  "
	    "str: u32 length without the NUL, bytes, NUL.  strs: u32 count, "
	    "u32\nbytes, strings with their NULs.  Byte limits of str exclude "
	    "the NUL, those of\nstrs include all.\n", SBX_PROTO_VERSION);
	for (t = 0; t < SBX_MSG_MAX; t++) {
		const struct sbx_msg_spec *s = &sbx_msg_specs[t];

		if (s->name == NULL)
			continue;
		printf("\n%u %s\n", t, s->name);
		print_mask("from", s->from);
		print_mask("to", s->to);
		printf("    descriptors %u, body <= %u bytes\n", s->fds,
		    s->max_bytes);
		for (i = 0; fields_of[t][i].kind != FIELD_END; i++)
			print_field(&fields_of[t][i]);
	}
	return (ferror(stdout) || fflush(stdout) != 0);
}
