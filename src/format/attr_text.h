/* SPDX-License-Identifier: MIT */
/* attr_text: a perf_event_attr as words, in the order and spelling of `perf evlist -v`. */
#pragma once

struct buf;
struct perf_event_attr;

/*
 * Appends "type: 1, size: 128, config: 0x3, …": the fields that are not zero. `is` stands between name and
 * value (": " there, " = " in the header of a report).
 */
void attr_text(const struct perf_event_attr *attr, const char *is, struct buf *out);
