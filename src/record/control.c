/* SPDX-License-Identifier: MIT */
#include "record/control.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"

static bool parse_fd(const char *text, const char **ret_end, int *ret)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	long fd = strtol(text, &end, 10);
	if (errno || fd > INT_MAX)
		return false;
	*ret = (int)fd;
	*ret_end = end;
	return true;
}

static int parse_fds(const char *text, struct control_spec *spec)
{
	const char *at = text;

	if (!parse_fd(at, &at, &spec->fd))
		return -EINVAL;
	if (*at == ',' && at[1] && !parse_fd(at + 1, &at, &spec->ack_fd))
		return -EINVAL;
	if (*at == ',' && !at[1]) /* "fd:10,": as perf, no acknowledgements */
		at++;
	return *at ? -EINVAL : 0;
}

static int parse_paths(const char *text, struct control_spec *spec)
{
	size_t len = strcspn(text, ",");
	const char *ack = text[len] ? text + len + 1 : "";

	if (!len || len >= sizeof(spec->path) || strlen(ack) >= sizeof(spec->ack_path))
		return -EINVAL;
	memcpy(spec->path, text, len);
	strcpy(spec->ack_path, ack);
	return 0;
}

int control_parse(const char *text, struct control_spec *ret, struct diag *reterr)
{
	struct control_spec spec = {.given = true, .fd = -1, .ack_fd = -1};
	int err = -EINVAL;

	if (!strncmp(text, "fd:", 3))
		err = parse_fds(text + 3, &spec);
	spec.fifo = !strncmp(text, "fifo:", 5);
	if (spec.fifo)
		err = parse_paths(text + 5, &spec);
	if (err)
		return diag_set(reterr, err, "\"%s\" is neither fd:CTL[,ACK] nor fifo:CTL[,ACK]", text);
	*ret = spec;
	return 0;
}

static int check_fd(int fd, struct diag *reterr)
{
	return fcntl(fd, F_GETFD) < 0 ? diag_set(reterr, -errno, "--control: file descriptor %d: %s", fd,
						 strerror(errno)) : 0;
}

/* For reading and writing: then it opens without waiting for the other side, and lives through one that goes. */
static int open_fifo(const char *path, int *ret, struct diag *reterr)
{
	int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return diag_set(reterr, -errno, "--control: %s: %s", path, strerror(errno));
	*ret = fd;
	return 0;
}

int control_open(struct control *control, const struct control_spec *spec, struct diag *reterr)
{
	int err = 0;

	control->fd = control->ack_fd = -1;
	control->ours = spec->fifo;
	if (!spec->given)
		return 0;
	if (spec->fifo) {
		err = open_fifo(spec->path, &control->fd, reterr);
		if (!err && spec->ack_path[0])
			err = open_fifo(spec->ack_path, &control->ack_fd, reterr);
		return err;
	}
	err = check_fd(spec->fd, reterr);
	if (!err && spec->ack_fd >= 0)
		err = check_fd(spec->ack_fd, reterr);
	if (err)
		return err;
	control->fd = spec->fd;
	control->ack_fd = spec->ack_fd;
	return 0;
}

void control_close(struct control *control)
{
	if (control->ours && control->fd >= 0)
		close(control->fd);
	if (control->ours && control->ack_fd >= 0)
		close(control->ack_fd);
	control->fd = control->ack_fd = -1;
}

/*
 * poll(2) said that something is there, but somebody else may have taken it, and an fd that was handed to us may be one
 * that blocks, which is not ours to change.
 */
static ssize_t read_now(int fd, void *bytes, size_t room)
{
	struct iovec piece = {bytes, room};
	ssize_t len = recv(fd, bytes, room, MSG_DONTWAIT);

	if (len < 0 && errno == ENOTSOCK)
		len = preadv2(fd, &piece, 1, -1, RWF_NOWAIT);
	if (len < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
		len = read(fd, bytes, room);
	return len;
}

bool control_read(struct control *control)
{
	/* Lines that were handed out are gone. */
	memmove(control->line, control->line + control->at, control->len - control->at);
	control->len -= control->at;
	control->at = 0;
	if (control->len == sizeof(control->line)) {
		control->overlong = true;
		control->len = 0;
	}
	if (control->fd < 0)
		return false;
	ssize_t len = read_now(control->fd, control->line + control->len, sizeof(control->line) - control->len);
	if (len > 0) {
		control->len += (size_t)len;
		return true;
	}
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (control->ours)
		close(control->fd);
	control->fd = -1;
	return false;
}

const char *control_next(struct control *control)
{
	while (control->at < control->len) {
		char *line = control->line + control->at;
		size_t left = control->len - control->at, len = 0;
		while (len < left && line[len] != '\n' && line[len])
			len++;
		if (len == left)
			break;
		line[len] = '\0';
		control->at += len + 1;
		if (!control->overlong && len)
			return line;
		control->overlong = false;
	}
	return NULL;
}

void control_reply(struct control *control, const char *line)
{
	struct pollfd room = {.fd = control->ack_fd, .events = POLLOUT};
	size_t len = strlen(line);

	if (control->ack_fd < 0 || send(control->ack_fd, line, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
	    errno != ENOTSOCK)
		return;
	/* A pipe that is ready takes PIPE_BUF bytes at once: pipe(7), poll(2). */
	if (poll(&room, 1, 0) == 1 && room.revents & POLLOUT)
		(void)!write(control->ack_fd, line, len);
}
