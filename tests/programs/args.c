/* SPDX-License-Identifier: MIT */
#include "args.h"

#include <stdio.h>
#include <stdlib.h>

static _Noreturn void args_help(const struct args *args, const char *program)
{
	fprintf(stderr, "Usage: %s [OPTIONS]\n", program);
	for (; args->letter; args++)
		fprintf(stderr, "  -%c N  %s (default %u)\n", args->letter, args->help, args->value);
	exit(2);
}

static struct args *args_find(struct args *args, const char *word)
{
	while (args->letter && (word[0] != '-' || word[1] != args->letter || word[2]))
		args++;
	return args->letter ? args : NULL;
}

void args_parse(struct args *args, int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		struct args *found = args_find(args, argv[i]);
		char *end = argv[i];

		if (found && i + 1 < argc)
			found->value = (unsigned)strtoul(argv[i + 1], &end, 10);
		if (end == argv[i] || *end)
			args_help(args, argv[0]);
	}
}
