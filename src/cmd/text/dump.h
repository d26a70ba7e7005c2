/* SPDX-License-Identifier: MIT */
/*
 * dump: every record of a recording: where it lies, its bytes, and what they mean, laid out as by `perf report -D`.
 * One thread.
 */
#pragma once

#include <stdio.h>

struct diag;
struct symbol_options;
struct session;
struct session_record;

/*
 * The session in the order in which it was opened: SESSION_ALL for perf's, SESSION_FILE_ORDER for that of the bytes.
 * 0, or -errno and why; what was before a damage is printed. Errors of `to` are left to the caller (ferror).
 */
int dump_session(struct session *session, const struct symbol_options *options, FILE *to, struct diag *reterr);

/* dump_record: what a record means, in words; spelled as by `perf report -D`. */
/* What stands behind "PERF_RECORD_NAME", up to the end of the last line. Every size is checked here. */
void dump_record_text(const struct session_record *record, FILE *to);
