/* SPDX-License-Identifier: MIT */
#include "base/bell.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"

int bell_open(struct bell *bell)
{
	*bell = (struct bell){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	return bell->fd < 0 ? -errno : 0;
}

void bell_close(struct bell *bell)
{
	if (bell->fd >= 0)
		close(bell->fd);
	bell->fd = -1;
}

void bell_arm(struct bell *bell)
{
	atomic_store_explicit(&bell->armed, true, memory_order_relaxed);
}

void bell_disarm(struct bell *bell)
{
	atomic_store_explicit(&bell->armed, false, memory_order_relaxed);
}

void bell_answer(struct bell *bell)
{
	uint64_t count;

	(void)!read(bell->fd, &count, sizeof(count));
}

void bell_ring(struct bell *bell)
{
	const uint64_t one = 1;

	if (!bell || !atomic_load_explicit(&bell->armed, memory_order_relaxed))
		return;
	if (atomic_exchange_explicit(&bell->armed, false, memory_order_relaxed))
		(void)!fd_write(bell->fd, &one, sizeof(one));
}
