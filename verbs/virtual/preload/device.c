/*
 * Descriptors of devices. What the program has is a descriptor of /dev/null, or one that
 * the server gave for it to poll; beside it the library has the connection, which the
 * program does not know of.
 */
#define _GNU_SOURCE
#include "turns.h"

#include "message.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

struct device {
	pthread_mutex_t lock; /* one request at a time */
	int conn;	      /* -1 in a child of the process that opened it */
	pid_t pid;	      /* the process that this memory is of */
	int events;	      /* a duplicate of the server's descriptor, for events; -1: it gave none */
	int refs;	      /* descriptors, and calls under way; under table */
	struct device *next;
};

_Atomic(struct device *) device_of[FDS];

/* In device_of, the library's own descriptor. */
static struct device internal;

/* Guards refs, the list, and changes of device_of. */
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static struct device *devices;

void *next_function(_Atomic(void *) *slot, const char *name, const char *version)
{
	void *f = version ? dlvsym(RTLD_NEXT, name, version) : NULL;

	if (!f)
		f = dlsym(RTLD_NEXT, name);

	if (!f) {
		static const char text[] = "libsluice-virtual.so: the C library lacks a function: ";

		syscall(SYS_write, 2, text, sizeof text - 1);
		syscall(SYS_write, 2, name, strlen(name));
		syscall(SYS_write, 2, "\n", 1);
		abort();
	}
	atomic_store_explicit(slot, f, memory_order_relaxed);
	return f;
}

/*
 * System calls, since those of the C library are cancellation points, and may be other
 * libraries' to interpose.
 */
static int close_fd(int fd)
{
	return syscall(SYS_close, fd);
}

/* getpid may be the simulation's. */
static pid_t kernel_pid(void)
{
	return syscall(SYS_getpid);
}

/* Signal handlers that do not return, or that use the device, would find it locked. */
static void block_signals(sigset_t *old)
{
	uint64_t all = ~0ull;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, old, sizeof all);
}

static void restore_signals(const sigset_t *old)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, old, NULL, sizeof(uint64_t));
}

/* exchange sends a request and waits for the reply, with its data and descriptor, or -1. */
static int exchange(int conn, const struct request *q, const void *data, size_t len, int send_fd,
		    struct reply *r, void *reply_data, size_t *reply_len, int *fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec out[2] = {{(void *)q, sizeof *q}, {(void *)data, len}};
	struct iovec in[2] = {{r, sizeof *r}, {reply_data, reply_data ? MAX_DATA : 0}};
	struct msghdr m = {.msg_iov = out, .msg_iovlen = 2};
	struct cmsghdr *c;
	ssize_t n;

	*fd = -1;
	if (simulated())
		turn_sync();
	if (send_fd >= 0) {
		memset(&control, 0, sizeof control);
		m.msg_control = &control;
		m.msg_controllen = sizeof control;
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &send_fd, sizeof(int));
	}
	do
		n = syscall(SYS_sendmsg, conn, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EFAULT ? EFAULT : EIO;
	m = (struct msghdr){.msg_iov = in, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
	do
		n = syscall(SYS_recvmsg, conn, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < (ssize_t)sizeof *r)
		return EIO;
	for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			memcpy(fd, CMSG_DATA(c), sizeof(int));
	if (reply_len)
		*reply_len = n - sizeof *r;
	if (simulated())
		turn_changed(); /* the command may have given the simulation other events */
	if ((r->flags & FLAG_FD) && *fd < 0)
		return EMFILE;
	return r->err;
}

static int watch_stores(void)
{
#ifdef UFFD_USER_MODE_ONLY
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd >= 0 && syscall(SYS_ioctl, fd, UFFDIO_API, &api) == 0)
		return fd;
	if (fd >= 0)
		close_fd(fd);
#endif
	return -1;
}

static int connect_server(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *root = virtual_root();
	struct ucred server;
	socklen_t len = sizeof server;
	int s, high;

	if (strlen(root) + sizeof "/socket" > sizeof to.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(to.sun_path, root);
	strcat(to.sun_path, "/socket");
	s = syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (s < 0)
		return -1;
	/* Out of the way of programs that choose numbers of descriptors themselves. */
	high = syscall(SYS_fcntl, s, F_DUPFD_CLOEXEC, 700);
	if (high >= 0) {
		close_fd(s);
		s = high;
	}
	if (s >= FDS || syscall(SYS_connect, s, &to, sizeof to)) {
		int saved = s >= FDS ? EMFILE : errno == ECONNREFUSED ? ENXIO : errno;

		close_fd(s);
		errno = saved;
		return -1;
	}
	/* Where only ancestors may, Yama lets the server reach this process's memory by this. */
	if (!getsockopt(s, SOL_SOCKET, SO_PEERCRED, &server, &len) && server.pid > 0)
		prctl(PR_SET_PTRACER, server.pid, 0, 0, 0);
	return s;
}

static void own(int fd, struct device *d)
{
	atomic_store_explicit(&device_of[fd], d, memory_order_relaxed);
}

void keep(int fd)
{
	if (fd >= 0 && fd < FDS)
		own(fd, &internal);
}

void forget(int fd)
{
	if (fd >= 0 && fd < FDS)
		own(fd, NULL);
}

static void lock_table(sigset_t *old)
{
	block_signals(old);
	pthread_mutex_lock(&table);
}

static void unlock_table(const sigset_t *old)
{
	pthread_mutex_unlock(&table);
	restore_signals(old);
}

int device_open(const char *node, int flags)
{
	struct request q = {.op = OP_HELLO, .a = MESSAGE_VERSION};
	struct device *d = calloc(1, sizeof *d);
	int visible = -1, uffd, err;
	struct reply r;
	sigset_t old;

	if (!d)
		return -1;
	pthread_mutex_init(&d->lock, NULL);
	d->refs = 1;
	d->pid = kernel_pid();
	d->conn = connect_server();
	if (d->conn < 0) {
		free(d);
		return -1;
	}
	uffd = simulated() ? -1 : watch_stores(); /* simulated devices look at waiting points */
	block_signals(&old);
	err = exchange(d->conn, &q, node, strlen(node), uffd, &r, NULL, NULL, &visible);
	restore_signals(&old);
	if (uffd >= 0)
		close_fd(uffd); /* the server's only: when that ends, nobody waits for it */
	d->events = -1;
	if (!err && visible >= 0) {
		/* Who waits for events waits on, as in the kernel, while the program closes its own. */
		d->events = syscall(SYS_fcntl, visible, F_DUPFD_CLOEXEC, 700);
		if (d->events >= FDS) {
			close_fd(d->events);
			d->events = -1;
		}
		if (d->events < 0)
			err = EMFILE;
	}
	if (!err && visible < 0) {
		visible = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
		if (visible < 0)
			err = errno;
	}
	if (!err && visible >= FDS)
		err = EMFILE;
	if (!err && (!(flags & O_CLOEXEC) && syscall(SYS_fcntl, visible, F_SETFD, 0) < 0))
		err = errno;
	if (!err && (flags & O_NONBLOCK) && syscall(SYS_fcntl, visible, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		err = errno;
	if (err) {
		if (visible >= 0)
			close_fd(visible);
		if (d->events >= 0)
			close_fd(d->events);
		close_fd(d->conn);
		free(d);
		errno = err;
		return -1;
	}
	lock_table(&old);
	own(d->conn, &internal);
	if (d->events >= 0)
		own(d->events, &internal);
	own(visible, d);
	d->next = devices;
	devices = d;
	unlock_table(&old);
	return visible;
}

/* The server answers that there is no such node, when the counters are written. */
void device_refresh(void)
{
	static const char node[] = "counters";
	struct request q = {.op = OP_HELLO, .a = MESSAGE_VERSION};
	int saved = errno, fd, s = connect_server();
	struct reply r;
	sigset_t old;

	if (s >= 0) {
		block_signals(&old);
		exchange(s, &q, node, strlen(node), -1, &r, NULL, NULL, &fd);
		restore_signals(&old);
		close_fd(s);
	}
	errno = saved;
}

/* hold returns the device of a descriptor until release, or NULL if it is no longer one's. */
static struct device *hold(int fd)
{
	struct device *d;
	sigset_t old;

	lock_table(&old);
	d = atomic_load(&device_of[fd]);
	if (d && d != &internal)
		d->refs++;
	unlock_table(&old);
	return d;
}

static void release(struct device *d)
{
	struct request q = {.op = OP_CLOSE};
	struct reply r;
	sigset_t old;
	int fd;

	if (d == &internal)
		return;
	block_signals(&old);
	pthread_mutex_lock(&table);
	if (--d->refs) {
		unlock_table(&old);
		return;
	}
	for (struct device **p = &devices; *p; p = &(*p)->next)
		if (*p == d) {
			*p = d->next;
			break;
		}
	pthread_mutex_unlock(&table);
	if (d->conn >= 0) {
		/* When close() returns, the device has freed what it had. */
		exchange(d->conn, &q, NULL, 0, -1, &r, NULL, NULL, &fd);
		pthread_mutex_lock(&table);
		own(d->conn, NULL);
		if (d->events >= 0)
			own(d->events, NULL);
		pthread_mutex_unlock(&table);
		close_fd(d->conn);
		if (d->events >= 0)
			close_fd(d->events);
	}
	restore_signals(&old);
	free(d);
}

/*
 * usable reports whether a device is this process's. A child of vfork shares its parent's
 * memory, not its descriptors; one of fork has neither.
 */
static bool usable(struct device *d)
{
	return d != &internal && d->conn >= 0 && d->pid == kernel_pid();
}

/* copy_out writes to an address that the program gave, which may be bad. */
static int copy_out(uint64_t to, void *data, size_t len)
{
	struct iovec from = {data, len}, at = {(void *)(uintptr_t)to, len};
	ssize_t n = syscall(SYS_process_vm_writev, kernel_pid(), &from, 1, &at, 1, 0);

	if (n == (ssize_t)len)
		return 0;
	if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
		memcpy(at.iov_base, data, len);
		return 0;
	}
	return EFAULT;
}

/* call carries a request out and gives the program what the reply has for it. */
static int call(struct device *d, const struct request *q, const void *data, size_t len, uint64_t *value)
{
	unsigned char *reply_data = malloc(MAX_DATA);
	struct reply r;
	size_t reply_len = 0;
	sigset_t old;
	int fd = -1, err;

	if (!reply_data)
		return ENOMEM;
	block_signals(&old);
	pthread_mutex_lock(&d->lock);
	err = exchange(d->conn, q, data, len, -1, &r, reply_data, &reply_len, &fd);
	pthread_mutex_unlock(&d->lock);
	restore_signals(&old);
	board_read();
	if (!err && fd >= 0) {
		if (r.fd_at + sizeof fd <= reply_len)
			memcpy(reply_data + r.fd_at, &fd, sizeof fd);
		else
			err = EIO;
	}
	if (!err && r.to && reply_len)
		err = copy_out(r.to, reply_data, reply_len);
	if (err && fd >= 0)
		close_fd(fd);
	free(reply_data);
	*value = r.value;
	return err;
}

/* finish releases a device and returns value, or -1 with errno. */
static int64_t finish(struct device *d, int err, int64_t value)
{
	release(d);
	if (!err)
		return value;
	errno = err;
	return -1;
}

ssize_t device_write(int fd, const void *buf, size_t count)
{
	struct request q = {.op = OP_WRITE};
	struct device *d = hold(fd);
	uint64_t value = 0;
	int err;

	if (!d)
		return NEXT(write)(fd, buf, count);
	if (d == &internal)
		return finish(d, EBADF, 0);
	if (!usable(d))
		return finish(d, EIO, 0);
	if (count > MAX_WRITE)
		return finish(d, EINVAL, 0);
	for (;;) {
		struct pollfd p = {.fd = d->events, .events = POLLIN};

		err = call(d, &q, buf, count, &value);
		if (err != EAGAIN || d->events < 0 || (syscall(SYS_fcntl, d->events, F_GETFL) & O_NONBLOCK))
			break;
		if (poll(&p, 1, -1) < 0) {
			err = errno;
			break;
		}
	}
	return finish(d, err, value);
}

int device_ioctl(int fd, unsigned long request, uintptr_t arg)
{
	struct request q = {.op = OP_IOCTL, .a = request, .b = arg};
	struct device *d = hold(fd);
	uint64_t value = 0;
	int err;

	if (!d)
		return syscall(SYS_ioctl, fd, request, arg);
	err = d == &internal ? EBADF : !usable(d) ? EIO : call(d, &q, NULL, 0, &value);
	return finish(d, err, value);
}

void *device_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	size_t page = sysconf(_SC_PAGESIZE), rounded = (length + page - 1) & ~(page - 1);
	struct request q = {.op = OP_MMAP, .a = offset, .b = rounded, .c = !!(prot & PROT_WRITE)};
	struct device *d = hold(fd);
	void *p = MAP_FAILED;
	struct reply r;
	sigset_t old;
	int memory = -1, err, ignored;

	if (!d)
		return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
	err = d == &internal ? EBADF : !usable(d) ? EIO : !(flags & MAP_SHARED) || !rounded ? EINVAL : 0;
	if (err)
		return finish(d, err, 0) ? MAP_FAILED : NULL;
	block_signals(&old);
	pthread_mutex_lock(&d->lock);
	err = exchange(d->conn, &q, NULL, 0, -1, &r, NULL, NULL, &memory);
	if (!err && memory < 0)
		err = EIO;
	if (!err) {
		p = (void *)syscall(SYS_mmap, addr, rounded, prot, flags, memory, r.offset);
		if (p == MAP_FAILED)
			err = errno;
	}
	if (!err && (r.flags & FLAG_DOORBELLS) && simulated())
		doorbells_mapped(p, rounded);
	if (!err && (r.flags & FLAG_CLOCK))
		err = clock_map(p, rounded, memory, r.offset);
	if (!err) {
		q = (struct request){.op = OP_MAPPED, .a = r.value, .b = (uintptr_t)p};
		err = exchange(d->conn, &q, NULL, 0, -1, &r, NULL, NULL, &ignored);
	}
	if (err && p != MAP_FAILED) {
		clock_unmap(p, rounded);
		doorbells_unmapped(p, rounded);
		syscall(SYS_munmap, p, rounded);
	}
	if (memory >= 0)
		close_fd(memory);
	pthread_mutex_unlock(&d->lock);
	restore_signals(&old);
	return finish(d, err, 0) ? MAP_FAILED : p;
}

int device_close(int fd)
{
	struct device *d = hold(fd);
	sigset_t old;
	int ret;

	if (!d)
		return NEXT(close)(fd);
	if (d == &internal)
		return finish(d, EBADF, 0);
	if (d->pid != kernel_pid()) { /* after vfork: the table is the parent's */
		ret = close_fd(fd);
		release(d);
		return ret;
	}
	lock_table(&old);
	if (atomic_load(&device_of[fd]) == d) {
		own(fd, NULL);
		d->refs--;
	}
	unlock_table(&old);
	ret = close_fd(fd);
	release(d);
	return ret;
}

/*
 * device_end is what a read gives that has found the end of a file. Of a file of events,
 * whose other end has gone with the server, that is what the kernel gives when a device is
 * removed: IBV_EVENT_DEVICE_FATAL once, and EIO from then on; EIO alone where the events are
 * of completions. The socket itself keeps that it was told, for all who have it.
 */
ssize_t device_end(int fd, void *buf, size_t n)
{
	static const char async[] = "sluice-virtual-async-", completion[] = "sluice-virtual-completion-";
	struct {
		uint64_t element;
		uint32_t type, reserved;
	} fatal = {.type = 8};
	struct sockaddr_un name = {0};
	socklen_t len = sizeof name, int_len = sizeof(int);
	int saved = errno, told = 0, one = 1;

	if (!virtual_root() || syscall(SYS_getsockname, fd, &name, &len) || name.sun_family != AF_UNIX || name.sun_path[0]) {
		errno = saved;
		return 0;
	}
	if (!strncmp(name.sun_path + 1, async, sizeof async - 1)) {
		syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PRIORITY, &told, &int_len);
		if (!told && n >= sizeof fatal) {
			syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_PRIORITY, &one, sizeof one);
			memcpy(buf, &fatal, sizeof fatal);
			errno = saved;
			return sizeof fatal;
		}
	} else if (strncmp(name.sun_path + 1, completion, sizeof completion - 1)) {
		errno = saved;
		return 0;
	}
	errno = EIO;
	return -1;
}

int device_dup(int fd, int lowest, int cloexec)
{
	struct device *d;
	sigset_t old;
	int copy;

	lock_table(&old);
	d = atomic_load(&device_of[fd]);
	if (d == &internal) {
		unlock_table(&old);
		errno = EBADF;
		return -1;
	}
	copy = syscall(SYS_fcntl, fd, cloexec ? F_DUPFD_CLOEXEC : F_DUPFD, lowest);
	if (copy >= FDS) {
		close_fd(copy);
		copy = -1;
		errno = EMFILE;
	}
	if (copy >= 0 && d && d->pid == kernel_pid()) {
		own(copy, d);
		d->refs++;
	}
	unlock_table(&old);
	return copy;
}

/* make_way gives the library's own descriptor another number. */
static int make_way(int fd)
{
	int other = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 700);

	if (other >= FDS) {
		close_fd(other);
		other = -1;
		errno = EMFILE;
	}
	if (other < 0)
		return -1;
	for (struct device *d = devices; d; d = d->next)
		if (d->conn == fd)
			d->conn = other;
		else if (d->events == fd)
			d->events = other;
	own(other, &internal);
	own(fd, NULL);
	return 0;
}

int device_dup_to(int from, int to, int flags, int (*dup_to)(int from, int to, int flags))
{
	struct device *d = NULL, *was = NULL;
	sigset_t old;
	int ret = -1;

	lock_table(&old);
	if (ours(from))
		d = atomic_load(&device_of[from]);
	if (d == &internal) {
		errno = EBADF;
	} else if (from == to || (d && d->pid != kernel_pid())) {
		ret = dup_to(from, to, flags);
	} else if (d && to >= FDS) {
		errno = EMFILE;
	} else if (!ours(to) || atomic_load(&device_of[to]) != &internal || !make_way(to)) {
		ret = dup_to(from, to, flags);
		if (ret >= 0 && (unsigned)to < FDS) {
			was = atomic_load(&device_of[to]);
			own(to, d);
			if (d)
				d->refs++;
		}
	}
	unlock_table(&old);
	if (was) {
		int saved = errno;

		release(was);
		errno = saved;
	}
	return ret;
}

void device_close_range(unsigned first, unsigned last)
{
	for (unsigned fd = first; fd <= last && fd < FDS; fd++)
		if (ours(fd) && atomic_load(&device_of[fd]) != &internal)
			device_close(fd);
}

bool device_stands_in(int fd)
{
	struct device *d = hold(fd);
	bool polled = d && d != &internal && d->events >= 0;

	if (d)
		release(d);
	return polled;
}

static void before_fork(void)
{
	pthread_mutex_lock(&table);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&table);
}

/* A child has nothing of the devices that its parent opened but the numbers. */
static void in_child(void)
{
	pid_t pid = kernel_pid();

	pthread_mutex_init(&table, NULL);
	for (struct device *d = devices; d; d = d->next) {
		pthread_mutex_init(&d->lock, NULL);
		if (d->conn >= 0) {
			own(d->conn, NULL);
			close_fd(d->conn);
		}
		if (d->events >= 0) {
			own(d->events, NULL);
			close_fd(d->events);
		}
		d->conn = d->events = -1;
		d->pid = pid;
	}
}

__attribute__((constructor)) static void load(void)
{
	if (!virtual_root())
		return;
	clock_install();
	pthread_atfork(before_fork, after_fork, in_child);
}
