/* SPDX-License-Identifier: MIT */
#include "unwind/cfi_rows.h"

#include <dwarf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"

enum { FIRST_SLOTS = 256, NR_CHAINS = 256, MAX_LOADS = 16, MAX_OPS = 64 };

struct slot {
	uint64_t key; /* offset + 1; 0: empty */
	const struct cfi_row *row;
};

/* Many addresses have one and the same row. */
struct kept {
	struct kept *next;
	struct cfi_row row;
};

struct cfi_rows {
	int fd;
	Elf *elf;
	Dwarf_CFI *cfi; /* the object's */
	GElf_Phdr loads[MAX_LOADS];
	size_t nr_loads;
	struct slot *slots; /* open addressing, at most half full */
	size_t nr_slots, nr;
	struct kept *kept[NR_CHAINS];
	struct pool pool; /* rows and operations */
};

void cfi_rows_close(struct cfi_rows *rows)
{
	if (!rows)
		return;
	if (rows->cfi)
		dwarf_cfi_end(rows->cfi);
	elf_end(rows->elf);
	close(rows->fd);
	free(rows->slots);
	pool_fini(&rows->pool);
	free(rows);
}

static bool read_loads(struct cfi_rows *rows)
{
	GElf_Ehdr header;
	GElf_Phdr load;
	size_t nr;

	if (!gelf_getehdr(rows->elf, &header) || header.e_machine != EM_X86_64 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || elf_getphdrnum(rows->elf, &nr))
		return false;
	for (size_t i = 0; i < nr && rows->nr_loads < MAX_LOADS; i++)
		if (gelf_getphdr(rows->elf, (int)i, &load) && load.p_type == PT_LOAD)
			rows->loads[rows->nr_loads++] = load;
	return true;
}

struct cfi_rows *cfi_rows_open(int fd)
{
	struct cfi_rows *rows = calloc(1, sizeof(*rows));

	if (!rows) {
		close(fd);
		return NULL;
	}
	elf_version(EV_CURRENT);
	rows->fd = fd;
	rows->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	rows->slots = calloc(FIRST_SLOTS, sizeof(*rows->slots));
	rows->nr_slots = FIRST_SLOTS;
	if (rows->elf && rows->slots && read_loads(rows))
		rows->cfi = dwarf_getcfi_elf(rows->elf);
	if (!rows->cfi) {
		cfi_rows_close(rows);
		return NULL;
	}
	return rows;
}

/* NULL: too many; out of memory. */
static const struct cfi_ops *keep_ops(struct cfi_rows *rows, const Dwarf_Op *ops, size_t nr)
{
	struct cfi_ops *kept = nr <= MAX_OPS ? pool_take(&rows->pool, sizeof(*kept) + nr * sizeof(*ops)) : NULL;

	if (!kept)
		return NULL;
	kept->nr = nr;
	memcpy(kept->at, ops, nr * sizeof(*ops));
	return kept;
}

static bool is_offset(const Dwarf_Op *op)
{
	return op->atom == DW_OP_plus_uconst && (Dwarf_Sword)op->number >= INT32_MIN &&
	       (Dwarf_Sword)op->number <= INT32_MAX;
}

/* *ret is all zeroes. The forms that libdw gives to the simple rules of DWARF (dwarf_frame_register in libdw.h); others
 * stay operations. */
static bool read_rule(struct cfi_rows *rows, const Dwarf_Op *ops, size_t nr, struct cfi_rule *ret)
{
	size_t at = 1;

	if (nr == 1 && ops[0].atom == DW_OP_regx && ops[0].number < CFI_REGISTERS) {
		ret->how = CFI_REGISTER;
		ret->offset = (int32_t)ops[0].number;
		return true;
	}
	if (ops[0].atom == DW_OP_call_frame_cfa) {
		int32_t offset = at < nr && is_offset(&ops[at]) ? (int32_t)(Dwarf_Sword)ops[at++].number : 0;
		bool value = at < nr && ops[at].atom == DW_OP_stack_value;
		if (at + value == nr) {
			ret->how = value ? CFI_VALUE : CFI_STORED;
			ret->offset = offset;
			return true;
		}
	}
	ret->how = CFI_OPS;
	ret->ops = keep_ops(rows, ops, nr);
	return ret->ops;
}

/* *ret is all zeroes. */
static bool read_register(struct cfi_rows *rows, Dwarf_Frame *frame, unsigned which, struct cfi_rule *ret)
{
	Dwarf_Op room[3], *ops;
	size_t nr;

	if (dwarf_frame_register(frame, (int)which, room, &ops, &nr))
		ret->how = CFI_UNDEFINED;
	else if (nr)
		return read_rule(rows, ops, nr, ret);
	else
		ret->how = ops ? CFI_UNDEFINED : CFI_SAME;
	return true;
}

static bool read_cfa(struct cfi_rows *rows, Dwarf_Frame *frame, struct cfi_row *row)
{
	Dwarf_Op *ops;
	size_t nr;

	if (dwarf_frame_cfa(frame, &ops, &nr) || !nr)
		return false;
	Dwarf_Sword offset = (Dwarf_Sword)ops[0].number2;
	if (nr == 1 && ops[0].atom == DW_OP_bregx && ops[0].number < CFI_REGISTERS && offset >= INT32_MIN &&
	    offset <= INT32_MAX) {
		row->cfa_register = (uint8_t)ops[0].number;
		row->cfa_offset = (int32_t)offset;
		return true;
	}
	row->cfa = keep_ops(rows, ops, nr);
	return row->cfa;
}

static bool read_frame(struct cfi_rows *rows, Dwarf_Frame *frame, struct cfi_row *row)
{
	if (dwarf_frame_info(frame, NULL, NULL, &row->signal) != CFI_RETURN || !read_cfa(rows, frame, row))
		return false;
	for (unsigned i = 0; i < CFI_REGISTERS; i++)
		if (!read_register(rows, frame, i, &row->registers[i]))
			return false;
	return true;
}

/* The row as a pointer that stays valid. NULL: out of memory. */
static const struct cfi_row *keep_row(struct cfi_rows *rows, const struct cfi_row *row)
{
	uint64_t hash = (uint64_t)row->cfa_register << 32 ^ (uint32_t)row->cfa_offset;

	for (unsigned i = 0; i < CFI_REGISTERS; i++)
		hash = (hash ^ row->registers[i].how ^ (uint64_t)row->registers[i].offset << 8) * 0x9e3779b97f4a7c15ull;
	struct kept **chain = &rows->kept[hash >> 32 & (NR_CHAINS - 1)];
	for (struct kept *kept = *chain; kept; kept = kept->next)
		if (memcmp(&kept->row, row, sizeof(*row)) == 0)
			return &kept->row;
	struct kept *kept = pool_take(&rows->pool, sizeof(*kept));
	if (!kept)
		return NULL;
	memcpy(&kept->row, row, sizeof(*row));
	kept->next = *chain;
	*chain = kept;
	return &kept->row;
}

/* NULL: the table has no entry, or one that does not fit into a row. */
static const struct cfi_row *read_row(struct cfi_rows *rows, uint64_t offset)
{
	for (size_t i = 0; i < rows->nr_loads; i++) {
		const GElf_Phdr *load = &rows->loads[i];
		Dwarf_Frame *frame;
		struct cfi_row row;
		if (offset < load->p_offset || offset - load->p_offset >= load->p_filesz)
			continue;
		if (dwarf_cfi_addrframe(rows->cfi, offset - load->p_offset + load->p_vaddr, &frame))
			return NULL;
		memset(&row, 0, sizeof(row)); /* padding, too: rows are compared as bytes */
		bool read = read_frame(rows, frame, &row);
		free(frame);
		return read ? keep_row(rows, &row) : NULL;
	}
	return NULL;
}

static struct slot *slot_of(struct slot *slots, size_t nr_slots, uint64_t key)
{
	size_t at = key * 0x9e3779b97f4a7c15ull >> 32 & (nr_slots - 1);

	while (slots[at].key && slots[at].key != key)
		at = (at + 1) & (nr_slots - 1);
	return &slots[at];
}

static bool grow(struct cfi_rows *rows)
{
	size_t nr_slots = rows->nr_slots * 2;
	struct slot *slots = calloc(nr_slots, sizeof(*slots));

	for (size_t i = 0; slots && i < rows->nr_slots; i++)
		if (rows->slots[i].key)
			*slot_of(slots, nr_slots, rows->slots[i].key) = rows->slots[i];
	if (!slots)
		return false;
	free(rows->slots);
	rows->slots = slots;
	rows->nr_slots = nr_slots;
	return true;
}

const struct cfi_row *cfi_rows_find(struct cfi_rows *rows, uint64_t offset)
{
	struct slot *slot = slot_of(rows->slots, rows->nr_slots, offset + 1);

	if (slot->key || offset == UINT64_MAX)
		return slot->row;
	if (rows->nr * 2 >= rows->nr_slots) {
		if (!grow(rows))
			return NULL;
		slot = slot_of(rows->slots, rows->nr_slots, offset + 1);
	}
	*slot = (struct slot){offset + 1, read_row(rows, offset)};
	rows->nr++;
	return slot->row;
}
