/* SPDX-License-Identifier: MIT */
#include "cmd/text/header_text.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/span.h"
#include "perfdata/attr.h"
#include "perfdata/btf.h"
#include "perfdata/feature.h"
#include "perfdata/feature_machine.h"
#include "read/session.h"

/* BPF_MAX_SUBPROGS of the kernel. Only a file that lies has more, and to find names is slow. */
enum { FUNCTIONS_MAX = 256 };

/* Empty when there is none of this id. */
static struct span find_btf(struct session *session, uint32_t id)
{
	struct span payload;

	return session_feature(session, FEATURE_BPF_BTF, &payload) ? feature_find_btf(payload, id) : (struct span){0};
}

/* One program: its functions, with what names them. */
struct bpf_functions {
	struct cursor addresses, lengths, tags, infos; /* infos: records of info->func_info_rec_size */
	struct span btf;
};

/*
 * The kernel's symbol of the next function: "bpf_prog_TAG_NAME". NAME: of the BTF, or of the program if it
 * is alone.
 */
static void put_function(struct bpf_functions *functions, const struct bpf_prog_info *info, struct buf *out)
{
	uint8_t tag[BPF_TAG_SIZE];
	uint32_t type = 0;
	const char *name = NULL;
	uint64_t address = cursor_u64(&functions->addresses);
	uint32_t length = cursor_u32(&functions->lengths);

	cursor_copy(&functions->tags, tag, sizeof(tag));
	const uint8_t *record = cursor_take(&functions->infos, info->func_info_rec_size);
	if (record && info->func_info_rec_size >= sizeof(struct bpf_func_info))
		memcpy(&type, record + offsetof(struct bpf_func_info, type_id), sizeof(type));
	if (type)
		name = btf_type_name(functions->btf, type);
	if (!name)
		name = info->nr_prog_tags == 1 && info->name[0] ? info->name : "F";
	buf_put_text(out, "bpf_prog_");
	for (size_t i = 0; i < sizeof(tag); i++)
		buf_printf(out, "%02x", tag[i]);
	buf_put_u8(out, '_');
	escape_put_text(out, name);
	buf_printf(out, " addr 0x%" PRIx64 " size %u\n", address, length);
}

static int put_prog(struct session *session, const struct feature_bpf_prog *prog, struct buf *out)
{
	struct bpf_prog_info info = {0};

	memcpy(&info, prog->info.ptr, prog->info.len < sizeof(info) ? prog->info.len : sizeof(info));
	info.name[sizeof(info.name) - 1] = '\0';
	uint32_t nr = info.nr_jited_ksyms;
	if (nr != info.nr_prog_tags || nr != info.nr_jited_func_lens)
		return 0; /* written without the rights to read everything; perf prints nothing either */

	struct bpf_functions functions = {
		.addresses = feature_bpf_array(prog, info.jited_ksyms, nr, sizeof(uint64_t)),
		.lengths = feature_bpf_array(prog, info.jited_func_lens, nr, sizeof(uint32_t)),
		.tags = feature_bpf_array(prog, info.prog_tags, nr, BPF_TAG_SIZE),
		.infos = feature_bpf_array(prog, info.func_info, info.nr_func_info, sizeof(struct bpf_func_info)),
	};
	if (nr && (functions.addresses.bad || functions.lengths.bad || functions.tags.bad))
		return -EBADMSG;
	if (info.nr_func_info >= nr && nr <= FUNCTIONS_MAX)
		functions.btf = find_btf(session, info.btf_id);
	buf_printf(out, "# bpf_prog_info %u:%s", info.id, nr == 1 ? " " : "\n");
	for (uint32_t i = 0; i < nr; i++) {
		if (nr > 1)
			buf_printf(out, "# \tsub_prog %u: ", i);
		put_function(&functions, &info, out);
	}
	return 0;
}

static int header_print_bpf_progs(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_bpf_prog prog;
	int got = feature_list_open(payload, &list);

	if (got)
		return got;
	while ((got = feature_list_bpf_prog(&list, &prog)) > 0) {
		int err = put_prog(session, &prog, out);
		if (err)
			return err;
	}
	return got;
}

static int header_print_bpf_btf(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_bpf_btf btf;
	int got = feature_list_open(payload, &list);

	(void)session;
	if (got)
		return got;
	while ((got = feature_list_bpf_btf(&list, &btf)) > 0)
		buf_printf(out, "# btf info of id %u\n", btf.id);
	return got;
}

static int header_print_nrcpus(struct session *session, struct span payload, struct buf *out)
{
	struct feature_nrcpus nr;
	int err = feature_decode_nrcpus(payload, &nr);

	(void)session;
	if (!err)
		buf_printf(out, "# nrcpus online : %u\n# nrcpus avail : %u\n", nr.online, nr.available);
	return err;
}

static int header_print_total_mem(struct session *session, struct span payload, struct buf *out)
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

	while (feature_list_string(&list, &cpus) > 0) {
		AUTO_ESCAPED shown = escaped_text(cpus);
		buf_printf(out, "# sibling %s : %s\n", label, shown.text);
	}
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

static int header_print_cpu_topology(struct session *session, struct span payload, struct buf *out)
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
		buf_printf(out, "# Core ID%s and Socket ID information is not available\n", dies ? ", Die ID" : "");
	return 0;
}

static int header_print_numa(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_numa_node node;
	int got = feature_list_open(payload, &list);

	(void)session;
	if (got)
		return got;
	while ((got = feature_list_numa(&list, &node)) > 0) {
		buf_printf(out, "# node%u meminfo  : total = %" PRIu64 " kB, free = %" PRIu64 " kB\n", node.node,
			   node.total_kb, node.free_kb);
		/* A node of memory alone; perf's word for no CPUs. */
		AUTO_ESCAPED cpus = escaped_text(*node.cpus ? node.cpus : "-1");
		buf_printf(out, "# node%u cpu list : %s\n", node.node, cpus.text);
	}
	return got;
}

static int header_print_pmus(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_pmu pmu;
	const char *before = "# pmu mappings: ";
	int got = feature_list_open(payload, &list);

	(void)session;
	if (got)
		return got;
	while ((got = feature_list_pmu(&list, &pmu)) > 0) {
		AUTO_ESCAPED name = escaped_text(pmu.name);
		buf_printf(out, "%s%s = %u", before, name.text, pmu.type);
		before = ", ";
	}
	buf_put_text(out, *before == '#' ? "# pmu mappings: not available\n" : "\n");
	return got;
}

static int header_print_caches(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_cache cache;
	int got = feature_caches_open(payload, &list);

	(void)session;
	if (got)
		return got;
	buf_put_text(out, "# CPU cache info:\n");
	while ((got = feature_list_cache(&list, &cache)) > 0) {
		AUTO_ESCAPED type = escaped_text(cache.type);
		AUTO_ESCAPED size = escaped_text(cache.size);
		AUTO_ESCAPED cpus = escaped_text(cache.cpus);
		buf_printf(out, "#  L%u %-15s %8s [%s]\n", cache.level, type.text, size.text, cpus.text);
	}
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

static int header_print_memory(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_memory_node node;
	uint64_t block_bytes;
	int got = feature_memory_open(payload, &list, &block_bytes);

	(void)session;
	if (got)
		return got;
	buf_printf(out, "# memory nodes (nr %" PRIu64 ", block size 0x%" PRIx64 "):\n", list.left, block_bytes);
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

	buf_put_text(out, "# ");
	escape_put_text(out, pmu);
	buf_put_text(out, " pmu capabilities: ");
	while ((got = feature_list_pair(pairs, &pair)) > 0) {
		AUTO_ESCAPED name = escaped_text(pair.name);
		AUTO_ESCAPED value = escaped_text(pair.value);
		buf_printf(out, "%s%s=%s", between, name.text, value.text);
		between = ", ";
	}
	buf_put_text(out, *between ? "\n" : "not available\n");
	return got;
}

static int header_print_cpu_pmu_caps(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list pairs;
	int err = feature_list_open(payload, &pairs);

	(void)session;
	return err ? err : put_caps("cpu", &pairs, out);
}

static int header_print_hybrid(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_pair pair;
	int got = feature_list_open(payload, &list);

	(void)session;
	if (got)
		return got;
	buf_put_text(out, "# hybrid cpu system:\n");
	while ((got = feature_list_pair(&list, &pair)) > 0) {
		AUTO_ESCAPED name = escaped_text(pair.name);
		AUTO_ESCAPED value = escaped_text(pair.value);
		buf_printf(out, "# %s cpu list : %s\n", name.text, value.text);
	}
	return got;
}

static int header_print_pmu_caps(struct session *session, struct span payload, struct buf *out)
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

static int print_string(struct span payload, const char *label, struct buf *out)
{
	const char *text;
	int err = feature_decode_string(payload, &text);

	if (err)
		return err;
	buf_printf(out, "# %s : ", label);
	escape_put_text(out, text);
	buf_put_u8(out, '\n');
	return 0;
}

static int print_hostname(struct session *session, struct span payload, struct buf *out)
{
	(void)session;
	return print_string(payload, "hostname", out);
}

static int print_osrelease(struct session *session, struct span payload, struct buf *out)
{
	(void)session;
	return print_string(payload, "os release", out);
}

static int print_version(struct session *session, struct span payload, struct buf *out)
{
	(void)session;
	return print_string(payload, "perf version", out);
}

static int print_arch(struct session *session, struct span payload, struct buf *out)
{
	(void)session;
	return print_string(payload, "arch", out);
}

static int print_cpudesc(struct session *session, struct span payload, struct buf *out)
{
	(void)session;
	return print_string(payload, "cpudesc", out);
}

static int print_cpuid(struct session *session, struct span payload, struct buf *out)
{
	(void)session;
	return print_string(payload, "cpuid", out);
}

/* Beyond what is always escaped only quotes are, so that a line cannot be taken back to a shell as it is. */
static void put_argument(const char *text, struct buf *out)
{
	AUTO_ESCAPED shown = escaped_text(text);

	for (const char *at = shown.text; *at; at++) {
		if (*at == '\'')
			buf_put_u8(out, '\\');
		buf_put_u8(out, (uint8_t)*at);
	}
	buf_put_u8(out, ' ');
}

static int print_cmdline(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	const char *text;
	int got = feature_list_open(payload, &list);

	(void)session;
	if (got)
		return got;
	buf_put_text(out, "# cmdline : ");
	while ((got = feature_list_string(&list, &text)) > 0)
		put_argument(text, out);
	buf_put_text(out, "\n");
	return got;
}

static void put_event(const struct event_desc *event, struct buf *out)
{
	AUTO_BUF struct buf attr = {0};

	buf_put_text(out, "# event : name = ");
	escape_put_text(out, event->name);
	buf_put_text(out, ", ");
	for (size_t i = 0; i < event->nr_ids; i++)
		buf_printf(out, "%s %" PRIu64, i ? "," : ", id = {", event->ids[i]);
	if (event->nr_ids)
		buf_put_text(out, " }");
	attr_text(&event->attr, " = ", &attr);
	buf_printf(out, ", %s\n", buf_text(&attr));
}

static int print_event_desc(struct session *session, struct span payload, struct buf *out)
{
	struct event_desc *events;
	size_t nr;
	int err = feature_decode_event_desc(payload, &events, &nr);

	(void)session;
	if (err)
		return err;
	for (size_t i = 0; i < nr; i++) {
		put_event(&events[i], out);
		event_desc_fini(&events[i]);
	}
	free(events);
	return 0;
}

static int print_branch_stack(struct session *session, struct span payload, struct buf *out)
{
	(void)session, (void)payload;
	buf_put_text(out, "# contains samples with branch stack\n");
	return 0;
}

static int print_auxtrace(struct session *session, struct span payload, struct buf *out)
{
	(void)session, (void)payload;
	buf_put_text(out, "# contains AUX area data (e.g. instruction trace)\n");
	return 0;
}

static int print_stat(struct session *session, struct span payload, struct buf *out)
{
	(void)session, (void)payload;
	buf_put_text(out, "# contains stat data\n");
	return 0;
}

/* Groups are taken in the order of their leaders; one that comes too late, or alone, is none. */
static int print_groups(struct session *session, struct span payload, struct buf *out)
{
	struct feature_list list;
	struct feature_group group;
	size_t nr_events, next = 0;
	const struct event_desc *events = session_events(session, &nr_events);
	int got = feature_list_open(payload, &list);

	if (got)
		return got;
	while ((got = feature_list_group(&list, &group)) > 0) {
		if (group.members < 2 || group.leader < next || group.leader >= nr_events)
			continue;
		size_t left = nr_events - group.leader;
		size_t nr = group.members < left ? group.members : left;
		bool named = strcmp(group.name, "{anon_group}") != 0;
		buf_put_text(out, "# group: ");
		escape_put_text(out, named ? group.name : "");
		for (size_t i = 0; i < nr; i++) {
			buf_put_u8(out, i ? ',' : '{');
			escape_put_text(out, events[group.leader + i].name);
		}
		buf_put_text(out, "}\n");
		next = group.leader + nr;
	}
	return got;
}

static void put_time(const char *which, uint64_t ns, struct buf *out)
{
	buf_printf(out, "# time of %s sample : %" PRIu64 ".%06" PRIu64 "\n", which, ns / 1000000000,
		   ns % 1000000000 / 1000);
}

static int print_sample_time(struct session *session, struct span payload, struct buf *out)
{
	struct feature_sample_time times;
	int err = feature_decode_sample_time(payload, &times);

	(void)session;
	if (err)
		return err;
	put_time("first", times.first_ns, out);
	put_time("last", times.last_ns, out);
	buf_printf(out, "# sample duration : %10.3f ms\n", (double)(times.last_ns - times.first_ns) / 1e6);
	return 0;
}

static int print_clockid(struct session *session, struct span payload, struct buf *out)
{
	uint64_t resolution_ns;
	int err = feature_decode_u64(payload, &resolution_ns);

	(void)session;
	if (!err)
		buf_printf(out, "# clockid frequency: %" PRIu64 " MHz\n", resolution_ns * 1000);
	return err;
}

static int print_dir_format(struct session *session, struct span payload, struct buf *out)
{
	uint64_t version;
	int err = feature_decode_u64(payload, &version);

	(void)session;
	if (!err)
		buf_printf(out, "# directory data version : %" PRIu64 "\n", version);
	return err;
}

static int print_compressed(struct session *session, struct span payload, struct buf *out)
{
	struct feature_compressed how;
	int err = feature_decode_compressed(payload, &how);

	(void)session;
	if (err)
		return err;
	buf_printf(out, "# compressed : %s, level = %u, ratio = %u\n",
		   how.type == FEATURE_COMPRESSED_ZSTD ? "Zstd" : "Unknown", how.level, how.ratio);
	return 0;
}

/* Clocks of record -k. */
static const char *clock_name(uint32_t clockid)
{
	switch (clockid) {
	case CLOCK_REALTIME: return "realtime";
	case CLOCK_MONOTONIC: return "monotonic";
	case CLOCK_MONOTONIC_RAW: return "monotonic_raw";
	case CLOCK_BOOTTIME: return "boottime";
	case CLOCK_TAI: return "tai";
	default: return "(not found)";
	}
}

static int print_clock(struct session *session, struct span payload, struct buf *out)
{
	struct feature_clock clock;
	struct tm local;
	char date[64] = "";
	int err = feature_decode_clock(payload, &clock);

	(void)session;
	if (err)
		return err;
	if (clock.version != 1) {
		buf_put_text(out, "# reference time disabled\n");
		return 0;
	}
	time_t wall_s = (time_t)(clock.wall_ns / 1000000000);
	uint64_t wall_us = clock.wall_ns % 1000000000 / 1000;
	if (localtime_r(&wall_s, &local))
		strftime(date, sizeof(date), "%F %T", &local);
	buf_printf(out, "# clockid: %s (%u)\n", clock_name(clock.clockid), clock.clockid);
	buf_printf(out, "# reference time: %s.%06" PRIu64 " = %" PRIu64 ".%06" PRIu64 " (TOD) = ", date, wall_us,
		   (uint64_t)wall_s, wall_us);
	buf_printf(out, "%" PRIu64 ".%09" PRIu64 " (%s)\n", clock.clock_ns / 1000000000, clock.clock_ns % 1000000000,
		   clock_name(clock.clockid));
	return 0;
}

/* Appends the lines of one feature: 0, or -EBADMSG. */
static const struct printer {
	enum feature_bit bit;
	bool full_only; /* long: only with -I */
	int (*print)(struct session *session, struct span payload, struct buf *out);
} printers[] = {
	{FEATURE_HOSTNAME, false, print_hostname},
	{FEATURE_OSRELEASE, false, print_osrelease},
	{FEATURE_VERSION, false, print_version},
	{FEATURE_ARCH, false, print_arch},
	{FEATURE_NRCPUS, false, header_print_nrcpus},
	{FEATURE_CPUDESC, false, print_cpudesc},
	{FEATURE_CPUID, false, print_cpuid},
	{FEATURE_TOTAL_MEM, false, header_print_total_mem},
	{FEATURE_CMDLINE, false, print_cmdline},
	{FEATURE_EVENT_DESC, false, print_event_desc},
	{FEATURE_CPU_TOPOLOGY, true, header_print_cpu_topology},
	{FEATURE_NUMA_TOPOLOGY, true, header_print_numa},
	{FEATURE_BRANCH_STACK, false, print_branch_stack},
	{FEATURE_PMU_MAPPINGS, false, header_print_pmus},
	{FEATURE_GROUP_DESC, false, print_groups},
	{FEATURE_AUXTRACE, false, print_auxtrace},
	{FEATURE_STAT, false, print_stat},
	{FEATURE_CACHE, true, header_print_caches},
	{FEATURE_SAMPLE_TIME, false, print_sample_time},
	{FEATURE_MEM_TOPOLOGY, true, header_print_memory},
	{FEATURE_CLOCKID, false, print_clockid},
	{FEATURE_DIR_FORMAT, false, print_dir_format},
	{FEATURE_BPF_PROG_INFO, false, header_print_bpf_progs},
	{FEATURE_BPF_BTF, false, header_print_bpf_btf},
	{FEATURE_COMPRESSED, false, print_compressed},
	{FEATURE_CPU_PMU_CAPS, false, header_print_cpu_pmu_caps},
	{FEATURE_CLOCK_DATA, false, print_clock},
	{FEATURE_HYBRID_TOPOLOGY, true, header_print_hybrid},
	{FEATURE_PMU_CAPS, false, header_print_pmu_caps},
};

static void put_feature(struct session *session, const struct printer *printer, bool full, struct buf *out)
{
	struct span payload;
	size_t start = out->len;

	if (!session_feature(session, printer->bit, &payload))
		return;
	if (printer->full_only && !full) {
		buf_printf(out, "# %s info available, use -I to display\n", feature_name(printer->bit));
		return;
	}
	if (printer->print(session, payload, out)) {
		out->len = start;
		buf_printf(out, "# %s: section is damaged, not shown\n", feature_name(printer->bit));
	}
}

static void put_features(struct session *session, bool full, struct buf *out)
{
	for (size_t i = 0; i < sizeof(printers) / sizeof(printers[0]); i++)
		put_feature(session, &printers[i], full, out);
}

/* What a file of perf 6.1 could have and this one has not. */
static void put_missing(const uint64_t bits[LAYOUT_FEATURE_WORDS], struct buf *out)
{
	buf_put_text(out, "# missing features: ");
	for (unsigned bit = 0; bit < FEATURE_BITS; bit++) {
		const char *name = feature_name(bit);
		if (name && !(bits[bit / 64] >> bit % 64 & 1))
			buf_printf(out, "%s ", name);
	}
	buf_put_text(out, "\n");
}

static void put_file(const struct session_info *info, struct buf *out)
{
	const struct file_section *data = &info->header.data;
	time_t mtime = (time_t)(info->mtime_ns / 1000000000);
	char date[32];

	buf_printf(out, "# captured on    : %s", ctime_r(&mtime, date) ? date : "?\n");
	buf_put_text(out, "# header version : 1\n");
	buf_printf(out, "# data offset    : %" PRIu64 "\n", info->pipe ? 0 : data->offset);
	buf_printf(out, "# data size      : %" PRIu64 "\n", info->pipe ? 0 : data->size);
	buf_printf(out, "# feat offset    : %" PRIu64 "\n", info->pipe ? 0 : data->offset + data->size);
}

void header_print(FILE *to, struct session *session, bool full)
{
	static const char rule[] = "# ========\n";
	const struct session_info *info = session_info(session);
	AUTO_BUF struct buf out = {0};

	buf_put_text(&out, rule);
	put_file(info, &out);
	if (info->pipe) { /* the features of a pipe come after its start */
		buf_printf(&out, "%s#\n", rule);
		put_features(session, full, &out);
	} else {
		put_features(session, full, &out);
		put_missing(info->header.features, &out);
		buf_printf(&out, "%s#\n", rule);
	}
	fwrite(out.data, 1, out.len, to);
}
