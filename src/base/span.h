/* SPDX-License-Identifier: MIT */
/* span: borrowed bytes. Owns nothing; valid as long as what it points into. */
#pragma once

#include <stddef.h>

struct span {
	const void *ptr;
	size_t len; /* bytes */
};

static inline size_t span_total(const struct span spans[], unsigned nr_spans)
{
	size_t len = 0;

	for (unsigned i = 0; i < nr_spans; i++)
		len += spans[i].len;
	return len;
}

/* A text without its NUL. */
static inline struct span span_of_text(const char *text)
{
	return (struct span){text, __builtin_strlen(text)};
}
