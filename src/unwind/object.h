/* SPDX-License-Identifier: MIT */
/* object: a mapped file and its table. Owned by the unwind_tables. Private to unwind. */
#pragma once

#include <stdatomic.h>

#include "unwind/table.h"
#include "unwind/unwind.h"

struct calls;
struct content;

struct unwind_object {
	struct unwind_tables *tables;
	struct unwind_table *table;    /* of UNWIND_OBJECT_READY */
	struct content *content;       /* likewise; to which the table belongs */
	_Atomic int state;             /* enum unwind_object_state */
	bool has_file;                 /* else there is only a copy of the code's information; set before it is ready */
	_Atomic(struct calls *) calls; /* of code that it has; NULL: none was looked at */
	size_t id_bytes;
	uint8_t id[]; /* the caller's */
};

/* NULL: it is not known how to unwind there. */
const struct unwind_arch *unwind_tables_arch(const struct unwind_tables *tables);
