/* SPDX-License-Identifier: MIT */
/*
 * task_book: who lives, and what is mapped there, as far as the records of the side channel tell; and back as records.
 * Fed in the order of time. One owner, one thread at a time.
 */
#pragma once

#include <linux/perf_event.h>
#include <stddef.h>

struct buf;
struct task_book;

/* trailer_bytes: what stands behind each record, and is zero in what is put. NULL: out of memory. */
struct task_book *task_book_new(size_t trailer_bytes);
void task_book_free(struct task_book *book); /* NULL is fine */

/* COMM, FORK, EXIT, MMAP, MMAP2; others, and those that are too short, are left alone. 0 or -ENOMEM. */
int task_book_take(struct task_book *book, const struct perf_event_header *record);

/* The tasks that live, and their maps, as at the start of a recording (synth.h): all times are 0. */
void task_book_put(const struct task_book *book, struct buf *out);
