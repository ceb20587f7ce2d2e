/*
 * kv-c: a key-value toy. The server registers a table and then does nothing; the
 * client puts values by RDMA Write and gets them by RDMA Read, over a queue pair
 * that libsluice paces.
 *
 *	server$ kv-c -d rxe0 -g 1
 *	client$ kv-c -d rxe0 -g 1 -e timely SERVER
 *	kv-c -d rxe0 -g 1 -s               server and client in one process
 *
 * What is there to see of libsluice: sluice_create_qp, and sluice_ in place of
 * ibv_ for what touches the queue pair and its completions. All else is libibverbs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sluice.h>

enum { SLOTS = 64, VALUE = 256 << 10 };

struct slot {
	char key[56];
	uint32_t length;
	char value[VALUE];
};

/* What the two ends tell each other over TCP. */
struct hello {
	uint32_t qpn, psn, rkey, unused;
	uint64_t addr;
	union ibv_gid gid;
};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct slot *memory; /* the table, or the client's one slot */
	struct hello mine, peer;
};

static const char *device, *engine, *port = "18516";
static int gid, rounds = 100;
static uint64_t rate;

static void die(const char *what)
{
	fprintf(stderr, "kv-c: %s: %s%s%s\n", what, strerror(errno), *sluice_error() ? ": " : "", sluice_error());
	exit(1);
}

static void open_end(struct end *e, size_t bytes)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	for (int i = 0; list && list[i]; i++)
		if (!device || !strcmp(device, ibv_get_device_name(list[i]))) {
			e->context = ibv_open_device(list[i]);
			break;
		}
	if (list)
		ibv_free_device_list(list);
	if (!e->context)
		die(device ? device : "no RDMA device");
	e->memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	e->pd = ibv_alloc_pd(e->context);
	e->cq = ibv_create_cq(e->context, 16, NULL, NULL, 0);
	if (!e->memory || !e->pd || !e->cq)
		die("set-up");
	memset(e->memory, 0, bytes);
	e->mr = ibv_reg_mr(e->pd, e->memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!e->mr)
		die("ibv_reg_mr");

	struct ibv_qp_init_attr attr = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct sluice_options options;
	sluice_options_init(&options);
	options.engine = engine;
	options.rate = rate;
	e->qp = sluice_create_qp(e->pd, &attr, &options);
	if (!e->qp)
		die("sluice_create_qp");

	/* Whoever guesses the first PSN can send in the peer's name. */
	uint32_t psn;
	if (getrandom(&psn, sizeof psn, 0) != sizeof psn)
		die("getrandom");
	e->mine = (struct hello){.qpn = e->qp->qp_num, .psn = psn & 0xffffff, .rkey = e->mr->rkey, .addr = (uintptr_t)e->memory};
	if (ibv_query_gid(e->context, 1, gid, &e->mine.gid))
		die("ibv_query_gid");
}

static void transfer(int fd, void *data, size_t n, int out)
{
	for (char *p = data; n;) {
		ssize_t r = out ? send(fd, p, n, MSG_NOSIGNAL) : recv(fd, p, n, 0);
		if (r <= 0)
			die("the peer is gone");
		p += r;
		n -= (size_t)r;
	}
}

/* Both ends are of one build and one byte order: a toy. */
static void connect_end(struct end *e, int fd)
{
	transfer(fd, &e->mine, sizeof(e->mine), 1);
	transfer(fd, &e->peer, sizeof(e->peer), 0);
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	if (sluice_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = e->peer.qpn, .rq_psn = e->peer.psn,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = e->peer.gid, .sgid_index = (uint8_t)gid, .hop_limit = 64}},
	};
	if (sluice_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 17, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = e->mine.psn, .max_rd_atomic = 4,
	};
	if (sluice_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			     IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS"); /* here the engine is made */
	char ready = 1;
	transfer(fd, &ready, 1, 1);
	transfer(fd, &ready, 1, 0);
}

static void close_end(struct end *e)
{
	if (sluice_destroy_qp(e->qp) || ibv_dereg_mr(e->mr) || sluice_destroy_cq(e->cq) || ibv_dealloc_pd(e->pd) ||
	    sluice_close_device(e->context))
		die("closing");
	free(e->memory);
}

static unsigned hash(const char *key)
{
	unsigned h = 2166136261u;
	while (*key)
		h = (h ^ (unsigned char)*key++) * 16777619u;
	return h % SLOTS;
}

/* Moves the first n bytes of the client's slot to or from where key lives. */
static void move(struct end *e, enum ibv_wr_opcode opcode, const char *key, uint32_t n)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->memory, .length = n, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = e->peer.addr + hash(key) * sizeof(struct slot);
	wr.wr.rdma.rkey = e->peer.rkey;
	struct ibv_send_wr *bad;
	if ((errno = sluice_post_send(e->qp, &wr, &bad)))
		die("sluice_post_send");
	struct ibv_wc wc;
	int r;
	while (!(r = sluice_poll_cq(e->cq, 1, &wc)))
		;
	if (r < 0 || wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "kv-c: %s\n", r < 0 ? "sluice_poll_cq failed" : ibv_wc_status_str(wc.status));
		exit(1);
	}
}

static void put(struct end *e, const char *key, const char *value, uint32_t n)
{
	struct slot *s = e->memory;
	snprintf(s->key, sizeof(s->key), "%s", key);
	s->length = n;
	memcpy(s->value, value, n);
	move(e, IBV_WR_RDMA_WRITE, key, (uint32_t)offsetof(struct slot, value) + n);
}

/* The value of a key, valid until the next call, or NULL. */
static const char *get(struct end *e, const char *key, uint32_t *n)
{
	struct slot *s = e->memory;
	memset(s, 0, sizeof(*s));
	move(e, IBV_WR_RDMA_READ, key, sizeof(*s));
	if (strcmp(s->key, key) || s->length > VALUE)
		return NULL;
	*n = s->length;
	return s->value;
}

static void client(int fd)
{
	struct end e = {0};
	open_end(&e, sizeof(struct slot));
	connect_end(&e, fd);
	static char value[VALUE];
	char key[32];
	for (int i = 0; i < rounds; i++) {
		uint32_t n = 1 + (uint32_t)i * 7919 % VALUE, got;
		for (uint32_t k = 0; k < n; k++)
			value[k] = (char)(k * 31 + (uint32_t)i);
		snprintf(key, sizeof(key), "key-%d", i);
		put(&e, key, value, n);
		const char *back = get(&e, key, &got);
		if (!back || got != n || memcmp(back, value, n)) {
			fprintf(stderr, "kv-c: %s came back wrong\n", key);
			exit(1);
		}
	}
	struct sluice_stats s = {.size = sizeof(s)};
	if (sluice_query_stats(e.qp, &s))
		die("sluice_query_stats");
	printf("%d puts and %d gets, all as they should be\n", rounds, rounds);
	printf("engine %s, rate %.3f Gbit/s, %lu segments, %lu bytes, round trips p50 %.1f us p99 %.1f us\n", *s.engine ? s.engine : "none",
	       (double)s.rate / 1e9, (unsigned long)s.segments, (unsigned long)s.segment_bytes, (double)s.rtt_p50_ns / 1e3, (double)s.rtt_p99_ns / 1e3);
	char done = 0;
	transfer(fd, &done, 1, 1);
	close_end(&e);
}

static void *server(void *p)
{
	int fd = *(int *)p;
	struct end e = {0};
	open_end(&e, SLOTS * sizeof(struct slot));
	connect_end(&e, fd);
	char done;
	transfer(fd, &done, 1, 0);
	close_end(&e);
	return NULL;
}

/* A connected TCP socket: to host, or from whoever comes first. */
static int meet(const char *host)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE}, *list;
	int r = getaddrinfo(host, port, &hints, &list), one = 1;
	if (r) {
		fprintf(stderr, "kv-c: %s: %s\n", host ? host : port, gai_strerror(r));
		exit(1);
	}
	int fd = socket(list->ai_family, list->ai_socktype, 0);
	if (fd < 0)
		die("socket");
	if (host) {
		if (connect(fd, list->ai_addr, list->ai_addrlen))
			die(host);
		freeaddrinfo(list);
		return fd;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, list->ai_addr, list->ai_addrlen) || listen(fd, 1))
		die(port);
	freeaddrinfo(list);
	int peer = accept(fd, NULL, NULL);
	if (peer < 0)
		die("accept");
	close(fd);
	return peer;
}

int main(int argc, char **argv)
{
	int self = 0;
	for (int c; (c = getopt(argc, argv, "d:g:e:r:n:p:s")) != -1;)
		switch (c) {
		case 'd': device = optarg; break;
		case 'g': gid = atoi(optarg); break;
		case 'e': engine = optarg; break;
		case 'r': rate = strtoull(optarg, NULL, 10); break;
		case 'n': rounds = atoi(optarg); break;
		case 'p': port = optarg; break;
		case 's': self = 1; break;
		default:
			fprintf(stderr, "usage: kv-c [-d DEVICE] [-g GID INDEX] [-e ENGINE] [-r BITS PER SECOND] [-n ROUNDS] [-p PORT] [-s | SERVER]\n");
			return 2;
		}
	if (self) {
		int fds[2];
		pthread_t t;
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) || pthread_create(&t, NULL, server, &fds[0]))
			die("socketpair");
		client(fds[1]);
		pthread_join(t, NULL);
		return 0;
	}
	int fd = meet(argv[optind]);
	if (argv[optind])
		client(fd);
	else
		server(&fd);
	return 0;
}
