/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD, in tests that compare names with those of perf 6.1, which names entries of the PLT in the order of
 * the relocations, most of libc's so by other functions, and what is behind .init and .text by _init and _etext: who
 * reads an ELF file with libelf finds no relocations of a PLT, and an end of such symbols.
 */
#include <dlfcn.h>
#include <gelf.h>
#include <stdint.h>
#include <string.h>

enum { PAGE = 4096, INIT_BYTES = 16 };

char *elf_strptr(Elf *elf, size_t section, size_t offset)
{
	static char *(*next)(Elf *, size_t, size_t);
	static char hidden[] = "hidden";

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "elf_strptr");
	char *name = next(elf, section, offset);
	return name && (strcmp(name, ".rela.plt") == 0 || strcmp(name, ".rel.plt") == 0) ? hidden : name;
}

/* _init is a function without a size where a page of code begins; _etext has no type, as other labels. */
static GElf_Xword size_of(const GElf_Sym *symbol)
{
	if (symbol->st_size || !symbol->st_value)
		return symbol->st_size;
	if (GELF_ST_TYPE(symbol->st_info) == STT_FUNC)
		return symbol->st_value % PAGE == 0 ? INIT_BYTES : 0;
	return GELF_ST_TYPE(symbol->st_info) == STT_NOTYPE ? 1 : 0;
}

GElf_Sym *gelf_getsym(Elf_Data *data, int number, GElf_Sym *ret)
{
	static GElf_Sym *(*next)(Elf_Data *, int, GElf_Sym *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "gelf_getsym");
	GElf_Sym *symbol = next(data, number, ret);
	if (symbol)
		symbol->st_size = size_of(symbol);
	return symbol;
}
