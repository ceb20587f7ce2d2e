/* Calls on descriptors that wait, in simulated time: tried without waiting, else waiting points. */
#define _GNU_SOURCE
#include "turns.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Names of calls that are checked where they are compiled. */
EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
EXPORT ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags);
EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size, int flags, struct sockaddr *from, socklen_t *len);
EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size);
EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t size);

/* poll_now is poll with a time-out of 0, after others have done their work up to now. */
static int poll_now(struct pollfd *fds, nfds_t n)
{
	long ready;

	turn_sync();
	do /* A probe interrupts a look that finds nothing. */
		ready = syscall(SYS_ppoll, fds, n, &(struct timespec){0}, NULL, 0); /* arm64 has no poll */
	while (ready < 0 && errno == EINTR);
	return ready;
}

/* wait_ready returns 0 when a descriptor is ready, EAGAIN at an instant, or EINTR. */
int wait_ready(int fd, short events, int64_t until)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = events};
		int interrupted = 0;

		if (poll_now(&p, 1))
			return 0;
		if (turn_now >= until)
			return EAGAIN;
		turn_wait_fds(&p, 1, until, &interrupted);
		if (interrupted & INTERRUPTED_NO_RESTART)
			return EINTR;
	}
}

static int64_t timeout_of(int fd, int option)
{
	struct timeval t;
	socklen_t len = sizeof t;

	if (NEXT(getsockopt)(fd, SOL_SOCKET, option, &t, &len) || (!t.tv_sec && !t.tv_usec))
		return NEVER;
	return from_now(t.tv_sec * PS_OF_S + t.tv_usec * 1000 * PS_OF_NS);
}

bool blocks(int fd)
{
	int flags = syscall(SYS_fcntl, fd, F_GETFL);

	return flags >= 0 && !(flags & O_NONBLOCK);
}

/*
 * wait_before waits until a call that would block does not, and fails as that would. One that does not block, by its
 * flags or its descriptor's, takes the time of a look: it may be in a loop.
 */
bool wait_before(int fd, short events, int flags)
{
	struct pollfd p = {.fd = fd, .events = events};
	int err;

	if (poll_now(&p, 1))
		return true;
	if (flags & MSG_DONTWAIT || !blocks(fd)) {
		turn_pass(welcome.look_cost, WAIT_LOOK);
		return true;
	}
	err = wait_ready(fd, events, timeout_of(fd, events == POLLOUT ? SO_SNDTIMEO : SO_RCVTIMEO));
	errno = err;
	return !err;
}

/* changed follows a call that others may wait for. */
static ssize_t changed(ssize_t n)
{
	turn_changed();
	return n;
}

/* ended looks whether a read that found an end was one of events. */
static ssize_t ended(int fd, void *buf, size_t n, ssize_t got)
{
	return likely(got || !n) ? got : device_end(fd, buf, n);
}

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	if (!simulated())
		return ended(fd, buf, n, NEXT(read)(fd, buf, n));
	return wait_before(fd, POLLIN, 0) ? ended(fd, buf, n, changed(NEXT(read)(fd, buf, n))) : -1;
}

ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
	if (!simulated())
		return ended(fd, buf, n, NEXT(__read_chk)(fd, buf, n, size));
	return read(fd, buf, n);
}

EXPORT ssize_t readv(int fd, const struct iovec *iov, int n)
{
	if (!simulated())
		return NEXT(readv)(fd, iov, n);
	return wait_before(fd, POLLIN, 0) ? changed(NEXT(readv)(fd, iov, n)) : -1;
}

EXPORT ssize_t recvfrom(int fd, void *restrict buf, size_t n, int flags, struct sockaddr *restrict from, socklen_t *restrict len)
{
	size_t got = 0;

	if (!simulated())
		return NEXT(recvfrom)(fd, buf, n, flags, from, len);
	if (from && len && inet_datagram(fd)) {
		struct iovec v = {buf, n};
		struct msghdr m = {.msg_name = from, .msg_namelen = *len, .msg_iov = &v, .msg_iovlen = 1};
		ssize_t one = wait_before(fd, POLLIN, flags) ? changed(inet_receive(fd, &m, flags)) : -1;

		*len = m.msg_namelen;
		return one;
	}
	if (from && inet_stream(fd)) { /* as TCP: none */
		if (len)
			*len = 0;
		from = NULL;
		len = NULL;
	}
	if (flags & MSG_DONTWAIT) {
		wait_before(fd, POLLIN, flags);
		return changed(NEXT(recvfrom)(fd, buf, n, flags, from, len));
	}
	for (;;) {
		ssize_t one;

		if (!wait_before(fd, POLLIN, 0))
			return got ? (ssize_t)got : -1;
		one = NEXT(recvfrom)(fd, (char *)buf + got, n - got, flags & ~MSG_WAITALL, from, len);
		turn_changed();
		if (one <= 0)
			return got ? (ssize_t)got : one;
		got += one;
		if (!(flags & MSG_WAITALL) || flags & MSG_PEEK || got >= n)
			return got;
	}
}

EXPORT ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	return simulated() ? recvfrom(fd, buf, n, flags, NULL, NULL) : NEXT(recv)(fd, buf, n, flags);
}

ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags)
{
	return simulated() ? recv(fd, buf, n, flags) : NEXT(__recv_chk)(fd, buf, n, size, flags);
}

ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size, int flags, struct sockaddr *from, socklen_t *len)
{
	return simulated() ? recvfrom(fd, buf, n, flags, from, len) : NEXT(__recvfrom_chk)(fd, buf, n, size, flags, from, len);
}

/* renumber gives the credentials of a message other numbers of processes. */
static void renumber(struct msghdr *m, pid_t number(pid_t))
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len >= CMSG_LEN(sizeof(struct ucred)))
			((struct ucred *)CMSG_DATA(c))->pid = number(((struct ucred *)CMSG_DATA(c))->pid);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t got;

	if (!simulated())
		return NEXT(recvmsg)(fd, m, flags);
	if (!wait_before(fd, POLLIN, flags))
		return -1;
	if (inet_datagram(fd))
		return changed(inet_receive(fd, m, flags));
	if (inet_stream(fd))
		m->msg_namelen = 0;
	got = changed(NEXT(recvmsg)(fd, m, flags));
	if (got >= 0 && m->msg_controllen)
		renumber(m, simulated_number);
	return got;
}

/* put writes all bytes, waiting in between, as a blocking call does. */
static ssize_t put(int fd, const void *buf, size_t n, size_t most, ssize_t (*some)(int fd, const void *buf, size_t n, int flags), int flags)
{
	size_t done = 0;

	do {
		size_t want = n - done < most ? n - done : most;
		ssize_t one;

		if (!wait_before(fd, POLLOUT, flags))
			return done ? (ssize_t)done : -1;
		one = some(fd, (const char *)buf + done, want, flags);
		turn_changed();
		if (one < 0) {
			if (errno == EAGAIN && blocks(fd))
				continue;
			return done ? (ssize_t)done : -1;
		}
		done += one;
	} while (done < n && blocks(fd));
	return done;
}

static ssize_t send_some(int fd, const void *buf, size_t n, int flags)
{
	ssize_t sent;

	flags |= MSG_DONTWAIT;
	if (!inet_stream(fd) || inet_knows_closed(fd))
		return NEXT(sendto)(fd, buf, n, flags, NULL, 0);
	sent = NEXT(sendto)(fd, buf, n, flags | MSG_NOSIGNAL, NULL, 0);
	if (sent < 0 && errno == EPIPE) {
		inet_learns_closed(fd);
		return n;
	}
	return sent;
}

static ssize_t write_some(int fd, const void *buf, size_t n, int flags)
{
	(void)flags;
	return NEXT(write)(fd, buf, n);
}

/* turns_write is write() in simulated time. */
ssize_t turns_write(int fd, const void *buf, size_t n)
{
	int type;
	socklen_t len = sizeof type;

	if (inet_datagram(fd))
		return sendto(fd, buf, n, 0, NULL, 0);
	if (!NEXT(getsockopt)(fd, SOL_SOCKET, SO_TYPE, &type, &len))
		return type == SOCK_STREAM ? put(fd, buf, n, SSIZE_MAX, send_some, 0) : changed(NEXT(write)(fd, buf, n));
	if (syscall(SYS_fcntl, fd, F_GETPIPE_SZ) > 0) /* a ready pipe takes PIPE_BUF bytes */
		return put(fd, buf, n, PIPE_BUF, write_some, 0);
	return changed(NEXT(write)(fd, buf, n));
}

static bool is_message(int fd)
{
	int type;
	socklen_t len = sizeof type;

	return !NEXT(getsockopt)(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type != SOCK_STREAM;
}

EXPORT ssize_t writev(int fd, const struct iovec *iov, int n)
{
	ssize_t done = 0;

	if (!simulated() || ours(fd))
		return NEXT(writev)(fd, iov, n);
	if (is_message(fd)) /* it is one */
		return sendmsg(fd, &(struct msghdr){.msg_iov = (struct iovec *)iov, .msg_iovlen = n}, 0);
	for (int i = 0; i < n; i++) {
		ssize_t one = turns_write(fd, iov[i].iov_base, iov[i].iov_len);

		if (one < 0)
			return done ? done : -1;
		done += one;
		if ((size_t)one < iov[i].iov_len)
			break;
	}
	return done;
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to, socklen_t len)
{
	if (!simulated())
		return NEXT(sendto)(fd, buf, n, flags, to, len);
	turn_sync();
	if (inet_stream(fd)) {
		to = NULL;
		len = 0;
	} else if (inet_datagram(fd)) {
		struct iovec v = {(void *)buf, n};

		return inet_send(fd, &(struct msghdr){.msg_name = (void *)to, .msg_namelen = len, .msg_iov = &v, .msg_iovlen = 1}, flags);
	}
	if (flags & MSG_DONTWAIT || to) {
		wait_before(fd, POLLOUT, flags | MSG_DONTWAIT);
		return changed(NEXT(sendto)(fd, buf, n, flags, to, len));
	}
	return put(fd, buf, n, SSIZE_MAX, send_some, flags);
}

EXPORT ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	return simulated() ? sendto(fd, buf, n, flags, NULL, 0) : NEXT(send)(fd, buf, n, flags);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	union {
		struct cmsghdr align;
		char bytes[1024];
	} control;
	struct msghdr copy;

	if (!simulated())
		return NEXT(sendmsg)(fd, m, flags);
	if (inet_datagram(fd))
		return inet_send(fd, m, flags);
	if (!wait_before(fd, POLLOUT, flags))
		return -1;
	if (m->msg_controllen && m->msg_controllen <= sizeof control) {
		memcpy(&control, m->msg_control, m->msg_controllen);
		copy = *m;
		copy.msg_control = &control;
		renumber(&copy, kernel_number);
		m = &copy;
	}
	return changed(NEXT(sendmsg)(fd, m, flags));
}

/* poll_until is poll() until an instant. One that only looks takes time: it may be in a loop. */
static int poll_until(struct pollfd *fds, nfds_t n, int64_t until)
{
	int ready = poll_now(fds, n);

	if (ready)
		return ready;
	if (until <= turn_now) {
		turn_pass(welcome.look_cost, WAIT_LOOK);
		return poll_now(fds, n);
	}
	for (;;) {
		int interrupted = 0;

		turn_wait_fds(fds, n, until, &interrupted);
		ready = poll_now(fds, n);
		if (ready || turn_now >= until)
			return ready;
		if (interrupted) {
			errno = EINTR;
			return -1;
		}
	}
}

static int64_t until_ms(int ms)
{
	return ms < 0 ? NEVER : from_now(ms * (PS_OF_S / 1000));
}

static int64_t until_span(const struct timespec *span)
{
	return span ? from_now(ps_of(span)) : NEVER;
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int ms)
{
	return simulated() ? poll_until(fds, n, until_ms(ms)) : NEXT(poll)(fds, n, ms);
}

int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size)
{
	return simulated() ? poll(fds, n, ms) : NEXT(__poll_chk)(fds, n, ms, size);
}

/* MASKED sets a mask for a call that waits until an instant; a signal that is let in by it interrupts that. */
#define MASKED(mask, when, call)                                               \
	({                                                                     \
		const sigset_t *set = (mask);                                  \
		bool pending = set && unblocks(set);                           \
		int64_t until = pending ? turn_now : (when);                   \
		sigset_t old;                                                  \
		if (set)                                                       \
			pthread_sigmask(SIG_SETMASK, set, &old);               \
		int ret = (call);                                              \
		if (set)                                                       \
			pthread_sigmask(SIG_SETMASK, &old, NULL);              \
		if (!ret && pending) {                                         \
			errno = EINTR;                                         \
			ret = -1;                                              \
		}                                                              \
		ret;                                                           \
	})

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	if (!simulated())
		return NEXT(ppoll)(fds, n, timeout, mask);
	return MASKED(mask, until_span(timeout), poll_until(fds, n, until));
}

int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t size)
{
	return simulated() ? ppoll(fds, n, timeout, mask) : NEXT(__ppoll_chk)(fds, n, timeout, mask, size);
}

static int select_until(int n, fd_set *r, fd_set *w, fd_set *e, int64_t until)
{
	struct pollfd fds[FD_SETSIZE];
	nfds_t count = 0;
	int ready, total = 0;

	for (int fd = 0; fd < n && fd < FD_SETSIZE; fd++) {
		short events = (r && FD_ISSET(fd, r) ? POLLIN : 0) | (w && FD_ISSET(fd, w) ? POLLOUT : 0) |
			       (e && FD_ISSET(fd, e) ? POLLPRI : 0);

		if (events)
			fds[count++] = (struct pollfd){.fd = fd, .events = events};
	}
	ready = poll_until(fds, count, until);
	if (ready < 0)
		return -1;
	for (nfds_t i = 0; i < count; i++) {
		struct {
			fd_set *set;
			short asked, found;
		} sets[] = {{r, POLLIN, POLLIN | POLLHUP | POLLERR}, {w, POLLOUT, POLLOUT | POLLERR}, {e, POLLPRI, POLLPRI}};

		if (fds[i].revents & POLLNVAL) {
			errno = EBADF;
			return -1;
		}
		for (int k = 0; k < 3; k++) {
			if (!(fds[i].events & sets[k].asked))
				continue;
			if (fds[i].revents & sets[k].found)
				total++;
			else
				FD_CLR(fds[i].fd, sets[k].set);
		}
	}
	return total;
}

EXPORT int select(int n, fd_set *restrict r, fd_set *restrict w, fd_set *restrict e, struct timeval *restrict timeout)
{
	int64_t until = NEVER;
	int ret;

	if (!simulated())
		return NEXT(select)(n, r, w, e, timeout);
	if (timeout)
		until = from_now(timeout->tv_sec * PS_OF_S + timeout->tv_usec * 1000 * PS_OF_NS);
	ret = select_until(n, r, w, e, until);
	if (timeout) { /* what is left, as Linux has it */
		struct timespec left = timespec_of(until > turn_now ? until - turn_now : 0);

		*timeout = (struct timeval){left.tv_sec, left.tv_nsec / 1000};
	}
	return ret;
}

EXPORT int pselect(int n, fd_set *restrict r, fd_set *restrict w, fd_set *restrict e, const struct timespec *restrict timeout,
		   const sigset_t *restrict mask)
{
	if (!simulated())
		return NEXT(pselect)(n, r, w, e, timeout, mask);
	return MASKED(mask, until_span(timeout), select_until(n, r, w, e, until));
}

static int epoll_until(int fd, struct epoll_event *events, int n, int64_t until)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int ready = poll_until(&p, 1, until);

	return ready < 0 ? -1 : NEXT(epoll_wait)(fd, events, n, 0);
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int n, int ms)
{
	return simulated() ? epoll_until(fd, events, n, until_ms(ms)) : NEXT(epoll_wait)(fd, events, n, ms);
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int n, int ms, const sigset_t *mask)
{
	if (!simulated())
		return NEXT(epoll_pwait)(fd, events, n, ms, mask);
	return MASKED(mask, until_ms(ms), epoll_until(fd, events, n, until));
}

/* Calls of System V's queues and semaphores that wait: tried without, until another process of the host has run. */
#define TRIED(waits, failure, until, call)                                     \
	({                                                                     \
		int interrupted = 0;                                           \
		ssize_t ret;                                                   \
		turn_sync();                                                   \
		turn_shares = true;                                            \
		for (bool again = false; (ret = (call)) < 0 && errno == (failure) && (waits); again = true) { \
			if (turn_now >= (until))                               \
				break;                                         \
			if (interrupted) {                                     \
				errno = EINTR;                                 \
				break;                                         \
			}                                                      \
			turn_wait_for((until), again, &interrupted);           \
		}                                                              \
		turn_changed();                                                \
		ret;                                                           \
	})

EXPORT int msgsnd(int id, const void *message, size_t n, int flags)
{
	if (!simulated())
		return NEXT(msgsnd)(id, message, n, flags);
	return TRIED(!(flags & IPC_NOWAIT), EAGAIN, NEVER, NEXT(msgsnd)(id, message, n, flags | IPC_NOWAIT));
}

EXPORT ssize_t msgrcv(int id, void *message, size_t n, long type, int flags)
{
	if (!simulated())
		return NEXT(msgrcv)(id, message, n, type, flags);
	return TRIED(!(flags & IPC_NOWAIT), ENOMSG, NEVER, NEXT(msgrcv)(id, message, n, type, flags | IPC_NOWAIT));
}

EXPORT int semtimedop(int id, struct sembuf *ops, size_t n, const struct timespec *timeout)
{
	struct sembuf tried[n < 500 ? n : 500]; /* more than SEMOPM is E2BIG */
	int64_t until = NEVER;
	bool waits = true;

	if (!simulated())
		return NEXT(semtimedop)(id, ops, n, timeout);
	for (size_t i = 0; i < n && i < 500; i++) {
		tried[i] = ops[i];
		waits = waits && !(ops[i].sem_flg & IPC_NOWAIT);
		tried[i].sem_flg |= IPC_NOWAIT;
	}
	if (timeout)
		until = from_now(ps_of(timeout));
	return TRIED(waits, EAGAIN, until, NEXT(semtimedop)(id, n > 500 ? ops : tried, n, NULL));
}

EXPORT int semop(int id, struct sembuf *ops, size_t n)
{
	return simulated() ? semtimedop(id, ops, n, NULL) : NEXT(semop)(id, ops, n);
}

/* Of several messages the first is waited for, and with MSG_WAITFORONE, or where none is to come in time, no other. */
EXPORT int recvmmsg(int fd, struct mmsghdr *all, unsigned n, int flags, struct timespec *timeout)
{
	int64_t until;
	unsigned i;

	if (!simulated())
		return NEXT(recvmmsg)(fd, all, n, flags, timeout);
	until = until_span(timeout);
	for (i = 0; i < n && (!i || turn_now < until); i++) {
		ssize_t got = recvmsg(fd, &all[i].msg_hdr, (flags & ~MSG_WAITFORONE) | (i && flags & MSG_WAITFORONE ? MSG_DONTWAIT : 0));

		if (got < 0)
			return i ? (int)i : -1;
		all[i].msg_len = got;
	}
	return i;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *all, unsigned n, int flags)
{
	if (!simulated())
		return NEXT(sendmmsg)(fd, all, n, flags);
	for (unsigned i = 0; i < n; i++) {
		ssize_t sent = sendmsg(fd, &all[i].msg_hdr, flags);

		if (sent < 0)
			return i ? (int)i : -1;
		all[i].msg_len = sent;
	}
	return n;
}

/* eventfd's own functions call read and write within the C library. */
EXPORT int eventfd_read(int fd, eventfd_t *value)
{
	return read(fd, value, sizeof *value) == sizeof *value ? 0 : -1;
}

EXPORT int eventfd_write(int fd, eventfd_t value)
{
	return write(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}
