/* SPDX-License-Identifier: MIT */
/*
 * container_files: opens files of containers that still live, for a reader whose sandbox forbids that: landlock(7)
 * hides /proc/PID/root of all processes. A helper process does it, which is forked before and has a sandbox of its own.
 * It waits for the first path, reads no file, and ends with the reader.
 */
#pragma once

struct container_files;

/*
 * Starts the helper. To be called on the main thread before sandbox_enter() and before there are other threads, at most
 * once. NULL: it cannot be started. Static.
 */
struct container_files *container_files_start(void);
