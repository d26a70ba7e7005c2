/* SPDX-License-Identifier: MIT */
/* Pages of call chains of which blocks come again and again: those of each address, with its first and last time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>
#include <linux/perf_event.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "perfdata/attr.h"
#include "perfdata/ledger.h"
#include "record/build_ids/batch_pages.h"
#include "record/build_ids/chain_blocks.h"
#include "record/build_ids/scan.h"
#include "stream/stage.h"

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

static const struct event_desc event_without_chains = {
	.attr = {.size = PERF_ATTR_SIZE_VER0,
		 .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
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
static void add_chain(struct page_set *pages, const struct chain_sample *sample)
{
	int32_t pid = sample->pid;
	bool known = false;

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

static void add_ip(struct page_set *pages, const struct chain_sample *sample)
{
	int32_t pid = sample->header.misc == PERF_RECORD_MISC_KERNEL ? HISTORY_KERNEL_PID : sample->pid;

	if (sample->header.misc != PERF_RECORD_MISC_GUEST_USER)
		assert_int_equal(page_set_add(pages, sample->ip, pid, sample->time_ns), 0);
}

static void add_all(struct page_set *pages, const struct chain_sample *sample)
{
	add_ip(pages, sample);
	add_chain(pages, sample);
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

/* All at once, as they lie in a batch, and one by one what is not looked at that way. */
static void scan_records(struct scan *scan, const uint8_t *records, size_t len)
{
	struct perf_event_header header;
	struct sample_batch run;

	for (size_t at = 0; at < len;) {
		scan_samples(scan, (struct span){records + at, len - at}, UINT64_MAX, NULL, &run);
		sample_totals_add(&scan->totals, run.nr, run.first_ns, run.last_ns);
		at += run.bytes;
		if (at == len)
			break;
		memcpy(&header, records + at, sizeof(header));
		assert_int_equal(scan_sample(scan, records + at, header.size, header.misc), 0);
		at += header.size;
	}
}

/* Some are of a guest, or have no time. */
static size_t put_samples(uint8_t *records, struct page_set *expected, uint64_t nr_pages, bool has_chains)
{
	struct chain_sample sample;
	size_t len = 0;

	for (uint64_t i = 0; i < NR_SAMPLES; i++, len += sample.header.size) {
		make_sample(&sample, i, nr_pages);
		if (!random_below(10))
			sample.time_ns = 0;
		if (!random_below(10))
			sample.header.misc = PERF_RECORD_MISC_GUEST_USER;
		if (has_chains)
			add_all(expected, &sample);
		else
			add_ip(expected, &sample);
		memcpy(records + len, &sample, sample.header.size);
	}
	return len;
}

static void samples_of_a_batch_have_the_same_pages(void **state)
{
	uint8_t *records = malloc(NR_SAMPLES * sizeof(struct chain_sample));
	struct page_set expected;
	struct scan scan;

	(void)state;
	assert_non_null(records);
	for (unsigned round = 0; round < 4; round++) {
		const bool has_chains = round % 2;
		random_state = round + 1;
		assert_int_equal(scan_init(&scan, has_chains ? &event : &event_without_chains, 1), 0);
		assert_int_equal(page_set_init(&scan.pages), 0);
		assert_int_equal(page_set_init(&expected), 0);
		scan_records(&scan, records, put_samples(records, &expected, round < 2 ? 60 : 30000, has_chains));
		assert_int_equal(scan.totals.nr, NR_SAMPLES);
		assert_false(scan.broken);
		assert_int_equal(scan_flush_chains(&scan), 0);
		assert_same_pages(&scan.pages, &expected);
		page_set_fini(&expected);
		scan_fini(&scan);
	}
	free(records);
}

/* A file that is read back, with another record behind them. */
static void samples_of_a_file_have_the_same_pages(void **state)
{
	uint8_t *records = malloc(NR_SAMPLES * sizeof(struct chain_sample));
	const struct perf_event_header mark = {.type = PERF_RECORD_COMM, .size = 64};
	struct loss_times losses;
	struct page_set expected;
	struct scan scan;

	(void)state;
	assert_non_null(records);
	for (unsigned round = 0; round < 2; round++) {
		const struct event_desc *of = round ? &event : &event_without_chains;
		AUTO_FD int fd = memfd_create("records", MFD_CLOEXEC);
		random_state = round + 1;
		assert_int_equal(scan_init(&scan, of, 1), 0);
		assert_int_equal(page_set_init(&scan.pages), 0);
		assert_int_equal(page_set_init(&expected), 0);
		assert_int_equal(loss_times_init(&losses, of, 1), 0);
		scan.losses = &losses;
		size_t len = put_samples(records, &expected, 3000, round);
		memset(records + len, 0, mark.size);
		memcpy(records + len, &mark, sizeof(mark));
		len += mark.size;
		assert_int_equal(fd_pwrite(fd, records, len, 0), 0);
		assert_int_equal(scan_file(&scan, fd, 0, len), 0);
		assert_int_equal(scan.totals.nr, NR_SAMPLES);
		assert_int_equal(scan.place, len);
		assert_int_equal(scan_flush_chains(&scan), 0);
		assert_same_pages(&scan.pages, &expected);
		loss_times_fini(&losses);
		page_set_fini(&expected);
		scan_fini(&scan);
	}
	free(records);
}

/* Before its turn, by any thread; not when it has other records. */
static void a_batch_of_samples_is_examined(void **state)
{
	enum { NR_IN_BATCH = 500 };
	struct chain_sample *room = calloc(2 * NR_IN_BATCH, sizeof(*room));
	struct batch batch = {.records = (uint8_t *)room, .room = 2 * NR_IN_BATCH * sizeof(*room)};
	struct page_set expected, found;
	struct scan scan;
	struct chain_sample sample;

	(void)state;
	assert_non_null(room);
	random_state = 3;
	assert_int_equal(scan_init(&scan, &event, 1), 0);
	assert_int_equal(page_set_init(&expected), 0);
	assert_int_equal(page_set_init(&found), 0);
	for (uint64_t i = 0; i < NR_IN_BATCH; i++, batch.len += sample.header.size) {
		make_sample(&sample, i, 40);
		if (i % 100 == 50)
			sample.header.misc = PERF_RECORD_MISC_GUEST_USER;
		add_all(&expected, &sample);
		memcpy(batch.records + batch.len, &sample, sample.header.size);
	}
	batch_pages_find(&scan, &batch);
	const struct batch_pages *pages = batch.examined;
	assert_non_null(pages);
	assert_int_equal(pages->samples.nr, NR_IN_BATCH);
	assert_int_equal(pages->samples.bytes, batch.len);
	assert_int_equal(pages->samples.last, batch.len - sample.header.size);
	for (size_t i = 0; i < pages->nr; i++)
		assert_int_equal(page_set_add_page(&found, &pages->list[i]), 0);
	assert_same_pages(&found, &expected);
	sample.header.type = PERF_RECORD_COMM;
	memcpy(batch.records + batch.len, &sample, sample.header.size);
	batch.len += sample.header.size;
	batch_pages_find(&scan, &batch);
	assert_null(batch.examined);
	page_set_fini(&expected);
	page_set_fini(&found);
	scan_fini(&scan);
	free(room);
}

/* Wherever it is: each call may be of another object. */
static void a_chain_that_differs_in_one_word_is_another(void **state)
{
	struct chain_sample samples[2];
	struct page_set expected;
	struct scan scan;

	(void)state;
	for (size_t changed = 0; changed < MOST_WORDS; changed++) {
		memset(samples, 0, sizeof(samples));
		assert_int_equal(scan_init(&scan, &event, 1), 0);
		assert_int_equal(page_set_init(&scan.pages), 0);
		assert_int_equal(page_set_init(&expected), 0);
		for (size_t i = 0; i < 2; i++) {
			struct chain_sample *sample = &samples[i];
			sample->header =
				(struct perf_event_header){PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(*sample)};
			sample->pid = sample->tid = 7;
			sample->time_ns = 1 + i;
			sample->nr = MOST_WORDS;
			for (size_t k = 0; k < MOST_WORDS; k++)
				sample->words[k] = k ? (k + 1) << 20 : (uint64_t)PERF_CONTEXT_USER;
			sample->ip = sample->words[1];
			if (i)
				sample->words[changed] = changed ? 1u << 30 : (uint64_t)PERF_CONTEXT_KERNEL;
			add_all(&expected, sample);
		}
		scan_records(&scan, (const uint8_t *)samples, sizeof(samples));
		assert_int_equal(scan_flush_chains(&scan), 0);
		assert_same_pages(&scan.pages, &expected);
		page_set_fini(&expected);
		scan_fini(&scan);
	}
}

/* A page of another process, and one of an emptied set, are not taken for the one that came last. */
static void pages_that_came_last_are_distinguished(void **state)
{
	struct page_set pages;

	(void)state;
	assert_int_equal(page_set_init(&pages), 0);
	for (uint64_t page = 0; page < 4; page++)
		for (int32_t pid = 1; pid <= 3; pid++)
			for (uint64_t again = 1; again <= 2; again++)
				assert_int_equal(page_set_add(&pages, (page * RECENT_PAGES) << SAMPLED_PAGE_SHIFT, pid,
							      10 * again),
						 0);
	assert_int_equal(pages.nr, 12);
	for (size_t i = 0; i < pages.nr; i++) {
		assert_int_equal(pages.slots[pages.used[i]].first_ns, 10);
		assert_int_equal(pages.slots[pages.used[i]].last_ns, 20);
	}
	page_set_clear(&pages);
	assert_int_equal(page_set_add(&pages, 0, 3, 30), 0);
	assert_int_equal(pages.nr, 1);
	assert_int_equal(pages.slots[pages.used[0]].first_ns, 30);
	for (uint64_t page = 0; page < 10000; page++) /* it grows */
		assert_int_equal(page_set_add(&pages, page << SAMPLED_PAGE_SHIFT, 3, 40), 0);
	assert_int_equal(pages.nr, 10000);
	page_set_fini(&pages);
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

/* As observe_records(): 0, or the first error. */
static int scan_as_recorders(struct scan *scan, const uint8_t *records, size_t len)
{
	struct perf_event_header header;
	struct sample_batch run;
	int err = 0;

	for (size_t at = 0; at < len && !err;) {
		scan_samples(scan, (struct span){records + at, len - at}, UINT64_MAX, NULL, &run);
		at += run.bytes;
		if (at == len)
			break;
		memcpy(&header, records + at, sizeof(header));
		err = scan_sample(scan, records + at, header.size, header.misc);
		at += header.size;
	}
	return err ? err : scan_flush_chains(scan);
}

/* The pages of a block that others replace when the set is full are missing: it is told. */
static void no_room_for_a_replaced_block_is_reported(void **state)
{
	enum { NR_PAGES = 8 };
	struct chain_sample samples[NR_PAGES + 2] = {0};
	struct chain_blocks blocks;
	struct scan scan;

	(void)state;
	for (uint64_t i = 0; i < NR_PAGES + 2; i++) {
		struct chain_sample *sample = &samples[i];
		sample->header = (struct perf_event_header){PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(*sample)};
		sample->pid = sample->tid = 7;
		sample->time_ns = 1 + i;
		sample->ip = 0x10000 + 0x1000 * (i % NR_PAGES);
		sample->nr = i < NR_PAGES ? 2 : 10;
		sample->words[0] = (uint64_t)PERF_CONTEXT_USER;
		sample->words[1] = sample->ip;
		for (size_t k = 2; k < 10; k++)
			sample->words[k] = 0x10000 + 8 * k;
	}
	struct chain_sample *one = &samples[NR_PAGES], *other = one + 1;
	one->words[5] = 0x7000000; /* of no page before */
	const uint64_t key = chain_key(7, CHAIN_TASK);
	while (chain_block_slot(&blocks, (const uint8_t *)&one->words[2], key) !=
	       chain_block_slot(&blocks, (const uint8_t *)&other->words[2], key))
		other->words[9] = 0x10000 + (other->words[9] + 8) % 0x8000;
	assert_int_equal(scan_init(&scan, &event, 1), 0);
	assert_int_equal(page_set_init_fixed(&scan.pages, NR_PAGES), 0);
	scan.while_recording = true;
	assert_int_equal(scan_as_recorders(&scan, (const uint8_t *)samples, sizeof(samples)), -ENOSPC);
	scan_fini(&scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_blocks_stay),
		cmocka_unit_test(many_blocks_take_turns),
		cmocka_unit_test(samples_of_a_batch_have_the_same_pages),
		cmocka_unit_test(samples_of_a_file_have_the_same_pages),
		cmocka_unit_test(a_batch_of_samples_is_examined),
		cmocka_unit_test(a_chain_that_differs_in_one_word_is_another),
		cmocka_unit_test(pages_that_came_last_are_distinguished),
		cmocka_unit_test(no_room_for_pages_is_reported),
		cmocka_unit_test(no_room_for_a_replaced_block_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
