/* SPDX-License-Identifier: MIT */
#include "cmd/flame_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "base/pool.h"
#include "cmd/page/page.h"

#define NS_PER_S UINT64_C(1000000000)

enum {
	MOST_HOSTS = 100,
	STEPS = 360 /* of the time that is asked for */,
	SHORTEST_STEP_S = 10 /* as the store has it */
};

struct collecting {
	const struct flame_store_options *options;
	struct page_tree tree;
	struct page_series *series; /* heap; an event each */
	uint32_t nr_series, series_room;
	const char **hosts; /* heap; of the pool */
	uint32_t nr_hosts, hosts_room, nr_in_store;
	struct pool pool;
	uint32_t step_s;
	uint32_t last_step;
	uint64_t nr_samples;
};

/* Few: a loop finds them. The number of the event's series, or -ENOMEM. */
static int64_t find_series(struct collecting *collecting, const char *event)
{
	for (uint32_t i = 0; i < collecting->nr_series; i++)
		if (strcmp(collecting->series[i].name, event) == 0)
			return i;
	const char *name = pool_text(&collecting->pool, event, strlen(event));
	if (!name || array_room(collecting->series, collecting->nr_series, collecting->series_room))
		return -ENOMEM;
	collecting->series[collecting->nr_series] = (struct page_series){.name = name, .baseline = -1};
	return collecting->nr_series++;
}

/* Rows of a host come together, mostly: the last ones are looked at first. */
static int64_t find_host(struct collecting *collecting, const char *host)
{
	for (uint32_t i = collecting->nr_hosts; i-- > 0;)
		if (strcmp(collecting->hosts[i], host) == 0)
			return i;
	const char *name = pool_text(&collecting->pool, host, strlen(host));
	if (!name || array_room(collecting->hosts, collecting->nr_hosts, collecting->hosts_room))
		return -ENOMEM;
	collecting->hosts[collecting->nr_hosts] = name;
	return collecting->nr_hosts++;
}

static int take_row(void *ctx, const struct store_row *row)
{
	struct collecting *collecting = ctx;
	int64_t series = find_series(collecting, row->event), host = find_host(collecting, row->host);
	if (series < 0 || host < 0)
		return -ENOMEM;
	const struct page_row out = {
		.base = row->comm,
		.thread = collecting->hosts[host],
		.number = (uint32_t)host + 1,
		.frames = row->frames,
		.nr_frames = row->nr_frames,
		.nr_kernel = row->nr_kernel,
		.series = (uint32_t)series,
		.bin = row->step,
		.period = row->value,
		.nr = row->samples,
	};
	collecting->nr_samples += row->samples;
	if (row->step > collecting->last_step)
		collecting->last_step = row->step;
	return page_tree_add_row(&collecting->tree, &out);
}

static int write_page(struct collecting *collecting, struct diag *reterr)
{
	const struct flame_store_options *options = collecting->options;
	const struct page_limits limits = {.nodes = PAGE_MOST_NODES, .threads = PAGE_MOST_THREADS};
	const struct page_times times = {
		.start_ns = 0,
		.end_ns = (collecting->last_step + UINT64_C(1)) * collecting->step_s * NS_PER_S,
		.bin_ns = collecting->step_s * NS_PER_S,
	};
	const struct page_file file = {.name = options->input.store.url, .times = &times};
	AUTO_FREE char *title = NULL;

	if (asprintf(&title, "%s: %" PRIu64 " samples of %u hosts, %" PRIu32 " s", options->input.store.service,
		     collecting->nr_samples, collecting->nr_in_store, store_input_since_s(&options->input)) < 0)
		title = NULL;
	int err = page_tree_finish(&collecting->tree, &limits);
	const struct page page = {
		.title = options->title ? options->title : title,
		.tree = &collecting->tree,
		.series = collecting->series,
		.nr_series = collecting->nr_series,
		.files = &file,
		.nr_files = 1,
	};
	if (err || !title)
		return diag_set(reterr, -ENOMEM, "out of memory");
	return page_write(&page, options->output, reterr);
}

int flame_store_run(const struct flame_store_options *options)
{
	uint32_t since_s = store_input_since_s(&options->input);
	struct collecting collecting = {.options = options};
	struct diag diag = {0};

	collecting.step_s = (since_s / STEPS / SHORTEST_STEP_S + 1) * SHORTEST_STEP_S;
	collecting.tree.base = options->base == PAGE_BASE_NONE ? PAGE_BASE_NONE : PAGE_BASE_COMMAND;
	const struct store_question question = {
		.service = options->input.store.service,
		.since_s = since_s,
		.step_s = collecting.step_s,
		.most_hosts = MOST_HOSTS,
		.ret_nr_hosts = &collecting.nr_in_store,
		.row = take_row,
		.ctx = &collecting,
	};
	int err = store_read(&options->input.store, &question, &diag);
	if (!err && !collecting.nr_samples)
		err = diag_set(&diag, -ENOENT, "%s: there are no samples of service %s in the last %" PRIu32 " s",
			       options->input.store.url, options->input.store.service, since_s);
	if (!err)
		err = write_page(&collecting, &diag);
	if (err)
		log_error("%s", diag.text);
	page_tree_fini(&collecting.tree);
	pool_fini(&collecting.pool);
	free(collecting.series);
	free(collecting.hosts);
	return err;
}
