/* SPDX-License-Identifier: MIT */
#include "analyze/hist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/insertion.h"
#include "analyze/pool.h"

struct hist {
	struct hist_options options;
	struct pool pool;            /* the entries */
	struct hist_entry **slots;   /* open addressing; a power of two, at most half full */
	struct hist_entry **entries; /* all of them, as they came until sorted */
	size_t nr_slots, nr;
	uint64_t nr_samples, period, nr_adds;
};

enum { FIRST_SLOTS = 256 };

int hist_new(const struct hist_options *options, struct hist **ret)
{
	struct hist *hist = calloc(1, sizeof(*hist));

	if (!hist)
		return -ENOMEM;
	hist->options = *options;
	*ret = hist;
	return 0;
}

void hist_free(struct hist *hist)
{
	if (!hist)
		return;
	pool_fini(&hist->pool);
	free(hist->slots);
	free(hist->entries);
	free(hist);
}

static bool has_key(const struct hist *hist, enum hist_key key)
{
	for (unsigned i = 0; i < hist->options.nr_keys; i++)
		if (hist->options.keys[i] == key)
			return true;
	return false;
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
static int compare_address(const struct hist_place *a, const struct hist_place *b)
{
	int64_t distance = (int64_t)(a->address - b->address);

	return distance < 0 ? -1 : distance > 0;
}

static int compare_symbol(const struct hist_place *a, const struct hist_place *b)
{
	if (a->symbol == b->symbol)
		return 0;
	if (a->symbol->inlined || b->symbol->inlined) {
		int names = strcmp(a->symbol->name, b->symbol->name);
		if (names || (a->symbol->start <= b->symbol->end && b->symbol->start <= a->symbol->end))
			return names;
	}
	int order = compare_u64(a->symbol->start, b->symbol->start);
	return order ? order : compare_u64(a->symbol->end, b->symbol->end);
}

static int compare_symbol_name(const struct hist_place *a, const struct hist_place *b)
{
	if (!a->symbol || !b->symbol)
		return compare_known(a->symbol, b->symbol);
	return strcmp(a->symbol->name, b->symbol->name);
}

enum compare_for { COMPARE_IDENTITY, COMPARE_DISPLAY };

static int compare_key(const struct hist *hist, enum hist_key key, enum compare_for purpose,
		       const struct hist_place *a, const struct hist_place *b)
{
	int order;

	switch (key) {
	case HIST_COMM:
		return a->comm == b->comm ? 0 : strcmp(a->comm->text, b->comm->text);
	case HIST_DSO:
		return compare_dso(a, b);
	case HIST_SYM:
		if (purpose == COMPARE_DISPLAY)
			return compare_symbol_name(a, b);
		if (!a->symbol && !b->symbol)
			return compare_address(a, b);
		if (!a->symbol || !b->symbol)
			return compare_known(a->symbol, b->symbol);
		/* Addresses of symbols are only comparable inside one object. */
		order = has_key(hist, HIST_DSO) ? 0 : compare_dso(a, b);
		return order ? order : compare_symbol(a, b);
	case HIST_TID:
		return (int32_t)a->tid < (int32_t)b->tid ? -1 : (int32_t)a->tid > (int32_t)b->tid;
	case HIST_CPU:
		return a->cpu < b->cpu ? -1 : a->cpu > b->cpu;
	default:
		return 0;
	}
}

static int compare_keys(const struct hist *hist, enum compare_for purpose, const struct hist_place *a,
			const struct hist_place *b)
{
	for (unsigned i = 0; i < hist->options.nr_keys; i++) {
		int order = compare_key(hist, hist->options.keys[i], purpose, a, b);
		if (order)
			return order;
	}
	return 0;
}

static uint32_t mix(uint32_t hash, uint64_t value)
{
	value = (value ^ hash) * 0x9e3779b97f4a7c15ull;
	return (uint32_t)(value >> 32);
}

/* Of the keys that are cheap to hash; equal places have equal hashes. */
static uint32_t place_hash(const struct hist *hist, const struct hist_place *place)
{
	uint32_t hash = 1;

	for (unsigned i = 0; i < hist->options.nr_keys; i++) {
		switch (hist->options.keys[i]) {
		case HIST_COMM:
			for (const char *at = place->comm->text; *at; at++)
				hash = hash * 31 + (unsigned char)*at;
			break;
		case HIST_SYM:
			hash = mix(hash, place->symbol ? place->symbol->start : place->address);
			break;
		case HIST_TID:
			hash = mix(hash, place->tid);
			break;
		case HIST_CPU:
			hash = mix(hash, (uint64_t)(int64_t)place->cpu);
			break;
		case HIST_DSO:
			hash = mix(hash, place->dso ? strlen(dso_short_name(place->dso)) : 0);
			break;
		default:
			break;
		}
	}
	return hash;
}

static int hist_grow(struct hist *hist)
{
	size_t nr_slots = hist->nr_slots ? hist->nr_slots * 2 : FIRST_SLOTS;
	struct hist_entry **slots = calloc(nr_slots, sizeof(*slots));
	struct hist_entry **entries = reallocarray(hist->entries, nr_slots / 2, sizeof(*entries));

	if (entries)
		hist->entries = entries;
	if (!slots || !entries) {
		free(slots);
		return -ENOMEM;
	}
	for (size_t i = 0; i < hist->nr; i++) {
		size_t at = hist->entries[i]->hash & (nr_slots - 1);
		while (slots[at])
			at = (at + 1) & (nr_slots - 1);
		slots[at] = hist->entries[i];
	}
	free(hist->slots);
	hist->slots = slots;
	hist->nr_slots = nr_slots;
	return 0;
}

/* NULL: out of memory. */
static struct hist_entry *hist_find(struct hist *hist, const struct hist_place *place)
{
	uint32_t hash = place_hash(hist, place);

	if (hist->nr * 2 >= hist->nr_slots && hist_grow(hist))
		return NULL;
	size_t at = hash & (hist->nr_slots - 1);
	for (; hist->slots[at]; at = (at + 1) & (hist->nr_slots - 1)) {
		struct hist_entry *entry = hist->slots[at];
		if (entry->hash == hash && compare_keys(hist, COMPARE_IDENTITY, &entry->place, place) == 0)
			return entry;
	}
	struct hist_entry *entry = pool_take(&hist->pool, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->place = *place;
	entry->hash = hash;
	hist->slots[at] = entry;
	hist->entries[hist->nr++] = entry;
	return entry;
}

int hist_add(struct hist *hist, const struct hist_place *place, const struct hist_amount *amount,
	     struct hist_entry **ret)
{
	struct hist_entry *entry = hist_find(hist, place);

	if (!entry)
		return -ENOMEM;
	entry->stamp = ++hist->nr_adds;
	entry->period += amount->period;
	entry->children_period += amount->period;
	entry->nr_samples += amount->nr_samples;
	hist->period += amount->period;
	hist->nr_samples += amount->nr_samples;
	*ret = entry;
	return 0;
}

int hist_add_caller(struct hist *hist, const struct hist_place *place, uint64_t period, struct hist_entry **ret)
{
	struct hist_entry *entry = hist_find(hist, place);

	if (!entry)
		return -ENOMEM;
	if (entry->stamp == hist->nr_adds)
		return 0;
	entry->stamp = hist->nr_adds;
	entry->children_period += period;
	*ret = entry;
	return 1;
}

int hist_note_use(struct hist *hist, struct hist_entry *entry, const struct hist_use *use, uint32_t depth)
{
	struct hist_use *copy = pool_take(&hist->pool, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = (struct hist_use){.cell = use->cell, .skip = use->skip};
	if (entry->last)
		entry->last->next = copy;
	else
		entry->uses = copy;
	entry->last = copy;
	if (entry->depth < depth)
		entry->depth = depth;
	return 0;
}

uint64_t hist_nr_samples(const struct hist *hist)
{
	return hist->nr_samples;
}

uint64_t hist_period(const struct hist *hist)
{
	return hist->period;
}

static int compare_identity(const void *left, const void *right, const void *of)
{
	const struct hist_entry *a = left, *b = right;

	return compare_keys(of, COMPARE_IDENTITY, &a->place, &b->place);
}

static int compare_display(const void *left, const void *right, const void *of)
{
	const struct hist_entry *a = left, *b = right;
	const struct hist *hist = of;
	int order = hist->options.children ? compare_u64(b->children_period, a->children_period) : 0;

	if (!order && hist->options.by_depth && a->place.task == b->place.task)
		order = hist->options.by_depth * compare_u64(b->depth, a->depth);
	if (!order)
		order = compare_u64(b->period, a->period);
	return order ? order : compare_keys(hist, COMPARE_DISPLAY, &a->place, &b->place);
}

/* perf has them in a tree as they come, in another one when names may have changed, and in a third one for display. */
int hist_sort(struct hist *hist, struct hist_entry *const **ret, size_t *ret_nr)
{
	int err = insertion_sort((void **)hist->entries, hist->nr, compare_identity, hist);

	if (!err && has_key(hist, HIST_COMM))
		err = insertion_sort((void **)hist->entries, hist->nr, compare_identity, hist);
	if (!err)
		err = insertion_sort((void **)hist->entries, hist->nr, compare_display, hist);
	if (err)
		return err;
	*ret = hist->entries;
	*ret_nr = hist->nr;
	return 0;
}

int hist_key_parse(const char *word, size_t len, enum hist_key *ret)
{
	static const struct {
		const char *word;
		enum hist_key key;
	} words[] = {
		{"comm", HIST_COMM}, {"dso", HIST_DSO}, {"sym", HIST_SYM}, {"symbol", HIST_SYM},
		{"pid", HIST_TID},   {"tid", HIST_TID}, {"cpu", HIST_CPU},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i].word) == len && strncmp(words[i].word, word, len) == 0) {
			*ret = words[i].key;
			return 0;
		}
	}
	return -EINVAL;
}
