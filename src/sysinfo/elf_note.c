/* SPDX-License-Identifier: MIT */
#include "sysinfo/elf_note.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/span.h"
#include "sysinfo/elf_file.h"

enum {
	NOTES_MAX_BYTES = 1 << 20,
	ALL_NOTES_MAX_BYTES = 16 << 20, /* of a file: libelf keeps what it has read of it */
};

static size_t align4(size_t bytes)
{
	return (bytes + 3) & ~(size_t)3;
}

int elf_note_build_id(struct span notes, uint8_t ret[ELF_NOTE_BUILD_ID_MAX])
{
	struct cursor at = cursor_over(notes);

	while (cursor_left(&at) >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note; /* the same in both classes */

		cursor_copy(&at, &note, sizeof(note));
		const char *name = cursor_take(&at, note.n_namesz);
		cursor_take(&at, align4(note.n_namesz) - note.n_namesz);
		const uint8_t *id = cursor_take(&at, note.n_descsz);
		if (at.bad)
			return -ENOENT;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
		    !memcmp(name, "GNU", sizeof("GNU")) && note.n_descsz > 0) {
			size_t len = note.n_descsz < ELF_NOTE_BUILD_ID_MAX ? note.n_descsz : ELF_NOTE_BUILD_ID_MAX;
			memcpy(ret, id, len);
			return (int)len;
		}
		size_t pad = align4(note.n_descsz) - note.n_descsz;
		cursor_take(&at, pad < cursor_left(&at) ? pad : cursor_left(&at));
	}
	return -ENOENT;
}

/* The range of the file holds notes, maybe in the other byte order. *left: bytes that may still be read. */
static int build_id_in_range(Elf *elf, uint64_t offset, uint64_t bytes, uint64_t *left,
			     uint8_t ret[ELF_NOTE_BUILD_ID_MAX])
{
	if (bytes == 0 || bytes > NOTES_MAX_BYTES || bytes > *left || offset > INT64_MAX)
		return -ENOENT;
	*left -= bytes;
	const Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)offset, bytes, ELF_T_NHDR);

	return data ? elf_note_build_id((struct span){data->d_buf, data->d_size}, ret) : -ENOENT;
}

static int build_id_of_elf(Elf *elf, uint8_t ret[ELF_NOTE_BUILD_ID_MAX])
{
	uint64_t left = ALL_NOTES_MAX_BYTES;
	size_t nr = 0;
	int len;

	if (elf_kind(elf) != ELF_K_ELF)
		return -EINVAL;
	if (elf_getphdrnum(elf, &nr))
		nr = 0;
	for (size_t i = 0; i < nr; i++) {
		GElf_Phdr phdr;

		if (!gelf_getphdr(elf, (int)i, &phdr) || phdr.p_type != PT_NOTE)
			continue;
		len = build_id_in_range(elf, phdr.p_offset, phdr.p_filesz, &left, ret);
		if (len > 0)
			return len;
	}
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr shdr;

		if (!gelf_getshdr(section, &shdr) || shdr.sh_type != SHT_NOTE)
			continue;
		len = build_id_in_range(elf, shdr.sh_offset, shdr.sh_size, &left, ret);
		if (len > 0)
			return len;
	}
	return -ENOENT;
}

int elf_note_of_fd(int fd, uint8_t ret[ELF_NOTE_BUILD_ID_MAX])
{
	Elf *elf = elf_file_begin(fd);

	if (!elf)
		return -EINVAL;
	int len = build_id_of_elf(elf, ret);
	elf_end(elf);
	return len;
}

int elf_note_of_file(const char *path, const struct object_mapping *mapped, uint8_t ret[ELF_NOTE_BUILD_ID_MAX])
{
	AUTO_FD int fd = object_file_open(path, mapped);

	return fd < 0 ? fd : elf_note_of_fd(fd, ret);
}

int elf_note_of_process(pid_t pid, const char *path, const struct object_mapping *mapped,
			uint8_t ret[ELF_NOTE_BUILD_ID_MAX])
{
	AUTO_FD int fd = object_file_open_of_process(pid, path, mapped);

	return fd < 0 ? fd : elf_note_of_fd(fd, ret);
}

static int build_id_of_notes(const char *path, uint8_t ret[ELF_NOTE_BUILD_ID_MAX])
{
	AUTO_BUF struct buf notes = {0};
	int err = fd_slurp(path, NOTES_MAX_BYTES, &notes);

	return err ? err : elf_note_build_id(buf_span(&notes), ret);
}

int elf_note_of_kernel(uint8_t ret[ELF_NOTE_BUILD_ID_MAX])
{
	return build_id_of_notes("/sys/kernel/notes", ret);
}

int elf_note_of_module(const char *name, uint8_t ret[ELF_NOTE_BUILD_ID_MAX])
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/module/%.64s/notes/.note.gnu.build-id", name);
	return build_id_of_notes(path, ret);
}

struct span vdso_image(void)
{
	const char *image = (const char *)getauxval(AT_SYSINFO_EHDR);
	const ElfW(Ehdr) *header = (const void *)image;

	/* Its section headers stand at its end. */
	return image ? (struct span){image, header->e_shoff + (size_t)header->e_shnum * header->e_shentsize}
		     : (struct span){0};
}

int elf_note_of_vdso(uint8_t ret[ELF_NOTE_BUILD_ID_MAX])
{
	const char *image = vdso_image().ptr;
	const ElfW(Ehdr) *header = (const void *)image;

	if (!image)
		return -ENOENT;
	const ElfW(Phdr) *phdrs = (const void *)(image + header->e_phoff);
	for (unsigned i = 0; i < header->e_phnum; i++) {
		if (phdrs[i].p_type != PT_NOTE)
			continue;
		int len = elf_note_build_id((struct span){image + phdrs[i].p_offset, phdrs[i].p_filesz}, ret);
		if (len > 0)
			return len;
	}
	return -ENOENT;
}
