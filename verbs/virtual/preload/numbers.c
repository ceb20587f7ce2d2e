/* Calls that name processes by their numbers, in simulated time: the program has the simulation's, the kernel its own. */
#define _GNU_SOURCE
#include "turns.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

EXPORT int pidfd_open(pid_t pid, unsigned flags);
EXPORT int pidfd_send_signal(int pidfd, int sig, siginfo_t *info, unsigned flags);

/* What TURN_PROCESS asks for. */
enum { KERNEL_OF, NUMBER_OF };

pid_t kernel_number(pid_t number)
{
	uint64_t kernel;
	int err;

	if (number <= 0)
		return number ? -1 : 0;
	if (number == (pid_t)welcome.pid)
		return syscall(SYS_getpid);
	if (number == turn_thread())
		return syscall(SYS_gettid);
	err = turn_ask(TURN_PROCESS, number, KERNEL_OF, 0, 0, &kernel);
	errno = err;
	return err ? -1 : (pid_t)kernel;
}

pid_t simulated_number(pid_t kernel)
{
	uint64_t number = 0;

	if (kernel <= 0)
		return kernel;
	turn_ask(TURN_PROCESS, kernel, NUMBER_OF, 0, 0, &number);
	return number;
}

/* OF makes a call by the kernel's number of a process, as kernel. */
#define OF(number, call)                                                       \
	({                                                                     \
		pid_t kernel = kernel_number(number);                          \
		if (kernel < 0 && (number) < 0)                                \
			errno = ESRCH;                                         \
		kernel < 0 ? -1 : (call);                                      \
	})

EXPORT pid_t getpgid(pid_t pid)
{
	return simulated() ? OF(pid, simulated_number(NEXT(getpgid)(kernel))) : NEXT(getpgid)(pid);
}

EXPORT pid_t getpgrp(void)
{
	return simulated() ? getpgid(0) : NEXT(getpgrp)();
}

/* session gives the simulation's number of a session. One whose leader is outside of the PID namespace is 0 to the kernel. */
static pid_t session(pid_t kernel) { return kernel ? simulated_number(kernel) : 1; }

EXPORT pid_t getsid(pid_t pid)
{
	return simulated() ? OF(pid, session(NEXT(getsid)(kernel))) : NEXT(getsid)(pid);
}

EXPORT int setpgid(pid_t pid, pid_t group)
{
	pid_t of;

	if (!simulated() || group < 0)
		return NEXT(setpgid)(pid, group);
	of = kernel_number(group);
	if (of < 0) {
		errno = EPERM;
		return -1;
	}
	return OF(pid, NEXT(setpgid)(kernel, of));
}

EXPORT int setpgrp(void)
{
	return setpgid(0, 0);
}

EXPORT pid_t setsid(void)
{
	if (!simulated())
		return NEXT(setsid)();
	return NEXT(setsid)() < 0 ? -1 : (pid_t)welcome.pid;
}

/* Niceness is the scheduler's: the kernel's is that of the machine's processes, and none is nicer than 19. */
static int niceness(__priority_which_t which, id_t who, bool set, int nice)
{
	uint64_t value = nice;
	int err = which == PRIO_USER ? EPERM : turn_ask(TURN_NICE, who ? who : welcome.pid, set, value, 0, &value);

	errno = err;
	return err ? -1 : (int)value;
}

EXPORT int getpriority(__priority_which_t which, id_t who)
{
	return simulated() ? niceness(which, who, false, 0) : NEXT(getpriority)(which, who);
}

EXPORT int setpriority(__priority_which_t which, id_t who, int nice)
{
	if (!simulated())
		return NEXT(setpriority)(which, who, nice);
	niceness(which, who, true, nice < PRIO_MIN ? PRIO_MIN : nice >= PRIO_MAX ? PRIO_MAX - 1 : nice);
	return errno ? -1 : 0;
}

EXPORT int nice(int more)
{
	int was;

	if (!simulated())
		return NEXT(nice)(more);
	was = getpriority(PRIO_PROCESS, 0);
	if (setpriority(PRIO_PROCESS, 0, was + more)) {
		errno = EPERM; /* not EACCES */
		return -1;
	}
	return getpriority(PRIO_PROCESS, 0);
}

/* The machine has one processor, number 0, which all threads run on. */
static int affinity(size_t size, cpu_set_t *set)
{
	if (size < sizeof(long)) {
		errno = EINVAL;
		return -1;
	}
	memset(set, 0, size);
	CPU_SET_S(0, size, set);
	return 0;
}

EXPORT int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	return simulated() ? OF(pid, affinity(size, set)) : NEXT(sched_getaffinity)(pid, size, set);
}

static int set_affinity(size_t size, const cpu_set_t *set)
{
	if (CPU_ISSET_S(0, size, set))
		return 0;
	errno = EINVAL;
	return -1;
}

EXPORT int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	return simulated() ? OF(pid, set_affinity(size, set)) : NEXT(sched_setaffinity)(pid, size, set);
}

EXPORT int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *set)
{
	if (!simulated())
		return NEXT(pthread_getaffinity_np)(thread, size, set);
	return affinity(size, set) ? errno : 0;
}

EXPORT int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
	if (!simulated())
		return NEXT(pthread_setaffinity_np)(thread, size, set);
	return set_affinity(size, set) ? errno : 0;
}

EXPORT int sched_getcpu(void)
{
	return simulated() ? 0 : NEXT(sched_getcpu)();
}

EXPORT int getcpu(unsigned *cpu, unsigned *node)
{
	if (!simulated())
		return NEXT(getcpu)(cpu, node);
	if (cpu)
		*cpu = 0;
	if (node)
		*node = 0;
	return 0;
}

/* All are scheduled by turns: as SCHED_OTHER, whatever policy this process was started with. */
EXPORT int sched_getscheduler(pid_t pid)
{
	return simulated() ? OF(pid, SCHED_OTHER) : NEXT(sched_getscheduler)(pid);
}

static int scheduled(int policy, const struct sched_param *param)
{
	policy &= ~SCHED_RESET_ON_FORK;
	if (policy == SCHED_FIFO || policy == SCHED_RR) {
		errno = EPERM;
		return -1;
	}
	if ((policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE) && !param->sched_priority)
		return 0;
	errno = EINVAL;
	return -1;
}

EXPORT int sched_setscheduler(pid_t pid, int policy, const struct sched_param *param)
{
	return simulated() ? OF(pid, scheduled(policy, param)) : NEXT(sched_setscheduler)(pid, policy, param);
}

static int no_priority(struct sched_param *param)
{
	param->sched_priority = 0;
	return 0;
}

EXPORT int sched_getparam(pid_t pid, struct sched_param *param)
{
	return simulated() ? OF(pid, no_priority(param)) : NEXT(sched_getparam)(pid, param);
}

EXPORT int sched_setparam(pid_t pid, const struct sched_param *param)
{
	return simulated() ? OF(pid, scheduled(SCHED_OTHER, param)) : NEXT(sched_setparam)(pid, param);
}

EXPORT int sched_rr_get_interval(pid_t pid, struct timespec *t)
{
	return simulated() ? OF(pid, NEXT(sched_rr_get_interval)(kernel, t)) : NEXT(sched_rr_get_interval)(pid, t);
}

EXPORT int prlimit(pid_t pid, __rlimit_resource_t what, const struct rlimit *new, struct rlimit *old)
{
	return simulated() ? OF(pid, NEXT(prlimit)(kernel, what, new, old)) : NEXT(prlimit)(pid, what, new, old);
}

EXPORT int prlimit64(pid_t pid, __rlimit_resource_t what, const struct rlimit64 *new, struct rlimit64 *old)
{
	return simulated() ? OF(pid, NEXT(prlimit64)(kernel, what, new, old)) : NEXT(prlimit64)(pid, what, new, old);
}

EXPORT ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long n, const struct iovec *there, unsigned long m, unsigned long flags)
{
	if (!simulated())
		return NEXT(process_vm_readv)(pid, here, n, there, m, flags);
	return OF(pid, NEXT(process_vm_readv)(kernel, here, n, there, m, flags));
}

EXPORT ssize_t process_vm_writev(pid_t pid, const struct iovec *here, unsigned long n, const struct iovec *there, unsigned long m, unsigned long flags)
{
	ssize_t ret;

	if (!simulated())
		return NEXT(process_vm_writev)(pid, here, n, there, m, flags);
	ret = OF(pid, NEXT(process_vm_writev)(kernel, here, n, there, m, flags));
	turn_changed();
	return ret;
}

EXPORT int tgkill(pid_t pid, pid_t thread, int sig)
{
	if (!simulated())
		return NEXT(tgkill)(pid, thread, sig);
	if (pid == (pid_t)welcome.pid && thread == turn_thread())
		return syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), sig);
	if (thread < pid || (thread - pid) % THREADS_APART) {
		errno = ESRCH;
		return -1;
	}
	return kill_thread(pid, sig, (thread - pid) / THREADS_APART + 1);
}

EXPORT int sigqueue(pid_t pid, int sig, const union sigval value)
{
	if (!simulated())
		return NEXT(sigqueue)(pid, sig, value);
	if (pid != (pid_t)welcome.pid && sig)
		turn_refuse("sigqueue to another process");
	return sig ? NEXT(sigqueue)(syscall(SYS_getpid), sig, value) : kill(pid, 0);
}

int pidfd_open(pid_t pid, unsigned flags)
{
	return simulated() ? OF(pid, NEXT(pidfd_open)(kernel, flags)) : NEXT(pidfd_open)(pid, flags);
}

/* pid_of returns the kernel's number of a pidfd's process, or -1. */
static pid_t pid_of(int pidfd)
{
	char path[64], text[1024], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = syscall(SYS_read, fd, text, sizeof text - 1);
	syscall(SYS_close, fd);
	text[n < 0 ? 0 : n] = 0;
	at = strstr(text, "\nPid:");
	return at ? atoi(at + 5) : -1;
}

int pidfd_send_signal(int pidfd, int sig, siginfo_t *info, unsigned flags)
{
	pid_t kernel;

	if (!simulated() || !sig)
		return NEXT(pidfd_send_signal)(pidfd, sig, info, flags);
	kernel = pid_of(pidfd);
	if (kernel <= 0) {
		errno = kernel ? ESRCH : EBADF;
		return -1;
	}
	return kill(simulated_number(kernel), sig);
}

/* The clock shows simulated time, as all of processor time do. */
EXPORT int clock_getcpuclockid(pid_t pid, clockid_t *clock)
{
	if (!simulated())
		return NEXT(clock_getcpuclockid)(pid, clock);
	if (OF(pid, 0))
		return ESRCH;
	*clock = pid && pid != (pid_t)welcome.pid ? (clockid_t)(~(unsigned)pid << 3 | 2) : CLOCK_PROCESS_CPUTIME_ID;
	return 0;
}

int owner_fcntl(int fd, int cmd, uintptr_t arg)
{
	struct f_owner_ex *ex = (void *)arg, copy;
	int ret;

	switch (cmd) {
	case F_SETOWN: {
		pid_t number = (int)arg < 0 ? -(int)arg : (int)arg;

		return OF(number, NEXT(fcntl)(fd, cmd, (int)arg < 0 ? -kernel : kernel));
	}
	case F_GETOWN:
		/* A group's number is negative, as an error is: F_GETOWN_EX tells them apart. */
		if (NEXT(fcntl)(fd, F_GETOWN_EX, &copy))
			return -1;
		ret = simulated_number(copy.pid);
		return copy.type == F_OWNER_PGRP ? -ret : ret;
	case F_SETOWN_EX:
		copy = *ex;
		return OF(ex->pid, (copy.pid = kernel, NEXT(fcntl)(fd, cmd, &copy)));
	default:
		ret = NEXT(fcntl)(fd, cmd, ex);
		if (!ret)
			ex->pid = simulated_number(ex->pid);
		return ret;
	}
}

/*
 * number_path leads /proc/NUMBER, and /proc/NUMBER/task/NUMBER, of simulated processes to the kernel's, in buf of MAPPED_MAX
 * bytes. "self" in place of the first is not one.
 */
const char *number_path(const char *path, char *buf)
{
	const char *rest = path + strlen("/proc/");
	char *end;
	long number = strtol(rest, &end, 10);
	size_t n;

	if (end == rest && !strncmp(rest, "self/task/", 10)) {
		number = welcome.pid;
		end = (char *)rest + 4;
	} else if (end == rest || (*end && *end != '/') || number > INT_MAX || number <= 0) {
		return path;
	}
	if (strlen(end) + 64 > MAPPED_MAX)
		return path;
	n = sprintf(buf, "/proc/%d", kernel_number(number) < 0 ? 0 : kernel_number(number)); /* 0: there is none */
	rest = end;
	if (!strncmp(end, "/task/", 6) && (number = strtol(end + 6, &end, 10)) > 0 && number <= INT_MAX && (!*end || *end == '/')) {
		n += sprintf(buf + n, "/task/%d", kernel_number(number) < 0 ? 0 : kernel_number(number));
		rest = end;
	}
	strcpy(buf + n, rest);
	return buf;
}
