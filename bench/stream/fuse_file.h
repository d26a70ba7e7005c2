/* SPDX-License-Identifier: MIT */
/*
 * fuse_file: serves a FUSE file system whose root is one regular file, kept in another file, that takes in written
 * bytes at a rate. In a process of its own.
 *
 * Source: <linux/fuse.h>; fuse(4); Documentation/filesystems/fuse of the kernel.
 */
#pragma once

#include <stdint.h>

/* Until the file system is gone, or the process that started this one. */
void fuse_file_serve(int device_fd, int data_fd, uint64_t bytes_per_s);
