/* SPDX-License-Identifier: MIT */
/*
 * The tables of all objects. What a caller calls an object is one thing, and its content another: files of the same
 * content, as in containers, share one table.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/hash_table.h"
#include "unwind/calls.h"
#include "unwind/elf_cfi.h"
#include "unwind/object.h"
#include "unwind/siphash.h"
#include "unwind/unwind_memory.h"

struct content {
	struct unwind_table *table;
	struct table_source source; /* without the bytes of the sections */
	uint64_t hash;              /* shape_hash() */
	size_t nr_objects;          /* that have it */
};

struct unwind_tables {
	const struct unwind_arch *arch; /* NULL: not known */
	struct table_budget budget;
	uint64_t key[2];      /* random */
	pthread_mutex_t lock; /* for all below */
	struct hash_table objects, contents;
	uint64_t nr_objects, last_number, nr_given_up;
	uint64_t read_ns; /* CPU time of reading files, and of making rows of tables that were given up */
};

struct unwind_tables *unwind_tables_new(const char *arch, size_t max_bytes)
{
	struct unwind_tables *tables = calloc(1, sizeof(*tables));

	if (!tables)
		return NULL;
	if (getrandom(tables->key, sizeof(tables->key), 0) != sizeof(tables->key)) {
		free(tables);
		return NULL;
	}
	tables->arch = unwind_arch_of(arch);
	tables->budget.max = max_bytes;
	pthread_mutex_init(&tables->lock, NULL);
	return tables;
}

static void object_free(struct unwind_object *object)
{
	if (object)
		free(object->calls);
	free(object);
}

void unwind_tables_free(struct unwind_tables *tables)
{
	if (!tables)
		return;
	for (size_t i = 0; i < tables->objects.nr_slots; i++)
		object_free(tables->objects.slots[i].item);
	for (size_t i = 0; i < tables->contents.nr_slots; i++) {
		struct content *content = tables->contents.slots[i].item;
		if (content)
			table_free(content->table);
		free(content);
	}
	hash_table_fini(&tables->objects);
	hash_table_fini(&tables->contents);
	pthread_mutex_destroy(&tables->lock);
	free(tables);
}

bool unwind_tables_supported(const struct unwind_tables *tables)
{
	return tables->arch;
}

const struct unwind_arch *unwind_tables_arch(const struct unwind_tables *tables)
{
	return tables->arch;
}

static struct unwind_object *find_object(struct unwind_tables *tables, uint64_t hash, const void *id, size_t len)
{
	for (struct hash_slot *slot = hash_table_find(&tables->objects, hash); slot;
	     slot = hash_table_next(&tables->objects, slot)) {
		struct unwind_object *object = slot->item;
		if (object->id_bytes == len && !memcmp(object->id, id, len))
			return object;
	}
	return NULL;
}

struct unwind_object *unwind_tables_object(struct unwind_tables *tables, const void *id, size_t len)
{
	uint64_t hash = hash_bytes(id, len);

	pthread_mutex_lock(&tables->lock);
	struct unwind_object *object = find_object(tables, hash, id, len);
	if (!object && (object = calloc(1, sizeof(*object) + len))) {
		object->tables = tables;
		object->id_bytes = len;
		memcpy(object->id, id, len);
		if (hash_table_add(&tables->objects, hash, object)) {
			free(object);
			object = NULL;
		} else {
			tables->nr_objects++;
		}
	}
	pthread_mutex_unlock(&tables->lock);
	return object;
}

enum unwind_object_state unwind_object_state(const struct unwind_object *object)
{
	return atomic_load_explicit(&object->state, memory_order_acquire); /* pairs with finish() */
}

static void finish(struct unwind_object *object, enum unwind_object_state state, struct content *content)
{
	object->content = content;
	object->table = content ? content->table : NULL;
	atomic_store_explicit(&object->state, state, memory_order_release); /* what was built is visible with it */
}

/* Of all that a table is made from but the bytes of the sections. */
static uint64_t shape_hash(const struct table_source *source)
{
	uint64_t words[7 + 3 * (TABLE_MAX_SEGMENTS + TABLE_MAX_EXTRAS)];
	size_t nr = 0;

	words[nr++] = source->section.bytes.len;
	words[nr++] = source->section.address;
	words[nr++] = source->section.is_eh_frame;
	words[nr++] = source->more.bytes.len;
	words[nr++] = source->more.address;
	words[nr++] = source->nr_segments;
	for (unsigned i = 0; i < source->nr_segments; i++) {
		words[nr++] = source->segments[i].offset;
		words[nr++] = source->segments[i].bytes;
		words[nr++] = source->segments[i].address;
	}
	words[nr++] = source->nr_extras;
	for (unsigned i = 0; i < source->nr_extras; i++) {
		words[nr++] = source->extras[i].start;
		words[nr++] = source->extras[i].end;
		words[nr++] = source->extras[i].kind;
	}
	return siphash(source->key, (struct span){words, nr * sizeof(words[0])});
}

/* But for the bytes. */
static bool is_same_section(const struct cfi_section *a, const struct cfi_section *b)
{
	return a->bytes.len == b->bytes.len && a->address == b->address && a->is_eh_frame == b->is_eh_frame;
}

/* But for the bytes of the sections. */
static bool is_same(const struct table_source *a, const struct table_source *b)
{
	bool same = is_same_section(&a->section, &b->section) && is_same_section(&a->more, &b->more) &&
		    a->nr_segments == b->nr_segments && a->nr_extras == b->nr_extras &&
		    !memcmp(a->segments, b->segments, sizeof(a->segments));

	for (unsigned i = 0; i < a->nr_extras && same; i++)
		same = a->extras[i].start == b->extras[i].start && a->extras[i].end == b->extras[i].end &&
		       a->extras[i].kind == b->extras[i].kind;
	return same;
}

/* Under the lock: the content number `nr` of those that differ from the source in bytes of the sections at most. */
static struct content *find_similar(struct unwind_tables *tables, uint64_t hash, const struct table_source *source,
				    size_t nr)
{
	for (struct hash_slot *slot = hash_table_find(&tables->contents, hash); slot;
	     slot = hash_table_next(&tables->contents, slot)) {
		struct content *content = slot->item;
		if (is_same(&content->source, source) && !nr--)
			return content;
	}
	return NULL;
}

/*
 * The same content. The bytes are hashed only where there is another table that may be it: that takes as long as
 * listing the functions, and a sample waits. Only the hash tells two sections apart, as those of a table go when all
 * its parts are made. *nr_seen: similar tables that were compared, also in earlier calls. NULL: none.
 */
static struct content *find_content(struct unwind_tables *tables, uint64_t hash, const struct table_source *source,
				    size_t *nr_seen)
{
	struct content *similar, *found = NULL;

	for (; !found; ++*nr_seen) {
		pthread_mutex_lock(&tables->lock);
		similar = find_similar(tables, hash, source, *nr_seen);
		pthread_mutex_unlock(&tables->lock);
		if (!similar)
			break;
		found = table_digest(similar->table) == source_digest(source) ? similar : NULL;
	}
	return found;
}

/* 0; -EAGAIN: another thread has added a similar one to those `nr_seen`; -ENOMEM. */
static int add_content(struct unwind_tables *tables, uint64_t hash, const struct table_source *source,
		       struct unwind_table *table, size_t nr_seen, struct content **ret)
{
	struct content *content = malloc(sizeof(*content));
	int err = -ENOMEM;

	pthread_mutex_lock(&tables->lock);
	if (find_similar(tables, hash, source, nr_seen)) {
		err = -EAGAIN;
	} else if (content && !hash_table_add(&tables->contents, hash, content)) {
		*content = (struct content){.table = table, .source = *source, .hash = hash};
		content->source.section.bytes.ptr = content->source.more.bytes.ptr = NULL;
		table->number = ++tables->last_number;
		*ret = take_ptr(content);
		err = 0;
	}
	pthread_mutex_unlock(&tables->lock);
	free(content);
	return err;
}

/* What a table is made from, and the memory it lies in. */
struct input {
	struct table_source *source;
	void *owned;
	void (*release)(void *owned);
};

/* Takes what is owned, if it is needed; else it stays. 0 and -EBADMSG: *ret has the table. */
static int build(struct unwind_tables *tables, struct input *input, struct content **ret, struct diag *reterr)
{
	struct table_source *source = input->source;
	struct unwind_table *table;
	struct content *other = NULL;
	size_t nr_seen = 0;
	int added;

	memcpy(source->key, tables->key, sizeof(source->key));
	const uint64_t hash = shape_hash(source);
	*ret = find_content(tables, hash, source, &nr_seen);
	if (*ret)
		return 0;
	source->budget = &tables->budget;
	int err = table_new(source, take_ptr(input->owned), input->release, &table);
	if (err == -EFBIG)
		return diag_set(reterr, err, "unwind tables have reached their limit of %zu MB",
				tables->budget.max >> 20);
	if (err && err != -EBADMSG)
		return diag_set(reterr, err, "%s", strerror(-err));
	do /* the sections are there: no part of the table is made yet */
		added = add_content(tables, hash, source, table, nr_seen, ret);
	while (added == -EAGAIN && !(other = find_content(tables, hash, source, &nr_seen)));
	*ret = added ? other : *ret;
	if (added)
		table_free(table);
	if (!*ret)
		return added;
	return err ? diag_set(reterr, err, "unwind information that cannot be understood") : 0;
}

static uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* false: another thread builds it or has built it. */
static bool claim(struct unwind_object *object)
{
	int state = UNWIND_OBJECT_NEW;

	if (atomic_compare_exchange_strong(&object->state, &state, UNWIND_OBJECT_BUILDING))
		return true;
	return state == UNWIND_OBJECT_NO_FILE &&
	       atomic_compare_exchange_strong(&object->state, &state, UNWIND_OBJECT_BUILDING);
}

/* Of build(). What has exceeded the limit may be built again. CPU time since begin_ns; 0: is not of interest. */
static void finish_build(struct unwind_object *object, struct content *content, bool is_full, uint64_t begin_ns)
{
	struct unwind_tables *tables = object->tables;

	pthread_mutex_lock(&tables->lock);
	if (content)
		content->nr_objects++;
	tables->read_ns += begin_ns ? cpu_ns() - begin_ns : 0;
	pthread_mutex_unlock(&tables->lock);
	finish(object,
	       content   ? UNWIND_OBJECT_READY
	       : is_full ? UNWIND_OBJECT_NO_FILE
			 : UNWIND_OBJECT_NO_TABLE,
	       content);
}

int unwind_object_build(struct unwind_object *object, int fd, struct diag *reterr)
{
	struct unwind_tables *tables = object->tables;
	struct content *content = NULL;
	struct elf_cfi elf = {.source.section.arch = tables->arch};
	bool is_full = false;
	int err = -ENOENT;

	if (unwind_object_state(object) == UNWIND_OBJECT_READY && calls_read(object, fd))
		return 0;
	if (!claim(object))
		return -EALREADY;
	if (fd < 0) {
		finish(object, UNWIND_OBJECT_NO_FILE, NULL);
		return diag_set(reterr, err, "no file");
	}
	uint64_t begin = cpu_ns();
	err = tables->arch ? elf_cfi_open(fd, &elf, reterr) : -ENOEXEC;
	if (!err) {
		struct input input = {&elf.source, elf.owned, elf_cfi_release};
		err = build(tables, &input, &content, reterr);
		is_full = err == -EFBIG;
		elf.owned = input.owned;
	}
	elf_cfi_close(&elf);
	object->has_file = true;
	finish_build(object, content, is_full, begin);
	return err;
}

int unwind_object_build_code(struct unwind_object *object, uint64_t bytes, struct span eh_frame)
{
	/* Any: all that counts is where the information begins, as seen from the code. */
	enum { ADDRESS = 1 << 16 };
	struct unwind_tables *tables = object->tables;
	struct content *content = NULL;
	struct table_source source = {
		.section = {.is_eh_frame = true, .arch = tables->arch},
		.nr_segments = 1,
		.segments = {{.bytes = bytes, .address = ADDRESS}},
	};
	struct input input = {.source = &source, .release = free};
	int err = tables->arch && eh_frame.len && bytes <= UINT32_MAX ? 0 : -ENOENT;

	if (!claim(object))
		return -EALREADY;
	if (!err)
		err = (input.owned = malloc(eh_frame.len)) ? 0 : -ENOMEM;
	if (!err) {
		memcpy(input.owned, eh_frame.ptr, eh_frame.len);
		source.section.bytes = (struct span){input.owned, eh_frame.len};
		source.section.address = ADDRESS + (bytes + 7) / 8 * 8;
		err = build(tables, &input, &content, NULL);
	}
	free(input.owned);
	finish_build(object, content, false, 0);
	return err;
}

int unwind_object_complete(struct unwind_object *object)
{
	return unwind_object_state(object) == UNWIND_OBJECT_READY ? table_complete(object->table) : 0;
}

void unwind_object_retry(struct unwind_object *object)
{
	int state = UNWIND_OBJECT_NO_FILE;

	atomic_compare_exchange_strong(&object->state, &state, UNWIND_OBJECT_NEW);
}

static void remove_item(struct hash_table *table, uint64_t hash, const void *item)
{
	struct hash_slot *slot = hash_table_find(table, hash);

	while (slot && slot->item != item)
		slot = hash_table_next(table, slot);
	if (slot)
		hash_table_remove(table, slot);
}

/* One object less has it. Where that was the last one it goes, and *ret is its table. The lock is held. */
static void content_unref(struct unwind_tables *tables, struct content *content, struct unwind_table **ret)
{
	if (--content->nr_objects)
		return;
	*ret = content->table;
	tables->nr_given_up++;
	tables->read_ns += content->table->build_ns;
	remove_item(&tables->contents, content->hash, content);
	free(content);
}

void unwind_object_free(struct unwind_object *object)
{
	struct unwind_tables *tables = object->tables;
	struct unwind_table *table = NULL;

	pthread_mutex_lock(&tables->lock);
	remove_item(&tables->objects, hash_bytes(object->id, object->id_bytes), object);
	tables->nr_objects--;
	if (object->content)
		content_unref(tables, object->content, &table);
	pthread_mutex_unlock(&tables->lock);
	table_free(table);
	object_free(object);
}

size_t unwind_object_bytes(const struct unwind_object *object)
{
	if (!object->content)
		return 0;
	pthread_mutex_lock(&object->table->lock);
	size_t bytes = object->table->bytes;
	pthread_mutex_unlock(&object->table->lock);
	return bytes / object->content->nr_objects;
}

size_t unwind_tables_bytes(const struct unwind_tables *tables)
{
	return atomic_load_explicit(&tables->budget.bytes, memory_order_relaxed);
}

void unwind_tables_stats(struct unwind_tables *tables, struct unwind_stats *ret)
{
	struct unwind_stats stats = {0};

	pthread_mutex_lock(&tables->lock);
	stats.nr_objects = tables->nr_objects;
	stats.nr_given_up = tables->nr_given_up;
	stats.build_ns = tables->read_ns;
	for (size_t i = 0; i < tables->contents.nr_slots; i++) {
		const struct content *content = tables->contents.slots[i].item;
		if (!content)
			continue;
		pthread_mutex_lock(&content->table->lock);
		stats.nr_tables++;
		stats.nr_rows += content->table->nr_rows;
		stats.nr_rules += content->table->nr_rules;
		stats.table_bytes += content->table->bytes;
		stats.build_ns += content->table->build_ns;
		pthread_mutex_unlock(&content->table->lock);
	}
	pthread_mutex_unlock(&tables->lock);
	*ret = stats;
}
