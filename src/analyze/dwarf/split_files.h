/* SPDX-License-Identifier: MIT */
/*
 * split_files: finds the split debug information of an object, which is in files beside it: .dwo files, which the
 * compiler writes, and .dwp files, which contain several of them (gcc -gsplit-dwarf, dwp). One owner, one thread.
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

/*
 * The split unit that belongs to the skeleton unit with this root entry. NULL: it is in none of the files. Valid until
 * split_files_free().
 */
struct dwarf_unit *split_files_find(struct split_files *files, const struct die *skeleton);
