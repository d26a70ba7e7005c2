/* SPDX-License-Identifier: MIT */
#include "cmd/colour.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

int colour_set(const struct option *option, const char *arg, bool negated, void *colour_when, struct diag *reterr)
{
	static const char *const words[] = {[COLOUR_AUTO] = "auto", [COLOUR_ALWAYS] = "always", [COLOUR_NEVER] = "never"};

	(void)option;
	if (!arg || negated)
		arg = words[negated ? COLOUR_NEVER : COLOUR_ALWAYS];
	for (enum colour_when when = COLOUR_AUTO; when <= COLOUR_NEVER; when++)
		if (strcmp(arg, words[when]) == 0) {
			*(enum colour_when *)colour_when = when;
			return 0;
		}
	return diag_set(reterr, -EINVAL, "\"%s\" is none of always, never and auto", arg);
}

/* https://no-color.org: any value but an empty one. */
bool colour_wanted(enum colour_when when, bool terminal)
{
	const char *no_colour = getenv("NO_COLOR"), *type = getenv("TERM");

	if (when != COLOUR_AUTO)
		return when == COLOUR_ALWAYS;
	return terminal && !(no_colour && *no_colour) && type && strcmp(type, "dumb") != 0;
}

/* perf's limits and colours: red and green. */
struct colour_marks colour_of_share(bool coloured, double percent)
{
	if (!coloured || percent <= 0.5)
		return (struct colour_marks){"", ""};
	return (struct colour_marks){percent >= 5 ? "\033[31m" : "\033[32m", "\033[m"};
}
