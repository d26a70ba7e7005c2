/* SPDX-License-Identifier: MIT */
/*
 * bpf_programs: what the kernel knows of BPF programs and their types (BTF), for the features BPF_PROG_INFO and
 * BPF_BTF. It is read when a program is loaded, as the program may be unloaded before the recording ends. Thread-safe.
 * Source: bpf(2), <linux/bpf.h>.
 */
#pragma once

#include <stdint.h>

struct bpf_programs;
struct buf;

struct bpf_programs *bpf_programs_new(void);           /* NULL: out of memory */
void bpf_programs_free(struct bpf_programs *programs); /* NULL is fine */

/*
 * To be called when the program with that id has been loaded: reads and keeps what the kernel knows of it. A program
 * that is gone or too large is left out.
 */
void bpf_programs_keep(struct bpf_programs *programs, uint32_t id);

/*
 * Appends a payload: the programs that were kept and those that are loaded now, or their types, each once. `programs`
 * may be NULL. Programs that are gone, or that we may not read, are left out. 1, also when there are
 * none; or -ENOMEM.
 */
int bpf_programs_describe(struct bpf_programs *programs, struct buf *out);
int bpf_programs_describe_types(struct bpf_programs *programs, struct buf *out);
