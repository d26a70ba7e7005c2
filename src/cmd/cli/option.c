/* SPDX-License-Identifier: MIT */
#include "cmd/cli/option.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "base/text.h"

/* One parse: what the helpers below need to know. */
struct parse {
	const struct command *command;
	int argc;
	char **argv;
	int at;  /* index of the next argument */
	int end; /* index of the first argument that was moved behind the options */
	void *values;
	struct option_given *given;
};

/* The name of an option, as it was typed or as the table spells it. */
struct spelling {
	char text[80];
};

int option_set_flag(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)arg, (void)reterr;
	*(bool *)value = !negated;
	return 0;
}

int option_set_count(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	int *count = value;

	(void)option, (void)arg, (void)reterr;
	*count = negated ? 0 : *count + 1;
	return 0;
}

int option_set_string(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)reterr;
	*(const char **)value = negated ? NULL : arg;
	return 0;
}

int option_set_separator(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	char separator = strcmp(arg, "\\t") == 0 ? '\t' : arg[0];
	if (!separator || (arg[1] && separator != '\t') || separator == '.')
		return diag_set(reterr, -EINVAL,
				"the separator must be one character, or a backslash and t for a tab, but not a dot, "
				"which replaces "
				"it in texts");
	*(char *)value = separator;
	return 0;
}

int option_set_path(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	if (!negated && !*arg)
		return diag_set(reterr, -EINVAL, "the name is empty: a path is needed");
	return option_set_string(option, arg, negated, value, reterr);
}

static int parse_u64(const char *text, const char **ret_end, uint64_t *ret)
{
	char *end;

	if (*text < '0' || *text > '9') /* strtoull() would take " 1", "+1" and "-1" */
		return -EINVAL;
	errno = 0;
	/* Not octal: perf takes "0100" as a hundred. */
	unsigned long long number = strtoull(text, &end, strncasecmp(text, "0x", 2) ? 10 : 16);
	if (errno || end == text)
		return -EINVAL;
	*ret = number;
	*ret_end = end;
	return 0;
}

int option_refuse(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)arg, (void)value;
	return negated ? 0 : diag_set(reterr, -EINVAL, "%s", option->help);
}

int option_accept(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)arg, (void)negated, (void)value, (void)reterr;
	return 0;
}

int option_set_u64(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	const char *end;
	uint64_t number = 0;

	(void)option;
	if (!negated && (!arg || parse_u64(arg, &end, &number) || *end))
		return diag_set(reterr, -EINVAL, "\"%s\" is not a whole number", arg ? arg : "");
	*(uint64_t *)value = number;
	return 0;
}

int option_set_limit(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct option_limit limit = {.given = !negated};
	int err = option_set_u64(option, arg, negated, &limit.number, reterr);

	if (!err)
		*(struct option_limit *)value = limit;
	return err;
}

int option_parse_size(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "BKMG";
	const char *end, *unit = units;
	uint64_t number;

	if (parse_u64(text, &end, &number))
		return -EINVAL;
	if (*end) {
		unit = strchr(units, *end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end);
		if (!unit || end[1])
			return -EINVAL;
	}
	unsigned shift = 10 * (unsigned)(unit - units);
	if (number > UINT64_MAX >> shift)
		return -EINVAL;
	*ret_bytes = number << shift;
	return 0;
}

bool option_negatable(const struct option *option)
{
	return option->name && !(option->flags & OPTION_NO_NEGATE);
}

/*
 * The name behind the dashes that sets the option, or unsets it: "no-stat" for "stat", "inherit" for "no-inherit". "":
 * none.
 */
static struct spelling long_name(const struct option *option, bool negated)
{
	struct spelling name = {""};

	if (!negated && option->name)
		snprintf(name.text, sizeof(name.text), "%s", option->name);
	else if (negated && option_negatable(option) && strncmp(option->name, "no-", 3) == 0)
		snprintf(name.text, sizeof(name.text), "%s", option->name + 3);
	else if (negated && option_negatable(option))
		snprintf(name.text, sizeof(name.text), "no-%s", option->name);
	return name;
}

struct match {
	const struct option *option, *other; /* other: a second one that fits as well */
	bool negated;
};

/* The option whose name (negated: whose opposite) begins with `name`. An exact name wins. */
static struct match match_names(const struct option *options, const char *name, size_t len, bool negated)
{
	struct match match = {.negated = negated};

	for (const struct option *option = options; option->set; option++) {
		struct spelling known = long_name(option, negated);

		if (!known.text[0] || strncmp(known.text, name, len))
			continue;
		if (strlen(known.text) == len)
			return (struct match){.option = option, .negated = negated};
		if (option->flags & OPTION_HIDDEN)
			continue;
		if (!match.option)
			match.option = option;
		else
			match.other = option;
	}
	return match;
}

/* Names of the table go before their opposites: "--no-s" is --no-samples, not the opposite of --stat. */
static struct match match_long(const struct option *options, const char *name, size_t len)
{
	struct match plain = match_names(options, name, len, false);

	if (plain.option && strlen(plain.option->name) == len)
		return plain;
	struct match opposite = match_names(options, name, len, true);
	if (opposite.option && strlen(long_name(opposite.option, true).text) == len)
		return opposite;
	return plain.option ? plain : opposite;
}

const struct option *option_find(const struct option *options, const char *name, bool negated)
{
	for (const struct option *option = options; option->set && *name; option++)
		if (strcasecmp(long_name(option, negated).text, name) == 0)
			return option;
	return NULL;
}

const char *option_nearest(const struct option *options, const char *word)
{
	const char *nearest = NULL;
	unsigned best = UINT_MAX;

	for (const struct option *option = options; option->set; option++) {
		if (!option->name || option->flags & OPTION_HIDDEN || !edit_distance_is_close(word, option->name))
			continue;
		unsigned distance = edit_distance(word, option->name);
		if (distance < best) {
			best = distance;
			nearest = option->name;
		}
	}
	return nearest;
}

static enum option_result bad_unknown(const struct command *command, const char *name, size_t len)
{
	AUTO_FREE char *word = strndup(name, len);
	const char *nearest = word ? option_nearest(command->options, word) : NULL;

	if (nearest)
		log_error("unknown option --%.*s; did you mean --%s?", (int)len, name, nearest);
	else
		log_error("unknown option --%.*s; 'millrace %s --help' lists what there is", (int)len, name,
			  command->name);
	return OPTION_BAD;
}

static enum option_result apply(struct parse *parse, const struct option *option, const char *typed, const char *arg,
				bool negated)
{
	struct diag diag = {""};
	int r = option->set(option, arg, negated, (char *)parse->values + option->offset, &diag);

	if (!r) {
		parse->given->option[option - parse->command->options] = true;
		return OPTION_OK;
	}
	log_error("option %s: %s", typed, diag.text[0] ? diag.text : strerror(-r));
	return OPTION_BAD;
}

/* `attached`: the argument in the same word; NULL: none, then it may be the next word. */
static enum option_result apply_with_arg(struct parse *parse, const struct option *option, const char *typed,
					 const char *attached)
{
	if (!attached && option->flags & OPTION_ARG_NEXT && parse->at < parse->end && *parse->argv[parse->at] != '-')
		attached = parse->argv[parse->at++];
	if (!attached && !(option->flags & OPTION_ARG_OPTIONAL)) {
		if (parse->at >= parse->end) {
			log_error("option %s needs a value: %s %s", typed, typed, option->arg);
			return OPTION_BAD;
		}
		attached = parse->argv[parse->at++];
	}
	return apply(parse, option, typed, attached, false);
}

static enum option_result parse_long(struct parse *parse, const char *name)
{
	size_t len = strcspn(name, "=");
	const char *attached = name[len] ? name + len + 1 : NULL;
	struct match match = match_long(parse->command->options, name, len);
	struct spelling typed;

	if (strcmp(name, "help") == 0) {
		option_print_help(parse->command, stdout);
		return OPTION_EXIT;
	}
	if (!match.option)
		return bad_unknown(parse->command, name, len);
	if (match.other) {
		log_error("option --%.*s is ambiguous: --%s or --%s?", (int)len, name,
			  long_name(match.option, match.negated).text, long_name(match.other, match.negated).text);
		return OPTION_BAD;
	}
	snprintf(typed.text, sizeof(typed.text), "--%.*s", (int)len, name);
	if (attached && (match.negated || !match.option->arg)) {
		log_error("option %s takes no value", typed.text);
		return OPTION_BAD;
	}
	if (match.negated || !match.option->arg)
		return apply(parse, match.option, typed.text, NULL, match.negated);
	return apply_with_arg(parse, match.option, typed.text, attached);
}

static const struct option *find_letter(const struct option *option, char letter)
{
	while (option->set && option->letter != letter)
		option++;
	return option->set ? option : NULL;
}

/* "-ag", "-F99", "-vvo" "FILE": letters up to the first that takes an argument. */
static enum option_result parse_letters(struct parse *parse, const char *letters)
{
	for (; *letters; letters++) {
		const struct option *option = find_letter(parse->command->options, *letters);
		const char typed[] = {'-', *letters, '\0'};
		enum option_result result;

		if (!option && *letters == 'h') {
			option_print_help(parse->command, stdout);
			return OPTION_EXIT;
		}
		if (!option) {
			log_error("unknown option %s; 'millrace %s --help' lists what there is", typed,
				  parse->command->name);
			return OPTION_BAD;
		}
		if (option->arg)
			return apply_with_arg(parse, option, typed, letters[1] ? letters + 1 : NULL);
		result = apply(parse, option, typed, NULL, false);
		if (result != OPTION_OK)
			return result;
	}
	return OPTION_OK;
}

static void move_to_end(struct parse *parse)
{
	char *word = parse->argv[parse->at];

	memmove(&parse->argv[parse->at], &parse->argv[parse->at + 1],
		sizeof(word) * (size_t)(parse->argc - parse->at - 1));
	parse->argv[parse->argc - 1] = word;
	parse->end--;
}

static enum option_result parse_words(struct parse *parse)
{
	bool options_ended = false;
	enum option_result result = OPTION_OK;

	while (result == OPTION_OK && parse->at < parse->end) {
		const char *word = parse->argv[parse->at];
		bool is_option = !options_ended && word[0] == '-' && word[1]; /* "-" alone names stdin or stdout */

		if (!is_option && parse->command->runs_command)
			break;
		if (!is_option) {
			move_to_end(parse);
			continue;
		}
		parse->at++;
		if (strcmp(word, "--") == 0)
			options_ended = true;
		else
			result = word[1] == '-' ? parse_long(parse, word + 2) : parse_letters(parse, word + 1);
	}
	return result;
}

enum option_result option_parse_given(const struct command *command, int argc, char **argv, void *values,
				      struct option_given *ret)
{
	struct parse parse = {
		.command = command, .argc = argc, .argv = argv, .at = 1, .end = argc, .values = values, .given = ret};

	for (size_t nr = 0; command->options[nr].set; nr++)
		assert(nr < OPTIONS_MAX);
	*ret = (struct option_given){0};
	enum option_result result = parse_words(&parse);
	ret->first = parse.at;
	return result;
}

enum option_result option_parse(const struct command *command, int argc, char **argv, void *values, int *ret_first)
{
	struct option_given given;
	enum option_result result = option_parse_given(command, argc, argv, values, &given);

	if (result == OPTION_OK)
		*ret_first = given.first;
	return result;
}

/* The texts made from a table: --help, and the words that completion and tests read. */

enum {
	WIDTH_MIN = 50,
	WIDTH_DEFAULT = 80,
	WIDTH_MAX = 100,
	HELP_COLUMN = 30, /* where the text of an option starts */
};

static int clamp(int value, int low, int high)
{
	return value < low ? low : value > high ? high : value;
}

static int output_width(FILE *to)
{
	struct winsize size;
	const char *columns = getenv("COLUMNS");

	if (columns && atoi(columns) > 0)
		return clamp(atoi(columns), WIDTH_MIN, WIDTH_MAX);
	if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col)
		return clamp(size.ws_col, WIDTH_MIN, WIDTH_MAX);
	return WIDTH_DEFAULT;
}

/* Columns of UTF-8 text whose characters are one column wide. */
static int text_columns(const char *text, size_t len)
{
	int columns = 0;

	for (size_t i = 0; i < len; i++)
		columns += (text[i] & 0xc0) != 0x80;
	return columns;
}

/* Prints one line of text, broken at spaces. column: of the cursor; indent: of new lines. */
static void print_wrapped(FILE *to, const char *text, size_t len, int column, int indent, int width)
{
	bool first = true;

	while (len) {
		const char *space = memchr(text, ' ', len);
		size_t word = space ? (size_t)(space - text) : len;

		int columns = text_columns(text, word);

		if (word && !first && column + 1 + columns > width) {
			fprintf(to, "\n%*s", indent, "");
			column = indent;
			first = true;
		}
		if (word) {
			fprintf(to, "%s%.*s", first ? "" : " ", (int)word, text);
			column += columns + !first;
			first = false;
		}
		word += space != NULL;
		text += word;
		len -= word;
	}
	fputc('\n', to);
}

/* Lines that start with a space are examples: printed as they are. */
static void print_paragraphs(FILE *to, const char *text, int width)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		if (*text == ' ')
			fprintf(to, "%.*s\n", (int)len, text);
		else
			print_wrapped(to, text, len, 0, 0, width);
		text += len + (text[len] == '\n');
	}
}

static void print_usage(const struct command *command, FILE *to, int width)
{
	const char *usage = command->usage;
	const char *lead = "Usage:";

	do {
		size_t len = strcspn(usage, "\n");
		int column = command->program ? fprintf(to, "%-6s %s ", lead, command->program)
					      : fprintf(to, "%-6s millrace %s ", lead, command->name);

		print_wrapped(to, usage, len, column, column, width);
		usage += len + (usage[len] == '\n');
		lead = "";
	} while (*usage);
}

/* "  -F, --freq HZ", "      --sort[=KEYS]": the columns used. */
static int print_spelling(const struct option *option, FILE *to)
{
	const char *arg = option->arg ? option->arg : "";
	char text[128];

	if (option->letter)
		fprintf(to, "  -%c", option->letter);
	else
		fputs("    ", to);
	if (option->flags & OPTION_ARG_OPTIONAL)
		snprintf(text, sizeof(text), "%s[%s%s]", option->name ? option->name : "", option->name ? "=" : "",
			 arg);
	else
		snprintf(text, sizeof(text), "%s%s%s", option->name ? option->name : "", *arg ? " " : "", arg);
	if (option->name)
		fputs(option->letter ? ", --" : "  --", to);
	fputs(text, to);
	return 4 + (option->name ? 4 : 0) + text_columns(text, strlen(text));
}

static void print_option(const struct option *option, FILE *to, int width)
{
	int column = print_spelling(option, to);
	const char *help = option->help;

	if (column + 2 > HELP_COLUMN) {
		fputc('\n', to);
		column = 0;
	}
	do {
		size_t len = strcspn(help, "\n");

		fprintf(to, "%*s", HELP_COLUMN - column, "");
		print_wrapped(to, help, len, HELP_COLUMN, HELP_COLUMN, width);
		help += len + (help[len] == '\n');
		column = 0;
	} while (*help);
}

void option_print_help(const struct command *command, FILE *to)
{
	static const struct option help = {.letter = 'h', .name = "help", .help = "Print this text and exit"};
	int width = output_width(to);
	const char *group = NULL;

	print_usage(command, to, width);
	fputc('\n', to);
	print_paragraphs(to, command->description, width);
	for (const struct option *option = command->options; option->set; option++) {
		if (option->flags & OPTION_HIDDEN)
			continue;
		if (option->group || !group) {
			group = option->group ? option->group : "Options";
			fprintf(to, "\n%s:\n", group);
		}
		print_option(option, to, width);
	}
	fputc('\n', to);
	print_option(&help, to, width);
	fputc('\n', to);
	print_paragraphs(to, "A file can set defaults for options: millrace-config(5).", width);
}

void option_print_words(const struct command *command, FILE *to)
{
	for (const struct option *option = command->options; option->set; option++) {
		bool optional = option->flags & OPTION_ARG_OPTIONAL;
		const char *arg = option->arg ? option->arg : "";

		if (option->flags & OPTION_HIDDEN)
			continue;
		if (option->letter)
			fprintf(to, "-%c\t%s%s%s\n", option->letter, optional ? "[" : "", arg, optional ? "]" : "");
		if (option->name)
			fprintf(to, "--%s\t%s%s%s\n", option->name, optional ? "[" : "", arg, optional ? "]" : "");
	}
	fprintf(to, "-h\t\n--help\t\n");
}

void option_print_values(const struct command *command, const char *spelling, FILE *to)
{
	const struct option *option;

	if (strncmp(spelling, "--", 2) == 0)
		option = option_find(command->options, spelling + 2, false);
	else
		option = strlen(spelling) == 2 ? find_letter(command->options, spelling[1]) : NULL;
	if (option && option->print_values)
		option->print_values(to);
	for (const char *word = option && option->values ? option->values : ""; *word;) {
		size_t len = strcspn(word, " ");
		fprintf(to, "%.*s\n", (int)len, word);
		word += len + (word[len] == ' ');
	}
}

void option_print_accepted(const struct command *command, FILE *to)
{
	for (const struct option *option = command->options; option->set; option++)
		if (option->set == option_accept)
			fprintf(to, "--%s\t%s\n", option->name, option->help);
}
