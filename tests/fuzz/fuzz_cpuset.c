/* SPDX-License-Identifier: MIT */
/* Lists of CPUs. What was read must come back from its own text. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "fuzz.h"

static void check_round_trip(const struct cpuset *set)
{
	AUTO_BUF struct buf text = {0};
	struct cpuset again = {0};

	cpuset_format(set, &text);
	if (cpuset_count(set) && cpuset_parse(&again, buf_text(&text)))
		abort();
	if (cpuset_count(&again) != cpuset_count(set))
		abort();
	for (int cpu = cpuset_next(set, 0); cpu >= 0; cpu = cpuset_next(set, cpu + 1))
		if (!cpuset_has(&again, (unsigned)cpu))
			abort();
	cpuset_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = strndup(size ? (const char *)data : "", size);
	struct cpuset set = {0};

	if (!text)
		abort();
	if (cpuset_parse(&set, text) == 0)
		check_round_trip(&set);
	cpuset_fini(&set);
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	static const char *const seeds[] = {"0", "0-3,7", "1,3,5-6,65535\n", "0-65535", "9-8", "65536"};

	if (number >= sizeof(seeds) / sizeof(seeds[0]))
		return false;
	buf_put_text(out, seeds[number]);
	return true;
}
