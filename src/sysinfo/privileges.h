/* SPDX-License-Identifier: MIT */
/*
 * privileges: what a recorder gives up when its events are open. Capabilities belong to a thread, and threads that it
 * starts later inherit them: capabilities(7).
 */
#pragma once

#include <stdbool.h>

/*
 * The calling thread, and those that it starts from now on: no program that is executed gives it more rights
 * (no_new_privs), and of its capabilities there stay only those that a recording uses after its events were opened:
 *
 * - DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER: files of others, outputs in directories of others
 * - SYS_PTRACE, CHECKPOINT_RESTORE: /proc/PID/maps, root and map_files of others
 * - SYSLOG: addresses in /proc/kallsyms
 * - SYS_NICE, IPC_LOCK: threads that drain are real-time, and their memory stays
 * - KILL, when `signals_others`: the end of a command of another user, --on-pressure=freeze
 *
 * SYS_ADMIN is given up, too, but for single calls: see privileges_borrow_admin(). Linux before 5.9 has no
 * CHECKPOINT_RESTORE: there it stays. A process without these capabilities loses nothing.
 */
void privileges_drop(bool signals_others);

/*
 * Gives CAP_SYS_ADMIN to the calling thread until privileges_return_admin(). Two things need it: bpf(2), for programs
 * that others loaded, and opening /proc/iomem, for the addresses in it. false: the thread cannot have it, or has it
 * already; then privileges_return_admin() must not be called.
 */
bool privileges_borrow_admin(void);
void privileges_return_admin(void);
