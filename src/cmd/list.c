/* SPDX-License-Identifier: MIT */
/* millrace list: the events of this machine, as -e takes them. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/cli/json_writer.h"
#include "cmd/cli/terminal.h"
#include "event/parse/inventory.h"

enum { EXIT_NONE = 1, EXIT_ERROR = 255 };

struct list_options {
	bool json;
};

static const struct option list_table[] = {
	{.name = "json",
	 .help = "Print an array of objects with name, aliases and kind",
	 .set = option_set_flag,
	 .offset = offsetof(struct list_options, json),
	 .group = "Output"},
	{0},
};

/* What stands behind the name, the word that chooses the kind, and other spellings of that, as perf has them. */
static const struct {
	const char *label, *words[3];
} kinds[INVENTORY_NR_KINDS] = {
	[INVENTORY_HARDWARE] = {"Hardware event", {"hw", "hardware"}},
	[INVENTORY_SOFTWARE] = {"Software event", {"sw", "software"}},
	[INVENTORY_CACHE] = {"Hardware cache event", {"cache", "hwcache"}},
	[INVENTORY_PMU] = {"Kernel PMU event", {"pmu"}},
	[INVENTORY_TRACEPOINT] = {"Tracepoint event", {"tracepoint", "trace"}},
};

/* What is written rather than listed. */
static const struct {
	const char *name, *label, *word;
} written[] = {
	{"rNNN", "Raw hardware event descriptor", "pmu"},
	{"PMU/TERM=VALUE,.../MODIFIERS", "Raw hardware event descriptor", "pmu"},
	{"mem:ADDRESS[/LENGTH][:rwx]", "Hardware breakpoint", "bp"},
};

/* 1: a word for the kind; 0: a word for another kind; -1: none. */
static int is_kind(const char *word, enum inventory_kind kind)
{
	for (int k = 0; k < INVENTORY_NR_KINDS; k++)
		for (int i = 0; i < 3 && kinds[k].words[i]; i++)
			if (strcmp(word, kinds[k].words[i]) == 0)
				return k == (int)kind;
	for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++)
		if (strcmp(word, written[i].word) == 0)
			return 0;
	return -1;
}

/* A pattern, or a part of the name. */
static bool name_matches(const char *name, const char *word)
{
	if (!name)
		return false;
	return strpbrk(word, "*?[") ? fnmatch(word, name, 0) == 0 : strstr(name, word) != NULL;
}

static bool is_wanted(const struct inventory_event *event, char *const words[], int nr_words)
{
	for (int i = 0; i < nr_words; i++) {
		int kind = is_kind(words[i], event->kind);
		if (kind > 0 ||
		    (kind < 0 && (name_matches(event->name, words[i]) || name_matches(event->other, words[i]))))
			return true;
	}
	return nr_words == 0;
}

static void print_line(const char *name, const char *other, const char *label)
{
	AUTO_BUF struct buf names = {0};

	escape_put_text(&names, name);
	buf_put_text(&names, other ? " OR " : "");
	escape_put_text(&names, other ? other : "");
	printf("  %-50s [%s]\n", buf_text(&names), label);
}

static void put_object(struct json_writer *json, const struct inventory_event *event)
{
	json_break(json);
	json_object(json, NULL);
	json_text(json, "name", event->name);
	json_array(json, "aliases");
	if (event->other)
		json_text(json, NULL, event->other);
	json_end(json);
	json_text(json, "kind", kinds[event->kind].words[0]);
	json_end(json);
}

/* json NULL: as text. */
static size_t print_events(const struct inventory *inventory, struct json_writer *json, char *const words[],
			   int nr_words)
{
	size_t nr = 0;

	for (size_t i = 0; i < inventory->nr; i++) {
		const struct inventory_event *event = &inventory->events[i];
		if (!is_wanted(event, words, nr_words))
			continue;
		if (json)
			put_object(json, event);
		else
			print_line(event->name, event->other, kinds[event->kind].label);
		nr++;
	}
	return nr;
}

static size_t print_written(char *const words[], int nr_words)
{
	size_t nr = 0;

	for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
		bool wanted = nr_words == 0;
		for (int w = 0; w < nr_words; w++)
			wanted |= strcmp(words[w], written[i].word) == 0;
		if (wanted)
			print_line(written[i].name, NULL, written[i].label);
		nr += wanted;
	}
	return nr;
}

static int print(const struct list_options *options, char *const words[], int nr_words)
{
	struct inventory inventory;
	struct diag note = {""};

	if (inventory_make(NULL, &inventory, &note) < 0) {
		log_error("out of memory");
		return EXIT_ERROR;
	}
	struct json_writer json = {.to = stdout};
	if (options->json)
		json_array(&json, NULL);
	size_t nr = print_events(&inventory, options->json ? &json : NULL, words, nr_words);
	if (options->json) {
		json_end(&json);
		printf("\n");
	} else {
		nr += print_written(words, nr_words);
	}
	inventory_fini(&inventory);
	if (note.text[0])
		log_note("no tracepoints: %s", note.text);
	if (standard_output_flush())
		return EXIT_ERROR;
	if (nr || !nr_words)
		return 0;
	log_error("this machine has no event like %s%s", words[0], nr_words > 1 ? ", and none like the others" : "");
	return EXIT_NONE;
}

static int run(int argc, char **argv)
{
	struct list_options options = {0};
	AUTO_CONFIGURATION struct configuration config = {0};

	switch (configuration_parse(&command_list, argc, argv, &options, &config)) {
	case OPTION_EXIT: return 0;
	case OPTION_BAD: return COMMAND_USAGE;
	case OPTION_OK: break;
	}
	return print(&options, argv + config.given.first, argc - config.given.first);
}

const struct command command_list = {
	.name = "list",
	.summary = "List the events of this machine, as record -e takes them",
	.usage = "[OPTIONS] [KIND | PATTERN | PART]...",
	.description =
		"Lists hardware, software and cache events, those that sysfs has names for, and tracepoints; only what "
		"this machine can count. KIND is hw, sw, cache, pmu, tracepoint or bp; PATTERN has *, ? or []; "
		"anything else is a part of the name.\n"
		"\n"
		"Examples:\n"
		"  millrace list 'sched:*'\n"
		"  millrace list --json sw\n"
		"  millrace list fault",
	.options = list_table,
	.run = run,
};
