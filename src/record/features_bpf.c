/* SPDX-License-Identifier: MIT */
/*
 * BPF_PROG_INFO and BPF_BTF: the programs that are loaded. An empty list says that there are none; what cannot be
 * said truly (programs are loaded, but are not described here yet) is left out.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "record/features_host.h"

/* Source: bpf(2); BPF_PROG_GET_NEXT_ID and BPF_BTF_GET_NEXT_ID of <linux/bpf.h>. ENOENT: none; EPERM: not for us. */
static bool any_id(int cmd)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	return syscall(SYS_bpf, cmd, &attr, sizeof(attr)) == 0;
}

int features_host_bpf_progs(struct buf *out)
{
	buf_put_u32(out, 0);
	return !any_id(BPF_PROG_GET_NEXT_ID);
}

int features_host_bpf_btf(struct buf *out)
{
	buf_put_u32(out, 0);
	return !any_id(BPF_PROG_GET_NEXT_ID);
}
