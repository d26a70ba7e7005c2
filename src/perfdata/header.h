/* SPDX-License-Identifier: MIT */
/* header: the front of a perf.data file: header, ids and attrs; both directions. Pure: memory in, memory out. */
#pragma once

#include <stdbool.h>

#include "base/span.h"
#include "perfdata/attr.h"
#include "perfdata/layout.h"

struct buf;
struct diag;

/*
 * Appends the bytes before the data of a file: header, ids of every event, attrs. data.size is 0 and no feature bit
 * is set, as it must be until the file is finished. *ret is the header that was written (data.offset is where data
 * starts); rewrite it at offset 0 at the end. 0 or -ENOMEM.
 */
int header_encode(const struct event_desc *events, size_t nr_events, struct buf *out, struct file_header *ret);

/* Appends the 16 bytes that start a pipe. */
void header_encode_pipe(struct buf *out);

/*
 * Reads a header from the first bytes of a file (at least 104 of them, if the file has so many). *ret_pipe: it is the
 * pipe layout, which sets only magic and size in *ret. -EBADMSG with the reason: not a perf.data file, the other byte
 * order, or an invalid size.
 */
int header_decode(struct span bytes, struct file_header *ret, bool *ret_pipe, struct diag *reterr);
