/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/bpf_lines.h"

#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/btf.h"
#include "perfdata/feature.h"
#include "read/session.h"

/* Code from its address on. */
struct row {
	uint64_t address;
	const char *path; /* NULL: of no line, the end of a function */
	unsigned line;
};

struct bpf_lines {
	struct row *rows; /* heap; by address */
	size_t nr, room;
};

static bool add_row(struct bpf_lines *lines, const struct row *row)
{
	if (lines->nr == lines->room) {
		size_t room = lines->room ? lines->room * 2 : 64;
		struct row *rows = reallocarray(lines->rows, room, sizeof(*rows));
		if (!rows)
			return false;
		lines->rows = rows;
		lines->room = room;
	}
	lines->rows[lines->nr++] = *row;
	return true;
}

static bool add_ends(struct bpf_lines *lines, const struct feature_bpf_prog *prog, const struct bpf_prog_info *info)
{
	uint32_t nr = info->nr_jited_ksyms;
	struct cursor starts = feature_bpf_array(prog, info->jited_ksyms, nr, sizeof(uint64_t));
	struct cursor sizes = feature_bpf_array(prog, info->jited_func_lens, nr, sizeof(uint32_t));

	if (starts.bad || sizes.bad || nr != info->nr_jited_func_lens)
		return false;
	while (nr--) {
		const struct row end = {.address = cursor_u64(&starts) + cursor_u32(&sizes)};
		if (!add_row(lines, &end))
			return false;
	}
	return true;
}

static void add_program(struct bpf_lines *lines, const struct feature_bpf_prog *prog, struct span btfs)
{
	struct bpf_prog_info info = {0};

	memcpy(&info, prog->info.ptr, prog->info.len < sizeof(info) ? prog->info.len : sizeof(info));
	uint32_t nr = info.nr_jited_line_info;
	if (!nr || nr != info.nr_line_info || info.line_info_rec_size < sizeof(struct bpf_line_info) ||
	    info.jited_line_info_rec_size != sizeof(uint64_t))
		return;
	struct span btf = feature_find_btf(btfs, info.btf_id);
	struct cursor addresses = feature_bpf_array(prog, info.jited_line_info, nr, sizeof(uint64_t));
	struct cursor records = feature_bpf_array(prog, info.line_info, nr, info.line_info_rec_size);
	if (addresses.bad || records.bad || !add_ends(lines, prog, &info))
		return;
	while (nr--) {
		struct bpf_line_info record;
		memcpy(&record, cursor_take(&records, info.line_info_rec_size), sizeof(record));
		const struct row row = {cursor_u64(&addresses), btf_text(btf, record.file_name_off),
					BPF_LINE_INFO_LINE_NUM(record.line_col)};
		if (!add_row(lines, &row))
			return;
	}
}

/* What begins where another one ends comes after that. */
static int row_compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return !!x->path - !!y->path;
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
	while (lines && feature_list_bpf_prog(&list, &prog) > 0)
		add_program(lines, &prog, btfs);
	if (lines && lines->nr)
		qsort(lines->rows, lines->nr, sizeof(*lines->rows), row_compare);
	return lines;
}

void bpf_lines_free(struct bpf_lines *lines)
{
	if (!lines)
		return;
	free(lines->rows);
	free(lines);
}

bool bpf_lines_find(const struct bpf_lines *lines, uint64_t address, const char **ret_path, unsigned *ret_line)
{
	size_t low = 0, high = lines->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (lines->rows[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || !lines->rows[low - 1].path)
		return false;
	*ret_path = lines->rows[low - 1].path;
	*ret_line = lines->rows[low - 1].line;
	return true;
}
