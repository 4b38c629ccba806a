#include "common/base/image.h"

#include "common/base/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "sbx-image 1\n"
#define NUMBER_MAX ((uint64_t)INT64_MAX)

struct text {
	const char *key;
	size_t at, size;
};
struct number {
	const char *key;
	size_t at;
};
#define TEXT(name, bytes) \
	{ #name, offsetof(struct sbx_image_config, name), bytes },
#define NUMBER(name) { #name, offsetof(struct sbx_image_config, name) },
static const struct text texts[] = { SBX_IMAGE_TEXTS(TEXT) };
static const struct number numbers[] = { SBX_IMAGE_NUMBERS(NUMBER) };

/* --- forms ------------------------------------------------------------------ */

static bool
all_of(const char *s, const char *set)
{
	return (s[strspn(s, set)] == '\0');
}

static bool
is_prefix(const char *s)
{
	size_t n = strlen(s);

	return (n >= SBX_IMAGE_PREFIX && n <= SBX_IMAGE_HEX &&
	    sbx_is_hex(s, n));
}

bool
sbx_image_is_name(const char *s)
{
	size_t n = strlen(s);

	return (n > 0 && n < SBX_IMAGE_NAME_SIZE && strchr("._-/:", s[0]) ==
	    NULL && all_of(s, "abcdefghijklmnopqrstuvwxyz0123456789._-/:") &&
	    strcmp(s, SBX_IMAGE_HOST) != 0 && strcmp(s, SBX_IMAGE_AUTO) != 0 &&
	    strncmp(s, SBX_IMAGE_ALGORITHM, strlen(SBX_IMAGE_ALGORITHM)) != 0 &&
	    !(n >= SBX_IMAGE_PREFIX && sbx_is_hex(s, n)));
}

bool
sbx_image_is_digest(const char *s)
{
	size_t n = strlen(SBX_IMAGE_ALGORITHM);

	return (strncmp(s, SBX_IMAGE_ALGORITHM, n) == 0 &&
	    sbx_is_hex(s + n, SBX_IMAGE_HEX));
}

bool
sbx_image_is_wanted(const char *s)
{
	size_t n = strlen(SBX_IMAGE_ALGORITHM);

	if (strncmp(s, SBX_IMAGE_ALGORITHM, n) == 0)
		return (is_prefix(s + n));
	return (strcmp(s, SBX_IMAGE_HOST) == 0 || sbx_image_is_name(s) ||
	    is_prefix(s));
}

/* UTF-8 without controls, those of C1 among them: it is shown in terminals. */
static bool
is_text(const char *s, size_t n)
{
	unsigned len;

	for (size_t i = 0; i < n; i += len) {
		len = sbx_utf8_len(s + i, n - i);
		if (len == 0 || (unsigned char)s[i] < 0x20 || s[i] == 0x7f ||
		    (len == 2 && (unsigned char)s[i] == 0xc2 &&
		    (unsigned char)s[i + 1] < 0xa0))
			return (false);
	}
	return (true);
}

bool
sbx_image_is_env(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
	    "abcdefghijklmnopqrstuvwxyz");

	return (n > 0 && s[n] == '=' && (s[0] < '0' || s[0] > '9'));
}

/* --- lists ------------------------------------------------------------------- */

int
sbx_image_list_add(struct sbx_image_list *l, const char *s, size_t max)
{
	size_t n = strlen(s);

	if (!is_text(s, n))
		return (SBX_E_SYNTAX);
	if (l->n == SBX_IMAGE_MAX_ITEMS || n + 1 > max - l->bytes)
		return (SBX_E_LIMIT);
	if (l->v == NULL)
		l->v = sbx_xcalloc(SBX_IMAGE_MAX_ITEMS, sizeof(*l->v));
	l->v[l->n++] = sbx_xstrdup(s);
	l->bytes += n + 1;
	return (0);
}

static void
list_clear(struct sbx_image_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct sbx_image_list){ 0 };
}

void
sbx_image_config_clear(struct sbx_image_config *c)
{
	list_clear(&c->env);
	list_clear(&c->entrypoint);
	*c = (struct sbx_image_config){ 0 };
}

void
sbx_image_names_clear(struct sbx_image_names *names)
{
	free(names->v);
	*names = (struct sbx_image_names){ 0 };
}

const char *
sbx_image_names_find(const struct sbx_image_names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (strcmp(names->v[i].name, name) == 0)
			return (names->v[i].digest);
	return (NULL);
}

/* --- parsing ------------------------------------------------------------------ */

/* The line at *at, without its newline, as a string of its own; *at moves on.
 * NULL at the end of the text and at a fault, which is in *ret_r. */
static char *
next_line(const char *text, size_t n, size_t *at, int *ret_r)
{
	const char *start = text + *at, *end;
	char *line;

	*ret_r = 0;
	if (*at == n)
		return (NULL);
	end = memchr(start, '\n', n - *at);
	if (end == NULL || !is_text(start, (size_t)(end - start))) {
		*ret_r = SBX_E_SYNTAX;
		return (NULL);
	}
	line = sbx_xcalloc((size_t)(end - start) + 1, 1);
	memcpy(line, start, (size_t)(end - start));
	*at += (size_t)(end - start) + 1;
	return (line);
}

static int
add_name(struct sbx_image_names *names, char *line)
{
	struct sbx_image_name *new;
	char *space = strchr(line, ' ');

	if (space == NULL)
		return (SBX_E_SYNTAX);
	*space = '\0';
	if (!sbx_image_is_name(line) || !sbx_image_is_digest(space + 1) ||
	    sbx_image_names_find(names, line) != NULL)
		return (SBX_E_SYNTAX);
	if (names->n == SBX_IMAGE_MAX_NAMES)
		return (SBX_E_LIMIT);
	new = &names->v[names->n++];
	(void)sbx_strlcpy(new->name, line, sizeof(new->name));
	(void)sbx_strlcpy(new->digest, space + 1, sizeof(new->digest));
	return (0);
}

int
sbx_image_names_parse(const char *text, size_t n, struct sbx_image_names *ret,
    struct sbx_err *err)
{
	size_t at = 0;
	unsigned nr = 0;
	char *line;
	int r;

	*ret = (struct sbx_image_names){ 0 };
	if (n > SBX_IMAGE_NAMES_MAX)
		return (sbx_err_set(err, SBX_E_LIMIT, "names of the image "
		    "store: more than %u bytes", SBX_IMAGE_NAMES_MAX));
	ret->v = sbx_xcalloc(SBX_IMAGE_MAX_NAMES, sizeof(*ret->v));
	while ((line = next_line(text, n, &at, &r)) != NULL) {
		nr++;
		r = add_name(ret, line);
		free(line);
		if (r < 0)
			break;
	}
	if (r < 0)
		return (sbx_err_set(err, r, "names of the image store: after "
		    "line %u: %s", nr, sbx_error_name(r)));
	return (0);
}

/* Is it the first of its key?  seen: one bit a key. */
static bool
first(uint32_t *seen, size_t key)
{
	uint32_t bit = 1u << key;
	bool r = (*seen & bit) == 0;

	*seen |= bit;
	return (r);
}

static int
set_key(struct sbx_image_config *c, const char *key, const char *value,
    uint32_t *seen)
{
	char *base = (char *)c;

	if (strcmp(key, "env") == 0)
		return (sbx_image_is_env(value) ? sbx_image_list_add(&c->env,
		    value, SBX_IMAGE_ENV_MAX) : SBX_E_SYNTAX);
	if (strcmp(key, "entrypoint") == 0)
		return (sbx_image_list_add(&c->entrypoint, value,
		    SBX_IMAGE_ENTRYPOINT_MAX));
	for (size_t i = 0; i < SBX_NELEM(texts); i++)
		if (strcmp(key, texts[i].key) == 0)
			return (!first(seen, i) ? SBX_E_SYNTAX :
			    sbx_strlcpy(base + texts[i].at, value,
			    texts[i].size));
	for (size_t i = 0; i < SBX_NELEM(numbers); i++)
		if (strcmp(key, numbers[i].key) == 0)
			return (!first(seen, SBX_NELEM(texts) + i) ?
			    SBX_E_SYNTAX : sbx_parse_u64(value, 0, NUMBER_MAX,
			    (uint64_t *)(void *)(base + numbers[i].at)));
	return (SBX_E_SYNTAX);
}

int
sbx_image_config_parse(const char *text, size_t n,
    struct sbx_image_config *ret, struct sbx_err *err)
{
	size_t at = strlen(HEAD);
	uint32_t seen = 0;
	unsigned nr = 1;
	char *line, *space;
	int r;

	*ret = (struct sbx_image_config){ 0 };
	if (n > SBX_IMAGE_CONFIG_MAX)
		return (sbx_err_set(err, SBX_E_LIMIT, "config of an image: "
		    "more than %u bytes", SBX_IMAGE_CONFIG_MAX));
	if (n < at || memcmp(text, HEAD, at) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, "config of an image: "
		    "it does not begin with sbx-image 1"));
	while ((line = next_line(text, n, &at, &r)) != NULL) {
		nr++;
		r = SBX_E_SYNTAX;
		if ((space = strchr(line, ' ')) != NULL) {
			*space = '\0';
			r = set_key(ret, line, space + 1, &seen);
		}
		free(line);
		if (r < 0)
			break;
	}
	if (r < 0)
		return (sbx_err_set(err, r, "config of an image: after line "
		    "%u: %s", nr, sbx_error_name(r)));
	return (0);
}

/* --- printing ------------------------------------------------------------------ */

int
sbx_image_names_print(const struct sbx_image_names *names, struct sbx_buf *b)
{
	int r = names->n > SBX_IMAGE_MAX_NAMES ? SBX_E_LIMIT : 0;

	for (size_t i = 0; r == 0 && i < names->n; i++) {
		if (!sbx_image_is_name(names->v[i].name) ||
		    !sbx_image_is_digest(names->v[i].digest))
			return (SBX_E_SYNTAX);
		r = sbx_buf_printf(b, "%s %s\n", names->v[i].name,
		    names->v[i].digest);
	}
	return (r);
}

static int
print_list(struct sbx_buf *b, const char *key, const struct sbx_image_list *l)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++)
		r = sbx_buf_printf(b, "%s %s\n", key, l->v[i]);
	return (r);
}

int
sbx_image_config_print(const struct sbx_image_config *c, struct sbx_buf *b)
{
	const char *base = (const char *)c, *text;
	uint64_t number;
	int r = sbx_buf_str(b, HEAD);

	for (size_t i = 0; r == 0 && i < SBX_NELEM(texts); i++) {
		text = base + texts[i].at;
		if (!is_text(text, strlen(text)))
			return (SBX_E_SYNTAX);
		if (text[0] != '\0')
			r = sbx_buf_printf(b, "%s %s\n", texts[i].key, text);
	}
	for (size_t i = 0; r == 0 && i < SBX_NELEM(numbers); i++) {
		memcpy(&number, base + numbers[i].at, sizeof(number));
		if (number > NUMBER_MAX)
			return (SBX_E_SYNTAX);
		r = sbx_buf_printf(b, "%s %llu\n", numbers[i].key,
		    (unsigned long long)number);
	}
	for (size_t i = 0; r == 0 && i < c->env.n; i++)
		if (!sbx_image_is_env(c->env.v[i]))
			return (SBX_E_SYNTAX);
	if (r == 0)
		r = print_list(b, "env", &c->env);
	return (r == 0 ? print_list(b, "entrypoint", &c->entrypoint) : r);
}

/* --- files ----------------------------------------------------------------------- */

/* Not a link, pipe or device, whoever put it there; at most max bytes. */
static int
read_file(int dir, const char *name, size_t max, struct sbx_buf *b,
    struct sbx_err *err)
{
	int SBX_CLEANUP(fd) fd = openat(dir, name, O_RDONLY | O_CLOEXEC |
	    O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	char chunk[8192];
	struct stat st;
	ssize_t n;

	if (fd == -1 || fstat(fd, &st) == -1)
		return (sbx_err_sys(err, "%s of the image store", name));
	if (!S_ISREG(st.st_mode))
		return (sbx_err_set(err, SBX_E_POLICY, "%s of the image store "
		    "is no regular file", name));
	sbx_buf_init(b, max);
	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n == -1 && errno != EINTR)
			return (sbx_err_sys(err, "%s of the image store",
			    name));
		if (n > 0 && sbx_buf_add(b, chunk, (size_t)n) != 0)
			return (sbx_err_set(err, SBX_E_LIMIT, "%s of the image "
			    "store has more than %zu bytes", name, max));
	}
	return (0);
}

int
sbx_image_names_read(int store, struct sbx_image_names *ret,
    struct sbx_err *err)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct stat st;
	int r;

	*ret = (struct sbx_image_names){ 0 };
	if (fstatat(store, "names", &st, AT_SYMLINK_NOFOLLOW) == -1 &&
	    errno == ENOENT)
		return (0);
	if ((r = read_file(store, "names", SBX_IMAGE_NAMES_MAX, &b, err)) < 0)
		return (r);
	return (sbx_image_names_parse(b.data, b.len, ret, err));
}

int
sbx_image_config_read(int dir, struct sbx_image_config *ret,
    struct sbx_err *err)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	int r;

	*ret = (struct sbx_image_config){ 0 };
	r = read_file(dir, "config", SBX_IMAGE_CONFIG_MAX, &b, err);
	return (r < 0 ? r : sbx_image_config_parse(b.data, b.len, ret, err));
}

/* --- which one -------------------------------------------------------------------- */

/* Do its digits begin so? */
static bool
is_prefix_of(int store, const char *hex, const char *digits)
{
	(void)store;
	return (strncmp(hex, digits, strlen(digits)) == 0);
}

/* Does it come from what has this digest, whole, where it was made? */
static bool
is_source(int store, const char *hex, const char *digits)
{
	struct sbx_image_config config = { 0 };
	int SBX_CLEANUP(fd) dir = openat(store, hex, O_RDONLY | O_DIRECTORY |
	    O_NOFOLLOW | O_CLOEXEC);
	bool same;

	same = dir != -1 && sbx_image_config_read(dir, &config, NULL) == 0 &&
	    strncmp(config.source_digest, SBX_IMAGE_ALGORITHM,
	    strlen(SBX_IMAGE_ALGORITHM)) == 0 && strcmp(config.source_digest +
	    strlen(SBX_IMAGE_ALGORITHM), digits) == 0;
	sbx_image_config_clear(&config);
	return (same);
}

/* How many images are meant by the digits, 2 for more; one in ret_hex. */
static int
match(int store, const char *digits, bool (*is)(int, const char *,
    const char *), char *ret_hex)
{
	int fd = openat(store, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *e;
	int n = 0;

	if (d == NULL)
		sbx_close(&fd);
	while (d != NULL && n < 2 && (e = readdir(d)) != NULL)
		if (sbx_is_hex(e->d_name, SBX_IMAGE_HEX) &&
		    is(store, e->d_name, digits)) {
			(void)sbx_strlcpy(ret_hex, e->d_name,
			    SBX_IMAGE_HEX + 1);
			n++;
		}
	if (d != NULL)
		(void)closedir(d);
	return (n);
}

static int
unknown(const struct sbx_image_names *names, const char *wanted,
    struct sbx_err *err)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char text[72];
	size_t i;

	if (strcmp(wanted, SBX_IMAGE_HOST) == 0)
		return (sbx_err_set(err, SBX_E_NOENT, SBX_IMAGE_HOST " is the "
		    "programs of this machine, not an image of the store"));
	/* as many names as leave room for what to do about it */
	sbx_buf_init(&b, 96);
	for (i = 0; i < names->n; i++)
		if (b.len + strlen(names->v[i].name) + 2 > b.max ||
		    sbx_buf_printf(&b, ", %s", names->v[i].name) != 0)
			break;
	return (sbx_err_set(err, SBX_E_NOENT, "there is no image %s; there is "
	    "%s%s%s (import one by 'sbx image import')", sbx_vis(text,
	    sizeof(text), wanted, strlen(wanted)), SBX_IMAGE_HOST,
	    b.data != NULL ? b.data : "", i < names->n ? ", ..." : ""));
}

int
sbx_image_resolve(int store, const char *wanted,
    char ret_hex[SBX_IMAGE_HEX + 1], struct sbx_err *err)
{
	struct sbx_image_names names;
	const char *digits = wanted, *digest;
	size_t skip = strlen(SBX_IMAGE_ALGORITHM);
	int n = 0, r = sbx_image_names_read(store, &names, err);

	/* a digest needs no names, so broken ones do not matter to it */
	if (strncmp(wanted, SBX_IMAGE_ALGORITHM, skip) == 0)
		digits += skip;
	if (is_prefix(digits)) {
		n = match(store, digits, is_prefix_of, ret_hex);
		if (n == 0 && strlen(digits) == SBX_IMAGE_HEX)
			n = match(store, digits, is_source, ret_hex);
		r = n == 1 ? 0 : n == 0 ? unknown(&names, wanted, err) :
		    sbx_err_set(err, SBX_E_EXISTS, "several images are meant "
		    "by %s: give more digits, or a name", digits);
	} else if (r == 0) {
		digest = sbx_image_names_find(&names, wanted);
		r = digest == NULL ? unknown(&names, wanted, err) :
		    sbx_strlcpy(ret_hex, digest + skip, SBX_IMAGE_HEX + 1);
	}
	sbx_image_names_clear(&names);
	return (r);
}

static bool
same_dir(int store, const char *hex, int dir)
{
	struct stat a, b;

	return (fstatat(store, hex, &a, AT_SYMLINK_NOFOLLOW) == 0 &&
	    fstat(dir, &b) == 0 && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino);
}

int
sbx_image_open(int store, const char *hex, int *ret_dir, int *ret_lock,
    struct sbx_err *err)
{
	int SBX_CLEANUP(fd) dir = -1;
	int SBX_CLEANUP(fd) lock = -1;

	dir = openat(store, hex, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	if (dir == -1 && errno == ENOENT)
		return (sbx_err_set(err, SBX_E_NOENT, "image %.12s was "
		    "removed", hex));
	if (dir == -1)
		return (sbx_err_sys(err, "image %.12s", hex));
	lock = openat(dir, "lock", O_RDONLY | O_NOFOLLOW | O_CLOEXEC |
	    O_NONBLOCK);
	if (lock == -1)
		return (sbx_err_sys(err, "lock of image %.12s", hex));
	/* who removes it has the lock first and then takes the name away */
	if ((flock(lock, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK) ||
	    !same_dir(store, hex, dir))
		return (sbx_err_set(err, SBX_E_NOENT, "image %.12s is being "
		    "removed", hex));
	*ret_dir = sbx_steal_fd(&dir);
	*ret_lock = sbx_steal_fd(&lock);
	return (0);
}
