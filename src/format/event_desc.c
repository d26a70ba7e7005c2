/* SPDX-License-Identifier: MIT */
#include "format/event_desc.h"

#include <stdlib.h>

void event_desc_fini(struct event_desc *desc)
{
	free(desc->name);
	free(desc->ids);
	*desc = (struct event_desc){0};
}
