/* SPDX-License-Identifier: MIT */
#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "fuse_file.h"

static int write_text(const char *path, const char *text)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write(fd, text, strlen(text));
}

/* Makes us root of a user namespace, as far as mounting goes. user_namespaces(7). */
static int enter_user_namespace(void)
{
	AUTO_BUF struct buf users = {0}, groups = {0};

	buf_printf(&users, "%u %u 1", geteuid(), geteuid());
	buf_printf(&groups, "%u %u 1", getegid(), getegid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return -errno;
	int err = write_text("/proc/self/setgroups", "deny");
	if (!err)
		err = write_text("/proc/self/uid_map", buf_text(&users));
	return err ? err : write_text("/proc/self/gid_map", buf_text(&groups));
}

int storage_prepare(struct diag *reterr)
{
	int err = unshare(CLONE_NEWNS) ? -errno : 0;

	if (err == -EPERM)
		err = enter_user_namespace();
	if (!err && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		err = -errno;
	return err ? diag_set(reterr, err,
			      "slow storage is a FUSE file, which needs a mount namespace: %s: try as root",
			      strerror(-err))
		   : 0;
}

static const char *temporary_directory(void)
{
	const char *directory = getenv("TMPDIR");

	return directory && *directory ? directory : "/tmp";
}

static int open_data(const char *path, bool in_memory, struct diag *reterr)
{
	const char *directory = temporary_directory();
	int fd;

	if (path)
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	else if (in_memory)
		fd = memfd_create("storage", MFD_CLOEXEC);
	else
		fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return fd < 0 ? diag_set(reterr, -errno, "%s: %s", path ? path : directory, strerror(errno)) : fd;
}

/* The mount goes with the last descriptor of its file, so it needs no name once that is open. */
static int mount_and_serve(int data_fd, uint64_t bytes_per_s, const char *point, struct storage *ret)
{
	AUTO_FD int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	AUTO_BUF struct buf options = {0};

	if (device < 0)
		return -errno;
	buf_printf(&options, "fd=%d,rootmode=100600,user_id=%u,group_id=%u", device, geteuid(), getegid());
	if (mount("millrace", point, "fuse", MS_NOSUID | MS_NODEV, buf_text(&options)))
		return -errno;
	pid_t server = fork();
	if (server == 0) {
		fuse_file_serve(device, data_fd, bytes_per_s);
		_exit(0);
	}
	int err = server < 0 ? -errno : 0;
	/* Ours would keep the file system waiting when the server dies. */
	close(take_fd(&device));
	int fd = err ? -1 : open(point, O_RDWR | O_CLOEXEC);
	if (!err && fd < 0)
		err = -errno;
	umount2(point, MNT_DETACH);
	if (err && server > 0)
		waitpid(server, NULL, 0);
	if (err)
		return err;
	ret->fd = fd;
	ret->server = server;
	return 0;
}

static int open_slow(int data_fd, uint64_t bytes_per_s, struct storage *ret, struct diag *reterr)
{
	AUTO_BUF struct buf point = {0};

	buf_printf(&point, "%s/millrace-storage-XXXXXX", temporary_directory());
	if (!*buf_text(&point))
		return diag_set(reterr, -ENOMEM, "out of memory");
	AUTO_FD int fd = mkostemp((char *)point.data, O_CLOEXEC);
	if (fd < 0)
		return diag_set(reterr, -errno, "%s: %s", temporary_directory(), strerror(errno));
	int err = mount_and_serve(data_fd, bytes_per_s, buf_text(&point), ret);
	unlink(buf_text(&point));
	return err ? diag_set(reterr, err, "slow storage is a FUSE file, which cannot be mounted: %s", strerror(-err))
		   : 0;
}

int storage_open(const char *path, uint64_t bytes_per_s, struct storage *ret, struct diag *reterr)
{
	struct storage storage = {.fd = -1};
	AUTO_FD int data_fd = open_data(path, bytes_per_s != 0, reterr);

	if (data_fd < 0)
		return data_fd;
	if (bytes_per_s) {
		int err = open_slow(data_fd, bytes_per_s, &storage, reterr);
		if (err)
			return err;
	} else {
		storage.fd = fcntl(data_fd, F_DUPFD_CLOEXEC, 0);
		if (storage.fd < 0)
			return diag_set(reterr, -errno, "%s", strerror(errno));
	}
	storage.data_fd = take_fd(&data_fd);
	*ret = storage;
	return 0;
}

void storage_finish(struct storage *storage)
{
	if (storage->fd >= 0)
		close(take_fd(&storage->fd));
	if (storage->server > 0)
		waitpid(storage->server, NULL, 0);
	storage->server = 0;
}

void storage_close(struct storage *storage)
{
	storage_finish(storage);
	if (storage->data_fd >= 0)
		close(take_fd(&storage->data_fd));
}
