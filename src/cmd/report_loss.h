/* SPDX-License-Identifier: MIT */
/* report_loss: what a recording has lost, where, when and why; of any perf.data file. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct diag;
struct session;

struct report_loss_options {
	bool json;
	bool headless; /* the tables alone */
};

/* Reads the whole session, opened with SESSION_FILE_ORDER. What was read before an error is printed all the same. */
int report_loss_print(const struct report_loss_options *options, struct session *session, FILE *to,
		      struct diag *reterr);
