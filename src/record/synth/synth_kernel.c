/* SPDX-License-Identifier: MIT */
/* synth_kernel: where the text of the kernel, its modules and its BPF programs lie. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "perfdata/btf.h"
#include "perfdata/record.h"
#include "record/synth/synth.h"
#include "record/synth/synth_private.h"
#include "sysinfo/bpf_object.h"
#include "sysinfo/elf_note.h"
#include "sysinfo/privileges.h"

enum { CHUNK_BYTES = 65536 };

struct kallsyms_line {
	uint64_t addr;
	struct span name, module; /* module: "[bpf]", "[ext4]"; empty: the kernel itself */
};

/* "ffffffff81000000 T _text" or "ffffffffc0001000 t helper\t[module]". false: no such line. */
static bool line_parse(const char *line, const char *end, struct kallsyms_line *ret)
{
	uint64_t addr = 0;
	const char *at = line;

	for (; at < end && *at != ' '; at++) {
		unsigned digit = *at >= 'a' ? (unsigned)(*at - 'a') + 10 : (unsigned)(*at - '0');
		if (digit > 15)
			return false;
		addr = addr << 4 | digit;
	}
	if (at == line || end - at < 4 || at[2] != ' ')
		return false;
	at += 3;
	const char *tab = memchr(at, '\t', (size_t)(end - at));
	const char *name_end = tab ? tab : end;

	*ret = (struct kallsyms_line){.addr = addr, .name = {at, (size_t)(name_end - at)}};
	if (tab)
		ret->module = (struct span){tab + 1, (size_t)(end - tab - 1)};
	return true;
}

/* Visits the whole lines of the text. *ret_used: bytes of them. */
static int lines_visit(struct span text, int (*visit)(const struct kallsyms_line *, void *), void *arg,
		       size_t *ret_used)
{
	const char *start = text.ptr, *line = start, *end = start + text.len, *newline;
	struct kallsyms_line parsed;
	int stop = 0;

	while (!stop && line < end && (newline = memchr(line, '\n', (size_t)(end - line)))) {
		if (line_parse(line, newline, &parsed))
			stop = visit(&parsed, arg);
		line = newline + 1;
	}
	*ret_used = (size_t)(line - start);
	return stop;
}

/*
 * Calls `visit` for each line of /proc/kallsyms until it returns something else than 0, which is the result
 * (0 at the end). -errno when the file cannot be read.
 */
static int kallsyms_each(int (*visit)(const struct kallsyms_line *line, void *arg), void *arg)
{
	AUTO_FD int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	AUTO_FREE char *text = malloc(CHUNK_BYTES);
	size_t kept = 0, used;

	if (fd < 0)
		return -errno;
	if (!text)
		return -ENOMEM;
	for (;;) {
		ssize_t got = read(fd, text + kept, CHUNK_BYTES - kept);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : 0;
		kept += (size_t)got;
		int stop = lines_visit((struct span){text, kept}, visit, arg, &used);
		if (stop)
			return stop;
		if (used == 0 && kept == CHUNK_BYTES)
			return -EBADMSG; /* a line of 64 KiB is none */
		kept -= used;
		memmove(text, text + used, kept);
	}
}

enum { MODULES_MAX_BYTES = 1 << 22, DEP_MAX_BYTES = 1 << 26, IOMEM_MAX_BYTES = 1 << 20 };

#define KERNEL_PID UINT32_MAX /* -1: whom the kernel's own maps belong to */

static bool span_is(struct span text, const char *word)
{
	return text.len == strlen(word) && !memcmp(text.ptr, word, text.len);
}

struct kernel_text {
	uint64_t text, stext, etext; /* 0: not seen */
	uint64_t bytes;              /* from text to etext; 0: not known */
};

static int kernel_text_visit(const struct kallsyms_line *line, void *arg)
{
	struct kernel_text *kernel = arg;

	if (line->module.len)
		return 0;
	if (!kernel->text && span_is(line->name, "_text"))
		kernel->text = line->addr;
	else if (!kernel->stext && span_is(line->name, "_stext"))
		kernel->stext = line->addr;
	else if (!kernel->etext && span_is(line->name, "_etext"))
		kernel->etext = line->addr;
	if (kernel->bytes && kernel->text)
		kernel->etext = kernel->text + kernel->bytes;
	/* the symbols are in the order of their addresses: nothing of interest comes behind */
	return kernel->etext != 0;
}

/* With a build-id of `id_bytes` (<= 0: none) it is the longer record, which has room for one. */
static void put_kernel_map(const struct synth_params *params, const struct record_mmap *map, const char *name,
			   int id_bytes, const uint8_t id[ELF_NOTE_BUILD_ID_MAX], struct buf *out)
{
	struct record_mmap2 record = {.prot = PROT_EXEC, .flags = MAP_PRIVATE};

	if (id_bytes <= 0) {
		record_put(out, map, sizeof(*map), span_of_text(name), params->trailer_bytes);
		return;
	}
	memcpy(&record, map, sizeof(*map));
	record.header.type = PERF_RECORD_MMAP2;
	record.header.misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
	record.maj = (uint8_t)id_bytes; /* one byte, then three that are reserved */
	memcpy((uint8_t *)&record + offsetof(struct record_mmap2, min), id, (size_t)id_bytes);
	record_put(out, &record, sizeof(record), span_of_text(name), params->trailer_bytes);
}

/*
 * How long the kernel's text is, as /proc/iomem tells root: to find its last symbol takes longer than all else that is
 * done before a recording. x86 ends the code there at _etext (arch/x86/kernel/setup.c), others elsewhere: 0, as for
 * users.
 */
static uint64_t kernel_code_bytes(void)
{
	AUTO_BUF struct buf text = {0};
	struct utsname names;
	uint64_t first, last;

	if (uname(&names) || strcmp(names.machine, "x86_64"))
		return 0;
	bool borrowed = privileges_borrow_admin(); /* without it all addresses are 0 */
	int err = fd_slurp("/proc/iomem", IOMEM_MAX_BYTES, &text);
	if (borrowed)
		privileges_return_admin();
	if (err)
		return 0;
	const char *words = strstr(buf_text(&text), " : Kernel code\n");
	const char *line = words;
	while (line && line > buf_text(&text) && line[-1] != '\n')
		line--;
	return line && sscanf(line, "%" SCNx64 "-%" SCNx64, &first, &last) == 2 && last > first ? last - first + 1 : 0;
}

static int put_kernel_text(const struct synth_params *params, struct buf *out)
{
	struct kernel_text kernel = {.bytes = kernel_code_bytes()};
	int err = kallsyms_each(kernel_text_visit, &kernel);
	uint64_t start = kernel.text ? kernel.text : kernel.stext;

	if (err < 0)
		return err;
	if (start == 0)
		return -ENODATA;
	/* an unknown end reaches to the top: the modules' own records, which follow, cut it */
	struct record_mmap record = {
		.header = {.type = PERF_RECORD_MMAP, .misc = PERF_RECORD_MISC_KERNEL},
		.pid = KERNEL_PID,
		.addr = start,
		.len = (kernel.etext > start ? kernel.etext : UINT64_MAX) - start,
		.pgoff = start, /* of the symbol in the name: readers see by it how far it was moved */
	};
	const char *name = kernel.text ? "[kernel.kallsyms]_text" : "[kernel.kallsyms]_stext";

	uint8_t id[ELF_NOTE_BUILD_ID_MAX];
	put_kernel_map(params, &record, name, params->build_ids ? elf_note_of_kernel(id) : 0, id, out);
	return 0;
}

struct module {
	uint64_t addr, bytes;
	char name[64]; /* MODULE_NAME_LEN of the kernel */
	char *path;    /* heap; NULL: no file known */
};

static void modules_free(struct module *modules, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		free(modules[i].path);
	free(modules);
}

static int module_by_addr(const void *a, const void *b)
{
	const struct module *left = a, *right = b;

	return (left->addr > right->addr) - (left->addr < right->addr);
}

static int module_by_name(const void *a, const void *b)
{
	return strcmp(((const struct module *)a)->name, ((const struct module *)b)->name);
}

/*
 * "name size refs deps state 0xaddress": proc(5). false: no such line, or an address that is not told. `line`
 * ends with its newline or the text's NUL.
 */
static bool module_parse(const char *line, struct module *ret)
{
	*ret = (struct module){0};

	int nr = sscanf(line, "%63s %" SCNu64 " %*s %*s %*s %" SCNx64, ret->name, &ret->bytes, &ret->addr);

	return nr == 3 && ret->addr != 0;
}

static int modules_parse(const char *text, struct module **ret, size_t *ret_nr)
{
	AUTO_FREE struct module *modules = NULL;
	size_t nr = 0, room = 0;

	while (*text) {
		if (array_room(modules, nr, room))
			return -ENOMEM;
		nr += module_parse(text, &modules[nr]);
		text = strchrnul(text, '\n');
		text += *text == '\n';
	}
	*ret = take_ptr(modules);
	*ret_nr = nr;
	return 0;
}

/* "kernel/fs/snd-pcm.ko.xz" -> "snd_pcm". Returns whether it is the file of a module at all. */
static bool module_name_of(struct span path, char ret[64])
{
	const char *start = path.ptr, *end = start + path.len;
	size_t len = 0;

	for (const char *at = start; at < end; at++)
		start = *at == '/' ? at + 1 : start;
	for (; start < end && *start != '.' && len < 63; start++)
		ret[len++] = *start == '-' ? '_' : *start;
	ret[len] = '\0';
	return end - start >= 3 && !memcmp(start, ".ko", 3);
}

/* Gives the modules (sorted by name) the files that modules.dep lists: "path: what it needs". */
static int modules_locate(struct module *modules, size_t nr, const char *dep, const char *dir)
{
	while (*dep) {
		const char *end = strchrnul(dep, '\n');
		const char *colon = memchr(dep, ':', (size_t)(end - dep));
		struct span path = {dep, colon ? (size_t)(colon - dep) : 0};
		struct module key, *found = NULL;

		if (path.len > 0 && module_name_of(path, key.name))
			found = bsearch(&key, modules, nr, sizeof(key), module_by_name);
		if (found && !found->path && asprintf(&found->path, "%s/%.*s", dir, (int)path.len, dep) < 0) {
			found->path = NULL;
			return -ENOMEM;
		}
		dep = end + (*end == '\n');
	}
	return 0;
}

static void put_module(const struct synth_params *params, const struct module *module, struct buf *out)
{
	struct record_mmap record = {
		.header = {.type = PERF_RECORD_MMAP, .misc = PERF_RECORD_MISC_KERNEL},
		.pid = KERNEL_PID,
		.addr = module->addr,
		.len = module->bytes,
	};
	char plain[sizeof(module->name) + 2];

	snprintf(plain, sizeof(plain), "[%s]", module->name);
	uint8_t id[ELF_NOTE_BUILD_ID_MAX];
	put_kernel_map(params, &record, module->path ? module->path : plain,
		       params->build_ids ? elf_note_of_module(module->name, id) : 0, id, out);
}

int synth_modules_text(const struct synth_params *params, const char *modules_text, const char *dep, const char *dir,
		       struct buf *out)
{
	struct module *modules = NULL;
	size_t nr = 0;
	int err = modules_parse(modules_text, &modules, &nr);

	if (err)
		return err;
	if (nr > 0) { /* perf lists them in the order of their addresses */
		qsort(modules, nr, sizeof(*modules), module_by_name);
		err = modules_locate(modules, nr, dep, dir);
		qsort(modules, nr, sizeof(*modules), module_by_addr);
	}
	for (size_t i = 0; !err && i < nr; i++)
		put_module(params, &modules[i], out);
	modules_free(modules, nr);
	return err ? err : buf_status(out);
}

/* A kernel without modules, or one whose files are not here, is no error. */
static int put_modules(const struct synth_params *params, struct buf *out)
{
	AUTO_BUF struct buf modules = {0}, dep = {0};
	struct utsname name;
	char dir[sizeof(name.release) + 32], path[sizeof(dir) + 16];

	if (fd_slurp("/proc/modules", MODULES_MAX_BYTES, &modules) || modules.len == 0 || uname(&name))
		return 0;
	snprintf(dir, sizeof(dir), "/lib/modules/%s", name.release);
	snprintf(path, sizeof(path), "%s/modules.dep", dir);
	if (fd_slurp(path, DEP_MAX_BYTES, &dep))
		dep.len = 0;
	return synth_modules_text(params, buf_text(&modules), buf_text(&dep), dir, out);
}

int synth_kernel(const struct synth_params *params, struct buf *out)
{
	int err = put_kernel_text(params, out);

	if (err == -ENOMEM)
		return err;
	int modules_err = put_modules(params, out);

	return modules_err ? modules_err : err ? err : buf_status(out);
}

/*
 * The BPF programs that are loaded, as the kernel would have reported when they were.
 * Source: bpf(2); <linux/bpf.h> struct bpf_prog_info; Documentation/bpf/btf.rst for the names.
 */

enum {
	FUNCS_MAX = 1 << 16,   /* functions of one program */
	KSYM_NAME_BYTES = 512, /* KSYM_NAME_LEN of the kernel */
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
	if (sizes.nr_func_info != sizes.nr_jited_ksyms || sizes.func_info_rec_size < sizeof(struct bpf_func_info))
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
		name = btf_type_name(buf_span(&program->btf), func.type_id);
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
		record_put(out, &record, sizeof(record), span_of_text(name), params->trailer_bytes);
	}
	memcpy(event.tag, program->info.tag, sizeof(event.tag));
	record_put(out, &event, sizeof(event), (struct span){0}, params->trailer_bytes);
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
	record_put(images->out, &record, sizeof(record), line->name, images->params->trailer_bytes);
	return 0;
}

/* Source: callers of bpf_trampoline_get(), bpf_struct_ops_prepare_trampoline() and bpf_prog_change_xdp(). */
static bool may_have_image(uint32_t type)
{
	return type == BPF_PROG_TYPE_TRACING || type == BPF_PROG_TYPE_LSM || type == BPF_PROG_TYPE_EXT ||
	       type == BPF_PROG_TYPE_STRUCT_OPS || type == BPF_PROG_TYPE_XDP;
}

int synth_bpf(const struct synth_params *params, struct buf *out)
{
	struct images images = {params, out};
	bool any_image = false;

	for (uint32_t id = 0;;) {
		int err = bpf_object_next_program(&id);

		if (err == -ENOENT) /* that was the last */
			break;
		if (err)
			return err;
		AUTO_FD int fd = bpf_object_open_program(id);
		if (fd < 0)
			continue; /* it has been unloaded */
		__attribute__((cleanup(program_fini))) struct program program = {0};
		err = program_read(fd, &program);
		if (err == -ENOMEM)
			return err;
		any_image |= err || may_have_image(program.info.type);
		if (!err)
			put_program(params, &program, out);
	}
	/* kallsyms is long: 120,000 lines, 60 ms */
	int err = any_image ? kallsyms_each(image_visit, &images) : 0;

	return err ? err : buf_status(out);
}
