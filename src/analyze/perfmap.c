/* SPDX-License-Identifier: MIT */
#include "analyze/perfmap.h"

#include "analyze/text_line.h"

bool perfmap_next(struct span *rest, struct perfmap_line *ret)
{
	struct span line;

	while (text_line_next(rest, &line)) {
		struct perfmap_line found;
		if (!text_take_hex(&line, &found.start) || !text_take_blank(&line) ||
		    !text_take_hex(&line, &found.size) || !text_take_blank(&line) || !line.len)
			continue;
		found.name = line.ptr;
		found.name_len = line.len;
		if (memchr(found.name, '\0', found.name_len))
			continue;
		*ret = found;
		return true;
	}
	return false;
}
