/* SPDX-License-Identifier: MIT */
/* cost_text: what a recorder used, as a line of a table. */
#pragma once

struct ledger_cost;

enum { COST_TEXT_BYTES = 96 };

/* Without a newline. Returns `line`. */
const char *cost_text(const struct ledger_cost *cost, char line[COST_TEXT_BYTES]);
