/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "cmd/agent/agent.h"
#include "cmd/cli/json_writer.h"

static void put_sum(struct json_writer *json, const char *name, const struct agent_sum *sum)
{
	json_object(json, name);
	json_number(json, "pieces", sum->pieces);
	json_number(json, "samples", sum->samples);
	json_number(json, "lost", sum->lost);
	json_end(json);
	json_break(json);
}

static void put_status(struct buf *out, const struct agent_status *status)
{
	struct json_writer json = {.buf = out};

	json_object(&json, NULL);
	json_number(&json, "pid", (uint64_t)getpid());
	json_number(&json, "since", status->since_s);
	json_break(&json);
	put_sum(&json, "recorded", &status->recorded);
	put_sum(&json, "delivered", &status->delivered);
	json_number(&json, "empty_pieces", status->nr_empty);
	json_break(&json);
	put_sum(&json, "dropped", &status->dropped);
	put_sum(&json, "refused", &status->refused);
	json_object(&json, "waiting");
	json_number(&json, "pieces", status->waiting_pieces);
	json_number(&json, "samples", status->waiting_samples);
	json_number(&json, "bytes", status->waiting_bytes);
	json_end(&json);
	json_break(&json);
	json_number(&json, "recorder_restarts", status->nr_restarts);
	json_number(&json, "unrecovered_files", status->nr_unrecovered);
	json_number(&json, "snapshots", status->nr_snapshots);
	json_number(&json, "failing_since", status->failing_since_s);
	json_text(&json, "error", status->error);
	json_end(&json);
	buf_put_u8(out, '\n');
}

int status_write(const char *state, const struct agent_status *status)
{
	AUTO_FREE char *path = NULL, *temporary = NULL;
	AUTO_BUF struct buf text = {0};

	put_status(&text, status);
	if (text.failed || asprintf(&path, "%s/status.json", state) < 0 ||
	    asprintf(&temporary, "%s/status.json.new", state) < 0)
		return -ENOMEM;
	AUTO_FD int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	int err = fd < 0 ? -errno : fd_write(fd, text.data, text.len);
	if (!err && rename(temporary, path))
		err = -errno;
	return err;
}

/* Source: sd_notify(3), "Notes": a datagram to the socket of $NOTIFY_SOCKET; '@' is an abstract one. */
void status_notify(const char *what, const struct agent_status *status)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	AUTO_BUF struct buf text = {0};
	size_t len = path ? strlen(path) : 0;

	if (!len || len >= sizeof(to.sun_path) || (*path != '/' && *path != '@'))
		return;
	memcpy(to.sun_path, path, len);
	if (*path == '@')
		to.sun_path[0] = '\0';
	buf_printf(&text,
		   "%s\nSTATUS=%" PRIu64 " samples recorded, %" PRIu64 " lost; %" PRIu64 " delivered, %" PRIu64
		   " dropped, %" PRIu64 " wait%s%s\n",
		   what, status->recorded.samples, status->recorded.lost, status->delivered.samples,
		   status->dropped.samples + status->refused.samples, status->waiting_samples,
		   *status->error ? ": " : "", status->error);
	AUTO_FD int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !text.failed)
		(void)!sendto(fd, text.data, text.len, MSG_NOSIGNAL, (struct sockaddr *)&to,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
}
