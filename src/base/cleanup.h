/* SPDX-License-Identifier: MIT */
/* cleanup: scope guards for local variables that own something; take_ptr() and take_fd() end the ownership. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"

static inline void cleanup_free(void *slot)
{
	free(*(void **)slot);
}

static inline void cleanup_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

static inline void cleanup_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

#define AUTO_FREE __attribute__((cleanup(cleanup_free)))
#define AUTO_FD __attribute__((cleanup(cleanup_fd)))
#define AUTO_DIR __attribute__((cleanup(cleanup_dir)))
#define AUTO_FILE __attribute__((cleanup(cleanup_file)))
#define AUTO_BUF __attribute__((cleanup(buf_fini)))

/* Returns the pointer and sets the variable to NULL, so that its guard does not free it; take_fd() sets -1. */
#define take_ptr(slot)                                                                                                 \
	({                                                                                                             \
		__typeof__(slot) taken_ = (slot);                                                                      \
		(slot) = NULL;                                                                                         \
		taken_;                                                                                                \
	})

static inline int take_fd(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}
