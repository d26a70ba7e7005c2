/* SPDX-License-Identifier: MIT */
/* The kernel's code, from a file laid out as /proc/kcore: it is in memory, at addresses that are no offsets. */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/code/code.h"
#include "analyze/symbols/dso.h"
#include "base/diag.h"

static const uint64_t text_start = 0xffffffff81000000, into = 0x1230;
static const uint8_t function[] = {0x55, 0x48, 0x89, 0xe5, 0xeb, 0xfa, 0xc3}; /* push, mov, jmp to the push, ret */

static struct dso_table table = {.of_this_boot = true};
static struct dso kernel = {
	.name = "[kernel.kallsyms]", .short_name = "[kernel.kallsyms]", .kind = DSO_KERNEL, .table = &table};
static const struct symbol symbol = {
	.start = text_start + into, .end = text_start + into + sizeof(function), .name = "f"};

/* Segments of other memory stand before the one with the kernel's text; `bytes` of that are in the file. */
static int make_kcore(uint64_t bytes)
{
	Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_CORE,
			     .e_machine = EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_phoff = sizeof(header),
			     .e_ehsize = sizeof(header),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = 3};
	Elf64_Phdr segments[3] = {
		{.p_type = PT_NOTE, .p_offset = 0x400, .p_filesz = 0x10},
		{.p_type = PT_LOAD, .p_offset = 0x1000, .p_vaddr = 0xffff888000000000, .p_filesz = 0x1000},
		{.p_type = PT_LOAD, .p_offset = 0x2000, .p_vaddr = text_start, .p_filesz = 0x2000},
	};
	int fd = memfd_create("kcore", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, (off_t)(0x2000 + bytes)), 0);
	assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
	assert_int_equal(pwrite(fd, segments, sizeof(segments), sizeof(header)), sizeof(segments));
	if (bytes >= into + sizeof(function))
		assert_int_equal(pwrite(fd, function, sizeof(function), (off_t)(0x2000 + into)), sizeof(function));
	return fd;
}

static int read_kernel(int fd, struct code *ret, struct diag *reterr)
{
	const struct code_options options = {.kernel_fd = fd};
	int err = code_read(&kernel, &symbol, &options, ret, reterr);

	if (fd >= 0)
		close(fd);
	return err;
}

static void test_kernel_code_is_found_by_address(void **state)
{
	(void)state;
	struct code code = {0};
	struct diag diag = {0};
	int err = read_kernel(make_kcore(0x2000), &code, &diag);

	if (err == -ENOTSUP) /* built without capstone, or the library is not there */
		skip();
	assert_int_equal(err, 0);
	assert_int_equal(code.nr, 4);
	assert_int_equal(code.all[0].address, symbol.start);
	assert_non_null(strstr(code.all[0].text, "push"));
	assert_true(code.all[2].jump);
	assert_int_equal(code.all[2].target, symbol.start);
	assert_non_null(strstr(code.all[3].text, "ret"));
	assert_int_equal(code_find(&code, symbol.start + 2), 1);
	code_fini(&code);
}

static void test_kernel_code_that_cannot_be_had(void **state)
{
	(void)state;
	struct code code = {0};
	struct diag diag = {0};

	assert_int_equal(read_kernel(-1, &code, &diag), -EACCES);
	assert_non_null(strstr(diag.text, "/proc/kcore"));
	assert_true(read_kernel(make_kcore(into + 2), &code, &diag) < 0); /* ends inside the function */
	int no_elf = memfd_create("text", MFD_CLOEXEC);
	assert_int_equal(write(no_elf, "text\n", 5), 5);
	assert_true(read_kernel(no_elf, &code, &diag) < 0);
	table.of_this_boot = false; /* addresses mean something else */
	assert_int_equal(read_kernel(make_kcore(0x2000), &code, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, "not the one that runs"));
	table.of_this_boot = true;
	assert_null(code.all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel_code_is_found_by_address),
		cmocka_unit_test(test_kernel_code_that_cannot_be_had),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
