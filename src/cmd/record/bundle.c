/* SPDX-License-Identifier: MIT */
/* Copies of what was hit, beside the recording, laid out as perf's ~/.debug. */
#include "cmd/record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/dwarf/dwarf.h"
#include "analyze/dwarf/split_files.h"
#include "analyze/symbols/dso.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/span.h"
#include "perfdata/object_id.h"
#include "read/session.h"
#include "record/build_ids/object_cache.h"
#include "record/output/file_place.h"

enum { KALLSYMS_MAX_BYTES = 1 << 28 };

/* Of all split files together: what a .dwp file has at most, where offsets have 32 bits. Source: DWARF 5, 7.3.5.3. */
#define SPLIT_MAX_BYTES (UINT64_C(1) << 32)

struct bundle_place {
	const char *path;
	struct bundle_result *result;
};

/* procfs has no pages that could be sent. */
static int copy_kallsyms(struct cache_entry *entry)
{
	AUTO_BUF struct buf text = {0};
	int err = fd_slurp("/proc/kallsyms", KALLSYMS_MAX_BYTES, &text);

	entry->leaf = "kallsyms";
	return err ? err : object_cache_put_bytes(entry, buf_span(&text));
}

/* Of an object: copies of the files with its split debug information. */
struct split_copies {
	struct split_visitor visitor;
	struct cache_entry *entry;
	struct bundle_result *result;
	bool missed;
};

/* Those that are not there, or are too large, are one miss of the object. */
static int copy_split_file(struct split_visitor *visitor, const struct split_file *file)
{
	struct split_copies *copies = (struct split_copies *)visitor;
	struct bundle_result *result = copies->result;
	char leaf[SPLIT_LEAF_ROOM];
	uint64_t bytes = 0;
	int err = -ENOENT;

	split_file_leaf(file, leaf);
	copies->entry->leaf = leaf;
	if (file->fd >= 0)
		err = object_cache_put_file(copies->entry, file->fd, SPLIT_MAX_BYTES - result->split_bytes, &bytes);
	copies->entry->leaf = NULL;
	result->split_bytes += bytes;
	if (err != -ENOENT && err != -EFBIG && err != -ENODATA)
		return err;
	if (!copies->missed) {
		result->nr_missed++;
		snprintf(result->missed, sizeof(result->missed), "%s", file->name ? file->name : leaf);
	}
	copies->missed = true;
	return 0;
}

/* Of an open file; on the heap. NULL: not known. */
static char *path_of(int fd)
{
	char link[64], path[PATH_MAX];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = fd < 0 ? -1 : readlink(link, path, sizeof(path));
	return len > 0 && path[0] == '/' ? strndup(path, (size_t)len) : NULL;
}

/* NULL: there is none. */
static struct dwarf *open_dwarf(int fd)
{
	const int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? NULL : dwarf_open(copy, false);
}

/*
 * Paths in an object may lead anywhere, and its user chose them: only files are copied that have its units. They are
 * looked for as this process sees paths, also those of an object of a container, which may have been built here.
 */
static int copy_split(struct cache_entry *entry, int elf, int debug, bool is_copy, struct bundle_result *result)
{
	AUTO_FREE char *elf_path = is_copy ? strdup(entry->name) : path_of(elf);
	AUTO_FREE char *debug_path = path_of(debug);
	char *const paths[2] = {elf_path, debug_path};
	struct split_copies copies = {.visitor.visit = copy_split_file, .entry = entry, .result = result};
	struct dwarf *dwarf = open_dwarf(elf);

	if (!dwarf)
		dwarf = open_dwarf(debug);
	struct split_files *files = dwarf ? split_files_new(paths) : NULL;
	int err = files ? split_files_visit(files, dwarf, &copies.visitor) : dwarf ? -ENOMEM : 0;
	split_files_free(files);
	dwarf_free(dwarf);
	return err;
}

/*
 * What the recording has kept there is what ran: another file may have its build-id, here or in ~/.debug. -ENOENT:
 * there is no such object any more.
 */
static int copy_object(struct cache_entry *entry, struct dso *dso, struct bundle_place *place)
{
	entry->leaf = dso->kind == DSO_VDSO ? "vdso" : "elf";
	const bool is_kept = object_cache_has(entry);
	dso->table->bundle = is_kept ? place->path : NULL;
	AUTO_FD int elf = dso_open(dso, "", DSO_RUNTIME);
	dso->table->bundle = NULL;
	AUTO_FD int debug = dso->kind == DSO_FILE ? dso_open(dso, "", DSO_DEBUG) : -1;
	int err = is_kept ? 0 : elf;

	if (!is_kept && elf >= 0)
		err = object_cache_put_file(entry, elf, UINT64_MAX, NULL);
	entry->leaf = "debug";
	if (!err && debug >= 0)
		err = object_cache_put_file(entry, debug, UINT64_MAX, NULL);
	return err || dso->kind != DSO_FILE ? err : copy_split(entry, elf, debug, is_kept, place->result);
}

static int keep(struct dso_table *dsos, struct cache_entry *copy, struct bundle_place *place)
{
	bool vdso = strcmp(copy->name, "[vdso]") == 0;

	if (strcmp(copy->name, "[kernel.kallsyms]") == 0)
		return copy_kallsyms(copy);
	const struct object_id id = {.build_id = copy->id};
	struct dso *dso =
		vdso || copy->name[0] == '/' ? dso_find(dsos, copy->name, &id, vdso ? DSO_VDSO : DSO_FILE) : NULL;
	return dso ? copy_object(copy, dso, place) : -ENOENT;
}

/*
 * The directory of that name; one that is there already is used when no other user can have put anything into it. An
 * fd, or -errno and why.
 */
static int open_bundle(const char *path, struct diag *reterr)
{
	AUTO_FILE_PLACE struct file_place place = {.dir_fd = -1};
	struct stat st;
	int err = file_place_find(path, &place, reterr);

	if (err)
		return err;
	if (mkdirat(place.dir_fd, place.name, 0700) && errno != EEXIST)
		return diag_set(reterr, -errno, "%s: %s", path, strerror(errno));
	AUTO_FD int fd = openat(place.dir_fd, place.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return diag_set(reterr, -errno, "%s: %s", path, strerror(errno));
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return diag_set(reterr, -EPERM, "%s is there already, and others can write to it: remove it", path);
	return take_fd(&fd);
}

int bundle_make(const char *path, struct bundle_result *ret, struct diag *reterr)
{
	struct session *session;
	struct span records = {0};
	struct dso_table dsos = {0};
	struct build_id entry;
	AUTO_FREE char *bundle = NULL;

	*ret = (struct bundle_result){0};
	if (asprintf(&bundle, "%s.bundle", path) < 0)
		return -ENOMEM;
	int err = session_open(path, SESSION_FORCE, &session, reterr);
	if (err)
		return err;
	struct bundle_place place = {bundle, ret};
	AUTO_FD int bundle_fd = open_bundle(bundle, reterr);
	if (bundle_fd < 0)
		err = bundle_fd;
	struct cursor at =
		cursor_over(!err && session_feature(session, FEATURE_BUILD_ID, &records) ? records : (struct span){0});
	while (!err && build_id_decode(&at, &entry) == 1) {
		struct cache_entry copy = {.dir_fd = bundle_fd, .name = entry.path, .id.len = entry.id_bytes};
		/* Their symbols are among the kernel's. */
		if ((entry.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL &&
		    strcmp(entry.path, "[kernel.kallsyms]") != 0)
			continue;
		memcpy(copy.id.bytes, entry.id, entry.id_bytes);
		int kept = keep(&dsos, &copy, &place);
		if (kept == -ENOSPC || kept == -EIO || kept == -ENOMEM || kept == -EDQUOT)
			err = diag_set(reterr, kept, "%s: copying %s: %s", bundle, entry.path, strerror(-kept));
		else if (kept) {
			ret->nr_missed++;
			snprintf(ret->missed, sizeof(ret->missed), "%s", entry.path);
		} else {
			ret->nr_kept++;
		}
	}
	dso_table_fini(&dsos);
	session_close(session);
	return err;
}
