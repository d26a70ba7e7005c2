/* SPDX-License-Identifier: MIT */
/*
 * http: requests to one server, by libcurl, tried again when the server is away for a moment. One owner, one thread.
 * Without libcurl there is none of it, see store_none.c.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/span.h"

struct diag;
struct http;

struct http_options {
	const char *url;         /* "http://host:8123/" or "https://…"; borrowed */
	const char *credentials; /* a file of lines "user=NAME", "password=TEXT"; NULL: none */
	const char *ca;          /* a file with certificates to trust in place of the system's; NULL: those */
	unsigned tries; /* of a request that gets no answer, or one of 408, 429, 500 to 599; pauses are 0.2 s, 0.4 s … 5
			   s */
	unsigned idle_s; /* how long a request may be without a byte in either direction; 0: a minute */
};

/* 0, or -errno and why. -EPERM: the credentials are no file that only its owner can read; -ENOKEY: they name no user.
 */
int http_open(const struct http_options *options, struct http **ret, struct diag *reterr);
void http_close(struct http *http); /* NULL is fine */

/* A text as a part of a query, on the heap; NULL: out of memory. Valid until free(). */
char *http_escape(struct http *http, const char *text);

/* Gets the bytes of an answer as they come. 0, or -errno and why, which ends the request. */
struct http_receiver {
	int (*take)(void *ctx, struct span bytes, struct diag *reterr);
	void *ctx;
};

/*
 * POST of the body (gzip when `gzip`) to the url with "?query" behind it, once. The first 64 KiB of the answer replace
 * what is in `answer`; with a receiver, it gets a successful answer instead. 0; -EAGAIN: worth another try, and nothing
 * went to the receiver; -EINVAL: the server refuses the content; other -errno. With the reason.
 */
struct http_post {
	const char *query, *type; /* type: of the content; either may be NULL */
	struct span body;
	bool gzip;
	const struct http_receiver *receiver; /* or NULL */
};
int http_post(struct http *http, const struct http_post *post, struct buf *answer, struct diag *reterr);

/* Waits before try number `nr` (from 1 on). false: that were all tries. */
bool http_wait(const struct http *http, unsigned nr);
