/* SPDX-License-Identifier: MIT */
/* Any file as a mapped object: its unwind table is built or is not, in bounded time and memory, and can be used. */
#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "fuzz.h"
#include "tests/fake/fake_elf.h"
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

static void try_arch(const char *arch, int fd)
{
	struct unwind_tables *tables = unwind_tables_new(arch, TABLE_LIMIT_BYTES);
	struct unwind_object *object = tables ? unwind_tables_object(tables, "", 0) : NULL;

	if (object)
		unwind_object_build(object, fd, NULL);
	if (object && unwind_object_state(object) == UNWIND_OBJECT_READY && unwind_object_complete(object) != -ENOMEM)
		check_table(object->table);
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
	const uint8_t initial[] = {DW_CFA_def_cfa, number ? 31 : 7, 8, DW_CFA_offset | 16, 1};
	const uint8_t frame[] = {DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset,   16, DW_CFA_remember_state,
				 DW_CFA_advance_loc | 4, DW_CFA_def_cfa_register, 6,  DW_CFA_advance_loc | 9,
				 DW_CFA_restore_state};
	const uint8_t expression[] = {DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_deref};
	struct fake_elf elf;

	if (number > 1)
		return false;
	fake_elf_init(&elf, number ? EM_AARCH64 : EM_X86_64);
	fake_elf_cie(&elf, "zRS", initial, sizeof(initial));
	fake_elf_fde(&elf, 0x40, 0x20, frame, sizeof(frame));
	fake_elf_cie(&elf, "zR", initial, sizeof(initial));
	fake_elf_fde(&elf, 0, 0x20, frame, sizeof(frame));
	fake_elf_fde(&elf, 0x20, 0x20, expression, sizeof(expression));
	buf_put(out, elf.bytes, elf.at + 8);
	return true;
}
