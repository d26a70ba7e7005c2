/* SPDX-License-Identifier: MIT */
/*
 * line_cache: which functions are inlined at addresses of an object, and the lines of the source there, as earlier runs
 * of this program have found them in its debug information, in a file (cache_files.h). It is used only for the very
 * files that the answers were read from: device, inode, size and times of each are the same, and so are the build-id
 * and this program. Files that were changed in the last seconds may change again within one time stamp: nothing is kept
 * of them. The file is input: it may be damaged.
 *
 * One owner. line_cache_note_file() and line_cache_load() come first, by one thread at a time; then any thread may
 * search, note a file and call line_cache_spend() and line_cache_spoil(); what adds and stores is one thread, at the
 * end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct elf_id;
struct line_cache;
struct stat;

enum line_cache_flags {
	LINE_CACHE_MANGLED = 1, /* names are as the linker has them */
	LINE_CACHE_LINKED = 2,  /* addresses are as the linker has put them, else offsets in the file */
	LINE_CACHE_MODULE = 4,  /* offsets in the map of a kernel module */
};

/* What answers are read from: the object, the file with its debug information, and what that has in common (dwz). */
enum line_cache_file { LINE_CACHE_RUNTIME, LINE_CACHE_DEBUG, LINE_CACHE_ALTERNATE, LINE_CACHE_FILES };

enum { LINE_CACHE_MOST_FRAMES = 32 };

struct line_cache *line_cache_new(unsigned flags, const struct elf_id *build_id); /* NULL: out of memory */
void line_cache_free(struct line_cache *cache);                                   /* NULL is fine */

/* An open file that answers are read from. Another one than before spoils the cache. */
void line_cache_note_file(struct line_cache *cache, enum line_cache_file which, int fd);

/* Reads what is known of the files that were noted, of which LINE_CACHE_DEBUG is one. */
void line_cache_load(struct line_cache *cache);

/* Whether there may be something to load of that file with debug information; lines: lines, too. */
bool line_cache_is_there(const struct stat *status, unsigned flags, bool lines);

/* Whether there are names of functions, and a line of the first frame, as far as they are wanted. */
bool line_cache_knows(const struct line_cache *cache, uint64_t address, bool names, bool line);

/*
 * The numbers of the names of the functions that are inlined at the address, innermost first; nr 0: none is. false: not
 * known.
 */
bool line_cache_find_names(const struct line_cache *cache, uint64_t address, uint32_t ret[LINE_CACHE_MOST_FRAMES],
			   unsigned *ret_nr);

/* Of a frame as debug_info_line() counts; *ret_path: a number, LINE_CACHE_NO_TEXT: it has no line. false: likewise. */
#define LINE_CACHE_NO_TEXT UINT32_MAX
bool line_cache_find_line(const struct line_cache *cache, uint64_t address, unsigned frame, uint32_t *ret_path,
			  unsigned *ret_line);

/* Of numbers from 0 on. Valid until line_cache_free(). */
const char *line_cache_text(const struct line_cache *cache, uint32_t number);
uint32_t line_cache_nr_texts(const struct line_cache *cache);

void line_cache_spend(struct line_cache *cache, uint64_t ns); /* to find one answer that was not known took so long */
void line_cache_spend_ahead(struct line_cache *cache);        /* another thread has unpacked what they need */
void line_cache_spoil(struct line_cache *cache); /* some answer may be wrong, or be another the next time */

/* Whether answers that were not known are worth a file. */
bool line_cache_wants_more(const struct line_cache *cache);

/* Adds answers, also ones that are known. `nr` names, at most LINE_CACHE_MOST_FRAMES; path NULL: no line. */
void line_cache_add_names(struct line_cache *cache, uint64_t address, const char *const names[], unsigned nr);
void line_cache_add_line(struct line_cache *cache, uint64_t address, unsigned frame, const char *path, unsigned line);

/* Writes all that is known. Nothing is said when that fails. */
void line_cache_store(struct line_cache *cache);

/* For tests: whether bytes of a file are taken, whatever files they are of. They must stay valid. */
bool line_cache_take(struct line_cache *cache, struct span bytes);
