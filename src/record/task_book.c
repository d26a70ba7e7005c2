/* SPDX-License-Identifier: MIT */
#include "record/task_book.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "format/record.h"
#include "record/synth_record.h"

enum { FIRST_SLOTS = 256, COMM_BYTES = 16 };

/* Records as they came, but for their trailers. A child has those of its parent until one of the two maps anything. */
struct map_list {
	size_t nr_users;
	struct buf records;
};

struct book_task {
	uint32_t tid;
	char comm[COMM_BYTES];
};

struct book_process {
	struct book_process *next; /* in its slot */
	uint32_t pid, parent;
	struct book_task *tasks; /* heap */
	size_t nr_tasks, room;
	struct map_list *maps; /* NULL: none */
};

struct task_book {
	size_t trailer_bytes;
	struct book_process **slots; /* heap; by hash of the pid */
	size_t nr_slots, nr;
};

struct task_book *task_book_new(size_t trailer_bytes)
{
	struct task_book *book = calloc(1, sizeof(*book));

	if (!book)
		return NULL;
	book->trailer_bytes = trailer_bytes;
	book->nr_slots = FIRST_SLOTS;
	book->slots = calloc(book->nr_slots, sizeof(*book->slots));
	if (!book->slots) {
		free(book);
		return NULL;
	}
	return book;
}

static void maps_leave(struct book_process *process)
{
	struct map_list *maps = process->maps;

	process->maps = NULL;
	if (!maps || --maps->nr_users)
		return;
	buf_fini(&maps->records);
	free(maps);
}

static void process_free(struct book_process *process)
{
	maps_leave(process);
	free(process->tasks);
	free(process);
}

void task_book_free(struct task_book *book)
{
	if (!book)
		return;
	for (size_t i = 0; i < book->nr_slots; i++)
		while (book->slots[i]) {
			struct book_process *process = book->slots[i];
			book->slots[i] = process->next;
			process_free(process);
		}
	free(book->slots);
	free(book);
}

static struct book_process **slot_of(const struct task_book *book, uint32_t pid)
{
	return &book->slots[(pid * 0x9e3779b1u >> 8) % book->nr_slots];
}

/* More slots than processes; without memory for them the old ones do. */
static void grow(struct task_book *book)
{
	struct book_process **before = book->slots;
	size_t nr_before = book->nr_slots;
	struct book_process **slots = calloc(2 * nr_before, sizeof(struct book_process *));

	if (!slots)
		return;
	book->slots = slots;
	book->nr_slots = 2 * nr_before;
	for (size_t i = 0; i < nr_before; i++)
		while (before[i]) {
			struct book_process *process = before[i];
			struct book_process **slot = slot_of(book, process->pid);
			before[i] = process->next;
			process->next = *slot;
			*slot = process;
		}
	free(before);
}

static struct book_process *find(const struct task_book *book, uint32_t pid)
{
	struct book_process *process = *slot_of(book, pid);

	while (process && process->pid != pid)
		process = process->next;
	return process;
}

/* NULL: out of memory. */
static struct book_process *find_or_add(struct task_book *book, uint32_t pid)
{
	struct book_process *process = find(book, pid);

	if (process)
		return process;
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	if (book->nr >= book->nr_slots)
		grow(book);
	struct book_process **slot = slot_of(book, pid);
	process->pid = pid;
	process->next = *slot;
	*slot = process;
	book->nr++;
	return process;
}

static void forget(struct task_book *book, struct book_process *process)
{
	struct book_process **at = slot_of(book, process->pid);

	while (*at != process)
		at = &(*at)->next;
	*at = process->next;
	book->nr--;
	process_free(process);
}

static struct book_task *find_task(const struct book_process *process, uint32_t tid)
{
	for (size_t i = 0; i < process->nr_tasks; i++)
		if (process->tasks[i].tid == tid)
			return &process->tasks[i];
	return NULL;
}

static struct book_task *find_or_add_task(struct book_process *process, uint32_t tid)
{
	struct book_task *task = find_task(process, tid);

	if (task)
		return task;
	if (process->nr_tasks == process->room) {
		size_t room = process->room ? 2 * process->room : 1;
		struct book_task *grown = reallocarray(process->tasks, room, sizeof(*grown));
		if (!grown)
			return NULL;
		process->tasks = grown;
		process->room = room;
	}
	task = &process->tasks[process->nr_tasks++];
	*task = (struct book_task){.tid = tid};
	return task;
}

static void forget_tasks_but(struct book_process *process, uint32_t tid)
{
	const struct book_task *kept = find_task(process, tid);

	process->nr_tasks = kept != NULL;
	if (kept)
		process->tasks[0] = *kept;
}

static int take_comm(struct task_book *book, const struct record_comm *comm, struct span name)
{
	struct book_process *process = find_or_add(book, comm->pid);
	struct book_task *task = process ? find_or_add_task(process, comm->tid) : NULL;

	if (!task)
		return -ENOMEM;
	memset(task->comm, 0, COMM_BYTES);
	memcpy(task->comm, name.ptr, strnlen(name.ptr, name.len < COMM_BYTES - 1 ? name.len : COMM_BYTES - 1));
	if (comm->header.misc & PERF_RECORD_MISC_COMM_EXEC) {
		forget_tasks_but(process, comm->tid);
		maps_leave(process);
	}
	return 0;
}

static int take_fork(struct task_book *book, const struct record_fork *fork)
{
	const struct book_process *parent = find(book, fork->ppid);
	const struct book_task *like = parent ? find_task(parent, fork->ptid) : NULL;
	char comm[COMM_BYTES] = {0};

	if (like)
		memcpy(comm, like->comm, COMM_BYTES);
	struct book_process *process = find_or_add(book, fork->pid);
	if (!process)
		return -ENOMEM;
	if (fork->pid != fork->ppid) {
		/* A number that is used again, after an exit that nobody told. */
		process->nr_tasks = 0;
		process->parent = fork->ppid;
		maps_leave(process);
		if (parent && parent->maps && !(fork->header.misc & RECORD_MISC_FORK_EXEC)) {
			process->maps = parent->maps;
			process->maps->nr_users++;
		}
	}
	struct book_task *task = find_or_add_task(process, fork->tid);
	if (!task)
		return -ENOMEM;
	if (!task->comm[0])
		memcpy(task->comm, comm, COMM_BYTES);
	return 0;
}

static void take_exit(struct task_book *book, const struct record_fork *exit)
{
	struct book_process *process = find(book, exit->pid);
	struct book_task *task = process ? find_task(process, exit->tid) : NULL;

	if (task)
		*task = process->tasks[--process->nr_tasks];
	if (process && !process->nr_tasks)
		forget(book, process);
}

/* A list that is the process's alone. NULL: out of memory. */
static struct map_list *own_maps(struct book_process *process)
{
	struct map_list *before = process->maps;

	if (before && before->nr_users == 1)
		return before;
	struct map_list *maps = calloc(1, sizeof(*maps));
	if (!maps)
		return NULL;
	maps->nr_users = 1;
	if (before)
		buf_put(&maps->records, before->records.data, before->records.len);
	if (maps->records.failed) {
		free(maps);
		return NULL;
	}
	maps_leave(process);
	process->maps = maps;
	return maps;
}

/* Of two maps of one place the newer counts: the older goes when nothing of it is left. */
static void forget_covered(struct buf *records, const struct record_mmap *by)
{
	size_t kept = 0;

	for (size_t at = 0; at < records->len;) {
		struct record_mmap old;
		memcpy(&old, records->data + at, sizeof(old));
		bool covered = old.addr >= by->addr && old.len <= by->len && old.addr - by->addr <= by->len - old.len;
		if (!covered) {
			memmove(records->data + kept, records->data + at, old.header.size);
			kept += old.header.size;
		}
		at += old.header.size;
	}
	records->len = kept;
}

static int take_map(struct task_book *book, const struct record_mmap *map, const struct perf_event_header *record)
{
	if (map->pid == (uint32_t)-1)
		return 0; /* the kernel's are told by itself, whenever they are asked for */
	struct book_process *process = find_or_add(book, map->pid);
	struct map_list *maps = process ? own_maps(process) : NULL;

	if (!maps)
		return -ENOMEM;
	forget_covered(&maps->records, map);
	buf_put(&maps->records, record, record->size - book->trailer_bytes);
	buf_extend(&maps->records, book->trailer_bytes);
	return maps->records.failed ? -ENOMEM : 0;
}

/* What is in front of the name and the trailer; 0: not of interest. */
static size_t fixed_bytes(uint32_t type)
{
	switch (type) {
	case PERF_RECORD_COMM:
		return sizeof(struct record_comm);
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		return sizeof(struct record_fork);
	case PERF_RECORD_MMAP:
		return sizeof(struct record_mmap);
	case PERF_RECORD_MMAP2:
		return sizeof(struct record_mmap2);
	default:
		return 0;
	}
}

int task_book_take(struct task_book *book, const struct perf_event_header *record)
{
	union {
		struct record_comm comm;
		struct record_fork fork;
		struct record_mmap map;
	} fixed = {0};
	size_t least = fixed_bytes(record->type);

	if (!least || record->size < least + book->trailer_bytes)
		return 0;
	memcpy(&fixed, record, least < sizeof(fixed) ? least : sizeof(fixed));
	switch (record->type) {
	case PERF_RECORD_COMM:
		return take_comm(book, &fixed.comm, (struct span){(const char *)record + least,
								   record->size - least - book->trailer_bytes});
	case PERF_RECORD_FORK:
		return take_fork(book, &fixed.fork);
	case PERF_RECORD_EXIT:
		take_exit(book, &fixed.fork);
		return 0;
	default:
		return take_map(book, &fixed.map, record);
	}
}

static void put_task(const struct task_book *book, const struct book_process *process, const struct book_task *task,
		     struct buf *out)
{
	uint32_t parent = task->tid == process->pid ? process->parent : process->pid;
	const struct record_fork fork = {
		.header = {.type = PERF_RECORD_FORK, .misc = RECORD_MISC_FORK_EXEC},
		.pid = process->pid,
		.ppid = parent,
		.tid = task->tid,
		.ptid = parent,
	};
	const struct record_comm comm = {
		.header = {.type = PERF_RECORD_COMM},
		.pid = process->pid,
		.tid = task->tid,
	};

	if (parent)
		synth_put(out, &fork, sizeof(fork), (struct span){0}, book->trailer_bytes);
	synth_put(out, &comm, sizeof(comm), synth_name(task->comm), book->trailer_bytes);
}

/* In the name of the process: they may be those of its parent. */
static void put_maps(const struct book_process *process, struct buf *out)
{
	const struct buf *records = &process->maps->records;
	size_t start = out->len;

	buf_put(out, records->data, records->len);
	for (size_t at = 0; !out->failed && at < records->len;) {
		struct record_mmap map;
		memcpy(&map, out->data + start + at, sizeof(map));
		map.pid = map.tid = process->pid;
		memcpy(out->data + start + at, &map, sizeof(map));
		at += map.header.size;
	}
}

static void put_process(const struct task_book *book, const struct book_process *process, struct buf *out)
{
	const struct book_task *leader = find_task(process, process->pid);

	if (leader)
		put_task(book, process, leader, out);
	if (process->maps)
		put_maps(process, out);
	for (size_t i = 0; i < process->nr_tasks; i++)
		if (&process->tasks[i] != leader)
			put_task(book, process, &process->tasks[i], out);
}

void task_book_put(const struct task_book *book, struct buf *out)
{
	for (size_t i = 0; i < book->nr_slots; i++)
		for (const struct book_process *process = book->slots[i]; process; process = process->next)
			put_process(book, process, out);
}
