/* SPDX-License-Identifier: MIT */
#include "store/clickhouse.h"

#include <stddef.h>

const struct export_format *const clickhouse_format = NULL;
