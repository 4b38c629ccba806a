#include "sbxd/front/member.h"

#include <string.h>

/*
 * Walking a text that is known to be clean JSON: a value's bytes can be handed
 * on exactly as they came, and a result of megabytes costs no tree.
 */

static size_t
skip_space(const char *s, size_t len, size_t at)
{
	while (at < len && (s[at] == ' ' || s[at] == '\t' || s[at] == '\n' ||
	    s[at] == '\r'))
		at++;
	return (at);
}

/* at is behind the opening quote; returns the place behind the closing one. */
static size_t
skip_string(const char *s, size_t len, size_t at)
{
	while (at < len && s[at] != '"')
		at += s[at] == '\\' ? 2 : 1;
	return (at < len ? at + 1 : len);
}

static size_t
skip_value(const char *s, size_t len, size_t at)
{
	size_t depth = 0;

	while (at < len) {
		switch (s[at]) {
		case '"':
			at = skip_string(s, len, at + 1);
			break;
		case '{':
		case '[':
			depth++;
			at++;
			continue;
		case '}':
		case ']':
			if (depth == 0)
				return (at); /* behind a number or a word */
			depth--;
			at++;
			break;
		case ',':
		case ' ':
		case '\t':
		case '\n':
		case '\r':
			if (depth == 0)
				return (at);
			at++;
			continue;
		default:
			at++;
			continue;
		}
		if (depth == 0)
			return (at);
	}
	return (len);
}

static int
hex_value(char c)
{
	return (c >= '0' && c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* Is the raw text of a member's name this one?  "\u0061" is "a" too, and
 * whoever reads the same text with a parser will think so. */
static bool
name_is(const char *raw, size_t len, const char *name)
{
	size_t i = 0;
	int c;

	while (i < len && *name != '\0') {
		c = (unsigned char)raw[i];
		if (c != '\\') {
			i++;
		} else if (i + 6 <= len && raw[i + 1] == 'u' &&
		    raw[i + 2] == '0' && raw[i + 3] == '0') {
			c = hex_value(raw[i + 4]) << 4 | hex_value(raw[i + 5]);
			i += 6;
		} else
			return (false);	/* names have nothing else to escape */
		if (c != (unsigned char)*name++)
			return (false);
	}
	return (i == len && *name == '\0');
}

/* The one behind `skip` others of that name. */
static bool
find(const char *text, size_t len, const char *name, unsigned skip,
    struct span *ret_value)
{
	size_t at = skip_space(text, len, 0), key, key_len, end;

	if (at >= len || text[at++] != '{')
		return (false);
	for (;;) {
		at = skip_space(text, len, at);
		if (at >= len || text[at] != '"')
			return (false);
		key = ++at;
		at = skip_string(text, len, at);
		key_len = at - key - 1;
		at = skip_space(text, len, at);
		if (at >= len || text[at++] != ':')
			return (false);
		at = skip_space(text, len, at);
		end = skip_value(text, len, at);
		if (name_is(text + key, key_len, name) && skip-- == 0) {
			*ret_value = (struct span){ text + at, end - at };
			return (true);
		}
		at = skip_space(text, len, end);
		if (at >= len || text[at++] != ',')
			return (false);
	}
}

bool
member_find(const char *text, size_t len, const char *name,
    struct span *ret_value)
{
	return (find(text, len, name, 0, ret_value));
}

bool
member_find_only(const char *text, size_t len, const char *name,
    struct span *ret_value)
{
	struct span second;

	return (find(text, len, name, 0, ret_value) &&
	    !find(text, len, name, 1, &second));
}
