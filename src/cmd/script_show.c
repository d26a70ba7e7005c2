/* SPDX-License-Identifier: MIT */
#include "cmd/script_show.h"

#include <stddef.h>

#include "analyze/machine.h"
#include "base/cursor.h"
#include "read/session.h"

enum whose {
	OF_SAMPLE,   /* of its sample_id trailer */
	OF_BODY,     /* it begins with pid and tid */
	OF_RELATION, /* it begins with pid, ppid, tid */
};

/* perf_event_open(2); FINISHED_ROUND is nobody's. */
static const struct row {
	uint32_t type;
	enum whose whose;
	size_t shown; /* offset of its flag in struct script_show */
} rows[] = {
	{PERF_RECORD_COMM, OF_BODY, offsetof(struct script_show, tasks)},
	{PERF_RECORD_FORK, OF_RELATION, offsetof(struct script_show, tasks)},
	{PERF_RECORD_EXIT, OF_RELATION, offsetof(struct script_show, tasks)},
	{PERF_RECORD_MMAP, OF_BODY, offsetof(struct script_show, mmaps)},
	{PERF_RECORD_MMAP2, OF_BODY, offsetof(struct script_show, mmaps)},
	{PERF_RECORD_SWITCH, OF_SAMPLE, offsetof(struct script_show, switches)},
	{PERF_RECORD_SWITCH_CPU_WIDE, OF_SAMPLE, offsetof(struct script_show, switches)},
	{PERF_RECORD_NAMESPACES, OF_BODY, offsetof(struct script_show, namespaces)},
	{PERF_RECORD_LOST, OF_SAMPLE, offsetof(struct script_show, lost)},
	{PERF_RECORD_KSYMBOL, OF_SAMPLE, offsetof(struct script_show, bpf)},
	{PERF_RECORD_BPF_EVENT, OF_SAMPLE, offsetof(struct script_show, bpf)},
	{PERF_RECORD_CGROUP, OF_SAMPLE, offsetof(struct script_show, cgroups)},
	{PERF_RECORD_TEXT_POKE, OF_SAMPLE, offsetof(struct script_show, text_pokes)},
	{RECORD_FINISHED_ROUND, OF_SAMPLE, offsetof(struct script_show, rounds)},
};

static const struct row *row_of(uint32_t type)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].type == type)
			return &rows[i];
	return NULL;
}

bool script_show_has(const struct script_show *show, uint32_t type)
{
	const struct row *row = row_of(type);

	return row && *(const bool *)((const char *)show + row->shown);
}

bool script_show_any(const struct script_show *show)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (script_show_has(show, rows[i].type))
			return true;
	return false;
}

struct task *script_show_task(struct machine *machine, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	const struct row *row = row_of(header->type);
	struct cursor at = cursor_over((struct span){header + 1, header->size - sizeof(*header)});
	uint32_t pid = record->sample.pid, tid = record->sample.tid;

	if (row && row->whose != OF_SAMPLE) {
		pid = cursor_u32(&at);
		if (row->whose == OF_RELATION)
			cursor_u32(&at);
		tid = cursor_u32(&at);
	}
	return machine_task(machine, pid, tid);
}
