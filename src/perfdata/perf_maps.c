/* SPDX-License-Identifier: MIT */
#include "perfdata/perf_maps.h"

#include "base/buf.h"
#include "base/span.h"

static size_t padding(size_t bytes)
{
	return -bytes & 7;
}

void perf_map_put(const struct kept_perf_map *map, struct buf *out)
{
	buf_put_u32(out, map->pid);
	buf_put_u32(out, map->missing);
	buf_put_u64(out, map->bytes);
	buf_put_u64(out, map->stored.len);
	buf_put(out, map->stored.ptr, map->stored.len);
	buf_extend(out, padding(map->stored.len));
}

bool perf_map_next(struct cursor *at, struct kept_perf_map *ret)
{
	struct kept_perf_map map;

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
