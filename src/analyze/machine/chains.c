/* SPDX-License-Identifier: MIT */
#include "analyze/machine/chains.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine/ip_walk.h"
#include "perfdata/sample.h"
#include "read/session.h"
#include "tasks/maps.h"

enum { KNOWN_BITS = 14 };

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
	bool leaf; /* the program's innermost: no call is before that address */
};

struct chains {
	struct machine *machine;
	struct stacks *stacks;
	struct chain_ip ips[CHAIN_MOST_FRAMES]; /* of the chain that is looked up; likewise */
	struct chain_key keys[CHAIN_MOST_FRAMES];
	struct location frames[CHAIN_MOST_FRAMES]; /* at one address */
	struct known_chain known[1 << KNOWN_BITS];
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
	free(chains);
}

void chains_forget(struct chains *chains)
{
	memset(chains->known, 0, sizeof(chains->known));
}

bool chains_take(const struct chains *chains, const struct sample *sample)
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

/* Of each frame, from the outermost on. */
static void make_keys(struct chains *chains, const struct task *task, unsigned nr)
{
	struct chain_key key = {task_epoch(chains->machine, task).common, task->maps ? maps_generation(task->maps) : 0};

	for (unsigned i = nr; i-- > 0;) {
		add(&key, chains->ips[i].ip ^ (uint64_t)(chains->ips[i].cpumode | chains->ips[i].leaf << 7) << 56);
		chains->keys[i] = key;
	}
}

static struct known_chain *slot_of(struct chains *chains, const struct chain_key *key)
{
	return &chains->known[key->b & ((1 << KNOWN_BITS) - 1)];
}

/* As they were recorded. Returns how many. */
static unsigned list_ips(const struct session_record *record, struct chain_ip ret[CHAIN_MOST_FRAMES])
{
	struct ip_walk walk = ip_walk_over(record);
	unsigned nr = 0;
	uint64_t ip;

	while (nr < CHAIN_MOST_FRAMES && ip_walk_next(&walk, &ip))
		ret[nr++] = (struct chain_ip){ip, walk.cpumode, walk.leaf};
	return walk.untrusted ? 0 : nr;
}

/* The chain of what is at this address, called by *chain. */
static int push(struct chains *chains, struct task *task, const struct chain_ip *ip, struct known_chain *known)
{
	bool inlined = machine_inlines_all(chains->machine);
	struct location *frames = chains->frames;
	unsigned nr = 1;

	machine_resolve(chains->machine, task, ip->cpumode, ip->ip, frames);
	if (inlined) {
		struct location frame = *frames;
		frame.is_return = !ip->leaf && ip->cpumode == PERF_RECORD_MISC_USER;
		nr = machine_inlined(chains->machine, &frame, frames, CHAIN_MOST_FRAMES);
	}
	known->depth += nr;
	while (nr-- > 0)
		if (stacks_push(chains->stacks, known->chain, &frames[nr], &known->chain))
			return -ENOMEM;
	return 0;
}

int chains_intern(struct chains *chains, struct task *task, const struct session_record *record, uint32_t *ret_chain)
{
	unsigned nr = list_ips(record, chains->ips), from = 0;
	struct known_chain known = {0};

	lookup_set_time(machine_lookup(chains->machine), &record->sample);
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
