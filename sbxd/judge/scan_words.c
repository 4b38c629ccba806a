/*
 * Many words at once: the automaton of Aho and Corasick, as a table.  Bytes that
 * are in no word are one class; the states that end a word have the highest
 * numbers, so that one comparison a byte tells that nothing was found.
 */
#include "sbxd/judge/scan_parts.h"

#include <string.h>

#define NOTHING UINT32_MAX

/* While words come: a tree. */
struct node {
	uint32_t child[256];	/* 0: none */
	uint32_t word;		/* that ends here, or NOTHING */
};
/* A word that ends in a state, and the next one that does, too. */
struct ends {
	uint32_t word, next;
};
struct words {
	struct node *nodes;	/* NULL when built */
	uint32_t n, size;
	uint32_t nwords;
	/* built: */
	uint8_t class[256];
	unsigned shift;		/* of a state's row */
	uint32_t *next;		/* [row + class]: a row, state << shift */
	uint32_t first_end;	/* the first state that ends a word */
	struct ends *ends;	/* [state - first_end] */
};

static uint32_t
node_add(struct words *w)
{
	if (w->n == w->size) {
		w->size = w->size == 0 ? 64 : 2 * w->size;
		w->nodes = sbx_xreallocarray(w->nodes, w->size,
		    sizeof(*w->nodes));
	}
	memset(&w->nodes[w->n], 0, sizeof(w->nodes[0]));
	w->nodes[w->n].word = NOTHING;
	return (w->n++);
}

struct words *
words_new(void)
{
	struct words *w = sbx_xcalloc(1, sizeof(*w));

	(void)node_add(w);
	return (w);
}

uint32_t
words_add(struct words *w, const char *s, size_t n)
{
	uint32_t at = 0, next;

	for (size_t i = 0; i < n && w->n <= WORDS_MAX_STATES; i++) {
		next = w->nodes[at].child[(uint8_t)s[i]];
		if (next == 0) {
			next = node_add(w);
			w->nodes[at].child[(uint8_t)s[i]] = next;
		}
		at = next;
	}
	if (w->nodes[at].word == NOTHING)
		w->nodes[at].word = w->nwords++;
	return (w->nodes[at].word);
}

/* --- the table ------------------------------------------------------------------- */

struct build {
	uint32_t *order;	/* nodes by depth */
	uint32_t *fail;		/* the longest other end of what was read */
	uint32_t *end;		/* the longest word that ends here, as a node */
	uint32_t *state;	/* number in the table */
};

static void
classes(struct words *w)
{
	unsigned n = 1;

	for (int c = 0; c < 256; c++)
		for (uint32_t i = 0; i < w->n && w->class[c] == 0; i++)
			if (w->nodes[i].child[c] != 0)
				w->class[c] = (uint8_t)n++;
	/* both cases are one */
	for (int c = 'A'; c <= 'Z'; c++)
		w->class[c] = w->class[c + 0x20];
	for (w->shift = 0; 1u << w->shift < n; w->shift++)
		;
}

/* Breadth first: fail and end of a node are known before its children. */
static void
walk(struct words *w, struct build *b)
{
	uint32_t n = 1;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = b->order[i];

		b->end[at] = w->nodes[at].word != NOTHING ? at :
		    at == 0 ? NOTHING : b->end[b->fail[at]];
		for (int c = 0; c < 256; c++) {
			uint32_t next = w->nodes[at].child[c], other;

			other = at == 0 ? 0 : w->nodes[b->fail[at]].child[c];
			if (next == 0) {
				/* what the fall leads to, at once */
				w->nodes[at].child[c] = other;
				continue;
			}
			b->fail[next] = other;
			b->order[n++] = next;
		}
	}
}

static void
number(struct words *w, struct build *b)
{
	uint32_t n = 0;

	for (int ends = 0; ends < 2; ends++) {
		if (ends == 1)
			w->first_end = n;
		for (uint32_t i = 0; i < w->n; i++)
			if ((b->end[b->order[i]] != NOTHING) == ends)
				b->state[b->order[i]] = n++;
	}
}

static void
fill(struct words *w, const struct build *b)
{
	w->next = sbx_xcalloc((size_t)w->n << w->shift, sizeof(*w->next));
	w->ends = sbx_xcalloc((size_t)(w->n - w->first_end) + 1,
	    sizeof(*w->ends));
	for (uint32_t i = 0; i < w->n; i++) {
		uint32_t state = b->state[i], end = b->end[i], next;

		for (int c = 0; c < 256; c++)
			if (w->class[c] != 0 && !(c >= 'A' && c <= 'Z'))
				w->next[(size_t)state << w->shift |
				    w->class[c]] = b->state[
				    w->nodes[i].child[c]] << w->shift;
		if (end == NOTHING)
			continue;
		next = end == 0 ? NOTHING : b->end[b->fail[end]];
		w->ends[state - w->first_end] = (struct ends){
			w->nodes[end].word,
			next == NOTHING ? NOTHING : b->state[next] };
	}
}

int
words_build(struct words *w)
{
	struct build b = { 0 };

	if (w->n > WORDS_MAX_STATES)
		return (-1);
	classes(w);
	b.order = sbx_xcalloc(w->n, sizeof(uint32_t));
	b.fail = sbx_xcalloc(w->n, sizeof(uint32_t));
	b.end = sbx_xcalloc(w->n, sizeof(uint32_t));
	b.state = sbx_xcalloc(w->n, sizeof(uint32_t));
	walk(w, &b);
	number(w, &b);
	fill(w, &b);
	free(b.order);
	free(b.fail);
	free(b.end);
	free(b.state);
	free(w->nodes);
	w->nodes = NULL;
	return (0);
}

/* --- use ------------------------------------------------------------------------- */

void
words_find(const struct words *w, const char *p, size_t from, size_t to,
    words_found *found, void *ctx)
{
	const uint32_t *next = w->next, first_end = w->first_end << w->shift;
	const uint8_t *class = w->class;
	uint32_t row = 0;

	for (size_t i = from; i < to; i++) {
		row = next[row + class[(uint8_t)p[i]]];
		if (row < first_end)
			continue;
		for (uint32_t e = row >> w->shift; e != NOTHING;
		    e = w->ends[e - w->first_end].next)
			found(ctx, w->ends[e - w->first_end].word, i + 1);
	}
}

void
words_free(struct words *w)
{
	if (w == NULL)
		return;
	free(w->nodes);
	free(w->next);
	free(w->ends);
	free(w);
}
