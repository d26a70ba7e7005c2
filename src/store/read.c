/* SPDX-License-Identifier: MIT */
/*
 * What a service did lately, out of a ClickHouse. Two questions: the call chains that were met, each once, which are
 * kept, and the sums, which are handed on as they come. Both come as lines of fields with tabs between them. Source of
 * their escapes: clickhouse.com/docs, "TabSeparated".
 */
#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/hash_table.h"
#include "base/pool.h"
#include "export/stack_table.h"
#include "store/client.h"

enum {
	MOST_CHAINS = 1 << 29, /* bytes of their names */
	MOST_LINE = 1 << 24,
	MOST_BAD_LINES = 20, /* among which the reason is looked for */
	MOST_STEPS = 10000,
	BUCKET_S = 10,
	IDLE_S = 600, /* the first byte of an answer comes when the sums of the last row are known */
};

/* Texts with a NUL between them: no name has one, where any other byte may be in names of functions and files. */
struct texts {
	const char *ptr;
	size_t len; /* without the last NUL */
};

struct chain {
	struct texts frames, objects; /* innermost first */
	uint64_t nr_kernel;
};

struct reading {
	struct client client;
	const struct store_question *question;
	char *where;      /* heap: the condition of both questions */
	bool by_host;     /* rows tell hosts apart */
	uint64_t begin_s; /* since 1970, by the clock of the server */
	struct buf line;  /* of an answer: what came of it so far */
	int (*take_line)(struct reading *reading, char *line, struct diag *reterr);
	unsigned nr_bad_lines;
	uint64_t number; /* an answer that is one */
	bool has_number;
	struct pool pool;
	size_t chains_bytes;
	struct hash_table chains; /* hash -> struct chain, all of the pool */
};

/* The field at *at, cut and with its escapes resolved, of which one is NUL; *at behind it. NULL: the line has no more.
 */
static char *next_bytes(char **at, size_t *ret_len)
{
	char *field = *at, *to = *at, *from = *at;

	if (!field)
		return NULL;
	for (; *from && *from != '\t'; from++) {
		if (*from == '\\' && from[1]) {
			from++;
			*to++ = *from == 'n'   ? '\n'
				: *from == 't' ? '\t'
				: *from == 'r' ? '\r'
				: *from == '0' ? '\0'
					       : *from;
		} else {
			*to++ = *from;
		}
	}
	*at = *from ? from + 1 : NULL;
	*to = '\0';
	*ret_len = (size_t)(to - field);
	return field;
}

/* Likewise, as a text, which ends at its first NUL. */
static char *next_field(char **at)
{
	size_t len;

	return next_bytes(at, &len);
}

static bool next_texts(char **at, struct texts *ret)
{
	ret->ptr = next_bytes(at, &ret->len);
	return ret->ptr;
}

static bool next_number(char **at, uint64_t *ret)
{
	char *field = next_field(at), *end;

	if (!field)
		return false;
	*ret = strtoull(field, &end, 10);
	return end != field && !*end;
}

static int bad_answer(const struct reading *reading, struct diag *reterr)
{
	return diag_set(reterr, -EPROTO, "%s: the answer is not what was asked for", reading->client.url);
}

/* A server that fails in the middle of an answer says why in its text: a line, after some that are not of the answer.
 */
static int take_bad_line(struct reading *reading, const char *line, struct diag *reterr)
{
	if (strncmp(line, "Code: ", 6) == 0)
		return diag_set(reterr, -EIO, "%s: %.300s", reading->client.url, line);
	return ++reading->nr_bad_lines < MOST_BAD_LINES ? 0 : bad_answer(reading, reterr);
}

/* The line that has come, which begins a new one. */
static int end_line(struct reading *reading, struct diag *reterr)
{
	char *line = (char *)(uintptr_t)buf_text(&reading->line);

	if (reading->line.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	reading->line.len = 0;
	if (reading->nr_bad_lines || strncmp(line, "Code: ", 6) == 0)
		return take_bad_line(reading, line, reterr);
	int err = reading->take_line(reading, line, reterr);
	return err == -EPROTO ? take_bad_line(reading, "", reterr) : err;
}

static int take_bytes(void *ctx, struct span bytes, struct diag *reterr)
{
	struct reading *reading = ctx;
	const char *at = bytes.ptr, *end = at + bytes.len;
	int err = 0;

	while (!err && at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		buf_put(&reading->line, at, (size_t)((newline ? newline : end) - at));
		at = newline ? newline + 1 : end;
		if (reading->line.len > MOST_LINE)
			return bad_answer(reading, reterr);
		if (newline)
			err = end_line(reading, reterr);
	}
	return err;
}

/* Hands each line of the answer to take_line(), which returns -EPROTO for one that is not what was asked for. */
static int query(struct reading *reading, struct buf *sql, int (*take_line)(struct reading *, char *, struct diag *),
		 struct diag *reterr)
{
	const struct http_receiver receiver = {.take = take_bytes, .ctx = reading};

	reading->take_line = take_line;
	reading->line.len = 0;
	reading->nr_bad_lines = 0;
	buf_put_text(sql, " FORMAT TabSeparated");
	int err = sql->failed ? diag_set(reterr, -ENOMEM, "out of memory")
			      : client_query(&reading->client, buf_text(sql), &receiver, reterr);
	if (!err && reading->line.len) { /* without a newline it is no whole one */
		reading->nr_bad_lines++;
		err = end_line(reading, reterr);
	}
	return !err && reading->nr_bad_lines ? bad_answer(reading, reterr) : err;
}

static int take_number(struct reading *reading, char *line, struct diag *reterr)
{
	(void)reterr;
	reading->has_number = next_number(&line, &reading->number);
	return reading->has_number ? 0 : -EPROTO;
}

static int query_number(struct reading *reading, struct buf *sql, uint64_t *ret, struct diag *reterr)
{
	reading->has_number = false;
	int err = query(reading, sql, take_number, reterr);
	if (!err && !reading->has_number)
		err = bad_answer(reading, reterr);
	if (!err)
		*ret = reading->number;
	return err;
}

static int count_hosts(struct reading *reading, struct diag *reterr)
{
	AUTO_BUF struct buf sql = {0};
	uint64_t nr;

	buf_printf(&sql, "SELECT uniqExact(host) FROM profile_samples WHERE %s", reading->where);
	int err = query_number(reading, &sql, &nr, reterr);
	if (err)
		return err;
	*reading->question->ret_nr_hosts = (uint32_t)nr;
	reading->by_host = nr <= reading->question->most_hosts;
	return 0;
}

static int take_chain(struct reading *reading, char *line, struct diag *reterr)
{
	uint64_t hash;
	struct chain found;

	if (!next_number(&line, &hash) || !next_number(&line, &found.nr_kernel) || !next_texts(&line, &found.frames) ||
	    !next_texts(&line, &found.objects))
		return -EPROTO;
	reading->chains_bytes += found.frames.len + found.objects.len;
	if (reading->chains_bytes > MOST_CHAINS)
		return diag_set(reterr, -EFBIG, "%s: more than %d MiB of call chains: ask for less time",
				reading->client.url, MOST_CHAINS >> 20);
	found.frames.ptr = pool_text(&reading->pool, found.frames.ptr, found.frames.len);
	found.objects.ptr = pool_text(&reading->pool, found.objects.ptr, found.objects.len);
	struct chain *chain = pool_take(&reading->pool, sizeof(*chain));
	if (!found.frames.ptr || !found.objects.ptr || !chain || hash_table_add(&reading->chains, hash, chain))
		return diag_set(reterr, -ENOMEM, "out of memory");
	*chain = found;
	return 0;
}

static int read_chains(struct reading *reading, struct diag *reterr)
{
	AUTO_BUF struct buf sql = {0};
	AUTO_FREE char *service = client_literal(reading->question->service);

	buf_printf(
		&sql,
		"SELECT hash, any(kernel), arrayStringConcat(any(stack), '\\0'), arrayStringConcat(any(objects), '\\0')"
		" FROM profile_stacks WHERE service = %s AND hash IN "
		"(SELECT stack FROM profile_samples WHERE %s) GROUP BY hash",
		service ? service : "''", reading->where);
	return service ? query(reading, &sql, take_chain, reterr) : diag_set(reterr, -ENOMEM, "out of memory");
}

/* The texts, `room` at most, the last one first. */
static unsigned split_texts(const struct texts *texts, const char *ret[], unsigned room)
{
	unsigned nr = 0;

	for (const char *at = texts->ptr; at <= texts->ptr + texts->len && nr < room; at += strlen(at) + 1)
		ret[nr++] = at;
	for (unsigned i = 0; i < nr / 2; i++) {
		const char *other = ret[i];
		ret[i] = ret[nr - 1 - i];
		ret[nr - 1 - i] = other;
	}
	return nr;
}

/* The row with the frames of its chain: of one that was not stored, or is not yet, the samples count all the same. */
static int give_chain(struct reading *reading, const struct chain *chain, struct store_row *row, struct diag *reterr)
{
	static const char unknown[] = "[unknown]";
	static const struct chain none = {.frames = {unknown, sizeof(unknown) - 1}, .objects = {"", 0}};
	const char *frames[EXPORT_MOST_FRAMES], *objects[EXPORT_MOST_FRAMES];
	const struct chain *known = chain ? chain : &none;

	row->frames = frames;
	row->objects = objects;
	row->nr_frames = split_texts(&known->frames, frames, EXPORT_MOST_FRAMES);
	if (split_texts(&known->objects, objects, EXPORT_MOST_FRAMES) != row->nr_frames)
		return -EPROTO;
	row->nr_kernel = known->nr_kernel < row->nr_frames ? (unsigned)known->nr_kernel : row->nr_frames;
	int err = reading->question->row(reading->question->ctx, row);
	return err ? diag_set(reterr, err, "%s", strerror(-err)) : 0;
}

static int take_sum(struct reading *reading, char *line, struct diag *reterr)
{
	const struct store_question *question = reading->question;
	struct store_row row = {0};
	uint64_t hash;

	row.event = next_field(&line);
	row.host = next_field(&line);
	row.comm = next_field(&line);
	uint64_t time_s;
	if (!next_number(&line, &time_s) || !next_number(&line, &hash) || !next_number(&line, &row.samples) ||
	    !next_number(&line, &row.value))
		return -EPROTO;
	/* Hosts whose clocks are ahead are in the last step that there can be. */
	uint64_t later_s = time_s > reading->begin_s ? time_s - reading->begin_s : 0;
	uint64_t step = question->step_s ? later_s / question->step_s : 0;
	row.step = step < MOST_STEPS ? (uint32_t)step : MOST_STEPS - 1;
	return give_chain(reading, hash_table_find_item(&reading->chains, hash), &row, reterr);
}

static int read_sums(struct reading *reading, struct diag *reterr)
{
	AUTO_BUF struct buf sql = {0};
	uint32_t step_s = reading->question->step_s;

	buf_printf(&sql, "SELECT event, %s AS of_host, comm, ", reading->by_host ? "host" : "'all hosts'");
	if (step_s)
		buf_printf(&sql, "intDiv(toUInt32(time), %u) * %u", step_s, step_s);
	else
		buf_put_text(&sql, "0");
	buf_printf(&sql,
		   " AS at, stack, sum(samples), sum(value)"
		   " FROM profile_samples WHERE %s GROUP BY event, of_host, comm, at, stack",
		   reading->where);
	return query(reading, &sql, take_sum, reterr);
}

/* From which time on, in whole steps. */
static int choose_time(struct reading *reading, struct diag *reterr)
{
	const struct store_question *question = reading->question;
	AUTO_FREE char *service = client_literal(question->service);
	AUTO_BUF struct buf sql = {0};
	uint64_t now_s;
	uint32_t step_s = question->step_s ? question->step_s : BUCKET_S;

	buf_put_text(&sql, "SELECT toUInt32(now())");
	int err = query_number(reading, &sql, &now_s, reterr);
	if (err)
		return err;
	reading->begin_s = now_s > question->since_s ? (now_s - question->since_s) / step_s * step_s : 0;
	if (!service || asprintf(&reading->where, "service = %s AND time >= toDateTime(%" PRIu64 ")", service,
				 reading->begin_s) < 0) {
		reading->where = NULL;
		return diag_set(reterr, -ENOMEM, "out of memory");
	}
	return 0;
}

int store_read(const struct store_options *options, const struct store_question *question, struct diag *reterr)
{
	struct reading reading = {.question = question};
	int err = client_open(&reading.client, options, IDLE_S, reterr);

	if (!err)
		err = choose_time(&reading, reterr);
	if (!err)
		err = count_hosts(&reading, reterr);
	if (!err)
		err = read_chains(&reading, reterr);
	if (!err)
		err = read_sums(&reading, reterr);
	client_close(&reading.client);
	hash_table_fini(&reading.chains);
	pool_fini(&reading.pool);
	buf_fini(&reading.line);
	free(reading.where);
	return err;
}
