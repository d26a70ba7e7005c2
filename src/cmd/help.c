/* SPDX-License-Identifier: MIT */
/* The texts made from an option table: --help and the word list that completion and tests read. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd/option.h"

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

/* Of UTF-8 text, each character one column wide. */
static int text_columns(const char *text, size_t len)
{
	int columns = 0;

	for (size_t i = 0; i < len; i++)
		columns += (text[i] & 0xc0) != 0x80;
	return columns;
}

/* Prints one line of text, broken at spaces; `column` is where the output stands, `indent` where new lines
 * start. */
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
		int column = fprintf(to, "%-6s millrace %s ", lead, command->name);

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
		snprintf(text, sizeof(text), "%s[%s%s]", option->name ? option->name : "",
			 option->name ? "=" : "", arg);
	else
		snprintf(text, sizeof(text), "%s%s%s", option->name ? option->name : "", *arg ? " " : "",
			 arg);
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
			fprintf(to, "-%c\t%s%s%s\n", option->letter, optional ? "[" : "", arg,
				optional ? "]" : "");
		if (option->name)
			fprintf(to, "--%s\t%s%s%s\n", option->name, optional ? "[" : "", arg,
				optional ? "]" : "");
	}
	fprintf(to, "-h\t\n--help\t\n");
}
