/* SPDX-License-Identifier: MIT */
/*
 * features_private: the machine as payloads of features.
 *
 * Each features_host_*() appends one payload: 1, or 0 when the machine does not tell (what was appended is
 * void then), or -ENOMEM. Source of what is read, and in which order: what perf 6.1 opens while it writes
 * its header.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;
struct diag;

int features_host_cpudesc(struct buf *out);
int features_host_cpuid(struct buf *out);
int features_host_nrcpus(struct buf *out);
int features_host_cpu_topology(struct buf *out);
int features_host_caches(struct buf *out);

int features_host_total_mem(struct buf *out);
int features_host_numa(struct buf *out);
int features_host_memory(struct buf *out);

int features_host_pmus(struct buf *out);
int features_host_cpu_pmu_caps(struct buf *out);
int features_host_hybrid(struct buf *out);
int features_host_pmu_caps(struct buf *out);

/* The text of a short file without the white space at its end, for the caller to free. NULL: not readable. */
char *features_host_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The number in a one-line file, or `otherwise`. */
uint32_t features_host_u32(uint32_t otherwise, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * A directory of sysfs, a descriptor of O_PATH; negative: not there. What it has is opened from there: in sysfs each
 * part of a path costs.
 */
int features_host_directory(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *features_host_text_at(int dir_fd, const char *name);
uint32_t features_host_u32_at(uint32_t otherwise, int dir_fd, const char *name);

/*
 * The texts after "KEY<blanks>: " in a file of such lines, for the caller to free. NULL: not there. The file is read
 * once, up to where all are found.
 */
void features_host_fields(const char *path, const char *const keys[], size_t nr, char *ret[]);

/* As tracing_data_collect(), from the tracefs at `root`. Appends to `out`; on error what was appended is void. */
int tracing_data_read(const char *root, const char *const *tracepoints, size_t nr, struct buf *out,
		      struct diag *reterr);
