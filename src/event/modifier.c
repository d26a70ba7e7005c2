/* SPDX-License-Identifier: MIT */
/* What each letter does to the attr was measured with perf 6.1; the exclude_* bits: perf_event_open(2). */
#include "event/modifier.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "event/event.h"

enum { MAX_PRECISE_IP = 3 }; /* precise_ip has two bits */

struct modifiers {
	unsigned counts[128]; /* how often each letter came */
};

static bool has(const struct modifiers *mods, char letter)
{
	return mods->counts[(unsigned char)letter] > 0;
}

static int read_letters(struct modifiers *mods, const char *letters, size_t len, size_t *ret_bad,
			const char **ret_why)
{
	for (size_t i = 0; i < len; i++) {
		char letter = letters[i];
		if (!letter || !strchr("ukhGHIpPDeSW", letter)) {
			*ret_bad = i;
			*ret_why = "unknown modifier";
			return -EINVAL;
		}
		if (++mods->counts[(unsigned char)letter] > (letter == 'p' ? MAX_PRECISE_IP : 1)) {
			*ret_bad = i;
			*ret_why = letter == 'p' ? "more than three 'p' modifiers" : "repeated modifier";
			return -EINVAL;
		}
	}
	return 0;
}

int modifier_apply(struct event *event, const char *letters, size_t len, size_t *ret_bad,
		   const char **ret_why)
{
	struct modifiers mods = {0};
	struct perf_event_attr *attr = &event->attr;
	int err = read_letters(&mods, letters, len, ret_bad, ret_why);

	if (err < 0)
		return err;
	if (len == 0)
		return 0;

	bool levels = has(&mods, 'u') || has(&mods, 'k') || has(&mods, 'h');
	bool sides = has(&mods, 'G') || has(&mods, 'H');
	attr->exclude_user = levels && !has(&mods, 'u');
	attr->exclude_kernel = levels && !has(&mods, 'k');
	attr->exclude_hv = levels && !has(&mods, 'h');
	attr->exclude_host = sides && !has(&mods, 'H');
	/* Without G or H a guest is left out only where the host's own PMU could not tell it apart. */
	attr->exclude_guest = sides ? !has(&mods, 'G') : has(&mods, 'u') || has(&mods, 'p');
	attr->exclude_idle = has(&mods, 'I');
	attr->precise_ip = mods.counts['p'] & MAX_PRECISE_IP;
	attr->pinned = has(&mods, 'D');
	attr->exclusive = has(&mods, 'e');

	event->given |= EVENT_GIVEN_MODIFIER;
	if (has(&mods, 'P')) {
		event->given |= EVENT_GIVEN_MAX_PRECISE;
		attr->precise_ip = MAX_PRECISE_IP;
	}
	if (has(&mods, 'S'))
		event->given |= EVENT_GIVEN_SAMPLE_READ;
	return 0;
}
