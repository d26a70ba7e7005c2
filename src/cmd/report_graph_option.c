/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "cmd/report_graph.h"

/* What a word sets, by the field. */
enum field { MODE, DIRECTION, KEY, VALUE, NOTHING };

static const struct word {
	const char *text;
	enum field field;
	int value;
} words[] = {
	{"none", MODE, GRAPH_NONE},
	{"graph", MODE, GRAPH_ABSOLUTE},
	{"flat", MODE, GRAPH_FLAT},
	{"fractal", MODE, GRAPH_FRACTAL},
	{"folded", MODE, GRAPH_FOLDED},
	{"caller", DIRECTION, CALLTREE_CALLER},
	{"callee", DIRECTION, CALLTREE_CALLEE},
	{"function", KEY, CALLTREE_FUNCTION},
	{"address", KEY, CALLTREE_ADDRESS},
	{"srcline", KEY, CALLTREE_SRCLINE},
	{"percent", VALUE, GRAPH_PERCENT},
	{"period", VALUE, GRAPH_PERIOD},
	{"count", VALUE, GRAPH_COUNT},
};

static void set_field(struct graph_options *options, const struct word *word)
{
	switch (word->field) {
	case MODE:
		options->mode = (enum graph_mode)word->value;
		break;
	case DIRECTION:
		options->direction = (enum calltree_direction)word->value;
		options->direction_set = true;
		break;
	case KEY:
		options->key = (enum calltree_key)word->value;
		break;
	case VALUE:
		options->value = (enum graph_value)word->value;
		break;
	default:
		break;
	}
}

/* As perf takes them: any beginning of a word is the word. */
static const struct word *find_word(const char *text, size_t len)
{
	for (size_t i = 0; len && i < sizeof(words) / sizeof(words[0]); i++)
		if (strncmp(words[i].text, text, len) == 0)
			return &words[i];
	return NULL;
}

static int set_number(struct graph_options *options, unsigned which, const char *text, size_t len, struct diag *reterr)
{
	char *end;

	if (which == 0) {
		double percent = strtod(text, &end);
		if (end == text + len && percent >= 0 && percent <= 100) {
			options->min_percent = percent;
			return 0;
		}
	} else if (which == 1) {
		unsigned long lines = strtoul(text, &end, 0);
		if (end == text + len && lines <= 1u << 30) {
			options->max_lines = (unsigned)lines;
			return 0;
		}
	}
	return diag_set(reterr, -EINVAL,
			"\"%.*s\" is neither a mode (graph, flat, fractal, folded, none), an order (caller, callee), a key "
			"(function), a value (percent, period, count) nor a percentage", (int)len, text);
}

int graph_parse(const char *text, struct graph_options *options, struct diag *reterr)
{
	unsigned nr_numbers = 0;

	for (const char *at = text;; at++) {
		size_t len = strcspn(at, ",");
		const struct word *word = find_word(at, len);
		if (len == strlen("branch") && strncmp(at, "branch", len) == 0)
			return diag_set(reterr, -EINVAL, "branch stacks are not read");
		if (word && word->field == KEY && word->value != CALLTREE_FUNCTION)
			return diag_set(reterr, -EINVAL, "call graphs by %s are not there yet", word->text);
		if (word) {
			set_field(options, word);
		} else if (len) {
			int err = set_number(options, nr_numbers++, at, len, reterr);
			if (err)
				return err;
		}
		at += len;
		if (!*at)
			return 0;
	}
}
