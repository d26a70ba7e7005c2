/* SPDX-License-Identifier: MIT */
#include "unwind/table.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "unwind/siphash.h"

enum {
	NO_CFI = 0 /* the first rule */,
	FIRST_ROWS = 256,
	RULE_BUCKETS = 1024 /* a power of two */,
	DIGIT_BITS = 11,
	DIGIT_VALUES = 1 << DIGIT_BITS,
};

/* What makes parts. */
struct table_builder {
	struct unwind_table *table;
	struct cfi_reader reader;
	struct cfi_reader *more; /* of the other section; NULL: there is none */
	struct cfi_run run;
	struct hash_table rules, wides; /* hash -> number + 1 */
	uint64_t key[2];                /* of these hashes, random: files are of others, who could give all rules one */
	uint16_t recent[RULE_BUCKETS];  /* the last rule that was found with another hash, to be compared */
	struct buf text;                /* of the wide rule that is looked for */
	uint64_t text_bytes;            /* of all that were looked for */
	/* Of the part that is made; for the next one the memory is used again. */
	uint32_t *pcs;
	uint16_t *row_rules;
	uint32_t nr_rows, room_rows;
	bool too_many; /* rows */
};

static struct unwind_rule *rule_at(const struct unwind_table *table, uint32_t number)
{
	/* Pairs with larger_blocks(). Who has the number from a part sees the blocks of when the part was made. */
	const struct rule_blocks *rules = atomic_load_explicit(&table->rules, memory_order_acquire);

	return &rules->blocks[number / TABLE_RULE_BLOCK][number % TABLE_RULE_BLOCK];
}

/* false: more than the budget. */
static bool grow(struct unwind_table *table, size_t bytes)
{
	struct table_budget *budget = table->budget;

	if (budget && atomic_fetch_add(&budget->bytes, bytes) + bytes > budget->max) {
		atomic_fetch_sub(&budget->bytes, bytes);
		table->full = true;
		return false;
	}
	table->bytes += bytes;
	return true;
}

static void shrink(struct unwind_table *table, size_t bytes)
{
	table->bytes -= bytes;
	if (table->budget)
		atomic_fetch_sub(&table->budget->bytes, bytes);
}

/* ---- distinct rules ---- */

/* An expression of the function whose rows are made, in the text. -1: out of memory, or it is too long, or all were too
 * long together. */
static int32_t put_expression(struct table_builder *b, int32_t value)
{
	struct span text = cfi_expression(b->run.section, value);
	size_t at = b->text.len;

	b->text_bytes += text.len;
	if (text.len > UINT16_MAX || b->text_bytes > TABLE_MAX_TEXT_BYTES)
		return -1;
	buf_put_u16(&b->text, (uint16_t)text.len);
	buf_put(&b->text, text.ptr, text.len);
	return b->text.failed ? -1 : (int32_t)at;
}

/* Its number + 1; 0: out of memory, or too many. */
static uint32_t keep_wide(struct table_builder *b, const struct cfi_state *state)
{
	struct unwind_table *table = b->table;
	struct cfi_state kept;

	b->text.len = 0;
	memset(&kept, 0, sizeof(kept)); /* padding, too: they are compared as bytes */
	kept.cfa_is_expression = state->cfa_is_expression;
	kept.cfa_register = state->cfa_register;
	kept.cfa_value = state->cfa_value;
	if (state->cfa_is_expression && (kept.cfa_value = put_expression(b, state->cfa_value)) < 0)
		return 0;
	for (unsigned i = 0; i < table->arch->nr; i++) {
		const struct cfi_register *from = &state->registers[i];
		int32_t value = from->value;
		if ((from->how == CFI_EXPRESSION || from->how == CFI_VALUE_EXPRESSION) &&
		    (value = put_expression(b, value)) < 0)
			return 0;
		kept.registers[i].how = from->how;
		kept.registers[i].value = value;
	}
	const uint64_t parts[] = {siphash(b->key, (struct span){&kept, sizeof(kept)}),
				  siphash(b->key, buf_span(&b->text))};
	const uint64_t hash = siphash(b->key, (struct span){parts, sizeof(parts)});
	for (struct hash_slot *slot = hash_table_find(&b->wides, hash); slot; slot = hash_table_next(&b->wides, slot)) {
		const struct wide_rule *wide = table->wides[slot->number - 1];
		if (wide->text_bytes == b->text.len && !memcmp(&wide->state, &kept, sizeof(kept)) &&
		    (!b->text.len || !memcmp(wide->text, b->text.data, b->text.len)))
			return (uint32_t)slot->number;
	}
	size_t bytes = sizeof(struct wide_rule) + b->text.len;
	struct wide_rule *wide = calloc(1, bytes);
	struct wide_rule **wides = reallocarray(table->wides, table->nr_wides + 1, sizeof(struct wide_rule *));
	if (wides)
		table->wides = wides;
	if (!wide || !wides || table->nr_wides >= TABLE_MAX_RULES || !grow(table, bytes + sizeof(*wides)) ||
	    hash_table_add_number(&b->wides, hash, table->nr_wides + 1)) {
		free(wide);
		return 0;
	}
	wide->state = kept;
	wide->text_bytes = (uint32_t)b->text.len;
	if (b->text.len)
		memcpy(wide->text, b->text.data, b->text.len);
	table->wides[table->nr_wides++] = wide;
	return table->nr_wides;
}

/* Makes room for more blocks than `rules` has. NULL: out of memory. */
static struct rule_blocks *larger_blocks(struct unwind_table *table, struct rule_blocks *rules)
{
	const size_t room = rules ? 2 * rules->room : 4, bytes = sizeof(*rules) + room * sizeof(rules->blocks[0]);
	struct rule_blocks *larger = grow(table, bytes) ? malloc(bytes) : NULL;

	if (!larger)
		return NULL;
	*larger = (struct rule_blocks){.smaller = rules, .room = room};
	for (size_t i = 0; rules && i < rules->room; i++)
		larger->blocks[i] = rules->blocks[i];
	atomic_store_explicit(&table->rules, larger, memory_order_release); /* pairs with rule_at() */
	return larger;
}

/* false: out of memory. */
static bool new_block(struct unwind_table *table)
{
	const size_t nr = table->nr_rules / TABLE_RULE_BLOCK;
	struct rule_blocks *rules = atomic_load_explicit(&table->rules, memory_order_relaxed);

	if (!rules || nr == rules->room)
		rules = larger_blocks(table, rules);
	if (!rules || !grow(table, TABLE_RULE_BLOCK * sizeof(struct unwind_rule)))
		return false;
	rules->blocks[nr] = calloc(TABLE_RULE_BLOCK, sizeof(struct unwind_rule));
	return rules->blocks[nr];
}

/* NULL: out of memory, or too many. */
static struct unwind_rule *new_rule(struct unwind_table *table)
{
	if (table->nr_rules >= TABLE_MAX_RULES || (table->nr_rules % TABLE_RULE_BLOCK == 0 && !new_block(table)))
		return NULL;
	return rule_at(table, table->nr_rules++);
}

/* Its number; NO_CFI also for out of memory and too many. */
static uint16_t keep_rule(struct table_builder *b, const struct unwind_rule *rule)
{
	struct unwind_table *table = b->table;
	uint64_t words[sizeof(*rule) / sizeof(uint64_t)], place = 0;

	memcpy(words, rule, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		place = hash_mix(place, words[i]);
	uint16_t *recent = &b->recent[(place >> 32) % RULE_BUCKETS];
	if (!memcmp(rule_at(table, *recent), rule, sizeof(*rule)))
		return *recent;
	uint64_t hash = siphash(b->key, (struct span){words, sizeof(words)});
	for (struct hash_slot *slot = hash_table_find(&b->rules, hash); slot; slot = hash_table_next(&b->rules, slot))
		if (!memcmp(rule_at(table, (uint32_t)slot->number - 1), rule, sizeof(*rule)))
			return *recent = (uint16_t)(slot->number - 1);
	uint32_t number = table->nr_rules;
	struct unwind_rule *kept = new_rule(table);
	if (!kept || hash_table_add_number(&b->rules, hash, number + 1)) {
		b->table->bad = true;
		return NO_CFI;
	}
	*kept = *rule;
	return *recent = (uint16_t)number;
}

/* The slots of a rule; `popped` as bits, see find_popped(). false: they cannot say it all. */
static bool fill_slots(const struct unwind_arch *arch, const struct cfi_state *state, uint32_t popped,
		       struct unwind_rule *rule)
{
	const struct cfi_register *sp = &state->registers[arch->sp];
	uint32_t known = state->lost | UINT32_C(1) << arch->sp;

	if (state->cfa_is_expression || sp->how != CFI_VALUE || sp->value)
		return false;
	for (unsigned i = 0; i < arch->nr_slots; i++) {
		const struct cfi_register *reg = &state->registers[arch->slots[i]];
		const uint32_t bit = UINT32_C(1) << arch->slots[i];
		int32_t words = reg->value / 8;
		known |= bit;
		if (reg->how == CFI_SAME || popped & bit)
			rule->slots[i] = SLOT_SAME;
		else if (reg->how == CFI_LOST)
			rule->slots[i] = SLOT_LOST;
		else if (reg->how == CFI_STORED && words * 8 == reg->value && words >= SLOT_MIN && words <= INT16_MAX)
			rule->slots[i] = (int16_t)words;
		else
			return false;
	}
	return known == UINT32_MAX >> (32 - arch->nr); /* of the others nothing is known */
}

/* Its number + 1; 0: out of memory, or too many. */
static uint32_t wide_of_state(struct table_builder *b, const struct cfi_state *state, uint32_t popped)
{
	struct cfi_state row = *state;

	for (; popped; popped &= popped - 1)
		row.registers[__builtin_ctz(popped)] = (struct cfi_register){.how = CFI_SAME};
	return keep_wide(b, &row);
}

static uint16_t rule_of_state(struct table_builder *b, const struct cfi_state *state, uint32_t popped, bool is_signal)
{
	struct unwind_rule rule;

	if (state->cfa_register == UINT8_MAX)
		return NO_CFI;
	memset(&rule, 0, sizeof(rule));
	rule.cfa_register = state->cfa_register;
	rule.cfa_offset = state->cfa_value;
	if (!fill_slots(b->table->arch, state, popped, &rule)) {
		uint32_t wide = wide_of_state(b, state, popped);
		if (!wide) {
			b->table->bad = true;
			return NO_CFI;
		}
		memset(&rule, 0, sizeof(rule));
		rule.flags = RULE_WIDE;
		rule.wide = b->table->wides[wide - 1];
	}
	rule.flags |= is_signal ? RULE_SIGNAL : 0;
	return keep_rule(b, &rule);
}

/* ---- rows ---- */

/* From `pc` on that rule holds. false: out of memory, or too many rows. */
static bool put_row(struct table_builder *b, uint32_t pc, uint16_t rule)
{
	if (b->nr_rows && b->pcs[b->nr_rows - 1] == pc)
		b->nr_rows--; /* a row of no bytes */
	if ((b->nr_rows ? b->row_rules[b->nr_rows - 1] : NO_CFI) == rule)
		return true;
	if (b->nr_rows == b->room_rows) {
		uint32_t room = b->room_rows ? b->room_rows * 2 : FIRST_ROWS;
		b->too_many = room > TABLE_MAX_ROWS;
		uint32_t *pcs = b->too_many ? NULL : reallocarray(b->pcs, room, sizeof(*pcs));
		if (pcs)
			b->pcs = pcs;
		uint16_t *rules = pcs ? reallocarray(b->row_rules, room, sizeof(*rules)) : NULL;
		if (!rules)
			return false;
		b->row_rules = rules;
		b->room_rows = room;
	}
	b->pcs[b->nr_rows] = pc;
	b->row_rules[b->nr_rows++] = rule;
	return true;
}

/*
 * Compilers do not say in a function's epilogue that a register was popped: its slot is below the stack pointer then,
 * and may be overwritten, but the register itself has the value. Only of registers that were pushed, which `pushed`
 * keeps for the rows of a function: a leaf function may save one below the stack pointer, and change it. As bits.
 */
static uint32_t find_popped(const struct unwind_arch *arch, const struct cfi_state *row, uint32_t *pushed)
{
	const bool below_sp = !row->cfa_is_expression && row->cfa_register == arch->sp;
	uint32_t popped = 0;

	*pushed &= row->stored;
	for (uint32_t left = row->stored; left; left &= left - 1) {
		const unsigned nr = (unsigned)__builtin_ctz(left);
		const uint32_t bit = UINT32_C(1) << nr;
		if (!below_sp || row->registers[nr].value >= -(int64_t)row->cfa_value)
			*pushed |= bit;
		else
			popped |= *pushed & bit;
	}
	return popped;
}

/* Extras have the highest numbers; no entry has an offset as high. */
static bool is_extra(const struct table_function *function)
{
	return function->entry >= (uint32_t)-TABLE_MAX_EXTRAS;
}

static bool is_of_more(const struct table_function *function)
{
	return function->entry & TABLE_OF_MORE && !is_extra(function);
}

static bool is_start(const struct unwind_table *table, const struct table_function *function)
{
	return is_extra(function) && table->extras[UINT32_MAX - function->entry].kind == EXTRA_START;
}

/* What a section says of a function that is no extra. *ret_reader: of that section. */
static bool fde_of(struct table_builder *b, const struct table_function *function, struct cfi_fde *ret,
		   struct cfi_reader **ret_reader)
{
	*ret_reader = is_of_more(function) ? b->more : &b->reader;
	return cfi_fde_at(*ret_reader, function->entry & ~TABLE_OF_MORE, ret);
}

/* Of a function of a section, of which only what is before `limit` counts. */
static bool put_function(struct table_builder *b, const struct table_function *function, uint64_t limit)
{
	const struct unwind_table *table = b->table;
	struct cfi_reader *reader;
	struct cfi_fde fde;
	uint32_t pushed = 0;

	if (!fde_of(b, function, &fde, &reader)) {
		b->table->bad = true;
		return put_row(b, function->start, NO_CFI);
	}
	const uint64_t reach = fde.end - table->base; /* base + limit may exceed 64 bits */
	fde.end = table->base + (reach < limit ? reach : limit);
	cfi_run_begin(&b->run, reader, &fde);
	while (cfi_run_next(&b->run)) {
		uint32_t popped = find_popped(table->arch, &b->run.state, &pushed);
		uint16_t rule = rule_of_state(b, &b->run.state, popped, b->run.cie->is_signal);
		if (!put_row(b, (uint32_t)(b->run.start - table->base), rule))
			return false;
	}
	b->table->bad |= b->run.bad;
	return put_row(b, (uint32_t)((b->run.bad ? b->run.start : fde.end) - table->base), NO_CFI);
}

/* Up to where functions of the sections reach that begin before this one. */
static uint32_t covered_before(struct table_builder *b, size_t index)
{
	const struct unwind_table *table = b->table;
	struct cfi_reader *reader;
	struct cfi_fde fde;

	while (index-- > 0) {
		const struct table_function *function = &table->functions[index];
		if (is_extra(function))
			continue;
		return fde_of(b, function, &fde, &reader) ? (uint32_t)(fde.end - table->base) : 0;
	}
	return 0;
}

/*
 * The return address is where the call left it; above it is what a PLT entry has pushed in its last bytes. What signal
 * handlers return to has none.
 */
static bool put_extra(struct table_builder *b, size_t index, uint64_t limit)
{
	enum { PLT_ENTRY_BYTES = 16, PLT_PUSHED_AT = 11 };
	const struct unwind_arch *arch = b->table->arch;
	const struct table_function *function = &b->table->functions[index];
	const struct table_extra *extra = &b->table->extras[UINT32_MAX - function->entry];
	struct unwind_rule stub = {.cfa_register = arch->sp, .cfa_offset = arch->call_bytes};
	bool is_plt = extra->kind == EXTRA_PLT && arch->call_bytes;
	uint32_t covered = covered_before(b, index);
	uint32_t start = covered > function->start ? covered : function->start;
	uint64_t whole_end = extra->end - b->table->base;
	uint32_t end = (uint32_t)(whole_end < limit ? whole_end : limit);

	if (start >= end)
		return true;
	for (unsigned i = 0; i < arch->nr_slots; i++)
		stub.slots[i] = SLOT_SAME;
	if (arch->call_bytes && extra->kind != EXTRA_SIGNAL)
		stub.slots[0] = -1;
	switch (extra->kind) {
	case EXTRA_SIGNAL: stub.flags = RULE_SIGNAL | RULE_TRAMPOLINE; break;
	case EXTRA_SWITCH: stub.flags = RULE_SWITCH; break;
	case EXTRA_SWITCH_AND_RETURN: stub.flags = RULE_SWITCH | RULE_RETURNS; break;
	case EXTRA_ENTRY: stub.flags = RULE_NOT_CALLED; break;
	case EXTRA_START: stub.flags = RULE_NO_CFI | RULE_START; break;
	case EXTRA_PLT:
	case EXTRA_STUB: break;
	}
	struct unwind_rule pushed = stub;
	pushed.cfa_offset += 8;
	uint16_t rules[] = {keep_rule(b, &stub), keep_rule(b, &pushed)};
	for (uint32_t at = start; at < end && is_plt; at += PLT_ENTRY_BYTES)
		if (!put_row(b, at, rules[0]) ||
		    (end - at > PLT_PUSHED_AT && !put_row(b, at + PLT_PUSHED_AT, rules[1])) ||
		    end - at <= PLT_ENTRY_BYTES)
			return put_row(b, end, NO_CFI);
	return put_row(b, start, rules[0]) && put_row(b, end, NO_CFI);
}

/* ---- parts; the lock is held where nothing else is said ---- */

static void builder_free(struct table_builder *b)
{
	if (!b)
		return;
	hash_table_fini(&b->rules);
	hash_table_fini(&b->wides);
	buf_fini(&b->text);
	free(b->more);
	free(b->pcs);
	free(b->row_rules);
	free(b);
}

/* Of what the builder has. NULL: out of memory. */
static struct table_part *part_new(const struct table_builder *b)
{
	const size_t pc_bytes = b->nr_rows * sizeof(*b->pcs), rule_bytes = b->nr_rows * sizeof(*b->row_rules);
	struct table_part *part = malloc(sizeof(*part) + pc_bytes + rule_bytes);

	if (!part)
		return NULL;
	part->nr_rows = b->nr_rows;
	if (b->nr_rows) {
		memcpy(part->pcs, b->pcs, pc_bytes);
		memcpy(part->pcs + b->nr_rows, b->row_rules, rule_bytes);
	}
	return part;
}

static uint64_t digest_of(const uint64_t key[2], struct span section, struct span more)
{
	const uint64_t parts[] = {siphash(key, section), siphash(key, more)};

	return siphash(key, (struct span){parts, sizeof(parts)});
}

uint64_t source_digest(const struct table_source *source)
{
	return digest_of(source->key, source->section.bytes, source->more.bytes);
}

static void make_digest(struct unwind_table *table)
{
	const struct table_builder *b = table->builder;

	if (table->has_digest)
		return;
	table->digest =
		digest_of(table->key, b->reader.section.bytes, b->more ? b->more->section.bytes : (struct span){0});
	table->has_digest = true;
}

/* All parts are made: the sections have told everything. */
static void end_building(struct unwind_table *table)
{
	make_digest(table);
	builder_free(take_ptr(table->builder));
	table->release(take_ptr(table->owned));
	shrink(table, table->section_bytes);
}

/* Their memory goes, too. */
static void drop_rows(struct table_builder *b)
{
	free(take_ptr(b->pcs));
	free(take_ptr(b->row_rules));
	b->nr_rows = b->room_rows = 0;
}

/* NULL: out of memory. A part of more rows than a table may have is made without any: not again at each lookup. */
static const struct table_part *make_part(struct unwind_table *table, size_t number)
{
	struct table_builder *b = table->builder;
	uint64_t from_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	size_t first = number * TABLE_PART_FUNCTIONS, next = first + TABLE_PART_FUNCTIONS;

	b->nr_rows = 0;
	b->too_many = false;
	for (size_t i = first; i < next && i < table->nr_functions && !b->too_many; i++) {
		const struct table_function *function = &table->functions[i];
		uint64_t limit = i + 1 < table->nr_functions ? function[1].start : UINT32_MAX;
		bool whole = is_extra(function) ? put_extra(b, i, limit) : put_function(b, function, limit);
		if (!whole && !b->too_many)
			return NULL;
	}
	if (b->too_many) {
		table->bad = true;
		drop_rows(b);
	}
	size_t row_bytes = b->nr_rows * (sizeof(uint32_t) + sizeof(uint16_t));
	if (table->nr_rows + b->nr_rows > TABLE_MAX_ROWS || !grow(table, sizeof(struct table_part) + row_bytes)) {
		table->bad = true;
		b->nr_rows = 0;
	}
	struct table_part *part = part_new(b);
	if (!part)
		return NULL;
	atomic_store_explicit(&table->parts[number], part, memory_order_release); /* pairs with part_of() */
	table->nr_rows += b->nr_rows;
	table->build_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - from_ns;
	if (++table->nr_made == table->nr_parts)
		end_building(table);
	return part;
}

/* Takes the lock where it is yet to be made. NULL: out of memory. */
static const struct table_part *part_of(struct unwind_table *table, size_t number)
{
	const struct table_part *part = atomic_load_explicit(&table->parts[number], memory_order_acquire);

	if (part)
		return part;
	pthread_mutex_lock(&table->lock);
	part = atomic_load_explicit(&table->parts[number], memory_order_relaxed);
	if (!part)
		part = make_part(table, number);
	pthread_mutex_unlock(&table->lock);
	return part;
}

/* ---- functions ---- */

struct list {
	const struct table_source *source;
	uint64_t base;
	struct table_function *functions; /* heap; as in the sections, extra ones behind; then by their starts */
	size_t nr, room;
	bool bad; /* there are too many, or some cannot be understood */
};

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
static bool list_function(struct list *list, uint64_t start, uint64_t end, uint32_t entry)
{
	if (start >= end || !in_segments(list->source, start, end) || end - list->base > UINT32_MAX - 1)
		return true;
	if (list->nr == TABLE_MAX_FUNCTIONS) {
		list->bad = true;
		return true;
	}
	if (array_room(list->functions, list->nr, list->room))
		return false;
	list->functions[list->nr++] = (struct table_function){(uint32_t)(start - list->base), entry};
	return true;
}

static void sort_digit(const struct table_function *from, size_t nr, unsigned shift, struct table_function *to)
{
	uint32_t places[DIGIT_VALUES] = {0}, place = 0;

	for (size_t i = 0; i < nr; i++)
		places[from[i].start >> shift & (DIGIT_VALUES - 1)]++;
	for (unsigned i = 0; i < DIGIT_VALUES; i++) {
		uint32_t count = places[i];
		places[i] = place;
		place += count;
	}
	for (size_t i = 0; i < nr; i++)
		to[places[from[i].start >> shift & (DIGIT_VALUES - 1)]++] = from[i];
}

/* Those that begin at the same address keep their order. false: out of memory. */
static bool sort_functions(struct list *list)
{
	struct table_function *from = list->functions, *to = reallocarray(NULL, list->room, sizeof(*to));
	uint32_t differing = 0;

	if (!to)
		return false;
	for (size_t i = 1; i < list->nr; i++)
		differing |= from[i].start ^ from[0].start;
	for (unsigned shift = 0; shift < 32; shift += DIGIT_BITS) {
		if (!(differing >> shift & (DIGIT_VALUES - 1)))
			continue;
		sort_digit(from, list->nr, shift, to);
		struct table_function *sorted = to;
		to = from;
		from = sorted;
	}
	list->functions = from;
	free(to);
	return true;
}

static bool list_section(struct list *list, struct cfi_reader *reader, uint32_t which)
{
	struct cfi_fde fde;

	while (cfi_next_fde(reader, &fde))
		if (!list_function(list, fde.start, fde.end, fde.entry | which))
			return false;
	list->bad |= reader->broken || reader->nr_skipped;
	return true;
}

/* `before`: those that count although the section describes them, too. */
static bool list_extras(struct list *list, bool before)
{
	for (unsigned i = 0; i < list->source->nr_extras; i++) {
		const struct table_extra *extra = &list->source->extras[i];
		const bool counts = extra->kind == EXTRA_SWITCH || extra->kind == EXTRA_SWITCH_AND_RETURN;
		if (counts == before && !list_function(list, extra->start, extra->end, UINT32_MAX - i))
			return false;
	}
	return true;
}

static bool list_functions(struct list *list, struct table_builder *b)
{
	bool sorted = true;

	if (!list_extras(list, true) || !list_section(list, &b->reader, 0) ||
	    (b->more && !list_section(list, b->more, TABLE_OF_MORE)) || !list_extras(list, false))
		return false;
	for (size_t i = 1; i < list->nr && sorted; i++)
		sorted = list->functions[i - 1].start <= list->functions[i].start;
	return sorted || sort_functions(list);
}

/*
 * Of those that begin at the same address the first counts. Those of the other section are left out where one of the
 * first section that begins before them covers them; so is the start of the program.
 */
static bool keep_functions(struct unwind_table *table, const struct list *list)
{
	const struct table_function *before = NULL; /* of the first section, the last one so far */
	struct cfi_reader *reader;
	struct cfi_fde fde;

	table->functions = malloc(list->nr * sizeof(*table->functions) + 1);
	if (!table->functions)
		return false;
	for (size_t i = 0; i < list->nr; i++) {
		const struct table_function *function = &list->functions[i];
		if (i && function->start == function[-1].start)
			continue;
		if ((is_of_more(function) || is_start(table, function)) && before &&
		    fde_of(table->builder, before, &fde, &reader) && fde.end - table->base > function->start)
			continue;
		before = is_extra(function) || is_of_more(function) ? before : function;
		table->functions[table->nr_functions++] = *function;
	}
	table->nr_parts = (table->nr_functions + TABLE_PART_FUNCTIONS - 1) / TABLE_PART_FUNCTIONS;
	table->parts = calloc(table->nr_parts + 1, sizeof(table->parts[0]));
	return table->parts;
}

/* ---- table ---- */

static void free_rules(struct unwind_table *table)
{
	struct rule_blocks *rules = table->rules;

	for (size_t i = 0; rules && i * TABLE_RULE_BLOCK < table->nr_rules; i++)
		free(rules->blocks[i]);
	for (struct rule_blocks *smaller; rules; rules = smaller) {
		smaller = rules->smaller;
		free(rules);
	}
}

void table_free(struct unwind_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; table->parts && i < table->nr_parts; i++)
		free(table->parts[i]);
	free_rules(table);
	for (uint32_t i = 0; i < table->nr_wides; i++)
		free(table->wides[i]);
	free(table->wides);
	free(table->parts);
	free(table->functions);
	builder_free(table->builder);
	if (table->owned)
		table->release(table->owned);
	shrink(table, table->bytes);
	pthread_mutex_destroy(&table->lock);
	free(table);
}

static bool start(struct unwind_table *table, const struct table_source *source)
{
	pthread_mutex_init(&table->lock, NULL);
	table->arch = source->section.arch;
	table->keeps_fp = source->keeps_fp;
	table->nr_segments = source->nr_segments;
	memcpy(table->segments, source->segments, sizeof(table->segments));
	memcpy(table->extras, source->extras, sizeof(table->extras));
	table->base = UINT64_MAX;
	for (unsigned i = 0; i < source->nr_segments; i++)
		if (source->segments[i].address < table->base)
			table->base = source->segments[i].address;
	table->section_bytes = source->section.bytes.len + source->more.bytes.len;
	table->budget = source->budget;
	memcpy(table->key, source->key, sizeof(table->key));
	table->builder = calloc(1, sizeof(*table->builder));
	struct unwind_rule *none = new_rule(table);
	if (!table->builder || !none ||
	    getrandom(table->builder->key, sizeof(table->builder->key), 0) != sizeof(table->builder->key))
		return false;
	none->flags = RULE_NO_CFI;
	table->builder->table = table;
	table->builder->reader.section = source->section;
	if (!source->more.bytes.len)
		return true;
	table->builder->more = calloc(1, sizeof(*table->builder->more));
	if (table->builder->more)
		table->builder->more->section = source->more;
	return table->builder->more;
}

int table_new(const struct table_source *source, void *owned, void (*release)(void *owned), struct unwind_table **ret)
{
	struct unwind_table *table = calloc(1, sizeof(*table));
	struct list list = {.source = source};

	if (!table) {
		release(owned);
		return -ENOMEM;
	}
	table->owned = owned;
	table->release = release;
	bool made = start(table, source);
	list.base = table->base;
	made = made && list_functions(&list, table->builder) && keep_functions(table, &list);
	free(list.functions);
	size_t bytes = sizeof(*table) + table->section_bytes + table->nr_functions * sizeof(*table->functions) +
		       table->nr_parts * sizeof(struct table_part *);
	if (!made || !grow(table, bytes)) {
		bool full = table->full;
		table_free(table);
		return full ? -EFBIG : -ENOMEM;
	}
	table->bad = list.bad;
	*ret = table;
	return table->bad ? -EBADMSG : 0;
}

uint64_t table_digest(struct unwind_table *table)
{
	pthread_mutex_lock(&table->lock);
	make_digest(table);
	uint64_t digest = table->digest;
	pthread_mutex_unlock(&table->lock);
	return digest;
}

int table_complete(struct unwind_table *table)
{
	int err = 0;

	for (size_t i = 0; i < table->nr_parts && !err; i++)
		if (!part_of(table, i))
			err = -ENOMEM;
	pthread_mutex_lock(&table->lock);
	err = !err && table->bad ? -EBADMSG : err;
	pthread_mutex_unlock(&table->lock);
	return err;
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

/* The last of `nr` ascending starts, `stride` words apart, that is not behind pc; the first is not. */
static size_t find_last(const uint32_t *starts, size_t stride, size_t nr, uint32_t pc)
{
	size_t first = 0;

	while (nr > 1) {
		size_t half = nr / 2;
		first += starts[(first + half) * stride] <= pc ? half : 0;
		nr -= half;
	}
	return first;
}

/* The last function that begins at or before pc. false: there is none. */
static bool find_function(const struct unwind_table *table, uint64_t pc, size_t *ret)
{
	enum { STRIDE = sizeof(struct table_function) / sizeof(uint32_t) };

	if (!table->nr_functions || pc >= UINT32_MAX || pc < table->functions[0].start)
		return false;
	*ret = find_last(&table->functions->start, STRIDE, table->nr_functions, (uint32_t)pc);
	return true;
}

/* The part that has the rows of the function at pc. false: there is none. */
static bool find_part(const struct unwind_table *table, uint64_t pc, size_t *ret)
{
	if (!find_function(table, pc, ret))
		return false;
	*ret /= TABLE_PART_FUNCTIONS;
	return true;
}

static uint16_t find_number(struct unwind_table *table, uint64_t pc)
{
	size_t number;

	if (!find_part(table, pc, &number))
		return NO_CFI;
	const struct table_part *part = part_of(table, number);
	if (!part || !part->nr_rows || pc < part->pcs[0])
		return NO_CFI;
	return table_part_rules(part)[find_last(part->pcs, 1, part->nr_rows, (uint32_t)pc)];
}

struct table_rule table_find(struct unwind_table *table, uint64_t address)
{
	const struct unwind_rule *rule = rule_at(table, find_number(table, address - table->base));

	return (struct table_rule){rule, rule->flags & RULE_WIDE ? rule->wide : NULL};
}

uint32_t table_place(struct unwind_table *table, uint64_t address)
{
	size_t function;
	const uint32_t nr = find_function(table, address - table->base, &function) ? (uint32_t)function + 1 : 0;

	return nr << 1 | (table_find(table, address).rule->flags & RULE_NO_CFI ? TABLE_WITHOUT_CFI : 0);
}

bool table_function_at(struct unwind_table *table, uint64_t address, uint64_t *ret_start, uint64_t *ret_end)
{
	const uint64_t pc = address - table->base;
	size_t function, row;

	if (!find_function(table, pc, &function))
		return false;
	const struct table_part *part = part_of(table, function / TABLE_PART_FUNCTIONS);
	if (!part || !part->nr_rows || pc < part->pcs[0])
		return false;
	const uint64_t next = function + 1 < table->nr_functions ? table->functions[function + 1].start : UINT32_MAX;
	const size_t first = row = find_last(part->pcs, 1, part->nr_rows, (uint32_t)pc);
	while (row + 1 < part->nr_rows && table_part_rules(part)[row] != NO_CFI && part->pcs[row] < next)
		row++;
	*ret_start = table->base + table->functions[function].start;
	*ret_end = table->base + (part->pcs[row] < next ? part->pcs[row] : next);
	return row > first;
}

bool table_may_begin_at(struct unwind_table *table, uint64_t address)
{
	size_t function;

	return !find_function(table, address - table->base, &function) ||
	       table->base + table->functions[function].start == address ||
	       table_place(table, address) & TABLE_WITHOUT_CFI;
}

bool table_has(const struct unwind_table *table, uint64_t address)
{
	size_t number;

	return !find_part(table, address - table->base, &number) ||
	       atomic_load_explicit(&table->parts[number], memory_order_acquire);
}

struct span table_expression(const struct wide_rule *wide, int32_t value)
{
	uint16_t len;

	memcpy(&len, wide->text + value, sizeof(len));
	return (struct span){wide->text + value + sizeof(len), len};
}
