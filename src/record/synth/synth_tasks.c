/* SPDX-License-Identifier: MIT */
/* synth_tasks: the tasks that run already and what they have mapped. One open and one pass per file of procfs. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "base/log.h"
#include "event/parse/event.h"
#include "perfdata/record.h"
#include "record/synth/synth.h"
#include "record/synth/synth_private.h"

enum {
	WINDOW_BYTES = 4096, /* of stat and status; they are shorter */
	COMM_BYTES = 16,     /* TASK_COMM_LEN, with the NUL */
};

/* One walk over procfs. */
struct walk {
	const struct synth_params *params;
	struct buf *out;
	int proc_fd;
	struct synth_maps maps;
	bool all;                  /* -a: that some tasks are not readable is expected */
	size_t nr_unreadable;      /* processes whose maps we may not read */
	char window[WINDOW_BYTES]; /* of the file being read */
};

struct task {
	pid_t tgid, tid, ppid;
	long nr_threads;
	bool has_memory; /* no kernel thread, no zombie */
	char comm[COMM_BYTES];
};

static void walk_fini(struct walk *walk)
{
	if (walk->nr_unreadable)
		(walk->all ? log_verbose
			   : log_note)("the maps of %zu process%s may not be read: their samples will have no symbols",
				       walk->nr_unreadable, walk->nr_unreadable == 1 ? "" : "es");
	if (walk->proc_fd >= 0)
		close(walk->proc_fd);
	synth_maps_fini(&walk->maps);
}

static int walk_init(struct walk *walk, const struct synth_params *params, struct buf *out)
{
	walk->params = params;
	walk->out = out;
	walk->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (walk->proc_fd < 0)
		return -errno;
	return synth_maps_init(&walk->maps, params, out);
}

static __attribute__((format(printf, 2, 3))) int walk_open(const struct walk *walk, const char *format, ...)
{
	char path[64];
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	int fd = openat(walk->proc_fd, path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* The window's first bytes become the file's text with a NUL. procfs gives a file of one page in one read. */
static int window_read(struct walk *walk, int fd)
{
	ssize_t got;

	do
		got = read(fd, walk->window, WINDOW_BYTES - 1);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return got < 0 ? -errno : -ESRCH;
	walk->window[got] = '\0';
	return 0;
}

/*
 * "tid (comm) state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime cutime cstime
 * priority nice num_threads itrealvalue starttime vsize …": proc(5) "/proc/pid/stat". The comm may hold
 * anything, also ")". Read instead of status, which takes the kernel twice as long and escapes the comm.
 */
static int task_parse(const char *text, struct task *ret)
{
	const char *open_at = strchr(text, '('), *close_at = strrchr(text, ')');
	unsigned long long vsize;

	if (!open_at || !close_at || close_at < open_at)
		return -EBADMSG;
	if (sscanf(close_at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %*u %llu",
		   &ret->ppid, &ret->nr_threads, &vsize) != 3)
		return -EBADMSG;
	ret->has_memory = vsize != 0;

	size_t len = (size_t)(close_at - open_at - 1);
	if (len >= COMM_BYTES) /* kernel workers show more than they are called */
		len = COMM_BYTES - 1;
	memset(ret->comm, 0, COMM_BYTES);
	memcpy(ret->comm, open_at + 1, len);
	return 0;
}

/* -ENOENT or -ESRCH: gone. */
static int task_read(struct walk *walk, pid_t tgid, pid_t tid, struct task *ret)
{
	AUTO_FD int fd = walk_open(walk, "%d/task/%d/stat", tgid, tid);
	int err = fd < 0 ? fd : window_read(walk, fd);

	*ret = (struct task){.tgid = tgid, .tid = tid};
	return err ? err : task_parse(walk->window, ret);
}

/* Whose thread is it? -errno: gone. */
static pid_t tgid_read(struct walk *walk, pid_t tid)
{
	AUTO_FD int fd = walk_open(walk, "%d/status", tid);
	int err = fd < 0 ? fd : window_read(walk, fd);
	const char *line = err ? NULL : strstr(walk->window, "\nTgid:");
	pid_t tgid;

	if (err)
		return err;
	return line && sscanf(line, "\nTgid: %d", &tgid) == 1 ? tgid : -EBADMSG;
}

static void put_comm(struct walk *walk, const struct task *task)
{
	struct record_comm record = {
		.header = {.type = PERF_RECORD_COMM},
		.pid = (uint32_t)task->tgid,
		.tid = (uint32_t)task->tid,
	};

	record_put(walk->out, &record, sizeof(record), span_of_text(task->comm), walk->params->trailer_bytes);
}

/* Procfs does not tell who cloned a thread: the first thread of its process is as good as any. */
static void put_fork(struct walk *walk, const struct task *task)
{
	pid_t parent = task->tid == task->tgid ? task->ppid : task->tgid;
	struct record_fork record = {
		.header = {.type = PERF_RECORD_FORK, .misc = RECORD_MISC_FORK_EXEC},
		.pid = (uint32_t)task->tgid,
		.ppid = (uint32_t)parent,
		.tid = (uint32_t)task->tid,
		.ptid = (uint32_t)parent,
	};

	record_put(walk->out, &record, sizeof(record), (struct span){0}, walk->params->trailer_bytes);
}

/* The maps of a process, as one of its threads has them. 0 also when it ends during this: what was read stands. */
static int put_maps(struct walk *walk, pid_t tgid, pid_t tid)
{
	AUTO_FD int fd = walk_open(walk, "%d/task/%d/maps", tgid, tid);

	if (fd == -EACCES || fd == -EPERM)
		walk->nr_unreadable++;
	return fd < 0 ? 0 : synth_maps_put(&walk->maps, tgid, fd);
}

enum put_what { PUT_COMM, PUT_FORK_AND_COMM };

static int put_task(struct walk *walk, const struct task *task, enum put_what what)
{
	const struct synth_params *params = walk->params;

	if (what == PUT_FORK_AND_COMM && !params->skip_tasks)
		put_fork(walk, task);
	if (params->namespaces && !params->skip_tasks)
		synth_namespaces(params, task->tgid, task->tid, walk->out);
	if (!params->skip_tasks)
		put_comm(walk, task);
	if (task->tid == task->tgid && task->has_memory && !params->skip_maps)
		return put_maps(walk, task->tgid, task->tid);
	return 0;
}

/*
 * A first thread that has ended, with pthread_exit(3), has no maps any more: those of the process are read from another
 * one. A kernel thread has none. true: this thread had them.
 */
static bool put_maps_for(struct walk *walk, const struct task *leader, const struct task *task)
{
	if (leader->has_memory || !task->has_memory || walk->params->skip_maps)
		return false;
	put_maps(walk, task->tgid, task->tid);
	return true;
}

static pid_t entry_pid(const struct dirent *entry)
{
	char *end;
	long pid = strtol(entry->d_name, &end, 10);

	return *end == '\0' && pid > 0 && pid <= INT_MAX ? (pid_t)pid : 0;
}

static int put_process(struct walk *walk, pid_t pid, enum put_what what)
{
	struct task leader, task;
	int err = task_read(walk, pid, pid, &leader);

	if (err)
		return err == -ENOENT ? -ESRCH : err;
	put_task(walk, &leader, what);
	if (leader.nr_threads == 1)
		return buf_status(walk->out);

	int fd = walk_open(walk, "%d/task", pid);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return buf_status(walk->out); /* it ended just now */
	}
	bool mapped = false;
	for (struct dirent *entry; (entry = readdir(dir));) {
		pid_t tid = entry_pid(entry);

		if (!tid || tid == pid || task_read(walk, pid, tid, &task))
			continue;
		put_task(walk, &task, what);
		mapped = mapped || put_maps_for(walk, &leader, &task);
	}
	closedir(dir);
	return buf_status(walk->out);
}

/* The numbers of /proc, for the caller to free; NULL: not readable, errno says why. */
static pid_t *pids_list(size_t *ret_nr)
{
	DIR *dir = opendir("/proc");
	pid_t *pids = NULL;
	size_t nr = 0, room = 0;

	if (!dir)
		return NULL;
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (array_room(pids, nr, room)) {
			free(pids);
			closedir(dir);
			errno = ENOMEM;
			return NULL;
		}
		pids[nr] = entry_pid(entry);
		nr += pids[nr] != 0;
	}
	closedir(dir);
	*ret_nr = nr;
	return pids;
}

/* The processes that one thread reads, and their records. */
struct synth_worker {
	const struct synth_params *params;
	const pid_t *pids;
	size_t nr;
	struct buf *out, own; /* out: own, or that of all */
	int err;
	pthread_t thread;
	bool started;
};

static void *synth_worker_run(void *arg)
{
	__attribute__((cleanup(walk_fini))) struct walk walk = {0};
	struct synth_worker *worker = arg;

	worker->err = walk_init(&walk, worker->params, worker->out);
	walk.all = true;
	for (size_t i = 0; i < worker->nr && !worker->err; i++)
		put_process(&walk, worker->pids[i], PUT_FORK_AND_COMM);
	worker->err = worker->err ? worker->err : buf_status(worker->out);
	return NULL;
}

/* Where there are few processes more threads do not end sooner, and more than a few wait for each other in procfs. */
static size_t useful_workers(size_t nr_processes)
{
	enum { FEW_PROCESSES = 400, FEW_WORKERS = 4 };
	size_t nr_cpus = nr_processes < 2 * FEW_PROCESSES ? 1 : cpuset_count_allowed();
	size_t nr = nr_processes / FEW_PROCESSES;

	nr = nr < nr_cpus ? nr : nr_cpus;
	return nr < 1 ? 1 : nr < FEW_WORKERS ? nr : FEW_WORKERS;
}

int synth_all_tasks(const struct synth_params *params, struct buf *out)
{
	enum { WORKERS_MAX = 256 };
	size_t nr = 0;
	AUTO_FREE pid_t *pids = pids_list(&nr);
	int err = 0;

	if (!pids)
		return -errno;
	size_t nr_workers = params->nr_threads ? params->nr_threads : useful_workers(nr);
	if (nr_workers > WORKERS_MAX)
		nr_workers = WORKERS_MAX;
	AUTO_FREE struct synth_worker *workers = calloc(nr_workers, sizeof(*workers));
	if (!workers)
		return -ENOMEM;
	for (size_t i = 0; i < nr_workers; i++) {
		size_t first = nr * i / nr_workers;
		workers[i] = (struct synth_worker){
			.params = params, .pids = pids + first, .nr = nr * (i + 1) / nr_workers - first};
		workers[i].out = i ? &workers[i].own : out;
		workers[i].started = i && pthread_create(&workers[i].thread, NULL, synth_worker_run, &workers[i]) == 0;
	}
	for (size_t i = 0; i < nr_workers; i++) {
		if (workers[i].started)
			pthread_join(workers[i].thread, NULL);
		else
			synth_worker_run(&workers[i]);
		buf_put(out, workers[i].own.data, workers[i].own.len);
		err = err ? err : workers[i].err;
		buf_fini(&workers[i].own);
	}
	return err ? err : buf_status(out);
}

int synth_process(const struct synth_params *params, pid_t pid, struct buf *out)
{
	__attribute__((cleanup(walk_fini))) struct walk walk = {0};
	int err = walk_init(&walk, params, out);

	return err ? err : put_process(&walk, pid, PUT_COMM);
}

static bool tids_have(const pid_t *tids, size_t nr, pid_t tid)
{
	for (size_t i = 0; i < nr; i++) {
		if (tids[i] == tid)
			return true;
	}
	return false;
}

int synth_threads(const struct synth_params *params, const pid_t *tids, size_t nr, struct buf *out)
{
	__attribute__((cleanup(walk_fini))) struct walk walk = {0};
	/* Processes whose first thread was added, and those whose maps are another one's. */
	AUTO_FREE pid_t *added = calloc(nr + 1, sizeof(*added)), *mapped = calloc(nr + 1, sizeof(*mapped));
	int err = walk_init(&walk, params, out);
	size_t nr_found = 0, nr_added = 0, nr_mapped = 0;
	struct task task, leader;

	if (!err && (!added || !mapped))
		err = -ENOMEM;
	if (err)
		return err;
	for (size_t i = 0; i < nr; i++) {
		pid_t tgid = tgid_read(&walk, tids[i]);

		if (tgid < 0 || task_read(&walk, tgid, tids[i], &task))
			continue;
		nr_found++;
		put_task(&walk, &task, PUT_COMM);
		/* the maps belong to the first thread: it is added, once, when it was not named */
		const bool leader_named = tids_have(tids, nr, tgid);
		if (tgid == tids[i] || (params->only_named && !leader_named) || task_read(&walk, tgid, tgid, &leader))
			continue;
		if (!leader_named && !tids_have(added, nr_added, tgid)) {
			put_task(&walk, &leader, PUT_COMM);
			added[nr_added++] = tgid;
		}
		if (!tids_have(mapped, nr_mapped, tgid) && put_maps_for(&walk, &leader, &task))
			mapped[nr_mapped++] = tgid;
	}
	return nr_found == 0 && nr > 0 ? -ESRCH : buf_status(out);
}

int synth_workload(const struct synth_params *params, pid_t pid, struct buf *out)
{
	__attribute__((cleanup(walk_fini))) struct walk walk = {0};
	struct task task;
	int err = walk_init(&walk, params, out);

	err = err ? err : task_read(&walk, pid, pid, &task);
	if (err)
		return err == -ENOENT ? -ESRCH : err;
	if (params->namespaces)
		synth_namespaces(params, pid, pid, out);
	put_comm(&walk, &task);
	return buf_status(out);
}

/* synth_namespaces: which namespaces a task is in. Record: perf_event_open(2) "PERF_RECORD_NAMESPACES". */

/* In the order of their indices: <linux/perf_event.h>, NET_NS_INDEX and so on. */
static const char *const namespace_names[NR_NAMESPACES] = {"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"};

struct record_namespaces {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t nr;
	struct {
		uint64_t dev, ino;
	} links[NR_NAMESPACES];
};

int synth_namespaces(const struct synth_params *params, pid_t pid, pid_t tid, struct buf *out)
{
	struct record_namespaces record = {
		.header = {.type = PERF_RECORD_NAMESPACES},
		.pid = (uint32_t)pid,
		.tid = (uint32_t)tid,
		.nr = NR_NAMESPACES,
	};

	for (size_t i = 0; i < NR_NAMESPACES; i++) {
		char path[64];
		struct stat st;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/ns/%s", pid, tid, namespace_names[i]);
		if (stat(path, &st))
			continue;
		record.links[i].dev = st.st_dev;
		record.links[i].ino = st.st_ino;
	}
	record_put(out, &record, sizeof(record), (struct span){0}, params->trailer_bytes);
	return buf_status(out);
}

/* synth_cgroup: the names of all cgroups. Record: perf_event_open(2) "PERF_RECORD_CGROUP". */

enum { DEPTH_MAX = 64 };

struct record_cgroup {
	struct perf_event_header header;
	uint64_t id;
}; /* then the path */

/* The id that samples carry: the inode of the directory, kernfs(5); the kernel hands it out as a file handle, too. */
static int put_cgroup(const struct synth_params *params, const char *path, size_t root_len, struct buf *out)
{
	struct stat st;

	if (stat(path, &st))
		return -errno;
	struct record_cgroup record = {.header = {.type = PERF_RECORD_CGROUP}, .id = st.st_ino};
	record_put(out, &record, sizeof(record), span_of_text(path[root_len] ? path + root_len : "/"),
		   params->trailer_bytes);
	return buf_status(out);
}

/* `path` has room for PATH_MAX bytes. A cgroup that goes away during this is left out. */
static int put_cgroups(const struct synth_params *params, char *path, size_t root_len, int depth, struct buf *out)
{
	size_t len = strlen(path);
	int err = put_cgroup(params, path, root_len, out);

	if (err)
		return err == -ENOENT ? 0 : err;
	DIR *dir = depth < DEPTH_MAX ? opendir(path) : NULL;
	if (!dir)
		return 0;
	for (struct dirent *entry; !err && (entry = readdir(dir));) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if (snprintf(path + len, PATH_MAX - len, "/%s", entry->d_name) < (int)(PATH_MAX - len))
			err = put_cgroups(params, path, root_len, depth + 1, out);
		path[len] = '\0';
	}
	closedir(dir);
	return err;
}

int synth_cgroups(const struct synth_params *params, struct buf *out)
{
	AUTO_FREE char *root = cgroup_root(), *path = malloc(PATH_MAX);

	if (!root)
		return -ENOENT;
	if (!path)
		return -ENOMEM;
	snprintf(path, PATH_MAX, "%s", root);
	return put_cgroups(params, path, strlen(path), 0, out);
}
