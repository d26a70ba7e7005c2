/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/symbols.h"

#include <ctype.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
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

	return method && strchr(method, '(');
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

static char *demangle_cxx_or_rust(const char *name, int options)
{
	if (name[0] == '_' && name[1] == 'R')
		return demangle_in_parts(rust_demangle_callback, name, options);
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
