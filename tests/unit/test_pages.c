/* SPDX-License-Identifier: MIT */
/* The set of sampled pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/build_ids/pages.h"

enum { MANY = 20000 };

/* Slots that are passed on the way to each page. */
static size_t count_passed(const struct page_set *pages)
{
	size_t nr = 0;

	for (size_t i = 0; i < pages->nr; i++) {
		const struct sampled_page *page = &pages->slots[pages->used[i]];
		nr += (pages->used[i] - page_hash(page->page, page->pid)) & pages->mask;
	}
	return nr;
}

static void fill(struct page_set *pages, uint64_t (*page_of)(uint64_t number, int32_t *ret_pid))
{
	int32_t pid;

	assert_int_equal(page_set_init(pages), 0);
	for (unsigned round = 0; round < 2; round++)
		for (uint64_t i = 0; i < MANY; i++) {
			const uint64_t page = page_of(i, &pid);
			assert_int_equal(page_set_add(pages, (page - 1) << SAMPLED_PAGE_SHIFT, pid, 5 + round), 0);
		}
	assert_int_equal(pages->nr, MANY);
	assert_true(count_passed(pages) < 2 * MANY);
	for (size_t i = 0; i < pages->nr; i++) {
		const struct sampled_page *page = &pages->slots[pages->used[i]];
		assert_int_equal(page->page, page_of(i, &pid));
		assert_int_equal(page->pid, pid);
		assert_int_equal(page->first_ns, 5);
		assert_int_equal(page->last_ns, 6);
	}
	page_set_fini(pages);
}

static uint64_t row_of_pages(uint64_t number, int32_t *ret_pid)
{
	*ret_pid = 4711;
	return 0x400 + number;
}

static uint64_t page_of_many_processes(uint64_t number, int32_t *ret_pid)
{
	*ret_pid = (int32_t)number;
	return 0x7f0000400;
}

/* With a pid, without a secret: the product of both and 2^64 / golden ratio is the number, of which no bit counts. */
static uint64_t chosen_page(uint64_t number, int32_t *ret_pid)
{
	enum { PID_SHIFT = 40 };
	const uint64_t both = (number + 1) * 0xf1de83e19937733d;

	assert_int_equal(both * 0x9e3779b97f4a7c15, number + 1);
	*ret_pid = (int32_t)(both >> PID_SHIFT);
	return both & ((UINT64_C(1) << PID_SHIFT) - 1);
}

static void test_searches_are_short(void **state)
{
	struct page_set pages;

	(void)state;
	fill(&pages, row_of_pages);
	fill(&pages, page_of_many_processes);
	fill(&pages, chosen_page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_searches_are_short),
	};

	return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
