/* SPDX-License-Identifier: MIT */
/*
 * feature_machine: the header features about CPUs, memory and PMUs: NRCPUS, CPU_TOPOLOGY, CACHE; NUMA_TOPOLOGY,
 * MEM_TOPOLOGY; PMU_MAPPINGS, CPU_PMU_CAPS, PMU_CAPS, HYBRID_TOPOLOGY. Decoded texts point into the payload.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "perfdata/feature.h"

struct feature_nrcpus {
	uint32_t available; /* number of the highest CPU that is present, plus 1 */
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
	uint32_t nr_cpus;                          /* as given to feature_decode_cpu_topology() */
	bool has_ids, has_die_ids;                 /* for each CPU */
	const uint8_t *ids, *die_ids;              /* private */
};

/* nr_cpus: NRCPUS.available of the same file. Old files have no ids, or none of dies: that is no error. */
int feature_decode_cpu_topology(struct span payload, uint32_t nr_cpus, struct feature_cpu_topology *ret);

/* cpu < nr_cpus; has_ids. die is FEATURE_CPU_UNKNOWN_ID without has_die_ids. */
void feature_cpu_topology_ids(const struct feature_cpu_topology *topology, uint32_t cpu, struct feature_cpu_ids *ret);

struct feature_cache {
	uint32_t level, line_bytes, sets, ways;
	const char *type, *size, *cpus; /* "Unified", "1024K", "0-3" */
};
void feature_encode_caches(const struct feature_cache *caches, uint32_t nr, struct buf *out);

/* A list with a version before it. -EBADMSG also for a version that is not 1. */
int feature_caches_open(struct span payload, struct feature_list *ret);
int feature_list_cache(struct feature_list *list, struct feature_cache *ret);

/* NUMA_TOPOLOGY: a list; encoded as the u32 count and then that many entries. */
struct feature_numa_node {
	uint32_t node;
	uint64_t total_kb, free_kb;
	const char *cpus; /* "0-3" */
};
void feature_put_numa(const struct feature_numa_node *node, struct buf *out);
int feature_list_numa(struct feature_list *list, struct feature_numa_node *ret);

/* MEM_TOPOLOGY: which blocks of physical memory belong to which node. */
struct feature_memory_node {
	uint64_t node;
	uint64_t nr_blocks;  /* number of the highest block of the node, plus 1 */
	const uint8_t *bits; /* one bit for each block: u64 words in native byte order, unaligned */
};

/* Words of `bits` that nr_blocks take. */
static inline uint64_t feature_memory_words(uint64_t nr_blocks)
{
	return nr_blocks / 64 + (nr_blocks % 64 != 0);
}

/* block < nr_blocks. */
bool feature_memory_has(const struct feature_memory_node *node, uint64_t block);

/* Appends the start of the payload; the caller appends `nr` nodes behind it. */
void feature_put_memory_begin(uint64_t nr, uint64_t block_bytes, struct buf *out);
void feature_put_memory(const struct feature_memory_node *node, struct buf *out);

/* A list with version and block size before it. -EBADMSG also for a version that is not 1. */
int feature_memory_open(struct span payload, struct feature_list *ret, uint64_t *ret_block_bytes);
int feature_list_memory(struct feature_list *list, struct feature_memory_node *ret);

/*
 * The sections of PMUs are lists; encoded as the u32 count and then that many entries. PMU_MAPPINGS: attr.type and
 * name.
 */
struct feature_pmu {
	uint32_t type;
	const char *name;
};
void feature_put_pmu(const struct feature_pmu *pmu, struct buf *out);
int feature_list_pmu(struct feature_list *list, struct feature_pmu *ret);

/* CPU_PMU_CAPS: the capabilities of the PMU "cpu". HYBRID_TOPOLOGY has the same layout: name of the PMU and its CPUs.
 */
struct feature_pair {
	const char *name, *value;
};
void feature_put_pair(const struct feature_pair *pair, struct buf *out);
int feature_list_pair(struct feature_list *list, struct feature_pair *ret);

/* PMU_CAPS: the capabilities of the other PMUs. An entry is encoded as a list of pairs, then the PMU's name as a
 * string. */
struct feature_pmu_caps {
	struct feature_list pairs; /* checked already */
	const char *pmu;
};
int feature_list_pmu_caps(struct feature_list *list, struct feature_pmu_caps *ret);
