/* SPDX-License-Identifier: MIT */
/*
 * table: the unwind table of one object: for each range of code one of few distinct rules. It begins as a list of the
 * functions that a section of call frame information describes. The rows of some neighbouring functions, a part of the
 * table, are made when one of them is looked up: a large program costs what is used of it, and no sample waits for the
 * rest. Several threads may look up. Private to unwind.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi.h"

enum {
	TABLE_MAX_SEGMENTS = 64, /* executable ones: most objects have 1 */
	TABLE_MAX_EXTRAS = 16,
	TABLE_MAX_ROWS = 1 << 25,
	TABLE_MAX_FUNCTIONS = 1 << 22, /* a browser with all its unwind information has 600,000 */
	TABLE_MAX_RULES = UINT16_MAX,
	TABLE_MAX_TEXT_BYTES = 1 << 26, /* of the expressions of all rows; those of signal frames have 100 bytes */
	TABLE_PART_FUNCTIONS = 8,
	TABLE_RULE_BLOCK = 64,
};

enum { TABLE_WITHOUT_CFI = 1 };                          /* a bit of a place */
static const uint32_t TABLE_OF_MORE = UINT32_C(1) << 31; /* sections are smaller */

enum {
	SLOT_SAME = INT16_MIN,
	SLOT_LOST,
	SLOT_MIN, /* from here on: what is stored at CFA + 8 * slot */
};

enum {
	RULE_NO_CFI = 1, /* nothing is known of that code */
	RULE_SIGNAL = 2, /* the caller was interrupted, and did not call */
	RULE_WIDE = 4,   /* only the wide rule counts */
	/* The stack has what a signal has interrupted, as struct unwind_arch says; no slot counts. */
	RULE_TRAMPOLINE = 8,
	RULE_SWITCH = 16,     /* of EXTRA_SWITCH: where the caller is, is not known */
	RULE_RETURNS = 32,    /* with RULE_SWITCH, of EXTRA_SWITCH_AND_RETURN */
	RULE_NOT_CALLED = 64, /* of EXTRA_ENTRY */
	RULE_START = 128,     /* with RULE_NO_CFI, of EXTRA_START */
};

struct unwind_rule {
	uint8_t flags, cfa_register; /* CFA = register + offset */
	uint16_t unused;             /* 0: rules are compared as bytes */
	int32_t cfa_offset;
	union {
		int16_t slots[UNWIND_SLOTS];  /* of the registers that struct unwind_arch says */
		const struct wide_rule *wide; /* of RULE_WIDE */
	};
};
_Static_assert(sizeof(struct unwind_rule) == 32, "two in a cache line");

/* What does not fit into the above. */
struct wide_rule {
	struct cfi_state state; /* values of expressions are offsets in `text`: a u16 length, bytes */
	uint32_t text_bytes;
	uint8_t text[];
};

/* Executable and backed by the file. */
struct table_segment {
	uint64_t offset, bytes; /* in the file */
	uint64_t address;       /* p_vaddr */
};

/* Code that the section says nothing of but whose rule is known. */
struct table_extra {
	uint64_t start, end; /* addresses */
	enum {
		EXTRA_PLT,    /* entries of 16 bytes that push */
		EXTRA_STUB,   /* nothing is pushed */
		EXTRA_SIGNAL, /* to which signal handlers return, and the byte before */
		EXTRA_START,  /* where the kernel starts a program, and what follows */
		/* As above, but the section is wrong about it: code that switches to another stack and calls there. */
		EXTRA_SWITCH,            /* its caller may be gone by then */
		EXTRA_SWITCH_AND_RETURN, /* its caller waits */
		EXTRA_ENTRY, /* nothing is pushed; it is named as a caller by its first byte, and the byte before */
	} kind;
};

struct table_source {
	struct cfi_section section;
	struct cfi_section more; /* of functions that `section` does not cover; without bytes: none */
	unsigned nr_segments, nr_extras;
	struct table_segment segments[TABLE_MAX_SEGMENTS];
	struct table_extra extras[TABLE_MAX_EXTRAS];
	struct table_budget *budget; /* of which the table is a part; NULL: none */
	bool keeps_fp;               /* all code keeps frame pointers: Go's */
	uint64_t key[2];             /* of source_digest() */
};

struct table_function {
	uint32_t start; /* relative to the base */
	uint32_t entry; /* offset in the section, or in the other one + TABLE_OF_MORE; UINT32_MAX - i: extra i */
};

/* The rows of some functions. */
struct table_part {
	uint32_t nr_rows; /* row i: from pcs[i] to pcs[i + 1]; the last has no CFI */
	uint32_t pcs[];   /* ascending; relative to the base. Behind them: table_part_rules() */
};

/* Numbers of the rules of the rows. */
static inline const uint16_t *table_part_rules(const struct table_part *part)
{
	return (const uint16_t *)(part->pcs + part->nr_rows);
}

/* Rules by their numbers, TABLE_RULE_BLOCK in each block. The first rule has no CFI. */
struct rule_blocks {
	struct rule_blocks *smaller; /* those that came before: another thread may have just found them */
	size_t room;
	struct unwind_rule *blocks[];
};

/* Bytes of several tables. */
struct table_budget {
	_Atomic size_t bytes;
	size_t max;
};

struct table_builder;

struct unwind_table {
	const struct unwind_arch *arch;
	uint64_t number; /* of all that ever were, from 1 on; set by the owner */
	bool keeps_fp;   /* as the source says */
	unsigned nr_segments;
	struct table_segment segments[TABLE_MAX_SEGMENTS];
	struct table_extra extras[TABLE_MAX_EXTRAS];
	uint64_t base;                    /* address that the pcs are relative to */
	struct table_function *functions; /* ascending, each start once */
	size_t nr_functions, nr_parts;

	/*
	 * Read without the lock: what is found stays where it is. Part i: functions from i * TABLE_PART_FUNCTIONS on;
	 * NULL: not made. Its rules are in the blocks, which only become more.
	 */
	_Atomic(struct table_part *) *parts;
	_Atomic(struct rule_blocks *) rules;

	pthread_mutex_t lock; /* of all below, and of changes of these two */
	size_t nr_made, nr_rows;
	struct wide_rule **wides;
	uint32_t nr_rules, nr_wides;
	struct table_builder *builder; /* NULL: all parts are made */
	void *owned;                   /* in which the sections lie, until then */
	void (*release)(void *owned);
	size_t bytes, section_bytes; /* bytes: all that is allocated, with the sections */
	uint64_t key[2], digest;     /* digest: of the sections, once `has_digest` */
	bool has_digest;
	struct table_budget *budget; /* borrowed */
	uint64_t build_ns;           /* CPU time of making parts */
	bool full;                   /* more would have been needed than the budget has */
	bool bad;                    /* some instructions could not be understood, or there are too many rows */
};

/*
 * Takes over `owned`, in which the sections lie: released when it is not needed any more, in any case. 0; -ENOMEM;
 * -EFBIG: more than the budget; -EBADMSG: a section breaks off or some entries cannot be understood, *ret has the
 * others. With 0 and -EBADMSG *ret is the caller's.
 */
int table_new(const struct table_source *source, void *owned, void (*release)(void *owned), struct unwind_table **ret);
void table_free(struct unwind_table *table); /* NULL is fine */

/*
 * A hash of the bytes of both sections. It takes some ms, and is made of a table when it is asked for or when the
 * sections go. It is not possible to make a file that has the hash of another one without knowing the key.
 */
uint64_t source_digest(const struct table_source *source);
uint64_t table_digest(struct unwind_table *table);

/* Makes all parts. 0; -ENOMEM; -EBADMSG: some instructions cannot be understood, the rows behind them are missing. */
int table_complete(struct unwind_table *table);

/* The address of a byte of the file. false: it is in no segment. */
bool table_address(const struct unwind_table *table, uint64_t file_offset, uint64_t *ret);

/* Valid as long as the table. */
struct table_rule {
	const struct unwind_rule *rule; /* never NULL */
	const struct wide_rule *wide;   /* of RULE_WIDE */
};
struct table_rule table_find(struct unwind_table *table, uint64_t address);
/* Whether it is there already: then table_find() takes no lock and makes nothing. */
bool table_has(const struct unwind_table *table, uint64_t address);

/*
 * A number of the function at an address or, with TABLE_WITHOUT_CFI, of the code without CFI between two functions.
 * Takes a lock, and makes rows, where table_find() does so.
 */
uint32_t table_place(struct unwind_table *table, uint64_t address);
/* Likewise: the bounds of the function at an address. false: there is none with CFI. */
bool table_function_at(struct unwind_table *table, uint64_t address, uint64_t *ret_start, uint64_t *ret_end);
/* Likewise: a function begins there, or it is code without CFI. */
bool table_may_begin_at(struct unwind_table *table, uint64_t address);

/* The operations of an expression of a wide rule. */
struct span table_expression(const struct wide_rule *wide, int32_t value);
