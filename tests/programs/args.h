/* SPDX-License-Identifier: MIT */
/* args: options "-x NUMBER" of the test programs. */
#pragma once

struct args {
	char letter;
	unsigned value; /* the default before, the given number after */
	const char *help;
};

/* Reads them all, or prints what there is and exits with 2. The table ends with letter 0. */
void args_parse(struct args *args, int argc, char **argv);
