/* SPDX-License-Identifier: MIT */
/* Any file as an object of a recording: its symbols, lines and inlined functions are read or are not, in bounded time.
 */
#include <dwarf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyze/dwarf/dwarf.h"
#include "analyze/symbols/debug_info.h"
#include "analyze/symbols/dso.h"
#include "fuzz.h"

enum { MAX_ADDRESSES = 128 };

static void ask(struct debug_info *info, struct dso *dso, uint64_t address)
{
	static const struct symbol none = {.name = "none"};
	const struct symbol *symbol = symbols_find(&dso->symbols, address);
	struct source_line line;

	if (symbol && (address < symbol->start || !symbol->name))
		abort();
	const struct inlined *inlined = debug_info_inlined(info, dso, symbol ? symbol : &none, address);
	if (!inlined)
		abort();
	unsigned nr = inlined->nr;
	for (unsigned i = 0; i < nr || i == 0; i++) {
		if (nr && !inlined->functions[i]->name)
			abort();
		if (debug_info_line(info, dso, address, i, &line) && !strlen(line.path))
			abort();
	}
}

static void read_object(const char *path, enum dso_kind kind)
{
	const struct symbol_options options = {.symfs = ""};
	struct dso_table dsos = {0};
	struct debug_info *info = debug_info_new(&options);
	struct dso *dso = dso_find(&dsos, path, NULL, kind);

	if (!info || !dso)
		abort();
	dso_load(dso, "");
	for (size_t i = 0; i < dso->symbols.nr && i < MAX_ADDRESSES; i++)
		ask(info, dso, dso->symbols.entries[i].start + i % 3);
	for (uint64_t address = 0; address < 0x2000; address += 0x140)
		ask(info, dso, address);
	debug_info_free(info);
	dso_table_fini(&dsos);
}

/* As a .dwo or .dwp file: the unit whose id is in the last 8 bytes. */
static void read_split(const char *path, const uint8_t *data, size_t size)
{
	struct dwarf *dwarf = dwarf_open(open(path, O_RDONLY | O_CLOEXEC), true);
	struct dwarf_unit skeleton = {.dwarf = dwarf, .version = 5, .address_bytes = 8, .offset_bytes = 4};
	struct die die, other;
	struct die_walk walk;
	struct die_attr attr;
	uint64_t low, high;

	if (!dwarf)
		return;
	if (size >= sizeof(skeleton.id))
		memcpy(&skeleton.id, data + size - sizeof(skeleton.id), sizeof(skeleton.id));
	struct dwarf_unit *unit = dwarf_split_unit(dwarf, &skeleton);
	dwarf_read_all(dwarf);
	if (unit && die_root(unit, &die)) {
		die_walk_begin(&walk, &die);
		while (die_walk_next(&walk, &die)) {
			const char *name = die_text(&die, DW_AT_name);
			if (name && strlen(name) > size)
				abort();
			if (die_attr(&die, DW_AT_abstract_origin, &attr) && die_attr_entry(&attr, &other))
				die_walk_skip(&walk);
			for (struct die_ranges ranges = die_ranges(&die); die_ranges_next(&ranges, &low, &high);)
				if (low >= high)
					abort();
		}
	}
	dwarf_free(dwarf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	setenv("HOME", "/nowhere", 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_object(path, DSO_FILE);
	read_object(path, DSO_MODULE);
	read_split(path, data, size);
	close(fd);
	return 0;
}

/* Those of compilers are in the corpus. */
bool fuzz_seed(unsigned number, struct buf *out)
{
	(void)number, (void)out;
	return false;
}
