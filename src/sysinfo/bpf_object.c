/* SPDX-License-Identifier: MIT */
#include "sysinfo/bpf_object.h"

#include <errno.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "sysinfo/privileges.h"

static int bpf_call(int command, union bpf_attr *attr)
{
	bool borrowed = privileges_borrow_admin();
	long result = syscall(SYS_bpf, command, attr, sizeof(*attr));
	int err = result < 0 ? -errno : 0;

	if (borrowed)
		privileges_return_admin();
	return err ? err : (int)result;
}

int bpf_object_next_program(uint32_t *id)
{
	union bpf_attr attr = {.start_id = *id};
	int err = bpf_call(BPF_PROG_GET_NEXT_ID, &attr);

	if (!err)
		*id = attr.next_id;
	return err;
}

int bpf_object_open_program(uint32_t id)
{
	union bpf_attr attr = {.prog_id = id};

	return bpf_call(BPF_PROG_GET_FD_BY_ID, &attr);
}

int bpf_object_info(int fd, void *info, size_t bytes)
{
	union bpf_attr attr = {
		.info = {.bpf_fd = (uint32_t)fd, .info_len = (uint32_t)bytes, .info = (uint64_t)(uintptr_t)info},
	};
	int err = bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr);

	return err ? err : (int)attr.info.info_len;
}

int bpf_object_read_btf(uint32_t id, struct buf *ret)
{
	union bpf_attr attr = {.btf_id = id};
	AUTO_FD int fd = bpf_call(BPF_BTF_GET_FD_BY_ID, &attr);
	struct bpf_btf_info info = {0};

	if (fd < 0)
		return fd;
	int err = bpf_object_info(fd, &info, sizeof(info));
	uint32_t bytes = info.btf_size;
	if (err < 0 || bytes > BPF_OBJECT_MAX_BYTES)
		return err < 0 ? err : -EFBIG;
	info = (struct bpf_btf_info){.btf = (uint64_t)(uintptr_t)buf_extend(ret, bytes), .btf_size = bytes};
	if (ret->failed)
		return -ENOMEM;
	err = bpf_object_info(fd, &info, sizeof(info));
	if (err < 0 || info.btf_size != bytes)
		return err < 0 ? err : -EAGAIN;
	return 0;
}
