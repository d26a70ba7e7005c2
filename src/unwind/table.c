/* SPDX-License-Identifier: MIT */
#include "unwind/table.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash_table.h"

enum {
	NO_CFI = 0 /* the first rule */,
	FIRST_ROWS = 1024,
	RULE_BUCKETS = 4096 /* a power of two */,
	MOST_EXPRESSION_BYTES = 16 << 20
};

/* A function whose rows are to be made: of the section, or extra. */
struct range {
	uint32_t start, end; /* relative to the base */
	uint32_t cie, at, nr_bytes;
	uint32_t order; /* in the section; extra ones behind */
};

struct builder {
	const struct table_source *source;
	struct unwind_table *table;
	struct cfi_reader reader;
	struct cfi_run run;
	struct range *ranges;
	size_t nr_ranges, room_ranges;
	uint32_t room_rows, room_rules;
	struct buf wide, expressions;
	struct hash_table rules, wides, texts; /* hash -> index + 1 */
	uint16_t recent[RULE_BUCKETS];         /* the last rule that was found with a hash, to be compared */
	bool bad;                              /* something is left out */
};

/* ---- distinct rules ---- */

/* An expression of the section, in the table. -1: out of memory, or too long. */
static int32_t keep_expression(struct builder *b, int32_t value)
{
	struct span text = cfi_expression(&b->source->section, value);

	if (text.len > UINT16_MAX || b->expressions.len > MOST_EXPRESSION_BYTES)
		return -1;
	uint64_t hash = hash_bytes(text.ptr, text.len);
	for (struct hash_slot *slot = hash_table_find(&b->texts, hash); slot; slot = hash_table_next(&b->texts, slot)) {
		const uint8_t *kept = b->expressions.data + slot->number - 1;
		uint16_t len;
		memcpy(&len, kept, sizeof(len));
		if (len == text.len && !memcmp(kept + sizeof(len), text.ptr, text.len))
			return (int32_t)slot->number - 1;
	}
	size_t at = b->expressions.len;
	buf_put_u16(&b->expressions, (uint16_t)text.len);
	buf_put(&b->expressions, text.ptr, text.len);
	return hash_table_add_number(&b->texts, hash, at + 1) || b->expressions.failed ? -1 : (int32_t)at;
}

/* -1: out of memory, or too many. */
static int keep_wide(struct builder *b, const struct cfi_state *state)
{
	const struct unwind_arch *arch = b->source->section.arch;
	struct wide_rule wide;
	int32_t value;

	memset(&wide, 0, sizeof(wide)); /* padding, too: they are compared as bytes */
	wide.state.cfa_is_expression = state->cfa_is_expression;
	wide.state.cfa_register = state->cfa_register;
	wide.state.cfa_value = state->cfa_value;
	if (state->cfa_is_expression && (wide.state.cfa_value = keep_expression(b, state->cfa_value)) < 0)
		return -1;
	for (unsigned i = 0; i < arch->nr; i++) {
		const struct cfi_register *from = &state->registers[i];
		value = from->value;
		if ((from->how == CFI_EXPRESSION || from->how == CFI_VALUE_EXPRESSION) &&
		    (value = keep_expression(b, value)) < 0)
			return -1;
		wide.state.registers[i].how = from->how;
		wide.state.registers[i].value = value;
	}
	uint64_t hash = hash_bytes(&wide, sizeof(wide));
	for (struct hash_slot *slot = hash_table_find(&b->wides, hash); slot; slot = hash_table_next(&b->wides, slot))
		if (!memcmp(b->wide.data + (slot->number - 1) * sizeof(wide), &wide, sizeof(wide)))
			return (int)slot->number - 1;
	size_t nr = b->wide.len / sizeof(wide);
	buf_put(&b->wide, &wide, sizeof(wide));
	return nr >= TABLE_MAX_RULES || hash_table_add_number(&b->wides, hash, nr + 1) || b->wide.failed ? -1 : (int)nr;
}

/* The index; NO_CFI also for out of memory and too many. */
static uint16_t keep_rule(struct builder *b, const struct unwind_rule *rule)
{
	struct unwind_table *table = b->table;
	uint64_t words[sizeof(*rule) / sizeof(uint64_t)], hash = 0;

	memcpy(words, rule, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		hash = hash_mix(hash, words[i]);
	uint16_t *recent = &b->recent[hash % RULE_BUCKETS];
	if (!memcmp(&table->rules[*recent], rule, sizeof(*rule)))
		return *recent;
	for (struct hash_slot *slot = hash_table_find(&b->rules, hash); slot; slot = hash_table_next(&b->rules, slot))
		if (!memcmp(&table->rules[slot->number - 1], rule, sizeof(*rule)))
			return *recent = (uint16_t)(slot->number - 1);
	if (table->nr_rules == b->room_rules) {
		uint32_t room = b->room_rules * 2;
		struct unwind_rule *rules = reallocarray(table->rules, room, sizeof(*rules));
		if (!rules)
			goto lost;
		table->rules = rules;
		b->room_rules = room;
	}
	if (table->nr_rules >= TABLE_MAX_RULES || hash_table_add_number(&b->rules, hash, table->nr_rules + 1))
		goto lost;
	table->rules[table->nr_rules] = *rule;
	return *recent = (uint16_t)table->nr_rules++;
lost:
	b->bad = true;
	return NO_CFI;
}

/* The slots of a rule. false: they cannot say it all. */
static bool fill_slots(const struct unwind_arch *arch, const struct cfi_state *state, struct unwind_rule *rule)
{
	const struct cfi_register *sp = &state->registers[arch->sp];
	uint64_t left = (UINT64_C(1) << arch->nr) - 1;

	if (state->cfa_is_expression || sp->how != CFI_VALUE || sp->value)
		return false;
	left &= ~(UINT64_C(1) << arch->sp);
	for (unsigned i = 0; i < arch->nr_slots; i++) {
		const struct cfi_register *reg = &state->registers[arch->slots[i]];
		int32_t words = reg->value / 8;
		left &= ~(UINT64_C(1) << arch->slots[i]);
		if (reg->how == CFI_SAME)
			rule->slots[i] = SLOT_SAME;
		else if (reg->how == CFI_LOST)
			rule->slots[i] = SLOT_LOST;
		else if (reg->how == CFI_STORED && words * 8 == reg->value && words >= SLOT_MIN && words <= INT16_MAX)
			rule->slots[i] = (int16_t)words;
		else
			return false;
	}
	for (; left; left &= left - 1)
		if (state->registers[__builtin_ctzll(left)].how != CFI_LOST)
			return false;
	return true;
}

static uint16_t rule_of_state(struct builder *b, const struct cfi_state *state, bool is_signal)
{
	const struct unwind_arch *arch = b->source->section.arch;
	struct unwind_rule rule;

	if (state->cfa_register == UINT8_MAX)
		return NO_CFI;
	memset(&rule, 0, sizeof(rule));
	rule.cfa_register = state->cfa_register;
	rule.cfa_offset = state->cfa_value;
	if (!fill_slots(arch, state, &rule)) {
		int wide = keep_wide(b, state);
		if (wide < 0) {
			b->bad = true;
			return NO_CFI;
		}
		memset(&rule, 0, sizeof(rule));
		rule.flags = RULE_WIDE;
		rule.wide = (uint16_t)wide;
	}
	rule.flags |= is_signal ? RULE_SIGNAL : 0;
	return keep_rule(b, &rule);
}

/* ---- rows ---- */

/* From `pc` on that rule holds. false: out of memory, or too many rows. */
static bool put_row(struct builder *b, uint32_t pc, uint16_t rule)
{
	struct unwind_table *table = b->table;

	if (table->nr_rows && table->pcs[table->nr_rows - 1] == pc)
		table->nr_rows--; /* a row of no bytes */
	if ((table->nr_rows ? table->row_rules[table->nr_rows - 1] : NO_CFI) == rule)
		return true;
	if (table->nr_rows == b->room_rows) {
		uint32_t room = b->room_rows ? b->room_rows * 2 : FIRST_ROWS;
		uint32_t *pcs = room <= TABLE_MAX_ROWS ? reallocarray(table->pcs, room, sizeof(*pcs)) : NULL;
		if (pcs)
			table->pcs = pcs;
		uint16_t *rules = pcs ? reallocarray(table->row_rules, room, sizeof(*rules)) : NULL;
		if (!rules)
			return false;
		table->row_rules = rules;
		b->room_rows = room;
	}
	table->pcs[table->nr_rows] = pc;
	table->row_rules[table->nr_rows++] = rule;
	return true;
}

/* Of a range of the section, of which only what is before `end` counts. */
static bool put_function(struct builder *b, const struct range *range, uint32_t end)
{
	struct cfi_fde fde = {.cie = range->cie, .at = range->at, .nr_bytes = range->nr_bytes};

	fde.start = b->table->base + range->start;
	fde.end = b->table->base + end;
	cfi_run_begin(&b->run, &b->reader, &fde);
	while (cfi_run_next(&b->run)) {
		uint16_t rule = rule_of_state(b, &b->run.state, b->run.cie->is_signal);
		if (!put_row(b, (uint32_t)(b->run.start - b->table->base), rule))
			return false;
	}
	if (!b->run.bad)
		return put_row(b, end, NO_CFI);
	b->bad = true;
	return put_row(b, (uint32_t)(b->run.start - b->table->base), NO_CFI);
}

/* The return address is where the call left it; above it is what a PLT entry has pushed in its last bytes. */
static bool put_extra(struct builder *b, const struct range *range, uint32_t end)
{
	enum { PLT_ENTRY_BYTES = 16, PLT_PUSHED_AT = 11 };
	const struct unwind_arch *arch = b->source->section.arch;
	struct unwind_rule stub = {.cfa_register = arch->sp, .cfa_offset = arch->call_bytes};
	bool is_plt = b->source->extras[range->at].kind == EXTRA_PLT && arch->call_bytes;

	for (unsigned i = 0; i < arch->nr_slots; i++)
		stub.slots[i] = SLOT_SAME;
	if (arch->call_bytes)
		stub.slots[0] = -1;
	struct unwind_rule pushed = stub;
	pushed.cfa_offset += 8;
	uint16_t rules[] = {keep_rule(b, &stub), keep_rule(b, &pushed)};
	for (uint32_t at = range->start; at < end && is_plt; at += PLT_ENTRY_BYTES)
		if (!put_row(b, at, rules[0]) ||
		    (end - at > PLT_PUSHED_AT && !put_row(b, at + PLT_PUSHED_AT, rules[1])) ||
		    end - at <= PLT_ENTRY_BYTES)
			return put_row(b, end, NO_CFI);
	return put_row(b, range->start, rules[0]) && put_row(b, end, NO_CFI);
}

static int compare_ranges(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* Of functions that overlap, which linkers do not make, each holds until the next begins. */
static bool put_rows(struct builder *b)
{
	uint32_t covered = 0; /* by functions of the section */

	for (size_t i = 0; i < b->nr_ranges; i++) {
		struct range *range = &b->ranges[i];
		size_t next = i + 1;
		uint32_t end = range->end;
		bool is_extra = range->cie == UINT32_MAX;
		while (next < b->nr_ranges && b->ranges[next].start == range->start)
			next++; /* the first of those that begin at the same address counts */
		if (next < b->nr_ranges && b->ranges[next].start < end)
			end = b->ranges[next].start;
		i = next - 1;
		if (is_extra) {
			range->start = range->start > covered ? range->start : covered;
			if (range->start < end && !put_extra(b, range, end))
				return false;
		} else if (!put_function(b, range, end)) {
			return false;
		}
		covered = is_extra ? covered : end;
	}
	return true;
}

/* ---- ranges ---- */

static bool in_segments(const struct table_source *source, uint64_t start, uint64_t end)
{
	for (unsigned i = 0; i < source->nr_segments; i++) {
		const struct table_segment *segment = &source->segments[i];
		if (start >= segment->address && end - segment->address <= segment->bytes)
			return true;
	}
	return false;
}

/* false: out of memory. Code that is not in the file's segments is left out. */
static bool put_range(struct builder *b, uint64_t start, uint64_t end, struct range range)
{
	if (start >= end || !in_segments(b->source, start, end) || end - b->table->base > UINT32_MAX)
		return true;
	if (b->nr_ranges == TABLE_MAX_FUNCTIONS) {
		b->bad = true;
		return true;
	}
	if (b->nr_ranges == b->room_ranges) {
		size_t room = b->room_ranges ? b->room_ranges * 2 : FIRST_ROWS;
		struct range *ranges = reallocarray(b->ranges, room, sizeof(*ranges));
		if (!ranges)
			return false;
		b->ranges = ranges;
		b->room_ranges = room;
	}
	range.start = (uint32_t)(start - b->table->base);
	range.end = (uint32_t)(end - b->table->base);
	range.order = (uint32_t)b->nr_ranges;
	b->ranges[b->nr_ranges++] = range;
	return true;
}

static bool put_ranges(struct builder *b)
{
	bool sorted = true;
	struct cfi_fde fde;

	while (cfi_next_fde(&b->reader, &fde))
		if (!put_range(b, fde.start, fde.end,
			       (struct range){.cie = fde.cie, .at = fde.at, .nr_bytes = fde.nr_bytes}))
			return false;
	for (unsigned i = 0; i < b->source->nr_extras; i++)
		if (!put_range(b, b->source->extras[i].start, b->source->extras[i].end,
			       (struct range){.cie = UINT32_MAX, .at = i}))
			return false;
	for (size_t i = 1; i < b->nr_ranges && sorted; i++)
		sorted = b->ranges[i - 1].start <= b->ranges[i].start;
	if (!sorted)
		qsort(b->ranges, b->nr_ranges, sizeof(*b->ranges), compare_ranges);
	return true;
}

/* ---- table ---- */

void table_free(struct unwind_table *table)
{
	if (!table)
		return;
	free(table->pcs);
	free(table->row_rules);
	free(table->rules);
	free(table->wide);
	free(table->expressions);
	free(table);
}

static void *shrunk(void *ptr, size_t bytes)
{
	void *smaller = bytes ? realloc(ptr, bytes) : NULL;

	return smaller ? smaller : ptr;
}

static void finish(struct builder *b)
{
	struct unwind_table *table = b->table;

	table->nr_wide = (uint32_t)(b->wide.len / sizeof(struct wide_rule));
	table->expression_bytes = b->expressions.len;
	table->pcs = shrunk(table->pcs, table->nr_rows * sizeof(*table->pcs));
	table->row_rules = shrunk(table->row_rules, table->nr_rows * sizeof(*table->row_rules));
	table->rules = shrunk(table->rules, table->nr_rules * sizeof(*table->rules));
	table->wide = shrunk(take_ptr(b->wide.data), b->wide.len);
	table->expressions = shrunk(take_ptr(b->expressions.data), b->expressions.len);
	table->bytes = sizeof(*table) + table->nr_rows * (sizeof(*table->pcs) + sizeof(*table->row_rules)) +
		       table->nr_rules * sizeof(*table->rules) + b->wide.len + b->expressions.len;
	b->wide = b->expressions = (struct buf){0};
}

static bool start(struct builder *b, const struct table_source *source)
{
	struct unwind_table *table = calloc(1, sizeof(*table));

	b->source = source;
	b->table = table;
	b->reader.section = source->section;
	b->room_rules = 64;
	if (!table)
		return false;
	table->arch = source->section.arch;
	table->nr_segments = source->nr_segments;
	memcpy(table->segments, source->segments, sizeof(table->segments));
	table->base = UINT64_MAX;
	for (unsigned i = 0; i < source->nr_segments; i++)
		if (source->segments[i].address < table->base)
			table->base = source->segments[i].address;
	table->rules = calloc(b->room_rules, sizeof(*table->rules));
	if (!table->rules)
		return false;
	table->rules[NO_CFI].flags = RULE_NO_CFI;
	table->nr_rules = 1;
	return true;
}

int table_build(const struct table_source *source, struct unwind_table **ret)
{
	AUTO_FREE struct builder *b = calloc(1, sizeof(*b));
	bool done = b && start(b, source) && put_ranges(b) && put_rows(b);

	if (!b)
		return -ENOMEM;
	if (done)
		finish(b);
	else
		table_free(b->table);
	if (done)
		*ret = b->table;
	bool bad = b->bad || b->reader.broken || b->reader.nr_skipped;
	free(b->ranges);
	buf_fini(&b->wide);
	buf_fini(&b->expressions);
	hash_table_fini(&b->rules);
	hash_table_fini(&b->wides);
	hash_table_fini(&b->texts);
	if (!done)
		return -ENOMEM;
	return bad ? -EBADMSG : 0;
}

bool table_address(const struct unwind_table *table, uint64_t file_offset, uint64_t *ret)
{
	for (unsigned i = 0; i < table->nr_segments; i++) {
		const struct table_segment *segment = &table->segments[i];
		if (file_offset - segment->offset < segment->bytes) {
			*ret = file_offset - segment->offset + segment->address;
			return true;
		}
	}
	return false;
}

const struct unwind_rule *table_find(const struct unwind_table *table, uint64_t address)
{
	const uint32_t *pcs = table->pcs;
	uint32_t first = 0, nr = table->nr_rows;
	uint64_t pc = address - table->base;

	if (!nr || pc > UINT32_MAX || pc < pcs[0])
		return &table->rules[NO_CFI];
	/* The last row that does not begin behind pc. */
	while (nr > 1) {
		uint32_t half = nr / 2;
		first += pcs[first + half] <= pc ? half : 0;
		nr -= half;
	}
	return &table->rules[table->row_rules[first]];
}

struct span table_expression(const struct unwind_table *table, int32_t value)
{
	uint16_t len;

	memcpy(&len, table->expressions + value, sizeof(len));
	return (struct span){table->expressions + value + sizeof(len), len};
}
