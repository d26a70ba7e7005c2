/* SPDX-License-Identifier: MIT */
#include "cmd/input.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"
#include "cmd/pager.h"
#include "cmd/time_range.h"

const char *input_path(const struct input_options *options)
{
	struct stat st;

	if (options->path)
		return options->path;
	/* As perf: `record -o - | script` needs no -i. */
	if (fstat(STDIN_FILENO, &st) == 0 && S_ISFIFO(st.st_mode))
		return "-";
	return "perf.data";
}

/* Only async-signal-safe calls; see session_open(). */
static void file_shrank(int signal)
{
	static const char text[] = "millrace: the input became shorter while it was read\n";

	(void)signal;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(INPUT_EXIT_ERROR);
	pager_close();
	_exit(INPUT_EXIT_ERROR);
}

static int limit_time(const char *text, struct session *session, struct diag *reterr)
{
	struct session_times times;
	int err = time_range_parse(text, session, &times, reterr);

	if (!err && session_limit_time(session, &times))
		err = diag_set(reterr, -ENOMEM, "out of memory");
	return err;
}

int input_open(const struct input_options *options, enum session_flags flags, struct session **ret)
{
	struct sigaction action = {.sa_handler = file_shrank};
	struct diag diag = {0};

	if (options->force)
		flags |= SESSION_FORCE;
	sigaction(SIGBUS, &action, NULL);
	int err = session_open(input_path(options), flags, ret, &diag);
	if (!err && options->time) {
		err = limit_time(options->time, *ret, &diag);
		if (err) {
			session_close(*ret);
			*ret = NULL;
		}
	}
	if (err)
		log_error("%s", diag.text);
	return err;
}

void input_count_losses(struct input_losses *losses, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	const uint64_t *body = (const uint64_t *)(header + 1);

	/* LOST: id, lost; LOST_SAMPLES: lost. perf_event_open(2) */
	if (header->type == PERF_RECORD_LOST && header->size >= sizeof(*header) + 2 * sizeof(*body)) {
		losses->lost_records += body[1];
		losses->lost_chunks++;
	}
	if (header->type == PERF_RECORD_LOST_SAMPLES && header->size >= sizeof(*header) + sizeof(*body))
		losses->lost_samples += body[0];
}

void input_tell_losses(const struct input_losses *losses)
{
	/* The two overlap: a lost sample may be in both counts, so they are not added. */
	if (losses->lost_chunks)
		log_note("this recording lost %" PRIu64 " records in %" PRIu64 " places", losses->lost_records,
			 losses->lost_chunks);
	if (losses->lost_samples)
		log_note("this recording lost %" PRIu64 " samples", losses->lost_samples);
}

void input_tell_late(const struct session *session)
{
	uint64_t nr_late = session_info(session)->nr_late;

	if (nr_late)
		log_note("%" PRIu64 " records are out of order in this recording: names and maps may be wrong around them",
			 nr_late);
}

int input_records_open(struct input_records *records, struct session *session, unsigned nr_hands)
{
	*records = (struct input_records){.session = session};
	return session_info(session)->file_bytes ? ahead_start(session, nr_hands, &records->ahead) : 0;
}

static int next_record(struct input_records *records, const struct session_record **ret, struct diag *reterr)
{
	if (records->ahead)
		return ahead_next(records->ahead, ret, reterr);
	*ret = &records->record;
	return session_next(records->session, &records->record, reterr);
}

int input_records_next(struct input_records *records, const struct session_record **ret, struct diag *reterr)
{
	const struct session_record *record, *part;

	for (;;) {
		part = records->splitting ? group_split_next(&records->split) : NULL;
		if (part) {
			*ret = part;
			return 1;
		}
		int got = next_record(records, &record, reterr);
		records->splitting = false;
		if (got <= 0)
			return got;
		got = group_split_begin(&records->split, records->session, record);
		if (got < 0)
			return diag_set(reterr, got, "out of memory");
		if (!got) {
			*ret = record;
			return 1;
		}
		records->splitting = true;
	}
}

size_t input_records_run(struct input_records *records, const struct ahead_piece **ret)
{
	size_t nr;
	const struct event_desc *events = session_events(records->session, &nr);

	if (!records->ahead || records->splitting)
		return 0;
	for (size_t i = 0; i < nr; i++)
		if (group_split_has(&events[i].attr))
			return 0;
	return ahead_run_begin(records->ahead, ret);
}

void input_records_close(struct input_records *records)
{
	group_split_fini(&records->split);
	ahead_close(records->ahead);
	records->ahead = NULL;
}
