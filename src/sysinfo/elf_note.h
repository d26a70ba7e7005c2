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

/*
 * All return the length of the id in bytes (1 to ELF_NOTE_BUILD_ID_MAX), or a negative errno; -ENOENT: the object has
 * no build-id.
 */

/* From ELF notes in the byte order of this machine. Of a longer id only the first ELF_NOTE_BUILD_ID_MAX bytes. */
int elf_note_build_id(struct span notes, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/* -EINVAL: no ELF. */
int elf_note_of_fd(int fd, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/*
 * Of the file at a path, and of the file at a path as a living process sees it; `mapped` and further errors:
 * sysinfo/object_file.h.
 */
int elf_note_of_file(const char *path, const struct object_mapping *mapped, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);
int elf_note_of_process(pid_t pid, const char *path, const struct object_mapping *mapped,
			uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/* Of the running kernel. */
int elf_note_of_kernel(uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/* `name` as in /proc/modules. */
int elf_note_of_module(const char *name, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/*
 * The vdso in our own address space, which is a whole ELF image. It has no file; all processes of our word size have
 * the same one. len 0: there is none. Source: getauxval(3) AT_SYSINFO_EHDR, vdso(7).
 */
struct span vdso_image(void);
int elf_note_of_vdso(uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);
