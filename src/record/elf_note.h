/* SPDX-License-Identifier: MIT */
/*
 * elf_note: the build-id of an object, from its ELF note (name "GNU", type NT_GNU_BUILD_ID). Nothing is kept
 * open. Source: elf(5) "Notes (Nhdr)".
 */
#pragma once

#include <stdint.h>

#include "base/span.h"

enum { ELF_NOTE_BUILD_ID_MAX = 20 };

/* All return the bytes of the id (1 to ELF_NOTE_BUILD_ID_MAX), or a negative errno: -ENOENT, it has none. */

/* In notes as they lie in memory of this machine; for a longer id its front. */
int elf_note_build_id(struct span notes, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/* -EINVAL: no regular file, or no ELF. Devices and fifos are never opened. `ino`: what it must be; 0: any. */
int elf_note_of_file(const char *path, uint64_t ino, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

int elf_note_of_kernel(uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/* `name` as in /proc/modules. */
int elf_note_of_module(const char *name, uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);

/* The one in our own address space: it is the same in every process of our word size. */
int elf_note_of_vdso(uint8_t ret[ELF_NOTE_BUILD_ID_MAX]);
