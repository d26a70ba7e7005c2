/* SPDX-License-Identifier: MIT */
#include "store/store.h"

#include <errno.h>
#include <stddef.h>

#include "base/diag.h"

const struct export_format *const clickhouse_format = NULL;

int store_check_url(const char *url, struct diag *reterr)
{
	return diag_set(reterr, -ENOTSUP, "%s: this program was built without libcurl, and cannot send to servers",
			url);
}

int store_post(const struct store_options *options, const struct store_message *message, struct diag *reterr)
{
	(void)options;
	return diag_set(reterr, -ENOTSUP, "%s: this program was built without libcurl, and cannot send to servers",
			message->url);
}

int store_read(const struct store_options *options, const struct store_question *question, struct diag *reterr)
{
	(void)question;
	return diag_set(reterr, -ENOTSUP, "%s: this program was built without libcurl, and cannot query servers",
			options->url);
}
