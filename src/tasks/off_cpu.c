/* SPDX-License-Identifier: MIT */
#include "tasks/off_cpu.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"

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

static void put_payload(const struct off_cpu_wait *wait, struct buf *out)
{
	bool unknown = wait->flags & OFF_CPU_UNKNOWN, sum = wait->flags & OFF_CPU_SUM;
	bool has_waker = wait->waker_pid || wait->waker_tid || wait->waker_ips.len;
	size_t more = sum || has_waker ? sizeof(uint64_t) + wait->waker_ips.len : 0;

	buf_put_u32(out, (uint32_t)(LEAST_BYTES + more)); /* with this size a multiple of 8 */
	buf_put_u32(out, (wait->state & STATE_MASK) | wait->flags);
	buf_put_u64(out, unknown ? wait->ns : wait->runnable_ns);
	if (sum) {
		buf_put_u64(out, wait->nr_times);
	} else if (has_waker) {
		buf_put_u32(out, wait->waker_pid);
		buf_put_u32(out, wait->waker_tid);
		buf_put(out, wait->waker_ips.ptr, wait->waker_ips.len);
	}
}

/* Where the field of one word is in a SAMPLE that has it: behind those of lower order, kernel/events/core.c. */
static size_t word_offset(const struct perf_event_attr *attr, uint64_t bit)
{
	static const uint64_t order[] = {
		PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,        PERF_SAMPLE_TID, PERF_SAMPLE_TIME,   PERF_SAMPLE_ADDR,
		PERF_SAMPLE_ID,         PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU, PERF_SAMPLE_PERIOD,
	};
	size_t offset = sizeof(struct perf_event_header);

	for (size_t i = 0; order[i] != bit; i++)
		if (attr->sample_type & order[i])
			offset += sizeof(uint64_t);
	return offset;
}

int off_cpu_put(const struct perf_event_attr *attr, const struct perf_event_header *left,
		const struct off_cpu_wait *wait, const struct off_cpu_end *end, struct buf *out)
{
	const uint64_t needed =
		PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW;
	const uint64_t period = wait->flags & OFF_CPU_UNKNOWN ? 0 : wait->ns;
	const uint32_t ids[2] = {end->pid, end->tid}, cpu[2] = {end->cpu, 0};
	struct perf_event_header header = *left;
	struct sample sample;
	size_t at = out->len;

	if ((attr->sample_type & (needed | PERF_SAMPLE_READ)) != needed || sample_decode(attr, left, &sample))
		return -EBADMSG;
	const uint8_t *bytes = (const uint8_t *)left, *raw = (const uint8_t *)sample.raw.ptr - sizeof(uint32_t);
	const uint8_t *behind = raw + sizeof(uint32_t) + sample.raw.len;
	buf_put(out, bytes, (size_t)(raw - bytes));
	put_payload(wait, out);
	buf_put(out, behind, (size_t)(bytes + header.size - behind));
	if (out->failed)
		return 0;
	if (out->len - at > UINT16_MAX) {
		out->len = at;
		return -EBADMSG;
	}
	header.size = (uint16_t)(out->len - at);
	uint8_t *put = out->data + at;
	memcpy(put, &header, sizeof(header));
	memcpy(put + word_offset(attr, PERF_SAMPLE_TID), ids, sizeof(ids));
	memcpy(put + word_offset(attr, PERF_SAMPLE_TIME), &end->time_ns, sizeof(end->time_ns));
	memcpy(put + word_offset(attr, PERF_SAMPLE_CPU), cpu, sizeof(cpu));
	memcpy(put + word_offset(attr, PERF_SAMPLE_PERIOD), &period, sizeof(period));
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
	if (attr->sample_type & PERF_SAMPLE_IDENTIFIER)
		memcpy(out->data + at + word_offset(attr, PERF_SAMPLE_IDENTIFIER), &id, sizeof(id));
	else if (attr->sample_type & PERF_SAMPLE_ID)
		memcpy(out->data + at + word_offset(attr, PERF_SAMPLE_ID), &id, sizeof(id));
	if (!(attr->sample_type & PERF_SAMPLE_RAW))
		return;
	/* Behind the size of RAW there are bytes up to a multiple of 8. */
	const struct sample_shape shape = sample_shape(attr);
	uint32_t raw_bytes = sizeof(uint32_t);
	memcpy(out->data + at + shape.words_bytes + (shape.chain ? sizeof(uint64_t) : 0), &raw_bytes,
	       sizeof(raw_bytes));
}
