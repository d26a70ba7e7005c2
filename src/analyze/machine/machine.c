/* SPDX-License-Identifier: MIT */
#include "analyze/machine/machine.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#include "analyze/machine/ip_walk.h"
#include "analyze/machine/kernel.h"
#include "analyze/machine/last_call.h"
#include "analyze/machine/user_stacks.h"
#include "analyze/symbols/debug_info.h"
#include "analyze/symbols/jit_code.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/pool.h"
#include "base/span.h"
#include "perfdata/callchain.h"
#include "perfdata/feature.h"
#include "perfdata/ledger.h"
#include "perfdata/object_id.h"
#include "read/session.h"
#include "tasks/maps.h"
#include "tasks/task_event.h"
#include "unwind/unwind.h"

/* What an address was, for as long as no record changes what it depends on: the maps of its process, or all else. */
struct resolved {
	uint64_t common_epoch; /* 0: empty */
	uint64_t maps;         /* their generation; 0: the kernel's, or none are known */
	uint8_t cpumode;
	bool doubtful;   /* the object cannot be named: its uses are counted */
	bool timed;      /* holds from from_ns until before to_ns only */
	bool may_be_end; /* a return address there may be that of the last instruction of a function */
	int64_t from_ns, to_ns;
	struct location location;
};

/* The symbol at an address of an object: the same in all processes, for as long as the common epoch. */
struct known_symbol {
	uint64_t common_epoch; /* 0: empty */
	const struct dso *dso;
	uint64_t address;
	const struct symbol *symbol;
};

enum { RESOLVED_BITS = 12, KNOWN_BITS = 12, INLINED_BITS = 14 };

struct lookup {
	struct machine *machine; /* borrowed */
	bool read_only;          /* the machine must not change */
	bool needs_update;       /* something would have changed it */
	int64_t time_ns;         /* of the sample; JIT_ANY_TIME: not known */
	struct task *last;       /* found last, */
	uint64_t last_epoch;     /* and when */
	struct resolved resolved[1 << RESOLVED_BITS];
	struct known_symbol known[1 << KNOWN_BITS];
	const struct inlined *inlined[1 << INLINED_BITS]; /* NULL: empty */
};

struct machine {
	struct symbol_options options;
	struct session *session; /* borrowed */
	char *bundle;            /* heap; as in struct dso_table; NULL: none */
	struct tasks *tasks;
	struct dso_table dsos;
	struct kernel kernel;
	struct user_stacks *user_stacks; /* NULL: not needed yet */
	struct debug_info *debug_info;
	struct last_calls last_calls;
	struct hash_table programs; /* when the process began to run its program, if records say so, by pid */
	struct hash_table cgroups;  /* paths, by id */
	struct pool cgroup_paths;
	unsigned max_unwound;        /* frames */
	bool monotonic;              /* records have the clock of jitdumps */
	bool timed;                  /* some code has a jitdump */
	bool has_code;               /* some memory without a file may have code */
	uint64_t epoch;              /* another number after each change of what is mapped anywhere */
	uint64_t common_epoch;       /* likewise, and is not one task's alone */
	struct downloads *downloads; /* NULL: none are wanted */
	struct lookup own;           /* of machine_task(), machine_resolve() … */
};

/* Its process is not known yet, and would be now. */
static inline bool task_lacks_pid(const struct task *task, uint32_t pid)
{
	return pid != task->pid && pid != UINT32_MAX && task->pid == UINT32_MAX;
}

static const char *symfs_of(const struct machine *machine)
{
	return machine->options.symfs ? machine->options.symfs : "";
}

/* NULL: out of memory. */
static struct task *make_task(struct machine *machine, uint32_t pid, uint32_t tid)
{
	const struct task *before = tasks_find(machine->tasks, tid);

	machine->epoch += before && task_lacks_pid(before, pid);
	return tasks_make(machine->tasks, pid, tid);
}

struct task *machine_known_task(const struct machine *machine, uint32_t pid, uint32_t tid)
{
	struct task *task = tasks_find(machine->tasks, tid);

	return task && task_lacks_pid(task, pid) ? NULL : task;
}

struct task *machine_task(struct machine *machine, uint32_t pid, uint32_t tid)
{
	return lookup_task(&machine->own, pid, tid);
}

struct task_epoch task_epoch(const struct machine *machine, const struct task *task)
{
	uint32_t maps = task->maps ? (uint32_t)maps_generation(task->maps) : 0;

	return (struct task_epoch){machine->common_epoch, (uint64_t)task->epoch << 32 | maps};
}

int machine_list_tasks(const struct machine *machine, struct task ***ret, size_t *ret_nr)
{
	return tasks_list(machine->tasks, ret, ret_nr);
}

/* What `record --bundle` left beside the file. On the heap; NULL: nothing. */
static char *find_bundle(struct session *session)
{
	const char *path = session ? session_info(session)->path : NULL;
	char *bundle;
	struct stat status;

	if (!path || asprintf(&bundle, "%s.bundle", path) < 0)
		return NULL;
	if (stat(bundle, &status) == 0 && S_ISDIR(status.st_mode))
		return bundle;
	free(bundle);
	return NULL;
}

/* The name of the machine that recorded. NULL: the recording does not say. */
static const char *recorded_host(const struct session *session)
{
	struct span payload;
	const char *name;

	return session_feature(session, FEATURE_HOSTNAME, &payload) && !feature_decode_string(payload, &name) ? name
													      : NULL;
}

/* NULL: the recording does not say. */
static const char *recorded_arch(const struct machine *machine)
{
	return machine->session ? session_arch(machine->session) : NULL;
}

/*
 * When samples were taken. Recorders that look at no record (-B) leave the feature at 0; the ledger has the time from
 * the first event to the last. {0}: not known.
 */
static struct feature_sample_time sample_times(const struct session *session)
{
	struct feature_sample_time times = {0};
	struct ledger ledger = {0};
	struct span payload;

	if (session_feature(session, FEATURE_SAMPLE_TIME, &payload))
		feature_decode_sample_time(payload, &times);
	if (times.last_ns || !session_feature(session, FEATURE_LEDGER, &payload) || ledger_decode(payload, &ledger))
		return times;
	times = (struct feature_sample_time){ledger.started_ns, ledger.ended_ns};
	ledger_fini(&ledger);
	return times;
}

/* What distinguishes the files of this machine from those that were mapped. */
static void learn_origin(struct dso_table *dsos, const struct session *session)
{
	const struct session_info *info = session_info(session);
	int64_t booted_ns = (int64_t)(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME));
	const char *host = recorded_host(session);
	const struct feature_sample_time times = sample_times(session);
	struct utsname here;
	struct span ids;

	session_feature(session, FEATURE_MAPPED_FILES, &dsos->file_ids);
	session_feature(session, FEATURE_PERF_MAPS, &dsos->perf_maps);
	dsos->keeps_none = host && info->can_reopen && !info->pipe && !session_feature(session, FEATURE_BUILD_ID, &ids);
	dsos->of_another_machine = host && (uname(&here) || strcmp(host, here.nodename) != 0);
	dsos->of_this_boot = info->mtime_ns > booted_ns;
	if (dsos->of_another_machine || (info->mtime_ns && !dsos->of_this_boot))
		dsos->containers = NULL;
	dsos->times = (struct mapping_times){info->can_reopen ? info->mtime_ns : 0, times.first_ns, times.last_ns};
}

static bool starts_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static enum dso_kind build_id_kind(const struct build_id *listed)
{
	if ((listed->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL)
		return starts_with(listed->path, "[kernel") ? DSO_KERNEL : DSO_MODULE;
	return strcmp(listed->path, "[vdso]") == 0 ? DSO_VDSO : DSO_FILE;
}

/* The BUILD_ID feature's records, or one such record. 0 or -ENOMEM. */
static int learn_build_ids(struct machine *machine, struct span records)
{
	struct cursor at = cursor_over(records);
	struct build_id listed;

	while (build_id_decode(&at, &listed) == 1) {
		struct elf_id build_id = {.len = listed.id_bytes};
		memcpy(build_id.bytes, listed.id, listed.id_bytes);
		enum dso_kind kind = build_id_kind(&listed);
		struct dso *dso = kind == DSO_FILE ? NULL : dso_find(&machine->dsos, listed.path, NULL, kind);
		if (dso)
			dso->build_id = build_id;
		else if (kind != DSO_FILE || dso_learn_build_id(&machine->dsos, listed.path, &build_id))
			return -ENOMEM;
	}
	return 0;
}

static bool is_monotonic(const struct session *session)
{
	size_t nr = 0;
	const struct event_desc *events = session ? session_events(session, &nr) : NULL;

	for (size_t i = 0; i < nr; i++)
		if (!events[i].attr.use_clockid || events[i].attr.clockid != CLOCK_MONOTONIC)
			return false;
	return nr > 0;
}

bool machine_is_timed(const struct machine *machine)
{
	return machine->timed;
}

bool machine_has_jit_clock(const struct machine *machine)
{
	return machine->monotonic;
}

int machine_new(const struct symbol_options *options, struct session *session, struct machine **ret)
{
	struct machine *machine = calloc(1, sizeof(*machine));
	struct span build_ids;

	if (!machine)
		return -ENOMEM;
	if (options)
		machine->options = *options;
	machine->session = session;
	machine->epoch = machine->common_epoch = 1;
	machine->own.machine = machine;
	machine->own.time_ns = JIT_ANY_TIME;
	machine->max_unwound = CALLCHAIN_FRAMES;
	machine->monotonic = is_monotonic(session);
	machine->dsos.bundle = machine->bundle = find_bundle(session);
	machine->dsos.cache = machine->options.cache;
	machine->dsos.containers = machine->options.symfs ? NULL : machine->options.containers;
	machine->dsos.no_demangle = machine->options.no_demangle;
	machine->dsos.no_demangle_kernel = !machine->options.demangle_kernel;
	if (session)
		learn_origin(&machine->dsos, session);
	machine->debug_info = debug_info_new(&machine->options);
	int err = 0;
	if (machine->options.download.wanted)
		err = downloads_new(&machine->options.download, &machine->downloads);
	machine->dsos.downloads = machine->downloads;
	if (!err)
		err = kernel_init(&machine->kernel, &machine->options, session, &machine->dsos);
	/* The idle tasks: no record tells their name. Source: init/init_task.c */
	machine->tasks = tasks_new(TASKS_KEEP);
	struct task *idle = err || !machine->debug_info || !machine->tasks ? NULL : machine_task(machine, 0, 0);
	err = idle ? tasks_name(machine->tasks, idle, "swapper") : -ENOMEM;
	if (!err && session && session_feature(session, FEATURE_BUILD_ID, &build_ids))
		err = learn_build_ids(machine, build_ids);
	if (err) {
		machine_free(machine);
		return err;
	}
	*ret = machine;
	return 0;
}

void machine_free(struct machine *machine)
{
	if (!machine)
		return;
	user_stacks_free(machine->user_stacks);
	debug_info_free(machine->debug_info);
	kernel_fini(&machine->kernel);
	dso_table_fini(&machine->dsos);
	downloads_free(machine->downloads);
	tasks_free(machine->tasks);
	last_calls_fini(&machine->last_calls);
	hash_table_fini(&machine->programs);
	hash_table_fini(&machine->cgroups);
	pool_fini(&machine->cgroup_paths);
	free(machine->bundle);
	free(machine);
}

const char *machine_cgroup(const struct machine *machine, uint64_t id)
{
	const char *path = hash_table_find_item(&machine->cgroups, id);

	return path ? path : "unknown";
}

struct downloads *machine_downloads(const struct machine *machine)
{
	return machine->downloads;
}

struct debug_info *machine_debug_info(const struct machine *machine)
{
	return machine->debug_info;
}

enum { MMAP2_MAP_SHARED = 1 }; /* mmap(2) */

static bool is_without_object(const char *name)
{
	return starts_with(name, "[stack") || starts_with(name, "/SYSV") || strcmp(name, "[heap]") == 0;
}

/* Code of a process without a file. NULL: out of memory. */
static struct dso *perf_map_of(struct machine *machine, const struct task *task)
{
	return dso_find_code(&machine->dsos, task->pid, hash_table_find_number(&machine->programs, task->pid));
}

static int learn_jitdump(struct machine *machine, const struct task *task, const struct task_event *event)
{
	struct dso *dso = perf_map_of(machine, task);

	if (!dso)
		return -ENOMEM;
	dso_learn_jitdump(dso, event->name.ptr, &event->id, symfs_of(machine));
	machine->timed |= dso->jit != NULL;
	machine->common_epoch++; /* forked processes have this object mapped, too */
	return 0;
}

/* Of a 32-bit program on a 64-bit kernel: another image than that of the recorder, whose build-id is recorded. */
static bool is_compat_vdso(const struct machine *machine, uint64_t start)
{
	const char *arch = recorded_arch(machine);

	return start < UINT64_C(1) << 32 && (!arch || strstr(arch, "64") || strcmp(arch, "s390x") == 0);
}

/* Made when it is needed first. NULL: out of memory. */
static struct user_stacks *user_stacks_of(struct machine *machine)
{
	if (!machine->user_stacks)
		machine->user_stacks = user_stacks_new(recorded_arch(machine), symfs_of(machine));
	return machine->user_stacks;
}

/*
 * perf inject --jit writes such a record for each function of a jitdump: the mode of the file that it made of it as
 * prot, and 1 as the generation of its inode. That file is later than the recording. The maps of memory without a file,
 * where the code of such a process is, are left out.
 */
static bool is_injected_function(const struct task_event *event)
{
	return S_ISREG(event->prot);
}

static int user_map(struct machine *machine, const struct task_event *event, uint64_t time_ns)
{
	const bool injected = is_injected_function(event);
	struct task *task = machine_task(machine, event->pid, event->tid);
	const char *name = event->name.ptr;
	struct map map = {
		.start = event->start,
		.pgoff = event->pgoff,
		.inode = event->id.file.inode,
		.rights =
			(uint8_t)((event->prot & MAP_MAY_ALL) | (event->flags & MMAP2_MAP_SHARED ? MAP_IS_SHARED : 0)),
		.identity = task_event_is_anonymous(event) || is_without_object(name) ||
			    (path_is_memory(name) && dso_has_code_alone(&machine->dsos, &event->id.file)),
	};
	struct object_id id = event->id;
	struct dso *dso;

	if (!task)
		return -ENOMEM;
	if (injected) {
		id.file.generation = 0;
		map.rights = MAP_MAY_READ | MAP_MAY_EXECUTE;
	}
	if (__builtin_add_overflow(event->start, event->len, &map.end))
		map.end = UINT64_MAX;
	if (map.identity && map.rights & MAP_MAY_EXECUTE) {
		dso = perf_map_of(machine, task);
		machine->has_code = true;
	} else if (map.identity) {
		dso = dso_find(&machine->dsos, name, NULL, DSO_NOTHING);
	} else if (strcmp(name, "[vdso]") == 0) {
		dso = dso_find(&machine->dsos, name, NULL,
			       is_compat_vdso(machine, event->start) ? DSO_NOTHING : DSO_VDSO);
	} else {
		dso = dso_find(&machine->dsos, name, &id, DSO_FILE);
	}
	if (!dso || (path_is_jitdump(name) && learn_jitdump(machine, task, event)))
		return -ENOMEM;
	map.object = dso;
	if (!injected)
		dso_note_mapped(dso, time_ns);
	else if (task->maps && (!user_stacks_of(machine) || user_stacks_note_gaps(machine->user_stacks, task->maps)))
		return -ENOMEM;
	return task->maps ? maps_insert(task->maps, &map) : 0;
}

/* time_ns 0: it was there when the recording began. */
static int process_map(struct machine *machine, const struct task_event *event, uint64_t time_ns)
{
	switch (event->misc & PERF_RECORD_MISC_CPUMODE_MASK) {
	case PERF_RECORD_MISC_KERNEL: {
		struct kernel_map_record map = {event->start, event->len, event->pgoff, event->name.ptr,
						event->id.build_id.len ? &event->id.build_id : NULL};
		machine->common_epoch++;
		return kernel_map(&machine->kernel, &map);
	}
	case PERF_RECORD_MISC_GUEST_KERNEL:
	case PERF_RECORD_MISC_GUEST_USER: return 0;
	default: return user_map(machine, event, time_ns);
	}
}

/* By an exec, or as a new process; time_ns 0: not known. 0 or -ENOMEM. */
static int begin_program(struct machine *machine, uint32_t pid, uint64_t time_ns)
{
	struct hash_slot *slot = hash_table_find(&machine->programs, pid);

	if (!time_ns)
		return 0;
	if (!slot)
		return hash_table_add_number(&machine->programs, pid, time_ns);
	slot->number = time_ns;
	return 0;
}

static int process_fork(struct machine *machine, const struct task_event *fork, uint64_t time_ns)
{
	if (fork->pid != fork->ppid && begin_program(machine, fork->pid, time_ns))
		return -ENOMEM;
	struct task *parent = machine_task(machine, fork->ppid, fork->ptid);

	if (parent && parent->pid != fork->ppid) {
		/* Its exit, and the fork of this one, were lost. */
		tasks_end(machine->tasks, parent);
		machine->own.last = NULL;
		parent = machine_task(machine, fork->ppid, fork->ptid);
	}
	machine->own.last = NULL;
	int err = parent ? tasks_fork(machine->tasks, fork, parent) : -ENOMEM;
	struct task *child = err || !machine->has_code ? NULL : tasks_find(machine->tasks, fork->tid);
	/* What it compiles where its parent had code is its own. */
	if (child && child->maps && child->maps != parent->maps)
		maps_distinguish(child->maps);
	return err;
}

static int process_task_event(struct machine *machine, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	const uint64_t time_ns = record->sample.present & PERF_SAMPLE_TIME ? record->sample.time : 0;
	struct task_event event;
	struct task *task;

	/* The name ends with its NUL: the trailer behind it does no harm, however long it is. */
	if (task_event_decode(header, header, 0, &event) <= 0)
		return 0;
	switch (event.type) {
	case PERF_RECORD_COMM:
		task = machine_task(machine, event.pid, event.tid);
		if (!task)
			return -ENOMEM;
		/* As perf, readers keep maps of the program before until others replace them. */
		if (task->maps && event.misc & PERF_RECORD_MISC_COMM_EXEC)
			maps_mark_former(task->maps);
		if (event.misc & PERF_RECORD_MISC_COMM_EXEC && begin_program(machine, event.pid, time_ns))
			return -ENOMEM;
		return tasks_name(machine->tasks, task, event.name.ptr);
	case PERF_RECORD_FORK: return process_fork(machine, &event, time_ns);
	default: return process_map(machine, &event, time_ns);
	}
}

static int process_ksymbol(struct machine *machine, const struct perf_event_header *header)
{
	struct cursor at = cursor_over((struct span){header + 1, header->size - sizeof(*header)});
	uint64_t address = cursor_u64(&at);
	uint32_t len = cursor_u32(&at);
	cursor_u16(&at); /* what kind of code */
	uint16_t flags = cursor_u16(&at);
	const char *name = cursor_string(&at, cursor_left(&at));

	if (at.bad)
		return 0;
	return kernel_symbol(&machine->kernel, address, len, name, flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER);
}

/* Source: perf_event_open(2), PERF_RECORD_CGROUP: u64 id; char path[]. The first name stays. */
static int process_cgroup(struct machine *machine, const struct perf_event_header *header)
{
	struct cursor at = cursor_over((struct span){header + 1, header->size - sizeof(*header)});
	uint64_t id = cursor_u64(&at);
	const char *name = cursor_string(&at, cursor_left(&at));

	if (at.bad || hash_table_find_item(&machine->cgroups, id))
		return 0;
	char *path = pool_text(&machine->cgroup_paths, name, strlen(name));
	return path ? hash_table_add(&machine->cgroups, id, path) : -ENOMEM;
}

/* perf_event_open(2): link_info[] in this order. */
static int process_namespaces(struct machine *machine, const struct perf_event_header *header)
{
	struct cursor at = cursor_over((struct span){header + 1, header->size - sizeof(*header)});
	uint32_t pid = cursor_u32(&at), tid = cursor_u32(&at);
	uint64_t nr = cursor_u64(&at), device = 0, inode = 0;

	for (uint64_t i = 0; i <= CGROUP_NS_INDEX && i < nr; i++) {
		device = cursor_u64(&at);
		inode = cursor_u64(&at);
	}
	if (at.bad || nr <= CGROUP_NS_INDEX)
		return 0;
	struct task *task = machine_task(machine, pid, tid);
	if (!task)
		return -ENOMEM;
	task->cgroup_namespace.device = device;
	task->cgroup_namespace.inode = inode;
	return 0;
}

/* What is not about one task. Records of unknown types may change anything. */
static int process_other(struct machine *machine, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;

	machine->common_epoch++;
	switch (header->type) {
	case PERF_RECORD_KSYMBOL: return process_ksymbol(machine, header);
	case PERF_RECORD_CGROUP: return process_cgroup(machine, header);
	case PERF_RECORD_NAMESPACES: return process_namespaces(machine, header);
	case RECORD_BUILD_ID: return learn_build_ids(machine, (struct span){header, header->size});
	default: return 0;
	}
}

/* Its samples may come behind the record of its end: the task stays. */
static int process_exit(struct machine *machine, const struct perf_event_header *header)
{
	struct task_event event;
	struct task *task =
		task_event_decode(header, header, 0, &event) == 1 ? tasks_find(machine->tasks, event.tid) : NULL;

	if (task)
		tasks_note_end(task);
	return 0;
}

int machine_forget_ended(struct machine *machine, bool (*is_used)(const void *ctx, const struct task *task),
			 const void *ctx)
{
	machine->own.last = NULL;
	machine->epoch++;
	machine->common_epoch++;
	return tasks_forget(machine->tasks, is_used, ctx);
}

int machine_process(struct machine *machine, const struct session_record *record)
{
	switch (record->view.header->type) {
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE: return 0;
	case PERF_RECORD_EXIT: return process_exit(machine, record->view.header);
	default: machine->epoch++;
	}
	switch (record->view.header->type) {
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2: return process_task_event(machine, record);
	default: return process_other(machine, record);
	}
}

size_t machine_list_doubts(const struct machine *machine, const struct dso *ret[], size_t max)
{
	return dso_list_doubts(&machine->dsos, ret, max);
}

struct lookup *lookup_new(struct machine *machine)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (lookup) {
		lookup->machine = machine;
		lookup->time_ns = JIT_ANY_TIME;
	}
	return lookup;
}

void lookup_free(struct lookup *lookup)
{
	free(lookup);
}

struct lookup *machine_lookup(struct machine *machine)
{
	return &machine->own;
}

const char *lookup_cgroup(const struct lookup *lookup, uint64_t id)
{
	return machine_cgroup(lookup->machine, id);
}

void lookup_set_read_only(struct lookup *lookup, bool read_only)
{
	lookup->read_only = read_only;
	lookup->needs_update = false;
}

bool lookup_needs_update(const struct lookup *lookup)
{
	return lookup->needs_update;
}

void lookup_set_time(struct lookup *lookup, const struct sample *sample)
{
	bool known = lookup->machine->monotonic && sample->present & PERF_SAMPLE_TIME && sample->time < INT64_MAX;

	lookup->time_ns = known ? (int64_t)sample->time : JIT_ANY_TIME;
}

uint64_t lookup_epoch(const struct lookup *lookup)
{
	return lookup->machine->epoch;
}

/* Samples of a task come in a row. Records may give its tid to another task. */
static struct task *find_task(struct lookup *lookup, uint32_t tid)
{
	uint64_t epoch = lookup->machine->epoch;

	if (!lookup->last || lookup->last_epoch != epoch || lookup->last->tid != tid) {
		lookup->last = tasks_find(lookup->machine->tasks, tid);
		lookup->last_epoch = epoch;
	}
	return lookup->last;
}

struct task *lookup_task(struct lookup *lookup, uint32_t pid, uint32_t tid)
{
	struct task *task = find_task(lookup, tid);

	if (task && !task_lacks_pid(task, pid))
		return task;
	lookup->needs_update |= lookup->read_only;
	return lookup->read_only ? NULL : make_task(lookup->machine, pid, tid);
}

/* The object whose symbols are to be asked, read; false: that needs an update. */
static bool find_map(struct lookup *lookup, struct task *task, struct location *at, const struct map **ret)
{
	struct machine *machine = lookup->machine;

	*ret = NULL;
	if (at->level == '.')
		*ret = task->maps ? maps_find(task->maps, at->ip) : NULL;
	else if (at->level == 'k' && lookup->read_only)
		return kernel_peek(&machine->kernel, at->ip, ret);
	else if (at->level == 'k')
		*ret = kernel_find(&machine->kernel, at->ip);
	struct dso *dso = *ret ? (*ret)->object : NULL;
	if (!dso || dso->loaded)
		return true;
	if (!lookup->read_only)
		dso_load(dso, symfs_of(machine));
	return !lookup->read_only;
}

static bool search_symbol(const struct lookup *lookup, struct location *at)
{
	if (lookup->read_only)
		return symbols_peek(&at->dso->symbols, at->address, &at->symbol);
	at->symbol = symbols_find(&at->dso->symbols, at->address);
	return true;
}

static bool find_symbol(struct lookup *lookup, struct location *at)
{
	uint64_t epoch = lookup->machine->common_epoch,
		 hash = ((uintptr_t)at->dso + at->address) * 0x9e3779b97f4a7c15ull;
	struct known_symbol *known = &lookup->known[hash >> (64 - KNOWN_BITS)];

	if (known->common_epoch != epoch || known->dso != at->dso || known->address != at->address) {
		if (!search_symbol(lookup, at))
			return false;
		*known = (struct known_symbol){epoch, at->dso, at->address, at->symbol};
	}
	at->symbol = known->symbol;
	return true;
}

/*
 * What the code at an address is changes without a record. A process can have two compilers: the map names what the
 * dump never has. false: an update is needed.
 */
static bool find_jit_symbol(struct lookup *lookup, struct resolved *resolved)
{
	struct location *at = &resolved->location;

	at->symbol = jit_code_find(at->dso->jit, at->address, lookup->time_ns, &resolved->from_ns, &resolved->to_ns);
	resolved->timed = at->symbol || jit_code_covers(at->dso->jit, at->address);
	return resolved->timed || find_symbol(lookup, at);
}

static bool find_code_symbol(struct lookup *lookup, struct resolved *resolved)
{
	struct location *at = &resolved->location;

	return at->dso->jit ? find_jit_symbol(lookup, resolved) : find_symbol(lookup, at);
}

/*
 * What a process compiles into memory that it has had since its fork is in its own map, not in that of its parent,
 * which mapped the memory. Where both name it, it is not known whether the sample is of before. false: an update is
 * needed.
 */
static bool find_own_code(struct lookup *lookup, const struct task *task, struct resolved *resolved)
{
	struct machine *machine = lookup->machine;
	const struct resolved inherited = *resolved;
	const uint64_t program_ns = hash_table_find_number(&machine->programs, task->pid);
	struct dso *own = dso_peek_code(&machine->dsos, task->pid, program_ns);

	if (own == inherited.location.dso)
		return true;
	if ((!own || !own->loaded) && lookup->read_only)
		return false;
	if (!own)
		own = perf_map_of(machine, task);
	if (!own)
		return true;
	dso_load(own, symfs_of(machine));
	resolved->location.dso = own;
	if (!find_code_symbol(lookup, resolved))
		return false;
	const struct symbol *mine = resolved->location.symbol, *parents = inherited.location.symbol;
	if (!mine || (parents && !resolved->timed))
		*resolved = inherited;
	if (mine && parents && !resolved->timed && strcmp(mine->name, parents->name) != 0)
		resolved->location.symbol = NULL;
	return true;
}

static char level_of(uint8_t cpumode)
{
	return cpumode == PERF_RECORD_MISC_KERNEL ? 'k' : cpumode == PERF_RECORD_MISC_USER ? '.' : 'H';
}

static uint32_t map_pages(const struct map *map)
{
	enum { PAGE_BITS = 12 };
	uint64_t pages = (map->end - map->start + (1 << PAGE_BITS) - 1) >> PAGE_BITS;

	return pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
}

/* false: an update is needed. */
static bool resolve(struct lookup *lookup, struct task *task, uint8_t cpumode, uint64_t ip, struct resolved *resolved)
{
	struct location *ret = &resolved->location;
	const struct map *map;

	resolved->timed = false;
	*ret = (struct location){.ip = ip, .address = ip, .level = level_of(cpumode)};
	if (!find_map(lookup, task, ret, &map))
		return false;
	if (!map)
		return true;
	ret->dso = map->object;
	ret->map_pages = map_pages(map);
	ret->address = map_address(map, ip);
	if (ret->dso->kind != DSO_PERFMAP)
		return find_symbol(lookup, ret);
	return find_code_symbol(lookup, resolved) && find_own_code(lookup, task, resolved);
}

/* Not behind an instruction of the function there. Generated code has no file. */
static bool may_be_end(const struct location *at)
{
	return at->dso && (at->level == 'k' || (at->level == '.' && at->dso->kind == DSO_FILE)) &&
	       (!at->symbol || at->symbol->start == at->address);
}

/* Samples hit few addresses, again and again. */
static inline __attribute__((always_inline)) struct resolved *resolve_once(struct lookup *lookup, struct task *task,
									   uint8_t cpumode, uint64_t ip)
{
	const struct machine *machine = lookup->machine;
	uint64_t maps = cpumode == PERF_RECORD_MISC_USER && task->maps ? maps_generation(task->maps) : 0;
	uint64_t key = (ip + maps) * 0x9e3779b97f4a7c15ull;
	struct resolved *resolved = &lookup->resolved[key >> (64 - RESOLVED_BITS)];

	if (resolved->common_epoch != machine->common_epoch || resolved->maps != maps || resolved->cpumode != cpumode ||
	    resolved->location.ip != ip ||
	    (resolved->timed && (lookup->time_ns < resolved->from_ns || lookup->time_ns >= resolved->to_ns))) {
		bool found = resolve(lookup, task, cpumode, ip, resolved);
		lookup->needs_update |= !found;
		resolved->maps = maps;
		resolved->cpumode = cpumode;
		resolved->common_epoch = found ? machine->common_epoch : 0;
		resolved->doubtful = resolved->location.dso && resolved->location.dso->doubt.why;
		resolved->may_be_end = may_be_end(&resolved->location);
	}
	if (resolved->doubtful)
		__atomic_fetch_add(&resolved->location.dso->doubt.nr_uses, 1, __ATOMIC_RELAXED);
	return resolved;
}

void lookup_resolve(struct lookup *lookup, struct task *task, uint8_t cpumode, uint64_t ip, struct location *ret)
{
	*ret = resolve_once(lookup, task, cpumode, ip)->location;
}

/* The function that has the byte before; NULL: none. false: an update is needed. */
static bool find_symbol_before(struct lookup *lookup, const struct location *at, const struct symbol **ret)
{
	struct location call = *at;

	call.address--;
	if (!find_symbol(lookup, &call))
		return false;
	*ret = call.symbol;
	return true;
}

/* Whether a program's function ends with a call. LAST_CALL_UNKNOWN: an update is needed. */
static enum last_call last_call_of(struct lookup *lookup, const struct dso *dso, const struct symbol *function)
{
	struct machine *machine = lookup->machine;
	enum last_call last = last_calls_peek(&machine->last_calls, function);

	if (last == LAST_CALL_UNKNOWN && !lookup->read_only)
		last = last_calls_find(&machine->last_calls, dso, symfs_of(machine), function);
	return last;
}

/*
 * The kernel's code is not at hand. What is not padding is no return address where an interrupt was, or where a thunk
 * is about to go to the function (retpolines), which nothing in a chain tells from one.
 */
static bool is_kernel_padding(const struct location *at)
{
	return at->level == 'k' && (!at->symbol || starts_with(at->symbol->name, "__pfx_"));
}

/* Makes it the function that ends there, if there is one, with a call. false: an update is needed. */
static bool find_function_that_ends(struct lookup *lookup, struct resolved *resolved, struct location *at)
{
	const struct symbol *before;
	enum last_call last = LAST_CALL_NONE;

	if (!find_symbol_before(lookup, at, &before))
		return false;
	if (before && before->end == at->address && is_kernel_padding(at))
		last = LAST_CALL_THERE;
	else if (before && before->end == at->address && before->sized && at->level == '.')
		last = last_call_of(lookup, at->dso, before);
	if (last == LAST_CALL_UNKNOWN)
		return false;
	resolved->may_be_end = last == LAST_CALL_THERE;
	at->symbol = resolved->may_be_end ? before : at->symbol;
	at->is_return = resolved->may_be_end;
	return true;
}

void lookup_resolve_caller(struct lookup *lookup, struct task *task, uint8_t cpumode, uint64_t ip, struct location *ret)
{
	struct resolved *resolved = resolve_once(lookup, task, cpumode, ip);

	*ret = resolved->location;
	if (resolved->may_be_end)
		lookup->needs_update |= !find_function_that_ends(lookup, resolved, ret);
}

/*
 * Frame pointers lead past the caller of a function that has no frame of its own. Returns how many locations that
 * makes; samples with a stack need no such help.
 */
static unsigned add_leaf_caller(struct lookup *lookup, struct task *task, const struct sample *sample, uint64_t ip,
				struct location *ret)
{
	struct machine *machine = lookup->machine;
	uint64_t caller;

	if (!sample->user_regs.regs || sample->present & PERF_SAMPLE_STACK_USER || !task->maps)
		return 0;
	lookup->needs_update |= lookup->read_only;
	if (lookup->read_only || !user_stacks_of(machine))
		return 0;
	user_stacks_set_time(machine->user_stacks, lookup->time_ns);
	if (!user_stack_leaf_caller(machine->user_stacks, task->maps, sample, ip, &caller) || caller == ip)
		return 0;
	lookup_resolve(lookup, task, PERF_RECORD_MISC_USER, caller, ret);
	return 1;
}

bool machine_may_inline(const struct machine *machine, const struct location *frame)
{
	return frame->level == '.' && frame->symbol && !frame->dso->jit && machine->options.inlined != INLINE_NONE;
}

/* NULL: none. */
static const struct inlined *find_inlined(struct lookup *lookup, const struct location *frame)
{
	const struct machine *machine = lookup->machine;
	uint64_t address = frame->address - frame->is_return;

	if (!machine_may_inline(machine, frame))
		return NULL;
	uint64_t key = hash_mix((uintptr_t)frame->symbol, address) * 0x9e3779b97f4a7c15ull;
	const struct inlined **cached = &lookup->inlined[key >> (64 - INLINED_BITS)];
	if (!*cached || (*cached)->symbol != frame->symbol || (*cached)->address != address)
		*cached = debug_info_inlined(machine->debug_info, frame->dso, frame->symbol, address);
	return *cached;
}

/* As machine_inlined(). */
static unsigned expand_inlined(struct lookup *lookup, const struct location *frame, struct location *ret, unsigned max)
{
	const struct inlined *inlined = find_inlined(lookup, frame);
	unsigned nr = !inlined || !inlined->nr ? 1 : inlined->nr < max ? inlined->nr : max;

	for (unsigned i = 0; i < nr; i++) {
		ret[i] = *frame;
		ret[i].nr_inlined = inlined && inlined->is_elsewhere ? INLINED_ELSEWHERE : (uint16_t)i;
		if (inlined && inlined->nr)
			ret[i].symbol = inlined->functions[i];
	}
	return nr;
}

unsigned machine_inlined(struct machine *machine, const struct location *frame, struct location *ret, unsigned max)
{
	return expand_inlined(&machine->own, frame, ret, max);
}

bool machine_chain_is_plain(const struct machine *machine, const struct sample *sample)
{
	return !machine->timed && (sample->present & PERF_SAMPLE_STACK_USER || !sample->user_regs.regs);
}

bool machine_inlines_all(const struct machine *machine)
{
	return machine->options.inlined == INLINE_ALL;
}

/* What the kernel walked: its own frames, and by frame pointers those of the program. */
static unsigned add_recorded(struct lookup *lookup, struct task *task, const struct session_record *record,
			     struct location *ret, unsigned max)
{
	const struct sample *sample = &record->sample;
	bool inlined = lookup->machine->options.inlined == INLINE_ALL;
	struct ip_walk walk = ip_walk_over(record);
	unsigned nr = 0;
	uint64_t ip;

	while (nr < max && ip_walk_next(&walk, &ip)) {
		struct location frame;
		if (walk.innermost)
			lookup_resolve(lookup, task, walk.cpumode, ip, &frame);
		else
			lookup_resolve_caller(lookup, task, walk.cpumode, ip, &frame);
		frame.is_return |= inlined && !walk.innermost && walk.cpumode == PERF_RECORD_MISC_USER;
		if (inlined)
			nr += expand_inlined(lookup, &frame, &ret[nr], max - nr);
		else
			ret[nr++] = frame;
		if (walk.leaf && nr < max)
			nr += add_leaf_caller(lookup, task, sample, ip, &ret[nr]);
	}
	return walk.untrusted ? 0 : nr;
}

void machine_set_max_unwound(struct machine *machine, uint64_t max)
{
	machine->max_unwound = max < CHAIN_MOST_FRAMES ? (unsigned)max : CHAIN_MOST_FRAMES;
}

void machine_unwind(struct machine *machine, const struct task *task, const struct sample *sample,
		    struct unwind_chain *chain)
{
	chain->nr = 0;
	chain->end = UNWIND_NO_OBJECT;
	chain->max = chain->max < machine->max_unwound ? chain->max : machine->max_unwound;
	if (!user_stacks_of(machine) || !task->maps)
		return;
	lookup_set_time(&machine->own, sample);
	user_stacks_set_time(machine->user_stacks, machine->own.time_ns);
	user_stack_chain(machine->user_stacks, task->maps, sample, chain);
}

/* The program's frames out of the sample's registers and stack. */
static unsigned add_unwound(struct lookup *lookup, struct task *task, const struct sample *sample, struct location *ret,
			    unsigned max)
{
	struct machine *machine = lookup->machine;
	uint64_t ips[CHAIN_MOST_FRAMES];
	struct unwind_chain chain = {.ips = ips, .max = CHAIN_MOST_FRAMES};
	unsigned nr = 0;

	lookup->needs_update |= lookup->read_only;
	if (lookup->read_only)
		return 0;

	machine_unwind(machine, task, sample, &chain);
	for (unsigned i = 0; i < chain.nr && nr < max; i++) {
		struct location frame;
		lookup_resolve(lookup, task, PERF_RECORD_MISC_USER, ips[i], &frame);
		nr += expand_inlined(lookup, &frame, ret + nr, max - nr);
	}
	return nr;
}

unsigned lookup_callchain(struct lookup *lookup, struct task *task, const struct session_record *record,
			  struct location *ret, unsigned max)
{
	const struct sample *sample = &record->sample;

	lookup_set_time(lookup, sample);
	unsigned nr = add_recorded(lookup, task, record, ret, max);

	if (sample->user_stack.len && nr < max)
		nr += add_unwound(lookup, task, sample, ret + nr, max - nr);
	return nr;
}

void machine_resolve(struct machine *machine, struct task *task, uint8_t cpumode, uint64_t ip, struct location *ret)
{
	lookup_resolve(&machine->own, task, cpumode, ip, ret);
}

unsigned machine_callchain(struct machine *machine, struct task *task, const struct session_record *record,
			   struct location *ret, unsigned max)
{
	return lookup_callchain(&machine->own, task, record, ret, max);
}
