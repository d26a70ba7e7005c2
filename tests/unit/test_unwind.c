/* SPDX-License-Identifier: MIT */
/* Stacks of arm64, whatever machine this is: a small object with unwind tables is made, and samples in it unwound. */
#include <elf.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/symbols/dso.h"
#include "perfdata/sample.h"
#include "tasks/maps.h"
#include "unwind/unwind.h"

enum {
	LEAF = 0x1000,   /* keeps no frame */
	CALLER = 0x1020, /* two words: x29 and x30 */
	FUNCTION_BYTES = 0x20,
	FRAME_BYTES = 16,
	TABLE = 0x1200, /* .eh_frame_hdr */
	CFI = 0x1240,   /* .eh_frame */
	IMAGE_BYTES = 0x2000,
	CIE_BYTES = 20, /* behind their length fields */
	FUNCTION_ENTRY_BYTES = 28,
	BASE = 0x400000, /* where it is mapped */
	STACK = 0x7fff0000,
	REG_FP = 29,
	REG_LR = 30,
	REG_SP = 31,
	REG_PC = 32,
	NR_REGS = 33,
};

struct image {
	uint8_t bytes[IMAGE_BYTES];
	size_t at;
};

static void put(struct image *image, const void *bytes, size_t len)
{
	memcpy(image->bytes + image->at, bytes, len);
	image->at += len;
}

static void put_u32(struct image *image, uint32_t value)
{
	put(image, &value, sizeof(value));
}

/* A field relative to where it is itself. */
static void put_relative(struct image *image, uint32_t target)
{
	put_u32(image, target - (uint32_t)image->at);
}

/* A function of the CIE at CFI. Source: DWARF 5, 6.4; LSB, "Exception frames". */
static uint32_t put_function(struct image *image, uint32_t function, const void *rules, size_t len)
{
	uint32_t start = (uint32_t)image->at;

	put_u32(image, FUNCTION_ENTRY_BYTES);
	put_u32(image, start + 4 - CFI); /* back to the CIE */
	put_relative(image, function);
	put_u32(image, FUNCTION_BYTES);
	put(image, "", 1); /* no augmentation data */
	put(image, rules, len);
	image->at = start + 4 + FUNCTION_ENTRY_BYTES; /* what is left is 0: DW_CFA_nop */
	return start;
}

static void put_tables(struct image *image)
{
	static const uint8_t cie[] = {1,    'z',    'R', 0, 4, 0x78 /* -8 */, REG_LR, 1, 0x1b /* relative, 4 bytes */,
				      0x0c, REG_SP, 0 /* def_cfa sp+0 */};
	/* def_cfa_offset 16, x29 at -16, x30 at -8 */
	static const uint8_t frame[] = {0x0e, FRAME_BYTES, 0x80 | REG_FP, 2, 0x80 | REG_LR, 1};

	image->at = CFI;
	put_u32(image, CIE_BYTES);
	put_u32(image, 0);
	put(image, cie, sizeof(cie));
	image->at = CFI + 4 + CIE_BYTES;
	uint32_t leaf = put_function(image, LEAF, "", 0), caller = put_function(image, CALLER, frame, sizeof(frame));
	put_u32(image, 0);
	image->at = TABLE;
	put(image, (const uint8_t[]){1, 0x1b, 3, 0x3b /* relative to the table, 4 bytes */}, 4);
	put_relative(image, CFI);
	put_u32(image, 2);
	put_u32(image, (uint32_t)LEAF - TABLE);
	put_u32(image, leaf - TABLE);
	put_u32(image, (uint32_t)CALLER - TABLE);
	put_u32(image, caller - TABLE);
}

static void make_image(struct image *image)
{
	const Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_AARCH64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 2,
	};
	const Elf64_Phdr segments[] = {
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_X,
		 .p_filesz = IMAGE_BYTES,
		 .p_memsz = IMAGE_BYTES,
		 .p_align = 0x1000},
		{.p_type = PT_GNU_EH_FRAME,
		 .p_flags = PF_R,
		 .p_offset = TABLE,
		 .p_vaddr = TABLE,
		 .p_filesz = CFI - TABLE,
		 .p_memsz = CFI - TABLE,
		 .p_align = 4},
	};

	put(image, &header, sizeof(header));
	put(image, segments, sizeof(segments));
	put_tables(image);
}

static int open_object(void *object, void *ctx)
{
	(void)ctx;
	dso_load(object, "");
	return dso_open(object, "", DSO_RUNTIME);
}

static const struct unwind_objects objects = {.open = open_object};

struct world {
	char path[32];
	struct dso_table dsos;
	struct maps *maps;
	struct unwinder *unwinder;
	uint64_t regs[NR_REGS];
	uint64_t stack[8];
};

static int make_world(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	struct image *image = calloc(1, sizeof(*image));

	assert_true(world && image);
	make_image(image);
	strcpy(world->path, "/tmp/millrace-unwind.XXXXXX");
	int fd = mkstemp(world->path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, image->bytes, IMAGE_BYTES), IMAGE_BYTES);
	close(fd);
	free(image);
	struct map map = {.start = BASE, .end = BASE + IMAGE_BYTES};
	map.object = dso_find(&world->dsos, world->path, NULL, DSO_FILE);
	world->maps = maps_new();
	assert_int_equal(maps_insert(world->maps, &map), 0);
	world->unwinder = unwinder_new(&objects, "aarch64");
	assert_non_null(world->unwinder);
	*state = world;
	return 0;
}

static int end_world(void **state)
{
	struct world *world = *state;

	unwinder_free(world->unwinder);
	maps_unref(world->maps);
	dso_table_fini(&world->dsos);
	unlink(world->path);
	free(world);
	return 0;
}

/* In the leaf, called by a recursive function, which is the outermost one. */
static struct sample in_leaf(struct world *world)
{
	const uint64_t frames[] = {STACK + 16, BASE + CALLER + 12, 0, 0};

	memcpy(world->stack, frames, sizeof(frames));
	world->regs[REG_FP] = STACK;
	world->regs[REG_LR] = BASE + CALLER + 8;
	world->regs[REG_SP] = STACK;
	world->regs[REG_PC] = BASE + LEAF + 4;
	return (struct sample){
		.user_regs = {.abi = PERF_SAMPLE_REGS_ABI_64,
			      .mask = (UINT64_C(1) << NR_REGS) - 1,
			      .regs = world->regs},
		.user_stack = {world->stack, sizeof(frames)},
	};
}

static void test_stack_of_another_machine(void **state)
{
	struct world *world = *state;
	struct sample sample = in_leaf(world);
	uint64_t ips[8];

	assert_int_equal(unwind_sample(world->unwinder, world->maps, &sample, ips, 8), 3);
	assert_int_equal(ips[0], BASE + LEAF + 4);
	assert_int_equal(ips[1], BASE + CALLER + 7);
	assert_int_equal(ips[2], BASE + CALLER + 11);
	assert_int_equal(unwind_sample(world->unwinder, world->maps, &sample, ips, 2), 2);
}

static void test_caller_of_a_leaf(void **state)
{
	struct world *world = *state;
	uint64_t lr = BASE + CALLER + 8, caller = 0;
	const struct sample sample = {
		.user_regs = {.abi = PERF_SAMPLE_REGS_ABI_64, .mask = UINT64_C(1) << REG_LR, .regs = &lr}};
	struct sample none = {0};

	assert_true(unwind_leaf_caller(world->unwinder, world->maps, &sample, BASE + LEAF + 4, &caller));
	assert_int_equal(caller, BASE + CALLER + 7);
	/* That one has stored its return address; it is in the chain of frames. */
	assert_false(unwind_leaf_caller(world->unwinder, world->maps, &sample, BASE + CALLER + 4, &caller));
	/* Nor is anything known of code without tables. */
	assert_false(unwind_leaf_caller(world->unwinder, world->maps, &sample, BASE + LEAF - 4, &caller));
	assert_false(unwind_leaf_caller(world->unwinder, world->maps, &sample, BASE - 4, &caller));
	assert_false(unwind_leaf_caller(world->unwinder, world->maps, &none, BASE + LEAF + 4, &caller));
	assert_int_equal(caller, BASE + CALLER + 7);
}

static void test_unknown_machine(void **state)
{
	struct world *world = *state;
	struct sample sample = in_leaf(world);
	struct unwinder *unwinder = unwinder_new(&objects, "vax");
	uint64_t ips[8];

	assert_non_null(unwinder);
	assert_int_equal(unwind_sample(unwinder, world->maps, &sample, ips, 8), 0);
	unwinder_free(unwinder);
}

enum {
	SAMPLED_MASK = 0xff0fff /* as recorders ask for on x86_64: all but segments */,
	NR_SAMPLED = 20,
	SP = 7,
	IP = 8
};

struct text {
	uint64_t start, end;
};

/* What this program has mapped, as a recording tells it. */
struct self {
	struct dso_table dsos;
	struct maps *maps;
	struct text texts[64];
	size_t nr_texts;
	uint64_t random;
};

static void read_maps(struct self *self)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[4096 + 128], mode[8], path[4096];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		struct map map = {0};
		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %4095s", &map.start, &map.end, mode, &map.pgoff, path) != 5 ||
		    mode[2] != 'x' || path[0] != '/')
			continue;
		map.object = dso_find(&self->dsos, path, NULL, DSO_FILE);
		assert_int_equal(maps_insert(self->maps, &map), 0);
		if (self->nr_texts < sizeof(self->texts) / sizeof(self->texts[0]))
			self->texts[self->nr_texts++] = (struct text){map.start, map.end};
	}
	fclose(file);
	assert_true(self->nr_texts > 1);
}

static uint64_t any(struct self *self)
{
	self->random ^= self->random << 13;
	self->random ^= self->random >> 7;
	self->random ^= self->random << 17;
	return self->random;
}

/* Somewhere in code; often where jumps to other objects are, which have rules of their own. */
static uint64_t any_code(struct self *self)
{
	const struct text *text = &self->texts[any(self) % self->nr_texts];
	uint64_t bytes = text->end - text->start;

	return text->start + any(self) % (any(self) % 4 || bytes < 2048 ? bytes : 2048);
}

/* Like what is on stacks: addresses of code and of the stack, and anything. */
static uint64_t any_word(struct self *self)
{
	switch (any(self) % 8) {
	case 0: return any(self);
	case 1: return any(self) % 64;
	case 2:
	case 3: return STACK + any(self) % 4096;
	default: return any_code(self);
	}
}

/* Whatever is on the stack: what is quick must say what libdwfl says. */
static void test_any_stack_as_the_library(void **state)
{
	struct self self = {.maps = maps_new(), .random = 88172645463325252ull};
	struct unwinder *quick = unwinder_new(&objects, "x86_64"), *library = unwinder_new(&objects, "x86_64");
	uint64_t regs[NR_SAMPLED], words[256], ips[2][128];
	unsigned deepest = 0;

	(void)state;
	assert_true(self.maps && quick && library);
	unwinder_use_library(library);
	read_maps(&self);
	for (unsigned round = 0; round < 40000; round++) {
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			words[i] = any_word(&self);
		for (unsigned i = 0; i < NR_SAMPLED; i++)
			regs[i] = any_word(&self);
		regs[SP] = STACK;
		regs[IP] = any_code(&self);
		const struct sample sample = {
			.user_regs = {.abi = PERF_SAMPLE_REGS_ABI_64, .mask = SAMPLED_MASK, .regs = regs},
			.user_stack = {words, 1 + any(&self) % sizeof(words)},
		};
		unsigned max = 1 + (unsigned)(any(&self) % 128);
		unsigned nr = unwind_sample(library, self.maps, &sample, ips[0], max);
		assert_int_equal(unwind_sample(quick, self.maps, &sample, ips[1], max), nr);
		assert_memory_equal(ips[0], ips[1], nr * sizeof(ips[0][0]));
		if (nr > deepest)
			deepest = nr;
	}
	assert_true(deepest > 5);
	unwinder_free(quick);
	unwinder_free(library);
	maps_unref(self.maps);
	dso_table_fini(&self.dsos);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stack_of_another_machine, make_world, end_world),
		cmocka_unit_test_setup_teardown(test_caller_of_a_leaf, make_world, end_world),
		cmocka_unit_test_setup_teardown(test_unknown_machine, make_world, end_world),
		cmocka_unit_test(test_any_stack_as_the_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
