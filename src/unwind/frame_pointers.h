/* SPDX-License-Identifier: MIT */
/* frame_pointers: whether the code of an ELF file keeps frame pointers, as its call frame information tells. */
#pragma once

/*
 * 1: most functions have one, or all code for this machine has one (arm64). 0: most have none. -errno:
 * not known; -ENOEXEC, -ENOENT, -EFBIG as unwind_object_build(). fd stays the caller's; the file may be hostile. Takes
 * some ms. Any thread.
 */
int frame_pointers_kept(int fd);
