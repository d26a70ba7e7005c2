/* SPDX-License-Identifier: MIT */
/* control_command: what the lines of --control say, and what is done about them. Main thread. */
#pragma once

#include <stdbool.h>

struct control;
struct eventset;

/* What a line asks of the recording as a whole; the rest is done when control_command() returns. */
enum control_request { CONTROL_NOTHING, CONTROL_STOP, CONTROL_SNAPSHOT };

/*
 * Carries out one line. CONTROL_SNAPSHOT is acknowledged by whoever takes it. Words that are no command are told on
 * stderr and in the place of the acknowledgement; *nr_refused counts them, and after some they are told no more.
 */
enum control_request control_command(struct control *control, struct eventset *set, const char *line,
				     unsigned *nr_refused);

void control_acknowledge(struct control *control);
