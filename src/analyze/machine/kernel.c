/* SPDX-License-Identifier: MIT */
#include "analyze/machine/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/bpf_lines.h"
#include "analyze/symbols/dso.h"

/* Each means to sort those of its object anew; a program that is loaded again and again is none. */
enum { MOST_ADDED = 1 << 13 };

static const char image_name[] = "[kernel.kallsyms]";

int kernel_init(struct kernel *kernel, const struct symbol_options *options, struct session *session,
		struct dso_table *dsos)
{
	*kernel = (struct kernel){
		.dsos = dsos,
		.modules = maps_new(),
		.image = {.options = options, .session = session, .bundle = dsos->bundle},
	};
	return kernel->modules ? 0 : -ENOMEM;
}

void kernel_fini(struct kernel *kernel)
{
	maps_unref(kernel->modules);
	kernel_image_fini(&kernel->image);
	bpf_lines_free(kernel->bpf_lines);
}

/* "[kernel.kallsyms]_text": behind the bracket the symbol whose address pgoff is. */
static int image_map(struct kernel *kernel, const struct kernel_map_record *record)
{
	struct dso *dso = dso_find(kernel->dsos, image_name, NULL, DSO_KERNEL);
	const char *bracket = strchr(record->name, ']');

	if (!dso)
		return -ENOMEM;
	if (record->build_id)
		dso->build_id = *record->build_id;
	kernel->image.dso = dso;
	kernel->map = (struct map){.start = record->start, .object = dso, .identity = true};
	if (__builtin_add_overflow(record->start, record->len, &kernel->map.end) || !kernel->map.end)
		kernel->map.end = UINT64_MAX;
	if (bracket && bracket[1] && record->pgoff) {
		char *name = strdup(bracket + 1);
		if (!name)
			return -ENOMEM;
		free(kernel->image.ref_name);
		kernel->image.ref_name = name;
		kernel->image.ref_address = record->pgoff;
	}
	return 0;
}

static int module_map(struct kernel *kernel, const struct kernel_map_record *record)
{
	struct dso *dso = dso_find(kernel->dsos, record->name, NULL, DSO_MODULE);
	struct map map = {.start = record->start, .object = dso};

	if (!dso)
		return -ENOMEM;
	if (record->build_id)
		dso->build_id = *record->build_id;
	if (__builtin_add_overflow(record->start, record->len, &map.end))
		map.end = UINT64_MAX;
	return maps_insert(kernel->modules, &map);
}

int kernel_map(struct kernel *kernel, const struct kernel_map_record *record)
{
	/* The record's name goes on behind "[kernel.kallsyms", and the guest's begins alike. */
	if (strncmp(record->name, image_name, sizeof(image_name) - 2) == 0)
		return image_map(kernel, record);
	if (record->name[0] == '/' || record->name[0] == '[')
		return module_map(kernel, record);
	return 0;
}

/* 0 or -ENOMEM. */
static int add_symbol(struct kernel *kernel, struct dso *dso, uint64_t start, uint32_t len, const char *name)
{
	struct symbols *symbols = &dso->symbols;
	const struct symbol *there = symbols->nr ? symbols_find(symbols, start) : NULL;

	if (there && there->start == start && there->end == start + len && strcmp(there->name, name) == 0)
		return 0;
	if (symbols->nr && kernel->nr_added == MOST_ADDED)
		return 0;
	kernel->nr_added += symbols->nr != 0;
	if (symbols_add(symbols, start, len, SYMBOL_LOCAL, name, strlen(name)))
		return -ENOMEM;
	symbols_fixup(symbols, SYMBOLS_KEEP_ALIASES);
	return 0;
}

int kernel_symbol(struct kernel *kernel, uint64_t address, uint32_t len, const char *name, bool gone)
{
	const struct map *at = maps_find(kernel->modules, address);
	struct dso *dso = at ? at->object : NULL;

	if (gone)
		return dso && dso->kind == DSO_KSYMBOL ? maps_remove(kernel->modules, address) : 0;
	if (dso && dso->kind == DSO_KSYMBOL) { /* it is gone, the record of that was lost: no two are at one place */
		at = NULL;
		dso = NULL;
	}
	if (!dso)
		dso = dso_find(kernel->dsos, name, &(struct object_id){.file.inode = address}, DSO_KSYMBOL);
	if (!dso)
		return -ENOMEM;
	if (!kernel->bpf_lines && kernel->image.session)
		kernel->bpf_lines = bpf_lines_read(kernel->image.session);
	if (dso->kind == DSO_KSYMBOL) {
		dso->bpf_lines = kernel->bpf_lines;
		dso->loaded = true;
	}
	if (add_symbol(kernel, dso, at ? map_address(at, address) : address, len, name))
		return -ENOMEM;
	const struct map map = {.start = address, .end = address + len, .object = dso, .identity = true};
	return at ? 0 : maps_insert(kernel->modules, &map);
}

const struct map *kernel_find(struct kernel *kernel, uint64_t address)
{
	const struct map *map = maps_find(kernel->modules, address);
	struct dso *dso = map ? map->object : kernel->image.dso;

	if (map) {
		if (!dso->loaded && dso->kind == DSO_MODULE)
			dso_load_module(&kernel->image, map);
		return map;
	}
	if (!dso || address < kernel->map.start || address >= kernel->map.end)
		return NULL;
	if (!dso->loaded) {
		dso->loaded = true;
		dso_load_kernel(&kernel->image);
		/*
		 * With its symbols known the image reaches from the first to the last of them, whatever the record had.
		 */
		const struct symbol_entry *first = symbols_first(&dso->symbols), *last = symbols_last(&dso->symbols);
		if (first) {
			kernel->map.start = first->start;
			kernel->map.end = last->end;
		}
	}
	return &kernel->map;
}

bool kernel_peek(const struct kernel *kernel, uint64_t address, const struct map **ret)
{
	const struct map *map = maps_find(kernel->modules, address), *image = &kernel->map;
	const struct dso *dso = map ? map->object : kernel->image.dso;

	*ret = map;
	if (map || !dso)
		return map ? dso->loaded : true;
	/* Where the image ends is known when its symbols are. */
	if (dso->loaded && address >= image->start && address < image->end)
		*ret = image;
	return dso->loaded;
}
