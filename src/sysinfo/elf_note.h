/* SPDX-License-Identifier: MIT */
/*
 * elf_note: the build-id of an object, from its ELF note (name "GNU", type NT_GNU_BUILD_ID). Nothing is kept
 * open. Source: elf(5) "Notes (Nhdr)".
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/span.h"
#include "perfdata/object_id.h"

enum { ELF_NOTE_BUILD_ID_MAX = 20 };

/* All return the bytes of the id (1 to ELF_NOTE_BUILD_ID_MAX), or a negative errno: -ENOENT, it has none. */

/* In notes as they lie in memory of this machine; for a longer id its front. */
int elf_note_build_id(struct span notes, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/*
 * -EINVAL: no regular file, or no ELF. Devices and fifos are never opened. -ESTALE: another file than `mapped` (NULL:
 * any is right), or written to since then.
 */
struct elf_note_mapped {
	struct file_id file;
	uint64_t since_ns;
	struct mapping_times times; /* end_wall_ns 0: when it was written does not matter */
};
int elf_note_of_file(const char *path, const struct elf_note_mapped *mapped, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/* The same as a living process has it: below its root, or through its mapping. */
int elf_note_of_process(pid_t pid, const char *path, const struct elf_note_mapped *mapped,
			uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

int elf_note_of_kernel(uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/* `name` as in /proc/modules. */
int elf_note_of_module(const char *name, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/* The one in our own address space: it is the same in every process of our word size. */
int elf_note_of_vdso(uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);
