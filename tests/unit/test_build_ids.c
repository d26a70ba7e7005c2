/* SPDX-License-Identifier: MIT */
/* Streams of records built in memory; the objects are libraries of this machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/span.h"
#include "compress/extent_index.h"
#include "compress/extent_stats.h"
#include "perfdata/object_id.h"
#include "perfdata/record.h"
#include "record/build_ids/collector.h"
#include "record/build_ids/object_cache.h"
#include "sysinfo/elf_note.h"

enum { FRONT = 40 }; /* bytes before the records */

static char cmocka[4096], libc[4096]; /* two files with a build-id */

static uint64_t event_ids[] = {1, 2};
static const struct event_desc plain = {
	.attr = {.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME, .sample_id_all = 1},
};
static const struct event_desc plain_chain = {
	.attr = {.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN,
		 .sample_id_all = 1},
};
static const struct event_desc chains[] = {
	{.attr = {.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				 PERF_SAMPLE_PERIOD | PERF_SAMPLE_READ | PERF_SAMPLE_CALLCHAIN,
		  .read_format = PERF_FORMAT_ID | PERF_FORMAT_GROUP | PERF_FORMAT_LOST,
		  .sample_id_all = 1},
	 .ids = event_ids,
	 .nr_ids = 1},
	{.attr = {.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				 PERF_SAMPLE_CALLCHAIN,
		  .sample_id_all = 1},
	 .ids = event_ids + 1,
	 .nr_ids = 1},
};

/* The size of the record that starts at `at`, when all its fields are in. */
static void close_record(struct buf *out, size_t at)
{
	struct perf_event_header header;

	memcpy(&header, out->data + at, sizeof(header));
	header.size = (uint16_t)(out->len - at);
	memcpy(out->data + at, &header, sizeof(header));
}

static size_t open_record(struct buf *out, uint32_t type, uint16_t misc)
{
	size_t at = out->len;
	struct perf_event_header header = {.type = type, .misc = misc};

	buf_put(out, &header, sizeof(header));
	return at;
}

/* Trailer of `plain`. */
static void put_trailer(struct buf *out, uint64_t time)
{
	buf_put_u64(out, 0);
	buf_put_u64(out, time);
}

static void put_map(struct buf *out, uint32_t pid, uint64_t addr, const char *name, uint64_t time)
{
	struct record_mmap2 record = {
		.header = {.type = PERF_RECORD_MMAP2, .misc = PERF_RECORD_MISC_USER},
		.pid = pid,
		.tid = pid,
		.addr = addr,
		.len = 0x1000,
		.prot = PROT_EXEC,
	};
	size_t at = out->len;

	record_put(out, &record, sizeof(record), span_of_text(name), 0);
	put_trailer(out, time);
	close_record(out, at);
}

static void put_fork(struct buf *out, uint32_t pid, uint32_t parent, uint64_t time)
{
	struct record_fork record = {
		.header = {.type = PERF_RECORD_FORK},
		.pid = pid,
		.tid = pid,
		.ppid = parent,
		.ptid = parent,
		.time = time,
	};
	size_t at = out->len;

	record_put(out, &record, sizeof(record), (struct span){0}, 0);
	put_trailer(out, time);
	close_record(out, at);
}

static void put_exec(struct buf *out, uint32_t pid, uint64_t time)
{
	struct record_comm record = {
		.header = {.type = PERF_RECORD_COMM, .misc = PERF_RECORD_MISC_COMM_EXEC},
		.pid = pid,
		.tid = pid,
	};
	size_t at = out->len;

	record_put(out, &record, sizeof(record), span_of_text("new"), 0);
	put_trailer(out, time);
	close_record(out, at);
}

static void put_sample(struct buf *out, uint32_t pid, uint64_t ip, uint64_t time)
{
	size_t at = open_record(out, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);

	buf_put_u64(out, ip);
	buf_put_u32(out, pid);
	buf_put_u32(out, pid);
	buf_put_u64(out, time);
	close_record(out, at);
}

/* Where the record that begins at `at` ends; records are those of a scan that found nothing wrong. */
static size_t record_end(const struct buf *stream, size_t at)
{
	struct perf_event_header header;

	memcpy(&header, stream->data + at, sizeof(header));
	return at + header.size;
}

static void assert_same(const struct collected *collected, const struct collected *expected)
{
	assert_int_equal(collected->nr_samples, expected->nr_samples);
	assert_int_equal(collected->first_ns, expected->first_ns);
	assert_int_equal(collected->last_ns, expected->last_ns);
	assert_int_equal(collected->build_ids->len, expected->build_ids->len);
	if (expected->build_ids->len)
		assert_memory_equal(collected->build_ids->data, expected->build_ids->data, expected->build_ids->len);
}

/* All but the first and the last record go by while they are written, in visits of three, in two parts. */
static void scan_live(int fd, const struct buf *stream, const struct event_desc *events, size_t nr_events,
		      const struct collected *expected)
{
	AUTO_BUF struct buf build_ids = {0};
	struct collected collected = {.build_ids = &build_ids};
	struct collector *collector;
	size_t last = 0, at = stream->len ? record_end(stream, 0) : 0;

	for (size_t next = 0; next < stream->len; next = record_end(stream, next))
		last = next;
	if (collector_new(events, nr_events, &collector))
		return;
	for (size_t nr = 0; at < last; nr++) {
		size_t end = at;
		for (int i = 0; i < 3 && end < last; i++)
			end = record_end(stream, end);
		size_t part = (end - at) / 8 / 5 * (nr % 5) * 8;
		struct span parts[] = {{stream->data + at, part}, {stream->data + at + part, end - at - part}};
		collector_observe(collector, FRONT + at, part ? parts : parts + 1, part ? 2 : 1);
		at = end;
	}
	struct collect_region region = {
		.fd = fd, .offset = FRONT, .bytes = stream->len, .collectors = &collector, .nr_collectors = 1};
	assert_int_equal(build_ids_collect(&region, 1, events, nr_events, &collected), 0);
	assert_same(&collected, expected);
	collector_free(collector);
}

/* In a batch; or in a ring, which is overwritten then, and where a record may lie in two spans. */
static void observe_or_look(struct collector *collector, struct span record, size_t nr, struct extent_tally *tally)
{
	if (nr % 5 < 2) {
		collector_observe_staged(collector, &record, 1);
		return;
	}
	const size_t front = nr % 3 ? record.len : 8; /* a header */
	uint8_t *ring[2] = {malloc(front), malloc(record.len)};
	const uint32_t nr_before = tally->fields.nr_records;
	memcpy(ring[0], record.ptr, front);
	memcpy(ring[1], (const uint8_t *)record.ptr + front, record.len - front);
	const struct span spans[2] = {{ring[0], front}, {ring[1], record.len - front}};
	size_t looked = collector_look(collector, spans, spans[1].len ? 2 : 1, &(struct stage_look){.tally = tally});
	assert_int_equal(tally->fields.nr_records - nr_before, looked == record.len);
	memset(ring[0], 0xee, front);
	free(ring[0]);
	free(ring[1]);
}

/* The records between the first and the last go into extents that cannot be decoded, by two threads in turn. */
static void scan_staged(const struct buf *stream, const struct event_desc *events, size_t nr_events,
			const struct collected *expected)
{
	const struct perf_event_header mark = {.type = RECORD_FINISHED_ROUND, .size = sizeof(mark)};
	AUTO_FD int fd = memfd_create("records", MFD_CLOEXEC);
	AUTO_BUF struct buf build_ids = {0}, file = {0};
	AUTO_EXTENTS struct extent_list extents = {0};
	struct collected collected = {.build_ids = &build_ids};
	struct collector *collectors[2];
	struct extent_stats *stats;
	struct extent_tally tally;
	size_t first = stream->len ? record_end(stream, 0) : 0, last = first;

	for (size_t next = first; next < stream->len; next = record_end(stream, next))
		last = next;
	if (last == first || collector_new(events, nr_events, &collectors[0]))
		return;
	assert_int_equal(collector_new(events, nr_events, &collectors[1]), 0);
	assert_int_equal(extent_stats_new(events, nr_events, &stats), 0);
	assert_int_equal(extent_tally_begin(&tally, stats), 0);
	buf_put(&file, stream->data, first);
	for (size_t at = first, nr = 0, end; at < last; at = end, nr++) {
		struct extent_info info = {.fields = {.offset = FRONT + file.len, .packed_bytes = 24}};
		end = record_end(stream, at);
		info.fields.bytes = end - at;
		observe_or_look(collectors[nr % 2], (struct span){stream->data + at, end - at}, nr, &tally);
		assert_int_equal(extent_list_add(&extents, &info), 0);
		buf_put(&file, "unreadable unreadable ..", 24);
		if (nr % 2)
			buf_put(&file, &mark, sizeof(mark));
	}
	buf_put(&file, stream->data + last, stream->len - last);
	assert_int_equal(fd_pwrite(fd, file.data, file.len, FRONT), 0);
	struct collect_region region = {.fd = fd,
					.offset = FRONT,
					.bytes = file.len,
					.collectors = collectors,
					.nr_collectors = 2,
					.extents = &extents};
	assert_int_equal(build_ids_collect(&region, 1, events, nr_events, &collected), 0);
	assert_same(&collected, expected);
	extents.infos[0].fields.bytes -= 8; /* more was observed than there is: the file counts */
	buf_fini(&build_ids);
	assert_int_equal(build_ids_collect(&region, 1, events, nr_events, &collected), -EBADMSG);
	collector_free(collectors[0]);
	collector_free(collectors[1]);
	free(tally.counts);
	extent_stats_free(stats);
}

static int scan(const struct buf *stream, const struct event_desc *events, size_t nr_events,
		struct collected *collected)
{
	AUTO_FD int fd = memfd_create("records", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fd_pwrite(fd, stream->data, stream->len, FRONT), 0);
	int err = build_ids_collect(&(struct collect_region){.fd = fd, .offset = FRONT, .bytes = stream->len}, 1,
				    events, nr_events, collected);
	if (!err) {
		scan_live(fd, stream, events, nr_events, collected);
		scan_staged(stream, events, nr_events, collected);
	}
	return err;
}

static bool built(const struct buf *build_ids, const char *path)
{
	struct cursor at = cursor_over(buf_span(build_ids));
	struct build_id id;
	unsigned nr = 0;

	while (build_id_decode(&at, &id) == 1)
		nr += !strcmp(id.path, path);
	assert_true(nr <= 1);
	return nr == 1;
}

static void only_sampled_objects_are_listed(void **state)
{
	AUTO_BUF struct buf stream = {0}, ids = {0};
	struct collected collected = {.build_ids = &ids};

	(void)state;
	put_map(&stream, 7, 0x10000, cmocka, 0);
	put_map(&stream, 7, 0x20000, libc, 0);
	put_sample(&stream, 7, 0x10ffe, 50);
	put_sample(&stream, 8, 0x20ffe, 40); /* of another process */
	put_sample(&stream, 7, 0x1f000, 60);
	assert_int_equal(scan(&stream, &plain, 1, &collected), 0);
	assert_true(built(&ids, cmocka));
	assert_false(built(&ids, libc));
	assert_int_equal(collected.nr_samples, 3);
	assert_int_equal(collected.first_ns, 40);
	assert_int_equal(collected.last_ns, 60);
}

static void a_map_behind_its_sample_is_found(void **state)
{
	AUTO_BUF struct buf stream = {0}, ids = {0};
	struct collected collected = {.build_ids = &ids};

	(void)state;
	put_sample(&stream, 7, 0x10000, 50); /* another ring's records came first */
	put_map(&stream, 7, 0x10000, cmocka, 10);
	put_sample(&stream, 7, 0x20000, 50);
	put_map(&stream, 7, 0x20000, libc, 60); /* too late */
	assert_int_equal(scan(&stream, &plain, 1, &collected), 0);
	assert_true(built(&ids, cmocka));
	assert_false(built(&ids, libc));
}

static void an_exec_ends_the_maps(void **state)
{
	AUTO_BUF struct buf stream = {0}, ids = {0};
	struct collected collected = {.build_ids = &ids};

	(void)state;
	put_map(&stream, 7, 0x10000, cmocka, 10);
	put_exec(&stream, 7, 20);
	put_map(&stream, 7, 0x20000, libc, 30);
	put_sample(&stream, 7, 0x10000, 40);
	put_sample(&stream, 7, 0x20000, 40);
	assert_int_equal(scan(&stream, &plain, 1, &collected), 0);
	assert_false(built(&ids, cmocka));
	assert_true(built(&ids, libc));
}

static void the_same_place_before_and_after_counts_twice(void **state)
{
	AUTO_BUF struct buf stream = {0}, ids = {0};
	struct collected collected = {.build_ids = &ids};

	(void)state;
	put_map(&stream, 7, 0x10000, cmocka, 10);
	put_map(&stream, 7, 0x10000, "/nowhere", 20);
	put_map(&stream, 7, 0x10000, libc, 30);
	put_sample(&stream, 7, 0x10000, 15);
	put_sample(&stream, 7, 0x10000, 35);
	assert_int_equal(scan(&stream, &plain, 1, &collected), 0);
	assert_true(built(&ids, cmocka));
	assert_true(built(&ids, libc));
}

static void a_fork_has_its_parents_maps(void **state)
{
	AUTO_BUF struct buf stream = {0}, ids = {0};
	struct collected collected = {.build_ids = &ids};

	(void)state;
	put_map(&stream, 7, 0x10000, cmocka, 10);
	put_fork(&stream, 8, 7, 20);
	put_fork(&stream, 9, 8, 30);
	put_map(&stream, 7, 0x20000, libc, 40); /* of the parent alone */
	put_sample(&stream, 9, 0x10000, 50);
	put_sample(&stream, 9, 0x20000, 50);
	assert_int_equal(scan(&stream, &plain, 1, &collected), 0);
	assert_true(built(&ids, cmocka));
	assert_false(built(&ids, libc));
}

static void forks_in_a_circle_end(void **state)
{
	AUTO_BUF struct buf stream = {0}, ids = {0};
	struct collected collected = {.build_ids = &ids};

	(void)state;
	put_fork(&stream, 8, 7, 20);
	put_fork(&stream, 7, 8, 20);
	put_sample(&stream, 8, 0x10000, 50);
	assert_int_equal(scan(&stream, &plain, 1, &collected), 0);
	assert_int_equal(ids.len, 0);
}

/* A sample of chains[event] whose own address is nowhere; READ is there with the first event only. */
static void put_chain(struct buf *out, unsigned event, const uint64_t *ips, uint64_t nr)
{
	size_t at = open_record(out, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);

	buf_put_u64(out, event_ids[event]);
	buf_put_u64(out, 0);
	buf_put_u64(out, 7ull << 32 | 7);
	buf_put_u64(out, 50);
	if (event == 0) {
		buf_put_u64(out, 1); /* period */
		buf_put_u64(out, 2); /* READ: two members of value, id, lost */
		for (unsigned i = 0; i < 6; i++)
			buf_put_u64(out, 0);
	}
	buf_put_u64(out, nr);
	buf_put(out, ips, nr * sizeof(*ips));
	close_record(out, at);
}

static void put_chain_map(struct buf *out, uint64_t addr, const char *name)
{
	put_map(out, 7, addr, name, 0);
	/* the trailer of `chains` has the identifier in addition */
	size_t size = 0x48 + ((strlen(name) + 8) & ~(size_t)7) + 16;
	size_t at = out->len - size;
	buf_put_u64(out, event_ids[0]);
	close_record(out, at);
}

static void call_chains_count(void **state)
{
	const uint64_t user[] = {(uint64_t)PERF_CONTEXT_KERNEL, 0x20000, (uint64_t)PERF_CONTEXT_USER, 0x10800};
	const uint64_t guest[] = {(uint64_t)PERF_CONTEXT_GUEST_USER, 0x20000};

	(void)state;
	for (unsigned event = 0; event < 2; event++) {
		AUTO_BUF struct buf stream = {0}, ids = {0};
		struct collected collected = {.build_ids = &ids};

		put_chain_map(&stream, 0x10000, cmocka);
		put_chain_map(&stream, 0x20000, libc);
		put_chain(&stream, event, user, 4);
		put_chain(&stream, event, guest, 2);
		assert_int_equal(scan(&stream, chains, 2, &collected), 0);
		assert_true(built(&ids, cmocka));
		assert_false(built(&ids, libc));
	}
}

/* The function that called the kernel is in a register only, its callers are on the stack. */
static void registers_and_stacks_count(void **state)
{
	const struct event_desc dumps = {
		.attr = {.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER |
					PERF_SAMPLE_STACK_USER,
			 .sample_id_all = 1,
			 .sample_regs_user = 1,
			 .sample_stack_user = 8},
	};

	(void)state;
	for (unsigned in_stack = 0; in_stack < 2; in_stack++) {
		AUTO_BUF struct buf stream = {0}, ids = {0};
		struct collected collected = {.build_ids = &ids};

		put_map(&stream, 7, 0x10000, cmocka, 0);
		put_map(&stream, 7, 0x20000, libc, 0);
		size_t at = open_record(&stream, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL);
		buf_put_u64(&stream, 0xffffffff81000000);
		buf_put_u64(&stream, 7ull << 32 | 7);
		buf_put_u64(&stream, 50);
		buf_put_u64(&stream, PERF_SAMPLE_REGS_ABI_64);
		buf_put_u64(&stream, in_stack ? 0 : 0x10800);
		buf_put_u64(&stream, 8);
		buf_put_u64(&stream, in_stack ? 0x10800 : 0);
		buf_put_u64(&stream, 8);
		close_record(&stream, at);
		assert_int_equal(scan(&stream, &dumps, 1, &collected), 0);
		assert_true(built(&ids, cmocka));
		assert_false(built(&ids, libc));
	}
}

static void a_chain_longer_than_its_record_is_refused(void **state)
{
	AUTO_BUF struct buf stream = {0}, ids = {0};
	struct collected collected = {.build_ids = &ids};
	uint64_t huge = UINT64_MAX / 8 + 2;

	(void)state;
	put_chain_map(&stream, 0x10000, cmocka);
	size_t at = stream.len;
	put_chain(&stream, 1, (const uint64_t[]){(uint64_t)PERF_CONTEXT_USER, 0x10000}, 2);
	memcpy(stream.data + at + 40, &huge, sizeof(huge));
	put_chain(&stream, 1, (const uint64_t[]){(uint64_t)PERF_CONTEXT_USER, 0x10000}, 2);
	assert_int_equal(scan(&stream, chains, 2, &collected), -EBADMSG);
	assert_int_equal(collected.nr_samples, 2);
	assert_true(built(&ids, cmocka)); /* what is whole counts */
}

static void the_vdso_is_listed_when_it_is_mapped(void **state)
{
	AUTO_BUF struct buf stream = {0}, ids = {0};
	struct collected collected = {.build_ids = &ids};
	uint8_t id[ELF_NOTE_BUILD_ID_MAX];

	(void)state;
	if (elf_note_of_vdso(id) <= 0)
		skip();
	put_map(&stream, 7, 0x10000, "[vdso]", 0);
	assert_int_equal(scan(&stream, &plain, 1, &collected), 0);
	assert_true(built(&ids, "[vdso]"));
}

static void what_is_no_file_is_left_out(void **state)
{
	static const char *const names[] = {"//anon", "[heap]",      "/dev/zero", "/proc/self/mem", "/",
					    "",       "/etc/passwd", "relative",  "/gone (deleted)"};
	AUTO_BUF struct buf stream = {0}, ids = {0};
	struct collected collected = {.build_ids = &ids};
	char dir[] = "/tmp/hits-XXXXXX", fifo[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		put_map(&stream, 7, 0x10000 + 0x1000 * i, names[i], 0);
		put_sample(&stream, 7, 0x10000 + 0x1000 * i, 5);
	}
	put_map(&stream, 7, 0x90000, fifo, 0);
	put_sample(&stream, 7, 0x90000, 5);
	assert_int_equal(scan(&stream, &plain, 1, &collected), 0);
	assert_int_equal(ids.len, 0);
	unlink(fifo);
	rmdir(dir);
}

static void a_cut_at_any_byte_is_reported(void **state)
{
	AUTO_BUF struct buf stream = {0};
	size_t whole[3], nr = 0;

	(void)state;
	whole[nr++] = stream.len;
	put_map(&stream, 7, 0x10000, cmocka, 0);
	whole[nr++] = stream.len;
	put_sample(&stream, 7, 0x10000, 5);
	whole[nr++] = stream.len;
	for (size_t len = 0; len <= whole[2]; len++) {
		AUTO_BUF struct buf ids = {0};
		struct collected collected = {.build_ids = &ids};
		struct buf cut = {.data = stream.data, .len = len};
		bool at_end = len == whole[0] || len == whole[1] || len == whole[2];

		assert_int_equal(scan(&cut, &plain, 1, &collected), at_end ? 0 : -EBADMSG);
		assert_int_equal(built(&ids, cmocka), len == whole[2]);
	}
}

static void a_file_shorter_than_promised_is_reported(void **state)
{
	AUTO_BUF struct buf ids = {0};
	struct collected collected = {.build_ids = &ids};
	AUTO_FD int fd = memfd_create("empty", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(build_ids_collect(&(struct collect_region){.fd = fd, .bytes = 4096}, 1, &plain, 1, &collected),
			 -EBADMSG);
	assert_int_equal(build_ids_collect(&(struct collect_region){.fd = fd}, 1, &plain, 1, &collected), 0);
	assert_int_equal(build_ids_collect(&(struct collect_region){.fd = -1, .bytes = 8}, 1, &plain, 1, &collected),
			 -EBADF);
}

/* Of a directory all files are read: together they are the whole of the progress. */
static void progress_is_of_all_regions(void **state)
{
	AUTO_BUF struct buf stream = {0}, ids = {0};
	AUTO_FD int fd = memfd_create("records", MFD_CLOEXEC);
	struct progress progress = {.bytes = true};
	struct collected collected = {.build_ids = &ids, .progress = &progress};

	(void)state;
	put_sample(&stream, 7, 0x10000, 5);
	const size_t first = stream.len;
	put_sample(&stream, 7, 0x10000, 6);
	put_sample(&stream, 7, 0x10000, 7);
	assert_int_equal(fd_pwrite(fd, stream.data, stream.len, 0), 0);
	const struct collect_region regions[] = {{.fd = fd, .bytes = first},
						 {.fd = fd, .offset = first, .bytes = stream.len - first}};
	assert_int_equal(build_ids_collect(regions, 2, &plain, 1, &collected), 0);
	assert_int_equal(collected.nr_samples, 3);
	assert_int_equal(progress.total, stream.len);
	assert_int_equal(progress.done, stream.len);
}

/* Whatever the bytes are: it ends, and says 0 or -EBADMSG. */
static void scribbled_bytes_do_no_harm(void **state)
{
	AUTO_BUF struct buf stream = {0};
	uint64_t random = 88172645463325252ull;

	(void)state;
	put_chain_map(&stream, 0x10000, cmocka);
	put_fork(&stream, 8, 7, 1);
	put_exec(&stream, 8, 2);
	put_chain(&stream, 0, (const uint64_t[]){(uint64_t)PERF_CONTEXT_USER, 0x10000}, 2);
	put_chain(&stream, 1, (const uint64_t[]){(uint64_t)PERF_CONTEXT_USER, 0x10000}, 2);
	for (unsigned round = 0; round < 3000; round++) {
		AUTO_BUF struct buf ids = {0}, copy = {0};
		struct collected collected = {.build_ids = &ids};

		buf_put(&copy, stream.data, stream.len);
		for (unsigned i = 0; i <= round % 8; i++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17; /* xorshift64 */
			copy.data[(random >> 8) % copy.len] = (uint8_t)random;
		}
		int err = scan(&copy, chains, 2, &collected);
		assert_true(err == 0 || err == -EBADMSG);
	}
}

static void notes_are_checked(void **state)
{
	const struct {
		uint32_t namesz, descsz, type;
		char name[4];
		uint8_t desc[4];
	} notes[2] = {{4, 3, 1, "GNU", {9, 9, 9}}, {4, 4, 3, "GNU", {1, 2, 3, 4}}};
	uint8_t id[ELF_NOTE_BUILD_ID_MAX];
	uint8_t broken[sizeof(notes)];

	(void)state;
	assert_int_equal(elf_note_build_id((struct span){notes, sizeof(notes)}, id), 4);
	assert_memory_equal(id, "\1\2\3\4", 4);
	for (size_t len = 0; len < sizeof(notes); len++)
		assert_int_equal(elf_note_build_id((struct span){notes, len}, id), -ENOENT);
	memcpy(broken, notes, sizeof(notes));
	memset(broken, 0xff, 8);
	assert_int_equal(elf_note_build_id((struct span){broken, sizeof(broken)}, id), -ENOENT);
	assert_int_equal(elf_note_of_file("/", NULL, id), -EINVAL);
	assert_int_equal(elf_note_of_file("/nowhere", NULL, id), -ENOENT);
	assert_true(elf_note_of_module("nothing-like-it", id) < 0);
}

struct draw {
	uint64_t state; /* not 0 */
};

static uint64_t draw(struct draw *from, uint64_t below)
{
	from->state ^= from->state << 13, from->state ^= from->state >> 7,
		from->state ^= from->state << 17; /* xorshift64 */
	return (from->state >> 8) % below;
}

/* Most often the address of the sample first, and many alike. */
static void put_any_chain(struct buf *out, struct draw *from, uint64_t ip, uint16_t mode)
{
	static const uint64_t markers[] = {(uint64_t)PERF_CONTEXT_USER, (uint64_t)PERF_CONTEXT_KERNEL, 0};
	const uint64_t nr = draw(from, 30), first = draw(from, 3);

	buf_put_u64(out, nr);
	for (uint64_t i = 0; i < nr; i++)
		buf_put_u64(out, i == 0            ? markers[mode == PERF_RECORD_MISC_KERNEL]
				 : i == 1          ? ip
				 : draw(from, 100) ? 0x10000 + 0x1000 * (first + nr - i)
						   : markers[draw(from, 3)]);
}

/* One of a few processes and pages; each `rare` times without a time, of a guest, or a map. */
static void put_any(struct buf *out, struct draw *from, unsigned nr, uint64_t rare, bool has_chain)
{
	static const uint16_t modes[] = {PERF_RECORD_MISC_USER, PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_GUEST_USER};
	uint64_t addr = 0x10000 + 0x1000 * draw(from, 40),
		 time = draw(from, rare) ? 1000 + 10 * nr - draw(from, 400) % nr : 0;
	uint32_t pid = 7 + (uint32_t)draw(from, 3);
	struct perf_event_header header;

	if (draw(from, rare) == 0) {
		put_map(out, pid, addr, draw(from, 2) ? cmocka : libc, time);
		return;
	}
	size_t at = out->len;
	put_sample(out, pid, addr, time);
	memcpy(&header, out->data + at, sizeof(header));
	header.misc = modes[draw(from, rare) ? draw(from, 2) : 2];
	memcpy(out->data + at, &header, sizeof(header));
	if (has_chain)
		put_any_chain(out, from, addr, header.misc);
	for (uint64_t words = draw(from, 4); words > 0; words--)
		buf_put_u64(out, UINT64_MAX);
	close_record(out, at);
}

static void assert_same_extents(const struct extent_list *a, const struct extent_list *b)
{
	assert_int_equal(a->nr, b->nr);
	for (size_t i = 0; i < a->nr; i++)
		assert_memory_equal(&a->infos[i].fields, &b->infos[i].fields, sizeof(a->infos[i].fields));
}

/* What a visit finds in a ring, some of it at a time; all that was seen is overwritten then. */
static void look_at_ring(struct collector *collector, uint64_t offset, const struct span parts[2], uint64_t most)
{
	uint8_t *ring[2] = {malloc(parts[0].len + 1), malloc(parts[1].len + 1)};
	struct span left[2] = {{ring[0], parts[0].len}, {ring[1], parts[1].len}};

	for (int i = 0; i < 2; i++)
		memcpy(ring[i], parts[i].ptr, parts[i].len);
	while (left[0].len || left[1].len) {
		if (!left[0].len) {
			left[0] = left[1];
			left[1].len = 0;
		}
		const struct stage_look how = {.offset = offset, .most = most};
		size_t seen = collector_look(collector, left, left[1].len ? 2 : 1, &how);
		assert_in_range(seen, 1, most + 65535);
		assert_in_range(seen, 1, left[0].len + left[1].len);
		offset += seen;
		for (int i = 0; i < 2; i++) {
			size_t part = seen < left[i].len ? seen : left[i].len;
			memset((uint8_t *)left[i].ptr, 0xee, part);
			left[i] = (struct span){(const uint8_t *)left[i].ptr + part, left[i].len - part};
			seen -= part;
		}
	}
	free(ring[0]);
	free(ring[1]);
}

/*
 * Seen in visits, in their ring or in a batch, samples go by in other groups than read back.
 */
static void what_goes_by_is_what_is_read_back(void **state)
{
	static const uint64_t rare[] = {40, 5000, 1 << 20};

	(void)state;
	for (uint64_t round = 1; round <= 12; round++) {
		const bool has_chain = round > 6;
		const struct event_desc *event = has_chain ? &plain_chain : &plain;
		AUTO_BUF struct buf stream = {0}, ids = {0}, live_ids = {0};
		AUTO_EXTENTS struct extent_list extents = {0}, live_extents = {0};
		struct collected collected = {.build_ids = &ids, .extents = &extents};
		struct collected live_collected = {.build_ids = &live_ids, .extents = &live_extents};
		struct draw from = {round};
		struct collector *collector;
		AUTO_FD int fd = memfd_create("records", MFD_CLOEXEC);

		for (unsigned nr = 1; nr < 50000; nr++)
			put_any(&stream, &from, nr, rare[round % 3], has_chain);
		assert_int_equal(fd_pwrite(fd, stream.data, stream.len, FRONT), 0);
		struct collect_region region = {.fd = fd, .offset = FRONT, .bytes = stream.len};
		assert_int_equal(build_ids_collect(&region, 1, event, 1, &collected), 0);
		assert_int_equal(collector_new(event, 1, &collector), 0);
		for (size_t at = 0, end = 0; at < stream.len; at = end) {
			for (uint64_t left = draw(&from, 2000) + 1; left > 0 && end < stream.len; left--)
				end = record_end(&stream, end);
			size_t part = draw(&from, (end - at) / 8) * 8;
			struct span parts[] = {{stream.data + at, part}, {stream.data + at + part, end - at - part}};
			if (!has_chain && draw(&from, 3))
				look_at_ring(collector, FRONT + at, parts, 1 + draw(&from, 40000));
			else
				collector_observe(collector, FRONT + at, part ? parts : parts + 1, part ? 2 : 1);
		}
		region.collectors = &collector;
		region.nr_collectors = 1;
		AUTO_FD int nothing = memfd_create("nothing", MFD_CLOEXEC); /* nothing is read back */
		region.fd = nothing;
		assert_int_equal(build_ids_collect(&region, 1, event, 1, &live_collected), 0);
		assert_same(&live_collected, &collected);
		assert_same_extents(&live_extents, &extents);
		collector_free(collector);
	}
}

/* Of an extent that a stage looks at, as of one that is gone through for its statistics alone. */
static void samples_with_chains_are_counted(void **state)
{
	const struct event_desc events[] = {
		{.attr = chains[1].attr, .ids = event_ids, .nr_ids = 1},
		{.attr = chains[1].attr, .ids = event_ids + 1, .nr_ids = 1},
	};
	const uint64_t words[] = {(uint64_t)PERF_CONTEXT_USER,
				  0x10800,
				  0x10900,
				  0x10a00,
				  0x10b00,
				  0x10c00,
				  0x10d00,
				  0x10e00,
				  0x10f00,
				  0x11000,
				  0x11100,
				  0x11200};
	AUTO_BUF struct buf stream = {0};
	struct draw from = {3};
	struct collector *collector;
	struct extent_stats *stats;
	struct extent_tally tally;
	struct extent_info expected, info;

	(void)state;
	for (uint64_t nr = 0; nr < 500; nr++) {
		size_t at = stream.len;
		uint64_t id = event_ids[draw(&from, 3) == 0], time = draw(&from, 100) ? 50 + nr : 0;
		if (nr % 100 == 50)
			put_chain_map(&stream, 0x10000, cmocka);
		else
			put_chain(&stream, 1, words, 1 + draw(&from, 12));
		if (nr % 100 != 50) {
			memcpy(stream.data + at + 8, &id, sizeof(id));
			memcpy(stream.data + at + 32, &time, sizeof(time));
		}
	}
	const struct span records = buf_span(&stream);
	assert_int_equal(extent_stats_new(events, 2, &stats), 0);
	extent_stats_records(stats, records, &expected);
	assert_int_equal(collector_new(events, 2, &collector), 0);
	assert_int_equal(extent_tally_begin(&tally, stats), 0);
	assert_int_equal(collector_look(collector, &records, 1, &(struct stage_look){.tally = &tally}), records.len);
	extent_tally_end(&tally, records.len, &info);
	assert_memory_equal(&info.fields, &expected.fields, sizeof(info.fields));
	assert_int_equal(info.fields.nr_counts, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(info.counts[i].event, expected.counts[i].event);
		assert_int_equal(info.counts[i].nr, expected.counts[i].nr);
	}
	free(info.counts);
	free(expected.counts);
	collector_free(collector);
	extent_stats_free(stats);
}

static bool object_of(void *function, char ret[4096])
{
	Dl_info info;

	return dladdr(function, &info) && realpath(info.dli_fname, ret);
}

/* A file of 3000 bytes, mapped. */
static struct file_id put_jitdump(struct buf *out, const char *directory, unsigned nr)
{
	char path[64];
	struct stat status;

	snprintf(path, sizeof(path), "%s/jit-%u.dump", directory, nr);
	AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && write(fd, &nr, sizeof(nr)) == sizeof(nr) && ftruncate(fd, 3000) == 0 &&
		    fstat(fd, &status) == 0);
	const struct file_id file = {
		.major = major(status.st_dev), .minor = minor(status.st_dev), .inode = status.st_ino};
	struct record_mmap2 record = {
		.header = {.type = PERF_RECORD_MMAP2, .misc = PERF_RECORD_MISC_USER},
		.pid = 10,
		.tid = 10,
		.addr = 0x1000 * nr,
		.len = 0x1000,
		.maj = file.major,
		.min = file.minor,
		.ino = file.inode,
		.prot = PROT_EXEC,
	};
	size_t at = out->len;
	record_put(out, &record, sizeof(record), span_of_text(path), 0);
	put_trailer(out, 1);
	close_record(out, at);
	return file;
}

/* len 0: there is none. */
static struct elf_id copy_of(const struct buf *files, const struct file_id *file)
{
	struct cursor at = cursor_over(buf_span(files));
	struct file_build_id entry;

	while (file_build_id_next(&at, &entry))
		if (file_id_equal(&entry.file, file) && entry.copy_id.len)
			return entry.copy_id;
	return (struct elf_id){0};
}

/* A bundle gets those under their path, too: a file may be as long as its process likes, and take no room itself. */
static void copies_of_jitdumps_have_a_bound(void **state)
{
	AUTO_BUF struct buf stream = {0}, ids = {0}, files = {0};
	char directory[] = "/tmp/millrace-build-ids-XXXXXX", cache_path[64], command[128];
	struct file_id dumps[2];

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(cache_path, sizeof(cache_path), "%s/cache", directory);
	for (unsigned i = 0; i < 2; i++)
		dumps[i] = put_jitdump(&stream, directory, i + 1);
	put_sample(&stream, 10, 0x5000, 2);
	struct collected collected = {.build_ids = &ids,
				      .files = &files,
				      .kept = {.directory = cache_path, .max_bytes = 5000, .bundle = true}};
	int err = scan(&stream, &plain, 1, &collected);
	AUTO_FD int cache = open(cache_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct elf_id copies[2] = {copy_of(&files, &dumps[0]), copy_of(&files, &dumps[1])};
	bool has =
		object_cache_has(&(struct cache_entry){.dir_fd = cache, .name = "", .id = copies[0], .leaf = "dump"});
	snprintf(command, sizeof(command), "rm -r %s", directory);
	assert_int_equal(system(command), 0);
	assert_int_equal(err, 0);
	assert_true(copies[0].len && has && !copies[1].len);
	assert_int_equal(collected.kept.bytes, 3000);
	assert_int_equal(collected.kept.nr + collected.kept.object_bytes, 0); /* they are under their path */
}

/* Its user could put another file under the path, one that only root can read. */
static void a_jitdump_whose_file_is_not_known_is_not_copied(void **state)
{
	AUTO_BUF struct buf stream = {0}, ids = {0}, files = {0};
	char directory[] = "/tmp/millrace-build-ids-XXXXXX", cache_path[64], path[64], command[128];

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(cache_path, sizeof(cache_path), "%s/cache", directory);
	snprintf(path, sizeof(path), "%s/jit-1.dump", directory);
	(void)put_jitdump(&stream, directory, 1);
	buf_fini(&stream);
	put_map(&stream, 10, 0x1000, path, 1);
	put_sample(&stream, 10, 0x5000, 2);
	struct collected collected = {.build_ids = &ids,
				      .files = &files,
				      .kept = {.directory = cache_path, .max_bytes = 5000, .bundle = true}};
	int err = scan(&stream, &plain, 1, &collected);
	snprintf(command, sizeof(command), "rm -r %s", directory);
	assert_int_equal(system(command), 0);
	assert_int_equal(err, 0);
	assert_int_equal(collected.kept.bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_sampled_objects_are_listed),
		cmocka_unit_test(a_map_behind_its_sample_is_found),
		cmocka_unit_test(an_exec_ends_the_maps),
		cmocka_unit_test(the_same_place_before_and_after_counts_twice),
		cmocka_unit_test(a_fork_has_its_parents_maps),
		cmocka_unit_test(forks_in_a_circle_end),
		cmocka_unit_test(call_chains_count),
		cmocka_unit_test(registers_and_stacks_count),
		cmocka_unit_test(a_chain_longer_than_its_record_is_refused),
		cmocka_unit_test(the_vdso_is_listed_when_it_is_mapped),
		cmocka_unit_test(what_is_no_file_is_left_out),
		cmocka_unit_test(a_cut_at_any_byte_is_reported),
		cmocka_unit_test(a_file_shorter_than_promised_is_reported),
		cmocka_unit_test(progress_is_of_all_regions),
		cmocka_unit_test(scribbled_bytes_do_no_harm),
		cmocka_unit_test(what_goes_by_is_what_is_read_back),
		cmocka_unit_test(samples_with_chains_are_counted),
		cmocka_unit_test(notes_are_checked),
		cmocka_unit_test(copies_of_jitdumps_have_a_bound),
		cmocka_unit_test(a_jitdump_whose_file_is_not_known_is_not_copied),
	};
	uint8_t id[ELF_NOTE_BUILD_ID_MAX];

	/* two objects that this machine has for sure, unless the test is linked statically */
	if (!object_of((void *)(uintptr_t)fork, libc) ||
	    !object_of((void *)(uintptr_t)_cmocka_run_group_tests, cmocka) || !strcmp(libc, cmocka) ||
	    elf_note_of_file(libc, NULL, id) <= 0 || elf_note_of_file(cmocka, NULL, id) <= 0) {
		puts("1..0 # SKIP no shared libraries with build-ids here");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
