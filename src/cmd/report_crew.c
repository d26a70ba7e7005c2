/* SPDX-License-Identifier: MIT */
#include "cmd/report_crew.h"

#include <errno.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/crew.h"
#include "cmd/report_samples.h"
#include "read/ahead.h"

enum {
	PIECES_MAX = AHEAD_RUN_MAX, /* side by side */
	WORD_BITS = 64,
	PIECE_WORDS = AHEAD_PIECE_MAX / WORD_BITS,
	LEAST_RECORDS = 2048, /* fewer are done before others have woken up */
	CACHE_LINE = 64,
};

/* What one thread has for itself. */
struct report_hand {
	alignas(CACHE_LINE) struct tally_share *shares; /* of each event */
	size_t nr_shares;
	uint32_t pid, tid; /* of the task that was met last in this run */
	struct task *task; /* NULL: none */
};

struct report_crew {
	struct samples *samples; /* borrowed */
	const struct ahead *ahead; /* during a run, like what follows */
	const struct ahead_piece *pieces;
	size_t width; /* pieces that are tried side by side next: the more, the fewer had to be taken one by one before */
	uint64_t missed[PIECES_MAX][PIECE_WORDS]; /* a bit for each sample that is to be taken one by one */
	unsigned nr_hands;
	struct report_hand hands[];
};

int report_crew_new(struct samples *samples, struct report_crew **ret)
{
	unsigned nr = crew_useful();

	*ret = NULL;
	if (nr < 2)
		return 0;
	size_t bytes = sizeof(struct report_crew) + nr * sizeof(struct report_hand);
	struct report_crew *crew = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
	if (!crew)
		return -ENOMEM;
	memset(crew, 0, bytes);
	crew->samples = samples;
	crew->width = 1;
	crew->nr_hands = nr;
	*ret = crew;
	return 0;
}

void report_crew_free(struct report_crew *crew)
{
	if (!crew)
		return;
	for (unsigned i = 0; i < crew->nr_hands; i++) {
		for (size_t event = 0; event < crew->hands[i].nr_shares; event++)
			tally_share_fini(&crew->hands[i].shares[event]);
		free(crew->hands[i].shares);
	}
	free(crew);
}

unsigned report_crew_hands(const struct report_crew *crew)
{
	return crew ? crew->nr_hands : 1;
}

static int hand_fit(struct report_hand *hand, const struct samples *samples)
{
	if (hand->nr_shares < samples->nr) {
		struct tally_share *shares = reallocarray(hand->shares, samples->nr, sizeof(*shares));
		if (!shares)
			return -ENOMEM;
		memset(shares + hand->nr_shares, 0, (samples->nr - hand->nr_shares) * sizeof(*shares));
		hand->shares = shares;
		hand->nr_shares = samples->nr;
	}
	for (size_t event = 0; event < samples->nr; event++)
		if (tally_share_fit(&hand->shares[event], &samples->events[event].tally))
			return -ENOMEM;
	hand->task = NULL; /* it may have gone since the last run */
	return 0;
}

static struct task *hand_task(struct report_hand *hand, const struct machine *machine, const struct sample *sample)
{
	if (!hand->task || hand->tid != sample->tid || hand->pid != sample->pid) {
		hand->task = machine_known_task(machine, sample->pid, sample->tid);
		hand->pid = sample->pid;
		hand->tid = sample->tid;
	}
	return hand->task;
}

/* false: it is to be taken by samples_take(). */
static bool count(const struct samples *samples, struct report_hand *hand, const struct session_record *record)
{
	const struct task *task = hand_task(hand, samples->machine, &record->sample);
	struct samples_place place;

	if (!task || !samples_recall(samples, record, task, &place))
		return false;
	if (place.left_out)
		return true;
	struct hist_amount *amount = &hand->shares[place.event].amounts[place.cell];
	amount->period += record->sample.period;
	amount->nr_samples++;
	return true;
}

static void count_piece(void *of, unsigned hand, unsigned index)
{
	struct report_crew *crew = of;
	const struct ahead_piece *piece = &crew->pieces[index];
	struct session_record record;

	for (size_t at = 0; at < piece->nr; at++) {
		int got = ahead_decode(crew->ahead, piece, at, &record);
		if (got && (got < 0 || !count(crew->samples, &crew->hands[hand], &record)))
			crew->missed[index][at / WORD_BITS] |= 1ull << at % WORD_BITS;
	}
}

static int take_one(struct report_crew *crew, struct ahead *ahead, const struct ahead_piece *piece, size_t at)
{
	const struct session_record *record;

	return ahead_decode_again(ahead, piece, at, &record) ? samples_take(crew->samples, record) : 0;
}

/* How many; -errno. */
static int64_t take_missed(struct report_crew *crew, struct ahead *ahead, size_t index)
{
	int64_t nr = 0;

	for (size_t word = 0; word < PIECE_WORDS; word++) {
		for (uint64_t bits = crew->missed[index][word]; bits; bits &= bits - 1, nr++) {
			size_t at = word * WORD_BITS + (size_t)__builtin_ctzll(bits);
			int err = take_one(crew, ahead, &crew->pieces[index], at);
			if (err)
				return err;
		}
	}
	return nr;
}

/* How many could not be counted side by side; -errno. */
static int64_t take_together(struct report_crew *crew, struct ahead *ahead, struct report_run run)
{
	int64_t nr_missed = 0;

	for (unsigned i = 0; i < crew->nr_hands; i++)
		if (hand_fit(&crew->hands[i], crew->samples))
			return -ENOMEM;
	crew->ahead = ahead;
	crew->pieces = run.pieces;
	memset(crew->missed, 0, run.nr * sizeof(crew->missed[0]));
	ahead_share(ahead, count_piece, crew, (unsigned)run.nr);
	for (size_t i = 0; i < run.nr; i++) {
		int64_t nr = take_missed(crew, ahead, i);
		if (nr < 0)
			return nr;
		nr_missed += nr;
	}
	return nr_missed;
}

/* How many looked like none before; -errno. */
static int64_t take_alone(struct report_crew *crew, struct ahead *ahead, struct report_run run)
{
	uint64_t found = crew->samples->nr_found;

	for (size_t i = 0; i < run.nr; i++) {
		for (size_t at = 0; at < run.pieces[i].nr; at++) {
			int err = take_one(crew, ahead, &run.pieces[i], at);
			if (err)
				return err;
		}
	}
	return (int64_t)(crew->samples->nr_found - found);
}

/* What is known grows with what was taken one by one; after a record that changed the machine nothing is. */
static void learn(struct report_crew *crew, int64_t nr_missed, int64_t nr)
{
	enum { FEW = 8 }; /* of so many one */

	if (nr_missed > nr / FEW)
		crew->width = 1;
	else if (crew->width < PIECES_MAX)
		crew->width *= 2;
}

static int64_t run_records(struct report_run run)
{
	int64_t nr = 0;

	for (size_t i = 0; i < run.nr; i++)
		nr += (int64_t)run.pieces[i].nr;
	return nr;
}

int64_t report_crew_take(struct report_crew *crew, struct ahead *ahead, struct report_run run)
{
	int64_t taken = 0;

	for (size_t done = 0; done < run.nr;) {
		size_t width = crew->width < run.nr - done ? crew->width : run.nr - done;
		struct report_run part = {run.pieces + done, width};
		int64_t nr = run_records(part);
		bool together = width > 1 && nr >= LEAST_RECORDS;
		int64_t nr_missed = together ? take_together(crew, ahead, part) : take_alone(crew, ahead, part);
		if (nr_missed < 0)
			return nr_missed;
		learn(crew, nr_missed, nr);
		done += width;
		taken += nr;
	}
	return taken;
}

void report_crew_join(struct report_crew *crew)
{
	for (unsigned i = 0; crew && i < crew->nr_hands; i++)
		for (size_t event = 0; event < crew->hands[i].nr_shares; event++)
			tally_join(&crew->samples->events[event].tally, &crew->hands[i].shares[event]);
}
