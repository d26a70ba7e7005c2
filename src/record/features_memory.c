/* SPDX-License-Identifier: MIT */
/* The memory of this machine: TOTAL_MEM, NUMA_TOPOLOGY, MEM_TOPOLOGY. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "format/feature_memory.h"
#include "record/features_host.h"

#define NODES "/sys/devices/system/node"

enum { MEMORY_MAX_BLOCKS = 1 << 24 }; /* of a node; 2 PiB of the smallest blocks (128 MiB) */

int features_host_total_mem(struct buf *out)
{
	AUTO_FREE char *text = features_host_field("/proc/meminfo", "MemTotal");
	uint64_t kb;

	if (!text || sscanf(text, "%" SCNu64, &kb) != 1)
		return 0;
	buf_put_u64(out, kb);
	return 1;
}

/* A line of a node's meminfo is "Node 0 MemTotal:  123 kB". */
static uint64_t node_kb(int node, const char *what)
{
	char path[64], key[64];
	uint64_t kb = 0;

	snprintf(path, sizeof(path), NODES "/node%d/meminfo", node);
	snprintf(key, sizeof(key), "Node %d %s", node, what);
	AUTO_FREE char *text = features_host_field(path, key);
	if (text)
		sscanf(text, "%" SCNu64, &kb);
	return kb;
}

static int numa_encode(const struct cpuset *online, struct buf *out)
{
	buf_put_u32(out, cpuset_count(online));
	for (int node = cpuset_next(online, 0); node >= 0; node = cpuset_next(online, node + 1)) {
		AUTO_FREE char *cpus = features_host_text(NODES "/node%d/cpulist", node);
		if (!cpus)
			return 0;
		feature_put_numa(
			&(struct feature_numa_node){
				.node = (uint32_t)node,
				.total_kb = node_kb(node, "MemTotal"),
				.free_kb = node_kb(node, "MemFree"),
				.cpus = cpus,
			},
			out);
	}
	return 1;
}

int features_host_numa(struct buf *out)
{
	AUTO_FREE char *list = features_host_text(NODES "/online");
	struct cpuset online = {0}; /* of nodes: the same kind of list */
	int got = 0;

	if (list && cpuset_parse(&online, list) == 0 && cpuset_count(&online))
		got = numa_encode(&online, out);
	cpuset_fini(&online);
	return got;
}

static void cleanup_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* The number behind `prefix` in a name that is nothing else, or -1. */
static long name_number(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);
	char *end;

	if (strncmp(name, prefix, len) || name[len] < '0' || name[len] > '9')
		return -1;
	errno = 0;
	long number = strtol(name + len, &end, 10);
	return errno || *end ? -1 : number;
}

/* Sets the bit of every memoryN of the node; *bits grows as needed. 0, -errno. */
static int node_blocks(long node, struct buf *bits, uint64_t *ret_nr)
{
	char path[64];
	struct dirent *entry;

	*ret_nr = 1; /* as perf has it for a node without memory */
	buf_extend(bits, sizeof(uint64_t));
	snprintf(path, sizeof(path), NODES "/node%ld", node);
	__attribute__((cleanup(cleanup_dir))) DIR *dir = opendir(path);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		long block = name_number(entry->d_name, "memory");
		if (block < 0 || block >= MEMORY_MAX_BLOCKS)
			continue;
		uint64_t bytes = feature_memory_words((uint64_t)block + 1) * sizeof(uint64_t);
		if (bytes > bits->len)
			buf_extend(bits, bytes - bits->len);
		if (bits->failed)
			return -ENOMEM;
		uint64_t word;
		uint8_t *at = bits->data + block / 64 * 8;
		memcpy(&word, at, sizeof(word));
		word |= (uint64_t)1 << block % 64;
		memcpy(at, &word, sizeof(word));
		if ((uint64_t)block >= *ret_nr)
			*ret_nr = (uint64_t)block + 1;
	}
	return 0;
}

/* Numbers of the node directories, ascending. */
static int nodes_list(struct cpuset *ret)
{
	__attribute__((cleanup(cleanup_dir))) DIR *dir = opendir(NODES);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		long node = name_number(entry->d_name, "node");
		if (node >= 0 && node < CPUSET_MAX_CPUS && cpuset_add(ret, (unsigned)node))
			return -ENOMEM;
	}
	return 0;
}

static int memory_encode(const struct cpuset *nodes, uint64_t block_bytes, struct buf *out)
{
	feature_put_memory_begin(cpuset_count(nodes), block_bytes, out);
	for (int node = cpuset_next(nodes, 0); node >= 0; node = cpuset_next(nodes, node + 1)) {
		AUTO_BUF struct buf bits = {0};
		struct feature_memory_node entry = {.node = (uint64_t)node};
		int err = node_blocks(node, &bits, &entry.nr_blocks);
		if (err || bits.failed)
			return err == -ENOMEM || bits.failed ? -ENOMEM : 0;
		entry.bits = bits.data;
		feature_put_memory(&entry, out);
	}
	return 1;
}

int features_host_memory(struct buf *out)
{
	AUTO_FREE char *text = features_host_text("/sys/devices/system/memory/block_size_bytes");
	struct cpuset nodes = {0};
	uint64_t block_bytes;

	if (!text || sscanf(text, "%" SCNx64, &block_bytes) != 1)
		return 0;
	int got = nodes_list(&nodes);
	if (!got && cpuset_count(&nodes))
		got = memory_encode(&nodes, block_bytes, out);
	cpuset_fini(&nodes);
	return got;
}
