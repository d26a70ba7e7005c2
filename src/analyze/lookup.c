/* SPDX-License-Identifier: MIT */
#include "analyze/lookup.h"

#include <linux/perf_event.h>
#include <stdlib.h>

#include "analyze/machine_priv.h"
#include "analyze/maps.h"

struct lookup *lookup_new(struct machine *machine)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (lookup)
		lookup->machine = machine;
	return lookup;
}

void lookup_free(struct lookup *lookup)
{
	free(lookup);
}

struct lookup *machine_lookup(struct machine *machine)
{
	return &machine->own;
}

void lookup_fix(struct lookup *lookup, bool fixed)
{
	lookup->fixed = fixed;
	lookup->missed = false;
}

bool lookup_missed(const struct lookup *lookup)
{
	return lookup->missed;
}

uint64_t lookup_epoch(const struct lookup *lookup)
{
	return lookup->machine->epoch;
}

/* Samples of a task come in a row. Records may give its tid to somebody else. */
static struct task *find_task(struct lookup *lookup, uint32_t tid)
{
	uint64_t epoch = lookup->machine->epoch;

	if (!lookup->last || lookup->last_epoch != epoch || lookup->last->tid != tid) {
		lookup->last = machine_find_task(lookup->machine, tid);
		lookup->last_epoch = epoch;
	}
	return lookup->last;
}

struct task *lookup_task(struct lookup *lookup, uint32_t pid, uint32_t tid)
{
	struct task *task = find_task(lookup, tid);

	if (task && !task_lacks_pid(task, pid))
		return task;
	lookup->missed |= lookup->fixed;
	return lookup->fixed ? NULL : machine_make_task(lookup->machine, pid, tid);
}

/* The object whose symbols are to be asked, read; false: missed. */
static bool find_map(struct lookup *lookup, struct task *task, struct location *at, const struct map **ret)
{
	struct machine *machine = lookup->machine;

	*ret = NULL;
	if (at->level == '.')
		*ret = task->maps ? maps_find(task->maps, at->ip) : NULL;
	else if (at->level == 'k' && lookup->fixed)
		return kernel_peek(&machine->kernel, at->ip, ret);
	else if (at->level == 'k')
		*ret = kernel_find(&machine->kernel, at->ip);
	if (!*ret || (*ret)->dso->loaded)
		return true;
	if (!lookup->fixed)
		dso_load((*ret)->dso, machine->options.symfs ? machine->options.symfs : "");
	return !lookup->fixed;
}

static bool find_symbol(const struct lookup *lookup, struct location *at)
{
	if (lookup->fixed)
		return symbols_peek(&at->dso->symbols, at->address, &at->symbol);
	at->symbol = symbols_find(&at->dso->symbols, at->address);
	return true;
}

static char level_of(uint8_t cpumode)
{
	return cpumode == PERF_RECORD_MISC_KERNEL ? 'k' : cpumode == PERF_RECORD_MISC_USER ? '.' : 'H';
}

/* false: missed. */
static bool resolve(struct lookup *lookup, struct task *task, uint8_t cpumode, uint64_t ip, struct location *ret)
{
	const struct map *map;

	*ret = (struct location){.ip = ip, .address = ip, .level = level_of(cpumode)};
	if (!find_map(lookup, task, ret, &map))
		return false;
	if (!map)
		return true;
	ret->dso = map->dso;
	ret->address = map_address(map, ip);
	return find_symbol(lookup, ret);
}

/* Samples hit few addresses, again and again: a location holds until a record changes what is mapped somewhere. */
void lookup_resolve(struct lookup *lookup, struct task *task, uint8_t cpumode, uint64_t ip, struct location *ret)
{
	const struct machine *machine = lookup->machine;
	const void *space = cpumode == PERF_RECORD_MISC_USER ? task->maps : NULL;
	uint64_t key = (ip ^ (uintptr_t)space) * 0x9e3779b97f4a7c15ull;
	struct resolved *resolved = &lookup->resolved[key >> (64 - RESOLVED_BITS)];

	if (resolved->epoch != machine->epoch || resolved->space != space || resolved->cpumode != cpumode ||
	    resolved->location.ip != ip) {
		bool found = resolve(lookup, task, cpumode, ip, &resolved->location);
		lookup->missed |= !found;
		resolved->space = space;
		resolved->cpumode = cpumode;
		resolved->epoch = found ? machine->epoch : 0;
	}
	*ret = resolved->location;
}
