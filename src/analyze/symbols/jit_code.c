/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/jit_code.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/hash_table.h"
#include "base/pool.h"
#include "base/span.h"

enum {
	DUMP_MAGIC = 0x4a695444,
	FRAMES_MAX_BYTES = 1 << 20, /* of one function */
	MOST_STEPS = 1000,          /* of one search */
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
	uint32_t order;   /* in the dump */
	const char *path; /* in the pool */
};

struct jit_lines {
	struct jit_line *at; /* in the pool; by offset, then as they came */
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
	/* Of the entries in the part of the list that a search halves at this one. */
	uint64_t max_end;
	int64_t min_from_ns, max_to_ns;
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

	if (!entry || array_room_up_to(code->entries, code->nr, code->room, JIT_MAX_FUNCTIONS))
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
		return code->nr == JIT_MAX_FUNCTIONS ? -EFBIG : -ENOMEM;
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
		return code->nr == JIT_MAX_FUNCTIONS ? -EFBIG : -ENOMEM;
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

static int by_offset(const void *a, const void *b)
{
	const struct jit_line *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* How many of them begin before the offset. */
static size_t lines_before(const struct jit_lines *lines, uint64_t offset)
{
	return partition_point(lines->nr, i, lines->at[i].offset < offset);
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
		lines[i] = (struct jit_line){address - start, line, (uint32_t)i, path};
	}
	if (nr)
		qsort(lines, nr, sizeof(*lines), by_offset);
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

	while (err != -ENOMEM && err != -EFBIG) { /* what is broken is left out */
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
	for (size_t i = 0; i < code->nr && !code->shift; i++) {
		const struct jit_entry *entry = code->entries[i];
		const struct jit_lines *lines = &entry->about.lines;
		uint64_t bytes = entry->symbol.end - entry->symbol.start;
		size_t behind = lines_before(lines, bytes);
		if (behind < lines->nr && lines->at[behind].offset - bytes < ELF_HEADER_BYTES)
			code->shift = ELF_HEADER_BYTES;
	}
}

/* How many begin before the address. */
static size_t entries_before(const struct jit_code *code, uint64_t address)
{
	return partition_point(code->nr, i, code->entries[i]->symbol.start < address);
}

/*
 * For each entry the earliest time of those that were noted, from the latest to the earliest: a tree of ranges of
 * entries, whose root is node 1 and whose leaves are the entries. Two pieces of code overlap if and only if an entry
 * begins in both of them.
 */
struct first_times {
	struct {
		int64_t first_ns; /* of any entry of the node */
		int64_t all_ns;   /* noted for all of them at once */
	} * nodes;                /* heap */
	size_t nr_leaves;         /* a power of two */
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t first_time(const struct first_times *times, size_t from, size_t to)
{
	int64_t first_ns = INT64_MAX;
	size_t left = from + times->nr_leaves, right = to + times->nr_leaves;

	for (size_t a = left, b = right - 1; a; a /= 2, b /= 2)
		first_ns = least(first_ns, least(times->nodes[a].all_ns, times->nodes[b].all_ns));
	for (; left < right; left /= 2, right /= 2) {
		if (left % 2)
			first_ns = least(first_ns, times->nodes[left++].first_ns);
		if (right % 2)
			first_ns = least(first_ns, times->nodes[--right].first_ns);
	}
	return first_ns;
}

/* No earlier time was noted before. */
static void note_time(struct first_times *times, size_t from, size_t to, int64_t time_ns)
{
	size_t left = from + times->nr_leaves, right = to + times->nr_leaves;

	for (size_t a = left, b = right - 1; a; a /= 2, b /= 2)
		times->nodes[a].first_ns = times->nodes[b].first_ns = time_ns;
	for (; left < right; left /= 2, right /= 2) {
		if (left % 2) {
			times->nodes[left].first_ns = times->nodes[left].all_ns = time_ns;
			left++;
		}
		if (right % 2) {
			right--;
			times->nodes[right].first_ns = times->nodes[right].all_ns = time_ns;
		}
	}
}

static int latest_first(const void *a, const void *b)
{
	const struct jit_entry *x = *(struct jit_entry *const *)a, *y = *(struct jit_entry *const *)b;

	if (x->from_ns != y->from_ns)
		return x->from_ns < y->from_ns ? 1 : -1;
	return x->order < y->order ? 1 : x->order > y->order ? -1 : 0;
}

/* Code is gone when other code comes to one of its bytes. 0 or -ENOMEM. */
static int end_overwritten(struct jit_code *code)
{
	struct first_times times = {.nr_leaves = 1};

	while (times.nr_leaves < code->nr)
		times.nr_leaves *= 2;
	AUTO_FREE struct jit_entry **by_time = malloc(code->nr * sizeof(*by_time));
	times.nodes = malloc(2 * times.nr_leaves * sizeof(*times.nodes));
	if (!by_time || !times.nodes) {
		free(times.nodes);
		return -ENOMEM;
	}
	for (size_t i = 0; i < 2 * times.nr_leaves; i++)
		times.nodes[i].first_ns = times.nodes[i].all_ns = INT64_MAX;
	memcpy(by_time, code->entries, code->nr * sizeof(*by_time));
	qsort(by_time, code->nr, sizeof(*by_time), latest_first);
	for (size_t i = 0; i < code->nr; i++) {
		struct jit_entry *entry = by_time[i];
		size_t from = entries_before(code, entry->symbol.start), to = entries_before(code, entry->symbol.end);
		entry->to_ns = least(entry->to_ns, first_time(&times, from, to));
		note_time(&times, from, to, entry->from_ns);
	}
	free(times.nodes);
	return 0;
}

/* Returns the entry at which a search halves this part of the list; NULL: the part is empty. */
static const struct jit_entry *sum_up(struct jit_code *code, size_t low, size_t high)
{
	if (low >= high)
		return NULL;
	size_t middle = low + (high - low) / 2;
	struct jit_entry *entry = code->entries[middle];
	const struct jit_entry *const parts[] = {sum_up(code, low, middle), sum_up(code, middle + 1, high)};
	entry->max_end = entry->symbol.end;
	entry->min_from_ns = entry->from_ns;
	entry->max_to_ns = entry->to_ns;
	for (size_t i = 0; i < 2; i++) {
		if (!parts[i])
			continue;
		if (parts[i]->max_end > entry->max_end)
			entry->max_end = parts[i]->max_end;
		if (parts[i]->max_to_ns > entry->max_to_ns)
			entry->max_to_ns = parts[i]->max_to_ns;
		entry->min_from_ns = least(entry->min_from_ns, parts[i]->min_from_ns);
	}
	return entry;
}

static int prepare(struct jit_code *code)
{
	note_shift(code);
	if (!code->nr)
		return 0;
	qsort(code->entries, code->nr, sizeof(*code->entries), by_start);
	int err = code->timed ? end_overwritten(code) : 0;
	sum_up(code, 0, code->nr);
	return err;
}

/* Not all of a large file is read that is no dump. 0 or -errno. */
static int read_header(int fd, struct dump_header *ret)
{
	struct stat status;
	int err = fd_read(fd, ret, sizeof(*ret));

	if (err == -ENODATA ||
	    (!err && (ret->magic != DUMP_MAGIC || ret->version < 1 || ret->total_size < sizeof(*ret))))
		return -EBADMSG;
	if (!err && fstat(fd, &status) == 0 && status.st_size > JIT_MAX_BYTES)
		return -EFBIG;
	return err;
}

int jit_code_read(int fd, struct jit_code **ret)
{
	AUTO_BUF struct buf bytes = {0};
	struct dump_header header;
	int err = read_header(fd, &header);

	if (!err)
		err = fd_slurp_rest(fd, JIT_MAX_BYTES, &bytes);
	if (err)
		return err;
	struct cursor at = cursor_over(buf_span(&bytes));
	cursor_take(&at, header.total_size - sizeof(header));
	struct jit_code *code = calloc(1, sizeof(*code));
	if (!code)
		return -ENOMEM;
	code->timed = !(header.flags & ARCH_TIMESTAMPS);
	err = read_records(code, &at);
	hash_table_fini(&code->now);
	if (err != -ENOMEM && err != -EFBIG)
		err = prepare(code);
	if (err) {
		jit_code_free(code);
		return err;
	}
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

struct search {
	uint64_t address;
	int64_t time_ns; /* JIT_ANY_TIME: by all that was ever there: one name, or none */
	unsigned steps;
	const struct jit_entry *found; /* NULL: none, or not known */
};

static bool is_there(const struct jit_entry *entry, const struct search *search)
{
	return search->address >= entry->symbol.start && search->address < entry->symbol.end &&
	       (search->time_ns == JIT_ANY_TIME ||
		(search->time_ns >= entry->from_ns && search->time_ns < entry->to_ns));
}

/* Whether one of the entries of which this one knows the limits can be there. */
static bool may_be_there(const struct jit_entry *entry, const struct search *search)
{
	return search->address < entry->max_end &&
	       (search->time_ns == JIT_ANY_TIME ||
		(search->time_ns >= entry->min_from_ns && search->time_ns < entry->max_to_ns));
}

/* At one time there is at most one. true: the result is known. */
static bool note_found(struct search *search, const struct jit_entry *entry)
{
	bool other = search->found && strcmp(search->found->symbol.name, entry->symbol.name) != 0;

	if (other)
		search->found = NULL;
	else if (!search->found)
		search->found = entry;
	return other || search->time_ns != JIT_ANY_TIME;
}

/* true: the result is known. A made-up dump may have very many entries at each address. */
static bool search_part(const struct jit_code *code, size_t low, size_t high, struct search *search)
{
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct jit_entry *entry = code->entries[middle];
		if (search->steps++ == MOST_STEPS) {
			search->found = NULL;
			return true;
		}
		if (!may_be_there(entry, search))
			return false;
		if (search_part(code, low, middle, search) || (is_there(entry, search) && note_found(search, entry)))
			return true;
		if (entry->symbol.start > search->address)
			return false;
		low = middle + 1;
	}
	return false;
}

const struct symbol *jit_code_find(const struct jit_code *code, uint64_t address, int64_t time_ns, int64_t *ret_from,
				   int64_t *ret_to)
{
	struct search search = {.address = address, .time_ns = code->timed ? time_ns : JIT_ANY_TIME};

	search_part(code, 0, code->nr, &search);
	*ret_from = INT64_MIN;
	*ret_to = INT64_MAX;
	if (search.time_ns != JIT_ANY_TIME) {
		*ret_from = search.found ? search.found->from_ns : time_ns;
		*ret_to = search.found ? search.found->to_ns : time_ns + 1;
	}
	return search.found ? &search.found->symbol : NULL;
}

bool jit_code_covers(const struct jit_code *code, uint64_t address)
{
	struct search search = {.address = address, .time_ns = JIT_ANY_TIME};

	return search_part(code, 0, code->nr, &search) || search.found;
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
	const struct jit_lines *lines = &((const struct jit_entry *)symbol)->about.lines;
	uint64_t offset = address - symbol->start + code->shift;
	size_t nr = offset < UINT64_MAX ? lines_before(lines, offset + 1) : lines->nr;

	if (!nr)
		return NULL;
	*ret_line = lines->at[nr - 1].line;
	return lines->at[nr - 1].path;
}
