/* SPDX-License-Identifier: MIT */
#include "cmd/input/container_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cmd/input/sandbox.h"
#include "sysinfo/object_file.h"
#include "sysinfo/shortage.h"

enum {
	ROOTS_MAX = 1024,
	LISTED_FOR_MS = 1000, /* so long a list of roots is used */
	REPLY_MS = 2000,      /* a file system of a container may not answer */
	ALL_REPLIES_MS = 5000,
};

#define MS_NS UINT64_C(1000000)

struct request {
	struct file_id mapped;
	uint32_t after; /* only of processes with a higher number */
	char path[PATH_MAX];
};

/* With a descriptor, if err is 0. */
struct reply {
	int32_t err;
	uint32_t pid; /* below whose root the file was found */
};

/* ---- The helper ---- */

/* What a process sees files of, by the first process that was found to have it. */
struct root {
	uint64_t mounts, device, inode;
	pid_t pid;
};

struct roots {
	uint64_t listed_ns; /* 0: never */
	size_t nr;
	struct root list[ROOTS_MAX]; /* by pid; the first one is our own */
};

/* false: it has ended, or we may not look at it. */
static bool root_of(pid_t pid, struct root *ret)
{
	char path[32];
	struct stat mounts;
	struct statx root;

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	if (stat(path, &mounts))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &root))
		return false;
	*ret = (struct root){mounts.st_ino, makedev(root.stx_dev_major, root.stx_dev_minor), root.stx_ino, pid};
	return true;
}

static void add_root(struct roots *roots, const struct root *root)
{
	size_t i = 0;

	for (; i < roots->nr; i++) {
		const struct root *known = &roots->list[i];
		if (known->mounts == root->mounts && known->inode == root->inode && known->device == root->device)
			return;
	}
	if (i < ROOTS_MAX)
		roots->list[roots->nr++] = *root;
}

static void list_roots(struct roots *roots)
{
	AUTO_DIR DIR *processes = opendir("/proc");
	struct root root;

	roots->nr = 0;
	roots->listed_ns = clock_ns(CLOCK_MONOTONIC);
	if (!root_of(getpid(), &root))
		return;
	add_root(roots, &root);
	for (const struct dirent *entry; processes && (entry = readdir(processes));)
		if (isdigit((unsigned char)entry->d_name[0]) && root_of(atoi(entry->d_name), &root))
			add_root(roots, &root);
}

/* A descriptor or -ENOENT. */
static int find_file(struct roots *roots, const struct request *request, uint32_t *ret_pid)
{
	const struct object_mapping mapped = {.file = request->mapped};

	if (!request->after && clock_ns(CLOCK_MONOTONIC) - roots->listed_ns > LISTED_FOR_MS * MS_NS)
		list_roots(roots);
	for (size_t i = 1; i < roots->nr; i++) {
		const pid_t pid = roots->list[i].pid;
		if ((uint32_t)pid <= request->after)
			continue;
		int fd = object_file_open_below_root(pid, request->path, &mapped);
		if (fd < 0)
			continue;
		*ret_pid = (uint32_t)pid;
		return fd;
	}
	return -ENOENT;
}

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

static bool send_reply(int socket, int fd, uint32_t pid)
{
	struct reply reply = {.err = fd < 0 ? fd : 0, .pid = pid};
	struct iovec bytes = {&reply, sizeof(reply)};
	union control control = {.header = {CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS}};
	struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof(reply);
}

/* The reader may be controlled by hostile input. */
static bool is_sound(const struct request *request, ssize_t bytes)
{
	const size_t before = offsetof(struct request, path);

	return bytes > (ssize_t)before && memchr(request->path, '\0', (size_t)bytes - before);
}

static void serve(int socket)
{
	static struct roots roots;
	struct request request;
	ssize_t got;

	while ((got = recv(socket, &request, sizeof(request), 0)) > 0) {
		uint32_t pid = 0;
		AUTO_FD int fd = is_sound(&request, got) ? find_file(&roots, &request, &pid) : -EINVAL;
		if (!send_reply(socket, fd, pid))
			return;
	}
}

/* ps(1) and pgrep(1) show it by another name than the reader, whose command line it has. */
static void set_name(void)
{
	static const char name[] = "container-files";
	char *const shown = program_invocation_name;
	const size_t len = strlen(shown);

	prctl(PR_SET_NAME, name, 0, 0, 0);
	memset(shown, 0, len);
	memcpy(shown, name, len < sizeof(name) ? len : sizeof(name));
}

/* Keeps nothing open of the reader: neither a pager nor a recorder at the other end of a pipe may wait for us. */
_Noreturn static void helper_main(int socket)
{
	struct pollfd wait = {.fd = STDERR_FILENO + 1, .events = POLLIN};

	signal(SIGINT, SIG_IGN); /* of a terminal: the reader decides */
	signal(SIGQUIT, SIG_IGN);
	set_name();
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* the reader has no access to our memory */
	if (dup2(socket, wait.fd) < 0 || close_range(wait.fd + 1, ~0U, 0) || close_range(0, STDERR_FILENO, 0) ||
	    chdir("/"))
		_exit(1);
	if (poll(&wait, 1, -1) == 1 && wait.revents & POLLIN && open("/dev/null", O_RDWR) == 0 && dup(0) == 1 &&
	    dup(0) == 2) {
		sandbox_enter_helper();
		object_file_wait(); /* the reader does not wait for us: REPLY_MS */
		serve(wait.fd);
	}
	_exit(0);
}

/* ---- The reader ---- */

struct reader_side {
	struct container_files files;
	pthread_mutex_t lock;
	int socket; /* -1: there is no helper any more, or it does not answer */
	pid_t helper;
	uint64_t waited_ns;
};

static bool wait_for_reply(int socket)
{
	struct pollfd wait = {.fd = socket, .events = POLLIN};
	const uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + REPLY_MS * MS_NS;
	int ready;

	do {
		uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
		ready = now_ns < until_ns ? poll(&wait, 1, (int)((until_ns - now_ns) / MS_NS) + 1) : 0;
	} while (ready < 0 && errno == EINTR);
	return ready == 1;
}

/* Whether there was an reply. *ret_fd -1: it came without a descriptor. */
static bool take_reply(int socket, struct reply *ret, int *ret_fd)
{
	struct iovec bytes = {ret, sizeof(*ret)};
	union control control;
	struct msghdr message = {
		.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*ret))
		return false;
	const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	*ret_fd = -1;
	if (header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(*ret_fd)))
		memcpy(ret_fd, CMSG_DATA(header), sizeof(*ret_fd));
	return true;
}

static void end_helper(struct reader_side *reader, const char *why)
{
	log_verbose("files of containers are not looked for any more: %s", why);
	close(reader->socket);
	reader->socket = -1;
}

/* A descriptor, or -errno: -EMFILE: there was no number free for it. */
static int request_file(struct reader_side *reader, const struct request *request, uint32_t *ret_pid)
{
	const size_t bytes = offsetof(struct request, path) + strlen(request->path) + 1;
	const uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
	struct reply reply = {0};
	int fd = -1;

	if (reader->socket < 0)
		return -ENOENT;
	if (reader->waited_ns > ALL_REPLIES_MS * MS_NS) {
		end_helper(reader, "it takes too long");
		return -ENOENT;
	}
	if (send(reader->socket, request, bytes, MSG_NOSIGNAL) != (ssize_t)bytes || !wait_for_reply(reader->socket) ||
	    !take_reply(reader->socket, &reply, &fd)) {
		end_helper(reader, "no reply");
		return -ENOENT;
	}
	reader->waited_ns += clock_ns(CLOCK_MONOTONIC) - start_ns;
	if (reply.err)
		return -ENOENT;
	*ret_pid = reply.pid;
	return fd < 0 ? -EMFILE : fd;
}

static int open_next(struct container_files *files, const char *path, const struct file_id *mapped, unsigned *at)
{
	struct reader_side *reader = (struct reader_side *)files;
	struct request request = {.mapped = *mapped, .after = *at};

	if (strlen(path) >= sizeof(request.path))
		return -ENOENT;
	strcpy(request.path, path);
	pthread_mutex_lock(&reader->lock);
	int fd = request_file(reader, &request, at);
	if (fd == -EMFILE && object_file_allow_more())
		fd = request_file(reader, &request, at);
	pthread_mutex_unlock(&reader->lock);
	if (fd == -EMFILE)
		shortage_note(fd);
	return fd;
}

static struct reader_side the_reader = {.files = {.open = open_next}, .lock = PTHREAD_MUTEX_INITIALIZER, .socket = -1};

/* In a container there may be no process 1 that would do it. */
static void wait_for_helper(void)
{
	if (the_reader.socket < 0 || close(the_reader.socket))
		return;
	while (waitpid(the_reader.helper, NULL, 0) < 0 && errno == EINTR)
		;
}

struct container_files *container_files_start(void)
{
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return NULL;
	const pid_t pid = fork();
	if (pid == 0)
		helper_main(sockets[1]);
	close(sockets[1]);
	if (pid < 0) {
		close(sockets[0]);
		return NULL;
	}
	the_reader.socket = sockets[0];
	the_reader.helper = pid;
	atexit(wait_for_helper);
	return &the_reader.files;
}
