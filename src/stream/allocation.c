/* SPDX-License-Identifier: MIT */
#include "stream/allocation.h"

#include <fcntl.h>
#include <unistd.h>

enum {
	LEAST = 4 << 20, /* a small recording asks for nothing, and none for more than it has written */
	MOST = 64 << 20,
};

void allocation_reach(struct allocation *allocation, uint64_t end)
{
	uint64_t written = end - allocation->start;

	if (allocation->off || end <= allocation->end || written < LEAST)
		return;
	uint64_t step = written < MOST ? written : MOST;
	/* Pipes, devices, file systems without it, a disk or a quota that is nearly full. */
	if (fallocate(allocation->fd, FALLOC_FL_KEEP_SIZE, (off_t)end, (off_t)step))
		allocation->off = true;
	else
		allocation->end = end + step;
}

void allocation_trim(struct allocation *allocation, uint64_t end)
{
	/* Blocks behind the end cost room, not correctness: a failure is no error of the recording. */
	if (allocation->end > end && ftruncate(allocation->fd, (off_t)end))
		allocation->off = true;
}
