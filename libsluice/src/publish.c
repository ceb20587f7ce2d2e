/* SLUICE_METRICS=1: a thread answers `sluice exporter` on a socket, DIR/PID.sock, as package
 * metrics of Sluice's Go does; docs/observability.md has the directory and who may ask.
 *
 * The thread has descriptors of its own: a program that closes all descriptors does not close
 * its socket, a child of fork does not inherit it, and the program's numbers stay as they are.
 * Its system calls are made by their numbers, since others who are preloaded keep account of
 * the program's descriptors in the C library's functions. */
#define _GNU_SOURCE
#include "shim.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif

enum {
	CLIENTS = 8,         /* a further one takes the place of the oldest */
	REQUEST = 8192,      /* bytes of a request */
	PATIENCE = 10000000, /* microseconds that a client has for everything */
};

/* Guarded by the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool begun; /* or failed, which is not tried again */
static char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "" unless it is served */
static pid_t owner;

/* ---- the directory */

static bool directory(char *dir, size_t size)
{
	const char *own = getenv("SLUICE_RUN"), *run = getenv("XDG_RUNTIME_DIR"), *tmp = getenv("TMPDIR");
	int n;
	if (own && *own)
		n = snprintf(dir, size, "%s", own);
	else if (run && *run)
		n = snprintf(dir, size, "%s/sluice", run);
	else if (!geteuid())
		n = snprintf(dir, size, "/run/sluice");
	else
		n = snprintf(dir, size, "%s/sluice-%u", tmp && *tmp ? tmp : "/tmp", (unsigned)getuid());
	return n > 0 && n < (int)size;
}

/* Makes a directory and those above it, for the user alone. 0, or an errno value. */
static int make(const char *dir)
{
	char above[PATH_MAX];
	snprintf(above, sizeof(above), "%s", dir);
	for (char *p = above + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			if (mkdir(above, 0700) && errno != EEXIST)
				return errno;
			*p = '/';
		}
	return mkdir(dir, 0700) && errno != EEXIST ? errno : 0;
}

/* ---- the thread's descriptors */

/* Leaves the program its descriptors, and has none from then on. */
static bool part(void)
{
	if (!syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE))
		return true;
	/* A kernel before 5.9, or a filter that does not know the call. */
	if (syscall(SYS_unshare, CLONE_FILES))
		return false;
	int last = -1;
	for (bool more = true; more;) {
		DIR *all = opendir("/proc/thread-self/fd");
		struct dirent *e;
		if (!all)
			return false;
		more = false;
		while ((e = readdir(all))) {
			int fd = atoi(e->d_name);
			if (e->d_name[0] == '.' || fd == dirfd(all))
				continue;
			syscall(SYS_close, fd);
			more |= fd > last;
			last = fd > last ? fd : last;
		}
		closedir(all);
	}
	return true;
}

static bool address(struct sockaddr_un *a, const char *name)
{
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	int n = snprintf(a->sun_path, sizeof(a->sun_path), "%s", name);
	return n > 0 && n < (int)sizeof(a->sun_path);
}

static int make_socket(void) { return (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

/* Whether somebody listens at the name: another library of this process, or a process of another
 * PID namespace. What a process left that is gone answers nobody. */
static bool taken(const char *name)
{
	struct sockaddr_un a;
	int fd = address(&a, name) ? make_socket() : -1;
	if (fd < 0)
		return false;
	bool yes = !syscall(SYS_connect, fd, &a, sizeof(a)) || errno == EAGAIN;
	syscall(SYS_close, fd);
	return yes;
}

/* The socket, or a negative errno. It gets its name when it listens: whoever looks before would
 * take it for that of a process that is gone, and remove it. */
static int listen_at(const char *name)
{
	char early[PATH_MAX];
	struct sockaddr_un a;
	snprintf(early, sizeof(early), "%s.new", name);
	if (!address(&a, early))
		return -ENAMETOOLONG;
	if (taken(name))
		return -EADDRINUSE;
	unlink(early);
	int fd = make_socket();
	if (fd < 0)
		return -errno;
	/* To connect is to write. Who may enter the directory is the directory's to say. */
	if (syscall(SYS_bind, fd, &a, sizeof(a)) || chmod(early, 0660) || syscall(SYS_listen, fd, SOMAXCONN) || rename(early, name)) {
		int r = errno;
		unlink(early);
		syscall(SYS_close, fd);
		return -r;
	}
	return fd;
}

/* ---- answers */

struct client {
	int fd; /* -1: none */
	int64_t until; /* by sl_clock */
	size_t got;
	char request[REQUEST];
	struct sl_text reply;
	size_t sent;
};

static void drop(struct client *c)
{
	syscall(SYS_close, c->fd);
	free(c->reply.at);
	c->reply = (struct sl_text){0};
	c->fd = -1;
}

/* The answer to a request that is whole. HTTP/1.0: the connection's end is its end. */
static bool answer(struct client *c)
{
	static const char head[] = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\r\n";
	if (strncmp(c->request, "GET ", 4)) {
		sl_text_add(&c->reply, "HTTP/1.0 405 Method Not Allowed\r\n\r\n");
		return c->reply.at != NULL;
	}
	sl_text_add(&c->reply, "%s", head);
	sl_metrics(&c->reply);
	return !c->reply.failed;
}

/* Goes on with a client: whether it stays. */
static bool serve(struct client *c)
{
	if (!c->reply.at) {
		long n = syscall(SYS_recvfrom, c->fd, c->request + c->got, sizeof(c->request) - 1 - c->got, 0, NULL, NULL);
		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		c->got += (size_t)n;
		c->request[c->got] = 0;
		if (!strstr(c->request, "\r\n\r\n"))
			return c->got < sizeof(c->request) - 1;
		if (!answer(c))
			return false;
	}
	long n = syscall(SYS_sendto, c->fd, c->reply.at + c->sent, c->reply.n - c->sent, MSG_NOSIGNAL, NULL, 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->sent += (size_t)n;
	return c->sent < c->reply.n;
}

static bool greet(struct client clients[CLIENTS], int listener)
{
	int fd = (int)syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return false;
	struct client *c = clients;
	for (int i = 1; i < CLIENTS && c->fd >= 0; i++)
		if (clients[i].fd < 0 || clients[i].until < c->until)
			c = &clients[i];
	if (c->fd >= 0)
		drop(c);
	c->fd = fd;
	c->until = sl_clock() + PATIENCE * 1000ll;
	c->got = c->sent = 0;
	if (!serve(c)) /* its request may be there */
		drop(c);
	return true;
}

/* ---- the thread */

struct start {
	const char *name;
	sem_t ready;
	int error;
};

/* Never returns: the process's end, or its exec, is the thread's. */
static void go_on(int listener)
{
	struct client *clients = calloc(CLIENTS, sizeof(*clients));
	if (!clients)
		return;
	for (int i = 0; i < CLIENTS; i++)
		clients[i].fd = -1;
	for (;;) {
		struct pollfd p[1 + CLIENTS] = {{.fd = listener, .events = POLLIN}};
		int64_t first = INT64_MAX, now = sl_clock();
		for (int i = 0; i < CLIENTS; i++) {
			struct client *c = &clients[i];
			if (c->fd >= 0 && c->until <= now)
				drop(c);
			if (c->fd >= 0 && c->until < first)
				first = c->until;
			p[1 + i] = (struct pollfd){.fd = c->fd, .events = c->reply.at ? POLLOUT : POLLIN};
		}
		struct {
			long s, ns; /* as the kernel's call has it */
		} left = {(long)((first - now) / 1000000000), (long)((first - now) % 1000000000)};
		if (syscall(SYS_ppoll, p, 1 + CLIENTS, first == INT64_MAX ? NULL : &left, NULL, 0) < 0)
			continue; /* no memory */
		for (int i = 0; i < CLIENTS; i++)
			if (p[1 + i].fd >= 0 && p[1 + i].revents && !serve(&clients[i]))
				drop(&clients[i]);
		for (int i = 0; i < CLIENTS && p[0].revents && greet(clients, listener); i++)
			;
	}
}

static void *run(void *arg)
{
	struct start *s = arg;
	prctl(PR_SET_NAME, "sluice-metrics");
	locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* a point is a point */
	if (plain)
		uselocale(plain);
	int fd = part() ? listen_at(s->name) : -EPERM;
	s->error = fd < 0 ? -fd : 0;
	sem_post(&s->ready); /* s is gone now */
	if (fd >= 0)
		go_on(fd);
	return NULL;
}

/* 0, or an errno value with why. */
static int begin(char *why, size_t size)
{
	char dir[PATH_MAX], name[PATH_MAX + 32];
	if (!directory(dir, sizeof(dir)))
		return snprintf(why, size, "the directory's name is too long"), ENAMETOOLONG;
	int r = make(dir);
	struct stat st;
	if (!r && stat(dir, &st))
		r = errno;
	if (!r && !S_ISDIR(st.st_mode))
		r = ENOTDIR;
	if (r)
		return snprintf(why, size, "%s: %s: name another directory with SLUICE_RUN", dir, strerror(r)), r;
	/* Whoever owns it could answer in this process's name. */
	if (st.st_uid && st.st_uid != geteuid())
		return snprintf(why, size, "%s belongs to user %u: remove it, or name another directory with SLUICE_RUN", dir, (unsigned)st.st_uid), EPERM;
	snprintf(name, sizeof(name), "%s/%d.sock", dir, (int)getpid());
	struct start s = {.name = name};
	sem_init(&s.ready, 0, 0);
	pthread_attr_t a;
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	/* Signals are for the program's threads. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_t thread;
	r = pthread_create(&thread, &a, run, &s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&a);
	if (!r) {
		while (sem_wait(&s.ready))
			;
		r = s.error;
	}
	sem_destroy(&s.ready);
	if (r == EADDRINUSE)
		return snprintf(why, size, "%s is served already: another library of this process publishes, or a process of another PID namespace", name), r;
	if (r)
		return snprintf(why, size, "%s: %s", name, strerror(r)), r;
	snprintf(path, sizeof(path), "%s", name);
	owner = getpid();
	/* The thread's code stays, whoever closes the library. */
	Dl_info self;
	if (dladdr((void *)&lock, &self) && self.dli_fname)
		(void)dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
	return 0;
}

void sl_publish(void)
{
	char why[PATH_MAX + 256];
	if (SL_ATOMIC_GET(begun))
		return;
	int state = sl_enter();
	pthread_mutex_lock(&lock);
	if (!begun) {
		if (getauxval(AT_SECURE)) /* the directory would be made with rights that whoever names it lacks */
			sl_debug("level=WARN msg=\"a set-user-ID program publishes nothing\"");
		else if (sl_time_is_simulated())
			sl_debug("level=WARN msg=\"time is simulated: nothing is published\"");
		else if (begin(why, sizeof(why)))
			fprintf(stderr, "sluice: SLUICE_METRICS: nothing is published: %s\n", why);
		SL_ATOMIC_SET(begun, true);
	}
	pthread_mutex_unlock(&lock);
	sl_leave(state);
}

/* In the child of a fork, which has no such thread: it publishes what it makes itself. */
void sl_publish_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	begun = false;
	path[0] = 0;
}

/* Who ends otherwise leaves the name, which the exporter removes. Children of vfork come here
 * with the parent's memory. */
__attribute__((destructor)) static void end(void)
{
	if (path[0] && owner == getpid())
		unlink(path);
}
