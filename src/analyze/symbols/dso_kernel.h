/* SPDX-License-Identifier: MIT */
/* dso_kernel: the symbols of the recorded kernel and of its modules. One thread. */
#pragma once

#include <stdint.h>

struct dso;
struct map;
struct module_list;
struct session;
struct symbol_options;

/* What is known of the recorded kernel. All but ref_name and the modules is borrowed. */
struct kernel_image {
	const struct symbol_options *options;
	struct session *session; /* names the recorded machine; NULL: unknown */
	const char *bundle;      /* as in struct dso_table */
	struct dso *dso;         /* NULL: no record had it */
	char *ref_name; /* heap; a symbol of the kernel, whose recorded address tells where the kernel was loaded: */
	uint64_t ref_address;        /* 0: unknown */
	struct module_list *modules; /* their symbols, as the kernel lists them; NULL: not read yet */
};

/* Frees ref_name and the modules. */
void kernel_image_fini(struct kernel_image *image);

/* Fills the symbols of the kernel's dso; leaves them empty when no source belongs to that kernel. */
void dso_load_kernel(const struct kernel_image *image);

/* Fills the symbols of a module, as offsets from the start of its map (= of its text). */
void dso_load_module(struct kernel_image *image, const struct map *map);
