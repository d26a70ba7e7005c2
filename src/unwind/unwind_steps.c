/* SPDX-License-Identifier: MIT */
/*
 * The rules of a step are libdwfl's (elfutils, libdwfl/frame_unwind.c): a register that cannot be told is lost, and the
 * chain ends where the return address is; a return address is looked up less one, but not where a signal came.
 */
#include "unwind/unwind_steps.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "perfdata/sample.h"
#include "tasks/maps.h"
#include "unwind/cfi_rows.h"

enum { NR_CHAINS = 256, STACK_POINTER = 7, STACK_DEPTH = 32 };

/* What is sampled: <asm/perf_regs.h> of each architecture; DWARF numbers: its psABI. */
static const struct unwind_registers known[] = {
	/* 16 is the return address. */
	{.arch = "x86_64",
	 .nr = 17,
	 .sampled = {0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8},
	 .rows = true,
	 .sp = 7,
	 .ip = 8},
	{.arch = "aarch64",
	 .nr = 32,
	 .sampled = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
		     16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
	 .lr = 30,
	 .sp = 31,
	 .ip = 32},
};

const struct unwind_registers *unwind_registers_of(const char *arch)
{
	struct utsname here;

	if (!arch)
		arch = uname(&here) == 0 ? here.machine : "";
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i].arch, arch))
			return &known[i];
	return NULL;
}

bool unwind_register(const struct sample *sample, unsigned nr, uint64_t *ret)
{
	const struct sample_regs *regs = &sample->user_regs;

	if (nr >= 64 || !(regs->mask >> nr & 1))
		return false;
	*ret = regs->regs[__builtin_popcountll(regs->mask & ((1ull << nr) - 1))];
	return true;
}

struct object {
	struct object *next;
	const void *key;       /* struct map's object */
	struct cfi_rows *rows; /* NULL: none */
};

struct unwind_steps {
	int (*open)(void *object, void *ctx);
	void *ctx;
	struct object *objects[NR_CHAINS];
};

struct unwind_steps *unwind_steps_new(int (*open)(void *object, void *ctx), void *ctx)
{
	struct unwind_steps *steps = calloc(1, sizeof(*steps));

	if (steps) {
		steps->open = open;
		steps->ctx = ctx;
	}
	return steps;
}

void unwind_steps_free(struct unwind_steps *steps)
{
	for (size_t i = 0; steps && i < NR_CHAINS; i++) {
		while (steps->objects[i]) {
			struct object *object = steps->objects[i];
			steps->objects[i] = object->next;
			cfi_rows_close(object->rows);
			free(object);
		}
	}
	free(steps);
}

/* NULL: out of memory. */
static struct object *object_of(struct unwind_steps *steps, void *key)
{
	struct object **chain = &steps->objects[(uintptr_t)key / 64 % NR_CHAINS];

	for (struct object *object = *chain; object; object = object->next)
		if (object->key == key)
			return object;
	struct object *object = calloc(1, sizeof(*object));
	if (!object)
		return NULL;
	int fd = steps->open(key, steps->ctx);
	*object = (struct object){*chain, key, fd >= 0 ? cfi_rows_open(fd) : NULL};
	return *chain = object;
}

/* NULL: no table has that code. */
static const struct cfi_row *row_at(struct unwind_steps *steps, struct maps *maps, uint64_t pc)
{
	const struct map *map = maps_find(maps, pc);
	struct object *object = map && !map->identity ? object_of(steps, map->object) : NULL;

	return object && object->rows ? cfi_rows_find(object->rows, map_address(map, pc)) : NULL;
}

/* A function that was called, or interrupted: what is known of its registers. */
struct frame {
	uint64_t registers[CFI_REGISTERS];
	uint32_t known; /* which, as bits */
	bool exact;     /* the address is where it was interrupted, not where a call comes back to */
	const struct sample *sample;
	uint64_t stack_start;
};

static bool frame_register(const struct frame *frame, uint64_t which, uint64_t *ret)
{
	if (which >= CFI_REGISTERS || !(frame->known >> which & 1))
		return false;
	*ret = frame->registers[which];
	return true;
}

/* Only what the sample has of the stack. */
static bool frame_load(const struct frame *frame, uint64_t address, uint64_t *ret)
{
	const struct span *stack = &frame->sample->user_stack;
	uint64_t offset = address - frame->stack_start;

	if (address < frame->stack_start || stack->len < sizeof(*ret) || offset > stack->len - sizeof(*ret))
		return false;
	memcpy(ret, (const char *)stack->ptr + offset, sizeof(*ret));
	return true;
}

/* A computation of DWARF's stack machine. */
struct machine_stack {
	uint64_t at[STACK_DEPTH];
	unsigned nr;
	bool location; /* what is on top is where the value is */
};

static bool push(struct machine_stack *stack, uint64_t value)
{
	if (stack->nr == STACK_DEPTH)
		return false;
	stack->at[stack->nr++] = value;
	return true;
}

static bool compute_two(struct machine_stack *stack, uint8_t atom)
{
	if (stack->nr < 2)
		return false;
	uint64_t right = stack->at[--stack->nr], *left = &stack->at[stack->nr - 1];
	switch (atom) {
	case DW_OP_plus: *left += right; return true;
	case DW_OP_and: *left &= right; return true;
	case DW_OP_shl:
		if (right > 63)
			return false;
		*left <<= right;
		return true;
	case DW_OP_ge: *left = (int64_t)*left >= (int64_t)right; return true;
	default: return false;
	}
}

enum outcome { STEP_DONE, STEP_LOST /* a register or a piece of stack is not known */, STEP_UNKNOWN /* ask libdwfl */ };

static enum outcome compute_op(const struct frame *frame, const uint64_t *cfa, const Dwarf_Op *op,
			       struct machine_stack *stack)
{
	uint64_t value;

	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return push(stack, op->atom - DW_OP_lit0) ? STEP_DONE : STEP_UNKNOWN;
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		if (!frame_register(frame, op->atom - DW_OP_breg0, &value))
			return STEP_LOST;
		return push(stack, value + op->number) ? STEP_DONE : STEP_UNKNOWN;
	}
	switch (op->atom) {
	case DW_OP_call_frame_cfa:
		stack->location = true;
		if (!cfa)
			return STEP_LOST;
		return push(stack, *cfa) ? STEP_DONE : STEP_UNKNOWN;
	case DW_OP_stack_value: stack->location = false; return STEP_DONE;
	case DW_OP_plus_uconst:
		if (!stack->nr)
			return STEP_UNKNOWN;
		stack->at[stack->nr - 1] += op->number;
		return STEP_DONE;
	case DW_OP_deref:
		if (!stack->nr)
			return STEP_UNKNOWN;
		return frame_load(frame, stack->at[stack->nr - 1], &stack->at[stack->nr - 1]) ? STEP_DONE : STEP_LOST;
	default: return compute_two(stack, op->atom) ? STEP_DONE : STEP_UNKNOWN;
	}
}

/* cfa NULL: it is what is computed, or was lost. */
static enum outcome compute(const struct frame *frame, const uint64_t *cfa, const struct cfi_ops *ops, uint64_t *ret)
{
	struct machine_stack stack = {.nr = 0};

	for (size_t i = 0; i < ops->nr; i++) {
		enum outcome outcome = compute_op(frame, cfa, &ops->at[i], &stack);
		if (outcome != STEP_DONE)
			return outcome;
	}
	if (!stack.nr)
		return STEP_UNKNOWN;
	if (stack.location)
		return frame_load(frame, stack.at[stack.nr - 1], ret) ? STEP_DONE : STEP_LOST;
	*ret = stack.at[stack.nr - 1];
	return STEP_DONE;
}

static enum outcome follow(const struct frame *frame, const uint64_t *cfa, const struct cfi_rule *rule, unsigned which,
			   uint64_t *ret)
{
	bool found = false;

	switch (rule->how) {
	case CFI_UNDEFINED: break;
	case CFI_SAME: found = frame_register(frame, which, ret); break;
	case CFI_REGISTER: found = frame_register(frame, (unsigned)rule->offset, ret); break;
	case CFI_VALUE:
		found = cfa;
		if (cfa)
			*ret = *cfa + (uint64_t)rule->offset;
		break;
	case CFI_STORED: found = cfa && frame_load(frame, *cfa + (uint64_t)rule->offset, ret); break;
	case CFI_OPS: return compute(frame, cfa, rule->ops, ret);
	}
	return found ? STEP_DONE : STEP_LOST;
}

/* From a function to its caller. STEP_LOST: there is none. */
static enum outcome step(const struct cfi_row *row, const struct frame *from, struct frame *to)
{
	uint64_t cfa = 0;
	enum outcome outcome = STEP_DONE;

	if (row->cfa)
		outcome = compute(from, NULL, row->cfa, &cfa);
	else if (frame_register(from, row->cfa_register, &cfa))
		cfa += (uint64_t)row->cfa_offset;
	else
		outcome = STEP_LOST;
	if (outcome == STEP_UNKNOWN)
		return STEP_UNKNOWN;
	const uint64_t *known_cfa = outcome == STEP_DONE ? &cfa : NULL;
	to->known = 0;
	to->exact = row->signal;
	to->sample = from->sample;
	to->stack_start = from->stack_start;
	for (unsigned i = 0; i < CFI_REGISTERS; i++) {
		outcome = follow(from, known_cfa, &row->registers[i], i, &to->registers[i]);
		if (outcome == STEP_UNKNOWN)
			return STEP_UNKNOWN;
		to->known |= (uint32_t)(outcome == STEP_DONE) << i;
	}
	return to->known >> CFI_RETURN & 1 && to->registers[CFI_RETURN] ? STEP_DONE : STEP_LOST;
}

static bool first_frame(const struct unwind_registers *registers, const struct sample *sample, struct frame *ret)
{
	*ret = (struct frame){.exact = true, .sample = sample};
	if (registers->nr != CFI_REGISTERS)
		return false;
	for (unsigned i = 0; i < CFI_REGISTERS; i++)
		if (!unwind_register(sample, registers->sampled[i], &ret->registers[i]))
			return false;
	ret->known = (1u << CFI_REGISTERS) - 1;
	ret->stack_start = ret->registers[STACK_POINTER];
	return true;
}

bool unwind_steps(struct unwind_steps *steps, const struct unwind_registers *registers, struct maps *maps,
		  const struct sample *sample, struct steps_chain *chain)
{
	struct frame frames[2];
	unsigned at = 0;

	if (!first_frame(registers, sample, &frames[at]) || !frames[at].registers[CFI_RETURN])
		return false;
	for (chain->nr = 0; chain->nr < chain->max; at = !at) {
		const struct frame *frame = &frames[at];
		uint64_t pc = frame->registers[CFI_RETURN];
		const struct cfi_row *row = row_at(steps, maps, frame->exact ? pc : pc - 1);
		enum outcome outcome = row ? step(row, frame, &frames[!at]) : STEP_UNKNOWN;
		if (outcome == STEP_UNKNOWN)
			return false;
		bool exact = frame->exact || (outcome == STEP_DONE && row->signal);
		chain->ips[chain->nr++] = exact ? pc : pc - 1;
		if (outcome == STEP_LOST)
			return true;
	}
	return true;
}
