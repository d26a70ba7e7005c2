/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/go_table.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sysinfo/elf_file.h"

enum {
	HEADER_BYTES = 8, /* the magic number, two zeros, unit of code addresses, bytes of a word */
	MODULE_TEXT = 22, /* word of Go's moduledata with the start of the code, since Go 1.16 */
	/*
	 * Of what is read of a file, whatever is the same in it: a hole costs nothing there. Tables of large programs
	 * have 60 MB.
	 */
	MOST_BYTES = 256 << 20,
	MOST_UNSPLIT_TEXT_BYTES = 1 << 25 /* of 32-bit ARM and PowerPC: larger code may be in parts that were moved */
};

/* A number at an offset in the bytes. false: they end before. */
static bool number_at(const struct go_table *table, uint64_t offset, unsigned bytes, uint64_t *ret)
{
	uint64_t value = 0;

	if (offset > table->bytes.len || bytes > table->bytes.len - offset)
		return false;
	const uint8_t *at = (const uint8_t *)table->bytes.ptr + offset;
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)at[i] << 8 * (table->is_big ? bytes - 1 - i : i);
	*ret = value;
	return true;
}

static bool word_at(const struct go_table *table, uint64_t offset, uint64_t *ret)
{
	return number_at(table, offset, table->word_bytes, ret);
}

static bool find_version(struct go_table *table)
{
	const uint8_t *header = table->bytes.ptr;
	uint64_t magic;

	if (!number_at(table, 0, sizeof(uint32_t), &magic) || table->bytes.len < HEADER_BYTES || header[4] ||
	    header[5] || (header[6] != 1 && header[6] != 2 && header[6] != 4) || header[7] != table->word_bytes)
		return false;
	switch (magic) {
	case 0xfffffffb: table->version = GO_1_2; return true;
	case 0xfffffffa: table->version = GO_1_16; return true;
	case 0xfffffff0: table->version = GO_1_18; return true;
	case 0xfffffff1: table->version = GO_1_20; return true;
	default: return false;
	}
}

/* Of a place in the code, in the list and in what that refers to. */
static unsigned entry_bytes(const struct go_table *table)
{
	return table->version >= GO_1_18 ? sizeof(uint32_t) : table->word_bytes;
}

/* The list has one place more: the end of the last function. */
static bool list_fits(const struct go_table *table)
{
	const uint64_t pair = 2 * entry_bytes(table), len = table->bytes.len;

	return table->list < len && table->nr_functions <= (len - table->list) / pair &&
	       table->nr_functions * pair + entry_bytes(table) <= len - table->list;
}

bool go_table_open(struct span bytes, bool is_big, unsigned word_bytes, struct go_table *ret)
{
	struct go_table table = {.bytes = bytes, .is_big = is_big, .word_bytes = word_bytes};
	uint64_t at = HEADER_BYTES, files;

	if (!find_version(&table) || !word_at(&table, at, &table.nr_functions))
		return false;
	at += word_bytes;
	table.names_end = bytes.len;
	if (table.version == GO_1_2) { /* one table has all */
		table.list = at;
	} else {
		at += word_bytes; /* the number of files */
		if (table.version >= GO_1_18 && !word_at(&table, at, &table.text_start))
			return false;
		at += table.version >= GO_1_18 ? word_bytes : 0;
		/* Offsets: names, lists of files, files, numbers by address, functions. */
		if (!word_at(&table, at, &table.names) || !word_at(&table, at + word_bytes, &files) ||
		    !word_at(&table, at + UINT64_C(4) * word_bytes, &table.list) || table.names > bytes.len)
			return false;
		if (files >= table.names && files < bytes.len)
			table.names_end = files;
	}
	if (!table.nr_functions || !list_fits(&table))
		return false;
	*ret = table;
	return true;
}

bool go_table_function(const struct go_table *table, uint64_t number, struct go_function *ret)
{
	const unsigned bytes = entry_bytes(table);
	const uint64_t at = table->list + number * 2 * bytes;
	const uint64_t from = table->version == GO_1_2 ? 0 : table->list;
	uint64_t start, end, function, name, first;

	if (!number_at(table, at, bytes, &start) || !number_at(table, at + 2 * bytes, bytes, &end) ||
	    !number_at(table, at + bytes, bytes, &function) || start >= end || function > table->bytes.len ||
	    !number_at(table, from + function + bytes, sizeof(uint32_t), &name))
		return false;
	*ret = (struct go_function){
		.start = table->text_start + start, .end = table->text_start + end, .name = table->names_end};
	if (name < table->names_end - table->names && number_at(table, table->names + name, 1, &first) && first)
		ret->name = table->names + name;
	return ret->end > ret->start;
}

/* The ELF file. */

struct go_file {
	Elf *elf;
	unsigned machine, word_bytes;
	bool is_big;
	uint64_t *bytes_left; /* that may still be read */
};

static unsigned relative_relocation(unsigned machine)
{
	switch (machine) {
	case EM_X86_64: return R_X86_64_RELATIVE;
	case EM_AARCH64: return R_AARCH64_RELATIVE;
	case EM_PPC64: return R_PPC64_RELATIVE;
	case EM_S390: return R_390_RELATIVE;
	case EM_RISCV: return R_RISCV_RELATIVE;
	case EM_LOONGARCH: return R_LARCH_RELATIVE;
	default: return 0; /* addresses are where they belong */
	}
}

static void put_word(uint8_t *to, bool is_big, uint64_t value)
{
	for (unsigned i = 0; i < sizeof(value); i++)
		to[i] = (uint8_t)(value >> 8 * (is_big ? sizeof(value) - 1 - i : i));
}

/*
 * Addresses in a section of a position independent program, which linkers leave to relocations: those are done on a
 * copy, as if the program was loaded at address 0.
 */
static void relocate_from(const struct go_file *file, Elf_Scn *relocations, uint64_t address, uint8_t *bytes,
			  size_t len)
{
	const unsigned type = relative_relocation(file->machine);
	Elf_Data *data = elf_file_data(relocations);
	GElf_Rela relocation;

	for (int i = 0; data && gelf_getrela(data, i, &relocation); i++) {
		const uint64_t at = relocation.r_offset - address;
		if (GELF_R_TYPE(relocation.r_info) == type && relocation.r_offset >= address &&
		    len >= sizeof(uint64_t) && at <= len - sizeof(uint64_t))
			put_word(bytes + at, file->is_big, (uint64_t)relocation.r_addend);
	}
}

static bool take_bytes(const struct go_file *file, uint64_t bytes)
{
	if (bytes > *file->bytes_left)
		return false;
	*file->bytes_left -= bytes;
	return true;
}

/* The bytes of a section as they are when the program runs, on the heap. ptr NULL: none; out of memory. */
static struct span section_as_loaded(const struct go_file *file, Elf_Scn *section)
{
	Elf_Scn *relocations = NULL;
	GElf_Shdr header;

	if (!section || !gelf_getshdr(section, &header) || header.sh_type != SHT_PROGBITS ||
	    !take_bytes(file, header.sh_size))
		return (struct span){0};
	const uint64_t address = header.sh_addr;
	const Elf_Data *data = elf_file_raw_data(section);
	uint8_t *bytes = data && data->d_buf && data->d_size ? malloc(data->d_size) : NULL;
	if (!bytes)
		return (struct span){0};
	memcpy(bytes, data->d_buf, data->d_size);
	while (relative_relocation(file->machine) && (relocations = elf_nextscn(file->elf, relocations))) {
		if (!gelf_getshdr(relocations, &header) || header.sh_type != SHT_RELA || !(header.sh_flags & SHF_ALLOC))
			continue;
		if (!take_bytes(file, header.sh_size))
			break;
		relocate_from(file, relocations, address, bytes, data->d_size);
	}
	return (struct span){bytes, data->d_size};
}

/* A table that was found in a section. */
struct found_table {
	struct go_table table;
	void *bytes; /* heap; of the section */
	uint64_t address;
};

static bool find_in_section(const struct go_file *file, const char *name, bool may_be_inside, struct found_table *ret)
{
	GElf_Shdr header;
	const struct span bytes = section_as_loaded(file, elf_file_section(file->elf, name, &header));

	for (uint64_t at = 0; at < bytes.len; at += file->word_bytes) {
		const struct span rest = {(const uint8_t *)bytes.ptr + at, bytes.len - at};
		if (go_table_open(rest, file->is_big, file->word_bytes, &ret->table)) {
			ret->bytes = (void *)bytes.ptr;
			ret->address = header.sh_addr + at;
			return true;
		}
		if (!may_be_inside)
			break;
	}
	free((void *)bytes.ptr);
	return false;
}

/* .go.buildinfo: since Go 1.13; the other is not there with -ldflags=-buildid=, for builds that can be reproduced. */
static bool is_of_go(const struct go_file *file)
{
	GElf_Shdr header;

	return elf_file_section(file->elf, ".go.buildinfo", &header) ||
	       elf_file_section(file->elf, ".note.go.buildid", &header);
}

/* The last one has other data, too: linkers other than Go's put a table that has to be relocated there. */
static bool find_table(const struct go_file *file, struct found_table *ret)
{
	return find_in_section(file, ".gopclntab", false, ret) ||
	       find_in_section(file, ".data.rel.ro.gopclntab", false, ret) ||
	       (is_of_go(file) && find_in_section(file, ".data.rel.ro", true, ret));
}

/*
 * Go 1.26 and later write the start of the code only into what describes the module for the runtime: that begins with
 * the address of the table.
 */
static uint64_t text_start_of_module(const struct go_file *file, const struct found_table *found)
{
	GElf_Shdr header;
	const struct span bytes = section_as_loaded(file, elf_file_section(file->elf, ".go.module", &header));
	const struct go_table words = {
		.bytes = bytes, .is_big = found->table.is_big, .word_bytes = found->table.word_bytes};
	uint64_t address, text_start;

	if (!word_at(&words, 0, &address) || address != found->address ||
	    !word_at(&words, (uint64_t)MODULE_TEXT * words.word_bytes, &text_start))
		text_start = 0;
	free((void *)bytes.ptr);
	return text_start;
}

static bool may_be_split(unsigned machine, const struct go_table *table)
{
	const uint64_t end = table->list + table->nr_functions * 2 * entry_bytes(table);
	uint64_t bytes;

	return table->version >= GO_1_18 && (machine == EM_ARM || machine == EM_PPC64) &&
	       number_at(table, end, entry_bytes(table), &bytes) && bytes > MOST_UNSPLIT_TEXT_BYTES;
}

bool go_table_find(Elf *elf, struct go_table *ret, void **ret_loaded)
{
	uint64_t bytes_left = MOST_BYTES;
	struct found_table found;
	GElf_Ehdr header;

	if (!gelf_getehdr(elf, &header))
		return false;
	const struct go_file file = {.elf = elf,
				     .machine = header.e_machine,
				     .word_bytes = header.e_ident[EI_CLASS] == ELFCLASS64 ? 8 : 4,
				     .is_big = header.e_ident[EI_DATA] == ELFDATA2MSB,
				     .bytes_left = &bytes_left};
	if (!find_table(&file, &found))
		return false;
	AUTO_FREE void *bytes = found.bytes;
	if (found.table.version >= GO_1_18 && !found.table.text_start)
		found.table.text_start = text_start_of_module(&file, &found);
	if ((found.table.version >= GO_1_18 && !found.table.text_start) || may_be_split(file.machine, &found.table))
		return false;
	*ret = found.table;
	*ret_loaded = take_ptr(bytes);
	return true;
}
