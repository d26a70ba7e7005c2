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
#include "sysinfo/object_file.h"

enum { ELF_NOTE_BUILD_ID_MAX = 20 };

/* All return the bytes of the id (1 to ELF_NOTE_BUILD_ID_MAX), or a negative errno: -ENOENT, it has none. */

/* In notes as they lie in memory of this machine; for a longer id its front. */
int elf_note_build_id(struct span notes, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/* -EINVAL: no ELF. */
int elf_note_of_fd(int fd, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/* The same of a path, and of a path as a living process has it; errors and `mapped`: sysinfo/object_file.h. */
int elf_note_of_file(const char *path, const struct object_mapping *mapped, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);
int elf_note_of_process(pid_t pid, const char *path, const struct object_mapping *mapped,
			uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

int elf_note_of_kernel(uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/* `name` as in /proc/modules. */
int elf_note_of_module(const char *name, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/*
 * The vdso in our own address space, as an ELF file: it is the same in every process of our word size, and there is no
 * file of it. Empty: there is none. Source: getauxval(3) AT_SYSINFO_EHDR, vdso(7).
 */
struct span vdso_image(void);
int elf_note_of_vdso(uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);
