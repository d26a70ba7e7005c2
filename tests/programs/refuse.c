/* SPDX-License-Identifier: MIT */
/*
 * A kernel that knows less: loaded with LD_PRELOAD, it refuses perf_event_open(2) with EINVAL when the attr has any of
 * the bits that the environment names: REFUSE_BYTE and REFUSE_MASK (a number; of the 8 bytes at that offset of the
 * attr), or REFUSE_FLAGS (of the call). For all tasks on the CPU REFUSE_CPU it refuses it with ENODEV, while there is a
 * file REFUSE_CPU_WHILE if that is set. It refuses ioctl(2) with the request REFUSE_IOCTL, after REFUSE_AFTER that it
 * grants.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t number(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : 0;
}

static int refused(const struct perf_event_attr *attr, unsigned long flags)
{
	uint64_t mask = number("REFUSE_MASK"), offset = number("REFUSE_BYTE"), word = 0;

	if (flags & number("REFUSE_FLAGS"))
		return 1;
	if (!mask || offset + sizeof(word) > sizeof(*attr))
		return 0;
	memcpy(&word, (const char *)attr + offset, sizeof(word));
	return (word & mask) != 0;
}

static int is_offline(int cpu)
{
	const char *file = getenv("REFUSE_CPU_WHILE");

	return getenv("REFUSE_CPU") && cpu == (int)number("REFUSE_CPU") && (!file || access(file, F_OK) == 0);
}

/*
 * The system call itself: what this stands before would only be found with dlsym(3), and the raw call is all it does.
 */
static long call(long nr, const long a[6])
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = a[3], r8 __asm__("r8") = a[4], r9 __asm__("r9") = a[5];
	long ret;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#else
	(void)nr, (void)a;
	return -ENOSYS;
#endif
}

static long result(long ret)
{
	if (ret < 0 && ret > -4096) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}

int ioctl(int fd, unsigned long request, ...)
{
	static atomic_ulong nr_seen;
	va_list list;

	va_start(list, request);
	const long args[6] = {fd, (long)request, va_arg(list, long)};
	va_end(list);
	if (request == number("REFUSE_IOCTL") && atomic_fetch_add(&nr_seen, 1) >= number("REFUSE_AFTER"))
		return (int)result(-EINVAL);
	return (int)result(call(SYS_ioctl, args));
}

long syscall(long nr, ...)
{
	long args[6];
	va_list list;

	va_start(list, nr);
	for (int i = 0; i < 6; i++)
		args[i] = va_arg(list, long);
	va_end(list);
	if (nr == SYS_perf_event_open && args[0] && refused((const void *)args[0], (unsigned long)args[4]))
		return result(-EINVAL);
	if (nr == SYS_perf_event_open && (int)args[1] == -1 && is_offline((int)args[2]))
		return result(-ENODEV);
	return result(call(nr, args));
}
