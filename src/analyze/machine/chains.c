/* SPDX-License-Identifier: MIT */
#include "analyze/machine/chains.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine/inlined_ahead.h"
#include "analyze/machine/ip_walk.h"
#include "analyze/symbols/debug_info.h"
#include "analyze/symbols/dso.h"
#include "base/hash_table.h"
#include "base/pool.h"
#include "perfdata/sample.h"
#include "read/session.h"
#include "tasks/maps.h"
#include "unwind/unwind.h"

enum {
	KNOWN_BITS = 14,
	PLACE_BITS = 14,
	PLACE_FRAMES = 5,
	MANY_PENDING = 1 << 18, /* chains, of up to 16 bytes each; then most addresses are known */
};

/* Of a frame and all its callers, with what their names depend on. Two sums: equal by chance is out of the question. */
struct chain_key {
	uint64_t a, b;
};

struct known_chain {
	struct chain_key key;
	uint32_t chain; /* 0: empty */
	uint32_t depth; /* of its frames */
};

struct chain_ip {
	uint64_t ip;
	uint8_t cpumode;
	bool innermost; /* of the kernel or the program: no call is before that address */
	bool unwound;   /* by us, which has taken it to the call */
};

/* What is at an address of tasks with these maps: the numbers of its frames, innermost first. */
struct known_place {
	uint64_t ip, epoch, maps; /* epoch 0: empty */
	uint8_t mode, nr;         /* ip_mode(); of frames */
	uint32_t frames[PLACE_FRAMES];
};

/* The first frame of a function at a line. */
struct line_frame {
	struct location at;
	struct source_line line;
};

struct chains {
	struct machine *machine;
	struct stacks *stacks;
	struct inlined_ahead *ahead; /* NULL: frames are complete at once */
	bool all_lines, by_line;
	struct hash_table lines;                /* struct line_frame, by a hash */
	struct pool pool;                       /* of them */
	struct chain_ip ips[CHAIN_MOST_FRAMES]; /* of the chain that is looked up; likewise */
	struct chain_key keys[CHAIN_MOST_FRAMES];
	struct location frames[CHAIN_MOST_FRAMES]; /* at one address */
	struct known_chain known[1 << KNOWN_BITS];
	struct known_place places[1 << PLACE_BITS];
};

struct chains *chains_new(struct machine *machine, struct stacks *stacks)
{
	struct chains *chains = calloc(1, sizeof(*chains));

	if (chains) {
		chains->machine = machine;
		chains->stacks = stacks;
	}
	return chains;
}

void chains_free(struct chains *chains)
{
	if (!chains)
		return;
	inlined_ahead_free(chains->ahead);
	hash_table_fini(&chains->lines);
	pool_fini(&chains->pool);
	free(chains);
}

bool chains_expand_later(struct chains *chains, unsigned needs)
{
	chains->ahead = inlined_ahead_start(machine_debug_info(chains->machine), needs & CHAINS_LINES);
	chains->all_lines = needs & CHAINS_ALL_LINES;
	chains->by_line = needs & CHAINS_BY_LINE;
	return chains->ahead;
}

void chains_expect_line(struct chains *chains, const struct location *at)
{
	const struct inlined_place place = {at->dso, at->symbol, at->address - at->is_return, .is_line = true};

	inlined_ahead_add(chains->ahead, &place);
}

bool chains_are_many(const struct chains *chains)
{
	return chains->ahead && stacks_end_chain(chains->stacks) > MANY_PENDING;
}

static bool same_function(const struct location *a, const struct location *b)
{
	return a->dso == b->dso && a->symbol == b->symbol && a->level == b->level;
}

/* Makes the frame the first one at its line, if that is known. Without memory for it, it stays as it is. */
static void take_first_at_line(struct chains *chains, struct location *at)
{
	struct source_line line;

	if (!debug_info_line(machine_debug_info(chains->machine), at->dso, at->address - at->is_return, at->nr_inlined,
			     &line))
		return;
	const uint64_t key = hash_mix(hash_mix((uintptr_t)at->symbol, (uintptr_t)line.path), line.line);
	for (struct hash_slot *slot = hash_table_find(&chains->lines, key); slot;
	     slot = hash_table_next(&chains->lines, slot)) {
		const struct line_frame *first = slot->item;
		if (same_function(&first->at, at) && first->line.path == line.path && first->line.line == line.line) {
			*at = first->at;
			return;
		}
	}
	struct line_frame *first = pool_take(&chains->pool, sizeof(*first));
	if (first && !hash_table_add(&chains->lines, key, first))
		*first = (struct line_frame){*at, line};
}

static unsigned expand(void *ctx, const struct location *at, struct location *ret, unsigned max)
{
	struct chains *chains = ctx;
	unsigned nr = machine_inlined(chains->machine, at, ret, max);

	for (unsigned i = 0; i < nr && chains->by_line; i++)
		take_first_at_line(chains, &ret[i]);
	return nr;
}

int chains_expand(struct chains *chains, uint32_t **ret_numbers)
{
	inlined_ahead_finish(chains->ahead);
	inlined_ahead_free(chains->ahead);
	chains->ahead = NULL;
	chains_forget(chains);
	memset(chains->places, 0, sizeof(chains->places));
	return stacks_expand(chains->stacks, expand, chains, ret_numbers);
}

/* Frames keep their numbers. */
void chains_forget(struct chains *chains)
{
	memset(chains->known, 0, sizeof(chains->known));
}

bool chains_can_intern(const struct chains *chains, const struct sample *sample)
{
	return machine_chain_is_plain(chains->machine, sample);
}

static void add(struct chain_key *key, uint64_t value)
{
	key->a = (key->a ^ value) * 0x9e3779b97f4a7c15ull;
	key->a ^= key->a >> 29;
	key->b = (key->b + value) * 0xd6e8feb86659fd93ull;
	key->b ^= key->b >> 32;
}

/* What an address means, but for the maps. */
static uint8_t ip_mode(const struct chain_ip *ip)
{
	return (uint8_t)(ip->cpumode | ip->unwound << 6 | ip->innermost << 7);
}

/* Of each frame, from the outermost on. */
static void make_keys(struct chains *chains, const struct task *task, unsigned nr)
{
	struct chain_key key = {task_epoch(chains->machine, task).common, task->maps ? maps_generation(task->maps) : 0};

	for (unsigned i = nr; i-- > 0;) {
		add(&key, chains->ips[i].ip ^ (uint64_t)ip_mode(&chains->ips[i]) << 56);
		chains->keys[i] = key;
	}
}

static struct known_chain *slot_of(struct chains *chains, const struct chain_key *key)
{
	return &chains->known[key->b & ((1 << KNOWN_BITS) - 1)];
}

/* As they were recorded, and what the sampled stack tells. Returns how many. */
static unsigned list_ips(struct chains *chains, const struct task *task, const struct session_record *record)
{
	struct chain_ip *ips = chains->ips;
	struct ip_walk walk = ip_walk_over(record);
	unsigned nr = 0;
	uint64_t ip;

	while (nr < CHAIN_MOST_FRAMES && ip_walk_next(&walk, &ip))
		ips[nr++] = (struct chain_ip){ip, walk.cpumode, .innermost = walk.innermost};
	nr = walk.untrusted ? 0 : nr;
	if (!record->sample.user_stack.len)
		return nr;
	uint64_t unwound[CHAIN_MOST_FRAMES];
	struct unwind_chain chain = {.ips = unwound, .max = CHAIN_MOST_FRAMES};
	machine_unwind(chains->machine, task, &record->sample, &chain);
	for (unsigned i = 0; i < chain.nr && nr < CHAIN_MOST_FRAMES; i++)
		ips[nr++] = (struct chain_ip){unwound[i], PERF_RECORD_MISC_USER, .unwound = true};
	return nr;
}

/* The slot for this address; if it is not about it, its `nr` is 0. */
static struct known_place *place_of(struct chains *chains, const struct task *task, const struct chain_ip *ip)
{
	bool is_user = ip->cpumode == PERF_RECORD_MISC_USER;
	const struct known_place wanted = {
		.ip = ip->ip,
		.epoch = task_epoch(chains->machine, task).common,
		.maps = is_user && task->maps ? maps_generation(task->maps) : 0,
		.mode = ip_mode(ip),
	};
	struct known_place *place =
		&chains->places[(wanted.ip + wanted.maps) * 0x9e3779b97f4a7c15ull >> (64 - PLACE_BITS)];

	if (place->ip != wanted.ip || place->epoch != wanted.epoch || place->maps != wanted.maps ||
	    place->mode != wanted.mode)
		*place = wanted;
	return place;
}

/* The frames at this address, innermost first, from scratch. Returns how many. */
static unsigned look_up(struct chains *chains, struct task *task, const struct chain_ip *ip)
{
	struct lookup *lookup = machine_lookup(chains->machine);
	struct location *frames = chains->frames, frame;
	const bool is_caller = !ip->innermost && !ip->unwound;

	if (is_caller)
		lookup_resolve_caller(lookup, task, ip->cpumode, ip->ip, frames);
	else
		lookup_resolve(lookup, task, ip->cpumode, ip->ip, frames);
	if (!ip->unwound && !machine_inlines_all(chains->machine))
		return 1;
	frame = *frames;
	frame.is_return |= is_caller && ip->cpumode == PERF_RECORD_MISC_USER;
	if (chains->ahead && machine_may_inline(chains->machine, &frame)) {
		frame.nr_inlined = LOCATION_PENDING;
		*frames = frame;
		return 1;
	}
	return machine_inlined(chains->machine, &frame, frames, CHAIN_MOST_FRAMES);
}

/* What is looked up of a new frame: of one that is complete, its line, which is a file's. */
static void expect(struct chains *chains, const struct location *frame)
{
	if (frame->nr_inlined == LOCATION_PENDING)
		inlined_ahead_add(chains->ahead,
				  &(struct inlined_place){frame->dso, frame->symbol, frame->address - frame->is_return,
							  .is_line = false});
	else if (chains->all_lines && frame->symbol && frame->dso && !frame->dso->jit && !frame->dso->bpf_lines)
		chains_expect_line(chains, frame);
}

/* 0 or -ENOMEM. */
static int intern_frame(struct chains *chains, const struct location *frame, uint32_t *ret)
{
	const uint32_t end = stacks_end_frame(chains->stacks);
	int err = stacks_intern_frame(chains->stacks, frame, ret);

	if (!err && *ret == end && chains->ahead)
		expect(chains, frame);
	return err;
}

/* The chain of what is at this address, called by *chain. */
static int push(struct chains *chains, struct task *task, const struct chain_ip *ip, struct known_chain *known)
{
	struct known_place *place = place_of(chains, task, ip);

	if (place->nr) {
		known->depth += place->nr;
		for (unsigned i = place->nr; i-- > 0;)
			if (stacks_push(chains->stacks, known->chain, place->frames[i], &known->chain))
				return -ENOMEM;
		return 0;
	}
	unsigned nr = look_up(chains, task, ip);
	const struct dso *dso = chains->frames[0].dso;
	bool keeps = nr <= PLACE_FRAMES && (!dso || !dso->doubt.why); /* the uses of doubtful names are counted */
	known->depth += nr;
	for (unsigned i = nr; i-- > 0;) {
		uint32_t frame;
		if (intern_frame(chains, &chains->frames[i], &frame) ||
		    stacks_push(chains->stacks, known->chain, frame, &known->chain))
			return -ENOMEM;
		if (keeps)
			place->frames[i] = frame;
	}
	place->nr = keeps ? (uint8_t)nr : 0;
	return 0;
}

int chains_intern(struct chains *chains, struct task *task, const struct session_record *record, uint32_t *ret_chain)
{
	unsigned nr = list_ips(chains, task, record), from = 0;
	struct known_chain known = {0};

	make_keys(chains, task, nr);
	for (; from < nr && !known.chain; from++) {
		const struct known_chain *slot = slot_of(chains, &chains->keys[from]);
		if (slot->key.a == chains->keys[from].a && slot->key.b == chains->keys[from].b)
			known = *slot;
	}
	from -= known.chain != 0; /* that frame is known */
	while (from-- > 0) {
		if (push(chains, task, &chains->ips[from], &known))
			return -ENOMEM;
		known.key = chains->keys[from];
		*slot_of(chains, &known.key) = known;
	}
	stacks_note_depth(chains->stacks, known.depth);
	*ret_chain = known.chain;
	return 0;
}
