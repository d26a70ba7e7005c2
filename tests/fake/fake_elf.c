/* SPDX-License-Identifier: MIT */
#include "tests/fake/fake_elf.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void put(struct fake_elf *elf, const void *bytes, size_t len)
{
	if (len > FAKE_ELF_CODE - elf->at)
		len = FAKE_ELF_CODE - elf->at;
	if (len)
		memcpy(elf->bytes + elf->at, bytes, len);
	elf->at += len;
}

static void put_u32(struct fake_elf *elf, uint32_t value)
{
	put(elf, &value, sizeof(value));
}

void fake_elf_init(struct fake_elf *elf, uint16_t machine)
{
	const Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = machine,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 3,
	};
	const Elf64_Phdr segments[] = {
		{.p_type = PT_LOAD,
		 .p_flags = PF_R,
		 .p_offset = FAKE_ELF_EH_FRAME - 8,
		 .p_vaddr = FAKE_ELF_EH_FRAME - 8,
		 .p_filesz = FAKE_ELF_CODE - FAKE_ELF_EH_FRAME + 8,
		 .p_memsz = FAKE_ELF_CODE - FAKE_ELF_EH_FRAME + 8,
		 .p_align = 0x1000},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_X,
		 .p_offset = FAKE_ELF_CODE,
		 .p_vaddr = FAKE_ELF_CODE + FAKE_ELF_SHIFT,
		 .p_filesz = FAKE_ELF_CODE_BYTES,
		 .p_memsz = FAKE_ELF_CODE_BYTES,
		 .p_align = 0x1000},
		{.p_type = PT_GNU_EH_FRAME,
		 .p_flags = PF_R,
		 .p_offset = FAKE_ELF_EH_FRAME - 8,
		 .p_vaddr = FAKE_ELF_EH_FRAME - 8,
		 .p_filesz = 8,
		 .p_memsz = 8,
		 .p_align = 4},
	};

	memset(elf, 0, sizeof(*elf));
	elf->ra = machine == EM_AARCH64 ? 30 : 16;
	put(elf, &header, sizeof(header));
	put(elf, segments, sizeof(segments));
	elf->at = FAKE_ELF_EH_FRAME - 8;
	put(elf, (const uint8_t[]){1, 0x1b, 0xff, 0xff}, 4); /* relative and of 4 bytes; no table to search in */
	put_u32(elf, 4);
}

/* Ends the entry that begins there: its length, a multiple of 4. What is left is 0: DW_CFA_nop. */
static void end_entry(struct fake_elf *elf, size_t start)
{
	while ((elf->at - start) % 4)
		put(elf, "", 1);
	uint32_t len = (uint32_t)(elf->at - start - 4);
	memcpy(elf->bytes + start, &len, sizeof(len));
}

void fake_elf_cie(struct fake_elf *elf, const char *augmentation, const void *instructions, size_t len)
{
	size_t start = elf->at;

	elf->cie = start;
	put_u32(elf, 0);
	put_u32(elf, 0);
	put(elf, "\1", 1);
	put(elf, augmentation, strlen(augmentation) + 1);
	put(elf, (const uint8_t[]){1, 0x78 /* -8 */, elf->ra, 1, 0x1b /* relative, 4 bytes */}, 5);
	put(elf, instructions, len);
	end_entry(elf, start);
}

size_t fake_elf_fde(struct fake_elf *elf, uint32_t code, uint32_t bytes, const void *instructions, size_t len)
{
	size_t start = elf->at;

	put_u32(elf, 0);
	put_u32(elf, (uint32_t)(elf->at - elf->cie));
	put_u32(elf, (uint32_t)(FAKE_ELF_CODE + FAKE_ELF_SHIFT + code - elf->at));
	put_u32(elf, bytes);
	put(elf, "", 1); /* no augmentation data */
	put(elf, instructions, len);
	end_entry(elf, start);
	return start;
}

int fake_elf_open(const struct fake_elf *elf)
{
	int fd = memfd_create("fake-elf", MFD_CLOEXEC);

	if (fd >= 0 && write(fd, elf->bytes, sizeof(elf->bytes)) != (ssize_t)sizeof(elf->bytes)) {
		close(fd);
		return -1;
	}
	return fd;
}
