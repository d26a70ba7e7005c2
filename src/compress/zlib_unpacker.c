/* SPDX-License-Identifier: MIT */
#include "compress/zlib_unpacker.h"

#include <pthread.h>
#include <stdlib.h>
#include <zlib.h>

#include "config.h"
#ifdef HAVE_ISAL
#include <isa-l/igzip_lib.h>
#endif
#include "base/cleanup.h"
#include "sysinfo/library.h"

struct zlib_unpacker {
	struct inflate_state *isal; /* NULL: zlib does it */
	z_stream zlib;
	bool ended; /* so was seen, with the checksum */
};

#ifdef HAVE_ISAL
static struct {
	__typeof__(isal_inflate_init) *init;
	__typeof__(isal_inflate) *inflate;
} isal;

static bool isal_loaded;

static void load_isal(void)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(isal_inflate_init, &isal.init),
		LIBRARY_FUNCTION(isal_inflate, &isal.inflate),
	};

	isal_loaded = library_load("libisal.so.2", functions, sizeof(functions) / sizeof(functions[0]));
}

/* NULL: it is not there, or no memory. */
static struct inflate_state *isal_open(struct span packed)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_isal);
	struct inflate_state *state = isal_loaded ? malloc(sizeof(*state)) : NULL;
	if (!state)
		return NULL;
	isal.init(state);
	state->crc_flag = ISAL_ZLIB; /* with its header and checksum */
	state->next_in = (uint8_t *)(uintptr_t)packed.ptr;
	state->avail_in = (uint32_t)packed.len;
	return state;
}

/* Returns how many bytes of the result came. */
static uint32_t isal_next(struct zlib_unpacker *unpacker, uint8_t *ret, uint32_t len)
{
	struct inflate_state *state = unpacker->isal;

	state->next_out = ret;
	state->avail_out = len;
	bool good = isal.inflate(state) == ISAL_DECOMP_OK;
	unpacker->ended = good && state->block_state == ISAL_BLOCK_FINISH;
	return good ? len - state->avail_out : 0;
}
#else
static struct inflate_state *isal_open(struct span packed)
{
	(void)packed;
	return NULL;
}

static uint32_t isal_next(struct zlib_unpacker *unpacker, uint8_t *ret, uint32_t len)
{
	(void)unpacker, (void)ret, (void)len;
	return 0;
}
#endif

/* As isal_next(). */
static uint32_t zlib_next(struct zlib_unpacker *unpacker, uint8_t *ret, uint32_t len)
{
	z_stream *stream = &unpacker->zlib;

	stream->next_out = ret;
	stream->avail_out = len;
	unpacker->ended = inflate(stream, Z_NO_FLUSH) == Z_STREAM_END;
	return len - stream->avail_out;
}

struct zlib_unpacker *zlib_unpacker_new(struct span packed, enum zlib_unpack_by by)
{
	AUTO_FREE struct zlib_unpacker *unpacker = packed.len > UINT32_MAX ? NULL : calloc(1, sizeof(*unpacker));

	if (!unpacker)
		return NULL;
	unpacker->isal = by == ZLIB_UNPACK_BEST ? isal_open(packed) : NULL;
	if (unpacker->isal)
		return take_ptr(unpacker);
	unpacker->zlib.next_in = (Bytef *)(uintptr_t)packed.ptr;
	unpacker->zlib.avail_in = (uInt)packed.len;
	return inflateInit(&unpacker->zlib) == Z_OK ? take_ptr(unpacker) : NULL;
}

void zlib_unpacker_free(struct zlib_unpacker *unpacker)
{
	if (!unpacker)
		return;
	if (!unpacker->isal)
		inflateEnd(&unpacker->zlib);
	free(unpacker->isal);
	free(unpacker);
}

uint64_t zlib_unpack(struct zlib_unpacker *unpacker, void *ret, uint64_t len)
{
	uint64_t done = 0;

	while (done < len && !unpacker->ended) {
		uint32_t most = len - done < UINT32_MAX ? (uint32_t)(len - done) : UINT32_MAX;
		uint8_t *to = (uint8_t *)ret + done;
		uint32_t nr = unpacker->isal ? isal_next(unpacker, to, most) : zlib_next(unpacker, to, most);
		done += nr;
		if (!nr)
			break;
	}
	return done;
}

bool zlib_unpack_is_complete(struct zlib_unpacker *unpacker)
{
	uint8_t more;

	if (!unpacker->ended) {
		uint32_t nr = unpacker->isal ? isal_next(unpacker, &more, 0) : zlib_next(unpacker, &more, 0);
		(void)nr;
	}
	return unpacker->ended;
}
