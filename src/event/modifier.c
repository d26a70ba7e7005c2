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
		if (!letter || !strchr("ukhGHIpPDeSWb", letter)) {
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

/* Who named a level wants that one; the first to name any leaves out the others. */
static void apply_levels(struct perf_event_attr *attr, const struct modifiers *mods)
{
	if (!has(mods, 'u') && !has(mods, 'k') && !has(mods, 'h'))
		return;
	bool first = !attr->exclude_user && !attr->exclude_kernel && !attr->exclude_hv;
	attr->exclude_user = (first || attr->exclude_user) && !has(mods, 'u');
	attr->exclude_kernel = (first || attr->exclude_kernel) && !has(mods, 'k');
	attr->exclude_hv = (first || attr->exclude_hv) && !has(mods, 'h');
}

static void apply_sides(struct event *event, const struct modifiers *mods)
{
	struct perf_event_attr *attr = &event->attr;

	if (has(mods, 'G') || has(mods, 'H')) {
		bool first = !(event->given & EVENT_GIVEN_SIDES);
		attr->exclude_host = (first || attr->exclude_host) && !has(mods, 'H');
		attr->exclude_guest = (first || attr->exclude_guest) && !has(mods, 'G');
		event->given |= EVENT_GIVEN_SIDES;
	} else if (!(event->given & EVENT_GIVEN_SIDES) && (has(mods, 'u') || has(mods, 'p'))) {
		/* Without G or H a guest is left out only where the host's own PMU could not tell it apart. */
		attr->exclude_guest = 1;
	}
}

static void apply_all(struct event *event, const struct modifiers *mods)
{
	struct perf_event_attr *attr = &event->attr;

	apply_levels(attr, mods);
	apply_sides(event, mods);
	attr->exclude_idle |= has(mods, 'I');
	attr->precise_ip = (attr->precise_ip + mods->counts['p']) & MAX_PRECISE_IP;
	if (has(mods, 'P')) {
		event->given |= EVENT_GIVEN_MAX_PRECISE;
		attr->precise_ip = MAX_PRECISE_IP;
	}
	if (!event->behind_leader) { /* the kernel takes these of a leader only */
		attr->pinned |= has(mods, 'D');
		attr->exclusive |= has(mods, 'e');
	}
	event->given |= EVENT_GIVEN_MODIFIER;
	if (has(mods, 'S'))
		event->given |= EVENT_GIVEN_SAMPLE_READ;
	if (has(mods, 'W'))
		event->given |= EVENT_GIVEN_WEAK;
}

int modifier_apply(struct event *event, const char *letters, size_t len, size_t *ret_bad,
		   const char **ret_why)
{
	struct modifiers mods = {0};
	int err = read_letters(&mods, letters, len, ret_bad, ret_why);

	if (err < 0 || len == 0)
		return err;
	event->attr.exclude_guest = 0; /* no longer the default */
	apply_all(event, &mods);
	return 0;
}

int modifier_add(struct event *event, const char *letters, size_t len, size_t *ret_bad, const char **ret_why)
{
	struct modifiers mods = {0};
	int err = read_letters(&mods, letters, len, ret_bad, ret_why);
	unsigned own = event->given & EVENT_GIVEN_MAX_PRECISE ? 0 : event->attr.precise_ip;

	if (err < 0)
		return err;
	if (own + mods.counts['p'] > MAX_PRECISE_IP) {
		*ret_bad = (size_t)((const char *)memchr(letters, 'p', len) - letters);
		*ret_why = "with the event's own, more than three 'p' modifiers";
		return -EINVAL;
	}
	apply_all(event, &mods);
	if (event->given & EVENT_GIVEN_MAX_PRECISE)
		event->attr.precise_ip = MAX_PRECISE_IP;
	return 0;
}
