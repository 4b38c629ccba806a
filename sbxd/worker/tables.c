#include "sbxd/worker/worker.h"

const struct serve_table serve_tables[] = {
	{ serves, &serves_n },
	{ NULL, NULL }
};
