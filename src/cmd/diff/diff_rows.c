/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cmd/diff/diff.h"
#include "cmd/text/place_text.h"

int diff_rows_init(struct diff_rows *rows, unsigned nr_files)
{
	*rows = (struct diff_rows){.nr_files = nr_files, .totals = calloc(nr_files, sizeof(*rows->totals))};
	return rows->totals ? 0 : -ENOMEM;
}

void diff_rows_fini(struct diff_rows *rows)
{
	free(rows->rows);
	free(rows->totals);
	hash_table_fini(&rows->by_text);
	pool_fini(&rows->pool);
	*rows = (struct diff_rows){0};
}

/* Places are the same when all that is shown of them is: objects may be other builds, functions elsewhere in them. */
static char *place_text(const struct hist_place *place, const struct diff_options *options)
{
	char *text = NULL;
	size_t len;
	FILE *to = text_stream_open(&text, &len);

	if (!to)
		return NULL;
	for (unsigned i = 0; i < options->nr_keys; i++) {
		/* As in perf all that has no function is one row of its object. */
		if (options->keys[i] != HIST_SYM || place->symbol)
			place_text_print(to, options->keys[i], place, (struct place_style){0});
		fputc('\n', to); /* is escaped in names */
	}
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}

/* NULL: out of memory. */
static struct diff_row *find_row(struct diff_rows *rows, unsigned file, const struct hist_place *place,
				 const char *text)
{
	uint64_t key = hash_text(text);

	for (struct hash_slot *slot = hash_table_find(&rows->by_text, key); slot;
	     slot = hash_table_next(&rows->by_text, slot)) {
		struct diff_row *row = slot->item;
		if (row->filtered == place->filtered && !strcmp(row->text, text))
			return row;
	}
	if (array_room(rows->rows, rows->nr, rows->room))
		return NULL;
	struct diff_row *row = pool_take(&rows->pool, sizeof(*row));
	if (!row || hash_table_add(&rows->by_text, key, row))
		return NULL;
	row->place = *place;
	row->filtered = place->filtered;
	row->file = file;
	row->text = pool_text(&rows->pool, text, strlen(text));
	row->cells = pool_take(&rows->pool, rows->nr_files * sizeof(*row->cells));
	rows->rows[rows->nr++] = row;
	return row->text && row->cells ? row : NULL;
}

int diff_rows_add(struct diff_rows *rows, unsigned file, struct hist *hist, const struct diff_options *options)
{
	struct hist_entry *const *entries;
	size_t nr = 0;
	int err = hist ? hist_sort(hist, &entries, &nr) : 0;

	if (err)
		return err;
	for (size_t i = 0; i < nr; i++) {
		const struct hist_place *place = &entries[i]->place;
		if (!place->filtered || !options->relative)
			rows->totals[file] += entries[i]->period;
		if (place->filtered && (options->relative || !options->baseline_only))
			continue;
		char *text = place_text(place, options);
		struct diff_row *row = text ? find_row(rows, file, place, text) : NULL;
		free(text);
		if (!row)
			return -ENOMEM;
		if (row->file == file && (int64_t)(place->address - row->place.address) < 0)
			row->place = *place; /* the lowest address stands for all of them */
		row->cells[file].has = true;
		row->cells[file].period += entries[i]->period;
	}
	return 0;
}

double diff_percent(const struct diff_rows *rows, const struct diff_row *row, unsigned file)
{
	return rows->totals[file] ? 100.0 * (double)row->cells[file].period / (double)rows->totals[file] : 0;
}

double diff_baseline_percent(const struct diff_rows *rows, const struct diff_row *row)
{
	return rows->baseline ? 100.0 * (double)row->cells[0].period / (double)rows->baseline : 0;
}

/* In 64 bits, as in perf, as long as these are enough. */
static double weighted_difference(uint64_t before, uint64_t after, const struct diff_options *options)
{
	int64_t new_part, old_part, difference;

	if (before > INT64_MAX || after > INT64_MAX ||
	    __builtin_mul_overflow((int64_t)after, options->weight_data, &new_part) ||
	    __builtin_mul_overflow((int64_t)before, options->weight_baseline, &old_part) ||
	    __builtin_sub_overflow(new_part, old_part, &difference))
		return (double)after * (double)options->weight_data - (double)before * (double)options->weight_baseline;
	return (double)difference;
}

double diff_value(const struct diff_rows *rows, const struct diff_row *row, unsigned file,
		  const struct diff_options *options)
{
	uint64_t before = row->cells[0].period, after = row->cells[file].period;

	switch (options->compute) {
	case DIFF_RATIO: return before ? (double)after / (double)before : 0;
	case DIFF_WDIFF: return weighted_difference(before, after, options);
	default: return diff_percent(rows, row, file) - diff_percent(rows, row, 0);
	}
}

struct sorting {
	const struct diff_rows *rows;
	const struct diff_options *options;
};

/* The sign by which perf sorts what only a file has, where nothing can be computed of it. */
static double weight_sign(const struct diff_options *options)
{
	return options->compute == DIFF_WDIFF && options->weight_data < 0 ? -1 : 1;
}

static int compare_doubles(double a, double b)
{
	return a > b ? -1 : a < b;
}

/* The largest first; rows that this file does not have come last, and ratios of nothing before them. */
static int compare_file(const struct sorting *sorting, const struct diff_row *a, const struct diff_row *b,
			unsigned file)
{
	const struct diff_options *options = sorting->options;
	bool has_a = a->cells[file].has, has_b = b->cells[file].has, delta = options->compute <= DIFF_DELTA_ABS;

	if (!has_a || !has_b)
		return has_a == has_b ? 0 : has_a ? -1 : 1;
	if (!delta && (!a->cells[0].has || !b->cells[0].has))
		return a->cells[0].has == b->cells[0].has ? 0 : a->cells[0].has ? -1 : 1;
	double left = diff_value(sorting->rows, a, file, options), right = diff_value(sorting->rows, b, file, options);
	return options->compute == DIFF_DELTA_ABS ? compare_doubles(fabs(left), fabs(right))
						  : compare_doubles(left, right);
}

static int compare_names(const char *a, const char *b)
{
	return !a || !b ? !a - !b : strcmp(a, b);
}

/* By what is shown, as perf; what has no function by its address. */
static int compare_key(enum hist_column key, const struct hist_place *a, const struct hist_place *b)
{
	int64_t distance = (int64_t)(a->address - b->address);

	switch (key) {
	case HIST_COMM: return strcmp(a->comm->text, b->comm->text);
	case HIST_DSO:
		return compare_names(a->dso ? dso_short_name(a->dso) : NULL, b->dso ? dso_short_name(b->dso) : NULL);
	case HIST_SYM:
		if (!a->symbol && !b->symbol)
			return distance < 0 ? -1 : distance > 0;
		return compare_names(a->symbol ? a->symbol->name : NULL, b->symbol ? b->symbol->name : NULL);
	case HIST_TID: return (int32_t)a->tid < (int32_t)b->tid ? -1 : (int32_t)a->tid > (int32_t)b->tid;
	case HIST_CPU: return a->cpu < b->cpu ? -1 : a->cpu > b->cpu;
	default: return 0;
	}
}

/* By the file that is asked for, then by the baseline, then by each file, then by the keys. */
static int compare_rows(const void *left, const void *right, void *ctx)
{
	const struct sorting *sorting = ctx;
	const struct diff_options *options = sorting->options;
	const struct diff_row *a = *(struct diff_row *const *)left, *b = *(struct diff_row *const *)right;
	int order = options->order ? compare_file(sorting, a, b, (unsigned)options->order) : 0;

	if (!order)
		order = compare_doubles((double)a->cells[0].period, (double)b->cells[0].period);
	for (unsigned file = 1; options->compute <= DIFF_DELTA_ABS && !order && file < sorting->rows->nr_files; file++)
		order = compare_file(sorting, a, b, file);
	for (unsigned file = 1; !order && file < sorting->rows->nr_files; file++)
		order = compare_doubles(weight_sign(options) * (double)a->cells[file].period,
					weight_sign(options) * (double)b->cells[file].period);
	for (unsigned i = 0; !order && i < options->nr_keys; i++)
		order = compare_key(options->keys[i], &a->place, &b->place);
	return order ? order : strcmp(a->text, b->text);
}

/* Only what the baseline and another file have; shares of the baseline are of those, of which a filter hides some. */
static void keep_pairs(struct diff_rows *rows)
{
	size_t nr = 0;

	rows->baseline = 0;
	for (size_t i = 0; i < rows->nr; i++) {
		struct diff_row *row = rows->rows[i];
		bool pair = false;
		for (unsigned file = 1; file < rows->nr_files; file++)
			pair |= row->cells[file].has;
		if (!row->cells[0].has || !pair)
			continue;
		rows->baseline += row->cells[0].period;
		if (!row->filtered)
			rows->rows[nr++] = row;
	}
	rows->nr = nr;
}

void diff_rows_sort(struct diff_rows *rows, const struct diff_options *options)
{
	struct sorting sorting = {rows, options};

	rows->baseline = rows->totals[0];
	if (options->baseline_only)
		keep_pairs(rows);
	if (rows->nr)
		qsort_r(rows->rows, rows->nr, sizeof(*rows->rows), compare_rows, &sorting);
}
