/* SPDX-License-Identifier: MIT */
/* unwind/cfi.h: each form that an entry can have, each instruction, and what is refused. */
#include <dwarf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "unwind/cfi.h"

enum { ADDRESS = 0x100000, START = 0x4000, BYTES = 0x30, RBX = 3, RBP = 6, RSP = 7, R12 = 12, RA = 16 };

#define CODE(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

struct form {
	bool debug_frame, is_64;
	uint8_t version;
	const char *letters;
	uint8_t encoding; /* with an R among the letters */
	uint8_t address_bytes, segment_bytes;
	uint8_t ra;
};

static const struct form usual = {.version = 1, .letters = "zR", .encoding = DW_EH_PE_udata8, .ra = RA};

/* The length comes when the rest is there. */
static size_t begin_entry(struct buf *out, const struct form *form)
{
	if (form->is_64)
		buf_put_u32(out, UINT32_MAX);
	size_t at = out->len;
	if (form->is_64)
		buf_put_u64(out, 0);
	else
		buf_put_u32(out, 0);
	return at;
}

static void end_entry(struct buf *out, const struct form *form, size_t at)
{
	uint64_t len = out->len - at - (form->is_64 ? 8 : 4);

	memcpy(out->data + at, &len, form->is_64 ? 8 : 4);
}

static void put_byte(struct buf *out, uint8_t byte)
{
	buf_put(out, &byte, 1);
}

/* Code is aligned to 2, stored registers to -8. */
static size_t put_cie(struct buf *out, const struct form *form, const uint8_t *code, size_t nr)
{
	size_t start = out->len, at = begin_entry(out, form);

	if (form->is_64 && form->debug_frame)
		buf_put_u64(out, UINT64_MAX);
	else
		buf_put_u32(out, form->debug_frame ? UINT32_MAX : 0);
	put_byte(out, form->version);
	buf_put(out, form->letters, strlen(form->letters) + 1);
	if (form->version == 4) {
		put_byte(out, form->address_bytes);
		put_byte(out, form->segment_bytes);
	}
	put_byte(out, 2);
	put_byte(out, 0x78);
	put_byte(out, form->ra);
	if (*form->letters == 'z') {
		AUTO_BUF struct buf data = {0};
		for (const char *letter = form->letters + 1; *letter; letter++)
			switch (*letter) {
			case 'R': put_byte(&data, form->encoding); break;
			case 'L': put_byte(&data, DW_EH_PE_udata4); break;
			case 'P':
				put_byte(&data, DW_EH_PE_pcrel | DW_EH_PE_sdata2);
				buf_put(&data, "ab", 2);
				break;
			default: break;
			}
		put_byte(out, (uint8_t)data.len);
		buf_put(out, data.data, data.len);
	}
	buf_put(out, code, nr);
	end_entry(out, form, at);
	return start;
}

/* `place`: start and size of the code as they are encoded. */
static void put_fde(struct buf *out, const struct form *form, size_t cie, struct span place, const uint8_t *code,
		    size_t nr)
{
	size_t at = begin_entry(out, form);
	uint64_t id = form->debug_frame ? cie : out->len - cie;

	buf_put(out, &id, form->is_64 && form->debug_frame ? 8 : 4);
	buf_put(out, place.ptr, place.len);
	if (*form->letters == 'z')
		put_byte(out, 0);
	buf_put(out, code, nr);
	end_entry(out, form, at);
}

static struct cfi_reader *reader_of(const struct buf *section, const struct form *form)
{
	struct cfi_reader *reader = calloc(1, sizeof(*reader));

	assert_non_null(reader);
	reader->section = (struct cfi_section){.bytes = buf_span(section),
					       .address = ADDRESS,
					       .is_eh_frame = !form->debug_frame,
					       .arch = unwind_arch_of("x86_64")};
	return reader;
}

/* The one function of a section in that form, or none. */
static bool read_one(const struct form *form, struct span place, struct cfi_fde *ret)
{
	AUTO_BUF struct buf section = {0};
	struct cfi_fde again, none;

	put_fde(&section, form, put_cie(&section, form, CODE(DW_CFA_def_cfa, RSP, 8)), place, CODE(DW_CFA_nop));
	struct cfi_reader *reader = reader_of(&section, form);
	bool found = cfi_next_fde(reader, ret);
	assert_int_equal(reader->nr_skipped, !found);
	assert_false(reader->broken);
	assert_false(found && cfi_next_fde(reader, &none));
	assert_int_equal(reader->at, section.len);
	if (found) {
		assert_true(cfi_fde_at(reader, ret->entry, &again));
		assert_memory_equal(ret, &again, sizeof(again));
		assert_int_equal(ret->nr_bytes, 1);
	}
	free(reader);
	return found;
}

static void test_encodings_of_addresses(void **state)
{
	static const struct {
		uint8_t encoding, bytes[20];
		size_t len;
	} forms[] = {
		{DW_EH_PE_absptr, {0, 0x40, 0, 0, 0, 0, 0, 0, BYTES}, 16},
		{DW_EH_PE_udata8, {0, 0x40, 0, 0, 0, 0, 0, 0, BYTES}, 16},
		{DW_EH_PE_sdata8, {0, 0x40, 0, 0, 0, 0, 0, 0, BYTES}, 16},
		{DW_EH_PE_udata4, {0, 0x40, 0, 0, BYTES}, 8},
		{DW_EH_PE_sdata4, {0, 0x40, 0, 0, BYTES}, 8},
		{DW_EH_PE_udata2, {0, 0x40, BYTES}, 4},
		{DW_EH_PE_sdata2, {0, 0x40, BYTES}, 4},
		{DW_EH_PE_uleb128, {0x80, 0x80, 1, BYTES}, 4},
		{DW_EH_PE_sleb128, {0x80, 0x80, 1, BYTES}, 4},
	};
	struct form form = usual;
	struct cfi_fde fde;

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		form.encoding = forms[i].encoding;
		assert_true(read_one(&form, (struct span){forms[i].bytes, forms[i].len}, &fde));
		assert_int_equal(fde.start, START);
		assert_int_equal(fde.end, START + BYTES);
		/* One byte less than that takes, and it cannot be read, for the augmentation's length follows. */
		assert_false(read_one(&form, (struct span){forms[i].bytes, forms[i].len - 2}, &fde));
	}
	form.encoding = 5; /* is none */
	assert_false(read_one(&form, (struct span){forms[0].bytes, 16}, &fde));
	form.encoding = DW_EH_PE_datarel | DW_EH_PE_sdata4;
	assert_false(read_one(&form, (struct span){forms[3].bytes, 8}, &fde));
}

/* Signed numbers, from where they stand. */
static void test_addresses_relative_to_their_place(void **state)
{
	static const struct {
		uint8_t encoding, bytes[16];
		size_t len;
	} forms[] = {
		{DW_EH_PE_sdata2, {0xf0, 0xff, BYTES}, 4},
		{DW_EH_PE_sdata4, {0xf0, 0xff, 0xff, 0xff, BYTES}, 8},
		{DW_EH_PE_sleb128, {0x70, BYTES}, 2},
	};
	struct form form = usual;
	struct cfi_fde fde;

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		form.encoding = DW_EH_PE_pcrel | forms[i].encoding;
		assert_true(read_one(&form, (struct span){forms[i].bytes, forms[i].len}, &fde));
		assert_int_equal(fde.start, ADDRESS + fde.entry + 8 - 16);
		assert_int_equal(fde.end, fde.start + BYTES);
	}
}

static const uint8_t place_bytes[16] = {0, 0x40, 0, 0, 0, 0, 0, 0, BYTES};
static const struct span place = {place_bytes, sizeof(place_bytes)};

static void test_versions_and_sections(void **state)
{
	static const struct {
		struct form form;
		bool is_read;
	} cases[] = {
		{{false, false, 1, "", 0, 0, 0, RA}, true},
		{{false, false, 3, "", 0, 0, 0, RA}, true},
		{{false, false, 2, "", 0, 0, 0, RA}, false},
		{{false, false, 5, "", 0, 0, 0, RA}, false},
		{{false, true, 1, "zR", DW_EH_PE_udata8, 0, 0, RA}, true},
		{{true, false, 1, "", 0, 0, 0, RA}, true},
		{{true, true, 3, "", 0, 0, 0, RA}, true},
		{{true, false, 4, "", 0, 8, 0, RA}, true},
		{{true, false, 4, "", 0, 4, 0, RA}, false},
		{{true, false, 4, "", 0, 8, 4, RA}, false},
		{{false, false, 1, "", 0, 0, 0, RBX}, false}, /* not where the return address is */
		{{false, false, 1, "zPLR", DW_EH_PE_udata8, 0, 0, RA}, true},
		{{false, false, 1, "zRSB", DW_EH_PE_udata8, 0, 0, RA}, true},
		{{false, false, 1, "eh", 0, 0, 0, RA}, false},
	};
	struct cfi_fde fde;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(read_one(&cases[i].form, place, &fde), cases[i].is_read);
		if (cases[i].is_read) {
			assert_int_equal(fde.start, START);
			assert_int_equal(fde.end, START + BYTES);
		}
	}
}

/* Its low half alone is that of a CIE. */
static void test_a_cie_behind_the_section(void **state)
{
	static const struct form form = {.debug_frame = true, .is_64 = true, .version = 3, .letters = "", .ra = RA};
	AUTO_BUF struct buf section = {0};
	struct cfi_fde fde;

	(void)state;
	size_t good = put_cie(&section, &form, CODE(DW_CFA_def_cfa, RSP, 8)), first = section.len;
	put_fde(&section, &form, good, place, CODE(DW_CFA_nop));
	put_fde(&section, &form, good + (UINT64_C(1) << 32), place, CODE(DW_CFA_nop));
	struct cfi_reader *reader = reader_of(&section, &form);
	assert_true(cfi_next_fde(reader, &fde));
	assert_int_equal(fde.entry, first);
	assert_false(cfi_next_fde(reader, &fde));
	assert_int_equal(reader->nr_skipped, 1);
	assert_false(reader->broken);
	free(reader);
}

static void test_what_is_not_understood_is_counted(void **state)
{
	AUTO_BUF struct buf section = {0};
	struct cfi_fde fde;

	(void)state;
	/* A CIE whose instructions begin a row, or break off, holds for no function. */
	size_t rows = put_cie(&section, &usual, CODE(DW_CFA_def_cfa, RSP, 8, DW_CFA_advance_loc | 1));
	size_t cut = put_cie(&section, &usual, CODE(DW_CFA_def_cfa, RSP));
	size_t good = put_cie(&section, &usual, CODE(DW_CFA_def_cfa, RSP, 8));
	put_fde(&section, &usual, rows, place, CODE(DW_CFA_nop));
	put_fde(&section, &usual, cut, place, CODE(DW_CFA_nop));
	put_fde(&section, &usual, good, (struct span){"\xff\xff\xff\xff\xff\xff\xff\xff\1\0\0\0\0\0\0\0", 16},
		CODE(DW_CFA_nop)); /* beyond all addresses */
	size_t last = section.len;
	put_fde(&section, &usual, good, place, CODE(DW_CFA_nop));
	buf_put_u32(&section, 0); /* ends it */
	put_fde(&section, &usual, good, place, CODE(DW_CFA_nop));
	struct cfi_reader *reader = reader_of(&section, &usual);
	assert_true(cfi_next_fde(reader, &fde));
	assert_int_equal(fde.entry, last);
	assert_int_equal(fde.cie, good);
	assert_int_equal(reader->nr_skipped, 3);
	assert_false(cfi_next_fde(reader, &fde));
	assert_false(reader->broken);
	free(reader);
	/* Cut within an entry it is broken there; behind one it has an end. */
	for (size_t len = last; len < last + 20; len++) {
		struct cfi_reader *of_cut = reader_of(&section, &usual);
		of_cut->section.bytes.len = len;
		assert_false(cfi_next_fde(of_cut, &fde));
		assert_int_equal(of_cut->broken, len > last);
		free(of_cut);
	}
}

/* Letters that are not known end the augmentation, of which the rest is left out; data that break off are damage. */
static void test_augmentations_that_break_off(void **state)
{
	enum { LENGTH_AT = 17, LETTERS_BYTES = 2 };
	const struct form form = {.version = 1, .letters = "zRLq", .encoding = DW_EH_PE_udata8, .ra = RA};

	(void)state;
	for (uint8_t len = 0; len <= LETTERS_BYTES; len++) {
		AUTO_BUF struct buf section = {0};
		struct cfi_fde fde;
		put_cie(&section, &form, CODE(DW_CFA_def_cfa, RSP, 8));
		assert_int_equal(section.data[LENGTH_AT], LETTERS_BYTES);
		section.data[LENGTH_AT] = len;
		memset(section.data + LENGTH_AT + 1 + len, DW_CFA_nop, (size_t)(LETTERS_BYTES - len));
		put_fde(&section, &form, 0, place, CODE(DW_CFA_nop));
		struct cfi_reader *reader = reader_of(&section, &form);
		assert_int_equal(cfi_next_fde(reader, &fde), len == LETTERS_BYTES);
		assert_int_equal(reader->nr_skipped, len != LETTERS_BYTES);
		free(reader);
	}
}

/* A CIE is read up to a size that no compiler reaches. */
static void test_long_cies(void **state)
{
	(void)state;
	for (size_t nr = CFI_CIE_MAX_BYTES - 20; nr < CFI_CIE_MAX_BYTES; nr++) {
		AUTO_BUF struct buf section = {0};
		struct cfi_fde fde;
		uint8_t code[CFI_CIE_MAX_BYTES] = {DW_CFA_def_cfa, RSP, 8}; /* and what does nothing */
		put_cie(&section, &usual, code, nr);
		size_t body = section.len - 2 * sizeof(uint32_t); /* without its length and its mark */
		put_fde(&section, &usual, 0, place, CODE(DW_CFA_nop));
		struct cfi_reader *reader = reader_of(&section, &usual);
		assert_int_equal(cfi_next_fde(reader, &fde), body <= CFI_CIE_MAX_BYTES);
		assert_int_equal(reader->nr_skipped, body > CFI_CIE_MAX_BYTES);
		free(reader);
	}
}

/* A section made to be slow: the CIEs that its entries need in turn push each other out of the cache. That ends. */
static void test_reading_of_cies_is_bounded(void **state)
{
	enum { NR = 2 * CFI_CIE_CACHE, ROUNDS = 1000 };
	AUTO_BUF struct buf section = {0};
	uint32_t entries[NR];
	struct cfi_fde fde;

	(void)state;
	for (size_t i = 0; i < NR; i++) {
		size_t cie = put_cie(&section, &usual, CODE(DW_CFA_def_cfa, RSP, 8));
		entries[i] = (uint32_t)section.len;
		put_fde(&section, &usual, cie, place, CODE(DW_CFA_nop));
	}
	struct cfi_reader *slow = reader_of(&section, &usual), *quick = reader_of(&section, &usual);
	for (size_t i = 0; i < NR; i++)
		assert_true(cfi_fde_at(slow, entries[i], &fde));
	for (size_t i = 0; i < ROUNDS * NR; i++) {
		cfi_fde_at(slow, entries[i % NR], &fde);
		assert_true(cfi_fde_at(quick, entries[0], &fde));
	}
	assert_true(slow->broken);
	assert_false(quick->broken);
	free(slow);
	free(quick);
}

struct row {
	uint64_t start, next;
	uint8_t cfa_register;
	int32_t cfa_value;
	struct cfi_register rbx, rbp;
};

/* The rows of a function with those instructions; `bad`: there are no more because they break off. */
static void expect_rows(const uint8_t *code, size_t nr_code, const struct row rows[], size_t nr, bool bad)
{
	AUTO_BUF struct buf section = {0};
	struct cfi_fde fde;
	struct cfi_run *run = calloc(1, sizeof(*run));

	put_fde(&section, &usual, put_cie(&section, &usual, CODE(DW_CFA_def_cfa, RSP, 8, DW_CFA_offset | RA, 1)), place,
		code, nr_code);
	struct cfi_reader *reader = reader_of(&section, &usual);
	assert_true(cfi_next_fde(reader, &fde));
	cfi_run_begin(run, reader, &fde);
	for (size_t i = 0; i < nr; i++) {
		assert_true(cfi_run_next(run));
		assert_int_equal(run->start, START + rows[i].start);
		assert_int_equal(run->next, START + rows[i].next);
		assert_int_equal(run->state.cfa_register, rows[i].cfa_register);
		assert_int_equal(run->state.cfa_value, rows[i].cfa_value);
		assert_int_equal(run->state.registers[RBX].how, rows[i].rbx.how);
		assert_int_equal(run->state.registers[RBX].value, rows[i].rbx.value);
		assert_int_equal(run->state.registers[RBP].how, rows[i].rbp.how);
		assert_int_equal(run->state.registers[RBP].value, rows[i].rbp.value);
		assert_int_equal(run->state.registers[RA].how, CFI_STORED);
		assert_int_equal(run->state.registers[RA].value, -8);
	}
	assert_false(cfi_run_next(run));
	assert_int_equal(run->bad, bad);
	free(reader);
	free(run);
}

#define EXPECT_ROWS(bad, code, ...)                                                                                    \
	expect_rows(code, (const struct row[]){__VA_ARGS__},                                                           \
		    sizeof((const struct row[]){__VA_ARGS__}) / sizeof(struct row), bad)
#define SAME                                                                                                           \
	{                                                                                                              \
		CFI_SAME, 0                                                                                            \
	}
#define PASS(...) __VA_ARGS__

static void test_rows(void **state)
{
	(void)state;
	EXPECT_ROWS(false, PASS(CODE(DW_CFA_nop)), {0, BYTES, RSP, 8, SAME, SAME});
	EXPECT_ROWS(false,
		    PASS(CODE(DW_CFA_advance_loc | 2, DW_CFA_def_cfa_offset, 16, DW_CFA_offset | RBP, 2,
			      DW_CFA_advance_loc1, 3, DW_CFA_def_cfa_register, RBP, DW_CFA_advance_loc2, 1, 0,
			      DW_CFA_remember_state, DW_CFA_restore | RBP, DW_CFA_def_cfa, RSP, 8, DW_CFA_advance_loc4,
			      1, 0, 0, 0, DW_CFA_restore_state)),
		    {0, 4, RSP, 8, SAME, SAME}, {4, 10, RSP, 16, SAME, {CFI_STORED, -16}},
		    {10, 12, RBP, 16, SAME, {CFI_STORED, -16}}, {12, 14, RSP, 8, SAME, SAME},
		    {14, BYTES, RBP, 16, SAME, {CFI_STORED, -16}});
	/* Where a row would begin behind the function, it ends with that. */
	EXPECT_ROWS(false, PASS(CODE(DW_CFA_advance_loc | 0x18, DW_CFA_def_cfa_offset, 16)),
		    {0, BYTES, RSP, 8, SAME, SAME});
	EXPECT_ROWS(false, PASS(CODE(DW_CFA_advance_loc | 0x19, DW_CFA_def_cfa_offset, 16)),
		    {0, BYTES, RSP, 8, SAME, SAME});
	EXPECT_ROWS(false, PASS(CODE(DW_CFA_advance_loc | 0x17, DW_CFA_def_cfa_offset, 16)),
		    {0, 0x2e, RSP, 8, SAME, SAME}, {0x2e, BYTES, RSP, 16, SAME, SAME});
	EXPECT_ROWS(false, PASS(CODE(DW_CFA_set_loc, 8, 0x40, 0, 0, 0, 0, 0, 0, DW_CFA_def_cfa_offset, 32)),
		    {0, 8, RSP, 8, SAME, SAME}, {8, BYTES, RSP, 32, SAME, SAME});
	/* Backwards: not. */
	expect_rows(CODE(DW_CFA_set_loc, 0xff, 0x3f, 0, 0, 0, 0, 0, 0), NULL, 0, true);
	EXPECT_ROWS(true, PASS(CODE(DW_CFA_advance_loc | 1, DW_CFA_restore_state)), {0, 2, RSP, 8, SAME, SAME});
	EXPECT_ROWS(true, PASS(CODE(DW_CFA_advance_loc | 1, 0x3f)), {0, 2, RSP, 8, SAME, SAME});
}

static void test_registers(void **state)
{
	static const struct {
		uint8_t code[8];
		size_t nr;
		struct cfi_register expected;
	} cases[] = {
		{{DW_CFA_offset | RBX, 3}, 2, {CFI_STORED, -24}},
		{{DW_CFA_offset_extended, RBX, 3}, 3, {CFI_STORED, -24}},
		{{DW_CFA_offset_extended_sf, RBX, 0x7e}, 3, {CFI_STORED, 16}},
		{{DW_CFA_GNU_negative_offset_extended, RBX, 2}, 3, {CFI_STORED, 16}},
		{{DW_CFA_val_offset, RBX, 3}, 3, {CFI_VALUE, -24}},
		{{DW_CFA_val_offset_sf, RBX, 0x7f}, 3, {CFI_VALUE, 8}},
		{{DW_CFA_undefined, RBX}, 2, {CFI_LOST, 0}},
		{{DW_CFA_offset | RBX, 3, DW_CFA_same_value, RBX}, 4, {CFI_SAME, 0}},
		{{DW_CFA_offset | RBX, 3, DW_CFA_restore_extended, RBX}, 4, {CFI_SAME, 0}},
		{{DW_CFA_register, RBX, R12}, 3, {CFI_REGISTER, R12}},
		{{DW_CFA_register, RBX, RA}, 3, {CFI_REGISTER, RA}},
		{{DW_CFA_register, RBX, RA + 1}, 3, {CFI_LOST, 0}}, /* of one that is not followed */
		{{DW_CFA_offset_extended, RA + 1, 3}, 3, {CFI_SAME, 0}},
		{{DW_CFA_restore_extended, RA + 1}, 2, {CFI_SAME, 0}},
		{{DW_CFA_GNU_args_size, 16}, 2, {CFI_SAME, 0}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_rows(cases[i].code, cases[i].nr,
			    &(const struct row){0, BYTES, RSP, 8, cases[i].expected, {CFI_SAME, 0}}, 1, false);
	expect_rows(CODE(DW_CFA_def_cfa_sf, RBP, 0x7e), &(const struct row){0, BYTES, RBP, 16, SAME, SAME}, 1, false);
	expect_rows(CODE(DW_CFA_def_cfa_offset_sf, 0x7c), &(const struct row){0, BYTES, RSP, 32, SAME, SAME}, 1, false);
	expect_rows(CODE(DW_CFA_def_cfa, RA + 1, 8), NULL, 0, true);
	/* Beyond what an offset holds. */
	expect_rows(CODE(DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 8), NULL, 0, true);
	expect_rows(CODE(DW_CFA_def_cfa_offset, 0xff, 0xff, 0xff, 0xff, 7),
		    &(const struct row){0, BYTES, RSP, INT32_MAX, SAME, SAME}, 1, false);
	expect_rows(CODE(DW_CFA_offset | RBX, 0x81, 0x80, 0x80, 0x80, 1), NULL, 0, true);
	expect_rows(CODE(DW_CFA_offset | RBX, 0x80, 0x80, 0x80, 0x80, 1),
		    &(const struct row){0, BYTES, RSP, 8, {CFI_STORED, INT32_MIN}, SAME}, 1, false);
	expect_rows(CODE(DW_CFA_def_cfa_expression, 1, DW_OP_lit1, DW_CFA_def_cfa_offset, 8), NULL, 0, true);
	expect_rows(CODE(DW_CFA_def_cfa_expression, 1, DW_OP_lit1, DW_CFA_def_cfa_register, RSP), NULL, 0, true);
	expect_rows(CODE(DW_CFA_def_cfa_expression, 1, DW_OP_lit1, DW_CFA_def_cfa_offset_sf, 1), NULL, 0, true);
	expect_rows(CODE(DW_CFA_def_cfa_expression, 1, DW_OP_lit1, DW_CFA_def_cfa, RSP, 8),
		    &(const struct row){0, BYTES, RSP, 8, SAME, SAME}, 1, false);
	expect_rows(CODE(DW_CFA_def_cfa_expression, 2, DW_OP_lit1), NULL, 0, true);
}

/* As many states as there is room for; not one more. */
static void test_remembered(void **state)
{
	uint8_t code[3 * CFI_REMEMBERED];

	(void)state;
	memset(code, DW_CFA_remember_state, CFI_REMEMBERED);
	memset(code + CFI_REMEMBERED, DW_CFA_restore_state, CFI_REMEMBERED);
	expect_rows(code, (size_t)2 * CFI_REMEMBERED, &(const struct row){0, BYTES, RSP, 8, SAME, SAME}, 1, false);
	memset(code, DW_CFA_remember_state, CFI_REMEMBERED + 1);
	expect_rows(code, CFI_REMEMBERED + 1, NULL, 0, true);
}

static void test_expressions(void **state)
{
	AUTO_BUF struct buf section = {0};
	struct cfi_fde fde;
	struct cfi_run *run = calloc(1, sizeof(*run));

	(void)state;
	put_fde(&section, &usual, put_cie(&section, &usual, CODE(DW_CFA_def_cfa, RSP, 8)), place,
		CODE(DW_CFA_def_cfa_expression, 2, DW_OP_breg6, 0, DW_CFA_expression, RBX, 1, DW_OP_lit1,
		     DW_CFA_val_expression, RBP, 1, DW_OP_lit2));
	struct cfi_reader *reader = reader_of(&section, &usual);
	assert_true(cfi_next_fde(reader, &fde));
	cfi_run_begin(run, reader, &fde);
	assert_true(cfi_run_next(run));
	assert_true(run->state.cfa_is_expression);
	struct span cfa = cfi_expression(&reader->section, run->state.cfa_value);
	assert_int_equal(cfa.len, 2);
	assert_memory_equal(cfa.ptr, ((const uint8_t[]){DW_OP_breg6, 0}), 2);
	assert_int_equal(run->state.registers[RBX].how, CFI_EXPRESSION);
	struct span rbx = cfi_expression(&reader->section, run->state.registers[RBX].value);
	assert_int_equal(rbx.len, 1);
	assert_int_equal(*(const uint8_t *)rbx.ptr, DW_OP_lit1);
	assert_int_equal(run->state.registers[RBP].how, CFI_VALUE_EXPRESSION);
	struct span rbp = cfi_expression(&reader->section, run->state.registers[RBP].value);
	assert_int_equal(*(const uint8_t *)rbp.ptr, DW_OP_lit2);
	assert_int_equal(cfi_expression(&reader->section, (int32_t)section.len).len, 0);
	free(reader);
	free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_encodings_of_addresses),
		cmocka_unit_test(test_addresses_relative_to_their_place),
		cmocka_unit_test(test_versions_and_sections),
		cmocka_unit_test(test_a_cie_behind_the_section),
		cmocka_unit_test(test_what_is_not_understood_is_counted),
		cmocka_unit_test(test_augmentations_that_break_off),
		cmocka_unit_test(test_long_cies),
		cmocka_unit_test(test_reading_of_cies_is_bounded),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_remembered),
		cmocka_unit_test(test_expressions),
	};

	return cmocka_run_group_tests_name("cfi", tests, NULL, NULL);
}
