/* SPDX-License-Identifier: MIT */
/* elf: an ELF file (or image in memory), and the symbols in it. One owner, one thread. */
#pragma once

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "perfdata/object_id.h"

struct symbols;

/* The GNU build-id note among `bytes` (a notes section, /sys/kernel/notes). false: none. */
bool elf_id_from_notes(const void *bytes, size_t len, struct elf_id *ret);

struct elf_source {
	int fd; /* -1: in memory */
	Elf *elf;
	GElf_Ehdr header;
	Elf_Scn *symtab, *dynsym; /* NULL: not there */
	GElf_Phdr *loads;         /* heap; PT_LOAD segments */
	size_t nr_loads;
	bool has_code;    /* false: a file of debug information only, which lacks the bytes of the code */
	bool has_offsets; /* its segments say where code is in the file that runs */
	void *unpacked;   /* heap; of .gnu_debugdata; NULL: it is a file, or the caller's image */
};

#define ELF_SOURCE_CLOSED                                                                                              \
	{                                                                                                              \
		.fd = -1                                                                                               \
	}

/*
 * Regular files only. With an `expect`ed build-id of len > 0 a file that has another one, or none, is
 * -ESTALE. Errors of object_file_open(), -ENOEXEC: no ELF. *ret is only written with 0; elf_source_close() it then.
 */
int elf_source_open(const char *path, const struct elf_id *expect, struct elf_source *ret);

/* Likewise an open file, or -errno; takes over the descriptor, also when it fails. */
int elf_source_open_fd(int fd, const struct elf_id *expect, struct elf_source *ret);

/* An image that stays where it is until elf_source_close(). */
int elf_source_open_image(void *image, size_t len, const struct elf_id *expect, struct elf_source *ret);

/*
 * Mini debug information: an ELF file in the section .gnu_debugdata of another one, packed by xz, with the functions
 * that are not in .dynsym. -ENOENT: there is none, or this program was built without liblzma; -EBADMSG: it is broken,
 * or of more than ELF_MINI_MAX_BYTES. Source: gdb's manual, "MiniDebugInfo".
 */
enum { ELF_MINI_MAX_BYTES = 64 << 20 };
int elf_source_open_mini(const struct elf_source *of, struct elf_source *ret);

void elf_source_close(struct elf_source *source); /* ELF_SOURCE_CLOSED is fine */

/* false: none. */
bool elf_source_build_id(const struct elf_source *source, struct elf_id *ret);

/*
 * What .gnu_debuglink of a file says: the name of its debug file, on the heap, and the CRC-32 of all bytes of the debug
 * file. name NULL: the file has no such section, or cannot be read. Source: gdb's manual, "Debugging Information in
 * Separate Files".
 */
struct elf_debuglink {
	char *name;
	uint32_t crc;
};
struct elf_debuglink elf_file_debuglink(const char *path);

/*
 * Whether the whole file, which is read, has this CRC-32. false also for a file of more than ELF_CRC_MAX_BYTES, and for
 * one that cannot be read.
 */
#define ELF_CRC_MAX_BYTES ((off_t)4 << 30)
bool elf_source_has_crc(const struct elf_source *source, uint32_t crc);

/*
 * Adds the symbols of `from` (a file with symbols, perhaps of debug information only) for an object that runs
 * from `runtime` (the same file or another one, with has_offsets), as offsets into the runtime file, and the PLT
 * entries of `runtime`; if it has no symbol table but a Go program's table of functions, these. 0 or -ENOMEM; broken
 * parts are left out.
 */
int elf_symbols_load(struct symbols *symbols, const struct elf_source *from, const struct elf_source *runtime);

/*
 * The text symbols of a kernel image or module: addresses as in the file minus `shift`; of `section` only, unless NULL.
 */
int elf_symbols_load_kernel(struct symbols *symbols, const struct elf_source *from, const char *section,
			    uint64_t shift);

/* The address of the symbol of that name. false: none. */
bool elf_symbol_address(const struct elf_source *source, const char *name, uint64_t *ret);
