/* SPDX-License-Identifier: MIT */
#include "cmd/time_range.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "format/feature.h"
#include "read/session.h"

enum { NS_DIGITS = 9 };

/* Seconds with up to nine decimals; doubles have too few digits. The end of it, or NULL. */
static const char *parse_seconds(const char *at, uint64_t *ret_ns)
{
	uint64_t ns = 0;
	int decimals = 0;

	if (!isdigit((unsigned char)*at))
		return NULL;
	for (; isdigit((unsigned char)*at); at++)
		if (__builtin_mul_overflow(ns, 10, &ns) || __builtin_add_overflow(ns, *at - '0', &ns))
			return NULL;
	if (*at == '.')
		at++;
	for (; decimals < NS_DIGITS; decimals++) {
		unsigned digit = isdigit((unsigned char)*at) ? (unsigned)(*at++ - '0') : 0;
		if (__builtin_mul_overflow(ns, 10, &ns) || __builtin_add_overflow(ns, digit, &ns))
			return NULL;
	}
	while (isdigit((unsigned char)*at))
		at++;
	*ret_ns = ns;
	return at;
}

/* "10%-20%", "10%/2". false: it is neither. */
static bool parse_percents(const char *text, double *ret_from, double *ret_to)
{
	char *end;
	double first = strtod(text, &end), second;

	if (end == text || *end++ != '%')
		return false;
	if (!*end) {
		*ret_from = 0;
		*ret_to = first;
		return first > 0 && first <= 100;
	}
	char how = *end;
	if (how != '-' && how != '/')
		return false;
	const char *rest = end + 1;
	second = strtod(rest, &end);
	if (end == rest || (how == '-' && *end++ != '%') || *end)
		return false;
	*ret_from = how == '-' ? first : first * (second - 1);
	*ret_to = how == '-' ? second : first * second;
	return *ret_from >= 0 && *ret_to > *ret_from && *ret_from < 100;
}

static int of_recording(const struct session *session, double from, double to, struct session_times *ret,
			struct diag *reterr)
{
	struct feature_sample_time all;
	struct span payload;

	if (!session_feature(session, FEATURE_SAMPLE_TIME, &payload) || feature_decode_sample_time(payload, &all) ||
	    !all.last_ns || all.last_ns < all.first_ns)
		return diag_set(reterr, -EINVAL, "the recording does not say when it began and ended: give seconds, not %%");
	double length_ns = (double)(all.last_ns - all.first_ns);
	ret->first_ns = all.first_ns + (uint64_t)(length_ns * from / 100);
	ret->last_ns = to >= 100 ? all.last_ns : all.first_ns + (uint64_t)(length_ns * to / 100);
	return 0;
}

int time_range_parse(const char *text, const struct session *session, struct session_times *ret, struct diag *reterr)
{
	struct session_times times = {0, UINT64_MAX};
	const char *at = text;
	double from, to;

	if (parse_percents(text, &from, &to))
		return of_recording(session, from, to, ret, reterr);
	if (*at != ',')
		at = parse_seconds(at, &times.first_ns);
	if (at && *at == ',' && at[1])
		at = parse_seconds(at + 1, &times.last_ns);
	else if (at && *at == ',')
		at++;
	if (!at || *at || times.first_ns > times.last_ns)
		return diag_set(reterr, -EINVAL, "--time %s: START,STOP in seconds, such as 10.5,12 or 10.5, or ,12; or "
				 "10%%-20%% or 10%%/2 of the recording", text);
	*ret = times;
	return 0;
}
