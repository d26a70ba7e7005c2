/* SPDX-License-Identifier: MIT */
#include "cmd/text/put_text.h"

#include "base/escape.h"
#include "base/text.h"

void put_bytes(FILE *to, const char *bytes, size_t len)
{
	if (len) /* else bytes may be NULL */
		fwrite_unlocked(bytes, 1, len, to);
}

void put_blanks(FILE *to, size_t nr)
{
	static const char blanks[] = "                                                                ";
	const size_t most = sizeof(blanks) - 1;

	for (; nr > most; nr -= most)
		put_bytes(to, blanks, most);
	put_bytes(to, blanks, nr);
}

int put_padded(FILE *to, const char *text, int least, int most)
{
	AUTO_ESCAPED shown = escaped_text(text);
	const int len = most < 0 ? shown.len : escaped_cut(shown.text, most);

	put_bytes(to, shown.text, (size_t)len);
	if (len >= least)
		return len;
	put_blanks(to, (size_t)(least - len));
	return least;
}

int put_share(FILE *to, double share, int width)
{
	char text[HUNDREDTHS_ROOM + 1], *end = digits_put_hundredths(text, share);

	*end++ = '%';
	const int len = (int)(end - text), blanks = width > len + 1 ? width - len : 1;
	put_blanks(to, (size_t)blanks);
	put_bytes(to, text, (size_t)len);
	return blanks + len;
}
