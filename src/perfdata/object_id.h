/* SPDX-License-Identifier: MIT */
/*
 * object_id: identifies the file that a process mapped. Its path is not enough: a container has a different file under
 * the same path, and an update replaces the file. An MMAP2 record has its build-id, or its device, inode and
 * generation. Any thread.
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

/* The shorter id is compared as if it were padded with zeroes (old records give all ids a length of 20). */
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

/*
 * Decodes the 24 bytes of a MMAP2 record from `maj` on, which hold a build-id or a file id, depending on `misc` of the
 * record's header (PERF_RECORD_MISC_MMAP_BUILD_ID).
 */
void object_id_take(struct cursor *at, uint16_t misc, struct object_id *ret);

/*
 * `spans` are whole records, `bytes` of them, of events without attr.build_id. They become those in front of the first
 * map that says that it has a build-id, on which perf aborts; or a copy of that one, which does not say so. Returns
 * their bytes. By who drains a ring: before Linux 6.14 its data cannot be written.
 */
enum { MAP_RECORD_BYTES = 8192 }; /* a map has less: its name is at most PATH_MAX */
size_t object_id_unmark(struct span spans[2], size_t bytes, uint8_t copy[MAP_RECORD_BYTES]);

bool file_id_equal(const struct file_id *a, const struct file_id *b);

/*
 * For two mappings of one path. An unknown id equals any other. Otherwise the build-ids are compared if both have one,
 * else the file ids; a build-id alone and a file id alone are not equal.
 */
bool object_id_equal(const struct object_id *a, const struct object_id *b);
bool object_id_unknown(const struct object_id *id);

/*
 * Whether the open file is the one that was mapped as `mapped`. any_device: do not compare the device, whose number may
 * change with a reboot. An unknown inode in `mapped` matches any file.
 */
bool file_id_is(const struct file_id *mapped, int fd, const struct stat *status, bool any_device);

/*
 * Whether the path is that of a jitdump file, "jit-PID.dump". JIT compilers map that file only so that its name appears
 * in the recording.
 */
bool path_is_jitdump(const char *path);

/*
 * The id of the copy that is kept of a file without a build-id, of its size and of a hash of its contents; `number`
 * tells files apart that have both alike. No file has it as its build-id.
 */
void copy_id_make(uint64_t bytes, uint64_t hash, uint8_t number, struct elf_id *ret);

/*
 * Whether a file was written to after it was mapped. The times of records are converted to wall-clock time by means of
 * the end of the recording, of which both times are known. When the clocks are too inexact to decide, the answer is
 * false.
 */
struct mapping_times {
	int64_t end_wall_ns;        /* CLOCK_REALTIME when the recording ended, or later; 0: unknown */
	uint64_t first_ns, last_ns; /* of the samples; 0: unknown */
};
bool file_written_after(const struct stat *status, const struct mapping_times *times, uint64_t mapped_ns);

/* What changes when a file is written to in place. */
struct file_stamp {
	int64_t written_ns; /* st_mtim, of CLOCK_REALTIME */
	uint64_t bytes;     /* 0: unknown */
};
struct file_stamp file_stamp_of(const struct stat *status);
bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b);

/*
 * An entry of the payload of FEATURE_MAPPED_FILES: a file as MMAP2 identifies it, and what it contained when it was
 * mapped: that of its build-id; if that is unknown, what the file contains as long as it has this stamp; if both are
 * unknown, it is something else now. Another entry of a file without a build-id, or whose build-id another file has as
 * well, tells of its copy.
 */
struct file_build_id {
	struct file_id file;
	struct elf_id build_id;
	struct file_stamp stamp; /* of a file without a build-id */
	bool has_code_alone;     /* memory of a process, no ELF file: its code was compiled at run time */
	struct elf_id copy_id;   /* copy_id_make(); the two before are in another entry. len 0: no entry of a copy */
};
void file_build_id_put(const struct file_build_id *known, struct buf *out);
bool file_build_id_next(struct cursor *at, struct file_build_id *ret); /* false: the end, or a truncated entry */

/*
 * The record that says which build-id an object has: one of the records in the payload of the BUILD_ID feature (type
 * 0), or a record of a pipe (type RECORD_BUILD_ID). Source: files of perf 6.1.
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
