/* SPDX-License-Identifier: MIT */
/* A build without libpfm4. */
#include <errno.h>

#include "event/names/names.h"

bool pfm_built(void)
{
	return false;
}

int pfm_encode(const char *name, enum pfm_tables tables, struct perf_event_attr *ret, const char **ret_why)
{
	(void)name, (void)tables, (void)ret;
	if (ret_why)
		*ret_why = "this build has no libpfm4";
	return -EINVAL;
}
