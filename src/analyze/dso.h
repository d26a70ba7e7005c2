/* SPDX-License-Identifier: MIT */
/*
 * dso: an object that addresses point into: a program, a library, the kernel, a module, generated code.
 * Owned by a dso_table; lives as long as it. Symbols are read when the first address is looked up. One
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/elf_source.h"
#include "analyze/machine.h"
#include "analyze/pool.h"
#include "analyze/symbols.h"

enum dso_kind {
	DSO_FILE,
	DSO_KERNEL,
	DSO_MODULE,
	DSO_VDSO,
	DSO_PERFMAP, /* code without a file; /tmp/perf-PID.map may have its symbols */
	DSO_KSYMBOL, /* a kernel symbol that a record told: a BPF program, a trampoline */
	DSO_NOTHING, /* has no symbols and never will */
};

/* Which file of that name it was. All zero: unknown. */
struct dso_id {
	uint32_t major, minor;
	uint64_t inode, generation;
};

struct dso {
	struct dso *next; /* in its hash chain */
	const char *name, *short_name;
	struct dso_id id;
	struct elf_id build_id;
	enum dso_kind kind;
	uint32_t age; /* which one of its table it is, from 1 */
	const char *bundle; /* its table's */
	bool loaded;
	struct symbols symbols;
};

struct dso_table {
	struct pool pool;
	struct dso *chains[256];
	uint32_t nr;
	/* Borrowed: the directory with the copies that the recording brought along, laid out as perf's ~/.debug; NULL: none. */
	const char *bundle;
};

void dso_table_fini(struct dso_table *table);

/* The dso of that name and id, made when there is none. An unknown id equals any. NULL: out of memory. */
struct dso *dso_find(struct dso_table *table, const char *name, const struct dso_id *id, enum dso_kind kind);

/* Reads the symbols of a dso that is not the kernel's once; what cannot be read is left out. */
void dso_load(struct dso *dso, const char *symfs);

enum dso_part { DSO_RUNTIME /* what was mapped */, DSO_DEBUG /* a file with its debug information */ };

/* A file of an object that was loaded, to be closed by the caller, or -ENOENT. */
int dso_open(const struct dso *dso, const char *symfs, enum dso_part part);
