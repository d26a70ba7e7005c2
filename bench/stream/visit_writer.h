/* SPDX-License-Identifier: MIT */
/*
 * visit_writer: a writer that hands everything on to another one and notes how long each synthetic ring that the pump
 * visits had waited since it was half full. For benchmarks: pump and writer stay as they are.
 */
#pragma once

struct latency;
struct synthetic_rings;
struct writer;

/*
 * Owns `inner` from success on; borrows the others until it is closed with writer_close(). 0 or -ENOMEM.
 */
int visit_writer_open(struct writer *inner, const struct synthetic_rings *rings, struct latency *waits,
		      struct writer **ret);
