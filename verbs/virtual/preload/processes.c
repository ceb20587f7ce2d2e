/* Processes in simulated time: their numbers, how they start others, wait for them and signal them. */
#define _GNU_SOURCE
#include "turns.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

EXPORT int __sched_yield(void);
EXPORT int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags);

EXPORT pid_t getpid(void)
{
	return simulated() ? (pid_t)welcome.pid : NEXT(getpid)();
}

EXPORT pid_t getppid(void)
{
	return simulated() ? (pid_t)welcome.parent : NEXT(getppid)();
}

/* Children that have not been waited for: the kernel's numbers and the simulation's. */
static struct child {
	pid_t kernel, number; /* 0: none */
} *children;
static size_t children_size;

static pid_t spawned(pid_t kernel)
{
	uint64_t number = 0;
	size_t i;

	errno = turn_ask(TURN_SPAWNED, kernel, 0, 0, 0, &number);
	if (errno)
		return -1;
	for (i = 0; i < children_size && children[i].number; i++)
		;
	if (i == children_size) {
		size_t size = children_size ? 2 * children_size : 16;
		struct child *more = realloc(children, size * sizeof *more);

		if (!more)
			return -1;
		memset(more + children_size, 0, (size - children_size) * sizeof *more);
		children = more;
		children_size = size;
	}
	children[i] = (struct child){kernel, number};
	turn_changed();
	return number;
}

/* A child of fork takes part from here on. */
static pid_t forked(pid_t kernel)
{
	if (kernel < 0)
		return kernel;
	if (kernel > 0)
		return spawned(kernel);
	if (children)
		memset(children, 0, children_size * sizeof *children);
	turn_child();
	return 0;
}

EXPORT pid_t fork(void)
{
	return simulated() ? forked(NEXT(fork)()) : NEXT(fork)();
}

/* A function that calls vfork can't return from it in the child: this only chooses where to jump. */
void *virtual_vfork(void);
__attribute__((used)) void *virtual_vfork(void)
{
	return simulated() ? (void *)fork : (void *)NEXT(vfork);
}

#if defined(__x86_64__)
__asm__(".text\n.globl vfork\n.type vfork, @function\nvfork:\n"
	"endbr64\nsub $8, %rsp\ncall virtual_vfork\nadd $8, %rsp\njmp *%rax\n.size vfork, .-vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl vfork\n.type vfork, @function\nvfork:\n"
	"stp x29, x30, [sp, -16]!\nbl virtual_vfork\nldp x29, x30, [sp], 16\nbr x0\n.size vfork, .-vfork\n");
#endif

/* A program that is executed starts before this library does: what it reads until then must not trap. */
#define EXECUTE(call)                                                          \
	({                                                                     \
		int ret;                                                       \
		turn_ask(TURN_EXEC, 0, 0, 0, 0, NULL);                         \
		traps_thread(false);                                           \
		ret = (call);                                                  \
		traps_thread(true);                                            \
		ret;                                                           \
	})

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	return simulated() ? EXECUTE(NEXT(execve)(path, argv, envp)) : NEXT(execve)(path, argv, envp);
}

EXPORT int execv(const char *path, char *const argv[])
{
	return simulated() ? EXECUTE(NEXT(execv)(path, argv)) : NEXT(execv)(path, argv);
}

EXPORT int execvp(const char *file, char *const argv[])
{
	return simulated() ? EXECUTE(NEXT(execvp)(file, argv)) : NEXT(execvp)(file, argv);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return simulated() ? EXECUTE(NEXT(execvpe)(file, argv, envp)) : NEXT(execvpe)(file, argv, envp);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	return simulated() ? EXECUTE(NEXT(fexecve)(fd, argv, envp)) : NEXT(fexecve)(fd, argv, envp);
}

int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
	return simulated() ? EXECUTE(NEXT(execveat)(dir, path, argv, envp, flags)) : NEXT(execveat)(dir, path, argv, envp, flags);
}

/* ARGUMENTS makes argv of a list that ends with NULL, and leaves ap behind it. */
#define ARGUMENTS(first, ap, argv)                                             \
	size_t count = 1;                                                      \
	va_start(ap, first);                                                   \
	while (va_arg(ap, char *))                                             \
		count++;                                                       \
	va_end(ap);                                                            \
	char *argv[count + 1];                                                 \
	argv[0] = (char *)first;                                               \
	va_start(ap, first);                                                   \
	for (size_t i = 1; i <= count; i++)                                    \
		argv[i] = va_arg(ap, char *);

EXPORT int execl(const char *path, const char *first, ...)
{
	va_list ap;

	ARGUMENTS(first, ap, argv)
	va_end(ap);
	return execv(path, argv);
}

EXPORT int execlp(const char *file, const char *first, ...)
{
	va_list ap;

	ARGUMENTS(first, ap, argv)
	va_end(ap);
	return execvp(file, argv);
}

EXPORT int execle(const char *path, const char *first, ...)
{
	char *const *envp;
	va_list ap;

	ARGUMENTS(first, ap, argv)
	envp = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, envp);
}

#define SPAWN(call)                                                            \
	({                                                                     \
		int err;                                                       \
		pid_t kernel;                                                  \
		traps_thread(false);                                           \
		err = (call);                                                  \
		traps_thread(true);                                            \
		if (!err) {                                                    \
			kernel = spawned(kernel);                              \
			if (pid)                                               \
				*pid = kernel;                                 \
		}                                                              \
		err;                                                           \
	})

#define NEW_SPAWN "GLIBC_2.15"

EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *restrict attr, char *const argv[restrict], char *const envp[restrict])
{
	if (!simulated())
		return NEXT_VERSION(posix_spawn, NEW_SPAWN)(pid, path, actions, attr, argv, envp);
	return SPAWN(NEXT_VERSION(posix_spawn, NEW_SPAWN)(&kernel, path, actions, attr, argv, envp));
}

EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *restrict attr, char *const argv[restrict], char *const envp[restrict])
{
	if (!simulated())
		return NEXT_VERSION(posix_spawnp, NEW_SPAWN)(pid, file, actions, attr, argv, envp);
	return SPAWN(NEXT_VERSION(posix_spawnp, NEW_SPAWN)(&kernel, file, actions, attr, argv, envp));
}

static struct child *child_of(pid_t number)
{
	for (size_t i = 0; i < children_size; i++)
		if (children[i].number == number && number)
			return &children[i];
	return NULL;
}

/* numbered returns the number of a child that the kernel reported. */
static pid_t numbered(pid_t kernel, bool ended)
{
	for (size_t i = 0; i < children_size; i++)
		if (children[i].number && children[i].kernel == kernel) {
			pid_t number = children[i].number;

			if (ended)
				children[i].number = 0;
			return number;
		}
	return kernel;
}

pid_t child_number(pid_t kernel)
{
	return numbered(kernel, false);
}

/* waited carries out one of the wait calls: try returns 0 while there is none to report. */
static int waited(int options, int (*try)(void *arg), void *arg)
{
	for (;;) {
		int interrupted = 0, ret = try(arg);

		if (ret)
			return ret;
		if (options & WNOHANG) {
			turn_pass(welcome.look_cost, WAIT_LOOK);
			return 0;
		}
		turn_wait(WAIT_CHILD, NEVER, 0, 0, &interrupted);
		if (!(interrupted & INTERRUPTED_NO_RESTART))
			continue;
		ret = try(arg);
		if (ret)
			return ret;
		errno = EINTR;
		return -1;
	}
}

struct wait4_args {
	pid_t kernel;
	int *status, options;
};

static int try_wait4(void *arg)
{
	struct wait4_args *a = arg;

	return NEXT(wait4)(a->kernel, a->status, a->options | WNOHANG, NULL);
}

EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	struct wait4_args a = {pid, status, options};
	int any, ret;

	if (!simulated())
		return NEXT(wait4)(pid, status, options, usage);
	if (pid > 0) {
		struct child *c = child_of(pid);

		if (!c) {
			errno = ECHILD;
			return -1;
		}
		a.kernel = c->kernel;
	} else if (pid < -1) {
		pid_t group = kernel_number(-pid);

		if (group < 0) {
			errno = ECHILD;
			return -1;
		}
		a.kernel = -group;
	}
	if (!status)
		a.status = &any;
	ret = waited(options, try_wait4, &a);
	if (usage)
		memset(usage, 0, sizeof *usage);
	return ret > 0 ? numbered(ret, WIFEXITED(*a.status) || WIFSIGNALED(*a.status)) : ret;
}

EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
	return simulated() ? wait4(-1, status, options, usage) : NEXT(wait3)(status, options, usage);
}

EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
	return simulated() ? wait4(pid, status, options, NULL) : NEXT(waitpid)(pid, status, options);
}

EXPORT pid_t wait(int *status)
{
	return simulated() ? wait4(-1, status, 0, NULL) : NEXT(wait)(status);
}

struct waitid_args {
	idtype_t type;
	id_t id;
	siginfo_t *info;
	int options;
};

static int try_waitid(void *arg)
{
	struct waitid_args *a = arg;

	a->info->si_pid = 0;
	if (NEXT(waitid)(a->type, a->id, a->info, a->options | WNOHANG))
		return -1;
	return a->info->si_pid != 0;
}

EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	siginfo_t own;
	struct waitid_args a = {type, id, info ? info : &own, options};
	int ret;

	if (!simulated())
		return NEXT(waitid)(type, id, info, options);
	if (type == P_PID) {
		struct child *c = child_of(id);

		if (!c) {
			errno = ECHILD;
			return -1;
		}
		a.id = c->kernel;
	} else if (type == P_PGID && id) {
		pid_t group = kernel_number(id);

		if (group < 0) {
			errno = ECHILD;
			return -1;
		}
		a.id = group;
	}
	ret = waited(options, try_waitid, &a);
	if (ret > 0)
		a.info->si_pid = numbered(a.info->si_pid, !(options & WNOWAIT));
	return ret < 0 ? -1 : 0;
}

/* kill_thread sends a signal to a thread of a process, 0: to any. */
int kill_thread(pid_t pid, int sig, uint64_t thread)
{
	int err = turn_ask(TURN_SIGNAL, pid, sig, thread, 0, NULL);

	turn_changed();
	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* signal_self sends a signal to this process: to this thread, if that does not block it. */
static int signal_self(int sig)
{
	sigset_t set;

	if (sig <= 0 || sig >= NSIG)
		return NEXT(kill)(syscall(SYS_getpid), sig);
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	return turn_raise(sig, sigismember(&set, sig));
}

EXPORT int kill(pid_t pid, int sig)
{
	if (!simulated())
		return NEXT(kill)(pid, sig);
	if (pid == (pid_t)welcome.pid)
		return signal_self(sig);
	return kill_thread(pid, sig, 0);
}

EXPORT int raise(int sig)
{
	return simulated() && sig > 0 && sig < NSIG ? turn_raise(sig, false) : NEXT(raise)(sig);
}

EXPORT int killpg(pid_t group, int sig)
{
	return simulated() ? kill(group ? -group : 0, sig) : NEXT(killpg)(group, sig);
}

/* A shell, as system() and popen() start one; its output or input is at fd, if that is not -1. */
static pid_t shell(const char *command, int from, int to)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (from >= 0)
		dup2(from, to);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

EXPORT int system(const char *command)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
	int status = -1;
	pid_t pid;

	if (!simulated())
		return NEXT(system)(command);
	if (!command)
		return 1;
	sigaction(SIGINT, &ignore, &interrupt);
	sigaction(SIGQUIT, &ignore, &quit);
	pid = shell(command, -1, -1);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	sigaction(SIGINT, &interrupt, NULL);
	sigaction(SIGQUIT, &quit, NULL);
	return status;
}

static struct pipe_of {
	FILE *f;
	pid_t pid;
	struct pipe_of *next;
} *pipes;

EXPORT FILE *popen(const char *command, const char *mode)
{
	bool reads = strchr(mode, 'r');
	struct pipe_of *p;
	int fds[2];

	if (!simulated())
		return NEXT(popen)(command, mode);
	p = calloc(1, sizeof *p);
	if (!p || pipe2(fds, O_CLOEXEC)) {
		free(p);
		return NULL;
	}
	p->pid = shell(command, fds[reads], reads);
	p->f = p->pid < 0 ? NULL : fdopen(fds[!reads], reads ? "r" : "w");
	close(fds[reads]);
	if (!p->f) {
		close(fds[!reads]);
		free(p);
		return NULL;
	}
	p->next = pipes;
	pipes = p;
	return p->f;
}

EXPORT int pclose(FILE *f)
{
	struct pipe_of *p, **at = &pipes;
	int status = -1;

	if (!simulated())
		return NEXT(pclose)(f);
	while (*at && (*at)->f != f)
		at = &(*at)->next;
	p = *at;
	if (!p)
		return -1;
	*at = p->next;
	fclose(f);
	turn_changed();
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	free(p);
	return status;
}

EXPORT void _exit(int status)
{
	if (simulated())
		turn_sync();
	syscall(SYS_exit_group, status);
	__builtin_unreachable();
}

EXPORT void _Exit(int status)
{
	_exit(status);
}

EXPORT int daemon(int stay, int keep_files)
{
	if (simulated())
		turn_refuse("daemon");
	return NEXT(daemon)(stay, keep_files);
}

int __sched_yield(void)
{
	return sched_yield();
}

EXPORT int sched_yield(void)
{
	if (!simulated())
		return NEXT(sched_yield)();
	turn_wait(WAIT_CLOCK, turn_now + welcome.look_cost, 0, 0, NULL);
	return 0;
}

EXPORT int getrusage(__rusage_who_t who, struct rusage *usage)
{
	int ret = NEXT(getrusage)(who, usage);

	if (!ret && simulated()) {
		struct timespec now = timespec_of(turn_clock());

		memset(usage, 0, sizeof *usage);
		usage->ru_utime = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
	}
	return ret;
}

/* random_bytes are the same in each run (SplitMix64). */
static void random_bytes(void *buf, size_t n)
{
	unsigned char *p = buf;

	for (size_t i = 0; i < n; i += 8) {
		uint64_t z = welcome.seed += 0x9e3779b97f4a7c15;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		z ^= z >> 31;
		memcpy(p + i, &z, n - i < 8 ? n - i : 8);
	}
}

EXPORT ssize_t getrandom(void *buf, size_t n, unsigned flags)
{
	if (!simulated())
		return NEXT(getrandom)(buf, n, flags);
	random_bytes(buf, n);
	return n;
}

EXPORT pid_t gettid(void)
{
	return simulated() ? turn_thread() : NEXT(gettid)();
}

EXPORT int getentropy(void *buf, size_t n)
{
	if (!simulated())
		return NEXT(getentropy)(buf, n);
	random_bytes(buf, n);
	return 0;
}
