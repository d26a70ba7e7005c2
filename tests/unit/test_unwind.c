/* SPDX-License-Identifier: MIT */
/*
 * Chains through made objects: each kind of rule, each way to end, and what hostile registers, stacks and tables can
 * do.
 */
#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/hash_table.h"
#include "tests/fake/fake_elf.h"
#include "unwind/unwind.h"

enum {
	BASE = 0x400000,  /* where the executable segment is mapped */
	OTHER = 0x800000, /* code without a file */
	CODE_BYTES = 0x1c,
	STACK = 0x7fff0000,
	NR_WORDS = 64,
	/* Sampled on x86_64, all but segments: 0 to 8 and 16 to 23. Source: <asm/perf_regs.h>. */
	SAMPLED_MASK = 0xff01ff,
	NR_SAMPLED = 17,
	AX = 0,
	BX = 1,
	BP = 6,
	SP = 7,
	IP = 8,
	R10 = 11, /* its place among them */
	ARM_FP = 29,
	ARM_LR = 30,
	ARM_SP = 31,
	ARM_PC = 32,
	ARM_NR = 33,
};

/* Functions of 0x20 bytes. */
enum {
	FRAMELESS = 0x00,  /* CFA = rsp + 8 */
	WITH_FRAME = 0x20, /* push rbp; mov rbp, rsp: CFA = rbp + 16 */
	SAVES = 0x40,      /* CFA = rsp + 32; rbx at CFA - 24, rbp at CFA - 16 */
	REALIGNED = 0x60,  /* CFA = *(rbp - 8) */
	OUTERMOST = 0x80,  /* return address undefined */
	LEAF_R10 = 0xa0,   /* CFA = r10 + 8 */
	RA_IN_RAX = 0xc0,
	TRAMPOLINE = 0xe0,   /* signal frame: CFA = *(rsp + 16), rip at rsp + 8, rbp at rsp + 24 */
	UNSAVED_RBP = 0x100, /* CFA = rsp + 16, rbp undefined */
	BROKEN = 0x120,      /* good up to byte 4, then an instruction that does not exist */
	GAP = 0x140,         /* no CFI */
	MISALIGNED = 0x160,  /* CFA = rsp + 12 */
	PLT = 0x180,         /* the expression of PLTs, entries of 16 bytes */
	LOOP = 0x1a0,        /* CFA = an expression that jumps to itself */
	BACKWARDS = 0x1c0,   /* CFA = rsp - 16, rip at CFA + 16 */
	CLANG = 0x1e0,       /* as WITH_FRAME, but `ret` in the middle, and nothing says that rbp was popped */
	RED_ZONE = 0x200,    /* CFA = rsp + 8; rbp at CFA - 16, below rsp */
	VALUES = 0x220,      /* CFA = rsp + 8; rbp = rsp + 24, rbx cannot be computed */
	SAME_RA = 0x240,     /* says that its return address is where it was: in no register */
	WIDE_OUTERMOST = 0x260,
	LEAVES = 0x280, /* CFA = r10, rbp where it points; behind byte 6 CFA = rsp + 8, and rbp is restored */
};

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

static void make_x86(struct fake_elf *elf)
{
	fake_elf_init(elf, EM_X86_64);
	fake_elf_cie(elf, "zR", BYTES(DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1));
	/* Not in the order of their addresses. */
	fake_elf_fde(elf, WITH_FRAME, 0x20,
		     BYTES(DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 6, 2,
			   DW_CFA_advance_loc | 3, DW_CFA_def_cfa_register, 6, DW_CFA_advance_loc | 0x1a,
			   DW_CFA_remember_state, DW_CFA_def_cfa, 7, 8, DW_CFA_restore | 6, DW_CFA_advance_loc | 1,
			   DW_CFA_restore_state));
	fake_elf_fde(elf, FRAMELESS, 0x20, "", 0);
	fake_elf_fde(elf, SAVES, 0x20, BYTES(DW_CFA_def_cfa_offset, 32, DW_CFA_offset | 3, 3, DW_CFA_offset | 6, 2));
	fake_elf_fde(elf, REALIGNED, 0x20,
		     BYTES(DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_deref, DW_CFA_expression, 6, 2,
			   DW_OP_breg6, 0));
	fake_elf_fde(elf, LEAVES, 0x20,
		     BYTES(DW_CFA_def_cfa, 10, 0, DW_CFA_expression, 6, 2, DW_OP_breg6, 0, DW_CFA_advance_loc | 6,
			   DW_CFA_def_cfa, 7, 8));
	fake_elf_fde(elf, OUTERMOST, 0x20, BYTES(DW_CFA_undefined, 16));
	fake_elf_fde(elf, LEAF_R10, 0x20, BYTES(DW_CFA_def_cfa, 10, 8));
	fake_elf_fde(elf, RA_IN_RAX, 0x20, BYTES(DW_CFA_register, 16, 0));
	fake_elf_fde(elf, UNSAVED_RBP, 0x20, BYTES(DW_CFA_def_cfa_offset, 16, DW_CFA_undefined, 6));
	fake_elf_fde(elf, BROKEN, 0x20, BYTES(DW_CFA_advance_loc | 4, 0x3f));
	fake_elf_fde(elf, MISALIGNED, 0x20, BYTES(DW_CFA_def_cfa_offset, 12));
	fake_elf_fde(elf, PLT, 0x20,
		     BYTES(DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and,
			   DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus));
	fake_elf_fde(elf, LOOP, 0x20, BYTES(DW_CFA_def_cfa_expression, 4, DW_OP_lit1, DW_OP_skip, 0xfd, 0xff));
	fake_elf_fde(elf, BACKWARDS, 0x20, BYTES(DW_CFA_def_cfa_sf, 7, 2, DW_CFA_offset_extended_sf, 16, 0x7e));
	fake_elf_fde(elf, CLANG, 0x20,
		     BYTES(DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 6, 2,
			   DW_CFA_advance_loc | 3, DW_CFA_def_cfa_register, 6, DW_CFA_advance_loc | 6, DW_CFA_def_cfa,
			   7, 8, DW_CFA_advance_loc | 1, DW_CFA_def_cfa, 6, 16));
	fake_elf_fde(elf, RED_ZONE, 0x20, BYTES(DW_CFA_offset | 6, 2));
	fake_elf_fde(elf, VALUES, 0x20,
		     BYTES(DW_CFA_val_expression, 6, 2, DW_OP_breg7, 24, DW_CFA_expression, 3, 4, DW_OP_lit1,
			   DW_OP_skip, 0xfd, 0xff));
	fake_elf_fde(elf, SAME_RA, 0x20, BYTES(DW_CFA_same_value, 16));
	fake_elf_fde(elf, WIDE_OUTERMOST, 0x20,
		     BYTES(DW_CFA_undefined, 16, DW_CFA_val_expression, 6, 2, DW_OP_breg7, 24));
	fake_elf_cie(elf, "zRS", BYTES(DW_CFA_def_cfa, 7, 8));
	fake_elf_fde(elf, TRAMPOLINE, 0x20,
		     BYTES(DW_CFA_def_cfa_expression, 3, DW_OP_breg7, 16, DW_OP_deref, DW_CFA_expression, 16, 2,
			   DW_OP_breg7, 8, DW_CFA_expression, 6, 2, DW_OP_breg7, 24));
}

struct process {
	struct unwind_tables *tables;
	struct unwind_object *object, *code; /* code: at OTHER, or NULL */
	struct unwind_cache *cache;
	struct unwind_space space;
	uint64_t regs[ARM_NR];
	struct sample_regs sampled;
	uint64_t words[NR_WORDS]; /* the stack */
	uint64_t ips[NR_WORDS], cfas[NR_WORDS];
	struct unwind_chain chain;
	unsigned nr_found; /* calls of find() */
	int fd;            /* of the object's file; -1: not open */
};

static struct unwind_object *find(void *ctx, uint64_t pc, uint64_t *ret_offset)
{
	struct process *process = ctx;

	process->nr_found++;
	if (process->code && pc - OTHER < CODE_BYTES) {
		*ret_offset = pc - OTHER;
		return process->code;
	}
	if (pc - BASE >= FAKE_ELF_CODE_BYTES)
		return NULL;
	*ret_offset = pc - BASE + FAKE_ELF_CODE;
	return process->object;
}

static bool is_code(void *ctx, uint64_t pc)
{
	(void)ctx;
	return pc - BASE < FAKE_ELF_CODE_BYTES || pc - OTHER < CODE_BYTES;
}

static struct process *new_process(const char *arch, uint64_t mask)
{
	struct process *process = calloc(1, sizeof(*process));

	assert_non_null(process);
	process->fd = -1;
	process->tables = unwind_tables_new(arch, 1 << 20);
	assert_non_null(process->tables);
	process->object = unwind_tables_object(process->tables, "object", 6);
	process->cache = unwind_cache_new(process->tables);
	assert_true(process->object && process->cache);
	process->space = (struct unwind_space){.find = find, .ctx = process, .generation = 1};
	process->sampled = (struct sample_regs){.abi = PERF_SAMPLE_REGS_ABI_64, .mask = mask, .regs = process->regs};
	process->chain = (struct unwind_chain){.ips = process->ips, .cfas = process->cfas, .max = NR_WORDS};
	return process;
}

static int build_from(struct process *process, int fd)
{
	struct diag why = {""};

	assert_true(fd >= 0);
	int err = unwind_object_build(process->object, fd, &why);
	int complete_err = err && err != -EBADMSG ? 0 : unwind_object_complete(process->object);
	return err ? err : complete_err;
}

static int build(struct process *process, const struct fake_elf *elf)
{
	if (process->fd >= 0)
		close(process->fd);
	process->fd = fake_elf_open(elf);
	return build_from(process, process->fd);
}

static int start(void **state)
{
	struct process *process = new_process("x86_64", SAMPLED_MASK);
	struct fake_elf elf;

	make_x86(&elf);
	assert_int_equal(build(process, &elf), -EBADMSG); /* one function is broken on purpose */
	assert_int_equal(unwind_object_state(process->object), UNWIND_OBJECT_READY);
	process->regs[SP] = STACK;
	*state = process;
	return 0;
}

static int end(void **state)
{
	struct process *process = *state;

	unwind_cache_free(process->cache);
	unwind_tables_free(process->tables);
	if (process->fd >= 0)
		close(process->fd);
	free(process);
	return 0;
}

static void unwind_once(struct process *process, size_t nr_words)
{
	unwind_chain(process->cache, &process->space, &process->sampled,
		     (struct span){process->words, nr_words * sizeof(process->words[0])}, &process->chain);
}

/* With the code that is needed. */
static void unwind_sampled(struct process *process, size_t nr_words)
{
	unwind_once(process, nr_words);
	if (process->chain.end != UNWIND_NOT_READY || !unwind_object_lacks_code(process->object))
		return;
	assert_int_equal(unwind_object_build(process->object, process->fd, NULL), 0);
	unwind_once(process, nr_words);
}

/* A sample at that byte of the code. */
static void unwind_at(struct process *process, uint64_t code, size_t nr_words)
{
	process->regs[IP] = BASE + code;
	unwind_sampled(process, nr_words);
}

#define CHAIN(...) (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)

static void assert_chain(const struct process *process, enum unwind_end why, const uint64_t *ips, size_t nr)
{
	assert_int_equal(process->chain.end, why);
	assert_int_equal(process->chain.nr, nr);
	assert_memory_equal(process->ips, ips, nr * sizeof(*ips));
}

static void test_simple_frames(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;

	words[0] = BASE + SAVES + 8; /* back from the leaf; rsp is STACK + 8 then */
	words[2] = 7777;             /* rbx */
	words[3] = STACK + 8 * 8;    /* rbp: of WITH_FRAME */
	words[4] = BASE + WITH_FRAME + 0x10;
	words[8] = 0;
	words[9] = BASE + OUTERMOST + 4;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_COMPLETE,
		     CHAIN(BASE + FRAMELESS + 5, BASE + SAVES + 7, BASE + WITH_FRAME + 0xf, BASE + OUTERMOST + 3));
	assert_int_equal(process->cfas[0], STACK + 8);
	assert_int_equal(process->cfas[1], STACK + 8 + 32);
	assert_int_equal(process->cfas[2], STACK + 8 * 8 + 16);
	process->chain.max = 2;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_FULL, CHAIN(BASE + FRAMELESS + 5, BASE + SAVES + 7));
}

/* Who never waits has no chain until another one has made the rows. */
static void test_rows_that_are_yet_to_be_made(void **state)
{
	struct process *process = new_process("x86_64", SAMPLED_MASK);
	struct unwind_cache *other = unwind_cache_new(process->tables), *first = process->cache;
	struct fake_elf elf;

	(void)state;
	assert_non_null(other);
	unwind_cache_prepare(other);
	make_x86(&elf);
	int fd = fake_elf_open(&elf);
	assert_true(fd >= 0);
	assert_int_equal(unwind_object_build(process->object, fd, NULL), 0);
	close(fd);
	process->regs[SP] = STACK;
	process->words[0] = BASE + SAVES + 8;
	process->words[4] = BASE + OUTERMOST + 4;
	process->cache = other;
	process->chain.never_waits = true;
	unwind_at(process, FRAMELESS + 5, 8);
	assert_int_equal(process->chain.end, UNWIND_NOT_READY);
	assert_int_equal(process->chain.nr, 0);
	assert_ptr_equal(process->chain.object, process->object);
	process->cache = first;
	process->chain.never_waits = false;
	unwind_at(process, FRAMELESS + 5, 8);
	assert_int_equal(process->chain.end, UNWIND_COMPLETE);
	process->cache = other;
	process->chain.never_waits = true;
	unwind_at(process, FRAMELESS + 5, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + FRAMELESS + 5, BASE + SAVES + 7, BASE + OUTERMOST + 3));
	process->cache = first;
	unwind_cache_free(other);
	end((void **)&process);
}

/* As one that does not return: behind it stands another function, whose rule is not the caller's. */
static void test_a_call_that_ends_its_function(void **state)
{
	struct process *process = *state;

	process->words[0] = BASE + SAVES + 0x20;
	process->words[4] = BASE + OUTERMOST + 4;
	unwind_at(process, FRAMELESS + 5, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + FRAMELESS + 5, BASE + SAVES + 0x1f, BASE + OUTERMOST + 3));
}

/* A cache that has seen other code finds what one that has seen nothing does. */
static void test_what_a_cache_knows(void **state)
{
	struct process *process = *state;
	struct unwind_cache *used = process->cache;

	for (size_t i = 0; i < NR_WORDS; i++)
		process->words[i] = STACK + 8 * i;
	process->regs[BP] = STACK + 8 * 8;
	for (uint64_t code = FAKE_ELF_CODE_BYTES; code-- > 0;) /* more than it keeps */
		unwind_at(process, code, NR_WORDS);
	for (uint64_t code = 0; code < WIDE_OUTERMOST + 0x20; code++) {
		uint64_t ips[NR_WORDS], cfas[NR_WORDS];
		unwind_at(process, code, NR_WORDS);
		const struct unwind_chain found = process->chain;
		memcpy(ips, process->ips, sizeof(ips));
		memcpy(cfas, process->cfas, sizeof(cfas));
		process->cache = unwind_cache_new(process->tables);
		assert_non_null(process->cache);
		unwind_at(process, code, NR_WORDS);
		assert_chain(process, found.end, ips, found.nr);
		assert_memory_equal(process->cfas, cfas, found.nr * sizeof(cfas[0]));
		unwind_cache_free(process->cache);
		process->cache = used;
	}
}

/* What is still on the stack of a thread is not looked up again. */
static void test_last_chain(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;

	process->chain.cfas = NULL;
	process->chain.thread = 7;
	words[0] = BASE + SAVES + 8;
	words[3] = STACK + 8 * 8; /* rbp: of WITH_FRAME */
	words[4] = BASE + WITH_FRAME + 0x10;
	words[8] = STACK + 8 * 12; /* rbp: of code without CFI */
	words[9] = BASE + GAP + 8;
	words[12] = 0;
	words[13] = BASE + OUTERMOST + 4;
	const uint64_t outer[] = {BASE + SAVES + 7, BASE + WITH_FRAME + 0xf, BASE + GAP + 7, BASE + OUTERMOST + 3};
	for (unsigned round = 0; round < 4; round++) {
		struct unwind_cache *cache = process->cache;
		for (uint64_t code = 0; code < FAKE_ELF_CODE_BYTES && round; code++) { /* no rule is kept */
			process->chain.thread = 0;
			unwind_at(process, code, 1);
		}
		process->chain.thread = 7;
		if (round == 3)
			process->space.generation++;
		process->nr_found = 0;
		unwind_at(process, FRAMELESS + 5, 16);
		assert_int_equal(process->nr_found, round == 0 || round == 3 ? 5 : 1);
		assert_int_equal(process->chain.nr, 5);
		assert_int_equal(process->chain.end, UNWIND_COMPLETE);
		assert_memory_equal(process->ips + 1, outer, sizeof(outer));
		process->chain.max = 3;
		unwind_at(process, FRAMELESS + 5, 16);
		assert_chain(process, UNWIND_FULL, CHAIN(BASE + FRAMELESS + 5, outer[0], outer[1]));
		process->chain.max = NR_WORDS;
		assert_ptr_equal(process->cache, cache);
	}
	/* Another thread has the same words at the same addresses. */
	words[9] = BASE + OUTERMOST + 6;
	process->chain.thread = 8;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + FRAMELESS + 5, outer[0], outer[1], BASE + OUTERMOST + 5));
	/* And the first one has changed what leads to a caller, or only the frame pointer that does. */
	process->chain.thread = 7;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + FRAMELESS + 5, outer[0], outer[1], BASE + OUTERMOST + 5));
	words[3] = STACK + 8 * 12;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + FRAMELESS + 5, outer[0], outer[1], outer[3]));
	/* The stack was copied as far as that before. */
	unwind_at(process, FRAMELESS + 5, 13);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + FRAMELESS + 5, outer[0], outer[1]));
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 16;
}

/* Where a frame begins, and what is known there. */
struct place {
	uint64_t code, fp;
	size_t at;
};

/* A stack of random functions. Returns how many; after the last one comes the outermost. */
static size_t put_frames(struct process *process, uint32_t *random, struct place places[NR_WORDS])
{
	static const uint64_t functions[] = {FRAMELESS,   SAVES, WITH_FRAME, GAP,
					     UNSAVED_RBP, CLANG, REALIGNED,  TRAMPOLINE};
	uint64_t *words = process->words, unused, *ra = &unused, *fp = &process->regs[BP];
	size_t at = 0, nr = 0;

	for (size_t i = 0; i < NR_WORDS; i++)
		words[i] = STACK + 8 * (next_random(random) % NR_WORDS);
	while (at + 8 < NR_WORDS) {
		uint64_t function = functions[next_random(random) % (sizeof(functions) / sizeof(functions[0]))];
		const bool by_fp =
			function == WITH_FRAME || function == GAP || function == CLANG || function == REALIGNED;
		if (by_fp && !fp)
			continue;
		*ra = BASE + function + 9;
		places[nr] = (struct place){.code = function + 8, .at = at};
		if (function == TRAMPOLINE) { /* a handler has returned to it */
			ra = &words[at + 1];
			words[at + 2] = STACK + 8 * (at + 5);
			fp = &words[at + 3];
			at += 5;
		} else {
			at += by_fp ? 1 + next_random(random) % 3 : function == SAVES ? 2 : function == UNSAVED_RBP;
			if (by_fp)
				words[at - 1] = STACK + 8 * (at + 2); /* of REALIGNED */
			if (by_fp)
				places[nr].fp = *fp = STACK + 8 * at;
			if (by_fp || function == SAVES)
				fp = &words[at++];
			else if (function == UNSAVED_RBP)
				fp = NULL;
			ra = &words[at++];
		}
		nr++;
	}
	*ra = BASE + OUTERMOST + 5;
	if (fp)
		*fp = 0;
	for (size_t i = nr - 1; i-- > 0;) /* what leaves it alone is called with that of its caller */
		places[i].fp = places[i].fp ? places[i].fp : places[i + 1].fp;
	return nr;
}

/* Whatever has changed on a stack since the last chain: the new one is as without that. */
static void test_last_chain_of_random_stacks(void **state)
{
	struct process *process = *state;
	struct unwind_cache *const with = process->cache, *const without = unwind_cache_new(process->tables);
	unsigned nr_whole = 0, nr_cut = 0;
	uint32_t random = 1;

	assert_non_null(without);
	process->chain.cfas = NULL;
	process->space.is_code = is_code;
	for (unsigned round = 0; round < 20000; round++) {
		struct place places[NR_WORDS];
		size_t nr = put_frames(process, &random, places);
		for (unsigned sample = 0; sample < 8; sample++) {
			const struct place *from = &places[next_random(&random) % nr];
			size_t nr_words = NR_WORDS - from->at;
			if (next_random(&random) % 4 == 0)
				process->words[next_random(&random) % NR_WORDS] =
					next_random(&random) % 2 ? BASE + next_random(&random) % CLANG
								 : STACK + 8 * (next_random(&random) % NR_WORDS);
			if (next_random(&random) % 8 == 0)
				nr_words = next_random(&random) % nr_words;
			process->chain.max = next_random(&random) % 4 ? NR_WORDS : next_random(&random) % 8;
			process->space.generation += next_random(&random) % 16 == 0;
			process->regs[SP] = STACK + 8 * from->at;
			process->regs[IP] = BASE + from->code;
			process->regs[BP] =
				next_random(&random) % 8 ? from->fp : STACK + 8 * (next_random(&random) % NR_WORDS);
			const struct span stack = {process->words + from->at, nr_words * 8};
			struct unwind_chain chains[2];
			uint64_t ips[2][NR_WORDS];
			for (unsigned i = 0; i < 2; i++) {
				chains[i] = process->chain;
				chains[i].ips = ips[i];
				chains[i].thread = i ? 1 + next_random(&random) % 2 : 0;
				unwind_chain(i ? with : without, &process->space, &process->sampled, stack, &chains[i]);
			}
			assert_int_equal(chains[1].end, chains[0].end);
			assert_int_equal(chains[1].nr, chains[0].nr);
			assert_memory_equal(ips[1], ips[0], chains[0].nr * 8);
			nr_whole += chains[0].end == UNWIND_COMPLETE;
			nr_cut += chains[0].end == UNWIND_CUT_STACK;
		}
	}
	assert_true(nr_whole > 10000 && nr_cut > 1000);
	unwind_cache_free(without);
}

static void test_why_a_chain_ends(void **state)
{
	(void)state;
	for (unsigned end = 0; end <= UNWIND_NO_REGISTERS; end++) {
		const char *text = unwind_end_text((enum unwind_end)end);
		bool goes_on = end == UNWIND_CONTINUED || end == UNWIND_NOT_READY;
		assert_int_equal(!text, end == UNWIND_COMPLETE || end == UNWIND_FULL || goes_on);
		for (unsigned other = 0; text && other < end; other++)
			if (unwind_end_text((enum unwind_end)other))
				assert_string_not_equal(text, unwind_end_text((enum unwind_end)other));
	}
}

/* As python -X perf_jit describes its functions: push rbp; mov rbp, rsp; ... */
static void test_code_in_memory(void **state)
{
	static const uint8_t eh_frame[] = {20,
					   0,
					   0,
					   0,
					   0,
					   0,
					   0,
					   0,
					   1,
					   'z',
					   'R',
					   0,
					   1,
					   0x78,
					   16,
					   1,
					   DW_EH_PE_pcrel | DW_EH_PE_sdata4,
					   DW_CFA_def_cfa,
					   7,
					   8,
					   DW_CFA_offset | 16,
					   1,
					   0,
					   0, /* of the function: 0x20 bytes of code are before, 32 of this */
					   20,
					   0,
					   0,
					   0,
					   28,
					   0,
					   0,
					   0,
					   0xc0,
					   0xff,
					   0xff,
					   0xff,
					   CODE_BYTES,
					   0,
					   0,
					   0,
					   0,
					   DW_CFA_advance_loc | 1,
					   DW_CFA_def_cfa_offset,
					   16,
					   DW_CFA_offset | 6,
					   2,
					   0,
					   0,
					   0,
					   0,
					   0,
					   0};
	struct process *process = *state;

	process->words[0] = BASE + OUTERMOST + 1;
	process->words[1] = BASE + OUTERMOST + 2;
	process->code = unwind_tables_object(process->tables, "code", 4);
	assert_non_null(process->code);
	assert_int_equal(unwind_object_build_code(process->code, CODE_BYTES, (struct span){eh_frame, sizeof(eh_frame)}),
			 0);
	assert_int_equal(unwind_object_build_code(process->code, CODE_BYTES, (struct span){0}), -EALREADY);
	unwind_at(process, OTHER - BASE, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(OTHER, BASE + OUTERMOST));
	unwind_at(process, OTHER - BASE + 1, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(OTHER + 1, BASE + OUTERMOST + 1));

	struct unwind_object *other = unwind_tables_object(process->tables, "none", 4);
	assert_int_equal(unwind_object_build_code(other, CODE_BYTES, (struct span){0}), -ENOENT);
	assert_int_equal(unwind_object_state(other), UNWIND_OBJECT_NO_TABLE);
}

/* Each row of WITH_FRAME: before and after its push, behind its pop. */
static void test_rows_of_a_function(void **state)
{
	struct process *process = *state;

	process->words[0] = BASE + OUTERMOST + 1;
	process->words[1] = BASE + OUTERMOST + 2;
	process->words[5] = BASE + OUTERMOST + 3;
	process->regs[BP] = STACK + 32;
	unwind_at(process, WITH_FRAME, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + WITH_FRAME, BASE + OUTERMOST));
	unwind_at(process, WITH_FRAME + 1, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + WITH_FRAME + 1, BASE + OUTERMOST + 1));
	unwind_at(process, WITH_FRAME + 4, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + WITH_FRAME + 4, BASE + OUTERMOST + 2));
	unwind_at(process, WITH_FRAME + 0x1e, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + WITH_FRAME + 0x1e, BASE + OUTERMOST));
	unwind_at(process, WITH_FRAME + 0x1f, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + WITH_FRAME + 0x1f, BASE + OUTERMOST + 2));
}

/* A register that was popped has its value; one that is saved below the stack pointer may have any. */
static void test_popped_registers(void **state)
{
	struct process *process = *state;

	process->words[0] = BASE + WITH_FRAME + 0x10;
	process->words[4] = STACK + 256;
	process->words[5] = BASE + OUTERMOST + 1;
	process->regs[BP] = STACK + 32;
	unwind_at(process, CLANG + 0xa, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + CLANG + 0xa, BASE + WITH_FRAME + 0xf, BASE + OUTERMOST));
	unwind_at(process, CLANG + 0xb, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + CLANG + 0xb, BASE + OUTERMOST));
	unwind_at(process, RED_ZONE + 4, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + RED_ZONE + 4, BASE + WITH_FRAME + 0xf));
}

/* Behind the `leave` of a function that has aligned its stack. */
static void test_popped_by_leave(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;

	words[0] = BASE + WITH_FRAME + 9;
	words[4] = STACK + 64; /* what the rule says: another frame lies there */
	words[5] = BASE + OUTERMOST + 1;
	words[9] = BASE + OUTERMOST + 9;
	process->regs[BP] = STACK + 32;
	unwind_at(process, LEAVES + 8, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + LEAVES + 8, BASE + WITH_FRAME + 8, BASE + OUTERMOST));
	/* Before it: rbp is where it was stored. */
	words[1] = STACK + 64;
	words[2] = 0;
	words[3] = BASE + WITH_FRAME + 9;
	process->regs[BP] = STACK + 8;
	process->regs[R10] = STACK + 32;
	unwind_at(process, LEAVES + 4, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + LEAVES + 4, BASE + WITH_FRAME + 8, BASE + OUTERMOST + 8));
}

static void test_rare_rules(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;

	process->regs[BP] = STACK + 32;
	words[3] = STACK + 80; /* what the realigned function was called with */
	words[4] = 0;
	words[9] = BASE + OUTERMOST + 4;
	unwind_at(process, REALIGNED + 8, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + REALIGNED + 8, BASE + OUTERMOST + 3));
	assert_int_equal(process->cfas[0], STACK + 80);

	process->regs[R10] = STACK + 72;
	unwind_at(process, LEAF_R10 + 8, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + LEAF_R10 + 8, BASE + OUTERMOST + 3));

	process->regs[AX] = BASE + OUTERMOST + 8;
	unwind_at(process, RA_IN_RAX + 8, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + RA_IN_RAX + 8, BASE + OUTERMOST + 7));

	words[0] = BASE + OUTERMOST + 1;
	words[1] = BASE + OUTERMOST + 2;
	unwind_at(process, PLT + 10, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + PLT + 10, BASE + OUTERMOST));
	unwind_at(process, PLT + 27, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + PLT + 27, BASE + OUTERMOST + 1));
	/* What it leaves alone its caller finds again. */
	process->regs[BP] = STACK + 32;
	words[0] = BASE + WITH_FRAME + 8;
	words[4] = 0;
	words[5] = BASE + OUTERMOST + 4;
	unwind_at(process, PLT + 10, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + PLT + 10, BASE + WITH_FRAME + 7, BASE + OUTERMOST + 3));
}

/* Registers whose values are computed; one that cannot be is lost, and the chain goes on. */
static void test_computed_registers(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;

	process->regs[BP] = 1;
	words[0] = BASE + WITH_FRAME + 8; /* its rbp: STACK + 24 */
	words[3] = 0;
	words[4] = BASE + WIDE_OUTERMOST + 4;
	unwind_at(process, VALUES + 8, 8);
	assert_chain(process, UNWIND_COMPLETE,
		     CHAIN(BASE + VALUES + 8, BASE + WITH_FRAME + 7, BASE + WIDE_OUTERMOST + 3));
	assert_int_equal(process->cfas[0], STACK + 8);
	assert_int_equal(process->cfas[1], STACK + 24 + 16);
	words[4] = BASE + SAME_RA + 4;
	unwind_at(process, VALUES + 8, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + VALUES + 8, BASE + WITH_FRAME + 7, BASE + SAME_RA + 3));
}

/* What was interrupted is where it was, not behind a call; so is the trampoline that nothing has called. */
static void test_signal(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;

	words[0] = BASE + TRAMPOLINE;    /* the handler returns there */
	words[1 + 1] = BASE + FRAMELESS; /* was interrupted at its first byte */
	words[1 + 2] = STACK + 64;       /* its rsp */
	words[1 + 3] = 0;                /* its rbp */
	words[8] = BASE + OUTERMOST + 4;
	/*
	 * The byte before the trampoline is another function's: the kernel's signal frames are looked up one lower,
	 * too.
	 */
	unwind_at(process, FRAMELESS + 5, 16);
	assert_int_equal(process->chain.nr > 1, 1);
	words[0] = BASE + TRAMPOLINE + 1;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_COMPLETE,
		     CHAIN(BASE + FRAMELESS + 5, BASE + TRAMPOLINE + 1, BASE + FRAMELESS, BASE + OUTERMOST + 3));
	/* The handler had a stack of its own; of the other one nothing was sampled. */
	static const struct {
		uint64_t rsp;
		enum unwind_end end;
	} interrupted[] = {{0x100000, UNWIND_OTHER_STACK},
			   {STACK - 8, UNWIND_OTHER_STACK},
			   {STACK + 8 + UINT64_C(65536), UNWIND_OTHER_STACK},
			   {STACK + UINT64_C(65536), UNWIND_CUT_STACK}, /* a larger copy may have it */
			   {STACK + 16 * 8, UNWIND_CUT_STACK}};
	process->chain.dump_bytes = 16 * 8;
	for (size_t i = 0; i < sizeof(interrupted) / sizeof(interrupted[0]); i++) {
		words[1 + 2] = interrupted[i].rsp;
		unwind_at(process, FRAMELESS + 5, 16);
		assert_chain(process, interrupted[i].end,
			     CHAIN(BASE + FRAMELESS + 5, BASE + TRAMPOLINE + 1, BASE + FRAMELESS));
	}
	/* That the copy is short says nothing of the other stack. */
	process->chain.dump_bytes = 17 * 8;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_SHORT_COPY, CHAIN(BASE + FRAMELESS + 5, BASE + TRAMPOLINE + 1, BASE + FRAMELESS));
	words[1 + 2] = 0x100000;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_OTHER_STACK, CHAIN(BASE + FRAMELESS + 5, BASE + TRAMPOLINE + 1, BASE + FRAMELESS));
	/* The register that it says to have its return address is that of the instruction itself. */
	words[1 + 1] = BASE + SAME_RA + 4;
	words[1 + 2] = STACK + 64;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_BAD_MEMORY,
		     CHAIN(BASE + FRAMELESS + 5, BASE + TRAMPOLINE + 1, BASE + SAME_RA + 4));
}

enum { CONTEXT_BP = 10, CONTEXT_SP = 15, CONTEXT_IP = 16, CONTEXT_REGISTERS = 5 };

/* The frame of a signal handler returns there; what it interrupted was at `pc`. */
static void put_signal_context(uint64_t *words, uint64_t trampoline, uint64_t sp, uint64_t pc)
{
	uint64_t *registers = words + 1 + CONTEXT_REGISTERS;

	memset(words, 0, (1 + CONTEXT_REGISTERS + 23) * sizeof(*words));
	words[0] = trampoline;
	registers[CONTEXT_BP] = STACK + 8 * 50;
	registers[CONTEXT_SP] = sp;
	registers[CONTEXT_IP] = pc;
}

/* musl's and Go's: nothing describes it, and the function before it ends with a call. It is known by its bytes. */
static void test_trampoline_without_cfi(void **state)
{
	static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	enum { AT = GAP + 8, FILE_AT = FAKE_ELF_CODE + AT };
	struct process *process = *state;
	uint64_t *words = process->words;
	struct fake_elf elf;

	make_x86(&elf);
	memcpy(elf.bytes + FILE_AT, code, sizeof(code));
	struct unwind_object *object = unwind_tables_object(process->tables, "with", 4);
	int fd = fake_elf_open(&elf);
	assert_int_equal(unwind_object_build(object, fd, NULL), 0);
	close(fd);
	process->object = object;
	process->space.generation++;
	put_signal_context(words, BASE + AT, STACK + 8 * 40, BASE + WITH_FRAME + 8);
	words[50] = 0;
	words[51] = BASE + OUTERMOST + 4;
	unwind_at(process, FRAMELESS + 5, NR_WORDS);
	assert_chain(process, UNWIND_COMPLETE,
		     CHAIN(BASE + FRAMELESS + 5, BASE + AT, BASE + WITH_FRAME + 8, BASE + OUTERMOST + 3));
	/* What it interrupted cannot be below the handler, and may be on another stack. */
	words[1 + CONTEXT_REGISTERS + CONTEXT_SP] = STACK;
	unwind_at(process, FRAMELESS + 5, NR_WORDS);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + FRAMELESS + 5, BASE + AT));
	words[1 + CONTEXT_REGISTERS + CONTEXT_SP] = 0x100000;
	words[1 + CONTEXT_REGISTERS + CONTEXT_IP] = BASE + FRAMELESS;
	unwind_at(process, FRAMELESS + 5, NR_WORDS);
	assert_chain(process, UNWIND_OTHER_STACK, CHAIN(BASE + FRAMELESS + 5, BASE + AT, BASE + FRAMELESS));
	/* What was stored was not copied. */
	unwind_at(process, FRAMELESS + 5, 12);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + FRAMELESS + 5, BASE + AT));
	/* Code that only looks like the end of it, and one byte behind it. */
	words[0] = BASE + AT + 10;
	unwind_at(process, FRAMELESS + 5, NR_WORDS);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + FRAMELESS + 5, BASE + AT + 9));
}

static void put_start(struct fake_elf *elf, uint64_t code)
{
	const Elf64_Addr entry = FAKE_ELF_CODE + FAKE_ELF_SHIFT + code;

	memcpy(elf->bytes + offsetof(Elf64_Ehdr, e_entry), &entry, sizeof(entry));
}

/*
 * The loader's: nothing describes it, nor what follows, and no code has called it. The kernel has put the arguments on
 * the stack.
 */
static void test_start_without_cfi(void **state)
{
	enum { AT = GAP + 8, ARGUMENTS = 3 };
	struct process *process = *state;
	uint64_t *words = process->words;
	struct fake_elf elf;

	make_x86(&elf);
	put_start(&elf, AT);
	struct unwind_object *object = unwind_tables_object(process->tables, "with", 4);
	int fd = fake_elf_open(&elf);
	assert_int_equal(unwind_object_build(object, fd, NULL), 0);
	close(fd);
	process->object = object;
	process->space.generation++;
	process->regs[BP] = 1;
	words[0] = BASE + AT + 5;
	words[1] = ARGUMENTS;
	words[2] = words[3] = words[4] = BASE + OUTERMOST + 4;
	words[5] = 0;
	for (unsigned i = 0; i < 2; i++) { /* the second time as the first */
		unwind_at(process, FRAMELESS + 5, 16);
		assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + FRAMELESS + 5, BASE + AT + 4));
	}
	unwind_at(process, FRAMELESS + 5, 5); /* their end was not copied */
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + FRAMELESS + 5, BASE + AT + 4));
	/* In the first instruction. */
	memmove(words, words + 1, 6 * sizeof(*words));
	unwind_at(process, AT, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + AT));
	/* A function behind it, whose stack does not begin so. */
	words[4] = 1;
	unwind_at(process, AT, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + AT));
	words[4] = words[0] = 0;
	unwind_at(process, AT, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + AT));
	/* In code that is described it says nothing. */
	make_x86(&elf);
	put_start(&elf, SAVES + 8);
	object = process->object = unwind_tables_object(process->tables, "inside", 6);
	fd = fake_elf_open(&elf);
	assert_int_equal(unwind_object_build(object, fd, NULL), 0);
	close(fd);
	process->space.generation++;
	words[3] = BASE + OUTERMOST + 4;
	for (unsigned at = 0; at < 0x20; at++) {
		unwind_at(process, SAVES + at, 16);
		assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + SAVES + at, BASE + OUTERMOST + 3));
	}
}

static void test_code_without_cfi(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;

	/* JIT code calls JIT code, which was called by a function of the file. */
	process->regs[BP] = STACK + 16;
	words[2] = STACK + 40;
	words[3] = OTHER + 0x100;
	words[5] = STACK + 8 * 10; /* rbp of WITH_FRAME */
	words[6] = BASE + WITH_FRAME + 8;
	words[11] = BASE + OUTERMOST + 4;
	process->regs[IP] = OTHER;
	unwind_chain(process->cache, &process->space, &process->sampled, (struct span){words, 16 * 8}, &process->chain);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(OTHER, OTHER + 0xff, BASE + WITH_FRAME + 7, BASE + OUTERMOST + 3));
	/* A gap in the file, and behind the end of the last function before it. */
	words[3] = BASE + OUTERMOST + 4;
	unwind_at(process, GAP + 3, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + GAP + 3, BASE + OUTERMOST + 3));
	process->regs[BP] = 1;
	unwind_at(process, GAP, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + GAP));
	process->regs[IP] = OTHER;
	unwind_chain(process->cache, &process->space, &process->sampled, (struct span){words, 16 * 8}, &process->chain);
	assert_chain(process, UNWIND_NO_OBJECT, CHAIN(OTHER));
	/* A frame pointer of 0 ends the chain of those who keep one; of the innermost function nothing is known. */
	process->regs[BP] = 0;
	unwind_at(process, GAP, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + GAP));
	process->regs[BP] = STACK + 16;
	words[2] = 0;
	words[3] = BASE + GAP + 4;
	unwind_at(process, GAP, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + GAP, BASE + GAP + 3));
	/* The lowest frame that can be: at the stack pointer. Below it, or between words, is none. */
	process->regs[BP] = STACK;
	words[0] = 0;
	words[1] = BASE + OUTERMOST + 4;
	unwind_at(process, GAP, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + GAP, BASE + OUTERMOST + 3));
	assert_int_equal(process->cfas[0], STACK + 16);
	process->regs[BP] = STACK - 8;
	unwind_at(process, GAP, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + GAP));
	process->regs[BP] = STACK + 4;
	unwind_at(process, GAP, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + GAP));
	/* The last frame that was copied, and the next word. */
	process->regs[BP] = STACK + 14 * 8;
	words[14] = 0;
	words[15] = BASE + OUTERMOST + 4;
	unwind_at(process, GAP, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + GAP, BASE + OUTERMOST + 3));
	unwind_at(process, GAP, 15);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + GAP));
	/* What stands there can be no code: the frame pointer is used otherwise. */
	words[15] = 4095;
	unwind_at(process, GAP, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + GAP));
	words[15] = UINT64_C(1) << 56;
	unwind_at(process, GAP, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + GAP));
	words[15] = 0;
	unwind_at(process, GAP, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + GAP));
	/* In what does not keep it, 0 is no end: it is called by code that knows where its own was saved. */
	process->regs[BP] = 0;
	words[0] = BASE + GAP + 4;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + FRAMELESS + 5, BASE + GAP + 3));
	/* Nor is a word of 0 above one that is no end of frames. */
	process->regs[BP] = STACK + 14 * 8;
	words[14] = 1;
	words[15] = 0;
	unwind_at(process, GAP, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + GAP));
	/* The caller's frame pointer was not kept. */
	words[1] = BASE + GAP + 4;
	unwind_at(process, UNSAVED_RBP, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + UNSAVED_RBP, BASE + GAP + 3));
}

static void test_broken_function(void **state)
{
	struct process *process = *state;

	process->words[0] = BASE + OUTERMOST + 4;
	unwind_at(process, BROKEN + 3, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + BROKEN + 3, BASE + OUTERMOST + 3));
	unwind_at(process, BROKEN + 4, 8);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + BROKEN + 4));
}

static void test_hostile_stacks(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;

	/* Cut: the return address, or what its frame is found by, is above what was copied. */
	unwind_at(process, SAVES + 4, 3);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + SAVES + 4));
	words[0] = BASE + WITH_FRAME + 8;
	process->regs[BP] = STACK + 4096;
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + FRAMELESS, BASE + WITH_FRAME + 7));
	/* Another stack, below or far above. */
	process->regs[BP] = STACK - 4096;
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + FRAMELESS, BASE + WITH_FRAME + 7));
	process->regs[BP] = UINT64_C(0x7fffffff0000);
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + FRAMELESS, BASE + WITH_FRAME + 7));
	process->regs[BP] = UINT64_MAX - 7;
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + FRAMELESS, BASE + WITH_FRAME + 7));
	/* A frame that is its own caller. */
	process->regs[BP] = STACK + 16;
	words[2] = STACK + 16;
	words[3] = BASE + WITH_FRAME + 8;
	unwind_at(process, WITH_FRAME + 8, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + WITH_FRAME + 8, BASE + WITH_FRAME + 7));
	unwind_at(process, MISALIGNED, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + MISALIGNED));
	unwind_at(process, BACKWARDS, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + BACKWARDS));
	unwind_at(process, LOOP, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + LOOP));
	/* The frame is known, but not where it goes back to: that is above the copy, or nowhere on this stack. */
	process->regs[BP] = STACK + 16;
	words[1] = STACK + 4096;
	unwind_at(process, REALIGNED, 8);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + REALIGNED));
	words[1] = STACK - 8; /* below the stack pointer */
	unwind_at(process, REALIGNED, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + REALIGNED));
	assert_int_equal(process->cfas[0], 0);
	words[1] = STACK + (UINT64_C(1) << 30);
	unwind_at(process, REALIGNED, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + REALIGNED));
	words[0] = BASE + RA_IN_RAX + 1; /* of callers, rax is lost */
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + FRAMELESS, BASE + RA_IN_RAX));
	/* What would be needed was not kept. */
	words[0] = 0;
	words[1] = BASE + WITH_FRAME + 8;
	unwind_at(process, UNSAVED_RBP, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + UNSAVED_RBP, BASE + WITH_FRAME + 7));
	/* A return address that no program can have. */
	words[0] = 1;
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + FRAMELESS));
	/* A few bytes of stack, less than a word. */
	unwind_chain(process->cache, &process->space, &process->sampled, (struct span){words, 7}, &process->chain);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + FRAMELESS));
}

/* Where less was copied than was asked for, as a page was not there, more to be asked for would not help. */
static void test_short_copies(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;

	process->chain.dump_bytes = 4 * 8;
	unwind_at(process, SAVES + 4, 3);
	assert_chain(process, UNWIND_SHORT_COPY, CHAIN(BASE + SAVES + 4));
	process->chain.dump_bytes = 3 * 8 + 1;
	unwind_at(process, SAVES + 4, 3);
	assert_chain(process, UNWIND_SHORT_COPY, CHAIN(BASE + SAVES + 4));
	process->chain.dump_bytes = 3 * 8; /* all of it */
	unwind_at(process, SAVES + 4, 3);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + SAVES + 4));
	process->chain.dump_bytes = 16 * 8;
	words[0] = BASE + WITH_FRAME + 8;
	process->regs[BP] = STACK + 4096; /* more than was asked for */
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_SHORT_COPY, CHAIN(BASE + FRAMELESS, BASE + WITH_FRAME + 7));
	/* The stack may have ended there: other ends are what they were. */
	process->regs[BP] = STACK - 4096;
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + FRAMELESS, BASE + WITH_FRAME + 7));
	words[0] = BASE + OUTERMOST + 4;
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + FRAMELESS, BASE + OUTERMOST + 3));
	words[0] = 1;
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + FRAMELESS));
	/* The kernel's own chain leads on as from any copy that ends. */
	const uint64_t recorded[] = {BASE + WITH_FRAME + 8, BASE + OUTERMOST + 4};
	process->regs[BP] = STACK + 8 * 8;
	process->chain.recorded = recorded;
	process->chain.nr_recorded = 2;
	unwind_at(process, WITH_FRAME + 8, 8);
	assert_chain(process, UNWIND_CONTINUED, CHAIN(BASE + WITH_FRAME + 8, BASE + OUTERMOST + 3));
	process->chain.nr_recorded = 1;
	unwind_at(process, WITH_FRAME + 8, 8);
	assert_chain(process, UNWIND_SHORT_COPY, CHAIN(BASE + WITH_FRAME + 8));
}

/* Where the copy ends the chain goes on with what the kernel found by frame pointers, if that leads to this frame. */
static void test_chains_that_the_kernel_continues(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;
	uint64_t recorded[] = {BASE + FRAMELESS + 5, BASE + WITH_FRAME + 0x11, BASE + SAVES + 9,
			       UINT64_MAX - 511 /* no address, but a mark */, BASE + OUTERMOST + 4};

	words[0] = BASE + WITH_FRAME + 8;
	words[4] = STACK + 10 * 8; /* its frame, and the next one */
	words[5] = recorded[1];
	process->regs[BP] = STACK + 4 * 8;
	process->chain.recorded = recorded;
	process->chain.nr_recorded = 5;
	for (size_t nr_words = 6; nr_words < 12; nr_words++) {
		unwind_at(process, FRAMELESS + 5, nr_words);
		assert_chain(process, UNWIND_CONTINUED,
			     CHAIN(BASE + FRAMELESS + 5, BASE + WITH_FRAME + 7, BASE + WITH_FRAME + 0x10,
				   BASE + SAVES + 8, BASE + OUTERMOST + 3));
		assert_true(process->cfas[2] == STACK + 12 * 8 && !process->cfas[3] && !process->cfas[4]);
	}
	/* The frame that is missing is the first one that a frame pointer leads to. */
	for (size_t nr_words = 4; nr_words < 6; nr_words++) {
		unwind_at(process, FRAMELESS + 5, nr_words);
		assert_chain(process, UNWIND_CONTINUED,
			     CHAIN(BASE + FRAMELESS + 5, BASE + WITH_FRAME + 7, BASE + WITH_FRAME + 0x10,
				   BASE + SAVES + 8, BASE + OUTERMOST + 3));
	}
	/* So, too, in code without unwind information. */
	unwind_at(process, GAP, 4);
	assert_chain(process, UNWIND_CONTINUED,
		     CHAIN(BASE + GAP, BASE + WITH_FRAME + 0x10, BASE + SAVES + 8, BASE + OUTERMOST + 3));
	process->chain.max = 4;
	unwind_at(process, FRAMELESS + 5, 8);
	assert_chain(process, UNWIND_CONTINUED,
		     CHAIN(BASE + FRAMELESS + 5, BASE + WITH_FRAME + 7, BASE + WITH_FRAME + 0x10, BASE + SAVES + 8));
	process->chain.max = NR_WORDS;
	/* It may end too soon, too. */
	process->chain.nr_recorded = 3;
	unwind_at(process, FRAMELESS + 5, 8);
	assert_chain(process, UNWIND_CUT_STACK,
		     CHAIN(BASE + FRAMELESS + 5, BASE + WITH_FRAME + 7, BASE + WITH_FRAME + 0x10, BASE + SAVES + 8));
	assert_true(process->chain.is_continued);
	/* The kernel's chain ends before, is another one, or the frame is not of those that it saw. */
	process->chain.nr_recorded = 2;
	unwind_at(process, FRAMELESS + 5, 8);
	assert_chain(process, UNWIND_CUT_STACK,
		     CHAIN(BASE + FRAMELESS + 5, BASE + WITH_FRAME + 7, BASE + WITH_FRAME + 0x10));
	assert_false(process->chain.is_continued);
	process->chain.nr_recorded = 5;
	recorded[1]++;
	unwind_at(process, FRAMELESS + 5, 8);
	assert_chain(process, UNWIND_CUT_STACK,
		     CHAIN(BASE + FRAMELESS + 5, BASE + WITH_FRAME + 7, BASE + WITH_FRAME + 0x10));
	recorded[1]--;
	unwind_at(process, SAVES + 4, 3);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + SAVES + 4));
	/* From the stack of a signal handler, which has the interrupted frame pointer, to the one that it interrupted.
	 */
	const uint64_t other[] = {BASE + WITH_FRAME + 8, BASE + TRAMPOLINE + 1, BASE + SAVES + 9, BASE + OUTERMOST + 4};
	process->regs[BP] = STACK;
	words[0] = 0x100000;
	words[1] = BASE + TRAMPOLINE + 1;
	words[2 + 1] = BASE + WITH_FRAME + 0x11; /* what was interrupted, its rsp and rbp */
	words[2 + 2] = 0x100000 - 32;
	words[2 + 3] = 0x100000;
	process->chain.recorded = other;
	process->chain.nr_recorded = 4;
	unwind_at(process, WITH_FRAME + 8, 16);
	assert_chain(process, UNWIND_CONTINUED,
		     CHAIN(BASE + WITH_FRAME + 8, BASE + TRAMPOLINE + 1, BASE + WITH_FRAME + 0x11, BASE + SAVES + 8,
			   BASE + OUTERMOST + 3));
	process->chain.nr_recorded = 2;
	unwind_at(process, WITH_FRAME + 8, 16);
	assert_chain(process, UNWIND_OTHER_STACK,
		     CHAIN(BASE + WITH_FRAME + 8, BASE + TRAMPOLINE + 1, BASE + WITH_FRAME + 0x11));
	/* Frame pointers that lead on where the kernel's chain ends: a sanitizer sees what is read behind that. */
	const uint64_t first[] = {recorded[0], recorded[1]};
	process->regs[BP] = STACK;
	words[0] = STACK;
	words[1] = recorded[1];
	process->chain.recorded = first;
	process->chain.nr_recorded = 2;
	unwind_at(process, SAVES + 4, 3);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + SAVES + 4));
}

static void put_section_header(struct fake_elf *elf, uint64_t offset);
static struct unwind_object *build_other(struct process *process, const char *id, const struct fake_elf *elf);

/* Go: SAVES switches to the thread's stack and calls there, RED_ZONE does not come back, MISALIGNED is called by none.
 */
static void make_go(struct fake_elf *elf, const char *table)
{
	enum { NAMES = 0xc00, SYMBOLS = 0xd00, HEADERS = 0xe00 }; /* where the code does not matter */
	static const struct {
		uint32_t start;
		const char *name;
	} functions[] = {{SAVES, "runtime.systemstack.abi0"},
			 {RED_ZONE, "runtime.mcall"},
			 {MISALIGNED, "runtime.systemstack_switch.abi0"},
			 {WITH_FRAME, "runtime.systemstacks"}};
	Elf64_Sym symbols[5] = {{0}};
	char names[0x100] = "";
	size_t names_bytes = 1;
	Elf64_Ehdr header;

	make_x86(elf);
	for (size_t i = 0; i < 4; i++) {
		symbols[i + 1] = (Elf64_Sym){.st_name = (uint32_t)names_bytes,
					     .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
					     .st_value = FAKE_ELF_CODE + FAKE_ELF_SHIFT + functions[i].start,
					     .st_size = 0x20};
		strcpy(names + names_bytes, functions[i].name);
		names_bytes += strlen(functions[i].name) + 1;
	}
	strcpy(names + names_bytes, table);
	const Elf64_Shdr sections[] = {
		{.sh_type = SHT_NULL},
		{.sh_name = (uint32_t)names_bytes, .sh_type = SHT_PROGBITS, .sh_offset = 1, .sh_size = 1},
		{.sh_type = SHT_STRTAB, .sh_offset = FAKE_ELF_CODE + NAMES, .sh_size = sizeof(names)},
		{.sh_type = SHT_SYMTAB, .sh_offset = FAKE_ELF_CODE + SYMBOLS, .sh_size = sizeof(symbols), .sh_link = 2},
	};
	put_section_header(elf, FAKE_ELF_CODE + HEADERS);
	memcpy(&header, elf->bytes, sizeof(header));
	header.e_shnum = 4;
	memcpy(elf->bytes, &header, sizeof(header));
	memcpy(elf->bytes + FAKE_ELF_CODE + NAMES, names, sizeof(names));
	memcpy(elf->bytes + FAKE_ELF_CODE + SYMBOLS, symbols, sizeof(symbols));
	memcpy(elf->bytes + FAKE_ELF_CODE + HEADERS, sections, sizeof(sections));
}

/* What stands above the switch on the thread's stack is of an earlier time: FRAMELESS. */
static void test_stacks_that_go_switches(void **state)
{
	enum { GOROUTINE = 0x100000 };
	struct process *process = *state;
	uint64_t *words = process->words;
	const uint64_t recorded[] = {1, BASE + SAVES + 9, BASE + OUTERMOST + 4}, *behind = recorded + 1;
	struct fake_elf elf;

	make_go(&elf, ".gopclntab");
	process->object = build_other(process, "go", &elf);
	process->space.generation++;
	for (size_t i = 0; i < NR_WORDS; i++)
		words[i] = BASE + OUTERMOST + 4;
	/* A function that keeps a frame was called behind the switch: its own frame has the goroutine's frame pointer.
	 */
	process->regs[BP] = STACK + 16;
	words[2] = GOROUTINE;
	words[3] = BASE + SAVES + 9;
	unwind_at(process, WITH_FRAME + 8, 16);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + WITH_FRAME + 8, BASE + SAVES + 8));
	process->chain.recorded = recorded;
	process->chain.nr_recorded = 3;
	unwind_at(process, WITH_FRAME + 8, 16);
	assert_chain(process, UNWIND_CONTINUED, CHAIN(BASE + WITH_FRAME + 8, BASE + SAVES + 8, BASE + OUTERMOST + 3));
	/* Nothing was stored yet, or it is C's; the switch itself; a goroutine may go on elsewhere. */
	process->regs[BP] = GOROUTINE;
	process->chain.recorded = behind;
	process->chain.nr_recorded = 2;
	words[0] = BASE + SAVES + 9;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_CONTINUED, CHAIN(BASE + FRAMELESS + 5, BASE + SAVES + 8, BASE + OUTERMOST + 3));
	unwind_at(process, SAVES + 5, 16);
	assert_chain(process, UNWIND_CONTINUED, CHAIN(BASE + SAVES + 5, BASE + OUTERMOST + 3));
	words[0] = BASE + RED_ZONE + 9;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + FRAMELESS + 5, BASE + RED_ZONE + 8));
	/* What was called has changed the frame pointer, and has not stored it where Go does. */
	process->regs[BP] = STACK + 14 * 8;
	words[0] = BASE + SAVES + 9;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + FRAMELESS + 5, BASE + SAVES + 8));
	/* A function that C has called: the goroutine's stack says so by the first byte of a function. */
	process->chain.nr_recorded = 0;
	words[0] = BASE + MISALIGNED;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_CONTINUED, CHAIN(BASE + FRAMELESS + 5, BASE + MISALIGNED, BASE + OUTERMOST + 3));
	/* Functions of these names in a program that is not Go's are others. */
	make_go(&elf, ".gopclntaB");
	process->object = build_other(process, "c", &elf);
	process->space.generation++;
	words[0] = BASE + SAVES + 9;
	unwind_at(process, FRAMELESS + 5, 16);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + FRAMELESS + 5, BASE + SAVES + 8, BASE + OUTERMOST + 3));
}

/* Code without CFI where rbp is still, or again, that of its caller: else that caller would be left out. */
static void test_no_frame_yet(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;

	process->space.is_code = is_code;
	process->regs[BP] = STACK + 8 * 4; /* the frame of the caller, in code without CFI as well */
	words[4] = 0;
	words[5] = BASE + OUTERMOST + 4;
	words[0] = OTHER + 8;
	unwind_at(process, GAP, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + GAP, OTHER + 7, BASE + OUTERMOST + 3));
	words[0] = process->regs[BP]; /* it was pushed */
	words[1] = OTHER + 8;
	unwind_at(process, GAP, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + GAP, OTHER + 7, BASE + OUTERMOST + 3));
	unwind_at(process, GAP, 1);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + GAP));
	/* From a caller with CFI, by the stack pointer behind the return address. */
	process->regs[BP] = STACK + 8 * 7;
	words[0] = BASE + SAVES + 8;
	words[3] = process->regs[BP];
	words[4] = BASE + WITH_FRAME + 8;
	words[7] = 0;
	words[8] = BASE + OUTERMOST + 4;
	unwind_at(process, GAP, 12);
	assert_chain(process, UNWIND_COMPLETE,
		     CHAIN(BASE + GAP, BASE + SAVES + 7, BASE + WITH_FRAME + 7, BASE + OUTERMOST + 3));
	process->chain.max = 2;
	unwind_at(process, GAP, 12);
	assert_chain(process, UNWIND_FULL, CHAIN(BASE + GAP, BASE + SAVES + 7));
	process->chain.max = NR_WORDS;
	unwind_at(process, GAP, 8);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + GAP, BASE + SAVES + 7, BASE + WITH_FRAME + 7));
	/* A number that is an address of code by chance, in a function that has its frame: it leads to nothing. */
	words[0] = BASE + SAVES + 8;
	words[4] = STACK;
	unwind_at(process, GAP, 12);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + GAP, BASE + OUTERMOST + 3));
	words[0] = BASE + UNSAVED_RBP + 8;
	unwind_at(process, GAP, 2);
	assert_chain(process, UNWIND_CUT_STACK, CHAIN(BASE + GAP));
	/* Where it is not known what may be executed any number could be one. */
	words[0] = OTHER + 8;
	process->space.is_code = NULL;
	process->space.generation++;
	unwind_at(process, GAP, 12);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + GAP, BASE + OUTERMOST + 3));
}

/* A call behind which that return address is. */
static void put_call(struct fake_elf *elf, uint32_t return_address, uint32_t target)
{
	const uint32_t distance = target - return_address;

	elf->bytes[FAKE_ELF_CODE + return_address - 5] = 0xe8;
	memcpy(elf->bytes + FAKE_ELF_CODE + return_address - 4, &distance, sizeof(distance));
}

/* SAVES calls several functions. Nothing was read of the code yet. */
static struct process *new_caller(void)
{
	struct process *process = new_process("x86_64", SAMPLED_MASK);
	struct fake_elf elf;

	make_x86(&elf);
	put_call(&elf, SAVES + 8, GAP);
	put_call(&elf, SAVES + 0xd, FRAMELESS);
	put_call(&elf, SAVES + 0x12, GAP + 0x10);
	put_call(&elf, SAVES + 0x17, UINT32_MAX / 2);
	memcpy(elf.bytes + FAKE_ELF_CODE + SAVES + 0x1c - 7, "\xff\x94\xe8\0\0\0\0", 7);
	const uint32_t distance = GAP - (SAVES + 0x1c); /* of `call *distance(rax, rbp, 8)` */
	memcpy(elf.bytes + FAKE_ELF_CODE + SAVES + 0x1c - 4, &distance, sizeof(distance));
	memcpy(elf.bytes + FAKE_ELF_CODE + GAP + 0x10, "\xf3\x0f\x1e\xfa\xf2\xff\x25", 7);
	assert_int_equal(build(process, &elf), -EBADMSG);
	process->space.is_code = is_code;
	process->regs[IP] = BASE + GAP + 4;
	process->regs[SP] = STACK;
	process->regs[BP] = 1;
	process->words[0] = BASE + FRAMELESS + 8;
	process->words[1] = BASE + SAVES + 8;
	process->words[5] = BASE + OUTERMOST + 4;
	return process;
}

/* In code without CFI the word at the top of the stack may be a return address of an earlier call. */
static void test_stale_return_addresses(void **state)
{
	const uint64_t others[] = {SAVES + 0xd, SAVES + 0x12, SAVES + 0x17, SAVES + 0x1c, SAVES + 3};
	struct process *process = new_caller();

	(void)state;
	unwind_at(process, GAP + 4, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + GAP + 4));
	/* It called that function, or one that jumps, or none of the file; or none directly. */
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		process->words[1] = BASE + others[i];
		unwind_at(process, GAP + 4, 16);
		assert_chain(process, UNWIND_COMPLETE,
			     CHAIN(BASE + GAP + 4, BASE + FRAMELESS + 7, BASE + others[i] - 1, BASE + OUTERMOST + 3));
	}
	/* What it called has called itself, or what has called it again. */
	process->words[0] = BASE + GAP + 8;
	process->words[4] = STACK;
	process->words[5] = BASE + SAVES + 8;
	process->words[9] = BASE + OUTERMOST + 4;
	process->regs[BP] = STACK + 4 * 8;
	unwind_at(process, GAP + 4, 16);
	assert_chain(process, UNWIND_COMPLETE,
		     CHAIN(BASE + GAP + 4, BASE + GAP + 7, BASE + SAVES + 7, BASE + OUTERMOST + 3));
	process->words[0] = BASE + FRAMELESS + 8;
	process->words[1] = BASE + GAP + 8;
	unwind_at(process, GAP + 4, 16);
	assert_chain(
		process, UNWIND_COMPLETE,
		CHAIN(BASE + GAP + 4, BASE + FRAMELESS + 7, BASE + GAP + 7, BASE + SAVES + 7, BASE + OUTERMOST + 3));
	end((void **)&process);
}

/* What was called before has returned, as it cannot have jumped to the code that was sampled. */
static void test_functions_that_are_not_left(void **state)
{
	static const struct {
		uint32_t at; /* in a function that ends with `ret` */
		const char *code;
		size_t bytes;
		bool is_left;
	} functions[] = {
		{0, "", 0, false},
		{0x1f, "\x90", 1, true},                      /* goes on behind its end */
		{0x1b, "\xe8\0\0\0\x10", 5, false},           /* ends with a call */
		{4, "\xe9\0\0\0\0", 5, false},                /* jumps in itself, */
		{4, "\x0f\x84\xf6\xff\xff\xff", 6, false},    /* to its start, */
		{4, "\xe9\0\1\0\0", 5, true},                 /* elsewhere, */
		{4, "\x0f\x84\0\1\0\0", 6, true},             /* on a condition, */
		{4, "\xe9\0\0\0\x10", 5, false},              /* to where no code is; */
		{4, "\xff\xe0", 2, true},                     /* by a register, */
		{4, "\x41\xff\x24\xc0", 4, true},             /* by a table; */
		{4, "\xff\xd0", 2, false},                    /* calls */
		{4, "\xe8\0\0\0\0", 5, true},                 /* its own middle, */
		{4, "\xe8\xf7\xff\xff\xff", 5, false},        /* itself; */
		{0x10, "\xeb\x0e", 2, true},                  /* jumps to the next function, */
		{0x10, "\x74\x10", 2, false},                 /* not to its middle, */
		{0x10, "\x74\x0a", 2, false},                 /* nor out, */
		{0x1e, "\x7f\xc3", 2, false},                 /* or that is `ret` */
		{0x1e, "\xeb\xc0", 2, true},                  /* ends with a jump */
		{0, "\xf3\x0f\x1e\xfa\xe9\0\1\0\0", 9, true}, /* is a jump */
		{0, "\xf2\xff\x25\0\0\0\0", 7, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		struct process *process = new_process("x86_64", SAMPLED_MASK);
		struct fake_elf elf;
		make_x86(&elf);
		put_call(&elf, FRAMELESS + 8, RED_ZONE);
		elf.bytes[FAKE_ELF_CODE + RED_ZONE + 0x1f] = 0xc3;
		memcpy(elf.bytes + FAKE_ELF_CODE + RED_ZONE + functions[i].at, functions[i].code, functions[i].bytes);
		assert_int_equal(build(process, &elf), -EBADMSG);
		process->space.is_code = is_code;
		process->regs[SP] = STACK;
		process->regs[BP] = 1;
		process->words[0] = BASE + FRAMELESS + 8;
		process->words[1] = BASE + OUTERMOST + 4;
		const uint64_t codes[] = {GAP + 4, OTHER - BASE + 4}; /* also from code without a file */
		for (size_t k = 0; k < 2; k++) {
			unwind_at(process, codes[k], 16);
			if (process->chain.nr != (functions[i].is_left ? 3 : 1))
				fail_msg("function %zu: %u frames", i, process->chain.nr);
		}
		end((void **)&process);
	}
}

/* The code of a caller is read by others, once; where that is not possible it says nothing. */
static void test_code_that_is_yet_to_be_read(void **state)
{
	struct process *process = new_caller();

	(void)state;
	assert_int_equal(unwind_object_build(process->object, process->fd, NULL), -EALREADY);
	process->chain.never_waits = true;
	unwind_once(process, 16);
	assert_int_equal(process->chain.end, UNWIND_NOT_READY);
	assert_false(unwind_object_lacks_code(process->object));
	process->chain.never_waits = false;
	unwind_once(process, 16);
	assert_int_equal(process->chain.end, UNWIND_NOT_READY);
	assert_int_equal(process->chain.nr, 0);
	assert_ptr_equal(process->chain.object, process->object);
	assert_true(unwind_object_lacks_code(process->object));
	process->chain.never_waits = true;
	unwind_once(process, 16);
	assert_int_equal(process->chain.end, UNWIND_NOT_READY);
	assert_int_equal(unwind_object_build(process->object, process->fd, NULL), 0);
	assert_int_equal(unwind_object_build(process->object, process->fd, NULL), -EALREADY);
	unwind_once(process, 16);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + GAP + 4));
	end((void **)&process);
	process = new_caller();
	unwind_once(process, 16);
	assert_int_equal(unwind_object_build(process->object, -1, NULL), 0);
	unwind_once(process, 16);
	assert_chain(process, UNWIND_COMPLETE,
		     CHAIN(BASE + GAP + 4, BASE + FRAMELESS + 7, BASE + SAVES + 7, BASE + OUTERMOST + 3));
	end((void **)&process);
}

/* What is no address of code by the maps ends the chain: there is no such frame. */
static void test_callers_that_are_no_code(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;

	process->space.is_code = is_code;
	process->regs[BP] = STACK + 8;
	words[0] = STACK; /* where the return address would be */
	words[1] = STACK + 32;
	words[2] = STACK + 8;
	words[4] = 0;
	words[5] = BASE + OUTERMOST + 4;
	unwind_at(process, GAP, 8);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + GAP));
	unwind_at(process, OTHER - BASE, 8);
	assert_chain(process, UNWIND_NO_OBJECT, CHAIN(OTHER));
	unwind_at(process, FRAMELESS + 5, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + FRAMELESS + 5));
	/* With a cache that knows them, too. */
	unwind_at(process, FRAMELESS + 5, 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + FRAMELESS + 5));
	/* A call may be the last instruction of what is mapped, and the kernel's trampoline the first one. */
	words[0] = OTHER + CODE_BYTES;
	unwind_at(process, FRAMELESS + 5, 8);
	assert_chain(process, UNWIND_NO_OBJECT, CHAIN(BASE + FRAMELESS + 5, OTHER + CODE_BYTES - 1));
	words[0] = OTHER;
	unwind_at(process, FRAMELESS + 5, 8);
	assert_chain(process, UNWIND_NO_OBJECT, CHAIN(BASE + FRAMELESS + 5, OTHER - 1));
	/* What was sampled or interrupted is code all the same: its maps are not known. */
	unwind_at(process, OTHER + CODE_BYTES - BASE, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(OTHER + CODE_BYTES, STACK + 7, BASE + OUTERMOST + 3));
	words[0] = BASE + TRAMPOLINE + 1;
	words[1 + 1] = OTHER + CODE_BYTES;
	words[1 + 2] = STACK + 5 * 8;
	words[1 + 3] = 1;
	unwind_at(process, FRAMELESS + 5, 8);
	assert_chain(process, UNWIND_NO_OBJECT, CHAIN(BASE + FRAMELESS + 5, BASE + TRAMPOLINE + 1, OTHER + CODE_BYTES));
}

/* The lowest and the highest addresses that may be code or stack. */
static void test_bounds_of_addresses(void **state)
{
	static const struct {
		uint64_t pc;
		enum unwind_end end;
	} callers[] = {{4095, UNWIND_BAD_MEMORY},
		       {4096, UNWIND_NO_OBJECT},
		       {(UINT64_C(1) << 56) - 1, UNWIND_NO_OBJECT},
		       {UINT64_C(1) << 56, UNWIND_BAD_MEMORY}};
	static const struct {
		uint64_t fp;
		enum unwind_end end;
	} frames[] = {{STACK - 8, UNWIND_NO_CFI},
		      {STACK, UNWIND_COMPLETE},
		      {STACK + 4, UNWIND_NO_CFI},
		      {STACK + 6 * 8, UNWIND_COMPLETE},
		      {STACK + 7 * 8, UNWIND_CUT_STACK},
		      {STACK + (UINT64_C(64) << 20) - 8, UNWIND_CUT_STACK},
		      {STACK + (UINT64_C(64) << 20), UNWIND_NO_CFI}};
	struct process *process = *state;

	process->regs[BP] = 1;
	for (size_t i = 0; i < sizeof(callers) / sizeof(callers[0]); i++) {
		process->words[0] = callers[i].pc;
		unwind_at(process, FRAMELESS, 8);
		assert_int_equal(process->chain.end, callers[i].end);
		assert_int_equal(process->chain.nr, callers[i].end == UNWIND_NO_OBJECT ? 2 : 1);
	}
	memset(process->words, 0, sizeof(process->words)); /* callers at 0: there is none */
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		process->regs[BP] = frames[i].fp;
		unwind_at(process, GAP, 8);
		assert_chain(process, frames[i].end, CHAIN(BASE + GAP));
		assert_int_equal(process->cfas[0], frames[i].end == UNWIND_COMPLETE ? frames[i].fp + 16 : 0);
	}
}

/* `record --user-regs`: these alone, in the order of their numbers. */
static void sample_some(struct process *process, uint64_t mask, uint64_t first, uint64_t second, uint64_t third)
{
	const uint64_t values[] = {first, second, third};

	process->sampled.mask = mask;
	memcpy(process->regs, values, sizeof(values));
	unwind_sampled(process, 16);
}

static void test_with_some_registers(void **state)
{
	const uint64_t two = 1u << SP | 1u << IP, three = two | 1u << BP;
	struct process *process = *state;
	uint64_t *words = process->words;

	process->space.is_code = is_code;
	words[0] = BASE + SAVES + 8;
	words[3] = STACK + 8 * 8; /* rbp */
	words[4] = BASE + WITH_FRAME + 0x10;
	words[8] = 0;
	words[9] = BASE + OUTERMOST + 4;
	const uint64_t chain[] = {BASE + FRAMELESS + 5, BASE + SAVES + 7, BASE + WITH_FRAME + 0xf,
				  BASE + OUTERMOST + 3};
	sample_some(process, three, 1, STACK, BASE + FRAMELESS + 5);
	assert_chain(process, UNWIND_COMPLETE, chain, 4);
	/* That is restored from the stack. */
	sample_some(process, two, STACK, BASE + FRAMELESS + 5, BASE + WITH_FRAME + 8);
	assert_chain(process, UNWIND_COMPLETE, chain, 4);
	/* Here it would be needed, and what stands in its place is none. */
	sample_some(process, three, STACK + 8 * 8, STACK, BASE + WITH_FRAME + 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + WITH_FRAME + 8, BASE + OUTERMOST + 3));
	sample_some(process, two, STACK, BASE + WITH_FRAME + 8, STACK + 8 * 8);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(BASE + WITH_FRAME + 8));
	/* Without unwind information: a word of 0 is not the frame pointer of the caller, which is not known. */
	words[0] = 0;
	words[1] = BASE + OUTERMOST + 4;
	sample_some(process, two, STACK, BASE + GAP + 3, 0);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + GAP + 3));
	sample_some(process, three, 0, STACK, BASE + GAP + 3);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + GAP + 3, BASE + OUTERMOST + 3));
	sample_some(process, 1u << BP | 1u << IP, STACK, BASE + FRAMELESS + 5, 0);
	assert_chain(process, UNWIND_NO_REGISTERS, CHAIN(BASE + FRAMELESS + 5));
}

/* The last chain of a thread is of an event with all registers, the next one of an event with some. */
static void test_some_registers_behind_all(void **state)
{
	struct process *process = *state;
	uint64_t *words = process->words;

	process->chain.cfas = NULL;
	process->chain.thread = 7;
	words[0] = BASE + SAVES + 8;
	words[3] = STACK + 8 * 8;
	words[4] = BASE + WITH_FRAME + 0x10;
	words[9] = BASE + OUTERMOST + 4;
	for (unsigned i = 0; i < 2; i++) {
		process->sampled.mask = SAMPLED_MASK;
		process->regs[SP] = STACK;
		unwind_at(process, FRAMELESS + 5, 16);
		assert_chain(
			process, UNWIND_COMPLETE,
			CHAIN(BASE + FRAMELESS + 5, BASE + SAVES + 7, BASE + WITH_FRAME + 0xf, BASE + OUTERMOST + 3));
		sample_some(process, 1u << SP | 1u << IP, STACK, BASE + FRAMELESS + 6, 0);
		assert_chain(
			process, UNWIND_COMPLETE,
			CHAIN(BASE + FRAMELESS + 6, BASE + SAVES + 7, BASE + WITH_FRAME + 0xf, BASE + OUTERMOST + 3));
	}
}

static void test_without_registers(void **state)
{
	struct process *process = *state;

	process->sampled.abi = PERF_SAMPLE_REGS_ABI_32;
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_NO_REGISTERS, CHAIN(BASE + FRAMELESS));
	assert_int_equal(process->cfas[0], 0);
	/* The kernel's chain is all that is known of its callers. */
	const uint64_t recorded[] = {BASE + FRAMELESS, BASE + SAVES, UINT64_MAX - 511 /* a mark */, 4096, 12};
	process->chain.recorded = recorded;
	process->chain.nr_recorded = 5;
	process->cfas[2] = 1;
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_NO_REGISTERS, CHAIN(BASE + FRAMELESS, BASE + SAVES - 1, 4095));
	assert_int_equal(process->cfas[2], 0);
	process->chain.max = 2;
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_NO_REGISTERS, CHAIN(BASE + FRAMELESS, BASE + SAVES - 1));
	process->chain.max = NR_WORDS;
	process->sampled.abi = PERF_SAMPLE_REGS_ABI_64;
	unwind_at(process, FRAMELESS, 0);
	assert_chain(process, UNWIND_NO_REGISTERS, NULL, 0);
	process->sampled.abi = PERF_SAMPLE_REGS_ABI_32;
	process->sampled.mask = SAMPLED_MASK & ~(UINT64_C(1) << IP);
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_NO_REGISTERS, NULL, 0);
	process->chain.nr_recorded = 0;
	process->sampled.mask = SAMPLED_MASK;
	process->sampled.abi = PERF_SAMPLE_REGS_ABI_64;
	unwind_at(process, FRAMELESS, 0);
	assert_chain(process, UNWIND_NO_REGISTERS, NULL, 0);
	process->sampled.mask = SAMPLED_MASK & ~(1u << SP);
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_NO_REGISTERS, CHAIN(STACK)); /* where IP stands when SP is not sampled */
	process->sampled.mask = SAMPLED_MASK;
	process->words[0] = BASE + OUTERMOST + 1;
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + FRAMELESS, BASE + OUTERMOST));
}

/* What is mapped changes: rules of the former object do not count any more. */
static void test_generations(void **state)
{
	struct process *process = *state;
	struct unwind_object *object = process->object;

	process->words[0] = BASE + OUTERMOST + 1;
	unwind_at(process, FRAMELESS, 8);
	assert_int_equal(process->chain.nr, 2);
	process->object = unwind_tables_object(process->tables, "other", 5);
	assert_ptr_not_equal(process->object, object);
	process->space.generation = 2;
	unwind_at(process, FRAMELESS, 8);
	assert_int_equal(process->chain.end, UNWIND_NOT_READY);
	assert_int_equal(process->chain.nr, 0);
	assert_ptr_equal(process->chain.object, process->object);
	assert_int_equal(unwind_object_build(process->object, -1, NULL), -ENOENT);
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_NO_OBJECT, CHAIN(BASE + FRAMELESS));
	/* Another process finds the file. */
	struct fake_elf elf;
	make_x86(&elf);
	unwind_object_retry(process->object);
	assert_int_equal(build(process, &elf), -EBADMSG); /* the content is known */
	assert_int_equal(build(process, &elf), -EALREADY);
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + FRAMELESS, BASE + OUTERMOST));
	struct unwind_stats stats;
	unwind_tables_stats(process->tables, &stats);
	assert_int_equal(stats.nr_objects, 2);
	assert_int_equal(stats.nr_tables, 1);
	assert_true(stats.nr_rows > 10 && stats.table_bytes >= stats.nr_rows * 6);
}

/* ---- tables ---- */

static int build_elf(const struct fake_elf *elf, size_t max_bytes, struct unwind_stats *ret)
{
	struct process *process = new_process("x86_64", SAMPLED_MASK);

	unwind_tables_free(process->tables);
	process->tables = unwind_tables_new("x86_64", max_bytes);
	process->object = unwind_tables_object(process->tables, "", 0);
	int err = build(process, elf);
	unwind_tables_stats(process->tables, ret);
	void *state = process;
	end(&state);
	return err;
}

static void test_hostile_files(void **state)
{
	struct fake_elf elf;
	struct unwind_stats stats;

	(void)state;
	make_x86(&elf);
	assert_int_equal(build_elf(&elf, 100, &stats), -EFBIG);
	assert_int_equal(stats.table_bytes, 0);
	memset(elf.bytes, 0, 4);
	assert_int_equal(build_elf(&elf, 1 << 20, &stats), -ENOEXEC);
	/* An entry that goes on behind the end of the file: those before count. */
	make_x86(&elf);
	memcpy(elf.bytes + elf.at, "\xf0\xff\xff\x7f", 4);
	assert_int_equal(build_elf(&elf, 1 << 20, &stats), -EBADMSG);
	assert_true(stats.nr_rows > 10);
	/*
	 * Rows that are all behind the end of their function, and a function that overlaps all others: it has the first
	 * bytes, and what follows each of the others has no CFI.
	 */
	fake_elf_init(&elf, EM_X86_64);
	fake_elf_cie(&elf, "zR", BYTES(DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1));
	fake_elf_fde(&elf, 0, FAKE_ELF_CODE_BYTES, BYTES(DW_CFA_def_cfa_offset, 16));
	for (uint32_t i = 0; i < 100; i++)
		fake_elf_fde(&elf, 4 * i, 2, BYTES(DW_CFA_advance_loc4, 0, 0, 0, 0x80, DW_CFA_def_cfa_offset, 24));
	assert_int_equal(build_elf(&elf, 1 << 20, &stats), 0);
	assert_int_equal(stats.nr_rows, 199);
	/* More states remembered than there is room for, and one taken back that was not remembered. */
	fake_elf_fde(&elf, 0x800, 0x20,
		     BYTES(DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
			   DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
			   DW_CFA_remember_state));
	fake_elf_fde(&elf, 0x840, 0x20, BYTES(DW_CFA_restore_state));
	assert_int_equal(build_elf(&elf, 1 << 20, &stats), -EBADMSG);
	assert_int_equal(stats.nr_rows, 199);
	/* Functions outside of the file's code, as a linker leaves them when it removes code. */
	fake_elf_init(&elf, EM_X86_64);
	fake_elf_cie(&elf, "zR", BYTES(DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1));
	fake_elf_fde(&elf, (uint32_t) - (FAKE_ELF_CODE + FAKE_ELF_SHIFT), 0x20, "", 0);
	fake_elf_fde(&elf, FAKE_ELF_CODE_BYTES - 1, 2, "", 0);
	assert_int_equal(build_elf(&elf, 1 << 20, &stats), 0);
	assert_int_equal(stats.nr_rows, 0);
}

/* Three sections, the last of which has their names. */
static void put_section_header(struct fake_elf *elf, uint64_t offset)
{
	Elf64_Ehdr header;

	memcpy(&header, elf->bytes, sizeof(header));
	header.e_shoff = offset;
	header.e_shentsize = sizeof(Elf64_Shdr);
	header.e_shnum = 3;
	header.e_shstrndx = 2;
	memcpy(elf->bytes, &header, sizeof(header));
}

/* With section headers: one, of stubs from the beginning of the code on, with that name. */
static void make_stubs(struct fake_elf *elf, const char *name, uint64_t stub_bytes, uint64_t name_bytes)
{
	enum { NAMES = 0xe00, HEADERS = 0xe80 }; /* where the code does not matter */
	const Elf64_Shdr sections[] = {
		{.sh_type = SHT_NULL},
		{.sh_name = 1,
		 .sh_type = SHT_PROGBITS,
		 .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		 .sh_addr = FAKE_ELF_CODE + FAKE_ELF_SHIFT,
		 .sh_offset = FAKE_ELF_CODE,
		 .sh_size = stub_bytes},
		{.sh_type = SHT_STRTAB, .sh_offset = FAKE_ELF_CODE + NAMES, .sh_size = name_bytes},
	};
	Elf64_Ehdr header;
	Elf64_Phdr segments[3];

	fake_elf_init(elf, EM_X86_64);
	fake_elf_cie(elf, "zR", BYTES(DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1));
	put_section_header(elf, FAKE_ELF_CODE + HEADERS);
	memcpy(&header, elf->bytes, sizeof(header));
	memcpy(segments, elf->bytes + header.e_phoff, sizeof(segments));
	segments[1].p_filesz = segments[1].p_memsz = stub_bytes;
	memcpy(elf->bytes + header.e_phoff, segments, sizeof(segments));
	memcpy(elf->bytes + FAKE_ELF_CODE + NAMES + 1, name, strlen(name));
	memcpy(elf->bytes + FAKE_ELF_CODE + HEADERS, sections, sizeof(sections));
}

/* Of a file that ends in a hole. */
static int build_with_stubs(uint64_t stub_bytes, uint64_t name_bytes, uint64_t file_bytes, struct unwind_stats *ret)
{
	struct process *process = new_process("x86_64", SAMPLED_MASK);
	struct fake_elf elf;

	make_stubs(&elf, ".plt", stub_bytes, name_bytes);
	unwind_tables_free(process->tables);
	process->tables = unwind_tables_new("x86_64", 64 << 20);
	process->object = unwind_tables_object(process->tables, "", 0);
	int fd = fake_elf_open(&elf);
	assert_int_equal(ftruncate(fd, (off_t)file_bytes), 0);
	int err = unwind_object_build(process->object, fd, NULL);
	close(fd);
	err = err ? err : unwind_object_complete(process->object);
	unwind_tables_stats(process->tables, ret);
	void *state = process;
	end(&state);
	return err;
}

/* Stubs that are not in the file, or more than a program has, are none. Nor are they found by too many names. */
static void test_stubs_of_hostile_files(void **state)
{
	enum { MOST = 16 << 20, MOST_NAMES = 1 << 20, NAMES = 20, ENTRY = 16 };
	static const struct {
		uint64_t stub_bytes, name_bytes, file_bytes, nr_rows;
	} cases[] = {
		{4 * ENTRY, NAMES, FAKE_ELF_BYTES, 9}, /* two rows for each, and their end */
		{FAKE_ELF_BYTES - FAKE_ELF_CODE, NAMES, FAKE_ELF_BYTES,
		 2 * (FAKE_ELF_BYTES - FAKE_ELF_CODE) / ENTRY + 1},
		{FAKE_ELF_BYTES - FAKE_ELF_CODE + 1, NAMES, FAKE_ELF_BYTES, 0},
		{UINT64_C(1) << 30, NAMES, FAKE_ELF_BYTES, 0},
		{MOST, NAMES, UINT64_C(1) << 31, 2 * MOST / ENTRY + 1},
		{MOST + 1, NAMES, UINT64_C(1) << 31, 0},
		{4 * ENTRY, MOST_NAMES, UINT64_C(1) << 31, 9},
		{4 * ENTRY, MOST_NAMES + 1, UINT64_C(1) << 31, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct unwind_stats stats;
		assert_int_equal(
			build_with_stubs(cases[i].stub_bytes, cases[i].name_bytes, cases[i].file_bytes, &stats), 0);
		assert_int_equal(stats.nr_rows, cases[i].nr_rows);
	}
}

/* libelf would allocate memory for each of them. */
static void test_too_many_sections(void **state)
{
	enum { NR_SECTIONS = 1 << 20, FILE_BYTES = 128 << 20 };
	const Elf64_Shdr first = {.sh_size = NR_SECTIONS};
	struct process *process = *state;
	struct fake_elf elf;
	Elf64_Ehdr header;

	make_x86(&elf);
	memcpy(&header, elf.bytes, sizeof(header));
	header.e_shoff = FAKE_ELF_CODE;
	header.e_shentsize = sizeof(first);
	memcpy(elf.bytes, &header, sizeof(header));
	memcpy(elf.bytes + FAKE_ELF_CODE, &first, sizeof(first));
	int fd = fake_elf_open(&elf);
	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	struct unwind_object *object = unwind_tables_object(process->tables, "sections", 8);
	assert_int_equal(unwind_object_build(object, fd, NULL), -ENOEXEC);
	assert_int_equal(unwind_object_state(object), UNWIND_OBJECT_NO_TABLE);
	close(fd);
}

static struct unwind_object *build_other(struct process *process, const char *id, const struct fake_elf *elf)
{
	struct unwind_object *object = unwind_tables_object(process->tables, id, strlen(id));
	int fd = fake_elf_open(elf);

	assert_true(object && fd >= 0);
	assert_int_equal(unwind_object_build(object, fd, NULL), 0);
	close(fd);
	return object;
}

static uint64_t section_word(const struct fake_elf *elf, size_t at)
{
	uint64_t word;

	memcpy(&word, elf->bytes + FAKE_ELF_EH_FRAME + at, sizeof(word));
	return word;
}

/*
 * A file that is made to have the unwind information of another one's stable_hash_mix(): one word behind the end mark
 * of the section makes good what differs before it. Its table is not used for the other file.
 */
static void test_a_forged_hash(void **state)
{
	enum { SECTION_BYTES = FAKE_ELF_CODE - FAKE_ELF_EH_FRAME, WORD_AT = 0xe00 };
	struct process *process = *state;
	struct fake_elf elf[2];
	uint64_t hashes[2] = {SECTION_BYTES, SECTION_BYTES};

	for (unsigned i = 0; i < 2; i++) {
		fake_elf_init(&elf[i], EM_X86_64);
		fake_elf_cie(&elf[i], "zR", BYTES(DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1));
		fake_elf_fde(&elf[i], FRAMELESS, 0x20, BYTES(DW_CFA_def_cfa_offset, i ? 24 : 16));
		for (size_t at = 0; at < WORD_AT; at += sizeof(uint64_t))
			hashes[i] = stable_hash_mix(hashes[i], section_word(&elf[i], at));
	}
	const uint64_t word = section_word(&elf[0], WORD_AT) ^ hashes[0] ^ hashes[1];
	memcpy(elf[1].bytes + FAKE_ELF_EH_FRAME + WORD_AT, &word, sizeof(word));
	for (unsigned i = 0; i < 2; i++)
		hashes[i] = stable_hash_mix(hashes[i], section_word(&elf[i], WORD_AT));
	assert_int_equal(hashes[0], hashes[1]);
	for (unsigned i = 0; i < 2; i++) {
		process->object = build_other(process, i ? "forged" : "true", &elf[i]);
		process->space.generation++;
		unwind_at(process, FRAMELESS, 8);
		assert_int_equal(process->cfas[0], STACK + (i ? 24 : 16));
	}
}

/* Of the same section, with stubs of the same range: the rules of the stubs are not the same. */
static void test_stubs_of_other_kinds(void **state)
{
	static const char *const names[] = {".plt", ".plt.got", ".plt"};
	static const uint64_t pushed[] = {8, 0, 8}; /* in the last bytes of an entry */
	struct process *process = *state;
	struct unwind_stats before, after;

	unwind_tables_stats(process->tables, &before);
	for (unsigned i = 0; i < 3; i++) {
		struct fake_elf elf;
		make_stubs(&elf, names[i], 16, 20);
		process->object = build_other(process, i == 2 ? "again" : names[i], &elf);
		process->space.generation++;
		unwind_at(process, 15, 8);
		assert_int_equal(process->cfas[0], STACK + 8 + pushed[i]);
	}
	unwind_tables_stats(process->tables, &after);
	assert_int_equal(after.nr_tables, before.nr_tables + 2);
}

/*
 * With a .debug_frame, too: of code that .eh_frame says nothing of, and of some that it covers, where .eh_frame counts.
 */
static void make_both_sections(struct fake_elf *elf)
{
	enum { NAMES = 0xd00, HEADERS = 0xd80, SECTION = 0xe80 }; /* where the code does not matter */
	static const struct {
		uint32_t start, bytes;
		uint8_t cfa_offset;
	} functions[] = {{0x20, 0x10, 40}, {0x30, 0x10, 48}, {0x60, 0x20, 56}};
	const uint8_t cie[] = {
		16, 0, 0, 0, 255, 255, 255, 255, 1, 0, 1, 0x78, 16, DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1, 0, 0};
	AUTO_BUF struct buf bytes = {0};

	fake_elf_init(elf, EM_X86_64);
	fake_elf_cie(elf, "zR", BYTES(DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1));
	fake_elf_fde(elf, 0, 0x40, BYTES(DW_CFA_def_cfa_offset, 16));
	buf_put(&bytes, cie, sizeof(cie));
	for (unsigned i = 0; i < 3; i++) {
		buf_put_u32(&bytes, 4 + 8 + 8 + 4);
		buf_put_u32(&bytes, 0); /* the CIE */
		buf_put_u64(&bytes, FAKE_ELF_CODE + FAKE_ELF_SHIFT + functions[i].start);
		buf_put_u64(&bytes, functions[i].bytes);
		buf_put(&bytes, BYTES(DW_CFA_def_cfa_offset, functions[i].cfa_offset, DW_CFA_nop, DW_CFA_nop));
	}
	const Elf64_Shdr sections[] = {
		{.sh_type = SHT_NULL},
		{.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = FAKE_ELF_CODE + SECTION, .sh_size = bytes.len},
		{.sh_type = SHT_STRTAB, .sh_offset = FAKE_ELF_CODE + NAMES, .sh_size = 20},
	};
	put_section_header(elf, FAKE_ELF_CODE + HEADERS);
	memcpy(elf->bytes + FAKE_ELF_CODE + NAMES + 1, ".debug_frame", strlen(".debug_frame"));
	memcpy(elf->bytes + FAKE_ELF_CODE + HEADERS, sections, sizeof(sections));
	memcpy(elf->bytes + FAKE_ELF_CODE + SECTION, bytes.data, bytes.len);
}

static void test_both_sections(void **state)
{
	static const struct {
		uint32_t at;
		uint64_t cfa_offset;
	} cases[] = {{0, 16}, {0x20, 16}, {0x30, 16}, {0x3f, 16}, {0x60, 56}, {0x7f, 56}};
	struct process *process = *state;
	struct fake_elf elf;

	make_both_sections(&elf);
	process->object = build_other(process, "both", &elf);
	process->space.generation++;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unwind_at(process, cases[i].at, 8);
		assert_int_equal(process->cfas[0], STACK + cases[i].cfa_offset);
	}
	unwind_at(process, 0x40, 8);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + 0x40));
	unwind_at(process, 0x80, 8);
	assert_chain(process, UNWIND_NO_CFI, CHAIN(BASE + 0x80));
	/* Another one, whose .debug_frame alone differs, has a table of its own. */
	struct unwind_stats before, after;
	unwind_tables_stats(process->tables, &before);
	elf.bytes[FAKE_ELF_CODE + 0xe80 + 20 + 2 * 28 + 25] = 64; /* the offset of the last function's CFA */
	process->object = build_other(process, "both, another", &elf);
	process->space.generation++;
	unwind_at(process, 0x60, 8);
	assert_int_equal(process->cfas[0], STACK + 64);
	unwind_tables_stats(process->tables, &after);
	assert_int_equal(after.nr_tables, before.nr_tables + 1);
}

static void test_unknown_machine(void **state)
{
	struct process *process = new_process("vax", SAMPLED_MASK);
	struct fake_elf elf;

	(void)state;
	make_x86(&elf);
	assert_false(unwind_tables_supported(process->tables));
	assert_int_equal(build(process, &elf), -ENOEXEC);
	assert_int_equal(unwind_object_state(process->object), UNWIND_OBJECT_NO_TABLE);
	unwind_at(process, FRAMELESS, 8);
	assert_chain(process, UNWIND_NO_REGISTERS, NULL, 0);
	*state = process;
	end(state);
}

struct shared {
	struct process *process;
	struct fake_elf elf;
	_Atomic bool done;
	_Atomic unsigned nr_built;
};

static void *build_beside(void *arg)
{
	struct shared *shared = arg;
	int fd = fake_elf_open(&shared->elf), err = build_from(shared->process, fd);

	close(fd);
	assert_true(err == -EBADMSG || err == -EALREADY);
	shared->nr_built += err == -EBADMSG;
	return NULL;
}

/* Two threads want to build the table while this one unwinds: NOT_READY until it is there, and one builds it. */
static void test_build_beside(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 50; round++) {
		struct shared shared = {.process = new_process("x86_64", SAMPLED_MASK)};
		struct process *process = shared.process;
		pthread_t threads[2];

		make_x86(&shared.elf);
		process->regs[SP] = STACK;
		process->words[0] = BASE + OUTERMOST + 4;
		for (size_t i = 0; i < 2; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, build_beside, &shared), 0);
		do {
			unwind_at(process, FRAMELESS, 8);
			if (process->chain.end == UNWIND_NOT_READY)
				assert_int_equal(process->chain.nr, 0);
		} while (process->chain.end == UNWIND_NOT_READY);
		assert_chain(process, UNWIND_COMPLETE, CHAIN(BASE + FRAMELESS, BASE + OUTERMOST + 3));
		for (size_t i = 0; i < 2; i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(shared.nr_built, 1);
		void *ending = process;
		end(&ending);
	}
}

enum { CROWD_THREADS = 4, CROWD_FILES = 3, CROWD_FUNCTIONS = 24, CROWD_PARTS = 3 /* of a table */ };

struct crowd {
	struct unwind_tables *tables;
	struct unwind_object *objects[CROWD_FILES];
	struct fake_elf files[CROWD_FILES];
	_Atomic unsigned nr_begun, nr_built, nr_wrong;
};

/* Each function of each file has a CFA of its own. */
static uint64_t crowd_cfa(unsigned file, unsigned function)
{
	return STACK + 8 * (1 + 2 * function + file);
}

static void make_crowd(struct crowd *crowd)
{
	const unsigned tables_of_two_kinds[] = {0, 1, 0}; /* the last file has what the first one has */

	*crowd = (struct crowd){.tables = unwind_tables_new("x86_64", 1 << 20)};
	assert_non_null(crowd->tables);
	for (unsigned i = 0; i < CROWD_FILES; i++) {
		crowd->objects[i] = unwind_tables_object(crowd->tables, &i, sizeof(i));
		assert_non_null(crowd->objects[i]);
		fake_elf_init(&crowd->files[i], EM_X86_64);
		fake_elf_cie(&crowd->files[i], "zR", BYTES(DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1));
		for (unsigned f = 0; f < CROWD_FUNCTIONS; f++) {
			const uint64_t words = (crowd_cfa(tables_of_two_kinds[i], f) - STACK) / 8;
			fake_elf_fde(&crowd->files[i], f * 0x10, 0x10,
				     BYTES(DW_CFA_def_cfa_offset_sf, (uint8_t)(-words & 0x7f)));
		}
	}
}

static void *unwind_in_a_crowd(void *arg)
{
	struct crowd *crowd = arg;
	const unsigned first = crowd->nr_begun++;
	struct process process = {.tables = crowd->tables, .cache = unwind_cache_new(crowd->tables)};

	process.space = (struct unwind_space){.find = find, .ctx = &process};
	process.sampled =
		(struct sample_regs){.abi = PERF_SAMPLE_REGS_ABI_64, .mask = SAMPLED_MASK, .regs = process.regs};
	process.chain = (struct unwind_chain){.ips = process.ips, .cfas = process.cfas, .max = NR_WORDS};
	process.regs[SP] = STACK;
	for (unsigned i = 0; process.cache && i < CROWD_FILES * CROWD_FUNCTIONS; i++) {
		const unsigned file = (first + i) % CROWD_FILES, function = (first + i / CROWD_FILES) % CROWD_FUNCTIONS;
		process.object = crowd->objects[file];
		process.space.generation = 1 + file;
		for (;;) {
			unwind_at(&process, function * 0x10 + 4, NR_WORDS);
			if (process.chain.end != UNWIND_NOT_READY)
				break;
			AUTO_FD int fd = fake_elf_open(&crowd->files[file]);
			crowd->nr_built += !unwind_object_build(process.object, fd, NULL);
		}
		crowd->nr_wrong += process.chain.end != UNWIND_COMPLETE || process.chain.nr != 1 ||
				   process.cfas[0] != crowd_cfa(file % 2, function);
	}
	crowd->nr_wrong += !process.cache;
	unwind_cache_free(process.cache);
	return NULL;
}

/* Several threads ask for the rules of several files at once; who comes first builds a table, or makes a part of it. */
static void test_several_threads_and_files(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		static struct crowd crowd;
		pthread_t threads[CROWD_THREADS];
		struct unwind_stats stats;

		make_crowd(&crowd);
		for (size_t i = 0; i < CROWD_THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, unwind_in_a_crowd, &crowd), 0);
		for (size_t i = 0; i < CROWD_THREADS; i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(crowd.nr_wrong, 0);
		assert_int_equal(crowd.nr_built, CROWD_FILES);
		unwind_tables_stats(crowd.tables, &stats);
		assert_int_equal(stats.nr_tables, 2);
		assert_int_equal(stats.nr_rows, 2 * (CROWD_FUNCTIONS + CROWD_PARTS)); /* a part has an end */
		unwind_tables_free(crowd.tables);
	}
}

/* ---- arm64, whatever machine this is ---- */

enum {
	ARM_LEAF = 0,
	ARM_CALLER = 0x20,
	ARM_OUTERMOST = 0x40,
	ARM_NO_CFI = 0x60,
	ARM_WIDE_LEAF = 0x80,
	ARM_WIDE = 0xa0,
	ARM_FRAME_LEAF = 0xc0, /* CFA = sp + 16, with nothing there */
	ARM_WIDE_FRAME_LEAF = 0xe0,
};

static int start_arm(void **state)
{
	struct process *process = new_process("aarch64", (UINT64_C(1) << ARM_NR) - 1);
	struct fake_elf elf;

	fake_elf_init(&elf, EM_AARCH64);
	fake_elf_cie(&elf, "zRB", BYTES(DW_CFA_def_cfa, 31, 0));
	fake_elf_fde(&elf, ARM_LEAF, 0x20, BYTES(0x2d /* DW_CFA_AARCH64_negate_ra_state */));
	/* stp x29, x30, [sp, #-16]! */
	fake_elf_fde(
		&elf, ARM_CALLER, 0x20,
		BYTES(DW_CFA_advance_loc | 4, DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 29, 2, DW_CFA_offset | 30, 1));
	fake_elf_fde(&elf, ARM_OUTERMOST, 0x20, BYTES(DW_CFA_undefined, 30));
	/* CFA = sp, by an expression */
	fake_elf_fde(&elf, ARM_WIDE_LEAF, 0x20, BYTES(DW_CFA_def_cfa_expression, 2, DW_OP_breg31, 0));
	fake_elf_fde(&elf, ARM_FRAME_LEAF, 0x20, BYTES(DW_CFA_def_cfa_offset, 16));
	fake_elf_fde(&elf, ARM_WIDE_FRAME_LEAF, 0x20, BYTES(DW_CFA_def_cfa_expression, 2, DW_OP_breg31, 16));
	fake_elf_fde(&elf, ARM_WIDE, 0x20, BYTES(DW_CFA_def_cfa_expression, 2, DW_OP_breg31, 0, DW_CFA_offset | 30, 1));
	assert_int_equal(build(process, &elf), 0);
	*state = process;
	return 0;
}

static void test_arm64(void **state)
{
	struct process *process = *state;
	const uint64_t signature = UINT64_C(0x5a) << 48;

	process->regs[ARM_FP] = STACK;
	process->regs[ARM_LR] = (BASE + ARM_CALLER + 8) | signature;
	process->regs[ARM_SP] = STACK;
	process->regs[ARM_PC] = BASE + ARM_LEAF + 4;
	process->words[0] = STACK + 16;
	process->words[1] = (BASE + ARM_NO_CFI + 12) | signature;
	process->words[2] = 0;
	process->words[3] = (BASE + ARM_OUTERMOST + 4) | signature;
	const struct span stack = {process->words, 32};
	unwind_chain(process->cache, &process->space, &process->sampled, stack, &process->chain);
	assert_chain(
		process, UNWIND_COMPLETE,
		CHAIN(BASE + ARM_LEAF + 4, BASE + ARM_CALLER + 7, BASE + ARM_NO_CFI + 11, BASE + ARM_OUTERMOST + 3));
	/* Outer frames are those of the thread's last chain, whatever the signatures are. */
	process->chain.cfas = NULL;
	process->chain.thread = 1;
	for (unsigned round = 0; round < 3; round++) {
		unwind_chain(process->cache, &process->space, &process->sampled, stack, &process->chain);
		assert_chain(process, UNWIND_COMPLETE,
			     CHAIN(BASE + ARM_LEAF + 4, BASE + ARM_CALLER + 7, BASE + ARM_NO_CFI + 11,
				   BASE + ARM_OUTERMOST + 3));
		process->words[3] ^= signature;
	}
	/* Only the innermost function has its return address in a register: else it would be its own caller. */
	process->words[1] = BASE + ARM_LEAF + 4;
	unwind_chain(process->cache, &process->space, &process->sampled, stack, &process->chain);
	assert_chain(process, UNWIND_BAD_MEMORY,
		     CHAIN(BASE + ARM_LEAF + 4, BASE + ARM_CALLER + 7, BASE + ARM_LEAF + 3));
	/* So it would be again and again where it has a frame. */
	static const uint64_t leaves[] = {ARM_FRAME_LEAF, ARM_WIDE_FRAME_LEAF};
	for (size_t i = 0; i < 2; i++) {
		process->words[1] = BASE + leaves[i] + 4;
		unwind_chain(process->cache, &process->space, &process->sampled, stack, &process->chain);
		assert_chain(process, UNWIND_BAD_MEMORY,
			     CHAIN(BASE + ARM_LEAF + 4, BASE + ARM_CALLER + 7, BASE + leaves[i] + 3));
	}
}

/* As setup_sigframe() in arch/arm64/kernel/signal.c stores it, in 8-byte words. */
enum {
	FRAME_UC = 16,
	FRAME_REGISTERS = 39,
	FRAME_SP = FRAME_REGISTERS + 31,
	FRAME_PC = FRAME_REGISTERS + 32,
	FRAME_RECORD = 80, /* behind more of the ucontext */
	FRAME_WORDS = 84,
};

/* What is interrupted is a leaf: the link register has its return address. */
static void make_signal_frame(uint64_t *words, uint64_t sp)
{
	memset(words, 0x5a, FRAME_WORDS * sizeof(*words));
	words[FRAME_UC] = words[FRAME_UC + 1] = 0;
	words[FRAME_REGISTERS + ARM_FP] = words[FRAME_RECORD] = 0;
	words[FRAME_REGISTERS + ARM_LR] = words[FRAME_RECORD + 1] = BASE + ARM_OUTERMOST + 4;
	words[FRAME_SP] = sp;
	words[FRAME_PC] = BASE + ARM_LEAF + 0x10;
}

static void unwind_words(struct process *process, const uint64_t *words, size_t nr)
{
	unwind_chain(process->cache, &process->space, &process->sampled, (struct span){words, nr * sizeof(*words)},
		     &process->chain);
}

/* A handler with a frame, and a leaf that it calls. What it returns to has no CFI on arm64. */
static void test_signal_on_arm64(void **state)
{
	enum { FRAME = 2, NR = FRAME + FRAME_WORDS };
	struct process *process = *state;
	const uint64_t leaf = BASE + ARM_LEAF, caller = BASE + ARM_CALLER, trampoline = BASE + ARM_NO_CFI + 4;
	const uint64_t outermost = BASE + ARM_OUTERMOST, record = STACK + 8 * (FRAME + FRAME_RECORD);
	uint64_t words[NR] = {record, trampoline};

	process->regs[ARM_FP] = STACK;
	process->regs[ARM_LR] = caller + 8;
	process->regs[ARM_SP] = STACK;
	process->regs[ARM_PC] = leaf + 4;
	make_signal_frame(words + FRAME, STACK + 8 * NR);
	unwind_words(process, words, NR);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(leaf + 4, caller + 7, trampoline, leaf + 0x10, outermost + 3));
	/* The handler has a stack of its own. */
	words[FRAME + FRAME_SP] = STACK - (1 << 20);
	unwind_words(process, words, NR);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(leaf + 4, caller + 7, trampoline, leaf + 0x10, outermost + 3));
	words[FRAME + FRAME_PC] = caller + 8;
	unwind_words(process, words, NR);
	assert_chain(process, UNWIND_OTHER_STACK, CHAIN(leaf + 4, caller + 7, trampoline, caller + 8));
	/* Of a stack that is not copied that far the interrupted function is not known: nothing else is in its place.
	 */
	words[FRAME + FRAME_SP] = STACK + 8 * NR;
	for (size_t nr = 0; nr < FRAME + FRAME_RECORD + 2; nr++) {
		uint64_t *copy = malloc(nr * sizeof(*words) + 1);
		memcpy(copy, words, nr * sizeof(*words));
		unwind_words(process, copy, nr);
		free(copy);
		assert_true(process->chain.nr <= 3 && process->chain.end != UNWIND_COMPLETE);
	}
	/* It may be sampled itself: when the handler has returned, and in its system call. */
	process->regs[ARM_SP] = STACK + 8 * FRAME;
	process->regs[ARM_FP] = record;
	process->regs[ARM_LR] = trampoline;
	make_signal_frame(words + FRAME, STACK + 8 * NR);
	for (unsigned at = 0; at <= 8; at += 4) {
		process->regs[ARM_PC] = trampoline + at;
		unwind_words(process, words + FRAME, FRAME_WORDS);
		assert_chain(process, UNWIND_COMPLETE, CHAIN(trampoline + at, leaf + 0x10, outermost + 3));
	}
	/* What a program has put there by itself: a frame that has interrupted itself. */
	words[FRAME + FRAME_REGISTERS + ARM_FP] = words[FRAME + FRAME_RECORD] = record;
	words[FRAME + FRAME_REGISTERS + ARM_LR] = words[FRAME + FRAME_RECORD + 1] = trampoline;
	words[FRAME + FRAME_SP] = STACK + 8 * FRAME;
	words[FRAME + FRAME_PC] = trampoline;
	process->regs[ARM_PC] = trampoline;
	unwind_words(process, words + FRAME, FRAME_WORDS);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(trampoline));
}

/* What is not just as the kernel stores it is followed by the frame pointer, as all code without CFI. */
static void test_no_signal_on_arm64(void **state)
{
	struct process *process = *state;
	const uint64_t trampoline = BASE + ARM_NO_CFI + 4, outermost = BASE + ARM_OUTERMOST;
	static const size_t wrong[] = {FRAME_UC, FRAME_UC + 1, FRAME_REGISTERS + ARM_FP, FRAME_REGISTERS + ARM_LR};
	uint64_t words[FRAME_WORDS];

	process->regs[ARM_FP] = STACK + 8 * FRAME_RECORD;
	process->regs[ARM_LR] = trampoline;
	process->regs[ARM_SP] = STACK;
	process->regs[ARM_PC] = trampoline + 4;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		make_signal_frame(words, STACK + 8 * FRAME_WORDS);
		words[wrong[i]] ^= 64;
		unwind_words(process, words, FRAME_WORDS);
		assert_chain(process, UNWIND_COMPLETE, CHAIN(trampoline + 4, outermost + 3));
	}
	/* Another function without CFI, at the begin of a handler: where it was called from is in a register. */
	make_signal_frame(words, STACK + 8 * FRAME_WORDS);
	process->regs[ARM_PC] = trampoline + 0x10;
	unwind_words(process, words, FRAME_WORDS);
	assert_chain(process, UNWIND_COMPLETE, CHAIN(trampoline + 0x10, outermost + 3));
	/* Interrupted where no stack or no code can be. */
	process->regs[ARM_PC] = trampoline + 4;
	words[FRAME_SP] = STACK + 12;
	unwind_words(process, words, FRAME_WORDS);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(trampoline + 4));
	words[FRAME_SP] = STACK + 8 * FRAME_WORDS;
	words[FRAME_PC] = 8;
	unwind_words(process, words, FRAME_WORDS);
	assert_chain(process, UNWIND_BAD_MEMORY, CHAIN(trampoline + 4));
}

static void test_caller_of_a_leaf(void **state)
{
	struct process *process = *state;
	uint64_t lr = (BASE + ARM_CALLER + 8) | UINT64_C(1) << 55, caller = 0;
	const struct sample_regs regs = {.abi = PERF_SAMPLE_REGS_ABI_64, .mask = UINT64_C(1) << ARM_LR, .regs = &lr};
	const struct sample_regs of_32_bits = {
		.abi = PERF_SAMPLE_REGS_ABI_32, .mask = UINT64_C(1) << ARM_LR, .regs = &lr};
	const struct sample_regs none = {0};

	assert_true(unwind_leaf_caller(process->cache, &process->space, &regs, BASE + ARM_LEAF + 4, &caller));
	assert_int_equal(caller, BASE + ARM_CALLER + 7);
	/* A signal handler: nothing has called it. */
	lr = BASE + ARM_NO_CFI + 4;
	assert_true(unwind_leaf_caller(process->cache, &process->space, &regs, BASE + ARM_LEAF + 4, &caller));
	assert_int_equal(caller, BASE + ARM_NO_CFI + 4);
	lr = OTHER + 4;
	assert_true(unwind_leaf_caller(process->cache, &process->space, &regs, BASE + ARM_LEAF + 4, &caller));
	assert_int_equal(caller, OTHER + 3);
	lr = BASE + ARM_CALLER + 8;
	caller = 0;
	assert_true(unwind_leaf_caller(process->cache, &process->space, &regs, BASE + ARM_WIDE_LEAF + 4, &caller));
	assert_int_equal(caller, BASE + ARM_CALLER + 7);
	assert_false(unwind_leaf_caller(process->cache, &process->space, &regs, BASE + ARM_WIDE + 4, &caller));
	/* That one has stored its return address; it is in the chain of frames. */
	assert_false(unwind_leaf_caller(process->cache, &process->space, &regs, BASE + ARM_CALLER + 4, &caller));
	/* Nor is anything known of code without tables. */
	assert_false(unwind_leaf_caller(process->cache, &process->space, &regs, BASE + ARM_NO_CFI, &caller));
	assert_false(unwind_leaf_caller(process->cache, &process->space, &regs, BASE - 4, &caller));
	assert_false(unwind_leaf_caller(process->cache, &process->space, &none, BASE + ARM_LEAF + 4, &caller));
	assert_false(unwind_leaf_caller(process->cache, &process->space, &of_32_bits, BASE + ARM_LEAF + 4, &caller));
	/* Or whose tables are not built yet. */
	struct process *early = new_process("aarch64", 0);
	assert_false(unwind_leaf_caller(early->cache, &early->space, &regs, BASE + ARM_LEAF + 4, &caller));
	void *ending = early;
	end(&ending);
	assert_int_equal(caller, BASE + ARM_CALLER + 7);
}

/* There it is on the stack, whatever the registers hold. */
static void test_no_register_of_a_caller_on_x86(void **state)
{
	struct process *process = *state;
	uint64_t words[16], caller = 0;
	const struct sample_regs regs = {.abi = PERF_SAMPLE_REGS_ABI_64, .mask = 0xffff, .regs = words};

	for (size_t i = 0; i < 16; i++)
		words[i] = BASE + FRAMELESS;
	assert_false(unwind_leaf_caller(process->cache, &process->space, &regs, BASE + SAME_RA + 4, &caller));
	/* Nor is there a register 64, or one that was not sampled. */
	const struct sample_regs all = {.abi = PERF_SAMPLE_REGS_ABI_64, .mask = UINT64_MAX, .regs = words};
	assert_false(unwind_sampled_register(&all, 64, &caller));
	assert_false(unwind_sampled_register(&regs, 16, &caller));
	assert_int_equal(caller, 0);
	assert_true(unwind_sampled_register(&regs, 15, &caller));
	assert_int_equal(caller, BASE + FRAMELESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_simple_frames, start, end),
		cmocka_unit_test(test_rows_that_are_yet_to_be_made),
		cmocka_unit_test_setup_teardown(test_a_call_that_ends_its_function, start, end),
		cmocka_unit_test_setup_teardown(test_last_chain, start, end),
		cmocka_unit_test_setup_teardown(test_last_chain_of_random_stacks, start, end),
		cmocka_unit_test(test_why_a_chain_ends),
		cmocka_unit_test_setup_teardown(test_what_a_cache_knows, start, end),
		cmocka_unit_test_setup_teardown(test_code_in_memory, start, end),
		cmocka_unit_test_setup_teardown(test_rows_of_a_function, start, end),
		cmocka_unit_test_setup_teardown(test_popped_registers, start, end),
		cmocka_unit_test_setup_teardown(test_popped_by_leave, start, end),
		cmocka_unit_test_setup_teardown(test_rare_rules, start, end),
		cmocka_unit_test_setup_teardown(test_computed_registers, start, end),
		cmocka_unit_test_setup_teardown(test_short_copies, start, end),
		cmocka_unit_test_setup_teardown(test_signal, start, end),
		cmocka_unit_test_setup_teardown(test_trampoline_without_cfi, start, end),
		cmocka_unit_test_setup_teardown(test_start_without_cfi, start, end),
		cmocka_unit_test_setup_teardown(test_code_without_cfi, start, end),
		cmocka_unit_test_setup_teardown(test_broken_function, start, end),
		cmocka_unit_test_setup_teardown(test_hostile_stacks, start, end),
		cmocka_unit_test_setup_teardown(test_chains_that_the_kernel_continues, start, end),
		cmocka_unit_test_setup_teardown(test_stacks_that_go_switches, start, end),
		cmocka_unit_test_setup_teardown(test_no_frame_yet, start, end),
		cmocka_unit_test(test_stale_return_addresses),
		cmocka_unit_test(test_functions_that_are_not_left),
		cmocka_unit_test(test_code_that_is_yet_to_be_read),
		cmocka_unit_test_setup_teardown(test_callers_that_are_no_code, start, end),
		cmocka_unit_test_setup_teardown(test_bounds_of_addresses, start, end),
		cmocka_unit_test_setup_teardown(test_with_some_registers, start, end),
		cmocka_unit_test_setup_teardown(test_some_registers_behind_all, start, end),
		cmocka_unit_test_setup_teardown(test_without_registers, start, end),
		cmocka_unit_test_setup_teardown(test_generations, start, end),
		cmocka_unit_test(test_hostile_files),
		cmocka_unit_test(test_stubs_of_hostile_files),
		cmocka_unit_test_setup_teardown(test_too_many_sections, start, end),
		cmocka_unit_test_setup_teardown(test_a_forged_hash, start, end),
		cmocka_unit_test_setup_teardown(test_stubs_of_other_kinds, start, end),
		cmocka_unit_test_setup_teardown(test_both_sections, start, end),
		cmocka_unit_test(test_unknown_machine),
		cmocka_unit_test(test_build_beside),
		cmocka_unit_test(test_several_threads_and_files),
		cmocka_unit_test_setup_teardown(test_arm64, start_arm, end),
		cmocka_unit_test_setup_teardown(test_signal_on_arm64, start_arm, end),
		cmocka_unit_test_setup_teardown(test_no_signal_on_arm64, start_arm, end),
		cmocka_unit_test_setup_teardown(test_caller_of_a_leaf, start_arm, end),
		cmocka_unit_test_setup_teardown(test_no_register_of_a_caller_on_x86, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
