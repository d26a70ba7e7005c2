/* SPDX-License-Identifier: MIT */
/*
 * Rows are sums: of the samples of one event, command and stack in BUCKET_S seconds. They go in batches of one bucket,
 * which is one block and one partition, and so is stored whole or not at all. A batch has a number that is a hash of
 * its samples: before it is sent, and when it is not known whether it came through, the server is asked whether it has
 * it; a query id keeps the server from taking it twice at the same time. So a batch that is sent again, or a recording
 * that is exported again, is not counted twice. Not by insert_deduplication_token: that needs a setting of the table
 * where it is not replicated, and is unknown to old servers.
 *
 * Where a batch ends and what its number is depends on the recording alone, not on its rows: names of functions may be
 * others in the next attempt, when a program was removed or replaced, and then other samples have one row.
 *
 * Source of the formats: clickhouse.com/docs, "HTTP interface", "RowBinary".
 */
#include "store/store.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/hash_table.h"
#include "export/cgroup_labels.h"
#include "export/export.h"
#include "export/stack_table.h"
#include "store/client.h"
#include "sysinfo/shortage.h"

enum { BUCKET_S = 10, MOST_SAMPLES = 1 << 15 /* and so rows */, GZIP_WINDOW = 15 + 16 };

#define NS_PER_S UINT64_C(1000000000)

/* Where the function of a frame is. */
struct frame_place {
	uint32_t object; /* a text */
	bool kernel;
};

struct clickhouse {
	struct exporter exporter;
	const struct store_options *options;
	struct client client;
	const char *service_name; /* borrowed */
	char *service;            /* heap; as a literal of SQL */
	struct text_table texts;
	struct cgroup_labels *cgroups;                       /* heap; by number */
	uint32_t *object_texts, *frame_texts, *thread_texts; /* heap; by number */
	struct frame_place *frame_places;                    /* likewise */
	struct stack_table stacks;
	uint64_t *stack_hashes;  /* heap; by number */
	uint8_t *is_sent;        /* heap; by stack: the row of it was sent */
	uint64_t *thread_hashes; /* heap; by number */
	uint32_t objects_room, frames_room, places_room, threads_room, stacks_room, sent_room, cgroups_room,
		hashes_room;
	struct sums sums;    /* of one bucket; sum_key.thread is a text */
	uint64_t bucket;     /* seconds since 1970 */
	uint64_t nr_samples; /* in `sums` */
	uint64_t samples;    /* a hash of them */
};

static struct clickhouse *clickhouse_of(struct exporter *exporter)
{
	return (struct clickhouse *)exporter;
}

static int make_tables(struct clickhouse *clickhouse, struct diag *reterr)
{
	static const char *const statements[] = {
		"CREATE TABLE IF NOT EXISTS profile_stacks (service String, hash UInt64, stack Array(String),"
		" objects Array(String), kernel UInt16, last_seen DateTime) ENGINE = ReplacingMergeTree(last_seen) "
		"ORDER BY (service, hash)",
		"CREATE TABLE IF NOT EXISTS profile_samples (service String, event String, unit String, time DateTime,"
		" host String, comm String, systemd_unit String, container String, pod String, stack UInt64,"
		" samples UInt64, value UInt64, batch UInt64)"
		" ENGINE = MergeTree PARTITION BY toDate(time) ORDER BY (service, event, time, host)",
	};
	int err = 0;

	for (unsigned i = 0; i < sizeof(statements) / sizeof(statements[0]) && !err; i++)
		err = client_post_again(&clickhouse->client, statements[i], NULL, reterr);
	return err;
}

static int clickhouse_open(struct exporter *exporter, struct diag *reterr)
{
	struct clickhouse *clickhouse = clickhouse_of(exporter);

	clickhouse->options = exporter->store;
	if (!exporter->profile.wall_offset_ns)
		return diag_set(reterr, -EINVAL,
				"the recording does not say at which time of day it was made: "
				"record with --clockid mono (-k)");
	const char *host = exporter->profile.hostname ? exporter->profile.hostname : "";
	clickhouse->service_name = clickhouse->options->service ? clickhouse->options->service : host;
	clickhouse->service = client_literal(clickhouse->service_name);
	if (!clickhouse->service)
		return diag_set(reterr, -ENOMEM, "out of memory");
	int err = client_open(&clickhouse->client, clickhouse->options, 0, reterr);
	return err ? err : make_tables(clickhouse, reterr);
}

static int add_text(struct clickhouse *clickhouse, const char *text, uint32_t **numbers, uint32_t number,
		    uint32_t *room)
{
	if (table_make_room((void **)numbers, sizeof(**numbers), number, room))
		return -ENOMEM;
	int added = text_table_add(&clickhouse->texts, text, &(*numbers)[number]);
	return added < 0 ? added : 0;
}

static int clickhouse_object(struct exporter *exporter, uint32_t number, const struct export_object *object)
{
	struct clickhouse *clickhouse = clickhouse_of(exporter);

	/* The names of generated code tell processes apart, which stacks of many machines must not. */
	const char *name = object->kind == EXPORT_GENERATED && *object->name == '[' ? "[JIT]" : object->name;
	return add_text(clickhouse, name, &clickhouse->object_texts, number, &clickhouse->objects_room);
}

static int clickhouse_frame(struct exporter *exporter, uint32_t number, const struct export_frame *frame)
{
	struct clickhouse *clickhouse = clickhouse_of(exporter);
	const char *object = frame->object ? clickhouse->texts.texts[clickhouse->object_texts[frame->object]] : NULL;
	struct frame_place place = {.kernel = frame->kernel};
	AUTO_BUF struct buf name = {0};

	if (text_table_add(&clickhouse->texts, object ? object : "", &place.object) < 0 ||
	    table_make_room((void **)&clickhouse->frame_places, sizeof(place), number, &clickhouse->places_room))
		return -ENOMEM;
	clickhouse->frame_places[number] = place;
	frame_name_put(&name, frame, object);
	return add_text(clickhouse, buf_text(&name), &clickhouse->frame_texts, number, &clickhouse->frames_room);
}

static int clickhouse_thread(struct exporter *exporter, uint32_t number, const struct export_thread *thread)
{
	struct clickhouse *clickhouse = clickhouse_of(exporter);

	if (table_make_room((void **)&clickhouse->thread_hashes, sizeof(uint64_t), number, &clickhouse->hashes_room))
		return -ENOMEM;
	clickhouse->thread_hashes[number] =
		stable_hash_mix(stable_hash_text(thread->comm), (uint64_t)thread->pid << 32 | thread->tid);
	return add_text(clickhouse, thread->comm, &clickhouse->thread_texts, number, &clickhouse->threads_room);
}

static int clickhouse_cgroup(struct exporter *exporter, uint32_t number, const char *path)
{
	struct clickhouse *clickhouse = clickhouse_of(exporter);

	if (table_make_room((void **)&clickhouse->cgroups, sizeof(*clickhouse->cgroups), number,
			    &clickhouse->cgroups_room))
		return -ENOMEM;
	cgroup_labels_of(path, &clickhouse->cgroups[number]);
	return 0;
}

static const char *frame_text(const struct clickhouse *clickhouse, uint32_t frame)
{
	return clickhouse->texts.texts[clickhouse->frame_texts[frame]];
}

static const char *frame_object(const struct clickhouse *clickhouse, uint32_t frame)
{
	return clickhouse->texts.texts[clickhouse->frame_places[frame].object];
}

/* The same hash for the same names on every machine. */
static int clickhouse_stack(struct exporter *exporter, uint32_t number, uint32_t outer, uint32_t frame)
{
	struct clickhouse *clickhouse = clickhouse_of(exporter);

	if (table_make_room((void **)&clickhouse->stack_hashes, sizeof(uint64_t), number, &clickhouse->stacks_room) ||
	    table_make_room((void **)&clickhouse->is_sent, 1, number, &clickhouse->sent_room))
		return -ENOMEM;
	clickhouse->is_sent[number] = 0;
	uint64_t place = stable_hash_mix(stable_hash_text(frame_object(clickhouse, frame)),
					 stable_hash_text(frame_text(clickhouse, frame)));
	clickhouse->stack_hashes[number] = stable_hash_mix(outer ? clickhouse->stack_hashes[outer] : 0, place);
	return stack_table_add(&clickhouse->stacks, number, outer, frame);
}

static void put_varint(struct buf *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		buf_put_u8(out, (uint8_t)(value | 0x80));
	buf_put_u8(out, (uint8_t)value);
}

static void put_string(struct buf *out, const char *text)
{
	put_varint(out, strlen(text));
	buf_put_text(out, text);
}

static void put_stack_row(struct clickhouse *clickhouse, uint32_t stack, struct buf *out)
{
	uint32_t frames[EXPORT_MOST_FRAMES];
	unsigned nr = 0, nr_kernel = 0;

	for (uint32_t at = stack; at && nr < EXPORT_MOST_FRAMES; at = clickhouse->stacks.links[at].outer)
		frames[nr++] = clickhouse->stacks.links[at].frame;
	while (nr_kernel < nr && clickhouse->frame_places[frames[nr_kernel]].kernel)
		nr_kernel++;
	put_string(out, clickhouse->service_name);
	buf_put_u64(out, htole64(clickhouse->stack_hashes[stack]));
	put_varint(out, nr);
	for (unsigned i = 0; i < nr; i++)
		put_string(out, frame_text(clickhouse, frames[i]));
	put_varint(out, nr);
	for (unsigned i = 0; i < nr; i++)
		put_string(out, frame_object(clickhouse, frames[i]));
	buf_put_u16(out, htole16((uint16_t)nr_kernel));
	buf_put_u32(out, htole32((uint32_t)clickhouse->bucket));
}

static int pack(const struct buf *plain, struct buf *ret)
{
	z_stream stream = {.next_in = plain->data, .avail_in = (uInt)plain->len};

	if (plain->failed ||
	    deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	size_t most = deflateBound(&stream, plain->len);
	stream.next_out = buf_room(ret, most);
	stream.avail_out = (uInt)most;
	int status = stream.next_out ? deflate(&stream, Z_FINISH) : Z_MEM_ERROR;
	ret->len += most - stream.avail_out;
	deflateEnd(&stream);
	return status == Z_STREAM_END ? 0 : -ENOMEM;
}

/* The stacks that this server did not get from us yet. Twice is no harm: the table keeps one of each. */
static int send_stacks(struct clickhouse *clickhouse, struct diag *reterr)
{
	AUTO_BUF struct buf rows = {0}, packed = {0};

	for (uint32_t i = 0; i < clickhouse->sums.nr; i++) {
		uint32_t stack = clickhouse->sums.sums[i].key.stack;
		if (!clickhouse->is_sent[stack])
			put_stack_row(clickhouse, stack, &rows);
		clickhouse->is_sent[stack] = 1;
	}
	if (!rows.len)
		return buf_status(&rows);
	int err = pack(&rows, &packed);
	return err ? err
		   : client_post_again(&clickhouse->client,
				       "INSERT INTO profile_stacks (service, hash, stack, objects, kernel, last_seen)"
				       " FORMAT RowBinary",
				       &packed, reterr);
}

/* How many samples of the batch the server has. -errno. */
static int64_t query_samples(struct clickhouse *clickhouse, uint64_t batch, struct diag *reterr)
{
	AUTO_BUF struct buf sql = {0};
	char *end;

	buf_printf(&sql,
		   "SELECT sum(samples) FROM profile_samples WHERE service = %s AND time = toDateTime(%" PRIu64
		   ") AND batch = %" PRIu64 " FORMAT TabSeparated",
		   clickhouse->service, clickhouse->bucket, batch);
	int err = client_post_again(&clickhouse->client, buf_text(&sql), NULL, reterr);
	if (err)
		return err;
	const char *text = buf_text(&clickhouse->client.answer);
	int64_t nr = strtoll(text, &end, 10);
	if (end == text || *end != '\n' || nr < 0)
		return diag_set(reterr, -EPROTO, "%s: answers a question for a number with \"%.40s\"",
				clickhouse->client.url, text);
	return nr;
}

/* A batch that is there already, or after this. */
static int send_batch(struct clickhouse *clickhouse, const struct buf *packed, uint64_t batch, struct diag *reterr)
{
	char id[40];

	snprintf(id, sizeof(id), "millrace-%016" PRIx64, batch);
	for (unsigned nr = 1;; nr++) {
		int64_t there = query_samples(clickhouse, batch, reterr);
		if (there < 0)
			return (int)there;
		if ((uint64_t)there == clickhouse->nr_samples)
			return 0;
		if (there)
			return diag_set(reterr, -EPROTO, "%s: has %" PRId64 " of the %" PRIu64 " samples of a batch",
					clickhouse->client.url, there, clickhouse->nr_samples);
		int err = client_post(&clickhouse->client, "INSERT INTO profile_samples FORMAT RowBinary", id, packed,
				      reterr);
		if (err != -EAGAIN)
			return err;
		if (!http_wait(clickhouse->client.http, nr))
			return -EIO;
	}
}

static void put_sample_row(struct clickhouse *clickhouse, const struct sum *sum, struct buf *out)
{
	static const char *const units[] = {
		[EXPORT_COUNT] = "count", [EXPORT_CPU_NS] = "ns", [EXPORT_OFF_CPU_NS] = "ns"};
	const struct export_event *event = &clickhouse->exporter.profile.events[sum->key.event];
	const char *host = clickhouse->exporter.profile.hostname;

	put_string(out, clickhouse->service_name);
	put_string(out, event->name);
	put_string(out, units[event->unit]);
	buf_put_u32(out, htole32((uint32_t)clickhouse->bucket));
	put_string(out, host ? host : "");
	put_string(out, clickhouse->texts.texts[sum->key.thread]);
	for (unsigned i = 0; i < NR_CGROUP_LABELS; i++)
		put_string(out, sum->key.cgroup ? clickhouse->cgroups[sum->key.cgroup].texts[i] : "");
	buf_put_u64(out, htole64(clickhouse->stack_hashes[sum->key.stack]));
	buf_put_u64(out, htole64(sum->nr_samples));
	buf_put_u64(out, htole64(sum->period));
}

static uint64_t batch_number(const struct clickhouse *clickhouse)
{
	const char *host = clickhouse->exporter.profile.hostname;

	return stable_hash_mix(
		stable_hash_mix(stable_hash_text(clickhouse->service_name), stable_hash_text(host ? host : "")),
		clickhouse->samples);
}

static int send_bucket(struct clickhouse *clickhouse, struct diag *reterr)
{
	AUTO_BUF struct buf rows = {0}, packed = {0};

	if (!clickhouse->sums.nr)
		return 0;
	int err = shortage(); /* names would be missing for ever */
	if (!err)
		err = send_stacks(clickhouse, reterr);
	if (err)
		return err;
	uint64_t batch = batch_number(clickhouse);
	for (uint32_t i = 0; i < clickhouse->sums.nr; i++) {
		put_sample_row(clickhouse, &clickhouse->sums.sums[i], &rows);
		buf_put_u64(&rows, htole64(batch));
	}
	err = pack(&rows, &packed);
	if (!err)
		err = send_batch(clickhouse, &packed, batch, reterr);
	sums_clear(&clickhouse->sums);
	clickhouse->nr_samples = clickhouse->samples = 0;
	return err;
}

/* Of what the recording says of the sample: nothing that depends on the files of this machine. */
static void hash_sample(struct clickhouse *clickhouse, const struct export_sample *sample, uint64_t wall_ns)
{
	const uint64_t words[] = {
		wall_ns,
		sample->period,
		(uint64_t)sample->cpu,
		stable_hash_text(clickhouse->exporter.profile.events[sample->event].name),
		clickhouse->thread_hashes[sample->thread],
	};

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		clickhouse->samples = stable_hash_mix(clickhouse->samples, words[i]);
	clickhouse->nr_samples++;
}

static int clickhouse_sample(struct exporter *exporter, const struct export_sample *sample)
{
	struct clickhouse *clickhouse = clickhouse_of(exporter);
	uint64_t wall_ns = sample->time_ns + (uint64_t)exporter->profile.wall_offset_ns;
	uint64_t bucket = wall_ns / (BUCKET_S * NS_PER_S) * BUCKET_S;
	const struct sum_key key = {sample->stack, clickhouse->thread_texts[sample->thread], sample->event, 0,
				    sample->cgroup};

	if (bucket != clickhouse->bucket || clickhouse->nr_samples >= MOST_SAMPLES) {
		int err = send_bucket(clickhouse, exporter->why);
		if (err)
			return err;
		clickhouse->bucket = bucket;
	}
	hash_sample(clickhouse, sample, wall_ns);
	return sums_add(&clickhouse->sums, &key, sample->period);
}

static int clickhouse_close(struct exporter *exporter, struct diag *reterr)
{
	return send_bucket(clickhouse_of(exporter), reterr);
}

static void clickhouse_free(struct exporter *exporter)
{
	struct clickhouse *clickhouse = clickhouse_of(exporter);

	client_close(&clickhouse->client);
	free(clickhouse->service);
	text_table_fini(&clickhouse->texts);
	stack_table_fini(&clickhouse->stacks);
	sums_fini(&clickhouse->sums);
	free(clickhouse->cgroups);
	free(clickhouse->object_texts);
	free(clickhouse->frame_texts);
	free(clickhouse->frame_places);
	free(clickhouse->thread_texts);
	free(clickhouse->thread_hashes);
	free(clickhouse->stack_hashes);
	free(clickhouse->is_sent);
}

static const struct export_format format = {
	.name = "clickhouse",
	.suffix = "",
	.about = "rows in a ClickHouse server",
	.state_bytes = sizeof(struct clickhouse),
	.open = clickhouse_open,
	.object = clickhouse_object,
	.frame = clickhouse_frame,
	.stack = clickhouse_stack,
	.thread = clickhouse_thread,
	.cgroup = clickhouse_cgroup,
	.sample = clickhouse_sample,
	.close = clickhouse_close,
	.free = clickhouse_free,
};
const struct export_format *const clickhouse_format = &format;
