/* SPDX-License-Identifier: MIT */
/* features: the header sections that need no look at the hardware; those of the machine: features_machine.c. */
#include "record/features/features.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <linux/bpf.h>
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
#include "record/features/features_private.h"
#include "sysinfo/bpf_object.h"

enum { TEXT_MAX_BYTES = 1 << 20 };

static char *read_text(const char *path)
{
	AUTO_BUF struct buf text = {0};

	if (fd_slurp(path, TEXT_MAX_BYTES, &text))
		return NULL;
	while (text.len && isspace(text.data[text.len - 1]))
		text.len--;
	return strdup(buf_text(&text));
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

uint32_t features_host_u32(uint32_t otherwise, const char *format, ...)
{
	char path[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);

	AUTO_FREE char *text = read_text(path);
	char *end;
	if (!text)
		return otherwise;
	errno = 0;
	long value = strtol(text, &end, 10);
	return errno || end == text ? otherwise : (uint32_t)value;
}

char *features_host_field(const char *path, const char *key)
{
	AUTO_FILE FILE *file = fopen(path, "re");
	AUTO_FREE char *line = NULL;
	size_t room = 0, key_len = strlen(key);

	while (file && getline(&line, &room, file) > 0) {
		if (strncmp(line, key, key_len))
			continue;
		char *value = line + key_len + strspn(line + key_len, " \t");
		if (*value++ != ':')
			continue;
		value += strspn(value, " \t");
		value[strcspn(value, "\n")] = '\0';
		return strdup(value);
	}
	return NULL;
}

/*
 * BPF_PROG_INFO and BPF_BTF: the programs that are loaded, and the types that name their functions.
 * Source: bpf(2), <linux/bpf.h>; which arrays of a program are stored, and how: files of perf 6.1.
 */

/* An array that the info points to. */
struct info_array {
	unsigned bit;          /* in the entry's word of arrays */
	size_t pointer, count; /* where in the info */
	size_t element_at;     /* where in the info its size is; or 0: */
	uint32_t element_bytes;
};

#define AT(field) offsetof(struct bpf_prog_info, field)

/*
 * What perf stores; bits 1 and 2 are the instructions before compilation and the maps, which it leaves
 * out.
 */
static const struct info_array arrays[] = {
	{0, AT(jited_prog_insns), AT(jited_prog_len), 0, 1},
	{3, AT(jited_ksyms), AT(nr_jited_ksyms), 0, sizeof(uint64_t)},
	{4, AT(jited_func_lens), AT(nr_jited_func_lens), 0, sizeof(uint32_t)},
	{5, AT(func_info), AT(nr_func_info), AT(func_info_rec_size), 0},
	{6, AT(line_info), AT(nr_line_info), AT(line_info_rec_size), 0},
	{7, AT(jited_line_info), AT(nr_jited_line_info), AT(jited_line_info_rec_size), 0},
	{8, AT(prog_tags), AT(nr_prog_tags), 0, BPF_TAG_SIZE},
};
#define NR_ARRAYS (sizeof(arrays) / sizeof(arrays[0]))

static uint32_t info_u32(const struct bpf_prog_info *info, size_t at)
{
	uint32_t value;

	memcpy(&value, (const char *)info + at, sizeof(value));
	return value;
}

static uint64_t array_bytes(const struct bpf_prog_info *info, const struct info_array *array)
{
	uint64_t element = array->element_at ? info_u32(info, array->element_at) : array->element_bytes;

	return element * info_u32(info, array->count);
}

static void copy_field(struct bpf_prog_info *to, const struct bpf_prog_info *from, size_t at)
{
	if (at)
		memcpy((char *)to + at, (const char *)from + at, sizeof(uint32_t));
}

/*
 * Asks for the arrays, each at a multiple of 8 in `data`. The pointers of the answer become offsets. The
 * program may have been replaced between the calls: an answer that counts more than was asked for is -EAGAIN.
 */
static int prog_read_arrays(int fd, const struct bpf_prog_info *sizes, struct buf *data, struct bpf_prog_info *ret)
{
	uint64_t offsets[NR_ARRAYS];
	struct bpf_prog_info info = {0};

	for (size_t i = 0; i < NR_ARRAYS; i++) {
		offsets[i] = data->len;
		if (array_bytes(sizes, &arrays[i]) > BPF_OBJECT_MAX_BYTES)
			return -EFBIG;
		buf_extend(data, array_bytes(sizes, &arrays[i]));
		buf_align(data, 8);
	}
	if (data->failed)
		return -ENOMEM;
	for (size_t i = 0; i < NR_ARRAYS; i++) {
		uint64_t to = (uint64_t)(uintptr_t)(data->data + offsets[i]);
		copy_field(&info, sizes, arrays[i].count);
		copy_field(&info, sizes, arrays[i].element_at);
		memcpy((char *)&info + arrays[i].pointer, &to, sizeof(to));
	}
	int len = bpf_object_info(fd, &info, sizeof(info));
	if (len < 0)
		return len;
	for (size_t i = 0; i < NR_ARRAYS; i++) {
		if (array_bytes(&info, &arrays[i]) > array_bytes(sizes, &arrays[i]))
			return -EAGAIN;
		memcpy((char *)&info + arrays[i].pointer, &offsets[i], sizeof(offsets[i]));
	}
	*ret = info;
	return len;
}

/* Appends the entry of a program. 0, or -errno when it cannot be described. */
static int put_prog(uint32_t id, struct buf *out)
{
	AUTO_FD int fd = bpf_object_open_program(id);
	struct bpf_prog_info sizes = {0}, info;
	AUTO_BUF struct buf data = {0};

	if (fd < 0)
		return fd;
	int len = bpf_object_info(fd, &sizes, sizeof(sizes));
	if (len >= 0)
		len = prog_read_arrays(fd, &sizes, &data, &info);
	if (len < 0)
		return len;

	struct feature_bpf_prog prog = {.info = {&info, (size_t)len}, .data = buf_span(&data)};
	for (size_t i = 0; i < NR_ARRAYS; i++)
		prog.arrays |= 1u << arrays[i].bit;
	feature_put_bpf_prog(&prog, out);
	return 0;
}

static int put_btf(uint32_t id, struct buf *out)
{
	AUTO_BUF struct buf data = {0};
	int err = bpf_object_read_btf(id, &data);

	if (!err)
		feature_put_bpf_btf(&(struct feature_bpf_btf){.id = id, .data = buf_span(&data)}, out);
	return err;
}

/* The BTF of a program; 0: it has none. */
static uint32_t prog_btf_id(uint32_t id)
{
	AUTO_FD int fd = bpf_object_open_program(id);
	struct bpf_prog_info info = {0};

	return fd >= 0 && bpf_object_info(fd, &info, sizeof(info)) >= 0 ? info.btf_id : 0;
}

/* Puts a count in the place that was left for it at `at`. */
static int set_count(struct buf *out, size_t at, uint32_t nr)
{
	if (out->failed)
		return -ENOMEM;
	memcpy(out->data + at, &nr, sizeof(nr));
	return 1;
}

/* A program that goes away, or that may not be looked at, is left out. */
int features_host_bpf_progs(struct buf *out)
{
	size_t count_at = out->len;
	uint32_t nr = 0;

	buf_put_u32(out, 0);
	for (uint32_t id = 0; bpf_object_next_program(&id) == 0;)
		nr += put_prog(id, out) == 0;
	return set_count(out, count_at, nr);
}

static bool seen_before(const struct buf *seen, uint32_t id)
{
	for (size_t at = 0; at < seen->len; at += sizeof(id))
		if (!memcmp(seen->data + at, &id, sizeof(id)))
			return true;
	return false;
}

/* Programs of one object file share their BTF, which is stored once. */
int features_host_bpf_btf(struct buf *out)
{
	AUTO_BUF struct buf seen = {0};
	size_t count_at = out->len;
	uint32_t nr = 0;

	buf_put_u32(out, 0);
	for (uint32_t id = 0; bpf_object_next_program(&id) == 0;) {
		uint32_t btf = prog_btf_id(id);
		if (!btf || seen_before(&seen, btf))
			continue;
		buf_put_u32(&seen, btf);
		nr += put_btf(btf, out) == 0;
	}
	return set_count(out, count_at, nr);
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

/* That clock and the time of day at one moment: readers show the latter by it. */
static int collect_clock_data(const struct features_params *params, struct buf *out)
{
	const struct perf_event_attr *attr = attr_with_clock(params);

	if (!attr)
		return 0;
	struct feature_clock clock = {
		.version = 1,
		.clockid = (uint32_t)attr->clockid,
		.wall_ns = clock_ns(CLOCK_REALTIME),
		.clock_ns = clock_ns(attr->clockid),
	};
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
	{.bit = FEATURE_BPF_PROG_INFO, .in_pipe = true, .host = features_host_bpf_progs},
	{.bit = FEATURE_BPF_BTF, .in_pipe = true, .host = features_host_bpf_btf},
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
