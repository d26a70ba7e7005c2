/* SPDX-License-Identifier: MIT */
/*
 * split_files: finds the split debug information of an object, which is in files beside it: .dwo files, which the
 * compiler writes, and .dwp files, which contain several of them (gcc -gsplit-dwarf, dwp). One owner, one thread.
 */
#pragma once

#include <stdint.h>

struct die;
struct dwarf;
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

/* A file with split units, for who copies it. Beside a copy of the object it is found under split_file_leaf(). */
struct split_file {
	int fd;           /* borrowed; -1: it was not found */
	int package;      /* it is the .dwp file of the path of that number; -1: a .dwo file */
	uint64_t id;      /* of the unit in a .dwo file */
	const char *name; /* as the object has it, of a .dwo file and of one that was not found; else NULL */
};
struct split_visitor {
	int (*visit)(struct split_visitor *visitor, const struct split_file *file); /* 0, or an error that ends it */
};

/*
 * Visits the file of each unit of the object, a .dwp file once; each has been found to have a unit of it. Up to 16,384
 * of them. 0 or the visitor's error.
 */
int split_files_visit(struct split_files *files, struct dwarf *dwarf, struct split_visitor *visitor);

/*
 * Its name where the object is "elf" and the file with its debug information "debug": "elf.dwp", "debug.dwp", or the id
 * and ".dwo", for the name of a .dwo file may lead anywhere. `ret` has SPLIT_LEAF_ROOM bytes.
 */
enum { SPLIT_LEAF_ROOM = 32 };
void split_file_leaf(const struct split_file *file, char ret[SPLIT_LEAF_ROOM]);
