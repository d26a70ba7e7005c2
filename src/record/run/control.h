/* SPDX-License-Identifier: MIT */
/*
 * control: commands to a running recording (--control): lines from a file descriptor or FIFO, with acknowledgements
 * through another one. Apart from "stop", nothing that the other side does can block or end the recording. Owned by the
 * recording; used by the main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct control_spec;
struct diag;
struct eventset;

enum { CONTROL_LINE_BYTES = 4096 }; /* a longer line is refused as a whole */

struct control {
	int fd;         /* -1: none, or the other side has closed it */
	int ack_fd;     /* -1: none */
	bool ours;      /* fd and ack_fd were opened here */
	bool overlong;  /* the line is too long: bytes up to its end are ignored */
	size_t len, at; /* bytes in `line`; how many of them were examined */
	char line[CONTROL_LINE_BYTES];
};

/* Checks the fds, or opens the FIFOs. When spec->given is false the control has no fds. 0, or -errno and why. */
int control_open(struct control *control, const struct control_spec *spec, struct diag *reterr);
void control_close(struct control *control);

/*
 * Reads once, without blocking. false: there was nothing to read; if the other side has closed, control->fd is -1 from
 * then on.
 */
bool control_read(struct control *control);

/*
 * The next whole line, without the newline or NUL that ended it; NULL: there is none yet. Valid until the next
 * control_read(). One that is too long is answered here.
 */
const char *control_next(struct control *control);

/* Sends a line to ack_fd; the line is dropped if that would block. */
void control_reply(struct control *control, const char *line);

/* Requests that the caller must carry out; all others were carried out when control_command() returns. */
enum control_request { CONTROL_NOTHING, CONTROL_STOP, CONTROL_SNAPSHOT };

/*
 * Carries out one line and acknowledges it; CONTROL_SNAPSHOT is acknowledged by the caller. An unknown command is
 * reported on stderr and instead of the acknowledgement; *nr_refused counts them, and after some they are no longer
 * logged.
 */
enum control_request control_command(struct control *control, struct eventset *set, const char *line,
				     unsigned *nr_refused);
