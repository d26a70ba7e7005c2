/* SPDX-License-Identifier: MIT */
/*
 * cfi_rows: how to get from a function to its caller, by the unwind tables (.eh_frame) of one object: for each address
 * decoded once by elfutils and kept in a form that takes a few loads to follow. One owner, one thread.
 */
#pragma once

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

enum { CFI_REGISTERS = 17 /* of x86_64, which is all that there are rows for */, CFI_RETURN = 16 };

enum cfi_how {
	CFI_UNDEFINED, /* the table says that it cannot be told */
	CFI_SAME,      /* as it is */
	CFI_REGISTER,  /* what the register `offset` has */
	CFI_VALUE,     /* CFA + offset */
	CFI_STORED,    /* what is stored at CFA + offset */
	CFI_OPS,       /* the result of the operations */
};

struct cfi_ops {
	size_t nr;
	Dwarf_Op at[];
};

struct cfi_rule {
	enum cfi_how how;
	int32_t offset;
	const struct cfi_ops *ops; /* CFI_OPS */
};

/* The rules that hold at an address. */
struct cfi_row {
	uint8_t cfa_register; /* the canonical frame address is it plus the offset, unless there are operations */
	bool signal;          /* the caller was interrupted, and did not call */
	int32_t cfa_offset;
	const struct cfi_ops *cfa; /* NULL: none */
	struct cfi_rule registers[CFI_REGISTERS];
};

struct cfi_rows;

/* Takes over the descriptor, also when it fails. NULL: no object of x86_64; out of memory. */
struct cfi_rows *cfi_rows_open(int fd);
void cfi_rows_close(struct cfi_rows *rows); /* NULL is fine */

/* For the byte at that offset in the file. NULL: the table has nothing for it. Valid until cfi_rows_close(). */
const struct cfi_row *cfi_rows_find(struct cfi_rows *rows, uint64_t offset);
