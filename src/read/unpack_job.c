/* SPDX-License-Identifier: MIT */
#include "read/unpack_job.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/crew.h"
#include "pack/zstd.h"

struct unpack_workers {
	pthread_mutex_t lock;
	pthread_cond_t work, news;
	struct unpack_job *first, *last; /* under the lock, as is `done` of a job that was given */
	bool stop;
	struct zstd_unpacker *own; /* of who gives and awaits */
	struct zstd_unpacker *guests;
	struct unpack_guest guest;
	size_t nr, nr_wanted; /* threads; not changed by them */
	pthread_t threads[];
};

size_t unpack_workers_useful(void)
{
	return crew_useful() - 1; /* who awaits works as well */
}

static void unpack(struct zstd_unpacker *unpacker, struct unpack_job *job)
{
	const struct span frame = {job->packed, job->packed_len};

	job->got = unpacker ? zstd_unpack_frame(unpacker, frame, job->to, job->bytes) : -ENOMEM;
	if (job->got >= 0 && (uint64_t)job->got != job->bytes)
		job->got = -EBADMSG;
}

static struct unpack_job *take_first(struct unpack_workers *workers)
{
	struct unpack_job *job = workers->first;

	workers->first = job->next;
	if (!workers->first)
		workers->last = NULL;
	return job;
}

/* Under the lock, which is released meanwhile. false: all jobs are begun. */
static bool do_one(struct unpack_workers *workers, struct zstd_unpacker *unpacker)
{
	if (!workers->first)
		return false;
	struct unpack_job *job = take_first(workers);
	pthread_mutex_unlock(&workers->lock);
	unpack(unpacker, job);
	pthread_mutex_lock(&workers->lock);
	job->done = true;
	return true;
}

static void *work(void *arg)
{
	struct unpack_workers *workers = arg;
	struct zstd_unpacker *unpacker = NULL;

	if (zstd_unpacker_new(&unpacker))
		unpacker = NULL;
	pthread_mutex_lock(&workers->lock);
	for (;;) {
		while (!workers->first && !workers->stop)
			pthread_cond_wait(&workers->work, &workers->lock);
		if (!workers->first)
			break;
		do_one(workers, unpacker);
		pthread_cond_signal(&workers->news); /* one thread waits at most */
	}
	pthread_mutex_unlock(&workers->lock);
	zstd_unpacker_free(unpacker);
	return NULL;
}

int unpack_workers_new(size_t nr, struct unpack_workers **ret)
{
	struct unpack_workers *workers = calloc(1, sizeof(*workers) + nr * sizeof(workers->threads[0]));
	int err = workers ? 0 : -ENOMEM;

	if (!err && (err = zstd_unpacker_new(&workers->own)))
		free(workers);
	if (err)
		return err;
	pthread_mutex_init(&workers->lock, NULL);
	pthread_cond_init(&workers->work, NULL);
	pthread_cond_init(&workers->news, NULL);
	workers->nr_wanted = nr;
	*ret = workers;
	return 0;
}

/* Those that cannot be had are done without. */
static void start(struct unpack_workers *workers)
{
	sigset_t all, before;

	/* Signals are the business of the thread that called us. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (workers->nr < workers->nr_wanted && !pthread_create(&workers->threads[workers->nr], NULL, work, workers))
		workers->nr++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	workers->nr_wanted = 0;
}

void unpack_workers_free(struct unpack_workers *workers)
{
	if (!workers)
		return;
	pthread_mutex_lock(&workers->lock);
	workers->stop = true;
	pthread_cond_broadcast(&workers->work);
	pthread_mutex_unlock(&workers->lock);
	for (size_t i = 0; i < workers->nr; i++)
		pthread_join(workers->threads[i], NULL);
	pthread_cond_destroy(&workers->news);
	pthread_cond_destroy(&workers->work);
	pthread_mutex_destroy(&workers->lock);
	zstd_unpacker_free(workers->guests);
	zstd_unpacker_free(workers->own);
	free(workers);
}

void unpack_workers_invite(struct unpack_workers *workers, const struct unpack_guest *guest)
{
	bool has_threads = workers->nr || workers->nr_wanted;

	if (!guest->wanted) {
		workers->guest = *guest;
		return;
	}
	if (!has_threads || (!workers->guests && zstd_unpacker_new(&workers->guests)))
		return;
	workers->guest = *guest;
	if (workers->nr_wanted)
		workers->nr_wanted--;
}

void unpack_workers_give(struct unpack_workers *workers, struct unpack_job *job)
{
	if (workers->nr_wanted)
		start(workers);
	job->next = NULL;
	job->done = !workers->nr && !workers->guest.wanted;
	if (job->done) {
		unpack(workers->own, job);
		return;
	}
	pthread_mutex_lock(&workers->lock);
	if (workers->last)
		workers->last->next = job;
	else
		workers->first = job;
	workers->last = job;
	pthread_cond_signal(&workers->work);
	pthread_mutex_unlock(&workers->lock);
	if (workers->guest.wanted)
		workers->guest.wanted(workers->guest.of);
}

bool unpack_workers_help(struct unpack_workers *workers)
{
	pthread_mutex_lock(&workers->lock);
	bool helped = do_one(workers, workers->guests);
	pthread_cond_signal(&workers->news);
	pthread_mutex_unlock(&workers->lock);
	return helped;
}

void unpack_workers_await(struct unpack_workers *workers, struct unpack_job *job)
{
	pthread_mutex_lock(&workers->lock);
	while (!job->done)
		if (!do_one(workers, workers->own))
			pthread_cond_wait(&workers->news, &workers->lock);
	pthread_mutex_unlock(&workers->lock);
}
