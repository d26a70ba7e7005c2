/* SPDX-License-Identifier: MIT */
#include "cmd/folded.h"

#include "analyze/stacks.h"
#include "cmd/output.h"
#include "cmd/report_samples.h"

enum { MAX_DEPTH = 512 };

/* A semicolon would part the name. */
static void put_name(struct output *out, const char *name)
{
	for (; *name; name++)
		output_char(out, *name == ';' ? ':' : *name == '\n' ? ' ' : *name);
}

/* What has no name is its object's. */
static void put_frame(struct output *out, const struct symbol *symbol, const struct dso *dso)
{
	output_char(out, ';');
	if (symbol) {
		put_name(out, symbol->name);
		return;
	}
	const char *name = dso ? dso_short_name(dso) : "unknown";
	bool bare = *name != '[';
	if (bare)
		output_char(out, '[');
	put_name(out, name);
	if (bare)
		output_char(out, ']');
}

static void put_cell(const struct samples *samples, const struct tally_cell *cell, struct output *out)
{
	uint32_t links[MAX_DEPTH];
	unsigned nr = 0;

	for (uint32_t chain = cell->chain; chain && nr < MAX_DEPTH; chain = stacks_outer(samples->stacks, chain))
		links[nr++] = chain;
	put_name(out, cell->place.comm->text);
	if (!nr)
		put_frame(out, cell->place.symbol, cell->place.dso);
	while (nr--) {
		const struct location *at = stacks_location(samples->stacks, stacks_frame(samples->stacks, links[nr]));
		put_frame(out, at->symbol, at->dso);
	}
	output_char(out, ' ');
	output_decimal(out, cell->amount.nr_samples, (struct output_pad){0});
	output_char(out, '\n');
}

void folded_print(const struct samples *samples, size_t event, struct output *out)
{
	const struct tally *tally = event < samples->nr ? &samples->events[event].tally : NULL;

	for (uint32_t i = 0; tally && i < tally->nr && !output_is_over(out); i++) {
		struct tally_cell cell = tally_cell(tally, i);
		if (!cell.place.filtered)
			put_cell(samples, &cell, out);
	}
}
