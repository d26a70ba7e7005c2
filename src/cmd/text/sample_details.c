/* SPDX-License-Identifier: MIT */
#include "cmd/text/sample_details.h"

#include <inttypes.h>
#include <linux/perf_event.h>
#include <string.h>

#include "analyze/machine/machine.h"
#include "analyze/report/tracepoint.h"
#include "analyze/symbols/debug_info.h"
#include "analyze/symbols/jit_code.h"
#include "base/buf.h"
#include "base/text.h"
#include "perfdata/feature.h"
#include "read/session.h"
#include "tasks/off_cpu.h"

const struct wait_word wait_words[] = {
	{OFF_CPU_UNKNOWN, "unknown"}, {OFF_CPU_STARTING, "starting"},     {OFF_CPU_BEGAN_EARLIER, "began-earlier"},
	{OFF_CPU_GOES_ON, "goes-on"}, {OFF_CPU_NO_WAKE_UP, "no-wake-up"}, {0, NULL},
};

static const char *shown_path(const char *path, unsigned flags)
{
	const char *slash = strrchr(path, '/');

	return slash && !(flags & SOURCE_FULL_PATH) ? slash + 1 : path;
}

static bool find_line(struct debug_info *info, const struct location *at, struct source_line *ret)
{
	if (at->dso && at->dso->jit) {
		bool dumped = at->symbol && at->symbol->by_name; /* else the map has it */
		ret->path = dumped ? jit_code_line(at->dso->jit, at->symbol, at->address, &ret->line) : NULL;
		return ret->path != NULL;
	}
	return at->dso && debug_info_line(info, at->dso, at->address - at->is_return, at->nr_inlined, ret);
}

bool source_text_line(struct debug_info *info, const struct location *at, unsigned flags, struct buf *out)
{
	struct source_line found;

	if (find_line(info, at, &found)) {
		char line[DIGITS_ROOM]; /* many are made: printf(3) takes longer than to find them */
		buf_put_text(out, shown_path(found.path, flags));
		buf_put_u8(out, ':');
		buf_put(out, line, (size_t)(digits_put_decimal(line, found.line) - line));
		return true;
	}
	if (at->symbol && flags & SOURCE_SYMBOL)
		buf_printf(out, "%s+%" PRIu64, at->symbol->name, at->address - at->symbol->start);
	else if (at->dso)
		buf_printf(out, "%s[%" PRIx64 "]", dso_short_name(at->dso), at->address);
	else
		buf_put_text(out, "??:0");
	return false;
}

void source_text_file(struct debug_info *info, const struct location *at, unsigned flags, struct buf *out)
{
	struct source_line found;

	if (find_line(info, at, &found))
		buf_put_text(out, shown_path(found.path, flags));
}

static const char *resolve_kernel(void *ctx, uint64_t address, uint64_t *ret_start)
{
	struct lookup *lookup = ctx;
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

int trace_formats_open(struct session *session, struct lookup *lookup, struct tracepoints **formats,
		       struct diag *reterr)
{
	struct span blob;

	if (*formats || !session_feature(session, FEATURE_TRACING_DATA, &blob))
		return 0;
	int err = tracepoints_open(blob, formats, reterr);
	if (!err)
		tracepoints_set_resolver(*formats, resolve_kernel, lookup);
	return err;
}
