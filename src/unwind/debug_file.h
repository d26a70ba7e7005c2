/* SPDX-License-Identifier: MIT */
/* debug_file: the file into which the debug information of another one was moved. Private to unwind. */
#pragma once

#include <gelf.h>

/*
 * Of the object that is open as `fd`: under /usr/lib/debug by its build-id, or where .gnu_debuglink says, by the path
 * that the object was opened with. A descriptor for reading, or -1: there is none with the same build-id, or the object
 * has no build-id. Source: gdb's manual, "Debugging Information in Separate Files".
 */
int debug_file_open(int fd, Elf *elf);
