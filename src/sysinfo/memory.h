/* SPDX-License-Identifier: MIT */
/*
 * memory: how much this process may still take without swapping, and without being killed for it: of the machine, of
 * the control groups that it is in (a container's, say), and of its own address space. Any thread.
 *
 * Source: the kernel's Documentation/admin-guide/cgroup-v2.rst ("memory.max") and cgroup-v1/memory.rst; cgroups(7).
 */
#pragma once

#include <stdint.h>

/* `root`: where /proc and the mounts are, "" outside of tests. At least 1; 0: not known. */
uint64_t memory_available(const char *root);
