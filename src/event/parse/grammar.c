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
#include <linux/hw_breakpoint.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "event/names/names.h"
#include "event/names/pmu_cpus.h"
#include "event/parse/event.h"
#include "event/parse/parse.h"

struct grammar {
	struct parse parse;
	struct event_list found; /* so far */
	const struct event_sources *sources;
	bool in_group;
	uint32_t everywhere; /* a type whose PMU counts on all CPUs; 0: none was met */
};

enum { TEXT_MAX_BYTES = 1 << 16 };

static const char *pmu_directory(const struct grammar *g)
{
	if (g->sources && g->sources->event_sources)
		return g->sources->event_sources;
	return PMU_SOURCES;
}

/* The directory that holds events/; NULL: there is none, and the diag says why. */
static const char *tracefs_of(const struct grammar *g, struct diag *reterr)
{
	return g->sources && g->sources->tracefs ? g->sources->tracefs : tracefs_path(reterr);
}

static int no_memory(const struct grammar *g)
{
	return diag_set(g->parse.reterr, -ENOMEM, "out of memory");
}

/* Takes the word of letters that comes next. */
static int parse_letters(struct grammar *g, struct event *event)
{
	struct token word = parse_take(&g->parse);
	size_t bad;
	const char *why;

	if (modifier_apply(event, word.text, word.len, &bad, &why) < 0)
		return parse_error(&g->parse, word.start + bad, "%s '%c'; modifiers are " MODIFIER_LETTERS, why,
				   word.text[bad]);
	return 0;
}

/* Modifiers in the form that follows an event without terms. */
static int parse_modifiers(struct grammar *g, struct event *event)
{
	if (parse_accept(&g->parse, TOKEN_COLON)) {
		if (!parse_at(&g->parse, TOKEN_WORD))
			return parse_expected(&g->parse, "modifiers");
		return parse_letters(g, event);
	}
	if (g->parse.token.kind == TOKEN_WORD)
		return parse_letters(g, event);
	return 0;
}

/* All that may follow the name of an event. */
static int parse_tail(struct grammar *g, enum term_host host, const struct pmu *pmu, struct event *event)
{
	if (!parse_accept(&g->parse, TOKEN_SLASH))
		return parse_modifiers(g, event);
	int err = term_parse_list(&g->parse, host, pmu, event);
	if (err < 0)
		return err;
	if (g->parse.token.kind == TOKEN_WORD)
		return parse_letters(g, event);
	return 0;
}

/* Which PMU counts it: types of the kernel's own PMUs, and that in the upper half of a config (Linux 5.13). */
static uint32_t pmu_type_of(const struct perf_event_attr *attr)
{
	if (attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE)
		return (uint32_t)(attr->config >> 32);
	return attr->type;
}

static void find_cpus(struct grammar *g, struct event *event)
{
	uint32_t type = pmu_type_of(&event->attr);

	if (type < PERF_TYPE_RAW || type == PERF_TYPE_BREAKPOINT || type == g->everywhere)
		return;
	event->some_cpus = pmu_find_cpus(pmu_directory(g), type, &event->cpus);
	if (!event->some_cpus)
		g->everywhere = type;
}

/* Adds the event, labelled with its text from byte `start` on unless it has a name. Takes over what it owns. */
static int add_event(struct grammar *g, struct event *event, size_t start)
{
	if (!event->name)
		event->name = strndup(g->parse.lexer.text + start, g->parse.end - start);
	if (!event->name)
		return no_memory(g);
	find_cpus(g, event);
	return list_add(&g->found, event, g->parse.reterr);
}

/* tracepoint = SYSTEM ":" NAME, both with globs: one event for each that they match. */

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
		return no_memory(g);
	expansion->nr++;
	return list_add(&g->found, &event, g->parse.reterr);
}

/* A tracepoint_names() callback; data is a struct suggest. */
static void offer_tracepoint(const char *system, const char *name, void *data)
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
	tracepoint_names(tracefs, offer_tracepoint, &suggest);
	return parse_unknown(&g->parse, &whole, "no tracepoint is called", &suggest);
}

/* Behind the system and before ':'. */
static int parse_tracepoint(struct grammar *g, const struct token *system)
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
		return no_memory(g);

	const char *tracefs = tracefs_of(g, g->parse.reterr);
	if (!tracefs) {
		diag_prefix(g->parse.reterr, "tracepoint %s:%s", system_text, name_text);
		return -ENOENT;
	}
	/* Looked up before the rest is read, so that a misspelt name is what the message is about. */
	int err = tracepoint_visit(tracefs, system_text, name_text, expand_tracepoint, &expansion, g->parse.reterr);
	if (err < 0) {
		diag_prefix(g->parse.reterr, "tracepoint %s:%s", system_text, name_text);
		return err;
	}
	if (!expansion.nr)
		return unknown_tracepoint(g, tracefs, system, &name);
	err = parse_tail(g, TERM_HOST_TRACEPOINT, NULL, &model);
	for (size_t i = g->found.nr - expansion.nr; err == 0 && i < g->found.nr; i++)
		list_copy_settings(&g->found.events[i], &model);
	return err;
}

/* Letters of r w x into HW_BREAKPOINT_*; false when it is something else. */
static bool read_access(const struct token *word, uint32_t *ret)
{
	uint32_t access = 0;

	for (size_t i = 0; i < word->len; i++) {
		char c = word->text[i];
		uint32_t bit = c == 'r' ? HW_BREAKPOINT_R : c == 'w' ? HW_BREAKPOINT_W : c == 'x' ? HW_BREAKPOINT_X : 0;
		if (!bit || access & bit)
			return false;
		access |= bit;
	}
	*ret = access;
	return access != 0;
}

/* Behind "mem" and before ':'. */
static int parse_breakpoint(struct grammar *g, size_t start)
{
	__attribute__((cleanup(event_fini))) struct event event = list_new_event(PERF_TYPE_BREAKPOINT, 0);
	uint64_t address, len = 0;
	uint32_t access = HW_BREAKPOINT_RW;

	parse_take(&g->parse);
	if (!parse_at(&g->parse, TOKEN_WORD) || parse_number(&g->parse.token, &address) < 0)
		return parse_expected(&g->parse, "an address");
	parse_take(&g->parse);
	if (parse_accept(&g->parse, TOKEN_SLASH)) {
		if (!parse_at(&g->parse, TOKEN_WORD) || parse_number(&g->parse.token, &len) < 0)
			return parse_expected(&g->parse, "a length in bytes");
		parse_take(&g->parse);
	}
	if (parse_at(&g->parse, TOKEN_COLON)) {
		struct parse before = g->parse;
		parse_take(&g->parse);
		if (parse_at(&g->parse, TOKEN_WORD) && read_access(&g->parse.token, &access))
			parse_take(&g->parse);
		else
			g->parse = before;
	}
	event.attr.bp_addr = address;
	event.attr.bp_type = access;
	/* perf_event_open(2): an execution breakpoint has the length of a long. */
	event.attr.bp_len = len ? len : access == HW_BREAKPOINT_X ? sizeof(long) : HW_BREAKPOINT_LEN_4;
	int err = parse_modifiers(g, &event);
	return err < 0 ? err : add_event(g, &event, start);
}

static int parse_named(struct grammar *g, size_t start, const struct named_event *named, const struct pmu *pmu)
{
	__attribute__((cleanup(event_fini))) struct event event = list_new_event(named->type, named->config);
	int err = parse_tail(g, pmu ? TERM_HOST_PMU : TERM_HOST_SYMBOLIC, pmu, &event);

	return err < 0 ? err : add_event(g, &event, start);
}

/* As with perf, which leaves texts with terms as they are. Heap; NULL: out of memory. */
static char *name_of_core(const struct grammar *g, const struct event *event, size_t start, const char *pmu)
{
	AUTO_FREE char *text =
		event->name ? strdup(event->name) : strndup(g->parse.lexer.text + start, g->parse.end - start);
	char *name;

	if (!text || strchr(text, '/'))
		return take_ptr(text);
	return asprintf(&name, "%s/%s/", pmu, text) < 0 ? NULL : name;
}

/*
 * A raw number: on a processor with several kinds of cores an event of each, as with perf. The members of a group are
 * counted by one PMU: there it is of the first kind, whose PMU has the type of raw events.
 */
static int parse_raw(struct grammar *g, size_t start, const struct named_event *raw)
{
	__attribute__((cleanup(event_fini))) struct event model = list_new_event(raw->type, raw->config);
	struct core_pmu cores[CORE_PMUS_MAX];
	size_t nr = g->in_group ? 0 : pmu_find_cores(pmu_directory(g), cores);
	int err = parse_tail(g, TERM_HOST_SYMBOLIC, NULL, &model);

	if (err < 0 || nr < 2)
		return err < 0 ? err : add_event(g, &model, start);
	for (size_t i = 0; i < nr && !err; i++) {
		__attribute__((cleanup(event_fini))) struct event event = list_new_event(0, model.attr.config);
		list_copy_settings(&event, &model);
		event.attr.type = cores[i].type;
		event.name = name_of_core(g, &model, start, cores[i].name);
		err = event.name ? add_event(g, &event, start) : no_memory(g);
	}
	return err;
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
	const char *tracefs = with_tracepoints ? tracefs_of(g, NULL) : NULL;

	suggest_init(&suggest, word->text, word->len);
	names_offer(&suggest);
	if (with_tracepoints)
		pmu_offer_events(pmu_directory(g), &suggest);
	else
		pmu_offer_names(pmu_directory(g), &suggest);
	if (tracefs)
		tracepoint_names(tracefs, offer_tracepoint, &suggest);
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
		err = parse_tail(g, TERM_HOST_SYMBOLIC, NULL, &event);
	return err < 0 ? err : add_event(g, &event, word->start);
}

/*
 * An event that only libpfm4 has a name for, one without colons. -ENOENT: it has none, or these are not of this
 * machine.
 */
static int parse_pfm(struct grammar *g, const struct token *word, const char *name)
{
	__attribute__((cleanup(event_fini))) struct event event = list_new_event(0, 0);

	if (g->sources || pfm_encode(name, PFM_CPU, &event.attr, NULL))
		return -ENOENT;
	int err = parse_tail(g, TERM_HOST_SYMBOLIC, NULL, &event);
	return err < 0 ? err : add_event(g, &event, word->start);
}

/* A word that this machine gives a meaning to: a PMU, an event of a PMU, a tracepoint, one that libpfm4 knows. */
static int parse_machine_event(struct grammar *g, const struct token *word)
{
	AUTO_FREE char *name = parse_text(word);
	struct named_event named = {0};
	struct pmu pmu;

	if (!name)
		return no_memory(g);
	if (parse_at(&g->parse, TOKEN_SLASH) && pmu_open(pmu_directory(g), name, &pmu) == 0) {
		named.type = pmu.type;
		return parse_named(g, word->start, &named, &pmu);
	}
	int err = parse_alias(g, word, name);
	if (err != -ENOENT)
		return err;
	struct parse before = g->parse;
	bool colon = parse_at(&g->parse, TOKEN_COLON);
	int tracepoint_err = colon ? parse_tracepoint(g, word) : -ENOENT;
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
		return parse_breakpoint(g, word.start);
	if (colon && parse_number(&word, &number) != -EINVAL)
		return parse_numeric(g, &word);
	if (names_find(word.text, word.len, &named))
		return parse_named(g, word.start, &named, NULL);
	if (names_find_raw(word.text, word.len, &named))
		return parse_raw(g, word.start, &named);
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
			return parse_error(&g->parse, word.start + bad, "%s '%c'; modifiers are " MODIFIER_LETTERS, why,
					   word.text[bad]);
	}
	return 0;
}

/* Members are collected apart, in `members`, so that all that is there is the group. */
static int parse_members(struct grammar *g, struct event_list *members)
{
	struct event_list outside = g->found;
	int err;

	g->found = *members;
	g->in_group = true;
	do {
		err = parse_event(g);
	} while (err == 0 && parse_accept(&g->parse, TOKEN_COMMA));
	*members = g->found;
	g->found = outside;
	g->in_group = false;
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
		return no_memory(g);
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

/* The list of --pfm-events: names of libpfm4, separated by commas; those in braces are a group. */
struct pfm_list {
	struct parse parse; /* for what is said of errors; the text has no tokens of -e */
	struct event_list found;
	size_t group; /* where the group began */
	bool in_group;
	struct grammar pmus; /* where PMUs are looked up, and what is known of them */
};

static int add_name(struct pfm_list *list, const char *text, size_t start, size_t len)
{
	__attribute__((cleanup(event_fini))) struct event event = list_new_event(0, 0);
	const char *why;

	event.name = strndup(text + start, len);
	if (!event.name)
		return diag_set(list->parse.reterr, -ENOMEM, "out of memory");
	if (pfm_encode(event.name, PFM_GENERIC, &event.attr, &why))
		return parse_error(&list->parse, start, "libpfm4: %s", why);
	if (event.attr.sample_period)
		event.given |= event.attr.freq ? EVENT_GIVEN_FREQ : EVENT_GIVEN_PERIOD;
	find_cpus(&list->pmus, &event);
	return list_add(&list->found, &event, list->parse.reterr);
}

static int take_brace(struct pfm_list *list, const char *text, size_t at)
{
	if (text[at] == '{' && !list->in_group) {
		list->in_group = true;
		list->group = list->found.nr;
		return 0;
	}
	if (text[at] == '{')
		return parse_error(&list->parse, at, "a group cannot be a member of a group");
	if (!list->in_group || list->found.nr == list->group)
		return parse_error(&list->parse, at, "a group without events");
	list->in_group = false;
	list_make_group(&list->found, list->group, NULL);
	return 0;
}

static int take_all(struct pfm_list *list, const char *text)
{
	int err = 0;

	for (size_t at = 0; text[at] && !err;) {
		size_t len = strcspn(text + at, ",{}");
		if (len)
			err = add_name(list, text, at, len);
		at += len;
		if (err || !text[at])
			break;
		if (text[at] != ',')
			err = take_brace(list, text, at);
		at++;
	}
	if (!err && list->in_group)
		err = parse_error(&list->parse, strlen(text), "expected '}', found the end");
	if (!err && !list->found.nr)
		err = parse_error(&list->parse, 0, "expected an event of libpfm4, found the end");
	return err;
}

int event_list_parse_pfm(struct event_list *list, const char *text, struct diag *reterr)
{
	struct pfm_list made = {0};

	parse_init(&made.parse, text, reterr);
	int err = take_all(&made, text);
	if (!err)
		err = list_append(list, &made.found, reterr);
	event_list_fini(&made.found);
	return err;
}
