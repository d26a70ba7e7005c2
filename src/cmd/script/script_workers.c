/* SPDX-License-Identifier: MIT */
#include "cmd/script/script_workers.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "analyze/machine/machine.h"
#include "base/thread_pool.h"
#include "cmd/cli/output.h"
#include "cmd/input/input.h"
#include "cmd/input/records.h"

/*
 * A round: each piece of a run becomes a chunk of text, made by any worker, while one of them writes the chunks of the
 * round before. Where a sample needs a change of the machine (a task or an object that is met for the first time), its
 * piece stops, and the caller makes the rest of that chunk when the round is over.
 */
enum { NR_CHUNKS = 32, ROUND_BYTES = 16 << 20 /* of a round, about */, CHUNK_KEPT_BYTES = 1 << 20 };

/* A round of fewer samples is slower than one thread. */
enum { FEW_SAMPLES = 512 };

struct chunk {
	struct output text;
	size_t nr_done; /* samples */
};

struct round {
	struct chunk chunks[NR_CHUNKS];
	size_t nr;
};

struct script_workers {
	struct script_workers_options options;
	unsigned nr_workers;
	bool ready;                 /* the texts are there */
	struct sample_text **texts; /* of each worker; the first is the caller's own */
	struct round rounds[2];
	struct round *made, *making; /* made: to be written */
	size_t nr_pieces;            /* of a round at most */
	size_t nr_alone;             /* samples that come next and are not worth a round */
	/* Of a round: */
	const struct prefetcher *prefetcher;
	const struct prefetcher_chunk *pieces;
};

int script_workers_new(const struct script_workers_options *options, struct sample_text *text,
		       struct script_workers **ret)
{
	unsigned nr_workers = thread_pool_useful_size();

	*ret = NULL;
	if (nr_workers < 2 || !sample_text_lines_are_independent(options->text))
		return 0;
	struct script_workers *workers = calloc(1, sizeof(*workers));
	if (!workers)
		return -ENOMEM;
	workers->options = *options;
	workers->made = &workers->rounds[0];
	workers->making = &workers->rounds[1];
	for (size_t i = 0; i < NR_CHUNKS; i++)
		workers->made->chunks[i].text.fd = workers->making->chunks[i].text.fd = OUTPUT_MEMORY;
	workers->texts = calloc(nr_workers, sizeof(struct sample_text *));
	if (!workers->texts) {
		script_workers_free(workers);
		return -ENOMEM;
	}
	workers->texts[0] = text;
	workers->nr_workers = nr_workers;
	workers->nr_pieces = 2 * (size_t)workers->nr_workers;
	*ret = workers;
	return 0;
}

void script_workers_free(struct script_workers *workers)
{
	if (!workers)
		return;
	for (unsigned worker = 1; workers->texts && worker < workers->nr_workers; worker++)
		sample_text_free(workers->texts[worker]);
	free(workers->texts);
	for (size_t i = 0; i < NR_CHUNKS; i++) {
		output_close(&workers->rounds[0].chunks[i].text);
		output_close(&workers->rounds[1].chunks[i].text);
	}
	free(workers);
}

unsigned script_workers_nr(const struct script_workers *workers)
{
	return workers ? workers->nr_workers : 1;
}

static void write_chunk(struct script_workers *workers, struct output *text)
{
	output_move(workers->options.out, text);
	if (text->room > CHUNK_KEPT_BYTES)
		output_close(text);
}

void script_workers_flush(struct script_workers *workers)
{
	for (size_t i = 0; i < workers->made->nr; i++)
		write_chunk(workers, &workers->made->chunks[i].text);
	workers->made->nr = 0;
}

/* The line of one sample; false: it is left to the caller, after the round. */
static bool make_line(struct script_workers *workers, struct sample_text *text, size_t piece, struct chunk *chunk)
{
	size_t before = chunk->text.len;
	struct session_record record;
	int got = prefetcher_decode(workers->prefetcher, &workers->pieces[piece], chunk->nr_done, &record);

	if (got > 0)
		got = sample_text_print(text, &record, &chunk->text, NULL);
	if (got >= 0 && !lookup_needs_update(sample_text_lookup(text)) && !chunk->text.err)
		return true;
	chunk->text.len = before;
	return false;
}

static void make_chunk(struct script_workers *workers, struct sample_text *text, size_t piece)
{
	/* A copy on the own stack: its neighbours in the round are written by other threads. */
	struct chunk chunk = {.text = workers->making->chunks[piece].text};

	chunk.text.len = 0; /* a round that ended early has left lines in the pieces that are made again */
	lookup_set_read_only(sample_text_lookup(text), true);
	while (chunk.nr_done < workers->pieces[piece].nr && make_line(workers, text, piece, &chunk))
		chunk.nr_done++;
	lookup_set_read_only(sample_text_lookup(text), false);
	workers->making->chunks[piece] = chunk;
}

/* One task of a round: the first task writes the texts of the round before. */
static void do_task(void *ctx, unsigned worker, unsigned task)
{
	struct script_workers *workers = ctx;

	if (task)
		make_chunk(workers, workers->texts[worker], task - 1);
	else
		script_workers_flush(workers);
}

/* The rest of a chunk, by the caller: 1; 0: the machine has changed, later chunks of the round are not valid. */
static int complete_chunk(struct script_workers *workers, struct prefetcher *prefetcher, size_t piece,
			  struct diag *reterr)
{
	struct chunk *chunk = &workers->making->chunks[piece];
	struct sample_text *text = workers->texts[0];
	uint64_t epoch = lookup_epoch(sample_text_lookup(text));
	const struct session_record *record;
	int err = 0;

	for (; chunk->nr_done < workers->pieces[piece].nr && !err; chunk->nr_done++)
		if (prefetcher_decode_again(prefetcher, &workers->pieces[piece], chunk->nr_done, &record))
			err = sample_text_print(text, record, &chunk->text, reterr);
	return err ? err : lookup_epoch(sample_text_lookup(text)) == epoch;
}

/* The number of pieces of the next round, by the size of their text. */
static void adapt_round(struct script_workers *workers)
{
	size_t largest = 1;

	for (size_t i = 0; i < workers->making->nr; i++) {
		struct output *text = &workers->making->chunks[i].text;
		if (text->len > largest)
			largest = text->len;
	}
	size_t fit = ROUND_BYTES / largest, more = workers->nr_pieces * 2;
	workers->nr_pieces = fit < workers->nr_workers ? workers->nr_workers : fit < more ? fit : more;
	if (workers->nr_pieces > NR_CHUNKS)
		workers->nr_pieces = NR_CHUNKS;
}

/* The pieces of a run, or its first ones: 1 or -errno. */
static int run_round(struct script_workers *workers, struct input_records *records, size_t nr_pieces,
		     struct diag *reterr)
{
	struct prefetcher *prefetcher = records->prefetcher;
	size_t nr = nr_pieces < workers->nr_pieces ? nr_pieces : workers->nr_pieces;
	struct round *round = workers->making;
	int result = 1;

	workers->prefetcher = prefetcher;
	prefetcher_share(prefetcher, do_task, workers, 1 + (unsigned)nr);
	/* In the others it is blocked. */
	if (workers->options.out->err == -EPIPE)
		raise(SIGPIPE);
	for (round->nr = 0; round->nr < nr && result > 0; round->nr++)
		result = complete_chunk(workers, prefetcher, round->nr, reterr);
	input_records_step_progress(records, workers->pieces, round->nr);
	prefetcher_span_end(prefetcher, round->nr);
	adapt_round(workers);
	workers->making = workers->made;
	workers->made = round;
	return result < 0 ? result : 1;
}

/*
 * Makes the other workers' texts, at the first long run. When that fails one thread makes all lines, and will say why.
 */
static bool is_ready(struct script_workers *workers)
{
	const struct script_workers_options *options = &workers->options;
	int err = workers->ready ? 0 : sample_text_prepare(workers->texts[0]);

	for (unsigned worker = 1; worker < workers->nr_workers && !workers->ready && !err; worker++) {
		workers->texts[worker] = sample_text_new(options->text, options->session, options->machine);
		err = workers->texts[worker] ? sample_text_prepare(workers->texts[worker]) : -ENOMEM;
	}
	workers->ready = !err;
	if (err)
		workers->nr_alone = SIZE_MAX;
	return !err;
}

static size_t count_samples(const struct prefetcher_chunk *pieces, size_t nr)
{
	size_t sum = 0;

	for (size_t i = 0; i < nr; i++)
		sum += pieces[i].nr;
	return sum;
}

int script_workers_print(struct script_workers *workers, struct input_records *records, struct diag *reterr)
{
	size_t nr = workers->nr_alone ? 0 : input_records_span_begin(records, &workers->pieces);

	if (workers->nr_alone)
		workers->nr_alone--;
	if (!nr)
		return 0;
	size_t nr_samples = count_samples(workers->pieces, nr);
	if (nr_samples >= FEW_SAMPLES && is_ready(workers))
		return run_round(workers, records, nr, reterr);
	prefetcher_span_end(records->prefetcher, 0);
	if (!workers->nr_alone)
		workers->nr_alone = nr_samples - 1;
	return 0;
}
