/* SPDX-License-Identifier: MIT */
/*
 * batch_pages: what the samples of a batch fell on, found by any thread beside other batches: what is left to do in the
 * order of the output is little for each batch, and nothing for each sample. Private to build_ids.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "record/build_ids/pages.h"
#include "record/build_ids/scan.h"

struct batch;

struct batch_pages {
	struct sample_batch samples; /* all that is in the batch */
	size_t nr;
	struct sampled_page list[]; /* each pair once */
};

/*
 * batch->examined: behind the records, as there is room. NULL: there are other records than samples with a time, or
 * there is no room: the batch has to be gone through. Reads of the scan only what does not change.
 */
void batch_pages_find(const struct scan *scan, struct batch *batch);
