/* SPDX-License-Identifier: MIT */
#include "cmd/trigger_option.h"

#include <errno.h>

#include "base/diag.h"
#include "cmd/option.h"
#include "record/control.h"
#include "record/enable_times.h"
#include "record/rotation_spec.h"

int set_delay(const struct option *option, const char *arg, bool negated, void *enable_times, struct diag *reterr)
{
	(void)option, (void)negated;
	return enable_times_parse(arg, enable_times, reterr);
}

int set_control(const struct option *option, const char *arg, bool negated, void *control_spec,
		struct diag *reterr)
{
	(void)option, (void)negated;
	return control_parse(arg, control_spec, reterr);
}

int set_switch_output(const struct option *option, const char *arg, bool negated, void *rotation_spec,
		      struct diag *reterr)
{
	struct rotation_spec *spec = rotation_spec;

	(void)option;
	if (negated) {
		*spec = (struct rotation_spec){0};
		return 0;
	}
	return rotation_spec_parse(arg ? arg : "signal", spec, reterr);
}

int set_flight(const struct option *option, const char *arg, bool negated, void *rotation_spec, struct diag *reterr)
{
	(void)option, (void)negated;
	return rotation_spec_parse_flight(arg, rotation_spec, reterr);
}

int set_flight_post(const struct option *option, const char *arg, bool negated, void *uint64_ns, struct diag *reterr)
{
	(void)option, (void)negated;
	return rotation_spec_parse_time(arg, uint64_ns, reterr);
}

int set_max_size(const struct option *option, const char *arg, bool negated, void *uint64_value,
		 struct diag *reterr)
{
	(void)option, (void)negated;
	if (option_parse_size(arg, uint64_value) || !*(uint64_t *)uint64_value)
		return diag_set(reterr, -EINVAL, "\"%s\" is no size such as 100M", arg);
	return 0;
}
