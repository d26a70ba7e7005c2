/* SPDX-License-Identifier: MIT */
/*
 * The features of the header: what is encoded is decoded again; cut, and with counts that lie, it is
 * refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "perfdata/btf.h"
#include "perfdata/feature.h"
#include "perfdata/feature_machine.h"
#include "perfdata/object_id.h"
#include "perfdata/record.h"

/*
 * walk() reads a payload to its end: number of sound entries, or the error. Every cut must be refused. Each
 * is a heap copy of exactly its length, so that a sanitizer sees a read past the end.
 */
static void check_cuts(struct span whole, int (*walk)(struct span payload))
{
	for (size_t len = 0; len < whole.len; len++) {
		void *copy = malloc(len ? len : 1);
		assert_non_null(copy);
		memcpy(copy, whole.ptr, len);
		int got = walk((struct span){copy, len});
		if (got != -EBADMSG)
			fail_msg("cut to %zu of %zu bytes: %d", len, whole.len, got);
		free(copy);
	}
}

/* A list whose count was raised must end in an error, and at once. */
static void check_raised_count(struct buf *payload, size_t count_at, int (*walk)(struct span payload))
{
	memset(payload->data + count_at, 0xff, 4);
	assert_int_equal(walk(buf_span(payload)), -EBADMSG);
}

static int walk_strings(struct span payload)
{
	struct feature_list list;
	const char *text;
	int nr = 0, got = feature_list_open(payload, &list);

	while (!got && (got = feature_list_string(&list, &text)) > 0) {
		nr += strlen(text) > 0;
		got = 0;
	}
	return got ? got : nr;
}

static void test_strings(void **state)
{
	struct buf out = {0};
	const char *text;
	char sixty_three[64] = {0};
	char *const arguments[] = {(char[]){"record"}, (char[]){"-a"}};

	(void)state;
	feature_put_string(&out, "vm");
	assert_int_equal(out.len, 4 + 64);
	assert_int_equal(feature_decode_string(buf_span(&out), &text), 0);
	assert_string_equal(text, "vm");
	for (size_t len = 0; len < out.len; len++)
		assert_int_equal(feature_decode_string((struct span){out.data, len}, &text), -EBADMSG);
	memset(out.data + 4, 'x', 64); /* no NUL */
	assert_int_equal(feature_decode_string(buf_span(&out), &text), -EBADMSG);
	buf_fini(&out);

	memset(sixty_three, 'y', 63);
	feature_put_string(&out, sixty_three);
	assert_int_equal(out.len, 4 + 64);
	buf_fini(&out);
	feature_encode_cmdline("/usr/bin/millrace", 2, arguments, &out);
	assert_int_equal(walk_strings(buf_span(&out)), 3);
	check_cuts(buf_span(&out), walk_strings);
	check_raised_count(&out, 0, walk_strings);
	buf_fini(&out);
}

static int walk_events(struct span payload)
{
	struct event_desc *events;
	size_t nr;
	int err = feature_decode_event_desc(payload, &events, &nr);

	if (err)
		return err;
	for (size_t i = 0; i < nr; i++)
		event_desc_fini(&events[i]);
	free(events);
	return (int)nr;
}

static void test_event_desc(void **state)
{
	uint64_t ids[] = {7, 8, UINT64_MAX};
	const struct event_desc given[] = {
		{.attr = {.type = 1, .size = 64, .config = 3, .sig_data = 9},
		 .name = (char[]){"cs:u"},
		 .ids = ids,
		 .nr_ids = 3},
		{.attr = {.type = 2}, .name = (char[]){""}},
	};
	struct buf out = {0};
	struct event_desc *events;
	size_t nr;

	(void)state;
	feature_encode_event_desc(given, 2, &out);
	assert_int_equal(out.len, 8 + (128 + 4 + 68 + 24) + (128 + 4 + 68));
	assert_int_equal(feature_decode_event_desc(buf_span(&out), &events, &nr), 0);
	assert_int_equal(nr, 2);
	assert_string_equal(events[0].name, "cs:u");
	assert_int_equal(events[0].attr.size, 128);
	assert_int_equal(events[0].attr.config, 3);
	assert_int_equal(events[0].attr.sig_data, 9);
	assert_int_equal(events[0].nr_ids, 3);
	assert_memory_equal(events[0].ids, ids, sizeof(ids));
	assert_int_equal(events[1].nr_ids, 0);
	event_desc_fini(&events[0]);
	event_desc_fini(&events[1]);
	free(events);
	check_cuts(buf_span(&out), walk_events);
	memset(out.data + 8 + 128, 0xff, 4); /* nr_ids */
	assert_int_equal(walk_events(buf_span(&out)), -EBADMSG);
	memset(out.data + 8 + 128, 0, 4);
	memset(out.data + 4, 0, 4); /* attr_size */
	assert_int_equal(walk_events(buf_span(&out)), -EBADMSG);
	memset(out.data + 4, 0xff, 4);
	assert_int_equal(walk_events(buf_span(&out)), -EBADMSG);
	check_raised_count(&out, 0, walk_events);
	buf_fini(&out);
}

static int walk_groups(struct span payload)
{
	struct feature_list list;
	struct feature_group group;
	int nr = 0, got = feature_list_open(payload, &list);

	while (!got && (got = feature_list_group(&list, &group)) > 0) {
		nr += (int)group.members;
		got = 0;
	}
	return got ? got : nr;
}

static void test_groups(void **state)
{
	const struct feature_group groups[] = {{.name = "g", .leader = 0, .members = 2}, {.leader = 2, .members = 3}};
	struct buf out = {0};
	struct feature_list list;
	struct feature_group group;

	(void)state;
	feature_encode_groups(groups, 2, &out);
	assert_int_equal(walk_groups(buf_span(&out)), 5);
	assert_int_equal(feature_list_open(buf_span(&out), &list), 0);
	assert_int_equal(feature_list_group(&list, &group), 1);
	assert_string_equal(group.name, "g");
	assert_int_equal(feature_list_group(&list, &group), 1);
	assert_string_equal(group.name, "{anon_group}");
	assert_int_equal(group.leader, 2);
	check_cuts(buf_span(&out), walk_groups);
	check_raised_count(&out, 0, walk_groups);
	buf_fini(&out);
}

static int walk_topology(struct span payload)
{
	struct feature_cpu_topology topology;
	int err = feature_decode_cpu_topology(payload, 2, &topology);

	if (err)
		return err;
	return topology.has_die_ids ? 2 : topology.has_ids ? 1 : 0;
}

static void test_cpu_topology(void **state)
{
	const char *const packages[] = {"0-1"}, *const cores[] = {"0", "1"};
	const struct feature_cpu_groups groups = {
		.packages = packages,
		.cores = cores,
		.dies = packages,
		.nr_packages = 1,
		.nr_cores = 2,
		.nr_dies = 1,
	};
	const struct feature_cpu_ids ids[] = {{0, 0, 5}, {1, 0, 6}};
	struct feature_cpu_topology topology;
	struct feature_cpu_ids got;
	struct buf out = {0};

	(void)state;
	feature_encode_cpu_topology(&groups, ids, 2, &out);
	assert_int_equal(feature_decode_cpu_topology(buf_span(&out), 2, &topology), 0);
	assert_true(topology.has_ids && topology.has_die_ids);
	assert_int_equal(topology.cores.left, 2);
	feature_cpu_topology_ids(&topology, 1, &got);
	assert_int_equal(got.core, 1);
	assert_int_equal(got.die, 6);

	size_t lists = 4 + 68 + 4 + 2 * 68, with_ids = lists + 16;
	for (size_t len = 0; len < out.len; len++) {
		int had = walk_topology((struct span){out.data, len});
		if (len < lists)
			assert_int_equal(had, -EBADMSG);
		else if (len < with_ids)
			assert_int_equal(had, 0);
		else
			assert_true(had == 1 || (len > with_ids && had == -EBADMSG));
	}
	assert_int_equal(feature_decode_cpu_topology(buf_span(&out), UINT32_MAX, &topology), 0);
	assert_false(topology.has_ids);
	check_raised_count(&out, 0, walk_topology);
	buf_fini(&out);
}

static int walk_caches(struct span payload)
{
	struct feature_list list;
	struct feature_cache cache;
	int nr = 0, got = feature_caches_open(payload, &list);

	while (!got && (got = feature_list_cache(&list, &cache)) > 0) {
		nr += cache.sets == 64 && !strcmp(cache.cpus, "0-3");
		got = 0;
	}
	return got ? got : nr;
}

static void test_caches(void **state)
{
	const struct feature_cache caches[] = {
		{1, 64, 64, 12, "Data", "48K", "0-3"},
		{2, 64, 64, 12, "Unified", "1024K", "0-3"},
	};
	struct buf out = {0};

	(void)state;
	feature_encode_caches(caches, 2, &out);
	assert_int_equal(walk_caches(buf_span(&out)), 2);
	check_cuts(buf_span(&out), walk_caches);
	check_raised_count(&out, 4, walk_caches);
	out.data[0] = 2; /* version */
	assert_int_equal(walk_caches(buf_span(&out)), -EBADMSG);
	buf_fini(&out);
}

static int walk_numa(struct span payload)
{
	struct feature_list list;
	struct feature_numa_node node;
	int nr = 0, got = feature_list_open(payload, &list);

	while (!got && (got = feature_list_numa(&list, &node)) > 0) {
		nr += node.total_kb == 100 && node.free_kb == 50 && !strcmp(node.cpus, "0-1");
		got = 0;
	}
	return got ? got : nr;
}

static void test_numa(void **state)
{
	struct buf out = {0};

	(void)state;
	buf_put_u32(&out, 2);
	for (uint32_t node = 0; node < 2; node++)
		feature_put_numa(&(struct feature_numa_node){node, 100, 50, "0-1"}, &out);
	assert_int_equal(walk_numa(buf_span(&out)), 2);
	check_cuts(buf_span(&out), walk_numa);
	check_raised_count(&out, 0, walk_numa);
	buf_fini(&out);
}

static int walk_memory(struct span payload)
{
	struct feature_list list;
	struct feature_memory_node node;
	uint64_t block_bytes;
	int nr = 0, got = feature_memory_open(payload, &list, &block_bytes);

	while (!got && (got = feature_list_memory(&list, &node)) > 0) {
		for (uint64_t block = 0; block < node.nr_blocks; block++)
			nr += feature_memory_has(&node, block);
		got = 0;
	}
	return got ? got : nr;
}

static void test_memory(void **state)
{
	const uint64_t words[2] = {5, 1};
	const struct feature_memory_node node = {.node = 3, .nr_blocks = 65, .bits = (const uint8_t *)words};
	struct buf out = {0};

	(void)state;
	feature_put_memory_begin(1, 1 << 27, &out);
	feature_put_memory(&node, &out);
	assert_int_equal(walk_memory(buf_span(&out)), 3);
	check_cuts(buf_span(&out), walk_memory);
	memset(out.data + 40, 0xff, 8); /* bits of the bitmap: 2^64-1 */
	assert_int_equal(walk_memory(buf_span(&out)), -EBADMSG);
	buf_fini(&out);
}

static int walk_pmu_caps(struct span payload)
{
	struct feature_list list;
	struct feature_pmu_caps caps;
	int nr = 0, got = feature_list_open(payload, &list);

	while (!got && (got = feature_list_pmu_caps(&list, &caps)) > 0) {
		struct feature_pair pair;
		while (feature_list_pair(&caps.pairs, &pair) > 0)
			nr += !strcmp(pair.name, "branches") && !strcmp(pair.value, "32") &&
			      !strcmp(caps.pmu, "cpu_core");
		got = 0;
	}
	return got ? got : nr;
}

static void test_pmu_caps(void **state)
{
	const struct feature_pair pair = {"branches", "32"};
	struct buf out = {0};

	(void)state;
	buf_put_u32(&out, 1);
	buf_put_u32(&out, 2);
	feature_put_pair(&pair, &out);
	feature_put_pair(&pair, &out);
	feature_put_string(&out, "cpu_core");
	assert_int_equal(walk_pmu_caps(buf_span(&out)), 2);
	check_cuts(buf_span(&out), walk_pmu_caps);
	check_raised_count(&out, 4, walk_pmu_caps);
	buf_fini(&out);
}

static int walk_pmus(struct span payload)
{
	struct feature_list list;
	struct feature_pmu pmu;
	int nr = 0, got = feature_list_open(payload, &list);

	while (!got && (got = feature_list_pmu(&list, &pmu)) > 0) {
		nr += pmu.type == 8 && !strcmp(pmu.name, "uprobe");
		got = 0;
	}
	return got ? got : nr;
}

static void test_pmus(void **state)
{
	struct buf out = {0};

	(void)state;
	buf_put_u32(&out, 1);
	feature_put_pmu(&(struct feature_pmu){8, "uprobe"}, &out);
	assert_int_equal(walk_pmus(buf_span(&out)), 1);
	check_cuts(buf_span(&out), walk_pmus);
	check_raised_count(&out, 0, walk_pmus);
	buf_fini(&out);
}

static int walk_build_ids(struct span payload)
{
	struct cursor at = cursor_over(payload);
	struct build_id id;
	int nr = 0, got;

	while ((got = build_id_decode(&at, &id)) > 0)
		nr++;
	return got ? got : nr;
}

static void test_build_ids(void **state)
{
	const struct build_id given[] = {
		{.misc = PERF_RECORD_MISC_KERNEL,
		 .pid = -1,
		 .id_bytes = 20,
		 .id = {1, 2, 3},
		 .path = "[kernel.kallsyms]"},
		{.misc = PERF_RECORD_MISC_USER, .pid = -1, .id_bytes = 16, .id = {9}, .path = "/usr/bin/true"},
	};
	struct buf out = {0};
	struct build_id id;

	(void)state;
	assert_int_equal(build_id_encode(&given[0], 0, &out), 0);
	assert_int_equal(out.len, 36 + 64);
	assert_int_equal(build_id_encode(&given[1], 0, &out), 0);
	assert_int_equal(walk_build_ids(buf_span(&out)), 2);
	struct cursor at = cursor_over(buf_span(&out));
	assert_int_equal(build_id_decode(&at, &id), 1);
	assert_int_equal(id.misc, PERF_RECORD_MISC_KERNEL);
	assert_int_equal(build_id_decode(&at, &id), 1);
	assert_int_equal(id.id_bytes, 16);
	assert_int_equal(id.id[0], 9);
	assert_string_equal(id.path, "/usr/bin/true");
	assert_int_equal(build_id_decode(&at, &id), 0);
	for (size_t len = 0; len < out.len; len++)
		assert_int_equal(walk_build_ids((struct span){out.data, len}), len % 100 ? -EBADMSG : (int)(len / 100));
	out.data[32] = 21; /* bytes of the id */
	assert_int_equal(walk_build_ids(buf_span(&out)), -EBADMSG);
	out.data[5] &= 0x7f; /* without its size it has 20 bytes */
	assert_int_equal(walk_build_ids(buf_span(&out)), 2);
	memset(out.data + 6, 0, 2); /* size of the record */
	assert_int_equal(walk_build_ids(buf_span(&out)), -EBADMSG);
	buf_fini(&out);

	char *longest = calloc(1, 70000);
	assert_non_null(longest);
	memset(longest, 'x', 69999);
	assert_int_equal(build_id_encode(&(struct build_id){.path = longest}, 0, &out), -EINVAL);
	assert_int_equal(out.len, 0);
	free(longest);
}

static int walk_bpf(struct span payload)
{
	struct feature_list list;
	struct feature_bpf_prog prog;
	int nr = 0, got = feature_list_open(payload, &list);

	while (!got && (got = feature_list_bpf_prog(&list, &prog)) > 0) {
		nr += prog.info.len == 8 && prog.data.len == 16;
		got = 0;
	}
	return got ? got : nr;
}

static void test_bpf(void **state)
{
	static const uint8_t zeroes[16];
	struct buf out = {0};

	(void)state;
	buf_put_u32(&out, 1);
	feature_put_bpf_prog(&(struct feature_bpf_prog){.info = {zeroes, 8}, .data = {zeroes, 16}}, &out);
	assert_int_equal(walk_bpf(buf_span(&out)), 1);
	check_cuts(buf_span(&out), walk_bpf);
	memset(out.data + 4, 0xff, 4); /* info_len */
	assert_int_equal(walk_bpf(buf_span(&out)), -EBADMSG);
	buf_fini(&out);
}

/* One INT "int", one FUNC_PROTO without arguments, one FUNC "work". */
static void put_btf(struct buf *out)
{
	static const uint32_t types[] = {1, 1 << 24, 4, 32, 0, 13 << 24, 1, 5, 12 << 24, 2};
	static const char strings[] = "\0int\0work";

	buf_put_u16(out, 0xeb9f);
	buf_put_u8(out, 1);
	buf_put_u8(out, 0);
	buf_put_u32(out, 24);
	buf_put_u32(out, 0);
	buf_put_u32(out, sizeof(types));
	buf_put_u32(out, sizeof(types));
	buf_put_u32(out, sizeof(strings));
	buf_put(out, types, sizeof(types));
	buf_put(out, strings, sizeof(strings));
}

static void test_btf(void **state)
{
	struct buf out = {0};

	(void)state;
	put_btf(&out);
	assert_string_equal(btf_type_name(buf_span(&out), 1), "int");
	assert_null(btf_type_name(buf_span(&out), 2));
	assert_string_equal(btf_type_name(buf_span(&out), 3), "work");
	assert_null(btf_type_name(buf_span(&out), 4));
	assert_null(btf_type_name(buf_span(&out), 0));
	assert_null(btf_type_name(buf_span(&out), UINT32_MAX));
	assert_string_equal(btf_text(buf_span(&out), 5), "work");
	assert_null(btf_text(buf_span(&out), 10));
	for (size_t len = 0; len < out.len; len++) {
		assert_null(btf_type_name((struct span){out.data, len}, 3));
		assert_null(btf_text((struct span){out.data, len}, 5));
	}
	buf_fini(&out);
}

static void test_recording(void **state)
{
	const struct feature_sample_time times = {5, 9};
	const struct feature_compressed how = {0, FEATURE_COMPRESSED_ZSTD, 3, 7, 1 << 20};
	const struct feature_clock clock = {1, 4, 17, 19};
	struct feature_sample_time got_times;
	struct feature_compressed got_how;
	struct feature_clock got_clock;
	struct buf out = {0};

	(void)state;
	feature_encode_sample_time(&times, &out);
	assert_int_equal(feature_decode_sample_time(buf_span(&out), &got_times), 0);
	assert_memory_equal(&got_times, &times, sizeof(times));
	assert_int_equal(feature_decode_sample_time((struct span){out.data, 15}, &got_times), -EBADMSG);
	buf_fini(&out);
	feature_encode_compressed(&how, &out);
	assert_int_equal(out.len, 20);
	assert_int_equal(feature_decode_compressed(buf_span(&out), &got_how), 0);
	assert_memory_equal(&got_how, &how, sizeof(how));
	assert_int_equal(feature_decode_compressed((struct span){out.data, 19}, &got_how), -EBADMSG);
	buf_fini(&out);
	feature_encode_clock(&clock, &out);
	assert_int_equal(out.len, 24);
	assert_int_equal(feature_decode_clock(buf_span(&out), &got_clock), 0);
	assert_memory_equal(&got_clock, &clock, sizeof(clock));
	assert_int_equal(feature_decode_clock((struct span){out.data, 23}, &got_clock), -EBADMSG);
	buf_fini(&out);
}

static void add_text(struct feature_set *set, enum feature_bit bit, const char *text)
{
	struct buf payload = {0};

	buf_put_text(&payload, text);
	assert_int_equal(feature_set_add(set, bit, &payload), 0);
	assert_null(payload.data);
}

static void test_set(void **state)
{
	enum { AT = 1000 };
	struct feature_set set = {0};
	struct buf out = {0};
	struct file_section section;
	uint64_t bits[LAYOUT_FEATURE_WORDS];

	(void)state;
	add_text(&set, FEATURE_PMU_CAPS, "caps");
	add_text(&set, FEATURE_HOSTNAME, "old");
	add_text(&set, FEATURE_BRANCH_STACK, "");
	add_text(&set, FEATURE_HOSTNAME, "host");
	add_text(&set, FEATURE_STOCK_END, "of a newer perf");
	assert_int_equal(set.nr, 4);
	assert_int_equal(feature_set_encode(&set, AT, &out, bits), 0);
	assert_int_equal(bits[0], (uint64_t)1 << 3 | 1u << 15 | 1u << 31 | (uint64_t)1 << 32);
	assert_int_equal(out.len, 4 * 16 + 4 + 0 + 4 + 15);

	assert_int_equal(feature_section(bits, buf_span(&out), FEATURE_ARCH, &section), 0);
	assert_int_equal(feature_section(bits, buf_span(&out), FEATURE_BRANCH_STACK, &section), 1);
	assert_int_equal(section.size, 0);
	assert_int_equal(feature_section(bits, buf_span(&out), FEATURE_PMU_CAPS, &section), 1);
	assert_int_equal(section.size, 4);
	assert_memory_equal(out.data + section.offset - AT, "caps", 4);
	assert_int_equal(feature_section(bits, buf_span(&out), FEATURE_STOCK_END, &section), 1);
	assert_memory_equal(out.data + section.offset - AT, "of a newer perf", 15);
	assert_int_equal(feature_section(bits, (struct span){out.data, 4 * 16 - 1}, FEATURE_STOCK_END, &section),
			 -EBADMSG);
	assert_int_equal(feature_section(bits, (struct span){out.data, 4 * 16 - 1}, FEATURE_PMU_CAPS, &section), 1);
	assert_int_equal(feature_section(bits, buf_span(&out), FEATURE_BITS, &section), 0);
	buf_fini(&out);
	feature_set_fini(&set);
}

enum { TABLE_BYTES = 2 * sizeof(struct file_section) };

/* Two features and, between their table and their payloads, two private sections. */
static void make_private(struct buf *out, uint64_t bits[LAYOUT_FEATURE_WORDS])
{
	struct feature_set set = {0};

	add_text(&set, FEATURE_LEDGER, "losses");
	add_text(&set, FEATURE_HOSTNAME, "host");
	add_text(&set, FEATURE_EXTENT_INDEX, "");
	add_text(&set, FEATURE_ARCH, "arch");
	assert_int_equal(feature_set_encode(&set, 0, out, bits), 0);
	feature_set_fini(&set);
}

/* As the format says, not as the program does it. */
static void sign(struct buf *out)
{
	struct private_header header;
	uint64_t sum = 14695981039346656037u;

	memcpy(&header, out->data + TABLE_BYTES, sizeof(header));
	for (uint64_t i = 0; i < header.size && TABLE_BYTES + i < out->len; i++)
		if (i < 24 || i >= 32)
			sum = (sum ^ out->data[TABLE_BYTES + i]) * 1099511628211u;
	header.checksum = sum;
	memcpy(out->data + TABLE_BYTES, &header, sizeof(header));
}

/* Whatever the bytes say: every section that is found lies within them. */
static int read_private(const struct buf *bytes, size_t len, const uint64_t bits[LAYOUT_FEATURE_WORDS])
{
	uint8_t *copy = malloc(len ? len : 1);
	struct span block, payload;
	uint8_t sum = 0;

	assert_non_null(copy);
	memcpy(copy, bytes->data, len);
	int got = feature_private_block(bits, (struct span){copy, len}, &block);
	for (unsigned bit = 0; got > 0 && bit < FEATURE_BITS; bit++) {
		if (feature_private_section(block, bit, &payload) != 1)
			continue;
		for (size_t i = 0; i < payload.len; i++)
			sum ^= ((const uint8_t *)payload.ptr)[i];
	}
	free(copy);
	return sum == 255 ? 2 : got; /* so that the bytes are read */
}

static void test_private(void **state)
{
	struct buf out = {0}, before = {0};
	struct file_section section;
	struct span block, payload;
	uint64_t bits[LAYOUT_FEATURE_WORDS];

	(void)state;
	make_private(&out, bits);
	assert_int_equal(bits[0], 1u << FEATURE_HOSTNAME | 1u << FEATURE_ARCH);
	assert_int_equal(bits[1] | bits[2] | bits[3], 0);
	assert_int_equal(feature_section(bits, buf_span(&out), FEATURE_ARCH, &section), 1);
	assert_memory_equal(out.data + section.offset, "arch", 4);
	assert_int_equal(section.offset + section.size, out.len);

	assert_memory_equal(out.data + TABLE_BYTES, "MILLRACE", 8);
	assert_int_equal(feature_private_block(bits, buf_span(&out), &block), 1);
	assert_int_equal(feature_private_section(block, FEATURE_LEDGER, &payload), 1);
	assert_int_equal(payload.len, 6);
	assert_memory_equal(payload.ptr, "losses", 6);
	assert_int_equal(feature_private_section(block, FEATURE_EXTENT_INDEX, &payload), 1);
	assert_int_equal(payload.len, 0);
	assert_int_equal(feature_private_section(block, FEATURE_HOSTNAME, &payload), 0);
	buf_put(&before, out.data, out.len);
	sign(&out);
	assert_memory_equal(out.data, before.data, out.len);

	/* Cut, or a byte changed: not used. Without its magic it is no block. */
	for (size_t len = 0; len < TABLE_BYTES + block.len; len++)
		assert_int_equal(read_private(&out, len, bits),
				 len < TABLE_BYTES + sizeof(struct private_header) ? 0 : -EBADMSG);
	for (size_t i = 0; i < block.len; i++) {
		out.data[TABLE_BYTES + i] ^= 1;
		assert_int_equal(read_private(&out, out.len, bits), i < 8 ? 0 : -EBADMSG);
		out.data[TABLE_BYTES + i] ^= 1;
	}
	memset(bits, 0, sizeof(bits));
	assert_int_equal(feature_private_block(bits, buf_span(&out), &block), 0);
	buf_fini(&out);
	buf_fini(&before);
}

/* Numbers that lie under a checksum that is right. */
static void test_private_hostile(void **state)
{
	static const uint8_t values[] = {0, 1, 7, 8, 31, 0x7f, 0x80, 0xff};
	struct buf out = {0};
	uint64_t bits[LAYOUT_FEATURE_WORDS];

	(void)state;
	make_private(&out, bits);
	size_t end = TABLE_BYTES + sizeof(struct private_header) + 2 * sizeof(struct private_entry);
	for (size_t i = TABLE_BYTES + 8; i < end; i++) {
		uint8_t kept = out.data[i];
		for (size_t j = 0; j < sizeof(values); j++) {
			out.data[i] = values[j];
			sign(&out);
			for (size_t len = TABLE_BYTES; len <= out.len; len++)
				read_private(&out, len, bits);
		}
		out.data[i] = kept;
	}
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),          cmocka_unit_test(test_strings),
		cmocka_unit_test(test_event_desc),   cmocka_unit_test(test_groups),
		cmocka_unit_test(test_caches),       cmocka_unit_test(test_numa),
		cmocka_unit_test(test_cpu_topology), cmocka_unit_test(test_memory),
		cmocka_unit_test(test_pmus),         cmocka_unit_test(test_pmu_caps),
		cmocka_unit_test(test_bpf),          cmocka_unit_test(test_btf),
		cmocka_unit_test(test_recording),    cmocka_unit_test(test_build_ids),
		cmocka_unit_test(test_private),      cmocka_unit_test(test_private_hostile),
	};
	return cmocka_run_group_tests_name("feature", tests, NULL, NULL);
}
