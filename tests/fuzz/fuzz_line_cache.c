/* SPDX-License-Identifier: MIT */
/* Any bytes as a file of what was looked up before: texts and numbers of texts come back that are in it, or nothing. */
#include <stdlib.h>
#include <string.h>

#include "analyze/dwarf/line_cache.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "fuzz.h"
#include "perfdata/object_id.h"

enum { CHECKED_FROM = 16, HEADER_BYTES = 272 };

static void check_address(const struct line_cache *cache, uint64_t address)
{
	uint32_t numbers[LINE_CACHE_MOST_FRAMES], path;
	unsigned nr, line;

	for (unsigned frame = 0; frame <= LINE_CACHE_MOST_FRAMES; frame++)
		if (line_cache_find_line(cache, address, frame, &path, &line) && path != LINE_CACHE_NO_TEXT &&
		    path >= line_cache_nr_texts(cache))
			abort();
	if (!line_cache_find_names(cache, address, numbers, &nr))
		return;
	if (nr > LINE_CACHE_MOST_FRAMES)
		abort();
	for (unsigned i = 0; i < nr; i++)
		if (numbers[i] >= line_cache_nr_texts(cache))
			abort();
}

static void fix_checksum(uint8_t *bytes, size_t len)
{
	uint64_t hash = len - CHECKED_FROM, word;

	for (size_t i = CHECKED_FROM; i + sizeof(word) <= len; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		hash = stable_hash_mix(hash, word);
	}
	memcpy(bytes + sizeof(uint64_t), &hash, sizeof(hash));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct elf_id none = {.len = 0};
	AUTO_FREE uint8_t *copy = malloc(size ? size : 1);
	struct line_cache *cache = line_cache_new(0, &none);

	if (!copy || !cache)
		abort();
	if (size)
		memcpy(copy, data, size);
	if (size >= CHECKED_FROM)
		fix_checksum(copy, size);
	if (line_cache_take(cache, (struct span){copy, size})) {
		for (uint32_t i = 0; i < line_cache_nr_texts(cache); i++)
			if (strlen(line_cache_text(cache, i)) >= size)
				abort();
		for (uint64_t address = 0; address < 4; address++)
			check_address(cache, address << 12);
	}
	line_cache_free(cache);
	return 0;
}

/* Addresses of one to three frames, and as many texts: rows, offsets and texts as in line_cache.c. */
bool fuzz_seed(unsigned number, struct buf *out)
{
	const unsigned nr_frames = number + 1;

	if (number > 2)
		return false;
	buf_extend(out, HEADER_BYTES - 4 * sizeof(uint64_t));
	buf_put_u64(out, 3 * nr_frames);
	buf_put_u64(out, 2);
	buf_put_u64(out, 16);
	buf_put_u64(out, 1);
	for (unsigned i = 0; i < 3 * nr_frames; i++) {
		buf_put_u64(out, (uint64_t)(1 + i / nr_frames) << 12);
		buf_put_u32(out, 1);
		buf_put_u32(out, 2);
		buf_put_u32(out, i);
		buf_put_u8(out, (uint8_t)(i % nr_frames));
		buf_put_u8(out, i % nr_frames ? 0 : (uint8_t)nr_frames);
		buf_put_u8(out, 3);
		buf_put_u8(out, 0);
	}
	buf_put_u32(out, 0);
	buf_put_u32(out, 8);
	buf_put(out, "name\0\0\0", 8);
	buf_put(out, "path.c", 7);
	buf_put_u8(out, 0);
	return true;
}
