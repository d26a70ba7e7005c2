/* SPDX-License-Identifier: MIT */
/* The command line: every way to spell an option, and every way to get it wrong. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/text.h"
#include "cmd/cli/option.h"

struct values {
	bool all, callgraph, no_inherit, stat, no_samples, hidden;
	int verbose;
	uint64_t freq;
	const char *event, *output, *sort;
	bool sorted;
};

static int set_sort(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct values *values = value;

	(void)option;
	if (arg && strcmp(arg, "bad") == 0)
		return diag_set(reterr, -EINVAL, "no such key");
	values->sorted = !negated;
	values->sort = arg;
	return 0;
}

static const struct option options[] = {
	{'a', "all-cpus", NULL, "all tasks", option_set_flag, offsetof(struct values, all), 0, "Targets", NULL, NULL,
	 NULL},
	{'i', "no-inherit", NULL, "not the children", option_set_flag, offsetof(struct values, no_inherit), 0, NULL,
	 NULL, NULL, NULL},
	{'e', "event", "EVENT", "what to record", option_set_string, offsetof(struct values, event), 0, "Events", NULL,
	 NULL, NULL},
	{'F', "freq", "HZ", "samples per second", option_set_u64, offsetof(struct values, freq), 0, NULL, NULL, NULL,
	 NULL},
	{'g', NULL, NULL, "call graphs", option_set_flag, offsetof(struct values, callgraph), 0, NULL, NULL, NULL,
	 NULL},
	{'s', "stat", NULL, "counts per thread", option_set_flag, offsetof(struct values, stat), 0, NULL, NULL, NULL,
	 NULL},
	{'n', "no-samples", NULL, "only counts", option_set_flag, offsetof(struct values, no_samples), 0, NULL, NULL,
	 NULL, NULL},
	{'o', "output", "FILE", "where to", option_set_string, offsetof(struct values, output), OPTION_NO_NEGATE, NULL,
	 NULL, NULL, NULL},
	{'v', "verbose", NULL, "tell more", option_set_count, offsetof(struct values, verbose), 0, NULL, NULL, NULL,
	 NULL},
	{0, "sort", "KEYS", "order\nof lines", set_sort, 0, OPTION_ARG_OPTIONAL, NULL, NULL, "name size", NULL},
	{'p', "pids", "PID,…", "which", option_set_string, offsetof(struct values, output), 0, NULL, NULL, NULL, NULL},
	{0, "secret", NULL, "not shown", option_set_flag, offsetof(struct values, hidden), OPTION_HIDDEN, NULL, NULL,
	 NULL, NULL},
	{0},
};

static const struct command command = {
	.name = "try",
	.summary = "a test",
	.usage = "[OPTIONS] [--] COMMAND\n[OPTIONS] -a | -C LIST | -p PID | -t TID | and so on",
	.description = "A paragraph that is long enough to be broken somewhere between its first and its last word, "
		       "twice if the lines are short.\n\n  millrace try -a   an example\n",
	.options = options,
	.runs_command = true,
};

static const struct command reader = {.name = "read", .options = options};

enum { ARGS_MAX = 16 };

/* A command line as text, split at spaces, and what came of it. stderr and stdout are kept for the test. */
struct run {
	char line[256], *argv[ARGS_MAX + 1];
	struct values values;
	enum option_result result;
	int first, argc;
	char out[4096], err[512];
};

static FILE *redirect(FILE *stream, int *ret_saved)
{
	FILE *file = tmpfile();

	assert_non_null(file);
	fflush(stream);
	*ret_saved = dup(fileno(stream));
	dup2(fileno(file), fileno(stream));
	return file;
}

static void restore(FILE *stream, int saved, FILE *file, char *ret_text, size_t room)
{
	fflush(stream);
	dup2(saved, fileno(stream));
	close(saved);
	rewind(file);
	ret_text[fread(ret_text, 1, room - 1, file)] = '\0';
	fclose(file);
}

static struct run *parse_for(const struct command *of, const char *line)
{
	static struct run run;
	int saved_out, saved_err;

	memset(&run, 0, sizeof(run));
	snprintf(run.line, sizeof(run.line), "try %s", line);
	for (char *word = strtok(run.line, " "); word && run.argc < ARGS_MAX; word = strtok(NULL, " "))
		run.argv[run.argc++] = word;
	FILE *out = redirect(stdout, &saved_out), *err = redirect(stderr, &saved_err);
	run.result = option_parse(of, run.argc, run.argv, &run.values, &run.first);
	restore(stderr, saved_err, err, run.err, sizeof(run.err));
	restore(stdout, saved_out, out, run.out, sizeof(run.out));
	return &run;
}

static struct run *parse(const char *line)
{
	return parse_for(&command, line);
}

static const struct values *good(const char *line, int first)
{
	const struct run *run = parse(line);

	assert_string_equal(run->err, "");
	assert_string_equal(run->out, "");
	assert_int_equal(run->result, OPTION_OK);
	assert_int_equal(run->first, first);
	return &run->values;
}

/* One line on stderr that says `text`, nothing on stdout. */
static void bad(const char *line, const char *text)
{
	const struct run *run = parse(line);
	char expected[256];

	snprintf(expected, sizeof(expected), "millrace: %s\n", text);
	assert_string_equal(run->err, expected);
	assert_string_equal(run->out, "");
	assert_int_equal(run->result, OPTION_BAD);
}

static void test_letters(void **state)
{
	(void)state;
	assert_true(good("-a", 2)->all);
	const struct values *values = good("-ag -F99 -F 100 -vve cycles rest", 7);
	assert_true(values->all && values->callgraph);
	assert_int_equal(values->freq, 100);
	assert_int_equal(values->verbose, 2);
	assert_string_equal(values->event, "cycles");
	assert_string_equal(good("-gecycles", 2)->event, "cycles");
}

static void test_names(void **state)
{
	(void)state;
	assert_int_equal(good("--freq=7", 2)->freq, 7);
	assert_int_equal(good("--freq 0x10", 3)->freq, 16);
	assert_int_equal(good("--freq 0100", 3)->freq, 100);
	assert_int_equal(good("--freq 08", 3)->freq, 8);
	assert_int_equal(good("--fr 8", 3)->freq, 8);
	assert_string_equal(good("--event=a=b", 2)->event, "a=b");
	assert_string_equal(good("--output=", 2)->output, "");
	assert_true(good("--secret", 2)->hidden);
}

static void test_negation(void **state)
{
	(void)state;
	assert_false(good("-a --no-all-cpus", 3)->all);
	assert_int_equal(good("-vv --no-verbose", 3)->verbose, 0);
	assert_null(good("-e x --no-event", 4)->event);
	assert_int_equal(good("-F 9 --no-freq", 4)->freq, 0);
	assert_true(good("--no-inherit", 2)->no_inherit);
	assert_false(good("-i --inherit", 3)->no_inherit);
	assert_true(good("--no-sa", 2)->no_samples);
	assert_false(good("-s --no-st", 3)->stat);
	assert_false(good("--sort=x --no-sort", 3)->sorted);
	bad("--no-output", "unknown option --no-output; 'millrace try --help' lists what there is");
}

static void test_optional_argument(void **state)
{
	(void)state;
	const struct values *values = good("--sort comm", 2);
	assert_true(values->sorted);
	assert_null(values->sort);
	assert_string_equal(good("--sort=comm", 2)->sort, "comm");
}

static void test_end_of_options(void **state)
{
	(void)state;
	assert_int_equal(parse("")->first, 1);
	assert_false(good("ls -a", 1)->all);
	assert_false(good("-v -- -a", 3)->all);
	assert_false(good("- -a", 1)->all);
}

/* Of a command that runs none: all arguments are behind the options, in their order. */
static void test_arguments_among_options(void **state)
{
	static const struct {
		const char *line, *arguments[4];
		bool all;
	} lines[] = {
		{"", {NULL}, false},
		{"a", {"a"}, false},
		{"a -a b", {"a", "b"}, true},
		{"a --event x b - -a c", {"a", "b", "-", "c"}, true},
		{"a b -- -a --", {"a", "b", "-a", "--"}, false},
		{"-- a", {"a"}, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		const struct run *run = parse_for(&reader, lines[i].line);
		int nr = 0;

		assert_int_equal(run->result, OPTION_OK);
		assert_int_equal(run->values.all, lines[i].all);
		while (nr < 4 && lines[i].arguments[nr]) {
			assert_string_equal(run->argv[run->first + nr], lines[i].arguments[nr]);
			nr++;
		}
		assert_int_equal(run->first + nr, run->argc);
	}
	assert_int_equal(parse_for(&reader, "a --event")->result, OPTION_BAD);
	assert_int_equal(parse_for(&reader, "-F 1 a -F")->result, OPTION_BAD);
}

static void test_wrong(void **state)
{
	(void)state;
	bad("--frq 9", "unknown option --frq; did you mean --freq?");
	bad("--evnet=x", "unknown option --evnet; did you mean --event?");
	bad("--zzz", "unknown option --zzz; 'millrace try --help' lists what there is");
	bad("--secre", "unknown option --secre; 'millrace try --help' lists what there is");
	bad("-ax", "unknown option -x; 'millrace try --help' lists what there is");
	bad("--s", "option --s is ambiguous: --stat or --sort?");
	bad("--no", "option --no is ambiguous: --no-inherit or --no-samples?");
	bad("-F", "option -F needs a value: -F HZ");
	bad("--event", "option --event needs a value: --event EVENT");
	bad("--stat=1", "option --stat takes no value");
	bad("--no-event=1", "option --no-event takes no value");
	bad("-F -1", "option -F: \"-1\" is not a whole number");
	bad("--freq=99x", "option --freq: \"99x\" is not a whole number");
	bad("-F 18446744073709551616", "option -F: \"18446744073709551616\" is not a whole number");
	bad("--sort=bad", "option --sort: no such key");
}

static void test_help(void **state)
{
	static const char *const lines[] = {
		("Usage: millrace try [OPTIONS] [--] COMMAND\n       millrace try [OPTIONS] -a | -C LIST | -p PID | -t "
		 "TID\n                    | and so on\n\nA paragraph"),
		"\n  millrace try -a   an example\n\nTargets:\n  -a, --all-cpus              all tasks\n",
		"\n\nEvents:\n  -e, --event EVENT           what to record\n  -F, --freq HZ  ",
		"\n  -g                          call graphs\n",
		"\n      --sort[=KEYS]           order\n                              of lines\n",
		"\n  -p, --pids PID,…            which\n",
		"\n\n  -h, --help                  Print this text",
	};

	(void)state;
	setenv("COLUMNS", "60", 1);
	for (int way = 0; way < 3; way++) {
		const struct run *run = parse(way == 0 ? "--help" : way == 1 ? "-ah" : "-F 9 --help x");
		assert_int_equal(run->result, OPTION_EXIT);
		assert_string_equal(run->err, "");
		for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
			if (!strstr(run->out, lines[i]))
				fail_msg("\"%s\" is not in:\n%s", lines[i], run->out);
		assert_null(strstr(run->out, "secret"));
		for (const char *at = run->out; *at; at += strcspn(at, "\n") + 1)
			assert_in_range(strcspn(at, "\n"), 0, 60);
	}
}

static void test_words(void **state)
{
	char text[512];
	AUTO_FILE FILE *file = tmpfile();

	(void)state;
	assert_non_null(file);
	option_print_words(&command, file);
	rewind(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	assert_non_null(strstr(text, "-F\tHZ\n--freq\tHZ\n-g\t\n-s\t\n--stat\t\n"));
	assert_non_null(strstr(text, "\n--sort\t[KEYS]\n"));
	assert_non_null(strstr(text, "\n-h\t\n--help\t\n"));
	assert_null(strstr(text, "secret"));
}

static void test_values(void **state)
{
	char text[64];
	AUTO_FILE FILE *file = tmpfile();

	(void)state;
	assert_non_null(file);
	option_print_values(&command, "--sort", file);
	option_print_values(&command, "-F", file);
	option_print_values(&command, "-?", file);
	option_print_values(&command, "--nothing", file);
	option_print_values(&command, "", file);
	rewind(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	assert_string_equal(text, "name\nsize\n");
}

static void test_size(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} sizes[] = {{"0", 0},        {"10", 10},      {"10B", 10},
		     {"010K", 10240}, {"4K", 4096},    {"4k", 4096},
		     {"2M", 2 << 20}, {"1G", 1 << 30}, {"17179869183G", UINT64_C(17179869183) << 30}};
	static const char *const wrong[] = {
		"", "K", "-1", " 1", "1T", "1KB", "1.5K", "17179869184G", "99999999999999999999"};
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(option_parse_size(sizes[i].text, &bytes), 0);
		assert_int_equal(bytes, sizes[i].bytes);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(option_parse_size(wrong[i], &bytes), -EINVAL);
}

static void test_near(void **state)
{
	(void)state;
	assert_int_equal(edit_distance("", ""), 0);
	assert_int_equal(edit_distance("abc", ""), 3);
	assert_int_equal(edit_distance("kitten", "sitting"), 3);
	assert_int_equal(edit_distance("recrod", "record"), 1);
	char lots[200];
	memset(lots, 'x', sizeof(lots) - 1);
	lots[sizeof(lots) - 1] = '\0';
	assert_int_equal(edit_distance(lots, lots), 0);
	assert_int_equal(edit_distance(lots, "x"), 62);
	assert_true(edit_distance_is_close("rep", "report"));
	assert_false(edit_distance_is_close("x", "xyz"));
	assert_false(edit_distance_is_close("report", "record"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_letters),        cmocka_unit_test(test_names),
		cmocka_unit_test(test_negation),       cmocka_unit_test(test_optional_argument),
		cmocka_unit_test(test_end_of_options), cmocka_unit_test(test_arguments_among_options),
		cmocka_unit_test(test_wrong),          cmocka_unit_test(test_help),
		cmocka_unit_test(test_words),          cmocka_unit_test(test_size),
		cmocka_unit_test(test_near),           cmocka_unit_test(test_values),
	};
	return cmocka_run_group_tests_name("option", tests, NULL, NULL);
}
