/* SPDX-License-Identifier: MIT */
/* Any bytes as a jitdump: code is found or not, with its lines, and with call frame information that may be anything.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyze/symbols/jit_code.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "fuzz.h"
#include "unwind/unwind.h"

static void unwind(const struct symbol *symbol, uint64_t address)
{
	struct unwind_tables *tables = unwind_tables_new("x86_64", 1 << 24);
	struct unwind_object *object = tables ? unwind_tables_object(tables, "code", 4) : NULL;

	if (!object)
		abort();
	if (!unwind_object_build_code(object, symbol->end - symbol->start, jit_code_frames(symbol)) && address)
		unwind_object_complete(object);
	unwind_tables_free(tables);
}

static void check(const struct jit_code *code, uint64_t address, int64_t time_ns)
{
	unsigned line;
	int64_t from, to;
	const struct symbol *symbol = jit_code_find(code, address, time_ns, &from, &to);

	if (!symbol)
		return;
	if (address < symbol->start || address >= symbol->end || !symbol->name)
		abort();
	if (time_ns != JIT_ANY_TIME && (from > time_ns || to <= time_ns))
		abort();
	const char *path = jit_code_line(code, symbol, address, &line);
	if (path && strlen(path) > 1 << 20)
		abort();
	if (jit_code_frames(symbol).len)
		unwind(symbol, address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("jitdump", MFD_CLOEXEC);
	struct jit_code *code;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET))
		abort();
	int err = jit_code_read(fd, &code);
	close(fd);
	if (err)
		return 0;
	for (uint64_t address = 0x1000; address < 0x1040; address += 7) {
		check(code, address, JIT_ANY_TIME);
		for (int64_t time_ns = 0; time_ns < 5; time_ns++)
			check(code, address, time_ns);
	}
	jit_code_free(code);
	return 0;
}

static void put_record(struct buf *out, uint32_t type, uint64_t time_ns, const struct buf *body)
{
	buf_put_u32(out, type);
	buf_put_u32(out, (uint32_t)(16 + body->len));
	buf_put_u64(out, time_ns);
	buf_put(out, body->data, body->len);
}

static void put_words(struct buf *out, const uint64_t *words, size_t nr)
{
	buf_put(out, words, nr * sizeof(*words));
}

/* A header; lines and frames of a function; it is loaded, and moves. */
bool fuzz_seed(unsigned number, struct buf *out)
{
	static const uint32_t header[] = {0x4a695444, 1, 40, 62, 0, 1};
	static const uint8_t frames[] = {20,   0,    0,    0,    0,    0, 0, 0, 1,  'z',  'R', 0,  1,    0x78, 16, 1,
					 27,   12,   7,    8,    0x90, 1, 0, 0, 20, 0,    0,   0,  28,   0,    0,  0,
					 0xc0, 0xff, 0xff, 0xff, 0x1c, 0, 0, 0, 0,  0x41, 14,  16, 0x86, 2,    0,  0};
	AUTO_BUF struct buf lines = {0}, frame = {0}, load = {0}, move = {0};

	if (number > 1)
		return false;
	buf_put(out, header, sizeof(header));
	put_words(out, (const uint64_t[]){1, number /* 1: the clock is another one */}, 2);
	put_words(&lines, (const uint64_t[]){0x1000, 1, 0x1004, 7}, 4);
	buf_put(&lines, "a.js", 5);
	put_record(out, 2, 1, &lines);
	put_words(&frame, (const uint64_t[]){sizeof(frames), 0, 0}, 3);
	buf_put(&frame, frames, sizeof(frames));
	put_record(out, 4, 1, &frame);
	put_words(&load, (const uint64_t[]){1, 0x1000, 0x1000, 0x1c, 1}, 5);
	buf_put(&load, "LHot;run(I)V", 13);
	put_record(out, 0, 1, &load);
	put_words(&move, (const uint64_t[]){1, 0x1020, 0x1000, 0x1020, 0x1c, 1}, 6);
	put_record(out, 1, 3, &move);
	return true;
}
