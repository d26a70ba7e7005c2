/* SPDX-License-Identifier: MIT */
/*
 * mapped_objects: the files that recorded processes have mapped, by what the kernel says of them, and how to open one
 * as the process sees it: in its own mount namespace, deleted, replaced by another of its name, or a memfd; and their
 * unwind tables, which stay for a while when the process has ended: it may be started again. Private to record/unwind.
 * Any thread, but for mapped_object_mark() and mapped_objects_give_up(): one thread, while no other has a pointer to an
 * object, but those that mapped_object_mark() was called for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "unwind/unwind.h"

struct mapped_object;
struct mapped_objects;
struct object_watch;
struct task_event;

/* Of objects that no process has mapped any more, how much stays. */
struct mapped_objects_limits {
	size_t idle_bytes; /* of their tables */
	size_t nr_idle;
};

/*
 * watch: has the files of processes that have ended; borrowed; NULL: then only what is still under its name is found.
 * NULL: out of memory.
 */
struct mapped_objects *mapped_objects_new(struct unwind_tables *tables, const struct mapped_objects_limits *limits,
					  struct object_watch *watch);
void mapped_objects_free(struct mapped_objects *objects); /* with all objects. NULL is fine */

/*
 * The object that a MMAP or MMAP2 record names, made when there is none; its process is one where it can be found.
 * NULL: memory without a file, or out of memory. Valid until mapped_objects_free() or mapped_objects_give_up().
 */
struct mapped_object *mapped_objects_find(struct mapped_objects *objects, const struct task_event *mmap);

/*
 * Whether there may be enough to give up: there is a quarter of the limits more than after the last time, or there was
 * no room for a table. Then all objects that are mapped are to be marked, and mapped_objects_give_up() frees others,
 * but those that were mapped last, as far as the limits allow; of their tables none stays where another one was
 * refused, which may be built then. true: there is less memory in use. Not while a table is built; others may unwind,
 * as unwind_object_free() says.
 */
bool mapped_objects_are_many(struct mapped_objects *objects);
void mapped_object_mark(struct mapped_objects *objects, struct mapped_object *object);
bool mapped_objects_give_up(struct mapped_objects *objects);

/*
 * Its unwind table, which may be one that is not built yet; also again, when the file could not be opened and more
 * processes have mapped it since.
 */
struct unwind_object *mapped_object_table(struct mapped_object *object);

/*
 * Opens that very file and builds its table, if it is not built, which may take a second; waits for a thread that does
 * so already. What has its name now may be another file: then it has none. Only regular files are opened. Other threads
 * may look it up at the same time.
 */
void mapped_object_build(struct mapped_objects *objects, struct mapped_object *object);
enum unwind_object_state mapped_object_state(const struct mapped_object *object); /* of its table */
