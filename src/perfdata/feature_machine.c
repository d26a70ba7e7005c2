/* SPDX-License-Identifier: MIT */
#include "perfdata/feature_machine.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"

enum { CACHE_VERSION = 1 };

void feature_encode_nrcpus(const struct feature_nrcpus *nr, struct buf *out)
{
	buf_put_u32(out, nr->available);
	buf_put_u32(out, nr->online);
}

int feature_decode_nrcpus(struct span payload, struct feature_nrcpus *ret)
{
	struct cursor at = cursor_over(payload);
	struct feature_nrcpus nr;

	nr.available = cursor_u32(&at);
	nr.online = cursor_u32(&at);
	if (at.bad)
		return -EBADMSG;
	*ret = nr;
	return 0;
}

static void put_strings(const char *const *texts, uint32_t nr, struct buf *out)
{
	buf_put_u32(out, nr);
	for (uint32_t i = 0; i < nr; i++)
		feature_put_string(out, texts[i]);
}

void feature_encode_cpu_topology(const struct feature_cpu_groups *groups, const struct feature_cpu_ids *ids,
				 uint32_t nr_cpus, struct buf *out)
{
	put_strings(groups->packages, groups->nr_packages, out);
	put_strings(groups->cores, groups->nr_cores, out);
	for (uint32_t cpu = 0; cpu < nr_cpus; cpu++) {
		buf_put_u32(out, ids[cpu].core);
		buf_put_u32(out, ids[cpu].package);
	}
	if (!groups->nr_dies)
		return;
	put_strings(groups->dies, groups->nr_dies, out);
	for (uint32_t cpu = 0; cpu < nr_cpus; cpu++)
		buf_put_u32(out, ids[cpu].die);
}

/* A list of strings, checked to its end; `at` moves behind it. */
static int strings_take(struct cursor *at, struct feature_list *ret)
{
	uint32_t nr = cursor_u32(at);
	struct feature_list list = {.left = nr, .at = *at};

	if (at->bad)
		return -EBADMSG;
	*ret = list;
	for (const char *text;;) {
		int got = feature_list_string(&list, &text);
		if (got < 0)
			return got;
		if (got == 0)
			break;
	}
	*at = list.at;
	return 0;
}

int feature_decode_cpu_topology(struct span payload, uint32_t nr_cpus, struct feature_cpu_topology *ret)
{
	struct feature_cpu_topology topology = {.nr_cpus = nr_cpus};
	struct cursor at = cursor_over(payload);

	if (strings_take(&at, &topology.packages) || strings_take(&at, &topology.cores))
		return -EBADMSG;
	if (cursor_left(&at)) {
		topology.ids = cursor_take(&at, (uint64_t)nr_cpus * 8);
		topology.has_ids = topology.ids != NULL;
	}
	if (topology.has_ids && cursor_left(&at)) {
		if (strings_take(&at, &topology.dies))
			return -EBADMSG;
		topology.die_ids = cursor_take(&at, (uint64_t)nr_cpus * 4);
		topology.has_die_ids = topology.die_ids != NULL;
	}
	*ret = topology;
	return 0;
}

void feature_cpu_topology_ids(const struct feature_cpu_topology *topology, uint32_t cpu, struct feature_cpu_ids *ret)
{
	*ret = (struct feature_cpu_ids){.die = FEATURE_CPU_UNKNOWN_ID};
	memcpy(&ret->core, topology->ids + (size_t)cpu * 8, 4);
	memcpy(&ret->package, topology->ids + (size_t)cpu * 8 + 4, 4);
	if (topology->has_die_ids)
		memcpy(&ret->die, topology->die_ids + (size_t)cpu * 4, 4);
}

void feature_encode_caches(const struct feature_cache *caches, uint32_t nr, struct buf *out)
{
	buf_put_u32(out, CACHE_VERSION);
	buf_put_u32(out, nr);
	for (uint32_t i = 0; i < nr; i++) {
		buf_put_u32(out, caches[i].level);
		buf_put_u32(out, caches[i].line_bytes);
		buf_put_u32(out, caches[i].sets);
		buf_put_u32(out, caches[i].ways);
		feature_put_string(out, caches[i].type);
		feature_put_string(out, caches[i].size);
		feature_put_string(out, caches[i].cpus);
	}
}

int feature_caches_open(struct span payload, struct feature_list *ret)
{
	struct cursor at = cursor_over(payload);
	uint32_t version = cursor_u32(&at);
	uint32_t nr = cursor_u32(&at);

	if (at.bad || version != CACHE_VERSION)
		return -EBADMSG;
	*ret = (struct feature_list){.at = at, .left = nr};
	return 0;
}

int feature_list_cache(struct feature_list *list, struct feature_cache *ret)
{
	struct feature_cache cache;

	if (!list->left)
		return 0;
	cache.level = cursor_u32(&list->at);
	cache.line_bytes = cursor_u32(&list->at);
	cache.sets = cursor_u32(&list->at);
	cache.ways = cursor_u32(&list->at);
	cache.type = feature_take_string(&list->at);
	cache.size = feature_take_string(&list->at);
	cache.cpus = feature_take_string(&list->at);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = cache;
	return 1;
}

enum { MEMORY_VERSION = 1 };

void feature_put_numa(const struct feature_numa_node *node, struct buf *out)
{
	buf_put_u32(out, node->node);
	buf_put_u64(out, node->total_kb);
	buf_put_u64(out, node->free_kb);
	feature_put_string(out, node->cpus);
}

int feature_list_numa(struct feature_list *list, struct feature_numa_node *ret)
{
	struct feature_numa_node node;

	if (!list->left)
		return 0;
	node.node = cursor_u32(&list->at);
	node.total_kb = cursor_u64(&list->at);
	node.free_kb = cursor_u64(&list->at);
	node.cpus = feature_take_string(&list->at);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = node;
	return 1;
}

bool feature_memory_has(const struct feature_memory_node *node, uint64_t block)
{
	uint64_t word;

	memcpy(&word, node->bits + block / 64 * sizeof(word), sizeof(word));
	return word >> block % 64 & 1;
}

void feature_put_memory_begin(uint64_t nr, uint64_t block_bytes, struct buf *out)
{
	buf_put_u64(out, MEMORY_VERSION);
	buf_put_u64(out, block_bytes);
	buf_put_u64(out, nr);
}

void feature_put_memory(const struct feature_memory_node *node, struct buf *out)
{
	buf_put_u64(out, node->node);
	/* Twice: size of the node, then that of the bitmap. */
	buf_put_u64(out, node->nr_blocks);
	buf_put_u64(out, node->nr_blocks);
	buf_put(out, node->bits, feature_memory_words(node->nr_blocks) * sizeof(uint64_t));
}

int feature_memory_open(struct span payload, struct feature_list *ret, uint64_t *ret_block_bytes)
{
	struct cursor at = cursor_over(payload);
	uint64_t version = cursor_u64(&at);
	uint64_t block_bytes = cursor_u64(&at);
	uint64_t nr = cursor_u64(&at);

	if (at.bad || version != MEMORY_VERSION)
		return -EBADMSG;
	*ret = (struct feature_list){.at = at, .left = nr};
	*ret_block_bytes = block_bytes;
	return 0;
}

int feature_list_memory(struct feature_list *list, struct feature_memory_node *ret)
{
	struct feature_memory_node node;

	if (!list->left)
		return 0;
	node.node = cursor_u64(&list->at);
	cursor_u64(&list->at); /* the same number as the next one, which says how many words there are */
	node.nr_blocks = cursor_u64(&list->at);
	uint64_t words = feature_memory_words(node.nr_blocks);
	if (words > cursor_left(&list->at) / sizeof(uint64_t))
		list->at.bad = true;
	node.bits = cursor_take(&list->at, words * sizeof(uint64_t));
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = node;
	return 1;
}

void feature_put_pmu(const struct feature_pmu *pmu, struct buf *out)
{
	buf_put_u32(out, pmu->type);
	feature_put_string(out, pmu->name);
}

int feature_list_pmu(struct feature_list *list, struct feature_pmu *ret)
{
	struct feature_pmu pmu;

	if (!list->left)
		return 0;
	pmu.type = cursor_u32(&list->at);
	pmu.name = feature_take_string(&list->at);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = pmu;
	return 1;
}

void feature_put_pair(const struct feature_pair *pair, struct buf *out)
{
	feature_put_string(out, pair->name);
	feature_put_string(out, pair->value);
}

int feature_list_pair(struct feature_list *list, struct feature_pair *ret)
{
	struct feature_pair pair;

	if (!list->left)
		return 0;
	pair.name = feature_take_string(&list->at);
	pair.value = feature_take_string(&list->at);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = pair;
	return 1;
}

int feature_list_pmu_caps(struct feature_list *list, struct feature_pmu_caps *ret)
{
	if (!list->left)
		return 0;

	uint32_t nr = cursor_u32(&list->at);
	struct feature_list pairs = {.left = nr, .at = list->at};
	struct feature_pmu_caps caps = {.pairs = pairs};
	int got;

	do {
		struct feature_pair pair;
		got = feature_list_pair(&pairs, &pair);
	} while (got > 0);
	list->at = pairs.at;
	caps.pmu = feature_take_string(&list->at);
	if (got < 0 || list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = caps;
	return 1;
}
