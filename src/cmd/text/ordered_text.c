/* SPDX-License-Identifier: MIT */
#include "cmd/text/ordered_text.h"

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/thread_pool.h"
#include "cmd/text/put_text.h"

enum { PIECES_AT_ONCE = 64, CACHE_LINE = 64 };

/* What one thread has made of these pieces. */
struct text_worker {
	alignas(CACHE_LINE) FILE *to; /* NULL: it has made none yet */
	struct buf text;
};

struct text_piece {
	size_t begin, end; /* in the text of its worker */
	unsigned worker;
	int err;
};

/* Pieces that are made before they are written. */
struct text_round {
	const struct ordered_text *text;
	unsigned first; /* of its pieces */
	struct text_worker *workers;
	struct text_piece pieces[PIECES_AT_ONCE];
};

unsigned ordered_text_workers(void)
{
	return thread_pool_useful_size();
}

static void make_piece(void *ctx, unsigned number, unsigned index)
{
	struct text_round *round = ctx;
	const unsigned which = number ? number - 1 : 0; /* a pool has a helper, which does not help here */
	struct text_worker *worker = &round->workers[which];
	struct text_piece *piece = &round->pieces[index];
	const struct ordered_text *text = round->text;

	if (!worker->to)
		worker->to = buf_stream_open(&worker->text);
	*piece = (struct text_piece){.begin = worker->text.len, .worker = which, .err = worker->to ? 0 : -ENOMEM};
	if (worker->to) {
		piece->err = text->put(text->ctx, which, round->first + index, worker->to);
		fflush(worker->to);
	}
	piece->end = worker->text.len;
	piece->err = piece->err ? piece->err : buf_status(&worker->text);
}

static int write_pieces(FILE *to, const struct text_round *round, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		const struct text_piece *piece = &round->pieces[i];
		const struct buf *text = &round->workers[piece->worker].text;
		if (piece->begin < piece->end)
			put_bytes(to, (const char *)text->data + piece->begin, piece->end - piece->begin);
		if (piece->err)
			return piece->err;
	}
	return 0;
}

static int print(FILE *to, const struct ordered_text *text, struct thread_pool *pool, struct text_worker *workers)
{
	struct text_round round = {.text = text, .workers = workers};
	int err = 0;

	while (round.first < text->nr_pieces && !err && !ferror(to)) {
		const unsigned left = text->nr_pieces - round.first, nr = left < PIECES_AT_ONCE ? left : PIECES_AT_ONCE;
		thread_pool_begin(pool, make_piece, &round, nr);
		thread_pool_finish(pool);
		err = write_pieces(to, &round, nr);
		for (unsigned i = 0; i < ordered_text_workers(); i++)
			workers[i].text.len = 0;
		round.first += nr;
	}
	return err;
}

int ordered_text_print(FILE *to, const struct ordered_text *text)
{
	const unsigned nr = ordered_text_workers();
	AUTO_FREE struct text_worker *workers = aligned_alloc(CACHE_LINE, nr * sizeof(*workers));
	struct thread_pool *pool = NULL;

	if (!workers)
		return -ENOMEM;
	memset(workers, 0, nr * sizeof(*workers));
	int err = thread_pool_new(nr + 1, &pool);
	if (!err)
		err = print(to, text, pool, workers);
	thread_pool_free(pool);
	for (unsigned i = 0; i < nr; i++) {
		if (workers[i].to)
			fclose(workers[i].to);
		buf_fini(&workers[i].text);
	}
	return err;
}
