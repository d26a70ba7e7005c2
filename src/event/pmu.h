/* SPDX-License-Identifier: MIT */
/*
 * pmu: a directory of /sys/bus/event_source/devices: the number of its type, where the terms of its events go
 * in the attr (format/), and the events that have a name (events/). Source:
 * Documentation/ABI/testing/sysfs-bus-event_source-*.
 */
#pragma once

#include <limits.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct suggest;

#define PMU_SOURCES "/sys/bus/event_source/devices" /* the usual place */

struct pmu {
	char path[PATH_MAX]; /* its directory */
	uint32_t type;       /* attr.type */
};

/* 0, or -ENOENT when there is no such PMU. */
int pmu_open(const char *sources, const char *name, struct pmu *ret);

/* The words of the event `name` of this PMU, "event=0x3c,umask=1". -ENOENT: has none of that name. */
int pmu_event_terms(const struct pmu *pmu, const char *name, struct buf *ret);

/* The first PMU that has an event of this name. */
int pmu_find_event(const char *sources, const char *name, struct pmu *ret, struct buf *ret_terms);

enum pmu_word { PMU_CONFIG, PMU_CONFIG1, PMU_CONFIG2 };

struct pmu_format {
	enum pmu_word word;
	uint64_t mask; /* the value's bits go into these, lowest first */
};

/* Where the term `name` goes. -ENOENT: the PMU has no such term; -EBADMSG: its file makes no sense to us. */
int pmu_format_find(const struct pmu *pmu, const char *name, struct pmu_format *ret);

/* -ERANGE: the value has more bits than the format. */
int pmu_format_apply(const struct pmu_format *format, uint64_t value, struct perf_event_attr *attr);

void pmu_offer_names(const char *sources, struct suggest *suggest);
void pmu_offer_events(const char *sources, struct suggest *suggest);
void pmu_offer_terms(const struct pmu *pmu, struct suggest *suggest);

/* Calls `visit` with each PMU and each event that it has a name for; what that returns, when not 0, ends the visit. */
int pmu_visit_events(const char *sources, int (*visit)(const char *pmu, const char *event, void *data), void *data);
