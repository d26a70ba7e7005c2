/* SPDX-License-Identifier: MIT */
#include "stream/allocation.h"

#include <fcntl.h>
#include <unistd.h>

/*
 * A small recording asks for nothing. Nor is it more at a time: tmpfs takes each page and fills it with zeroes, 16 ms
 * for 64 MiB, and who drains waits for that.
 */
enum { STEP = 4 << 20 };

void allocation_reach(struct allocation *allocation, uint64_t end)
{
	if (allocation->off || end <= allocation->end || end - allocation->start < STEP)
		return;
	/* Pipes, devices, file systems without it, a disk or a quota that is nearly full. */
	if (fallocate(allocation->fd, FALLOC_FL_KEEP_SIZE, (off_t)end, STEP))
		allocation->off = true;
	else
		allocation->end = end + STEP;
}

void allocation_trim(struct allocation *allocation, uint64_t end)
{
	/* Blocks behind the end cost room, not correctness: a failure is no error of the recording. */
	if (allocation->end > end && ftruncate(allocation->fd, (off_t)end))
		allocation->off = true;
}
