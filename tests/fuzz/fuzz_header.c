/* SPDX-License-Identifier: MIT */
/* The header of a report over features from anywhere: every section of a file is decoded and printed. */
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/text/header_text.h"
#include "fuzz.h"
#include "perfdata/feature.h"
#include "perfdata/feature_machine.h"
#include "perfdata/header.h"
#include "perfdata/ledger.h"
#include "read/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session *session = NULL;
	AUTO_FILE FILE *sink = fopen("/dev/null", "we");

	if (!sink || session_open_memory((struct span){data, size}, SESSION_FORCE, &session, NULL))
		return 0;
	header_print(sink, session, true);
	session_close(session);
	return 0;
}

/* From here on: the seed, a file with every feature that is printed. */

static void add(struct feature_set *set, enum feature_bit bit, struct buf *payload)
{
	feature_set_add(set, bit, payload);
	buf_fini(payload);
}

static void add_machine(struct feature_set *set)
{
	static const enum feature_bit texts[] = {FEATURE_HOSTNAME, FEATURE_OSRELEASE, FEATURE_VERSION,
						 FEATURE_ARCH,     FEATURE_CPUDESC,   FEATURE_CPUID};
	static const char *const groups[] = {"0-1", "2"};
	static const struct feature_cpu_ids ids[2] = {{0, 0, 0}, {1, 0, 0}};
	static const struct feature_cache cache = {1, 64, 64, 12, "Data", "48K", "0"};
	const struct feature_cpu_groups cpus = {groups, groups, groups, 2, 2, 2};
	const uint64_t blocks[2] = {0xff, 3};
	struct buf out = {0};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		feature_put_string(&out, "x86_64");
		add(set, texts[i], &out);
	}
	feature_encode_nrcpus(&(struct feature_nrcpus){2, 2}, &out);
	add(set, FEATURE_NRCPUS, &out);
	feature_encode_cpu_topology(&cpus, ids, 2, &out);
	add(set, FEATURE_CPU_TOPOLOGY, &out);
	feature_encode_caches(&cache, 1, &out);
	add(set, FEATURE_CACHE, &out);
	buf_put_u32(&out, 1);
	feature_put_numa(&(struct feature_numa_node){0, 2, 1, "0-1"}, &out);
	add(set, FEATURE_NUMA_TOPOLOGY, &out);
	feature_put_memory_begin(1, 1 << 27, &out);
	feature_put_memory(&(struct feature_memory_node){0, 70, (const uint8_t *)blocks}, &out);
	add(set, FEATURE_MEM_TOPOLOGY, &out);
	buf_put_u64(&out, 4096);
	add(set, FEATURE_TOTAL_MEM, &out);
}

static void add_pmus(struct feature_set *set)
{
	const struct feature_pair pair = {"branches", "32"};
	struct buf out = {0};

	buf_put_u32(&out, 1);
	feature_put_pmu(&(struct feature_pmu){1, "software"}, &out);
	add(set, FEATURE_PMU_MAPPINGS, &out);
	for (int i = 0; i < 2; i++) {
		buf_put_u32(&out, 1);
		feature_put_pair(&pair, &out);
		add(set, i ? FEATURE_HYBRID_TOPOLOGY : FEATURE_CPU_PMU_CAPS, &out);
	}
	buf_put_u32(&out, 1);
	buf_put_u32(&out, 1);
	feature_put_pair(&pair, &out);
	feature_put_string(&out, "cpu_core");
	add(set, FEATURE_PMU_CAPS, &out);
}

static void add_bpf(struct feature_set *set)
{
	static const uint32_t btf[] = {0x1eb9f, 24, 0, 12, 12, 8, 1, 12 << 24, 0, 0x6e756600 /* "\0fun" */, 0};
	static const uint64_t data[] = {0x1000, 20, 0x1122334455667788, (uint64_t)1 << 32};
	const struct bpf_prog_info info = {
		.id = 7,
		.nr_jited_ksyms = 1,
		.nr_jited_func_lens = 1,
		.jited_func_lens = 8,
		.btf_id = 5,
		.func_info_rec_size = 8,
		.func_info = 24,
		.nr_func_info = 1,
		.nr_prog_tags = 1,
		.prog_tags = 16,
	};
	struct buf out = {0};

	buf_put_u32(&out, 1);
	feature_put_bpf_prog(&(struct feature_bpf_prog){0x1f9, {&info, sizeof(info)}, {data, sizeof(data)}}, &out);
	add(set, FEATURE_BPF_PROG_INFO, &out);
	buf_put_u32(&out, 1);
	feature_put_bpf_btf(&(struct feature_bpf_btf){5, {btf, sizeof(btf)}}, &out);
	add(set, FEATURE_BPF_BTF, &out);
}

static void add_recording(struct feature_set *set, const struct event_desc events[2])
{
	char *arguments[] = {(char[]){"record"}, (char[]){"it's"}};
	const struct feature_group group = {NULL, 0, 2};
	struct buf out = {0};

	feature_encode_cmdline("/usr/bin/millrace", 2, arguments, &out);
	add(set, FEATURE_CMDLINE, &out);
	feature_encode_event_desc(events, 2, &out);
	add(set, FEATURE_EVENT_DESC, &out);
	feature_encode_groups(&group, 1, &out);
	add(set, FEATURE_GROUP_DESC, &out);
	feature_encode_sample_time(&(struct feature_sample_time){1, 2}, &out);
	add(set, FEATURE_SAMPLE_TIME, &out);
	feature_encode_compressed(&(struct feature_compressed){0, FEATURE_COMPRESSED_ZSTD, 1, 3, 4096}, &out);
	add(set, FEATURE_COMPRESSED, &out);
	feature_encode_clock(&(struct feature_clock){1, 1, 3, 4}, &out);
	add(set, FEATURE_CLOCK_DATA, &out);
	buf_put_u64(&out, 1);
	add(set, FEATURE_CLOCKID, &out);
	ledger_encode(&(struct ledger){.counted = true}, &out);
	add(set, FEATURE_LEDGER, &out);
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	uint64_t ids[] = {11, 12};
	char names[2][8] = {"first", "second"};
	const struct perf_event_attr attr = {
		.size = LAYOUT_ATTR_BYTES,
		.type = PERF_TYPE_SOFTWARE,
		.read_format = PERF_FORMAT_ID,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_ID,
	};
	const struct event_desc events[] = {{attr, names[0], &ids[0], 1}, {attr, names[1], &ids[1], 1}};
	const struct perf_event_header record = {.type = RECORD_FINISHED_ROUND, .size = sizeof(record)};
	struct feature_set set = {0};
	struct file_header header;

	if (number)
		return false;
	header_encode(events, 2, out, &header);
	buf_put(out, &record, sizeof(record));
	header.data.size = sizeof(record);
	add_machine(&set);
	add_pmus(&set);
	add_bpf(&set);
	add_recording(&set, events);
	feature_set_encode(&set, out->len, out, header.features);
	feature_set_fini(&set);
	memcpy(out->data, &header, sizeof(header));
	return true;
}
