/* SPDX-License-Identifier: MIT */
#include "cmd/trace_formats.h"

#include <linux/perf_event.h>

#include "analyze/lookup.h"
#include "analyze/tracepoint.h"
#include "format/feature.h"
#include "read/session.h"

static const char *resolve_kernel(void *of, uint64_t address, uint64_t *ret_start)
{
	struct lookup *lookup = of;
	struct task *task = lookup_task(lookup, 0, 0);
	struct location location;

	if (!task)
		return NULL;
	lookup_resolve(lookup, task, PERF_RECORD_MISC_KERNEL, address, &location);
	if (!location.symbol)
		return NULL;
	*ret_start = address - (location.address - location.symbol->start);
	return location.symbol->name;
}

int trace_formats_open(struct session *session, struct lookup *lookup, struct tracepoints **formats, struct diag *reterr)
{
	struct span blob;

	if (*formats || !session_feature(session, FEATURE_TRACING_DATA, &blob))
		return 0;
	int err = tracepoints_open(blob, formats, reterr);
	if (!err)
		tracepoints_set_resolver(*formats, resolve_kernel, lookup);
	return err;
}
