/* SPDX-License-Identifier: MIT */
/* Lines of the source of this program itself, as if it were the image of a kernel: its addresses are as linked. */
#include <libelf.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/symbols/debug_info.h"
#include "analyze/symbols/dso.h"
#include "base/thread_pool.h"

/* The program itself comes first. */
static int take_bias(struct dl_phdr_info *object, size_t size, void *ret)
{
	(void)size;
	*(uint64_t *)ret = object->dlpi_addr;
	return 1;
}

static __attribute__((noinline)) int first(volatile int *at)
{
	*at += 3;
	return *at * 5;
}

static __attribute__((noinline)) int second(volatile int *at)
{
	*at -= 3;
	return *at * 7;
}

/* A recording hits thousands of addresses of a file, whose path may be long. */
static void test_addresses_of_a_file_share_its_path(void **state)
{
	const uint64_t functions[] = {(uintptr_t)first, (uintptr_t)second};
	const struct symbol_options options = {.symfs = ""};
	struct dso_table dsos = {0};
	struct debug_info *info = debug_info_new(&options);
	struct dso *dso = dso_find(&dsos, "[kernel.kallsyms]", NULL, DSO_KERNEL);
	struct source_line lines[2];
	uint64_t bias = 0;

	(void)state;
	dl_iterate_phdr(take_bias, &bias);
	assert_non_null(info);
	assert_non_null(dso);
	dso->image_path = "/proc/self/exe";
	bool known = true; /* not when built without debug information */
	for (size_t i = 0; i < 2; i++)
		known &= debug_info_line(info, dso, functions[i] - bias, 0, &lines[i]);
	if (!known) {
		debug_info_free(info);
		dso_table_fini(&dsos);
		skip();
	}
	assert_non_null(strstr(lines[0].path, "test_debug_info.c"));
	assert_ptr_equal(lines[0].path, lines[1].path);
	assert_in_range(lines[1].line, lines[0].line + 4, lines[0].line + 7);
	debug_info_free(info);
	dso_table_fini(&dsos);
}

extern const char __executable_start, etext; /* source: ld(1), linker scripts */

enum { ADDRESSES = 2000, THREADS = 4 };

/* What a thread finds at all addresses, from one of them on. */
struct reader {
	struct debug_info *info;
	struct dso *dso;
	unsigned nr;           /* 0: all */
	unsigned first, parts; /* parts: a bit for each that has some */
	struct source_line lines[ADDRESSES];
	const struct inlined *inlined[ADDRESSES];
};

static const struct symbol whole = {.start = 0, .end = UINT64_MAX, .name = "whole"};

static void *read_addresses(void *ctx)
{
	struct reader *reader = ctx;
	const uint64_t bytes = (uint64_t)(&etext - &__executable_start), step = bytes / ADDRESSES;
	uint64_t bias = 0;

	dl_iterate_phdr(take_bias, &bias);
	for (unsigned nr = 0; nr < (reader->nr ? reader->nr : ADDRESSES); nr++) {
		const unsigned i = (reader->first + nr) % ADDRESSES;
		const uint64_t address = (uintptr_t)&__executable_start - bias + i * step;
		if (!debug_info_line(reader->info, reader->dso, address, 0, &reader->lines[i]))
			reader->lines[i] = (struct source_line){"", 0};
		reader->inlined[i] = debug_info_inlined(reader->info, reader->dso, &whole, address);
		reader->parts |= 1u << debug_info_part(reader->info, reader->dso, address);
	}
	return NULL;
}

static void assert_same(const struct reader *a, const struct reader *b)
{
	for (unsigned i = 0; i < ADDRESSES; i++) {
		assert_string_equal(a->lines[i].path, b->lines[i].path);
		assert_int_equal(a->lines[i].line, b->lines[i].line);
		assert_int_equal(a->inlined[i]->nr, b->inlined[i]->nr);
		for (unsigned k = 0; k < a->inlined[i]->nr; k++)
			assert_string_equal(a->inlined[i]->functions[k]->name, b->inlined[i]->functions[k]->name);
	}
}

/* Units of one file are read by several threads at once: each finds what one alone does. */
static void test_several_threads(void **state)
{
	const struct symbol_options options = {.symfs = ""};
	struct dso_table dsos = {0};
	struct dso *dso = dso_find(&dsos, "[kernel.kallsyms]", NULL, DSO_KERNEL);
	struct debug_info *infos[2] = {debug_info_new(&options), debug_info_new(&options)};
	struct reader *readers = calloc(THREADS + 1, sizeof(*readers)), *alone = &readers[THREADS];
	pthread_t threads[THREADS];

	(void)state;
	dso->image_path = "/proc/self/exe";
	*alone = (struct reader){.info = infos[1], .dso = dso};
	read_addresses(alone);
	for (unsigned i = 0; i < THREADS; i++) {
		readers[i] = (struct reader){.info = infos[0], .dso = dso, .first = i * ADDRESSES / THREADS};
		assert_int_equal(thread_start(&threads[i], read_addresses, &readers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	unsigned nr_known = 0;
	for (unsigned i = 0; i < ADDRESSES; i++)
		nr_known += alone->lines[i].line > 0;
	for (unsigned i = 0; i < THREADS; i++)
		assert_same(&readers[i], alone);
	const bool one_part = !(alone->parts & (alone->parts - 1));
	debug_info_free(infos[0]);
	debug_info_free(infos[1]);
	dso_table_fini(&dsos);
	free(readers);
	if (!nr_known) /* built without debug information */
		skip();
	assert_int_equal(one_part, thread_pool_useful_size() == 1);
}

/* Half of the addresses were looked up by an earlier run, if the program is not too young for that: it is no matter. */
static void test_kept_answers_are_the_same(void **state)
{
	const struct symbol_options keeps = {.symfs = "", .line_cache = true}, none = {.symfs = ""};
	char root[] = "/tmp/debug-info-XXXXXX", remove[64];
	struct dso_table dsos = {0};
	struct dso *dso = dso_find(&dsos, "[kernel.kallsyms]", NULL, DSO_KERNEL);
	struct reader *readers = calloc(THREADS + 1, sizeof(*readers)), *alone = &readers[THREADS];
	pthread_t threads[THREADS];

	(void)state;
	assert_non_null(mkdtemp(root));
	setenv("XDG_CACHE_HOME", root, 1);
	dso->image_path = "/proc/self/exe";
	*alone = (struct reader){.info = debug_info_new(&none), .dso = dso};
	read_addresses(alone);
	for (unsigned run = 0; run < 3; run++) {
		struct debug_info *info = debug_info_new(&keeps);
		for (unsigned i = 0; i < THREADS; i++) {
			readers[i] = (struct reader){.info = info, .dso = dso, .first = i * ADDRESSES / THREADS};
			readers[i].nr = run ? ADDRESSES : ADDRESSES / (2 * THREADS);
			assert_int_equal(thread_start(&threads[i], read_addresses, &readers[i]), 0);
		}
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		for (unsigned i = 0; run && i < THREADS; i++)
			assert_same(&readers[i], alone);
		/* What reads the same is the same, whichever thread found it. */
		for (unsigned i = 0; run && i < ADDRESSES; i++)
			for (unsigned k = 0; k < readers[0].inlined[i]->nr; k++)
				assert_ptr_equal(readers[0].inlined[i]->functions[k],
						 readers[1].inlined[i]->functions[k]);
		debug_info_free(info);
	}
	debug_info_free(alone->info);
	dso_table_fini(&dsos);
	free(readers);
	snprintf(remove, sizeof(remove), "rm -r %s", root);
	assert_int_equal(system(remove), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_addresses_of_a_file_share_its_path),
					   cmocka_unit_test(test_several_threads),
					   cmocka_unit_test(test_kept_answers_are_the_same)};
	volatile int at = 0;

	elf_version(EV_CURRENT);
	if (first(&at) + second(&at) > 1000)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
