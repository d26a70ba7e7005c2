/* SPDX-License-Identifier: MIT */
/* header_machine: the lines of header_text that describe the machine. Each appends them: 0, or -EBADMSG. */
#pragma once

#include "base/span.h"

struct buf;
struct session;

int header_print_nrcpus(struct session *session, struct span payload, struct buf *out);
int header_print_total_mem(struct session *session, struct span payload, struct buf *out);
int header_print_cpu_topology(struct session *session, struct span payload, struct buf *out);
int header_print_numa(struct session *session, struct span payload, struct buf *out);
int header_print_pmus(struct session *session, struct span payload, struct buf *out);
int header_print_caches(struct session *session, struct span payload, struct buf *out);
int header_print_memory(struct session *session, struct span payload, struct buf *out);
int header_print_cpu_pmu_caps(struct session *session, struct span payload, struct buf *out);
int header_print_hybrid(struct session *session, struct span payload, struct buf *out);
int header_print_pmu_caps(struct session *session, struct span payload, struct buf *out);
