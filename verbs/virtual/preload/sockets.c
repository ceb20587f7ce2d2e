/*
 * Stream and datagram sockets of AF_INET and AF_INET6 are UNIX sockets in the scheduler's directory: net/ADDRESS:PORT, or
 * udp/ADDRESS:PORT, is what one is bound to. On those, delivery is at once, so that runs repeat. Of several that have a
 * port by SO_REUSEPORT the next ones are at ADDRESS:PORT~1 and so on.
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

/* Those that may share a port, and where a datagram socket's go that are sent without an address; port 0: nowhere. */
static bool datagrams[FDS], shares_port[FDS]; /* the former where the family is known */
static struct place *peers[FDS];

bool inet_knows_closed(int fd)
{
	return (unsigned)fd >= FDS || knows_closed[fd];
}

void inet_learns_closed(int fd)
{
	knows_closed[fd] = true;
}

/* An address as 16 bytes, IPv4 mapped into IPv6, and a port. */
struct place {
	unsigned char addr[16];
	uint16_t port;
};

static bool is_datagram(int fd)
{
	int type;
	socklen_t len = sizeof type;

	if ((unsigned)fd < FDS && family_of[fd])
		return datagrams[fd];
	return !NEXT(getsockopt)(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_DGRAM;
}

static bool in_net(const struct sockaddr_un *un, socklen_t len)
{
	size_t n = strlen(turns_dir);

	return un->sun_family == AF_UNIX && len > offsetof(struct sockaddr_un, sun_path) + n + 5 &&
	       !memcmp(un->sun_path, turns_dir, n) && (!memcmp(un->sun_path + n, "/net/", 5) || !memcmp(un->sun_path + n, "/udp/", 5));
}

/* inet reports whether a descriptor is of a socket of IP addresses. */
static bool inet(int fd)
{
	struct sockaddr_un un;
	socklen_t len = sizeof un;

	if ((unsigned)fd < FDS && family_of[fd])
		return true;
	return !NEXT(getsockname)(fd, (void *)&un, &len) && in_net(&un, len);
}

bool inet_stream(int fd)
{
	return inet(fd) && !is_datagram(fd);
}

bool inet_datagram(int fd)
{
	return inet(fd) && is_datagram(fd);
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


/* inet_socket makes a socket, or returns -2 if it is not one that is simulated. */
int inet_socket(int domain, int type, int protocol)
{
	int fd;

	if (!is_inet(domain) || ((type & 0xf) != SOCK_STREAM && (type & 0xf) != SOCK_DGRAM))
		return -2;
	if (protocol != 0 && protocol != ((type & 0xf) == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP)) {
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
		family_of[fd] = domain, knows_closed[fd] = shares_port[fd] = false, datagrams[fd] = (type & 0xf) == SOCK_DGRAM;
	return fd;
}

static void inet_forget(int fd)
{
	family_of[fd] = 0;
	free(peers[fd]);
	peers[fd] = NULL;
}

static void set_peer(int fd, const struct place *to)
{
	if ((unsigned)fd >= FDS)
		return;
	if (!peers[fd])
		peers[fd] = calloc(1, sizeof *to);
	if (peers[fd])
		*peers[fd] = *to;
}

void inet_closed(int fd)
{
	if ((unsigned)fd < FDS)
		inet_forget(fd);
	timerfd_closed(fd);
}

void inet_dup(int from, int to)
{
	timerfd_dup(from, to);
	if ((unsigned)from >= FDS || (unsigned)to >= FDS || from == to)
		return;
	inet_forget(to);
	if (peers[from])
		set_peer(to, peers[from]);
	shares_port[to] = shares_port[from];
	datagrams[to] = datagrams[from];
	family_of[to] = family_of[from], knows_closed[to] = knows_closed[from];
}

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

/* path_of gives the path of a place, of the which-th socket that is bound to it. */
static socklen_t path_of(const struct place *p, bool datagram, int which, struct sockaddr_un *un)
{
	char text[INET6_ADDRSTRLEN], path[sizeof turns_dir + INET6_ADDRSTRLEN + 32];

	if (is_v4(p))
		inet_ntop(AF_INET, p->addr + 12, text, sizeof text);
	else
		inet_ntop(AF_INET6, p->addr, text, sizeof text);
	memset(un, 0, sizeof *un);
	un->sun_family = AF_UNIX;
	snprintf(path, sizeof path, "%s/%s/%s:%u%s%.0d", turns_dir, datagram ? "udp" : "net", text, p->port, which ? "~" : "", which);
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

/* stale reports whether no socket is there any more that was bound to a path. It asks by one of the other type, which connects to none. */
static bool stale(const struct sockaddr_un *un, socklen_t len, bool datagram)
{
	int s = syscall(SYS_socket, AF_UNIX, (datagram ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool refused = s >= 0 && NEXT(connect)(s, (const void *)un, len) && errno == ECONNREFUSED;

	if (s >= 0)
		syscall(SYS_close, s);
	return refused;
}

#define MOST_OF_A_PORT 9

static int bind_place(int fd, struct place *p)
{
	bool datagram = is_datagram(fd), shares = (unsigned)fd < FDS && shares_port[fd];
	struct sockaddr_un un;
	struct stat st;
	socklen_t len;
	uint64_t port;
	int which = 0;

	own(p);
	for (bool any = !p->port;;) {
		if (any) {
			turn_ask(TURN_PORT, 0, 0, 0, 0, &port);
			p->port = port;
		}
		len = path_of(p, datagram, which, &un);
		if (!NEXT(bind)(fd, (void *)&un, len))
			return chmod(un.sun_path, shares ? S_IRWXU : S_IRUSR | S_IWUSR); /* so that others see it */
		if (errno != EADDRINUSE)
			return -1;
		if (any)
			continue;
		if (stale(&un, len, datagram)) {
			unlink(un.sun_path);
		} else if (!shares || stat(un.sun_path, &st) || !(st.st_mode & S_IXUSR) || ++which > MOST_OF_A_PORT) {
			errno = EADDRINUSE;
			return -1;
		}
	}
}

EXPORT int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct place p;

	if (!simulated() || !addr || !is_inet(addr->sa_family))
		return NEXT(bind)(fd, addr, len);
	turn_sync();
	if (!inet(fd)) {
		if (real_inet(fd))
			turn_refuse("a raw socket that is bound to an IP address");
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

/*
 * reach tries a call on the sockets that are bound to a place until one takes it, the first chosen by the port of who calls.
 * It returns -1, and ECONNREFUSED, where there is none.
 */
static ssize_t reach(int fd, const struct place *to, bool datagram, ssize_t (*call)(void *arg, const struct sockaddr_un *un, socklen_t len), void *arg)
{
	struct sockaddr_un un, own_un;
	socklen_t len = sizeof own_un;
	int there = 0, first = 0;
	char *colon;

	while (there <= MOST_OF_A_PORT && (path_of(to, datagram, there, &un), !access(un.sun_path, F_OK)))
		there++;
	if (there > 1 && !NEXT(getsockname)(fd, (void *)&own_un, &len) && in_net(&own_un, len) && (colon = strrchr(own_un.sun_path, ':')))
		first = atoi(colon + 1) % there;
	for (int i = 0; i < there; i++) {
		ssize_t ret;

		len = path_of(to, datagram, (first + i) % there, &un);
		ret = call(arg, &un, len);
		if (ret >= 0 || errno != ECONNREFUSED)
			return ret;
	}
	errno = ECONNREFUSED;
	return -1;
}

static ssize_t connect_to(void *arg, const struct sockaddr_un *un, socklen_t len)
{
	return NEXT(connect)(*(int *)arg, (const void *)un, len);
}

struct datagram {
	int fd, flags;
	struct msghdr m;
};

static ssize_t send_to(void *arg, const struct sockaddr_un *un, socklen_t len)
{
	struct datagram *d = arg;

	d->m.msg_name = (void *)un;
	d->m.msg_namelen = len;
	return NEXT(sendmsg)(d->fd, &d->m, d->flags | MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The most that a datagram of UDP over IPv4 holds. */
#define MAX_DATAGRAM 65507

/*
 * inet_send sends a datagram: to the message's address, or the socket's peer. As on a wire, one that nobody is bound for, or
 * that the receiver has no room for when it has had time to read, is lost.
 */
ssize_t inet_send(int fd, const struct msghdr *m, int flags)
{
	struct datagram d = {fd, flags, *m};
	struct place from, to;
	size_t size = 0;
	ssize_t sent = -1;

	for (size_t i = 0; i < m->msg_iovlen; i++)
		size += m->msg_iov[i].iov_len;
	if (m->msg_name && !place_of(m->msg_name, m->msg_namelen, &to)) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	if (!m->msg_name && ((unsigned)fd >= FDS || !peers[fd])) {
		errno = EDESTADDRREQ;
		return -1;
	}
	if (!m->msg_name)
		to = *peers[fd];
	if (size > MAX_DATAGRAM) {
		errno = EMSGSIZE;
		return -1;
	}
	if (is_v4(&to) ? to.addr[12] >= 224 : to.addr[0] == 0xff) { /* multicast and broadcast */
		errno = ENETUNREACH;
		return -1;
	}
	memset(&from, 0, sizeof from);
	if (!bound(fd) && bind_place(fd, &from))
		return -1;
	own(&to);
	d.m.msg_control = NULL;
	d.m.msg_controllen = 0;
	turn_sync();
	for (int looks = 0; looks < 1000; looks++) {
		sent = reach(fd, &to, true, send_to, &d);
		turn_changed();
		if (sent >= 0 || errno != EAGAIN)
			break;
		turn_wait(WAIT_CLOCK, turn_now + welcome.look_cost, 0, 0, NULL);
	}
	return sent < 0 && (errno == EAGAIN || errno == ECONNREFUSED || errno == EPERM) ? (ssize_t)size : sent;
}

/* inet_receive receives one, with the address that it is from. */
ssize_t inet_receive(int fd, struct msghdr *m, int flags)
{
	struct sockaddr_un un;
	struct msghdr inner = *m;
	ssize_t got;

	inner.msg_name = &un;
	inner.msg_namelen = sizeof un;
	inner.msg_control = NULL;
	inner.msg_controllen = 0;
	got = NEXT(recvmsg)(fd, &inner, flags);
	if (got < 0)
		return got;
	m->msg_flags = inner.msg_flags;
	m->msg_controllen = 0;
	if (m->msg_name)
		show(&un, inner.msg_namelen, family(fd), m->msg_name, &m->msg_namelen);
	return got;
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct place from, to;
	bool datagram;

	if (!simulated())
		return NEXT(connect)(fd, addr, len);
	turn_sync();
	turn_changed();
	if (!inet(fd)) {
		if (is_inet(addr->sa_family) && real_inet(fd)) {
			errno = ENETUNREACH;
			return -1;
		}
		return NEXT(connect)(fd, addr, len);
	}
	datagram = is_datagram(fd);
	if (datagram && addr->sa_family == AF_UNSPEC) { /* it has a peer no more */
		if ((unsigned)fd < FDS) {
			free(peers[fd]);
			peers[fd] = NULL;
		}
		return NEXT(connect)(fd, addr, sizeof addr->sa_family);
	}
	if (!place_of(addr, len, &to)) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	memset(&from, 0, sizeof from);
	if (!bound(fd) && bind_place(fd, &from))
		return -1;
	own(&to);
	if (datagram)
		set_peer(fd, &to);
	return reach(fd, &to, datagram, connect_to, &fd) && !datagram ? -1 : 0;
}

static int accepted(int listener, int fd, const struct sockaddr_un *un, socklen_t un_len, struct sockaddr *addr, socklen_t *len)
{
	if (fd < 0)
		return fd;
	if ((unsigned)fd < FDS)
		family_of[fd] = family(listener), knows_closed[fd] = datagrams[fd] = false;
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

	if (!simulated() || !inet(fd))
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

	if (!simulated() || !inet(fd))
		return NEXT(getpeername)(fd, addr, len);
	if ((unsigned)fd < FDS && peers[fd]) {
		un_len = path_of(peers[fd], true, 0, &un);
		show(&un, un_len, family(fd), addr, len);
		return 0;
	}
	if (NEXT(getpeername)(fd, (void *)&un, &un_len))
		return -1;
	show(&un, un_len, family(fd), addr, len);
	return 0;
}

EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	if (simulated() && level == SOL_SOCKET && option == SO_REUSEPORT && inet(fd) && (unsigned)fd < FDS && len >= sizeof(int)) {
		shares_port[fd] = *(const int *)value;
		return 0;
	}
	/* Options of IP, UDP and TCP change nothing between these, but there is no multicast. */
	if (simulated() && level != SOL_SOCKET && inet(fd)) {
		if ((level != IPPROTO_IP || option != IP_ADD_MEMBERSHIP) && (level != IPPROTO_IPV6 || option != IPV6_JOIN_GROUP))
			return 0;
		errno = ENODEV;
		return -1;
	}
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
	if (!simulated() || !inet(fd) || (level == SOL_SOCKET && option != SO_DOMAIN && option != SO_PROTOCOL && option != SO_REUSEPORT))
		return NEXT(getsockopt)(fd, level, option, value, len);
	if ((level == IPPROTO_IP && option == IP_MTU) || (level == IPPROTO_IPV6 && option == IPV6_MTU)) {
		errno = ENOPROTOOPT; /* the bytes of these sockets cross no link */
		return -1;
	}
	if (level == SOL_SOCKET)
		show = option == SO_DOMAIN ? family(fd) : option == SO_REUSEPORT ? (unsigned)fd < FDS && shares_port[fd] : is_datagram(fd) ? IPPROTO_UDP : IPPROTO_TCP;
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

/* host_line finds the first host of the simulation whose name, or address, is the one that is given. */
static bool host_line(const char *by_name, const char *by_addr, char *text, size_t size)
{
	char path[sizeof turns_dir + 8], line[256], addr[64], host[128];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof path, "%s/hosts", turns_dir);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof line, f))
		if (sscanf(line, "%63s %127s", addr, host) == 2 && ((by_name && !strcasecmp(host, by_name)) || (by_addr && !strcmp(addr, by_addr)))) {
			snprintf(text, size, "%s", by_name ? addr : host);
			found = true;
		}
	fclose(f);
	return found;
}

/* host_address gives a host's address as text. */
static bool host_address(const char *name, char *text, size_t size)
{
	return host_line(name, NULL, text, size);
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

EXPORT struct hostent *gethostbyname2(const char *name, int family)
{
	if (!simulated())
		return NEXT(gethostbyname2)(name, family);
	if (family == AF_INET)
		return gethostbyname(name);
	h_errno = HOST_NOT_FOUND;
	return NULL;
}

/* copied gives a caller's own memory what is in this file's, and returns an errno. */
static int copied(const struct hostent *from, struct hostent *to, char *buf, size_t size, struct hostent **found, int *err)
{
	char **lists = (char **)(((uintptr_t)buf + sizeof(char *) - 1) & ~(sizeof(char *) - 1));
	char *text = (char *)(lists + 3);

	*found = NULL;
	if (!from) {
		*err = h_errno;
		return 0;
	}
	if (text + 4 + strlen(from->h_name) + 1 > buf + size)
		return ERANGE;
	memcpy(text, from->h_addr_list[0], 4);
	strcpy(text + 4, from->h_name);
	lists[0] = text;
	lists[1] = lists[2] = NULL;
	*to = (struct hostent){.h_name = text + 4, .h_aliases = lists + 2, .h_addrtype = AF_INET, .h_length = 4, .h_addr_list = lists};
	*found = to;
	return 0;
}

EXPORT int gethostbyname_r(const char *restrict name, struct hostent *restrict to, char *restrict buf, size_t size,
			   struct hostent **restrict found, int *restrict err)
{
	if (!simulated())
		return NEXT(gethostbyname_r)(name, to, buf, size, found, err);
	return copied(gethostbyname(name), to, buf, size, found, err);
}

EXPORT int gethostbyname2_r(const char *restrict name, int family, struct hostent *restrict to, char *restrict buf, size_t size,
			    struct hostent **restrict found, int *restrict err)
{
	if (!simulated())
		return NEXT(gethostbyname2_r)(name, family, to, buf, size, found, err);
	return copied(gethostbyname2(name, family), to, buf, size, found, err);
}

/* host_name finds the name of an address; one of the loopback has its own. */
static bool host_name(int family, const void *addr, char *name, size_t size)
{
	char text[INET6_ADDRSTRLEN];

	if (!inet_ntop(family, addr, text, sizeof text))
		return false;
	if (!strncmp(text, "127.", 4) || !strcmp(text, "::1")) {
		snprintf(name, size, "localhost");
		return true;
	}
	return host_line(NULL, text, name, size);
}

EXPORT struct hostent *gethostbyaddr(const void *addr, socklen_t len, int family)
{
	static struct in_addr copy;
	static char name[128], *addrs[2] = {(char *)&copy}, *aliases[1];
	static struct hostent entry;

	if (!simulated())
		return NEXT(gethostbyaddr)(addr, len, family);
	if (family != AF_INET || len < sizeof copy || !host_name(family, addr, name, sizeof name)) {
		h_errno = HOST_NOT_FOUND;
		return NULL;
	}
	memcpy(&copy, addr, sizeof copy);
	entry = (struct hostent){.h_name = name, .h_aliases = aliases, .h_addrtype = AF_INET, .h_length = 4, .h_addr_list = addrs};
	return &entry;
}

EXPORT int gethostbyaddr_r(const void *restrict addr, socklen_t len, int family, struct hostent *restrict to, char *restrict buf,
			   size_t size, struct hostent **restrict found, int *restrict err)
{
	if (!simulated())
		return NEXT(gethostbyaddr_r)(addr, len, family, to, buf, size, found, err);
	return copied(gethostbyaddr(addr, len, family), to, buf, size, found, err);
}

EXPORT int getnameinfo(const struct sockaddr *restrict addr, socklen_t len, char *restrict host, socklen_t host_size,
		       char *restrict service, socklen_t service_size, int flags)
{
	char name[128];
	struct place p;
	bool named;

	if (!simulated() || !place_of(addr, len, &p))
		return NEXT(getnameinfo)(addr, len, host, host_size, service, service_size, flags);
	named = host && host_size && !(flags & NI_NUMERICHOST) &&
		host_name(is_v4(&p) ? AF_INET : AF_INET6, is_v4(&p) ? p.addr + 12 : p.addr, name, sizeof name);
	if (!named && flags & NI_NAMEREQD)
		return EAI_NONAME;
	if (!named)
		return NEXT(getnameinfo)(addr, len, host, host_size, service, service_size, flags | NI_NUMERICHOST);
	if ((size_t)snprintf(host, host_size, "%s", name) >= host_size)
		return EAI_OVERFLOW;
	return service && service_size ? NEXT(getnameinfo)(addr, len, NULL, 0, service, service_size, flags & ~NI_NAMEREQD) : 0;
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
