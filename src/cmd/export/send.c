/* SPDX-License-Identifier: MIT */
#include "cmd/export/send.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"

void send_print_formats(FILE *to)
{
	for (size_t i = 0; export_formats[i]; i++)
		fprintf(to, "%s\n", export_formats[i]->name);
}

#define NS_PER_S UINT64_C(1000000000)

/* Path where collectors of OpenTelemetry take profiles. Source: opentelemetry.io/docs/specs/otlp, "OTLP/HTTP". */
static const char otlp_path[] = "/v1development/profiles";

int send_check(const struct send_options *options, struct diag *reterr)
{
	const char *url = options->store.url;
	bool posts = store_takes_posts(url);

	if (!clickhouse_format)
		return diag_set(reterr, -EINVAL, "this build cannot send to servers: it was built without libcurl");
	if (posts && !options->format)
		return diag_set(reterr, -EINVAL, "%s needs --format=pprof or --format=otlp", url);
	if (posts && options->format->needs_file)
		return diag_set(reterr, -EINVAL, "%s needs a file: it cannot be sent", options->format->name);
	if (!posts && options->format)
		return diag_set(reterr, -EINVAL, "--format is only for files, http:// and https://: leave it out");
	return 0;
}

/* Any text as a part of a URL. Source: RFC 3986, 2.1 and 2.3. */
static void put_encoded(struct buf *out, const char *text)
{
	for (; *text; text++) {
		bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
			     (*text >= '0' && *text <= '9') || strchr("-._~", *text);
		buf_printf(out, plain ? "%c" : "%%%02X", (uint8_t)*text);
	}
}

/* The url, with "{from}", "{until}" (seconds since 1970) and "{service}" replaced. */
static void put_url(struct buf *out, const struct send_options *options, const char *service,
		    const struct feed_counts *counts)
{
	const char *url = options->store.url, *host = strstr(url, "://") + 3;
	const char *path = host + strcspn(host, "/?#");
	bool add_path = *path != '/' && strcmp(options->format->name, "otlp") == 0;

	for (const char *at = url; *at || add_path;) {
		if (at == path && add_path) {
			buf_put_text(out, otlp_path);
			add_path = false;
		} else if (strncmp(at, "{from}", 6) == 0) {
			buf_printf(out, "%" PRIu64, counts->from_ns / NS_PER_S);
			at += 6;
		} else if (strncmp(at, "{until}", 7) == 0) {
			buf_printf(out, "%" PRIu64, counts->until_ns / NS_PER_S + 1);
			at += 7;
		} else if (strncmp(at, "{service}", 9) == 0) {
			put_encoded(out, service);
			at += 9;
		} else {
			buf_put_u8(out, (uint8_t)*at++);
		}
	}
}

static bool has_times(const char *url)
{
	return strstr(url, "{from}") || strstr(url, "{until}");
}

static int post_file(int fd, const struct send_options *options, const char *service, const struct feed_counts *counts,
		     struct diag *reterr)
{
	AUTO_BUF struct buf url = {0};
	struct stat st;

	put_url(&url, options, service, counts);
	if (url.failed || fstat(fd, &st))
		return diag_set(reterr, -ENOMEM, "out of memory");
	void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return diag_set(reterr, -errno, "%s", strerror(errno));
	const struct store_message message = {
		.url = buf_text(&url),
		.type = strcmp(options->format->name, "otlp") == 0 ? "application/x-protobuf"
								   : "application/octet-stream",
		.body = {bytes, (size_t)st.st_size},
	};
	int err = store_post(&options->store, &message, reterr);
	munmap(bytes, (size_t)st.st_size);
	return err;
}

/* A profile is small: it is whole in memory before it is sent, as often as it takes. */
static int post_recording(const struct feed_options *feed, const struct send_options *options,
			  struct feed_counts *ret_counts)
{
	AUTO_FD int fd = memfd_create("millrace-profile", MFD_CLOEXEC);
	AUTO_BUF struct buf hostname = {0};
	struct feed_options feed_named = *feed;
	const struct export_target target = {.fd = fd, .name = options->store.url};
	struct exporter *exporter;
	struct diag diag = {0};

	if (fd < 0) {
		log_error("cannot allocate memory for a profile: %s", strerror(errno));
		return -ENOMEM;
	}
	feed_named.hostname = &hostname;
	int err = feed_recording(&feed_named, options->format, &target, &exporter, ret_counts);
	export_free(exporter);
	if ((err && err != -EBADMSG) || !ret_counts->nr_samples)
		return err;
	if (!ret_counts->until_ns && has_times(options->store.url)) {
		log_error("%s: {from} and {until} are times of day, and the recording does not say at which it was "
			  "made: record with --clockid mono (-k)",
			  options->store.url);
		return -EINVAL;
	}
	const char *service = options->store.service ? options->store.service
			      : hostname.len         ? buf_text(&hostname)
						     : "millrace";
	int sent = hostname.failed ? diag_set(&diag, -ENOMEM, "out of memory")
				   : post_file(fd, options, service, ret_counts, &diag);
	if (sent)
		log_error("%s", diag.text);
	return sent ? sent : err;
}

int send_recording(const struct feed_options *feed, const struct send_options *options, struct feed_counts *ret_counts)
{
	const struct export_target target = {.fd = -1, .name = options->store.url, .store = &options->store};
	struct exporter *exporter;

	if (store_takes_posts(options->store.url))
		return post_recording(feed, options, ret_counts);
	int err = feed_recording(feed, clickhouse_format, &target, &exporter, ret_counts);
	export_free(exporter);
	return err;
}
