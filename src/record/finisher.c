/* SPDX-License-Identifier: MIT */
#include "record/finisher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "record/flight.h"
#include "record/recording.h"

static void tell(const struct outlet_params *params, const struct finisher_job *job, const struct outlet *outlet,
		 const struct outlet_result *result)
{
	AUTO_BUF struct buf line = {0};

	buf_printf(&line, "wrote %s: ", job->name);
	if (result->samples_counted)
		buf_printf(&line, "%llu samples, ", (unsigned long long)result->nr_samples);
	buf_printf(&line, "%.3f MB; lost %llu", (double)result->bytes / 1e6, (unsigned long long)job->lost);
	if (params->options->rotation.flight_ns)
		buf_printf(&line, "; the last %.3f s", outlet->history_s);
	log_note("%s", buf_text(&line));
}

static void add(struct outlet_result *totals, const struct outlet_result *result)
{
	totals->bytes += result->bytes;
	totals->nr_samples += result->nr_samples;
	totals->samples_counted = result->samples_counted;
	totals->unwritten_bytes += result->unwritten_bytes;
	totals->cut_samples += result->cut_samples;
	totals->end_cpu_ns += result->end_cpu_ns;
}

/* There is no file for what was held. */
static int give_up(struct finisher *finisher, struct outlet *outlet, int err)
{
	pthread_mutex_lock(&finisher->lock);
	finisher->totals.unwritten_bytes += outlet->writer->queued;
	pthread_mutex_unlock(&finisher->lock);
	writer_close(take_ptr(outlet->writer), NULL);
	return err;
}

int finisher_do(struct finisher *finisher, struct finisher_job *job, struct outlet *outlet,
		const struct outlet_closing *closing, struct diag *reterr)
{
	const struct outlet_params *params = finisher->params;
	struct outlet_closing of_end = *closing;
	struct outlet_result result;
	struct diag later;
	const char *path = job->while_open ? job->while_open : outlet->sink.path;
	of_end.cpu_from_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int err = outlet->held ? outlet_release(outlet, params, path, reterr) : 0;

	if (outlet->held)
		return give_up(finisher, outlet, err);
	int flight_err = flight_end(job->flight, outlet->writer);
	if (flight_err && !err)
		err = diag_set(reterr, flight_err, "%s: writing the last moments failed: %s", outlet->sink.path,
			       strerror(-flight_err));
	if (params->options->tail_synthesize)
		err = err ? err : outlet_put_world(outlet, params, NULL, reterr);

	int put_err = outlet_put(outlet, params, &job->records, err ? &later : reterr);
	err = err ? err : put_err;
	int close_err = outlet_close(outlet, params, &of_end, &result, err ? &later : reterr);
	err = err ? err : close_err;
	result.end_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - of_end.cpu_from_ns;
	if (job->name && rename(path, job->name)) {
		if (!err)
			err = diag_set(reterr, -errno, "cannot rename %s to %s: %s", path, job->name, strerror(errno));
	} else if (job->name) {
		tell(params, job, outlet, &result);
		int add_err = part_names_add(finisher->names, take_ptr(job->name));
		err = err ? err : add_err;
	}
	pthread_mutex_lock(&finisher->lock);
	add(&finisher->totals, &result);
	pthread_mutex_unlock(&finisher->lock);
	return err;
}

static void wake(int fd)
{
	const uint64_t one = 1;

	(void)!fd_write(fd, &one, sizeof(one));
}

static void note_error(struct finisher *finisher, int err, const struct diag *diag)
{
	pthread_mutex_lock(&finisher->lock);
	if (!finisher->err) {
		finisher->err = err;
		finisher->diag = *diag;
	}
	pthread_mutex_unlock(&finisher->lock);
	wake(finisher->news_fd);
}

/* NULL: there is none, and none will come. */
static struct finisher_job *next_job(struct finisher *finisher)
{
	pthread_mutex_lock(&finisher->lock);
	while (!finisher->first && !finisher->stop)
		pthread_cond_wait(&finisher->work, &finisher->lock);
	struct finisher_job *job = finisher->first;
	if (job) {
		finisher->first = job->next;
		if (!finisher->first)
			finisher->last = NULL;
	}
	pthread_mutex_unlock(&finisher->lock);
	return job;
}

static void *run(void *arg)
{
	struct finisher *finisher = arg;

	for (struct finisher_job *job; (job = next_job(finisher));) {
		const struct outlet_closing closing = {.ledger = &job->ledger};
		struct diag diag = {0};
		int err = finisher_do(finisher, job, &job->outlet, &closing, &diag);
		finisher_job_free(job);
		if (err)
			note_error(finisher, err, &diag);
		pthread_mutex_lock(&finisher->lock);
		finisher->nr_jobs--;
		pthread_mutex_unlock(&finisher->lock);
		wake(finisher->wake_fd);
	}
	return NULL;
}

void finisher_init(struct finisher *finisher)
{
	pthread_mutex_init(&finisher->lock, NULL);
	pthread_cond_init(&finisher->work, NULL);
}

int finisher_start(struct finisher *finisher)
{
	int err = -pthread_create(&finisher->thread, NULL, run, finisher);

	finisher->started = !err;
	return err;
}

void finisher_add(struct finisher *finisher, struct finisher_job *job)
{
	pthread_mutex_lock(&finisher->lock);
	job->next = NULL;
	*(finisher->last ? &finisher->last->next : &finisher->first) = job;
	finisher->last = job;
	finisher->nr_jobs++;
	pthread_cond_signal(&finisher->work);
	pthread_mutex_unlock(&finisher->lock);
}

size_t finisher_nr_jobs(struct finisher *finisher)
{
	pthread_mutex_lock(&finisher->lock);
	size_t nr = finisher->nr_jobs;
	pthread_mutex_unlock(&finisher->lock);
	return nr;
}

void finisher_stop(struct finisher *finisher)
{
	if (!finisher->started)
		return;
	pthread_mutex_lock(&finisher->lock);
	finisher->stop = true;
	pthread_cond_signal(&finisher->work);
	pthread_mutex_unlock(&finisher->lock);
	pthread_join(finisher->thread, NULL);
	finisher->started = false;
}

void finisher_job_free(struct finisher_job *job)
{
	if (!job)
		return;
	outlet_fini(&job->outlet);
	buf_fini(&job->records);
	ledger_fini(&job->ledger);
	free(job->while_open);
	free(job->name);
	free(job);
}
