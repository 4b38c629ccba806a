#ifndef SBX_PROTO_FILEWORK_H
#define SBX_PROTO_FILEWORK_H

/*
 * Work on files of a sandbox, done by a helper of its init (FILE_ASK,
 * ENGINE_FILE, INIT_FILE and their answers).
 *
 * `path` is absolute or relative to /workspace and may lead through links: it
 * reaches what the sandbox reaches.  The answer has the path without links and
 * the stamp of the file (mode, size, ino, mtime_ns, ctime_ns), which tells
 * whether it was touched since.
 */

#include <stdint.h>

enum sbx_file_op {
	/*
	 * A regular file's bytes, to the second descriptor.  Lines
	 * [first, first + count), count 0: all; with SBX_FILE_TAIL the last
	 * `count` ones.  A line ends with a newline or with the file.  total,
	 * first, count, bytes: lines in the file and what was written of
	 * them.  More than max_bytes (at least 128 KiB) is cut after the last
	 * line that fits, or with SBX_FILE_WHOLE EFBIG.  Of a line that is
	 * longer than SBX_FILE_LINE only so much is written, and then, in
	 * decimal, how many bytes follow: so no other line is longer.  total is UINT64_MAX with
	 * SBX_FILE_WHOLE: lines were not counted.
	 */
	SBX_FILE_READ,
	/*
	 * The changes in the first descriptor (struct below), all or none:
	 * each is written beside its file, synced and renamed over it.  The
	 * answer is of the last one.  first: on failure which change, from 0.
	 * reason: on success what they could not keep (other names of the
	 * file, extended attributes), "": nothing.  For the journal, count is
	 * how many changes, and pattern their paths, a line each, cut.
	 */
	SBX_FILE_WRITE,
	/*
	 * Names below the directory `path`, relative to it, each with its NUL,
	 * sorted by bytes: [first, first + count) of those that match.  depth
	 * in the upper 16 bits of flags, 1: the directory's own.  pattern:
	 * fnmatch(3), of the last component or, with a slash in it, of the
	 * whole name; "": all.  Files, links and others are named, directories
	 * are not; below hidden ones only with SBX_FILE_HIDDEN, .git never.
	 * total: how many match; bytes 1: the walk hit a limit, there are more.
	 */
	SBX_FILE_LIST,
	/*
	 * The files whose names (relative to `path`, each with its NUL) are
	 * in the first descriptor, as a copy stream (copystream.h) to the
	 * second.  A link is its text.  ENOENT, EINVAL (a directory, a device)
	 * end it without the stream's end.
	 */
	SBX_FILE_PACK,
	SBX_FILE_OP_MAX
};
enum sbx_file_flag {
	SBX_FILE_TAIL = 1, SBX_FILE_WHOLE = 2, SBX_FILE_HIDDEN = 4,
	SBX_FILE_PRESENT = 8,	/* PACK: what is not there is passed over */
	SBX_FILE_DEPTH_SHIFT = 16,
};

/*
 * One change, all numbers big endian: this head, path_len bytes of path, and
 * data_len bytes of what the file shall be.
 */
#define SBX_CHANGE_HEAD_BYTES 56
struct sbx_change_head {
	uint32_t path_len;	/* 1 .. 4095 */
	uint32_t flags;		/* enum sbx_change_flag */
	uint32_t mode;		/* permissions of a new file (07777) */
	uint32_t zero;
	/* the stamp that it must still have, unless CREATE */
	uint64_t size, ino, mtime_ns, ctime_ns;
	uint64_t data_len;	/* <= SBX_CHANGE_MAX_BYTES in all */
};
enum sbx_change_flag {
	SBX_CHANGE_CREATE = 1,	/* there is no such file; parents are made */
	SBX_CHANGE_REMOVE = 2,	/* no data: the file goes away */
	SBX_CHANGE_MODE = 4,	/* `mode` also where the file exists */
};
#define SBX_CHANGE_MAX 64u		/* changes in one */
#define SBX_CHANGE_MAX_BYTES (64u << 20)
#define SBX_FILE_LINE (64u << 10)	/* of one line of an answer, */
#define SBX_FILE_LINE_MARK 24u		/* and room for what follows it */
#define SBX_FILE_MAX_READ (64u << 20)	/* bytes of one answer */
#define SBX_FILE_MAX_LIST 1000000u	/* names that one walk looks at, */
#define SBX_FILE_MAX_NAMES (64u << 20)	/* and bytes of them */
#define SBX_FILE_LIST_MS 3000u	/* and for how long: no model waits for / */
#define SBX_FILE_MS 40000		/* then the helper ends; one that packs, */
#define SBX_FILE_PACK_MS 600000	/* after so long without a byte, then in all */

/* Seconds until a helper that packs ends if it comes no further; 0: it is over
 * now.  spent_ms: since it began. */
static inline unsigned
sbx_file_pack_left_s(uint64_t spent_ms)
{
	uint64_t left = spent_ms < SBX_FILE_PACK_MS ? SBX_FILE_PACK_MS -
	    spent_ms : 0;

	return ((unsigned)((left < SBX_FILE_MS ? left : SBX_FILE_MS) / 1000));
}

#endif
