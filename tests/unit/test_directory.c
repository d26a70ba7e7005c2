/* SPDX-License-Identifier: MIT */
/* Data directories made of bytes, read back: order, what is skipped, what is refused, what is damaged. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "read/session.h"
#include "session_file.h"

/* A directory of the test's own, removed with all that is in it. */
struct place {
	char path[64];
	int fd;
};

static int setup(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	strcpy(place->path, "/tmp/millrace-directory-XXXXXX");
	if (!mkdtemp(place->path))
		return -1;
	place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = place;
	return place->fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	struct place *place = *state;
	DIR *dir = fdopendir(place->fd);

	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] != '.' && unlinkat(place->fd, entry->d_name, 0))
			unlinkat(place->fd, entry->d_name, AT_REMOVEDIR);
	}
	closedir(dir);
	rmdir(place->path);
	free(place);
	return 0;
}

static void put_file(const struct place *place, const char *name, struct buf *bytes)
{
	AUTO_FD int fd = openat(place->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes->data, bytes->len), bytes->len);
	buf_fini(bytes);
}

enum part {
	PART_NO_VERSION = -1,
	PART_UNFINISHED = -2,
	PART_NO_RECORDS = -3, /* of version 1 */
};

/* `data`: one COMM without a time, one with 22; `version` of the directory or one of enum part. */
static void put_data(const struct place *place, int version)
{
	struct file_events file;
	struct file_header header;
	struct feature_set features = {0};
	struct buf out = {0}, payload = {0};

	file_events_init(&file);
	header_encode(file.events, 2, &out, &header);
	if (version != PART_NO_RECORDS) {
		file_put_comm(&out, 0, "first");
		file_put_comm(&out, 22, "timed");
	}
	if (version != PART_UNFINISHED) {
		header.data.size = out.len - header.data.offset;
		if (version != PART_NO_VERSION) {
			buf_put_u64(&payload, version == PART_NO_RECORDS ? 1 : (uint64_t)version);
			feature_set_add(&features, FEATURE_DIR_FORMAT, &payload);
		}
		feature_set_encode(&features, out.len, &out, header.features);
		feature_set_fini(&features);
	}
	memcpy(out.data, &header, sizeof(header));
	put_file(place, "data", &out);
}

static void put_samples(const struct place *place, const char *name, const uint64_t *times, size_t nr)
{
	struct buf out = {0};

	for (size_t i = 0; i < nr; i++)
		file_put_sample(&out, times[i], i % 2 ? FILE_ID_SWITCH : FILE_ID_CLOCK);
	put_file(place, name, &out);
}

static struct session *open_place(const struct place *place, enum session_flags flags)
{
	struct session *session = NULL;
	struct diag diag = {0};

	if (session_open(place->path, flags, &session, &diag))
		fail_msg("%s", diag.text);
	return session;
}

static void expect(struct session *session, const char *file, uint64_t time)
{
	struct session_record record;

	assert_int_equal(session_next(session, &record, NULL), 1);
	assert_int_equal(record.sample.time, time);
	if (file)
		assert_string_equal(record.view.file, file);
	else
		assert_null(record.view.file);
}

static void expect_end(struct session *session, int result, const char *why)
{
	struct session_record record;
	struct diag diag = {0};

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(session_next(session, &record, &diag), result);
		if (why && !strstr(diag.text, why))
			fail_msg("%s", diag.text);
	}
	session_close(session);
}

static void expect_refused(const struct place *place, int result, const char *why)
{
	struct session *session;
	struct diag diag = {0};

	assert_int_equal(session_open(place->path, 0, &session, &diag), result);
	assert_non_null(strstr(diag.text, place->path));
	if (!strstr(diag.text, why))
		fail_msg("%s", diag.text);
}

/* Three rings, one of them with inversions, and what is no file of records. */
static void put_three(const struct place *place)
{
	put_samples(place, "data.10", (uint64_t[]){20, 40, 30}, 3);
	put_samples(place, "data.2", (uint64_t[]){10, 20, 60}, 3);
	put_samples(place, "data.0", NULL, 0);
	put_samples(place, "other", (uint64_t[]){1}, 1);
	assert_int_equal(mkdirat(place->fd, "data.dir", 0700), 0);
	assert_int_equal(mkfifoat(place->fd, "data.fifo", 0600), 0);
}

static void test_by_time(void **state)
{
	const struct place *place = *state;

	put_data(place, 1);
	put_three(place);
	struct session *session = open_place(place, 0);
	assert_int_equal(session_info(session)->nr_missing_files, 1 + 7); /* data.1, data.3 ... */
	expect(session, "data", 0);
	expect(session, "data.2", 10);
	expect(session, "data.2", 20);
	expect(session, "data.10", 20);
	expect(session, "data", 22);
	expect(session, "data.10", 30);
	expect(session, "data.10", 40);
	expect(session, "data.2", 60);
	assert_int_equal(session_info(session)->nr_late, 0);
	expect_end(session, 0, NULL);
}

static void test_as_it_lies(void **state)
{
	static const uint64_t two[] = {10, 20, 60}, ten[] = {20, 40, 30};
	const struct place *place = *state;

	put_data(place, 1);
	put_three(place);
	struct session *session = open_place(place, SESSION_FILE_ORDER);
	expect(session, "data", 0);
	expect(session, "data", 22);
	for (unsigned i = 0; i < 3; i++)
		expect(session, "data.2", two[i]);
	for (unsigned i = 0; i < 3; i++)
		expect(session, "data.10", ten[i]);
	expect_end(session, 0, NULL);
}

static void test_marks_mean_nothing_in_a_ring(void **state)
{
	const struct place *place = *state;
	struct buf out = {0};

	put_data(place, 1);
	file_put_sample(&out, 90, FILE_ID_CLOCK);
	for (unsigned i = 0; i < 3; i++)
		file_put_mark(&out);
	file_put_sample(&out, 91, FILE_ID_CLOCK);
	put_file(place, "data.0", &out);
	put_samples(place, "data.1", (uint64_t[]){80}, 1);
	struct session *session = open_place(place, 0);
	expect(session, "data", 0);
	expect(session, "data", 22);
	expect(session, "data.1", 80);
	expect(session, "data.0", 90);
	expect(session, "data.0", 91);
	expect_end(session, 0, NULL);
}

/* The recorder died: no version, no size; what is there is read, and it is told. */
static void test_unfinished(void **state)
{
	const struct place *place = *state;

	put_data(place, PART_UNFINISHED);
	put_samples(place, "data.0", (uint64_t[]){50}, 1);
	struct session *session = open_place(place, 0);
	expect(session, "data", 0);
	expect(session, "data", 22);
	expect(session, "data.0", 50);
	expect_end(session, -EBADMSG, "/data: offset 0x208: the recording was not finished");
}

static void test_data_without_records(void **state)
{
	const struct place *place = *state;

	put_data(place, PART_NO_RECORDS);
	put_samples(place, "data.0", (uint64_t[]){50}, 1);
	struct session *session = open_place(place, 0);
	expect(session, "data.0", 50);
	expect_end(session, 0, NULL);
}

static void test_no_version_is_a_single_file(void **state)
{
	const struct place *place = *state;

	put_data(place, PART_NO_VERSION);
	put_samples(place, "data.0", (uint64_t[]){50}, 1);
	struct session *session = open_place(place, 0);
	expect(session, "data", 0);
	expect(session, "data", 22);
	expect_end(session, 0, NULL);
}

static void test_refused(void **state)
{
	const struct place *place = *state;
	struct buf junk = {0};

	expect_refused(place, -EISDIR, "without a file \"data\"");
	put_data(place, 1);
	expect_refused(place, -EBADMSG, "no file data.* beside it");
	assert_int_equal(mkdirat(place->fd, "data.0", 0700), 0);
	expect_refused(place, -EBADMSG, "no file data.* beside it");
	put_samples(place, "data.1", NULL, 0);
	session_close(open_place(place, 0)); /* rings without records are no mistake */
	put_data(place, 2);
	expect_refused(place, -EBADMSG, "version 2");
	buf_put_text(&junk, "this is no recording");
	put_file(place, "data", &junk);
	expect_refused(place, -EBADMSG, "data: not a perf.data file");
	put_file(place, "data", &junk);
	expect_refused(place, -EBADMSG, "data: the file is empty");
}

/* A damaged file ends there; those of the other rings are read to their ends. */
static void test_damaged(void **state)
{
	static const char *const why[] = {"/data.bak: offset 0: ", "/data.1: offset 0x50: cut off",
					  "/data.1: offset 0: the first of 1 samples of events"};
	const struct place *place = *state;

	for (unsigned i = 0; i < 3; i++) {
		struct buf out = {0};

		put_data(place, 1);
		put_samples(place, "data.0", (uint64_t[]){10, 70}, 2);
		file_put_sample(&out, 60, i == 2 ? 999 : FILE_ID_CLOCK);
		file_put_sample(&out, 61, FILE_ID_CLOCK);
		if (i == 1)
			out.len -= 4;
		put_file(place, "data.1", &out);
		if (i == 0) {
			buf_put_text(&out, "junk that was left behind");
			put_file(place, "data.bak", &out);
		}
		struct session *session = open_place(place, 0);
		expect(session, "data", 0);
		expect(session, "data.0", 10);
		expect(session, "data", 22);
		if (i != 2)
			expect(session, "data.1", 60);
		if (i != 1)
			expect(session, "data.1", 61);
		expect(session, "data.0", 70);
		expect_end(session, -EBADMSG, why[i]);
		unlinkat(place->fd, "data.bak", 0);
	}
}

/* Records of odd sizes leave what follows askew: those are copied, and held until they were delivered. */
static void test_askew(void **state)
{
	const struct place *place = *state;
	struct buf out = {0};

	put_data(place, 1);
	size_t at = file_begin(&out, RECORD_THREAD_MAP, 0);
	buf_put(&out, "odd", 3);
	file_end(&out, at);
	for (uint64_t time = 30; time < 30 + 100; time++)
		file_put_sample(&out, time, FILE_ID_CLOCK);
	put_file(place, "data.0", &out);
	struct session *session = open_place(place, 0);
	expect(session, "data", 0);
	expect(session, "data.0", 0);
	expect(session, "data", 22);
	for (uint64_t time = 30; time < 30 + 100; time++)
		expect(session, "data.0", time);
	expect_end(session, 0, NULL);
}

/* Inversions that no window could sort are delivered and counted. */
static void test_unsorted(void **state)
{
	enum { NR = 5000 };
	static uint64_t times[NR];
	const struct place *place = *state;
	struct session_record record;
	size_t nr = 0;

	for (size_t i = 0; i < NR; i++)
		times[i] = 100 + NR - i;
	put_data(place, 1);
	put_samples(place, "data.0", times, NR);
	struct session *session = open_place(place, 0);
	while (session_next(session, &record, NULL) > 0)
		nr++;
	assert_int_equal(nr, NR + 2);
	assert_true(session_info(session)->nr_late > 0);
	expect_end(session, 0, NULL);
}

/* More files than a process may have open. */
static void test_many_files(void **state)
{
	enum { NR = 1100 };
	const struct place *place = *state;
	char name[32];

	put_data(place, 1);
	for (unsigned i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "data.%u", i);
		put_samples(place, name, (uint64_t[]){1000 + i}, 1);
	}
	struct session *session = open_place(place, 0);
	expect(session, "data", 0);
	expect(session, "data", 22);
	for (unsigned i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "data.%u", i);
		expect(session, name, 1000 + i);
	}
	expect_end(session, 0, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_by_time),
		TEST(test_as_it_lies),
		TEST(test_marks_mean_nothing_in_a_ring),
		TEST(test_unfinished),
		TEST(test_data_without_records),
		TEST(test_no_version_is_a_single_file),
		TEST(test_refused),
		TEST(test_damaged),
		TEST(test_askew),
		TEST(test_unsorted),
		TEST(test_many_files),
	};
	log_set_level(LOG_ERRORS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
