/* SPDX-License-Identifier: MIT */
#include "base/crew.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cpuset.h"

enum { HANDS_MAX = 8 };

enum { CALLER, GUEST, FIRST_THREAD }; /* hands */

struct crew {
	pthread_mutex_t lock; /* of all that follows up to `threads`, but for `next` */
	pthread_cond_t begun, left;
	crew_part *part;
	void *of;
	unsigned nr_parts;
	atomic_uint next; /* part that nobody has begun */
	bool open;        /* whoever is free may join */
	bool stop;
	unsigned nr_joined, nr_named;
	unsigned nr_threads; /* not changed by them */
	pthread_t threads[];
};

unsigned crew_useful(void)
{
	unsigned nr = cpuset_count_allowed();

	return nr > HANDS_MAX ? HANDS_MAX : nr;
}

/* Of the job that is on, if one is. */
static bool has_parts(struct crew *crew)
{
	return crew->open && atomic_load_explicit(&crew->next, memory_order_relaxed) < crew->nr_parts;
}

static void do_parts(struct crew *crew, unsigned hand)
{
	/* Relaxed: it only tells them apart; the lock makes what they read and write visible. */
	for (unsigned part; (part = atomic_fetch_add_explicit(&crew->next, 1, memory_order_relaxed)) < crew->nr_parts;)
		crew->part(crew->of, hand, part);
}

/* Under the lock, which is open meanwhile. */
static void join(struct crew *crew, unsigned hand)
{
	crew->nr_joined++;
	pthread_mutex_unlock(&crew->lock);
	do_parts(crew, hand);
	pthread_mutex_lock(&crew->lock);
	if (!--crew->nr_joined)
		pthread_cond_signal(&crew->left);
}

static void *work(void *of)
{
	struct crew *crew = of;

	pthread_mutex_lock(&crew->lock);
	unsigned hand = FIRST_THREAD + crew->nr_named++;
	for (;;) {
		while (!crew->stop && !has_parts(crew))
			pthread_cond_wait(&crew->begun, &crew->lock);
		if (crew->stop)
			break;
		join(crew, hand);
	}
	pthread_mutex_unlock(&crew->lock);
	return NULL;
}

static void start(struct crew *crew, unsigned nr)
{
	sigset_t all, before;

	/* Signals are the business of the thread that called us. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (crew->nr_threads < nr && !pthread_create(&crew->threads[crew->nr_threads], NULL, work, crew))
		crew->nr_threads++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int crew_new(unsigned nr_hands, struct crew **ret)
{
	unsigned nr_threads = nr_hands > FIRST_THREAD ? nr_hands - FIRST_THREAD : 0;
	struct crew *crew = calloc(1, sizeof(*crew) + nr_threads * sizeof(crew->threads[0]));

	if (!crew)
		return -ENOMEM;
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->begun, NULL);
	pthread_cond_init(&crew->left, NULL);
	start(crew, nr_threads);
	*ret = crew;
	return 0;
}

void crew_free(struct crew *crew)
{
	if (!crew)
		return;
	pthread_mutex_lock(&crew->lock);
	crew->stop = true;
	pthread_cond_broadcast(&crew->begun);
	pthread_mutex_unlock(&crew->lock);
	for (unsigned i = 0; i < crew->nr_threads; i++)
		pthread_join(crew->threads[i], NULL);
	pthread_cond_destroy(&crew->left);
	pthread_cond_destroy(&crew->begun);
	pthread_mutex_destroy(&crew->lock);
	free(crew);
}

void crew_begin(struct crew *crew, crew_part *part, void *of, unsigned nr_parts)
{
	pthread_mutex_lock(&crew->lock);
	crew->part = part;
	crew->of = of;
	crew->nr_parts = nr_parts;
	atomic_store_explicit(&crew->next, 0, memory_order_relaxed);
	crew->open = true;
	if (crew->nr_threads)
		pthread_cond_broadcast(&crew->begun);
	pthread_mutex_unlock(&crew->lock);
}

bool crew_help(struct crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	bool helps = has_parts(crew);
	if (helps)
		join(crew, GUEST);
	pthread_mutex_unlock(&crew->lock);
	return helps;
}

void crew_finish(struct crew *crew)
{
	do_parts(crew, CALLER);
	pthread_mutex_lock(&crew->lock);
	crew->open = false;
	while (crew->nr_joined)
		pthread_cond_wait(&crew->left, &crew->lock);
	pthread_mutex_unlock(&crew->lock);
}
