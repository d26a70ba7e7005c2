/* SPDX-License-Identifier: MIT */
/*
 * feature_cpu: what the header tells of the CPUs: NRCPUS, CPU_TOPOLOGY, CACHE. Texts point into the
 * payload.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "format/feature.h"

struct feature_nrcpus {
	uint32_t available; /* highest CPU that is present, and one */
	uint32_t online;
};
void feature_encode_nrcpus(const struct feature_nrcpus *nr, struct buf *out);
int feature_decode_nrcpus(struct span payload, struct feature_nrcpus *ret);

enum { FEATURE_CPU_UNKNOWN_ID = UINT32_MAX }; /* of a CPU that is offline */

struct feature_cpu_ids {
	uint32_t core, package, die;
};

/* Groups of CPUs as lists ("0-3"), each once, in the order of their first CPU. */
struct feature_cpu_groups {
	const char *const *packages, *const *cores, *const *dies;
	uint32_t nr_packages, nr_cores, nr_dies; /* nr_dies 0: dies are left out, from the ids too */
};

/* `ids` has NRCPUS.available entries. */
void feature_encode_cpu_topology(const struct feature_cpu_groups *groups, const struct feature_cpu_ids *ids,
				 uint32_t nr_cpus, struct buf *out);

struct feature_cpu_topology {
	struct feature_list packages, cores, dies; /* of strings; all checked already */
	uint32_t nr_cpus;                          /* as given */
	bool has_ids, has_die_ids;                 /* for each CPU */
	const uint8_t *ids, *die_ids;              /* private */
};

/* nr_cpus: NRCPUS.available of the same file. Old files have no ids, or none of dies: that is no error. */
int feature_decode_cpu_topology(struct span payload, uint32_t nr_cpus, struct feature_cpu_topology *ret);

/* cpu < nr_cpus; has_ids. die is FEATURE_CPU_UNKNOWN_ID without has_die_ids. */
void feature_cpu_topology_ids(const struct feature_cpu_topology *topology, uint32_t cpu,
			      struct feature_cpu_ids *ret);

struct feature_cache {
	uint32_t level, line_bytes, sets, ways;
	const char *type, *size, *cpus; /* "Unified", "1024K", "0-3" */
};
void feature_encode_caches(const struct feature_cache *caches, uint32_t nr, struct buf *out);

/* A list with a version before it. -EBADMSG also for a version that is not 1. */
int feature_caches_open(struct span payload, struct feature_list *ret);
int feature_list_cache(struct feature_list *list, struct feature_cache *ret);
