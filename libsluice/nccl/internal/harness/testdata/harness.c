/*
 * Drives libnccl-net-sluice.so as NCCL does, with host memory, by any version of its interface:
 *
 *	harness PLUGIN VERSION threads|processes TEST...    both sides
 *	harness PLUGIN VERSION receive TEST                 one side: in simulated time, over TCP on port 7777
 *	harness PLUGIN VERSION send HOST TEST               the other
 *	harness PLUGIN VERSION ranks FIRST COUNT HOST...    an all-reduce, of which these are some: HOST has each rank's
 *
 * Both sides go through a test step by step, with a socket beside it, as NCCL's bootstrap. A test that fails says
 * where, and ends the process with status 1.
 */
#define _GNU_SOURCE
#include "fault.h"
#include "lie.h"
#include "net.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Sizes and places that NCCL 2.30's headers compile to, on LP64. */
#define SIZE(type, size) _Static_assert(sizeof(type) == size, #type)
SIZE(nccl_properties_v6, 48);
SIZE(nccl_properties_v7, 56);
SIZE(nccl_properties_v8, 64);
SIZE(nccl_properties_v9, 104);
SIZE(nccl_properties_v11, 112);
SIZE(nccl_properties_v12, 128);
SIZE(nccl_net_v6, 136);
SIZE(nccl_net_v7, 152);
SIZE(nccl_net_v8, 152);
SIZE(nccl_net_v9, 160);
SIZE(nccl_net_v10, 160);
SIZE(nccl_net_v11, 176);
SIZE(nccl_net_v12, 176);
_Static_assert(offsetof(nccl_properties_v6, speed) == 28, "speed");
_Static_assert(offsetof(nccl_properties_v8, speed) == 32, "speed");
_Static_assert(offsetof(nccl_properties_v9, speed) == 36, "speed");
_Static_assert(offsetof(nccl_properties_v9, max_p2p_bytes) == 88, "max_p2p_bytes");
_Static_assert(offsetof(nccl_properties_v11, max_multi_request) == 104, "max_multi_request");
_Static_assert(offsetof(nccl_properties_v12, max_p2p_bytes) == 104, "max_p2p_bytes");
_Static_assert(offsetof(nccl_properties_v12, rail) == 124, "rail");

enum { WAIT = 30, MAX_RECEIVES = 8, RECEIVES = 32 };

static int version;
static bool one_process;
static __thread const char *running = "start";

#define FAIL(...) fail(__LINE__, __VA_ARGS__)
__attribute__((format(printf, 2, 3), noreturn)) static void fail(int line, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "v%d %s, line %d: ", version, running, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	_exit(1);
}

#define EXPECT(call, result) \
	do { \
		int got = (call); \
		if (got != (result)) \
			FAIL("%s: got %d, expected %d", #call, got, result); \
	} while (0)
#define OK(call) EXPECT(call, NCCL_SUCCESS)

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Until a condition holds, what is said goes on; it is a failure after WAIT seconds. */
#define UNTIL(condition, ...) \
	do { \
		double began = seconds(); \
		for (;;) { \
			__VA_ARGS__; \
			if (condition) \
				break; \
			if (seconds() - began > WAIT) \
				FAIL("%s: not within %d s", #condition, WAIT); \
			if (!simulated) \
				sched_yield(); \
		} \
	} while (0)

static bool simulated;

/* ---- the plugin, by its version */

static void *library;
static union {
	void *any;
	nccl_net_v6 *v6;
	nccl_net_v7 *v7;
	nccl_net_v8 *v8;
	nccl_net_v9 *v9;
	nccl_net_v10 *v10;
	nccl_net_v11 *v11;
	nccl_net_v12 *v12;
} net;

static bool loud;

__attribute__((format(printf, 5, 6))) static void logger(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	va_list args;

	(void)flags;
	if (level > NCCL_LOG_WARN && !loud)
		return;
	fprintf(stderr, "[%d] %s:%d ", getpid(), file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
}

static nccl_result profiler(void **event, int type, void *parent, int64_t plugin, void *data)
{
	(void)event, (void)type, (void)parent, (void)plugin, (void)data;
	FAIL("a profiler was called");
}

static void load(const char *plugin)
{
	char symbol[32];

	library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		FAIL("%s", dlerror());
	snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", version);
	net.any = dlsym(library, symbol);
	if (!net.any)
		FAIL("%s", dlerror());
}

/* CALL calls a function that all versions have with the same parameters. All tables begin alike. */
#define TABLE(member) (version == 6 ? net.v6->member : version == 7 ? net.v7->member : version == 8 ? net.v8->member : version == 9 ? net.v9->member : \
		       version == 10 ? net.v10->member : version == 11 ? net.v11->member : net.v12->member)

static nccl_result init(void **context)
{
	nccl_config config = {.traffic_class = 106};

	*context = NULL;
	if (version < 10)
		return version == 6 ? net.v6->init(logger) : version == 7 ? net.v7->init(logger) : version == 8 ? net.v8->init(logger) : net.v9->init(logger);
	if (version == 10)
		return net.v10->init(logger, profiler);
	return (version == 11 ? net.v11->init : net.v12->init)(context, 1, &config, logger, profiler);
}

static nccl_result finalize(void *context)
{
	return version < 11 ? NCCL_SUCCESS : (version == 11 ? net.v11->finalize : net.v12->finalize)(context);
}

static nccl_result listen_at(void *context, int device, void *handle, void **listener)
{
	if (version >= 11)
		return (version == 11 ? net.v11->listen : net.v12->listen)(context, device, handle, listener);
	return (version == 6 ? net.v6->listen : version == 7 ? net.v7->listen : version == 8 ? net.v8->listen : version == 9 ? net.v9->listen : net.v10->listen)(device, handle, listener);
}

static nccl_result connect_to(void *context, int device, void *handle, void **sender)
{
	nccl_device_handle *on_gpu = NULL;
	nccl_config config = {.traffic_class = -1};

	switch (version) {
	case 6: return net.v6->connect(device, handle, sender);
	case 7: return net.v7->connect(device, handle, sender, &on_gpu);
	case 8: return net.v8->connect(device, handle, sender, &on_gpu);
	case 9: return net.v9->connect(device, handle, sender, &on_gpu);
	case 10: return net.v10->connect(device, &config, handle, sender, &on_gpu);
	case 11: return net.v11->connect(context, device, handle, sender, &on_gpu);
	default: return net.v12->connect(context, device, handle, sender, &on_gpu);
	}
}

static nccl_result accept_from(void *listener, void **receiver)
{
	nccl_device_handle *on_gpu = NULL;

	if (version == 6)
		return net.v6->accept(listener, receiver);
	return (version == 7 ? net.v7->accept : version == 8 ? net.v8->accept : version == 9 ? net.v9->accept : version == 10 ? net.v10->accept :
		version == 11 ? net.v11->accept : net.v12->accept)(listener, receiver, &on_gpu);
}

static nccl_result register_memory(void *comm, void *data, size_t size, int type, void **memory)
{
	if (version < 8)
		return (version == 6 ? net.v6->reg_mr : net.v7->reg_mr)(comm, data, (int)size, type, memory);
	return (version == 8 ? net.v8->reg_mr : version == 9 ? net.v9->reg_mr : version == 10 ? net.v10->reg_mr : version == 11 ? net.v11->reg_mr : net.v12->reg_mr)(
		comm, data, size, type, memory);
}

static nccl_result isend(void *sender, void *data, size_t size, int tag, void *memory, void **request)
{
	if (version < 9)
		return (version == 6 ? net.v6->isend : version == 7 ? net.v7->isend : net.v8->isend)(sender, data, (int)size, tag, memory, request);
	if (version == 9)
		return net.v9->isend(sender, data, size, tag, memory, request);
	return (version == 10 ? net.v10->isend : version == 11 ? net.v11->isend : net.v12->isend)(sender, data, size, tag, memory, NULL, request);
}

static nccl_result irecv(void *receiver, int n, void **data, const size_t *sizes, int *tags, void **memories, void **request)
{
	size_t all[MAX_RECEIVES + 1];
	int ints[MAX_RECEIVES + 1];
	void *events[MAX_RECEIVES + 1] = {0};

	for (int i = 0; i < n; i++) {
		all[i] = sizes[i];
		ints[i] = (int)sizes[i];
	}
	*request = version >= 9 ? (void *)1 : NULL; /* NCCL_NET_OPTIONAL_RECV_COMPLETION */
	if (version < 9)
		return (version == 6 ? net.v6->irecv : version == 7 ? net.v7->irecv : net.v8->irecv)(receiver, n, data, ints, tags, memories, request);
	if (version == 9)
		return net.v9->irecv(receiver, n, data, all, tags, memories, request);
	return (version == 10 ? net.v10->irecv : version == 11 ? net.v11->irecv : net.v12->irecv)(receiver, n, data, all, tags, memories, events, request);
}

#define iflush TABLE(iflush)
#define test TABLE(test)
#define deregister TABLE(dereg_mr)
#define close_send TABLE(close_send)
#define close_recv TABLE(close_recv)
#define close_listen TABLE(close_listen)

/* ---- one side */

struct side {
	bool sender;
	int oob;
	void *context, *listener, *comm;
	char handle[NCCL_NET_HANDLE_MAXSIZE];
	int device;
};

static void tell(struct side *s, const void *data, size_t n)
{
	if (send(s->oob, data, n, MSG_NOSIGNAL) != (ssize_t)n)
		FAIL("the other side has gone");
}

static void hear(struct side *s, void *data, size_t n)
{
	if (recv(s->oob, data, n, MSG_WAITALL) != (ssize_t)n)
		FAIL("the other side has gone");
}

static void barrier(struct side *s)
{
	char c = 0;

	tell(s, &c, 1);
	hear(s, &c, 1);
}

static void begin_connection(struct side *s)
{
	if (s->sender) {
		hear(s, s->handle, sizeof s->handle);
	} else {
		OK(listen_at(s->context, s->device, s->handle, &s->listener));
		tell(s, s->handle, sizeof s->handle);
	}
}

static void end_connection(struct side *s)
{
	if (s->sender) {
		UNTIL(s->comm, OK(connect_to(s->context, s->device, s->handle, &s->comm)));
	} else {
		UNTIL(s->comm, OK(accept_from(s->listener, &s->comm)));
		OK(close_listen(s->listener));
		s->listener = NULL;
	}
}

static void connect_both(struct side *s)
{
	begin_connection(s);
	end_connection(s);
}

static void close_both(struct side *s)
{
	barrier(s);
	if (s->sender)
		OK(close_send(s->comm));
	else
		OK(close_recv(s->comm));
	s->comm = NULL;
}

static uint32_t draw(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void fill(uint8_t *b, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(seed + i * 167 + (i >> 8));
}

static void check(const uint8_t *b, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++)
		if (b[i] != (uint8_t)(seed + i * 167 + (i >> 8)))
			FAIL("byte %zu of %zu: got %#x, expected %#x", i, n, b[i], (uint8_t)(seed + i * 167 + (i >> 8)));
}

static void untouched(const uint8_t *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (b[i] != 0xee)
			FAIL("byte %zu behind a message was written", i);
}

static void *memory_of(struct side *s, void *data, size_t n)
{
	void *m = NULL;

	OK(register_memory(s->comm, data, n, NCCL_PTR_HOST, &m));
	return m;
}

static void finish(void *request, int *sizes)
{
	int done = 0;

	UNTIL(done, OK(test(request, &done, sizes)));
}

static void *start_send(struct side *s, void *data, size_t size, int tag, void *memory)
{
	void *request = NULL;

	UNTIL(request, OK(isend(s->comm, data, size, tag, memory, &request)));
	return request;
}

static void *start_receive(struct side *s, void *data, size_t size, int tag, void *memory)
{
	void *request = NULL;

	UNTIL(request, OK(irecv(s->comm, 1, &data, &size, &tag, &memory, &request)));
	return request;
}

/* ---- tests */

static void properties(struct side *s)
{
	nccl_properties_v12 p = {0};
	int n = 0;
	const char *name = *(const char **)net.any;

	if (strcmp(name, "Sluice"))
		FAIL("the plugin's name is %s", name);
	OK(TABLE(devices)(&n));
	if (n < 1)
		FAIL("no device");
#define COPY(number) \
	case number: { \
		__typeof__(*(nccl_properties_v##number *)0) q; \
		memset(&q, 0xcc, sizeof q); \
		OK(net.v##number->get_properties(0, &q)); \
		p.name = q.name, p.speed = q.speed, p.port = q.port, p.ptr_support = q.ptr_support, p.max_recvs = q.max_recvs, p.max_comms = q.max_comms; \
		p.guid = q.guid, p.latency = q.latency; \
	} break
	typedef nccl_properties_v9 nccl_properties_v10;
	switch (version) {
		COPY(6);
		COPY(7);
		COPY(8);
		COPY(9);
		COPY(10);
		COPY(11);
		COPY(12);
	}
	if (!p.name || !*p.name || p.speed < 1000 || p.port != 1 || !(p.ptr_support & NCCL_PTR_HOST) || p.max_recvs != MAX_RECEIVES || p.max_comms < 1 || p.latency != 0)
		FAIL("%s: speed %d, port %d, support %d, receives %d", p.name, p.speed, p.port, p.ptr_support, p.max_recvs);
	if (version == 12) {
		memset(&p, 0xcc, sizeof p);
		OK(net.v12->get_properties(0, &p));
		if (p.rail != -1 || p.plane != -1 || p.max_multi_request != 1 || p.members.count != 1 || p.members.devices[0] || p.max_p2p_bytes < 1 << 20 ||
		    p.device_type || p.device_version || !p.reg_is_global || p.force_flush)
			FAIL("rail %d, plane %d, requests %d, members %d", p.rail, p.plane, p.max_multi_request, p.members.count);
	}
	EXPECT(TABLE(devices)(&n), 0);
	EXPECT(listen_at(s->context, n, s->handle, &s->listener), NCCL_INVALID_ARGUMENT);
	EXPECT(listen_at(s->context, -1, s->handle, &s->listener), NCCL_INVALID_ARGUMENT);
}

/* list prints what there is. */
static void list(struct side *s)
{
	nccl_properties_v6 p;
	int n;

	OK(TABLE(devices)(&n));
	for (int i = 0; i < n && s->sender && version == 6; i++) {
		OK(net.v6->get_properties(i, &p));
		printf("device %s:%d\n", p.name, p.port);
	}
}

/* A sender connects before the receiver accepts, and neither waits; then the other way around. */
static void order(struct side *s)
{
	begin_connection(s);
	if (s->sender) {
		for (int i = 0; i < 20; i++) {
			OK(connect_to(s->context, s->device, s->handle, &s->comm));
			if (s->comm)
				FAIL("connected before the peer has accepted");
		}
	}
	barrier(s);
	end_connection(s);
	close_both(s);
	begin_connection(s);
	if (!s->sender) {
		for (int i = 0; i < 20; i++) {
			OK(accept_from(s->listener, &s->comm));
			if (s->comm)
				FAIL("accepted before the peer has connected");
		}
	}
	barrier(s);
	end_connection(s);
	close_both(s);
}

/* refused connects to a handle that is none. */
static void refused(struct side *s)
{
	char bad[NCCL_NET_HANDLE_MAXSIZE];
	void *comm = NULL;
	int fd[12];

	begin_connection(s);
	if (s->sender) {
		memset(bad, 0, sizeof bad);
		EXPECT(connect_to(s->context, s->device, bad, &comm), NCCL_INVALID_ARGUMENT);
		for (int i = 0; i < 40; i++) {
			memcpy(bad, s->handle, sizeof bad);
			bad[i] ^= 0x10;
			EXPECT(connect_to(s->context, s->device, bad, &comm), NCCL_INVALID_ARGUMENT);
		}
	}
	barrier(s);
	if (s->sender) { /* strangers at the port, who say nothing or nonsense, do not keep the peer from it */
		struct sockaddr_in a = {.sin_family = AF_INET};
		char junk[1024];

		memset(junk, 0x5a, sizeof junk);
		memcpy(&a.sin_port, s->handle + 22, 2);
		memcpy(&a.sin_addr, s->handle + 24 + 12, 4); /* of ::ffff:a.b.c.d */
		for (int i = 0; i < 12; i++) {
			fd[i] = socket(AF_INET, SOCK_STREAM, 0);
			if (connect(fd[i], (void *)&a, sizeof a))
				FAIL("a stranger can't connect: %s", strerror(errno));
			if (i > 10 && send(fd[i], junk, sizeof junk, MSG_NOSIGNAL) < 0)
				FAIL("a stranger can't send");
		}
	}
	barrier(s);
	end_connection(s);
	for (int i = 0; i < 12 && s->sender; i++)
		close(fd[i]);
	close_both(s);
	begin_connection(s);
	if (!s->sender) {
		OK(close_listen(s->listener));
		s->listener = NULL;
	}
	barrier(s);
	if (s->sender) { /* nobody listens any more */
		nccl_result r = NCCL_SUCCESS;

		UNTIL(r, r = connect_to(s->context, s->device, s->handle, &comm));
		EXPECT(r, NCCL_REMOTE_ERROR);
	}
}

static size_t largest = 4 << 20;

static void sizes(struct side *s)
{
	static const size_t all[] = {0, 1, 3, 255, 4095, 4096, 4097, 65535, 65536, 65537, 262143, 1000003, 1 << 20, 3 * 65536 + 1, 4 << 20, 64 << 20};
	size_t room = largest + 64;
	uint8_t *b = malloc(room);
	void *m;

	connect_both(s);
	m = memory_of(s, b, room);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		size_t n = all[i];
		int got = -1;

		if (n > largest)
			continue;
		if (s->sender) {
			fill(b, n, (uint32_t)i);
			finish(start_send(s, b, n, 7, m), &got);
		} else {
			memset(b, 0xee, room);
			finish(start_receive(s, b, n + (i % 3) * 16, 7, m), &got); /* with room for more, or not */
			check(b, n, (uint32_t)i);
			untouched(b + n, 64);
		}
		if (got != (int)n)
			FAIL("size %d, expected %zu", got, n);
	}
	if (s->sender) { /* nothing, from and to nowhere */
		finish(start_send(s, NULL, 0, 1, NULL), NULL);
	} else {
		finish(start_receive(s, NULL, 0, 1, NULL), NULL);
	}
	if (s->sender) { /* more than the receiver takes */
		int got = -1;

		finish(start_send(s, b, 5000, 1, m), &got);
		if (got != 3000)
			FAIL("size %d, expected 3000", got);
	} else {
		memset(b, 0xee, room);
		finish(start_receive(s, b, 3000, 1, m), NULL);
		untouched(b + 3000, 3000);
	}
	barrier(s);
	if (s->sender) { /* what is not in the memory */
		void *request = NULL;
		nccl_result r = NCCL_SUCCESS;

		UNTIL(r, r = isend(s->comm, b + room - 10, 11, 9, m, &request));
		EXPECT(r, NCCL_INVALID_ARGUMENT);
		finish(start_send(s, b, 1, 9, m), NULL);
	} else {
		finish(start_receive(s, b, 100, 9, m), NULL);
	}
	close_both(s);
	OK(deregister(s->comm, m)); /* after the communicator, as it is the device's */
	free(b);
}

/* One receive of several buffers, which sends find by tag in another order. */
static void multi(struct side *s)
{
	static const int order_of[MAX_RECEIVES] = {5, 0, 7, 2, 1, 6, 4, 3};
	enum { ROOM = 200000, ROUNDS = 5 };
	uint8_t *b = malloc(MAX_RECEIVES * ROOM);
	void *m;

	connect_both(s);
	m = memory_of(s, b, MAX_RECEIVES * ROOM);
	for (int round = 0; round < ROUNDS; round++) {
		int n = round ? MAX_RECEIVES - round : MAX_RECEIVES, got[MAX_RECEIVES];
		size_t size[MAX_RECEIVES];

		for (int i = 0; i < n; i++)
			size[i] = i == 3 ? 0 : (size_t)(i + 1) * 19999 + round;
		if (s->sender) {
			void *requests[MAX_RECEIVES], *none = NULL;
			int count = 0;

			for (int i = 0; i < n; i++)
				fill(b + i * ROOM, size[i], (uint32_t)(round * 8 + i));
			for (int k = 0; k < MAX_RECEIVES; k++)
				if (order_of[k] < n) {
					int i = order_of[k];

					requests[count++] = start_send(s, b + i * ROOM, size[i], 100 + i, m);
					if (count == 1 && n > 1) { /* of a tag that nobody receives by */
						OK(isend(s->comm, b, 1, 99, m, &none));
						if (none)
							FAIL("a send of a tag that nobody receives by began");
					}
				}
			for (int i = 0; i < count; i++)
				finish(requests[i], NULL);
		} else {
			void *data[MAX_RECEIVES], *memories[MAX_RECEIVES], *request = NULL;
			int tags[MAX_RECEIVES];
			size_t room[MAX_RECEIVES];

			memset(b, 0xee, MAX_RECEIVES * ROOM);
			for (int i = 0; i < n; i++) {
				data[i] = b + i * ROOM;
				memories[i] = m;
				tags[i] = 100 + i;
				room[i] = size[i] + 100;
			}
			UNTIL(request, OK(irecv(s->comm, n, data, room, tags, memories, &request)));
			finish(request, got);
			for (int i = 0; i < n; i++) {
				if (got[i] != (int)size[i])
					FAIL("buffer %d: size %d, expected %zu", i, got[i], size[i]);
				check(data[i], size[i], (uint32_t)(round * 8 + i));
				untouched((uint8_t *)data[i] + size[i], 100);
			}
		}
		barrier(s);
	}
	if (!s->sender) {
		void *data[MAX_RECEIVES + 1] = {0}, *request = NULL;
		size_t size[MAX_RECEIVES + 1] = {0};
		int tags[MAX_RECEIVES + 1] = {0};

		EXPECT(irecv(s->comm, MAX_RECEIVES + 1, data, size, tags, data, &request), NCCL_INVALID_ARGUMENT);
	}
	close_both(s);
	OK(deregister(NULL, m));
	free(b);
}

/* As many as there may be, of sizes that differ, over and over. */
static void outstanding(struct side *s)
{
	enum { ROOM = 150000, MESSAGES = 300 };
	uint8_t *b = malloc((size_t)RECEIVES * ROOM);
	void *requests[RECEIVES] = {0}, *m;
	uint32_t seed = 12345;
	size_t size[MESSAGES];

	for (int i = 0; i < MESSAGES; i++)
		size[i] = draw(&seed) % (i % 3 ? 3000 : ROOM);
	connect_both(s);
	m = memory_of(s, b, (size_t)RECEIVES * ROOM);
	if (s->sender) {
		void *none = NULL;

		OK(isend(s->comm, b, 1, 1, m, &none));
		if (none)
			FAIL("a send began before there is a receive");
	}
	barrier(s);
	for (int i = 0; i < MESSAGES; i++) {
		int at = i % RECEIVES, got = -1;
		uint8_t *p = b + (size_t)at * ROOM;

		if (i >= RECEIVES) {
			finish(requests[at], &got);
			if (got != (int)size[i - RECEIVES])
				FAIL("message %d: size %d, expected %zu", i - RECEIVES, got, size[i - RECEIVES]);
			if (!s->sender)
				check(p, size[i - RECEIVES], (uint32_t)(i - RECEIVES));
		}
		if (s->sender) {
			fill(p, size[i], (uint32_t)i);
			requests[at] = start_send(s, p, size[i], i, m);
		} else {
			requests[at] = start_receive(s, p, ROOM, i, m);
			if (i == RECEIVES - 1) {
				void *data = b, *none;
				size_t one = 1;
				int tag = 1;

				OK(irecv(s->comm, 1, &data, &one, &tag, &m, &none));
				if (none)
					FAIL("there are %d receives outstanding", RECEIVES + 1);
			}
		}
	}
	for (int i = MESSAGES; i < MESSAGES + RECEIVES; i++) {
		int at = i % RECEIVES;

		finish(requests[at], NULL);
		if (!s->sender)
			check(b + (size_t)at * ROOM, size[i - RECEIVES], (uint32_t)(i - RECEIVES));
	}
	close_both(s);
	OK(deregister(NULL, m));
	free(b);
}

/* Memory of a GPU is flushed, which a Read does on any memory; that of the host needs none. */
static void flush(struct side *s)
{
	uint8_t b[4096];
	void *data = b, *m = NULL, *host = NULL, *request = NULL;
	int size = sizeof b, none = 0;

	connect_both(s);
	OK(register_memory(s->comm, b, sizeof b, NCCL_PTR_CUDA, &m));
	OK(register_memory(s->comm, b, sizeof b, NCCL_PTR_HOST, &host));
	if (s->sender) {
		fill(b, sizeof b, 3);
		finish(start_send(s, b, sizeof b, 1, m), NULL);
	} else {
		finish(start_receive(s, b, sizeof b, 1, m), NULL);
		UNTIL(request, OK(iflush(s->comm, 1, &data, &size, &m, &request)));
		finish(request, NULL);
		check(b, sizeof b, 3);
		request = b;
		OK(iflush(s->comm, 1, &data, &size, &host, &request));
		if (request)
			FAIL("memory of the host was flushed");
		OK(iflush(s->comm, 1, &data, &none, &m, &request));
		if (request)
			FAIL("nothing was flushed");
	}
	EXPECT(register_memory(s->comm, b, sizeof b, 8, &request), NCCL_INVALID_ARGUMENT);
	close_both(s);
	OK(deregister(NULL, m));
	OK(deregister(NULL, host));
}

/* fails waits until a request fails. */
static void fails(void *request)
{
	nccl_result r = NCCL_SUCCESS;
	int done = 0;

	UNTIL(r || done, r = test(request, &done, NULL));
	if (done)
		FAIL("a request is done though its peer has gone");
	EXPECT(r, NCCL_REMOTE_ERROR);
}

/* One side closes while requests are outstanding: the other hears of it. */
static void closing(struct side *s)
{
	static uint8_t b[2][1 << 20];
	void *m, *request;

	connect_both(s);
	m = memory_of(s, b[s->sender], sizeof b[0]);
	if (s->sender) {
		barrier(s);
		OK(close_send(s->comm));
	} else {
		request = start_receive(s, b[0], sizeof b[0], 1, m);
		barrier(s);
		fails(request);
		OK(close_recv(s->comm));
	}
	OK(deregister(NULL, m));
	s->comm = NULL;
	barrier(s);
	connect_both(s);
	m = memory_of(s, b[s->sender], sizeof b[0]);
	if (!s->sender) { /* the first is answered, the others are left */
		start_receive(s, b[0], sizeof b[0], 1, m);
		start_receive(s, b[0], sizeof b[0], 2, m);
		barrier(s);
		OK(close_recv(s->comm));
	} else {
		nccl_result r = NCCL_SUCCESS;

		barrier(s);
		UNTIL(r, r = isend(s->comm, b[1], 1, 9, m, &request));
		EXPECT(r, NCCL_REMOTE_ERROR);
		OK(close_send(s->comm));
	}
	OK(deregister(NULL, m));
	s->comm = NULL;
	barrier(s);
}

/* One side goes before a connection is complete: the other hears of it. */
static void half(struct side *s)
{
	nccl_result r = NCCL_SUCCESS;
	int fd;

	begin_connection(s);
	if (s->sender)
		OK(connect_to(s->context, s->device, s->handle, &s->comm));
	barrier(s);
	if (!s->sender) {
		OK(accept_from(s->listener, &s->comm));
		OK(close_listen(s->listener));
		s->listener = NULL;
	}
	barrier(s);
	if (s->sender) {
		UNTIL(r, r = connect_to(s->context, s->device, s->handle, &s->comm));
		EXPECT(r, NCCL_REMOTE_ERROR);
	}
	s->comm = NULL;
	barrier(s);
	begin_connection(s);
	if (s->sender) { /* introduces itself, and goes */
		struct {
			uint64_t magic, nonce, wire;
			uint32_t version;
			uint8_t qps, members, mtu[4], rest[6 + 4 * 16 + 4 * 4 + 2 * 16 * 4];
		} hello = {htobe64(0x536c756963654e43), 0, 0, htobe32(3), 1, 1, {3}, {0}};
		struct sockaddr_in a = {.sin_family = AF_INET};

		memcpy(&hello.nonce, s->handle + 8, 8);
		hello.nonce = htobe64(hello.nonce);
		memcpy(&a.sin_port, s->handle + 22, 2);
		memcpy(&a.sin_addr, s->handle + 24 + 12, 4); /* of ::ffff:a.b.c.d */
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(fd, (void *)&a, sizeof a) || send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
			FAIL("no connection: %s", strerror(errno));
		barrier(s);
		close(fd);
	} else {
		barrier(s);
		UNTIL(r, r = accept_from(s->listener, &s->comm));
		if (s->comm)
			FAIL("a connection to nobody is complete");
		OK(close_listen(s->listener));
		s->listener = NULL;
	}
	barrier(s);
}

/* The sender lies about what it has sent: the receiver hears of an error, and of no size beyond its buffers. */
static void lying_sender(struct side *s)
{
	enum { ROOM = 100 };
	static uint8_t b[2 * ROOM];

	for (int lie = 0; lie < END_LIES; lie++) {
		void *data[2] = {b, b + ROOM}, *m, *memories[2], *request = NULL;
		size_t rooms[2] = {ROOM, ROOM};
		int tags[2] = {1, 2}, done = 0, sizes[MAX_RECEIVES];
		nccl_result r = NCCL_SUCCESS;

		connect_both(s);
		m = memory_of(s, b, sizeof b);
		memories[0] = memories[1] = m;
		if (s->sender) {
			UNTIL(lie_cleared(s->comm), OK(isend(s->comm, b, 1, 99, m, &request)));
			OK(lie_end(s->comm, lie, ROOM));
		} else {
			UNTIL(request, OK(irecv(s->comm, 2, data, rooms, tags, memories, &request)));
			UNTIL(r || done, r = test(request, &done, sizes));
			if (r != NCCL_REMOTE_ERROR || done)
				FAIL("lie %d: got %d, done %d, size %d", lie, r, done, done ? sizes[0] : 0);
		}
		close_both(s);
		OK(deregister(NULL, m));
	}
}

/* The receiver lies about its buffers: the sender hears of an error. */
static void lying_receiver(struct side *s)
{
	static uint8_t b[64];

	for (int lie = 0; lie < CLEAR_LIES; lie++) {
		void *m, *request = NULL;
		nccl_result r = NCCL_SUCCESS;

		connect_both(s);
		m = memory_of(s, b, sizeof b);
		if (s->sender) {
			UNTIL(r || request, r = isend(s->comm, b, 1, 1, m, &request));
			if (r != NCCL_REMOTE_ERROR)
				FAIL("lie %d: got %d", lie, r);
		} else {
			OK(lie_clear(s->comm, lie));
		}
		close_both(s);
		OK(deregister(NULL, m));
	}
}

/* The other process is killed in the midst. */
static void death(struct side *s)
{
	static uint8_t b[4 << 20];
	void *m;

	if (one_process)
		return;
	connect_both(s);
	m = memory_of(s, b, sizeof b);
	if (s->sender) {
		for (int i = 0; i < 4; i++)
			start_send(s, b, sizeof b, 1, m);
		kill(getpid(), SIGKILL);
	}
	void *requests[8];
	int done = 0;
	nccl_result r = NCCL_SUCCESS;

	for (int i = 0; i < 8; i++)
		requests[i] = start_receive(s, b, sizeof b, 1, m);
	UNTIL(r, r = test(requests[7], &done, NULL));
	EXPECT(r, NCCL_REMOTE_ERROR);
	OK(close_recv(s->comm));
	OK(deregister(NULL, m));
}

/* rate measures messages of a size, with as many outstanding as NCCL has steps. */
static void rate(struct side *s)
{
	enum { STEPS = 8 };
	const char *given = getenv("RATE_SIZE"), *number = getenv("RATE_MESSAGES");
	size_t size = given ? strtoul(given, NULL, 10) : 512 << 10;
	int messages = number ? atoi(number) : 400;
	uint8_t *b = calloc(STEPS, size);
	void *requests[STEPS], *m;
	double began = 0;

	connect_both(s);
	m = memory_of(s, b, STEPS * size);
	barrier(s);
	for (int i = 0; i < messages + STEPS; i++) {
		if (i >= STEPS)
			finish(requests[i % STEPS], NULL);
		if (i == messages / 4) /* what is before finds the balance */
			began = seconds();
		if (i < messages)
			requests[i % STEPS] = s->sender ? start_send(s, b + i % STEPS * size, size, 1, m) : start_receive(s, b + i % STEPS * size, size, 1, m);
		if (i == messages - 1 && !s->sender)
			printf("rate %.4f Gbit/s\n", (messages - messages / 4 - 1) * 8e-9 * size / (seconds() - began));
	}
	close_both(s);
	OK(deregister(NULL, m));
	free(b);
}

/* Something fails, of all that a connection does: a call says so, or the peer's do, and no call hangs. */
static void broken(struct side *s)
{
	enum { MESSAGES = 20, SIZE = 300000 };
	uint8_t *b = malloc(SIZE);
	void *m = NULL, *request = NULL;
	nccl_result r = NCCL_SUCCESS;
	char peer;

	begin_connection(s);
	UNTIL(r || s->comm, {
		r = s->sender ? connect_to(s->context, s->device, s->handle, &s->comm) : accept_from(s->listener, &s->comm);
		if (recv(s->oob, &peer, 1, MSG_DONTWAIT) == 1)
			r = NCCL_REMOTE_ERROR; /* whoever waits for the peer's calls would do so for ever */
	});
	if (!r)
		r = register_memory(s->comm, b, SIZE, NCCL_PTR_HOST, &m);
	for (int i = 0; i < MESSAGES && !r; i++) {
		void *data = b;
		size_t size = SIZE;
		int tag = 1, done = 0;

		request = NULL;
		UNTIL(r || request, r = s->sender ? isend(s->comm, b, SIZE, 1, m, &request) : irecv(s->comm, 1, &data, &size, &tag, &m, &request));
		if (!r)
			UNTIL(r || done, r = test(request, &done, NULL));
	}
	if (!r)
		FAIL("nothing failed");
	printf("%s: %d\n", s->sender ? "send" : "receive", r);
	tell(s, "", 1);
	if (s->comm)
		OK((s->sender ? close_send : close_recv)(s->comm));
	if (s->listener)
		OK(close_listen(s->listener));
	if (m)
		OK(deregister(NULL, m));
	free(b);
}

/* ---- queue pairs that fail */

enum { MS = 1000000, FAILING_ROOM = 8 << 20 };

struct exchange {
	struct side *s;
	uint8_t *b;
	void *m;
	uint32_t seed;
};

static struct exchange begin_exchange(struct side *s)
{
	struct exchange e = {.s = s, .b = malloc(FAILING_ROOM), .seed = 1};

	connect_both(s);
	e.m = memory_of(s, e.b, FAILING_ROOM);
	return e;
}

/* stop ends without the barrier that both sides of a connection that works come to. */
static void stop(struct exchange *e)
{
	fault_clear(e->s->comm, -1);
	barrier(e->s);
	OK((e->s->sender ? close_send : close_recv)(e->s->comm));
	e->s->comm = NULL;
	OK(deregister(NULL, e->m));
	free(e->b);
}

/* messages exchanges some, with as many outstanding as there is room for; each is checked. Between posting and waiting
 * the sides do what they are told. */
static void messages(struct exchange *e, int n, size_t size, void (*during)(struct side *))
{
	void *requests[RECEIVES];

	for (int i = 0; i < n; i++) {
		uint8_t *b = e->b + i * (size + 16);

		if (e->s->sender)
			fill(b, size, e->seed + i);
		else
			memset(b, 0xee, size + 16);
		requests[i] = e->s->sender ? start_send(e->s, b, size, i, e->m) : start_receive(e->s, b, size, i, e->m);
	}
	if (during)
		during(e->s);
	for (int i = 0; i < n; i++) {
		int got = -1;

		finish(requests[i], &got);
		if (got != (int)size)
			FAIL("message %d: size %d, expected %zu", i, got, size);
	}
	for (int i = 0; i < n && !e->s->sender; i++) {
		check(e->b + i * (size + 16), size, e->seed + i);
		untouched(e->b + i * (size + 16) + size, 16);
	}
	e->seed += n;
}

/* lost sends messages until one fails, or waits for that. */
static void lost(struct exchange *e)
{
	nccl_result r = NCCL_SUCCESS;
	void *request = NULL, *data = e->b;
	size_t size = 1 << 20;
	int tag = 1, done = 0;

	UNTIL(r, {
		if (!request)
			r = e->s->sender ? isend(e->s->comm, e->b, size, tag, e->m, &request) : irecv(e->s->comm, 1, &data, &size, &tag, &e->m, &request);
		done = 0;
		if (!r && request)
			r = test(request, &done, NULL);
		if (done)
			request = NULL;
	});
	EXPECT(r, NCCL_REMOTE_ERROR);
}

/* lane_is exchanges messages until the sender's lane is up, or has failed, after which it may be up again. */
static void lane_is(struct exchange *e, int lane, bool up)
{
	double began = seconds();
	char there = 0;

	for (;;) {
		if (e->s->sender) {
			there = up ? fault_up(e->s->comm, lane) : !fault_up(e->s->comm, lane) || fault_epoch(e->s->comm, lane);
			tell(e->s, &there, 1);
		} else {
			hear(e->s, &there, 1);
		}
		if (there)
			return;
		if (seconds() - began > WAIT)
			FAIL("lane %d is not %s within %d s", lane, up ? "up" : "down", WAIT);
		messages(e, 1, 100, NULL);
	}
}

/* What ends a work decides: a path or port that has failed, or what no other does better. */
static void fault_statuses(struct side *s)
{
	static const struct {
		int status;
		bool fatal;
	} all[] = {{STATUS_FLUSH, false}, {STATUS_RETRY, false}, {STATUS_REM_ACCESS, true}, {STATUS_GENERAL, true}, {STATUS_LOC_PROT, true}, {STATUS_REM_OP, true}};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (int kind = DEAD; kind <= UNACKED; kind++) {
			struct exchange e = begin_exchange(s);

			messages(&e, 4, 200000, NULL);
			if (s->sender)
				fault_arm(s->comm, 0, kind, all[i].status, 0, false);
			barrier(s);
			if (all[i].fatal)
				lost(&e);
			else
				for (int k = 0; k < 10; k++)
					messages(&e, 4, 400000, NULL);
			if (!all[i].fatal)
				lane_is(&e, 0, false);
			stop(&e);
		}
}

/* Either side's queue pair goes to ERR, whichever it is. */
static void fault_each(struct side *s)
{
	for (int side = 0; side < 3; side++) {
		struct exchange e = begin_exchange(s);

		for (int lane = 0; lane < fault_lanes(s->comm) - 1; lane++) {
			messages(&e, 3, 300000, NULL);
			if (side == 2 || side == s->sender)
				fault_error(s->comm, lane);
			messages(&e, 3, 300000, NULL);
			messages(&e, 1, 0, NULL);
			lane_is(&e, lane, false);
		}
		stop(&e);
	}
}

static void error_first(struct side *s)
{
	if (s->sender)
		fault_error(s->comm, 0);
}

/* Four requests are outstanding as one fails, and then thirty-two. */
static void fault_in_flight(struct side *s)
{
	struct exchange e = begin_exchange(s);

	messages(&e, 4, 1000000, error_first);
	lane_is(&e, 0, false);
	if (s->sender)
		fault_arm(s->comm, 1, UNACKED, STATUS_RETRY, MS, false);
	messages(&e, RECEIVES, 200000, NULL);
	lane_is(&e, 1, false);
	stop(&e);
}

/* A device's port: all queue pairs of each in turn, with a large message under way, and then of all. */
static void fault_device(struct side *s)
{
	for (int kind = DEAD; kind <= UNACKED; kind++)
		for (int member = 0; member < 2; member++) {
			struct exchange e = begin_exchange(s);

			if (fault_members(s->comm) < 2)
				FAIL("one device");
			messages(&e, 1, 4 << 20, NULL);
			for (int lane = member; lane < fault_lanes(s->comm) && s->sender; lane += 2)
				fault_arm(s->comm, lane, kind, STATUS_RETRY, MS, false);
			messages(&e, 1, 4 << 20, NULL);
			messages(&e, 4, 1 << 20, NULL);
			for (int lane = member; lane < fault_lanes(s->comm); lane += 2)
				lane_is(&e, lane, false);
			stop(&e);
		}
}

/* All queue pairs fail, and what takes their places while others are still up: both sides hear of it. So with one there is. */
static void fault_all(struct side *s)
{
	for (int kind = -1; kind <= UNACKED; kind++)
		for (int side = 0; side < 2; side++) {
			struct exchange e = begin_exchange(s);

			messages(&e, 1, 300000, NULL);
			barrier(s);
			for (int lane = 0; lane < fault_lanes(s->comm) && s->sender == side; lane++)
				if (kind < 0)
					fault_error(s->comm, lane);
				else
					fault_arm(s->comm, lane, kind, STATUS_RETRY, MS, true);
			lost(&e);
			stop(&e);
		}
}

static void fault_device_lanes(struct side *s, int of, bool error)
{
	int members = fault_members(s->comm);

	for (int lane = of; lane < fault_lanes(s->comm); lane += members)
		if (error)
			fault_error(s->comm, lane);
}

/* Queue pairs that failed on both sides come back, and carry messages. */
static void fault_back(struct side *s)
{
	for (int member = 0; member < 2; member++) {
		struct exchange e = begin_exchange(s);
		int devices = fault_members(s->comm), at = member % devices;

		for (int round = 0; round < 3; round++) {
			messages(&e, 2, 300000, NULL);
			if (fault_lanes(s->comm) > devices && devices > 1)
				fault_device_lanes(s, at, true);
			else
				fault_error(s->comm, member);
			messages(&e, 2, 300000, NULL);
			lane_is(&e, devices > 1 ? at : member, true);
			for (int i = 0; i < 20; i++)
				messages(&e, 4, 400000, NULL);
		}
		if (s->sender && (fault_epoch(s->comm, devices > 1 ? at : member) < 3 || !fault_used(s->comm, devices > 1 ? at : member)))
			FAIL("lane %d: epoch %u", member, fault_epoch(s->comm, member));
		stop(&e);
	}
}

/* One whose path stays dead is tried again and again; messages go by the others. It comes back when the path does. */
static void fault_pending(struct side *s)
{
	struct exchange e = begin_exchange(s);
	double began = seconds();
	char enough = 0;

	messages(&e, 2, 300000, NULL);
	if (s->sender)
		fault_arm(s->comm, 0, DEAD, STATUS_RETRY, MS / 10, true);
	lane_is(&e, 0, false);
	while (!enough) {
		if (s->sender) {
			if (fault_up(s->comm, 0))
				FAIL("a dead path is up");
			enough = fault_epoch(s->comm, 0) >= 3;
			tell(s, &enough, 1);
		} else {
			hear(s, &enough, 1);
		}
		messages(&e, 4, 50000, NULL);
		if (seconds() - began > WAIT)
			FAIL("it was not tried three times");
	}
	if (s->sender)
		fault_clear(s->comm, 0);
	lane_is(&e, 0, true);
	messages(&e, 4, 300000, NULL);
	stop(&e);
}

/* Without failback one that has failed stays so. */
static void fault_no_back(struct side *s)
{
	struct exchange e = begin_exchange(s);
	double began = seconds();
	char enough = 0;

	messages(&e, 2, 300000, NULL);
	error_first(s);
	lane_is(&e, 0, false);
	while (!enough) { /* fifty times the time to the first try */
		if (s->sender) {
			enough = seconds() - began > 0.05;
			tell(s, &enough, 1);
		} else {
			hear(s, &enough, 1);
		}
		messages(&e, 4, 50000, NULL);
	}
	if (s->sender && (fault_up(s->comm, 0) || fault_epoch(s->comm, 0)))
		FAIL("it was tried");
	stop(&e);
}

/* With failover off the first failure is an error. */
static void fault_no_over(struct side *s)
{
	struct exchange e = begin_exchange(s);

	messages(&e, 2, 300000, NULL);
	barrier(s);
	error_first(s);
	lost(&e);
	stop(&e);
}

/* A queue pair that takes no request is an error, of all or one of them. */
static void fault_refused(struct side *s)
{
	for (int lanes = 1; lanes <= 4; lanes += 3) {
		struct exchange e = begin_exchange(s);
		nccl_result r = NCCL_SUCCESS;
		void *request = NULL;
		int done;

		messages(&e, 2, 300000, NULL);
		barrier(s);
		for (int i = 0; i < lanes && i < fault_lanes(s->comm) && s->sender; i++)
			fault_arm(s->comm, i, REFUSED, 0, 0, false);
		if (s->sender) {
			UNTIL(r, {
				if (!request)
					r = isend(s->comm, e.b, 1 << 20, 1, e.m, &request);
				else
					r = test(request, &done, NULL);
			});
			EXPECT(r, NCCL_SYSTEM_ERROR);
		} else {
			lost(&e);
		}
		stop(&e);
	}
}

/* A slow queue pair gets less than its share, and what goes over it arrives. */
static void fault_slow(struct side *s)
{
	struct exchange e = begin_exchange(s);

	if (s->sender)
		fault_arm(s->comm, 0, SLOW, 0, 2 * MS, false);
	for (int i = 0; i < 50; i++)
		messages(&e, 4, 300000, NULL);
	if (s->sender && (!fault_up(s->comm, 0) || fault_epoch(s->comm, 0)))
		FAIL("a slow queue pair was given up");
	stop(&e);
}

/* The receiver is not called any more when the sender's last acknowledgements are lost: it learns that all has arrived. */
static void fault_idle(struct side *s)
{
	for (int lane = 0; lane < 2; lane++) {
		struct exchange e = begin_exchange(s);
		void *request;

		messages(&e, 2, 300000, NULL);
		if (s->sender) {
			fault_arm(s->comm, lane, UNACKED, STATUS_RETRY, MS, false);
			request = start_send(s, e.b, 500000, 1, e.m);
			finish(request, NULL);
		} else {
			finish(start_receive(s, e.b, 500000, 1, e.m), NULL);
		}
		stop(&e);
	}
}

/* The network has taken the receiver's socket, and then the peer is gone: queue pairs show it. */
static void fault_deaf(struct side *s)
{
	struct exchange e = begin_exchange(s);

	messages(&e, 2, 300000, NULL);
	if (!s->sender)
		fault_deafen(s->comm);
	messages(&e, 2, 300000, NULL);
	for (int i = 0; i < fault_lanes(s->comm) && s->sender; i++)
		fault_error(s->comm, i);
	barrier(s);
	if (!s->sender) {
		nccl_result r = NCCL_SUCCESS;
		void *request = start_receive(s, e.b, 1000, 1, e.m);
		int done;

		UNTIL(r, r = test(request, &done, NULL));
		EXPECT(r, NCCL_REMOTE_ERROR);
	}
	stop(&e);
}

/*
 * late goes on for LATE_MS, with a path that holds packets for longer than a queue pair waits, and then delivers them. What
 * the receiver has got it uses for other things at once, which no late packet may change. In the end all is up again.
 */
static void late(struct side *s)
{
	enum { BUFFERS = 8, SIZE = 256 << 10, MINE = 0x11 };
	const char *given = getenv("LATE_MS");
	double until = seconds() + (given ? atof(given) : 60) * 1e-3, longest = 0, last = 0;
	struct exchange e = begin_exchange(s);
	char more = 1, well = 0;
	int i = 0, again = 0;

	memset(e.b, MINE, BUFFERS * SIZE);
	while (more) {
		uint8_t *b = e.b + (size_t)(i % BUFFERS) * SIZE;

		if (s->sender) {
			well = 1;
			again = 0;
			for (int lane = 0; lane < fault_lanes(s->comm); lane++) {
				well &= fault_up(s->comm, lane);
				again += fault_epoch(s->comm, lane) != 0;
			}
			more = seconds() < until || !well;
			if (seconds() > until + WAIT)
				FAIL("not all queue pairs are up");
			fill(b, SIZE, (uint32_t)i);
			last = seconds();
			finish(start_send(s, b, SIZE, i, e.m), NULL);
			longest = seconds() - last > longest ? seconds() - last : longest;
			usleep(200);
			tell(s, &more, 1);
		} else {
			for (size_t k = 0; k < SIZE; k++)
				if (b[k] != MINE)
					FAIL("message %d, byte %zu: memory that is used again was written, %#x", i, k, b[k]);
			finish(start_receive(s, b, SIZE, i, e.m), NULL);
			check(b, SIZE, (uint32_t)i);
			memset(b, MINE, SIZE);
			hear(s, &more, 1);
		}
		i++;
	}
	for (size_t k = 0; k < BUFFERS * SIZE && !s->sender; k++)
		if (e.b[k] != MINE)
			FAIL("byte %zu: memory that is used again was written, %#x", k, e.b[k]);
	if (s->sender)
		printf("late: %d messages, %d queue pairs came back, longest %.6f ms\n", i, again, longest * 1e3);
	stop(&e);
}

/*
 * storm does random things to queue pairs while random messages go, by seed: STORM_FIRST and STORM_SEEDS. One queue pair
 * is spared in nine of ten seeds, and then all messages arrive. In the others each side may hear of an error instead.
 */
static void storm(struct side *s)
{
	const char *first = getenv("STORM_FIRST"), *number = getenv("STORM_SEEDS");
	uint32_t from = first ? strtoul(first, NULL, 10) : 1, seeds = number ? strtoul(number, NULL, 10) : 20;
	unsigned survived = 0, ended = 0, faults = 0, back = 0;

	for (uint32_t seed = from; seed < from + seeds; seed++) {
		uint32_t both = seed * 2654435761u | 1, own = (seed * 2246822519u + (s->sender ? 77 : 0)) | 1;
		struct exchange e;
		bool failed = false;
		int spared, rounds;

		for (int i = 0; i < 20; i++)
			draw(&both), draw(&own);
		e = begin_exchange(s);
		e.seed = seed;
		spared = draw(&both) % 10 ? (int)(draw(&both) % fault_lanes(s->comm)) : -1;
		rounds = 3 + draw(&both) % 6;
		for (int round = 0; round < rounds && !failed; round++) {
			int n = 1 + draw(&both) % 8;
			size_t sizes[8];
			void *requests[8] = {0};
			nccl_result r = NCCL_SUCCESS;

			for (int i = 0; i < n; i++) {
				uint32_t kind = draw(&both) % 8;

				sizes[i] = !kind ? 0 : kind < 4 ? draw(&both) % 5000 : draw(&both) % 500000;
			}
			for (int k = draw(&own) % 3; k > 0; k--) {
				int lane = (int)(draw(&own) % fault_lanes(s->comm)), kind = (int)(draw(&own) % 4);

				if (lane == spared)
					continue;
				faults++;
				if (kind == 3)
					fault_error(s->comm, lane);
				else
					fault_arm(s->comm, lane, kind, draw(&own) % 2 ? STATUS_RETRY : STATUS_FLUSH, draw(&own) % (MS / 2), false);
			}
			for (int i = 0; i < n && !r; i++) {
				uint8_t *b = e.b + (size_t)i * (FAILING_ROOM / 8), *data = b;
				size_t room = sizes[i] + 64;
				int tag = i;

				if (s->sender)
					fill(b, sizes[i], e.seed + i);
				else
					memset(b, 0xee, room);
				UNTIL(requests[i] || r, {
					r = s->sender ? isend(s->comm, b, sizes[i], i, e.m, &requests[i]) :
							irecv(s->comm, 1, (void **)&data, &sizes[i], &tag, &e.m, &requests[i]);
				});
			}
			for (int i = 0; i < n && !r; i++) {
				int done = 0;

				UNTIL(done || r, r = test(requests[i], &done, NULL));
				if (done && !s->sender) {
					check(e.b + (size_t)i * (FAILING_ROOM / 8), sizes[i], e.seed + i);
					untouched(e.b + (size_t)i * (FAILING_ROOM / 8) + sizes[i], 64);
				}
			}
			e.seed += n;
			failed = r != NCCL_SUCCESS;
			if (failed && (spared >= 0 || r != NCCL_REMOTE_ERROR))
				FAIL("seed %u, round %d: error %d, with queue pair %d spared", seed, round, r, spared);
		}
		for (int i = 0; i < fault_lanes(s->comm) && !failed; i++)
			back += s->sender && fault_up(s->comm, i) && fault_epoch(s->comm, i);
		survived += !failed;
		ended += failed;
		if (failed) { /* what the other waits for ends, too */
			fault_clear(s->comm, -1);
			OK((s->sender ? close_send : close_recv)(s->comm));
			s->comm = NULL;
			OK(deregister(NULL, e.m));
			free(e.b);
			barrier(s);
		} else {
			stop(&e);
		}
	}
	if (s->sender)
		printf("storm: seeds %u to %u: %u survived, %u ended with an error, %u faults of the sender, %u queue pairs were back at the end\n", from, from + seeds - 1,
		       survived, ended, faults, back);
}

static const struct {
	const char *name;
	void (*run)(struct side *);
} tests[] = {
	{"list", list}, {"properties", properties}, {"broken", broken}, {"order", order}, {"refused", refused}, {"sizes", sizes}, {"multi", multi}, {"outstanding", outstanding},
	{"flush", flush}, {"closing", closing}, {"half", half}, {"rate", rate}, {"death", death},
	{"lying_sender", lying_sender}, {"lying_receiver", lying_receiver},
	{"fault_statuses", fault_statuses}, {"fault_each", fault_each}, {"fault_in_flight", fault_in_flight}, {"fault_device", fault_device},
	{"fault_all", fault_all}, {"fault_back", fault_back}, {"fault_pending", fault_pending}, {"fault_no_back", fault_no_back}, {"fault_no_over", fault_no_over},
	{"fault_refused", fault_refused}, {"fault_slow", fault_slow}, {"fault_idle", fault_idle}, {"late", late}, {"fault_deaf", fault_deaf}, {"storm", storm},
};

static char **names;
static int count;

static void *run(void *arg)
{
	struct side *s = arg;

	for (int k = 0; k < count; k++) {
		bool found = false;

		for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
			if (!strcmp(tests[i].name, names[k])) {
				found = true;
				running = tests[i].name;
				tests[i].run(s);
				if (!simulated && s->sender == one_process)
					printf("v%d %s\n", version, running);
			}
		if (!found)
			FAIL("there is no test %s", names[k]);
	}
	return NULL;
}

static int devices(void)
{
	int n = 0;

	OK(TABLE(devices)(&n));
	return n;
}

/* own_device is the one that a side uses: the receiver's the first, and the sender's the second, if there are two; or
 * HARNESS_MERGE makes one of several for it. */
static int own_device(bool sender)
{
	const char *merge = getenv("HARNESS_MERGE");
	int n = devices(), made = -1;
	nccl_members_v12 v12 = {.count = merge ? atoi(merge) : 0};
	nccl_members_v9 v9 = {.count = v12.count};

	if (!merge || version < 9)
		return sender && n > 1;
	for (int i = 0; i < v12.count; i++)
		v9.devices[i] = v12.devices[i] = i + (sender && n >= 2 * v12.count ? v12.count : 0);
	if (version == 12)
		OK(net.v12->make_device(&made, &v12));
	else
		OK((version == 9 ? net.v9->make_device : version == 10 ? net.v10->make_device : net.v11->make_device)(&made, &v9));
	if (devices() != n + 1 || made != n)
		FAIL("device %d was made, of %d", made, devices());
	return made;
}

/* What the sanitizer finds lost at the end it names only in libraries that are still there. */
static void unload(void)
{
#ifndef __SANITIZE_ADDRESS__
	dlclose(library);
#endif
}

static void end_plugin(void *context)
{
	OK(finalize(context));
	unload();
}

static void one_side(struct side *s, const char *plugin)
{
	void *extra;

	load(plugin);
	OK(init(&s->context));
	OK(init(&extra)); /* again, for another communicator */
	s->device = own_device(s->sender);
	run(s);
	OK(finalize(extra));
	end_plugin(s->context);
}

static int tcp_listen(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7777)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), peer;

	if (bind(fd, (void *)&a, sizeof a) || listen(fd, 1) || (peer = accept(fd, NULL, NULL)) < 0)
		FAIL("%s", strerror(errno));
	return peer;
}

static int tcp_connect(const char *host)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (getaddrinfo(host, "7777", &hints, &found))
		FAIL("%s: %s", host, strerror(errno));
	for (int tries = 0; connect(fd, found->ai_addr, found->ai_addrlen); tries++) { /* the other side may not be there yet */
		if (errno != ECONNREFUSED || tries == WAIT * 100)
			FAIL("%s: %s", host, strerror(errno));
		usleep(10000);
	}
	freeaddrinfo(found);
	return fd;
}

/* ---- an all-reduce in a ring, over TCP on ports from 7800 on */

static int ring_listen(int rank)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7800 + rank)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (void *)&a, sizeof a) || listen(fd, 1))
		FAIL("%s", strerror(errno));
	return fd;
}

static int ring_connect(const char *host, int rank)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7800 + rank)};
	int fd;

	if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
		FAIL("%s is no IPv4 address", host);
	for (int tries = 0;; tries++) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (!connect(fd, (void *)&a, sizeof a))
			return fd;
		if (tries == WAIT * 100)
			FAIL("%s: %s", host, strerror(errno));
		close(fd);
		usleep(10000);
	}
}

struct ring {
	int rank, n;
	struct side in, out;
	uint32_t *data, *came;
	void *data_out, *data_in, *came_in;
	size_t words; /* of a part */
};

/* step sends a part and receives another, which it adds to what is there, or puts in its place. */
static void step(struct ring *r, int sent, int received, bool add)
{
	uint32_t *from = r->data + sent * r->words, *to = r->data + received * r->words;
	size_t size = r->words * sizeof *to;
	void *in = start_receive(&r->in, add ? r->came : to, size, 0, add ? r->came_in : r->data_in);
	void *out = NULL;
	int in_done = 0, out_done = 0;

	UNTIL(in_done && out_done, {
		if (!out)
			OK(isend(r->out.comm, from, size, 0, r->data_out, &out));
		if (out && !out_done)
			OK(test(out, &out_done, NULL));
		if (!in_done)
			OK(test(in, &in_done, NULL));
	});
	for (size_t i = 0; i < r->words && add; i++)
		to[i] += r->came[i];
}

static int longer(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* all_reduce does RING_TIMES of them, of RING_SIZE bytes, and rank 0 prints what they took. After a third of them it makes
 * the file RING_FILE, and from there on takes the time. */
static void all_reduce(const char *plugin, int rank, int n, char **hosts)
{
	const char *times_given = getenv("RING_TIMES"), *size_given = getenv("RING_SIZE"), *file = getenv("RING_FILE");
	int times = times_given ? atoi(times_given) : 30, listening = ring_listen(rank);
	size_t size = size_given ? strtoul(size_given, NULL, 10) : 4 << 20;
	struct ring r = {.rank = rank, .n = n, .out = {.sender = true}, .words = size / sizeof(uint32_t) / n};
	double *took = calloc(times, sizeof *took), all = 0;
	char end;

	load(plugin);
	OK(init(&r.in.context));
	r.out.context = r.in.context;
	r.in.device = r.out.device = own_device(false);
	r.data = malloc(n * r.words * sizeof *r.data);
	r.came = malloc(r.words * sizeof *r.came);
	r.out.oob = ring_connect(hosts[(rank + 1) % n], (rank + 1) % n);
	r.in.oob = accept(listening, NULL, NULL);
	begin_connection(&r.in);
	begin_connection(&r.out);
	UNTIL(r.in.comm && r.out.comm, {
		if (!r.in.comm)
			OK(accept_from(r.in.listener, &r.in.comm));
		if (!r.out.comm)
			OK(connect_to(r.out.context, r.out.device, r.out.handle, &r.out.comm));
	});
	OK(close_listen(r.in.listener));
	r.data_out = memory_of(&r.out, r.data, n * r.words * sizeof *r.data);
	r.data_in = memory_of(&r.in, r.data, n * r.words * sizeof *r.data);
	r.came_in = memory_of(&r.in, r.came, r.words * sizeof *r.came);
	for (int k = 0; k < times; k++) {
		double began = seconds();

		if (k == times / 3 && !rank && file)
			fclose(fopen(file, "w"));
		for (size_t i = 0; i < n * r.words; i++)
			r.data[i] = (uint32_t)(i * 2654435761u + rank + k);
		for (int j = 0; j < n - 1; j++)
			step(&r, (rank + n - j) % n, (rank + 2 * n - j - 1) % n, true);
		for (int j = 0; j < n - 1; j++)
			step(&r, (rank + 1 + n - j) % n, (rank + n - j) % n, false);
		for (size_t i = 0; i < n * r.words; i++)
			if (r.data[i] != (uint32_t)(n * (i * 2654435761u + k) + n * (n - 1) / 2))
				FAIL("rank %d, all-reduce %d, word %zu: %#x", rank, k, i, r.data[i]);
		took[k] = seconds() - began;
		all += took[k];
	}
	if (!rank) {
		double last = took[times - 1];

		qsort(took, times, sizeof *took, longer);
		printf("ring: %d ranks, %d all-reduces of %zu bytes in %.3f s: median %.3f ms, longest %.3f ms, last %.3f ms\n", n, times,
		       n * r.words * sizeof *r.data, all, took[times / 2] * 1e3, took[times - 1] * 1e3, last * 1e3);
	}
	tell(&r.in, "", 1);
	tell(&r.out, "", 1);
	hear(&r.in, &end, 1);
	hear(&r.out, &end, 1);
}

static int ranks(const char *plugin, int first, int count, int n, char **hosts)
{
	int bad = 0, status;

	for (int i = 0; i < count; i++)
		if (!fork()) {
			all_reduce(plugin, first + i, n, hosts);
			_exit(0);
		}
	while (wait(&status) > 0)
		bad |= !WIFEXITED(status) || WEXITSTATUS(status);
	return bad;
}

int main(int argc, char **argv)
{
	struct side sides[2] = {{.sender = false}, {.sender = true}};
	int pair[2];
	const char *mode, *plugin;

	if (argc < 5) {
		fprintf(stderr, "usage: harness PLUGIN VERSION threads|processes|receive|send [HOST] TEST...\n");
		return 2;
	}
	plugin = argv[1];
	version = atoi(argv[2]);
	mode = argv[3];
	names = argv + 4;
	count = argc - 4;
	loud = getenv("HARNESS_LOUD") != NULL;
	largest = getenv("HARNESS_LARGEST") ? strtoul(getenv("HARNESS_LARGEST"), NULL, 10) : largest;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (version < 6 || version > 12)
		FAIL("version %d", version);
	if (!strcmp(mode, "ranks"))
		return ranks(plugin, atoi(argv[4]), atoi(argv[5]), argc - 6, argv + 6);
	if (!strcmp(mode, "receive") || !strcmp(mode, "send")) {
		struct side *s = &sides[!strcmp(mode, "send")];

		simulated = true;
		s->oob = s->sender ? tcp_connect(*names++) : tcp_listen();
		count -= s->sender;
		one_side(s, plugin);
		return 0;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		FAIL("%s", strerror(errno));
	sides[0].oob = pair[0];
	sides[1].oob = pair[1];
	if (!strcmp(mode, "threads")) {
		pthread_t thread;

		one_process = true;
		load(plugin);
		nccl_result r = init(&sides[0].context);
		const char *want = getenv("HARNESS_INIT");

		if (want) {
			EXPECT(r, atoi(want));
			return 0;
		}
		OK(r);
		if (version >= 11)
			OK(init(&sides[1].context));
		sides[0].device = own_device(false);
		sides[1].device = own_device(true);
		pthread_create(&thread, NULL, run, &sides[1]);
		run(&sides[0]);
		pthread_join(thread, NULL);
		if (version >= 11)
			OK(finalize(sides[1].context));
		end_plugin(sides[0].context);
		return 0;
	}
	pid_t child = fork();
	int status;

	close(pair[child != 0]);
	if (!child) {
		one_side(&sides[1], plugin);
		return 0;
	}
	one_side(&sides[0], plugin);
	waitpid(child, &status, 0);
	if (!strcmp(names[count - 1], "death"))
		return !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	return !(WIFEXITED(status) && !WEXITSTATUS(status));
}
