/* SPDX-License-Identifier: MIT */
#include "record/enable_times.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/diag.h"

static bool parse_ms(const char **at, int64_t *ret)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	long ms = strtol(*at, &end, 10);
	if (errno || ms > INT_MAX)
		return false;
	*at = end;
	*ret = ms;
	return true;
}

static int parse_ranges(const char *text, struct enable_times *times, struct diag *reterr)
{
	const char *at = text;
	int64_t before = -1;

	for (;;) {
		struct enable_range range;
		if (times->nr == ENABLE_TIMES_MAX)
			return diag_set(reterr, -E2BIG, "more than %d ranges", ENABLE_TIMES_MAX);
		if (!parse_ms(&at, &range.on_ms) || *at++ != '-' || !parse_ms(&at, &range.off_ms) ||
		    (*at && *at != ','))
			return diag_set(reterr, -EINVAL, "\"%s\" is neither milliseconds, nor -1, nor ranges of them "
							 "such as 10-20,30-40", text);
		if (range.on_ms <= before || range.off_ms <= range.on_ms)
			return diag_set(reterr, -EINVAL, "\"%s\": each range begins after the one before, and ends after it "
							 "begins", text);
		before = range.off_ms;
		times->ranges[times->nr++] = range;
		if (!*at++)
			return 0;
	}
}

int enable_times_parse(const char *text, struct enable_times *ret, struct diag *reterr)
{
	struct enable_times times = {.delayed = true};
	const char *at = text;
	int64_t ms = 0;

	if (text[0] == '-' && text[1] == '1' && !text[2]) {
		*ret = times;
		return 0;
	}
	if (parse_ms(&at, &ms) && !*at) {
		times.delayed = ms > 0;
		times.nr = ms > 0;
		times.ranges[0] = (struct enable_range){ms, -1};
	} else {
		int err = parse_ranges(text, &times, reterr);
		if (err)
			return err;
	}
	*ret = times;
	return 0;
}

bool enable_times_next(const struct enable_times *times, size_t done, int64_t *ret_ms, bool *ret_on)
{
	const struct enable_range *range = &times->ranges[done / 2];
	bool on = done % 2 == 0;

	if (done / 2 >= times->nr || (!on && range->off_ms < 0))
		return false;
	*ret_ms = on ? range->on_ms : range->off_ms;
	*ret_on = on;
	return true;
}
