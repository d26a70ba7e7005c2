/* SPDX-License-Identifier: MIT */
/* span: borrowed bytes. Owns nothing; valid as long as what it points into. */
#pragma once

#include <stddef.h>

struct span {
	const void *ptr;
	size_t len; /* bytes */
};
