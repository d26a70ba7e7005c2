/* SPDX-License-Identifier: MIT */
/*
 * From frame to frame. What a step trusts: nothing. The CFA of each frame is above that of the frame before, so a chain
 * ends. A signal frame alone may lead to another stack, which is anywhere: where hostile CFI has such frames again and
 * again, only `max` ends the chain. Values come from the registers and from the copy of the stack only.
 */
#include <stdlib.h>
#include <string.h>

#include "unwind/calls.h"
#include "unwind/frame.h"
#include "unwind/last_chain.h"
#include "unwind/object.h"

enum { CACHE_ENTRIES = 2048, KNOWN_BITS = 12, /* 2048: a power of two */ GO_ON = UNWIND_NR_ENDS };

/* No copy of a stack is larger; the registers that the kernel stores for a signal handler have a few KiB. */
enum { MOST_COPIED_BYTES = 64 << 10 };

/* The rule at a pc of an address space. Of one that is gone it may be, too, and is not used: unwind_object_free(). */
struct cached {
	uint64_t pc, generation; /* generation 0: empty */
	const struct unwind_rule *rule;
	/* Of simple rules, as bits: registers that are the caller's; slots but the first that are on the stack; */
	uint64_t same;
	union {
		uint64_t found;               /* registers that are in those slots, or follow from the CFA */
		const struct wide_rule *wide; /* of RULE_WIDE */
	};
	uint16_t stored;
	bool in_file, is_code; /* is_code: or that is not known */
	bool keeps_fp;         /* all code of the file does */
};

/* The rule at an address of an object: the same in all processes. Another table may be where one was given up. */
struct known_rule {
	uint64_t table; /* its number; 0: empty */
	uint64_t address;
	struct table_rule found;
};

struct unwind_cache {
	struct unwind_tables *tables;
	const struct unwind_arch *arch;
	uint64_t mask;                       /* the sampled registers that `positions` is of */
	uint64_t sampled;                    /* as bits: those of DWARF that are sampled */
	bool whole;                          /* all of them are */
	bool can_begin;                      /* the two that are always needed are: where it was, and its stack */
	bool never_waits;                    /* unwind_chain.never_waits */
	bool is_made;                        /* unwind_cache_prepare() */
	uint8_t positions[UNWIND_REGISTERS]; /* of DWARF's registers among the sampled ones */
	uint8_t pc_position;
	struct cached entries[CACHE_ENTRIES];
	struct known_rule known[1 << KNOWN_BITS];
	struct last_chain last[NR_LAST_CHAINS];
};

static const struct unwind_rule no_object = {.flags = RULE_NO_CFI};

struct unwind_cache *unwind_cache_new(struct unwind_tables *tables)
{
	struct unwind_cache *cache = calloc(1, sizeof(*cache));

	if (cache) {
		cache->tables = tables;
		cache->arch = unwind_tables_arch(tables);
	}
	return cache;
}

void unwind_cache_free(struct unwind_cache *cache)
{
	free(cache);
}

/* NULL: it would have to be made, for which this cache does not wait. */
static const struct table_rule *rule_at_address(struct unwind_cache *cache, struct unwind_table *table,
						uint64_t address)
{
	uint64_t hash = ((uintptr_t)table + address) * 0x9e3779b97f4a7c15ull;
	struct known_rule *known = &cache->known[hash >> (64 - KNOWN_BITS)];

	if (known->table == table->number && known->address == address)
		return &known->found;
	if (cache->never_waits && !table_has(table, address))
		return NULL;
	*known = (struct known_rule){table->number, address, table_find(table, address)};
	return &known->found;
}

static void sort_slots(const struct unwind_arch *arch, struct cached *entry)
{
	entry->found = UINT64_C(1) << arch->sp | UINT64_C(1) << arch->ra;
	for (unsigned i = 1; i < arch->nr_slots; i++) {
		int16_t slot = entry->rule->slots[i];
		if (slot == SLOT_SAME) {
			entry->same |= UINT64_C(1) << arch->slots[i];
		} else if (slot != SLOT_LOST) {
			entry->stored |= (uint16_t)(1u << i);
			entry->found |= UINT64_C(1) << arch->slots[i];
		}
	}
}

/* Into *entry, whether or not it is to stay there. The object whose table is not ready, or NULL. */
static struct unwind_object *look_up(struct unwind_cache *cache, const struct unwind_space *space, uint64_t pc,
				     struct cached *entry)
{
	uint64_t offset = 0, address;
	struct unwind_object *object = space->find(space->ctx, pc, &offset);
	enum unwind_object_state state = object ? unwind_object_state(object) : UNWIND_OBJECT_NO_TABLE;

	*entry = (struct cached){.pc = pc, .generation = space->generation, .rule = &no_object};
	if (state == UNWIND_OBJECT_NEW || state == UNWIND_OBJECT_BUILDING)
		return object;
	if (state == UNWIND_OBJECT_NO_FILE) /* it may be found later */
		entry->generation = 0;
	if (state == UNWIND_OBJECT_READY && table_address(object->table, offset, &address)) {
		const struct table_rule *found = rule_at_address(cache, object->table, address);
		if (!found)
			return object;
		entry->rule = found->rule;
		entry->in_file = true;
		entry->keeps_fp = object->table->keeps_fp;
		if (entry->rule->flags & RULE_WIDE)
			entry->wide = found->wide;
		else
			sort_slots(cache->arch, entry);
	}
	/* Of a caller the byte before is looked up, which of the kernel's trampoline of uretprobes is not mapped. */
	entry->is_code = entry->in_file || !space->is_code || space->is_code(space->ctx, pc) ||
			 space->is_code(space->ctx, pc + 1);
	return NULL;
}

/* Not inline: where the rule is there already, as most are, find_rule() saves no registers then. */
__attribute__((noinline)) static const struct cached *find_new_rule(struct unwind_cache *cache,
								    const struct unwind_space *space, uint64_t pc,
								    struct cached *entry,
								    struct unwind_object **ret_object)
{
	struct unwind_object *object = look_up(cache, space, pc, entry);

	if (!object)
		return entry;
	entry->generation = 0;
	*ret_object = object;
	return NULL;
}

/* NULL: the table of *ret_object is not ready. */
static const struct cached *find_rule(struct unwind_cache *cache, const struct unwind_space *space, uint64_t pc,
				      struct unwind_object **ret_object)
{
	uint64_t hash = (pc ^ space->generation << 20) * 0x9e3779b97f4a7c15ull;
	struct cached *entry = &cache->entries[hash >> 32 & (CACHE_ENTRIES - 1)];

	if (entry->pc == pc && entry->generation == space->generation && space->generation)
		return entry;
	return find_new_rule(cache, space, pc, entry, ret_object);
}

/* ---- steps: GO_ON, or why there is no caller ---- */

static int failed_load(const struct frame *frame, uint64_t address)
{
	return frame_is_cut(frame, address) ? UNWIND_CUT_STACK : UNWIND_BAD_MEMORY;
}

/* A function that was interrupted may have nothing on the stack yet, where calls store nothing there. */
static bool is_above(const struct frame *frame, uint64_t cfa)
{
	return cfa % 8 == 0 && (cfa > frame->low || (frame->exact && cfa == frame->low));
}

/* Where programs can have code. Their first page is never mapped, and the upper half is the kernel's. */
static bool may_be_code(uint64_t pc)
{
	return pc >= 4096 && pc >> 56 == 0;
}

static int go_to(const struct unwind_arch *arch, struct frame *frame, uint64_t pc)
{
	pc &= arch->address_bits;
	if (!pc)
		return UNWIND_COMPLETE;
	if (!may_be_code(pc))
		return UNWIND_BAD_MEMORY;
	frame->pc = pc;
	frame->low = frame->cfa;
	return GO_ON;
}

static int step_by_rule(const struct unwind_arch *arch, struct frame *frame, const struct cached *cached)
{
	const struct unwind_rule *rule = cached->rule;
	uint64_t cfa, ra, known = (frame->known & cached->same) | cached->found;

	if (!frame_register(frame, rule->cfa_register, &cfa))
		return frame->cut ? UNWIND_CUT_STACK : UNWIND_BAD_MEMORY;
	cfa += (uint64_t)(int64_t)rule->cfa_offset;
	if (is_above(frame, cfa))
		frame->cfa = cfa;
	if (rule->slots[0] == SLOT_LOST)
		return UNWIND_COMPLETE;
	if (!frame->cfa)
		return UNWIND_BAD_MEMORY;
	if (rule->slots[0] == SLOT_SAME) {
		if (!frame_register(frame, arch->ra, &ra) || arch->call_bytes || !frame->exact)
			return UNWIND_BAD_MEMORY;
	} else {
		uint64_t address = cfa + (uint64_t)(rule->slots[0] * 8ll);
		if (!frame_load(frame, address, &ra)) {
			frame->missing = address;
			return failed_load(frame, address);
		}
	}
	for (unsigned stored = cached->stored; stored; stored &= stored - 1) {
		unsigned i = (unsigned)__builtin_ctz(stored), nr = arch->slots[i];
		uint64_t address = cfa + (uint64_t)(rule->slots[i] * 8ll);
		if (frame_load(frame, address, &frame->registers[nr]))
			continue;
		known &= ~(UINT64_C(1) << nr);
		frame->cut |= frame_is_cut(frame, address);
	}
	frame->known = known;
	frame->registers[arch->sp] = cfa;
	frame->registers[arch->ra] = ra;
	frame->exact = rule->flags & RULE_SIGNAL;
	return go_to(arch, frame, ra);
}

/*
 * Of functions that align their stack gcc says that the frame pointer is stored where it points itself, and does not
 * say that `leave` has restored it: up to the `ret` it points past this frame, or anywhere, and has the caller's value.
 */
static bool is_restored(const struct frame *frame, unsigned nr, uint64_t address)
{
	uint64_t value;

	return frame->exact && frame_register(frame, nr, &value) && value == address &&
	       address - frame->low >= frame->cfa - frame->low;
}

/* The caller's value of one register. false: it is lost. */
static bool restore(const struct wide_rule *wide, struct frame *frame, unsigned nr, uint64_t *ret)
{
	const struct cfi_register *rule = &wide->state.registers[nr];
	uint64_t address = frame->cfa + (uint64_t)(int64_t)rule->value;

	switch ((enum cfi_how)rule->how) {
	case CFI_LOST: return false;
	case CFI_SAME: return frame_register(frame, nr, ret);
	case CFI_REGISTER: return frame_register(frame, (uint64_t)rule->value, ret);
	case CFI_VALUE: *ret = address; return true;
	case CFI_VALUE_EXPRESSION:
		return frame_compute(frame, table_expression(wide, rule->value), &frame->cfa, ret, &frame->cut);
	case CFI_EXPRESSION:
		if (!frame_compute(frame, table_expression(wide, rule->value), &frame->cfa, &address, &frame->cut))
			return false;
		if (is_restored(frame, nr, address)) {
			*ret = address;
			return true;
		}
		break;
	case CFI_STORED: break;
	}
	if (frame_load(frame, address, ret))
		return true;
	frame->cut |= frame_is_cut(frame, address);
	return false;
}

/* A signal handler may have a stack of its own, anywhere else. */
static bool is_on_other_stack(const struct frame *frame, uint64_t cfa)
{
	return cfa - frame->stack_start >= frame->stack_bytes;
}

/* Of which nothing was copied; or it is the same one, behind the end of the copy. */
static void go_to_other_stack(struct frame *frame, uint64_t cfa)
{
	frame->elsewhere = cfa < frame->low || cfa - frame->low >= MOST_COPIED_BYTES;
	frame->stack_start = cfa;
	frame->stack_bytes = 0;
}

/* As step_by_rule(), for the few rules that need more. */
static int step_by_wide_rule(const struct unwind_arch *arch, struct frame *frame, const struct wide_rule *wide,
			     bool is_signal)
{
	const struct cfi_state *state = &wide->state;
	uint64_t values[UNWIND_REGISTERS], known = 0, cfa;
	bool cut = frame->cut;

	bool found = state->cfa_is_expression
			     ? frame_compute(frame, table_expression(wide, state->cfa_value), NULL, &cfa, &cut)
			     : frame_register(frame, state->cfa_register, &cfa);
	if (state->registers[arch->ra].how == CFI_LOST)
		return UNWIND_COMPLETE;
	if (!found)
		return cut ? UNWIND_CUT_STACK : UNWIND_BAD_MEMORY;
	if (!state->cfa_is_expression)
		cfa += (uint64_t)(int64_t)state->cfa_value;
	bool other_stack = is_signal && is_on_other_stack(frame, cfa);
	if (!other_stack && !is_above(frame, cfa))
		return UNWIND_BAD_MEMORY;
	frame->cfa = cfa;
	for (unsigned i = 0; i < arch->nr; i++)
		if (restore(wide, frame, i, &values[i]))
			known |= UINT64_C(1) << i;
	if (!(known >> arch->ra & 1) ||
	    (state->registers[arch->ra].how == CFI_SAME && (arch->call_bytes || !frame->exact)))
		return frame->cut ? UNWIND_CUT_STACK : UNWIND_BAD_MEMORY;
	for (unsigned i = 0; i < arch->nr; i++)
		frame->registers[i] = values[i];
	frame->known = known;
	if (other_stack)
		go_to_other_stack(frame, cfa);
	frame->exact = is_signal;
	return go_to(arch, frame, values[arch->ra]);
}

/*
 * On arm64 signal handlers return to code without CFI: the kernel's since Linux 5.8 (commit 87676cfca141), musl's at
 * all times. The frame pointer would lead on to a frame record of the kernel's that has the frame pointer and the link
 * register of what was interrupted, so that this itself would be missing, and its caller wrong where the link register
 * is an old one. Such a frame is known by what setup_sigframe() stores: uc_flags and uc_link of 0, and both of those
 * registers a second time. false: it is another one.
 */
static bool is_signal_frame(const struct unwind_arch *arch, const struct frame *frame)
{
	enum { UC_FLAGS_AT = 128, UC_LINK_AT = 136 };
	const uint64_t both = UINT64_C(1) << arch->sp | UINT64_C(1) << arch->fp;
	const uint64_t sp = frame->registers[arch->sp], fp = frame->registers[arch->fp];
	const uint64_t stored = sp + arch->signal_registers;
	uint64_t flags, link, words[4];

	/* What was interrupted there is not the handler: that has returned. */
	if (!arch->has_signal_record || (frame->known & both) != both ||
	    (frame->exact && frame->pc - (frame->registers[arch->ra] & arch->address_bits) > 8))
		return false;
	return fp - sp < MOST_COPIED_BYTES && fp - sp > arch->signal_registers + arch->nr * 8u &&
	       frame_load(frame, sp + UC_FLAGS_AT, &flags) && !flags && frame_load(frame, sp + UC_LINK_AT, &link) &&
	       !link && frame_load(frame, fp, &words[0]) && frame_load(frame, fp + 8, &words[1]) &&
	       frame_load(frame, stored + arch->fp * 8u, &words[2]) && words[0] == words[2] &&
	       frame_load(frame, stored + arch->ra * 8u, &words[3]) && words[1] == words[3];
}

/*
 * To what the signal has interrupted. On the same stack that lies above `stored_end`, where what the kernel has stored
 * for the handler ends at the earliest.
 */
static int step_over_signal(const struct unwind_arch *arch, struct frame *frame, uint64_t stored_end)
{
	const uint64_t stored = frame->registers[arch->sp] + arch->signal_registers;
	uint64_t values[UNWIND_REGISTERS], pc;

	for (unsigned i = 0; i < arch->nr; i++)
		if (!frame_load(frame, stored + arch->signal_words[i] * 8u, &values[i]))
			return failed_load(frame, stored);
	if (!frame_load(frame, stored + arch->signal_pc * 8u, &pc))
		return failed_load(frame, stored);
	const uint64_t cfa = values[arch->sp];
	const bool other_stack = is_on_other_stack(frame, cfa);
	if (!other_stack && (!is_above(frame, cfa) || cfa <= stored_end))
		return UNWIND_BAD_MEMORY;
	frame->cfa = cfa;
	memcpy(frame->registers, values, arch->nr * sizeof(values[0]));
	frame->known = (UINT64_C(1) << arch->nr) - 1;
	if (other_stack)
		go_to_other_stack(frame, cfa);
	frame->exact = true;
	return go_to(arch, frame, pc);
}

/*
 * Without CFI: JIT code, assembler. The frame pointer leads to the caller when this code keeps frames or leaves the
 * caller's alone; of the innermost function, which may have changed it, that is an assumption.
 */
static int step_by_frame_pointer(const struct unwind_arch *arch, struct frame *frame, int why)
{
	uint64_t fp = 0, caller_fp, ra;

	if (!frame_register(frame, arch->fp, &fp))
		return frame->cut ? UNWIND_CUT_STACK : why;
	/* Of code that keeps frames. In other code, as of musl, 0 says nothing of the callers. */
	if (!fp && frame->led_by_fp && frame->low == frame->led_by_fp)
		return UNWIND_COMPLETE;
	if (fp < frame->low || fp % 8)
		return why;
	if (!frame_load(frame, fp, &caller_fp) || !frame_load(frame, fp + 8, &ra)) {
		frame->missing = fp + 8;
		return frame_is_cut(frame, fp + 8) ? UNWIND_CUT_STACK : why;
	}
	if (ra ? !may_be_code(ra & arch->address_bits) : caller_fp != 0)
		return why;
	frame->cfa = frame->led_by_fp = fp + 16;
	frame->known = UINT64_C(1) << arch->fp | UINT64_C(1) << arch->sp | UINT64_C(1) << arch->ra;
	frame->registers[arch->fp] = caller_fp;
	frame->registers[arch->sp] = frame->cfa;
	frame->registers[arch->ra] = ra;
	frame->exact = false;
	return go_to(arch, frame, ra);
}

/*
 * Likewise of what was interrupted, on x86: in the first and last instructions of most functions (`push rbp; mov rbp,
 * rsp`, `pop rbp; ret`), and in those that keep no frame, rbp is still the caller's, and would lead to the caller's
 * caller. The return address is at the stack pointer then, or above the rbp that was pushed there. Elsewhere a word
 * that is there may look like one, so is_led_on() has to agree. false: no code is there.
 */
static bool step_to_top_of_stack(const struct unwind_arch *arch, const struct unwind_space *space, struct frame *frame)
{
	uint64_t cfa = frame->registers[arch->sp], fp, ra;

	if (!frame->exact || !arch->call_bytes || !space->is_code || !frame_load(frame, cfa, &ra))
		return false;
	cfa += 8;
	if (frame_register(frame, arch->fp, &fp) && ra == fp) {
		if (!frame_load(frame, cfa, &ra))
			return false;
		cfa += 8;
	}
	if (!may_be_code(ra) || !space->is_code(space->ctx, ra - 1))
		return false;
	frame->cfa = frame->registers[arch->sp] = cfa;
	frame->known &= UINT64_C(1) << arch->fp;
	frame->known |= UINT64_C(1) << arch->sp | UINT64_C(1) << arch->ra;
	frame->registers[arch->ra] = ra;
	frame->exact = false;
	return go_to(arch, frame, ra) == GO_ON;
}

/* Whether a chain comes to a good end behind its second frame, which step_to_top_of_stack() has found. */
static bool is_led_on(const struct unwind_chain *chain)
{
	switch (chain->end) {
	case UNWIND_COMPLETE:
	case UNWIND_FULL:
	case UNWIND_NOT_READY: return true;
	case UNWIND_CUT_STACK: return chain->nr > 2;
	default: return false;
	}
}

/*
 * A chain that ends because the return address of its last frame was not copied: the kernel has followed frame pointers
 * from the same registers, also from one stack to another. recorded[n + 1] is what the n-th of them leads to, 8 bytes
 * above where it points; if that is the very address which is missing, the callers from there on are known. Returns how
 * many.
 */
static unsigned continue_recorded(const struct unwind_cache *cache, const struct frame *frame, uint64_t fp,
				  const struct unwind_chain *chain)
{
	uint64_t ra;
	size_t n;
	unsigned nr = 0;

	for (n = 0; n + 1 < chain->nr_recorded && fp + 8 != frame->missing; n++)
		if (!frame_load(frame, fp + 8, &ra) || (ra & cache->arch->address_bits) != chain->recorded[n + 1] ||
		    !frame_load(frame, fp, &fp))
			return 0;
	for (n++; frame->missing && n < chain->nr_recorded && chain->nr + nr < chain->max; n++)
		if (may_be_code(chain->recorded[n]))
			chain->ips[chain->nr + nr++] = chain->recorded[n] - 1;
	return nr;
}

/*
 * Go's code that switches to the thread's stack and calls there: what is on this one above is of an earlier time. The
 * frame pointer is still the caller's: what was called has stored it below its return address, as Go's functions do, or
 * its own call frame information tells it, as C's does.
 */
static int step_over_switch(const struct unwind_arch *arch, struct frame *frame, bool returns)
{
	uint64_t fp = 0, word;

	if (!returns)
		return UNWIND_BAD_MEMORY;
	if (frame_register(frame, arch->fp, &fp) && (frame->exact || !frame_load(frame, fp, &word)))
		frame->switched_fp[1] = fp;
	if (!frame->exact && frame_load(frame, frame->low - 16, &fp))
		frame->switched_fp[0] = fp;
	return UNWIND_BAD_MEMORY;
}

/* ---- chains ---- */

bool unwind_sampled_register(const struct sample_regs *regs, unsigned nr, uint64_t *ret)
{
	if (nr >= 64 || !(regs->mask >> nr & 1) || !regs->regs)
		return false;
	*ret = regs->regs[__builtin_popcountll(regs->mask & ((UINT64_C(1) << nr) - 1))];
	return true;
}

bool unwind_sampled_pc(const struct unwind_cache *cache, const struct sample_regs *regs, uint64_t *ret)
{
	return cache->arch && unwind_sampled_register(regs, cache->arch->sampled_pc, ret);
}

static uint8_t position(uint64_t mask, unsigned nr)
{
	return (uint8_t)__builtin_popcountll(mask & ((UINT64_C(1) << nr) - 1));
}

/*
 * Makes its pages, before the first use, in the thread that uses it. Else each is read before it is written, which
 * takes two page faults, and the second one interrupts all CPUs that run a thread of this process.
 */
static void touch(struct unwind_cache *cache)
{
	memset(cache->entries, 0, sizeof(cache->entries));
	memset(cache->known, 0, sizeof(cache->known));
	memset(cache->last, 0, sizeof(cache->last));
}

void unwind_cache_prepare(struct unwind_cache *cache)
{
	touch(cache);
	cache->is_made = true;
}

/* Where the registers are among those that were sampled; the same for all samples of an event. */
static void learn_positions(struct unwind_cache *cache, uint64_t mask)
{
	const struct unwind_arch *arch = cache->arch;

	if (!cache->mask && !cache->is_made) /* the first sample */
		touch(cache);
	cache->mask = mask;
	cache->can_begin = mask >> arch->sampled_pc & mask >> arch->sampled_sp & 1;
	cache->pc_position = position(mask, arch->sampled_pc);
	cache->sampled = 0;
	for (unsigned i = 0; i < arch->nr_sampled; i++) {
		const bool is_sampled = mask >> arch->sampled[i] & 1;
		cache->sampled |= (uint64_t)is_sampled << i;
		cache->positions[i] = is_sampled ? position(mask, arch->sampled[i]) : cache->pc_position;
	}
	cache->whole = cache->can_begin && cache->sampled == (UINT64_C(1) << arch->nr_sampled) - 1;
}

/* false: the registers that are always needed are not there, or no stack. */
static bool can_begin(struct unwind_cache *cache, const struct sample_regs *regs, struct span stack)
{
	if (!cache->arch || regs->abi != PERF_SAMPLE_REGS_ABI_64 || !regs->regs || !stack.len)
		return false;
	if (regs->mask != cache->mask)
		learn_positions(cache, regs->mask);
	return cache->can_begin;
}

/* The innermost frame. */
static void first_frame(const struct unwind_cache *cache, const struct sample_regs *regs, struct span stack,
			struct frame *ret)
{
	const struct unwind_arch *arch = cache->arch;

#pragma GCC unroll 8
	for (unsigned i = 0; i < arch->nr_sampled; i++)
		ret->registers[i] = regs->regs[cache->positions[i]];
	ret->known = cache->sampled;
	for (unsigned i = 0; i < arch->nr_sampled && !cache->whole; i++) /* record --user-regs */
		ret->registers[i] = cache->sampled >> i & 1 ? ret->registers[i] : 0;
	ret->stack = stack.ptr;
	ret->stack_bytes = stack.len;
	ret->stack_start = ret->low = ret->registers[arch->sp];
	ret->pc = regs->regs[cache->pc_position];
	ret->exact = true;
	ret->cut = false;
	ret->elsewhere = false;
	ret->missing = ret->led_by_fp = 0;
	ret->switched_fp[0] = ret->switched_fp[1] = 0;
	ret->joined = false;
}

/* Of code without CFI, and without a frame pointer that could be followed. */
static enum unwind_end no_caller(const struct cached *cached)
{
	return cached->in_file ? UNWIND_NO_CFI : UNWIND_NO_OBJECT;
}

/*
 * Of code at the start of a program: whether nothing has called it. The stack begins with what the kernel has put
 * there, the number of arguments and a pointer to each, with a 0 behind them. In assembler another function may follow.
 */
static bool is_outermost(const struct unwind_arch *arch, const struct frame *frame)
{
	enum { MOST_ARGUMENTS = 1 << 22 };
	uint64_t sp, nr, end;

	if (!frame_register(frame, arch->sp, &sp) || !frame_load(frame, sp, &nr) || !nr || nr > MOST_ARGUMENTS)
		return false;
	return !frame_load(frame, sp + 8 + nr * 8, &end) || !end;
}

/* To the caller of the frame. GO_ON, or why there is none. */
static int step(struct unwind_cache *cache, struct frame *frame, const struct cached *cached)
{
	const struct unwind_rule *rule = cached->rule;

	frame->cfa = 0;
	frame->joined |= (rule->flags & RULE_NOT_CALLED) != 0;
	if (rule->flags & RULE_SWITCH)
		return step_over_switch(cache->arch, frame, rule->flags & RULE_RETURNS);
	if (rule->flags & RULE_TRAMPOLINE)
		return step_over_signal(cache->arch, frame, frame->registers[cache->arch->sp]);
	if (rule->flags & RULE_START && is_outermost(cache->arch, frame))
		return UNWIND_COMPLETE;
	if (rule->flags & RULE_NO_CFI && is_signal_frame(cache->arch, frame)) /* which ends with a frame record */
		return step_over_signal(cache->arch, frame, frame->registers[cache->arch->fp]);
	if (rule->flags & RULE_NO_CFI)
		return step_by_frame_pointer(cache->arch, frame, (int)no_caller(cached));
	if (rule->flags & RULE_WIDE)
		return step_by_wide_rule(cache->arch, frame, cached->wide, rule->flags & RULE_SIGNAL);
	return step_by_rule(cache->arch, frame, cached);
}

/* What is known of a frame before the step to its caller. */
static struct last_frame last_frame_of(const struct unwind_arch *arch, const struct frame *frame)
{
	struct last_frame now = {.pc = frame->pc, .sp = frame->registers[arch->sp]};

	frame_register(frame, arch->fp, &now.fp);
	return now;
}

/*
 * And behind that step, to `caller` or to the end. false: the frame cannot be met. The innermost one is not, either, as
 * more than three registers may count there, nor one that a signal has interrupted.
 */
static bool describe(const struct unwind_arch *arch, const struct cached *cached, const struct frame *caller,
		     struct last_frame *now)
{
	const struct unwind_rule *rule = cached->rule;

	if (rule->flags & (RULE_WIDE | RULE_SIGNAL | RULE_SWITCH | RULE_NOT_CALLED) || caller->exact ||
	    !cached->generation)
		return false;
	if (rule->flags & RULE_NO_CFI) {
		now->uses_fp = true;
		now->ra_at = now->fp ? now->fp + 8 : 0;
		now->fp_at = now->fp;
		return true;
	}
	if (rule->slots[0] != SLOT_LOST)
		now->ra_at = caller->cfa + (uint64_t)(rule->slots[0] * 8ll);
	if (cached->stored & 1u << SLOT_OF_FP)
		now->fp_at = caller->cfa + (uint64_t)(rule->slots[SLOT_OF_FP] * 8ll);
	now->keeps_fp = rule->slots[SLOT_OF_FP] == SLOT_SAME;
	now->uses_fp = rule->cfa_register == arch->fp;
	return rule->cfa_register == arch->sp || now->uses_fp;
}

/* NULL: it cannot be met, so that those inside of it need not be known. */
static void note(struct new_frames *new, const struct last_frame *frame)
{
	if (!frame) {
		new->innermost_rule = NULL;
		new->nr = 0;
		new->too_many = false;
	} else if (new->nr == LAST_CHAIN_FRAMES) {
		new->too_many = true;
	} else {
		new->frames[new->nr++] = *frame;
	}
}

/* The rule may have said that nothing is on the stack yet, or where else the return address is. */
static void note_innermost(struct new_frames *new, const struct cached *cached, const struct last_frame *frame)
{
	if (cached->rule->flags & RULE_NO_CFI || cached->rule->slots[0] == SLOT_SAME)
		return;
	new->innermost_rule = cached->rule;
	new->innermost = *frame;
}

/* The frames of the last chain that this one has met. How it ends. */
static enum unwind_end take_met(const struct meeting *meeting, struct unwind_chain *chain)
{
	const struct last_frame *const frames = meeting->last->frames;
	uint64_t *const ips = chain->ips;
	size_t left = meeting->nr;
	unsigned nr = chain->nr;

	while (left && nr < chain->max)
		ips[nr++] = frames[--left].pc - 1;
	chain->nr = nr;
	return left ? UNWIND_FULL : UNWIND_COMPLETE;
}

const char *unwind_end_text(enum unwind_end end)
{
	switch (end) {
	case UNWIND_CUT_STACK: return "were copied in part";
	case UNWIND_SHORT_COPY: return "go on beyond the part that the kernel could copy";
	case UNWIND_OTHER_STACK:
		return "are of signal handlers with a stack of their own: the interrupted one was not copied";
	case UNWIND_NO_CFI: return "lead into code without unwind information";
	case UNWIND_NO_OBJECT: return "lead into code without a file that could be read, or whose table had no room";
	case UNWIND_BAD_MEMORY: return "lead out of the stack";
	case UNWIND_NO_REGISTERS:
		return "had no stack, or are of programs of 32 bits or of an architecture that is not unwound";
	default: return NULL;
	}
}

/* How the first caller is found in code of which there is no call frame information. */
enum first_step {
	STEP_BY_TOP,   /* step_to_top_of_stack(); where that leads nowhere: as below */
	STEP_BY_FRAME, /* step() */
};

/* From the innermost frame to its callers. true: step_to_top_of_stack() led to the first. */
static bool walk(struct unwind_cache *cache, const struct unwind_space *space, struct frame *frame,
		 struct unwind_chain *chain, enum first_step first)
{
	const struct unwind_arch *arch = cache->arch;
	enum unwind_end otherwise = UNWIND_BAD_MEMORY; /* if this is no code: why the frame before has no caller */
	bool maps_known = false, met = false, by_top = false;
	struct meeting meeting = {0};
	struct new_frames new;

	if (chain->thread && space->generation && !chain->cfas)
		meeting.last = last_chain_of(cache->last, chain->thread, space->generation);
	meeting.nr = meeting.last ? meeting.last->nr : 0;
	note(&new, NULL);
	for (int end = GO_ON; end == GO_ON;) {
		bool exact = frame->exact;
		uint64_t pc = frame->pc;
		met = !exact && meeting.nr && meeting_is_at(&meeting, frame, arch);
		if (met) {
			chain->end = take_met(&meeting, chain);
			break;
		}
		if (chain->nr == chain->max) {
			chain->end = UNWIND_FULL;
			return by_top;
		}
		const struct cached *cached = find_rule(cache, space, exact ? pc : pc - 1, &chain->object);
		if (!cached) {
			chain->nr = 0;
			chain->end = UNWIND_NOT_READY;
			return by_top;
		}
		/* Of what was interrupted there is no doubt: there the maps are not known. */
		maps_known |= exact && cached->is_code;
		if (!exact && maps_known && !cached->is_code) {
			chain->end = otherwise;
			return by_top;
		}
		otherwise = cached->rule->flags & RULE_NO_CFI ? no_caller(cached) : UNWIND_BAD_MEMORY;
		struct last_frame now = last_frame_of(arch, frame);
		const bool frame_began_at_sp = frame->low == now.sp;
		if (!chain->nr && first == STEP_BY_TOP && cached->rule->flags & RULE_NO_CFI)
			by_top = step_to_top_of_stack(arch, space, frame);
		if (chain->nr || !by_top)
			end = step(cache, frame, cached);
		const bool is_described = meeting.last && frame_began_at_sp && describe(arch, cached, frame, &now);
		note(&new, is_described && !exact ? &now : NULL);
		if (is_described && exact && !chain->nr && !by_top)
			note_innermost(&new, cached, &now);
		/* No code has called that to which a signal handler returns, and what others only name as a caller. */
		const bool is_signal =
			cached->rule->flags & (RULE_SIGNAL | RULE_NOT_CALLED) || (end == GO_ON && frame->exact);
		chain->ips[chain->nr] = exact || is_signal ? pc : pc - 1;
		if (chain->cfas)
			chain->cfas[chain->nr] = frame->cfa;
		chain->nr++;
		if (end != GO_ON)
			chain->end = (enum unwind_end)end;
	}
	if (!met)
		meeting.nr = 0;
	if (meeting.last && chain->end == UNWIND_COMPLETE && maps_known)
		meeting_end(&meeting, &new);
	return by_top;
}

/*
 * The last chain of the thread, where no function was called or has come back since. false: it is not known to be the
 * same.
 */
static bool take_last(struct unwind_cache *cache, const struct unwind_space *space, const struct sample_regs *regs,
		      struct span stack, struct unwind_chain *chain)
{
	const struct unwind_arch *arch = cache->arch;
	const uint64_t pc = regs->regs[cache->pc_position], sp = regs->regs[cache->positions[arch->sp]];
	struct unwind_object *missing;
	struct meeting meeting;
	struct frame frame; /* only the stack: to clear the rest would take as long as what follows */

	if (!chain->thread || !space->generation || chain->cfas || !chain->max || !cache->whole)
		return false;
	frame.stack = stack.ptr;
	frame.stack_start = sp;
	frame.stack_bytes = stack.len;
	struct last_chain *last = last_chain_of(cache->last, chain->thread, space->generation);
	if (!last->innermost_rule || last->innermost.sp != sp)
		return false;
	const struct cached *cached = find_rule(cache, space, pc, &missing);
	if (!cached || !meeting_at_innermost(last, cached->rule, &frame, sp, regs->regs[cache->positions[arch->fp]],
					     arch->address_bits, &meeting))
		return false;
	chain->ips[chain->nr++] = pc;
	chain->end = take_met(&meeting, chain);
	return true;
}

/*
 * What is not unwound here, as a 32-bit program, was executing something all the same, and the kernel may have found
 * its callers by frame pointers.
 */
static void take_recorded(const struct unwind_cache *cache, const struct sample_regs *regs, struct unwind_chain *chain)
{
	if (!chain->max || !unwind_sampled_pc(cache, regs, &chain->ips[0]))
		return;
	chain->nr = 1;
	for (size_t n = 1; regs->abi == PERF_SAMPLE_REGS_ABI_32 && n < chain->nr_recorded && chain->nr < chain->max;
	     n++)
		if (may_be_code(chain->recorded[n]))
			chain->ips[chain->nr++] = chain->recorded[n] - 1;
	if (chain->cfas)
		memset(chain->cfas, 0, chain->nr * sizeof(*chain->cfas));
}

/* Its unwind information says that nothing has called it. */
static bool is_outermost_code(const struct unwind_arch *arch, const struct cached *cached)
{
	if (cached->rule->flags & RULE_WIDE)
		return cached->wide->state.registers[arch->ra].how == CFI_LOST;
	return cached->rule->flags & RULE_NO_CFI ? cached->rule->flags & RULE_START
						 : cached->rule->slots[0] == SLOT_LOST;
}

/*
 * Behind the callers that the kernel has found: these may end too soon as well, at code that keeps no frame pointer.
 * How the chain ends.
 */
static enum unwind_end end_of_continued(struct unwind_cache *cache, const struct unwind_space *space,
					struct unwind_chain *chain)
{
	if (chain->nr == chain->max)
		return UNWIND_CONTINUED;
	const struct cached *cached = find_rule(cache, space, chain->ips[chain->nr - 1], &chain->object);
	if (!cached) {
		chain->nr = 0;
		return UNWIND_NOT_READY;
	}
	return cached->keeps_fp || is_outermost_code(cache->arch, cached) ? UNWIND_CONTINUED : chain->end;
}

/* Where code is, for comparison. false: in no file with a table. */
static bool find_place(const struct unwind_space *space, uint64_t pc, struct unwind_object **ret_object,
		       uint64_t *ret_address)
{
	uint64_t offset;
	struct unwind_object *object = space->find(space->ctx, pc, &offset);

	*ret_object = object;
	return object && unwind_object_state(object) == UNWIND_OBJECT_READY &&
	       table_address(object->table, offset, ret_address);
}

/*
 * What step_to_top_of_stack() has found may be the return address of an earlier call, in space that the sampled code
 * has reserved and not written. The instruction before it has called a function that has returned since; and callers of
 * its caller may be callers here as well, but for the first, which has called the sampled code, and not the function of
 * the frame inside of it. calls_find() tells. It does not where what was called may have jumped to other code. The
 * last byte of something else may look like the e8 of a direct call only where no call stands before the address. Of a
 * frame without CFI the caller may be left out. May end as UNWIND_NOT_READY.
 */
static bool is_stale(struct unwind_cache *cache, const struct unwind_space *space, struct unwind_chain *chain)
{
	enum { MOST_CALLS = 8, NO_CALL = RULE_SIGNAL | RULE_TRAMPOLINE | RULE_SWITCH | RULE_NOT_CALLED };
	struct unwind_object *object = NULL, *other, *missing;
	uint64_t address, lacking = 0;
	uint32_t called;

	if (chain->nr < 2)
		return false;
	const struct cached *sampled = find_rule(cache, space, chain->ips[0], &missing);
	const bool in_file = sampled && sampled->in_file && find_place(space, chain->ips[0], &object, &address);
	const uint32_t place = in_file ? table_place(object->table, address) : 0;
	const unsigned nr = in_file ? MOST_CALLS : 1;
	for (unsigned i = 1, inner = 0; i < chain->nr && i <= nr; i++) {
		const struct cached *cached = find_rule(cache, space, chain->ips[i], &missing);
		if (!cached || cached->rule->flags & NO_CALL)
			break;
		const bool counts = !(inner & RULE_NO_CFI);
		inner = cached->rule->flags;
		if (!counts || !cached->in_file || !find_place(space, chain->ips[i], &other, &address) ||
		    (i > 1 && other != object))
			continue;
		switch (calls_find(other, address + 1, cache->never_waits, &called)) {
		case CALLED_KNOWN:
			if (i > 1 ? called == place : !(called & TABLE_WITHOUT_CFI))
				return true;
			break;
		case CALLED_NOT_READ: lacking = chain->ips[i]; break;
		case CALLED_UNKNOWN: break;
		}
	}
	if (lacking && find_place(space, lacking, &other, &address)) { /* the last one that is looked for */
		chain->nr = 0;
		chain->object = other;
		chain->end = UNWIND_NOT_READY;
	}
	return false;
}

void unwind_chain(struct unwind_cache *cache, const struct unwind_space *space, const struct sample_regs *regs,
		  struct span stack, struct unwind_chain *chain)
{
	struct frame frame;

	chain->nr = 0;
	chain->object = NULL;
	chain->is_continued = false;
	chain->end = UNWIND_NO_REGISTERS;
	cache->never_waits = chain->never_waits;
	if (!can_begin(cache, regs, stack)) {
		if (stack.len)
			take_recorded(cache, regs, chain);
		return;
	}
	if (take_last(cache, space, regs, stack, chain))
		return;
	first_frame(cache, regs, stack, &frame);
	const uint64_t fp = frame.registers[cache->arch->fp], stack_start = frame.stack_start;
	if (walk(cache, space, &frame, chain, STEP_BY_TOP) && (!is_led_on(chain) || is_stale(cache, space, chain))) {
		first_frame(cache, regs, stack, &frame);
		chain->nr = 0;
		walk(cache, space, &frame, chain, STEP_BY_FRAME);
	}
	chain->is_continued = frame.joined && chain->end == UNWIND_COMPLETE;
	if (chain->is_continued)
		chain->end = UNWIND_CONTINUED;
	const bool is_switched = frame.switched_fp[0] || frame.switched_fp[1];
	if (chain->end != UNWIND_CUT_STACK && !is_switched)
		return;
	if (!is_switched && frame.elsewhere)
		chain->end = UNWIND_OTHER_STACK;
	else if (!is_switched && stack.len < chain->dump_bytes)
		chain->end = UNWIND_SHORT_COPY;
	if (!chain->nr_recorded)
		return;
	frame.stack_start = stack_start;
	frame.stack_bytes = stack.len;
	unsigned nr = is_switched ? 0 : continue_recorded(cache, &frame, fp, chain);
	for (unsigned i = 0; i < 2 && is_switched && !nr; i++) {
		frame.missing = frame.switched_fp[i] ? frame.switched_fp[i] + 8 : 0;
		nr = continue_recorded(cache, &frame, fp, chain);
	}
	if (chain->cfas)
		memset(chain->cfas + chain->nr, 0, nr * sizeof(*chain->cfas));
	chain->nr += nr;
	chain->is_continued |= nr > 0;
	if (nr)
		chain->end = is_switched ? UNWIND_CONTINUED : end_of_continued(cache, space, chain);
}

/* A file's code without CFI that has called what has some: most likely what a signal handler returns to. */
static bool returns_from_signal(const struct cached *cached)
{
	return cached->in_file && cached->rule->flags & RULE_NO_CFI;
}

bool unwind_leaf_caller(struct unwind_cache *cache, const struct unwind_space *space, const struct sample_regs *regs,
			uint64_t pc, uint64_t *ret)
{
	const struct unwind_arch *arch = cache->arch;
	struct unwind_object *object;
	uint64_t caller;

	cache->never_waits = false;
	if (!arch || !arch->sampled_lr || regs->abi != PERF_SAMPLE_REGS_ABI_64 ||
	    !unwind_sampled_register(regs, arch->sampled_lr, &caller) || !(caller &= arch->address_bits))
		return false;
	const struct cached *cached = find_rule(cache, space, pc, &object);
	if (!cached || cached->rule->flags & RULE_NO_CFI)
		return false;
	bool kept = cached->rule->flags & RULE_WIDE ? cached->wide->state.registers[arch->ra].how == CFI_SAME
						    : cached->rule->slots[0] == SLOT_SAME;
	if (!kept)
		return false;
	const struct cached *of_caller = find_rule(cache, space, caller - 1, &object);
	*ret = of_caller && returns_from_signal(of_caller) ? caller : caller - 1;
	return true;
}
