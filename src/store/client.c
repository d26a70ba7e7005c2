/* SPDX-License-Identifier: MIT */
#include "store/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"

enum { DEFAULT_PORT = 8123, DEFAULT_TLS_PORT = 8443 };

char *client_literal(const char *text)
{
	struct buf out = {0};

	buf_put_u8(&out, '\'');
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			buf_put_u8(&out, '\\');
		buf_put_u8(&out, (uint8_t)*text);
	}
	buf_put_u8(&out, '\'');
	char *copy = out.failed ? NULL : strdup(buf_text(&out));
	buf_fini(&out);
	return copy;
}

/* "clickhouse://host:9000/db" as "http://host:9000/" and "db". */
static int parse_url(struct client *client, const char *url, struct diag *reterr)
{
	bool tls = strncmp(url, "clickhouses://", 14) == 0;
	const char *host = url + (tls ? 14 : 13);

	if (!tls && strncmp(url, "clickhouse://", 13) != 0)
		host = "";
	size_t len = strcspn(host, "/");
	const char *database = host[len] && host[len + 1] ? host + len + 1 : "default";
	bool has_port = len && memchr(host, ':', len) && host[len - 1] != ']';

	if (!len || memchr(host, '@', len) ||
	    database[strspn(database, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")])
		return diag_set(reterr, -EDESTADDRREQ,
				"%s: it is clickhouse://HOST[:PORT][/DATABASE], or clickhouses:// with TLS; user and "
				"password are in the file of --credentials",
				url);
	client->database = strdup(database);
	char port[16] = "";
	if (!has_port)
		snprintf(port, sizeof(port), ":%d", tls ? DEFAULT_TLS_PORT : DEFAULT_PORT);
	if (asprintf(&client->url, "%s://%.*s%s/", tls ? "https" : "http", (int)len, host, port) < 0)
		client->url = NULL;
	return client->url && client->database ? 0 : diag_set(reterr, -ENOMEM, "out of memory");
}

int store_check_url(const char *url, struct diag *reterr)
{
	struct client client = {0};
	int err = store_takes_posts(url) ? 0 : parse_url(&client, url, reterr);

	free(client.url);
	free(client.database);
	return err;
}

int client_open(struct client *client, const struct store_options *options, unsigned idle_s, struct diag *reterr)
{
	int err = parse_url(client, options->url, reterr);
	const struct http_options http_options = {
		.url = client->url,
		.credentials = options->credentials,
		.ca = options->ca,
		.tries = options->tries,
		.idle_s = idle_s,
	};

	return err ? err : http_open(&http_options, &client->http, reterr);
}

void client_close(struct client *client)
{
	http_close(client->http);
	free(client->url);
	free(client->database);
	buf_fini(&client->answer);
}

/* `post` with a statement. */
static int send(struct client *client, const char *sql, const char *query_id, struct http_post post,
		struct diag *reterr)
{
	AUTO_FREE char *escaped = http_escape(client->http, sql);
	AUTO_BUF struct buf query = {0};

	buf_printf(&query, "database=%s&query=%s", client->database, escaped ? escaped : "");
	if (query_id)
		buf_printf(&query, "&query_id=%s", query_id);
	post.query = buf_text(&query);
	if (!escaped || query.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	return http_post(client->http, &post, &client->answer, reterr);
}

static int send_again(struct client *client, const char *sql, struct http_post post, struct diag *reterr)
{
	for (unsigned nr = 1;; nr++) {
		int err = send(client, sql, NULL, post, reterr);
		if (err != -EAGAIN)
			return err;
		if (!http_wait(client->http, nr))
			return -EIO;
	}
}

static struct http_post post_of(const struct buf *body)
{
	return (struct http_post){.body = body ? buf_span(body) : (struct span){0}, .gzip = body};
}

int client_post(struct client *client, const char *sql, const char *query_id, const struct buf *body,
		struct diag *reterr)
{
	return send(client, sql, query_id, post_of(body), reterr);
}

int client_post_again(struct client *client, const char *sql, const struct buf *body, struct diag *reterr)
{
	return send_again(client, sql, post_of(body), reterr);
}

int client_query(struct client *client, const char *sql, const struct http_receiver *receiver, struct diag *reterr)
{
	return send_again(client, sql, (struct http_post){.receiver = receiver}, reterr);
}
