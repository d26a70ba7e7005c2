/* SPDX-License-Identifier: MIT */
#include "record/hit_pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 1 << 12 };

int hit_pages_init(struct hit_pages *pages)
{
	*pages = (struct hit_pages){.slots = calloc(FIRST_SLOTS, sizeof(*pages->slots)),
				    .mask = FIRST_SLOTS - 1,
				    .most = HIT_PAGES_MAX};
	return pages->slots ? 0 : -ENOMEM;
}

int hit_pages_init_fixed(struct hit_pages *pages, size_t most)
{
	size_t nr_slots = FIRST_SLOTS;

	while (nr_slots < 2 * (most + 1))
		nr_slots *= 2;
	*pages = (struct hit_pages){
		.slots = calloc(nr_slots, sizeof(*pages->slots)),
		.mask = nr_slots - 1,
		.most = most,
	};
	return pages->slots ? 0 : -ENOMEM;
}

void hit_pages_fini(struct hit_pages *pages)
{
	free(pages->slots);
	*pages = (struct hit_pages){0};
}

void hit_pages_clear(struct hit_pages *pages)
{
	memset(pages->slots, 0, (pages->mask + 1) * sizeof(*pages->slots));
	pages->nr = 0;
}

/* The slot of the pair, or the free one where it belongs. There is always a free one. */
static struct hit_page *slot_find(const struct hit_pages *pages, uint64_t page, int32_t pid)
{
	for (size_t i = hit_page_hash(page, pid);; i++) {
		struct hit_page *slot = &pages->slots[i & pages->mask];

		if (slot->page == 0 || (slot->page == page && slot->pid == pid))
			return slot;
	}
}

static int pages_grow(struct hit_pages *pages)
{
	size_t nr_slots = (pages->mask + 1) * 2;
	struct hit_pages grown = {.slots = calloc(nr_slots, sizeof(*grown.slots)), .mask = nr_slots - 1};

	if (!grown.slots)
		return -ENOMEM;
	for (size_t i = 0; i <= pages->mask; i++) {
		const struct hit_page *slot = &pages->slots[i];
		if (slot->page)
			*slot_find(&grown, slot->page, slot->pid) = *slot;
	}
	grown.nr = pages->nr;
	grown.most = pages->most;
	free(pages->slots);
	*pages = grown;
	return 0;
}

int hit_pages_add_slow(struct hit_pages *pages, uint64_t page, int32_t pid, uint64_t time_ns)
{
	struct hit_page *slot = slot_find(pages, page, pid);

	if (slot->page == 0) {
		if (pages->nr == pages->most)
			return -ENOSPC;
		if (2 * (pages->nr + 1) > pages->mask) {
			int err = pages_grow(pages);
			if (err)
				return err;
			slot = slot_find(pages, page, pid);
		}
		*slot = (struct hit_page){.page = page, .pid = pid, .first_ns = time_ns, .last_ns = time_ns};
		pages->nr++;
	}
	hit_page_reach(slot, time_ns);
	return 0;
}
