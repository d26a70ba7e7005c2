/* SPDX-License-Identifier: MIT */
#include "cmd/input/records.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "cmd/input/input.h"
#include "cmd/input/sample_filter.h"
#include "perfdata/record.h"

void input_progress_start(struct progress *progress, const struct session *session, const char *what)
{
	const struct session_info *info = session_info(session);

	*progress = (struct progress){.total = info->one_file ? info->file_bytes : 0};
	progress_start(progress, what);
}

int input_records_open(struct input_records *records, struct session *session, unsigned nr_workers)
{
	*records = (struct input_records){.session = session, .deferred.session = session};
	input_progress_start(&records->progress, session, "reading");
	int err = session_info(session)->file_bytes ? prefetcher_start(session, nr_workers, &records->prefetcher) : 0;
	/* Where there may be no more threads (ulimit -u, a cgroup's pids.max) this one reads. */
	return err == -EAGAIN ? 0 : err;
}

void input_records_step_progress(struct input_records *records, const struct prefetcher_chunk chunks[], size_t nr)
{
	uint64_t nr_records = 0;

	for (size_t i = 0; i < nr; i++)
		nr_records += chunks[i].nr;
	if (nr)
		progress_step(&records->progress, nr_records, prefetcher_chunk_offset(&chunks[nr - 1]));
}

static int next_record(struct input_records *records, const struct session_record **ret, struct diag *reterr)
{
	if (records->prefetcher)
		return prefetcher_next(records->prefetcher, ret, reterr);
	*ret = &records->record;
	return session_next(records->session, &records->record, reterr);
}

/* Samples with their whole call chains; each when its chain has come, or the end. */
static int next_complete(struct input_records *records, const struct session_record **ret, struct diag *reterr)
{
	struct deferred_chains *deferred = &records->deferred;
	int got;

	while (!(*ret = deferred_chains_next(deferred))) {
		if (records->next) {
			*ret = records->next;
			records->next = NULL;
			return 1;
		}
		got = next_record(records, ret, reterr);
		if (got <= 0 && deferred->first) {
			deferred_chains_end(deferred); /* then the session ends once more */
			continue;
		}
		int taken = got > 0 ? deferred_chains_take(deferred, *ret) : 0;
		if (taken < 0)
			return diag_set(reterr, taken, "out of memory");
		if (!taken)
			return got;
		records->next = taken == 2 ? *ret : NULL;
	}
	return 1;
}

static int check_event(const struct input_records *records, const char *name, const char *option, struct diag *reterr)
{
	size_t nr;
	const struct event_desc *events = session_events(records->session, &nr);

	for (size_t i = 0; i < nr && name; i++)
		if (strcmp(events[i].name, name) == 0)
			return 0;
	if (!name || session_info(records->session)->pipe)
		return 0;
	AUTO_BUF struct buf text = {0};
	input_put_events(records->session, &text);
	return diag_set(reterr, -EINVAL, "%s %s: this recording has no such event, but %s", option, name,
			buf_text(&text));
}

int input_records_switch(struct input_records *records, const struct sample_filter *filter, struct diag *reterr)
{
	int err = check_event(records, filter->on_event, "--switch-on", reterr);

	if (!err)
		err = check_event(records, filter->off_event, "--switch-off", reterr);
	records->switches = filter->on_event || filter->off_event ? filter : NULL;
	records->off = filter->on_event;
	return err;
}

/* Is it a sample that is left out because of one that came before, or that one itself? */
static bool is_switched_off(struct input_records *records, const struct session_record *record)
{
	const struct sample_filter *switches = records->switches;

	if (!switches || record->view.header->type != PERF_RECORD_SAMPLE)
		return false;
	const char *event = records->off ? switches->on_event : switches->off_event;
	if (!event || strcmp(record->event->name, event) != 0)
		return records->off;
	records->off = !records->off;
	return !switches->shows_switches;
}

static int next_sample_or_other(struct input_records *records, const struct session_record **ret, struct diag *reterr)
{
	const struct session_record *record, *part;

	for (;;) {
		part = records->splitting ? group_split_next(&records->split) : NULL;
		if (part) {
			*ret = part;
			return 1;
		}
		int got = next_complete(records, &record, reterr);
		records->splitting = false;
		if (got <= 0)
			return got;
		progress_step(&records->progress, 1, record->view.offset);
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

int input_records_next(struct input_records *records, const struct session_record **ret, struct diag *reterr)
{
	int got;

	do
		got = next_sample_or_other(records, ret, reterr);
	while (got > 0 && is_switched_off(records, *ret));
	return got;
}

size_t input_records_span_begin(struct input_records *records, const struct prefetcher_chunk **ret)
{
	size_t nr;
	const struct event_desc *events = session_events(records->session, &nr);

	if (!records->prefetcher || records->splitting || records->switches)
		return 0;
	for (size_t i = 0; i < nr; i++)
		if (group_split_has(&events[i].attr) || deferred_chains_has(&events[i].attr))
			return 0;
	return prefetcher_span_begin(records->prefetcher, ret);
}

void input_records_close(struct input_records *records)
{
	if (records->deferred.nr_incomplete)
		log_note("the call chains of %" PRIu64
			 " samples lack their user part: the later records with it are missing",
			 records->deferred.nr_incomplete);
	deferred_chains_fini(&records->deferred);
	group_split_fini(&records->split);
	if (records->session)
		progress_end(&records->progress);
	prefetcher_close(records->prefetcher);
	records->prefetcher = NULL;
}
