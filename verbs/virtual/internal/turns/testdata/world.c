/* What the tests run in simulated time of a process's world: each argument's part prints what it sees. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/futex.h>
#include <netdb.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* say prints the simulated time, in us. */
static void say(const char *what)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	printf("%lld %s\n", (t.tv_sec - 1000) * 1000000ll + t.tv_nsec / 1000, what);
	fflush(stdout);
}

static volatile sig_atomic_t caught;

static void catch(int sig)
{
	caught = sig;
}

static void catches(int sig)
{
	struct sigaction a = {.sa_handler = catch};

	sigaction(sig, &a, NULL);
}

/* child ends after a time, or sends its parent a signal then. */
static pid_t child(int us, int sig)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	usleep(us);
	if (sig)
		kill(getppid(), sig);
	_exit(0);
}

static void *waiter(void *arg)
{
	siginfo_t info;
	sigset_t *set = arg;

	printf("took %d\n", sigwaitinfo(set, &info) == SIGUSR2);
	say("a thread took it");
	return NULL;
}

static void *pauser(void *arg)
{
	pause();
	say(caught == SIGUSR2 ? "a thread's pause ended" : "no signal");
	return arg;
}

static int signals(void)
{
	struct pollfd none = {.fd = -1};
	struct timespec span = {0, 5000000};
	sigset_t empty, set, old;
	pthread_t t;
	int sig, fds[2];
	pid_t pid;
	char b;

	sigemptyset(&empty);
	catches(SIGCHLD);
	pid = child(1000, 0);
	pause();
	say("pause ended");
	printf("%d %d\n", caught == SIGCHLD, waitpid(pid, NULL, 0) == pid);
	child(1000, 0);
	printf("%d", usleep(5000));
	printf(" %d\n", errno == EINTR);
	say("usleep ended");
	if (pipe(fds))
		return 1;
	child(1000, 0);
	errno = 0;
	printf("%zd", read(fds[0], &b, 1));
	printf(" %d\n", errno == EINTR);
	say("read ended");
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, &old);
	/* A signal that is blocked, or has no handler, ends no wait. */
	signal(SIGCHLD, SIG_DFL);
	catches(SIGUSR1);
	child(200, SIGUSR1);
	printf("%d", usleep(500));
	printf(" %d", caught == SIGUSR1);
	sigprocmask(SIG_SETMASK, &old, NULL);
	printf(" %d\n", caught == SIGUSR1);
	say("slept");
	child(1000, SIGUSR1);
	usleep(5000);
	say("usleep ended by a signal of kill");
	sigprocmask(SIG_BLOCK, &set, &old);
	caught = 0;
	kill(getpid(), SIGUSR1);
	sigsuspend(&empty);
	say(caught == SIGUSR1 ? "sigsuspend took a pending one" : "no signal");
	child(1000, SIGUSR1);
	caught = 0;
	sigsuspend(&empty);
	say(caught == SIGUSR1 ? "sigsuspend ended" : "no signal");
	caught = 0;
	kill(getpid(), SIGUSR1);
	printf("%d", ppoll(&none, 1, NULL, &empty));
	printf(" %d %d\n", errno == EINTR, caught == SIGUSR1);
	printf("%d", sigtimedwait(&set, NULL, &span));
	printf(" %d\n", errno == EAGAIN);
	say("sigtimedwait took 5 ms");
	alarm(2);
	printf("%d", sigwait(&set, &sig));
	printf(" %d\n", sig == SIGALRM);
	say("sigwait took an alarm");
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pthread_create(&t, NULL, waiter, &set);
	pid = child(1000, SIGUSR2);
	pthread_join(t, NULL);
	sigprocmask(SIG_SETMASK, &old, NULL);
	catches(SIGUSR2);
	caught = 0;
	pthread_create(&t, NULL, pauser, NULL);
	usleep(1000);
	printf("%d\n", pthread_kill(t, SIGUSR2));
	pthread_join(t, NULL);
	say("end");
	return 0;
}

static void check(const char *what, bool ok)
{
	if (!ok)
		printf("%s: %s\n", what, strerror(errno));
}

static void *other(void *arg)
{
	char path[64];

	*(pid_t *)arg = gettid();
	snprintf(path, sizeof path, "/proc/self/task/%d/comm", gettid());
	check("a thread's /proc", !access(path, R_OK));
	pause();
	return NULL;
}

/* Each call that names a process takes the numbers that getpid gives. */
static int numbers(void)
{
	int pair[2], value = 42, got = 0, ret;
	struct f_owner_ex ex = {F_OWNER_PID, getpid()};
	struct iovec here = {&got, sizeof got}, there = {&value, sizeof value};
	struct ucred cred;
	socklen_t len = sizeof cred;
	struct sched_param param;
	struct rlimit limit;
	pid_t me = getpid(), pid, thread = 0;
	cpu_set_t set;
	clockid_t clock;
	struct timespec ts;
	pthread_t t;
	char text[64];
	siginfo_t info;

	check("socketpair", !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	check("F_SETOWN", !fcntl(pair[0], F_SETOWN, me) && fcntl(pair[0], F_GETOWN) == me);
	check("F_SETOWN of a group", !fcntl(pair[0], F_SETOWN, -me) && fcntl(pair[0], F_GETOWN) == -me);
	check("F_SETOWN_EX", !fcntl(pair[0], F_SETOWN_EX, &ex));
	ex = (struct f_owner_ex){0};
	check("F_GETOWN_EX", !fcntl(pair[0], F_GETOWN_EX, &ex) && ex.pid == me && ex.type == F_OWNER_PID);
	check("SO_PEERCRED", !getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &cred, &len) && cred.pid == me);
	printf("%d %d %d %d\n", getpgid(0), getpgid(me), getpgrp(), getsid(me));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		catches(SIGUSR1);
		pause();
		_exit(caught == SIGUSR1 ? 5 : 6);
	}
	usleep(10);
	check("getpgid of a child", getpgid(pid) == me);
	check("setpgid", !setpgid(pid, pid) && getpgid(pid) == pid && getpgid(0) == me);
	check("getpgid of nobody", getpgid(77) == -1 && errno == ESRCH);
	errno = 0;
	check("getpriority", getpriority(PRIO_PROCESS, me) == 0 && getpriority(PRIO_PROCESS, pid) == 0 && !errno);
	check("setpriority", !setpriority(PRIO_PROCESS, pid, 3));
	check("sched_getaffinity", !sched_getaffinity(me, sizeof set, &set) && CPU_COUNT(&set) == 1 && CPU_ISSET(0, &set) && sched_getcpu() == 0);
	check("sched_setaffinity", !sched_setaffinity(pid, sizeof set, &set));
	check("pthread_getaffinity_np", !pthread_getaffinity_np(pthread_self(), sizeof set, &set) && CPU_ISSET(0, &set));
	check("sched_getscheduler", sched_getscheduler(me) == SCHED_OTHER && sched_getscheduler(pid) == SCHED_OTHER);
	check("sched_getparam", !sched_getparam(pid, &param) && param.sched_priority == 0);
	check("prlimit", !prlimit(pid, RLIMIT_NOFILE, NULL, &limit));
	check("process_vm_readv", process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof got && got == value);
	check("clock_getcpuclockid", !clock_getcpuclockid(me, &clock) && !clock_gettime(clock, &ts) && !clock_getcpuclockid(pid, &clock) && !clock_gettime(clock, &ts));
	check("clock_getcpuclockid of nobody", clock_getcpuclockid(77, &clock) == ESRCH);
	snprintf(text, sizeof text, "/proc/%d/status", pid);
	check("/proc/PID", !access(text, R_OK));
	snprintf(text, sizeof text, "/proc/%d", me + 5);
	check("/proc/PID of nobody", access(text, R_OK) == -1 && errno == ENOENT);
	memset(text, 0, sizeof text);
	ret = readlink("/proc/self", text, sizeof text);
	check("/proc/self", ret == 4 && atoi(text) == me);
	ret = syscall(SYS_pidfd_open, pid, 0);
	check("pidfd_open", ret >= 0);
	check("getpgid by number", syscall(SYS_getpgid, pid) == pid);
	check("kill of a group", !kill(-pid, SIGUSR1));
	{
		struct pollfd p = {.fd = ret, .events = POLLIN};

		check("poll of a pidfd", poll(&p, 1, 1000) == 1);
	}
	check("waitid of a pidfd", !waitid(P_PIDFD, ret, &info, WEXITED) && info.si_pid == pid && info.si_status == 5);
	catches(SIGUSR1);
	pthread_create(&t, NULL, other, &thread);
	usleep(10);
	check("tgkill", !tgkill(me, thread, SIGUSR1));
	pthread_join(t, NULL);
	pid = fork();
	if (!pid)
		_exit(setsid() == getpid() && getpgrp() == getpid() && getsid(0) == getpid() ? 3 : 4);
	check("wait for a group", waitpid(0, &ret, 0) == -1 || WEXITSTATUS(ret) == 3);
	say("end");
	return 0;
}

/* Timers of descriptors. */
static int timers(void)
{
	struct itimerspec t = {{0, 2000000}, {0, 1000000}}, rest;
	uint64_t n = 0;
	int fd = timerfd_create(CLOCK_MONOTONIC, 0), copy;
	struct pollfd p = {.fd = fd, .events = POLLIN};

	check("timerfd_settime", !timerfd_settime(fd, 0, &t, NULL));
	printf("%zd", read(fd, &n, sizeof n));
	printf(" %d\n", (int)n);
	say("first");
	usleep(5000);
	check("timerfd_gettime", !timerfd_gettime(fd, &rest));
	printf("%ld %ld\n", rest.it_value.tv_nsec, rest.it_interval.tv_nsec);
	printf("%zd", read(fd, &n, sizeof n));
	printf(" %d\n", (int)n);
	printf("%d\n", poll(&p, 1, 100));
	say("polled");
	t = (struct itimerspec){0};
	check("timerfd_settime", !timerfd_settime(fd, 0, &t, NULL));
	printf("%d\n", poll(&p, 1, 10));
	say("disarmed");
	clock_gettime(CLOCK_REALTIME, &t.it_value);
	t.it_value.tv_sec++;
	close(fd);
	fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
	copy = dup(fd);
	check("timerfd_settime", !timerfd_settime(copy, TFD_TIMER_ABSTIME, &t, NULL));
	check("read", read(fd, &n, sizeof n) == -1 && errno == EAGAIN);
	close(fd);
	p.fd = copy;
	printf("%d\n", poll(&p, 1, -1));
	say("at a time of day");
	return 0;
}

static struct addrinfo *host(const char *name, int type)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = type}, *found;
	int err = getaddrinfo(name, "5353", &hints, &found);

	if (!err)
		return found;
	printf("%s: %s\n", name, gai_strerror(err));
	exit(1);
}

static const char *shown(const struct sockaddr_in *a)
{
	static char text[64];

	snprintf(text, sizeof text, "%s:%d", inet_ntoa(a->sin_addr), ntohs(a->sin_port));
	return text;
}

/* Answers datagrams, by each of the calls. */
static int answers(void)
{
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(5353)}, from;
	socklen_t len = sizeof from;
	char b[100];
	struct iovec v = {b, sizeof b};
	struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &v, .msg_iovlen = 1};
	ssize_t n;

	check("bind", !bind(s, (void *)&a, sizeof a));
	n = recvfrom(s, b, sizeof b, 0, (void *)&from, &len);
	printf("%zd from %s\n", n, shown(&from));
	check("sendto", sendto(s, b, n, 0, (void *)&from, len) == n);
	n = recvmsg(s, &m, 0);
	printf("%zd from %s\n", n, shown(&from));
	v.iov_len = n;
	check("sendmsg", sendmsg(s, &m, 0) == n);
	say("answered");
	return 0;
}

static int asks(const char *server)
{
	struct addrinfo *to = host(server, SOCK_DGRAM);
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	struct iovec v[2] = {{(void *)"ab", 2}, {(void *)"cde", 3}};
	struct pollfd p = {.fd = s, .events = POLLIN};
	char b[100];

	check("sendto", sendto(s, "x", 1, 0, to->ai_addr, to->ai_addrlen) == 1);
	printf("%zd", recvfrom(s, b, sizeof b, 0, (void *)&from, &len));
	printf(" from %s\n", shown(&from));
	check("connect", !connect(s, to->ai_addr, to->ai_addrlen));
	len = sizeof from;
	check("getpeername", !getpeername(s, (void *)&from, &len) && from.sin_port == htons(5353));
	len = sizeof from;
	getsockname(s, (void *)&from, &len);
	printf("at %s\n", shown(&from));
	check("writev", writev(s, v, 2) == 5);
	printf("%zd", recv(s, b, sizeof b, 0));
	printf(" %.5s\n", b);
	/* Nobody is there: the datagram is lost. */
	((struct sockaddr_in *)to->ai_addr)->sin_port = htons(9);
	check("sendto nobody", sendto(s, "x", 1, 0, to->ai_addr, to->ai_addrlen) == 1);
	printf("%d\n", poll(&p, 1, 1));
	say("asked");
	return 0;
}

/* Two listeners of one port. */
static int reuse(void)
{
	int one = 1, s[3];
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(5353), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int counts[2] = {0};

	for (int i = 0; i < 3; i++) {
		s[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (i < 2)
			check("SO_REUSEPORT", !setsockopt(s[i], SOL_SOCKET, SO_REUSEPORT, &one, sizeof one));
		if (i == 2)
			check("bind without", bind(s[i], (void *)&a, sizeof a) == -1 && errno == EADDRINUSE);
		else
			check("bind", !bind(s[i], (void *)&a, sizeof a) && !listen(s[i], 16));
	}
	for (int i = 0; i < 8; i++)
		check("connect", !connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&a, sizeof a));
	for (int i = 0; i < 2; i++)
		while (accept(s[i], NULL, NULL) >= 0)
			counts[i]++;
	printf("%d and %d\n", counts[0], counts[1]);
	return 0;
}

static int names(void)
{
	struct addrinfo *h = host("h1", SOCK_STREAM);
	struct hostent *e = gethostbyname("h1"), entry, *found = NULL;
	struct sockaddr_in a;
	char text[256], line[256];
	struct ifaddrs *interfaces = NULL;
	int err;
	FILE *f;

	memcpy(&a, h->ai_addr, sizeof a);
	printf("%s", shown(&a));
	printf(" %s\n", e ? inet_ntoa(*(struct in_addr *)e->h_addr_list[0]) : "no h1");
	check("gethostbyname_r", !gethostbyname_r("h0", &entry, text, sizeof text, &found, &err) && found);
	printf("%s\n", found ? inet_ntoa(*(struct in_addr *)found->h_addr_list[0]) : "no h0");
	e = gethostbyaddr(&a.sin_addr, sizeof a.sin_addr, AF_INET);
	printf("%s\n", e ? e->h_name : "no name");
	err = getnameinfo((void *)&a, sizeof a, line, sizeof line, NULL, 0, 0);
	printf("%s\n", err ? gai_strerror(err) : line);
	err = getnameinfo((void *)&a, sizeof a, line, sizeof line, NULL, 0, NI_NUMERICHOST);
	printf("%s\n", err ? gai_strerror(err) : line);
	f = fopen("/etc/hosts", "r");
	while (f && fgets(line, sizeof line, f))
		printf("%s", line);
	check("getifaddrs", !getifaddrs(&interfaces));
	for (struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
		inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_netmask)->sin_addr, text, sizeof text);
		printf("%s %s/%s %#x\n", i->ifa_name, inet_ntoa(((struct sockaddr_in *)i->ifa_addr)->sin_addr), text, i->ifa_flags);
	}
	freeifaddrs(interfaces);
	return 0;
}

/* What processes of a host wait for from each other. */
static int shares(void)
{
	struct {
		pthread_barrier_t barrier;
		pthread_mutex_t mutex;
		pthread_cond_t cond;
		sem_t sem;
		uint32_t word;
		volatile int flag;
	} *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t ba;
	pthread_mutexattr_t ma;
	pthread_condattr_t ca;
	int e = eventfd(0, EFD_SEMAPHORE);
	eventfd_t n;
	pid_t pid;

	pthread_barrierattr_init(&ba);
	pthread_barrierattr_setpshared(&ba, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&m->barrier, &ba, 2);
	pthread_mutexattr_init(&ma);
	pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&m->mutex, &ma);
	pthread_condattr_init(&ca);
	pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&m->cond, &ca);
	sem_init(&m->sem, 1, 0);
	pid = fork();
	if (!pid) {
		usleep(1000);
		pthread_barrier_wait(&m->barrier);
		pthread_mutex_lock(&m->mutex);
		usleep(1000);
		pthread_mutex_unlock(&m->mutex);
		usleep(1000);
		m->word = 1;
		syscall(SYS_futex, &m->word, FUTEX_WAKE, 1, NULL, NULL, 0);
		usleep(1000);
		m->flag = 1;
		usleep(1000);
		sem_post(&m->sem);
		usleep(1000);
		pthread_mutex_lock(&m->mutex);
		m->flag = 2;
		pthread_cond_signal(&m->cond);
		pthread_mutex_unlock(&m->mutex);
		usleep(1000);
		eventfd_write(e, 2);
		usleep(1000);
		_exit(0);
	}
	pthread_barrier_wait(&m->barrier);
	say("barrier");
	usleep(10);
	pthread_mutex_lock(&m->mutex);
	say("mutex");
	pthread_mutex_unlock(&m->mutex);
	syscall(SYS_futex, &m->word, FUTEX_WAIT, 0, NULL, NULL, 0);
	say("futex");
	while (!m->flag)
		;
	say("memory");
	sem_wait(&m->sem);
	say("semaphore");
	pthread_mutex_lock(&m->mutex);
	while (m->flag != 2)
		pthread_cond_wait(&m->cond, &m->mutex);
	pthread_mutex_unlock(&m->mutex);
	say("condition");
	check("eventfd_read", !eventfd_read(e, &n) && n == 1);
	check("eventfd_read", !eventfd_read(e, &n) && n == 1);
	say("eventfd");
	waitpid(pid, NULL, 0);
	say("end");
	return 0;
}

static int watches(const char *dir)
{
	struct inotify_event *e;
	char b[4096], path[4096];
	int fd = inotify_init1(0), got;

	check("inotify_add_watch", inotify_add_watch(fd, dir, IN_CREATE) >= 0);
	if (!fork()) {
		usleep(1000);
		snprintf(path, sizeof path, "%s/made", dir);
		close(creat(path, 0600));
		usleep(1000);
		_exit(0);
	}
	got = read(fd, b, sizeof b);
	e = (void *)b;
	printf("%d %s\n", got > 0, got > 0 ? e->name : "");
	say("made");
	snprintf(path, sizeof path, "%s/made", dir);
	unlink(path);
	wait(NULL);
	return 0;
}

static uint64_t sum(const volatile unsigned char *b, size_t n)
{
	uint64_t s = 0;

	while (n--)
		s = s * 31 + *b++;
	return s;
}

/* What a program may send that it never wrote: what guards its stack and pointers, and what is in new memory. */
static int leftovers(void)
{
	unsigned char *heap = malloc(10000);

	printf("%llx %llx\n", (unsigned long long)sum((void *)getauxval(AT_RANDOM), 16), (unsigned long long)sum(heap, 10000));
	return 0;
}

/* unseen makes a system call that no library sees. */
static long unseen(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return r;
}

/*
 * Executes a program while the kernel raises signals: from a timer of its own, through the search of a path of many
 * directories.
 */
static int interrupted_exec(void)
{
	static char path[60000];
	struct sigevent each = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG};
	struct itimerspec often = {{0, 100000}, {0, 100000}};
	int timer = 0;

	for (int i = 0; i < 5000; i++)
		strcat(path, "/nowhere:");
	strcat(path, "/usr/bin:/bin");
	setenv("PATH", path, 1);
	catches(SIGURG);
	unseen(SYS_timer_create, CLOCK_MONOTONIC, (long)&each, (long)&timer, 0);
	unseen(SYS_timer_settime, timer, 0, (long)&often, 0);
	execlp("echo", "echo", "executed", NULL);
	perror("echo");
	return 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "signals"))
		return signals();
	if (!strcmp(what, "numbers"))
		return numbers();
	if (!strcmp(what, "timers"))
		return timers();
	if (!strcmp(what, "answers"))
		return answers();
	if (!strcmp(what, "asks"))
		return asks(argv[2]);
	if (!strcmp(what, "reuse"))
		return reuse();
	if (!strcmp(what, "names"))
		return names();
	if (!strcmp(what, "shares"))
		return shares();
	if (!strcmp(what, "watches"))
		return watches(argv[2]);
	if (!strcmp(what, "interrupted-exec"))
		return interrupted_exec();
	if (!strcmp(what, "leftovers"))
		return leftovers();
	fprintf(stderr, "no part %s\n", what);
	return 2;
}
