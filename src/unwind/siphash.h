/* SPDX-License-Identifier: MIT */
/*
 * siphash: a hash of bytes by a secret key. Who does not know the key can make no two inputs of the same hash. Private
 * to unwind. Pure. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (SipHash-2-4).
 */
#pragma once

#include <stdint.h>

#include "base/span.h"

uint64_t siphash(const uint64_t key[2], struct span bytes);
