/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <libelf.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "analyze/dwarf/debug_ahead.h"
#include "analyze/dwarf/dwarf.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/thread_pool.h"

enum { INFO_BYTES = 1 << 20, MOST_BYTES = 4 << 20 /* of a section */ };

/* What the tests need: a directory with objects. */
struct place {
	char directory[32];
	char path[64];
	int fd; /* of the object */
};

static void write_object(int fd, const struct buf *packed)
{
	static char names[] = "\0.debug_info\0.shstrtab";
	Elf *elf = elf_begin(fd, ELF_C_WRITE, NULL);
	Elf64_Ehdr *header = elf64_newehdr(elf);

	assert_non_null(header);
	header->e_ident[EI_DATA] = ELFDATA2LSB;
	const struct {
		uint32_t name, type, flags;
		void *bytes;
		size_t len;
	} sections[] = {{1, SHT_PROGBITS, SHF_COMPRESSED, packed->data, packed->len},
			{13, SHT_STRTAB, 0, names, sizeof(names)}};
	for (size_t i = 0; i < 2; i++) {
		Elf_Scn *section = elf_newscn(elf);
		Elf_Data *data = elf_newdata(section);
		*data = (Elf_Data){.d_buf = sections[i].bytes, .d_size = sections[i].len, .d_align = 1, .d_version = 1};
		*elf64_getshdr(section) = (Elf64_Shdr){
			.sh_name = sections[i].name, .sh_type = sections[i].type, .sh_flags = sections[i].flags};
	}
	header->e_shstrndx = 2;
	assert_true(elf_update(elf, ELF_C_WRITE) > 0);
	elf_end(elf);
}

static void make_object(struct place *place)
{
	const Elf64_Chdr header = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = INFO_BYTES, .ch_addralign = 1};
	AUTO_FREE uint8_t *bytes = calloc(1, INFO_BYTES);
	AUTO_BUF struct buf packed = {0};
	uLongf len = compressBound(INFO_BYTES);

	assert_non_null(bytes);
	for (uint32_t i = 0; i < INFO_BYTES; i++)
		bytes[i] = (uint8_t)(i >> 8);
	buf_put(&packed, &header, sizeof(header));
	uint8_t *to = buf_extend(&packed, len);
	assert_non_null(to);
	assert_int_equal(compress2(to, &len, bytes, INFO_BYTES, 1), Z_OK);
	packed.len = sizeof(header) + len;
	strcpy(place->directory, "/tmp/millrace-ahead-XXXXXX");
	assert_non_null(mkdtemp(place->directory));
	snprintf(place->path, sizeof(place->path), "%s/object", place->directory);
	place->fd = open(place->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(place->fd >= 0);
	write_object(place->fd, &packed);
}

static void end_place(struct place *place)
{
	close(place->fd);
	unlink(place->path);
	rmdir(place->directory);
}

typedef void *thread_function(void *);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, thread_function *function, void *ctx);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, thread_function *function, void *ctx);

static struct {
	thread_function *function;
	atomic_bool has_ended;
} thread_of_ahead;

static _Thread_local bool is_ahead;

static void *work(void *ctx)
{
	is_ahead = true;
	thread_of_ahead.function(ctx);
	atomic_store(&thread_of_ahead.has_ended, true);
	return NULL;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, thread_function *function, void *ctx)
{
	if (is_ahead) /* it opens a file */
		return __real_pthread_create(thread, attr, function, ctx);
	thread_of_ahead.function = function;
	atomic_store(&thread_of_ahead.has_ended, false);
	return __real_pthread_create(thread, attr, work, ctx);
}

/* The thread ends when nothing is left to do. */
static void await_end(void)
{
	while (!atomic_load(&thread_of_ahead.has_ended))
		usleep(1000);
}

static void test_taken_once(void **state)
{
	struct place place, other;

	(void)state;
	if (thread_pool_useful_size() < 2)
		skip();
	make_object(&place);
	make_object(&other);
	struct debug_ahead *ahead = debug_ahead_start((char *[]){place.path, NULL, place.path}, 3, false);
	assert_non_null(ahead);
	await_end();
	struct dwarf *dwarf = debug_ahead_take(ahead, place.fd);
	assert_non_null(dwarf);
	assert_false(dwarf_unpack_ahead(dwarf, false, MOST_BYTES)); /* it is done */
	assert_null(debug_ahead_take(ahead, place.fd));
	assert_null(debug_ahead_take(ahead, other.fd));
	assert_null(debug_ahead_take(NULL, place.fd));
	debug_ahead_free(ahead);
	dwarf_free(dwarf);
	/* Not while the caller opens it. */
	dwarf = dwarf_open(dup(place.fd), false);
	assert_non_null(dwarf);
	assert_true(dwarf_unpack_ahead(dwarf, false, MOST_BYTES));
	dwarf_free(dwarf);
	end_place(&other);
	end_place(&place);
}

/* At any time. */
static void test_stopped_and_taken_early(void **state)
{
	struct place place;

	(void)state;
	make_object(&place);
	for (unsigned i = 0; i < 20; i++) {
		struct debug_ahead *ahead = debug_ahead_start((char *[]){place.path}, 1, true);
		if (i % 4 == 3)
			usleep(i * 20);
		struct dwarf *dwarf = i % 2 ? debug_ahead_take(ahead, place.fd) : NULL;
		while (dwarf && dwarf_unpack_ahead(dwarf, true, MOST_BYTES))
			;
		dwarf_free(dwarf);
		debug_ahead_free(ahead);
	}
	debug_ahead_free(NULL);
	end_place(&place);
}

static void test_what_is_no_file(void **state)
{
	struct place place;
	char fifo[64], nowhere[] = "/nowhere/object";

	(void)state;
	make_object(&place);
	snprintf(fifo, sizeof(fifo), "%s/fifo", place.directory);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_null(debug_ahead_start((char *[]){fifo, place.directory, nowhere, NULL}, 4, false));
	assert_null(debug_ahead_start(NULL, 0, false));
	unlink(fifo);
	end_place(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken_once),
		cmocka_unit_test(test_stopped_and_taken_early),
		cmocka_unit_test(test_what_is_no_file),
	};

	elf_version(EV_CURRENT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
