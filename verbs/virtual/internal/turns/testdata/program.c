/* What the tests run in simulated time: each argument's part prints what it sees. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

/* now is the simulated time: CLOCK_MONOTONIC without what it shows at the start. */
static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (t.tv_sec - 1000) * 1000000000ll + t.tv_nsec;
}

static void say(const char *what)
{
	printf("%lld %s\n", now(), what);
	fflush(stdout);
}

static int clocks(void)
{
	struct timespec t;
	struct timeval v;
	unsigned aux;

	for (clockid_t id = CLOCK_MONOTONIC; id <= CLOCK_BOOTTIME; id++) {
		clock_gettime(id, &t);
		printf("clock %d: %lld.%09ld\n", id, (long long)t.tv_sec, t.tv_nsec);
	}
	printf("%ld clocks\n", (long)clock());
	say("again");
	clock_gettime(CLOCK_REALTIME, &t);
	printf("%lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec);
	gettimeofday(&v, NULL);
	printf("%lld.%06ld %lld\n", (long long)v.tv_sec, (long)v.tv_usec, (long long)time(NULL));
	printf("%llu %llu\n", (unsigned long long)__rdtsc(), (unsigned long long)__rdtscp(&aux));
	usleep(1000);
	say("slept 1 ms");
	printf("%llu\n", (unsigned long long)__rdtsc());
	/* 50 ms of simulated time, in reads of a clock. */
	for (long long end = now() + 50000000; now() < end;)
		;
	say("spun 50 ms");
	return 0;
}

static int reader(void)
{
	for (int i = 1; i < 3000; i++)
		now();
	say("read");
	return 0;
}

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

static int timers(void)
{
	struct itimerval v = {{0, 250000}, {0, 250000}};
	struct sigaction a = {.sa_handler = on_alarm};
	struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
	struct itimerspec s = {.it_value = {3, 0}};
	timer_t t;

	sigaction(SIGALRM, &a, NULL);
	alarm(2);
	printf("%u left\n", sleep(5));
	say("alarm");
	ualarm(50000, 0);
	for (alarms = 0; !alarms;)
		now();
	say("alarm in a loop of clock reads");
	setitimer(ITIMER_REAL, &v, NULL);
	for (alarms = 0; alarms < 3;)
		pause();
	v = (struct itimerval){{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &v, NULL);
	say("three of an interval");
	timer_create(CLOCK_MONOTONIC, &e, &t);
	timer_settime(t, 0, &s, NULL);
	pause();
	say("timer_create");
	alarm(1);
	for (alarms = 0; !alarms;)
		; /* reads memory: time goes on to the alarm */
	say("alarm in a loop of memory reads");
	for (volatile int i = 0; i < 20000000; i++)
		; /* computes: no time passes */
	say("computed");
	return 0;
}

static int server(const char *rounds)
{
	int one = 1, s = socket(AF_INET, SOCK_STREAM, 0), c;
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(18515)};
	socklen_t len = sizeof a;
	char b[100], text[64];

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(s, (void *)&a, sizeof a) || listen(s, 1))
		return perror("bind"), 1;
	say("listening");
	c = accept(s, (void *)&a, &len);
	if (c < 0)
		return perror("accept"), 1;
	printf("from %s:%d\n", inet_ntop(AF_INET, &a.sin_addr, text, sizeof text), ntohs(a.sin_port));
	say("accepted");
	for (int i = 0; i < atoi(rounds); i++) {
		if (recv(c, b, sizeof b, MSG_WAITALL) != sizeof b)
			return perror("recv"), 1;
		usleep(10);
		if (write(c, b, sizeof b) != sizeof b)
			return perror("write"), 1;
	}
	say("answered");
	printf("then %zd\n", read(c, b, sizeof b));
	say("closed");
	return 0;
}

/* looks at what is never ready. */
static int looks(const char *times)
{
	int fds[2], wrong = 0;

	if (pipe(fds))
		return perror("pipe"), 1;
	for (int i = 0; i < atoi(times); i++) {
		struct pollfd p = {.fd = fds[0], .events = POLLIN};

		wrong += poll(&p, 1, 0) != 0;
	}
	printf("%d looks went wrong\n", wrong);
	return 0;
}

static int connected(const char *host)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	int s, err = getaddrinfo(host, "18515", &hints, &found);

	if (err)
		return fprintf(stderr, "%s\n", gai_strerror(err)), -1;
	s = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
	if (connect(s, found->ai_addr, found->ai_addrlen))
		return perror("connect"), -1;
	return s;
}

/* Asks, and answers the answer 7 us later. */
static int asker(const char *host)
{
	char b[100] = {0};
	int s = connected(host);

	usleep(5);
	if (s < 0 || write(s, b, sizeof b) != sizeof b || recv(s, b, sizeof b, MSG_WAITALL) != sizeof b)
		return perror("asker"), 1;
	usleep(7);
	return write(s, b, sizeof b) != sizeof b;
}

static int client(const char *host, const char *rounds)
{
	struct sockaddr_in a;
	socklen_t len = sizeof a;
	char b[100] = {0}, text[64];
	int s = connected(host);

	if (s < 0)
		return 1;
	getsockname(s, (void *)&a, &len);
	printf("at %s:%d\n", inet_ntop(AF_INET, &a.sin_addr, text, sizeof text), ntohs(a.sin_port));
	getpeername(s, (void *)&a, &len);
	printf("to %s:%d\n", inet_ntop(AF_INET, &a.sin_addr, text, sizeof text), ntohs(a.sin_port));
	for (int i = 0; i < atoi(rounds); i++) {
		struct pollfd p = {.fd = s, .events = POLLIN};

		usleep(5);
		if (write(s, b, 40) != 40 || send(s, b, 60, 0) != 60)
			return perror("write"), 1;
		if (poll(&p, 1, 1) != 1)
			return perror("poll"), 1;
		if (read(s, b, sizeof b) != sizeof b)
			return perror("read"), 1;
	}
	say("asked");
	{
		struct pollfd p = {.fd = s, .events = POLLIN};
		struct timeval t = {0, 2000};
		struct epoll_event e = {.events = EPOLLIN}, got;
		int ep = epoll_create1(0);
		fd_set set;

		FD_ZERO(&set);
		FD_SET(s, &set);
		printf("poll %d\n", poll(&p, 1, 3));
		say("polled in vain");
		printf("select %d\n", select(s + 1, &set, NULL, NULL, &t));
		say("selected in vain");
		epoll_ctl(ep, EPOLL_CTL_ADD, s, &e);
		printf("epoll %d\n", epoll_wait(ep, &got, 1, 4));
		say("waited in vain");
	}
	shutdown(s, SHUT_WR);
	close(s);
	say("done");
	return 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static int shared, order[64], orders;
static volatile int flag;

static void *worker(void *arg)
{
	int me = (intptr_t)arg;

	for (int i = 0; i < 3; i++) {
		usleep(10 * (me + 1));
		pthread_mutex_lock(&mutex);
		order[orders++] = me;
		usleep(7); /* others wait for the mutex */
		shared++;
		pthread_cond_signal(&cond);
		pthread_mutex_unlock(&mutex);
	}
	sem_post(&sem);
	return arg;
}

static void *setter(void *arg)
{
	usleep(50);
	flag = 1;
	return arg;
}

/* Waits for another thread in a loop that does not come back to the same registers. */
static int counter(void)
{
	pthread_t t;
	unsigned long count = 0;

	pthread_create(&t, NULL, setter, NULL);
	for (; !flag; count++)
		__asm__ volatile("" : "+r"(count));
	say(count ? "counted" : "did not count");
	pthread_join(t, NULL);
	return 0;
}

/* A system call that no library sees. */
static long raw(long number, long a, long b)
{
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "a"(number), "D"(a), "S"(b), "d"(0L) : "rcx", "r11", "memory");
	return r;
}

static long long processor_time(void)
{
	struct timespec t;

	raw(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&t); /* the machine's */
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int computer(const char *ms)
{
	for (long long end = processor_time() + atoi(ms) * 1000000ll; processor_time() < end;)
		for (int i = 0; i < 1000000; i++)
			__asm__ volatile("" : "+r"(i));
	say("computed");
	return 0;
}

static int threads(void)
{
	pthread_t t[4];
	struct timespec at;
	void *value;

	sem_init(&sem, 0, 0);
	for (intptr_t i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, worker, (void *)i);
	pthread_mutex_lock(&mutex);
	while (shared < 12)
		pthread_cond_wait(&cond, &mutex);
	pthread_mutex_unlock(&mutex);
	say("all counted");
	for (int i = 0; i < 4; i++)
		sem_wait(&sem);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &value);
		if ((intptr_t)value != i)
			return 1;
	}
	for (int i = 0; i < orders; i++)
		printf("%d ", order[i]);
	printf("\n");
	pthread_create(&t[0], NULL, setter, NULL);
	while (!flag)
		;
	say("another thread wrote");
	pthread_join(t[0], NULL);
	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_sec += 2;
	pthread_mutex_lock(&mutex);
	printf("%d\n", pthread_cond_timedwait(&cond, &mutex, &at) == ETIMEDOUT);
	say("timed out");
	return 0;
}

static pthread_barrier_t barrier;

static void *meeting(void *arg)
{
	int serial = 0;

	printf("thread %d %ld of %d %ld\n", gettid(), syscall(SYS_gettid), getpid(), syscall(SYS_getpid));
	for (int i = 0; i < 3; i++) {
		usleep(10 * ((intptr_t)arg + 1));
		serial += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
		printf("%lld: %d met\n", now(), (int)(intptr_t)arg);
	}
	return (void *)(intptr_t)serial;
}

/* Threads that meet at a barrier, which is then destroyed at once. */
static int barriers(void)
{
	pthread_t t[2];
	void *value;

	pthread_barrier_init(&barrier, NULL, 3);
	for (intptr_t i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, meeting, (void *)i);
	printf("main %d\n", (int)(intptr_t)meeting((void *)2));
	pthread_barrier_destroy(&barrier);
	memset(&barrier, 0xff, sizeof barrier);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], &value);
		printf("%d %d\n", i, (int)(intptr_t)value);
	}
	say("parted");
	return 0;
}

/* Looks for a connection, and for what comes by it, without waiting. */
static int impatient(void)
{
	int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), c, looks = 0;
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(18515)};
	struct iovec v;
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	char b[100];

	if (bind(s, (void *)&a, sizeof a) || listen(s, 1))
		return perror("bind"), 1;
	while ((c = accept(s, NULL, NULL)) < 0 && errno == EAGAIN)
		looks++;
	printf("%d looks\n", looks);
	say("accepted");
	for (looks = 0; recv(c, b, 40, MSG_DONTWAIT) < 0 && errno == EAGAIN;)
		looks++;
	printf("%d looks\n", looks);
	say("received");
	if (recv(c, b, 60, 0) != 60 || write(c, b, sizeof b) != sizeof b)
		return perror("write"), 1;
	v = (struct iovec){b, sizeof b};
	for (looks = 0; recvmsg(c, &m, MSG_DONTWAIT) < 0 && errno == EAGAIN;)
		looks++;
	printf("%d looks\n", looks);
	say("received again");
	return 0;
}

static void on_child(int sig)
{
	(void)sig;
	alarms++;
}

static int processes(const char *self)
{
	uint64_t random[2];
	int status, fds[2];
	pid_t pid;
	FILE *f;
	char line[100];

	printf("process %d of %d\n", getpid(), getppid());
	getrandom(random, sizeof random, 0);
	printf("%016llx %016llx\n", (unsigned long long)random[0], (unsigned long long)random[1]);
	signal(SIGCHLD, on_child);
	fflush(stdout);
	if (pipe(fds))
		return 1;
	pid = fork();
	if (!pid) {
		char got;

		if (read(fds[0], &got, 1) != 1)
			_exit(1);
		printf("child %d of %d\n", getpid(), getppid());
		say("the child read");
		usleep(300);
		_exit(7);
	}
	printf("forked %d\n", pid);
	usleep(100);
	if (write(fds[1], "x", 1) != 1)
		return 1;
	fflush(stdout);
	printf("waited for %d,", waitpid(pid, &status, 0));
	printf(" status %d\n", WEXITSTATUS(status));
	say("waited");
	printf("%d SIGCHLD\n", (int)alarms);
	fflush(stdout);
	pid = vfork();
	if (!pid) {
		execl(self, self, "sleeper", (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	say("executed");
	printf("system %d\n", WEXITSTATUS(system("sleep 0.25; exit 3")));
	say("slept in a shell");
	f = popen("echo $((6 * 7))", "r");
	if (!f || !fgets(line, sizeof line, f))
		return 1;
	printf("popen %s", line);
	pclose(f);
	fflush(stdout);
	pid = fork();
	if (!pid)
		for (;;)
			pause();
	usleep(10);
	printf("kill %d\n", kill(pid, SIGTERM));
	waitpid(pid, &status, 0);
	printf("signal %d\n", WTERMSIG(status));
	printf("kill %d", kill(pid, 0));
	printf(" %d\n", errno == ESRCH);
	say("end");
	return 0;
}

/* A completion queue at addresses that the test's device knows, polled as libmlx5 does. */
#define QUEUE ((volatile unsigned char *)0x10000000)
#define RECORD ((volatile uint32_t *)0x20000000)
enum { ENTRIES = 64, ENTRY = 64 };

static uint32_t consumed;

static int poll_queue(int most, unsigned char *got)
{
	int n = 0;

	for (; n < most; n++, consumed++) {
		volatile unsigned char *e = QUEUE + consumed % ENTRIES * ENTRY;
		unsigned char own = e[ENTRY - 1];

		if (own >> 4 == 0xf || (own & 1) != !!(consumed & ENTRIES))
			break;
		got[n] = e[0];
	}
	*RECORD = __builtin_bswap32(consumed & 0xffffff);
	return n;
}

static int queue(const char *most)
{
	unsigned char *q = mmap((void *)QUEUE, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), got[16];

	mmap((void *)RECORD, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	for (int i = 0; i < ENTRIES; i++)
		q[i * ENTRY + ENTRY - 1] = 0xf0;
	usleep(1); /* the device takes it here */
	say("made");
	for (int total = 0, polls = 0; total < 200;) {
		int n = poll_queue(atoi(most), got);

		polls++;
		total += n;
		if (n) {
			printf("%d polls, %d:", polls, n);
			for (int i = 0; i < n; i++)
				printf(" %d", got[i]);
			printf("\n");
			polls = 0;
		}
	}
	/* An instruction that is not emulated, and a store. */
	printf("%d\n", __atomic_fetch_add((int *)(q + 8), 5, __ATOMIC_SEQ_CST));
	printf("%d\n", *(int *)(q + 8));
	memset(q, 1, 100);
	say("end");
	return 0;
}

static int machine(void)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	char line[200];
	cpu_set_t may;

	sched_getaffinity(0, sizeof may, &may);
	printf("processors: %d\n", CPU_COUNT(&may));

	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "cpu MHz", 7))
			printf("%s", line);
	f = fopen("/proc/sys/kernel/random/boot_id", "r");
	if (f && fgets(line, sizeof line, f))
		printf("%s", line);
	return 0;
}

#ifdef GO
/* What the Go linker leaves in programs. */
__asm__(".pushsection .note.go.buildid, \"a\", @note\n.long 4, 4, 4\n.ascii \"Go\\0\\0\"\n.long 0\n.popsection");
#endif

/* cloner makes a child that the simulation does not know of, and ends before it. */
static int cloner(void)
{
	long pid = raw(SYS_clone, SIGCHLD, 0);

	while (!pid)
		raw(SYS_pause, 0, 0);
	printf("%ld\n", pid);
	return pid < 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "clocks"))
		return clocks();
	if (!strcmp(what, "timers"))
		return timers();
	if (!strcmp(what, "server"))
		return server(argv[2]);
	if (!strcmp(what, "looks"))
		return looks(argv[2]);
	if (!strcmp(what, "client"))
		return client(argv[2], argv[3]);
	if (!strcmp(what, "caller")) /* connects, and then reads clocks for 60 us */
		return connected(argv[2]) < 0 || reader();
	if (!strcmp(what, "asker"))
		return asker(argv[2]);
	if (!strcmp(what, "threads"))
		return threads();
	if (!strcmp(what, "counter"))
		return counter();
	if (!strcmp(what, "computer"))
		return computer(argv[2]);
	if (!strcmp(what, "barriers"))
		return barriers();
	if (!strcmp(what, "impatient"))
		return impatient();
	if (!strcmp(what, "processes"))
		return processes(argv[0]);
	if (!strcmp(what, "sleeper"))
		return usleep(1500), say("slept after exec"), 0;
	if (!strcmp(what, "reader"))
		return reader();
	if (!strcmp(what, "queue"))
		return queue(argv[2]);
	if (!strcmp(what, "execute"))
		return execl(argv[2], argv[2], (char *)NULL);
	if (!strcmp(what, "cloner"))
		return cloner();
	if (!strcmp(what, "machine"))
		return machine();
	if (!strcmp(what, "stuck"))
		return pause();
	if (!strcmp(what, "uring"))
		return syscall(SYS_io_uring_setup, 1, NULL);
	fprintf(stderr, "no part %s\n", what);
	return 2;
}
