/* SPDX-License-Identifier: MIT */
#include "cmd/view/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "base/fd.h"

enum { MOST_FILES = 10000, MOST_LOOKED_AT = 4096 };

int files_write(const char *prefix, int (*write)(void *ctx, FILE *to), void *ctx, char ret_path[FILES_NAME],
		struct diag *reterr)
{
	char path[FILES_NAME];
	int fd = -1, err;

	for (int nr = 0; nr < MOST_FILES && fd < 0; nr++) {
		snprintf(path, sizeof(path), "%s.%d", prefix, nr);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			return diag_set(reterr, -errno, "%s: %s", path, strerror(errno));
	}
	FILE *to = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!to) {
		if (fd >= 0)
			close(fd);
		return diag_set(reterr, -EEXIST, "%s.0 to %s.%d are there already", prefix, prefix, MOST_FILES - 1);
	}
	err = write(ctx, to);
	if (ferror(to) && !err)
		err = -EIO;
	if (fclose(to) && !err)
		err = -errno;
	if (err) {
		unlink(path);
		return diag_set(reterr, err, "%s: %s", path, strerror(-err));
	}
	snprintf(ret_path, FILES_NAME, "%s", path);
	return 0;
}

static bool begins_as_recording(int fd)
{
	char magic[8];

	return pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) && memcmp(magic, "PERFILE2", 8) == 0;
}

/* false: it is none, or cannot be read. */
static bool is_recording(const char *path, struct stat *ret)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, ret) < 0)
		return false;
	if (S_ISREG(ret->st_mode))
		return begins_as_recording(fd);
	if (!S_ISDIR(ret->st_mode))
		return false;
	AUTO_FD int data = openat(fd, "data", O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	return data >= 0 && begins_as_recording(data);
}

struct found {
	char *path;
	struct timespec time;
};

static int compare_found(const void *left, const void *right)
{
	const struct found *a = left, *b = right;

	if (a->time.tv_sec != b->time.tv_sec)
		return a->time.tv_sec < b->time.tv_sec ? 1 : -1;
	return a->time.tv_nsec < b->time.tv_nsec   ? 1
	       : a->time.tv_nsec > b->time.tv_nsec ? -1
						   : strcmp(a->path, b->path);
}

static void take_names(struct file_list *list, struct found *found, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		struct escaped name = escaped_text(found[i].path);
		char *shown = i < FILES_MOST ? strdup(name.text) : NULL;
		escaped_fini(&name);
		if (shown) {
			list->names[list->nr] = shown;
			list->paths[list->nr++] = found[i].path;
		} else {
			free(found[i].path);
		}
	}
}

int files_list_recordings(struct file_list *ret)
{
	DIR *directory = opendir(".");
	AUTO_FREE struct found *found = calloc(MOST_LOOKED_AT, sizeof(*found));
	size_t nr = 0;

	*ret = (struct file_list){0};
	if (!directory || !found) {
		if (directory)
			closedir(directory);
		return -ENOENT;
	}
	for (size_t looked = 0; looked < MOST_LOOKED_AT; looked++) {
		const struct dirent *entry = readdir(directory);
		struct stat status;
		if (!entry)
			break;
		if (entry->d_name[0] == '.' || !is_recording(entry->d_name, &status))
			continue;
		found[nr].path = strdup(entry->d_name);
		found[nr].time = status.st_mtim;
		nr += found[nr].path != NULL;
	}
	closedir(directory);
	qsort(found, nr, sizeof(*found), compare_found);
	take_names(ret, found, nr);
	return 0;
}

void files_list_fini(struct file_list *list)
{
	for (size_t i = 0; i < list->nr; i++) {
		free(list->paths[i]);
		free(list->names[i]);
	}
	*list = (struct file_list){0};
}
