/* SPDX-License-Identifier: MIT */
/*
 * Has the place of cmocka's function of that name. Up to 1.1.5 cmocka writes "not ok 3 # SKIP" for a test that was
 * skipped, which Meson takes for a failure: TAP asks for "ok".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void print_message(const char *const format, ...)
{
	static const char skipped[] = "not ok %u # SKIP", not [] = "not ";
	va_list args;
	char text[1024]; /* as much as cmocka writes */

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fputs(text + (strncmp(format, skipped, strlen(skipped)) == 0 ? strlen(not ) : 0), stdout);
}
