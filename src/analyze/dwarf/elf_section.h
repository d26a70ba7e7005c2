/* SPDX-License-Identifier: MIT */
/*
 * elf_section: the bytes of sections of an ELF file. They are read, and decompressed, when they are needed, and only as
 * far as they are needed. Files are read, not mapped: a file that is made shorter causes an error and no signal. One
 * owner, one thread.
 */
#pragma once

#include <libelf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/span.h"

struct elf_section {
	uint64_t len; /* bytes, as unpacked; 0: there is no such section */
	/* What limits for readers are made of: `len`, but at most 32 times as many bytes as a compressed one has. */
	uint64_t counted_len;
	struct span whole; /* len 0: not read yet */
	/* NULL, and fd -1: all bytes are in `whole`. Borrowed from the owner of the section. */
	Elf_Scn *scn;
	int fd;                    /* where parts are read from; -1: it is compressed, or was relocated */
	uint64_t offset;           /* in that file */
	void *bytes;               /* of `whole`, or room for it; NULL: the bytes belong to libelf */
	struct elf_packed *packed; /* NULL: it is not compressed. `bytes` has room for all */
	uint64_t *blocks;          /* a bit for each block of `bytes` that was read; NULL: it is not read in blocks */
	uint64_t mapped_len;       /* of `bytes`, then */
	struct elf_piece *pieces;  /* where there was no room for all */
};

/*
 * The section of that name (".debug_info"), or its compressed form with the name of old linkers (".zdebug_info"). fd:
 * of the file of `elf`, or -1 if libelf has the bytes in memory; both must stay open as long as the section is used.
 * behind: a section that it stands behind; NULL: the first of that name.
 */
struct elf_section elf_section_find(Elf *elf, int fd, const char *name, Elf_Scn *behind);
void elf_section_fini(struct elf_section *section);

/* A part of the section. len 0: some of it is missing, or out of memory. Valid until elf_section_fini(). */
struct span elf_section_part(struct elf_section *section, uint64_t offset, uint64_t len);

/*
 * The same for what begins there: at least `len` bytes, or fewer where the section ends before, and more that are in
 * memory. len 0: there is nothing, likewise.
 */
struct span elf_section_rest(struct elf_section *section, uint64_t offset, uint64_t len);

/* Lets a cursor in such a part go on, so that at least `len` bytes are left, or all that there are. */
void elf_section_extend(struct elf_section *section, struct cursor *at, uint64_t len);

/* Copies a part, or as much as there is of it; returns how much. */
uint64_t elf_section_peek(struct elf_section *section, uint64_t offset, void *ret, uint64_t len);

struct span elf_section_whole(struct elf_section *section); /* len 0: as above */

/*
 * Unpacks the next part, up to `most` bytes from the begin of the section, before it is needed. What can be read, and
 * what cannot, stays as it is. false: nothing was done: it is not compressed, or so much is there.
 */
bool elf_section_unpack_ahead(struct elf_section *section, uint64_t most);

/* A PLT section (.plt, .plt.got, .plt.sec): code of the linker, for calls of functions in other objects. */
struct elf_linkage {
	uint64_t low, high; /* addresses; high exclusive */
};
/* Sets the first `room` PLT sections of the file; returns how many. */
unsigned elf_find_linkage(Elf *elf, struct elf_linkage ret[], unsigned room);

/* Texts may overlap, so that a short section has many long ones: longer ones than this count as not known. */
enum { ELF_TEXT_MAX = 1 << 16 };

/* The text at an offset. Of one that is too long only ELF_TEXT_MAX + 1 bytes are there. NULL: it is not in the section.
 */
const char *elf_section_text(struct elf_section *section, uint64_t offset);

static inline bool elf_text_is_too_long(const char *text)
{
	return strnlen(text, ELF_TEXT_MAX + 1) > ELF_TEXT_MAX;
}
