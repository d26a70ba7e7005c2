/* SPDX-License-Identifier: MIT */
#include "record/order/ordered_stage.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "record/order/time_queue.h"

/* A batch that came, in the order of its stage. */
struct ordered_batch {
	struct ordered_batch *next;
	struct batch *batch; /* NULL: it was passed on */
	uint64_t read_ns;    /* of the batch */
	uint64_t last_ns;    /* of its records, by their own clock; 0: none tells */
	size_t nr_waiting;   /* records that are not taken */
	size_t gap_bytes;    /* of its records, that were removed */
	size_t begun;        /* 1 + offset of the record that was taken last; 0: none was */
	struct buf added;    /* goes with it */
	bool in_order;       /* of its stage */
	struct buf places;   /* then: struct place, of all that is added */
	bool shuffled;       /* these are not in the order of their records */
};

/* Something that was added: of ordered_batch.added. */
struct place {
	size_t behind; /* 1 + offset of the record that it stands behind; 0: in front of all */
	size_t from, len;
};

struct ordered_stage {
	struct stage stage;
	struct ordered_stages *stages;
	struct ordered_stage *next;
	size_t index; /* of its output: from one to the next that has the same the records are of the same rings */
	uint64_t complete_ns; /* the stage's, for the threads of others; 0: it has not begun */
	uint64_t handed_ns;   /* until it has begun: the ones before it had all records up to then */
	struct ordered_batch *first, *last;
	bool in_order; /* what is added stands behind its record, not behind the batch */
	bool ended;
};

struct ordered_stages {
	const struct ordered_ops *ops;
	void *ctx;
	struct stage_ops stage_ops;
	pthread_mutex_t lock; /* of all below */
	struct ordered_stage *first;
	struct time_queue records;    /* that wait: where they are, and their ordered_batch; NULL: a copy on the heap */
	struct ordered_batch *recent; /* where a copy that is taken next may add something; NULL: it is to be found */
	struct buf added;             /* goes with the next batch, whose ever: when this was added there was none */
	struct buf in_order;          /* of the batch that is passed on: its records, and what was added */
	struct buf spare;             /* empty: memory for what is added next */
	uint64_t horizon_ns;          /* all records up to this time have come, by their own clock */
	bool last_outputs;
};

/*
 * A file of a directory is to stay in the order of time. So what a copy adds goes behind all that was added in the
 * batches of an output so far, and in front of what will be in its later ones. NULL: there is no batch.
 */
static struct ordered_batch *find_recent(const struct ordered_stages *stages)
{
	struct ordered_batch *found = NULL;

	for (const struct ordered_stage *stage = stages->first; stage && !found; stage = stage->next)
		for (struct ordered_batch *pending = stage->first; pending; pending = pending->next)
			if (pending->batch && (!found || pending->begun))
				found = pending;
	return found;
}

static struct buf take_buf(struct buf *from)
{
	struct buf buf = *from;

	*from = (struct buf){0};
	return buf;
}

/* Memory of what was added and is passed on: to get it anew for each batch costs more than to copy what is in it. */
static void keep_memory(struct ordered_stages *stages, struct buf *buf)
{
	enum { MOST_BYTES = 4 << 20 };

	if (!buf->failed && buf->room > stages->spare.room && buf->room <= MOST_BYTES) {
		buf_fini(&stages->spare);
		stages->spare = take_buf(buf);
		stages->spare.len = 0;
	}
	buf_fini(buf);
}

static size_t offset_in(const struct ordered_batch *pending, const uint8_t *record)
{
	return (size_t)(record - pending->batch->records);
}

struct buf *ordered_add_begin(struct ordered_record *record)
{
	struct ordered_stages *stages = record->stages;
	struct ordered_batch *batch = record->batch;

	if (!batch && record->bytes)
		batch = stages->recent = stages->recent ? stages->recent : find_recent(stages);
	record->adds_to = batch;
	if (!batch)
		return &stages->added;
	if (!batch->added.room)
		batch->added = take_buf(&stages->spare);
	return &batch->added;
}

int ordered_add_end(struct ordered_record *record, size_t from)
{
	struct ordered_batch *batch = record->adds_to;

	if (!batch)
		return buf_status(&record->stages->added);
	if (!batch->in_order)
		return buf_status(&batch->added);
	const struct place place = {.behind = record->batch ? offset_in(batch, record->bytes) + 1 : batch->begun,
				    .from = from,
				    .len = batch->added.len - from};
	if (batch->places.len) {
		const struct place *end = (const struct place *)(batch->places.data + batch->places.len);
		batch->shuffled |= end[-1].behind > place.behind;
	}
	buf_put(&batch->places, &place, sizeof(place));
	return batch->added.failed ? -ENOMEM : buf_status(&batch->places);
}

int ordered_add(struct ordered_record *record, struct span records)
{
	struct buf *to = ordered_add_begin(record);
	const size_t from = to->len;

	buf_put(to, records.ptr, records.len);
	return ordered_add_end(record, from);
}

void ordered_stages_lock(struct ordered_stages *stages)
{
	pthread_mutex_lock(&stages->lock);
}

void ordered_stages_unlock(struct ordered_stages *stages)
{
	pthread_mutex_unlock(&stages->lock);
}

void ordered_stages_last_outputs(struct ordered_stages *stages)
{
	ordered_stages_lock(stages);
	stages->last_outputs = true;
	ordered_stages_unlock(stages);
}

static struct ordered_record record_of(struct ordered_stages *stages, const struct time_entry *entry)
{
	return (struct ordered_record){
		.time_ns = entry->time_ns,
		.bytes = entry->item,
		.len = entry->len,
		.look = entry->look,
		.batch = entry->owner,
		.stages = stages,
	};
}

static int take(struct ordered_stages *stages, const struct time_entry *entry)
{
	struct ordered_record record = record_of(stages, entry);
	struct ordered_batch *batch = record.batch;

	if (batch) {
		batch->begun = offset_in(batch, record.bytes) + 1;
		stages->recent = batch;
	}
	int err = stages->ops->take(stages->ctx, &record);
	if (batch) {
		batch->nr_waiting--;
		batch->gap_bytes += record.gap_bytes;
	} else {
		free(entry->item);
	}
	return err;
}

/* All records up to that time, each after those that are older. */
static int take_until(struct ordered_stages *stages, uint64_t time_ns)
{
	const struct time_entry *entries;
	size_t nr;
	int err = 0;

	while (!err && (nr = time_queue_first_run(&stages->records, time_ns, &entries))) {
		size_t taken = 0;
		while (taken < nr && !err)
			err = take(stages, &entries[taken++]);
		time_queue_drop_run(&stages->records, taken);
	}
	return err;
}

/* Up to when all records of its rings have come. CLOCK_MONOTONIC. */
static uint64_t complete_until(const struct ordered_stage *stage)
{
	return stage->complete_ns ? stage->complete_ns : stage->handed_ns;
}

/*
 * Up to when all records of all outputs have come: those of batches that had been read by then are among them. Returns
 * the same by CLOCK_MONOTONIC.
 */
static uint64_t find_horizon(struct ordered_stages *stages)
{
	uint64_t complete_ns = UINT64_MAX;

	for (struct ordered_stage *each = stages->first; each; each = each->next)
		if (!each->ended && complete_until(each) < complete_ns)
			complete_ns = complete_until(each);
	for (struct ordered_stage *each = stages->first; each; each = each->next)
		for (struct ordered_batch *pending = each->first; pending && pending->read_ns <= complete_ns;
		     pending = pending->next)
			if (pending->last_ns > stages->horizon_ns)
				stages->horizon_ns = pending->last_ns;
	return complete_ns;
}

/* Closes the gaps. Most batches have none, or nothing else: their records are not looked at. */
static void compact(const struct ordered_batch *pending, struct batch *batch)
{
	uint8_t *records = batch->records;
	size_t to = 0;

	if (!pending->gap_bytes || pending->gap_bytes == batch->len) {
		batch->len -= pending->gap_bytes;
		return;
	}
	for (size_t at = 0; at < batch->len;) {
		struct perf_event_header header;
		memcpy(&header, records + at, sizeof(header));
		if (header.type != ORDERED_GAP) {
			if (to != at)
				memmove(records + to, records + at, header.size);
			to += header.size;
		}
		at += header.size;
	}
	batch->len = to;
}

/* As many whole records as there is room for. Returns their bytes. */
static size_t append_records(struct batch *batch, const struct buf *added, size_t from)
{
	size_t at = from;

	while (at < added->len) {
		const struct perf_event_header *header = (const void *)(added->data + at);
		if (header->size > batch->room - batch->len)
			break;
		memcpy(batch->records + batch->len, header, header->size);
		batch->len += header->size;
		at += header->size;
	}
	return at - from;
}

static int by_place(const void *a, const void *b)
{
	const struct place *left = a, *right = b;

	return left->behind != right->behind ? (left->behind > right->behind) - (left->behind < right->behind)
					     : (left->from > right->from) - (left->from < right->from);
}

/* Adds what stands behind that record. Returns the index of the next place. */
static size_t put_added(const struct ordered_batch *pending, size_t first, size_t behind, struct buf *out)
{
	const struct place *places = (const struct place *)pending->places.data;
	const size_t nr = pending->places.len / sizeof(*places);

	for (; first < nr && places[first].behind == behind; first++)
		buf_put(out, pending->added.data + places[first].from, places[first].len);
	return first;
}

/* Where rounds are marked, or the output is read as it came: the order within a batch is that of readers. */
static int put_behind(struct ordered_stages *stages, struct ordered_batch *pending, struct batch *batch,
		      struct buf *ret_rest)
{
	int err = pending->added.failed ? -ENOMEM : 0;

	*ret_rest = take_buf(stages->added.len || stages->added.failed ? &stages->added : &pending->added);
	buf_put(ret_rest, pending->added.data, pending->added.len);
	compact(pending, batch);
	return err ? err : buf_status(ret_rest);
}

/*
 * What was added for a record stands behind it: of a file that has the records of one ring readers take it that they
 * are in the order of time, but for small inversions. What has no room in the batch is in *ret_rest. -ENOMEM: what was
 * added is lost.
 */
static int put_in_order(struct ordered_stages *stages, struct ordered_batch *pending, struct batch *batch,
			struct buf *ret_rest)
{
	AUTO_BUF struct buf added = take_buf(&stages->added);
	struct buf *out = &stages->in_order;
	struct perf_event_header header;

	buf_put(out, added.data, added.len);
	if (pending->shuffled)
		qsort(pending->places.data, pending->places.len / sizeof(struct place), sizeof(struct place), by_place);
	size_t next = put_added(pending, 0, 0, out);
	for (size_t at = 0; at < batch->len; at += header.size) {
		memcpy(&header, batch->records + at, sizeof(header));
		if (header.type != ORDERED_GAP)
			buf_put(out, batch->records + at, header.size);
		next = put_added(pending, next, at + 1, out);
	}
	int err = added.failed || out->failed || pending->added.failed || pending->places.failed ? -ENOMEM : 0;
	if (err) {
		buf_fini(out);
		compact(pending, batch);
		return err;
	}
	batch->len = 0;
	size_t at = append_records(batch, out, 0);
	if (at < out->len)
		buf_put(ret_rest, out->data + at, out->len - at);
	out->len = 0;
	return buf_status(ret_rest);
}

/*
 * The batch, and behind its records the added ones, in front of its mark. Those for which there is no memory are left
 * in `added`.
 */
static int pass_with(struct stage *stage, struct batch *batch, struct buf *added)
{
	size_t at = append_records(batch, added, 0);
	struct batch *more;
	int err = 0;

	while (at < added->len && !err && (more = stage_batch_new(stage))) {
		more->read_ns = batch->read_ns;
		memcpy(more->tail, batch->tail, batch->tail_len);
		more->tail_len = batch->tail_len;
		batch->tail_len = 0;
		err = stage_pass(stage, batch);
		batch = more;
		at += append_records(batch, added, at);
	}
	int pass_err = stage_pass(stage, batch);
	if (at)
		memmove(added->data, added->data + at, added->len - at);
	added->len -= at;
	return err ? err : pass_err;
}

/* Also after an error: the batches in front that nothing waits for. The lock is held, and released for that. */
static int pass_on(struct ordered_stage *stage)
{
	struct ordered_stages *stages = stage->stages;
	struct ordered_batch *pending;
	int err = 0;

	/* What tells of a horizon that is still to come stays, without its batch. */
	for (pending = stage->first; pending && !pending->nr_waiting; pending = pending->next) {
		struct batch *batch = take_ptr(pending->batch);
		if (!batch)
			continue;
		if (stages->recent == pending)
			stages->recent = NULL;
		AUTO_BUF struct buf rest = {0};
		int put_err;
		if (pending->in_order)
			put_err = put_in_order(stages, pending, batch, &rest);
		else
			put_err = put_behind(stages, pending, batch, &rest);
		keep_memory(stages, &pending->added);
		buf_fini(&pending->places);
		ordered_stages_unlock(stages);
		int pass_err = pass_with(&stage->stage, batch, &rest);
		err = err ? err : pass_err ? pass_err : put_err;
		ordered_stages_lock(stages);
		buf_put(&stages->added, rest.data, rest.len);
		keep_memory(stages, &rest);
	}
	while ((pending = stage->first) && !pending->batch && pending->last_ns <= stages->horizon_ns) {
		stage->first = pending->next;
		if (!stage->first)
			stage->last = NULL;
		free(pending);
	}
	return err;
}

/* In front of what was added so far. The lock is held. */
static int add_front(struct ordered_stages *stages)
{
	AUTO_BUF struct buf front = {0};
	int err = stages->ops->before_pass ? stages->ops->before_pass(stages->ctx, &front) : 0;

	if (!front.len)
		return err;
	buf_put(&front, stages->added.data, stages->added.len);
	buf_fini(&stages->added);
	stages->added = front;
	front = (struct buf){0};
	return err ? err : buf_status(&stages->added);
}

/* What can be taken now. The lock is held. */
static int take_complete(struct ordered_stage *stage)
{
	struct ordered_stages *stages = stage->stages;

	stage->complete_ns = stage->stage.complete_ns;
	uint64_t complete_ns = find_horizon(stages);
	int err = stages->ops->before_take ? stages->ops->before_take(stages->ctx, complete_ns, stages->horizon_ns) : 0;
	int take_err = take_until(stages, stages->horizon_ns);
	int front_err = add_front(stages);
	int pass_err = pass_on(stage);

	return err ? err : take_err ? take_err : front_err ? front_err : pass_err;
}

/* One record of a batch that came, or several that are taken together: *ret_len. */
static int look_at(struct ordered_stages *stages, struct ordered_batch *pending, struct span records,
		   const struct perf_event_header *header, size_t *ret_len)
{
	struct ordered_seen seen = {.len = header->size};
	int look = stages->ops->look_at(stages->ctx, records, header, &seen);

	*ret_len = seen.len;
	if (seen.last_ns > pending->last_ns)
		pending->last_ns = seen.last_ns;
	if (look < ORDERED_WANT)
		return look;
	const struct time_entry entry = {.time_ns = seen.time_ns,
					 .item = (void *)records.ptr,
					 .owner = pending,
					 .look = (uint32_t)look,
					 .len = (uint32_t)seen.len};
	int err = time_queue_put(&stages->records, &entry);
	pending->nr_waiting += !err;
	return err;
}

/* After an error nothing that was not looked at stays in it. */
static int look_at_batch(struct ordered_stages *stages, struct ordered_batch *pending)
{
	struct batch *batch = pending->batch;
	int err = 0;

	for (size_t at = 0, len = 0; at < batch->len && !err; at += len) {
		const struct span records = {batch->records + at, batch->len - at};
		struct perf_event_header header = {0};
		if (records.len >= sizeof(header))
			memcpy(&header, records.ptr, sizeof(header));
		err = header.size < sizeof(header) || header.size > records.len ? -EBADMSG : 0; /* not a ring's bytes */
		if (!err)
			err = look_at(stages, pending, records, &header, &len);
		if (err)
			batch->len = at;
	}
	return err;
}

static int process(struct stage *base, struct batch *batch)
{
	struct ordered_stage *stage = (struct ordered_stage *)base;
	struct ordered_stages *stages = stage->stages;
	struct ordered_batch *pending = calloc(1, sizeof(*pending));

	if (!pending) {
		stage_batch_free(base, batch);
		return -ENOMEM;
	}
	ordered_stages_lock(stages);
	*pending = (struct ordered_batch){.batch = batch, .read_ns = batch->read_ns, .in_order = stage->in_order};
	if (stage->last)
		stage->last->next = pending;
	else
		stage->first = pending;
	stage->last = pending;
	int err = look_at_batch(stages, pending);
	int take_err = take_complete(stage);
	ordered_stages_unlock(stages);
	return err ? err : take_err;
}

/* Its batch goes now. 0: the entry is a copy now; 1: it is not needed any more; -ENOMEM: likewise. */
static int give_up(struct ordered_stages *stages, struct time_entry *entry)
{
	struct ordered_record record = record_of(stages, entry);
	struct ordered_batch *batch = record.batch;
	void *copy = malloc(entry->len);

	if (copy)
		memcpy(copy, entry->item, entry->len);
	batch->nr_waiting--;
	bool takes_copy = stages->ops->give_up(stages->ctx, &record);
	batch->gap_bytes += record.gap_bytes;
	if (takes_copy && copy) {
		entry->item = copy;
		entry->owner = NULL;
		return 0;
	}
	free(copy);
	return copy ? 1 : -ENOMEM;
}

static bool has_batch(const struct ordered_stage *stage, const struct ordered_batch *wanted)
{
	const struct ordered_batch *pending = stage->first;

	while (pending && pending != wanted)
		pending = pending->next;
	return pending;
}

/* Everything that this stage has goes, in its turn or not. The lock is held. */
static int give_up_waiting(struct ordered_stage *stage)
{
	struct ordered_stages *stages = stage->stages;
	struct time_queue others = {.next_number = stages->records.next_number};
	int err = 0;

	for (const struct time_entry *first; (first = time_queue_first(&stages->records));) {
		struct time_entry entry = *first;
		time_queue_drop_first(&stages->records);
		int given = entry.owner && has_batch(stage, entry.owner) ? give_up(stages, &entry) : 0;
		int put_err = given ? 0 : time_queue_put(&others, &entry);
		err = err ? err : given < 0 ? given : put_err;
	}
	time_queue_fini(&stages->records);
	stages->records = others;
	return err;
}

static bool all_ended_but(const struct ordered_stages *stages, const struct ordered_stage *excepted)
{
	for (const struct ordered_stage *each = stages->first; each; each = each->next)
		if (each != excepted && !each->ended)
			return false;
	return true;
}

/* To those that were made later: what follows the last pass over the rings of a stage that ends, they get. */
static void hand_over(const struct ordered_stage *stage)
{
	for (struct ordered_stage *each = stage->stages->first; each != stage; each = each->next)
		if (each->index == stage->index)
			each->handed_ns = complete_until(stage);
}

/* Its rings are those of another stage now, which tells as long as it has not ended. */
static bool follows_another(const struct ordered_stage *stage)
{
	const struct ordered_stage *each = stage->stages->first;

	while (each && (each->ended || each->index != stage->index))
		each = each->next;
	return each;
}

/* What is left to add, behind the last batch. The lock is held, and released. */
static int pass_rest(struct ordered_stage *stage)
{
	struct ordered_stages *stages = stage->stages;
	AUTO_BUF struct buf rest = take_buf(&stages->added);
	struct batch *batch;

	if (!rest.len)
		return buf_status(&rest);
	ordered_stages_unlock(stages);
	batch = stage_batch_new(&stage->stage);
	int err = batch ? pass_with(&stage->stage, batch, &rest) : 0;
	ordered_stages_lock(stages);
	return err ? err : rest.len ? -ENOMEM : 0;
}

static int end_output(struct ordered_stage *stage)
{
	struct ordered_stages *stages = stage->stages;
	struct ordered_record place = {.stages = stages};

	stage->ended = true;
	int err = stages->ops->end
			  ? stages->ops->end(stages->ctx, &place, stages->last_outputs && all_ended_but(stages, NULL))
			  : 0;
	int pass_err = pass_rest(stage);
	return err ? err : pass_err;
}

static int flush(struct stage *base, enum stage_flush why)
{
	struct ordered_stage *stage = (struct ordered_stage *)base;
	struct ordered_stages *stages = stage->stages;

	ordered_stages_lock(stages);
	/* Others may get older records yet, also one that has not begun: only of the last one all has come. */
	bool last = why == STAGE_END && all_ended_but(stages, stage);
	int err = last && stages->ops->all_came ? stages->ops->all_came(stages->ctx) : 0;
	if (last)
		stages->horizon_ns = UINT64_MAX;
	if (why == STAGE_END)
		hand_over(stage);
	int take_err = take_complete(stage);
	err = err ? err : take_err;
	if (last)
		stages->horizon_ns = 0;
	if (why == STAGE_MEMORY || why == STAGE_END || err) {
		int give_up_err = give_up_waiting(stage);
		int pass_err = pass_on(stage);
		err = err ? err : give_up_err ? give_up_err : pass_err;
	}
	if (why == STAGE_END) {
		int end_err = end_output(stage);
		err = err ? err : end_err;
	}
	ordered_stages_unlock(stages);
	return err;
}

static void stage_free(struct stage *base)
{
	struct ordered_stage *stage = (struct ordered_stage *)base;
	struct ordered_stages *stages = stage->stages;

	ordered_stages_lock(stages);
	for (struct ordered_stage **at = &stages->first; *at; at = &(*at)->next) {
		if (*at != stage)
			continue;
		*at = stage->next;
		break;
	}
	stages->recent = NULL; /* it may have been one of these */
	ordered_stages_unlock(stages);
	for (struct ordered_batch *pending = stage->first, *next; pending; pending = next) {
		next = pending->next;
		buf_fini(&pending->added);
		buf_fini(&pending->places);
		free(pending);
	}
	free(stage);
}

int ordered_stages_make(struct ordered_stages *stages, const struct stage_output *output, struct stage **ret)
{
	struct ordered_stage *stage = calloc(1, sizeof(*stage));

	if (!stage)
		return -ENOMEM;
	stage->stage.ops = &stages->stage_ops;
	stage->stages = stages;
	stage->index = output->index;
	stage->in_order = output->one_ring;
	ordered_stages_lock(stages);
	stage->handed_ns = follows_another(stage) ? UINT64_MAX : 0;
	stage->next = stages->first;
	stages->first = stage;
	ordered_stages_unlock(stages);
	*ret = &stage->stage;
	return 0;
}

int ordered_stages_new(const struct ordered_ops *ops, void *ctx, struct ordered_stages **ret)
{
	struct ordered_stages *stages = calloc(1, sizeof(*stages));

	if (!stages)
		return -ENOMEM;
	pthread_mutex_init(&stages->lock, NULL);
	stages->ops = ops;
	stages->ctx = ctx;
	stages->stage_ops =
		(struct stage_ops){.name = ops->name, .process = process, .flush = flush, .free = stage_free};
	*ret = stages;
	return 0;
}

void ordered_stages_free(struct ordered_stages *stages)
{
	if (!stages)
		return;
	for (const struct time_entry *first; (first = time_queue_first(&stages->records));) {
		if (!first->owner)
			free(first->item);
		time_queue_drop_first(&stages->records);
	}
	time_queue_fini(&stages->records);
	buf_fini(&stages->added);
	buf_fini(&stages->in_order);
	buf_fini(&stages->spare);
	pthread_mutex_destroy(&stages->lock);
	free(stages);
}
