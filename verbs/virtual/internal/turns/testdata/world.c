/* What the tests run in simulated time of a process's world: each argument's part prints what it sees. */
#define _GNU_SOURCE
#include <errno.h>
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

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "signals"))
		return signals();
	fprintf(stderr, "no part %s\n", what);
	return 2;
}
