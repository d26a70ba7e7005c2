/* SPDX-License-Identifier: MIT */
/*
 * lookout: a writer around another, which looks at the records that pass on their way from the rings. Owned by the
 * recording; used by the thread of the stream.
 */
#pragma once

#include <stdbool.h>

struct hits_live;
struct writer;

/* Both borrowed: closing the lookout closes neither. staged: `inner` is a pack stage or a lane. 0 or -ENOMEM. */
int lookout_open(struct writer *inner, bool staged, struct hits_live *live, struct writer **ret);
