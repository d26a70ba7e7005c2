/* SPDX-License-Identifier: MIT */
/*
 * ordered_text: text in pieces, which several threads make at the same time; it is written in the order of the pieces.
 * The caller's thread is one of them, and the only one that writes; no other one is left in the end.
 */
#pragma once

#include <stdio.h>

struct ordered_text {
	unsigned nr_pieces;
	/*
	 * Writes that piece to `to`, which each thread has for itself. worker: the number of the thread, less than
	 * ordered_text_workers(); 0: the caller's. 0 or -errno: then no piece behind it is written.
	 */
	int (*put)(void *ctx, unsigned worker, unsigned piece, FILE *to);
	void *ctx;
};

/* 1: there is no more than one CPU for it. */
unsigned ordered_text_workers(void);

/* 0, -ENOMEM, or the first error of a piece. Errors of `to` are left to the caller, but end it. */
int ordered_text_print(FILE *to, const struct ordered_text *text);
