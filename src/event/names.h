/* SPDX-License-Identifier: MIT */
/* names: the events that have a word of their own, whatever the machine: hardware, software, caches, raw.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct suggest;

struct named_event {
	uint32_t type; /* PERF_TYPE_* */
	uint64_t config;
};

/* A symbolic name such as "cs", "cpu-cycles", "L1-dcache-load-misses". */
bool names_find(const char *word, size_t len, struct named_event *ret);

/* rHEX or r0xHEX, at most 16 digits. */
bool names_find_raw(const char *word, size_t len, struct named_event *ret);

/* The first name of a hardware or software event; NULL: has none. Static text. */
const char *names_of(uint32_t type, uint64_t config);

/*
 * Calls `visit` with each word: software, hardware, then caches, those in one spelling. Words for the same number follow
 * each other. What it returns, when not 0, ends the visit.
 */
typedef int names_visitor(const char *word, const struct named_event *event, void *data);
int names_visit(names_visitor *visit, void *data);

void names_offer(struct suggest *suggest);
