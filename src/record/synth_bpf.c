/* SPDX-License-Identifier: MIT */
/*
 * synth_bpf: the BPF programs that are loaded, as the kernel would have told when they were.
 * Source: bpf(2); <linux/bpf.h> struct bpf_prog_info; Documentation/bpf/btf.rst for the names.
 */
#include "record/synth.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "record/bpf_object.h"
#include "record/synth_record.h"

enum {
	FUNCS_MAX = 1 << 16,     /* functions of one program */
	KSYM_NAME_BYTES = 512,   /* KSYM_NAME_LEN of the kernel */
};

/* A loaded program, as far as it becomes records. */
struct program {
	struct bpf_prog_info info;
	uint64_t *addrs; /* heap; of each function */
	uint32_t *lens;  /* heap; bytes of code */
	uint8_t *tags;   /* heap; BPF_TAG_SIZE bytes of each function, a hash of its code */
	uint8_t *funcs;  /* heap; info.nr_func_info records of info.func_info_rec_size */
	struct buf btf;  /* empty: the program has no types */
};

static void program_fini(struct program *program)
{
	free(program->addrs);
	free(program->lens);
	free(program->tags);
	free(program->funcs);
	buf_fini(&program->btf);
}

/* Reads what the kernel tells of the program. -EOPNOTSUPP: nothing that could be hit by a sample. */
static int program_read(int fd, struct program *ret)
{
	struct bpf_prog_info sizes = {0};
	int err = bpf_object_info(fd, &sizes, sizeof(sizes));

	if (err < 0)
		return err;
	if (sizes.nr_jited_ksyms == 0 || sizes.nr_jited_ksyms > FUNCS_MAX ||
	    sizes.nr_jited_func_lens != sizes.nr_jited_ksyms || sizes.nr_prog_tags != sizes.nr_jited_ksyms)
		return -EOPNOTSUPP;
	if (sizes.nr_func_info != sizes.nr_jited_ksyms ||
	    sizes.func_info_rec_size < sizeof(struct bpf_func_info))
		sizes.nr_func_info = 0;
	ret->addrs = calloc(sizes.nr_jited_ksyms, sizeof(*ret->addrs));
	ret->lens = calloc(sizes.nr_jited_ksyms, sizeof(*ret->lens));
	ret->tags = calloc(sizes.nr_jited_ksyms, BPF_TAG_SIZE);
	ret->funcs = calloc(sizes.nr_func_info + 1, sizes.func_info_rec_size + 1);
	if (!ret->addrs || !ret->lens || !ret->tags || !ret->funcs)
		return -ENOMEM;
	ret->info = (struct bpf_prog_info){
		.nr_jited_ksyms = sizes.nr_jited_ksyms,
		.jited_ksyms = (uint64_t)(uintptr_t)ret->addrs,
		.nr_jited_func_lens = sizes.nr_jited_ksyms,
		.jited_func_lens = (uint64_t)(uintptr_t)ret->lens,
		.nr_prog_tags = sizes.nr_jited_ksyms,
		.prog_tags = (uint64_t)(uintptr_t)ret->tags,
		.nr_func_info = sizes.nr_func_info,
		.func_info = sizes.nr_func_info ? (uint64_t)(uintptr_t)ret->funcs : 0,
		.func_info_rec_size = sizes.nr_func_info ? sizes.func_info_rec_size : 0,
	};
	err = bpf_object_info(fd, &ret->info, sizeof(ret->info));
	/* the second answer counts what there is, which is not more than what was asked for */
	if (err < 0 || ret->info.nr_jited_ksyms != sizes.nr_jited_ksyms || ret->addrs[0] == 0)
		return err < 0 ? err : -EOPNOTSUPP; /* no addresses for us: kptr_restrict */
	if (ret->info.btf_id && sizes.nr_func_info && bpf_object_read_btf(ret->info.btf_id, &ret->btf))
		ret->btf.len = 0;
	return 0;
}

/* Bytes behind struct btf_type, by kind. */
static size_t btf_tail_bytes(uint32_t info)
{
	size_t vlen = BTF_INFO_VLEN(info);

	switch (BTF_INFO_KIND(info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return 4;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_DATASEC:
	case BTF_KIND_ENUM64:
		return 12 * vlen;
	case BTF_KIND_ENUM:
	case BTF_KIND_FUNC_PROTO:
		return 8 * vlen;
	default:
		return 0;
	}
}

const char *synth_btf_name(struct span btf, uint32_t type_id)
{
	struct cursor all = cursor_over(btf);
	struct btf_header header;
	struct btf_type type = {0};

	cursor_copy(&all, &header, sizeof(header));
	if (all.bad || header.magic != BTF_MAGIC || header.hdr_len > btf.len)
		return NULL;
	size_t room = btf.len - header.hdr_len;
	const uint8_t *body = (const uint8_t *)btf.ptr + header.hdr_len;
	if (header.type_off > room || header.type_len > room - header.type_off || header.str_off > room ||
	    header.str_len > room - header.str_off)
		return NULL;

	struct cursor types = cursor_over((struct span){body + header.type_off, header.type_len});
	for (uint32_t id = 1; id <= type_id && !types.bad; id++) {
		cursor_copy(&types, &type, sizeof(type));
		cursor_take(&types, btf_tail_bytes(type.info));
	}
	struct cursor strings = cursor_over((struct span){body + header.str_off, header.str_len});
	cursor_take(&strings, type.name_off);
	const char *name = cursor_string(&strings, cursor_left(&strings));

	return types.bad || strings.bad || type_id == 0 || !*name ? NULL : name;
}

/* "bpf_prog_", the function's tag, and what the function is called: as the kernel names it in kallsyms. */
static void function_name(const struct program *program, uint32_t i, char ret[KSYM_NAME_BYTES])
{
	const struct bpf_prog_info *info = &program->info;
	int len = snprintf(ret, KSYM_NAME_BYTES, "bpf_prog_");
	const char *name = NULL;

	for (unsigned b = 0; b < BPF_TAG_SIZE; b++)
		len += snprintf(ret + len, KSYM_NAME_BYTES - (size_t)len, "%02x",
				program->tags[(size_t)i * BPF_TAG_SIZE + b]);
	if (program->btf.len) {
		struct bpf_func_info func;
		memcpy(&func, program->funcs + (size_t)i * info->func_info_rec_size, sizeof(func));
		name = synth_btf_name(buf_span(&program->btf), func.type_id);
	} else if (info->nr_jited_ksyms == 1) {
		name = info->name[0] ? info->name : NULL;
	} else {
		name = "F";
	}
	if (name)
		snprintf(ret + len, KSYM_NAME_BYTES - (size_t)len, "_%.*s", BPF_OBJ_NAME_LEN * 16, name);
}

static void put_program(const struct synth_params *params, const struct program *program, struct buf *out)
{
	struct record_bpf_event event = {
		.header = {.type = PERF_RECORD_BPF_EVENT},
		.type = PERF_BPF_EVENT_PROG_LOAD,
		.id = program->info.id,
	};
	char name[KSYM_NAME_BYTES];

	for (uint32_t i = 0; i < program->info.nr_jited_ksyms; i++) {
		struct record_ksymbol record = {
			.header = {.type = PERF_RECORD_KSYMBOL},
			.addr = program->addrs[i],
			.len = program->lens[i],
			.ksym_type = PERF_RECORD_KSYMBOL_TYPE_BPF,
		};

		function_name(program, i, name);
		synth_put(out, &record, sizeof(record), synth_name(name), params->trailer_bytes);
	}
	memcpy(event.tag, program->info.tag, sizeof(event.tag));
	synth_put(out, &event, sizeof(event), (struct span){0}, params->trailer_bytes);
}

struct images {
	const struct synth_params *params;
	struct buf *out;
};

/* Trampolines and dispatchers are code as well, each one page; only kallsyms knows them. */
static int image_visit(const struct kallsyms_line *line, void *arg)
{
	struct images *images = arg;
	struct record_ksymbol record = {
		.header = {.type = PERF_RECORD_KSYMBOL},
		.addr = line->addr,
		.len = (uint32_t)sysconf(_SC_PAGESIZE),
		.ksym_type = PERF_RECORD_KSYMBOL_TYPE_BPF,
	};
	static const char trampoline[] = "bpf_trampoline_", dispatcher[] = "bpf_dispatcher_";

	if (line->module.len != 5 || memcmp(line->module.ptr, "[bpf]", 5) || line->addr == 0)
		return 0;
	if (line->name.len <= sizeof(trampoline) - 1 || line->name.len >= KSYM_NAME_BYTES ||
	    (memcmp(line->name.ptr, trampoline, sizeof(trampoline) - 1) &&
	     memcmp(line->name.ptr, dispatcher, sizeof(dispatcher) - 1)))
		return 0;
	synth_put(images->out, &record, sizeof(record), line->name, images->params->trailer_bytes);
	return 0;
}

int synth_bpf(const struct synth_params *params, struct buf *out)
{
	struct images images = {params, out};
	unsigned nr = 0;

	for (uint32_t id = 0;;) {
		int err = bpf_object_next_program(&id);

		if (err == -ENOENT) /* that was the last */
			break;
		if (err)
			return err;
		nr++;
		AUTO_FD int fd = bpf_object_open_program(id);
		if (fd < 0)
			continue; /* unloaded meanwhile */
		__attribute__((cleanup(program_fini))) struct program program = {0};
		err = program_read(fd, &program);
		if (err == -ENOMEM)
			return err;
		if (!err)
			put_program(params, &program, out);
	}
	/* without programs there are no images, and kallsyms is long */
	int err = nr ? synth_kallsyms_each(image_visit, &images) : 0;

	return err ? err : synth_status(out);
}
