/* SPDX-License-Identifier: MIT */
/*
 * What a service did lately, out of a ClickHouse. Two questions: the call chains that were met, each once, and the
 * sums. Both come as lines of fields with tabs between them. Source of their escapes: clickhouse.com/docs,
 * "TabSeparated".
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
#include "store/client.h"

enum { MOST_ANSWER = 1 << 29, MAX_DEPTH = 1024, MOST_STEPS = 10000, BUCKET_S = 10 };

/* A call chain as it came: texts of lines, cut when they are needed. */
struct chain {
	char *frames, *objects;
	uint64_t nr_kernel;
};

struct reading {
	struct client client;
	const struct store_question *question;
	char *where;       /* heap: the condition of both questions */
	bool by_host;      /* rows tell hosts apart */
	uint64_t begin_s;  /* since 1970, by the clock of the server */
	struct buf stacks; /* the first answer, whose fields are cut in place */
	struct pool pool;
	struct hash_table chains; /* hash -> struct chain, whose texts are in `stacks` */
};

/* The field at *at, cut and with its escapes resolved; *at behind it. NULL: the line has no more. */
static char *next_field(char **at)
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
				: *from == '0' ? ' '
					       : *from;
		} else {
			*to++ = *from;
		}
	}
	*at = *from ? from + 1 : NULL;
	*to = '\0';
	return field;
}

static bool next_number(char **at, uint64_t *ret)
{
	char *field = next_field(at), *end;

	if (!field)
		return false;
	*ret = strtoull(field, &end, 10);
	return end != field && !*end;
}

static char *next_line(char **at)
{
	char *line = *at, *end = line && *line ? strchr(line, '\n') : NULL;

	if (!end) /* what has no newline was cut off */
		return NULL;
	*end = '\0';
	*at = end + 1;
	return line;
}

static int bad_answer(struct reading *reading, struct diag *reterr)
{
	return diag_set(reterr, -EPROTO, "%s: the answer is not what was asked for", reading->client.url);
}

static int ask(struct reading *reading, const char *sql, struct diag *reterr)
{
	int err = client_post_again(&reading->client, sql, NULL, reterr);

	if (!err && reading->client.answer.len >= MOST_ANSWER)
		err = diag_set(reterr, -EFBIG, "%s: more than %d MiB: ask for less time", reading->client.url,
			       MOST_ANSWER >> 20);
	return err;
}

static int count_hosts(struct reading *reading, struct diag *reterr)
{
	AUTO_BUF struct buf sql = {0};
	uint64_t nr;

	buf_printf(&sql, "SELECT uniqExact(host) FROM profile_samples WHERE %s FORMAT TabSeparated", reading->where);
	int err = sql.failed ? diag_set(reterr, -ENOMEM, "out of memory") : ask(reading, buf_text(&sql), reterr);
	if (err)
		return err;
	char *at = (char *)(uintptr_t)buf_text(&reading->client.answer), *line = next_line(&at);
	if (!line || !next_number(&line, &nr))
		return bad_answer(reading, reterr);
	*reading->question->ret_nr_hosts = (uint32_t)nr;
	reading->by_host = nr <= reading->question->most_hosts;
	return 0;
}

static int read_stacks(struct reading *reading, struct diag *reterr)
{
	AUTO_BUF struct buf sql = {0};
	AUTO_FREE char *service = client_literal(reading->question->service);

	buf_printf(
		&sql,
		"SELECT hash, any(kernel), arrayStringConcat(any(stack), '\\n'), arrayStringConcat(any(objects), '\\n')"
		" FROM profile_stacks WHERE service = %s AND hash IN "
		"(SELECT stack FROM profile_samples WHERE %s) GROUP BY hash FORMAT TabSeparated",
		service ? service : "''", reading->where);
	int err = service && !sql.failed ? ask(reading, buf_text(&sql), reterr)
					 : diag_set(reterr, -ENOMEM, "out of memory");
	if (err)
		return err;
	reading->stacks = reading->client.answer;
	reading->client.answer = (struct buf){0};
	char *at = (char *)(uintptr_t)buf_text(&reading->stacks);
	for (char *line; (line = next_line(&at));) {
		uint64_t hash, nr_kernel;
		bool whole = next_number(&line, &hash) && next_number(&line, &nr_kernel);
		char *frames = whole ? next_field(&line) : NULL, *objects = next_field(&line);
		if (!frames || !objects)
			return bad_answer(reading, reterr);
		struct chain *chain = pool_take(&reading->pool, sizeof(*chain));
		if (!chain || hash_table_add(&reading->chains, hash, chain))
			return diag_set(reterr, -ENOMEM, "out of memory");
		*chain = (struct chain){frames, objects, nr_kernel};
	}
	return 0;
}

/* The lines of a text, `room` at most, the last one first. Newlines are cut off. */
static unsigned split_lines(char *text, const char *ret[], unsigned room)
{
	unsigned nr = 0;

	for (char *at = text; at && nr < room; nr++) {
		char *end = strchr(at, '\n');
		ret[nr] = at;
		if (end)
			*end = '\0';
		at = end ? end + 1 : NULL;
	}
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
	const char *frames[MAX_DEPTH], *objects[MAX_DEPTH];
	AUTO_FREE char *names = strdup(chain ? chain->frames : "[unknown]"),
		       *places = strdup(chain ? chain->objects : "");

	if (!names || !places)
		return diag_set(reterr, -ENOMEM, "out of memory");
	row->frames = frames;
	row->objects = objects;
	row->nr_frames = split_lines(names, frames, MAX_DEPTH);
	if (split_lines(places, objects, MAX_DEPTH) != row->nr_frames)
		return bad_answer(reading, reterr);
	row->nr_kernel = chain && chain->nr_kernel < row->nr_frames ? (unsigned)chain->nr_kernel
			 : chain                                    ? row->nr_frames
								    : 0;
	int err = reading->question->row(reading->question->ctx, row);
	return err ? diag_set(reterr, err, "%s", strerror(-err)) : 0;
}

static int give_row(struct reading *reading, char *line, struct diag *reterr)
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
		return bad_answer(reading, reterr);
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
		   " FROM profile_samples WHERE %s GROUP BY event, of_host, comm, at, stack FORMAT TabSeparated",
		   reading->where);
	int err = sql.failed ? diag_set(reterr, -ENOMEM, "out of memory") : ask(reading, buf_text(&sql), reterr);
	char *at = (char *)(uintptr_t)buf_text(&reading->client.answer);
	for (char *line; !err && (line = next_line(&at));)
		err = give_row(reading, line, reterr);
	return err;
}

/* From which time on, in whole steps. */
static int choose_time(struct reading *reading, struct diag *reterr)
{
	const struct store_question *question = reading->question;
	AUTO_FREE char *service = client_literal(question->service);
	uint64_t now_s;
	uint32_t step_s = question->step_s ? question->step_s : BUCKET_S;
	int err = ask(reading, "SELECT toUInt32(now()) FORMAT TabSeparated", reterr);

	if (err)
		return err;
	char *at = (char *)(uintptr_t)buf_text(&reading->client.answer), *line = next_line(&at);
	if (!line || !next_number(&line, &now_s))
		return bad_answer(reading, reterr);
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
	int err = client_open(&reading.client, options, MOST_ANSWER, reterr);

	if (!err)
		err = choose_time(&reading, reterr);
	if (!err)
		err = count_hosts(&reading, reterr);
	if (!err)
		err = read_stacks(&reading, reterr);
	if (!err)
		err = read_sums(&reading, reterr);
	client_close(&reading.client);
	hash_table_fini(&reading.chains);
	pool_fini(&reading.pool);
	buf_fini(&reading.stacks);
	free(reading.where);
	return err;
}
