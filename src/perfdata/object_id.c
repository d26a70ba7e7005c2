/* SPDX-License-Identifier: MIT */
#include "perfdata/object_id.h"

#include <errno.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "base/buf.h"
#include "base/span.h"
#include "perfdata/record.h"

bool elf_id_equal(const struct elf_id *a, const struct elf_id *b)
{
	uint8_t left[ELF_ID_MAX_BYTES] = {0}, right[ELF_ID_MAX_BYTES] = {0};

	memcpy(left, a->bytes, a->len);
	memcpy(right, b->bytes, b->len);
	return memcmp(left, right, sizeof(left)) == 0;
}

static struct file_id take_file(struct cursor *at)
{
	struct file_id file = {.major = cursor_u32(at)};

	file.minor = cursor_u32(at);
	file.inode = cursor_u64(at);
	file.generation = cursor_u64(at);
	return file;
}

/*
 * Whether these bytes may be those of a file: the number of a disk is that of a loop device, of SCSI, md or older ones,
 * and the file system has no generations (squashfs, iso9660, vfat). Of build-ids of 8 bytes one in 4096 is like that.
 * Source: MINORBITS of the kernel's include/linux/kdev_t.h, and its Documentation/admin-guide/devices.txt.
 */
static bool may_be_file(struct cursor at)
{
	enum { MINOR_BITS = 20, OLD_MAJORS = 16 };
	const struct file_id file = take_file(&at);

	return file.major < OLD_MAJORS && file.minor < 1U << MINOR_BITS && file.inode;
}

/*
 * What the flag says is there in place of device and inode (perf_event_open(2)). The kernel sets it in records without
 * a build-id, too, while another process records the same tasks with them (seen on Linux 6.18). The attr does not tell:
 * other programs put build-ids into records later. So it is none by its form: a length of at most 20, zeros, and bytes
 * that are zero behind that length.
 */
static bool take_build_id(struct cursor *at, struct elf_id *ret)
{
	struct cursor from = *at;
	struct elf_id id = {.len = cursor_u8(&from)};
	bool zeros = cursor_u8(&from) == 0 && cursor_u16(&from) == 0;

	cursor_copy(&from, id.bytes, ELF_ID_MAX_BYTES);
	if (from.bad || !zeros || !id.len || id.len > ELF_ID_MAX_BYTES || may_be_file(*at))
		return false;
	for (size_t i = id.len; i < ELF_ID_MAX_BYTES; i++)
		if (id.bytes[i])
			return false;
	*at = from;
	*ret = id;
	return true;
}

void object_id_take(struct cursor *at, uint16_t misc, struct object_id *ret)
{
	*ret = (struct object_id){0};
	if (!(misc & PERF_RECORD_MISC_MMAP_BUILD_ID) || !take_build_id(at, &ret->build_id))
		ret->file = take_file(at);
}

/*
 * For a record of a map the kernel sets the bit when it writes it for an event with attr.build_id, and leaves it set
 * when it writes the same for the events of others: perf_event_mmap_output() in kernel/events/core.c (seen on 6.18).
 */
static bool is_marked(const struct perf_event_header *header)
{
	return header->type == PERF_RECORD_MMAP2 && header->misc & PERF_RECORD_MISC_MMAP_BUILD_ID &&
	       header->size <= MAP_RECORD_BYTES;
}

static const uint8_t *in_spans(const struct span spans[2], size_t at)
{
	return at < spans[0].len ? (const uint8_t *)spans[0].ptr + at
				 : (const uint8_t *)spans[1].ptr + (at - spans[0].len);
}

static size_t copy_unmarked(struct span spans[2], size_t bytes, uint8_t *copy)
{
	const size_t first = bytes < spans[0].len ? bytes : spans[0].len;
	struct perf_event_header header;

	memcpy(copy, spans[0].ptr, first);
	if (first < bytes)
		memcpy(copy + first, spans[1].ptr, bytes - first);
	memcpy(&header, copy, sizeof(header));
	header.misc &= (uint16_t)~PERF_RECORD_MISC_MMAP_BUILD_ID;
	memcpy(copy, &header, sizeof(header));
	spans[0] = (struct span){copy, bytes};
	spans[1] = (struct span){0};
	return bytes;
}

size_t object_id_unmark(struct span spans[2], size_t bytes, uint8_t copy[MAP_RECORD_BYTES])
{
	struct perf_event_header header;

	for (size_t at = 0; at < bytes; at += header.size) {
		memcpy(&header, in_spans(spans, at), sizeof(header)); /* records are aligned to 8 bytes */
		if (header.size < sizeof(header) || header.size % 8 || header.size > bytes - at)
			break;
		if (!is_marked(&header))
			continue;
		if (!at)
			return copy_unmarked(spans, header.size, copy);
		spans_cut(spans, at);
		return at;
	}
	return bytes;
}

static bool generation_equal(uint64_t a, uint64_t b)
{
	return !a || !b || a == b;
}

bool file_id_equal(const struct file_id *a, const struct file_id *b)
{
	return a->major == b->major && a->minor == b->minor && a->inode == b->inode &&
	       generation_equal(a->generation, b->generation);
}

bool object_id_unknown(const struct object_id *id)
{
	return !id->build_id.len && !id->file.inode;
}

bool object_id_equal(const struct object_id *a, const struct object_id *b)
{
	if (object_id_unknown(a) || object_id_unknown(b))
		return true;
	if (a->build_id.len && b->build_id.len)
		return elf_id_equal(&a->build_id, &b->build_id);
	return a->file.inode && b->file.inode && file_id_equal(&a->file, &b->file);
}

/* 0: the file system does not tell it. */
static uint64_t generation_of(int fd)
{
	long generation = 0; /* most file systems write an int */

	return ioctl(fd, FS_IOC_GETVERSION, &generation) ? 0 : (uint32_t)generation;
}

/* How the kernel names the mappings of this file: one is made, and looked at. */
static bool mapped_as(int fd, struct file_id *ret)
{
	char line[512];
	bool found = false;
	void *page = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
	FILE *maps = page == MAP_FAILED ? NULL : fopen("/proc/self/maps", "re");

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		unsigned long start;
		unsigned major, minor;
		unsigned long long inode;
		found = sscanf(line, "%lx-%*x %*s %*x %x:%x %llu", &start, &major, &minor, &inode) == 4 &&
			start == (unsigned long)page;
		if (found)
			*ret = (struct file_id){.major = major, .minor = minor, .inode = inode};
	}
	if (maps)
		fclose(maps);
	if (page != MAP_FAILED)
		munmap(page, 1);
	return found;
}

/*
 * stat(2) of btrfs and overlayfs shows a device of its own making, which mappings do not have; Linux 6.8 to 6.17 show
 * the files below an overlay in MMAP2, but not in maps.
 */
static bool is_mapped_device(const struct file_id *mapped, int fd)
{
	struct file_id as;
	struct statfs system;

	if (mapped_as(fd, &as) && as.major == mapped->major && as.minor == mapped->minor && as.inode == mapped->inode)
		return true;
	return fstatfs(fd, &system) == 0 && system.f_type == OVERLAYFS_SUPER_MAGIC;
}

bool file_id_is(const struct file_id *mapped, int fd, const struct stat *status, bool any_device)
{
	if (!mapped->inode)
		return true;
	/* A device without a number of its own: see above. The upper half of an inode may say which layer it is of. */
	bool made_up = major(status->st_dev) == 0;
	if (made_up ? (uint32_t)status->st_ino != (uint32_t)mapped->inode : status->st_ino != mapped->inode)
		return false;
	bool same = status->st_ino == mapped->inode &&
		    (any_device || (major(status->st_dev) == mapped->major && minor(status->st_dev) == mapped->minor));
	if (!same && !(made_up && is_mapped_device(mapped, fd)))
		return false;
	return !mapped->generation || generation_equal(mapped->generation, generation_of(fd));
}

bool file_written_after(const struct stat *status, const struct mapping_times *times, uint64_t mapped_ns)
{
	enum { SLACK_NS = 50000000, CLOCKS_DIFFER_BY = 1000 /* 0.1 % at most */ };
	int64_t written_ns = status->st_mtim.tv_sec * INT64_C(1000000000) + status->st_mtim.tv_nsec;

	if (!times->end_wall_ns)
		return false;
	/* What was there when the recording began has no time. */
	uint64_t since_ns = mapped_ns > times->first_ns ? mapped_ns : times->first_ns;
	uint64_t ago_ns = since_ns && times->last_ns > since_ns ? times->last_ns - since_ns : 0;
	if (ago_ns > (uint64_t)times->end_wall_ns)
		return false;
	return written_ns > times->end_wall_ns - (int64_t)ago_ns + (int64_t)(ago_ns / CLOCKS_DIFFER_BY) + SLACK_NS;
}

struct file_stamp file_stamp_of(const struct stat *status)
{
	return (struct file_stamp){.written_ns = status->st_mtim.tv_sec * INT64_C(1000000000) + status->st_mtim.tv_nsec,
				   .bytes = (uint64_t)status->st_size};
}

bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b)
{
	return a->written_ns == b->written_ns && a->bytes == b->bytes;
}

static const char copy_mark[4] = "copy"; /* and 7 bytes of the size, the number, 8 bytes of the hash */

void copy_id_make(uint64_t bytes, uint64_t hash, uint8_t number, struct elf_id *ret)
{
	const uint64_t size_and_number = bytes << 8 | number;

	*ret = (struct elf_id){.len = sizeof(copy_mark) + sizeof(size_and_number) + sizeof(hash)};
	memcpy(ret->bytes, copy_mark, sizeof(copy_mark));
	memcpy(ret->bytes + sizeof(copy_mark), &size_and_number, sizeof(size_and_number));
	memcpy(ret->bytes + sizeof(copy_mark) + sizeof(size_and_number), &hash, sizeof(hash));
}

/* Not by chance: a build-id is a hash, or a random number. */
static bool is_of_copy(const struct elf_id *id)
{
	return id->len == ELF_ID_MAX_BYTES && !memcmp(id->bytes, copy_mark, sizeof(copy_mark));
}

/* The stamp is in the place of the build-id, and so is the id of a copy. */
_Static_assert(sizeof(struct file_stamp) <= ELF_ID_MAX_BYTES, "an entry of MAPPED_FILES");

void file_build_id_put(const struct file_build_id *known, struct buf *out)
{
	const uint8_t flags[3] = {known->has_code_alone}; /* earlier readers ignore them */
	uint8_t stamp[ELF_ID_MAX_BYTES] = {0};
	const struct elf_id *id = known->copy_id.len ? &known->copy_id : &known->build_id;

	buf_put_u32(out, known->file.major);
	buf_put_u32(out, known->file.minor);
	buf_put_u64(out, known->file.inode);
	buf_put_u64(out, known->file.generation);
	buf_put(out, &id->len, 1);
	buf_put(out, flags, sizeof(flags));
	memcpy(stamp, &known->stamp, sizeof(known->stamp));
	buf_put(out, id->len ? id->bytes : stamp, ELF_ID_MAX_BYTES);
}

bool file_build_id_next(struct cursor *at, struct file_build_id *ret)
{
	struct file_build_id known = {.stamp = {0}};

	if (!cursor_left(at))
		return false;
	known.file = take_file(at);
	known.build_id.len = cursor_u8(at);
	known.has_code_alone = cursor_u8(at) & 1;
	cursor_u16(at);
	cursor_copy(at, known.build_id.bytes, sizeof(known.build_id.bytes));
	if (at->bad || known.build_id.len > ELF_ID_MAX_BYTES)
		return false;
	if (!known.build_id.len) {
		memcpy(&known.stamp, known.build_id.bytes, sizeof(known.stamp));
		memset(known.build_id.bytes, 0, sizeof(known.build_id.bytes));
	}
	if (is_of_copy(&known.build_id)) {
		known.copy_id = known.build_id;
		known.build_id = (struct elf_id){0};
	}
	*ret = known;
	return true;
}

/* The record before the path. */
struct build_id_bytes {
	struct perf_event_header header;
	int32_t pid;
	uint8_t id[BUILD_ID_MAX_BYTES];
	uint8_t id_bytes; /* counts with RECORD_MISC_BUILD_ID_SIZE in misc; else it is 20 */
	uint8_t zero[3];
};
_Static_assert(sizeof(struct build_id_bytes) == 36, "BUILD_ID record");

enum { PATH_ALIGN = 64 };

int build_id_encode(const struct build_id *id, uint32_t type, struct buf *out)
{
	size_t len = strlen(id->path);
	size_t room = (len + 1 + PATH_ALIGN - 1) & ~(size_t)(PATH_ALIGN - 1);
	struct build_id_bytes bytes = {
		.header = {.type = type, .misc = id->misc | RECORD_MISC_BUILD_ID_SIZE},
		.pid = id->pid,
		.id_bytes = id->id_bytes,
	};

	if (id->id_bytes > sizeof(bytes.id) || sizeof(bytes) + room > RECORD_MAX_BYTES)
		return -EINVAL;
	bytes.header.size = (uint16_t)(sizeof(bytes) + room);
	memcpy(bytes.id, id->id, id->id_bytes);
	buf_put(out, &bytes, sizeof(bytes));
	buf_put(out, id->path, len);
	buf_extend(out, room - len);
	return out->failed ? -ENOMEM : 0;
}

int build_id_decode(struct cursor *at, struct build_id *ret)
{
	struct build_id_bytes bytes;

	if (!cursor_left(at) && !at->bad)
		return 0;
	cursor_copy(at, &bytes, sizeof(bytes));
	if (at->bad || bytes.header.size < sizeof(bytes))
		return -EBADMSG;
	const char *path = cursor_string(at, bytes.header.size - sizeof(bytes));
	bool sized = bytes.header.misc & RECORD_MISC_BUILD_ID_SIZE;
	if (!path || (sized && bytes.id_bytes > sizeof(bytes.id)))
		return -EBADMSG;
	*ret = (struct build_id){
		.misc = bytes.header.misc & ~RECORD_MISC_BUILD_ID_SIZE,
		.pid = bytes.pid,
		.id_bytes = sized ? bytes.id_bytes : BUILD_ID_MAX_BYTES,
		.path = path,
	};
	memcpy(ret->id, bytes.id, ret->id_bytes);
	return 1;
}

bool path_is_jitdump(const char *path)
{
	const char *slash = strrchr(path, '/');
	int pid, len = 0;

	/* Nearly all names end here: sscanf(3) is slow. */
	return slash && slash[1] == 'j' && sscanf(slash, "/jit-%d.dump%n", &pid, &len) == 1 && len &&
	       slash[len] == '\0';
}
