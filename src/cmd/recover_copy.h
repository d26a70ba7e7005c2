/* SPDX-License-Identifier: MIT */
/* recover_copy: a copy of a recording that may be changed. */
#pragma once

struct diag;

/* A file, or a directory with its files. What is called `to` already is kept as sink_open() does. 0 or -errno and why. */
int recover_copy(const char *from, const char *to, struct diag *reterr);
