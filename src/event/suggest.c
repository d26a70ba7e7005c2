/* SPDX-License-Identifier: MIT */
#include "event/suggest.h"

#include <string.h>

#include "base/buf.h"
#include "base/near.h"

/* Case, and '-' for '_', make no difference. */
static void fold(char ret[SUGGEST_WORD_BYTES], const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char c = word[i];
		ret[i] = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
	}
	ret[len] = '\0';
}

void suggest_init(struct suggest *suggest, const char *word, size_t len)
{
	memset(suggest, 0, sizeof(*suggest));
	if (len < sizeof(suggest->word))
		fold(suggest->word, word, len);
}

void suggest_offer(struct suggest *suggest, const char *known)
{
	suggest_offer_as(suggest, known, known);
}

void suggest_offer_as(struct suggest *suggest, const char *known, const char *shown)
{
	char folded[SUGGEST_WORD_BYTES];
	size_t known_len = strlen(known);

	if (!suggest->word[0] || known_len >= sizeof(folded) || strlen(shown) >= sizeof(folded))
		return;
	fold(folded, known, known_len);
	if (!near_enough(suggest->word, folded))
		return;

	unsigned distance = near_distance(suggest->word, folded);
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
	memmove(&suggest->near[at + 1], &suggest->near[at],
		(suggest->nr - 1 - at) * sizeof(suggest->near[0]));
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
