/* SPDX-License-Identifier: MIT */
#include "cmd/source_text.h"

#include <inttypes.h>
#include <string.h>

#include "analyze/machine.h"
#include "analyze/srcline.h"
#include "base/buf.h"

static const char *shown_path(const char *path, unsigned flags)
{
	const char *slash = strrchr(path, '/');

	return slash && !(flags & SOURCE_FULL_PATH) ? slash + 1 : path;
}

bool source_text_line(struct srclines *srclines, const struct location *at, unsigned flags, struct buf *out)
{
	struct srcline found;

	if (at->dso && srcline_find(srclines, at->dso, at->address, &found)) {
		buf_printf(out, "%s:%u", shown_path(found.path, flags), found.line);
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

void source_text_file(struct srclines *srclines, const struct location *at, unsigned flags, struct buf *out)
{
	struct srcline found;

	if (at->dso && srcline_find(srclines, at->dso, at->address, &found))
		buf_put_text(out, shown_path(found.path, flags));
}
