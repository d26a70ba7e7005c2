/* SPDX-License-Identifier: MIT */
/* The PMUs of this machine: PMU_MAPPINGS, CPU_PMU_CAPS, HYBRID_TOPOLOGY, PMU_CAPS. */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "format/feature_pmu.h"
#include "record/features_host.h"

#define PMUS "/sys/bus/event_source/devices"

static void cleanup_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

#define AUTO_DIR __attribute__((cleanup(cleanup_dir)))

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

/* Those that are hybrid, or those that are not. */
static uint32_t put_pmus_caps(bool hybrid, struct buf *out)
{
	AUTO_DIR DIR *dir = opendir(PMUS);
	uint32_t nr = 0;

	for (const char *name; (name = next_name(dir));) {
		if (!strcmp(name, "cpu") || pmu_is_hybrid(name) != hybrid)
			continue;
		size_t start = out->len;
		if (!put_caps(name, out)) {
			out->len = start;
			continue;
		}
		feature_put_string(out, name);
		nr++;
	}
	return nr;
}

/* Hybrid PMUs first, as in perf, whose older readers knew only those. */
int features_host_pmu_caps(struct buf *out)
{
	size_t count_at = out->len;

	buf_put_u32(out, 0);
	uint32_t nr = put_pmus_caps(true, out);
	nr += put_pmus_caps(false, out);
	set_count(out, count_at, nr);
	return 1;
}
