/* SPDX-License-Identifier: MIT */
#include "cmd/report/columns.h"

#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyze/report/tracepoint.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "perfdata/feature.h"
#include "read/session.h"

/* In the order in which a beginning is looked for: perf's. Some are about branches or accesses to memory alone. */
static const struct column_word {
	const char *word;
	enum hist_column column;
	enum samples_mode mode; /* PLAIN: any */
} column_words[] = {
	{"pid", HIST_TID, 0},
	{"comm", HIST_COMM, 0},
	{"dso", HIST_DSO, 0},
	{"symbol", HIST_SYM, 0},
	{"parent", HIST_PARENT, 0},
	{"cpu", HIST_CPU, 0},
	{"socket", HIST_SOCKET, 0},
	{"srcline", HIST_SRCLINE, 0},
	{"srcfile", HIST_SRCFILE, 0},
	{"local_weight", HIST_LOCAL_WEIGHT, 0},
	{"weight", HIST_WEIGHT, 0},
	{"transaction", HIST_TRANSACTION, 0},
	{"trace", HIST_TRACE, 0},
	{"state", HIST_STATE, 0}, /* this and the next two: not perf's */
	{"waker", HIST_WAKER, 0},
	{"host", HIST_HOST, 0},
	{"parallelism", HIST_PARALLELISM, 0}, /* this and the next: perf 6.15 */
	{"latency", HIST_LATENCY, 0},
	{"symbol_size", HIST_SYM_SIZE, 0},
	{"dso_size", HIST_DSO_SIZE, 0},
	{"cgroup", HIST_CGROUP, 0},
	{"cgroup_id", HIST_CGROUP_ID, 0},
	{"time", HIST_TIME, 0},
	{"code_page_size", HIST_CODE_PAGE_SIZE, 0},
	{"local_ins_lat", HIST_LOCAL_INS_LAT, 0},
	{"ins_lat", HIST_INS_LAT, 0},
	{"addr", HIST_ADDRESS, 0},
	{"overhead", HIST_SELF, 0},
	{"overhead_sys", HIST_SELF_KERNEL, 0},
	{"overhead_us", HIST_SELF_USER, 0},
	{"overhead_guest_sys", HIST_SELF_GUEST_KERNEL, 0},
	{"overhead_guest_us", HIST_SELF_GUEST_USER, 0},
	{"overhead_children", HIST_CHILDREN, 0},
	{"sample", HIST_SAMPLES, 0},
	{"period", HIST_PERIOD, 0},
	{"dso_from", HIST_DSO_FROM, SAMPLES_BRANCHES},
	{"dso_to", HIST_DSO_TO, SAMPLES_BRANCHES},
	{"symbol_from", HIST_SYM_FROM, SAMPLES_BRANCHES},
	{"symbol_to", HIST_SYM_TO, SAMPLES_BRANCHES},
	{"mispredict", HIST_MISPREDICTED, SAMPLES_BRANCHES},
	{"in_tx", HIST_IN_TRANSACTION, SAMPLES_BRANCHES},
	{"abort", HIST_ABORTED, SAMPLES_BRANCHES},
	{"cycles", HIST_CYCLES, SAMPLES_BRANCHES},
	{"srcline_from", HIST_SRCLINE_FROM, SAMPLES_BRANCHES},
	{"srcline_to", HIST_SRCLINE_TO, SAMPLES_BRANCHES},
	{"addr_from", HIST_ADDRESS_FROM, SAMPLES_BRANCHES},
	{"addr_to", HIST_ADDRESS_TO, SAMPLES_BRANCHES},
	{"symbol_daddr", HIST_SYM_DATA, SAMPLES_MEMORY},
	{"symbol_iaddr", HIST_SYM_CODE, SAMPLES_MEMORY},
	{"dso_daddr", HIST_DSO_DATA, SAMPLES_MEMORY},
	{"locked", HIST_LOCKED, SAMPLES_MEMORY},
	{"tlb", HIST_TLB, SAMPLES_MEMORY},
	{"mem", HIST_MEMORY, SAMPLES_MEMORY},
	{"snoop", HIST_SNOOP, SAMPLES_MEMORY},
	{"dcacheline", HIST_CACHE_LINE, SAMPLES_MEMORY},
	{"phys_daddr", HIST_PHYSICAL, SAMPLES_MEMORY},
	{"data_page_size", HIST_DATA_PAGE_SIZE, SAMPLES_MEMORY},
	{"blocked", HIST_BLOCKED, SAMPLES_MEMORY},
	{"tid", HIST_TID, 0}, /* this and the next four: not perf's, whose words go first */
	{"on_cpu", HIST_ON_CPU, 0},
	{"off_cpu", HIST_OFF_CPU, 0},
	{"off_cpu_blocked", HIST_BLOCKED_TIME, 0},
	{"off_cpu_runnable", HIST_RUNNABLE, 0},
};

static const struct {
	const char *words;
	struct column_list list;
} default_sorts[] = {
	[SAMPLES_PLAIN] = {"comm,dso,symbol",
			   {.columns = {HIST_COMM, HIST_DSO, HIST_SYM}, .levels = {0, 1, 2}, .nr = 3}},
	[SAMPLES_BRANCHES] = {"comm,dso_from,symbol_from,symbol_to,cycles",
			      {.columns = {HIST_COMM, HIST_DSO_FROM, HIST_SYM_FROM, HIST_SYM_TO, HIST_CYCLES},
			       .levels = {0, 1, 2, 3, 4},
			       .nr = 5}},
	/* The last word is perf's title; it has no column where no CPU counts it. */
	[SAMPLES_MEMORY] = {"local_weight,mem,sym,dso,symbol_daddr,dso_daddr,snoop,tlb,locked,blocked,local_ins_lat,"
			    "local_p_stage_cyc",
			    {.columns = {HIST_LOCAL_WEIGHT, HIST_MEMORY, HIST_SYM, HIST_DSO, HIST_SYM_DATA,
					 HIST_DSO_DATA, HIST_SNOOP, HIST_TLB, HIST_LOCKED, HIST_BLOCKED,
					 HIST_LOCAL_INS_LAT},
			     .levels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
			     .nr = 11}},
};

void column_print_words(FILE *to)
{
	for (size_t i = 0; i < sizeof(column_words) / sizeof(column_words[0]); i++)
		fprintf(to, "%s\n", column_words[i].word);
}

static bool list_has(const struct column_list *list, enum hist_column column)
{
	for (unsigned i = 0; i < list->nr; i++)
		if (list->columns[i] == column)
			return true;
	return false;
}

static void list_add_at(struct column_list *list, enum hist_column column, unsigned level)
{
	if (list_has(list, column))
		return;
	list->levels[list->nr] = level;
	list->columns[list->nr++] = column;
}

static void list_add(struct column_list *list, enum hist_column column)
{
	list_add_at(list, column, list->nr);
}

static void list_add_all(struct column_list *list, const struct column_list *more)
{
	for (unsigned i = 0; i < more->nr; i++)
		list_add_at(list, more->columns[i], more->levels[i]);
}

/* perf's, and not here. */
static const struct {
	const char *words, *why;
} refused_words[] = {
	{"ipc_lbr ipc_null", "instructions are not decoded here: use perf report --sort symbol,ipc_lbr"},
	{"p_stage_cyc local_p_stage_cyc", "no CPU of this architecture tells it, and perf prints no column either"},
};

static bool words_have(const char *words, const char *word, size_t len)
{
	for (const char *at = words; *at; at += strcspn(at, " "), at += strspn(at, " "))
		if (strcspn(at, " ") == len && strncasecmp(at, word, len) == 0)
			return true;
	return false;
}

/* "a, b, c" of all that are about the mode. */
static void list_words(enum samples_mode mode, struct buf *out)
{
	for (size_t i = 0; i < sizeof(column_words) / sizeof(column_words[0]); i++)
		if (column_words[i].mode == mode)
			buf_printf(out, "%s%s", out->len ? ", " : "", column_words[i].word);
}

static int no_such_word(const char *word, size_t len, struct diag *reterr)
{
	AUTO_BUF struct buf known = {0};

	list_words(SAMPLES_PLAIN, &known);
	return diag_set(reterr, -EINVAL,
			"\"%.*s\" is none of %s; nor of those of branches (-b) or memory (--mem-mode): see the manual; "
			"nor a field of a tracepoint of the recording",
			(int)len, word, buf_text(&known));
}

/* "prev_pid", "sched_switch.prev_pid", "%1.*", "next_comm/raw": known once the recording is. */
static int add_field_word(struct column_choice *choice, const char *word, size_t len, enum hist_column *ret,
			  struct diag *reterr)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:%*/-";

	if (!len || len >= FIELD_WORD_MAX || strspn(word, letters) < len)
		return no_such_word(word, len, reterr);
	for (unsigned i = 0; i < HIST_FIELDS; i++) {
		char *at = choice->field_words[i];
		if (!*at)
			memcpy(at, word, len);
		*ret = HIST_FIELD + i;
		if (strlen(at) == len && memcmp(at, word, len) == 0)
			return 0;
	}
	return diag_set(reterr, -EINVAL, "\"%.*s\": at most %d fields of tracepoints can be keys", (int)len, word,
			HIST_FIELDS);
}

static int parse_word(struct column_choice *choice, const char *word, size_t len, enum hist_column *ret,
		      struct diag *reterr)
{
	for (size_t i = 0; len && i < sizeof(column_words) / sizeof(column_words[0]); i++)
		if (strncasecmp(column_words[i].word, word, len) == 0) {
			*ret = column_words[i].column;
			return 0;
		}
	for (size_t i = 0; i < sizeof(refused_words) / sizeof(refused_words[0]); i++)
		if (words_have(refused_words[i].words, word, len))
			return diag_set(reterr, -EINVAL, "\"%.*s\" is not supported: %s", (int)len, word,
					refused_words[i].why);
	return add_field_word(choice, word, len, ret, reterr);
}

/* The words of -s or -F; a beginning is enough, as in perf. Words in braces are of one level. -EINVAL and why. */
static int column_list_parse(struct column_choice *choice, const char *text, struct column_list *ret,
			     struct diag *reterr)
{
	struct column_list list = {0};
	unsigned level = 0;
	bool open = false;

	for (const char *at = text;; at++) {
		enum hist_column column = HIST_COLUMNS;
		bool begins = *at == '{', ends;
		at += begins;
		size_t len = strcspn(at, ",}");
		ends = at[len] == '}';
		if ((begins && open) || (ends && !open && !begins) || (ends && at[len + 1] && at[len + 1] != ','))
			return diag_set(reterr, -EINVAL, "\"%s\": braces must group keys, as in {comm,dso},symbol",
					text);
		open = (open || begins) && !ends;
		int err = parse_word(choice, at, len, &column, reterr);
		if (err)
			return err;
		list_add_at(&list, column, level);
		level += !open;
		at += len + ends;
		if (!*at)
			break;
	}
	if (open)
		return diag_set(reterr, -EINVAL, "\"%s\": there is no closing brace", text);
	*ret = list;
	return 0;
}

static bool has_sort(const struct column_choice *choice)
{
	return choice->sort.nr || choice->more_sort.nr;
}

static struct column_list sort_of(const struct column_choice *choice)
{
	struct column_list list = choice->sort.nr ? choice->sort : default_sorts[choice->mode].list;
	const struct column_list *more = &choice->more_sort;
	unsigned first = list.levels[list.nr - 1] + 1;

	for (unsigned i = 0; i < more->nr; i++)
		list_add_at(&list, more->columns[i], first + more->levels[i]);
	return list;
}

/* What is sorted by beside the columns of -F: nothing, unless -s says so. */
static void add_given_sort(const struct column_choice *choice, struct column_list *list)
{
	const struct column_list sort = sort_of(choice);

	if (has_sort(choice))
		list_add_all(list, &sort);
}

/* Numbers that options show beside the shares, in the order of their columns. */
static void add_shown_numbers(const struct column_choice *choice, struct column_list *list)
{
	if (choice->levels) {
		list_add(list, HIST_SELF_KERNEL);
		list_add(list, HIST_SELF_USER);
	}
	if (choice->sample_counts)
		list_add(list, HIST_SAMPLES);
	if (choice->periods)
		list_add(list, HIST_PERIOD);
}

void column_choice_apply(const struct column_choice *choice, struct hist_options *ret)
{
	const struct column_list sort = sort_of(choice);
	struct column_list order = {0};

	if (!choice->fields.nr) {
		/* As perf: the shares come first unless -s has them elsewhere. */
		if (!list_has(&sort, HIST_CHILDREN))
			list_add(&order, HIST_CHILDREN);
		if (!list_has(&sort, HIST_SELF))
			list_add(&order, HIST_SELF);
		list_add_all(&order, &sort);
		/* What is shown decides between rows that are equal by the keys. */
		add_shown_numbers(choice, &order);
		list_add_all(&order, &choice->more_fields);
	} else {
		add_given_sort(choice, &order);
		if (choice->parent)
			list_add(&order, HIST_PARENT);
		list_add_all(&order, &choice->fields);
	}
	if (choice->parent)
		list_add(&order, HIST_PARENT);
	memcpy(ret->order, order.columns, sizeof(ret->order));
	ret->nr_order = order.nr;
	ret->nr_keys = 0;
	for (unsigned i = 0; i < order.nr; i++)
		if (order.columns[i] < HIST_KEYS)
			ret->keys[ret->nr_keys++] = order.columns[i];
}

void column_choice_sort_words(const struct column_choice *choice, struct buf *out)
{
	if (!choice->sort.nr)
		buf_printf(out, "%s", default_sorts[choice->mode].words);
	if (has_sort(choice))
		buf_printf(out, "%s%s", out->len ? "," : "", choice->sort_words);
}

void column_choice_shown(const struct column_choice *choice, bool children, struct column_list *ret)
{
	const struct column_list sort = sort_of(choice);

	*ret = choice->fields;
	if (choice->fields.nr) {
		add_given_sort(choice, ret);
		if (choice->parent)
			list_add(ret, HIST_PARENT);
		return;
	}
	if (children)
		list_add(ret, HIST_CHILDREN);
	list_add(ret, HIST_SELF);
	if (choice->latency)
		list_add(ret, HIST_LATENCY);
	if (choice->wall) {
		list_add(ret, HIST_ON_CPU);
		list_add(ret, HIST_BLOCKED_TIME);
		list_add(ret, HIST_RUNNABLE);
	}
	add_shown_numbers(choice, ret);
	list_add_all(ret, &choice->more_fields);
	list_add_all(ret, &sort);
	if (choice->parent)
		list_add(ret, HIST_PARENT);
}

unsigned column_choice_levels(const struct column_choice *choice, struct hierarchy_level ret[])
{
	struct column_list list = sort_of(choice);
	unsigned nr = 0, last = UINT_MAX;

	if (choice->parent)
		list_add_at(&list, HIST_PARENT, UINT_MAX - 1);
	for (unsigned i = 0; i < list.nr; i++) {
		if (list.columns[i] >= HIST_KEYS)
			continue;
		if (!nr || list.levels[i] != last)
			ret[nr++] = (struct hierarchy_level){0};
		last = list.levels[i];
		ret[nr - 1].keys[ret[nr - 1].nr++] = list.columns[i];
	}
	return nr;
}

bool column_choice_begins_with(const struct column_choice *choice, enum hist_column column)
{
	return !choice->fields.nr && choice->sort.nr && choice->sort.columns[0] == column;
}

/* The last one given counts, with a + or without. */
static int set_lists(struct column_choice *choice, const char *text, struct column_list *whole,
		     struct column_list *more, struct diag *reterr)
{
	bool adds = *text == '+';

	whole->nr = more->nr = 0;
	return column_list_parse(choice, text + adds, adds ? more : whole, reterr);
}

int column_choice_set_sort(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct column_choice *choice = value;

	(void)option, (void)negated;
	choice->sort_words = arg + (*arg == '+');
	return set_lists(choice, arg, &choice->sort, &choice->more_sort, reterr);
}

int column_choice_set_fields(const struct option *option, const char *arg, bool negated, void *value,
			     struct diag *reterr)
{
	struct column_choice *choice = value;

	(void)option, (void)negated;
	return set_lists(choice, arg, &choice->fields, &choice->more_fields, reterr);
}

static bool counts_activity(const struct column_list *list)
{
	return list_has(list, HIST_ON_CPU) || list_has(list, HIST_OFF_CPU) || list_has(list, HIST_BLOCKED_TIME) ||
	       list_has(list, HIST_RUNNABLE);
}

/* Words that are about something else than what is counted. */
static int check_words(const struct column_list *list, enum samples_mode mode, struct diag *reterr)
{
	for (unsigned i = 0; i < list->nr; i++)
		for (size_t word = 0; word < sizeof(column_words) / sizeof(column_words[0]); word++) {
			const struct column_word *at = &column_words[word];
			if (at->column != list->columns[i] || at->mode == SAMPLES_PLAIN || at->mode == mode)
				continue;
			return diag_set(reterr, -EINVAL, "%s is about %s", at->word,
					at->mode == SAMPLES_MEMORY
						? "accesses to memory: count those with --mem-mode"
						: "branches: count those with -b, of a recording with -b or -j");
		}
	return 0;
}

/* What the word names: an event, or any (SIZE_MAX), and a field, or all of them ("*"). */
struct field_word {
	size_t event;
	char name[TRACE_FIELD_NAME_MAX];
	bool raw;
};

static int parse_field_word(const char *word, const struct session *session, struct field_word *ret,
			    struct diag *reterr)
{
	const char *dot = strrchr(word, '.'), *name = dot ? dot + 1 : word;
	size_t len = strcspn(name, "/"), nr, event_len = dot ? (size_t)(dot - word) : 0;
	const struct event_desc *events = session_events(session, &nr);

	*ret = (struct field_word){.event = SIZE_MAX, .raw = name[len]};
	if (len >= sizeof(ret->name) || (name[len] && strcmp(name + len, "/raw")))
		return no_such_word(word, strlen(word), reterr);
	memcpy(ret->name, name, len);
	if (!dot)
		return 0;
	AUTO_FREE char *event = strndup(word, event_len);
	if (!event)
		return diag_set(reterr, -ENOMEM, "out of memory");
	bool whole = strchr(event, ':');
	for (size_t i = 0; i < nr; i++) {
		bool same = *event == '%' ? strtoul(event + 1, NULL, 10) == i + 1
			    : whole       ? strcmp(events[i].name, event) == 0
					  : strstr(events[i].name, event) != NULL;
		if (same && ret->event != SIZE_MAX)
			return diag_set(reterr, -EINVAL, "\"%s\" means both %s and %s", event, events[ret->event].name,
					events[i].name);
		if (same)
			ret->event = i;
	}
	if (ret->event == SIZE_MAX)
		return diag_set(reterr, -EINVAL, "\"%s\" is no event of this recording", event);
	return 0;
}

/* The column of this field, a new one where it has none yet; HIST_COLUMNS: there is no room. */
static enum hist_column column_of_field(struct column_choice *choice, const struct field_word *word, const char *name)
{
	for (unsigned i = 0; i < HIST_FIELDS; i++) {
		struct trace_field *at = &choice->trace_fields[i];
		bool raw = word->raw || choice->raw_trace;
		if (!*at->name) {
			*at = (struct trace_field){.event = word->event, .raw = raw};
			snprintf(at->name, sizeof(at->name), "%s", name);
			return HIST_FIELD + i;
		}
		if (strcmp(at->name, name) == 0 && at->event == word->event && at->raw == raw)
			return HIST_FIELD + i;
	}
	return HIST_COLUMNS;
}

/* What a recording has of tracepoints. */
struct recorded_fields {
	const struct session *session;
	const struct tracepoints *formats;
};

/* A word as it was given, and its level. */
struct listed_word {
	const char *text;
	unsigned level;
};

/* Adds the columns of a word to `ret`: of one field, or of all fields of one event or of all. */
static int expand_word(struct column_choice *choice, struct listed_word listed, const struct recorded_fields *recorded,
		       struct column_list *ret, struct diag *reterr)
{
	const char *text = listed.text;
	const struct tracepoints *formats = recorded->formats;
	struct field_word word;
	size_t nr, nr_found = 0;
	const struct event_desc *events = session_events(recorded->session, &nr);
	int err = parse_field_word(text, recorded->session, &word, reterr);

	if (err)
		return err;
	bool all = strcmp(word.name, "*") == 0 || strcmp(word.name, "trace_fields") == 0;
	for (size_t i = 0; i < nr; i++) {
		uint64_t id = events[i].attr.config;
		if (events[i].attr.type != PERF_TYPE_TRACEPOINT || (word.event != SIZE_MAX && word.event != i))
			continue;
		const char *name = all ? tracepoint_field_name(formats, id, 0) : word.name;
		bool has = all || tracepoint_has_field(formats, id, name);
		for (unsigned at = 1; has && name; name = all ? tracepoint_field_name(formats, id, at++) : NULL) {
			enum hist_column column = column_of_field(choice, &word, name);
			if (column == HIST_COLUMNS)
				return diag_set(reterr, -EINVAL, "%s: at most %d fields of tracepoints can be keys",
						text, HIST_FIELDS);
			list_add_at(ret, column, listed.level);
			nr_found++;
		}
	}
	return nr_found ? 0 : no_such_word(text, strlen(text), reterr);
}

static int expand_list(struct column_choice *choice, const struct recorded_fields *recorded, struct column_list *list,
		       struct diag *reterr)
{
	struct column_list expanded = {0};
	int err = 0;

	for (unsigned i = 0; i < list->nr && !err; i++) {
		enum hist_column column = list->columns[i];
		if (column >= HIST_FIELD && column <= HIST_FIELD_LAST)
			err = expand_word(
				choice, (struct listed_word){choice->field_words[column - HIST_FIELD], list->levels[i]},
				recorded, &expanded, reterr);
		else
			list_add_at(&expanded, column, list->levels[i]);
	}
	*list = expanded;
	return err;
}

int column_choice_fit(struct column_choice *choice, const char *default_sort, const struct session *session,
		      struct diag *reterr)
{
	struct column_list *const lists[] = {&choice->sort, &choice->more_sort, &choice->fields, &choice->more_fields};
	enum { NR_LISTS = sizeof(lists) / sizeof(lists[0]) };
	struct tracepoints *formats = NULL;
	struct span blob;
	bool activity = false;
	int err = 0;

	if (default_sort && !choice->sort.nr && !choice->fields.nr)
		err = column_list_parse(choice, default_sort, &choice->sort, reterr);
	for (unsigned i = 0; i < NR_LISTS && !err; i++) {
		err = check_words(lists[i], choice->mode, reterr);
		activity |= counts_activity(lists[i]);
	}
	if (!err && !choice->wall && activity)
		return diag_set(reterr, -EINVAL, "on_cpu and off_cpu are parts of the time of threads: add --wall");
	const char *first = choice->field_words[0];
	if (err || !*first)
		return err;
	if (!session_feature(session, FEATURE_TRACING_DATA, &blob))
		return no_such_word(first, strlen(first), reterr);
	err = tracepoints_open(blob, &formats, reterr);
	const struct recorded_fields recorded = {session, formats};
	for (unsigned i = 0; i < NR_LISTS && !err; i++)
		err = expand_list(choice, &recorded, lists[i], reterr);
	tracepoints_close(formats);
	return err;
}
