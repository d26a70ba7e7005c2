/* SPDX-License-Identifier: MIT */
/* Configuration texts: each entry, written out with quotes, must come back as it was. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "cmd/cli/ini.h"
#include "fuzz.h"

static void put_quoted(struct buf *to, const char *text)
{
	buf_put_u8(to, '"');
	for (; *text; text++) {
		if (*text == '\n') {
			buf_put_text(to, "\\n");
			continue;
		}
		if (*text == '"' || *text == '\\')
			buf_put_u8(to, '\\');
		buf_put_u8(to, (uint8_t)*text);
	}
	buf_put_u8(to, '"');
}

static bool same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void check_round_trip(const struct ini_entry *entry)
{
	__attribute__((cleanup(ini_fini))) struct ini ini;
	AUTO_BUF struct buf text = {0};
	struct ini_entry again;

	buf_printf(&text, "[%s]%s", entry->section, entry->key);
	if (entry->value) {
		buf_put_u8(&text, '=');
		put_quoted(&text, entry->value);
	}
	ini_start(&ini, buf_span(&text));
	if (ini_next(&ini, &again, NULL) != 1 || !same(again.section, entry->section) || !same(again.key, entry->key) ||
	    !same(again.value, entry->value) || again.line != 1)
		abort();
	if (ini_next(&ini, &again, NULL))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	__attribute__((cleanup(ini_fini))) struct ini ini;
	struct ini_entry entry;
	struct diag diag = {""};
	unsigned line = 1;
	int got;

	ini_start(&ini, (struct span){data, size});
	while ((got = ini_next(&ini, &entry, &diag)) > 0) {
		if (entry.line < line)
			abort();
		line = entry.line;
		check_round_trip(&entry);
	}
	if (got ? !diag.text[0] || ini.line < line : diag.text[0])
		abort();
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	static const char *const seeds[] = {
		"[record]\n\taio = 4\n\tquiet\n; a comment\n[Report] sort = comm # by command\n",
		"[a \"B c\"]\r\nkey-1 = \"x # \" y\\t\\\n more \r\n",
		"[x.y]\nb = \\\\\\\"\\n\\b\n",
	};

	if (number >= sizeof(seeds) / sizeof(seeds[0]))
		return false;
	buf_put_text(out, seeds[number]);
	return true;
}
