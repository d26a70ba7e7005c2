/* SPDX-License-Identifier: MIT */
#include "analyze/report/callers.h"

#include <errno.h>

#include "base/diag.h"

static int compile(const char *text, regex_t *ret, bool *ret_is, struct diag *reterr)
{
	char why[128];
	int err = text ? regcomp(ret, text, REG_EXTENDED | REG_NOSUB) : 0;

	*ret_is = text && !err;
	if (!err)
		return 0;
	regerror(err, ret, why, sizeof(why));
	return diag_set(reterr, -EINVAL, "\"%s\" is no regular expression: %s", text, why);
}

int callers_init(struct callers *callers, const char *parent, const char *ignored, struct diag *reterr)
{
	*callers = (struct callers){0};
	int err = compile(parent, &callers->parent, &callers->has_parent, reterr);
	if (!err)
		err = compile(ignored, &callers->ignored, &callers->has_ignored, reterr);
	if (err)
		callers_fini(callers);
	return err;
}

void callers_fini(struct callers *callers)
{
	if (callers->has_parent)
		regfree(&callers->parent);
	if (callers->has_ignored)
		regfree(&callers->ignored);
	*callers = (struct callers){0};
}

static bool matches(const regex_t *regex, const struct location *at)
{
	return at->symbol && regexec(regex, at->symbol->name, 0, NULL, 0) == 0;
}

unsigned callers_parent(const struct callers *callers, const struct location frames[], unsigned nr, bool outermost)
{
	for (unsigned i = 0; i < nr && callers->has_parent; i++) {
		unsigned at = outermost ? nr - 1 - i : i;
		if (matches(&callers->parent, &frames[at]))
			return at;
	}
	return nr;
}

unsigned callers_ignored(const struct callers *callers, const struct location frames[], unsigned nr)
{
	for (unsigned i = nr; i > 0 && callers->has_ignored; i--)
		if (matches(&callers->ignored, &frames[i - 1]))
			return i - 1;
	return 0;
}
