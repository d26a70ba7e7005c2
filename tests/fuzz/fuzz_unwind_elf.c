/* SPDX-License-Identifier: MIT */
/* Any file as a mapped object: its unwind table is built or is not, in bounded time and memory, and can be used. */
#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "fuzz.h"
#include "tests/fake/fake_elf.h"
#include "unwind/calls.h"
#include "unwind/object.h"

enum { TABLE_LIMIT_BYTES = 64 << 20 };

static void check_rule(struct unwind_table *table, uint64_t address)
{
	const struct table_rule found = table_find(table, address);

	if (!found.rule || !(found.rule->flags & RULE_WIDE) != !found.wide)
		abort();
}

static void check_table(struct unwind_table *table)
{
	uint32_t last = 0;

	for (size_t p = 0; p < table->nr_parts; p++) {
		const struct table_part *part = table->parts[p];
		for (uint32_t i = 0; part && i < part->nr_rows; i++) {
			if (((p || i) && part->pcs[i] < last) || table_part_rules(part)[i] >= table->nr_rules)
				abort();
			last = part->pcs[i];
			check_rule(table, table->base + last);
		}
	}
	if (last && !(table_find(table, table->base + last).rule->flags & RULE_NO_CFI))
		abort();
}

/* Of the code at the starts of rows, and a few bytes behind. All that was asked for is read at once. */
static void check_calls(struct unwind_object *object, int fd)
{
	struct unwind_table *table = object->table;
	uint32_t place;

	for (unsigned turn = 0; turn < 2; turn++) {
		for (size_t p = 0; p < table->nr_parts; p++)
			for (uint32_t i = 0; table->parts[p] && i < table->parts[p]->nr_rows; i++) {
				uint64_t address = table->base + table->parts[p]->pcs[i];
				if ((calls_find(object, address, false, &place) == CALLED_NOT_READ && turn) ||
				    (calls_find(object, address + 8, false, &place) == CALLED_NOT_READ && turn))
					abort();
			}
		calls_read(object, fd);
	}
}

static void try_arch(const char *arch, int fd)
{
	struct unwind_tables *tables = unwind_tables_new(arch, TABLE_LIMIT_BYTES);
	struct unwind_object *object = tables ? unwind_tables_object(tables, "", 0) : NULL;

	if (object)
		unwind_object_build(object, fd, NULL);
	if (object && unwind_object_state(object) == UNWIND_OBJECT_READY && unwind_object_complete(object) != -ENOMEM) {
		check_table(object->table);
		check_calls(object, fd);
	}
	unwind_tables_free(tables);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	try_arch(size > EI_NIDENT + 4 && data[EI_NIDENT + 2] == EM_AARCH64 ? "aarch64" : "x86_64", fd);
	close(fd);
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	const uint8_t initial[] = {DW_CFA_def_cfa, number == 1 ? 31 : 7, 8, DW_CFA_offset | 16, 1};
	const uint8_t frame[] = {DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset,   16, DW_CFA_remember_state,
				 DW_CFA_advance_loc | 4, DW_CFA_def_cfa_register, 6,  DW_CFA_advance_loc | 9,
				 DW_CFA_restore_state};
	const uint8_t expression[] = {DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_deref};
	struct fake_elf elf;

	if (number > 2)
		return false;
	fake_elf_init(&elf, number == 1 ? EM_AARCH64 : EM_X86_64);
	fake_elf_cie(&elf, "zRS", initial, sizeof(initial));
	fake_elf_fde(&elf, 0x40, 0x20, frame, sizeof(frame));
	fake_elf_cie(&elf, "zR", initial, sizeof(initial));
	fake_elf_fde(&elf, 0, 0x20, frame, sizeof(frame));
	fake_elf_fde(&elf, 0x20, 0x20, expression, sizeof(expression));
	elf.bytes[FAKE_ELF_CODE + 0x43] = elf.bytes[FAKE_ELF_CODE + 0x5b] = 0xe8;
	elf.bytes[FAKE_ELF_CODE + 0x44] = 0xb8; /* to the start of the code */
	memset(elf.bytes + FAKE_ELF_CODE + 0x45, 0xff, 3);
	elf.bytes[FAKE_ELF_CODE + 0x1f] = 0xc3;
	buf_put(out, elf.bytes, number == 2 ? sizeof(elf.bytes) : elf.at + 8);
	return true;
}
