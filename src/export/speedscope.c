/* SPDX-License-Identifier: MIT */
/*
 * speedscope: a profile for each thread and event, its samples in order of time. Source: file-format-schema.json of
 * npm's speedscope 1.25.0.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "cmd/cli/json_writer.h"
#include "export/formats.h"
#include "export/output_buf.h"
#include "export/spool.h"
#include "export/stack_table.h"

enum { SPOOL_BYTES = 32 << 20 };

/* A thread's samples of one event: equal ones that follow each other are one with their sum. */
struct track {
	uint32_t event, thread;
	uint32_t samples, weights; /* sequences of the spool */
	uint32_t stack;            /* of the sample that is not written yet; 0: none */
	uint64_t weight, total, nr;
};

struct speedscope {
	struct exporter exporter;
	struct output_buf output;
	struct spool *spool;
	uint32_t frames; /* sequence: the frames as JSON */
	struct stack_table stacks;
	struct text_table objects; /* paths; numbers as announced, from 1 on */
	uint32_t *object_texts;    /* heap; by number */
	char **thread_names;       /* heap; by number */
	uint32_t nr_objects, nr_threads;
	struct hash_table by_key; /* indexes of tracks, + 1 */
	struct track *tracks;     /* heap */
	uint32_t nr_tracks;
};

static struct speedscope *speedscope_of(struct exporter *exporter)
{
	return (struct speedscope *)exporter;
}

static int speedscope_open(struct exporter *exporter, struct diag *reterr)
{
	struct speedscope *speedscope = speedscope_of(exporter);

	speedscope->output.fd = exporter->fd;
	speedscope->spool = spool_new(SPOOL_BYTES, exporter->path);
	if (!speedscope->spool || spool_add(speedscope->spool, &speedscope->frames))
		return diag_set(reterr, -ENOMEM, "out of memory");
	return 0;
}

static int speedscope_object(struct exporter *exporter, uint32_t number, const struct export_object *object)
{
	struct speedscope *speedscope = speedscope_of(exporter);
	uint32_t *texts = reallocarray(speedscope->object_texts, number + 1, sizeof(*texts));

	if (!texts)
		return -ENOMEM;
	speedscope->object_texts = texts;
	speedscope->nr_objects = number;
	int added = text_table_add(&speedscope->objects, object->path, &texts[number]);
	return added < 0 ? added : 0;
}

static const char *object_path(const struct speedscope *speedscope, uint32_t number)
{
	return number ? speedscope->objects.texts[speedscope->object_texts[number]] : NULL;
}

static int speedscope_frame(struct exporter *exporter, uint32_t number, const struct export_frame *frame)
{
	struct speedscope *speedscope = speedscope_of(exporter);
	struct buf *out = spool_end(speedscope->spool, speedscope->frames);
	struct json_writer json = {.buf = out};
	struct buf name = {0};
	const char *file = frame->file ? frame->file : object_path(speedscope, frame->object);

	frame_name_put(&name, frame, object_path(speedscope, frame->object));
	if (number > 1)
		buf_put_text(out, ",\n");
	json_object(&json, NULL);
	json_text(&json, "name", buf_text(&name));
	if (file)
		json_text(&json, "file", file);
	if (frame->file && frame->line)
		json_number(&json, "line", frame->line);
	json_end(&json);
	buf_fini(&name);
	return spool_relieve(speedscope->spool, NULL);
}

static int speedscope_stack(struct exporter *exporter, uint32_t number, uint32_t outer, uint32_t frame)
{
	return stack_table_add(&speedscope_of(exporter)->stacks, number, outer, frame);
}

static int speedscope_thread(struct exporter *exporter, uint32_t number, const struct export_thread *thread)
{
	struct speedscope *speedscope = speedscope_of(exporter);
	char **names = reallocarray(speedscope->thread_names, number + 1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	speedscope->thread_names = names;
	names[0] = NULL;
	speedscope->nr_threads = number;
	if (asprintf(&names[number], "%s %" PRId32 "/%" PRId32, thread->comm, (int32_t)thread->pid,
		     (int32_t)thread->tid) < 0) {
		names[number] = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* Writes the sample that waits. */
static void put_pending(struct speedscope *speedscope, struct track *track)
{
	uint32_t frames[EXPORT_MOST_FRAMES];
	unsigned nr = 0;

	if (!track->stack)
		return;
	const char *comma = track->nr++ ? "," : "";
	struct buf *out = spool_end(speedscope->spool, track->weights);
	buf_printf(out, "%s%" PRIu64, comma, track->weight);
	out = spool_end(speedscope->spool, track->samples);
	buf_printf(out, "%s[", comma);
	for (uint32_t at = track->stack; at && nr < EXPORT_MOST_FRAMES; at = speedscope->stacks.links[at].outer)
		frames[nr++] = speedscope->stacks.links[at].frame - 1;
	for (unsigned i = nr; i-- > 0;)
		buf_printf(out, i ? "%" PRIu32 "," : "%" PRIu32, frames[i]);
	buf_put_text(out, "]\n");
	track->total += track->weight;
	track->stack = 0;
}

/* NULL: out of memory. */
static struct track *find_track(struct speedscope *speedscope, const struct export_sample *sample)
{
	uint64_t key = (uint64_t)sample->event << 32 | sample->thread;
	uint64_t at = hash_table_find_number(&speedscope->by_key, key);

	if (at)
		return &speedscope->tracks[at - 1];
	struct track *tracks = reallocarray(speedscope->tracks, speedscope->nr_tracks + 1, sizeof(*tracks));
	if (!tracks)
		return NULL;
	speedscope->tracks = tracks;
	struct track *track = &tracks[speedscope->nr_tracks];
	*track = (struct track){.event = sample->event, .thread = sample->thread};
	if (spool_add(speedscope->spool, &track->samples) || spool_add(speedscope->spool, &track->weights) ||
	    hash_table_add_number(&speedscope->by_key, key, speedscope->nr_tracks + 1))
		return NULL;
	speedscope->nr_tracks++;
	return track;
}

static int speedscope_sample(struct exporter *exporter, const struct export_sample *sample)
{
	struct speedscope *speedscope = speedscope_of(exporter);
	struct track *track = find_track(speedscope, sample);

	if (!track)
		return -ENOMEM;
	if (track->stack != sample->stack)
		put_pending(speedscope, track);
	else
		track->weight += exporter->profile.count_samples ? 1 : sample->period;
	if (!track->stack) {
		track->stack = sample->stack;
		track->weight = exporter->profile.count_samples ? 1 : sample->period;
	}
	return spool_relieve(speedscope->spool, NULL);
}

static int put_profile(struct speedscope *speedscope, struct track *track, struct diag *reterr)
{
	const struct export_profile *about = &speedscope->exporter.profile;
	const struct export_event *event = &about->events[track->event];
	struct buf *out = &speedscope->output.buf;
	struct json_writer json = {.buf = out};
	struct buf name = {0};

	put_pending(speedscope, track);
	buf_put_text(&name, speedscope->thread_names[track->thread]);
	if (about->nr_events > 1)
		buf_printf(&name, " %s", event->name);
	json_object(&json, NULL);
	json_text(&json, "type", "sampled");
	json_text(&json, "name", buf_text(&name));
	json_text(&json, "unit", event->unit != EXPORT_COUNT && !about->count_samples ? "nanoseconds" : "none");
	json_number(&json, "startValue", 0);
	json_number(&json, "endValue", track->total);
	buf_fini(&name);
	buf_put_text(out, ",\n\"samples\":[");
	int err = spool_write(speedscope->spool, track->samples, &speedscope->output, reterr);
	buf_put_text(out, "],\n\"weights\":[");
	if (!err)
		err = spool_write(speedscope->spool, track->weights, &speedscope->output, reterr);
	buf_put_text(out, "]}");
	return err;
}

static int speedscope_close(struct exporter *exporter, struct diag *reterr)
{
	struct speedscope *speedscope = speedscope_of(exporter);
	struct buf *out = &speedscope->output.buf;
	struct json_writer json = {.buf = out};

	json_object(&json, NULL);
	json_text(&json, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_text(&json, "exporter", "millrace");
	json_text(&json, "name", exporter->profile.title);
	buf_put_text(out, ",\n\"shared\":{\"frames\":[\n");
	int err = spool_write(speedscope->spool, speedscope->frames, &speedscope->output, reterr);
	buf_put_text(out, "]},\n\"profiles\":[");
	for (uint32_t i = 0; i < speedscope->nr_tracks && !err; i++) {
		buf_put_text(out, i ? ",\n" : "\n");
		err = put_profile(speedscope, &speedscope->tracks[i], reterr);
	}
	buf_put_text(out, "]}\n");
	return err ? err : output_buf_flush(&speedscope->output);
}

static void speedscope_free(struct exporter *exporter)
{
	struct speedscope *speedscope = speedscope_of(exporter);

	for (uint32_t i = 1; i <= speedscope->nr_threads; i++)
		free(speedscope->thread_names[i]);
	free(speedscope->thread_names);
	free(speedscope->object_texts);
	free(speedscope->tracks);
	output_buf_fini(&speedscope->output);
	spool_free(speedscope->spool);
	stack_table_fini(&speedscope->stacks);
	text_table_fini(&speedscope->objects);
	hash_table_fini(&speedscope->by_key);
}

const struct export_format export_speedscope = {
	.name = "speedscope",
	.suffix = ".speedscope.json",
	.about = "JSON for speedscope.app: a profile for each thread, in order of time",
	.state_bytes = sizeof(struct speedscope),
	.open = speedscope_open,
	.object = speedscope_object,
	.frame = speedscope_frame,
	.stack = speedscope_stack,
	.thread = speedscope_thread,
	.sample = speedscope_sample,
	.close = speedscope_close,
	.free = speedscope_free,
};
