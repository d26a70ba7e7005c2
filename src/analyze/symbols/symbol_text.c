/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/symbol_text.h"

#include <string.h>

#include "base/text_line.h"

bool kallsyms_next(struct span *rest, struct kallsyms_line *ret)
{
	struct span line;

	while (text_line_next(rest, &line)) {
		struct kallsyms_line found = {0};
		if (!text_take_hex(&line, &found.address) || !text_take_blank(&line) || !line.len)
			continue;
		const char *text = line.ptr;
		found.type = text[0];
		if (line.len < 3 || text[1] != ' ')
			continue;
		found.name = text + 2;
		found.name_len = line.len - 2;
		const char *tab = memchr(found.name, '\t', found.name_len);
		if (tab) {
			size_t tail = (size_t)(found.name + found.name_len - tab);
			found.name_len = (size_t)(tab - found.name);
			if (tail > 3 && tab[1] == '[' && tab[tail - 1] == ']') {
				found.module = tab + 2;
				found.module_len = tail - 3;
			}
		}
		if (!found.name_len)
			continue;
		*ret = found;
		return true;
	}
	return false;
}

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
