/* SPDX-License-Identifier: MIT */
#include "tasks/task_event.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>

#include "base/span.h"

int task_event_decode(const struct perf_event_header *header, const void *record, size_t trailer_bytes,
		      struct task_event *ret)
{
	struct task_event event = {.type = header->type, .misc = header->misc};

	if (header->type != PERF_RECORD_COMM && header->type != PERF_RECORD_FORK && header->type != PERF_RECORD_EXIT &&
	    header->type != PERF_RECORD_MMAP && header->type != PERF_RECORD_MMAP2)
		return 0;
	if (header->size < sizeof(*header) + trailer_bytes)
		return -EBADMSG;
	struct cursor at = cursor_over(
		(struct span){(const char *)record + sizeof(*header), header->size - sizeof(*header) - trailer_bytes});
	event.pid = cursor_u32(&at);
	if (header->type == PERF_RECORD_FORK || header->type == PERF_RECORD_EXIT) {
		event.ppid = cursor_u32(&at);
		event.tid = cursor_u32(&at);
		event.ptid = cursor_u32(&at);
		cursor_u64(&at); /* the time, which the trailer has, too */
		*ret = event;
		return at.bad ? -EBADMSG : 1;
	}
	event.tid = cursor_u32(&at);
	if (header->type != PERF_RECORD_COMM) {
		event.start = cursor_u64(&at);
		event.len = cursor_u64(&at);
		event.pgoff = cursor_u64(&at);
		event.prot = header->misc & PERF_RECORD_MISC_MMAP_DATA ? 0 : PROT_EXEC;
	}
	if (header->type == PERF_RECORD_MMAP2) {
		object_id_take(&at, header->misc, &event.id);
		event.prot = cursor_u32(&at);
		event.flags = cursor_u32(&at);
	}
	event.name.ptr = cursor_string(&at, cursor_left(&at));
	if (at.bad)
		return -EBADMSG;
	event.name.len = strlen(event.name.ptr);
	*ret = event;
	return 1;
}

enum { MMAP2_MAP_HUGETLB = 0x40000 }; /* mmap(2), as x86 and arm64 have it */

static bool starts_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

bool task_event_is_anonymous(const struct task_event *map)
{
	const char *name = map->name.ptr;

	return map->flags & MMAP2_MAP_HUGETLB || strcmp(name, "//anon") == 0 || starts_with(name, "/dev/zero") ||
	       starts_with(name, "/anon_hugepage");
}

bool path_is_memory(const char *path)
{
	return starts_with(path, "/memfd:") || starts_with(path, "/dev/shm/");
}
