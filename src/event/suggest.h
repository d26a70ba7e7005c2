/* SPDX-License-Identifier: MIT */
/* suggest: the known words nearest to one that nobody knows. Caller's memory; owns nothing. */
#pragma once

#include <stddef.h>

struct buf;

enum { SUGGEST_MOST = 3, SUGGEST_WORD_BYTES = 96 };

struct suggest {
	char word[SUGGEST_WORD_BYTES]; /* folded, for comparing */
	unsigned nr;
	struct {
		char word[SUGGEST_WORD_BYTES];
		unsigned distance;
	} near[SUGGEST_MOST]; /* nearest first */
};

/* A word of SUGGEST_WORD_BYTES or more is near nothing. */
void suggest_init(struct suggest *suggest, const char *word, size_t len);

/* Keeps `known` when it is near_enough(). */
void suggest_offer(struct suggest *suggest, const char *known);

/* The same for a word that is compared by another spelling than it is shown with. */
void suggest_offer_as(struct suggest *suggest, const char *known, const char *shown);

/* Appends "; did you mean A, B or C?", or nothing. */
void suggest_format(const struct suggest *suggest, struct buf *ret);
