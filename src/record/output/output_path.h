/* SPDX-License-Identifier: MIT */
/*
 * output_path: where an output goes: a file of our own, a data directory or a pipe; and the names of the files of a
 * recording that switches its output. Owned by the recording, used by one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;
struct unnamed_output;

struct output_path {
	int fd;                         /* -1: closed; of a pipe it is borrowed when it is standard output */
	bool pipe;                      /* cannot seek: the pipe layout is written */
	const char *path;               /* "perf.data", "-"; borrowed */
	char *main_path;                /* heap; of a directory's main file, "perf.data/data"; NULL: no directory */
	struct unnamed_output *unnamed; /* heap; of output_path_open_unnamed(); NULL: it has its name */
};

/*
 * Whether the recording goes into a pipe; known before anything is created. path NULL: "perf.data", or standard
 * output when that is a pipe, as perf does.
 */
bool output_path_is_pipe(const char *path);

/* Whether that is what standard output leads to: then nothing else may write there. */
bool output_path_is_stdout(const char *path);

/*
 * The path with the links at its end followed, as far as they may be (file_place.h): what files of the recording are
 * named after; heap. "-": a pipe on standard output.
 */
int output_path_resolve(const char *path, char **ret, struct diag *reterr);

/*
 * Makes a new file of mode 0600. A recording that is there already, file or directory, is kept as PATH.old; behind a
 * link of the caller's or root's it is kept beside the file itself; a link of another user is itself what is kept. Any
 * other directory is left alone: -EISDIR. Devices and named pipes are opened. -errno, with path and remedy in the diag.
 */
int output_path_open(const char *path, struct output_path *ret, struct diag *reterr);

/*
 * The same for what only counts when it is whole: a new file has a name of its own, and what is there stays, until
 * output_path_name() gives it its name; output_path_close() removes one that has none.
 */
int output_path_open_unnamed(const char *path, struct output_path *ret, struct diag *reterr);
int output_path_name(struct output_path *dest, struct diag *reterr);

/* As output_path_open() for a data directory, of mode 0700: fd is that of its main file. Not for pipes. */
int output_path_open_directory(const char *path, struct output_path *ret, struct diag *reterr);

/* A new file in such a directory, of mode 0600: an fd. -EEXIST: it is there. */
int output_path_create_part(const char *path, struct diag *reterr);
int output_path_close(struct output_path *dest);

/*
 * fsync(2) of the directory of the main file, and of the one above it for a data directory: the names outlive a power
 * cut. 0 or -errno; what is no regular file has no such name.
 */
int output_path_sync_names(const struct output_path *dest);

/* A recording of our own that is not wanted any more: a file, or a directory with nothing else in it. */
void output_path_remove(const char *path);

/* What the files of a recording that switches its output are called, and which of them are kept. */
struct part_names {
	const char *base; /* borrowed: "perf.data" */
	size_t keep;      /* --switch-max-files; 0: all */
	char **names;     /* heap; finished ones that are still there, oldest first */
	size_t nr, room;
	uint64_t last; /* the last time that was given, in hundredths of a second of CLOCK_REALTIME */
};

/*
 * "perf.data.2026112210183800", as perf calls it: local time with hundredths, later than any before. Heap; NULL:
 * -ENOMEM.
 */
char *part_names_next(struct part_names *names);

/* A file is finished; removes those that are too many. Owns `name`. 0 or -ENOMEM. */
int part_names_add(struct part_names *names, char *name);
void part_names_fini(struct part_names *names);
