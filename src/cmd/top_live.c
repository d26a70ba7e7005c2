/* SPDX-License-Identifier: MIT */
#include "cmd/top_live.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/input/container_files.h"
#include "cmd/input/sandbox.h"
#include "cmd/top_decay.h"
#include "cmd/top_history.h"
#include "read/session.h"

enum { PIPE_BYTES = 1 << 20 };

/*
 * What is counted may take MOST_COUNTED times as much memory as what is held. What has no samples any more is forgotten
 * when it takes a SHRINK_PART of that, or so many tasks have ended; and again when there is twice as much.
 */
enum { MOST_COUNTED = 4, SHRINK_PART = 4, SHRINK_EXITS = 1 << 12, MEASURE_SAMPLES = 256 };

/* What the view looks at of an event: the cells that are counted, with amounts of their own that decay. */
struct shown_event {
	struct tally tally;       /* its interned items are those of the event's tally: see borrow_cells() */
	struct decay_rest *rests; /* of tally.amounts */
	uint32_t room;            /* of both */
};

struct live {
	const struct live_options *options;
	struct symbol_options symbols;
	pid_t recorder;
	int stream_fd;  /* from the recorder */
	int control_fd; /* to the recorder */
	int message_fd; /* what it says on standard error: a file in memory */
	int kernel_fd;  /* /proc/kcore; -1: cannot be read */
	struct top_history *history;
	pthread_t counter; /* keeps the stream, and counts its records */
	bool has_counter;
	/* Guards all that follows, the machine and the samples too; the view has it but while it waits for a key. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct session *session;
	struct machine *machine;
	struct samples samples;
	struct input_losses losses;
	bool begun, ended; /* the front of the stream was read; the stream has ended */
	int err;           /* of reading it */
	struct diag diag;
	bool paused, zero, total, disabled;
	uint64_t nr_taken, nr_exits; /* samples; tasks that ended since the last shrink() */
	uint64_t nr_not_counted;     /* samples for which there was no room */
	size_t shrink_at;            /* bytes */
	bool full;
	/* For the view: */
	struct shown_event *shown; /* of each event of the session */
	struct tally **tallies;
	struct view_event *events;
	struct buf *names;
	size_t nr_events;
	struct view_data data;
	struct view_source source;
};

struct channels {
	int stream[2], control[2];
};

static void __attribute__((noreturn)) run_recorder(const struct live *live, const struct channels *channels)
{
	char where[32];
	char *words[128];
	int nr = 0, null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGINT, SIG_IGN); /* the one who started us decides when the recording ends */
	close(channels->stream[0]);
	close(channels->control[1]);
	dup2(null_fd, STDIN_FILENO);
	dup2(channels->stream[1], STDOUT_FILENO);
	dup2(live->message_fd, STDERR_FILENO);
	close(channels->stream[1]);
	snprintf(where, sizeof(where), "--control=fd:%d", channels->control[0]);
	words[nr++] = live->options->record[0];
	words[nr++] = where;
	for (int i = 1; live->options->record[i] && nr < 127; i++)
		words[nr++] = live->options->record[i];
	words[nr] = NULL;
	int status = command_record.run(nr, words);
	fflush(NULL);
	_exit(status);
}

static int start_recorder(struct live *live, struct diag *reterr)
{
	struct channels channels;

	live->message_fd = memfd_create("millrace-top-messages", MFD_CLOEXEC);
	if (live->message_fd < 0 || pipe2(channels.stream, O_CLOEXEC) || pipe2(channels.control, O_CLOEXEC))
		return diag_set(reterr, -errno, "pipe: %s", strerror(errno));
	fcntl(channels.stream[0], F_SETPIPE_SZ, PIPE_BYTES);
	fflush(NULL);
	live->recorder = fork();
	if (live->recorder == 0)
		run_recorder(live, &channels);
	close(channels.stream[1]);
	close(channels.control[0]);
	live->stream_fd = channels.stream[0];
	live->control_fd = channels.control[1];
	return live->recorder < 0 ? diag_set(reterr, -errno, "fork: %s", diag_start_error(-errno)) : 0;
}

/* The next bytes of the stream, which are kept on the way: see struct session_stream. */
static ssize_t read_stream(void *ctx, void *to, size_t len)
{
	struct live *live = ctx;
	ssize_t got = read(live->stream_fd, to, len);

	if (got < 0)
		return -errno;
	int err = got ? top_history_add(live->history, to, (size_t)got) : 0;
	return err ? err : got;
}

static bool is_front(uint32_t type)
{
	return type == RECORD_HEADER_ATTR || type == RECORD_HEADER_FEATURE;
}

/* The view may not look for hours, or keep everything: what comes then is no more counted than there is room for. */
static int take_sample(struct live *live, const struct session_record *record)
{
	if (live->nr_taken++ % MEASURE_SAMPLES == 0)
		live->full = samples_bytes(&live->samples) > MOST_COUNTED * live->options->history_bytes;
	live->nr_not_counted += live->full;
	return live->full ? 0 : samples_take(&live->samples, record);
}

static int take(struct live *live, const struct session_record *record)
{
	input_count_losses(&live->losses, record);
	live->nr_exits += record->view.header->type == PERF_RECORD_EXIT;
	return record->view.header->type == PERF_RECORD_SAMPLE ? take_sample(live, record)
							       : machine_process(live->machine, record);
}

/* The lock is held but while the next record is waited for. */
static int count_records(struct live *live)
{
	struct session_record record;
	int got;

	for (;;) {
		pthread_mutex_unlock(&live->lock);
		got = session_next(live->session, &record, &live->diag);
		pthread_mutex_lock(&live->lock);
		if (got <= 0)
			return got;
		if (!live->begun && !is_front(record.view.header->type)) {
			live->begun = true;
			pthread_cond_broadcast(&live->changed);
		}
		int err = take(live, &record);
		if (err)
			return diag_set(&live->diag, err, "%s",
					err == -ENOMEM ? "out of memory" : live->samples.why.text);
	}
}

static void *count(void *ctx)
{
	struct live *live = ctx;
	const struct session_stream stream = {.read = read_stream, .ctx = live};
	int err = session_open_stream(stream, 0, &live->session, &live->diag);

	pthread_mutex_lock(&live->lock);
	if (!err)
		err = machine_new(&live->symbols, live->session, &live->machine);
	if (!err)
		err = samples_init(&live->samples, &live->options->samples, live->session, live->machine);
	if (!err)
		err = count_records(live);
	live->err = err;
	live->ended = true;
	pthread_cond_broadcast(&live->changed);
	pthread_mutex_unlock(&live->lock);
	/* What still comes is kept all the same: the recorder must not wait for us. */
	char rest[4096];
	ssize_t got;
	while ((got = read_stream(live, rest, sizeof(rest))) > 0 || got == -EINTR)
		;
	return NULL;
}

static void lock(void *ctx);

static void unlock(void *ctx)
{
	struct live *live = ctx;

	pthread_mutex_unlock(&live->lock);
}

/* The counter may have moved the items of a tally since the view looked last. */
static void borrow_cells(struct live *live)
{
	for (size_t i = 0; i < live->nr_events; i++) {
		const struct tally *from = i < live->samples.nr ? &live->samples.events[i].tally : NULL;
		struct tally *to = &live->shown[i].tally;
		if (from) {
			to->tasks = from->tasks;
			to->functions = from->functions;
			to->cells = from->cells;
		}
	}
	if (live->samples.stacks)
		live->data.stacks = live->samples.stacks;
}

static void lock(void *ctx)
{
	struct live *live = ctx;

	pthread_mutex_lock(&live->lock);
	borrow_cells(live);
}

static int fit_shown(struct shown_event *shown, uint32_t nr)
{
	if (nr > shown->room) {
		uint32_t room = nr + nr / 2 + 64;
		struct hist_amount *amounts = reallocarray(shown->tally.amounts, room, sizeof(*amounts));
		if (!amounts)
			return -ENOMEM;
		shown->tally.amounts = amounts;
		struct decay_rest *rests = reallocarray(shown->rests, room, sizeof(*rests));
		if (!rests)
			return -ENOMEM;
		shown->rests = rests;
		shown->room = room;
	}
	memset(shown->tally.amounts + shown->tally.nr, 0, (nr - shown->tally.nr) * sizeof(struct hist_amount));
	memset(shown->rests + shown->tally.nr, 0, (nr - shown->tally.nr) * sizeof(struct decay_rest));
	shown->tally.nr = nr;
	return 0;
}

/* What was shown decays, or goes, or stays; what came since is added to it. Without room less than a sample goes. */
static void update_event(const struct live *live, struct shown_event *shown, struct tally *tally)
{
	if (fit_shown(shown, tally->nr))
		return; /* it comes with the next update */
	struct decay_pass pass = {.least_parts = live->full ? DECAY_PARTS : DECAY_LEAST_PARTS,
				  .period_carried = DECAY_PARTS / 2,
				  .samples_carried = DECAY_PARTS / 2};
	for (uint32_t i = 0; i < tally->nr; i++) {
		struct hist_amount *amount = &shown->tally.amounts[i], *new = &tally->amounts[i];
		if (live->zero) {
			*amount = (struct hist_amount){0};
			shown->rests[i] = (struct decay_rest){0};
		} else if (!live->total) {
			decay_amount(amount, &shown->rests[i], &pass);
		}
		amount->period += new->period;
		amount->nr_samples += new->nr_samples;
		*new = (struct hist_amount){0};
	}
}

/* The cells that shrink_tallies() keeps. */
static void mark_rests(struct shown_event *shown, const struct tally *tally)
{
	for (uint32_t i = 0; i < shown->tally.nr; i++)
		shown->rests[i].stays = amount_is_used(&shown->tally.amounts[i]) || amount_is_used(&tally->amounts[i]);
}

/* As shrink_tallies() has done with the amounts, unless it came to nothing. */
static void keep_rests(struct shown_event *shown, uint32_t nr_before)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < nr_before && shown->tally.nr < nr_before; i++)
		if (shown->rests[i].stays)
			shown->rests[nr++] = shown->rests[i];
}

static int shrink_cells(struct live *live)
{
	AUTO_FREE uint32_t *nr_before = calloc(live->samples.nr + 1, sizeof(*nr_before));

	if (!nr_before)
		return -ENOMEM;
	for (size_t i = 0; i < live->samples.nr; i++) {
		nr_before[i] = live->shown[i].tally.nr;
		mark_rests(&live->shown[i], &live->samples.events[i].tally);
	}
	int err = samples_shrink(&live->samples, live->tallies);
	for (size_t i = 0; i < live->samples.nr; i++)
		keep_rests(&live->shown[i], nr_before[i]);
	return err;
}

/* After an update: what has decayed goes when there is much. Without memory for that it is tried again. */
static void shrink(struct live *live)
{
	size_t bytes = samples_bytes(&live->samples), least = live->options->history_bytes / SHRINK_PART;
	bool much = bytes >= live->shrink_at && bytes >= least;

	if (live->full) /* nothing more comes until something goes */
		much = !live->total;
	if (!much && live->nr_exits < SHRINK_EXITS)
		return;
	for (size_t i = 0; i < live->samples.nr; i++)
		if (live->shown[i].tally.nr > live->samples.events[i].tally.nr)
			return;
	live->nr_exits = 0;
	if (!shrink_cells(live))
		live->shrink_at = 2 * samples_bytes(&live->samples);
}

static bool update(void *ctx)
{
	struct live *live = ctx;

	live->data.times = live->samples.times;
	if (live->paused || (live->disabled && !live->total))
		return false;
	for (size_t i = 0; i < live->nr_events && i < live->samples.nr; i++)
		update_event(live, &live->shown[i], &live->samples.events[i].tally);
	shrink(live);
	borrow_cells(live);
	return true;
}

static int save(void *ctx, struct buf *ret_path, struct diag *reterr)
{
	struct live *live = ctx;
	int err = top_history_save(live->history, live->options->output, reterr);

	if (!err)
		buf_put_text(ret_path, live->options->output);
	return err;
}

static void describe(void *ctx, struct view_live *ret)
{
	struct live *live = ctx;

	*ret = (struct view_live){.paused = live->paused,
				  .disabled = live->disabled,
				  .zero = live->zero,
				  .total = live->total,
				  .ended = live->ended,
				  .lost = live->losses.lost_records,
				  .not_counted = live->nr_not_counted,
				  .kept_bytes = top_history_counts(live->history).bytes};
}

/* The recorder does as it is told within one of its visits; when it is gone there is nothing to switch. */
static void switch_events(struct live *live)
{
	const char *word = live->disabled ? "enable\n" : "disable\n";

	if (!fd_write(live->control_fd, word, strlen(word)))
		live->disabled = !live->disabled;
}

static void toggle(void *ctx, char key)
{
	struct live *live = ctx;

	switch (key) {
	case 'z':
		live->zero = !live->zero;
		live->total = false;
		break;
	case 'D':
		live->total = !live->total;
		live->zero = false;
		break;
	case 'p': live->paused = !live->paused; break;
	case 'f': switch_events(live); break;
	default: break;
	}
}

static const struct view_source_ops ops = {
	.save = save,
	.lock = lock,
	.unlock = unlock,
	.update = update,
	.live = describe,
	.toggle = toggle,
};

static bool has_samples(const struct event_desc *event)
{
	return event->attr.type != PERF_TYPE_SOFTWARE || event->attr.config != PERF_COUNT_SW_DUMMY;
}

/* The events are known: locked. */
static int describe_events(struct live *live)
{
	size_t nr, shown = 0;
	const struct event_desc *events = session_events(live->session, &nr);
	bool chains = false;

	live->shown = calloc(nr + 1, sizeof(*live->shown));
	live->tallies = calloc(nr + 1, sizeof(struct tally *));
	live->events = calloc(nr + 1, sizeof(*live->events));
	live->names = calloc(nr + 1, sizeof(*live->names));
	if (!live->shown || !live->tallies || !live->events || !live->names)
		return -ENOMEM;
	live->nr_events = nr;
	for (size_t i = 0; i < nr; i++) {
		bool own = events[i].attr.sample_type & PERF_SAMPLE_CALLCHAIN;
		live->tallies[i] = &live->shown[i].tally;
		chains |= own;
		if (!has_samples(&events[i]))
			continue;
		escape_put_text(&live->names[i], events[i].name);
		live->events[shown++] = (struct view_event){
			.name = buf_text(&live->names[i]), .tallies = &live->tallies[i], .nr = 1, .chains = own};
	}
	live->data.nr_events = shown;
	live->data.count = samples_count_options(&live->samples);
	live->data.count.hist.children = live->options->samples.hist.children && chains;
	return 0;
}

static void fill_data(struct live *live)
{
	const struct live_options *options = live->options;
	struct column_list columns;

	column_choice_shown(&options->columns, live->data.count.hist.children, &columns);
	live->data.title = "top";
	live->data.events = live->events;
	live->data.stacks = live->samples.stacks;
	memcpy(live->data.columns, columns.columns, sizeof(live->data.columns));
	live->data.nr_columns = columns.nr;
	live->data.self_named = live->data.count.hist.children;
	live->data.addresses = true;
	live->data.relative = true;
	live->data.percent_limit = options->percent_limit;
	live->data.graph_percent = 0.5;
	live->data.debug_info = machine_debug_info(live->machine);
	live->data.code_syntax = options->code_syntax;
	live->data.kernel_code_fd = live->kernel_fd;
	live->data.times = live->samples.times;
	live->source = (struct view_source){
		.ops = &ops, .ctx = live, .data = &live->data, .interval_ms = (unsigned)options->delay_ms};
}

/* Until the first record behind the front, or the end. */
static int wait_for_begin(struct live *live, struct diag *reterr)
{
	int err = 0;

	pthread_mutex_lock(&live->lock);
	while (!live->begun && !live->ended)
		pthread_cond_wait(&live->changed, &live->lock);
	if (!live->begun)
		err = diag_set(reterr, live->err ? live->err : -ECHILD, "nothing was recorded%s%s",
			       live->diag.text[0] ? ": " : "", live->diag.text);
	else if (describe_events(live))
		err = diag_set(reterr, -ENOMEM, "out of memory");
	else
		fill_data(live);
	pthread_mutex_unlock(&live->lock);
	return err;
}

int live_start(const struct live_options *options, struct live **ret, struct diag *reterr)
{
	struct live *live = calloc(1, sizeof(*live));

	if (!live)
		return diag_set(reterr, -ENOMEM, "out of memory");
	*ret = live; /* live_stop() also ends what could not be started */
	live->options = options;
	live->zero = options->zero;
	live->total = options->total;
	live->stream_fd = live->control_fd = live->message_fd = -1;
	pthread_mutex_init(&live->lock, NULL);
	pthread_cond_init(&live->changed, NULL);
	live->kernel_fd = open("/proc/kcore", O_RDONLY | O_CLOEXEC);
	live->history = top_history_new(options->history_bytes);
	int err = live->history ? start_recorder(live, reterr) : diag_set(reterr, -ENOMEM, "out of memory");
	if (err)
		return err;
	signal(SIGPIPE, SIG_IGN);
	live->symbols = options->symbols;
	live->symbols.containers = container_files_start();
	sandbox_enter(options->output, 0);
	live->has_counter = pthread_create(&live->counter, NULL, count, live) == 0;
	if (!live->has_counter)
		return diag_set(reterr, -EAGAIN, "cannot start a thread: %s", diag_start_error(-EAGAIN));
	return wait_for_begin(live, reterr);
}

struct view_source *live_source(struct live *live)
{
	return &live->source;
}

/* What the recorder said, as it said it. */
static void print_messages(int fd)
{
	char bytes[4096];
	ssize_t got;

	for (off_t at = 0; (got = pread(fd, bytes, sizeof(bytes), at)) > 0; at += got)
		if (fd_write(STDERR_FILENO, bytes, (size_t)got))
			return;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void live_free(struct live *live)
{
	close_fd(live->stream_fd);
	close_fd(live->control_fd);
	close_fd(live->message_fd);
	close_fd(live->kernel_fd);
	for (size_t i = 0; i < live->nr_events; i++) {
		free(live->shown[i].tally.amounts);
		free(live->shown[i].rests);
		buf_fini(&live->names[i]);
	}
	free(live->shown);
	free(live->tallies);
	free(live->events);
	free(live->names);
	samples_fini(&live->samples);
	machine_free(live->machine);
	session_close(live->session);
	top_history_free(live->history);
	pthread_cond_destroy(&live->changed);
	pthread_mutex_destroy(&live->lock);
	free(live);
}

static bool has_ended(struct live *live)
{
	pthread_mutex_lock(&live->lock);
	bool ended = live->ended;
	pthread_mutex_unlock(&live->lock);
	return ended;
}

/* The exit status of a recorder that has ended. by_itself: before it was asked to. */
static int recorder_status(int status, bool by_itself)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	if (!by_itself)
		return 0; /* a signal of ours: that is no failure */
	log_error("the recorder was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	return INPUT_EXIT_ERROR;
}

int live_stop(struct live *live)
{
	int status = 0;

	if (!live)
		return 0;
	if (live->recorder > 0) {
		bool by_itself = has_ended(live);
		kill(live->recorder, SIGTERM);
		if (live->has_counter)
			pthread_join(live->counter, NULL);
		while (waitpid(live->recorder, &status, 0) < 0 && errno == EINTR)
			;
		print_messages(live->message_fd);
		status = recorder_status(status, by_itself);
	}
	if (live->begun && live->err) { /* else it could not be started: see wait_for_begin() */
		log_error("the samples could not be counted to the end: %s", live->diag.text);
		status = status ? status : INPUT_EXIT_ERROR;
	}
	live_free(live);
	return status;
}
