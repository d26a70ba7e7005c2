/* SPDX-License-Identifier: MIT */
/*
 * bell: wakes a thread that sleeps in poll(2) when another one has seen something, once: whoever finds it so again and
 * again pays for a load. Owned by the one who sleeps; anybody may ring.
 */
#pragma once

#include <stdatomic.h>

struct bell {
	int fd; /* eventfd(2), non-blocking: readable when it was rung; -1: none */
	atomic_bool armed;
};

int bell_open(struct bell *bell); /* not armed; -errno */
void bell_close(struct bell *bell);

/* For the owner: the next ring is heard. It may be told once more of what it has just looked at. */
void bell_arm(struct bell *bell);
void bell_disarm(struct bell *bell);
void bell_answer(struct bell *bell); /* it was heard */

void bell_ring(struct bell *bell); /* NULL is fine: nobody listens */
