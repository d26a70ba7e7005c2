/* SPDX-License-Identifier: MIT */
/*
 * control: commands from outside while a recording runs (--control): lines through a file descriptor or FIFO, and their
 * acknowledgements through another. Nothing that the other side does blocks or ends a recording, but "stop".
 * Owned by the recording; used by the main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct control_spec;
struct diag;
struct eventset;

enum { CONTROL_LINE_BYTES = 4096 }; /* a longer line is no command */

struct control {
	int fd;         /* -1: none, or the other side is gone for good */
	int ack_fd;     /* -1: none */
	bool ours;      /* to be closed */
	bool overlong;  /* of a line that is too long, the rest is thrown away */
	size_t len, at; /* bytes in `line`; of those that were looked at */
	char line[CONTROL_LINE_BYTES];
};

/* Checks fds, opens FIFOs. A spec that was not given makes a control without any fd. */
int control_open(struct control *control, const struct control_spec *spec, struct diag *reterr);
void control_close(struct control *control);

/*
 * Reads what is there, once. False: there was nothing; when the other side has closed, control->fd is -1 from then on.
 */
bool control_read(struct control *control);

/* The next whole line (ended by a newline or a NUL), without its end; NULL: none yet. Valid until control_read(). */
const char *control_next(struct control *control);

/* Sends a line back, when there is room for it now; else it is dropped. */
void control_reply(struct control *control, const char *line);

/* What a line asks of the recording as a whole; anything else is done when control_command() returns. */
enum control_request { CONTROL_NOTHING, CONTROL_STOP, CONTROL_SNAPSHOT };

/*
 * Carries out one line. CONTROL_SNAPSHOT is acknowledged by the caller. Unknown commands are reported on stderr and in
 * the place of the acknowledgement; *nr_refused counts them, and after some they are no longer logged.
 */
enum control_request control_command(struct control *control, struct eventset *set, const char *line,
				     unsigned *nr_refused);
