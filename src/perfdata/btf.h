/* SPDX-License-Identifier: MIT */
/*
 * btf: names in the type information of BPF programs. Source: Documentation/bpf/btf.rst of the kernel,
 * <linux/btf.h>.
 */
#pragma once

#include <stdint.h>

#include "base/span.h"

/* The NUL-terminated string at that offset of the string section; it points into `btf`. NULL: there is none. */
const char *btf_text(struct span btf, uint32_t offset);

/*
 * The name of the type with that id (from 1 on); it points into `btf`. NULL: there is no such type, it has no name, or
 * `btf` is damaged.
 */
const char *btf_type_name(struct span btf, uint32_t id);
