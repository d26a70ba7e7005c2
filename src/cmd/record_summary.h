/* SPDX-License-Identifier: MIT */
/* What millrace record says at its end: what was captured, and what was lost. */
#pragma once

struct recording_result;

/* To the log; nothing of it with -q. */
void record_summary_print(const struct recording_result *result);
