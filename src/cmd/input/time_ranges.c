/* SPDX-License-Identifier: MIT */
#include "cmd/input/time_ranges.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "perfdata/feature.h"
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

/* "START,STOP" that begins at `at`. The end of it, or NULL. */
static const char *parse_range(const char *at, struct session_times *ret)
{
	*ret = (struct session_times){0, UINT64_MAX};
	if (*at != ',')
		at = parse_seconds(at, &ret->first_ns);
	if (!at || *at++ != ',')
		return NULL;
	if (*at && !isspace((unsigned char)*at))
		at = parse_seconds(at, &ret->last_ns);
	return at && (!*at || isspace((unsigned char)*at)) && ret->first_ns <= ret->last_ns ? at : NULL;
}

/* One of "10%-20%", "10%/2", "10%". The end of it, or NULL. */
static const char *parse_percents(const char *text, double *ret_from, double *ret_to)
{
	char *end;
	double first = strtod(text, &end), second;

	if (end == text || *end++ != '%')
		return NULL;
	*ret_from = 0;
	*ret_to = first;
	if (*end == '-' || *end == '/') {
		char how = *end;
		const char *rest = end + 1;
		second = strtod(rest, &end);
		if (end == rest || (how == '-' && *end++ != '%'))
			return NULL;
		*ret_from = how == '-' ? first : first * (second - 1);
		*ret_to = how == '-' ? second : first * second;
	}
	return *ret_from >= 0 && *ret_to > *ret_from && *ret_from < 100 && *ret_to <= 1e6 ? end : NULL;
}

static int explain(const char *text, struct diag *reterr)
{
	return diag_set(reterr, -EINVAL,
			"--time %s is not understood: give START,STOP in seconds, such as 10.5,12 or 10.5, or ,12, "
			"with blanks between several; or 10%%-20%% or 10%%/2 of the recording, with commas",
			text);
}

static int of_recording(const struct session *session, struct session_times *ret, struct diag *reterr)
{
	struct feature_sample_time all;
	struct span payload;

	if (!session_feature(session, FEATURE_SAMPLE_TIME, &payload) || feature_decode_sample_time(payload, &all) ||
	    !all.last_ns || all.last_ns < all.first_ns)
		return diag_set(reterr, -EINVAL,
				"the recording does not say when it began and ended: give times as script prints "
				"them without --reltime, not %%");
	*ret = (struct session_times){all.first_ns, all.last_ns};
	return 0;
}

static int parse_shares(const char *text, const struct session_times *all, struct buf *ret, struct diag *reterr)
{
	double length_ns = (double)(all->last_ns - all->first_ns), from, to;

	for (const char *at = text;; at++) {
		at = parse_percents(at, &from, &to);
		if (!at || (*at && *at != ','))
			return explain(text, reterr);
		const struct session_times times = {
			.first_ns = all->first_ns + (uint64_t)(length_ns * from / 100),
			.last_ns = to >= 100 ? all->last_ns : all->first_ns + (uint64_t)(length_ns * to / 100),
		};
		buf_put(ret, &times, sizeof(times));
		if (!*at)
			return 0;
	}
}

/* Both ends later by so much; no stop stays none. */
static bool add_start(struct session_times *times, uint64_t start_ns)
{
	return !__builtin_add_overflow(times->first_ns, start_ns, &times->first_ns) &&
	       (times->last_ns == UINT64_MAX || !__builtin_add_overflow(times->last_ns, start_ns, &times->last_ns));
}

static int parse_seconds_ranges(const char *text, uint64_t start_ns, struct buf *ret, struct diag *reterr)
{
	struct session_times times;
	const char *at = text;

	do {
		at = parse_range(at + strspn(at, " \t"), &times);
		if (!at || !add_start(&times, start_ns))
			return explain(text, reterr);
		buf_put(ret, &times, sizeof(times));
		at += strspn(at, " \t");
	} while (*at);
	return 0;
}

bool time_ranges_are_several(const char *text)
{
	if (strchr(text, '%'))
		return strchr(text, ',');
	text += strspn(text, " \t");
	text += strcspn(text, " \t");
	return text[strspn(text, " \t")];
}

int time_ranges_limit(struct session *session, const char *text, bool since_first, struct diag *reterr)
{
	bool shares = strchr(text, '%');
	struct session_times all = {0};
	struct buf times = {0};
	int err = shares || since_first ? of_recording(session, &all, reterr) : 0;

	if (!err)
		err = shares ? parse_shares(text, &all, &times, reterr)
			     : parse_seconds_ranges(text, all.first_ns, &times, reterr);
	if (!err)
		err = buf_status(&times);
	if (!err)
		err = session_limit_time(session, (const struct session_times *)times.data,
					 times.len / sizeof(struct session_times));
	if (err == -ENOMEM)
		diag_set(reterr, err, "out of memory");
	buf_fini(&times);
	return err;
}
