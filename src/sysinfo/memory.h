/* SPDX-License-Identifier: MIT */
/*
 * memory: how much this process may still take without swapping, and without being killed for it: of the machine, of
 * the control groups that it is in (a container's, say), and of its own address space; and how much it took. Any
 * thread.
 *
 * Source: the kernel's Documentation/admin-guide/cgroup-v2.rst ("memory.max") and cgroup-v1/memory.rst; cgroups(7).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* `root`: where /proc and the mounts are, "" outside of tests. At least 1; 0: not known. */
uint64_t memory_available(const char *root);

/*
 * Whether addresses count that are never touched: they are limited (RLIMIT_AS), or the kernel keeps memory for all of
 * them (proc(5), vm.overcommit_memory = 2).
 */
bool memory_counts_addresses(const char *root);

/* The most that was resident since the exec of this program, in bytes. 0 or -errno. Source: proc(5), VmHWM. */
int memory_peak(uint64_t *ret_bytes);
