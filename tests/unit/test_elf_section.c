/* SPDX-License-Identifier: MIT */
/* Long sections: what is read of them is what the file has there, and no more is read than was asked for. */
#include <libelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

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

enum { PACKED_BYTES = 2 << 20, STEP_BYTES = 256 << 10 /* is unpacked at once */ };

/* An ELF file with one section that is compressed by zlib. */
struct packed_file {
	uint8_t *bytes; /* not compressed */
	int fd;
	Elf *elf;
	struct elf_section section;
};

static uint8_t *plain_bytes(size_t len)
{
	uint8_t *bytes = malloc(len);

	assert_non_null(bytes);
	for (uint32_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(i * UINT32_C(2654435761) >> 28);
	return bytes;
}

/* The bytes of the section, with its header; behind `harm` parts of 100 of it one bit is wrong; 100: none. */
static void pack(const uint8_t *bytes, size_t len, unsigned harm, struct buf *ret)
{
	const Elf64_Chdr header = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = len, .ch_addralign = 1};
	uLongf packed_len = compressBound(len);

	buf_put(ret, &header, sizeof(header));
	uint8_t *packed = buf_extend(ret, packed_len);
	assert_non_null(packed);
	assert_int_equal(compress2(packed, &packed_len, bytes, len, 1), Z_OK);
	ret->len = sizeof(header) + packed_len;
	if (harm < 100)
		packed[(packed_len - 1) * harm / 99] ^= 0x10; /* 99: of the checksum */
}

static void make_packed(struct packed_file *file, size_t len, unsigned harm)
{
	static char names[] = "\0.debug_info\0.shstrtab";
	AUTO_BUF struct buf packed = {0};

	*file = (struct packed_file){.bytes = plain_bytes(len), .fd = memfd_create("packed", MFD_CLOEXEC)};
	pack(file->bytes, len, harm, &packed);
	Elf *elf = elf_begin(file->fd, ELF_C_WRITE, NULL);
	Elf64_Ehdr *header = elf64_newehdr(elf);
	assert_non_null(header);
	header->e_ident[EI_DATA] = ELFDATA2LSB;
	header->e_machine = EM_X86_64;
	const struct {
		uint32_t name, type, flags;
		void *bytes;
		size_t len;
	} sections[] = {{1, SHT_PROGBITS, SHF_COMPRESSED, packed.data, packed.len},
			{13, SHT_STRTAB, 0, names, sizeof(names)}};
	for (size_t i = 0; i < 2; i++) {
		Elf_Scn *section = elf_newscn(elf);
		Elf_Data *data = elf_newdata(section);
		Elf64_Shdr *its = elf64_getshdr(section);
		*data = (Elf_Data){
			.d_buf = sections[i].bytes, .d_size = sections[i].len, .d_align = 1, .d_version = EV_CURRENT};
		*its = (Elf64_Shdr){
			.sh_name = sections[i].name, .sh_type = sections[i].type, .sh_flags = sections[i].flags};
	}
	header->e_shstrndx = 2;
	assert_true(elf_update(elf, ELF_C_WRITE) > 0);
	elf_end(elf);
	file->elf = elf_begin(file->fd, ELF_C_READ, NULL);
	file->section = elf_section_find(file->elf, file->fd, ".debug_info", NULL);
	assert_int_equal(file->section.len, len);
}

static void end_packed(struct packed_file *file)
{
	elf_section_fini(&file->section);
	elf_end(file->elf);
	close(file->fd);
	free(file->bytes);
}

/* Returns how many steps were taken. */
static unsigned unpack_ahead(struct elf_section *section, uint64_t most)
{
	unsigned nr = 0;

	while (elf_section_unpack_ahead(section, most))
		assert_true(++nr < PACKED_BYTES);
	return nr;
}

static void expect_same(struct elf_section *ahead, struct elf_section *other, uint64_t offset, uint64_t len)
{
	const struct span a = elf_section_part(ahead, offset, len), b = elf_section_part(other, offset, len);

	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.ptr, b.ptr, a.len);
}

/* What can be read, and what cannot, is the same with and without. */
static void compare_ahead(size_t len, unsigned harm)
{
	struct packed_file ahead, other;

	make_packed(&ahead, len, harm);
	make_packed(&other, len, harm);
	unpack_ahead(&ahead.section, len);
	const uint64_t offsets[] = {0, len / 10, len / 2 - 3, len * 97 / 100, len - 1, len / 3};
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		expect_same(&ahead.section, &other.section, offsets[i], 1);
		expect_same(&ahead.section, &other.section, offsets[i], len / 4);
		if (harm == 100) {
			const struct span one = elf_section_part(&ahead.section, offsets[i], 1);
			assert_int_equal(one.len, 1);
			assert_memory_equal(one.ptr, ahead.bytes + offsets[i], 1);
		}
	}
	const struct span a = elf_section_whole(&ahead.section), b = elf_section_whole(&other.section);
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.ptr, b.ptr, a.len);
	assert_int_equal(unpack_ahead(&ahead.section, len), 0);
	end_packed(&ahead);
	end_packed(&other);
}

static void test_unpacked_ahead(void **state)
{
	static const unsigned harms[] = {100, 2, 50, 97, 99};
	static const size_t lengths[] = {PACKED_BYTES, STEP_BYTES, STEP_BYTES + 1, 1000};

	(void)state;
	for (size_t i = 0; i < sizeof(harms) / sizeof(harms[0]); i++)
		for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++)
			compare_ahead(lengths[k], harms[i]);
}

static void test_so_far_ahead(void **state)
{
	struct packed_file file;
	struct subject subject;

	(void)state;
	make_packed(&file, PACKED_BYTES, 100);
	assert_int_equal(unpack_ahead(&file.section, STEP_BYTES - 1), 0);
	assert_int_equal(unpack_ahead(&file.section, 3 * STEP_BYTES), 3);
	assert_int_equal(unpack_ahead(&file.section, 4 * STEP_BYTES), 1);
	/* The last step is left out: it shows whether the checksum is right. */
	assert_int_equal(unpack_ahead(&file.section, UINT64_MAX), PACKED_BYTES / STEP_BYTES - 5);
	assert_int_equal(elf_section_part(&file.section, PACKED_BYTES - 1, 1).len, 1);
	end_packed(&file);
	make_section(&subject); /* is not compressed */
	assert_int_equal(unpack_ahead(&subject.section, UINT64_MAX), 0);
	end_section(&subject);
}

int main(void)
{
	elf_version(EV_CURRENT);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),          cmocka_unit_test(test_cursor_that_goes_on),
		cmocka_unit_test(test_texts),          cmocka_unit_test(test_no_more_is_read_than_needed),
		cmocka_unit_test(test_unpacked_ahead), cmocka_unit_test(test_so_far_ahead)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
