/* SPDX-License-Identifier: MIT */
#include "base/diag.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

int diag_set(struct diag *reterr, int err, const char *format, ...)
{
	if (reterr) {
		va_list args;
		va_start(args, format);
		text_format(reterr->text, sizeof(reterr->text), format, args);
		va_end(args);
	}
	return err;
}

const char *diag_start_error(int err)
{
	return err == -EAGAIN
		       ? "no more threads or processes may be started (ulimit -u, pids.max of the container, memory)"
		       : strerror(-err);
}

void diag_prefix(struct diag *reterr, const char *format, ...)
{
	char old[sizeof(reterr->text)], prefix[PATH_MAX + sizeof(old)];
	va_list args;

	if (!reterr)
		return;
	memcpy(old, reterr->text, sizeof(old));
	va_start(args, format);
	vsnprintf(prefix, sizeof(prefix), format, args);
	va_end(args);
	diag_set(reterr, 0, "%s: %s", prefix, old);
}
