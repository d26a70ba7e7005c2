/* SPDX-License-Identifier: MIT */
/* synth_kernel: where the kernel's text and its modules lie. */
#include "record/synth.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "record/elf_note.h"
#include "record/synth_record.h"

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
static void put_kernel_map(const struct synth_params *params, const struct record_mmap *map, const char *name, int id_bytes,
			   const uint8_t id[ELF_NOTE_BUILD_ID_MAX], struct buf *out)
{
	struct record_mmap2 record = {.prot = PROT_EXEC, .flags = MAP_PRIVATE};

	if (id_bytes <= 0) {
		synth_put(out, map, sizeof(*map), synth_name(name), params->trailer_bytes);
		return;
	}
	memcpy(&record, map, sizeof(*map));
	record.header.type = PERF_RECORD_MMAP2;
	record.header.misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
	record.maj = (uint8_t)id_bytes; /* one byte, then three that are reserved */
	memcpy((uint8_t *)&record + offsetof(struct record_mmap2, min), id, (size_t)id_bytes);
	synth_put(out, &record, sizeof(record), synth_name(name), params->trailer_bytes);
}

/*
 * How long the kernel's text is, as /proc/iomem tells root: to find its last symbol takes longer than all else that is done
 * before a recording. x86 ends the code there at _etext (arch/x86/kernel/setup.c), others elsewhere: 0, as for users.
 */
static uint64_t kernel_code_bytes(void)
{
	AUTO_BUF struct buf text = {0};
	struct utsname names;
	uint64_t first, last;

	if (uname(&names) || strcmp(names.machine, "x86_64") || fd_slurp("/proc/iomem", IOMEM_MAX_BYTES, &text))
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
	int err = synth_kallsyms_each(kernel_text_visit, &kernel);
	uint64_t start = kernel.text ? kernel.text : kernel.stext;

	if (err < 0)
		return err;
	if (start == 0)
		return -ENOENT;
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
		if (nr == room) {
			room = room ? 2 * room : 64;
			struct module *grown = reallocarray(modules, room, sizeof(*modules));
			if (!grown)
				return -ENOMEM;
			modules = grown;
		}
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

int synth_modules_text(const struct synth_params *params, const char *modules_text, const char *dep,
		       const char *dir, struct buf *out)
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
	return err ? err : synth_status(out);
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

	return modules_err ? modules_err : err ? err : synth_status(out);
}
