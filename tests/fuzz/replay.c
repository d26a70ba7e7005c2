/* SPDX-License-Identifier: MIT */
/*
 * replay CORPUS: a plain test of a fuzz target. Feeds it the files of the corpus, if there is one, and each seed:
 * whole, cut at each length, with each byte changed, with each word replaced by numbers that like to overflow. Prints
 * TAP. replay --write-seeds DIRECTORY: the seeds as files, for a fuzzer to start from.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "fuzz.h"

enum { FILE_MAX_BYTES = 64 << 20 };

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

	for (size_t len = 0; len < seed->len; len++)
		feed(seed->data, len);
	for (size_t at = 0; at < seed->len; at++) {
		const uint8_t bytes[] = {0, 0xff, (uint8_t)(seed->data[at] ^ 1), (uint8_t)(seed->data[at] ^ 0x80)};
		for (size_t i = 0; i < sizeof(bytes); i++)
			feed_changed(seed, at, &bytes[i], 1);
	}
	for (size_t at = 0; at + 8 <= seed->len; at += 8)
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
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
