/* SPDX-License-Identifier: MIT */
/* The words: perf-record(1), --branch-filter. The bits: <linux/perf_event.h>. */
#include "event/branch_filter.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"

static const struct {
	const char *word;
	uint64_t bit;
} filters[] = {
	{"u", PERF_SAMPLE_BRANCH_USER},
	{"k", PERF_SAMPLE_BRANCH_KERNEL},
	{"hv", PERF_SAMPLE_BRANCH_HV},
	{"any", PERF_SAMPLE_BRANCH_ANY},
	{"any_call", PERF_SAMPLE_BRANCH_ANY_CALL},
	{"any_ret", PERF_SAMPLE_BRANCH_ANY_RETURN},
	{"ind_call", PERF_SAMPLE_BRANCH_IND_CALL},
	{"abort_tx", PERF_SAMPLE_BRANCH_ABORT_TX},
	{"in_tx", PERF_SAMPLE_BRANCH_IN_TX},
	{"no_tx", PERF_SAMPLE_BRANCH_NO_TX},
	{"cond", PERF_SAMPLE_BRANCH_COND},
	{"ind_jmp", PERF_SAMPLE_BRANCH_IND_JUMP},
	{"call", PERF_SAMPLE_BRANCH_CALL},
	{"save_type", PERF_SAMPLE_BRANCH_TYPE_SAVE},
	{"stack", PERF_SAMPLE_BRANCH_CALL_STACK},
	{"priv", UINT64_C(1) << 18}, /* PERF_SAMPLE_BRANCH_PRIV_SAVE, Linux 6.1 */
};

enum {
	NR_FILTERS = sizeof(filters) / sizeof(filters[0]),
	PRIVILEGES = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL | PERF_SAMPLE_BRANCH_HV,
};

int branch_filter_parse(const char *text, uint64_t *ret, struct diag *reterr)
{
	uint64_t mask = 0;

	for (const char *word = text;;) {
		size_t len = strcspn(word, ","), i = 0;
		while (i < NR_FILTERS && (strlen(filters[i].word) != len || strncasecmp(filters[i].word, word, len)))
			i++;
		if (i == NR_FILTERS) {
			AUTO_BUF struct buf list = {0};
			for (size_t f = 0; f < NR_FILTERS; f++)
				buf_printf(&list, " %s", filters[f].word);
			return diag_set(reterr, -EINVAL, "\"%.*s\" is no kind of branch; there are:%s", (int)len, word,
					buf_text(&list));
		}
		mask |= filters[i].bit;
		if (!word[len])
			break;
		word += len + 1;
	}
	*ret = mask & ~(uint64_t)PRIVILEGES ? mask : (uint64_t)PERF_SAMPLE_BRANCH_ANY;
	return 0;
}
