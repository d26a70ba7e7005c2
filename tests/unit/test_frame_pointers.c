/* SPDX-License-Identifier: MIT */
/* frame_pointers: files that say little, files that break off. What compilers make: test_unwind_live.py. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "unwind/arch.h"
#include "unwind/frame_pointers.h"

enum { NR_CUTS = 400 };

static int file_of(const void *bytes, size_t len)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	return fd;
}

static bool looks_here(void)
{
	const struct unwind_arch *arch = unwind_arch_of(NULL);

	return arch && !arch->has_signal_record;
}

static void what_is_no_program_is_not_known(void **state)
{
	static const char script[] = "#!/bin/sh\n";

	(void)state;
	if (!looks_here())
		skip();
	for (size_t len = 0; len <= sizeof(script); len += sizeof(script)) {
		int fd = file_of(script, len);
		assert_true(frame_pointers_kept(fd) < 0);
		close(fd);
	}
	assert_true(frame_pointers_kept(-1) < 0);
}

static void a_program_that_breaks_off_harms_nothing(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	uint8_t *bytes = malloc((size_t)st.st_size);
	assert_int_equal(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
	int whole = frame_pointers_kept(fd);
	assert_in_range(whole, 0, 1);
	close(fd);
	for (unsigned i = 0; i < NR_CUTS; i++) {
		int part = file_of(bytes, (size_t)st.st_size * i / NR_CUTS);
		assert_true(frame_pointers_kept(part) <= 1);
		close(part);
	}
	/* Neither does one with other bytes in it. */
	srand(7);
	for (unsigned i = 0; i < NR_CUTS; i++) {
		int part = file_of(bytes, (size_t)st.st_size);
		for (unsigned k = 0; k < 64; k++) {
			uint8_t byte = (uint8_t)rand();
			assert_int_equal(pwrite(part, &byte, 1, rand() % (off_t)st.st_size), 1);
		}
		assert_true(frame_pointers_kept(part) <= 1);
		close(part);
	}
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_program_is_not_known),
		cmocka_unit_test(a_program_that_breaks_off_harms_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
