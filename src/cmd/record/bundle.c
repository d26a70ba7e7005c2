/* SPDX-License-Identifier: MIT */
/* The layout is that of perf-buildid-cache(1): NAME/ID/elf, and .build-id/ID as a link to it. */
#include "cmd/record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
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
#include "record/output/file_place.h"

enum { KALLSYMS_MAX_BYTES = 1 << 28 };

/* One object. */
struct copy {
	int bundle_fd;
	const char *name; /* as it is called in the recording */
	char id[2 * BUILD_ID_MAX_BYTES + 1];
};

/* A directory below `at`, and those above it, made where they are not: an fd, or -errno. */
static int make_directories(int at, const char *path)
{
	AUTO_FD int dir = fcntl(at, F_DUPFD_CLOEXEC, 0);
	char name[NAME_MAX + 1];

	while (dir >= 0) {
		path += strspn(path, "/");
		size_t len = strcspn(path, "/");
		if (!len)
			return take_fd(&dir);
		if (len >= sizeof(name))
			return -ENAMETOOLONG;
		memcpy(name, path, len);
		name[len] = '\0';
		if (mkdirat(dir, name, 0700) && errno != EEXIST)
			return -errno;
		int next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		close(dir);
		dir = next;
		path += len;
	}
	return -errno;
}

/* The directory of an object, made: an fd, or -errno. */
static int copy_directory(const struct copy *copy)
{
	AUTO_FREE char *path = NULL;

	if (asprintf(&path, "%s/%s", copy->name, copy->id) < 0)
		return -ENOMEM;
	return make_directories(copy->bundle_fd, path);
}

/* .build-id/xx/rest -> ../../NAME/ID */
static int copy_link(const struct copy *copy)
{
	AUTO_FREE char *directory = NULL, *target = NULL;

	if (asprintf(&directory, ".build-id/%.2s", copy->id) < 0)
		return -ENOMEM;
	if (asprintf(&target, "../..%s%s/%s", copy->name[0] == '/' ? "" : "/", copy->name, copy->id) < 0)
		return -ENOMEM;
	AUTO_FD int dir = make_directories(copy->bundle_fd, directory);
	if (dir < 0)
		return dir;
	return symlinkat(target, dir, copy->id + 2) && errno != EEXIST ? -errno : 0;
}

/* A new file, instead of one that an earlier recording of this name has left. */
static int create(int directory_fd, const char *leaf)
{
	if (unlinkat(directory_fd, leaf, 0) && errno != ENOENT)
		return -errno;
	int fd = openat(directory_fd, leaf, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : fd;
}

static int copy_bytes(const struct copy *copy, const char *leaf, int from)
{
	AUTO_FD int directory = copy_directory(copy);
	AUTO_FD int to = directory < 0 ? directory : create(directory, leaf);
	ssize_t moved = 1;

	while (to >= 0 && moved > 0)
		moved = sendfile(to, from, NULL, 1 << 30);
	return to < 0 ? to : moved < 0 ? -errno : 0;
}

/* procfs has no pages that could be sent. */
static int copy_kallsyms(const struct copy *copy)
{
	AUTO_BUF struct buf text = {0};
	AUTO_FD int directory = copy_directory(copy);
	AUTO_FD int to = directory < 0 ? directory : create(directory, "kallsyms");

	if (to < 0)
		return to;
	int err = fd_slurp("/proc/kallsyms", KALLSYMS_MAX_BYTES, &text);
	return err ? err : fd_write(to, buf_span(&text).ptr, buf_span(&text).len);
}

/* -ENOENT: there is no such object any more. */
static int copy_object(const struct copy *copy, const struct dso *dso)
{
	AUTO_FD int elf = dso_open(dso, "", DSO_RUNTIME);
	AUTO_FD int debug = elf >= 0 && dso->kind == DSO_FILE ? dso_open(dso, "", DSO_DEBUG) : -1;

	if (elf < 0)
		return elf;
	if (lseek(elf, 0, SEEK_SET) < 0 || (debug >= 0 && lseek(debug, 0, SEEK_SET) < 0))
		return -errno;
	int err = copy_bytes(copy, dso->kind == DSO_VDSO ? "vdso" : "elf", elf);
	return err || debug < 0 ? err : copy_bytes(copy, "debug", debug);
}

/* What has ".." in its name would be kept elsewhere. */
static bool is_safe(const char *name)
{
	return !strstr(name, "..") && name[0];
}

static int keep(struct dso_table *dsos, struct copy *copy, const struct build_id *entry)
{
	bool vdso = strcmp(entry->path, "[vdso]") == 0;

	if (strcmp(entry->path, "[kernel.kallsyms]") == 0) {
		int err = copy_kallsyms(copy);
		return err ? err : copy_link(copy);
	}
	struct object_id id = {.build_id.len = entry->id_bytes};
	memcpy(id.build_id.bytes, entry->id, entry->id_bytes);
	struct dso *dso = is_safe(entry->path) && (vdso || entry->path[0] == '/')
				  ? dso_find(dsos, entry->path, &id, vdso ? DSO_VDSO : DSO_FILE)
				  : NULL;
	if (!dso)
		return -ENOENT;
	int err = copy_object(copy, dso);
	return err ? err : copy_link(copy);
}

/* The directory of that name; one that is there already is used when no other user can have put anything into it. An
 * fd, or -errno and why. */
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
		struct copy copy = {.bundle_fd = bundle_fd, .name = entry.path};
		/* Their symbols are among the kernel's. */
		if ((entry.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL &&
		    strcmp(entry.path, "[kernel.kallsyms]") != 0)
			continue;
		for (unsigned i = 0; i < entry.id_bytes; i++)
			snprintf(copy.id + 2 * i, 3, "%02x", entry.id[i]);
		int kept = keep(&dsos, &copy, &entry);
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
