/* SPDX-License-Identifier: MIT */
/* formats: the formats that there are, each in a file of its name. Private to this room. */
#pragma once

#include "export/export.h"

extern const struct export_format export_folded;
extern const struct export_format export_speedscope;
extern const struct export_format export_firefox;
extern const struct export_format export_pprof, export_perfetto, export_otlp; /* with protobuf-c */
extern const struct export_format export_sqlite;                              /* with libsqlite3 */
