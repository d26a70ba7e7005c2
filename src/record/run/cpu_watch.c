/* SPDX-License-Identifier: MIT */
#include "record/run/cpu_watch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/log.h"
#include "perfdata/ledger.h"
#include "record/setup/target.h"

enum { GROUP_OF_KERNEL = 1 }; /* of NETLINK_KOBJECT_UEVENT; 2 is what udev sends */

void cpu_watch_open(struct cpu_watch *watch, const struct target *target)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = GROUP_OF_KERNEL};

	*watch = (struct cpu_watch){.target = target};
	watch->fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
	if (watch->fd >= 0 && bind(watch->fd, (struct sockaddr *)&address, sizeof(address))) {
		close(watch->fd);
		watch->fd = -1;
	}
}

void cpu_watch_close(struct cpu_watch *watch)
{
	if (watch->fd >= 0)
		close(watch->fd);
	watch->fd = -1;
	cpuset_fini(&watch->gone);
	free(watch->blind);
	watch->blind = NULL;
	watch->nr_blind = 0;
}

/* Events of tasks go on wherever those run. */
static bool counts_whole_cpus(const struct target *target)
{
	return target->kind == EVENT_TARGET_SYSTEM || target->kind == EVENT_TARGET_CPUS;
}

/* That of the CPU which lasts until the end; NULL. */
static struct cpu_blind *find_open(const struct cpu_watch *watch, unsigned cpu)
{
	for (size_t i = 0; i < watch->nr_blind; i++)
		if (watch->blind[i].cpu == cpu && !watch->blind[i].to_ns)
			return &watch->blind[i];
	return NULL;
}

static int add_blind(struct cpu_watch *watch, struct cpu_blind blind)
{
	struct cpu_blind *grown = reallocarray(watch->blind, watch->nr_blind + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	watch->blind = grown;
	grown[watch->nr_blind++] = blind;
	return 0;
}

/* Samples of it are recorded, or with -C the task events only. */
static bool has_events(const struct target *target, unsigned cpu)
{
	return cpuset_has(&target->cpus, cpu) || cpuset_has(&target->other_cpus, cpu);
}

static int take_offline(struct cpu_watch *watch, unsigned cpu)
{
	if (!counts_whole_cpus(watch->target) || !has_events(watch->target, cpu) || cpuset_has(&watch->gone, cpu))
		return 0;
	if (!find_open(watch, cpu))
		log_note("CPU %u went offline, and its events ended", cpu);
	return cpuset_add(&watch->gone, cpu);
}

int cpu_watch_left_out(struct cpu_watch *watch, unsigned cpu)
{
	if (cpuset_has(&watch->gone, cpu))
		return 0;
	log_note("CPU %u went offline while events were opened: it is not recorded%s", cpu,
		 counts_whole_cpus(watch->target) ? " before it comes back" : "");
	return cpuset_add(&watch->gone, cpu);
}

/* Its events were ended. What ran there until they are open again is not recorded. */
static int take_back(struct cpu_watch *watch, unsigned cpu, uint64_t now_ns)
{
	struct diag why = {"its events are not opened again"};
	struct cpu_blind *blind = find_open(watch, cpu);
	int err = watch->reopen ? watch->reopen(watch->reopen_ctx, (int)cpu, &why) : -EOPNOTSUPP;
	uint64_t to_ns = err ? 0 : clock_ns(CLOCK_MONOTONIC);

	cpuset_remove(&watch->gone, cpu);
	if (err < 0 && !blind)
		log_note("CPU %u came online again: it is not recorded: %s", cpu, why.text);
	else if (err > 0)
		log_note("CPU %u came online again: its samples are not recorded, its task events are from now on",
			 cpu);
	else if (!err)
		log_note("CPU %u came online again: it is recorded from now on, without the moment before", cpu);
	if (!blind)
		return add_blind(watch, (struct cpu_blind){cpu, now_ns, to_ns});
	blind->to_ns = to_ns;
	return 0;
}

static int take_online(struct cpu_watch *watch, unsigned cpu, uint64_t now_ns)
{
	const struct target *target = watch->target;

	if (cpuset_has(&watch->gone, cpu))
		return counts_whole_cpus(target) ? take_back(watch, cpu, now_ns) : 0;
	if (target->per_thread || find_open(watch, cpu))
		return 0;
	if (has_events(target, cpu) || target->kind == EVENT_TARGET_CPUS)
		return 0;
	log_note("CPU %u came online: it is not recorded", cpu);
	return add_blind(watch, (struct cpu_blind){cpu, now_ns, 0});
}

int cpu_watch_take(struct cpu_watch *watch, const char *text, uint64_t now_ns)
{
	unsigned cpu;
	int len = 0;

	if (sscanf(text, "offline@/devices/system/cpu/cpu%u%n", &cpu, &len) == 1 && !text[len])
		return take_offline(watch, cpu);
	if (sscanf(text, "online@/devices/system/cpu/cpu%u%n", &cpu, &len) == 1 && !text[len])
		return take_online(watch, cpu, now_ns);
	return 0;
}

int cpu_watch_compare(struct cpu_watch *watch, const struct cpuset *online, uint64_t now_ns)
{
	const struct cpuset *const recorded[] = {&watch->target->cpus, &watch->target->other_cpus};
	int err = 0;

	for (size_t i = 0; i < sizeof(recorded) / sizeof(recorded[0]); i++)
		for (int cpu = cpuset_next(recorded[i], 0); cpu >= 0 && !err; cpu = cpuset_next(recorded[i], cpu + 1))
			if (!cpuset_has(online, (unsigned)cpu))
				err = take_offline(watch, (unsigned)cpu);
	for (int cpu = cpuset_next(online, 0); cpu >= 0 && !err; cpu = cpuset_next(online, cpu + 1))
		err = take_online(watch, (unsigned)cpu, now_ns);
	return err;
}

/* The kernel had no room for messages, of which some may be of CPUs: netlink(7), ENOBUFS. */
static void compare_all(struct cpu_watch *watch)
{
	struct cpuset online __attribute__((cleanup(cpuset_fini))) = {0};

	if (!cpuset_online(&online))
		(void)!cpu_watch_compare(watch, &online, clock_ns(CLOCK_MONOTONIC));
}

void cpu_watch_read(struct cpu_watch *watch)
{
	char text[4096];
	bool lost = false;
	ssize_t len;

	while ((len = recv(watch->fd, text, sizeof(text) - 1, MSG_DONTWAIT)) > 0 || (len < 0 && errno == ENOBUFS)) {
		lost |= len < 0;
		if (len < 0)
			continue;
		text[len] = '\0';
		/* Out of memory: it was told, and is not in the ledger. */
		(void)!cpu_watch_take(watch, text, clock_ns(CLOCK_MONOTONIC));
	}
	if (lost)
		compare_all(watch);
}

int cpu_watch_account(const struct cpu_watch *watch, struct ledger *ledger)
{
	int err = 0;

	for (size_t i = 0; i < watch->nr_blind && !err; i++) {
		const struct ledger_entry entry = {
			.event = (uint32_t)LEDGER_NO_EVENT,
			.cause = LEDGER_CPU_BACK,
			.cpu = (int32_t)watch->blind[i].cpu,
			.tid = -1,
			.from_ns = watch->blind[i].from_ns,
			.to_ns = watch->blind[i].to_ns ? watch->blind[i].to_ns : clock_ns(CLOCK_MONOTONIC),
		};
		err = ledger_add(ledger, &entry);
	}
	return err;
}
