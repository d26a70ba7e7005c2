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

/* A number with one letter behind it, up to `end`. 0: it is none. */
static uint64_t number_of(const char *text, size_t len, bool *ret_time)
{
	char *end;

	errno = 0;
	uint64_t number = len && isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
	uint64_t factor = number && !errno && end + 1 == text + len ? unit_of(*end, ret_time) : 0;
	uint64_t most = *ret_time ? UINT64_MAX / 1000000000 : UINT64_MAX;
	if (!factor || number > most / factor)
		return 0;
	return number * factor * (*ret_time ? 1000000000 : 1);
}

int rotation_spec_parse_time(const char *text, uint64_t *ret_ns, struct diag *reterr)
{
	bool time = false;
	uint64_t ns = number_of(text, strlen(text), &time);

	if (!ns || !time)
		return diag_set(reterr, -EINVAL, "\"%s\" is no time such as 30s (s, m, h, d)", text);
	*ret_ns = ns;
	return 0;
}

int rotation_spec_parse_flight(const char *text, struct rotation_spec *spec, struct diag *reterr)
{
	static const uint64_t default_bytes = 64 << 20;
	size_t len = strcspn(text, ",");
	bool time = false, size_is_time = false;
	uint64_t ns = number_of(text, len, &time);
	uint64_t bytes = text[len] ? number_of(text + len + 1, strlen(text + len + 1), &size_is_time) : default_bytes;

	if (!ns || !time || !bytes || size_is_time)
		return diag_set(reterr, -EINVAL, "\"%s\" is neither a time such as 30s (s, m, h, d), nor a time and a size such "
						 "as 30s,64M (B, K, M, G)", text);
	spec->on = true;
	spec->flight_ns = ns;
	spec->flight_bytes = bytes;
	return 0;
}

int rotation_spec_parse(const char *text, struct rotation_spec *ret, struct diag *reterr)
{
	struct rotation_spec spec = *ret;
	bool time = false;

	spec.on = true;
	spec.bytes = spec.period_ns = 0;
	if (strcmp(text, "signal")) {
		uint64_t number = number_of(text, strlen(text), &time);
		if (!number)
			return diag_set(reterr, -EINVAL, "\"%s\" is neither \"signal\", nor a size such as 100M (B, K, M, G), "
							 "nor a time such as 30s (s, m, h, d)", text);
		*(time ? &spec.period_ns : &spec.bytes) = number;
	}
	*ret = spec;
	return 0;
}
