/*
 * Stream sockets of AF_INET and AF_INET6 are UNIX sockets in the scheduler's directory: net/ADDRESS:PORT is
 * what one is bound to. On those, delivery is at once, so that runs repeat.
 */
#define _GNU_SOURCE
#include "turns.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The family that a descriptor's socket shows, where it is not its own. */
static unsigned char family_of[FDS];

/*
 * Who sends by TCP to a socket that is closed learns it from the answer, after the call:
 * the first one succeeds. Programs of perftest end so.
 */
static bool knows_closed[FDS];

bool inet_knows_closed(int fd)
{
	return (unsigned)fd >= FDS || knows_closed[fd];
}

void inet_learns_closed(int fd)
{
	knows_closed[fd] = true;
}

static bool in_net(const struct sockaddr_un *un, socklen_t len)
{
	size_t n = strlen(turns_dir);

	return un->sun_family == AF_UNIX && len > offsetof(struct sockaddr_un, sun_path) + n + 5 &&
	       !memcmp(un->sun_path, turns_dir, n) && !memcmp(un->sun_path + n, "/net/", 5);
}

/* inet_stream reports whether a descriptor is of such a socket. */
bool inet_stream(int fd)
{
	struct sockaddr_un un;
	socklen_t len = sizeof un;

	if ((unsigned)fd < FDS && family_of[fd])
		return true;
	return !NEXT(getsockname)(fd, (void *)&un, &len) && in_net(&un, len);
}

static int family(int fd)
{
	return (unsigned)fd < FDS && family_of[fd] ? family_of[fd] : AF_INET;
}

static bool is_inet(int family)
{
	return family == AF_INET || family == AF_INET6;
}

static bool real_inet(int fd)
{
	int domain;
	socklen_t len = sizeof domain;

	return !NEXT(getsockopt)(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && is_inet(domain);
}

/* inet_refuse ends a program that sends to another address than those of UNIX sockets. */
void inet_refuse(int fd, const struct sockaddr *to)
{
	if (to && is_inet(to->sa_family) && real_inet(fd))
		turn_refuse("a datagram to an IP address");
}

/* inet_socket makes a socket, or returns -2 if it is not one that is simulated. */
int inet_socket(int domain, int type, int protocol)
{
	int fd;

	if (!is_inet(domain) || (type & 0xf) != SOCK_STREAM)
		return -2;
	if (protocol != 0 && protocol != IPPROTO_TCP) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	fd = NEXT(socket)(AF_UNIX, type, 0);
	if (fd >= FDS) {
		close(fd);
		errno = EMFILE;
		return -1;
	}
	if (fd >= 0)
		family_of[fd] = domain, knows_closed[fd] = false;
	return fd;
}

void inet_closed(int fd)
{
	if ((unsigned)fd < FDS)
		family_of[fd] = 0;
	timerfd_closed(fd);
}

void inet_dup(int from, int to)
{
	timerfd_dup(from, to);
	if ((unsigned)from < FDS && (unsigned)to < FDS)
		family_of[to] = family_of[from], knows_closed[to] = knows_closed[from];
}

/* An address as 16 bytes, IPv4 mapped into IPv6, and a port. */
struct place {
	unsigned char addr[16];
	uint16_t port;
};

static const unsigned char mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool place_of(const struct sockaddr *a, socklen_t len, struct place *p)
{
	if (a->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
		const struct sockaddr_in *in = (const void *)a;

		memcpy(p->addr, mapped_prefix, 12);
		memcpy(p->addr + 12, &in->sin_addr, 4);
		p->port = ntohs(in->sin_port);
	} else if (a->sa_family == AF_INET6 && len >= offsetof(struct sockaddr_in6, sin6_scope_id)) {
		const struct sockaddr_in6 *in = (const void *)a;

		memcpy(p->addr, &in->sin6_addr, 16);
		p->port = ntohs(in->sin6_port);
	} else {
		return false;
	}
	return true;
}

static bool is_v4(const struct place *p)
{
	return !memcmp(p->addr, mapped_prefix, 12);
}

/* own makes addresses that mean this host its own: any, and those of the loopback. */
static void own(struct place *p)
{
	static const unsigned char none[16], loopback[16] = {[15] = 1};

	if (!memcmp(p->addr, none, 16) || !memcmp(p->addr, loopback, 16) ||
	    (is_v4(p) && (p->addr[12] == 127 || !memcmp(p->addr + 12, none, 4))))
		memcpy(p->addr, welcome.addr, 16);
}

static socklen_t path_of(const struct place *p, struct sockaddr_un *un)
{
	char text[INET6_ADDRSTRLEN], path[sizeof turns_dir + INET6_ADDRSTRLEN + 16];

	if (is_v4(p))
		inet_ntop(AF_INET, p->addr + 12, text, sizeof text);
	else
		inet_ntop(AF_INET6, p->addr, text, sizeof text);
	memset(un, 0, sizeof *un);
	un->sun_family = AF_UNIX;
	snprintf(path, sizeof path, "%s/net/%s:%u", turns_dir, text, p->port);
	path[sizeof un->sun_path - 1] = 0; /* of IPv4 none is so long */
	strcpy(un->sun_path, path);
	return sizeof *un;
}

/* show gives a program an address of the family that its socket has. */
static void show(const struct sockaddr_un *un, socklen_t len, int family, struct sockaddr *to, socklen_t *to_len)
{
	struct place p = {.port = 0};
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a;
	socklen_t size;

	if (in_net(un, len)) {
		char text[sizeof un->sun_path + 1], *colon;

		memcpy(text, un->sun_path, sizeof un->sun_path);
		text[sizeof un->sun_path] = 0;
		colon = strrchr(text, ':');
		if (colon) {
			char *name = text + strlen(turns_dir) + 5;

			*colon = 0;
			p.port = atoi(colon + 1);
			if (inet_pton(AF_INET, name, p.addr + 12) == 1)
				memcpy(p.addr, mapped_prefix, 12);
			else
				inet_pton(AF_INET6, name, p.addr);
		}
	}
	memset(&a, 0, sizeof a);
	if (family == AF_INET) {
		a.v4.sin_family = AF_INET;
		a.v4.sin_port = htons(p.port);
		memcpy(&a.v4.sin_addr, p.addr + 12, 4);
		size = sizeof a.v4;
	} else {
		a.v6.sin6_family = AF_INET6;
		a.v6.sin6_port = htons(p.port);
		memcpy(&a.v6.sin6_addr, p.addr, 16);
		size = sizeof a.v6;
	}
	memcpy(to, &a, *to_len < size ? *to_len : size);
	*to_len = size;
}

static bool bound(int fd)
{
	struct sockaddr_un un;
	socklen_t len = sizeof un;

	return !NEXT(getsockname)(fd, (void *)&un, &len) && in_net(&un, len);
}

/* stale reports whether nobody listens at a path, so that another may have it. */
static bool stale(const struct sockaddr_un *un, socklen_t len)
{
	int s = syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool refused = s >= 0 && NEXT(connect)(s, (const void *)un, len) && errno == ECONNREFUSED;

	if (s >= 0)
		syscall(SYS_close, s);
	return refused;
}

static int bind_place(int fd, struct place *p)
{
	struct sockaddr_un un;
	socklen_t len;
	uint64_t port;

	own(p);
	for (bool any = !p->port;;) {
		if (any) {
			turn_ask(TURN_PORT, 0, 0, 0, 0, &port);
			p->port = port;
		}
		len = path_of(p, &un);
		if (!NEXT(bind)(fd, (void *)&un, len))
			return 0;
		if (errno != EADDRINUSE)
			return -1;
		if (any)
			continue;
		if (!stale(&un, len)) {
			errno = EADDRINUSE;
			return -1;
		}
		unlink(un.sun_path);
	}
}

EXPORT int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct place p;

	if (!simulated() || !addr || !is_inet(addr->sa_family))
		return NEXT(bind)(fd, addr, len);
	turn_sync();
	if (!inet_stream(fd)) {
		if (real_inet(fd))
			turn_refuse("a datagram socket that is bound to an IP address");
		return NEXT(bind)(fd, addr, len);
	}
	if (!place_of(addr, len, &p)) {
		errno = EINVAL;
		return -1;
	}
	return bind_place(fd, &p);
}

EXPORT int listen(int fd, int backlog)
{
	struct place p;

	if (!simulated() || !inet_stream(fd))
		return NEXT(listen)(fd, backlog);
	turn_sync();
	memset(&p, 0, sizeof p);
	if (!bound(fd) && bind_place(fd, &p))
		return -1;
	turn_changed();
	return NEXT(listen)(fd, backlog < 16 ? 16 : backlog);
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct place from, to;
	struct sockaddr_un un;

	if (!simulated())
		return NEXT(connect)(fd, addr, len);
	turn_sync();
	turn_changed();
	if (!inet_stream(fd)) {
		if (is_inet(addr->sa_family) && real_inet(fd)) {
			errno = ENETUNREACH;
			return -1;
		}
		return NEXT(connect)(fd, addr, len);
	}
	if (!place_of(addr, len, &to)) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	memset(&from, 0, sizeof from);
	if (!bound(fd) && bind_place(fd, &from))
		return -1;
	own(&to);
	if (!NEXT(connect)(fd, (void *)&un, path_of(&to, &un)))
		return 0;
	if (errno == ENOENT)
		errno = ECONNREFUSED;
	return -1;
}

static int accepted(int listener, int fd, const struct sockaddr_un *un, socklen_t un_len, struct sockaddr *addr, socklen_t *len)
{
	if (fd < 0)
		return fd;
	if ((unsigned)fd < FDS)
		family_of[fd] = family(listener), knows_closed[fd] = false;
	if (addr && len)
		show(un, un_len, family(listener), addr, len);
	return fd;
}

EXPORT int accept4(int fd, struct sockaddr *restrict addr, socklen_t *restrict len, int flags)
{
	struct sockaddr_un un;
	socklen_t un_len = sizeof un;

	if (!simulated())
		return NEXT(accept4)(fd, addr, len, flags);
	if (!wait_before(fd, POLLIN, 0))
		return -1;
	turn_changed();
	if (!inet_stream(fd))
		return NEXT(accept4)(fd, addr, len, flags);
	return accepted(fd, NEXT(accept4)(fd, (void *)&un, &un_len, flags), &un, un_len, addr, len);
}

EXPORT int accept(int fd, struct sockaddr *restrict addr, socklen_t *restrict len)
{
	return simulated() ? accept4(fd, addr, len, 0) : NEXT(accept)(fd, addr, len);
}

EXPORT int getsockname(int fd, struct sockaddr *restrict addr, socklen_t *restrict len)
{
	struct sockaddr_un un;
	socklen_t un_len = sizeof un;

	if (!simulated() || !inet_stream(fd))
		return NEXT(getsockname)(fd, addr, len);
	if (NEXT(getsockname)(fd, (void *)&un, &un_len))
		return -1;
	show(&un, un_len, family(fd), addr, len);
	return 0;
}

EXPORT int getpeername(int fd, struct sockaddr *restrict addr, socklen_t *restrict len)
{
	struct sockaddr_un un;
	socklen_t un_len = sizeof un;

	if (!simulated() || !inet_stream(fd))
		return NEXT(getpeername)(fd, addr, len);
	if (NEXT(getpeername)(fd, (void *)&un, &un_len))
		return -1;
	show(&un, un_len, family(fd), addr, len);
	return 0;
}

EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	/* Options of IP and TCP change nothing between these. */
	if (simulated() && level != SOL_SOCKET && inet_stream(fd))
		return 0;
	return NEXT(setsockopt)(fd, level, option, value, len);
}

EXPORT int getsockopt(int fd, int level, int option, void *restrict value, socklen_t *restrict len)
{
	int show = 0;

	if (level == SOL_SOCKET && option == SO_PEERCRED && simulated()) {
		int ret = NEXT(getsockopt)(fd, level, option, value, len);

		if (!ret && *len >= sizeof(pid_t))
			((struct ucred *)value)->pid = simulated_number(((struct ucred *)value)->pid);
		return ret;
	}
	if (!simulated() || !inet_stream(fd) || (level == SOL_SOCKET && option != SO_DOMAIN && option != SO_PROTOCOL))
		return NEXT(getsockopt)(fd, level, option, value, len);
	if ((level == IPPROTO_IP && option == IP_MTU) || (level == IPPROTO_IPV6 && option == IPV6_MTU)) {
		errno = ENOPROTOOPT; /* the bytes of these sockets cross no link */
		return -1;
	}
	if (level == SOL_SOCKET)
		show = option == SO_DOMAIN ? family(fd) : IPPROTO_TCP;
	memset(value, 0, *len);
	memcpy(value, &show, *len < sizeof show ? *len : sizeof show);
	return 0;
}

EXPORT int shutdown(int fd, int how)
{
	if (simulated()) {
		turn_sync();
		turn_changed();
	}
	return NEXT(shutdown)(fd, how);
}

/* host_address finds a host of the simulation by its name: its address as text. */
static bool host_address(const char *name, char *text, size_t size)
{
	char path[sizeof turns_dir + 8], line[256], addr[64], host[128];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof path, "%s/hosts", turns_dir);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof line, f))
		if (sscanf(line, "%63s %127s", addr, host) == 2 && !strcasecmp(host, name)) {
			snprintf(text, size, "%s", addr);
			found = true;
		}
	fclose(f);
	return found;
}

EXPORT int getaddrinfo(const char *restrict node, const char *restrict service, const struct addrinfo *restrict hints,
		       struct addrinfo **restrict found)
{
	struct addrinfo numeric = {0};
	unsigned char ignored[16];
	char text[64];

	if (!simulated())
		return NEXT(getaddrinfo)(node, service, hints, found);
	if (hints)
		numeric = *hints;
	/* The machine's own addresses are not the host's. */
	numeric.ai_flags &= ~AI_ADDRCONFIG;
	if (node && !strcasecmp(node, "localhost")) {
		node = "127.0.0.1";
	} else if (node && inet_pton(AF_INET, node, ignored) != 1 && inet_pton(AF_INET6, node, ignored) != 1) {
		if (!host_address(node, text, sizeof text))
			return EAI_NONAME;
		node = text;
	}
	if (node)
		numeric.ai_flags |= AI_NUMERICHOST;
	return NEXT(getaddrinfo)(node, service, &numeric, found);
}

EXPORT struct hostent *gethostbyname(const char *name)
{
	static struct in_addr addr;
	static char *addrs[2] = {(char *)&addr}, *aliases[1];
	static struct hostent entry;
	char text[64];

	if (!simulated())
		return NEXT(gethostbyname)(name);
	if (!strcasecmp(name, "localhost"))
		addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (inet_pton(AF_INET, name, &addr) != 1 &&
		 (!host_address(name, text, sizeof text) || inet_pton(AF_INET, text, &addr) != 1)) {
		h_errno = HOST_NOT_FOUND;
		return NULL;
	}
	entry = (struct hostent){.h_name = (char *)name, .h_aliases = aliases, .h_addrtype = AF_INET, .h_length = 4, .h_addr_list = addrs};
	return &entry;
}

EXPORT int gethostname(char *name, size_t len)
{
	size_t n;

	if (!simulated())
		return NEXT(gethostname)(name, len);
	n = strlen(welcome.host) + 1;
	memcpy(name, welcome.host, n < len ? n : len);
	if (n <= len)
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

EXPORT int uname(struct utsname *u)
{
	int ret = NEXT(uname)(u);

	if (!ret && simulated())
		snprintf(u->nodename, sizeof u->nodename, "%s", welcome.host);
	return ret;
}
