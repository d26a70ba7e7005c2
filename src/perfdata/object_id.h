/* SPDX-License-Identifier: MIT */
/*
 * object_id: which file it was that a process mapped. A path does not tell: containers have other files under the same
 * path, and a deploy puts another file there. The build-id tells, or device, inode and generation, as MMAP2 has them.
 * Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/span.h"

struct buf;
struct cursor;
struct stat;

enum { ELF_ID_MAX_BYTES = 20 };

struct elf_id {
	uint8_t bytes[ELF_ID_MAX_BYTES];
	uint8_t len; /* 0: unknown */
};

/* Ids of the same length or not: the shorter is taken as padded with zeroes (old records say 20 for all). */
bool elf_id_equal(const struct elf_id *a, const struct elf_id *b);

/* As the kernel names the file of a mapping. */
struct file_id {
	uint32_t major, minor;
	uint64_t inode;      /* 0: unknown */
	uint64_t generation; /* 0: unknown; /proc/PID/maps does not tell it */
};

struct object_id {
	struct elf_id build_id;
	struct file_id file;
};

/* The 24 bytes of a MMAP2 record from `maj` on, which hold either of the two; `misc`: of its header. */
void object_id_take(struct cursor *at, uint16_t misc, struct object_id *ret);

bool file_id_equal(const struct file_id *a, const struct file_id *b);

/* Of mappings of one path: the same file, as far as both tell. What tells nothing is the same as anything. */
bool object_id_equal(const struct object_id *a, const struct object_id *b);
bool object_id_unknown(const struct object_id *id);

/*
 * Is this open file the one that was mapped as `mapped`? With any_device the device is not compared: it gets another
 * number when the machine starts anew. An unknown inode is true.
 */
bool file_id_is(const struct file_id *mapped, int fd, const struct stat *status, bool any_device);

/* Whether a path is that of a jitdump: "jit-PID.dump". A process maps it so that it is in the recording. */
bool path_is_jitdump(const char *path);

/* What stands for the build-id of a file without one in a cache of objects. */
void file_id_to_cache_id(const struct file_id *file, struct elf_id *ret);

/*
 * Whether a file was written to after it was mapped; the clock of the records is turned into that of the file system by
 * the end of the recording, which is when both were last looked at. Errors of the clocks count for the file.
 */
struct mapping_times {
	int64_t end_wall_ns;        /* when the recording ended, or later; 0: unknown */
	uint64_t first_ns, last_ns; /* of the samples; 0: unknown */
};
bool file_written_after(const struct stat *status, const struct mapping_times *times, uint64_t mapped_ns);

/* The payload of FEATURE_MAPPED_FILES: the build-ids of files by what MMAP2 says of them. */
struct file_build_id {
	struct file_id file;
	struct elf_id build_id;
};
void file_build_id_put(const struct file_build_id *known, struct buf *out);
bool file_build_id_next(struct cursor *at, struct file_build_id *ret); /* false: the end, or cut */

/*
 * The record that ties an object to its build-id: payload of the BUILD_ID feature (type 0, back
 * to back), or a record of a pipe (type RECORD_BUILD_ID). Source: files of perf 6.1.
 */

enum { BUILD_ID_MAX_BYTES = 20 }; /* SHA-1; the field has no room for more */

struct build_id {
	uint16_t misc; /* cpumode: PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_USER, … */
	int32_t pid;   /* -1: of the host */
	uint8_t id_bytes;
	uint8_t id[BUILD_ID_MAX_BYTES];
	const char *path; /* "[kernel.kallsyms]", "[vdso]", "/usr/bin/true"; decoded: into the payload */
};

/* `type`: 0 in a file, RECORD_BUILD_ID in a pipe. -EINVAL when path or id are too long, -ENOMEM. */
int build_id_encode(const struct build_id *id, uint32_t type, struct buf *out);

/* The next record. 1, 0 at the end, -EBADMSG. */
int build_id_decode(struct cursor *at, struct build_id *ret);
