/* SPDX-License-Identifier: MIT */
#include "analyze/machine/inlined_ahead.h"

#include <pthread.h>
#include <stdlib.h>

#include "analyze/symbols/debug_info.h"
#include "base/buf.h"
#include "base/thread_pool.h"

enum {
	TAKEN_AT_ONCE = 16, /* to wake up a thread for each place takes longer than to look it up */
	MOST_THREADS = 4,
	MOST_PLACES = 1 << 20,
};

/* In the order in which they are looked up. */
struct place_queue {
	struct inlined_place *at;
	size_t nr, room, nr_taken;
	bool is_busy; /* a thread looks some of them up */
};

struct inlined_ahead {
	struct debug_info *info;
	bool lines;
	struct inlined_place fresh[TAKEN_AT_ONCE]; /* the caller's, like nr_fresh: threads do not see them yet */
	unsigned nr_fresh;
	pthread_mutex_t lock; /* of all that follow */
	pthread_cond_t more, done;
	struct place_queue added;                   /* by the caller */
	struct place_queue parts[DEBUG_INFO_PARTS]; /* those that were taken of them, by what one thread looks up */
	size_t nr_done;
	bool stop;
	unsigned nr_threads; /* the caller's, like the threads */
	pthread_t threads[MOST_THREADS];
};

static void look_up(const struct inlined_ahead *ahead, const struct inlined_place *place)
{
	struct source_line line;
	unsigned frame = 0;

	if (place->is_line) {
		debug_info_line(ahead->info, place->dso, place->address, 0, &line);
		return;
	}
	const struct inlined *inlined = debug_info_inlined(ahead->info, place->dso, place->symbol, place->address);
	if (!ahead->lines)
		return;
	do
		debug_info_line(ahead->info, place->dso, place->address, frame, &line);
	while (inlined && ++frame < inlined->nr);
}

/* Under the lock, as all that follow. Returns how many. */
static unsigned take_some(struct place_queue *queue, struct inlined_place ret[TAKEN_AT_ONCE])
{
	unsigned nr = 0;

	while (queue->nr_taken < queue->nr && nr < TAKEN_AT_ONCE)
		ret[nr++] = queue->at[queue->nr_taken++];
	return nr;
}

static bool queue_add(struct place_queue *queue, const struct inlined_place *place)
{
	if (array_room_up_to(queue->at, queue->nr, queue->room, MOST_PLACES))
		return false;
	queue->at[queue->nr++] = *place;
	return true;
}

static void note_done(struct inlined_ahead *ahead, unsigned nr)
{
	ahead->nr_done += nr;
	if (ahead->nr_done == ahead->added.nr)
		pthread_cond_signal(&ahead->done);
}

/* Without memory for them they are not looked up ahead. */
static void sort_some(struct inlined_ahead *ahead)
{
	struct inlined_place places[TAKEN_AT_ONCE];
	unsigned parts[TAKEN_AT_ONCE], nr = take_some(&ahead->added, places), nr_dropped = 0;

	pthread_mutex_unlock(&ahead->lock);
	for (unsigned i = 0; i < nr; i++)
		parts[i] = debug_info_part(ahead->info, places[i].dso, places[i].address);
	pthread_mutex_lock(&ahead->lock);
	for (unsigned i = 0; i < nr; i++)
		nr_dropped += !queue_add(&ahead->parts[parts[i]], &places[i]);
	if (nr_dropped)
		note_done(ahead, nr_dropped);
	pthread_cond_signal(&ahead->more);
}

static void look_up_some(struct inlined_ahead *ahead, struct place_queue *part)
{
	struct inlined_place places[TAKEN_AT_ONCE];
	const unsigned nr = take_some(part, places);

	part->is_busy = true;
	pthread_mutex_unlock(&ahead->lock);
	for (unsigned i = 0; i < nr; i++)
		look_up(ahead, &places[i]);
	pthread_mutex_lock(&ahead->lock);
	part->is_busy = false;
	note_done(ahead, nr);
}

/* NULL: none that no thread is at. */
static struct place_queue *find_part(struct inlined_ahead *ahead)
{
	for (unsigned i = 0; i < DEBUG_INFO_PARTS; i++)
		if (!ahead->parts[i].is_busy && ahead->parts[i].nr_taken < ahead->parts[i].nr)
			return &ahead->parts[i];
	return NULL;
}

/* false: there is nothing to do that another thread does not do. */
static bool do_some(struct inlined_ahead *ahead)
{
	struct place_queue *part = find_part(ahead);

	if (part)
		look_up_some(ahead, part);
	else if (ahead->added.nr_taken < ahead->added.nr)
		sort_some(ahead);
	else
		return false;
	return true;
}

static void *work(void *ctx)
{
	struct inlined_ahead *ahead = ctx;

	pthread_mutex_lock(&ahead->lock);
	while (!ahead->stop)
		if (!do_some(ahead))
			pthread_cond_wait(&ahead->more, &ahead->lock);
	pthread_mutex_unlock(&ahead->lock);
	return NULL;
}

static void destroy(struct inlined_ahead *ahead)
{
	pthread_cond_destroy(&ahead->done);
	pthread_cond_destroy(&ahead->more);
	pthread_mutex_destroy(&ahead->lock);
	free(ahead->added.at);
	for (unsigned i = 0; i < DEBUG_INFO_PARTS; i++)
		free(ahead->parts[i].at);
	free(ahead);
}

struct inlined_ahead *inlined_ahead_start(struct debug_info *info, bool lines)
{
	const unsigned wanted = thread_pool_useful_size() - 1; /* the caller's CPU is in use */
	struct inlined_ahead *ahead = wanted ? calloc(1, sizeof(*ahead)) : NULL;

	if (!ahead)
		return NULL;
	ahead->info = info;
	ahead->lines = lines;
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->more, NULL);
	pthread_cond_init(&ahead->done, NULL);
	while (ahead->nr_threads < wanted && ahead->nr_threads < MOST_THREADS &&
	       !thread_start(&ahead->threads[ahead->nr_threads], work, ahead))
		ahead->nr_threads++;
	if (ahead->nr_threads)
		return ahead;
	destroy(ahead);
	return NULL;
}

void inlined_ahead_free(struct inlined_ahead *ahead)
{
	if (!ahead)
		return;
	pthread_mutex_lock(&ahead->lock);
	ahead->stop = true;
	pthread_cond_broadcast(&ahead->more);
	pthread_mutex_unlock(&ahead->lock);
	for (unsigned i = 0; i < ahead->nr_threads; i++)
		pthread_join(ahead->threads[i], NULL);
	destroy(ahead);
}

/* Without memory for them they are not looked up ahead. */
static void pass_on(struct inlined_ahead *ahead)
{
	pthread_mutex_lock(&ahead->lock);
	for (unsigned i = 0; i < ahead->nr_fresh; i++)
		queue_add(&ahead->added, &ahead->fresh[i]);
	pthread_cond_signal(&ahead->more);
	pthread_mutex_unlock(&ahead->lock);
	ahead->nr_fresh = 0;
}

void inlined_ahead_add(struct inlined_ahead *ahead, const struct inlined_place *place)
{
	const unsigned needs = place->is_line ? DEBUG_LINES : DEBUG_CHAINS | (ahead->lines ? DEBUG_LINES : 0);

	/* To hand it over takes longer. */
	if (debug_info_is_known(ahead->info, place->dso, place->address, needs))
		return;
	ahead->fresh[ahead->nr_fresh++] = *place;
	if (ahead->nr_fresh == TAKEN_AT_ONCE)
		pass_on(ahead);
}

/* The caller does what no thread has begun. */
void inlined_ahead_finish(struct inlined_ahead *ahead)
{
	if (!ahead)
		return;
	pass_on(ahead);
	pthread_mutex_lock(&ahead->lock);
	while (ahead->nr_done < ahead->added.nr)
		if (!do_some(ahead))
			pthread_cond_wait(&ahead->done, &ahead->lock);
	pthread_mutex_unlock(&ahead->lock);
}
