/* SPDX-License-Identifier: MIT */
#include "record/setup/options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

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
			return diag_set(reterr, -EINVAL,
					"\"%s\" is neither milliseconds, nor -1, nor ranges of them "
					"such as 10-20,30-40",
					text);
		if (range.on_ms <= before || range.off_ms <= range.on_ms)
			return diag_set(reterr, -EINVAL,
					"\"%s\": each range begins after the one before, and ends after it "
					"begins",
					text);
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

static bool parse_fd(const char *text, const char **ret_end, int *ret)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	long fd = strtol(text, &end, 10);
	if (errno || fd > INT_MAX)
		return false;
	*ret = (int)fd;
	*ret_end = end;
	return true;
}

static int parse_fds(const char *text, struct control_spec *spec)
{
	const char *at = text;

	if (!parse_fd(at, &at, &spec->fd))
		return -EINVAL;
	if (*at == ',' && at[1] && !parse_fd(at + 1, &at, &spec->ack_fd))
		return -EINVAL;
	if (*at == ',' && !at[1]) /* "fd:10,": as perf, no acknowledgements */
		at++;
	return *at ? -EINVAL : 0;
}

static int parse_paths(const char *text, struct control_spec *spec)
{
	size_t len = strcspn(text, ",");
	const char *ack = text[len] ? text + len + 1 : "";

	if (!len || len >= sizeof(spec->path) || strlen(ack) >= sizeof(spec->ack_path))
		return -EINVAL;
	memcpy(spec->path, text, len);
	strcpy(spec->ack_path, ack);
	return 0;
}

int control_parse(const char *text, struct control_spec *ret, struct diag *reterr)
{
	struct control_spec spec = {.given = true, .fd = -1, .ack_fd = -1};
	int err = -EINVAL;

	if (!strncmp(text, "fd:", 3))
		err = parse_fds(text + 3, &spec);
	spec.fifo = !strncmp(text, "fifo:", 5);
	if (spec.fifo)
		err = parse_paths(text + 5, &spec);
	if (err)
		return diag_set(reterr, err, "\"%s\" is neither fd:CTL[,ACK] nor fifo:CTL[,ACK]", text);
	*ret = spec;
	return 0;
}

static uint64_t unit_of(char letter, bool *ret_time)
{
	static const struct {
		char letter;
		bool time;
		uint64_t factor;
	} units[] = {
		{'B', false, 1}, {'K', false, 1 << 10}, {'M', false, 1 << 20}, {'G', false, 1 << 30},
		{'s', true, 1},  {'m', true, 60},       {'h', true, 3600},     {'d', true, 86400},
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

int rotation_spec_parse_history(const char *text, struct rotation_spec *spec, struct diag *reterr)
{
	static const uint64_t default_bytes = 64 << 20;
	size_t len = strcspn(text, ",");
	bool time = false, size_is_time = false;
	uint64_t ns = number_of(text, len, &time);
	uint64_t bytes = text[len] ? number_of(text + len + 1, strlen(text + len + 1), &size_is_time) : default_bytes;

	if (!ns || !time || !bytes || size_is_time)
		return diag_set(reterr, -EINVAL,
				"\"%s\" is neither a time such as 30s (s, m, h, d), nor a time and a size such "
				"as 30s,64M (B, K, M, G)",
				text);
	spec->on = true;
	spec->history_ns = ns;
	spec->history_bytes = bytes;
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
			return diag_set(reterr, -EINVAL,
					"\"%s\" is neither \"signal\", nor a size such as 100M (B, K, M, G), "
					"nor a time such as 30s (s, m, h, d)",
					text);
		*(time ? &spec.period_ns : &spec.bytes) = number;
	}
	*ret = spec;
	return 0;
}
