/* SPDX-License-Identifier: MIT */
#include "analyze/machine/inlined_ahead.h"

#include <pthread.h>
#include <stdlib.h>

#include "analyze/symbols/debug_info.h"
#include "base/buf.h"
#include "base/thread_pool.h"

enum {
	TAKEN_AT_ONCE = 16, /* to wake up the thread for each place takes longer than to look it up */
	MOST_PLACES = 1 << 20,
};

struct inlined_ahead {
	struct debug_info *info;
	bool lines;
	struct inlined_place fresh[TAKEN_AT_ONCE]; /* the caller's, like nr_fresh: the thread does not see them yet */
	unsigned nr_fresh;
	pthread_mutex_t lock; /* of all that follow */
	pthread_cond_t more, done;
	struct inlined_place *places;
	size_t nr, room, nr_taken, nr_done;
	bool stop;
	pthread_t thread;
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

/* Waits for places, and takes some. Returns how many; 0: the thread is to end. */
static unsigned take(struct inlined_ahead *ahead, unsigned nr_done, struct inlined_place ret[TAKEN_AT_ONCE])
{
	unsigned nr = 0;

	pthread_mutex_lock(&ahead->lock);
	ahead->nr_done += nr_done;
	if (ahead->nr_done == ahead->nr)
		pthread_cond_signal(&ahead->done);
	while (ahead->nr_taken == ahead->nr && !ahead->stop)
		pthread_cond_wait(&ahead->more, &ahead->lock);
	while (ahead->nr_taken < ahead->nr && nr < TAKEN_AT_ONCE && !ahead->stop)
		ret[nr++] = ahead->places[ahead->nr_taken++];
	pthread_mutex_unlock(&ahead->lock);
	return nr;
}

static void *work(void *ctx)
{
	struct inlined_ahead *ahead = ctx;
	struct inlined_place places[TAKEN_AT_ONCE];
	unsigned nr = 0;

	while ((nr = take(ahead, nr, places)))
		for (unsigned i = 0; i < nr; i++)
			look_up(ahead, &places[i]);
	return NULL;
}

struct inlined_ahead *inlined_ahead_start(struct debug_info *info, bool lines)
{
	struct inlined_ahead *ahead = thread_pool_useful_size() > 1 ? calloc(1, sizeof(*ahead)) : NULL;

	if (!ahead)
		return NULL;
	ahead->info = info;
	ahead->lines = lines;
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->more, NULL);
	pthread_cond_init(&ahead->done, NULL);
	if (!thread_start(&ahead->thread, work, ahead))
		return ahead;
	pthread_cond_destroy(&ahead->done);
	pthread_cond_destroy(&ahead->more);
	pthread_mutex_destroy(&ahead->lock);
	free(ahead);
	return NULL;
}

void inlined_ahead_free(struct inlined_ahead *ahead)
{
	if (!ahead)
		return;
	pthread_mutex_lock(&ahead->lock);
	ahead->stop = true;
	pthread_cond_signal(&ahead->more);
	pthread_mutex_unlock(&ahead->lock);
	pthread_join(ahead->thread, NULL);
	pthread_cond_destroy(&ahead->done);
	pthread_cond_destroy(&ahead->more);
	pthread_mutex_destroy(&ahead->lock);
	free(ahead->places);
	free(ahead);
}

/* Without memory for them they are not looked up ahead. */
static void pass_on(struct inlined_ahead *ahead)
{
	pthread_mutex_lock(&ahead->lock);
	for (unsigned i = 0; i < ahead->nr_fresh; i++)
		if (!array_room_up_to(ahead->places, ahead->nr, ahead->room, MOST_PLACES))
			ahead->places[ahead->nr++] = ahead->fresh[i];
	pthread_cond_signal(&ahead->more);
	pthread_mutex_unlock(&ahead->lock);
	ahead->nr_fresh = 0;
}

void inlined_ahead_add(struct inlined_ahead *ahead, const struct inlined_place *place)
{
	ahead->fresh[ahead->nr_fresh++] = *place;
	if (ahead->nr_fresh == TAKEN_AT_ONCE)
		pass_on(ahead);
}

void inlined_ahead_finish(struct inlined_ahead *ahead)
{
	if (!ahead)
		return;
	pass_on(ahead);
	pthread_mutex_lock(&ahead->lock);
	while (ahead->nr_done < ahead->nr)
		pthread_cond_wait(&ahead->done, &ahead->lock);
	pthread_mutex_unlock(&ahead->lock);
}
