/* SPDX-License-Identifier: MIT */
/*
 * The grammar of -e, one function per rule:
 *
 *   list       = item { "," item }
 *   item       = event | [ NAME ] "{" event { "," event } "}" [ ":" letters ]
 *   event      = breakpoint | what [ "/" [ terms ] "/" [ letters ] | ":" letters | blank letters ]
 *   what       = NAME | "r" HEX | TYPE ":" CONFIG | SYSTEM ":" NAME | PMU "/" terms "/"
 *   breakpoint = "mem" ":" ADDRESS [ "/" LENGTH ] [ ":" ("r" | "w" | "x")… ] [ ":" letters ]
 *
 * What a word means decides what may follow it: names of hardware, software and caches and raw numbers come
 * first, then PMUs (before '/'), the events that PMUs have names for, and tracepoints (before ':').
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "event/event.h"
#include "event/grammar.h"
#include "event/list.h"
#include "event/modifier.h"
#include "event/names.h"
#include "event/parse.h"
#include "event/pfm.h"
#include "event/pmu.h"
#include "event/suggest.h"
#include "event/term.h"
#include "event/tracefs.h"
#include "event/tracepoint.h"

enum { TEXT_MAX_BYTES = 1 << 16 };

static const char *pmu_directory(const struct grammar *g)
{
	if (g->sources && g->sources->event_sources)
		return g->sources->event_sources;
	return PMU_SOURCES;
}

const char *grammar_tracefs(const struct grammar *g, struct diag *reterr)
{
	return g->sources && g->sources->tracefs ? g->sources->tracefs : tracefs_path(reterr);
}

int grammar_no_memory(const struct grammar *g)
{
	return diag_set(g->parse.reterr, -ENOMEM, "out of memory");
}

/* Takes the word of letters that comes next. */
int grammar_letters(struct grammar *g, struct event *event)
{
	struct token word = parse_take(&g->parse);
	size_t bad;
	const char *why;

	if (modifier_apply(event, word.text, word.len, &bad, &why) < 0)
		return parse_error(&g->parse, word.start + bad, "%s '%c'; modifiers are " MODIFIER_LETTERS,
				   why, word.text[bad]);
	return 0;
}

/* Modifiers in the form that follows an event without terms. */
int grammar_modifiers(struct grammar *g, struct event *event)
{
	if (parse_accept(&g->parse, TOKEN_COLON)) {
		if (!parse_at(&g->parse, TOKEN_WORD))
			return parse_expected(&g->parse, "modifiers");
		return grammar_letters(g, event);
	}
	if (g->parse.token.kind == TOKEN_WORD)
		return grammar_letters(g, event);
	return 0;
}

/* All that may follow the name of an event. */
int grammar_tail(struct grammar *g, enum term_host host, const struct pmu *pmu, struct event *event)
{
	if (!parse_accept(&g->parse, TOKEN_SLASH))
		return grammar_modifiers(g, event);
	int err = term_parse_list(&g->parse, host, pmu, event);
	if (err < 0)
		return err;
	if (g->parse.token.kind == TOKEN_WORD)
		return grammar_letters(g, event);
	return 0;
}

/* Adds the event, labelled with its text from byte `start` on unless it has a name. Takes over what it owns.
 */
int grammar_add(struct grammar *g, struct event *event, size_t start)
{
	if (!event->name)
		event->name = strndup(g->parse.lexer.text + start, g->parse.end - start);
	if (!event->name)
		return grammar_no_memory(g);
	return list_add(&g->found, event, g->parse.reterr);
}

static int parse_named(struct grammar *g, size_t start, const struct named_event *named,
		       const struct pmu *pmu)
{
	__attribute__((cleanup(event_fini))) struct event event = list_new_event(named->type, named->config);
	int err = grammar_tail(g, pmu ? TERM_HOST_PMU : TERM_HOST_SYMBOLIC, pmu, &event);

	return err < 0 ? err : grammar_add(g, &event, start);
}

static int parse_numeric(struct grammar *g, const struct token *first)
{
	struct named_event numbers;
	uint64_t type;

	parse_take(&g->parse);
	if (parse_number(first, &type) < 0 || type > UINT32_MAX)
		return parse_error(&g->parse, first->start, "the type of an event has 32 bits");
	if (!parse_at(&g->parse, TOKEN_WORD) || parse_number(&g->parse.token, &numbers.config) < 0)
		return parse_expected(&g->parse, "the config of the event, a number");
	numbers.type = (uint32_t)type;
	parse_take(&g->parse);
	return parse_named(g, first->start, &numbers, NULL);
}

static int unknown_word(struct grammar *g, const struct token *word, bool with_tracepoints)
{
	struct suggest suggest;
	const char *tracefs = with_tracepoints ? grammar_tracefs(g, NULL) : NULL;

	suggest_init(&suggest, word->text, word->len);
	names_offer(&suggest);
	if (with_tracepoints)
		pmu_offer_events(pmu_directory(g), &suggest);
	else
		pmu_offer_names(pmu_directory(g), &suggest);
	if (tracefs)
		tracepoint_names(tracefs, grammar_offer_tracepoint, &suggest);
	return parse_unknown(&g->parse, word,
			     with_tracepoints ? "unknown event" : "neither an event nor a PMU:", &suggest);
}

/* An event that a PMU has a name for. -ENOENT: none has. */
static int parse_alias(struct grammar *g, const struct token *word, const char *name)
{
	__attribute__((cleanup(event_fini))) struct event event = list_new_event(0, 0);
	AUTO_BUF struct buf terms = {0};
	struct pmu pmu;

	if (pmu_find_event(pmu_directory(g), name, &pmu, &terms) < 0)
		return -ENOENT;
	event.attr.type = pmu.type;
	int err = term_parse_alias(buf_text(&terms), &pmu, &event, &g->parse);
	if (err == 0)
		err = grammar_tail(g, TERM_HOST_SYMBOLIC, NULL, &event);
	return err < 0 ? err : grammar_add(g, &event, word->start);
}

/* An event that only libpfm4 has a name for, one without colons. -ENOENT: it has none, or these are not our machine. */
static int parse_pfm(struct grammar *g, const struct token *word, const char *name)
{
	__attribute__((cleanup(event_fini))) struct event event = list_new_event(0, 0);

	if (g->sources || pfm_encode(name, &event.attr, NULL))
		return -ENOENT;
	int err = grammar_tail(g, TERM_HOST_SYMBOLIC, NULL, &event);
	return err < 0 ? err : grammar_add(g, &event, word->start);
}

/* A word that this machine gives a meaning to: a PMU, an event of a PMU, a tracepoint, one that libpfm4 knows. */
static int parse_machine_event(struct grammar *g, const struct token *word)
{
	AUTO_FREE char *name = parse_text(word);
	struct named_event named = {0};
	struct pmu pmu;

	if (!name)
		return grammar_no_memory(g);
	if (parse_at(&g->parse, TOKEN_SLASH) && pmu_open(pmu_directory(g), name, &pmu) == 0) {
		named.type = pmu.type;
		return parse_named(g, word->start, &named, &pmu);
	}
	int err = parse_alias(g, word, name);
	if (err != -ENOENT)
		return err;
	struct parse before = g->parse;
	bool colon = parse_at(&g->parse, TOKEN_COLON);
	int tracepoint_err = colon ? grammar_tracepoint(g, word) : -ENOENT;
	if (!tracepoint_err)
		return 0;
	g->parse = before;
	err = parse_pfm(g, word, name);
	if (err != -ENOENT)
		return err;
	return colon ? tracepoint_err : unknown_word(g, word, !parse_at(&g->parse, TOKEN_SLASH));
}

static int parse_event(struct grammar *g)
{
	struct named_event named;
	uint64_t number;

	if (g->parse.token.kind != TOKEN_WORD)
		return parse_expected(&g->parse, "an event");

	struct token word = parse_take(&g->parse);
	if (parse_at(&g->parse, TOKEN_BRACE_OPEN))
		return parse_error(&g->parse, g->parse.token.start, "a group cannot be a member of a group");
	bool colon = parse_at(&g->parse, TOKEN_COLON);
	if (colon && token_equals(&word, "mem"))
		return grammar_breakpoint(g, word.start);
	if (colon && parse_number(&word, &number) != -EINVAL)
		return parse_numeric(g, &word);
	if (names_find(word.text, word.len, &named) || names_find_raw(word.text, word.len, &named))
		return parse_named(g, word.start, &named, NULL);
	return parse_machine_event(g, &word);
}

/* The letters behind a group go to each member. */
static int parse_group_letters(struct grammar *g, struct event_list *members)
{
	if (g->parse.token.kind != TOKEN_COLON)
		return 0;
	parse_take(&g->parse);
	if (g->parse.token.kind != TOKEN_WORD)
		return parse_expected(&g->parse, "modifiers");

	struct token word = parse_take(&g->parse);
	for (size_t i = 0; i < members->nr; i++) {
		size_t bad;
		const char *why;
		if (modifier_add(&members->events[i], word.text, word.len, &bad, &why) < 0)
			return parse_error(&g->parse, word.start + bad,
					   "%s '%c'; modifiers are " MODIFIER_LETTERS, why, word.text[bad]);
	}
	return 0;
}

/* Members are collected apart, in `members`, so that all that is there is the group. */
static int parse_members(struct grammar *g, struct event_list *members)
{
	struct event_list outside = g->found;
	int err;

	g->found = *members;
	do {
		err = parse_event(g);
	} while (err == 0 && parse_accept(&g->parse, TOKEN_COMMA));
	*members = g->found;
	g->found = outside;
	if (err < 0)
		return err;
	return parse_accept(&g->parse, TOKEN_BRACE_CLOSE) ? 0 : parse_expected(&g->parse, "',' or '}'");
}

static int parse_group(struct grammar *g, const struct token *name)
{
	__attribute__((cleanup(event_list_fini))) struct event_list members = {0};
	AUTO_FREE char *text = name ? parse_text(name) : NULL;

	parse_take(&g->parse);
	if (name && !text)
		return grammar_no_memory(g);
	int err = parse_members(g, &members);
	if (err == 0)
		list_make_group(&members, 0, take_ptr(text));
	if (err == 0)
		err = parse_group_letters(g, &members);
	return err < 0 ? err : list_append(&g->found, &members, g->parse.reterr);
}

static int parse_item(struct grammar *g)
{
	struct parse before = g->parse;

	if (g->parse.token.kind == TOKEN_BRACE_OPEN)
		return parse_group(g, NULL);
	if (g->parse.token.kind == TOKEN_WORD) {
		struct token name = parse_take(&g->parse);
		if (parse_at(&g->parse, TOKEN_BRACE_OPEN))
			return parse_group(g, &name);
		g->parse = before;
	}
	return parse_event(g);
}

static int parse_list(struct grammar *g)
{
	do {
		int err = parse_item(g);
		if (err < 0)
			return err;
	} while (parse_accept(&g->parse, TOKEN_COMMA));
	return parse_at(&g->parse, TOKEN_END) ? 0 : parse_expected(&g->parse, "',', ':', '/' or the end");
}

int event_list_parse_from(struct event_list *list, const char *text, const struct event_sources *sources,
			  struct diag *reterr)
{
	struct grammar g = {.sources = sources};

	if (strlen(text) > TEXT_MAX_BYTES)
		return diag_set(reterr, -EINVAL, "a list of events has at most %d bytes", TEXT_MAX_BYTES);
	parse_init(&g.parse, text, reterr);
	int err = parse_list(&g);
	if (err == 0)
		err = list_append(list, &g.found, reterr);
	event_list_fini(&g.found);
	return err;
}

int event_list_parse(struct event_list *list, const char *text, struct diag *reterr)
{
	return event_list_parse_from(list, text, NULL, reterr);
}
