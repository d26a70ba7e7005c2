/* SPDX-License-Identifier: MIT */
/* For a build without libzstd. */
#include <errno.h>

#include "compress/zstd.h"

bool zstd_available(void)
{
	return false;
}

int zstd_packer_new(struct zstd_packer **ret)
{
	(void)ret;
	return -ENOTSUP;
}

void zstd_packer_free(struct zstd_packer *packer)
{
	(void)packer;
}

size_t zstd_bound(size_t bytes)
{
	return bytes;
}

int64_t zstd_pack(struct zstd_packer *packer, const struct zstd_pack_params *params, struct span in, void *out,
		  size_t room)
{
	(void)packer, (void)params, (void)in, (void)out, (void)room;
	return -ENOTSUP;
}

void zstd_put_hash(struct span frame, void *out)
{
	(void)frame, (void)out;
}

int zstd_check_hash(struct span frame)
{
	(void)frame;
	return 0;
}

bool zstd_frame_start(struct span bytes, struct zstd_frame *ret)
{
	(void)bytes, (void)ret;
	return false;
}

bool zstd_block(struct span bytes, size_t *ret_len, bool *ret_last)
{
	(void)bytes, (void)ret_len, (void)ret_last;
	return false;
}

int zstd_unpacker_new(struct zstd_unpacker **ret)
{
	(void)ret;
	return -ENOTSUP;
}

void zstd_unpacker_free(struct zstd_unpacker *unpacker)
{
	(void)unpacker;
}

int64_t zstd_unpack_frame(struct zstd_unpacker *unpacker, struct span frame, void *out, size_t room)
{
	(void)unpacker, (void)frame, (void)out, (void)room;
	return -ENOTSUP;
}

void zstd_unpack_reset(struct zstd_unpacker *unpacker)
{
	(void)unpacker;
}

int64_t zstd_unpack(struct zstd_unpacker *unpacker, struct span *in, void *out, size_t room)
{
	(void)unpacker, (void)in, (void)out, (void)room;
	return -ENOTSUP;
}
