/* SPDX-License-Identifier: MIT */
/*
 * parse: what the files of this room share: tokens, the parser of -e, terms, modifiers, and how events are added to a
 * list.
 * Tokens borrow the text and have columns. Every byte that is no separator belongs to a word, so that one lexical
 * grammar serves names, globs and numbers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;
struct event;
struct event_list;
struct pmu;
struct suggest;

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
	const char *text; /* of a string without its quotes */
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

struct parse {
	struct lexer lexer;
	struct token token; /* the one that comes next */
	size_t end;         /* of the token that was taken last: bytes of the text */
	struct diag *reterr;
};

void parse_init(struct parse *parse, const char *text, struct diag *reterr);

/* Is the next token of this kind? Inside an event, only if no blanks stand before it. */
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
int parse_unknown(const struct parse *parse, const struct token *word, const char *what, const struct suggest *suggest);

/* The token's text as a C string on the heap; NULL: out of memory. */
char *parse_text(const struct token *token);

/* A decimal or 0x… number that is the whole token. -EINVAL: is none; -ERANGE: more than 64 bits. */
int parse_number(const struct token *token, uint64_t *ret);

enum { LIST_MAX_EVENTS = 1 << 14 };

/* An event of this type and config, with the defaults of an event without modifiers. */
struct event list_new_event(uint32_t type, uint64_t config);

void event_fini(struct event *event);

/* Moves the event to the end of the list; *event is left empty when that worked. */
int list_add(struct event_list *list, struct event *event, struct diag *reterr);

/* Moves all events of `from` to the end of `list`, or none. */
int list_append(struct event_list *list, struct event_list *from, struct diag *reterr);

/* Copies what terms and modifiers have set from `model` to an event of another type or config. */
void list_copy_settings(struct event *event, const struct event *model);

/* Makes one group of the events from `first` to the end. Takes over the name (heap or NULL). */
void list_make_group(struct event_list *list, size_t first, char *name);

/*
 * The letters behind an event that say where it counts: "u", "kpp", "GHD". Applies the letters to the event's attr and
 * `given`. 0, or -EINVAL: *ret_bad is the index of the letter that is unknown or one too many, and *ret_why says so.
 */
int modifier_apply(struct event *event, const char *letters, size_t len, size_t *ret_bad, const char **ret_why);

/* The same for letters behind the group of the event, which are added to the event's own. */
int modifier_add(struct event *event, const char *letters, size_t len, size_t *ret_bad, const char **ret_why);

/* The letters, for messages. */
#define MODIFIER_LETTERS "u k h G H I p P D e S W b"

/* Terms: what stands between the slashes of an event: "period=1000,name=tick,call-graph=fp". */

enum term_host {
	TERM_HOST_SYMBOLIC,   /* behind a name, a raw number or TYPE:CONFIG */
	TERM_HOST_TRACEPOINT, /* takes few: nothing of the attr's config, period or name */
	TERM_HOST_PMU,        /* also the PMU's own terms, and the names of its events */
};

/*
 * Reads terms up to the closing '/', which it takes too, into the event. `pmu`: with TERM_HOST_PMU, else NULL.
 */
int term_parse_list(struct parse *parse, enum term_host host, const struct pmu *pmu, struct event *event);

/*
 * Reads the terms of a named event of the PMU, as sysfs has them. Errors name columns of that text.
 */
int term_parse_alias(const char *terms, const struct pmu *pmu, struct event *event, struct parse *parse);
