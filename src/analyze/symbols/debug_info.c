/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/debug_info.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/symbols/debug_functions.h"
#include "analyze/symbols/dso.h"
#include "analyze/symbols/elf.h"
#include "analyze/symbols/line_table.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/pool.h"

enum {
	MAX_OPEN = 32,    /* objects */
	MAX_INLINED = 32, /* functions at one address */
	/* Debug information may be hostile. */
	MAX_UNITS = 1 << 22,
	MAX_RANGES = 1 << 23, /* of one object, empty ones too */
	MAX_OVERLAPPING = 8,  /* ranges that begin before an address and after the one it is in */
};

struct unit_range {
	Dwarf_Addr low, high; /* high exclusive */
	Dwarf_Off die;        /* root of the unit */
};

/* An object whose files are open. */
struct object {
	struct dso *dso;          /* NULL: not in use */
	uint64_t used;            /* when last */
	int runtime_fd, debug_fd; /* -1: none */
	Elf *runtime, *debug;     /* runtime: for its segments; debug NULL: there is none, or it is not needed */
	Dwarf *dwarf;             /* NULL: there is no debug information */
	Dwfl *dwfl;               /* that owns and has relocated it: of kernel modules; else NULL */
	Dwarf_Addr text;          /* where it has put their code */
	Dwarf *alternate;         /* what several objects have in common (dwz); NULL: the object names none */
	Elf *stand_in;            /* that it is made of: the file, or one of ours if that is not there */
	int alternate_fd;         /* -1: none */
	char *directories[2];     /* of the two files; in the pool; NULL: none, or not known */
	bool units_read;
	struct unit_range *units; /* by low */
	size_t nr_units, units_room;
	struct debug_functions *functions; /* NULL: not needed yet */
	struct line_sections lines;        /* looked for when the first line is */
	struct hash_table tables;          /* struct line_table, by offset in the section */
};

/* What was found at an address. */
struct line_answer {
	struct dso *dso;
	uint64_t address;
	unsigned frame;
	struct source_line line; /* path NULL: nothing */
};

struct inlined_answer {
	const struct symbol *symbol;
	uint64_t address;
	unsigned nr;
	const struct symbol *functions[];
};

struct debug_info {
	pthread_mutex_t lock; /* of all below */
	const char *symfs;
	bool no_demangle;
	struct object objects[MAX_OPEN];
	uint64_t clock;
	struct pool pool; /* answers, their paths and symbols */
	struct hash_table lines, inlined;
};

struct debug_info *debug_info_new(const struct symbol_options *options)
{
	struct debug_info *info = calloc(1, sizeof(*info));

	if (!info)
		return NULL;
	pthread_mutex_init(&info->lock, NULL);
	info->symfs = options->symfs ? options->symfs : "";
	info->no_demangle = options->no_demangle;
	return info;
}

static void object_close(struct object *object)
{
	if (!object->dso)
		return;
	debug_functions_free(object->functions);
	for (size_t i = 0; i < object->tables.nr_slots; i++)
		line_table_free(object->tables.slots[i].item);
	hash_table_fini(&object->tables);
	free(object->units);
	if (object->dwfl)
		dwfl_end(object->dwfl);
	else
		dwarf_end(object->dwarf);
	dwarf_end(object->alternate);
	elf_end(object->stand_in);
	elf_end(object->runtime);
	elf_end(object->debug);
	if (object->runtime_fd >= 0)
		close(object->runtime_fd);
	if (object->debug_fd >= 0)
		close(object->debug_fd);
	if (object->alternate_fd >= 0)
		close(object->alternate_fd);
	*object = (struct object){0};
}

void debug_info_free(struct debug_info *info)
{
	if (!info)
		return;
	for (size_t i = 0; i < MAX_OPEN; i++)
		object_close(&info->objects[i]);
	hash_table_fini(&info->lines);
	hash_table_fini(&info->inlined);
	pool_fini(&info->pool);
	pthread_mutex_destroy(&info->lock);
	free(info);
}

/* Of an open file. NULL: not known. */
static char *directory_of(struct pool *pool, int fd)
{
	char link[64], path[PATH_MAX];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = fd < 0 ? -1 : readlink(link, path, sizeof(path));
	const char *slash = len > 0 && path[0] == '/' ? memrchr(path, '/', (size_t)len) : NULL;
	return slash ? pool_text(pool, path, (size_t)(slash - path)) : NULL;
}

/* Nothing is looked for: what is to be read was opened before. */
static int find_nothing(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, const char *file,
			const char *link, GElf_Word checksum, char **ret_file)
{
	(void)module, (void)userdata, (void)name, (void)base, (void)file, (void)link, (void)checksum, (void)ret_file;
	return -1;
}

/* Kernel modules are relocatable files: their sections have no addresses before they are loaded. */
static void module_open(struct debug_info *info, struct object *object)
{
	static const Dwfl_Callbacks callbacks = {.find_debuginfo = find_nothing,
						 .section_address = dwfl_offline_section_address};
	Dwarf_Addr bias;

	object->debug_fd = dso_open(object->dso, info->symfs, DSO_DEBUG);
	if (object->debug_fd < 0)
		object->debug_fd = dso_open(object->dso, info->symfs, DSO_RUNTIME);
	int fd = object->debug_fd < 0 ? -1 : fcntl(object->debug_fd, F_DUPFD_CLOEXEC, 0);
	object->dwfl = fd < 0 ? NULL : dwfl_begin(&callbacks);
	Dwfl_Module *module = object->dwfl ? dwfl_report_offline(object->dwfl, object->dso->name, "", fd) : NULL;
	if (!module && fd >= 0)
		close(fd);
	if (!module || dwfl_report_end(object->dwfl, NULL, NULL))
		return;
	object->dwarf = dwfl_module_getdwarf(module, &bias);
	Elf *elf = object->dwarf ? dwfl_module_getelf(module, &bias) : NULL;
	Elf_Scn *section = NULL;
	size_t names;
	while (elf && !elf_getshdrstrndx(elf, &names) && (section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
		if (name && strcmp(name, ".text") == 0)
			object->text = header.sh_addr;
	}
}

static bool has_units(Elf *elf)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (!elf || elf_getshdrstrndx(elf, &names))
		return false;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
		if (name && (strcmp(name, ".debug_info") == 0 || strcmp(name, ".zdebug_info") == 0))
			return header.sh_type != SHT_NOBITS;
	}
	return false;
}

/* Of .gnu_debugaltlink: a path, perhaps from the directory of the file that names it, and a build-id. -1: not there. */
static int open_alternate(const char *directory, const char *name, const struct elf_id *id)
{
	char text[2 * ELF_ID_MAX_BYTES + 1] = "";
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *by_id = NULL;
	struct elf_source source;

	for (unsigned i = 0; i < id->len; i++)
		snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
	if (asprintf(&path, "%s%s%s", name[0] == '/' || !directory ? "" : directory, name[0] == '/' ? "" : "/", name) <
	    0)
		path = NULL;
	if (asprintf(&by_id, "/usr/lib/debug/.build-id/%.2s/%s.debug", text, text + 2) < 0)
		by_id = NULL;
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

/* An object with debug information of nothing. */
static Elf *make_stand_in(void)
{
	static struct {
		Elf64_Ehdr header;
		Elf64_Shdr sections[3];
		char names[32];
		char frame[8];
	} image = {
		.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_type = ET_DYN,
			   .e_version = EV_CURRENT,
			   .e_ehsize = sizeof(Elf64_Ehdr),
			   .e_shentsize = sizeof(Elf64_Shdr),
			   .e_shnum = 3,
			   .e_shstrndx = 1},
		.names = "\0.shstrtab\0.debug_frame",
	};

	image.header.e_shoff = offsetof(__typeof__(image), sections);
	image.sections[1] = (Elf64_Shdr){.sh_name = 1,
					 .sh_type = SHT_STRTAB,
					 .sh_offset = offsetof(__typeof__(image), names),
					 .sh_size = sizeof(image.names)};
	image.sections[2] = (Elf64_Shdr){.sh_name = 11,
					 .sh_type = SHT_PROGBITS,
					 .sh_offset = offsetof(__typeof__(image), frame),
					 .sh_size = sizeof(image.frame)};
	return elf_memory((char *)&image, sizeof(image));
}

/* libdw would open the file as soon as it needs it, and wait for the writer of a fifo: it always gets one of ours. */
static void set_alternate(struct object *object)
{
	const char *name;
	const void *id;
	ssize_t len = object->dwarf ? dwelf_dwarf_gnu_debugaltlink(object->dwarf, &name, &id) : 0;
	struct elf_id expect = {.len = len > 0 && len <= ELF_ID_MAX_BYTES ? (uint8_t)len : 0};

	if (len <= 0)
		return;
	memcpy(expect.bytes, id, expect.len);
	object->alternate_fd = open_alternate(object->directories[object->debug_fd >= 0], name, &expect);
	if (object->alternate_fd >= 0)
		object->stand_in = elf_begin(object->alternate_fd, ELF_C_READ, NULL);
	if (object->stand_in)
		object->alternate = dwarf_begin_elf(object->stand_in, DWARF_C_READ, NULL);
	if (!object->alternate) {
		elf_end(object->stand_in);
		object->stand_in = make_stand_in();
		object->alternate = object->stand_in ? dwarf_begin_elf(object->stand_in, DWARF_C_READ, NULL) : NULL;
	}
	if (object->alternate) {
		dwarf_setalt(object->dwarf, object->alternate);
		return;
	}
	dwarf_end(object->dwarf); /* no memory */
	object->dwarf = NULL;
}

/* The debug information is in the object itself, or in a file of its own. */
static void object_open_files(struct debug_info *info, struct object *object)
{
	object->runtime_fd = dso_open(object->dso, info->symfs, DSO_RUNTIME);
	if (object->runtime_fd < 0)
		return;
	object->runtime = elf_begin(object->runtime_fd, ELF_C_READ, NULL);
	object->directories[0] = directory_of(&info->pool, object->runtime_fd);
	if (has_units(object->runtime)) {
		object->dwarf = dwarf_begin_elf(object->runtime, DWARF_C_READ, NULL);
		return;
	}
	object->debug_fd = dso_open(object->dso, info->symfs, DSO_DEBUG);
	if (object->debug_fd < 0)
		return;
	object->directories[1] = directory_of(&info->pool, object->debug_fd);
	object->debug = elf_begin(object->debug_fd, ELF_C_READ, NULL);
	object->dwarf = object->debug ? dwarf_begin_elf(object->debug, DWARF_C_READ, NULL) : NULL;
}

static void object_open(struct debug_info *info, struct object *object, struct dso *dso)
{
	*object = (struct object){.dso = dso, .runtime_fd = -1, .debug_fd = -1, .alternate_fd = -1};
	if (dso->kind == DSO_MODULE)
		module_open(info, object);
	else
		object_open_files(info, object);
	set_alternate(object);
}

/* The one used longest ago makes room. */
static struct object *object_of(struct debug_info *info, struct dso *dso)
{
	struct object *oldest = &info->objects[0];

	for (size_t i = 0; i < MAX_OPEN; i++) {
		struct object *object = &info->objects[i];
		if (object->dso == dso) {
			object->used = ++info->clock;
			return object;
		}
		if (object->used < oldest->used)
			oldest = object;
	}
	object_close(oldest);
	object_open(info, oldest, dso);
	oldest->used = ++info->clock;
	return oldest;
}

static bool units_add(struct object *object, const struct unit_range *range)
{
	if (object->nr_units == object->units_room) {
		size_t room = object->units_room ? object->units_room * 2 : 64;
		struct unit_range *units = reallocarray(object->units, room, sizeof(*units));
		if (!units)
			return false;
		object->units = units;
		object->units_room = room;
	}
	object->units[object->nr_units++] = *range;
	return true;
}

/* Adds the ranges of a unit. false: that is all that is read of the object. */
static bool unit_read(struct object *object, Dwarf_Die *root, size_t *nr_seen)
{
	struct unit_range range = {.die = dwarf_dieoffset(root)};
	Dwarf_Addr base;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(root, offset, &base, &range.low, &range.high)) > 0) {
		if (++*nr_seen > MAX_RANGES)
			return false;
		/* What the linker has left out begins at 0. */
		if (range.low && range.low < range.high && !units_add(object, &range))
			return false;
	}
	return true;
}

static int range_compare(const void *a, const void *b)
{
	const struct unit_range *x = a, *y = b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return x->die < y->die ? -1 : x->die > y->die;
}

/* By what the units say of themselves: not all compilers write .debug_aranges. */
static void units_read(struct object *object)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die root;
	size_t nr_seen = 0;
	uint8_t type;

	object->units_read = true;
	for (unsigned i = 0; i < MAX_UNITS; i++) {
		if (dwarf_get_units(object->dwarf, unit, &unit, NULL, &type, &root, NULL))
			break;
		if ((type == DW_UT_compile || type == DW_UT_skeleton) && !unit_read(object, &root, &nr_seen))
			break;
	}
	if (object->nr_units)
		qsort(object->units, object->nr_units, sizeof(*object->units), range_compare);
}

/* The root DIE of the unit that has the address; of the skeleton where the rest is in a .dwo. false: none has it. */
static bool find_unit(struct object *object, Dwarf_Addr address, Dwarf_Die *ret)
{
	if (!object->units_read)
		units_read(object);
	size_t low = 0, high = object->nr_units;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (object->units[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i > 0 && low - i < MAX_OVERLAPPING; i--)
		if (address < object->units[i - 1].high)
			return dwarf_offdie(object->dwarf, object->units[i - 1].die, ret);
	return dwarf_addrdie(object->dwarf, address, ret); /* units that do not say it may be in .debug_aranges */
}

/* Where the linker put what is at an address of the dso, which is an offset in most files. false: it is not loaded. */
static bool linked_address(const struct object *object, uint64_t offset, Dwarf_Addr *ret)
{
	Elf *elf = object->runtime;
	size_t nr;

	if (object->dso->kind == DSO_MODULE || object->dso->kind == DSO_KERNEL) {
		*ret = offset + object->text + object->dso->image_shift;
		return true;
	}
	if (!elf || elf_getphdrnum(elf, &nr))
		return false;
	for (size_t i = 0; i < nr; i++) {
		GElf_Phdr load;
		if (gelf_getphdr(elf, (int)i, &load) && load.p_type == PT_LOAD && offset >= load.p_offset &&
		    offset - load.p_offset < load.p_filesz) {
			*ret = offset - load.p_offset + load.p_vaddr;
			return true;
		}
	}
	return false;
}

/* The object with the unit at an address of a dso, and the address as the debug information counts. NULL: none. */
static struct object *find_place(struct debug_info *info, struct dso *dso, uint64_t address, Dwarf_Die *ret_unit,
				 Dwarf_Addr *ret_at)
{
	struct object *object = object_of(info, dso);

	if (!object->dwarf || !linked_address(object, address, ret_at) || !find_unit(object, *ret_at, ret_unit))
		return NULL;
	return object;
}

/* The innermost scope; NULL: none. */
static struct scope *find_scope(struct object *object, Dwarf_Die *unit, Dwarf_Addr at)
{
	struct stat status;
	int fd = object->debug_fd >= 0 ? object->debug_fd : object->runtime_fd;

	if (!object->functions && fstat(fd, &status) == 0 && status.st_size > 0)
		object->functions = debug_functions_new(object->directories, (uint64_t)status.st_size);
	return object->functions ? debug_functions_find(object->functions, unit, at) : NULL;
}

/* Functions without a name are no frames, see read_inlined(). false: not known. */
static bool find_call(struct scope *scope, unsigned frame, uint64_t *ret_file, unsigned *ret_line)
{
	struct scope *inner = NULL;
	unsigned nr = 0;

	for (; scope; inner = scope, scope = scope->outer)
		if ((scope->name || !scope->outer) && nr++ == frame)
			return inner && debug_functions_call_site(inner, ret_file, ret_line);
	return false;
}

/* An item of a section, or all of it. Nothing: there is no such section. */
static struct span find_section(Elf *elf, const char *name)
{
	Elf_Scn *section = NULL;
	size_t names;

	while (!elf_getshdrstrndx(elf, &names) && (section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *its = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
		/* ".zdebug_line": libdw has unpacked it. */
		if (!its || (strcmp(its, name) != 0 && (strncmp(its, ".z", 2) != 0 || strcmp(its + 2, name + 1) != 0)))
			continue;
		Elf_Data *data = header.sh_type == SHT_NOBITS ? NULL : elf_getdata(section, NULL);
		return data && data->d_buf ? (struct span){data->d_buf, data->d_size} : (struct span){0};
	}
	return (struct span){0};
}

/* Of the unit, or the skeleton of one that is elsewhere. NULL: none. */
static const struct line_table *find_table(struct object *object, Dwarf_Die *unit)
{
	struct line_sections *sections = &object->lines;
	struct line_table *table = NULL;
	Dwarf_Attribute attribute;
	Dwarf_Word offset;

	if (!dwarf_attr(unit, DW_AT_stmt_list, &attribute) || dwarf_formudata(&attribute, &offset))
		return NULL;
	table = hash_table_find_item(&object->tables, offset);
	if (table)
		return table;
	if (!sections->line.len) {
		Elf *elf = dwarf_getelf(object->dwarf);
		sections->line = find_section(elf, ".debug_line");
		sections->line_strings = find_section(elf, ".debug_line_str");
		sections->strings = find_section(elf, ".debug_str");
	}
	if (line_table_read(sections, offset, &table))
		return NULL;
	if (hash_table_add(&object->tables, offset, table)) {
		line_table_free(table);
		return NULL;
	}
	return table;
}

static void read_line(struct debug_info *info, struct line_answer *answer)
{
	Dwarf_Addr at;
	Dwarf_Die unit;
	Dwarf_Attribute attribute;
	AUTO_BUF struct buf path = {0};
	struct object *object = find_place(info, answer->dso, answer->address, &unit, &at);
	const struct line_table *table = object ? find_table(object, &unit) : NULL;
	uint64_t file = 0;
	uint32_t row_file;
	unsigned line = 0;

	if (!table)
		return;
	if (answer->frame) {
		if (!find_call(find_scope(object, &unit, at), answer->frame, &file, &line))
			return;
	} else {
		if (!line_table_find(table, at, &row_file, &line))
			return;
		file = row_file;
	}
	const char *directory = dwarf_attr(&unit, DW_AT_comp_dir, &attribute) ? dwarf_formstring(&attribute) : NULL;
	if (!line_table_path(table, file, directory, &path) || path.failed)
		return;
	answer->line.path = pool_text(&info->pool, buf_text(&path), path.len);
	answer->line.line = line;
}

/* NULL: out of memory. */
static const struct line_answer *find_line(struct debug_info *info, struct dso *dso, uint64_t address, unsigned frame)
{
	uint64_t key = hash_mix((uintptr_t)dso, address);

	for (struct hash_slot *slot = hash_table_find(&info->lines, key); slot;
	     slot = hash_table_next(&info->lines, slot)) {
		const struct line_answer *answer = slot->item;
		if (answer->dso == dso && answer->address == address && answer->frame == frame)
			return answer;
	}
	struct line_answer *answer = pool_take(&info->pool, sizeof(*answer));
	if (!answer || hash_table_add(&info->lines, key, answer))
		return NULL;
	*answer = (struct line_answer){.dso = dso, .address = address, .frame = frame};
	read_line(info, answer);
	return answer;
}

bool debug_info_line(struct debug_info *info, struct dso *dso, uint64_t address, unsigned frame,
		     struct source_line *ret)
{
	pthread_mutex_lock(&info->lock);
	const struct line_answer *answer = find_line(info, dso, address, frame);
	pthread_mutex_unlock(&info->lock);
	if (!answer || !answer->line.path)
		return false;
	*ret = answer->line;
	return true;
}

/* NULL: out of memory. */
static const struct symbol *make_symbol(struct debug_info *info, const struct symbol *around, const char *name)
{
	AUTO_FREE char *readable = !info->no_demangle && symbol_is_mangled(name) ? symbol_demangle(name) : NULL;
	const char *shown = readable ? readable : name;

	struct symbol *symbol = pool_take(&info->pool, sizeof(*symbol));
	char *copy = symbol ? pool_text(&info->pool, shown, strlen(shown)) : NULL;
	if (!copy)
		return NULL;
	*symbol = (struct symbol){.start = around->start, .end = around->end, .name = copy, .inlined = true};
	return symbol;
}

/* One symbol for all addresses of a function that was inlined in one place. NULL: it has no name; out of memory. */
static const struct symbol *scope_symbol(struct debug_info *info, const struct symbol *around, struct scope *scope)
{
	if (scope->name && scope->around != around) {
		scope->symbol = make_symbol(info, around, scope->name);
		scope->around = around;
	}
	return scope->name ? scope->symbol : NULL;
}

static unsigned read_inlined(struct debug_info *info, struct dso *dso, const struct symbol *around, uint64_t address,
			     const struct symbol *ret[MAX_INLINED])
{
	Dwarf_Addr at;
	Dwarf_Die unit;
	struct object *object = find_place(info, dso, address, &unit, &at);
	unsigned nr = 0;

	struct scope *scope = object ? find_scope(object, &unit, at) : NULL;
	for (; scope && scope->outer && nr + 1 < MAX_INLINED; scope = scope->outer) {
		const struct symbol *symbol = scope_symbol(info, around, scope);
		if (symbol)
			ret[nr++] = symbol;
	}
	if (nr)
		ret[nr++] = around;
	return nr;
}

/* NULL: out of memory. */
static const struct inlined_answer *find_inlined(struct debug_info *info, struct dso *dso, const struct symbol *symbol,
						 uint64_t address)
{
	uint64_t key = hash_mix((uintptr_t)symbol, address);
	const struct symbol *functions[MAX_INLINED];

	for (struct hash_slot *slot = hash_table_find(&info->inlined, key); slot;
	     slot = hash_table_next(&info->inlined, slot)) {
		const struct inlined_answer *answer = slot->item;
		if (answer->symbol == symbol && answer->address == address)
			return answer;
	}
	unsigned nr = read_inlined(info, dso, symbol, address, functions);
	struct inlined_answer *answer = pool_take(&info->pool, sizeof(*answer) + nr * sizeof(functions[0]));
	if (!answer || hash_table_add(&info->inlined, key, answer))
		return NULL;
	*answer = (struct inlined_answer){.symbol = symbol, .address = address, .nr = nr};
	memcpy(answer->functions, functions, nr * sizeof(functions[0]));
	return answer;
}

unsigned debug_info_inlined(struct debug_info *info, struct dso *dso, const struct symbol *symbol, uint64_t address,
			    const struct symbol **ret, unsigned max)
{
	pthread_mutex_lock(&info->lock);
	const struct inlined_answer *answer = find_inlined(info, dso, symbol, address);
	pthread_mutex_unlock(&info->lock);
	unsigned nr = !answer ? 0 : answer->nr < max ? answer->nr : max;

	if (nr)
		memcpy(ret, answer->functions, nr * sizeof(*ret));
	return nr;
}
