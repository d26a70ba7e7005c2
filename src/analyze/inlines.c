/* SPDX-License-Identifier: MIT */
#include "analyze/inlines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/demangle.h"
#include "analyze/dso.h"
#include "analyze/pool.h"
#include "analyze/scopes.h"
#include "base/cleanup.h"

enum { NR_CHAINS = 16384, MAX_OPEN = 32 };

/* An object whose debug information is open. */
struct object {
	struct dso *dso; /* NULL: not in use */
	Dwfl *dwfl;
	Dwfl_Module *module; /* NULL: there is nothing to read */
	struct scopes *scopes;
	uint64_t used;       /* when last */
};

/* What was found at an address. */
struct answer {
	struct answer *next;
	const struct symbol *symbol;
	uint64_t address;
	unsigned nr;
	const struct symbol *functions[];
};

struct inlines {
	const char *symfs;
	struct object objects[MAX_OPEN];
	uint64_t clock;
	struct pool pool; /* answers and their symbols */
	struct answer *answers[NR_CHAINS];
};

struct inlines *inlines_new(const char *symfs)
{
	struct inlines *inlines = calloc(1, sizeof(*inlines));

	if (inlines)
		inlines->symfs = symfs;
	return inlines;
}

static void object_close(struct object *object)
{
	scopes_free(object->scopes);
	if (object->dwfl)
		dwfl_end(object->dwfl);
	*object = (struct object){0};
}

void inlines_free(struct inlines *inlines)
{
	if (!inlines)
		return;
	for (size_t i = 0; i < MAX_OPEN; i++)
		object_close(&inlines->objects[i]);
	pool_fini(&inlines->pool);
	free(inlines);
}

/* What find_debug() needs to know of a module. In the pool. */
struct debug_place {
	const struct dso *dso;
	const char *symfs;
};

/* libdwfl must not look for debug information by itself: it would ask servers on the network. */
static int find_debug(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
		      const char *file, const char *link, GElf_Word crc, char **ret_path)
{
	const struct debug_place *place = *userdata;

	(void)module, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)ret_path;
	return place ? dso_open(place->dso, place->symfs, DSO_DEBUG) : -1;
}

static int find_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, char **ret_path,
		    Elf **ret_elf)
{
	(void)module, (void)userdata, (void)name, (void)base, (void)ret_path, (void)ret_elf;
	return -1; /* it is given when the module is reported */
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf, .find_debuginfo = find_debug, .section_address = dwfl_offline_section_address};

static void object_open(struct inlines *inlines, struct object *object, struct dso *dso)
{
	struct debug_place *place = pool_take(&inlines->pool, sizeof(*place));
	AUTO_FD int fd = place ? dso_open(dso, inlines->symfs, DSO_RUNTIME) : -1;
	void **userdata;

	*object = (struct object){.dso = dso};
	if (fd < 0)
		return;
	object->dwfl = dwfl_begin(&callbacks);
	object->scopes = scopes_new();
	object->module =
		object->dwfl && object->scopes ? dwfl_report_elf(object->dwfl, dso->name, dso->name, fd, 0, false) : NULL;
	if (!object->module)
		return;
	take_fd(&fd); /* libdwfl's now */
	*place = (struct debug_place){dso, inlines->symfs};
	dwfl_module_info(object->module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = place;
}

/* The one used longest ago makes room. */
static struct object *object_of(struct inlines *inlines, struct dso *dso)
{
	struct object *oldest = &inlines->objects[0];

	for (size_t i = 0; i < MAX_OPEN; i++) {
		struct object *object = &inlines->objects[i];
		if (object->dso == dso) {
			object->used = ++inlines->clock;
			return object;
		}
		if (object->used < oldest->used)
			oldest = object;
	}
	object_close(oldest);
	object_open(inlines, oldest, dso);
	oldest->used = ++inlines->clock;
	return oldest;
}

/* Where libdwfl has the byte at a file offset. false: not mapped. */
static bool module_address(Dwfl_Module *module, uint64_t offset, Dwarf_Addr *ret)
{
	GElf_Addr bias;
	Elf *elf = dwfl_module_getelf(module, &bias);
	size_t nr;

	if (!elf || elf_getphdrnum(elf, &nr))
		return false;
	for (size_t i = 0; i < nr; i++) {
		GElf_Phdr load;
		if (gelf_getphdr(elf, (int)i, &load) && load.p_type == PT_LOAD && offset >= load.p_offset &&
		    offset - load.p_offset < load.p_filesz) {
			*ret = offset - load.p_offset + load.p_vaddr + bias;
			return true;
		}
	}
	return false;
}

/* NULL: out of memory. */
static const struct symbol *make_symbol(struct inlines *inlines, const struct symbol *around,
					const char *name)
{
	AUTO_FREE char *readable = demangle_wanted(name) ? demangle(name) : NULL;
	const char *shown = readable ? readable : name;

	if (strcmp(shown, around->name) == 0)
		return around;
	struct symbol *symbol = pool_take(&inlines->pool, sizeof(*symbol));
	char *copy = symbol ? pool_text(&inlines->pool, shown, strlen(shown)) : NULL;
	if (!copy)
		return NULL;
	*symbol = (struct symbol){.start = around->start, .end = around->end, .name = copy, .inlined = true};
	return symbol;
}

/* What assemblers describe has nothing inlined, and names beside those of the symbol table. */
static bool is_assembler(Dwarf_Die *unit)
{
	return dwarf_srclang(unit) == DW_LANG_Mips_Assembler;
}

/* One symbol for all addresses of a function that was inlined in one place. NULL: it has no name; out of memory. */
static const struct symbol *scope_symbol(struct inlines *inlines, const struct symbol *around, struct scope *scope)
{
	if (scope->name && scope->around != around) {
		scope->symbol = make_symbol(inlines, around, scope->name);
		scope->around = around;
	}
	return scope->name ? scope->symbol : NULL;
}

static unsigned read_functions(struct inlines *inlines, struct dso *dso, const struct symbol *around,
			       uint64_t address, const struct symbol **ret, unsigned max)
{
	struct object *object = object_of(inlines, dso);
	Dwarf_Addr at, bias;
	Dwarf_Die *unit = object->module && module_address(object->module, address, &at)
				  ? dwfl_module_addrdie(object->module, at, &bias)
				  : NULL;
	unsigned nr = 0;

	if (!unit || is_assembler(unit))
		return 0;
	for (struct scope *scope = scopes_find(object->scopes, unit, at - bias); scope && nr < max; scope = scope->outer) {
		const struct symbol *symbol = scope_symbol(inlines, around, scope);
		if (symbol)
			ret[nr++] = symbol;
	}
	return nr;
}

unsigned inlines_find(struct inlines *inlines, struct dso *dso, const struct symbol *symbol, uint64_t address,
		      const struct symbol **ret, unsigned max)
{
	struct answer **chain =
		&inlines->answers[((uintptr_t)symbol / 16 + address) * 0x9e3779b1u % NR_CHAINS];

	for (const struct answer *answer = *chain; answer; answer = answer->next) {
		if (answer->symbol != symbol || answer->address != address)
			continue;
		unsigned nr = answer->nr < max ? answer->nr : max;
		memcpy(ret, answer->functions, nr * sizeof(*ret));
		return nr;
	}
	unsigned nr = read_functions(inlines, dso, symbol, address, ret, max);
	struct answer *answer = pool_take(&inlines->pool, sizeof(*answer) + nr * sizeof(*ret));
	if (answer) {
		*answer = (struct answer){.next = *chain, .symbol = symbol, .address = address, .nr = nr};
		memcpy(answer->functions, ret, nr * sizeof(*ret));
		*chain = answer;
	}
	return nr;
}
