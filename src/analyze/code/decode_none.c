/* SPDX-License-Identifier: MIT */
/* A build without capstone. */
#include <errno.h>

#include "analyze/code/code.h"
#include "base/diag.h"

int code_decode(const struct code_bytes *bytes, enum code_syntax syntax, struct code *ret, struct diag *reterr)
{
	(void)bytes, (void)syntax, (void)ret;
	return diag_set(reterr, -ENOTSUP, "this build has no capstone, which decodes instructions");
}
