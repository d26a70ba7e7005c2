/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/line_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/dwarf/cache_files.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "config.h"
#include "perfdata/object_id.h"
#include "sysinfo/elf_note.h"

static const char magic[8] = "MRLINES";

enum {
	FORMAT = 1,
	VERSION_ROOM = 40,
	FILE_NAME_ROOM = 32,
	MOST_ADDED = 4 << 20, /* rows */
};

/* To read debug information for so long, or at so many addresses, is worth a file. */
static const uint64_t few_ns = 4000000;
enum { FEW_ANSWERS = 256 };

/* A file that was changed that short a time ago may be changed again without another time stamp. */
static const int64_t young_ns = 2000000000;

/* Which file it is, and whether it is as it was. */
struct stamp {
	uint64_t device, inode, bytes;
	int64_t written_ns, changed_ns; /* st_mtim, st_ctim */
};

/* This program, as it was built. */
struct program {
	char version[VERSION_ROOM];
	uint8_t build_id[ELF_NOTE_BUILD_ID_MAX];
	uint32_t zero;
};

/* The file: this, rows by address and frame, offsets of texts, and texts, each with its NUL; each part is aligned. */
struct file_header {
	char magic[8];
	uint64_t checksum; /* of all that follows */
	uint32_t format, flags;
	struct program program;
	struct stamp files[LINE_CACHE_FILES]; /* zeroed: none */
	uint8_t build_id[ELF_ID_MAX_BYTES];
	uint32_t build_id_bytes;
	uint32_t alternate; /* number of its path, from 1 on; 0: none */
	uint64_t nr_rows, nr_texts, text_bytes;
	uint64_t has_lines;
};

/* What is known of a frame at an address. Numbers of texts are from 1 on; 0: none. */
struct row {
	uint64_t address;
	uint32_t name; /* of the function that is inlined there; 0: of none */
	uint32_t path;
	uint32_t line;
	uint8_t frame;    /* those of an address are there from 0 on */
	uint8_t nr_names; /* of the address, in the first row; the names are in as many rows */
	uint8_t knows;    /* KNOWS_ */
	uint8_t zero;
};

enum { KNOWS_NAMES = 1 /* in the first row */, KNOWS_LINE = 2, KNOWS_ALL = 3 };

_Static_assert(sizeof(struct file_header) == 272 && sizeof(struct row) == 24, "they are in files");

struct line_cache {
	unsigned flags;
	struct elf_id build_id;
	struct stamp files[LINE_CACHE_FILES];
	char *paths[LINE_CACHE_FILES]; /* heap; NULL: not noted, or not known */
	struct buf file;
	/* Of the file. */
	const struct row *rows;
	const uint32_t *offsets;
	const char *texts;
	size_t nr_rows, nr_texts, text_bytes;
	_Atomic(bool) spoiled;
	_Atomic(uint64_t) spent_ns, nr_spent;
	/* What was added: numbers of texts go on from those of the file. */
	struct row *added; /* heap */
	size_t nr_added, added_room;
	struct buf more_offsets, more_texts; /* texts of the file included */
	struct hash_table numbers;           /* by text */
	struct hash_table pointers;          /* the same, by where it is, of texts that were added */
};

struct line_cache *line_cache_new(unsigned flags, const struct elf_id *build_id)
{
	struct line_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	cache->flags = flags;
	cache->build_id = *build_id;
	return cache;
}

void line_cache_free(struct line_cache *cache)
{
	if (!cache)
		return;
	for (unsigned i = 0; i < LINE_CACHE_FILES; i++)
		free(cache->paths[i]);
	buf_fini(&cache->file);
	free(cache->added);
	buf_fini(&cache->more_offsets);
	buf_fini(&cache->more_texts);
	hash_table_fini(&cache->numbers);
	hash_table_fini(&cache->pointers);
	free(cache);
}

static int64_t time_ns(const struct timespec *time)
{
	return time->tv_sec * INT64_C(1000000000) + time->tv_nsec;
}

static struct stamp stamp_of(const struct stat *status)
{
	return (struct stamp){
		.device = status->st_dev,
		.inode = status->st_ino,
		.bytes = (uint64_t)status->st_size,
		.written_ns = time_ns(&status->st_mtim),
		.changed_ns = time_ns(&status->st_ctim),
	};
}

static bool same_stamp(const struct stamp *a, const struct stamp *b)
{
	return memcmp(a, b, sizeof(*a)) == 0; /* without holes */
}

/* A clock that was set back makes a file young, too. */
static bool is_young(const struct stamp *stamp)
{
	const int64_t now_ns = (int64_t)clock_ns(CLOCK_REALTIME);

	return stamp->written_ns > now_ns - young_ns || stamp->changed_ns > now_ns - young_ns;
}

void line_cache_spoil(struct line_cache *cache)
{
	atomic_store_explicit(&cache->spoiled, true, memory_order_relaxed);
}

/* On the heap. NULL: not known. */
static char *path_of(int fd)
{
	char link[64], path[PATH_MAX];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, sizeof(path));
	return len > 0 && (size_t)len < sizeof(path) && path[0] == '/' ? strndup(path, (size_t)len) : NULL;
}

static bool is_path_of(const char *path, const struct stamp *stamp)
{
	struct stat status;

	if (!path || stat(path, &status))
		return false;
	const struct stamp now = stamp_of(&status);
	return same_stamp(&now, stamp);
}

void line_cache_note_file(struct line_cache *cache, enum line_cache_file which, int fd)
{
	struct stat status;

	if (fstat(fd, &status)) {
		line_cache_spoil(cache);
		return;
	}
	const struct stamp stamp = stamp_of(&status);
	if (!cache->files[which].inode) {
		cache->files[which] = stamp;
		cache->paths[which] = path_of(fd);
	}
	if (!same_stamp(&stamp, &cache->files[which]) || !S_ISREG(status.st_mode) || is_young(&stamp))
		line_cache_spoil(cache);
}

/* The program itself comes first. */
static int take_build_id(struct dl_phdr_info *object, size_t size, void *program)
{
	struct program *ret = program;

	(void)size;
	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		const struct span notes = {(const void *)(object->dlpi_addr + part->p_vaddr), part->p_memsz};
		if (part->p_type == PT_NOTE && elf_note_build_id(notes, ret->build_id) > 0)
			break;
	}
	return 1;
}

/* Two builds of one version may read debug information in different ways. */
static struct program this_program(void)
{
	struct program program = {.version = ""};

	snprintf(program.version, sizeof(program.version), "%s", MILLRACE_VERSION);
	dl_iterate_phdr(take_build_id, &program);
	return program;
}

/* Of a file with debug information, which may have several paths: the recorder makes links. */
static void file_name(const struct stamp *stamp, unsigned flags, char ret[FILE_NAME_ROOM])
{
	const uint64_t hash = stable_hash_mix(stable_hash_mix(0, stamp->device), stamp->inode);

	snprintf(ret, FILE_NAME_ROOM, "%016" PRIx64 ".%u", hash, flags);
}

static uint64_t checksum(struct span bytes)
{
	const uint8_t *at = bytes.ptr;
	uint64_t hash = bytes.len, word;

	for (size_t i = 0; i + sizeof(word) <= bytes.len; i += sizeof(word)) {
		memcpy(&word, at + i, sizeof(word));
		hash = stable_hash_mix(hash, word);
	}
	return hash;
}

/* From the format on. */
static uint64_t file_checksum(struct span file)
{
	const size_t from = offsetof(struct file_header, format);

	return checksum((struct span){(const uint8_t *)file.ptr + from, file.len - from});
}

static bool is_of_this_program(const struct file_header *header, unsigned flags)
{
	const struct program program = this_program();

	return memcmp(header->magic, magic, sizeof(magic)) == 0 && header->format == FORMAT && header->flags == flags &&
	       memcmp(&header->program, &program, sizeof(program)) == 0;
}

static bool row_is_fine(const struct row *row, const struct row *before, uint64_t nr_texts)
{
	const bool is_first = !before || before->address != row->address;

	if (before && before->address > row->address)
		return false;
	if (row->frame != (is_first ? 0 : before->frame + 1) || row->frame >= LINE_CACHE_MOST_FRAMES)
		return false;
	return row->name <= nr_texts && row->path <= nr_texts && row->knows <= KNOWS_ALL &&
	       row->nr_names <= LINE_CACHE_MOST_FRAMES;
}

static bool rows_are_fine(const struct row *rows, size_t nr, uint64_t nr_texts)
{
	for (size_t i = 0; i < nr; i++)
		if (!row_is_fine(&rows[i], i ? &rows[i - 1] : NULL, nr_texts))
			return false;
	return true;
}

static bool texts_are_fine(const uint32_t *offsets, size_t nr, const char *texts, size_t bytes)
{
	for (size_t i = 0; i < nr; i++)
		if (offsets[i] >= bytes)
			return false;
	return !nr || !texts[bytes - 1];
}

static size_t aligned(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

bool line_cache_take(struct line_cache *cache, struct span bytes)
{
	struct cursor at = cursor_over(bytes);
	const struct file_header *header = cursor_take(&at, sizeof(*header));

	if (!header || (uintptr_t)header % 8 || header->nr_rows > bytes.len || header->nr_texts > bytes.len ||
	    header->text_bytes > bytes.len)
		return false;
	const struct row *rows = cursor_take(&at, header->nr_rows * sizeof(*rows));
	const uint32_t *offsets = cursor_take(&at, aligned(header->nr_texts * sizeof(*offsets)));
	const char *texts = cursor_take(&at, header->text_bytes);
	if (at.bad || cursor_left(&at) || header->alternate > header->nr_texts ||
	    header->checksum != file_checksum(bytes) ||
	    !texts_are_fine(offsets, header->nr_texts, texts, header->text_bytes) ||
	    !rows_are_fine(rows, header->nr_rows, header->nr_texts))
		return false;
	cache->rows = rows;
	cache->offsets = offsets;
	cache->texts = texts;
	cache->nr_rows = header->nr_rows;
	cache->nr_texts = header->nr_texts;
	cache->text_bytes = header->text_bytes;
	return true;
}

static void forget(struct line_cache *cache)
{
	cache->nr_rows = cache->nr_texts = cache->text_bytes = 0;
	buf_fini(&cache->file);
}

/* What several objects have in common is where it was, and as it was. */
static bool take_alternate(struct line_cache *cache, const struct file_header *header)
{
	if (!header->alternate)
		return !header->files[LINE_CACHE_ALTERNATE].inode;
	const char *path = line_cache_text(cache, header->alternate - 1);
	if (!is_path_of(path, &header->files[LINE_CACHE_ALTERNATE]))
		return false;
	cache->files[LINE_CACHE_ALTERNATE] = header->files[LINE_CACHE_ALTERNATE];
	cache->paths[LINE_CACHE_ALTERNATE] = strdup(path);
	return true;
}

static bool is_of_files(const struct line_cache *cache, const struct file_header *header)
{
	for (unsigned i = LINE_CACHE_RUNTIME; i <= LINE_CACHE_DEBUG; i++)
		if (!same_stamp(&cache->files[i], &header->files[i]))
			return false;
	return header->build_id_bytes == cache->build_id.len &&
	       memcmp(header->build_id, cache->build_id.bytes, sizeof(header->build_id)) == 0;
}

void line_cache_load(struct line_cache *cache)
{
	char name[FILE_NAME_ROOM];

	if (!cache->files[LINE_CACHE_DEBUG].inode)
		return;
	file_name(&cache->files[LINE_CACHE_DEBUG], cache->flags, name);
	AUTO_FD int dir_fd = cache_directory_open(false);
	if (dir_fd < 0 || cache_file_read(dir_fd, name, CACHE_FILE_MOST_BYTES, &cache->file))
		return;
	const struct file_header *header = (const struct file_header *)cache->file.data;
	if (cache->file.len < sizeof(*header) || !is_of_this_program(header, cache->flags) ||
	    !is_of_files(cache, header) || !line_cache_take(cache, buf_span(&cache->file)) ||
	    !take_alternate(cache, header))
		forget(cache);
}

bool line_cache_is_there(const struct stat *status, unsigned flags, bool lines)
{
	AUTO_FD int dir_fd = cache_directory_open(false);
	const struct stamp stamp = stamp_of(status);
	struct file_header header;
	char name[FILE_NAME_ROOM];

	if (dir_fd < 0)
		return false;
	file_name(&stamp, flags, name);
	return !cache_file_peek(dir_fd, name, &header, sizeof(header)) && is_of_this_program(&header, flags) &&
	       same_stamp(&stamp, &header.files[LINE_CACHE_DEBUG]) && (!lines || header.has_lines);
}

/* The first one of an address; NULL: there is none. */
static const struct row *find_rows(const struct line_cache *cache, uint64_t address)
{
	const size_t at = partition_point(cache->nr_rows, i, cache->rows[i].address < address);

	return at < cache->nr_rows && cache->rows[at].address == address ? &cache->rows[at] : NULL;
}

static bool is_row_of(const struct line_cache *cache, const struct row *row, uint64_t address)
{
	return row < cache->rows + cache->nr_rows && row->address == address;
}

bool line_cache_knows(const struct line_cache *cache, uint64_t address, bool names, bool line)
{
	const struct row *row = find_rows(cache, address);

	return row && (!names || row->knows & KNOWS_NAMES) && (!line || row->knows & KNOWS_LINE);
}

bool line_cache_find_names(const struct line_cache *cache, uint64_t address, uint32_t ret[LINE_CACHE_MOST_FRAMES],
			   unsigned *ret_nr)
{
	const struct row *row = find_rows(cache, address);

	if (!row || !(row->knows & KNOWS_NAMES))
		return false;
	const unsigned nr = row->nr_names;
	for (unsigned i = 0; i < nr; i++, row++) {
		if (!is_row_of(cache, row, address) || !row->name)
			return false;
		ret[i] = row->name - 1;
	}
	*ret_nr = nr;
	return true;
}

bool line_cache_find_line(const struct line_cache *cache, uint64_t address, unsigned frame, uint32_t *ret_path,
			  unsigned *ret_line)
{
	const struct row *row = find_rows(cache, address);

	if (!row || frame >= LINE_CACHE_MOST_FRAMES || (size_t)(cache->rows + cache->nr_rows - row) <= frame)
		return false;
	row += frame;
	if (row->address != address || !(row->knows & KNOWS_LINE))
		return false;
	*ret_path = row->path - 1; /* 0 becomes LINE_CACHE_NO_TEXT */
	*ret_line = row->line;
	return true;
}

const char *line_cache_text(const struct line_cache *cache, uint32_t number)
{
	return cache->texts + cache->offsets[number];
}

uint32_t line_cache_nr_texts(const struct line_cache *cache)
{
	return (uint32_t)cache->nr_texts;
}

void line_cache_spend(struct line_cache *cache, uint64_t ns)
{
	atomic_fetch_add_explicit(&cache->spent_ns, ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&cache->nr_spent, 1, memory_order_relaxed);
}

void line_cache_spend_ahead(struct line_cache *cache)
{
	atomic_fetch_add_explicit(&cache->spent_ns, few_ns, memory_order_relaxed);
}

bool line_cache_wants_more(const struct line_cache *cache)
{
	return cache->files[LINE_CACHE_DEBUG].inode && !cache->spoiled &&
	       (cache->spent_ns >= few_ns || cache->nr_spent >= FEW_ANSWERS);
}

/* All are behind those of the file, so that the numbers in its rows stay. */
static void begin_texts(struct line_cache *cache)
{
	if (cache->more_offsets.len || !cache->nr_texts)
		return;
	buf_put(&cache->more_offsets, cache->offsets, cache->nr_texts * sizeof(*cache->offsets));
	buf_put(&cache->more_texts, cache->texts, cache->text_bytes);
	for (uint32_t i = 0; i < cache->nr_texts; i++)
		if (hash_table_add_number(&cache->numbers, hash_text(line_cache_text(cache, i)), i + 1))
			line_cache_spoil(cache);
}

static uint32_t number_of_new_text(struct line_cache *cache, const char *text, uint64_t hash)
{
	const uint32_t offset = (uint32_t)cache->more_texts.len;

	buf_put(&cache->more_texts, text, strlen(text) + 1);
	buf_put_u32(&cache->more_offsets, offset);
	const uint32_t number = (uint32_t)(cache->more_offsets.len / sizeof(uint32_t));
	if (cache->more_texts.failed || cache->more_offsets.failed || cache->more_texts.len > CACHE_FILE_MOST_BYTES ||
	    hash_table_add_number(&cache->numbers, hash, number))
		line_cache_spoil(cache);
	return number;
}

/* From 1 on; 0: of NULL. Texts are borrowed until the cache is stored. */
static uint32_t number_of(struct line_cache *cache, const char *text)
{
	if (!text || cache->spoiled)
		return 0;
	uint32_t number = (uint32_t)hash_table_find_number(&cache->pointers, (uintptr_t)text);
	if (number)
		return number;
	begin_texts(cache);
	const uint64_t hash = hash_text(text);
	for (struct hash_slot *slot = hash_table_find(&cache->numbers, hash); slot && !number;
	     slot = hash_table_next(&cache->numbers, slot)) {
		uint32_t offset;
		memcpy(&offset, cache->more_offsets.data + (slot->number - 1) * sizeof(offset), sizeof(offset));
		if (strcmp((const char *)cache->more_texts.data + offset, text) == 0)
			number = (uint32_t)slot->number;
	}
	if (!number)
		number = number_of_new_text(cache, text, hash);
	if (hash_table_add_number(&cache->pointers, (uintptr_t)text, number))
		line_cache_spoil(cache);
	return number;
}

static void add_row(struct line_cache *cache, const struct row *row)
{
	if (cache->spoiled)
		return;
	if (array_room_up_to(cache->added, cache->nr_added, cache->added_room, MOST_ADDED))
		line_cache_spoil(cache);
	else
		cache->added[cache->nr_added++] = *row;
}

void line_cache_add_names(struct line_cache *cache, uint64_t address, const char *const names[], unsigned nr)
{
	unsigned frame = 0;

	do {
		const bool is_first = frame == 0;
		const struct row row = {
			.address = address,
			.name = nr ? number_of(cache, names[frame]) : 0,
			.frame = (uint8_t)frame,
			.nr_names = is_first ? (uint8_t)nr : 0,
			.knows = is_first ? KNOWS_NAMES : 0,
		};
		add_row(cache, &row);
	} while (++frame < nr);
}

void line_cache_add_line(struct line_cache *cache, uint64_t address, unsigned frame, const char *path, unsigned line)
{
	if (frame >= LINE_CACHE_MOST_FRAMES)
		return;
	const struct row row = {
		.address = address,
		.path = number_of(cache, path),
		.line = line,
		.frame = (uint8_t)frame,
		.knows = KNOWS_LINE,
	};
	add_row(cache, &row);
}

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, BY_FRAME = 64 };

_Static_assert((int)LINE_CACHE_MOST_FRAMES <= (int)DIGITS, "a frame is one digit");

/* shift: of what is counted from the lowest address on; BY_FRAME: the frame. */
static size_t digit_of(const struct row *row, uint64_t lowest, unsigned shift)
{
	return shift == BY_FRAME ? row->frame : (row->address - lowest) >> shift & (DIGITS - 1);
}

/* Rows of one digit stay in their order. */
static void sort_by_digit(const struct row *from, size_t nr, uint64_t lowest, unsigned shift, struct row *ret)
{
	size_t starts[DIGITS + 1] = {0};

	for (size_t i = 0; i < nr; i++)
		starts[digit_of(&from[i], lowest, shift) + 1]++;
	for (unsigned i = 0; i < DIGITS; i++)
		starts[i + 1] += starts[i];
	for (size_t i = 0; i < nr; i++)
		ret[starts[digit_of(&from[i], lowest, shift)]++] = from[i];
}

/* By address and frame, by digits from the last one on: comparisons cost more than all the rest. 0 or -ENOMEM. */
static int sort_rows(struct line_cache *cache)
{
	const size_t nr = cache->nr_added;
	struct row *from = cache->added, *to = malloc(nr * sizeof(*to));
	uint64_t lowest = UINT64_MAX, highest = 0;

	if (!to)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		lowest = from[i].address < lowest ? from[i].address : lowest;
		highest = from[i].address > highest ? from[i].address : highest;
	}
	sort_by_digit(from, nr, lowest, BY_FRAME, to);
	for (unsigned shift = 0; shift < 64 && (highest - lowest) >> shift; shift += DIGIT_BITS) {
		struct row *sorted = to;
		to = from;
		from = sorted;
		sort_by_digit(from, nr, lowest, shift, to);
	}
	cache->added = to;
	cache->added_room = nr;
	free(from);
	return 0;
}

/* Into a row of the same frame and address. */
static void merge_row(struct row *into, const struct row *from)
{
	const uint8_t missing = from->knows & (uint8_t)~into->knows;

	if (missing & KNOWS_NAMES)
		into->nr_names = from->nr_names;
	if (!into->name)
		into->name = from->name;
	if (missing & KNOWS_LINE) {
		into->path = from->path;
		into->line = from->line;
	}
	into->knows |= missing;
}

/* Sorted rows: one of each frame; those behind a frame of which nothing is known are left out. Returns how many. */
static size_t merge_rows(struct row *rows, size_t nr)
{
	size_t kept = 0;

	for (size_t i = 0; i < nr; i++) {
		struct row *last = kept ? &rows[kept - 1] : NULL;
		const bool is_next = last && last->address == rows[i].address;
		if (is_next && last->frame == rows[i].frame)
			merge_row(last, &rows[i]);
		else if (rows[i].frame == (is_next ? last->frame + 1 : 0))
			rows[kept++] = rows[i];
	}
	return kept;
}

static bool has_lines(const struct row *rows, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (rows[i].knows & KNOWS_LINE)
			return true;
	return false;
}

static struct file_header make_header(struct line_cache *cache)
{
	struct file_header header = {
		.format = FORMAT,
		.flags = cache->flags,
		.program = this_program(),
		.build_id_bytes = cache->build_id.len,
		.nr_rows = cache->nr_added,
		.has_lines = has_lines(cache->added, cache->nr_added),
	};

	memcpy(header.magic, magic, sizeof(magic));
	memcpy(header.build_id, cache->build_id.bytes, sizeof(header.build_id));
	memcpy(header.files, cache->files, sizeof(header.files));
	if (cache->files[LINE_CACHE_ALTERNATE].inode)
		header.alternate = number_of(cache, cache->paths[LINE_CACHE_ALTERNATE]);
	header.nr_texts = cache->more_offsets.len / sizeof(uint32_t);
	buf_align(&cache->more_offsets, 8);
	buf_align(&cache->more_texts, 8);
	header.text_bytes = cache->more_texts.len;
	return header;
}

static void put_file(struct line_cache *cache, struct buf *out)
{
	struct file_header header = make_header(cache);

	buf_put(out, &header, sizeof(header));
	buf_put(out, cache->added, cache->nr_added * sizeof(cache->added[0]));
	buf_put(out, cache->more_offsets.data, cache->more_offsets.len);
	buf_put(out, cache->more_texts.data, cache->more_texts.len);
	out->failed |= cache->more_offsets.failed || cache->more_texts.failed;
	if (out->failed)
		return;
	header.checksum = file_checksum(buf_span(out));
	memcpy(out->data, &header, sizeof(header));
}

/* Files that were changed while they were read may have given answers of both contents. */
static bool files_are_same(const struct line_cache *cache)
{
	for (unsigned i = 0; i < LINE_CACHE_FILES; i++)
		if (cache->files[i].inode && !is_path_of(cache->paths[i], &cache->files[i]))
			return false;
	return true;
}

void line_cache_store(struct line_cache *cache)
{
	AUTO_BUF struct buf out = {0};
	char name[FILE_NAME_ROOM];

	if (!line_cache_wants_more(cache) || !files_are_same(cache))
		return;
	AUTO_FD int dir_fd = cache_directory_open(true);
	if (dir_fd < 0)
		return;
	begin_texts(cache);
	for (size_t i = 0; i < cache->nr_rows; i++)
		add_row(cache, &cache->rows[i]);
	if (!cache->nr_added)
		return;
	if (sort_rows(cache))
		return;
	cache->nr_added = merge_rows(cache->added, cache->nr_added);
	put_file(cache, &out);
	file_name(&cache->files[LINE_CACHE_DEBUG], cache->flags, name);
	if (!out.failed && !cache->spoiled)
		cache_file_write(dir_fd, name, buf_span(&out));
}
