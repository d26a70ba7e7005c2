/* SPDX-License-Identifier: MIT */
/* What formats keep until their end: sequences in memory and in a file, texts, sums; and texts that are no UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/diag.h"
#include "export/cgroup_labels.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spool), cmocka_unit_test(test_texts),         cmocka_unit_test(test_sums),
		cmocka_unit_test(test_utf8),  cmocka_unit_test(test_cgroup_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
