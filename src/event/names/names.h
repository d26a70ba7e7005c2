/* SPDX-License-Identifier: MIT */
/*
 * names: what the words of -e mean: hardware, software, caches and raw numbers, which are the same on every machine;
 * PMUs and tracepoints, as sysfs and tracefs describe them; names of libpfm4. Nothing is kept but the state of libpfm4.
 */
#pragma once

#include <limits.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct diag;

/* The known words nearest to an unknown one. Caller's memory; owns nothing. */
enum { SUGGEST_MOST = 3, SUGGEST_WORD_BYTES = 96 };

struct suggest {
	char word[SUGGEST_WORD_BYTES]; /* folded, for comparing */
	unsigned nr;
	struct {
		char word[SUGGEST_WORD_BYTES];
		unsigned distance;
	} near[SUGGEST_MOST]; /* nearest first */
};

/* A word of SUGGEST_WORD_BYTES or more gets no suggestion. */
void suggest_init(struct suggest *suggest, const char *word, size_t len);

/* Keeps `known` when it is edit_distance_is_close(). */
void suggest_offer(struct suggest *suggest, const char *known);

/* The same for a word that is compared as `known`, and shown as `shown`. */
void suggest_offer_as(struct suggest *suggest, const char *known, const char *shown);

/* Appends "; did you mean A, B or C?", or nothing. */
void suggest_format(const struct suggest *suggest, struct buf *ret);

struct named_event {
	uint32_t type; /* PERF_TYPE_* */
	uint64_t config;
};

/* A symbolic name such as "cs", "cpu-cycles", "L1-dcache-load-misses". */
bool names_find(const char *word, size_t len, struct named_event *ret);

/* rHEX or r0xHEX, at most 16 digits. */
bool names_find_raw(const char *word, size_t len, struct named_event *ret);

/* The first name of a hardware or software event; NULL: it has none. Static text. */
const char *names_of(uint32_t type, uint64_t config);

/*
 * Calls `visit` with each word: software, hardware, then caches (in one of their spellings). Words for the same event
 * follow each other. When `visit` returns something else than 0, the visit ends with that.
 */
typedef int names_visitor(const char *word, const struct named_event *event, void *ctx);
int names_visit(names_visitor *visit, void *ctx);

void names_offer(struct suggest *suggest);

/*
 * A PMU is a directory of /sys/bus/event_source/devices: the number of its type, where the terms of its events go in
 * the attr (format/), and the events that have a name (events/). Source:
 * Documentation/ABI/testing/sysfs-bus-event_source-*.
 */
#define PMU_SOURCES "/sys/bus/event_source/devices" /* the usual place */

struct pmu {
	char path[PATH_MAX]; /* its directory */
	uint32_t type;       /* attr.type */
};

/* 0, or -ENOENT when there is no such PMU. */
int pmu_open(const char *sources, const char *name, struct pmu *ret);
/* The terms of its event `name`, "TSC" or else in another case: "event=0x3c,umask=1". -ENOENT: it has none. */
int pmu_event_terms(const struct pmu *pmu, const char *name, struct buf *ret);

/* The first PMU that has an event of this name, and its terms: the same. 0, or -ENOENT: none has it. */
int pmu_find_event(const char *sources, const char *name, struct pmu *ret, struct buf *ret_terms);

enum pmu_word { PMU_CONFIG, PMU_CONFIG1, PMU_CONFIG2 };

struct pmu_format {
	enum pmu_word word;
	uint64_t mask; /* the value's bits go into these, lowest first */
};

/* Into which bits the value of the term `name` goes. -ENOENT: the PMU has no such term; -EBADMSG: its file is not
 * understood. */
int pmu_format_find(const struct pmu *pmu, const char *name, struct pmu_format *ret);

/* -ERANGE: the value has more bits than the format. */
int pmu_format_apply(const struct pmu_format *format, uint64_t value, struct perf_event_attr *attr);
void pmu_offer_names(const char *sources, struct suggest *suggest);
void pmu_offer_events(const char *sources, struct suggest *suggest);
void pmu_offer_terms(const struct pmu *pmu, struct suggest *suggest);

/* Calls `visit` with each PMU and each of its named events, until it returns something else than 0: the result. */
int pmu_visit_events(const char *sources, int (*visit)(const char *pmu, const char *event, void *ctx), void *ctx);

/*
 * The directory that holds events/ ("/sys/kernel/tracing" or debugfs' copy). When none is mounted this function
 * mounts it, if that is permitted. Static text; NULL: there is none, and the diag says what to do.
 */
const char *tracefs_path(struct diag *reterr);

struct tracepoint {
	const char *system, *name; /* borrowed for the time of the call */
	uint64_t id;               /* attr.config */
};

/*
 * Calls `visit` for every tracepoint (events/SYSTEM/NAME/id) that matches both patterns (fnmatch(3); a plain name is
 * one), until it returns something else than 0: the result. 0 also when none matches; -EACCES and others with a diag.
 */
int tracepoint_visit(const char *tracefs, const char *system_pattern, const char *name_pattern,
		     int (*visit)(const struct tracepoint *tracepoint, void *ctx), void *ctx, struct diag *reterr);

/* Calls `offer` for every tracepoint, without reading ids; an error ends that, and is not reported. */
void tracepoint_names(const char *tracefs, void (*offer)(const char *system, const char *name, void *ctx), void *ctx);

bool tracepoint_is_pattern(const char *text);
/* Where a field is in the payload of the tracepoint "SYSTEM/NAME". -ENOENT: there is none; -EACCES and others. */
struct tracepoint_field {
	uint16_t offset, bytes;
};
int tracepoint_field(const char *tracefs, const char *tracepoint, const char *field, struct tracepoint_field *ret);

/*
 * Which names of libpfm4 are looked up. The generic table holds the kernel's own events (PERF_COUNT_*, "perf::…") and,
 * where debugfs is mounted, each tracepoint's system as an event: making it reads the id of every tracepoint of the
 * machine.
 */
enum pfm_tables {
	PFM_CPU,     /* those of the CPU's PMUs; the generic table only for names that begin with PERF_COUNT_ */
	PFM_GENERIC, /* the same, then the generic table */
};

bool pfm_built(void); /* false: this build has no libpfm4, and no name is known */

/*
 * "EVENT[:UMASK][:MODIFIER]…" of libpfm(3), with the modifiers of perf events (PFM_OS_PERF_EVENT_EXT): what to count,
 * where not (exclude_*), freq, sample_period (0: not given), precise_ip, pinned, exclusive; nothing else of *ret is
 * set. On failure -EINVAL, *ret is untouched, and *ret_why (NULL: not wanted) is the library's reason, static text. One
 * thread at a time.
 */
int pfm_encode(const char *name, enum pfm_tables tables, struct perf_event_attr *ret, const char **ret_why);
