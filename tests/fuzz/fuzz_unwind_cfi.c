/* SPDX-License-Identifier: MIT */
/*
 * Any call frame information, registers and stack: chains end, and their frames lie above each other. Input: the
 * registers and the stack, then the section.
 */
#include <dwarf.h>
#include <elf.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "fuzz.h"
#include "tests/fake/fake_elf.h"
#include "unwind/object.h"

enum {
	NR_REGS = 17,
	NR_WORDS = 24,
	HEAD_BYTES = (NR_REGS + NR_WORDS) * 8,
	SAMPLED_MASK = 0xff01ff, /* of x86_64, all but segments */
	SP = 7,
	IP = 8,
	CODE = 0x400000, /* where the code is mapped, and its p_vaddr */
	CODE_BYTES = 0x1000,
	STACK = 0x7fff0000,
	MAX_FRAMES = 64,
};

struct fixture {
	struct unwind_object *object;
	uint64_t words[NR_REGS + NR_WORDS];
};

static struct unwind_object *find(void *ctx, uint64_t pc, uint64_t *ret_offset)
{
	struct fixture *fixture = ctx;

	*ret_offset = pc - CODE;
	return pc - CODE < CODE_BYTES ? fixture->object : NULL;
}

static void unwind_at(struct unwind_cache *cache, struct fixture *fixture, uint64_t pc)
{
	const struct unwind_space space = {.find = find, .ctx = fixture, .generation = 1};
	const struct sample_regs regs = {PERF_SAMPLE_REGS_ABI_64, SAMPLED_MASK, fixture->words};
	/* Frame pointers may lead further than the copied stack. */
	const uint64_t recorded[] = {CODE, fixture->words[NR_REGS + 1], CODE + 8, CODE + 16};
	uint64_t ips[MAX_FRAMES], cfas[MAX_FRAMES];
	struct unwind_chain chain = {
		.ips = ips, .cfas = cfas, .max = MAX_FRAMES, .recorded = recorded, .nr_recorded = 4};

	fixture->words[IP] = pc;
	unwind_chain(cache, &space, &regs, (struct span){fixture->words + NR_REGS, NR_WORDS * 8}, &chain);
	if (!chain.nr || chain.nr > MAX_FRAMES || chain.end == UNWIND_NOT_READY || chain.end == UNWIND_NO_REGISTERS)
		abort();
	for (unsigned k = 1; k < chain.nr; k++)
		if (cfas[k] && cfas[k] - STACK < NR_WORDS * 8 && cfas[k] < cfas[k - 1] &&
		    cfas[k - 1] - STACK < NR_WORDS * 8)
			abort();
}

/* From each row of the table, with the same registers. */
static void unwind_all(struct unwind_tables *tables, struct fixture *fixture)
{
	const struct unwind_table *table = fixture->object->table;
	struct unwind_cache *cache = unwind_cache_new(tables);
	unsigned nr = 0;

	fixture->words[SP] = STACK + fixture->words[SP] % 16;
	for (size_t p = 0; cache && p < table->nr_parts; p++)
		for (uint32_t i = 0; table->parts[p] && i < table->parts[p]->nr_rows && nr++ < 64; i++)
			unwind_at(cache, fixture, CODE + table->parts[p]->pcs[i]);
	unwind_cache_free(cache);
}

/* What is told of entries one after another is what is told of each alone; the former has a faster way for most. */
static void check_entries(const struct cfi_section *section)
{
	struct cfi_reader *next = calloc(1, sizeof(*next)), *alone = calloc(1, sizeof(*alone));
	struct cfi_fde fde, same;

	if (next && alone) {
		next->section = alone->section = *section;
		while (cfi_next_fde(next, &fde))
			if (!cfi_fde_at(alone, fde.entry, &same) || memcmp(&fde, &same, sizeof(fde)))
				abort();
	}
	free(next);
	free(alone);
}

static void release_nothing(void *owned)
{
	(void)owned;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct table_source source = {
		.section = {.address = CODE + CODE_BYTES, .is_eh_frame = true, .arch = unwind_arch_of("x86_64")},
		.nr_segments = 1,
		.segments = {{0, CODE_BYTES, CODE}},
		.nr_extras = 1,
		.extras = {{CODE + 0x800, CODE + 0x845, EXTRA_PLT}},
	};
	struct unwind_tables *tables = unwind_tables_new("x86_64", 64 << 20);
	struct fixture fixture;
	struct unwind_table *table;

	if (!tables || size < HEAD_BYTES || !(fixture.object = unwind_tables_object(tables, "", 0))) {
		unwind_tables_free(tables);
		return 0;
	}
	memcpy(fixture.words, data, HEAD_BYTES);
	source.section.bytes = (struct span){data + HEAD_BYTES, size - HEAD_BYTES};
	check_entries(&source.section);
	int err = table_new(&source, &source, release_nothing, &table);
	if (!err || err == -EBADMSG) {
		table_complete(table);
		fixture.object->table = table;
		fixture.object->state = UNWIND_OBJECT_READY;
		unwind_all(tables, &fixture);
		table_free(table);
	}
	unwind_tables_free(tables);
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	const uint8_t initial[] = {DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1};
	const uint8_t frame[] = {DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset,   16, DW_CFA_offset | 6, 2,
				 DW_CFA_advance_loc | 4, DW_CFA_def_cfa_register, 6};
	const uint8_t plt[] = {DW_CFA_def_cfa_expression,
			       11,
			       DW_OP_breg7,
			       8,
			       DW_OP_breg16,
			       0,
			       DW_OP_lit15,
			       DW_OP_and,
			       DW_OP_lit11,
			       DW_OP_ge,
			       DW_OP_lit3,
			       DW_OP_shl,
			       DW_OP_plus};
	const uint8_t signal[] = {DW_CFA_def_cfa_expression, 3,  DW_OP_breg7, 16,          DW_OP_deref,
				  DW_CFA_expression,         16, 2,           DW_OP_breg7, 8};
	struct fake_elf elf;

	if (number)
		return false;
	for (unsigned i = 0; i < NR_REGS; i++)
		buf_put_u64(out, STACK + 16);
	for (unsigned i = 0; i < NR_WORDS; i++)
		buf_put_u64(out, i % 2 ? CODE + 0x10 * i : STACK + 8 * i + 16);
	fake_elf_init(&elf, EM_X86_64);
	/* Addresses are relative, and the section is right behind the code here. */
	const uint32_t code = (uint32_t)(FAKE_ELF_EH_FRAME - CODE_BYTES - FAKE_ELF_CODE - FAKE_ELF_SHIFT);
	fake_elf_cie(&elf, "zR", initial, sizeof(initial));
	fake_elf_fde(&elf, code, 0x80, frame, sizeof(frame));
	fake_elf_fde(&elf, code + 0x80, 0x40, plt, sizeof(plt));
	fake_elf_cie(&elf, "zRS", initial, sizeof(initial));
	fake_elf_fde(&elf, code + 0x100, 0x40, signal, sizeof(signal));
	buf_put(out, elf.bytes + FAKE_ELF_EH_FRAME, elf.at - FAKE_ELF_EH_FRAME);
	return true;
}
