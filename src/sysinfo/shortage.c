/* SPDX-License-Identifier: MIT */
#include "sysinfo/shortage.h"

#include <stdatomic.h>

static atomic_int first;

int shortage(void)
{
	return atomic_load_explicit(&first, memory_order_relaxed);
}

void shortage_note(int err)
{
	int none = 0;

	atomic_compare_exchange_strong_explicit(&first, &none, err, memory_order_relaxed, memory_order_relaxed);
}

void shortage_forget(void)
{
	atomic_store_explicit(&first, 0, memory_order_relaxed);
}
