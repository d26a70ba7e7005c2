/* SPDX-License-Identifier: MIT */
#include "base/notifier.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"

int notifier_open(struct notifier *notifier)
{
	*notifier = (struct notifier){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	return notifier->fd < 0 ? -errno : 0;
}

void notifier_close(struct notifier *notifier)
{
	if (notifier->fd >= 0)
		close(notifier->fd);
	notifier->fd = -1;
}

void notifier_arm(struct notifier *notifier)
{
	atomic_store_explicit(&notifier->armed, true, memory_order_relaxed);
}

void notifier_disarm(struct notifier *notifier)
{
	atomic_store_explicit(&notifier->armed, false, memory_order_relaxed);
}

void notifier_acknowledge(struct notifier *notifier)
{
	uint64_t count;

	(void)!read(notifier->fd, &count, sizeof(count));
}

void notifier_notify(struct notifier *notifier)
{
	const uint64_t one = 1;

	if (!notifier || !atomic_load_explicit(&notifier->armed, memory_order_relaxed))
		return;
	if (atomic_exchange_explicit(&notifier->armed, false, memory_order_relaxed))
		(void)!fd_write(notifier->fd, &one, sizeof(one));
}
