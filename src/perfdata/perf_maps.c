/* SPDX-License-Identifier: MIT */
#include "perfdata/perf_maps.h"

#include <string.h>

#include "base/buf.h"
#include "base/span.h"

static size_t padding(size_t bytes)
{
	return -bytes & 7;
}

static void put_entry(const struct kept_perf_map *map, struct buf *out)
{
	buf_put_u32(out, map->pid);
	buf_put_u32(out, map->missing);
	buf_put_u64(out, map->bytes);
	buf_put_u64(out, map->stored.len);
	buf_put(out, map->stored.ptr, map->stored.len);
	buf_extend(out, padding(map->stored.len));
}

void perf_map_put(const struct kept_perf_map *map, struct buf *out)
{
	const struct kept_perf_map program = {
		.pid = map->pid,
		.missing = PERF_MAP_OF_A_PROGRAM,
		.bytes = sizeof(map->program_ns),
		.stored = {&map->program_ns, sizeof(map->program_ns)},
	};

	put_entry(map, out);
	if (map->program_known) /* earlier readers look at no entry behind that of the process */
		put_entry(&program, out);
}

const char *perf_map_missing_text(uint32_t missing)
{
	switch (missing) {
	case PERF_MAP_NONE: return "there was none";
	case PERF_MAP_OF_ANOTHER_USER: return "it belongs to another user";
	case PERF_MAP_NO_REGULAR_FILE: return "it is no regular file";
	case PERF_MAP_REUSED_PID: return "two processes had its number";
	case PERF_MAP_TOO_LARGE: return "it is too large";
	case PERF_MAP_OLDER: return "it is older than the process";
	case PERF_MAP_OLDER_THAN_RECORDING:
		return "it is older than the recording, and may be of a former process with the number";
	case PERF_MAP_NEWER_THAN_RECORDING:
		return "it is newer than the recording, and may be of a later process with the number";
	case PERF_MAP_OF_UNKNOWN_PROGRAM:
		return "the process ran several programs one after another, and which one wrote it is not known";
	default: return "it could not be read";
	}
}

static bool next_entry(struct cursor *at, struct kept_perf_map *ret)
{
	struct kept_perf_map map = {.program_known = false};

	map.pid = cursor_u32(at);
	map.missing = cursor_u32(at);
	map.bytes = cursor_u64(at);
	map.stored.len = cursor_u64(at);
	if (at->bad || map.stored.len > cursor_left(at) || map.bytes > PERF_MAP_MAX_BYTES || map.stored.len > map.bytes)
		return false;
	map.stored.ptr = cursor_take(at, map.stored.len);
	cursor_take(at, padding(map.stored.len));
	if (at->bad)
		return false;
	*ret = map;
	return true;
}

bool perf_map_next(struct cursor *at, struct kept_perf_map *ret)
{
	struct kept_perf_map program;

	if (!next_entry(at, ret))
		return false;
	struct cursor behind = *at;
	if (!next_entry(&behind, &program) || program.missing != PERF_MAP_OF_A_PROGRAM || program.pid != ret->pid ||
	    program.stored.len != sizeof(ret->program_ns))
		return true;
	memcpy(&ret->program_ns, program.stored.ptr, sizeof(ret->program_ns));
	ret->program_known = true;
	*at = behind;
	return true;
}
