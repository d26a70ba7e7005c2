/* SPDX-License-Identifier: MIT */
/* What each letter does to the attr was measured with perf 6.1; the exclude_* bits: perf_event_open(2). */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "event/names/names.h"
#include "event/parse/configure.h"
#include "event/parse/event.h"
#include "event/parse/parse.h"

enum { MAX_PRECISE_IP = 3 }; /* precise_ip has two bits */

struct modifiers {
	unsigned counts[128]; /* how often each letter came */
};

static bool has(const struct modifiers *mods, char letter)
{
	return mods->counts[(unsigned char)letter] > 0;
}

static int read_letters(struct modifiers *mods, const char *letters, size_t len, size_t *ret_bad, const char **ret_why)
{
	for (size_t i = 0; i < len; i++) {
		char letter = letters[i];
		if (!letter || !strchr("ukhGHIpPDeSWb", letter)) {
			*ret_bad = i;
			*ret_why = "unknown modifier";
			return -EINVAL;
		}
		if (++mods->counts[(unsigned char)letter] > (letter == 'p' ? MAX_PRECISE_IP : 1)) {
			*ret_bad = i;
			*ret_why = letter == 'p' ? "more than three 'p' modifiers" : "repeated modifier";
			return -EINVAL;
		}
	}
	return 0;
}

/* Who named a level wants that one; the first to name any leaves out the others. */
static void apply_levels(struct perf_event_attr *attr, const struct modifiers *mods)
{
	if (!has(mods, 'u') && !has(mods, 'k') && !has(mods, 'h'))
		return;
	bool first = !attr->exclude_user && !attr->exclude_kernel && !attr->exclude_hv;
	attr->exclude_user = (first || attr->exclude_user) && !has(mods, 'u');
	attr->exclude_kernel = (first || attr->exclude_kernel) && !has(mods, 'k');
	attr->exclude_hv = (first || attr->exclude_hv) && !has(mods, 'h');
}

static void apply_sides(struct event *event, const struct modifiers *mods)
{
	struct perf_event_attr *attr = &event->attr;

	if (has(mods, 'G') || has(mods, 'H')) {
		bool first = !(event->given & EVENT_GIVEN_SIDES);
		attr->exclude_host = (first || attr->exclude_host) && !has(mods, 'H');
		attr->exclude_guest = (first || attr->exclude_guest) && !has(mods, 'G');
		event->given |= EVENT_GIVEN_SIDES;
	} else if (!(event->given & EVENT_GIVEN_SIDES) && (has(mods, 'u') || has(mods, 'p'))) {
		/* Without G or H a guest is left out only where the host's own PMU could not tell it apart. */
		attr->exclude_guest = 1;
	}
}

static void apply_all(struct event *event, const struct modifiers *mods)
{
	struct perf_event_attr *attr = &event->attr;

	apply_levels(attr, mods);
	apply_sides(event, mods);
	attr->exclude_idle |= has(mods, 'I');
	attr->precise_ip = (attr->precise_ip + mods->counts['p']) & MAX_PRECISE_IP;
	if (has(mods, 'P')) {
		event->given |= EVENT_GIVEN_MAX_PRECISE;
		attr->precise_ip = MAX_PRECISE_IP;
	}
	if (!event->behind_leader) { /* the kernel takes these of a leader only */
		attr->pinned |= has(mods, 'D');
		attr->exclusive |= has(mods, 'e');
	}
	event->given |= EVENT_GIVEN_MODIFIER;
	if (has(mods, 'S'))
		event->given |= EVENT_GIVEN_SAMPLE_READ;
	if (has(mods, 'W'))
		event->given |= EVENT_GIVEN_WEAK;
}

int modifier_apply(struct event *event, const char *letters, size_t len, size_t *ret_bad, const char **ret_why)
{
	struct modifiers mods = {0};
	int err = read_letters(&mods, letters, len, ret_bad, ret_why);

	if (err < 0 || len == 0)
		return err;
	event->attr.exclude_guest = 0; /* no longer the default */
	apply_all(event, &mods);
	return 0;
}

int modifier_add(struct event *event, const char *letters, size_t len, size_t *ret_bad, const char **ret_why)
{
	struct modifiers mods = {0};
	int err = read_letters(&mods, letters, len, ret_bad, ret_why);
	unsigned own = event->given & EVENT_GIVEN_MAX_PRECISE ? 0 : event->attr.precise_ip;

	if (err < 0)
		return err;
	if (own + mods.counts['p'] > MAX_PRECISE_IP) {
		*ret_bad = (size_t)((const char *)memchr(letters, 'p', len) - letters);
		*ret_why = "with the event's own, more than three 'p' modifiers";
		return -EINVAL;
	}
	apply_all(event, &mods);
	if (event->given & EVENT_GIVEN_MAX_PRECISE)
		event->attr.precise_ip = MAX_PRECISE_IP;
	return 0;
}

struct term {
	struct token name, value;
	bool has_value;
};

/* How one term acts. `on` is of the flags only: inherit or no-inherit. */
struct term_rule {
	const char *name;
	int (*apply)(const struct parse *parse, const struct term *term, const struct term_rule *rule,
		     struct event *event);
	bool tracepoint; /* tracepoints take it too */
	bool on;
};

static int term_number(const struct parse *parse, const struct term *term, uint64_t most, uint64_t *ret)
{
	*ret = 1; /* a term without a value is switched on */
	if (!term->has_value)
		return 0;
	int err = parse_number(&term->value, ret);
	if (err == -ERANGE || (err == 0 && *ret > most))
		return parse_error(parse, term->value.start, "'%.*s' is at most %#llx", (int)term->name.len,
				   term->name.text, (unsigned long long)most);
	if (err < 0)
		return parse_error(parse, term->value.start, "expected a number for '%.*s', decimal or 0x…",
				   (int)term->name.len, term->name.text);
	return 0;
}

static int apply_config(const struct parse *parse, const struct term *term, const struct term_rule *rule,
			struct event *event)
{
	uint64_t value;
	int err = term_number(parse, term, UINT64_MAX, &value);

	if (err < 0)
		return err;
	if (strcmp(rule->name, "config1") == 0)
		event->attr.config1 = value;
	else if (strcmp(rule->name, "config2") == 0)
		event->attr.config2 = value;
	else
		event->attr.config = value;
	return 0;
}

/* The later of period and freq holds. */
static int apply_period(const struct parse *parse, const struct term *term, const struct term_rule *rule,
			struct event *event)
{
	uint64_t value;
	/* perf_event_open(2): the highest bit of sample_period must be 0. */
	int err = term_number(parse, term, INT64_MAX, &value);

	if (err < 0)
		return err;
	event->attr.sample_period = value;
	event->attr.freq = rule->on;
	event->given &= ~(unsigned)(EVENT_GIVEN_PERIOD | EVENT_GIVEN_FREQ);
	event->given |= rule->on ? EVENT_GIVEN_FREQ : EVENT_GIVEN_PERIOD;
	return 0;
}

static int apply_name(const struct parse *parse, const struct term *term, const struct term_rule *rule,
		      struct event *event)
{
	(void)rule;
	if (!term->has_value || !term->value.len)
		return parse_error(parse, term->name.end, "expected '=' and a name");
	char *name = parse_text(&term->value);
	if (!name)
		return diag_set(parse->reterr, -ENOMEM, "out of memory");
	free(event->name);
	event->name = name;
	event->given |= EVENT_GIVEN_NAME;
	return 0;
}

static int apply_callgraph(const struct parse *parse, const struct term *term, const struct term_rule *rule,
			   struct event *event)
{
	static const struct {
		const char *word;
		enum event_callgraph callgraph;
	} words[] = {{"fp", CALLGRAPH_FP},
		     {"dwarf", CALLGRAPH_DWARF},
		     {"unwind", CALLGRAPH_UNWIND},
		     {"lbr", CALLGRAPH_LBR},
		     {"no", CALLGRAPH_NONE}};

	(void)rule;
	for (size_t i = 0; term->has_value && i < sizeof(words) / sizeof(words[0]); i++) {
		if (token_equals(&term->value, words[i].word)) {
			event->callgraph = words[i].callgraph;
			event->given |= EVENT_GIVEN_CALLGRAPH;
			return 0;
		}
	}
	return parse_error(parse, term->has_value ? term->value.start : term->name.end,
			   "expected fp, dwarf, unwind, lbr or no for 'call-graph'");
}

static int apply_dump_bytes(const struct parse *parse, const struct term *term, const struct term_rule *rule,
			    struct event *event)
{
	uint64_t value;
	int err = term_number(parse, term, EVENT_DUMP_BYTES_MAX, &value);

	(void)rule;
	if (err < 0)
		return err;
	event->dump_bytes = (uint32_t)value;
	event->given |= EVENT_GIVEN_DUMP_BYTES;
	return 0;
}

static int apply_max_stack(const struct parse *parse, const struct term *term, const struct term_rule *rule,
			   struct event *event)
{
	uint64_t value;
	int err = term_number(parse, term, UINT16_MAX, &value);

	(void)rule;
	if (err < 0)
		return err;
	event->attr.sample_max_stack = (uint16_t)value;
	event->given |= EVENT_GIVEN_MAX_STACK;
	return 0;
}

static int apply_time(const struct parse *parse, const struct term *term, const struct term_rule *rule,
		      struct event *event)
{
	uint64_t value;
	int err = term_number(parse, term, 1, &value);

	(void)rule;
	if (err < 0)
		return err;
	event->given &= ~(unsigned)(EVENT_GIVEN_TIME | EVENT_GIVEN_NO_TIME);
	event->given |= value ? EVENT_GIVEN_TIME : EVENT_GIVEN_NO_TIME;
	return 0;
}

static int apply_inherit(const struct parse *parse, const struct term *term, const struct term_rule *rule,
			 struct event *event)
{
	uint64_t value;
	int err = term_number(parse, term, 1, &value);

	if (err < 0)
		return err;
	event->given &= ~(unsigned)(EVENT_GIVEN_INHERIT | EVENT_GIVEN_NO_INHERIT);
	event->given |= (value != 0) == rule->on ? EVENT_GIVEN_INHERIT : EVENT_GIVEN_NO_INHERIT;
	return 0;
}

static int apply_overwrite(const struct parse *parse, const struct term *term, const struct term_rule *rule,
			   struct event *event)
{
	uint64_t value;
	int err = term_number(parse, term, 1, &value);

	if (err < 0)
		return err;
	event->attr.write_backward = (value != 0) == rule->on;
	event->given |= EVENT_GIVEN_OVERWRITE;
	return 0;
}

/* The words of -j, in quotes where there are several. */
static int apply_branches(const struct parse *parse, const struct term *term, const struct term_rule *rule,
			  struct event *event)
{
	AUTO_FREE char *text = term->has_value ? parse_text(&term->value) : strdup("");
	AUTO_BUF struct buf with_any = {0};
	struct diag why = {""};
	uint64_t mask = 0;

	(void)rule;
	if (!text)
		return diag_set(parse->reterr, -ENOMEM, "out of memory");
	bool wanted = strcmp(text, "no") != 0;
	int err = wanted ? branch_filter_parse(text, &mask, &why) : 0;
	buf_printf(&with_any, "any,%s", text);
	/* Unlike -j, which forgets them, a term keeps the privileges that stand alone. */
	if (wanted && !err && mask == PERF_SAMPLE_BRANCH_ANY)
		err = branch_filter_parse(buf_text(&with_any), &mask, &why);
	if (err < 0)
		return parse_error(parse, term->has_value ? term->value.start : term->name.end, "%s, or no", why.text);
	event->attr.branch_sample_type = mask;
	event->given |= EVENT_GIVEN_BRANCHES;
	return 0;
}

/* Terms of other commands of perf: they say nothing about what is recorded. */
static int apply_number(const struct parse *parse, const struct term *term, const struct term_rule *rule,
			struct event *event)
{
	uint64_t value;

	(void)rule, (void)event;
	return term_number(parse, term, UINT64_MAX, &value);
}

static int apply_nothing(const struct parse *parse, const struct term *term, const struct term_rule *rule,
			 struct event *event)
{
	(void)parse, (void)term, (void)rule, (void)event;
	return 0;
}

static int apply_aux(const struct parse *parse, const struct term *term, const struct term_rule *rule,
		     struct event *event)
{
	(void)rule, (void)event;
	return parse_error(parse, term->name.start, "'%.*s' is for AUX tracing, which is not recorded: leave it out",
			   (int)term->name.len, term->name.text);
}

static const struct term_rule rules[] = {
	{"config", apply_config, .tracepoint = false},
	{"config1", apply_config, .tracepoint = false},
	{"config2", apply_config, .tracepoint = false},
	{"period", apply_period, .on = false},
	{"freq", apply_period, .on = true},
	{"name", apply_name, .tracepoint = false},
	{"branch_type", apply_branches, .tracepoint = false},
	{"call-graph", apply_callgraph, .tracepoint = true},
	{"stack-size", apply_dump_bytes, .tracepoint = true},
	{"max-stack", apply_max_stack, .tracepoint = true},
	{"time", apply_time, .tracepoint = false},
	{"inherit", apply_inherit, .tracepoint = true, .on = true},
	{"no-inherit", apply_inherit, .tracepoint = true, .on = false},
	{"overwrite", apply_overwrite, .tracepoint = true, .on = true},
	{"no-overwrite", apply_overwrite, .tracepoint = true, .on = false},
	{"nr", apply_number, .tracepoint = true},
	{"percore", apply_number, .tracepoint = false},
	{"metric-id", apply_nothing, .tracepoint = false},
	{"aux-output", apply_aux, .tracepoint = true},
	{"aux-sample-size", apply_aux, .tracepoint = true},
};

enum { NR_RULES = sizeof(rules) / sizeof(rules[0]) };

static int unknown_term(const struct parse *parse, const struct term *term, enum term_host host, const struct pmu *pmu)
{
	struct suggest suggest;
	AUTO_BUF struct buf words = {0};

	suggest_init(&suggest, term->name.text, term->name.len);
	for (size_t i = 0; i < NR_RULES; i++) {
		if (host == TERM_HOST_TRACEPOINT && !rules[i].tracepoint)
			continue;
		suggest_offer(&suggest, rules[i].name);
		buf_printf(&words, "%s%s", words.len ? " " : "", rules[i].name);
	}
	if (pmu)
		pmu_offer_terms(pmu, &suggest);
	if (suggest.nr)
		return parse_unknown(parse, &term->name, "unknown term", &suggest);
	return parse_error(parse, term->name.start, "unknown term '%.*s'; known here: %s%s",
			   term->name.len > 40 ? 40 : (int)term->name.len, term->name.text, buf_text(&words),
			   pmu ? " and those of the PMU" : "");
}

/* "event=NAME" says the same as "NAME", as with perf. */
static bool names_event(const struct term *term)
{
	uint64_t number;

	return term->has_value && term->value.kind == TOKEN_WORD && term->name.len == strlen("event") &&
	       strncasecmp(term->name.text, "event", strlen("event")) == 0 &&
	       parse_number(&term->value, &number) == -EINVAL;
}

/* A term of the PMU's own: a field of its format, or the name of one of its events. -ENOENT: neither. */
static int apply_pmu_term(struct parse *parse, const struct term *term, const struct pmu *pmu, struct event *event)
{
	const bool named = names_event(term);
	AUTO_FREE char *name = parse_text(&term->name), *event_name = parse_text(named ? &term->value : &term->name);
	AUTO_BUF struct buf alias = {0};
	struct pmu_format format;
	uint64_t value;

	if (!name || !event_name)
		return diag_set(parse->reterr, -ENOMEM, "out of memory");
	if (named && pmu_event_terms(pmu, event_name, &alias) == 0)
		return term_parse_alias(buf_text(&alias), pmu, event, parse);
	int err = pmu_format_find(pmu, name, &format);
	if (err == -EBADMSG)
		return parse_error(parse, term->name.start, "the format of '%s' in sysfs is not understood", name);
	if (err == 0) {
		err = term_number(parse, term, UINT64_MAX, &value);
		if (err == 0 && pmu_format_apply(&format, value, &event->attr) < 0)
			return parse_error(parse, term->value.start, "%#llx is too large for '%s'",
					   (unsigned long long)value, name);
		return err;
	}
	if (!term->has_value && pmu_event_terms(pmu, name, &alias) == 0)
		return term_parse_alias(buf_text(&alias), pmu, event, parse);
	return -ENOENT;
}

static int apply_term(struct parse *parse, const struct term *term, enum term_host host, const struct pmu *pmu,
		      struct event *event)
{
	for (size_t i = 0; i < NR_RULES; i++) {
		if (host == TERM_HOST_TRACEPOINT && !rules[i].tracepoint)
			continue;
		if (token_equals(&term->name, rules[i].name))
			return rules[i].apply(parse, term, &rules[i], event);
	}

	if (term->name.text[0] == '@')
		return apply_aux(parse, term, NULL, event);
	int err = pmu ? apply_pmu_term(parse, term, pmu, event) : -ENOENT;
	return err == -ENOENT ? unknown_term(parse, term, host, pmu) : err;
}

/* A string, or all words up to the next ',' or '/': a name may hold colons. */
static struct token take_value(struct parse *parse)
{
	struct token value = parse_take(parse);

	while (value.kind == TOKEN_WORD && (parse_at(parse, TOKEN_COLON) || parse_at(parse, TOKEN_WORD))) {
		value.end = parse_take(parse).end;
		value.len = value.end - value.start;
	}
	return value;
}

/* Takes the next token when it is of this kind. Between terms and around '=' there may be blanks, as with perf. */
static bool accept_spaced(struct parse *parse, enum token_kind kind)
{
	if (parse->token.kind != kind)
		return false;
	parse_take(parse);
	return true;
}

static int parse_term(struct parse *parse, enum term_host host, const struct pmu *pmu, struct event *event)
{
	struct term term = {0};

	if (parse->token.kind != TOKEN_WORD)
		return parse_expected(parse, "a term");
	term.name = parse_take(parse);
	if (accept_spaced(parse, TOKEN_EQUALS)) {
		if (parse->token.kind != TOKEN_WORD && parse->token.kind != TOKEN_STRING)
			return parse_expected(parse, "a value");
		term.value = take_value(parse);
		term.has_value = true;
	}
	return apply_term(parse, &term, host, pmu, event);
}

int term_parse_list(struct parse *parse, enum term_host host, const struct pmu *pmu, struct event *event)
{
	if (accept_spaced(parse, TOKEN_SLASH)) /* "//": none */
		return 0;
	do {
		int err = parse_term(parse, host, pmu, event);
		if (err < 0)
			return err;
	} while (parse_accept(parse, TOKEN_COMMA));
	if (!accept_spaced(parse, TOKEN_SLASH))
		return parse_expected(parse, "',' or the closing '/' of the terms");
	return 0;
}

/* A field of the PMU's format, or a whole config word. */
static int apply_alias_term(const struct pmu *pmu, const char *name, uint64_t value, struct perf_event_attr *attr)
{
	struct pmu_format format = {.word = PMU_CONFIG, .mask = UINT64_MAX};
	int err = pmu_format_find(pmu, name, &format);

	if (err == -ENOENT && strcmp(name, "config1") == 0)
		format.word = PMU_CONFIG1;
	else if (err == -ENOENT && strcmp(name, "config2") == 0)
		format.word = PMU_CONFIG2;
	else if (err < 0 && strcmp(name, "config") != 0)
		return err;
	return pmu_format_apply(&format, value, attr);
}

/* Ends: a named event may not refer to another one, since its terms all have values or are formats. */
int term_parse_alias(const char *terms, const struct pmu *pmu, struct event *event, struct parse *parse)
{
	struct parse inner;

	parse_init(&inner, terms, parse->reterr);
	do {
		struct term term = {.name = inner.token};
		uint64_t value = 1;
		AUTO_FREE char *name = parse_text(&term.name);

		if (!name || inner.token.kind != TOKEN_WORD)
			return parse_expected(&inner, "a term");
		parse_take(&inner);
		if (accept_spaced(&inner, TOKEN_EQUALS)) {
			term.value = parse_take(&inner);
			if (parse_number(&term.value, &value) < 0)
				return parse_error(&inner, term.value.start, "expected a number");
		}
		if (apply_alias_term(pmu, name, value, &event->attr) < 0)
			return parse_error(&inner, term.name.start, "the PMU has no place for '%s'", name);
	} while (parse_accept(&inner, TOKEN_COMMA));
	return parse_at(&inner, TOKEN_END) ? 0 : parse_expected(&inner, "',' or the end");
}
