/* SPDX-License-Identifier: MIT */
#include "record/drain/thread_spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "record/setup/plan.h"
#include "sysinfo/topology.h"

#define AUTO_CPUSET __attribute__((cleanup(cpuset_fini)))

enum { QUOTE_MAX_CHARS = 40 };

/* SPEC while it is taken apart. */
struct parser {
	const char *spec;
	const struct cpuset *cpus; /* NULL: all */
	const struct topology *topology;
	struct thread_layout *layout;
	struct cpuset taken_maps, taken_affinity; /* by the masks so far */
	struct diag *reterr;
};

/* A part of SPEC. */
struct part {
	const char *at;
	size_t len;
};

void thread_layout_fini(struct thread_layout *layout)
{
	for (size_t i = 0; i < layout->nr_threads; i++) {
		cpuset_fini(&layout->threads[i].maps);
		cpuset_fini(&layout->threads[i].affinity);
	}
	free(layout->threads);
	*layout = (struct thread_layout){0};
}

ssize_t thread_layout_by_cpu(const struct thread_layout *layout, unsigned cpu)
{
	for (size_t i = 0; i < layout->nr_threads; i++)
		if (cpuset_has(&layout->threads[i].maps, cpu))
			return (ssize_t)i;
	return -1;
}

size_t thread_layout_by_ring(const struct thread_layout *layout, size_t ring)
{
	return ring % layout->nr_threads;
}

size_t thread_layout_of_ring(const struct thread_layout *layout, const struct plan_ring *ring)
{
	if (!layout)
		return 0;
	/* Each CPU that is recorded has one; of the others there are task events. */
	ssize_t thread = ring->cpu < 0 ? -1 : thread_layout_by_cpu(layout, (unsigned)ring->cpu);
	return thread < 0 ? thread_layout_by_ring(layout, ring->place) : (size_t)thread;
}

void thread_layout_trim(struct thread_layout *layout, size_t nr_rings)
{
	while (layout->nr_threads > 1 && layout->nr_threads > nr_rings) {
		struct thread_place *last = &layout->threads[--layout->nr_threads];
		cpuset_fini(&last->maps);
		cpuset_fini(&last->affinity);
	}
}

/* Takes over both sets. */
static int add_thread(struct thread_layout *layout, struct cpuset *maps, struct cpuset *affinity)
{
	struct thread_place *grown = realloc(layout->threads, (layout->nr_threads + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	layout->threads = grown;
	grown[layout->nr_threads++] = (struct thread_place){*maps, *affinity};
	*maps = *affinity = (struct cpuset){0};
	return 0;
}

/* Adds the members of `from` that are in `filter` too (NULL: all). */
static int add_common(struct cpuset *to, const struct cpuset *from, const struct cpuset *filter)
{
	int err = 0;

	for (int cpu = cpuset_next(from, 0); cpu >= 0 && !err; cpu = cpuset_next(from, cpu + 1))
		if (!filter || cpuset_has(filter, (unsigned)cpu))
			err = cpuset_add(to, (unsigned)cpu);
	return err;
}

/* The lowest CPU that is in both, or -1. */
static int first_common(const struct cpuset *a, const struct cpuset *b)
{
	for (int cpu = cpuset_next(a, 0); cpu >= 0; cpu = cpuset_next(a, cpu + 1))
		if (cpuset_has(b, (unsigned)cpu))
			return cpu;
	return -1;
}

/* "--threads: "PART" at column N: why". Columns count from 1. */
__attribute__((format(printf, 3, 4))) static int refuse(const struct parser *parser, struct part part,
							const char *format, ...)
{
	char why[256];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	int len = part.len > QUOTE_MAX_CHARS ? QUOTE_MAX_CHARS : (int)part.len;
	return diag_set(parser->reterr, -EINVAL, "--threads: \"%.*s%s\" at column %zu: %s", len, part.at,
			part.len > QUOTE_MAX_CHARS ? "…" : "", (size_t)(part.at - parser->spec) + 1, why);
}

/*
 * Up to the separator or the end of the whole; *rest is what follows it, at NULL when there is no separator.
 */
static struct part split(struct part whole, char separator, struct part *rest)
{
	const char *found = memchr(whole.at, separator, whole.len);

	if (!found) {
		*rest = (struct part){NULL, 0};
		return whole;
	}
	size_t len = (size_t)(found - whole.at);
	*rest = (struct part){found + 1, whole.len - len - 1};
	return (struct part){whole.at, len};
}

/* A decimal number and nothing else; what is too large for a CPU becomes CPUSET_MAX_CPUS. */
static bool parse_number(struct part part, unsigned *ret)
{
	unsigned value = 0;

	for (size_t i = 0; i < part.len; i++) {
		if (!isdigit((unsigned char)part.at[i]))
			return false;
		value = value * 10 + (unsigned)(part.at[i] - '0');
		if (value > CPUSET_MAX_CPUS)
			value = CPUSET_MAX_CPUS;
	}
	*ret = value;
	return part.len > 0;
}

static int refuse_not_online(const struct parser *parser, struct part item, unsigned cpu)
{
	AUTO_BUF struct buf online = {0};
	const struct topology *topology = parser->topology;

	cpuset_format(&topology->online, &online);
	if (cpu >= CPUSET_MAX_CPUS)
		return refuse(parser, item, "no CPU has such a number; online: %s", buf_text(&online));
	if (cpuset_has(&topology->present, cpu))
		return refuse(parser, item, "CPU %u is offline; online: %s", cpu, buf_text(&online));
	return refuse(parser, item, "there is no CPU %u; online: %s", cpu, buf_text(&online));
}

/* "3" or "3-5" */
static int parse_item(const struct parser *parser, struct part item, struct cpuset *set)
{
	struct part upper;
	struct part lower = split(item, '-', &upper);
	unsigned first, last;

	if (!item.len)
		return refuse(parser, item, "a CPU number is missing here");
	if (!parse_number(lower, &first) || !parse_number(upper.at ? upper : lower, &last))
		return refuse(parser, item, "neither a CPU nor a range such as 2-5");
	if (last < first)
		return refuse(parser, item, "a range goes upwards: %u-%u", last, first);
	for (unsigned cpu = first; cpu <= last; cpu++) {
		if (!cpuset_has(&parser->topology->online, cpu))
			return refuse_not_online(parser, item, cpu);
		if (cpuset_has(set, cpu))
			return refuse(parser, item, "CPU %u is in this list already", cpu);
		int err = cpuset_add(set, cpu);
		if (err)
			return err;
	}
	return 0;
}

static int parse_list(const struct parser *parser, struct part list, struct cpuset *set)
{
	struct part rest = list;

	do {
		int err = parse_item(parser, split(rest, ',', &rest), set);
		if (err)
			return err;
	} while (rest.at);
	return 0;
}

/* Takes over both sets, unless none of the CPUs is recorded. */
static int keep_mask(struct parser *parser, struct part mask, struct cpuset *maps, struct cpuset *affinity)
{
	AUTO_CPUSET struct cpuset recorded = {0};
	int err = add_common(&recorded, maps, parser->cpus);

	if (err)
		return err;
	if (!cpuset_count(&recorded)) {
		log_verbose("--threads: \"%.*s\" gets no thread: none of its CPUs is recorded", (int)mask.len, mask.at);
		return 0;
	}
	int twice = first_common(&recorded, &parser->taken_maps);
	if (twice >= 0)
		return refuse(parser, mask, "CPU %d is drained by an earlier mask already", twice);
	twice = first_common(affinity, &parser->taken_affinity);
	if (twice >= 0)
		return refuse(parser, mask, "the thread of an earlier mask runs on CPU %d already", twice);
	err = add_common(&parser->taken_maps, &recorded, NULL);
	if (!err)
		err = add_common(&parser->taken_affinity, affinity, NULL);
	return err ? err : add_thread(parser->layout, &recorded, affinity);
}

static int parse_mask(struct parser *parser, struct part mask)
{
	AUTO_CPUSET struct cpuset maps = {0}, affinity = {0};
	struct part after, third;
	struct part before = split(mask, '/', &after);

	if (!mask.len)
		return refuse(parser, mask, "an empty mask; wanted CPUS/AFFINITY");
	if (!after.at)
		return refuse(parser, mask, "no affinity; wanted CPUS/AFFINITY such as 0-3/3");
	after = split(after, '/', &third);
	if (third.at)
		return refuse(parser, mask, "more than one \"/\"; masks are separated by \":\"");
	if (!before.len)
		return refuse(parser, mask, "no CPUs before the \"/\"");
	if (!after.len)
		return refuse(parser, mask, "no CPUs after the \"/\"");
	int err = parse_list(parser, before, &maps);
	if (!err)
		err = parse_list(parser, after, &affinity);
	return err ? err : keep_mask(parser, mask, &maps, &affinity);
}

/* A ring that no thread drains is lost data, so it is no layout. */
static int check_all_covered(const struct parser *parser)
{
	AUTO_BUF struct buf text = {0};
	AUTO_CPUSET struct cpuset rest = {0};
	const struct cpuset *cpus = parser->cpus;

	for (int cpu = cpus ? cpuset_next(cpus, 0) : -1; cpu >= 0; cpu = cpuset_next(cpus, cpu + 1)) {
		int err = cpuset_has(&parser->taken_maps, (unsigned)cpu) ? 0 : cpuset_add(&rest, (unsigned)cpu);
		if (err)
			return err;
	}
	if (!cpuset_count(&rest))
		return 0;
	cpuset_format(&rest, &text);
	struct part all = {parser->spec, strlen(parser->spec)};
	if (!parser->layout->nr_threads)
		return refuse(parser, all, "none of the recorded CPUs (%s) is in a mask", buf_text(&text));
	return refuse(parser, all, "no mask drains CPU %s; add it to one, or choose others with -C", buf_text(&text));
}

static int compare_places(const void *a, const void *b)
{
	const struct thread_place *left = a, *right = b;

	return cpuset_next(&left->maps, 0) - cpuset_next(&right->maps, 0);
}

static int resolve_masks(struct parser *parser)
{
	struct part rest = {parser->spec, strlen(parser->spec)};
	struct thread_layout *layout = parser->layout;

	do {
		int err = parse_mask(parser, split(rest, ':', &rest));
		if (err)
			return err;
	} while (rest.at);
	int err = check_all_covered(parser);
	if (!err && layout->nr_threads) /* qsort(3) takes no NULL, not even for nothing */
		qsort(layout->threads, layout->nr_threads, sizeof(*layout->threads), compare_places);
	return err;
}

/* The CPUs of the thread that drains `cpu`. One that came online after the topology was read gets its own. */
static int add_group_of(struct cpuset *to, const struct topology *topology, int level, unsigned cpu)
{
	const struct cpuset *group =
		level < TOPOLOGY_NR_LEVELS ? topology_group(topology, (enum topology_level)level, cpu) : NULL;

	return group ? add_common(to, group, NULL) : cpuset_add(to, cpu);
}

/* The first `nr` of `from`, which lose them. */
static int take_first(struct cpuset *from, unsigned nr, struct cpuset *ret)
{
	AUTO_CPUSET struct cpuset rest = {0};
	int err = 0;

	for (int cpu = cpuset_next(from, 0); cpu >= 0 && !err; cpu = cpuset_next(from, cpu + 1))
		err = cpuset_add(nr ? ret : &rest, (unsigned)cpu), nr -= nr > 0;
	struct cpuset before = *from;
	*from = rest;
	rest = before;
	return err;
}

/* Takes the CPUs of one group, in parts that are as even as they can be. */
static int divide_group(struct thread_layout *layout, struct cpuset *cpus, unsigned most)
{
	unsigned left = cpuset_count(cpus), parts = (left + most - 1) / most;
	int err = 0;

	for (; parts && !err; parts--) {
		AUTO_CPUSET struct cpuset maps = {0}, affinity = {0};
		unsigned nr = (left + parts - 1) / parts;
		left -= nr;
		err = take_first(cpus, nr, &maps);
		if (!err)
			err = add_common(&affinity, &maps, NULL);
		if (!err)
			err = add_thread(layout, &maps, &affinity);
	}
	return err;
}

int thread_layout_divide(const struct cpuset *cpus, unsigned most, const struct topology *topology,
			 struct thread_layout *ret)
{
	__attribute__((cleanup(thread_layout_fini))) struct thread_layout layout = {0};
	const struct topology_groups *nodes = &topology->levels[TOPOLOGY_NODE];
	AUTO_CPUSET struct cpuset others = {0};
	int err = 0;

	for (int cpu = cpuset_next(cpus, 0); cpu >= 0 && !err; cpu = cpuset_next(cpus, cpu + 1))
		if (!topology_group(topology, TOPOLOGY_NODE, (unsigned)cpu))
			err = cpuset_add(&others, (unsigned)cpu); /* online since the topology was read */
	for (size_t i = 0; i <= nodes->nr_groups && !err; i++) {
		AUTO_CPUSET struct cpuset part = {0};
		err = add_common(&part, i < nodes->nr_groups ? &nodes->groups[i] : &others, cpus);
		if (!err)
			err = divide_group(&layout, &part, most);
	}
	if (err)
		return err;
	qsort(layout.threads, layout.nr_threads, sizeof(*layout.threads), compare_places);
	layout.divided = true;
	*ret = layout;
	layout = (struct thread_layout){0};
	return 0;
}

/* level: an enum topology_level, or TOPOLOGY_NR_LEVELS for a thread for each CPU. */
static int resolve_groups(struct parser *parser, int level)
{
	const struct cpuset *cpus = parser->cpus ? parser->cpus : &parser->topology->online;

	for (int cpu = cpuset_next(cpus, 0); cpu >= 0; cpu = cpuset_next(cpus, cpu + 1)) {
		AUTO_CPUSET struct cpuset maps = {0}, affinity = {0};
		if (cpuset_has(&parser->taken_maps, (unsigned)cpu))
			continue;
		int err = add_group_of(&affinity, parser->topology, level, (unsigned)cpu);
		if (!err)
			err = add_common(&maps, &affinity, cpus);
		if (!err)
			err = add_common(&parser->taken_maps, &maps, NULL);
		if (!err)
			err = add_thread(parser->layout, &maps, &affinity);
		if (err)
			return err;
	}
	return 0;
}

static int resolve(struct parser *parser)
{
	static const struct {
		const char *word;
		int level;
	} words[] = {
		{"", TOPOLOGY_NR_LEVELS},      {"cpu", TOPOLOGY_NR_LEVELS},  {"core", TOPOLOGY_CORE},
		{"package", TOPOLOGY_PACKAGE}, {"socket", TOPOLOGY_PACKAGE}, {"numa", TOPOLOGY_NODE},
	};
	const char *spec = parser->spec;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasecmp(spec, words[i].word) == 0)
			return resolve_groups(parser, words[i].level);
	if (strchr(spec, '/') || strchr(spec, ':') || isdigit((unsigned char)*spec))
		return resolve_masks(parser);
	return refuse(parser, (struct part){spec, strlen(spec)},
		      "neither cpu, core, package, socket nor numa, nor masks such as 0-3/3:4-7/4");
}

int thread_spec_resolve(const char *spec, const struct cpuset *cpus, const struct topology *topology,
			struct thread_layout *ret, struct diag *reterr)
{
	__attribute__((cleanup(thread_layout_fini))) struct thread_layout layout = {0};
	struct parser parser = {
		.spec = spec ? spec : "",
		.cpus = cpus,
		.topology = topology,
		.layout = &layout,
		.reterr = reterr,
	};
	int err = resolve(&parser);

	cpuset_fini(&parser.taken_maps);
	cpuset_fini(&parser.taken_affinity);
	if (err == -ENOMEM)
		return diag_set(reterr, err, "out of memory");
	if (err)
		return err;
	if (!layout.nr_threads)
		return diag_set(reterr, -EINVAL, "--threads: no CPU is recorded");
	*ret = layout;
	layout = (struct thread_layout){0};
	return 0;
}
