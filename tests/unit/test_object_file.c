/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "sysinfo/object_file.h"
#include "sysinfo/proc_maps.h"

enum { SKIPPED = 77 };

/* A directory that looks like the root of a container. */
static char root[] = "/tmp/millrace-object-file-XXXXXX";
static int root_fd;

static void put(const char *path, const char *text)
{
	int fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int make_root(void **state)
{
	(void)state;
	if (!mkdtemp(root))
		return -1;
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put("passwd", "inside");
	put("plain", "plain");
	return mkdirat(root_fd, "etc", 0700) || symlinkat("/passwd", root_fd, "etc/passwd") ||
	       symlinkat("../../../../../passwd", root_fd, "up") || symlinkat("plain", root_fd, "link") ||
	       symlinkat("/proc/self/exe", root_fd, "exe") || mkfifoat(root_fd, "fifo", 0600) ||
	       symlinkat("fifo", root_fd, "to_fifo");
}

static int remove_root(void **state)
{
	static const char *const names[] = {"passwd", "plain", "etc/passwd", "up", "link", "exe", "fifo", "to_fifo"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(root_fd, names[i], 0);
	unlinkat(root_fd, "etc", AT_REMOVEDIR);
	close(root_fd);
	return rmdir(root);
}

/* Errors are checked by the caller. */
static int text_of(int fd, char ret[16])
{
	if (fd < 0)
		return fd;
	ssize_t len = read(fd, ret, 15);
	close(fd);
	ret[len < 0 ? 0 : len] = '\0';
	return 0;
}

static char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static void only_regular_files_are_opened(void **state)
{
	char text[16];

	(void)state;
	assert_int_equal(text_of(object_file_open(path_of("link"), NULL), text), 0);
	assert_string_equal(text, "plain");
	assert_int_equal(object_file_open(path_of("fifo"), NULL), -EINVAL); /* open(2) would wait for a writer */
	assert_int_equal(object_file_open(path_of("to_fifo"), NULL), -EINVAL);
	assert_int_equal(object_file_open(path_of("etc"), NULL), -EINVAL);
	assert_int_equal(object_file_open("/dev/zero", NULL), -EINVAL);
	assert_int_equal(object_file_open(path_of("absent"), NULL), -ENOENT);
}

static void symbolic_link_is_refused_where_all_may_write(void **state)
{
	char text[16];

	(void)state;
	assert_int_equal(object_file_open_nofollow(AT_FDCWD, path_of("link")), -EINVAL);
	assert_int_equal(object_file_open_nofollow(AT_FDCWD, path_of("fifo")), -EINVAL);
	assert_int_equal(text_of(object_file_open_nofollow(AT_FDCWD, path_of("plain")), text), 0);
	assert_string_equal(text, "plain");
}

/* In a mount namespace of its own any user can mount a file of root there; or make a hard link to it, if that is
 * allowed. */
static void file_that_is_also_elsewhere_is_refused(void **state)
{
	char text[16];

	(void)state;
	assert_int_equal(text_of(object_file_open_entry(root_fd, "plain"), text), 0);
	assert_string_equal(text, "plain");
	assert_int_equal(object_file_open_entry(root_fd, "link"), -EINVAL);
	assert_int_equal(object_file_open_entry(root_fd, "absent"), -ENOENT);
	assert_int_equal(linkat(root_fd, "plain", root_fd, "second", 0), 0);
	int first = object_file_open_entry(root_fd, "plain"), second = object_file_open_entry(root_fd, "second");
	unlinkat(root_fd, "second", 0);
	assert_int_equal(first, -EMLINK);
	assert_int_equal(second, -EMLINK);
	assert_int_equal(text_of(object_file_open_entry(root_fd, "plain"), text), 0);
}

static void mounted_file_is_refused(void **state)
{
	char target[128], text[16];
	int status;

	(void)state;
	snprintf(target, sizeof(target), "%s", path_of("plain"));
	pid_t pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount(path_of("passwd"), target, NULL, MS_BIND, NULL))
			_exit(SKIPPED);
		AUTO_FD int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (object_file_open_entry(dir, "plain") != -EXDEV)
			_exit(1);
		/* The directory itself may be a mount, as the /tmp of a container is. */
		AUTO_FD int mounted =
			mount(root, root, NULL, MS_BIND, NULL) ? -1 : open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		_exit(text_of(object_file_open_entry(mounted, "plain"), text) || strcmp(text, "plain") ? 2 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		skip(); /* CAP_SYS_ADMIN is needed */
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void path_stays_below_its_root(void **state)
{
	static const char *const inside[] = {"/etc/passwd", "up", "/../../passwd", "etc/../up"};
	char text[16];

	(void)state;
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
		int err = text_of(object_file_open_in(root_fd, inside[i], NULL), text);
		if (err == -ENOSYS)
			skip(); /* a kernel without openat2(2) */
		assert_int_equal(err, 0);
		assert_string_equal(text, "inside");
	}
	assert_int_equal(object_file_open_in(root_fd, "/etc/hostname", NULL), -ENOENT);
	assert_true(object_file_open_in(root_fd, "exe", NULL) < 0);
	assert_int_equal(object_file_open_in(root_fd, "to_fifo", NULL), -EINVAL);
}

static struct object_mapping mapping_of(const char *path)
{
	struct stat status;

	assert_int_equal(stat(path, &status), 0);
	return (struct object_mapping){
		.file = {.major = major(status.st_dev), .minor = minor(status.st_dev), .inode = status.st_ino}};
}

static void replaced_file_is_stale(void **state)
{
	struct object_mapping mapped = mapping_of(path_of("plain"));
	char text[16];

	(void)state;
	assert_int_equal(text_of(object_file_open(path_of("plain"), &mapped), text), 0);
	assert_int_equal(object_file_open(path_of("passwd"), &mapped), -ESTALE);
}

static void held_file_is_read_after_it_was_replaced(void **state)
{
	char text[16];

	(void)state;
	put("held", "held");
	struct object_mapping mapped = mapping_of(path_of("held"));
	mapped.hold = true;
	AUTO_FD int held = object_file_open(path_of("held"), &mapped);
	assert_true(held >= 0);
	assert_true(read(held, text, sizeof(text)) < 0);
	unlinkat(root_fd, "held", 0);
	put("held", "another"); /* a deploy */
	int err = text_of(object_file_reopen(held), text);
	assert_int_equal(object_file_open(path_of("held"), &mapped), -ESTALE);
	unlinkat(root_fd, "held", 0);
	assert_int_equal(err, 0);
	assert_string_equal(text, "held");
}

/* As /proc/PID/maps names it. */
static struct file_id mapped_file(int fd)
{
	AUTO_BUF struct buf maps = {0};
	struct proc_map map;
	void *memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	struct file_id file = {0};

	if (memory == MAP_FAILED || fd_slurp("/proc/self/maps", 1 << 20, &maps))
		return file;
	for (struct span rest = buf_span(&maps); proc_maps_next(&rest, &map);)
		if (map.start == (uintptr_t)memory)
			file = (struct file_id){.major = map.maj, .minor = map.min, .inode = map.ino};
	munmap(memory, 4096);
	return file;
}

/* In a mount namespace of its own: 0, SKIPPED, or what went wrong. */
static int hold_file_of_btrfs(void)
{
	char command[256], path[128], text[16];

	snprintf(command, sizeof(command),
		 "PATH=$PATH:/usr/sbin; cd %s && truncate -s 120M image && mkfs.btrfs -q image >/dev/null 2>&1 && "
		 "mount -o loop image etc && echo held >etc/held && echo another >etc/another",
		 root);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || system(command))
		return SKIPPED;
	AUTO_FD int file = open(path_of("etc/held"), O_RDONLY | O_CLOEXEC);
	struct object_mapping mapped = {.file = mapped_file(file), .hold = true};
	if (!mapped.file.inode)
		return 1;
	snprintf(path, sizeof(path), "%s", path_of("etc/held"));
	AUTO_FD int held = object_file_open(path, &mapped);
	if (held < 0 || read(held, text, sizeof(text)) >= 0)
		return 2;
	if (text_of(object_file_reopen(held), text) || strcmp(text, "held\n"))
		return 3;
	return object_file_open(path_of("etc/another"), &mapped) == -ESTALE ? 0 : 4;
}

/* stat(2) tells another device there than mappings have. */
static void file_of_btrfs_is_held(void **state)
{
	int status;

	(void)state;
	pid_t pid = fork();
	if (!pid)
		_exit(hold_file_of_btrfs());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	unlinkat(root_fd, "image", 0);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		skip(); /* CAP_SYS_ADMIN, a loop device and mkfs.btrfs are needed */
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void deleted_file_is_opened_through_its_mapping(void **state)
{
	char text[16];

	(void)state;
	put("gone", "gone");
	int fd = open(path_of("gone"), O_RDONLY | O_CLOEXEC);
	void *memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	close(fd);
	const struct object_mapping mapped = mapping_of(path_of("gone"));
	unlinkat(root_fd, "gone", 0);
	put("gone", "another"); /* a deploy */
	int err = text_of(object_file_open_of_process(getpid(), path_of("gone"), &mapped), text);
	munmap(memory, 4096);
	unlinkat(root_fd, "gone", 0);
	if (err == -EPERM)
		skip(); /* CAP_SYS_ADMIN is needed */
	assert_int_equal(err, 0);
	assert_string_equal(text, "gone");
}

static void process_that_is_gone_has_no_files(void **state)
{
	(void)state;
	assert_int_equal(object_file_open_of_process(0x7fffffff, "/etc/passwd", NULL), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_regular_files_are_opened),
		cmocka_unit_test(symbolic_link_is_refused_where_all_may_write),
		cmocka_unit_test(file_that_is_also_elsewhere_is_refused),
		cmocka_unit_test(mounted_file_is_refused),
		cmocka_unit_test(path_stays_below_its_root),
		cmocka_unit_test(replaced_file_is_stale),
		cmocka_unit_test(held_file_is_read_after_it_was_replaced),
		cmocka_unit_test(file_of_btrfs_is_held),
		cmocka_unit_test(deleted_file_is_opened_through_its_mapping),
		cmocka_unit_test(process_that_is_gone_has_no_files),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
