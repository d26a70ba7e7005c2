/* SPDX-License-Identifier: MIT */
#include "analyze/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/dso.h"
#include "analyze/kernel_symbols.h"

static const char image_name[] = "[kernel.kallsyms]";

int kernel_init(struct kernel *kernel, const struct machine_options *options, struct session *session,
		struct dso_table *dsos)
{
	*kernel =
		(struct kernel){.options = options, .session = session, .dsos = dsos, .modules = maps_new()};
	return kernel->modules ? 0 : -ENOMEM;
}

void kernel_fini(struct kernel *kernel)
{
	maps_unref(kernel->modules);
	free(kernel->ref_name);
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
	kernel->image = (struct map){.start = record->start, .dso = dso, .identity = true};
	if (__builtin_add_overflow(record->start, record->len, &kernel->image.end) || !kernel->image.end)
		kernel->image.end = UINT64_MAX;
	if (bracket && bracket[1] && record->pgoff) {
		char *name = strdup(bracket + 1);
		if (!name)
			return -ENOMEM;
		free(kernel->ref_name);
		kernel->ref_name = name;
		kernel->ref_address = record->pgoff;
	}
	return 0;
}

static int module_map(struct kernel *kernel, const struct kernel_map_record *record)
{
	struct dso *dso = dso_find(kernel->dsos, record->name, NULL, DSO_MODULE);
	struct map map = {.start = record->start, .dso = dso};

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

int kernel_symbol(struct kernel *kernel, uint64_t address, uint32_t len, const char *name, bool gone)
{
	const struct map *at = maps_find(kernel->modules, address);

	if (gone)
		return at && at->dso->kind == DSO_KSYMBOL ? maps_remove(kernel->modules, address) : 0;

	struct map map = {.start = address, .end = address + len, .identity = true};
	map.dso =
		at ? at->dso : dso_find(kernel->dsos, name, &(struct dso_id){.inode = address}, DSO_KSYMBOL);
	if (!map.dso)
		return -ENOMEM;
	map.dso->loaded = true;
	if (symbols_add(&map.dso->symbols, at ? map_address(at, address) : address, len, SYMBOL_LOCAL, name,
			strlen(name)))
		return -ENOMEM;
	symbols_settle(&map.dso->symbols, SYMBOLS_KEEP_ALIASES);
	return at ? 0 : maps_insert(kernel->modules, &map);
}

/* With its symbols known the image reaches from the first to the last of them, whatever the record said. */
static void image_load(struct kernel *kernel)
{
	struct dso *dso = kernel->image.dso;

	if (dso->loaded)
		return;
	dso->loaded = true;
	kernel_symbols_load(kernel);
	const struct symbol_entry *first = symbols_first(&dso->symbols), *last = symbols_last(&dso->symbols);
	if (first) {
		kernel->image.start = first->start;
		kernel->image.end = last->end;
	}
}

const struct map *kernel_find(struct kernel *kernel, uint64_t address)
{
	const struct map *map = maps_find(kernel->modules, address);

	if (map) {
		if (!map->dso->loaded && map->dso->kind == DSO_MODULE)
			module_symbols_load(kernel, map);
		return map;
	}
	map = &kernel->image;
	if (!map->dso || address < map->start || address >= map->end)
		return NULL;
	image_load(kernel);
	return map;
}

bool kernel_peek(const struct kernel *kernel, uint64_t address, const struct map **ret)
{
	const struct map *map = maps_find(kernel->modules, address), *image = &kernel->image;

	*ret = map;
	if (map)
		return map->dso->loaded;
	if (!image->dso)
		return true;
	/* Where the image ends is known when its symbols are. */
	if (image->dso->loaded && address >= image->start && address < image->end)
		*ret = image;
	return image->dso->loaded;
}
