/* SPDX-License-Identifier: MIT */
/*
 * btf: names in the type information of BPF programs. Source: Documentation/bpf/btf.rst of the kernel,
 * <linux/btf.h>.
 */
#pragma once

#include <stdint.h>

#include "base/span.h"

/* The name of type `id` (from 1), inside `btf`; NULL: no such type, no name, or damaged. */
const char *btf_type_name(struct span btf, uint32_t id);
