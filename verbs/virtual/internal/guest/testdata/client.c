/*
 * What a program does with the device of preload_test.go, a check a word of the command
 * line. It says where a check fails and exits with 1.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(x)                                                                           \
	do {                                                                               \
		errno = 0;                                                                 \
		if (!(x)) {                                                                \
			fprintf(stderr, "line %d: %s (errno: %s)\n", __LINE__, #x, strerror(errno)); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)
#define FAILS(x, e) CHECK((x) == -1 && errno == (e))

#define NODE "/dev/infiniband/uverbs0"
#define DEVICE "/sys/class/infiniband/mlx5_0"

extern char **environ;

/* A command of the device: it answers with the bytes after these, in reverse. */
struct command {
	uint64_t to;
	char text[24];
};

static int open_node(void)
{
	int fd;

	CHECK((fd = open(NODE, O_RDWR | O_CLOEXEC)) >= 0);
	return fd;
}

static int answers(int fd, const char *text)
{
	char got[24] = {}, want[24];
	struct command c = {.to = (uintptr_t)got};

	memset(c.text, 0, sizeof c.text);
	strcpy(c.text, text);
	for (int i = 0; i < 24; i++)
		want[i] = c.text[23 - i];
	return write(fd, &c, sizeof c) == sizeof c && !memcmp(got, want, sizeof got);
}

static void check_paths(void)
{
	char text[64] = {}, link[4096] = {}, *real;
	struct dirent **list;
	struct statx sx;
	struct stat st;
	int fd, dir, n;
	glob_t g;
	FILE *f;
	DIR *d;

	CHECK((fd = open(DEVICE "/node_guid", O_RDONLY)) >= 0);
	CHECK(read(fd, text, sizeof text) == 20 && !strcmp(text, "ec0d:9a03:007d:7d1b\n"));
	CHECK(!close(fd));
	CHECK((f = fopen("/sys//class/infiniband///mlx5_0/fw_ver", "r")) && fgets(text, sizeof text, f) && !strcmp(text, "22.36.1010\n"));
	fclose(f);
	CHECK((d = opendir("/sys/class/infiniband_verbs")));
	CHECK((fd = openat(dirfd(d), "uverbs0/dev", O_RDONLY)) >= 0 && read(fd, text, sizeof text) == 4 && !memcmp(text, "1:3\n", 4));
	close(fd);
	closedir(d);
	CHECK((n = scandir("/dev/infiniband", &list, NULL, alphasort)) == 4);
	CHECK(!strcmp(list[2]->d_name, "rdma_cm") && !strcmp(list[3]->d_name, "uverbs0"));
	CHECK(!access(DEVICE, R_OK) && !faccessat(AT_FDCWD, DEVICE, R_OK, AT_EACCESS) && !eaccess(DEVICE, R_OK));
	CHECK(!stat(NODE, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
	CHECK(!lstat(DEVICE, &st) && S_ISLNK(st.st_mode));
	CHECK(!statx(AT_FDCWD, DEVICE "/ports/1/gids/0", 0, STATX_BASIC_STATS, &sx) && S_ISREG(sx.stx_mode));
	CHECK((dir = open(DEVICE, O_RDONLY | O_DIRECTORY)) >= 0 && !fstatat(dir, "ports/1/rate", &st, 0));
	CHECK(!fstatat(AT_FDCWD, DEVICE "/ports", &st, 0) && S_ISDIR(st.st_mode));
	CHECK(readlink(DEVICE "/device", link, sizeof link) > 0 && !strcmp(link, "../../../0000:c1:00.0"));
	CHECK((real = realpath(DEVICE "/device", NULL)) && !strcmp(real, "/sys/devices/pci0000:c1/0000:c1:00.0"));
	CHECK((f = fopen(strcat(strcpy(link, real), "/vendor"), "r")) && fgets(text, sizeof text, f) && !strcmp(text, "0x15b3\n"));
	fclose(f);
	CHECK(!glob("/sys/class/infiniband/mlx5_0/ports/1/ra*", 0, NULL, &g) && g.gl_pathc == 1 && !strcmp(g.gl_pathv[0], DEVICE "/ports/1/rate"));
	CHECK(!chdir(DEVICE "/ports/1") && !access("rate", R_OK));
	/* What the machine has of these is not there; what is none of them is the machine's. */
	FAILS(access("/sys/class/infiniband/mlx5_9", F_OK), ENOENT);
	FAILS(access("/sys/class/infiniband_mad", F_OK), ENOENT);
	CHECK(!access("/sys/class/misc", F_OK) && !access("/sys/class/net/lo", F_OK) && !access("/dev/null", F_OK));
	/* A GID that there is not: the kernel's files are there, and reading them fails. */
	CHECK((fd = open(DEVICE "/ports/1/gid_attrs/types/0", O_RDONLY)) >= 0);
	FAILS(open(DEVICE "/ports/1/gid_attrs/types/3", O_RDONLY), EINVAL);
	FAILS(open("/dev/infiniband/uverbs7", O_RDWR), ENOENT);
}

static void check_write(void)
{
	int fd = open_node(), pipe;
	char byte, big[65537] = {}, *volatile unmapped = (char *)8;
	struct command c = {};
	struct stat st;

	CHECK(!fstat(fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK(answers(fd, "hello") && answers(fd, "again"));
	c.to = 8; /* unmapped */
	FAILS(write(fd, &c, sizeof c), EFAULT);
	FAILS(write(fd, unmapped, 100), EFAULT);
	FAILS(write(fd, big, sizeof big), EINVAL);
	CHECK(answers(fd, "after all that"));
	/* The device's descriptor in an answer. */
	c.to = (uintptr_t)&pipe;
	strcpy(c.text, "descriptor");
	CHECK(write(fd, &c, sizeof c) == sizeof c);
	CHECK(fcntl(pipe, F_GETFD) == FD_CLOEXEC && read(pipe, &byte, 1) == 1 && byte == '!');
	strcpy(c.text, "EBUSY");
	FAILS(write(fd, &c, sizeof c), EBUSY);
	CHECK(!close(fd));
	FAILS(write(fd, &c, sizeof c), EBADF);
}

static void check_ioctl(void)
{
	uint64_t value = 41;
	int fd = open_node();

	CHECK(ioctl(fd, 1, &value) == 7 && value == 42);
	FAILS(ioctl(fd, 2, &value), ENOTTY);
	FAILS(ioctl(fd, 1, 8), EFAULT);
}

/* The device adds 1 to the page's first word and has it store what the second page says. */
static void check_mmap(void)
{
	int fd = open_node();
	_Atomic uint64_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(page != MAP_FAILED);
	page[0] = 5;
	CHECK(answers(fd, "add")); /* the device is told by a write */
	CHECK(page[0] == 6);
	FAILS((intptr_t)mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 7 << 12), EINVAL);
	FAILS((intptr_t)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0), EINVAL);
	CHECK(!munmap((void *)page, 4096));
}

static int hooked;

static void *hook(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	hooked++;
	return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
}

/* UCX writes a jump to a function of its own over the mmap that dlsym finds. */
static void check_patched(void)
{
#if defined(__x86_64__)
	unsigned char *code = dlsym(RTLD_DEFAULT, "mmap"), *page = (unsigned char *)((uintptr_t)code & ~4095ul);
	unsigned char jump[13] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3}; /* movabs to r11; jmp *r11 */
	void *to = hook;

	memcpy(jump + 2, &to, sizeof to);
	CHECK(!mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC));
	memcpy(code, jump, sizeof jump);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED && hooked == 1);
	check_mmap();
	CHECK(hooked == 1);
#endif
}

/* Stores into a watched page, which the device counts one by one. */
static void check_watch(void)
{
	int fd = open_node();
	_Atomic uint64_t *page = mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(page != MAP_FAILED);
	for (int i = 1; i <= 20; i++) {
		CHECK(answers(fd, "protect"));
		page[8] = i;
	}
	CHECK(answers(fd, "faults 20"));
}

static uint64_t raw(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* The device's clock page: 3 ticks a nanosecond since 0, at byte 8. */
static volatile uint32_t *map_clock(int fd)
{
	void *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 1 << 12);

	CHECK(p != MAP_FAILED);
	return p;
}

static uint64_t ticks_of(volatile uint32_t *clock)
{
	uint32_t hi, lo, again;

	do {
		hi = ntohl(clock[2]);
		lo = ntohl(clock[3]);
		again = ntohl(clock[2]);
	} while (hi != again);
	return (uint64_t)hi << 32 | lo;
}

#define BRACKETED(ticks)                                                       \
	do {                                                                   \
		uint64_t before = raw() * 3, t = (ticks), after = raw() * 3;   \
		CHECK(before <= t && t <= after);                              \
	} while (0)

static void check_clock(void)
{
	int fd = open_node();
	volatile uint32_t *clock = map_clock(fd);
	volatile unsigned char *bytes = (volatile unsigned char *)clock;
	uint64_t last = 0;

	for (int i = 0; i < 10000; i++) {
		uint64_t t = ticks_of(clock);

		CHECK(t >= last);
		last = t;
	}
	BRACKETED(ticks_of(clock));
	BRACKETED(__builtin_bswap64(*(volatile uint64_t *)(clock + 2)));
	CHECK(clock[0] == 0 && clock[1] == 0 && clock[4] == 0 && *(volatile uint16_t *)(bytes + 16) == 0 && bytes[0] == 0);
	CHECK(bytes[8] == raw() * 3 >> 56);
#if defined(__x86_64__)
	{
		uint64_t t = 0;
		const volatile void *at = clock + 2;
		uint64_t rcx = 4;

		BRACKETED(({ __asm__ volatile("mov (%1), %%r9; mov %%r9, %0" : "=r"(t) : "r"(at) : "r9"); __builtin_bswap64(t); }));
		BRACKETED(({ __asm__ volatile("mov -16(%1,%2,4), %0" : "=r"(t) : "r"(at), "r"(rcx)); __builtin_bswap64(t); }));
		BRACKETED(({ __asm__ volatile("mov 0x1000(%1), %0" : "=r"(t) : "r"((const char *)at - 0x1000)); __builtin_bswap64(t); }));
		BRACKETED(({ __asm__ volatile(".byte 0x4c, 0x0f, 0x38, 0xf0, 0x00; mov %%r8, %0" : "=r"(t) : "a"(at) : "r8"); t; })); /* movbe (%rax), %r8 */
		t = ~0ull;
		__asm__ volatile("mov (%1), %%ax; mov %%rax, %0" : "=r"(t) : "r"(clock), "a"(t));
		CHECK(t == 0xffffffffffff0000);
		t = ~0ull;
		__asm__ volatile("mov (%1), %%ah; mov %%rax, %0" : "=r"(t) : "r"(clock), "a"(t));
		CHECK(t == 0xffffffffffff00ff);
		__asm__ volatile("movzbl (%1), %k0" : "=r"(t) : "r"(clock), "0"(~0ull));
		CHECK(t == 0);
		__asm__ volatile("movslq (%1), %0" : "=r"(t) : "r"(clock), "0"(~0ull));
		CHECK(t == 0);
	}
#endif
	CHECK(answers(fd, "trapped"));
	CHECK(!munmap((void *)clock, 4096));
	CHECK(mmap((void *)clock, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == clock && clock[2] == 0);
}

/* A load that the library does not know: the device keeps the page current instead. */
static void check_untrapped(void)
{
#if defined(__x86_64__)
	int fd = open_node();
	volatile uint32_t *clock = map_clock(fd);
	uint64_t before = raw() * 3, words[2];

	__asm__ volatile("movdqu (%0), %%xmm0; movdqu %%xmm0, (%1)" : : "r"(clock), "r"(words) : "xmm0", "memory");
	CHECK(words[0] == 0 && __builtin_bswap64(words[1]) >= before && __builtin_bswap64(words[1]) <= raw() * 3);
	CHECK(answers(fd, "untrapped"));
	CHECK(ticks_of(clock) == __builtin_bswap64(words[1])); /* nobody writes it here */
#endif
}

static volatile int *volatile wild = (volatile int *)16;
static sigjmp_buf back;
static volatile sig_atomic_t caught;

static void on_segv(int sig, siginfo_t *info, void *context)
{
	sigset_t now;

	(void)context;
	sigprocmask(SIG_BLOCK, NULL, &now);
	caught = sig == SIGSEGV && info->si_addr == (void *)16 && sigismember(&now, SIGUSR1) && sigismember(&now, SIGSEGV) ? 1 : -1;
	siglongjmp(back, 1);
}

static void on_plain(int sig)
{
	caught = sig == SIGSEGV ? 2 : -1;
	siglongjmp(back, 1);
}

/* The program's own handler beside the library's. */
static void check_segv(void)
{
	struct sigaction a = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO}, old;
	volatile uint32_t *clock = map_clock(open_node());
	sigset_t all;
	int status;
	pid_t pid;

	CHECK(!sigaction(SIGSEGV, NULL, &old) && old.sa_handler == SIG_DFL);
	sigaddset(&a.sa_mask, SIGUSR1);
	CHECK(!sigaction(SIGSEGV, &a, &old) && old.sa_handler == SIG_DFL);
	if (!sigsetjmp(back, 1))
		*wild = 1;
	CHECK(caught == 1);
	BRACKETED(ticks_of(clock));
	CHECK(!sigaction(SIGSEGV, NULL, &old) && old.sa_sigaction == on_segv && old.sa_flags & SA_SIGINFO && sigismember(&old.sa_mask, SIGUSR1));
	CHECK(signal(SIGSEGV, on_plain) == old.sa_handler);
	if (!sigsetjmp(back, 1))
		*wild = 1;
	CHECK(caught == 2);
	/* A store to the page is the program's fault. */
	caught = 0;
	if (!sigsetjmp(back, 1))
		clock[2] = 1;
	CHECK(caught == 2);
	/* Blocked signals do not stop the clock. */
	sigfillset(&all);
	CHECK(!pthread_sigmask(SIG_SETMASK, &all, NULL));
	BRACKETED(ticks_of(clock));
	CHECK(!sigprocmask(SIG_SETMASK, &all, NULL));
	BRACKETED(ticks_of(clock));
	/* Without a handler a fault ends the program as it does anywhere. */
	CHECK(signal(SIGSEGV, SIG_DFL) == on_plain);
	if (!(pid = fork())) {
		*wild = 1;
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	CHECK(signal(SIGSEGV, SIG_IGN) == SIG_DFL);
	CHECK(!raise(SIGSEGV));
	CHECK(signal(SIGSEGV, SIG_DFL) == SIG_IGN);
	if (!(pid = fork())) {
		kill(getpid(), SIGSEGV);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void exits(pid_t pid, int code)
{
	int status;

	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == code);
}

static void check_fork(void)
{
	int fd = open_node(), status;
	struct command c = {.text = "x"};
	char *args[] = {"/bin/sh", "-c", "exec 3>&-; test -r " DEVICE "/node_guid && test -c " NODE, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;

	if (!(pid = fork())) {
		FAILS(write(fd, &c, sizeof c), EIO);
		FAILS(ioctl(fd, 1, 0), EIO);
		FAILS((intptr_t)mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0), EIO);
		CHECK(answers(open_node(), "child"));
		CHECK(!close(fd));
		FAILS(write(fd, &c, sizeof c), EBADF);
		exit(9);
	}
	exits(pid, 9);
	CHECK(answers(fd, "parent"));
	/* A child of vfork shares memory, not descriptors. */
	if (!(pid = vfork())) {
		close(fd);
		_exit(8);
	}
	exits(pid, 8);
	CHECK(answers(fd, "parent"));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addclose(&actions, fd);
	CHECK(!posix_spawn(&pid, args[0], &actions, NULL, args, environ));
	exits(pid, 0);
	CHECK(answers(fd, "parent"));
	CHECK((status = system("ls " DEVICE "/ports/1/gids | grep -qx 3")) != -1);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void check_dup(void)
{
	int fd = open_node(), a, b, c, other, file;
	struct command x = {};

	CHECK((a = dup(fd)) >= 0 && (b = dup2(fd, 100)) == 100 && dup3(fd, 101, O_CLOEXEC) == 101);
	CHECK((c = fcntl(fd, F_DUPFD_CLOEXEC, 200)) == 200 && fcntl(c, F_GETFD) == FD_CLOEXEC && fcntl(a, F_GETFD) == 0);
	CHECK(dup2(fd, fd) == fd);
	CHECK(!close(fd));
	FAILS(write(fd, &x, sizeof x), EBADF);
	CHECK(answers(a, "a") && answers(b, "b") && answers(c, "c") && answers(101, "101"));
	/* Another file under a device's number is that file's, and the other way round. */
	CHECK((file = open("/dev/zero", O_RDWR)) >= 0 && dup2(file, b) == b && write(b, "x", 1) == 1);
	CHECK(dup2(a, file) == file && answers(file, "file"));
	CHECK(!close(file) && !close(a) && !close(101) && !close_range(200, 300, 0));
	FAILS(write(c, "x", 1), EBADF);
	CHECK(!close(b));
	/* The library's own descriptors are not there for the program. */
	fd = open_node();
	for (int i = 0; i < 1024; i++)
		if (i > 2 && i != fd) {
			if ((other = dup2(fd, i)) == i)
				CHECK(answers(i, "moved"));
		}
	for (int i = 3; i < 2000; i++)
		if (i != fd)
			close(i);
	CHECK(answers(fd, "still"));
	CHECK(!close_range(3, fd - 1, 0));
	CHECK(answers(fd, "still"));
	closefrom(3);
	FAILS(write(fd, "x", 1), EBADF);
	CHECK(answers(open_node(), "anew"));
}

static int shared;

static void *thread(void *arg)
{
	char text[24];
	int own;

	for (int i = 0; i < 50; i++) {
		snprintf(text, sizeof text, "%d of %d", i, (int)(intptr_t)arg);
		CHECK(answers(shared, text));
		if (i % 10 == 0) {
			own = open_node();
			CHECK(answers(own, text) && !close(own));
		}
	}
	return NULL;
}

static void check_threads(void)
{
	pthread_t threads[100];
	pid_t pid;

	shared = open_node();
	for (int i = 0; i < 100; i++)
		CHECK(!pthread_create(&threads[i], NULL, thread, (void *)(intptr_t)i));
	for (int i = 0; i < 5; i++) {
		if (!(pid = fork())) {
			CHECK(answers(open_node(), "child"));
			_exit(0);
		}
		exits(pid, 0);
	}
	for (int i = 0; i < 100; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* rdma_cm: a write waits for an event unless the program said not to. */
static void check_events(void)
{
	struct sigaction a = {.sa_handler = on_alarm};
	char got[8] = {}, text[24] = "event";
	struct command c = {.to = (uintptr_t)got};
	struct pollfd p = {.events = POLLIN};
	struct stat st;
	int fd;

	CHECK((fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC)) >= 0);
	CHECK(!fstat(fd, &st) && S_ISCHR(st.st_mode) && !fstatat(fd, "", &st, AT_EMPTY_PATH) && S_ISCHR(st.st_mode));
	p.fd = fd;
	CHECK(poll(&p, 1, 0) == 0);
	memcpy(c.text, text, sizeof text);
	CHECK(!fcntl(fd, F_SETFL, O_NONBLOCK));
	FAILS(write(fd, &c, sizeof c), EAGAIN);
	CHECK(!fcntl(fd, F_SETFL, 0));
	CHECK(!sigaction(SIGALRM, &a, NULL));
	ualarm(10000, 10000);
	FAILS(write(fd, &c, sizeof c), EINTR);
	ualarm(0, 0);
	CHECK(answers(fd, "raise soon"));
	CHECK(write(fd, &c, sizeof c) == sizeof c && !strcmp(got, "event!"));
	CHECK(poll(&p, 1, 0) == 0);
}

static void check_netlink(void)
{
	FAILS(socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA), EPROTONOSUPPORT);
	CHECK(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE) >= 0);
}

/* The server ends between two commands. */
static void check_gone(void)
{
	int fd = open_node();
	_Atomic uint64_t *page = mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0);
	char byte;

	CHECK(page != MAP_FAILED && answers(fd, "protect"));
	CHECK(write(1, "x", 1) == 1 && read(0, &byte, 1) == 1);
	page[0] = 1; /* nobody is there to release it: the kernel does */
	FAILS(write(fd, "12345678", 8), EIO);
	FAILS(open(NODE, O_RDWR), ENOENT);
	CHECK(!close(fd));
}

/* The program is killed with a command under way and a page protected. */
static void check_killed(void)
{
	int fd = open_node();

	CHECK(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED && answers(fd, "protect"));
	kill(getpid(), SIGKILL);
}

/* A child that was forked behind the library's back holds the connection. */
static void check_ended(void)
{
	int fd = open_node(), done[2];
	char byte;

	CHECK(answers(fd, "hello") && !pipe(done));
	if (!_Fork()) {
		close(done[1]);
		read(0, &byte, 1); /* until the test has seen that the device is closed */
		_exit(0);
	}
	_exit(0);
}

static const struct {
	const char *name;
	void (*run)(void);
} checks[] = {
	{"paths", check_paths}, {"write", check_write}, {"ioctl", check_ioctl}, {"mmap", check_mmap}, {"patched", check_patched},
	{"watch", check_watch}, {"clock", check_clock}, {"untrapped", check_untrapped}, {"segv", check_segv},
	{"fork", check_fork}, {"dup", check_dup}, {"threads", check_threads}, {"events", check_events},
	{"netlink", check_netlink}, {"gone", check_gone}, {"killed", check_killed}, {"ended", check_ended},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
		if (argc > 1 && !strcmp(argv[1], checks[i].name)) {
			checks[i].run();
			return 0;
		}
	fprintf(stderr, "no such check\n");
	return 2;
}
