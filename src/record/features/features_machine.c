/* SPDX-License-Identifier: MIT */
/* features_machine: CPUs (NRCPUS, CPUDESC, CPUID, CPU_TOPOLOGY, CACHE), memory and PMUs of this machine. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "perfdata/feature_machine.h"
#include "record/features/features_private.h"

enum { CACHE_MAX_INDEX = 10 }; /* cache/index0 … of a CPU */

/* CPUs of the machine: the highest that is present, and one. */
static uint32_t nr_present_cpus(void)
{
	AUTO_FREE char *list = features_host_text("/sys/devices/system/cpu/present");
	struct cpuset present = {0};
	uint32_t nr = 0;

	if (!list || cpuset_parse(&present, list)) {
		cpuset_fini(&present);
		cpuset_possible(&present);
	}
	for (int cpu = cpuset_next(&present, 0); cpu >= 0; cpu = cpuset_next(&present, cpu + 1))
		nr = (uint32_t)cpu + 1;
	cpuset_fini(&present);
	return nr;
}

int features_host_nrcpus(struct buf *out)
{
	struct feature_nrcpus nr = {.available = nr_present_cpus()};
	struct cpuset online = {0};

	if (cpuset_online(&online) == 0)
		nr.online = cpuset_count(&online);
	cpuset_fini(&online);
	feature_encode_nrcpus(&nr, out);
	return nr.available && nr.online;
}

/* Runs of white space become one blank. */
static void squeeze(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		if (isspace((unsigned char)*from) && isspace((unsigned char)from[1]))
			continue;
		*to++ = *from;
	}
	*to = '\0';
}

int features_host_cpudesc(struct buf *out)
{
	/* What architectures call it in /proc/cpuinfo. */
	static const char *const keys[] = {"model name", "Processor", "cpu model", "cpu", "uarch"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		char *text;
		features_host_fields("/proc/cpuinfo", &keys[i], 1, &text);
		if (!text)
			continue;
		squeeze(text);
		feature_put_string(out, text);
		free(text);
		return 1;
	}
	return 0;
}

/* x86 only: "vendor,family,model,stepping". */
int features_host_cpuid(struct buf *out)
{
	static const char *const keys[] = {"vendor_id", "cpu family", "model", "stepping"};
	enum { NR_KEYS = sizeof(keys) / sizeof(keys[0]) };
	AUTO_BUF struct buf text = {0};
	char *values[NR_KEYS];
	bool has_all = true;

	features_host_fields("/proc/cpuinfo", keys, NR_KEYS, values);
	for (size_t i = 0; i < NR_KEYS; i++) {
		has_all = has_all && values[i];
		buf_printf(&text, "%s%s", i ? "," : "", values[i] ? values[i] : "");
		free(values[i]);
	}
	if (has_all)
		feature_put_string(out, buf_text(&text));
	return has_all;
}

/* Texts that are each there once. */
struct texts {
	char **at;
	uint32_t nr;
};

static void texts_fini(struct texts *texts)
{
	for (uint32_t i = 0; i < texts->nr; i++)
		free(texts->at[i]);
	free(texts->at);
}

/* Takes `text` over; NULL is fine. */
static int texts_add(struct texts *texts, char *text)
{
	if (!text)
		return 0;
	for (uint32_t i = 0; i < texts->nr; i++) {
		if (!strcmp(texts->at[i], text)) {
			free(text);
			return 0;
		}
	}
	char **grown = reallocarray(texts->at, texts->nr + 1, sizeof(*grown));
	if (!grown) {
		free(text);
		return -ENOMEM;
	}
	texts->at = grown;
	grown[texts->nr++] = text;
	return 0;
}

struct topology {
	struct texts packages, cores, dies;
	struct feature_cpu_ids *ids;
};

static void topology_fini(struct topology *topology)
{
	texts_fini(&topology->packages);
	texts_fini(&topology->cores);
	texts_fini(&topology->dies);
	free(topology->ids);
}

/*
 * The names of these files changed in Linux 5.3 (2e4c54dac7b3, "topology: Create core_cpus and die_cpus
 * sysfs attributes").
 */
static char *group_text(int dir_fd, const char *name, const char *old_name)
{
	char *text = features_host_text_at(dir_fd, name);

	return text ? text : features_host_text_at(dir_fd, old_name);
}

/* An offline CPU has no topology/ and adds nothing. */
static int topology_add_cpu(struct topology *topology, uint32_t cpu)
{
	AUTO_FD int dir_fd = features_host_directory("/sys/devices/system/cpu/cpu%u/topology", cpu);

	topology->ids[cpu] = (struct feature_cpu_ids){
		.core = features_host_u32_at(FEATURE_CPU_UNKNOWN_ID, dir_fd, "core_id"),
		.package = features_host_u32_at(FEATURE_CPU_UNKNOWN_ID, dir_fd, "physical_package_id"),
		.die = features_host_u32_at(FEATURE_CPU_UNKNOWN_ID, dir_fd, "die_id"),
	};
	if (texts_add(&topology->packages, group_text(dir_fd, "package_cpus_list", "core_siblings_list")) ||
	    texts_add(&topology->dies, features_host_text_at(dir_fd, "die_cpus_list")) ||
	    texts_add(&topology->cores, group_text(dir_fd, "core_cpus_list", "thread_siblings_list")))
		return -ENOMEM;
	return 0;
}

int features_host_cpu_topology(struct buf *out)
{
	uint32_t nr = nr_present_cpus();
	struct topology __attribute__((cleanup(topology_fini))) topology = {0};

	topology.ids = calloc(nr ? nr : 1, sizeof(*topology.ids));
	if (!topology.ids)
		return -ENOMEM;
	for (uint32_t cpu = 0; cpu < nr; cpu++)
		if (topology_add_cpu(&topology, cpu))
			return -ENOMEM;
	if (!topology.packages.nr || !topology.cores.nr)
		return 0;

	struct feature_cpu_groups groups = {
		.packages = (const char *const *)topology.packages.at,
		.cores = (const char *const *)topology.cores.at,
		.dies = (const char *const *)topology.dies.at,
		.nr_packages = topology.packages.nr,
		.nr_cores = topology.cores.nr,
		.nr_dies = topology.dies.nr,
	};
	feature_encode_cpu_topology(&groups, topology.ids, nr, out);
	return 1;
}

/* Caches, each once, ordered by level and then by first CPU. Owns the texts. */
struct caches {
	struct feature_cache *at;
	uint32_t nr;
};

static void cache_fini(struct feature_cache *cache)
{
	free((char *)(uintptr_t)cache->type);
	free((char *)(uintptr_t)cache->size);
	free((char *)(uintptr_t)cache->cpus);
}

static void caches_fini(struct caches *caches)
{
	for (uint32_t i = 0; i < caches->nr; i++)
		cache_fini(&caches->at[i]);
	free(caches->at);
}

static bool cache_equal(const struct feature_cache *a, const struct feature_cache *b)
{
	return a->level == b->level && a->line_bytes == b->line_bytes && a->sets == b->sets && a->ways == b->ways &&
	       !strcmp(a->type, b->type) && !strcmp(a->size, b->size) && !strcmp(a->cpus, b->cpus);
}

/* Takes the texts over, also on error. */
static int caches_add(struct caches *caches, struct feature_cache *cache)
{
	uint32_t place = caches->nr;

	for (uint32_t i = 0; i < caches->nr; i++) {
		if (cache_equal(&caches->at[i], cache)) {
			cache_fini(cache);
			return 0;
		}
	}
	struct feature_cache *grown = reallocarray(caches->at, caches->nr + 1, sizeof(*grown));
	if (!grown) {
		cache_fini(cache);
		return -ENOMEM;
	}
	caches->at = grown;
	while (place && grown[place - 1].level > cache->level)
		place--;
	memmove(grown + place + 1, grown + place, (caches->nr - place) * sizeof(*grown));
	grown[place] = *cache;
	caches->nr++;
	return 0;
}

/* 1 added (or known), 0 no such cache, -ENOMEM. */
static int caches_add_index(struct caches *caches, uint32_t cpu, unsigned index)
{
	AUTO_FD int dir_fd = features_host_directory("/sys/devices/system/cpu/cpu%u/cache/index%u", cpu, index);

	if (dir_fd < 0)
		return 0;
	struct feature_cache cache = {
		.level = features_host_u32_at(0, dir_fd, "level"),
		.line_bytes = features_host_u32_at(0, dir_fd, "coherency_line_size"),
		.sets = features_host_u32_at(0, dir_fd, "number_of_sets"),
		.ways = features_host_u32_at(0, dir_fd, "ways_of_associativity"),
		.type = features_host_text_at(dir_fd, "type"),
		.size = features_host_text_at(dir_fd, "size"),
		.cpus = features_host_text_at(dir_fd, "shared_cpu_list"),
	};

	if (!cache.type || !cache.size || !cache.cpus) {
		cache_fini(&cache);
		return 0;
	}
	return caches_add(caches, &cache) ? -ENOMEM : 1;
}

int features_host_caches(struct buf *out)
{
	struct caches __attribute__((cleanup(caches_fini))) caches = {0};
	uint32_t nr_cpus = nr_present_cpus();

	for (uint32_t cpu = 0; cpu < nr_cpus; cpu++) {
		for (unsigned index = 0; index < CACHE_MAX_INDEX; index++) {
			int got = caches_add_index(&caches, cpu, index);
			if (got < 0)
				return got;
			if (!got)
				break;
		}
	}
	feature_encode_caches(caches.at, caches.nr, out);
	return caches.nr > 0;
}

/* The memory of this machine: TOTAL_MEM, NUMA_TOPOLOGY, MEM_TOPOLOGY. */

#define NODES "/sys/devices/system/node"

enum { MEMORY_MAX_BLOCKS = 1 << 24 }; /* of a node; 2 PiB of the smallest blocks (128 MiB) */

int features_host_total_mem(struct buf *out)
{
	static const char *const key = "MemTotal";
	char *found;
	uint64_t kb;

	features_host_fields("/proc/meminfo", &key, 1, &found);
	AUTO_FREE char *text = found;
	if (!text || sscanf(text, "%" SCNu64, &kb) != 1)
		return 0;
	buf_put_u64(out, kb);
	return 1;
}

/* Lines of a node's meminfo are "Node 0 MemTotal:  123 kB". What is not known stays 0. */
static void node_memory(int node, struct feature_numa_node *ret)
{
	enum { TOTAL, FREE, NR_KEYS };
	char path[64], total[64], unused[64], *values[NR_KEYS];
	const char *const keys[NR_KEYS] = {[TOTAL] = total, [FREE] = unused};

	snprintf(path, sizeof(path), NODES "/node%d/meminfo", node);
	snprintf(total, sizeof(total), "Node %d MemTotal", node);
	snprintf(unused, sizeof(unused), "Node %d MemFree", node);
	features_host_fields(path, keys, NR_KEYS, values);
	if (values[TOTAL])
		sscanf(values[TOTAL], "%" SCNu64, &ret->total_kb);
	if (values[FREE])
		sscanf(values[FREE], "%" SCNu64, &ret->free_kb);
	free(values[TOTAL]);
	free(values[FREE]);
}

static int numa_encode(const struct cpuset *online, struct buf *out)
{
	buf_put_u32(out, cpuset_count(online));
	for (int node = cpuset_next(online, 0); node >= 0; node = cpuset_next(online, node + 1)) {
		AUTO_FREE char *cpus = features_host_text(NODES "/node%d/cpulist", node);
		if (!cpus)
			return 0;
		struct feature_numa_node entry = {.node = (uint32_t)node, .cpus = cpus};
		node_memory(node, &entry);
		feature_put_numa(&entry, out);
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
	AUTO_DIR DIR *dir = opendir(path);
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
	AUTO_DIR DIR *dir = opendir(NODES);
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

/* The PMUs of this machine: PMU_MAPPINGS, CPU_PMU_CAPS, HYBRID_TOPOLOGY, PMU_CAPS. */

#define PMUS "/sys/bus/event_source/devices"

/* The next entry that is not hidden, in the order of the directory, as perf has them. NULL: the end. */
static const char *next_name(DIR *dir)
{
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			return entry->d_name;
	return NULL;
}

/* Puts a count in the place that was left for it at `at`. */
static void set_count(struct buf *out, size_t at, uint32_t nr)
{
	if (!out->failed)
		memcpy(out->data + at, &nr, sizeof(nr));
}

int features_host_pmus(struct buf *out)
{
	AUTO_DIR DIR *dir = opendir(PMUS);
	size_t count_at = out->len;
	uint32_t nr = 0;

	buf_put_u32(out, 0);
	for (const char *name; (name = next_name(dir));) {
		uint32_t type = features_host_u32(UINT32_MAX, PMUS "/%s/type", name);
		if (type == UINT32_MAX)
			continue;
		feature_put_pmu(&(struct feature_pmu){.type = type, .name = name}, out);
		nr++;
	}
	set_count(out, count_at, nr);
	return nr > 0;
}

/* Appends the list of what a PMU can; returns how many pairs it has. */
static uint32_t put_caps(const char *pmu, struct buf *out)
{
	char path[512];
	size_t count_at = out->len;
	uint32_t nr = 0;

	snprintf(path, sizeof(path), PMUS "/%s/caps", pmu);
	AUTO_DIR DIR *dir = opendir(path);
	buf_put_u32(out, 0);
	for (const char *name; (name = next_name(dir));) {
		AUTO_FREE char *value = features_host_text("%s/%s", path, name);
		if (!value)
			continue;
		feature_put_pair(&(struct feature_pair){.name = name, .value = value}, out);
		nr++;
	}
	set_count(out, count_at, nr);
	return nr;
}

int features_host_cpu_pmu_caps(struct buf *out)
{
	return put_caps("cpu", out) > 0;
}

/* A core PMU of a machine with several kinds of cores: "cpu_core", "cpu_atom". */
static bool pmu_is_hybrid(const char *name)
{
	return !strncmp(name, "cpu_", 4);
}

int features_host_hybrid(struct buf *out)
{
	AUTO_DIR DIR *dir = opendir(PMUS);
	size_t count_at = out->len;
	uint32_t nr = 0;

	buf_put_u32(out, 0);
	for (const char *name; (name = next_name(dir));) {
		if (!pmu_is_hybrid(name))
			continue;
		AUTO_FREE char *cpus = features_host_text(PMUS "/%s/cpus", name);
		if (!cpus)
			continue;
		feature_put_pair(&(struct feature_pair){.name = name, .value = cpus}, out);
		nr++;
	}
	set_count(out, count_at, nr);
	return nr > 0;
}

/* Hybrid PMUs first, as in perf, whose older readers knew only those. */
int features_host_pmu_caps(struct buf *out)
{
	AUTO_DIR DIR *dir = opendir(PMUS);
	AUTO_BUF struct buf others = {0};
	size_t count_at = out->len;
	uint32_t nr = 0;

	buf_put_u32(out, 0);
	for (const char *name; (name = next_name(dir));) {
		if (!strcmp(name, "cpu"))
			continue;
		struct buf *to = pmu_is_hybrid(name) ? out : &others;
		size_t start = to->len;
		if (!put_caps(name, to)) {
			to->len = start;
			continue;
		}
		feature_put_string(to, name);
		nr++;
	}
	buf_put(out, others.data, others.len);
	set_count(out, count_at, nr);
	return others.failed ? -ENOMEM : 1;
}
