/* SPDX-License-Identifier: MIT */
/* Source: DWARF 5, 2.5.1, and 6.4.2 for what cannot be in call frame information. */
#include <dwarf.h>

#include "base/span.h"
#include "unwind/frame.h"

enum { DEPTH = 32, MOST_OPERATIONS = 256 };

struct machine {
	uint64_t at[DEPTH];
	unsigned nr;
	bool failed;
	bool cut;
	struct cursor code;
	const uint8_t *begin;
	const struct frame *frame;
};

/* Of as many bytes as 64 bits need at most. */
static uint64_t take_uleb(struct cursor *c)
{
	uint64_t value = 0;
	uint8_t byte;

	for (unsigned shift = 0;; shift += 7) {
		if (shift >= 70) {
			c->bad = true;
			return 0;
		}
		byte = cursor_u8(c);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static uint64_t take_sleb(struct cursor *c)
{
	const uint8_t *start = c->at;
	uint64_t value = take_uleb(c);
	size_t bits = (size_t)(c->at - start) * 7;

	return bits && bits < 64 && value >> (bits - 1) & 1 ? value | UINT64_MAX << bits : value;
}

static void push(struct machine *m, uint64_t value)
{
	if (m->nr < DEPTH)
		m->at[m->nr++] = value;
	else
		m->failed = true;
}

/* The word `depth` below the top. */
static uint64_t *peek(struct machine *m, unsigned depth)
{
	static _Thread_local uint64_t nothing;

	if (depth < m->nr)
		return &m->at[m->nr - 1 - depth];
	m->failed = true;
	return &nothing;
}

static uint64_t pop(struct machine *m)
{
	uint64_t value = *peek(m, 0);

	m->nr -= m->nr > 0;
	return value;
}

static void push_register(struct machine *m, uint64_t nr, uint64_t offset)
{
	uint64_t value = 0;

	if (!frame_register(m->frame, nr, &value)) {
		m->failed = true;
		m->cut |= m->frame->cut;
	}
	push(m, value + offset);
}

static void deref(struct machine *m, unsigned bytes)
{
	uint64_t *top = peek(m, 0), value;

	if (m->failed || bytes == 0 || bytes > 8) {
		m->failed = true;
	} else if (!frame_load(m->frame, *top, &value)) {
		m->failed = true;
		m->cut |= frame_is_cut(m->frame, *top);
	} else {
		*top = bytes == 8 ? value : value & ((UINT64_C(1) << bytes * 8) - 1);
	}
}

static void jump(struct machine *m, int16_t by)
{
	int64_t to = m->code.at - m->begin + by;

	if (m->failed || to < 0 || to > m->code.end - m->begin)
		m->failed = true;
	else
		m->code.at = m->begin + to;
}

/* One that takes two words and leaves one. false: it is none of them. */
static bool do_binary(struct machine *m, uint8_t op)
{
	uint64_t right = *peek(m, 0), left = *peek(m, 1), result;
	int64_t sleft = (int64_t)left, sright = (int64_t)right;

	switch (op) {
	case DW_OP_and: result = left & right; break;
	case DW_OP_or: result = left | right; break;
	case DW_OP_xor: result = left ^ right; break;
	case DW_OP_plus: result = left + right; break;
	case DW_OP_minus: result = left - right; break;
	case DW_OP_mul: result = left * right; break;
	case DW_OP_div:
	case DW_OP_mod:
		m->failed |= !right || (op == DW_OP_div && sleft == INT64_MIN && sright == -1);
		result = m->failed ? 0 : op == DW_OP_mod ? left % right : (uint64_t)(sleft / sright);
		break;
	case DW_OP_shl: result = right < 64 ? left << right : 0; break;
	case DW_OP_shr: result = right < 64 ? left >> right : 0; break;
	case DW_OP_shra: result = (uint64_t)(sleft >> (right < 63 ? right : 63)); break;
	case DW_OP_le: result = sleft <= sright; break;
	case DW_OP_ge: result = sleft >= sright; break;
	case DW_OP_eq: result = left == right; break;
	case DW_OP_lt: result = sleft < sright; break;
	case DW_OP_gt: result = sleft > sright; break;
	case DW_OP_ne: result = left != right; break;
	default:
		m->failed = false; /* what op is instead may need fewer words */
		return false;
	}
	pop(m);
	*peek(m, 0) = result;
	return true;
}

static void swap(uint64_t *a, uint64_t *b)
{
	uint64_t c = *a;
	*a = *b;
	*b = c;
}

static void do_stack(struct machine *m, uint8_t op)
{
	switch (op) {
	case DW_OP_dup: push(m, *peek(m, 0)); break;
	case DW_OP_drop: pop(m); break;
	case DW_OP_over: push(m, *peek(m, 1)); break;
	case DW_OP_pick: push(m, *peek(m, cursor_u8(&m->code))); break;
	case DW_OP_swap: swap(peek(m, 0), peek(m, 1)); break;
	case DW_OP_rot:
		swap(peek(m, 0), peek(m, 1));
		swap(peek(m, 1), peek(m, 2));
		break;
	case DW_OP_abs: *peek(m, 0) = (int64_t)*peek(m, 0) < 0 ? -*peek(m, 0) : *peek(m, 0); break;
	case DW_OP_neg: *peek(m, 0) = -*peek(m, 0); break;
	case DW_OP_not: *peek(m, 0) = ~*peek(m, 0); break;
	case DW_OP_deref: deref(m, 8); break;
	case DW_OP_deref_size: deref(m, cursor_u8(&m->code)); break;
	case DW_OP_plus_uconst: *peek(m, 0) += take_uleb(&m->code); break;
	case DW_OP_skip: jump(m, (int16_t)cursor_u16(&m->code)); break;
	case DW_OP_bra: {
		int16_t by = (int16_t)cursor_u16(&m->code);
		if (pop(m))
			jump(m, by);
		break;
	}
	case DW_OP_nop: break;
	default: m->failed = true; /* an absolute address, too: where the object lies is not said */
	}
}

/* Of a machine that has not failed. */
static void do_operation(struct machine *m, uint8_t op)
{
	struct cursor *c = &m->code;

	switch (op) {
	case DW_OP_lit0 ... DW_OP_lit31: push(m, op - DW_OP_lit0); return;
	case DW_OP_breg0 ... DW_OP_breg31: push_register(m, op - DW_OP_breg0, take_sleb(c)); return;
	case DW_OP_bregx: {
		uint64_t nr = take_uleb(c);
		push_register(m, nr, take_sleb(c));
		return;
	}
	case DW_OP_const1u: push(m, cursor_u8(c)); return;
	case DW_OP_const1s: push(m, (uint64_t)(int8_t)cursor_u8(c)); return;
	case DW_OP_const2u: push(m, cursor_u16(c)); return;
	case DW_OP_const2s: push(m, (uint64_t)(int16_t)cursor_u16(c)); return;
	case DW_OP_const4u: push(m, cursor_u32(c)); return;
	case DW_OP_const4s: push(m, (uint64_t)(int32_t)cursor_u32(c)); return;
	case DW_OP_const8u:
	case DW_OP_const8s: push(m, cursor_u64(c)); return;
	case DW_OP_constu: push(m, take_uleb(c)); return;
	case DW_OP_consts: push(m, take_sleb(c)); return;
	}
	if (!do_binary(m, op))
		do_stack(m, op);
}

bool frame_compute(const struct frame *frame, struct span expression, const uint64_t *cfa, uint64_t *ret, bool *ret_cut)
{
	struct machine m = {.code = cursor_over(expression), .begin = expression.ptr, .frame = frame};

	if (cfa)
		push(&m, *cfa);
	for (unsigned i = 0; cursor_left(&m.code) && !m.failed && !m.code.bad; i++) {
		if (i == MOST_OPERATIONS)
			return false;
		do_operation(&m, cursor_u8(&m.code));
	}
	if (m.failed || m.code.bad || !m.nr) {
		*ret_cut |= m.cut;
		return false;
	}
	*ret = m.at[m.nr - 1];
	return true;
}
