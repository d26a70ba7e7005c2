/* SPDX-License-Identifier: MIT */
/*
 * sample_text: a sample as `perf script` prints it by default: who, where, when, which event, its fields, its call
 * chain. One thread.
 *
 * Which columns there are is decided per kind of event (software, tracepoint …) by the first event of that kind.
 */
#pragma once

#include "read/session.h"

struct machine;
struct output;
struct sample_text;

/* Borrows all three. NULL: out of memory. */
struct sample_text *sample_text_new(struct session *session, struct machine *machine, struct output *out);
void sample_text_free(struct sample_text *text); /* NULL is fine */

/* 0, or -errno and why: the tracepoint formats are damaged, or out of memory. */
int sample_text_print(struct sample_text *text, const struct session_record *record, struct diag *reterr);
