/* SPDX-License-Identifier: MIT */
/*
 * bmi2: code of which a second version uses the shifts of x86 processors from 2013 on (BMI2), a tenth faster where bits
 * are packed. An always_inline function is called by two functions, one of them with BMI2_TARGET; bmi2_is_here() tells
 * which of them to call. Private to compress.
 */
#pragma once

#include <stdbool.h>

#ifdef __x86_64__
#define BMI2_TARGET __attribute__((target("bmi,bmi2,lzcnt")))
static inline bool bmi2_is_here(void)
{
	/* lzcnt is of the same processors, and compilers differ in how to ask for it */
	return __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("avx2");
}
#else
#define BMI2_TARGET
static inline bool bmi2_is_here(void)
{
	return false;
}
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
