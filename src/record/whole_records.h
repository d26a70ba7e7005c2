/* SPDX-License-Identifier: MIT */
/* whole_records: where records end in a file whose last one may be cut. */
#pragma once

#include <stdint.h>

/*
 * How many of the `bytes` from `offset` on are whole records. Read piece by piece, not mapped: a file that somebody cuts
 * meanwhile is an early end, not a SIGBUS.
 */
uint64_t whole_records(int fd, uint64_t offset, uint64_t bytes);
