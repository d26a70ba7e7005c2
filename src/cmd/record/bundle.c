/* SPDX-License-Identifier: MIT */
/* Copies of what was hit, beside the recording, laid out as perf's ~/.debug. */
#include "cmd/record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* procfs has no pages that could be sent. */
static int copy_kallsyms(struct cache_entry *entry)
{
	AUTO_BUF struct buf text = {0};
	int err = fd_slurp("/proc/kallsyms", KALLSYMS_MAX_BYTES, &text);

	entry->leaf = "kallsyms";
	return err ? err : object_cache_put_bytes(entry, buf_span(&text));
}

/* -ENOENT: there is no such object any more. */
static int copy_object(struct cache_entry *entry, const struct dso *dso)
{
	AUTO_FD int elf = dso_open(dso, "", DSO_RUNTIME);
	AUTO_FD int debug = dso->kind == DSO_FILE ? dso_open(dso, "", DSO_DEBUG) : -1;
	int err = elf;

	entry->leaf = dso->kind == DSO_VDSO ? "vdso" : "elf";
	if (elf >= 0)
		err = object_cache_put_file(entry, elf, UINT64_MAX, NULL);
	else if (object_cache_has(entry)) /* the recording has kept it there */
		err = 0;
	entry->leaf = "debug";
	return err || debug < 0 ? err : object_cache_put_file(entry, debug, UINT64_MAX, NULL);
}

static int keep(struct dso_table *dsos, struct cache_entry *copy)
{
	bool vdso = strcmp(copy->name, "[vdso]") == 0;

	if (strcmp(copy->name, "[kernel.kallsyms]") == 0)
		return copy_kallsyms(copy);
	const struct object_id id = {.build_id = copy->id};
	struct dso *dso =
		vdso || copy->name[0] == '/' ? dso_find(dsos, copy->name, &id, vdso ? DSO_VDSO : DSO_FILE) : NULL;
	return dso ? copy_object(copy, dso) : -ENOENT;
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
		int kept = keep(&dsos, &copy);
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
