/* SPDX-License-Identifier: MIT */
/* trigger_option: setters of the options that say when something happens while recording. See option.h. */
#pragma once

#include <stdbool.h>

struct diag;
struct option;

int set_delay(const struct option *option, const char *arg, bool negated, void *enable_times, struct diag *reterr);
int set_control(const struct option *option, const char *arg, bool negated, void *control_spec,
		struct diag *reterr);
int set_switch_output(const struct option *option, const char *arg, bool negated, void *rotation_spec,
		      struct diag *reterr);
int set_flight(const struct option *option, const char *arg, bool negated, void *rotation_spec, struct diag *reterr);
int set_flight_post(const struct option *option, const char *arg, bool negated, void *uint64_ns, struct diag *reterr);
int set_max_size(const struct option *option, const char *arg, bool negated, void *uint64_value,
		 struct diag *reterr);
