/* SPDX-License-Identifier: MIT */
/*
 * kernel: the recorded kernel and its modules: where they lie, and their symbols. Part of a machine, private to it. One
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/symbols/dso.h"
#include "analyze/symbols/dso_kernel.h"
#include "tasks/maps.h"

struct elf_id;
struct session;

struct kernel {
	struct dso_table *dsos; /* borrowed */
	struct maps *modules;   /* modules, BPF programs, trampolines */
	struct map map;         /* of the kernel itself; object NULL: no record had it */
	struct kernel_image image;
	struct bpf_lines *bpf_lines; /* NULL: there are none, or no BPF program was seen */
	unsigned nr_added;           /* symbols of records to objects that had some */
};

int kernel_init(struct kernel *kernel, const struct symbol_options *options, struct session *session,
		struct dso_table *dsos);
void kernel_fini(struct kernel *kernel);

/* A map of the kernel's side, of a MMAP or MMAP2 record. 0 or -ENOMEM. */
struct kernel_map_record {
	uint64_t start, len, pgoff;
	const char *name;
	const struct elf_id *build_id; /* NULL: unknown */
};
int kernel_map(struct kernel *kernel, const struct kernel_map_record *record);

/* A symbol that came or (`gone`) went. 0 or -ENOMEM. */
int kernel_symbol(struct kernel *kernel, uint64_t address, uint32_t len, const char *name, bool gone);

/* The map with its symbols read, or NULL. Valid until the next call on the kernel. */
const struct map *kernel_find(struct kernel *kernel, uint64_t address);

/* The same without a change of *kernel, by any number of threads. false: symbols are to be read first. */
bool kernel_peek(const struct kernel *kernel, uint64_t address, const struct map **ret);
