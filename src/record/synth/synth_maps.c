/* SPDX-License-Identifier: MIT */
#include "record/synth/synth_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "perfdata/record.h"
#include "record/synth/synth.h"
#include "sysinfo/elf_note.h"
#include "sysinfo/proc_maps.h"

enum {
	/* more than the longest line of maps: a path of 4 KiB, each byte escaped */
	WINDOW_BYTES = 1 << 16,
	/* longer ones are "//toolong": kernel/events/core.c perf_event_mmap_event() */
	NAME_BYTES = PATH_MAX - 8,
};

/* PROCMAP_QUERY of <linux/fs.h>, since Linux 6.11 (commit ed5d583a88a9): asks for one map, in binary. */
struct map_query {
	uint64_t size;        /* of this struct */
	uint64_t query_flags; /* the map must have these MAP_QUERY_* */
	uint64_t query_addr;
	uint64_t start, end;
	uint64_t flags; /* MAP_QUERY_* that the map has */
	uint64_t page_bytes;
	uint64_t pgoff, ino; /* 0: no file */
	uint32_t maj, min;
	uint32_t name_bytes; /* in: room; out: with the NUL, 0: no name */
	uint32_t build_id_bytes;
	uint64_t name; /* address of the room */
	uint64_t build_id;
};
_Static_assert(sizeof(struct map_query) == 104, "struct procmap_query");

#define MAP_QUERY _IOWR('f', 17, struct map_query)

enum {
	MAP_QUERY_READABLE = 0x01,
	MAP_QUERY_WRITABLE = 0x02,
	MAP_QUERY_EXECUTABLE = 0x04,
	MAP_QUERY_SHARED = 0x08,
	MAP_QUERY_OR_NEXT = 0x10, /* the next one when none lies at the address */
};

static bool is_octal(const char *digits)
{
	for (unsigned i = 0; i < 3; i++)
		if (digits[i] < '0' || digits[i] > '7')
			return false;
	return true;
}

/* "\040" is a blank: proc_pid_mounts(5). In place. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		if (*from == '\\' && is_octal(from + 1)) {
			*to++ = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 3;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
}

void synth_huge_dirs(char *mounts, struct buf *ret)
{
	char *rest = NULL;

	for (char *line = strtok_r(mounts, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char dir[PATH_MAX], type[32];

		if (sscanf(line, "%*s %4095s %31s", dir, type) != 2 || strcmp(type, "hugetlbfs"))
			continue;
		unescape(dir);
		buf_put(ret, dir, strlen(dir) + 1);
	}
}

/* There may be a mount for each size of pages. */
static void find_huge_dirs(struct buf *ret)
{
	AUTO_BUF struct buf mounts = {0};

	if (!fd_slurp("/proc/self/mounts", 1 << 22, &mounts) && buf_text(&mounts)[0])
		synth_huge_dirs((char *)mounts.data, ret);
}

/*
 * The page that the kernel maps into every process of 64 bits, and that belongs to none: PROCMAP_QUERY does
 * not tell it. It is the same for all, so ours serves.
 */
static void vsyscall_find(struct proc_map *ret)
{
	AUTO_BUF struct buf text = {0};
	static const char name[] = "[vsyscall]";
	struct proc_map map;

	if (fd_slurp("/proc/self/maps", 1 << 24, &text))
		return;
	for (struct span rest = buf_span(&text); proc_maps_next(&rest, &map);) {
		if (map.name.len == sizeof(name) - 1 && !memcmp(map.name.ptr, name, map.name.len)) {
			*ret = map;
			ret->name = (struct span){0};
		}
	}
}

int synth_maps_init(struct synth_maps *maps, const struct synth_params *params, struct buf *out)
{
	*maps = (struct synth_maps){.params = params, .out = out};
	maps->window = malloc(WINDOW_BYTES);
	if (!maps->window)
		return -ENOMEM;
	return 0;
}

void synth_maps_fini(struct synth_maps *maps)
{
	free(maps->window);
	buf_fini(&maps->huge_dirs);
}

/* Samples fall on what can run, or with data_maps also on what can be read. */
static bool map_wanted(const struct synth_maps *maps, uint32_t prot)
{
	return prot & PROT_EXEC || (maps->params->data_maps && prot & PROT_READ);
}

static bool timed_out(const struct synth_maps *maps)
{
	return maps->deadline_ns && clock_ns(CLOCK_MONOTONIC) > maps->deadline_ns;
}

static int read_build_id(pid_t pid, const struct proc_map *map, const char *name, uint8_t id[ELF_NOTE_BUILD_ID_MAX])
{
	const struct object_mapping mapped = {.file = {.major = map->maj, .minor = map->min, .inode = map->ino}};

	if (!strcmp(name, "[vdso]"))
		return elf_note_of_vdso(id);
	if (name[0] != '/' || !map->ino)
		return -ENOENT;
	int len = elf_note_of_file(name, &mapped, id);
	return len > 0 ? len : elf_note_of_process(pid, name, &mapped, id);
}

/* In place of device and inode. Layout: perf_event_open(2) "PERF_RECORD_MISC_MMAP_BUILD_ID". */
static void put_build_id(struct synth_maps *maps, pid_t pid, const struct proc_map *map, const char *name,
			 struct record_mmap2 *record)
{
	struct {
		uint8_t bytes, reserved[3], id[ELF_NOTE_BUILD_ID_MAX];
	} build_id = {0};
	_Static_assert(sizeof(build_id) == 24, "as long as maj to ino_generation");

	if (!map->ino || maps->last_file.ino != map->ino || maps->last_file.maj != map->maj ||
	    maps->last_file.min != map->min) {
		maps->last_file.bytes = read_build_id(pid, map, name, maps->last_file.id);
		maps->last_file.ino = map->ino;
		maps->last_file.maj = map->maj;
		maps->last_file.min = map->min;
	}
	if (maps->last_file.bytes <= 0)
		return;
	build_id.bytes = (uint8_t)maps->last_file.bytes;
	memcpy(build_id.id, maps->last_file.id, build_id.bytes);
	memcpy(&record->maj, &build_id, sizeof(build_id));
	record->header.misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

/* What is mapped from there is memory, no object. */
static bool is_in_huge_dir(struct synth_maps *maps, const struct proc_map *map, const char *name)
{
	const struct buf *dirs = &maps->huge_dirs;

	if (!maps->huge_known && map->maj) /* of a disk: hugetlbfs has none. Source: get_anon_bdev() */
		return false;
	if (!maps->huge_known)
		find_huge_dirs(&maps->huge_dirs);
	maps->huge_known = true;
	for (size_t at = 0; at < dirs->len; at += strlen((const char *)dirs->data + at) + 1)
		if (is_below(name, (const char *)dirs->data + at))
			return true;
	return false;
}

static void put_map(struct synth_maps *maps, pid_t pid, const struct proc_map *map, const char *name)
{
	struct record_mmap2 record = {
		.header = {.type = PERF_RECORD_MMAP2, .misc = PERF_RECORD_MISC_USER},
		.pid = (uint32_t)pid,
		.tid = (uint32_t)pid,
		.addr = map->start,
		.len = map->end - map->start,
		.pgoff = map->pgoff,
		.maj = map->maj,
		.min = map->min,
		.ino = map->ino,
		.prot = map->prot,
		.flags = map->flags,
	};
	size_t fixed = sizeof(record);

	if (name[0] == '\0')
		name = "//anon";
	if (is_in_huge_dir(maps, map, name)) {
		name = "//anon";
		record.flags |= MAP_HUGETLB;
	}
	if (!(map->prot & PROT_EXEC))
		record.header.misc |= PERF_RECORD_MISC_MMAP_DATA;
	if (maps->params->build_ids && maps->params->mmap2)
		put_build_id(maps, pid, map, name, &record);
	if (timed_out(maps))
		record.header.misc |= PERF_RECORD_MISC_PROC_MAP_PARSE_TIMEOUT;
	if (!maps->params->mmap2) { /* the older record is the front of the newer one */
		record.header.type = PERF_RECORD_MMAP;
		fixed = sizeof(struct record_mmap);
	}
	record_put(maps->out, &record, fixed, span_of_text(name), maps->params->trailer_bytes);
}

static void put_text(struct synth_maps *maps, pid_t pid, struct span *text)
{
	struct proc_map map;
	char name[NAME_BYTES];

	while (!timed_out(maps) && proc_maps_next(text, &map)) {
		if (map_wanted(maps, map.prot))
			put_map(maps, pid, &map, proc_map_name(&map, name, sizeof(name)) < 0 ? "//toolong" : name);
	}
}

static int put_by_text(struct synth_maps *maps, pid_t pid, int fd)
{
	size_t kept = 0;

	while (!timed_out(maps)) {
		ssize_t got = read(fd, maps->window + kept, WINDOW_BYTES - kept);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return buf_status(maps->out);
		struct span text = {maps->window, kept + (size_t)got};
		put_text(maps, pid, &text);
		kept = text.len < WINDOW_BYTES ? text.len : 0; /* a line as long as the window is none */
		memmove(maps->window, text.ptr, kept);
	}
	return buf_status(maps->out);
}

/* -ENOTTY: the kernel has no such ioctl. -ENOENT: no further map. */
static int query_next(struct synth_maps *maps, int fd, uint64_t addr, struct proc_map *ret)
{
	struct map_query query = {
		.size = sizeof(query),
		.query_flags = MAP_QUERY_OR_NEXT | (maps->params->data_maps ? 0 : MAP_QUERY_EXECUTABLE),
		.query_addr = addr,
		.name_bytes = NAME_BYTES,
		.name = (uint64_t)(uintptr_t)maps->window,
	};

	maps->window[0] = '\0';
	int err = ioctl(fd, MAP_QUERY, &query) ? -errno : 0;
	if (err == -ENAMETOOLONG) { /* once more, without the name */
		strcpy(maps->window, "//toolong");
		query.name_bytes = 0;
		query.name = 0;
		err = ioctl(fd, MAP_QUERY, &query) ? -errno : 0;
	}
	*ret = (struct proc_map){
		.start = query.start,
		.end = query.end,
		.pgoff = query.pgoff,
		.ino = query.ino,
		.maj = query.maj,
		.min = query.min,
		.prot = (query.flags & MAP_QUERY_READABLE ? PROT_READ : 0) |
			(query.flags & MAP_QUERY_WRITABLE ? PROT_WRITE : 0) |
			(query.flags & MAP_QUERY_EXECUTABLE ? PROT_EXEC : 0),
		.flags = query.flags & MAP_QUERY_SHARED ? MAP_SHARED : MAP_PRIVATE,
	};
	return err;
}

static void put_vsyscall(struct synth_maps *maps, pid_t pid)
{
	if (!maps->vsyscall_known)
		vsyscall_find(&maps->vsyscall);
	maps->vsyscall_known = true;
	if (maps->vsyscall.end)
		put_map(maps, pid, &maps->vsyscall, "[vsyscall]");
}

/* Half the time of the text: the maps that do not matter, most of them, are neither printed nor parsed. */
static int put_by_query(struct synth_maps *maps, pid_t pid, int fd)
{
	struct proc_map map;
	uint64_t end = 0;
	int err = 0;

	while (!timed_out(maps) && !(err = query_next(maps, fd, end, &map)) && map.end > end) {
		if (map_wanted(maps, map.prot))
			put_map(maps, pid, &map, maps->window);
		end = map.end;
	}
	if (err == -ENOENT && end > UINT32_MAX) /* not in a process of 32 bits */
		put_vsyscall(maps, pid);
	return err == -ENOTTY ? err : buf_status(maps->out);
}

int synth_maps_put(struct synth_maps *maps, pid_t pid, int fd)
{
	uint64_t timeout_ns = (uint64_t)maps->params->maps_timeout_ms * 1000000;

	maps->deadline_ns = timeout_ns ? clock_ns(CLOCK_MONOTONIC) + timeout_ns : 0;
	int err = maps->query_missing ? -ENOTTY : put_by_query(maps, pid, fd);

	if (err != -ENOTTY)
		return err;
	maps->query_missing = true;
	return put_by_text(maps, pid, fd);
}
