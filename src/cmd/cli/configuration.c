/* SPDX-License-Identifier: MIT */
/* Defaults for a command's options from a file: command.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/cli/ini.h"

enum {
	FILE_MAX_BYTES = 1 << 20,
	COUNT_MAX = 9, /* of an option that counts, such as -v */
};

/* What the file says of one option. */
struct configuration_choice {
	char *arg; /* NULL: none */
	unsigned line, times;
	bool set, negated;
};

/* One file being read for one command. */
struct reading {
	const struct command *command;
	struct configuration *config;
	const char *path;
	bool quiet;               /* no notes */
	char unknown_section[64]; /* the one that was noted last */
};

/* Keys of perf's configuration with other names here. */
static const struct {
	const char *section, *key, *value, *name;
	bool on;
} perf_keys[] = {
	/* perf-config(1): read no build-ids; copy no objects to ~/.debug (never done here) */
	{"record", "build-id", "skip", "no-buildid", true},
	{"record", "build-id", "no-cache", "no-buildid", false},
};

/* Keys of perf's configuration for what is an option of a command here. perf-config(1): call-graph.record-mode. */
static const struct {
	const char *section, *key, *command, *option;
} perf_options[] = {
	{"call-graph", "record-mode", "record", "call-graph"},
};

/* Whether one of these is in that section, so that others of it are of this command, too. */
static bool is_perf_section(const char *section, const char *command)
{
	for (size_t i = 0; i < sizeof(perf_options) / sizeof(perf_options[0]); i++)
		if (!strcmp(perf_options[i].section, section) && !strcmp(perf_options[i].command, command))
			return true;
	return false;
}

void configuration_fini(struct configuration *config)
{
	for (size_t i = 0; config->choices && i < OPTIONS_MAX; i++)
		free(config->choices[i].arg);
	free(config->choices);
	free(config->path);
	*config = (struct configuration){0};
}

/* 1, 0, or -EINVAL. NULL is a key alone. */
static int parse_bool(const char *text)
{
	static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};

	for (size_t i = 0; text && i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasecmp(text, words[i]) == 0)
			return (int)(i % 2);
	return !text ? 1 : !*text ? 0 : -EINVAL;
}

static bool is_number(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

static bool same_family(const struct option *a, const struct option *b)
{
	return a == b || (a->family && b->family && strcmp(a->family, b->family) == 0);
}

static void choice_clear(struct configuration_choice *choice)
{
	free(choice->arg);
	*choice = (struct configuration_choice){0};
}

/* The last one of a family counts. */
static struct configuration_choice *choose(struct reading *reading, const struct option *option, unsigned line)
{
	const struct option *options = reading->command->options;
	struct configuration_choice *choices = reading->config->choices;

	for (size_t i = 0; options[i].set; i++)
		if (same_family(&options[i], option))
			choice_clear(&choices[i]);
	struct configuration_choice *choice = &choices[option - options];
	*choice = (struct configuration_choice){.set = true, .line = line, .times = 1};
	return choice;
}

static void choose_flag(struct reading *reading, const struct option *option, unsigned line, bool on)
{
	if (on)
		choose(reading, option, line);
	else if (option_negatable(option) && !option->family)
		choose(reading, option, line)->negated = true;
	else /* not given, whatever an earlier line says */
		choice_clear(&reading->config->choices[option - reading->command->options]);
}

static int choose_arg(struct reading *reading, const struct option *option, const struct ini_entry *entry,
		      struct diag *reterr)
{
	char *arg = strdup(entry->value);

	if (!arg)
		return diag_set(reterr, -ENOMEM, "out of memory");
	choose(reading, option, entry->line)->arg = arg;
	return 0;
}

/* `opposite`: the key is the name of the option's opposite. */
static int take_option(struct reading *reading, const struct option *option, bool opposite,
		       const struct ini_entry *entry, struct diag *reterr)
{
	bool takes_arg = option->arg && !opposite, optional = option->flags & OPTION_ARG_OPTIONAL;
	int on = parse_bool(entry->value);

	if (option->flags & OPTION_NO_DEFAULT)
		return diag_set(reterr, -EINVAL, "a configuration file cannot set it: give it on the command line");
	if (takes_arg && !optional && !entry->value)
		return diag_set(reterr, -EINVAL, "a value is missing: %s = %s", entry->key, option->arg);
	if (takes_arg && (!optional || on < 0 || (entry->value && is_number(entry->value))))
		return choose_arg(reading, option, entry, reterr);
	if (option->set == option_set_count && !opposite && entry->value && is_number(entry->value)) {
		unsigned long times = strtoul(entry->value, NULL, 10);
		if (times > COUNT_MAX)
			return diag_set(reterr, -EINVAL, "\"%s\" is more than %d", entry->value, COUNT_MAX);
		choose_flag(reading, option, entry->line, times > 0);
		reading->config->choices[option - reading->command->options].times = (unsigned)times;
		return 0;
	}
	if (on < 0)
		return diag_set(reterr, -EINVAL, "\"%s\" is neither true nor false", entry->value);
	choose_flag(reading, option, entry->line, opposite ? !on : on);
	return 0;
}

/* Whether the entry is one of perf's keys. */
static bool take_perf_key(struct reading *reading, const struct ini_entry *entry)
{
	for (size_t i = 0; i < sizeof(perf_keys) / sizeof(perf_keys[0]); i++) {
		const struct option *option = option_find(reading->command->options, perf_keys[i].name, false);

		if (option && entry->value && !strcmp(entry->section, perf_keys[i].section) &&
		    !strcmp(entry->key, perf_keys[i].key) && !strcmp(entry->value, perf_keys[i].value)) {
			choose_flag(reading, option, entry->line, perf_keys[i].on);
			return true;
		}
	}
	return false;
}

/* A file may be made for a newer version, or for perf: what is not known here is no error. */
static void note_unknown(const struct reading *reading, const struct ini_entry *entry)
{
	const bool is_dump_size = !strcmp(entry->section, "call-graph") && !strcmp(entry->key, "dump-size");
	const char *nearest =
		is_dump_size ? "record-mode = dwarf,SIZE" : option_nearest(reading->command->options, entry->key);

	if (reading->quiet)
		return;
	if (nearest && strcmp(nearest, entry->key))
		log_note("%s:%u: %s.%s is unknown and ignored; did you mean %s?", reading->path, entry->line,
			 entry->section, entry->key, nearest);
	else
		log_note("%s:%u: %s.%s is unknown and ignored", reading->path, entry->line, entry->section, entry->key);
}

/* A section that is no command's is noted, once for all its keys. */
static void note_section(struct reading *reading, const struct ini_entry *entry)
{
	char name[sizeof(reading->unknown_section)];

	if (reading->quiet || command_find(entry->section))
		return;
	snprintf(name, sizeof(name), "%s", entry->section);
	if (strcmp(name, reading->unknown_section))
		log_note("%s:%u: [%s] is unknown and ignored", reading->path, entry->line, name);
	memcpy(reading->unknown_section, name, sizeof(name));
}

/* "inherit" for "no-inherit", also where the command line has no such word: a file must be able to say false. */
static const struct option *find_opposite(const struct option *options, const char *key)
{
	const struct option *option = option_find(options, key, true);
	AUTO_BUF struct buf name = {0};

	buf_printf(&name, "no-%s", key);
	return option ? option : option_find(options, buf_text(&name), false);
}

/* What stands for another section and key here. */
static struct ini_entry translated(const struct ini_entry *entry)
{
	struct ini_entry other = *entry;

	for (size_t i = 0; i < sizeof(perf_options) / sizeof(perf_options[0]); i++) {
		if (strcmp(entry->section, perf_options[i].section) || strcmp(entry->key, perf_options[i].key))
			continue;
		other.section = perf_options[i].command;
		other.key = perf_options[i].option;
	}
	return other;
}

static int take_entry(struct reading *reading, const struct ini_entry *given, struct diag *reterr)
{
	const struct ini_entry here = translated(given), *entry = &here;
	const struct option *options = reading->command->options;
	const struct option *option = option_find(options, entry->key, false);
	bool opposite = !option;

	if (strcmp(entry->section, reading->command->name)) {
		if (is_perf_section(entry->section, reading->command->name))
			note_unknown(reading, entry);
		else
			note_section(reading, entry);
		return 0;
	}
	if (opposite)
		option = find_opposite(options, entry->key);
	if (option) {
		int err = take_option(reading, option, opposite, entry, reterr);
		if (err)
			diag_prefix(reterr, "%s.%s", given->section, given->key);
		return err;
	}
	if (!take_perf_key(reading, entry))
		note_unknown(reading, entry);
	return 0;
}

static enum option_result read_text(struct reading *reading, struct span text)
{
	__attribute__((cleanup(ini_fini))) struct ini ini;
	struct ini_entry entry;
	struct diag diag = {""};
	int got, err = 0;

	ini_start(&ini, text);
	while (!err && (got = ini_next(&ini, &entry, &diag)) > 0)
		err = take_entry(reading, &entry, &diag);
	if (!err && !got)
		return OPTION_OK;
	log_error("%s:%u: %s", reading->path, err ? entry.line : ini.line, diag.text);
	return OPTION_BAD;
}

static void put_usual_path(struct buf *path)
{
	const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (base && *base == '/') /* relative ones are to be ignored: XDG Base Directory Specification */
		buf_printf(path, "%s/millrace/config", base);
	else if (home && *home)
		buf_printf(path, "%s/.config/millrace/config", home);
}

/*
 * The file at its usual place. It may be missing, out of reach (su and sudo keep HOME), or of another user, whose file
 * is not read; who owns the directory may put another file there at any time, so that the owner is asked of the one
 * that is open. -ENOENT: there is none to read.
 */
static int open_usual(const char *path)
{
	/* O_NONBLOCK: a FIFO of another user is not waited for. */
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int err = fd < 0 ? -errno : 0;
	struct stat st;

	if (fd < 0 ? stat(path, &st) : fstat(fd, &st))
		return -ENOENT;
	if (st.st_uid && st.st_uid != geteuid()) {
		log_note("%s is ignored: it belongs to neither root nor you", path);
		return -ENOENT;
	}
	if (!err && fcntl(fd, F_SETFL, O_RDONLY))
		err = -errno;
	return err ? err : take_fd(&fd);
}

/* Whether the command line has this option or one of its family. */
static bool is_given(const struct option *options, const struct option *option, const struct option_given *given)
{
	for (size_t i = 0; options[i].set; i++)
		if (given->option[i] && same_family(&options[i], option))
			return true;
	return false;
}

/* Sets what the command line left out. */
static enum option_result apply(const struct reading *reading, void *values)
{
	const struct option *options = reading->command->options;
	struct configuration *config = reading->config;

	for (size_t i = 0; options[i].set; i++) {
		const struct configuration_choice *choice = &config->choices[i];
		struct diag diag = {""};
		int err = 0;

		if (!choice->set || is_given(options, &options[i], &config->given))
			continue;
		for (unsigned times = 0; times < choice->times && !err; times++)
			err = options[i].set(&options[i], choice->arg, choice->negated,
					     (char *)values + options[i].offset, &diag);
		if (err) {
			log_error("%s:%u: %s.%s: %s", reading->path, choice->line, reading->command->name,
				  options[i].name, diag.text[0] ? diag.text : strerror(-err));
			return OPTION_BAD;
		}
	}
	return OPTION_OK;
}

static enum option_result read_file(struct reading *reading, void *values)
{
	const char *named = getenv("MILLRACE_CONFIG");
	AUTO_BUF struct buf path = {0}, text = {0};
	bool usual = !named || !*named;

	if (usual)
		put_usual_path(&path);
	else
		buf_put_text(&path, named);
	reading->path = buf_text(&path);
	if (path.failed) {
		log_error("out of memory");
		return OPTION_BAD;
	}
	if (!path.len)
		return OPTION_OK;
	AUTO_FD int fd = usual ? open_usual(reading->path) : open(reading->path, O_RDONLY | O_CLOEXEC);
	if (usual && fd == -ENOENT)
		return OPTION_OK;
	int err = fd >= 0 ? fd_slurp_rest(fd, FILE_MAX_BYTES, &text) : usual ? fd : -errno;
	if (err) {
		log_error("configuration file %s: %s", reading->path, strerror(-err));
		return OPTION_BAD;
	}
	reading->config->path = strdup(reading->path); /* out of memory: later errors do not tell it */
	enum option_result result = read_text(reading, buf_span(&text));
	return result == OPTION_OK ? apply(reading, values) : result;
}

enum option_result configuration_parse(const struct command *command, int argc, char **argv, void *values,
				       struct configuration *ret)
{
	enum option_result result;

	*ret = (struct configuration){0};
	result = option_parse_given(command, argc, argv, values, &ret->given);
	if (result != OPTION_OK)
		return result;
	ret->choices = calloc(OPTIONS_MAX, sizeof(*ret->choices));
	if (!ret->choices) {
		log_error("out of memory");
		return OPTION_BAD;
	}
	const struct option *quiet = option_find(command->options, "quiet", false);
	struct reading reading = {
		.command = command,
		.config = ret,
		.quiet = quiet && ret->given.option[quiet - command->options],
	};
	return read_file(&reading, values);
}

char *configuration_place(const struct configuration *config, const struct command *command, const char *name)
{
	const struct option *option = option_find(command->options, name, false);
	const struct configuration_choice *choice = &config->choices[option - command->options];
	char *place;

	if (!config->path || !choice->set || is_given(command->options, option, &config->given))
		return NULL;
	return asprintf(&place, "%s:%u: %s.%s", config->path, choice->line, command->name, name) < 0 ? NULL : place;
}
