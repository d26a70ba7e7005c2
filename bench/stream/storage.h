/* SPDX-License-Identifier: MIT */
/*
 * storage: the output of a benchmark: a plain file, or a file on storage of a given speed.
 *
 * The slow one is a FUSE file system of one file that a child process serves: it takes in each write at the rate, one
 * after the other, past the page cache, as a disk does when the page cache is full. So every writer runs as it is.
 * Only this process and its children see it, and it is gone when they are.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct diag;

struct storage {
	int fd;       /* what the writer writes to */
	int data_fd;  /* what was written; not slow */
	pid_t server; /* 0: none */
};

/*
 * Once, before threads start: lets the process mount a file system of its own, in a mount namespace and, when it is
 * not root, a user namespace.
 */
int storage_prepare(struct diag *reterr);

/*
 * path NULL: a file without a name, in memory when it is slow. bytes_per_s 0: as fast as it is; else after
 * storage_prepare().
 */
int storage_open(const char *path, uint64_t bytes_per_s, struct storage *ret, struct diag *reterr);

/* Ends the writing: waits for what the slow one still has to take in. data_fd stays. */
void storage_finish(struct storage *storage);
void storage_close(struct storage *storage);
