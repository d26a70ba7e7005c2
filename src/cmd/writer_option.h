/* SPDX-License-Identifier: MIT */
/* writer_option: --writer, --aio and --mmap-output of millrace record, as entries of its table. */
#pragma once

#include "cmd/option.h"
#include "record/recording.h"

/* Each stores into a struct recording_writer. */
int set_writer(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr);
int set_aio(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr);
int set_mmap_output(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr);
