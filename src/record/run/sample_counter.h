/* SPDX-License-Identifier: MIT */
/* sample_counter: a stage that counts the samples that go by, for the status line of a recording that runs. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "stream/stage.h"

struct sample_counter {
	struct stage_maker maker; /* .make = sample_counter_make */
	_Atomic uint64_t nr;      /* of all outputs until now; relaxed: any thread */
};

int sample_counter_make(struct stage_maker *maker, const struct stage_output *output, struct stage **ret);
