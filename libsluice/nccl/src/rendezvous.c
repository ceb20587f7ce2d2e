/*
 * How two processes find each other: a handle has the address and a number of a TCP socket, over which they exchange
 * what queue pairs need. No call waits. The socket stays open: its end shows that the peer has gone.
 */
#define _GNU_SOURCE
#include "plugin.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
	VERSION = 3,
	PLACES = 4, /* addresses at which a listener is reached */
	PENDING = 8,
	PATIENCE = 1000000000, /* ns: for so long who has connected may be silent while others wait */
};
static const uint64_t handle_magic = 0x536c756963654e48, hello_magic = 0x536c756963654e43;

struct handle {
	uint64_t magic, nonce;
	uint32_t version;
	uint16_t places;
	struct place {
		uint16_t port;
		uint8_t addr[16]; /* IPv4 as ::ffff:a.b.c.d */
	} place[PLACES];
	uint16_t spare; /* 0, so that check covers no padding */
	uint32_t scope, check;
	uint32_t chosen;  /* this process's: which place it reaches */
	uint64_t attempt; /* this process's: which connection connect() was called for before; 0: none */
};
_Static_assert(sizeof(struct handle) <= NCCL_NET_HANDLE_MAXSIZE, "a handle has to fit");

struct listener {
	struct device *device;
	int fds[PLACES], places, traffic_class;
	uint64_t nonce;
	struct connection *pending[PENDING];
};

/* Connections that connect() has begun. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct connection *attempts;
static uint64_t last_attempt;

/* check is FNV-1a of what a handle says. */
static uint32_t check(const struct handle *h)
{
	const uint8_t *b = (const void *)h;
	uint32_t sum = 2166136261;

	for (size_t i = 0; i < offsetof(struct handle, check); i++)
		sum = (sum ^ b[i]) * 16777619;
	return sum;
}

static int tcp(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		WARN("no TCP socket: %s", strerror(errno));
	return fd;
}

/* attend makes a socket tell of a peer whose host has gone within half a minute. */
static void attend(int fd)
{
	int yes = 1, idle = 10, every = 5, times = 4;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

static bool is_v4(const struct place *p)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(p->addr, mapped, sizeof mapped);
}

static socklen_t to_sockaddr(const struct handle *h, int place, struct sockaddr_storage *addr)
{
	struct sockaddr_in *v4 = (void *)addr;
	struct sockaddr_in6 *v6 = (void *)addr;
	const struct place *p = &h->place[place];

	memset(addr, 0, sizeof *addr);
	if (is_v4(p)) {
		v4->sin_family = AF_INET;
		v4->sin_port = p->port;
		memcpy(&v4->sin_addr, p->addr + 12, 4);
		return sizeof *v4;
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = p->port;
	v6->sin6_scope_id = h->scope;
	memcpy(&v6->sin6_addr, p->addr, 16);
	return sizeof *v6;
}

static void from_sockaddr(struct place *p, const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *v4 = (const void *)addr;
	const struct sockaddr_in6 *v6 = (const void *)addr;

	memset(p->addr, 0, sizeof p->addr);
	if (addr->ss_family == AF_INET) {
		p->addr[10] = p->addr[11] = 0xff;
		memcpy(p->addr + 12, &v4->sin_addr, 4);
		p->port = v4->sin_port;
	} else {
		memcpy(p->addr, &v6->sin6_addr, 16);
		p->port = v6->sin6_port;
	}
}

/* listen_at listens at an address, and says at which port, or returns -1. */
static int listen_at(struct sockaddr_storage *addr)
{
	socklen_t len = sizeof *addr;
	int fd = tcp(addr->ss_family), saved;

	if (fd < 0)
		return -1;
	if (!bind(fd, (void *)addr, addr->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) &&
	    !listen(fd, 128) && !getsockname(fd, (void *)addr, &len))
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

static void stop_listening(struct listener *l)
{
	for (int i = 0; i < l->places; i++)
		close(l->fds[i]);
	free(l);
}

nccl_result rendezvous_listen(struct device *d, int traffic_class, void *handle, void **found)
{
	struct handle h = {.magic = handle_magic, .version = VERSION};
	struct sockaddr_storage addrs[PLACES];
	int n = device_addresses(d, addrs, PLACES);
	struct listener *l;

	*found = NULL;
	if (!n)
		return NCCL_SYSTEM_ERROR;
	l = calloc(1, sizeof *l);
	if (!l)
		return NCCL_SYSTEM_ERROR;
	l->device = d;
	l->traffic_class = traffic_class;
	for (int i = 0; i < n; i++) {
		int fd = listen_at(&addrs[i]);

		if (fd < 0 && !i) {
			WARN("%s: can't listen at the address of its GID, or of NCCL_SOCKET_IFNAME: %s", d->name, strerror(errno));
			goto failed;
		}
		if (fd < 0)
			continue; /* another GID's: peers have the first */
		from_sockaddr(&h.place[l->places], &addrs[i]);
		l->fds[l->places++] = fd;
	}
	if (getrandom(&l->nonce, sizeof l->nonce, 0) != sizeof l->nonce) {
		WARN("no random number: %s", strerror(errno));
		goto failed;
	}
	h.nonce = l->nonce;
	h.places = l->places;
	h.check = check(&h);
	memset(handle, 0, NCCL_NET_HANDLE_MAXSIZE);
	memcpy(handle, &h, sizeof h);
	*found = l;
	return NCCL_SUCCESS;
failed:
	stop_listening(l);
	return NCCL_SYSTEM_ERROR;
}

nccl_result rendezvous_close(void *listener)
{
	struct listener *l = listener;

	for (int i = 0; i < PENDING; i++)
		if (l->pending[i])
			connection_close(l->pending[i]);
	stop_listening(l);
	return NCCL_SUCCESS;
}

enum moved { MOVED, NOT_YET, GONE, FAILED };

/* put sends what is left of some bytes; get takes them. c->moved counts them. */
static enum moved put(struct connection *c, const void *data, size_t size)
{
	while (c->moved < size) {
		ssize_t n = send(c->fd, (const char *)data + c->moved, size - c->moved, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? NOT_YET : GONE;
		c->moved += n;
	}
	c->moved = 0;
	return MOVED;
}

static enum moved get(struct connection *c, void *data, size_t size)
{
	while (c->moved < size) {
		ssize_t n = recv(c->fd, (char *)data + c->moved, size - c->moved, 0);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? NOT_YET : GONE;
		if (!n) {
			errno = ECONNRESET;
			return GONE;
		}
		c->moved += n;
	}
	c->moved = 0;
	return MOVED;
}

/* next goes to a stage where bytes have moved. */
static enum moved next(struct connection *c, enum moved m, enum stage stage)
{
	if (m == MOVED)
		c->stage = stage;
	return m;
}

static bool sane(const struct connection *c)
{
	const struct hello *h = &c->theirs;

	if (be64toh(h->magic) != hello_magic || be32toh(h->version) != VERSION || be64toh(h->nonce) != c->nonce ||
	    h->qps < 1 || h->qps > MAX_QPS || h->members < 1 || h->members > MAX_MEMBERS)
		return false;
	for (int i = 0; i < h->members; i++)
		if (h->mtu[i] < IBV_MTU_256 || h->mtu[i] > IBV_MTU_4096)
			return false;
	return true;
}

static void introduce(struct connection *c)
{
	c->mine.magic = htobe64(hello_magic);
	c->mine.version = htobe32(VERSION);
	c->mine.nonce = htobe64(c->nonce);
}

/* reached reports whether the connecting socket has come through. */
static enum moved reached(struct connection *c, const struct handle *h)
{
	struct sockaddr_storage addr;
	socklen_t len = to_sockaddr(h, h->chosen, &addr);

	if (!connect(c->fd, (void *)&addr, len) || errno == EISCONN)
		return MOVED;
	return errno == EINPROGRESS || errno == EALREADY || errno == EAGAIN || errno == EINTR ? NOT_YET : GONE;
}

/* route finds how each device reaches the peer, now that the socket shows it. */
static void route(struct connection *c)
{
	for (int i = 0; i < c->members; i++) {
		struct member *m = &c->member[i];

		device_route(m->device, c->fd, &m->gid, &m->gid_index, &m->mtu);
		memcpy(c->mine.gid[i], m->gid.raw, sizeof m->gid.raw);
		c->mine.mtu[i] = m->mtu;
	}
}

/* connecting goes on with a connection as far as it gets. */
static enum moved connecting(struct connection *c, const struct handle *h)
{
	enum moved m = MOVED;

	while (m == MOVED && c->stage != CONNECTED) {
		switch (c->stage) {
		case CONNECTING:
			m = next(c, reached(c, h), HELLO_LEAVES);
			if (m != MOVED)
				break;
			route(c);
			break;
		case HELLO_LEAVES:
			m = next(c, put(c, &c->mine, sizeof c->mine), ANSWER_ARRIVES);
			break;
		case ANSWER_ARRIVES:
			m = next(c, get(c, &c->theirs, sizeof c->theirs), READY_LEAVES);
			if (m != MOVED)
				break;
			errno = EPROTO;
			if (!sane(c) || c->theirs.qps != c->qps)
				return GONE;
			if (!connection_join(c))
				return FAILED;
			break;
		default:
			m = next(c, put(c, "", 1), CONNECTED);
		}
	}
	return m;
}

static void forget(struct connection *c)
{
	pthread_mutex_lock(&lock);
	for (struct connection **at = &attempts; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	pthread_mutex_unlock(&lock);
	c->next = NULL;
}

static struct connection *find(uint64_t attempt)
{
	struct connection *c;

	pthread_mutex_lock(&lock);
	for (c = attempts; c && c->attempt != attempt; c = c->next)
		;
	pthread_mutex_unlock(&lock);
	return c;
}

/* nearest chooses among a peer's places: one to which the kernel's route goes from a GID of the device, and of these the one
 * whose network is nearest to that source's. */
static int nearest(const struct device *d, const struct handle *h)
{
	int best = -1, chosen = 0;

	for (int i = 0; h->places > 1 && i < h->places; i++) {
		struct sockaddr_storage to, from;
		socklen_t len = to_sockaddr(h, i, &to), from_len = sizeof from;
		int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), rank = 0;
		struct place own;

		/* No packet is sent: connect() looks up the route. */
		if (fd >= 0 && !connect(fd, (void *)&to, len) && !getsockname(fd, (void *)&from, &from_len)) {
			from_sockaddr(&own, &from);
			while (rank < 128 && !((own.addr[rank / 8] ^ h->place[i].addr[rank / 8]) & (0x80 >> rank % 8)))
				rank++;
			rank += device_has(d, &from) ? 1000 : 1;
		}
		if (fd >= 0)
			close(fd);
		if (rank > best) {
			best = rank;
			chosen = i;
		}
	}
	return chosen;
}

static struct connection *attempt(struct device *d, int traffic_class, struct handle *h)
{
	int fd = tcp(is_v4(&h->place[h->chosen = nearest(d, h)]) ? AF_INET : AF_INET6);
	struct connection *c = fd < 0 ? NULL : connection_new(d, true, traffic_class, fd);

	if (!c)
		return NULL;
	c->nonce = h->nonce;
	c->stage = CONNECTING;
	attend(fd);
	introduce(c);
	if (!connection_open(c, settings.qps * d->members < MAX_QPS ? settings.qps * d->members : MAX_QPS)) {
		connection_close(c);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	h->attempt = c->attempt = ++last_attempt;
	c->next = attempts;
	attempts = c;
	pthread_mutex_unlock(&lock);
	return c;
}

nccl_result rendezvous_connect(struct device *d, int traffic_class, void *handle, void **sender)
{
	struct handle h;
	struct connection *c;
	enum moved m;

	*sender = NULL;
	memcpy(&h, handle, sizeof h);
	if (h.magic != handle_magic || h.version != VERSION || h.check != check(&h) || h.places < 1 || h.places > PLACES || h.chosen >= h.places) {
		WARN("connect: the handle is not of this plugin's listen, or of another version of it");
		return NCCL_INVALID_ARGUMENT;
	}
	c = h.attempt ? find(h.attempt) : attempt(d, traffic_class, &h);
	if (!c && h.attempt) {
		WARN("connect: the handle is of no connection that is under way");
		return NCCL_INVALID_ARGUMENT;
	}
	if (!c)
		return NCCL_SYSTEM_ERROR;
	m = connecting(c, &h);
	if (m == NOT_YET) {
		memcpy(handle, &h, sizeof h);
		return NCCL_SUCCESS;
	}
	h.attempt = 0;
	memcpy(handle, &h, sizeof h);
	forget(c);
	if (m == MOVED) {
		*sender = c;
		return NCCL_SUCCESS;
	}
	if (m == GONE)
		WARN("connect: the peer does not answer: %s", strerror(errno));
	connection_close(c);
	return m == GONE ? NCCL_REMOTE_ERROR : NCCL_SYSTEM_ERROR;
}

/* accepting goes on with a connection that a peer has made. */
static enum moved accepting(struct connection *c)
{
	enum moved m = MOVED;
	char ready;

	while (m == MOVED && c->stage != CONNECTED) {
		switch (c->stage) {
		case HELLO_ARRIVES:
			m = next(c, get(c, &c->theirs, sizeof c->theirs), ANSWER_LEAVES);
			if (m != MOVED)
				break;
			errno = EPROTO;
			if (!sane(c)) {
				c->stage = HELLO_ARRIVES;
				return GONE;
			}
			introduce(c);
			route(c);
			if (!connection_open(c, c->theirs.qps) || !connection_join(c))
				return FAILED;
			break;
		case ANSWER_LEAVES:
			m = next(c, put(c, &c->mine, sizeof c->mine), READY_ARRIVES);
			break;
		default:
			m = next(c, get(c, &ready, 1), CONNECTED);
		}
	}
	return m;
}

static void turn_away(struct connection *c)
{
	INFO("accept: turned away who is not this listener's peer");
	connection_close(c);
}

/* arriving takes in the next peer that has connected, if there is room. */
static nccl_result arriving(struct listener *l)
{
	struct connection **free = NULL;
	int fd = -1;

	for (int i = 0; i < PENDING; i++) {
		struct connection *c = l->pending[i];

		if (!c || (c->stage == HELLO_ARRIVES && now_ns() - c->looked > PATIENCE && !free))
			free = &l->pending[i];
		if (!c)
			break;
	}
	if (!free)
		return NCCL_SUCCESS;
	for (int i = 0; i < l->places && fd < 0; i++) {
		fd = accept4(l->fds[i], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 && errno != EAGAIN)
			break;
	}
	if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
		WARN("accept: %s", strerror(errno));
		return NCCL_SYSTEM_ERROR;
	}
	if (fd < 0)
		return NCCL_SUCCESS;
	attend(fd);
	if (*free)
		turn_away(*free);
	*free = connection_new(l->device, false, l->traffic_class, fd);
	if (!*free)
		return NCCL_SYSTEM_ERROR;
	(*free)->nonce = l->nonce;
	(*free)->stage = HELLO_ARRIVES;
	(*free)->looked = now_ns();
	return NCCL_SUCCESS;
}

nccl_result rendezvous_accept(void *listener, void **receiver)
{
	struct listener *l = listener;
	nccl_result result = arriving(l);

	*receiver = NULL;
	for (int i = 0; i < PENDING && !result; i++) {
		struct connection *c = l->pending[i];
		enum moved m = c ? accepting(c) : NOT_YET;

		if (m == NOT_YET)
			continue;
		l->pending[i] = NULL;
		if (m == MOVED) {
			*receiver = c;
			return NCCL_SUCCESS;
		}
		if (c->stage == HELLO_ARRIVES) {
			turn_away(c);
			continue;
		}
		if (m == GONE)
			WARN("accept: the peer has gone: %s", strerror(errno));
		result = m == GONE ? NCCL_REMOTE_ERROR : NCCL_SYSTEM_ERROR;
		connection_close(c);
	}
	return result;
}
