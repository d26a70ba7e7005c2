/* SPDX-License-Identifier: MIT */
/*
 * btf: names in the type information of BPF programs. Source: Documentation/bpf/btf.rst of the kernel,
 * <linux/btf.h>.
 */
#pragma once

#include <stdint.h>

#include "base/span.h"

/* The text at an offset, inside `btf`; NULL: there is none. */
const char *btf_text(struct span btf, uint32_t offset);

/* The name of type `id` (from 1), likewise; NULL: no such type, no name, or damaged. */
const char *btf_type_name(struct span btf, uint32_t id);
