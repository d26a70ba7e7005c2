/* SPDX-License-Identifier: MIT */
#include "tests/fake/fake_sources.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
	const char *path, *text;
} files[] = {
	{"tracing/events/sched/sched_switch/id", "311\n"},
	{"tracing/events/sched/sched_wakeup/id", "312\n"},
	{"tracing/events/sched/sched_wakeup_new/id", "313\n"},
	{"tracing/events/sched/enable", "0\n"},
	{"tracing/events/sched/filter", "none\n"},
	{"tracing/events/irq/irq_handler_entry/id", "150\n"},
	{"tracing/events/irq/softirq_entry/id", "151\n"},
	{"tracing/events/ftrace/function/format", "no id here\n"},
	{"tracing/events/header_page", "\n"},
	{"pmus/software/type", "1\n"},
	{"pmus/cpu/type", "4\n"},
	{"pmus/cpu/format/event", "config:0-7,32-35\n"},
	{"pmus/cpu/format/umask", "config:8-15\n"},
	{"pmus/cpu/format/edge", "config:18\n"},
	{"pmus/cpu/format/ldlat", "config1:0-15\n"},
	{"pmus/cpu/format/frontend", "config2:0-23\n"},
	{"pmus/cpu/format/odd", "config9:0-7\n"},
	{"pmus/cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"},
	{"pmus/cpu/events/mem-loads.scale", "2.5\n"},
	{"pmus/cpu/events/whole", "config=0x1234,config1=5\n"},
	{"pmus/cpu/events/Whole", "config=5\n"},
	{"pmus/cpu/events/spaced", "event = 0x3c, umask=2 \n"},
	{"pmus/cpu/events/broken", "event=,\n"},
	{"pmus/msr/type", "9\n"},
	{"pmus/msr/format/event", "config:0-63\n"},
	{"pmus/msr/events/tsc", "event=0x00\n"},
	/* No list has CPU 0, which is online everywhere; but for `every`, which has all. */
	{"pmus/core/type", "21\n"},
	{"pmus/core/cpus", "1-3,9\n"},
	{"pmus/core/events/ticks", "config=0\n"},
	{"pmus/atom/type", "22\n"},
	{"pmus/atom/cpus", "4-7\n"},
	{"pmus/asleep/type", "23\n"},
	{"pmus/asleep/cpus", "\n"},
	{"pmus/uncore/type", "24\n"},
	{"pmus/uncore/cpumask", "2,6\n"},
	{"pmus/uncore/cpus", "1-9\n"},
	{"pmus/every/type", "25\n"},
	{"pmus/every/cpus", "0-4095\n"},
	/* Another machine, with two kinds of cores. */
	{"kinds/cpu_core/type", "4\n"},
	{"kinds/cpu_core/cpus", "1-3\n"},
	{"kinds/cpu_atom/type", "10\n"},
	{"kinds/cpu_atom/cpus", "4-7\n"},
	{"kinds/cpu_asleep/type", "11\n"},
	{"kinds/cpu_asleep/cpus", "\n"},
	{"kinds/cpu_other/type", "12\n"},
	{"kinds/cpu_other/cpumask", "1\n"},
	{"kinds/arm_core/type", "13\n"},
	{"kinds/arm_core/cpus", "1-3\n"},
};

static void fail(const char *what)
{
	perror(what);
	exit(99);
}

static void make_file(const char *root, const char *path, const char *text)
{
	char whole[256];

	snprintf(whole, sizeof(whole), "%s/%s", root, path);
	for (char *slash = whole + strlen(root); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		mkdir(whole, 0755);
		*slash = '/';
	}
	FILE *file = fopen(whole, "w");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		fail(whole);
}

void fake_sources_init(struct fake_sources *fake)
{
	snprintf(fake->root, sizeof(fake->root), "/tmp/millrace-events.XXXXXX");
	if (!mkdtemp(fake->root))
		fail(fake->root);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		make_file(fake->root, files[i].path, files[i].text);
	snprintf(fake->tracefs, sizeof(fake->tracefs), "%s/tracing", fake->root);
	snprintf(fake->pmus, sizeof(fake->pmus), "%s/pmus", fake->root);
	fake->sources = (struct event_sources){.tracefs = fake->tracefs, .event_sources = fake->pmus};
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *level)
{
	(void)status, (void)type, (void)level;
	return remove(path);
}

void fake_sources_fini(struct fake_sources *fake)
{
	nftw(fake->root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}
