/* SPDX-License-Identifier: MIT */
/*
 * bpf SECONDS [LINE]: loads a BPF program "bpf_hot", says "running", and runs it until that took so much CPU time.
 * Its type information says that the loop is that line, or 42, of bpf_hot.bpf.c. With other lines it is another
 * program. Exits with 77 where that is not allowed.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SKIPPED = 77, INT_TYPE = 1, PROTO_TYPE, FUNC_TYPE };

static const char texts[] = "\0int\0bpf_hot\0/src/bpf_hot.bpf.c\0loop";
enum { TEXT_INT = 1, TEXT_HOT = 5, TEXT_FILE = 13, TEXT_LOOP = 32 };

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static uint64_t address(const void *of)
{
	return (uintptr_t)of;
}

static void fail(const char *what)
{
	int status = errno == EPERM || errno == ENOSYS ? SKIPPED : 1;

	perror(what);
	exit(status);
}

static int load_types(void)
{
	struct {
		struct btf_header header;
		struct btf_type number;
		uint32_t number_bits;
		struct btf_type proto, function;
		char texts[sizeof(texts)];
	} types = {
		.header = {.magic = BTF_MAGIC, .version = BTF_VERSION, .hdr_len = sizeof(types.header)},
		.number = {.name_off = TEXT_INT, .info = BTF_KIND_INT << 24, .size = 4},
		.number_bits = BTF_INT_SIGNED << 24 | 32,
		.proto = {.info = BTF_KIND_FUNC_PROTO << 24, .type = INT_TYPE},
		.function = {.name_off = TEXT_HOT, .info = BTF_KIND_FUNC << 24, .type = PROTO_TYPE},
	};

	memcpy(types.texts, texts, sizeof(texts));
	types.header.type_len = (uint32_t)((char *)types.texts - (char *)&types.number);
	types.header.str_off = types.header.type_len;
	types.header.str_len = sizeof(texts);
	union bpf_attr attr = {.btf = address(&types),
			       .btf_size = sizeof(types.header) + types.header.type_len + sizeof(texts)};
	return bpf(BPF_BTF_LOAD, &attr);
}

/* r1 = 2000; do r0 += line; while (--r1 != 0); return 0 */
static int load_program(int types, unsigned line)
{
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 1, .imm = 2000},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 0, .imm = (int)line},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 1, .imm = -1},
		{.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 1, .off = -3, .imm = 0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	static const struct bpf_func_info function = {0, FUNC_TYPE};
	const struct bpf_line_info lines[] = {{0, TEXT_FILE, TEXT_LOOP, (line - 1) << 10},
					      {2, TEXT_FILE, TEXT_LOOP, line << 10},
					      {5, TEXT_FILE, TEXT_LOOP, (line + 1) << 10}};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
		.insns = address(code),
		.insn_cnt = sizeof(code) / sizeof(code[0]),
		.license = address("GPL"),
		.prog_name = "bpf_hot",
		.prog_btf_fd = (uint32_t)types,
		.func_info_rec_size = sizeof(function),
		.func_info = address(&function),
		.func_info_cnt = 1,
		.line_info_rec_size = sizeof(lines[0]),
		.line_info = address(lines),
		.line_info_cnt = sizeof(lines) / sizeof(lines[0]),
	};

	return bpf(BPF_PROG_LOAD, &attr);
}

static double cpu_time(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	const char packet[64] = "";
	int types = load_types();
	if (types < 0)
		fail("BTF");
	int program = load_program(types, argc > 2 ? (unsigned)atoi(argv[2]) : 42);
	if (program < 0)
		fail("program");
	puts("running");
	fflush(stdout);
	double until = cpu_time() + (argc > 1 ? atof(argv[1]) : 1);
	while (cpu_time() < until) {
		union bpf_attr run = {.test = {.prog_fd = (uint32_t)program,
					       .data_in = address(packet),
					       .data_size_in = sizeof(packet),
					       .repeat = 10000}};
		if (bpf(BPF_PROG_TEST_RUN, &run))
			fail("run");
	}
	return 0;
}
