/* SPDX-License-Identifier: MIT */
/* Any file as an object of a recording: its symbols, lines and inlined functions are read or are not, in bounded time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyze/symbols/debug_info.h"
#include "analyze/symbols/dso.h"
#include "fuzz.h"

enum { MAX_ADDRESSES = 128, MAX_FUNCTIONS = 32 };

static void ask(struct debug_info *info, struct dso *dso, uint64_t address)
{
	static const struct symbol none = {.name = "none"};
	const struct symbol *functions[MAX_FUNCTIONS], *symbol = symbols_find(&dso->symbols, address);
	struct source_line line;

	if (symbol && (address < symbol->start || !symbol->name))
		abort();
	unsigned nr = debug_info_inlined(info, dso, symbol ? symbol : &none, address, functions, MAX_FUNCTIONS);
	for (unsigned i = 0; i < nr || i == 0; i++) {
		if (nr && !functions[i]->name)
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
	close(fd);
	return 0;
}

/* Those of compilers are in the corpus. */
bool fuzz_seed(unsigned number, struct buf *out)
{
	(void)number, (void)out;
	return false;
}
