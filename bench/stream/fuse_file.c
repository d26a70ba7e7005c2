/* SPDX-License-Identifier: MIT */
#include "fuse_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

enum {
	MOST_PAGES = 256, /* of one request: FUSE_MAX_MAX_PAGES, fs/fuse/fuse_i.h */
	MOST_BYTES = MOST_PAGES * 4096,
	SERVER_PRIORITY = 10,
	CACHE_NS = 5000000, /* what the disk's own cache takes in at once: the way of a request here costs no rate */
	REQUEST_BYTES = MOST_BYTES + 4096, /* with its headers */
	/* Mapping a file that is otherwise accessed past the page cache; Linux 6.6, newer than the oldest headers. */
	FLAGS2_DIRECT_IO_ALLOW_MMAP = 1 << 4,
};

/* The whole server; single-threaded, as a disk with one head. */
struct server {
	int device_fd, data_fd;
	uint64_t bytes_per_s;
	uint64_t free_ns; /* when what was taken in so far is stored */
	uint8_t *request; /* REQUEST_BYTES */
	uint8_t *answer;  /* MOST_BYTES */
};

struct answer {
	int err; /* -errno */
	const void *bytes;
	size_t len;
};

static const struct answer ok = {0};

static struct answer failed(void)
{
	return (struct answer){.err = -errno};
}

static struct answer get_attr(struct server *server)
{
	static struct fuse_attr_out out;
	struct stat stat;

	if (fstat(server->data_fd, &stat))
		return failed();
	out = (struct fuse_attr_out){.attr = {
					     .ino = FUSE_ROOT_ID,
					     .size = (uint64_t)stat.st_size,
					     .blocks = (uint64_t)stat.st_blocks,
					     .mode = S_IFREG | 0600,
					     .nlink = 1,
					     .uid = geteuid(),
					     .gid = getegid(),
					     .blksize = 4096,
				     }};
	return (struct answer){.bytes = &out, .len = sizeof(out)};
}

static struct answer init(const struct fuse_init_in *in)
{
	static struct fuse_init_out out;

	out = (struct fuse_init_out){
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = in->max_readahead,
		.flags = in->flags & (FUSE_BIG_WRITES | FUSE_MAX_PAGES | FUSE_INIT_EXT),
		.max_background = 64,
		.congestion_threshold = 48,
		.max_write = MOST_BYTES,
		.time_gran = 1,
		.max_pages = MOST_PAGES,
		.flags2 = in->flags & FUSE_INIT_EXT ? in->flags2 & FLAGS2_DIRECT_IO_ALLOW_MMAP : 0,
	};
	return (struct answer){.bytes = &out, .len = sizeof(out)};
}

static void wait_for_room(struct server *server, uint32_t bytes)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	if (server->free_ns + CACHE_NS < now_ns)
		server->free_ns = now_ns - CACHE_NS;
	server->free_ns += (uint64_t)bytes * 1000000000 / server->bytes_per_s;
	struct timespec until = {(time_t)(server->free_ns / 1000000000), (long)(server->free_ns % 1000000000)};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static struct answer write_data(struct server *server, const struct fuse_write_in *in, size_t len)
{
	static struct fuse_write_out out;

	if (len < sizeof(*in) || in->size > len - sizeof(*in))
		return (struct answer){.err = -EINVAL};
	int err = fd_pwrite(server->data_fd, in + 1, in->size, in->offset);
	if (err)
		return (struct answer){.err = err};
	wait_for_room(server, in->size);
	out = (struct fuse_write_out){.size = in->size};
	return (struct answer){.bytes = &out, .len = sizeof(out)};
}

static struct answer read_data(struct server *server, const struct fuse_read_in *in)
{
	size_t len = in->size < MOST_BYTES ? in->size : MOST_BYTES;
	ssize_t bytes = pread(server->data_fd, server->answer, len, (off_t)in->offset);

	return bytes < 0 ? failed() : (struct answer){.bytes = server->answer, .len = (size_t)bytes};
}

static struct answer set_attr(struct server *server, const struct fuse_setattr_in *in)
{
	if (in->valid & FATTR_SIZE && ftruncate(server->data_fd, (off_t)in->size))
		return failed();
	return get_attr(server);
}

static struct answer allocate(struct server *server, const struct fuse_fallocate_in *in)
{
	return fallocate(server->data_fd, (int)in->mode, (off_t)in->offset, (off_t)in->length) ? failed() : ok;
}

static struct answer serve(struct server *server, const struct fuse_in_header *header)
{
	static const struct fuse_open_out opened = {.open_flags = FOPEN_DIRECT_IO};
	static const struct fuse_statfs_out room = {.st = {.bsize = 4096, .namelen = 255, .frsize = 4096}};
	const void *in = header + 1;

	/* The kernel sends whole structs; the buffer behind is longer than any of them. */
	switch (header->opcode) {
	case FUSE_INIT: return init(in);
	case FUSE_GETATTR: return get_attr(server);
	case FUSE_SETATTR: return set_attr(server, in);
	case FUSE_OPEN: return (struct answer){.bytes = &opened, .len = sizeof(opened)};
	case FUSE_READ: return read_data(server, in);
	case FUSE_WRITE: return write_data(server, in, header->len - sizeof(*header));
	case FUSE_FALLOCATE: return allocate(server, in);
	case FUSE_STATFS: return (struct answer){.bytes = &room, .len = sizeof(room)};
	case FUSE_FLUSH:
	case FUSE_FSYNC:
	case FUSE_RELEASE:
	case FUSE_DESTROY: return ok;
	default: return (struct answer){.err = -ENOSYS};
	}
}

static int reply(struct server *server, uint64_t unique, const struct answer *answer)
{
	struct fuse_out_header header = {
		.len = (uint32_t)(sizeof(header) + answer->len),
		.error = answer->err,
		.unique = unique,
	};
	struct iovec parts[] = {{&header, sizeof(header)}, {(void *)(uintptr_t)answer->bytes, answer->len}};

	/* ENOENT: the request was interrupted and given up. */
	return writev(server->device_fd, parts, answer->len ? 2 : 1) < 0 && errno != ENOENT ? -errno : 0;
}

void fuse_file_serve(int device_fd, int data_fd, uint64_t bytes_per_s)
{
	struct server server = {.device_fd = device_fd, .data_fd = data_fd, .bytes_per_s = bytes_per_s};

	/* A disk waits for no CPU: above the reader of the rings, where that is allowed. */
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = SERVER_PRIORITY});
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_TIMERSLACK, 1);
	server.request =
		mmap(NULL, REQUEST_BYTES + MOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (server.request == MAP_FAILED)
		return;
	server.answer = server.request + REQUEST_BYTES;
	for (;;) {
		ssize_t len = read(device_fd, server.request, REQUEST_BYTES);
		if (len < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
			continue;
		if (len < (ssize_t)sizeof(struct fuse_in_header))
			return; /* ENODEV: unmounted */
		const struct fuse_in_header *header = (const void *)server.request;
		if (header->opcode == FUSE_FORGET || header->opcode == FUSE_BATCH_FORGET ||
		    header->opcode == FUSE_INTERRUPT)
			continue; /* wants no answer */
		struct answer answer = serve(&server, header);
		if (reply(&server, header->unique, &answer))
			return;
	}
}
