/* SPDX-License-Identifier: MIT */
/* recorder_cost: what recording itself used, as far as it got, for the ledger. */
#pragma once

#include <stdint.h>

struct data_files;
struct ledger;
struct readers;

/* After the readers were joined. 0 or -ENOMEM. */
int recorder_cost_add(const struct readers *readers, const struct data_files *files, uint64_t keeper_cpu_ns,
		      struct ledger *ledger);
