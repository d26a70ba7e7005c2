/* SPDX-License-Identifier: MIT */
#include "analyze/machine/user_stacks.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/symbols/dso.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "tasks/maps.h"
#include "unwind/unwind.h"

/* Of all tables: those of 50 browsers. Beyond it chains follow frame pointers. */
static const size_t max_table_bytes = (size_t)2 << 30;

struct user_stacks {
	struct unwind_tables *tables;
	struct unwind_cache *cache;
	const char *symfs;
	struct hash_table objects; /* of a dso, by its address */
	const struct maps *maps;   /* of the sample */
	struct dso *last;          /* looked up last */
};

void user_stacks_free(struct user_stacks *stacks)
{
	if (!stacks)
		return;
	unwind_cache_free(stacks->cache);
	unwind_tables_free(stacks->tables);
	hash_table_fini(&stacks->objects);
	free(stacks);
}

struct user_stacks *user_stacks_new(const char *arch, const char *symfs)
{
	struct user_stacks *stacks = calloc(1, sizeof(*stacks));

	if (!stacks)
		return NULL;
	stacks->symfs = symfs;
	stacks->tables = unwind_tables_new(arch, max_table_bytes);
	stacks->cache = stacks->tables ? unwind_cache_new(stacks->tables) : NULL;
	if (!stacks->cache) {
		user_stacks_free(stacks);
		return NULL;
	}
	return stacks;
}

/* NULL: out of memory. */
static struct unwind_object *object_of(struct user_stacks *stacks, struct dso *dso)
{
	uint64_t key = (uintptr_t)dso;
	struct unwind_object *object = hash_table_find_item(&stacks->objects, key);

	if (object)
		return object;
	object = unwind_tables_object(stacks->tables, &dso, sizeof(dso));
	if (object && hash_table_add(&stacks->objects, key, object))
		return NULL;
	return object;
}

static struct unwind_object *find_object(void *ctx, uint64_t pc, uint64_t *ret_offset)
{
	struct user_stacks *stacks = ctx;
	const struct map *map = maps_find(stacks->maps, pc);

	if (!map || map->identity || !map->object)
		return NULL;
	stacks->last = map->object;
	*ret_offset = map_address(map, pc);
	return object_of(stacks, map->object);
}

/* The object that was looked up last. */
static void build_table(struct user_stacks *stacks, struct unwind_object *object)
{
	struct diag why = {""};

	dso_load(stacks->last, stacks->symfs);
	AUTO_FD int fd = dso_open(stacks->last, stacks->symfs, DSO_RUNTIME);
	int err = unwind_object_build(object, fd, &why);
	if (err == -EBADMSG || err == -EFBIG)
		log_note("%s: %s: some call chains end there", dso_long_name(stacks->last), why.text);
}

static struct unwind_space space_of(struct user_stacks *stacks, const struct maps *maps)
{
	stacks->maps = maps;
	return (struct unwind_space){.find = find_object, .ctx = stacks, .generation = maps_generation(maps)};
}

void user_stack_chain(struct user_stacks *stacks, const struct maps *maps, const struct sample *sample,
		      struct unwind_chain *chain)
{
	const struct unwind_space space = space_of(stacks, maps);

	for (;;) { /* each turn builds a table */
		unwind_chain(stacks->cache, &space, &sample->user_regs, sample->user_stack, chain);
		if (chain->end != UNWIND_NOT_READY)
			return;
		build_table(stacks, chain->object);
	}
}

bool user_stack_leaf_caller(struct user_stacks *stacks, const struct maps *maps, const struct sample *sample,
			    uint64_t ip, uint64_t *ret)
{
	const struct unwind_space space = space_of(stacks, maps);
	uint64_t offset;
	struct unwind_object *object = find_object(stacks, ip, &offset);

	if (object && unwind_object_state(object) == UNWIND_OBJECT_NEW)
		build_table(stacks, object);
	return unwind_leaf_caller(stacks->cache, &space, &sample->user_regs, ip, ret);
}
