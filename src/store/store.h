/* SPDX-License-Identifier: MIT */
/*
 * store: servers that profiles of many machines are sent to. ClickHouse takes rows, as an exporter whose target is a
 * server: the tables are in millrace-clickhouse(7). Others take a profile that was written before, by HTTP POST.
 * One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/span.h"

struct diag;
struct export_format;

struct store_options {
	const char *url; /* clickhouse://HOST[:PORT][/DATABASE], http://…; with TLS clickhouses://, https://; */
	const char *credentials; /* a file of lines "user=NAME", "password=TEXT"; NULL: none */
	const char *ca;          /* a file with certificates to trust in place of the system's; NULL: those */
	const char *service;     /* what the samples are filed under; NULL: the host */
	unsigned tries;          /* of a request, within some seconds; 0: a number that fits a command */
};

/* NULL: this build has no libcurl. Its target's `store` points to the options. */
extern const struct export_format *const clickhouse_format;

/* Is the URL one for store_post()? */
static inline bool store_takes_posts(const char *url)
{
	return strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
}

/*
 * The body to `url`, in place of that of the options. Tried again while the server is away, for some seconds; an answer
 * that got lost may make the server count it twice. 0; -EIO: the server does not answer, or says that it cannot;
 * -EINVAL: it refuses the content; -ENOTSUP: this build cannot; other -errno. With the reason.
 */
struct store_message {
	const char *url, *type; /* type: "application/x-protobuf" */
	struct span body;
};
int store_post(const struct store_options *options, const struct store_message *message, struct diag *reterr);

/* What was sampled in one step of the time, on one host, in one command and call chain. Texts are valid in the call. */
struct store_row {
	const char *event, *host, *comm;
	const char *const *frames;     /* outermost first */
	const char *const *objects;    /* of each frame: "libc.so.6"; "": unknown */
	unsigned nr_frames, nr_kernel; /* nr_kernel: of the last frames, which are in the kernel */
	uint32_t step;                 /* of the time that was asked for, from 0 on */
	uint64_t samples, value;
};

struct store_question {
	const char *service;
	uint32_t since_s, step_s; /* the time before now; its steps, a multiple of 10; 0: the whole is one step */
	uint32_t most_hosts;      /* of more of them the rows are sums over all, and row->host is "all hosts" */
	uint32_t *ret_nr_hosts;   /* how many there are, before the first row */
	int (*row)(void *ctx, const struct store_row *row); /* 0, or an error that ends it */
	void *ctx;
};

/* Rows in no order, from a ClickHouse. 0; as store_post(); -EFBIG: there are too many. With the reason. */
int store_read(const struct store_options *options, const struct store_question *question, struct diag *reterr);
