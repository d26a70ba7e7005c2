/* SPDX-License-Identifier: MIT */
#include "export/stack_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/escape.h"
#include "export/export.h"

enum { FIRST_ROOM = 256 };

int table_make_room(void **array, size_t element_bytes, uint32_t wanted, uint32_t *room)
{
	uint32_t more = *room ? *room : FIRST_ROOM;

	if (wanted < *room)
		return 0;
	while (more <= wanted && more < UINT32_MAX / 2)
		more *= 2;
	void *grown = more > wanted ? reallocarray(*array, more, element_bytes) : NULL;
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*room = more;
	return 0;
}

int stack_table_add(struct stack_table *table, uint32_t number, uint32_t outer, uint32_t frame)
{
	if (table_make_room((void **)&table->links, sizeof(*table->links), number, &table->room))
		return -ENOMEM;
	table->links[number] = (struct stack_link){outer, frame};
	table->nr = number;
	return 0;
}

void stack_table_fini(struct stack_table *table)
{
	free(table->links);
	*table = (struct stack_table){0};
}

int text_table_add(struct text_table *table, const char *text, uint32_t *ret_number)
{
	const char *wanted = text ? text : "";
	uint64_t key = hash_text(wanted);

	for (struct hash_slot *slot = hash_table_find(&table->by_hash, key); slot;
	     slot = hash_table_next(&table->by_hash, slot)) {
		*ret_number = (uint32_t)slot->number - 1;
		if (strcmp(table->texts[*ret_number], wanted) == 0)
			return 0;
	}
	char *copy = pool_text(&table->pool, wanted, strlen(wanted));
	if (!copy || table_make_room((void **)&table->texts, sizeof(*table->texts), table->nr, &table->room) ||
	    hash_table_add_number(&table->by_hash, key, (uint64_t)table->nr + 1))
		return -ENOMEM;
	table->texts[table->nr] = copy;
	*ret_number = table->nr++;
	return 1;
}

void text_table_fini(struct text_table *table)
{
	pool_fini(&table->pool);
	hash_table_fini(&table->by_hash);
	free(table->texts);
	*table = (struct text_table){0};
}

const char *utf8_of(const char *text, struct buf *copy)
{
	size_t left = strlen(text);
	const char *at = text;
	bool valid = true;

	while (left) {
		size_t len = escape_utf8_bytes(at, left);
		if (!len && valid) /* the first such byte: what came before is copied */
			buf_put(copy, text, (size_t)(at - text));
		valid = valid && len;
		if (!valid && len)
			buf_put(copy, at, len);
		else if (!valid)
			buf_put_text(copy, "\xef\xbf\xbd");
		at += len ? len : 1;
		left -= len ? len : 1;
	}
	return valid ? text : buf_text(copy);
}

void frame_name_put(struct buf *out, const struct export_frame *frame, const char *object_path)
{
	if (frame->function) {
		buf_put_text(out, frame->function);
		return;
	}
	const char *slash = object_path ? strrchr(object_path, '/') : NULL;
	const char *name = slash ? slash + 1 : object_path ? object_path : "unknown";
	buf_printf(out, *name == '[' ? "%s" : "[%s]", name);
}

/* The formats store what has a sign: the periods of a damaged recording would become negative. */
static uint64_t add_period(uint64_t sum, uint64_t period)
{
	return period > (uint64_t)INT64_MAX - sum ? (uint64_t)INT64_MAX : sum + period;
}

int sums_add(struct sums *sums, const struct sum_key *key, uint64_t period)
{
	uint64_t hash =
		hash_mix((uint64_t)key->thread << 32 | key->stack, (uint64_t)key->event << 32 | (uint32_t)key->cpu);

	if (key->cgroup)
		hash = hash_mix(hash, key->cgroup);

	for (struct hash_slot *slot = hash_table_find(&sums->by_key, hash); slot;
	     slot = hash_table_next(&sums->by_key, slot)) {
		struct sum *sum = &sums->sums[slot->number - 1];
		if (memcmp(&sum->key, key, sizeof(*key)) == 0) {
			sum->nr_samples++;
			sum->period = add_period(sum->period, period);
			return 0;
		}
	}
	if (table_make_room((void **)&sums->sums, sizeof(*sums->sums), sums->nr, &sums->room) ||
	    hash_table_add_number(&sums->by_key, hash, (uint64_t)sums->nr + 1))
		return -ENOMEM;
	sums->sums[sums->nr++] = (struct sum){*key, 1, add_period(0, period)};
	return 0;
}

void sums_clear(struct sums *sums)
{
	hash_table_clear(&sums->by_key);
	sums->nr = 0;
}

void sums_fini(struct sums *sums)
{
	free(sums->sums);
	hash_table_fini(&sums->by_key);
	*sums = (struct sums){0};
}
