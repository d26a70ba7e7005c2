/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/symbols.h"

#include <ctype.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From libiberty (static only); why it and not libstdc++: docs/decisions/0001 */
#include <libiberty/demangle.h>

#include "analyze/symbols/demangle_d.h"
#include "base/buf.h"
#include "base/cleanup.h"

static bool is_ocaml(const char *name)
{
	return strncmp(name, "caml", 4) == 0 && isupper((unsigned char)name[4]);
}

/* "Ljava/lang/String;equals(Ljava/lang/Object;)Z": class, method and descriptor, as agents of Java VMs write them. */
static bool is_java(const char *name)
{
	const char *method = name[0] == 'L' ? strchr(name, ';') : NULL;

	/* Other agents write "Lcom/Some;::method(I)V", which is no such name. */
	return method && method[1] != ':' && strchr(method, '(');
}

bool symbol_is_mangled(const char *name)
{
	/*
	 * _Z begins the mangled names of C++ and of older Rust, with more in front on some systems; _R newer Rust.
	 */
	if (name[0] == '_')
		return name[1] == 'R' || symbol_is_of_d(name) || strstr(name, "_Z") || strstr(name, "_GLOBAL_");
	return is_ocaml(name) || is_java(name);
}

/* "…::h" and 16 hexadecimal digits: a hash that Rust compilers append. */
static bool ends_in_rust_hash(const char *name)
{
	enum { DIGITS = 16 };
	size_t len = strlen(name);

	return len > DIGITS + 3 && strncmp(name + len - DIGITS - 3, "::h", 3) == 0 &&
	       strspn(name + len - DIGITS, "0123456789abcdef") == DIGITS;
}

/* "camlList__map_23" is List.map_23; "$2b" is the character of that code. Source: OCaml's asmcomp/asmlink. */
static char *demangle_ocaml(const char *name)
{
	char *readable = malloc(strlen(name) + 1), *to = readable;
	unsigned code;
	int taken;

	for (name += strlen("caml"); to && *name;) {
		if (name[0] == '_' && name[1] == '_') {
			*to++ = '.';
			name += 2;
		} else if (name[0] == '$' && sscanf(name + 1, "%2x%n", &code, &taken) == 1 && taken == 2 && code) {
			*to++ = (char)code;
			name += 3;
		} else {
			*to++ = *name++;
		}
	}
	if (to)
		*to = '\0';
	return readable;
}

static void put_java_class(const char *name, size_t len, struct buf *out)
{
	for (size_t i = 0; i < len; i++)
		buf_put_u8(out, name[i] == '/' ? '.' : (uint8_t)name[i]);
}

/* One type of a descriptor; the rest of the text. NULL: it is none. Source: Java Virtual Machine Specification, 4.3. */
static const char *put_java_type(const char *at, struct buf *out)
{
	static const char *const names[] = {
		['B'] = "byte", ['C'] = "char",  ['D'] = "double",  ['F'] = "float", ['I'] = "int",
		['J'] = "long", ['S'] = "short", ['Z'] = "boolean", ['V'] = "void"};
	size_t dimensions = strspn(at, "[");

	at += dimensions;
	if (*at == 'L') {
		const char *end = strchr(at, ';');
		if (!end)
			return NULL;
		put_java_class(at + 1, (size_t)(end - at - 1), out);
		at = end + 1;
	} else {
		unsigned letter = (unsigned char)*at++;
		if (letter >= sizeof(names) / sizeof(names[0]) || !names[letter])
			return NULL;
		buf_put_text(out, names[letter]);
	}
	while (dimensions--)
		buf_put_text(out, "[]");
	return at;
}

/* Without what is returned, as perf. NULL: it is no such name, or no memory. */
static char *demangle_java(const char *name)
{
	AUTO_BUF struct buf text = {0}, returned = {0};
	const char *method = strchr(name, ';') + 1, *at = strchr(method, '(');

	put_java_class(name + 1, (size_t)(method - name - 2), &text);
	buf_put_u8(&text, '.');
	buf_put(&text, method, (size_t)(++at - method));
	for (const char *first = at; at && *at && *at != ')';) {
		if (at > first)
			buf_put_text(&text, ", ");
		at = put_java_type(at, &text);
	}
	at = at && *at == ')' ? put_java_type(at + 1, &returned) : NULL;
	if (!at || *at || text.len + 2 > SYMBOL_NAME_MAX)
		return NULL;
	buf_put(&text, ")", 2);
	return text.failed ? NULL : (char *)take_ptr(text.data);
}

/*
 * Names may be hostile: some of a few hundred bytes stand for texts of many gigabytes. libiberty hands C++ and Rust on
 * in parts, between which it holds no memory (but for letters of Rust that are not ASCII), so that it can be left.
 */
struct readable {
	struct buf text;
	jmp_buf full;
};

static void collect(const char *part, size_t len, void *ctx)
{
	struct readable *readable = ctx;

	if (len > SYMBOL_NAME_MAX - readable->text.len)
		longjmp(readable->full, 1);
	buf_put(&readable->text, part, len);
}

typedef int demangle_function(const char *name, int options, demangle_callbackref callback, void *ctx);

/* NULL: it is no such name, the text is too long, or there is no memory. */
static char *demangle_in_parts(demangle_function *demangle, const char *name, int options)
{
	struct readable readable = {0};
	bool whole = !setjmp(readable.full) && demangle(name, options, collect, &readable);

	buf_put_u8(&readable.text, '\0');
	if (whole && !readable.text.failed)
		return (char *)readable.text.data;
	buf_fini(&readable.text);
	return NULL;
}

/*
 * Of a conversion operator, libiberty reads the arguments of a template parameter, looks what is behind them, and
 * mostly reads them again: in each other twice as often. No other part of a name is read again.
 */
static bool is_read_too_often(const char *name)
{
	enum { MOST = 20 };
	static const char digits[] = "0123456789";
	unsigned nr = 0;

	if (!strstr(name, "cv"))
		return false;
	for (const char *at = strchr(name, 'T'); at && nr <= MOST; at = strchr(at + 1, 'T')) {
		const char *number = at + 1;
		if (*number == 'L' && number[1 + strspn(number + 1, digits)] == '_') /* TL0_1_ */
			number += 2 + strspn(number + 1, digits);
		number += *number == 'n';
		nr += strncmp(number + strspn(number, digits), "_I", 2) == 0;
	}
	return nr > MOST;
}

/* What a name was read into: libiberty's components, in an array, refer to others of it. */
struct component_tree {
	const struct demangle_component *all;
	size_t nr;
	uint32_t *paths; /* by component: how many there are from it on; 0: not known yet */
};

/* Those that a component consists of; NULL: none. */
static void parts_of(const struct demangle_component *of, const struct demangle_component *ret[2])
{
	ret[0] = ret[1] = NULL;
	switch (of->type) {
	case DEMANGLE_COMPONENT_NAME:
	case DEMANGLE_COMPONENT_TEMPLATE_PARAM:
	case DEMANGLE_COMPONENT_FUNCTION_PARAM:
	case DEMANGLE_COMPONENT_OPERATOR:
	case DEMANGLE_COMPONENT_BUILTIN_TYPE:
	case DEMANGLE_COMPONENT_SUB_STD:
	case DEMANGLE_COMPONENT_CHARACTER:
	case DEMANGLE_COMPONENT_NUMBER:
	case DEMANGLE_COMPONENT_UNNAMED_TYPE: break;
	case DEMANGLE_COMPONENT_CTOR: ret[0] = of->u.s_ctor.name; break;
	case DEMANGLE_COMPONENT_DTOR: ret[0] = of->u.s_dtor.name; break;
	case DEMANGLE_COMPONENT_EXTENDED_OPERATOR: ret[0] = of->u.s_extended_operator.name; break;
	case DEMANGLE_COMPONENT_FIXED_TYPE: ret[0] = of->u.s_fixed.length; break;
	case DEMANGLE_COMPONENT_LAMBDA:
	case DEMANGLE_COMPONENT_DEFAULT_ARG: ret[0] = of->u.s_unary_num.sub; break;
	default: ret[0] = of->u.s_binary.left; ret[1] = of->u.s_binary.right;
	}
}

/* At most `most` and one. */
static uint32_t count_paths(struct component_tree *tree, const struct demangle_component *from, uint32_t most)
{
	const size_t at = ((uintptr_t)from - (uintptr_t)tree->all) / sizeof(*from);
	const struct demangle_component *parts[2];

	/* Of a type that is not known here these may be none. */
	if ((uintptr_t)from < (uintptr_t)tree->all || at >= tree->nr || from != &tree->all[at])
		return 0;
	if (tree->paths[at])
		return tree->paths[at];
	tree->paths[at] = 1;
	parts_of(from, parts);
	uint32_t all = 1 + count_paths(tree, parts[0], most) + count_paths(tree, parts[1], most);
	return tree->paths[at] = all > most ? most + 1 : all;
}

/*
 * libiberty looks for a pack on all paths through what is expanded ("Dp", sizeof...), of which there may be any number,
 * as parts of a name stand for earlier ones, and puts no text out until then. The text has more bytes than there are
 * paths.
 */
static bool has_too_many_paths(const char *name, int options)
{
	enum { FEW_REFERENCES = 24, MOST_PATHS = SYMBOL_NAME_MAX / 2 };
	struct component_tree tree = {.nr = 2 * strlen(name)};
	unsigned nr_references = 0;
	void *components = NULL;

	for (const char *at = strchr(name, 'S'); at && nr_references <= FEW_REFERENCES; at = strchr(at + 1, 'S'))
		nr_references++;
	if (nr_references <= FEW_REFERENCES || !(strstr(name, "Dp") || strstr(name, "sZ") || strstr(name, "sP")))
		return false;
	const char *mangled = strstr(name, "_Z"); /* "_GLOBAL__sub_I__Z..." */
	const struct demangle_component *top =
		mangled ? cplus_demangle_v3_components(mangled, options, &components) : NULL;
	if (!top)
		return false; /* it is no name, and is not printed */
	tree.all = components;
	tree.paths = calloc(tree.nr + 1, sizeof(*tree.paths));
	bool too_many = !tree.paths || count_paths(&tree, top, MOST_PATHS) > MOST_PATHS;
	free(tree.paths);
	free(components);
	return too_many;
}

/* Of Rust, digits of base 62 up to "_"; at most `most` and one. */
static uint64_t number_of(const char *digits, uint64_t most)
{
	uint64_t number = 0;

	for (; isalnum((unsigned char)*digits) && number <= most; digits++)
		number = 62 * number + (isdigit((unsigned char)*digits)   ? (uint64_t)(*digits - '0')
					: islower((unsigned char)*digits) ? (uint64_t)(*digits - 'a') + 10
									  : (uint64_t)(*digits - 'A') + 36);
	return *digits == '_' || number > most ? number : 0;
}

/*
 * "for<'a, 'b> fn", or dyn: a number of lifetimes, which libiberty counts through one by one, also in a part of the
 * name that is not in the text. Letters of a name may look like one of so many; it stays as it is then.
 */
static bool has_too_many_lifetimes(const char *name)
{
	enum { MOST = 1 << 16 };
	uint64_t nr = 0;

	for (const char *at = strchr(name, 'G'); at && nr <= MOST; at = strchr(at + 1, 'G'))
		if (at[-1] == 'F' || at[-1] == 'D')
			nr += number_of(at + 1, MOST);
	return nr > MOST;
}

static char *demangle_cxx_or_rust(const char *name, int options)
{
	if (name[0] == '_' && name[1] == 'R')
		return has_too_many_lifetimes(name) ? NULL : demangle_in_parts(rust_demangle_callback, name, options);
	if (is_read_too_often(name) || has_too_many_paths(name, options))
		return NULL;
	char *readable = demangle_in_parts(cplus_demangle_v3_callback, name, options);
	char *rust = readable && ends_in_rust_hash(readable) ? demangle_in_parts(rust_demangle_callback, name, options)
							     : NULL;

	if (!rust)
		return readable;
	free(readable);
	return rust;
}

/*
 * libiberty demangles names of up to 1 KiB, or any, but then its functions call each other once for each byte: on a
 * stack that is large enough for the longest.
 */
enum { SHORT_MAX = 1024, LONG_MAX_BYTES = 1 << 14, LONG_STACK_BYTES = 64 << 20 };

static void *run_long(void *name)
{
	return demangle_cxx_or_rust(name, DMGL_NO_RECURSE_LIMIT);
}

static char *demangle_long(const char *name)
{
	pthread_attr_t attributes;
	pthread_t thread;
	void *readable = NULL;

	if (pthread_attr_init(&attributes))
		return NULL;
	if (!pthread_attr_setstacksize(&attributes, LONG_STACK_BYTES) &&
	    !pthread_create(&thread, &attributes, run_long, (void *)name))
		pthread_join(thread, &readable);
	pthread_attr_destroy(&attributes);
	return readable;
}

char *symbol_demangle(const char *name)
{
	size_t len = strlen(name);

	if (len > LONG_MAX_BYTES)
		return NULL;
	if (is_ocaml(name))
		return demangle_ocaml(name);
	if (is_java(name))
		return demangle_java(name);
	if (symbol_is_of_d(name))
		return symbol_demangle_d(name, SYMBOL_NAME_MAX);
	return len > SHORT_MAX ? demangle_long(name) : demangle_cxx_or_rust(name, DMGL_NO_OPTS);
}
