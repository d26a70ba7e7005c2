/* SPDX-License-Identifier: MIT */
/* time_range: the argument of --time. */
#pragma once

struct diag;
struct session;
struct session_times;

/*
 * "START,STOP" in seconds, either of which may be left out; "10%-20%" or "10%/2" (the second tenth) of the time between
 * the first and the last sample, which the header of the session must tell. 0, or -EINVAL and why.
 */
int time_range_parse(const char *text, const struct session *session, struct session_times *ret, struct diag *reterr);
