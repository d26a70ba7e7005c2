/* SPDX-License-Identifier: MIT */
/*
 * store: sends profiles to servers and queries them. ClickHouse gets rows, through an exporter whose target is a
 * server; the tables are described in millrace-clickhouse(7). Other servers get a profile that was written before, by
 * HTTP POST. One thread.
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
	const char *service;     /* the service that the samples are stored for; NULL: the name of the host */
	unsigned tries;          /* how often a request is tried, within some seconds; 0: a default for commands */
};

/*
 * The export format that sends to ClickHouse: the `store` of its export_target points to the options. NULL: built
 * without libcurl.
 */
extern const struct export_format *const clickhouse_format;

/* Whether store_post() can send to the URL. */
static inline bool store_takes_posts(const char *url)
{
	return strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
}

/* 0, or -errno and why: no server can have such a URL. */
int store_check_url(const char *url, struct diag *reterr);

/*
 * Sends the body to message->url (options->url is not used). Tries again for some seconds while the server does not
 * answer; when only the answer was lost, the server may get the body twice. 0; -EIO: the server does not answer, or
 * answers that it cannot now; -EINVAL: it refuses the content; -ENOTSUP: built without libcurl; other -errno. The
 * reason is in the diag.
 */
struct store_message {
	const char *url, *type; /* type: "application/x-protobuf" */
	struct span body;
};
int store_post(const struct store_options *options, const struct store_message *message, struct diag *reterr);

/* The samples of one time step, host, command and call chain. Texts are valid during the call. */
struct store_row {
	const char *event, *host, *comm;
	const char *const *frames;     /* outermost first */
	const char *const *objects;    /* of each frame: "libc.so.6"; "": unknown */
	unsigned nr_frames, nr_kernel; /* nr_kernel: so many of the last frames are in the kernel */
	uint32_t step;                 /* number of the time step, from 0 on */
	uint64_t samples, value;
};

struct store_question {
	const char *service;
	uint32_t since_s, step_s; /* the last since_s seconds, in steps of step_s, a multiple of 10; 0: one step */
	/* with more hosts than this the rows are sums over all hosts, and row->host is "all hosts" */
	uint32_t most_hosts;
	uint32_t *ret_nr_hosts;                             /* set to the number of hosts before the first row */
	int (*row)(void *ctx, const struct store_row *row); /* 0, or an error that ends it */
	void *ctx;
};

/*
 * Reads rows from a ClickHouse server, in no order. 0; errors as of store_post(); -EFBIG: the names in the call chains
 * are longer than what is kept of them. The reason is in the diag.
 */
int store_read(const struct store_options *options, const struct store_question *question, struct diag *reterr);
