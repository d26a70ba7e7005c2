/* SPDX-License-Identifier: MIT */
/* store_input: what the commands that read the store of a fleet have in common: which store, which service, since when.
 */
#pragma once

#include <stdint.h>

#include "cmd/input/input.h"
#include "store/store.h"

struct option;

struct store_input {
	struct store_options store; /* with the service that is shown; url NULL: a recording is read instead */
	uint64_t since_ns;
};

/* Setter of --since and other durations. */
int store_input_set_time(const struct option *, const char *arg, bool negated, void *uint64_ns, struct diag *);

/* Their rows in the table of a command whose struct `type` has a struct store_input `field`. */
#define STORE_INPUT_OPTIONS(type, field)                                                                               \
	{.name = "from",                                                                                               \
	 .arg = "URL",                                                                                                 \
	 .help = "Show what is in a store, clickhouse://HOST[:PORT][/DATABASE], in place of a recording",              \
	 .set = option_set_path,                                                                                       \
	 .offset = offsetof(type, field.store.url),                                                                    \
	 .group = "From the store of a fleet"},                                                                        \
		{.name = "service",                                                                                    \
		 .arg = "NAME",                                                                                        \
		 .help = "Of this service, on all hosts",                                                              \
		 .set = option_set_path,                                                                               \
		 .offset = offsetof(type, field.store.service)},                                                       \
		{.name = "since",                                                                                      \
		 .arg = "TIME",                                                                                        \
		 .help = "The last TIME (with s, m, h, d); default 1h",                                                \
		 .set = store_input_set_time,                                                                          \
		 .offset = offsetof(type, field.since_ns),                                                             \
		 .flags = OPTION_NO_NEGATE},                                                                           \
		{.name = "credentials",                                                                                \
		 .arg = "FILE",                                                                                        \
		 .help = "Log in with the lines user=NAME and password=TEXT of FILE, which only you may read",         \
		 .set = option_set_path,                                                                               \
		 .offset = offsetof(type, field.store.credentials)},                                                   \
	{                                                                                                              \
		.name = "ca-file", .arg = "FILE", .help = "Trust the certificates in FILE, not those of the system",   \
		.set = option_set_path, .offset = offsetof(type, field.store.ca)                                       \
	}

/* After the options: the defaults. -EINVAL and why: a recording was given, too, or no service; or no store but a
 * service. */
int store_input_complete(struct store_input *from, const struct input_options *input, struct diag *reterr);

uint32_t store_input_since_s(const struct store_input *from);
