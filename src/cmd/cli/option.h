/* SPDX-License-Identifier: MIT */
/*
 * option: the command line of a command as a table, from which parsing, --help, completion and the test of the man
 * pages work. Tables are static and constant; values are stored in a struct of the command, by offset. Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct diag;

enum option_flags {
	OPTION_ARG_OPTIONAL = 1, /* the argument is only taken from "--name=ARG" or "-xARG" */
	OPTION_NO_NEGATE = 2,    /* there is no --no-NAME */
	OPTION_HIDDEN = 4,       /* accepted, but not shown */
	OPTION_NO_DEFAULT = 8,   /* a configuration file must not set it */
	OPTION_ARG_NEXT = 16,    /* with OPTION_ARG_OPTIONAL: it may be the next word, where that begins with no '-' */
};

struct option {
	char letter;      /* 0: none */
	const char *name; /* without dashes; NULL: only the letter */
	const char *arg;  /* what --help calls the argument ("N", "FILE"); NULL: takes none */
	const char *help; /* lines without a full stop at the end */
	/*
	 * Stores the value at `value`, in the command's struct. arg NULL: given without one, or, with `negated`, as
	 * --no-NAME (unset it). 0, or -EINVAL and what would be right (the caller names the option).
	 */
	int (*set)(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr);
	size_t offset; /* of the value in the command's struct */
	unsigned flags;
	const char *group;  /* heading in --help that starts at this option; NULL: as the one before */
	const char *family; /* given one of it, the configuration file sets none of the others; NULL: none */
	const char *values; /* words that the argument, or its parts between commas, can be; NULL: any */
	void (*print_values)(FILE *to); /* likewise, one in each line, where they stand in a table of their own */
};

enum { OPTIONS_MAX = 128 }; /* in one table, which ends with an entry whose `set` is NULL */

/* A number of which 0 is not "no limit". */
struct option_limit {
	bool given;
	uint64_t number;
};

/*
 * Setters for tables. count: -v -v is 2; path: a string that is not empty; separator: one character, not a dot; limit:
 * --no-NAME takes it back.
 */
int option_set_flag(const struct option *, const char *arg, bool negated, void *bool_value, struct diag *);
int option_set_count(const struct option *, const char *arg, bool negated, void *int_value, struct diag *);
int option_set_string(const struct option *, const char *arg, bool negated, void *const_char_ptr, struct diag *);
int option_set_path(const struct option *, const char *arg, bool negated, void *const_char_ptr, struct diag *);
int option_set_u64(const struct option *, const char *arg, bool negated, void *uint64_value, struct diag *);
int option_set_limit(const struct option *, const char *arg, bool negated, void *option_limit, struct diag *);
int option_set_separator(const struct option *, const char *arg, bool negated, void *char_value, struct diag *);

/*
 * Setters of options of perf that millrace does not have. option_refuse: -EINVAL and the help text, which says what to
 * use instead; the opposite is accepted, because it is what happens anyway. option_accept: does nothing; the help text
 * says why that is enough.
 */
int option_refuse(const struct option *, const char *arg, bool negated, void *value, struct diag *);
int option_accept(const struct option *, const char *arg, bool negated, void *value, struct diag *);

#define OPTION_REFUSED(letter_of, name_of, arg_of, why)                                                                \
	{                                                                                                              \
		.letter = letter_of, .name = name_of, .arg = arg_of, .set = option_refuse, .help = why,                \
		.flags = OPTION_HIDDEN | OPTION_NO_DEFAULT                                                             \
	}
#define OPTION_REFUSED_OPTIONAL(letter_of, name_of, why)                                                               \
	{                                                                                                              \
		.letter = letter_of, .name = name_of, .arg = "ARG", .set = option_refuse, .help = why,                 \
		.flags = OPTION_HIDDEN | OPTION_NO_DEFAULT | OPTION_ARG_OPTIONAL                                       \
	}
#define OPTION_ACCEPTED(letter_of, name_of, arg_of, why)                                                               \
	{                                                                                                              \
		.letter = letter_of, .name = name_of, .arg = arg_of, .set = option_accept, .help = why,                \
		.flags = OPTION_HIDDEN | OPTION_NO_DEFAULT                                                             \
	}

struct command {
	const char *name;    /* "record" */
	const char *program; /* how it is called; NULL: "millrace", and the name behind it */
	const char *summary; /* one line for the list of commands */
	const char *usage;   /* what follows the name: "[OPTIONS] [--] COMMAND [ARGS]"; lines split by \n */
	/*
	 * For --help: lines are wrapped; an empty one separates paragraphs; one that starts with a space is an example.
	 */
	const char *description;
	const struct option *options;
	bool runs_command; /* the first argument that is no option is a command, and all behind it are its arguments */
	int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
};

enum option_result {
	OPTION_OK,
	OPTION_EXIT, /* --help was printed: exit 0 */
	OPTION_BAD,  /* the reason was printed: exit 129 */
};

/*
 * Reads options, as perf does: long names may be abbreviated when unambiguous, letters joined. -h and --help are
 * handled here. The opposite of NAME is --no-NAME; the opposite of an option that is called no-NAME is --NAME.
 * Arguments that are no options, and all behind "--", are moved behind the options, in their order; *ret_first: index
 * of the first. Where the command runs a command, reading ends at the first of them, and nothing is moved.
 */
enum option_result option_parse(const struct command *command, int argc, char **argv, void *values, int *ret_first);

/* What was on a command line. */
struct option_given {
	int first;                /* index of the first argument left */
	bool option[OPTIONS_MAX]; /* by index in the table: it was there, or its opposite */
};

/* option_parse() that also says which options it saw. *ret is complete after OPTION_OK only. */
enum option_result option_parse_given(const struct command *command, int argc, char **argv, void *values,
				      struct option_given *ret);

/*
 * The option of that long name, or, with `negated`, the one whose opposite has it; capital letters count as small ones,
 * as in files. NULL: none.
 */
const struct option *option_find(const struct option *options, const char *name, bool negated);

/* Whether --NAME can be undone: by --no-NAME, or for an option that is called no-NAME by --NAME. */
bool option_negatable(const struct option *option);

/* The long name nearest to a misspelled word, or NULL. */
const char *option_nearest(const struct option *options, const char *word);

void option_print_help(const struct command *command, FILE *to);

/* One line for each spelling that is not hidden: "--freq<TAB>HZ"; "[N]" for an optional argument, "" for none. */
void option_print_words(const struct command *command, FILE *to);

/*
 * One line for each word that the argument of an option can be, or one of its parts between commas; nothing where it is
 * a number or a name. spelling: "-s" or "--sort".
 */
void option_print_values(const struct command *command, const char *spelling, FILE *to);

/* One line for each option that changes nothing: "--modules<TAB>why". */
void option_print_accepted(const struct command *command, FILE *to);

/* "10", "4K", "2M", "1G" (also "10B" and small letters) to bytes. -EINVAL. */
int option_parse_size(const char *text, uint64_t *ret_bytes);
