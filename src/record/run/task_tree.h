/* SPDX-License-Identifier: MIT */
/*
 * task_tree: the threads of a process and of its descendants, as proc(5) lists them at that moment. Private to
 * record/run. Any thread.
 */
#pragma once

#include <sys/types.h>

struct buf;
struct hash_table;

/*
 * Appends the uint32_t tid of each thread that is not in `known` (by tid), and adds it there. Processes whose parent
 * has ended are no descendants; without CONFIG_PROC_CHILDREN none are found. 0 or -ENOMEM.
 */
int task_tree_list(pid_t pid, struct hash_table *known, struct buf *ret_tids);
