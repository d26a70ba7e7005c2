/* SPDX-License-Identifier: MIT */
/*
 * bpf_object: what the kernel tells of loaded BPF programs and their types. Any thread.
 * Source: bpf(2), <linux/bpf.h>.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;

enum { BPF_OBJECT_MAX_BYTES = 64 << 20 }; /* of one program's arrays, or one BTF */

/* Sets *id, 0 at first, to the id of the next program. 0; -ENOENT: there are no more; -EPERM: not allowed. */
int bpf_object_next_program(uint32_t *id);

/* A new fd, or -errno; -ENOENT: it has been unloaded. */
int bpf_object_open_program(uint32_t id);

/* Fills `info`, a bpf_prog_info or bpf_btf_info. Returns how many bytes of it the kernel has set, or -errno. */
int bpf_object_info(int fd, void *info, size_t bytes);

/* Appends the types. 0 or -errno; then `ret` may hold a part. */
int bpf_object_read_btf(uint32_t id, struct buf *ret);
