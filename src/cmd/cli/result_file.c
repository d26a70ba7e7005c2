/* SPDX-License-Identifier: MIT */
#include "cmd/cli/result_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "sysinfo/shortage.h"

int result_file_open(const char *path, enum result_file_kind kind, struct result_file *ret, struct diag *reterr)
{
	struct result_file file = {.fd = STDOUT_FILENO, .path = path, .place = {.dir_fd = -1}};

	if (strcmp(path, "-") == 0) {
		file.path = "standard output";
		*ret = file;
		return 0;
	}
	int err = file_place_find(path, &file.place, reterr);
	if (err)
		return err;
	mode_t mode = file.place.st.st_mode;
	bool special = file.place.exists && (file.place.descriptor || (!S_ISREG(mode) && !S_ISLNK(mode)));
	if (special && kind == RESULT_REGULAR && !S_ISDIR(mode)) { /* not opened: a FIFO would wait */
		file_place_fini(&file.place);
		return diag_set(reterr, -EINVAL, "%s: this format needs the name of a regular file: give another -o",
				path);
	}
	file.fd = special ? file_place_open(&file.place, O_WRONLY)
			  : file_place_create_temporary(&file.place, file.temporary);
	err = file.fd < 0 ? file.fd : 0;
	if (!err && !special &&
	    asprintf(&file.temporary_path, "/proc/self/fd/%d/%s", file.place.dir_fd, file.temporary) < 0) {
		file.temporary_path = NULL;
		err = -ENOMEM;
	}
	/* By that name a library opens it. */
	bool no_proc = !err && !special && kind == RESULT_REGULAR && access(file.temporary_path, F_OK);
	if (no_proc)
		err = -errno;
	if (err) {
		if (file.fd >= 0)
			close(file.fd);
		if (*file.temporary)
			file_place_discard(&file.place, file.temporary);
		file_place_fini(&file.place);
		free(file.temporary_path);
		return diag_set(reterr, err, "%s: %s%s", path, strerror(-err),
				no_proc ? ": this format needs /proc, is it mounted?" : "");
	}
	*ret = file;
	return 0;
}

const char *result_file_path(const struct result_file *file)
{
	return file->temporary_path;
}

uint64_t result_file_bytes(const struct result_file *file)
{
	struct stat st;

	return fstat(file->fd, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

int result_file_close(struct result_file *file, bool keep, struct diag *reterr)
{
	int err = keep ? shortage() : 0;

	if (file->fd != STDOUT_FILENO && close(file->fd))
		err = -errno;
	if (*file->temporary && keep && !err)
		err = file_place_rename(&file->place, file->temporary);
	if (*file->temporary && (!keep || err))
		file_place_discard(&file->place, file->temporary);
	file_place_fini(&file->place);
	free(file->temporary_path);
	file->temporary_path = NULL;
	return err ? diag_set(reterr, err, "%s: %s", file->path, strerror(-err)) : 0;
}
