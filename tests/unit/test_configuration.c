/* SPDX-License-Identifier: MIT */
/* Configuration and command line together: which one counts, and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "cmd/cli/command.h"

struct values {
	bool all, quiet, no_inherit, stat, no_stat;
	int verbose;
	uint64_t freq, count;
	const char *output, *writer, *sort;
	char events[64]; /* each with a comma behind it */
};

static int add_event(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	char *events = value;

	(void)option, (void)negated;
	if (strcmp(arg, "bad") == 0)
		return diag_set(reterr, -EINVAL, "no such event");
	strcat(strcat(events, arg), ",");
	return 0;
}

static int set_aio(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)reterr;
	*(const char **)value = negated ? NULL : arg ? arg : "aio";
	return 0;
}

static int set_stat(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct values *values = value;

	(void)option, (void)arg, (void)reterr;
	values->stat = !negated;
	values->no_stat = negated;
	return 0;
}

#define AT(field) offsetof(struct values, field)

static const struct option options[] = {
	{.letter = 'a', .name = "all-cpus", .set = option_set_flag, .offset = AT(all), .flags = OPTION_NO_DEFAULT},
	{.letter = 'i',
	 .name = "no-inherit",
	 .set = option_set_flag,
	 .offset = AT(no_inherit),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'e',
	 .name = "event",
	 .arg = "EVENT",
	 .set = add_event,
	 .offset = AT(events),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'F', .name = "freq", .arg = "HZ", .set = option_set_u64, .offset = AT(freq), .family = "rate"},
	{.letter = 'c', .name = "count", .arg = "N", .set = option_set_u64, .offset = AT(count), .family = "rate"},
	{.letter = 'o', .name = "output", .arg = "FILE", .set = option_set_string, .offset = AT(output)},
	{.name = "writer", .arg = "NAME", .set = option_set_string, .offset = AT(writer), .family = "writer"},
	{.name = "aio",
	 .arg = "N",
	 .set = set_aio,
	 .offset = AT(writer),
	 .family = "writer",
	 .flags = OPTION_ARG_OPTIONAL},
	{.name = "sort", .arg = "KEYS", .set = set_aio, .offset = AT(sort), .flags = OPTION_ARG_OPTIONAL},
	{.name = "stat", .set = set_stat},
	{.letter = 'q', .name = "quiet", .set = option_set_flag, .offset = AT(quiet), .flags = OPTION_NO_NEGATE},
	{.letter = 'v', .name = "verbose", .set = option_set_count, .offset = AT(verbose), .flags = OPTION_NO_NEGATE},
	{.set = NULL},
};

static const struct command command = {.name = "record", .options = options, .runs_command = true};

enum { ARGS_MAX = 16 };

static struct run {
	char line[256], *argv[ARGS_MAX + 1];
	int argc;
	struct values values;
	struct configuration config;
	enum option_result result;
	char err[1024];
} the_run;

static char directory[] = "/tmp/test-configuration-XXXXXX", path[64];

static void write_file(const char *name, const char *text)
{
	AUTO_FILE FILE *file = fopen(name, "w");

	assert_non_null(file);
	fputs(text, file);
}

/* Runs with the configuration that the environment names. */
static const struct values *run_line(const char *line)
{
	struct run *run = &the_run;
	AUTO_FILE FILE *err = tmpfile();

	configuration_fini(&run->config);
	memset(run, 0, sizeof(*run));
	snprintf(run->line, sizeof(run->line), "record %s", line);
	for (char *word = strtok(run->line, " "); word && run->argc < ARGS_MAX; word = strtok(NULL, " "))
		run->argv[run->argc++] = word;
	assert_non_null(err);
	fflush(stderr);
	int saved = dup(STDERR_FILENO);
	dup2(fileno(err), STDERR_FILENO);
	run->result = configuration_parse(&command, run->argc, run->argv, &run->values, &run->config);
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(err);
	run->err[fread(run->err, 1, sizeof(run->err) - 1, err)] = '\0';
	return &run->values;
}

static const struct values *run_text(const char *text, const char *line)
{
	write_file(path, text);
	setenv("MILLRACE_CONFIG", path, 1);
	return run_line(line);
}

/* [record] with these entries and nothing to complain about. */
static const struct values *good(const char *entries, const char *line)
{
	AUTO_BUF struct buf text = {0};

	buf_printf(&text, "[record]\n%s\n", entries);
	const struct values *values = run_text(buf_text(&text), line);
	assert_string_equal(the_run.err, "");
	assert_int_equal(the_run.result, OPTION_OK);
	return values;
}

/* What stands on stderr behind the name of the file. */
static const char *said(void)
{
	const char *start = strstr(the_run.err, path);

	assert_non_null(start);
	assert_int_equal(strlen(start), strlen(the_run.err) - strlen("millrace: "));
	the_run.err[strcspn(the_run.err, "\n")] = '\0';
	return start + strlen(path) + 1;
}

static void bad(const char *text, const char *line, const char *expected)
{
	run_text(text, line);
	assert_int_equal(the_run.result, OPTION_BAD);
	assert_string_equal(said(), expected);
}

static void noted(const char *text, const char *expected)
{
	run_text(text, "");
	assert_int_equal(the_run.result, OPTION_OK);
	assert_string_equal(said(), expected);
}

static void test_sets(void **state)
{
	(void)state;
	const struct values *values =
		good("freq = 99\noutput = a b\nno-inherit\nEvent = x,y\nquiet = yes\nverbose = 2", "");
	assert_int_equal(values->freq, 99);
	assert_string_equal(values->output, "a b");
	assert_string_equal(values->events, "x,y,");
	assert_true(values->no_inherit && values->quiet);
	assert_int_equal(values->verbose, 2);
	assert_int_equal(good("verbose", "")->verbose, 1);
	assert_int_equal(the_run.config.given.first, 1);
}

static void test_command_line_wins(void **state)
{
	(void)state;
	assert_int_equal(good("freq = 99", "-F 5 -- x")->freq, 5);
	assert_int_equal(the_run.config.given.first, 4);
	assert_string_equal(good("event = x", "-e y -e z")->events, "y,z,");
	assert_int_equal(good("verbose = 3", "-v")->verbose, 1);
	assert_null(good("output = x", "--no-output")->output);
	assert_true(good("stat = true", "--no-stat")->no_stat);
	assert_false(the_run.values.stat);
	assert_int_equal(good("freq = 99", "-c 7")->freq, 0);
	assert_int_equal(the_run.values.count, 7);
	assert_string_equal(good("writer = mmap", "--aio")->writer, "aio");
	assert_int_equal(good("freq = 99", "x -F 5")->freq, 99); /* that is an option of x */
}

static void test_booleans(void **state)
{
	static const char *const on[] = {"", "=true", "=TRUE", "=yes", "=on", "=1", " = \"1\""};
	static const char *const off[] = {"=", "=false", "=no", "=OFF", "=0"};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
		snprintf(text, sizeof(text), "quiet%s\nstat%s\ninherit%s", on[i], on[i], on[i]);
		const struct values *values = good(text, "");
		assert_true(values->quiet && values->stat && !values->no_stat && !values->no_inherit);
	}
	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		snprintf(text, sizeof(text), "quiet%s\nstat%s\ninherit%s", off[i], off[i], off[i]);
		const struct values *values = good(text, "");
		assert_true(!values->quiet && !values->stat && values->no_stat && values->no_inherit);
	}
	assert_true(good("no-stat = true", "")->no_stat);
	assert_true(good("no-stat = false", "")->stat);
	assert_int_equal(good("verbose = off", "")->verbose, 0);
}

static void test_optional_argument(void **state)
{
	(void)state;
	assert_string_equal(good("aio", "")->writer, "aio");
	assert_string_equal(good("aio = true", "")->writer, "aio");
	assert_string_equal(good("aio = 4", "")->writer, "4");
	assert_string_equal(good("aio = 1", "")->writer, "1");
	assert_null(good("aio = false", "")->writer);
	assert_null(good("no-aio = true", "")->writer);
	assert_string_equal(good("sort = comm", "")->sort, "comm");
}

static void test_last_counts(void **state)
{
	(void)state;
	assert_int_equal(good("freq = 1\nfreq = 2", "")->freq, 2);
	assert_string_equal(good("event = bad\nevent = x", "")->events, "x,");
	assert_int_equal(good("freq = 1\ncount = 2", "")->freq, 0);
	assert_int_equal(the_run.values.count, 2);
	assert_false(good("quiet\nquiet = false", "")->quiet);
	assert_false(good("no-inherit\ninherit", "")->no_inherit);
	assert_string_equal(good("aio = 4\nwriter = mmap", "")->writer, "mmap");
	assert_string_equal(good("writer = mmap\naio = false", "")->writer, "mmap");
	assert_null(good("aio = 4\naio = false", "")->writer);
}

static void test_wrong(void **state)
{
	(void)state;
	bad("[record]\n\nfreq = x", "", "3: record.freq: \"x\" is not a whole number");
	bad("[record]\nevent = bad", "", "2: record.event: no such event");
	bad("[record]\nfreq", "", "2: record.freq: a value is missing: freq = HZ");
	bad("[record]\nquiet = maybe", "", "2: record.quiet: \"maybe\" is neither true nor false");
	bad("[record]\nno-aio = 4", "", "2: record.no-aio: \"4\" is neither true nor false");
	bad("[record]\nall-cpus = true", "",
	    "2: record.all-cpus: a configuration file cannot set it: give it on the command line");
	bad("[record]\nverbose = 1000000000000", "", "2: record.verbose: \"1000000000000\" is more than 9");
	bad("[record]\nquiet = \"yes", "", "2: a quote (\") is not closed in its line");
	bad("freq = 9", "-q", "1: a key before the first [section]");
	good("freq = x", "-F 9");
}

static void test_unknown(void **state)
{
	(void)state;
	noted("[record]\nfrq = x", "2: record.frq is unknown and ignored; did you mean freq?");
	noted("[record]\nzzzz", "2: record.zzzz is unknown and ignored");
	noted("[record]\nfre = 1", "2: record.fre is unknown and ignored; did you mean freq?");
	noted("[colors]\na = 1\nb = 2\n[script]\nheader = x", "2: [colors] is unknown and ignored");
	noted("[record \"x\"]\nquiet = maybe", "2: [record \"x\"] is unknown and ignored");
	run_text("[record]\nfrq = 1\n[colors]\nx", "-q");
	assert_string_equal(the_run.err, "");
	assert_int_equal(the_run.result, OPTION_OK);
}

static void test_command_line_first(void **state)
{
	(void)state;
	run_text("[record\n", "--zzz");
	assert_int_equal(the_run.result, OPTION_BAD);
	assert_non_null(strstr(the_run.err, "unknown option --zzz"));
}

static void test_places(void **state)
{
	char name[128];

	(void)state;
	unsetenv("MILLRACE_CONFIG");
	setenv("HOME", directory, 1);
	setenv("XDG_CONFIG_HOME", "relative", 1);
	assert_int_equal(run_line("")->freq, 0);
	assert_string_equal(the_run.err, "");
	for (const char *const *part = (const char *const[]){"/.config", "/.config/millrace", "/millrace", NULL}; *part;
	     part++) {
		snprintf(name, sizeof(name), "%s%s", directory, *part);
		assert_int_equal(mkdir(name, 0700), 0);
	}
	snprintf(name, sizeof(name), "%s/.config/millrace/config", directory);
	write_file(name, "[record]\nfreq = 1");
	assert_int_equal(run_line("")->freq, 1);
	setenv("XDG_CONFIG_HOME", directory, 1);
	assert_int_equal(run_line("")->freq, 0);
	snprintf(name, sizeof(name), "%s/millrace/config", directory);
	write_file(name, "[record]\nfreq = 2");
	assert_int_equal(run_line("")->freq, 2);
	setenv("MILLRACE_CONFIG", "/dev/null", 1);
	assert_int_equal(run_line("")->freq, 0);
	setenv("MILLRACE_CONFIG", "", 1);
	assert_int_equal(run_line("")->freq, 2);
	if (geteuid() == 0) {
		assert_int_equal(chown(name, 12345, (gid_t)-1), 0);
		assert_int_equal(run_line("")->freq, 0);
		assert_non_null(strstr(the_run.err, "belongs to neither root nor you"));
	}
	setenv("MILLRACE_CONFIG", "/nowhere/at/all", 1);
	run_line("");
	assert_int_equal(the_run.result, OPTION_BAD);
	assert_string_equal(the_run.err, "millrace: configuration file /nowhere/at/all: No such file or directory\n");
}

static int make_directory(void **state)
{
	(void)state;
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/file", directory);
	return 0;
}

static int remove_directory(void **state)
{
	static const char *const names[] = {
		"file", ".config/millrace/config", "millrace/config", ".config/millrace", ".config", "millrace", ""};
	char name[128];

	(void)state;
	configuration_fini(&the_run.config);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(name, sizeof(name), "%s/%s", directory, names[i]);
		remove(name);
	}
	return access(directory, F_OK) == 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sets),        cmocka_unit_test(test_command_line_wins),
		cmocka_unit_test(test_booleans),    cmocka_unit_test(test_optional_argument),
		cmocka_unit_test(test_last_counts), cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_unknown),     cmocka_unit_test(test_command_line_first),
		cmocka_unit_test(test_places),
	};
	return cmocka_run_group_tests_name("configuration", tests, make_directory, remove_directory);
}
