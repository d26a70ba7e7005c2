/* SPDX-License-Identifier: MIT */
/* features: the header sections that need no look at the hardware; those of the machine: features_machine.c. */
#include "record/features/features.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "config.h"
#include "event/names/names.h"
#include "perfdata/feature.h"
#include "record/features/bpf_programs.h"
#include "record/features/features_private.h"

enum { TEXT_MAX_BYTES = 1 << 20 };

static char *strip(struct buf *text)
{
	while (text->len && isspace(text->data[text->len - 1]))
		text->len--;
	return strdup(buf_text(text));
}

static char *read_text(const char *path)
{
	AUTO_BUF struct buf text = {0};

	return fd_slurp(path, TEXT_MAX_BYTES, &text) ? NULL : strip(&text);
}

char *features_host_text(const char *format, ...)
{
	char path[4096];
	va_list args;

	va_start(args, format);
	int len = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	return len < 0 || (size_t)len >= sizeof(path) ? NULL : read_text(path);
}

int features_host_directory(const char *format, ...)
{
	char path[4096];
	va_list args;

	va_start(args, format);
	int len = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	return len < 0 || (size_t)len >= sizeof(path) ? -1 : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

char *features_host_text_at(int dir_fd, const char *name)
{
	/* All that there is, or a part of that length, comes with each read. Source: kernfs_file_read_iter() */
	enum { PART = 4096 };
	AUTO_BUF struct buf text = {0};
	AUTO_FD int fd = dir_fd < 0 ? -1 : openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	char part[PART];
	ssize_t len = fd < 0 ? -1 : read(fd, part, PART);

	if (len < 0)
		return NULL;
	buf_put(&text, part, (size_t)len);
	if (len == PART && fd_slurp_rest(fd, TEXT_MAX_BYTES, &text))
		return NULL;
	return strip(&text);
}

static uint32_t number_of(const char *text, uint32_t otherwise)
{
	char *end;

	if (!text)
		return otherwise;
	errno = 0;
	long value = strtol(text, &end, 10);
	return errno || end == text ? otherwise : (uint32_t)value;
}

uint32_t features_host_u32_at(uint32_t otherwise, int dir_fd, const char *name)
{
	AUTO_FREE char *text = features_host_text_at(dir_fd, name);

	return number_of(text, otherwise);
}

uint32_t features_host_u32(uint32_t otherwise, const char *format, ...)
{
	char path[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);

	AUTO_FREE char *text = read_text(path);
	return number_of(text, otherwise);
}

/* What is behind the key and its blanks; NULL: it is another line. */
static char *field_of(char *line, const char *key)
{
	size_t len = strlen(key);

	if (strncmp(line, key, len))
		return NULL;
	char *value = line + len + strspn(line + len, " \t");
	if (*value++ != ':')
		return NULL;
	value += strspn(value, " \t");
	value[strcspn(value, "\n")] = '\0';
	return strdup(value);
}

void features_host_fields(const char *path, const char *const keys[], size_t nr, char *ret[])
{
	AUTO_FILE FILE *file = fopen(path, "re");
	AUTO_FREE char *line = NULL;
	size_t room = 0, nr_found = 0;

	for (size_t i = 0; i < nr; i++)
		ret[i] = NULL;
	while (file && nr_found < nr && getline(&line, &room, file) > 0) {
		for (size_t i = 0; i < nr; i++) {
			if (!ret[i] && (ret[i] = field_of(line, keys[i]))) {
				nr_found++;
				break;
			}
		}
	}
}

/* One string of uname(2). */
static int put_uname(size_t offset, struct buf *out)
{
	struct utsname names;

	if (uname(&names))
		return 0;
	feature_put_string(out, (const char *)&names + offset);
	return 1;
}

static int collect_hostname(const struct features_params *params, struct buf *out)
{
	(void)params;
	return put_uname(offsetof(struct utsname, nodename), out);
}

static int collect_osrelease(const struct features_params *params, struct buf *out)
{
	(void)params;
	return put_uname(offsetof(struct utsname, release), out);
}

static int collect_arch(const struct features_params *params, struct buf *out)
{
	(void)params;
	return put_uname(offsetof(struct utsname, machine), out);
}

/* Readers show this as "perf version": say whose version it is. */
static int collect_version(const struct features_params *params, struct buf *out)
{
	(void)params;
	feature_put_string(out, "millrace " MILLRACE_VERSION);
	return 1;
}

static int collect_cmdline(const struct features_params *params, struct buf *out)
{
	char program[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);

	if (len <= 0)
		return 0;
	program[len] = '\0';
	feature_encode_cmdline(program, params->argc, params->argv, out);
	return 1;
}

static int collect_event_desc(const struct features_params *params, struct buf *out)
{
	feature_encode_event_desc(params->events, params->nr_events, out);
	return 1;
}

/* The section is empty: that it is there makes readers look for branches. */
static int collect_branch_stack(const struct features_params *params, struct buf *out)
{
	(void)out;
	for (size_t i = 0; i < params->nr_events; i++)
		if (params->events[i].attr.sample_type & PERF_SAMPLE_BRANCH_STACK)
			return 1;
	return 0;
}

static const struct perf_event_attr *attr_with_clock(const struct features_params *params)
{
	for (size_t i = 0; i < params->nr_events; i++)
		if (params->events[i].attr.use_clockid)
			return &params->events[i].attr;
	return NULL;
}

/* The resolution of the clock of -k. */
static int collect_clockid(const struct features_params *params, struct buf *out)
{
	const struct perf_event_attr *attr = attr_with_clock(params);
	struct timespec resolution;

	if (!attr || clock_getres(attr->clockid, &resolution))
		return 0;
	buf_put_u64(out, (uint64_t)resolution.tv_sec * 1000000000u + (uint64_t)resolution.tv_nsec);
	return 1;
}

enum { CLOCK_TRIES = 10, CLOCK_NEAR_NS = 10000 };

/* A thread may be preempted between two readings, for many ms: the nearest of some tries is taken. */
static void read_clocks(clockid_t clockid, struct feature_clock *ret)
{
	uint64_t nearest_ns = UINT64_MAX;

	for (unsigned i = 0; i < CLOCK_TRIES && nearest_ns > CLOCK_NEAR_NS; i++) {
		uint64_t before_ns = clock_ns(clockid), wall_ns = clock_ns(CLOCK_REALTIME),
			 apart_ns = clock_ns(clockid) - before_ns;
		if (apart_ns >= nearest_ns)
			continue;
		nearest_ns = apart_ns;
		ret->wall_ns = wall_ns;
		ret->clock_ns = before_ns + apart_ns / 2;
	}
}

/* That clock and the time of day at one moment: readers show the latter by it. */
static int collect_clock_data(const struct features_params *params, struct buf *out)
{
	const struct perf_event_attr *attr = attr_with_clock(params);

	if (!attr)
		return 0;
	struct feature_clock clock = {.version = 1, .clockid = (uint32_t)attr->clockid};
	read_clocks(attr->clockid, &clock);
	feature_encode_clock(&clock, out);
	return 1;
}

static int collect_groups(const struct features_params *params, struct buf *out)
{
	feature_encode_groups(params->groups, params->nr_groups, out);
	return params->nr_groups > 0;
}

static int collect_compressed(const struct features_params *params, struct buf *out)
{
	if (params->compressed)
		feature_encode_compressed(params->compressed, out);
	return params->compressed != NULL;
}

static int collect_bpf_progs(const struct features_params *params, struct buf *out)
{
	return bpf_programs_describe(params->bpf_programs, out);
}

static int collect_bpf_types(const struct features_params *params, struct buf *out)
{
	return bpf_programs_describe_types(params->bpf_programs, out);
}

/*
 * A collector appends a payload: 1, 0 when there is none, -ENOMEM. Exactly one of the two functions is
 * set.
 */
struct collector {
	enum feature_bit bit;
	bool in_pipe;
	int (*recording)(const struct features_params *params, struct buf *out);
	int (*host)(struct buf *out);
};

static const struct collector collectors[] = {
	{.bit = FEATURE_HOSTNAME, .in_pipe = true, .recording = collect_hostname},
	{.bit = FEATURE_OSRELEASE, .in_pipe = true, .recording = collect_osrelease},
	{.bit = FEATURE_VERSION, .in_pipe = true, .recording = collect_version},
	{.bit = FEATURE_ARCH, .in_pipe = true, .recording = collect_arch},
	{.bit = FEATURE_NRCPUS, .in_pipe = true, .host = features_host_nrcpus},
	{.bit = FEATURE_CPUDESC, .in_pipe = true, .host = features_host_cpudesc},
	{.bit = FEATURE_CPUID, .in_pipe = true, .host = features_host_cpuid},
	{.bit = FEATURE_TOTAL_MEM, .in_pipe = true, .host = features_host_total_mem},
	{.bit = FEATURE_CMDLINE, .in_pipe = true, .recording = collect_cmdline},
	{.bit = FEATURE_EVENT_DESC, .in_pipe = true, .recording = collect_event_desc},
	{.bit = FEATURE_CPU_TOPOLOGY, .in_pipe = true, .host = features_host_cpu_topology},
	{.bit = FEATURE_NUMA_TOPOLOGY, .in_pipe = true, .host = features_host_numa},
	{.bit = FEATURE_BRANCH_STACK, .recording = collect_branch_stack},
	{.bit = FEATURE_PMU_MAPPINGS, .in_pipe = true, .host = features_host_pmus},
	{.bit = FEATURE_GROUP_DESC, .in_pipe = true, .recording = collect_groups},
	{.bit = FEATURE_CACHE, .host = features_host_caches},
	{.bit = FEATURE_MEM_TOPOLOGY, .in_pipe = true, .host = features_host_memory},
	{.bit = FEATURE_CLOCKID, .in_pipe = true, .recording = collect_clockid},
	{.bit = FEATURE_BPF_PROG_INFO, .in_pipe = true, .recording = collect_bpf_progs},
	{.bit = FEATURE_BPF_BTF, .in_pipe = true, .recording = collect_bpf_types},
	{.bit = FEATURE_COMPRESSED, .in_pipe = true, .recording = collect_compressed},
	{.bit = FEATURE_CPU_PMU_CAPS, .in_pipe = true, .host = features_host_cpu_pmu_caps},
	{.bit = FEATURE_CLOCK_DATA, .in_pipe = true, .recording = collect_clock_data},
	{.bit = FEATURE_HYBRID_TOPOLOGY, .host = features_host_hybrid},
	{.bit = FEATURE_PMU_CAPS, .in_pipe = true, .host = features_host_pmu_caps},
};

static int collect_one(const struct collector *collector, const struct features_params *params, struct feature_set *set)
{
	AUTO_BUF struct buf payload = {0};
	int got = collector->recording ? collector->recording(params, &payload) : collector->host(&payload);

	return got > 0 ? feature_set_add(set, collector->bit, &payload) : got;
}

int tracing_data_collect(const char *const *tracepoints, size_t nr, struct buf *out, struct diag *reterr)
{
	const char *root = tracefs_path(reterr);

	return root ? tracing_data_read(root, tracepoints, nr, out, reterr) : -ENOENT;
}

static int collect_tracing_data(const struct features_params *params, struct feature_set *set)
{
	AUTO_BUF struct buf blob = {0};
	struct diag diag = {""};
	int err = tracing_data_collect(params->tracepoints, params->nr_tracepoints, &blob, &diag);

	if (err)
		log_error("tracepoints cannot be described: %s", diag.text);
	return err ? err : feature_set_add(set, FEATURE_TRACING_DATA, &blob);
}

int features_collect(const struct features_params *params, struct feature_set *ret)
{
	struct feature_set set = {0};
	int err = 0;

	if (params->nr_tracepoints && !params->pipe)
		err = collect_tracing_data(params, &set);
	for (size_t i = 0; !err && i < sizeof(collectors) / sizeof(collectors[0]); i++)
		if (!params->pipe || collectors[i].in_pipe)
			err = collect_one(&collectors[i], params, &set);
	if (err) {
		feature_set_fini(&set);
		return err;
	}
	*ret = set;
	return 0;
}
