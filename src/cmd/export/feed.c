/* SPDX-License-Identifier: MIT */
#include "cmd/export/feed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/debug_info.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "cmd/cli/result_file.h"
#include "cmd/input/loss_data.h"
#include "cmd/input/sample_walk.h"
#include "export/stack_table.h"
#include "perfdata/feature.h"
#include "perfdata/ledger.h"
#include "sysinfo/shortage.h"
#include "tasks/maps.h"
#include "tasks/task_event.h"

_Static_assert((int)CHAIN_MOST_FRAMES <= (int)EXPORT_MOST_FRAMES, "a stack is exported as a whole");

struct feed {
	const struct feed_options *options;
	const struct export_format *format;
	const struct export_target *target;
	struct sample_walk walk;
	struct exporter *exporter;
	struct export_event *events; /* heap */
	uint32_t *numbers;           /* heap; of the events of the recording: index of `events`, + 1; 0: not taken */
	size_t nr_events, nr_all_events;
	uint32_t only; /* where there can be one: its number; 0: all */
	struct buf command;
	struct hash_table objects; /* dso -> number */
	struct hash_table threads; /* task and comm -> number */
	struct hash_table cgroups; /* id -> number */
	uint32_t nr_objects, nr_frames, nr_threads, nr_cgroups;
	uint32_t *stacks; /* heap; chain of walk.stacks -> number; 0: not announced */
	uint32_t *frames; /* the same of its frames */
	uint32_t stacks_room, frames_room;
	struct feed_counts counts;
	struct diag why;
};

static const char *feature_text(const struct feed *feed, enum feature_bit bit)
{
	struct span payload;
	const char *text;

	if (!session_feature(feed->walk.session, bit, &payload) || feature_decode_string(payload, &text))
		return NULL;
	return text;
}

static void read_command(struct feed *feed)
{
	struct feature_list list;
	struct span payload;
	const char *word;

	if (!session_feature(feed->walk.session, FEATURE_CMDLINE, &payload) || feature_list_open(payload, &list))
		return;
	for (bool more = false; feature_list_string(&list, &word) > 0; more = true)
		buf_printf(&feed->command, more ? " %s" : "%s", word);
}

/* 0: the recording does not tell. */
static int64_t wall_offset(const struct feed *feed)
{
	struct feature_clock clock;
	struct span payload;

	if (!session_feature(feed->walk.session, FEATURE_CLOCK_DATA, &payload) || feature_decode_clock(payload, &clock))
		return 0;
	return (int64_t)(clock.wall_ns - clock.clock_ns);
}

static bool is_software(const struct event_desc *event, uint64_t config)
{
	return event->attr.type == PERF_TYPE_SOFTWARE && event->attr.config == config;
}

static enum export_unit event_unit(const struct event_desc *event)
{
	if (is_software(event, PERF_COUNT_SW_CPU_CLOCK) || is_software(event, PERF_COUNT_SW_TASK_CLOCK))
		return EXPORT_CPU_NS;
	return strcmp(event->name, "offcpu-time") == 0 ? EXPORT_OFF_CPU_NS : EXPORT_COUNT;
}

static int no_event(struct feed *feed)
{
	AUTO_BUF struct buf text = {0};

	input_put_events(feed->walk.session, &text);
	return diag_set(&feed->why, -EINVAL, "there is no event \"%s\" in this recording, but %s", feed->options->event,
			buf_text(&text));
}

/* Events for the records of tasks have no samples, and no number. */
static int read_events(struct feed *feed)
{
	size_t nr;
	const struct event_desc *events = session_events(feed->walk.session, &nr);

	feed->events = calloc(nr + 1, sizeof(*feed->events));
	feed->numbers = calloc(nr + 1, sizeof(*feed->numbers));
	if (!feed->events || !feed->numbers)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		const struct perf_event_attr *attr = &events[i].attr;
		bool wanted = !feed->options->event || strcmp(events[i].name, feed->options->event) == 0;
		if (is_software(&events[i], PERF_COUNT_SW_DUMMY) || !wanted)
			continue;
		char *name = strdup(events[i].name); /* a later record of a pipe may give the event another one */
		if (!name)
			return -ENOMEM;
		feed->numbers[i] = ++feed->nr_events;
		feed->events[feed->nr_events - 1] = (struct export_event){
			.name = name,
			.unit = event_unit(&events[i]),
			.period = attr->freq ? 0 : attr->sample_period,
			.frequency = attr->freq ? attr->sample_freq : 0,
		};
	}
	feed->nr_all_events = nr;
	feed->only = feed->format->one_event ? 1 : 0;
	if (feed->options->event && !feed->nr_events)
		return no_event(feed);
	return 0;
}

/* With the first sample, when all events of a pipe are known. */
static int open_exporter(struct feed *feed, uint64_t start_ns)
{
	const struct feed_options *options = feed->options;
	int err = read_events(feed);

	if (!err && options->filter && options->filter->cpus)
		err = sample_filter_check_cpus(feed->walk.session, &feed->why);
	if (err)
		return err;
	read_command(feed);
	const struct export_profile profile = {
		.title = options->title ? options->title : input_path(options->input),
		.command = feed->command.len ? buf_text(&feed->command) : NULL,
		.hostname = feature_text(feed, FEATURE_HOSTNAME),
		.os_release = feature_text(feed, FEATURE_OSRELEASE),
		.arch = feature_text(feed, FEATURE_ARCH),
		.cpu = feature_text(feed, FEATURE_CPUDESC),
		.events = feed->events,
		.nr_events = feed->nr_events,
		.start_ns = start_ns,
		.bytes = session_info(feed->walk.session)->file_bytes,
		.wall_offset_ns = wall_offset(feed),
		.count_samples = options->count_samples,
	};
	if (options->hostname && profile.hostname)
		buf_put_text(options->hostname, profile.hostname);
	return export_open(feed->format, &profile, feed->target, &feed->exporter, &feed->why);
}

static enum export_object_kind object_kind(const struct dso *dso)
{
	switch (dso->kind) {
	case DSO_KERNEL: return EXPORT_KERNEL;
	case DSO_MODULE: return EXPORT_MODULE;
	case DSO_PERFMAP:
	case DSO_KSYMBOL: return EXPORT_GENERATED;
	default: return EXPORT_FILE;
	}
}

static int announce_object(struct feed *feed, const struct dso *dso, uint32_t *ret)
{
	*ret = dso ? (uint32_t)hash_table_find_number(&feed->objects, (uintptr_t)dso) : 0;
	if (!dso || *ret)
		return 0;
	const struct elf_id *id = dso->build_id.len ? &dso->build_id : &dso->id.build_id;
	const struct export_object object = {
		.path = dso_long_name(dso),
		.name = dso_short_name(dso),
		.build_id = id->len ? id->bytes : NULL,
		.build_id_bytes = id->len,
		.kind = object_kind(dso),
	};
	*ret = ++feed->nr_objects;
	if (hash_table_add_number(&feed->objects, (uintptr_t)dso, *ret))
		return -ENOMEM;
	return feed->format->object ? feed->format->object(feed->exporter, *ret, &object) : 0;
}

/* Room for this number; what is new is 0. */
static int make_room(uint32_t **numbers, uint32_t wanted, uint32_t *room)
{
	uint32_t more = *room ? *room : 1024;

	if (wanted < *room)
		return 0;
	while (more <= wanted)
		more *= 2;
	uint32_t *grown = reallocarray(*numbers, more, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + *room, 0, (more - *room) * sizeof(*grown));
	*numbers = grown;
	*room = more;
	return 0;
}

static int announce_frame(struct feed *feed, uint32_t frame, uint32_t *ret)
{
	const struct location *at = stacks_location(feed->walk.stacks, frame);
	struct export_frame out = {
		.function = at->symbol ? at->symbol->name : NULL,
		.address = at->address,
		.start = at->symbol ? at->symbol->start : 0,
		.inlined = at->symbol && at->symbol->inlined,
		.kernel = at->level == 'k',
	};
	struct source_line line;

	if (make_room(&feed->frames, frame, &feed->frames_room))
		return -ENOMEM;
	*ret = feed->frames[frame];
	if (*ret)
		return 0;
	int err = announce_object(feed, at->dso, &out.object);
	if (err)
		return err;
	if (feed->options->lines && at->dso && at->level == '.' &&
	    debug_info_line(machine_debug_info(feed->walk.machine), at->dso, at->address - at->is_return,
			    at->nr_inlined, &line)) {
		out.file = line.path;
		out.line = line.line;
	}
	*ret = feed->frames[frame] = ++feed->nr_frames;
	return feed->format->frame ? feed->format->frame(feed->exporter, *ret, &out) : 0;
}

static int announce_stack(struct feed *feed, uint32_t chain, uint32_t *ret)
{
	const struct stacks *stacks = feed->walk.stacks;
	uint32_t links[EXPORT_MOST_FRAMES];
	unsigned nr = 0;

	if (make_room(&feed->stacks, chain, &feed->stacks_room))
		return -ENOMEM;
	for (uint32_t at = chain; at && !feed->stacks[at] && nr < EXPORT_MOST_FRAMES; at = stacks_outer(stacks, at))
		links[nr++] = at;
	for (unsigned i = nr; i-- > 0;) {
		uint32_t outer = stacks_outer(stacks, links[i]), frame;
		int err = announce_frame(feed, stacks_frame(stacks, links[i]), &frame);
		if (err)
			return err;
		uint32_t number = ++feed->counts.nr_stacks;
		feed->stacks[links[i]] = number;
		err = feed->format->stack
			      ? feed->format->stack(feed->exporter, number, outer ? feed->stacks[outer] : 0, frame)
			      : 0;
		if (err)
			return err;
	}
	*ret = feed->stacks[chain];
	return 0;
}

/* A record that names a task or tells its process for the first time changes it in place. */
static int announce_thread(struct feed *feed, const struct task *task, uint32_t *ret)
{
	uint64_t key =
		hash_mix(hash_mix((uint64_t)task->pid << 1 | task->is_named, (uintptr_t)task), (uintptr_t)task->comm);
	const struct export_thread thread = {task->pid, task->tid, task->comm->text};

	*ret = (uint32_t)hash_table_find_number(&feed->threads, key);
	if (*ret)
		return 0;
	*ret = ++feed->nr_threads;
	if (hash_table_add_number(&feed->threads, key, *ret))
		return -ENOMEM;
	return feed->format->thread ? feed->format->thread(feed->exporter, *ret, &thread) : 0;
}

static int announce_cgroup(struct feed *feed, const struct sample *sample, uint32_t *ret)
{
	if (!feed->format->cgroup || !(sample->present & PERF_SAMPLE_CGROUP))
		return 0;
	uint64_t key = hash_mix(1, sample->cgroup);
	*ret = (uint32_t)hash_table_find_number(&feed->cgroups, key);
	if (*ret)
		return 0;
	*ret = ++feed->nr_cgroups;
	if (hash_table_add_number(&feed->cgroups, key, *ret))
		return -ENOMEM;
	return feed->format->cgroup(feed->exporter, *ret, machine_cgroup(feed->walk.machine, sample->cgroup));
}

static void count_sample(struct feed *feed, const struct sample *sample)
{
	uint64_t wall_ns = sample->time + (uint64_t)feed->exporter->profile.wall_offset_ns;
	struct feed_counts *counts = &feed->counts;

	counts->nr_samples++;
	if (!sample->time || !feed->exporter->profile.wall_offset_ns)
		return;
	if (!counts->from_ns || wall_ns < counts->from_ns)
		counts->from_ns = wall_ns;
	if (wall_ns > counts->until_ns)
		counts->until_ns = wall_ns;
}

static int feed_sample(struct feed *feed, const struct walk_step *step)
{
	const struct sample *sample = &step->record->sample;
	struct export_sample out = {
		.time_ns = sample->time,
		.period = sample->period,
		.cpu = sample->present & PERF_SAMPLE_CPU ? (int32_t)sample->cpu : -1,
	};
	int err = feed->exporter ? 0 : open_exporter(feed, sample->time);

	if (err)
		return err;
	uint32_t number = step->event < feed->nr_all_events ? feed->numbers[step->event] : 0;
	if (!number || (feed->only && feed->only != number)) {
		feed->counts.nr_left_out++;
		return 0;
	}
	if (feed->format->needs_times && !sample->time) {
		feed->counts.nr_without_time++;
		return 0;
	}
	out.event = number - 1;
	err = announce_thread(feed, step->task, &out.thread);
	if (!err)
		err = announce_stack(feed, step->stack, &out.stack);
	if (!err)
		err = announce_cgroup(feed, sample, &out.cgroup);
	if (!err)
		err = feed->format->sample(feed->exporter, &out);
	if (!err)
		count_sample(feed, sample);
	return err;
}

static int feed_marker(struct feed *feed, struct export_marker *marker, const struct task *task)
{
	int err = task ? announce_thread(feed, task, &marker->thread) : 0;

	return err ? err : feed->format->marker(feed->exporter, marker);
}

static int feed_map(struct feed *feed, const struct task_event *event, uint64_t time_ns)
{
	struct task *task = machine_task(feed->walk.machine, event->pid, event->tid);
	const struct map *map = task && task->maps ? maps_find(task->maps, event->start) : NULL;
	struct export_map out = {
		.time_ns = time_ns,
		.start = event->start,
		.end = event->start + event->len,
		.offset = event->pgoff,
		.pid = event->pid,
	};
	int err = map ? announce_object(feed, map->object, &out.object) : 0;

	return err || !map ? err : feed->format->map(feed->exporter, &out);
}

/* Records of tasks; the machine has seen them. */
static int feed_task_event(struct feed *feed, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	uint64_t time_ns = record->sample.present & PERF_SAMPLE_TIME ? record->sample.time : 0;
	struct export_marker marker = {.from_ns = time_ns, .to_ns = time_ns, .cpu = -1};
	struct task_event event;

	if (task_event_decode(header, header, 0, &event) <= 0)
		return 0;
	bool user = (event.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
	if (event.type == PERF_RECORD_MMAP || event.type == PERF_RECORD_MMAP2)
		return feed->format->map && user ? feed_map(feed, &event, time_ns) : 0;
	if (!feed->format->marker || !time_ns)
		return 0;
	struct task *task = machine_task(feed->walk.machine, event.pid, event.tid);
	if (!task)
		return -ENOMEM;
	if (event.type == PERF_RECORD_FORK)
		marker.kind = EXPORT_FORK;
	else if (event.type == PERF_RECORD_EXIT)
		marker.kind = EXPORT_EXIT;
	else
		marker.kind = event.misc & PERF_RECORD_MISC_COMM_EXEC ? EXPORT_EXEC : EXPORT_COMM;
	marker.text = task->comm->text;
	return feed_marker(feed, &marker, task);
}

static int feed_step(struct feed *feed, const struct walk_step *step)
{
	if (step->stack)
		return feed_sample(feed, step);
	if (!feed->format->marker && !feed->format->map)
		return 0;
	int err = 0;
	switch (step->record->view.header->type) {
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		err = feed->exporter ? 0 : open_exporter(feed, 0);
		return err ? err : feed_task_event(feed, step->record);
	default: return 0;
	}
}

/* All records were seen, and neither they nor the ledger tell of any. */
static bool has_no_losses(const struct feed *feed)
{
	struct ledger ledger = {0};
	struct span payload;

	if (feed->options->input->time || feed->walk.losses.gap_records)
		return false;
	if (!session_feature(feed->walk.session, FEATURE_LEDGER, &payload))
		return true;
	bool none = ledger_decode(payload, &ledger) == 0 && !ledger.nr_entries;
	ledger_fini(&ledger);
	return none;
}

/* What was lost, by the records in file order and by the ledger: the file is read again where there is any. */
static int feed_losses(struct feed *feed)
{
	struct loss_data lost;
	int err = 0;

	if (!feed->format->marker || has_no_losses(feed))
		return 0;
	loss_data_read_again(feed->walk.session, input_path(feed->options->input), &lost);
	for (size_t i = 0; i < lost.nr_gaps && !err; i++) {
		const struct ledger_entry *gap = &lost.gaps[i];
		struct export_marker marker = {
			.kind = EXPORT_LOST,
			.from_ns = gap->from_ns,
			.to_ns = gap->to_ns,
			.cpu = gap->cpu,
			.count = gap->count,
			.text = ledger_cause_name(gap->cause),
		};
		err = feed_marker(feed, &marker, NULL);
	}
	loss_data_fini(&lost);
	return err;
}

static int feed_all(struct feed *feed)
{
	struct walk_step step;
	struct diag damage = {0};
	int err = 0, got = 0;

	while (!err && (got = sample_walk_next(&feed->walk, &step, &damage)) > 0)
		err = feed_step(feed, &step);
	if (got < 0)
		log_error("%s", damage.text);
	if (!err && !feed->exporter)
		err = open_exporter(feed, 0);
	if (!err)
		err = feed_losses(feed);
	if (!err)
		err = shortage(); /* of names, call chains or losses */
	if (!err)
		err = export_close(feed->exporter, &feed->why);
	if (err && *feed->why.text)
		log_error("%s", feed->why.text);
	else if (err)
		log_error("%s: %s", feed->target->name, strerror(-err));
	return err ? err : got;
}

static void feed_fini(struct feed *feed)
{
	sample_walk_close(&feed->walk);
	hash_table_fini(&feed->objects);
	hash_table_fini(&feed->threads);
	hash_table_fini(&feed->cgroups);
	free(feed->stacks);
	free(feed->frames);
	for (size_t i = 0; i < feed->nr_events; i++)
		free((char *)(uintptr_t)feed->events[i].name);
	free(feed->events);
	free(feed->numbers);
	buf_fini(&feed->command);
}

int feed_recording(const struct feed_options *options, const struct export_format *format,
		   const struct export_target *target, struct exporter **ret, struct feed_counts *ret_counts)
{
	struct feed feed = {.options = options, .format = format, .target = target};
	const struct sample_walk_options walk_options = {
		.input = options->input,
		.filter = options->filter,
		.max_stack = options->max_stack,
		.flags = SAMPLE_WALK_INLINED | (format->by_address || options->lines ? SAMPLE_WALK_ADDRESSES : 0),
	};
	int err = sample_walk_open(&feed.walk, &walk_options);

	*ret = NULL;
	if (!err) {
		err = feed_all(&feed);
		if (!options->quiet)
			sample_walk_report(&feed.walk);
		*ret = feed.exporter;
		*ret_counts = feed.counts;
		ret_counts->nr_frames = feed.nr_frames;
	}
	feed_fini(&feed);
	return err;
}

int feed_into_file(const struct feed_options *options, const struct export_format *format, const char *path,
		   struct feed_result *ret)
{
	struct exporter *exporter;
	struct result_file file;
	struct diag diag = {0};
	int err = result_file_open(path, format->needs_file ? RESULT_REGULAR : RESULT_STREAM, &file, &diag);

	*ret = (struct feed_result){0};
	if (err) {
		log_error("%s", diag.text);
		return err;
	}
	const struct export_target target = {.fd = file.fd, .path = result_file_path(&file), .name = file.path};
	err = feed_recording(options, format, &target, &exporter, &ret->counts);
	export_free(exporter);
	bool kept = !err || (err == -EBADMSG && ret->counts.nr_samples);
	uint64_t bytes = result_file_bytes(&file);
	int stored = result_file_close(&file, kept, &diag);
	if (stored)
		log_error("%s", diag.text);
	else
		ret->bytes = kept ? bytes : 0;
	return stored ? stored : err;
}
