/* SPDX-License-Identifier: MIT */
#include "cmd/cost_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "format/feature_ledger.h"

const char *cost_text(const struct ledger_cost *cost, char line[COST_TEXT_BYTES])
{
	size_t len = strlen(cost->name);

	if (len > 3 && !strcmp(cost->name + len - 3, " ns"))
		snprintf(line, COST_TEXT_BYTES, "%24.*s  %15.6f s", (int)len - 3, cost->name, (double)cost->value / 1e9);
	else
		snprintf(line, COST_TEXT_BYTES, "%24s  %15" PRIu64, cost->name, cost->value);
	return line;
}
