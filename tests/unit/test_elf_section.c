/* SPDX-License-Identifier: MIT */
/* Long sections that are not compressed: what is read of them is what the file has there, and no more is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/dwarf/elf_section.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

enum {
	SECTION_BYTES = (1 << 20) + 77,
	OFFSET = 100, /* in the file */
	NAME_BYTES = 23,
	LONG_TEXT = 300000, /* from there on there is one that is too long */
	CUT = 500000,
	LAST_TEXT = SECTION_BYTES - 5, /* without NUL */
};

/* Names of NAME_BYTES with their NUL, one that is too long, and others without a pattern behind it. */
static uint8_t byte_at(uint32_t at)
{
	if (at >= LAST_TEXT)
		return 'z';
	if (at == LAST_TEXT - 1 || at == LONG_TEXT - 1)
		return 0;
	if (at >= LONG_TEXT && at < LONG_TEXT + ELF_TEXT_MAX + 1)
		return 'l';
	if (at % NAME_BYTES == NAME_BYTES - 1)
		return 0;
	return (uint8_t)('A' + (at * UINT32_C(2654435761) >> 27));
}

struct subject {
	struct buf bytes;
	struct elf_section section;
};

static void make_section(struct subject *subject)
{
	*subject = (struct subject){0};
	for (uint32_t i = 0; i < SECTION_BYTES; i++)
		buf_put_u8(&subject->bytes, byte_at(i));
	assert_false(subject->bytes.failed);
	int fd = memfd_create("section", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fd_pwrite(fd, subject->bytes.data, SECTION_BYTES, OFFSET), 0);
	subject->section = (struct elf_section){.len = SECTION_BYTES, .fd = fd, .offset = OFFSET};
}

static void end_section(struct subject *subject)
{
	int fd = subject->section.fd;

	elf_section_fini(&subject->section);
	close(fd);
	buf_fini(&subject->bytes);
}

static void expect_part(struct subject *subject, uint32_t offset, uint32_t len)
{
	struct span part = elf_section_part(&subject->section, offset, len);

	assert_int_equal(part.len, len);
	assert_memory_equal(part.ptr, subject->bytes.data + offset, len);
}

static void expect_rest(struct subject *subject, uint32_t offset, uint32_t len)
{
	struct span rest = elf_section_rest(&subject->section, offset, len);

	assert_true(rest.len >= len || rest.len == SECTION_BYTES - offset);
	assert_in_range(rest.len, 1, SECTION_BYTES - offset);
	assert_memory_equal(rest.ptr, subject->bytes.data + offset, rest.len);
}

/* In any order, over one another, and at the ends of blocks and of the section. */
static void test_parts(void **state)
{
	static const uint32_t lengths[] = {1, 8, 4095, 4096, 4097, 70000};
	struct subject subject;
	uint32_t number = 1;

	(void)state;
	make_section(&subject);
	for (unsigned i = 0; i < 300; i++) {
		number = number * 1103515245 + 12345;
		uint32_t len = lengths[(number >> 8) % 6] + (i % 7 ? 0 : 66000);
		uint32_t offset = i % 3 ? (number >> 10) % (SECTION_BYTES - len) : (number >> 18) % 200 * 4096;
		expect_part(&subject, offset, len);
		expect_rest(&subject, offset, len);
	}
	expect_part(&subject, SECTION_BYTES - 1, 1);
	expect_rest(&subject, SECTION_BYTES - 1, 100);
	expect_rest(&subject, 0, SECTION_BYTES);
	assert_int_equal(elf_section_part(&subject.section, SECTION_BYTES - 1, 2).len, 0);
	assert_int_equal(elf_section_part(&subject.section, SECTION_BYTES, 1).len, 0);
	assert_int_equal(elf_section_rest(&subject.section, SECTION_BYTES, 1).len, 0);
	assert_int_equal(elf_section_rest(&subject.section, UINT64_MAX, UINT64_MAX).len, 0);
	expect_part(&subject, 0, SECTION_BYTES);
	struct span whole = elf_section_whole(&subject.section);
	assert_int_equal(whole.len, SECTION_BYTES);
	assert_memory_equal(whole.ptr, subject.bytes.data, whole.len);
	expect_part(&subject, 4000, 5000);
	expect_rest(&subject, 4000, 5000);
	end_section(&subject);
}

static void test_cursor_that_goes_on(void **state)
{
	struct subject subject;

	(void)state;
	make_section(&subject);
	struct cursor at = cursor_over(elf_section_rest(&subject.section, 4000, 1));
	for (uint32_t i = 4000; i < SECTION_BYTES; i++) {
		elf_section_extend(&subject.section, &at, 3);
		assert_in_range(cursor_left(&at), SECTION_BYTES - i < 3 ? SECTION_BYTES - i : 3, SECTION_BYTES - i);
		assert_int_equal(cursor_u8(&at), subject.bytes.data[i]);
	}
	elf_section_extend(&subject.section, &at, 3);
	assert_int_equal(cursor_left(&at), 0);
	assert_false(at.bad);
	end_section(&subject);
}

static const char *text_at(const struct subject *subject, size_t offset)
{
	return (const char *)subject->bytes.data + offset;
}

static void test_texts(void **state)
{
	struct subject subject;

	(void)state;
	make_section(&subject);
	for (uint32_t offset = LONG_TEXT - 20 * 4096; offset < LONG_TEXT; offset++)
		assert_string_equal(elf_section_text(&subject.section, offset), text_at(&subject, offset));
	assert_true(elf_text_is_too_long(elf_section_text(&subject.section, LONG_TEXT)));
	assert_int_equal(strlen(elf_section_text(&subject.section, LONG_TEXT + NAME_BYTES)),
			 strlen(text_at(&subject, LONG_TEXT + NAME_BYTES)));
	assert_string_equal(elf_section_text(&subject.section, LAST_TEXT - 1), "");
	assert_null(elf_section_text(&subject.section, LAST_TEXT));
	assert_null(elf_section_text(&subject.section, SECTION_BYTES - 1));
	assert_null(elf_section_text(&subject.section, SECTION_BYTES));
	end_section(&subject);
}

/* The end of the file is gone: it is not needed for what is in front. */
static void test_no_more_is_read_than_needed(void **state)
{
	struct subject subject;

	(void)state;
	make_section(&subject);
	assert_int_equal(ftruncate(subject.section.fd, OFFSET + CUT), 0);
	assert_string_equal(elf_section_text(&subject.section, 1000), text_at(&subject, 1000));
	expect_rest(&subject, 2000, 10);
	expect_part(&subject, 8000, CUT - 10000);
	assert_int_equal(elf_section_part(&subject.section, CUT - 10, 20).len, 0);
	assert_int_equal(elf_section_rest(&subject.section, CUT + 10, 20).len, 0);
	assert_null(elf_section_text(&subject.section, CUT + 10));
	assert_int_equal(elf_section_whole(&subject.section).len, 0);
	end_section(&subject);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_cursor_that_goes_on),
					   cmocka_unit_test(test_texts),
					   cmocka_unit_test(test_no_more_is_read_than_needed)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
