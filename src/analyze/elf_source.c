/* SPDX-License-Identifier: MIT */
#include "analyze/elf_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

bool elf_id_equal(const struct elf_id *a, const struct elf_id *b)
{
	size_t common = a->len < b->len ? a->len : b->len;

	if (memcmp(a->bytes, b->bytes, common) != 0)
		return false;
	for (size_t i = common; i < ELF_ID_MAX_BYTES; i++)
		if ((i < a->len && a->bytes[i]) || (i < b->len && b->bytes[i]))
			return false;
	return true;
}

/* Source: elf(5) "Notes"; entries are aligned to 4 bytes. */
bool elf_id_from_notes(const void *bytes, size_t len, struct elf_id *ret)
{
	const uint8_t *at = bytes;
	Elf32_Nhdr note; /* the same words in both classes */

	while (len >= sizeof(note)) {
		memcpy(&note, at, sizeof(note));
		uint64_t name_len = ((uint64_t)note.n_namesz + 3) & ~3ull,
			 id_len = ((uint64_t)note.n_descsz + 3) & ~3ull;
		const uint8_t *name = at + sizeof(note);
		if (name_len > len - sizeof(note) || id_len > len - sizeof(note) - name_len)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
		    memcmp(name, "GNU", sizeof("GNU")) == 0 && note.n_descsz > 0) {
			*ret = (struct elf_id){0};
			ret->len =
				note.n_descsz < ELF_ID_MAX_BYTES ? (uint8_t)note.n_descsz : ELF_ID_MAX_BYTES;
			memcpy(ret->bytes, name + name_len, ret->len);
			return true;
		}
		at += sizeof(note) + name_len + id_len;
		len -= sizeof(note) + name_len + id_len;
	}
	return false;
}

Elf_Scn *elf_source_section(const struct elf_source *source, const char *name, GElf_Shdr *ret)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(source->elf, &names))
		return NULL;
	while ((section = elf_nextscn(source->elf, section))) {
		const char *its =
			gelf_getshdr(section, ret) ? elf_strptr(source->elf, names, ret->sh_name) : NULL;
		if (its && strcmp(its, name) == 0)
			return section;
	}
	return NULL;
}

bool elf_source_build_id(const struct elf_source *source, struct elf_id *ret)
{
	static const char *const sections[] = {".note.gnu.build-id", ".notes", ".note"};

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		GElf_Shdr header;
		Elf_Scn *section = elf_source_section(source, sections[i], &header);
		Elf_Data *data = section && header.sh_type == SHT_NOTE ? elf_getdata(section, NULL) : NULL;
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
	source->symtab = elf_source_section(source, ".symtab", &header);
	if (source->symtab && header.sh_type != SHT_SYMTAB)
		source->symtab = NULL;
	source->dynsym = elf_source_section(source, ".dynsym", &header);
	if (source->dynsym && header.sh_type != SHT_DYNSYM)
		source->dynsym = NULL;
	*ret = *source;
	return 0;
fail:
	elf_source_close(source);
	return err;
}

int elf_source_open(const char *path, const struct elf_id *expect, struct elf_source *ret)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -ENOEXEC;
	elf_version(EV_CURRENT);
	struct elf_source source = {.elf = elf_begin(fd, ELF_C_READ_MMAP, NULL)};
	source.fd = take_fd(&fd);
	return source_read(&source, expect, ret);
}

int elf_source_open_image(void *image, size_t len, const struct elf_id *expect, struct elf_source *ret)
{
	elf_version(EV_CURRENT);
	struct elf_source source = {.fd = -1, .elf = elf_memory(image, len)};
	return source_read(&source, expect, ret);
}

void elf_source_close(struct elf_source *source)
{
	elf_end(source->elf);
	if (source->fd >= 0)
		close(source->fd);
	free(source->loads);
	*source = (struct elf_source)ELF_SOURCE_CLOSED;
}

bool elf_file_build_id(const char *path, struct elf_id *ret)
{
	struct elf_source source;

	if (elf_source_open(path, NULL, &source))
		return false;
	bool found = elf_source_build_id(&source, ret);
	elf_source_close(&source);
	return found;
}

char *elf_file_debuglink(const char *path)
{
	struct elf_source source;
	GElf_Shdr header;
	char *name = NULL;

	if (elf_source_open(path, NULL, &source))
		return NULL;
	Elf_Scn *section = elf_source_section(&source, ".gnu_debuglink", &header);
	Elf_Data *data = section && header.sh_type != SHT_NOBITS ? elf_getdata(section, NULL) : NULL;
	if (data && data->d_buf && memchr(data->d_buf, '\0', data->d_size))
		name = strdup(data->d_buf);
	elf_source_close(&source);
	return name;
}
