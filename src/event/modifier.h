/* SPDX-License-Identifier: MIT */
/* modifier: the letters behind an event that say where it counts: "u", "kpp", "GHD". Pure. */
#pragma once

#include <stddef.h>

struct event;

/*
 * Applies the letters to the event's attr and `given`. 0, or -EINVAL: *ret_bad is the index of the letter
 * that is unknown or one too many, and *ret_why says so.
 */
int modifier_apply(struct event *event, const char *letters, size_t len, size_t *ret_bad,
		   const char **ret_why);

/* The same for letters behind the group of the event, which add to the event's own. */
int modifier_add(struct event *event, const char *letters, size_t len, size_t *ret_bad, const char **ret_why);

/* The letters, for messages. */
#define MODIFIER_LETTERS "u k h G H I p P D e S W b"
