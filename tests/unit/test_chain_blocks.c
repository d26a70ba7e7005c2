/* SPDX-License-Identifier: MIT */
/* Pages of call chains of which blocks come again and again: those of each address, with its first and last time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <linux/perf_event.h>

#include "perfdata/attr.h"
#include "record/build_ids/chain_blocks.h"
#include "record/build_ids/scan.h"

enum { MOST_WORDS = 40, NR_SAMPLES = 30000, NR_TASKS = 3 };

struct chain_sample {
	struct perf_event_header header;
	uint64_t ip;
	int32_t pid, tid;
	uint64_t time_ns, nr, words[MOST_WORDS];
};

static const struct event_desc event = {
	.attr = {.size = PERF_ATTR_SIZE_VER0,
		 .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN,
		 .sample_id_all = 1},
};

static uint64_t random_state;

static uint64_t random_below(uint64_t end)
{
	random_state = random_state * 6364136223846793005 + 1442695040888963407;
	return (random_state >> 33) % end;
}

/* Some calls, most often the same outer ones; markers anywhere, and words that are no addresses. */
static void make_sample(struct chain_sample *sample, uint64_t number, uint64_t nr_pages)
{
	static const uint64_t markers[] = {(uint64_t)PERF_CONTEXT_USER, (uint64_t)PERF_CONTEXT_KERNEL,
					   (uint64_t)PERF_CONTEXT_GUEST, 0};

	memset(sample, 0, sizeof(*sample));
	sample->pid = sample->tid = 100 + (int32_t)random_below(NR_TASKS);
	sample->nr = random_below(MOST_WORDS + 1);
	sample->time_ns = 1000 + number - (number > 50 ? random_below(50) : 0);
	for (uint64_t i = 0; i < sample->nr; i++)
		sample->words[i] = 0x10000 + (random_below(20) ? sample->nr - i : random_below(nr_pages)) * 4096;
	for (unsigned i = 0; i < 3 && sample->nr; i++)
		sample->words[i ? random_below(sample->nr) : 0] = markers[random_below(4)];
	sample->ip = sample->nr ? sample->words[sample->nr / 2] : 4096;
	sample->header = (struct perf_event_header){
		.type = PERF_RECORD_SAMPLE,
		.misc = random_below(2) ? PERF_RECORD_MISC_USER : PERF_RECORD_MISC_KERNEL,
		.size = (uint16_t)(offsetof(struct chain_sample, words) + sample->nr * sizeof(sample->words[0])),
	};
}

/* Address by address. */
static void add_all(struct page_set *pages, const struct chain_sample *sample)
{
	bool known = false;
	int32_t pid = sample->header.misc == PERF_RECORD_MISC_KERNEL ? HISTORY_KERNEL_PID : sample->pid;

	assert_int_equal(page_set_add(pages, sample->ip, pid, sample->time_ns), 0);
	for (uint64_t i = 0; i < sample->nr; i++) {
		uint64_t word = sample->words[i];
		if (word >= (uint64_t)PERF_CONTEXT_MAX) {
			known = word == (uint64_t)PERF_CONTEXT_USER || word == (uint64_t)PERF_CONTEXT_KERNEL;
			pid = word == (uint64_t)PERF_CONTEXT_KERNEL ? HISTORY_KERNEL_PID : sample->pid;
		} else if (known && word) {
			assert_int_equal(page_set_add(pages, word, pid, sample->time_ns), 0);
		}
	}
}

static int by_page(const void *a, const void *b)
{
	const struct sampled_page *one = a, *other = b;

	return one->page != other->page ? (one->page > other->page) - (one->page < other->page)
					: (one->pid > other->pid) - (one->pid < other->pid);
}

static struct sampled_page *sorted(const struct page_set *pages)
{
	struct sampled_page *list = malloc(pages->nr * sizeof(*list));

	assert_non_null(list);
	for (size_t i = 0; i < pages->nr; i++)
		list[i] = pages->slots[pages->used[i]];
	qsort(list, pages->nr, sizeof(*list), by_page);
	return list;
}

static void assert_same_pages(const struct page_set *is, const struct page_set *expected)
{
	struct sampled_page *some = sorted(is), *others = sorted(expected);

	assert_int_equal(is->nr, expected->nr);
	for (size_t i = 0; i < is->nr; i++) {
		assert_int_equal(some[i].page, others[i].page);
		assert_int_equal(some[i].pid, others[i].pid);
		assert_int_equal(some[i].first_ns, others[i].first_ns);
		assert_int_equal(some[i].last_ns, others[i].last_ns);
	}
	free(some);
	free(others);
}

static void scan_and_compare(uint64_t nr_pages)
{
	struct page_set expected;
	struct chain_sample sample;
	struct scan scan;

	random_state = nr_pages;
	assert_int_equal(scan_init(&scan, &event, 1), 0);
	assert_int_equal(page_set_init(&scan.pages), 0);
	assert_int_equal(page_set_init(&expected), 0);
	for (uint64_t i = 0; i < NR_SAMPLES; i++) {
		make_sample(&sample, i, nr_pages);
		add_all(&expected, &sample);
		assert_int_equal(scan_sample(&scan, (const uint8_t *)&sample, sample.header.size, sample.header.misc),
				 0);
	}
	assert_false(scan.broken);
	assert_int_equal(scan_flush_chains(&scan), 0);
	assert_same_pages(&scan.pages, &expected);
	assert_int_equal(scan_flush_chains(&scan), 0); /* nothing is left */
	assert_same_pages(&scan.pages, &expected);
	page_set_fini(&expected);
	scan_fini(&scan);
}

static void few_blocks_stay(void **state)
{
	(void)state;
	scan_and_compare(60);
}

static void many_blocks_take_turns(void **state)
{
	(void)state;
	scan_and_compare(100000);
}

/* A set of fixed size is full: who adds is told, at the latest in the end. */
static void no_room_for_pages_is_reported(void **state)
{
	struct chain_sample sample;
	struct scan scan;
	int err = 0;

	(void)state;
	random_state = 1;
	assert_int_equal(scan_init(&scan, &event, 1), 0);
	assert_int_equal(page_set_init_fixed(&scan.pages, 8), 0);
	scan.while_recording = true;
	make_sample(&sample, 0, 60);
	sample.nr = 20;
	sample.header.size = (uint16_t)(offsetof(struct chain_sample, words) + sample.nr * sizeof(sample.words[0]));
	for (uint64_t i = 0; i < sample.nr; i++)
		sample.words[i] = i ? i * 4096 : (uint64_t)PERF_CONTEXT_USER;
	err = scan_sample(&scan, (const uint8_t *)&sample, sample.header.size, sample.header.misc);
	if (!err)
		err = scan_flush_chains(&scan);
	assert_int_equal(err, -ENOSPC);
	scan_fini(&scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_blocks_stay),
		cmocka_unit_test(many_blocks_take_turns),
		cmocka_unit_test(no_room_for_pages_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
