/* SPDX-License-Identifier: MIT */
/*
 * split_files: the files beside an object that have what is not in the object itself of its debug information: .dwo
 * files of the compiler, and .dwp files, in which many of them were put together (gcc -gsplit-dwarf, dwp). One owner,
 * one thread.
 */
#pragma once

struct die;
struct dwarf_unit;
struct split_files;

/*
 * paths: of the files that the skeletons may come from, NULL: not known; borrowed. Only regular files are opened.
 * NULL: out of memory.
 */
struct split_files *split_files_new(char *const paths[2]);
void split_files_free(struct split_files *files); /* NULL is fine */

/* The other part of the unit of this root. NULL: it is in none of the files. Valid until split_files_free(). */
struct dwarf_unit *split_files_find(struct split_files *files, const struct die *skeleton);
