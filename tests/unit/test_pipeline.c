/* SPDX-License-Identifier: MIT */
/* The stage that compresses in front of every writer, and the source that decompresses: what comes out went in. */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/diag.h"
#include "compress/extent.h"
#include "compress/extent_index.h"
#include "compress/extent_stats.h"
#include "compress/zstd.h"
#include "perfdata/attr.h"
#include "perfdata/record.h"
#include "read/source.h"
#include "stream/batch_job.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/producers.h"
#include "stream/stage.h"
#include "stream/writer.h"
#include "tests/fake/test_data.h"

enum { EXTENT_BYTES = 8192, MAX_RECORD = 512 };

static sem_t storing, refused;

/* What a pump does: chunks of whole records, some wrapped, and now and then a mark. Same seed, same bytes. */
struct load {
	unsigned seed;
	int nr_chunks, chunk_records;
	bool random; /* bytes that cannot be compressed */
};

/* Any bytes, the same for the same seed: none can be told from those before it. */
MAKES_TEST_DATA static void fill_random(unsigned *seed, uint8_t *to, size_t len)
{
	uint32_t state = *seed | 1;

	for (size_t i = 0; i < len; i += sizeof(state)) {
		state ^= state << 13;
		state ^= state >> 17;
		state ^= state << 5;
		for (size_t k = 0; k < sizeof(state) && i + k < len; k++)
			to[i + k] = (uint8_t)(state >> 8 * k);
	}
	*seed = state;
}

MAKES_TEST_DATA static void fill_steps(uint8_t *to, size_t from, size_t len)
{
	for (size_t i = from; i < len; i++)
		to[i] = (uint8_t)(i / 16);
}

static size_t make_record(unsigned *seed, bool random, uint8_t *to)
{
	size_t size = 16 + (size_t)rand_r(seed) % (MAX_RECORD / 8 - 2) * 8;
	struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = (uint16_t)size};

	memcpy(to, &header, sizeof(header));
	if (random)
		fill_random(seed, to + sizeof(header), size - sizeof(header));
	else
		fill_steps(to, sizeof(header), size);
	return size;
}

static void queue_all(struct writer *writer, const struct span spans[], unsigned nr)
{
	int err;

	while ((err = writer_queue(writer, spans, nr)) == -EAGAIN)
		assert_int_equal(writer_complete(writer, WRITER_ROOM), 0);
	assert_int_equal(err, 0);
}

/* A pipeline without compression, whose writer keeps all in memory. */
static void open_in_memory(struct batch_pool **ret_pool, struct writer **ret)
{
	const struct batch_pool_params params = {.nr_pipelines = 1, .no_index = true, .extent_bytes = EXTENT_BYTES};
	struct writer *inner;

	assert_int_equal(batch_pool_new(&params, ret_pool, NULL), 0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(*ret_pool, inner, ret), 0);
}

static void feed(const struct load *load, struct writer *writer)
{
	static const struct perf_event_header mark = {.type = RECORD_FINISHED_ROUND, .size = sizeof(mark)};
	unsigned seed = load->seed;
	uint8_t *chunk = malloc((size_t)load->chunk_records * MAX_RECORD);

	for (int i = 0; i < load->nr_chunks; i++) {
		size_t len = 0, split = 0;
		int nr = 1 + rand_r(&seed) % load->chunk_records;
		for (int k = 0; k < nr; k++) {
			split = k == nr / 2 ? len : split;
			len += make_record(&seed, load->random, chunk + len);
		}
		uint8_t *apart = malloc(len - split); /* as the ring's other end: a sanitizer sees what is before it */
		memcpy(apart, chunk + split, len - split);
		struct span spans[2] = {{chunk, split}, {apart, len - split}};
		queue_all(writer, split ? spans : spans + 1, split ? 2 : 1);
		free(apart);
		memset(chunk, 0xee, len); /* the kernel writes there again */
		if (rand_r(&seed) % 8 == 0)
			assert_int_equal(writer_put(writer, &mark, sizeof(mark)), 0);
		assert_int_equal(writer_complete(writer, WRITER_NOW), 0);
	}
	free(chunk);
	assert_int_equal(writer_complete(writer, WRITER_ALL), 0);
}

/* The records that a reader gets of the bytes, one behind the other. */
static void unpack(struct span bytes, bool ahead, struct buf *ret)
{
	struct source_range range = {.whole = bytes, .end = bytes.len};
	struct source *under, *source;
	struct source_record record;
	struct diag why = {0};
	int got;

	assert_int_equal(source_open_range(&range, &under), 0);
	assert_int_equal(source_open_unpack(under, ahead, &source), 0);
	while ((got = source_next(source, &record, &why)) == 1) {
		assert_int_equal((uintptr_t)record.view.header % 8, 0);
		buf_put(ret, record.view.header, record.view.header->size);
	}
	if (got)
		print_message("%s\n", why.text);
	assert_int_equal(got, 0);
	source_close(source);
}

static void feed_plain(const struct load *load, struct buf *ret)
{
	struct writer *mem;

	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &mem), 0);
	feed(load, mem);
	struct span bytes = writer_mem_bytes(mem);
	buf_put(ret, bytes.ptr, bytes.len);
	writer_close(mem, NULL);
}

/* false: the writer is not allowed here */
static bool feed_packed(const struct load *load, const struct writer_ops *ops, struct batch_pool *pool, struct buf *ret)
{
	int fd = memfd_create("out", MFD_CLOEXEC);
	struct writer_params params = {.fd = fd, .nr_blocks = 3, .block_bytes = EXTENT_BYTES, .window_bytes = 3 * 4096};
	struct writer *inner, *writer;
	struct writer_end end;

	if (writer_open(ops, &params, &inner)) {
		assert_true(ops->optional);
		close(fd);
		return false;
	}
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	feed(load, writer);
	uint64_t queued = writer->queued;
	assert_int_equal(writer_end(writer, &end), 0);
	extent_list_fini(&end.extents);
	assert_int_equal(end.stored + end.packed, queued);
	assert_int_equal(lseek(fd, 0, SEEK_END), end.stored);
	assert_int_equal(pread(fd, buf_extend(ret, end.stored), end.stored, 0), end.stored);
	close(fd);
	return true;
}

static void check(const struct load *load, const struct batch_pool_params *params)
{
	struct buf expected = {0};

	feed_plain(load, &expected);
	for (const struct writer_ops *const *ops = writers; *ops; ops++) {
		struct buf packed = {0}, found = {0};
		struct batch_pool *pool;
		if (*ops == &writer_null)
			continue;
		assert_int_equal(batch_pool_new(params, &pool, NULL), 0);
		if (feed_packed(load, *ops, pool, &packed)) {
			for (int ahead = 0; ahead < 2; ahead++) {
				found.len = 0;
				unpack(buf_span(&packed), ahead, &found);
				assert_int_equal(found.len, expected.len);
				assert_memory_equal(found.data, expected.data, expected.len);
			}
			batch_pool_stop(pool);
			assert_true(pool->totals.bytes_in > 0);
			assert_int_equal(pool->totals.nr_failed, 0);
			assert_in_range(pool->totals.pack_cpu_ns, 1, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
			assert_in_range(pool->totals.write_cpu_ns, 0, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
			if (!load->random)
				assert_true(packed.len < expected.len / 2);
		}
		batch_pool_free(pool);
		buf_fini(&packed);
		buf_fini(&found);
	}
	buf_fini(&expected);
}

static void test_every_writer_keeps_the_records(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed < 5; seed++) {
		struct batch_pool_params params = {
			.level = seed < 4 ? (int)seed : 19,
			.nr_pipelines = 1,
			.nr_workers = 1 + seed % 3,
			.extent_bytes = EXTENT_BYTES,
			.budget_bytes = EXTENT_BYTES * (seed - 1),
		};
		check(&(struct load){.seed = seed, .nr_chunks = 100, .chunk_records = 8}, &params);
		/* Chunks longer than an extent, and than all memory that there is. */
		check(&(struct load){.seed = seed, .nr_chunks = 20, .chunk_records = 300}, &params);
		check(&(struct load){.seed = seed, .nr_chunks = 50, .chunk_records = 40, .random = true}, &params);
	}
}

/* Extents of the usual size; hard to compress, so that blocks of zstd would be longer than a record. */
static void test_large_extents(void **state)
{
	(void)state;
	check(&(struct load){.seed = 9, .nr_chunks = 12, .chunk_records = 2000},
	      &(struct batch_pool_params){.level = 1, .nr_pipelines = 1});
	check(&(struct load){.seed = 9, .nr_chunks = 12, .chunk_records = 2000, .random = true},
	      &(struct batch_pool_params){.level = 3, .nr_pipelines = 1});
}

/*
 * From `start` to `end` most bytes are random: compressible, but by less than two; the others are all the same: few
 * bytes, which give no more than a reader of the format has room for. Every COMPRESSED record must hold a whole block.
 */
static void check_records_give_bytes(int level, size_t start, size_t end)
{
	struct extent_packer *packer;
	struct zstd_unpacker *unpacker;
	uint8_t *bytes = malloc(EXTENT_BYTES_MAX), *out = malloc(EXTENT_BYTES_MAX), *back = malloc(EXTENT_BYTES_MAX);
	unsigned seed = 3;
	size_t given = 0;

	memset(bytes, 7, EXTENT_BYTES_MAX);
	for (size_t at = start; at < end; at += 256)
		fill_random(&seed, bytes + at + 16, 256 - 16);
	assert_int_equal(extent_packer_new(&packer), 0);
	assert_int_equal(zstd_unpacker_new(&unpacker), 0);
	const struct extent_pack_params params = {.level = level};
	int64_t len = extent_pack(packer, &params, (struct span){bytes, EXTENT_BYTES_MAX}, out, EXTENT_BYTES_MAX);
	assert_true(len > 0 && len < EXTENT_BYTES_MAX);
	for (int64_t at = 0; at < len;) {
		struct perf_event_header header;
		memcpy(&header, out + at, sizeof(header));
		assert_int_equal(header.type, RECORD_COMPRESSED);
		struct span in = {out + at + sizeof(header), header.size - sizeof(header)};
		int64_t got = zstd_unpack(unpacker, &in, back + given, EXTENT_BYTES_MAX - given);
		assert_true(got > 0 && got <= EXTENT_RECORD_BYTES_MAX);
		assert_int_equal(in.len, 0);
		given += (size_t)got;
		at += header.size;
	}
	assert_int_equal(given, EXTENT_BYTES_MAX);
	assert_memory_equal(back, bytes, given);
	extent_packer_free(packer);
	zstd_unpacker_free(unpacker);
	free(bytes);
	free(out);
	free(back);
}

/*
 * Hard in a half, in places that are hard to find without compressing all, and everywhere, at levels that go about it
 * differently.
 */
static void test_each_record_gives_bytes(void **state)
{
	(void)state;
	check_records_give_bytes(1, 0, EXTENT_BYTES_MAX / 2);
	check_records_give_bytes(1, EXTENT_BYTES_MAX / 16, EXTENT_BYTES_MAX / 5);
	for (int level = 1; level <= 9; level += 2)
		check_records_give_bytes(level, 0, EXTENT_BYTES_MAX);
}

struct reading {
	struct buf records;
	unsigned nr_gaps;
	int result;
};

static void read_damaged(struct span bytes, bool ahead, struct reading *ret)
{
	struct source_range range = {.whole = bytes, .end = bytes.len};
	struct source *under, *source;
	struct source_record record;
	struct diag why = {0};
	int got;

	ret->records.len = ret->nr_gaps = 0;
	assert_int_equal(source_open_range(&range, &under), 0);
	assert_int_equal(source_open_unpack(under, ahead, &source), 0);
	while ((got = source_next(source, &record, &why)) > 0) {
		if (got == SOURCE_GAP) {
			assert_non_null(strstr(why.text, "offset"));
			ret->nr_gaps++;
		} else {
			buf_put(&ret->records, record.view.header, record.view.header->size);
		}
	}
	ret->result = got;
	source_close(source);
}

MAKES_TEST_DATA static size_t common_front(struct span a, struct span b)
{
	const uint8_t *left = a.ptr, *right = b.ptr;
	size_t at = 0;

	while (at < a.len && at < b.len && left[at] == right[at])
		at++;
	return at;
}

MAKES_TEST_DATA static size_t common_back(struct span a, struct span b)
{
	const uint8_t *left = a.ptr, *right = b.ptr;
	size_t at = 0;

	while (at < a.len && at < b.len && left[a.len - 1 - at] == right[b.len - 1 - at])
		at++;
	return at;
}

/* Front and back are those of the whole; what is missing between them is no more than an extent and a mark. */
static void assert_one_hole(const struct reading *reading, struct span whole)
{
	struct span found = buf_span(&reading->records);
	size_t front = common_front(found, whole), back = common_back(found, whole);

	assert_true(front + back >= found.len);
	assert_true(whole.len - found.len <= EXTENT_BYTES + 2 * 8);
}

/* What is under way ends when the level falls, and then has done nothing. */
static void test_what_takes_long_is_given_up(void **state)
{
	enum { BYTES = 1 << 20 };
	struct extent_packer *packer;
	uint8_t *bytes = calloc(1, BYTES), *out = malloc(BYTES);
	atomic_int level_now;

	(void)state;
	assert_int_equal(extent_packer_new(&packer), 0);
	for (int level = 1; level <= ZSTD_LEVEL_LAST; level += 7) {
		const struct extent_pack_params params = {.level = level, .level_now = &level_now};
		atomic_init(&level_now, level - 1);
		int64_t len = extent_pack(packer, &params, (struct span){bytes, BYTES}, bytes, BYTES);
		assert_int_equal(len, -ECANCELED);
		for (size_t i = 0; i < BYTES; i++)
			assert_int_equal(bytes[i], 0);
		atomic_init(&level_now, level);
		assert_true(extent_pack(packer, &params, (struct span){bytes, BYTES}, out, BYTES) > 0);
		memset(bytes, 0, BYTES);
	}
	extent_packer_free(packer);
	free(bytes);
	free(out);
}

/* A level that changes on the way, down to none: what is read is the same, and it counts as no failure. */
static void test_the_level_is_changed_on_the_way(void **state)
{
	struct load load = {.seed = 3, .nr_chunks = 60, .chunk_records = 12};
	const struct batch_pool_params params = {.level = 9, .nr_pipelines = 1, .extent_bytes = EXTENT_BYTES};
	struct buf expected = {0};

	(void)state;
	feed_plain(&load, &expected);
	for (int level = 0; level < 9; level += 4) {
		struct buf packed = {0}, found = {0};
		struct batch_pool *pool;
		assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
		batch_pool_set_level(pool, level);
		feed_packed(&load, &writer_serial, pool, &packed);
		struct batch_pool_stats stats = batch_pool_stats(pool);
		assert_int_equal(stats.nr_free, stats.nr_extents);
		assert_int_equal(stats.nr_to_pack + stats.nr_packing + stats.nr_blocked + stats.nr_unwritten, 0);
		batch_pool_stop(pool);
		assert_true(stats.nr_packed && stats.nr_packed == pool->totals.nr_extents);
		assert_int_equal(pool->totals.nr_lowered, pool->totals.nr_extents);
		assert_int_equal(pool->totals.nr_plain, level ? 0 : pool->totals.nr_extents);
		assert_int_equal(pool->totals.nr_failed, 0);
		unpack(buf_span(&packed), 0, &found);
		assert_int_equal(found.len, expected.len);
		assert_memory_equal(found.data, expected.data, expected.len);
		batch_pool_free(pool);
		buf_fini(&packed);
		buf_fini(&found);
	}
	buf_fini(&expected);
}

static void test_a_flipped_byte_costs_one_extent(void **state)
{
	struct load load = {.seed = 5, .nr_chunks = 60, .chunk_records = 12};
	struct buf expected = {0}, packed = {0};
	struct reading reading = {0};
	struct batch_pool *pool;

	(void)state;
	feed_plain(&load, &expected);
	assert_int_equal(
		batch_pool_new(&(struct batch_pool_params){.level = 1, .nr_pipelines = 1, .extent_bytes = EXTENT_BYTES},
			       &pool, NULL),
		0);
	feed_packed(&load, &writer_serial, pool, &packed);
	batch_pool_free(pool);
	for (size_t at = 0, next, step = 0; at < packed.len; at = next) {
		struct perf_event_header header;
		memcpy(&header, packed.data + at, sizeof(header));
		next = at + header.size;
		if (header.type != RECORD_COMPRESSED)
			continue;
		/* Types, then sizes, then bytes of the frame; bytes 4 and 5 (misc) mean nothing. */
		for (size_t byte = 0; byte < header.size; byte += byte < 24 ? 1 : 61) {
			if (byte == 4 || byte == 5 || (++step % 3 && byte > 32))
				continue;
			packed.data[at + byte] ^= (uint8_t)(1 << step % 8);
			read_damaged(buf_span(&packed), step % 2, &reading);
			packed.data[at + byte] ^= (uint8_t)(1 << step % 8);
			/* A few bits mean nothing. */
			assert_true(reading.nr_gaps > 0 || reading.result < 0 || reading.records.len == expected.len);
			assert_one_hole(&reading, buf_span(&expected));
		}
	}
	buf_fini(&reading.records);
	buf_fini(&expected);
	buf_fini(&packed);
}

static void test_a_cut_costs_one_extent(void **state)
{
	struct load load = {.seed = 6, .nr_chunks = 60, .chunk_records = 12};
	struct buf expected = {0}, packed = {0}, cut = {0};
	struct reading reading = {0};
	struct batch_pool *pool;

	(void)state;
	feed_plain(&load, &expected);
	assert_int_equal(
		batch_pool_new(&(struct batch_pool_params){.level = 1, .nr_pipelines = 1, .extent_bytes = EXTENT_BYTES},
			       &pool, NULL),
		0);
	feed_packed(&load, &writer_serial, pool, &packed);
	batch_pool_free(pool);
	for (size_t at = 1000; at + 40 < packed.len; at += 777) {
		cut.len = 0;
		buf_put(&cut, packed.data, at);
		buf_put(&cut, packed.data + at + 33, packed.len - at - 33);
		read_damaged(buf_span(&cut), at % 2, &reading);
		assert_true(reading.nr_gaps > 0 || reading.result < 0);
		struct span found = buf_span(&reading.records), whole = buf_span(&expected);
		assert_true(common_front(found, whole) + common_back(found, whole) >= found.len);
		assert_true(whole.len - found.len <= 2 * EXTENT_BYTES + 3 * 8); /* it may be where two meet */
	}
	buf_fini(&reading.records);
	buf_fini(&expected);
	buf_fini(&packed);
	buf_fini(&cut);
}

/* A disk that takes a part of what no longer fits, as disks do. */
static uint64_t disk_bytes;

static int failing_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	if (writer->queued + span_total(spans, nr_spans) > disk_bytes) {
		writer->stored = disk_bytes;
		return -ENOSPC;
	}
	writer->queued += span_total(spans, nr_spans);
	writer->stored = writer->queued;
	return 0;
}

static const struct writer_ops writer_failing = {
	.name = "failing",
	.state_bytes = sizeof(struct writer),
	.queue = failing_queue,
};

/* What fitted is whole extents, and their numbers are those of what is left. */
static void expect_extents_before_an_error(uint64_t offset)
{
	const struct batch_pool_params params = {.level = 1, .nr_pipelines = 1, .extent_bytes = EXTENT_BYTES};
	static uint8_t record[MAX_RECORD];
	struct writer *inner, *writer;
	struct batch_pool *pool;
	struct writer_end end;
	uint64_t bytes = 0, more = 0;
	unsigned seed = 1;
	int err = 0;

	disk_bytes = 30000;
	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	assert_int_equal(writer_open(&writer_failing, &(struct writer_params){.fd = -1, .offset = offset}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	for (unsigned i = 0; !err; i++) { /* its workers may be late: memory ends then, and is waited for */
		struct span span = {record, make_record(&seed, i % 2, record)};
		while ((err = writer_queue(writer, &span, 1)) == -EAGAIN &&
		       !(err = writer_complete(writer, WRITER_ROOM)))
			;
	}
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(writer_end(writer, &end), -ENOSPC);
	assert_in_range(end.extents.nr, 3, 30);
	for (size_t i = 0; i < end.extents.nr; i++) {
		assert_int_equal(end.extents.infos[i].fields.offset, offset + bytes);
		bytes += end.extents.infos[i].fields.packed_bytes;
		more += end.extents.infos[i].came_bytes - end.extents.infos[i].fields.packed_bytes;
	}
	assert_int_equal(end.stored, bytes);
	assert_in_range(bytes, disk_bytes - EXTENT_BYTES, disk_bytes);
	assert_int_equal(end.packed, more);
	extent_list_fini(&end.extents);
	batch_pool_free(pool);
}

static void test_extents_before_an_error_stay(void **state)
{
	(void)state;
	expect_extents_before_an_error(0);
	expect_extents_before_an_error(4096);
}

static void test_error_of_the_writer_sticks(void **state)
{
	struct writer *inner, *writer;
	struct writer_end end;
	struct batch_pool *pool;
	static uint8_t chunk[EXTENT_BYTES];
	const struct span span = {chunk, sizeof(chunk)};
	unsigned seed = 1;
	int err = 0;

	(void)state;
	disk_bytes = 3000;
	fill_random(&seed, chunk, sizeof(chunk));
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.level = 1,
								    .nr_pipelines = 1,
								    .extent_bytes = EXTENT_BYTES,
								    .budget_bytes = EXTENT_BYTES},
					&pool, NULL),
			 0);
	assert_int_equal(writer_open(&writer_failing, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	for (int i = 0; i < 100 && !err; i++) {
		while ((err = writer_queue(writer, &span, 1)) == -EAGAIN &&
		       !(err = writer_complete(writer, WRITER_ROOM)))
			;
	}
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(writer_put(writer, chunk, 8), -ENOSPC);
	assert_int_equal(writer_end(writer, &end), -ENOSPC);
	extent_list_fini(&end.extents);
	assert_int_equal(end.stored, 0); /* no part of an extent is left */
	batch_pool_free(pool);
}

/*
 * An extent that does not become full, in front of a writer with blocks that do not: it is stored by the second
 * commit.
 */
static void commit_twice(const struct writer_ops *ops, int level, bool at_once)
{
	struct writer_params params = {.nr_blocks = 8, .block_bytes = EXTENT_BYTES, .window_bytes = EXTENT_BYTES};
	FILE *file = tmpfile();
	uint8_t chunk[MAX_RECORD];
	unsigned seed = 5;
	struct span span = {chunk, make_record(&seed, false, chunk)};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	struct writer_end end;

	params.fd = fileno(file);
	assert_int_equal(
		batch_pool_new(
			&(struct batch_pool_params){.level = level, .nr_pipelines = 1, .extent_bytes = EXTENT_BYTES},
			&pool, NULL),
		0);
	if (writer_open(ops, &params, &inner))
		goto out; /* a file system without direct writes */
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	for (int round = 0; round < 10; round++) {
		uint64_t before = writer->stored;
		queue_all(writer, &span, 1);
		assert_int_equal(writer_commit(writer, false), 0);
		assert_int_equal(writer_complete(writer, WRITER_NOW), 0);
		assert_int_equal(writer->stored, before);
		assert_int_equal(writer_commit(writer, false), 0);
		for (int tries = 0; writer->stored == before && tries < 10000; tries++) {
			usleep(1000);
			if (!at_once) /* the writer has to tell that it is: the next commits ask */
				assert_int_equal(writer_commit(writer, false), 0);
			assert_int_equal(writer_complete(writer, WRITER_NOW), 0);
		}
		assert_true(writer->stored > before);
	}
	assert_int_equal(writer_end(writer, &end), 0);
	assert_int_equal(end.extents.nr, 10);
	extent_list_fini(&end.extents);
out:
	batch_pool_free(pool);
	fclose(file);
}

static void test_what_is_old_is_committed(void **state)
{
	(void)state;
	for (const struct writer_ops *const *ops = writers; *ops; ops++)
		for (int level = 0; level <= 1 && *ops != &writer_null; level++)
			commit_twice(*ops, level, false);
	commit_twice(&writer_auto, 1, true);
}

struct counting {
	struct writer writer;
	_Atomic unsigned nr_commits;
};

static int take_bytes(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	writer->queued += span_total(spans, nr_spans);
	writer->stored = writer->queued;
	return 0;
}

static int count_commit(struct writer *writer, bool all)
{
	(void)all;
	((struct counting *)writer)->nr_commits++;
	return 0;
}

static size_t longest_given;

static int note_longest(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	size_t bytes = span_total(spans, nr_spans);

	longest_given = bytes > longest_given ? bytes : longest_given;
	return take_bytes(writer, spans, nr_spans);
}

/* One that copies into blocks is given what fits into them; any other one a batch in one call. */
static void test_how_much_a_writer_is_given(void **state)
{
	static const struct writer_ops ops[] = {
		{.name = "whole", .state_bytes = sizeof(struct writer), .queue = note_longest},
		{.name = "blocks", .state_bytes = sizeof(struct writer), .queue = note_longest, .stages = true}};
	enum { BATCH_BYTES = 2 * PIPELINE_WRITE_BYTES + 4096 };
	struct buf records = {0};
	unsigned seed = 1;

	(void)state;
	for (uint8_t record[MAX_RECORD]; records.len + MAX_RECORD <= BATCH_BYTES;)
		buf_put(&records, record, make_record(&seed, false, record));
	for (size_t i = 0; i < 2; i++) {
		struct writer *inner, *writer;
		struct batch_pool *pool;
		longest_given = 0;
		assert_int_equal(batch_pool_new(&(struct batch_pool_params){.nr_pipelines = 1,
									    .no_index = true,
									    .extent_bytes = BATCH_BYTES},
						&pool, NULL),
				 0);
		assert_int_equal(writer_open(&ops[i], &(struct writer_params){.fd = -1}, &inner), 0);
		assert_int_equal(pipeline_open(pool, inner, &writer), 0);
		queue_all(writer, &(struct span){records.data, records.len}, 1);
		assert_int_equal(writer_close(writer, NULL), 0);
		assert_int_equal(longest_given, ops[i].stages ? PIPELINE_WRITE_BYTES : records.len);
		batch_pool_free(pool);
	}
	buf_fini(&records);
}

/* Without new records a commit asks for nothing: an idle recording wakes no thread. */
static void test_nothing_new_is_not_committed(void **state)
{
	static const struct writer_ops ops = {.name = "counting",
					      .state_bytes = sizeof(struct counting),
					      .queue = take_bytes,
					      .commit = count_commit};
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	const struct span span = {record, make_record(&seed, false, record)};
	struct writer *inner, *writer;
	struct batch_pool *pool;

	(void)state;
	assert_int_equal(
		batch_pool_new(
			&(struct batch_pool_params){.nr_pipelines = 1, .no_index = true, .extent_bytes = EXTENT_BYTES},
			&pool, NULL),
		0);
	assert_int_equal(writer_open(&ops, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	for (unsigned round = 1; round <= 3; round++) {
		queue_all(writer, &span, 1);
		for (unsigned i = 0; i < 5; i++) {
			assert_int_equal(writer_commit(writer, false), 0);
			assert_int_equal(writer_complete(writer, WRITER_ALL), 0);
		}
		assert_int_equal(((struct counting *)inner)->nr_commits, round);
	}
	assert_int_equal(writer_close(writer, NULL), 0);
	batch_pool_free(pool);
}

/* Records are retained, then written into a file behind a first record: sets *ret to those in the file. */
static void hold_and_flush(const struct load *load, size_t limit_bytes, bool all_fits, struct buf *ret)
{
	static const struct perf_event_header front = {.type = RECORD_FINISHED_INIT, .size = sizeof(front)};
	const struct retained_limits limits = {.duration_ns = UINT64_MAX / 2, .bytes = limit_bytes};
	int fd = memfd_create("out", MFD_CLOEXEC);
	struct buf packed = {0};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	struct writer_end end;

	assert_int_equal(
		batch_pool_new(&(struct batch_pool_params){.level = 1, .nr_pipelines = 1, .extent_bytes = EXTENT_BYTES},
			       &pool, NULL),
		0);
	assert_int_equal(pipeline_open_retained(pool, &limits, &writer), 0);
	feed(load, writer);
	pipeline_request_snapshot(writer);
	pipeline_end_input(writer);
	assert_int_equal(writer_open(&writer_serial, &(struct writer_params){.fd = fd}, &inner), 0);
	pipeline_attach(writer, inner);
	assert_int_equal(writer_put(writer, &front, sizeof(front)), 0);
	assert_int_equal(writer_complete(writer, WRITER_ALL), 0);
	const struct retained_range held = pipeline_retained(writer);
	assert_true(held.first_ns <= held.whole_ns && held.whole_ns <= held.last_ns);
	assert_int_equal(!*pipeline_dropped(writer), all_fits);
	assert_int_equal(pipeline_write_retained(writer), 0);
	uint64_t queued = writer->queued;
	assert_int_equal(writer_end(writer, &end), 0);
	assert_int_equal(end.stored + end.packed, queued);
	assert_int_equal(lseek(fd, 0, SEEK_END), end.stored);
	assert_true(end.stored <= limit_bytes + sizeof(front));
	assert_true(end.extents.nr > 0 && end.extents.infos[0].fields.offset >= sizeof(front));
	extent_list_fini(&end.extents);
	assert_int_equal(pread(fd, buf_extend(&packed, end.stored), end.stored, 0), end.stored);
	unpack(buf_span(&packed), false, ret);
	buf_fini(&packed);
	batch_pool_free(pool);
	close(fd);
}

/* What comes out is the end of what went in: all of it where there is room. */
static void test_the_last_is_held(void **state)
{
	enum { FRONT = sizeof(struct perf_event_header) };
	const struct load load = {.seed = 3, .nr_chunks = 200, .chunk_records = 8, .random = true};
	struct buf expected = {0};

	(void)state;
	feed_plain(&load, &expected);
	for (size_t limit = 8 * EXTENT_BYTES; limit < 64 * EXTENT_BYTES * 64; limit *= 8) {
		struct buf found = {0};
		hold_and_flush(&load, limit, limit > 2 * expected.len, &found);
		size_t held = found.len - FRONT;
		assert_true(held <= expected.len && held > 0);
		assert_true(limit > 2 * expected.len ? held == expected.len : held < limit);
		assert_memory_equal(found.data + FRONT, expected.data + expected.len - held, held);
		buf_fini(&found);
	}
	buf_fini(&expected);
}

/* From the request on nothing is dropped for its age. */
static void test_a_requested_snapshot_does_not_age(void **state)
{
	const struct retained_limits limits = {.duration_ns = 50000000, .bytes = SIZE_MAX};
	const struct load load = {.seed = 4, .nr_chunks = 20, .chunk_records = 8};
	struct writer *writer;
	struct batch_pool *pool;
	struct writer_end end;

	(void)state;
	assert_int_equal(
		batch_pool_new(&(struct batch_pool_params){.level = 1, .nr_pipelines = 1, .extent_bytes = EXTENT_BYTES},
			       &pool, NULL),
		0);
	assert_int_equal(pipeline_open_retained(pool, &limits, &writer), 0);
	feed(&load, writer);
	pipeline_request_snapshot(writer);
	const uint64_t dropped_bytes = *pipeline_dropped(writer);
	usleep(60000);
	pipeline_request_snapshot(writer); /* once more: the first one counts */
	feed(&load, writer);
	assert_int_equal(*pipeline_dropped(writer), dropped_bytes);
	assert_int_equal(writer_end(writer, &end), 0);
	extent_list_fini(&end.extents);
	batch_pool_free(pool);
}

/* Extents of two producers, unequally many: of each it is told where what is kept of it begins. */
static void test_what_was_dropped_of_each_producer(void **state)
{
	enum { NR = 2, RECORDS = 100, EXTENTS = 12, FROM_SECOND = 9 };
	static const struct perf_event_header mark = {.type = RECORD_FINISHED_ROUND, .size = sizeof(mark)};
	struct counted_record {
		struct perf_event_header header;
		uint64_t producer, position;
	} records[RECORDS];
	static const struct retained_limits limits = {.duration_ns = UINT64_MAX / 2, .bytes = 5 * sizeof(records)};
	uint64_t positions[NR] = {0}, first_kept[NR] = {UINT64_MAX, UINT64_MAX};
	struct writer *inner, *writers_of[NR];
	int fd = memfd_create("out", MFD_CLOEXEC);
	struct batch_pool *pool;
	struct counted_record found;

	(void)state;
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.nr_pipelines = NR, .extent_bytes = EXTENT_BYTES},
					&pool, NULL),
			 0);
	assert_int_equal(pipeline_open_retained(pool, &limits, &writers_of[0]), 0);
	pipeline_share(writers_of[0], &(struct producers_params){.nr = NR});
	assert_int_equal(producer_open(writers_of[0], &writers_of[1]), 0);
	for (size_t i = 0; i < EXTENTS; i++) {
		size_t producer = i > 0 && i <= FROM_SECOND;
		for (size_t k = 0; k < RECORDS; k++, positions[producer] += sizeof(records[0]))
			records[k] = (struct counted_record){
				.header = {.type = PERF_RECORD_SAMPLE, .size = sizeof(records[0])},
				.producer = producer,
				.position = positions[producer]};
		queue_all(writers_of[producer], &(struct span){records, sizeof(records)}, 1);
		assert_int_equal(writer_put(writers_of[producer], &mark, sizeof(mark)), 0);
	}
	assert_int_equal(writer_close(writers_of[1], NULL), 0);
	pipeline_end_input(writers_of[0]);
	assert_int_equal(writer_open(&writer_serial, &(struct writer_params){.fd = fd}, &inner), 0);
	pipeline_attach(writers_of[0], inner);
	assert_int_equal(pipeline_write_retained(writers_of[0]), 0);
	for (off_t at = 0; pread(fd, &found, sizeof(found), at) >= (ssize_t)sizeof(found.header);
	     at += found.header.size)
		if (found.header.type == PERF_RECORD_SAMPLE && found.position < first_kept[found.producer])
			first_kept[found.producer] = found.position;
	for (size_t i = 0; i < NR; i++) {
		assert_true(first_kept[i] > 0 && first_kept[i] < positions[i]);
		assert_int_equal(pipeline_dropped(writers_of[0])[i], first_kept[i]);
	}
	assert_int_equal(writer_close(writers_of[0], NULL), 0);
	batch_pool_free(pool);
	close(fd);
}

/* No snapshot was requested: closed without an output. */
static void test_what_is_held_can_be_forgotten(void **state)
{
	const struct retained_limits limits = {.duration_ns = UINT64_MAX / 2, .bytes = SIZE_MAX};
	struct writer *writer;
	struct batch_pool *pool;
	struct writer_end end;

	(void)state;
	assert_int_equal(
		batch_pool_new(&(struct batch_pool_params){.level = 1, .nr_pipelines = 1, .extent_bytes = EXTENT_BYTES},
			       &pool, NULL),
		0);
	assert_int_equal(pipeline_open_retained(pool, &limits, &writer), 0);
	feed(&(struct load){.seed = 5, .nr_chunks = 20, .chunk_records = 8}, writer);
	assert_int_equal(writer_end(writer, &end), 0);
	assert_int_equal(end.stored, 0);
	extent_list_fini(&end.extents);
	batch_pool_free(pool);
}

enum { STREAM_RECORD = 508 };

/* Records as one frame that does not say its size, behind its hash, in COMPRESSED records of a few bytes each. */
static void put_stream(struct span records, struct buf *out)
{
	const struct zstd_pack_params params = {.level = 1, .no_size = true};
	size_t room = zstd_bound(records.len);
	uint8_t *frame = malloc(ZSTD_HASH_BYTES + room);
	struct zstd_packer *packer;

	assert_int_equal(zstd_packer_new(&packer), 0);
	int64_t len = zstd_pack(packer, &params, records, frame + ZSTD_HASH_BYTES, room);
	assert_true(len > 0);
	zstd_put_hash((struct span){frame + ZSTD_HASH_BYTES, (size_t)len}, frame);
	len += ZSTD_HASH_BYTES;
	for (int64_t at = 0, part; at < len; at += part) {
		part = STREAM_RECORD - (int64_t)sizeof(struct perf_event_header);
		part = len - at < part ? len - at : part;
		struct perf_event_header header = {.type = RECORD_COMPRESSED,
						   .size = (uint16_t)(sizeof(header) + (size_t)part)};
		buf_put(out, &header, sizeof(header));
		buf_put(out, frame + at, (size_t)part);
	}
	zstd_packer_free(packer);
	free(frame);
}

/* The first stream is lost from the damage on, reported once; the second one is not touched. */
static void test_damage_in_a_stream_ends_where_another_begins(void **state)
{
	static const struct perf_event_header mark = {.type = RECORD_FINISHED_ROUND, .size = sizeof(mark)};
	struct buf plain = {0}, packed = {0};
	struct reading reading = {0};

	(void)state;
	feed_plain(&(struct load){.seed = 7, .nr_chunks = 40, .chunk_records = 20, .random = true}, &plain);
	put_stream(buf_span(&plain), &packed);
	size_t first = packed.len;
	buf_put(&packed, &mark, sizeof(mark));
	put_stream(buf_span(&plain), &packed);
	read_damaged(buf_span(&packed), true, &reading);
	assert_int_equal(reading.nr_gaps, 0);
	assert_int_equal(reading.records.len, 2 * plain.len + sizeof(mark));
	unsigned nr_found = 0;
	for (size_t at = first / 3; at < first / 3 + 4000; at += 97) {
		if (at % STREAM_RECORD < sizeof(struct perf_event_header))
			continue; /* what a header that is damaged leads to is another matter */
		packed.data[at] ^= 0x55;
		read_damaged(buf_span(&packed), at % 2, &reading);
		packed.data[at] ^= 0x55;
		assert_int_equal(reading.result, 0);
		assert_true(reading.nr_gaps <= 1);
		nr_found += reading.nr_gaps;
		assert_true(reading.records.len >= plain.len + sizeof(mark));
		assert_memory_equal(reading.records.data + reading.records.len - plain.len, plain.data, plain.len);
	}
	assert_true(nr_found > 0);
	buf_fini(&reading.records);
	buf_fini(&plain);
	buf_fini(&packed);
}

struct reported {
	struct memory_pressure pressure;
	int nr_high, nr_low;
};

static void note_pressure(struct memory_pressure *pressure, bool high)
{
	struct reported *reported = (struct reported *)pressure;

	assert_int_equal(reported->nr_high - reported->nr_low, high ? 0 : 1); /* in turn */
	*(high ? &reported->nr_high : &reported->nr_low) += 1;
}

static void put(struct batch_pool *pool, struct batch_job *job)
{
	pthread_mutex_lock(&pool->lock);
	batch_pool_put(pool, job);
	pthread_mutex_unlock(&pool->lock);
}

/*
 * At a quarter, and not again before half has become free: what is reported takes time and must not be reported all the
 * time.
 */
static void test_pressure_is_reported(void **state)
{
	struct reported reported = {.pressure.set = note_pressure};
	struct batch_pool_params params = {.nr_pipelines = 1,
					   .extent_bytes = EXTENT_BYTES,
					   .budget_bytes = 14 * EXTENT_BYTES,
					   .pressure = &reported.pressure};
	struct batch_job *jobs[16];
	struct batch_pool *pool;
	size_t nr = 0;

	(void)state;
	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	assert_int_equal(pool->nr_jobs, 16);
	for (int turn = 1; turn < 4; turn++) {
		while (pool->nr_free > 5)
			jobs[nr++] = batch_pool_take(pool, NULL);
		assert_int_equal(reported.nr_high, turn - 1);
		jobs[nr++] = batch_pool_take(pool, NULL);
		jobs[nr++] = batch_pool_take(pool, NULL);
		assert_int_equal(reported.nr_high, turn);
		pool->flush_requested = true; /* the stages were asked to pass batches on, once while memory is short */
		put(pool, jobs[--nr]);
		assert_true(pool->flush_requested);
		while (pool->nr_free < 5)
			put(pool, jobs[--nr]);
		assert_false(pool->flush_requested);
		while (pool->nr_free < 7)
			put(pool, jobs[--nr]);
		assert_int_equal(reported.nr_low, turn - 1);
		put(pool, jobs[--nr]);
		assert_int_equal(reported.nr_low, turn);
	}
	while (pool->nr_free)
		jobs[nr++] = batch_pool_take(pool, NULL);
	batch_pool_disable_pressure(pool); /* no thread is left waiting */
	batch_pool_disable_pressure(pool);
	assert_int_equal(reported.nr_high, 4);
	assert_int_equal(reported.nr_low, 4);
	while (nr)
		put(pool, jobs[--nr]);
	assert_int_equal(reported.nr_low, 4);
	batch_pool_free(pool);
}

/* Leaves out each third record, and makes a copy of what it gives on. */
struct thinner {
	struct stage stage;
	unsigned nr;
	struct buf given;
	uint64_t at; /* offset that is expected */
	bool has_offset, busy;
};

static int thin_out(struct stage *stage, struct batch *batch)
{
	struct thinner *thinner = (struct thinner *)stage;
	size_t kept = 0;

	assert_false(thinner->busy);
	thinner->busy = true;
	assert_true(thinner->has_offset ? batch->offset == thinner->at : batch->offset == STAGE_NO_OFFSET);
	for (size_t at = 0; at < batch->len;) {
		struct perf_event_header header;
		memcpy(&header, batch->records + at, sizeof(header));
		assert_true(header.size >= sizeof(header) && header.size <= batch->len - at);
		if (++thinner->nr % 3) {
			memmove(batch->records + kept, batch->records + at, header.size);
			kept += header.size;
		}
		at += header.size;
	}
	batch->len = kept;
	buf_put(&thinner->given, batch->records, batch->len);
	buf_put(&thinner->given, batch->tail, batch->tail_len);
	thinner->at += batch->len + batch->tail_len;
	thinner->busy = false;
	return stage_pass(stage, batch);
}

static int refuse(struct stage *stage, struct batch *batch)
{
	stage_batch_free(stage, batch);
	return -EBADMSG;
}

/* What a stage gives on is what is written, in that order, and one batch is looked at at a time. */
static void thin_and_check(const struct batch_pool_params *params, const struct writer_ops *ops)
{
	static const struct stage_ops thinning = {.name = "thinner", .process = thin_out};
	const struct load load = {.seed = 4, .nr_chunks = 200, .chunk_records = 8};
	struct thinner thinner = {.stage.ops = &thinning, .has_offset = params->no_index};
	struct writer_params writer_params = {
		.nr_blocks = 4, .block_bytes = EXTENT_BYTES, .window_bytes = EXTENT_BYTES};
	struct buf found = {0}, stored = {0};
	FILE *file = tmpfile();
	struct writer *inner, *writer;
	struct writer_end end;
	struct batch_pool *pool;

	writer_params.fd = fileno(file);
	assert_int_equal(batch_pool_new(params, &pool, NULL), 0);
	if (writer_open(ops, &writer_params, &inner))
		goto out;
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &thinner.stage);
	feed(&load, writer);
	assert_int_equal(writer_end(writer, &end), 0);
	extent_list_fini(&end.extents);
	assert_int_equal(pread(fileno(file), buf_extend(&stored, end.stored), end.stored, 0), end.stored);
	unpack(buf_span(&stored), false, &found);
	assert_true(thinner.nr > 500);
	assert_int_equal(found.len, thinner.given.len);
	assert_memory_equal(found.data, thinner.given.data, found.len);
out:
	batch_pool_free(pool);
	buf_fini(&thinner.given);
	buf_fini(&found);
	buf_fini(&stored);
	fclose(file);
}

static void test_stages_change_what_is_written(void **state)
{
	(void)state;
	for (const struct writer_ops *const *ops = writers; *ops; ops++)
		for (int level = 0; level <= 1 && *ops != &writer_null; level++)
			for (size_t nr_workers = 1; nr_workers <= 3; nr_workers += 2)
				thin_and_check(&(struct batch_pool_params){.level = level,
									   .no_index = !level,
									   .nr_pipelines = 2,
									   .nr_workers = nr_workers,
									   .extent_bytes = EXTENT_BYTES,
									   .budget_bytes = 4 * EXTENT_BYTES},
					       *ops);
}

static size_t look_at_all(struct stage *stage, const struct span spans[], unsigned nr, const struct stage_look *how)
{
	(void)stage, (void)how;
	return span_total(spans, nr);
}

/* As a pump in time does it. */
static void take_in_time(struct writer *writer, struct span records)
{
	while (records.len) {
		writer->has_time = writer->has_time_to_compress = true;
		int64_t bytes = writer_take(writer, &records, 1);
		if (bytes == -EAGAIN)
			bytes = writer_complete(writer, WRITER_ROOM);
		assert_true(bytes >= 0);
		records = (struct span){(const uint8_t *)records.ptr + bytes, records.len - (size_t)bytes};
	}
}

/* That is of the thread that drains: what the pool counts is the time of its workers, and not more than that. */
static void test_the_time_of_compressing_in_a_ring(void **state)
{
	enum { NR = 400, CHUNK = 64 << 10, EXTENT = 1 << 20 };
	static const struct stage_ops looking = {.name = "looking", .look = look_at_all, .process = stage_pass};
	const struct event_desc event = {.attr.sample_type = PERF_SAMPLE_IP};
	const struct batch_pool_params params = {.level = 1,
						 .nr_workers = 1,
						 .nr_pipelines = 1,
						 .extent_bytes = EXTENT,
						 .budget_bytes = 8 * EXTENT,
						 .events = &event,
						 .nr_events = 1};
	struct stage stage = {.ops = &looking};
	uint8_t *records = malloc(CHUNK);
	struct batch_pool *pool;
	struct writer *inner, *writer;
	unsigned seed = 5;
	size_t len = 0;

	(void)state;
	if (!zstd_available())
		skip();
	while (len + MAX_RECORD <= CHUNK)
		len += make_record(&seed, false, records + len);
	const uint64_t before_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID);
	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &stage);
	for (unsigned i = 0; i < NR; i++)
		take_in_time(writer, (struct span){records, len});
	writer_close(writer, NULL);
	batch_pool_stop(pool);
	const uint64_t workers_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
	assert_in_range(pool->totals.nr_built, 1, pool->totals.nr_extents);
	assert_in_range(pool->totals.pack_cpu_ns + pool->totals.write_cpu_ns, 1, workers_ns);
	batch_pool_free(pool);
	free(records);
}

/* Keeps all batches until it is asked for them, some of them as a copy. */
struct keeping {
	struct stage stage;
	struct batch *first, **last;
	unsigned nr, nr_kept, most_kept, nr_copied, flushes;
};

static int keep(struct stage *stage, struct batch *batch)
{
	struct keeping *keeping = (struct keeping *)stage;
	struct batch *copy = keeping->nr++ % 4 == 3 ? stage_batch_new(stage) : NULL;

	assert_null(batch->next);
	if (copy) {
		assert_true(copy->room >= batch->len && !copy->len && !copy->tail_len);
		memcpy(copy->records, batch->records, batch->len);
		memcpy(copy->tail, batch->tail, batch->tail_len);
		copy->len = batch->len;
		copy->tail_len = batch->tail_len;
		stage_batch_free(stage, batch);
		batch = copy;
		keeping->nr_copied++;
	}
	*keeping->last = batch;
	keeping->last = &batch->next;
	if (++keeping->nr_kept > keeping->most_kept)
		keeping->most_kept = keeping->nr_kept;
	return 0;
}

static int give_out(struct stage *stage, enum stage_flush why)
{
	struct keeping *keeping = (struct keeping *)stage;
	int err = 0;

	keeping->flushes |= 1U << why;
	if (why == STAGE_COMMIT) {
		stage_count_dropped(stage, "one reason", 2);
		stage_count_dropped(stage, "another", 1);
		stage_count_dropped(stage, "one reason", 3);
	}
	if (why == STAGE_ROUND)
		assert_int_equal(stage->complete_ns, 7);
	for (struct batch *batch = keeping->first, *next; batch; batch = next) {
		next = batch->next;
		int pass_err = stage_pass(stage, batch);
		err = err ? err : pass_err;
	}
	keeping->first = NULL;
	keeping->last = &keeping->first;
	keeping->nr_kept = 0;
	return err;
}

/* Stages that keep batches have ended when what stands behind the retained records is put. */
static void test_little_is_put_behind_what_is_held(void **state)
{
	static const struct stage_ops ops = {.name = "keeping", .process = keep, .flush = give_out};
	static const struct perf_event_header mark = {.type = RECORD_FINISHED_ROUND, .size = sizeof(mark)};
	const struct retained_limits limits = {.duration_ns = UINT64_MAX / 2, .bytes = SIZE_MAX};
	struct keeping keeping = {.stage.ops = &ops, .last = &keeping.first};
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	const struct span span = {record, make_record(&seed, false, record)};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	uint64_t stored;

	(void)state;
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.nr_pipelines = 1, .extent_bytes = EXTENT_BYTES},
					&pool, NULL),
			 0);
	assert_int_equal(pipeline_open_retained(pool, &limits, &writer), 0);
	pipeline_add_stage(writer, &keeping.stage);
	queue_all(writer, &span, 1);
	pipeline_end_input(writer);
	assert_int_equal(keeping.flushes, 1U << STAGE_END);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
	pipeline_attach(writer, inner);
	assert_int_equal(pipeline_write_retained(writer), 0);
	assert_int_equal(writer_put(writer, &mark, sizeof(mark)), 0);
	assert_int_equal(writer_close(writer, &stored), 0);
	assert_int_equal(stored, span.len + sizeof(mark));
	assert_int_equal(keeping.flushes, 1U << STAGE_END);
	batch_pool_free(pool);
}

struct committed {
	struct writer writer;
	_Atomic uint64_t bytes, nr;
};

static int note_committed(struct writer *writer, bool all)
{
	struct committed *committed = (struct committed *)writer;

	(void)all;
	committed->bytes = writer->queued;
	committed->nr++;
	return 0;
}

/* What a stage passes on at a commit is committed by that, not by the next one. */
static void test_a_commit_is_about_what_stages_kept(void **state)
{
	static const struct stage_ops ops = {.name = "keeping", .process = keep, .flush = give_out};
	static const struct writer_ops committing = {.name = "committing",
						     .state_bytes = sizeof(struct committed),
						     .queue = take_bytes,
						     .commit = note_committed};
	enum { CHUNK_BYTES = 8000, NR = 200 };
	uint8_t chunk[CHUNK_BYTES + MAX_RECORD];
	unsigned seed = 3;
	size_t len = 0;

	(void)state;
	while (len < CHUNK_BYTES)
		len += make_record(&seed, true, chunk + len);
	for (int level = 0; level <= 1; level++) {
		struct keeping keeping = {.stage.ops = &ops, .last = &keeping.first};
		const struct batch_pool_params params = {
			.level = level, .nr_pipelines = 1, .no_index = !level, .extent_bytes = 2 * EXTENT_BYTES};
		struct batch_pool *pool;
		struct writer *inner, *writer;
		struct writer_end end;
		assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
		assert_int_equal(writer_open(&committing, &(struct writer_params){.fd = -1}, &inner), 0);
		assert_int_equal(pipeline_open(pool, inner, &writer), 0);
		pipeline_add_stage(writer, &keeping.stage);
		writer->complete_ns = 7;
		struct committed *committed = (struct committed *)inner;
		for (uint64_t i = 1; i <= NR; i++) {
			queue_all(writer, &(struct span){chunk, len}, 1);
			assert_int_equal(writer_commit(writer, true), 0);
			while (committed->nr < i)
				sched_yield();
			assert_true(committed->bytes >= i * len); /* random bytes do not become less */
			assert_int_equal(writer_complete(writer, WRITER_ALL), 0);
		}
		assert_int_equal(writer_end(writer, &end), 0);
		extent_list_fini(&end.extents);
		batch_pool_free(pool);
	}
}

/* How many batches the stage could copy: there is no other batch for one while the workers are behind the drain. */
static unsigned keep_and_check(const struct batch_pool_params *params)
{
	static const struct stage_ops ops = {.name = "keeping", .process = keep, .flush = give_out};
	const struct load load = {.seed = 5, .nr_chunks = 200, .chunk_records = 8};
	struct keeping keeping = {.stage.ops = &ops, .last = &keeping.first};
	struct buf expected = {0}, found = {0}, stored = {0};
	FILE *file = tmpfile();
	const struct writer_params writer_params = {.fd = fileno(file)};
	struct writer *inner, *writer;
	struct writer_end end;
	struct batch_pool *pool;

	feed_plain(&load, &expected);
	assert_int_equal(batch_pool_new(params, &pool, NULL), 0);
	assert_int_equal(writer_open(&writer_serial, &writer_params, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &keeping.stage);
	writer->complete_ns = 7;
	feed(&load, writer);
	assert_int_equal(writer->ops->store(writer), 0); /* workers do it */
	assert_int_equal(writer_commit(writer, true), 0);
	pipeline_run_stages(writer);
	assert_int_equal(keeping.flushes, 1U << STAGE_ROUND | 1U << STAGE_MEMORY | 1U << STAGE_COMMIT);
	assert_int_equal(keeping.nr_kept, 0);
	feed(&load, writer);
	uint64_t queued = writer->queued;
	assert_int_equal(writer_end(writer, &end), 0);
	assert_true(keeping.flushes & 1U << STAGE_END);
	assert_int_equal(end.stored + end.packed, queued);
	assert_true(keeping.most_kept > 1);
	extent_list_fini(&end.extents);
	assert_int_equal(pread(fileno(file), buf_extend(&stored, end.stored), end.stored, 0), end.stored);
	unpack(buf_span(&stored), false, &found);
	assert_int_equal(found.len, 2 * expected.len);
	assert_memory_equal(found.data, expected.data, expected.len);
	assert_memory_equal(found.data + expected.len, expected.data, expected.len);
	assert_int_equal(pool->nr_free, pool->nr_jobs);
	assert_string_equal(pool->totals.drops[0].reason, "one reason");
	assert_int_equal(pool->totals.drops[0].nr_samples, 5);
	assert_int_equal(pool->totals.drops[1].nr_samples, 1);
	assert_null(pool->totals.drops[2].reason);
	batch_pool_free(pool);
	buf_fini(&expected);
	buf_fini(&found);
	buf_fini(&stored);
	fclose(file);
	return keeping.nr_copied;
}

/* They count against the memory, which they give back when it runs short: the drain does not wait for ever. */
static void test_stages_keep_batches(void **state)
{
	unsigned nr_copied = 0;

	(void)state;
	for (int level = 0; level <= 1; level++)
		for (size_t nr_workers = 1; nr_workers <= 3; nr_workers += 2)
			nr_copied += keep_and_check(&(struct batch_pool_params){.level = level,
										.no_index = !level,
										.nr_pipelines = 2,
										.nr_workers = nr_workers,
										.extent_bytes = EXTENT_BYTES,
										.budget_bytes = 8 * EXTENT_BYTES});
	assert_true(nr_copied);
}

static int store_when_allowed(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	sem_wait(&storing);
	return take_bytes(writer, spans, nr_spans);
}

static int count_flush(struct stage *stage, enum stage_flush why)
{
	((struct keeping *)stage)->flushes |= 1U << why;
	return 0;
}

/* Memory runs short because nothing is stored: a stage that has none of it is not asked for any. */
static void test_who_keeps_nothing_is_not_asked_for_memory(void **state)
{
	static const struct stage_ops ops = {.name = "passing", .process = stage_pass, .flush = count_flush};
	static const struct writer_ops slow = {
		.name = "slow", .state_bytes = sizeof(struct writer), .queue = store_when_allowed};
	struct keeping passing = {.stage.ops = &ops};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	int err;

	(void)state;
	sem_init(&storing, 0, 0);
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.level = 1,
								    .nr_pipelines = 1,
								    .nr_workers = 2,
								    .extent_bytes = EXTENT_BYTES,
								    .budget_bytes = 8 * EXTENT_BYTES},
					&pool, NULL),
			 0);
	assert_int_equal(writer_open(&slow, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &passing.stage);
	do
		err = writer_queue(writer, &(struct span){record, make_record(&seed, false, record)}, 1);
	while (!err);
	assert_int_equal(err, -EAGAIN);
	for (size_t i = 0; i < 2 * pool->nr_jobs; i++)
		sem_post(&storing);
	pipeline_run_stages(writer);
	assert_int_equal(passing.flushes, 0);
	assert_int_equal(writer_close(writer, NULL), 0);
	assert_int_equal(passing.flushes, 1U << STAGE_END);
	batch_pool_free(pool);
	sem_destroy(&storing);
}

struct holding {
	struct keeping keeping;
	unsigned nr_asked;
	sem_t asked;
};

static int hold_when_asked(struct stage *stage, enum stage_flush why)
{
	struct holding *holding = (struct holding *)stage;

	if (why == STAGE_END)
		return give_out(stage, why);
	holding->nr_asked += why == STAGE_MEMORY;
	sem_post(&holding->asked);
	return 0;
}

/* Another output takes all memory, and none is given back: a stage is asked for what it keeps, once. */
static void test_who_keeps_something_is_asked_once(void **state)
{
	static const struct stage_ops ops = {.name = "holding", .process = keep, .flush = hold_when_asked};
	static const struct writer_ops slow = {
		.name = "slow", .state_bytes = sizeof(struct writer), .queue = store_when_allowed};
	struct holding holding = {.keeping = {.stage.ops = &ops, .last = &holding.keeping.first}};
	struct writer *inner, *writer, *other;
	struct batch_pool *pool;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	const struct span span = {record, make_record(&seed, false, record)};
	int err = 0;

	(void)state;
	sem_init(&storing, 0, 0);
	sem_init(&holding.asked, 0, 0);
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.no_index = true,
								    .nr_pipelines = 2,
								    .nr_workers = 2,
								    .extent_bytes = EXTENT_BYTES,
								    .budget_bytes = 32 * EXTENT_BYTES},
					&pool, NULL),
			 0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &holding.keeping.stage);
	assert_int_equal(writer_open(&slow, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &other), 0);
	queue_all(writer, &span, 1);
	pipeline_run_stages(writer);
	assert_int_equal(holding.nr_asked, 0);
	while (!batch_pool_is_short(pool) && !err)
		err = writer_queue(other, &span, 1);
	assert_int_equal(err, 0);
	sem_wait(&holding.asked);
	while (!err)
		err = writer_queue(other, &span, 1);
	assert_int_equal(err, -EAGAIN);
	pipeline_run_stages(writer);
	assert_int_equal(holding.nr_asked, 1);
	for (size_t i = 0; i < 2 * pool->nr_jobs; i++)
		sem_post(&storing);
	assert_int_equal(writer_close(other, NULL), 0);
	assert_int_equal(writer_close(writer, NULL), 0);
	batch_pool_free(pool);
	sem_destroy(&storing);
	sem_destroy(&holding.asked);
}

/* What a stage keeps stays there as long as there is memory. */
static void test_who_keeps_little_is_not_asked_for_it(void **state)
{
	static const struct stage_ops ops = {.name = "keeping", .process = keep, .flush = give_out};
	struct keeping keeping = {.stage.ops = &ops, .last = &keeping.first};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	const struct span span = {record, make_record(&seed, false, record)};

	(void)state;
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.no_index = true,
								    .nr_pipelines = 1,
								    .extent_bytes = EXTENT_BYTES,
								    .budget_bytes = 64 * EXTENT_BYTES},
					&pool, NULL),
			 0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &keeping.stage);
	for (unsigned i = 0; i < 3; i++) {
		queue_all(writer, &span, 1);
		assert_int_equal(writer_fix_position(writer), 0);
	}
	pipeline_run_stages(writer);
	assert_int_equal(keeping.nr_kept, 3);
	assert_int_equal(keeping.flushes, 0);
	assert_int_equal(writer_close(writer, NULL), 0);
	assert_int_equal(keeping.flushes, 1U << STAGE_END);
	batch_pool_free(pool);
}

static int has_no_space(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	(void)writer, (void)spans, (void)nr_spans;
	return -ENOSPC;
}

/* Nothing comes to its stages any more, but others may need the memory. */
static void test_stages_of_a_failed_output_keep_nothing(void **state)
{
	static const struct stage_ops ops = {.name = "keeping", .process = keep, .flush = give_out};
	static const struct writer_ops full = {
		.name = "full", .state_bytes = sizeof(struct writer), .queue = has_no_space};
	struct keeping first = {.stage.ops = &ops, .last = &first.first};
	struct keeping second = {.stage.ops = &ops, .last = &second.first};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	const struct span span = {record, make_record(&seed, false, record)};
	const uint8_t long_bytes[BATCH_TAIL_BYTES + 8] = {0};

	(void)state;
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.no_index = true,
								    .nr_pipelines = 1,
								    .extent_bytes = EXTENT_BYTES,
								    .budget_bytes = 64 * EXTENT_BYTES},
					&pool, NULL),
			 0);
	assert_int_equal(writer_open(&full, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &first.stage);
	pipeline_add_stage(writer, &second.stage);
	for (unsigned i = 0; i < 3; i++) {
		queue_all(writer, &span, 1);
		assert_int_equal(writer_fix_position(writer), 0);
	}
	pipeline_run_stages(writer);
	assert_int_equal(first.nr_kept, 3);
	assert_int_equal(writer_put(writer, long_bytes, sizeof(long_bytes)), -ENOSPC);
	pipeline_run_stages(writer);
	assert_int_equal(first.flushes, 1U << STAGE_MEMORY);
	assert_int_equal(second.nr, 3);
	assert_int_equal(first.nr_kept + second.nr_kept, 0);
	assert_int_equal(pool->nr_free, pool->nr_jobs);
	assert_int_equal(writer_close(writer, NULL), -ENOSPC);
	assert_int_equal(first.flushes, 1U << STAGE_MEMORY | 1U << STAGE_END);
	batch_pool_free(pool);
}

static int give_out_and_fail(struct stage *stage, enum stage_flush why)
{
	give_out(stage, why);
	return -EIO;
}

/* Whether the stage behind it is called: where all batches must go. */
static void test_error_of_a_flush(void **state)
{
	static const struct stage_ops failing = {.name = "failing", .process = keep, .flush = give_out_and_fail};
	static const struct stage_ops ops = {.name = "keeping", .process = keep, .flush = give_out};
	struct keeping first = {.stage.ops = &failing, .last = &first.first};
	struct keeping second = {.stage.ops = &ops, .last = &second.first};
	struct writer *writer;
	struct batch_pool *pool;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	const struct span span = {record, make_record(&seed, false, record)};

	(void)state;
	open_in_memory(&pool, &writer);
	pipeline_add_stage(writer, &first.stage);
	pipeline_add_stage(writer, &second.stage);
	queue_all(writer, &span, 1);
	assert_int_equal(writer_commit(writer, true), 0);
	pipeline_run_stages(writer);
	assert_int_equal(first.flushes, 1U << STAGE_COMMIT | 1U << STAGE_MEMORY);
	assert_int_equal(second.flushes, 1U << STAGE_MEMORY);
	assert_int_equal(second.nr, 1);
	assert_int_equal(second.nr_kept, 0);
	assert_int_equal(writer_close(writer, NULL), -EIO);
	assert_int_equal(second.flushes, 1U << STAGE_MEMORY | 1U << STAGE_END);
	batch_pool_free(pool);
}

/* Keeps all batches until the end, while another output takes the memory that is left. */
struct ending {
	struct keeping keeping;
	struct writer *other;
	atomic_bool ends;
	sem_t called; /* beside its last call */
};

static int hold_to_the_end(struct stage *stage, enum stage_flush why)
{
	return why == STAGE_END ? give_out(stage, why) : 0;
}

static int end_beside_another(struct stage *stage, enum stage_flush why)
{
	struct ending *ending = (struct ending *)stage;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	struct timespec until;
	int err;

	if (why != STAGE_END) {
		if (ending->ends)
			sem_post(&ending->called);
		return 0;
	}
	ending->ends = true;
	do
		err = writer_queue(ending->other, &(struct span){record, make_record(&seed, false, record)}, 1);
	while (!err);
	assert_int_equal(err, -EAGAIN);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	assert_int_equal(sem_timedwait(&ending->called, &until), -1);
	assert_int_equal(errno, ETIMEDOUT);
	return give_out(stage, why);
}

/* As where the output is switched, and the former one is ended by a thread of its own. */
static void test_who_lacks_memory_does_not_ask_a_stage_that_ends(void **state)
{
	static const struct stage_ops ends = {.name = "ends", .process = keep, .flush = end_beside_another};
	static const struct stage_ops holds = {.name = "holds", .process = keep, .flush = hold_to_the_end};
	struct ending ending = {.keeping = {.stage.ops = &ends, .last = &ending.keeping.first}};
	struct keeping holding = {.stage.ops = &holds, .last = &holding.first};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	const struct span span = {record, make_record(&seed, false, record)};

	(void)state;
	sem_init(&ending.called, 0, 0);
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.no_index = true,
								    .nr_pipelines = 2,
								    .nr_workers = 1,
								    .extent_bytes = EXTENT_BYTES,
								    .budget_bytes = 8 * EXTENT_BYTES},
					&pool, NULL),
			 0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &ending.keeping.stage);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &ending.other), 0);
	pipeline_add_stage(ending.other, &holding.stage);
	queue_all(writer, &span, 1);
	assert_int_equal(writer_close(writer, NULL), 0);
	assert_true(ending.ends);
	assert_int_equal(writer_close(ending.other, NULL), 0);
	assert_true(holding.nr > 1);
	assert_int_equal(pool->nr_free, pool->nr_jobs);
	batch_pool_free(pool);
	sem_destroy(&ending.called);
}

static void test_error_of_a_stage_sticks(void **state)
{
	static const struct stage_ops refusing = {.name = "refusing", .process = refuse};
	struct stage stage = {.ops = &refusing};
	struct writer *writer;
	struct batch_pool *pool;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	const struct span span = {record, make_record(&seed, false, record)};
	uint64_t stored;

	(void)state;
	open_in_memory(&pool, &writer);
	pipeline_add_stage(writer, &stage);
	queue_all(writer, &span, 1);
	assert_int_equal(writer_complete(writer, WRITER_ALL), -EBADMSG);
	assert_int_equal(writer_close(writer, &stored), -EBADMSG);
	assert_int_equal(stored, 0);
	batch_pool_free(pool);
}

/* A stage gives back what the next one says. Who hands over more is told of it, and so is who only asks. */
static void test_error_behind_a_stage(void **state)
{
	static const struct stage_ops passing = {.name = "passing", .process = stage_pass};
	static const struct stage_ops refusing = {.name = "refusing", .process = refuse};
	struct stage stages[2] = {{.ops = &passing}, {.ops = &refusing}};
	struct writer *writer;
	struct batch_pool *pool;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1, tries = 0;
	const struct span span = {record, make_record(&seed, false, record)};

	(void)state;
	open_in_memory(&pool, &writer);
	pipeline_add_stage(writer, &stages[0]);
	pipeline_add_stage(writer, &stages[1]);
	queue_all(writer, &span, 1);
	assert_int_equal(writer_fix_position(writer), 0);
	int err;
	while (!(err = writer_complete(writer, WRITER_NOW)) && tries++ < 10000)
		usleep(1000);
	assert_int_equal(err, -EBADMSG);
	assert_int_equal(writer_close(writer, NULL), -EBADMSG);
	batch_pool_free(pool);
}

struct late {
	struct stage stage;
	struct batch *kept; /* the first one */
	int passed;         /* what came of it */
};

static int keep_first(struct stage *stage, struct batch *batch)
{
	struct late *late = (struct late *)stage;

	if (late->kept)
		return refuse(stage, batch);
	late->kept = batch;
	return 0;
}

static int pass_first(struct stage *stage, enum stage_flush why)
{
	struct late *late = (struct late *)stage;

	if (why == STAGE_END)
		late->passed = stage_pass(stage, late->kept);
	return 0;
}

/* What it had kept until then cannot be stored any more: it learns that. */
static void test_stage_pass_returns_the_error(void **state)
{
	static const struct stage_ops ops = {.name = "late", .process = keep_first, .flush = pass_first};
	struct late late = {.stage.ops = &ops};
	struct writer *writer;
	struct batch_pool *pool;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	const struct span span = {record, make_record(&seed, false, record)};
	uint64_t stored;

	(void)state;
	open_in_memory(&pool, &writer);
	pipeline_add_stage(writer, &late.stage);
	for (unsigned i = 0; i < 2; i++) {
		queue_all(writer, &span, 1);
		assert_int_equal(writer_fix_position(writer), 0);
	}
	assert_int_equal(writer_close(writer, &stored), -EBADMSG);
	assert_non_null(late.kept);
	assert_int_equal(late.passed, -EBADMSG);
	assert_int_equal(stored, 0);
	batch_pool_free(pool);
}

static int refuse_second(struct stage *stage, struct batch *batch)
{
	struct keeping *keeping = (struct keeping *)stage;

	if (!keeping->nr++)
		return stage_pass(stage, batch);
	sem_wait(&storing);
	sem_post(&refused);
	return refuse(stage, batch);
}

/* What it is given is stored when a stage has met its error. */
static int store_after_error(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	sem_post(&storing);
	sem_wait(&refused);
	usleep(20000); /* the thread of the stage says what it has met */
	writer->queued += span_total(spans, nr_spans);
	writer->stored = writer->queued;
	return 0;
}

static void test_error_of_a_stage_outlives_a_store(void **state)
{
	static const struct stage_ops refusing = {.name = "refusing", .process = refuse_second};
	static const struct writer_ops late = {
		.name = "late", .state_bytes = sizeof(struct writer), .queue = store_after_error};
	struct keeping stage = {.stage.ops = &refusing};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	const struct span span = {record, make_record(&seed, false, record)};

	(void)state;
	sem_init(&storing, 0, 0);
	sem_init(&refused, 0, 0);
	assert_int_equal(batch_pool_new(
				 &(struct batch_pool_params){
					 .level = 1, .nr_pipelines = 1, .nr_workers = 2, .extent_bytes = EXTENT_BYTES},
				 &pool, NULL),
			 0);
	assert_int_equal(writer_open(&late, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &stage.stage);
	for (unsigned i = 0; i < 2; i++) {
		queue_all(writer, &span, 1);
		assert_int_equal(writer_fix_position(writer), 0);
	}
	assert_int_equal(writer_complete(writer, WRITER_ALL), -EBADMSG);
	assert_int_equal(writer_close(writer, NULL), -EBADMSG);
	batch_pool_free(pool);
	sem_destroy(&storing);
	sem_destroy(&refused);
}

struct full {
	struct writer *writer;
	atomic_bool has_room;
	uint64_t cpu_ns; /* of who waited */
};

static void *wait_until_room(void *ctx)
{
	struct full *full = ctx;

	assert_int_equal(writer_complete(full->writer, WRITER_ROOM), 0);
	full->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	full->has_room = true;
	return NULL;
}

/* Who waits for room sleeps until something is stored: the wait takes no time of the CPU. */
static void test_a_wait_for_room_ends_with_room(void **state)
{
	static const struct writer_ops ops = {
		.name = "slow", .state_bytes = sizeof(struct writer), .queue = store_when_allowed};
	static uint8_t chunk[EXTENT_BYTES];
	struct writer *inner;
	struct batch_pool *pool;
	struct full full = {0};
	pthread_t thread;
	unsigned nr = 0;

	(void)state;
	for (size_t at = 0; at < sizeof(chunk); at += 64)
		memcpy(chunk + at, &(struct perf_event_header){.type = PERF_RECORD_SAMPLE, .size = 64}, 8);
	sem_init(&storing, 0, 0);
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.nr_pipelines = 1,
								    .no_index = true,
								    .extent_bytes = EXTENT_BYTES,
								    .budget_bytes = EXTENT_BYTES},
					&pool, NULL),
			 0);
	assert_int_equal(writer_open(&ops, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &full.writer), 0);
	while (writer_queue(full.writer, &(struct span){chunk, sizeof(chunk)}, 1) == 0)
		nr++;
	assert_true(nr);
	assert_int_equal(pthread_create(&thread, NULL, wait_until_room, &full), 0);
	usleep(30000);
	assert_false(full.has_room);
	for (unsigned i = 0; i <= nr; i++)
		sem_post(&storing);
	pthread_join(thread, NULL);
	assert_true(full.has_room);
	assert_true(full.cpu_ns < UINT64_C(10000000));
	assert_int_equal(writer_close(full.writer, NULL), 0);
	batch_pool_free(pool);
	sem_destroy(&storing);
}

/* Where writes wait for the storage the drain stores nothing: a worker does. */
static void test_writes_that_wait_are_for_workers(void **state)
{
	static uint8_t record[64];
	struct writer *inner, *writer;
	struct batch_pool *pool;

	(void)state;
	memcpy(record, &(struct perf_event_header){.type = PERF_RECORD_SAMPLE, .size = sizeof(record)}, 8);
	assert_int_equal(
		batch_pool_new(
			&(struct batch_pool_params){.nr_pipelines = 1, .no_index = true, .extent_bytes = EXTENT_BYTES},
			&pool, NULL),
		0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	for (unsigned i = 0; i < 3; i++) {
		inner->waits = i % 2 == 0;
		assert_int_equal(writer_queue(writer, &(struct span){record, sizeof(record)}, 1), 0);
		assert_int_equal(writer_fix_position(writer), 0);
		uint64_t ns = writer->ops->store(writer);
		if (inner->waits)
			assert_int_equal(ns, 0);
		assert_int_equal(writer_complete(writer, WRITER_ALL), 0);
		assert_int_equal(writer->stored, (i + 1) * sizeof(record));
	}
	assert_int_equal(writer_close(writer, NULL), 0);
	batch_pool_free(pool);
}

/* A chunk is taken up to its last whole record that fits, also where a record wraps right behind its header. */
static void test_records_that_wrap_behind_their_headers(void **state)
{
	enum { SIZE = 72, NR = 2 * EXTENT_BYTES / SIZE };
	static uint8_t records[NR * SIZE];

	(void)state;
	for (size_t at = 0; at < sizeof(records); at += SIZE)
		memcpy(records + at, &(struct perf_event_header){.type = PERF_RECORD_SAMPLE, .size = SIZE}, 8);
	for (size_t wraps = 0; wraps <= 16; wraps += 8) {
		const size_t first = 5 * SIZE + wraps;
		const struct span spans[2] = {{records, first}, {records + first, sizeof(records) - first}};
		struct writer *inner, *writer;
		struct batch_pool *pool;
		assert_int_equal(batch_pool_new(&(struct batch_pool_params){.nr_pipelines = 1,
									    .no_index = true,
									    .extent_bytes = EXTENT_BYTES},
						&pool, NULL),
				 0);
		assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
		assert_int_equal(pipeline_open(pool, inner, &writer), 0);
		assert_int_equal(writer_take(writer, spans, 2), EXTENT_BYTES / SIZE * SIZE);
		assert_int_equal(writer_close(writer, NULL), 0);
		batch_pool_free(pool);
	}
}

static int fail_when_allowed(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	(void)writer, (void)spans, (void)nr_spans;
	sem_wait(&storing);
	return -ENOSPC;
}

static void *allow_later(void *unused)
{
	(void)unused;
	usleep(30000);
	for (unsigned i = 0; i < 64; i++)
		sem_post(&storing);
	return NULL;
}

/* As two threads wait that drain into files of a directory: a time in which both do is counted once. */
static void test_time_without_room_is_counted_once(void **state)
{
	enum { NR = 2, SOME_US = 60000 };
	static const struct writer_ops ops = {
		.name = "slow", .state_bytes = sizeof(struct writer), .queue = store_when_allowed};
	static uint8_t chunk[EXTENT_BYTES];
	struct full full[NR] = {{0}};
	struct batch_pool *pool;
	pthread_t threads[NR];
	unsigned nr = NR;

	(void)state;
	for (size_t at = 0; at < sizeof(chunk); at += 64)
		memcpy(chunk + at, &(struct perf_event_header){.type = PERF_RECORD_SAMPLE, .size = 64}, 8);
	sem_init(&storing, 0, 0);
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.nr_pipelines = NR,
								    .no_index = true,
								    .extent_bytes = EXTENT_BYTES,
								    .budget_bytes = EXTENT_BYTES},
					&pool, NULL),
			 0);
	for (unsigned i = 0; i < NR; i++) {
		struct writer *inner;
		assert_int_equal(writer_open(&ops, &(struct writer_params){.fd = -1}, &inner), 0);
		assert_int_equal(pipeline_open(pool, inner, &full[i].writer), 0);
	}
	while (writer_queue(full[0].writer, &(struct span){chunk, sizeof(chunk)}, 1) == 0)
		nr++;
	const uint64_t from_ns = clock_ns(CLOCK_MONOTONIC);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_until_room, &full[i]), 0);
	usleep(SOME_US);
	for (unsigned i = 0; i < nr; i++)
		sem_post(&storing);
	for (unsigned i = 0; i < NR; i++)
		pthread_join(threads[i], NULL);
	const uint64_t took_ns = clock_ns(CLOCK_MONOTONIC) - from_ns;
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(writer_close(full[i].writer, NULL), 0);
	assert_in_range(pool->totals.full_ns, 1, took_ns);
	batch_pool_free(pool);
	sem_destroy(&storing);
}

/* Memory is full and the output fails: who waits for room is told that, and no byte of what waited counts as queued. */
static void test_a_wait_for_room_ends_with_an_error(void **state)
{
	enum { LONG = 64 * EXTENT_BYTES };
	static const struct writer_ops ops = {
		.name = "slow", .state_bytes = sizeof(struct writer), .queue = fail_when_allowed};
	static uint8_t records[LONG];

	(void)state;
	for (size_t at = 0; at < sizeof(records); at += 64)
		memcpy(records + at, &(struct perf_event_header){.type = PERF_RECORD_SAMPLE, .size = 64}, 8);
	for (unsigned puts = 0; puts < 2; puts++) {
		struct writer *inner, *writer;
		struct batch_pool *pool;
		pthread_t thread;
		sem_init(&storing, 0, 0);
		assert_int_equal(batch_pool_new(&(struct batch_pool_params){.nr_pipelines = 1,
									    .no_index = true,
									    .extent_bytes = EXTENT_BYTES,
									    .budget_bytes = EXTENT_BYTES},
						&pool, NULL),
				 0);
		assert_int_equal(writer_open(&ops, &(struct writer_params){.fd = -1}, &inner), 0);
		assert_int_equal(pipeline_open(pool, inner, &writer), 0);
		while (puts && writer_queue(writer, &(struct span){records, EXTENT_BYTES}, 1) == 0)
			;
		assert_int_equal(pthread_create(&thread, NULL, allow_later, NULL), 0);
		uint64_t before = writer->queued;
		if (puts) {
			assert_int_equal(writer_put(writer, records, 8), -ENOSPC);
			assert_int_equal(writer->queued, before);
		} else {
			assert_int_equal(writer_queue(writer, &(struct span){records, LONG}, 1), -ENOSPC);
			assert_in_range(writer->queued, EXTENT_BYTES, LONG - EXTENT_BYTES);
		}
		pthread_join(thread, NULL);
		assert_int_equal(writer_close(writer, NULL), -ENOSPC);
		batch_pool_free(pool);
		sem_destroy(&storing);
	}
}

struct counted {
	struct stage stage;
	atomic_uint nr; /* batches that it has seen */
};

static int look_when_allowed(struct stage *stage, struct batch *batch)
{
	sem_wait(&storing);
	((struct counted *)stage)->nr++;
	return stage_pass(stage, batch);
}

struct seen_by {
	struct stage stage;
	pthread_t drain;
	atomic_uint nr_by_drain, nr_by_others;
};

static int see_who(struct stage *stage, struct batch *batch)
{
	struct seen_by *seen = (struct seen_by *)stage;

	*(pthread_equal(pthread_self(), seen->drain) ? &seen->nr_by_drain : &seen->nr_by_others) += 1;
	return stage_pass(stage, batch);
}

/* A worker looks for work before it waits for the first time. */
static void wait_until_a_worker_is_idle(struct batch_pool *pool)
{
	for (bool idle = false; !idle; sched_yield()) {
		pthread_mutex_lock(&pool->lock);
		idle = pool->idle;
		pthread_mutex_unlock(&pool->lock);
	}
}

/* A stage that looks at records in their ring, and refuses that from some number of looks on. */
struct looker {
	struct stage stage;
	struct buf seen;
	unsigned nr_looks, nr_allowed, nr_batches;
};

static int see_batch(struct stage *stage, struct batch *batch)
{
	struct looker *looker = (struct looker *)stage;

	if (batch->offset != STAGE_NO_OFFSET)
		assert_int_equal(batch->offset, looker->seen.len);
	buf_put(&looker->seen, batch->records, batch->len);
	if (batch->offset != STAGE_NO_OFFSET)
		buf_put(&looker->seen, batch->tail, batch->tail_len);
	looker->nr_batches++;
	return stage_pass(stage, batch);
}

static size_t header_size(const struct span spans[], size_t at)
{
	struct perf_event_header header;

	memcpy(&header, (const uint8_t *)spans[at >= spans[0].len].ptr + (at < spans[0].len ? at : at - spans[0].len),
	       sizeof(header));
	return header.size;
}

static size_t see_in_ring(struct stage *stage, const struct span spans[], unsigned nr_spans,
			  const struct stage_look *how)
{
	struct looker *looker = (struct looker *)stage;
	const size_t before = looker->seen.len, total = span_total(spans, nr_spans);
	struct span some[2] = {spans[0], nr_spans > 1 ? spans[1] : (struct span){0}};
	struct perf_event_header header;

	if (looker->nr_looks++ >= looker->nr_allowed) {
		if (how->tally)
			how->tally->fields.nr_records += 100; /* is taken back */
		return 0;
	}
	if (!how->tally) {
		assert_int_equal(how->offset, before);
		size_t bytes = 0;
		while (!bytes || (bytes < how->most && bytes < total))
			bytes += header_size(spans, bytes);
		assert_in_range(bytes, 1, total);
		spans_cut(some, bytes);
	}
	for (unsigned i = 0; i < 2; i++)
		buf_put(&looker->seen, some[i].ptr, some[i].len);
	for (size_t at = before; how->tally && at < looker->seen.len; at += header.size) {
		memcpy(&header, looker->seen.data + at, sizeof(header));
		extent_tally_record(how->tally, looker->seen.data + at, &header);
	}
	return looker->seen.len - before;
}

/* What a pump takes of a ring, which is overwritten then; its records are kept in `put`. At times it is late. */
static void take_chunk(struct writer *writer, unsigned *seed, bool random, struct buf *put, size_t *nr_records)
{
	const size_t len_wanted = (size_t)(rand_r(seed) % 8 ? 8 : 1600) << 10, before = put->len;
	size_t split = 0;

	for (uint8_t record[MAX_RECORD]; put->len - before < len_wanted; ++*nr_records) {
		if (put->len - before > len_wanted / 2 && !split)
			split = put->len - before + 8; /* in a record */
		buf_put(put, record, make_record(seed, random, record));
	}
	const size_t len = put->len - before;
	uint8_t *front = malloc(split), *back = malloc(len - split);
	memcpy(front, put->data + before, split);
	memcpy(back, put->data + before + split, len - split);
	struct span spans[2] = {{front, split}, {back, len - split}};
	const bool in_time = rand_r(seed) % 8;
	for (size_t left = len; left;) {
		writer->has_time = writer->has_time_to_compress = in_time;
		int64_t taken = writer_take(writer, spans, 2);
		if (taken == -EAGAIN) {
			assert_int_equal(writer_complete(writer, WRITER_ROOM), 0);
			continue;
		}
		assert_in_range(taken, 1, left);
		left -= (size_t)taken;
		for (unsigned i = 0; i < 2; i++) {
			size_t part = spans[i].len < (size_t)taken ? spans[i].len : (size_t)taken;
			memset((uint8_t *)spans[i].ptr, 0xee, part);
			spans[i] = (struct span){(const uint8_t *)spans[i].ptr + part, spans[i].len - part};
			taken -= (int64_t)part;
		}
		if (!spans[0].len) /* as a ring's */
			spans[0] = spans[1], spans[1] = (struct span){0};
		if (left && !spans[1].len) {
			writer->has_time = writer->has_time_to_compress = false;
			assert_int_equal(writer_queue(writer, spans, 1), 0);
			left = 0;
		}
	}
	free(front);
	free(back);
}

/*
 * Chunks, marks and commits; the stage has seen all now and then. Where there is a `device` its writer waits for it, at
 * most times. Returns the number of records.
 */
static size_t put_chunks(struct writer *writer, struct writer *device, unsigned *seed, bool random, struct buf *put,
			 struct buf *expected)
{
	static const struct perf_event_header mark = {.type = RECORD_FINISHED_ROUND, .size = sizeof(mark)};
	size_t nr_records = 0;

	for (unsigned i = 0; i < 60; i++) {
		const size_t before = put->len;
		if (device)
			device->waits = rand_r(seed) % 8;
		if (rand_r(seed) % 4 == 0)
			assert_int_equal(writer_complete(writer, WRITER_ALL), 0);
		take_chunk(writer, seed, random, put, &nr_records);
		buf_put(expected, put->data + before, put->len - before);
		if (rand_r(seed) % 8 == 0) {
			assert_int_equal(writer_put(writer, &mark, sizeof(mark)), 0);
			buf_put(expected, &mark, sizeof(mark));
		}
		if (rand_r(seed) % 8 == 0)
			assert_int_equal(writer_commit(writer, rand_r(seed) % 2), 0);
	}
	assert_int_equal(writer_complete(writer, WRITER_ALL), 0);
	return nr_records;
}

/* Whether records are copied, or compressed in their ring, or first this and then that: the output is the same. */
static void check_building(unsigned seed, bool random, unsigned nr_allowed)
{
	enum { BATCH_BYTES = 1 << 20 };
	static const struct stage_ops ops = {.name = "looks", .look = see_in_ring, .process = see_batch};
	const struct event_desc event = {.attr.sample_type = PERF_SAMPLE_IP};
	struct looker looker = {.stage.ops = &ops, .nr_allowed = nr_allowed};
	struct buf put = {0}, expected = {0}, found = {0}, bytes = {0};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	struct writer_end end;
	size_t nr_records, nr_found = 0, nr_counted = 0;
	const int fd = memfd_create("out", MFD_CLOEXEC);
	const struct batch_pool_params params = {
		.level = 1, .nr_pipelines = 1, .extent_bytes = BATCH_BYTES, .events = &event, .nr_events = 1};

	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	assert_int_equal(writer_open(&writer_serial, &(struct writer_params){.fd = fd}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &looker.stage);
	nr_records = put_chunks(writer, NULL, &seed, random, &put, &expected);
	assert_int_equal(writer_end(writer, &end), 0);
	assert_int_equal(looker.seen.len, put.len);
	assert_memory_equal(looker.seen.data, put.data, put.len);
	if (random)
		assert_true(looker.nr_batches > 10);
	else /* who refused once is not asked again */
		assert_in_range(looker.nr_looks, 1, nr_allowed == UINT32_MAX ? nr_allowed : nr_allowed + 1);
	assert_int_equal(pread(fd, buf_extend(&bytes, end.stored), end.stored, 0), end.stored);
	unpack(buf_span(&bytes), false, &found);
	assert_int_equal(found.len, expected.len);
	assert_memory_equal(found.data, expected.data, expected.len);
	for (size_t i = 0; i < end.extents.nr; i++) {
		const struct extent_info *info = &end.extents.infos[i];
		nr_found += info->fields.nr_records;
		for (uint32_t k = 0; k < info->fields.nr_counts; k++)
			nr_counted += info->counts[k].nr;
	}
	assert_int_equal(nr_found, nr_records);
	assert_int_equal(nr_counted, nr_records);
	extent_list_fini(&end.extents);
	batch_pool_free(pool);
	buf_fini(&put);
	buf_fini(&expected);
	buf_fini(&found);
	buf_fini(&bytes);
	buf_fini(&looker.seen);
	close(fd);
}

static void test_what_is_compressed_in_its_ring(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 6; seed++) {
		check_building(seed, false, UINT32_MAX);
		check_building(seed, false, 3 * seed);
		check_building(seed, true, UINT32_MAX);
	}
}

/* Records that are not compressed: the stage sees what the output gets, at its place, on either thread. */
static void check_looking(unsigned seed, unsigned nr_allowed, size_t extent_bytes)
{
	static const struct stage_ops ops = {.name = "looks", .look = see_in_ring, .process = see_batch};
	struct looker looker = {.stage.ops = &ops, .nr_allowed = nr_allowed};
	struct buf put = {0}, expected = {0}, bytes = {0};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	struct writer_end end;
	const int fd = memfd_create("out", MFD_CLOEXEC);
	const struct batch_pool_params params = {.no_index = true, .nr_pipelines = 1, .extent_bytes = extent_bytes};

	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	assert_int_equal(writer_open(&writer_serial, &(struct writer_params){.fd = fd}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &looker.stage);
	put_chunks(writer, inner, &seed, true, &put, &expected);
	assert_int_equal(writer_end(writer, &end), 0);
	assert_int_equal(looker.seen.len, expected.len);
	assert_memory_equal(looker.seen.data, expected.data, expected.len);
	assert_true(looker.nr_batches);
	assert_in_range(looker.nr_looks, 1, nr_allowed == UINT32_MAX ? nr_allowed : nr_allowed + 1);
	assert_int_equal(end.stored, expected.len);
	assert_int_equal(pread(fd, buf_extend(&bytes, end.stored), end.stored, 0), end.stored);
	assert_memory_equal(bytes.data, expected.data, expected.len);
	extent_list_fini(&end.extents);
	batch_pool_free(pool);
	buf_fini(&put);
	buf_fini(&expected);
	buf_fini(&bytes);
	buf_fini(&looker.seen);
	close(fd);
}

static void test_what_is_seen_in_its_ring(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 8; seed++) {
		check_looking(seed, UINT32_MAX, 1 << 20);
		check_looking(seed, UINT32_MAX, (64 + 8 * seed) << 10);
		check_looking(seed, 20 * seed, 1 << 20);
	}
}

/* Where some visits find records that hardly repeat, extents stay long: each takes memory of its own. */
static void test_extents_stay_long_where_some_records_hardly_repeat(void **state)
{
	enum { BATCH_BYTES = 1 << 20, VISIT_BYTES = 64 << 10, NR = 256 };
	static const struct stage_ops ops = {.name = "looks", .look = see_in_ring, .process = see_batch};
	const struct event_desc event = {.attr.sample_type = PERF_SAMPLE_IP};
	uint8_t *records = malloc(VISIT_BYTES + MAX_RECORD);

	(void)state;
	for (unsigned each = 2; each < 9; each += 3) {
		struct looker looker = {.stage.ops = &ops, .nr_allowed = UINT32_MAX};
		const struct batch_pool_params params = {
			.level = 1, .nr_pipelines = 1, .extent_bytes = BATCH_BYTES, .events = &event, .nr_events = 1};
		struct batch_pool *pool;
		struct writer *inner, *writer;
		struct writer_end end;
		unsigned seed = each;
		uint64_t bytes = 0;
		assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
		assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
		assert_int_equal(pipeline_open(pool, inner, &writer), 0);
		pipeline_add_stage(writer, &looker.stage);
		for (unsigned i = 0; i < NR; i++) {
			size_t len = 0;
			while (len < VISIT_BYTES)
				len += make_record(&seed, i % each == 0, records + len);
			for (size_t at = 0; at < len;) {
				writer->has_time = writer->has_time_to_compress = true;
				int64_t taken = writer_take(writer, &(struct span){records + at, len - at}, 1);
				if (taken == -EAGAIN)
					taken = writer_complete(writer, WRITER_ROOM);
				assert_true(taken >= 0);
				at += (size_t)taken;
			}
			bytes += len;
		}
		assert_int_equal(writer_end(writer, &end), 0);
		assert_in_range(end.extents.nr, bytes / BATCH_BYTES, 2 + 2 * bytes / (BATCH_BYTES / 2));
		extent_list_fini(&end.extents);
		batch_pool_free(pool);
		buf_fini(&looker.seen);
	}
	free(records);
}

/* Of what is late the drain stores a little: workers do the rest. */
static void test_a_drain_stores_few_at_once(void **state)
{
	enum { AT_ONCE = 4, NR = AT_ONCE + 3 };
	static const struct stage_ops ops = {.name = "seen", .process = see_who};
	struct seen_by seen = {.stage.ops = &ops, .drain = pthread_self()};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	const struct span span = {record, make_record(&seed, false, record)};

	(void)state;
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.nr_pipelines = 1,
								    .no_index = true,
								    .extent_bytes = EXTENT_BYTES,
								    .budget_bytes = 2 * NR * EXTENT_BYTES},
					&pool, NULL),
			 0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &seen.stage);
	wait_until_a_worker_is_idle(pool);
	writer->ops->store(writer); /* from here on no worker is woken by what comes */
	for (unsigned i = 0; i < NR; i++) {
		queue_all(writer, &span, 1);
		assert_int_equal(writer_fix_position(writer), 0);
	}
	assert_int_equal(seen.nr_by_drain + seen.nr_by_others, 0);
	writer->ops->store(writer);
	assert_int_equal(seen.nr_by_drain, AT_ONCE);
	assert_int_equal(writer_complete(writer, WRITER_ALL), 0);
	assert_int_equal(seen.nr_by_drain, AT_ONCE);
	assert_int_equal(seen.nr_by_others, NR - AT_ONCE);
	assert_int_equal(writer_close(writer, NULL), 0);
	batch_pool_free(pool);
}

/* Stages are told of the time up to which a producer has read: it stays until they have seen what it handed over. */
static void test_a_producer_is_closed_when_all_of_it_was_seen(void **state)
{
	static const struct stage_ops ops = {.name = "slow", .process = look_when_allowed};
	struct counted counted = {.stage.ops = &ops};
	struct writer *inner, *writer, *producer;
	struct batch_pool *pool;
	uint8_t record[MAX_RECORD];
	unsigned seed = 1;
	const struct span span = {record, make_record(&seed, false, record)};
	pthread_t thread;

	(void)state;
	sem_init(&storing, 0, 0);
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.nr_pipelines = 2,
								    .nr_workers = 1,
								    .no_index = true,
								    .extent_bytes = EXTENT_BYTES,
								    .budget_bytes = 8 * EXTENT_BYTES},
					&pool, NULL),
			 0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	pipeline_add_stage(writer, &counted.stage);
	pipeline_share(writer, &(struct producers_params){.nr = 2});
	assert_int_equal(producer_open(writer, &producer), 0);
	for (unsigned i = 0; i < 2; i++) {
		queue_all(producer, &span, 1);
		assert_int_equal(writer_fix_position(producer), 0);
	}
	assert_int_equal(pthread_create(&thread, NULL, allow_later, NULL), 0);
	assert_int_equal(writer_close(producer, NULL), 0);
	assert_int_equal(counted.nr, 2);
	pthread_join(thread, NULL);
	assert_int_equal(writer->queued, 2 * span.len);
	assert_int_equal(writer_close(writer, NULL), 0);
	batch_pool_free(pool);
	sem_destroy(&storing);
}

/*
 * The output takes nothing: what was compressed waits in the memory that it needs then, and several times as much as
 * the memory holds is taken. Without that it is full at some time.
 */
static void test_memory_is_full_of_what_is_compressed(void **state)
{
	enum { BYTES = 256 << 10, BUDGET = 64 << 20 };
	static const struct writer_ops ops = {
		.name = "slow", .state_bytes = sizeof(struct writer), .queue = store_when_allowed};
	static struct {
		struct perf_event_header header;
		uint64_t same[511];
	} chunk[8];
	struct writer *inner, *writer;
	struct batch_pool *pool;

	(void)state;
	for (size_t i = 0; i < sizeof(chunk) / sizeof(chunk[0]); i++)
		chunk[i].header = (struct perf_event_header){.type = PERF_RECORD_EXIT, .size = sizeof(chunk[0])};
	for (unsigned spares = 0; spares < 2; spares++) {
		const struct batch_pool_params params = {.level = 1,
							 .nr_pipelines = 1,
							 .nr_workers = 2,
							 .extent_bytes = BYTES,
							 .budget_bytes = BUDGET,
							 .spares = spares};
		uint64_t accepted = 0;
		bool full = false;
		sem_init(&storing, 0, 0);
		assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
		assert_int_equal(writer_open(&ops, &(struct writer_params){.fd = -1}, &inner), 0);
		assert_int_equal(pipeline_open(pool, inner, &writer), 0);
		while (!full && accepted < 3ULL * BUDGET) {
			/* else batches go as they are, where workers get too little of the CPUs */
			while (batch_pool_stats(pool).nr_to_pack > 2)
				sched_yield();
			int64_t bytes = writer_take(writer, &(struct span){chunk, sizeof(chunk)}, 1);
			struct batch_pool_stats stats = batch_pool_stats(pool);
			/* all but the one that is filled, and no worker has to come first */
			full = bytes < 0 && !stats.nr_to_pack && !stats.nr_packing &&
			       stats.nr_unwritten + 1 >= pool->nr_jobs + pool->nr_spare_used;
			accepted += bytes > 0 ? (uint64_t)bytes : 0;
			if (bytes < 0)
				sched_yield();
		}
		assert_int_equal(full, !spares);
		for (size_t i = 0; i < 2 * (pool->nr_jobs + pool->nr_spare); i++)
			sem_post(&storing);
		assert_int_equal(writer_close(writer, NULL), 0);
		assert_int_equal(pool->nr_free, pool->nr_jobs);
		batch_pool_free(pool);
		sem_destroy(&storing);
	}
}

/* A chunk of a ring is longer than the room, but little of it is left when its dumps are cut: memory holds what is. */
static void test_memory_is_full_of_what_is_left_of_dumps(void **state)
{
	enum { DUMP = 8192, USED = 64, CHUNK_SAMPLES = 64, BYTES = 64 << 10 };
	static const struct writer_ops ops = {
		.name = "slow", .state_bytes = sizeof(struct writer), .queue = store_when_allowed};
	static struct sample_with_dump {
		struct perf_event_header header;
		uint64_t ip, size;
		uint8_t dump[DUMP];
		uint64_t used;
	} chunk[CHUNK_SAMPLES];
	static const size_t left_bytes = sizeof(chunk[0]) - DUMP + USED;
	uint64_t id = 1;
	const struct event_desc event = {.attr = {.size = sizeof(struct perf_event_attr),
						  .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_STACK_USER,
						  .sample_stack_user = DUMP},
					 .ids = &id,
					 .nr_ids = 1};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	uint64_t accepted = 0;
	int64_t bytes;

	(void)state;
	for (size_t i = 0; i < CHUNK_SAMPLES; i++)
		chunk[i] = (struct sample_with_dump){
			.header = {.type = PERF_RECORD_SAMPLE, .size = sizeof(chunk[i])}, .size = DUMP, .used = USED};
	sem_init(&storing, 0, 0);
	assert_int_equal(batch_pool_new(&(struct batch_pool_params){.nr_pipelines = 1,
								    .no_index = true,
								    .extent_bytes = BYTES,
								    .budget_bytes = 4 * BYTES,
								    .events = &event,
								    .nr_events = 1},
					&pool, NULL),
			 0);
	assert_int_equal(writer_open(&ops, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	while ((bytes = writer_take(writer, &(struct span){chunk, sizeof(chunk)}, 1)) > 0)
		accepted += (uint64_t)bytes / sizeof(chunk[0]);
	assert_int_equal(bytes, -EAGAIN);
	assert_true(accepted * left_bytes > pool->nr_jobs * pool->extent_bytes / 2);
	for (unsigned i = 0; i < 2 * pool->nr_jobs; i++)
		sem_post(&storing);
	assert_int_equal(writer_close(writer, NULL), 0);
	batch_pool_free(pool);
	sem_destroy(&storing);
}

/* Bytes that have no room behind a batch stand behind all that came before them, and before what comes later. */
static void put_long_and_check(const struct batch_pool_params *params)
{
	static const struct load load = {.seed = 11, .nr_chunks = 5, .chunk_records = 4};
	static const size_t sizes[] = {BATCH_TAIL_BYTES - 8, BATCH_TAIL_BYTES, BATCH_TAIL_BYTES + 8, 3 * EXTENT_BYTES};
	struct buf part = {0}, expected = {0}, found = {0};
	struct writer *inner, *writer;
	struct batch_pool *pool;
	struct writer_end end;

	feed_plain(&load, &part);
	assert_int_equal(batch_pool_new(params, &pool, NULL), 0);
	FILE *file = tmpfile();
	assert_int_equal(writer_open(&writer_serial, &(struct writer_params){.fd = fileno(file)}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const struct perf_event_header header = {.type = PERF_RECORD_COMM, .size = (uint16_t)sizes[i]};
		feed(&load, writer);
		buf_put(&expected, part.data, part.len);
		size_t at = expected.len;
		memset(buf_extend(&expected, sizes[i]), (int)i, sizes[i]);
		memcpy(expected.data + at, &header, sizeof(header));
		uint64_t before = writer->queued;
		assert_int_equal(writer_put(writer, expected.data + at, sizes[i]), 0);
		assert_int_equal(writer->queued, before + sizes[i]);
		if (sizes[i] > BATCH_TAIL_BYTES) /* it has waited for the output */
			assert_int_equal(lseek(fileno(file), 0, SEEK_CUR), writer->stored);
		else
			assert_int_equal(writer_complete(writer, WRITER_ALL), 0);
		if (params->no_index)
			assert_int_equal(writer->stored, expected.len);
	}
	feed(&load, writer);
	buf_put(&expected, part.data, part.len);
	assert_int_equal(writer_end(writer, &end), 0);
	assert_int_equal(end.stored + end.packed, expected.len);
	extent_list_fini(&end.extents);
	struct buf stored = {0};
	assert_int_equal(pread(fileno(file), buf_extend(&stored, end.stored), end.stored, 0), end.stored);
	unpack(buf_span(&stored), false, &found);
	assert_int_equal(found.len, expected.len);
	assert_memory_equal(found.data, expected.data, found.len);
	fclose(file);
	batch_pool_free(pool);
	buf_fini(&stored);
	buf_fini(&part);
	buf_fini(&expected);
	buf_fini(&found);
}

static void test_long_bytes_keep_their_place(void **state)
{
	(void)state;
	for (int level = 0; level < 2; level++)
		put_long_and_check(&(struct batch_pool_params){
			.level = level, .no_index = !level, .nr_pipelines = 1, .extent_bytes = EXTENT_BYTES});
}

/* What does not fit on the disk is not counted as queued, nor is what comes later. */
static void test_long_bytes_on_a_full_disk(void **state)
{
	static uint8_t bytes[EXTENT_BYTES];
	struct writer *inner, *writer;
	struct batch_pool *pool;
	uint64_t stored;

	(void)state;
	disk_bytes = sizeof(bytes) + 100;
	assert_int_equal(
		batch_pool_new(
			&(struct batch_pool_params){.nr_pipelines = 1, .no_index = true, .extent_bytes = EXTENT_BYTES},
			&pool, NULL),
		0);
	assert_int_equal(writer_open(&writer_failing, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	assert_int_equal(writer_put(writer, bytes, sizeof(bytes)), 0);
	assert_int_equal(writer_put(writer, bytes, sizeof(bytes)), -ENOSPC);
	assert_int_equal(writer->queued, sizeof(bytes));
	assert_int_equal(writer_put(writer, bytes, 8), -ENOSPC);
	assert_int_equal(writer_close(writer, &stored), -ENOSPC);
	batch_pool_free(pool);
}

/* What is no records is stored as it came, too, however long it is. */
static void test_bytes_that_are_no_records(void **state)
{
	enum { BYTES = 5 * EXTENT_BYTES + 123, NR = 3 * 3 /* sizes, and places */ };
	static const uint16_t sizes[] = {0, 7, 12};
	uint64_t id = 1;
	const struct event_desc event = {
		.attr = {.size = sizeof(event.attr), .sample_type = PERF_SAMPLE_STACK_USER, .sample_stack_user = 8192},
		.ids = &id,
		.nr_ids = 1};
	uint8_t *bytes = malloc(BYTES);

	(void)state;
	for (size_t way = 0; way < 2 * NR; way++) { /* also where stacks are cut, for which records are looked at */
		const size_t i = way % NR;
		const struct batch_pool_params params = {.nr_pipelines = 1,
							 .no_index = true,
							 .extent_bytes = EXTENT_BYTES,
							 .events = &event,
							 .nr_events = way / NR};
		const struct perf_event_header record = {.type = PERF_RECORD_SAMPLE, .size = 16},
					       header = {.size = sizes[i / 3]};
		const size_t before = i % 3 == 2 ? record.size : 0; /* a whole record stands in front of them */
		struct writer *inner, *writer;
		struct batch_pool *pool;
		struct writer_end end;
		FILE *file = tmpfile();
		for (size_t at = 0; at < BYTES; at++)
			bytes[at] = at % 8 < 6 ? (uint8_t)(at / 7) : 0;
		memcpy(bytes, &record, sizeof(record));
		memcpy(bytes + before, &header, sizeof(header));
		size_t first = i % 3 ? before + 4 : 0; /* it wraps within its header */
		uint8_t *apart = malloc(first);        /* as the ring's other end: a sanitizer sees what is behind it */
		memcpy(apart, bytes, first);
		const struct span spans[2] = {{first ? apart : bytes, first ? first : BYTES},
					      {bytes + first, first ? BYTES - first : 0}};
		assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
		assert_int_equal(writer_open(&writer_serial, &(struct writer_params){.fd = fileno(file)}, &inner), 0);
		assert_int_equal(pipeline_open(pool, inner, &writer), 0);
		queue_all(writer, spans, first ? 2 : 1);
		assert_int_equal(writer_end(writer, &end), 0);
		assert_int_equal(end.stored, BYTES);
		uint8_t *stored = malloc(BYTES);
		assert_int_equal(pread(fileno(file), stored, BYTES, 0), BYTES);
		assert_memory_equal(stored, bytes, BYTES);
		free(stored);
		free(apart);
		fclose(file);
		batch_pool_free(pool);
	}
	free(bytes);
}

/* One of several stages of an output: says who came, and with which time. */
struct witness {
	struct stage stage;
	char letter;
	struct buf *log;
	uint64_t last_complete_ns;
	unsigned fails_at; /* of its batches; 0: never */
	unsigned nr;
};

static int look(struct stage *stage, struct batch *batch)
{
	struct witness *witness = (struct witness *)stage;

	buf_put(witness->log, &witness->letter, 1);
	assert_true(stage->complete_ns >= witness->last_complete_ns);
	witness->last_complete_ns = stage->complete_ns;
	if (++witness->nr == witness->fails_at)
		return refuse(stage, batch);
	return stage_pass(stage, batch);
}

/* What fails once fails again. */
static int end_badly(struct stage *stage, enum stage_flush why)
{
	const struct witness *witness = (const struct witness *)stage;

	return why == STAGE_END && witness->fails_at && witness->nr >= witness->fails_at ? -EIO : 0;
}

/*
 * Stages get each batch one after the other, in the order in which they were added; an error of any ends the output,
 * and is its result, whatever fails later.
 */
static void test_stages_in_a_row(void **state)
{
	static const struct stage_ops looking = {.name = "witness", .process = look, .flush = end_badly};
	enum { NR = 6 };

	(void)state;
	for (unsigned way = 0; way < 3; way++) {
		const unsigned fails_at = way ? 3 : 0;
		const bool asks = way < 2; /* else only the end tells */
		struct buf log = {0};
		struct witness witnesses[3] = {{.letter = 'a'}, {.letter = 'b'}, {.letter = 'c', .fails_at = fails_at}};
		struct writer *inner, *writer;
		struct batch_pool *pool;
		uint8_t record[MAX_RECORD];
		unsigned seed = 1;
		const struct span span = {record, make_record(&seed, false, record)};
		const int expected = fails_at ? -EBADMSG : 0;
		uint64_t stored;
		assert_int_equal(batch_pool_new(&(struct batch_pool_params){.nr_pipelines = 1,
									    .no_index = true,
									    .extent_bytes = EXTENT_BYTES},
						&pool, NULL),
				 0);
		assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
		assert_int_equal(pipeline_open(pool, inner, &writer), 0);
		for (size_t i = 0; i < 3; i++) {
			witnesses[i].log = &log;
			witnesses[i].stage.ops = &looking;
			pipeline_add_stage(writer, &witnesses[i].stage);
		}
		for (uint64_t i = 0; i < (fails_at ? fails_at : NR); i++) {
			writer->complete_ns = 100 * (i + 1);
			queue_all(writer, &span, 1);
			if (i + 1 == fails_at && !asks)
				break;
			assert_int_equal(writer_complete(writer, WRITER_ALL), i + 1 == fails_at ? -EBADMSG : 0);
			for (size_t k = 0; k < 2; k++) /* the batch has told its time to the stages behind the first */
				assert_true(witnesses[k + 1].stage.complete_ns >= 100 * i);
		}
		assert_int_equal(writer_close(writer, &stored), expected);
		assert_int_equal(log.len, 3 * (fails_at ? fails_at : NR));
		for (size_t i = 0; i < log.len; i++)
			assert_int_equal(log.data[i], "abc"[i % 3]);
		assert_int_equal(stored, (fails_at ? fails_at - 1 : NR) * span.len);
		batch_pool_free(pool);
		buf_fini(&log);
	}
}

struct knowing {
	struct stage_maker maker;
	unsigned nr_calls;
	int err;
	const void *records;
};

static int learn(struct stage_maker *maker, struct span records)
{
	struct knowing *knowing = (struct knowing *)maker;

	knowing->nr_calls++;
	knowing->records = records.ptr;
	return knowing->err;
}

/* Those who want it are told the initial state once, in their order, up to the first that fails. */
static void test_initial_state_once(void **state)
{
	struct knowing all[4] = {{.maker.initial_state = learn},
				 {.nr_calls = 0},
				 {.maker.initial_state = learn},
				 {.maker.initial_state = learn}};
	struct stage_maker *first = NULL, *each;
	size_t nr = 0;

	(void)state;
	assert_int_equal(stage_makers_initial_state(NULL, (struct span){"abc", 3}), 0);
	for (size_t i = 0; i < 4; i++)
		stage_makers_add(&first, &all[i].maker);
	for (each = first; each; each = each->next)
		assert_ptr_equal(each, &all[nr++].maker);
	assert_int_equal(nr, 4);
	all[2].err = -ENOMEM;
	assert_int_equal(stage_makers_initial_state(first, (struct span){"abc", 3}), -ENOMEM);
	assert_int_equal(all[0].nr_calls, 1);
	assert_non_null(all[0].records);
	assert_int_equal(all[1].nr_calls, 0);
	assert_int_equal(all[2].nr_calls, 1);
	assert_int_equal(all[3].nr_calls, 0);
	all[2].err = 0;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(stage_makers_initial_state(first, (struct span){"abc", 3}), 0);
	assert_int_equal(all[0].nr_calls, 1);
	assert_int_equal(all[3].nr_calls, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_writer_keeps_the_records),
		cmocka_unit_test(test_large_extents),
		cmocka_unit_test(test_each_record_gives_bytes),
		cmocka_unit_test(test_a_flipped_byte_costs_one_extent),
		cmocka_unit_test(test_a_cut_costs_one_extent),
		cmocka_unit_test(test_error_of_the_writer_sticks),
		cmocka_unit_test(test_extents_before_an_error_stay),
		cmocka_unit_test(test_stages_change_what_is_written),
		cmocka_unit_test(test_the_time_of_compressing_in_a_ring),
		cmocka_unit_test(test_stages_keep_batches),
		cmocka_unit_test(test_a_commit_is_about_what_stages_kept),
		cmocka_unit_test(test_who_keeps_nothing_is_not_asked_for_memory),
		cmocka_unit_test(test_who_keeps_something_is_asked_once),
		cmocka_unit_test(test_who_keeps_little_is_not_asked_for_it),
		cmocka_unit_test(test_who_lacks_memory_does_not_ask_a_stage_that_ends),
		cmocka_unit_test(test_stages_of_a_failed_output_keep_nothing),
		cmocka_unit_test(test_error_of_a_flush),
		cmocka_unit_test(test_error_of_a_stage_sticks),
		cmocka_unit_test(test_error_behind_a_stage),
		cmocka_unit_test(test_stage_pass_returns_the_error),
		cmocka_unit_test(test_error_of_a_stage_outlives_a_store),
		cmocka_unit_test(test_stages_in_a_row),
		cmocka_unit_test(test_initial_state_once),
		cmocka_unit_test(test_long_bytes_keep_their_place),
		cmocka_unit_test(test_long_bytes_on_a_full_disk),
		cmocka_unit_test(test_bytes_that_are_no_records),
		cmocka_unit_test(test_damage_in_a_stream_ends_where_another_begins),
		cmocka_unit_test(test_what_is_compressed_in_its_ring),
		cmocka_unit_test(test_what_is_seen_in_its_ring),
		cmocka_unit_test(test_extents_stay_long_where_some_records_hardly_repeat),
		cmocka_unit_test(test_what_is_old_is_committed),
		cmocka_unit_test(test_the_last_is_held),
		cmocka_unit_test(test_what_is_held_can_be_forgotten),
		cmocka_unit_test(test_what_was_dropped_of_each_producer),
		cmocka_unit_test(test_little_is_put_behind_what_is_held),
		cmocka_unit_test(test_a_requested_snapshot_does_not_age),
		cmocka_unit_test(test_how_much_a_writer_is_given),
		cmocka_unit_test(test_nothing_new_is_not_committed),
		cmocka_unit_test(test_a_wait_for_room_ends_with_room),
		cmocka_unit_test(test_time_without_room_is_counted_once),
		cmocka_unit_test(test_a_wait_for_room_ends_with_an_error),
		cmocka_unit_test(test_a_drain_stores_few_at_once),
		cmocka_unit_test(test_a_producer_is_closed_when_all_of_it_was_seen),
		cmocka_unit_test(test_writes_that_wait_are_for_workers),
		cmocka_unit_test(test_records_that_wrap_behind_their_headers),
		cmocka_unit_test(test_memory_is_full_of_what_is_compressed),
		cmocka_unit_test(test_memory_is_full_of_what_is_left_of_dumps),
		cmocka_unit_test(test_pressure_is_reported),
		cmocka_unit_test(test_what_takes_long_is_given_up),
		cmocka_unit_test(test_the_level_is_changed_on_the_way),
	};
	return zstd_available() ? cmocka_run_group_tests_name("pack", tests, NULL, NULL) : 77;
}
