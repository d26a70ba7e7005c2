/* SPDX-License-Identifier: MIT */
#include "read/ahead.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "read/session_state.h"
#include "read/unpack_job.h"

/*
 * Each side wakes the other when so many wait for it, or when it has nothing to do itself: few switches, and runs long
 * enough to be shared among threads.
 *
 * What a round of the recording holds (90 batches of raw_syscalls on two CPUs) comes out of the order all at once, and while the
 * next one is read nothing does: several hands need more than one round of them, or wait for it. One hand works on either
 * side in turn, and few batches stay in its cache. Of records with stacks few are on their way, too.
 */
enum { NR_BATCHES = AHEAD_RUN_MAX, NR_FEW = 64, NR_WORTH_WAKING = NR_FEW / 2 };

/* Of records with stacks few are on their way: what was decompressed stays in memory as long as they are. */
enum { BATCH_RECORDS = AHEAD_PIECE_MAX, BATCH_STACKS = 8, WORD_BITS = 64 };

enum { PREFETCHED = 6 /* tickets ahead of the one that is used, and the bytes of each */, PREFETCHED_BYTES = 128, LINE_BYTES = 64, SORTED_RECORDS = 64 };

/* A record that was found: what passes from core to core is this, and the record itself is decoded where it is used. */
struct ticket {
	struct record_view view;
	struct source *by; /* keeps it; NULL: nobody needs to */
};

/* A batch of records in the order of session_next(), which their sources keep until it comes back. */
struct slot {
	size_t nr;
	uint64_t others[BATCH_RECORDS / WORD_BITS]; /* a bit for each ticket: no SAMPLE */
	struct ticket tickets[BATCH_RECORDS];
};

/* Slots that went one way: a circle with room for all of them. */
struct queue {
	struct slot *slots[NR_BATCHES];
	size_t first, nr;
};

struct ahead {
	struct session *session;
	struct crew *crew; /* its guest is the thread */
	pthread_t thread;
	pthread_mutex_t lock; /* of all that follows, but for what is in a slot: that is whose turn it is */
	pthread_cond_t filled_or_ended, came_back;
	struct queue filled, empty;
	_Atomic bool stop; /* read without the lock, too */
	bool shared; /* there is a job for the crew since the thread looked for one */
	bool helpless; /* the thread gave something to decompress that nobody may have begun */
	bool ended;
	int result; /* valid when ended: of session_next() */
	struct diag why;
	size_t batch_records, nr_slots; /* that are in use at all */
	struct slot *filling; /* the thread's own */
	/* Of ahead_next(): */
	struct slot *using[NR_BATCHES]; /* the batches that it gives from, */
	size_t nr_using, first_using;   /* [first_using..nr_using), */
	size_t used;                    /* and how many of the first it gave */
	int failed;         /* 0 or -EBADMSG: a record could not be decoded, */
	struct diag failure; /* and why */
	struct session_record record;
	struct ahead_piece pieces[NR_BATCHES]; /* of the run */
	struct slot slots[NR_BATCHES];
};

static void queue_put(struct queue *queue, struct slot *slot)
{
	queue->slots[(queue->first + queue->nr++) % NR_BATCHES] = slot;
}

static struct slot *queue_take(struct queue *queue)
{
	struct slot *slot = queue->slots[queue->first];

	queue->first = (queue->first + 1) % NR_BATCHES;
	queue->nr--;
	return slot;
}

static void release(struct slot *slot)
{
	for (size_t i = 0; i < slot->nr; i++)
		if (slot->tickets[i].by)
			source_release(slot->tickets[i].by, slot->tickets[i].view.header);
	slot->nr = 0;
	memset(slot->others, 0, sizeof(slot->others));
}

/* Under the lock. So many slots are empty: true; false: we are to stop. Until then what is there is decoded. */
static bool wait_for_empty(struct ahead *ahead, size_t nr)
{
	while (ahead->empty.nr < nr && !ahead->stop) {
		pthread_cond_signal(&ahead->filled_or_ended);
		if (ahead->shared) {
			ahead->shared = false;
			pthread_mutex_unlock(&ahead->lock);
			crew_help(ahead->crew);
			pthread_mutex_lock(&ahead->lock);
		} else {
			pthread_cond_wait(&ahead->came_back, &ahead->lock);
		}
	}
	return !ahead->stop;
}

/* An empty slot of our own. NULL: we are to stop. */
static struct slot *slot_wait(struct ahead *ahead)
{
	struct slot *slot = NULL;

	pthread_mutex_lock(&ahead->lock);
	if (wait_for_empty(ahead, 1))
		slot = queue_take(&ahead->empty);
	pthread_mutex_unlock(&ahead->lock);
	if (slot)
		release(slot);
	return slot;
}

static void hand_over(struct ahead *ahead)
{
	pthread_mutex_lock(&ahead->lock);
	queue_put(&ahead->filled, ahead->filling);
	if (ahead->filled.nr >= NR_WORTH_WAKING)
		pthread_cond_signal(&ahead->filled_or_ended);
	pthread_mutex_unlock(&ahead->lock);
	ahead->filling = NULL;
}

/* The session is about to change: nobody may look at it then. */
static void wait_for_all(void *of)
{
	struct ahead *ahead = of;

	if (ahead->filling && ahead->filling->nr)
		hand_over(ahead);
	size_t ours = ahead->filling != NULL;
	pthread_mutex_lock(&ahead->lock);
	wait_for_empty(ahead, ahead->nr_slots - ours);
	pthread_mutex_unlock(&ahead->lock);
}

static void put(struct slot *slot, struct ticket ticket, bool is_sample)
{
	slot->others[slot->nr / WORD_BITS] |= (uint64_t)!is_sample << slot->nr % WORD_BITS;
	slot->tickets[slot->nr++] = ticket;
}

/* Those that are sorted already: how many. */
static size_t put_sorted(struct ahead *ahead, struct slot *slot)
{
	struct session *session = ahead->session;
	struct order_entry entries[SORTED_RECORDS];
	size_t room = ahead->batch_records - slot->nr;
	size_t nr = session_find_sorted(session, entries, room < SORTED_RECORDS ? room : SORTED_RECORDS);

	for (size_t i = 0; i < nr; i++) {
		const struct order_entry *entry = &entries[i];
		struct source *by = source_keeps(session->source, entry->record) ? NULL : session->source;
		put(slot, (struct ticket){{entry->record, entry->offset, session->file_name}, by}, entry->is_sample);
	}
	return nr;
}

/* At least one, as session_next(); 0 as well when we are to stop. */
static int next(struct ahead *ahead, struct diag *reterr)
{
	struct record_view view;
	struct session_held held;

	if (!ahead->filling)
		ahead->filling = slot_wait(ahead);
	struct slot *slot = ahead->filling;
	if (!slot)
		return 0;
	if (!put_sorted(ahead, slot)) {
		int got = session_find(ahead->session, &view, &held, reterr);
		if (got <= 0)
			return got;
		slot = ahead->filling; /* it may have been handed over before a change */
		if (!slot)
			slot = ahead->filling = slot_wait(ahead);
		if (!slot) {
			source_release(held.by, held.record);
			return 0;
		}
		if (source_keeps(held.by, held.record))
			held.by = NULL;
		put(slot, (struct ticket){view, held.by}, held.record->type == PERF_RECORD_SAMPLE);
	}
	if (slot->nr == ahead->batch_records)
		hand_over(ahead);
	return 1;
}

static void *run(void *of)
{
	struct ahead *ahead = of;
	struct diag why = {0};
	int got;

	while ((got = next(ahead, &why)) > 0)
		;
	if (ahead->filling && ahead->filling->nr)
		hand_over(ahead);
	pthread_mutex_lock(&ahead->lock);
	ahead->ended = true;
	ahead->result = got;
	ahead->why = why;
	pthread_cond_signal(&ahead->filled_or_ended);
	pthread_mutex_unlock(&ahead->lock);
	return NULL;
}

static size_t batch_records(const struct session *session)
{
	for (size_t i = 0; i < session->nr_events; i++)
		if (session->events[i].attr.sample_type & PERF_SAMPLE_STACK_USER)
			return BATCH_STACKS;
	return BATCH_RECORDS;
}

/* By the thread that finds records. */
static void want_help(void *of)
{
	struct ahead *ahead = of;

	pthread_mutex_lock(&ahead->lock);
	ahead->helpless = true;
	pthread_cond_signal(&ahead->filled_or_ended);
	pthread_mutex_unlock(&ahead->lock);
}

/* Those of a directory have threads only. */
static void invite(struct ahead *ahead, struct unpack_guest guest)
{
	if (ahead->session->source)
		source_invite(ahead->session->source, &guest);
}

static void ahead_free(struct ahead *ahead)
{
	invite(ahead, (struct unpack_guest){0});
	ahead->session->before_change = NULL;
	crew_free(ahead->crew);
	pthread_cond_destroy(&ahead->came_back);
	pthread_cond_destroy(&ahead->filled_or_ended);
	pthread_mutex_destroy(&ahead->lock);
	free(ahead);
}

int ahead_start(struct session *session, unsigned nr_hands, struct ahead **ret)
{
	struct ahead *ahead = calloc(1, sizeof(*ahead));
	sigset_t all, before;

	if (!ahead || crew_new(nr_hands, &ahead->crew)) {
		free(ahead);
		return -ENOMEM;
	}
	ahead->session = session;
	ahead->batch_records = batch_records(session);
	ahead->nr_slots = nr_hands > 1 && ahead->batch_records == BATCH_RECORDS ? NR_BATCHES : NR_FEW;
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->filled_or_ended, NULL);
	pthread_cond_init(&ahead->came_back, NULL);
	for (size_t i = 0; i < ahead->nr_slots; i++)
		queue_put(&ahead->empty, &ahead->slots[i]);
	session->before_change = wait_for_all;
	session->before_change_of = ahead;
	invite(ahead, (struct unpack_guest){.wanted = want_help, .of = ahead});
	/* Signals are for the thread that was there. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int err = pthread_create(&ahead->thread, NULL, run, ahead);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		ahead_free(ahead);
		return -err;
	}
	*ret = ahead;
	return 0;
}

/* The first `nr` of those in use go back. */
static void give_back(struct ahead *ahead, size_t nr)
{
	pthread_mutex_lock(&ahead->lock);
	for (size_t i = 0; i < nr; i++)
		queue_put(&ahead->empty, ahead->using[ahead->first_using++]);
	if (ahead->empty.nr >= NR_WORTH_WAKING)
		pthread_cond_signal(&ahead->came_back);
	pthread_mutex_unlock(&ahead->lock);
	ahead->used = 0;
}

/* Under the lock. What the next records need is decompressed, if nobody has begun. true: the lock was open, all may have changed. */
static bool help(struct ahead *ahead)
{
	if (!ahead->helpless)
		return false;
	ahead->helpless = false;
	pthread_mutex_unlock(&ahead->lock);
	bool helped = source_help(ahead->session->source);
	pthread_mutex_lock(&ahead->lock);
	ahead->helpless |= helped; /* there may be more */
	return true;
}

/* All batches that are filled, at least one, when none is in use: 1. Else what session_next() ended with, at every later call. */
static int take_batches(struct ahead *ahead, struct diag *reterr)
{
	int result = 1;

	ahead->first_using = ahead->nr_using = 0;
	pthread_mutex_lock(&ahead->lock);
	while (!ahead->filled.nr && !ahead->ended) {
		pthread_cond_signal(&ahead->came_back);
		if (!help(ahead))
			pthread_cond_wait(&ahead->filled_or_ended, &ahead->lock);
	}
	while (ahead->filled.nr)
		ahead->using[ahead->nr_using++] = queue_take(&ahead->filled);
	if (!ahead->nr_using) {
		result = ahead->result;
		if (result < 0 && reterr)
			*reterr = ahead->why;
	}
	pthread_mutex_unlock(&ahead->lock);
	return result;
}

/* The first batch in use has records that were not given: 1; else as session_next(). */
static int have_batch(struct ahead *ahead, struct diag *reterr)
{
	if (ahead->first_using < ahead->nr_using && ahead->used == ahead->using[ahead->first_using]->nr)
		give_back(ahead, 1);
	return ahead->first_using < ahead->nr_using ? 1 : take_batches(ahead, reterr);
}

void ahead_close(struct ahead *ahead)
{
	if (!ahead)
		return;
	give_back(ahead, ahead->nr_using - ahead->first_using);
	pthread_mutex_lock(&ahead->lock);
	ahead->stop = true;
	pthread_cond_signal(&ahead->came_back);
	pthread_mutex_unlock(&ahead->lock);
	pthread_join(ahead->thread, NULL);
	for (size_t i = 0; i < ahead->nr_slots; i++)
		release(&ahead->slots[i]);
	ahead_free(ahead);
}

/* Records lie in the order of the rings, not in that in which they are used: without this each is waited for. */
static void fetch(const struct ticket *ticket)
{
	const char *bytes = (const char *)ticket->view.header;

	for (size_t i = 0; i < PREFETCHED_BYTES; i += LINE_BYTES)
		__builtin_prefetch(bytes + i);
}

/* The next ticket: 1; else as session_next(). */
static int next_ticket(struct ahead *ahead, const struct ticket **ret, struct diag *reterr)
{
	int got = have_batch(ahead, reterr);

	if (got <= 0)
		return got;
	const struct slot *slot = ahead->using[ahead->first_using];
	if (ahead->used + PREFETCHED < slot->nr)
		fetch(&slot->tickets[ahead->used + PREFETCHED]);
	*ret = &slot->tickets[ahead->used++];
	return 1;
}

static int decode(const struct ahead *ahead, const struct ticket *ticket, struct session_record *ret, struct diag *reterr)
{
	return session_decode(ahead->session, &ticket->view, ret, reterr);
}

/* 1, or 0: there is nothing to give, and if that is a failure it is kept. */
static int decode_or_fail(struct ahead *ahead, const struct ticket *ticket)
{
	struct diag why; /* not cleared: this runs for each record */
	int decoded = decode(ahead, ticket, &ahead->record, &why);

	if (decoded < 0 && !ahead->failed) {
		ahead->failed = decoded;
		ahead->failure = why;
		session_name_file(ahead->session, ticket->view.file, &ahead->failure);
	}
	return decoded > 0;
}

int ahead_next(struct ahead *ahead, const struct session_record **ret, struct diag *reterr)
{
	const struct ticket *ticket;
	int got;

	*ret = &ahead->record;
	while ((got = next_ticket(ahead, &ticket, reterr)) > 0)
		if (decode_or_fail(ahead, ticket))
			return 1;
	if (!got && ahead->failed) {
		got = ahead->failed;
		if (reterr)
			*reterr = ahead->failure;
	}
	return got;
}

/* The first from `at` on that is no sample; slot->nr: none. */
static size_t next_other(const struct slot *slot, size_t at)
{
	size_t word = at / WORD_BITS;
	uint64_t bits = slot->others[word] & ~0ull << at % WORD_BITS;

	while (!bits) {
		if (++word >= BATCH_RECORDS / WORD_BITS)
			return slot->nr;
		bits = slot->others[word];
	}
	return word * WORD_BITS + (size_t)__builtin_ctzll(bits);
}

size_t ahead_run_begin(struct ahead *ahead, const struct ahead_piece **ret)
{
	size_t nr = 0;

	if (have_batch(ahead, NULL) <= 0)
		return 0;
	for (size_t i = ahead->first_using, at = ahead->used; i < ahead->nr_using; i++, at = 0) {
		const struct slot *slot = ahead->using[i];
		size_t end = next_other(slot, at);
		if (end > at)
			ahead->pieces[nr++] = (struct ahead_piece){slot->tickets + at, end - at};
		if (end < slot->nr)
			break;
	}
	*ret = ahead->pieces;
	return nr;
}

void ahead_share(struct ahead *ahead, crew_part *part, void *of, unsigned nr_parts)
{
	crew_begin(ahead->crew, part, of, nr_parts);
	pthread_mutex_lock(&ahead->lock);
	ahead->shared = true;
	pthread_cond_signal(&ahead->came_back);
	pthread_mutex_unlock(&ahead->lock);
	crew_finish(ahead->crew);
}

int ahead_decode(const struct ahead *ahead, const struct ahead_piece *piece, size_t at, struct session_record *ret)
{
	struct diag why; /* not cleared: this runs for each record */

	if (at + PREFETCHED < piece->nr)
		fetch(&piece->tickets[at + PREFETCHED]);
	return decode(ahead, &piece->tickets[at], ret, &why);
}

bool ahead_decode_again(struct ahead *ahead, const struct ahead_piece *piece, size_t at, const struct session_record **ret)
{
	*ret = &ahead->record;
	return decode_or_fail(ahead, &piece->tickets[at]);
}

void ahead_run_end(struct ahead *ahead, size_t nr_pieces)
{
	if (!nr_pieces)
		return;
	const struct ahead_piece *last = &ahead->pieces[nr_pieces - 1];
	give_back(ahead, nr_pieces - 1);
	ahead->used = (size_t)(last->tickets + last->nr - ahead->using[ahead->first_using]->tickets);
}
