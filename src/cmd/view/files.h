/* SPDX-License-Identifier: MIT */
/* files: what the view writes, and which recordings are beside the one that is shown. Private to the room. */
#pragma once

#include <stddef.h>
#include <stdio.h>

struct diag;

enum { FILES_NAME = 64, FILES_MOST = 64 /* recordings in a list */ };

/* A new file PREFIX.0, PREFIX.1 … in the working directory, of mode 0600. `write`: 0 or -errno. */
int files_write(const char *prefix, int (*write)(void *ctx, FILE *to), void *ctx, char ret_path[FILES_NAME],
		struct diag *reterr);

/* Recordings in the working directory, files and data directories, the newest first. */
struct file_list {
	char *paths[FILES_MOST], *names[FILES_MOST]; /* heap; names are escaped */
	size_t nr;
};
int files_list_recordings(struct file_list *ret);
void files_list_fini(struct file_list *list);
