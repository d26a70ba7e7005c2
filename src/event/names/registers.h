/* SPDX-License-Identifier: MIT */
/* registers: the CPU registers that a sample can hold, by name. One table for each architecture. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct diag;

/*
 * All that the kernel gives of user space and of the interrupted code: what unwinding with DWARF needs. 0: unknown
 * here.
 */
uint64_t registers_all(void);

/* Instruction and stack pointer. */
uint64_t registers_ip_sp(void);

/*
 * What tells the caller of a function that has not stored its frame pointer yet: the link register of arm64, which perf
 * samples along with chains of frame pointers. 0: this architecture has none.
 */
uint64_t registers_leaf(void);

/* "AX" of bit 0, as perf prints it; "unknown" for what is not there. */
const char *register_name(unsigned bit);

/* "AX,ip", in capitals or not, to a mask. "?" and unknown names: -EINVAL, and the diag lists the names. */
int registers_parse(const char *text, uint64_t *ret, struct diag *reterr);
