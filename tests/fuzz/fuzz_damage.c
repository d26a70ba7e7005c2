/* SPDX-License-Identifier: MIT */
/*
 * Records, extents and streams of which bytes were changed: damage is within the file and in order, is none where
 * nothing was changed, has no byte of an extent that was not, and when it was left out there is none. Input: a byte of
 * flags, then operations of a byte and what it takes.
 */
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "compress/extent.h"
#include "compress/extent_index.h"
#include "compress/zstd.h"
#include "fuzz.h"
#include "perfdata/attr.h"
#include "perfdata/record.h"
#include "record/output/damage.h"
#include "record/output/record_end.h"

enum { START = 24, MOST_EXTENTS = 8, MOST_BYTES = 1 << 18 };

/* CHANGE: of a byte that is there. From ODD_RECORD on the records are not as a recorder makes them. */
enum operation { SAMPLE, MARK, EXTENT, STREAM, CHANGE, ODD_RECORD, ZEROES, NR_OPERATIONS };

/* DESCRIBED: the event of the samples is known. */
enum flags { FINISHED = 1, MAY_BE_CUT = 2, INDEXED = 4, DESCRIBED = 8 };

static const struct event_desc event = {
	.attr = {.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN, .sample_id_all = 1}};

struct input {
	const uint8_t *bytes;
	size_t len;
};

struct file {
	struct buf bytes;
	struct extent_list extents;
	bool changed[MOST_EXTENTS];
	bool is_made; /* nothing was changed */
};

static uint8_t take_byte(struct input *input)
{
	if (!input->len)
		return 0;
	input->len--;
	return *input->bytes++;
}

static unsigned take_u16(struct input *input)
{
	const unsigned low = take_byte(input);

	return low | (unsigned)take_byte(input) << 8;
}

static void put_record(struct buf *out, uint32_t type, size_t len, uint8_t fill)
{
	const struct perf_event_header header = {.type = type, .size = (uint16_t)(sizeof(header) + len)};

	buf_put(out, &header, sizeof(header));
	for (size_t i = 0; i < len; i++)
		buf_put_u8(out, fill);
}

/* Of the event: a call chain behind two words. */
static void put_sample(struct buf *out, unsigned nr_addresses, uint8_t fill)
{
	enum { WORDS = 3 };
	const size_t at = out->len;
	const uint64_t nr = nr_addresses;

	put_record(out, PERF_RECORD_SAMPLE, (WORDS + nr_addresses) * sizeof(nr), fill);
	memcpy(out->data + at + sizeof(struct perf_event_header) + (WORDS - 1) * sizeof(nr), &nr, sizeof(nr));
}

static void put_extent(struct file *file, unsigned nr_samples)
{
	AUTO_BUF struct buf records = {0};
	static struct extent_packer *packer;

	if (file->extents.nr == MOST_EXTENTS || (!packer && extent_packer_new(&packer)))
		return;
	for (unsigned i = 0; i < nr_samples; i++)
		put_record(&records, PERF_RECORD_SAMPLE, 24 + i % 3 * 8, (uint8_t)(i * i));
	const struct extent_pack_params how = {.level = 1};
	int64_t len = extent_pack(packer, &how, buf_span(&records), buf_room(&file->bytes, records.len), records.len);
	if (len <= 0)
		return;
	struct extent_info info = {.fields = {.offset = file->bytes.len,
					      .packed_bytes = (uint64_t)len,
					      .bytes = records.len,
					      .nr_records = nr_samples}};
	file->bytes.len += (size_t)len;
	if (extent_list_add(&file->extents, &info))
		abort();
}

/* Of perf: a frame goes on in the next record, and does not say how long it is. */
static void put_stream(struct buf *out)
{
	static const uint8_t bytes[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, 0x41, 0, 0, 68, 0, 0, 0, 0, 0, 8, 0};
	const size_t half = sizeof(bytes) / 2;

	for (size_t at = 0; at < sizeof(bytes); at += half) {
		const size_t len = sizeof(bytes) - at < half ? sizeof(bytes) - at : half;
		put_record(out, RECORD_COMPRESSED, len, 0);
		memcpy(out->data + out->len - len, bytes + at, len);
	}
}

static void change(struct file *file, size_t at, uint8_t by)
{
	if (at < START || at >= file->bytes.len || !by)
		return;
	file->bytes.data[at] ^= by;
	file->is_made = false;
	for (size_t i = 0; i < file->extents.nr; i++) {
		const struct extent_fields *fields = &file->extents.infos[i].fields;
		file->changed[i] |= at - fields->offset < fields->packed_bytes;
	}
}

static void put_odd_record(struct input *input, struct file *file)
{
	struct perf_event_header header = {.type = take_byte(input), .misc = take_byte(input)};

	header.size = (uint16_t)take_u16(input);
	buf_put(&file->bytes, &header, sizeof(header));
	for (unsigned left = take_byte(input); left; left--)
		buf_put_u8(&file->bytes, take_byte(input));
	file->is_made = false;
}

static void carry_out(enum operation operation, struct input *input, struct file *file)
{
	size_t at;

	switch (operation) {
	case SAMPLE:
		at = take_byte(input); /* in this order by each compiler */
		put_sample(&file->bytes, (unsigned)at, take_byte(input));
		break;
	case MARK: put_record(&file->bytes, RECORD_FINISHED_ROUND, 0, 0); break;
	case EXTENT: put_extent(file, 1 + take_byte(input)); break;
	case STREAM: put_stream(&file->bytes); break;
	case CHANGE:
		at = take_u16(input);
		change(file, at % (file->bytes.len + 1), take_byte(input));
		break;
	case ODD_RECORD: put_odd_record(input, file); break;
	default:
		(void)!buf_extend(&file->bytes, take_byte(input));
		file->is_made = false;
		break;
	}
}

static void find(const struct buf *bytes, enum flags flags, const struct extent_list *extents, struct damage_list *ret)
{
	AUTO_FD int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd_write(fd, bytes->data, bytes->len))
		abort();
	const struct damage_range range = {.fd = fd,
					   .offset = START,
					   .bytes = bytes->len - START,
					   .finished = flags & FINISHED,
					   .may_be_cut = flags & MAY_BE_CUT,
					   .has_unknown = whole_records(fd, START, bytes->len - START) ==
							  (int64_t)(bytes->len - START),
					   .extents = extents,
					   .events = flags & DESCRIBED ? &event : NULL,
					   .nr_events = flags & DESCRIBED ? 1 : 0};
	uint64_t end = START;

	if (damage_find(&range, ret))
		abort();
	for (size_t i = 0; i < ret->nr; i++) {
		const struct damage *damage = &ret->items[i];
		if (damage->offset < end + (i > 0) || !damage->bytes || damage->bytes > bytes->len - damage->offset)
			abort();
		end = damage->offset + damage->bytes;
	}
}

/* An extent that is as it was made stays. */
static void check_extents(const struct file *file, const struct damage_list *found)
{
	for (size_t i = 0; i < file->extents.nr; i++) {
		const struct extent_fields *fields = &file->extents.infos[i].fields;
		for (size_t k = 0; k < found->nr && !file->changed[i]; k++)
			if (found->items[k].offset < fields->offset + fields->packed_bytes &&
			    found->items[k].offset + found->items[k].bytes > fields->offset)
				abort();
	}
}

static void leave_out(struct buf *bytes, const struct damage_list *found)
{
	for (size_t i = found->nr; i--;) {
		const size_t from = found->items[i].offset, to = from + found->items[i].bytes;
		memmove(bytes->data + from, bytes->data + to, bytes->len - to);
		bytes->len -= to - from;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	struct file file = {.is_made = true};
	struct damage_list found = {0}, rest = {0};
	const struct extent_list none = {0};
	const enum flags flags = take_byte(&input);

	memset(buf_extend(&file.bytes, START), 0xff, START);
	while (input.len && file.bytes.len < MOST_BYTES)
		carry_out(take_byte(&input) % NR_OPERATIONS, &input, &file);
	find(&file.bytes, flags, flags & INDEXED ? &file.extents : &none, &found);
	if (file.is_made && found.nr)
		abort();
	check_extents(&file, &found);
	leave_out(&file.bytes, &found);
	find(&file.bytes, flags, &none, &rest);
	if (rest.nr)
		abort();
	damage_list_fini(&found);
	damage_list_fini(&rest);
	extent_list_fini(&file.extents);
	buf_fini(&file.bytes);
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	static const uint8_t operations[] = {SAMPLE, 3,      1, EXTENT, 9,      SAMPLE, 1,      200,  EXTENT, 40, MARK,
					     STREAM, SAMPLE, 0, 0,      EXTENT, 20,     STREAM, MARK, EXTENT, 3};
	static const uint8_t changes[][4] = {{CHANGE, 30, 0, 9}, {CHANGE, 90, 0, 1}, {CHANGE, 200, 0, 4}};

	const unsigned flags = number / 3;
	if (number >= 4 * sizeof(changes) / sizeof(changes[0]))
		return false;
	buf_put_u8(out, FINISHED | (flags & 1 ? INDEXED : 0) | (flags & 2 ? DESCRIBED : 0));
	buf_put(out, operations, sizeof(operations));
	buf_put(out, changes[number % 3], sizeof(changes[0]));
	buf_put(out, (uint8_t[]){SAMPLE, 2, 5}, 3);
	return true;
}
