/* SPDX-License-Identifier: MIT */
#include "cmd/input/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "analyze/dwarf/cache_files.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "sysinfo/library.h"

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14) /* <linux/landlock.h> of Linux 6.2, ABI 3 */
#endif

#if defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__) /* gcc */
#define ADDRESS_SANITIZER
#endif

enum {
	MAKE_FILES = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |
		     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REFER |
		     LANDLOCK_ACCESS_FS_TRUNCATE |
		     LANDLOCK_ACCESS_FS_MAKE_SYM, /* a link that has the output's name is renamed */
	NEVER = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK |
		LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK,
};

/* Of MAKE_FILES and NEVER, what this kernel knows: "Compatibility" in landlock(7). 0: it has no landlock. */
static uint64_t known_rights(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	uint64_t rights = MAKE_FILES | NEVER;

	if (abi < 1)
		return 0;
	if (abi < 2)
		rights &= ~LANDLOCK_ACCESS_FS_REFER;
	return abi < 3 ? rights & ~LANDLOCK_ACCESS_FS_TRUNCATE : rights;
}

/* A path that is not there needs no right: opening it fails later, with a message that names it. */
static void allow(int ruleset, const char *path, uint64_t rights)
{
	AUTO_FD int fd = open(path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr below = {.parent_fd = fd};
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return;
	below.allowed_access = S_ISDIR(st.st_mode) ? rights : rights & (uint64_t)LANDLOCK_ACCESS_FS_WRITE_FILE;
	syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &below, 0);
}

static void allow_directory_of(int ruleset, const char *path, uint64_t rights)
{
	char room[PATH_MAX];

	if (strlen(path) < sizeof(room))
		allow(ruleset, dirname(strcpy(room, path)), rights);
}

static void allow_output(int ruleset, const char *output, uint64_t rights)
{
	char target[PATH_MAX];
	struct stat st;

	if (stat(output, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		allow(ruleset, output, rights); /* a device or a pipe: written as it is */
		return;
	}
	allow_directory_of(ruleset, output, rights);
	if (realpath(output, target))
		allow_directory_of(ruleset, target, rights);
}

/* Where libdebuginfod puts what it downloads: debuginfod-client-config(7). It makes its own directory below these. */
static void allow_downloads(int ruleset, uint64_t rights)
{
	const char *cache = getenv("DEBUGINFOD_CACHE_PATH"), *home = getenv("HOME");
	char path[PATH_MAX];

	if (!cache || !*cache)
		cache = getenv("XDG_CACHE_HOME");
	if ((!cache || !*cache) && home && snprintf(path, sizeof(path), "%s/.cache", home) < (int)sizeof(path))
		cache = path;
	if (!cache || !*cache)
		return;
	mkdir(cache, 0700); /* it may be there */
	allow(ruleset, cache, rights);
}

/* Files are made under another name, and take the place of older ones. */
static void allow_line_cache(int ruleset, uint64_t known)
{
	const uint64_t rights = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
				LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE;
	AUTO_FD int fd = cache_directory_open(true);
	struct landlock_path_beneath_attr below = {.allowed_access = rights & known, .parent_fd = fd};

	if (fd >= 0)
		syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &below, 0);
}

/* 0 or -errno. */
static int restrict_files(const char *output, enum sandbox_flags flags)
{
	const uint64_t known = known_rights();
	const struct landlock_ruleset_attr attr = {.handled_access_fs = known};

	if (!known)
		return -ENOSYS;
	AUTO_FD int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (ruleset < 0)
		return -errno;
	if (output)
		allow_output(ruleset, output, known & (uint64_t)MAKE_FILES);
	if (flags & SANDBOX_DOWNLOADS)
		allow_downloads(ruleset, known & (uint64_t)MAKE_FILES);
	if (flags & SANDBOX_LINE_CACHE)
		allow_line_cache(ruleset, known);
	allow(ruleset, "/dev/tty", LANDLOCK_ACCESS_FS_WRITE_FILE);
	allow(ruleset, "/dev/null", LANDLOCK_ACCESS_FS_WRITE_FILE);
	return syscall(SYS_landlock_restrict_self, ruleset, 0) ? -errno : 0;
}

/*
 * What a reader never calls. A list of what is forbidden, not of what is allowed: a C library or a sanitizer may need
 * calls that are not thought of here, and files are the business of landlock.
 */
static const int forbidden[] = {
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
#ifndef ADDRESS_SANITIZER /* its search for leaks attaches to the threads */
	SCMP_SYS(ptrace),
#endif
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(kcmp),
	/* Would do calls that are forbidden, unseen. */
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(move_mount),
	SCMP_SYS(open_tree),
	SCMP_SYS(fsopen),
	SCMP_SYS(fsmount),
	SCMP_SYS(pivot_root),
	SCMP_SYS(chroot),
	SCMP_SYS(unshare),
	SCMP_SYS(setns),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(reboot),
	SCMP_SYS(swapon),
	SCMP_SYS(swapoff),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(keyctl),
	SCMP_SYS(settimeofday),
	SCMP_SYS(clock_settime),
	SCMP_SYS(adjtimex),
	SCMP_SYS(sethostname),
	SCMP_SYS(syslog),
	/* Of files, and not of landlock's rights. */
	SCMP_SYS(chmod),
	SCMP_SYS(fchmodat),
	SCMP_SYS(chown),
	SCMP_SYS(lchown),
	SCMP_SYS(fchownat),
	SCMP_SYS(truncate),
	SCMP_SYS(setxattr),
	SCMP_SYS(lsetxattr),
	SCMP_SYS(removexattr),
	SCMP_SYS(lremovexattr),
};
static const int of_network[] = {
	SCMP_SYS(socket), SCMP_SYS(connect), SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(accept), SCMP_SYS(accept4),
};

/* Recording does without it. */
static struct {
	__typeof__(seccomp_init) *init;
	__typeof__(seccomp_load) *load;
	__typeof__(seccomp_release) *release;
	__typeof__(seccomp_rule_add) *rule_add;
} seccomp;

/* false: it is not installed. */
static bool load_library(void)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(seccomp_init, &seccomp.init),
		LIBRARY_FUNCTION(seccomp_load, &seccomp.load),
		LIBRARY_FUNCTION(seccomp_release, &seccomp.release),
		LIBRARY_FUNCTION(seccomp_rule_add, &seccomp.rule_add),
	};

	return library_load("libseccomp.so.2", functions, sizeof(functions) / sizeof(functions[0]));
}

static int forbid(scmp_filter_ctx filter, const int *calls, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		int err = seccomp.rule_add(filter, SCMP_ACT_ERRNO(EPERM), calls[i], 0);
		/* -EDOM: this architecture does not have it. */
		if (err && err != -EDOM)
			return err;
	}
	return 0;
}

/* 0 or -errno. */
static int restrict_calls(enum sandbox_flags flags)
{
	if (!load_library())
		return -ELIBACC;
	scmp_filter_ctx filter = seccomp.init(SCMP_ACT_ALLOW);
	int err = filter ? forbid(filter, forbidden, sizeof(forbidden) / sizeof(forbidden[0])) : -ENOMEM;

	if (!err && !(flags & (SANDBOX_DOWNLOADS | SANDBOX_NETWORK)))
		err = forbid(filter, of_network, sizeof(of_network) / sizeof(of_network[0]));
	if (!err)
		err = seccomp.load(filter); /* sets no_new_privs, too */
	seccomp.release(filter);
	return err;
}

/* All but `kept` and those to ask for the kernel's addresses (kallsyms). */
static void drop_capabilities(uint32_t kept)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {{0}};

	if (syscall(SYS_capget, &header, sets))
		return;
	const uint32_t kept_high = 1U << (CAP_SYSLOG - 32);
	sets[0] = (struct __user_cap_data_struct){sets[0].effective & kept, sets[0].permitted & kept, 0};
	sets[1] = (struct __user_cap_data_struct){sets[1].effective & kept_high, sets[1].permitted & kept_high, 0};
	syscall(SYS_capset, &header, sets);
}

void sandbox_enter(const char *output, enum sandbox_flags flags)
{
	/* Root reads what belongs to others, and writes and replaces the output in their directories; no more. */
	drop_capabilities(1U << CAP_DAC_READ_SEARCH | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		log_verbose("reading without a sandbox: no_new_privs: %s", strerror(errno));
		return;
	}
	int err = restrict_files(output, flags);
	if (err)
		log_verbose("reading without landlock: %s", strerror(-err));
	err = restrict_calls(flags);
	if (err)
		log_verbose("reading without seccomp: %s", strerror(-err));
}

void sandbox_enter_helper(void)
{
	drop_capabilities(1U << CAP_DAC_READ_SEARCH | 1U << CAP_SYS_PTRACE);
	if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		restrict_calls(0);
}
