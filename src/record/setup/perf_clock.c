/* SPDX-License-Identifier: MIT */
#include "record/setup/perf_clock.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/span.h"
#include "stream/ring.h"

/* Its mapping keeps an event open without a descriptor, and the locked memory that the next reading may need. */
struct perf_clock {
	struct ring ring;
	pid_t tid; /* whose event it is */
};

/* An event whose COMM records have nothing but the time behind the name: perf_event_open(2). An fd; -1. */
static int open_mapped(struct ring *ring)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = PERF_ATTR_SIZE_VER5,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.comm = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 || ring_map(ring, fd, 1) == 0)
		return fd;
	close(fd);
	return -1;
}

struct perf_clock *perf_clock_new(void)
{
	struct perf_clock *clock = calloc(1, sizeof(*clock));
	int fd = clock ? open_mapped(&clock->ring) : -1;

	if (fd >= 0)
		close(fd);
	if (clock)
		clock->tid = gettid();
	return clock;
}

void perf_clock_free(struct perf_clock *clock)
{
	if (!clock)
		return;
	ring_unmap(&clock->ring);
	free(clock);
}

/* Of the last record; 0: there is none, or it is in two parts. */
static uint64_t time_of_comm(const struct ring *ring)
{
	struct span spans[2];
	uint64_t time_ns = 0;

	if (ring_peek(ring, spans) && !spans[1].len && spans[0].len >= sizeof(time_ns))
		memcpy(&time_ns, (const uint8_t *)spans[0].ptr + spans[0].len - sizeof(time_ns), sizeof(time_ns));
	return time_ns;
}

/* The thread takes the name that it has; what was there before is dropped. */
static uint64_t time_of_new_comm(struct ring *ring)
{
	struct span spans[2];
	char name[16] = "";

	const size_t bytes = ring_peek(ring, spans);
	ring_take(ring, bytes);
	ring_release(ring, bytes);
	prctl(PR_GET_NAME, name);
	prctl(PR_SET_NAME, name);
	return time_of_comm(ring);
}

uint64_t perf_clock_now(struct perf_clock *clock)
{
	struct ring own = {0}, *ring = clock ? &clock->ring : &own;
	uint64_t now_ns = clock && ring->mapping && clock->tid == gettid() ? time_of_new_comm(ring) : 0;

	if (now_ns)
		return now_ns;
	ring_unmap(ring); /* its memory is that of the next one */
	int fd = open_mapped(ring);
	if (fd >= 0) {
		if (clock)
			clock->tid = gettid();
		now_ns = time_of_new_comm(ring);
		close(fd);
	}
	ring_unmap(&own);
	return now_ns;
}
