/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/elf_section.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "compress/zstd.h"

struct elf_piece {
	struct elf_piece *next;
	uint8_t bytes[];
};

static bool is_named(const char *its, const char *name)
{
	return its && (strcmp(its, name) == 0 || (strncmp(its, ".z", 2) == 0 && strcmp(its + 2, name + 1) == 0));
}

/* Source: gABI, "Section Compression"; libelf 0.188 does not know the number. */
enum { COMPRESSED_BY_ZSTD = 2 };

/* No debug information is so much smaller: the same limit as of zlib's format, which libelf holds. */
enum { MAX_COMPRESSION = 1032 };

/* false: another compression, or it cannot be unpacked. */
static bool unpack_zstd(Elf *elf, Elf_Scn *scn, struct elf_section *section)
{
	struct zstd_unpacker *unpacker = NULL;
	GElf_Chdr header;
	const Elf_Data *packed = NULL;

	if (!gelf_getchdr(scn, &header) || header.ch_type != COMPRESSED_BY_ZSTD)
		return false;
	packed = elf_rawdata(scn, NULL);
	size_t header_bytes = gelf_fsize(elf, ELF_T_CHDR, 1, EV_CURRENT);
	if (!packed || packed->d_size <= header_bytes || header.ch_size / MAX_COMPRESSION > packed->d_size)
		return false;
	AUTO_FREE void *bytes = malloc(header.ch_size);
	if (!bytes || zstd_unpacker_new(&unpacker))
		return false;
	struct span frame = {(const uint8_t *)packed->d_buf + header_bytes, packed->d_size - header_bytes};
	int64_t len = zstd_unpack_frame(unpacker, frame, bytes, header.ch_size);
	zstd_unpacker_free(unpacker);
	if (len <= 0 || (uint64_t)len != header.ch_size)
		return false;
	section->len = (uint64_t)len;
	section->bytes = take_ptr(bytes);
	section->whole = (struct span){section->bytes, section->len};
	return true;
}

/* false: it cannot be unpacked. */
static bool unpack(Elf *elf, Elf_Scn *scn, bool is_gnu, struct elf_section *section)
{
	GElf_Shdr header;

	if (!is_gnu && unpack_zstd(elf, scn, section))
		return true;
	if ((is_gnu ? elf_compress_gnu(scn, 0, 0) : elf_compress(scn, 0, 0)) < 0 || !gelf_getshdr(scn, &header))
		return false;
	section->len = header.sh_size;
	return true;
}

struct elf_section elf_section_find(Elf *elf, int fd, const char *name)
{
	Elf_Scn *scn = NULL;
	size_t names;

	while (!elf_getshdrstrndx(elf, &names) && (scn = elf_nextscn(elf, scn))) {
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
		bool packed = header.sh_flags & SHF_COMPRESSED || its[1] == 'z';
		struct elf_section section = {.len = header.sh_size, .scn = scn, .fd = -1, .offset = header.sh_offset};
		if (!packed)
			section.fd = fd;
		else if (!unpack(elf, scn, its[1] == 'z', &section))
			break;
		return section;
	}
	return (struct elf_section){.fd = -1};
}

void elf_section_fini(struct elf_section *section)
{
	while (section->pieces) {
		struct elf_piece *piece = section->pieces;
		section->pieces = piece->next;
		free(piece);
	}
	free(section->bytes);
	*section = (struct elf_section){.fd = -1};
}

struct span elf_section_whole(struct elf_section *section)
{
	if (section->whole.len || !section->len)
		return section->whole;
	if (section->fd < 0) {
		const Elf_Data *data = elf_getdata(section->scn, NULL);
		if (data && data->d_buf)
			section->whole = (struct span){data->d_buf, data->d_size};
	} else {
		AUTO_FREE void *bytes = section->len <= SIZE_MAX ? malloc(section->len) : NULL;
		if (bytes && fd_pread(section->fd, bytes, section->len, section->offset) == 0) {
			section->bytes = take_ptr(bytes);
			section->whole = (struct span){section->bytes, section->len};
		}
	}
	section->len = section->whole.len;
	return section->whole;
}

/* A section of which more than that is wanted is read at once. */
enum { READ_WHOLE_BYTES = 256 * 1024 };

struct span elf_section_part(struct elf_section *section, uint64_t offset, uint64_t len)
{
	if (section->fd < 0 || section->len <= READ_WHOLE_BYTES)
		elf_section_whole(section);
	if (!len || offset > section->len || len > section->len - offset)
		return (struct span){0};
	if (section->whole.len)
		return (struct span){(const uint8_t *)section->whole.ptr + offset, len};
	struct elf_piece *piece = malloc(sizeof(*piece) + len);
	if (!piece || fd_pread(section->fd, piece->bytes, len, section->offset + offset)) {
		free(piece);
		return (struct span){0};
	}
	piece->next = section->pieces;
	section->pieces = piece;
	return (struct span){piece->bytes, len};
}

uint64_t elf_section_peek(struct elf_section *section, uint64_t offset, void *ret, uint64_t len)
{
	if (section->fd < 0 || section->len <= READ_WHOLE_BYTES)
		elf_section_whole(section);
	if (offset >= section->len)
		return 0;
	if (len > section->len - offset)
		len = section->len - offset;
	if (section->whole.len)
		memcpy(ret, (const uint8_t *)section->whole.ptr + offset, len);
	else if (fd_pread(section->fd, ret, len, section->offset + offset))
		return 0;
	return len;
}

const char *elf_section_text(struct elf_section *section, uint64_t offset)
{
	struct span whole = elf_section_whole(section);

	if (offset >= whole.len)
		return NULL;
	const char *text = (const char *)whole.ptr + offset;
	bool ends = ((const char *)whole.ptr)[whole.len - 1] == '\0';
	return ends || memchr(text, '\0', whole.len - offset) ? text : NULL;
}
