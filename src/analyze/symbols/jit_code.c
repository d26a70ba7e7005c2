/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/jit_code.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/hash_table.h"
#include "base/pool.h"
#include "base/span.h"

enum {
	DUMP_MAGIC = 0x4a695444,
	DUMP_MAX_BYTES = 1 << 30,
	MAX_ENTRIES = 1 << 24,
	FRAMES_MAX_BYTES = 1 << 20, /* of one function */
	ARCH_TIMESTAMPS = 1,        /* flag: of a counter of the CPU */
	/* V8 adds the bytes of an ELF header to the addresses of its lines, for perf inject to take them off. */
	ELF_HEADER_BYTES = 0x40,
};

enum record_type { CODE_LOAD, CODE_MOVE, CODE_DEBUG_INFO, CODE_CLOSE, CODE_UNWINDING_INFO };

struct dump_header {
	uint32_t magic, version, total_size, elf_machine, pad, pid;
	uint64_t timestamp, flags;
};

struct record_header {
	uint32_t type, total_size;
	uint64_t timestamp;
};

struct jit_line {
	uint64_t offset; /* in the code, of its first byte */
	uint32_t line;
	const char *path; /* in the pool */
};

struct jit_lines {
	struct jit_line *at; /* in the pool */
	size_t nr;
};

/* What records before the one that loads a function say of it. */
struct jit_about {
	struct jit_lines lines;
	struct span frames; /* in the pool */
};

/* One function in one place. */
struct jit_entry {
	struct symbol symbol; /* first: symbols that are found are entries */
	int64_t from_ns, to_ns;
	uint64_t max_end; /* of all entries up to this one, by start */
	struct jit_about about;
	uint64_t order;
	uint64_t index; /* its number in the dump */
};

struct jit_code {
	struct pool pool;
	struct jit_entry **entries; /* heap; in the pool; by start, then as they came */
	size_t nr, room;
	uint64_t shift; /* of the addresses of lines */
	bool timed;     /* by CLOCK_MONOTONIC */
	bool has_frames;
	struct hash_table now; /* while it is read: by a hash of number and place of the code, the newest entry */
};

static struct jit_entry *add_entry(struct jit_code *code, uint64_t start, uint64_t bytes, int64_t time_ns,
				   const char *name)
{
	struct jit_entry *entry = pool_take(&code->pool, sizeof(*entry));

	if (!entry || array_room_up_to(code->entries, code->nr, code->room, MAX_ENTRIES))
		return NULL;
	entry->symbol = (struct symbol){.start = start, .end = start + bytes, .name = name, .by_name = true};
	entry->from_ns = time_ns;
	entry->to_ns = INT64_MAX;
	entry->order = code->nr;
	code->entries[code->nr++] = entry;
	return entry;
}

static uint64_t place_key(uint64_t index, uint64_t start)
{
	return hash_mix(hash_mix(0, index), start);
}

/* Where another one has the same key, the one before is forgotten: that happens in a made-up dump only. */
static int note_place(struct jit_code *code, uint64_t index, struct jit_entry *entry)
{
	uint64_t key = place_key(index, entry->symbol.start);
	struct hash_slot *slot = hash_table_find(&code->now, key);

	entry->index = index;
	if (!slot)
		return hash_table_add(&code->now, key, entry);
	slot->item = entry;
	return 0;
}

/* NULL: the dump has not loaded that code. */
static struct jit_entry *find_place(const struct jit_code *code, uint64_t index, uint64_t start)
{
	struct jit_entry *entry = hash_table_find_item(&code->now, place_key(index, start));

	return entry && entry->index == index && entry->symbol.start == start ? entry : NULL;
}

static int read_load(struct jit_code *code, struct cursor *at, int64_t time_ns, const struct jit_about *about)
{
	cursor_take(at, 2 * sizeof(uint32_t) + sizeof(uint64_t)); /* pid, tid, vma */
	uint64_t start = cursor_u64(at), bytes = cursor_u64(at), index = cursor_u64(at);
	const char *name = cursor_string(at, cursor_left(at));
	if (!name || !bytes || bytes > UINT64_MAX - start)
		return -EBADMSG;
	AUTO_FREE char *readable = symbol_is_mangled(name) ? symbol_demangle(name) : NULL;
	const char *shown = readable ? readable : name;
	const char *copy = pool_text(&code->pool, shown, strlen(shown));
	struct jit_entry *entry = copy ? add_entry(code, start, bytes, time_ns, copy) : NULL;
	if (!entry)
		return -ENOMEM;
	entry->about = *about;
	return note_place(code, index, entry);
}

/* The code stays where it is in the list, and goes on from here in another place. */
static int read_move(struct jit_code *code, struct cursor *at, int64_t time_ns)
{
	cursor_take(at, 2 * sizeof(uint32_t) + sizeof(uint64_t)); /* pid, tid, vma */
	uint64_t old = cursor_u64(at), start = cursor_u64(at), bytes = cursor_u64(at), index = cursor_u64(at);
	if (at->bad || !bytes || bytes > UINT64_MAX - start)
		return -EBADMSG;
	struct jit_entry *from = find_place(code, index, old);
	if (!from)
		return 0;
	struct jit_entry *entry = add_entry(code, start, bytes, time_ns, from->symbol.name);
	if (!entry)
		return -ENOMEM;
	from->to_ns = time_ns;
	entry->about = from->about;
	return note_place(code, index, entry);
}

/* Up to its NUL. NULL: there is none. */
static const char *take_text(struct cursor *at)
{
	const char *end = at->bad ? NULL : memchr(at->at, '\0', cursor_left(at));

	return end ? cursor_take(at, (uint64_t)(end - (const char *)at->at) + 1) : NULL;
}

/* The lines of the code that the dump loads next. */
static int read_lines(struct jit_code *code, struct cursor *at, struct jit_lines *ret)
{
	enum { LEAST_BYTES = 17 }; /* of one */
	uint64_t start = cursor_u64(at), nr = cursor_u64(at);
	const char *path = "";

	if (at->bad || nr > cursor_left(at) / LEAST_BYTES)
		return -EBADMSG;
	struct jit_line *lines = pool_take(&code->pool, nr * sizeof(*lines) + 1);
	if (!lines)
		return -ENOMEM;
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t address = cursor_u64(at);
		uint32_t line = cursor_u32(at);
		cursor_u32(at); /* discriminator */
		const char *name = take_text(at);
		if (!name)
			return -EBADMSG;
		if (strcmp(name, "\xff") != 0) /* else it is the one before */
			path = pool_text(&code->pool, name, strlen(name));
		if (!path)
			return -ENOMEM;
		lines[i] = (struct jit_line){address - start, line, path};
	}
	*ret = (struct jit_lines){lines, nr};
	return 0;
}

/* Likewise. The header of a table for searching comes last, and is not needed. */
static int read_frames(struct jit_code *code, struct cursor *at, struct span *ret)
{
	uint64_t bytes = cursor_u64(at), header_bytes = cursor_u64(at);

	cursor_u64(at); /* bytes that are mapped */
	if (header_bytes > bytes)
		return -EBADMSG;
	const void *frames = cursor_take(at, bytes - header_bytes);
	if (!frames || bytes - header_bytes > FRAMES_MAX_BYTES)
		return -EBADMSG;
	void *copy = pool_take(&code->pool, bytes - header_bytes + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, frames, bytes - header_bytes);
	*ret = (struct span){copy, bytes - header_bytes};
	code->has_frames = true;
	return 0;
}

static int read_records(struct jit_code *code, struct cursor *at)
{
	struct jit_about about = {0};
	int err = 0;

	while (err != -ENOMEM) { /* what is broken is left out */
		struct record_header header;
		struct cursor body;
		cursor_copy(at, &header, sizeof(header));
		if (at->bad || header.total_size < sizeof(header))
			return err; /* the end, or still being written */
		const void *bytes = cursor_take(at, header.total_size - sizeof(header));
		if (!bytes)
			return err;
		body = cursor_over((struct span){bytes, header.total_size - sizeof(header)});
		int64_t time_ns = header.timestamp < INT64_MAX ? (int64_t)header.timestamp : INT64_MAX - 1;
		switch (header.type) {
		case CODE_LOAD:
			err = read_load(code, &body, time_ns, &about);
			about = (struct jit_about){0}; /* of this function, also if its record is broken */
			break;
		case CODE_MOVE: err = read_move(code, &body, time_ns); break;
		case CODE_DEBUG_INFO: err = read_lines(code, &body, &about.lines); break;
		case CODE_UNWINDING_INFO: err = read_frames(code, &body, &about.frames); break;
		case CODE_CLOSE: return err;
		default: break; /* of a newer version */
		}
	}
	return err;
}

static int by_start(const void *a, const void *b)
{
	const struct jit_entry *x = *(struct jit_entry *const *)a, *y = *(struct jit_entry *const *)b;

	if (x->symbol.start != y->symbol.start)
		return x->symbol.start < y->symbol.start ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static void note_shift(struct jit_code *code)
{
	for (size_t i = 0; i < code->nr; i++) {
		const struct jit_entry *entry = code->entries[i];
		uint64_t bytes = entry->symbol.end - entry->symbol.start;
		for (size_t k = 0; k < entry->about.lines.nr; k++)
			if (entry->about.lines.at[k].offset >= bytes &&
			    entry->about.lines.at[k].offset - bytes < ELF_HEADER_BYTES)
				code->shift = ELF_HEADER_BYTES;
	}
}

static void prepare(struct jit_code *code)
{
	uint64_t max_end = 0;

	note_shift(code);
	if (code->nr)
		qsort(code->entries, code->nr, sizeof(*code->entries), by_start);
	for (size_t i = 0; i < code->nr; i++) {
		if (code->entries[i]->symbol.end > max_end)
			max_end = code->entries[i]->symbol.end;
		code->entries[i]->max_end = max_end;
	}
}

int jit_code_read(int fd, struct jit_code **ret)
{
	AUTO_BUF struct buf bytes = {0};
	struct dump_header header;
	int err = fd_slurp_rest(fd, DUMP_MAX_BYTES, &bytes);

	if (err)
		return err;
	struct cursor at = cursor_over(buf_span(&bytes));
	cursor_copy(&at, &header, sizeof(header));
	if (at.bad || header.magic != DUMP_MAGIC || header.version < 1 || header.total_size < sizeof(header))
		return -EBADMSG;
	cursor_take(&at, header.total_size - sizeof(header));
	struct jit_code *code = calloc(1, sizeof(*code));
	if (!code)
		return -ENOMEM;
	code->timed = !(header.flags & ARCH_TIMESTAMPS);
	err = read_records(code, &at);
	hash_table_fini(&code->now);
	if (err == -ENOMEM) {
		jit_code_free(code);
		return err;
	}
	prepare(code);
	*ret = code;
	return 0;
}

void jit_code_free(struct jit_code *code)
{
	if (!code)
		return;
	pool_fini(&code->pool);
	free(code->entries);
	free(code);
}

/* The first entry that begins behind the address. */
static size_t entries_behind(const struct jit_code *code, uint64_t address)
{
	size_t low = 0, high = code->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (code->entries[middle]->symbol.start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Any that has one of the bytes of `of` since a time after `since_ns`: *ret_ns, the first. */
static void find_next(const struct jit_code *code, const struct jit_entry *of, int64_t *ret_ns)
{
	for (size_t i = entries_behind(code, of->symbol.end - 1); i-- > 0;) {
		const struct jit_entry *entry = code->entries[i];
		if (entry->max_end <= of->symbol.start)
			break;
		if (entry != of && entry->symbol.end > of->symbol.start && entry->symbol.end > entry->symbol.start &&
		    (entry->from_ns > of->from_ns || (entry->from_ns == of->from_ns && entry->order > of->order)) &&
		    entry->from_ns < *ret_ns)
			*ret_ns = entry->from_ns;
	}
}

/* By all that was ever there: one name, or none. */
static const struct symbol *find_any_time(const struct jit_code *code, uint64_t address)
{
	const struct symbol *found = NULL;

	for (size_t i = entries_behind(code, address); i-- > 0;) {
		const struct jit_entry *entry = code->entries[i];
		if (entry->max_end <= address)
			break;
		if (entry->symbol.end <= address)
			continue;
		if (found && strcmp(found->name, entry->symbol.name) != 0)
			return NULL;
		found = &entry->symbol;
	}
	return found;
}

const struct symbol *jit_code_find(const struct jit_code *code, uint64_t address, int64_t time_ns, int64_t *ret_from,
				   int64_t *ret_to)
{
	const struct jit_entry *found = NULL;

	*ret_from = INT64_MIN;
	*ret_to = INT64_MAX;
	if (!code->timed || time_ns == JIT_ANY_TIME)
		return find_any_time(code, address);
	for (size_t i = entries_behind(code, address); i-- > 0;) {
		const struct jit_entry *entry = code->entries[i];
		if (entry->max_end <= address)
			break;
		if (entry->symbol.end <= address || entry->from_ns > time_ns)
			continue;
		if (!found || entry->from_ns > found->from_ns ||
		    (entry->from_ns == found->from_ns && entry->order > found->order))
			found = entry;
	}
	int64_t to = found ? found->to_ns : time_ns;
	if (found)
		find_next(code, found, &to);
	if (!found || to <= time_ns) { /* of what came there instead nothing is at this address */
		*ret_from = time_ns;
		*ret_to = time_ns + 1;
		return NULL;
	}
	*ret_from = found->from_ns;
	*ret_to = to;
	return &found->symbol;
}

struct span jit_code_frames(const struct symbol *symbol)
{
	return ((const struct jit_entry *)symbol)->about.frames;
}

bool jit_code_has_frames(const struct jit_code *code)
{
	return code->has_frames;
}

const char *jit_code_line(const struct jit_code *code, const struct symbol *symbol, uint64_t address,
			  unsigned *ret_line)
{
	const struct jit_entry *entry = (const struct jit_entry *)symbol;
	const struct jit_line *found = NULL;
	uint64_t offset = address - symbol->start + code->shift;

	for (size_t i = 0; i < entry->about.lines.nr; i++) {
		const struct jit_line *line = &entry->about.lines.at[i];
		if (line->offset <= offset && (!found || line->offset >= found->offset))
			found = line;
	}
	if (!found)
		return NULL;
	*ret_line = found->line;
	return found->path;
}
