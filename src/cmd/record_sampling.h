/* SPDX-License-Identifier: MIT */
/* record_sampling: options of millrace record that say what a sample holds; and those that are refused by name. */
#pragma once

#include "cmd/option.h"

struct record_options;

/* -I, --user-regs: a mask. */
int set_registers(const struct option *, const char *arg, bool negated, void *uint64_value, struct diag *);

/* -b, -j: PERF_SAMPLE_BRANCH_*. */
int set_branch_any(const struct option *, const char *arg, bool negated, void *uint64_value, struct diag *);
int set_branch_filter(const struct option *, const char *arg, bool negated, void *uint64_value, struct diag *);

/* -k, into a struct event_options. */
int set_clockid(const struct option *, const char *arg, bool negated, void *event_options, struct diag *);

/* -G, into a struct record_options. */
int set_cgroups(const struct option *, const char *arg, bool negated, void *record_options, struct diag *);

/* --synth, into a struct synth_wishes. */
int set_synth(const struct option *, const char *arg, bool negated, void *synth_wishes, struct diag *);

/* A number from 1 to 1000000. */
int set_small_number(const struct option *, const char *arg, bool negated, void *unsigned_value, struct diag *);

/* --affinity, into a struct record_options. */
int set_affinity(const struct option *, const char *arg, bool negated, void *record_options, struct diag *);

/* An option of perf record that is not here: its help says why and what to use. */
int refuse_option(const struct option *, const char *arg, bool negated, void *unused, struct diag *);

/* Options that exclude each other. 0, or -EINVAL with the reason. */
int record_options_check(const struct record_options *options, struct diag *reterr);
