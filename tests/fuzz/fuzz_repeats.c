/* SPDX-License-Identifier: MIT */
/*
 * Whatever is packed by its repeats is what libzstd unpacks. The input tells what repeats where, so that few bytes of
 * it make blocks of all kinds.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "compress/repeats.h"
#include "compress/zstd.h"
#include "fuzz.h"

enum { BYTES_MAX = 400 << 10, STEP_BYTES = 5 };

/* Bytes that do not repeat. */
static const uint8_t *literals(void)
{
	static uint8_t bytes[BYTES_MAX];
	uint64_t seed = 1;

	for (size_t i = 0; i < BYTES_MAX && !bytes[BYTES_MAX - 1]; i++) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		bytes[i] = (uint8_t)(seed >> 56);
	}
	return bytes;
}

/* The next literals, of which `nr_put` are there, and behind them bytes from some distance. */
static size_t put_step(const uint8_t *step, size_t *nr_put, uint8_t *bytes, size_t at)
{
	size_t nr_literals = (size_t)step[0] << (step[1] & 7), length = (size_t)step[2] << (step[1] >> 3 & 7);
	size_t distance = 1 + (((size_t)step[3] << 8 | step[4]) << (step[1] >> 6) * 2);

	if (nr_literals > BYTES_MAX - at)
		nr_literals = BYTES_MAX - at;
	memcpy(bytes + at, literals() + *nr_put, nr_literals);
	*nr_put += nr_literals;
	at += nr_literals;
	if (length > BYTES_MAX - at)
		length = BYTES_MAX - at;
	if (distance > at)
		return at;
	/* What is there repeats, so that each copy may be twice as long. */
	for (const uint8_t *from = bytes + at - distance; length;) {
		const size_t known = (size_t)(bytes + at - from), nr = length < known ? length : known;
		memcpy(bytes + at, from, nr);
		length -= nr;
		at += nr;
	}
	return at;
}

static void check(struct span bytes)
{
	AUTO_FREE uint8_t *frame = malloc(repeats_bound(bytes.len)), *again = malloc(bytes.len);
	struct repeats_packer *packer;
	struct zstd_unpacker *unpacker;

	if (!frame || !again || repeats_packer_new(&packer))
		abort();
	int64_t len = repeats_pack(packer, bytes, frame);
	repeats_packer_free(packer);
	if (len < 0)
		return;
	if ((size_t)len > repeats_bound(bytes.len) || zstd_unpacker_new(&unpacker))
		abort();
	int64_t got = zstd_unpack_frame(unpacker, (struct span){frame, (size_t)len}, again, bytes.len);
	zstd_unpacker_free(unpacker);
	if (got != (int64_t)bytes.len || memcmp(again, bytes.ptr, bytes.len) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE uint8_t *bytes = malloc(BYTES_MAX);
	size_t len = 0, nr_literals = 0;

	if (!bytes)
		abort();
	if (!zstd_available() || !size)
		return 0;
	for (size_t at = 0; at + STEP_BYTES <= size; at += STEP_BYTES)
		len = put_step(data + at, &nr_literals, bytes, len);
	AUTO_FREE uint8_t *as_long = malloc(len + !len); /* sanitizers see what is read behind it */
	if (!as_long)
		abort();
	memcpy(as_long, bytes, len);
	if (len)
		check((struct span){as_long, len});
	check((struct span){data, size});
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	/* Literals, shifts, length, distance. */
	static const uint8_t steps[][STEP_BYTES] = {
		{100, 0, 0, 0, 0},      {3, 0, 97, 0, 99},    {3, 0, 97, 0, 99},   {8, 0, 60, 1, 143},
		{16, 0, 100, 0, 199},   {0, 0, 200, 0, 99},   {1, 0x38, 1, 0, 0},  {200, 7, 255, 0, 99},
		{0, 0x38, 255, 10, 99}, {64, 0x42, 90, 9, 9}, {7, 0x18, 33, 0, 7}, {2, 0x3a, 200, 0xc0, 1},
	};

	if (number >= 2 * sizeof(steps) / sizeof(steps[0]))
		return false;
	/* One after the other, and each often. */
	for (unsigned i = 0; i < 300; i++)
		buf_put(out, steps[i == 0 ? 0 : number < 12 ? number : (i * number) % 12], STEP_BYTES);
	return true;
}
