/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/split_files.h"

#include <dwarf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/dwarf/dwarf.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
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

/* On the heap; NULL: not known, or out of memory. */
static char *package_path(const struct split_files *files, size_t number)
{
	char *path;

	return !files->paths[number] || asprintf(&path, "%s.dwp", files->paths[number]) < 0 ? NULL : path;
}

static void open_packages(struct split_files *files)
{
	files->packages_opened = true;
	for (size_t i = 0; i < NR_PATHS; i++) {
		AUTO_FREE char *path = package_path(files, i);
		files->packages[i] = path ? open_split(path) : NULL;
	}
}

static const char *name_of(const struct die *skeleton)
{
	const char *name = die_text(skeleton, DW_AT_dwo_name);

	return name ? name : die_text(skeleton, DW_AT_GNU_dwo_name);
}

/* As the compiler has written it. On the heap; NULL: not known, or out of memory. */
static char *path_of_compiler(const struct die *skeleton, const char *name)
{
	const char *directory = die_text(skeleton, DW_AT_comp_dir);
	const bool whole = name[0] == '/';
	char *path = NULL;

	if (!whole && (!directory || directory[0] != '/'))
		return NULL;
	return asprintf(&path, "%s%s%s", whole ? "" : directory, whole ? "" : "/", name) < 0 ? NULL : path;
}

/* In the directory of a file of the object. Likewise. */
static char *path_beside(const char *object, const char *name)
{
	const char *slash = object ? strrchr(object, '/') : NULL;
	char *path;

	return !slash || asprintf(&path, "%.*s/%s", (int)(slash - object), object, name) < 0 ? NULL : path;
}

void split_file_leaf(const struct split_file *file, char ret[SPLIT_LEAF_ROOM])
{
	if (file->package >= 0)
		snprintf(ret, SPLIT_LEAF_ROOM, "%s.dwp", file->package ? "debug" : "elf");
	else
		snprintf(ret, SPLIT_LEAF_ROOM, "%016" PRIx64 ".dwo", file->id);
}

/*
 * Where number `index` of the places is at which a .dwo file may be: where the compiler put it; beside the object;
 * beside a copy of the object. On the heap, NULL: none of that number, or out of memory. false: no more.
 */
static bool split_path(const struct split_files *files, const struct die *skeleton, unsigned index, char **ret)
{
	const char *name = name_of(skeleton);
	char leaf[SPLIT_LEAF_ROOM];

	*ret = NULL;
	if (!name || index > 2 * NR_PATHS)
		return false;
	if (!index) {
		*ret = path_of_compiler(skeleton, name);
	} else if (index <= NR_PATHS) {
		*ret = name[0] == '/' ? NULL : path_beside(files->paths[index - 1], name);
	} else {
		split_file_leaf(&(struct split_file){.package = -1, .id = skeleton->unit->id}, leaf);
		*ret = path_beside(files->paths[index - 1 - NR_PATHS], leaf);
	}
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

/* A .dwp file that stays open: what was looked at is what the visitor gets. */
struct package {
	int fd;
	struct dwarf *dwarf; /* NULL: there is none */
	bool visited;
};

static struct dwarf *open_copy(int fd)
{
	const int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? NULL : dwarf_open(copy, true);
}

static int visit_dwo(struct split_files *files, const struct die *skeleton, struct split_visitor *visitor)
{
	struct split_file file = {.fd = -1, .package = -1, .id = skeleton->unit->id, .name = name_of(skeleton)};
	char *path;

	for (unsigned i = 0; split_path(files, skeleton, i, &path); i++) {
		AUTO_FD int fd = path ? object_file_open(path, NULL) : -ENOENT;
		struct dwarf *dwarf = open_copy(fd);
		const bool found = dwarf && dwarf_split_unit(dwarf, skeleton->unit);
		free(path);
		dwarf_free(dwarf);
		file.fd = fd;
		if (found)
			return visitor->visit(visitor, &file);
	}
	file.fd = -1;
	return visitor->visit(visitor, &file);
}

static int visit_unit(struct split_files *files, struct package packages[NR_PATHS], const struct die *skeleton,
		      struct split_visitor *visitor)
{
	for (size_t i = 0; i < NR_PATHS; i++) {
		struct package *package = &packages[i];
		if (!package->dwarf || !dwarf_split_unit(package->dwarf, skeleton->unit))
			continue;
		const struct split_file file = {.fd = package->fd, .package = (int)i};
		const bool visited = package->visited;
		package->visited = true;
		return visited ? 0 : visitor->visit(visitor, &file);
	}
	return visit_dwo(files, skeleton, visitor);
}

int split_files_visit(struct split_files *files, struct dwarf *dwarf, struct split_visitor *visitor)
{
	struct package packages[NR_PATHS];
	struct dwarf_unit *unit;
	unsigned nr = 0;
	int err = 0;

	for (size_t i = 0; i < NR_PATHS; i++) {
		AUTO_FREE char *path = package_path(files, i);
		packages[i].fd = path ? object_file_open(path, NULL) : -ENOENT;
		packages[i].dwarf = open_copy(packages[i].fd);
		packages[i].visited = false;
	}
	for (size_t i = 0; !err && nr < MAX_FILES && (unit = dwarf_unit_number(dwarf, i)); i++) {
		struct die root;
		if (!die_root(unit, &root) || !unit->id || !name_of(&root))
			continue;
		nr++;
		err = visit_unit(files, packages, &root, visitor);
	}
	for (size_t i = 0; i < NR_PATHS; i++) {
		dwarf_free(packages[i].dwarf);
		if (packages[i].fd >= 0)
			close(packages[i].fd);
	}
	return err;
}
