/* SPDX-License-Identifier: MIT */
/* synth_maps: the maps of a process as records. Private to synth; one owner, one thread. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "sysinfo/proc_maps.h"

struct synth_params;

struct synth_maps {
	const struct synth_params *params; /* borrowed */
	struct buf *out;                   /* borrowed */
	char *window;                      /* heap; of the file being read, or the name being asked for */
	struct buf huge_dirs;              /* where hugetlbfs is mounted, each with its NUL */
	struct proc_map vsyscall;          /* what every process has; end 0: nothing */
	bool huge_known, vsyscall_known;   /* these two were looked for: a command that waits has no maps yet */
	bool query_missing;                /* the kernel does not know PROCMAP_QUERY */
	uint64_t deadline_ns;              /* for this process; 0: none */
	struct {
		uint64_t ino;
		uint32_t maj, min;
		int bytes; /* of the id; <= 0: has none */
		uint8_t id[20];
	} last_file; /* whose build-id was read last: neighbouring maps are of one file */
};

int synth_maps_init(struct synth_maps *maps, const struct synth_params *params, struct buf *out);
void synth_maps_fini(struct synth_maps *maps);

/* `fd` is an open /proc/PID/maps. 0; what cannot be read, because the process has just ended, is left out. */
int synth_maps_put(struct synth_maps *maps, pid_t pid, int fd);

/* Where hugetlbfs is mounted, each with a NUL: from the text of /proc/self/mounts, which is changed. */
void synth_huge_dirs(char *mounts, struct buf *ret);

/* The records of modules, from the texts of /proc/modules and `dir`/modules.dep. Apart so that tests can give them. */
int synth_modules_text(const struct synth_params *params, const char *modules, const char *dep, const char *dir,
		       struct buf *out);
