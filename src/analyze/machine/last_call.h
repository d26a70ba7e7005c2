/* SPDX-License-Identifier: MIT */
/*
 * last_call: whether a function ends with a call. What that calls does not return (abort(), exit(), a throw), but the
 * return address is on the stack all the same: it is the first byte behind the function, where often the next one
 * begins. Only a look at the code tells it from an address that was put there for that function to run when another one
 * returns, as makecontext(3) and signal handlers have it. Private to analyze/machine. One owner, one thread, except for
 * last_calls_peek().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"

struct dso;
struct symbol;

/* Zeroed: nothing is known. */
struct last_calls {
	struct hash_table known; /* enum last_call, by function */
};

enum last_call { LAST_CALL_UNKNOWN, LAST_CALL_NONE, LAST_CALL_THERE };

void last_calls_fini(struct last_calls *calls);

/* What is known; by any number of threads, while none of them finds. */
enum last_call last_calls_peek(const struct last_calls *calls, const struct symbol *function);

/* From the object's file, where `symfs` is what it was loaded with. LAST_CALL_NONE: also without that file. */
enum last_call last_calls_find(struct last_calls *calls, const struct dso *dso, const char *symfs,
			       const struct symbol *function);

/* Whether a call ends where `code` ends. machine: EM_* of <elf.h>; false for those that are not known here. */
bool code_ends_with_call(uint16_t machine, const uint8_t *code, size_t len);
