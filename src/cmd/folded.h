/* SPDX-License-Identifier: MIT */
/* folded: call chains as lines "comm;outermost;…;innermost COUNT", as flamegraph.pl and speedscope read them. */
#pragma once

#include <stddef.h>

struct output;
struct samples;

/* Of the event with that index: all samples that are not filtered, in the order in which their chains first came. */
void folded_print(const struct samples *samples, size_t event, struct output *out);
