/* SPDX-License-Identifier: MIT */
/*
 * http: requests to one server, by libcurl, tried again when the server is away for a moment. One owner, one thread.
 * Without libcurl there is none of it, see store_none.c.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"

struct diag;
struct http;

struct http_options {
	const char *url;         /* "http://host:8123/" or "https://…"; borrowed */
	const char *credentials; /* a file of lines "user=NAME", "password=TEXT"; NULL: none */
	const char *ca;          /* a file with certificates to trust in place of the system's; NULL: those */
	unsigned tries; /* of a request that gets no answer, or one of 408, 429, 500 to 599; pauses are 0.2 s, 0.4 s … 5
			   s */
	size_t most_answer_bytes; /* 0: 64 KiB */
};

/* -EPERM: others can read the credentials. 0, or -errno and why. */
int http_open(const struct http_options *options, struct http **ret, struct diag *reterr);
void http_close(struct http *http); /* NULL is fine */

/* A text as a part of a query, on the heap; NULL: out of memory. Valid until free(). */
char *http_escape(struct http *http, const char *text);

/*
 * POST of the body (gzip when `gzip`) to the url with "?query" behind it, once. The answer replaces what is in
 * `answer`; what is beyond most_answer_bytes is left out. 0; -EAGAIN: worth another try; -EINVAL: the server refuses
 * the content; other -errno. With the reason.
 */
struct http_post {
	const char *query, *type; /* type: of the content; either may be NULL */
	struct span body;
	bool gzip;
};
int http_post(struct http *http, const struct http_post *post, struct buf *answer, struct diag *reterr);

/* Waits before try number `nr` (from 1 on). false: that were all tries. */
bool http_wait(const struct http *http, unsigned nr);
