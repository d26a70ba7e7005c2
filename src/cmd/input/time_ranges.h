/* SPDX-License-Identifier: MIT */
/* time_ranges: the words of --time. */
#pragma once

#include <stdbool.h>

struct diag;
struct session;

/*
 * session_limit_time() with one or several ranges:
 * "START,STOP START,STOP" in seconds, of which either may be left out; since_first: seconds since the first sample;
 * "10%-20%,50%-60%", "10%/2,10%/4" (the second and the fourth tenth), "10%" (the first): of the time between the first
 * and the last sample. For both of these, the header of the recording must have the times of these samples.
 * 0, -EINVAL and why, or -ENOMEM.
 */
int time_ranges_limit(struct session *session, const char *text, bool since_first, struct diag *reterr);

/* Has a text that time_ranges_limit() takes more than one range? */
bool time_ranges_are_several(const char *text);
