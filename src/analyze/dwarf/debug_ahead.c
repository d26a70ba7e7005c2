/* SPDX-License-Identifier: MIT */
#include "analyze/dwarf/debug_ahead.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/dwarf/dwarf.h"
#include "base/cleanup.h"
#include "base/thread_pool.h"
#include "sysinfo/object_file.h"

enum {
	MAX_FILES = 32,              /* each has a descriptor until it is taken */
	MAX_SECTION_BYTES = 4 << 20, /* unpacked of each section: what is needed is often near to its begin */
	MAX_STEPS = 32,              /* of all files, of 256 KiB each: memory for what is perhaps not needed */
};

struct ahead_file {
	char *path;
	dev_t device;
	ino_t inode;
	bool in_use;         /* by the thread */
	bool taken;          /* it is no longer the thread's */
	struct dwarf *dwarf; /* NULL: not opened, or none, or taken */
};

struct debug_ahead {
	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t left;  /* the thread has left a file */
	bool stop;
	bool lines; /* constant, like `nr`, and paths and identities of files */
	unsigned nr;
	struct ahead_file files[MAX_FILES];
	pthread_t thread;
};

/* false: the thread has to leave the file. */
static bool may_go_on(struct debug_ahead *ahead, const struct ahead_file *file)
{
	pthread_mutex_lock(&ahead->lock);
	bool may = !ahead->stop && !file->taken;
	pthread_mutex_unlock(&ahead->lock);
	return may;
}

static bool enter(struct debug_ahead *ahead, struct ahead_file *file)
{
	pthread_mutex_lock(&ahead->lock);
	file->in_use = !ahead->stop && !file->taken;
	pthread_mutex_unlock(&ahead->lock);
	return file->in_use;
}

static void leave(struct debug_ahead *ahead, struct ahead_file *file, struct dwarf *dwarf)
{
	pthread_mutex_lock(&ahead->lock);
	file->dwarf = dwarf;
	file->in_use = false;
	pthread_cond_signal(&ahead->left);
	pthread_mutex_unlock(&ahead->lock);
}

/* NULL: it is another file now, or has no debug information. */
static struct dwarf *open_file(const struct ahead_file *file)
{
	int fd = object_file_open(file->path, NULL);
	struct stat status;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) == 0 && status.st_dev == file->device && status.st_ino == file->inode)
		return dwarf_open(fd, false);
	close(fd);
	return NULL;
}

static void *work(void *ctx)
{
	struct debug_ahead *ahead = ctx;
	unsigned nr_steps = 0;

	for (unsigned i = 0; i < ahead->nr && nr_steps < MAX_STEPS; i++) {
		struct ahead_file *file = &ahead->files[i];
		if (!enter(ahead, file))
			continue;
		struct dwarf *dwarf = open_file(file);
		while (dwarf && nr_steps < MAX_STEPS && may_go_on(ahead, file) &&
		       dwarf_unpack_ahead(dwarf, ahead->lines, MAX_SECTION_BYTES))
			nr_steps++;
		leave(ahead, file, dwarf);
	}
	return NULL;
}

/* If it is a file that is not known yet. */
static void add_file(struct debug_ahead *ahead, const char *path)
{
	struct stat status;

	if (!path || ahead->nr == MAX_FILES || stat(path, &status) || !S_ISREG(status.st_mode))
		return;
	for (unsigned i = 0; i < ahead->nr; i++)
		if (ahead->files[i].device == status.st_dev && ahead->files[i].inode == status.st_ino)
			return;
	char *copy = strdup(path);
	if (copy)
		ahead->files[ahead->nr++] =
			(struct ahead_file){.path = copy, .device = status.st_dev, .inode = status.st_ino};
}

static void free_files(struct debug_ahead *ahead)
{
	for (unsigned i = 0; i < ahead->nr; i++) {
		dwarf_free(ahead->files[i].dwarf);
		free(ahead->files[i].path);
	}
	free(ahead);
}

struct debug_ahead *debug_ahead_start(char *const paths[], unsigned nr, bool lines)
{
	struct debug_ahead *ahead = thread_pool_useful_size() > 1 ? calloc(1, sizeof(*ahead)) : NULL;

	if (!ahead)
		return NULL;
	ahead->lines = lines;
	for (unsigned i = 0; i < nr; i++)
		add_file(ahead, paths[i]);
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->left, NULL);
	if (ahead->nr && !thread_start(&ahead->thread, work, ahead))
		return ahead;
	pthread_cond_destroy(&ahead->left);
	pthread_mutex_destroy(&ahead->lock);
	free_files(ahead);
	return NULL;
}

void debug_ahead_free(struct debug_ahead *ahead)
{
	if (!ahead)
		return;
	pthread_mutex_lock(&ahead->lock);
	ahead->stop = true;
	pthread_mutex_unlock(&ahead->lock);
	pthread_join(ahead->thread, NULL);
	pthread_cond_destroy(&ahead->left);
	pthread_mutex_destroy(&ahead->lock);
	free_files(ahead);
}

struct dwarf *debug_ahead_take(struct debug_ahead *ahead, int fd)
{
	struct stat status;
	struct dwarf *dwarf = NULL;

	if (!ahead || fstat(fd, &status))
		return NULL;
	for (unsigned i = 0; i < ahead->nr; i++) {
		struct ahead_file *file = &ahead->files[i];
		if (file->device != status.st_dev || file->inode != status.st_ino)
			continue;
		pthread_mutex_lock(&ahead->lock);
		file->taken = true;
		while (file->in_use)
			pthread_cond_wait(&ahead->left, &ahead->lock);
		dwarf = file->dwarf;
		file->dwarf = NULL;
		pthread_mutex_unlock(&ahead->lock);
	}
	return dwarf;
}
