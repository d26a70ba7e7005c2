/* SPDX-License-Identifier: MIT */
/*
 * unwind: makes call chains from the user registers and the stack copy of a sample, with the unwind tables (.eh_frame,
 * .debug_frame) of the mapped objects. For recording and reading.
 *
 *   unwind_tables  the tables of all objects, shared by all processes and threads
 *   unwind_object  one of those objects; its file is read once, rows of its table are made when they are needed
 *   unwind_cache   the cache of one thread, kept between samples
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "perfdata/sample.h"

struct diag;
struct unwind_cache;
struct unwind_object;
struct unwind_tables;

/*
 * arch: of the recorded machine, as uname -m prints it; NULL: this machine's. max_bytes: limit for the memory of all
 * tables; what would exceed it gets none, until others are given up. NULL: out of memory, or of random numbers.
 */
struct unwind_tables *unwind_tables_new(const char *arch, size_t max_bytes);
void unwind_tables_free(struct unwind_tables *tables);            /* after all caches. NULL is fine */
bool unwind_tables_supported(const struct unwind_tables *tables); /* whether that arch can be unwound at all */

/*
 * The object that the caller identifies by these bytes (a device and inode, a build-id, a pointer); it is made at the
 * first call. Valid until unwind_tables_free() or unwind_object_free(). NULL: out of memory. Any thread. Takes a lock:
 * not to be called for each frame.
 */
struct unwind_object *unwind_tables_object(struct unwind_tables *tables, const void *id, size_t len);

enum unwind_object_state {
	UNWIND_OBJECT_NEW,      /* not built yet: unwind_object_build() */
	UNWIND_OBJECT_BUILDING, /* a thread builds it now */
	UNWIND_OBJECT_READY,
	UNWIND_OBJECT_NO_TABLE, /* was read, but has no unwind information that can be used */
	UNWIND_OBJECT_NO_FILE,  /* could not be opened, or exceeded max_bytes; may be built again */
};
enum unwind_object_state unwind_object_state(const struct unwind_object *object); /* any thread */

/*
 * Reads the unwind information of the file and lists its functions; takes some 10 ms for 100 MB of code, or as long as
 * the storage takes. Rows are made later, of some functions at a time. Files of the same content share one table. Any
 * thread, while others unwind; the file may be hostile. The caller keeps owning fd; below 0: it could not be opened. 0;
 * -EALREADY: another thread builds or has built it; -ENOENT: no file, or no unwind information; -ENOEXEC: no ELF file
 * of that arch; -EBADMSG: without entries that cannot be understood, and what follows one whose length is impossible;
 * -ENOMEM; -EFBIG. Of one that has its table: reads code that UNWIND_NOT_READY waits for, once, also if it cannot be.
 */
int unwind_object_build(struct unwind_object *object, int fd, struct diag *reterr);
bool unwind_object_lacks_code(const struct unwind_object *object); /* a chain waits; any thread */

/*
 * Likewise, for code in memory, without a file: `bytes` of it, from offset 0 on. eh_frame: its call frame information,
 * whose addresses assume that it begins behind it, at the next multiple of 8. It is copied, and may be hostile, too.
 */
int unwind_object_build_code(struct unwind_object *object, uint64_t bytes, struct span eh_frame);

/* Makes all rows of the table of an object in state UNWIND_OBJECT_READY. 0; -ENOMEM; -EBADMSG as above. */
int unwind_object_complete(struct unwind_object *object);

/* Sets the state from UNWIND_OBJECT_NO_FILE to UNWIND_OBJECT_NEW, as the file may be there now. Other states stay. */
void unwind_object_retry(struct unwind_object *object);

struct unwind_stats {
	uint64_t nr_objects, nr_tables; /* tables: objects with equal content share one */
	uint64_t nr_rows, nr_rules;     /* that were made so far */
	uint64_t table_bytes;           /* memory of all tables, with the unwind information from which rows are made */
	uint64_t build_ns;              /* CPU time in ns of reading files and making rows, also of those given up */
	uint64_t nr_given_up;           /* tables: unwind_object_free() */
};
void unwind_tables_stats(struct unwind_tables *tables, struct unwind_stats *ret); /* any thread */

/* Used by one thread at a time. NULL: out of memory. */
struct unwind_cache *unwind_cache_new(struct unwind_tables *tables);
void unwind_cache_prepare(struct unwind_cache *cache); /* makes its memory now, else at the first sample */
void unwind_cache_free(struct unwind_cache *cache);    /* NULL is fine */

struct unwind_space { /* an address space at the time of a sample */
	/* The object whose file is mapped at pc, and the byte's offset in it. NULL: none (not mapped, JIT code). */
	struct unwind_object *(*find)(void *ctx, uint64_t pc, uint64_t *ret_offset);
	bool (*is_code)(void *ctx, uint64_t pc); /* what is mapped there may be executed; NULL: that is not known */
	void *ctx;
	uint64_t generation; /* changes with the maps, see maps_generation(). 0: unknown, nothing is cached */
};

enum unwind_end {
	UNWIND_COMPLETE,     /* the outermost frame: _start, clone, or a frame pointer of 0 */
	UNWIND_FULL,         /* `max` frames */
	UNWIND_CUT_STACK,    /* the next frame is in a part of the stack that was not copied */
	UNWIND_SHORT_COPY,   /* likewise, of a copy below dump_bytes: a page was not there, or the stack ends */
	UNWIND_OTHER_STACK,  /* it is in the stack that a signal handler on a stack of its own interrupted */
	UNWIND_CONTINUED,    /* as UNWIND_COMPLETE or UNWIND_FULL, but callers were taken from `recorded` */
	UNWIND_NO_CFI,       /* code without unwind information, and no frame pointer to follow to code */
	UNWIND_BAD_MEMORY,   /* the CFI leads out of this stack or not to code: it is damaged, or was switched */
	UNWIND_NO_OBJECT,    /* no file is mapped there or it cannot be read, and no frame pointer to follow to code */
	UNWIND_NOT_READY,    /* the table of `object`, or a row, is yet to be made, or code to be read; nr is 0 */
	UNWIND_NO_REGISTERS, /* no user registers or stack (kernel thread); of a 32-bit program: `recorded` */
	UNWIND_NR_ENDS,
};

/* Why a chain is incomplete, as the end of a sentence that begins with "N of M stacks"; NULL: any other end. */
const char *unwind_end_text(enum unwind_end end);

struct unwind_chain {
	/*
	 * Set by the caller: the chain that the kernel found by frame pointers, innermost first, with return addresses;
	 * NULL: none. Where the copy of the stack ends, the chain is continued from this one, if a frame pointer leads
	 * to exactly one of its frames.
	 */
	const uint64_t *recorded;
	size_t nr_recorded;
	uint64_t *ips;  /* room for `max`; innermost first; callers are return addresses minus 1: in the call itself */
	uint64_t *cfas; /* NULL: not wanted; else room for the stack address (DWARF's CFA) of each frame; 0: unknown */
	unsigned max;
	uint64_t thread;     /* set by the caller: its last chain's frames may be taken, without `cfas`; 0: none */
	uint64_t dump_bytes; /* set by the caller: of stack that were to be copied; 0: not known, no SHORT_COPY */
	bool never_waits; /* set by the caller: no lock, no memory; where a row is yet to be made: UNWIND_NOT_READY */
	unsigned nr;
	bool is_continued; /* callers were taken from `recorded`, however it ends */
	enum unwind_end end;
	struct unwind_object *object; /* of UNWIND_NOT_READY, else NULL */
};

/*
 * Unwinds a sample. regs: without pc and sp there are no callers, of others some may be missing. stack: the used bytes
 * of the copy, which begins at the stack pointer. Registers and stack may hold any values. Looking up a row takes the
 * lock of its table, and allocates memory when the row is made first; without memory the frame has no CFI.
 */
void unwind_chain(struct unwind_cache *cache, const struct unwind_space *space, const struct sample_regs *regs,
		  struct span stack, struct unwind_chain *chain);

/*
 * For a sample without stack on arm64: the caller of the function at `pc` by the link register (as above, but for what
 * a signal handler returns to), if it is not stored yet by the unwind tables. false: it is, or there is none.
 */
bool unwind_leaf_caller(struct unwind_cache *cache, const struct unwind_space *space, const struct sample_regs *regs,
			uint64_t pc, uint64_t *ret);

/* Where the program was, or came into the kernel. false: that register was not sampled. */
bool unwind_sampled_pc(const struct unwind_cache *cache, const struct sample_regs *regs, uint64_t *ret);

/* The value of a sampled register, by perf's number of it. false: it was not sampled. */
bool unwind_sampled_register(const struct sample_regs *regs, unsigned nr, uint64_t *ret);
