/* SPDX-License-Identifier: MIT */
#include <gelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/dwarf/go_table.h"
#include "analyze/symbols/elf.h"
#include "analyze/symbols/symbols.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

enum { TEXT = 0x401000, TEXT_BYTES = 0x1000, TEXT_OFFSET = 0x1000, TABLE = 0x402000, MODULE = 0x403000 };

static const char names[] = "main.main\0main.(*T).method\0\0main.main.func1";
static const unsigned name_at[] = {0, 10, 27, 28};
static const unsigned start_of[] = {0x10, 0x40, 0x80, 0xc0, 0x100};
enum { NR = 4 };

/* Which form, and what a file of that form has. */
struct form {
	uint32_t magic;
	unsigned word_bytes;
	bool is_big;
	uint64_t text_start; /* what is in the header, from Go 1.18 on */
};

static void put(struct buf *out, const struct form *form, unsigned bytes, uint64_t value)
{
	for (unsigned i = 0; i < bytes; i++)
		buf_put_u8(out, (uint8_t)(value >> 8 * (form->is_big ? bytes - 1 - i : i)));
}

static bool is_relative(const struct form *form)
{
	return form->magic == 0xfffffff0 || form->magic == 0xfffffff1;
}

/* The list of functions, and behind it what each has: where its code is, and its name. */
static void put_functions(struct buf *out, const struct form *form, size_t from, size_t names_from)
{
	const unsigned bytes = is_relative(form) ? 4 : form->word_bytes;
	const uint64_t base = is_relative(form) ? 0 : TEXT;
	size_t function = out->len - from + (2 * NR + 1) * bytes;

	for (unsigned i = 0; i < NR; i++, function += bytes + 4) {
		put(out, form, bytes, base + start_of[i]);
		put(out, form, bytes, function);
	}
	put(out, form, bytes, base + start_of[NR]);
	for (unsigned i = 0; i < NR; i++) {
		put(out, form, bytes, base + start_of[i]);
		put(out, form, 4, names_from + name_at[i]);
	}
}

static void put_table(struct buf *out, const struct form *form)
{
	const unsigned word = form->word_bytes, nr_words = is_relative(form) ? 8 : 7;
	const size_t start = out->len, header = 8 + (size_t)nr_words * word, list = header + sizeof(names);

	put(out, form, 4, form->magic);
	put(out, form, 2, 0);
	buf_put_u8(out, 1);
	buf_put_u8(out, (uint8_t)word);
	put(out, form, word, NR);
	if (form->magic == 0xfffffffb) {
		const size_t functions_end = 8 + word + (2 * NR + 1) * word + NR * (word + 4);
		put_functions(out, form, start, functions_end);
		buf_put(out, names, sizeof(names));
		return;
	}
	put(out, form, word, 1);
	if (is_relative(form))
		put(out, form, word, form->text_start);
	put(out, form, word, header);
	put(out, form, word, list); /* lists of files */
	put(out, form, word, list);
	put(out, form, word, list);
	put(out, form, word, list);
	buf_put(out, names, sizeof(names));
	put_functions(out, form, start + list, 0);
}

static const char *text_of(const struct go_table *table, const struct go_function *function)
{
	return function->name == table->names_end ? "(none)" : (const char *)table->bytes.ptr + function->name;
}

static void test_forms(void **state)
{
	static const uint32_t magics[] = {0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1};
	static const char *const found[] = {"main.main", "main.(*T).method", "(none)", "main.main.func1"};

	(void)state;
	for (unsigned i = 0; i < 16; i++) {
		AUTO_BUF struct buf bytes = {0};
		struct form form = {magics[i % 4], i & 4 ? 8 : 4, i & 8, TEXT};
		struct go_table table;
		struct go_function function;
		put_table(&bytes, &form);
		assert_true(go_table_open(buf_span(&bytes), form.is_big, form.word_bytes, &table));
		assert_int_equal(table.nr_functions, NR);
		for (unsigned j = 0; j < NR; j++) {
			assert_true(go_table_function(&table, j, &function));
			assert_int_equal(function.start, TEXT + start_of[j]);
			assert_int_equal(function.end, TEXT + start_of[j + 1]);
			assert_string_equal(text_of(&table, &function), found[j]);
		}
		assert_false(go_table_open(buf_span(&bytes), !form.is_big, form.word_bytes, &table));
		assert_false(go_table_open(buf_span(&bytes), form.is_big, 12 - form.word_bytes, &table));
	}
}

/* Each is opened or not, and has no function that is not in its bytes; ASan sees what is read. */
static void test_tables_that_end_early(void **state)
{
	const struct form form = {0xfffffff1, 8, false, TEXT};
	AUTO_BUF struct buf bytes = {0};

	(void)state;
	put_table(&bytes, &form);
	for (size_t len = 0; len < bytes.len; len++) {
		AUTO_FREE uint8_t *part = malloc(len + 1);
		struct go_table table;
		struct go_function function;
		assert_non_null(part);
		memcpy(part, bytes.data, len);
		if (!go_table_open((struct span){part, len}, false, 8, &table))
			continue;
		assert_false(go_table_function(&table, NR - 1, &function));
	}
}

/* Where the list has functions that do not follow one another, these are left out. */
static void test_broken_order(void **state)
{
	const struct form form = {0xfffffff1, 8, false, TEXT};
	AUTO_BUF struct buf bytes = {0};
	struct go_table table;
	struct go_function function;

	(void)state;
	put_table(&bytes, &form);
	assert_true(go_table_open(buf_span(&bytes), false, 8, &table));
	memset(bytes.data + table.list + 8, 0xff, 4); /* the start of function 1 */
	assert_true(go_table_function(&table, 0, &function));
	assert_false(go_table_function(&table, 1, &function));
	assert_true(go_table_function(&table, 2, &function));
}

/* A section of an ELF file in memory; `bytes` NULL: it has zeros. */
struct section {
	const char *name;
	uint64_t address;
	const struct buf *bytes;
	uint32_t type;
};

static void put_section(struct buf *elf, struct buf *headers, struct buf *texts, const struct section *section)
{
	buf_align(elf, 16);
	const Elf64_Shdr header = {.sh_name = (uint32_t)texts->len,
				   .sh_type = section->type,
				   .sh_flags = SHF_ALLOC,
				   .sh_addr = section->address,
				   .sh_offset = elf->len,
				   .sh_size = section->bytes->len,
				   .sh_entsize = section->type == SHT_RELA ? sizeof(Elf64_Rela) : 0};
	buf_put(texts, section->name, strlen(section->name) + 1);
	buf_put(elf, section->bytes->data, section->bytes->len);
	buf_put(headers, &header, sizeof(header));
}

static void make_elf(struct buf *elf, const struct section sections[], unsigned nr)
{
	AUTO_BUF struct buf headers = {0}, texts = {0};
	Elf64_Ehdr file = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_type = ET_DYN,
			   .e_machine = EM_X86_64,
			   .e_version = EV_CURRENT,
			   .e_phoff = sizeof(file),
			   .e_ehsize = sizeof(file),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 1,
			   .e_shentsize = sizeof(Elf64_Shdr)};
	const Elf64_Phdr code = {.p_type = PT_LOAD,
				 .p_flags = PF_R | PF_X,
				 .p_offset = TEXT_OFFSET,
				 .p_vaddr = TEXT,
				 .p_filesz = TEXT_BYTES,
				 .p_memsz = TEXT_BYTES};

	buf_extend(&headers, sizeof(Elf64_Shdr));
	buf_put_u8(&texts, 0);
	buf_put(elf, &file, sizeof(file));
	buf_put(elf, &code, sizeof(code));
	buf_extend(elf, TEXT_OFFSET + TEXT_BYTES - elf->len);
	for (unsigned i = 0; i < nr; i++)
		put_section(elf, &headers, &texts, &sections[i]);
	const Elf64_Shdr text_header = {.sh_name = (uint32_t)texts.len,
					.sh_type = SHT_STRTAB,
					.sh_offset = elf->len,
					.sh_size = texts.len + sizeof(".shstrtab")};
	buf_put(&texts, ".shstrtab", sizeof(".shstrtab"));
	buf_put(elf, texts.data, texts.len);
	buf_put(&headers, &text_header, sizeof(text_header));
	buf_align(elf, 16);
	file.e_shoff = elf->len;
	file.e_shnum = (uint16_t)(nr + 2);
	file.e_shstrndx = (uint16_t)(nr + 1);
	buf_put(elf, headers.data, headers.len);
	assert_false(buf_status(elf));
	memcpy(elf->data, &file, sizeof(file));
}

/* Whether its functions are found at their offsets in the file; else none must be. */
static bool has_functions(const struct section sections[], unsigned nr)
{
	AUTO_BUF struct buf elf = {0};
	struct elf_source source;
	struct symbols symbols = {0};

	make_elf(&elf, sections, nr);
	assert_false(elf_source_open_image(elf.data, elf.len, NULL, &source));
	assert_false(elf_symbols_load(&symbols, &source, &source));
	const struct symbol *method = symbols_find(&symbols, TEXT_OFFSET + 0x7f);
	if (method) {
		assert_string_equal(method->name, "main.(*T).method");
		assert_int_equal(method->start, TEXT_OFFSET + 0x40);
		assert_null(symbols_find(&symbols, TEXT_OFFSET + 0x80));
		assert_null(symbols_find(&symbols, TEXT_OFFSET + 0x100));
		assert_int_equal(symbols.nr, 3);
	} else {
		assert_int_equal(symbols.nr, 0);
	}
	elf_source_close(&source);
	symbols_fini(&symbols);
	return method;
}

static void put_relocation(struct buf *out, uint64_t address, uint64_t value)
{
	buf_put_u64(out, address);
	buf_put_u64(out, R_X86_64_RELATIVE);
	buf_put_u64(out, value);
}

static void test_files(void **state)
{
	const struct form old = {0xfffffffb, 8, false, 0}, new = {0xfffffff0, 8, false, TEXT};
	const struct form elsewhere = {0xfffffff1, 8, false, TEXT + TEXT_BYTES};
	AUTO_BUF struct buf old_bytes = {0}, bytes = {0}, inside = {0}, away = {0};

	(void)state;
	put_table(&old_bytes, &old);
	put_table(&bytes, &new);
	put_table(&away, &elsewhere);
	buf_put_u64(&inside, 0xfffffff0); /* no header */
	buf_put_u64(&inside, 0);
	put_table(&inside, &new);
	assert_true(has_functions(&(struct section){".gopclntab", TABLE, &old_bytes, SHT_PROGBITS}, 1));
	assert_true(has_functions(&(struct section){".gopclntab", TABLE, &bytes, SHT_PROGBITS}, 1));
	assert_true(has_functions(&(struct section){".data.rel.ro.gopclntab", TABLE, &bytes, SHT_PROGBITS}, 1));
	const struct section among_others[] = {{".data.rel.ro", TABLE, &inside, SHT_PROGBITS},
					       {".note.go.buildid", 0x400400, &bytes, SHT_NOTE}};
	const struct section without_id[] = {{".data.rel.ro", TABLE, &inside, SHT_PROGBITS},
					     {".go.buildinfo", 0x400400, &bytes, SHT_PROGBITS}};
	assert_true(has_functions(among_others, 2));
	assert_true(has_functions(without_id, 2));
	assert_false(has_functions(among_others, 1));
	assert_false(has_functions(&(struct section){".gopclntab", TABLE, &inside, SHT_PROGBITS}, 1));
	assert_false(has_functions(&(struct section){".gopclntab", TABLE, &bytes, SHT_NOBITS}, 1));
	assert_false(has_functions(&(struct section){".gopclntab", TABLE, &away, SHT_PROGBITS}, 1));
}

/* Of a position independent program some linkers leave the start of the code to a relocation. */
static void test_relocated(void **state)
{
	const struct form form = {0xfffffff1, 8, false, 0};
	AUTO_BUF struct buf bytes = {0}, relocations = {0};

	(void)state;
	put_table(&bytes, &form);
	put_relocation(&relocations, TABLE - 8, 1);
	put_relocation(&relocations, TABLE + 24, TEXT);
	put_relocation(&relocations, TABLE + bytes.len - 4, UINT64_MAX);
	const struct section sections[] = {{".data.rel.ro.gopclntab", TABLE, &bytes, SHT_PROGBITS},
					   {".rela.dyn", 0x400400, &relocations, SHT_RELA}};
	assert_false(has_functions(sections, 1));
	assert_true(has_functions(sections, 2));
}

/* Go 1.26 and later say it in what describes the module only, which begins with the address of the table. */
static void test_module(void **state)
{
	const struct form form = {0xfffffff1, 8, false, 0};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		AUTO_BUF struct buf bytes = {0}, module = {0}, relocations = {0};
		bool is_relocated = i & 1, is_of_another = i & 2;
		put_table(&bytes, &form);
		for (unsigned word = 0; word < 23; word++)
			buf_put_u64(&module, is_relocated ? 0
					     : word == 0  ? TABLE + is_of_another
					     : word == 22 ? TEXT
							  : 77);
		put_relocation(&relocations, is_relocated ? MODULE : 1, TABLE + is_of_another);
		put_relocation(&relocations, is_relocated ? MODULE + 22 * 8 : 1, TEXT);
		const struct section sections[] = {{".gopclntab", TABLE, &bytes, SHT_PROGBITS},
						   {".go.module", MODULE, &module, SHT_PROGBITS},
						   {".rela.dyn", 0x400400, &relocations, SHT_RELA}};
		assert_int_equal(has_functions(sections, 3), !is_of_another);
		module.len = 22 * 8;
		assert_int_equal(has_functions(sections, 3), false);
	}
}

/* Whether there are functions when section `number`, from 1 on, has so many bytes, with a hole behind what it has. */
static bool has_functions_with(struct buf *elf, unsigned number, uint64_t bytes)
{
	const uint64_t headers = ((const Elf64_Ehdr *)(const void *)elf->data)->e_shoff;
	Elf64_Shdr *header = (Elf64_Shdr *)(void *)(elf->data + headers) + number;
	const uint64_t before = header->sh_size;
	struct symbols symbols = {0};
	struct elf_source source;
	char path[64];

	header->sh_size = bytes;
	AUTO_FD int fd = memfd_create("table", MFD_CLOEXEC);
	assert_false(fd_write(fd, elf->data, elf->len));
	header->sh_size = before;
	assert_false(ftruncate(fd, 300 << 20));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_false(elf_source_open(path, NULL, &source));
	assert_false(elf_symbols_load(&symbols, &source, &source));
	const bool found = symbols.nr;
	elf_source_close(&source);
	symbols_fini(&symbols);
	return found;
}

/* Files of others may say that a section is as long as they like. */
static void test_too_long(void **state)
{
	enum { FEW = 1 << 20, MANY = 257 << 20 };
	const struct form form = {0xfffffff1, 8, false, 0};
	AUTO_BUF struct buf bytes = {0}, relocations = {0}, elf = {0};

	(void)state;
	put_table(&bytes, &form);
	put_relocation(&relocations, TABLE + 24, TEXT);
	const struct section sections[] = {{".gopclntab", TABLE, &bytes, SHT_PROGBITS},
					   {".rela.dyn", 0x400400, &relocations, SHT_RELA}};
	make_elf(&elf, sections, 2);
	assert_true(has_functions_with(&elf, 1, FEW));
	assert_true(has_functions_with(&elf, 2, sizeof(Elf64_Rela) * 1000));
	assert_false(has_functions_with(&elf, 1, MANY));
	assert_false(has_functions_with(&elf, 2, MANY));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),        cmocka_unit_test(test_tables_that_end_early),
		cmocka_unit_test(test_broken_order), cmocka_unit_test(test_files),
		cmocka_unit_test(test_relocated),    cmocka_unit_test(test_module),
		cmocka_unit_test(test_too_long)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
