/* SPDX-License-Identifier: MIT */
/* What recover makes of recordings that lost their end, cut at each byte: every whole record stays, and only those. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "compress/extent.h"
#include "compress/extent_index.h"
#include "compress/zstd.h"
#include "perfdata/layout.h"
#include "perfdata/ledger.h"
#include "read/session.h"
#include "record/features/features.h"
#include "record/output/finish.h"
#include "record/output/recover.h"
#include "session_file.h"

enum { NR_SAMPLES = 20, MARK_BYTES = 8 }; /* of a FINISHED_ROUND record, where there is no other */

static char room[] = "/tmp/recover-XXXXXX";
static char path[64], other[64];

static bool cuts_are_refused, events_are_hidden, tracefs_is_missing;
static bool disk_is_full, disk_fails; /* full: for one write; behind the next one it fails, for all reads */
static unsigned cut_at_look;          /* a file is cut before it is looked at so many times more; 0: it is not */
static off_t cut_bytes;               /* so many go then */
static off_t unreadable_from;         /* 0: nothing is */

/* Instead of libc's. */
DIR *opendir(const char *name)
{
	if (events_are_hidden && strstr(name, "/events")) {
		errno = EACCES;
		return NULL;
	}
	int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? NULL : fdopendir(fd);
}

int fstat(int fd, struct stat *ret)
{
	if (fstatat(fd, "", ret, AT_EMPTY_PATH))
		return -1;
	if (cut_at_look && !--cut_at_look) {
		ret->st_size -= cut_bytes;
		return (int)syscall(SYS_ftruncate, fd, ret->st_size);
	}
	return 0;
}

ssize_t pread(int fd, void *to, size_t len, off_t at)
{
	if (unreadable_from && at + (off_t)len > unreadable_from) {
		errno = EIO;
		return -1;
	}
	return syscall(SYS_pread64, fd, to, len, at);
}

ssize_t pwrite(int fd, const void *from, size_t len, off_t at)
{
	if (disk_is_full) {
		disk_is_full = false;
		disk_fails = true;
		errno = ENOSPC;
		return -1;
	}
	if (disk_fails)
		unreadable_from = 1;
	return syscall(SYS_pwrite64, fd, from, len, at);
}

int statfs(const char *name, struct statfs *ret)
{
	if (tracefs_is_missing) {
		errno = ENOENT;
		return -1;
	}
	return (int)syscall(SYS_statfs, name, ret);
}

int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data)
{
	if (tracefs_is_missing) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_mount, source, target, type, flags, data);
}

int ftruncate(int fd, off_t bytes)
{
	if (cuts_are_refused) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_ftruncate, fd, bytes);
}

/* Two events of the CPU clock, and samples of both in turn. `ends`: of the records, in bytes of data. */
static void build(struct buf *out, size_t ends[NR_SAMPLES + 1])
{
	struct file_events file;
	struct file_header header;

	file_events_init(&file);
	file.events[1].attr.type = PERF_TYPE_SOFTWARE;
	file.events[1].attr.config = PERF_COUNT_SW_PAGE_FAULTS;
	file.events[1].attr.sample_type = file.events[0].attr.sample_type;
	header_encode(file.events, 2, out, &header);
	memcpy(out->data, &header, sizeof(header));
	size_t start = out->len;
	file_put_comm(out, 0, "task");
	ends[0] = out->len - start;
	for (unsigned i = 0; i < NR_SAMPLES; i++) {
		file_put_sample(out, 10 + i, i % 2 ? FILE_ID_SWITCH : FILE_ID_CLOCK);
		if (i % 2) { /* that event has no RAW here */
			out->len -= 16;
			file_end(out, out->len - (ends[1] - ends[0]));
		}
		ends[i + 1] = out->len - start;
	}
}

static void set_header(struct buf *file, const struct file_header *header)
{
	memcpy(file->data, header, sizeof(*header));
}

static void store(const char *name, const void *bytes, size_t len)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write(fd, bytes, len), 0);
	close(fd);
}

static struct file_header header_of(const char *name)
{
	AUTO_BUF struct buf bytes = {0};
	struct file_header header;
	struct diag diag;
	bool pipe;

	assert_int_equal(fd_slurp(name, 1 << 20, &bytes), 0);
	assert_int_equal(header_decode(buf_span(&bytes), &header, &pipe, &diag), 0);
	assert_false(pipe);
	return header;
}

static int recover_with(bool index, const char *name, struct recover_result *ret, struct diag *reterr)
{
	static char *argv[] = {(char *)"millrace", NULL};
	const struct recover_params params = {.path = name, .build_ids = true, .index = index, .argc = 1, .argv = argv};

	*ret = (struct recover_result){0};
	return recover_recording(&params, ret, reterr);
}

static int recover(const char *name, struct recover_result *ret, struct diag *reterr)
{
	return recover_with(false, name, ret, reterr);
}

/* How many of the ends are not behind that many bytes. */
static size_t nr_whole(const size_t ends[NR_SAMPLES + 1], size_t bytes)
{
	size_t nr = 0;

	while (nr <= NR_SAMPLES && ends[nr] <= bytes)
		nr++;
	return nr;
}

static void test_cut_at_each_byte(void **state)
{
	AUTO_BUF struct buf file = {0};
	size_t ends[NR_SAMPLES + 1];

	(void)state;
	build(&file, ends);
	size_t start = file.len - ends[NR_SAMPLES];
	for (size_t cut = 0; cut <= ends[NR_SAMPLES]; cut += cut < ends[1] ? 1 : 37) {
		struct recover_result result;
		struct diag diag = {""};
		size_t nr = nr_whole(ends, cut);
		store(path, file.data, start + cut);
		int err = recover(path, &result, &diag);
		assert_int_equal(err, 0);
		assert_false(result.was_whole);
		assert_int_equal(result.data_bytes, nr ? ends[nr - 1] : MARK_BYTES);
		assert_int_equal(result.dropped_bytes, cut - (nr ? ends[nr - 1] : 0));
		assert_true(result.samples_counted);
		assert_int_equal(result.nr_samples, nr ? nr - 1 : 0);
		struct file_header header = header_of(path);
		assert_int_equal(header.data.offset, start);
		assert_int_equal(header.data.size, result.data_bytes);
		assert_true(header.features[0] != 0);
		assert_int_equal(recover(path, &result, &diag), 0);
		assert_true(result.was_whole);
	}
}

/* The recorder had committed some: what came behind is found, too. */
static void test_what_the_header_knows_is_not_the_end(void **state)
{
	AUTO_BUF struct buf file = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_result result;
	struct file_header header;
	struct diag diag = {""};

	(void)state;
	build(&file, ends);
	memcpy(&header, file.data, sizeof(header));
	header.data.size = ends[3];
	memcpy(file.data, &header, sizeof(header));
	store(path, file.data, file.len - 1);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_int_equal(result.data_bytes, ends[NR_SAMPLES - 1]);
	assert_int_equal(result.nr_samples, NR_SAMPLES - 1);
}

/* `nr`: of the ends that are in it. */
static void expect_data_of_cut_file(struct span cut, const size_t ends[NR_SAMPLES + 1], size_t nr)
{
	struct recover_result result;
	struct diag diag = {""};

	store(path, cut.ptr, cut.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_false(result.was_whole);
	assert_int_equal(result.nr_samples, nr - 1);
	assert_int_equal(header_of(path).data.size, ends[nr - 1]);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_true(result.was_whole);
}

/* A finished file that was cut in its features keeps its data; one whose data were cut, what is left of them. */
static void test_a_finished_file_is_cut(void **state)
{
	AUTO_BUF struct buf file = {0}, whole = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_result result;
	struct diag diag = {""};

	(void)state;
	build(&file, ends);
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_int_equal(fd_slurp(path, 1 << 20, &whole), 0);
	assert_true(whole.len > file.len);
	for (size_t cut = file.len - 3; cut < whole.len; cut += cut <= file.len + 3 ? 1 : 211) {
		size_t nr = nr_whole(ends, cut - (file.len - ends[NR_SAMPLES]));
		expect_data_of_cut_file((struct span){whole.data, cut}, ends, nr);
	}
	expect_data_of_cut_file((struct span){whole.data, whole.len - 1}, ends, NR_SAMPLES + 1);
}

static void expect(const char *name, int err, const char *words)
{
	struct recover_result result;
	struct diag diag = {""};

	assert_int_equal(recover(name, &result, &diag), err);
	if (!strstr(diag.text, words))
		fail_msg("%s", diag.text);
}

static void test_what_cannot_be_recovered_says_why(void **state)
{
	AUTO_BUF struct buf file = {0}, pipe = {0};
	size_t ends[NR_SAMPLES + 1];
	struct file_header header;

	(void)state;
	build(&file, ends);
	size_t start = file.len - ends[NR_SAMPLES];
	store(path, file.data, sizeof(header) - 1);
	expect(path, -EBADMSG, path);
	store(path, file.data, start - 1);
	expect(path, -EBADMSG, "no record is left");
	store(path, "no recording at all, but long enough", 36);
	expect(path, -EBADMSG, path);
	header_encode_pipe(&pipe);
	store(path, pipe.data, pipe.len);
	expect(path, -ENOTSUP, "pipe");

	memcpy(&header, file.data, sizeof(header));
	struct file_section attrs = header.attrs;
	for (unsigned i = 0; i < 4; i++) {
		header.attrs = (struct file_section[]){{start + 1, attrs.size},
						       {attrs.offset, start - attrs.offset + 1},
						       {attrs.offset, attrs.size - 1},
						       {attrs.offset, 0}}[i];
		memcpy(file.data, &header, sizeof(header));
		store(path, file.data, file.len);
		expect(path, -EBADMSG, "events cannot be read");
	}
	/* Good ones, but behind the records. */
	AUTO_BUF struct buf behind = {0};
	header.attrs = (struct file_section){file.len, attrs.size};
	memcpy(file.data, &header, sizeof(header));
	buf_put(&behind, file.data, file.len);
	buf_put(&behind, file.data + attrs.offset, attrs.size);
	store(path, behind.data, behind.len);
	expect(path, -EBADMSG, "events cannot be read");
	/* Likewise, but the last one reaches into the records. */
	header.attrs = attrs;
	header.data.offset = attrs.offset + attrs.size - 8;
	memcpy(file.data, &header, sizeof(header));
	store(path, file.data, file.len);
	expect(path, -EBADMSG, "events cannot be read");
	header.data.offset = sizeof(header) - 1;
	memcpy(file.data, &header, sizeof(header));
	store(path, file.data, file.len);
	expect(path, -EBADMSG, "no record is left");
	expect("/nonexistent/perf.data", -ENOENT, "/nonexistent/perf.data");
	assert_int_equal(symlink(path, other), 0);
	expect(other, -ELOOP, "link");
	assert_int_equal(unlink(other), 0);
}

static void expect_unreadable(const struct buf *file)
{
	AUTO_BUF struct buf found = {0};

	store(path, file->data, file->len);
	expect(path, -EIO, "cannot be read to its end, and is left as it is");
	assert_int_equal(fd_slurp(path, 1 << 20, &found), 0);
	assert_int_equal(found.len, file->len);
	assert_memory_equal(found.data, file->data, file->len);
}

/* A bad disk, or one that does not answer for a moment, costs no record: of a file with an end or without. */
static void test_what_cannot_be_read_is_not_cut_off(void **state)
{
	AUTO_BUF struct buf file = {0}, whole = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_result result;
	struct diag diag = {""};

	(void)state;
	build(&file, ends);
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_int_equal(fd_slurp(path, 1 << 20, &whole), 0);
	size_t start = file.len - ends[NR_SAMPLES];
	unreadable_from = (off_t)(start + ends[NR_SAMPLES / 2]);
	expect_unreadable(&file);
	expect_unreadable(&whole);
	unreadable_from = (off_t)file.len; /* of the features */
	expect_unreadable(&whole);
	unreadable_from = 0;
	store(path, whole.data, whole.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_true(result.was_whole);
}

/* Where the last records made room for the features: how many samples went is not guessed. */
static void test_removed_samples_that_cannot_be_counted(void **state)
{
	enum { TIMES = 100 };
	AUTO_BUF struct buf file = {0};
	struct file_events events;
	struct finish_result result;
	struct diag diag = {""};
	size_t ends[NR_SAMPLES + 1];

	(void)state;
	file_events_init(&events);
	build(&file, ends);
	const size_t start = file.len - ends[NR_SAMPLES], records = ends[NR_SAMPLES];
	for (unsigned i = 1; i < TIMES; i++) {
		void *to = buf_extend(&file, records);
		memcpy(to, file.data + start, records);
	}
	store(path, file.data, file.len);
	const struct features_params features = {.events = events.events, .nr_events = 2};
	struct ledger ledger = {0}, stored = {0};
	struct finish_params params = {
		.path = path,
		.ledger = &ledger,
		.header = header_of(path),
		.data_bytes = records * TIMES,
		.features = &features,
		.build_ids = true,
	};
	for (unsigned i = 0; i < 2; i++) {
		params.fd = open(path, O_RDWR | O_CLOEXEC);
		disk_is_full = i;
		assert_int_equal(finish_file(&params, &result, &diag), i ? -ENOSPC : 0);
		disk_fails = false;
		unreadable_from = 0;
		close(params.fd);
		assert_int_equal(result.samples_counted, !i);
		assert_int_equal(result.cut_samples, 0);
		assert_true(i ? result.data_bytes < params.data_bytes : result.nr_samples == NR_SAMPLES * TIMES);
		assert_int_equal(result.cut_bytes, params.data_bytes - result.data_bytes);
	}
	/* And the file says how much is missing. */
	AUTO_BUF struct buf found = {0};
	struct session *session;
	struct span payload;
	uint64_t unwritten = 0;
	assert_int_equal(fd_slurp(path, 1 << 20, &found), 0);
	assert_int_equal(session_open_memory(buf_span(&found), 0, &session, &diag), 0);
	assert_true(session_feature(session, FEATURE_LEDGER, &payload));
	assert_int_equal(ledger_decode(payload, &stored), 0);
	for (size_t i = 0; i < stored.nr_costs; i++)
		unwritten += strcmp(stored.costs[i].name, LEDGER_UNWRITTEN) ? 0 : stored.costs[i].value;
	assert_int_equal(unwritten, params.data_bytes - result.data_bytes);
	session_close(session);
	ledger_fini(&stored);
	ledger_fini(&ledger);
}

/* A list of events that breaks off is not read beyond its end, and an event of no known size is none. */
static void test_events_that_break_off(void **state)
{
	enum { NR = 30 };
	AUTO_BUF struct buf file = {0};
	struct event_desc many[NR];
	struct file_events events;
	struct file_header header;

	(void)state;
	file_events_init(&events);
	for (size_t i = 0; i < NR; i++)
		many[i] = events.events[0];
	header_encode(many, NR, &file, &header);
	header.attrs.size--;
	set_header(&file, &header);
	store(path, file.data, file.len);
	expect(path, -EBADMSG, "events cannot be read");
	/* All events have one size: the second one has that of Linux 3.x here. */
	header.attrs.size++;
	set_header(&file, &header);
	const uint32_t shorter = PERF_ATTR_SIZE_VER3;
	memcpy(file.data + header.attrs.offset + header.attr_size + offsetof(struct perf_event_attr, size), &shorter,
	       sizeof(shorter));
	memset(file.data + header.attrs.offset + header.attr_size + shorter, 0, sizeof(struct file_section));
	store(path, file.data, file.len);
	expect(path, -EBADMSG, "events cannot be read");
	header.attrs.size = header.attr_size;
	set_header(&file, &header);
	memset(file.data + header.attrs.offset + offsetof(struct perf_event_attr, size), 0xff, sizeof(uint32_t));
	store(path, file.data, file.len);
	expect(path, -EBADMSG, "events cannot be read");
}

/* A data directory: each part is cut behind its last whole record. */
static void test_parts_of_a_directory(void **state)
{
	AUTO_BUF struct buf file = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_result result;
	struct diag diag = {""};
	char name[128];
	struct stat st;

	(void)state;
	build(&file, ends);
	size_t start = file.len - ends[NR_SAMPLES];
	assert_int_equal(mkdir(other, 0700), 0);
	snprintf(name, sizeof(name), "%s/data", other);
	store(name, file.data, start + ends[0]);
	for (unsigned part = 0; part < 2; part++) {
		snprintf(name, sizeof(name), "%s/data.%u", other, part);
		store(name, file.data + start + ends[0], ends[5 + part] - ends[0] + 7);
	}
	assert_int_equal(recover(other, &result, &diag), 0);
	assert_false(result.was_whole);
	assert_int_equal(result.dropped_bytes, 14);
	assert_int_equal(result.data_bytes, ends[5] + ends[6] - ends[0]);
	assert_int_equal(result.nr_samples, 5 + 6);
	for (unsigned part = 0; part < 2; part++) {
		snprintf(name, sizeof(name), "%s/data.%u", other, part);
		assert_int_equal(stat(name, &st), 0);
		assert_int_equal(st.st_size, ends[5 + part] - ends[0]);
	}
	assert_int_equal(recover(other, &result, &diag), 0);
	assert_true(result.was_whole);
	/* The header that a directory has from the start is none of an end: the times of samples are known then only.
	 */
	snprintf(name, sizeof(name), "%s/data", other);
	file.len = 0;
	assert_int_equal(fd_slurp(name, 1 << 20, &file), 0);
	struct file_header header = header_of(name);
	header.features[0] &= ~(UINT64_C(1) << FEATURE_SAMPLE_TIME);
	set_header(&file, &header);
	store(name, file.data, file.len);
	assert_int_equal(recover(other, &result, &diag), 0);
	assert_false(result.was_whole);
	/* Each part that lost its end makes it one that is not whole. */
	for (unsigned part = 0; part < 2; part++) {
		snprintf(name, sizeof(name), "%s/data.%u", other, part);
		assert_int_equal(truncate(name, (off_t)(ends[5 + part] - ends[0] - 1)), 0);
		cuts_are_refused = true;
		expect(other, -EPERM, "cannot be cut");
		cuts_are_refused = false;
		assert_int_equal(recover(other, &result, &diag), 0);
		assert_false(result.was_whole);
		assert_int_equal(result.nr_samples, part ? 4 + 5 : 4 + 6);
	}
}

/* What is no file of records is refused, whichever it is. */
static void test_a_directory_that_is_none(void **state)
{
	AUTO_BUF struct buf file = {0};
	size_t ends[NR_SAMPLES + 1];
	char directory[100], name[128];

	(void)state;
	build(&file, ends);
	snprintf(directory, sizeof(directory), "%s.none", other);
	assert_int_equal(mkdir(directory, 0700), 0);
	expect(directory, -ENOENT, "none/data");
	snprintf(name, sizeof(name), "%s/data", directory);
	store(name, file.data, file.len);
	snprintf(name, sizeof(name), "%s/data.0", directory);
	assert_int_equal(symlink(path, name), 0);
	expect(directory, -ELOOP, "data.0");
	assert_int_equal(unlink(name), 0);
	assert_int_equal(mkfifo(name, 0600), 0);
	expect(directory, -EPERM, "data.0: is no file");
}

/* The file as its recorder left it: `records` behind the header of one event. */
static void store_records(const struct buf *records)
{
	AUTO_BUF struct buf file = {0};
	struct file_events events;
	struct file_header header;

	file_events_init(&events);
	header_encode(events.events, 1, &file, &header);
	memcpy(file.data, &header, sizeof(header));
	buf_put(&file, records->data, records->len);
	store(path, file.data, file.len);
}

/* A whole recording of a later version, whose records are not known here, stays; one that was killed is cut there. */
static void test_records_of_later_versions(void **state)
{
	AUTO_BUF struct buf file = {0}, records = {0}, still = {0}, names = {0};
	struct feature_set features = {0};
	struct file_events events;
	struct file_header header;
	struct recover_result result;
	struct diag diag = {""};

	(void)state;
	file_events_init(&events);
	file_put_sample(&records, 10, FILE_ID_CLOCK);
	const size_t known = records.len;
	size_t at = file_begin(&records, RECORD_USER_LAST + 1, 0);
	buf_put_u64(&records, 0);
	file_end(&records, at);
	file_put_sample(&records, 20, FILE_ID_CLOCK);
	header_encode(events.events, 1, &file, &header);
	buf_put(&file, records.data, records.len);
	header.data.size = records.len;
	feature_encode_event_desc(events.events, 1, &names);
	assert_int_equal(feature_set_add(&features, FEATURE_EVENT_DESC, &names), 0);
	assert_int_equal(feature_set_encode(&features, file.len, &file, header.features), 0);
	feature_set_fini(&features);
	set_header(&file, &header);
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_true(result.was_whole);
	assert_int_equal(fd_slurp(path, 1 << 20, &still), 0);
	assert_int_equal(still.len, file.len);
	assert_memory_equal(still.data, file.data, still.len);

	store_records(&records);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_false(result.was_whole);
	assert_int_equal(result.data_bytes, known);
	/* What was lost on the disk is not taken for such a record: its size does not lead to the end. */
	memset(file.data + header.data.offset + known, 0x55, sizeof(struct perf_event_header));
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_false(result.was_whole);
	damage_list_fini(&result.damage);
}

/* Features of later versions, whose bits are beyond the first 64, are part of a whole file, and behind its data. */
static void test_features_of_later_versions(void **state)
{
	const struct file_section outside = {UINT64_C(1) << 40, 8};
	AUTO_BUF struct buf file = {0}, whole = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_result result;
	struct file_header header;
	struct diag diag = {""};

	(void)state;
	build(&file, ends);
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_int_equal(fd_slurp(path, 1 << 20, &whole), 0);
	memcpy(&header, whole.data, sizeof(header));
	size_t table = (size_t)(header.data.offset + header.data.size), nr = 0;
	for (size_t i = 0; i < LAYOUT_FEATURE_WORDS; i++)
		nr += (size_t)__builtin_popcountll(header.features[i]);
	header.features[LAYOUT_FEATURE_WORDS - 1] = 1;
	set_header(&whole, &header);
	memcpy(whole.data + table + nr * sizeof(outside), &outside, sizeof(outside));
	store(path, whole.data, whole.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_false(result.was_whole);

	memcpy(&header, file.data, sizeof(header));
	header.features[LAYOUT_FEATURE_WORDS - 1] = 1;
	header.data.size = ends[5];
	set_header(&file, &header);
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_false(result.was_whole);
	assert_int_equal(result.nr_samples, 5); /* what is behind may be features */
}

/* Nothing is said to be whole that could not be written. */
static void test_a_file_that_cannot_be_written(void **state)
{
	AUTO_BUF struct buf file = {0};
	size_t ends[NR_SAMPLES + 1];

	(void)state;
	build(&file, ends);
	store(path, file.data, file.len - 1);
	cuts_are_refused = true;
	expect(path, -EPERM, path);
	cuts_are_refused = false;
}

/* Its recorder lives: nothing that it has written, or is about to, is cut off, and no feature stands in its way. */
static void test_a_recording_that_is_still_written(void **state)
{
	AUTO_BUF struct buf file = {0}, still = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_result result;
	struct diag diag = {""};

	(void)state;
	build(&file, ends);
	store(path, file.data, file.len);
	int reader = open(path, O_RDONLY | O_CLOEXEC);
	bool has_leases = !fcntl(reader, F_SETLEASE, F_RDLCK) && !fcntl(reader, F_SETLEASE, F_UNLCK);
	if (!has_leases) {
		close(reader);
		skip();
	}
	int writer = open(path, O_WRONLY | O_CLOEXEC);
	expect(path, -EBUSY, "still written to");
	assert_int_equal(fd_slurp(path, 1 << 20, &still), 0);
	assert_int_equal(still.len, file.len);
	assert_memory_equal(still.data, file.data, still.len);
	close(writer);
	assert_int_equal(recover(path, &result, &diag), 0); /* who reads it is in no one's way */
	assert_false(result.was_whole);
	writer = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_true(result.was_whole);
	assert_int_equal(recover_with(true, path, &result, &diag), -EBUSY);
	close(writer);
	close(reader);
}

/* Readers go by the size of an event that the header says. */
static void test_the_size_of_an_event_is_mended(void **state)
{
	AUTO_BUF struct buf file = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_result result;
	struct file_header header;
	struct diag diag = {""};

	(void)state;
	build(&file, ends);
	memcpy(&header, file.data, sizeof(header));
	uint64_t right = header.attr_size;
	header.attr_size = 1;
	memcpy(file.data, &header, sizeof(header));
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_int_equal(result.nr_samples, NR_SAMPLES);
	assert_int_equal(header_of(path).attr_size, right);
}

/* Of the features nothing is lost then, which only the recorder knew. */
static void test_no_room_for_an_index(void **state)
{
	static char *argv[] = {(char *)"millrace", NULL};
	const struct recover_params params = {.path = path, .argc = 1, .argv = argv}; /* this leaves the index out */
	AUTO_BUF struct buf file = {0}, before = {0}, after = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_result result = {0};
	struct diag diag = {""};
	struct rlimit limit;

	(void)state;
	build(&file, ends);
	store(path, file.data, file.len);
	assert_int_equal(recover_recording(&params, &result, &diag), 0);
	assert_int_equal(fd_slurp(path, 1 << 20, &before), 0);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	bool can_allocate = !fallocate(fd, 0, 0, 1) || errno != EOPNOTSUPP;
	close(fd);
	if (!can_allocate)
		skip();
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	const struct rlimit no_more = {.rlim_cur = before.len, .rlim_max = limit.rlim_max};
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &no_more), 0);
	int err = recover_with(true, path, &result, &diag);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	signal(SIGXFSZ, handler);
	assert_int_equal(err, -EFBIG);
	assert_int_equal(fd_slurp(path, 1 << 20, &after), 0);
	assert_int_equal(after.len, before.len);
	assert_memory_equal(after.data, before.data, before.len);
	assert_int_equal(recover_with(true, path, &result, &diag), 0);
	assert_int_equal(result.nr_extents, 1);
}

/* The index is added to a recording that is whole; what else there was stays, byte by byte. */
static void test_an_index_is_made_anew(void **state)
{
	AUTO_BUF struct buf file = {0}, before = {0}, after = {0}, again = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_result result;
	struct span payload, kept;
	struct diag diag = {""};

	(void)state;
	build(&file, ends);
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_int_equal(fd_slurp(path, 1 << 20, &before), 0);
	assert_int_equal(recover_with(true, path, &result, &diag), 0);
	assert_true(result.was_whole);
	assert_int_equal(result.nr_extents, 1);
	assert_int_equal(fd_slurp(path, 1 << 20, &after), 0);
	struct session *old, *new;
	assert_int_equal(session_open_memory(buf_span(&before), 0, &old, &diag), 0);
	assert_int_equal(session_open_memory(buf_span(&after), 0, &new, &diag), 0);
	for (unsigned bit = 0; bit < FEATURE_BITS; bit++) {
		bool was = session_feature(old, bit, &kept), is = session_feature(new, bit, &payload);
		if (bit == FEATURE_EXTENT_INDEX) {
			assert_true(is);
			continue;
		}
		assert_int_equal(was, is);
		if (was) {
			assert_int_equal(kept.len, payload.len);
			assert_memory_equal(kept.ptr, payload.ptr, kept.len);
		}
	}
	session_close(old);
	session_close(new);
	uint64_t end = header_of(path).data.offset + header_of(path).data.size;
	assert_memory_equal(before.data + sizeof(struct file_header), after.data + sizeof(struct file_header),
			    (size_t)end - sizeof(struct file_header));
	/* Once more: the same. */
	assert_int_equal(recover_with(true, path, &result, &diag), 0);
	assert_int_equal(fd_slurp(path, 1 << 20, &again), 0);
	assert_int_equal(again.len, after.len);
	assert_memory_equal(again.data, after.data, after.len);
	/* What stands behind the features goes; where it cannot be cut off that is an error, which costs nothing. */
	AUTO_BUF struct buf longer = {0};
	buf_put(&longer, after.data, after.len);
	buf_put(&longer, "bytes of another time", 21);
	store(path, longer.data, longer.len);
	cuts_are_refused = true;
	assert_int_equal(recover_with(true, path, &result, &diag), -EPERM);
	cuts_are_refused = false;
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_false(result.was_whole);
	assert_int_equal(result.nr_samples, NR_SAMPLES);
	store(path, longer.data, longer.len);
	assert_int_equal(recover_with(true, path, &result, &diag), 0);
	again.len = 0;
	assert_int_equal(fd_slurp(path, 1 << 20, &again), 0);
	assert_int_equal(again.len, after.len);
	assert_memory_equal(again.data, after.data, after.len);
	/* A file that someone cuts in that time: no feature is dropped in silence. */
	const off_t cuts[] = {1, (off_t)(after.len - end), (off_t)(after.len - end) + 1};
	for (unsigned i = 0; i < 3; i++) {
		store(path, after.data, after.len);
		cut_at_look = 2;
		cut_bytes = cuts[i];
		assert_int_equal(recover_with(true, path, &result, &diag), -EBADMSG);
		assert_int_equal(cut_at_look, 0);
		assert_non_null(strstr(diag.text, "are damaged"));
	}
	/* Private sections that are damaged: it says so, and nothing is changed. */
	static const uint8_t magic[] = "MILLRACE";
	uint8_t *block = memmem(after.data + end, after.len - (size_t)end, magic, sizeof(magic) - 1);
	assert_non_null(block);
	AUTO_BUF struct buf damaged = {0}, still = {0};
	buf_put(&damaged, after.data, after.len);
	damaged.data[block - after.data + sizeof(struct private_header)] ^= 1;
	store(path, damaged.data, damaged.len);
	assert_int_equal(recover_with(true, path, &result, &diag), -EBADMSG);
	assert_non_null(strstr(diag.text, "private sections are damaged"));
	assert_int_equal(fd_slurp(path, 1 << 20, &still), 0);
	assert_int_equal(still.len, damaged.len);
	assert_memory_equal(still.data, damaged.data, still.len);
	/* A feature that lies before its place: nothing is changed. */
	struct file_section section = {end - 8, 8};
	memcpy(after.data + end, &section, sizeof(section));
	store(path, after.data, after.len);
	int err = recover_with(true, path, &result, &diag);
	assert_true(err == 0 && !result.was_whole); /* is_whole() sees that: it is recovered */
}

/* Records may begin anywhere: the size of the file is not that of its features. */
static void test_an_index_behind_a_gap(void **state)
{
	enum { GAP = 600 << 20 };
	AUTO_BUF struct buf file = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_result result;
	struct file_header header;
	struct diag diag = {""};

	(void)state;
	build(&file, ends);
	size_t start = file.len - ends[NR_SAMPLES];
	memcpy(&header, file.data, sizeof(header));
	header.data.offset = GAP;
	set_header(&file, &header);
	store(path, file.data, start);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(fd_pwrite(fd, file.data + start, ends[NR_SAMPLES], GAP), 0);
	close(fd);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_int_equal(result.nr_samples, NR_SAMPLES);
	assert_int_equal(recover_with(true, path, &result, &diag), 0);
	assert_true(result.was_whole);
	assert_int_equal(result.nr_extents, 1);
	assert_int_equal(unlink(path), 0);
}

/* A file of another user is mended only when that is asked for; what is no file, never. */
static void test_whose_files(void **state)
{
	AUTO_BUF struct buf file = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_params params = {.path = path, .build_ids = true};
	struct recover_result result;
	struct diag diag = {""};
	char pipe[80];

	(void)state;
	build(&file, ends);
	snprintf(pipe, sizeof(pipe), "%s/pipe", room);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	expect(pipe, -EPERM, "is no file");
	store(path, file.data, file.len);
	if (geteuid() || chown(path, 65534, 65534))
		skip(); /* only root can give files away */
	expect(path, -EPERM, "belongs to neither root nor you");
	params.force = true;
	assert_int_equal(recover_recording(&params, &result, &diag), 0);
	assert_int_equal(result.nr_samples, NR_SAMPLES);
	assert_int_equal(chown(path, geteuid(), getegid()), 0);
}

/* Parts are known by their numbers, and each one is a place of the index. */
static void test_an_index_of_a_directory(void **state)
{
	AUTO_BUF struct buf file = {0}, before = {0}, after = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_result result;
	struct diag diag = {""};
	char name[128], room_of_parts[100];

	(void)state;
	build(&file, ends);
	size_t start = file.len - ends[NR_SAMPLES];
	snprintf(room_of_parts, sizeof(room_of_parts), "%s.parts", other);
	assert_int_equal(mkdir(room_of_parts, 0700), 0);
	snprintf(name, sizeof(name), "%s/data", room_of_parts);
	store(name, file.data, start + ends[0]);
	for (unsigned part = 0; part < 3; part++) {
		snprintf(name, sizeof(name), "%s/data.%u", room_of_parts, 10 * part);
		store(name, file.data + start + ends[5 * part], ends[5 * part + 5] - ends[5 * part]);
	}
	assert_int_equal(recover(room_of_parts, &result, &diag), 0);
	assert_int_equal(result.nr_samples, 15);
	assert_int_equal(fd_slurp(name, 1 << 20, &before), 0);
	assert_int_equal(recover_with(true, room_of_parts, &result, &diag), 0);
	assert_true(result.was_whole);
	assert_int_equal(result.nr_extents, 4);
	assert_int_equal(fd_slurp(name, 1 << 20, &after), 0);
	assert_int_equal(before.len, after.len);
	assert_memory_equal(before.data, after.data, before.len);

	static const uint32_t parts[] = {0, 1, 11, 21}; /* 0: the main file; else one more than in the name */
	AUTO_BUF struct buf main_file = {0};
	struct session *session;
	struct extent_reader reader;
	struct extent_fields fields;
	struct span payload, counts;
	uint64_t bytes = 0;
	snprintf(name, sizeof(name), "%s/data", room_of_parts);
	assert_int_equal(fd_slurp(name, 1 << 20, &main_file), 0);
	assert_int_equal(session_open_memory(buf_span(&main_file), 0, &session, &diag), 0);
	assert_true(session_feature(session, FEATURE_EXTENT_INDEX, &payload));
	assert_int_equal(extent_reader_open(payload, &reader), 0);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(extent_reader_next(&reader, &fields, &counts), 1);
		assert_int_equal(fields.part, parts[i]);
		assert_int_equal(fields.nr_records, i ? 5 : 1);
		bytes += fields.bytes;
	}
	assert_int_equal(extent_reader_next(&reader, &fields, &counts), 0);
	assert_int_equal(bytes, ends[15]);
	session_close(session);
}

/* What was compressed can be read again: the feature says how, and how much a record holds at most. */
static void test_compressed_records(void **state)
{
	/* A frame that says that it holds 8 bytes, as extents do; and one that says nothing, as perf writes it. */
	static const uint8_t framed[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 8, 0x41, 0, 0, 68, 0, 0, 0, 0, 0, 8, 0},
			     stream[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, 0x41, 0, 0, 68, 0, 0, 0, 0, 0, 8, 0};

	(void)state;
	for (unsigned is_framed = 0; is_framed < 2; is_framed++) {
		AUTO_BUF struct buf file = {0}, bytes = {0};
		size_t ends[NR_SAMPLES + 1];
		struct feature_compressed how;
		struct recover_result result;
		struct diag diag = {""};
		struct session *session;
		struct span payload;
		build(&file, ends);
		size_t at = file_begin(&file, RECORD_COMPRESSED, 0);
		buf_put(&file, is_framed ? framed : stream, sizeof(framed));
		file_end(&file, at);
		store(path, file.data, file.len);
		assert_int_equal(recover(path, &result, &diag), 0);
		assert_int_equal(result.dropped_bytes, 0);
		assert_int_equal(fd_slurp(path, 1 << 20, &bytes), 0);
		assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, &diag), 0);
		assert_true(session_feature(session, FEATURE_COMPRESSED, &payload));
		assert_int_equal(feature_decode_compressed(payload, &how), 0);
		assert_int_equal(how.type, FEATURE_COMPRESSED_ZSTD);
		assert_true(is_framed ? how.mmap_bytes < 2 << 20 : how.mmap_bytes == 16 << 20);
		session_close(session);
	}
}

enum { NR_EXTENTS = 3, EXTENT_SAMPLES = 40 };

/* Samples in extents, whose records begin at starts[]; with `finished` what a recorder puts behind them. */
static void build_extents(bool finished, struct buf *out, size_t starts[NR_EXTENTS + 1])
{
	const struct extent_pack_params how = {.level = 1};
	AUTO_BUF struct buf nothing = {0};
	struct extent_packer *packer;
	struct recover_result result = {0};
	struct diag diag = {""};

	store_records(&nothing);
	assert_int_equal(fd_slurp(path, 1 << 20, out), 0);
	assert_int_equal(extent_packer_new(&packer), 0);
	for (uint64_t i = 0; i < NR_EXTENTS; i++) {
		AUTO_BUF struct buf records = {0};
		starts[i] = out->len;
		for (uint64_t k = 0; k < EXTENT_SAMPLES; k++)
			file_put_sample(&records, 1000 * (i + 1) + k * k, FILE_ID_CLOCK);
		int64_t len = extent_pack(packer, &how, buf_span(&records), buf_room(out, records.len), records.len);
		assert_true(len > 0);
		out->len += (size_t)len;
	}
	starts[NR_EXTENTS] = out->len;
	extent_packer_free(packer);
	if (!finished)
		return;
	store(path, out->data, out->len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_int_equal(result.nr_samples, NR_EXTENTS * EXTENT_SAMPLES);
	assert_int_equal(result.damage.nr, 0);
	out->len = 0;
	assert_int_equal(fd_slurp(path, 1 << 20, out), 0);
}

/* How many samples readers find; all of them in one extent or the other. */
static size_t samples_read_of(const char *name)
{
	struct session_record record;
	struct session *session;
	struct diag diag = {""};
	size_t nr = 0;
	int got;

	assert_int_equal(session_open(name, 0, &session, &diag), 0);
	while ((got = session_next(session, &record, &diag)) > 0)
		nr += record.view.header->type == PERF_RECORD_SAMPLE;
	assert_int_equal(got, 0);
	session_close(session);
	return nr;
}

static size_t samples_read(void)
{
	return samples_read_of(path);
}

/* What is stored has damage in the second extent: it is told, and nothing else is lost. */
static void expect_damage(const struct buf *file, const size_t starts[NR_EXTENTS + 1], bool finished)
{
	AUTO_BUF struct buf still = {0};
	struct recover_params params = {.path = path, .build_ids = true};
	struct recover_result result = {0};
	struct diag diag = {""};

	store(path, file->data, file->len);
	assert_int_equal(recover_recording(&params, &result, &diag), 0);
	assert_int_equal(result.damage.nr, 1);
	assert_in_range(result.damage.items[0].offset, starts[1], starts[2] - 1);
	assert_true(result.damage.items[0].offset + result.damage.items[0].bytes <= starts[2]);
	assert_int_equal(result.damage.items[0].nr_samples, UINT64_MAX);
	assert_true(finished ? result.is_left : !result.was_whole);
	if (result.is_left) {
		assert_int_equal(fd_slurp(path, 1 << 20, &still), 0);
		assert_int_equal(still.len, file->len);
		assert_memory_equal(still.data, file->data, still.len);
	}
	damage_list_fini(&result.damage);

	store(path, file->data, file->len);
	params.leave_out = true;
	assert_int_equal(recover_recording(&params, &result, &diag), 0);
	assert_int_equal(result.damage.nr, 1);
	assert_false(result.is_left);
	damage_list_fini(&result.damage);
	assert_int_equal(samples_read(), (NR_EXTENTS - 1) * EXTENT_SAMPLES);
	assert_int_equal(recover_recording(&params, &result, &diag), 0);
	assert_true(result.was_whole);
	assert_int_equal(result.damage.nr, 0);
}

/* Each byte of an extent, but those that mean nothing: the misc field of its record. */
static void test_damage_in_an_extent(void **state)
{
	AUTO_BUF struct buf file = {0};
	size_t starts[NR_EXTENTS + 1];

	(void)state;
	if (!zstd_available())
		skip();
	build_extents(true, &file, starts);
	for (size_t at = starts[1], bit = 0; at < starts[2]; at++, bit = (bit + 3) % 8) {
		const size_t field = at - starts[1];
		if (field == offsetof(struct perf_event_header, misc) ||
		    field == offsetof(struct perf_event_header, misc) + 1)
			continue;
		file.data[at] ^= (uint8_t)(1 << bit);
		expect_damage(&file, starts, true);
		file.data[at] ^= (uint8_t)(1 << bit);
	}
}

/* Of a record between two of them no more goes than that: its size, which leads into the next extent, is not trusted.
 */
static void test_damage_between_extents(void **state)
{
	AUTO_BUF struct buf file = {0}, bytes = {0};
	const struct recover_params params = {.path = path, .build_ids = true, .leave_out = true};
	struct recover_result result = {0};
	struct diag diag = {""};
	size_t starts[NR_EXTENTS + 1];

	(void)state;
	if (!zstd_available())
		skip();
	build_extents(false, &file, starts);
	buf_put(&bytes, file.data, starts[1]);
	file_put_mark(&bytes);
	buf_put(&bytes, file.data + starts[1], file.len - starts[1]);
	for (unsigned finished = 0; finished < 2; finished++) {
		bytes.data[starts[1] + offsetof(struct perf_event_header, size)] ^= 1;
		store(path, bytes.data, bytes.len);
		assert_int_equal(recover_recording(&params, &result, &diag), 0);
		assert_int_equal(result.damage.nr, 1);
		assert_int_equal(result.damage.items[0].offset, starts[1]);
		assert_int_equal(result.damage.items[0].bytes, MARK_BYTES);
		damage_list_fini(&result.damage);
		assert_int_equal(samples_read(), NR_EXTENTS * EXTENT_SAMPLES);
		bytes.data[starts[1] + offsetof(struct perf_event_header, size)] ^= 1;
		store(path, bytes.data, bytes.len);
		assert_int_equal(recover(path, &result, &diag), 0);
		bytes.len = 0;
		assert_int_equal(fd_slurp(path, 1 << 20, &bytes), 0);
	}
}

/*
 * A sample of no event, and one whose call chain does not end in it: no reader takes them, though they are whole by
 * their headers.
 */
static void test_damage_in_a_sample(void **state)
{
	enum { ID = 32, CHAIN = 56, WHICH = 3 }; /* FILE_SAMPLE_TYPE */
	static const struct {
		size_t field;
		uint64_t value;
	} changes[] = {{ID, FILE_ID_CLOCK ^ 0x40}, {CHAIN, 3}, {CHAIN, UINT64_MAX}};
	size_t ends[NR_SAMPLES + 1];

	(void)state;
	if (!zstd_available())
		skip();
	for (unsigned i = 0; i < 2 * sizeof(changes) / sizeof(changes[0]); i++) {
		const bool finished = i % 2;
		AUTO_BUF struct buf file = {0};
		const struct recover_params params = {.path = path, .leave_out = true};
		struct recover_result result = {0};
		struct diag diag = {""};
		build(&file, ends);
		store(path, file.data, file.len);
		if (finished) {
			assert_int_equal(recover(path, &result, &diag), 0);
			file.len = 0;
			assert_int_equal(fd_slurp(path, 1 << 20, &file), 0);
		}
		const size_t at = (size_t)header_of(path).data.offset + ends[WHICH];
		memcpy(file.data + at + changes[i / 2].field, &changes[i / 2].value, sizeof(changes[i / 2].value));
		store(path, file.data, file.len);
		assert_int_equal(recover_recording(&params, &result, &diag), 0);
		assert_false(result.was_whole);
		assert_int_equal(result.damage.nr, 1);
		assert_int_equal(result.damage.items[0].offset, at);
		assert_int_equal(result.damage.items[0].bytes, ends[WHICH + 1] - ends[WHICH]);
		damage_list_fini(&result.damage);
		assert_int_equal(samples_read(), NR_SAMPLES - 1);
		assert_int_equal(recover_recording(&params, &result, &diag), 0);
		assert_true(result.was_whole);
	}
}

/* With bytes that are no record at that place. */
static void put_with_junk(const struct buf *file, size_t at, size_t bytes, struct buf *out)
{
	buf_put(out, file->data, at);
	memset(buf_extend(out, bytes), 0xa5, bytes);
	buf_put(out, file->data + at, file->len - at);
}

/* The search for the next extent goes on piece by piece: its first bytes may be in two of them. */
static void test_damage_of_many_bytes(void **state)
{
	enum { PIECE_BYTES = 1 << 16 };
	AUTO_BUF struct buf file = {0};
	const struct recover_params params = {.path = path, .leave_out = true};
	struct recover_result result = {0};
	struct diag diag = {""};
	size_t starts[NR_EXTENTS + 1];

	(void)state;
	if (!zstd_available())
		skip();
	build_extents(false, &file, starts);
	for (size_t less = 0; less < 40; less++) {
		AUTO_BUF struct buf bytes = {0};
		put_with_junk(&file, starts[1], 2 * PIECE_BYTES - less, &bytes);
		store(path, bytes.data, bytes.len);
		assert_int_equal(recover_recording(&params, &result, &diag), 0);
		assert_int_equal(result.damage.nr, 1);
		assert_int_equal(result.damage.items[0].offset, starts[1]);
		assert_int_equal(result.damage.items[0].bytes, 2 * PIECE_BYTES - less);
		damage_list_fini(&result.damage);
		assert_int_equal(samples_read(), NR_EXTENTS * EXTENT_SAMPLES);
	}
}

/* Of a killed recording: what hides others is not the first damage. It is left as it is. */
static void test_damage_that_hides_records_behind_another(void **state)
{
	AUTO_BUF struct buf file = {0}, bytes = {0}, still = {0};
	size_t starts[NR_EXTENTS + 1];
	struct recover_result result;
	struct diag diag = {""};

	(void)state;
	if (!zstd_available())
		skip();
	build_extents(false, &file, starts);
	put_with_junk(&file, starts[2], 100, &bytes);
	bytes.data[starts[1] - 20] ^= 1;
	store(path, bytes.data, bytes.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_true(result.is_left);
	assert_int_equal(result.damage.nr, 2);
	damage_list_fini(&result.damage);
	assert_int_equal(fd_slurp(path, 1 << 20, &still), 0);
	assert_int_equal(still.len, bytes.len);
	assert_memory_equal(still.data, bytes.data, still.len);
}

/* Of a directory: each file loses its own damage. */
static void test_damage_of_several_files(void **state)
{
	enum { NR_PARTS = 3 };
	static const size_t damaged[NR_PARTS][NR_EXTENTS] = {{0, 1, 0}, {0, 0, 0}, {1, 0, 1}};
	AUTO_BUF struct buf file = {0};
	char place[100], name[128];
	struct recover_params params = {.path = place, .build_ids = true};
	size_t starts[NR_EXTENTS + 1];
	struct recover_result result;
	struct diag diag = {""};

	(void)state;
	if (!zstd_available())
		skip();
	build_extents(false, &file, starts);
	snprintf(place, sizeof(place), "%s.damaged", other);
	assert_int_equal(mkdir(place, 0700), 0);
	snprintf(name, sizeof(name), "%s/data", place);
	store(name, file.data, starts[0]);
	for (unsigned damage = 0; damage < 2; damage++) {
		for (unsigned part = 0; part < NR_PARTS; part++) {
			for (size_t i = 0; i < NR_EXTENTS; i++)
				file.data[starts[i] + 60] ^= damage && damaged[part][i];
			snprintf(name, sizeof(name), "%s/data.%u", place, part);
			store(name, file.data + starts[0], starts[NR_EXTENTS] - starts[0]);
			for (size_t i = 0; i < NR_EXTENTS; i++)
				file.data[starts[i] + 60] ^= damage && damaged[part][i];
		}
		params.leave_out = damage;
		assert_int_equal(recover_recording(&params, &result, &diag), 0);
		assert_int_equal(result.damage.nr, damage ? 3 : 0);
		damage_list_fini(&result.damage);
		assert_int_equal(samples_read_of(place), (NR_PARTS * NR_EXTENTS - (damage ? 3 : 0)) * EXTENT_SAMPLES);
	}
	assert_int_equal(recover_recording(&params, &result, &diag), 0);
	assert_true(result.was_whole);
}

/* Where that fails in between the header does not tell of features any more. */
static void test_damage_that_cannot_be_left_out(void **state)
{
	AUTO_BUF struct buf file = {0};
	const struct recover_params params = {.path = path, .build_ids = true, .leave_out = true};
	size_t starts[NR_EXTENTS + 1];
	struct recover_result result;
	struct diag diag = {""};

	(void)state;
	if (!zstd_available())
		skip();
	build_extents(true, &file, starts);
	file.data[starts[1] + 60] ^= 1;
	store(path, file.data, file.len);
	cuts_are_refused = true;
	assert_int_equal(recover_recording(&params, &result, &diag), -EPERM);
	cuts_are_refused = false;
	for (size_t i = 0; i < LAYOUT_FEATURE_WORDS; i++)
		assert_int_equal(header_of(path).features[i], 0);
}

/* The recorder was killed later: an extent that is damaged is not taken for the end. */
static void test_damage_in_a_killed_recording(void **state)
{
	static const size_t fields[] = {0, offsetof(struct perf_event_header, size), 8, 12, 30, 60};
	AUTO_BUF struct buf file = {0};
	size_t starts[NR_EXTENTS + 1];

	(void)state;
	if (!zstd_available())
		skip();
	build_extents(false, &file, starts);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		file.data[starts[1] + fields[i]] ^= 2;
		expect_damage(&file, starts, false);
		file.data[starts[1] + fields[i]] ^= 2;
	}
}

/* A recorder that was killed left a hole: there its records end, and what is behind it is cut off. */
static void test_a_hole_is_no_damage(void **state)
{
	AUTO_BUF struct buf file = {0};
	size_t starts[NR_EXTENTS + 1];
	struct recover_result result;
	struct diag diag = {""};

	(void)state;
	if (!zstd_available())
		skip();
	build_extents(false, &file, starts);
	memset(file.data + starts[1], 0, starts[2] - starts[1]);
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_int_equal(result.damage.nr, 0);
	assert_int_equal(result.nr_samples, EXTENT_SAMPLES);
	assert_int_equal(result.dropped_bytes, starts[NR_EXTENTS] - starts[1]);
}

/* An extent that has lost its type, and that was not written to its end: it is cut off, and does not stay as damage. */
static void test_damage_that_is_cut_off(void **state)
{
	AUTO_BUF struct buf file = {0};
	size_t starts[NR_EXTENTS + 1];
	struct recover_result result;
	struct diag diag = {""};

	(void)state;
	if (!zstd_available())
		skip();
	build_extents(false, &file, starts);
	file.data[starts[1]] ^= 1;
	memset(file.data + starts[2] - 9, 0, starts[NR_EXTENTS] - (starts[2] - 9));
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_false(result.is_left);
	assert_int_equal(result.dropped_bytes, starts[NR_EXTENTS] - starts[1]);
	assert_int_equal(result.damage.nr, 0);
	damage_list_fini(&result.damage);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_true(result.was_whole);
}

/* Of a recording that is not compressed, too: what is behind the damage is not cut off. */
static void test_damage_of_plain_records(void **state)
{
	AUTO_BUF struct buf file = {0}, still = {0};
	struct recover_params params = {.path = path, .build_ids = true};
	struct recover_result result;
	struct diag diag = {""};
	size_t ends[NR_SAMPLES + 1];

	(void)state;
	if (!zstd_available())
		skip();
	build(&file, ends);
	const size_t start = file.len - ends[NR_SAMPLES];
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	file.len = 0;
	assert_int_equal(fd_slurp(path, 1 << 20, &file), 0);
	file.data[start + ends[4] + offsetof(struct perf_event_header, size)] ^= 8;
	store(path, file.data, file.len);
	assert_int_equal(recover_recording(&params, &result, &diag), 0);
	assert_true(result.is_left);
	assert_int_equal(result.damage.nr, 1);
	assert_int_equal(result.damage.items[0].offset, start + ends[4]);
	damage_list_fini(&result.damage);
	assert_int_equal(fd_slurp(path, 1 << 20, &still), 0);
	assert_int_equal(still.len, file.len);
	assert_memory_equal(still.data, file.data, still.len);
	params.leave_out = true;
	assert_int_equal(recover_recording(&params, &result, &diag), 0);
	damage_list_fini(&result.damage);
	assert_int_equal(samples_read(), 4);
}

static void put_tracepoint_file(struct buf *out, const struct file_events *events)
{
	struct file_header header;

	out->len = 0;
	header_encode(events->events, 2, out, &header);
	memcpy(out->data, &header, sizeof(header));
	file_put_sample(out, 10, FILE_ID_CLOCK);
}

static uint64_t tracepoint_id(const char *name)
{
	AUTO_BUF struct buf id = {0};
	char file[128];

	snprintf(file, sizeof(file), "/sys/kernel/tracing/events/sched/%s/id", name);
	if (fd_slurp(file, 100, &id))
		skip();
	return strtoull(buf_text(&id), NULL, 10);
}

static void expect_names(const struct file_events *events, const char *const names[2])
{
	AUTO_BUF struct buf file = {0}, bytes = {0};
	struct recover_result result;
	struct diag diag = {""};
	struct session *session;
	size_t nr;

	put_tracepoint_file(&file, events);
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_int_equal(fd_slurp(path, 64 << 20, &bytes), 0);
	assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, &diag), 0);
	const struct event_desc *found = session_events(session, &nr);
	assert_int_equal(nr, 2);
	for (size_t i = 0; i < 2; i++)
		assert_non_null(strstr(found[i].name, names[i]));
	session_close(session);
}

/* The name of a tracepoint is looked up on this machine. */
static void test_tracepoints_are_named(void **state)
{
	AUTO_BUF struct buf file = {0};
	struct file_events events;

	(void)state;
	file_events_init(&events);
	events.events[1].attr.config = tracepoint_id("sched_switch");
	expect_names(&events, (const char *const[]){"cpu-clock", "sched:sched_switch"});
	events.events[0].attr.type = PERF_TYPE_TRACEPOINT;
	events.events[0].attr.config = tracepoint_id("sched_waking");
	expect_names(&events, (const char *const[]){"sched:sched_waking", "sched:sched_switch"});
	file_events_init(&events);
	events.events[1].attr.config = UINT32_MAX; /* no kernel has so many */
	put_tracepoint_file(&file, &events);
	store(path, file.data, file.len);
	expect(path, -ENOENT, "on the machine where it was recorded");
	events_are_hidden = true; /* by the kernel, from who may not see them */
	expect(path, -EACCES, "no permission");
	events_are_hidden = false;
}

/* Without a name for the tracepoint nothing is written. */
static void test_no_tracefs(void **state)
{
	AUTO_BUF struct buf file = {0}, still = {0};
	struct file_events events;

	(void)state;
	file_events_init(&events);
	put_tracepoint_file(&file, &events);
	store(path, file.data, file.len);
	tracefs_is_missing = true;
	expect(path, -ENOENT, "tracefs is not mounted");
	tracefs_is_missing = false;
	assert_int_equal(fd_slurp(path, 1 << 20, &still), 0);
	assert_int_equal(still.len, file.len);
	assert_memory_equal(still.data, file.data, still.len);
}

/* `bytes` of the records are whole, and that many samples in them; then the file is left as it is, byte by byte. */
static void expect_whole(const struct buf *records, size_t bytes, size_t nr_samples)
{
	AUTO_BUF struct buf before = {0}, after = {0};
	struct recover_result result;
	struct diag diag = {""};

	store_records(records);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_int_equal(result.data_bytes, bytes ? bytes : MARK_BYTES);
	assert_int_equal(result.dropped_bytes, records->len - bytes);
	assert_true(result.samples_counted);
	assert_int_equal(result.nr_samples, nr_samples);
	assert_int_equal(fd_slurp(path, 1 << 20, &before), 0);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_true(result.was_whole);
	assert_int_equal(fd_slurp(path, 1 << 20, &after), 0);
	assert_int_equal(after.len, before.len);
	assert_memory_equal(after.data, before.data, before.len);
	assert_memory_equal(after.data + header_of(path).data.offset, records->data, bytes);
}

/* Intel PT: the bytes of the hardware follow an AUXTRACE record. They look like no record, and may have any length. */
static void test_bytes_behind_a_record(void **state)
{
	enum { OUTSIDE = 37 };
	AUTO_BUF struct buf records = {0};
	size_t ends[4] = {0};

	(void)state;
	file_put_sample(&records, 10, FILE_ID_CLOCK);
	ends[1] = records.len;
	size_t at = file_begin(&records, RECORD_AUXTRACE, 0);
	buf_put_u64(&records, OUTSIDE);
	buf_extend(&records, 32); /* offset, reference, index, tid, cpu, reserved */
	file_end(&records, at);
	memset(buf_extend(&records, OUTSIDE), 0xff, OUTSIDE);
	ends[2] = records.len;
	file_put_sample(&records, 20, FILE_ID_CLOCK);
	ends[3] = records.len;
	for (size_t len = 0, nr = 0; len <= ends[3]; len++) {
		const struct buf cut = {.data = records.data, .len = len};
		nr += nr < 3 && len >= ends[nr + 1];
		expect_whole(&cut, ends[nr], nr < 2 ? nr : nr - 1);
	}
}

/* A zstd frame of one block, stored plain, without a size and without an end, as perf writes: RFC 8878. */
static void put_endless_frame(struct buf *out, const struct buf *content)
{
	const uint8_t head[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 0x50 /* window: 1 MB */};
	uint32_t block = (uint32_t)content->len << 3;

	assert_in_range(content->len, 1, 128 << 10);
	buf_put(out, head, sizeof(head));
	buf_put(out, &block, 3);
	buf_put(out, content->data, content->len);
}

/* As perf 6.16: the first record has the size of all, cut to 16 bits. */
static void put_compressed2_chunk(struct buf *out, const struct buf *frame)
{
	enum { MOST = RECORD_MAX_BYTES - 16 };
	size_t nr = (frame->len + MOST - 1) / MOST, bytes = frame->len + 16 * nr;

	assert_true(nr > 1);
	for (size_t at = 0; at < frame->len; at += MOST) {
		size_t len = frame->len - at < MOST ? frame->len - at : MOST;
		struct perf_event_header header = {.type = RECORD_COMPRESSED2, .size = (uint16_t)(len + 16)};
		if (!at)
			header.size = (uint16_t)((bytes + 7) & ~(size_t)7);
		buf_put(out, &header, sizeof(header));
		buf_put_u64(out, at ? 1 : bytes - 16);
		buf_put(out, frame->data + at, len);
	}
}

/* perf 6.16 record -z: COMPRESSED2 records that claim to be one stay, all of them or none. */
static void test_records_that_claim_to_be_one(void **state)
{
	enum { NR = 1200 };
	AUTO_BUF struct buf records = {0}, content = {0}, frame = {0};

	(void)state;
	if (!zstd_available())
		skip();
	for (unsigned i = 0; i < NR; i++)
		file_put_sample(&content, 10 + i, FILE_ID_CLOCK);
	put_endless_frame(&frame, &content);
	file_put_sample(&records, 5, FILE_ID_CLOCK);
	const size_t start = records.len;
	put_compressed2_chunk(&records, &frame);
	const size_t end = records.len;
	file_put_sample(&records, 5000, FILE_ID_CLOCK);
	const size_t lengths[] = {start, start + 15, start + RECORD_MAX_BYTES, start + RECORD_MAX_BYTES + 20, end - 1};
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const struct buf cut = {.data = records.data, .len = lengths[i]};
		expect_whole(&cut, start, 1);
	}
	expect_whole(&(struct buf){.data = records.data, .len = end}, end, NR + 1);
	expect_whole(&records, records.len, NR + 2);
	assert_true(header_of(path).features[0] >> FEATURE_COMPRESSED & 1);
}

/* A record of a stream that says that it has more than it has: readers do not get behind it. */
static void test_damage_of_a_stream(void **state)
{
	AUTO_BUF struct buf records = {0}, content = {0}, frame = {0}, file = {0};
	struct recover_result result;
	struct diag diag = {""};
	size_t last = 0;

	(void)state;
	if (!zstd_available())
		skip();
	file_put_sample(&content, 10, FILE_ID_CLOCK);
	memset(content.data + content.len - 8, 1, 8); /* it does not end with zeroes, like a record that is torn */
	put_endless_frame(&frame, &content);
	for (size_t at = 0, len = frame.len / 2; at < frame.len; at += len, len = frame.len - at) {
		last = file_begin(&records, RECORD_COMPRESSED2, 0);
		buf_put_u64(&records, len);
		buf_put(&records, frame.data + at, len);
		buf_align(&records, 8);
		file_end(&records, last);
	}
	expect_whole(&records, records.len, 1);
	assert_int_equal(fd_slurp(path, 1 << 20, &file), 0);
	const size_t at = header_of(path).data.offset + last;
	file.data[at + offsetof(struct record_compressed2, data_bytes)] |= 0x80;
	store(path, file.data, file.len);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_true(result.is_left);
	assert_int_equal(result.damage.nr, 1);
	assert_int_equal(result.damage.items[0].offset, at);
	damage_list_fini(&result.damage);
	/* The recorder was killed: what there is behind it may be whole, and is not cut off. */
	records.data[last + offsetof(struct record_compressed2, data_bytes)] |= 0x80;
	file_put_sample(&records, 20, FILE_ID_CLOCK);
	store_records(&records);
	assert_int_equal(recover(path, &result, &diag), 0);
	assert_false(result.is_left);
	assert_int_equal(result.damage.nr, 1);
	assert_int_equal(result.damage.items[0].offset, at);
	assert_int_equal(result.dropped_bytes, 0);
	damage_list_fini(&result.damage);
}

/* perf record -z --threads: each file of the directory has a stream of its own, which has no end. */
static void test_streams_of_several_files(void **state)
{
	AUTO_BUF struct buf file = {0}, content = {0}, frame = {0}, records = {0};
	size_t ends[NR_SAMPLES + 1];
	struct recover_result result;
	struct diag diag = {""};
	char directory[100], name[128];

	(void)state;
	if (!zstd_available())
		skip();
	build(&file, ends);
	snprintf(directory, sizeof(directory), "%s.streams", other);
	assert_int_equal(mkdir(directory, 0700), 0);
	snprintf(name, sizeof(name), "%s/data", directory);
	store(name, file.data, file.len);
	file_put_sample(&content, 10, FILE_ID_CLOCK);
	put_endless_frame(&frame, &content);
	size_t at = file_begin(&records, RECORD_COMPRESSED, 0);
	buf_put(&records, frame.data, frame.len);
	file_end(&records, at);
	for (unsigned part = 0; part < 3; part++) {
		snprintf(name, sizeof(name), "%s/data.%u", directory, part);
		store(name, records.data, records.len);
	}
	assert_int_equal(recover(directory, &result, &diag), 0);
	assert_true(result.samples_counted);
	assert_int_equal(result.nr_samples, NR_SAMPLES + 3);
	if (recover_with(true, directory, &result, &diag))
		fail_msg("%s", diag.text);
}

static int make_room(void **state)
{
	(void)state;
	log_set_level(LOG_ERRORS);
	if (!mkdtemp(room))
		return -1;
	snprintf(path, sizeof(path), "%s/perf.data", room);
	snprintf(other, sizeof(other), "%s/other", room);
	return 0;
}

static int remove_room(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", room);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_at_each_byte),
		cmocka_unit_test(test_what_the_header_knows_is_not_the_end),
		cmocka_unit_test(test_a_finished_file_is_cut),
		cmocka_unit_test(test_what_cannot_be_recovered_says_why),
		cmocka_unit_test(test_what_cannot_be_read_is_not_cut_off),
		cmocka_unit_test(test_removed_samples_that_cannot_be_counted),
		cmocka_unit_test(test_events_that_break_off),
		cmocka_unit_test(test_parts_of_a_directory),
		cmocka_unit_test(test_a_directory_that_is_none),
		cmocka_unit_test(test_records_of_later_versions),
		cmocka_unit_test(test_features_of_later_versions),
		cmocka_unit_test(test_a_file_that_cannot_be_written),
		cmocka_unit_test(test_a_recording_that_is_still_written),
		cmocka_unit_test(test_the_size_of_an_event_is_mended),
		cmocka_unit_test(test_an_index_is_made_anew),
		cmocka_unit_test(test_no_room_for_an_index),
		cmocka_unit_test(test_an_index_behind_a_gap),
		cmocka_unit_test(test_whose_files),
		cmocka_unit_test(test_an_index_of_a_directory),
		cmocka_unit_test(test_compressed_records),
		cmocka_unit_test(test_damage_in_an_extent),
		cmocka_unit_test(test_damage_between_extents),
		cmocka_unit_test(test_damage_in_a_sample),
		cmocka_unit_test(test_damage_of_many_bytes),
		cmocka_unit_test(test_damage_that_hides_records_behind_another),
		cmocka_unit_test(test_damage_of_several_files),
		cmocka_unit_test(test_damage_that_cannot_be_left_out),
		cmocka_unit_test(test_damage_in_a_killed_recording),
		cmocka_unit_test(test_a_hole_is_no_damage),
		cmocka_unit_test(test_damage_that_is_cut_off),
		cmocka_unit_test(test_damage_of_plain_records),
		cmocka_unit_test(test_bytes_behind_a_record),
		cmocka_unit_test(test_records_that_claim_to_be_one),
		cmocka_unit_test(test_damage_of_a_stream),
		cmocka_unit_test(test_streams_of_several_files),
		cmocka_unit_test(test_tracepoints_are_named),
		cmocka_unit_test(test_no_tracefs),
	};

	return cmocka_run_group_tests_name("recover", tests, make_room, remove_room);
}
