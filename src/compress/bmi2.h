/* SPDX-License-Identifier: MIT */
/*
 * bmi2: code of which a second version uses the shifts of x86 processors from 2013 on (BMI2), a tenth faster where bits
 * are packed. An always_inline function is called by two functions, one of them with BMI2_TARGET; bmi2_is_here() tells
 * which of them to call. Private to compress.
 */
#pragma once

#include <stdbool.h>

#ifdef __x86_64__
#include <cpuid.h>

#define BMI2_TARGET __attribute__((target("bmi,bmi2,lzcnt")))
/*
 * __builtin_cpu_supports() would ask the processor at each start of the program, and each of its questions is an exit
 * of a virtual machine, 60 us together.
 */
static inline bool bmi2_is_here(void)
{
	unsigned a, b, c, d, more_a, more_b, more_c, more_d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_BMI && b & bit_BMI2 &&
	       __get_cpuid(0x80000001, &more_a, &more_b, &more_c, &more_d) && more_c & bit_LZCNT;
}
#else
#define BMI2_TARGET
static inline bool bmi2_is_here(void)
{
	return false;
}
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
