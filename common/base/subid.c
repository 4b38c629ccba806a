#include "common/base/subid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX (1u << 20)

static int
read_all(const char *file, struct sbx_buf *b, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) fd = open(file, O_RDONLY | O_CLOEXEC);
	char chunk[8192];
	ssize_t n;

	sbx_buf_init(b, FILE_MAX);
	if (fd == -1 && errno == ENOENT)
		return (0);
	if (fd == -1)
		return (sbx_err_sys(err, "%s", file));
	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n == -1 && errno != EINTR)
			return (sbx_err_sys(err, "%s", file));
		if (n > 0 && sbx_buf_add(b, chunk, (size_t)n) != 0)
			return (sbx_err_set(err, SBX_E_LIMIT, "%s has more "
			    "than %u bytes", file, FILE_MAX));
	}
	return (0);
}

/* NAME:FIRST:COUNT, of that user?  line: changed. */
static bool
parse_line(char *line, const char *user, const char *uid, uint64_t *ret_first,
    uint64_t *ret_n)
{
	char *first = strchr(line, ':'), *n;

	if (first == NULL || (n = strchr(first + 1, ':')) == NULL)
		return (false);
	*first++ = '\0';
	*n++ = '\0';
	return ((strcmp(line, user) == 0 || strcmp(line, uid) == 0) &&
	    sbx_parse_u64(first, 1, UINT32_MAX - 1, ret_first) == 0 &&
	    sbx_parse_u64(n, 1, UINT32_MAX - *ret_first, ret_n) == 0);
}

int
sbx_subid_find(const char *file, const char *user, uid_t uid,
    uint32_t *ret_first, uint32_t *ret_n, struct sbx_err *err)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char number[16], *line, *rest;
	uint64_t first, n;
	int r = read_all(file, &b, err);

	if (r < 0)
		return (r);
	(void)snprintf(number, sizeof(number), "%u", uid);
	*ret_first = *ret_n = 0;
	for (rest = b.data; rest != NULL && *rest != '\0';) {
		line = strsep(&rest, "\n");
		if (parse_line(line, user, number, &first, &n) && n > *ret_n) {
			*ret_first = (uint32_t)first;
			*ret_n = (uint32_t)n;
		}
	}
	if (*ret_n == 0)
		return (sbx_err_set(err, SBX_E_NOENT, "%s has no line of user "
		    "%.64s", file, user));
	return (0);
}

int
sbx_subids(const char *user, uid_t uid, struct sbx_subids *ret,
    struct sbx_err *err)
{
	uint32_t nuids, ngids;
	int r;

	if ((r = sbx_subid_find(SBX_SUBUID_FILE, user, uid, &ret->uid, &nuids,
	    err)) < 0 ||
	    (r = sbx_subid_find(SBX_SUBGID_FILE, user, uid, &ret->gid, &ngids,
	    err)) < 0)
		return (r);
	ret->n = nuids < ngids ? nuids : ngids;
	if (ret->n < SBX_SUBIDS_MIN)
		return (sbx_err_set(err, SBX_E_LIMIT, "%s and %s give user "
		    "%.64s %u ids, %u are needed", SBX_SUBUID_FILE,
		    SBX_SUBGID_FILE, user, ret->n, SBX_SUBIDS_MIN));
	return (0);
}
