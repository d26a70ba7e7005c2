/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "event/names/names.h"
#include "event/parse/parse.h"

static enum token_kind separator_kind(char c)
{
	switch (c) {
	case ',': return TOKEN_COMMA;
	case ':': return TOKEN_COLON;
	case '/': return TOKEN_SLASH;
	case '=': return TOKEN_EQUALS;
	case '{': return TOKEN_BRACE_OPEN;
	case '}': return TOKEN_BRACE_CLOSE;
	default: return TOKEN_WORD;
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
	struct token token = {.text = text, .start = lexer->at, .end = lexer->at, .spaced = lexer->at > before};

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
	case TOKEN_END: return "the end";
	case TOKEN_WORD: return "a word";
	case TOKEN_STRING: return "a quoted text";
	case TOKEN_COMMA: return "','";
	case TOKEN_COLON: return "':'";
	case TOKEN_SLASH: return "'/'";
	case TOKEN_EQUALS: return "'='";
	case TOKEN_BRACE_OPEN: return "'{'";
	case TOKEN_BRACE_CLOSE: return "'}'";
	case TOKEN_OPEN_STRING: return "a quote that is not closed";
	case TOKEN_CONTROL: return "a control character";
	}
	return "?";
}

bool token_equals(const struct token *token, const char *word)
{
	return strlen(word) == token->len && memcmp(token->text, word, token->len) == 0;
}

void parse_init(struct parse *parse, const char *text, struct diag *reterr)
{
	*parse = (struct parse){.lexer = {.text = text}, .reterr = reterr};
	parse->token = lexer_next(&parse->lexer);
}

bool parse_at(const struct parse *parse, enum token_kind kind)
{
	if (parse->token.kind != kind)
		return false;
	return !parse->token.spaced || kind == TOKEN_COMMA || kind == TOKEN_BRACE_CLOSE || kind == TOKEN_END;
}

struct token parse_take(struct parse *parse)
{
	struct token taken = parse->token;

	parse->end = taken.end;
	parse->token = lexer_next(&parse->lexer);
	return taken;
}

bool parse_accept(struct parse *parse, enum token_kind kind)
{
	if (!parse_at(parse, kind))
		return false;
	parse_take(parse);
	return true;
}

/* The part of a long text around the offset. */
static const char *excerpt(const char *text, size_t offset, int *ret_len)
{
	enum { BEFORE = 60, MOST = 100 };
	size_t from = offset > BEFORE ? offset - BEFORE : 0, len = strlen(text + from);

	*ret_len = len > MOST ? MOST : (int)len;
	return text + from;
}

static void make_one_line(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
	}
}

int parse_error(const struct parse *parse, size_t offset, const char *format, ...)
{
	char why[256];
	int len;
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	const char *near = excerpt(parse->lexer.text, offset, &len);
	diag_set(parse->reterr, -EINVAL, "column %zu of '%.*s': %s", offset + 1, len, near, why);
	if (parse->reterr)
		make_one_line(parse->reterr->text);
	return -EINVAL;
}

int parse_expected(const struct parse *parse, const char *what)
{
	const struct token *token = &parse->token;

	if (token->kind == TOKEN_CONTROL)
		return parse_error(parse, token->start, "expected %s, found control character %#x", what,
				   (unsigned char)*token->text);
	if (token->kind != TOKEN_WORD && token->kind != TOKEN_STRING)
		return parse_error(parse, token->start, "expected %s, found %s%s", what,
				   token->spaced && token->kind != TOKEN_END ? "a blank and " : "",
				   token_kind_text(token->kind));
	return parse_error(parse, token->start, "expected %s, found %s'%.*s'", what,
			   token->spaced ? "a blank and " : "", token->len > 60 ? 60 : (int)token->len, token->text);
}

int parse_unknown(const struct parse *parse, const struct token *word, const char *what, const struct suggest *suggest)
{
	AUTO_BUF struct buf near = {0};

	if (suggest)
		suggest_format(suggest, &near);
	return parse_error(parse, word->start, "%s '%.*s'%s", what, word->len > 60 ? 60 : (int)word->len, word->text,
			   buf_text(&near));
}

char *parse_text(const struct token *token)
{
	return strndup(token->text, token->len);
}

int parse_number(const struct token *token, uint64_t *ret)
{
	bool hex = token->len > 2 && token->text[0] == '0' && (token->text[1] | 0x20) == 'x';
	uint64_t value = 0, base = hex ? 16 : 10;

	if (token->len == 0)
		return -EINVAL;
	for (size_t i = hex ? 2 : 0; i < token->len; i++) {
		char c = token->text[i];
		unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
		if (digit >= base || c < '0')
			return -EINVAL;
		if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value))
			return -ERANGE;
	}
	*ret = value;
	return 0;
}
