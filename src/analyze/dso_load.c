/* SPDX-License-Identifier: MIT */
/* Where the symbols of an object are looked for: the places of perf 6.1, in its order. */
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/dso.h"
#include "analyze/perfmap.h"
#include "base/cleanup.h"
#include "base/fd.h"

enum { PERFMAP_MAX_BYTES = 1 << 30 };

static void build_id_text(const struct elf_id *id, char text[2 * ELF_ID_MAX_BYTES + 1])
{
	for (unsigned i = 0; i < id->len; i++)
		snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
	text[2 * id->len] = '\0';
}

/* In a directory that is laid out as perf's cache. */
static char *copy_path(const char *directory, const struct elf_id *id, const char *leaf)
{
	char text[2 * ELF_ID_MAX_BYTES + 1], *path;

	if (!id->len || !directory)
		return NULL;
	build_id_text(id, text);
	return asprintf(&path, "%s/.build-id/%.2s/%s/%s", directory, text, text + 2, leaf) < 0 ? NULL : path;
}

/* Where perf keeps copies of what was recorded; with symfs, those below it. Source: perf-buildid-cache(1). */
static char *cache_path(const struct elf_id *id, const char *symfs, const char *leaf)
{
	const char *home = symfs[0] ? symfs : getenv("HOME");
	AUTO_FREE char *directory = NULL;

	if (!home || asprintf(&directory, "%s/.debug", home) < 0) {
		directory = NULL;
		return NULL;
	}
	return copy_path(directory, id, leaf);
}

static char *build_id_debug_path(const struct elf_id *id, const char *symfs)
{
	char text[2 * ELF_ID_MAX_BYTES + 1], *path;

	if (!id->len)
		return NULL;
	build_id_text(id, text);
	if (asprintf(&path, "%s/usr/lib/debug/.build-id/%.2s/%s.debug", symfs, text, text + 2) < 0)
		return NULL;
	return path;
}

static bool is_regular(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* The file that .gnu_debuglink names: beside the object, in .debug below it, or under /usr/lib/debug. */
static char *debuglink_path(const struct dso *dso, const char *symfs)
{
	static const char *const forms[] = {"%s%.*s/%s", "%s%.*s/.debug/%s", "%s/usr/lib/debug%.*s/%s"};
	const char *slash = strrchr(dso->name, '/');
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *link = NULL;

	if (!slash || asprintf(&path, "%s%s", symfs, dso->name) < 0)
		return NULL;
	link = elf_file_debuglink(path);
	for (size_t i = 0; link && i < sizeof(forms) / sizeof(forms[0]); i++) {
		char *found;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		if (asprintf(&found, forms[i], symfs, (int)(slash - dso->name), dso->name, link) < 0)
			return NULL;
#pragma GCC diagnostic pop
		if (is_regular(found))
			return found;
		free(found);
	}
	return NULL;
}

static char *plain_path(const char *symfs, const char *before, const char *name, const char *behind)
{
	char *path;

	return asprintf(&path, "%s%s%s%s", symfs, before, name, behind) < 0 ? NULL : path;
}

enum place {
	PLACE_BUNDLE_DEBUG,
	PLACE_BUNDLE,
	PLACE_DEBUGLINK,
	PLACE_CACHE,
	PLACE_CACHE_DEBUG,
	PLACE_LIB_DEBUG_SUFFIX,
	PLACE_LIB_DEBUG,
	PLACE_BUILD_ID,
	PLACE_ITSELF,
	PLACE_LAST = PLACE_ITSELF,
};

/* On the heap; NULL: this place has none. */
static char *place_path(const struct dso *dso, const char *symfs, enum place place)
{
	bool vdso = dso->kind == DSO_VDSO;

	switch (place) {
	case PLACE_BUNDLE_DEBUG:
		return copy_path(dso->bundle, &dso->build_id, "debug");
	case PLACE_BUNDLE:
		return copy_path(dso->bundle, &dso->build_id, vdso ? "vdso" : "elf");
	case PLACE_DEBUGLINK:
		return vdso ? NULL : debuglink_path(dso, symfs);
	case PLACE_CACHE:
		return cache_path(&dso->build_id, symfs, vdso ? "vdso" : "elf");
	case PLACE_CACHE_DEBUG:
		return cache_path(&dso->build_id, symfs, "debug");
	case PLACE_LIB_DEBUG_SUFFIX:
		return vdso ? NULL : plain_path(symfs, "/usr/lib/debug", dso->name, ".debug");
	case PLACE_LIB_DEBUG:
		return vdso ? NULL : plain_path(symfs, "/usr/lib/debug", dso->name, "");
	case PLACE_BUILD_ID:
		return build_id_debug_path(&dso->build_id, symfs);
	case PLACE_ITSELF:
		return vdso ? NULL : plain_path(symfs, "", dso->name, "");
	}
	return NULL;
}

/* The vdso of this process; it is the recorded one when its build-id is. NULL: none. */
static void *vdso_image(size_t *ret_len)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);

	if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return NULL;
	/* Its section headers come last. */
	*ret_len = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	return (void *)(uintptr_t)header;
}

static int place_open(const struct dso *dso, const char *symfs, enum place place, struct elf_source *ret)
{
	size_t len;
	bool ours = dso->kind == DSO_VDSO && place == PLACE_ITSELF && !*symfs; /* --symfs: nothing of this machine */
	void *image = ours ? vdso_image(&len) : NULL;

	if (image)
		return elf_source_open_image(image, len, &dso->build_id, ret);
	AUTO_FREE char *path = place_path(dso, symfs, place);
	return path ? elf_source_open(path, &dso->build_id, ret) : -1;
}

/* The first file with a full symbol table gives the symbols, the first that can run gives PLT and segments.
 */
static void load_elf(struct dso *dso, const char *symfs)
{
	struct elf_source full = ELF_SOURCE_CLOSED, runtime = ELF_SOURCE_CLOSED;

	for (enum place place = 0; place <= PLACE_LAST && (!full.elf || !runtime.elf); place++) {
		struct elf_source source;
		if (place_open(dso, symfs, place, &source))
			continue;
		if (!full.elf && source.symtab) {
			bool both = !runtime.elf && source.dynsym;
			full = source;
			if (both && place_open(dso, symfs, place, &runtime))
				runtime = (struct elf_source)ELF_SOURCE_CLOSED;
		} else if (!runtime.elf && source.dynsym) {
			runtime = source;
		} else {
			elf_source_close(&source);
		}
	}
	const struct elf_source *from = full.elf ? &full : &runtime;
	if (from->elf)
		elf_symbols_load(&dso->symbols, from, runtime.elf ? &runtime : from);
	elf_source_close(&full);
	elf_source_close(&runtime);
}

static void load_perfmap(struct dso *dso)
{
	AUTO_BUF struct buf text = {0};
	struct perfmap_line line;

	if (fd_slurp(dso->name, PERFMAP_MAX_BYTES, &text))
		return;
	struct span rest = buf_span(&text);
	while (perfmap_next(&rest, &line))
		if (symbols_add(&dso->symbols, line.start, line.size, SYMBOL_GLOBAL, line.name,
				line.name_len))
			break;
	symbols_settle(&dso->symbols, SYMBOLS_KEEP_ALIASES);
}

static void find_build_id(struct dso *dso, const char *symfs)
{
	AUTO_FREE char *path = plain_path(symfs, "", dso->name, "");

	if (path && !dso->build_id.len)
		elf_file_build_id(path, &dso->build_id);
}

void dso_load(struct dso *dso, const char *symfs)
{
	if (dso->loaded)
		return;
	dso->loaded = true;
	switch (dso->kind) {
	case DSO_FILE:
		find_build_id(dso, symfs);
		load_elf(dso, symfs);
		break;
	case DSO_VDSO:
		load_elf(dso, symfs);
		break;
	case DSO_PERFMAP:
		load_perfmap(dso);
		break;
	default:
		break;
	}
}

/* The descriptor out of a source that is not needed otherwise; of an image a file in memory with the same
 * bytes. */
static int source_take_fd(struct elf_source *source)
{
	size_t len;
	const char *image = source->fd < 0 ? elf_rawfile(source->elf, &len) : NULL;
	int fd = source->fd;

	source->fd = -1;
	if (image) {
		fd = memfd_create("millrace-vdso", MFD_CLOEXEC);
		if (fd >= 0 && fd_write(fd, image, len)) {
			close(fd);
			fd = -1;
		}
	}
	elf_source_close(source);
	return fd;
}

int dso_open(const struct dso *dso, const char *symfs, enum dso_part part)
{
	static const enum place runtime[] = {PLACE_BUNDLE, PLACE_ITSELF, PLACE_CACHE};
	static const enum place debug[] = {PLACE_BUNDLE_DEBUG, PLACE_DEBUGLINK, PLACE_CACHE_DEBUG, PLACE_BUILD_ID};
	const enum place *places = part == DSO_RUNTIME ? runtime : debug;
	size_t nr =
		part == DSO_RUNTIME ? sizeof(runtime) / sizeof(runtime[0]) : sizeof(debug) / sizeof(debug[0]);
	struct elf_source source;

	if (dso->kind != DSO_FILE && dso->kind != DSO_VDSO)
		return -ENOENT;
	for (size_t i = 0; i < nr; i++) {
		int fd = place_open(dso, symfs, places[i], &source) ? -1 : source_take_fd(&source);
		if (fd >= 0)
			return fd;
	}
	return -ENOENT;
}
