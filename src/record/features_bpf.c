/* SPDX-License-Identifier: MIT */
/*
 * BPF_PROG_INFO and BPF_BTF: the programs that are loaded, and the types that name their functions.
 * Source: bpf(2), <linux/bpf.h>; which arrays of a program are stored, and how: files of perf 6.1.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "format/feature.h"
#include "record/bpf_object.h"
#include "record/features_host.h"

/* An array that the info points to. */
struct info_array {
	unsigned bit;          /* in the entry's word of arrays */
	size_t pointer, count; /* where in the info */
	size_t element_at;     /* where in the info its size is; or 0: */
	uint32_t element_bytes;
};

#define AT(field) offsetof(struct bpf_prog_info, field)

/*
 * What perf stores; bits 1 and 2 are the instructions before compilation and the maps, which it leaves
 * out.
 */
static const struct info_array arrays[] = {
	{0, AT(jited_prog_insns), AT(jited_prog_len), 0, 1},
	{3, AT(jited_ksyms), AT(nr_jited_ksyms), 0, sizeof(uint64_t)},
	{4, AT(jited_func_lens), AT(nr_jited_func_lens), 0, sizeof(uint32_t)},
	{5, AT(func_info), AT(nr_func_info), AT(func_info_rec_size), 0},
	{6, AT(line_info), AT(nr_line_info), AT(line_info_rec_size), 0},
	{7, AT(jited_line_info), AT(nr_jited_line_info), AT(jited_line_info_rec_size), 0},
	{8, AT(prog_tags), AT(nr_prog_tags), 0, BPF_TAG_SIZE},
};
#define NR_ARRAYS (sizeof(arrays) / sizeof(arrays[0]))

static uint32_t info_u32(const struct bpf_prog_info *info, size_t at)
{
	uint32_t value;

	memcpy(&value, (const char *)info + at, sizeof(value));
	return value;
}

static uint64_t array_bytes(const struct bpf_prog_info *info, const struct info_array *array)
{
	uint64_t element = array->element_at ? info_u32(info, array->element_at) : array->element_bytes;

	return element * info_u32(info, array->count);
}

static void copy_field(struct bpf_prog_info *to, const struct bpf_prog_info *from, size_t at)
{
	if (at)
		memcpy((char *)to + at, (const char *)from + at, sizeof(uint32_t));
}

/*
 * Asks for the arrays, each at a multiple of 8 in `data`. The pointers of the answer become offsets. The
 * program may have been replaced meanwhile: an answer that counts more than was asked for is -EAGAIN.
 */
static int prog_read_arrays(int fd, const struct bpf_prog_info *sizes, struct buf *data,
			    struct bpf_prog_info *ret)
{
	uint64_t offsets[NR_ARRAYS];
	struct bpf_prog_info info = {0};

	for (size_t i = 0; i < NR_ARRAYS; i++) {
		offsets[i] = data->len;
		if (array_bytes(sizes, &arrays[i]) > BPF_OBJECT_MAX_BYTES)
			return -EFBIG;
		buf_extend(data, array_bytes(sizes, &arrays[i]));
		buf_align(data, 8);
	}
	if (data->failed)
		return -ENOMEM;
	for (size_t i = 0; i < NR_ARRAYS; i++) {
		uint64_t to = (uint64_t)(uintptr_t)(data->data + offsets[i]);
		copy_field(&info, sizes, arrays[i].count);
		copy_field(&info, sizes, arrays[i].element_at);
		memcpy((char *)&info + arrays[i].pointer, &to, sizeof(to));
	}
	int len = bpf_object_info(fd, &info, sizeof(info));
	if (len < 0)
		return len;
	for (size_t i = 0; i < NR_ARRAYS; i++) {
		if (array_bytes(&info, &arrays[i]) > array_bytes(sizes, &arrays[i]))
			return -EAGAIN;
		memcpy((char *)&info + arrays[i].pointer, &offsets[i], sizeof(offsets[i]));
	}
	*ret = info;
	return len;
}

/* Appends the entry of a program. 0, or -errno when it cannot be described. */
static int put_prog(uint32_t id, struct buf *out)
{
	AUTO_FD int fd = bpf_object_open_program(id);
	struct bpf_prog_info sizes = {0}, info;
	AUTO_BUF struct buf data = {0};

	if (fd < 0)
		return fd;
	int len = bpf_object_info(fd, &sizes, sizeof(sizes));
	if (len >= 0)
		len = prog_read_arrays(fd, &sizes, &data, &info);
	if (len < 0)
		return len;

	struct feature_bpf_prog prog = {.info = {&info, (size_t)len}, .data = buf_span(&data)};
	for (size_t i = 0; i < NR_ARRAYS; i++)
		prog.arrays |= 1u << arrays[i].bit;
	feature_put_bpf_prog(&prog, out);
	return 0;
}

static int put_btf(uint32_t id, struct buf *out)
{
	AUTO_BUF struct buf data = {0};
	int err = bpf_object_read_btf(id, &data);

	if (!err)
		feature_put_bpf_btf(&(struct feature_bpf_btf){.id = id, .data = buf_span(&data)}, out);
	return err;
}

/* The BTF of a program; 0: it has none. */
static uint32_t prog_btf_id(uint32_t id)
{
	AUTO_FD int fd = bpf_object_open_program(id);
	struct bpf_prog_info info = {0};

	return fd >= 0 && bpf_object_info(fd, &info, sizeof(info)) >= 0 ? info.btf_id : 0;
}

/* Puts a count in the place that was left for it at `at`. */
static int set_count(struct buf *out, size_t at, uint32_t nr)
{
	if (out->failed)
		return -ENOMEM;
	memcpy(out->data + at, &nr, sizeof(nr));
	return 1;
}

/* A program that goes away, or that may not be looked at, is left out. */
int features_host_bpf_progs(struct buf *out)
{
	size_t count_at = out->len;
	uint32_t nr = 0;

	buf_put_u32(out, 0);
	for (uint32_t id = 0; bpf_object_next_program(&id) == 0;)
		nr += put_prog(id, out) == 0;
	return set_count(out, count_at, nr);
}

static bool seen_before(const struct buf *seen, uint32_t id)
{
	for (size_t at = 0; at < seen->len; at += sizeof(id))
		if (!memcmp(seen->data + at, &id, sizeof(id)))
			return true;
	return false;
}

/* Programs of one object file share their BTF, which is stored once. */
int features_host_bpf_btf(struct buf *out)
{
	AUTO_BUF struct buf seen = {0};
	size_t count_at = out->len;
	uint32_t nr = 0;

	buf_put_u32(out, 0);
	for (uint32_t id = 0; bpf_object_next_program(&id) == 0;) {
		uint32_t btf = prog_btf_id(id);
		if (!btf || seen_before(&seen, btf))
			continue;
		buf_put_u32(&seen, btf);
		nr += put_btf(btf, out) == 0;
	}
	return set_count(out, count_at, nr);
}
