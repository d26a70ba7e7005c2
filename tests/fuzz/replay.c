/* SPDX-License-Identifier: MIT */
/*
 * replay CORPUS: a plain test of a fuzz target. Feeds it the files of the corpus, if there is one, and each seed:
 * whole, cut at each length, with each byte changed, with each word replaced by numbers that like to overflow; of a
 * long seed each kind of change is made at every second or third place, not all kinds at the same ones. Prints TAP.
 * replay --write-seeds DIRECTORY: the seeds as files, for a fuzzer to start from.
 */
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "fuzz.h"

enum { FILE_MAX_BYTES = 64 << 20 };

/*
 * The blocks in which readers keep records (struct arena), MiBs for each input, are kept for the next one: to take them
 * from the kernel and to give them back takes most of the time, with AddressSanitizer nearly all. What was freed is
 * poisoned, so that its use is found as before. The program is linked with --wrap.
 */
enum { BLOCK_LEAST_BYTES = 1 << 20, BLOCKS = 16, KEPT_MEMORY_BYTES = 64 << 20 };

static struct {
	pthread_mutex_t lock;
	struct block {
		void *at; /* NULL: none */
		size_t bytes;
		bool used;
	} blocks[BLOCKS];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *ptr);
void __wrap_free(void *ptr);
__attribute__((weak)) void __asan_poison_memory_region(const volatile void *at, size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *at, size_t bytes);

/* A block that is not used. NULL: there is none. */
static struct block *find_block(size_t bytes)
{
	for (size_t i = 0; i < BLOCKS; i++)
		if (!kept.blocks[i].used && kept.blocks[i].bytes == bytes)
			return &kept.blocks[i];
	return NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	void *at;

	if (alignment < BLOCK_LEAST_BYTES)
		return __real_aligned_alloc(alignment, bytes);
	pthread_mutex_lock(&kept.lock);
	struct block *block = find_block(bytes);
	if (block && __asan_unpoison_memory_region)
		__asan_unpoison_memory_region(block->at, bytes);
	if (!block) {
		block = find_block(0);
		at = __real_aligned_alloc(alignment, bytes);
		if (block && at)
			*block = (struct block){.at = at, .bytes = bytes};
	} else {
		at = block->at;
	}
	if (block)
		block->used = block->at;
	pthread_mutex_unlock(&kept.lock);
	return at;
}

void __wrap_free(void *ptr)
{
	bool found = false;

	if (ptr && (uintptr_t)ptr % BLOCK_LEAST_BYTES == 0) {
		pthread_mutex_lock(&kept.lock);
		for (size_t i = 0; i < BLOCKS && !found; i++) {
			struct block *block = &kept.blocks[i];
			found = block->used && block->at == ptr;
			if (!found)
				continue;
			block->used = false;
			if (__asan_poison_memory_region)
				__asan_poison_memory_region(ptr, block->bytes);
		}
		pthread_mutex_unlock(&kept.lock);
	}
	if (!found)
		__real_free(ptr);
}

/* An input of its own size on the heap, so that a sanitizer sees a read behind its end. */
static void feed(const uint8_t *bytes, size_t len)
{
	AUTO_FREE uint8_t *copy = malloc(len ? len : 1);

	if (!copy)
		abort();
	if (len)
		memcpy(copy, bytes, len);
	LLVMFuzzerTestOneInput(copy, len);
}

static void feed_changed(struct buf *seed, size_t at, const void *value, size_t len)
{
	uint8_t saved[8];

	memcpy(saved, seed->data + at, len);
	memcpy(seed->data + at, value, len);
	feed(seed->data, seed->len);
	memcpy(seed->data + at, saved, len);
}

static void feed_mutations(struct buf *seed)
{
	static const uint64_t words[] = {0, 1, 7, UINT64_MAX, UINT64_MAX - 7, INT64_MAX, UINT32_MAX, 1ull << 32};

	enum { CHANGES_PER_BYTE = 6, MOST_INPUTS = 3000 };
	const size_t step = 1 + seed->len * CHANGES_PER_BYTE / MOST_INPUTS;

	for (size_t len = 0; len < seed->len; len += step)
		feed(seed->data, len);
	for (size_t at = 0; at < seed->len; at++) {
		const uint8_t bytes[] = {0, 0xff, (uint8_t)(seed->data[at] ^ 1), (uint8_t)(seed->data[at] ^ 0x80)};
		for (size_t i = 0; i < sizeof(bytes); i++)
			if ((at + i) % step == 0)
				feed_changed(seed, at, &bytes[i], 1);
	}
	for (size_t at = 0; at + 8 <= seed->len; at += 8)
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if ((at / 8 + i) % step == 0)
				feed_changed(seed, at, &words[i], 8);
}

static int write_seeds(const char *directory)
{
	for (unsigned number = 0;; number++) {
		AUTO_BUF struct buf seed = {0};
		AUTO_FILE FILE *file = NULL;
		char path[4096];

		if (!fuzz_seed(number, &seed))
			return 0;
		snprintf(path, sizeof(path), "%s/seed-%u", directory, number);
		file = fopen(path, "w");
		if (!file || fwrite(seed.data, 1, seed.len, file) != seed.len) {
			perror(path);
			return 1;
		}
	}
}

static unsigned replay_corpus(const char *directory, unsigned nr_tests)
{
	DIR *dir = opendir(directory);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		AUTO_BUF struct buf bytes = {0};
		char path[4096];

		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		if (entry->d_name[0] == '.' || fd_slurp(path, FILE_MAX_BYTES, &bytes))
			continue;
		feed(bytes.data, bytes.len);
		printf("ok %u - %s\n", ++nr_tests, entry->d_name);
	}
	if (dir)
		closedir(dir);
	return nr_tests;
}

int main(int argc, char **argv)
{
	unsigned nr_tests = 0;

	if (argc == 3 && strcmp(argv[1], "--write-seeds") == 0)
		return write_seeds(argv[2]);
	if (argc != 2)
		return 2;
	mallopt(M_MMAP_THRESHOLD, KEPT_MEMORY_BYTES); /* likewise, without a sanitizer */
	mallopt(M_TRIM_THRESHOLD, KEPT_MEMORY_BYTES);
	log_set_level(LOG_ERRORS);
	setvbuf(stdout, NULL, _IONBF, 0);
	for (unsigned number = 0;; number++) {
		AUTO_BUF struct buf seed = {0};

		if (!fuzz_seed(number, &seed))
			break;
		feed(seed.data, seed.len);
		feed_mutations(&seed);
		printf("ok %u - seed %u and its mutations\n", ++nr_tests, number);
	}
	nr_tests = replay_corpus(argv[1], nr_tests);
	printf("1..%u\n", nr_tests);
	return 0;
}
