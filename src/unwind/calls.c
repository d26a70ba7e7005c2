/* SPDX-License-Identifier: MIT */
#include "unwind/calls.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unwind/object.h"

enum {
	NR_CALLS = 4096, /* a power of two */
	MOST_CALLS = NR_CALLS / 4 * 3,
	DIRECT_BYTES = 5,   /* e8, a distance of 32 bits */
	INDIRECT_BYTES = 7, /* the longest that has no prefix behind its first byte */
	MOST_FUNCTION_BYTES = 4096,
	FIRST_BYTES = 8, /* of a function: `endbr64; bnd jmp *rel32` begins with seven that tell */
};

/* Places that are none. */
static const uint32_t nothing = UINT32_MAX, not_read = UINT32_MAX - 1;

/* In each entry, above: the return address, relative to the table's base; below: the place that was called. 0: empty.
 */
struct calls {
	_Atomic unsigned nr; /* there are always empty ones: threads that add one at a time are fewer than a quarter */
	atomic_bool lacks;   /* one has `not_read` */
	_Atomic uint64_t entries[NR_CALLS];
};

static uint64_t entry_of(uint64_t key, uint32_t place)
{
	return key << 32 | place;
}

/* Where the entry of a key is, or would be: then *ret is 0. */
static _Atomic uint64_t *find_entry(struct calls *calls, uint64_t key, uint64_t *ret)
{
	for (uint64_t at = key * 0x9e3779b97f4a7c15ull >> 32;; at++) {
		_Atomic uint64_t *entry = &calls->entries[at % NR_CALLS];
		*ret = atomic_load_explicit(entry, memory_order_relaxed);
		if (!*ret || *ret >> 32 == key)
			return entry;
	}
}

/* NULL: there are none yet, or no memory for them. */
static struct calls *calls_of(struct unwind_object *object, bool never_waits)
{
	struct calls *calls = atomic_load_explicit(&object->calls, memory_order_acquire), *other = NULL;

	if (calls || never_waits)
		return calls;
	calls = calloc(1, sizeof(*calls));
	if (calls && !atomic_compare_exchange_strong(&object->calls, &other, calls)) {
		free(calls);
		calls = other;
	}
	return calls;
}

enum called calls_find(struct unwind_object *object, uint64_t return_address, bool never_waits, uint32_t *ret_place)
{
	const uint64_t key = return_address - object->table->base;
	uint64_t found;

	if (!object->has_file || !key || key > UINT32_MAX)
		return CALLED_UNKNOWN;
	struct calls *calls = calls_of(object, never_waits);
	if (!calls)
		return never_waits ? CALLED_NOT_READ : CALLED_UNKNOWN;
	_Atomic uint64_t *entry = find_entry(calls, key, &found);
	while (!found) {
		if (atomic_load_explicit(&calls->nr, memory_order_relaxed) >= MOST_CALLS)
			return CALLED_UNKNOWN;
		if (never_waits)
			return CALLED_NOT_READ;
		if (atomic_compare_exchange_strong(entry, &found, entry_of(key, not_read))) {
			atomic_fetch_add(&calls->nr, 1);
			atomic_store(&calls->lacks, true); /* behind the entry: calls_read() */
			return CALLED_NOT_READ;
		}
		entry = find_entry(calls, key, &found);
	}
	*ret_place = (uint32_t)found;
	return *ret_place == not_read ? CALLED_NOT_READ : *ret_place == nothing ? CALLED_UNKNOWN : CALLED_KNOWN;
}

/* NULL: no code is there. */
static const struct table_segment *segment_at(const struct unwind_table *table, uint64_t address)
{
	for (unsigned i = 0; i < table->nr_segments; i++)
		if (address - table->segments[i].address < table->segments[i].bytes)
			return &table->segments[i];
	return NULL;
}

/* Code, as far as the file and its segment have it. How many bytes; the others are 0. */
static size_t read_code(const struct unwind_table *table, int fd, uint64_t address, uint8_t *to, size_t bytes)
{
	const struct table_segment *segment = segment_at(table, address);

	memset(to, 0, bytes);
	if (!segment)
		return 0;
	const uint64_t at = address - segment->address, left = segment->bytes - at, offset = segment->offset + at;
	const ssize_t nr = offset > INT64_MAX ? 0 : pread(fd, to, left < bytes ? left : bytes, (off_t)offset);
	return nr > 0 ? (size_t)nr : 0;
}

/* Intel SDM, "CALL": ff with 2 as the second part of the byte behind; 2, 3, 4, 6 or 7 bytes long. */
static bool may_be_indirect(const uint8_t *end)
{
	static const uint8_t lengths[] = {2, 3, 4, 6, 7};

	for (size_t i = 0; i < sizeof(lengths); i++)
		if (end[-lengths[i]] == 0xff && (end[1 - lengths[i]] >> 3 & 7) == 2)
			return true;
	return false;
}

/* Code that only jumps to other code, as an entry of a PLT does. */
static bool begins_with_jump(const uint8_t *code)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

	code += memcmp(code, endbr64, sizeof(endbr64)) ? 0 : sizeof(endbr64);
	code += *code == 0xf2; /* bnd */
	return code[0] == 0xe9 || code[0] == 0xeb || (code[0] == 0xff && (code[1] >> 3 & 7) == 4);
}

/* By what may be a jump or call at that byte of a function, whose code begins at `start`. */
static bool may_leave_at(struct unwind_table *table, const uint8_t *code, size_t bytes, size_t at, uint64_t start)
{
	const uint8_t first = code[at], second = at + 1 < bytes ? code[at + 1] : 0;
	const bool is_short = first == 0xeb || (first & 0xf0) == 0x70 || (first & 0xfc) == 0xe0;
	const size_t opcode_bytes = 1 + (first == 0x0f && (second & 0xf0) == 0x80);
	int32_t distance;

	if (first == 0xff && (second >> 3 & 6) == 4)
		return true;
	if (is_short) {
		if (at + 2 >= bytes && first != 0xeb) /* something is behind a jump that depends on a condition */
			return false;
		const uint64_t target = at + 2 + (uint64_t)(int64_t)(int8_t)second;
		return target >= bytes && table_may_begin_at(table, start + target);
	}
	if ((first != 0xe8 && first != 0xe9 && opcode_bytes == 1) || bytes - at < opcode_bytes + sizeof(distance))
		return false;
	memcpy(&distance, code + at + opcode_bytes, sizeof(distance));
	const uint64_t target = at + opcode_bytes + sizeof(distance) + (uint64_t)(int64_t)distance;
	if (first == 0xe8) /* a return address may be changed there: gcc's -mindirect-branch=thunk */
		return target && target < bytes;
	return target >= bytes && segment_at(table, start + target);
}

/*
 * Whether the function at that address, which has CFI, may end with a jump to other code. Any byte of it may be one: in
 * most functions none is, even so, and of these it is known that no other code has their return address.
 */
static bool may_be_left(struct unwind_table *table, int fd, uint64_t address)
{
	uint8_t code[MOST_FUNCTION_BYTES];
	uint64_t start, end;

	if (!table_function_at(table, address, &start, &end) || end - start > sizeof(code) ||
	    end - start < DIRECT_BYTES || read_code(table, fd, start, code, end - start) < end - start)
		return true;
	const size_t bytes = end - start;
	if (code[bytes - 1] != 0xc3 && code[bytes - DIRECT_BYTES] != 0xe8) /* `ret`, or a call that does not return */
		return true;
	for (size_t i = 0; i < bytes; i++)
		if (may_leave_at(table, code, bytes, i, start))
			return true;
	return false;
}

/* The place that is called before that address. */
static uint32_t read_call(struct unwind_table *table, int fd, uint64_t return_address)
{
	uint8_t code[INDIRECT_BYTES], first[FIRST_BYTES];
	int32_t distance;

	if (read_code(table, fd, return_address - sizeof(code), code, sizeof(code)) < sizeof(code) ||
	    code[INDIRECT_BYTES - DIRECT_BYTES] != 0xe8 || may_be_indirect(code + sizeof(code)))
		return nothing;
	memcpy(&distance, code + INDIRECT_BYTES - DIRECT_BYTES + 1, sizeof(distance));
	const uint64_t target = return_address + (uint64_t)(int64_t)distance;
	if (!read_code(table, fd, target, first, sizeof(first)) || begins_with_jump(first))
		return nothing;
	const uint32_t place = table_place(table, target);
	return !(place & TABLE_WITHOUT_CFI) && may_be_left(table, fd, target) ? nothing : place;
}

bool calls_read(struct unwind_object *object, int fd)
{
	struct calls *calls = atomic_load_explicit(&object->calls, memory_order_acquire);

	if (!calls || !atomic_exchange(&calls->lacks, false)) /* first: what comes later sets it again */
		return false;
	for (size_t i = 0; i < NR_CALLS; i++) {
		const uint64_t entry = atomic_load(&calls->entries[i]), key = entry >> 32;
		if (!entry || (uint32_t)entry != not_read)
			continue;
		uint32_t place = fd < 0 ? nothing : read_call(object->table, fd, object->table->base + key);
		atomic_store(&calls->entries[i], entry_of(key, place));
	}
	return true;
}

bool unwind_object_lacks_code(const struct unwind_object *object)
{
	const struct calls *calls = atomic_load_explicit(&object->calls, memory_order_acquire);

	return calls && atomic_load(&calls->lacks);
}
