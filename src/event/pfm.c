/* SPDX-License-Identifier: MIT */
#include "event/pfm.h"

#include <errno.h>
#include <stddef.h>

#include <perfmon/pfmlib_perf_event.h>

bool pfm_built(void)
{
	return true;
}

int pfm_encode(const char *name, struct perf_event_attr *ret, const char **ret_why)
{
	/* The library's own attr may be older than ours: only what both have had from the start is taken. */
	struct perf_event_attr attr = {.size = sizeof(attr)};
	pfm_perf_encode_arg_t arg = {.attr = &attr, .size = sizeof(arg)};
	int err = pfm_initialize();

	if (err == PFM_SUCCESS) {
		err = pfm_get_os_event_encoding(name, PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT, &arg);
		pfm_terminate();
	}
	if (err != PFM_SUCCESS) {
		if (ret_why)
			*ret_why = pfm_strerror(err);
		return -EINVAL;
	}
	ret->type = attr.type;
	ret->config = attr.config;
	ret->config1 = attr.config1;
	ret->config2 = attr.config2;
	ret->exclude_user = attr.exclude_user;
	ret->exclude_kernel = attr.exclude_kernel;
	ret->exclude_hv = attr.exclude_hv;
	return 0;
}
