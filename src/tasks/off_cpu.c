/* SPDX-License-Identifier: MIT */
#include "tasks/off_cpu.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "tasks/raw_sample.h"

enum { STATE_MASK = 0xffff, LEAST_BYTES = sizeof(uint32_t) + sizeof(uint64_t) };

bool off_cpu_is_event(const struct event_desc *desc)
{
	const struct perf_event_attr *attr = &desc->attr;

	if (attr->type != PERF_TYPE_SOFTWARE || !desc->name)
		return false;
	bool named = !strcmp(desc->name, OFF_CPU_EVENT);
	/* perf 6.2 and later; from 6.15 on with a payload of its own. */
	if (attr->config == PERF_COUNT_SW_BPF_OUTPUT)
		return named && !(attr->sample_type & PERF_SAMPLE_RAW);
	/* A recording that was killed has no names. Payloads of the kernel's own are too short to be decoded. */
	return attr->config == PERF_COUNT_SW_CONTEXT_SWITCHES && attr->sample_type & PERF_SAMPLE_RAW &&
	       (named || !strcmp(desc->name, "context-switches"));
}

void off_cpu_convert_attr(struct perf_event_attr *attr)
{
	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = PERF_COUNT_SW_CONTEXT_SWITCHES;
	attr->context_switch = 0; /* these records are left out, or other events have them */
	if (attr->write_backward)
		attr->task = 0; /* likewise */
}

int off_cpu_decode(const struct sample *sample, struct off_cpu_wait *ret)
{
	struct off_cpu_wait wait = {.ns = sample->period, .nr_times = 1};
	struct cursor at = cursor_over(sample->raw);

	if (!(sample->present & PERF_SAMPLE_RAW)) {
		wait.flags = OFF_CPU_NO_STATE | OFF_CPU_NO_WAKE_UP;
		*ret = wait;
		return 0;
	}
	uint32_t state = cursor_u32(&at);
	wait.state = state & STATE_MASK;
	wait.flags = state & ~(uint32_t)STATE_MASK;
	wait.runnable_ns = cursor_u64(&at);
	if (at.bad)
		return -EBADMSG;
	if (wait.flags & OFF_CPU_UNKNOWN) {
		wait.ns = wait.runnable_ns;
		wait.runnable_ns = 0;
	}
	if (wait.runnable_ns > wait.ns)
		return -EBADMSG;
	if (cursor_left(&at) >= sizeof(uint64_t) && wait.flags & OFF_CPU_SUM) {
		wait.nr_times = cursor_u64(&at);
	} else if (cursor_left(&at) >= sizeof(uint64_t)) {
		wait.waker_pid = cursor_u32(&at);
		wait.waker_tid = cursor_u32(&at);
		wait.waker_ips = (struct span){at.at, cursor_left(&at) / sizeof(uint64_t) * sizeof(uint64_t)};
	}
	*ret = wait;
	return 0;
}

const char *off_cpu_state_letter(const struct off_cpu_wait *wait)
{
	/* include/linux/sched.h, TASK_REPORT, as include/trace/events/sched.h prints it. */
	static const struct {
		uint32_t bit;
		const char *letter;
	} states[] = {
		{0x01, "S"}, {0x02, "D"}, {0x04, "T"}, {0x08, "t"}, {0x10, "X"}, {0x20, "Z"}, {0x40, "P"}, {0x80, "I"},
	};

	if (wait->flags & (OFF_CPU_UNKNOWN | OFF_CPU_SUM | OFF_CPU_NO_STATE))
		return "?";
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (wait->state & states[i].bit)
			return states[i].letter;
	return wait->flags & OFF_CPU_STARTING ? "R" : "R+";
}

const char *off_cpu_state_name(const struct off_cpu_wait *wait, bool ready)
{
	if (wait->flags & OFF_CPU_UNKNOWN)
		return "unknown";
	if (wait->flags & OFF_CPU_SUM)
		return ready ? "runnable, short" : "waiting, short";
	if (wait->flags & OFF_CPU_STARTING)
		return "starting";
	if (ready)
		return wait->state || wait->flags & OFF_CPU_NO_STATE ? "runnable" : "preempted";
	switch (off_cpu_state_letter(wait)[0]) {
	case 'S': return "sleeping";
	case 'D': return "uninterruptible";
	case 'T': return "stopped";
	case 't': return "traced";
	case 'P': return "parked";
	case 'I': return "idle";
	default: return "waiting";
	}
}

/* Bytes behind the size of the payload; with it a multiple of 8. */
static size_t payload_bytes(const struct off_cpu_wait *wait)
{
	bool has_more = wait->flags & OFF_CPU_SUM || wait->waker_pid || wait->waker_tid || wait->waker_ips.len;

	return LEAST_BYTES + (has_more ? sizeof(uint64_t) + wait->waker_ips.len : 0);
}

static void put_payload(const struct off_cpu_wait *wait, size_t bytes, uint8_t *to)
{
	const struct {
		uint32_t bytes, state;
		uint64_t ns;
	} least = {
		.bytes = (uint32_t)bytes,
		.state = (wait->state & STATE_MASK) | wait->flags,
		.ns = wait->flags & OFF_CPU_UNKNOWN ? wait->ns : wait->runnable_ns,
	};
	const uint32_t waker[2] = {wait->waker_pid, wait->waker_tid};

	memcpy(to, &least, sizeof(least));
	if (bytes == LEAST_BYTES)
		return;
	to += sizeof(least);
	if (wait->flags & OFF_CPU_SUM)
		memcpy(to, &wait->nr_times, sizeof(wait->nr_times));
	else
		memcpy(to, waker, sizeof(waker));
	if (wait->waker_ips.len)
		memcpy(to + sizeof(waker), wait->waker_ips.ptr, wait->waker_ips.len);
}

int off_cpu_put(const struct raw_sample_shape *shape, const struct perf_event_header *left,
		const struct off_cpu_wait *wait, const struct off_cpu_end *end, struct buf *out)
{
	const uint64_t period = wait->flags & OFF_CPU_UNKNOWN ? 0 : wait->ns;
	const uint32_t ids[2] = {end->pid, end->tid}, cpu[2] = {end->cpu, 0};
	const struct span raw = raw_sample_payload(shape, left);

	if (!raw.ptr || !shape->tid || !shape->time || !shape->cpu || !shape->period)
		return -EBADMSG;
	const uint8_t *bytes = (const uint8_t *)left, *behind = (const uint8_t *)raw.ptr + raw.len;
	const size_t before_bytes = (size_t)((const uint8_t *)raw.ptr - bytes) - sizeof(uint32_t);
	const size_t behind_bytes = (size_t)(bytes + left->size - behind), raw_bytes = payload_bytes(wait);
	const size_t size = before_bytes + sizeof(uint32_t) + raw_bytes + behind_bytes;
	if (size > UINT16_MAX)
		return -EBADMSG;
	uint8_t *put = buf_room(out, size);
	if (!put)
		return 0;
	struct perf_event_header header = *left;
	header.size = (uint16_t)size;
	memcpy(put, bytes, before_bytes);
	put_payload(wait, raw_bytes, put + before_bytes);
	memcpy(put + size - behind_bytes, behind, behind_bytes);
	memcpy(put, &header, sizeof(header));
	memcpy(put + shape->tid, ids, sizeof(ids));
	memcpy(put + shape->time, &end->time_ns, sizeof(end->time_ns));
	memcpy(put + shape->cpu, cpu, sizeof(cpu));
	memcpy(put + shape->period, &period, sizeof(period));
	out->len += size;
	return 0;
}

void off_cpu_put_blank(const struct perf_event_attr *attr, uint64_t id, struct buf *out)
{
	/* A word for each field; of those of any length it says that there is nothing: no frames, no registers, no
	 * stack. */
	const uint64_t fields = attr->sample_type & ~(uint64_t)PERF_SAMPLE_READ;
	struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_USER};
	size_t at = out->len;

	header.size = (uint16_t)(sizeof(header) + (size_t)__builtin_popcountll(fields) * sizeof(uint64_t));
	if (!buf_extend(out, header.size))
		return;
	memcpy(out->data + at, &header, sizeof(header));
	const int id_offset = sample_id_offset(attr);
	if (id_offset >= 0)
		memcpy(out->data + at + id_offset, &id, sizeof(id));
	if (!(attr->sample_type & PERF_SAMPLE_RAW))
		return;
	/* Behind the size of RAW there are bytes up to a multiple of 8. */
	const struct sample_shape shape = sample_shape(attr);
	uint32_t raw_bytes = sizeof(uint32_t);
	memcpy(out->data + at + shape.words_bytes + (shape.chain ? sizeof(uint64_t) : 0), &raw_bytes,
	       sizeof(raw_bytes));
}
