/* SPDX-License-Identifier: MIT */
#include "unwind/debug_file.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "sysinfo/elf_file.h"
#include "sysinfo/elf_note.h"
#include "sysinfo/object_file.h"

struct note_id {
	uint8_t bytes[ELF_NOTE_BUILD_ID_MAX];
	int len;
};

/* A descriptor, or -1. */
static int open_checked(const struct note_id *id, const char *path)
{
	struct note_id found;
	AUTO_FD int fd = object_file_open(path, NULL);

	if (fd < 0)
		return -1;
	found.len = elf_note_of_fd(fd, found.bytes);
	return found.len == id->len && !memcmp(found.bytes, id->bytes, (size_t)id->len) ? take_fd(&fd) : -1;
}

static int open_by_id(const struct note_id *id)
{
	AUTO_BUF struct buf path = {0};

	buf_printf(&path, "/usr/lib/debug/.build-id/%02x/", id->bytes[0]);
	for (int i = 1; i < id->len; i++)
		buf_printf(&path, "%02x", id->bytes[i]);
	buf_printf(&path, ".debug");
	return open_checked(id, buf_text(&path));
}

/* The name that .gnu_debuglink has: of a file, not a path. false: none. */
static bool link_name(Elf *elf, char name[NAME_MAX + 1])
{
	GElf_Shdr header;
	Elf_Scn *section = elf_file_section(elf, ".gnu_debuglink", &header);
	const Elf_Data *data = section ? elf_file_raw_data(section) : NULL;

	if (!data || !data->d_buf || !memchr(data->d_buf, 0, data->d_size))
		return false;
	const int len = snprintf(name, NAME_MAX + 1, "%s", (const char *)data->d_buf);
	return len > 0 && len <= NAME_MAX && !strchr(name, '/');
}

static int open_by_link(int object_fd, Elf *elf, const struct note_id *id)
{
	char link[32], object[PATH_MAX], name[NAME_MAX + 1];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", object_fd);
	const ssize_t len = readlink(link, object, sizeof(object) - 1);
	if (len <= 0 || object[0] != '/' || !link_name(elf, name))
		return -1;
	object[len] = 0;
	*strrchr(object, '/') = 0;
	const char *const forms[][2] = {{"", ""}, {"", "/.debug"}, {"/usr/lib/debug", ""}};
	int fd = -1;
	for (size_t i = 0; fd < 0 && i < sizeof(forms) / sizeof(forms[0]); i++) {
		AUTO_BUF struct buf path = {0};
		buf_printf(&path, "%s%s%s/%s", forms[i][0], object, forms[i][1], name);
		fd = open_checked(id, buf_text(&path));
	}
	return fd;
}

int debug_file_open(int fd, Elf *elf)
{
	struct note_id id;

	id.len = elf_note_of_fd(fd, id.bytes);
	if (id.len <= 0)
		return -1;
	const int found = open_by_id(&id);
	return found >= 0 ? found : open_by_link(fd, elf, &id);
}
