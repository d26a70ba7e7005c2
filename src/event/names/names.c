/* SPDX-License-Identifier: MIT */
/*
 * The numbers stand in <linux/perf_event.h> (enum perf_hw_id, perf_sw_ids, perf_hw_cache_*); the words are perf's.
 */
#include "event/names/names.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct name {
	const char *word;
	uint64_t config;
};

/* Of several words for one number the first is the one that names_of() gives. */
static const struct name hardware[] = {
	{"cycles", PERF_COUNT_HW_CPU_CYCLES},
	{"cpu-cycles", PERF_COUNT_HW_CPU_CYCLES},
	{"instructions", PERF_COUNT_HW_INSTRUCTIONS},
	{"cache-references", PERF_COUNT_HW_CACHE_REFERENCES},
	{"cache-misses", PERF_COUNT_HW_CACHE_MISSES},
	{"branches", PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
	{"branch-instructions", PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
	{"branch-misses", PERF_COUNT_HW_BRANCH_MISSES},
	{"bus-cycles", PERF_COUNT_HW_BUS_CYCLES},
	{"stalled-cycles-frontend", PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
	{"idle-cycles-frontend", PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
	{"stalled-cycles-backend", PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
	{"idle-cycles-backend", PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
	{"ref-cycles", PERF_COUNT_HW_REF_CPU_CYCLES},
};

static const struct name software[] = {
	{"cpu-clock", PERF_COUNT_SW_CPU_CLOCK},
	{"task-clock", PERF_COUNT_SW_TASK_CLOCK},
	{"page-faults", PERF_COUNT_SW_PAGE_FAULTS},
	{"faults", PERF_COUNT_SW_PAGE_FAULTS},
	{"context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"cs", PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"cpu-migrations", PERF_COUNT_SW_CPU_MIGRATIONS},
	{"migrations", PERF_COUNT_SW_CPU_MIGRATIONS},
	{"minor-faults", PERF_COUNT_SW_PAGE_FAULTS_MIN},
	{"major-faults", PERF_COUNT_SW_PAGE_FAULTS_MAJ},
	{"alignment-faults", PERF_COUNT_SW_ALIGNMENT_FAULTS},
	{"emulation-faults", PERF_COUNT_SW_EMULATION_FAULTS},
	{"dummy", PERF_COUNT_SW_DUMMY},
	{"bpf-output", PERF_COUNT_SW_BPF_OUTPUT},
	{"cgroup-switches", PERF_COUNT_SW_CGROUP_SWITCHES},
	/* What perf stat measures itself: recorded, they count nothing. */
	{"duration_time", PERF_COUNT_SW_DUMMY},
	{"user_time", PERF_COUNT_SW_DUMMY},
	{"system_time", PERF_COUNT_SW_DUMMY},
};

static const struct name caches[] = {
	{"L1-dcache", PERF_COUNT_HW_CACHE_L1D}, {"l1-d", PERF_COUNT_HW_CACHE_L1D},
	{"l1d", PERF_COUNT_HW_CACHE_L1D},       {"L1-data", PERF_COUNT_HW_CACHE_L1D},
	{"L1-icache", PERF_COUNT_HW_CACHE_L1I}, {"l1-i", PERF_COUNT_HW_CACHE_L1I},
	{"l1i", PERF_COUNT_HW_CACHE_L1I},       {"L1-instruction", PERF_COUNT_HW_CACHE_L1I},
	{"LLC", PERF_COUNT_HW_CACHE_LL},        {"L2", PERF_COUNT_HW_CACHE_LL},
	{"dTLB", PERF_COUNT_HW_CACHE_DTLB},     {"d-tlb", PERF_COUNT_HW_CACHE_DTLB},
	{"Data-TLB", PERF_COUNT_HW_CACHE_DTLB}, {"iTLB", PERF_COUNT_HW_CACHE_ITLB},
	{"i-tlb", PERF_COUNT_HW_CACHE_ITLB},    {"Instruction-TLB", PERF_COUNT_HW_CACHE_ITLB},
	{"branches", PERF_COUNT_HW_CACHE_BPU},  {"branch", PERF_COUNT_HW_CACHE_BPU},
	{"bpu", PERF_COUNT_HW_CACHE_BPU},       {"btb", PERF_COUNT_HW_CACHE_BPU},
	{"bpc", PERF_COUNT_HW_CACHE_BPU},       {"node", PERF_COUNT_HW_CACHE_NODE},
};

static const struct name cache_ops[] = {
	{"loads", PERF_COUNT_HW_CACHE_OP_READ},
	{"load", PERF_COUNT_HW_CACHE_OP_READ},
	{"read", PERF_COUNT_HW_CACHE_OP_READ},
	{"stores", PERF_COUNT_HW_CACHE_OP_WRITE},
	{"store", PERF_COUNT_HW_CACHE_OP_WRITE},
	{"write", PERF_COUNT_HW_CACHE_OP_WRITE},
	{"prefetches", PERF_COUNT_HW_CACHE_OP_PREFETCH},
	{"prefetch", PERF_COUNT_HW_CACHE_OP_PREFETCH},
	{"speculative-read", PERF_COUNT_HW_CACHE_OP_PREFETCH},
	{"speculative-load", PERF_COUNT_HW_CACHE_OP_PREFETCH},
};

static const struct name cache_results[] = {
	{"refs", PERF_COUNT_HW_CACHE_RESULT_ACCESS}, {"Reference", PERF_COUNT_HW_CACHE_RESULT_ACCESS},
	{"ops", PERF_COUNT_HW_CACHE_RESULT_ACCESS},  {"access", PERF_COUNT_HW_CACHE_RESULT_ACCESS},
	{"misses", PERF_COUNT_HW_CACHE_RESULT_MISS}, {"miss", PERF_COUNT_HW_CACHE_RESULT_MISS},
};

static const struct name *find_exact(const struct name names[], size_t nr, const char *word, size_t len)
{
	for (size_t i = 0; i < nr; i++) {
		if (strlen(names[i].word) == len && memcmp(names[i].word, word, len) == 0)
			return &names[i];
	}
	return NULL;
}

/*
 * The name at the start of *word that ends there or at a '-'; *word moves behind it and its '-'. The longest
 * one counts: "branches-…" is not "branch".
 */
static const struct name *take_part(const struct name names[], size_t nr, const char **word, const char *end)
{
	const struct name *longest = NULL;
	size_t longest_len = 0;

	for (size_t i = 0; i < nr; i++) {
		size_t len = strlen(names[i].word), left = (size_t)(end - *word);

		if (len > left || len <= longest_len || memcmp(names[i].word, *word, len) != 0)
			continue;
		if (len < left && ((*word)[len] != '-' || len + 1 == left))
			continue;
		longest = &names[i];
		longest_len = len;
	}
	if (longest)
		*word += longest_len + (*word + longest_len < end);
	return longest;
}

/* What there is to count: nothing is stored through an instruction cache, instruction TLB or branch unit. */
static bool cache_has_op(uint64_t cache, uint64_t op)
{
	switch (cache) {
	case PERF_COUNT_HW_CACHE_L1I: return op != PERF_COUNT_HW_CACHE_OP_WRITE;
	case PERF_COUNT_HW_CACHE_ITLB:
	case PERF_COUNT_HW_CACHE_BPU: return op == PERF_COUNT_HW_CACHE_OP_READ;
	default: return true;
	}
}

/* CACHE[-OP][-RESULT] or CACHE[-RESULT][-OP]; loads and accesses when not said. */
static bool find_cache(const char *word, size_t len, struct named_event *ret)
{
	const char *end = word + len;
	const struct name *cache = take_part(caches, COUNT_OF(caches), &word, end);

	if (!cache)
		return false;
	const struct name *op = take_part(cache_ops, COUNT_OF(cache_ops), &word, end);
	const struct name *result = take_part(cache_results, COUNT_OF(cache_results), &word, end);
	if (!op)
		op = take_part(cache_ops, COUNT_OF(cache_ops), &word, end);
	if (word != end)
		return false;

	uint64_t op_config = op ? op->config : PERF_COUNT_HW_CACHE_OP_READ;
	uint64_t result_config = result ? result->config : PERF_COUNT_HW_CACHE_RESULT_ACCESS;
	if (!cache_has_op(cache->config, op_config))
		return false;
	*ret = (struct named_event){PERF_TYPE_HW_CACHE, cache->config | op_config << 8 | result_config << 16};
	return true;
}

bool names_find(const char *word, size_t len, struct named_event *ret)
{
	const struct name *name = find_exact(hardware, COUNT_OF(hardware), word, len);

	if (name) {
		*ret = (struct named_event){PERF_TYPE_HARDWARE, name->config};
		return true;
	}
	name = find_exact(software, COUNT_OF(software), word, len);
	if (name) {
		*ret = (struct named_event){PERF_TYPE_SOFTWARE, name->config};
		return true;
	}
	return find_cache(word, len, ret);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool names_find_raw(const char *word, size_t len, struct named_event *ret)
{
	uint64_t config = 0;
	size_t at = 1;

	if (len < 2 || word[0] != 'r')
		return false;
	if (len > 3 && word[1] == '0' && word[2] == 'x')
		at = 3;
	if (len - at > 16)
		return false;
	for (; at < len; at++) {
		int digit = hex_digit(word[at]);
		if (digit < 0)
			return false;
		config = config << 4 | (unsigned)digit;
	}
	*ret = (struct named_event){PERF_TYPE_RAW, config};
	return true;
}

const char *names_of(uint32_t type, uint64_t config)
{
	const struct name *names = type == PERF_TYPE_HARDWARE ? hardware : software;
	size_t nr = type == PERF_TYPE_HARDWARE ? COUNT_OF(hardware) : COUNT_OF(software);

	if (type != PERF_TYPE_HARDWARE && type != PERF_TYPE_SOFTWARE)
		return NULL;
	for (size_t i = 0; i < nr; i++) {
		if (names[i].config == config)
			return names[i].word;
	}
	return NULL;
}

/* The caches in their first spelling, with the spellings of operation and result that `perf list` shows. */
static int visit_caches(names_visitor *visit, void *data)
{
	static const char *const endings[] = {"-loads",        "-load-misses", "-stores",
					      "-store-misses", "-prefetches",  "-prefetch-misses"};
	static const char *const first[] = {"L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"};
	struct named_event event;
	char word[64];
	int err = 0;

	for (size_t i = 0; i < COUNT_OF(first); i++) {
		for (size_t j = 0; j < COUNT_OF(endings) && !err; j++) {
			int len = snprintf(word, sizeof(word), "%s%s", first[i], endings[j]);
			if (names_find(word, (size_t)len, &event))
				err = visit(word, &event, data);
		}
	}
	return err;
}

static int visit_table(const struct name names[], size_t nr, uint32_t type, names_visitor *visit, void *data)
{
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++)
		err = visit(names[i].word, &(struct named_event){type, names[i].config}, data);
	return err;
}

int names_visit(names_visitor *visit, void *data)
{
	int err = visit_table(software, COUNT_OF(software), PERF_TYPE_SOFTWARE, visit, data);

	if (!err)
		err = visit_table(hardware, COUNT_OF(hardware), PERF_TYPE_HARDWARE, visit, data);
	return err ? err : visit_caches(visit, data);
}

static int offer(const char *word, const struct named_event *event, void *suggest)
{
	(void)event;
	suggest_offer(suggest, word);
	return 0;
}

void names_offer(struct suggest *suggest)
{
	names_visit(offer, suggest);
}

/* Case, and '-' for '_', make no difference. */
static void fold(char ret[SUGGEST_WORD_BYTES], const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char c = word[i];
		ret[i] = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
	}
	ret[len] = '\0';
}

void suggest_init(struct suggest *suggest, const char *word, size_t len)
{
	memset(suggest, 0, sizeof(*suggest));
	if (len < sizeof(suggest->word))
		fold(suggest->word, word, len);
}

void suggest_offer(struct suggest *suggest, const char *known)
{
	suggest_offer_as(suggest, known, known);
}

void suggest_offer_as(struct suggest *suggest, const char *known, const char *shown)
{
	char folded[SUGGEST_WORD_BYTES];
	size_t known_len = strlen(known);

	if (!suggest->word[0] || known_len >= sizeof(folded) || strlen(shown) >= sizeof(folded))
		return;
	fold(folded, known, known_len);
	if (!edit_distance_is_close(suggest->word, folded))
		return;

	unsigned distance = edit_distance(suggest->word, folded);
	unsigned at = suggest->nr;
	while (at > 0 && suggest->near[at - 1].distance > distance)
		at--;
	for (unsigned i = 0; i < suggest->nr; i++) {
		if (strcmp(suggest->near[i].word, shown) == 0)
			return;
	}
	if (at == SUGGEST_MOST)
		return;
	if (suggest->nr < SUGGEST_MOST)
		suggest->nr++;
	memmove(&suggest->near[at + 1], &suggest->near[at], (suggest->nr - 1 - at) * sizeof(suggest->near[0]));
	memcpy(suggest->near[at].word, shown, strlen(shown) + 1);
	suggest->near[at].distance = distance;
}

void suggest_format(const struct suggest *suggest, struct buf *ret)
{
	for (unsigned i = 0; i < suggest->nr; i++) {
		buf_put_text(ret, i == 0 ? "; did you mean " : i + 1 == suggest->nr ? " or " : ", ");
		buf_put_text(ret, suggest->near[i].word);
	}
	if (suggest->nr)
		buf_put_text(ret, "?");
}
