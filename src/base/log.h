/* SPDX-License-Identifier: MIT */
/*
 * log: lines on stderr for the person who started the program. Never called on the drain path.
 *
 * The level is the only mutable global of the program: set once, by the command, before threads start.
 */
#pragma once

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
 * Shows one line in the place of the one before, unless -q, and only where stderr is a terminal and we are in its
 * foreground; the next line of the others takes its place. By the main thread. "": takes it away.
 */
void log_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
