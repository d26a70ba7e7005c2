/* SPDX-License-Identifier: MIT */
/*
 * clickhouse: profiles of many machines in a ClickHouse server: an exporter whose target is a server. The tables are in
 * millrace-clickhouse(7).
 */
#pragma once

struct export_format;

struct clickhouse_options {
	const char *url;         /* clickhouse://HOST[:PORT][/DATABASE], clickhouses:// with TLS; borrowed, like all */
	const char *credentials; /* see http.h */
	const char *ca;
	const char *service; /* what the samples are filed under; NULL: the host */
};

/* NULL: this build has no libcurl. Its target's `store` points to the options. */
extern const struct export_format *const clickhouse_format;
