/* SPDX-License-Identifier: MIT */
#include "record/output/joiner.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "stream/stage.h"

/* Readers keep what they cannot sort yet in memory: of so many bytes without a mark the next mark is not dropped. */
enum { MOST_UNMARKED_BYTES = 1 << 20 };

struct joiner {
	struct stage stage;
	const struct joiner_maker *maker;
	struct batch *pending;   /* that the next ones are added to; NULL: none */
	bool aged;               /* it was there at the last STAGE_COMMIT */
	uint64_t unmarked_bytes; /* passed on since the last mark */
};

static int pass_pending(struct joiner *joiner)
{
	struct batch *pending = take_ptr(joiner->pending);

	if (!pending)
		return 0;
	joiner->aged = false;
	joiner->unmarked_bytes = pending->tail_len ? 0 : joiner->unmarked_bytes + pending->len;
	return stage_pass(&joiner->stage, pending);
}

static bool has_nothing(const struct batch *batch)
{
	return !batch->len && !batch->tail_len;
}

static bool can_join(const struct joiner *joiner, const struct batch *batch)
{
	const struct batch *pending = joiner->pending;
	bool drops_mark = pending->tail_len && !batch->tail_len && !has_nothing(batch);

	if (drops_mark && joiner->unmarked_bytes + pending->len >= MOST_UNMARKED_BYTES)
		return false;
	return batch->len <= pending->room - pending->len;
}

static int process(struct stage *stage, struct batch *batch)
{
	struct joiner *joiner = (struct joiner *)stage;

	if (joiner->pending && can_join(joiner, batch)) {
		stage_batch_join(stage, joiner->pending, batch);
		return 0;
	}
	int err = pass_pending(joiner);
	if (err || has_nothing(batch)) {
		int pass_err = stage_pass(stage, batch);
		return err ? err : pass_err;
	}
	joiner->pending = batch;
	return 0;
}

static int flush(struct stage *stage, enum stage_flush why)
{
	struct joiner *joiner = (struct joiner *)stage;

	if (why == STAGE_ROUND)
		return 0;
	if (why != STAGE_COMMIT || joiner->aged || !joiner->maker->holds_for_two)
		return pass_pending(joiner);
	joiner->aged = joiner->pending != NULL;
	return 0;
}

static void free_joiner(struct stage *stage)
{
	free(stage);
}

int joiner_make(struct stage_maker *maker, const struct stage_output *output, struct stage **ret)
{
	static const struct stage_ops ops = {
		.name = "join", .process = process, .flush = flush, .keeps_until_commit = true, .free = free_joiner};
	struct joiner *joiner = NULL;

	if (output->regular) {
		joiner = calloc(1, sizeof(*joiner));
		if (!joiner)
			return -ENOMEM;
		*joiner = (struct joiner){.stage.ops = &ops, .maker = (const struct joiner_maker *)maker};
	}
	*ret = joiner ? &joiner->stage : NULL;
	return 0;
}
