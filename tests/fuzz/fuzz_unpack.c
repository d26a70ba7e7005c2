/* SPDX-License-Identifier: MIT */
/* Compressed records, ours and those of perf, and the index of extents. Whatever comes out is whole records. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "compress/extent.h"
#include "compress/extent_index.h"
#include "compress/zstd.h"
#include "fuzz.h"
#include "perfdata/record.h"
#include "read/source.h"

enum { RECORDS_MAX = 20000, HELD = 7 }; /* few bytes can hold very many records */

static void read_all(struct span bytes, bool ahead)
{
	struct source_range range = {.whole = bytes, .end = bytes.len};
	const void *held[HELD] = {NULL};
	struct source *under, *source;
	struct source_record record;
	struct diag why = {""};
	int got;

	if (source_open_range(&range, &under) || source_open_unpack(under, ahead, &source))
		return;
	for (unsigned nr = 0; nr < RECORDS_MAX && (got = source_next(source, &record, &why)) != 0; nr++) {
		const struct perf_event_header *header = record.view.header;
		if (got < 0 || got == SOURCE_GAP) {
			if (!why.text[0])
				abort();
			if (got < 0)
				break;
			continue;
		}
		if ((uintptr_t)header % 8 || header->size < sizeof(*header))
			abort();
		if (held[nr % HELD])
			source_release(source, held[nr % HELD]);
		held[nr % HELD] = header;
		source_hold(source, header);
		/* Sanitizers see to it that all of it can be read. */
		AUTO_FREE void *copy = malloc(header->size);
		if (copy)
			memcpy(copy, header, header->size);
	}
	for (unsigned i = 0; i < HELD; i++)
		if (held[i])
			source_release(source, held[i]);
	source_close(source);
}

static void read_index(struct span bytes)
{
	struct extent_reader reader;
	struct extent_fields fields;
	struct span counts;

	if (extent_reader_open(bytes, &reader))
		return;
	while (extent_reader_next(&reader, &fields, &counts) == 1)
		if (fields.first_ns > fields.last_ns ||
		    counts.len != (size_t)fields.nr_counts * sizeof(struct extent_count))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE void *aligned = malloc(size + 1);

	if (!aligned)
		return 0;
	memcpy(aligned, data, size);
	if (size % 64 == 1) /* threads take time: not for each */
		read_all((struct span){aligned, size}, true);
	read_all((struct span){aligned, size}, false);
	read_index((struct span){aligned, size});
	return 0;
}

static void put_records(unsigned nr, bool random, struct buf *out)
{
	unsigned seed = nr;

	for (unsigned i = 0; i < nr; i++) {
		struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = 64};
		buf_put(out, &header, sizeof(header));
		for (unsigned k = 0; k < 7; k++)
			buf_put_u64(out, random ? (uint64_t)rand_r(&seed) << 20 : i + k);
	}
}

static void put_extent(unsigned nr, bool random, struct buf *out)
{
	AUTO_BUF struct buf records = {0};
	struct extent_packer *packer;

	put_records(nr, random, &records);
	if (extent_packer_new(&packer))
		return;
	int64_t len = extent_pack(packer, &(struct extent_pack_params){.level = 1}, buf_span(&records), records.data,
				  records.len);
	if (len > 0)
		buf_put(out, records.data, (size_t)len);
	extent_packer_free(packer);
}

static void put_same_extent(size_t bytes, struct buf *out)
{
	AUTO_BUF struct buf records = {0};
	struct extent_packer *packer;
	struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = 32768};

	while (records.len < bytes) {
		buf_put(&records, &header, sizeof(header));
		buf_extend(&records, header.size - sizeof(header));
	}
	if (extent_packer_new(&packer))
		return;
	int64_t len = extent_pack(packer, &(struct extent_pack_params){.level = 1}, buf_span(&records), records.data,
				  records.len);
	if (len > 0)
		buf_put(out, records.data, (size_t)len);
	extent_packer_free(packer);
}

/* One frame of all records, as perf writes it: cut where a record is full, here after a few bytes. */
static void put_stream(unsigned nr, uint32_t type, struct buf *out)
{
	AUTO_BUF struct buf records = {0}, frame = {0};
	struct zstd_packer *packer;
	struct zstd_pack_params params = {.level = 1, .block_bytes = 100, .no_size = true};

	put_records(nr, false, &records);
	size_t room = zstd_bound(records.len) + records.len;
	if (zstd_packer_new(&packer))
		return;
	uint8_t *to = buf_extend(&frame, room);
	int64_t len = zstd_pack(packer, &params, buf_span(&records), to, room);
	zstd_packer_free(packer);
	for (int64_t at = 0; at < len; at += 50) {
		uint64_t part = len - at < 50 ? (uint64_t)(len - at) : 50;
		bool is_2 = type == RECORD_COMPRESSED2;
		struct perf_event_header header = {.type = type,
						   .size = (uint16_t)(8 + (is_2 ? 8 + (part + 7) / 8 * 8 : part))};
		buf_put(out, &header, sizeof(header));
		if (is_2)
			buf_put_u64(out, part);
		buf_put(out, to + at, part);
		if (is_2)
			buf_align(out, 8);
	}
}

static void put_index(struct buf *out)
{
	struct extent_count counts[2] = {{0, 5}, {1, 6}};
	struct extent_info info = {.fields = {.offset = 8, .packed_bytes = 100, .last_ns = 9, .nr_counts = 2},
				   .counts = counts};
	struct extent_list list = {.infos = &info, .nr = 1};

	extent_index_encode(&list, 1000, out);
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	switch (number) {
	case 0:
		put_records(2, false, out);
		put_extent(40, false, out);
		put_records(1, false, out);
		put_extent(30, false, out);
		return true;
	case 1:
		put_extent(4, false, out);
		put_extent(10, false, out);
		return true;
	case 2: put_stream(60, RECORD_COMPRESSED, out); return true;
	case 3: put_stream(60, RECORD_COMPRESSED2, out); return true;
	case 4: put_index(out); return true;
	case 5: /* more than small blocks of memory take, in few bytes */
		put_same_extent(1 << 20, out);
		put_extent(4, false, out);
		return true;
	}
	return false;
}
