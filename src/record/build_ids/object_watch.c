/* SPDX-License-Identifier: MIT */
#include "record/build_ids/object_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpuset.h"
#include "base/fd.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/text.h"
#include "perfdata/perf_maps.h"
#include "perfdata/record.h"
#include "record/build_ids/mapping_processes.h"
#include "record/features/bpf_programs.h"
#include "record/setup/target.h"
#include "stream/ring.h"
#include "sysinfo/elf_note.h"
#include "sysinfo/thread.h"
#include "tasks/task_event.h"

enum {
	RING_PAGES = 8,
	MAX_EVENTS = 1024,     /* one for each CPU and task */
	MAX_OBJECTS = 1 << 17, /* known; so many are open at most: */
	MAX_OPEN = 8192,       /* of these and all others; of one process half of them: has_room() */
	MAX_COUNTED = 1 << 16, /* objects without room; then those are not known */
	PROCESS_FDS = 2,
	RINGS_PART_OF_FDS = 2, /* of those that we may have, at most */
	PART_OF_FDS = 4,
	MAX_TRIES = 64, /* to open an object */
	MAX_ROOTS = 64,
	MAX_PROCESSES = 1024,       /* with code compiled at run time */
	MAPS_MAX_BYTES = 1 << 30,   /* of those that have ended */
	STATUS_MAX_BYTES = 1 << 20, /* it names up to 65536 groups: NGROUPS_MAX of <linux/limits.h> */
	FDS_LOOKED_AT = 4096,       /* of a process */
	CLOCKS_DIFFER_S = 5,        /* the clock was set a little since, or is that of another machine's file system */
	LEAST_REST_NS = 1000000,    /* between two looks at the rings: mappings come in bursts */
	MOST_REST_NS = 25000000,    /* a ring has room for 200 mappings */
	HUNG_UP_MS = 100,
	/* A time of a file may be so much too early: a tick of 100 Hz, more while a hypervisor has taken a CPU away. */
	FILE_TIMES_DIFFER_NS = 25000000,
	EARLIER_AT_ONCE = 64,  /* processes */
	EARLIER_AFTER_MS = 20, /* what was mapped before is opened; a shorter recording looks for it at the end alone */
	STOP_TIMEOUT_S = 2,    /* objects may be many; and then a file system may not answer: */
	JOIN_TIMEOUT_S = 3,
};

#define UNKNOWN_UID ((uid_t)-1)

/* Where a process mapped an object: it may be the only one that sees the file, and for a moment. */
struct watched_map {
	struct watched_map *next;
	uint64_t start, end;
	pid_t pid;
	bool had_it; /* when the recording began */
	char name[];
};

/* A file when it was opened. */
struct seen_file {
	struct file_stamp stamp;
	int64_t changed_ns;     /* st_ctim: as long as it is the same nothing was changed */
	int64_t opened_ns;      /* CLOCK_REALTIME */
	int64_t written_by_ns;  /* CLOCK_REALTIME: it was not written to between then and when it was opened */
	struct elf_id build_id; /* len 0: it has none, or was not read */
	bool was_read, is_elf;  /* is_elf: it was, if it was read */
};

/* What later maps of an object were of, compared with the first one. */
enum later_contents {
	LATER_SAME,   /* as far as it was looked at: watched_object.last_seen */
	LATER_UNSURE, /* it was written to, perhaps with something else for a while */
	LATER_OTHER,  /* another build */
};

/* Maps of an object that is open, since it was looked at. */
struct later_maps {
	struct watched_object *next; /* object with such maps */
	int64_t first_ns;            /* of CLOCK_REALTIME */
	uint64_t start, end;         /* of the last one, in: */
	pid_t pid;                   /* 0: a process outside of our PID namespace */
	bool is_listed;              /* there are such maps */
};

struct watched_object {
	struct watched_object *next_pending; /* or the next one that is forgotten, or spare */
	struct file_id file;
	int64_t mapped_ns;          /* of CLOCK_REALTIME: first, or when the watch was opened */
	int64_t last_mapped_ns;     /* the last time, since the watch was opened */
	struct seen_file seen;      /* stamp.bytes 0: it was never opened */
	struct seen_file last_seen; /* the same, or how it was behind later maps */
	struct later_maps later;
	enum later_contents later_contents;
	struct watched_map *maps, *last_map; /* heap; not tried yet, oldest first; NULL: none, it is not pending */
	char *name;                          /* heap; of the last map; NULL: it never had room */
	struct elf_id build_id;
	unsigned nr_tries;
	unsigned output;   /* object_watch_next_output(): the last one in which it was mapped */
	int fd;            /* -1: not opened */
	pid_t opened_for;  /* a process that has mapped it */
	bool is_readable;  /* and not only held */
	bool has_no_room;  /* to be opened */
	bool was_read;     /* its build-id, if it has one */
	bool is_tried;     /* now, by the thread */
	bool may_be_later; /* mapped_ns: that is only known to be after it */
};

/* Those that are to be opened, oldest first. */
struct pending_objects {
	struct watched_object *first, **last; /* last: where the next one goes */
};

/* With code compiled at run time. */
struct watched_process {
	pid_t pid, inner_pid; /* inner: as it sees itself */
	uid_t uid;
	uint64_t start_ns; /* of CLOCK_BOOTTIME; if not known, when the recording began */
	bool start_known;
	int64_t until_ns; /* when the recording ended, of one that is recovered; 0: not yet */
	int tmp_fd;       /* its /tmp (O_PATH); -1: not reached */
	int pidfd;        /* -1: it has ended, or cannot be watched */
	unsigned output;  /* as of objects; when it ended */
	bool ended;       /* its map was read then: */
	bool reused;      /* another process has the number */
	bool polled;
	int map_err; /* 0 or -errno */
	int64_t map_written_ns;
	struct buf map; /* the text */
};

/* The root of a mount namespace that is not ours. */
struct watched_root {
	struct stat namespace;
	int fd;          /* O_PATH */
	unsigned output; /* as of objects: of its processes */
};

struct object_watch {
	pthread_mutex_t lock; /* of the tables; not held while a file is opened */
	pthread_mutex_t rings_lock;
	_Alignas(8) uint8_t record[UINT16_MAX + 1]; /* under rings_lock; too large for a stack of `ulimit -s 64` */
	struct pool pool;
	struct hash_table objects;               /* by hash of the file: struct watched_object */
	struct hash_table processes;             /* by pid: struct watched_process */
	struct buf earlier_pids;                 /* pid_t: that had run-time code when the recording began, */
	size_t nr_earlier_noted;                 /* and how many of these were noted as processes */
	struct hash_table nr_open_of;            /* by pid: objects that were opened because it has mapped them */
	struct pending_objects pending, earlier; /* earlier: mapped when the recording began */
	struct watched_object *later;            /* those with later maps */
	struct watched_object *spare;            /* that were forgotten */
	bool has_initial_state;                  /* that of when it was opened was noted: others are later */
	unsigned output, first_output;           /* the number of the present one; of those that are not forgotten */
	size_t nr_open, max_open;                /* file descriptors: of objects, processes and roots */
	size_t nr_not_opened, nr_too_late;       /* objects: they have no room; there was no time at the end */
	size_t nr_unanswered;                    /* objects: their file system does not answer */
	uint64_t stop_by_ns;                     /* of CLOCK_MONOTONIC; 0: it does not end yet */
	uint64_t map_bytes;                      /* read of processes that have ended */
	uint64_t start_ns;                       /* of CLOCK_BOOTTIME: when it was opened */
	int64_t start_wall_ns;                   /* the same, of CLOCK_REALTIME */
	int64_t start_tick_ns;                   /* and of CLOCK_REALTIME_COARSE, by which files get their times */
	struct bpf_programs *programs;           /* NULL: they are not wanted */
	/* The thread's own from here on. */
	struct watched_root roots[MAX_ROOTS];
	size_t nr_roots;
	struct ring *rings;    /* heap, and so are the polls: one for each ring, wake, exits */
	int *programs_fds;     /* heap; by ring: the event of its BPF programs; -1: none */
	bool has_all_programs; /* the rings of the first task have those of all tasks */
	struct pollfd *polls;
	size_t nr_rings, nr_polls;
	struct watched_process *exits[MAX_PROCESSES]; /* whose pidfd is polled behind wake */
	struct notifier wake;                         /* something is pending, or it is to end */
	uint64_t rest_ns, earlier_at_ns;              /* of CLOCK_MONOTONIC */
	bool running, abandoned, reports_missed;
	bool ended;         /* under the lock, and so is `end`, which tells of it */
	pthread_cond_t end; /* of CLOCK_MONOTONIC */
	pthread_t thread;
};

static int64_t ns_of(const struct timespec *time)
{
	return time->tv_sec * INT64_C(1000000000) + time->tv_nsec;
}

static int64_t ns_of_statx(const struct statx_timestamp *time)
{
	return time->tv_sec * INT64_C(1000000000) + time->tv_nsec;
}

static uint64_t file_key(const struct file_id *file)
{
	return hash_mix(hash_mix(file->inode, file->major), file->minor);
}

/* The lock is held. */
static struct watched_object *find_object(const struct object_watch *watch, const struct file_id *file)
{
	uint64_t key = file_key(file);

	for (struct hash_slot *slot = hash_table_find(&watch->objects, key); slot;
	     slot = hash_table_next(&watch->objects, slot)) {
		struct watched_object *object = slot->item;
		/* A number that is used again is another file; /proc/PID/maps tells no generation. */
		if (file_id_equal(&object->file, file))
			return object;
	}
	return NULL;
}

/* The lock is held. NULL: out of memory, or there are too many. */
static struct watched_object *add_object(struct object_watch *watch, const struct file_id *file)
{
	struct watched_object *spare = watch->spare, *object = spare;

	if (watch->objects.nr >= MAX_OBJECTS)
		return NULL;
	if (!object)
		object = pool_take(&watch->pool, sizeof(*object));
	if (!object || hash_table_add(&watch->objects, file_key(file), object))
		return NULL;
	if (spare)
		watch->spare = spare->next_pending;
	*object = (struct watched_object){.file = *file, .mapped_ns = INT64_MAX, .fd = -1};
	return object;
}

/*
 * The lock is held. One process can map more files than can be open: it gets no more descriptors than it leaves to
 * others.
 */
static bool has_room(const struct object_watch *watch, pid_t pid)
{
	return watch->nr_open < watch->max_open &&
	       hash_table_find_number(&watch->nr_open_of, (uint64_t)pid) < watch->max_open - watch->nr_open;
}

/* The lock is held. Not while it may still be opened because of another process. */
static void note_no_room(struct object_watch *watch, struct watched_object *object)
{
	if (object->has_no_room || object->maps)
		return;
	object->has_no_room = true;
	watch->nr_not_opened++;
}

/* The lock is held. Out of memory: it is not counted as one of the process. */
static void note_opened(struct object_watch *watch, struct watched_object *object, pid_t pid)
{
	struct hash_slot *slot = hash_table_find(&watch->nr_open_of, (uint64_t)pid);

	if (slot)
		slot->number++;
	else
		(void)!hash_table_add_number(&watch->nr_open_of, (uint64_t)pid, 1);
	watch->nr_open++;
	object->opened_for = pid;
	watch->nr_not_opened -= object->has_no_room;
	object->has_no_room = false;
}

/* The lock is held. */
static void note_closed(struct object_watch *watch, const struct watched_object *object)
{
	struct hash_slot *slot = hash_table_find(&watch->nr_open_of, (uint64_t)object->opened_for);

	watch->nr_open--;
	if (slot && slot->number > 1)
		slot->number--;
	else if (slot)
		hash_table_remove(&watch->nr_open_of, slot);
}

static void free_maps(struct watched_map *maps)
{
	while (maps) {
		struct watched_map *next = maps->next;
		free(maps);
		maps = next;
	}
}

static void replace_last_map(struct watched_object *object, struct watched_map *map)
{
	struct watched_map **at = &object->maps;

	while (*at != object->last_map)
		at = &(*at)->next;
	*at = map;
	free(object->last_map);
	object->last_map = map;
}

/* Behind those that are to be tried. */
static void add_map(struct watched_object *object, struct watched_map *map, struct pending_objects *list)
{
	if (object->maps) {
		object->last_map->next = map;
	} else {
		object->maps = map;
		object->next_pending = NULL;
		*list->last = object;
		list->last = &object->next_pending;
	}
	object->last_map = map;
	object->nr_tries++;
}

/* NULL: out of memory. */
static struct watched_map *map_of(const struct task_event *event, bool had_it)
{
	struct watched_map *map = malloc(sizeof(*map) + event->name.len + 1);

	if (!map)
		return NULL;
	*map = (struct watched_map){
		.start = event->start, .end = event->start + event->len, .pid = (pid_t)event->pid, .had_it = had_it};
	memcpy(map->name, event->name.ptr, event->name.len);
	map->name[event->name.len] = '\0';
	return map;
}

/*
 * What the initial state of a later output tells was mapped since the watch was opened, if it is not known: its record
 * is to come, or was lost. That of a snapshot of retained records is a later one, too, and is written before the next
 * output has a number.
 */
static void note_time(const struct object_watch *watch, struct watched_object *object, int64_t time_ns, bool had_it)
{
	const bool is_known = object->mapped_ns != INT64_MAX;

	if (time_ns > object->last_mapped_ns)
		object->last_mapped_ns = time_ns;
	if (had_it && watch->has_initial_state && is_known)
		return;
	if (!had_it && object->may_be_later)
		object->mapped_ns = time_ns;
	if (time_ns < object->mapped_ns)
		object->mapped_ns = time_ns;
	object->may_be_later = had_it && watch->has_initial_state;
}

/* The lock is held. The object is open: whether it is still what it was is looked at soon. */
static void note_later_map(struct object_watch *watch, struct watched_object *object, const struct later_maps *map)
{
	struct later_maps *later = &object->later;

	if (object->later_contents != LATER_SAME)
		return;
	if (!later->is_listed) {
		later->first_ns = map->first_ns;
		later->next = watch->later;
		later->is_listed = true;
		watch->later = object;
	}
	later->start = map->start;
	later->end = map->end;
	later->pid = map->pid;
}

/*
 * The lock is held. Out of memory: then it is not watched. The first process that mapped it may have been gone before
 * it could be opened, or did not see it under its path: then the next one is tried. Of those that had it when the
 * recording began two are enough: they live, and one of them may have no room.
 */
static void note_object(struct object_watch *watch, const struct task_event *event, int64_t time_ns, bool had_it)
{
	struct watched_object *object = event->id.file.inode ? find_object(watch, &event->id.file) : NULL;
	const pid_t pid = (pid_t)event->pid;
	bool room = has_room(watch, pid);

	if (!object && event->id.file.inode && (room || watch->nr_not_opened < MAX_COUNTED))
		object = add_object(watch, &event->id.file);
	if (!object)
		return;
	object->output = watch->output;
	note_time(watch, object, time_ns, had_it);
	const struct later_maps later = {
		.first_ns = time_ns, .start = event->start, .end = event->start + event->len, .pid = pid};
	if (object->fd >= 0 && !had_it)
		note_later_map(watch, object, &later);
	if (object->fd >= 0 || object->nr_tries == MAX_TRIES)
		return;
	if (!room) {
		note_no_room(watch, object);
		return;
	}
	bool enough = had_it && object->maps && (object->maps != object->last_map || object->maps->pid == pid);
	struct watched_map *map = map_of(event, had_it);
	char *name = object->name && !strcmp(object->name, event->name.ptr) ? NULL : strdup(event->name.ptr);
	if (name) {
		free(object->name);
		object->name = name;
	}
	if (map && enough)
		replace_last_map(object, map);
	else if (map)
		add_map(object, map, had_it ? &watch->earlier : &watch->pending);
}

static bool is_run_time_code(const char *name)
{
	return strcmp(name, "//anon") == 0 || strncmp(name, "/dev/zero", 9) == 0 ||
	       strncmp(name, "/anon_hugepage", 14) == 0;
}

/* The number behind a word at the start of a line, the last one of the line if there are several. -1: not there. */
static long status_number(const char *status, const char *word, bool last)
{
	const char *line = strstr(status, word);
	long number = -1;

	if (!line)
		return -1;
	for (char *end = (char *)line + strlen(word);; line = end) {
		const char *from = end;
		long next = strtol(from, &end, 10);
		if (end == from || memchr(from, '\n', (size_t)(end - from)))
			return number;
		if (number < 0 || last)
			number = next;
	}
}

/* Its last records may come after its end. */
static bool is_reused(const struct watched_process *process)
{
	bool reaped = syscall(SYS_pidfd_send_signal, process->pidfd, 0, NULL, 0) && errno == ESRCH;

	return reaped && (kill(process->pid, 0) == 0 || errno == EPERM);
}

static void close_process(struct watched_process *process)
{
	if (process->tmp_fd >= 0)
		close(process->tmp_fd);
	if (process->pidfd >= 0)
		close(process->pidfd);
	buf_fini(&process->map);
}

/* When it was forked, of CLOCK_BOOTTIME, in ns; 0: not known. Source: proc(5) "/proc/pid/stat", field 22. */
static uint64_t start_of(pid_t pid)
{
	AUTO_BUF struct buf stat = {0};
	char path[32];
	unsigned long long ticks;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fd_slurp(path, STATUS_MAX_BYTES, &stat))
		return 0;
	const char *behind_name = strrchr(buf_text(&stat), ')');
	if (!behind_name ||
	    sscanf(behind_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &ticks) != 1)
		return 0;
	return ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* With PROCESS_FDS file descriptors at most. false: it has ended. */
static bool open_process(const struct object_watch *watch, pid_t pid, struct watched_process *ret)
{
	AUTO_BUF struct buf status = {0};
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (fd_slurp(path, STATUS_MAX_BYTES, &status))
		return false;
	const char *text = buf_text(&status);
	long uid = status_number(text, "\nUid:", false), inner = status_number(text, "\nNSpid:", true);
	if (uid < 0)
		return false;
	*ret = (struct watched_process){.pid = pid, .inner_pid = inner > 0 ? (pid_t)inner : pid, .uid = (uid_t)uid};
	ret->start_ns = start_of(pid);
	ret->start_known = ret->start_ns != 0;
	if (!ret->start_known) /* it has ended */
		ret->start_ns = watch->start_ns;
	ret->pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* closed by exec: pidfd_open(2) */
	const int tmp_fd = object_file_open_directory(pid, "tmp");
	ret->tmp_fd = tmp_fd < 0 ? -1 : tmp_fd;
	return true;
}

/* The lock is held. Whether the process is to be opened. */
static bool wants_process(struct object_watch *watch, pid_t pid)
{
	struct watched_process *process = pid > 0 ? hash_table_find_item(&watch->processes, (uint64_t)pid) : NULL;

	if (process)
		process->reused |= process->ended && is_reused(process);
	return pid > 0 && !process && watch->processes.nr < MAX_PROCESSES &&
	       watch->nr_open + PROCESS_FDS <= watch->max_open;
}

/* The lock is held. Takes the descriptors. */
static void add_process(struct object_watch *watch, struct watched_process *opened)
{
	struct watched_process *process = wants_process(watch, opened->pid) ? malloc(sizeof(*process)) : NULL;

	if (!process || hash_table_add(&watch->processes, (uint64_t)opened->pid, process)) {
		close_process(opened);
		free(process);
		return;
	}
	*process = *opened;
	process->output = watch->output;
	watch->nr_open += PROCESS_FDS;
}

/* The lock is held, for few system calls: few processes start to compile at a time. */
static void note_process(struct object_watch *watch, pid_t pid)
{
	struct watched_process opened;

	if (wants_process(watch, pid) && open_process(watch, pid, &opened))
		add_process(watch, &opened);
}

static size_t nr_earlier(const struct object_watch *watch)
{
	return watch->earlier_pids.len / sizeof(pid_t);
}

static pid_t earlier_pid(const struct object_watch *watch, size_t i)
{
	pid_t pid;

	memcpy(&pid, watch->earlier_pids.data + i * sizeof(pid), sizeof(pid));
	return pid;
}

/*
 * The lock is held. They may be thousands, which the recording does not wait for: the thread looks at them. The maps of
 * a process follow each other. Out of memory: then it is looked at when it was sampled and lives at the end.
 */
static void note_earlier_process(struct object_watch *watch, pid_t pid)
{
	if (watch->nr_earlier_noted == nr_earlier(watch))
		watch->nr_earlier_noted = watch->earlier_pids.len = 0;
	size_t nr = nr_earlier(watch);
	if (!nr || earlier_pid(watch, nr - 1) != pid)
		buf_put(&watch->earlier_pids, &pid, sizeof(pid));
}

/* Some of them, so that rings are read in between. Whether more are left. */
static bool note_earlier_processes(struct object_watch *watch)
{
	bool more = true;

	for (unsigned i = 0; i < EARLIER_AT_ONCE && more; i++) {
		struct watched_process opened;
		pid_t pid = 0;
		pthread_mutex_lock(&watch->lock);
		if (watch->nr_earlier_noted < nr_earlier(watch))
			pid = earlier_pid(watch, watch->nr_earlier_noted++);
		bool wanted = wants_process(watch, pid);
		more = !watch->stop_by_ns && watch->nr_earlier_noted < nr_earlier(watch);
		pthread_mutex_unlock(&watch->lock);
		if (!wanted || !open_process(watch, pid, &opened))
			continue;
		pthread_mutex_lock(&watch->lock);
		add_process(watch, &opened);
		pthread_mutex_unlock(&watch->lock);
	}
	return more;
}

/* had_it: what it tells was so when the recording began; else it ends with its time, see open_event(). */
static void note_record(struct object_watch *watch, const struct perf_event_header *header, bool had_it)
{
	int64_t time_ns = watch->start_wall_ns;
	const size_t trailer_bytes = had_it ? 0 : sizeof(time_ns);
	struct task_event event;

	if (header->type != PERF_RECORD_MMAP2 || task_event_decode(header, header, trailer_bytes, &event) <= 0 ||
	    (event.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER || !(event.prot & PROT_EXEC))
		return;
	if (!had_it)
		memcpy(&time_ns, (const uint8_t *)header + header->size - trailer_bytes, sizeof(time_ns));
	if (is_run_time_code(event.name.ptr) && had_it)
		note_earlier_process(watch, (pid_t)event.pid);
	else if (is_run_time_code(event.name.ptr))
		note_process(watch, (pid_t)event.pid);
	else if (((const char *)event.name.ptr)[0] == '/')
		note_object(watch, &event, time_ns, had_it);
	if (had_it && path_is_memory(event.name.ptr))
		note_earlier_process(watch, (pid_t)event.pid);
}

/* Bytes of a ring from `at` on; they may be in two parts. */
static void copy_from(const struct span spans[2], size_t at, void *ret, size_t len)
{
	size_t front = at < spans[0].len ? spans[0].len - at : 0;

	if (front > len)
		front = len;
	if (front)
		memcpy(ret, (const uint8_t *)spans[0].ptr + at, front);
	if (len > front)
		memcpy((uint8_t *)ret + front, (const uint8_t *)spans[1].ptr + (at + front - spans[0].len),
		       len - front);
}

/* false: it is something else. */
static bool note_program(struct object_watch *watch, const struct perf_event_header *header)
{
	struct record_bpf_event event;

	if (header->type != PERF_RECORD_BPF_EVENT || header->size < sizeof(event))
		return false;
	memcpy(&event, header, sizeof(event));
	if (event.type == PERF_BPF_EVENT_PROG_LOAD)
		bpf_programs_keep(watch->programs, event.id);
	return true;
}

static void read_ring(struct object_watch *watch, struct ring *ring)
{
	uint8_t *record = watch->record;
	struct perf_event_header header;
	struct span spans[2] = {{0}, {0}};
	size_t bytes = ring_peek(ring, spans);

	for (size_t at = 0; bytes - at >= sizeof(header); at += header.size) {
		copy_from(spans, at, &header, sizeof(header));
		if (header.size < sizeof(header) || header.size > bytes - at)
			break;
		copy_from(spans, at, record, header.size);
		if (note_program(watch, (const void *)record))
			continue;
		pthread_mutex_lock(&watch->lock);
		note_record(watch, (const void *)record, false);
		pthread_mutex_unlock(&watch->lock);
	}
	ring_take(ring, bytes);
	ring_release(ring, bytes);
}

static void read_rings(struct object_watch *watch)
{
	pthread_mutex_lock(&watch->rings_lock);
	for (size_t i = 0; i < watch->nr_rings; i++)
		read_ring(watch, &watch->rings[i]);
	pthread_mutex_unlock(&watch->rings_lock);
}

void object_watch_note(struct object_watch *watch, struct span records)
{
	struct perf_event_header header;
	const uint8_t *at = records.ptr;

	if (!watch)
		return;
	read_rings(watch); /* until the thread starts no other does, and they have room for few mappings */
	pthread_mutex_lock(&watch->lock);
	for (size_t left = records.len; left >= sizeof(header); at += header.size, left -= header.size) {
		memcpy(&header, at, sizeof(header));
		if (header.size < sizeof(header) || header.size > left)
			break;
		note_record(watch, (const void *)at, true);
	}
	watch->has_initial_state |= records.len > 0;
	bool pending = watch->earlier.first || watch->later || watch->nr_earlier_noted < nr_earlier(watch);
	pthread_mutex_unlock(&watch->lock);
	if (pending)
		notifier_notify(&watch->wake);
}

/* Processes that end at once leave their container to others: its root is asked again. */
static void note_root(struct object_watch *watch, pid_t pid)
{
	struct stat ours, its;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	if (watch->nr_roots == MAX_ROOTS || stat("/proc/self/ns/mnt", &ours) || stat(path, &its) ||
	    (ours.st_ino == its.st_ino && ours.st_dev == its.st_dev))
		return;
	pthread_mutex_lock(&watch->lock);
	const unsigned output = watch->output;
	pthread_mutex_unlock(&watch->lock);
	for (size_t i = 0; i < watch->nr_roots; i++) {
		if (watch->roots[i].namespace.st_ino != its.st_ino)
			continue;
		watch->roots[i].output = output;
		return;
	}
	AUTO_FD int fd = object_file_open_directory(pid, NULL);
	if (fd < 0)
		return; /* the process has ended */
	pthread_mutex_lock(&watch->lock);
	bool room = watch->nr_open < watch->max_open;
	watch->nr_open += room;
	pthread_mutex_unlock(&watch->lock);
	if (room)
		watch->roots[watch->nr_roots++] = (struct watched_root){its, take_fd(&fd), output};
}

/* Of object_watch_forget(), by the thread, which uses them without the lock. */
static void forget_roots(struct object_watch *watch)
{
	pthread_mutex_lock(&watch->lock);
	for (size_t i = 0; i < watch->nr_roots;) {
		if (watch->roots[i].output >= watch->first_output) {
			i++;
			continue;
		}
		close(watch->roots[i].fd);
		watch->roots[i] = watch->roots[--watch->nr_roots];
		watch->nr_open--;
	}
	pthread_mutex_unlock(&watch->lock);
}

static bool is_open_or_unanswered(int fd)
{
	return fd >= 0 || fd == -ETIMEDOUT;
}

/*
 * `processes`: for all maps of these moments. -errno: it cannot be opened any more; -ETIMEDOUT: its file system does
 * not answer, and no other way to it is tried.
 */
static int open_map(struct object_watch *watch, const struct watched_map *map, const struct object_mapping *mapped,
		    struct mapping_processes *processes)
{
	int fd = object_file_open(map->name, mapped);

	if (is_open_or_unanswered(fd))
		return fd;
	note_root(watch, map->pid);
	fd = object_file_open_map(map->pid, map->start, map->end, mapped);
	if (!is_open_or_unanswered(fd))
		fd = object_file_open_below_root(map->pid, map->name, mapped);
	if (!is_open_or_unanswered(fd))
		fd = mapping_processes_open_map(processes, map->pid, mapped);
	for (size_t i = 0; !is_open_or_unanswered(fd) && i < watch->nr_roots; i++)
		fd = object_file_open_in(watch->roots[i].fd, map->name, mapped);
	return fd;
}

/* Whether times in its file system are of this kernel's clock, and not of another machine's, or a program's. */
static bool has_our_times(int fd)
{
	struct statfs system;

	if (fstatfs(fd, &system))
		return false;
	switch ((uint32_t)system.f_type) {
	case BTRFS_SUPER_MAGIC:
	case EXT4_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC:
	case OVERLAYFS_SUPER_MAGIC:
	case TMPFS_MAGIC:
	case XFS_SUPER_MAGIC: return true;
	default: return false;
	}
}

/*
 * Whether an open file is as it was when the recording began; changed_ns: the later one of st_mtim and st_ctim. What is
 * written since then has no time before that of CLOCK_REALTIME_COARSE then: current_time() in the kernel's fs/inode.c.
 * Where times are cut to a millisecond or more, or of another clock, some more must lie between.
 */
static bool is_older(const struct object_watch *watch, int fd, int64_t changed_ns)
{
	const int64_t millisecond = 1000000;

	if (changed_ns + FILE_TIMES_DIFFER_NS < watch->start_wall_ns)
		return true; /* the usual case */
	return changed_ns < watch->start_tick_ns && changed_ns % millisecond && has_our_times(fd);
}

/*
 * While a process has mapped its program nothing can write to it (execve(2), ETXTBSY), and what is written to a library
 * runs. Of what has ended since the order of two times that are nearly the same is not known; and `cp -p` sets the time
 * back, but not that of the last change of the inode, of which there are others, too.
 */
static struct seen_file look_at_file(const struct object_watch *watch, int fd, const struct later_maps *map)
{
	struct seen_file seen = {.opened_ns = (int64_t)clock_ns(CLOCK_REALTIME), .written_by_ns = INT64_MIN};
	struct stat status;
	char path[96];

	if (fstat(fd, &status))
		return seen;
	const int64_t changed_ns = ns_of(&status.st_ctim);
	seen.changed_ns = changed_ns;
	seen.stamp = file_stamp_of(&status);
	int64_t last_ns = seen.stamp.written_ns;
	if (is_older(watch, fd, last_ns > changed_ns ? last_ns : changed_ns))
		return seen;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)map->pid, map->start, map->end);
	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW)) {
		last_ns = status.st_nlink && changed_ns > last_ns ? changed_ns : last_ns;
		last_ns += FILE_TIMES_DIFFER_NS;
	}
	/* A time to come was set by hand, or by the clock of another machine. */
	if (last_ns <= (int64_t)clock_ns(CLOCK_REALTIME) + FILE_TIMES_DIFFER_NS)
		seen.written_by_ns = last_ns;
	return seen;
}

/* Takes out those of processes that have no room. The lock is held. */
static struct watched_map *maps_with_room(const struct object_watch *watch, struct watched_map *maps)
{
	for (struct watched_map **at = &maps; *at;) {
		struct watched_map *map = *at;
		if (has_room(watch, map->pid)) {
			at = &map->next;
			continue;
		}
		*at = map->next;
		free(map);
	}
	return maps;
}

/* The lock is held. */
static bool is_too_late(const struct object_watch *watch)
{
	return watch->stop_by_ns && clock_ns(CLOCK_MONOTONIC) >= watch->stop_by_ns;
}

/* The lock is held. */
static void give_up(struct object_watch *watch, struct pending_objects *list)
{
	for (const struct watched_object *object = list->first; object; object = object->next_pending)
		watch->nr_too_late += object->fd < 0;
	list->first = NULL;
}

/* They came while it was opened; whether before or behind that is not known. The lock is held. */
static void note_maps_as_later(struct object_watch *watch, struct watched_object *object)
{
	const struct watched_map *last = object->last_map;

	if (object->maps && object->last_mapped_ns > object->seen.opened_ns)
		note_later_map(watch, object,
			       &(struct later_maps){.first_ns = object->seen.opened_ns,
						    .start = last->start,
						    .end = last->end,
						    .pid = last->pid});
	free_maps(take_ptr(object->maps));
}

/*
 * Its maps that were not tried yet are the caller's then. NULL: all were. It may have been noted once more while it was
 * opened, and is open since.
 */
static struct watched_object *take_pending(struct object_watch *watch, struct pending_objects *list,
					   struct watched_map **ret_maps)
{
	pthread_mutex_lock(&watch->lock);
	if (is_too_late(watch))
		give_up(watch, list);
	struct watched_object *object = list->first;
	if (object) {
		list->first = object->next_pending;
		if (object->fd >= 0)
			note_maps_as_later(watch, object);
		*ret_maps = maps_with_room(watch, take_ptr(object->maps));
		object->is_tried = true;
		if (object->fd < 0 && !*ret_maps)
			note_no_room(watch, object);
	}
	if (!list->first)
		list->last = &list->first;
	pthread_mutex_unlock(&watch->lock);
	return object;
}

static bool all_had_it(const struct watched_map *map)
{
	while (map && map->had_it)
		map = map->next;
	return !map;
}

static void read_seen_build_id(struct seen_file *seen, int fd)
{
	int len = elf_note_of_fd(fd, seen->build_id.bytes);

	seen->build_id.len = len > 0 ? (uint8_t)len : 0;
	seen->is_elf = len != -EINVAL;
	seen->was_read = true;
}

/* By one of these maps; none may be left. */
static void open_object(struct object_watch *watch, struct watched_object *object, const struct watched_map *map,
			struct mapping_processes *processes)
{
	/* Most files that were mapped before the recording are never read. */
	const bool hold = !object->file.generation && all_had_it(map);
	const struct object_mapping mapped = {.file = object->file, .hold = hold};
	const struct watched_map *its = NULL;
	struct seen_file seen = {.stamp = {0}};
	int fd = -1;

	for (; map && !is_open_or_unanswered(fd); map = map->next) {
		its = map;
		fd = open_map(watch, map, &mapped, processes);
	}
	if (fd >= 0) {
		seen = look_at_file(watch, fd,
				    &(struct later_maps){.start = its->start, .end = its->end, .pid = its->pid});
		if (!mapped.hold)
			read_seen_build_id(&seen, fd);
		fd = object_file_leave_mount(fd, mapped.hold);
	}
	pthread_mutex_lock(&watch->lock);
	if (fd >= 0) {
		object->fd = fd;
		object->seen = object->last_seen = seen;
		object->is_readable = !mapped.hold;
		note_opened(watch, object, its->pid);
		if (path_is_memory(its->name) && seen.was_read && !seen.is_elf)
			note_process(watch, its->pid);
	}
	watch->nr_unanswered += fd == -ETIMEDOUT;
	object->is_tried = false;
	pthread_mutex_unlock(&watch->lock);
}

static void open_pending(struct object_watch *watch, struct pending_objects *list)
{
	struct mapping_processes processes = {0};
	struct watched_object *object;
	struct watched_map *maps = NULL;

	while ((object = take_pending(watch, list, &maps))) {
		open_object(watch, object, maps, &processes);
		free_maps(maps);
	}
	mapping_processes_fini(&processes);
}

/* Nearly all are: so the file system is not asked, which may not answer, but only what is known of the file here. */
static bool is_unchanged(const struct watched_object *object)
{
	const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
	const struct seen_file *last = &object->last_seen;
	struct statx now;

	return last->was_read && !statx(object->fd, "", flags, STATX_CTIME | STATX_MTIME | STATX_SIZE, &now) &&
	       ns_of_statx(&now.stx_ctime) == last->changed_ns &&
	       ns_of_statx(&now.stx_mtime) == last->stamp.written_ns && now.stx_size == last->stamp.bytes;
}

/* The file of *ret_fd, which is the caller's, is to be looked at. NULL: none is. */
static struct watched_object *take_later(struct object_watch *watch, struct watched_object *ret_known, int *ret_fd)
{
	struct watched_object *object = NULL;

	pthread_mutex_lock(&watch->lock);
	while (!object && watch->later && !is_too_late(watch)) {
		const int64_t now_ns = (int64_t)clock_ns(CLOCK_REALTIME);
		object = watch->later;
		*ret_known = *object;
		watch->later = object->later.next;
		object->later.is_listed = false;
		if (is_unchanged(object)) {
			object->last_seen.opened_ns = now_ns;
			object = NULL;
		}
	}
	if (object) {
		*ret_fd = fcntl(object->fd, F_DUPFD_CLOEXEC, 0);
		object->is_tried = true;
	}
	pthread_mutex_unlock(&watch->lock);
	return object;
}

static void put_later(struct object_watch *watch, struct watched_object *object, const struct seen_file *now,
		      enum later_contents contents)
{
	pthread_mutex_lock(&watch->lock);
	object->is_tried = false;
	object->later_contents = contents;
	if (contents == LATER_SAME) {
		object->last_seen = *now;
		object->seen.build_id = now->build_id;
		object->seen.was_read = now->was_read;
	}
	pthread_mutex_unlock(&watch->lock);
}

/*
 * A file that was written to and then mapped again, as by touch(1) or a copy of the same program, is what it was if it
 * has the same build-id, and nothing has written to it behind that map.
 */
static enum later_contents compare_later(const struct watched_object *known, const struct seen_file *now)
{
	const struct elf_id *before = &known->last_seen.build_id;

	if (before->len && now->build_id.len && !elf_id_equal(before, &now->build_id))
		return LATER_OTHER;
	return before->len && now->build_id.len && now->written_by_ns <= known->later.first_ns ? LATER_SAME
											       : LATER_UNSURE;
}

/* Once for all maps since the last time. */
static void look_at_later(struct object_watch *watch)
{
	struct watched_object known, *object;
	int fd;

	while ((object = take_later(watch, &known, &fd))) {
		AUTO_FD int its = fd;
		const struct seen_file *last = &known.last_seen;
		struct seen_file now = look_at_file(watch, its, &known.later);
		bool same = now.changed_ns == last->changed_ns && file_stamp_equal(&now.stamp, &last->stamp);

		AUTO_FD int reopened = known.is_readable ? -1 : object_file_reopen(its);
		read_seen_build_id(&now, known.is_readable ? its : reopened);
		put_later(watch, object, &now, same ? LATER_SAME : compare_later(&known, &now));
	}
}

/*
 * A file of root, or of ours, must be one that the user of the process can read as well: a user can give the name to
 * any file in a directory of that user.
 */
static bool may_be_map_of(const struct stat *status, const struct watched_process *process)
{
	bool trusted = !status->st_uid || status->st_uid == geteuid();

	return status->st_uid == process->uid || (trusted && (status->st_mode & S_IROTH));
}

/*
 * Among the first of its files; false also when it has ended, or is not ours to look at. A file of another name is not
 * looked at, and no file system asked: it may be one that does not answer.
 */
static bool has_open(const struct watched_process *process, const struct stat *file)
{
	char path[32], name[32], target[PATH_MAX];
	struct statx its;

	snprintf(name, sizeof(name), "/perf-%d.map", (int)process->inner_pid);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)process->pid);
	AUTO_FD int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; dir >= 0 && i < FDS_LOOKED_AT; i++) {
		snprintf(path, sizeof(path), "%d", i);
		ssize_t len = readlinkat(dir, path, target, sizeof(target));
		if (len < (ssize_t)strlen(name) || memcmp(target + len - strlen(name), name, strlen(name)) != 0)
			continue;
		if (statx(dir, path, AT_STATX_DONT_SYNC, STATX_INO, &its) == 0 && its.stx_ino == file->st_ino &&
		    makedev(its.stx_dev_major, its.stx_dev_minor) == file->st_dev)
			return true;
	}
	return false;
}

/*
 * A former process with the number left it, and its names are wrong. The clock may have been set since the process
 * wrote it, or the machine have stood still: not while the process has it open.
 */
static bool is_of_former(const struct stat *status, const struct watched_process *process)
{
	const int64_t second = 1000000000, written_ns = status->st_mtim.tv_sec * second + status->st_mtim.tv_nsec;
	int64_t lived_ns = (int64_t)(clock_ns(CLOCK_BOOTTIME) - process->start_ns);
	int64_t start_ns = (int64_t)clock_ns(CLOCK_REALTIME) - lived_ns;

	return written_ns < start_ns - CLOCKS_DIFFER_S * second && !has_open(process, status);
}

/* Another process with the number may have written it since: none that goes on from before then. */
static bool is_of_later(const struct stat *status, pid_t pid, int64_t until_ns)
{
	const int64_t second = 1000000000, written_ns = status->st_mtim.tv_sec * second + status->st_mtim.tv_nsec;
	const uint64_t start_ns = start_of(pid);
	int64_t lived_ns = start_ns ? (int64_t)(clock_ns(CLOCK_BOOTTIME) - start_ns) : 0;

	return until_ns && written_ns > until_ns + CLOCKS_DIFFER_S * second &&
	       (int64_t)clock_ns(CLOCK_REALTIME) - lived_ns > until_ns;
}

static int open_perf_map(const struct watched_process *process, int64_t *ret_written_ns)
{
	struct stat status;
	char path[64];

	if (process->tmp_fd < 0)
		return -ENOENT;
	snprintf(path, sizeof(path), "perf-%d.map", (int)process->inner_pid);
	AUTO_FD int fd = object_file_open_entry(process->tmp_fd, path);
	if (fd < 0)
		return fd;
	if (fstat(fd, &status))
		return -errno;
	if (!may_be_map_of(&status, process))
		return -EPERM;
	if (process->start_ns && is_of_former(&status, process))
		return process->start_known ? -ESRCH : -ECHILD;
	if (is_of_later(&status, process->inner_pid, process->until_ns))
		return -ETIME;
	if (status.st_size > PERF_MAP_MAX_BYTES)
		return -EFBIG;
	*ret_written_ns = ns_of(&status.st_mtim);
	return take_fd(&fd);
}

/* Its number, and the name of its map, may be another's from now on. */
static void read_last_map(struct object_watch *watch, struct watched_process *process)
{
	int64_t written_ns = 0;
	AUTO_FD int fd = open_perf_map(process, &written_ns);
	AUTO_BUF struct buf text = {0};
	uint64_t room = MAPS_MAX_BYTES - watch->map_bytes;
	int err = fd < 0 ? fd : fd_slurp_rest(fd, room < PERF_MAP_MAX_BYTES ? room : PERF_MAP_MAX_BYTES, &text);

	pthread_mutex_lock(&watch->lock);
	process->map_err = err;
	process->map_written_ns = written_ns;
	process->ended = true;
	process->output = watch->output;
	if (!err) {
		watch->map_bytes += text.len;
		process->map = text;
		text = (struct buf){0};
	}
	if (process->tmp_fd >= 0)
		close(process->tmp_fd);
	process->tmp_fd = -1;
	watch->nr_open--;
	pthread_mutex_unlock(&watch->lock);
}

/* Those that have ended, and those that are new. */
static void look_at_processes(struct object_watch *watch)
{
	size_t first = watch->nr_rings + 1;

	for (size_t i = first; i < watch->nr_polls;) {
		if (!watch->polls[i].revents) {
			i++;
			continue;
		}
		read_last_map(watch, watch->exits[i - first]);
		watch->polls[i] = watch->polls[--watch->nr_polls];
		watch->exits[i - first] = watch->exits[watch->nr_polls - first];
	}
	pthread_mutex_lock(&watch->lock);
	for (size_t i = 0; i < watch->processes.nr_slots; i++) {
		struct watched_process *process = watch->processes.slots[i].item;
		if (!process || process->polled || process->pidfd < 0)
			continue;
		process->polled = true;
		watch->exits[watch->nr_polls - first] = process;
		watch->polls[watch->nr_polls++] = (struct pollfd){.fd = process->pidfd, .events = POLLIN};
	}
	pthread_mutex_unlock(&watch->lock);
}

static void look(struct object_watch *watch)
{
	forget_roots(watch);
	look_at_processes(watch); /* what is new has the number then */
	read_rings(watch);
	open_pending(watch, &watch->pending);
	look_at_later(watch);
	look_at_processes(watch);
}

static bool is_stopping(struct object_watch *watch)
{
	pthread_mutex_lock(&watch->lock);
	bool stopping = watch->stop_by_ns != 0;
	pthread_mutex_unlock(&watch->lock);
	return stopping;
}

/* Mappings come in bursts; only the end is not waited for. */
static void rest(const struct object_watch *watch)
{
	struct pollfd wake = {.fd = watch->wake.fd, .events = POLLIN};

	(void)!ppoll(&wake, 1, &(struct timespec){.tv_nsec = (long)watch->rest_ns}, NULL);
}

/* How long what was mapped before can wait: at most as long as `timeout_ms`, -1 for ever. */
static int look_at_earlier(struct object_watch *watch, int timeout_ms)
{
	pthread_mutex_lock(&watch->lock);
	bool none = !watch->earlier.first && watch->nr_earlier_noted == nr_earlier(watch);
	pthread_mutex_unlock(&watch->lock);
	if (none)
		return timeout_ms;
	if (clock_ns(CLOCK_MONOTONIC) < watch->earlier_at_ns)
		return EARLIER_AFTER_MS;
	bool more = note_earlier_processes(watch);
	look_at_processes(watch);
	open_pending(watch, &watch->earlier);
	return more ? 0 : timeout_ms;
}

static void *run(void *data)
{
	struct object_watch *watch = data;
	struct priority before;
	const char *how;
	int timeout = -1;

	/* Processes of milliseconds have ended when it comes late; it sleeps nearly always. */
	(void)!priority_raise(0, &before, &how);
	watch->earlier_at_ns = clock_ns(CLOCK_MONOTONIC) + EARLIER_AFTER_MS * UINT64_C(1000000);
	for (;;) {
		notifier_arm(&watch->wake); /* before what it wakes for is looked at under the lock */
		bool last = is_stopping(watch);
		look(watch);
		if (last)
			break;
		int wait_ms = look_at_earlier(watch, timeout);
		rest(watch);
		if (poll(watch->polls, watch->nr_polls, wait_ms) < 0 && errno != EINTR)
			break;
		if (watch->polls[watch->nr_rings].revents)
			notifier_acknowledge(&watch->wake);
		for (size_t i = 0; i < watch->nr_rings; i++) {
			struct pollfd *poll = &watch->polls[i];
			if (!(poll->revents & POLLHUP) || poll->fd < 0)
				continue;
			/* The task has ended; its children may still fill the ring, and poll(2) would not wait. */
			poll->fd = -1 - poll->fd;
			timeout = HUNG_UP_MS;
		}
	}
	pthread_mutex_lock(&watch->lock);
	watch->ended = true;
	pthread_cond_signal(&watch->end);
	pthread_mutex_unlock(&watch->lock);
	return NULL;
}

static int open_event(const struct perf_event_attr *of, pid_t pid, int cpu)
{
	struct perf_event_attr attr = *of;

	attr.type = PERF_TYPE_SOFTWARE;
	attr.size = sizeof(attr);
	attr.config = PERF_COUNT_SW_DUMMY;
	attr.exclude_kernel = attr.exclude_hv = 1;
	attr.inherit = pid > 0;
	attr.watermark = 1;
	attr.wakeup_watermark = 1;
	/* the clock of the times of files; an event of hardware could not have it */
	attr.use_clockid = 1;
	attr.clockid = CLOCK_REALTIME;
	return (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/*
 * An event of their own, without sample_id: the kernel would make the BPF_EVENT records of all events that come behind
 * this one longer by it (sample_id_end()), and perf cannot read those.
 */
static int open_programs_event(pid_t pid, int cpu, int ring_fd)
{
	int fd = open_event(&(struct perf_event_attr){.bpf_event = 1}, pid, cpu); /* fails before Linux 5.1 */

	if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring_fd) == 0)
		return fd;
	close(fd);
	return -1;
}

/*
 * One event of each CPU, for all tasks, where that is allowed: each event that a task has costs 0.3 us when it is
 * switched out and in. -1: there is none, or the CPU has it.
 */
static int open_programs(struct object_watch *watch, pid_t pid, int cpu, int ring_fd, bool first_task)
{
	if (!watch->programs || (watch->has_all_programs && !first_task))
		return -1;
	int fd = open_programs_event(-1, cpu, ring_fd);
	watch->has_all_programs = fd >= 0;
	return fd >= 0 || pid < 0 ? fd : open_programs_event(pid, cpu, ring_fd);
}

static void open_ring(struct object_watch *watch, pid_t pid, int cpu, bool first_task)
{
	const struct perf_event_attr mappings = {
		.mmap = 1, .mmap2 = 1, .sample_type = PERF_SAMPLE_TIME, .sample_id_all = 1};
	int fd = open_event(&mappings, pid, cpu);

	if (fd < 0 || ring_map(&watch->rings[watch->nr_rings], fd, RING_PAGES)) {
		log_verbose("objects that are mapped on CPU %d are not opened at once: %s", cpu, strerror(errno));
		if (fd >= 0)
			close(fd);
		return;
	}
	watch->programs_fds[watch->nr_rings] = open_programs(watch, pid, cpu, fd, first_task);
	watch->polls[watch->nr_rings++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static int open_rings(struct object_watch *watch, const struct target *target, size_t max_fds)
{
	const struct cpuset *const cpus[] = {&target->cpus, &target->other_cpus};
	bool all = target->kind == EVENT_TARGET_SYSTEM || target->kind == EVENT_TARGET_CPUS;
	size_t nr_tasks = all ? 1 : target->nr_tids, nr_cpus = cpuset_count(cpus[0]) + cpuset_count(cpus[1]);
	size_t nr = nr_tasks * nr_cpus, nr_events = watch->programs ? 2 * nr : nr;

	if (nr > MAX_EVENTS || nr_events > max_fds / RINGS_PART_OF_FDS)
		nr = 0;
	watch->rings = calloc(nr + 1, sizeof(*watch->rings));
	watch->programs_fds = calloc(nr + 1, sizeof(*watch->programs_fds));
	watch->polls = calloc(nr + 1 + MAX_PROCESSES, sizeof(*watch->polls));
	if (!watch->rings || !watch->programs_fds || !watch->polls)
		return -ENOMEM;
	for (size_t i = 0; nr && i < 2 * nr_tasks; i++)
		for (int cpu = cpuset_next(cpus[i % 2], 0); cpu >= 0; cpu = cpuset_next(cpus[i % 2], cpu + 1))
			open_ring(watch, all ? -1 : target->tids[i / 2], cpu, i < 2);
	watch->polls[watch->nr_rings] = (struct pollfd){.fd = watch->wake.fd, .events = POLLIN};
	watch->nr_polls = watch->nr_rings + 1;
	return 0;
}

/* Half of the interval: then a process that is sampled is looked at before its next sample. */
static uint64_t rest_of(uint64_t interval_ns)
{
	uint64_t rest_ns = interval_ns / 2;

	return rest_ns < LEAST_REST_NS ? LEAST_REST_NS : rest_ns > MOST_REST_NS ? MOST_REST_NS : rest_ns;
}

int object_watch_open(const struct object_watch_params *params, struct object_watch **ret)
{
	struct object_watch *watch = calloc(1, sizeof(*watch));
	pthread_condattr_t attr;

	if (!watch)
		return -ENOMEM;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&watch->end, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&watch->lock, NULL);
	pthread_mutex_init(&watch->rings_lock, NULL);
	watch->pending.last = &watch->pending.first;
	watch->earlier.last = &watch->earlier.first;
	watch->start_ns = clock_ns(CLOCK_BOOTTIME);
	watch->start_wall_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	watch->start_tick_ns = (int64_t)clock_ns(CLOCK_REALTIME_COARSE);
	watch->rest_ns = rest_of(params->interval_ns);
	watch->reports_missed = params->reports_missed;
	watch->programs = params->bpf ? bpf_programs_new() : NULL;
	watch->max_open = params->max_fds / PART_OF_FDS < MAX_OPEN ? params->max_fds / PART_OF_FDS : MAX_OPEN;
	int err = notifier_open(&watch->wake);
	if (!err)
		err = open_rings(watch, params->target, params->max_fds);
	if (err) {
		object_watch_free(watch);
		return err;
	}
	*ret = watch;
	return 0;
}

int object_watch_start(struct object_watch *watch)
{
	int err = watch ? -pthread_create(&watch->thread, NULL, run, watch) : 0;

	if (watch)
		watch->running = !err;
	return err;
}

/* The lock is held. Whether the thread has ended in time. */
static bool wait_for_end(struct object_watch *watch)
{
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += JOIN_TIMEOUT_S;
	while (!watch->ended && !err)
		err = pthread_cond_timedwait(&watch->end, &watch->lock, &until);
	return watch->ended;
}

void object_watch_stop(struct object_watch *watch)
{
	if (!watch || !watch->running)
		return;
	watch->running = false;
	pthread_mutex_lock(&watch->lock);
	watch->stop_by_ns = clock_ns(CLOCK_MONOTONIC) + STOP_TIMEOUT_S * UINT64_C(1000000000);
	notifier_notify(&watch->wake);
	watch->abandoned = !wait_for_end(watch);
	pthread_mutex_unlock(&watch->lock);
	if (!watch->abandoned)
		pthread_join(watch->thread, NULL);
	if (!watch->reports_missed)
		return;
	if (watch->abandoned)
		log_note("a file system does not answer: objects whose files were not opened yet are not kept");
	else if (watch->nr_unanswered)
		log_note("a file system does not answer: %zu object%s could not be opened and %s not kept",
			 watch->nr_unanswered, text_s(watch->nr_unanswered), watch->nr_unanswered == 1 ? "is" : "are");
	if (!watch->abandoned && watch->nr_too_late)
		log_note("%zu object%s could not be opened within %d s at the end: what is gone of that is not kept",
			 watch->nr_too_late, text_s(watch->nr_too_late), STOP_TIMEOUT_S);
	if (watch->nr_not_opened)
		log_note("%zu object%s more than the limit of open files (ulimit -n) allows %s not kept",
			 watch->nr_not_opened, text_s(watch->nr_not_opened), watch->nr_not_opened == 1 ? "is" : "are");
}

static void object_fini(struct watched_object *object)
{
	if (object->fd >= 0)
		close(object->fd);
	free_maps(object->maps);
	free(object->name);
}

static void close_objects(struct object_watch *watch)
{
	for (size_t i = 0; i < watch->objects.nr_slots; i++) {
		struct watched_object *object = watch->objects.slots[i].item;
		if (object)
			object_fini(object);
	}
	for (size_t i = 0; i < watch->processes.nr_slots; i++) {
		struct watched_process *process = watch->processes.slots[i].item;
		if (process)
			close_process(process);
		free(process);
	}
	for (size_t i = 0; i < watch->nr_roots; i++)
		close(watch->roots[i].fd);
}

void object_watch_free(struct object_watch *watch)
{
	if (!watch)
		return;
	object_watch_stop(watch);
	if (watch->abandoned) /* the thread still uses it */
		return;
	for (size_t i = 0; i < watch->nr_rings; i++) {
		int fd = watch->polls[i].fd;
		ring_unmap(&watch->rings[i]);
		close(fd < 0 ? -1 - fd : fd);
		if (watch->programs_fds[i] >= 0)
			close(watch->programs_fds[i]);
	}
	close_objects(watch);
	bpf_programs_free(watch->programs);
	notifier_close(&watch->wake);
	hash_table_fini(&watch->objects);
	hash_table_fini(&watch->processes);
	buf_fini(&watch->earlier_pids);
	hash_table_fini(&watch->nr_open_of);
	pool_fini(&watch->pool);
	free(watch->rings);
	free(watch->programs_fds);
	free(watch->polls);
	pthread_mutex_destroy(&watch->lock);
	pthread_mutex_destroy(&watch->rings_lock);
	pthread_cond_destroy(&watch->end);
	free(watch);
}

unsigned object_watch_next_output(struct object_watch *watch)
{
	if (!watch)
		return 0;
	pthread_mutex_lock(&watch->lock);
	unsigned output = ++watch->output;
	pthread_mutex_unlock(&watch->lock);
	return output;
}

size_t object_watch_count_gone(struct object_watch *watch)
{
	size_t nr = 0;

	if (!watch || watch->abandoned)
		return 0;
	pthread_mutex_lock(&watch->lock);
	for (size_t i = 0; i < watch->objects.nr_slots; i++) {
		const struct watched_object *object = watch->objects.slots[i].item;
		if (!object || object->fd < 0 || !object->name)
			continue;
		const struct object_mapping mapped = {.file = object->file, .hold = !object->file.generation};
		AUTO_FD int fd = object_file_open(object->name, &mapped);
		nr += fd == -ENOENT || fd == -ENOTDIR || fd == -ESTALE;
	}
	pthread_mutex_unlock(&watch->lock);
	return nr;
}

/* Takes them out of the table, which is not changed while it is gone through. The lock is held. */
static void forget_objects(struct object_watch *watch, unsigned output)
{
	struct watched_object *forgotten = NULL;

	for (size_t i = 0; i < watch->objects.nr_slots; i++) {
		struct watched_object *object = watch->objects.slots[i].item;
		if (!object || object->output >= output || object->maps || object->later.is_listed || object->is_tried)
			continue;
		object->next_pending = forgotten;
		forgotten = object;
	}
	while (forgotten) {
		struct watched_object *object = forgotten;
		struct hash_slot *slot = hash_table_find(&watch->objects, file_key(&object->file));
		forgotten = object->next_pending;
		while (slot && slot->item != object)
			slot = hash_table_next(&watch->objects, slot);
		if (slot)
			hash_table_remove(&watch->objects, slot);
		if (object->fd >= 0)
			note_closed(watch, object);
		object_fini(object);
		object->next_pending = watch->spare;
		watch->spare = object;
	}
}

/* The lock is held. */
static void forget_processes(struct object_watch *watch, unsigned output)
{
	for (size_t i = 0; i < watch->processes.nr_slots;) {
		struct hash_slot *slot = &watch->processes.slots[i];
		struct watched_process *process = slot->item;
		if (!process || (!process->ended && process->pidfd >= 0) || process->output >= output) {
			i++;
			continue;
		}
		watch->map_bytes -= process->map.len;
		watch->nr_open -= process->ended ? PROCESS_FDS - 1 : PROCESS_FDS;
		close_process(process);
		hash_table_remove(&watch->processes, slot); /* another one may have moved to its slot */
		free(process);
	}
}

void object_watch_forget(struct object_watch *watch, unsigned output)
{
	if (!watch)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->first_output = output;
	forget_objects(watch, output);
	forget_processes(watch, output);
	pthread_mutex_unlock(&watch->lock);
	notifier_notify(&watch->wake); /* for forget_roots() */
}

/* For reading. -1: it is not open. The lock is held. */
static int readable_fd(struct watched_object *object)
{
	if (object->fd >= 0 && !object->is_readable) {
		int fd = object_file_reopen(object->fd);
		close(object->fd);
		object->fd = fd < 0 ? -1 : fd;
		object->is_readable = true;
	}
	return object->fd;
}

struct bpf_programs *object_watch_bpf_programs(struct object_watch *watch)
{
	return watch->programs;
}

int object_watch_find(struct object_watch *watch, const struct file_id *file)
{
	if (!watch || !file->inode)
		return -1;
	pthread_mutex_lock(&watch->lock);
	struct watched_object *object = find_object(watch, file);
	int fd = object ? readable_fd(object) : -1;
	pthread_mutex_unlock(&watch->lock);
	return fd;
}

/* Whether it was written to after it was mapped, or may have been. */
static bool is_written(const struct watched_object *object, const struct file_stamp *stamp)
{
	const struct seen_file *seen = &object->seen;

	if (!seen->stamp.bytes)
		return stamp->written_ns + FILE_TIMES_DIFFER_NS > object->mapped_ns;
	return seen->written_by_ns > object->mapped_ns || !file_stamp_equal(&seen->stamp, stamp);
}

/* Whether a map behind the first one may have been of something else, even if the file has its build-id. */
static bool may_be_other_later(const struct watched_object *object)
{
	return object->later_contents != LATER_SAME || object->later.is_listed ||
	       object->last_mapped_ns > object->last_seen.opened_ns;
}

/* -ESTALE: it was written to, or may have been. */
static int check_stamp(const struct watched_object *object, int fd)
{
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	const struct file_stamp stamp = file_stamp_of(&status);
	return object->later_contents == LATER_OTHER || is_written(object, &stamp) ? -ESTALE : 0;
}

/* The same, unless its build-id tells that it is what it was. */
static int check_contents(const struct watched_object *object, int fd)
{
	struct seen_file now = {.build_id = {.len = 0}};
	int err = check_stamp(object, fd);

	if (err != -ESTALE || !object->seen.build_id.len || is_written(object, &object->seen.stamp) ||
	    may_be_other_later(object))
		return err;
	read_seen_build_id(&now, fd);
	return now.build_id.len && elf_id_equal(&now.build_id, &object->seen.build_id) ? 0 : -ESTALE;
}

int object_watch_check(struct object_watch *watch, const struct file_id *file, int fd, struct watched_contents *ret)
{
	int err = 0;

	*ret = (struct watched_contents){.mapped_later = false};
	if (!watch || !file->inode)
		return 0;
	pthread_mutex_lock(&watch->lock);
	const struct watched_object *object = find_object(watch, file);
	if (object && object->later_contents != LATER_OTHER && !is_written(object, &object->seen.stamp))
		*ret = (struct watched_contents){object->seen.build_id, may_be_other_later(object)};
	if (object && fd >= 0)
		err = check_stamp(object, fd) == -ESTALE ? -ESTALE : 0;
	pthread_mutex_unlock(&watch->lock);
	return err;
}

int object_watch_check_contents(struct object_watch *watch, const struct file_id *file, int fd)
{
	struct watched_object known;

	if (!watch || !file->inode)
		return 0;
	pthread_mutex_lock(&watch->lock);
	const struct watched_object *object = find_object(watch, file);
	if (object)
		known = *object;
	pthread_mutex_unlock(&watch->lock);
	return object ? check_contents(&known, fd) : 0;
}

int object_watch_open_copy(struct object_watch *watch, const struct file_id *file)
{
	struct watched_object known = {.fd = -1};

	if (!watch || !file->inode)
		return -ENOENT;
	pthread_mutex_lock(&watch->lock);
	const struct watched_object *object = find_object(watch, file);
	if (object)
		known = *object;
	AUTO_FD int fd = known.fd < 0 ? -1 : fcntl(known.fd, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_unlock(&watch->lock);
	if (fd < 0)
		return known.fd < 0 ? -ENOENT : -EMFILE;
	AUTO_FD int opened = known.is_readable ? take_fd(&fd) : object_file_reopen(fd);
	int err = opened < 0 ? opened : check_contents(&known, opened);
	return err ? err : take_fd(&opened);
}

/* Of one that is open. The lock is held. */
static bool is_build(struct watched_object *object, const struct elf_id *build_id)
{
	if (!object->was_read) {
		int fd = readable_fd(object);
		int len = fd < 0 ? fd : elf_note_of_fd(fd, object->build_id.bytes);
		object->build_id.len = len > 0 ? (uint8_t)len : 0;
		object->was_read = true;
	}
	return object->fd >= 0 && object->build_id.len && elf_id_equal(&object->build_id, build_id);
}

int object_watch_find_build(struct object_watch *watch, const char *path, const struct elf_id *build_id)
{
	int fd = -1;

	if (!watch)
		return -1;
	pthread_mutex_lock(&watch->lock);
	/* Those of that path first: the others are read only if it is none of them. */
	for (int others = 0; others < 2; others++)
		for (size_t i = 0; i < watch->objects.nr_slots && fd < 0; i++) {
			struct watched_object *object = watch->objects.slots[i].item;
			if (object && object->fd >= 0 && (!object->name || strcmp(object->name, path) != 0) == others &&
			    is_build(object, build_id))
				fd = object->fd;
		}
	pthread_mutex_unlock(&watch->lock);
	return fd;
}

/* What is known of it; its descriptors are the caller's own. false: nothing. */
static bool look_up_process(struct object_watch *watch, pid_t pid, struct watched_process *ret, struct buf *out)
{
	pthread_mutex_lock(&watch->lock);
	struct watched_process *process = hash_table_find_item(&watch->processes, (uint64_t)pid);
	if (!process)
		note_process(watch, pid); /* it was there before, or its event did not come */
	process = hash_table_find_item(&watch->processes, (uint64_t)pid);
	if (process) {
		*ret = *process;
		ret->map = (struct buf){0};
		ret->pidfd = -1;
		ret->tmp_fd = process->tmp_fd < 0 ? -1 : fcntl(process->tmp_fd, F_DUPFD_CLOEXEC, 0);
	}
	if (process && process->ended && !process->map_err)
		buf_put(out, process->map.data, process->map.len);
	pthread_mutex_unlock(&watch->lock);
	return process || open_process(watch, pid, ret); /* too many are open */
}

static int read_map(const struct watched_process *process, struct buf *ret, int64_t *ret_written_ns)
{
	AUTO_FD int fd = open_perf_map(process, ret_written_ns);

	return fd < 0 ? fd : fd_slurp_rest(fd, PERF_MAP_MAX_BYTES, ret);
}

int object_watch_read_perf_map(struct object_watch *watch, pid_t pid, int64_t until_ns, struct buf *ret,
			       int64_t *ret_written_ns)
{
	struct watched_process known;

	if (!watch || !look_up_process(watch, pid, &known, ret)) {
		/* Not seen while it lived: then it may only have been one of ours. */
		AUTO_FD int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
		const uid_t uid = geteuid() ? geteuid() : UNKNOWN_UID;
		const struct watched_process ours = {
			.inner_pid = pid,
			.uid = uid,
			.start_ns = watch ? watch->start_ns : 0,
			.until_ns = until_ns,
			.tmp_fd = tmp,
		};
		return read_map(&ours, ret, ret_written_ns);
	}
	int err = known.map_err;
	*ret_written_ns = known.map_written_ns;
	if (known.reused)
		err = -ESTALE;
	else if (!known.ended)
		err = read_map(&known, ret, ret_written_ns);
	close_process(&known);
	return !err && ret->failed ? -ENOMEM : err;
}
