/* SPDX-License-Identifier: MIT */
#include "unwind/frame_pointers.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "unwind/arch.h"
#include "unwind/elf_cfi.h"

enum {
	MOST_LOOKS = 256,
	LEAST_LOOKS = 8,  /* fewer functions say nothing */
	LEAST_BYTES = 32, /* of a function: shorter ones may do without in any case */
};

/* At a few places: its beginning, and what it does before it returns, are the same with and without. */
static bool function_keeps(struct unwind_table *table, uint64_t start, uint64_t end)
{
	for (unsigned quarter = 1; quarter < 4; quarter++) {
		const struct unwind_rule *rule = table_find(table, start + (end - start) / 4 * quarter).rule;
		if (!rule->flags && rule->cfa_register == table->arch->fp)
			return true;
	}
	return false;
}

static int look(struct unwind_table *table)
{
	const size_t step = table->nr_functions / MOST_LOOKS + 1;
	size_t nr = 0, nr_kept = 0;

	for (size_t i = 0; i < table->nr_functions; i += step) {
		uint64_t start, end;
		if (!table_function_at(table, table->base + table->functions[i].start, &start, &end) ||
		    end - start < LEAST_BYTES)
			continue;
		nr++;
		nr_kept += function_keeps(table, start, end);
	}
	return nr < LEAST_LOOKS ? -ENOENT : 2 * nr_kept > nr;
}

int frame_pointers_kept(int fd)
{
	const struct unwind_arch *arch = unwind_arch_of(NULL);
	struct elf_cfi elf = {.source = {.section = {.arch = arch}}};
	struct unwind_table *table = NULL;

	if (!arch)
		return -ENOEXEC;
	if (arch->has_signal_record)
		return 1; /* the ABI asks for frame records: AAPCS64, 6.4.6 */
	int err = elf_cfi_open(fd, &elf, NULL);
	if (!err && elf.source.keeps_fp)
		err = 1;
	if (!err)
		err = table_new(&elf.source, take_ptr(elf.owned), elf_cfi_release, &table);
	if (table) {
		err = look(table);
		table_free(table);
	}
	elf_cfi_close(&elf);
	return err;
}
