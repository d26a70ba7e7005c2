/* SPDX-License-Identifier: MIT */
/* input: options and functions that all commands that read recordings share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/machine/machine.h"
#include "cmd/cli/terminal.h"
#include "cmd/input/sandbox.h"
#include "read/session.h"

struct buf;
struct event_desc;
struct option;

enum { INPUT_EXIT_ERROR = 255 }; /* exit status when the input cannot be read (to its end), as perf's */

struct input_options {
	const char *path; /* NULL: perf.data, or standard input when it is a pipe */
	bool force;
	const char *time;      /* NULL: all */
	bool time_since_first; /* its seconds are since the first sample */
	bool no_line_cache;
	struct symbol_options machine;
};

/* --debuginfod, of the struct download_options. */
int input_set_debuginfod(const struct option *, const char *arg, bool negated, void *download_options, struct diag *);

/* --symfs, of a const char *: NULL for /, where all is looked for anyway. */
int input_set_symfs(const struct option *, const char *arg, bool negated, void *path, struct diag *);

/* --inline, of the struct symbol_options. */
int input_set_inline(const struct option *, const char *arg, bool negated, void *symbol_options, struct diag *);

#define INPUT_CACHE_OPTION(type, field)                                                                                \
	{                                                                                                              \
		.name = "buildid-dir", .arg = "DIR",                                                                   \
		.help = "Look for copies of programs and libraries in DIR, not in ~/.debug", .set = option_set_string, \
		.offset = offsetof(type, field.machine.cache)                                                          \
	}

/* Their rows in the table of a command whose struct `type` has a struct input_options `field`. */
#define INPUT_OPTIONS(type, field)                                                                                     \
	{.letter = 'i',                                                                                                \
	 .name = "input",                                                                                              \
	 .arg = "FILE",                                                                                                \
	 .help = "Read this file or directory, or -, standard input; default perf.data, or a pipe there",              \
	 .set = option_set_path,                                                                                       \
	 .offset = offsetof(type, field.path),                                                                         \
	 .group = "Input"},                                                                                            \
		INPUT_OPTIONS_BUT_FILE(type, field)

/* Of a command that takes its files as arguments. */
#define INPUT_OPTIONS_BUT_FILE(type, field)                                                                            \
	{.letter = 'f',                                                                                                \
	 .name = "force",                                                                                              \
	 .help = "Read a file that belongs to neither root nor you",                                                   \
	 .set = option_set_flag,                                                                                       \
	 .offset = offsetof(type, field.force)},                                                                       \
		{.name = "time",                                                                                       \
		 .arg = "RANGES",                                                                                      \
		 .help = "Only samples from START,STOP (seconds, as in the output of script; either may be left "      \
			 "out; several: with blanks between), or of parts of the recording: 10%-20%,50%-60% or 10%/2", \
		 .set = option_set_string,                                                                             \
		 .offset = offsetof(type, field.time),                                                                 \
		 .flags = OPTION_NO_DEFAULT},                                                                          \
		{.name = "kallsyms",                                                                                   \
		 .arg = "FILE",                                                                                        \
		 .help = "Take the kernel's symbols from FILE, a copy of /proc/kallsyms",                              \
		 .set = option_set_string,                                                                             \
		 .offset = offsetof(type, field.machine.kallsyms),                                                     \
		 .group = "Symbols"},                                                                                  \
		{.letter = 'k',                                                                                        \
		 .name = "vmlinux",                                                                                    \
		 .arg = "FILE",                                                                                        \
		 .help = "Take the kernel's symbols from this kernel image",                                           \
		 .set = option_set_string,                                                                             \
		 .offset = offsetof(type, field.machine.vmlinux)},                                                     \
		{.name = "inline",                                                                                     \
		 .help = "Show the functions that were inlined into a frame of any call chain; default: of those "     \
			 "that are unwound from copies of the stack, in flame and export of all",                      \
		 .set = input_set_inline,                                                                              \
		 .offset = offsetof(type, field.machine)},                                                             \
		{.name = "no-demangle",                                                                                \
		 .help = "Print names of C++, Rust and OCaml as the linker has them",                                  \
		 .set = option_set_flag,                                                                               \
		 .offset = offsetof(type, field.machine.no_demangle)},                                                 \
		{.name = "demangle-kernel",                                                                            \
		 .help = "Make names of the kernel readable, too, such as those of its Rust code",                     \
		 .set = option_set_flag,                                                                               \
		 .offset = offsetof(type, field.machine.demangle_kernel)},                                             \
		{.name = "no-line-cache",                                                                              \
		 .help = "Neither keep nor use inlined functions and lines of the source in ~/.cache/millrace/lines",  \
		 .set = option_set_flag,                                                                               \
		 .offset = offsetof(type, field.no_line_cache)},                                                       \
		{.name = "debuginfod",                                                                                 \
		 .arg = "URLS",                                                                                        \
		 .help = "Download debug information that is not here from these servers, or those of "                \
			 "DEBUGINFOD_URLS; at most 1 GiB, Ctrl-C ends it; default: use what was downloaded before",    \
		 .set = input_set_debuginfod,                                                                          \
		 .offset = offsetof(type, field.machine.download),                                                     \
		 .flags = OPTION_ARG_OPTIONAL},                                                                        \
		INPUT_CACHE_OPTION(type, field),                                                                       \
	{                                                                                                              \
		.name = "symfs", .arg = "DIR",                                                                         \
		.help = "Look for the programs and libraries of the recording below DIR", .set = input_set_symfs,      \
		.offset = offsetof(type, field.machine.symfs)                                                          \
	}

const char *input_path(const struct input_options *options); /* that is read */

/* sandbox_enter() for a command that writes `output`; NULL: nothing. Behind pager_open(), before input_open(). */
void input_enter_sandbox(struct input_options *options, const char *output, enum sandbox_flags flags);

/* Is --time more than one range, with gaps between them? */
bool input_has_time_ranges(const struct input_options *options);

/* Opens the session, with `flags`, and with SESSION_FORCE for -f. Prints the reason of a failure. 0 or -errno. */
int input_open(const struct input_options *options, enum session_flags flags, struct session **ret);

/* Counts lost records and samples, for input_report_losses() at the end. */
struct input_losses {
	uint64_t lost_records; /* by LOST */
	uint64_t lost_chunks;
	uint64_t lost_samples; /* by LOST_SAMPLES */
	uint64_t aux_bytes;    /* of AUXTRACE: not decoded */
	uint64_t gap_records;  /* records of missing samples: LOST, LOST_SAMPLES, THROTTLE, UNTHROTTLE */
};
void input_count_losses(struct input_losses *losses, const struct session_record *record);

/*
 * Notes what was lost; to be called before the other notes. Flushes standard output first: notes may go to the same
 * file, and lines must stay whole.
 */
void input_report_losses(const struct input_losses *losses);

/* Notes which files are not those that were recorded: at most three lines, the most important first; more with -v. */
void input_report_doubts(const struct machine *machine);

/* What --debuginfod did. input_report_doubts() does this, too. NULL is fine. */
void input_report_downloads(const struct machine *machine);
/* To be called at the end: notes that records came too late to be sorted. */
void input_report_late(const struct session *session);
/* What periods of an event count: "ns", or "count": how often it occurred. */
const char *input_event_unit(const struct event_desc *event);
/* For "there is no such event": the names of those that a recording has, or the first ones and how to list all. */
void input_put_events(const struct session *session, struct buf *out);
