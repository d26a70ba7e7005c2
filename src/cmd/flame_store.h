/* SPDX-License-Identifier: MIT */
/* flame_store: a page of the recent samples of a service, from the store of a fleet. Main thread. */
#pragma once

#include "cmd/input/store_input.h"
#include "cmd/page/page_tree.h"

struct flame_store_options {
	struct store_input input;
	const char *title, *output;
	enum page_base base;
};

/* 0, or -errno: the reason is printed. */
int flame_store_run(const struct flame_store_options *options);
