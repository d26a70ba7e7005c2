/* SPDX-License-Identifier: MIT */
#include "record/rotation_spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

static uint64_t unit_of(char letter, bool *ret_time)
{
	static const struct {
		char letter;
		bool time;
		uint64_t factor;
	} units[] = {
		{'B', false, 1}, {'K', false, 1 << 10}, {'M', false, 1 << 20}, {'G', false, 1 << 30},
		{'s', true, 1}, {'m', true, 60}, {'h', true, 3600}, {'d', true, 86400},
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (units[i].letter == letter) {
			*ret_time = units[i].time;
			return units[i].factor;
		}
	return 0;
}

int rotation_spec_parse(const char *text, struct rotation_spec *ret, struct diag *reterr)
{
	struct rotation_spec spec = {.on = true};
	bool time = false;
	char *end;

	if (strcmp(text, "signal")) {
		errno = 0;
		uint64_t number = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
		uint64_t factor = number && !errno && *end && !end[1] ? unit_of(*end, &time) : 0;
		uint64_t most = time ? UINT64_MAX / 1000000000 : UINT64_MAX;
		if (!factor || number > most / factor)
			return diag_set(reterr, -EINVAL, "\"%s\" is neither \"signal\", nor a size such as 100M (B, K, M, G), "
							 "nor a time such as 30s (s, m, h, d)", text);
		if (time)
			spec.period_ns = number * factor * 1000000000;
		else
			spec.bytes = number * factor;
	}
	*ret = spec;
	return 0;
}
