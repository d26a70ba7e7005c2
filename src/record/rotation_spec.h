/* SPDX-License-Identifier: MIT */
/* rotation_spec: when a recording goes on in another file (--switch-output and what belongs to it). Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;

struct rotation_spec {
	bool on;            /* at least by SIGUSR2 and by --control */
	uint64_t bytes;     /* 0: not by size */
	uint64_t period_ns; /* 0: not by time */
};

/* "signal", "100M", "30s": bytes with B, K, M, G; time with s, m, h, d. -EINVAL. */
int rotation_spec_parse(const char *text, struct rotation_spec *ret, struct diag *reterr);
