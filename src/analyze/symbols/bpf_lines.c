/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/bpf_lines.h"

#include <ctype.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "perfdata/btf.h"
#include "perfdata/feature.h"
#include "read/session.h"

/* Of all rows that are compared, with their paths: a made-up recording may say that all programs are at one place. */
static const uint64_t most_compared_bytes = UINT64_C(1) << 28;

/* Code from its address on. */
struct row {
	uint64_t address;
	const char *path; /* NULL: none is known */
	unsigned line;
};

/* Of a program. Where it was, another one may have been before or after it. */
struct function {
	uint64_t start, end; /* end: exclusive */
	uint8_t tag[BPF_TAG_SIZE];
	const struct row *rows; /* of the program; by address */
	size_t nr;
	bool differs; /* from one with the same code at the same place: it is not known which of them it is */
};

struct program {
	struct program *next;
	size_t nr;
	struct row rows[];
};

/* What describes the types and texts of programs. */
struct btf {
	uint32_t id;
	struct span data;
};

struct bpf_lines {
	struct program *programs;
	struct function *functions; /* heap; by start and tag */
	size_t nr, room;
	struct btf *btfs; /* heap, while they are read; by id, and of one id in the order of the file */
	size_t nr_btfs, btfs_room;
	uint64_t compared_bytes;
};

static int row_compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* NULL: it has none, it is broken, or no memory. */
static struct program *read_rows(const struct feature_bpf_prog *prog, const struct bpf_prog_info *info, struct span btf)
{
	uint32_t nr = info->nr_jited_line_info;

	if (!nr || nr != info->nr_line_info || info->line_info_rec_size < sizeof(struct bpf_line_info) ||
	    info->jited_line_info_rec_size != sizeof(uint64_t))
		return NULL;
	struct cursor addresses = feature_bpf_array(prog, info->jited_line_info, nr, sizeof(uint64_t));
	struct cursor records = feature_bpf_array(prog, info->line_info, nr, info->line_info_rec_size);
	struct program *program =
		addresses.bad || records.bad ? NULL : malloc(sizeof(*program) + nr * sizeof(struct row));
	if (!program)
		return NULL;
	program->nr = nr;
	for (uint32_t i = 0; i < nr; i++) {
		struct bpf_line_info record;
		memcpy(&record, cursor_take(&records, info->line_info_rec_size), sizeof(record));
		program->rows[i] = (struct row){cursor_u64(&addresses), btf_text(btf, record.file_name_off),
						BPF_LINE_INFO_LINE_NUM(record.line_col)};
	}
	qsort(program->rows, nr, sizeof(program->rows[0]), row_compare);
	return program;
}

/* false: no room for it. */
static bool add_function(struct bpf_lines *lines, const struct function *function)
{
	if (array_room(lines->functions, lines->nr, lines->room))
		return false;
	lines->functions[lines->nr++] = *function;
	return true;
}

static void add_functions(struct bpf_lines *lines, const struct feature_bpf_prog *prog,
			  const struct bpf_prog_info *info, const struct program *program)
{
	uint32_t nr = info->nr_jited_ksyms;
	struct cursor starts = feature_bpf_array(prog, info->jited_ksyms, nr, sizeof(uint64_t));
	struct cursor sizes = feature_bpf_array(prog, info->jited_func_lens, nr, sizeof(uint32_t));
	struct cursor tags = feature_bpf_array(prog, info->prog_tags, info->nr_prog_tags, BPF_TAG_SIZE);

	if (starts.bad || sizes.bad || nr != info->nr_jited_func_lens)
		return;
	for (uint32_t i = 0; i < nr; i++) {
		struct function function = {.start = cursor_u64(&starts), .rows = program->rows, .nr = program->nr};
		const uint8_t *tag = nr == info->nr_prog_tags ? cursor_take(&tags, BPF_TAG_SIZE) : NULL;
		function.end = function.start + cursor_u32(&sizes);
		memcpy(function.tag, tag ? tag : info->tag, sizeof(function.tag));
		if (!add_function(lines, &function))
			return;
	}
}

static int btf_compare(const void *a, const void *b)
{
	const struct btf *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->data.ptr < y->data.ptr ? -1 : x->data.ptr > y->data.ptr;
}

/* false: no room for them. */
static bool read_btfs(struct bpf_lines *lines, struct span payload)
{
	struct feature_list list;
	struct feature_bpf_btf btf;

	if (feature_list_open(payload, &list))
		return true;
	while (feature_list_bpf_btf(&list, &btf) > 0) {
		if (array_room(lines->btfs, lines->nr_btfs, lines->btfs_room))
			return false;
		lines->btfs[lines->nr_btfs++] = (struct btf){btf.id, btf.data};
	}
	if (lines->nr_btfs)
		qsort(lines->btfs, lines->nr_btfs, sizeof(*lines->btfs), btf_compare);
	return true;
}

/* Empty: there is none. */
static struct span find_btf(const struct bpf_lines *lines, uint32_t id)
{
	const size_t at = partition_point(lines->nr_btfs, i, lines->btfs[i].id < id);
	return id && at < lines->nr_btfs && lines->btfs[at].id == id ? lines->btfs[at].data : (struct span){0};
}

static void add_program(struct bpf_lines *lines, const struct feature_bpf_prog *prog)
{
	struct bpf_prog_info info = {0};

	memcpy(&info, prog->info.ptr, prog->info.len < sizeof(info) ? prog->info.len : sizeof(info));
	struct program *program = read_rows(prog, &info, find_btf(lines, info.btf_id));
	if (!program)
		return;
	program->next = lines->programs;
	lines->programs = program;
	add_functions(lines, prog, &info, program);
}

static int function_compare(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return memcmp(x->tag, y->tag, sizeof(x->tag));
}

/* The last row that begins at an address or before it; NULL: none. */
static const struct row *find_row(const struct function *function, uint64_t address)
{
	const size_t behind = partition_point(function->nr, i, function->rows[i].address <= address);
	const struct row *row = behind ? &function->rows[behind - 1] : NULL;
	return row && row->address >= function->start && address < function->end ? row : NULL;
}

/* false also when too much was compared. */
static bool rows_equal(struct bpf_lines *lines, const struct function *x, const struct function *y)
{
	const struct row *a = x->rows, *b = y->rows;

	if (x->nr != y->nr || x->end != y->end)
		return false;
	for (size_t i = 0; i < x->nr; i++) {
		if (a[i].address != b[i].address || a[i].line != b[i].line || !a[i].path != !b[i].path ||
		    (a[i].path && strcmp(a[i].path, b[i].path) != 0))
			return false;
		lines->compared_bytes += sizeof(a[i]) + (a[i].path ? strlen(a[i].path) : 0);
		if (lines->compared_bytes > most_compared_bytes)
			return false;
	}
	return true;
}

/* The same code may come from other lines: of a source that was changed in its comments, say. */
static void compare_functions(struct bpf_lines *lines)
{
	size_t nr = 0;

	for (size_t i = 0; i < lines->nr; i++) {
		struct function *last = nr ? &lines->functions[nr - 1] : NULL;
		if (last && function_compare(last, &lines->functions[i]) == 0)
			last->differs = last->differs || !rows_equal(lines, last, &lines->functions[i]);
		else
			lines->functions[nr++] = lines->functions[i];
	}
	lines->nr = nr;
}

struct bpf_lines *bpf_lines_read(struct session *session)
{
	struct span progs, btfs;
	struct feature_list list;
	struct feature_bpf_prog prog;

	if (!session_feature(session, FEATURE_BPF_PROG_INFO, &progs) ||
	    !session_feature(session, FEATURE_BPF_BTF, &btfs) || feature_list_open(progs, &list))
		return NULL;
	struct bpf_lines *lines = calloc(1, sizeof(*lines));
	bool has_btfs = lines && read_btfs(lines, btfs);
	while (lines && has_btfs && feature_list_bpf_prog(&list, &prog) > 0)
		add_program(lines, &prog);
	if (lines && lines->nr) {
		qsort(lines->functions, lines->nr, sizeof(*lines->functions), function_compare);
		compare_functions(lines);
	}
	if (lines) {
		free(lines->btfs);
		lines->btfs = NULL;
	}
	return lines;
}

void bpf_lines_free(struct bpf_lines *lines)
{
	if (!lines)
		return;
	while (lines->programs) {
		struct program *program = lines->programs;
		lines->programs = program->next;
		free(program);
	}
	free(lines->functions);
	free(lines);
}

/* "bpf_prog_", and the tag in hexadecimal digits. false: it is no name of a program. */
static bool read_tag(const char *name, uint8_t ret[BPF_TAG_SIZE])
{
	static const char front[] = "bpf_prog_";
	const char *at = name + sizeof(front) - 1;

	if (strncmp(name, front, sizeof(front) - 1) != 0)
		return false;
	for (unsigned i = 0; i < BPF_TAG_SIZE; i++, at += 2)
		if (!isxdigit((unsigned char)at[0]) || sscanf(at, "%2hhx", &ret[i]) != 1)
			return false;
	return true;
}

bool bpf_lines_find(const struct bpf_lines *lines, const char *name, uint64_t start, uint64_t address,
		    const char **ret_path, unsigned *ret_line)
{
	struct function wanted = {.start = start};
	const struct function *found = NULL;

	if (lines->nr && read_tag(name, wanted.tag))
		found = bsearch(&wanted, lines->functions, lines->nr, sizeof(wanted), function_compare);
	const struct row *row = found && !found->differs ? find_row(found, address) : NULL;

	if (!row || !row->path)
		return false;
	*ret_path = row->path;
	*ret_line = row->line;
	return true;
}
