/* SPDX-License-Identifier: MIT */
#include "base/cpuset.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

void cpuset_fini(struct cpuset *set)
{
	free(set->words);
	*set = (struct cpuset){0};
}

int cpuset_add(struct cpuset *set, unsigned cpu)
{
	if (cpu >= CPUSET_MAX_CPUS)
		return -ERANGE;
	if (cpu / 64 >= set->nr_words) {
		unsigned nr = cpu / 64 + 1;
		uint64_t *words = realloc(set->words, nr * sizeof(*words));
		if (!words)
			return -ENOMEM;
		memset(words + set->nr_words, 0, (nr - set->nr_words) * sizeof(*words));
		set->words = words;
		set->nr_words = nr;
	}
	set->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
	return 0;
}

void cpuset_remove(struct cpuset *set, unsigned cpu)
{
	if (cpuset_has(set, cpu))
		set->words[cpu / 64] &= ~(UINT64_C(1) << (cpu % 64));
}

bool cpuset_has(const struct cpuset *set, unsigned cpu)
{
	return cpu / 64 < set->nr_words && (set->words[cpu / 64] >> (cpu % 64) & 1);
}

unsigned cpuset_count(const struct cpuset *set)
{
	unsigned count = 0;

	for (unsigned i = 0; i < set->nr_words; i++)
		count += (unsigned)__builtin_popcountll(set->words[i]);
	return count;
}

bool cpuset_equal(const struct cpuset *a, const struct cpuset *b)
{
	const unsigned nr = a->nr_words > b->nr_words ? a->nr_words : b->nr_words;

	for (unsigned i = 0; i < nr; i++)
		if ((i < a->nr_words ? a->words[i] : 0) != (i < b->nr_words ? b->words[i] : 0))
			return false;
	return true;
}

int cpuset_next(const struct cpuset *set, int from)
{
	for (unsigned cpu = (unsigned)from; cpu < set->nr_words * 64; cpu++)
		if (cpuset_has(set, cpu))
			return (int)cpu;
	return -1;
}

static int parse_cpu(const char **at, unsigned *ret)
{
	if (!isdigit((unsigned char)**at))
		return -EINVAL;
	char *end;
	unsigned long value = strtoul(*at, &end, 10);
	if (value >= CPUSET_MAX_CPUS)
		return -ERANGE;
	*at = end;
	*ret = (unsigned)value;
	return 0;
}

int cpuset_parse(struct cpuset *set, const char *list)
{
	for (const char *at = list;;) {
		unsigned first, last;
		int err = parse_cpu(&at, &first);
		if (err)
			return err;
		last = first;
		if (*at == '-') {
			at++;
			err = parse_cpu(&at, &last);
			if (err)
				return err;
		}
		if (last < first)
			return -EINVAL;
		for (unsigned cpu = first; cpu <= last; cpu++) {
			err = cpuset_add(set, cpu);
			if (err)
				return err;
		}
		if (*at == '\n')
			at++;
		if (*at == '\0')
			return 0;
		if (*at++ != ',')
			return -EINVAL;
	}
}

void cpuset_format(const struct cpuset *set, struct buf *ret)
{
	const char *separator = "";

	for (int first = cpuset_next(set, 0); first >= 0;) {
		int last = first;
		while (cpuset_has(set, (unsigned)last + 1))
			last++;
		if (last > first)
			buf_printf(ret, "%s%d-%d", separator, first, last);
		else
			buf_printf(ret, "%s%d", separator, first);
		separator = ",";
		first = cpuset_next(set, last + 1);
	}
}

static int read_or_count(struct cpuset *set, const char *path, int sysconf_name)
{
	AUTO_BUF struct buf text = {0};
	int err = fd_slurp(path, 65536, &text);

	if (!err)
		return cpuset_parse(set, buf_text(&text));
	long nr = sysconf(sysconf_name);
	for (long cpu = 0; cpu < (nr > 0 ? nr : 1); cpu++) {
		err = cpuset_add(set, (unsigned)cpu);
		if (err)
			return err;
	}
	return 0;
}

int cpuset_online(struct cpuset *set)
{
	return read_or_count(set, "/sys/devices/system/cpu/online", _SC_NPROCESSORS_ONLN);
}

int cpuset_possible(struct cpuset *set)
{
	return read_or_count(set, "/sys/devices/system/cpu/possible", _SC_NPROCESSORS_CONF);
}

int cpuset_allowed(struct cpuset *set)
{
	size_t bytes = CPU_ALLOC_SIZE(CPUSET_MAX_CPUS);
	cpu_set_t *allowed = CPU_ALLOC(CPUSET_MAX_CPUS);
	int err = 0;

	if (!allowed)
		return -ENOMEM;
	CPU_ZERO_S(bytes, allowed);
	if (sched_getaffinity(0, bytes, allowed))
		err = -errno;
	unsigned left = err ? 0 : (unsigned)CPU_COUNT_S(bytes, allowed);
	for (unsigned cpu = 0; left && !err; cpu++) {
		if (!CPU_ISSET_S(cpu, bytes, allowed))
			continue;
		err = cpuset_add(set, cpu);
		left--;
	}
	CPU_FREE(allowed);
	return err;
}

unsigned cpuset_count_allowed(void)
{
	struct cpuset set = {0};
	unsigned nr = cpuset_allowed(&set) ? 0 : cpuset_count(&set);

	cpuset_fini(&set);
	return nr ? nr : 1;
}

int cpuset_run_on(const struct cpuset *set)
{
	size_t bytes = CPU_ALLOC_SIZE(CPUSET_MAX_CPUS);
	cpu_set_t *wanted = CPU_ALLOC(CPUSET_MAX_CPUS);
	int err = 0;

	if (!wanted)
		return -ENOMEM;
	CPU_ZERO_S(bytes, wanted);
	for (int cpu = cpuset_next(set, 0); cpu >= 0; cpu = cpuset_next(set, cpu + 1))
		CPU_SET_S((size_t)cpu, bytes, wanted);
	if (sched_setaffinity(0, bytes, wanted))
		err = -errno;
	CPU_FREE(wanted);
	return err;
}

/* Each word is one of the kernel's: an unsigned long of 64 bits. */
static int run_on_words(const struct cpuset *set)
{
	return sched_setaffinity(0, set->nr_words * sizeof(set->words[0]), (const cpu_set_t *)set->words) ? -errno : 0;
}

int cpuset_leave_cpu(struct cpuset *set)
{
	const int cpu = sched_getcpu();

	if (cpu < 0 || !cpuset_has(set, (unsigned)cpu) || cpuset_count(set) < 2)
		return -ENOENT;
	cpuset_remove(set, (unsigned)cpu);
	int err = run_on_words(set);
	set->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
	int back_err = run_on_words(set);
	return err ? err : back_err;
}
