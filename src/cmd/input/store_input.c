/* SPDX-License-Identifier: MIT */
#include "cmd/input/store_input.h"

#include <errno.h>

#include "base/diag.h"
#include "record/setup/options.h"

#define NS_PER_S UINT64_C(1000000000)

enum { DEFAULT_SINCE_S = 3600 };

int store_input_set_time(const struct option *option, const char *arg, bool negated, void *uint64_ns,
			 struct diag *reterr)
{
	(void)option, (void)negated;
	return rotation_spec_parse_time(arg, uint64_ns, reterr);
}

int store_input_complete(struct store_input *from, const struct input_options *input, struct diag *reterr)
{
	const struct store_options *store = &from->store;

	if (!store->url) {
		bool any = store->service || from->since_ns || store->credentials || store->ca;
		return any ? diag_set(reterr, -EINVAL,
				      "--service, --since, --credentials and --ca-file need --from=URL")
			   : 0;
	}
	if (input->path)
		return diag_set(reterr, -EINVAL, "--from reads a store: leave out the recording");
	if (!store->service)
		return diag_set(reterr, -EINVAL, "--from needs --service=NAME: %s has the samples of many services",
				store->url);
	if (!from->since_ns)
		from->since_ns = DEFAULT_SINCE_S * NS_PER_S;
	return 0;
}

uint32_t store_input_since_s(const struct store_input *from)
{
	uint64_t seconds = from->since_ns / NS_PER_S;

	return seconds < UINT32_MAX ? (uint32_t)seconds : UINT32_MAX;
}
