/* SPDX-License-Identifier: MIT */
/* annotate: the code of a function on the screen, and its keys. Private to the room; main thread. */
#pragma once

#include "cmd/view/model.h"

struct diag;

/* Until the user goes back. -errno and why there is nothing to show. */
int annotate_run(const struct model *model, const struct hist_place *place, struct diag *reterr);
