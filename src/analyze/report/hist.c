/* SPDX-License-Identifier: MIT */
#include "analyze/report/hist.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash_table.h"
#include "base/pool.h"
#include "base/rbtree.h"

/* Rows of one function, by its lines, and those that it calls come by turns; names may be long. */
struct known_name {
	const struct symbol *symbol; /* NULL: none */
	uint64_t hash;
};

enum { KNOWN_NAMES = 256 };

struct hist {
	struct hist_options options;
	struct pool pool;            /* the entries */
	struct hash_table places;    /* entries, by the hash of their place */
	struct hist_entry **entries; /* all of them, as they came until sorted */
	size_t nr, room;
	unsigned nr_members;
	uint64_t nr_samples, period, nr_adds;
	uint64_t latency;
	uint8_t activity;             /* of the last hist_add() */
	const struct comm *last_comm; /* the last one that was hashed; names of tasks outlive the hist */
	uint64_t last_comm_hash;
	struct known_name names[KNOWN_NAMES]; /* likewise, by symbol */
};

enum { NR_LEVELS = HIST_SELF_GUEST_USER - HIST_SELF_KERNEL + 1 };
enum { LARGE_TABLE = 1 << 14, MOST_RANKS = 3 };

static void set_default_order(struct hist_options *options)
{
	options->order[options->nr_order++] = HIST_CHILDREN;
	options->order[options->nr_order++] = HIST_SELF;
	for (unsigned i = 0; i < options->nr_keys; i++)
		options->order[options->nr_order++] = options->keys[i];
}

int hist_new(const struct hist_options *options, struct hist **ret)
{
	struct hist *hist = calloc(1, sizeof(*hist));

	if (!hist)
		return -ENOMEM;
	hist->options = *options;
	if (!options->nr_order)
		set_default_order(&hist->options);
	*ret = hist;
	return 0;
}

void hist_free(struct hist *hist)
{
	if (!hist)
		return;
	pool_fini(&hist->pool);
	hash_table_fini(&hist->places);
	free(hist->entries);
	free(hist);
}

bool hist_has_key(const struct hist_options *options, enum hist_column key)
{
	for (unsigned i = 0; i < options->nr_keys; i++)
		if (options->keys[i] == key)
			return true;
	return false;
}

static bool has_key(const struct hist *hist, enum hist_column key)
{
	return hist_has_key(&hist->options, key);
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* What is known comes before what is not. */
static int compare_known(const void *a, const void *b)
{
	return !a - !b;
}

/* Objects are told apart by what is shown of them: two files of one name are one. */
static int compare_dso(const struct hist_place *a, const struct hist_place *b)
{
	if (a->dso == b->dso)
		return 0;
	if (!a->dso || !b->dso)
		return compare_known(a->dso, b->dso);
	return strcmp(dso_short_name(a->dso), dso_short_name(b->dso));
}

/* By the signed distance, as perf: what is in the kernel's half comes first, and junk goes in circles. */
static int compare_distance(uint64_t a, uint64_t b)
{
	int64_t distance = (int64_t)(a - b);

	return distance < 0 ? -1 : distance > 0;
}

static int compare_address(const struct hist_place *a, const struct hist_place *b)
{
	return compare_distance(a->address, b->address);
}

static int compare_symbol(const struct hist_place *a, const struct hist_place *b)
{
	if (a->symbol == b->symbol)
		return 0;
	if (a->symbol->by_name || b->symbol->by_name)
		return strcmp(a->symbol->name, b->symbol->name);
	if (a->symbol->inlined || b->symbol->inlined) {
		int names = strcmp(a->symbol->name, b->symbol->name);
		if (names || (a->symbol->start <= b->symbol->end && b->symbol->start <= a->symbol->end))
			return names;
	}
	int order = compare_u64(a->symbol->start, b->symbol->start);
	order = order ? order : compare_u64(a->symbol->end, b->symbol->end);
	/* Two builds of one name may have different functions at the same place, and so may programs of BPF. */
	return order ? order : strcmp(a->symbol->name, b->symbol->name);
}

static int compare_symbol_name(const struct hist_place *a, const struct hist_place *b)
{
	if (!a->symbol || !b->symbol)
		return compare_known(a->symbol, b->symbol);
	return strcmp(a->symbol->name, b->symbol->name);
}

enum hist_end hist_end_of(enum hist_column key)
{
	return key <= HIST_SRCLINE_FROM ? HIST_FROM
	       : key <= HIST_SRCLINE_TO ? HIST_TO
	       : key <= HIST_CACHE_LINE ? HIST_DATA
					: HIST_CODE;
}

static uint64_t cache_line(uint64_t address)
{
	return address & ~UINT64_C(63);
}

/* As perf: the other way round than the objects of samples. */
static int compare_end_dso(const struct hist_place_end *a, const struct hist_place_end *b)
{
	if (a->dso == b->dso)
		return 0;
	if (!a->dso || !b->dso)
		return compare_known(b->dso, a->dso);
	return strcmp(dso_short_name(b->dso), dso_short_name(a->dso));
}

static int compare_end_symbol(const struct hist_place_end *a, const struct hist_place_end *b)
{
	if (!a->symbol && !b->symbol)
		return compare_distance(a->ip, b->ip);
	if (!a->symbol || !b->symbol || a->symbol == b->symbol)
		return compare_known(a->symbol, b->symbol);
	int order = compare_distance(a->symbol->start, b->symbol->start);
	return order ? order : compare_distance(a->symbol->end, b->symbol->end);
}

static int compare_end(enum hist_column key, const struct hist_place_end *a, const struct hist_place_end *b)
{
	int order;

	switch (key) {
	case HIST_DSO_FROM:
	case HIST_DSO_TO:
	case HIST_DSO_DATA: return compare_end_dso(a, b);
	case HIST_SYM_FROM:
	case HIST_SYM_TO: return compare_end_symbol(a, b);
	case HIST_ADDRESS_FROM:
	case HIST_ADDRESS_TO: order = compare_end_dso(a, b); return order ? order : compare_distance(a->ip, b->ip);
	case HIST_SRCLINE_FROM:
	case HIST_SRCLINE_TO: return a->srcline == b->srcline ? 0 : strcmp(a->srcline, b->srcline);
	case HIST_CACHE_LINE:
		order = compare_u64(a->level, b->level);
		order = order ? order : compare_end_dso(a, b);
		return order ? order : compare_u64(cache_line(a->address), cache_line(b->address));
	default: return compare_distance(a->ip, b->ip); /* of data and code */
	}
}

static uint64_t dso_hash(const struct dso *dso)
{
	return dso ? hash_text(dso_short_name(dso)) : 0;
}

static uint64_t end_hash(enum hist_column key, const struct hist_place_end *end)
{
	switch (key) {
	case HIST_DSO_FROM:
	case HIST_DSO_TO:
	case HIST_DSO_DATA: return dso_hash(end->dso);
	case HIST_SYM_FROM:
	case HIST_SYM_TO: return end->symbol ? hash_mix(end->symbol->start, end->symbol->end) : end->ip;
	case HIST_ADDRESS_FROM:
	case HIST_ADDRESS_TO: return hash_mix(dso_hash(end->dso), end->ip);
	case HIST_SRCLINE_FROM:
	case HIST_SRCLINE_TO: return (uintptr_t)end->srcline;
	case HIST_CACHE_LINE: return hash_mix(dso_hash(end->dso), cache_line(end->address));
	default: return end->ip;
	}
}

/* As perf: by the bytes as they lie in memory, the largest first. */
static int compare_field(const struct hist_field *a, const struct hist_field *b)
{
	if (a == b)
		return 0;
	if (!a || !b)
		return compare_known(a, b);
	int order = memcmp(b->bytes, a->bytes, a->nr_bytes < b->nr_bytes ? a->nr_bytes : b->nr_bytes);
	return order ? order : compare_u64(b->nr_bytes, a->nr_bytes);
}

static uint64_t field_hash(const struct hist_field *field)
{
	return field ? hash_bytes(field->bytes, field->nr_bytes) : 0;
}

/* mem_lvl of a perf_mem_data_src. */
static uint64_t memory_level(uint64_t data_src)
{
	return data_src >> PERF_MEM_LVL_SHIFT & 0x3fff;
}

enum compare_for { COMPARE_IDENTITY, COMPARE_DISPLAY };

static int compare_details(enum hist_column key, enum compare_for purpose, const struct hist_details *a,
			   const struct hist_details *b)
{
	if (a == b)
		return 0;
	if (key >= HIST_FIELD && key <= HIST_FIELD_LAST)
		return compare_field(a->fields[key - HIST_FIELD], b->fields[key - HIST_FIELD]);
	if (key >= HIST_DSO_FROM && key < HIST_WEIGHT)
		return compare_end(key, &a->ends[hist_end_of(key)], &b->ends[hist_end_of(key)]);
	int order;
	switch (key) {
	case HIST_SOCKET: return a->socket < b->socket ? -1 : a->socket > b->socket;
	case HIST_TIME: return compare_u64(a->time_ns, b->time_ns);
	case HIST_SRCLINE: return strcmp(a->srcline, b->srcline);
	case HIST_SRCFILE: return strcmp(a->srcfile, b->srcfile);
	case HIST_TRACE: return strcmp(a->trace, b->trace);
	case HIST_STATE: return strcmp(a->state, b->state);
	case HIST_WAKER: return strcmp(a->waker, b->waker);
	case HIST_HOST: return strcmp(a->host, b->host);
	case HIST_PARENT:
		if (!a->parent || !b->parent)
			return compare_known(a->parent, b->parent);
		return strcmp(a->parent, b->parent);
	case HIST_CGROUP_ID:
		/* the largest first */
		order = compare_distance(b->cgroup_device, a->cgroup_device);
		return order ? order : compare_distance(b->numbers[key - HIST_WEIGHT], a->numbers[key - HIST_WEIGHT]);
	case HIST_WEIGHT:
	case HIST_LOCAL_WEIGHT:
	case HIST_INS_LAT:
	case HIST_LOCAL_INS_LAT:
	case HIST_CYCLES:
	case HIST_TRANSACTION:
		/* the largest first */
		return compare_u64(b->numbers[key - HIST_WEIGHT], a->numbers[key - HIST_WEIGHT]);
	case HIST_PHYSICAL:
	case HIST_DATA_PAGE_SIZE:
	case HIST_ADDRESS: return compare_distance(a->numbers[key - HIST_WEIGHT], b->numbers[key - HIST_WEIGHT]);
	case HIST_MISPREDICTED:
	case HIST_ABORTED:
	case HIST_IN_TRANSACTION:
		/* perf does not say which is less: the later one goes behind, and of two rows in front. */
		if (a->numbers[key - HIST_WEIGHT] == b->numbers[key - HIST_WEIGHT])
			return 0;
		return purpose == COMPARE_IDENTITY ? 1 : -1;
	case HIST_MEMORY:
		return compare_u64(memory_level(a->numbers[key - HIST_WEIGHT]),
				   memory_level(b->numbers[key - HIST_WEIGHT]));
	default: return compare_u64(a->numbers[key - HIST_WEIGHT], b->numbers[key - HIST_WEIGHT]);
	}
}

static int compare_key(enum hist_column key, enum compare_for purpose, const struct hist_place *a,
		       const struct hist_place *b)
{
	int order;

	switch (key) {
	case HIST_COMM: return a->comm == b->comm ? 0 : strcmp(a->comm->text, b->comm->text);
	case HIST_DSO: return compare_dso(a, b);
	case HIST_SYM:
		if (purpose == COMPARE_DISPLAY)
			return compare_symbol_name(a, b);
		if (!a->symbol && !b->symbol)
			return compare_address(a, b);
		/* Addresses of symbols are only comparable inside one object; perf asks for it before a missing one. */
		order = compare_dso(a, b);
		if (order || (a->symbol && b->symbol))
			return order ? order : compare_symbol(a, b);
		return compare_known(a->symbol, b->symbol);
	case HIST_TID: return (int32_t)a->tid < (int32_t)b->tid ? -1 : (int32_t)a->tid > (int32_t)b->tid;
	case HIST_CPU: return a->cpu < b->cpu ? -1 : a->cpu > b->cpu;
	default: return compare_details(key, purpose, a->details, b->details);
	}
}

static int compare_places(const struct hist *hist, const struct hist_place *a, const struct hist_place *b)
{
	for (unsigned i = 0; i < hist->options.nr_keys; i++) {
		int order = compare_key(hist->options.keys[i], COMPARE_IDENTITY, a, b);
		if (order)
			return order;
	}
	return hist->options.splits_filtered ? a->filtered - b->filtered : 0;
}

/* Callers of one sample have one name, and so have many samples in a row. */
static uint64_t comm_hash(struct hist *hist, const struct comm *comm)
{
	if (comm != hist->last_comm) {
		hist->last_comm = comm;
		hist->last_comm_hash = hash_text(comm->text);
	}
	return hist->last_comm_hash;
}

/* As they are compared. Functions that were inlined into one have all its range: only their names are different. */
static uint64_t symbol_hash(struct hist *hist, const struct hist_place *place)
{
	const struct symbol *symbol = place->symbol;

	if (!symbol)
		return place->address;
	struct known_name *known = &hist->names[hash_mix(0, (uintptr_t)symbol) >> 32 & (KNOWN_NAMES - 1)];
	if (known->symbol != symbol)
		*known = (struct known_name){symbol, hash_text(symbol->name)};
	const uint64_t hash = hash_mix(dso_hash(place->dso), known->hash);
	return symbol->by_name ? hash : hash_mix(hash, symbol->start);
}

/* Equal texts are one object. */
static uint64_t details_hash(enum hist_column key, const struct hist_details *details)
{
	switch (key) {
	case HIST_SOCKET: return (uint64_t)(int64_t)details->socket;
	case HIST_TIME: return details->time_ns;
	case HIST_SRCLINE: return (uintptr_t)details->srcline;
	case HIST_SRCFILE: return (uintptr_t)details->srcfile;
	case HIST_TRACE: return (uintptr_t)details->trace;
	case HIST_STATE: return (uintptr_t)details->state;
	case HIST_WAKER: return (uintptr_t)details->waker;
	case HIST_HOST: return (uintptr_t)details->host;
	case HIST_PARENT: return (uintptr_t)details->parent;
	case HIST_MEMORY: return memory_level(details->numbers[key - HIST_WEIGHT]);
	default: break;
	}
	if (key >= HIST_FIELD && key <= HIST_FIELD_LAST)
		return field_hash(details->fields[key - HIST_FIELD]);
	if (key < HIST_WEIGHT)
		return end_hash(key, &details->ends[hist_end_of(key)]);
	return details->numbers[key - HIST_WEIGHT];
}

/* Of the keys that are cheap to hash; equal places have equal hashes. */
static uint64_t place_hash(struct hist *hist, const struct hist_place *place)
{
	uint64_t hash = 1 + (hist->options.splits_filtered && place->filtered);

	for (unsigned i = 0; i < hist->options.nr_keys; i++) {
		switch (hist->options.keys[i]) {
		case HIST_COMM: hash = hash_mix(hash, comm_hash(hist, place->comm)); break;
		case HIST_SYM: hash = hash_mix(hash, symbol_hash(hist, place)); break;
		case HIST_TID: hash = hash_mix(hash, place->tid); break;
		case HIST_CPU: hash = hash_mix(hash, (uint64_t)(int64_t)place->cpu); break;
		case HIST_DSO: hash = hash_mix(hash, dso_hash(place->dso)); break;
		default: hash = hash_mix(hash, details_hash(hist->options.keys[i], place->details)); break;
		}
	}
	return hash;
}

struct hist_entry *hist_entry_of(struct hist *hist, const struct hist_place *place)
{
	uint64_t key = place_hash(hist, place);

	for (struct hash_slot *slot = hash_table_find(&hist->places, key); slot;
	     slot = hash_table_next(&hist->places, slot)) {
		struct hist_entry *entry = slot->item;
		if (compare_places(hist, &entry->place, place) == 0)
			return entry;
	}
	return NULL;
}

/* NULL: out of memory. */
static struct hist_entry *hist_find(struct hist *hist, const struct hist_place *place)
{
	struct hist_entry *known = hist_entry_of(hist, place);

	if (known)
		return known;
	if (array_room(hist->entries, hist->nr, hist->room))
		return NULL;
	struct hist_entry *entry = pool_take(&hist->pool, sizeof(*entry));
	if (!entry || hash_table_add(&hist->places, place_hash(hist, place), entry))
		return NULL;
	entry->place = *place;
	hist->entries[hist->nr++] = entry;
	return entry;
}

/* The column for what was sampled there; HIST_COLUMNS: none. */
static enum hist_column level_of(char level)
{
	switch (level) {
	case 'k': return HIST_SELF_KERNEL;
	case '.': return HIST_SELF_USER;
	case 'g': return HIST_SELF_GUEST_KERNEL;
	case 'u': return HIST_SELF_GUEST_USER;
	default: return HIST_COLUMNS;
	}
}

/* What was counted in children_period. 0 or -ENOMEM. */
static int add_activity(struct hist *hist, struct hist_entry *entry, uint64_t period)
{
	if (!hist->options.activities)
		return 0;
	if (!entry->activity_periods)
		entry->activity_periods = pool_take(&hist->pool, ACTIVITIES * sizeof(*entry->activity_periods));
	if (!entry->activity_periods)
		return -ENOMEM;
	entry->activity_periods[hist->activity] += period;
	return 0;
}

int hist_add(struct hist *hist, const struct hist_place *place, const struct hist_amount *amount,
	     struct hist_entry **ret)
{
	struct hist_entry *entry = hist_find(hist, place);

	if (entry && !entry->level_periods)
		entry->level_periods = pool_take(&hist->pool, NR_LEVELS * sizeof(*entry->level_periods));
	if (!entry || !entry->level_periods)
		return -ENOMEM;
	entry->stamp = ++hist->nr_adds;
	entry->period += amount->period;
	entry->children_period += amount->period;
	enum hist_column level = level_of(place->level);
	if (level != HIST_COLUMNS)
		entry->level_periods[level - HIST_SELF_KERNEL] += amount->period;
	entry->nr_samples += amount->nr_samples;
	entry->latency += amount->latency;
	hist->period += amount->period;
	hist->latency += amount->latency;
	hist->nr_samples += amount->nr_samples;
	hist->activity = place->activity;
	*ret = entry;
	return add_activity(hist, entry, amount->period);
}

int hist_add_caller(struct hist *hist, const struct hist_place *place, uint64_t period, struct hist_entry **entry)
{
	if (!*entry)
		*entry = hist_find(hist, place);
	if (!*entry)
		return -ENOMEM;
	if ((*entry)->stamp == hist->nr_adds)
		return 0;
	(*entry)->stamp = hist->nr_adds;
	(*entry)->children_period += period;
	return add_activity(hist, *entry, period) ? -ENOMEM : 1;
}

int hist_note_use(struct hist *hist, struct hist_entry *entry, const struct use *use, uint32_t depth)
{
	if (entry->depth < depth)
		entry->depth = depth;
	return use_list_append(&entry->uses, use, &hist->pool);
}

/* Adds an array that may not be there. 0 or -ENOMEM. */
static int add_all(struct hist *hist, const uint64_t *from, size_t nr, uint64_t **to)
{
	if (!from)
		return 0;
	if (!*to)
		*to = pool_take(&hist->pool, nr * sizeof(**to));
	for (size_t i = 0; *to && i < nr; i++)
		(*to)[i] += from[i];
	return *to ? 0 : -ENOMEM;
}

static int add_numbers(struct hist *hist, const struct hist_entry *from, struct hist_entry *to)
{
	to->period += from->period;
	to->children_period += from->children_period;
	to->nr_samples += from->nr_samples;
	to->latency += from->latency;
	int err = add_all(hist, from->level_periods, NR_LEVELS, &to->level_periods);
	return err ? err : add_all(hist, from->activity_periods, ACTIVITIES, &to->activity_periods);
}

/* Of members of a group, which get entries of their own. */
static int add_members(struct hist *hist, const struct hist_entry *from, struct hist_entry *to)
{
	if (!from->members)
		return 0;
	if (!to->members)
		to->members = pool_take(&hist->pool, hist->nr_members * sizeof(*to->members));
	for (unsigned i = 0; to->members && i < hist->nr_members; i++) {
		if (!from->members[i])
			continue;
		if (!to->members[i])
			to->members[i] = pool_take(&hist->pool, sizeof(*to->members[i]));
		if (!to->members[i] || add_numbers(hist, from->members[i], to->members[i]))
			return -ENOMEM;
	}
	return to->members ? 0 : -ENOMEM;
}

int hist_new_sums(const struct hist *hist, const enum hist_column keys[], unsigned nr_keys, struct hist **ret)
{
	struct hist_options options = hist->options;
	struct hist *sums;

	options.nr_keys = nr_keys;
	memcpy(options.keys, keys, nr_keys * sizeof(*keys));
	options.nr_order = 0;
	for (unsigned i = 0; i < hist->options.nr_order; i++) {
		enum hist_column column = hist->options.order[i];
		if (column >= HIST_KEYS || hist_has_key(&options, column))
			options.order[options.nr_order++] = column;
	}
	int err = hist_new(&options, &sums);
	if (err)
		return err;
	sums->nr_members = hist->nr_members;
	for (size_t i = 0; i < hist->nr && !err; i++) {
		struct hist_entry *entry = hist_find(sums, &hist->entries[i]->place);
		err = entry ? add_numbers(sums, hist->entries[i], entry) : -ENOMEM;
		if (!err)
			err = add_members(sums, hist->entries[i], entry);
	}
	if (err)
		hist_free(sums);
	else
		*ret = sums;
	return err;
}

uint64_t hist_nr_samples(const struct hist *hist)
{
	return hist->nr_samples;
}

uint64_t hist_period(const struct hist *hist)
{
	return hist->period;
}

uint64_t hist_latency(const struct hist *hist)
{
	return hist->latency;
}

static int compare_identity(const void *left, const void *right, const void *ctx)
{
	const struct hist_entry *a = left, *b = right;

	return compare_places(ctx, &a->place, &b->place);
}

static uint64_t activity_period(const struct hist_entry *entry, enum hist_activity activity)
{
	return entry->activity_periods ? entry->activity_periods[activity] : 0;
}

uint64_t hist_number(const struct hist_entry *entry, enum hist_column column)
{
	switch (column) {
	case HIST_CHILDREN: return entry->children_period;
	case HIST_SELF_KERNEL:
	case HIST_SELF_USER:
	case HIST_SELF_GUEST_KERNEL:
	case HIST_SELF_GUEST_USER: return entry->level_periods ? entry->level_periods[column - HIST_SELF_KERNEL] : 0;
	case HIST_ON_CPU: return activity_period(entry, ACTIVITY_ON_CPU);
	case HIST_BLOCKED_TIME: return activity_period(entry, ACTIVITY_BLOCKED);
	case HIST_RUNNABLE: return activity_period(entry, ACTIVITY_RUNNABLE);
	case HIST_OFF_CPU: return activity_period(entry, ACTIVITY_BLOCKED) + activity_period(entry, ACTIVITY_RUNNABLE);
	case HIST_LATENCY: return entry->latency;
	case HIST_SAMPLES: return entry->nr_samples;
	default: return entry->period;
	}
}

/* Of the leader, 0, or a member from 1 on. */
static uint64_t member_number(const struct hist_entry *entry, unsigned member, enum hist_column column)
{
	if (!member)
		return hist_number(entry, column);
	const struct hist_entry *part = entry->members ? entry->members[member - 1] : NULL;
	return part ? hist_number(part, column) : 0;
}

/*
 * The largest first; a group by one event after the other, or, as perf, by a member that was asked for and then the
 * others. What is counted for callers, too, is that of the leader alone.
 */
static int compare_numbers(const struct hist *hist, enum hist_column column, const struct hist_entry *a,
			   const struct hist_entry *b)
{
	unsigned wanted = hist->options.sort_member, first = wanted <= hist->nr_members ? wanted : 0;

	if (column == HIST_CHILDREN)
		return compare_u64(hist_number(b, column), hist_number(a, column));
	int order = compare_u64(member_number(b, first, column), member_number(a, first, column));

	for (unsigned i = 1; i <= hist->nr_members && !order && first == wanted; i++)
		order = compare_u64(member_number(b, i, column), member_number(a, i, column));
	return order;
}

static int compare_column(const struct hist *hist, enum hist_column column, const struct hist_entry *a,
			  const struct hist_entry *b)
{
	if (column < HIST_KEYS)
		return compare_key(column, COMPARE_DISPLAY, &a->place, &b->place);
	if (column == HIST_CHILDREN && !hist->options.children)
		return 0;
	int order = compare_numbers(hist, column, a, b);
	if (!order && column == HIST_CHILDREN && hist->options.by_depth && a->place.task == b->place.task)
		order = hist->options.by_depth * compare_u64(b->depth, a->depth);
	return order;
}

static int compare_display(const void *left, const void *right, const void *ctx)
{
	const struct hist *hist = ctx;

	for (unsigned i = 0; i < hist->options.nr_order; i++) {
		int order = compare_column(hist, hist->options.order[i], left, right);
		if (order)
			return order;
	}
	return 0;
}

/* An entry, and the columns that it is sorted by first where those are numbers: less is further up. */
struct ranked {
	uint64_t ranks[MOST_RANKS];
	struct hist_entry *entry;
};

/* By which columns entries are ranked, and from which one on they are compared. */
struct ranking {
	const struct hist *hist;
	enum hist_column columns[MOST_RANKS];
	unsigned nr, rest;
};

/* false: the column is no number, or not of one event only. */
static bool has_rank(const struct hist *hist, enum hist_column column)
{
	return column == HIST_TIME || column == HIST_TID || column == HIST_CPU ||
	       (column >= HIST_KEYS && (!hist->nr_members || column == HIST_CHILDREN));
}

static uint64_t rank(enum hist_column column, const struct hist_entry *entry)
{
	const uint64_t sign = UINT64_C(1) << 63;

	switch (column) {
	case HIST_TIME: return entry->place.details->time_ns;
	case HIST_TID: return (uint64_t)(int32_t)entry->place.tid ^ sign;
	case HIST_CPU: return (uint64_t)entry->place.cpu ^ sign;
	default: return ~hist_number(entry, column);
	}
}

static void ranking_init(struct ranking *ranking, const struct hist *hist)
{
	const struct hist_options *options = &hist->options;

	*ranking = (struct ranking){.hist = hist};
	while (ranking->rest < options->nr_order && ranking->nr < MOST_RANKS) {
		enum hist_column column = options->order[ranking->rest];
		if (column == HIST_CHILDREN && !options->children) {
			ranking->rest++;
			continue;
		}
		if (!has_rank(hist, column))
			break;
		ranking->columns[ranking->nr++] = column;
		if (column == HIST_CHILDREN && options->by_depth)
			break; /* equal ones are compared by their depth */
		ranking->rest++;
	}
}

static bool stands_before(const struct ranking *ranking, const struct ranked *a, const struct ranked *b)
{
	const struct hist *hist = ranking->hist;

	for (unsigned i = 0; i < ranking->nr; i++)
		if (a->ranks[i] != b->ranks[i])
			return a->ranks[i] < b->ranks[i];
	int order = 0;
	for (unsigned i = ranking->rest; i < hist->options.nr_order && !order; i++)
		order = compare_column(hist, hist->options.order[i], a->entry, b->entry);
	return (order ? order : compare_identity(a->entry, b->entry, hist)) < 0;
}

/* A stable merge sort: the first half of what is merged goes through `room`. Parts that are in order cost nothing. */
static void sort_ranked(const struct ranking *ranking, struct ranked *all, size_t nr, struct ranked *room)
{
	size_t half = nr / 2, left = 0, right = half, to = 0;

	if (nr < 2)
		return;
	sort_ranked(ranking, all, half, room);
	sort_ranked(ranking, all + half, nr - half, room);
	if (!stands_before(ranking, &all[half], &all[half - 1]))
		return;
	memcpy(room, all, half * sizeof(*room));
	while (left < half && right < nr)
		all[to++] = stands_before(ranking, &all[right], &room[left]) ? all[right++] : room[left++];
	memcpy(all + to, room + left, (half - left) * sizeof(*room));
}

static int sort_large(struct hist *hist)
{
	struct ranking ranking;
	struct ranked *all = reallocarray(NULL, hist->nr + hist->nr / 2, sizeof(*all));

	if (!all)
		return -ENOMEM;
	ranking_init(&ranking, hist);
	for (size_t i = 0; i < hist->nr; i++) {
		all[i].entry = hist->entries[i];
		for (unsigned at = 0; at < ranking.nr; at++)
			all[i].ranks[at] = rank(ranking.columns[at], hist->entries[i]);
	}
	sort_ranked(&ranking, all, hist->nr, all + hist->nr);
	for (size_t i = 0; i < hist->nr; i++)
		hist->entries[i] = all[i].entry;
	free(all);
	return 0;
}

/* Of these perf's comparison says of each of two that it is the first: there is no order but that of its tree. */
static bool has_order(const struct hist *hist)
{
	return !has_key(hist, HIST_MISPREDICTED) && !has_key(hist, HIST_ABORTED) && !has_key(hist, HIST_IN_TRANSACTION);
}

/*
 * perf has them in a tree as they come, in another one when names may have changed, and in a third one for display.
 * Where its comparisons go in circles (see base/rbtree.h) that decides which of equal rows comes first, and is done
 * likewise; a large table is sorted without trees: equal rows of it may come in another order than perf's, always the
 * same.
 */
static bool has_trees(const struct hist *hist)
{
	return (hist->nr <= LARGE_TABLE && !hist->options.any_ties) || !has_order(hist);
}

static int sort_as_tree(struct hist *hist)
{
	return has_trees(hist) ? insertion_sort((void **)hist->entries, hist->nr, compare_identity, hist) : 0;
}

/* What only other members have comes into perf's last tree before the one for display. */
static int sort_before_link(struct hist *hist, bool leader)
{
	int err = has_key(hist, HIST_COMM) ? sort_as_tree(hist) : 0;

	return err || leader ? err : sort_as_tree(hist);
}

static int link_entry(struct hist *leader, unsigned member, struct hist_entry *part)
{
	struct hist_entry *entry = hist_find(leader, &part->place);

	if (entry && !entry->members)
		entry->members = pool_take(&leader->pool, leader->nr_members * sizeof(*entry->members));
	if (!entry || !entry->members)
		return -ENOMEM;
	entry->members[member] = part;
	return 0;
}

int hist_link(struct hist *leader, struct hist *const members[], unsigned nr_members)
{
	int err = sort_before_link(leader, true);

	leader->nr_members = nr_members;
	for (unsigned member = 0; member < nr_members && !err; member++) {
		struct hist *hist = members[member];
		if (hist)
			err = sort_before_link(hist, false);
		for (size_t i = 0; hist && i < hist->nr && !err; i++)
			err = link_entry(leader, member, hist->entries[i]);
	}
	return err;
}

int hist_sort(struct hist *hist, struct hist_entry *const **ret, size_t *ret_nr)
{
	int err = 0;

	if (!has_trees(hist)) {
		err = sort_large(hist);
	} else {
		err = sort_as_tree(hist);
		if (!err && has_key(hist, HIST_COMM) && !hist->nr_members)
			err = sort_as_tree(hist);
		if (!err)
			err = insertion_sort((void **)hist->entries, hist->nr, compare_display, hist);
	}
	if (err)
		return err;
	*ret = hist->entries;
	*ret_nr = hist->nr;
	return 0;
}
