/* SPDX-License-Identifier: MIT */
#include "store/store.h"

#include <errno.h>

#include "base/cleanup.h"
#include "store/http.h"

int store_post(const struct store_options *options, const struct store_message *message, struct diag *reterr)
{
	const struct http_options http_options = {
		.url = message->url, .credentials = options->credentials, .ca = options->ca, .tries = options->tries};
	const struct http_post post = {.type = message->type, .body = message->body};
	AUTO_BUF struct buf answer = {0};
	struct http *http;
	int err = http_open(&http_options, &http, reterr);

	if (err)
		return err;
	for (unsigned nr = 1;; nr++) {
		err = http_post(http, &post, &answer, reterr);
		if (err != -EAGAIN || !http_wait(http, nr))
			break;
	}
	http_close(http);
	return err == -EAGAIN ? -EIO : err;
}
