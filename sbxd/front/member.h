#ifndef SBX_FRONT_MEMBER_H
#define SBX_FRONT_MEMBER_H

#include <stdbool.h>
#include <stddef.h>

/* A value inside of a JSON text; borrowed. */
struct span {
	const char *p;
	size_t len;
};

/*
 * Find the value of member `name` of the object text[0..len), which must have
 * passed sbx_json_scan().  name: letters and '_'; it is found however it is
 * escaped.  false: no object, or no such member.
 */
bool member_find(const char *text, size_t len, const char *name,
    struct span *ret_value);
/* The same of a text that is only well formed (sbx_json_where), where a name may
 * be twice: false then, too. */
bool member_find_only(const char *text, size_t len, const char *name,
    struct span *ret_value);

#endif
