/* SPDX-License-Identifier: MIT */
/* client: statements to one ClickHouse. One owner, one thread; zeroed is closed. */
#pragma once

#include "base/buf.h"
#include "store/http.h"
#include "store/store.h"

struct client {
	struct http *http;
	char *url, *database; /* heap */
	struct buf answer;    /* of the last statement */
};

/* idle_s: as of http_options. 0, or -errno and why; client_close() in any case. */
int client_open(struct client *client, const struct store_options *options, unsigned idle_s, struct diag *reterr);
void client_close(struct client *client);

/* A statement, once; the body, in a format of its own, is sent compressed when there is one. As http_post(). */
int client_post(struct client *client, const char *sql, const char *query_id, const struct buf *body,
		struct diag *reterr);

/* One that may be made more than once: tried again. -EIO: all tries failed. */
int client_post_again(struct client *client, const char *sql, const struct buf *body, struct diag *reterr);

/* A question, tried again until the first byte of its answer; the receiver gets all of it. As client_post_again(). */
int client_query(struct client *client, const char *sql, const struct http_receiver *receiver, struct diag *reterr);

/* 'text', with quotes and backslashes escaped, on the heap. NULL: out of memory. */
char *client_literal(const char *text);
