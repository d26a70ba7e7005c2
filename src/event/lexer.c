/* SPDX-License-Identifier: MIT */
#include "event/lexer.h"

#include <string.h>

static enum token_kind separator_kind(char c)
{
	switch (c) {
	case ',':
		return TOKEN_COMMA;
	case ':':
		return TOKEN_COLON;
	case '/':
		return TOKEN_SLASH;
	case '=':
		return TOKEN_EQUALS;
	case '{':
		return TOKEN_BRACE_OPEN;
	case '}':
		return TOKEN_BRACE_CLOSE;
	default:
		return TOKEN_WORD;
	}
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static bool is_control(char c)
{
	return (unsigned char)c < ' ' || c == 0x7f;
}

static bool is_word(char c)
{
	return !is_control(c) && !is_blank(c) && c != '\'' && c != '"' && separator_kind(c) == TOKEN_WORD;
}

static struct token lex_string(struct lexer *lexer, struct token token)
{
	const char *open = lexer->text + lexer->at;
	const char *close = strchr(open + 1, *open);

	token.kind = close ? TOKEN_STRING : TOKEN_OPEN_STRING;
	token.text = open + 1;
	token.len = close ? (size_t)(close - open) - 1 : strlen(open + 1);
	lexer->at += token.len + (close ? 2 : 1);
	token.end = lexer->at;
	return token;
}

struct token lexer_next(struct lexer *lexer)
{
	size_t before = lexer->at;

	while (is_blank(lexer->text[lexer->at]))
		lexer->at++;

	const char *text = lexer->text + lexer->at;
	struct token token = {
		.text = text, .start = lexer->at, .end = lexer->at, .spaced = lexer->at > before};

	if (*text == '\0')
		return token;
	if (*text == '\'' || *text == '"')
		return lex_string(lexer, token);
	if (is_word(*text)) {
		token.kind = TOKEN_WORD;
		while (is_word(text[token.len]))
			token.len++;
	} else {
		token.kind = is_control(*text) ? TOKEN_CONTROL : separator_kind(*text);
		token.len = 1;
	}
	lexer->at += token.len;
	token.end = lexer->at;
	return token;
}

const char *token_kind_text(enum token_kind kind)
{
	switch (kind) {
	case TOKEN_END:
		return "the end";
	case TOKEN_WORD:
		return "a word";
	case TOKEN_STRING:
		return "a quoted text";
	case TOKEN_COMMA:
		return "','";
	case TOKEN_COLON:
		return "':'";
	case TOKEN_SLASH:
		return "'/'";
	case TOKEN_EQUALS:
		return "'='";
	case TOKEN_BRACE_OPEN:
		return "'{'";
	case TOKEN_BRACE_CLOSE:
		return "'}'";
	case TOKEN_OPEN_STRING:
		return "a quote that is not closed";
	case TOKEN_CONTROL:
		return "a control character";
	}
	return "?";
}

bool token_equals(const struct token *token, const char *word)
{
	return strlen(word) == token->len && memcmp(token->text, word, token->len) == 0;
}
