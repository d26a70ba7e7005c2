/* SPDX-License-Identifier: MIT */
/*
 * log: lines on stderr for the person who started the program. Never called on the drain path.
 *
 * The level is one of the two mutable globals of the program (sysinfo/heap.h has the other): set once, by the command,
 * before threads start.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum log_level {
	LOG_ERRORS = -1, /* -q */
	LOG_NORMAL = 0,
	LOG_VERBOSE = 1, /* -v */
	LOG_DEBUG = 2,   /* -vv */
};

void log_set_level(int level);
int log_level(void);

/*
 * Each prints one line "millrace: …" (the newline is added), escaped (base/escape.h): names in it were chosen by
 * others.
 */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* always */
void log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));    /* unless -q */
void log_verbose(const char *format, ...) __attribute__((format(printf, 1, 2))); /* with -v */
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* with -vv */

/*
 * Shows a status line, escaped, and cut where it is wider than the terminal. It replaces the previous one and is
 * removed before a line of log_error() and the others. Does nothing with -q, when stderr is no terminal, or when the
 * process runs in the background of its terminal. "" removes the line. One thread at a time.
 */
void log_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Progress of work that takes long, as the line of log_status(): "reading: 45 % [######### ] 12.3 M records, 4.1 M/s, 3
 * s left". Without a total only the number of records and their rate.
 */
struct progress {
	const char *what; /* borrowed; NULL: nothing is shown */
	uint64_t nr_records;
	uint64_t start_ns, next_ns; /* CLOCK_MONOTONIC: the start, and when the line is shown next */
	bool bytes;                 /* nr_records counts bytes, not records */
	uint64_t done, total;       /* in any unit, such as bytes of the input; set by the caller; total 0: not known */
};

/* The first line is shown after one second, so quick work shows none. */
void progress_start(struct progress *progress, const char *what);

/* Shows the line, at most once in 200 ms. Called by progress_step(). */
void progress_show(struct progress *progress);

/* The text of the line at `now_ns` (CLOCK_MONOTONIC, after the start). */
enum { PROGRESS_BYTES = 160 };
void progress_line(const struct progress *progress, uint64_t now_ns, char ret[PROGRESS_BYTES]);

/* To be called after `nr` more records (or bytes); `done` is how much of the total is finished now. */
static inline void progress_step(struct progress *progress, uint64_t nr, uint64_t done)
{
	enum { STEP_RECORDS = 1 << 12 }; /* the clock is read once for so many */
	uint64_t before = progress->nr_records;

	progress->nr_records += nr;
	progress->done = done;
	if (progress->nr_records / STEP_RECORDS != before / STEP_RECORDS && progress->what)
		progress_show(progress);
}

/* Removes the line. May be called more than once. */
void progress_end(struct progress *progress);
