/* SPDX-License-Identifier: MIT */
#include "record/run/control.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "event/parse/event.h"
#include "perfdata/attr.h"
#include "record/setup/eventset.h"
#include "record/setup/options.h"

static int check_fd(int fd, struct diag *reterr)
{
	return fcntl(fd, F_GETFD) < 0
		       ? diag_set(reterr, -errno, "--control: file descriptor %d: %s", fd, strerror(errno))
		       : 0;
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
 * poll(2) said that something is there, but another process may have taken it, and an fd that was handed to us may be
 * one that blocks, which is not ours to change.
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
		if (control->overlong)
			control_reply(control, "error: line too long\n");
		control->overlong = false;
	}
	return NULL;
}

/* Logged and answered without control characters. */
static void refuse(struct control *control, const char *why, const char *what, unsigned *nr_refused)
{
	enum { LOGGED = 20, SHOWN = 60 };
	char text[SHOWN + 1], line[SHOWN + 64];
	size_t len = strnlen(what, SHOWN);

	for (size_t i = 0; i < len; i++)
		text[i] = isprint((unsigned char)what[i]) ? what[i] : '?';
	text[len] = '\0';
	snprintf(line, sizeof(line), "error: %s: %s\n", why, text);
	control_reply(control, line);
	if ((*nr_refused)++ < LOGGED)
		log_error("--control: %s: \"%s\"", why, text);
	else if (*nr_refused == LOGGED + 1)
		log_error("--control: further errors are not reported");
}

static enum control_request enable(struct control *control, struct eventset *set, const char *name, bool on,
				   unsigned *nr_refused)
{
	int event = *name ? eventset_find(set, name) : EVENTSET_ALL;

	if (*name && event < 0) {
		refuse(control, "no such event", name, nr_refused);
		return CONTROL_NOTHING;
	}
	if (eventset_switch(set, event, on)) {
		refuse(control, on ? "cannot be enabled" : "cannot be disabled", *name ? name : "events", nr_refused);
		return CONTROL_NOTHING;
	}
	log_note("%s%s %s", *name ? "event " : "events", name, on ? "enabled" : "disabled");
	control_reply(control, "ack\n");
	return CONTROL_NOTHING;
}

static void list_event(const struct event *event, const char *how)
{
	AUTO_BUF struct buf text = {0};
	const struct perf_event_attr *attr = &event->attr;

	buf_put_text(&text, event->name);
	if (strstr(how, "-v")) {
		buf_put_text(&text, ": ");
		attr_text(attr, ": ", &text);
	} else if (strstr(how, "-F")) {
		buf_printf(&text, ": sample_%s=%llu", attr->freq ? "freq" : "period",
			   (unsigned long long)attr->sample_freq);
	}
	log_note("%s", buf_text(&text));
}

static enum control_request list(struct control *control, struct eventset *set, const char *how, unsigned *nr_refused)
{
	if (*how && strcmp(how, "-v") && strcmp(how, "-g") && strcmp(how, "-F")) {
		refuse(control, "evlist takes -v, -g or -F", how, nr_refused);
		return CONTROL_NOTHING;
	}
	for (size_t i = 0; i < set->events->nr; i++)
		list_event(&set->events->events[i], how);
	control_reply(control, "ack\n");
	return CONTROL_NOTHING;
}

/* What follows the word and blanks; NULL: it is another word. */
static const char *after(const char *line, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(line, word, len) || (line[len] && line[len] != ' '))
		return NULL;
	return line + len + strspn(line + len, " ");
}

enum control_request control_command(struct control *control, struct eventset *set, const char *line,
				     unsigned *nr_refused)
{
	const char *rest;

	if ((rest = after(line, "enable")))
		return enable(control, set, rest, true, nr_refused);
	if ((rest = after(line, "disable")))
		return enable(control, set, rest, false, nr_refused);
	if ((rest = after(line, "evlist")))
		return list(control, set, rest, nr_refused);
	if ((rest = after(line, "snapshot")) && !*rest)
		return CONTROL_SNAPSHOT;
	if ((rest = after(line, "stop")) && !*rest) {
		control_reply(control, "ack\n");
		return CONTROL_STOP;
	}
	if ((rest = after(line, "ping")) && !*rest)
		control_reply(control, "ack\n");
	else
		refuse(control, "unknown command", line, nr_refused);
	return CONTROL_NOTHING;
}
