/* SPDX-License-Identifier: MIT */
/* Any bytes as the table of functions of a Go program: functions come back, or do not, with names that are in it. */
#include <stdlib.h>
#include <string.h>

#include "analyze/dwarf/go_table.h"
#include "base/buf.h"
#include "fuzz.h"

static void check(struct span bytes, bool is_big, unsigned word_bytes)
{
	struct go_table table;
	struct go_function function;

	if (!go_table_open(bytes, is_big, word_bytes, &table))
		return;
	if (table.names > table.names_end || table.names_end > bytes.len || table.nr_functions > bytes.len)
		abort();
	for (uint64_t i = 0; i < table.nr_functions; i++) {
		if (!go_table_function(&table, i, &function))
			continue;
		if (function.start >= function.end || function.name > table.names_end)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (unsigned i = 0; i < 4; i++)
		check((struct span){data, size}, i & 1, i & 2 ? 8 : 4);
	return 0;
}

static void put(struct buf *out, bool is_big, unsigned bytes, uint64_t value)
{
	for (unsigned i = 0; i < bytes; i++)
		buf_put_u8(out, (uint8_t)(value >> 8 * (is_big ? bytes - 1 - i : i)));
}

/* Two functions each, in all forms and both byte orders, with words of 4 and 8 bytes. */
bool fuzz_seed(unsigned number, struct buf *out)
{
	static const uint32_t magics[] = {0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1};
	const unsigned form = number % 4, word = number & 4 ? 8 : 4, bytes = form < 2 ? word : 4;
	const bool is_big = number & 8;
	const uint64_t header = 8 + (form == 0 ? 1 : form == 1 ? 7 : 8) * word, from = form ? header + 8 : 0;
	const uint64_t functions = (form ? 0 : header) + 5 * bytes;

	if (number > 15)
		return false;
	put(out, is_big, 4, magics[form]);
	put(out, is_big, 2, 0);
	put(out, is_big, 1, 1);
	put(out, is_big, 1, word);
	put(out, is_big, word, 2);
	for (unsigned i = 0; form && i < (form == 1 ? 1 : 2); i++)
		put(out, is_big, word, 0x1000);
	for (unsigned i = 0; form && i < 5; i++)
		put(out, is_big, word, i ? from : header);
	if (form)
		buf_put(out, "\0a\0bc\0\0", 8);
	for (unsigned i = 0; i < 2; i++) {
		put(out, is_big, bytes, 0x10 * i);
		put(out, is_big, bytes, functions + i * (bytes + 4));
	}
	put(out, is_big, bytes, 0x20);
	for (unsigned i = 0; i < 2; i++) {
		put(out, is_big, bytes, 0x10 * i);
		put(out, is_big, 4, 1 + 2 * i);
	}
	return true;
}
