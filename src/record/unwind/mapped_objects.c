/* SPDX-License-Identifier: MIT */
#include "record/unwind/mapped_objects.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "perfdata/object_id.h"
#include "record/build_ids/object_watch.h"
#include "sysinfo/elf_note.h"
#include "sysinfo/object_file.h"
#include "tasks/task_event.h"
#include "unwind/unwind.h"
#include "unwind/unwind_memory.h"

enum { NR_MAPPINGS = 4, FEW_MAPPED = 64 };

/* Where a process has it. */
struct mapping {
	uint32_t pid; /* 0: none */
	uint64_t start, end;
};

struct mapped_object {
	struct object_id id;
	struct unwind_object *table;
	atomic_bool has_new_mapping; /* since it was tried to build the table */
	bool is_being_built;
	bool is_refused;                      /* there was no room for its table */
	bool is_marked;                       /* mapped_object_mark() */
	uint64_t last_mapped;                 /* objects->nr_mapped of then */
	struct mapping mappings[NR_MAPPINGS]; /* the last ones */
	unsigned next_mapping;
	char name[];
};

struct mapped_objects {
	struct unwind_tables *tables;
	struct object_watch *watch; /* NULL: none */
	struct mapped_objects_limits limits;
	pthread_mutex_t lock;      /* of all below, and of what objects have, but for their tables */
	pthread_cond_t built;      /* one of their tables */
	struct hash_table by_name; /* of struct mapped_object */
	uint64_t nr_mapped;        /* so far, over all objects */
	atomic_bool has_refused;   /* a table, for which there was no room since it was tried to make some */
	/* Of the last time that objects were given up: */
	size_t bytes_before, nr_before; /* what was left */
	uint64_t mapped_before;         /* nr_mapped */
	bool is_short;                  /* there was no room for a table, and nothing to give up */
};

struct mapped_objects *mapped_objects_new(struct unwind_tables *tables, const struct mapped_objects_limits *limits,
					  struct object_watch *watch)
{
	struct mapped_objects *objects = calloc(1, sizeof(*objects));

	if (!objects)
		return NULL;
	objects->tables = tables;
	objects->watch = watch;
	objects->limits = *limits;
	objects->bytes_before = limits->idle_bytes; /* the first time, when the limits are exceeded */
	objects->nr_before = limits->nr_idle;
	pthread_mutex_init(&objects->lock, NULL);
	pthread_cond_init(&objects->built, NULL);
	return objects;
}

void mapped_objects_free(struct mapped_objects *objects)
{
	if (!objects)
		return;
	for (size_t i = 0; i < objects->by_name.nr_slots; i++)
		free(objects->by_name.slots[i].item);
	hash_table_fini(&objects->by_name);
	pthread_cond_destroy(&objects->built);
	pthread_mutex_destroy(&objects->lock);
	free(objects);
}

/* mmap(2): memory of huge pages has the name of a file that holds nothing of it. */
enum { MMAP2_MAP_HUGETLB = 0x40000 };

static bool is_file(const struct task_event *mmap)
{
	const char *name = mmap->name.ptr;

	if (!strcmp(name, "[vdso]"))
		return true;
	return name[0] == '/' && strncmp(name, "//", 2) && strncmp(name, "/SYSV", 5) && strncmp(name, "/dev/zero", 9) &&
	       strncmp(name, "/anon_hugepage", 14) && !(mmap->flags & MMAP2_MAP_HUGETLB);
}

static struct mapped_object *object_new(struct mapped_objects *objects, const struct task_event *mmap, uint64_t key)
{
	struct mapped_object *object = calloc(1, sizeof(*object) + mmap->name.len + 1);

	if (!object)
		return NULL;
	object->id = mmap->id;
	memcpy(object->name, mmap->name.ptr, mmap->name.len);
	object->table = unwind_tables_object(objects->tables, &object, sizeof(object));
	if (object->table && !hash_table_add(&objects->by_name, key, object))
		return object;
	free(object);
	return NULL;
}

static struct mapped_object *find_by_name(const struct mapped_objects *objects, const struct task_event *mmap,
					  uint64_t key)
{
	for (struct hash_slot *slot = hash_table_find(&objects->by_name, key); slot;
	     slot = hash_table_next(&objects->by_name, slot)) {
		struct mapped_object *object = slot->item;
		if (!strcmp(object->name, mmap->name.ptr) && object_id_equal(&object->id, &mmap->id))
			return object;
	}
	return NULL;
}

/* A state of tasks that lags behind another one has the same process again. */
static bool is_known_mapping(const struct mapped_object *object, const struct task_event *mmap)
{
	for (size_t i = 0; i < NR_MAPPINGS; i++)
		if (object->mappings[i].pid == mmap->pid)
			return true;
	return false;
}

struct mapped_object *mapped_objects_find(struct mapped_objects *objects, const struct task_event *mmap)
{
	if (!is_file(mmap))
		return NULL;
	uint64_t key = hash_text(mmap->name.ptr);
	pthread_mutex_lock(&objects->lock);
	struct mapped_object *object = find_by_name(objects, mmap, key);
	if (!object)
		object = object_new(objects, mmap, key);
	if (object)
		object->last_mapped = ++objects->nr_mapped;
	if (object && !is_known_mapping(object, mmap)) {
		object->mappings[object->next_mapping++ % NR_MAPPINGS] =
			(struct mapping){mmap->pid, mmap->start, mmap->start + mmap->len};
		object->has_new_mapping = true;
	}
	pthread_mutex_unlock(&objects->lock);
	return object;
}

static bool are_many(const struct mapped_objects *objects)
{
	const struct mapped_objects_limits *limits = &objects->limits;

	if (objects->is_short) /* when some processes have come, others may have ended */
		return objects->nr_mapped - objects->mapped_before >= FEW_MAPPED;
	return atomic_load_explicit(&objects->has_refused, memory_order_relaxed) ||
	       unwind_tables_bytes(objects->tables) > objects->bytes_before + limits->idle_bytes / 4 ||
	       objects->by_name.nr > objects->nr_before + limits->nr_idle / 4;
}

bool mapped_objects_are_many(struct mapped_objects *objects)
{
	pthread_mutex_lock(&objects->lock);
	bool many = are_many(objects);
	pthread_mutex_unlock(&objects->lock);
	return many;
}

void mapped_object_mark(struct mapped_objects *objects, struct mapped_object *object)
{
	object->is_marked = true;
	object->last_mapped = objects->nr_mapped;
}

/* The one that was mapped last comes first. */
static int by_last_mapped(const void *a, const void *b)
{
	const struct mapped_object *x = *(struct mapped_object *const *)a, *y = *(struct mapped_object *const *)b;

	return x->last_mapped > y->last_mapped ? -1 : x->last_mapped < y->last_mapped;
}

static void give_up(struct mapped_objects *objects, struct mapped_object *object)
{
	struct hash_slot *slot = hash_table_find(&objects->by_name, hash_text(object->name));

	while (slot && slot->item != object)
		slot = hash_table_next(&objects->by_name, slot);
	if (slot)
		hash_table_remove(&objects->by_name, slot);
	unwind_object_free(object->table);
	free(object);
}

/* There is room again: tables that were refused are tried once more. */
static void retry_refused(struct mapped_objects *objects)
{
	for (size_t i = 0; i < objects->by_name.nr_slots; i++) {
		struct mapped_object *object = objects->by_name.slots[i].item;
		if (!object || !object->is_refused)
			continue;
		object->is_refused = false;
		object->has_new_mapping = true;
	}
}

/* Those that are not marked, the one that was mapped last first; the marks go. NULL: out of memory. */
static struct mapped_object **list_idle(struct mapped_objects *objects, size_t *ret_nr)
{
	struct mapped_object **idle = calloc(objects->by_name.nr + 1, sizeof(*idle));

	*ret_nr = 0;
	for (size_t i = 0; i < objects->by_name.nr_slots && idle; i++) {
		struct mapped_object *object = objects->by_name.slots[i].item;
		if (object && !object->is_marked)
			idle[(*ret_nr)++] = object;
		else if (object)
			object->is_marked = false;
	}
	if (idle)
		qsort(idle, *ret_nr, sizeof(*idle), by_last_mapped);
	return idle;
}

static bool give_up_idle(struct mapped_objects *objects)
{
	const size_t bytes_before = unwind_tables_bytes(objects->tables);
	const bool is_full = atomic_load_explicit(&objects->has_refused, memory_order_relaxed);
	size_t nr_idle, bytes = 0;
	AUTO_FREE struct mapped_object **idle = list_idle(objects, &nr_idle);

	for (size_t i = 0; i < nr_idle; i++) {
		const size_t its = unwind_object_bytes(idle[i]->table);
		bytes += its;
		if (i >= objects->limits.nr_idle || bytes > objects->limits.idle_bytes || (is_full && its))
			give_up(objects, idle[i]);
	}
	objects->bytes_before = unwind_tables_bytes(objects->tables);
	objects->nr_before = objects->by_name.nr;
	objects->mapped_before = objects->nr_mapped;
	objects->is_short = is_full && objects->bytes_before == bytes_before;
	if (is_full && !objects->is_short) {
		atomic_store_explicit(&objects->has_refused, false, memory_order_relaxed);
		retry_refused(objects);
	}
	return objects->bytes_before < bytes_before;
}

bool mapped_objects_give_up(struct mapped_objects *objects)
{
	pthread_mutex_lock(&objects->lock);
	bool less = give_up_idle(objects);
	pthread_mutex_unlock(&objects->lock);
	return less;
}

/* By build-id, or else by device, inode and generation; what the kernel did not say is not compared. */
static bool is_that_file(const struct mapped_object *object, int fd)
{
	struct stat status;
	struct elf_id found = {0};

	if (!object->id.build_id.len)
		return !fstat(fd, &status) && file_id_is(&object->id.file, fd, &status, false);
	int len = elf_note_of_fd(fd, found.bytes);
	found.len = len > 0 ? (uint8_t)len : 0;
	return found.len && elf_id_equal(&found, &object->id.build_id);
}

static int open_map(const struct mapping *mapping)
{
	return object_file_open_map((pid_t)mapping->pid, mapping->start, mapping->end, NULL);
}

static int open_vdso(void)
{
	struct span image = vdso_image();

	if (!image.len)
		return -ENOENT;
	AUTO_FD int fd = memfd_create("vdso", MFD_CLOEXEC);
	int err = fd < 0 ? -errno : fd_write(fd, image.ptr, image.len);
	return err ? err : take_fd(&fd);
}

/* `fd` if it is that file, else closed, and *err says why. */
static int checked(const struct mapped_object *object, int fd, int *err)
{
	AUTO_FD int opened = fd;

	if (fd < 0)
		*err = *err == -ESTALE && fd != -ETIMEDOUT ? *err : fd;
	else if (is_that_file(object, fd))
		return take_fd(&opened);
	else
		*err = -ESTALE;
	return -1;
}

/* Its processes have ended: what has its name here may be the same file, unless something has written to it since. */
static int open_under_name(const struct mapped_objects *objects, const struct mapped_object *object)
{
	AUTO_FD int fd = object_file_open(object->name, NULL);
	int err = fd < 0 ? fd : object_watch_check_contents(objects->watch, &object->id.file, fd);

	return err ? err : take_fd(&fd);
}

static int open_of_process(const struct mapped_object *object, const struct mapping *mapping, int *err)
{
	int fd = checked(object, object_file_open_of_process((pid_t)mapping->pid, object->name, NULL), err);

	if (fd < 0 && *err != -ETIMEDOUT)
		fd = checked(object, open_map(mapping), err);
	if (fd < 0 && *err != -ETIMEDOUT)
		fd = checked(object, object_file_open_program((pid_t)mapping->pid, NULL), err);
	return fd;
}

/*
 * A descriptor, or why there is none: -ESTALE, another file has its name now, or it was written to; -ETIMEDOUT, its
 * file system does not answer: no other way to it is tried. mappings: of the object, the last one first.
 */
static int open_object(const struct mapped_objects *objects, const struct mapped_object *object,
		       const struct mapping mappings[NR_MAPPINGS])
{
	int err = -ENOENT, fd = -1;

	if (!strcmp(object->name, "[vdso]"))
		return open_vdso();
	for (unsigned i = 0; i < NR_MAPPINGS && fd < 0 && err != -ETIMEDOUT; i++)
		if (mappings[i].pid)
			fd = open_of_process(object, &mappings[i], &err);
	if (fd < 0 && err != -ETIMEDOUT)
		fd = checked(object, object_watch_open_copy(objects->watch, &object->id.file), &err);
	if (fd < 0 && err != -ETIMEDOUT)
		fd = checked(object, open_under_name(objects, object), &err);
	return fd < 0 ? err : fd;
}

/* Waits while another thread builds it. false: it is built. The lock is held, and released for that. */
static bool begin_to_build(struct mapped_objects *objects, struct mapped_object *object,
			   struct mapping ret_mappings[NR_MAPPINGS])
{
	while (object->is_being_built)
		pthread_cond_wait(&objects->built, &objects->lock);
	if (unwind_object_state(object->table) != UNWIND_OBJECT_NEW && !unwind_object_lacks_code(object->table))
		return false;
	object->is_being_built = true;
	object->has_new_mapping = false;
	for (unsigned i = 0; i < NR_MAPPINGS; i++)
		ret_mappings[i] = object->mappings[(object->next_mapping + NR_MAPPINGS - 1 - i) % NR_MAPPINGS];
	return true;
}

/* The lock is held. err: of unwind_object_build() */
static void end_building(struct mapped_objects *objects, struct mapped_object *object, int err)
{
	object->is_being_built = false;
	object->is_refused = err == -EFBIG && unwind_object_state(object->table) == UNWIND_OBJECT_NO_FILE;
	if (object->is_refused)
		atomic_store_explicit(&objects->has_refused, true, memory_order_relaxed);
	pthread_cond_broadcast(&objects->built);
}

void mapped_object_build(struct mapped_objects *objects, struct mapped_object *object)
{
	struct mapping mappings[NR_MAPPINGS];
	struct diag why = {""};

	pthread_mutex_lock(&objects->lock);
	const bool begun = begin_to_build(objects, object, mappings);
	pthread_mutex_unlock(&objects->lock);
	if (!begun)
		return;
	int fd = open_object(objects, object, mappings);
	int err = unwind_object_build(object->table, fd, &why);
	pthread_mutex_lock(&objects->lock);
	end_building(objects, object, err);
	pthread_mutex_unlock(&objects->lock);
	if (fd < 0 && unwind_object_state(object->table) != UNWIND_OBJECT_READY)
		log_verbose("%s: no call chains through it: %s", object->name, strerror(-fd));
	else if (err)
		log_verbose("%s: %s", object->name, why.text[0] ? why.text : strerror(-err));
	if (fd >= 0)
		close(fd);
}

enum unwind_object_state mapped_object_state(const struct mapped_object *object)
{
	return unwind_object_state(object->table);
}

struct unwind_object *mapped_object_table(struct mapped_object *object)
{
	/* Relaxed: one that sees it late tries once more than it needs, or later. */
	if (atomic_load_explicit(&object->has_new_mapping, memory_order_relaxed))
		unwind_object_retry(object->table);
	return object->table;
}
