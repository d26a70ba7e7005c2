/* SPDX-License-Identifier: MIT */
/* The one place that knows which engines this build has. */
#include <stddef.h>
#include <string.h>

#include "config.h"
#include "stream/writer.h"

const struct writer_ops *const writers[] = {
	&writer_serial, &writer_mmap,
#ifdef HAVE_AIO
	&writer_aio,
#endif
	&writer_direct, &writer_null, NULL,
};

const struct writer_ops *writer_find(const char *name)
{
	for (const struct writer_ops *const *writer = writers; *writer; writer++)
		if (!strcmp((*writer)->name, name))
			return *writer;
	return NULL;
}
