/* SPDX-License-Identifier: MIT */
#include "cmd/header_text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/header_bpf.h"
#include "cmd/header_machine.h"
#include "format/attr_text.h"
#include "format/feature.h"
#include "read/session.h"

static int print_string(struct span payload, const char *label, struct buf *out)
{
	const char *text;
	int err = feature_decode_string(payload, &text);

	if (!err)
		buf_printf(out, "# %s : %s\n", label, text);
	return err;
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

/* Only quotes are escaped, so that a line cannot be taken back to a shell as it is. */
static void put_argument(const char *text, struct buf *out)
{
	for (; *text; text++) {
		if (*text == '\'')
			buf_put_u8(out, '\\');
		buf_put_u8(out, (uint8_t)*text);
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

	buf_printf(out, "# event : name = %s, ", event->name);
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
		buf_printf(out, "# group: %s{%s", named ? group.name : "", events[group.leader].name);
		for (size_t i = 1; i < nr; i++)
			buf_printf(out, ",%s", events[group.leader + i].name);
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

/* The clocks that a recording can be told to use. */
static const char *clock_name(uint32_t clockid)
{
	switch (clockid) {
	case CLOCK_REALTIME:
		return "realtime";
	case CLOCK_MONOTONIC:
		return "monotonic";
	case CLOCK_MONOTONIC_RAW:
		return "monotonic_raw";
	case CLOCK_BOOTTIME:
		return "boottime";
	case CLOCK_TAI:
		return "tai";
	default:
		return "(not found)";
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
	buf_printf(out, "# reference time: %s.%06" PRIu64 " = %" PRIu64 ".%06" PRIu64 " (TOD) = ", date,
		   wall_us, (uint64_t)wall_s, wall_us);
	buf_printf(out, "%" PRIu64 ".%09" PRIu64 " (%s)\n", clock.clock_ns / 1000000000,
		   clock.clock_ns % 1000000000, clock_name(clock.clockid));
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
	time_t mtime = (time_t)info->mtime;
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
	if (info->pipe) { /* nobody knows at its start which features a pipe will have */
		buf_printf(&out, "%s#\n", rule);
		put_features(session, full, &out);
	} else {
		put_features(session, full, &out);
		put_missing(info->header.features, &out);
		buf_printf(&out, "%s#\n", rule);
	}
	fwrite(out.data, 1, out.len, to);
}
