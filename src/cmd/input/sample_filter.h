/* SPDX-License-Identifier: MIT */
/*
 * sample_filter: which samples report and script show: by task, CPU, object and function. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cpuset.h"

struct diag;
struct session;
struct dso;
struct symbol;

struct sample_filter {
	/* Comma-separated lists as given; NULL: all. */
	const char *comms, *dsos, *symbols, *pids, *tids, *cpus;
	const char *symbol_part; /* a part of the function's name */
	/* Names of events: samples are taken from a sample of on_event (NULL: the first) up to one of off_event (NULL:
	 * the last). */
	const char *on_event, *off_event;
	bool shows_switches;   /* also the samples of these two events */
	struct cpuset cpu_set; /* of `cpus`, after sample_filter_complete() */
};

/*
 * Their rows in the table of a command whose struct `type` has a struct sample_filter `field`; the letters of --comms
 * and --cpu are not the same everywhere.
 */
#define SAMPLE_FILTER_OPTIONS(type, field, heading, comms_letter, cpu_letter)                                          \
	{.letter = comms_letter,                                                                                       \
	 .name = "comms",                                                                                              \
	 .arg = "NAME,...",                                                                                            \
	 .help = "Show only samples of commands with these names",                                                     \
	 .set = option_set_string,                                                                                     \
	 .offset = offsetof(type, field.comms),                                                                        \
	 .group = heading},                                                                                            \
		{.name = "pid",                                                                                        \
		 .arg = "PID,...",                                                                                     \
		 .help = "Show only samples of these processes",                                                       \
		 .set = sample_filter_set_numbers,                                                                     \
		 .offset = offsetof(type, field.pids)},                                                                \
		{.name = "tid",                                                                                        \
		 .arg = "TID,...",                                                                                     \
		 .help = "Show only samples of these threads",                                                         \
		 .set = sample_filter_set_numbers,                                                                     \
		 .offset = offsetof(type, field.tids)},                                                                \
		{.letter = 'S',                                                                                        \
		 .name = "symbols",                                                                                    \
		 .arg = "NAME,...",                                                                                    \
		 .help = "Show only samples in these functions",                                                       \
		 .set = option_set_string,                                                                             \
		 .offset = offsetof(type, field.symbols)},                                                             \
	{                                                                                                              \
		.letter = cpu_letter, .name = "cpu", .arg = "CPU,...",                                                 \
		.help = "Take only the samples of these CPUs, such as 0-3,7; the others are not counted either",       \
		.set = sample_filter_set_cpus, .offset = offsetof(type, field.cpus)                                    \
	}

/* The row of --dsos, whose letter differs between commands; 0: none. */
#define SAMPLE_FILTER_DSOS(letter_of, type, field)                                                                     \
	{                                                                                                              \
		.letter = letter_of, .name = "dsos", .arg = "NAME,...",                                                \
		.help = "Show only samples in these programs and libraries", .set = option_set_string,                 \
		.offset = offsetof(type, field.dsos)                                                                   \
	}

struct option;

/* Lists of --pid and --tid, and of --cpu: const char *. */
int sample_filter_set_numbers(const struct option *, const char *arg, bool negated, void *text, struct diag *);
int sample_filter_set_cpus(const struct option *, const char *arg, bool negated, void *text, struct diag *);

/* --percentage: relative (true) or absolute. */
int sample_filter_set_percentage(const struct option *, const char *arg, bool negated, void *bool_value, struct diag *);

/* Rows of --switch-on and --switch-off, for the commands that have them. */
#define EVENT_SWITCH_OPTIONS(type, field)                                                                              \
	{.name = "switch-on",                                                                                          \
	 .arg = "EVENT",                                                                                               \
	 .help = "Take no samples until one of this event comes; with --switch-off again after each of those",         \
	 .set = option_set_string,                                                                                     \
	 .offset = offsetof(type, field.on_event)},                                                                    \
		{.name = "switch-off",                                                                                 \
		 .arg = "EVENT",                                                                                       \
		 .help = "Take no samples from one of this event on",                                                  \
		 .set = option_set_string,                                                                             \
		 .offset = offsetof(type, field.off_event)},                                                           \
	{                                                                                                              \
		.name = "show-on-off-events", .help = "Take the samples of these two events, too",                     \
		.set = option_set_flag, .offset = offsetof(type, field.shows_switches)                                 \
	}

/* When all options are set. 0, or -errno and why. The caller calls sample_filter_fini(). */
int sample_filter_complete(struct sample_filter *filter, struct diag *reterr);
void sample_filter_fini(struct sample_filter *filter); /* zeroed is fine */

/* To be called when the command uses the CPUs of samples. 0; -EINVAL: no event of the recording has them. */
int sample_filter_need_cpus(const struct session *session, struct diag *reterr);

/* The same; notes which events do not have them, whose samples the filter leaves out. */
int sample_filter_check_cpus(const struct session *session, struct diag *reterr);

static inline bool sample_filter_has_cpu(const struct sample_filter *filter, unsigned cpu)
{
	return !filter->cpus || cpuset_has(&filter->cpu_set, cpu);
}

/* Is there a filter besides the CPUs? false: all samples of those are shown. */
static inline bool sample_filter_is_set(const struct sample_filter *filter)
{
	return filter->comms || filter->dsos || filter->symbols || filter->pids || filter->tids || filter->symbol_part;
}

/* Is the word one of a list that is separated by commas? */
bool list_has_word(const char *list, const char *word);

/* What a sample or a caller is about. */
struct sample_subject {
	const char *comm;
	unsigned pid, tid;
	const struct dso *dso;       /* NULL: unknown */
	const struct symbol *symbol; /* NULL: unknown */
};

/* Are samples about this shown? CPUs and symbol_part are not checked. */
bool sample_filter_shows(const struct sample_filter *filter, const struct sample_subject *subject);

/* Whether symbol_part shows an entry of this function. The callers of a sample are entries of their own. */
bool sample_filter_shows_symbol(const struct sample_filter *filter, const struct symbol *symbol);
