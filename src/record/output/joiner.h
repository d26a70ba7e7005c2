/* SPDX-License-Identifier: MIT */
/*
 * joiner: the last stage of an output that is compressed, behind stages that leave little of a batch: it puts batches
 * together, so that each extent has more that repeats. What came before a STAGE_COMMIT goes at the next one at the
 * latest.
 */
#pragma once

#include <stdbool.h>

#include "stream/stage.h"

struct joiner_maker {
	struct stage_maker maker; /* with joiner_make() */
	/* One thread drains, so that nothing waits for commits of others before it comes here: else each one counts. */
	bool holds_for_two;
};

/* stage_maker.make(). Of a pipe or a device none is made: who reads it gets each batch at once. */
int joiner_make(struct stage_maker *maker, const struct stage_output *output, struct stage **ret);
