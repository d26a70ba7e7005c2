/* SPDX-License-Identifier: MIT */
#include "record/setup/trigger_events.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/diag.h"
#include "event/parse/configure.h"
#include "record/setup/target.h"
#include "stream/ring.h"

/* Samples that are small, of any event, and nothing else. */
static void strip(struct perf_event_attr *attr)
{
	attr->sample_type &= PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			     PERF_SAMPLE_CPU | PERF_SAMPLE_ID | PERF_SAMPLE_PERIOD;
	attr->branch_sample_type = attr->sample_regs_user = attr->sample_regs_intr = 0;
	attr->sample_stack_user = 0;
	attr->mmap = attr->mmap_data = attr->mmap2 = attr->comm = attr->comm_exec = attr->task = 0;
	attr->ksymbol = attr->bpf_event = attr->namespaces = attr->cgroup = attr->context_switch = 0;
	attr->build_id = 0;
}

/* Each sample wakes up poll(2). */
static int configure(struct event_list *events, const struct event_options *sampling, struct diag *reterr)
{
	struct event_options options = *sampling;

	options.no_buffering = true;
	options.side_channel = options.overwrite = options.delayed = options.pipe_output = options.group = false;
	options.freq_hz = options.period = 0;
	int err = event_list_configure(events, &options, reterr);
	for (size_t i = 0; i < events->nr; i++)
		strip(&events->events[i].attr);
	return err;
}

/* Edge-triggered: the fd of a task that has ended would be ready for ever. */
static int watch(struct trigger_events *trigger)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	trigger->fd = epoll_create1(EPOLL_CLOEXEC);
	if (trigger->fd < 0)
		return -errno;
	for (size_t i = 0; i < trigger->plan.nr_slots; i++)
		if (trigger->set.fds[i] >= 0 && epoll_ctl(trigger->fd, EPOLL_CTL_ADD, trigger->set.fds[i], &event))
			return -errno;
	return 0;
}

int trigger_events_open(struct trigger_events *trigger, struct event_list *events, const struct event_options *sampling,
			const struct target *target, struct diag *reterr)
{
	const struct ring_sizes sizes = {.pages = 1, .exact = true};

	*trigger = (struct trigger_events){.fd = -1};
	if (!events || !events->nr)
		return 0;
	int err = configure(events, sampling, reterr);
	if (err)
		return err;
	err = plan_check_cpus(events, target, reterr);
	if (err)
		return err;
	err = plan_make(events, target, &trigger->plan);
	if (err)
		return diag_set(reterr, err, "%s", strerror(-err));
	err = eventset_open(&trigger->set, &trigger->plan, events, sizes, reterr);
	if (err) {
		diag_prefix(reterr, "--switch-output-event");
		return err;
	}
	err = watch(trigger);
	return err ? diag_set(reterr, err, "--switch-output-event: %s", strerror(-err)) : 0;
}

void trigger_events_close(struct trigger_events *trigger)
{
	if (trigger->fd >= 0)
		close(trigger->fd);
	trigger->fd = -1;
	if (trigger->set.plan)
		eventset_close(&trigger->set);
	plan_fini(&trigger->plan);
}

int trigger_events_enable(struct trigger_events *trigger)
{
	return trigger->fd < 0 ? 0 : eventset_enable(&trigger->set);
}

/* Takes all there is; does it hold a sample, or was one lost for want of room? */
static bool empty(struct ring *ring)
{
	struct span spans[2];
	size_t bytes = ring_peek(ring, spans), at = 0;
	bool found = false;

	while (bytes - at >= sizeof(struct perf_event_header)) {
		struct perf_event_header header;
		const char *where = at < spans[0].len ? (const char *)spans[0].ptr + at
						      : (const char *)spans[1].ptr + (at - spans[0].len);
		memcpy(&header, where, sizeof(header)); /* does not wrap: rings are pages, records multiples of 8 */
		if (header.size < sizeof(header))
			break;
		found |= header.type == PERF_RECORD_SAMPLE || header.type == PERF_RECORD_LOST;
		at += header.size;
	}
	ring_take(ring, bytes);
	ring_release(ring, bytes);
	return found;
}

bool trigger_events_fired(struct trigger_events *trigger)
{
	enum { AT_ONCE = 16 };
	struct epoll_event events[AT_ONCE];
	bool fired = false;

	if (trigger->fd < 0)
		return false;
	while (epoll_wait(trigger->fd, events, AT_ONCE, 0) == AT_ONCE)
		;
	for (size_t i = 0; i < trigger->plan.nr_drained; i++)
		fired |= empty(&trigger->set.rings[i]);
	return fired;
}
