/* SPDX-License-Identifier: MIT */
/* tracepoint = SYSTEM ":" NAME, both with globs: one event for each that they match. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "event/event.h"
#include "event/grammar.h"
#include "event/list.h"
#include "event/names.h"
#include "event/suggest.h"
#include "event/term.h"
#include "event/tracepoint.h"

struct expansion {
	struct grammar *grammar;
	const struct event *model;
	size_t nr;
};

static int expand_tracepoint(const struct tracepoint *tracepoint, void *data)
{
	struct expansion *expansion = data;
	struct grammar *g = expansion->grammar;
	__attribute__((cleanup(event_fini))) struct event event = *expansion->model;

	event.name = NULL;
	event.attr.config = tracepoint->id;
	event.tracepoint_system = strdup(tracepoint->system);
	event.tracepoint_name = strdup(tracepoint->name);
	if (asprintf(&event.name, "%s:%s", tracepoint->system, tracepoint->name) < 0)
		event.name = NULL;
	if (!event.name || !event.tracepoint_system || !event.tracepoint_name)
		return grammar_no_memory(g);
	expansion->nr++;
	return list_add(&g->found, &event, g->parse.reterr);
}

void grammar_offer_tracepoint(const char *system, const char *name, void *data)
{
	char whole[SUGGEST_WORD_BYTES];

	if (strlen(system) + strlen(name) + 2 > sizeof(whole))
		return;
	stpcpy(stpcpy(stpcpy(whole, system), ":"), name);
	suggest_offer(data, whole);
	suggest_offer_as(data, name, whole);
}

static int unknown_tracepoint(struct grammar *g, const char *tracefs, const struct token *system,
			      const struct token *name)
{
	struct token whole = *system;
	struct suggest suggest;

	/* "cpu-clok:u" is rather a misspelt name with modifiers. */
	suggest_init(&suggest, system->text, system->len);
	names_offer(&suggest);
	if (suggest.nr && name->len < 4)
		return parse_unknown(&g->parse, system, "unknown event", &suggest);
	whole.len = name->end - system->start;
	suggest_init(&suggest, whole.text, whole.len);
	tracepoint_names(tracefs, grammar_offer_tracepoint, &suggest);
	return parse_unknown(&g->parse, &whole, "no tracepoint is called", &suggest);
}

int grammar_tracepoint(struct grammar *g, const struct token *system)
{
	__attribute__((cleanup(event_fini))) struct event model = list_new_event(PERF_TYPE_TRACEPOINT, 0);
	struct expansion expansion = {.grammar = g, .model = &model};

	parse_take(&g->parse);
	if (!parse_at(&g->parse, TOKEN_WORD))
		return parse_expected(&g->parse, "the name of a tracepoint");
	struct token name = parse_take(&g->parse);
	AUTO_FREE char *system_text = parse_text(system);
	AUTO_FREE char *name_text = parse_text(&name);
	if (!system_text || !name_text)
		return grammar_no_memory(g);

	const char *tracefs = grammar_tracefs(g, g->parse.reterr);
	if (!tracefs) {
		diag_prefix(g->parse.reterr, "tracepoint %s:%s", system_text, name_text);
		return -ENOENT;
	}
	/* Looked up before the rest is read, so that a misspelt name is what the message is about. */
	int err = tracepoint_visit(tracefs, system_text, name_text, expand_tracepoint, &expansion,
				   g->parse.reterr);
	if (err < 0) {
		diag_prefix(g->parse.reterr, "tracepoint %s:%s", system_text, name_text);
		return err;
	}
	if (!expansion.nr)
		return unknown_tracepoint(g, tracefs, system, &name);
	err = grammar_tail(g, TERM_HOST_TRACEPOINT, NULL, &model);
	for (size_t i = g->found.nr - expansion.nr; err == 0 && i < g->found.nr; i++)
		list_copy_settings(&g->found.events[i], &model);
	return err;
}
