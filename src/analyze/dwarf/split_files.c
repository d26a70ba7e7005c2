/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/split_files.h"

#include <dwarf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/dwarf/dwarf.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "sysinfo/object_file.h"

enum { MAX_FILES = 1 << 14, NR_PATHS = 2 };

struct split_files {
	char *const *paths;
	struct dwarf *packages[NR_PATHS]; /* NULL: none */
	bool packages_opened;
	struct dwarf **files; /* .dwo, kept: entries point into them */
	size_t nr, room;
};

struct split_files *split_files_new(char *const paths[2])
{
	struct split_files *files = calloc(1, sizeof(*files));

	if (files)
		files->paths = paths;
	return files;
}

void split_files_free(struct split_files *files)
{
	if (!files)
		return;
	for (size_t i = 0; i < files->nr; i++)
		dwarf_free(files->files[i]);
	for (size_t i = 0; i < NR_PATHS; i++)
		dwarf_free(files->packages[i]);
	free(files->files);
	free(files);
}

/* NULL: there is none with debug information. */
static struct dwarf *open_split(const char *path)
{
	int fd = object_file_open(path, NULL);

	return fd < 0 ? NULL : dwarf_open(fd, true);
}

static void open_packages(struct split_files *files)
{
	files->packages_opened = true;
	for (size_t i = 0; i < NR_PATHS; i++) {
		AUTO_FREE char *path = NULL;
		if (!files->paths[i])
			continue;
		if (asprintf(&path, "%s.dwp", files->paths[i]) < 0)
			path = NULL;
		files->packages[i] = path ? open_split(path) : NULL;
	}
}

/* Where number `index` of the places is at which a .dwo file may be; on the heap, NULL: out of memory. false: no more.
 */
static bool split_path(const struct split_files *files, const struct die *skeleton, unsigned index, char **ret)
{
	const char *name = die_text(skeleton, DW_AT_dwo_name), *directory = die_text(skeleton, DW_AT_comp_dir);
	unsigned of_object = index - 1;

	*ret = NULL;
	if (!name)
		name = die_text(skeleton, DW_AT_GNU_dwo_name);
	if (!name || index > NR_PATHS || (index && name[0] == '/'))
		return false;
	if (!index) { /* as the compiler has written it */
		bool whole = name[0] == '/';
		if ((whole || (directory && directory[0] == '/')) &&
		    asprintf(ret, "%s%s%s", whole ? "" : directory, whole ? "" : "/", name) < 0)
			*ret = NULL;
		return true;
	}
	const char *object = files->paths[of_object], *slash = object ? strrchr(object, '/') : NULL;
	if (slash && asprintf(ret, "%.*s/%s", (int)(slash - object), object, name) < 0)
		*ret = NULL;
	return true;
}

/* Takes it over. false: it was closed, there is no room for it. */
static bool keep_file(struct split_files *files, struct dwarf *dwarf)
{
	if (array_room_up_to(files->files, files->nr, files->room, MAX_FILES)) {
		dwarf_free(dwarf);
		return false;
	}
	dwarf_read_all(dwarf);
	files->files[files->nr++] = dwarf;
	return true;
}

struct dwarf_unit *split_files_find(struct split_files *files, const struct die *skeleton)
{
	struct dwarf_unit *unit = NULL;
	char *path;

	if (!files->packages_opened)
		open_packages(files);
	for (size_t i = 0; i < NR_PATHS && !unit; i++)
		if (files->packages[i])
			unit = dwarf_split_unit(files->packages[i], skeleton->unit);
	for (unsigned i = 0; !unit && split_path(files, skeleton, i, &path); i++) {
		struct dwarf *dwarf = path ? open_split(path) : NULL;
		free(path);
		unit = dwarf ? dwarf_split_unit(dwarf, skeleton->unit) : NULL;
		if (!unit)
			dwarf_free(dwarf);
		else if (!keep_file(files, dwarf))
			return NULL;
	}
	return unit;
}
