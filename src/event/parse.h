/* SPDX-License-Identifier: MIT */
/* parse: where the parser of -e stands in its text, and how it complains. Private to this room. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "event/lexer.h"

struct diag;
struct suggest;

struct parse {
	struct lexer lexer;
	struct token token; /* the one that comes next */
	size_t end;         /* of the token that was taken last: bytes of the text */
	struct diag *reterr;
};

void parse_init(struct parse *parse, const char *text, struct diag *reterr);

/* The next token is of this kind, and, inside of an event, without blanks before it. */
bool parse_at(const struct parse *parse, enum token_kind kind);

/* Takes the next token, whatever it is. */
struct token parse_take(struct parse *parse);

/* Takes the next token when it is of this kind. */
bool parse_accept(struct parse *parse, enum token_kind kind);

/* Fills the diag with "column N of 'TEXT': …" and returns -EINVAL. */
int parse_error(const struct parse *parse, size_t offset, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* "…: expected WHAT, found …" at the next token. */
int parse_expected(const struct parse *parse, const char *what);

/* "…: WHAT 'WORD'; did you mean …?" */
int parse_unknown(const struct parse *parse, const struct token *word, const char *what,
		  const struct suggest *suggest);

/* The token's text as a C string on the heap; NULL: out of memory. */
char *parse_text(const struct token *token);

/* A decimal or 0x… number that is the whole token. -EINVAL: is none; -ERANGE: more than 64 bits. */
int parse_number(const struct token *token, uint64_t *ret);
