/* SPDX-License-Identifier: MIT */
#include "record/run/supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/log.h"
#include "record/adapt/steering.h"
#include "record/drain/reader.h"
#include "record/output/data_files.h"
#include "record/run/control.h"
#include "record/run/cpu_watch.h"
#include "record/run/ledger.h"
#include "record/run/rotation.h"
#include "record/setup/eventset.h"
#include "record/setup/options.h"
#include "record/setup/trigger_events.h"
#include "record/setup/workload.h"

/* What the supervisor keeps from one wake-up to the next. */
struct watch {
	const struct supervision *supervision;
	uint64_t start_ns;   /* CLOCK_MONOTONIC */
	uint64_t status_ns;  /* when the status is shown next; UINT64_MAX: never */
	size_t nr_switched;  /* moments of `times` that have come */
	unsigned nr_refused; /* lines of --control */
	int signal;          /* that ends the recording; 0: none */
	bool stop;           /* something else ends it */
	bool snapshot;       /* a snapshot was asked for */
	struct diag *reterr;
};

/* The first signal that ends the recording counts. */
static void read_signals(struct watch *watch)
{
	struct signalfd_siginfo info;

	while (read(watch->supervision->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGUSR2)
			watch->snapshot = true;
		else if (info.ssi_signo != SIGCHLD && !watch->signal)
			watch->signal = (int)info.ssi_signo;
}

/* CLOCK_MONOTONIC of the next moment of -D; UINT64_MAX: none is to come. */
static uint64_t next_switch_ns(const struct watch *watch, bool *ret_on)
{
	int64_t ms;

	if (!enable_times_next(watch->supervision->times, watch->nr_switched, &ms, ret_on))
		return UINT64_MAX;
	return watch->start_ns + (uint64_t)ms * 1000000;
}

/* For poll(2): until then; -1: for ever. */
static int wait_ms(uint64_t until_ns)
{
	enum { AT_MOST = 60000 };

	if (until_ns == UINT64_MAX)
		return -1;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t left_ms = now < until_ns ? (until_ns - now) / 1000000 + 1 : 0;
	return left_ms < AT_MOST ? (int)left_ms : AT_MOST;
}

static int switch_when_due(struct watch *watch)
{
	bool on;

	while (next_switch_ns(watch, &on) <= clock_ns(CLOCK_MONOTONIC)) {
		int err = eventset_switch(watch->supervision->set, EVENTSET_ALL, on);
		if (err)
			return err;
		watch->nr_switched++;
	}
	return 0;
}

/* One read at a time: a flood of commands must not keep us from seeing the end. */
static void obey(struct watch *watch)
{
	const struct supervision *supervision = watch->supervision;
	struct control *control = supervision->control;
	const char *line;

	control_read(control);
	while (!watch->stop && (line = control_next(control)))
		switch (control_command(control, supervision->set, line, &watch->nr_refused)) {
		case CONTROL_STOP: watch->stop = true; break;
		case CONTROL_SNAPSHOT:
			watch->snapshot = supervision->rotation->spec.on;
			control_reply(control, watch->snapshot ? "ack\n" : "error: snapshot: needs --switch-output\n");
			break;
		case CONTROL_NOTHING: break;
		}
}

static int rotate(struct watch *watch)
{
	struct rotation *rotation = watch->supervision->rotation;
	bool full = false, wanted = watch->snapshot;
	int err = rotation_step(rotation, &full, watch->reterr);

	watch->snapshot = false;
	if (!err && wanted)
		err = rotation_trigger(rotation, watch->reterr);
	if (full && !watch->stop) {
		log_note("the size limit is reached: the recording ends");
		watch->stop = true;
	}
	return err;
}

/* Of the present output; what is still in rings and blocks comes later. */
static uint64_t stored_bytes(const struct supervision *supervision)
{
	uint64_t most = 0, sum = 0;

	for (size_t i = 0; i < supervision->files->nr; i++) {
		const struct stream *stream = &supervision->files->files[i].stream;
		uint64_t stored = atomic_load_explicit(&stream->stored, memory_order_relaxed);
		most = stored > most ? stored : most;
		sum += stored;
	}
	return supervision->separate_files ? sum : most;
}

static void show_status(struct watch *watch)
{
	const struct supervision *supervision = watch->supervision;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (now < watch->status_ns)
		return;
	watch->status_ns = now + 1000000000;
	char samples[48] = "";
	if (supervision->nr_samples)
		snprintf(samples, sizeof(samples), "%llu samples, ",
			 (unsigned long long)atomic_load_explicit(supervision->nr_samples, memory_order_relaxed));
	log_status("recording for %llu s, %s%.1f MB written, lost %llu; Ctrl-C ends it",
		   (unsigned long long)((now - watch->start_ns) / 1000000000), samples,
		   (double)stored_bytes(supervision) / 1e6,
		   (unsigned long long)atomic_load_explicit(&supervision->book->nr_lost, memory_order_relaxed));
}

static uint64_t earlier(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

/* Waits once and does what has come; -errno. */
static int watch_once(struct watch *watch)
{
	enum { SIGNALS, READERS, CONTROL, SWITCH, TRIGGER, CPUS, NOTIFIER, NR };
	const struct supervision *supervision = watch->supervision;
	struct pollfd fds[NR] = {
		[SIGNALS] = {.fd = supervision->signal_fd, .events = POLLIN},
		[READERS] = {.fd = supervision->readers->notify_fd, .events = POLLIN},
		[CONTROL] = {.fd = supervision->control->fd, .events = POLLIN}, /* -1 is skipped */
		[SWITCH] = {.fd = supervision->readers->switch_fd, .events = POLLIN},
		[TRIGGER] = {.fd = supervision->trigger->fd, .events = POLLIN},
		[CPUS] = {.fd = supervision->cpus->fd, .events = POLLIN},
		[NOTIFIER] = {.fd = supervision->steering->notifier.fd, .events = POLLIN},
	};
	bool on;
	const struct rotation *rotation = supervision->rotation;
	uint64_t next_ns = earlier(next_switch_ns(watch, &on), earlier(rotation->next_ns, rotation->forget_ns));
	next_ns = earlier(next_ns, watch->status_ns);
	int ready = poll(fds, NR, wait_ms(earlier(next_ns, steering_next_ns(supervision->steering))));

	if (ready < 0 && errno != EINTR)
		return diag_set(watch->reterr, -errno, "cannot wait for the end of the recording: %s", strerror(errno));
	int err = switch_when_due(watch);
	if (err)
		return diag_set(watch->reterr, err, "cannot enable or disable the events: %s", strerror(-err));
	if (ready > 0 && fds[SIGNALS].revents)
		read_signals(watch);
	if (ready > 0 && fds[CONTROL].revents)
		obey(watch);
	if (ready > 0 && fds[TRIGGER].revents && trigger_events_fired(supervision->trigger))
		watch->snapshot = true;
	if (ready > 0 && fds[CPUS].revents)
		cpu_watch_read(supervision->cpus);
	steering_step(supervision->steering, ready > 0 && fds[NOTIFIER].revents);
	if (ready > 0 && (fds[READERS].revents || workload_ended(supervision->workload)))
		watch->stop = true;
	show_status(watch);
	return rotate(watch);
}

int supervise(struct supervision *supervision, int *ret_signal, struct diag *reterr)
{
	struct watch watch = {
		.supervision = supervision,
		.start_ns = clock_ns(CLOCK_MONOTONIC),
		.reterr = reterr,
	};
	int err = 0;

	watch.status_ns = supervision->shows_status ? watch.start_ns + 1000000000 : UINT64_MAX;
	rotation_start(supervision->rotation);
	while (!err && !watch.stop && !watch.signal)
		err = watch_once(&watch);
	if (supervision->shows_status)
		log_status("%s", "");
	*ret_signal = watch.signal;
	return err;
}
