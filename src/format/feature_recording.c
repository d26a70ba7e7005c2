/* SPDX-License-Identifier: MIT */
/*
 * The features that tell how and when was recorded: SAMPLE_TIME, COMPRESSED, CLOCK_DATA, and the BPF
 * programs.
 */
#include <errno.h>

#include "base/buf.h"
#include "format/feature.h"

void feature_encode_sample_time(const struct feature_sample_time *times, struct buf *out)
{
	buf_put_u64(out, times->first_ns);
	buf_put_u64(out, times->last_ns);
}

int feature_decode_sample_time(struct span payload, struct feature_sample_time *ret)
{
	struct cursor at = cursor_over(payload);
	struct feature_sample_time times;

	times.first_ns = cursor_u64(&at);
	times.last_ns = cursor_u64(&at);
	if (at.bad)
		return -EBADMSG;
	*ret = times;
	return 0;
}

void feature_encode_compressed(const struct feature_compressed *how, struct buf *out)
{
	buf_put_u32(out, how->version);
	buf_put_u32(out, how->type);
	buf_put_u32(out, how->level);
	buf_put_u32(out, how->ratio);
	buf_put_u32(out, how->mmap_bytes);
}

int feature_decode_compressed(struct span payload, struct feature_compressed *ret)
{
	struct cursor at = cursor_over(payload);
	struct feature_compressed how;

	how.version = cursor_u32(&at);
	how.type = cursor_u32(&at);
	how.level = cursor_u32(&at);
	how.ratio = cursor_u32(&at);
	how.mmap_bytes = cursor_u32(&at);
	if (at.bad)
		return -EBADMSG;
	*ret = how;
	return 0;
}

void feature_encode_clock(const struct feature_clock *clock, struct buf *out)
{
	buf_put_u32(out, clock->version);
	buf_put_u32(out, clock->clockid);
	buf_put_u64(out, clock->wall_ns);
	buf_put_u64(out, clock->clock_ns);
}

int feature_decode_clock(struct span payload, struct feature_clock *ret)
{
	struct cursor at = cursor_over(payload);
	struct feature_clock clock;

	clock.version = cursor_u32(&at);
	clock.clockid = cursor_u32(&at);
	clock.wall_ns = cursor_u64(&at);
	clock.clock_ns = cursor_u64(&at);
	if (at.bad)
		return -EBADMSG;
	*ret = clock;
	return 0;
}

void feature_put_bpf_prog(const struct feature_bpf_prog *prog, struct buf *out)
{
	buf_put_u32(out, (uint32_t)prog->info.len);
	buf_put_u32(out, (uint32_t)prog->data.len);
	buf_put_u64(out, prog->arrays);
	buf_put(out, prog->info.ptr, prog->info.len);
	buf_put(out, prog->data.ptr, prog->data.len);
}

int feature_list_bpf_prog(struct feature_list *list, struct feature_bpf_prog *ret)
{
	struct feature_bpf_prog prog;

	if (!list->left)
		return 0;
	prog.info.len = cursor_u32(&list->at);
	prog.data.len = cursor_u32(&list->at);
	prog.arrays = cursor_u64(&list->at);
	prog.info.ptr = cursor_take(&list->at, prog.info.len);
	prog.data.ptr = cursor_take(&list->at, prog.data.len);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = prog;
	return 1;
}

void feature_put_bpf_btf(const struct feature_bpf_btf *btf, struct buf *out)
{
	buf_put_u32(out, btf->id);
	buf_put_u32(out, (uint32_t)btf->data.len);
	buf_put(out, btf->data.ptr, btf->data.len);
}

int feature_list_bpf_btf(struct feature_list *list, struct feature_bpf_btf *ret)
{
	struct feature_bpf_btf btf;

	if (!list->left)
		return 0;
	btf.id = cursor_u32(&list->at);
	btf.data.len = cursor_u32(&list->at);
	btf.data.ptr = cursor_take(&list->at, btf.data.len);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = btf;
	return 1;
}
