/*
 * The user namespace that sandboxes are made in.  Its map is the suite's own
 * id and, where the operator gave ids for that (subuid(5)), a range of which
 * each sandbox gets one.  Only now may a map of more than one id be written:
 * by root, or for the caller by newuidmap(1), which is set-user-ID.
 *
 * Where there is no range the engine makes a namespace by itself, and all
 * sandboxes share its one id: they are kept apart by the other namespaces.
 */
#include "sbxd/monitor/monitor.h"

#include "common/base/paths.h"
#include "common/base/userns.h"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

/* A suite takes its own part of the range, so that two do not meet, unless
 * the range is too small for that. */
static void
take_part(struct sbx_subids *s, unsigned slot)
{
	uint32_t part = s->n / SBX_MAX_SLOTS;

	if (part < SBX_SUBIDS_MIN)
		return;
	s->uid += slot * part;
	s->gid += slot * part;
	s->n = part;
}

static bool
in_range(uint32_t id, const struct sbx_subids *s)
{
	return (id - s->uid < s->n || id - s->gid < s->n);
}

static int
with_range(struct monitor *m, uid_t uid, gid_t gid, struct sbx_err *err)
{
	const struct passwd *pw = getpwuid(uid);
	const char *user = pw != NULL ? pw->pw_name : "";
	struct sbx_subids range;
	int r;

	if ((r = sbx_subids(user, uid, &range, err)) < 0)
		return (r);
	take_part(&range, m->slot);
	if (in_range(uid, &range) || in_range(gid, &range))
		return (sbx_err_set(err, SBX_E_POLICY, "the range of user "
		    "%.64s in %s or %s holds his own id", user,
		    SBX_SUBUID_FILE, SBX_SUBGID_FILE));
	if ((r = sbx_userns_make(uid, gid, &range, &m->fd_userns, NULL,
	    err)) < 0)
		return (r);
	m->first_uid = range.uid;
	m->uids = range.n;
	return (0);
}

int
setup_userns(struct monitor *m, uid_t uid, gid_t gid, struct sbx_err *err)
{
	struct sbx_err why = { 0 };

	if (with_range(m, uid, gid, &why) == 0)
		return (0);
	log_notice("sandboxes share one user id: %s", why.msg);
	m->first_uid = m->uids = 0;
	/* the engine takes its own for: make one */
	m->fd_userns = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	if (m->fd_userns == -1)
		return (sbx_err_sys(err, "/proc/self/ns/user"));
	return (0);
}
