/* SPDX-License-Identifier: MIT */
/*
 * perf_event_open(2), with what older kernels and smaller rights leave of an event. The order in which
 * features are given up is perf's, so that the same kernel records the same events for both.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"
#include "event/event.h"
#include "event/explain.h"
#include "event/need.h"

/* Bits of event_fallbacks.missing. */
enum {
	MISSING_LOST,
	MISSING_WEIGHT_STRUCT,
	MISSING_BRANCH_HW_INDEX,
	MISSING_BPF_EVENT,
	MISSING_KSYMBOL,
	MISSING_CLOEXEC,
	MISSING_MMAP2,
	MISSING_EXCLUDE_GUEST,
	MISSING_SAMPLE_ID_ALL,
	MISSING_BRANCH_FLAGS,
	NR_MISSING,

	LIMIT_RAISED_TO_HARD = 30, /* RLIMIT_NOFILE, not a feature */
	LIMIT_RAISED_MORE = 31,
};

static const char *const missing_words[NR_MISSING] = {
	[MISSING_LOST] = "counts of lost records (Linux 6.0)",
	[MISSING_WEIGHT_STRUCT] = "weights in parts (5.12)",
	[MISSING_BRANCH_HW_INDEX] = "branch hw_idx (5.7)",
	[MISSING_BPF_EVENT] = "records of BPF programs (5.1)",
	[MISSING_KSYMBOL] = "records of kernel symbols (5.1)",
	[MISSING_CLOEXEC] = "PERF_FLAG_FD_CLOEXEC (3.14)",
	[MISSING_MMAP2] = "MMAP2 and COMM_EXEC (3.16)",
	[MISSING_EXCLUDE_GUEST] = "exclude_guest and exclude_host (3.2)",
	[MISSING_SAMPLE_ID_ALL] = "sample_id_all (2.6.38)",
	[MISSING_BRANCH_FLAGS] = "branch NO_FLAGS and NO_CYCLES",
};

/* Takes the feature out of the attr; false when the attr does not use it. */
static bool leave_out(struct perf_event_attr *attr, int feature)
{
	struct perf_event_attr before = *attr;

	switch (feature) {
	case MISSING_LOST:
		attr->read_format &= ~(uint64_t)PERF_FORMAT_LOST;
		break;
	case MISSING_WEIGHT_STRUCT:
		if (attr->sample_type & PERF_SAMPLE_WEIGHT_STRUCT)
			attr->sample_type |= PERF_SAMPLE_WEIGHT;
		attr->sample_type &= ~(uint64_t)PERF_SAMPLE_WEIGHT_STRUCT;
		break;
	case MISSING_BRANCH_HW_INDEX:
		attr->branch_sample_type &= ~(uint64_t)PERF_SAMPLE_BRANCH_HW_INDEX;
		break;
	case MISSING_BPF_EVENT:
		attr->bpf_event = 0;
		break;
	case MISSING_KSYMBOL:
		attr->ksymbol = 0;
		break;
	case MISSING_MMAP2:
		attr->mmap2 = 0;
		attr->comm_exec = 0;
		break;
	case MISSING_EXCLUDE_GUEST:
		attr->exclude_guest = 0;
		attr->exclude_host = 0;
		break;
	case MISSING_SAMPLE_ID_ALL:
		attr->sample_id_all = 0;
		break;
	case MISSING_BRANCH_FLAGS:
		attr->branch_sample_type &=
			~(uint64_t)(PERF_SAMPLE_BRANCH_NO_FLAGS | PERF_SAMPLE_BRANCH_NO_CYCLES);
		break;
	}
	return memcmp(&before, attr, sizeof(before)) != 0;
}

static int call_open(const struct event *event, const struct event_fallbacks *fallbacks,
		     const struct event_place *place)
{
	unsigned long flags = fallbacks->cloexec_missing ? 0 : PERF_FLAG_FD_CLOEXEC;
	struct perf_event_attr attr = event->attr; /* the kernel may write its own size into it */
	int whose = event->in_cgroup ? event->cgroup_fd : place->pid;

	if (event->in_cgroup)
		flags |= PERF_FLAG_PID_CGROUP;
	long fd = syscall(SYS_perf_event_open, &attr, whose, place->cpu, place->group_fd, flags);

	return fd < 0 ? -errno : (int)fd;
}

/* First what the hard limit allows, then, with the rights for it, some more. */
static bool raise_fd_limit(struct event_fallbacks *fallbacks)
{
	enum { MORE_FDS = 1000 };
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return false;
	if (!(fallbacks->missing & 1u << LIMIT_RAISED_TO_HARD)) {
		fallbacks->missing |= 1u << LIMIT_RAISED_TO_HARD;
		if (limit.rlim_cur < limit.rlim_max) {
			limit.rlim_cur = limit.rlim_max;
			return setrlimit(RLIMIT_NOFILE, &limit) == 0;
		}
	}
	if (fallbacks->missing & 1u << LIMIT_RAISED_MORE)
		return false;
	limit.rlim_max += MORE_FDS;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		fallbacks->missing |= 1u << LIMIT_RAISED_MORE;
		return false;
	}
	return true;
}

/* The call, with as many files as it takes. */
static int try_open(const struct event *event, struct event_fallbacks *fallbacks, const struct event_place *place)
{
	int fd = call_open(event, fallbacks, place);

	while (fd == -EMFILE && raise_fd_limit(fallbacks))
		fd = call_open(event, fallbacks, place);
	return fd;
}

/* "P": the highest precision that opens. The precision stays what it was when none does. */
static int try_precisions(struct event *event, struct event_fallbacks *fallbacks, const struct event_place *place)
{
	int first = try_open(event, fallbacks, place), fd = first;
	unsigned highest = event->attr.precise_ip;

	if (!(event->given & EVENT_GIVEN_MAX_PRECISE))
		return fd;
	while ((fd == -EOPNOTSUPP || fd == -EINVAL || fd == -ENOENT) && event->attr.precise_ip > 0) {
		event->attr.precise_ip--;
		fd = try_open(event, fallbacks, place);
	}
	if (fd >= 0)
		return fd;
	event->attr.precise_ip = highest & 3;
	return first;
}

/* Is it only together with its leader that the kernel refuses it? Then no feature is missing. */
static bool opens_alone(const struct event *event, struct event_fallbacks *fallbacks,
			const struct event_place *place)
{
	struct event_place alone = {place->pid, place->cpu, -1};
	int fd = try_open(event, fallbacks, &alone);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* On EINVAL one feature after the other goes, and stays away. */
static int try_features(struct event *event, struct event_fallbacks *fallbacks, const struct event_place *place)
{
	int fd = try_precisions(event, fallbacks, place);

	if (fd == -EINVAL && place->group_fd >= 0 && opens_alone(event, fallbacks, place))
		return fd;
	for (int feature = 0; fd == -EINVAL && feature < NR_MISSING; feature++) {
		if (fallbacks->missing & 1u << feature)
			continue;
		if (feature == MISSING_CLOEXEC)
			fallbacks->cloexec_missing = true;
		else if (!leave_out(&event->attr, feature))
			continue;
		fallbacks->missing |= 1u << feature;
		fd = try_precisions(event, fallbacks, place);
	}
	return fd;
}

static void say_missing(unsigned before, unsigned after)
{
	for (int feature = 0; feature < NR_MISSING; feature++) {
		if ((after & ~before) & 1u << feature)
			log_verbose("this kernel lacks %s: recording without", missing_words[feature]);
	}
}

/* A machine without a PMU for cycles can still look at the clock. */
static bool replace_cycles(struct event *event, int err)
{
	struct perf_event_attr *attr = &event->attr;

	if (err != -ENOENT && err != -ENXIO && err != -ENODEV)
		return false;
	if (attr->type != PERF_TYPE_HARDWARE || attr->config != PERF_COUNT_HW_CPU_CYCLES)
		return false;
	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = PERF_COUNT_SW_CPU_CLOCK;
	return true;
}

/* Without the right to watch the kernel the user's side is left. */
static bool restrict_to_user(struct event *event, int err)
{
	struct perf_event_attr *attr = &event->attr;

	if ((err != -EACCES && err != -EPERM) || attr->exclude_kernel || attr->exclude_user ||
	    explain_paranoid() <= 1)
		return false;
	attr->exclude_kernel = 1;
	attr->exclude_hv = 1;
	return true;
}

/* The label that perf gives to an event that became another one. NULL: stays as it is. */
static char *changed_name(const struct event *event, bool replaced)
{
	size_t len = strlen(event->name);
	char *name;

	/* The label of a tracepoint is what readers find its format by. */
	if (event->given & EVENT_GIVEN_NAME || event->tracepoint_system)
		return NULL;
	if (replaced)
		return event_derived_name(&event->attr);
	bool has_modifiers = strchr(event->name, ':') || (len && event->name[len - 1] == '/');
	return asprintf(&name, "%s%s", event->name, has_modifiers ? "u" : ":u") < 0 ? NULL : name;
}

static void say_changed(struct event *event, bool replaced, bool restricted)
{
	if (!replaced && !restricted)
		return;
	log_note("%s: %s%s%s: sampling %s%s", event->name,
		 replaced ? "this machine has no PMU that counts cycles" : "",
		 replaced && restricted ? ", and " : "",
		 restricted ? "kernel.perf_event_paranoid forbids to watch the kernel" : "",
		 replaced ? "cpu-clock instead" : "user space only",
		 replaced && restricted ? ", of user space only" : "");
	char *name = changed_name(event, replaced);
	if (name) {
		free(event->name);
		event->name = name;
	}
}

/*
 * What an event is refused for although everything went that can go: the one thing without which it opens. Whoever asked
 * for it is told, rather than given less.
 */
static const char *missing_need(const struct event *event, struct event_fallbacks *fallbacks, const struct event_place *place)
{
	for (size_t i = 0; i < NEED_MAX; i++) {
		struct event less = *event;
		const char *word;
		if (!need_leave_out(&less.attr, i, &word))
			continue;
		int fd = try_open(&less, fallbacks, place);
		if (fd >= 0) {
			close(fd);
			return word;
		}
	}
	return NULL;
}

static int refuse(const struct event *event, int err, struct event_fallbacks *fallbacks, const struct event_place *place,
		  struct diag *reterr)
{
	bool forbidden = err == -EACCES || err == -EPERM;
	const char *word = err == -EINVAL || forbidden ? missing_need(event, fallbacks, place) : NULL;

	if (word)
		return diag_set(reterr, err, "event %s: %s %s", event->name,
				forbidden ? "only CAP_PERFMON (root) gives" : "this kernel has no", word);
	return explain_open(event, err, place, reterr);
}

int event_open(struct event *event, struct event_fallbacks *fallbacks, const struct event_place *place,
	       bool first, struct diag *reterr)
{
	if (!first) {
		int fd = try_open(event, fallbacks, place);
		return fd < 0 ? explain_open(event, fd, place, reterr) : fd;
	}

	unsigned before = fallbacks->missing;
	bool replaced = false, restricted = false;
	for (int feature = 0; feature < NR_MISSING; feature++) {
		if (before & 1u << feature)
			leave_out(&event->attr, feature);
	}
	int fd = try_features(event, fallbacks, place);
	while (fd < 0) {
		if (replace_cycles(event, fd))
			replaced = true;
		else if (restrict_to_user(event, fd))
			restricted = true;
		else
			return refuse(event, fd, fallbacks, place, reterr);
		fd = try_features(event, fallbacks, place);
	}
	say_missing(before, fallbacks->missing);
	say_changed(event, replaced, restricted);
	return fd;
}
