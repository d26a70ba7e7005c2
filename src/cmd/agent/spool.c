/* SPDX-License-Identifier: MIT */
#include "cmd/agent/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"

#define NAME "%013" PRIu64 "-%" PRIu64 "-%" PRIu64 ".data"

static int add(struct spool *spool, const struct piece *piece)
{
	if (array_room(spool->pieces, spool->nr, spool->room))
		return -ENOMEM;
	spool->pieces[spool->nr++] = *piece;
	spool->bytes += piece->bytes;
	spool->samples += piece->samples;
	if (piece->number > spool->last_number)
		spool->last_number = piece->number;
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = ((const struct piece *)a)->number, y = ((const struct piece *)b)->number;

	return x < y ? -1 : x > y;
}

int spool_open(struct spool *spool, const char *directory, struct diag *reterr)
{
	AUTO_DIR DIR *dir = opendir(directory);
	int err = dir ? 0 : -errno;

	spool->directory = directory;
	for (struct dirent *entry; !err && (entry = readdir(dir));) {
		struct piece piece;
		struct stat st;
		int end = 0;
		if (sscanf(entry->d_name, "%" SCNu64 "-%" SCNu64 "-%" SCNu64 ".data%n", &piece.number, &piece.samples,
			   &piece.lost, &end) != 3 ||
		    !end || entry->d_name[end] || fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		piece.bytes = (uint64_t)st.st_size;
		err = add(spool, &piece);
	}
	if (err)
		return diag_set(reterr, err, "%s: %s", directory, strerror(-err));
	if (spool->nr)
		qsort(spool->pieces, spool->nr, sizeof(*spool->pieces), compare);
	return 0;
}

void spool_fini(struct spool *spool)
{
	free(spool->pieces);
}

char *spool_path(const struct spool *spool, const struct piece *piece)
{
	char *path;

	return asprintf(&path, "%s/" NAME, spool->directory, piece->number, piece->samples, piece->lost) < 0 ? NULL
													     : path;
}

bool spool_has_file(const struct spool *spool, const struct piece *piece)
{
	AUTO_FREE char *path = spool_path(spool, piece);
	struct stat st;

	return !path || lstat(path, &st) == 0 || errno != ENOENT;
}

int spool_take(struct spool *spool, const char *path, struct piece piece, struct diag *reterr)
{
	struct stat st;

	piece.number = clock_ns(CLOCK_REALTIME) / 1000000;
	if (piece.number <= spool->last_number)
		piece.number = spool->last_number + 1;
	AUTO_FREE char *to = spool_path(spool, &piece);
	int err = !to ? -ENOMEM : stat(path, &st) || rename(path, to) ? -errno : 0;
	if (!err) {
		piece.bytes = (uint64_t)st.st_size;
		err = add(spool, &piece);
	}
	return err ? diag_set(reterr, err, "%s: %s", path, strerror(-err)) : 0;
}

void spool_remove(struct spool *spool, size_t at)
{
	struct piece *piece = &spool->pieces[at];
	AUTO_FREE char *path = spool_path(spool, piece);

	if (path)
		unlink(path);
	spool->bytes -= piece->bytes;
	spool->samples -= piece->samples;
	memmove(piece, piece + 1, (--spool->nr - at) * sizeof(*piece));
}
