/* SPDX-License-Identifier: MIT */
/* registers: the CPU registers that a sample can hold, by name. One table for each architecture. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct diag;

/*
 * All registers that the kernel can sample: unwinding with DWARF needs those of user space. 0: unknown for this
 * architecture.
 */
uint64_t registers_all(void);

/* Instruction and stack pointer. */
uint64_t registers_ip_sp(void);

/*
 * The register that has the return address while a function has not stored its frame pointer yet: the link register
 * of arm64, which perf samples together with chains of frame pointers. 0: this architecture has none.
 */
uint64_t registers_leaf(void);

/*
 * The name of the register of a bit, as perf prints it: "AX" for bit 0 of x86. "unknown": there is none. arch: of the
 * machine that recorded, as uname -m says it; NULL: this machine's.
 */
const char *register_name(const char *arch, unsigned bit);

/* Parses names such as "AX,ip", in capitals or not, into a mask. "?" or an unknown name: -EINVAL, the diag lists all.
 */
int registers_parse(const char *text, uint64_t *ret, struct diag *reterr);
