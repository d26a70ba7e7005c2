/* SPDX-License-Identifier: MIT */
#include "sysinfo/privileges.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40 /* Linux 5.9, 124ea650d307 */
#endif

#ifndef CAP_PERFMON
#define CAP_PERFMON 38 /* Linux 5.8, 980737282232 */
#endif

#define BIT(capability) (UINT64_C(1) << (capability))

/* The numbers of the first namespaces: include/linux/proc_ns.h, PROC_USER_INIT_INO, PROC_PID_INIT_INO. */
#define FIRST_USER_NAMESPACE 0xEFFFFFFD
#define FIRST_PID_NAMESPACE 0xEFFFFFFC

static const uint64_t used_later = BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_FOWNER) |
				   BIT(CAP_SYS_PTRACE) | BIT(CAP_CHECKPOINT_RESTORE) | BIT(CAP_SYSLOG) |
				   BIT(CAP_SYS_NICE) | BIT(CAP_IPC_LOCK);

struct sets {
	uint64_t effective, permitted;
};

/* False: not known. */
static bool get(struct sets *ret)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &header, data))
		return false;
	ret->effective = data[0].effective | (uint64_t)data[1].effective << 32;
	ret->permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
	return true;
}

/* Inheritable ones become none: they are for programs that are executed. */
static int set(struct sets sets)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
		{.effective = (uint32_t)sets.effective, .permitted = (uint32_t)sets.permitted},
		{.effective = (uint32_t)(sets.effective >> 32), .permitted = (uint32_t)(sets.permitted >> 32)},
	};

	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

bool privileges_have_perfmon(void)
{
	struct sets sets;

	return get(&sets) && sets.effective & (BIT(CAP_PERFMON) | BIT(CAP_SYS_ADMIN));
}

bool privileges_may_lock_memory(void)
{
	struct sets sets;

	return get(&sets) && sets.effective & BIT(CAP_IPC_LOCK) && !privileges_are_namespaced();
}

bool privileges_are_namespaced(void)
{
	struct stat status;

	return stat("/proc/self/ns/user", &status) == 0 && status.st_ino != FIRST_USER_NAMESPACE;
}

bool privileges_pids_are_namespaced(void)
{
	struct stat status;

	return stat("/proc/self/ns/pid", &status) == 0 && status.st_ino != FIRST_PID_NAMESPACE;
}

const char *privileges_advice(void)
{
	if (privileges_are_namespaced())
		return "run as root on the host: rights of a user namespace do not count";
	return geteuid() == 0 ? "root has no such right here: start the container with --cap-add" : "run as root";
}

/* The second where the first cannot be had. */
static uint64_t admin_or_perfmon(const struct sets *sets)
{
	return sets->permitted & BIT(CAP_SYS_ADMIN) ? BIT(CAP_SYS_ADMIN) : BIT(CAP_PERFMON);
}

void privileges_drop(bool signals_others)
{
	uint64_t kept = used_later | (signals_others ? BIT(CAP_KILL) : 0);
	struct sets sets;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		log_verbose("no_new_privs: %s", strerror(errno));
	if (!get(&sets))
		return;
	/* Of capabilities that the kernel does not know the bounding set does not tell. */
	if (prctl(PR_CAPBSET_READ, CAP_CHECKPOINT_RESTORE) < 0)
		kept |= BIT(CAP_SYS_ADMIN);
	sets.effective &= kept;
	sets.permitted &= kept | admin_or_perfmon(&sets);
	int err = set(sets);
	if (err)
		log_verbose("capabilities that are not needed any more stay: %s", strerror(-err));
}

static bool borrow(uint64_t wanted)
{
	struct sets sets;

	if (!get(&sets) || !(sets.permitted & ~sets.effective & wanted))
		return false;
	sets.effective |= sets.permitted & wanted;
	return set(sets) == 0;
}

bool privileges_borrow_admin(void)
{
	return borrow(BIT(CAP_SYS_ADMIN));
}

bool privileges_borrow_perfmon(void)
{
	return borrow(BIT(CAP_SYS_ADMIN) | BIT(CAP_PERFMON));
}

void privileges_return_admin(void)
{
	struct sets sets;

	if (get(&sets)) {
		sets.effective &= ~(BIT(CAP_SYS_ADMIN) | BIT(CAP_PERFMON));
		(void)!set(sets);
	}
}
