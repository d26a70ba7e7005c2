/* SPDX-License-Identifier: MIT */
/* Where the symbols of the recorded kernel and its modules come from. */
#include "analyze/symbols/dso_kernel.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "analyze/symbols/dso.h"
#include "analyze/symbols/elf.h"
#include "analyze/symbols/symbol_text.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/span.h"
#include "read/session.h"
#include "sysinfo/object_file.h"
#include "sysinfo/shortage.h"
#include "tasks/maps.h"

enum { KALLSYMS_MAX_BYTES = 1 << 28, MODULES_MAX_BYTES = 1 << 20 };

/* The running kernel's. Source: /sys/kernel/notes, Documentation/ABI/testing/sysfs-kernel-notes. */
static bool running_build_id(struct elf_id *ret)
{
	AUTO_BUF struct buf notes = {0};

	return fd_slurp("/sys/kernel/notes", 1 << 16, &notes) == 0 && elf_id_from_notes(notes.data, notes.len, ret);
}

/* NULL: the recording does not tell. */
static const char *recorded_release(const struct session *session)
{
	struct span payload;

	if (!session || !session_feature(session, FEATURE_OSRELEASE, &payload))
		return NULL;
	struct cursor cursor = cursor_over(payload);
	uint32_t len = cursor_u32(&cursor);
	return cursor_string(&cursor, len);
}

/* Whether this machine runs a kernel of the recorded release; true when the recording does not tell. */
static bool release_matches(const struct session *session)
{
	const char *release = recorded_release(session);
	struct utsname system;

	return !release || uname(&system) || strcmp(release, system.release) == 0;
}

static bool kernel_is_running(const struct kernel_image *image)
{
	const struct elf_id *recorded = &image->dso->build_id;
	struct elf_id running;

	if (recorded->len && running_build_id(&running))
		return elf_id_equal(recorded, &running);
	return release_matches(image->session);
}

/* A copy in a directory of that name in `home` that is laid out as perf's build-id cache. On the heap, or NULL. */
static char *cached_path(const char *home, const char *directory, const struct elf_id *id)
{
	char text[2 * ELF_ID_MAX_BYTES + 1] = "", *path;

	for (unsigned i = 0; i < id->len; i++)
		snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
	if (!home || !id->len || asprintf(&path, "%s%s/[kernel.kallsyms]/%s/kallsyms", home, directory, text) < 0)
		return NULL;
	if (access(path, R_OK) == 0)
		return path;
	free(path);
	return NULL;
}

/*
 * On the heap; NULL: there is none of that kernel, but in ~/.debug. *ret_live: it lists what runs now; else what was
 * recorded, or the user says so.
 */
static char *kallsyms_path(const struct kernel_image *image, bool *ret_live)
{
	*ret_live = false;
	if (image->options->kallsyms)
		return strdup(image->options->kallsyms);
	const struct elf_id *id = &image->dso->build_id;
	char *bundled = cached_path(image->bundle, "", id);
	if (bundled || (image->options->symfs && image->options->symfs[0]))
		return bundled;
	*ret_live = kernel_is_running(image);
	return *ret_live ? strdup("/proc/kallsyms") : NULL;
}

/* Functions and data of the kernel proper; perf leaves out the other types (see nm(1)). */
static bool type_counts(char type)
{
	return memchr("TWDB", toupper((unsigned char)type), 4) != NULL;
}

static enum symbol_binding type_binding(char type)
{
	if (type == 'W')
		return SYMBOL_WEAK;
	return isupper((unsigned char)type) ? SYMBOL_GLOBAL : SYMBOL_LOCAL;
}

/* Where this list has the symbol whose address was recorded. false: it has none such, or none was recorded. */
static bool find_reference(const struct kernel_image *image, struct span text, uint64_t *ret)
{
	struct kallsyms_line line;

	while (image->ref_address && kallsyms_next(&text, &line)) {
		if (!line.module && line.name_len == strlen(image->ref_name) &&
		    memcmp(line.name, image->ref_name, line.name_len) == 0) {
			*ret = line.address;
			return true;
		}
	}
	return false;
}

/* Came with the recording, or is where other programs write, too. 0 or -errno; -EINVAL: it is no regular file. */
static int slurp_copy(const char *path, struct buf *ret)
{
	AUTO_FD int fd = object_file_open(path, NULL);

	return fd < 0 ? fd : fd_slurp_rest(fd, KALLSYMS_MAX_BYTES, ret);
}

/* *ret_live: as kallsyms_path(). */
static bool kallsyms_read(const struct kernel_image *image, struct buf *ret, bool *ret_live)
{
	AUTO_FREE char *path = kallsyms_path(image, ret_live);

	if (!path)
		return false;
	/* What the user names may be a pipe. */
	int err = image->options->kallsyms ? fd_slurp(path, KALLSYMS_MAX_BYTES, ret) : slurp_copy(path, ret);
	if (err == -EMFILE || err == -ENFILE)
		shortage_note(err);
	if (err)
		log_note("kernel symbols: cannot read %s: %s", path,
			 err == -EINVAL ? "it is no regular file" : strerror(-err));
	return !err;
}

/* All addresses zero: this user may not see them (kernel.kptr_restrict). */
static bool kallsyms_hidden(struct span text)
{
	struct kallsyms_line line;

	for (int i = 0; i < 1000 && kallsyms_next(&text, &line); i++)
		if (line.address)
			return false;
	return true;
}

/* Whether it has all functions of the kernel. A copy may have been cut: its disk was full, or who wrote it was killed.
 */
static bool kallsyms_complete(struct span text)
{
	static const char last[] = " _etext\n";
	const char *bytes = text.ptr;

	return text.len && bytes[text.len - 1] == '\n' && memmem(bytes, text.len, last, sizeof(last) - 1);
}

/*
 * What record and perf keep of a kernel. While it runs it makes its own text anew for each who reads it: 120,000 lines
 * in 50 ms. The copy may be of another boot, so it has to tell where the kernel was; where modules are it does not
 * know.
 */
static bool read_copy(const struct kernel_image *image, struct buf *ret, uint64_t *ret_reference)
{
	const struct symbol_options *options = image->options;
	const char *home = options->symfs && options->symfs[0] ? NULL : getenv("HOME");
	const char *directory = options->cache ? options->cache : home;
	AUTO_FREE char *path = options->kallsyms
				       ? NULL
				       : cached_path(directory, options->cache ? "" : "/.debug", &image->dso->build_id);

	if (path && !slurp_copy(path, ret) && !kallsyms_hidden(buf_span(ret)) && kallsyms_complete(buf_span(ret)) &&
	    find_reference(image, buf_span(ret), ret_reference))
		return true;
	buf_fini(ret);
	return false;
}

/* The names stay where they were read, each with a NUL behind it. `shift`: of the list from the recording. */
static void add_lines(struct symbols *symbols, struct buf *text, uint64_t shift)
{
	const size_t bytes = text->len;
	struct kallsyms_line line;
	uint32_t at;

	buf_put_u8(text, '\0');
	if (symbols_take_names(symbols, text, &at))
		return;
	char *names = symbols->names + at;
	struct span rest = {names, bytes};
	while (kallsyms_next(&rest, &line)) {
		if (line.module || !type_counts(line.type))
			continue;
		size_t name = (size_t)(line.name - names);
		names[name + line.name_len] = '\0';
		if (symbols_add_named(symbols, line.address - shift, 0, type_binding(line.type), at + (uint32_t)name))
			break;
	}
	symbols_fixup(symbols, 0);
}

static void load_kallsyms(const struct kernel_image *image)
{
	AUTO_BUF struct buf text = {0};
	uint64_t reference = image->ref_address;
	bool live;

	if (!read_copy(image, &text, &reference)) {
		if (!kallsyms_read(image, &text, &live) || kallsyms_hidden(buf_span(&text)))
			return;
		find_reference(image, buf_span(&text), &reference);
	}
	add_lines(&image->dso->symbols, &text, reference - image->ref_address);
}

/* The address of the reference symbol in the file, to tell how far the running kernel was moved. */
static bool vmlinux_load(const struct kernel_image *image, const char *path, const struct elf_id *expect)
{
	struct dso *dso = image->dso;
	struct elf_source source;

	if (elf_source_open(path, expect, &source))
		return false;
	uint64_t in_file;
	uint64_t shift = image->ref_address && elf_symbol_address(&source, image->ref_name, &in_file)
				 ? in_file - image->ref_address
				 : 0;
	elf_symbols_load_kernel(&dso->symbols, &source, NULL, shift);
	elf_source_close(&source);
	if (!dso->symbols.nr)
		return false;
	dso->image_path = pool_text(&dso->symbols.pool, path, strlen(path));
	dso->image_shift = shift;
	return true;
}

/* By its build-id: what packages with debug information install, and what was downloaded or copied. */
static bool vmlinux_by_id(const struct kernel_image *image)
{
	bool found = false;

	for (unsigned i = 0; !found; i++) {
		AUTO_FREE char *path = NULL;
		if (!dso_debug_path(image->dso, i, &path))
			return false;
		found = path && vmlinux_load(image, path, &image->dso->build_id);
	}
	return true;
}

/* The last resort: it is large. */
static bool vmlinux_download(const struct kernel_image *image)
{
	struct dso *dso = image->dso;
	AUTO_FREE char *path = downloads_get(dso->table->downloads, &dso->build_id, DOWNLOAD_DEBUG, dso->short_name);

	return path && vmlinux_load(image, path, &dso->build_id);
}

/* Where distributions and builders put the image with symbols; only taken with the recorded build-id. */
static bool vmlinux_search(const struct kernel_image *image)
{
	static const char *const places[] = {"/boot/vmlinux-", "/usr/lib/debug/boot/vmlinux-",
					     "/usr/lib/debug/lib/modules/", "/lib/modules/"};
	static const char *const leaves[] = {"", "", "/vmlinux", "/build/vmlinux"};
	const struct elf_id *id = &image->dso->build_id;
	const char *release = recorded_release(image->session);
	struct utsname system;
	char path[512];

	if (!id->len || uname(&system))
		return false;
	if (!release || strchr(release, '/'))
		release = system.release;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s%.200s%s", places[i], release, leaves[i]);
		if (vmlinux_load(image, path, id))
			return true;
	}
	return vmlinux_by_id(image);
}

void dso_load_kernel(const struct kernel_image *image)
{
	const struct symbol_options *options = image->options;

	if (!options->kallsyms && !options->ignore_vmlinux) {
		if (options->vmlinux) {
			if (vmlinux_load(image, options->vmlinux, NULL))
				return;
			log_note("kernel symbols: %s is no kernel image with symbols", options->vmlinux);
		}
		if (!(options->symfs && options->symfs[0]) && vmlinux_search(image))
			return;
	}
	load_kallsyms(image);
	if (!image->dso->symbols.nr && !options->kallsyms && !options->ignore_vmlinux)
		vmlinux_download(image);
}

/* Whether a module of that name, "[name]", begins there now. Source: print_modules_proc() in kernel/module/procfs.c */
static bool module_is_at(const char *name, uint64_t start)
{
	AUTO_BUF struct buf text = {0};
	char loaded[64];
	uint64_t address;

	if (fd_slurp("/proc/modules", MODULES_MAX_BYTES, &text))
		return false;
	for (const char *line = buf_text(&text), *end; (end = strchrnul(line, '\n')) > line; line = end + (*end != 0))
		if (sscanf(line, "%63s %*s %*s %*s %*s %" SCNx64, loaded, &address) == 2 && address == start &&
		    strlen(loaded) + 2 == strlen(name) && memcmp(loaded, name + 1, strlen(loaded)) == 0)
			return true;
	return false;
}

/*
 * Whether the modules of this machine now are those that were recorded. The address of the reference symbol does not
 * tell: without KASLR it is the same at each boot, and on all machines with that kernel. Nor does the time of the file
 * alone: a pipe has none, a copy may have a later one, and a module may have been loaded again.
 */
static bool is_still_loaded(const struct kernel_image *image, const struct map *map)
{
	const struct dso *dso = map->object;
	const struct dso_table *table = dso->table;
	bool has_time = image->session && session_info(image->session)->mtime_ns;

	return !table->of_another_machine && (table->of_this_boot || !has_time) &&
	       module_is_at(dso->short_name, map->start);
}

/* A symbol of a module. */
struct module_line {
	uint64_t key; /* hash of the name of the module */
	size_t at;    /* in the text */
};

/* What the kernel lists of modules: it is made, and read, once for all of them. */
struct module_list {
	struct buf text; /* lines of modules */
	struct module_line *lines;
	size_t nr, room;
	bool live;          /* it lists what runs now */
	bool of_other_boot; /* at which modules were elsewhere, too */
};

static void module_list_free(struct module_list *list)
{
	if (!list)
		return;
	buf_fini(&list->text);
	free(list->lines);
	free(list);
}

void kernel_image_fini(struct kernel_image *image)
{
	free(image->ref_name);
	module_list_free(image->modules);
}

static int compare_lines(const void *a, const void *b)
{
	const struct module_line *left = a, *right = b;

	if (left->key != right->key)
		return left->key < right->key ? -1 : 1;
	return left->at < right->at ? -1 : left->at > right->at;
}

static int add_module_lines(struct module_list *list, struct span all)
{
	struct kallsyms_line line;

	for (const char *start = all.ptr; kallsyms_next(&all, &line); start = all.ptr) {
		if (!line.module)
			continue;
		if (array_room(list->lines, list->nr, list->room))
			return -ENOMEM;
		list->lines[list->nr++] =
			(struct module_line){hash_bytes(line.module, line.module_len), list->text.len};
		buf_put(&list->text, start, (size_t)((const char *)all.ptr - start));
	}
	if (list->nr)
		qsort(list->lines, list->nr, sizeof(*list->lines), compare_lines);
	return buf_status(&list->text);
}

/* An empty list if there is none. NULL: out of memory. */
static const struct module_list *module_list_of(struct kernel_image *image)
{
	AUTO_BUF struct buf text = {0};
	uint64_t reference = image->ref_address;

	if (image->modules)
		return image->modules;
	struct module_list *list = calloc(1, sizeof(*list));
	if (list && kallsyms_read(image, &text, &list->live)) {
		find_reference(image, buf_span(&text), &reference);
		list->of_other_boot = reference != image->ref_address;
		if (!list->of_other_boot && add_module_lines(list, buf_span(&text))) {
			module_list_free(list);
			return NULL;
		}
	}
	image->modules = list;
	return list;
}

/* Symbols of the module as the kernel listed them at that boot, as offsets from its start. */
static void module_from_kallsyms(struct kernel_image *image, const struct map *map)
{
	const struct module_list *list = image->dso ? module_list_of(image) : NULL;
	struct kallsyms_line line;
	struct dso *dso = map->object;
	const char *name = dso->short_name; /* "[name]" */
	const size_t len = strlen(name) > 2 ? strlen(name) - 2 : 0;
	const uint64_t key = hash_bytes(name + 1, len);
	size_t at = list && len ? partition_point(list->nr, i, list->lines[i].key < key) : 0;

	if (!list || !len || at == list->nr || list->lines[at].key != key ||
	    (list->live && !is_still_loaded(image, map)))
		return;
	for (; at < list->nr && list->lines[at].key == key; at++) {
		const size_t start = list->lines[at].at;
		struct span rest = {list->text.data + start, list->text.len - start};
		if (!kallsyms_next(&rest, &line) || !line.module || line.module_len != len ||
		    memcmp(line.module, name + 1, len) != 0 || !type_counts(line.type) || line.address < map->start ||
		    line.address >= map->end)
			continue;
		if (symbols_add(&dso->symbols, line.address - map->start + map->pgoff, 0, type_binding(line.type),
				line.name, line.name_len))
			break;
	}
	symbols_fixup(&dso->symbols, 0);
}

void dso_load_module(struct kernel_image *image, const struct map *map)
{
	const char *symfs = image->options->symfs ? image->options->symfs : "";
	struct dso *dso = map->object;
	const size_t nr_before = dso->symbols.nr; /* those of records */
	struct elf_source source;
	AUTO_FREE char *path = NULL;

	dso->loaded = true;
	if (dso->name[0] == '/' && asprintf(&path, "%s%s", symfs, dso->name) >= 0 &&
	    elf_source_open(path, &dso->build_id, &source) == 0) {
		elf_symbols_load_kernel(&dso->symbols, &source, ".text", 0);
		elf_source_close(&source);
	}
	if (dso->symbols.nr == nr_before)
		module_from_kallsyms(image, map);
}
