/* SPDX-License-Identifier: MIT */
/*
 * ini: a configuration text, read entry by entry:
 *
 *	[section]           # comments start with # or ;
 *	key = some value    ; to the end of the line, without the spaces around it
 *	key                 ; no value at all
 *	key = "quoted # \"text\"" and \
 *	                more
 *
 * In values \n, \t, \b, \\ and \" are escapes and a backslash ends a line that goes on. Keys are letters, digits and
 * '-', the first a letter. Names of sections and keys come back in small letters.
 *
 * Touches no file. One owner (ini_fini), one thread; borrows the text.
 */
#pragma once

#include "base/buf.h"
#include "base/span.h"

struct diag;

struct ini {
	const uint8_t *at, *end;
	unsigned line; /* of `at`, from 1 */
	struct buf section, key, value;
};

/* Strings are valid until the next call. */
struct ini_entry {
	const char *section;
	const char *key;
	const char *value; /* NULL: a key without "=" */
	unsigned line;     /* where the key stands */
};

/* `ini` needs no other initialization. */
void ini_start(struct ini *ini, struct span text);
void ini_fini(struct ini *ini);

/*
 * 1: *ret is the next entry. 0: the end. -EINVAL: ini->line is not as it should be, and the diag says why;
 * -ENOMEM. After an error there is no more to read.
 */
int ini_next(struct ini *ini, struct ini_entry *ret, struct diag *reterr);
