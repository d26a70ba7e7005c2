/* SPDX-License-Identifier: MIT */
/*
 * debug_info: source lines and inlined functions of addresses, from the debug information of objects (DWARF). Each
 * object is opened when it is first needed; the least recently used ones are closed again. Any thread: with several
 * CPUs units of one object that is not compressed are read by several threads at once. What was found is kept for later
 * runs, if the options say so: analyze/dwarf/line_cache.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct debug_info;
struct dso;
struct session;
struct symbol;
struct symbol_options;

/* The texts of the options are borrowed. NULL: out of memory. */
struct debug_info *debug_info_new(const struct symbol_options *options);
void debug_info_free(struct debug_info *info); /* NULL is fine */

/*
 * To be called before the first sample where debug information will be needed: for functions that were inlined into
 * those of call chains, and for lines of the source. If so, another thread begins to unpack that of the objects which
 * the recording names. Results stay the same.
 */
enum debug_needs { DEBUG_CHAINS = 1, DEBUG_LINES = 2 };
void debug_info_unpack_ahead(struct debug_info *info, const struct session *session, unsigned needs);

/* Two threads do not wait for each other that look up addresses with different numbers, less than DEBUG_INFO_PARTS. */
enum { DEBUG_INFO_PARTS = 4 };
unsigned debug_info_part(struct debug_info *info, struct dso *dso, uint64_t address);

/* Whether an earlier run has found what is needed at an address, so that to look it up takes no time to speak of. */
bool debug_info_is_known(struct debug_info *info, struct dso *dso, uint64_t address, unsigned needs);

struct source_line {
	const char *path; /* with the compilation directory, if that is known; valid until debug_info_free() */
	unsigned line;
};

/*
 * The dso must be loaded; `address` as in struct location. frame 0: the source line of the address; frame n: the line
 * in function n of struct inlined where function n - 1 is called. false: no debug information, or no line.
 */
bool debug_info_line(struct debug_info *info, struct dso *dso, uint64_t address, unsigned frame,
		     struct source_line *ret);

/* The functions at an address, innermost first: those that were inlined there, then the symbol whose code it is. */
struct inlined {
	struct dso *dso;
	const struct symbol *symbol;
	uint64_t address;
	unsigned nr; /* at most INLINED_MOST; 0: nothing was inlined, or there is no debug information */
	/* It is in a .dwo file that was not found: the line of the address may be of a function that was inlined there.
	 */
	bool is_elsewhere;
	const struct symbol *functions[];
};

enum { INLINED_MOST = 32, INLINED_ELSEWHERE = INLINED_MOST /* a frame whose line is not known, see is_elsewhere */ };

/* `address` of a dso that was loaded is in `symbol`. Valid until debug_info_free(). NULL: out of memory. */
const struct inlined *debug_info_inlined(struct debug_info *info, struct dso *dso, const struct symbol *symbol,
					 uint64_t address);
