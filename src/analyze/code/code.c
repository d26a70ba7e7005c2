/* SPDX-License-Identifier: MIT */
#include "analyze/code/code.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/symbols/dso.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "sysinfo/elf_file.h"

void code_fini(struct code *code)
{
	for (size_t i = 0; i < code->nr; i++)
		free(code->all[i].text);
	free(code->all);
	*code = (struct code){0};
}

size_t code_find(const struct code *code, uint64_t address)
{
	const size_t behind = partition_point(code->nr, i, code->all[i].address <= address);
	return behind ? behind - 1 : code->nr;
}

/* The segment of a file that has that offset, or, of memory, that address. false: none. */
static bool find_segment(Elf *elf, uint64_t at, bool by_address, GElf_Phdr *ret)
{
	size_t nr;

	if (elf_getphdrnum(elf, &nr))
		return false;
	for (size_t i = 0; i < nr && i <= INT32_MAX; i++) {
		if (!gelf_getphdr(elf, (int)i, ret) || ret->p_type != PT_LOAD)
			continue;
		uint64_t first = by_address ? ret->p_vaddr : ret->p_offset;
		if (at >= first && at - first < ret->p_filesz)
			return true;
	}
	return false;
}

static int read_bytes(int fd, uint64_t offset, uint8_t *to, size_t len, struct diag *reterr)
{
	ssize_t got = pread(fd, to, len, (off_t)offset);

	if (got != (ssize_t)len)
		return diag_set(reterr, got < 0 ? -errno : -ENODATA, "its code cannot be read: %s",
				got < 0 ? strerror(errno) : "the file is too short");
	return 0;
}

/* The bytes of a function from an open ELF file, into `bytes` and `buffer`. */
static int read_from(int fd, bool memory, const struct symbol *symbol, size_t len, uint8_t *buffer,
		     struct code_bytes *bytes, struct diag *reterr)
{
	Elf *elf = elf_file_begin(fd);
	GElf_Phdr segment;
	GElf_Ehdr header;
	bool found = elf && gelf_getehdr(elf, &header) && find_segment(elf, symbol->start, memory, &segment);

	elf_end(elf);
	if (!found)
		return diag_set(reterr, -ENOENT, "its code is in no segment of the file");
	uint64_t into = symbol->start - (memory ? segment.p_vaddr : segment.p_offset);
	if (len > segment.p_filesz - into)
		len = (size_t)(segment.p_filesz - into);
	*bytes = (struct code_bytes){buffer, len, symbol->start, segment.p_vaddr + into, header.e_machine};
	return read_bytes(fd, segment.p_offset + into, buffer, len, reterr);
}

/*
 * The running kernel's code is in no file that is surely there, but in its memory: /proc/kcore, an ELF file for root.
 * Only of this boot: after another one the kernel may lie elsewhere.
 */
static int open_code(const struct dso *dso, const struct code_options *options, bool *ret_memory, struct diag *reterr)
{
	const char *symfs = options->symfs ? options->symfs : "";
	int fd;

	*ret_memory = dso->kind == DSO_KERNEL;
	if (*ret_memory && !(dso->table && dso->table->of_this_boot))
		return diag_set(reterr, -ENOENT, "the kernel that was recorded is not the one that runs now");
	if (*ret_memory) {
		fd = options->kernel_fd >= 0 ? fcntl(options->kernel_fd, F_DUPFD_CLOEXEC, 0) : -1;
		return fd >= 0 ? fd
			       : diag_set(reterr, -EACCES,
					  "/proc/kcore, which has the code of the kernel, is missing, or can only be "
					  "read by root");
	}
	if (dso->kind == DSO_MODULE)
		return diag_set(reterr, -ENOTSUP, "the code of kernel modules is not read");
	if (dso->kind != DSO_FILE && dso->kind != DSO_VDSO)
		return diag_set(reterr, -ENOENT, "%s is generated code, which is in no file", dso_short_name(dso));
	fd = dso_open(dso, symfs, DSO_RUNTIME);
	return fd >= 0 ? fd
		       : diag_set(reterr, -ENOENT,
				  "%s was removed or replaced since it was recorded, or was in another mount namespace",
				  dso_long_name(dso));
}

int code_read(const struct dso *dso, const struct symbol *symbol, const struct code_options *options, struct code *ret,
	      struct diag *reterr)
{
	uint64_t size = symbol->end > symbol->start ? symbol->end - symbol->start : 0;
	size_t len = size < CODE_MAX_BYTES ? (size_t)size : CODE_MAX_BYTES;
	AUTO_FREE uint8_t *buffer = malloc(len + 1);
	struct code_bytes bytes;
	struct code code = {.cut = size > len};
	bool memory;

	if (!buffer)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (!len || symbol->by_name)
		return diag_set(reterr, -ENOENT, "it has no fixed address, or no known length");
	AUTO_FD int fd = open_code(dso, options, &memory, reterr);
	if (fd < 0)
		return fd;
	int err = read_from(fd, memory, symbol, len, buffer, &bytes, reterr);
	if (!err)
		err = code_decode(&bytes, options->syntax, &code, reterr);
	if (err) {
		code_fini(&code);
		return err;
	}
	*ret = code;
	return 0;
}
