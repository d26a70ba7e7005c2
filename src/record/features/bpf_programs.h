/* SPDX-License-Identifier: MIT */
/*
 * bpf_programs: what the kernel tells of BPF programs and their types, for the features BPF_PROG_INFO and BPF_BTF.
 * Programs may be unloaded before the recording ends: what is told of them is read when they are loaded. Thread-safe.
 * Source: bpf(2), <linux/bpf.h>.
 */
#pragma once

#include <stdint.h>

struct bpf_programs;
struct buf;

struct bpf_programs *bpf_programs_new(void);           /* NULL: out of memory */
void bpf_programs_free(struct bpf_programs *programs); /* NULL is fine */

/* It was loaded just now. What cannot be read any more, and what is too much, is left out. */
void bpf_programs_keep(struct bpf_programs *programs, uint32_t id);

/*
 * Appends a payload: what was kept, and the programs that are loaded now, or their types, each once; `programs` may
 * be NULL. A program that goes away, or that may not be looked at, is left out. 1 or -ENOMEM.
 */
int bpf_programs_describe(struct bpf_programs *programs, struct buf *out);
int bpf_programs_describe_types(struct bpf_programs *programs, struct buf *out);
