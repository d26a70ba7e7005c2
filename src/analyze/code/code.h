/* SPDX-License-Identifier: MIT */
/*
 * code: the instructions of a function, decoded from the object's file or, for the running kernel, from /proc/kcore.
 * One owner, one thread. Bytes come from files of others: what cannot be decoded is shown as bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;
struct dso;
struct symbol;

enum code_syntax { CODE_ATT /* as objdump's default */, CODE_INTEL };

enum { CODE_MAX_BYTES = 1 << 20 /* of one function */ };

struct code_instruction {
	uint64_t address; /* inside the object, as in struct location */
	uint64_t shown;   /* as linkers and debuggers print it */
	uint64_t target;  /* inside the object, of a jump or call with a fixed target; 0: none */
	char *text;       /* heap; "mov    %rsp,%rbp" */
	bool jump, call;
};

/* Zeroed: empty. */
struct code {
	struct code_instruction *all; /* heap; ascending */
	size_t nr;
	bool cut; /* the function is longer than CODE_MAX_BYTES */
};

struct code_options {
	const char *symfs; /* NULL: "" */
	enum code_syntax syntax;
	int kernel_fd; /* /proc/kcore; borrowed; -1: it cannot be read */
};

/* *ret: code_fini(). -ENOENT, -ENOTSUP, -EACCES and why: the code cannot be read. */
int code_read(const struct dso *dso, const struct symbol *symbol, const struct code_options *options, struct code *ret,
	      struct diag *reterr);
void code_fini(struct code *code);

/* The instruction at or before an address; code->nr: none. */
size_t code_find(const struct code *code, uint64_t address);

/* bytes as instructions: private to the room. */
struct code_bytes {
	const uint8_t *ptr;
	size_t len;
	uint64_t address, shown; /* of the first one */
	uint16_t machine;        /* EM_X86_64 … */
};
int code_decode(const struct code_bytes *bytes, enum code_syntax syntax, struct code *ret, struct diag *reterr);
