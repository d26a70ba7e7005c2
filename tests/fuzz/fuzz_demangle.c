/* SPDX-License-Identifier: MIT */
/* Any name of a symbol: it is made readable or is not, in bounded time, memory and stack. */
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/symbols.h"
#include "base/buf.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = malloc(size + 1);

	if (!name)
		abort();
	memcpy(name, data, size);
	name[size] = '\0';
	if (symbol_is_mangled(name)) {
		char *readable = symbol_demangle(name);
		if (readable && strlen(readable) > SYMBOL_NAME_MAX)
			abort();
		free(readable);
	}
	free(name);
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	static const char *const names[] = {
		"_ZNSt6vectorIiSaIiEE9push_backERKi",
		"_ZN12_GLOBAL__N_15InnerIJiS0_T_EE3runEPFvS1_EZNS_4mainEvEUlvE_",
		"_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE",
		"_RNvNtNtCs1234_7mycrate3foo3barINtB4_3VecpE",
		"_RINvNtC3std3mem8align_ofjdFUdE",
		"_D3std5stdio__T7writelnTAyaZQnFNfQjZv",
		"_D4test3fooFiAyaZ1CMFNaNbNiNfKxiZv",
		"_D3app3hot__T5applySQsQq4mainFAAyaZ10__lambda10TAiZQBmMFNaNbNiNfQqZl",
		"_D4test35__T1tVdeN0A8PN6VHiiA1i1i2Vai65VPinZ1fFZv.isra.0",
		"camlStdlib__List__map_1234",
		"caml$2bStd$40",
		"Ljava/util/Map$1;put([[ILjava/lang/String;J)[Ljava/lang/Object;",
		"_GLOBAL__sub_I__ZN3foo3barE",
		"_ZTVN10__cxxabiv117__class_type_infoE",
		"_Z1fIXadL_Z1gvEEEvDTcl1gEE",
	};

	if (number >= sizeof(names) / sizeof(names[0]))
		return false;
	buf_put_text(out, names[number]);
	return true;
}
