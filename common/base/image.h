#ifndef SBX_BASE_IMAGE_H
#define SBX_BASE_IMAGE_H

/*
 * The image store as files: what sbxd-image writes, and the engine, the
 * monitor and the command line read.
 *
 *	names		one `NAME sha256:HEX` a line, each name once
 *	HEX/rootfs	the image's tree, all of it the suite's user's
 *	HEX/skel	the layer above it: what sandboxes are mounted on
 *	HEX/config	what the image says of itself, see below
 *	HEX/lock	flock(2): shared by users, exclusive to remove
 *	tmp.*		being imported, or being removed
 *
 * config: the line `sbx-image 1`, then one `key value` a line.  A value is
 * UTF-8 without control characters, and may be empty where a list is meant.
 * env and entrypoint come any number of times, an entry a line, in order; the
 * other keys at most once each; a key that is not listed here is refused.
 * Both files end in a newline, unless they are empty.
 *
 * Nothing here trusts who wrote them: they are read with limits, and a file
 * that is not as described is refused whole.
 */

#include "common/base/base.h"

#define SBX_IMAGE_HOST "host"		/* not in the store: this machine */
#define SBX_IMAGE_AUTO "auto"		/* neither: the monitor chooses */
#define SBX_IMAGE_HEX 64		/* digits of a digest */
#define SBX_IMAGE_PREFIX 12		/* digits that name one, at least */
#define SBX_IMAGE_ALGORITHM "sha256:"	/* before them, where it is shown */
#define SBX_IMAGE_DIGEST_SIZE 72	/* "sha256:HEX" and NUL */
#define SBX_IMAGE_NAME_SIZE 129		/* a name and NUL */
#define SBX_IMAGE_MAX_NAMES 256
#define SBX_IMAGE_NAMES_MAX (64u << 10)	/* bytes of names */
#define SBX_IMAGE_CONFIG_MAX (64u << 10) /* bytes of config */
/* One list; no more than a message of the engine carries. */
#define SBX_IMAGE_MAX_ITEMS 64
#define SBX_IMAGE_ENV_MAX 8192		/* bytes with each NUL */
#define SBX_IMAGE_ENTRYPOINT_MAX 4096

/* Keys of config, texts: key, member, bytes with the NUL. */
#define SBX_IMAGE_TEXTS(T) \
	T(user, 65) T(workdir, 1024) T(source, 1024) T(source_digest, 129) \
	T(architecture, 33)
/* Numbers, up to 2^63 - 1.  created: seconds since 1970. */
#define SBX_IMAGE_NUMBERS(N) \
	N(created) N(files) N(bytes) N(layers) N(dropped_setuid) \
	N(dropped_devices) N(dropped_xattrs) N(dropped_config) N(dropped_other)

struct sbx_image_list {
	char **v;			/* owned, each owned */
	size_t n, bytes;		/* bytes: with each NUL */
};
#define SBX_IMAGE_TEXT(key, size) char key[size];
#define SBX_IMAGE_NUMBER(key) uint64_t key;
struct sbx_image_config {
	SBX_IMAGE_TEXTS(SBX_IMAGE_TEXT)
	SBX_IMAGE_NUMBERS(SBX_IMAGE_NUMBER)
	struct sbx_image_list env, entrypoint;
};
struct sbx_image_name {
	char name[SBX_IMAGE_NAME_SIZE], digest[SBX_IMAGE_DIGEST_SIZE];
};
struct sbx_image_names {
	struct sbx_image_name *v;	/* owned */
	size_t n;
};

/*
 * May an image be called s?  1 to 128 of a-z 0-9 . _ - / : beginning with a
 * letter or digit; not "host" or "auto", and nothing that could be meant for a digest
 * (12 or more digits of hex, or sha256:...).
 */
bool sbx_image_is_name(const char *s);
/* "sha256:" and 64 lower-case digits of hex? */
bool sbx_image_is_digest(const char *s);
/* May a request name an image by s: host, a name, a digest or a prefix of
 * one?  Says nothing of whether it exists. */
bool sbx_image_is_wanted(const char *s);

/* Parse text of n bytes.  ret: filled anew, the caller clears it, also after
 * a failure.  0, SBX_E_SYNTAX, SBX_E_LIMIT with err set (NULL ok). */
int sbx_image_names_parse(const char *text, size_t n,
    struct sbx_image_names *ret, struct sbx_err *err);
int sbx_image_config_parse(const char *text, size_t n,
    struct sbx_image_config *ret, struct sbx_err *err);
void sbx_image_names_clear(struct sbx_image_names *names);
void sbx_image_config_clear(struct sbx_image_config *c);
/* The digest of a name, borrowed from names; NULL: there is no such name. */
const char *sbx_image_names_find(const struct sbx_image_names *names,
    const char *name);

/* Append to a list what config could hold: printable UTF-8 of at most max
 * bytes in all.  0, SBX_E_SYNTAX, SBX_E_LIMIT; the list is unchanged then. */
int sbx_image_list_add(struct sbx_image_list *l, const char *s, size_t max);
/* NAME=value, NAME of letters, digits and _ that begins with no digit? */
bool sbx_image_is_env(const char *s);
/* Append what the parser takes.  0, or SBX_E_SYNTAX, SBX_E_LIMIT for what it
 * would not take. */
int sbx_image_names_print(const struct sbx_image_names *names,
    struct sbx_buf *b);
int sbx_image_config_print(const struct sbx_image_config *c,
    struct sbx_buf *b);

/*
 * Read store/names; no file: no names.  dir/config likewise, where there must
 * be one.  store, dir: borrowed.  Reads a local file, follows no link.
 * 0, SBX_E_SYS, SBX_E_POLICY (no regular file), and as the parsers.
 */
int sbx_image_names_read(int store, struct sbx_image_names *ret,
    struct sbx_err *err);
int sbx_image_config_read(int dir, struct sbx_image_config *ret,
    struct sbx_err *err);
/*
 * Which image of the store is meant by a name, by a digest with or without
 * "sha256:", or by 12 and more first digits of one?  Not for "host".  All 64
 * digits may also be those of source_digest: a manifest's, an image id's.
 * 0 with the 64 digits in ret_hex; SBX_E_NOENT, whose sentence names the
 * images that exist; SBX_E_EXISTS for a prefix of several; and as above.
 */
int sbx_image_resolve(int store, const char *wanted,
    char ret_hex[SBX_IMAGE_HEX + 1], struct sbx_err *err);
/*
 * Open store/HEX and hold its lock, shared, for as long as *ret_lock is open:
 * it is not removed meanwhile.  Both descriptors are the caller's.
 * 0, SBX_E_NOENT (not there, or being removed), SBX_E_SYS.
 */
int sbx_image_open(int store, const char *hex, int *ret_dir, int *ret_lock,
    struct sbx_err *err);

#endif
