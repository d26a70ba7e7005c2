/* SPDX-License-Identifier: MIT */
/*
 * Unwind tables of real objects, of those that this program has mapped: what libdw says at an address, the table says.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "unwind/elf_cfi.h"

enum { MOST_ADDRESSES = 30000 /* of an object */, LEAST_ROWS = 1000 /* of all objects */, RBX = 3, RSP = 7 };

struct totals {
	unsigned nr_objects, nr_compared, nr_rules, nr_expressions, nr_gaps;
};

/* Any rule in the form of a wide one. */
static struct cfi_state state_of(const struct unwind_arch *arch, const struct table_rule *found)
{
	const struct unwind_rule *rule = found->rule;
	struct cfi_state state = {.cfa_register = rule->cfa_register, .cfa_value = rule->cfa_offset};

	if (rule->flags & RULE_WIDE)
		return found->wide->state;
	for (unsigned i = 0; i < arch->nr; i++)
		state.registers[i].how = CFI_LOST;
	for (unsigned i = 0; i < arch->nr_slots; i++) {
		int16_t slot = rule->slots[i];
		state.registers[arch->slots[i]] = slot == SLOT_SAME   ? (struct cfi_register){CFI_SAME, 0}
						  : slot == SLOT_LOST ? (struct cfi_register){CFI_LOST, 0}
								      : (struct cfi_register){CFI_STORED, slot * 8};
	}
	state.registers[arch->sp] = (struct cfi_register){CFI_VALUE, 0};
	return state;
}

/* libdw's forms of the rules; see dwarf_frame_register() in <elfutils/libdw.h>. */
static struct cfi_register library_rule(Dwarf_Frame *frame, unsigned nr)
{
	Dwarf_Op room[3], *ops;
	size_t nr_ops;

	assert_int_equal(dwarf_frame_register(frame, (int)nr, room, &ops, &nr_ops), 0);
	if (!nr_ops)
		return (struct cfi_register){ops ? CFI_LOST : CFI_SAME, 0};
	if (nr_ops == 1 && ops[0].atom == DW_OP_regx)
		return (struct cfi_register){CFI_REGISTER, (int32_t)ops[0].number};
	bool from_cfa = ops[0].atom == DW_OP_call_frame_cfa;
	bool is_value = ops[nr_ops - 1].atom == DW_OP_stack_value;
	size_t nr_left = nr_ops - 1 - is_value;
	if (from_cfa && (nr_left == 0 || (nr_left == 1 && ops[1].atom == DW_OP_plus_uconst)))
		return (struct cfi_register){is_value ? CFI_VALUE : CFI_STORED, nr_left ? (int32_t)ops[1].number : 0};
	return (struct cfi_register){is_value ? CFI_VALUE_EXPRESSION : CFI_EXPRESSION, 0};
}

static void compare_address(struct unwind_table *table, Dwarf_CFI *cfi, uint64_t address, struct totals *totals)
{
	const struct table_rule found = table_find(table, address);
	const struct unwind_rule *rule = found.rule;
	struct cfi_state state = state_of(table->arch, &found);
	Dwarf_Frame *frame;
	Dwarf_Op *ops;
	size_t nr_ops;
	bool is_signal;

	totals->nr_compared++;
	if (dwarf_cfi_addrframe(cfi, address, &frame)) {
		totals->nr_gaps++;
		assert_true(rule->flags & RULE_NO_CFI);
		return;
	}
	assert_false(rule->flags & RULE_NO_CFI);
	assert_int_equal(dwarf_frame_info(frame, NULL, NULL, &is_signal), table->arch->ra);
	assert_int_equal(is_signal, !!(rule->flags & RULE_SIGNAL));
	assert_int_equal(dwarf_frame_cfa(frame, &ops, &nr_ops), 0);
	if (nr_ops == 1 && ops[0].atom == DW_OP_bregx) {
		assert_false(state.cfa_is_expression);
		assert_int_equal(state.cfa_register, ops[0].number);
		assert_int_equal(state.cfa_value, ops[0].number2);
	} else {
		assert_true(state.cfa_is_expression);
		assert_true(table_expression(found.wide, state.cfa_value).len >= nr_ops);
		totals->nr_expressions++;
	}
	for (unsigned i = 0; i < table->arch->nr; i++) {
		struct cfi_register theirs = library_rule(frame, i);
		/*
		 * Registers that calls destroy: libdw says either, and nothing depends on it. And rbx, which functions
		 * keep (psABI, 3.2.1): libdw 0.188 believes that of rax instead.
		 */
		bool either = theirs.how <= CFI_LOST && state.registers[i].how <= CFI_LOST &&
			      (i == RBX || state.registers[i].how == CFI_LOST);
		/* What was popped has its value: libdw says where it was stored, which is below the stack pointer. */
		if (theirs.how == CFI_STORED && state.registers[i].how == CFI_SAME) {
			assert_false(state.cfa_is_expression);
			assert_int_equal(state.cfa_register, RSP);
			assert_true(theirs.value < -state.cfa_value);
			continue;
		}
		if (!either)
			assert_int_equal(state.registers[i].how, theirs.how);
		if (theirs.how >= CFI_STORED && theirs.how <= CFI_REGISTER)
			assert_int_equal(state.registers[i].value, theirs.value);
	}
	free(frame);
}

/* What is told of entries one after another is what is told of each alone; the former has a faster way for most. */
static void compare_entries(const struct cfi_section *section)
{
	struct cfi_reader *next = calloc(1, sizeof(*next)), *alone = calloc(1, sizeof(*alone));
	struct cfi_fde fde, same;

	assert_true(next && alone);
	next->section = alone->section = *section;
	while (cfi_next_fde(next, &fde)) {
		assert_true(cfi_fde_at(alone, fde.entry, &same));
		assert_memory_equal(&fde, &same, sizeof(fde));
	}
	free(next);
	free(alone);
}

static void release_elf(void *owned)
{
	elf_cfi_close(owned);
}

/* Where each row begins and ends, and in between; of many rows some. */
static void compare_object(const char *path, struct totals *totals)
{
	struct elf_cfi elf = {.source.section.arch = unwind_arch_of("x86_64")};
	struct unwind_table *table;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	int err = elf_cfi_open(fd, &elf, NULL);
	Elf *image = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	Dwarf_CFI *cfi = err ? NULL : dwarf_getcfi_elf(image);
	if (cfi) {
		elf.source.nr_extras = 0; /* libdw does not know of them, and has .debug_frame elsewhere */
		elf.source.more.bytes.len = 0;
		compare_entries(&elf.source.section);
		assert_int_equal(table_new(&elf.source, &elf, release_elf, &table), 0);
		assert_int_equal(table->nr_rows, 0);
		assert_int_equal(table_complete(table), 0);
		assert_null(elf.owned); /* all is made: the section is not needed any more */
		size_t step = 1 + table->nr_rows / (MOST_ADDRESSES / 3), nr = 0;
		for (size_t p = 0; p < table->nr_parts; p++) {
			const struct table_part *part = table->parts[p];
			for (uint32_t i = 0; i + 1 < part->nr_rows; i++) {
				uint64_t address = table->base + part->pcs[i], next = table->base + part->pcs[i + 1];
				if (nr++ % step)
					continue;
				compare_address(table, cfi, address, totals);
				compare_address(table, cfi, address + (next - address) / 2, totals);
				compare_address(table, cfi, next - 1, totals);
			}
		}
		totals->nr_objects++;
		totals->nr_rules += table->nr_rules;
		assert_true(table->bytes <= 9ull * table->nr_rows + 40ull * table->nr_rules + 600ull * table->nr_wides +
						    3 * TABLE_RULE_BLOCK * sizeof(struct unwind_rule) + sizeof(*table));
		assert_true(table->nr_wides < 10 + table->nr_rules / 4); /* they take longer */
		table_free(table);
		dwarf_cfi_end(cfi);
	} else {
		elf_cfi_close(&elf);
	}
	elf_end(image);
	close(fd);
}

static void test_as_libdw(void **state)
{
	struct totals totals = {0};
	FILE *file = fopen("/proc/self/maps", "re");
	char line[4096 + 128], mode[8], path[4096], last[4096] = "";

	(void)state;
	assert_non_null(file);
	elf_version(EV_CURRENT);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%*x-%*x %7s %*x %*s %*s %4095s", mode, path) != 2 || mode[2] != 'x' ||
		    path[0] != '/' || !strcmp(path, last))
			continue;
		strcpy(last, path);
		compare_object(path, &totals);
	}
	fclose(file);
	assert_true(totals.nr_objects > 2);
	assert_true(totals.nr_compared > 3 * LEAST_ROWS && totals.nr_expressions && totals.nr_gaps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
		cmocka_unit_test(test_as_libdw),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
