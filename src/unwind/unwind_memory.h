/* SPDX-License-Identifier: MIT */
/* unwind_memory: what unwind tables take, for who gives up those that are not needed any more. */
#pragma once

#include <stddef.h>

struct unwind_object;
struct unwind_tables;

/*
 * Gives up the object, and its table unless other objects have it, too. Not while a thread builds any object. Others
 * may unwind, but not in an address space that has this object, nor later in one of a generation that had it.
 */
void unwind_object_free(struct unwind_object *object);

/* Memory of its table; of one that several objects have, its share. Not while any object is built or given up. */
size_t unwind_object_bytes(const struct unwind_object *object);

size_t unwind_tables_bytes(const struct unwind_tables *tables); /* memory of all tables; any thread */
