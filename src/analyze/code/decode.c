/* SPDX-License-Identifier: MIT */
#include <capstone/capstone.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/code/code.h"
#include "base/buf.h"
#include "base/diag.h"
#include "sysinfo/library.h"

static struct {
	__typeof__(cs_open) *open;
	__typeof__(cs_option) *option;
	__typeof__(cs_malloc) *malloc;
	__typeof__(cs_disasm_iter) *disasm_iter;
	__typeof__(cs_insn_group) *insn_group;
	__typeof__(cs_free) *free;
	__typeof__(cs_close) *close;
} capstone;

#define TEXT_OF_VALUE(value) #value
#define TEXT_OF(macro) TEXT_OF_VALUE(macro)

/* Its tables have 77,000 relocations. */
static bool load_capstone(void)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(cs_open, &capstone.open),
		LIBRARY_FUNCTION(cs_option, &capstone.option),
		LIBRARY_FUNCTION(cs_malloc, &capstone.malloc),
		LIBRARY_FUNCTION(cs_disasm_iter, &capstone.disasm_iter),
		LIBRARY_FUNCTION(cs_insn_group, &capstone.insn_group),
		LIBRARY_FUNCTION(cs_free, &capstone.free),
		LIBRARY_FUNCTION(cs_close, &capstone.close),
	};

	return library_load("libcapstone.so." TEXT_OF(CS_API_MAJOR), functions,
			    sizeof(functions) / sizeof(functions[0]));
}

static bool open_decoder(uint16_t machine, enum code_syntax syntax, csh *ret)
{
	bool x86 = machine == EM_X86_64 || machine == EM_386;
	cs_arch arch = x86 ? CS_ARCH_X86 : CS_ARCH_ARM64;
	cs_mode mode = machine == EM_X86_64 ? CS_MODE_64 : machine == EM_386 ? CS_MODE_32 : CS_MODE_LITTLE_ENDIAN;

	if (!x86 && machine != EM_AARCH64)
		return false;
	if (capstone.open(arch, mode, ret) != CS_ERR_OK)
		return false;
	capstone.option(*ret, CS_OPT_DETAIL, CS_OPT_ON);
	capstone.option(*ret, CS_OPT_SKIPDATA, CS_OPT_ON); /* bytes that are no instruction: ".byte" */
	if (x86 && syntax == CODE_ATT)
		capstone.option(*ret, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
	return true;
}

static bool in_group(csh decoder, const cs_insn *instruction, unsigned group)
{
	/* What was skipped as data has no id and no detail. */
	return instruction->id && capstone.insn_group(decoder, instruction, group);
}

/* Where a jump or call goes, when that is a number in the instruction. 0: it is not. */
static uint64_t target_of(const cs_insn *instruction, uint16_t machine)
{
	if (machine == EM_AARCH64) {
		const cs_arm64 *detail = &instruction->detail->arm64;
		for (uint8_t i = 0; i < detail->op_count; i++)
			if (detail->operands[i].type == ARM64_OP_IMM && i + 1 == detail->op_count)
				return (uint64_t)detail->operands[i].imm;
		return 0;
	}
	const cs_x86 *detail = &instruction->detail->x86;
	return detail->op_count == 1 && detail->operands[0].type == X86_OP_IMM ? (uint64_t)detail->operands[0].imm : 0;
}

static int add(struct code *code, size_t *room, const struct code_instruction *instruction)
{
	if (array_room(code->all, code->nr, *room))
		return -ENOMEM;
	code->all[code->nr++] = *instruction;
	return 0;
}

static int take(csh decoder, const cs_insn *from, const struct code_bytes *bytes, struct code *code, size_t *room)
{
	struct code_instruction instruction = {
		.address = bytes->address + (from->address - bytes->shown),
		.shown = from->address,
		.jump = in_group(decoder, from, CS_GRP_JUMP),
		.call = in_group(decoder, from, CS_GRP_CALL),
	};

	if (instruction.jump || instruction.call) {
		uint64_t target = target_of(from, bytes->machine);
		instruction.target = target ? bytes->address + (target - bytes->shown) : 0;
	}
	if (asprintf(&instruction.text, "%-7s %s", from->mnemonic, from->op_str) < 0)
		return -ENOMEM;
	int err = add(code, room, &instruction);
	if (err)
		free(instruction.text);
	return err;
}

int code_decode(const struct code_bytes *bytes, enum code_syntax syntax, struct code *ret, struct diag *reterr)
{
	const uint8_t *at = bytes->ptr;
	size_t left = bytes->len, room = 0;
	uint64_t address = bytes->shown;
	int err = 0;
	csh decoder;

	if (!load_capstone())
		return diag_set(reterr, -ENOTSUP, "libcapstone, which decodes instructions, %s", library_problem());
	if (!open_decoder(bytes->machine, syntax, &decoder))
		return diag_set(reterr, -ENOTSUP, "code of this kind of CPU is not decoded");
	cs_insn *instruction = capstone.malloc(decoder);
	while (instruction && !err && left && capstone.disasm_iter(decoder, &at, &left, &address, instruction))
		err = take(decoder, instruction, bytes, ret, &room);
	if (!instruction || err)
		err = diag_set(reterr, -ENOMEM, "out of memory");
	if (instruction)
		capstone.free(instruction, 1);
	capstone.close(&decoder);
	return err;
}
