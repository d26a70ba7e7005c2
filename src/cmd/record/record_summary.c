/* SPDX-License-Identifier: MIT */
#include "cmd/record/record.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/input/loss_data.h"
#include "perfdata/callchain.h"
#include "perfdata/ledger.h"
#include "record/run/recording.h"

static void print_compression(const struct batch_pool_totals *packed)
{
	if (!packed->bytes_out)
		return;
	log_note("  compressed %.3f MB to %.3f MB, ratio %.1f", (double)packed->bytes_in / 1e6,
		 (double)packed->bytes_out / 1e6, (double)packed->bytes_in / (double)packed->bytes_out);
	if (packed->nr_failed)
		log_note("  %llu of %llu extents could not be compressed, and are stored as they are",
			 (unsigned long long)packed->nr_failed, (unsigned long long)packed->nr_extents);
	log_verbose(
		"%llu extents, %llu of them plain, %llu at the fastest level; workers took %.3f s of CPU to compress",
		(unsigned long long)packed->nr_extents, (unsigned long long)packed->nr_plain,
		(unsigned long long)packed->nr_lowered, (double)packed->pack_cpu_ns / 1e9);
	if (packed->nr_built)
		log_verbose("%llu of them were compressed in their rings, which is drain cpu",
			    (unsigned long long)packed->nr_built);
}

/* The memory between draining and writing. */
static void print_storage(const struct recording_result *result)
{
	const struct batch_pool_totals *packed = &result->packed;

	if (packed->full_ns && result->lost_records && packed->most_bytes > result->pool_bytes / 2)
		log_note("  storage did not keep up for %.1f s: all %.0f MiB of buffer memory were in use",
			 (double)packed->full_ns / 1e9, (double)result->pool_bytes / 1048576);
	else if (packed->full_ns && result->lost_records)
		log_note("  storage did not keep up for %.1f s: %.0f MiB of buffer memory were in use, in as many "
			 "pieces as there may be",
			 (double)packed->full_ns / 1e9, (double)packed->most_bytes / 1048576);
	log_verbose("memory before the output: %.1f MiB used at most, of %.0f MiB; full for %.3f s",
		    (double)packed->most_bytes / 1048576, (double)result->pool_bytes / 1048576,
		    (double)packed->full_ns / 1e9);
}

static void print_losses(const struct recording_result *result)
{
	enum { SHOWN = 8 };

	for (size_t i = 0; i < result->nr_losses && i < SHOWN; i++) {
		const struct recording_loss *loss = &result->losses[i];
		AUTO_BUF struct buf where = {0};
		if (loss->cpu >= 0)
			buf_printf(&where, "CPU %d", loss->cpu);
		if (loss->tid > 0)
			buf_printf(&where, "%sthread %d", where.len ? ", " : "", loss->tid);
		if (loss->ring_bytes)
			buf_printf(&where, ": ring full (%zu KiB)", loss->ring_bytes / 1024);
		log_note("  lost %llu %s%s on %s", (unsigned long long)loss->records,
			 loss->task_events ? "task event" : "of ",
			 loss->task_events ? text_s(loss->records) : loss->event, buf_text(&where));
	}
	if (result->nr_losses > SHOWN)
		log_note("  and %zu more", result->nr_losses - SHOWN);
	for (size_t i = 0; i < POOL_DROP_REASONS && result->packed.drops[i].reason; i++)
		log_note("  lost %llu sample%s: %s", (unsigned long long)result->packed.drops[i].nr_samples,
			 text_s(result->packed.drops[i].nr_samples), result->packed.drops[i].reason);
}

static bool rings_were_full(const struct recording_result *result)
{
	for (size_t i = 0; i < result->nr_losses; i++)
		if (result->losses[i].ring_bytes && !result->losses[i].task_events)
			return true;
	return false;
}

/*
 * A ring that holds all that was lost from it, beside what it held, loses nothing. They have few fields, but a path. 0:
 * none was full, or such a ring is no sane one.
 */
static size_t enough_for_task_events(const struct recording_result *result)
{
	enum { LIKELY_RECORD = 128, MOST_BYTES = 256 << 20 };
	size_t enough = 0;

	for (size_t i = 0; i < result->nr_losses; i++) {
		const struct recording_loss *loss = &result->losses[i];
		size_t bytes = loss->ring_bytes;
		if (!loss->task_events || !loss->ring_bytes)
			continue;
		while (bytes < loss->ring_bytes + loss->records * LIKELY_RECORD && bytes <= MOST_BYTES)
			bytes *= 2;
		enough = bytes > enough ? bytes : enough;
	}
	return enough <= MOST_BYTES ? enough : 0;
}

/* By others, or another file has its name. */
static void print_change(const struct recording_result *result)
{
	if (result->change == OUTPUT_REMOVED)
		log_error("%s was removed while it was recorded: nothing of it is left; record again, where no other "
			  "program removes or replaces files",
			  result->output ? result->output : "the output");
	else if (result->change == OUTPUT_RENAMED)
		log_note("  the file was renamed while it was recorded");
}

/* Nothing when the bound asked for nothing. */
static void print_steering(const struct recording_result *result)
{
	const struct steering_result *steering = &result->steering;
	bool kept = steering->used <= steering->bound;
	AUTO_BUF struct buf line = {0};

	if (!steering->bound || (kept && !steering->was_low && !steering->slowest_ns))
		return;
	buf_printf(&line, "  --max-cpu=%.4g: used %.1f %% of a CPU while events flowed", 100 * steering->bound,
		   100 * steering->used);
	if (steering->was_low)
		buf_printf(&line, "; compressed at level %d at times", steering->lowest_level);
	if (steering->slowest_ns)
		buf_printf(&line, "; drained every %llu ms at times",
			   (unsigned long long)(steering->slowest_ns / 1000000));
	if (steering->nr_dropped)
		buf_printf(&line, ", by which %llu were lost", (unsigned long long)steering->nr_dropped);
	if (!kept)
		buf_printf(&line, "; that is more than it may");
	log_note("%s", buf_text(&line));
}

/* What would have prevented it. */
static void print_remedy(const struct recording_result *result)
{
	const struct coverage *coverage = &result->coverage;
	size_t enough = coverage->enough_bytes;
	size_t for_tasks = enough_for_task_events(result);

	if (coverage->sum.worst.cause == LEDGER_THROTTLED)
		log_note("  throttled by the kernel: a lower -F, or more in kernel.perf_cpu_time_max_percent, prevents "
			 "it");
	else if (result->steering.nr_dropped * 2 > result->lost_records)
		log_note("  what would have prevented it: more CPU time, --max-cpu");
	else if (coverage->sum.worst.cause == LEDGER_STORAGE)
		log_note("  what would have prevented it: more memory before the output, --buffer-memory, -z, or "
			 "faster storage");
	else if (coverage->blind_ns)
		log_note("  what would have prevented it: more CPU time or faster storage for the recorder; rings were "
			 "full for %.3f s, longer than the largest ones here could hold",
			 (double)coverage->blind_ns / 1e9);
	else if (enough && rings_were_full(result))
		log_note("  what would have prevented it: larger rings, -m %zu%s",
			 enough % (1 << 20) ? enough / 1024 : enough >> 20, enough % (1 << 20) ? "K" : "M");
	if (for_tasks)
		log_note("  what would have kept the task events: larger rings for them, --side-channel=%zu%s",
			 for_tasks % (1 << 20) ? for_tasks / 1024 : for_tasks >> 20, for_tasks % (1 << 20) ? "K" : "M");
}

/* Covered, worst gap, what would have prevented it; nothing when nothing was lost. */
/* As report --loss says it of the file. */
static const char *coverage_bound(const struct recording_result *result)
{
	if (result->unwritten_bytes)
		return result->coverage.exact ? "at most " : "about ";
	return result->coverage.exact ? "" : "at least ";
}

static void print_coverage(const struct recording_result *result)
{
	const struct coverage *coverage = &result->coverage;
	const struct ledger_entry *worst = &coverage->sum.worst;
	AUTO_BUF struct buf where = {0};

	if (!coverage->sum.gap_ns && !result->nr_losses)
		return;
	if (coverage->elapsed_ns && coverage->sum.gap_ns) {
		log_note("  covered %s%.2f %% of CPU time (%.3f s on %zu %s)", coverage_bound(result),
			 coverage_percent(coverage), (double)coverage->elapsed_ns / 1e9, coverage->nr_places,
			 worst->cpu >= 0 ? "CPUs" : "tasks");
		if (worst->cpu >= 0)
			buf_printf(&where, "CPU %d", worst->cpu);
		else
			buf_printf(&where, "task %d", worst->tid);
		log_note("  worst gap: %s%.3f ms on %s: %s", coverage->exact ? "" : "within ",
			 (double)(worst->to_ns - worst->from_ns) / 1e6, buf_text(&where),
			 ledger_cause_name(worst->cause));
	}
	print_remedy(result);
}

static void print_freezes(const struct recording_result *result)
{
	if (result->nr_trimmed)
		log_note("  cut the stacks of %llu sample%s short, while the memory before the writer was nearly full",
			 (unsigned long long)result->nr_trimmed, text_s(result->nr_trimmed));
	if (result->nr_freezes)
		log_note("  stopped the recorded tasks %llu time%s, %.3f s in all, until there was room",
			 (unsigned long long)result->nr_freezes, text_s(result->nr_freezes),
			 (double)result->frozen_ns / 1e9);
	if (result->nr_unguarded)
		log_note("  did not stop them %llu time%s: the watchdog process has exited, so they could have stayed "
			 "stopped",
			 (unsigned long long)result->nr_unguarded, text_s(result->nr_unguarded));
}

static void print_overwrite(const struct overwrite_counters *overwrite)
{
	if (!overwrite->nr_snapshots)
		return;
	log_verbose("%llu snapshots of overwritten rings: %llu records, %llu bytes",
		    (unsigned long long)overwrite->nr_snapshots, (unsigned long long)overwrite->nr_records,
		    (unsigned long long)overwrite->bytes);
	if (overwrite->nr_emptied)
		log_note("  %llu overwritten ring%s gave nothing to a snapshot: overwritten while copied; larger rings "
			 "(-m) leave some",
			 (unsigned long long)overwrite->nr_emptied, text_s(overwrite->nr_emptied));
	if (overwrite->nr_broken)
		log_note("  %llu overwritten ring%s held broken records", (unsigned long long)overwrite->nr_broken,
			 text_s(overwrite->nr_broken));
}

static void print_costs(const struct recording_result *result)
{
	if (result->nr_costs)
		log_verbose("what recording used:");
	for (size_t i = 0; i < result->nr_costs; i++) {
		char line[COST_TEXT_BYTES];
		log_verbose("%s", cost_text(&result->costs[i], line));
	}
}

/* Chains that end too soon, and why. */
static void print_unwinding(const struct unwinding_counts *counts)
{
	const struct {
		uint64_t nr;
		const char *why;
	} rows[] = {
		{counts->nr_unmapped, "are of processes of which nothing is known"},
		{counts->nr_after_loss, "came when records about tasks had been lost"},
		{counts->nr_too_late, "are older than what is known of their process"},
		{counts->nr_too_soon, "came when memory was full: more --buffer-memory prevents it"},
	};
	unsigned long long all = counts->nr_stacks, cut = counts->by_end[UNWIND_CUT_STACK];
	unsigned long long full = counts->by_end[UNWIND_FULL];

	unsigned long long continued = counts->nr_continued;

	if (continued)
		log_verbose("%llu of %llu stacks are continued by frame pointers where their copy ends, or on another "
			    "stack of Go",
			    continued, all);
	if (cut)
		log_note("  %llu of %llu stacks did not fit in %.4g KiB: --call-graph unwind,SIZE", cut, all,
			 counts->stack_bytes / 1024.0);
	if (full && counts->most_frames >= CALLCHAIN_FRAMES) /* fewer were asked for */
		log_note("  %llu of %llu stacks have more than %u frames: --max-stack N", full, all,
			 counts->most_frames);
	for (enum unwind_end end = 0; end < UNWIND_NR_ENDS; end++)
		if (counts->by_end[end] && end != UNWIND_CUT_STACK && unwind_end_text(end))
			log_note("  %llu of %llu stacks %s", (unsigned long long)counts->by_end[end], all,
				 unwind_end_text(end));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].nr)
			log_note("  %llu of %llu stacks %s", (unsigned long long)rows[i].nr, all, rows[i].why);
	if (counts->nr_given_up)
		log_verbose("%llu unwind tables of programs that had ended were given up",
			    (unsigned long long)counts->nr_given_up);
	if (!all)
		return;
	log_verbose("unwinding %llu stacks took %.3f s of CPU, %.3f s of it for %llu tables of %.1f MB", all,
		    (double)counts->cpu_ns / 1e9, (double)counts->build_ns / 1e9, (unsigned long long)counts->nr_tables,
		    (double)counts->table_bytes / 1e6);
	log_verbose("%llu of them were unwound in their rings, which is drain cpu",
		    (unsigned long long)counts->nr_in_rings);
}

void record_summary_print(const struct recording_result *result)
{
	AUTO_BUF struct buf line = {0};

	if (result->samples_counted)
		buf_printf(&line, "captured %llu samples, ", (unsigned long long)result->nr_samples);
	else
		buf_printf(&line, "captured ");
	const char *name = result->change == OUTPUT_REMOVED ? "no file"
			   : result->output                 ? result->output
							    : "the output";
	buf_printf(&line, "%.3f MB in %s; ", (double)result->bytes / 1e6, name);
	if (!result->losses_counted)
		buf_printf(
			&line,
			"this kernel does not count what it drops: millrace report shows the counts of LOST records");
	else if (!result->lost_records)
		buf_printf(&line, "lost 0");
	else if (result->samples_counted)
		buf_printf(&line, "lost %llu (%.2f %%)", (unsigned long long)result->lost_records,
			   100.0 * (double)result->lost_records / (double)(result->lost_records + result->nr_samples));
	else
		buf_printf(&line, "lost %llu", (unsigned long long)result->lost_records);
	if (result->losses_counted && result->lost_task_events)
		buf_printf(&line, "; lost %llu task event%s (mmap, comm, fork, exit)",
			   (unsigned long long)result->lost_task_events, text_s(result->lost_task_events));
	const char *text = buf_text(&line);
	log_note("%s",
		 line.failed ? "out of memory for the summary: millrace report --loss prints what was lost" : text);
	print_change(result);
	print_losses(result);
	print_steering(result);
	print_freezes(result);
	print_overwrite(&result->overwrite);
	print_unwinding(&result->unwinding);
	if (result->nr_no_room_stacks)
		log_note("  --off-cpu: %llu of %llu waits have no user part of their call chain: there was no memory "
			 "for "
			 "more copies of stacks (--buffer-memory, --max-memory)",
			 (unsigned long long)result->nr_no_room_stacks, (unsigned long long)result->nr_wait_stacks);
	if (result->compressed)
		print_compression(&result->packed);
	print_storage(result);
	print_coverage(result);
	if (result->unwritten_bytes)
		log_note("  %llu bytes of records could not be written", (unsigned long long)result->unwritten_bytes);
	if (result->cut_samples)
		log_note(
			"  %llu sample%s at the end of the file %s removed, because there was no room for its features "
			"behind that",
			(unsigned long long)result->cut_samples, text_s(result->cut_samples),
			result->cut_samples == 1 ? "was" : "were");
	log_verbose("%llu bytes in %zu rings drained, %llu wake-ups, %llu rounds, %.3f s of CPU",
		    (unsigned long long)result->ring_total_bytes, result->nr_rings, (unsigned long long)result->wakeups,
		    (unsigned long long)result->rounds, (double)result->cpu_ns / 1e9);
	print_costs(result);
}
