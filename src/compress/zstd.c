/* SPDX-License-Identifier: MIT */
#include "compress/zstd.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_c_stableInBuffer, ZSTD_c_useRowMatchFinder */
#include <zstd.h>
#include <zstd_errors.h>

#include "base/hash_table.h"
#include "sysinfo/library.h"

/* Loaded when something is compressed or unpacked: it would slow the start of every command. */
static struct {
	__typeof__(ZSTD_CCtx_reset) *CCtx_reset;
	__typeof__(ZSTD_CCtx_setParameter) *CCtx_setParameter;
	__typeof__(ZSTD_CCtx_setPledgedSrcSize) *CCtx_setPledgedSrcSize;
	__typeof__(ZSTD_DCtx_reset) *DCtx_reset;
	__typeof__(ZSTD_DCtx_setParameter) *DCtx_setParameter;
	__typeof__(ZSTD_compress2) *compress2;
	__typeof__(ZSTD_compressStream2) *compressStream2;
	__typeof__(ZSTD_createCCtx) *createCCtx;
	__typeof__(ZSTD_createDCtx) *createDCtx;
	__typeof__(ZSTD_decompressDCtx) *decompressDCtx;
	__typeof__(ZSTD_decompressStream) *decompressStream;
	__typeof__(ZSTD_freeCCtx) *freeCCtx;
	__typeof__(ZSTD_freeDCtx) *freeDCtx;
	__typeof__(ZSTD_getErrorCode) *getErrorCode;
	__typeof__(ZSTD_getFrameContentSize) *getFrameContentSize;
	__typeof__(ZSTD_isError) *isError;
	__typeof__(ZSTD_versionNumber) *versionNumber;
} zstd;

static bool zstd_loaded;

static void load_zstd(void)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(ZSTD_CCtx_reset, &zstd.CCtx_reset),
		LIBRARY_FUNCTION(ZSTD_CCtx_setParameter, &zstd.CCtx_setParameter),
		LIBRARY_FUNCTION(ZSTD_CCtx_setPledgedSrcSize, &zstd.CCtx_setPledgedSrcSize),
		LIBRARY_FUNCTION(ZSTD_DCtx_reset, &zstd.DCtx_reset),
		LIBRARY_FUNCTION(ZSTD_DCtx_setParameter, &zstd.DCtx_setParameter),
		LIBRARY_FUNCTION(ZSTD_compress2, &zstd.compress2),
		LIBRARY_FUNCTION(ZSTD_compressStream2, &zstd.compressStream2),
		LIBRARY_FUNCTION(ZSTD_createCCtx, &zstd.createCCtx),
		LIBRARY_FUNCTION(ZSTD_createDCtx, &zstd.createDCtx),
		LIBRARY_FUNCTION(ZSTD_decompressDCtx, &zstd.decompressDCtx),
		LIBRARY_FUNCTION(ZSTD_decompressStream, &zstd.decompressStream),
		LIBRARY_FUNCTION(ZSTD_freeCCtx, &zstd.freeCCtx),
		LIBRARY_FUNCTION(ZSTD_freeDCtx, &zstd.freeDCtx),
		LIBRARY_FUNCTION(ZSTD_getErrorCode, &zstd.getErrorCode),
		LIBRARY_FUNCTION(ZSTD_getFrameContentSize, &zstd.getFrameContentSize),
		LIBRARY_FUNCTION(ZSTD_isError, &zstd.isError),
		LIBRARY_FUNCTION(ZSTD_versionNumber, &zstd.versionNumber),
	};

	zstd_loaded = library_load("libzstd.so.1", functions, sizeof(functions) / sizeof(functions[0]));
}

/* false: it is not installed. Any thread. */
static bool zstd_is_here(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_zstd);
	return zstd_loaded;
}

enum {
	FRAME_MAGIC_BYTES = 4,
	BLOCK_HEADER_BYTES = 3,
	BLOCK_RLE = 1,
	BLOCK_RESERVED = 3,
	WINDOW_LOG_MIN = 17, /* of a block */
	ZSTD_WITH_ROWS = 10500,
	WINDOW_LOG_MAX = 27, /* of level 22: 128 MiB; hostile input may not ask for more */
};

struct zstd_packer {
	ZSTD_CCtx *context;
};

bool zstd_available(void)
{
	return zstd_is_here();
}

static bool set(struct zstd_packer *packer, ZSTD_cParameter parameter, int value)
{
	return !zstd.isError(zstd.CCtx_setParameter(packer->context, parameter, value));
}

/*
 * Not in zstd's stable interface, and not the same in all versions: a library that is older compresses as it likes, in
 * more time, and nothing else changes.
 */
#if ZSTD_VERSION_NUMBER >= 10504
static bool has_experiments(void)
{
	return zstd.versionNumber() >= 10504; /* that of the library in use */
}

/* What is compressed stays where it is until all of it is: zstd needs no copy. */
static void set_stable_input(struct zstd_packer *packer)
{
	if (has_experiments())
		set(packer, ZSTD_c_stableInBuffer, 1);
}

static bool can_chain(void)
{
	return has_experiments() || zstd.versionNumber() < ZSTD_WITH_ROWS;
}

static void set_chains(struct zstd_packer *packer, bool chains)
{
	if (has_experiments())
		set(packer, ZSTD_c_useRowMatchFinder, chains ? ZSTD_ps_disable : ZSTD_ps_auto);
}
#else
static bool can_chain(void)
{
	return zstd.versionNumber() < ZSTD_WITH_ROWS;
}

static void set_stable_input(struct zstd_packer *packer)
{
	(void)packer;
}

static void set_chains(struct zstd_packer *packer, bool chains)
{
	(void)packer, (void)chains;
}
#endif

int zstd_packer_new(struct zstd_packer **ret)
{
	if (!zstd_is_here())
		return -ENOTSUP;
	struct zstd_packer *packer = calloc(1, sizeof(*packer));
	if (!packer)
		return -ENOMEM;
	packer->context = zstd.createCCtx();
	if (!packer->context) {
		free(packer);
		return -ENOMEM;
	}
	set_stable_input(packer);
	*ret = packer;
	return 0;
}

void zstd_packer_free(struct zstd_packer *packer)
{
	if (!packer)
		return;
	zstd.freeCCtx(packer->context);
	free(packer);
}

size_t zstd_bound(size_t bytes)
{
	/* Small blocks each have a header: more than zstd reckons with. */
	return ZSTD_COMPRESSBOUND(bytes) + bytes / 1024 + 64;
}

static int window_log(size_t bytes)
{
	int log = WINDOW_LOG_MIN;

	while (log < WINDOW_LOG_MAX && (size_t)1 << log < bytes)
		log++;
	return log;
}

static bool is_given_up(const struct zstd_pack_params *params)
{
	return params->level_now && atomic_load_explicit(params->level_now, memory_order_relaxed) < params->level;
}

/* A block ends where it is flushed. */
static int64_t pack_in_blocks(struct zstd_packer *packer, const struct zstd_pack_params *params, struct span in,
			      void *out, size_t room)
{
	size_t block_bytes = params->block_bytes ? params->block_bytes : ZSTD_BLOCKSIZE_MAX;
	ZSTD_outBuffer to = {out, room, 0};
	size_t at = 0;

	while (at < in.len) {
		size_t len = in.len - at < block_bytes ? in.len - at : block_bytes;
		ZSTD_inBuffer from = {in.ptr, at + len, at};
		ZSTD_EndDirective how = at + len == in.len ? ZSTD_e_end : ZSTD_e_flush;
		size_t left = zstd.compressStream2(packer->context, &to, &from, how);
		if (left || from.pos != at + len)
			return -EIO; /* an error, or the room is too small */
		at += len;
		if (is_given_up(params))
			return -ECANCELED;
	}
	return (int64_t)to.pos;
}

/*
 * Where zstd's own parameters for a level are not the best for records in extents of megabytes: measured against one
 * stream without end (docs/decisions/0006). Tables that fit into the cache of a core cost half as much and find as
 * much: what repeats does so soon, and in words of 8 bytes. 0: zstd's own.
 */
struct tuning {
	int strategy, hash_log, chain_log, search_log, min_match, target_length;
	bool chains; /* candidates stand in chains, as before zstd 1.5, not in rows that are compared at once */
};

static const struct tuning tunings[] = {
	[1] = {.strategy = ZSTD_fast, .hash_log = 16, .min_match = 6},
	[2] = {.strategy = ZSTD_fast, .hash_log = 16, .min_match = 6},
	[3] = {.strategy = ZSTD_dfast, .hash_log = 17, .chain_log = 14, .min_match = 6},
	[4] = {.strategy = ZSTD_dfast, .hash_log = 17, .chain_log = 14, .min_match = 6},
	[7] = {.strategy = ZSTD_lazy, .hash_log = 17, .search_log = 4, .min_match = 5},
	[8] = {.strategy = ZSTD_lazy, .hash_log = 17, .search_log = 4, .min_match = 5},
	[9] = {.strategy = ZSTD_lazy, .hash_log = 18, .search_log = 4, .min_match = 5},
	[19] = {.strategy = ZSTD_btopt,
		.hash_log = 20,
		.chain_log = 20,
		.search_log = 5,
		.min_match = 3,
		.target_length = 96},
};

/*
 * Records without a dump repeat in short pieces that lie close by. Chains find as many of them as rows do, in two
 * thirds of the time; of dumps, which repeat in long pieces from far away, rows find more, sooner.
 */
static const struct tuning tunings_short[] = {
	[5] = {.strategy = ZSTD_greedy,
	       .hash_log = 14,
	       .chain_log = 16,
	       .search_log = 4,
	       .min_match = 6,
	       .chains = true},
	[6 ... 9] = {.strategy = ZSTD_lazy,
		     .hash_log = 14,
		     .chain_log = 16,
		     .search_log = 3,
		     .min_match = 6,
		     .chains = true},
};

/*
 * Of random stacks the few words around each can be matched, and nothing else: a search that soon takes longer steps
 * finds those as well as lazy ones do. A target length makes the fastest leave literals as they are. The highest levels
 * make the smallest files.
 */
static const struct tuning hard_fast = {.strategy = ZSTD_fast, .hash_log = 15, .min_match = 6, .target_length = 2},
			   hard_middle = {.strategy = ZSTD_fast, .hash_log = 17, .min_match = 5, .target_length = 1},
			   hard_high = {.strategy = ZSTD_dfast, .hash_log = 18, .chain_log = 17, .min_match = 5};

static const struct tuning *tuning_of(const struct zstd_pack_params *params)
{
	static const struct tuning none;
	int level = params->level;

	if (params->hard && level <= 12)
		return level <= 2 ? &hard_fast : level <= 4 ? &hard_middle : &hard_high;
	if (params->short_records && level >= 5 && level <= 9 && can_chain())
		return &tunings_short[level];
	return (size_t)level < sizeof(tunings) / sizeof(tunings[0]) ? &tunings[level] : &none;
}

static bool tune(struct zstd_packer *packer, const struct tuning *tuning, int level)
{
	set_chains(packer, tuning->chains);
	bool taken = set(packer, ZSTD_c_compressionLevel, level);
	taken &= set(packer, ZSTD_c_strategy, tuning->strategy);
	taken &= set(packer, ZSTD_c_hashLog, tuning->hash_log);
	taken &= set(packer, ZSTD_c_chainLog, tuning->chain_log);
	taken &= set(packer, ZSTD_c_searchLog, tuning->search_log);
	taken &= set(packer, ZSTD_c_minMatch, tuning->min_match);
	taken &= set(packer, ZSTD_c_targetLength, tuning->target_length);
	return taken;
}

int64_t zstd_pack(struct zstd_packer *packer, const struct zstd_pack_params *params, struct span in, void *out,
		  size_t room)
{
	zstd.CCtx_reset(packer->context, ZSTD_reset_session_only);
	/* All of the frame is within reach, whatever the level: zstd itself takes less at low levels. */
	if (!tune(packer, tuning_of(params), params->level) || !set(packer, ZSTD_c_windowLog, window_log(in.len)) ||
	    !set(packer, ZSTD_c_contentSizeFlag, !params->no_size) ||
	    zstd.isError(zstd.CCtx_setPledgedSrcSize(packer->context, in.len)))
		return -EIO;
	if (params->block_bytes || params->level_now)
		return pack_in_blocks(packer, params, in, out, room);
	size_t len = zstd.compress2(packer->context, out, room, in.ptr, in.len);
	return zstd.isError(len) ? -EIO : (int64_t)len;
}

/*
 * Of the bytes of a frame, in words of 8, the last one filled with zeros, and their number: any other bytes within one
 * word give another hash.
 */
struct frame_hash {
	uint64_t hash, word;
	uint64_t len;
};

static void hash_add(struct frame_hash *hash, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len;) {
		unsigned nr = hash->len % sizeof(uint64_t);
		if (!nr && len - i >= sizeof(uint64_t)) {
			uint64_t word;
			memcpy(&word, bytes + i, sizeof(word));
			hash->hash = stable_hash_mix(hash->hash, le64toh(word));
			hash->len += sizeof(word);
			i += sizeof(word);
			continue;
		}
		hash->word |= (uint64_t)bytes[i++] << 8 * nr;
		hash->len++;
		if (nr < sizeof(uint64_t) - 1)
			continue;
		hash->hash = stable_hash_mix(hash->hash, hash->word);
		hash->word = 0;
	}
}

static uint64_t hash_end(const struct frame_hash *hash)
{
	return stable_hash_mix(stable_hash_mix(hash->hash, hash->word), hash->len);
}

static uint64_t hash_of(struct span frame)
{
	struct frame_hash hash = {0};

	hash_add(&hash, frame.ptr, frame.len);
	return hash_end(&hash);
}

/* 3.1.2: magic, bytes behind these two. One of 16 magics, which zstd and perf do not write by themselves. */
enum { HASH_MAGIC = 0x184d2a5d };

void zstd_put_hash(struct span frame, void *out)
{
	const uint32_t start[2] = {htole32(HASH_MAGIC), htole32(sizeof(uint64_t))};
	const uint64_t hash = htole64(hash_of(frame));

	memcpy(out, start, sizeof(start));
	memcpy((uint8_t *)out + sizeof(start), &hash, sizeof(hash));
}

/* Moves *bytes behind it. false: there is none. */
static bool take_hash(struct span *bytes, uint64_t *ret)
{
	const uint32_t start[2] = {htole32(HASH_MAGIC), htole32(sizeof(*ret))};
	const uint8_t *at = bytes->ptr;

	if (bytes->len < ZSTD_HASH_BYTES || memcmp(at, start, sizeof(start)) != 0)
		return false;
	memcpy(ret, at + sizeof(start), sizeof(*ret));
	*ret = le64toh(*ret);
	*bytes = (struct span){at + ZSTD_HASH_BYTES, bytes->len - ZSTD_HASH_BYTES};
	return true;
}

int zstd_check_hash(struct span frame)
{
	uint64_t hash;

	return !take_hash(&frame, &hash) ? 0 : hash == hash_of(frame) ? 1 : -EBADMSG;
}

/* RFC 8878, 3.1.1.1: magic, descriptor, window unless a single segment, dictionary id, content size. */
bool zstd_frame_start(struct span bytes, struct zstd_frame *ret)
{
	static const uint8_t id_bytes[] = {0, 1, 2, 4}, size_bytes[] = {0, 2, 4, 8};
	uint64_t hash;
	const size_t hash_bytes = take_hash(&bytes, &hash) ? ZSTD_HASH_BYTES : 0;
	const uint8_t *at = bytes.ptr;
	uint32_t magic;

	if (bytes.len <= FRAME_MAGIC_BYTES)
		return false;
	memcpy(&magic, at, sizeof(magic));
	if (magic != ZSTD_MAGICNUMBER || !zstd_is_here())
		return false;
	uint8_t descriptor = at[FRAME_MAGIC_BYTES];
	bool single = descriptor >> 5 & 1;
	size_t size = size_bytes[descriptor >> 6];
	if (single && !size)
		size = 1;
	unsigned long long content = zstd.getFrameContentSize(bytes.ptr, bytes.len);
	if (content == ZSTD_CONTENTSIZE_ERROR)
		return false;
	*ret = (struct zstd_frame){
		.header_bytes = hash_bytes + FRAME_MAGIC_BYTES + 1 + !single + id_bytes[descriptor & 3] + size,
		.bytes = content == ZSTD_CONTENTSIZE_UNKNOWN ? UINT64_MAX : content,
		.checksum_bytes = descriptor & 4 ? 4 : 0,
	};
	return true;
}

bool zstd_block(struct span bytes, size_t *ret_len, bool *ret_last)
{
	const uint8_t *at = bytes.ptr;

	if (bytes.len < BLOCK_HEADER_BYTES)
		return false;
	uint32_t header = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16;
	uint32_t type = header >> 1 & 3;
	size_t len = BLOCK_HEADER_BYTES + (type == BLOCK_RLE ? 1 : header >> 3);
	if (type == BLOCK_RESERVED || len > bytes.len)
		return false;
	*ret_len = len;
	*ret_last = header & 1;
	return true;
}

/* Of a stream: at the start of a frame, in one whose hash stood before it, or in another. */
enum frame_part { FRAME_START, FRAME_WITH_HASH, FRAME_WITHOUT };

struct zstd_unpacker {
	ZSTD_DCtx *context;
	/* Of zstd_unpack(): */
	enum frame_part part;
	uint8_t start[ZSTD_HASH_BYTES];
	size_t nr_start;
	uint64_t wanted;
	struct frame_hash hash;
};

int zstd_unpacker_new(struct zstd_unpacker **ret)
{
	if (!zstd_is_here())
		return -ENOTSUP;
	struct zstd_unpacker *unpacker = calloc(1, sizeof(*unpacker));
	if (!unpacker)
		return -ENOMEM;
	unpacker->context = zstd.createDCtx();
	if (!unpacker->context) {
		free(unpacker);
		return -ENOMEM;
	}
	zstd.DCtx_setParameter(unpacker->context, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
	*ret = unpacker;
	return 0;
}

void zstd_unpacker_free(struct zstd_unpacker *unpacker)
{
	if (!unpacker)
		return;
	zstd.freeDCtx(unpacker->context);
	free(unpacker);
}

static int unpack_error(size_t code)
{
	return zstd.getErrorCode(code) == ZSTD_error_memory_allocation ? -ENOMEM : -EBADMSG;
}

int64_t zstd_unpack_frame(struct zstd_unpacker *unpacker, struct span frame, void *out, size_t room)
{
	uint64_t hash;

	if (zstd_check_hash(frame) < 0)
		return -EBADMSG;
	take_hash(&frame, &hash);
	size_t len = zstd.decompressDCtx(unpacker->context, out, room, frame.ptr, frame.len);
	return zstd.isError(len) ? unpack_error(len) : (int64_t)len;
}

static void begin_frame(struct zstd_unpacker *unpacker)
{
	unpacker->part = FRAME_START;
	unpacker->nr_start = 0;
}

void zstd_unpack_reset(struct zstd_unpacker *unpacker)
{
	zstd.DCtx_reset(unpacker->context, ZSTD_reset_session_only);
	begin_frame(unpacker);
}

/* Bytes that were taken, and whether a frame ended with them. false: they are not those that the hash is of. */
static bool check_part(struct zstd_unpacker *unpacker, const uint8_t *bytes, size_t len, bool ended)
{
	if (unpacker->part == FRAME_START) {
		memcpy(unpacker->start + unpacker->nr_start, bytes, len);
		unpacker->nr_start += len;
		struct span start = {unpacker->start, unpacker->nr_start};
		if (take_hash(&start, &unpacker->wanted)) {
			unpacker->part = FRAME_WITH_HASH;
			unpacker->hash = (struct frame_hash){0};
		} else if (ended) {
			begin_frame(unpacker);
		} else if (unpacker->nr_start == ZSTD_HASH_BYTES) {
			unpacker->part = FRAME_WITHOUT;
		}
		return true;
	}
	if (unpacker->part == FRAME_WITH_HASH)
		hash_add(&unpacker->hash, bytes, len);
	if (!ended)
		return true;
	bool right = unpacker->part != FRAME_WITH_HASH || hash_end(&unpacker->hash) == unpacker->wanted;
	begin_frame(unpacker);
	return right;
}

int64_t zstd_unpack(struct zstd_unpacker *unpacker, struct span *in, void *out, size_t room)
{
	ZSTD_inBuffer from = {in->ptr, in->len, 0};
	ZSTD_outBuffer to = {out, room, 0};

	while (to.pos < to.size) {
		size_t taken = from.pos, given = to.pos;
		size_t more = unpacker->part == FRAME_START ? ZSTD_HASH_BYTES - unpacker->nr_start : SIZE_MAX;
		from.size = in->len - taken < more ? in->len : taken + more;
		size_t err = zstd.decompressStream(unpacker->context, &to, &from);
		if (zstd.isError(err))
			return unpack_error(err);
		if (from.pos == taken && to.pos == given)
			break;
		if (!check_part(unpacker, (const uint8_t *)in->ptr + taken, from.pos - taken, err == 0))
			return -EBADMSG;
	}
	*in = (struct span){(const char *)in->ptr + from.pos, in->len - from.pos};
	return (int64_t)to.pos;
}
