/* SPDX-License-Identifier: MIT */
/* trace_formats: the tracepoint formats of a recording, with names for the kernel addresses in their fields. */
#pragma once

struct diag;
struct lookup;
struct session;
struct tracepoints;

/*
 * Once they are there (they come in the file, or before the first sample of a pipe) they stay open, for tracepoints_close()
 * before the lookup goes. 0 also when there are none yet; -EBADMSG, -ENOMEM and why.
 */
int trace_formats_open(struct session *session, struct lookup *lookup, struct tracepoints **formats, struct diag *reterr);
