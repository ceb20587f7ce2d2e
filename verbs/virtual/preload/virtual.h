/*
 * libsluice-virtual.so gives a program the devices of a directory that `sluice virtual`
 * made: paths of sysfs and /dev/infiniband lead there, and what the program does with a
 * device node goes to the server, which answers. docs/virtual-nic.md is for users.
 *
 * It acts where SLUICE_VIRTUAL names such a directory, and on no other paths and
 * descriptors than those of the devices. It starts no thread. Calls may come before its
 * constructor, from several threads, and in a child after fork or vfork.
 */
#ifndef SLUICE_VIRTUAL_H
#define SLUICE_VIRTUAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* This library's own system calls are the kernel's: syscall() is the programs'. */
#include <unistd.h>
long direct_syscall(long number, ...);
#define syscall direct_syscall

#define EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)

/* NEXT(open)(...) is the open() that the program would have without this library. */
#define NEXT(name)                                                             \
	({                                                                     \
		static _Atomic(void *) slot;                                   \
		void *f = atomic_load_explicit(&slot, memory_order_relaxed);   \
		if (!f)                                                        \
			f = next_function(&slot, #name, NULL);                       \
		(__typeof__(&name))f;                                          \
	})
void *next_function(_Atomic(void *) *slot, const char *name, const char *version);

/* NEXT_VERSION is NEXT for functions of which the C library has an older version too. */
#define NEXT_VERSION(name, version)                                            \
	({                                                                     \
		static _Atomic(void *) slot;                                   \
		void *f = atomic_load_explicit(&slot, memory_order_relaxed);   \
		if (!f)                                                        \
			f = next_function(&slot, #name, version);              \
		(__typeof__(&name))f;                                          \
	})

/* paths.c */

/* virtual_root is the directory, or NULL if there is nothing to do. */
const char *virtual_root(void);
#define MAPPED_MAX 768
const char *map_path(const char *path, char *buf);

/*
 * mapped returns where a path leads: itself, or what it has in the directory, in buf of
 * MAPPED_MAX bytes. Of other paths than those below / with s, d, p or e it looks at two bytes.
 */
static inline const char *mapped(const char *path, char *buf)
{
	const char *volatile p = path; /* callers' prototypes say that it is not NULL */

	path = p;
	if (!path || path[0] != '/' || (path[1] != 's' && path[1] != 'd' && path[1] != 'p' && path[1] != 'e' && path[1] != '/'))
		return path;
	return map_path(path, buf);
}

/* device_node returns the name of a node if a path that mapped gave is one's, or NULL. */
const char *device_node(const char *path);

/* device.c */

/* FDS bounds the descriptors that a device can have. */
#define FDS 65536
struct device;
extern _Atomic(struct device *) device_of[FDS];

/* ours reports whether a descriptor is of this library's. */
static inline bool ours(int fd)
{
	return (unsigned)fd < FDS &&
	       atomic_load_explicit(&device_of[fd], memory_order_relaxed) != NULL;
}

int device_open(const char *node, int flags);
void device_refresh(void);
ssize_t device_write(int fd, const void *buf, size_t count);
int device_ioctl(int fd, unsigned long request, uintptr_t arg);
void *device_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset);
int device_close(int fd);
ssize_t device_end(int fd, void *buf, size_t n);
int device_dup(int fd, int lowest, int cloexec);
int device_dup_to(int from, int to, int flags, int (*dup_to)(int from, int to, int flags));
void device_close_range(unsigned first, unsigned last);
/* keep makes a descriptor the library's own, which programs do not see; forget ends that. */
void keep(int fd);
void forget(int fd);
/* device_stands_in reports whether fstat would not find a character device. */
bool device_stands_in(int fd);

/* clock.c */

extern _Atomic int clocks_mapped;
void clock_install(void);
int clock_map(void *addr, size_t length, int fd, off_t offset);
void clock_unmap(void *addr, size_t length);

#endif
