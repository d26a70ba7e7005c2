/* SPDX-License-Identifier: MIT */
/*
 * privileges: which capabilities this process has, and which of them a recorder gives up when its events are open;
 * which namespaces it is in. Capabilities belong to a thread, and threads that it starts later inherit them:
 * capabilities(7).
 */
#pragma once

#include <stdbool.h>

/*
 * Whether the calling thread has CAP_PERFMON, or CAP_SYS_ADMIN, which implies it. In a user namespace it may have them
 * although perf_event_open(2) does not accept them: privileges_are_namespaced().
 */
bool privileges_have_perfmon(void);

/* Whether memory for rings may be locked beyond RLIMIT_MEMLOCK: CAP_IPC_LOCK, in the first user namespace. */
bool privileges_may_lock_memory(void);

/*
 * Whether this process is in a user namespace other than the first one. perf_event_open(2) needs capabilities in the
 * first one. false: also when it is not known.
 */
bool privileges_are_namespaced(void);

/*
 * Whether this process is in a process namespace other than the first one. Then the numbers of tasks in payloads of
 * tracepoints are not those that it knows. false: also when it is not known.
 */
bool privileges_pids_are_namespaced(void);

/*
 * How the user can get a capability that is missing: static text for messages, to be printed in brackets after its
 * name.
 */
const char *privileges_advice(void);

/*
 * Applies to the calling thread and to threads that it starts later. Sets no_new_privs, so no program that is executed
 * gains rights, and drops all capabilities but those that a recording needs after its events were opened:
 *
 * - DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER: read files of other users, write outputs into their directories
 * - SYS_PTRACE, CHECKPOINT_RESTORE: /proc/PID/maps, root and map_files of processes of other users
 * - SYSLOG: addresses in /proc/kallsyms
 * - SYS_NICE, IPC_LOCK: real-time priority and locked memory for threads that drain
 * - KILL, when `signals_others`: end a command that runs as another user; --on-pressure=freeze
 *
 * SYS_ADMIN, or PERFMON where it is not there, stays permitted but not effective, see privileges_borrow_admin(); on
 * Linux before 5.9, which has no CHECKPOINT_RESTORE, it stays effective. Nothing fails when the process has none of
 * these capabilities.
 */
void privileges_drop(bool signals_others);

/*
 * Makes CAP_SYS_ADMIN effective for the calling thread until privileges_return_admin(). It is needed for bpf(2) on
 * programs that others loaded, for the addresses in /proc/iomem and for open_tree(2). false: the thread cannot have it,
 * or it is effective already; then privileges_return_admin() must not be called.
 */
bool privileges_borrow_admin(void);
/* The same of CAP_SYS_ADMIN or CAP_PERFMON: to open events again. */
bool privileges_borrow_perfmon(void);
void privileges_return_admin(void);
