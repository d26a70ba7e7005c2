/* SPDX-License-Identifier: MIT */
/* kernel_symbols: where the symbols of the recorded kernel come from. */
#pragma once

struct kernel;
struct map;

/* Fills the symbols of the kernel's dso; leaves them empty when no source is that kernel's. */
void kernel_symbols_load(struct kernel *kernel);

/* Fills the symbols of a module, as offsets from the start of its map (= of its text). */
void module_symbols_load(struct kernel *kernel, const struct map *map);
