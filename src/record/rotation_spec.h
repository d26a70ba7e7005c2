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
	uint64_t flight_ns; /* --flight: files hold the last so much, and are written when asked for only; 0: they are written */
	uint64_t flight_bytes; /* of memory for that */
	uint64_t post_ns;   /* --flight-post: and so much more */
};

/* "10s", "10s,64M". Sets what belongs to --flight. -EINVAL. */
int rotation_spec_parse_flight(const char *text, struct rotation_spec *spec, struct diag *reterr);

/* "30s". -EINVAL. */
int rotation_spec_parse_time(const char *text, uint64_t *ret_ns, struct diag *reterr);

/* "signal", "100M", "30s": bytes with B, K, M, G; time with s, m, h, d. -EINVAL. */
int rotation_spec_parse(const char *text, struct rotation_spec *ret, struct diag *reterr);
