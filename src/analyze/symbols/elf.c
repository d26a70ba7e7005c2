/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/elf.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "analyze/dwarf/go_table.h"
#include "analyze/symbols/plt.h"
#include "analyze/symbols/symbols.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "config.h"
#include "sysinfo/elf_file.h"
#include "sysinfo/elf_note.h"
#include "sysinfo/library.h"
#include "sysinfo/object_file.h"

#ifdef HAVE_LZMA
#include <lzma.h>
#endif

bool elf_id_from_notes(const void *bytes, size_t len, struct elf_id *ret)
{
	struct elf_id id = {0};
	int id_len = elf_note_build_id((struct span){bytes, len}, id.bytes);

	if (id_len <= 0)
		return false;
	id.len = (uint8_t)id_len;
	*ret = id;
	return true;
}

bool elf_source_build_id(const struct elf_source *source, struct elf_id *ret)
{
	static const char *const sections[] = {".note.gnu.build-id", ".notes", ".note"};

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		GElf_Shdr header;
		Elf_Scn *section = elf_file_section(source->elf, sections[i], &header);
		Elf_Data *data = section && header.sh_type == SHT_NOTE ? elf_file_data(section) : NULL;
		if (data && data->d_buf && elf_id_from_notes(data->d_buf, data->d_size, ret))
			return true;
	}
	return false;
}

static int source_read_loads(struct elf_source *source)
{
	size_t nr;

	if (elf_getphdrnum(source->elf, &nr) || !nr)
		return 0;
	source->loads = calloc(nr, sizeof(*source->loads));
	if (!source->loads)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		GElf_Phdr *load = &source->loads[source->nr_loads];
		if (gelf_getphdr(source->elf, (int)i, load) && load->p_type == PT_LOAD)
			source->nr_loads++;
	}
	return 0;
}

/*
 * In a file of debug information only, the sections of code have no bytes. Such files of objcopy and llvm-objcopy also
 * have segments without bytes, whose offsets are not those in the file that runs. eu-strip keeps the segments.
 */
static void source_find_code(struct elf_source *source)
{
	const uint64_t code = SHF_ALLOC | SHF_EXECINSTR;
	size_t nr_sections = 0, nr_empty = 0;
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(source->elf, section)))
		if (gelf_getshdr(section, &header) && (header.sh_flags & code) == code) {
			nr_sections++;
			nr_empty += header.sh_type == SHT_NOBITS;
		}
	source->has_offsets = true;
	for (size_t i = 0; i < source->nr_loads; i++) {
		const GElf_Phdr *load = &source->loads[i];
		if ((load->p_flags & PF_X) && load->p_memsz && !load->p_filesz)
			source->has_offsets = false;
	}
	source->has_code = source->has_offsets && (!nr_sections || nr_empty < nr_sections);
}

/* Takes over what *source owns; also when it fails. */
static int source_read(struct elf_source *source, const struct elf_id *expect, struct elf_source *ret)
{
	GElf_Shdr header;
	struct elf_id id;
	int err = -ENOEXEC;

	if (!source->elf || elf_kind(source->elf) != ELF_K_ELF || !gelf_getehdr(source->elf, &source->header))
		goto fail;
	err = -ESTALE;
	if (expect && expect->len && (!elf_source_build_id(source, &id) || !elf_id_equal(&id, expect)))
		goto fail;
	err = source_read_loads(source);
	if (err)
		goto fail;
	source->symtab = elf_file_section(source->elf, ".symtab", &header);
	if (source->symtab && header.sh_type != SHT_SYMTAB)
		source->symtab = NULL;
	source->dynsym = elf_file_section(source->elf, ".dynsym", &header);
	if (source->dynsym && header.sh_type != SHT_DYNSYM)
		source->dynsym = NULL;
	source_find_code(source);
	*ret = *source;
	return 0;
fail:
	elf_source_close(source);
	return err;
}

int elf_source_open_fd(int fd, const struct elf_id *expect, struct elf_source *ret)
{
	if (fd < 0)
		return fd;
	struct elf_source source = {.fd = fd, .elf = elf_file_begin(fd)};
	return source_read(&source, expect, ret);
}

int elf_source_open(const char *path, const struct elf_id *expect, struct elf_source *ret)
{
	return elf_source_open_fd(object_file_open(path, NULL), expect, ret);
}

int elf_source_open_image(void *image, size_t len, const struct elf_id *expect, struct elf_source *ret)
{
	elf_version(EV_CURRENT);
	struct elf_source source = {.fd = -1, .elf = elf_memory(image, len)};
	return source_read(&source, expect, ret);
}

#ifdef HAVE_LZMA
/* Few files have what it unpacks. */
static struct {
	__typeof__(lzma_code) *code;
	__typeof__(lzma_end) *end;
	__typeof__(lzma_stream_decoder) *stream_decoder;
} lzma;

static bool lzma_loaded;

static void load_lzma(void)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(lzma_code, &lzma.code),
		LIBRARY_FUNCTION(lzma_end, &lzma.end),
		LIBRARY_FUNCTION(lzma_stream_decoder, &lzma.stream_decoder),
	};

	lzma_loaded = library_load("liblzma.so.5", functions, sizeof(functions) / sizeof(functions[0]));
}

/* false: it is not installed. Any thread. */
static bool lzma_is_here(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_lzma);
	return lzma_loaded;
}

/* 0; -EBADMSG, -ENOMEM, -ENOTSUP. */
static int unpack_xz(const Elf_Data *packed, struct buf *ret)
{
	enum { STEP_BYTES = 1 << 18 };
	lzma_stream stream = LZMA_STREAM_INIT;

	if (!lzma_is_here())
		return -ENOTSUP;
	lzma_ret state = lzma.stream_decoder(&stream, ELF_MINI_MAX_BYTES, 0);

	stream.next_in = packed->d_buf;
	stream.avail_in = packed->d_size;
	while (state == LZMA_OK && ret->len < ELF_MINI_MAX_BYTES) {
		stream.next_out = buf_room(ret, STEP_BYTES);
		if (!stream.next_out)
			break;
		stream.avail_out = STEP_BYTES;
		state = lzma.code(&stream, LZMA_FINISH);
		ret->len += STEP_BYTES - stream.avail_out;
	}
	lzma.end(&stream);
	return ret->failed ? -ENOMEM : state == LZMA_STREAM_END ? 0 : -EBADMSG;
}

int elf_source_open_mini(const struct elf_source *of, struct elf_source *ret)
{
	GElf_Shdr header;
	Elf_Scn *section = elf_file_section(of->elf, ".gnu_debugdata", &header);
	Elf_Data *packed = section && header.sh_type == SHT_PROGBITS ? elf_file_raw_data(section) : NULL;
	AUTO_BUF struct buf unpacked = {0};

	if (!packed || !packed->d_buf)
		return -ENOENT;
	int err = unpack_xz(packed, &unpacked);
	if (err)
		return err;
	struct elf_source source = {.fd = -1, .elf = elf_memory((char *)unpacked.data, unpacked.len)};
	source.unpacked = unpacked.data;
	unpacked = (struct buf){0};
	return source_read(&source, NULL, ret);
}
#else
int elf_source_open_mini(const struct elf_source *of, struct elf_source *ret)
{
	(void)of, (void)ret;
	return -ENOENT;
}
#endif

void elf_source_close(struct elf_source *source)
{
	elf_end(source->elf);
	free(source->unpacked);
	if (source->fd >= 0)
		close(source->fd);
	free(source->loads);
	*source = (struct elf_source)ELF_SOURCE_CLOSED;
}

struct elf_debuglink elf_file_debuglink(const char *path)
{
	struct elf_debuglink link = {0};
	struct elf_source source;
	GElf_Shdr header;

	if (elf_source_open(path, NULL, &source))
		return link;
	Elf_Scn *section = elf_file_section(source.elf, ".gnu_debuglink", &header);
	Elf_Data *data = section && header.sh_type != SHT_NOBITS ? elf_file_data(section) : NULL;
	const char *end = data && data->d_buf ? memchr(data->d_buf, '\0', data->d_size) : NULL;
	/* The CRC is behind the name, at the next multiple of 4 bytes. */
	size_t at = end ? ((size_t)(end - (const char *)data->d_buf) + sizeof(link.crc)) & ~(sizeof(link.crc) - 1) : 0;
	if (end && at + sizeof(link.crc) <= data->d_size) {
		link.name = strdup(data->d_buf);
		memcpy(&link.crc, (const char *)data->d_buf + at, sizeof(link.crc));
		bool is_big = source.header.e_ident[EI_DATA] == ELFDATA2MSB;
		link.crc = is_big ? be32toh(link.crc) : le32toh(link.crc);
	}
	elf_source_close(&source);
	return link;
}

bool elf_source_has_crc(const struct elf_source *source, uint32_t crc)
{
	enum { STEP_BYTES = 1 << 18 };
	AUTO_FREE void *bytes = malloc(STEP_BYTES);
	uint32_t found = 0;
	struct stat status;
	ssize_t got = 1;

	if (!bytes || fstat(source->fd, &status) || status.st_size > ELF_CRC_MAX_BYTES)
		return false;
	for (off_t at = 0; got > 0 && at < status.st_size; at += got) {
		got = pread(source->fd, bytes, STEP_BYTES, at);
		if (got > 0)
			found = (uint32_t)crc32(found, bytes, (uInt)got);
	}
	return got > 0 && found == crc;
}

/*
 * Which symbols count and where they are: as in perf 6.1, so that both print the same names and offsets. Where perf is
 * wrong it is said below.
 */

/* A symbol table that is being gone through. */
struct table {
	const struct elf_source *source;
	Elf_Data *data;
	size_t nr, names; /* symbols; index of the string section */
};

static bool table_open(const struct elf_source *source, Elf_Scn *section, struct table *ret)
{
	GElf_Shdr header;

	if (!section || !gelf_getshdr(section, &header) || !header.sh_entsize)
		return false;
	*ret = (struct table){source, elf_file_data(section), header.sh_size / header.sh_entsize, header.sh_link};
	return ret->data && elf_file_texts(source->elf, ret->names);
}

/* NULL: none, or one that is too long. */
static const char *table_name(const struct table *table, const GElf_Sym *symbol)
{
	const char *name = elf_strptr(table->source->elf, table->names, symbol->st_name);

	return name && strnlen(name, SYMBOL_NAME_MAX + 1) <= SYMBOL_NAME_MAX ? name : NULL;
}

static const char *section_name(const struct elf_source *source, const GElf_Shdr *header)
{
	size_t names;
	const char *name = NULL;

	if (!elf_file_names(source->elf, &names))
		name = elf_strptr(source->elf, names, header->sh_name);
	return name ? name : "";
}

enum symbol_class { CLASS_NONE, CLASS_SIZED /* function or object */, CLASS_LABEL };

static enum symbol_class symbol_class(const GElf_Sym *symbol)
{
	unsigned type = GELF_ST_TYPE(symbol->st_info), visibility = GELF_ST_VISIBILITY(symbol->st_other);

	if (!symbol->st_name || symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS)
		return CLASS_NONE;
	if (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_OBJECT)
		return CLASS_SIZED;
	if (type == STT_NOTYPE && visibility != STV_HIDDEN && visibility != STV_INTERNAL)
		return CLASS_LABEL;
	return CLASS_NONE;
}

static enum symbol_binding symbol_binding(const GElf_Sym *symbol)
{
	switch (GELF_ST_BIND(symbol->st_info)) {
	case STB_WEAK: return SYMBOL_WEAK;
	case STB_GLOBAL: return SYMBOL_GLOBAL;
	default: return SYMBOL_LOCAL;
	}
}

/*
 * The section a symbol is in. Debug files keep no contents (NOBITS): then the runtime file's section of that index.
 */
static bool symbol_section(const struct elf_source *from, const struct elf_source *runtime, const GElf_Sym *symbol,
			   GElf_Shdr *ret, const char **ret_name)
{
	Elf_Scn *section = elf_getscn(from->elf, symbol->st_shndx);

	if (!section || !gelf_getshdr(section, ret) || !(ret->sh_flags & SHF_ALLOC))
		return false;
	*ret_name = section_name(from, ret);
	if (ret->sh_type == SHT_NOBITS) {
		section = elf_getscn(runtime->elf, symbol->st_shndx);
		if (!section || !gelf_getshdr(section, ret))
			return false;
		*ret_name = section_name(runtime, ret);
	}
	return true;
}

/* Labels without a type count where code or data is. */
static bool label_counts(const char *section)
{
	return strstr(section, ".text") || strstr(section, ".data");
}

static uint64_t file_offset(const struct elf_source *runtime, const GElf_Shdr *section, uint64_t address)
{
	for (size_t i = 0; i < runtime->nr_loads; i++) {
		const GElf_Phdr *load = &runtime->loads[i];
		if (address >= load->p_vaddr && address - load->p_vaddr < load->p_memsz)
			return address - load->p_vaddr + load->p_offset;
	}
	return address - (section->sh_addr - section->sh_offset);
}

/*
 * "$a", "$d.3"…: marks of the ARM assemblers, no symbols. Source: ELF for the Arm Architecture, "Mapping symbols".
 */
static bool arm_mark(const struct elf_source *from, const char *name)
{
	if (from->header.e_machine != EM_ARM && from->header.e_machine != EM_AARCH64)
		return false;
	return name[0] == '$' && strchr("adtx", name[1]) && name[1] && (name[2] == '\0' || name[2] == '.');
}

/* Its names, which may lack the last NUL. false: none. */
static bool table_names(const struct table *table, struct span *ret)
{
	Elf_Scn *section = elf_getscn(table->source->elf, table->names);
	GElf_Shdr header;

	if (!section || !gelf_getshdr(section, &header) || header.sh_type != SHT_STRTAB)
		return false;
	const Elf_Data *data = elf_file_data(section);
	*ret = (struct span){data ? data->d_buf : NULL, data ? data->d_size : 0};
	return ret->ptr && ret->len;
}

/* The section that symbols are in: most are in that of the one before. */
struct symbol_place {
	GElf_Shdr header;
	unsigned index; /* SHN_UNDEF: none was looked for */
	bool found, takes_labels;
};

static void symbol_place(const struct elf_source *from, const struct elf_source *runtime, const GElf_Sym *symbol,
			 struct symbol_place *place)
{
	const char *name;

	if (place->index == symbol->st_shndx)
		return;
	place->index = symbol->st_shndx;
	place->found = symbol_section(from, runtime, symbol, &place->header, &name);
	place->takes_labels = place->found && label_counts(name);
}

static int compare_sections(const void *left, const void *right)
{
	const struct symbol_section *a = left, *b = right;

	return (a->start > b->start) - (a->start < b->start);
}

enum { PLT_ENTRY_BYTES = 16, MOST_SECTIONS = 1 << 18, MOST_RELOCATIONS = 1 << 20 };

/* Of functions that are chosen at run time: lld gives its symbols of these no size, not even where entries follow. */
static bool has_symbols_of_entries(const struct elf_source *runtime, const GElf_Shdr *section)
{
	return strcmp(section_name(runtime, section), ".iplt") == 0;
}

/* Those with bytes that are mapped, on the heap, as offsets into the file. NULL: out of memory. */
static struct symbol_section *mapped_sections(const struct elf_source *runtime, size_t *ret_nr)
{
	struct symbol_section *sections = NULL;
	size_t nr = 0, room = 0;

	*ret_nr = 0;
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(runtime->elf, section))) {
		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_ALLOC) || header.sh_type == SHT_NOBITS ||
		    !header.sh_size)
			continue;
		uint64_t start = file_offset(runtime, &header, header.sh_addr), end = start + header.sh_size;
		uint64_t step = has_symbols_of_entries(runtime, &header) ? PLT_ENTRY_BYTES : header.sh_size;
		for (; start < end; start += step) {
			if (array_room_up_to(sections, nr, room, MOST_SECTIONS)) {
				free(sections);
				return NULL;
			}
			sections[nr++] = (struct symbol_section){start, end - start < step ? end : start + step};
		}
	}
	if (nr)
		qsort(sections, nr, sizeof(*sections), compare_sections);
	*ret_nr = nr;
	return sections;
}

/* It is where another section may begin, whose code it does not name. perf gives it that. */
static bool is_end_of_code(const GElf_Shdr *section, const GElf_Sym *symbol)
{
	return (section->sh_flags & SHF_EXECINSTR) && !symbol->st_size &&
	       symbol->st_value - section->sh_addr >= section->sh_size;
}

static int load_table(struct symbols *symbols, const struct elf_source *from, Elf_Scn *section,
		      const struct elf_source *runtime)
{
	struct symbol_place place = {.index = SHN_UNDEF};
	struct table table;
	struct span names;
	uint32_t names_at;

	if (!table_open(from, section, &table) || !table_names(&table, &names))
		return 0;
	if (symbols_add_names(symbols, names.ptr, names.len, &names_at))
		return -ENOMEM;
	for (size_t i = 0; i < table.nr; i++) {
		GElf_Sym symbol;
		if (!gelf_getsym(table.data, (int)i, &symbol))
			break;
		enum symbol_class class = symbol_class(&symbol);
		if (class == CLASS_NONE || symbol.st_name >= names.len ||
		    arm_mark(from, symbols->names + names_at + symbol.st_name))
			continue;
		symbol_place(from, runtime, &symbol, &place);
		if (!place.found || (class == CLASS_LABEL && !place.takes_labels) ||
		    is_end_of_code(&place.header, &symbol))
			continue;
		if (symbols_add_named(symbols, file_offset(runtime, &place.header, symbol.st_value), symbol.st_size,
				      symbol_binding(&symbol), names_at + symbol.st_name))
			return -ENOMEM;
	}
	AUTO_FREE struct symbol_section *sections = mapped_sections(runtime, &symbols->nr_sections);
	symbols->sections = sections;
	symbols_fixup(symbols, 0);
	return 0;
}

struct plt_layout {
	uint64_t header_bytes, entry_bytes;
};

/* By the psABI documents; that of x86 is not asked for. */
static struct plt_layout plt_layout(const struct elf_source *runtime, const GElf_Shdr *plt)
{
	switch (runtime->header.e_machine) {
	case EM_ARM: return (struct plt_layout){20, 12};
	case EM_AARCH64: return (struct plt_layout){32, 16};
	default: return (struct plt_layout){plt->sh_entsize, plt->sh_entsize};
	}
}

/* What the relocations of a PLT are about. */
struct plt_relocation {
	uint64_t slot;   /* address of the word that it changes */
	uint64_t symbol; /* number of a dynamic symbol; 0: none */
	uint64_t addend; /* of one without a symbol: the address of a function that returns the address; 0: not known */
};

struct plt {
	struct table dynamic;                         /* data NULL: there are no dynamic symbols */
	struct plt_relocation *relocations, *by_slot; /* heap; in the order of the file, and by slot */
	size_t nr;
	uint32_t *shown; /* heap; the symbols before those of the PLT, but for aliases: by address, one at each */
	size_t nr_shown;
};

static void plt_fini(struct plt *plt)
{
	free(plt->relocations);
	free(plt->by_slot);
	free(plt->shown);
}

static bool is_indirect(const struct elf_source *runtime, uint64_t info)
{
	return runtime->header.e_machine == EM_X86_64 && GELF_R_TYPE(info) == R_X86_64_IRELATIVE;
}

static bool read_relocation(const struct elf_source *runtime, Elf_Data *data, unsigned type, int i,
			    struct plt_relocation *ret)
{
	GElf_Rela with_addend = {0};
	GElf_Rel without;

	if (type == SHT_RELA) {
		if (!gelf_getrela(data, i, &with_addend))
			return false;
	} else {
		if (!gelf_getrel(data, i, &without))
			return false;
		with_addend = (GElf_Rela){.r_offset = without.r_offset, .r_info = without.r_info};
	}
	*ret = (struct plt_relocation){.slot = with_addend.r_offset, .symbol = GELF_R_SYM(with_addend.r_info)};
	if (is_indirect(runtime, with_addend.r_info))
		ret->addend = (uint64_t)with_addend.r_addend;
	return true;
}

static int compare_slots(const void *left, const void *right)
{
	const struct plt_relocation *a = left, *b = right;

	return (a->slot > b->slot) - (a->slot < b->slot);
}

/* 0; -ENOENT: it has no PLT, or a broken one; -ENOMEM. */
static int plt_read(const struct elf_source *runtime, struct plt *ret)
{
	GElf_Shdr header;
	Elf_Scn *section = elf_file_section(runtime->elf, ".rela.plt", &header);

	if (!section)
		section = elf_file_section(runtime->elf, ".rel.plt", &header);
	Elf_Data *data = section ? elf_file_data(section) : NULL;
	if (!data)
		return -ENOENT;
	if (runtime->dynsym && header.sh_link == elf_ndxscn(runtime->dynsym) &&
	    !table_open(runtime, runtime->dynsym, &ret->dynamic))
		ret->dynamic = (struct table){0};
	size_t bytes = gelf_fsize(runtime->elf, header.sh_type == SHT_RELA ? ELF_T_RELA : ELF_T_REL, 1, EV_CURRENT);
	size_t most = bytes ? data->d_size / bytes : 0;
	if (most > MOST_RELOCATIONS)
		most = MOST_RELOCATIONS;
	ret->relocations = calloc(most + 1, sizeof(*ret->relocations));
	ret->by_slot = calloc(most + 1, sizeof(*ret->by_slot));
	if (!ret->relocations || !ret->by_slot)
		return -ENOMEM;
	while (ret->nr < most &&
	       read_relocation(runtime, data, header.sh_type, (int)ret->nr, &ret->relocations[ret->nr]))
		ret->nr++;
	memcpy(ret->by_slot, ret->relocations, ret->nr * sizeof(*ret->by_slot));
	qsort(ret->by_slot, ret->nr, sizeof(*ret->by_slot), compare_slots);
	return 0;
}

/* 0 or -ENOMEM. They are sorted. */
static int list_shown(struct plt *plt, const struct symbols *symbols)
{
	plt->shown = calloc(symbols->nr + 1, sizeof(*plt->shown));
	if (!plt->shown)
		return -ENOMEM;
	for (uint32_t i = 0; i < symbols->nr; i++)
		if (!symbols->entries[i].dropped)
			plt->shown[plt->nr_shown++] = i;
	return 0;
}

/* The name of a symbol that starts there; NULL: none. */
static const char *name_at(const struct symbols *symbols, const struct plt *plt, uint64_t start)
{
	const struct symbol_entry *entries = symbols->entries;
	const size_t at = partition_point(plt->nr_shown, i, entries[plt->shown[i]].start < start);
	const struct symbol_entry *entry = at < plt->nr_shown ? &entries[plt->shown[at]] : NULL;
	return entry && entry->start == start ? symbols_name(symbols, entry) : NULL;
}

/* What a relocation binds; NULL: not known. */
static const char *plt_target(const struct symbols *symbols, const struct elf_source *runtime, const struct plt *plt,
			      const struct plt_relocation *relocation)
{
	const GElf_Shdr no_section = {0};
	GElf_Sym symbol;

	if (relocation->addend)
		return name_at(symbols, plt, file_offset(runtime, &no_section, relocation->addend));
	if (!relocation->symbol || !plt->dynamic.data ||
	    !gelf_getsym(plt->dynamic.data, (int)relocation->symbol, &symbol))
		return NULL;
	return table_name(&plt->dynamic, &symbol);
}

static int add_plt_entry(struct symbols *symbols, const char *target, uint64_t start, uint64_t size)
{
	AUTO_FREE char *readable = NULL;
	char name[SYMBOL_PLT_NAME_BYTES];
	size_t len = strlen(target), mark = strlen(SYMBOL_PLT);

	if (len + mark >= sizeof(name)) { /* it is cut, and must be demangled before */
		readable = !symbols->no_demangle && symbol_is_mangled(target) ? symbol_demangle(target) : NULL;
		len = (size_t)snprintf(name, sizeof(name), "%s" SYMBOL_PLT, readable ? readable : target);
		len = len < sizeof(name) ? len : sizeof(name) - 1;
	} else {
		memcpy(name, target, len);
		memcpy(name + len, SYMBOL_PLT, mark);
		len += mark;
	}
	return symbols_add(symbols, start, size, SYMBOL_GLOBAL, name, len);
}

/* Entry n of .plt jumps to the symbol of relocation n; the name is the symbol's with "@plt" behind. */
static int load_plt_in_order(struct symbols *symbols, const struct elf_source *runtime, const struct plt *plt)
{
	GElf_Shdr header;

	if (!plt->dynamic.data || !elf_file_section(runtime->elf, ".plt", &header))
		return 0;
	struct plt_layout layout = plt_layout(runtime, &header);
	uint64_t at = header.sh_offset + layout.header_bytes;
	for (size_t i = 0; i < plt->nr; i++, at += layout.entry_bytes) {
		const char *name = plt_target(symbols, runtime, plt, &plt->relocations[i]);
		if (add_plt_entry(symbols, name ? name : "", at, layout.entry_bytes))
			return -ENOMEM;
	}
	return 0;
}

/* What the code of an entry says; NULL: it is none, or of a word that no relocation changes. */
static const struct plt_relocation *plt_relocation_of(const struct plt *plt, const struct plt_jump *jump)
{
	const struct plt_relocation wanted = {.slot = jump->slot};

	if (jump->slot)
		return bsearch(&wanted, plt->by_slot, plt->nr, sizeof(wanted), compare_slots);
	return jump->relocation < plt->nr ? &plt->relocations[jump->relocation] : NULL;
}

/* The address of the global offset table. 0: not known. Source: elf(5) "Elf32_Dyn", DT_PLTGOT. */
static uint64_t got_of(const struct elf_source *runtime)
{
	GElf_Shdr header;
	GElf_Dyn entry;
	Elf_Scn *section = elf_file_section(runtime->elf, ".dynamic", &header);
	Elf_Data *data = section && header.sh_type == SHT_DYNAMIC ? elf_file_data(section) : NULL;

	for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++)
		if (entry.d_tag == DT_PLTGOT)
			return entry.d_un.d_ptr;
	return 0;
}

/*
 * The entries of a section, by their code: of x86 they are not in the order of the relocations, as perf 6.1 has it,
 * where some functions are chosen at run time (IFUNC), there are two entries for a function with -z ibtplt, and their
 * sizes differ.
 */
static int load_plt_section(struct symbols *symbols, const struct elf_source *runtime, const struct plt *plt,
			    Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_file_raw_data(section);
	struct plt_place place = {.address = header->sh_addr, .is_64 = runtime->header.e_machine == EM_X86_64};
	const char *target = NULL;
	uint64_t start = 0, end = 0;
	size_t nr_entries = 0;

	if (!data || !data->d_buf)
		return 0;
	place.got = place.is_64 ? 0 : got_of(runtime);
	for (size_t at = 0; at < data->d_size && nr_entries < plt->nr; at += PLT_STEP_BYTES) {
		struct plt_jump jump;
		place.code = (const uint8_t *)data->d_buf + at;
		place.len = data->d_size - at;
		place.address = header->sh_addr + at;
		if (!plt_decode(&place, &jump))
			continue;
		if (target && add_plt_entry(symbols, target, header->sh_offset + start, (at < end ? at : end) - start))
			return -ENOMEM;
		const struct plt_relocation *relocation = plt_relocation_of(plt, &jump);
		target = relocation ? plt_target(symbols, runtime, plt, relocation) : NULL;
		nr_entries += target != NULL;
		start = at;
		end = at + jump.bytes < data->d_size ? at + jump.bytes : data->d_size;
	}
	return target ? add_plt_entry(symbols, target, header->sh_offset + start, end - start) : 0;
}

static int load_plt_sections(struct symbols *symbols, const struct elf_source *runtime, const struct plt *plt)
{
	static const char *const names[] = {".plt", ".plt.sec"};
	int err = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !err; i++) {
		GElf_Shdr header;
		Elf_Scn *section = elf_file_section(runtime->elf, names[i], &header);
		if (section && header.sh_type == SHT_PROGBITS)
			err = load_plt_section(symbols, runtime, plt, section, &header);
	}
	return err;
}

static int load_plt(struct symbols *symbols, const struct elf_source *runtime)
{
	__attribute__((cleanup(plt_fini))) struct plt plt = {0};
	unsigned machine = runtime->header.e_machine;
	int err = plt_read(runtime, &plt);

	if (!err)
		err = list_shown(&plt, symbols);
	if (err)
		return err == -ENOENT ? 0 : err;
	err = machine == EM_X86_64 || machine == EM_386 ? load_plt_sections(symbols, runtime, &plt)
							: load_plt_in_order(symbols, runtime, &plt);
	symbols_fixup(symbols, SYMBOLS_KEEP_ALIASES);
	return err;
}

/* The segment of code with that address. NULL: none. */
static const GElf_Phdr *code_segment(const struct elf_source *source, uint64_t address)
{
	for (size_t i = 0; i < source->nr_loads; i++) {
		const GElf_Phdr *load = &source->loads[i];
		if (load->p_flags & PF_X && address >= load->p_vaddr && address - load->p_vaddr < load->p_filesz)
			return load;
	}
	return NULL;
}

/* Those of a Go program; of another one there are none. They are all in one segment. */
static int load_go_functions(struct symbols *symbols, const struct elf_source *runtime)
{
	AUTO_FREE void *loaded = NULL;
	const GElf_Phdr *load = NULL;
	struct go_function function;
	struct go_table table;
	uint32_t at;

	if (!go_table_find(runtime->elf, &table, &loaded))
		return 0;
	const char *names = (const char *)table.bytes.ptr + table.names;
	if (symbols_add_names(symbols, names, table.names_end - table.names, &at))
		return -ENOMEM;
	for (uint64_t i = 0; i < table.nr_functions; i++) {
		if (!go_table_function(&table, i, &function))
			continue;
		if (!load)
			load = code_segment(runtime, function.start);
		if (!load)
			break;
		if (function.name == table.names_end || function.start < load->p_vaddr ||
		    function.end - load->p_vaddr > load->p_filesz)
			continue;
		if (symbols_add_named(symbols, function.start - load->p_vaddr + load->p_offset,
				      function.end - function.start, SYMBOL_LOCAL,
				      at + (uint32_t)(function.name - table.names)))
			return -ENOMEM;
	}
	symbols_fixup(symbols, 0);
	return 0;
}

/* Of a libc that has no symbol of it: the one before it, without a size, would be that of this code, too. */
static int add_trampoline(struct symbols *symbols, const struct elf_source *runtime)
{
	static const char name[] = "__restore_rt"; /* as in glibc and in musl's table of all symbols */
	uint64_t offset;

	if (!elf_file_trampoline(runtime->elf, runtime->fd, &offset))
		return 0;
	return symbols_add(symbols, offset, ELF_TRAMPOLINE_BYTES, SYMBOL_LOCAL, name, strlen(name));
}

int elf_symbols_load(struct symbols *symbols, const struct elf_source *from, const struct elf_source *runtime)
{
	const struct elf_source *dynamic = from->unpacked ? runtime : from;
	int err = load_table(symbols, from, from->symtab, runtime);

	if (!err && from == runtime && !from->symtab)
		err = load_go_functions(symbols, runtime);
	if (!err && !symbols->nr && runtime->dynsym && runtime->fd >= 0)
		err = add_trampoline(symbols, runtime);
	if (!err)
		err = load_table(symbols, dynamic, dynamic->dynsym, runtime);
	if (!err) /* also where there is nothing else, as in a stripped program */
		err = load_plt(symbols, runtime);
	return err;
}

int elf_symbols_load_kernel(struct symbols *symbols, const struct elf_source *from, const char *section, uint64_t shift)
{
	struct table table;

	if (!table_open(from, from->symtab, &table))
		return 0;
	for (size_t i = 0; i < table.nr; i++) {
		GElf_Sym symbol;
		GElf_Shdr header;
		const char *in;
		if (!gelf_getsym(table.data, (int)i, &symbol))
			break;
		enum symbol_class class = symbol_class(&symbol);
		const char *name = class == CLASS_NONE ? NULL : table_name(&table, &symbol);
		if (!name || arm_mark(from, name) || !symbol_section(from, from, &symbol, &header, &in) ||
		    (class == CLASS_LABEL && !label_counts(in)) || (section && strcmp(section, in) != 0))
			continue;
		if (symbols_add(symbols, symbol.st_value - shift, symbol.st_size, symbol_binding(&symbol), name,
				strlen(name)))
			return -ENOMEM;
	}
	symbols_fixup(symbols, 0);
	return 0;
}

bool elf_symbol_address(const struct elf_source *source, const char *name, uint64_t *ret)
{
	struct table table;
	GElf_Sym symbol;

	if (!table_open(source, source->symtab, &table))
		return false;
	for (size_t i = 0; i < table.nr && gelf_getsym(table.data, (int)i, &symbol); i++) {
		const char *its = symbol.st_name ? table_name(&table, &symbol) : NULL;
		if (its && strcmp(its, name) == 0) {
			*ret = symbol.st_value;
			return true;
		}
	}
	return false;
}
