/* SPDX-License-Identifier: MIT */
/* sample_fields: what options that name one field of a sample add to an attr. Private to this room. */
#pragma once

struct event_options;
struct perf_event_attr;

void sample_fields_set(struct perf_event_attr *attr, const struct event_options *options);
