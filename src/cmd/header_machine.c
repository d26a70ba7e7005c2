/* SPDX-License-Identifier: MIT */
#include "cmd/header_machine.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "format/feature_cpu.h"
#include "format/feature_memory.h"
#include "format/feature_pmu.h"
#include "read/session.h"

int header_print_nrcpus(struct session *session, struct span payload, struct buf *out)
{
	struct feature_nrcpus nr;
	int err = feature_decode_nrcpus(payload, &nr);

	(void)session;
	if (!err)
		buf_printf(out, "# nrcpus online : %u\n# nrcpus avail : %u\n", nr.online, nr.available);
	return err;
}

int header_print_total_mem(struct session *session, struct span payload, struct buf *out)
{
	uint64_t kb;
	int err = feature_decode_u64(payload, &kb);

	(void)session;
	if (!err)
		buf_printf(out, "# total memory : %" PRIu64 " kB\n", kb);
	return err;
}

static void put_siblings(const char *label, struct feature_list list, struct buf *out)
{
	const char *cpus;

	while (feature_list_string(&list, &cpus) > 0)
		buf_printf(out, "# sibling %s : %s\n", label, cpus);
}

/* Machines whose firmware numbers packages as it likes. */
static bool packages_are_free(struct session *session)
{
	struct span payload;
	const char *arch;

	if (!session_feature(session, FEATURE_ARCH, &payload) || feature_decode_string(payload, &arch))
		return false;
	return !strncmp(arch, "s390", 4) || !strncmp(arch, "aarch64", 7);
}

/* Elsewhere a package whose number exceeds that of the CPUs shows that the ids are none. */
static bool ids_are_sound(struct session *session, const struct feature_cpu_topology *topology)
{
	if (!topology->has_ids || packages_are_free(session))
		return topology->has_ids;
	for (uint32_t cpu = 0; cpu < topology->nr_cpus; cpu++) {
		struct feature_cpu_ids ids;
		feature_cpu_topology_ids(topology, cpu, &ids);
		if (ids.package != FEATURE_CPU_UNKNOWN_ID && ids.package > topology->nr_cpus)
			return false;
	}
	return true;
}

static void put_cpu_ids(const struct feature_cpu_topology *topology, bool dies, struct buf *out)
{
	for (uint32_t cpu = 0; cpu < topology->nr_cpus; cpu++) {
		struct feature_cpu_ids ids;
		feature_cpu_topology_ids(topology, cpu, &ids);
		buf_printf(out, "# CPU %u: Core ID %d, ", cpu, (int)ids.core);
		if (dies)
			buf_printf(out, "Die ID %d, ", (int)ids.die);
		buf_printf(out, "Socket ID %d\n", (int)ids.package);
	}
}

int header_print_cpu_topology(struct session *session, struct span payload, struct buf *out)
{
	struct feature_cpu_topology topology;
	struct feature_nrcpus nr = {0};
	struct span nrcpus;

	if (session_feature(session, FEATURE_NRCPUS, &nrcpus) && feature_decode_nrcpus(nrcpus, &nr))
		return -EBADMSG;
	int err = feature_decode_cpu_topology(payload, nr.available, &topology);
	if (err)
		return err;
	bool sound = ids_are_sound(session, &topology);
	bool dies = sound && topology.dies.left;
	put_siblings("sockets", topology.packages, out);
	if (dies)
		put_siblings("dies   ", topology.dies, out);
	put_siblings("threads", topology.cores, out);
	if (sound && (!dies || topology.has_die_ids))
		put_cpu_ids(&topology, dies, out);
	else
		buf_printf(out, "# Core ID%s and Socket ID information is not available\n",
			   dies ? ", Die ID" : "");
	return 0;
}

int header_print_numa(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_numa_node node;
	int got = feature_list_open(payload, &list);

	(void)session;
	if (got)
		return got;
	while ((got = feature_list_numa(&list, &node)) > 0) {
		buf_printf(out, "# node%u meminfo  : total = %" PRIu64 " kB, free = %" PRIu64 " kB\n",
			   node.node, node.total_kb, node.free_kb);
		/* A node of memory alone; perf's word for no CPUs. */
		buf_printf(out, "# node%u cpu list : %s\n", node.node, *node.cpus ? node.cpus : "-1");
	}
	return got;
}

int header_print_pmus(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_pmu pmu;
	const char *before = "# pmu mappings: ";
	int got = feature_list_open(payload, &list);

	(void)session;
	if (got)
		return got;
	while ((got = feature_list_pmu(&list, &pmu)) > 0) {
		buf_printf(out, "%s%s = %u", before, pmu.name, pmu.type);
		before = ", ";
	}
	buf_put_text(out, *before == '#' ? "# pmu mappings: not available\n" : "\n");
	return got;
}

int header_print_caches(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_cache cache;
	int got = feature_caches_open(payload, &list);

	(void)session;
	if (got)
		return got;
	buf_put_text(out, "# CPU cache info:\n");
	while ((got = feature_list_cache(&list, &cache)) > 0)
		buf_printf(out, "#  L%u %-15s %8s [%s]\n", cache.level, cache.type, cache.size, cache.cpus);
	return got;
}

static uint64_t count_blocks(const struct feature_memory_node *node)
{
	uint64_t nr = 0;

	for (uint64_t block = 0; block < node->nr_blocks; block++)
		nr += feature_memory_has(node, block);
	return nr;
}

/* "0-23,32" */
static void put_blocks(const struct feature_memory_node *node, struct buf *out)
{
	const char *before = "";

	for (uint64_t block = 0; block < node->nr_blocks; block++) {
		if (!feature_memory_has(node, block))
			continue;
		uint64_t first = block;
		while (block + 1 < node->nr_blocks && feature_memory_has(node, block + 1))
			block++;
		buf_printf(out, "%s%" PRIu64, before, first);
		if (block != first)
			buf_printf(out, "-%" PRIu64, block);
		before = ",";
	}
}

/* perf keeps four digits: it changes to the next unit only when two of it are there. */
static void put_bytes(uint64_t bytes, struct buf *out)
{
	static const char units[] = "BKMG";
	unsigned unit = 0;

	while (bytes / 1024 > 1 && unit < 3) {
		bytes /= 1024;
		unit++;
	}
	buf_printf(out, "%" PRIu64 "%c", bytes, units[unit]);
}

int header_print_memory(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_memory_node node;
	uint64_t block_bytes;
	int got = feature_memory_open(payload, &list, &block_bytes);

	(void)session;
	if (got)
		return got;
	buf_printf(out, "# memory nodes (nr %" PRIu64 ", block size 0x%" PRIx64 "):\n", list.left,
		   block_bytes);
	while ((got = feature_list_memory(&list, &node)) > 0) {
		buf_printf(out, "#  %3" PRIu64 " [", node.node);
		put_bytes(block_bytes * count_blocks(&node), out);
		buf_put_text(out, "]: ");
		put_blocks(&node, out);
		buf_put_text(out, "\n");
	}
	return got;
}

static int put_caps(const char *pmu, struct feature_list *pairs, struct buf *out)
{
	struct feature_pair pair;
	const char *between = "";
	int got;

	buf_printf(out, "# %s pmu capabilities: ", pmu);
	while ((got = feature_list_pair(pairs, &pair)) > 0) {
		buf_printf(out, "%s%s=%s", between, pair.name, pair.value);
		between = ", ";
	}
	buf_put_text(out, *between ? "\n" : "not available\n");
	return got;
}

int header_print_cpu_pmu_caps(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list pairs;
	int err = feature_list_open(payload, &pairs);

	(void)session;
	return err ? err : put_caps("cpu", &pairs, out);
}

int header_print_hybrid(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_pair pair;
	int got = feature_list_open(payload, &list);

	(void)session;
	if (got)
		return got;
	buf_put_text(out, "# hybrid cpu system:\n");
	while ((got = feature_list_pair(&list, &pair)) > 0)
		buf_printf(out, "# %s cpu list : %s\n", pair.name, pair.value);
	return got;
}

int header_print_pmu_caps(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_pmu_caps caps;
	int got = feature_list_open(payload, &list);

	(void)session;
	if (got)
		return got;
	while ((got = feature_list_pmu_caps(&list, &caps)) > 0) {
		int err = put_caps(caps.pmu, &caps.pairs, out);
		if (err)
			return err;
	}
	return got;
}
