/* SPDX-License-Identifier: MIT */
#include "analyze/code/annotation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/symbols/debug_info.h"
#include "analyze/symbols/dso.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "sysinfo/object_file.h"

enum {
	MOST_SOURCE_BYTES = 16 << 20,
	MOST_FILES = 256,           /* that were inlined from into one function */
	MOST_WITH_SOURCE = 1 << 16, /* instructions of which the line is looked for */
};

struct source_file {
	struct source_file *next;
	const char *path; /* the debug information's */
	char *text;       /* heap; NULL: cannot be read */
	size_t *starts;   /* heap; of each line, and behind the last */
	uint32_t nr_lines;
	bool newer;
};

static void index_lines(struct source_file *file, size_t len)
{
	uint32_t nr = 1;

	for (size_t i = 0; i < len; i++)
		nr += file->text[i] == '\n';
	file->starts = calloc(nr + 1, sizeof(*file->starts));
	if (!file->starts)
		return;
	for (size_t i = 0; i < len; i++)
		if (file->text[i] == '\n')
			file->starts[++file->nr_lines] = i + 1;
	if (len && file->text[len - 1] != '\n')
		file->starts[++file->nr_lines] = len + 1;
}

/* A regular file, for its path comes from the recording. */
static void read_source(struct source_file *file, int64_t object_ns)
{
	AUTO_FD int fd = object_file_open(file->path, NULL);
	struct stat status;

	if (fd < 0 || fstat(fd, &status) < 0 || status.st_size > MOST_SOURCE_BYTES)
		return;
	size_t len = (size_t)status.st_size;
	file->text = malloc(len + 1);
	if (!file->text || fd_read(fd, file->text, len)) {
		free(file->text);
		file->text = NULL;
		return;
	}
	file->newer = object_ns && status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec > object_ns;
	index_lines(file, len);
}

/* NULL: out of memory, or too many. */
static const struct source_file *find_source(struct annotation *annotation, const char *path, int64_t object_ns)
{
	unsigned nr = 0;

	for (struct source_file *file = annotation->files; file; file = file->next, nr++)
		if (strcmp(file->path, path) == 0)
			return file;
	struct source_file *file = nr < MOST_FILES ? calloc(1, sizeof(*file)) : NULL;
	if (!file)
		return NULL;
	file->path = path;
	read_source(file, object_ns);
	file->next = annotation->files;
	annotation->files = file;
	return file;
}

const char *source_file_name(const struct source_file *file)
{
	const char *slash = strrchr(file->path, '/');

	return slash ? slash + 1 : file->path;
}

const char *source_file_path(const struct source_file *file)
{
	return file->path;
}

const char *source_file_line(const struct source_file *file, uint32_t line, size_t *ret_len)
{
	*ret_len = 0;
	if (!file->text || !file->starts || !line || line > file->nr_lines)
		return "";
	*ret_len = file->starts[line] - 1 - file->starts[line - 1];
	return file->text + file->starts[line - 1];
}

bool source_file_is_newer(const struct source_file *file)
{
	return file->newer;
}

void annotation_fini(struct annotation *annotation)
{
	while (annotation->files) {
		struct source_file *file = annotation->files;
		annotation->files = file->next;
		free(file->text);
		free(file->starts);
		free(file);
	}
	code_fini(&annotation->code);
	free(annotation->amounts);
	free(annotation->lines);
	*annotation = (struct annotation){0};
}

/* When the object was written; 0: not known. */
static int64_t object_time_ns(const struct dso *dso)
{
	struct stat status;

	if (dso->kind != DSO_FILE || stat(dso_long_name(dso), &status))
		return 0;
	return status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec;
}

static void put_lines(struct annotation *annotation, struct debug_info *debug_info)
{
	int64_t object_ns = object_time_ns(annotation->dso);
	const struct source_file *file = NULL;
	struct source_line line, last = {0};

	for (uint32_t i = 0; i < annotation->code.nr; i++) {
		uint64_t address = annotation->code.all[i].address;
		bool known = debug_info && i < MOST_WITH_SOURCE &&
			     debug_info_line(debug_info, annotation->dso, address, 0, &line);
		if (known && (line.line != last.line || !last.path || strcmp(line.path, last.path) != 0)) {
			file = find_source(annotation, line.path, object_ns);
			last = line;
			if (file)
				annotation->lines[annotation->nr_lines++] =
					(struct annotation_line){ANNOTATION_SOURCE, line.line, file};
		}
		annotation->lines[annotation->nr_lines++] = (struct annotation_line){.instruction = i};
	}
}

int annotation_make(const struct hist_place *place, const struct annotation_options *options, struct annotation *ret,
		    struct diag *reterr)
{
	struct annotation annotation = {.dso = place->dso, .symbol = place->symbol};

	if (!place->dso || !place->symbol)
		return diag_set(reterr, -ENOENT, "no function is known there");
	int err = code_read(place->dso, place->symbol, &options->code, &annotation.code, reterr);
	if (err)
		return err;
	annotation.amounts = calloc(annotation.code.nr + 1, sizeof(*annotation.amounts));
	annotation.lines = calloc(2 * annotation.code.nr + 1, sizeof(*annotation.lines));
	if (!annotation.amounts || !annotation.lines) {
		annotation_fini(&annotation);
		return diag_set(reterr, -ENOMEM, "out of memory");
	}
	put_lines(&annotation, options->debug_info);
	*ret = annotation;
	return 0;
}

void annotation_add(struct annotation *annotation, const struct dso *dso, uint64_t address,
		    const struct hist_amount *amount)
{
	if (dso != annotation->dso || address < annotation->symbol->start || address >= annotation->symbol->end)
		return;
	size_t at = code_find(&annotation->code, address);
	annotation->total.period += amount->period;
	annotation->total.nr_samples += amount->nr_samples;
	if (at == annotation->code.nr)
		return;
	annotation->amounts[at].period += amount->period;
	annotation->amounts[at].nr_samples += amount->nr_samples;
}
