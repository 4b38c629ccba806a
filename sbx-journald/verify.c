#include "sbx-journald/reader.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define TORN_MAX 64

/* A line that is no record, or had no end, and where it was. */
struct bad_line {
	unsigned file;
	uint64_t offset, length;
	char hash[JOURNAL_HASH_HEX + 1];
};

struct verify {
	struct journal_verdict *out;
	uint64_t checkpoint_seq;
	const char *checkpoint_hash;
	struct bad_line bad[TORN_MAX];	/* not accounted for yet, in order */
	unsigned nbad;
	struct bad_line before;		/* the line before, whatever it is */
	struct bad_line unended;	/* the last record without newline */
	unsigned file;			/* of the line before, 0: none */
	struct sbx_err *err;
};

static int
hash_line(const char *p, size_t n, char ret_hex[JOURNAL_HASH_HEX + 1])
{
	uint8_t hash[EVP_MAX_MD_SIZE];

	if (EVP_Digest(p, n, hash, NULL, EVP_sha256(), NULL) != 1)
		return (SBX_E_SYS);
	journal_hex(hash, ret_hex);
	return (0);
}

static int
fault(struct verify *v, const struct journal_line *l, const char *what)
{
	return (sbx_err_set(v->err, SBX_E_POLICY,
	    JOURNAL_NAME_FMT ", byte %" PRIu64 ": %s", l->file, l->offset,
	    what));
}

static bool
field_is(const struct journal_record *rec, const char *key, uint64_t v)
{
	const char *s = journal_field(rec, key);
	uint64_t n;

	return (s != NULL && sbx_parse_u64(s, 0, UINT64_MAX, &n) == 0 && n == v);
}

static bool
accounts_for(const struct journal_record *rec, const struct bad_line *b)
{
	const char *hash = journal_field(rec, "sha256");

	return (field_is(rec, "file", b->file) &&
	    field_is(rec, "offset", b->offset) &&
	    field_is(rec, "length", b->length) && hash != NULL &&
	    strcmp(hash, b->hash) == 0);
}

/*
 * Bad lines must be followed by their `torn` records; in a new file `open`
 * comes first.  A line that was whole but for its newline is a record and has
 * a `torn` record as well.
 */
static int
check_torn(struct verify *v, const struct journal_line *l,
    const struct journal_record *rec)
{
	bool ours = strcmp(rec->component, "journald") == 0;

	if (ours && strcmp(rec->op, "torn") == 0) {
		if (v->nbad > 0 && accounts_for(rec, &v->bad[0])) {
			v->out->torn_lines++;
			v->out->torn_bytes += v->bad[0].length;
			memmove(v->bad, v->bad + 1,
			    --v->nbad * sizeof(*v->bad));
			return (0);
		}
		if (v->nbad == 0 && (accounts_for(rec, &v->before) ||
		    accounts_for(rec, &v->unended)))
			return (0);
		return (fault(v, l, "a torn record fits no torn line"));
	}
	if (v->nbad > 0 && !(ours && strcmp(rec->op, "open") == 0 &&
	    l->offset == 0))
		return (fault(v, l, "a line before this is no record"));
	return (0);
}

static int
check_record(struct verify *v, const struct journal_line *l,
    const struct journal_record *rec)
{
	struct journal_verdict *out = v->out;

	if (l->file != v->file && (strcmp(rec->op, "open") != 0 ||
	    strcmp(rec->component, "journald") != 0))
		return (fault(v, l, "the file does not begin with `open'"));
	/* the number is looked at before the hash: it tells better what
	 * happened, and the hash then covers what is left */
	if (rec->seq <= out->last_seq)
		return (fault(v, l, "duplicate or reordered record"));
	if (rec->seq != out->last_seq + 1)
		return (fault(v, l, "records before this one are missing"));
	if (strcmp(rec->prev, v->before.hash) != 0)
		return (fault(v, l, "the line before was changed, or this one"));
	return (check_torn(v, l, rec));
}

static int
check_line(struct verify *v, const struct journal_line *l)
{
	struct journal_record rec;
	struct bad_line here = {
		.file = l->file, .offset = l->offset, .length = l->len,
	};
	int r;

	if (hash_line(l->text, l->len, here.hash) < 0)
		return (sbx_err_set(v->err, SBX_E_SYS, "no SHA-256"));
	if (journal_parse(l->text, l->len, &rec) < 0) {
		if (v->nbad == TORN_MAX)
			return (fault(v, l, "too many lines that are no record"));
		v->bad[v->nbad++] = here;
	} else {
		r = check_record(v, l, &rec);
		v->out->last_seq = rec.seq;
		journal_record_clear(&rec);
		if (r < 0)
			return (r);
		v->out->records++;
		if (!l->ended)
			v->unended = here;
		(void)sbx_strlcpy(v->out->last_hash, here.hash,
		    sizeof(v->out->last_hash));
		if (v->out->last_seq == v->checkpoint_seq) {
			if (strcmp(here.hash, v->checkpoint_hash) != 0)
				return (fault(v, l, "not the record that the "
				    "checkpoint names"));
			v->out->anchored = true;
		}
	}
	v->file = l->file;
	v->before = here;
	return (0);
}

/* At the end of all files. */
static int
check_end(struct verify *v, const struct journal_line *last)
{
	/* the writer may be in the middle of it, or a crash was: the next
	 * start accounts for it, so by itself it proves nothing */
	if (!last->ended && v->nbad > 0) {
		v->out->unfinished = v->bad[v->nbad - 1].length;
		v->nbad--;
	}
	if (v->nbad > 0)
		return (fault(v, last, "no record, and not accounted for"));
	if (v->checkpoint_seq > v->out->last_seq)
		return (sbx_err_set(v->err, SBX_E_POLICY, "the journal ends at "
		    "record %" PRIu64 ", before the checkpoint %" PRIu64,
		    v->out->last_seq, v->checkpoint_seq));
	return (0);
}

int
journal_verify(const char *dir, uint64_t checkpoint_seq,
    const char *checkpoint_hash, struct journal_verdict *ret_verdict,
    struct sbx_err *err)
{
	struct journal_line line = { .ended = true };
	struct journal_reader *reader;
	struct verify v = {
		.out = ret_verdict, .checkpoint_seq = checkpoint_seq,
		.checkpoint_hash = checkpoint_hash, .err = err,
	};
	int r;

	memset(ret_verdict, 0, sizeof(*ret_verdict));
	memset(v.before.hash, '0', JOURNAL_HASH_HEX);
	memset(ret_verdict->last_hash, '0', JOURNAL_HASH_HEX);
	r = journal_open(dir, &reader, err);
	if (r < 0)
		return (r);
	while ((r = journal_next(reader, &line, err)) == 0)
		if ((r = check_line(&v, &line)) < 0)
			break;
	/* no file at all was said by journal_open() above */
	if (r == SBX_E_NOENT)
		err->code = r = SBX_E_POLICY;	/* a file between others */
	if (r == SBX_E_AGAIN)
		r = check_end(&v, &line);
	journal_close(reader);
	return (r);
}
