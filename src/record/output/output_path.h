/* SPDX-License-Identifier: MIT */
/*
 * output_path: where an output goes: a file of our own, a data directory or a pipe; and the names of the files of a
 * recording that switches its output. Owned by the recording, used by one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/output/file_place.h"

struct diag;
struct unnamed_output;

struct output_path {
	int fd;           /* -1: closed; of a pipe it is borrowed when it is standard output */
	bool pipe;        /* cannot seek: the pipe layout is written */
	bool made;        /* by us, under its name: not a pipe or a device */
	bool kept;        /* what had the name before is now called PATH.old */
	const char *path; /* "perf.data", "-"; borrowed */
	/* What was called PATH.old before has this name until output_path_confirm(); "": there was nothing. */
	char older[FILE_PLACE_TEMPORARY_ROOM];
	char *main_path;                /* heap; of a directory's main file, "perf.data/data"; NULL: no directory */
	struct unnamed_output *unnamed; /* heap; of output_path_open_unnamed(); NULL: it has its name */
};

/*
 * Whether the recording goes into a pipe; known before anything is created. path NULL: "perf.data", or standard
 * output when that is a pipe, as perf does.
 */
bool output_path_is_pipe(const char *path);

/* Whether standard output leads to the same file, so that nothing else may be written to standard output. */
bool output_path_is_stdout(const char *path);

/*
 * Sets *ret to the path after the symbolic links at its end were followed, as far as that is safe (file_place.h); the
 * files of the recording are named after it. Heap. "-": a pipe on standard output. 0, or -errno and why.
 */
int output_path_resolve(const char *path, char **ret, struct diag *reterr);

/*
 * Makes a new file of mode 0600. A recording, file or directory, that has this path is renamed to PATH.old before. If
 * the path is a link that belongs to root or to the caller, it is followed, and the file that it leads to is renamed in
 * its own directory; a link of another user is renamed itself. A directory that is no recording is not changed:
 * -EISDIR. Devices and named pipes are opened. 0, or -errno with path and remedy in the diag.
 */
int output_path_open(const char *path, struct output_path *ret, struct diag *reterr);

/*
 * The same for a file that is useful only when it is complete. It gets a temporary name, and an earlier file is not
 * touched, until output_path_name() gives it its name; output_path_close() removes it if it has not got its name.
 */
int output_path_open_unnamed(const char *path, struct output_path *ret, struct diag *reterr);
int output_path_name(struct output_path *dest, struct diag *reterr);
/* The path that it has until then: heap. NULL: it has its name, or out of memory. */
char *output_path_temporary(const struct output_path *dest);

/* As output_path_open() for a data directory, of mode 0700: fd is that of its main file. Not for pipes. */
int output_path_open_directory(const char *path, struct output_path *ret, struct diag *reterr);
/* As output_path_open_unnamed(). */
int output_path_open_unnamed_directory(const char *path, struct output_path *ret, struct diag *reterr);

/* A new file in such a directory, of mode 0600: an fd. -EEXIST: it is there. */
int output_path_create_part(const char *path, struct diag *reterr);

/* The output stays: what was called PATH.old before it is removed. output_path_close() does it otherwise. */
void output_path_confirm(struct output_path *dest);
int output_path_close(struct output_path *dest);

/*
 * Removes the output, which is not closed, if it still has its name, and gives that back to what had it before, and
 * PATH.old to what was called so, if it was not confirmed. For one that nothing was recorded into.
 */
void output_path_undo(struct output_path *dest);

/*
 * Room on the disk, and in a quota, that is kept back while records are written, for what is written behind them when
 * the disk is full: what makes them readable, and says what is missing. It is a file without a name beside the output:
 * where files are copied on write (btrfs) a full quota allows nothing else, not even to cut a file, and what was not on
 * the disk yet behind the cut is gone then. Owned by an output. Zeroed: none is kept.
 */
enum { SPARE_ROOM_LEAST_FDS = 16 }; /* with fewer file descriptors to spare none is kept */
struct spare_room {
	int fd;
	bool kept;
};

/* Of the disk of that file. Best effort: not every file system has files without a name. */
void spare_room_keep(struct spare_room *spare, int fd);
void spare_room_release(struct spare_room *spare);

/* What others did with the name of an output while it was recorded. */
enum output_change { OUTPUT_IN_PLACE, OUTPUT_RENAMED, OUTPUT_REMOVED };

/*
 * Of an output that is not closed; one that another took the place of is renamed or removed, too. IN_PLACE also if it
 * is not our own, or cannot be found out. RENAMED: *ret_now (heap) is its present path; NULL: not known.
 */
enum output_change output_path_change(const struct output_path *dest, char **ret_now);

/*
 * Calls fsync(2) for the directory of the file; with a data directory for that and for its parent directory. So the
 * names survive a power failure. Does nothing for what is not a regular file. 0 or -errno.
 */
int output_path_sync_names(const struct output_path *dest);

/* Removes a recording of our own: a file, or a directory with nothing else in it. */
void output_path_remove(const char *path);

/* What the files of a recording that switches its output are called, and which of them are kept. */
struct part_names {
	const char *base; /* borrowed: "perf.data" */
	size_t keep;      /* --switch-max-files; 0: all */
	char **names;     /* heap; finished ones that are still there, oldest first */
	size_t nr, room;
	size_t nr_removed; /* finished ones that were more than `keep` */
	uint64_t last;     /* the last time that was given, in hundredths of a second of CLOCK_REALTIME */
};

/*
 * Returns the next name, such as "perf.data.2026112210183800", as perf forms it: local time with hundredths of a
 * second; always later than the name before. Heap; NULL: out of memory.
 */
char *part_names_next(struct part_names *names);

/*
 * Notes that the file `name` is finished, and removes the oldest ones that are more than `keep`. Takes ownership of
 * `name`. 0 or -ENOMEM.
 */
int part_names_add(struct part_names *names, char *name, struct diag *reterr);
void part_names_fini(struct part_names *names);
