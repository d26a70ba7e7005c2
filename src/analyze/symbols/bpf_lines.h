/* SPDX-License-Identifier: MIT */
/*
 * bpf_lines: the source lines of the machine code of BPF programs, as the kernel reported them while recording. Read
 * once; then any number of threads. Source: <linux/bpf.h>, struct bpf_prog_info.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct bpf_lines;
struct session;

/*
 * The lines of all programs that the recording describes; damaged ones are left out. NULL: there are none, or out of
 * memory.
 */
struct bpf_lines *bpf_lines_read(struct session *session);
void bpf_lines_free(struct bpf_lines *lines); /* NULL is fine */

/*
 * The source line of an address in the function that has that name, as the kernel forms it (bpf_prog_TAG_NAME), and
 * that start. Both are needed, because the kernel may have loaded several functions at one address, one after the
 * other. The path is valid as long as the session. false: not known.
 */
bool bpf_lines_find(const struct bpf_lines *lines, const char *name, uint64_t start, uint64_t address,
		    const char **ret_path, unsigned *ret_line);
