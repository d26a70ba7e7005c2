/* SPDX-License-Identifier: MIT */
/*
 * The agent as a supervisor of processes: a recorder that writes pieces into STATE/record, one delivery at a time of
 * the oldest piece in STATE/spool, and where --on-trigger is given a recorder that keeps the last seconds in memory,
 * and commands whose end is waited for. It waits in one poll(2), and wakes for signals, for files that are finished,
 * and when something is due.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/agent/agent.h"
#include "cmd/agent/child.h"
#include "cmd/agent/spool.h"
#include "cmd/cli/command.h"

#define NS_PER_S UINT64_C(1000000000)

enum {
	FIRST_PAUSE_S = 1, /* before a child that failed is started again; it doubles */
	LONGEST_PAUSE_S = 60,
	HEALTHY_S = 30,      /* a recorder that ran so long has not failed at once */
	DELIVERY_S = 300,    /* for one piece */
	UNFINISHED_S = 3600, /* the age of a file whose delivery was killed; no living one takes so long */
	MOST_REFUSALS = 3,   /* of the content of a piece */
	CHECK_S = 1,         /* load and pressure */
	RECORDER_STOP_S = 10,
	OWN_WORDS = 16, /* of record, at most, but for triggers */
};

/* A child that is started again when it has ended, and not too often. */
struct retry {
	uint64_t at_ns; /* CLOCK_MONOTONIC; 0: at once */
	unsigned pause_s;
};

struct recorder {
	const struct agent_options *options;
	char *output;         /* heap */
	bool retains_history; /* only snapshots are stored: --flight */
	int control[2];       /* with retains_history: a pipe; the child has its first end */
	struct child child;
	struct retry retry;
};

/* exit:COMMAND */
struct watched {
	const char *command;
	struct child child;
	struct retry retry;
};

struct agent {
	const struct agent_options *options;
	char *record, *spooled, *snapshots; /* directories; heap */
	char *refused;                      /* the file that refused pieces are kept as; heap */
	int lock_fd, signal_fd, watch_fd;
	struct recorder recorder, history;
	struct retry recovery_retry; /* while status.nr_unrecovered */
	struct spool spool;
	struct child delivery_child;
	struct delivery delivery;
	struct retry delivery_retry;
	unsigned nr_refusals;
	struct trigger triggers[AGENT_TRIGGERS_MAX];
	struct watched watched[AGENT_TRIGGERS_MAX];
	uint64_t next_check_ns, next_snapshot_ns;
	const char *reason; /* of the snapshot that was requested; NULL: an event */
	struct agent_status status;
	bool changed; /* the status */
	bool stopping;
	bool has_wrong_words; /* of record: no recorder will ever run */
	uint64_t stop_at_ns;  /* when deliveries are given up */
};

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static void retry_later(struct retry *retry)
{
	retry->pause_s = retry->pause_s ? retry->pause_s * 2 : FIRST_PAUSE_S;
	if (retry->pause_s > LONGEST_PAUSE_S)
		retry->pause_s = LONGEST_PAUSE_S;
	retry->at_ns = now_ns() + retry->pause_s * NS_PER_S;
}

static void add_sum(struct agent_sum *sum, const struct piece *piece)
{
	sum->pieces++;
	sum->samples += piece->samples;
	sum->lost += piece->lost;
}

static void write_request(struct agent *agent)
{
	static const char word[] = "snapshot\n";

	if (write(agent->history.control[1], word, strlen(word)) < 0)
		log_error("no snapshot (%s): the recorder does not answer", agent->reason);
}

/* ---- the recorders */

/* The words of a command line of record. In the child: what is allocated goes with it. */
struct words {
	char **list; /* NULL at its end */
	int nr;
	bool failed; /* out of memory */
};

static void __attribute__((format(printf, 2, 3))) add_word(struct words *words, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (words->failed || vasprintf(&words->list[words->nr], format, args) < 0)
		words->failed = true;
	else
		words->nr++;
	va_end(args);
}

static int run_recorder(void *ctx)
{
	struct recorder *recorder = ctx;
	const struct agent_options *options = recorder->options;
	size_t room = OWN_WORDS + (size_t)options->nr_more + options->triggers.nr + 1;
	struct words words = {.list = calloc(room, sizeof(*words.list))};

	words.failed = !words.list;
	add_word(&words, "record");
	add_word(&words, "-qa");
	add_word(&words, "--clockid=mono");
	add_word(&words, "--all-cgroups");
	add_word(&words, "--freq=%" PRIu64,
		 recorder->retains_history ? options->trigger_frequency : options->frequency);
	if (options->event)
		add_word(&words, "--event=%s", options->event);
	if (strcmp(options->call_graph, "no") != 0)
		add_word(&words, "--call-graph=%s", options->call_graph);
	if (recorder->retains_history) {
		add_word(&words, "--control=fd:%d", recorder->control[0]);
		add_word(&words, "--flight=%s", options->history);
	} else {
		add_word(&words, "--switch-output=%" PRIu64 "s", options->every_ns / NS_PER_S);
	}
	for (unsigned i = 0; recorder->retains_history && i < options->triggers.nr; i++)
		if (options->triggers.specs[i].kind == TRIGGER_EVENT)
			add_word(&words, "--switch-output-event=%s", options->triggers.specs[i].text);
	for (int i = 0; i < options->nr_more; i++)
		add_word(&words, "%s", options->more[i]);
	add_word(&words, "--output=%s", recorder->output);
	if (words.failed) {
		log_error("out of memory");
		return INPUT_EXIT_ERROR;
	}
	return command_record.run(words.nr, words.list);
}

static void close_control(struct recorder *recorder)
{
	for (unsigned i = 0; i < 2; i++) {
		if (recorder->control[i] >= 0)
			close(recorder->control[i]);
		recorder->control[i] = -1;
	}
}

/* What is asked for while it starts waits in the pipe. */
static int open_control(struct recorder *recorder, struct diag *reterr)
{
	close_control(recorder);
	if (!recorder->retains_history || pipe2(recorder->control, O_CLOEXEC | O_NONBLOCK) == 0)
		return 0;
	return diag_set(reterr, -errno, "pipe: %s", strerror(errno));
}

/* Also of the files that could not be recovered before; the pauses get longer. */
static void recover_left(struct agent *agent)
{
	struct agent_status *status = &agent->status;
	struct recovery result = recovery_run(agent->record, agent->refused, agent->recorder.child.pid);

	agent->changed |= result.nr_refused || result.nr_waiting != status->nr_unrecovered;
	status->nr_unrecovered = result.nr_waiting;
	status->recorded.pieces += result.nr_refused;
	status->refused.pieces += result.nr_refused;
	if (result.nr_waiting)
		retry_later(&agent->recovery_retry);
	else
		agent->recovery_retry = (struct retry){0};
}

static void start_recorder(struct agent *agent, struct recorder *recorder)
{
	struct diag diag = {0};

	if (recorder->child.pid || agent->stopping || now_ns() < recorder->retry.at_ns)
		return;
	if (!recorder->retains_history && access(recorder->output, F_OK) == 0) {
		recover_left(agent); /* it could neither be recovered nor renamed: the recorder would remove it */
		retry_later(&recorder->retry);
		return;
	}
	if (open_control(recorder, &diag) || child_start(&recorder->child, run_recorder, recorder, &diag)) {
		log_error("%s", diag.text);
		retry_later(&recorder->retry);
		return;
	}
	if (recorder->retains_history && agent->reason) /* the one that was asked has ended */
		write_request(agent);
}

static void begin_stop(struct agent *agent);

static void reap_recorder(struct agent *agent, struct recorder *recorder)
{
	char message[CHILD_MESSAGE_BYTES];
	int status;

	if (!child_reap(&recorder->child, &status))
		return;
	child_message(&recorder->child, message);
	if (!recorder->retains_history)
		recover_left(agent);
	if (agent->stopping)
		return;
	/* Not later: a module whose tracepoint is recorded may be away while a recorder is started again. */
	if (WIFEXITED(status) && WEXITSTATUS(status) == COMMAND_USAGE && !agent->status.nr_restarts) {
		log_error("%s", message);
		agent->has_wrong_words = true;
		begin_stop(agent);
		return;
	}
	if (now_ns() - recorder->child.started_ns > HEALTHY_S * NS_PER_S)
		recorder->retry = (struct retry){0};
	retry_later(&recorder->retry);
	agent->status.nr_restarts++;
	agent->changed = true;
	log_error("the recorder%s ended%s%s; it is started again in %u s",
		  recorder->retains_history ? " of the last seconds" : "", *message ? ": " : "", message,
		  recorder->retry.pause_s);
}

/* ---- finished files */

/* A piece that cannot be read counts as one of no samples: that is told. One that cannot be counted now stays. */
static void take_piece(struct agent *agent, const char *path)
{
	struct piece piece = {0};
	struct diag diag = {0};

	int err = delivery_count(path, &piece.samples, &piece.lost, &diag);
	if (err == -EAGAIN) {
		log_verbose("%s", diag.text);
		return;
	}
	if (err)
		log_error("%s", diag.text);
	if (piece.lost)
		log_note("lost %" PRIu64 " of %" PRIu64 " samples", piece.lost, piece.lost + piece.samples);
	if (spool_take(&agent->spool, path, piece, &diag)) {
		log_error("%s", diag.text);
		return;
	}
	add_sum(&agent->status.recorded, &piece);
	agent->changed = true;
}

static int is_finished(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return strncmp(entry->d_name, "perf.data.", 10) == 0 && strcmp(entry->d_name + len - 4, ".old") != 0 &&
	       strcmp(entry->d_name + len - 5, ".part") != 0 && strcmp(entry->d_name + len - 5, ".left") != 0;
}

static void take_pieces(struct agent *agent)
{
	struct dirent **entries = NULL;
	int nr = scandir(agent->record, &entries, is_finished, alphasort);

	for (int i = 0; i < nr; i++) {
		AUTO_FREE char *path = NULL;
		if (asprintf(&path, "%s/%s", agent->record, entries[i]->d_name) >= 0)
			take_piece(agent, path);
		free(entries[i]);
	}
	free(entries);
}

static void count_waiting(struct agent *agent)
{
	agent->status.waiting_pieces = agent->spool.nr;
	agent->status.waiting_samples = agent->spool.samples;
	agent->status.waiting_bytes = agent->spool.bytes;
}

/* No room for another piece as large as the last one: it would be cut off while it is recorded. */
static bool is_disk_full(const struct agent *agent)
{
	const struct spool *spool = &agent->spool;
	struct statvfs disk;

	return spool->nr > 1 && statvfs(agent->spooled, &disk) == 0 &&
	       (uint64_t)disk.f_bavail * disk.f_frsize < spool->pieces[spool->nr - 1].bytes;
}

/*
 * The oldest go first, but for the one whose delivery is under way, which ends with it, however long the server takes,
 * or is due: a piece that is larger than the spool may be is tried, too.
 */
static void bound_spool(struct agent *agent)
{
	struct spool *spool = &agent->spool;
	struct agent_sum sum = {0};
	size_t oldest = agent->delivery_child.pid || now_ns() >= agent->delivery_retry.at_ns ? 1 : 0;

	while (spool->nr > oldest && (spool->bytes > agent->options->spool_bytes || is_disk_full(agent))) {
		add_sum(&sum, &spool->pieces[oldest]);
		add_sum(&agent->status.dropped, &spool->pieces[oldest]);
		spool_remove(spool, oldest);
		agent->changed = true;
		if (!oldest)
			agent->nr_refusals = 0;
	}
	if (sum.pieces)
		log_error("the spool is full (--spool-size, or its disk): dropped %" PRIu64
			  " of the oldest pieces (samples: %" PRIu64 "), which were not delivered",
			  sum.pieces, sum.samples);
}

/* ---- deliveries */

/* Pieces at the front whose files someone removed: no try would succeed, and those behind them would wait. */
static void drop_missing(struct agent *agent)
{
	struct spool *spool = &agent->spool;
	struct agent_sum sum = {0};

	while (spool->nr && !spool_has_file(spool, &spool->pieces[0])) {
		add_sum(&sum, &spool->pieces[0]);
		add_sum(&agent->status.dropped, &spool->pieces[0]);
		spool_remove(spool, 0);
		agent->nr_refusals = 0;
		agent->delivery_retry = (struct retry){0};
		agent->changed = true;
	}
	if (sum.pieces)
		log_error("files of %" PRIu64 " pieces are missing in %s (samples: %" PRIu64
			  "): they were not delivered, and count as dropped",
			  sum.pieces, agent->spooled, sum.samples);
}

static void start_delivery(struct agent *agent)
{
	struct delivery *delivery = &agent->delivery;
	struct diag diag = {0};

	if (agent->delivery_child.pid || now_ns() < agent->delivery_retry.at_ns)
		return;
	drop_missing(agent);
	if (!agent->spool.nr)
		return;
	free(delivery->path);
	delivery->path = spool_path(&agent->spool, &agent->spool.pieces[0]);
	delivery->number = agent->spool.pieces[0].number;
	*delivery->result = (struct delivery_result){.err = -EIO};
	if (!delivery->path || child_start(&agent->delivery_child, delivery_run, delivery, &diag)) {
		log_error("%s", delivery->path ? diag.text : "out of memory");
		retry_later(&agent->delivery_retry);
	}
}

static void delivered(struct agent *agent)
{
	struct agent_status *status = &agent->status;

	if (status->failing_since_s)
		log_note("deliveries work again; waiting pieces: %zu", agent->spool.nr - 1);
	status->failing_since_s = 0;
	*status->error = '\0';
	add_sum(&status->delivered, &agent->spool.pieces[0]);
	status->nr_empty += !agent->spool.pieces[0].samples;
	spool_remove(&agent->spool, 0);
	agent->delivery_retry = (struct retry){0};
	agent->nr_refusals = 0;
}

/* Said once for each reason, not once for each try. */
static void delivery_failed(struct agent *agent, const char *message)
{
	struct agent_status *status = &agent->status;

	if (!status->failing_since_s)
		status->failing_since_s = clock_ns(CLOCK_REALTIME) / NS_PER_S;
	if (strcmp(status->error, message) != 0)
		log_error("delivery failed: %s; it is tried again; waiting pieces: %zu", message, agent->spool.nr);
	snprintf(status->error, sizeof(status->error), "%s", message);
	retry_later(&agent->delivery_retry);
}

/* What no server will ever take must not hold up all that comes behind it. */
static void refused(struct agent *agent, const char *message)
{
	AUTO_FREE char *path = spool_path(&agent->spool, &agent->spool.pieces[0]);
	bool is_kept = path && rename(path, agent->refused) == 0;

	log_error("a piece is refused and no longer delivered: %" PRIu64 " sample%s, kept as %s: %s",
		  agent->spool.pieces[0].samples, text_s(agent->spool.pieces[0].samples),
		  is_kept ? agent->refused : "nothing", message);
	add_sum(&agent->status.refused, &agent->spool.pieces[0]);
	spool_remove(&agent->spool, 0);
	agent->nr_refusals = 0;
	agent->delivery_retry = (struct retry){0};
}

static void reap_delivery(struct agent *agent)
{
	struct child *child = &agent->delivery_child;
	const struct delivery_result *result = agent->delivery.result;
	char message[CHILD_MESSAGE_BYTES];
	int status;

	if (child->pid && now_ns() - child->started_ns > DELIVERY_S * NS_PER_S)
		child_signal(child, SIGKILL);
	if (!child_reap(child, &status))
		return;
	child_message(child, message);
	agent->changed = true;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM)
		snprintf(message, sizeof(message), "the store had not answered when the agent ended");
	else if (WIFSIGNALED(status))
		snprintf(message, sizeof(message), "the delivery was ended by signal %d", WTERMSIG(status));
	/* Samples of no event at the end of what else is whole, or records that cannot be read behind those that can.
	 */
	bool is_damaged = WIFEXITED(status) && result->err == -EBADMSG && result->counts.nr_samples;
	if (is_damaged)
		log_note("a piece is damaged; the samples that can be read are delivered (%" PRIu64 "): %s",
			 result->counts.nr_samples, message);
	/* Also where it failed: there may be no room. */
	if (agent->options->files) {
		keep_files(agent->options->files, "millrace-00000000T000000.000Z.", agent->options->keep_bytes,
			   agent->options->keep_ns);
		keep_files(agent->options->files, ".millrace-xxxxxxxxxxxxxxxx", 0, UNFINISHED_S * NS_PER_S);
	}
	if (is_damaged || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
		delivered(agent);
	else if (result->err == -EBADMSG ||
		 ((result->err == -EINVAL || result->err == -ENOMEM) && ++agent->nr_refusals >= MOST_REFUSALS) ||
		 (WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM && ++agent->nr_refusals >= MOST_REFUSALS))
		refused(agent, message);
	else
		delivery_failed(agent, message);
}

/* ---- triggers */

static void request_snapshot(struct agent *agent, const char *reason)
{
	if (!agent->history.child.pid || now_ns() < agent->next_snapshot_ns)
		return;
	agent->next_snapshot_ns = now_ns() + agent->options->trigger_pause_ns;
	agent->reason = reason;
	write_request(agent);
}

static int run_command(void *ctx)
{
	const struct watched *watched = ctx;

	execl("/bin/sh", "sh", "-c", watched->command, (char *)NULL);
	log_error("/bin/sh: %s", strerror(errno));
	return 127;
}

static void watch_command(struct agent *agent, struct watched *watched)
{
	char message[CHILD_MESSAGE_BYTES];
	struct diag diag = {0};
	int status;

	if (child_reap(&watched->child, &status)) {
		child_message(&watched->child, message);
		retry_later(&watched->retry);
		if (now_ns() - watched->child.started_ns > HEALTHY_S * NS_PER_S)
			watched->retry.pause_s = 0;
		if (!agent->stopping)
			request_snapshot(agent, watched->command);
	}
	if (watched->child.pid || agent->stopping || now_ns() < watched->retry.at_ns)
		return;
	if (child_start(&watched->child, run_command, watched, &diag)) {
		log_error("%s", diag.text);
		retry_later(&watched->retry);
	}
}

static void check_triggers(struct agent *agent)
{
	const struct trigger_list *list = &agent->options->triggers;
	bool due = now_ns() >= agent->next_check_ns;

	for (unsigned i = 0; i < list->nr; i++) {
		if (list->specs[i].kind == TRIGGER_EXIT)
			watch_command(agent, &agent->watched[i]);
		else if (due && trigger_check(&agent->triggers[i]))
			request_snapshot(agent, list->specs[i].text);
	}
	if (due)
		agent->next_check_ns = now_ns() + CHECK_S * NS_PER_S;
}

/* Snapshots that are finished get a name that says so, and are told. */
static void take_snapshots(struct agent *agent)
{
	struct dirent **entries = NULL;
	int nr = agent->options->triggers.nr ? scandir(agent->snapshots, &entries, is_finished, alphasort) : 0;

	for (int i = 0; i < nr; i++) {
		AUTO_FREE char *from = NULL, *to = NULL;
		const char *when = entries[i]->d_name + strlen("perf.data.");
		if (asprintf(&from, "%s/%s", agent->snapshots, entries[i]->d_name) >= 0 &&
		    asprintf(&to, "%s/snapshot-%s.data", agent->snapshots, when) >= 0 && rename(from, to) == 0) {
			log_note("snapshot %s: %s", to, agent->reason ? agent->reason : "an event");
			agent->reason = NULL;
			agent->status.nr_snapshots++;
			agent->changed = true;
		}
		free(entries[i]);
	}
	free(entries);
	if (nr > 0)
		keep_files(agent->snapshots, "snapshot-", agent->options->snapshots_bytes, 0);
}

/* ---- begin and end */

static int make_directory(const char *state, const char *name, char **ret, struct diag *reterr)
{
	if (asprintf(ret, *name ? "%s/%s" : "%s%s", state, name) < 0) {
		*ret = NULL;
		return diag_set(reterr, -ENOMEM, "out of memory");
	}
	if (mkdir(*ret, 0700) && errno != EEXIST)
		return diag_set(reterr, -errno, "%s: %s", *ret, strerror(errno));
	return 0;
}

static int open_state(struct agent *agent, struct diag *reterr)
{
	const char *state = agent->options->state;
	AUTO_FREE char *self = NULL;
	int err = make_directory(state, "", &self, reterr);

	if (!err)
		err = make_directory(state, "record", &agent->record, reterr);
	if (!err)
		err = make_directory(state, "spool", &agent->spooled, reterr);
	if (!err)
		err = make_directory(state, "snapshots", &agent->snapshots, reterr);
	if (!err && agent->options->files && mkdir(agent->options->files, 0755) && errno != EEXIST)
		err = diag_set(reterr, -errno, "%s: %s", agent->options->files, strerror(errno));
	if (err)
		return err;
	agent->lock_fd = open(agent->record, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (agent->lock_fd < 0 || flock(agent->lock_fd, LOCK_EX | LOCK_NB))
		return diag_set(reterr, -errno,
				errno == EWOULDBLOCK ? "%s: another agent uses it" : "%s cannot be locked", state);
	return spool_open(&agent->spool, agent->spooled, reterr);
}

static int open_events(struct agent *agent, struct diag *reterr)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	agent->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	agent->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (agent->signal_fd < 0 || agent->watch_fd < 0 ||
	    inotify_add_watch(agent->watch_fd, agent->record, IN_MOVED_TO) < 0 ||
	    inotify_add_watch(agent->watch_fd, agent->snapshots, IN_MOVED_TO) < 0)
		return diag_set(reterr, -errno, "cannot wait for signals and files: %s", strerror(errno));
	agent->delivery.result =
		mmap(NULL, sizeof(*agent->delivery.result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return agent->delivery.result == MAP_FAILED ? diag_set(reterr, -ENOMEM, "out of memory") : 0;
}

static int agent_open(struct agent *agent, struct diag *reterr)
{
	const struct agent_options *options = agent->options;
	int err = open_state(agent, reterr);

	if (!err)
		err = open_events(agent, reterr);
	if (err)
		return err;
	agent->delivery.options = options;
	agent->recorder.options = agent->history.options = options;
	agent->history.retains_history = true;
	if (asprintf(&agent->recorder.output, "%s/perf.data", agent->record) < 0 ||
	    asprintf(&agent->history.output, "%s/perf.data", agent->snapshots) < 0 ||
	    asprintf(&agent->refused, "%s/refused.data", options->state) < 0)
		return diag_set(reterr, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < options->triggers.nr; i++) {
		agent->triggers[i].spec = &options->triggers.specs[i];
		agent->watched[i].command = options->triggers.specs[i].text;
	}
	agent->status.since_s = clock_ns(CLOCK_REALTIME) / NS_PER_S;
	for (size_t i = 0; i < agent->spool.nr; i++)
		add_sum(&agent->status.recorded, &agent->spool.pieces[i]);
	if (agent->spool.nr)
		log_note("waiting from an earlier run: pieces: %zu, samples: %" PRIu64, agent->spool.nr,
			 agent->spool.samples);
	recover_left(agent);
	return 0;
}

static void agent_close(struct agent *agent)
{
	spool_fini(&agent->spool);
	close_control(&agent->history);
	free(agent->delivery.path);
	free(agent->recorder.output);
	free(agent->history.output);
	free(agent->record);
	free(agent->spooled);
	free(agent->snapshots);
	free(agent->refused);
}

static void begin_stop(struct agent *agent)
{
	if (agent->stopping)
		return;
	agent->stopping = true;
	agent->stop_at_ns = now_ns() + agent->options->stop_ns;
	status_notify("STOPPING=1", &agent->status);
	child_signal(&agent->recorder.child, SIGTERM);
	child_signal(&agent->history.child, SIGTERM);
	for (unsigned i = 0; i < agent->options->triggers.nr; i++)
		child_signal(&agent->watched[i].child, SIGTERM);
	agent->delivery_retry = (struct retry){0}; /* once more at once: it may be back */
}

static void read_signals(struct agent *agent)
{
	struct signalfd_siginfo info;

	while (read(agent->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR2)
			request_snapshot(agent, "SIGUSR2");
		else if (info.ssi_signo != SIGCHLD)
			begin_stop(agent);
	}
}

/* The end: recorders first, for their last piece; then deliveries, as long as they may take and do not fail. */
static bool is_over(const struct agent *agent)
{
	if (!agent->stopping || agent->recorder.child.pid || agent->history.child.pid)
		return false;
	bool late = now_ns() >= agent->stop_at_ns,
	     failing = agent->status.failing_since_s && agent->delivery_retry.at_ns;

	return (!agent->spool.nr || late || failing) && !agent->delivery_child.pid;
}

/* A child that does not end in its time. */
static void stop_late(struct agent *agent)
{
	uint64_t now = now_ns();

	if (!agent->stopping)
		return;
	if (now >= agent->stop_at_ns)
		child_signal(&agent->delivery_child, SIGTERM);
	if (now >= agent->stop_at_ns + RECORDER_STOP_S * NS_PER_S) {
		child_signal(&agent->delivery_child, SIGKILL);
		child_signal(&agent->recorder.child, SIGKILL);
		child_signal(&agent->history.child, SIGKILL);
	}
}

static void earlier(uint64_t *at, uint64_t other)
{
	if (other < *at)
		*at = other;
}

/* At the end, deliveries may begin until then. */
static bool may_deliver(const struct agent *agent)
{
	return !agent->stopping || now_ns() < agent->stop_at_ns;
}

static int timeout_ms(const struct agent *agent)
{
	uint64_t now = now_ns(), at = UINT64_MAX;
	uint64_t late = agent->delivery_child.started_ns + (DELIVERY_S + 1) * NS_PER_S;

	if (!agent->recorder.child.pid && !agent->stopping)
		earlier(&at, agent->recorder.retry.at_ns);
	if (agent->spool.nr && !agent->delivery_child.pid && may_deliver(agent))
		earlier(&at, agent->delivery_retry.at_ns);
	if (agent->delivery_child.pid && now < late) /* then it is killed, and its end is a signal */
		earlier(&at, late);
	if (agent->status.nr_unrecovered)
		earlier(&at, agent->recovery_retry.at_ns);
	if (agent->options->triggers.nr && !agent->stopping)
		earlier(&at, agent->next_check_ns);
	if (agent->stopping)
		earlier(&at, now + NS_PER_S / 5);
	if (at == UINT64_MAX)
		return -1;
	return at <= now ? 0 : (int)((at - now) / 1000000 + 1);
}

static void wait_for_events(struct agent *agent)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	struct pollfd fds[] = {{.fd = agent->signal_fd, .events = POLLIN}, {.fd = agent->watch_fd, .events = POLLIN}};

	poll(fds, 2, timeout_ms(agent));
	while (read(agent->watch_fd, events, sizeof(events)) > 0)
		;
	read_signals(agent);
}

static void publish(struct agent *agent)
{
	if (!agent->changed)
		return;
	agent->changed = false;
	count_waiting(agent);
	int err = status_write(agent->options->state, &agent->status);
	if (err)
		log_verbose("%s/status.json: %s", agent->options->state, strerror(-err));
	status_notify("", &agent->status);
}

static void step(struct agent *agent)
{
	reap_recorder(agent, &agent->recorder);
	reap_recorder(agent, &agent->history);
	if (agent->status.nr_unrecovered && now_ns() >= agent->recovery_retry.at_ns)
		recover_left(agent);
	take_pieces(agent);
	reap_delivery(agent);
	bound_spool(agent);
	start_recorder(agent, &agent->recorder);
	if (agent->options->triggers.nr) {
		start_recorder(agent, &agent->history);
		check_triggers(agent);
		take_snapshots(agent);
	}
	if (may_deliver(agent))
		start_delivery(agent);
	stop_late(agent);
	publish(agent);
}

int agent_run(const struct agent_options *options)
{
	struct agent agent = {
		.options = options,
		.lock_fd = -1,
		.signal_fd = -1,
		.watch_fd = -1,
		.recorder.control = {-1, -1},
		.history.control = {-1, -1},
		.changed = true,
	};
	struct diag diag = {0};
	int err = agent_open(&agent, &diag);

	if (err) {
		log_error("%s", diag.text);
		agent_close(&agent);
		return INPUT_EXIT_ERROR;
	}
	step(&agent);
	status_notify("READY=1", &agent.status);
	while (!is_over(&agent)) {
		wait_for_events(&agent);
		step(&agent);
	}
	if (agent.has_wrong_words) {
		agent_close(&agent);
		return COMMAND_USAGE;
	}
	log_note("recorded %" PRIu64 " samples, lost %" PRIu64 "; delivered %" PRIu64 ", dropped %" PRIu64
		 ", refused %" PRIu64 "; %" PRIu64 " wait in %s",
		 agent.status.recorded.samples, agent.status.recorded.lost, agent.status.delivered.samples,
		 agent.status.dropped.samples, agent.status.refused.samples, agent.spool.samples, agent.spooled);
	agent_close(&agent);
	return 0;
}
