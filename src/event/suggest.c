/* SPDX-License-Identifier: MIT */
#include "event/suggest.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

void suggest_init(struct suggest *suggest, const char *word, size_t len)
{
	memset(suggest, 0, sizeof(*suggest));
	if (len < sizeof(suggest->word))
		memcpy(suggest->word, word, len);
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned least = a < b ? a : b;
	return least < c ? least : c;
}

static char fold(char c)
{
	if (c == '_')
		return '-';
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Levenshtein's distance; case, and '-' for '_', cost nothing. Both are shorter than SUGGEST_WORD_BYTES. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[SUGGEST_WORD_BYTES];
	size_t b_len = strlen(b);

	for (size_t j = 0; j <= b_len; j++)
		row[j] = (unsigned)j;
	for (size_t i = 0; a[i]; i++) {
		unsigned diagonal = row[0];
		row[0] = (unsigned)i + 1;
		for (size_t j = 0; j < b_len; j++) {
			unsigned above = row[j + 1];
			row[j + 1] = min3(above + 1, row[j] + 1, diagonal + (fold(a[i]) != fold(b[j])));
			diagonal = above;
		}
	}
	return row[b_len];
}

void suggest_offer(struct suggest *suggest, const char *known)
{
	suggest_offer_as(suggest, known, known);
}

void suggest_offer_as(struct suggest *suggest, const char *known, const char *shown)
{
	size_t len = strlen(suggest->word), known_len = strlen(known);
	unsigned most = len < 6 ? 1 : (unsigned)len / 3;

	if (!len || known_len >= SUGGEST_WORD_BYTES || strlen(shown) >= SUGGEST_WORD_BYTES ||
	    known_len > len + most || len > known_len + most)
		return;
	unsigned distance = edit_distance(suggest->word, known);
	if (distance > most)
		return;

	unsigned at = suggest->nr;
	while (at > 0 && suggest->near[at - 1].distance > distance)
		at--;
	for (unsigned i = 0; i < suggest->nr; i++) {
		if (strcmp(suggest->near[i].word, shown) == 0)
			return;
	}
	if (at == SUGGEST_MOST)
		return;
	if (suggest->nr < SUGGEST_MOST)
		suggest->nr++;
	memmove(&suggest->near[at + 1], &suggest->near[at], (suggest->nr - 1 - at) * sizeof(suggest->near[0]));
	memcpy(suggest->near[at].word, shown, strlen(shown) + 1);
	suggest->near[at].distance = distance;
}

void suggest_format(const struct suggest *suggest, struct buf *ret)
{
	for (unsigned i = 0; i < suggest->nr; i++) {
		buf_put_text(ret, i == 0 ? "; did you mean " : i + 1 == suggest->nr ? " or " : ", ");
		buf_put_text(ret, suggest->near[i].word);
	}
	if (suggest->nr)
		buf_put_text(ret, "?");
}
