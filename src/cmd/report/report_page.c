/* SPDX-License-Identifier: MIT */
#include "cmd/report/report_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine/machine.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "cmd/input/event_pair.h"
#include "cmd/input/loss_data.h"
#include "cmd/report/report_samples.h"
#include "cmd/report/report_wall.h"
#include "cmd/text/waker_chain.h"
#include "read/session.h"
#include "tasks/off_cpu.h"

/* With so many nodes a page has some megabytes, and a browser shows it in one or two seconds. */
static const struct page_limits default_limits = {.nodes = PAGE_MOST_NODES, .threads = PAGE_MOST_THREADS};

int report_page_set_base(const struct option *option, const char *arg, bool negated, void *page_base,
			 struct diag *reterr)
{
	static const char *const words[] = {"auto", "none", "command", "process", "thread"};

	(void)option, (void)negated;
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(arg, words[i])) {
			*(enum page_base *)page_base = (enum page_base)i;
			return 0;
		}
	return diag_set(reterr, -EINVAL, "\"%s\" is none of auto, none, command, process, thread", arg);
}

/* "name tid", and below it the functions in which it was, the innermost first. */
static void put_waker(const struct samples *samples, const struct session_record *record,
		      const struct off_cpu_wait *wait, struct buf *out)
{
	struct task *task;

	if (wait->flags & OFF_CPU_BY_INTERRUPT)
		buf_put_text(out, "an interrupt");
	if (!wait->waker_pid && !wait->waker_tid)
		return;
	task = machine_task(samples->machine, wait->waker_pid, wait->waker_tid);
	escape_put_text(out,
			task && task->comm && task->comm->text ? task->comm->text : "?"); /* a name may have lines */
	buf_printf(out, " %u", wait->waker_tid);
	unsigned nr = waker_chain(machine_lookup(samples->machine), record, wait, samples->frames, CHAIN_MOST_FRAMES);
	for (unsigned i = 0; i < nr; i++) {
		const struct location *at = &samples->frames[i];
		buf_put_text(out, at->symbol ? "\n" : "\n[");
		escape_put_text(out, at->symbol ? at->symbol->name : at->dso ? dso_short_name(at->dso) : "unknown");
		buf_put_text(out, at->symbol ? "" : "]");
	}
}

static int add_wait(struct report_page_times *times, const struct samples *samples, const struct session_record *record,
		    const struct samples_place *place)
{
	AUTO_BUF struct buf waker = {0};
	struct off_cpu_wait wait;

	if (!(record->sample.present & PERF_SAMPLE_RAW) || off_cpu_decode(&record->sample, &wait))
		return 0;
	put_waker(samples, record, &wait, &waker);
	const struct page_wait_place at = {(uint32_t)place->event, place->cell, buf_text(&waker)};
	int err = buf_status(&waker);
	if (!err)
		err = page_waits_add(&times->waits, &record->sample, &wait, &at);
	if (!err && times->wall)
		err = wall_take_off_cpu(times->wall, &record->sample, &wait);
	return err < 0 ? err : 0;
}

static int add_on_cpu(struct report_page_times *times, const struct session_record *record)
{
	uint64_t ns;
	int err = wall_take_on_cpu(times->wall, &record->sample, &ns);

	if (err < 0)
		return err;
	times->on_cpu_ns += ns;
	times->on_cpu_periods += record->sample.period;
	return 0;
}

int report_page_times_add(struct report_page_times *times, const struct samples *samples,
			  const struct session_record *record, const struct samples_place *place)
{
	int err = 0;

	if (!times->started && wall_new(samples->session, &times->wall) == -ENOMEM)
		return -ENOMEM;
	times->started = true;
	if (off_cpu_is_event(record->event))
		err = add_wait(times, samples, record, place);
	else if (times->wall && place->event == wall_on_cpu_event(times->wall))
		err = add_on_cpu(times, record);
	return err ? err : page_times_add(&times->samples, record, (uint32_t)place->event, place->cell);
}

void report_page_times_fini(struct report_page_times *times)
{
	page_times_fini(&times->samples);
	page_waits_fini(&times->waits);
	wall_free(times->wall);
	*times = (struct report_page_times){0};
}

/* Were samples of more than one process taken? */
static bool has_processes(const struct samples *samples)
{
	const struct task *first = NULL;

	for (size_t event = 0; event < samples->nr; event++) {
		const struct tally *tally = &samples->events[event].tally;
		for (uint32_t i = 0; i < tally->nr; i++) {
			const struct task *task = tally_cell(tally, i).place.task;
			first = first ? first : task;
			if (task->pid != first->pid)
				return true;
		}
	}
	return false;
}

/* Periods of the CPU's clocks are nanoseconds; those of others stand for as long as they were on average. */
static double unit_of(const struct report_page_times *times, const struct perf_event_attr *attr)
{
	if (attr->type == PERF_TYPE_SOFTWARE)
		return 1;
	return times->on_cpu_periods ? (double)times->on_cpu_ns / (double)times->on_cpu_periods : 0;
}

static int add_input(struct page_tree *tree, const struct report_page_input *input, uint32_t first_series, bool alone)
{
	const struct samples *samples = input->samples;
	const struct tally **events = calloc(samples->nr + 1, sizeof(*events));

	if (!events)
		return -ENOMEM;
	for (size_t i = 0; i < samples->nr; i++)
		events[i] = &samples->events[i].tally;
	const struct page_recording recording = {
		.events = events,
		.nr_events = (uint32_t)samples->nr,
		.first_series = first_series,
		.stacks = samples->stacks,
		.times = &input->times->samples,
		.waits = alone ? &input->times->waits : NULL,
	};
	int err = page_tree_add(tree, &recording);
	free(events);
	return err;
}

/* The series of a file: its events, in their order. Returns how many. */
static uint32_t list_events(const struct report_page_input *input, uint32_t file, struct page_series *ret)
{
	size_t nr;
	const struct event_desc *events = session_events(input->session, &nr);

	for (size_t i = 0; i < nr; i++)
		ret[i] = (struct page_series){.name = events[i].name, .file = file, .baseline = -1};
	const struct wall *wall = input->times->wall;
	if (wall) {
		struct page_series *on = &ret[wall_on_cpu_event(wall)];
		on->role = PAGE_ON_CPU;
		on->unit_ns = unit_of(input->times, &events[wall_on_cpu_event(wall)].attr);
		ret[wall_off_cpu_event(wall)].role = PAGE_OFF_CPU;
	}
	return (uint32_t)nr;
}

/* Gives each event of the second file the one of the first that it is compared with. An event that only one has is
 * compared with nothing: a series without samples. */
static uint32_t pair_series(const struct report_page_input inputs[2], struct page_series *series, bool *taken)
{
	struct event_list before, after;

	before.events = session_events(inputs[0].session, &before.nr);
	after.events = session_events(inputs[1].session, &after.nr);
	uint32_t nr_before = (uint32_t)before.nr, nr = nr_before + (uint32_t)after.nr, all = nr;
	for (uint32_t i = nr_before; i < nr; i++) {
		int32_t baseline = event_pair_find(&after, i - nr_before, &before);
		if (baseline < 0) {
			baseline = (int32_t)all;
			series[all++] = (struct page_series){.name = series[i].name, .file = 0, .baseline = -1};
		} else {
			taken[baseline] = true;
		}
		series[i].baseline = baseline;
	}
	for (uint32_t i = 0; i < nr_before; i++)
		if (!taken[i])
			series[all++] = (struct page_series){.name = series[i].name, .file = 1, .baseline = (int32_t)i};
	return all;
}

/* What the page is made of, beside the tree. */
struct parts {
	struct page_series *series;
	struct page_file *files;
	bool *taken;
	uint32_t nr_series;
};

static int make_parts(const struct report_page_input inputs[], unsigned nr, struct page_tree *tree, struct parts *parts)
{
	size_t room = 1;
	int err = 0;

	for (unsigned i = 0; i < nr; i++) {
		size_t nr_events;
		session_events(inputs[i].session, &nr_events);
		room += nr_events;
	}
	parts->series = calloc(2 * room, sizeof(*parts->series));
	parts->taken = calloc(2 * room, sizeof(*parts->taken));
	parts->files = calloc(nr, sizeof(*parts->files));
	if (!parts->series || !parts->taken || !parts->files)
		return -ENOMEM;
	for (unsigned i = 0; i < nr && !err; i++) {
		err = add_input(tree, &inputs[i], parts->nr_series, nr == 1);
		parts->nr_series += list_events(&inputs[i], i, parts->series + parts->nr_series);
		parts->files[i] = (struct page_file){
			.name = inputs[i].name,
			.times = &inputs[i].times->samples,
			.waits = &inputs[i].times->waits,
			.gaps = inputs[i].lost->gaps,
			.nr_gaps = inputs[i].lost->nr_gaps,
			.lost = inputs[i].lost_samples,
		};
	}
	if (nr > 1)
		parts->nr_series = pair_series(inputs, parts->series, parts->taken);
	return err;
}

int report_page_write(const struct report_page_input inputs[], unsigned nr, const struct report_page_options *options,
		      struct diag *reterr)
{
	struct page_tree tree = {.base = options->base};
	const struct page_limits *limits = options->limits.nodes ? &options->limits : &default_limits;
	struct parts parts = {0};

	for (unsigned i = 0; i < nr && tree.base == PAGE_BASE_AUTO; i++)
		tree.base = has_processes(inputs[i].samples) ? PAGE_BASE_COMMAND : PAGE_BASE_AUTO;
	tree.base = tree.base == PAGE_BASE_AUTO ? PAGE_BASE_NONE : tree.base;
	int err = make_parts(inputs, nr, &tree, &parts);
	if (!err)
		err = page_tree_finish(&tree, limits);
	const struct page page = {
		.title = options->title,
		.tree = &tree,
		.series = parts.series,
		.nr_series = parts.nr_series,
		.files = parts.files,
		.nr_files = nr,
		.table = options->table,
		.texts = options->texts,
		.nr_texts = options->nr_texts,
	};
	if (err)
		diag_set(reterr, err, "out of memory");
	else
		err = page_write(&page, options->output, reterr);
	page_tree_fini(&tree);
	free(parts.series);
	free(parts.taken);
	free(parts.files);
	return err;
}
