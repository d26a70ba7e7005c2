/* SPDX-License-Identifier: MIT */
#include "cmd/view/model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/dso.h"
#include "base/buf.h"
#include "base/escape.h"
#include "tasks/tasks.h"

enum { MOST_TREES = 4096 /* that are kept although the user did not open them */, WATCHED_CELLS = 1 << 16 };

static const struct view_event *event_of(const struct model *model)
{
	return model->event < model->data->nr_events ? &model->data->events[model->event] : NULL;
}

static void branches_free(struct branches *branches)
{
	if (branches)
		free(branches->all);
	free(branches);
}

static void trees_fini(struct hash_table *trees)
{
	for (size_t i = 0; i < trees->nr_slots; i++)
		if (trees->slots[i].number)
			branches_free(trees->slots[i].item);
	hash_table_fini(trees);
}

static bool is_dso(const struct zoom *zoom, const struct dso *dso)
{
	return dso && strcmp(zoom->name, dso_long_name(dso)) == 0;
}

static bool is_symbol(const struct zoom *zoom, const struct dso *dso, const struct symbol *symbol)
{
	if (!symbol || strcmp(zoom->name, symbol->name) != 0)
		return false;
	return !zoom->dso ? !dso : dso && strcmp(zoom->dso, dso_long_name(dso)) == 0;
}

/* With callers: samples that are in the function or in what it called. */
static bool chain_has(const struct model *model, uint32_t chain, const struct zoom *zoom)
{
	const struct stacks *stacks = model->data->stacks;

	for (; chain; chain = stacks_outer(stacks, chain)) {
		const struct location *at = stacks_location(stacks, stacks_frame(stacks, chain));
		if (is_symbol(zoom, at->dso, at->symbol))
			return true;
	}
	return false;
}

/* Is each row of the table about one object? Levels of a tree are the sums of what is left below. */
static bool has_objects(const struct model *model)
{
	const struct hist_options *keys = &model->count.hist;

	return !model->data->nr_levels && (hist_has_key(keys, HIST_DSO) || hist_has_key(keys, HIST_SYM));
}

static bool zoom_takes(const struct model *model, const struct zoom *zoom, const struct tally_cell *cell)
{
	const struct hist_place *place = &cell->place;

	switch (zoom->kind) {
	case ZOOM_COMM: return strcmp(zoom->name, place->comm->text) == 0;
	case ZOOM_THREAD: return zoom->tid == place->tid;
	case ZOOM_SOCKET: return zoom->socket == model_socket(model, place);
	/* Of rows about objects these choose some, see is_in_zooms(). */
	case ZOOM_DSO: return has_objects(model) || is_dso(zoom, place->dso);
	case ZOOM_KERNEL: return has_objects(model) || place->level == 'k';
	default:
		return is_symbol(zoom, place->dso, place->symbol) ||
		       (model_children(model) && chain_has(model, cell->chain, zoom));
	}
}

bool model_counts(const struct model *model, const struct tally_cell *cell)
{
	for (unsigned i = 0; i < model->nr_zooms; i++)
		if (!zoom_takes(model, &model->zooms[i], cell))
			return false;
	return true;
}

static bool counts(const void *ctx, const struct tally_cell *cell)
{
	const struct model *model = ctx;
	struct model_watch *watch = model->watch;

	if (watch && ++watch->nr_cells % WATCHED_CELLS == 0)
		watch->ended |= watch->ends();
	return !(watch && watch->ended) && model_counts(model, cell);
}

static void zoom_fini(struct zoom *zoom)
{
	free(zoom->name);
	free(zoom->dso);
	*zoom = (struct zoom){0};
}

int32_t model_socket(const struct model *model, const struct hist_place *place)
{
	return place->details && hist_has_key(&model->count.hist, HIST_SOCKET) ? (int32_t)place->details->socket : -1;
}

/* 0; -ENOENT: the place has none of that kind; -ENOMEM. */
static int zoom_init(const struct model *model, struct zoom *zoom, enum zoom_kind kind, const struct hist_place *place)
{
	const char *dso = place->dso ? dso_long_name(place->dso) : NULL;
	const char *name = kind == ZOOM_COMM     ? (place->comm ? place->comm->text : NULL)
			   : kind == ZOOM_THREAD ? (place->task ? place->task->comm->text : NULL)
			   : kind == ZOOM_DSO    ? dso
			   : kind == ZOOM_SYMBOL ? (place->symbol ? place->symbol->name : NULL)
						 : "";

	if (!name || (kind == ZOOM_KERNEL && place->level != 'k') ||
	    (kind == ZOOM_SOCKET && model_socket(model, place) < 0))
		return -ENOENT;
	*zoom = (struct zoom){
		.kind = kind, .tid = place->tid, .socket = model_socket(model, place), .name = strdup(name)};
	if (kind == ZOOM_SYMBOL && dso)
		zoom->dso = strdup(dso);
	if (!zoom->name || (kind == ZOOM_SYMBOL && dso && !zoom->dso)) {
		zoom_fini(zoom);
		return -ENOMEM;
	}
	return 0;
}

/* The rules of the data have another context: they are called through these. */
static bool hides_sample(const void *ctx, const struct hist_place *place)
{
	const struct count_rules *rules = &((const struct model *)ctx)->data->count.rules;

	return rules->hides_sample && rules->hides_sample(rules->ctx, place);
}

static bool hides_symbol(const void *ctx, const struct symbol *symbol)
{
	const struct count_rules *rules = &((const struct model *)ctx)->data->count.rules;

	return rules->hides_symbol && rules->hides_symbol(rules->ctx, symbol);
}

static const struct hist_details *caller_details(const void *ctx, const struct hist_details *callee,
						 const struct location *at)
{
	const struct count_rules *rules = &((const struct model *)ctx)->data->count.rules;

	return rules->caller_details ? rules->caller_details(rules->ctx, callee, at) : callee;
}

static const void *caller_common(const void *ctx, const struct hist_details *callee)
{
	const struct count_rules *rules = &((const struct model *)ctx)->data->count.rules;

	return rules->caller_common ? rules->caller_common(rules->ctx, callee) : callee;
}

static void free_hists(struct hist **hists, unsigned nr)
{
	for (unsigned i = 0; hists && i < nr; i++)
		hist_free(hists[i]);
	free(hists);
}

void model_free(struct model *model)
{
	if (!model)
		return;
	while (model->nr_zooms)
		zoom_fini(&model->zooms[--model->nr_zooms]);
	hierarchy_free(model->hierarchy);
	free_hists(model->hists, model->nr_hists);
	free(model->nodes);
	free(model->shown);
	free(model->totals);
	trees_fini(&model->trees);
	calltree_fini(&model->tree);
	calltree_fini(&model->before);
	free(model);
}

int model_new(const struct view_data *data, struct model **ret)
{
	struct model *model = calloc(1, sizeof(*model));

	if (!model)
		return -ENOMEM;
	model->data = data;
	model->count = data->count;
	model->count.rules = (struct count_rules){.counts = counts,
						  .hides_sample = hides_sample,
						  .hides_symbol = hides_symbol,
						  .caller_details = caller_details,
						  .caller_common = caller_common,
						  .ctx = model};
	model->relative = data->relative;
	model->percent_limit = data->percent_limit;
	model->sort_member = data->count.hist.sort_member;
	int err = model_recount(model);
	if (err) {
		model_free(model);
		return err;
	}
	*ret = model;
	return 0;
}

bool model_children(const struct model *model)
{
	return model->count.hist.children && model_has_chains(model);
}

bool model_has_chains(const struct model *model)
{
	const struct view_event *event = event_of(model);

	return event && event->chains && model->count.uses;
}

static uint64_t shown_period(const struct model *model, const struct hist_entry *entry)
{
	return model_children(model) ? entry->children_period : entry->period;
}

/* By the name of the function; of a table without functions by that of the object, or of the command. */
static bool name_matches(const struct model *model, const struct hist_place *place)
{
	const struct hist_options *keys = &model->count.hist;

	if (!model->filter[0])
		return true;
	if (hist_has_key(keys, HIST_SYM))
		return place->symbol && strstr(place->symbol->name, model->filter);
	if (hist_has_key(keys, HIST_DSO))
		return place->dso && strstr(dso_short_name(place->dso), model->filter);
	return strstr(place->comm->text, model->filter);
}

/* As perf: an object's rows are shown with their shares, whatever they called. */
static bool is_in_zooms(const struct model *model, const struct hist_place *place)
{
	for (unsigned i = 0; has_objects(model) && i < model->nr_zooms; i++) {
		const struct zoom *zoom = &model->zooms[i];
		if (zoom->kind == ZOOM_KERNEL && place->level != 'k')
			return false;
		if (zoom->kind == ZOOM_DSO && !is_dso(zoom, place->dso))
			return false;
	}
	return true;
}

const struct hist_entry *model_part(const struct hist_entry *entry, unsigned member)
{
	const struct hist_entry *part = !member ? entry : entry->members ? entry->members[member - 1] : NULL;

	return part && (part->nr_samples || part->period || part->children_period) ? part : NULL;
}

unsigned model_compared(const struct model *model)
{
	return model->sort_member && model->sort_member < model->nr_hists ? model->sort_member : 1;
}

static double percent(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

double model_delta(const struct model *model, uint64_t before, uint64_t after, unsigned member)
{
	return percent(after, model->totals[member]) - percent(before, model->totals[0]);
}

double model_share(const struct model *model, uint64_t period)
{
	return percent(period, model->totals[0]);
}

/* Of all parts of what is compared, else of the leader. */
static bool is_large(const struct model *model, const struct hist_entry *entry)
{
	unsigned nr = model->data->compared ? model->nr_hists : 1;

	for (unsigned i = 0; i < nr; i++) {
		const struct hist_entry *part = i ? model_part(entry, i) : entry;
		if (part &&
		    shown_period(model, part) >= (uint64_t)(model->percent_limit / 100 * (double)model->totals[i]))
			return true;
	}
	return false;
}

static uint64_t tally_period(const struct tally *tally)
{
	uint64_t period = 0;

	for (uint32_t i = 0; tally && i < tally->nr; i++)
		period += tally->amounts[i].period;
	return period;
}

static uint64_t part_period(const struct hist_entry *entry, unsigned member)
{
	const struct hist_entry *part = model_part(entry, member);

	return part ? part->period : 0;
}

/* Of all samples; or of those that are shown. */
static void set_totals(struct model *model, bool of_shown)
{
	const struct view_event *event = event_of(model);

	for (unsigned i = 0; i < model->nr_hists; i++) {
		const struct hierarchy_node *node = model->hierarchy ? hierarchy_first(model->hierarchy) : NULL;
		model->totals[i] = of_shown ? 0 : tally_period(event->tallies[i]);
		for (size_t at = 0; of_shown && !model->hierarchy && at < model->nr_shown; at++)
			model->totals[i] += part_period(model->entries[model->shown[at]], i);
		for (; of_shown && node; node = node->next)
			model->totals[i] += node->is_chosen ? part_period(node->entry, i) : 0;
	}
}

struct difference {
	double size;
	uint32_t entry;
};

static int compare_differences(const void *left, const void *right)
{
	const struct difference *a = left, *b = right;

	return a->size > b->size ? -1 : a->size < b->size ? 1 : (a->entry > b->entry) - (a->entry < b->entry);
}

/* The largest difference first, equal ones as they were. */
static int sort_by_difference(struct model *model)
{
	unsigned member = model_compared(model);
	struct difference *all = reallocarray(NULL, model->nr_shown + 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < model->nr_shown; i++) {
		const struct hist_entry *entry = model->entries[model->shown[i]], *part = model_part(entry, member);
		double delta =
			part ? model_delta(model, shown_period(model, entry), shown_period(model, part), member) : 0;
		all[i] = (struct difference){part ? fabs(delta) : -1, model->shown[i]};
	}
	qsort(all, model->nr_shown, sizeof(*all), compare_differences);
	for (size_t i = 0; i < model->nr_shown; i++)
		model->shown[i] = all[i].entry;
	free(all);
	return 0;
}

/* Is the entry among those that the user wants to see, whatever its share? */
static bool is_wanted(const struct model *model, const struct hist_entry *entry)
{
	return !entry->place.filtered && name_matches(model, &entry->place) && is_in_zooms(model, &entry->place);
}

/* Chooses the nodes above wanted leaves, and opens those that a filter is looking for. Is any leaf wanted? */
static bool choose_nodes(struct model *model, struct hierarchy_node *first, bool opens)
{
	bool any = false;

	for (struct hierarchy_node *node = first; node; node = node->next) {
		bool wanted = node->is_leaf ? is_wanted(model, node->entry) : choose_nodes(model, node->below, opens);
		node->is_chosen = wanted && is_large(model, node->entry);
		node->is_open |= opens && wanted && !node->is_leaf;
		any |= wanted;
	}
	return any;
}

static void list_open_nodes(struct model *model, struct hierarchy_node *first)
{
	for (struct hierarchy_node *node = first; node; node = node->next) {
		if (!node->is_chosen)
			continue;
		model->nodes[model->nr_shown++] = node;
		if (node->is_open)
			list_open_nodes(model, node->below);
	}
}

/* The cursor goes to the node, or to the lowest one above it that is seen. */
static void go_to_node(struct model *model, const struct hierarchy_node *node)
{
	size_t at = model->nr_shown;

	for (; node && at == model->nr_shown; node = node->above)
		for (at = 0; at < model->nr_shown && model->nodes[at] != node; at++)
			;
	if (at == model->nr_shown)
		model->cursor = (struct row){0};
	else if (model->cursor.entry != at)
		model->cursor = (struct row){.entry = at};
}

/* After levels were opened or closed. */
static void list_nodes(struct model *model)
{
	const struct hierarchy_node *at =
		model_has_row(model, model->cursor) ? model->nodes[model->cursor.entry] : NULL;

	model->nr_shown = 0;
	list_open_nodes(model, hierarchy_first(model->hierarchy));
	if (at)
		go_to_node(model, at);
}

static void choose_tree(struct model *model)
{
	bool opens = model->filter[0] && strcmp(model->filter, model->opened_for) != 0;

	set_totals(model, false);
	choose_nodes(model, hierarchy_first(model->hierarchy), opens);
	memcpy(model->opened_for, model->filter, sizeof(model->opened_for));
	if (model->relative)
		set_totals(model, true);
	list_nodes(model);
}

int model_choose(struct model *model)
{
	if (model->hierarchy) {
		choose_tree(model);
		return 0;
	}
	struct hist_entry *at = model_has_row(model, model->cursor) ? model_entry(model, model->cursor) : NULL;
	uint32_t *shown = reallocarray(model->shown, model->nr_entries + 1, sizeof(*shown)), branch;
	int err = 0;

	if (!shown)
		return -ENOMEM;
	model->shown = shown;
	model->nr_shown = 0;
	set_totals(model, false);
	for (size_t i = 0; i < model->nr_entries; i++) {
		struct hist_entry *entry = model->entries[i];
		if (is_large(model, entry) && is_wanted(model, entry))
			shown[model->nr_shown++] = (uint32_t)i;
	}
	if (model->relative)
		set_totals(model, true);
	if (model->data->compared && model->sort_member && model->nr_hists > 1)
		err = sort_by_difference(model);
	branch = model->cursor.branch;
	model->cursor = (struct row){0};
	for (size_t i = 0; at && i < model->nr_shown; i++)
		if (model->entries[shown[i]] == at)
			model->cursor = (struct row){i, branch};
	return err;
}

static int count_event(struct model *model, const struct view_event *event, struct hist **hists)
{
	model->count.hist.sort_member = model->data->compared ? 0 : model->sort_member;
	for (unsigned i = 0; i < event->nr; i++) {
		struct count_options options = model->count;
		options.hist.children = model_children(model);
		int err = event->tallies[i] ? count_cells(event->tallies[i], model->data->stacks, &options, &hists[i])
					    : count_nothing(&options, &hists[i]);
		if (err)
			return err;
	}
	if (model->watch && model->watch->ended)
		return -EINTR;
	return event->nr > 1 ? hist_link(hists[0], hists + 1, event->nr - 1) : 0;
}

static bool same_place(const struct hist_place *a, const struct hist_place *b)
{
	return a->comm == b->comm && a->dso == b->dso && a->symbol == b->symbol && a->tid == b->tid &&
	       a->cpu == b->cpu && (a->symbol || a->address == b->address) && a->details == b->details;
}

static uint64_t place_key(const struct hist_place *place)
{
	uint64_t key = hash_mix((uintptr_t)place->symbol, (uintptr_t)place->dso);

	return hash_mix(hash_mix(key, (uintptr_t)place->comm), place->tid);
}

/* What the user had before a recount. */
struct before {
	struct hash_table trees;    /* as in the model */
	struct hash_table by_place; /* entries whose tree was open, by place_key() */
	struct hist_entry *cursor;  /* NULL: there was no row */
	struct hist **hists;
	unsigned nr_hists;
	struct hierarchy *hierarchy;
	unsigned level; /* of the cursor, in a hierarchy */
};

static void remember(const struct model *model, struct before *before)
{
	*before = (struct before){.trees = model->trees,
				  .hists = model->hists,
				  .nr_hists = model->nr_hists,
				  .hierarchy = model->hierarchy};
	if (model_has_row(model, model->cursor)) {
		before->cursor = model_entry(model, model->cursor);
		before->level = model->hierarchy ? model->nodes[model->cursor.entry]->level : 0;
	}
	for (size_t i = 0; i < before->trees.nr_slots; i++) {
		const struct hash_slot *slot = &before->trees.slots[i];
		const struct branches *branches = slot->item;
		struct hist_entry *entry = (struct hist_entry *)(uintptr_t)slot->key; /* NOLINT */
		if (branches && branches->open)
			hash_table_add(&before->by_place, place_key(&entry->place), entry);
	}
}

static void before_fini(struct before *before)
{
	trees_fini(&before->trees);
	hash_table_fini(&before->by_place);
	hierarchy_free(before->hierarchy);
	free_hists(before->hists, before->nr_hists);
}

/* Opens in `to` what is open in `from`: the runs that begin with the same frames, in these ranges of branches. */
static void open_alike(const struct branches *from, uint32_t old, uint32_t old_end, struct branches *to, uint32_t first,
		       uint32_t end)
{
	for (; old < old_end; old = from->all[old].head ? from->all[old].end : old + 1) {
		if (!from->all[old].open)
			continue;
		for (uint32_t new = first; new < end; new = to->all[new].head ? to->all[new].end : new + 1) {
			if (!to->all[new].head || to->all[new].frame != from->all[old].frame)
				continue;
			to->all[new].open = to->all[new].foldable;
			open_alike(from, old + 1, from->all[old].end, to, new + 1, to->all[new].end);
			break;
		}
	}
}

static struct branches *find_branches(struct model *model, struct hist_entry *entry);

/* The tree of an entry as that of the same place was before. */
static void reopen(struct model *model, const struct before *before, struct hist_entry *entry)
{
	for (struct hash_slot *slot = hash_table_find(&before->by_place, place_key(&entry->place)); slot;
	     slot = hash_table_next(&before->by_place, slot)) {
		const struct hist_entry *old = slot->item;
		const struct branches *from = hash_table_find_item(&before->trees, (uintptr_t)old);
		if (!from || !same_place(&old->place, &entry->place))
			continue;
		struct branches *to = find_branches(model, entry);
		if (to) {
			to->open = true; /* also where none of its branches is above the limit now */
			open_alike(from, 0, from->nr, to, 0, to->nr);
		}
		return;
	}
}

/* Opens in the tree what is open among these nodes of the one before. */
static void open_as_before(struct model *model, const struct hierarchy_node *first)
{
	for (const struct hierarchy_node *node = first; node; node = node->next) {
		struct hierarchy_node *now =
			node->is_open ? hierarchy_find(model->hierarchy, &node->entry->place, node->level) : NULL;
		if (now)
			now->is_open = true;
		open_as_before(model, node->below);
	}
}

static void take_over_tree(struct model *model, const struct before *before)
{
	open_as_before(model, hierarchy_first(before->hierarchy));
	list_nodes(model);
	for (size_t i = 0; i < model->nr_shown && before->by_place.nr; i++)
		if (model->nodes[i]->is_leaf)
			reopen(model, before, model->nodes[i]->entry);
	if (before->cursor)
		go_to_node(model, hierarchy_find(model->hierarchy, &before->cursor->place, before->level));
}

static void take_over(struct model *model, const struct before *before)
{
	if (model->hierarchy && before->hierarchy) {
		take_over_tree(model, before);
		return;
	}
	if (!before->cursor && !before->by_place.nr)
		return;
	for (size_t i = 0; i < model->nr_shown; i++) {
		struct hist_entry *entry = model->entries[model->shown[i]];
		if (before->cursor && same_place(&before->cursor->place, &entry->place))
			model->cursor.entry = i;
		if (before->by_place.nr)
			reopen(model, before, entry);
	}
}

/* What is counted, as a tree, with room for all its nodes. 0 or -ENOMEM. */
static int make_hierarchy(const struct model *model, struct hist *leaves, struct hierarchy **ret,
			  struct hierarchy_node ***ret_nodes)
{
	struct hierarchy *hierarchy;
	int err = hierarchy_new(leaves, model->data->levels, model->data->nr_levels, &hierarchy);

	if (err)
		return err;
	struct hierarchy_node **nodes = calloc(hierarchy_nr(hierarchy) + 1, sizeof(*nodes));
	if (!nodes) {
		hierarchy_free(hierarchy);
		return -ENOMEM;
	}
	*ret = hierarchy;
	*ret_nodes = nodes;
	return 0;
}

int model_recount(struct model *model)
{
	const struct view_event *event = event_of(model);
	struct hierarchy *hierarchy = NULL;
	struct hierarchy_node **nodes = NULL;
	unsigned nr_hists = event ? event->nr : 0;
	struct hist **hists = calloc(nr_hists + 1, sizeof(*hists));
	uint64_t *totals = calloc(nr_hists + 1, sizeof(*totals));
	struct hist_entry *const *entries = NULL;
	size_t nr = 0;
	struct before before;
	int err = !hists || !totals ? -ENOMEM : event ? count_event(model, event, hists) : 0;

	if (!err && event)
		err = hist_sort(hists[0], &entries, &nr);
	if (!err && event && model->data->nr_levels)
		err = make_hierarchy(model, hists[0], &hierarchy, &nodes);
	if (err) {
		free_hists(hists, nr_hists);
		free(totals);
		return err;
	}
	remember(model, &before);
	model->trees = (struct hash_table){0};
	free(model->nodes);
	model->nodes = nodes;
	model->hierarchy = hierarchy;
	model->hists = hists;
	model->nr_hists = nr_hists;
	model->entries = entries;
	model->nr_entries = nr;
	free(model->totals);
	model->totals = totals;
	model->nr_samples = event ? hist_nr_samples(hists[0]) : 0;
	model->cursor = (struct row){0};
	model->nr_shown = 0;
	calltree_fini(&model->tree);
	calltree_fini(&model->before);
	err = calltree_init(&model->tree, model->data->stacks, CALLTREE_FUNCTION, NULL);
	if (!err && model->data->compared)
		err = calltree_init(&model->before, model->data->stacks, CALLTREE_FUNCTION, NULL);
	if (!err)
		err = model_choose(model);
	if (!err)
		take_over(model, &before);
	before_fini(&before);
	return err;
}

/* The branches of a sorted tree, depth first. */
struct filling {
	const struct calltree *tree, *before; /* before: of the baseline; NULL: nothing is compared */
	struct branches *to;
};

enum { NOT_BEFORE = UINT32_MAX };

/* The same branch in the tree of the baseline, `up` being that of the branch that it is on. */
static uint32_t find_before(const struct filling *filling, uint32_t up, uint32_t frame)
{
	if (!filling->before || up == NOT_BEFORE)
		return NOT_BEFORE;
	const struct calltree_node *nodes = filling->before->nodes;
	for (uint32_t child = nodes[up].child; child; child = nodes[child].next)
		if (nodes[child].frame == frame)
			return child;
	return NOT_BEFORE;
}

static void put_run(struct filling *filling, uint32_t head, const struct branch *above, uint32_t before)
{
	const struct calltree_node *nodes = filling->tree->nodes;
	uint32_t first = filling->to->nr;
	uint32_t last = nodes[head].last;

	for (uint32_t node = head; node; node = node == last ? 0 : nodes[node].child) {
		before = find_before(filling, before, nodes[node].frame);
		uint64_t baseline = before == NOT_BEFORE ? 0 : calltree_period(&filling->before->nodes[before]);
		filling->to->all[filling->to->nr++] = (struct branch){
			.period = calltree_period(&nodes[node]) - baseline,
			.baseline = baseline,
			.frame = nodes[node].frame,
			.parent = node != head ? first + 1
				  : above      ? (uint32_t)(above - filling->to->all) + 1
					       : 0,
			.depth = above ? above->depth + 1 : 1,
			.head = node == head,
		};
	}
	for (uint32_t child = nodes[last].child; child; child = nodes[child].next)
		put_run(filling, child, &filling->to->all[first], before);
	filling->to->all[first].end = filling->to->nr;
	filling->to->all[first].foldable = filling->to->nr > first + 1;
}

/* What the call tree of an entry is made of: the baseline first. Returns how many. */
static unsigned tree_parts(const struct model *model, const struct hist_entry *entry, struct count_part parts[2])
{
	const struct view_event *event = event_of(model);
	unsigned member = model_compared(model), nr = 0;
	const struct hist_entry *other = model->data->compared ? model_part(entry, member) : NULL;

	if (entry->uses.newest)
		parts[nr++] = (struct count_part){event->tallies[0], entry};
	if (other && other->uses.newest)
		parts[nr++] = (struct count_part){event->tallies[member], other};
	return nr;
}

/* Branches are shown from this period on; of what is compared, from a share of the shorter recording. */
static uint64_t least_period(const struct model *model)
{
	uint64_t total = model->totals[0], other = model->data->compared ? model->totals[model_compared(model)] : total;
	double limit = model->data->graph_percent / 100 * (double)(other < total ? other : total);

	return limit > 1 ? (uint64_t)limit : 1;
}

/* With branches that are shown. */
static bool has_tree(const struct model *model, const struct hist_entry *entry)
{
	struct count_part parts[2];
	unsigned nr = model_has_chains(model) ? tree_parts(model, entry, parts) : 0;
	uint64_t period = 0;

	for (unsigned i = 0; i < nr; i++)
		period += shown_period(model, parts[i].entry);
	return nr && period >= least_period(model);
}

/* NULL: out of memory. */
static struct branches *make_branches(struct model *model, const struct hist_entry *entry)
{
	struct branches *branches = calloc(1, sizeof(*branches));
	uint64_t least = least_period(model);
	struct count_part parts[2];
	unsigned nr = tree_parts(model, entry, parts);
	bool compared = model->data->compared;

	if (!branches || !has_tree(model, entry))
		return branches;
	int err = count_tree(parts, nr, model->count.direction, least, &model->tree);
	if (!err)
		err = calltree_sort(&model->tree, CALLTREE_ABSOLUTE, (double)least);
	if (!err && compared)
		err = count_tree(parts, parts[0].entry == entry, model->count.direction, 0, &model->before);
	branches->all = err ? NULL : calloc(model->tree.nr, sizeof(*branches->all));
	if (!branches->all) {
		branches_free(branches);
		return NULL;
	}
	struct filling filling = {&model->tree, compared ? &model->before : NULL, branches};
	for (uint32_t child = model->tree.nodes[0].child; child; child = model->tree.nodes[child].next)
		put_run(&filling, child, NULL, compared ? 0 : NOT_BEFORE);
	return branches;
}

static void open_branches(struct branches *branches, bool open)
{
	branches->open = open && branches->nr;
	for (uint32_t i = 0; i < branches->nr; i++)
		branches->all[i].open = open && branches->all[i].foldable;
}

/* Made when there is none yet; NULL: out of memory. */
static struct branches *find_branches(struct model *model, struct hist_entry *entry)
{
	struct branches *branches = hash_table_find_item(&model->trees, (uintptr_t)entry);

	if (branches)
		return branches;
	if (model->all_open && model->trees.nr >= MOST_TREES)
		trees_fini(&model->trees);
	branches = make_branches(model, entry);
	if (branches && hash_table_add(&model->trees, (uintptr_t)entry, branches)) {
		branches_free(branches);
		return NULL;
	}
	if (branches && model->all_open)
		open_branches(branches, true);
	return branches;
}

/* The tree of a row's entry if it is open; NULL: it is closed, or there is none. */
static struct branches *open_tree(struct model *model, struct row row)
{
	struct hist_entry *entry = model_entry(model, row);

	if (model->hierarchy && !model->nodes[row.entry]->is_leaf)
		return NULL;
	struct branches *branches =
		model->all_open ? find_branches(model, entry) : hash_table_find_item(&model->trees, (uintptr_t)entry);

	return branches && branches->open ? branches : NULL;
}

bool model_has_row(const struct model *model, struct row row)
{
	return row.entry < model->nr_shown;
}

struct hist_entry *model_entry(const struct model *model, struct row row)
{
	return model->hierarchy ? model->nodes[row.entry]->entry : model->entries[model->shown[row.entry]];
}

const struct hierarchy_node *model_node(const struct model *model, struct row row)
{
	return model->hierarchy && !row.branch ? model->nodes[row.entry] : NULL;
}

/* Of a tree of keys, those of the levels above and of its own tell a row from others. */
bool model_row_has(const struct model *model, struct row row, enum hist_column key)
{
	if (!model->hierarchy)
		return hist_has_key(&model->count.hist, key);
	for (unsigned level = 0; level <= model->nodes[row.entry]->level; level++)
		for (unsigned i = 0; i < model->data->levels[level].nr; i++)
			if (model->data->levels[level].keys[i] == key)
				return true;
	return false;
}

const struct branch *model_branch(struct model *model, struct row row)
{
	const struct branches *branches = row.branch ? open_tree(model, row) : NULL;

	return branches && row.branch <= branches->nr ? &branches->all[row.branch - 1] : NULL;
}

bool model_down(struct model *model, struct row *row)
{
	if (!model_has_row(model, *row))
		return false;
	const struct branches *branches = open_tree(model, *row);
	uint32_t next = !row->branch ? 0 : row->branch;
	if (branches && row->branch) {
		const struct branch *at = &branches->all[row->branch - 1];
		if (at->head && !at->open)
			next = at->end;
	}
	if (branches && next < branches->nr) {
		row->branch = next + 1;
		return true;
	}
	if (row->entry + 1 >= model->nr_shown)
		return false;
	*row = (struct row){row->entry + 1, 0};
	return true;
}

/* The branch, or the outermost closed head that it is below. */
static uint32_t visible_branch(const struct branches *branches, uint32_t branch)
{
	uint32_t visible = branch;

	for (uint32_t at = branches->all[branch - 1].parent; at; at = branches->all[at - 1].parent)
		if (!branches->all[at - 1].open)
			visible = at;
	return visible;
}

/* The lowest row of an entry. */
static struct row entry_end(struct model *model, size_t entry)
{
	struct row row = {.entry = entry};
	const struct branches *branches = open_tree(model, row);

	if (branches)
		row.branch = visible_branch(branches, branches->nr);
	return row;
}

bool model_up(struct model *model, struct row *row)
{
	const struct branches *branches = row->branch > 1 ? open_tree(model, *row) : NULL;

	if (branches)
		row->branch = visible_branch(branches, row->branch - 1);
	else if (row->branch)
		row->branch = 0;
	else if (row->entry)
		*row = entry_end(model, row->entry - 1);
	else
		return false;
	return true;
}

struct row model_last(struct model *model)
{
	return model->nr_shown ? entry_end(model, model->nr_shown - 1) : (struct row){0};
}

void model_normalize(struct model *model, struct row *row)
{
	if (row->entry >= model->nr_shown)
		*row = model_last(model);
	const struct branches *branches = row->branch && model->nr_shown ? open_tree(model, *row) : NULL;
	row->branch = branches && row->branch <= branches->nr ? visible_branch(branches, row->branch) : 0;
}

void model_forget(struct model *model)
{
	trees_fini(&model->trees);
	model->all_open = false;
	model->nr_shown = 0;
	model->cursor = (struct row){0};
}

char model_sign(struct model *model, struct row row)
{
	const struct branch *branch = model_branch(model, row);
	const struct hierarchy_node *node = model_node(model, row);

	if (node && !node->is_leaf) {
		const struct hierarchy_node *below = node->below;
		while (below && !below->is_chosen)
			below = below->next;
		return !below ? ' ' : node->is_open ? '-' : '+';
	}
	if (branch)
		return !branch->foldable ? ' ' : branch->open ? '-' : '+';
	if (!has_tree(model, model_entry(model, row)))
		return ' ';
	if (open_tree(model, row))
		return '-';
	const struct branches *made = hash_table_find_item(&model->trees, (uintptr_t)model_entry(model, row));
	return made && !made->nr ? ' ' : '+';
}

struct hist_place model_place(struct model *model, struct row row)
{
	struct hist_place place = model_entry(model, row)->place;
	const struct branch *branch = model_branch(model, row);
	bool has_symbol = model_row_has(model, row, HIST_SYM), has_dso = model_row_has(model, row, HIST_DSO);

	/* What an entry has besides is that of its first sample. */
	if (!model_row_has(model, row, HIST_COMM) && !model_row_has(model, row, HIST_TID)) {
		place.comm = NULL;
		place.task = NULL;
	}
	if (!has_symbol) {
		place.symbol = NULL;
		place.dso = has_dso ? place.dso : NULL;
		place.level = has_dso ? place.level : 0;
	}
	if (branch) {
		const struct location *at = stacks_location(model->data->stacks, branch->frame);
		place.dso = at->dso;
		place.symbol = at->symbol;
		place.address = at->address;
		place.level = at->level;
	}
	return place;
}

static void open_nodes(struct hierarchy_node *first, bool open)
{
	for (struct hierarchy_node *node = first; node; node = node->next) {
		node->is_open = open && !node->is_leaf;
		open_nodes(node->below, open);
	}
}

void model_close_entry(struct model *model, struct row row)
{
	struct hierarchy_node *node = model->hierarchy && !row.branch ? model->nodes[row.entry] : NULL;

	if (node && !node->is_leaf) {
		node->is_open = false;
		open_nodes(node->below, false);
		list_nodes(model);
		return;
	}
	struct branches *branches = find_branches(model, model_entry(model, row));
	if (branches)
		open_branches(branches, false);
	if (model->cursor.entry == row.entry)
		model->cursor.branch = 0;
}

/* false: the row is not a level. */
static bool toggle_level(struct model *model, struct row row, bool all)
{
	struct hierarchy_node *node = model->hierarchy && !row.branch ? model->nodes[row.entry] : NULL;

	if (!node || node->is_leaf)
		return false;
	node->is_open = !node->is_open;
	if (all)
		open_nodes(node->below, node->is_open);
	list_nodes(model);
	return true;
}

void model_toggle(struct model *model, struct row row)
{
	if (toggle_level(model, row, false))
		return;
	struct branches *branches = find_branches(model, model_entry(model, row));
	if (!branches)
		return;
	if (!row.branch) {
		branches->open = !branches->open && branches->nr;
	} else if (row.branch <= branches->nr) {
		struct branch *at = &branches->all[row.branch - 1];
		at->open = at->foldable && !at->open;
	}
}

void model_toggle_entry(struct model *model, struct row row)
{
	if (toggle_level(model, row, true))
		return;
	struct branches *branches = find_branches(model, model_entry(model, row));
	if (!branches)
		return;
	open_branches(branches, !branches->open);
	if (!branches->open && model->cursor.entry == row.entry)
		model->cursor.branch = 0;
}

static void open_levels(struct model *model, bool open)
{
	if (!model->hierarchy)
		return;
	open_nodes(hierarchy_first(model->hierarchy), open);
	list_nodes(model);
}

void model_open_all(struct model *model)
{
	trees_fini(&model->trees);
	model->all_open = model_has_chains(model);
	open_levels(model, true);
}

void model_close_all(struct model *model)
{
	trees_fini(&model->trees);
	model->all_open = false;
	model->cursor.branch = 0;
	open_levels(model, false);
}

uint32_t model_cells(const struct model *model)
{
	const struct view_event *event = event_of(model);
	uint32_t nr = 0;

	for (unsigned i = 0; event && i < event->nr; i++)
		nr += event->tallies[i] ? event->tallies[i]->nr : 0;
	return nr;
}

int model_zoom(struct model *model, enum zoom_kind kind, const struct hist_place *place, bool (*ends)(void))
{
	struct model_watch watch = {.ends = ends};

	if (model->nr_zooms == MODEL_ZOOMS)
		return -ENOSPC;
	int err = zoom_init(model, &model->zooms[model->nr_zooms], kind, place);
	if (err)
		return err;
	model->nr_zooms++;
	model->watch = ends ? &watch : NULL;
	err = model_recount(model);
	model->watch = NULL;
	if (err)
		zoom_fini(&model->zooms[--model->nr_zooms]);
	return err;
}

bool model_zoom_out(struct model *model, int *reterr)
{
	*reterr = 0;
	if (!model->nr_zooms)
		return false;
	zoom_fini(&model->zooms[--model->nr_zooms]);
	*reterr = model_recount(model);
	return true;
}

void model_put_zooms(const struct model *model, struct buf *out)
{
	static const char *const kinds[] = {
		[ZOOM_COMM] = "Command",  [ZOOM_THREAD] = "Thread", [ZOOM_DSO] = "DSO",
		[ZOOM_SYMBOL] = "Symbol", [ZOOM_KERNEL] = "Kernel", [ZOOM_SOCKET] = "Socket: "};

	for (unsigned i = 0; i < model->nr_zooms; i++) {
		const struct zoom *zoom = &model->zooms[i];
		buf_printf(out, "%s%s%s", i ? ", " : "", kinds[zoom->kind], zoom->name[0] ? ": " : "");
		escape_put_text(out, zoom->name);
		if (zoom->kind == ZOOM_THREAD)
			buf_printf(out, "(%u)", zoom->tid);
		else if (zoom->kind == ZOOM_SOCKET)
			buf_printf(out, "%d", zoom->socket);
	}
}
