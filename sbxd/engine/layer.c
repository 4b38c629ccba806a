/* What sandboxes stand on: layers, counted, and the snapshots that hold them. */
#include "sbxd/engine/engine.h"

#include <stdio.h>
#include <string.h>

void
layer_name(struct engine *e, char name[LAYER_NAME])
{
	(void)snprintf(name, LAYER_NAME, SCRATCH_LAYER "%u",
	    e->layer_serial++);
}

struct layer *
layer_new(struct engine *e, const char *name, int upper, uid_t uid,
    bool copied)
{
	struct layer *l = sbx_xcalloc(1, sizeof(*l));

	l->e = e;
	l->refs = 1;
	l->upper = upper;
	l->copied = copied;
	l->uid = uid;
	ids_hold(&e->ids, uid);
	layer_renamed(l, name);
	LIST_INSERT_HEAD(&e->layers, l, link);
	return (l);
}

void
layer_renamed(struct layer *l, const char *name)
{
	(void)snprintf(l->path, sizeof(l->path), "%s/upper", name);
	l->lent = false;
}

/* Its directory, from its path. */
static void
layer_drop(struct layer *l)
{
	char name[LAYER_NAME];

	if (l->lent)
		return;
	(void)snprintf(name, sizeof(name), "%.*s",
	    (int)strcspn(l->path, "/"), l->path);
	scratch_drop(&l->e->scratch, name);
}

void
layer_unref(struct layer *l)
{
	if (--l->refs > 0)
		return;
	LIST_REMOVE(l, link);
	layer_drop(l);
	ids_put(&l->e->ids, l->uid);
	sbx_close(&l->upper);
	free(l);
}

void
stack_add(struct stack *dst, const struct stack *src)
{
	if (dst->n + src->n > SBX_MAX_LAYERS)
		sbx_fatal("a stack of too many layers");
	for (unsigned i = 0; i < src->n; i++) {
		src->layers[i]->refs++;
		dst->layers[dst->n++] = src->layers[i];
	}
}

void
stack_push(struct stack *s, struct layer *l)
{
	if (s->n == SBX_MAX_LAYERS)
		sbx_fatal("a stack of too many layers");
	memmove(s->layers + 1, s->layers, s->n * sizeof(s->layers[0]));
	s->layers[0] = l;
	s->n++;
}

void
stack_clear(struct stack *s)
{
	while (s->n > 0)
		layer_unref(s->layers[--s->n]);
}

struct snapshot *
snapshot_find(struct engine *e, const char *id)
{
	struct snapshot *s;

	LIST_FOREACH(s, &e->snapshots, link)
		if (strcmp(s->id, id) == 0)
			return (s);
	return (NULL);
}

void
snapshot_add(struct engine *e, const char *id, struct image *image,
    const char *wanted, struct stack *stack)
{
	struct snapshot *s = sbx_xcalloc(1, sizeof(*s));

	(void)sbx_strlcpy(s->id, id, sizeof(s->id));
	s->image = image_hold(image);
	(void)sbx_strlcpy(s->wanted, wanted, sizeof(s->wanted));
	s->stack = *stack;
	stack->n = 0;
	e->nsnapshots++;
	LIST_INSERT_HEAD(&e->snapshots, s, link);
}

void
snapshot_free(struct engine *e, struct snapshot *s)
{
	stack_clear(&s->stack);
	image_put(s->image);
	LIST_REMOVE(s, link);
	e->nsnapshots--;
	free(s);
}

void
snapshot_finish(struct engine *e)
{
	struct layer *l;

	LIST_FOREACH(l, &e->layers, link)
		layer_drop(l);
}
