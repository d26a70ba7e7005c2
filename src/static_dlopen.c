/* SPDX-License-Identifier: MIT */
/*
 * libdw asks dlopen(3) for libdebuginfod.so. A static binary that loads a shared library needs the very glibc it was
 * linked with on the machine it was copied to, and the linker warns of that. Here the answer is that there is no such
 * library, which libdw takes well. Used only with -Dstatic=true, through the linker's --wrap=dlopen.
 */
#include <stddef.h>

void *__wrap_dlopen(const char *name, int flags);

void *__wrap_dlopen(const char *name, int flags)
{
	(void)name, (void)flags;
	return NULL;
}
