/* SPDX-License-Identifier: MIT */
/* The pump and its writers, fed by rings that this test fills by the kernel's protocol. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "perfdata/record.h"
#include "record/drain/relief.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/producers.h"
#include "stream/ring.h"
#include "stream/stage.h"
#include "stream/stream.h"
#include "stream/writer.h"
#include "sysinfo/thread.h"

enum { RING_BYTES = 4096 };

struct fake {
	struct perf_event_mmap_page page;
	uint64_t data[RING_BYTES / 8];
	uint64_t next; /* number of the next record */
};

/* The kernel's part: a 16-byte record with a number; false when the ring has no room for it. */
static bool produce(struct fake *fake, uint64_t number)
{
	uint64_t head = fake->page.data_head, tail = __atomic_load_n(&fake->page.data_tail, __ATOMIC_ACQUIRE);

	if (RING_BYTES - (head - tail) < 16)
		return false;
	fake->data[head % RING_BYTES / 8] = (uint64_t)16 << 48 | PERF_RECORD_SAMPLE;
	fake->data[(head + 8) % RING_BYTES / 8] = number;
	__atomic_store_n(&fake->page.data_head, head + 16, __ATOMIC_RELEASE);
	return true;
}

static void start(struct fake *fake, struct ring *ring, uint64_t position)
{
	memset(fake, 0, sizeof(*fake));
	fake->page.data_head = fake->page.data_tail = position;
	ring_attach(ring, &fake->page, fake->data, RING_BYTES);
}

/* Every record of ring r is number r<<32 | n with n counting up; returns how many there are. */
static uint64_t check_numbers(struct span out, uint64_t counts[], unsigned nr, uint64_t *ret_marks)
{
	uint64_t total = 0;

	for (size_t at = 0; at < out.len;) {
		const struct perf_event_header *header = (const void *)((const char *)out.ptr + at);
		assert_true(header->size >= sizeof(*header) && header->size <= out.len - at);
		at += header->size;
		if (header->type == RECORD_FINISHED_ROUND) {
			++*ret_marks;
			continue;
		}
		uint64_t number;
		memcpy(&number, header + 1, sizeof(number));
		assert_in_range(number >> 32, 0, nr - 1);
		assert_int_equal(number & UINT32_MAX, counts[number >> 32]);
		counts[number >> 32]++;
		total++;
	}
	return total;
}

static void test_wrapped_once_in_order(void **state)
{
	enum { NR_RINGS = 3 };
	static struct fake fakes[NR_RINGS];
	struct ring rings[NR_RINGS];
	uint64_t counts[NR_RINGS] = {0}, marks = 0, made = 0;
	struct stream stream = {.rings = rings, .nr_rings = NR_RINGS, .flush_bytes = 1, .round_bytes = RING_BYTES};

	(void)state;
	/* Positions that wrap the ring, and the counter itself. */
	start(&fakes[0], &rings[0], 0);
	start(&fakes[1], &rings[1], RING_BYTES - 16);
	start(&fakes[2], &rings[2], UINT64_MAX - 47);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	srand(1);
	for (int pass = 0; pass < 1000; pass++) {
		for (unsigned r = 0; r < NR_RINGS; r++) {
			for (int i = rand() % 300; i > 0; i--) {
				if (!produce(&fakes[r], (uint64_t)r << 32 | fakes[r].next))
					break;
				fakes[r].next++;
				made++;
			}
		}
		assert_true(stream_pump(&stream, pass % 7 ? STREAM_FLOW : STREAM_DRAIN) >= 0);
	}
	assert_true(stream_pump(&stream, STREAM_DRAIN) >= 0);
	assert_int_equal(check_numbers(writer_mem_bytes(stream.writer), counts, NR_RINGS, &marks), made);
	assert_int_equal(marks, stream.counters.rounds);
	assert_true(marks > 10);
	assert_int_equal(stream.counters.bytes, made * 16);
	for (unsigned r = 0; r < NR_RINGS; r++)
		assert_int_equal(fakes[r].page.data_tail, fakes[r].page.data_head);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
}

/* A ring with so little room that a record may have been dropped is told of, before its room is the kernel's again. */
static void test_full_rings_are_noted(void **state)
{
	enum { BYTES = 1 << 17 };
	static uint64_t data[BYTES / 8];
	static struct perf_event_mmap_page page;
	static const struct perf_event_header record = {.type = PERF_RECORD_SAMPLE, .size = 32768};
	_Atomic uint64_t full_ns = 0;
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1, .full_ns = &full_ns};

	(void)state;
	for (size_t at = 0; at < BYTES; at += record.size)
		memcpy((uint8_t *)data + at, &record, sizeof(record));
	ring_attach(&ring, &page, data, BYTES);
	assert_int_equal(writer_open(&writer_null, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	page.data_head = BYTES / 2;
	assert_int_equal(stream_pump(&stream, STREAM_ALL), BYTES / 2);
	assert_int_equal(full_ns, 0); /* the largest had room */
	const uint64_t before_ns = stream.writer->complete_ns;
	assert_true(before_ns > 0);
	page.data_head += BYTES / 4 * 3;
	assert_int_equal(stream_pump(&stream, STREAM_ALL), BYTES / 4 * 3);
	assert_int_equal(full_ns, before_ns + 1);
	assert_true(stream.writer->complete_ns >= full_ns);
	page.data_head += BYTES;
	assert_int_equal(stream_pump(&stream, STREAM_ALL), BYTES);
	assert_int_equal(full_ns, before_ns + 1); /* the first since it was 0 */
	assert_int_equal(writer_close(stream.writer, NULL), 0);
}

static void test_flush_leaves_little(void **state)
{
	static struct fake fake;
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 64, .round_bytes = 0};

	(void)state;
	start(&fake, &ring, 0);
	assert_int_equal(writer_open(&writer_null, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	for (uint64_t i = 0; i < 3; i++)
		produce(&fake, i);
	assert_int_equal(stream_pump(&stream, STREAM_FLOW), 0);
	produce(&fake, 3);
	assert_int_equal(stream_pump(&stream, STREAM_FLOW), 64);
	produce(&fake, 4);
	assert_int_equal(stream_pump(&stream, STREAM_FLOW), 0);
	assert_int_equal(stream_pump(&stream, STREAM_COMMIT), 16);
	produce(&fake, 5);
	assert_int_equal(stream_pump(&stream, STREAM_FLOW), 0);
	assert_int_equal(stream_pump(&stream, STREAM_DRAIN), 16);
	assert_int_equal(stream.counters.rounds, 0);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
}

/* The same rings, rates and passes through every writer: each must give the same bytes as the mem writer. */
struct run {
	unsigned nr_rings;
	size_t flush_bytes;
	uint64_t start; /* of every ring: near the end of it, records wrap at once */
};

enum { MAX_RINGS = 64, NR_PASSES = 21 };

static void pump_run(const struct run *run, struct writer *writer)
{
	static struct fake fakes[MAX_RINGS];
	struct ring rings[MAX_RINGS];
	struct stream stream = {
		.rings = rings,
		.nr_rings = run->nr_rings,
		.flush_bytes = run->flush_bytes,
		.round_bytes = 8192,
		.writer = writer,
	};

	for (unsigned r = 0; r < run->nr_rings; r++)
		start(&fakes[r], &rings[r], run->start);
	srand(7);
	for (int pass = 0; pass < NR_PASSES; pass++) {
		for (unsigned r = 0; r < run->nr_rings; r++)
			for (int i = rand() % 300; i > 0; i--)
				if (produce(&fakes[r], (uint64_t)r << 32 | fakes[r].next))
					fakes[r].next++;
		assert_true(stream_pump(&stream, pass % 20 ? STREAM_FLOW : STREAM_DRAIN) >= 0);
	}
	assert_true(stream_pump(&stream, STREAM_DRAIN) >= 0);
	assert_int_equal(writer->stored, writer->queued);
}

static struct writer *pump_into_mem(const struct run *run)
{
	struct writer *mem;

	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &mem), 0);
	pump_run(run, mem);
	return mem;
}

static void compare(struct span expected, const struct writer_ops *ops, const struct run *run, size_t nr_blocks, int fd)
{
	static const char front[] = "what stands before the records";
	struct writer *writer;
	struct writer_params params = {
		.fd = fd,
		.path = "out",
		.offset = sizeof(front),
		.nr_blocks = nr_blocks,
		.block_bytes = RING_BYTES,
		.window_bytes = 3 * 4096,
	};

	assert_true(fd >= 0);
	assert_int_equal(write(fd, front, sizeof(front)), sizeof(front));
	int err = writer_open(ops, &params, &writer);
	if (err) {
		print_message("%s is not allowed here: %s\n", ops->name, strerror(-err));
		assert_true(ops->optional);
		close(fd);
		return;
	}
	pump_run(run, writer);
	uint64_t stored;
	assert_int_equal(writer_close(writer, &stored), 0);
	assert_int_equal(stored, expected.len);
	assert_int_equal(lseek(fd, 0, SEEK_END), sizeof(front) + expected.len);
	char *found = malloc(expected.len);
	assert_int_equal(pread(fd, found, expected.len, sizeof(front)), expected.len);
	assert_memory_equal(found, expected.ptr, expected.len);
	free(found);
	close(fd);
}

static void compare_all(const struct run *run, size_t nr_blocks)
{
	struct writer *mem = pump_into_mem(run);

	for (const struct writer_ops *const *ops = writers; *ops; ops++)
		if (*ops != &writer_null)
			compare(writer_mem_bytes(mem), *ops, run, nr_blocks, memfd_create("out", MFD_CLOEXEC));
	writer_close(mem, NULL);
}

static void test_every_writer_writes_the_same(void **state)
{
	static const unsigned nr_rings[] = {1, 4, 64};
	static const size_t flushes[] = {1, 64, RING_BYTES / 4};
	static const uint64_t starts[] = {0, RING_BYTES - 16, UINT64_MAX - 15};

	(void)state;
	for (size_t r = 0; r < 3; r++)
		for (size_t f = 0; f < 3; f++)
			for (size_t s = 0; s < 3; s++)
				compare_all(&(struct run){nr_rings[r], flushes[f], starts[s]}, f ? 4 * nr_rings[r] : 1);
}

/* A disk is picky about direct writes, and slower than memory. */
static void test_direct_on_a_disk(void **state)
{
	static const struct run run = {4, 64, RING_BYTES - 16};
	int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	(void)state;
	if (fd < 0)
		skip();
	struct writer *mem = pump_into_mem(&run);
	compare(writer_mem_bytes(mem), &writer_direct, &run, 8, fd);
	writer_close(mem, NULL);
}

/* Of the mapping of that file: smaps in proc_pid_smaps(5). */
static bool is_locked(const char *name)
{
	char *line = NULL;
	size_t room = 0;
	bool inside = false, locked = false;
	FILE *smaps = fopen("/proc/self/smaps", "re");

	assert_non_null(smaps);
	while (getline(&line, &room, smaps) > 0) {
		if (strstr(line, name))
			inside = true;
		else if (inside && !strncmp(line, "VmFlags:", 8)) {
			locked |= strstr(line, " lo") != NULL;
			inside = false;
		}
	}
	free(line);
	fclose(smaps);
	return locked;
}

/* Or a control group with as much memory as a window has bytes kills the recorder. */
static void test_a_window_does_not_stay_locked(void **state)
{
	static uint8_t bytes[64 << 10];
	const struct span spans[] = {{bytes, sizeof(bytes)}};
	struct writer *writer;
	const struct writer_params params = {
		.fd = memfd_create("window-of-a-test", MFD_CLOEXEC), .path = "out", .window_bytes = 32 << 20};

	(void)state;
	assert_int_equal(writer_open(&writer_mmap, &params, &writer), 0);
	assert_int_equal(writer_queue_wait(writer, spans, 1), 0);
	memory_lock();
	for (size_t at = 0; at < (size_t)16 << 20; at += sizeof(bytes)) {
		assert_int_equal(writer_queue_wait(writer, spans, 1), 0);
		assert_int_equal(writer_complete(writer, WRITER_NOW), 0);
	}
	const bool locked = is_locked("window-of-a-test");
	munlockall();
	assert_false(locked);
	assert_int_equal(writer_close(writer, NULL), 0);
	close(params.fd);
}

static int failing_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	(void)writer, (void)spans, (void)nr_spans;
	return -ENOSPC;
}

static const struct writer_ops writer_failing = {
	.name = "failing",
	.state_bytes = sizeof(struct writer),
	.queue = failing_queue,
};

static void test_error_sticks_and_keeps_the_ring(void **state)
{
	static struct fake fake;
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1, .round_bytes = 1};

	(void)state;
	start(&fake, &ring, 0);
	assert_int_equal(writer_open(&writer_failing, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	produce(&fake, 0);
	assert_int_equal(stream_pump(&stream, STREAM_FLOW), -ENOSPC);
	assert_int_equal(stream_pump(&stream, STREAM_DRAIN), -ENOSPC);
	assert_int_equal(fake.page.data_tail, 0);
	assert_int_equal(writer_close(stream.writer, NULL), -ENOSPC);
	assert_int_equal(writer_open(&writer_failing, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	assert_int_equal(stream_put_early(&stream, 0, (struct span){fake.data, 16}), -ENOSPC);
	assert_int_equal(stream.counters.bytes, 0);
	assert_int_equal(writer_close(stream.writer, NULL), -ENOSPC);
}

/* A writer that is full, and whose storage fails when room is made. */
static int full_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	(void)writer, (void)spans, (void)nr_spans;
	return -EAGAIN;
}

static int full_complete(struct writer *writer, enum writer_wait wait)
{
	(void)writer;
	return wait == WRITER_ROOM ? -EIO : 0;
}

static const struct writer_ops writer_full = {
	.name = "full", .state_bytes = sizeof(struct writer), .queue = full_queue, .complete = full_complete};

static void test_storage_fails_when_room_is_made(void **state)
{
	static struct fake fake;
	static const uint64_t record[] = {(uint64_t)16 << 48 | PERF_RECORD_SAMPLE, 1};
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1};

	(void)state;
	for (unsigned early = 0; early < 2; early++) {
		start(&fake, &ring, 0);
		stream.counters = (struct stream_counters){0};
		assert_int_equal(writer_open(&writer_full, &(struct writer_params){.fd = -1}, &stream.writer), 0);
		produce(&fake, 0);
		if (early)
			assert_int_equal(stream_put_early(&stream, 0, (struct span){record, sizeof(record)}), -EIO);
		else
			assert_int_equal(stream_pump(&stream, STREAM_FLOW), -EIO);
		assert_int_equal(stream.counters.bytes, 0);
		assert_int_equal(stream.counters.passes, 0); /* none came to its end */
		assert_int_equal(stream.writer->complete_ns, 0);
		assert_int_equal(stream_drain(&stream), -EIO);
		assert_int_equal(fake.page.data_tail, 0);
		assert_int_equal(writer_close(stream.writer, NULL), -EIO);
	}
}

/* A writer that takes so many chunks, and fails then; or fails when it is asked for something else. */
struct fragile {
	struct writer writer;
	unsigned nr_left;
	bool commit_fails, complete_fails, end_fails;
};

static int fragile_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct fragile *fragile = (struct fragile *)writer;

	if (!fragile->nr_left)
		return -ENOSPC;
	fragile->nr_left--;
	writer->queued += span_total(spans, nr_spans);
	writer->stored = writer->queued;
	return 0;
}

static int fragile_commit(struct writer *writer, bool all)
{
	return !all && ((struct fragile *)writer)->commit_fails ? -EIO : 0;
}

static int fragile_complete(struct writer *writer, enum writer_wait wait)
{
	return wait == WRITER_NOW && ((struct fragile *)writer)->complete_fails ? -EDQUOT : 0;
}

static int fragile_fix_position(struct writer *writer)
{
	return ((struct fragile *)writer)->end_fails ? -EFBIG : 0;
}

static const struct writer_ops writer_fragile = {
	.name = "fragile",
	.state_bytes = sizeof(struct fragile),
	.queue = fragile_queue,
	.commit = fragile_commit,
	.complete = fragile_complete,
	.fix_position = fragile_fix_position,
};

/* What fails behind the last ring is the result of the pass, and its bytes are not told to readers of the file. */
static void test_a_pass_fails_at_its_end(void **state)
{
	static const int errors[] = {-ENOSPC, -EIO, -EDQUOT, -EFBIG};
	static struct fake fake;
	struct ring ring;

	(void)state;
	for (size_t what = 0; what < sizeof(errors) / sizeof(errors[0]); what++) {
		struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1, .round_bytes = what ? 0 : 1};
		start(&fake, &ring, 0);
		assert_int_equal(writer_open(&writer_fragile, &(struct writer_params){.fd = -1}, &stream.writer), 0);
		struct fragile *fragile = (struct fragile *)stream.writer;
		fragile->nr_left = 1; /* not for the mark */
		fragile->commit_fails = what == 1;
		fragile->complete_fails = what == 2;
		fragile->end_fails = what == 3;
		produce(&fake, 0);
		int64_t got = what == 3 ? stream_drain(&stream) : stream_pump(&stream, STREAM_COMMIT);
		assert_int_equal(got, errors[what]);
		assert_int_equal(atomic_load(&stream.stored), what == 3 ? 16 : 0);
		assert_int_equal(fake.page.data_tail, 16); /* it was taken */
		assert_int_equal(writer_close(stream.writer, NULL), got);
	}
}

/* Where several fill an output a mark stands behind what its producer has taken: the position of that is fixed. */
static void test_when_a_producer_fixes_its_position(void **state)
{
	static const struct {
		uint64_t round_bytes;
		size_t flush_bytes, nr_behind;
		enum stream_pass pass;
		bool fixes;
	} cases[] = {
		{16, 32, 0, STREAM_ALL, true}, /* the round is complete */
		{17, 32, 0, STREAM_ALL, false}, {0, 32, 0, STREAM_DRAIN, true},
		{0, 1, 0, STREAM_FLOW, true},   {0, 1, 1, STREAM_FLOW, false},
	};
	static struct fake fake;
	struct ring ring;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = cases[i].flush_bytes};
		struct producers producers;
		atomic_size_t nr_behind = cases[i].nr_behind;
		producers_init(&producers, &(struct producers_params){.nr = 1, .round_bytes = cases[i].round_bytes});
		start(&fake, &ring, 0);
		assert_int_equal(writer_open(&writer_fragile, &(struct writer_params){.fd = -1}, &stream.writer), 0);
		stream.writer->producers = &producers;
		stream.writer->nr_behind = &nr_behind;
		struct fragile *fragile = (struct fragile *)stream.writer;
		fragile->nr_left = 2; /* for a mark, too */
		fragile->end_fails = true;
		produce(&fake, 0);
		assert_int_equal(stream_pump(&stream, cases[i].pass), cases[i].fixes ? -EFBIG : 16);
		assert_int_equal(stream.counters.rounds, 0);
		assert_int_equal(writer_close(stream.writer, NULL), cases[i].fixes ? -EFBIG : 0);
	}
}

/* A stage: what it has waits for more, until it is told that nothing comes. */
static int waiting_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	writer->queued += span_total(spans, nr_spans);
	return 0;
}

static int waiting_fix_position(struct writer *writer)
{
	writer->stored = writer->queued;
	return 0;
}

static const struct writer_ops writer_waiting = {
	.name = "waiting",
	.state_bytes = sizeof(struct writer),
	.queue = waiting_queue,
	.fix_position = waiting_fix_position,
};

/* The output is switched: what came before is not left in memory until the former file is finished. */
static void test_nothing_waits_for_the_end(void **state)
{
	static struct fake fake;
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1};

	(void)state;
	start(&fake, &ring, 0);
	assert_int_equal(writer_open(&writer_waiting, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	produce(&fake, 0);
	assert_int_equal(stream_pump(&stream, STREAM_FLOW), 16);
	assert_int_equal(stream.writer->stored, 0);
	produce(&fake, 1);
	assert_int_equal(stream_drain(&stream), 0);
	assert_int_equal(stream.writer->stored, 32);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
}

/* A writer whose storage stalls once. */
struct stalling {
	struct writer writer;
	sem_t *stalled, *goes_on;
	bool was;
	struct writer *inner;
};

static int stalling_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct stalling *stalling = (struct stalling *)writer;

	if (!stalling->was) {
		stalling->was = true;
		sem_post(stalling->stalled);
		sem_wait(stalling->goes_on);
	}
	writer->queued += span_total(spans, nr_spans);
	writer->stored = writer->queued;
	return writer_queue(stalling->inner, spans, nr_spans);
}

static const struct writer_ops stalling_ops = {
	.name = "stalling", .state_bytes = sizeof(struct stalling), .queue = stalling_queue};

struct producing {
	struct fake *fake;
	sem_t stalled, goes_on;
	uint64_t made;
};

/* While the storage stalls several rings full are made: each has to be drained before the next. */
static void *produce_in_stall(void *arg)
{
	struct producing *producing = arg;
	struct fake *fake = producing->fake;

	sem_wait(&producing->stalled);
	while (producing->made < 8 * RING_BYTES / 16)
		if (produce(fake, fake->next)) {
			fake->next++;
			producing->made++;
		} else {
			sched_yield();
		}
	while (__atomic_load_n(&fake->page.data_tail, __ATOMIC_ACQUIRE) != fake->page.data_head)
		sched_yield();
	sem_post(&producing->goes_on);
	return NULL;
}

/* The thread that drains stores, and another one drains while that stalls: each record once, in order. */
static void test_a_stall_is_relieved(void **state)
{
	static struct fake fake;
	struct producing producing = {.fake = &fake};
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1, .round_bytes = RING_BYTES};
	struct stream *streams[] = {&stream};
	const struct batch_pool_params params = {.nr_pipelines = 1, .no_index = true, .extent_bytes = 1024};
	struct writer *stalling;
	struct batch_pool *pool;
	struct relief *relief;
	uint64_t counts[1] = {0}, marks = 0;
	pthread_t thread;

	(void)state;
	sem_init(&producing.stalled, 0, 0);
	sem_init(&producing.goes_on, 0, 0);
	start(&fake, &ring, 0);
	assert_int_equal(writer_open(&stalling_ops, &(struct writer_params){.fd = -1}, &stalling), 0);
	struct stalling *own = (struct stalling *)stalling;
	own->stalled = &producing.stalled;
	own->goes_on = &producing.goes_on;
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &own->inner), 0);
	struct writer *mem = own->inner;
	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	assert_int_equal(pipeline_open(pool, stalling, &stream.writer), 0);
	assert_int_equal(relief_start(streams, 1, 0, &relief), 0);
	assert_int_equal(pthread_create(&thread, NULL, produce_in_stall, &producing), 0);
	relief_lock(relief);
	stream.writer->ops->store(stream.writer); /* from here on no worker does it */
	while (produce(&fake, fake.next))
		fake.next++;
	assert_true(stream_pump(&stream, STREAM_ALL) >= 0);
	assert_true(stream_pump(&stream, STREAM_DRAIN) >= 0);
	relief_unlock(relief);
	pthread_join(thread, NULL);
	assert_true(stream_pump(&stream, STREAM_DRAIN) >= 0);
	relief_free(relief);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
	assert_int_equal(check_numbers(writer_mem_bytes(mem), counts, 1, &marks), RING_BYTES / 16 + producing.made);
	writer_close(mem, NULL);
	batch_pool_free(pool);
	sem_destroy(&producing.stalled);
	sem_destroy(&producing.goes_on);
}

/* A writer of which each call takes a tenth of what its thread has used so far. */
static int slower_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	uint64_t until_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) / 10 * 11;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns)
		;
	writer->queued += span_total(spans, nr_spans);
	writer->stored = writer->queued;
	return 0;
}

static const struct writer_ops slower_ops = {
	.name = "slower", .state_bytes = sizeof(struct writer), .queue = slower_queue};

struct storing {
	struct fake *fake;
	struct stream *stream;
	uint64_t stored_ns;
	bool fails, exceeds, first_is_known;
};

static void *store_often(void *arg)
{
	enum { NR_STORES = 40 }; /* some of which are measured */
	struct storing *storing = arg;
	struct writer *writer = storing->stream->writer;

	writer->ops->store(writer); /* from here on no worker does it */
	for (int i = 0; i < NR_STORES; i++) {
		produce(storing->fake, storing->fake->next++);
		storing->fails |= stream_pump(storing->stream, STREAM_COMMIT) <= 0;
		uint64_t ns = writer->ops->store(writer);
		storing->exceeds |= ns > clock_ns(CLOCK_THREAD_CPUTIME_ID);
		storing->stored_ns += ns;
		storing->first_is_known |= !i && storing->stored_ns;
		storing->exceeds |= storing->stored_ns > clock_ns(CLOCK_THREAD_CPUTIME_ID);
	}
	return NULL;
}

/* The thread that drains stores, which is counted apart from draining: never more than that thread used. */
static void test_storing_is_a_part_of_the_threads_time(void **state)
{
	static struct fake fake;
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1};
	struct storing storing = {.fake = &fake, .stream = &stream};
	const struct batch_pool_params params = {.nr_pipelines = 1, .no_index = true, .extent_bytes = 1024};
	struct writer *slower;
	struct batch_pool *pool;
	pthread_t thread;

	(void)state;
	start(&fake, &ring, 0);
	assert_int_equal(writer_open(&slower_ops, &(struct writer_params){.fd = -1}, &slower), 0);
	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	assert_int_equal(pipeline_open(pool, slower, &stream.writer), 0);
	assert_int_equal(pthread_create(&thread, NULL, store_often, &storing), 0);
	pthread_join(thread, NULL);
	assert_false(storing.fails);
	assert_true(storing.first_is_known); /* a short recording has no more */
	assert_false(storing.exceeds);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
	batch_pool_free(pool);
}

/* Rounds are marked when as much came as they ask for, no sooner and no later. */
static void test_a_round_is_due_at_its_bytes(void **state)
{
	static struct fake fake;
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 32, .round_bytes = 64};

	(void)state;
	start(&fake, &ring, 0);
	assert_int_equal(writer_open(&writer_null, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	for (uint64_t i = 0; i < 3; i++)
		produce(&fake, i);
	assert_int_equal(stream_pump(&stream, STREAM_ALL), 48);
	assert_int_equal(stream.counters.rounds, 0);
	produce(&fake, 3);
	assert_int_equal(stream_pump(&stream, STREAM_ALL), 16);
	assert_int_equal(stream.counters.rounds, 1);
	assert_int_equal(stream.unmarked_bytes, 0);
	assert_int_equal(stream_pump(&stream, STREAM_DRAIN), 0);
	assert_int_equal(stream.counters.rounds, 1); /* nothing came */
	assert_int_equal(stream.counters.passes, 3);
	assert_int_equal(stream.counters.chunks, 2);
	assert_int_equal(stream.counters.bytes, 64);
	/* Passes that leave something in a ring promise nothing. */
	for (uint64_t i = 0; i < 4; i++)
		produce(&fake, i);
	assert_int_equal(stream_pump(&stream, STREAM_FLOW), 64);
	assert_int_equal(stream.counters.rounds, 1);
	assert_int_equal(stream_pump(&stream, STREAM_FLOW), 0); /* it is due: a whole one */
	assert_int_equal(stream.counters.rounds, 2);
	produce(&fake, 5);
	assert_int_equal(stream_drain(&stream), 0);
	assert_int_equal(stream.counters.rounds, 3);
	assert_int_equal(stream.counters.near_full, 0);
	while (produce(&fake, 6))
		;
	assert_int_equal(stream_pump(&stream, STREAM_ALL), RING_BYTES);
	assert_int_equal(stream.counters.near_full, 1);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
}

/* What the relief takes is a part of the round; the mark is left to the thread of the stream. */
static void test_relieved_bytes_belong_to_the_round(void **state)
{
	static struct fake fakes[2];
	struct ring rings[2];
	struct stream stream = {.rings = rings, .nr_rings = 2, .flush_bytes = 1, .round_bytes = 64};

	(void)state;
	assert_int_equal(writer_open(&writer_null, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	for (uint64_t i = 0; i < 2; i++) {
		start(&fakes[i], &rings[i], 0);
		produce(&fakes[i], i);
	}
	stream_relieve(&stream);
	assert_int_equal(stream.counters.bytes, 32);
	produce(&fakes[0], 2);
	assert_int_equal(stream_pump(&stream, STREAM_ALL), 16);
	assert_int_equal(stream.counters.rounds, 0); /* 48 bytes came */
	produce(&fakes[1], 3);
	stream_relieve(&stream);
	assert_int_equal(stream.counters.rounds, 0);
	assert_int_equal(stream_pump(&stream, STREAM_ALL), 0);
	assert_int_equal(stream.counters.rounds, 1);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
}

/* A writer that keeps half of what it takes. */
static int halving_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	writer->queued += span_total(spans, nr_spans);
	writer->left_out += span_total(spans, nr_spans) / 2;
	return 0;
}

static const struct writer_ops writer_halving = {
	.name = "halving", .state_bytes = sizeof(struct writer), .queue = halving_queue};

/* A round is about what readers and stages keep until its mark: not about stacks that were unwound in the ring. */
static void test_what_is_left_out_makes_no_round(void **state)
{
	static struct fake fake;
	struct ring ring;

	(void)state;
	for (unsigned shared = 0; shared < 2; shared++) {
		struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1};
		struct producers producers;
		stream.round_bytes = shared ? 0 : 32;
		producers_init(&producers, &(struct producers_params){.nr = 1, .round_bytes = 32});
		start(&fake, &ring, 0);
		assert_int_equal(writer_open(&writer_halving, &(struct writer_params){.fd = -1}, &stream.writer), 0);
		stream.writer->producers = shared ? &producers : NULL;
		for (uint64_t i = 0; i < 3; i++)
			produce(&fake, i);
		assert_int_equal(stream_pump(&stream, STREAM_ALL), 48);
		assert_int_equal(stream.counters.rounds, 0); /* 24 bytes are kept */
		produce(&fake, 3);
		stream_relieve(&stream);
		assert_int_equal(stream_pump(&stream, STREAM_ALL), 0);
		assert_int_equal(stream.counters.rounds, 1);
		assert_int_equal(writer_close(stream.writer, NULL), 0);
	}
}

struct relieving {
	struct stream_storage storage;
	struct stream *stream;
	struct fake *fake;
	unsigned nr;
};

static void store_slowly(struct stream_storage *storage, struct writer *writer)
{
	struct relieving *relieving = (struct relieving *)storage;

	(void)writer;
	if (relieving->nr++)
		return;
	for (uint64_t i = 1; i < 9; i++)
		produce(relieving->fake, i);
	stream_relieve(relieving->stream);
}

/* What is left out of what the relief takes, in the middle of a pass, is not left out of what the pass takes. */
static void test_what_the_relief_leaves_out(void **state)
{
	static struct fake fake;
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1, .round_bytes = 96};
	struct relieving relieving = {{store_slowly}, &stream, &fake, 0};

	(void)state;
	start(&fake, &ring, 0);
	assert_int_equal(writer_open(&writer_halving, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	stream.storage = &relieving.storage;
	produce(&fake, 0);
	assert_int_equal(stream_pump(&stream, STREAM_ALL), 16);
	assert_int_equal(stream.counters.bytes, 9 * 16);
	assert_int_equal(stream.counters.rounds, 0);
	assert_int_equal(stream.unmarked_bytes, 9 * 8);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
}

/* Where several fill an output, what came early and what the relief takes belongs to the round of all. */
static void test_relieved_bytes_of_a_producer(void **state)
{
	static const uint64_t early[] = {(uint64_t)16 << 48 | PERF_RECORD_SAMPLE, 1};
	static struct fake fake;
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1};
	struct producers producers;

	(void)state;
	for (unsigned fails = 0; fails < 2; fails++) {
		producers_init(&producers, &(struct producers_params){.nr = 1, .round_bytes = 1});
		start(&fake, &ring, 0);
		assert_int_equal(writer_open(&writer_fragile, &(struct writer_params){.fd = -1}, &stream.writer), 0);
		((struct fragile *)stream.writer)->nr_left = fails ? 1 : 2;
		stream.writer->producers = &producers;
		assert_int_equal(stream_put_early(&stream, 0, (struct span){early, sizeof(early)}), 0);
		assert_int_equal(producers.unmarked_bytes, 16);
		produce(&fake, 2);
		stream_relieve(&stream);
		assert_int_equal(producers.unmarked_bytes, fails ? 16 : 32);
		assert_int_equal(stream.unmarked_bytes, 0);
		assert_int_equal(writer_close(stream.writer, NULL), fails ? -ENOSPC : 0);
	}
}

/* Where a round is due with every byte, it waits while what came before waits for the output; not for ever. */
static void test_marks_wait_for_the_output(void **state)
{
	enum { WORTH_A_MARK = 4 << 20 };
	static struct fake fake;
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1, .round_bytes = 1};
	atomic_size_t nr_behind = 1;
	uint64_t bytes = 0;

	(void)state;
	start(&fake, &ring, 0);
	assert_int_equal(writer_open(&writer_null, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	stream.writer->nr_behind = &nr_behind;
	while (!stream.counters.rounds) {
		assert_true(bytes < WORTH_A_MARK);
		while (produce(&fake, 0))
			;
		assert_int_equal(stream_pump(&stream, STREAM_ALL), RING_BYTES);
		bytes += RING_BYTES;
	}
	assert_int_equal(bytes, WORTH_A_MARK);
	produce(&fake, 0);
	assert_int_equal(stream_pump(&stream, STREAM_ALL), 16);
	assert_int_equal(stream.counters.rounds, 1);
	assert_int_equal(stream_pump(&stream, STREAM_DRAIN), 0);
	assert_int_equal(stream.counters.rounds, 2);
	produce(&fake, 0);
	atomic_store(&nr_behind, 0);
	assert_int_equal(stream_pump(&stream, STREAM_ALL), 16);
	assert_int_equal(stream.counters.rounds, 3);
	/* Rounds of more bytes are not in the way. */
	atomic_store(&nr_behind, 1);
	stream.round_bytes = 2;
	produce(&fake, 0);
	assert_int_equal(stream_pump(&stream, STREAM_ALL), 16);
	assert_int_equal(stream.counters.rounds, 4);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
}

struct seeing {
	struct stream_tap tap;
	uint64_t bytes, at, drained_at, cut_at;
	const struct stream *stream;
};

static void see(struct stream_tap *tap, const struct span spans[2], uint64_t position)
{
	struct seeing *seeing = (struct seeing *)tap;

	assert_int_equal(position, seeing->at);
	seeing->bytes += spans[0].len + spans[1].len;
	seeing->at += spans[0].len + spans[1].len;
}

static void see_drain(struct stream_tap *tap)
{
	struct seeing *seeing = (struct seeing *)tap;

	seeing->drained_at = seeing->stream->counters.bytes;
}

static void see_cut(struct stream_tap *tap, uint64_t position)
{
	((struct seeing *)tap)->cut_at = position;
}

struct producing_tap {
	struct stream_tap tap;
	struct fake *fake;
	uint64_t seen_bytes;
};

static void see_and_produce(struct stream_tap *tap, const struct span spans[2], uint64_t position)
{
	struct producing_tap *own = (struct producing_tap *)tap;

	(void)position;
	if (!own->seen_bytes)
		produce(own->fake, 1);
	own->seen_bytes += spans[0].len + spans[1].len;
}

static void see_nothing(struct stream_tap *tap)
{
	(void)tap;
}

/* What comes into an observed ring during the last pass is in the output, in front of the mark. */
static void test_drained_bytes_are_marked(void **state)
{
	static struct fake fake;
	struct ring ring;
	struct producing_tap tap = {.tap = {.see = see_and_produce, .drain = see_nothing}, .fake = &fake};
	struct stream stream = {.rings = &ring,
				.nr_rings = 1,
				.flush_bytes = 1,
				.round_bytes = 1 << 20,
				.tap = &tap.tap,
				.nr_side_rings = 1};
	uint64_t counts[1] = {0}, marks = 0;

	(void)state;
	start(&fake, &ring, 0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	produce(&fake, 0);
	assert_int_equal(stream_drain(&stream), 0);
	assert_int_equal(tap.seen_bytes, 32);
	const struct span out = writer_mem_bytes(stream.writer);
	assert_int_equal(check_numbers(out, counts, 1, &marks), 2);
	assert_int_equal(marks, 1);
	const struct perf_event_header *last = (const void *)((const char *)out.ptr + out.len - sizeof(*last));
	assert_int_equal(last->type, RECORD_FINISHED_ROUND);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
}

/* What was read out of a ring ahead of the first pass is part of what the first mark promises. */
static void test_what_came_early(void **state)
{
	static struct fake fakes[2];
	static uint64_t early[RING_BYTES / 8 + 2];
	struct ring rings[2];
	struct seeing seeing = {.tap = {.see = see, .drain = see_drain, .cut = see_cut}};
	struct stream stream = {.rings = rings,
				.nr_rings = 2,
				.flush_bytes = 1,
				.round_bytes = 1 << 20,
				.tap = &seeing.tap,
				.nr_side_rings = 1};
	uint64_t counts[1] = {0}, marks = 0;
	struct writer *next;

	(void)state;
	seeing.stream = &stream;
	for (uint64_t i = 0; i < sizeof(early) / 16; i++) {
		early[2 * i] = (uint64_t)16 << 48 | PERF_RECORD_SAMPLE;
		early[2 * i + 1] = i;
	}
	start(&fakes[0], &rings[0], 0);
	start(&fakes[1], &rings[1], 0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	/* More than a ring: in two pieces. */
	assert_int_equal(stream_put_early(&stream, 0, (struct span){early, sizeof(early)}), 0);
	assert_int_equal(stream.counters.chunks, 2);
	assert_int_equal(stream.counters.bytes, sizeof(early));
	assert_int_equal(stream.unmarked_bytes, sizeof(early));
	assert_int_equal(seeing.bytes, sizeof(early));
	assert_int_equal(stream_put_early(&stream, 0, (struct span){early, 15}), -EBADMSG);
	assert_int_equal(stream_put_early(&stream, 0, (struct span){early, 7}), -EBADMSG);
	assert_int_equal(stream.counters.bytes, sizeof(early));
	assert_int_equal(stream_pump(&stream, STREAM_DRAIN), 0);
	assert_int_equal(stream.counters.rounds, 1);
	assert_int_equal(check_numbers(writer_mem_bytes(stream.writer), counts, 1, &marks), sizeof(early) / 16);
	assert_int_equal(marks, 1);
	/* As much as a ring holds is one piece. */
	assert_int_equal(stream_put_early(&stream, 0, (struct span){early, RING_BYTES}), 0);
	assert_int_equal(stream.counters.chunks, 3);
	assert_int_equal(stream_pump(&stream, STREAM_DRAIN), 0);
	seeing.bytes -= RING_BYTES;
	/* Of the other ring nothing is looked at. The last record is a header alone. */
	early[2] = (uint64_t)8 << 48 | PERF_RECORD_SWITCH;
	assert_int_equal(stream_put_early(&stream, 1, (struct span){early, 24}), 0);
	assert_int_equal(seeing.bytes, sizeof(early));
	assert_int_equal(stream.unmarked_bytes, 24);
	for (size_t i = 0; i < 2; i++)
		produce(&fakes[i], 0);
	seeing.at = stream.counters.bytes;
	assert_int_equal(stream_pump(&stream, STREAM_ALL), 32);
	assert_int_equal(seeing.bytes, sizeof(early) + 16);
	/* The next output begins with nothing that has no mark. What is looked at comes first. */
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &next), 0);
	for (size_t i = 0; i < 2; i++)
		produce(&fakes[i], 1);
	seeing.at = stream.counters.bytes;
	assert_int_equal(stream_drain(&stream), 0);
	assert_int_equal(seeing.drained_at, sizeof(early) + RING_BYTES + 24 + 32 + 16);
	assert_int_equal(stream.unmarked_bytes, 0);
	stream.unmarked_bytes = 1;
	struct writer *before = stream_exchange(&stream, next);
	assert_int_equal(stream.unmarked_bytes, 0);
	assert_int_equal(seeing.cut_at, sizeof(early) + RING_BYTES + 24 + 64);
	assert_ptr_equal(stream.writer, next);
	assert_int_equal(writer_close(before, NULL), 0);
	assert_int_equal(writer_close(next, NULL), 0);
}

/* A writer that takes at most so many bytes at once, of which some more come while it stores. */
struct sipping {
	struct writer writer;
	struct writer *inner;
	size_t most;
	bool had_time, had_more; /* at the last visit */
};

static int64_t sipping_take(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct sipping *sipping = (struct sipping *)writer;
	struct span part = spans[0];

	assert_true(nr_spans == 1 || spans[1].len);
	sipping->had_time = writer->has_time;
	sipping->had_more = writer->has_time_to_compress;
	if (part.len > sipping->most)
		part.len = sipping->most;
	int err = writer_queue(sipping->inner, &part, 1);
	return err ? err : (int64_t)part.len;
}

static int sipping_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	return writer_queue(((struct sipping *)writer)->inner, spans, nr_spans);
}

static const struct writer_ops sipping_ops = {
	.name = "sipping", .state_bytes = sizeof(struct sipping), .queue = sipping_queue, .take = sipping_take};

struct storing_and_producing {
	struct stream_storage storage;
	struct fake *fake;
	unsigned nr_stores;
};

static void store_and_produce(struct stream_storage *storage, struct writer *writer)
{
	struct storing_and_producing *storing = (struct storing_and_producing *)storage;

	(void)writer;
	storing->nr_stores++;
	if (produce(storing->fake, storing->fake->next))
		storing->fake->next++;
}

/* A visit to a ring ends where its head was first, in however many pieces that is taken, and the tap sees each once. */
static void test_a_visit_ends_at_the_first_head(void **state)
{
	static struct fake fake;
	struct storing_and_producing storing = {.storage.store = store_and_produce, .fake = &fake};
	struct seeing seeing = {.tap = {.see = see, .drain = see_drain, .cut = see_cut}};
	struct ring ring;
	struct stream stream = {.rings = &ring,
				.nr_rings = 1,
				.flush_bytes = 1,
				.storage = &storing.storage,
				.tap = &seeing.tap,
				.nr_side_rings = 1};
	uint64_t counts[1] = {0}, marks = 0, before = 0;

	(void)state;
	seeing.stream = &stream;
	start(&fake, &ring, RING_BYTES - 48); /* wraps after three records */
	assert_int_equal(writer_open(&sipping_ops, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	struct sipping *sipping = (struct sipping *)stream.writer;
	sipping->most = 32;
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &sipping->inner), 0);
	for (; fake.next < 10; fake.next++)
		assert_true(produce(&fake, fake.next));
	for (unsigned pass = 0; pass < 20; pass++) {
		uint64_t there = fake.page.data_head - fake.page.data_tail;
		assert_int_equal(stream_pump(&stream, STREAM_ALL), there);
		assert_int_equal(stream.counters.bytes, before += there);
		assert_int_equal(seeing.bytes, before);
		assert_int_equal(stream.counters.chunks, pass + 1);
	}
	/* What came while the tapped rings were visited is taken, too. */
	uint64_t there = fake.page.data_head - fake.page.data_tail;
	assert_true(there > 0);
	stream.round_bytes = 1 << 20;
	assert_int_equal(stream_drain(&stream), 0);
	assert_true(stream.counters.bytes > before + there);
	assert_int_equal(stream.counters.rounds, 1);
	assert_int_equal(check_numbers(writer_mem_bytes(sipping->inner), counts, 1, &marks),
			 stream.counters.bytes / 16);
	assert_int_equal(marks, 1);
	assert_int_equal(writer_close(sipping->inner, NULL), 0);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
}

/* Who comes late to a ring only copies; who has too many of them does not compress. */
static void test_who_has_time(void **state)
{
	enum { VISITS_OF_THE_LATE = 64 };
	static struct fake fake;
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1};

	(void)state;
	start(&fake, &ring, 0);
	assert_int_equal(writer_open(&sipping_ops, &(struct writer_params){.fd = -1}, &stream.writer), 0);
	struct sipping *sipping = (struct sipping *)stream.writer;
	sipping->most = RING_BYTES;
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &sipping->inner), 0);
	for (unsigned visit = 0; visit < VISITS_OF_THE_LATE + 20; visit++) {
		stream.compresses_later = visit % 2;
		do
			assert_true(produce(&fake, fake.next++));
		while (visit == 2 && fake.page.data_head - fake.page.data_tail < RING_BYTES / 4 * 3);
		assert_true(stream_pump(&stream, STREAM_ALL) > 0);
		bool late = visit >= 2 && visit < 2 + VISITS_OF_THE_LATE;
		assert_int_equal(sipping->had_time, !late);
		assert_int_equal(sipping->had_more, !late && !stream.compresses_later);
		assert_false(stream.writer->has_time || stream.writer->has_time_to_compress); /* not beside a visit */
	}
	assert_int_equal(writer_close(sipping->inner, NULL), 0);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
}

/* A stage as those that need all older records: it keeps a batch until a pass that began later has come. */
struct waiting {
	struct stage stage;
	struct batch *first, **last;
};

static int wait_for_older(struct stage *stage, struct batch *batch)
{
	struct waiting *waiting = (struct waiting *)stage;

	*waiting->last = batch;
	waiting->last = &batch->next;
	return 0;
}

static int pass_complete(struct stage *stage, enum stage_flush why)
{
	struct waiting *waiting = (struct waiting *)stage;
	const bool all = why == STAGE_MEMORY || why == STAGE_END;

	while (waiting->first && (all || waiting->first->read_ns <= stage->complete_ns)) {
		struct batch *batch = waiting->first;
		waiting->first = batch->next;
		if (!waiting->first)
			waiting->last = &waiting->first;
		assert_int_equal(stage_pass(stage, batch), 0);
	}
	return 0;
}

/* A commit is about what came before it, though two stages wait for later passes, in each of which there is more. */
static void test_a_commit_reaches_behind_stages_that_wait(void **state)
{
	static const struct stage_ops ops = {.name = "waiting", .process = wait_for_older, .flush = pass_complete};
	const struct batch_pool_params params = {.nr_pipelines = 1, .no_index = true, .nr_workers = 1};
	static struct fake fake;
	struct waiting waiting[2];
	struct storing_and_producing producing = {.storage.store = store_and_produce, .fake = &fake};
	struct ring ring;
	struct stream stream = {.rings = &ring, .nr_rings = 1, .flush_bytes = 1, .storage = &producing.storage};
	struct stream *streams[] = {&stream}, *failed = NULL;
	struct writer *inner;
	struct batch_pool *pool;
	uint64_t counts[1] = {0}, marks = 0;

	(void)state;
	start(&fake, &ring, 0);
	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &stream.writer), 0);
	for (size_t i = 0; i < 2; i++) {
		waiting[i] = (struct waiting){.stage.ops = &ops, .last = &waiting[i].first};
		pipeline_add_stage(stream.writer, &waiting[i].stage);
	}
	for (; fake.next < 10; fake.next++)
		assert_true(produce(&fake, fake.next));
	assert_int_equal(streams_pump(streams, 1, STREAM_ALL, &failed), 0);
	pipeline_run_stages(stream.writer);
	assert_int_equal(writer_mem_bytes(inner).len, 0);
	assert_int_equal(streams_pump(streams, 1, STREAM_COMMIT, &failed), 0);
	pipeline_run_stages(stream.writer);
	assert_true(check_numbers(writer_mem_bytes(inner), counts, 1, &marks) >= 10);
	assert_null(failed);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
	batch_pool_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrapped_once_in_order),
		cmocka_unit_test(test_flush_leaves_little),
		cmocka_unit_test(test_full_rings_are_noted),
		cmocka_unit_test(test_a_round_is_due_at_its_bytes),
		cmocka_unit_test(test_relieved_bytes_belong_to_the_round),
		cmocka_unit_test(test_relieved_bytes_of_a_producer),
		cmocka_unit_test(test_marks_wait_for_the_output),
		cmocka_unit_test(test_drained_bytes_are_marked),
		cmocka_unit_test(test_what_came_early),
		cmocka_unit_test(test_a_visit_ends_at_the_first_head),
		cmocka_unit_test(test_who_has_time),
		cmocka_unit_test(test_every_writer_writes_the_same),
		cmocka_unit_test(test_direct_on_a_disk),
		cmocka_unit_test(test_a_window_does_not_stay_locked),
		cmocka_unit_test(test_error_sticks_and_keeps_the_ring),
		cmocka_unit_test(test_storage_fails_when_room_is_made),
		cmocka_unit_test(test_a_pass_fails_at_its_end),
		cmocka_unit_test(test_what_is_left_out_makes_no_round),
		cmocka_unit_test(test_what_the_relief_leaves_out),
		cmocka_unit_test(test_when_a_producer_fixes_its_position),
		cmocka_unit_test(test_nothing_waits_for_the_end),
		cmocka_unit_test(test_a_stall_is_relieved),
		cmocka_unit_test(test_storing_is_a_part_of_the_threads_time),
		cmocka_unit_test(test_a_commit_reaches_behind_stages_that_wait),
	};
	return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
