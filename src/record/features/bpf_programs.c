/* SPDX-License-Identifier: MIT */
#include "record/features/bpf_programs.h"

#include <errno.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "perfdata/feature.h"
#include "sysinfo/bpf_object.h"

enum {
	MAX_KEPT = 1 << 16,
	MAX_KEPT_BYTES = 16 << 20, /* of programs, and of types */
};

/* Entries of a payload, each once. */
struct entries {
	struct hash_table ids;
	struct buf bytes;
};

struct bpf_programs {
	pthread_mutex_t lock; /* of all below */
	struct entries programs, types;
	size_t nr_left_out;
};

struct bpf_programs *bpf_programs_new(void)
{
	struct bpf_programs *programs = calloc(1, sizeof(*programs));

	if (programs)
		pthread_mutex_init(&programs->lock, NULL);
	return programs;
}

static void entries_fini(struct entries *entries)
{
	hash_table_fini(&entries->ids);
	buf_fini(&entries->bytes);
}

void bpf_programs_free(struct bpf_programs *programs)
{
	if (!programs)
		return;
	entries_fini(&programs->programs);
	entries_fini(&programs->types);
	pthread_mutex_destroy(&programs->lock);
	free(programs);
}

/* An array that the info points to. */
struct info_array {
	unsigned bit;          /* in the entry's word of arrays */
	size_t pointer, count; /* where in the info */
	size_t element_at;     /* where in the info its size is; or 0: */
	uint32_t element_bytes;
};

#define AT(field) offsetof(struct bpf_prog_info, field)

/*
 * What perf stores (source: files of perf 6.1); bits 1 and 2 are the instructions before compilation and the maps,
 * which it leaves out.
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
 * program may have been replaced between the calls: an answer that counts more than was asked for is -EAGAIN.
 */
static int prog_read_arrays(int fd, const struct bpf_prog_info *sizes, struct buf *data, struct bpf_prog_info *ret)
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
static int put_program(uint32_t id, struct buf *out, uint32_t *ret_types)
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
	*ret_types = info.btf_id;
	return 0;
}

static int put_types(uint32_t id, struct buf *out)
{
	AUTO_BUF struct buf data = {0};
	int err = bpf_object_read_btf(id, &data);

	if (!err)
		feature_put_bpf_btf(&(struct feature_bpf_btf){.id = id, .data = buf_span(&data)}, out);
	return err;
}

static bool entries_have(const struct entries *entries, uint32_t id)
{
	return hash_table_find(&entries->ids, id);
}

/* Out of memory: then the payload is none. */
static void entries_add(struct entries *entries, uint32_t id, const struct buf *entry)
{
	buf_put(&entries->bytes, entry->data, entry->len);
	if (entry->failed || hash_table_add_number(&entries->ids, id, 1))
		entries->bytes.failed = true;
}

static void keep(struct bpf_programs *programs, uint32_t id)
{
	AUTO_BUF struct buf program = {0};
	AUTO_BUF struct buf types = {0};
	uint32_t types_id = 0;

	if (entries_have(&programs->programs, id) || put_program(id, &program, &types_id))
		return;
	entries_add(&programs->programs, id, &program);
	/* Programs of one object file share them. */
	if (types_id && !entries_have(&programs->types, types_id) && !put_types(types_id, &types))
		entries_add(&programs->types, types_id, &types);
}

void bpf_programs_keep(struct bpf_programs *programs, uint32_t id)
{
	pthread_mutex_lock(&programs->lock);
	if (programs->programs.ids.nr < MAX_KEPT && programs->programs.bytes.len < MAX_KEPT_BYTES &&
	    programs->types.bytes.len < MAX_KEPT_BYTES)
		keep(programs, id);
	else
		programs->nr_left_out++;
	pthread_mutex_unlock(&programs->lock);
}

static void begin(struct bpf_programs *programs)
{
	if (!programs)
		return;
	pthread_mutex_lock(&programs->lock);
	if (programs->nr_left_out)
		log_note("%zu BPF programs that were loaded while recording have no source lines: more than %d MiB are "
			 "not kept",
			 programs->nr_left_out, MAX_KEPT_BYTES >> 20);
	programs->nr_left_out = 0;
}

static void end(struct bpf_programs *programs)
{
	if (programs)
		pthread_mutex_unlock(&programs->lock);
}

/* Appends the count, and what was kept. */
static void put_kept(const struct entries *kept, struct buf *out)
{
	buf_put_u32(out, (uint32_t)kept->ids.nr);
	buf_put(out, kept->bytes.data, kept->bytes.len);
	out->failed |= kept->bytes.failed;
}

/* Adds to the count, which is at `at`. */
static int add_count(struct buf *out, size_t at, uint32_t more)
{
	uint32_t nr;

	if (out->failed)
		return -ENOMEM;
	memcpy(&nr, out->data + at, sizeof(nr));
	nr += more;
	memcpy(out->data + at, &nr, sizeof(nr));
	return 1;
}

int bpf_programs_describe(struct bpf_programs *programs, struct buf *out)
{
	static const struct entries none;
	const struct entries *kept = programs ? &programs->programs : &none;
	size_t count_at = out->len;
	uint32_t nr = 0, types;

	begin(programs);
	put_kept(kept, out);
	for (uint32_t id = 0; bpf_object_next_program(&id) == 0;)
		if (!entries_have(kept, id))
			nr += put_program(id, out, &types) == 0;
	end(programs);
	return add_count(out, count_at, nr);
}

/* 0: it has none. */
static uint32_t types_of(uint32_t id)
{
	AUTO_FD int fd = bpf_object_open_program(id);
	struct bpf_prog_info info = {0};

	return fd >= 0 && bpf_object_info(fd, &info, sizeof(info)) >= 0 ? info.btf_id : 0;
}

int bpf_programs_describe_types(struct bpf_programs *programs, struct buf *out)
{
	static const struct entries none;
	const struct entries *kept = programs ? &programs->types : &none;
	struct hash_table seen = {0};
	size_t count_at = out->len;
	uint32_t nr = 0;

	begin(programs);
	put_kept(kept, out);
	for (uint32_t id = 0; bpf_object_next_program(&id) == 0;) {
		uint32_t types = types_of(id);
		if (!types || entries_have(kept, types) || hash_table_find(&seen, types))
			continue;
		if (hash_table_add_number(&seen, types, 1))
			out->failed = true;
		nr += put_types(types, out) == 0;
	}
	end(programs);
	hash_table_fini(&seen);
	return add_count(out, count_at, nr);
}
