/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/elf_section.h"

#include <endian.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "compress/zlib_unpacker.h"
#include "compress/zstd.h"
#include "sysinfo/elf_file.h"

struct elf_piece {
	struct elf_piece *next;
	uint8_t bytes[];
};

static bool is_named(const char *its, const char *name)
{
	return its && (strcmp(its, name) == 0 || (strncmp(its, ".z", 2) == 0 && strcmp(its + 2, name + 1) == 0));
}

/* Source: gABI, "Section Compression"; libelf 0.188 does not know the last one. */
enum { COMPRESSED_BY_ZLIB = 1, COMPRESSED_BY_ZSTD = 2 };

enum {
	MAX_COMPRESSION = 1032,   /* of zlib's format; no debug information is so much smaller */
	COUNTED_COMPRESSION = 32, /* debug information of compilers is mostly 2 to 6 times smaller */
	UNPACK_STEP = 256 * 1024  /* bytes, of the result */
};

/* Containers may have any files. .debug_info of chromium, the longest known, has 3 GB. */
static const uint64_t most_bytes = UINT64_C(4) << 30;

/* What a compressed section has in front; of .zdebug_info and others: "ZLIB", and the size as the GNU tools write it.
 */
static const char gnu_magic[4] = "ZLIB";

/* Unpacked as far as it was needed. */
struct elf_packed {
	struct span bytes; /* libelf's */
	unsigned type;
	struct zlib_unpacker *zlib; /* of COMPRESSED_BY_ZLIB; NULL: not yet */
	uint64_t done;              /* bytes of the result; of zlib always whole steps, or all, so that it is */
	bool failed;                /* not to be seen who asked for which part; no more can be unpacked */
};

static bool read_packed_header(Elf *elf, Elf_Scn *scn, bool is_gnu, struct elf_packed *packed, uint64_t *ret_len)
{
	const Elf_Data *data = elf_file_raw_data(scn);
	uint64_t header_bytes = sizeof(gnu_magic) + sizeof(uint64_t), len;
	GElf_Chdr header;

	if (!data || !data->d_buf)
		return false;
	if (is_gnu) {
		if (data->d_size < header_bytes || memcmp(data->d_buf, gnu_magic, sizeof(gnu_magic)) != 0)
			return false;
		memcpy(&len, (const uint8_t *)data->d_buf + sizeof(gnu_magic), sizeof(len));
		len = be64toh(len);
		packed->type = COMPRESSED_BY_ZLIB;
	} else {
		header_bytes = gelf_fsize(elf, ELF_T_CHDR, 1, EV_CURRENT);
		if (!gelf_getchdr(scn, &header))
			return false;
		len = header.ch_size;
		packed->type = header.ch_type;
	}
	if (data->d_size <= header_bytes || len / MAX_COMPRESSION > data->d_size || len > most_bytes)
		return false;
	packed->bytes = (struct span){(const uint8_t *)data->d_buf + header_bytes, data->d_size - header_bytes};
	*ret_len = len;
	return true;
}

static bool is_known_compression(unsigned type)
{
	return type == COMPRESSED_BY_ZLIB || type == COMPRESSED_BY_ZSTD;
}

/* Nothing is unpacked yet. false: another compression, or no memory. */
static bool open_packed(Elf *elf, Elf_Scn *scn, bool is_gnu, struct elf_section *section)
{
	struct elf_packed *packed = calloc(1, sizeof(*packed));

	if (packed && read_packed_header(elf, scn, is_gnu, packed, &section->len) && is_known_compression(packed->type))
		section->bytes = malloc(section->len);
	if (!section->bytes) {
		free(packed);
		return false;
	}
	section->packed = packed;
	return true;
}

static void unpack_zstd(struct elf_section *section)
{
	struct elf_packed *packed = section->packed;
	struct zstd_unpacker *unpacker = NULL;

	if (zstd_unpacker_new(&unpacker))
		return;
	int64_t len = zstd_unpack_frame(unpacker, packed->bytes, section->bytes, section->len);
	zstd_unpacker_free(unpacker);
	packed->done = len > 0 && (uint64_t)len == section->len ? section->len : 0;
}

/* The next step of a section that is compressed by zlib. */
static void unpack_step(struct elf_section *section)
{
	struct elf_packed *packed = section->packed;
	const uint64_t left = section->len - packed->done, step = left < UNPACK_STEP ? left : UNPACK_STEP;

	if (!packed->zlib)
		packed->zlib = zlib_unpacker_new(packed->bytes, ZLIB_UNPACK_BEST);
	uint64_t got = packed->zlib ? zlib_unpack(packed->zlib, (uint8_t *)section->bytes + packed->done, step) : 0;
	packed->done += got;
	packed->failed = got < step;
	if (packed->done == section->len && !zlib_unpack_is_complete(packed->zlib)) {
		packed->failed = true;
		packed->done = 0;
	}
}

/* false: it is not all there. */
static bool unpack_until(struct elf_section *section, uint64_t end)
{
	struct elf_packed *packed = section->packed;

	if (end <= packed->done)
		return true;
	if (packed->type == COMPRESSED_BY_ZSTD)
		unpack_zstd(section);
	else
		while (packed->done < end && !packed->failed)
			unpack_step(section);
	if (end <= packed->done)
		return true;
	section->len = packed->done; /* it is damaged */
	return false;
}

/*
 * Not the last of several steps: only that shows whether the checksum is right, and without one that is wrong the parts
 * before it count.
 */
bool elf_section_unpack_ahead(struct elf_section *section, uint64_t most)
{
	const struct elf_packed *packed = section->packed;

	if (!packed || packed->type != COMPRESSED_BY_ZLIB || packed->failed || packed->done == section->len)
		return false;
	const uint64_t next = packed->done + UNPACK_STEP;
	if (next > most || (next >= section->len && packed->done))
		return false;
	unpack_step(section);
	return true;
}

struct elf_section elf_section_find(Elf *elf, int fd, const char *name, Elf_Scn *behind)
{
	Elf_Scn *scn = behind;
	size_t names;

	while (!elf_file_names(elf, &names) && (scn = elf_nextscn(elf, scn))) {
		GElf_Shdr header;
		const char *its = gelf_getshdr(scn, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
		if (!is_named(its, name))
			continue;
		if (header.sh_type == SHT_NOBITS)
			break;
		struct stat status;
		if (fd >= 0 && (fstat(fd, &status) || header.sh_offset > (uint64_t)status.st_size ||
				header.sh_size > (uint64_t)status.st_size - header.sh_offset))
			break;
		struct elf_section section = {.len = header.sh_size, .scn = scn, .fd = -1, .offset = header.sh_offset};
		if (!(header.sh_flags & SHF_COMPRESSED) && its[1] != 'z')
			section.fd = fd;
		else if (!open_packed(elf, scn, its[1] == 'z', &section))
			break;
		section.counted_len = section.len;
		if (section.packed && section.len / COUNTED_COMPRESSION > header.sh_size)
			section.counted_len = header.sh_size * COUNTED_COMPRESSION;
		return section;
	}
	return (struct elf_section){.fd = -1};
}

/* .plt, .plt.got, .plt.sec. A file with debug information only has their headers, too. */
unsigned elf_find_linkage(Elf *elf, struct elf_linkage ret[], unsigned room)
{
	Elf_Scn *scn = NULL;
	size_t names;
	unsigned nr = 0;

	while (nr < room && !elf_file_names(elf, &names) && (scn = elf_nextscn(elf, scn))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(scn, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
		if (!name || !(header.sh_flags & SHF_EXECINSTR) || strncmp(name, ".plt", strlen(".plt")) != 0)
			continue;
		ret[nr++] = (struct elf_linkage){header.sh_addr, header.sh_addr + header.sh_size};
	}
	return nr;
}

void elf_section_fini(struct elf_section *section)
{
	while (section->pieces) {
		struct elf_piece *piece = section->pieces;
		section->pieces = piece->next;
		free(piece);
	}
	if (section->packed)
		zlib_unpacker_free(section->packed->zlib);
	free(section->packed);
	if (section->blocks)
		munmap(section->bytes, section->mapped_len);
	else
		free(section->bytes);
	free(section->blocks);
	*section = (struct elf_section){.fd = -1};
}

/* Sections that are not compressed are read in blocks, as compilers' are long, and little of them is needed. */
enum {
	BLOCK_BYTES = 4096,
	BITS = 64,
	READ_WHOLE_BYTES = 256 * 1024, /* shorter ones are read at once */
	TEXT_BYTES = 16 * 1024         /* most names that are needed are near to others */
};

static bool has_block(const struct elf_section *section, uint64_t block)
{
	return section->blocks[block / BITS] >> block % BITS & 1;
}

/* Makes room for all of the section; memory is used for what is read. false: there is none. */
static bool make_room(struct elf_section *section)
{
	if (section->blocks)
		return true;
	if (section->len > most_bytes || section->len > SIZE_MAX / 4)
		return false;
	uint64_t *blocks = calloc(section->len / BLOCK_BYTES / BITS + 1, sizeof(*blocks));
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *bytes = blocks ? mmap(NULL, section->len, PROT_READ | PROT_WRITE, flags, -1, 0) : MAP_FAILED;
	if (bytes == MAP_FAILED) {
		free(blocks);
		return false;
	}
	madvise(bytes, section->len, MADV_NOHUGEPAGE); /* blocks are far from one another */
	section->bytes = bytes;
	section->blocks = blocks;
	section->mapped_len = section->len;
	return true;
}

/* What was not read yet, of some blocks or parts of them. false: some of it is missing. */
static bool read_blocks(struct elf_section *section, uint64_t offset, uint64_t end)
{
	const uint64_t end_block = (end + BLOCK_BYTES - 1) / BLOCK_BYTES;

	for (uint64_t block = offset / BLOCK_BYTES, next; block < end_block; block = next + 1) {
		for (next = block; next < end_block && !has_block(section, next);)
			next++;
		if (next == block)
			continue;
		const uint64_t from = block * BLOCK_BYTES;
		const uint64_t to = next * BLOCK_BYTES < section->len ? next * BLOCK_BYTES : section->len;
		if (fd_pread(section->fd, (uint8_t *)section->bytes + from, to - from, section->offset + from))
			return false;
		for (; block < next; block++)
			section->blocks[block / BITS] |= UINT64_C(1) << block % BITS;
	}
	return true;
}

struct span elf_section_whole(struct elf_section *section)
{
	if (section->whole.len || !section->len)
		return section->whole;
	if (section->packed) {
		unpack_until(section, section->len);
		section->whole = (struct span){section->bytes, section->len};
	} else if (section->fd < 0) {
		const Elf_Data *data = elf_getdata(section->scn, NULL);
		if (data && data->d_buf)
			section->whole = (struct span){data->d_buf, data->d_size};
	} else if (section->blocks) {
		if (read_blocks(section, 0, section->len))
			section->whole = (struct span){section->bytes, section->len};
	} else {
		AUTO_FREE void *bytes = section->len <= most_bytes ? malloc(section->len) : NULL;
		if (bytes && fd_pread(section->fd, bytes, section->len, section->offset) == 0) {
			section->bytes = take_ptr(bytes);
			section->whole = (struct span){section->bytes, section->len};
		}
	}
	section->len = section->whole.len;
	return section->whole;
}

struct span elf_section_part(struct elf_section *section, uint64_t offset, uint64_t len)
{
	if (!section->packed && (section->fd < 0 || section->len <= READ_WHOLE_BYTES))
		elf_section_whole(section);
	if (!len || offset > section->len || len > section->len - offset)
		return (struct span){0};
	if (section->packed && !unpack_until(section, offset + len))
		return (struct span){0};
	if (section->packed || section->whole.len)
		return (struct span){(const uint8_t *)(section->packed ? section->bytes : section->whole.ptr) + offset,
				     len};
	if (make_room(section))
		return read_blocks(section, offset, offset + len)
			       ? (struct span){(const uint8_t *)section->bytes + offset, len}
			       : (struct span){0};
	struct elf_piece *piece = malloc(sizeof(*piece) + len);
	if (!piece || fd_pread(section->fd, piece->bytes, len, section->offset + offset)) {
		free(piece);
		return (struct span){0};
	}
	piece->next = section->pieces;
	section->pieces = piece;
	return (struct span){piece->bytes, len};
}

/* Up to where the bytes are there that begin at an offset: at least `len`, or all. 0: there are none. */
static uint64_t end_of_rest(struct elf_section *section, uint64_t offset, uint64_t len)
{
	uint64_t end = len < section->len - offset ? offset + len : section->len;

	end += BLOCK_BYTES - 1 - (end - 1) % BLOCK_BYTES;
	return !read_blocks(section, offset, end) ? 0 : end < section->len ? end : section->len;
}

/* Whether all of it is in memory, or has to be since it cannot be read in part, or has a checksum. */
static bool is_whole(struct elf_section *section)
{
	return section->whole.len || section->packed || section->fd < 0 || section->len <= READ_WHOLE_BYTES ||
	       !make_room(section);
}

struct span elf_section_rest(struct elf_section *section, uint64_t offset, uint64_t len)
{
	if (offset >= section->len || !len)
		return (struct span){0};
	if (is_whole(section)) {
		const struct span all = elf_section_whole(section);
		return offset < all.len ? (struct span){(const uint8_t *)all.ptr + offset, all.len - offset}
					: (struct span){0};
	}
	const uint64_t end = end_of_rest(section, offset, len);
	return end ? (struct span){(const uint8_t *)section->bytes + offset, end - offset} : (struct span){0};
}

void elf_section_extend(struct elf_section *section, struct cursor *at, uint64_t len)
{
	if (cursor_left(at) >= len || at->bad || is_whole(section))
		return;
	const struct span rest = elf_section_rest(section, (uint64_t)(at->at - (const uint8_t *)section->bytes), len);
	if (rest.len > cursor_left(at))
		at->end = at->at + rest.len;
}

uint64_t elf_section_peek(struct elf_section *section, uint64_t offset, void *ret, uint64_t len)
{
	if (!section->packed && (section->fd < 0 || section->len <= READ_WHOLE_BYTES))
		elf_section_whole(section);
	if (offset >= section->len)
		return 0;
	if (len > section->len - offset)
		len = section->len - offset;
	if (section->packed)
		return unpack_until(section, offset + len) ? (memcpy(ret, (uint8_t *)section->bytes + offset, len), len)
							   : 0;
	if (section->whole.len)
		memcpy(ret, (const uint8_t *)section->whole.ptr + offset, len);
	else if (fd_pread(section->fd, ret, len, section->offset + offset))
		return 0;
	return len;
}

const char *elf_section_text(struct elf_section *section, uint64_t offset)
{
	const struct span *whole = &section->whole;
	size_t searched = 0;

	if (whole->len && !((const char *)whole->ptr)[whole->len - 1])
		return offset < whole->len ? (const char *)whole->ptr + offset : NULL;
	struct span rest = elf_section_rest(section, offset, TEXT_BYTES);
	while (rest.len > searched) {
		const size_t most = rest.len <= ELF_TEXT_MAX ? rest.len : ELF_TEXT_MAX + 1;
		if (most > ELF_TEXT_MAX || memchr((const char *)rest.ptr + searched, '\0', most - searched))
			return rest.ptr;
		searched = rest.len;
		rest = elf_section_rest(section, offset, searched + TEXT_BYTES);
	}
	return NULL;
}
