/* SPDX-License-Identifier: MIT */
/*
 * lexer: the text of -e as tokens with columns. Borrows the text; owns nothing.
 *
 * Every byte that is no separator belongs to a word, so that one lexical grammar serves names, globs and
 * numbers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum token_kind {
	TOKEN_END,
	TOKEN_WORD,
	TOKEN_STRING, /* in '…' or "…" */
	TOKEN_COMMA,
	TOKEN_COLON,
	TOKEN_SLASH,
	TOKEN_EQUALS,
	TOKEN_BRACE_OPEN,
	TOKEN_BRACE_CLOSE,
	TOKEN_OPEN_STRING, /* a quote that never ends */
	TOKEN_CONTROL,     /* a control character: no part of any event */
};

struct token {
	enum token_kind kind;
	const char *text; /* what counts: of a string, what is between the quotes */
	size_t len;
	size_t start, end; /* bytes of the whole token in the text; column = start + 1 */
	bool spaced;       /* blanks before it */
};

struct lexer {
	const char *text;
	size_t at;
};

struct token lexer_next(struct lexer *lexer);

/* What a message calls this kind of token: "','", "the end", "a word". */
const char *token_kind_text(enum token_kind kind);

bool token_equals(const struct token *token, const char *word);
