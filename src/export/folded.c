/* SPDX-License-Identifier: MIT */
/*
 * folded: a line for each command and stack, outermost function first, and a number: what flamegraph.pl, inferno and
 * speedscope take. Source: the head of stackcollapse-perf.pl, github.com/brendangregg/FlameGraph. It has one number for
 * each line, so it is about one event.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/escape.h"
#include "export/formats.h"
#include "export/output_buf.h"
#include "export/stack_table.h"

struct count {
	uint32_t comm, stack;
	uint64_t value;
};

struct folded {
	struct exporter exporter;
	struct output_buf output;
	struct text_table texts; /* of comms, objects and frames */
	struct stack_table stacks;
	uint32_t *objects, *frames, *threads; /* heap; numbers of texts, by number */
	uint32_t objects_room, frames_room, threads_room;
	struct hash_table by_key; /* indexes of counts, + 1 */
	struct count *counts;     /* heap */
	size_t nr_counts, counts_room;
};

static struct folded *folded_of(struct exporter *exporter)
{
	return (struct folded *)exporter;
}

static int folded_open(struct exporter *exporter, struct diag *reterr)
{
	(void)reterr;
	folded_of(exporter)->output.fd = exporter->fd;
	return 0;
}

/* A part of a line: ";" separates, so it must not be in it. */
static int add_text(struct folded *folded, const char *text, uint32_t **numbers, uint32_t number, uint32_t *room)
{
	if (table_make_room((void **)numbers, sizeof(**numbers), number, room))
		return -ENOMEM;
	int added = text_table_add(&folded->texts, text, &(*numbers)[number]);
	return added < 0 ? added : 0;
}

static int folded_object(struct exporter *exporter, uint32_t number, const struct export_object *object)
{
	struct folded *folded = folded_of(exporter);

	return add_text(folded, object->path, &folded->objects, number, &folded->objects_room);
}

static int folded_frame(struct exporter *exporter, uint32_t number, const struct export_frame *frame)
{
	struct folded *folded = folded_of(exporter);
	const char *object = frame->object ? folded->texts.texts[folded->objects[frame->object]] : NULL;
	struct buf name = {0};

	frame_name_put(&name, frame, object);
	int err = add_text(folded, buf_text(&name), &folded->frames, number, &folded->frames_room);
	buf_fini(&name);
	return err;
}

static int folded_stack(struct exporter *exporter, uint32_t number, uint32_t outer, uint32_t frame)
{
	return stack_table_add(&folded_of(exporter)->stacks, number, outer, frame);
}

static int folded_thread(struct exporter *exporter, uint32_t number, const struct export_thread *thread)
{
	struct folded *folded = folded_of(exporter);

	return add_text(folded, thread->comm, &folded->threads, number, &folded->threads_room);
}

static int folded_sample(struct exporter *exporter, const struct export_sample *sample)
{
	struct folded *folded = folded_of(exporter);
	uint32_t comm = folded->threads[sample->thread];
	uint64_t key = (uint64_t)comm << 32 | sample->stack;
	uint64_t value = exporter->profile.count_samples ? 1 : sample->period;
	uint64_t at = hash_table_find_number(&folded->by_key, key);

	if (at) {
		folded->counts[at - 1].value += value;
		return 0;
	}
	if (array_room(folded->counts, folded->nr_counts, folded->counts_room))
		return -ENOMEM;
	if (hash_table_add_number(&folded->by_key, key, folded->nr_counts + 1))
		return -ENOMEM;
	folded->counts[folded->nr_counts++] = (struct count){comm, sample->stack, value};
	return 0;
}

/* What separates parts and lines is replaced, as stackcollapse-perf.pl does it; what a terminal acts on is escaped. */
static void put_part(struct buf *out, const char *text)
{
	size_t from = out->len;

	escape_put(out, text, strlen(text));
	for (size_t i = from; i < out->len; i++)
		if (out->data[i] == ';')
			out->data[i] = ':';
}

static int put_line(struct folded *folded, const struct count *count)
{
	struct buf *out = &folded->output.buf;
	uint32_t frames[EXPORT_MOST_FRAMES];
	unsigned nr = 0;

	for (uint32_t at = count->stack; at && nr < EXPORT_MOST_FRAMES; at = folded->stacks.links[at].outer)
		frames[nr++] = folded->frames[folded->stacks.links[at].frame];
	size_t comm_at = out->len;
	put_part(out, folded->texts.texts[count->comm]);
	for (size_t i = comm_at; i < out->len; i++)
		if (out->data[i] == ' ') /* likewise */
			out->data[i] = '_';
	while (nr) {
		buf_put_u8(out, ';');
		put_part(out, folded->texts.texts[frames[--nr]]);
	}
	buf_printf(out, " %llu\n", (unsigned long long)count->value);
	return output_buf_flush_large(&folded->output);
}

static int folded_close(struct exporter *exporter, struct diag *reterr)
{
	struct folded *folded = folded_of(exporter);
	int err = 0;

	(void)reterr;
	for (size_t i = 0; i < folded->nr_counts && !err; i++)
		err = put_line(folded, &folded->counts[i]);
	return err ? err : output_buf_flush(&folded->output);
}

static void folded_free(struct exporter *exporter)
{
	struct folded *folded = folded_of(exporter);

	output_buf_fini(&folded->output);
	text_table_fini(&folded->texts);
	stack_table_fini(&folded->stacks);
	hash_table_fini(&folded->by_key);
	free(folded->objects);
	free(folded->frames);
	free(folded->threads);
	free(folded->counts);
}

const struct export_format export_folded = {
	.name = "folded",
	.suffix = ".folded",
	.about = "a line for each stack, for flamegraph.pl, inferno, speedscope; one event",
	.one_event = true,
	.state_bytes = sizeof(struct folded),
	.open = folded_open,
	.object = folded_object,
	.frame = folded_frame,
	.stack = folded_stack,
	.thread = folded_thread,
	.sample = folded_sample,
	.close = folded_close,
	.free = folded_free,
};
