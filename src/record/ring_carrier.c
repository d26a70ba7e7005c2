/* SPDX-License-Identifier: MIT */
#include "record/ring_carrier.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/plan.h"

int ring_carrier_open(const struct perf_event_attr *like, const struct plan_ring *ring, uint32_t wakeup_bytes)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = like->size,
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.write_backward = like->write_backward,
		.watermark = wakeup_bytes != 0,
		.wakeup_watermark = wakeup_bytes,
		.use_clockid = like->use_clockid,
		.clockid = like->clockid,
	};
	pid_t pid = ring->cpu < 0 ? ring->tid : getpid();
	int fd = (int)syscall(SYS_perf_event_open, &attr, pid, ring->cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}
