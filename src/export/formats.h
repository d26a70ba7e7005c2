/* SPDX-License-Identifier: MIT */
/* formats: the formats that there are, each in a file of its name, and what they share. Private to this room. */
#pragma once

#include "export/export.h"

struct buf;

extern const struct export_format export_folded;
extern const struct export_format export_speedscope;
extern const struct export_format export_firefox;
extern const struct export_format export_pprof, export_perfetto, export_otlp; /* with protobuf-c */
extern const struct export_format export_sqlite;                              /* with libsqlite3 */

/* What readers choose the periods of an event by: of several that count a time the first has its usual name. */
const char *export_value_name(const struct export_profile *profile, size_t index);

/* And its counts: those of the first event are what readers call "samples". */
void export_count_name(const struct export_profile *profile, size_t index, struct buf *ret);
