/* SPDX-License-Identifier: MIT */
/* Answers of a store: four, with a byte 0x1e between them, for the questions that store_read() asks one after the
 * other. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "fuzz.h"
#include "store/client.h"
#include "store/store.h"

enum { BETWEEN = 0x1e, MOST_STEPS = 10000 };

static struct span rest; /* what was not answered yet */

/* In place of store/client.c: */

int client_open(struct client *client, const struct store_options *options, unsigned idle_s, struct diag *reterr)
{
	(void)options, (void)idle_s, (void)reterr;
	*client = (struct client){.url = strdup("http://store/"), .database = strdup("default")};
	return 0;
}

void client_close(struct client *client)
{
	free(client->url);
	free(client->database);
	buf_fini(&client->answer);
}

/* In pieces, whose sizes are of the bytes, too. */
int client_query(struct client *client, const char *sql, const struct http_receiver *receiver, struct diag *reterr)
{
	const uint8_t *bytes = rest.ptr, *end = rest.len ? memchr(bytes, BETWEEN, rest.len) : NULL;
	size_t len = end ? (size_t)(end - bytes) : rest.len;
	int err = 0;

	(void)client;
	if (!strstr(sql, " FORMAT TabSeparated"))
		abort();
	rest = end ? (struct span){end + 1, rest.len - len - 1} : (struct span){0};
	for (size_t at = 0; at < len && !err;) {
		size_t piece = 1 + bytes[at] % 16;
		piece = piece < len - at ? piece : len - at;
		err = receiver->take(receiver->ctx, (struct span){bytes + at, piece}, reterr);
		at += piece;
	}
	return err;
}

char *client_literal(const char *text)
{
	char *copy = NULL;

	return asprintf(&copy, "'%s'", text) < 0 ? NULL : copy;
}

static int take_row(void *ctx, const struct store_row *row)
{
	size_t *bytes = ctx;

	if (!row->nr_frames || row->nr_kernel > row->nr_frames || row->step >= MOST_STEPS)
		abort();
	for (unsigned i = 0; i < row->nr_frames; i++)
		*bytes += strlen(row->frames[i]) + strlen(row->objects[i]);
	*bytes += strlen(row->event) + strlen(row->host) + strlen(row->comm);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct store_options options = {.url = "clickhouse://store", .service = "web"};
	uint32_t nr_hosts = 0;
	size_t bytes = 0;
	const struct store_question question = {
		.service = "web",
		.since_s = 3600,
		.step_s = size & 1 ? 10 : 0,
		.most_hosts = 100,
		.ret_nr_hosts = &nr_hosts,
		.row = take_row,
		.ctx = &bytes,
	};
	struct diag diag = {""};

	rest = (struct span){data, size};
	int err = store_read(&options, &question, &diag);
	if (err ? !diag.text[0] : diag.text[0])
		abort();
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	static const char *const seeds[] = {
		"1764000000\n\x1e"
		"2\n\x1e"
		"77\t1\tpread\\0main\\0_start\t[kernel.kallsyms]\\0web\\0web\n78\t0\ta\\\\b\\tc\\nd\tlib\\'s.so\n\x1e"
		"cpu-clock\tweb1\tweb\t1763999990\t77\t5\t50000\ncpu-clock\tweb2\tweb\t1764000000\t79\t1\t10000\n",
		"1764000000\n\x1e"
		"200\n\x1e"
		"77\t0\tmain\t\n\x1e"
		"cpu-clock\tall hosts\tweb\t0\t77\t5\t50000\n",
		"<html>hello</html>\n",
		"1764000000\n\x1e"
		"1\n\x1e"
		"__exception__\r\nCode: 241. DB::Exception: Memory limit exceeded\n",
		"1764000000\n\x1e"
		"1\n\x1e"
		"77\t0\tmain\\0main\tone\n\x1e"
		"cpu-clock\tw\tweb\t0\t77\t5\t50000\n",
	};

	if (number >= sizeof(seeds) / sizeof(seeds[0]))
		return false;
	buf_put_text(out, seeds[number]);
	return true;
}
