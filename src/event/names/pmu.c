/* SPDX-License-Identifier: MIT */
#include "event/names/names.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "base/fd.h"
#include "event/names/pmu_cpus.h"

enum {
	PMU_FILE_BYTES = 4096,  /* a file of sysfs has at most a page */
	PMU_CPUS_BYTES = 65536, /* of a list of CPUs; also with larger pages */
};

static bool is_file_name(const char *name)
{
	return name[0] && name[0] != '.' && !strchr(name, '/');
}

/* "PATH/FOLDER/NAME"; false when it does not fit, or NAME is none. */
static bool join_path(char ret[PATH_MAX], const char *path, const char *folder, const char *name)
{
	return is_file_name(name) && snprintf(ret, PATH_MAX, "%s%s/%s", path, folder, name) < PATH_MAX;
}

int pmu_open(const char *sources, const char *name, struct pmu *ret)
{
	char path[PATH_MAX], type_path[PATH_MAX];
	long type;

	if (!join_path(path, sources, "", name) || !join_path(type_path, path, "", "type"))
		return -ENOENT;
	if (fd_slurp_long(type_path, &type) < 0 || type < 0 || type > UINT32_MAX)
		return -ENOENT;
	memcpy(ret->path, path, sizeof(path));
	ret->type = (uint32_t)type;
	return 0;
}

/* -ENOENT: the PMU has neither file; else 0, or -errno. */
static int read_cpus(const struct pmu *pmu, struct cpuset *ret)
{
	AUTO_BUF struct buf text = {0};
	char path[PATH_MAX];

	/* The order is perf's. Of a PMU beside the CPUs: one CPU of each package reads it for all of them. */
	if (!join_path(path, pmu->path, "", "cpumask") || fd_slurp(path, PMU_CPUS_BYTES, &text) < 0) {
		text.len = 0;
		if (!join_path(path, pmu->path, "", "cpus") || fd_slurp(path, PMU_CPUS_BYTES, &text) < 0)
			return -ENOENT;
	}
	/* All of its CPUs are offline. */
	return strcmp(buf_text(&text), "\n") == 0 ? 0 : cpuset_parse(ret, buf_text(&text));
}

static bool has_all_online(const struct cpuset *cpus)
{
	struct cpuset online = {0};
	bool has = cpuset_online(&online) == 0;

	for (int cpu = cpuset_next(&online, 0); cpu >= 0 && has; cpu = cpuset_next(&online, cpu + 1))
		has = cpuset_has(cpus, (unsigned)cpu);
	cpuset_fini(&online);
	return has;
}

bool pmu_find_cpus(const char *sources, uint32_t type, struct cpuset *ret)
{
	AUTO_DIR DIR *dir = opendir(sources);
	struct cpuset cpus = {0};
	struct pmu pmu;

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (pmu_open(sources, entry->d_name, &pmu) < 0 || pmu.type != type)
			continue;
		if (read_cpus(&pmu, &cpus) < 0 || has_all_online(&cpus))
			break;
		*ret = cpus;
		return true;
	}
	cpuset_fini(&cpus);
	return false;
}

static bool is_core_pmu(const char *sources, const char *name, struct pmu *ret)
{
	struct cpuset cpus = {0};
	char path[PATH_MAX];
	bool is = strncmp(name, "cpu_", 4) == 0 && strlen(name) < CORE_PMU_NAME_BYTES &&
		  pmu_open(sources, name, ret) == 0 && join_path(path, ret->path, "", "cpus") &&
		  access(path, R_OK) == 0 && read_cpus(ret, &cpus) == 0 && cpuset_next(&cpus, 0) >= 0;

	cpuset_fini(&cpus);
	return is;
}

size_t pmu_find_cores(const char *sources, struct core_pmu ret[CORE_PMUS_MAX])
{
	AUTO_DIR DIR *dir = opendir(sources);
	size_t nr = 0;
	struct pmu pmu;

	for (struct dirent *entry; dir && nr < CORE_PMUS_MAX && (entry = readdir(dir));) {
		if (!is_core_pmu(sources, entry->d_name, &pmu))
			continue;
		size_t at = nr++;
		for (; at && ret[at - 1].type > pmu.type; at--)
			ret[at] = ret[at - 1];
		ret[at].type = pmu.type;
		memcpy(ret[at].name, entry->d_name, strlen(entry->d_name) + 1);
	}
	return nr;
}

static int event_terms(const char *pmu_path, const char *name, struct buf *ret)
{
	char path[PATH_MAX];

	/* "NAME.scale" and "NAME.unit" stand beside the events; they are none. */
	if (strchr(name, '.') || !join_path(path, pmu_path, "/events", name))
		return -ENOENT;
	return fd_slurp(path, PMU_FILE_BYTES, ret) < 0 ? -ENOENT : 0;
}

/* The same, of the first event whose name differs in nothing but the case of letters. */
static int event_terms_any_case(const char *pmu_path, const char *name, struct buf *ret)
{
	char path[PATH_MAX];
	AUTO_DIR DIR *dir = join_path(path, pmu_path, "", "events") ? opendir(path) : NULL;

	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (strcasecmp(entry->d_name, name) == 0 && event_terms(pmu_path, entry->d_name, ret) == 0)
			return 0;
	return -ENOENT;
}

int pmu_event_terms(const struct pmu *pmu, const char *name, struct buf *ret)
{
	return event_terms(pmu->path, name, ret) == 0 ? 0 : event_terms_any_case(pmu->path, name, ret);
}

static int find_event(const char *sources, const char *name,
		      int (*terms)(const char *pmu_path, const char *name, struct buf *ret), struct pmu *ret,
		      struct buf *ret_terms)
{
	AUTO_DIR DIR *dir = opendir(sources);
	char path[PATH_MAX];

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (!join_path(path, sources, "", entry->d_name) || terms(path, name, ret_terms) < 0)
			continue;
		if (pmu_open(sources, entry->d_name, ret) == 0)
			return 0;
		ret_terms->len = 0;
	}
	return -ENOENT;
}

int pmu_find_event(const char *sources, const char *name, struct pmu *ret, struct buf *ret_terms)
{
	int err = find_event(sources, name, event_terms, ret, ret_terms);

	return err == 0 ? 0 : find_event(sources, name, event_terms_any_case, ret, ret_terms);
}

/* "config:0-7,32-35" or "config1:0". */
static int parse_format(const char *text, struct pmu_format *ret)
{
	static const char *const words[] = {
		[PMU_CONFIG] = "config:", [PMU_CONFIG1] = "config1:", [PMU_CONFIG2] = "config2:"};

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strncmp(text, words[i], strlen(words[i])) != 0)
			continue;
		uint64_t mask = 0;
		const char *at = text + strlen(words[i]);
		do {
			char *end;
			unsigned long first = strtoul(at, &end, 10), last = first;
			if (end == at)
				return -EBADMSG;
			if (*end == '-')
				last = strtoul(end + 1, &end, 10);
			if (first > last || last > 63)
				return -EBADMSG;
			for (unsigned long bit = first; bit <= last; bit++)
				mask |= UINT64_C(1) << bit;
			at = end;
		} while (*at++ == ',');
		*ret = (struct pmu_format){.word = i, .mask = mask};
		return 0;
	}
	return -EBADMSG;
}

int pmu_format_find(const struct pmu *pmu, const char *name, struct pmu_format *ret)
{
	char path[PATH_MAX];
	AUTO_BUF struct buf text = {0};

	if (!join_path(path, pmu->path, "/format", name) || fd_slurp(path, PMU_FILE_BYTES, &text) < 0)
		return -ENOENT;
	return parse_format(buf_text(&text), ret);
}

int pmu_format_apply(const struct pmu_format *format, uint64_t value, struct perf_event_attr *attr)
{
	uint64_t bits = 0;

	for (unsigned bit = 0; bit < 64; bit++) {
		if (!(format->mask >> bit & 1))
			continue;
		bits |= (value & 1) << bit;
		value >>= 1;
	}
	if (value)
		return -ERANGE;
	switch (format->word) {
	case PMU_CONFIG: attr->config = (attr->config & ~format->mask) | bits; break;
	case PMU_CONFIG1: attr->config1 = (attr->config1 & ~format->mask) | bits; break;
	case PMU_CONFIG2: attr->config2 = (attr->config2 & ~format->mask) | bits; break;
	}
	return 0;
}

static void offer_directory(const char *path, struct suggest *suggest)
{
	AUTO_DIR DIR *dir = opendir(path);

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (is_file_name(entry->d_name))
			suggest_offer(suggest, entry->d_name);
	}
}

void pmu_offer_names(const char *sources, struct suggest *suggest)
{
	offer_directory(sources, suggest);
}

void pmu_offer_events(const char *sources, struct suggest *suggest)
{
	AUTO_DIR DIR *dir = opendir(sources);
	char path[PATH_MAX], events[PATH_MAX];

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (join_path(path, sources, "", entry->d_name) && join_path(events, path, "", "events"))
			offer_directory(events, suggest);
	}
}

void pmu_offer_terms(const struct pmu *pmu, struct suggest *suggest)
{
	char path[PATH_MAX];

	if (join_path(path, pmu->path, "", "format"))
		offer_directory(path, suggest);
	if (join_path(path, pmu->path, "", "events"))
		offer_directory(path, suggest);
}

int pmu_visit_events(const char *sources, int (*visit)(const char *pmu, const char *event, void *data), void *data)
{
	AUTO_DIR DIR *pmus = opendir(sources);
	char path[PATH_MAX], events[PATH_MAX];
	int err = 0;

	for (struct dirent *pmu; !err && pmus && (pmu = readdir(pmus));) {
		if (!join_path(path, sources, "", pmu->d_name) || !join_path(events, path, "", "events"))
			continue;
		AUTO_DIR DIR *names = opendir(events);
		for (struct dirent *name; !err && names && (name = readdir(names));)
			if (!strchr(name->d_name, '.')) /* nor "NAME.scale" */
				err = visit(pmu->d_name, name->d_name, data);
	}
	return err;
}
