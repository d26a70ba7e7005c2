/* SPDX-License-Identifier: MIT */
#include "analyze/machine/user_stacks.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/symbols/dso.h"
#include "analyze/symbols/jit_code.h"
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
	struct hash_table objects; /* of a dso or of code compiled at run time, by the address of that */
	struct hash_table moving;  /* maps, by their address: code is replaced there without a change of maps */
	struct hash_table gaps;    /* likewise: not all of their code is in them */
	const struct maps *maps;   /* of the sample */
	int64_t time_ns;           /* likewise */
	struct dso *last;          /* looked up last, or: */
	const struct symbol *last_code;
};

void user_stacks_free(struct user_stacks *stacks)
{
	if (!stacks)
		return;
	unwind_cache_free(stacks->cache);
	unwind_tables_free(stacks->tables);
	hash_table_fini(&stacks->objects);
	hash_table_fini(&stacks->moving);
	hash_table_fini(&stacks->gaps);
	free(stacks);
}

struct user_stacks *user_stacks_new(const char *arch, const char *symfs)
{
	struct user_stacks *stacks = calloc(1, sizeof(*stacks));

	if (!stacks)
		return NULL;
	stacks->symfs = symfs;
	stacks->time_ns = JIT_ANY_TIME;
	stacks->tables = unwind_tables_new(arch, max_table_bytes);
	stacks->cache = stacks->tables ? unwind_cache_new(stacks->tables) : NULL;
	if (!stacks->cache) {
		user_stacks_free(stacks);
		return NULL;
	}
	return stacks;
}

void user_stacks_set_time(struct user_stacks *stacks, int64_t time_ns)
{
	stacks->time_ns = time_ns;
}

int user_stacks_note_gaps(struct user_stacks *stacks, const struct maps *maps)
{
	if (hash_table_find(&stacks->gaps, (uintptr_t)maps))
		return 0;
	return hash_table_add_number(&stacks->gaps, (uintptr_t)maps, 1);
}

/* Of a dso or a symbol of one. NULL: out of memory. */
static struct unwind_object *object_of(struct user_stacks *stacks, const void *of)
{
	uint64_t key = (uintptr_t)of;
	struct unwind_object *object = hash_table_find_item(&stacks->objects, key);

	if (object)
		return object;
	object = unwind_tables_object(stacks->tables, &of, sizeof(of));
	if (object && hash_table_add(&stacks->objects, key, object))
		return NULL;
	return object;
}

/* Code that a jitdump describes. NULL: it does not say how it is unwound. */
static struct unwind_object *find_code(struct user_stacks *stacks, const struct jit_code *jit, uint64_t pc,
				       uint64_t *ret_offset)
{
	int64_t from, to;

	if (!jit_code_has_frames(jit))
		return NULL;
	if (!hash_table_find(&stacks->moving, (uintptr_t)stacks->maps) &&
	    hash_table_add_number(&stacks->moving, (uintptr_t)stacks->maps, 1))
		return NULL;
	const struct symbol *code = jit_code_find(jit, pc, stacks->time_ns, &from, &to);
	if (!code || !jit_code_frames(code).len)
		return NULL;
	stacks->last_code = code;
	*ret_offset = pc - code->start;
	return object_of(stacks, code);
}

static struct unwind_object *find_object(void *ctx, uint64_t pc, uint64_t *ret_offset)
{
	struct user_stacks *stacks = ctx;
	const struct map *map = maps_find(stacks->maps, pc);
	struct dso *dso = map ? map->object : NULL;

	if (dso && dso->jit)
		return find_code(stacks, dso->jit, pc, ret_offset);
	if (!dso || map->identity)
		return NULL;
	stacks->last = dso;
	stacks->last_code = NULL;
	*ret_offset = map_address(map, pc);
	return object_of(stacks, dso);
}

static bool is_code(void *ctx, uint64_t pc)
{
	const struct user_stacks *stacks = ctx;

	const struct map *map = maps_find(stacks->maps, pc);

	return map ? map_may_be_code(map) : hash_table_find(&stacks->gaps, (uintptr_t)stacks->maps) != NULL;
}

/* The object that was looked up last. */
static void build_table(struct user_stacks *stacks, struct unwind_object *object)
{
	const struct symbol *code = stacks->last_code;
	struct diag why = {""};

	if (code) {
		(void)!unwind_object_build_code(object, code->end - code->start, jit_code_frames(code));
		return;
	}
	dso_load(stacks->last, stacks->symfs);
	AUTO_FD int fd = dso_open(stacks->last, stacks->symfs, DSO_RUNTIME);
	int err = unwind_object_build(object, fd, &why);
	if (err == -EBADMSG || err == -EFBIG)
		log_note("%s: %s: some call chains end there", dso_long_name(stacks->last), why.text);
}

static struct unwind_space space_of(struct user_stacks *stacks, const struct maps *maps)
{
	bool moving = hash_table_find(&stacks->moving, (uintptr_t)maps);

	stacks->maps = maps;
	return (struct unwind_space){.find = find_object,
				     .is_code = is_code,
				     .ctx = stacks,
				     .generation = moving ? 0 : maps_generation(maps)};
}

void user_stack_chain(struct user_stacks *stacks, const struct maps *maps, const struct sample *sample,
		      struct unwind_chain *chain)
{
	const struct unwind_space space = space_of(stacks, maps);

	chain->thread = sample->tid;
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
