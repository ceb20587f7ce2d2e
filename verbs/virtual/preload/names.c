/* The C library's calls that take paths, under all names that programs link. */
#define _GNU_SOURCE
#include "turns.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Names that headers do not declare. */
EXPORT int __open_2(const char *path, int flags);
EXPORT int __open64_2(const char *path, int flags);
EXPORT int __openat_2(int dir, const char *path, int flags);
EXPORT int __openat64_2(int dir, const char *path, int flags);
EXPORT int __xstat(int version, const char *path, struct stat *st);
EXPORT int __xstat64(int version, const char *path, struct stat64 *st);
EXPORT int __lxstat(int version, const char *path, struct stat *st);
EXPORT int __lxstat64(int version, const char *path, struct stat64 *st);
EXPORT int __fxstat(int version, int fd, struct stat *st);
EXPORT int __fxstat64(int version, int fd, struct stat64 *st);
EXPORT int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);
EXPORT int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags);
EXPORT ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t size);
EXPORT ssize_t __readlinkat_chk(int dir, const char *path, char *buf, size_t len, size_t size);
EXPORT char *__realpath_chk(const char *path, char *buf, size_t size);

#define MODE_OF(flags, mode)                                                   \
	do {                                                                   \
		if ((flags) & (O_CREAT | __O_TMPFILE)) {                       \
			va_list ap;                                            \
			va_start(ap, flags);                                   \
			mode = va_arg(ap, mode_t);                             \
			va_end(ap);                                            \
		}                                                              \
	} while (0)

/*
 * opened is what an open that failed returns: the kernel fails reads of a GID's attributes
 * with EINVAL where there is no such GID, for which the tree has no file.
 */
static int opened(const char *path, int fd)
{
	const char *root;

	if (likely(fd >= 0 || errno != ENOENT))
		return fd;
	root = virtual_root();
	if (root && !strncmp(path, root, strlen(root)) && strstr(path, "/gid_attrs/"))
		errno = EINVAL;
	return fd;
}

/* fresh has the server write counters into the tree before a program reads them. */
static void fresh(const char *p, const char *buf)
{
	const char *root;

	if (p[0] != '/' || (p != buf && (!(root = virtual_root()) || strncmp(p, root, strlen(root)))))
		return;
	if (strstr(p, "/counters/") || strstr(p, "/hw_counters/"))
		device_refresh();
}

#define OPEN(path, flags, call)                                                \
	do {                                                                   \
		char buf[MAPPED_MAX];                                          \
		const char *p = mapped(path, buf);                             \
		const char *node = p == buf ? device_node(p) : NULL;           \
		if (node && !((flags) & (O_PATH | O_DIRECTORY)))               \
			return device_open(node, flags);                       \
		fresh(p, buf);                                                 \
		return opened(p, call);                                        \
	} while (0)

EXPORT int open(const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE_OF(flags, mode);
	OPEN(path, flags, NEXT(open)(p, flags, mode));
}

EXPORT int open64(const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE_OF(flags, mode);
	OPEN(path, flags, NEXT(open64)(p, flags, mode));
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE_OF(flags, mode);
	OPEN(path, flags, NEXT(openat)(dir, p, flags, mode));
}

EXPORT int openat64(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE_OF(flags, mode);
	OPEN(path, flags, NEXT(openat64)(dir, p, flags, mode));
}

int __open_2(const char *path, int flags)
{
	OPEN(path, flags, NEXT(__open_2)(p, flags));
}

int __open64_2(const char *path, int flags)
{
	OPEN(path, flags, NEXT(__open64_2)(p, flags));
}

int __openat_2(int dir, const char *path, int flags)
{
	OPEN(path, flags, NEXT(__openat_2)(dir, p, flags));
}

int __openat64_2(int dir, const char *path, int flags)
{
	OPEN(path, flags, NEXT(__openat64_2)(dir, p, flags));
}

EXPORT int creat(const char *path, mode_t mode)
{
	char buf[MAPPED_MAX];

	return NEXT(creat)(mapped(path, buf), mode);
}

EXPORT int creat64(const char *path, mode_t mode)
{
	char buf[MAPPED_MAX];

	return NEXT(creat64)(mapped(path, buf), mode);
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
	char buf[MAPPED_MAX];
	const char *p = mapped(path, buf);

	fresh(p, buf);
	return NEXT(fopen)(p, mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
	char buf[MAPPED_MAX];
	const char *p = mapped(path, buf);

	fresh(p, buf);
	return NEXT(fopen64)(p, mode);
}

EXPORT DIR *opendir(const char *path)
{
	char buf[MAPPED_MAX];

	return NEXT(opendir)(mapped(path, buf));
}

EXPORT int scandir(const char *path, struct dirent ***list, int (*select)(const struct dirent *),
		   int (*compare)(const struct dirent **, const struct dirent **))
{
	char buf[MAPPED_MAX];

	return NEXT(scandir)(mapped(path, buf), list, select, compare);
}

EXPORT int scandir64(const char *path, struct dirent64 ***list, int (*select)(const struct dirent64 *),
		     int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
	char buf[MAPPED_MAX];

	return NEXT(scandir64)(mapped(path, buf), list, select, compare);
}

EXPORT int access(const char *path, int mode)
{
	char buf[MAPPED_MAX];

	return NEXT(access)(mapped(path, buf), mode);
}

EXPORT int euidaccess(const char *path, int mode)
{
	char buf[MAPPED_MAX];

	return NEXT(euidaccess)(mapped(path, buf), mode);
}

EXPORT int eaccess(const char *path, int mode)
{
	return euidaccess(path, mode);
}

EXPORT int faccessat(int dir, const char *path, int mode, int flags)
{
	char buf[MAPPED_MAX];

	return NEXT(faccessat)(dir, mapped(path, buf), mode, flags);
}

EXPORT int chdir(const char *path)
{
	char buf[MAPPED_MAX];

	return NEXT(chdir)(mapped(path, buf));
}

EXPORT int stat(const char *path, struct stat *st)
{
	char buf[MAPPED_MAX];

	return NEXT(stat)(mapped(path, buf), st);
}

EXPORT int stat64(const char *path, struct stat64 *st)
{
	char buf[MAPPED_MAX];

	return NEXT(stat64)(mapped(path, buf), st);
}

EXPORT int lstat(const char *path, struct stat *st)
{
	char buf[MAPPED_MAX];

	return NEXT(lstat)(mapped(path, buf), st);
}

EXPORT int lstat64(const char *path, struct stat64 *st)
{
	char buf[MAPPED_MAX];

	return NEXT(lstat64)(mapped(path, buf), st);
}

/* A node's descriptor that the server gave is no character device: what it stands in for is. */
static bool stands_in(int fd)
{
	return !likely(!ours(fd)) && device_stands_in(fd);
}

EXPORT int fstat(int fd, struct stat *st)
{
	return stands_in(fd) ? NEXT(stat)("/dev/null", st) : NEXT(fstat)(fd, st);
}

EXPORT int fstat64(int fd, struct stat64 *st)
{
	return stands_in(fd) ? NEXT(stat64)("/dev/null", st) : NEXT(fstat64)(fd, st);
}

EXPORT int fstatat(int dir, const char *path, struct stat *st, int flags)
{
	char buf[MAPPED_MAX];

	if (flags & AT_EMPTY_PATH && stands_in(dir) && !*path)
		return NEXT(stat)("/dev/null", st);
	return NEXT(fstatat)(dir, mapped(path, buf), st, flags);
}

EXPORT int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
	char buf[MAPPED_MAX];

	if (flags & AT_EMPTY_PATH && stands_in(dir) && !*path)
		return NEXT(stat64)("/dev/null", st);
	return NEXT(fstatat64)(dir, mapped(path, buf), st, flags);
}

EXPORT int statx(int dir, const char *path, int flags, unsigned mask, struct statx *st)
{
	const char *volatile given = path; /* NULL with AT_EMPTY_PATH on newer kernels */
	char buf[MAPPED_MAX];

	if (flags & AT_EMPTY_PATH && stands_in(dir) && (!given || !*path))
		return NEXT(statx)(AT_FDCWD, "/dev/null", flags & ~AT_EMPTY_PATH, mask, st);
	return NEXT(statx)(dir, mapped(path, buf), flags, mask, st);
}

int __xstat(int version, const char *path, struct stat *st)
{
	char buf[MAPPED_MAX];

	return NEXT(__xstat)(version, mapped(path, buf), st);
}

int __xstat64(int version, const char *path, struct stat64 *st)
{
	char buf[MAPPED_MAX];

	return NEXT(__xstat64)(version, mapped(path, buf), st);
}

int __lxstat(int version, const char *path, struct stat *st)
{
	char buf[MAPPED_MAX];

	return NEXT(__lxstat)(version, mapped(path, buf), st);
}

int __lxstat64(int version, const char *path, struct stat64 *st)
{
	char buf[MAPPED_MAX];

	return NEXT(__lxstat64)(version, mapped(path, buf), st);
}

int __fxstat(int version, int fd, struct stat *st)
{
	return stands_in(fd) ? NEXT(__xstat)(version, "/dev/null", st) : NEXT(__fxstat)(version, fd, st);
}

int __fxstat64(int version, int fd, struct stat64 *st)
{
	return stands_in(fd) ? NEXT(__xstat64)(version, "/dev/null", st) : NEXT(__fxstat64)(version, fd, st);
}

int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags)
{
	char buf[MAPPED_MAX];

	return NEXT(__fxstatat)(version, dir, mapped(path, buf), st, flags);
}

int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags)
{
	char buf[MAPPED_MAX];

	return NEXT(__fxstatat64)(version, dir, mapped(path, buf), st, flags);
}

/* leads_to_self reports whether a path is the link to what the kernel has of the process, by its own number. */
static bool leads_to_self(const char *path)
{
	return !likely(strcmp(path, "/proc/self")) && simulated();
}

static ssize_t self_number(char *buf, size_t len)
{
	char text[16];
	size_t n = snprintf(text, sizeof text, "%d", getpid());

	if (n > len)
		n = len;
	memcpy(buf, text, n);
	return n;
}

EXPORT ssize_t readlink(const char *path, char *buf, size_t len)
{
	char name[MAPPED_MAX];

	return leads_to_self(path) ? self_number(buf, len) : NEXT(readlink)(mapped(path, name), buf, len);
}

EXPORT ssize_t readlinkat(int dir, const char *path, char *buf, size_t len)
{
	char name[MAPPED_MAX];

	return leads_to_self(path) ? self_number(buf, len) : NEXT(readlinkat)(dir, mapped(path, name), buf, len);
}

ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t size)
{
	char name[MAPPED_MAX];

	return leads_to_self(path) ? self_number(buf, len) : NEXT(__readlink_chk)(mapped(path, name), buf, len, size);
}

ssize_t __readlinkat_chk(int dir, const char *path, char *buf, size_t len, size_t size)
{
	char name[MAPPED_MAX];

	return NEXT(__readlinkat_chk)(dir, mapped(path, name), buf, len, size);
}

/* seen cuts a path in the directory to what the program sees of it. */
static char *seen(char *path)
{
	const char *root = virtual_root();
	size_t n = root ? strlen(root) : 0;

	if (path && n && !strncmp(path, root, n) && path[n] == '/')
		memmove(path, path + n, strlen(path + n) + 1);
	return path;
}

EXPORT char *realpath(const char *path, char *resolved)
{
	char buf[MAPPED_MAX];
	const char *p = mapped(path, buf);

	return p == buf ? seen(NEXT(realpath)(p, resolved)) : NEXT(realpath)(p, resolved);
}

char *__realpath_chk(const char *path, char *resolved, size_t size)
{
	char buf[MAPPED_MAX];
	const char *p = mapped(path, buf);

	return p == buf ? seen(NEXT(__realpath_chk)(p, resolved, size)) : NEXT(__realpath_chk)(p, resolved, size);
}

EXPORT char *canonicalize_file_name(const char *path)
{
	return realpath(path, NULL);
}

EXPORT int glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *g)
{
	char buf[MAPPED_MAX];
	const char *p = mapped(pattern, buf);
	int ret = NEXT(glob)(p, flags, error, g);

	for (size_t i = 0; p == buf && !ret && i < g->gl_pathc; i++)
		seen(g->gl_pathv[(flags & GLOB_DOOFFS ? g->gl_offs : 0) + i]);
	return ret;
}

EXPORT int glob64(const char *pattern, int flags, int (*error)(const char *, int), glob64_t *g)
{
	char buf[MAPPED_MAX];
	const char *p = mapped(pattern, buf);
	int ret = NEXT(glob64)(p, flags, error, g);

	for (size_t i = 0; p == buf && !ret && i < g->gl_pathc; i++)
		seen(g->gl_pathv[(flags & GLOB_DOOFFS ? g->gl_offs : 0) + i]);
	return ret;
}

EXPORT ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	char buf[MAPPED_MAX];

	return NEXT(getxattr)(mapped(path, buf), name, value, size);
}

EXPORT ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	char buf[MAPPED_MAX];

	return NEXT(lgetxattr)(mapped(path, buf), name, value, size);
}

EXPORT ssize_t listxattr(const char *path, char *list, size_t size)
{
	char buf[MAPPED_MAX];

	return NEXT(listxattr)(mapped(path, buf), list, size);
}

EXPORT ssize_t llistxattr(const char *path, char *list, size_t size)
{
	char buf[MAPPED_MAX];

	return NEXT(llistxattr)(mapped(path, buf), list, size);
}
