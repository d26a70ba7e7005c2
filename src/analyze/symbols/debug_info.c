/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/debug_info.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/dwarf/debug_ahead.h"
#include "analyze/dwarf/debug_functions.h"
#include "analyze/dwarf/dwarf.h"
#include "analyze/dwarf/elf_section.h"
#include "analyze/dwarf/line_cache.h"
#include "analyze/dwarf/line_table.h"
#include "analyze/dwarf/split_files.h"
#include "analyze/symbols/bpf_lines.h"
#include "analyze/symbols/dso.h"
#include "analyze/symbols/elf.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/pool.h"
#include "base/span.h"
#include "base/thread_pool.h"
#include "perfdata/feature.h"
#include "perfdata/object_id.h"
#include "read/session.h"
#include "sysinfo/elf_file.h"
#include "sysinfo/library.h"

/* Loaded when a kernel module is looked at: with what it needs it would slow the start of every command. */
static struct {
	__typeof__(dwarf_getelf) *dwarf_getelf;
	__typeof__(dwfl_begin) *dwfl_begin;
	__typeof__(dwfl_end) *dwfl_end;
	__typeof__(dwfl_module_getdwarf) *dwfl_module_getdwarf;
	__typeof__(dwfl_module_getelf) *dwfl_module_getelf;
	__typeof__(dwfl_offline_section_address) *dwfl_offline_section_address;
	__typeof__(dwfl_report_end) *dwfl_report_end;
	__typeof__(dwfl_report_offline) *dwfl_report_offline;
} libdw;

/* Nothing is looked for: what is to be read was opened before. */
static int find_nothing(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, const char *file,
			const char *link, GElf_Word checksum, char **ret_file)
{
	(void)module, (void)userdata, (void)name, (void)base, (void)file, (void)link, (void)checksum, (void)ret_file;
	return -1;
}

static bool libdw_loaded;
static Dwfl_Callbacks libdw_callbacks = {.find_debuginfo = find_nothing};

static void load_libdw(void)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(dwarf_getelf, &libdw.dwarf_getelf),
		LIBRARY_FUNCTION(dwfl_begin, &libdw.dwfl_begin),
		LIBRARY_FUNCTION(dwfl_end, &libdw.dwfl_end),
		LIBRARY_FUNCTION(dwfl_module_getdwarf, &libdw.dwfl_module_getdwarf),
		LIBRARY_FUNCTION(dwfl_module_getelf, &libdw.dwfl_module_getelf),
		LIBRARY_FUNCTION(dwfl_offline_section_address, &libdw.dwfl_offline_section_address),
		LIBRARY_FUNCTION(dwfl_report_end, &libdw.dwfl_report_end),
		LIBRARY_FUNCTION(dwfl_report_offline, &libdw.dwfl_report_offline),
	};

	libdw_loaded = library_load("libdw.so.1", functions, sizeof(functions) / sizeof(functions[0]));
	libdw_callbacks.section_address = libdw.dwfl_offline_section_address;
}

/* false: it is not installed. Any thread. */
static bool libdw_is_here(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_libdw);
	return libdw_loaded;
}

enum {
	MAX_OPEN = 32,   /* objects of a part */
	RECENT_BITS = 5, /* objects that are found without a lock */
	MOST_AHEAD = 64, /* files that debug information is looked for in, before it is needed */
	/* The kernel runs no program with more, and each address is looked for in them. Source: load_elf_phdrs() */
	MAX_SEGMENTS = (1 << 16) / sizeof(Elf64_Phdr),
	/* Debug information may be hostile: names and paths may overlap in it, and are copied. */
	MAX_PATH_BYTES = 2 * PATH_MAX,    /* a directory of the compiler, and a path from there */
	LONG_NAME_BYTES = 1024,           /* of inlined functions */
	MAX_LONG_NAMES_BYTES = 256 << 20, /* of all that are longer */
};

/* A section with code of a kernel module, or a segment of another object. */
struct code_part {
	uint64_t offset, bytes; /* in the map of the module, or in the file */
	uint64_t address;       /* where libdwfl or the linker has put it */
};

/* An object whose files are open. */
struct object {
	struct dso *dso;          /* NULL: not in use */
	struct line_cache *cache; /* borrowed; NULL: none */
	uint64_t used;            /* when last */
	int runtime_fd;           /* -1: none */
	Elf *runtime;             /* for its segments */
	struct dwarf *dwarf;      /* NULL: there is no debug information */
	Dwfl *dwfl;               /* that has relocated it: of kernel modules; else NULL */
	struct code_part *parts;  /* of modules by offset, of other objects in the order of the file */
	size_t nr_parts, parts_room;
	struct dwarf *alternate; /* what several objects have in common (dwz); NULL: none */
	bool is_whole;           /* of the index: one part has all units of it */
	char *paths[2];          /* of the two files; in the pool; NULL: none, or not known */
	struct split_files *split;
	struct debug_functions *functions; /* NULL: not needed yet, and so is split */
	struct hash_table tables;          /* struct line_table, by offset in the section */
	uint64_t line_bytes;               /* that may still be read for them */
	bool has_line_bytes;
	struct hash_table files; /* struct file_path, by unit and file */
	struct hash_table names; /* readable ones, by where the debug information has theirs */
};

/* Of a file of a unit. */
struct file_path {
	const struct dwarf_unit *unit;
	uint64_t file;
	const char *path; /* NULL: not known */
};

/* What was found at an address. */
struct line_answer {
	struct dso *dso;
	uint64_t address;
	unsigned frame;
	struct source_line line; /* path NULL: nothing */
};

/* What is known of the address that a line was asked for last: there are as many lines as functions inlined in it. */
struct line_place {
	struct dso *dso;      /* NULL: nothing */
	uint64_t address, at; /* at: as the debug information counts */
	struct object *object;
	struct dwarf_unit *unit;
	struct die root;
	const struct line_table *table; /* NULL: no line is known */
	bool has_scope;                 /* it was looked for */
	struct scope *scope;
};

/* What one thread at a time reads with: of objects that are not compressed some units, of others all. */
struct debug_part {
	struct debug_info *info;
	bool is_index;        /* it finds no more than units */
	pthread_mutex_t lock; /* of all below */
	struct object objects[MAX_OPEN];
	struct line_place last_line;
	uint64_t clock;
	uint64_t long_name_bytes; /* that there may still be */
	struct pool pool;         /* answers */
	struct hash_table lines, inlined;
};

/* What earlier runs have found in an object; also of one without debug information. */
struct known_object {
	const struct dso *dso;
	struct line_cache *cache;     /* owned; NULL: nothing is kept of the object */
	_Atomic(const char *) *texts; /* by number, the one of all; NULL: not needed yet */
};

/*
 * Texts and symbols that all parts and files have in common: what reads the same is the same, whether it was found in
 * debug information or before.
 */
struct shared {
	pthread_mutex_t lock; /* the innermost one */
	struct pool pool;
	struct hash_table texts;   /* by text */
	struct hash_table symbols; /* inlined ones, by their name and what they are in */
};

struct debug_info {
	const char *symfs;
	int inlines; /* as in symbol_options */
	bool no_demangle, keeps_lines;
	_Atomic(struct known_object *) recent[1 << RECENT_BITS]; /* of `known`: places by dso */
	pthread_mutex_t known_lock; /* of `known`; the next may be taken inside it, and it inside a part's */
	struct hash_table known;    /* struct known_object, by dso */
	struct pool known_pool;
	struct shared shared;
	pthread_mutex_t open_lock; /* while files are opened, and of what follows; it may be taken inside a part's */
	struct debug_ahead *ahead; /* NULL: nothing is unpacked ahead */
	struct debug_part index;
	unsigned nr_parts;
	struct debug_part parts[DEBUG_INFO_PARTS];
};

/* Where an address is looked up. */
struct route {
	struct debug_part *part;
	struct line_cache *cache; /* that lacks it; NULL: none */
	bool is_found;            /* by the index; else the part has to find it */
	uint64_t unit_offset;     /* UINT64_MAX: in no unit */
	uint64_t at;              /* the address as the debug information counts */
};

static void part_init(struct debug_part *part, struct debug_info *info)
{
	part->info = info;
	part->long_name_bytes = MAX_LONG_NAMES_BYTES / info->nr_parts;
	pthread_mutex_init(&part->lock, NULL);
}

struct debug_info *debug_info_new(const struct symbol_options *options)
{
	struct debug_info *info = calloc(1, sizeof(*info));
	const unsigned nr_cpus = thread_pool_useful_size();

	if (!info)
		return NULL;
	info->symfs = options->symfs ? options->symfs : "";
	info->inlines = options->inlined;
	info->no_demangle = options->no_demangle;
	info->keeps_lines = options->line_cache;
	info->nr_parts = nr_cpus > 1 ? DEBUG_INFO_PARTS : 1;
	pthread_mutex_init(&info->open_lock, NULL);
	pthread_mutex_init(&info->known_lock, NULL);
	pthread_mutex_init(&info->shared.lock, NULL);
	part_init(&info->index, info);
	info->index.is_index = true;
	for (unsigned i = 0; i < info->nr_parts; i++)
		part_init(&info->parts[i], info);
	return info;
}

static void object_close(struct object *object)
{
	if (!object->dso)
		return;
	debug_functions_free(object->functions);
	split_files_free(object->split);
	for (size_t i = 0; i < object->tables.nr_slots; i++)
		line_table_free(object->tables.slots[i].item);
	hash_table_fini(&object->tables);
	hash_table_fini(&object->files);
	hash_table_fini(&object->names);
	dwarf_free(object->dwarf);
	dwarf_free(object->alternate);
	if (object->dwfl)
		libdw.dwfl_end(object->dwfl);
	free(object->parts);
	elf_end(object->runtime);
	if (object->runtime_fd >= 0)
		close(object->runtime_fd);
	*object = (struct object){0};
}

static void part_fini(struct debug_part *part)
{
	for (size_t i = 0; i < MAX_OPEN; i++)
		object_close(&part->objects[i]);
	hash_table_fini(&part->lines);
	hash_table_fini(&part->inlined);
	pool_fini(&part->pool);
	pthread_mutex_destroy(&part->lock);
}

static struct known_object *known_object_at(const struct debug_info *info, const struct dso *dso)
{
	return hash_table_find_item(&info->known, (uintptr_t)dso);
}

/* As files have it: the image of a kernel is loaded at another address each time. */
static uint64_t lasting_address(const struct dso *dso, uint64_t address)
{
	return dso->kind == DSO_KERNEL ? address + dso->image_shift : address;
}

/* Of an object whose new answers are worth a file; NULL: they are not. */
static struct line_cache *cache_to_fill(const struct debug_info *info, const struct dso *dso)
{
	const struct known_object *known = known_object_at(info, dso);

	return known && known->cache && line_cache_wants_more(known->cache) ? known->cache : NULL;
}

static void keep_inlined(const struct debug_info *info, const struct inlined *inlined)
{
	struct line_cache *cache = cache_to_fill(info, inlined->dso);
	const uint64_t address = lasting_address(inlined->dso, inlined->address);
	const char *names[INLINED_MOST];
	unsigned nr = 0;

	if (!cache || line_cache_knows(cache, address, true, false))
		return;
	for (; nr + 1 < inlined->nr; nr++)
		names[nr] = inlined->functions[nr]->name;
	line_cache_add_names(cache, address, names, nr);
}

static void keep_line(const struct debug_info *info, const struct line_answer *answer)
{
	struct line_cache *cache = cache_to_fill(info, answer->dso);

	if (cache)
		line_cache_add_line(cache, lasting_address(answer->dso, answer->address), answer->frame,
				    answer->line.path, answer->line.line);
}

static void keep_answers(const struct debug_info *info)
{
	for (unsigned i = 0; i < info->nr_parts; i++) {
		const struct debug_part *part = &info->parts[i];
		for (size_t k = 0; k < part->inlined.nr_slots; k++)
			if (part->inlined.slots[k].item)
				keep_inlined(info, part->inlined.slots[k].item);
		for (size_t k = 0; k < part->lines.nr_slots; k++)
			if (part->lines.slots[k].item)
				keep_line(info, part->lines.slots[k].item);
	}
}

static void known_objects_fini(struct debug_info *info)
{
	bool any = false;

	for (size_t i = 0; i < info->known.nr_slots; i++) {
		const struct known_object *known = info->known.slots[i].item;
		any |= known && known->cache && line_cache_wants_more(known->cache);
	}
	if (any)
		keep_answers(info);
	for (size_t i = 0; i < info->known.nr_slots; i++) {
		struct known_object *known = info->known.slots[i].item;
		if (!known || !known->cache)
			continue;
		if (any)
			line_cache_store(known->cache);
		line_cache_free(known->cache);
		free(known->texts);
	}
	hash_table_fini(&info->known);
	pool_fini(&info->known_pool);
}

void debug_info_free(struct debug_info *info)
{
	if (!info)
		return;
	debug_ahead_free(info->ahead);
	known_objects_fini(info);
	part_fini(&info->index);
	for (unsigned i = 0; i < info->nr_parts; i++)
		part_fini(&info->parts[i]);
	hash_table_fini(&info->shared.texts);
	hash_table_fini(&info->shared.symbols);
	pool_fini(&info->shared.pool);
	pthread_mutex_destroy(&info->shared.lock);
	pthread_mutex_destroy(&info->known_lock);
	pthread_mutex_destroy(&info->open_lock);
	free(info);
}

/* Where distributions put the debug information of that build-id, on the heap. NULL: out of memory. */
static char *build_id_path(const char *symfs, const struct elf_id *id)
{
	char text[2 * ELF_ID_MAX_BYTES + 1] = "", *path;

	for (unsigned i = 0; i < id->len; i++)
		snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
	return asprintf(&path, "%s/usr/lib/debug/.build-id/%.2s/%s.debug", symfs, text, text + 2) < 0 ? NULL : path;
}

static bool has_stacks(const struct session *session)
{
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);

	for (size_t i = 0; i < nr; i++)
		if (events[i].attr.sample_type & PERF_SAMPLE_STACK_USER)
			return true;
	return false;
}

static bool inlines_in_chains(const struct debug_info *info, const struct session *session)
{
	switch (info->inlines) {
	case INLINE_UNWOUND: return has_stacks(session);
	case INLINE_ALL: return true;
	default: return false;
	}
}

/* Of the programs and libraries that were sampled; the caller frees each. Returns how many. */
static unsigned list_sampled_files(const struct debug_info *info, struct span build_ids, char *ret[MOST_AHEAD])
{
	struct cursor at = cursor_over(build_ids);
	struct build_id listed;
	unsigned nr = 0;

	while (nr + 2 <= MOST_AHEAD && build_id_decode(&at, &listed) == 1) {
		struct elf_id id = {.len = listed.id_bytes};
		if ((listed.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER || listed.path[0] != '/')
			continue;
		memcpy(id.bytes, listed.id, listed.id_bytes);
		ret[nr++] = build_id_path(info->symfs, &id);
		if (asprintf(&ret[nr], "%s%s", info->symfs, listed.path) >= 0)
			nr++;
	}
	return nr;
}

/* Nothing needs to be unpacked of a file that was read before, as long as the same addresses are looked up. */
static void leave_out_known(const struct debug_info *info, char *paths[], unsigned nr, bool lines)
{
	const unsigned flags = info->no_demangle ? LINE_CACHE_MANGLED : 0;
	struct stat status;

	for (unsigned i = 0; info->keeps_lines && i < nr; i++) {
		if (!paths[i] || stat(paths[i], &status) || !line_cache_is_there(&status, flags, lines))
			continue;
		free(paths[i]);
		paths[i] = NULL;
	}
}

void debug_info_unpack_ahead(struct debug_info *info, const struct session *session, unsigned needs)
{
	const bool lines = needs & DEBUG_LINES;
	char *paths[MOST_AHEAD];
	struct span build_ids;

	if (!session || !(lines || (needs & DEBUG_CHAINS && inlines_in_chains(info, session))) ||
	    !session_feature(session, FEATURE_BUILD_ID, &build_ids))
		return;
	const unsigned nr = list_sampled_files(info, build_ids, paths);
	leave_out_known(info, paths, nr, lines);
	pthread_mutex_lock(&info->open_lock);
	if (!info->ahead)
		info->ahead = debug_ahead_start(paths, nr, lines);
	pthread_mutex_unlock(&info->open_lock);
	for (unsigned i = 0; i < nr; i++)
		free(paths[i]);
}

/* Of an open file. NULL: not known. */
static char *path_of(struct pool *pool, int fd)
{
	char link[64], path[PATH_MAX];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = fd < 0 ? -1 : readlink(link, path, sizeof(path));
	return len > 0 && path[0] == '/' ? pool_text(pool, path, (size_t)len) : NULL;
}

/*
 * The kernel puts sections of code behind one another, in the order of the file, but those of initialisation elsewhere;
 * libdwfl puts all sections behind one another. A map begins with .text. Source: layout_sections() of the kernel.
 */
static void module_find_code(struct object *object, Elf *elf)
{
	const uint64_t code = SHF_ALLOC | SHF_EXECINSTR;
	Elf_Scn *section = NULL;
	uint64_t end = 0;
	size_t names;

	while (elf && !elf_file_names(elf, &names) && (section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
		if (!name || (header.sh_flags & code) != code || strncmp(name, ".init", strlen(".init")) == 0 ||
		    (!object->nr_parts && strcmp(name, ".text") != 0))
			continue;
		if (array_room(object->parts, object->nr_parts, object->parts_room))
			return;
		const uint64_t align = header.sh_addralign ? header.sh_addralign : 1;
		const uint64_t offset = (end + align - 1) / align * align;
		object->parts[object->nr_parts++] =
			(struct code_part){.offset = offset, .bytes = header.sh_size, .address = header.sh_addr};
		end = offset + header.sh_size;
	}
}

/* Kernel modules are relocatable files: their sections have no addresses before they are loaded. */
static void module_open(struct object *object, int fd)
{
	Dwarf_Addr bias;

	if (fd >= 0 && (elf_file_is_refused(fd) || !libdw_is_here())) {
		close(fd);
		return;
	}
	object->dwfl = fd < 0 ? NULL : libdw.dwfl_begin(&libdw_callbacks);
	Dwfl_Module *module = object->dwfl ? libdw.dwfl_report_offline(object->dwfl, object->dso->name, "", fd) : NULL;
	if (!module && fd >= 0)
		close(fd);
	if (!module || libdw.dwfl_report_end(object->dwfl, NULL, NULL))
		return;
	Dwarf *relocated = libdw.dwfl_module_getdwarf(module, &bias);
	object->dwarf = relocated ? dwarf_open_elf(libdw.dwarf_getelf(relocated)) : NULL;
	if (object->dwarf)
		module_find_code(object, libdw.dwfl_module_getelf(module, &bias));
}

/* false: there are none. */
static bool find_units(Elf *elf, bool *ret_packed)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (!elf || elf_file_names(elf, &names))
		return false;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
		if (!name || (strcmp(name, ".debug_info") != 0 && strcmp(name, ".zdebug_info") != 0))
			continue;
		*ret_packed = name[1] == 'z' || header.sh_flags & SHF_COMPRESSED;
		return header.sh_type != SHT_NOBITS;
	}
	return false;
}

/* Of .gnu_debugaltlink: a path, perhaps from the directory of the file that names it, and a build-id. -1: not there. */
static int open_alternate(const char *of, const char *name, const struct elf_id *id)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *by_id = build_id_path("", id);
	struct elf_source source;

	const char *slash = of ? strrchr(of, '/') : NULL;
	int len = name[0] == '/' || !slash ? 0 : (int)(slash - of);
	if (asprintf(&path, "%.*s%s%s", len, len ? of : "", name[0] == '/' ? "" : "/", name) < 0)
		path = NULL;
	const char *const paths[] = {path, by_id};
	for (size_t i = 0; i < 2; i++) {
		if (!id->len || !paths[i] || elf_source_open(paths[i], id, &source))
			continue;
		int fd = source.fd;
		source.fd = -1;
		elf_source_close(&source);
		return fd;
	}
	return -1;
}

static void set_alternate(struct object *object, const char *path)
{
	const char *name;
	struct elf_id id;

	if (!object->dwarf || !dwarf_alternate_name(object->dwarf, &name, &id))
		return;
	int fd = open_alternate(path, name, &id);
	if (object->cache && fd < 0)
		line_cache_spoil(object->cache); /* it may be there the next time */
	else if (object->cache)
		line_cache_note_file(object->cache, LINE_CACHE_ALTERNATE, fd);
	object->alternate = fd < 0 ? NULL : dwarf_open(fd, false);
	dwarf_set_alternate(object->dwarf, object->alternate);
}

static void find_segments(struct object *object)
{
	size_t nr = 0;

	if (!object->runtime || elf_getphdrnum(object->runtime, &nr))
		return;
	for (size_t i = 0; i < nr && object->nr_parts < MAX_SEGMENTS; i++) {
		GElf_Phdr load;
		if (!gelf_getphdr(object->runtime, (int)i, &load) || load.p_type != PT_LOAD)
			continue;
		if (array_room(object->parts, object->nr_parts, object->parts_room))
			return;
		object->parts[object->nr_parts++] =
			(struct code_part){.offset = load.p_offset, .bytes = load.p_filesz, .address = load.p_vaddr};
	}
}

/* To open it is to unpack the begin of it, and each of several parts would unpack the same. */
static bool is_packed(int fd)
{
	Elf *elf = elf_file_begin(fd);
	bool packed = false;

	find_units(elf, &packed);
	elf_end(elf);
	return packed;
}

/* Takes fd. */
static void open_units(struct debug_part *part, struct object *object, int fd)
{
	object->is_whole = part->is_index && is_packed(fd);
	object->dwarf = part->is_index ? NULL : debug_ahead_take(part->info->ahead, fd);
	if (object->dwarf && object->cache)
		line_cache_spend_ahead(object->cache);
	if (object->dwarf || object->is_whole)
		close(fd);
	else
		object->dwarf = dwarf_open(fd, false);
}

/* The debug information is in the object itself, or in a file of its own; of modules either file has all. */
struct object_files {
	int runtime_fd, debug_fd; /* -1: none */
	Elf *runtime;
	bool is_here; /* in the object itself: debug_fd is another descriptor of it */
};

static struct object_files open_files(const struct debug_info *info, const struct dso *dso)
{
	struct object_files files = {.runtime_fd = -1, .debug_fd = -1};
	bool packed;

	if (dso->kind == DSO_MODULE) {
		files.debug_fd = dso_open(dso, info->symfs, DSO_DEBUG);
		if (files.debug_fd < 0)
			files.debug_fd = dso_open(dso, info->symfs, DSO_RUNTIME);
		return files;
	}
	files.runtime_fd = dso_open(dso, info->symfs, DSO_RUNTIME);
	if (files.runtime_fd < 0)
		return files;
	files.runtime = elf_file_begin(files.runtime_fd);
	files.is_here = find_units(files.runtime, &packed);
	files.debug_fd =
		files.is_here ? fcntl(files.runtime_fd, F_DUPFD_CLOEXEC, 0) : dso_open(dso, info->symfs, DSO_DEBUG);
	return files;
}

static void note_files(struct line_cache *cache, const struct object_files *files)
{
	if (files->runtime_fd >= 0)
		line_cache_note_file(cache, LINE_CACHE_RUNTIME, files->runtime_fd);
	if (files->debug_fd >= 0)
		line_cache_note_file(cache, LINE_CACHE_DEBUG, files->debug_fd);
}

/* NULL: nothing is known of the files of the object, or there is no debug information. */
static struct line_cache *open_cache(struct debug_info *info, const struct dso *dso)
{
	const unsigned flags = (info->no_demangle ? LINE_CACHE_MANGLED : 0) |
			       (dso->kind == DSO_KERNEL ? LINE_CACHE_LINKED : 0) |
			       (dso->kind == DSO_MODULE ? LINE_CACHE_MODULE : 0);
	struct line_cache *cache = NULL;

	pthread_mutex_lock(&info->open_lock);
	struct object_files files = open_files(info, dso);
	if (files.debug_fd >= 0)
		cache = line_cache_new(flags, &dso->build_id);
	if (cache)
		note_files(cache, &files);
	elf_end(files.runtime);
	if (files.debug_fd >= 0)
		close(files.debug_fd);
	if (files.runtime_fd >= 0)
		close(files.runtime_fd);
	pthread_mutex_unlock(&info->open_lock);
	if (cache)
		line_cache_load(cache);
	return cache;
}

/* NULL: out of memory. */
static struct known_object *add_known_object(struct debug_info *info, const struct dso *dso)
{
	struct known_object *known = pool_take(&info->known_pool, sizeof(*known));

	if (!known || hash_table_add(&info->known, (uintptr_t)dso, known))
		return NULL;
	known->dso = dso;
	known->cache = open_cache(info, dso);
	const uint32_t nr = known->cache ? line_cache_nr_texts(known->cache) : 0;
	known->texts = nr ? calloc(nr, sizeof(*known->texts)) : NULL;
	if (nr && !known->texts) {
		line_cache_free(known->cache);
		known->cache = NULL;
	}
	return known;
}

/* NULL: nothing is kept of that object. */
static struct known_object *known_object_of(struct debug_info *info, const struct dso *dso)
{
	if (!info->keeps_lines || (dso->kind != DSO_FILE && dso->kind != DSO_KERNEL && dso->kind != DSO_MODULE))
		return NULL;
	_Atomic(struct known_object *) *recent = &info->recent[dso->age % (1 << RECENT_BITS)];
	struct known_object *known = atomic_load_explicit(recent, memory_order_acquire);
	if (known && known->dso == dso)
		return known->cache ? known : NULL;
	pthread_mutex_lock(&info->known_lock);
	known = known_object_at(info, dso);
	if (!known)
		known = add_known_object(info, dso);
	atomic_store_explicit(recent, known, memory_order_release); /* pairs with the load above */
	pthread_mutex_unlock(&info->known_lock);
	return known && known->cache ? known : NULL;
}

static void object_open_files(struct debug_part *part, struct object *object, const struct object_files *files)
{
	object->runtime_fd = files->runtime_fd;
	object->runtime = files->runtime;
	if (object->runtime_fd < 0)
		return;
	find_segments(object);
	object->paths[0] = path_of(&part->pool, object->runtime_fd);
	if (files->debug_fd < 0)
		return;
	object->paths[1] = files->is_here ? NULL : path_of(&part->pool, files->debug_fd);
	open_units(part, object, files->debug_fd);
	set_alternate(object, object->paths[!files->is_here]);
	/* What several objects have in common is mostly compressed. */
	object->is_whole |= part->is_index && object->alternate;
}

/* Whether there may be another answer the next time; callers of what sets errno do not all pass it on. */
static bool is_passing(int err)
{
	return err == ENOMEM || err == EIO || err == EMFILE || err == ENFILE;
}

static void object_open(struct debug_part *part, struct object *object, struct dso *dso)
{
	const struct known_object *known = known_object_of(part->info, dso);

	*object = (struct object){.dso = dso, .runtime_fd = -1, .cache = known ? known->cache : NULL};
	if (dso->kind == DSO_MODULE && part->is_index) {
		object->is_whole = true; /* libdwfl would relocate it for each part */
		return;
	}
	pthread_mutex_lock(&part->info->open_lock);
	errno = 0;
	const struct object_files files = open_files(part->info, dso);
	if (object->cache)
		note_files(object->cache, &files);
	if (dso->kind == DSO_MODULE)
		module_open(object, files.debug_fd);
	else
		object_open_files(part, object, &files);
	if (object->cache && is_passing(errno))
		line_cache_spoil(object->cache);
	pthread_mutex_unlock(&part->info->open_lock);
}

/* The one used longest ago makes room. */
static struct object *object_of(struct debug_part *part, struct dso *dso)
{
	struct object *oldest = &part->objects[0];

	for (size_t i = 0; i < MAX_OPEN; i++) {
		struct object *object = &part->objects[i];
		if (object->dso == dso) {
			object->used = ++part->clock;
			return object;
		}
		if (object->used < oldest->used)
			oldest = object;
	}
	part->last_line.dso = NULL;
	object_close(oldest);
	object_open(part, oldest, dso);
	oldest->used = ++part->clock;
	return oldest;
}

/* Where the linker put what is at an address of the dso, which is an offset in most files. false: it is not loaded. */
static bool linked_address(const struct object *object, uint64_t offset, uint64_t *ret)
{
	if (object->dso->kind == DSO_KERNEL) {
		*ret = offset + object->dso->image_shift;
		return true;
	}
	for (size_t i = 0; i < object->nr_parts; i++) {
		const struct code_part *part = &object->parts[i];
		if (offset >= part->offset && offset - part->offset < part->bytes) {
			*ret = offset - part->offset + part->address;
			return true;
		}
	}
	return false;
}

/* Units are read by different parts, each by one: they are found by an index that does not read them. */
static struct route find_route(struct debug_info *info, const struct known_object *known, struct dso *dso,
			       uint64_t address)
{
	struct route route = {.part = &info->parts[0], .unit_offset = UINT64_MAX, .cache = known ? known->cache : NULL};

	if (info->nr_parts == 1)
		return route;
	pthread_mutex_lock(&info->index.lock);
	const struct object *object = object_of(&info->index, dso);
	route.is_found = !object->is_whole;
	if (route.is_found && object->dwarf && linked_address(object, address, &route.at)) {
		const struct dwarf_unit *unit = dwarf_unit_at(object->dwarf, route.at);
		if (unit)
			route.unit_offset = unit->offset;
	}
	pthread_mutex_unlock(&info->index.lock);
	if (route.unit_offset != UINT64_MAX)
		route.part = &info->parts[(hash_mix(0, route.unit_offset) >> 32) % info->nr_parts];
	return route;
}

/* Of what is known any part has the answers: the one that has those near to it, too. */
static struct debug_part *known_part(struct debug_info *info, const struct dso *dso, uint64_t address)
{
	return &info->parts[(hash_mix((uintptr_t)dso, address >> 8) >> 32) % info->nr_parts];
}

unsigned debug_info_part(struct debug_info *info, struct dso *dso, uint64_t address)
{
	return (unsigned)(find_route(info, known_object_of(info, dso), dso, address).part - info->parts);
}

bool debug_info_is_known(struct debug_info *info, struct dso *dso, uint64_t address, unsigned needs)
{
	const struct known_object *known = known_object_of(info, dso);

	return known &&
	       line_cache_knows(known->cache, lasting_address(dso, address), needs & DEBUG_CHAINS, needs & DEBUG_LINES);
}

/* An answer that an error has made is not kept; nor is any other then, as some may have been taken over from it. */
static uint64_t begin_reading(const struct route *route)
{
	if (!route->cache)
		return 0;
	errno = 0;
	return clock_ns(CLOCK_MONOTONIC);
}

static void end_reading(const struct route *route, uint64_t began_ns)
{
	if (!route->cache)
		return;
	if (is_passing(errno))
		line_cache_spoil(route->cache);
	line_cache_spend(route->cache, clock_ns(CLOCK_MONOTONIC) - began_ns);
}

/* The one of all with that text, which is copied, or else must stay valid. Under the lock. NULL: out of memory. */
static const char *shared_text(struct shared *shared, const char *text, bool copy)
{
	const uint64_t hash = hash_text(text);

	for (struct hash_slot *slot = hash_table_find(&shared->texts, hash); slot;
	     slot = hash_table_next(&shared->texts, slot))
		if (strcmp(slot->item, text) == 0)
			return slot->item;
	char *added = copy ? pool_text(&shared->pool, text, strlen(text)) : (char *)text;
	return added && hash_table_add(&shared->texts, hash, added) == 0 ? added : NULL;
}

static const char *shared_copy(struct shared *shared, const char *text)
{
	pthread_mutex_lock(&shared->lock);
	const char *one = shared_text(shared, text, true);
	pthread_mutex_unlock(&shared->lock);
	return one;
}

/* Under the lock. NULL: out of memory. */
static const char *known_text(struct shared *shared, const struct known_object *known, uint32_t number)
{
	const char *text = atomic_load_explicit(&known->texts[number], memory_order_relaxed);

	if (text)
		return text;
	text = shared_text(shared, line_cache_text(known->cache, number), false);
	/* Pairs with the load of known_path(). */
	atomic_store_explicit(&known->texts[number], text, memory_order_release);
	return text;
}

/* NULL: out of memory. */
static const char *known_path(struct shared *shared, const struct known_object *known, uint32_t number)
{
	const char *path = atomic_load_explicit(&known->texts[number], memory_order_acquire);

	if (path)
		return path;
	pthread_mutex_lock(&shared->lock);
	path = known_text(shared, known, number);
	pthread_mutex_unlock(&shared->lock);
	return path;
}

/* The object with the unit at an address of a dso, and the address as the debug information counts. NULL: none. */
static struct object *find_place(const struct route *route, struct dso *dso, uint64_t address,
				 struct dwarf_unit **ret_unit, uint64_t *ret_at)
{
	if (route->is_found && route->unit_offset == UINT64_MAX)
		return NULL;
	struct object *object = object_of(route->part, dso);
	*ret_at = route->at;
	if (!object->dwarf || (!route->is_found && !linked_address(object, address, ret_at)))
		return NULL;
	*ret_unit = route->is_found ? dwarf_unit_from(object->dwarf, route->unit_offset)
				    : dwarf_unit_at(object->dwarf, *ret_at);
	return *ret_unit ? object : NULL;
}

/* The innermost scope; NULL: none. */
static struct scope *find_scope(struct object *object, struct dwarf_unit *unit, uint64_t at)
{
	if (!object->split)
		object->split = split_files_new(object->paths);
	if (!object->functions && object->split)
		object->functions = debug_functions_new(object->split);
	struct scope *scope = object->functions ? debug_functions_find(object->functions, unit, at) : NULL;
	if (unit->id && object->cache)
		line_cache_spoil(object->cache); /* it may be in any of many files */
	return scope;
}

/*
 * Frames as read_inlined() counts them: functions without a name are none, and the last of INLINED_MOST is the function
 * itself. false: not known.
 */
static bool find_call(struct scope *scope, unsigned frame, uint64_t *ret_file, unsigned *ret_line)
{
	struct scope *inner = NULL;
	unsigned nr = 0;

	for (; scope; inner = scope, scope = scope->outer) {
		bool is_frame = !scope->outer || (scope->name && nr + 1 < INLINED_MOST);
		if (is_frame && nr++ == frame)
			return inner && debug_functions_call_site(inner, ret_file, ret_line);
	}
	return false;
}

/* Of the unit with that root, or the skeleton of one that is elsewhere. NULL: none. */
static const struct line_table *find_table(struct object *object, const struct die *root)
{
	struct dwarf *dwarf = object->dwarf;
	const struct line_sections sections = {dwarf_line_section(dwarf), dwarf_line_texts(dwarf), dwarf_texts(dwarf),
					       &object->line_bytes};
	struct line_table *table = NULL;
	struct die_attr attr;
	uint64_t offset;

	if (!die_attr(root, DW_AT_stmt_list, &attr) || !die_attr_number(&attr, &offset))
		return NULL;
	table = hash_table_find_item(&object->tables, offset);
	if (!object->has_line_bytes)
		object->line_bytes = sections.line->counted_len;
	object->has_line_bytes = true;
	if (table || line_table_read(&sections, offset, &table))
		return table;
	if (hash_table_add(&object->tables, offset, table)) {
		line_table_free(table);
		return NULL;
	}
	return table;
}

/* One copy for all addresses. NULL: not known; out of memory. */
static const char *find_path(struct debug_part *part, struct object *object, const struct line_table *table,
			     const struct die *root, uint64_t file)
{
	const uint64_t key = hash_mix((uintptr_t)root->unit, file);
	AUTO_BUF struct buf path = {0};

	for (struct hash_slot *slot = hash_table_find(&object->files, key); slot;
	     slot = hash_table_next(&object->files, slot)) {
		const struct file_path *its = slot->item;
		if (its->unit == root->unit && its->file == file)
			return its->path;
	}
	struct file_path *added = pool_take(&part->pool, sizeof(*added));
	if (!added || hash_table_add(&object->files, key, added))
		return NULL;
	*added = (struct file_path){.unit = root->unit, .file = file};
	if (line_table_path(table, file, die_text(root, DW_AT_comp_dir), &path) && !path.failed &&
	    path.len <= MAX_PATH_BYTES)
		added->path = shared_copy(&part->info->shared, buf_text(&path));
	return added->path;
}

static struct line_place *line_place_of(const struct route *route, struct dso *dso, uint64_t address)
{
	struct line_place *place = &route->part->last_line;
	struct line_place found = {.address = address};

	if (place->dso == dso && place->address == address)
		return place;
	found.object = find_place(route, dso, address, &found.unit, &found.at);
	if (found.object && die_root(found.unit, &found.root))
		found.table = find_table(found.object, &found.root);
	found.dso = dso;
	*place = found;
	return place;
}

/* The innermost one; NULL: none. */
static struct scope *scope_of(struct line_place *place)
{
	if (!place->has_scope)
		place->scope = find_scope(place->object, place->unit, place->at);
	place->has_scope = true;
	return place->scope;
}

static void read_line(const struct route *route, struct line_answer *answer)
{
	struct line_place *place = line_place_of(route, answer->dso, answer->address);
	uint64_t file = 0;
	uint32_t row_file;
	unsigned line = 0;

	if (!place->table)
		return;
	if (answer->frame) {
		if (!find_call(scope_of(place), answer->frame, &file, &line))
			return;
	} else {
		if (!line_table_find(place->table, place->at, &row_file, &line))
			return;
		file = row_file;
	}
	answer->line.path = find_path(route->part, place->object, place->table, &place->root, file);
	answer->line.line = line;
}

/* NULL: out of memory. */
static const struct line_answer *find_line(const struct route *route, struct dso *dso, uint64_t address, unsigned frame)
{
	struct debug_part *part = route->part;
	uint64_t key = hash_mix((uintptr_t)dso, address);

	for (struct hash_slot *slot = hash_table_find(&part->lines, key); slot;
	     slot = hash_table_next(&part->lines, slot)) {
		const struct line_answer *answer = slot->item;
		if (answer->dso == dso && answer->address == address && answer->frame == frame)
			return answer;
	}
	struct line_answer *answer = pool_take(&part->pool, sizeof(*answer));
	if (!answer || hash_table_add(&part->lines, key, answer))
		return NULL;
	*answer = (struct line_answer){.dso = dso, .address = address, .frame = frame};
	const uint64_t began_ns = begin_reading(route);
	read_line(route, answer);
	end_reading(route, began_ns);
	return answer;
}

/* false: it is not known whether there is a line. */
static bool find_known_line(struct debug_info *info, const struct known_object *known, const struct dso *dso,
			    uint64_t address, unsigned frame, struct source_line *ret)
{
	uint32_t path;
	unsigned line;

	if (!known || !line_cache_find_line(known->cache, lasting_address(dso, address), frame, &path, &line))
		return false;
	*ret = (struct source_line){.line = line};
	if (path != LINE_CACHE_NO_TEXT)
		ret->path = known_path(&info->shared, known, path);
	return true;
}

bool debug_info_line(struct debug_info *info, struct dso *dso, uint64_t address, unsigned frame,
		     struct source_line *ret)
{
	if (dso->bpf_lines)
		return bpf_lines_find(dso->bpf_lines, dso->name, dso->id.file.inode, address, &ret->path, &ret->line);
	const struct known_object *known = known_object_of(info, dso);
	struct source_line line;
	if (find_known_line(info, known, dso, address, frame, &line)) {
		if (line.path)
			*ret = line;
		return line.path;
	}
	const struct route route = find_route(info, known, dso, address);
	pthread_mutex_lock(&route.part->lock);
	const struct line_answer *answer = find_line(&route, dso, address, frame);
	pthread_mutex_unlock(&route.part->lock);
	if (!answer || !answer->line.path)
		return false;
	*ret = answer->line;
	return true;
}

/* A function is inlined in many places; its name is in one. NULL: there are too many long ones; out of memory. */
static const char *readable_name(struct debug_part *part, struct object *object, const char *name)
{
	const char *known = hash_table_find_item(&object->names, (uintptr_t)name);

	if (known)
		return known;
	AUTO_FREE char *readable = !part->info->no_demangle && symbol_is_mangled(name) ? symbol_demangle(name) : NULL;
	const char *shown = readable ? readable : name;
	const size_t len = strlen(shown);
	if (len > LONG_NAME_BYTES) {
		if (len > part->long_name_bytes)
			return NULL;
		part->long_name_bytes -= len;
	}
	const char *copy = shared_copy(&part->info->shared, shown);
	return copy && hash_table_add(&object->names, (uintptr_t)name, (char *)copy) == 0 ? copy : NULL;
}

struct inlined_symbol {
	struct symbol symbol;
	const struct dso *dso;
};

/*
 * One symbol for all places in `around`, so that chains that read the same are the same. The name is the one of all
 * with its text. Under the lock. NULL: out of memory.
 */
static const struct symbol *shared_symbol(struct shared *shared, const struct dso *dso, const struct symbol *around,
					  const char *name)
{
	const uint64_t key = hash_mix(hash_mix((uintptr_t)name, (uintptr_t)dso), around->start);

	for (struct hash_slot *slot = hash_table_find(&shared->symbols, key); slot;
	     slot = hash_table_next(&shared->symbols, slot)) {
		const struct inlined_symbol *its = slot->item;
		if (its->symbol.name == name && its->dso == dso && its->symbol.start == around->start)
			return &its->symbol;
	}
	struct inlined_symbol *added = pool_take(&shared->pool, sizeof(*added));
	if (!added || hash_table_add(&shared->symbols, key, added))
		return NULL;
	added->symbol = (struct symbol){.start = around->start, .end = around->end, .name = name, .inlined = true};
	added->dso = dso;
	return &added->symbol;
}

/* NULL: there are too many long names; out of memory. */
static const struct symbol *inlined_symbol(struct debug_part *part, struct object *object, const struct symbol *around,
					   const char *name)
{
	struct shared *shared = &part->info->shared;
	const char *readable = readable_name(part, object, name);

	if (!readable)
		return NULL;
	pthread_mutex_lock(&shared->lock);
	const struct symbol *symbol = shared_symbol(shared, object->dso, around, readable);
	pthread_mutex_unlock(&shared->lock);
	return symbol;
}

/* NULL: it has no name, or none any longer: likewise. */
static const struct symbol *scope_symbol(struct debug_part *part, struct object *object, const struct symbol *around,
					 struct scope *scope)
{
	if (scope->name && scope->around != around) {
		scope->symbol = inlined_symbol(part, object, around, scope->name);
		scope->around = around;
		if (!scope->symbol) {
			scope->name = NULL; /* it is no frame, see find_call() */
			if (object->cache)
				line_cache_spoil(object->cache);
		}
	}
	return scope->name ? scope->symbol : NULL;
}

static unsigned read_inlined(const struct route *route, struct dso *dso, const struct symbol *around, uint64_t address,
			     const struct symbol *ret[INLINED_MOST], bool *ret_elsewhere)
{
	uint64_t at;
	struct dwarf_unit *unit;
	struct object *object = find_place(route, dso, address, &unit, &at);
	unsigned nr = 0;

	struct scope *scope = object ? find_scope(object, unit, at) : NULL;
	*ret_elsewhere =
		object && !scope && object->functions && debug_functions_are_elsewhere(object->functions, unit);
	for (; scope && scope->outer && nr + 1 < INLINED_MOST; scope = scope->outer) {
		const struct symbol *symbol = scope_symbol(route->part, object, around, scope);
		if (symbol)
			ret[nr++] = symbol;
	}
	if (nr)
		ret[nr++] = around;
	return nr;
}

/* What is known of an address. */
struct known_names {
	const struct known_object *known;
	uint32_t numbers[INLINED_MOST];
	unsigned nr;
};

_Static_assert((int)INLINED_MOST == LINE_CACHE_MOST_FRAMES, "all frames are kept");

/* As read_inlined(). Without memory nothing is inlined. */
static unsigned take_known(struct shared *shared, const struct known_names *names, const struct dso *dso,
			   const struct symbol *around, const struct symbol *ret[INLINED_MOST])
{
	unsigned nr = 0;

	pthread_mutex_lock(&shared->lock);
	for (; nr < names->nr && nr + 1 < INLINED_MOST; nr++) {
		const char *name = known_text(shared, names->known, names->numbers[nr]);
		ret[nr] = name ? shared_symbol(shared, dso, around, name) : NULL;
		if (!ret[nr]) {
			nr = 0;
			break;
		}
	}
	pthread_mutex_unlock(&shared->lock);
	if (nr)
		ret[nr++] = around;
	return nr;
}

/* names: what is known; NULL: it has to be read. NULL: out of memory. */
static const struct inlined *find_inlined(const struct route *route, struct dso *dso, const struct symbol *symbol,
					  uint64_t address, const struct known_names *names)
{
	struct debug_part *part = route->part;
	uint64_t key = hash_mix((uintptr_t)symbol, address);
	const struct symbol *functions[INLINED_MOST];
	bool is_elsewhere = false;
	unsigned nr;

	for (struct hash_slot *slot = hash_table_find(&part->inlined, key); slot;
	     slot = hash_table_next(&part->inlined, slot)) {
		const struct inlined *answer = slot->item;
		if (answer->symbol == symbol && answer->address == address)
			return answer;
	}
	if (names) {
		nr = take_known(&part->info->shared, names, dso, symbol, functions);
	} else {
		const uint64_t began_ns = begin_reading(route);
		nr = read_inlined(route, dso, symbol, address, functions, &is_elsewhere);
		end_reading(route, began_ns);
	}
	struct inlined *answer = pool_take(&part->pool, sizeof(*answer) + nr * sizeof(functions[0]));
	if (!answer || hash_table_add(&part->inlined, key, answer))
		return NULL;
	*answer = (struct inlined){
		.dso = dso, .symbol = symbol, .address = address, .nr = nr, .is_elsewhere = is_elsewhere};
	memcpy(answer->functions, functions, nr * sizeof(functions[0]));
	return answer;
}

const struct inlined *debug_info_inlined(struct debug_info *info, struct dso *dso, const struct symbol *symbol,
					 uint64_t address)
{
	const struct known_object *known = known_object_of(info, dso);
	struct known_names names = {.known = known};
	struct route route = {.part = NULL};

	const bool is_known =
		known && line_cache_find_names(known->cache, lasting_address(dso, address), names.numbers, &names.nr);
	if (is_known)
		route.part = known_part(info, dso, address);
	else
		route = find_route(info, known, dso, address);
	pthread_mutex_lock(&route.part->lock);
	const struct inlined *answer = find_inlined(&route, dso, symbol, address, is_known ? &names : NULL);
	pthread_mutex_unlock(&route.part->lock);
	return answer;
}
