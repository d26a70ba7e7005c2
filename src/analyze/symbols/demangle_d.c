/* SPDX-License-Identifier: MIT */
/*
 * Names of D. Source: dlang.org/spec/abi.html, "Name Mangling"; the text is as c++filt -s dlang prints it. Not by
 * libiberty, which tries each of the ways in which a name can be split again in each part: one of 230 bytes took it
 * more than a minute. Here each try counts as steps, of which a name has a fixed number.
 */
#include "analyze/symbols/demangle_d.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

enum { STEPS_MAX = 1 << 17, DEPTH_MAX = 300 };

/* Parsers move `at` behind what they took, and append its text to `out`. false: it is no such part, or too much. */
struct parser {
	const char *name, *at;
	struct buf out;
	size_t text_max;
	unsigned nr_steps, depth;
};

static bool parse_type(struct parser *parser);
static bool parse_qualified(struct parser *parser, bool with_modifiers);
static bool parse_mangled(struct parser *parser);
static bool parse_value(struct parser *parser, const char *type_name, char type);

/* Counts; `cost` in bytes of text that is moved. */
static bool step(struct parser *parser, size_t cost)
{
	parser->nr_steps += 1 + (unsigned)(cost / 64);
	return parser->nr_steps < STEPS_MAX && parser->out.len <= parser->text_max && !parser->out.failed;
}

static void put(struct parser *parser, const char *text)
{
	buf_put_text(&parser->out, text);
}

static bool take(struct parser *parser, const char *text)
{
	size_t len = strlen(text);
	bool is = strncmp(parser->at, text, len) == 0;

	parser->at += is ? len : 0;
	return is;
}

/* What was tried is undone. */
struct mark {
	const char *at;
	size_t len;
};

static struct mark mark_of(const struct parser *parser)
{
	return (struct mark){parser->at, parser->out.len};
}

static bool back_to(struct parser *parser, struct mark mark)
{
	parser->at = mark.at;
	parser->out.len = mark.len;
	return false;
}

/* The text from `from` to `middle` goes behind what follows it. */
static bool rotate(struct parser *parser, size_t from, size_t middle)
{
	size_t front = middle - from, rest = parser->out.len - middle;
	AUTO_FREE uint8_t *copy = malloc(front + 1);

	if (!copy || parser->out.failed || !step(parser, front + rest))
		return false;
	if (!front || !rest)
		return true;
	memcpy(copy, parser->out.data + from, front);
	memmove(parser->out.data + from, parser->out.data + middle, rest);
	memcpy(parser->out.data + from + rest, copy, front);
	return true;
}

static bool put_in_front(struct parser *parser, size_t from, const char *text)
{
	size_t middle = parser->out.len;

	put(parser, text);
	return rotate(parser, from, middle);
}

static bool take_number(struct parser *parser, size_t *ret)
{
	size_t number = 0;

	if (!isdigit((unsigned char)*parser->at))
		return false;
	for (; isdigit((unsigned char)*parser->at); parser->at++) {
		number = 10 * number + (size_t)(*parser->at - '0');
		if (number > 1 << 24)
			return false;
	}
	*ret = number;
	return true;
}

/* "Q" and a distance: base 26, the last digit is a small letter. What it refers to; NULL: it is none. */
static const char *reference_at(const struct parser *parser, const char *at, const char **ret_behind)
{
	size_t distance = 0;
	const char *from = at;

	if (*at++ != 'Q')
		return NULL;
	for (; isupper((unsigned char)*at) && distance < 1 << 24; at++)
		distance = 26 * distance + (size_t)(*at - 'A');
	if (!islower((unsigned char)*at))
		return NULL;
	distance = 26 * distance + (size_t)(*at - 'a');
	*ret_behind = at + 1;
	return distance && distance <= (size_t)(from - parser->name) ? from - distance : NULL;
}

static bool is_template(const char *at)
{
	return at[0] == '_' && at[1] == '_' && (at[2] == 'T' || at[2] == 'U');
}

static bool is_symbol_name(const struct parser *parser)
{
	const char *behind, *there = reference_at(parser, parser->at, &behind);

	return isdigit((unsigned char)*parser->at) || is_template(parser->at) ||
	       (there && isdigit((unsigned char)*there));
}

static bool parse_template_argument(struct parser *parser)
{
	size_t from = parser->out.len, len;

	take(parser, "H"); /* specialized */
	switch (*parser->at++) {
	case 'T': return parse_type(parser);
	case 'S': return strncmp(parser->at, "_D", 2) == 0 ? parse_mangled(parser) : parse_qualified(parser, false);
	case 'V': {
		const char *behind, *type = parser->at, *there = reference_at(parser, type, &behind);
		if (!parse_type(parser))
			return false;
		size_t bytes = parser->out.len - from;
		AUTO_FREE char *type_name = parser->out.failed ? NULL : strndup((char *)parser->out.data + from, bytes);
		parser->out.len = from;
		return type_name && step(parser, bytes) && parse_value(parser, type_name, there ? *there : *type);
	}
	case 'X': /* a name as another language mangled it */
		if (!take_number(parser, &len) || strnlen(parser->at, len) < len)
			return false;
		buf_put(&parser->out, parser->at, len);
		parser->at += len;
		return true;
	default: return false;
	}
}

static bool parse_name(struct parser *parser);

static bool parse_template(struct parser *parser)
{
	parser->at += 3;
	if (!is_symbol_name(parser) || !parse_name(parser))
		return false;
	put(parser, "!(");
	for (bool more = false; *parser->at != 'Z'; more = true) {
		if (more)
			put(parser, ", ");
		if (!step(parser, 0) || !parse_template_argument(parser))
			return false;
	}
	parser->at++;
	put(parser, ")");
	return true;
}

/* What the compiler makes: "initializer for X" stands for the name `from` on. */
static bool parse_special(struct parser *parser, size_t len, size_t from, bool *ret)
{
	static const struct {
		const char *name, *behind, *front, *text;
	} specials[] = {
		{"__ctor", "", NULL, "this"},
		{"__dtor", "", NULL, "~this"},
		{"__postblit", "MFZ", NULL, "this(this)"},
		{"__init", "Z", "initializer for ", ""},
		{"__vtbl", "Z", "vtable for ", ""},
		{"__Class", "Z", "ClassInfo for ", ""},
		{"__Interface", "Z", "Interface for ", ""},
		{"__ModuleInfo", "Z", "ModuleInfo for ", ""},
	};

	for (size_t i = 0; i < sizeof(specials) / sizeof(specials[0]); i++) {
		const char *behind = parser->at + len;
		if (strlen(specials[i].name) != len || strncmp(parser->at, specials[i].name, len) != 0 ||
		    strncmp(behind, specials[i].behind, strlen(specials[i].behind)) != 0)
			continue;
		parser->at = behind;
		put(parser, specials[i].text);
		*ret = true;
		if (!specials[i].front) {
			parser->at += strlen(specials[i].behind);
			return true;
		}
		parser->out.len -= parser->out.len > from ? 1 : 0; /* the dot */
		*ret = put_in_front(parser, from, specials[i].front);
		return true;
	}
	return false;
}

/* A length and so many bytes; `from`: where the qualified name begins that it is in. */
static bool parse_counted(struct parser *parser, size_t from)
{
	size_t len;
	bool done;

	if (!take_number(parser, &len) || !len || strnlen(parser->at, len) < len)
		return false;
	if (len > 3 && is_template(parser->at)) { /* of older compilers, with its length */
		const char *end = parser->at + len;
		return parse_template(parser) && parser->at == end;
	}
	if (len >= 4 && strncmp(parser->at, "__S", 3) == 0 && strspn(parser->at + 3, "0123456789") >= len - 3) {
		parser->at += len; /* tells functions of one name apart */
		return is_symbol_name(parser) && parse_name(parser);
	}
	if (parse_special(parser, len, from, &done))
		return done;
	buf_put(&parser->out, parser->at, len);
	parser->at += len;
	return true;
}

static bool parse_name_of(struct parser *parser, size_t from)
{
	const char *behind, *there = reference_at(parser, parser->at, &behind);
	bool parsed = false;

	if (!step(parser, 0) || parser->depth >= DEPTH_MAX)
		return false;
	parser->depth++;
	if (there && isdigit((unsigned char)*there)) {
		parser->at = there;
		parsed = parse_counted(parser, from);
		parser->at = behind;
	} else if (is_template(parser->at)) {
		parsed = parse_template(parser);
	} else {
		parsed = parse_counted(parser, from);
	}
	parser->depth--;
	return parsed;
}

static bool parse_name(struct parser *parser)
{
	return parse_name_of(parser, parser->out.len);
}

/* Each behind a blank, or in front of the text that follows: "pure ", "nothrow ". */
static void parse_attributes(struct parser *parser)
{
	static const struct {
		char letter;
		const char *text;
	} attributes[] = {
		{'a', "pure "},  {'b', "nothrow "}, {'c', "ref "},    {'d', "@property "}, {'e', "@trusted "},
		{'f', "@safe "}, {'i', "@nogc "},   {'j', "return "}, {'l', "scope "},     {'m', "@live "},
	};

	while (*parser->at == 'N') {
		size_t i = 0;
		while (i < sizeof(attributes) / sizeof(attributes[0]) && attributes[i].letter != parser->at[1])
			i++;
		if (i == sizeof(attributes) / sizeof(attributes[0]))
			return;
		put(parser, attributes[i].text);
		parser->at += 2;
	}
}

static bool parse_parameter(struct parser *parser)
{
	static const char *const storage[] = {"I", "in ", "J", "out ", "K", "ref ", "L", "lazy "};

	bool is_return = take(parser, "Nk"); /* newer compilers have it in front of the M */

	if (take(parser, "M"))
		put(parser, "scope ");
	if (is_return || take(parser, "Nk"))
		put(parser, "return ");
	for (size_t i = 0; i < sizeof(storage) / sizeof(storage[0]); i += 2)
		if (take(parser, storage[i])) {
			put(parser, storage[i + 1]);
			if (*storage[i] != 'I' || !take(parser, "K"))
				break;
			put(parser, "ref ");
			break;
		}
	return parse_type(parser);
}

static bool parse_parameters(struct parser *parser)
{
	for (bool more = false;; more = true) {
		if (!step(parser, 0))
			return false;
		if (take(parser, "Z"))
			return true;
		if (take(parser, "X")) { /* T[] t... */
			put(parser, "...");
			return true;
		}
		if (more)
			put(parser, ", ");
		if (take(parser, "Y")) { /* as in C */
			put(parser, "...");
			return true;
		}
		if (!parse_parameter(parser))
			return false;
	}
}

static const char *calling_convention(char letter)
{
	switch (letter) {
	case 'F': return "";
	case 'U': return "extern(C) ";
	case 'W': return "extern(Windows) ";
	case 'V': return "extern(Pascal) ";
	case 'R': return "extern(C++) ";
	case 'Y': return "extern(Objective-C) ";
	default: return NULL;
	}
}

/* "(int)" of a function with a name, whose convention and attributes are left out. */
static bool parse_parameter_list(struct parser *parser)
{
	size_t len = parser->out.len;

	if (!calling_convention(*parser->at) || !step(parser, 0))
		return false;
	parser->at++;
	parse_attributes(parser);
	parser->out.len = len;
	put(parser, "(");
	bool parsed = parse_parameters(parser);
	put(parser, ")");
	return parsed;
}

/* "extern(C) int(char) pure " of a pointer or delegate: it is mangled as convention, attributes, parameters, result. */
static bool parse_function_type(struct parser *parser)
{
	const char *convention = calling_convention(*parser->at);

	if (!convention)
		return false;
	parser->at++;
	put(parser, convention);
	size_t attributes = parser->out.len;
	put(parser, " ");
	parse_attributes(parser);
	size_t parameters = parser->out.len;
	put(parser, "(");
	if (!parse_parameters(parser))
		return false;
	put(parser, ")");
	size_t result = parser->out.len;
	if (!parse_type(parser))
		return false;
	size_t result_bytes = parser->out.len - result, list_bytes = result - parameters;
	return rotate(parser, attributes, parameters) &&                                /* (…) result attributes */
	       rotate(parser, attributes, attributes + list_bytes) &&                   /* result attributes (…) */
	       rotate(parser, attributes + result_bytes, parser->out.len - list_bytes); /* result (…) attributes */
}

/* " const" and others, of what `this` points to. */
static void parse_modifiers(struct parser *parser)
{
	for (;;) {
		if (take(parser, "x"))
			put(parser, " const");
		else if (take(parser, "y"))
			put(parser, " immutable");
		else if (take(parser, "O"))
			put(parser, " shared");
		else if (take(parser, "Ng"))
			put(parser, " inout");
		else
			return;
	}
}

/* The parameters of a function, behind its name; also of one that others are nested in. Without effect if it is none.
 */
static void parse_function(struct parser *parser, bool with_modifiers)
{
	struct mark start = mark_of(parser);

	if (take(parser, "M"))
		parse_modifiers(parser);
	size_t middle = parser->out.len;
	bool parsed = parse_parameter_list(parser) && *parser->at && rotate(parser, start.len, middle);
	if (!parsed)
		back_to(parser, start);
	else if (!with_modifiers)
		parser->out.len -= middle - start.len;
}

static bool parse_qualified(struct parser *parser, bool with_modifiers)
{
	size_t from = parser->out.len;

	if (!is_symbol_name(parser))
		return false;
	for (bool more = false; is_symbol_name(parser); more = true) {
		if (*parser->at == '0') { /* has no name */
			parser->at += strspn(parser->at, "0");
			continue;
		}
		if (more)
			put(parser, ".");
		if (!parse_name_of(parser, from))
			return false;
		if (*parser->at == 'M' || calling_convention(*parser->at))
			parse_function(parser, with_modifiers);
	}
	return step(parser, 0);
}

static const char *basic_type(char letter)
{
	static const char *const names[] = {
		/* a */ "char",   "bool",    "creal",  "double",  "real",  "float",  "byte",
		/* h */ "ubyte",  "int",     "ireal",  "uint",    "long",  "ulong",  "typeof(null)",
		/* o */ "ifloat", "idouble", "cfloat", "cdouble", "short", "ushort", "wchar",
		/* v */ "void",   "dchar",
	};
	size_t at = (size_t)(letter - 'a');

	return letter >= 'a' && at < sizeof(names) / sizeof(names[0]) ? names[at] : NULL;
}

/* "const(T)": with what is in front of the type. */
static bool parse_wrapped(struct parser *parser, const char *front)
{
	put(parser, front);
	bool parsed = parse_type(parser);
	put(parser, ")");
	return parsed;
}

static bool parse_array(struct parser *parser, bool has_length)
{
	size_t length;

	if (has_length && !take_number(parser, &length))
		return false;
	if (!parse_type(parser))
		return false;
	if (has_length)
		buf_printf(&parser->out, "[%zu]", length);
	else
		put(parser, "[]");
	return true;
}

/* "value[key]", where the key is first. */
static bool parse_map(struct parser *parser)
{
	size_t from = parser->out.len;

	put(parser, "[");
	if (!parse_type(parser))
		return false;
	put(parser, "]");
	size_t middle = parser->out.len;
	return parse_type(parser) && rotate(parser, from, middle);
}

static bool parse_delegate(struct parser *parser)
{
	size_t from = parser->out.len;
	const char *behind, *there;

	parse_modifiers(parser);
	size_t middle = parser->out.len;
	there = reference_at(parser, parser->at, &behind);
	if (there) {
		parser->at = there;
		if (!parse_function_type(parser))
			return false;
		parser->at = behind;
	} else if (!parse_function_type(parser)) {
		return false;
	}
	put(parser, "delegate");
	return rotate(parser, from, middle);
}

static bool parse_tuple(struct parser *parser)
{
	size_t nr;

	if (!take_number(parser, &nr))
		return false;
	put(parser, "Tuple!(");
	for (size_t i = 0; i < nr; i++) {
		if (i)
			put(parser, ", ");
		if (!step(parser, 0) || !parse_type(parser))
			return false;
	}
	put(parser, ")");
	return true;
}

static bool parse_pointer(struct parser *parser)
{
	bool is_function = calling_convention(*parser->at);
	bool parsed = is_function ? parse_function_type(parser) : parse_type(parser);

	put(parser, is_function ? "function" : "*");
	return parsed;
}

/* What begins with N or z: two letters. */
static bool parse_long_type(struct parser *parser)
{
	if (take(parser, "Ng"))
		return parse_wrapped(parser, "inout(");
	if (take(parser, "Nh"))
		return parse_wrapped(parser, "__vector(");
	put(parser, *parser->at == 'N' ? "typeof(*null)" : parser->at[1] == 'i' ? "cent" : "ucent");
	return take(parser, "Nn") || take(parser, "zi") || take(parser, "zk");
}

static bool parse_referred_type(struct parser *parser)
{
	const char *behind, *there = reference_at(parser, parser->at, &behind);

	if (!there)
		return false;
	parser->at = there;
	bool parsed = parse_type(parser);
	parser->at = behind;
	return parsed;
}

static bool parse_any_type(struct parser *parser)
{
	switch (*parser->at) {
	case 'O': parser->at++; return parse_wrapped(parser, "shared(");
	case 'x': parser->at++; return parse_wrapped(parser, "const(");
	case 'y': parser->at++; return parse_wrapped(parser, "immutable(");
	case 'N':
	case 'z': return parse_long_type(parser);
	case 'A': parser->at++; return parse_array(parser, false);
	case 'G': parser->at++; return parse_array(parser, true);
	case 'H': parser->at++; return parse_map(parser);
	case 'P': parser->at++; return parse_pointer(parser);
	case 'D': parser->at++; return parse_delegate(parser);
	case 'B': parser->at++; return parse_tuple(parser);
	case 'I':
	case 'C':
	case 'S':
	case 'E':
	case 'T': parser->at++; return parse_qualified(parser, false);
	case 'Q': return parse_referred_type(parser);
	default: break;
	}
	if (calling_convention(*parser->at))
		return parse_function_type(parser);
	const char *name = basic_type(*parser->at);
	if (name)
		put(parser, name);
	parser->at += name ? 1 : 0;
	return name;
}

static bool parse_type(struct parser *parser)
{
	if (!step(parser, 0) || parser->depth >= DEPTH_MAX)
		return false;
	parser->depth++;
	bool parsed = parse_any_type(parser);
	parser->depth--;
	return parsed;
}

/* ---- values of template parameters */

static bool put_character(struct parser *parser, char type, size_t number)
{
	if (type == 'a' && number >= 0x20 && number < 0x7f)
		buf_printf(&parser->out, "'%c'", (int)number);
	else
		buf_printf(&parser->out, "'\\%c%0*zx'",
			   type == 'a'   ? 'x'
			   : type == 'u' ? 'u'
					 : 'U',
			   type == 'a'   ? 2
			   : type == 'u' ? 4
					 : 8,
			   number);
	return true;
}

static bool parse_integer(struct parser *parser, char type)
{
	const char *digits = parser->at;
	size_t nr = strspn(digits, "0123456789"), number;

	if (!nr)
		return false;
	if (type == 'a' || type == 'u' || type == 'w')
		return take_number(parser, &number) && put_character(parser, type, number);
	parser->at += nr;
	if (type == 'b') {
		put(parser, nr == 1 && *digits == '0' ? "false" : "true");
		return true;
	}
	buf_put(&parser->out, digits, nr);
	put(parser, type == 'h' || type == 't' || type == 'k' ? "u" : type == 'l' ? "L" : type == 'm' ? "uL" : "");
	return true;
}

static bool parse_real(struct parser *parser)
{
	if (take(parser, "NAN") || take(parser, "INF") || take(parser, "NINF")) {
		put(parser, parser->at[-1] == 'N' ? "NaN" : parser->at[-4] == 'N' ? "-Inf" : "Inf");
		return true;
	}
	if (take(parser, "N"))
		put(parser, "-");
	size_t nr = strspn(parser->at, "0123456789ABCDEF");
	if (!nr)
		return false;
	buf_printf(&parser->out, "0x%c.%.*s", *parser->at, (int)(nr - 1), parser->at + 1);
	parser->at += nr;
	if (!take(parser, "P"))
		return false;
	put(parser, take(parser, "N") ? "p-" : "p");
	nr = strspn(parser->at, "0123456789");
	buf_put(&parser->out, parser->at, nr);
	parser->at += nr;
	return nr;
}

static bool put_string_byte(struct parser *parser, unsigned byte)
{
	static const char escapes[] = "\tt\nn\rr\ff\vv";

	for (size_t i = 0; escapes[i]; i += 2)
		if ((unsigned char)escapes[i] == byte) {
			buf_printf(&parser->out, "\\%c", escapes[i + 1]);
			return true;
		}
	if (byte >= 0x20 && byte < 0x7f)
		buf_put_u8(&parser->out, (uint8_t)byte);
	else
		buf_printf(&parser->out, "\\x%02x", byte);
	return true;
}

static int hex_digit(char digit)
{
	return isdigit((unsigned char)digit) ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static bool parse_string(struct parser *parser)
{
	char type = *parser->at++;
	size_t len;

	if (!take_number(parser, &len) || !take(parser, "_"))
		return false;
	put(parser, "\"");
	for (size_t i = 0; i < len; i++, parser->at += 2) {
		int high = hex_digit(parser->at[0]), low = high < 0 ? -1 : hex_digit(parser->at[1]);
		if (low < 0 || !step(parser, 0))
			return false;
		put_string_byte(parser, (unsigned)(16 * high + low));
	}
	put(parser, "\"");
	if (type != 'a')
		buf_put_u8(&parser->out, (uint8_t)type);
	return true;
}

/* "[1, 2]", "[1:2]", "Name(1, 2)". */
static bool parse_values(struct parser *parser, const char *brackets, bool pairs)
{
	size_t nr;

	if (!take_number(parser, &nr))
		return false;
	buf_put_u8(&parser->out, (uint8_t)brackets[0]);
	for (size_t i = 0; i < nr; i++) {
		if (i)
			put(parser, ", ");
		if (!parse_value(parser, NULL, '\0'))
			return false;
		if (!pairs)
			continue;
		put(parser, ":");
		if (!parse_value(parser, NULL, '\0'))
			return false;
	}
	buf_put_u8(&parser->out, (uint8_t)brackets[1]);
	return true;
}

static bool parse_any_value(struct parser *parser, const char *type_name, char type)
{
	char kind = *parser->at;

	if (isdigit((unsigned char)kind)) /* of older compilers */
		return parse_integer(parser, type);
	if (kind == 'a' || kind == 'w' || kind == 'd')
		return parse_string(parser);
	if (!kind)
		return false;
	parser->at++;
	switch (kind) {
	case 'n': put(parser, "null"); return true;
	case 'N': put(parser, "-"); return parse_integer(parser, type);
	case 'i': return parse_integer(parser, type);
	case 'e': return parse_real(parser);
	case 'c':
		if (!parse_real(parser) || !take(parser, "c"))
			return false;
		put(parser, "+");
		if (!parse_real(parser))
			return false;
		put(parser, "i");
		return true;
	case 'A': return parse_values(parser, "[]", type == 'H');
	case 'S': put(parser, type_name ? type_name : ""); return parse_values(parser, "()", false);
	case 'f': return parse_mangled(parser);
	default: return false;
	}
}

static bool parse_value(struct parser *parser, const char *type_name, char type)
{
	if (!step(parser, 0) || parser->depth >= DEPTH_MAX)
		return false;
	parser->depth++;
	bool parsed = parse_any_value(parser, type_name, type);
	parser->depth--;
	return parsed;
}

/* ---- */

static bool parse_mangled(struct parser *parser)
{
	if (!take(parser, "_D") || !parse_qualified(parser, true))
		return false;
	if (take(parser, "Z")) /* made by the compiler: it has no type */
		return true;
	size_t len = parser->out.len;
	bool parsed = parse_type(parser); /* of a function its result */
	parser->out.len = len;
	return parsed;
}

/* What GCC makes of a function: ".constprop.0", ".isra.0.cold"; "@plt". As the names of C++ have it. */
static void put_suffix(struct parser *parser)
{
	if (*parser->at == '.')
		buf_printf(&parser->out, " [clone %s]", parser->at);
	else
		put(parser, parser->at);
}

/* "_DTi16_D...": a function by which one is called through an interface, 16 bytes from the object. */
static bool take_thunk(struct parser *parser)
{
	size_t offset;

	if (!take(parser, "_DTi"))
		return false;
	put(parser, "non-virtual thunk to ");
	return take_number(parser, &offset);
}

bool symbol_is_of_d(const char *name)
{
	return name[0] == '_' && name[1] == 'D' &&
	       (isdigit((unsigned char)name[2]) || is_template(name + 2) ||
		(strncmp(name + 2, "Ti", 2) == 0 && isdigit((unsigned char)name[4])) || strcmp(name, "_Dmain") == 0 ||
		strncmp(name, "_Dmain.", 7) == 0);
}

char *symbol_demangle_d(const char *name, size_t text_max)
{
	struct parser parser = {.name = name, .at = name, .text_max = text_max};
	bool parsed = true;

	if (take(&parser, "_Dmain")) {
		put(&parser, "D main");
	} else {
		if (strncmp(name, "_DTi", 4) == 0)
			parsed = take_thunk(&parser);
		parsed = parsed && parse_mangled(&parser) && (!*parser.at || strchr(".@", *parser.at));
	}
	if (parsed)
		put_suffix(&parser);
	buf_put_u8(&parser.out, '\0');
	if (parsed && !parser.out.failed && parser.out.len <= text_max + 1)
		return (char *)parser.out.data;
	buf_fini(&parser.out);
	return NULL;
}
