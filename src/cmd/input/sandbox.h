/* SPDX-License-Identifier: MIT */
/*
 * sandbox: what a command that reads recordings and the objects they name (ELF, DWARF, maps of JIT code: all may be
 * hostile) gives up before it parses the first byte of them. If hostile input makes a parser run foreign code, that
 * code can start no program, open no socket and write no file but the output.
 *
 * Uses landlock(7) (Linux 5.13) and seccomp(2), by libseccomp. What the kernel does not have is left out: -v says so.
 */
#pragma once

/* What the command may still use. */
enum sandbox_flags {
	SANDBOX_DOWNLOADS = 1 << 0, /* --debuginfod: sockets, and files in the cache of libdebuginfod */
	SANDBOX_NETWORK = 1 << 1,   /* sockets */
	/* Files in the directory of analyze/dwarf/cache_files.h, which is made: later readers take them for input. */
	SANDBOX_LINE_CACHE = 1 << 2,
};

/*
 * Restricts the whole process until it ends. To be called on the main thread before it starts others, and after
 * pager_open(): the pager is not restricted. Files can be made, written, renamed and removed in the directory of
 * `output` (a path as the user gave it; NULL: none) and, when it is a link, in that of its target; everywhere else they
 * can only be read. Threads that were started before are not restricted.
 */
void sandbox_enter(const char *output, enum sandbox_flags flags);

/*
 * Of a process that opens files for one in the sandbox, and reads nothing of them: it sees those of other processes as
 * far as the user may, but can start no program and open no socket.
 */
void sandbox_enter_helper(void);
