/* SPDX-License-Identifier: MIT */
#include "cmd/input/input.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cli/terminal.h"
#include "cmd/input/container_files.h"
#include "cmd/input/sample_filter.h"
#include "cmd/input/time_ranges.h"
#include "perfdata/feature.h"
#include "read/session.h"
#include "tasks/off_cpu.h"

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

void input_enter_sandbox(struct input_options *options, const char *output, enum sandbox_flags flags)
{
	if (!options->machine.symfs)
		options->machine.containers = container_files_start();
	options->machine.line_cache = !options->no_line_cache;
	if (options->machine.download.wanted)
		flags |= SANDBOX_DOWNLOADS;
	if (options->machine.line_cache)
		flags |= SANDBOX_LINE_CACHE;
	sandbox_enter(output, flags);
}

bool input_has_time_ranges(const struct input_options *options)
{
	return options->time && time_ranges_are_several(options->time);
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
		err = time_ranges_limit(*ret, options->time, options->time_since_first, &diag);
		if (err) {
			session_close(*ret);
			*ret = NULL;
		}
	}
	bool absent = err == -ENOENT && !options->path && access(input_path(options), F_OK);
	if (err)
		log_error("%s%s", diag.text,
			  absent ? ": record first (millrace record -- COMMAND), or name a file with -i" : "");
	return err;
}

void input_count_losses(struct input_losses *losses, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	const uint64_t *body = (const uint64_t *)(header + 1);

	losses->gap_records += header->type == PERF_RECORD_LOST || header->type == PERF_RECORD_LOST_SAMPLES ||
			       header->type == PERF_RECORD_THROTTLE || header->type == PERF_RECORD_UNTHROTTLE;
	/* LOST: id, lost; LOST_SAMPLES: lost. perf_event_open(2) */
	if (header->type == PERF_RECORD_LOST && header->size >= sizeof(*header) + 2 * sizeof(*body)) {
		losses->lost_records += body[1];
		losses->lost_chunks++;
	}
	if (header->type == PERF_RECORD_LOST_SAMPLES && header->size >= sizeof(*header) + sizeof(*body))
		losses->lost_samples += body[0];
	/* u64 size first, of data behind the record: tools/perf/util/event.h, struct perf_record_auxtrace. */
	if (header->type == RECORD_AUXTRACE && header->size >= sizeof(*header) + sizeof(*body))
		losses->aux_bytes += body[0];
}

void input_report_losses(const struct input_losses *losses)
{
	(void)!standard_output_flush(); /* it says what fails, and so at the end */
	/* The two overlap: a lost sample may be in both counts, so they are not added. */
	if (losses->lost_chunks)
		log_note("this recording lost %" PRIu64 " record%s in %" PRIu64 " place%s", losses->lost_records,
			 text_s(losses->lost_records), losses->lost_chunks, text_s(losses->lost_chunks));
	if (losses->lost_samples)
		log_note("this recording lost %" PRIu64 " sample%s", losses->lost_samples,
			 text_s(losses->lost_samples));
	if (losses->aux_bytes)
		log_note("this recording has %" PRIu64
			 " bytes of AUX data (Intel PT and the like), which are not decoded "
			 "here: use perf script --itrace",
			 losses->aux_bytes);
}

int input_set_symfs(const struct option *option, const char *arg, bool negated, void *path, struct diag *reterr)
{
	(void)option, (void)reterr;
	*(const char **)path = negated || strcmp(arg, "/") == 0 ? NULL : arg;
	return 0;
}

int input_set_inline(const struct option *option, const char *arg, bool negated, void *symbol_options,
		     struct diag *reterr)
{
	struct symbol_options *symbols = symbol_options;

	(void)option, (void)arg, (void)reterr;
	symbols->inlined = negated ? INLINE_NONE : INLINE_ALL;
	return 0;
}

/* Ctrl-C during a download ends the downloads, not the report. */
static volatile sig_atomic_t download_ended;
static struct sigaction before_download;

static void end_download(int number)
{
	(void)number;
	download_ended = 1;
}

static void catch_interrupt(bool on)
{
	static bool caught;
	struct sigaction action = {.sa_handler = end_download};

	if (on == caught)
		return;
	caught = on;
	sigaction(SIGINT, on ? &action : &before_download, on ? &before_download : NULL);
}

static bool show_download(const char *name, uint64_t bytes, uint64_t all)
{
	bool main_thread = gettid() == getpid();

	catch_interrupt(name != NULL);
	if (!main_thread)
		return !download_ended;
	if (!name)
		log_status("%s", "");
	else if (all)
		log_status("downloading for %s: %.1f of %.1f MB (Ctrl-C: continue without)", name, (double)bytes / 1e6,
			   (double)all / 1e6);
	else
		log_status("looking for %s on the servers (Ctrl-C: continue without)", name);
	return !download_ended;
}

int input_set_debuginfod(const struct option *option, const char *arg, bool negated, void *download_options,
			 struct diag *reterr)
{
	struct download_options *options = download_options;

	(void)option;
	*options = (struct download_options){.wanted = !negated, .urls = arg, .progress = show_download};
	return negated ? 0 : downloads_check(options, reterr);
}

static const char *plural(size_t nr)
{
	return nr == 1 ? "" : "s";
}

void input_report_downloads(const struct machine *machine)
{
	struct downloads *downloads = machine ? machine_downloads(machine) : NULL;
	struct download_result result;

	if (!downloads)
		return;
	downloads_result(downloads, &result);
	if (result.nr)
		log_note("downloaded %zu file%s, %.1f MB", result.nr, plural(result.nr), (double)result.bytes / 1e6);
	if (result.nr_missing)
		log_note("not on the debuginfod servers: %zu file%s", result.nr_missing, plural(result.nr_missing));
	if (result.nr_too_large)
		log_note("not downloaded: too large (DEBUGINFOD_MAXSIZE, or 1 GiB in all): %zu file%s",
			 result.nr_too_large, plural(result.nr_too_large));
	if (result.stopped)
		log_note("downloads ended: %s", result.stopped);
}

void input_report_doubts(const struct machine *machine)
{
	enum { SHOWN = 3, SHOWN_VERBOSE = 16 };
	const struct dso *dsos[SHOWN_VERBOSE];
	size_t shown = log_level() >= LOG_VERBOSE ? SHOWN_VERBOSE : SHOWN;
	size_t nr = machine ? machine_list_doubts(machine, dsos, shown) : 0;

	input_report_downloads(machine);
	for (size_t i = 0; i < nr && i < shown; i++) {
		AUTO_FREE char *text = dso_doubt_text(dsos[i]);
		if (text)
			log_note("%s", text);
	}
	if (nr > shown)
		log_verbose("%zu further files: the same", nr - shown);
}

void input_report_late(const struct session *session)
{
	uint64_t nr_late = session_info(session)->nr_late;

	if (nr_late)
		log_note("%" PRIu64 " record%s out of order in this recording: names and maps may be wrong there",
			 nr_late, nr_late == 1 ? " is" : "s are");
}

const char *input_event_unit(const struct event_desc *event)
{
	const struct perf_event_attr *attr = &event->attr;
	const bool clock = attr->type == PERF_TYPE_SOFTWARE &&
			   (attr->config == PERF_COUNT_SW_CPU_CLOCK || attr->config == PERF_COUNT_SW_TASK_CLOCK);

	return clock || off_cpu_is_event(event) ? "ns" : "count";
}

void input_put_events(const struct session *session, struct buf *out)
{
	enum { MOST_BYTES = 200 }; /* of a line, beside what else it says */
	size_t nr, shown = 0;
	const struct event_desc *events = session_events(session, &nr);

	for (size_t bytes = 0; shown < nr && (bytes += strlen(events[shown].name) + 2) <= MOST_BYTES; shown++)
		buf_printf(out, "%s%s", shown ? ", " : "", events[shown].name);
	if (shown < nr)
		buf_printf(out, "%s%zu %sevents: millrace report --header-only lists them", shown ? " and " : "",
			   nr - shown, shown ? "other " : "");
}
