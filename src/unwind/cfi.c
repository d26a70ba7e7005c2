/* SPDX-License-Identifier: MIT */
#include "unwind/cfi.h"

#include <dwarf.h>
#include <string.h>

#include "base/span.h"

/*
 * <dwarf.h> of elfutils has no name for it: the .eh_frame of arm64 uses DW_CFA_GNU_window_save (0x2d) for "return
 * address signed". Source: "DWARF for the Arm 64-bit Architecture", 4.4.
 */
enum { DW_CFA_AARCH64_NEGATE_RA_STATE = DW_CFA_GNU_window_save };

/* A number as DW_EH_PE_* says in its lower half. */
static uint64_t take_encoded(struct cursor *c, uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8: return cursor_u64(c);
	case DW_EH_PE_uleb128: return cursor_uleb(c);
	case DW_EH_PE_sleb128: return (uint64_t)cursor_sleb(c);
	case DW_EH_PE_udata2: return cursor_u16(c);
	case DW_EH_PE_sdata2: return (uint64_t)(int16_t)cursor_u16(c);
	case DW_EH_PE_udata4: return cursor_u32(c);
	case DW_EH_PE_sdata4: return (uint64_t)(int32_t)cursor_u32(c);
	default: c->bad = true; return 0;
	}
}

static size_t offset_of(const struct cfi_section *section, const void *at)
{
	return (size_t)((const uint8_t *)at - (const uint8_t *)section->bytes.ptr);
}

/* An address. Relative to data or text, and indirect ones: no toolchain writes them here. */
static uint64_t take_address(const struct cfi_section *section, struct cursor *c, uint8_t encoding)
{
	uint64_t base = 0;

	if ((encoding & 0xf0) == DW_EH_PE_pcrel)
		base = section->address + offset_of(section, c->at);
	else if (encoding & 0xf0)
		c->bad = true;
	return base + take_encoded(c, encoding);
}

static void put_register(struct cfi_state *state, uint64_t nr, struct cfi_register rule)
{
	const uint32_t bit = UINT32_C(1) << nr;

	state->registers[nr] = rule;
	state->lost = rule.how == CFI_LOST ? state->lost | bit : state->lost & ~bit;
	state->stored = rule.how == CFI_STORED ? state->stored | bit : state->stored & ~bit;
}

static void set_register(const struct cfi_section *section, struct cfi_state *state, uint64_t nr, enum cfi_how how,
			 int64_t value, struct cursor *c)
{
	if (value < INT32_MIN || value > INT32_MAX)
		c->bad = true;
	else if (nr < section->arch->nr) /* those of vectors are not followed */
		put_register(state, nr, (struct cfi_register){(uint8_t)how, (int32_t)value});
}

/* Where an expression is: the offset of its length. */
static int64_t take_expression(const struct cfi_section *section, struct cursor *c)
{
	int64_t at = (int64_t)offset_of(section, c->at);

	cursor_take(c, cursor_uleb(c));
	return at;
}

struct span cfi_expression(const struct cfi_section *section, int32_t value)
{
	struct cursor c = cursor_over(section->bytes);

	cursor_take(&c, (uint32_t)value);
	uint64_t len = cursor_uleb(&c);
	const void *bytes = cursor_take(&c, len);
	return (struct span){bytes, bytes ? (size_t)len : 0};
}

static int64_t factored(const struct cfi_cie *cie, int64_t value, struct cursor *c)
{
	int64_t product;

	if (__builtin_mul_overflow(value, cie->data_align, &product))
		c->bad = true;
	return c->bad ? 0 : product;
}

static void set_cfa(const struct cfi_section *section, struct cfi_state *state, uint64_t nr, int64_t offset,
		    struct cursor *c)
{
	if (nr >= section->arch->nr || offset < INT32_MIN || offset > INT32_MAX) {
		c->bad = true;
		return;
	}
	state->cfa_is_expression = false;
	state->cfa_register = (uint8_t)nr;
	state->cfa_value = (int32_t)offset;
}

/*
 * What holds before the first instruction of a CIE: what functions keep is unchanged, the caller's stack pointer is the
 * CFA, all else is lost.
 */
static void start_state(const struct unwind_arch *arch, struct cfi_state *ret)
{
	*ret = (struct cfi_state){.cfa_register = UINT8_MAX};
	for (unsigned i = 0; i < arch->nr; i++)
		put_register(ret, i, (struct cfi_register){.how = arch->kept >> i & 1 ? CFI_SAME : CFI_LOST});
	put_register(ret, arch->sp, (struct cfi_register){.how = CFI_VALUE});
}

/* An instruction that says how one register is restored. false: it is none of them. */
static bool do_register(struct cfi_run *run, uint8_t op, struct cursor *c)
{
	const struct cfi_cie *cie = run->cie;
	struct cfi_state *state = &run->state;
	const struct cfi_section *section = run->section;
	uint64_t nr = op & 0x3f;

	switch (op) {
	case DW_CFA_offset ... DW_CFA_offset + 0x3f:
		set_register(section, state, nr, CFI_STORED, factored(cie, (int64_t)cursor_uleb(c), c), c);
		return true;
	case DW_CFA_restore ... DW_CFA_restore + 0x3f: break;
	case DW_CFA_restore_extended: nr = cursor_uleb(c); break;
	case DW_CFA_offset_extended:
		nr = cursor_uleb(c);
		set_register(section, state, nr, CFI_STORED, factored(cie, (int64_t)cursor_uleb(c), c), c);
		return true;
	case DW_CFA_offset_extended_sf:
		nr = cursor_uleb(c);
		set_register(section, state, nr, CFI_STORED, factored(cie, cursor_sleb(c), c), c);
		return true;
	case DW_CFA_GNU_negative_offset_extended:
		nr = cursor_uleb(c);
		set_register(section, state, nr, CFI_STORED, factored(cie, -(int64_t)cursor_uleb(c), c), c);
		return true;
	case DW_CFA_val_offset:
		nr = cursor_uleb(c);
		set_register(section, state, nr, CFI_VALUE, factored(cie, (int64_t)cursor_uleb(c), c), c);
		return true;
	case DW_CFA_val_offset_sf:
		nr = cursor_uleb(c);
		set_register(section, state, nr, CFI_VALUE, factored(cie, cursor_sleb(c), c), c);
		return true;
	case DW_CFA_undefined: set_register(section, state, cursor_uleb(c), CFI_LOST, 0, c); return true;
	case DW_CFA_same_value: set_register(section, state, cursor_uleb(c), CFI_SAME, 0, c); return true;
	case DW_CFA_register: {
		nr = cursor_uleb(c);
		uint64_t other = cursor_uleb(c);
		bool followed = other < section->arch->nr;
		set_register(section, state, nr, followed ? CFI_REGISTER : CFI_LOST, followed ? (int64_t)other : 0, c);
		return true;
	}
	case DW_CFA_expression:
		nr = cursor_uleb(c);
		set_register(section, state, nr, CFI_EXPRESSION, take_expression(section, c), c);
		return true;
	case DW_CFA_val_expression:
		nr = cursor_uleb(c);
		set_register(section, state, nr, CFI_VALUE_EXPRESSION, take_expression(section, c), c);
		return true;
	default: return false;
	}
	if (nr < section->arch->nr)
		put_register(state, nr, cie->state.registers[nr]);
	return true;
}

/* An instruction that says what the CFA is. false: it is none of them. */
static bool do_cfa(struct cfi_run *run, uint8_t op, struct cursor *c)
{
	struct cfi_state *state = &run->state;
	uint64_t nr = state->cfa_register;
	int64_t offset = state->cfa_value;

	switch (op) {
	case DW_CFA_def_cfa:
		nr = cursor_uleb(c);
		offset = (int64_t)cursor_uleb(c);
		break;
	case DW_CFA_def_cfa_sf:
		nr = cursor_uleb(c);
		offset = factored(run->cie, cursor_sleb(c), c);
		break;
	case DW_CFA_def_cfa_register:
		nr = cursor_uleb(c);
		c->bad |= state->cfa_is_expression;
		break;
	case DW_CFA_def_cfa_offset:
		offset = (int64_t)cursor_uleb(c);
		c->bad |= state->cfa_is_expression;
		break;
	case DW_CFA_def_cfa_offset_sf:
		offset = factored(run->cie, cursor_sleb(c), c);
		c->bad |= state->cfa_is_expression;
		break;
	case DW_CFA_def_cfa_expression:
		offset = take_expression(run->section, c);
		if (offset > INT32_MAX)
			c->bad = true;
		state->cfa_is_expression = true;
		state->cfa_register = 0;
		state->cfa_value = (int32_t)offset;
		return true;
	default: return false;
	}
	set_cfa(run->section, state, nr, offset, c);
	return true;
}

/* An instruction that begins a row behind the current one. false: it is none of them. */
static bool do_advance(struct cfi_run *run, uint8_t op, struct cursor *c)
{
	uint64_t delta = op & 0x3f, next;

	switch (op) {
	case DW_CFA_advance_loc ... DW_CFA_advance_loc + 0x3f: break;
	case DW_CFA_advance_loc1: delta = cursor_u8(c); break;
	case DW_CFA_advance_loc2: delta = cursor_u16(c); break;
	case DW_CFA_advance_loc4: delta = cursor_u32(c); break;
	case DW_CFA_MIPS_advance_loc8: delta = cursor_u64(c); break;
	case DW_CFA_set_loc:
		next = take_address(run->section, c, run->cie->encoding);
		if (next < run->start)
			c->bad = true;
		else
			run->next = next;
		return true;
	default: return false;
	}
	if (__builtin_mul_overflow(delta, run->cie->code_align, &delta) ||
	    __builtin_add_overflow(run->start, delta, &next))
		c->bad = true;
	else
		run->next = next;
	return true;
}

static void do_other(struct cfi_run *run, uint8_t op, struct cursor *c)
{
	switch (op) {
	case DW_CFA_nop:
	case DW_CFA_AARCH64_NEGATE_RA_STATE: return; /* signatures are always taken off */
	case DW_CFA_GNU_args_size: cursor_uleb(c); return;
	case DW_CFA_remember_state:
		if (run->nr_remembered < CFI_REMEMBERED)
			run->remembered[run->nr_remembered++] = run->state;
		else
			c->bad = true;
		return;
	case DW_CFA_restore_state:
		if (run->nr_remembered)
			run->state = run->remembered[--run->nr_remembered];
		else
			c->bad = true;
		return;
	default: c->bad = true;
	}
}

/* Until a row of at least one byte is complete, or the instructions are. */
static void carry_out(struct cfi_run *run)
{
	struct cursor c = {.at = run->at, .end = run->end};

	while (cursor_left(&c) && !c.bad && run->next == run->start) {
		uint8_t op = cursor_u8(&c);
		if (!do_advance(run, op, &c) && !do_register(run, op, &c) && !do_cfa(run, op, &c))
			do_other(run, op, &c);
	}
	run->at = c.at;
	run->bad = c.bad;
}

/* ---- entries ---- */

struct entry {
	size_t start;       /* of the entry, in the section */
	struct cursor body; /* behind the length */
	bool is_64;
	uint64_t id;  /* of the CIE, or CIE_ID */
	size_t id_at; /* where that is, in the section */
};

/* The entry at that offset. false: none can be there. */
static bool read_entry(const struct cfi_section *section, size_t offset, struct entry *ret)
{
	struct cursor c = cursor_over(section->bytes);

	cursor_take(&c, offset);
	*ret = (struct entry){.start = offset};
	uint64_t len = cursor_u32(&c);
	if (len == UINT32_MAX) {
		ret->is_64 = true;
		len = cursor_u64(&c);
	}
	if (len > cursor_left(&c))
		return false;
	ret->body = (struct cursor){.at = c.at, .end = c.at + len};
	ret->id_at = offset_of(section, c.at);
	/* In .eh_frame it has always 4 bytes. */
	ret->id = ret->is_64 && !section->is_eh_frame ? cursor_u64(&ret->body) : cursor_u32(&ret->body);
	return !ret->body.bad; /* bad also when the length is missing or 0 */
}

static bool is_cie(const struct cfi_section *section, const struct entry *entry)
{
	if (section->is_eh_frame)
		return entry->id == 0;
	return entry->id == (entry->is_64 ? UINT64_MAX : UINT32_MAX);
}

/* "z", then letters that say what the augmentation data has. */
static void read_augmentation(const struct cfi_section *section, const char *letters, struct cursor *c,
			      struct cfi_cie *cie)
{
	if (!*letters)
		return;
	if (*letters != 'z') { /* its length is unknown, and so is where the instructions begin */
		c->bad = true;
		return;
	}
	cie->has_augmentation = true;
	uint64_t len = cursor_uleb(c);
	const uint8_t *data = cursor_take(c, len);
	if (!data)
		return;
	struct cursor d = {.at = data, .end = data + len};
	while (*++letters && !d.bad) {
		switch (*letters) {
		case 'R': cie->encoding = cursor_u8(&d); break;
		case 'L': cursor_u8(&d); break;
		case 'P': {
			uint8_t encoding = cursor_u8(&d);
			if (encoding != DW_EH_PE_omit)
				take_address(section, &d, encoding & 0x0f); /* not followed */
			break;
		}
		case 'S': cie->is_signal = true; break;
		case 'B': break; /* arm64: signed with the other key */
		default: return;
		}
	}
	c->bad |= d.bad;
}

static void decode_cie(const struct cfi_section *section, const struct entry *entry, struct cfi_cie *cie)
{
	struct cursor c = entry->body;
	uint8_t version = cursor_u8(&c);
	const char *letters = cursor_string(&c, strnlen((const char *)c.at, cursor_left(&c)) + 1);

	if (!letters || (version != 1 && version != 3 && version != 4))
		return;
	if (version == 4 && (cursor_u8(&c) != 8 /* bytes of an address */ || cursor_u8(&c) /* of a segment */))
		return;
	cie->encoding = DW_EH_PE_absptr;
	cie->code_align = cursor_uleb(&c);
	cie->data_align = cursor_sleb(&c);
	uint64_t ra = version == 1 ? cursor_u8(&c) : cursor_uleb(&c);
	read_augmentation(section, letters, &c, cie);
	if (c.bad || ra != section->arch->ra)
		return;
	struct cfi_run run = {.cie = cie, .at = c.at, .end = c.end, .section = section};
	start_state(section->arch, &run.state);
	cie->state = run.state;
	carry_out(&run);
	cie->state = run.state;
	cie->valid = !run.bad && run.next == run.start;
}

/* Where a CIE at that offset is kept: its index in reader->cies. */
static size_t cie_slot(uint32_t offset)
{
	return (offset >> 3 ^ offset >> 9) % CFI_CIE_CACHE;
}

/* NULL: there is none at that offset that can be understood. Valid until the next call. */
static const struct cfi_cie *find_cie(struct cfi_reader *reader, uint32_t offset)
{
	struct cfi_cie *cie = &reader->cies[cie_slot(offset)];
	struct entry entry;

	if (cie->offset != offset + 1) {
		/* Only those that are used in turn and do not fit into the cache are read more than once. */
		if (reader->cie_bytes > 16 * (uint64_t)reader->section.bytes.len + (1 << 20)) {
			reader->broken = true;
			return NULL;
		}
		memset(cie, 0, sizeof(*cie));
		cie->offset = offset + 1;
		if (read_entry(&reader->section, offset, &entry) && is_cie(&reader->section, &entry) &&
		    cursor_left(&entry.body) <= CFI_CIE_MAX_BYTES) {
			reader->cie_bytes += CFI_CIE_MAX_BYTES / 4 + cursor_left(&entry.body);
			decode_cie(&reader->section, &entry, cie);
		}
	}
	return cie->valid ? cie : NULL;
}

/* Of the CIE of that entry. false: it cannot be in the section. */
static bool cie_offset(const struct cfi_section *section, const struct entry *entry, uint32_t *ret)
{
	uint64_t offset = section->is_eh_frame ? entry->id_at - entry->id : entry->id;

	*ret = (uint32_t)offset;
	return offset < section->bytes.len; /* not before the section either: then the difference has wrapped */
}

static bool decode_fde(struct cfi_reader *reader, const struct entry *entry, struct cfi_fde *ret)
{
	const struct cfi_section *section = &reader->section;
	struct cursor c = entry->body;
	const struct cfi_cie *cie;
	uint32_t offset;

	if (!cie_offset(section, entry, &offset) || !(cie = find_cie(reader, offset)))
		return false;
	uint64_t start = take_address(section, &c, cie->encoding), bytes = take_encoded(&c, cie->encoding), end;
	if (cie->has_augmentation)
		cursor_take(&c, cursor_uleb(&c));
	if (c.bad || __builtin_add_overflow(start, bytes, &end))
		return false;
	*ret = (struct cfi_fde){.start = start,
				.end = end,
				.entry = (uint32_t)entry->start,
				.cie = offset,
				.at = (uint32_t)offset_of(section, c.at),
				.nr_bytes = (uint32_t)cursor_left(&c)};
	return true;
}

/*
 * The entry at reader->at, where it is as most are: of .eh_frame, with 4 bytes for its length and each address, of a
 * CIE that was read before. A table begins with a list of all entries, for which a sample waits. false: decode_fde()
 * tells what it is; of what this one takes it would tell the same.
 */
static bool decode_plain_fde(const struct cfi_reader *reader, struct cfi_fde *ret)
{
	enum { BEFORE_AUGMENTATION = 4 * sizeof(uint32_t) /* length, id, start, bytes */ };
	const struct cfi_section *section = &reader->section;
	const uint8_t *bytes = (const uint8_t *)section->bytes.ptr + reader->at;
	const size_t left = section->bytes.len - reader->at;
	uint32_t words[4];

	if (!section->is_eh_frame || left <= BEFORE_AUGMENTATION)
		return false;
	memcpy(words, bytes, sizeof(words));
	const uint64_t len = words[0] + sizeof(uint32_t);
	const uint64_t cie_at = reader->at + sizeof(uint32_t) - words[1];
	if (words[0] == UINT32_MAX || !words[1] || len > left || cie_at >= section->bytes.len)
		return false;
	const struct cfi_cie *cie = &reader->cies[cie_slot((uint32_t)cie_at)];
	const size_t instructions = BEFORE_AUGMENTATION + 1 + bytes[BEFORE_AUGMENTATION];
	if (cie->offset != (uint32_t)cie_at + 1 || !cie->valid || !cie->has_augmentation ||
	    cie->encoding != (DW_EH_PE_pcrel | DW_EH_PE_sdata4) || bytes[BEFORE_AUGMENTATION] >= 0x80 ||
	    instructions > len)
		return false;
	const uint64_t start = section->address + reader->at + 2 * sizeof(uint32_t) + (uint64_t)(int32_t)words[2];
	*ret = (struct cfi_fde){.start = start,
				.entry = (uint32_t)reader->at,
				.cie = (uint32_t)cie_at,
				.at = (uint32_t)(reader->at + instructions),
				.nr_bytes = (uint32_t)(len - instructions)};
	return !__builtin_add_overflow(start, (uint64_t)(int32_t)words[3], &ret->end);
}

bool cfi_next_fde(struct cfi_reader *reader, struct cfi_fde *ret)
{
	const struct cfi_section *section = &reader->section;
	struct entry entry;

	while (!reader->broken && reader->at < section->bytes.len) {
		if (decode_plain_fde(reader, ret)) {
			reader->at = ret->at + ret->nr_bytes;
			return true;
		}
		if (!read_entry(section, reader->at, &entry)) {
			uint32_t len = 1;
			if (section->bytes.len - reader->at >= sizeof(len))
				memcpy(&len, (const char *)section->bytes.ptr + reader->at, sizeof(len));
			reader->broken = len != 0; /* a length of 0 ends the section */
			return false;
		}
		reader->at = offset_of(section, entry.body.end);
		if (is_cie(section, &entry))
			continue;
		if (decode_fde(reader, &entry, ret))
			return true;
		reader->nr_skipped++;
	}
	return false;
}

bool cfi_fde_at(struct cfi_reader *reader, uint32_t offset, struct cfi_fde *ret)
{
	struct entry entry;

	return read_entry(&reader->section, offset, &entry) && decode_fde(reader, &entry, ret);
}

void cfi_run_begin(struct cfi_run *run, struct cfi_reader *reader, const struct cfi_fde *fde)
{
	const uint8_t *bytes = (const uint8_t *)reader->section.bytes.ptr + fde->at;

	run->cie = find_cie(reader, fde->cie);
	run->section = &reader->section;
	run->at = bytes;
	run->end = bytes + fde->nr_bytes;
	run->start = run->next = fde->start;
	run->limit = fde->end;
	run->nr_remembered = 0;
	run->bad = !run->cie;
	if (run->cie)
		run->state = run->cie->state;
}

bool cfi_run_next(struct cfi_run *run)
{
	run->start = run->next;
	if (run->bad || run->start >= run->limit)
		return false;
	carry_out(run);
	if (run->bad)
		return false;
	if (run->next == run->start || run->next > run->limit)
		run->next = run->limit;
	return true;
}
