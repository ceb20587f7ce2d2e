/* The C library's calls that take descriptors. */
#define _GNU_SOURCE
#include "turns.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

EXPORT ssize_t write(int fd, const void *buf, size_t count)
{
	if (likely(!ours(fd)))
		return simulated() ? turns_write(fd, buf, count) : NEXT(write)(fd, buf, count);
	return device_write(fd, buf, count);
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	uintptr_t arg;
	va_list ap;

	va_start(ap, request);
	arg = va_arg(ap, uintptr_t);
	va_end(ap);
	if (likely(!ours(fd)))
		return NEXT(ioctl)(fd, request, arg);
	return device_ioctl(fd, request, arg);
}

/*
 * Not NEXT: allocators map memory before dlsym can run.
 *
 * UCX and libfabric watch a program's memory by writing jumps to their own functions over
 * the first bytes of the mmap and munmap that dlsym finds. Those must not be what
 * libraries are linked to, or devices would see nothing of what they map. So there are
 * two of each: dlsym finds those of this library's version, and programs and libraries
 * those of the C library's, which pass on to the former what is not the devices'.
 */
EXPORT void *plain_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset);
__attribute__((noinline)) void *plain_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
}

EXPORT int plain_munmap(void *addr, size_t length);
__attribute__((noinline)) int plain_munmap(void *addr, size_t length)
{
	return syscall(SYS_munmap, addr, length);
}

EXPORT void *linked_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset);
void *linked_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (likely(flags & MAP_ANONYMOUS || !ours(fd))) {
		if (flags & MAP_SHARED)
			turn_shares = true;
		return plain_mmap(addr, length, prot, flags, fd, offset);
	}
	return device_mmap(addr, length, prot, flags, fd, offset);
}

EXPORT void *shmat(int id, const void *addr, int flags)
{
	turn_shares = true;
	return NEXT(shmat)(id, addr, flags);
}

EXPORT int linked_munmap(void *addr, size_t length);
int linked_munmap(void *addr, size_t length)
{
	if (!likely(!atomic_load_explicit(&clocks_mapped, memory_order_relaxed)))
		clock_unmap(addr, length);
	if (!likely(atomic_load_explicit(&turns_state, memory_order_relaxed) != TURNS_ON))
		doorbells_unmapped(addr, length);
	return plain_munmap(addr, length);
}

#if defined(__x86_64__)
#define LIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define LIBC "GLIBC_2.17"
#else
#error "libsluice-virtual.so is for x86-64 and arm64 with the GNU C library"
#endif

#define VERSION(function, name) __asm__(".symver " #function ", " name)
VERSION(plain_mmap, "mmap@@SLUICE_VIRTUAL");
VERSION(plain_munmap, "munmap@@SLUICE_VIRTUAL");
VERSION(linked_mmap, "mmap@" LIBC);
VERSION(linked_mmap, "mmap64@" LIBC);
VERSION(linked_munmap, "munmap@" LIBC);

EXPORT int close(int fd)
{
	if (simulated()) {
		turn_sync();
		inet_closed(fd);
		turn_changed();
	}
	if (likely(!ours(fd)))
		return NEXT(close)(fd);
	return device_close(fd);
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	if (!virtual_root() || flags)
		return NEXT(close_range)(first, last, flags);
	/* The library's own descriptors stay. */
	device_close_range(first, last);
	for (unsigned fd = first; fd <= last && fd < FDS;) {
		unsigned end;

		if (ours(fd)) {
			fd++;
			continue;
		}
		for (end = fd; end < last && end + 1 < FDS && !ours(end + 1); end++)
			;
		if (NEXT(close_range)(fd, end, flags))
			return -1;
		fd = end + 1;
	}
	return last < FDS ? 0 : NEXT(close_range)(first < FDS ? FDS : first, last, flags);
}

EXPORT void closefrom(int first)
{
	if (!virtual_root())
		NEXT(closefrom)(first);
	else
		close_range(first < 0 ? 0 : first, ~0u, 0);
}

EXPORT int dup(int fd)
{
	if (likely(!ours(fd))) {
		int copy = NEXT(dup)(fd);

		inet_dup(fd, copy);
		return copy;
	}
	return device_dup(fd, 0, false);
}

static int plain_dup2(int from, int to, int flags)
{
	(void)flags;
	return NEXT(dup2)(from, to);
}

EXPORT int dup2(int from, int to)
{
	if (likely(!ours(from) && !ours(to))) {
		inet_dup(from, to);
		return NEXT(dup2)(from, to);
	}
	return device_dup_to(from, to, 0, plain_dup2);
}

static int plain_dup3(int from, int to, int flags)
{
	return NEXT(dup3)(from, to, flags);
}

EXPORT int dup3(int from, int to, int flags)
{
	if (likely(!ours(from) && !ours(to))) {
		inet_dup(from, to);
		return NEXT(dup3)(from, to, flags);
	}
	return device_dup_to(from, to, flags, plain_dup3);
}

EXPORT int fcntl(int fd, int cmd, ...)
{
	uintptr_t arg;
	va_list ap;

	va_start(ap, cmd);
	arg = va_arg(ap, uintptr_t);
	va_end(ap);
	if ((cmd == F_SETOWN || cmd == F_GETOWN || cmd == F_SETOWN_EX || cmd == F_GETOWN_EX) && simulated())
		return owner_fcntl(fd, cmd, arg);
	if (likely(!ours(fd)) || (cmd != F_DUPFD && cmd != F_DUPFD_CLOEXEC))
		return NEXT(fcntl)(fd, cmd, arg);
	return device_dup(fd, arg, cmd == F_DUPFD_CLOEXEC);
}

EXPORT int fcntl64(int fd, int cmd, ...)
{
	uintptr_t arg;
	va_list ap;

	va_start(ap, cmd);
	arg = va_arg(ap, uintptr_t);
	va_end(ap);
	return fcntl(fd, cmd, arg);
}

/* The kernel's RDMA netlink would list its own devices; without, libraries read sysfs. */
EXPORT int socket(int domain, int type, int protocol)
{
	if (likely(domain != AF_NETLINK || protocol != NETLINK_RDMA) || !virtual_root()) {
		int fd = simulated() ? inet_socket(domain, type, protocol) : -2;

		return fd == -2 ? NEXT(socket)(domain, type, protocol) : fd;
	}
	errno = EPROTONOSUPPORT;
	return -1;
}
