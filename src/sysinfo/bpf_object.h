/* SPDX-License-Identifier: MIT */
/*
 * bpf_object: reads what the kernel knows of loaded BPF programs and of their types (BTF). Any thread. Source: bpf(2),
 * <linux/bpf.h>.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;

enum { BPF_OBJECT_MAX_BYTES = 64 << 20 }; /* limit for the arrays of one program, and for one BTF blob */

/*
 * Sets *id (0 at the first call) to the id of the next loaded program. 0; -ENOENT: there are no more; -EPERM: not
 * allowed.
 */
int bpf_object_next_program(uint32_t *id);

/* Opens the program with that id: a new fd that the caller closes, or -errno; -ENOENT: it has been unloaded. */
int bpf_object_open_program(uint32_t id);

/*
 * Fills `info`, a struct bpf_prog_info or bpf_btf_info of `bytes` bytes. Returns how many of them the kernel has set,
 * or -errno.
 */
int bpf_object_info(int fd, void *info, size_t bytes);

/* Appends the BTF blob with that id. 0, or -errno; after an error `ret` may hold a part of it. */
int bpf_object_read_btf(uint32_t id, struct buf *ret);
