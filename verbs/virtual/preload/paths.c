#define _GNU_SOURCE
#include "turns.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES "/dev/infiniband"

/* What leads to the directory: the lines of its file "paths". */
static char list[4096];
static const char *prefixes[64];
static size_t prefix_len[64];
static int prefix_count;

static char root[256];
static size_t root_len;

enum { UNKNOWN, OFF, ON };
static _Atomic int state = UNKNOWN;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

static bool read_list(void)
{
	char name[sizeof root + 8];
	ssize_t n = 0, got = 0;
	int fd;

	memcpy(name, root, root_len);
	strcpy(name + root_len, "/paths");
	fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while (got < (ssize_t)sizeof list - 1 &&
	       (n = syscall(SYS_read, fd, list + got, sizeof list - 1 - got)) > 0)
		got += n;
	syscall(SYS_close, fd);
	if (n < 0)
		return false;
	for (char *line = list, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		if (line[0] != '/' || prefix_count == sizeof prefixes / sizeof prefixes[0])
			return false;
		prefixes[prefix_count] = line;
		prefix_len[prefix_count++] = end - line;
	}
	return true;
}

static void start(void)
{
	int saved = errno;
	const char *dir;

	pthread_mutex_lock(&starting);
	if (atomic_load(&state) == UNKNOWN) {
		bool on = false;

		dir = secure_getenv("SLUICE_VIRTUAL");
		if (dir && dir[0] == '/' && strlen(dir) < sizeof root) {
			strcpy(root, dir);
			root_len = strlen(root);
			on = read_list();
		}
		atomic_store(&state, on ? ON : OFF);
	}
	pthread_mutex_unlock(&starting);
	errno = saved;
}

const char *virtual_root(void)
{
	if (atomic_load_explicit(&state, memory_order_acquire) == UNKNOWN)
		start();
	return atomic_load_explicit(&state, memory_order_acquire) == ON ? root : NULL;
}

/* after returns the rest of a path behind a prefix, or NULL. The path may have more than one slash between
 * names. */
static const char *after(const char *path, const char *prefix)
{
	while (*prefix) {
		if (*path != *prefix)
			return NULL;
		if (*path == '/')
			while (path[1] == '/')
				path++;
		path++;
		prefix++;
	}
	return *path == 0 || *path == '/' ? path : NULL;
}

const char *map_path(const char *path, char *buf)
{
	if (!virtual_root())
		return path;
	if (path[1] == 'e') {
		if (strcmp(path, "/etc/hosts") || !simulated())
			return path;
		sprintf(buf, "%s/hosts", turns_dir);
		return buf;
	}
	if (path[1] == 'p') {
		bool boot = !strcmp(path, "/proc/sys/kernel/random/boot_id");
		size_t n;

		if (!strncmp(path, "/proc/", 6) && ((path[6] > '0' && path[6] <= '9') || !strncmp(path + 6, "self/task/", 10)))
			return simulated() ? number_path(path, buf) : path;
		if ((!boot && strcmp(path, "/proc/cpuinfo")) || !simulated())
			return path;
		n = sprintf(buf, "%s/%s", turns_dir, boot ? "boot_id-" : "cpuinfo");
		for (size_t i = 0; boot && i < sizeof welcome.addr; i++)
			n += sprintf(buf + n, "%02x", welcome.addr[i]);
		return buf;
	}
	for (int i = 0; i < prefix_count; i++) {
		const char *rest = after(path, prefixes[i]);
		size_t n;

		if (!rest)
			continue;
		n = strlen(rest);
		if (root_len + prefix_len[i] + n >= MAPPED_MAX)
			return path;
		memcpy(buf, root, root_len);
		memcpy(buf + root_len, prefixes[i], prefix_len[i]);
		memcpy(buf + root_len + prefix_len[i], rest, n + 1);
		return buf;
	}
	return path;
}

const char *device_node(const char *path)
{
	const char *name;

	if (!virtual_root() || strncmp(path, root, root_len) != 0)
		return NULL;
	name = after(path + root_len, NODES);
	if (!name || *name != '/')
		return NULL;
	while (*name == '/')
		name++;
	return *name && !strchr(name, '/') && strlen(name) < NAME_MAX ? name : NULL;
}
