/* SPDX-License-Identifier: MIT */
/* What formats keep until their end: sequences in memory and in a file, texts, sums; texts that are no UTF-8; columns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "export/cgroup_labels.h"
#include "export/export.h"
#include "export/spool.h"
#include "export/stack_table.h"

enum { NR_SEQUENCES = 7, NR_VALUES = 20000 };

static int append(void *ctx, const void *bytes, size_t len)
{
	buf_put(ctx, bytes, len);
	return 0;
}

/* Memory for 1 KiB: nearly all goes through the file, or through memory where there is no directory for one. */
static void check_spool(const char *beside)
{
	struct spool *spool = spool_new(1024, beside);
	struct buf wanted[NR_SEQUENCES] = {0};
	uint32_t numbers[NR_SEQUENCES];
	struct diag diag = {0};

	assert_non_null(spool);
	for (unsigned i = 0; i < NR_SEQUENCES; i++)
		assert_int_equal(spool_add(spool, &numbers[i]), 0);
	for (unsigned i = 0; i < NR_VALUES; i++) {
		unsigned which = i * i % NR_SEQUENCES;
		buf_printf(&wanted[which], "%u,", i);
		buf_printf(spool_end(spool, numbers[which]), "%u,", i);
		assert_int_equal(spool_relieve(spool, &diag), 0);
	}
	for (unsigned i = 0; i < NR_SEQUENCES; i++) {
		struct buf found = {0};
		assert_int_equal(spool_read(spool, numbers[i], append, &found, &diag), 0);
		assert_int_equal(found.len, wanted[i].len);
		assert_true(!found.len || memcmp(found.data, wanted[i].data, found.len) == 0);
		buf_fini(&found);
		buf_fini(&wanted[i]);
	}
	spool_free(spool);
}

static void test_spool(void **state)
{
	(void)state;
	check_spool("/tmp/output");
	check_spool("/nowhere/output");
	check_spool(NULL);
}

static void test_texts(void **state)
{
	struct text_table table = {0};
	uint32_t a, b, c;

	(void)state;
	assert_int_equal(text_table_add(&table, NULL, &a), 1);
	assert_int_equal(text_table_add(&table, "main", &b), 1);
	assert_int_equal(text_table_add(&table, "", &c), 0);
	assert_int_equal(a, c);
	for (unsigned i = 0; i < 1000; i++) {
		char text[16];
		snprintf(text, sizeof(text), "f%u", i % 500);
		assert_int_equal(text_table_add(&table, text, &c), i < 500);
		assert_int_equal(c, 2 + i % 500);
	}
	assert_string_equal(table.texts[b], "main");
	text_table_fini(&table);
}

static void test_sums(void **state)
{
	struct sums sums = {0};

	(void)state;
	for (unsigned round = 0; round < 3; round++)
		for (uint32_t i = 0; i < 1000; i++)
			assert_int_equal(sums_add(&sums, &(struct sum_key){i % 10, i / 100, 1, (int)i % 10 - 1, 0}, i),
					 0);
	assert_int_equal(sums.nr, 100);
	for (uint32_t i = 0; i < sums.nr; i++)
		assert_int_equal(sums.sums[i].nr_samples, 30);
	sums_fini(&sums);
}

static void test_sums_have_a_limit(void **state)
{
	const struct sum_key one = {.thread = 1}, two = {.thread = 2};
	struct sums sums = {0};

	(void)state;
	assert_int_equal(sums_add(&sums, &one, INT64_MAX - 5), 0);
	assert_int_equal(sums_add(&sums, &one, 5), 0);
	assert_int_equal(sums.sums[0].period, INT64_MAX);
	assert_int_equal(sums_add(&sums, &one, 1), 0);
	assert_int_equal(sums_add(&sums, &two, UINT64_C(1) << 63), 0);
	assert_int_equal(sums_add(&sums, &two, UINT64_MAX), 0);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(sums.sums[i].period, INT64_MAX);
	assert_int_equal(sums.sums[0].nr_samples, 3);
	sums_fini(&sums);
}

static void test_utf8(void **state)
{
	static const char *const texts[][2] = {
		{"", ""},
		{"main", "main"},
		{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
		{"a\xff"
		 "b\x80",
		 "a\xef\xbf\xbd"
		 "b\xef\xbf\xbd"},
		{"\xc3", "\xef\xbf\xbd"},
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* half of a surrogate pair */
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct buf copy = {0};
		assert_string_equal(utf8_of(texts[i][0], &copy), texts[i][1]);
		buf_fini(&copy);
	}
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_cgroup_labels(void **state)
{
	static const char *const paths[][4] = {
		{"/", "", "", ""},
		{"/system.slice/nginx.service", "nginx.service", "", ""},
		{"/user.slice/user-0.slice/user@0.service/app.slice/a.service", "a.service", "", ""},
		{"/user.slice/user-0.slice/session-3.scope", "session-3.scope", "", ""},
		{"/system.slice/docker-" ID ".scope", "", ID, ""},
		{"/docker/" ID, "", ID, ""},
		{"/machine.slice/libpod-" ID ".scope/container", "", ID, ""},
		{"/machine.slice/libpod-conmon-" ID ".scope", "libpod-conmon-" ID ".scope", "", ""},
		{"/lxc.payload.web/system.slice/ssh.service", "ssh.service", "web", ""},
		{"/kubepods.slice/kubepods-burstable.slice/"
		 "kubepods-burstable-pod1c8a8c0a_f2b5_4e1d_9a57_0123456789ab.slice/cri-containerd-" ID ".scope",
		 "", ID, "1c8a8c0a-f2b5-4e1d-9a57-0123456789ab"},
		{"/kubepods/besteffort/pod1c8a8c0a-f2b5-4e1d-9a57-0123456789ab/" ID, "", ID,
		 "1c8a8c0a-f2b5-4e1d-9a57-0123456789ab"},
		{"/kubepods/pod0123456789abcdef0123456789abcdef", "", "", "0123456789abcdef0123456789abcdef"},
		{"/podman.slice/pod-of-whales/podding", "", "", ""},
		{"/pod", "", "", ""},
		{"////.service/.scope", "", "", ""},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct cgroup_labels labels;
		cgroup_labels_of(paths[i][0], &labels);
		for (unsigned k = 0; k < NR_CGROUP_LABELS; k++)
			assert_string_equal(labels.texts[k], paths[i][1 + k]);
	}
}

/* A firefox profile of one marker with a name of so many bytes. Returns what the column of its data holds. */
static size_t data_column(size_t name_bytes, bool *ret_ends_with_comma)
{
	static const char begin[] = "\"data\":[";
	AUTO_FD int fd = memfd_create("profile", MFD_CLOEXEC);
	const struct export_target target = {.fd = fd, .name = "profile"};
	const struct export_profile profile = {.title = "test"};
	const struct export_format *format = export_format_find("firefox", NULL);
	AUTO_FREE char *name = malloc(name_bytes + 1);
	struct exporter *exporter;
	struct diag why = {""};
	struct stat st;

	assert_non_null(memset(name, 'x', name_bytes));
	name[name_bytes] = '\0';
	assert_int_equal(export_open(format, &profile, &target, &exporter, &why), 0);
	assert_int_equal(format->thread(exporter, 1, &(struct export_thread){1, 1, "x"}), 0);
	assert_int_equal(
		format->marker(
			exporter,
			&(struct export_marker){
				.kind = EXPORT_EXEC, .from_ns = 1, .to_ns = 1, .thread = 1, .cpu = -1, .text = name}),
		0);
	assert_int_equal(export_close(exporter, &why), 0);
	export_free(exporter);
	assert_int_equal(fstat(fd, &st), 0);
	size_t len = (size_t)st.st_size;
	char *text = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(text, MAP_FAILED);
	const char *column = memmem(text, len, begin, strlen(begin));
	assert_non_null(column);
	column += strlen(begin);
	const char *end = memchr(column, ']', len - (size_t)(column - text));
	assert_non_null(end);
	*ret_ends_with_comma = end[-1] == ',';
	size_t bytes = (size_t)(end - column);
	munmap(text, len);
	return bytes;
}

/* A column that is read in pieces from the temporary file: its last comma may be the end of one, and no more be left.
 */
static void test_the_end_of_a_column(void **state)
{
	enum { SPOOL_BYTES = 32 << 20 /* of firefox.c, and a multiple of the pieces */ };
	bool has_comma;
	size_t others = data_column(0, &has_comma);

	(void)state;
	assert_false(has_comma);
	/* A comma and a newline are behind each value. */
	for (size_t more = 0; more < 4; more++) {
		size_t name_bytes = SPOOL_BYTES + more - others - 2;
		assert_int_equal(data_column(name_bytes, &has_comma), SPOOL_BYTES + more - 2);
		assert_false(has_comma);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spool),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_sums_have_a_limit),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_cgroup_labels),
		cmocka_unit_test(test_the_end_of_a_column),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
