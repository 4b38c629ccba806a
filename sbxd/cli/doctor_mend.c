/* The mend of user namespaces: which of several locks is closed here. */
#include "sbxd/cli/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define APPARMOR "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"

/* `key`=`value` now and after the next boot. */
static void
mend_sysctl(struct doctor_result *r, const char *key, unsigned value)
{
	doctor_mend(r, "sysctl -w %s=%u\n"
	    "echo '%s = %u' >>/etc/sysctl.d/60-sbx.conf\n", key, value, key,
	    value);
}

/*
 * contrib/apparmor/sbx with the paths of this very build.  sbx is in it so
 * that doctor tries what the others may do.
 */
static void
mend_apparmor(const struct doctor *d, struct doctor_result *r)
{
	const char *here = d->cli->bindir;
	bool installed = strcmp(here, SBX_BINDIR) == 0;

	doctor_mend(r, "cat >/etc/apparmor.d/sbx <<'EOF'\n"
	    "abi <abi/4.0>,\n"
	    "include <tunables/global>\n"
	    "\n"
	    "profile sbx /{%s,%s}/sbx* flags=(unconfined) {\n"
	    "  userns,\n"
	    "  include if exists <local/sbx>\n"
	    "}\n"
	    "EOF\n"
	    "apparmor_parser -r /etc/apparmor.d/sbx\n", here + 1,
	    installed ? &SBX_PKGLIBEXECDIR[1] : &SBX_BINDIR[1]);
}

void
doctor_mend_userns(const struct doctor *d, struct doctor_result *r)
{
	/* each is absent where the kernel or the distribution has no such
	 * lock */
	bool none = doctor_sysctl("/proc/sys/user/max_user_namespaces", 1) == 0;
	bool off = doctor_sysctl("/proc/sys/kernel/unprivileged_userns_clone",
	    1) == 0;
	bool profile = doctor_sysctl(APPARMOR, 0) != 0;

	if (none || r->error == ENOSPC)
		mend_sysctl(r, "user.max_user_namespaces", 10000);
	if (off)
		mend_sysctl(r, "kernel.unprivileged_userns_clone", 1);
	if (profile)
		mend_apparmor(d, r);
	if (r->mend[0] == '\0')
		doctor_mend(r, "# no setting of the kernel forbids it: it is "
		    "the seccomp or LSM profile of the\n"
		    "# container or unit around this\n"
		    "# docker, podman: --security-opt seccomp=FILE, where FILE "
		    "is the default profile with\n"
		    "#   clone3 unshare setns mount umount2 mount_setattr "
		    "pivot_root sethostname\n"
		    "#   allowed without conditions; to try it: "
		    "--security-opt seccomp=unconfined\n"
		    "# systemd: RestrictNamespaces=no "
		    "SystemCallFilter=@mount @system-service in the unit\n");
}
