/*
 * A fuzz target without a fuzzer: run it over the files, and the files of the
 * directories, that are named.  For make check, gcc and debuggers.
 */

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (1u << 20)

/* 1: it ran, 0: it is no file */
static int
replay_file(const char *path)
{
	static uint8_t buf[INPUT_MAX];
	uint8_t *exact;
	size_t n;
	FILE *f = fopen(path, "rbe");

	if (f == NULL)
		return (0);
	n = fread(buf, 1, sizeof(buf), f);
	if (ferror(f)) {
		(void)fclose(f);
		return (0);
	}
	(void)fclose(f);
	/* named first: when it crashes, the last line says where */
	printf("%s\n", path);
	(void)fflush(stdout);
	exact = sbx_xcalloc(1, n);
	memcpy(exact, buf, n);
	(void)LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	return (1);
}

static int
replay_dir(const char *path)
{
	struct dirent *e;
	char *file;
	DIR *d = opendir(path);
	int n = 0;

	if (d == NULL)
		return (replay_file(path));
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		file = sbx_xasprintf("%s/%s", path, e->d_name);
		n += replay_file(file);
		free(file);
	}
	(void)closedir(d);
	return (n);
}

int
main(int argc, char **argv)
{
	int i, n = 0;

	for (i = 1; i < argc; i++)
		n += replay_dir(argv[i]);
	printf("%d inputs\n", n);
	return (n == 0);
}
