/* SPDX-License-Identifier: MIT */
#include "analyze/srcline.h"

#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/dso.h"
#include "analyze/pool.h"

enum { NR_CHAINS = 4096, MAX_OPEN = 32 };

/* An object, open. */
struct object {
	struct dso *dso; /* NULL: not in use */
	int runtime_fd, debug_fd; /* -1: none */
	Elf *runtime;    /* for the place of its segments */
	Dwarf *dwarf;    /* NULL: there is nothing to read */
	uint64_t used;   /* when last */
};

/* What was found at an address. */
struct answer {
	struct answer *next;
	const struct dso *dso;
	uint64_t address;
	struct srcline srcline; /* path NULL: nothing */
};

struct srclines {
	const char *symfs;
	struct object objects[MAX_OPEN];
	uint64_t clock;
	struct pool pool; /* answers and their paths */
	struct answer *answers[NR_CHAINS];
};

struct srclines *srclines_new(const char *symfs)
{
	struct srclines *srclines = calloc(1, sizeof(*srclines));

	if (srclines)
		srclines->symfs = symfs ? symfs : "";
	return srclines;
}

static void object_close(struct object *object)
{
	if (!object->dso)
		return;
	dwarf_end(object->dwarf);
	elf_end(object->runtime);
	if (object->runtime_fd >= 0)
		close(object->runtime_fd);
	if (object->debug_fd >= 0)
		close(object->debug_fd);
	*object = (struct object){0};
}

void srclines_free(struct srclines *srclines)
{
	if (!srclines)
		return;
	for (size_t i = 0; i < MAX_OPEN; i++)
		object_close(&srclines->objects[i]);
	pool_fini(&srclines->pool);
	free(srclines);
}

static bool has_lines(Dwarf *dwarf)
{
	Elf *elf = dwarf ? dwarf_getelf(dwarf) : NULL;
	Elf_Scn *section = NULL;
	size_t names;

	if (!elf || elf_getshdrstrndx(elf, &names))
		return false;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
		if (name && (strcmp(name, ".debug_line") == 0 || strcmp(name, ".zdebug_line") == 0))
			return header.sh_type != SHT_NOBITS;
	}
	return false;
}

/* The debug information is in the object itself, or in a file of its own. */
static void object_open(const struct srclines *srclines, struct object *object, struct dso *dso)
{
	*object = (struct object){.dso = dso, .runtime_fd = dso_open(dso, srclines->symfs, DSO_RUNTIME), .debug_fd = -1};
	if (object->runtime_fd < 0)
		return;
	object->runtime = elf_begin(object->runtime_fd, ELF_C_READ_MMAP, NULL);
	object->dwarf = dwarf_begin(object->runtime_fd, DWARF_C_READ);
	if (has_lines(object->dwarf))
		return;
	dwarf_end(object->dwarf);
	object->dwarf = NULL;
	object->debug_fd = dso_open(dso, srclines->symfs, DSO_DEBUG);
	if (object->debug_fd >= 0)
		object->dwarf = dwarf_begin(object->debug_fd, DWARF_C_READ);
}

/* The one used longest ago makes room. */
static struct object *object_of(struct srclines *srclines, struct dso *dso)
{
	struct object *oldest = &srclines->objects[0];

	for (size_t i = 0; i < MAX_OPEN; i++) {
		struct object *object = &srclines->objects[i];
		if (object->dso == dso) {
			object->used = ++srclines->clock;
			return object;
		}
		if (object->used < oldest->used)
			oldest = object;
	}
	object_close(oldest);
	object_open(srclines, oldest, dso);
	oldest->used = ++srclines->clock;
	return oldest;
}

/* Where the linker put the byte at a file offset. false: it is not loaded. */
static bool linked_address(Elf *elf, uint64_t offset, uint64_t *ret)
{
	size_t nr;

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

/* Compilers need not list which unit has which addresses: then the units are asked one by one. */
static Dwarf_Die *unit_of(Dwarf *dwarf, Dwarf_Addr address, Dwarf_Die *room)
{
	Dwarf_Off at = 0, next;
	size_t header_bytes;

	if (dwarf_addrdie(dwarf, address, room))
		return room;
	for (; dwarf_nextcu(dwarf, at, &next, &header_bytes, NULL, NULL, NULL) == 0; at = next)
		if (dwarf_offdie(dwarf, at + header_bytes, room) && dwarf_haspc(room, address) > 0)
			return room;
	return NULL;
}

static void read_line(struct srclines *srclines, struct dso *dso, uint64_t address, struct srcline *ret)
{
	struct object *object = object_of(srclines, dso);
	Dwarf_Addr at;
	Dwarf_Die room;
	int line;

	if (!object->dwarf || !linked_address(object->runtime, address, &at))
		return;
	Dwarf_Die *unit = unit_of(object->dwarf, at, &room);
	Dwarf_Line *row = unit ? dwarf_getsrc_die(unit, at) : NULL;
	const char *path = row ? dwarf_linesrc(row, NULL, NULL) : NULL;
	if (!path || dwarf_lineno(row, &line))
		return;
	ret->path = pool_text(&srclines->pool, path, strlen(path));
	ret->line = (unsigned)line;
}

bool srcline_find(struct srclines *srclines, struct dso *dso, uint64_t address, struct srcline *ret)
{
	struct answer **chain = &srclines->answers[((uintptr_t)dso / 16 + address) * 0x9e3779b97f4a7c15ull >> 52];
	struct answer *answer = *chain;

	while (answer && (answer->dso != dso || answer->address != address))
		answer = answer->next;
	if (!answer) {
		answer = pool_take(&srclines->pool, sizeof(*answer));
		if (!answer)
			return false;
		*answer = (struct answer){.next = *chain, .dso = dso, .address = address};
		read_line(srclines, dso, address, &answer->srcline);
		*chain = answer;
	}
	*ret = answer->srcline;
	return ret->path;
}
