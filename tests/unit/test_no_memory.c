/* SPDX-License-Identifier: MIT */
/* Each allocation fails once: that is reported, nothing crashes, and what was there can be freed. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "compress/extent.h"
#include "compress/extent_index.h"
#include "compress/extent_stats.h"
#include "compress/stack_cut.h"
#include "compress/zstd.h"
#include "event/parse/event.h"
#include "perfdata/ledger.h"
#include "perfdata/record.h"
#include "read/order.h"
#include "read/source.h"
#include "record/drain/readers.h"
#include "record/run/ledger.h"
#include "record/setup/eventset.h"
#include "session_file.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/producers.h"
#include "stream/staging.h"
#include "stream/writer.h"
#include "sysinfo/library.h"
#include "tests/fake/fake_elf.h"
#include "unwind/object.h"
#include "unwind/unwind.h"

/* The linker puts these in the place of libc's (--wrap): the allocation with that number fails. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t nr, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_reallocarray(void *old, size_t nr, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
/* What libzstd allocates is not seen here: it fails as a whole. It is loaded (sysinfo/library.h). */
static size_t (*real_decompress)(void *context, void *to, size_t room, const void *from, size_t len);
static size_t (*real_decompress_stream)(void *context, void *to, void *from);
bool __real_library_load(const char *file, const struct library_function *functions, size_t nr);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t nr, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_reallocarray(void *old, size_t nr, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
bool __wrap_library_load(const char *file, const struct library_function *functions, size_t nr);

static size_t countdown; /* 0: none fails */

static bool fails(void)
{
	if (!countdown || --countdown)
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t bytes)
{
	return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t nr, size_t bytes)
{
	return fails() ? NULL : __real_calloc(nr, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
	return fails() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_reallocarray(void *old, size_t nr, size_t bytes)
{
	return fails() ? NULL : __real_reallocarray(old, nr, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	return fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

static const size_t zstd_has_no_memory = (size_t)-64; /* ZSTD_error_memory_allocation of <zstd_errors.h> */

static size_t decompress(void *context, void *to, size_t room, const void *from, size_t len)
{
	return fails() ? zstd_has_no_memory : real_decompress(context, to, room, from, len);
}

static size_t decompress_stream(void *context, void *to, void *from)
{
	return fails() ? zstd_has_no_memory : real_decompress_stream(context, to, from);
}

bool __wrap_library_load(const char *file, const struct library_function *functions, size_t nr)
{
	size_t (*const own)(void *, void *, size_t, const void *, size_t) = decompress;
	size_t (*const own_stream)(void *, void *, void *) = decompress_stream;
	const bool loaded = __real_library_load(file, functions, nr);

	for (size_t i = 0; i < nr; i++) {
		if (!strcmp(functions[i].name, "ZSTD_decompressDCtx")) {
			memcpy(&real_decompress, functions[i].to, sizeof(real_decompress));
			memcpy(functions[i].to, &own, sizeof(own));
		} else if (!strcmp(functions[i].name, "ZSTD_decompressStream")) {
			memcpy(&real_decompress_stream, functions[i].to, sizeof(real_decompress_stream));
			memcpy(functions[i].to, &own_stream, sizeof(own_stream));
		}
	}
	return loaded;
}

/*
 * With the first, the second, … allocation that fails, until none is left. An operation returns 0, or -errno. Each
 * failure must be seen, but where `may_succeed`: there is a way without that memory.
 */
static void fail_each(const char *name, int (*operation)(void), bool may_succeed)
{
	for (size_t number = 1;; number++) {
		countdown = number;
		int err = operation();
		bool none_failed = countdown;
		countdown = 0;
		if (none_failed) {
			assert_int_equal(err, 0);
			assert_true(number > 1); /* it has allocated something */
			return;
		}
		if (err != -ENOMEM && !(may_succeed && !err))
			fail_msg("%s: allocation %zu failed, and the result is %d", name, number, err);
	}
}

static int make_ledger(void)
{
	const struct ledger_entry entry = {.cause = LEDGER_RING_FULL, .to_ns = 5, .count = 1};
	const struct ledger_action action = {.ns = 1};
	struct ledger ledger = {.counted = true}, read = {0}, sum_of_all = {0};
	struct ledger_entry *gaps = NULL;
	AUTO_BUF struct buf out = {0};
	struct ledger_sum sum;
	size_t nr;

	int err = ledger_add(&ledger, &entry);
	if (!err)
		err = ledger_add_action(&ledger, &action);
	if (!err)
		err = ledger_add_cost(&ledger, "name", 1);
	if (!err)
		err = ledger_set_cost(&ledger, "other", 1);
	if (!err)
		err = ledger_add_actions(&sum_of_all, &ledger);
	if (!err) {
		ledger_encode(&ledger, &out);
		err = buf_status(&out);
	}
	if (!err)
		err = ledger_decode(buf_span(&out), &read);
	if (!err)
		err = ledger_join(&read, ledger.entries, 1, &gaps, &nr);
	if (!err)
		err = ledger_sum(gaps, nr, &sum);
	free(gaps);
	ledger_fini(&read);
	ledger_fini(&ledger);
	ledger_fini(&sum_of_all);
	return err;
}

static int take_words(struct loss_times *times, uint32_t type, const uint64_t *words, size_t nr)
{
	uint64_t record[16];
	const struct perf_event_header header = {.type = type, .size = (uint16_t)(8 + 8 * nr)};

	memcpy(record, &header, sizeof(header));
	memcpy(record + 1, words, 8 * nr);
	return loss_times_take(times, (const uint8_t *)record, &header);
}

static int find_losses(void)
{
	static const uint64_t index[] = {1, 100, 0, 0, UINT64_MAX}, first[] = {100, 10}, lost[] = {100, 3, 20, 100};
	static uint64_t id = 100;
	const struct event_desc event = {.attr = {.type = PERF_TYPE_TRACEPOINT,
						  .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME,
						  .sample_id_all = 1},
					 .ids = &id,
					 .nr_ids = 1};
	struct ledger_entry reading = {.cause = LEDGER_RING_FULL, .tid = -1, .from_ns = 30, .to_ns = 40, .count = 9};
	const struct ledger ledger = {.counted = true, .entries = &reading, .nr_entries = 1};
	struct loss_times times;

	int err = loss_times_init(&times, &event, 1);
	if (!err)
		err = take_words(&times, RECORD_ID_INDEX, index, 5);
	if (!err)
		err = take_words(&times, PERF_RECORD_SAMPLE, first, 2);
	if (!err)
		err = take_words(&times, PERF_RECORD_LOST, lost, 4);
	if (!err)
		err = loss_times_end(&times, 50, &ledger);
	if (!err)
		assert_int_equal(times.nr_gaps, 2);
	loss_times_fini(&times);
	return err;
}

/* A loss that the counters alone tell, of the one ring. */
static int find_untold_loss(void)
{
	static uint64_t id = 100;
	const struct event_desc event = {
		.attr = {.type = PERF_TYPE_TRACEPOINT, .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME},
		.ids = &id,
		.nr_ids = 1};
	struct ledger_entry reading = {
		.cause = LEDGER_RING_FULL, .cpu = -1, .tid = -1, .from_ns = 30, .to_ns = 40, .count = 9};
	const struct ledger ledger = {.counted = true, .entries = &reading, .nr_entries = 1};
	struct loss_times times;

	int err = loss_times_init(&times, &event, 1);
	if (!err)
		err = loss_times_end(&times, 50, &ledger);
	if (!err)
		assert_int_equal(times.nr_gaps, 1);
	loss_times_fini(&times);
	return err;
}

/* More runs than there is room for at first. */
static int sort_records(void)
{
	struct order order = {0};
	struct order_entry entry;
	size_t nr = 0;
	int err = 0;

	for (uint64_t i = 0; i < 5000 && !err; i++)
		err = order_push(&order, &(struct order_entry){.time_ns = 5000 - i % 300});
	if (!err)
		err = order_finish(&order);
	while (!err && order_pop(&order, &entry))
		nr++;
	if (!err)
		assert_int_equal(nr, 5000);
	order_fini(&order);
	return err;
}

static int merge_records(void)
{
	struct merge merge;
	int err = merge_init(&merge, 2);

	if (err)
		return err;
	for (size_t file = 0; file < 2 && !err; file++)
		err = merge_put(&merge, file, &(struct order_entry){.time_ns = file});
	merge_fini(&merge);
	return err;
}

/* How the records of a source end. A whole file is not called damaged because memory was short. */
static int read_all(struct source *source, size_t expected)
{
	struct source_record record;
	struct diag why = {""};
	size_t nr = 0;
	int got;

	while ((got = source_next(source, &record, &why)) > 0) {
		if (got == SOURCE_GAP)
			fail_msg("a gap in a whole file: %s", why.text);
		nr++;
	}
	source_close(source);
	if (!got)
		assert_int_equal(nr, expected);
	else if (!strstr(why.text, "memory")) /* "out of memory", or as strerror(3) has it */
		fail_msg("ends with %d: %s", got, why.text);
	return got;
}

static void put_sample(struct buf *out)
{
	const struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = 24};

	buf_put(out, &header, sizeof(header));
	buf_put(out, "sixteen bytes ..", 16);
}

static int read_unaligned(void)
{
	static uint64_t words[7];
	struct buf bytes = {0};
	size_t enough = countdown;

	countdown = 0; /* what the test itself needs is there */
	for (size_t i = 0; i < 2; i++)
		put_sample(&bytes);
	memcpy((uint8_t *)words + 4, bytes.data, bytes.len);
	const struct source_range range = {.whole = {(uint8_t *)words + 4, bytes.len}, .end = bytes.len};
	buf_fini(&bytes);
	countdown = enough;
	struct source *source;
	int err = source_open_range(&range, &source);
	return err ? err : read_all(source, 2);
}

/* Two COMPRESSED2 records, the first of which says that it is both: copied, as they are put right. */
static int read_chunk(void)
{
	enum { FIRST = UINT16_MAX, SECOND = 100, BYTES = FIRST + SECOND };
	static uint64_t words[BYTES / 8 + 1];
	const struct perf_event_header first = {.type = RECORD_COMPRESSED2, .size = (uint16_t)((BYTES + 7) & ~7)};
	const struct perf_event_header second = {.type = RECORD_COMPRESSED2, .size = SECOND};
	const struct source_range range = {.whole = {words, BYTES}, .end = BYTES};
	struct source *source;

	memcpy(words, &first, sizeof(first));
	words[1] = BYTES - 16;
	memcpy((uint8_t *)words + FIRST, &second, sizeof(second));
	int err = source_open_range(&range, &source);
	return err ? err : read_all(source, 2);
}

static int read_pipe(void)
{
	static const volatile sig_atomic_t *const stop = NULL;
	struct buf bytes = {0};
	struct source *source;
	size_t enough = countdown;
	int ends[2];

	countdown = 0;
	put_sample(&bytes);
	const struct perf_event_header tracing = {.type = RECORD_TRACING_DATA, .size = 16};
	buf_put(&bytes, &tracing, sizeof(tracing));
	buf_put_u64(&bytes, 8);
	buf_put_u64(&bytes, 0);
	put_sample(&bytes);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fd_write(ends[1], bytes.data, bytes.len), 0);
	close(ends[1]);
	buf_fini(&bytes);
	countdown = enough;
	int err = source_open_pipe(ends[0], &stop, &source);
	if (!err)
		err = read_all(source, 3);
	close(ends[0]);
	return err;
}

enum { NR_PACKED = 1000 };
static struct buf packed;   /* an extent of samples */
static struct buf streamed; /* the same as perf compresses it: without its length */

static int read_compressed(const struct buf *file)
{
	const struct source_range range = {.whole = buf_span(file), .end = file->len};
	struct source *under, *source;
	int err = source_open_range(&range, &under);

	if (!err)
		err = source_open_unpack(under, false, &source);
	return err ? err : read_all(source, NR_PACKED);
}

static int read_packed(void)
{
	return read_compressed(&packed);
}

static int read_streamed(void)
{
	return read_compressed(&streamed);
}

static void make_streamed(void)
{
	const struct zstd_pack_params params = {.level = 1, .no_size = true};
	struct perf_event_header header = {.type = RECORD_COMPRESSED};
	struct zstd_packer *packer;
	struct buf records = {0};

	for (size_t i = 0; i < NR_PACKED; i++)
		put_sample(&records);
	buf_put(&streamed, &header, sizeof(header));
	const size_t room = zstd_bound(records.len);
	uint8_t *frame = buf_extend(&streamed, room);
	assert_int_equal(zstd_packer_new(&packer), 0);
	int64_t len = zstd_pack(packer, &params, buf_span(&records), frame, room);
	assert_in_range(len, 1, UINT16_MAX - sizeof(header));
	streamed.len = sizeof(header) + (size_t)len;
	header.size = (uint16_t)streamed.len;
	memcpy(streamed.data, &header, sizeof(header));
	zstd_packer_free(packer);
	buf_fini(&records);
}

static int pack(void)
{
	const struct extent_pack_params how = {.level = 1};
	struct extent_packer *packer;
	struct buf records = {0};
	size_t enough = countdown;

	countdown = 0;
	for (size_t i = 0; i < NR_PACKED; i++)
		put_sample(&records);
	packed.len = 0;
	uint8_t *room = buf_extend(&packed, records.len);
	countdown = enough;
	int err = extent_packer_new(&packer);
	if (!err) {
		int64_t len = extent_pack(packer, &how, buf_span(&records), room, records.len);
		err = len < 0 ? (int)len : 0;
		packed.len = len > 0 ? (size_t)len : 0;
		extent_packer_free(packer);
	}
	buf_fini(&records);
	return err;
}

static int list_extents(void)
{
	AUTO_EXTENTS struct extent_list list = {0}, all = {0};
	AUTO_BUF struct buf out = {0};
	int err = 0;

	for (uint64_t i = 0; i < 100 && !err; i++)
		err = extent_list_add(&list, &(struct extent_info){.fields = {.offset = i, .bytes = 1}});
	if (!err)
		err = extent_list_join(&all, &list, 3);
	if (!err) {
		extent_index_encode(&all, UINT64_MAX, &out);
		err = buf_status(&out);
	}
	return err;
}

static uint64_t dump_id = 7;
static const struct event_desc dumps = {
	.attr = {.size = sizeof(struct perf_event_attr),
		 .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_CPU | PERF_SAMPLE_STACK_USER},
	.ids = &dump_id,
	.nr_ids = 1};

static int make_pool(void)
{
	const struct batch_pool_params params = {.nr_pipelines = 1, .nr_workers = 1, .events = &dumps, .nr_events = 1};
	struct batch_pool *pool;
	struct diag why = {""};
	int err = batch_pool_new(&params, &pool, &why);

	if (err)
		assert_non_null(strstr(why.text, "memory"));
	else
		batch_pool_free(pool);
	return err;
}

static const uint64_t one_record[] = {(uint64_t)16 << 48 | PERF_RECORD_SAMPLE, 1};

static int put_record(struct writer *writer)
{
	const struct span span = {one_record, sizeof(one_record)};
	int err = writer_queue(writer, &span, 1);

	return err ? err : writer_complete(writer, WRITER_ALL);
}

/* Two extents, one of each of two producers, through a pipeline; no index is better than half of one. */
static int write_records(bool no_index)
{
	const struct batch_pool_params params = {
		.nr_pipelines = 2, .nr_workers = 1, .extent_bytes = 8192, .budget_bytes = 65536, .no_index = no_index};
	struct writer *inner, *writer, *producer;
	struct batch_pool *pool;
	struct writer_end end;
	int err = batch_pool_new(&params, &pool, NULL);

	if (err)
		return err;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	err = writer_open(&writer_serial, &(struct writer_params){.fd = fd}, &inner);
	if (!err)
		err = pipeline_open(pool, inner, &writer);
	if (!err) {
		pipeline_share(writer, &(struct producers_params){.nr = 2});
		err = producer_open(writer, &producer);
		if (!err) {
			assert_int_equal(put_record(producer), 0);
			assert_int_equal(put_record(writer), 0);
			assert_int_equal(writer_close(producer, NULL), 0);
		}
		assert_int_equal(writer_end(writer, &end), 0);
		assert_int_equal(end.stored, err ? 0 : 2 * sizeof(one_record));
		assert_true(end.extents.nr == (no_index ? 0 : 2) || (!end.extents.nr && !countdown));
		extent_list_fini(&end.extents);
	}
	close(fd);
	batch_pool_free(pool);
	return err;
}

static int write_indexed(void)
{
	return write_records(false);
}

static int write_plain(void)
{
	return write_records(true);
}

static int hold_records(void)
{
	const struct batch_pool_params params = {
		.nr_pipelines = 1, .nr_workers = 1, .extent_bytes = 8192, .budget_bytes = 65536, .no_index = true};
	const struct retained_limits limits = {.duration_ns = UINT64_MAX / 2, .bytes = SIZE_MAX};
	struct batch_pool *pool;
	struct writer *writer, *producer;
	int err = batch_pool_new(&params, &pool, NULL);

	if (err)
		return err;
	err = pipeline_open_retained(pool, &limits, &writer);
	if (!err) {
		pipeline_share(writer, &(struct producers_params){.nr = 2});
		int open_err = producer_open(writer, &producer);
		err = open_err ? 0 : writer_close(producer, NULL);
		err = err ? err : put_record(writer);
		assert_int_equal(writer_close(writer, NULL), err);
		err = open_err ? open_err : err;
	}
	batch_pool_free(pool);
	return err;
}

static int make_staging(void)
{
	struct staging staging;
	int err = staging_init(&staging, 4, 4096);

	if (!err)
		staging_fini(&staging);
	return err;
}

static int make_header(void)
{
	AUTO_BUF struct buf out = {0};
	struct file_events file;
	struct file_header header;

	file_events_init(&file);
	return header_encode(file.events, 2, &out, &header);
}

/* Of one slot, which has lost seven records, as its counter says, or nothing. */
static int keep(int (*work)(struct ledger_book *book, struct ledger *span), bool loses, struct stack_cutter *cutter)
{
	static const uint64_t counted[5] = {1, 2, 7}; /* value, id, lost */
	struct event event = {.attr = {.read_format = PERF_FORMAT_LOST | PERF_FORMAT_ID,
				       .use_clockid = 1,
				       .clockid = CLOCK_MONOTONIC}};
	struct event_list list = {.events = &event, .nr = 1};
	struct plan_slot slot = {.pid = -1};
	struct plan_ring ring = {.channel = CHANNEL_DATA};
	struct plan plan = {.slots = &slot, .nr_slots = 1, .rings = &ring, .nr_rings = 1, .nr_drained = 1};
	struct ledger span = {0};
	struct ledger_book book;
	int ends[2];

	assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
	if (loses)
		assert_int_equal(write(ends[1], counted, sizeof(counted)), sizeof(counted));
	_Atomic uint64_t lost_before = 0;
	const struct eventset set = {.plan = &plan, .events = &list, .fds = ends, .lost_before = &lost_before};
	int err = ledger_book_open(&book, &set, cutter);
	if (!err)
		err = work(&book, &span);
	ledger_fini(&span);
	ledger_book_fini(&book);
	close(ends[0]);
	close(ends[1]);
	return err;
}

static int read_and_cut(struct ledger_book *book, struct ledger *span)
{
	int err = ledger_book_read(book);

	if (!err)
		err = ledger_book_cut(book, span);
	if (!err)
		assert_int_equal(span->nr_entries, 1);
	return err;
}

static int keep_losses(void)
{
	return keep(read_and_cut, true, NULL);
}

static int only_close(struct ledger_book *book, struct ledger *span)
{
	(void)span;
	return ledger_book_close(book);
}

static int keep_to_the_end(void)
{
	return keep(only_close, true, NULL);
}

static int only_read(struct ledger_book *book, struct ledger *span)
{
	int err = ledger_book_read(book);

	(void)span;
	if (!err)
		assert_int_equal(book->ledger.nr_entries, 1);
	return err;
}

static int keep_cut_stacks(void)
{
	uint64_t record[] = {0, dump_id, 0, 16, 0xa, 0xb, 16}; /* CPU 0, a stack of two words */
	const struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = sizeof(record)};
	struct extent_stats *stats = NULL;
	struct stack_cutter *cutter = NULL;

	memcpy(record, &header, sizeof(header));
	int err = extent_stats_new(&dumps, 1, &stats);
	if (!err)
		err = stack_cutter_new(&dumps, 1, stats, &cutter);
	if (!err) {
		assert_int_equal(stack_cut(cutter, (uint8_t *)record, 8), 8);
		err = keep(only_read, false, cutter);
	}
	stack_cutter_free(cutter);
	extent_stats_free(stats);
	return err;
}

/* Two threads that drain, and two files. */
static int add_costs(void)
{
	static struct reader threads[2];
	const struct readers readers = {.readers = threads, .nr = 2};
	const uint64_t housekeeping_ns = 5;
	struct recorder_cost cost = {.readers = &readers, .housekeeping_cpu_ns = &housekeeping_ns};
	struct ledger all = {0}, first = {0}, second = {0};

	int err = recorder_cost_cut(&cost, &first);
	if (!err)
		err = recorder_cost_cut(&cost, &second);
	if (!err)
		err = recorder_cost_add(&cost, &all);
	if (!err) {
		assert_int_equal(first.nr_costs, all.nr_costs);
		assert_int_equal(second.nr_costs, all.nr_costs);
	}
	ledger_fini(&all);
	ledger_fini(&first);
	ledger_fini(&second);
	recorder_cost_fini(&cost);
	return err;
}

/* The gaps are those of readings, as no record of samples tells any. */
static int make_coverage(void)
{
	struct ledger_entry reading = {.cause = LEDGER_RING_FULL, .tid = -1, .from_ns = 30, .to_ns = 40, .count = 9};
	struct ledger ledger = {.counted = true, .ended_ns = 100, .entries = &reading, .nr_entries = 1};
	const struct coverage_params params = {.ledger = &ledger, .nr_places = 1};
	struct coverage coverage;

	int err = coverage_make(&params, &coverage);
	if (!err)
		assert_int_equal(coverage.sum.gap_ns, 10);
	return err;
}

/* Rows of several forms, and a rule that needs more than a row. */
static int build_tables(void)
{
	static const uint8_t wide[] = {0x0f /* DW_CFA_def_cfa_expression */, 3, 0x76, 0x78, 0x06};
	struct fake_elf elf;
	struct diag why = {""};
	size_t enough = countdown;

	countdown = 0;
	fake_elf_init(&elf, EM_X86_64);
	fake_elf_cie(&elf, "zR", "\x0c\x07\x08\x90\x01", 5);
	fake_elf_fde(&elf, 0x40, 0x20, wide, sizeof(wide));
	fake_elf_fde(&elf, 0, 0x20, "\x41\x0e\x10", 3);
	int fd = fake_elf_open(&elf);
	assert_true(fd >= 0);
	countdown = enough;
	struct unwind_tables *tables = unwind_tables_new("x86_64", 1 << 20);
	struct unwind_object *object = tables ? unwind_tables_object(tables, "object", 6) : NULL;
	int err = object ? unwind_object_build(object, fd, &why) : -ENOMEM;
	if (!err)
		err = unwind_object_complete(object);
	unwind_tables_free(tables);
	close(fd);
	return err == -EBADMSG ? -ENOMEM : err; /* rules that could not be kept count as not understood */
}

static void test_each_allocation_fails(void **state)
{
	(void)state;
	fail_each("make_ledger", make_ledger, false);
	fail_each("find_losses", find_losses, false);
	fail_each("find_untold_loss", find_untold_loss, false);
	fail_each("sort_records", sort_records, false);
	fail_each("merge_records", merge_records, false);
	fail_each("read_unaligned", read_unaligned, false);
	fail_each("read_chunk", read_chunk, false);
	fail_each("read_pipe", read_pipe, false);
	fail_each("list_extents", list_extents, false);
	fail_each("make_pool", make_pool, false);
	fail_each("write_indexed", write_indexed, true); /* the index is left out then */
	fail_each("write_plain", write_plain, true);     /* what is stored is known later then */
	fail_each("hold_records", hold_records, false);
	fail_each("make_staging", make_staging, false);
	fail_each("make_header", make_header, false);
	fail_each("keep_losses", keep_losses, false);
	fail_each("keep_to_the_end", keep_to_the_end, false);
	fail_each("keep_cut_stacks", keep_cut_stacks, false);
	fail_each("add_costs", add_costs, false);
	fail_each("make_coverage", make_coverage, false);
	fail_each("build_tables", build_tables, false);
}

static void test_compressed_records(void **state)
{
	(void)state;
	if (!zstd_available())
		skip();
	fail_each("pack", pack, true); /* the search for repeats needs some, which is left out then */
	fail_each("read_packed", read_packed, false);
	buf_fini(&packed);
	make_streamed();
	fail_each("read_streamed", read_streamed, false);
	buf_fini(&streamed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_allocation_fails),
		cmocka_unit_test(test_compressed_records),
	};

	return cmocka_run_group_tests_name("no_memory", tests, NULL, NULL);
}
