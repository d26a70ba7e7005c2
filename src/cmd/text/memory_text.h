/* SPDX-License-Identifier: MIT */
/*
 * memory_text: a sampled access to memory in words, as perf prints it. Pure.
 * Source: <linux/perf_event.h>, union perf_mem_data_src; the words are perf 6.1's (facts).
 */
#pragma once

#include <stdint.h>

struct buf;

/* Each appends its word or words; data_src: perf_mem_data_src.val. */
void memory_text_operation(uint64_t data_src, struct buf *out); /* "LOAD" */
void memory_text_level(uint64_t data_src, struct buf *out);     /* "L1 hit" */
void memory_text_snoop(uint64_t data_src, struct buf *out);     /* "None" */
void memory_text_tlb(uint64_t data_src, struct buf *out);       /* "L1 or L2 hit" */
void memory_text_lock(uint64_t data_src, struct buf *out);      /* "Yes" */
void memory_text_blocked(uint64_t data_src, struct buf *out);   /* " Data" */

/* All of it, as in perf script: "|OP LOAD|LVL L1 hit|…". */
void memory_text_all(uint64_t data_src, struct buf *out);

/* A transaction that was sampled: PERF_TXN_*; "": none. */
void memory_text_transaction(uint64_t transaction, struct buf *out);

enum { MEMORY_TEXT_TRANSACTION_WIDTH = 32 }; /* of the column, where there is any */
