/* SPDX-License-Identifier: MIT */
/*
 * unwind: call chains out of the user registers and the copy of the stack that a sample has, by the unwind tables
 * (.eh_frame, .debug_frame) of the mapped objects. For recording and reading.
 *
 *   unwind_tables  the tables of all objects, shared by all processes and threads
 *   unwind_object  one of those objects; its file is read once, rows of its table are made as they are needed
 *   unwind_cache   what one thread remembers between samples
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
 * arch: of the recorded machine, as uname -m says it; NULL: this one's. max_bytes: of all tables together; what would
 * exceed it gets no table. NULL: out of memory.
 */
struct unwind_tables *unwind_tables_new(const char *arch, size_t max_bytes);
void unwind_tables_free(struct unwind_tables *tables); /* after all caches. NULL is fine */

/* Whether chains can be unwound on that arch at all. */
bool unwind_tables_supported(const struct unwind_tables *tables);

/*
 * The object that the caller identifies by these bytes (a device and inode, a build-id, a pointer), made when there is
 * none. Valid until unwind_tables_free(). NULL: out of memory. Any thread; takes a lock: not once for each frame.
 */
struct unwind_object *unwind_tables_object(struct unwind_tables *tables, const void *id, size_t len);

enum unwind_object_state {
	UNWIND_OBJECT_NEW,      /* to be built */
	UNWIND_OBJECT_BUILDING, /* a thread does that now */
	UNWIND_OBJECT_READY,
	UNWIND_OBJECT_NO_TABLE, /* was built, and has no unwind information that can be used */
	UNWIND_OBJECT_NO_FILE,  /* could not be opened or read; may be built again */
};
enum unwind_object_state unwind_object_state(const struct unwind_object *object); /* any thread */

/*
 * Reads the unwind information of the file and lists its functions; takes some 10 ms for 100 MB of code, or as long as
 * the storage takes. Rows are made later, of some functions at a time. Files of the same content share one table. Any
 * thread, while others unwind; the file may be hostile. fd stays the caller's; below 0: it could not be opened. 0;
 * -EALREADY: another thread builds it or has built it; -ENOENT: no file, or it has no unwind information; -ENOEXEC: no
 * ELF file of that arch; -EBADMSG: it has unwind information that breaks off, what precedes is used; -ENOMEM; -EFBIG:
 * max_bytes.
 */
int unwind_object_build(struct unwind_object *object, int fd, struct diag *reterr);

/*
 * Likewise, of code that is in no file but in memory: `bytes` of it, from offset 0 on. eh_frame: its call frame
 * information, which counts addresses as if it began behind the code, at the next multiple of 8; it is copied, and may
 * be hostile, too.
 */
int unwind_object_build_code(struct unwind_object *object, uint64_t bytes, struct span eh_frame);

/* Makes all rows of one that is UNWIND_OBJECT_READY. 0; -ENOMEM; -EBADMSG, as above. */
int unwind_object_complete(struct unwind_object *object);

/* What was UNWIND_OBJECT_NO_FILE is UNWIND_OBJECT_NEW again: there may be a file now. */
void unwind_object_retry(struct unwind_object *object);

struct unwind_stats {
	uint64_t nr_objects, nr_tables; /* tables: of different content */
	uint64_t nr_rows, nr_rules;     /* that were made */
	uint64_t table_bytes;           /* all of them, with the unwind information that they are made of */
	uint64_t build_ns;              /* CPU time of reading and making */
};
void unwind_tables_stats(struct unwind_tables *tables, struct unwind_stats *ret); /* any thread */

/* One thread at a time. NULL: out of memory. */
struct unwind_cache *unwind_cache_new(struct unwind_tables *tables);
void unwind_cache_free(struct unwind_cache *cache); /* NULL is fine */

/* An address space at the time of a sample. */
struct unwind_space {
	/*
	 * The object whose file is mapped at pc, and which byte of the file is there. NULL: none (unmapped, JIT code).
	 */
	struct unwind_object *(*find)(void *ctx, uint64_t pc, uint64_t *ret_offset);
	void *ctx;
	/*
	 * Of what is mapped: another number after each change, never the same for two address spaces, see
	 * maps_generation(). 0: unknown, nothing is cached.
	 */
	uint64_t generation;
};

enum unwind_end {
	UNWIND_COMPLETE,     /* the outermost frame: _start, clone, or a frame pointer of 0 */
	UNWIND_FULL,         /* `max` frames */
	UNWIND_CUT_STACK,    /* the next frame is in a part of the stack that was not copied */
	UNWIND_CONTINUED,    /* likewise; from there on the callers are those that `recorded` has */
	UNWIND_NO_CFI,       /* code without unwind information, and no frame pointer to follow */
	UNWIND_BAD_MEMORY,   /* what CFI says leads out of this stack: damaged, or the stack was switched */
	UNWIND_NO_OBJECT,    /* no file is mapped there or it cannot be read, and there is no frame pointer to follow */
	UNWIND_NOT_READY,    /* the table of `object` is yet to be built; nr is 0 */
	UNWIND_NO_REGISTERS, /* no user registers or stack (kernel thread); of a 32-bit program: the innermost frame */
	UNWIND_NR_ENDS,
};

/* Why a chain is not whole, as what is said of "N of M stacks"; NULL: it is, or goes on otherwise. */
const char *unwind_end_text(enum unwind_end end);

struct unwind_chain {
	/*
	 * The caller's: what the kernel found by frame pointers, innermost first, callers as they go on; NULL: nothing.
	 * Where the copy of the stack ends the chain goes on there, if a frame pointer leads to exactly that frame.
	 */
	const uint64_t *recorded;
	size_t nr_recorded;
	/* The caller's; of `max` elements. */
	uint64_t *ips;  /* innermost first; of callers one less than where they go on, so that it is in the call */
	uint64_t *cfas; /* NULL: not wanted. Of each frame its stack address (DWARF's CFA); 0: unknown */
	unsigned max;

	unsigned nr;
	enum unwind_end end;
	struct unwind_object *object; /* of UNWIND_NOT_READY and of UNWIND_NO_CFI, else NULL */
};

/*
 * Unwinds a sample. regs: sampled with all general registers. stack: the bytes in use of the copy, which begins at the
 * stack pointer. The registers and the stack may hold anything. Allocates nothing and takes no lock.
 */
void unwind_chain(struct unwind_cache *cache, const struct unwind_space *space, const struct sample_regs *regs,
		  struct span stack, struct unwind_chain *chain);

/*
 * The caller of a function at `pc` that has not stored its return address: by the unwind tables, and the link
 * register of a sample without stack (arm64). Less one, as above. false: it has stored it, or there is no such
 * register.
 */
bool unwind_leaf_caller(struct unwind_cache *cache, const struct unwind_space *space, const struct sample_regs *regs,
			uint64_t pc, uint64_t *ret);

/* A sampled register by its number there. false: it was not sampled. */
bool unwind_sampled_register(const struct sample_regs *regs, unsigned nr, uint64_t *ret);
