/* SPDX-License-Identifier: MIT */
/*
 * bpf_lines: which line of its source the machine code of a BPF program comes from, as the kernel told it while
 * recording. Read once; then any number of threads. Source: <linux/bpf.h>, struct bpf_prog_info.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct bpf_lines;
struct session;

/* Of all programs that the recording describes; what is broken is left out. NULL: there are none, or no memory. */
struct bpf_lines *bpf_lines_read(struct session *session);
void bpf_lines_free(struct bpf_lines *lines); /* NULL is fine */

/*
 * Of a function with that name, as the kernel forms it (bpf_prog_TAG_NAME), and start: others may have been where it
 * was, before or after it. The path lives as long as the session. false: not known.
 */
bool bpf_lines_find(const struct bpf_lines *lines, const char *name, uint64_t start, uint64_t address,
		    const char **ret_path, unsigned *ret_line);
