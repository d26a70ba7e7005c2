/* SPDX-License-Identifier: MIT */
#include "unwind/elf_cfi.h"

#include <dwarf.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "sysinfo/elf_file.h"
#include "unwind/debug_file.h"

enum {
	MOST_NAME_BYTES = 1 << 20,   /* of the names of all sections */
	MOST_EXTRA_BYTES = 16 << 20, /* of code of linkers: stubs for a million functions */
};

/* In which the sections of a table lie. */
struct elf_files {
	Elf *object, *debug; /* debug: its file of debug information; NULL: none */
};

void elf_cfi_close(struct elf_cfi *elf)
{
	AUTO_FREE struct elf_files *files = take_ptr(elf->owned);

	if (!files)
		return;
	elf_end(files->object);
	elf_end(files->debug);
}

void elf_cfi_release(void *owned)
{
	struct elf_cfi elf = {.owned = owned};

	elf_cfi_close(&elf);
}

static bool read_segments(Elf *elf, struct table_source *source)
{
	size_t nr;

	if (elf_getphdrnum(elf, &nr))
		return false;
	for (size_t i = 0; i < nr && source->nr_segments < TABLE_MAX_SEGMENTS; i++) {
		GElf_Phdr load;
		uint64_t end;
		if (!gelf_getphdr(elf, (int)i, &load) || load.p_type != PT_LOAD || !(load.p_flags & PF_X) ||
		    !load.p_filesz || __builtin_add_overflow(load.p_vaddr, load.p_filesz, &end) ||
		    __builtin_add_overflow(load.p_offset, load.p_filesz, &end))
			continue;
		source->segments[source->nr_segments++] =
			(struct table_segment){load.p_offset, load.p_filesz, load.p_vaddr};
	}
	return source->nr_segments;
}

/* Bytes of the file. They live as long as `elf`. 0 or -errno. */
static int read_bytes(Elf *elf, uint64_t offset, uint64_t bytes, struct span *ret)
{
	if (bytes > CFI_SECTION_MAX_BYTES)
		return -EFBIG;
	if (offset > INT64_MAX)
		return -ENOENT;
	const Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)offset, bytes, ELF_T_BYTE);
	if (!data || !data->d_buf || !data->d_size)
		return -ENOENT;
	*ret = (struct span){data->d_buf, data->d_size};
	return 0;
}

/* Compressed ones, too: Go does that. 0 or -errno. */
static int read_section(Elf *elf, Elf_Scn *scn, const GElf_Shdr *header, struct span *ret)
{
	GElf_Chdr compressed;

	if (!(header->sh_flags & SHF_COMPRESSED))
		return read_bytes(elf, header->sh_offset, header->sh_size, ret);
	if (header->sh_size > CFI_SECTION_MAX_BYTES || !gelf_getchdr(scn, &compressed) ||
	    compressed.ch_size > CFI_SECTION_MAX_BYTES)
		return -EFBIG;
	const Elf_Data *data = elf_compress(scn, 0, 0) < 0 ? NULL : elf_rawdata(scn, NULL);
	if (!data || !data->d_buf || !data->d_size)
		return -ENOENT;
	*ret = (struct span){data->d_buf, data->d_size};
	return 0;
}

struct found {
	Elf_Scn *eh_frame, *debug_frame, *symbols;
	bool is_go;
};

static void note_extra(struct table_source *source, uint64_t file_bytes, const char *name, const GElf_Shdr *header)
{
	bool is_plt = !strcmp(name, ".plt"), is_stub = !strcmp(name, ".plt.got") || !strcmp(name, ".plt.sec");

	if (header->sh_size > MOST_EXTRA_BYTES || header->sh_offset > file_bytes ||
	    header->sh_size > file_bytes - header->sh_offset)
		return;
	if ((is_plt || is_stub) && header->sh_flags & SHF_EXECINSTR &&
	    source->nr_extras < sizeof(source->extras) / sizeof(source->extras[0]))
		source->extras[source->nr_extras++] = (struct table_extra){
			header->sh_addr, header->sh_addr + header->sh_size, is_plt ? EXTRA_PLT : EXTRA_STUB};
}

static void find_sections(Elf *elf, uint64_t file_bytes, struct table_source *source, struct found *ret)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr header;
	size_t names;

	/* libelf reads all names at once, and unpacks them where they are compressed. */
	if (elf_getshdrstrndx(elf, &names) || !gelf_getshdr(elf_getscn(elf, names), &header) ||
	    header.sh_size > MOST_NAME_BYTES || header.sh_flags & SHF_COMPRESSED)
		return;
	while ((scn = elf_nextscn(elf, scn))) {
		if (!gelf_getshdr(scn, &header) || header.sh_type == SHT_NOBITS || !header.sh_size)
			continue;
		const char *name = elf_strptr(elf, names, header.sh_name);
		if (!name)
			continue;
		if (!strcmp(name, ".eh_frame"))
			ret->eh_frame = scn;
		else if (!strcmp(name, ".debug_frame"))
			ret->debug_frame = scn;
		else if (header.sh_type == SHT_SYMTAB)
			ret->symbols = scn;
		else if (!strcmp(name, ".gopclntab") || !strcmp(name, ".data.rel.ro.gopclntab"))
			ret->is_go = true;
		else
			note_extra(source, file_bytes, name, &header);
	}
}

/* Where the program header says that .eh_frame begins; it has a mark at its end. 0 or -errno. */
static int read_by_program_header(Elf *elf, uint64_t file_bytes, struct cfi_section *section)
{
	struct {
		uint8_t version, encoding, count_encoding, table_encoding;
		int32_t eh_frame; /* relative to this field */
	} header;
	size_t nr;
	uint64_t address = 0;
	bool found = false;
	GElf_Phdr load;
	struct span bytes;

	if (elf_getphdrnum(elf, &nr))
		return -ENOENT;
	for (size_t i = 0; i < nr && !found; i++) {
		if (!gelf_getphdr(elf, (int)i, &load) || load.p_type != PT_GNU_EH_FRAME ||
		    load.p_filesz < sizeof(header) || read_bytes(elf, load.p_offset, sizeof(header), &bytes) ||
		    bytes.len < sizeof(header))
			continue;
		memcpy(&header, bytes.ptr, sizeof(header));
		found = header.version == 1 && header.encoding == (DW_EH_PE_pcrel | DW_EH_PE_sdata4);
		address = load.p_vaddr + 4 + (uint64_t)(int64_t)header.eh_frame;
	}
	for (size_t i = 0; i < nr && found; i++) {
		if (!gelf_getphdr(elf, (int)i, &load) || load.p_type != PT_LOAD || address < load.p_vaddr ||
		    address - load.p_vaddr >= load.p_filesz)
			continue;
		uint64_t offset = address - load.p_vaddr, left = load.p_filesz - offset;
		if (__builtin_add_overflow(offset, load.p_offset, &offset) || offset >= file_bytes)
			return -ENOENT;
		left = left < file_bytes - offset ? left : file_bytes - offset;
		section->is_eh_frame = true;
		section->address = address;
		return read_bytes(elf, offset, left < CFI_SECTION_MAX_BYTES ? left : CFI_SECTION_MAX_BYTES,
				  &section->bytes);
	}
	return -ENOENT;
}

/* On the heap, not as libelf keeps it. NULL: out of memory, or it cannot be read. */
static void *read_whole(int fd, const GElf_Shdr *header)
{
	enum { MOST_BYTES = 64 << 20 };
	AUTO_FREE void *bytes = header->sh_size <= MOST_BYTES ? malloc(header->sh_size + 1) : NULL;

	if (!bytes || header->sh_offset > INT64_MAX ||
	    pread(fd, bytes, header->sh_size, (off_t)header->sh_offset) != (ssize_t)header->sh_size)
		return NULL;
	((char *)bytes)[header->sh_size] = 0;
	return take_ptr(bytes);
}

/*
 * Functions of Go's runtime that switch to another stack, of which its call frame information says nothing; and the one
 * that it names as the caller of what runs on a goroutine's stack while that is switched.
 */
static void note_go_function(struct table_source *source, const char *name, const Elf64_Sym *symbol)
{
	static const struct {
		const char *name;
		int kind;
	} functions[] = {
		{"runtime.systemstack", EXTRA_SWITCH_AND_RETURN},
		{"runtime.asmcgocall", EXTRA_SWITCH_AND_RETURN},
		{"runtime.nanotime1", EXTRA_SWITCH_AND_RETURN},
		{"runtime.walltime", EXTRA_SWITCH_AND_RETURN},
		{"time.now", EXTRA_SWITCH_AND_RETURN},
		{"runtime.asmcgocall_no_g", EXTRA_SWITCH},
		{"runtime.mcall", EXTRA_SWITCH},
		{"runtime.morestack", EXTRA_SWITCH},
		{"runtime.systemstack_switch", EXTRA_ENTRY},
	};
	const uint64_t start = symbol->st_value;
	uint64_t end;

	if ((name[0] != 'r' && name[0] != 't') || __builtin_add_overflow(start, symbol->st_size, &end) || end <= start)
		return;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		const size_t len = strlen(functions[i].name);
		if (strncmp(name, functions[i].name, len) != 0 || (name[len] && strcmp(name + len, ".abi0") != 0) ||
		    source->nr_extras == TABLE_MAX_EXTRAS)
			continue;
		const bool is_entry = functions[i].kind == EXTRA_ENTRY;
		source->extras[source->nr_extras++] =
			(struct table_extra){start - is_entry, is_entry ? start : end, functions[i].kind};
	}
}

static void find_go_functions(int fd, Elf *elf, Elf_Scn *symbols, struct table_source *source)
{
	GElf_Shdr header, names_header;

	if (!gelf_getshdr(symbols, &header) || !gelf_getshdr(elf_getscn(elf, header.sh_link), &names_header))
		return;
	AUTO_FREE Elf64_Sym *all = read_whole(fd, &header);
	AUTO_FREE char *names = read_whole(fd, &names_header);
	for (size_t i = 0; all && names && i < header.sh_size / sizeof(*all); i++)
		if (all[i].st_name < names_header.sh_size && ELF64_ST_TYPE(all[i].st_info) == STT_FUNC)
			note_go_function(source, names + all[i].st_name, &all[i]);
}

/*
 * In many a program whose compiler has made a .debug_frame, .eh_frame has _start and the PLT alone. err: of reading
 * that. 0 or -errno.
 */
static int add_debug_frame(Elf *elf, Elf_Scn *scn, const GElf_Shdr *header, struct table_source *source, int err)
{
	struct cfi_section *debug_frame = err ? &source->section : &source->more;

	debug_frame->is_eh_frame = false;
	debug_frame->address = header->sh_addr;
	debug_frame->arch = source->section.arch;
	const int debug_err = read_section(elf, scn, header, &debug_frame->bytes);
	return err ? debug_err : 0;
}

/* Likewise, of the file of debug information that belongs to the object; its addresses are the same. */
static int add_other_debug_frame(int fd, struct elf_files *files, struct table_source *source, int err)
{
	GElf_Ehdr object, debug;
	GElf_Shdr header;
	AUTO_FD int debug_fd = debug_file_open(fd, files->object);

	if (debug_fd < 0)
		return err;
	files->debug = elf_file_begin(debug_fd);
	if (!files->debug || !gelf_getehdr(files->debug, &debug) || !gelf_getehdr(files->object, &object) ||
	    memcmp(debug.e_ident, object.e_ident, EI_VERSION) || debug.e_machine != object.e_machine)
		return err;
	Elf_Scn *scn = elf_file_section(files->debug, ".debug_frame", &header);
	if (!scn || header.sh_type == SHT_NOBITS || !header.sh_size)
		return err;
	return add_debug_frame(files->debug, scn, &header, source, err);
}

/* 0 or -errno. */
static int read_cfi(int fd, struct elf_files *files, uint64_t file_bytes, struct table_source *source)
{
	Elf *elf = files->object;
	struct cfi_section *section = &source->section;
	struct found found = {0};
	GElf_Shdr header;
	int err = -ENOENT;

	find_sections(elf, file_bytes, source, &found);
	source->keeps_fp = found.is_go;
	if (found.is_go && found.symbols)
		find_go_functions(fd, elf, found.symbols, source);
	if (found.eh_frame && gelf_getshdr(found.eh_frame, &header)) {
		section->is_eh_frame = true;
		section->address = header.sh_addr;
		err = read_section(elf, found.eh_frame, &header, &section->bytes);
	} else {
		err = read_by_program_header(elf, file_bytes, section);
	}
	if (!found.debug_frame)
		return add_other_debug_frame(fd, files, source, err);
	return gelf_getshdr(found.debug_frame, &header) ? add_debug_frame(elf, found.debug_frame, &header, source, err)
							: err;
}

/*
 * What signal handlers return to, of a libc without CFI of it. One byte less: of a caller the byte before its return
 * address is looked up, and no handler was called from there.
 */
static void find_trampoline(Elf *elf, int fd, struct table_source *source)
{
	uint64_t offset;

	if (source->nr_extras == TABLE_MAX_EXTRAS || !elf_file_trampoline(elf, fd, &offset))
		return;
	for (unsigned i = 0; i < source->nr_segments; i++) {
		const struct table_segment *segment = &source->segments[i];
		if (offset - segment->offset >= segment->bytes)
			continue;
		const uint64_t address = offset - segment->offset + segment->address;
		source->extras[source->nr_extras++] =
			(struct table_extra){address - 1, address + ELF_TRAMPOLINE_BYTES, EXTRA_SIGNAL};
		return;
	}
}

/*
 * Where the kernel starts the program, or its loader: in glibc's up to 2.37 nothing describes it, nor what follows,
 * which calls the constructors.
 */
static void note_start(struct table_source *source, uint64_t entry)
{
	enum { START_BYTES = 64 };

	for (unsigned i = 0; i < source->nr_segments && entry && source->nr_extras < TABLE_MAX_EXTRAS; i++) {
		const struct table_segment *segment = &source->segments[i];
		const uint64_t offset = entry - segment->address;
		if (offset >= segment->bytes)
			continue;
		const uint64_t left = segment->bytes - offset;
		source->extras[source->nr_extras++] =
			(struct table_extra){entry, entry + (left < START_BYTES ? left : START_BYTES), EXTRA_START};
		return;
	}
}

int elf_cfi_open(int fd, struct elf_cfi *ret, struct diag *reterr)
{
	struct table_source *source = &ret->source;
	struct stat file;
	GElf_Ehdr header;

	if (fstat(fd, &file))
		return -errno;
	if (!S_ISREG(file.st_mode))
		return diag_set(reterr, -ENOEXEC, "not a regular file");
	struct elf_files *files = ret->owned = calloc(1, sizeof(*files));
	if (!files)
		return -ENOMEM;
	Elf *elf = files->object = elf_file_begin(fd);
	if (!elf || !gelf_getehdr(elf, &header) || header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    header.e_ident[EI_DATA] != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB) ||
	    header.e_machine != source->section.arch->elf_machine || !read_segments(elf, source))
		return diag_set(reterr, -ENOEXEC, "no executable ELF file of %s", source->section.arch->name);
	int err = read_cfi(fd, files, (uint64_t)file.st_size, source);
	if (!err || err == -ENOENT)
		find_trampoline(elf, fd, source);
	if (err == -ENOENT && source->nr_extras)
		err = 0;
	if (!err)
		note_start(source, header.e_entry);
	if (err == -EFBIG)
		return diag_set(reterr, err, "more than %d MB of unwind information", CFI_SECTION_MAX_BYTES >> 20);
	return err ? diag_set(reterr, err, "no unwind information") : 0;
}
