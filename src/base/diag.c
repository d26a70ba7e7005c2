/* SPDX-License-Identifier: MIT */
#include "base/diag.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int diag_set(struct diag *reterr, int err, const char *format, ...)
{
	if (reterr) {
		va_list args;
		va_start(args, format);
		vsnprintf(reterr->text, sizeof(reterr->text), format, args);
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
	char old[sizeof(reterr->text)];
	va_list args;

	if (!reterr)
		return;
	memcpy(old, reterr->text, sizeof(old));
	va_start(args, format);
	int len = vsnprintf(reterr->text, sizeof(reterr->text), format, args);
	va_end(args);
	if (len >= 0 && (size_t)len < sizeof(reterr->text))
		snprintf(reterr->text + len, sizeof(reterr->text) - (size_t)len, ": %s", old);
}
