/* SPDX-License-Identifier: MIT */
#include "unwind/siphash.h"

#include <endian.h>
#include <string.h>

struct state {
	uint64_t a, b, c, d;
};

static uint64_t rotate(uint64_t value, unsigned bits)
{
	return value << bits | value >> (64 - bits);
}

static void mix(struct state *s)
{
	s->a += s->b;
	s->c += s->d;
	s->b = rotate(s->b, 13) ^ s->a;
	s->d = rotate(s->d, 16) ^ s->c;
	s->a = rotate(s->a, 32);
	s->c += s->b;
	s->a += s->d;
	s->b = rotate(s->b, 17) ^ s->c;
	s->d = rotate(s->d, 21) ^ s->a;
	s->c = rotate(s->c, 32);
}

static void take(struct state *s, uint64_t word)
{
	s->d ^= word;
	mix(s);
	mix(s);
	s->a ^= word;
}

uint64_t siphash(const uint64_t key[2], struct span bytes)
{
	struct state s = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
			  key[1] ^ 0x7465646279746573};
	const uint8_t *from = bytes.ptr;
	size_t left = bytes.len;
	uint64_t word;

	for (; left >= sizeof(word); left -= sizeof(word), from += sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		take(&s, le64toh(word));
	}
	word = 0;
	if (left)
		memcpy(&word, from, left);
	take(&s, le64toh(word) | (uint64_t)bytes.len << 56);
	s.c ^= 0xff;
	for (unsigned i = 0; i < 4; i++)
		mix(&s);
	return s.a ^ s.b ^ s.c ^ s.d;
}
