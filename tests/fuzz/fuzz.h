/* SPDX-License-Identifier: MIT */
/*
 * fuzz: what a fuzz target has: its input, and seeds made by code. Findings are kept as files in corpus/NAME/, so that
 * the replay finds them again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* libFuzzer's name. Must come back, whatever the bytes are. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Appends a good input. false: there are no more (number counts from 0). */
bool fuzz_seed(unsigned number, struct buf *out);
