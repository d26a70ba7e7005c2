/* SPDX-License-Identifier: MIT */
#include "record/perf_clock.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "ring/ring.h"

/* A COMM record with nothing but the time behind the name: perf_event_open(2). */
static uint64_t time_of_comm(const struct ring *ring)
{
	struct span spans[2];
	uint64_t time_ns = 0;

	if (ring_peek(ring, spans) && !spans[1].len && spans[0].len >= sizeof(time_ns))
		memcpy(&time_ns, (const uint8_t *)spans[0].ptr + spans[0].len - sizeof(time_ns), sizeof(time_ns));
	return time_ns;
}

uint64_t perf_clock_now(const struct perf_event_attr *attr)
{
	struct perf_event_attr comm = {
		.type = PERF_TYPE_SOFTWARE,
		.size = PERF_ATTR_SIZE_VER5,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.comm = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	struct ring ring;
	char name[16] = "";
	uint64_t now = 0;

	if (attr && attr->use_clockid)
		return clock_ns(attr->clockid);
	int fd = (int)syscall(SYS_perf_event_open, &comm, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return 0;
	if (ring_map(&ring, fd, 1) == 0) {
		prctl(PR_GET_NAME, name);
		prctl(PR_SET_NAME, name);
		now = time_of_comm(&ring);
		ring_unmap(&ring);
	}
	close(fd);
	return now;
}
