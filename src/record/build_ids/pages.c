/* SPDX-License-Identifier: MIT */
#include "record/build_ids/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 1 << 8 }; /* they are cleared, and most recordings of a moment sample few pages */

static int init(struct page_set *pages, size_t nr_slots, size_t most)
{
	*pages = (struct page_set){
		.slots = calloc(nr_slots, sizeof(*pages->slots)),
		.used = calloc(nr_slots / 2, sizeof(*pages->used)),
		.mask = nr_slots - 1,
		.most = most,
	};
	if (pages->slots && pages->used)
		return 0;
	page_set_fini(pages);
	return -ENOMEM;
}

int page_set_init(struct page_set *pages)
{
	return init(pages, FIRST_SLOTS, PAGE_SET_MAX);
}

int page_set_init_fixed(struct page_set *pages, size_t most)
{
	size_t nr_slots = FIRST_SLOTS;

	while (nr_slots < 2 * (most + 1))
		nr_slots *= 2;
	return init(pages, nr_slots, most);
}

void page_set_fini(struct page_set *pages)
{
	free(pages->slots);
	free(pages->used);
	*pages = (struct page_set){0};
}

void page_set_clear(struct page_set *pages)
{
	for (size_t i = 0; i < pages->nr; i++)
		pages->slots[pages->used[i]].page = 0;
	pages->nr = 0;
}

/* The slot of the pair, or the free one where it belongs. There is always a free one. */
static struct sampled_page *slot_find(const struct page_set *pages, uint64_t page, int32_t pid)
{
	for (size_t i = page_hash(page, pid);; i++) {
		struct sampled_page *slot = &pages->slots[i & pages->mask];

		if (slot->page == 0 || (slot->page == page && slot->pid == pid))
			return slot;
	}
}

static int pages_grow(struct page_set *pages)
{
	struct page_set grown;
	int err = init(&grown, (pages->mask + 1) * 2, pages->most);

	if (err)
		return err;
	for (; grown.nr < pages->nr; grown.nr++) {
		const struct sampled_page *page = &pages->slots[pages->used[grown.nr]];
		struct sampled_page *slot = slot_find(&grown, page->page, page->pid);
		*slot = *page;
		grown.used[grown.nr] = (uint32_t)(slot - grown.slots);
	}
	page_set_fini(pages);
	*pages = grown;
	return 0;
}

int page_set_add_slow(struct page_set *pages, uint64_t page, int32_t pid, struct page_times times)
{
	struct sampled_page *slot = slot_find(pages, page, pid);

	if (slot->page == 0) {
		if (pages->nr == pages->most)
			return -ENOSPC;
		if (2 * (pages->nr + 1) > pages->mask) {
			int err = pages_grow(pages);
			if (err)
				return err;
			slot = slot_find(pages, page, pid);
		}
		*slot = (struct sampled_page){
			.page = page, .pid = pid, .first_ns = times.first_ns, .last_ns = times.last_ns};
		pages->used[pages->nr++] = (uint32_t)(slot - pages->slots);
	}
	pages->recent[page % RECENT_PAGES] = (uint32_t)(slot - pages->slots);
	sampled_page_extend(slot, times);
	return 0;
}

int page_set_add_page(struct page_set *pages, const struct sampled_page *page)
{
	const struct page_times times = {page->first_ns, page->last_ns};
	struct sampled_page *found = page_set_find(pages, page->page, page->pid);

	if (!found)
		return page_set_add_slow(pages, page->page, page->pid, times);
	sampled_page_extend(found, times);
	return 0;
}
