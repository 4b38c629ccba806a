#include "sbx-journald/journald.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The file as lines, from its end. */
struct back {
	const char *text;
	size_t end;		/* behind the lines not seen yet */
};

/* The line before b->end, without newline; false at the start of the file. */
static bool
line_back(struct back *b, const char **ret_line, size_t *ret_len)
{
	const char *nl;
	size_t start, end = b->end;

	if (end == 0)
		return (false);
	if (b->text[end - 1] == '\n')
		end--;
	nl = end == 0 ? NULL : memrchr(b->text, '\n', end);
	start = nl == NULL ? 0 : (size_t)(nl - b->text) + 1;
	*ret_line = b->text + start;
	*ret_len = end - start;
	b->end = start;
	return (true);
}

/*
 * The last record and the bad lines behind it, newest first in tail->torn.
 */
static int
find_end(struct back *b, struct chain_maker *m, struct tail *tail,
    char prev[JOURNAL_HASH_HEX + 1], struct sbx_err *err)
{
	const char *line;
	struct torn *t;
	bool open_line, good;
	size_t len;

	open_line = tail->open_line;
	while (line_back(b, &line, &len)) {
		good = journal_line_head(line, len, &tail->chain.seq, prev) ==
		    0;
		/* the chain goes on from the very last line, record or not:
		 * so cutting a torn line away later would show */
		if (!tail->any && tail->ntorn == 0)
			chain_hash(m, line, len, tail->chain.hash);
		if (!good || open_line) {
			if (tail->ntorn == SBX_JOURNAL_TORN)
				return (sbx_err_set(err, SBX_E_LIMIT, "the last "
				    "%u lines of the newest file are no "
				    "records: move it away by hand",
				    SBX_JOURNAL_TORN));
			t = &tail->torn[tail->ntorn++];
			t->offset = (uint64_t)(line - b->text);
			t->length = len;
			chain_hash(m, line, len, t->hash);
		}
		/* only the last line of a file can lack its end */
		open_line = false;
		tail->any = good;
		if (good)
			return (0);
	}
	tail->chain.seq = 0;
	return (0);
}

/* Does the last record continue the line before it? */
static bool
follows(struct back *b, struct chain_maker *m, uint64_t seq, const char *prev)
{
	char hex[JOURNAL_HASH_HEX + 1], unused[JOURNAL_HASH_HEX + 1];
	uint8_t hash[JOURNAL_HASH];
	const char *line;
	uint64_t before;
	size_t len;

	if (!line_back(b, &line, &len))
		return (true);	/* the file before this one is not read */
	chain_hash(m, line, len, hash);
	journal_hex(hash, hex);
	if (strcmp(hex, prev) != 0)
		return (false);
	/* a torn line has no number to compare */
	return (journal_line_head(line, len, &before, unused) < 0 ||
	    before + 1 == seq);
}

static void
oldest_first(struct torn *torn, unsigned n)
{
	struct torn t;
	unsigned i;

	for (i = 0; i < n / 2; i++) {
		t = torn[i];
		torn[i] = torn[n - 1 - i];
		torn[n - 1 - i] = t;
	}
}

int
scan_tail(int fd, unsigned number, struct chain_maker *m,
    struct tail *ret_tail, struct sbx_err *err)
{
	unsigned i;
	char prev[JOURNAL_HASH_HEX + 1];
	struct back b = { 0 };
	struct stat st;
	void *map;
	int r;

	memset(ret_tail, 0, sizeof(*ret_tail));
	if (fstat(fd, &st) < 0)
		return (sbx_err_sys(err, "fstat of a journal file"));
	if (st.st_size == 0)
		return (0);
	/* only the pages at the end are touched */
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return (sbx_err_sys(err, "mmap of a journal file"));
	b.text = map;
	b.end = (size_t)st.st_size;
	ret_tail->open_line = b.text[b.end - 1] != '\n';
	r = find_end(&b, m, ret_tail, prev, err);
	if (r == 0 && ret_tail->any)
		ret_tail->mismatch = !follows(&b, m, ret_tail->chain.seq, prev);
	oldest_first(ret_tail->torn, ret_tail->ntorn);
	for (i = 0; i < ret_tail->ntorn; i++)
		ret_tail->torn[i].file = number;
	(void)munmap(map, (size_t)st.st_size);
	return (r);
}
