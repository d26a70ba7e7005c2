/* SPDX-License-Identifier: MIT */
/* Meanings of the sysctls: Documentation/admin-guide/sysctl/kernel.rst. */
#include "cmd/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "event/tracefs.h"

/* 0: none, or the kernel does not tell. Without /proc, which may not be mounted. */
static uint64_t own_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &header, data))
		return 0;
	return data[0].effective | (uint64_t)data[1].effective << 32;
}

static void look_at_rights(struct doctor *doctor)
{
	uint64_t caps = own_capabilities();
	long level;

	if (caps & (UINT64_C(1) << CAP_PERFMON | UINT64_C(1) << CAP_SYS_ADMIN))
		doctor_add(doctor, DOCTOR_YES, "CAP_PERFMON", "in this user namespace");
	else
		doctor_add(doctor, DOCTOR_NO, "CAP_PERFMON", "run as root, or: setcap cap_perfmon,cap_ipc_lock+ep millrace");
	if (fd_slurp_long("/proc/sys/kernel/perf_event_paranoid", &level))
		doctor_add(doctor, DOCTOR_NO, "perf events", "no /proc/sys/kernel/perf_event_paranoid: it takes a kernel with "
							     "CONFIG_PERF_EVENTS, and /proc");
	else
		doctor_add(doctor, DOCTOR_NOTE, "kernel.perf_event_paranoid", "%ld: without CAP_PERFMON %s", level,
			   level > 2    ? "nothing is allowed"
			   : level == 2 ? "the user space of own processes"
			   : level == 1 ? "own processes, in the kernel, too"
			   : level == 0 ? "everything but raw tracepoints of others"
					: "everything, with any amount of ring memory");
}

static void look_at_kallsyms(struct doctor *doctor)
{
	AUTO_FILE FILE *file = fopen("/proc/kallsyms", "re");
	unsigned long long addr = 0;

	if (!file || fscanf(file, "%llx", &addr) != 1)
		doctor_add(doctor, DOCTOR_NO, "/proc/kallsyms", "cannot be read: kernel addresses have no names; is /proc mounted?");
	else if (!addr && fscanf(file, "%*[^\n]\n%*[^\n]\n%llx", &addr) >= 0 && !addr)
		doctor_add(doctor, DOCTOR_NO, "/proc/kallsyms", "tells no addresses: sysctl kernel.kptr_restrict=0 and run as root");
	else
		doctor_add(doctor, DOCTOR_YES, "/proc/kallsyms", "kernel addresses have names");
}

static void look_at_tracefs(struct doctor *doctor)
{
	struct diag diag = {""};
	const char *root = tracefs_path(&diag);
	AUTO_FREE char *path = NULL;

	if (!root) {
		doctor_add(doctor, DOCTOR_NO, "tracefs", "%s", diag.text);
		return;
	}
	if (asprintf(&path, "%s/events", root) < 0)
		path = NULL;
	DIR *dir = path ? opendir(path) : NULL;
	if (dir)
		doctor_add(doctor, DOCTOR_YES, "tracefs", "%s", root);
	else
		doctor_add(doctor, DOCTOR_NO, "tracefs", "%s: %s; as root: mount -o remount,mode=755 %s", path ? path : root,
			   strerror(errno), root);
	if (dir)
		closedir(dir);
}

static void look_at_uring(struct doctor *doctor)
{
	uint64_t params[15] = {0}; /* struct io_uring_params of <linux/io_uring.h>: 120 bytes */
	long fd = syscall(SYS_io_uring_setup, 1, params);

	if (fd >= 0) {
		close((int)fd);
		doctor_add(doctor, DOCTOR_YES, "io_uring", "--writer=uring");
	} else {
		doctor_add(doctor, DOCTOR_NO, "io_uring", "%s: %s; --writer=aio works without", strerror(errno),
			   errno == EPERM    ? "sysctl kernel.io_uring_disabled=0, or another seccomp filter"
			   : errno == ENOSYS ? "it takes a kernel with CONFIG_IO_URING"
					     : "ulimit -l");
	}
}

static void look_at_limits(struct doctor *doctor)
{
	struct rlimit fds = {0}, locked = {0};
	long mlock_kb = 0, cpus = sysconf(_SC_NPROCESSORS_ONLN);

	getrlimit(RLIMIT_NOFILE, &fds);
	getrlimit(RLIMIT_MEMLOCK, &locked);
	doctor_add(doctor, DOCTOR_NOTE, "open files", "%llu: one for each event, CPU and thread; more: ulimit -n",
		   (unsigned long long)fds.rlim_max);
	if (fd_slurp_long("/proc/sys/kernel/perf_event_mlock_kb", &mlock_kb) == 0)
		doctor_add(doctor, DOCTOR_NOTE, "memory for rings", "kernel.perf_event_mlock_kb %ld KiB for each of %ld CPUs",
			   mlock_kb, cpus);
	if (locked.rlim_cur == RLIM_INFINITY)
		doctor_add(doctor, DOCTOR_NOTE, "locked memory beyond that", "as much as there is");
	else
		doctor_add(doctor, DOCTOR_NOTE, "locked memory beyond that", "%llu KiB; more: ulimit -l, or CAP_IPC_LOCK",
			   (unsigned long long)locked.rlim_cur / 1024);
}

/* The numbers of the first namespaces: include/linux/proc_ns.h, PROC_USER_INIT_INO and PROC_PID_INIT_INO. */
static void look_at_surroundings(struct doctor *doctor)
{
	const ino_t first_user = 0xEFFFFFFD, first_pid = 0xEFFFFFFC;
	AUTO_BUF struct buf lockdown = {0};
	struct stat user, pid;

	if (stat("/proc/self/ns/user", &user) || stat("/proc/self/ns/pid", &pid))
		doctor_add(doctor, DOCTOR_NO, "/proc", "is not mounted: running tasks have no names: mount -t proc proc /proc");
	else if (user.st_ino != first_user || pid.st_ino != first_pid)
		doctor_add(doctor, DOCTOR_NOTE, "container",
			   "%s: rights and other processes are those of the host; record there to see everything",
			   user.st_ino != first_user ? "a user namespace" : "a process namespace");
	else
		doctor_add(doctor, DOCTOR_NOTE, "container", "none: the first namespaces");
	if (prctl(PR_GET_SECCOMP) > 0)
		doctor_add(doctor, DOCTOR_NOTE, "seccomp", "a filter is on: where it refuses perf_event_open(2), start the container "
							   "with another one");
	else
		doctor_add(doctor, DOCTOR_NOTE, "seccomp", "no filter");
	if (fd_slurp("/sys/kernel/security/lockdown", 256, &lockdown))
		doctor_add(doctor, DOCTOR_NOTE, "lockdown", "this kernel does not say");
	else if (strstr(buf_text(&lockdown), "[confidentiality]"))
		doctor_add(doctor, DOCTOR_NO, "lockdown", "confidentiality: no tracing of the kernel; boot with lockdown=integrity");
	else
		doctor_add(doctor, DOCTOR_NOTE, "lockdown", "does not forbid anything here");
}

void doctor_look_at_system(struct doctor *doctor)
{
	doctor->group = "Rights";
	look_at_rights(doctor);
	doctor->group = "Sources";
	look_at_kallsyms(doctor);
	look_at_tracefs(doctor);
	look_at_uring(doctor);
	doctor->group = "Limits";
	look_at_limits(doctor);
	doctor->group = "Surroundings";
	look_at_surroundings(doctor);
}
