/* System calls by number: as the library itself makes them, and as programs do. calls.h has which is what. */
#define _GNU_SOURCE
#include "turns.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#undef syscall

#define ARGUMENTS(a, number)                                                   \
	long a[6];                                                             \
	va_list ap;                                                            \
	va_start(ap, number);                                                  \
	for (int i = 0; i < 6; i++)                                            \
		a[i] = va_arg(ap, long);                                       \
	va_end(ap)

/* direct_syscall is the kernel's. It works before the C library's functions can be looked up. */
long direct_syscall(long number, ...)
{
	long ret;

	ARGUMENTS(a, number);
#if defined(__x86_64__)
	register long r10 __asm__("r10") = a[3], r8 __asm__("r8") = a[4], r9 __asm__("r9") = a[5];

	__asm__ volatile("syscall" : "=a"(ret) : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
#else
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a[0], x1 __asm__("x1") = a[1], x2 __asm__("x2") = a[2],
		      x3 __asm__("x3") = a[3], x4 __asm__("x4") = a[4], x5 __asm__("x5") = a[5];

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	ret = x0;
#endif
	if ((unsigned long)ret <= -4096ul)
		return ret;
	errno = -ret;
	return -1;
}

#if defined(__x86_64__)

int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags);
int pidfd_open(pid_t pid, unsigned flags);
int pidfd_send_signal(int pidfd, int sig, siginfo_t *info, unsigned flags);

static long failed(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* set_of is the C library's set of the kernel's. */
static const sigset_t *set_of(const void *kernel, sigset_t *set)
{
	if (!kernel)
		return NULL;
	sigemptyset(set);
	memcpy(set, kernel, sizeof(uint64_t));
	return set;
}

static long signals_suspend(const void *mask)
{
	sigset_t set;

	return sigsuspend(set_of(mask, &set));
}

static long signals_timedwait(const void *wanted, siginfo_t *info, const struct timespec *timeout)
{
	sigset_t set;

	return sigtimedwait(set_of(wanted, &set), info, timeout);
}

static long ppoll_call(const long *a)
{
	sigset_t set;

	return ppoll((void *)a[0], a[1], (void *)a[2], set_of((void *)a[3], &set));
}

static long pselect_call(const long *a)
{
	const uintptr_t *mask = (void *)a[5]; /* a set and its size */
	sigset_t set;

	return pselect(a[0], (void *)a[1], (void *)a[2], (void *)a[3], (void *)a[4], set_of(mask ? (void *)mask[0] : NULL, &set));
}

static long epoll_call(const long *a)
{
	sigset_t set;

	return epoll_pwait(a[0], (void *)a[1], a[2], a[3], set_of((void *)a[4], &set));
}

static long priority(int which, id_t who)
{
	int nice;

	errno = 0;
	nice = getpriority(which, who);
	return errno ? -1 : 20 - nice; /* so that none is negative */
}

/* affinity returns how much of the set the kernel would have. */
static long affinity(pid_t pid, size_t size, cpu_set_t *set)
{
	return sched_getaffinity(pid, size, set) ? -1 : (long)sizeof(long);
}

static long thread_kill(pid_t thread, int sig)
{
	return tgkill(welcome.pid + (thread - (pid_t)welcome.pid) % THREADS_APART, thread, sig);
}

static long futex_call(const long *a)
{
	enum { WAIT, WAIT_BITSET = 9, COMMAND = 127, OF_DAY = 256 };
	const struct timespec *timeout = (void *)a[3];
	int command = a[1] & COMMAND;
	int64_t until = NEVER;

	if (command != WAIT && command != WAIT_BITSET) {
		turn_changed();
		return direct_syscall(SYS_futex, a[0], a[1], a[2], a[3], a[4], a[5]);
	}
	if (atomic_load((const _Atomic uint32_t *)a[0]) != (uint32_t)a[2])
		return failed(EAGAIN);
	if (timeout)
		until = command == WAIT ? from_now(ps_of(timeout)) : instant_of(a[1] & OF_DAY ? CLOCK_REALTIME : CLOCK_MONOTONIC, timeout);
	if (!(a[1] & 128)) /* not FUTEX_PRIVATE_FLAG */
		turn_shares = true;
	return failed(turn_futex((const _Atomic uint32_t *)a[0], a[2], until));
}

#define VIRTUAL(number, name, call)                                            \
	case number:                                                           \
		return call;
#define PASSED(number, name)                                                   \
	case number:                                                           \
		break;
#define REFUSED(number, name)                                                  \
	case number:                                                           \
		turn_refuse("the system call " #name);

static long simulated_call(long number, const long *a)
{
	/* What watches a program's memory, as UCX does, makes these calls in place of the functions, which it has changed. */
	if (number == SYS_shmat || (number == SYS_mmap && a[3] & MAP_SHARED))
		turn_shares = true;
	switch (number) {
#include "calls.h"
	default:
		turn_refuse("the system call %ld", number);
	}
	return direct_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#else

static long simulated_call(long number, const long *a)
{
	return direct_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#endif

EXPORT long syscall(long number, ...)
{
	ARGUMENTS(a, number);
	return simulated() ? simulated_call(number, a) : direct_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
