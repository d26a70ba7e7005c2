/* SPDX-License-Identifier: MIT */
/* millrace recover: complete recordings whose recorder died, or whose end is missing. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/span.h"
#include "base/text.h"
#include "cmd/cli/command.h"
#include "cmd/input/input.h"
#include "cmd/input/sandbox.h"
#include "perfdata/header.h"
#include "record/output/output_path.h"
#include "record/output/recover.h"

/*
 * Up to where the disk cannot read it, which is asked twice: the original stays as it is, so that nothing is lost where
 * the disk answers later. With its time: when the recording ended. 1: the end was left out, which is told; 0, or
 * -errno.
 */
static int copy_bytes(int from, int to, const char *dir, const char *name)
{
	enum { PIECE = 1 << 20, TRIES = 2 };
	AUTO_FREE uint8_t *piece = malloc(PIECE);
	struct progress progress = {.bytes = true};
	struct stat st;
	uint64_t copied = 0;
	int err = piece ? 0 : -ENOMEM, nr_failed = 0;

	progress.total = fstat(from, &st) == 0 ? (uint64_t)st.st_size : 0;
	progress_start(&progress, "copying");
	while (!err) {
		ssize_t got = read(from, piece, PIECE);
		if (got < 0 && errno == EINTR)
			continue;
		nr_failed = got < 0 && errno == EIO ? nr_failed + 1 : 0;
		if (nr_failed && nr_failed < TRIES)
			continue;
		if (got <= 0) {
			err = got < 0 && !nr_failed ? -errno : 0;
			break;
		}
		err = fd_write(to, piece, (size_t)got);
		copied += (uint64_t)got;
		progress_step(&progress, (uint64_t)got, copied);
	}
	progress_end(&progress);
	if (progress.total)
		(void)!futimens(to, (const struct timespec[]){{.tv_nsec = UTIME_OMIT}, st.st_mtim});
	if (nr_failed)
		log_error("%s%s%s cannot be read from byte %" PRIu64 " on: %s; %" PRIu64
			  " bytes are missing in the copy",
			  dir, *dir ? "/" : "", name, copied, strerror(EIO),
			  progress.total > copied ? progress.total - copied : 0);
	return err ? err : nr_failed != 0;
}

/* The main file of the new directory is there, and empty. */
static int open_part(int dir, const char *name)
{
	bool main = strcmp(name, "data") == 0;

	return openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (main ? 0 : O_CREAT | O_EXCL), 0600);
}

/* One file of a directory, which is called `dir`. As copy_bytes(). */
static int copy_part(int from_dir, int to_dir, const char *dir, const char *name, struct diag *reterr)
{
	AUTO_FD int from = openat(from_dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	AUTO_FD int to = from < 0 ? -1 : open_part(to_dir, name);
	int err = to < 0 ? -errno : copy_bytes(from, to, dir, name);

	return err < 0 ? diag_set(reterr, err, "cannot copy %s: %s", name, strerror(-err)) : err;
}

static int copy_directory(const char *from, const char *to, struct output_path *ret, struct diag *reterr)
{
	AUTO_FD int to_dir = -1;
	AUTO_FREE char *path = NULL;
	int lacks = 0, err = output_path_open_unnamed_directory(to, ret, reterr);

	if (err)
		return err;
	path = output_path_temporary(ret);
	DIR *dir = opendir(from);
	to_dir = path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (!dir || to_dir < 0)
		err = diag_set(reterr, -errno, "cannot copy %s to %s: %s", from, to, strerror(errno));
	for (struct dirent *entry; err >= 0 && (entry = readdir(dir));) {
		if (strcmp(entry->d_name, "data") != 0 && strncmp(entry->d_name, "data.", 5) != 0)
			continue;
		err = copy_part(dirfd(dir), to_dir, from, entry->d_name, reterr);
		lacks |= err > 0;
	}
	if (dir)
		closedir(dir);
	return err < 0 ? err : lacks;
}

static int copy_file(const char *from, const char *to, struct output_path *ret, struct diag *reterr)
{
	AUTO_FD int in = open(from, O_RDONLY | O_CLOEXEC);

	if (in < 0)
		return diag_set(reterr, -errno, "%s: %s", from, strerror(errno));
	int err = output_path_open_unnamed(to, ret, reterr);
	if (err)
		return err;
	int copied = copy_bytes(in, ret->fd, "", from);
	return copied < 0 ? diag_set(reterr, copied, "cannot copy %s to %s: %s", from, to, strerror(-copied)) : copied;
}

/* What is no recording is not copied. */
static int check_header(const char *from, bool directory, struct diag *reterr)
{
	AUTO_FREE char *path = NULL;
	uint8_t bytes[sizeof(struct file_header)];
	struct file_header header;
	bool pipe;

	if (asprintf(&path, "%s%s", from, directory ? "/data" : "") < 0)
		return diag_set(reterr, -ENOMEM, "no memory");
	AUTO_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : pread(fd, bytes, sizeof(bytes), 0);
	if (got < 0)
		return diag_set(reterr, -errno, "%s: %s", path, strerror(errno));
	int err = header_decode((struct span){bytes, (size_t)got}, &header, &pipe, reterr);
	if (!err && pipe)
		err = diag_set(reterr, -ENOTSUP,
			       "it has the layout of a pipe, which needs no recovery: read it as it is");
	if (err)
		diag_prefix(reterr, "%s", path);
	return err;
}

/*
 * A file, or a directory with its files, which has a temporary name: it is of use when it was recovered. As
 * copy_bytes(); -errno and why. *ret: to be closed in any case.
 */
static int recover_copy(const char *from, const char *to, struct output_path *ret, struct diag *reterr)
{
	struct stat st, other;

	if (stat(from, &st))
		return diag_set(reterr, -errno, "%s: %s", from, strerror(errno));
	if (stat(to, &other) == 0 && other.st_dev == st.st_dev && other.st_ino == st.st_ino)
		return diag_set(reterr, -EINVAL, "%s is the recording itself: leave out -o to recover it in place", to);
	if (output_path_is_pipe(to))
		return diag_set(reterr, -EINVAL, "%s: recover writes a file, not a pipe", to);
	int err = check_header(from, S_ISDIR(st.st_mode), reterr);
	if (err)
		return err;
	int copied = S_ISDIR(st.st_mode) ? copy_directory(from, to, ret, reterr) : copy_file(from, to, ret, reterr);
	/* Where it can still be written to it is not recovered. */
	if (ret->fd >= 0 && close(take_fd(&ret->fd)) && copied >= 0)
		copied = diag_set(reterr, -errno, "cannot copy %s to %s: %s", from, to, strerror(errno));
	return copied;
}

/* millrace recover: recordings whose recorder died, or that lost their end, made whole. */
struct recover_options {
	const char *input, *output;
	bool no_build_ids, force, index;
	int verbose;
};

static const struct option recover_table[] = {
	{.letter = 'o',
	 .name = "output",
	 .arg = "FILE",
	 .help = "Leave the recording as it is and write FILE, or a directory of that name, instead",
	 .set = option_set_path,
	 .offset = offsetof(struct recover_options, output),
	 .group = "Output"},
	{.letter = 'B',
	 .name = "no-buildid",
	 .help = "Do not look up the build-ids of the sampled objects",
	 .set = option_set_flag,
	 .offset = offsetof(struct recover_options, no_build_ids)},
	{.name = "index",
	 .help = "Write the index of extents anew, by which --time of report and script leaves out what it does not "
		 "need, also of a recording that is whole",
	 .set = option_set_flag,
	 .offset = offsetof(struct recover_options, index)},
	{.letter = 'i',
	 .name = "input",
	 .arg = "FILE",
	 .help = "Recover FILE, a file or a data directory",
	 .set = option_set_path,
	 .offset = offsetof(struct recover_options, input),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT,
	 .group = "Input"},
	{.letter = 'f',
	 .name = "force",
	 .help = "Recover a recording that belongs to neither root nor you",
	 .set = option_set_flag,
	 .offset = offsetof(struct recover_options, force)},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct recover_options, verbose)},
	{0},
};

static void report_result(const char *path, const struct recover_result *result)
{
	if (result->is_left)
		log_note("%s is left as it is: -o FILE makes a copy without what is damaged", path);
	else if (result->damage.nr && !result->data_bytes)
		log_note("%s is whole without them", path);
	else if (result->nr_extents)
		log_note("%s is whole; its index has %zu extent%s", path, result->nr_extents,
			 text_s(result->nr_extents));
	else if (result->was_whole)
		log_note("%s is whole: nothing to recover", path);
	else if (result->samples_counted)
		log_note("%s: recovered %" PRIu64 " sample%s, %.3f MB; %" PRIu64
			 " bytes behind the last whole record were cut off",
			 path, result->nr_samples, text_s(result->nr_samples), (double)result->data_bytes / 1e6,
			 result->dropped_bytes);
	else
		log_note("%s: recovered %.3f MB; %" PRIu64 " bytes behind the last whole record were cut off", path,
			 (double)result->data_bytes / 1e6, result->dropped_bytes);
}

/* One line for each place, of the first ones. */
static void report_damage(const char *path, const struct damage_list *list)
{
	enum { LINES = 20 };
	uint64_t bytes = 0;

	for (size_t i = 0; i < list->nr; i++) {
		const struct damage *damage = &list->items[i];
		char part[24] = "", records[64] = "", samples[48] = "";
		bytes += damage->bytes;
		if (i >= LINES)
			continue;
		if (damage->part)
			snprintf(part, sizeof(part), "/data.%" PRIu32, damage->part - 1);
		if (damage->record_bytes)
			snprintf(records, sizeof(records), ", which held %" PRIu64 " bytes of records",
				 damage->record_bytes);
		if (damage->nr_samples != UINT64_MAX)
			snprintf(samples, sizeof(samples), "%s %" PRIu64 " sample%s", *records ? "," : ", which held",
				 damage->nr_samples, text_s(damage->nr_samples));
		log_error("%s%s: offset %#" PRIx64 ": %" PRIu64 " bytes are damaged%s%s", path, part, damage->offset,
			  damage->bytes, records, samples);
	}
	if (list->nr > LINES)
		log_error("%s: and %zu more; %" PRIu64 " bytes are damaged in all", path, list->nr - LINES, bytes);
}

static void close_copy(struct output_path *copy)
{
	output_path_close(copy);
}

static void result_fini(struct recover_result *result)
{
	damage_list_fini(&result->damage);
}

static int recover(const struct recover_options *options, const char *path, int argc, char **argv)
{
	AUTO_FREE char *found = NULL, *temporary = NULL;
	__attribute__((cleanup(close_copy))) struct output_path copy = {.fd = -1};
	struct recover_params params = {
		.build_ids = !options->no_build_ids,
		.force = options->force,
		.index = options->index,
		.leave_out = options->output != NULL,
		.argc = argc,
		.argv = argv,
	};
	__attribute__((cleanup(result_fini))) struct recover_result result = {0};
	struct diag diag = {0};
	int err = options->output ? recover_copy(path, options->output, &copy, &diag) : 0;
	const bool lacks = err > 0;

	if (err >= 0)
		err = output_path_resolve(options->output ? options->output : path, &found, &diag);
	temporary = output_path_temporary(&copy);
	params.path = temporary ? temporary : found;
	params.name = found;
	if (!err)
		err = recover_recording(&params, &result, &diag);
	if (!err)
		err = output_path_name(&copy, &diag);
	if (err) {
		log_error("%s", diag.text);
		if (err == -EIO && !options->output)
			log_note("a copy of what can be read is made whole with -o FILE");
		return INPUT_EXIT_ERROR;
	}
	report_damage(path, &result.damage);
	if (!lacks || !result.was_whole)
		report_result(params.name, &result);
	return lacks || result.damage.nr ? INPUT_EXIT_ERROR : 0;
}

static int run(int argc, char **argv)
{
	struct recover_options options = {0};
	AUTO_CONFIGURATION struct configuration config = {0};
	enum option_result result = configuration_parse(&command_recover, argc, argv, &options, &config);
	int first = config.given.first;

	if (result != OPTION_OK)
		return result == OPTION_EXIT ? 0 : COMMAND_USAGE;
	const char *path = options.input ? options.input : argv[first];
	if (argc - first + (options.input != NULL) != 1) {
		log_error("recover: %s", path ? "give one recording at a time" : "give the name of a recording");
		return COMMAND_USAGE;
	}
	log_set_level(options.verbose);
	sandbox_enter(options.output ? options.output : path, 0);
	return recover(&options, path, argc, argv);
}

const struct command command_recover = {
	.name = "recover",
	.summary = "Make recordings whole whose recorder died, or that lost their end",
	.usage = "[OPTIONS] [-i] FILE",
	.description =
		"Finds the last whole record of FILE, or of every file of the data directory FILE, cuts off what is "
		"behind it, and writes what the recorder would have written at its end, so that every reader takes "
		"it. Where a recording is damaged that is told, and -o makes a copy without what is damaged. Works "
		"with what a killed perf record left, too. What the file does not hold, such as the formats of "
		"tracepoints, is taken from this machine: recover where it was recorded.\n\n"
		"Examples:\n"
		"  millrace recover perf.data\n"
		"  millrace recover -o whole.data broken.data\n",
	.options = recover_table,
	.run = run,
};
