/* SPDX-License-Identifier: MIT */
/*
 * jit SECONDS [DIRECTORY]: code compiled at run time, in memory without a file. Runs a function of its own making for
 * so long (CPU time), and calls it "jit_hot" in DIRECTORY/perf-PID.map if there is a directory; PID as the process sees
 * itself. A line "PID ADDRESS" on stdout says where it is.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
/* mov $10000000, %ecx; 1: dec %ecx; jnz 1b; ret */
static const uint8_t code[] = {0xb9, 0x80, 0x96, 0x98, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
#elif defined(__aarch64__)
/* mov w0, #0x980000; 1: subs w0, w0, #1; b.ne 1b; ret */
static const uint32_t code[] = {0x52a01300, 0x71000400, 0x54ffffe1, 0xd65f03c0};
#else
#error "no code for this architecture"
#endif

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	const size_t bytes = 1 << 16;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[4096];

	if (memory == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	memcpy(memory, code, sizeof(code));
	__builtin___clear_cache(memory, (char *)memory + sizeof(code));
	if (argc > 2) {
		snprintf(path, sizeof(path), "%s/perf-%d.map", argv[2], (int)getpid());
		FILE *map = fopen(path, "w");
		if (!map || fprintf(map, "%" PRIxPTR " %zx jit_hot\n", (uintptr_t)memory, sizeof(code)) < 0 ||
		    fclose(map)) {
			perror(path);
			return 1;
		}
	}
	printf("%d %" PRIxPTR "\n", (int)getpid(), (uintptr_t)memory);
	fflush(stdout);
	while ((double)clock() / CLOCKS_PER_SEC < seconds)
		((void (*)(void))memory)();
	return 0;
}
