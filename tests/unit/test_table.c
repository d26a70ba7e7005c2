/* SPDX-License-Identifier: MIT */
/* The table of one object: for each byte of its code the rule of the function that has it, or of code without any. */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/fake/fake_elf.h"
#include "unwind/arch.h"
#include "unwind/table.h"

enum {
	CODE = FAKE_ELF_CODE + FAKE_ELF_SHIFT, /* address of the first byte of code */
	RSP = 7,
	RA_SLOT = 0, /* the return address, in rules */
	NONE = 0,    /* CFA: code of which nothing is known */
	PLT_ENTRY = 16,
	PLT_PUSHED = 11,
};

static unsigned nr_released;

static void release(void *owned)
{
	(void)owned;
	nr_released++;
}

static struct table_source source_of(const struct fake_elf *elf, struct table_budget *budget)
{
	return (struct table_source){
		.section = {.bytes = {elf->bytes + FAKE_ELF_EH_FRAME, elf->at - FAKE_ELF_EH_FRAME},
			    .address = FAKE_ELF_EH_FRAME,
			    .is_eh_frame = true,
			    .arch = unwind_arch_of("x86_64")},
		.nr_segments = 1,
		.segments = {{.offset = FAKE_ELF_CODE, .bytes = FAKE_ELF_CODE_BYTES, .address = CODE}},
		.budget = budget,
	};
}

static void begin(struct fake_elf *elf)
{
	fake_elf_init(elf, EM_X86_64);
	fake_elf_cie(elf, "zR", "\x0c\x07\x08\x90\x01", 5); /* CFA = rsp + 8, the return address at CFA - 8 */
}

/* A function whose CFA is rsp + `cfa`. */
static void put_function(struct fake_elf *elf, uint32_t at, uint32_t bytes, uint8_t cfa)
{
	const uint8_t code[] = {0x0e /* DW_CFA_def_cfa_offset */, cfa};

	fake_elf_fde(elf, at, bytes, code, sizeof(code));
}

/* What is found at each byte of code: the CFA's distance from rsp, or NONE. */
static void expect_bytes(struct unwind_table *table, const uint8_t cfas[FAKE_ELF_CODE_BYTES])
{
	for (uint32_t i = 0; i < FAKE_ELF_CODE_BYTES; i++) {
		const struct unwind_rule *rule = table_find(table, CODE + i).rule;
		int32_t found = rule->flags & RULE_NO_CFI ? NONE : rule->cfa_offset;
		if (found != cfas[i])
			fail_msg("byte %#x: %d, not %d", i, found, cfas[i]);
		if (found) {
			assert_int_equal(rule->cfa_register, RSP);
			assert_int_equal(rule->slots[RA_SLOT], -1);
		}
	}
	assert_true(table_find(table, CODE - 1).rule->flags & RULE_NO_CFI);
	assert_true(table_find(table, CODE + FAKE_ELF_CODE_BYTES).rule->flags & RULE_NO_CFI);
	assert_true(table_find(table, UINT64_MAX).rule->flags & RULE_NO_CFI);
}

static uint32_t next_number(uint64_t *seed, uint32_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*seed >> 33) % below;
}

struct part {
	uint32_t start, end;
	uint8_t cfa;
};

/* Of those that begin at one address the first counts; each ends where the next one begins. */
static void model(const struct part *parts, size_t nr, uint8_t cfas[FAKE_ELF_CODE_BYTES])
{
	memset(cfas, NONE, FAKE_ELF_CODE_BYTES);
	for (uint32_t at = 0; at < FAKE_ELF_CODE_BYTES; at++) {
		const struct part *last = NULL; /* that begins at or before this byte */
		for (size_t i = 0; i < nr; i++)
			if (parts[i].start <= at && (!last || parts[i].start > last->start))
				last = &parts[i];
		cfas[at] = last && at < last->end ? last->cfa : NONE;
	}
}

/* Functions in any order, that overlap and leave gaps; some parts of the table are made by looking, some at once. */
static void test_functions_in_any_order(void **state)
{
	enum { ROUNDS = 40, MOST = 100 };
	uint64_t seed = 1;

	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct part parts[MOST];
		uint8_t cfas[FAKE_ELF_CODE_BYTES];
		struct unwind_table *table;
		struct fake_elf elf;
		size_t nr = 1 + next_number(&seed, MOST);
		begin(&elf);
		for (size_t i = 0; i < nr; i++) {
			uint32_t start = next_number(&seed, FAKE_ELF_CODE_BYTES - 200);
			parts[i] = (struct part){start, start + 1 + next_number(&seed, 200),
						 (uint8_t)(8 * (1 + next_number(&seed, 10)))};
			put_function(&elf, start, parts[i].end - start, parts[i].cfa);
		}
		model(parts, nr, cfas);
		struct table_source source = source_of(&elf, NULL);
		nr_released = 0;
		assert_int_equal(table_new(&source, &elf, release, &table), 0);
		if (round % 2)
			assert_int_equal(table_complete(table), 0);
		assert_int_equal(nr_released, round % 2);
		expect_bytes(table, cfas);
		expect_bytes(table, cfas);
		assert_int_equal(table_complete(table), 0);
		assert_int_equal(nr_released, 1);
		assert_int_equal(table->nr_made, table->nr_parts);
		assert_true(table->nr_rules <= 11); /* one for each CFA, and that of no code */
		table_free(table);
		assert_int_equal(nr_released, 1);
	}
}

/* However many there are: the list is looked at to its end, and not behind that. */
static void test_functions_from_the_last_to_the_first(void **state)
{
	enum { MOST = 130, BYTES = 8 };

	(void)state;
	for (uint32_t nr = 1; nr <= MOST; nr++) {
		struct fake_elf elf;
		struct unwind_table *table;
		begin(&elf);
		for (uint32_t i = nr; i-- > 0;)
			put_function(&elf, BYTES * i, BYTES, (uint8_t)(8 + i % 32));
		struct table_source source = source_of(&elf, NULL);
		assert_int_equal(table_new(&source, &elf, release, &table), 0);
		for (uint32_t i = 0; i < nr; i++)
			assert_int_equal(table_find(table, CODE + BYTES * i).rule->cfa_offset, 8 + i % 32);
		table_free(table);
	}
}

/* Entries of 16 bytes, of which the last 5 follow a push. Bytes that a function reaches into are none of them. */
static void test_code_of_linkers(void **state)
{
	(void)state;
	for (uint32_t end = 0x201; end < 0x200 + 4 * PLT_ENTRY; end++) {
		uint8_t cfas[FAKE_ELF_CODE_BYTES] = {0};
		struct unwind_table *table;
		struct fake_elf elf;
		uint32_t first = end % 3 ? 0x200 : 0x208; /* a function reaches into the first entry */
		begin(&elf);
		put_function(&elf, 0x100, first - 0x100, 32);
		put_function(&elf, 0x400, 0x10, 40);
		for (uint32_t at = 0x100; at < FAKE_ELF_CODE_BYTES; at++) {
			if (at < 0x200)
				cfas[at] = 32;
			else if (at >= first && at < end)
				cfas[at] = (at - first) % PLT_ENTRY < PLT_PUSHED ? 8 : 16;
			else if (at >= 0x400 && at < 0x410)
				cfas[at] = 40;
			else if (at >= 0x600 && at < 0x620)
				cfas[at] = 8;
		}
		struct table_source source = source_of(&elf, NULL);
		source.nr_extras = TABLE_MAX_EXTRAS; /* of which some are empty */
		source.extras[0] = (struct table_extra){CODE + 0x200, CODE + end, EXTRA_PLT};
		source.extras[TABLE_MAX_EXTRAS - 1] = (struct table_extra){CODE + 0x600, CODE + 0x620, EXTRA_STUB};
		assert_int_equal(table_new(&source, &elf, release, &table), 0);
		expect_bytes(table, cfas);
		table_free(table);
	}
}

/* Code of linkers has the rule of a function that pushes nothing: of two that say the same one is kept. */
static void test_rules_of_linkers_are_shared(void **state)
{
	struct unwind_table *table;
	struct fake_elf elf;

	(void)state;
	begin(&elf);
	put_function(&elf, 0x100, 0x10, 8);
	put_function(&elf, 0x110, 0x10, 16);
	struct table_source source = source_of(&elf, NULL);
	source.nr_extras = 1;
	source.extras[0] = (struct table_extra){CODE + 0x200, CODE + 0x210, EXTRA_PLT};
	assert_int_equal(table_new(&source, &elf, release, &table), 0);
	assert_ptr_equal(table_find(table, CODE + 0x100).rule, table_find(table, CODE + 0x200).rule);
	assert_ptr_equal(table_find(table, CODE + 0x110).rule, table_find(table, CODE + 0x20f).rule);
	assert_int_equal(table->nr_rules, 3);
	table_free(table);
}

/* As many parts as functions ask for; with the last of them the section is given back. */
static void test_parts(void **state)
{
	static const size_t numbers[] = {1, 31, 32, 33, 63, 64, 65};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct unwind_table *table;
		struct fake_elf elf;
		begin(&elf);
		for (uint32_t k = 0; k < numbers[i]; k++)
			put_function(&elf, 16 * k, 16, 24);
		struct table_source source = source_of(&elf, NULL);
		nr_released = 0;
		assert_int_equal(table_new(&source, &elf, release, &table), 0);
		for (size_t first = 0; first < numbers[i]; first += TABLE_PART_FUNCTIONS) {
			assert_int_equal(nr_released, 0);
			assert_int_equal(table_find(table, CODE + 16 * first + 3).rule->cfa_offset, 24);
		}
		assert_int_equal(nr_released, 1);
		assert_in_range(table->build_ns, 1, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
		table_free(table);
		assert_int_equal(nr_released, 1);
	}
}

/* Bytes of the file that are in no segment have no address; code that is in none is left out. */
static void test_segments(void **state)
{
	struct fake_elf elf;
	struct unwind_table *table;
	uint64_t address;

	(void)state;
	begin(&elf);
	put_function(&elf, 0x10, 0, 48);     /* has no bytes: is none */
	put_function(&elf, 0x10, 0x10, 16);  /* in the first segment */
	put_function(&elf, 0xf8, 0x10, 24);  /* goes on behind it */
	put_function(&elf, 0x200, 0x10, 32); /* in none */
	put_function(&elf, 0x3f0, 0x10, 40); /* up to the end of the second one */
	struct table_source source = source_of(&elf, NULL);
	source.nr_segments = 2;
	source.segments[0] = (struct table_segment){.offset = 0x5300, .bytes = 0x100, .address = CODE + 0x300};
	source.segments[1] = (struct table_segment){.offset = 0x1000, .bytes = 0x100, .address = CODE};
	assert_int_equal(table_new(&source, &elf, release, &table), 0);
	assert_int_equal(table->nr_functions, 2);
	static const struct {
		uint64_t offset, address; /* 0: none */
	} cases[] = {{0xfff, 0},  {0x1000, CODE},         {0x10ff, CODE + 0xff},  {0x1100, 0},
		     {0x52ff, 0}, {0x5300, CODE + 0x300}, {0x53ff, CODE + 0x3ff}, {0x5400, 0}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		address = 0;
		assert_int_equal(table_address(table, cases[i].offset, &address), !!cases[i].address);
		assert_int_equal(address, cases[i].address);
	}
	assert_int_equal(table_find(table, CODE + 0x10).rule->cfa_offset, 16);
	assert_true(table_find(table, CODE + 0xf8).rule->flags & RULE_NO_CFI);
	assert_true(table_find(table, CODE + 0x200).rule->flags & RULE_NO_CFI);
	assert_int_equal(table_find(table, CODE + 0x3ff).rule->cfa_offset, 40);
	table_free(table);
}

/* As many as there is room for: the last one counts, and nothing behind it. */
static void test_as_many_segments_as_can_be(void **state)
{
	enum { BYTES = 0x20 };
	struct fake_elf elf;
	struct unwind_table *table;
	uint64_t address = 0;

	(void)state;
	begin(&elf);
	put_function(&elf, (TABLE_MAX_SEGMENTS - 1) * BYTES, BYTES, 16); /* all of the last one */
	put_function(&elf, TABLE_MAX_SEGMENTS * BYTES, BYTES, 24);
	struct table_source source = source_of(&elf, NULL);
	source.nr_segments = TABLE_MAX_SEGMENTS;
	source.nr_extras = 1; /* stands behind them, and is in none */
	source.extras[0] = (struct table_extra){CODE + TABLE_MAX_SEGMENTS * BYTES + BYTES,
						CODE + TABLE_MAX_SEGMENTS * BYTES + 2 * BYTES, EXTRA_STUB};
	for (uint64_t i = 0; i < TABLE_MAX_SEGMENTS; i++)
		source.segments[i] = (struct table_segment){
			.offset = 0x1000 + i * BYTES, .bytes = BYTES, .address = CODE + i * BYTES};
	assert_int_equal(table_new(&source, &elf, release, &table), 0);
	assert_int_equal(table->nr_functions, 1);
	assert_true(table_address(table, 0x1000 + TABLE_MAX_SEGMENTS * BYTES - 1, &address));
	assert_int_equal(address, CODE + TABLE_MAX_SEGMENTS * BYTES - 1);
	assert_int_equal(table_find(table, address).rule->cfa_offset, 16);
	assert_false(table_address(table, 0x1000 + TABLE_MAX_SEGMENTS * BYTES, &address));
	assert_false(table_address(table, 0, &address));
	table_free(table);
}

/* Addresses are kept as distances of 32 bits from the first segment: from wherever it is, and what is farther is left
 * out. */
static void test_far_addresses(void **state)
{
	enum { BYTES = 0x20 };
	static const uint64_t high = UINT64_C(0xffffffff80000000), end = high + CODE + BYTES;
	static const struct {
		uint64_t first; /* address of a segment without code; 0: there is none */
		size_t nr_functions;
	} cases[] = {{0, 1}, {high - 1, 1}, {end - (UINT32_MAX - 1), 1}, {end - UINT32_MAX, 0}, {8, 0}};
	struct fake_elf elf;

	(void)state;
	begin(&elf);
	put_function(&elf, 0, BYTES, 16);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct table_source source = source_of(&elf, NULL);
		struct unwind_table *table;
		source.section.address += high;
		source.segments[0].address += high;
		if (cases[i].first)
			source.segments[source.nr_segments++] =
				(struct table_segment){.bytes = 1, .address = cases[i].first};
		assert_int_equal(table_new(&source, &elf, release, &table), 0);
		assert_int_equal(table->nr_functions, cases[i].nr_functions);
		const struct unwind_rule *rule = table_find(table, end - 1).rule;
		if (cases[i].nr_functions)
			assert_int_equal(rule->cfa_offset, 16);
		else
			assert_true(rule->flags & RULE_NO_CFI);
		assert_true(table_find(table, end).rule->flags & RULE_NO_CFI);
		assert_true(table_find(table, end - 1 + (UINT64_C(1) << 32)).rule->flags & RULE_NO_CFI);
		table_free(table);
	}
}

/* What is allocated for a table without wide rules; the section is there until all of its parts are made. */
static size_t allocated(const struct unwind_table *table)
{
	size_t nr_blocks = (table->nr_rules + TABLE_RULE_BLOCK - 1) / TABLE_RULE_BLOCK, pointer_bytes = 0;

	for (const struct rule_blocks *rules = table->rules; rules; rules = rules->smaller)
		pointer_bytes += sizeof(*rules) + rules->room * sizeof(rules->blocks[0]);
	return sizeof(*table) + (table->builder ? table->section_bytes : 0) +
	       table->nr_functions * sizeof(struct table_function) + table->nr_parts * sizeof(struct table_part *) +
	       table->nr_made * sizeof(struct table_part) + table->nr_rows * (sizeof(uint32_t) + sizeof(uint16_t)) +
	       nr_blocks * TABLE_RULE_BLOCK * sizeof(struct unwind_rule) + pointer_bytes;
}

/* All that a table takes is counted, and given back; one byte less than it needs is not enough. */
static void test_the_budget(void **state)
{
	struct table_budget budget = {.max = SIZE_MAX};
	struct fake_elf elf;
	struct unwind_table *table;

	(void)state;
	begin(&elf);
	for (uint32_t i = 0; i < 100; i++)
		put_function(&elf, 16 * i, 8, (uint8_t)(8 + i));
	struct table_source source = source_of(&elf, &budget);
	assert_int_equal(table_new(&source, &elf, release, &table), 0);
	size_t listed = atomic_load(&budget.bytes);
	assert_int_equal(listed, table->bytes);
	assert_int_equal(listed, allocated(table));
	size_t most = listed;
	for (uint32_t i = 0; i < 100; i++) { /* the last part gives back the section */
		assert_int_equal(table_find(table, CODE + 16 * i).rule->cfa_offset, 8 + i);
		most = atomic_load(&budget.bytes) > most ? atomic_load(&budget.bytes) : most;
		assert_int_equal(atomic_load(&budget.bytes), table->bytes);
		assert_int_equal(table->bytes, allocated(table));
	}
	assert_int_equal(table->nr_made, table->nr_parts);
	table_free(table);
	assert_int_equal(atomic_load(&budget.bytes), 0);
	budget.max = listed;
	assert_int_equal(table_new(&source, &elf, release, &table), 0);
	assert_int_equal(table_complete(table), -EBADMSG); /* there is no room for its rows */
	table_free(table);
	budget.max = listed - 1;
	nr_released = 0;
	assert_int_equal(table_new(&source, &elf, release, &table), -EFBIG);
	assert_int_equal(nr_released, 1);
	assert_int_equal(atomic_load(&budget.bytes), 0);
}

/* An expression whose length has no room in a rule is not cut short: nothing is known of that code. */
static void test_long_expressions(void **state)
{
	enum { MOST = UINT16_MAX, FUNCTION = 0x100, ENTRY_BYTES = MOST + 64 };

	(void)state;
	for (size_t len = MOST; len <= MOST + 1; len++) {
		uint8_t *code = calloc(1, ENTRY_BYTES), *section = calloc(1, FAKE_ELF_BYTES + ENTRY_BYTES);
		struct unwind_table *table;
		struct fake_elf elf;
		begin(&elf);
		put_function(&elf, 0, FUNCTION, 16);
		/* DW_CFA_def_cfa_expression, its length, and so many DW_OP_nop */
		memcpy(code,
		       (const uint8_t[]){0x0f, (uint8_t)(len | 0x80), (uint8_t)(len >> 7 | 0x80), (uint8_t)(len >> 14)},
		       4);
		memset(code + 4, 0x96, len);
		size_t at = fake_elf_fde(&elf, FUNCTION, FUNCTION, NULL, 0) - FAKE_ELF_EH_FRAME;
		size_t end = elf.at - FAKE_ELF_EH_FRAME;
		memcpy(section, elf.bytes + FAKE_ELF_EH_FRAME, end);
		end -= 3; /* of bytes that fill the entry up */
		memcpy(section + end, code, len + 4);
		end += len + 4;
		const uint32_t entry_bytes = (uint32_t)(end - at - sizeof(uint32_t));
		memcpy(section + at, &entry_bytes, sizeof(entry_bytes));
		struct table_source source = source_of(&elf, NULL);
		source.section.bytes = (struct span){section, end};
		assert_int_equal(table_new(&source, &elf, release, &table), 0);
		assert_int_equal(table_find(table, CODE).rule->cfa_offset, 16);
		struct table_rule found = table_find(table, CODE + FUNCTION);
		if (len == MOST) {
			assert_int_equal(found.rule->flags, RULE_WIDE);
			assert_true(found.wide->state.cfa_is_expression);
			struct span text = table_expression(found.wide, found.wide->state.cfa_value);
			assert_int_equal(text.len, len);
			assert_memory_equal(text.ptr, code + 4, len);
		} else {
			assert_int_equal(found.rule->flags, RULE_NO_CFI);
		}
		assert_int_equal(table_complete(table), len == MOST ? 0 : -EBADMSG);
		table_free(table);
		free(code);
		free(section);
	}
}

/* Rules have numbers of 16 bits. What has none is code of which nothing is known, and what had one keeps it. */
static void test_as_many_rules_as_have_numbers(void **state)
{
	enum { NR = TABLE_MAX_RULES + 10, ENTRY_BYTES = 28 };
	uint8_t *section = calloc(NR + 10, ENTRY_BYTES);
	struct unwind_table *table;
	struct fake_elf elf;

	(void)state;
	begin(&elf);
	size_t at = elf.at - FAKE_ELF_EH_FRAME, cie = elf.cie - FAKE_ELF_EH_FRAME;
	memcpy(section, elf.bytes + FAKE_ELF_EH_FRAME, at);
	for (uint32_t i = 0; i < NR; i++, at += ENTRY_BYTES) {
		/* length, CIE, start, bytes; no augmentation data, DW_CFA_def_cfa_offset of 4 bytes */
		const uint32_t words[] = {ENTRY_BYTES - 4, (uint32_t)(at + 4 - cie),
					  (uint32_t)(CODE + i - (FAKE_ELF_EH_FRAME + at + 8)), 1};
		const uint8_t code[] = {
			0, 0x0e, (uint8_t)(i | 0x80), (uint8_t)(i >> 7 | 0x80), (uint8_t)(i >> 14 | 0x80), 0};
		memcpy(section + at, words, sizeof(words));
		memcpy(section + at + sizeof(words), code, sizeof(code));
	}
	struct table_source source = source_of(&elf, NULL);
	source.section.bytes = (struct span){section, at};
	source.segments[0].bytes = NR;
	assert_int_equal(table_new(&source, &elf, release, &table), 0);
	assert_int_equal(table_complete(table), -EBADMSG);
	assert_int_equal(table->nr_rules, TABLE_MAX_RULES);
	for (uint32_t i = 0; i < NR; i++) {
		const struct unwind_rule *rule = table_find(table, CODE + i).rule;
		assert_int_equal(rule->flags & RULE_NO_CFI, i < TABLE_MAX_RULES - 1 ? 0 : RULE_NO_CFI);
		if (i < TABLE_MAX_RULES - 1)
			assert_int_equal(rule->cfa_offset, i);
	}
	table_free(table);
	free(section);
}

/* A hash that can be undone: as stable_hash_mix(), of which rules had one once. */
static uint64_t fold_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

/* DW_CFA_offset_extended_sf: stored at CFA + 8 * slot; DWARF counts in -8. Padded to 3 bytes of SLEB128. */
static void put_slot(uint8_t *to, uint8_t column, int16_t slot)
{
	const uint32_t value = (uint32_t) - (int32_t)slot;

	memcpy(to,
	       (const uint8_t[]){0x11, column, (uint8_t)(value | 0x80), (uint8_t)(value >> 7 | 0x80),
				 (uint8_t)(value >> 14 & 0x7f)},
	       5);
}

/*
 * Functions of a rule each: CFA = rbp + some number, and the first four slots. Where all are to collide, the slots are
 * chosen by undoing the fold of the first word. Returns the CPU time of making the table.
 */
static uint64_t time_of_rules(bool collide)
{
	enum { NR = TABLE_MAX_RULES - 1, ENTRY_BYTES = 48, RBP = 6 };
	static const uint8_t columns[] = {16, RBP, 3, 12};
	uint8_t *section = calloc(NR + 10, ENTRY_BYTES);
	struct unwind_table *table;
	struct fake_elf elf;

	assert_non_null(section);
	begin(&elf);
	size_t at = elf.at - FAKE_ELF_EH_FRAME, cie = elf.cie - FAKE_ELF_EH_FRAME;
	memcpy(section, elf.bytes + FAKE_ELF_EH_FRAME, at);
	uint32_t cfa = 0;
	for (uint32_t i = 0; i < NR; i++, at += ENTRY_BYTES) {
		const uint32_t words[] = {ENTRY_BYTES - 4, (uint32_t)(at + 4 - cie),
					  (uint32_t)(CODE + i - (FAKE_ELF_EH_FRAME + at + 8)), 1};
		int16_t slots[4];
		bool fits;
		do { /* the two lowest numbers of a slot have another meaning */
			struct unwind_rule rule = {.cfa_register = RBP, .cfa_offset = (int32_t)++cfa};
			uint64_t first;
			memcpy(&first, &rule, sizeof(first));
			const uint64_t all = collide ? fold_word(0, first) ^ 0x1234567 : 0x0001000200030004;
			memcpy(slots, &all, sizeof(slots));
			fits = true;
			for (unsigned k = 0; k < 4; k++)
				fits &= slots[k] >= SLOT_MIN;
		} while (!fits);
		uint8_t code[ENTRY_BYTES - sizeof(words)] = {0,
							     0x0c /* DW_CFA_def_cfa */,
							     RBP,
							     (uint8_t)(cfa | 0x80),
							     (uint8_t)(cfa >> 7 | 0x80),
							     (uint8_t)(cfa >> 14 | 0x80),
							     0};
		for (unsigned k = 0; k < 4; k++)
			put_slot(code + 7 + (size_t)5 * k, columns[k], slots[k]);
		memcpy(section + at, words, sizeof(words));
		memcpy(section + at + sizeof(words), code, sizeof(code));
	}
	struct table_source source = source_of(&elf, NULL);
	source.section.bytes = (struct span){section, at};
	source.segments[0].bytes = NR;
	assert_int_equal(table_new(&source, &elf, release, &table), 0);
	assert_int_equal(table_complete(table), 0);
	assert_int_equal(table->nr_rules, NR + 1);
	assert_int_equal(table_find(table, CODE + NR - 1).rule->cfa_offset, cfa);
	uint64_t ns = table->build_ns;
	table_free(table);
	free(section);
	return ns;
}

/* Rules that were chosen to have one hash take no longer than others. */
static void test_chosen_rules(void **state)
{
	(void)state;
	uint64_t usual_ns = time_of_rules(false);
	assert_true(time_of_rules(true) < usual_ns * 20);
}

/* Each row of a function that has long expressions copies and compares all of them. */
static void test_long_expressions_of_many_rows(void **state)
{
	enum { LEN = UINT16_MAX, NR_REGISTERS = 16, NR_ROWS = 1 << 16, REST = 8, REGISTER_BYTES = LEN + 5 };
	const size_t code_bytes = 1 + (size_t)NR_REGISTERS * REGISTER_BYTES + 3 * NR_ROWS + REST;
	uint8_t *section = calloc(1, FAKE_ELF_BYTES + code_bytes);
	struct unwind_table *table;
	struct fake_elf elf;

	(void)state;
	assert_non_null(section);
	begin(&elf);
	put_function(&elf, 0, 1, 16);
	size_t end = elf.at - FAKE_ELF_EH_FRAME, cie = elf.cie - FAKE_ELF_EH_FRAME;
	memcpy(section, elf.bytes + FAKE_ELF_EH_FRAME, end);
	const uint32_t words[] = {(uint32_t)(12 + code_bytes), (uint32_t)(end + 4 - cie),
				  (uint32_t)(CODE + 1 - (FAKE_ELF_EH_FRAME + end + 8)), NR_ROWS};
	memcpy(section + end, words, sizeof(words));
	uint8_t *code = section + end + sizeof(words) + 1;
	for (unsigned i = 0; i < NR_REGISTERS; i++, code += REGISTER_BYTES) { /* DW_CFA_expression of DW_OP_nop */
		memcpy(code,
		       (const uint8_t[]){0x10, (uint8_t)i, (LEN & 0x7f) | 0x80, (LEN >> 7 & 0x7f) | 0x80, LEN >> 14},
		       5);
		memset(code + 5, 0x96, LEN);
	}
	for (unsigned i = 0; i < NR_ROWS; i++, code += 3) /* DW_CFA_advance_loc, DW_CFA_def_cfa_offset */
		memcpy(code, (const uint8_t[]){0x41, 0x0e, (uint8_t)(16 + 8 * (i % 2))}, 3);
	struct table_source source = source_of(&elf, NULL);
	source.section.bytes = (struct span){section, end + sizeof(words) + code_bytes};
	source.segments[0].bytes = NR_ROWS + 1;
	assert_int_equal(table_new(&source, &elf, release, &table), 0);
	assert_int_equal(table_find(table, CODE).rule->cfa_offset, 16);
	assert_int_equal(table_find(table, CODE + 2).rule->flags, RULE_WIDE);
	assert_int_equal(table_find(table, CODE + NR_ROWS - 1).rule->flags, RULE_NO_CFI);
	assert_int_equal(table_complete(table), -EBADMSG);
	table_free(table);
	free(section);
}

/* More rows than a table may have are none, once and for all: looking up again does not make them again. */
static void test_too_many_rows(void **state)
{
	enum { FUNCTION = 0x100, PLT_BYTES = (TABLE_MAX_ROWS / 2 + 1) * PLT_ENTRY };
	struct unwind_table *table;
	struct fake_elf elf;

	(void)state;
	begin(&elf);
	for (uint32_t i = 0; i < TABLE_PART_FUNCTIONS; i++) /* a part of their own */
		put_function(&elf, FUNCTION / TABLE_PART_FUNCTIONS * i, FUNCTION / TABLE_PART_FUNCTIONS, 16);
	struct table_source source = source_of(&elf, NULL);
	source.nr_extras = 1;
	source.extras[0] = (struct table_extra){CODE + FUNCTION, CODE + FUNCTION + PLT_BYTES, EXTRA_PLT};
	source.segments[0].bytes = FUNCTION + PLT_BYTES;
	nr_released = 0;
	assert_int_equal(table_new(&source, &elf, release, &table), 0);
	assert_true(table_find(table, CODE + FUNCTION).rule->flags & RULE_NO_CFI);
	assert_int_equal(table->nr_made, 1);
	assert_true(table->bad);
	assert_int_equal(table_find(table, CODE).rule->cfa_offset, 16);
	assert_int_equal(table->nr_made, 2);
	assert_int_equal(nr_released, 1);
	assert_int_equal(table_complete(table), -EBADMSG);
	assert_int_equal(table->nr_rows, 2);
	table_free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions_in_any_order),
		cmocka_unit_test(test_functions_from_the_last_to_the_first),
		cmocka_unit_test(test_code_of_linkers),
		cmocka_unit_test(test_rules_of_linkers_are_shared),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_segments),
		cmocka_unit_test(test_as_many_segments_as_can_be),
		cmocka_unit_test(test_far_addresses),
		cmocka_unit_test(test_the_budget),
		cmocka_unit_test(test_long_expressions),
		cmocka_unit_test(test_as_many_rules_as_have_numbers),
		cmocka_unit_test(test_chosen_rules),
		cmocka_unit_test(test_long_expressions_of_many_rows),
		cmocka_unit_test(test_too_many_rows),
	};

	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
