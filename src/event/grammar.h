/* SPDX-License-Identifier: MIT */
/* grammar: what the rules of -e share; which rule is where: grammar.c. Private to this room. */
#pragma once

#include <stddef.h>

#include "event/event.h"
#include "event/parse.h"
#include "event/term.h"

struct grammar {
	struct parse parse;
	struct event_list found; /* so far */
	const struct event_sources *sources;
};

/* The directory that holds events/; NULL: there is none, and the diag says why. */
const char *grammar_tracefs(const struct grammar *g, struct diag *reterr);

int grammar_no_memory(const struct grammar *g);

/* Takes the word of modifiers that comes next. */
int grammar_letters(struct grammar *g, struct event *event);

/* Modifiers in the form that follows an event without terms: ":u", " u", or none. */
int grammar_modifiers(struct grammar *g, struct event *event);

/* All that may follow the name of an event. */
int grammar_tail(struct grammar *g, enum term_host host, const struct pmu *pmu, struct event *event);

/* Adds the event, labelled with its text from byte `start` on unless it has a name. Takes over what it owns. */
int grammar_add(struct grammar *g, struct event *event, size_t start);

/* Behind "mem" and before ':'. */
int grammar_breakpoint(struct grammar *g, size_t start);

/* Behind the system and before ':'. */
int grammar_tracepoint(struct grammar *g, const struct token *system);

/* A tracepoint_names() callback; data is a struct suggest. */
void grammar_offer_tracepoint(const char *system, const char *name, void *data);
