/* SPDX-License-Identifier: MIT */
/*
 * dump: prints every record of a recording: its offset, its bytes, and what they mean, laid out as by `perf report -D`.
 * One thread.
 */
#pragma once

#include <stdio.h>

struct diag;
struct symbol_options;
struct session;
struct session_record;

/*
 * Prints the records in the order in which the session was opened: SESSION_ALL for perf's order, SESSION_FILE_ORDER for
 * that of the bytes. 0, or -errno and why; the records before a damage are printed. Errors of `to` are left to the
 * caller (ferror).
 */
int dump_session(struct session *session, const struct symbol_options *options, FILE *to, struct diag *reterr);

/* dump_record: the meaning of a record, spelled as by `perf report -D`. */
/*
 * Prints the text behind "PERF_RECORD_NAME", up to the end of the last line. Checks every size in the record. arch: of
 * the machine that recorded, for the names of registers (register_name()).
 */
void dump_record_text(const struct session_record *record, const char *arch, FILE *to);
