/* SPDX-License-Identifier: MIT */
/* header_bpf: the lines of header_text that name the BPF programs. Each appends them: 0, or -EBADMSG. */
#pragma once

#include "base/span.h"

struct buf;
struct session;

int header_print_bpf_progs(struct session *session, struct span payload, struct buf *out);
int header_print_bpf_btf(struct session *session, struct span payload, struct buf *out);
