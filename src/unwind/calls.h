/* SPDX-License-Identifier: MIT */
/*
 * calls: which function the call before a return address has called, as the code in the object's file says. It is read
 * where a chain has asked for it, and kept, in 32 KiB of an object that chains have asked for. x86-64. Private to
 * unwind.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct unwind_object;

enum called {
	CALLED_UNKNOWN, /* no direct call, or one that says nothing: other code may have been run by a jump from there
			 */
	CALLED_KNOWN,
	CALLED_NOT_READ, /* unwind_object_build() reads it */
};

/*
 * By the call before an address of an object in state UNWIND_OBJECT_READY. *ret_place: see table_place(). never_waits:
 * no memory, no lock; it is not noted that this is to be read. Any thread.
 */
enum called calls_find(struct unwind_object *object, uint64_t return_address, bool never_waits, uint32_t *ret_place);

/* Reads what is lacking. fd below 0: that is not known from now on. false: nothing is. Any thread. */
bool calls_read(struct unwind_object *object, int fd);
