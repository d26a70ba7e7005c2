/* SPDX-License-Identifier: MIT */
#include "cmd/cli/ini.h"

#include <errno.h>
#include <string.h>

#include "base/diag.h"

enum { END = -1 };

void ini_start(struct ini *ini, struct span text)
{
	const uint8_t *start = text.ptr;

	*ini = (struct ini){.at = start, .end = text.len ? start + text.len : start, .line = 1};
}

void ini_fini(struct ini *ini)
{
	buf_fini(&ini->section);
	buf_fini(&ini->key);
	buf_fini(&ini->value);
}

static int peek(const struct ini *ini)
{
	return ini->at < ini->end ? *ini->at : END;
}

static void step(struct ini *ini)
{
	ini->line += *ini->at++ == '\n';
}

static bool is_blank(int c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool is_letter(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name(int c)
{
	return is_letter(c) || (c >= '0' && c <= '9') || c == '-';
}

static void skip_blanks(struct ini *ini)
{
	while (is_blank(peek(ini)))
		step(ini);
}

static void skip_line(struct ini *ini)
{
	while (peek(ini) != END && peek(ini) != '\n')
		step(ini);
}

static int bad(struct ini *ini, struct diag *reterr, const char *why)
{
	ini->at = ini->end;
	return diag_set(reterr, -EINVAL, "%s", why);
}

static void put_small(struct buf *to, int c)
{
	buf_put_u8(to, (uint8_t)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c));
}

/* From behind "[" to behind "]"; without spaces around it. Who reads knows which names there are. */
static int take_section(struct ini *ini, struct diag *reterr)
{
	size_t kept = 0;

	ini->section.len = 0;
	skip_blanks(ini);
	for (int c = peek(ini); c != ']'; c = peek(ini)) {
		if (c == END || c == '\n' || !c)
			return bad(ini, reterr, "\"]\" is missing behind the name of the section");
		put_small(&ini->section, c);
		kept = is_blank(c) ? kept : ini->section.len;
		step(ini);
	}
	step(ini);
	if (!ini->section.failed)
		ini->section.len = kept;
	return kept ? 0 : bad(ini, reterr, "the name of a section must follow \"[\"");
}

/* What stands behind a backslash. A line that goes on adds nothing. */
static int take_escape(struct ini *ini, struct diag *reterr)
{
	static const char letters[] = "ntb\\\"", meanings[] = "\n\t\b\\\"";
	int c = peek(ini);

	if (c == '\n') {
		step(ini);
		return 0;
	}
	const char *letter = c > 0 ? strchr(letters, c) : NULL;
	if (!letter)
		return bad(ini, reterr,
			   "a backslash is followed by n, t, b, a backslash, a quote or the end of the line");
	buf_put_u8(&ini->value, (uint8_t)meanings[letter - letters]);
	step(ini);
	return 0;
}

/* From behind "=" to the end of the line. Spaces at the end do not count, unless quoted or escaped. */
static int take_value(struct ini *ini, struct diag *reterr)
{
	bool quoted = false;
	size_t kept = 0; /* bytes of the value up to the last one that counts */

	ini->value.len = 0;
	skip_blanks(ini);
	for (int c = peek(ini); c != END && c != '\n'; c = peek(ini)) {
		if (!c)
			return bad(ini, reterr, "a NUL byte");
		if (!quoted && (c == '#' || c == ';')) {
			skip_line(ini);
			break;
		}
		step(ini);
		if (c == '\\') {
			size_t before = ini->value.len;
			int err = take_escape(ini, reterr);
			if (err)
				return err;
			kept = ini->value.len > before ? ini->value.len : kept;
			continue;
		}
		if (c == '"') {
			quoted = !quoted;
			kept = ini->value.len;
			continue;
		}
		buf_put_u8(&ini->value, (uint8_t)c);
		kept = quoted || !is_blank(c) ? ini->value.len : kept;
	}
	if (quoted)
		return bad(ini, reterr, "a quote (\") is not closed in its line");
	if (!ini->value.failed)
		ini->value.len = kept;
	return 0;
}

static int take_entry(struct ini *ini, struct ini_entry *ret, struct diag *reterr)
{
	unsigned line = ini->line;
	bool has_value = false;

	if (!ini->section.len)
		return bad(ini, reterr, "a key before the first [section]");
	ini->key.len = 0;
	for (; is_name(peek(ini)); step(ini))
		put_small(&ini->key, peek(ini));
	skip_blanks(ini);
	int c = peek(ini);
	if (c == '=') {
		step(ini);
		has_value = true;
		int err = take_value(ini, reterr);
		if (err)
			return err;
	} else if (c == '#' || c == ';') {
		skip_line(ini);
	} else if (c != END && c != '\n') {
		return bad(ini, reterr, "\"=\" or the end of the line must follow a key: letters, digits and \"-\"");
	}
	struct ini_entry entry = {
		.section = buf_text(&ini->section),
		.key = buf_text(&ini->key),
		.value = has_value ? buf_text(&ini->value) : NULL,
		.line = line,
	};
	if (ini->section.failed || ini->key.failed || ini->value.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	*ret = entry;
	return 1;
}

int ini_next(struct ini *ini, struct ini_entry *ret, struct diag *reterr)
{
	for (int c = peek(ini); c != END; c = peek(ini)) {
		if (is_letter(c))
			return take_entry(ini, ret, reterr);
		if (c == '#' || c == ';') {
			skip_line(ini);
		} else if (is_blank(c) || c == '\n') {
			step(ini);
		} else if (c == '[') {
			step(ini);
			int err = take_section(ini, reterr);
			if (err)
				return err;
		} else {
			return bad(ini, reterr, "neither [section] nor key = value nor a comment");
		}
	}
	return 0;
}
