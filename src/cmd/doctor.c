/* SPDX-License-Identifier: MIT */
/* millrace doctor: what works here, found out by doing it, and what would make the rest work. */
#include "cmd/doctor.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "cmd/command.h"
#include "cmd/json_text.h"

struct doctor_options {
	bool json;
};

static const struct option doctor_table[] = {
	{.name = "json", .set = option_set_flag, .offset = offsetof(struct doctor_options, json),
	 .flags = OPTION_NO_NEGATE, .help = "Print a JSON array of objects with group, name, state and text"},
	{.set = NULL},
};

void doctor_add(struct doctor *doctor, enum doctor_state state, const char *name, const char *format, ...)
{
	va_list args;

	if (doctor->nr == sizeof(doctor->findings) / sizeof(doctor->findings[0]))
		return;
	struct finding *finding = &doctor->findings[doctor->nr++];
	*finding = (struct finding){.group = doctor->group, .name = name, .state = state};
	va_start(args, format);
	vsnprintf(finding->text, sizeof(finding->text), format, args);
	va_end(args);
}

static const char *const state_words[] = {[DOCTOR_YES] = "yes", [DOCTOR_NO] = "no", [DOCTOR_NOTE] = "note"};

static void print_text(const struct doctor *doctor)
{
	const char *group = NULL;

	for (size_t i = 0; i < doctor->nr; i++) {
		const struct finding *finding = &doctor->findings[i];
		if (finding->group != group)
			printf("%s%s\n", group ? "\n" : "", finding->group);
		group = finding->group;
		printf("  %-4s  %-*s%s\n", state_words[finding->state], *finding->text ? 38 : 0, finding->name, finding->text);
	}
}

static void print_json(const struct doctor *doctor)
{
	for (size_t i = 0; i < doctor->nr; i++) {
		const struct finding *finding = &doctor->findings[i];
		const char *const fields[][2] = {{"group", finding->group},
						 {"name", finding->name},
						 {"state", state_words[finding->state]},
						 {"text", finding->text}};
		printf("%s{", i ? ",\n " : "[");
		for (size_t f = 0; f < 4; f++) {
			printf("%s\"%s\": ", f ? ", " : "", fields[f][0]);
			json_put_string(stdout, fields[f][1]);
		}
		printf("}");
	}
	printf("]\n");
}

static int run(int argc, char **argv)
{
	static struct doctor doctor; /* some kilobytes */
	struct doctor_options options = {0};
	int first;

	switch (option_parse(&command_doctor, argc, argv, &options, &first)) {
	case OPTION_EXIT:
		return 0;
	case OPTION_BAD:
		return COMMAND_USAGE;
	case OPTION_OK:
		break;
	}
	if (first < argc) {
		log_error("doctor takes no argument, but got \"%s\"", argv[first]);
		return COMMAND_USAGE;
	}
	doctor = (struct doctor){0};
	log_set_level(LOG_ERRORS); /* what an event falls back to is no answer here */
	doctor_look_at_events(&doctor);
	doctor_look_at_system(&doctor);
	(options.json ? print_json : print_text)(&doctor);
	/* The first finding: can anything be recorded at all? */
	return fflush(stdout) || doctor.findings[0].state == DOCTOR_NO ? 1 : 0;
}

const struct command command_doctor = {
	.name = "doctor",
	.summary = "Say what can be recorded here, and what would make the rest work",
	.usage = "[--json]",
	.description = "Tries events, call graphs, rings and what recording reads, as whoever runs it, and prints yes or no for "
		       "each; for each no, why, and the one thing that would change it. Nothing is changed and no file is "
		       "written. The exit status is 1 when nothing can be recorded at all.",
	.options = doctor_table,
	.run = run,
};
