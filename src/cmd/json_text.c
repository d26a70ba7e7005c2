/* SPDX-License-Identifier: MIT */
#include "cmd/json_text.h"

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the UTF-8 sequence that begins there; 0: none does. Source: RFC 3629, section 4. */
static size_t utf8_bytes(const unsigned char *at)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t len;

	if (at[0] < 0x80)
		return 1;
	if (at[0] >= 0xc2 && at[0] <= 0xdf)
		len = 2;
	else if (at[0] >= 0xe0 && at[0] <= 0xef)
		len = 3;
	else if (at[0] >= 0xf0 && at[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (at[0] == 0xe0)
		low = 0xa0;
	else if (at[0] == 0xed)
		high = 0x9f;
	else if (at[0] == 0xf0)
		low = 0x90;
	else if (at[0] == 0xf4)
		high = 0x8f;
	if (at[1] < low || at[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((at[i] & 0xc0) != 0x80) /* the end of the text, too */
			return 0;
	return len;
}

void json_put_string(FILE *to, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	fputc('"', to);
	while (*at) {
		size_t len = utf8_bytes(at);
		if (!len)
			fputs("\\ufffd", to);
		else if (*at == '"' || *at == '\\')
			fprintf(to, "\\%c", *at);
		else if (*at < ' ' || *at == '<' || *at == 0x7f)
			fprintf(to, "\\u%04x", *at);
		else
			fwrite(at, 1, len, to);
		at += len ? len : 1;
	}
	fputc('"', to);
}
