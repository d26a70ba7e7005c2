/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "cmd/agent/agent.h"
#include "cmd/agent/child.h"
#include "cmd/input/loss_data.h"
#include "cmd/input/sandbox.h"
#include "read/session.h"

/* "DIR/millrace-20261124T114250.123Z.pb.gz": names in the order in which the pieces were finished. */
static char *file_name(const struct delivery *delivery)
{
	time_t seconds = (time_t)(delivery->number / 1000);
	const struct export_format *format = delivery->options->send.format;
	char when[32], *path;
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(when, sizeof(when), "%Y%m%dT%H%M%S", &tm);
	return asprintf(&path, "%s/millrace-%s.%03uZ%s", delivery->options->files, when,
			(unsigned)(delivery->number % 1000), format ? format->suffix : ".data") < 0
		       ? NULL
		       : path;
}

/* The recording itself. */
static int move_file(const struct delivery *delivery, const char *path)
{
	if (rename(delivery->path, path) == 0)
		return 0;
	log_error("cannot rename %s to %s: %s", delivery->path, path, strerror(errno));
	return -EIO;
}

/*
 * The largest process of the agent, which can be started again: where memory is short, it ends before the recorder.
 * Source: proc(5), "oom_score_adj".
 */
static void offer_to_oom_killer(void)
{
	static const char most[] = "1000";
	AUTO_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, most, strlen(most)) < 0)
		log_verbose("oom_score_adj: %s", strerror(errno));
}

int delivery_run(void *ctx)
{
	const struct delivery *delivery = ctx;
	const struct agent_options *options = delivery->options;
	const struct input_options input = {
		.path = delivery->path,
		.force = true,
		.machine = {.inlined = options->inlined ? INLINE_ALL : INLINE_NONE},
	};
	const struct feed_options feed = {.input = &input, .title = "millrace agent", .quiet = true};
	AUTO_FREE char *path = options->files ? file_name(delivery) : NULL;
	struct feed_result file;
	int err;

	log_set_level(LOG_ERRORS);
	offer_to_oom_killer();
	if (options->files && !path)
		err = -ENOMEM;
	else if (options->files && !options->send.format)
		err = move_file(delivery, path);
	else if (options->files) {
		sandbox_enter(path, 0);
		err = feed_into_file(&feed, options->send.format, path, &file);
		delivery->result->counts = file.counts;
	} else {
		sandbox_enter(NULL, SANDBOX_NETWORK);
		err = send_recording(&feed, &options->send, &delivery->result->counts);
	}
	delivery->result->err = err;
	return err != 0;
}

/* Shared with the process that counts. */
struct counting {
	const char *path;
	uint64_t samples, lost;
};

static int run_count(void *ctx)
{
	struct counting *counting = ctx;
	struct session *session;
	struct loss_data data = {0};
	struct diag diag = {0};
	int err = session_open(counting->path, SESSION_FORCE | SESSION_FILE_ORDER, &session, &diag);

	if (!err) {
		err = loss_data_read(session, &data, &diag);
		counting->samples = data.captured;
		counting->lost = data.lost;
		loss_data_fini(&data);
		session_close(session);
	}
	if (err)
		log_error("%s", diag.text);
	return err != 0;
}

/* The file is mapped: where its disk fails, a SIGBUS ends the process that reads it. */
int delivery_count(const char *path, uint64_t *ret_samples, uint64_t *ret_lost, struct diag *reterr)
{
	struct counting *counting =
		mmap(NULL, sizeof(*counting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char message[CHILD_MESSAGE_BYTES];
	int status;

	if (counting == MAP_FAILED)
		return diag_set(reterr, -EAGAIN, "out of memory");
	counting->path = path;
	int err = child_run(run_count, counting, &status, message, reterr);
	*ret_samples = counting->samples;
	*ret_lost = counting->lost;
	munmap(counting, sizeof(*counting));
	if (err)
		return -EAGAIN;
	if (WIFSIGNALED(status))
		return diag_set(reterr, -EIO, "%s: its samples cannot be counted: signal %d", path, WTERMSIG(status));
	return WEXITSTATUS(status) ? diag_set(reterr, -EIO, "%s", message) : 0;
}
