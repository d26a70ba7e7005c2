/* SPDX-License-Identifier: MIT */
/* annotate: the code of a function on the screen, and its keys. Private to the room; main thread. */
#pragma once

#include "cmd/view/model.h"

struct diag;

/* The number to the left of an instruction. */
enum code_number { CODE_PERCENT, CODE_PERIOD, CODE_SAMPLES, CODE_NUMBERS };

/* Which instructions have their offset in front of them. */
enum code_labels { LABEL_TARGETS, LABEL_CALLS, LABEL_ALL, CODE_LABELS };

/* How code is shown: changed by keys, and kept for the next function. Zeroed: the default. */
struct code_style {
	enum code_number number;
	enum code_labels labels;
	bool global;         /* shares of all samples of the event, else of those of the function */
	bool by_samples;     /* shares of the number of samples, else of their periods */
	bool disassembly;    /* as a disassembler prints it, with all addresses */
	bool full_addresses; /* in place of offsets in the function */
	bool no_source, no_line_numbers, full_paths;
	bool no_arrows; /* from the jump under the cursor to its target */
	bool sources;   /* how many jumps go to an instruction */
};

/* Where the user goes from there. */
enum annotate_end { ANNOTATE_BACK, ANNOTATE_PREVIOUS, ANNOTATE_NEXT /* row of the table */, ANNOTATE_SAMPLES };

struct annotate_result {
	enum annotate_end end;
	struct hist_place place; /* ANNOTATE_SAMPLES: the function whose samples are to be shown */
};

/* Until the user leaves it. -errno and why there is nothing to show. */
int annotate_run(const struct model *model, const struct hist_place *place, struct code_style *style,
		 struct annotate_result *ret, struct diag *reterr);
