/* SPDX-License-Identifier: MIT */
/*
 * notifier: wakes a thread that sleeps in poll(2) when another one has seen something, once: a thread that finds it so
 * again and again pays for a load. Owned by the one who sleeps; anybody may ring.
 */
#pragma once

#include <stdatomic.h>

struct notifier {
	int fd; /* eventfd(2), non-blocking: readable when it was rung; -1: none */
	atomic_bool armed;
};

int notifier_open(struct notifier *notifier); /* not armed; -errno */
void notifier_close(struct notifier *notifier);

/* For the owner: the next ring is heard. It may be told once more of what it has just looked at. */
void notifier_arm(struct notifier *notifier);
void notifier_disarm(struct notifier *notifier);
void notifier_acknowledge(struct notifier *notifier); /* it was heard */

void notifier_notify(struct notifier *notifier); /* NULL: nothing happens */
