/* SPDX-License-Identifier: MIT */
/* The CPUs of this machine: NRCPUS, CPUDESC, CPUID, CPU_TOPOLOGY, CACHE. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "format/feature_cpu.h"
#include "record/features_host.h"

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
		AUTO_FREE char *text = features_host_field("/proc/cpuinfo", keys[i]);
		if (!text)
			continue;
		squeeze(text);
		feature_put_string(out, text);
		return 1;
	}
	return 0;
}

/* x86 only: "vendor,family,model,stepping". */
int features_host_cpuid(struct buf *out)
{
	AUTO_FREE char *vendor = features_host_field("/proc/cpuinfo", "vendor_id");
	AUTO_FREE char *family = features_host_field("/proc/cpuinfo", "cpu family");
	AUTO_FREE char *model = features_host_field("/proc/cpuinfo", "model");
	AUTO_FREE char *stepping = features_host_field("/proc/cpuinfo", "stepping");
	AUTO_BUF struct buf text = {0};

	if (!vendor || !family || !model || !stepping)
		return 0;
	buf_printf(&text, "%s,%s,%s,%s", vendor, family, model, stepping);
	feature_put_string(out, buf_text(&text));
	return 1;
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
static char *group_text(int cpu, const char *name, const char *old_name)
{
	char *text = features_host_text("/sys/devices/system/cpu/cpu%d/topology/%s", cpu, name);

	return text ? text : features_host_text("/sys/devices/system/cpu/cpu%d/topology/%s", cpu, old_name);
}

/* An offline CPU has no topology/ and adds nothing. */
static int topology_add_cpu(struct topology *topology, uint32_t cpu)
{
	static const char ids[] = "/sys/devices/system/cpu/cpu%u/topology/%s";

	topology->ids[cpu] = (struct feature_cpu_ids){
		.core = features_host_u32(FEATURE_CPU_UNKNOWN_ID, ids, cpu, "core_id"),
		.package = features_host_u32(FEATURE_CPU_UNKNOWN_ID, ids, cpu, "physical_package_id"),
		.die = features_host_u32(FEATURE_CPU_UNKNOWN_ID, ids, cpu, "die_id"),
	};
	if (texts_add(&topology->packages, group_text((int)cpu, "package_cpus_list", "core_siblings_list")) ||
	    texts_add(&topology->dies, features_host_text(ids, cpu, "die_cpus_list")) ||
	    texts_add(&topology->cores, group_text((int)cpu, "core_cpus_list", "thread_siblings_list")))
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
	return a->level == b->level && a->line_bytes == b->line_bytes && a->sets == b->sets &&
	       a->ways == b->ways && !strcmp(a->type, b->type) && !strcmp(a->size, b->size) &&
	       !strcmp(a->cpus, b->cpus);
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
	static const char file[] = "/sys/devices/system/cpu/cpu%u/cache/index%u/%s";
	struct feature_cache cache = {
		.level = features_host_u32(0, file, cpu, index, "level"),
		.line_bytes = features_host_u32(0, file, cpu, index, "coherency_line_size"),
		.sets = features_host_u32(0, file, cpu, index, "number_of_sets"),
		.ways = features_host_u32(0, file, cpu, index, "ways_of_associativity"),
		.type = features_host_text(file, cpu, index, "type"),
		.size = features_host_text(file, cpu, index, "size"),
		.cpus = features_host_text(file, cpu, index, "shared_cpu_list"),
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
