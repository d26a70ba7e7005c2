/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyze/inlines.h"
#include "analyze/machine_priv.h"
#include "analyze/maps.h"
#include "analyze/unwind.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "format/build_id.h"
#include "read/session.h"

static struct task **task_chain(struct machine *machine, uint32_t tid)
{
	return &machine->tasks[tid % TASK_CHAINS];
}

struct task *machine_find_task(const struct machine *machine, uint32_t tid)
{
	for (struct task *task = machine->tasks[tid % TASK_CHAINS]; task; task = task->next)
		if (task->tid == tid)
			return task;
	return NULL;
}

/* NULL: out of memory. */
static struct comm *comm_make(struct machine *machine, const char *text)
{
	struct comm *comm = pool_take(&machine->pool, sizeof(*comm));

	if (comm)
		comm->text = pool_text(&machine->pool, text, strlen(text));
	return comm && comm->text ? comm : NULL;
}

/* Threads share the maps of their process, that is of the task whose tid is the pid. */
static struct maps *task_make_maps(struct machine *machine, uint32_t pid, uint32_t tid)
{
	if (pid == tid || pid == UINT32_MAX)
		return maps_new();
	struct task *leader = machine_task(machine, pid, pid);
	return leader && leader->maps ? maps_ref(leader->maps) : NULL;
}

static struct task *task_make(struct machine *machine, uint32_t pid, uint32_t tid)
{
	struct maps *maps = task_make_maps(machine, pid, tid);
	struct task *task = maps ? pool_take(&machine->pool, sizeof(*task)) : NULL;
	char unknown[16];

	snprintf(unknown, sizeof(unknown), ":%d", (int)tid);
	struct comm *comm = task ? comm_make(machine, unknown) : NULL;
	if (!comm) {
		maps_unref(maps);
		return NULL;
	}
	*task = (struct task){
		.next = *task_chain(machine, tid), .pid = pid, .tid = tid, .parent = UINT32_MAX, .comm = comm, .maps = maps};
	*task_chain(machine, tid) = task;
	return task;
}

/* A task that was first seen without its pid now shows which process it belongs to. */
static int task_learn_pid(struct machine *machine, struct task *task, uint32_t pid)
{
	if (!task_lacks_pid(task, pid))
		return 0;
	if (pid != task->tid) {
		struct maps *maps = task_make_maps(machine, pid, task->tid);
		if (!maps)
			return -ENOMEM;
		maps_unref(task->maps);
		task->maps = maps;
	}
	task->pid = pid;
	task->epoch++;
	machine->epoch++;
	return 0;
}

struct task *machine_known_task(const struct machine *machine, uint32_t pid, uint32_t tid)
{
	struct task *task = machine_find_task(machine, tid);

	return task && task_lacks_pid(task, pid) ? NULL : task;
}

struct task *machine_make_task(struct machine *machine, uint32_t pid, uint32_t tid)
{
	struct task *task = machine_find_task(machine, tid);

	if (!task)
		return task_make(machine, pid, tid);
	return task_learn_pid(machine, task, pid) ? NULL : task;
}

struct task *machine_task(struct machine *machine, uint32_t pid, uint32_t tid)
{
	return lookup_task(&machine->own, pid, tid);
}

struct task_epoch task_epoch(const struct machine *machine, const struct task *task)
{
	uint32_t maps = task->maps ? (uint32_t)maps_generation(task->maps) : 0;

	return (struct task_epoch){machine->world_epoch, (uint64_t)task->epoch << 32 | maps};
}

const char *task_comm(const struct task *task)
{
	return task->comm->text;
}

uint32_t task_pid(const struct task *task)
{
	return task->pid;
}

uint32_t task_tid(const struct task *task)
{
	return task->tid;
}

uint32_t task_parent(const struct task *task)
{
	return task->parent;
}

const struct maps *task_maps(const struct task *task)
{
	return task->maps;
}

int machine_list_tasks(const struct machine *machine, struct task ***ret, size_t *ret_nr)
{
	size_t nr = 0;

	for (size_t i = 0; i < TASK_CHAINS; i++)
		for (const struct task *task = machine->tasks[i]; task; task = task->next)
			nr++;
	struct task **list = calloc(nr + 1, sizeof(struct task *));
	if (!list)
		return -ENOMEM;
	nr = 0;
	for (size_t i = 0; i < TASK_CHAINS; i++)
		for (struct task *task = machine->tasks[i]; task; task = task->next)
			list[nr++] = task;
	*ret = list;
	*ret_nr = nr;
	return 0;
}

const struct comm *task_comm_object(const struct task *task)
{
	return task->comm;
}

static int task_set_comm(struct machine *machine, struct task *task, const char *text)
{
	if (strcmp(task->comm->text, text) != 0 || !task->comm_told) {
		struct comm *comm = comm_make(machine, text);
		if (!comm)
			return -ENOMEM;
		if (task->comm_told)
			task->comm = comm;
		else /* what was seen before its name was told has it too */
			task->comm->text = comm->text;
	}
	task->epoch++;
	task->comm_told = true;
	return 0;
}

/* The tid belongs to somebody else from now on. The object stays: callers may still hold it. */
static void task_forget(struct machine *machine, struct task *task)
{
	for (struct task **slot = task_chain(machine, task->tid); *slot; slot = &(*slot)->next) {
		if (*slot == task) {
			*slot = task->next;
			break;
		}
	}
	if (machine->own.last == task)
		machine->own.last = NULL;
	maps_unref(task->maps);
	task->maps = NULL;
	task->epoch++;
}

/* What `record --bundle` left beside the file. In the pool; NULL: nothing. */
static const char *find_bundle(struct machine *machine, struct session *session)
{
	const char *path = session ? session_info(session)->path : NULL;
	AUTO_FREE char *bundle = NULL;
	struct stat status;

	if (!path || asprintf(&bundle, "%s.bundle", path) < 0) {
		bundle = NULL;
		return NULL;
	}
	bool there = stat(bundle, &status) == 0 && S_ISDIR(status.st_mode);
	return there ? pool_text(&machine->pool, bundle, strlen(bundle)) : NULL;
}

int machine_new(const struct machine_options *options, struct session *session, struct machine **ret)
{
	struct machine *machine = calloc(1, sizeof(*machine));
	struct span build_ids;

	if (!machine)
		return -ENOMEM;
	if (options)
		machine->options = *options;
	machine->session = session;
	machine->epoch = 1;
	machine->own.machine = machine;
	machine->dsos.bundle = find_bundle(machine, session);
	int err = kernel_init(&machine->kernel, &machine->options, session, &machine->dsos);
	/* The idle tasks: no record tells their name. Source: init/init_task.c */
	struct task *idle = err ? NULL : machine_task(machine, 0, 0);
	err = idle ? task_set_comm(machine, idle, "swapper") : -ENOMEM;
	if (!err && session && session_feature(session, FEATURE_BUILD_ID, &build_ids))
		err = machine_learn_build_ids(machine, build_ids);
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
	for (size_t i = 0; i < TASK_CHAINS; i++)
		for (struct task *task = machine->tasks[i]; task; task = task->next)
			maps_unref(task->maps);
	unwinder_free(machine->unwinder);
	inlines_free(machine->inlines);
	kernel_fini(&machine->kernel);
	dso_table_fini(&machine->dsos);
	pool_fini(&machine->pool);
	free(machine);
}

static bool starts_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* A user map as MMAP and MMAP2 tell it. */
struct map_told {
	uint32_t pid, tid;
	uint64_t start, len, pgoff;
	const char *name;
	struct dso_id id;
	struct elf_id build_id; /* len 0: not told */
	bool executable, huge;
	uint8_t rights; /* enum map_rights */
};

enum { MMAP2_PROT_EXEC = 4, MMAP2_MAP_SHARED = 1, MMAP2_MAP_HUGETLB = 0x40000 }; /* mmap(2), as the kernel hands them through */

/* Memory without a file: what is executed there was compiled at run time. */
static bool is_anonymous(const struct map_told *told)
{
	return told->huge || strcmp(told->name, "//anon") == 0 || starts_with(told->name, "/dev/zero") ||
	       starts_with(told->name, "/anon_hugepage");
}

static bool is_without_object(const char *name)
{
	return starts_with(name, "[stack") || starts_with(name, "/SYSV") || strcmp(name, "[heap]") == 0;
}

static int user_map(struct machine *machine, const struct map_told *told)
{
	struct task *task = machine_task(machine, told->pid, told->tid);
	struct map map = {.start = told->start, .pgoff = told->pgoff, .rights = told->rights, .inode = told->id.inode};
	char perfmap[48];

	if (!task)
		return -ENOMEM;
	if (__builtin_add_overflow(told->start, told->len, &map.end))
		map.end = UINT64_MAX;
	map.identity = is_anonymous(told) || is_without_object(told->name);
	if (map.identity && told->executable) {
		snprintf(perfmap, sizeof(perfmap), "/tmp/perf-%d.map", (int)task->pid);
		map.dso = dso_find(&machine->dsos, perfmap, NULL, DSO_PERFMAP);
	} else if (map.identity) {
		map.dso = dso_find(&machine->dsos, told->name, NULL, DSO_NOTHING);
	} else if (strcmp(told->name, "[vdso]") == 0) {
		map.dso = dso_find(&machine->dsos, told->name, NULL, DSO_VDSO);
	} else {
		map.dso = dso_find(&machine->dsos, told->name, &told->id, DSO_FILE);
	}
	if (!map.dso)
		return -ENOMEM;
	if (told->build_id.len)
		map.dso->build_id = told->build_id;
	return task->maps ? maps_insert(task->maps, &map) : 0;
}

static int process_map(struct machine *machine, const struct session_record *record,
		       const struct map_told *told)
{
	switch (record->view.header->misc & PERF_RECORD_MISC_CPUMODE_MASK) {
	case PERF_RECORD_MISC_KERNEL: {
		struct kernel_map_record map = {told->start, told->len, told->pgoff, told->name,
						told->build_id.len ? &told->build_id : NULL};
		machine->world_epoch++;
		return kernel_map(&machine->kernel, &map);
	}
	case PERF_RECORD_MISC_GUEST_KERNEL:
	case PERF_RECORD_MISC_GUEST_USER:
		return 0;
	default:
		return user_map(machine, told);
	}
}

static struct cursor record_cursor(const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;

	return cursor_over((struct span){header + 1, header->size - sizeof(*header)});
}

static int process_mmap(struct machine *machine, const struct session_record *record)
{
	struct cursor at = record_cursor(record);
	struct map_told told = {0};

	told.pid = cursor_u32(&at);
	told.tid = cursor_u32(&at);
	told.start = cursor_u64(&at);
	told.len = cursor_u64(&at);
	told.pgoff = cursor_u64(&at);
	told.name = cursor_string(&at, cursor_left(&at));
	told.executable = !(record->view.header->misc & PERF_RECORD_MISC_MMAP_DATA);
	told.rights = told.executable ? MAP_MAY_EXECUTE : 0;
	return at.bad ? 0 : process_map(machine, record, &told);
}

/*
 * What the flag says is there in place of device and inode (perf_event_open(2)). The kernel sets it in records without
 * a build-id, too, while somebody else records all CPUs with them (seen on Linux 6.18): then it is none by its form, a
 * length of at most 20, zeros, and bytes that are zero behind that length.
 */
static bool take_build_id(struct cursor *at, struct elf_id *ret)
{
	struct cursor from = *at;
	struct elf_id id = {.len = cursor_u8(&from)};
	bool zeros = cursor_u8(&from) == 0 && cursor_u16(&from) == 0;

	cursor_copy(&from, id.bytes, ELF_ID_MAX_BYTES);
	if (from.bad || !zeros || !id.len || id.len > ELF_ID_MAX_BYTES)
		return false;
	for (size_t i = id.len; i < ELF_ID_MAX_BYTES; i++)
		if (id.bytes[i])
			return false;
	*at = from;
	*ret = id;
	return true;
}

static int process_mmap2(struct machine *machine, const struct session_record *record)
{
	struct cursor at = record_cursor(record);
	struct map_told told = {0};

	told.pid = cursor_u32(&at);
	told.tid = cursor_u32(&at);
	told.start = cursor_u64(&at);
	told.len = cursor_u64(&at);
	told.pgoff = cursor_u64(&at);
	if (!(record->view.header->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) || !take_build_id(&at, &told.build_id)) {
		told.id.major = cursor_u32(&at);
		told.id.minor = cursor_u32(&at);
		told.id.inode = cursor_u64(&at);
		told.id.generation = cursor_u64(&at);
	}
	uint32_t prot = cursor_u32(&at), flags = cursor_u32(&at);
	told.executable = prot & MMAP2_PROT_EXEC;
	told.huge = flags & MMAP2_MAP_HUGETLB;
	told.rights = (uint8_t)((prot & MAP_MAY_ALL) | (flags & MMAP2_MAP_SHARED ? MAP_IS_SHARED : 0));
	told.name = cursor_string(&at, cursor_left(&at));
	return at.bad ? 0 : process_map(machine, record, &told);
}

static int process_comm(struct machine *machine, const struct session_record *record)
{
	struct cursor at = record_cursor(record);
	uint32_t pid = cursor_u32(&at), tid = cursor_u32(&at);
	const char *comm = cursor_string(&at, cursor_left(&at));

	if (at.bad)
		return 0;
	struct task *task = machine_task(machine, pid, tid);
	return task ? task_set_comm(machine, task, comm) : -ENOMEM;
}

/* A new process gets a copy of its parent's maps; threads share those of their process from the start. */
static int fork_maps(struct task *child, const struct task *parent)
{
	if (child->pid == parent->pid || !parent->maps || child->maps == parent->maps)
		return 0;
	struct maps *maps = maps_clone(parent->maps);
	if (!maps)
		return -ENOMEM;
	maps_unref(child->maps);
	child->maps = maps;
	child->epoch++;
	return 0;
}

static int process_fork(struct machine *machine, const struct session_record *record)
{
	struct cursor at = record_cursor(record);
	uint32_t pid = cursor_u32(&at), ppid = cursor_u32(&at), tid = cursor_u32(&at), ptid = cursor_u32(&at);

	if (at.bad)
		return 0;
	struct task *parent = machine_task(machine, ppid, ptid);
	if (parent && parent->pid != ppid) {
		/* Its exit and our parent's birth went unseen. */
		task_forget(machine, parent);
		parent = machine_task(machine, ppid, ptid);
	}
	struct task *child = machine_find_task(machine, tid);
	if (child && child != parent)
		task_forget(machine, child);
	child = machine_task(machine, pid, tid);
	if (!parent || !child)
		return -ENOMEM;
	child->parent = parent->tid;
	if (parent->comm_told && task_set_comm(machine, child, parent->comm->text))
		return -ENOMEM;
	/* Recorders that tell of running processes list their maps afterwards. */
	return record->view.header->misc & RECORD_MISC_FORK_EXEC ? 0 : fork_maps(child, parent);
}

static int process_ksymbol(struct machine *machine, const struct session_record *record)
{
	struct cursor at = record_cursor(record);
	uint64_t address = cursor_u64(&at);
	uint32_t len = cursor_u32(&at);
	cursor_u16(&at); /* what kind of code */
	uint16_t flags = cursor_u16(&at);
	const char *name = cursor_string(&at, cursor_left(&at));

	if (at.bad)
		return 0;
	return kernel_symbol(&machine->kernel, address, len, name,
			     flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER);
}

/* What is not about one task. Of types that are not known here nobody can say what they change. */
static int process_other(struct machine *machine, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;

	machine->world_epoch++;
	switch (header->type) {
	case PERF_RECORD_KSYMBOL:
		return process_ksymbol(machine, record);
	case RECORD_BUILD_ID:
		return machine_learn_build_ids(machine, (struct span){header, header->size});
	default:
		return 0;
	}
}

int machine_process(struct machine *machine, const struct session_record *record)
{
	switch (record->view.header->type) {
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
	case PERF_RECORD_EXIT:
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return 0;
	default:
		machine->epoch++;
	}
	switch (record->view.header->type) {
	case PERF_RECORD_MMAP:
		return process_mmap(machine, record);
	case PERF_RECORD_MMAP2:
		return process_mmap2(machine, record);
	case PERF_RECORD_COMM:
		return process_comm(machine, record);
	case PERF_RECORD_FORK:
		return process_fork(machine, record);
	default:
		return process_other(machine, record);
	}
}

static enum dso_kind build_id_kind(const struct build_id *told)
{
	if ((told->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL)
		return starts_with(told->path, "[kernel") ? DSO_KERNEL : DSO_MODULE;
	return strcmp(told->path, "[vdso]") == 0 ? DSO_VDSO : DSO_FILE;
}

int machine_learn_build_ids(struct machine *machine, struct span records)
{
	struct cursor at = cursor_over(records);
	struct build_id told;

	while (build_id_decode(&at, &told) == 1) {
		struct dso *dso = dso_find(&machine->dsos, told.path, NULL, build_id_kind(&told));
		if (!dso)
			return -ENOMEM;
		dso->build_id = (struct elf_id){.len = told.id_bytes};
		memcpy(dso->build_id.bytes, told.id, told.id_bytes);
	}
	return 0;
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
