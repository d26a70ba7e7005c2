/* SPDX-License-Identifier: MIT */
/*
 * annotation: the code of a function with the samples of each instruction, and the lines of its source. One
 * owner, one thread.
 */
#pragma once

#include "analyze/code/code.h"
#include "analyze/report/hist.h"

struct debug_info;
struct source_file;

enum { ANNOTATION_SOURCE = UINT32_MAX /* a line of the source, no instruction */ };

/* One line as it is shown: an instruction, or a source line in front of the instructions compiled from it. */
struct annotation_line {
	uint32_t instruction; /* index; ANNOTATION_SOURCE: none */
	uint32_t source_line;
	const struct source_file *file; /* of a source line */
};

/* Zeroed: empty. */
struct annotation {
	struct dso *dso; /* borrowed, as the symbol */
	const struct symbol *symbol;
	struct code code;
	struct hist_amount *amounts; /* heap; of each instruction */
	struct hist_amount total;
	struct annotation_line *lines; /* heap */
	size_t nr_lines;
	struct source_file *files; /* heap list; owned */
};

struct annotation_options {
	struct code_options code;
	struct debug_info *debug_info; /* NULL: no source lines */
};

/* The code of the function of a place, which must have a symbol. *ret: annotation_fini(). Errors of code_read(). */
int annotation_make(const struct hist_place *place, const struct annotation_options *options, struct annotation *ret,
		    struct diag *reterr);
void annotation_fini(struct annotation *annotation);

/* Adds samples at that address of the object; an address outside of the function is ignored. */
void annotation_add(struct annotation *annotation, const struct dso *dso, uint64_t address,
		    const struct hist_amount *amount);

/* "main.c:12", and the text of the line: *ret_len 0 when the file cannot be read. Valid until annotation_fini(). */
const char *source_file_name(const struct source_file *file);
const char *source_file_path(const struct source_file *file); /* "/src/main.c" */
const char *source_file_line(const struct source_file *file, uint32_t line, size_t *ret_len);
bool source_file_is_newer(const struct source_file *file); /* than the object: its lines may have changed */
