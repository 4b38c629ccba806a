#ifndef SBX_REPORT_XML_H
#define SBX_REPORT_XML_H

/*
 * A strict reader of small XML: elements, attributes, text, CDATA, comments,
 * the five entities and character references.  No document type, no name
 * spaces, no recursion.  What comes out are pieces of the input.
 * Source: XML 1.0 (fifth edition).
 */

#include "sbxd/report/work.h"

#define XML_DEPTH 16u
#define XML_ATTRS 32u

enum xml_token { XML_OPEN, XML_CLOSE, XML_TEXT, XML_END, XML_BAD };

struct xml {
	struct text rest;
	struct text open[XML_DEPTH];	/* names of the open elements */
	unsigned depth;
	bool closing;		/* <x/>: its end comes next */
	bool rooted;		/* the root was seen */
	struct text name;	/* of the OPEN or CLOSE */
	struct text text;	/* of the TEXT, undecoded */
	bool cdata;		/* it is as it is */
	struct {
		struct text name, value;
	} attrs[XML_ATTRS];	/* of the OPEN */
	unsigned nattrs;
};

void xml_init(struct xml *x, struct text t);
enum xml_token xml_next(struct xml *x);
/* An attribute's value, undecoded, of the last OPEN; p NULL: none. */
struct text xml_attr(const struct xml *x, const char *name);
/* Add what t stands for.  SBX_E_LIMIT when b is full. */
int xml_decode(struct text t, struct sbx_buf *b);

#endif
