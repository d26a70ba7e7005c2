/* SPDX-License-Identifier: MIT */
/*
 * diag: a buffer of the caller for one line of text that says why something failed, where, and what to try.
 *
 * Functions take `struct diag *reterr` as last parameter (NULL: the caller does not want the text). They set it when
 * they fail, without a newline, a prefix or a full stop at the end. Only commands print it.
 */
#pragma once

struct diag {
	char text[512];
};

/* Sets the text (cut when too long) and returns `err`, a negative errno, so that a failure is one statement. */
int diag_set(struct diag *reterr, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Why a thread or process could not be started; `err`: a negative errno. A static string. */
const char *diag_start_error(int err);

/* Puts "format: " before what the diag says already. */
void diag_prefix(struct diag *reterr, const char *format, ...) __attribute__((format(printf, 2, 3)));
