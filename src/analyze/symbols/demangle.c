/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/symbols.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From libiberty (static only); why it and not libstdc++: docs/decisions/0001 */
#include <libiberty/demangle.h>

static bool is_ocaml(const char *name)
{
	return strncmp(name, "caml", 4) == 0 && isupper((unsigned char)name[4]);
}

bool symbol_is_mangled(const char *name)
{
	/*
	 * _Z begins the mangled names of C++ and of older Rust, with more in front on some systems; _R newer Rust.
	 */
	if (name[0] == '_')
		return name[1] == 'R' || strstr(name, "_Z") || strstr(name, "_GLOBAL_");
	return is_ocaml(name);
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

char *symbol_demangle(const char *name)
{
	if (is_ocaml(name))
		return demangle_ocaml(name);
	if (name[0] == '_' && name[1] == 'R')
		return rust_demangle(name, DMGL_NO_OPTS);
	char *readable = cplus_demangle_v3(name, DMGL_NO_OPTS);
	char *rust = readable && ends_in_rust_hash(readable) ? rust_demangle(name, DMGL_NO_OPTS) : NULL;

	if (!rust)
		return readable;
	free(readable);
	return rust;
}
