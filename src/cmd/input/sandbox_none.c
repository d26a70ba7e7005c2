/* SPDX-License-Identifier: MIT */
/* For builds without libseccomp, or that must write files at their end (coverage). */
#include "cmd/input/sandbox.h"

void sandbox_enter(const char *output, enum sandbox_flags flags)
{
	(void)output;
	(void)flags;
}

void sandbox_enter_helper(void)
{
}
