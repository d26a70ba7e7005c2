/* SPDX-License-Identifier: MIT */
#include "record/setup/target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"

static int append(pid_t **ids, size_t *nr, pid_t id)
{
	for (size_t i = 0; i < *nr; i++)
		if ((*ids)[i] == id)
			return 0;
	pid_t *grown = realloc(*ids, (*nr + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	grown[(*nr)++] = id;
	*ids = grown;
	return 0;
}

int target_add_tid(struct target *target, pid_t tid)
{
	return append(&target->tids, &target->nr_tids, tid);
}

static int parse_ids(const char *list, const char *what, pid_t **ids, size_t *nr, struct diag *reterr)
{
	for (const char *at = list;;) {
		char *end;
		errno = 0;
		long id = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : 0;
		if (errno || id <= 0 || id > INT_MAX || (*end != ',' && *end))
			return diag_set(reterr, -EINVAL, "%s: \"%s\" is not a list of numbers such as 17,23", what,
					list);
		int err = append(ids, nr, (pid_t)id);
		if (err)
			return diag_set(reterr, err, "out of memory");
		if (!*end)
			return 0;
		at = end + 1;
	}
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* -ESRCH. */
static int no_such(const char *what, pid_t id, struct diag *reterr)
{
	if (access("/proc/self", F_OK))
		return diag_set(reterr, -ESRCH, "%s %d: /proc, where tasks are listed, is not mounted", what, id);
	return diag_set(reterr, -ESRCH, "%s %d does not exist", what, id);
}

static int add_threads_of(struct target *target, pid_t pid, struct diag *reterr)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	__attribute__((cleanup(close_dir))) DIR *dir = opendir(path);
	if (!dir && errno == ENOENT)
		return no_such("process", pid, reterr);
	if (!dir)
		return diag_set(reterr, -errno, "%s: %s", path, strerror(errno));

	for (struct dirent *entry; (entry = readdir(dir));) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		int err = target_add_tid(target, (pid_t)atoi(entry->d_name));
		if (err)
			return diag_set(reterr, err, "out of memory");
	}
	return 0;
}

static int thread_exists(pid_t tid, struct diag *reterr)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	if (access(path, F_OK))
		return no_such("thread", tid, reterr);
	return 0;
}

static int resolve_cpus(const char *list, struct target *target, struct diag *reterr)
{
	struct cpuset online __attribute__((cleanup(cpuset_fini))) = {0};
	int err = cpuset_online(&online);

	if (err)
		return diag_set(reterr, err, "cannot read which CPUs are online: %s", strerror(-err));
	if (!list) {
		target->cpus = online;
		online = (struct cpuset){0};
		return 0;
	}
	target->names_cpus = true;
	err = cpuset_parse(&target->cpus, list);
	if (err || !cpuset_count(&target->cpus))
		return diag_set(reterr, -EINVAL, "-C: \"%s\" is not a list of CPUs such as 0-3,7", list);
	for (int cpu = cpuset_next(&target->cpus, 0); cpu >= 0; cpu = cpuset_next(&target->cpus, cpu + 1)) {
		if (!cpuset_has(&online, (unsigned)cpu)) {
			AUTO_BUF struct buf text = {0};
			cpuset_format(&online, &text);
			return diag_set(reterr, -ENODEV, "-C: CPU %d is not online (online: %s)", cpu, buf_text(&text));
		}
	}
	for (int cpu = cpuset_next(&online, 0); cpu >= 0 && !err; cpu = cpuset_next(&online, cpu + 1))
		if (!cpuset_has(&target->cpus, (unsigned)cpu))
			err = cpuset_add(&target->other_cpus, (unsigned)cpu);
	return err ? diag_set(reterr, err, "out of memory") : 0;
}

static int resolve_tasks(const struct target_request *request, struct target *target, struct diag *reterr)
{
	int err = 0;

	if (request->pids) {
		err = parse_ids(request->pids, "-p", &target->pids, &target->nr_pids, reterr);
		for (size_t i = 0; !err && i < target->nr_pids; i++)
			err = add_threads_of(target, target->pids[i], reterr);
	} else {
		err = parse_ids(request->tids, "-t", &target->tids, &target->nr_tids, reterr);
		for (size_t i = 0; !err && i < target->nr_tids; i++)
			err = thread_exists(target->tids[i], reterr);
	}
	return err;
}

static int user_id(const char *user, uid_t *ret, struct diag *reterr)
{
	FILE *users = fopen("/etc/passwd", "re"); /* not getpwnam(3): a static program cannot load what that takes */
	struct passwd *entry = NULL;
	char *end;

	while (users && (entry = fgetpwent(users)) && strcmp(entry->pw_name, user))
		;
	uid_t found = entry ? entry->pw_uid : 0;
	if (users)
		fclose(users);
	unsigned long number = strtoul(user, &end, 10);

	if (!entry && (!isdigit((unsigned char)user[0]) || *end || number > UINT_MAX))
		return diag_set(reterr, -EINVAL, "-u: there is no user \"%s\"", user);
	*ret = entry ? found : (uid_t)number;
	return 0;
}

/* All processes of a user, as they are now: -p with the list of them. */
static int resolve_user(const char *user, struct target *target, struct diag *reterr)
{
	struct stat st;
	uid_t uid = 0;
	int err = user_id(user, &uid, reterr);

	if (err)
		return err;
	__attribute__((cleanup(close_dir))) DIR *dir = opendir("/proc");
	if (!dir)
		return diag_set(reterr, -errno, "/proc: %s", strerror(errno));
	for (struct dirent *entry; !err && (entry = readdir(dir));) {
		if (!isdigit((unsigned char)entry->d_name[0]) || fstatat(dirfd(dir), entry->d_name, &st, 0) ||
		    st.st_uid != uid)
			continue;
		pid_t pid = (pid_t)atoi(entry->d_name);
		err = add_threads_of(target, pid, reterr);
		if (!err)
			err = append(&target->pids, &target->nr_pids, pid) ? diag_set(reterr, -ENOMEM, "out of memory")
									   : 0;
		err = err == -ESRCH ? 0 : err; /* it has ended since */
	}
	if (!err && !target->nr_tids)
		return diag_set(reterr, -ESRCH, "-u: user \"%s\" has no processes", user);
	return err;
}

static int check(const struct target_request *request, struct diag *reterr)
{
	bool tasks = request->pids || request->tids;

	if (request->pids && request->tids)
		return diag_set(reterr, -EINVAL, "-p and -t exclude each other");
	if (request->all_cpus && tasks)
		return diag_set(reterr, -EINVAL, "-a records everything: leave out -p and -t, or -a");
	if (request->per_thread && (request->all_cpus || request->cpu_list))
		return diag_set(reterr, -EINVAL,
				"--per-thread has a ring for each thread, -a and -C one for each CPU: "
				"choose one");
	if (!request->all_cpus && !request->cpu_list && !tasks && !request->user && !request->has_workload)
		return diag_set(reterr, -EINVAL, "nothing to record: give a command, or -a, -C, -p or -t");
	return 0;
}

int target_resolve(const struct target_request *request, struct target *ret, struct diag *reterr)
{
	struct target target = {.per_thread = request->per_thread};
	bool tasks_of_user = request->user && !request->pids && !request->tids;
	int err = check(request, reterr);

	if (err)
		return err;
	if (request->user && !tasks_of_user)
		log_note("-p and -t name the tasks: -u is ignored");
	if (tasks_of_user && request->all_cpus)
		log_note("-u names the tasks: -a is ignored");
	if (tasks_of_user)
		target.kind = EVENT_TARGET_TASKS;
	else if (request->pids || request->tids)
		target.kind = EVENT_TARGET_TASKS;
	else if (request->all_cpus)
		target.kind = EVENT_TARGET_SYSTEM;
	else if (request->cpu_list)
		target.kind = EVENT_TARGET_CPUS;
	else
		target.kind = EVENT_TARGET_WORKLOAD;

	err = resolve_cpus(request->cpu_list, &target, reterr);
	if (!err && tasks_of_user)
		err = resolve_user(request->user, &target, reterr);
	else if (!err && target.kind == EVENT_TARGET_TASKS)
		err = resolve_tasks(request, &target, reterr);
	if (err) {
		target_fini(&target);
		return err;
	}
	*ret = target;
	return 0;
}

void target_fini(struct target *target)
{
	cpuset_fini(&target->cpus);
	cpuset_fini(&target->other_cpus);
	free(target->tids);
	free(target->pids);
	*target = (struct target){0};
}
