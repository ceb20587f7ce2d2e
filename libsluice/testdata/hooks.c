/*
 * What a C program does with libibverbs, test by test: hooks TEST. The same source
 * is an unmodified program, run under libsluice-preload.so, and with SLUICE_API
 * one that calls libsluice itself. Devices are those of package fakeverbs, or all
 * TEST_DEVICE, with the GID TEST_GID.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef SLUICE_API
#include <sluice.h>

static const struct sluice_options *options(void)
{
	static __thread struct sluice_options o;
	sluice_options_init(&o);
	const char *rate = getenv("TEST_RATE");
	o.rate = rate ? strtoull(rate, NULL, 10) : 0;
	o.engine = getenv("TEST_ENGINE");
	o.group = getenv("TEST_GROUP");
	o.segment = 4096;
	return &o;
}

#undef ibv_create_qp_ex
#define ibv_create_qp(pd, a) sluice_create_qp(pd, a, options())
#define ibv_create_qp_ex(c, a) sluice_create_qp_ex(c, a, options())
#define ibv_modify_qp sluice_modify_qp
#define ibv_query_qp sluice_query_qp
#define ibv_destroy_qp sluice_destroy_qp
#define ibv_post_send sluice_post_send
#define ibv_poll_cq sluice_poll_cq
#define ibv_req_notify_cq sluice_req_notify_cq
#define ibv_get_cq_event sluice_get_cq_event
#define ibv_ack_cq_events sluice_ack_cq_events
#define ibv_destroy_cq sluice_destroy_cq
#define ibv_destroy_comp_channel sluice_destroy_comp_channel
#define ibv_close_device sluice_close_device
#endif

#define CHECK(cond) do { if (!(cond)) { fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #cond, errno); exit(1); } } while (0)

enum { SIZE = 1 << 20, DEPTH = 64, LIMIT = 60 };

/* Two queue pairs of one process, connected. */
struct pair {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_srq *srq;
	struct ibv_mr *mr[2];
	uint8_t *buf[2];
};

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list);
	struct ibv_context *ctx = NULL;
	if (getenv("TEST_DEVICE"))
		name = getenv("TEST_DEVICE");
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	CHECK(ctx);
	return ctx;
}

static int to_rts(struct ibv_qp *qp, uint32_t dest)
{
	union ibv_gid gid;
	const char *index = getenv("TEST_GID");
	uint8_t sgid = index ? (uint8_t)atoi(index) : 0;
	CHECK(!ibv_query_gid(qp->context, 1, sgid, &gid));
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
	int r = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (r)
		return r;
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = dest, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = sgid, .hop_limit = 64}}};
	r = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (r)
		return r;
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 17, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			     IBV_QP_MAX_QP_RD_ATOMIC);
}

enum { WITH_CHANNEL = 1, WITH_SRQ = 2, WITH_WR = 4, WITH_EX_CQ = 8, SIG_ALL = 16 };

static struct pair *setup_on(const char *device, int with)
{
	struct pair *p = calloc(1, sizeof(*p));
	p->ctx = open_device(device);
	p->pd = ibv_alloc_pd(p->ctx);
	CHECK(p->pd);
	if (with & WITH_CHANNEL) {
		p->channel = ibv_create_comp_channel(p->ctx);
		CHECK(p->channel);
	}
	if (with & WITH_SRQ) {
		struct ibv_srq_init_attr a = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
		p->srq = ibv_create_srq(p->pd, &a);
		CHECK(p->srq);
	}
	for (int i = 0; i < 2; i++) {
		if (with & WITH_EX_CQ) {
			struct ibv_cq_init_attr_ex a = {.cqe = 4 * DEPTH, .channel = p->channel,
				.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_IMM};
			struct ibv_cq_ex *ex = ibv_create_cq_ex(p->ctx, &a);
			CHECK(ex);
			p->cq[i] = ibv_cq_ex_to_cq(ex);
		} else {
			p->cq[i] = ibv_create_cq(p->ctx, 4 * DEPTH, &p->cq[i], p->channel, 0);
		}
		CHECK(p->cq[i]);
		p->buf[i] = calloc(1, SIZE);
		p->mr[i] = ibv_reg_mr(p->pd, p->buf[i], SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
		CHECK(p->mr[i]);
		struct ibv_qp_init_attr a = {.send_cq = p->cq[i], .recv_cq = p->cq[i], .srq = p->srq, .qp_type = IBV_QPT_RC,
			.sq_sig_all = !!(with & SIG_ALL), .qp_context = p, .cap = {DEPTH, DEPTH, 3, 1, 64}};
		if (with & WITH_WR) {
			struct ibv_qp_init_attr_ex x = {.send_cq = a.send_cq, .recv_cq = a.recv_cq, .srq = a.srq, .cap = a.cap,
				.qp_type = a.qp_type, .sq_sig_all = a.sq_sig_all, .qp_context = p, .pd = p->pd,
				.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
				.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
					IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
					IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP};
			p->qp[i] = ibv_create_qp_ex(p->ctx, &x);
			a.cap = x.cap;
		} else {
			p->qp[i] = ibv_create_qp(p->pd, &a);
		}
		CHECK(p->qp[i]);
		CHECK(a.cap.max_send_wr == DEPTH && a.cap.max_send_sge == 3 && a.cap.max_inline_data == 64);
		CHECK(p->qp[i]->qp_context == p);
	}
	for (int i = 0; i < 2; i++)
		CHECK(!to_rts(p->qp[i], p->qp[!i]->qp_num));
	return p;
}

static struct pair *setup(int with) { return setup_on("fake0", with); }

static void teardown(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_destroy_qp(p->qp[i]));
		CHECK(!ibv_dereg_mr(p->mr[i]));
		free(p->buf[i]);
	}
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_destroy_cq(p->cq[i]));
	if (p->srq)
		CHECK(!ibv_destroy_srq(p->srq));
	if (p->channel)
		CHECK(!ibv_destroy_comp_channel(p->channel));
	CHECK(!ibv_dealloc_pd(p->pd));
	CHECK(!ibv_close_device(p->ctx));
	free(p);
}

static void fill(uint8_t *b, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)((i * 2654435761u >> 8) + seed);
}

static struct ibv_sge piece(struct pair *p, int side, size_t at, uint32_t n)
{
	return (struct ibv_sge){.addr = (uintptr_t)p->buf[side] + at, .length = n, .lkey = p->mr[side]->lkey};
}

static struct ibv_send_wr rdma(struct pair *p, uint64_t id, enum ibv_wr_opcode op, struct ibv_sge *sge, int n, size_t to)
{
	struct ibv_send_wr wr = {.wr_id = id, .opcode = op, .sg_list = sge, .num_sge = n, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = (uintptr_t)p->buf[1] + to;
	wr.wr.rdma.rkey = p->mr[1]->rkey;
	return wr;
}

/* Polls until n completions are there. */
static void await(struct ibv_cq *cq, struct ibv_wc *wc, int n)
{
	time_t end = time(NULL) + LIMIT;
	for (int got = 0; got < n;) {
		int r = ibv_poll_cq(cq, n - got, wc + got);
		CHECK(r >= 0);
		got += r;
		CHECK(time(NULL) < end);
	}
	struct ibv_wc more;
	CHECK(ibv_poll_cq(cq, 1, &more) == 0);
}

static void recv_into(struct pair *p, uint64_t id, size_t at, uint32_t n)
{
	struct ibv_sge s = piece(p, 1, at, n);
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &s, .num_sge = 1}, *bad;
	CHECK(!(p->srq ? ibv_post_srq_recv(p->srq, &wr, &bad) : ibv_post_recv(p->qp[1], &wr, &bad)));
}

/* ---- tests */

/* A list of Writes in pieces, then a Read of all of it. */
static void t_list(void)
{
	struct pair *p = setup(0);
	fill(p->buf[0], SIZE / 2, 1);
	struct ibv_sge s[4][3];
	struct ibv_send_wr wr[4], *bad;
	enum { EACH = SIZE / 2 / 4 };
	for (int i = 0; i < 4; i++) {
		size_t at = (size_t)i * EACH;
		s[i][0] = piece(p, 0, at, 1000);
		s[i][1] = piece(p, 0, at + 1000, 50000);
		s[i][2] = piece(p, 0, at + 51000, EACH - 51000);
		wr[i] = rdma(p, 100 + (uint64_t)i, IBV_WR_RDMA_WRITE, s[i], 3, at);
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	wr[1].send_flags = 0;
	CHECK(!ibv_post_send(p->qp[0], wr, &bad));
	struct ibv_wc wc[4];
	await(p->cq[0], wc, 3);
	const uint64_t ids[] = {100, 102, 103};
	for (int i = 0; i < 3; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == ids[i] && wc[i].opcode == IBV_WC_RDMA_WRITE &&
		      wc[i].qp_num == p->qp[0]->qp_num);
	CHECK(!memcmp(p->buf[0], p->buf[1], SIZE / 2));

	struct ibv_sge back = piece(p, 0, SIZE / 2, SIZE / 2);
	struct ibv_send_wr read = rdma(p, 7, IBV_WR_RDMA_READ, &back, 1, 0);
	CHECK(!ibv_post_send(p->qp[0], &read, &bad));
	await(p->cq[0], wc, 1);
	CHECK(wc[0].status == IBV_WC_SUCCESS && wc[0].opcode == IBV_WC_RDMA_READ && wc[0].byte_len == SIZE / 2);
	CHECK(!memcmp(p->buf[0] + SIZE / 2, p->buf[1], SIZE / 2));
#ifdef SLUICE_API
	struct sluice_stats st = {.size = sizeof(st)};
	CHECK(!sluice_query_stats(p->qp[0], &st));
	CHECK(st.messages == 5 && st.failed == 0 && st.segment_bytes == SIZE && st.segments >= SIZE / 4096 && st.rtt_samples == st.segments);
	st.size = 1;
	CHECK(sluice_query_stats(p->qp[0], &st) == EINVAL && strstr(sluice_error(), "size"));
	CHECK(sluice_query_stats(p->qp[0], NULL) == EINVAL && strstr(sluice_error(), "NULL"));
#endif
	teardown(p);
}

/* The second of three is wrong: the first goes, the others do not. */
static void t_bad_wr(void)
{
	struct pair *p = setup(0);
	struct ibv_sge s[5];
	for (int i = 0; i < 5; i++)
		s[i] = piece(p, 0, 0, 64);
	struct ibv_send_wr wr[3], *bad = NULL;
	for (int i = 0; i < 3; i++) {
		wr[i] = rdma(p, (uint64_t)i, IBV_WR_RDMA_WRITE, s, 1, 0);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	struct ibv_wc wc;
	wr[1].num_sge = 5;
	CHECK(ibv_post_send(p->qp[0], wr, &bad) == EINVAL && bad == &wr[1]);
	await(p->cq[0], &wc, 1);
	wr[1].num_sge = 1;
	wr[1].opcode = IBV_WR_BIND_MW;
	CHECK(ibv_post_send(p->qp[0], wr, &bad) == EINVAL && bad == &wr[1]);
	await(p->cq[0], &wc, 1);
	wr[1].opcode = IBV_WR_RDMA_WRITE;
	wr[1].num_sge = -1;
	CHECK(ibv_post_send(p->qp[0], wr, &bad) == EINVAL && bad == &wr[1]);
	await(p->cq[0], &wc, 1);
	wr[1].num_sge = 1;
	wr[1].send_flags |= IBV_SEND_INLINE;
	s[0].length = 4096;
	wr[0].sg_list = &s[1];
	CHECK(ibv_post_send(p->qp[0], wr, &bad) == EINVAL && bad == &wr[1]);
	await(p->cq[0], &wc, 1);
	CHECK(wc.wr_id == 0 && wc.status == IBV_WC_SUCCESS);
	teardown(p);
}

/* More than the queue holds: what fits is posted. */
static void t_full(void)
{
	struct pair *p = setup(SIG_ALL);
	struct ibv_sge s = piece(p, 0, 0, 8192);
	struct ibv_send_wr wr[DEPTH + 10], *bad = NULL;
	for (int i = 0; i < DEPTH + 10; i++) {
		wr[i] = rdma(p, (uint64_t)i, IBV_WR_RDMA_WRITE, &s, 1, 0);
		wr[i].send_flags = 0;
		wr[i].next = i < DEPTH + 9 ? &wr[i + 1] : NULL;
	}
	CHECK(ibv_post_send(p->qp[0], wr, &bad) == ENOMEM && bad == &wr[DEPTH]);
	struct ibv_wc wc[DEPTH];
	await(p->cq[0], wc, DEPTH);
	for (int i = 0; i < DEPTH; i++)
		CHECK(wc[i].wr_id == (uint64_t)i && wc[i].status == IBV_WC_SUCCESS);
	CHECK(!ibv_post_send(p->qp[0], bad, &bad));
	await(p->cq[0], wc, 10);
	teardown(p);
}

/* Inline data is the program's again at once, in one piece or several. */
static void t_inline(void)
{
	struct pair *p = setup(0);
	char a[] = "hello, ", b[] = "world";
	struct ibv_sge s[2] = {{.addr = (uintptr_t)a, .length = 7}, {.addr = (uintptr_t)b, .length = 5}};
	struct ibv_send_wr wr[20], *bad;
	for (int i = 0; i < 20; i++) {
		wr[i] = rdma(p, (uint64_t)i, IBV_WR_RDMA_WRITE, s, i % 3, (size_t)i * 64);
		wr[i].send_flags |= IBV_SEND_INLINE;
		wr[i].next = i < 19 ? &wr[i + 1] : NULL;
	}
	CHECK(!ibv_post_send(p->qp[0], wr, &bad));
	memset(a, 'x', 7);
	memset(b, 'x', 5);
	struct ibv_wc wc[20];
	await(p->cq[0], wc, 20);
	for (int i = 0; i < 20; i++) {
		static const char *const want[] = {"", "hello, ", "hello, world"};
		CHECK(!strcmp((char *)p->buf[1] + i * 64, want[i % 3]));
	}
	teardown(p);
}

/* Sends, immediate data, atomics; receives come on the same CQ. */
static void two_sided(int with)
{
	struct pair *p = setup(with);
	for (uint64_t i = 0; i < 3; i++)
		recv_into(p, 50 + i, i * 1000, 1000);
	fill(p->buf[0], 1000, 9);
	struct ibv_sge s = piece(p, 0, 0, 1000), w = piece(p, 0, 0, 100000), old = piece(p, 0, SIZE - 8, 8);
	struct ibv_send_wr wr[4] = {
		rdma(p, 1, IBV_WR_SEND, &s, 1, 0), rdma(p, 2, IBV_WR_SEND_WITH_IMM, &s, 1, 0),
		rdma(p, 3, IBV_WR_RDMA_WRITE_WITH_IMM, &w, 1, 200000), rdma(p, 4, IBV_WR_ATOMIC_FETCH_AND_ADD, &old, 1, 0)}, *bad;
	wr[1].imm_data = htonl(0x01020304);
	wr[2].imm_data = htonl(0x0a0b0c0d);
	wr[3].wr.atomic.remote_addr = (uintptr_t)p->buf[1] + SIZE - 8;
	wr[3].wr.atomic.rkey = p->mr[1]->rkey;
	wr[3].wr.atomic.compare_add = 5;
	for (int i = 0; i < 3; i++)
		wr[i].next = &wr[i + 1];
	uint64_t before = 37;
	memcpy(p->buf[1] + SIZE - 8, &before, 8);
	CHECK(!ibv_post_send(p->qp[0], wr, &bad));
	struct ibv_wc wc[4];
	await(p->cq[0], wc, 4);
	for (int i = 0; i < 4; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == (uint64_t)i + 1);
	uint64_t after, got;
	memcpy(&after, p->buf[1] + SIZE - 8, 8);
	memcpy(&got, p->buf[0] + SIZE - 8, 8);
	CHECK(got == 37 && after == 42);
	await(p->cq[1], wc, 3);
	CHECK(wc[0].opcode == IBV_WC_RECV && wc[0].byte_len == 1000 && !(wc[0].wc_flags & IBV_WC_WITH_IMM));
	CHECK(wc[1].opcode == IBV_WC_RECV && wc[1].imm_data == htonl(0x01020304));
	CHECK(wc[2].opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc[2].imm_data == htonl(0x0a0b0c0d));
	CHECK(wc[2].byte_len == 100000);
	CHECK(!memcmp(p->buf[0], p->buf[1], 1000) && !memcmp(p->buf[0], p->buf[1] + 1000, 1000));
	CHECK(!memcmp(p->buf[0], p->buf[1] + 200000, 100000));
	teardown(p);
}

static void t_two_sided(void) { two_sided(0); }
static void t_srq(void) { two_sided(WITH_SRQ); }

/* One CQ fills the array with both kinds, and neither starves. */
static void t_turns(void)
{
	struct pair *p = setup(SIG_ALL);
	struct ibv_send_wr wr[DEPTH], *bad;
	struct ibv_sge s = piece(p, 1, 0, 8);
	for (int i = 0; i < DEPTH; i++) {
		recv_into(p, 1000 + (uint64_t)i, 0, 8);
		wr[i] = rdma(p, (uint64_t)i, IBV_WR_RDMA_WRITE, &s, 1, 64);
		wr[i].next = i + 1 < DEPTH ? &wr[i + 1] : NULL;
	}
	struct ibv_sge from = piece(p, 0, 0, 8);
	for (int i = 0; i < DEPTH; i++) {
		struct ibv_send_wr send = rdma(p, (uint64_t)i, IBV_WR_SEND, &from, 1, 0);
		CHECK(!ibv_post_send(p->qp[0], &send, &bad));
	}
	struct ibv_wc wc[DEPTH];
	await(p->cq[0], wc, DEPTH);
	CHECK(!ibv_post_send(p->qp[1], wr, &bad));
	int sends = 0, receives = 0;
	for (int calls = 0; sends + receives < 2 * DEPTH; calls++) {
		struct ibv_wc four[4];
		int n = ibv_poll_cq(p->cq[1], 4, four);
		CHECK(n >= 0 && calls < 100000);
		for (int i = 0; i < n; i++) {
			if (four[i].opcode & IBV_WC_RECV)
				CHECK(four[i].wr_id == 1000 + (uint64_t)receives++);
			else
				CHECK(four[i].wr_id == (uint64_t)sends++);
		}
		CHECK(abs(sends - receives) <= 16 || sends == DEPTH || receives == DEPTH);
	}
	teardown(p);
}

static void post_one(struct pair *p, uint64_t id, uint32_t length)
{
	struct ibv_sge s = piece(p, 0, 0, length);
	struct ibv_send_wr wr = rdma(p, id, IBV_WR_RDMA_WRITE, &s, 1, 0), *bad;
	CHECK(!ibv_post_send(p->qp[0], &wr, &bad));
}

/* A program that sleeps in ibv_get_cq_event until each Write is done. */
static void t_events(void)
{
	struct pair *p = setup(WITH_CHANNEL);
	struct ibv_wc wc;
	for (uint64_t i = 0; i < 20; i++) {
		CHECK(!ibv_req_notify_cq(p->cq[0], 0));
		CHECK(ibv_poll_cq(p->cq[0], 1, &wc) == 0);
		post_one(p, i, 200000);
		for (int n = 0; !n;) {
			struct ibv_cq *cq;
			void *context;
			CHECK(!ibv_get_cq_event(p->channel, &cq, &context));
			CHECK(cq == p->cq[0] && context == &p->cq[0]);
			ibv_ack_cq_events(cq, 1);
			CHECK(!ibv_req_notify_cq(cq, 0));
			n = ibv_poll_cq(cq, 1, &wc);
			CHECK(n >= 0);
		}
		CHECK(wc.wr_id == i && wc.status == IBV_WC_SUCCESS);
	}
	teardown(p); /* waits for ever if acknowledgements and events did not balance */
}

/* Waits for the event of CQ 0, and takes its one completion. */
static void one_event(struct pair *p, uint64_t id)
{
	struct ibv_cq *cq;
	void *context;
	struct ibv_wc wc;
	CHECK(!ibv_get_cq_event(p->channel, &cq, &context));
	CHECK(cq == p->cq[0] && context == &p->cq[0]);
	ibv_ack_cq_events(cq, 1);
	await(cq, &wc, 1);
	CHECK(wc.wr_id == id && wc.status == IBV_WC_SUCCESS);
}

/* A CQ that is armed before a queue pair has it, as rping's, and one that is armed for any completion and then for
 * solicited ones, which takes nothing back (IBA 11.4.2.2). */
static void t_armed(void)
{
	struct pair *p = setup(WITH_CHANNEL);
	CHECK(!ibv_req_notify_cq(p->cq[0], 0));
	CHECK(!ibv_req_notify_cq(p->cq[0], 1));
	post_one(p, 1, 100000);
	one_event(p, 1);

	CHECK(!ibv_destroy_qp(p->qp[0]));
	CHECK(!ibv_destroy_cq(p->cq[0]));
	p->cq[0] = ibv_create_cq(p->ctx, 4 * DEPTH, &p->cq[0], p->channel, 0);
	CHECK(p->cq[0] && !ibv_req_notify_cq(p->cq[0], 0));
	struct ibv_qp_init_attr a = {.send_cq = p->cq[0], .recv_cq = p->cq[0], .qp_type = IBV_QPT_RC, .cap = {DEPTH, DEPTH, 3, 1, 64}};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	p->qp[0] = ibv_create_qp(p->pd, &a);
	CHECK(p->qp[0] && !ibv_modify_qp(p->qp[1], &reset, IBV_QP_STATE) && !to_rts(p->qp[0], p->qp[1]->qp_num) && !to_rts(p->qp[1], p->qp[0]->qp_num));
	post_one(p, 2, 100000);
	/* It sleeps where nobody sends the next segment. */
	CHECK(!fcntl(p->channel->fd, F_SETFL, O_NONBLOCK));
	struct pollfd f = {.fd = p->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;
	do
		CHECK(poll(&f, 1, LIMIT * 1000) == 1);
	while (ibv_get_cq_event(p->channel, &cq, &context) && errno == EAGAIN);
	CHECK(cq == p->cq[0]);
	ibv_ack_cq_events(cq, 1);
	struct ibv_wc wc;
	await(cq, &wc, 1);
	CHECK(wc.wr_id == 2 && wc.status == IBV_WC_SUCCESS);
	teardown(p);
}

/* Receives raise events too, by which the other CQ of the channel is served. */
static void t_recv_events(void)
{
	struct pair *p = setup(WITH_CHANNEL);
	struct ibv_wc wc;
	CHECK(!ibv_req_notify_cq(p->cq[1], 0));
	recv_into(p, 5, 0, 100);
	struct ibv_sge s = piece(p, 0, 0, 100);
	struct ibv_send_wr wr = rdma(p, 1, IBV_WR_SEND, &s, 1, 0), *bad;
	CHECK(!ibv_post_send(p->qp[0], &wr, &bad));
	struct ibv_cq *cq;
	void *context;
	CHECK(!ibv_get_cq_event(p->channel, &cq, &context));
	CHECK(cq == p->cq[1] && context == &p->cq[1]);
	await(p->cq[1], &wc, 1);
	CHECK(wc.wr_id == 5);
	ibv_ack_cq_events(cq, 1);
	await(p->cq[0], &wc, 1);
	teardown(p);
}

/* A program that sleeps on the descriptor, and polls when that is readable. */
static void t_epoll(void)
{
	struct pair *p = setup(WITH_CHANNEL);
	CHECK(!fcntl(p->channel->fd, F_SETFL, O_NONBLOCK));
	struct ibv_wc wc;
	unsigned int events = 0;
	for (uint64_t i = 0; i < 20; i++) {
		CHECK(!ibv_req_notify_cq(p->cq[0], 0));
		post_one(p, i, 100000);
		int n = ibv_poll_cq(p->cq[0], 1, &wc);
		while (!n) {
			struct pollfd f = {.fd = p->channel->fd, .events = POLLIN};
			CHECK(poll(&f, 1, LIMIT * 1000) == 1);
			struct ibv_cq *cq;
			void *context;
			if (ibv_get_cq_event(p->channel, &cq, &context)) {
				CHECK(errno == EAGAIN);
				continue;
			}
			events++;
			CHECK(cq == p->cq[0]);
			CHECK(!ibv_req_notify_cq(cq, 0));
			n = ibv_poll_cq(p->cq[0], 1, &wc);
		}
		CHECK(n == 1 && wc.wr_id == i);
	}
	ibv_ack_cq_events(p->cq[0], events);
	teardown(p);
}

/*
 * Two completion queues have an event, which was one of the driver's. A program that sleeps on
 * the descriptor, and takes one event each time that is readable, gets both.
 */
static void t_two_events(void)
{
	struct pair *p = setup(WITH_CHANNEL);
	struct ibv_wc wc;
	for (uint64_t i = 1; i <= 20; i++) {
		for (int k = 0; k < 2; k++) {
			*(uint64_t *)p->buf[k] = i;
			CHECK(!ibv_req_notify_cq(p->cq[k], 0));
		}
		for (int k = 0; k < 2; k++) {
			struct ibv_sge s = piece(p, k, 0, 8);
			struct ibv_send_wr wr = {.wr_id = i, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
				.wr.rdma = {(uintptr_t)p->buf[!k] + 4096, p->mr[!k]->rkey}}, *bad;
			CHECK(!ibv_post_send(p->qp[k], &wr, &bad));
		}
		for (int k = 0; k < 2; k++) /* so that both are about to complete */
			while (*(volatile uint64_t *)(p->buf[k] + 4096) != i)
				sched_yield();
		int seen[2] = {0, 0};
		while (!seen[0] || !seen[1]) {
			struct pollfd f = {.fd = p->channel->fd, .events = POLLIN};
			struct ibv_cq *cq;
			void *context;
			CHECK(poll(&f, 1, LIMIT * 1000) == 1);
			CHECK(!ibv_get_cq_event(p->channel, &cq, &context));
			CHECK(!seen[cq == p->cq[1]]++);
			ibv_ack_cq_events(cq, 1);
		}
		for (int k = 0; k < 2; k++) {
			await(p->cq[k], &wc, 1);
			CHECK(wc.wr_id == i && wc.status == IBV_WC_SUCCESS);
		}
	}
	teardown(p);
}

static void *wait_for_event(void *arg)
{
	struct pair *p = arg;
	struct ibv_cq *cq;
	void *context;
	ibv_get_cq_event(p->channel, &cq, &context);
	return NULL;
}

/* rping ends its event thread so. */
static void t_cancel(void)
{
	struct pair *p = setup(WITH_CHANNEL);
	CHECK(!ibv_req_notify_cq(p->cq[0], 0));
	pthread_t t;
	CHECK(!pthread_create(&t, NULL, wait_for_event, p));
	usleep(20000);
	CHECK(!pthread_cancel(t));
	void *result;
	CHECK(!pthread_join(t, &result));
	CHECK(result == PTHREAD_CANCELED);
	post_one(p, 1, 5000);
	struct ibv_wc wc;
	await(p->cq[0], &wc, 1);
	teardown(p);
}

/* Whether queue pairs are paced. */
static int paced(void)
{
#ifdef SLUICE_API
	return 1;
#else
	const char *libraries = getenv("LD_PRELOAD");
	return libraries && strstr(libraries, "libsluice-preload") != NULL;
#endif
}

/* What the child makes is paced, as what the parent made goes on to be; what it has of the
 * parent's is libibverbs'. */
static void t_fork(void)
{
	struct pair *p = setup(0);
	struct ibv_wc wc;
	post_one(p, 1, 100000);
	pid_t child = fork();
	CHECK(child >= 0);
	if (!child) {
		struct ibv_wc mine;
		alarm(LIMIT);
		int n = ibv_poll_cq(p->cq[1], 1, &mine);
		CHECK(n == 0);
		struct pair *own = setup_on("fake1", 0);
		CHECK((own->qp[0]->send_cq == own->cq[0]) == !paced());
		for (uint64_t i = 0; i < 20; i++) {
			post_one(own, i, 100000);
			await(own->cq[0], &mine, 1);
			CHECK(mine.wr_id == i && mine.status == IBV_WC_SUCCESS);
		}
		CHECK(!memcmp(own->buf[0], own->buf[1], 100000));
		teardown(own);
		exit(0); /* with what runs as a program ends */
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	await(p->cq[0], &wc, 1);
	post_one(p, 2, 100000);
	await(p->cq[0], &wc, 1);
	CHECK(wc.wr_id == 2);
	teardown(p);
}

static int count_threads(void)
{
	int n = 0;
	DIR *d = opendir("/proc/self/task");
	CHECK(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* The libraries handle no signal, and start no thread for a program that polls. */
static void t_quiet(void)
{
	struct pair *first = setup_on("fake1", 0); /* a device may have threads */
	int threads = count_threads();
	struct pair *p = setup_on("fake1", 0);
	for (uint64_t i = 0; i < 10; i++) {
		struct ibv_wc wc;
		post_one(p, i, 100000);
		await(p->cq[0], &wc, 1);
	}
	int more = getenv("TEST_DEVICE") ? 0 : count_threads() - threads - 1; /* the fake's own, of a context */
	CHECK(more <= 0);
	for (int i = 1; i < 32; i++) {
		struct sigaction a;
		if (i != SIGALRM && i != SIGKILL && i != SIGSTOP)
			CHECK(!sigaction(i, NULL, &a) && (a.sa_handler == SIG_DFL || a.sa_handler == SIG_IGN)); /* nohup's child has the latter */
	}
	teardown(p);
	teardown(first);
}

/* Two devices, and two contexts of one; addresses come again. */
static void t_contexts(void)
{
	for (int round = 0; round < 3; round++) {
		struct pair *p[] = {setup_on("fake0", 0), setup_on("fake1", 0), setup_on("fake0", WITH_CHANNEL)};
		struct ibv_wc wc;
		for (uint64_t i = 0; i < 3; i++)
			post_one(p[i], i, 300000);
		for (int i = 2; i >= 0; i--) {
			await(p[i]->cq[0], &wc, 1);
			CHECK(wc.wr_id == (uint64_t)i && wc.status == IBV_WC_SUCCESS);
		}
		teardown(p[1]);
		post_one(p[0], 9, 100);
		await(p[0]->cq[0], &wc, 1);
		teardown(p[0]);
		teardown(p[2]);
	}
}

/* A segment that the peer refuses fails its request, and those after it. */
static void t_error(void)
{
	struct pair *p = setup(0);
	struct ibv_sge s = piece(p, 0, 0, 50000);
	struct ibv_send_wr wr[3], *bad;
	for (int i = 0; i < 3; i++) {
		wr[i] = rdma(p, (uint64_t)i, IBV_WR_RDMA_WRITE, &s, 1, 0);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].wr.rdma.remote_addr += SIZE - 30000; /* ends beyond the region */
	wr[2].send_flags = 0;
	CHECK(!ibv_post_send(p->qp[0], wr, &bad));
	struct ibv_wc wc[3];
	await(p->cq[0], wc, 3);
	CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_REM_ACCESS_ERR && wc[2].status == IBV_WC_WR_FLUSH_ERR);
	CHECK(wc[1].wr_id == 1 && wc[2].wr_id == 2 && wc[1].qp_num == p->qp[0]->qp_num);
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(p->qp[0], &a, IBV_QP_STATE, &init) && a.qp_state == IBV_QPS_ERR);
	CHECK(init.cap.max_send_wr == DEPTH && init.cap.max_send_sge == 3 && init.send_cq == p->cq[0]);

	/* Through RESET it works again. */
	a.qp_state = IBV_QPS_RESET;
	CHECK(!ibv_modify_qp(p->qp[0], &a, IBV_QP_STATE));
	CHECK(!ibv_modify_qp(p->qp[1], &a, IBV_QP_STATE));
	for (int i = 0; i < 2; i++)
		CHECK(!to_rts(p->qp[i], p->qp[!i]->qp_num));
	post_one(p, 4, 100000);
	await(p->cq[0], wc, 1);
	CHECK(wc[0].wr_id == 4 && wc[0].status == IBV_WC_SUCCESS);
	teardown(p);
}

/* ERR flushes what waits for its pace; a sleeper is woken. */
static void t_flush(void)
{
	struct pair *p = setup(WITH_CHANNEL);
	CHECK(!ibv_req_notify_cq(p->cq[0], 0));
	for (uint64_t i = 0; i < 10; i++)
		post_one(p, i, SIZE / 2);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	CHECK(!ibv_modify_qp(p->qp[0], &a, IBV_QP_STATE));
	struct ibv_cq *cq;
	void *context;
	CHECK(!ibv_get_cq_event(p->channel, &cq, &context) && cq == p->cq[0]);
	ibv_ack_cq_events(cq, 1);
	struct ibv_wc wc[10];
	await(p->cq[0], wc, 10);
	int flushed = 0;
	for (int i = 0; i < 10; i++) {
		CHECK(wc[i].wr_id == (uint64_t)i);
		flushed += wc[i].status == IBV_WC_WR_FLUSH_ERR;
	}
	CHECK(flushed > 0 && wc[9].status == IBV_WC_WR_FLUSH_ERR);
	teardown(p);
}

/* The ibv_wr_* calls. */
static void t_wr(void)
{
	struct pair *p = setup(WITH_WR);
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(p->qp[0]);
	CHECK(q);
	fill(p->buf[0], SIZE / 2, 3);
	for (uint64_t i = 0; i < 2; i++)
		recv_into(p, i, SIZE - 1000, 1000);
	char text[] = "inline";
	struct ibv_data_buf parts[] = {{text, 3}, {text + 3, 4}};
	struct ibv_sge two[] = {piece(p, 0, 0, 100000), piece(p, 0, 100000, 50000)};

	ibv_wr_start(q);
	q->wr_id = 99;
	q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(q, 1, 2);
	ibv_wr_set_sge(q, 3, 4, 5);
	ibv_wr_abort(q);

	ibv_wr_start(q);
	q->wr_id = 1;
	q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(q, p->mr[1]->rkey, (uintptr_t)p->buf[1]);
	ibv_wr_set_sge_list(q, 2, two);
	q->wr_id = 2;
	ibv_wr_rdma_write(q, p->mr[1]->rkey, (uintptr_t)p->buf[1] + 300000);
	ibv_wr_set_inline_data(q, text, sizeof(text));
	q->wr_id = 3;
	q->wr_flags = 0;
	ibv_wr_rdma_write_imm(q, p->mr[1]->rkey, (uintptr_t)p->buf[1] + 300100, htonl(77));
	ibv_wr_set_inline_data_list(q, 2, parts);
	q->wr_id = 4;
	q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(q, htonl(78));
	ibv_wr_set_sge(q, p->mr[0]->lkey, (uintptr_t)p->buf[0], 1000);
	q->wr_id = 5;
	ibv_wr_atomic_fetch_add(q, p->mr[1]->rkey, (uintptr_t)p->buf[1] + 400000, 11);
	ibv_wr_set_sge(q, p->mr[0]->lkey, (uintptr_t)p->buf[0] + SIZE - 8, 8);
	q->wr_id = 6;
	ibv_wr_rdma_read(q, p->mr[1]->rkey, (uintptr_t)p->buf[1]);
	ibv_wr_set_sge(q, p->mr[0]->lkey, (uintptr_t)p->buf[0] + SIZE / 2, 150000);
	CHECK(!ibv_wr_complete(q));
	memset(text, 'x', sizeof(text));

	struct ibv_wc wc[6];
	await(p->cq[0], wc, 5);
	const uint64_t ids[] = {1, 2, 4, 5, 6};
	for (int i = 0; i < 5; i++)
		CHECK(wc[i].wr_id == ids[i] && wc[i].status == IBV_WC_SUCCESS);
	await(p->cq[1], wc, 2);
	CHECK(wc[0].imm_data == htonl(77) && wc[1].imm_data == htonl(78));
	uint64_t eleven;
	memcpy(&eleven, p->buf[1] + 400000, 8);
	CHECK(eleven == 11);
	CHECK(!memcmp(p->buf[0], p->buf[1], 150000) && !memcmp(p->buf[0] + SIZE / 2, p->buf[1], 150000));
	CHECK(!strcmp((char *)p->buf[1] + 300000, "inline") && !strcmp((char *)p->buf[1] + 300100, "inline"));

	/* What is wrong with a list shows at its end, and posts nothing. */
	ibv_wr_start(q);
	ibv_wr_rdma_write(q, p->mr[1]->rkey, (uintptr_t)p->buf[1]);
	ibv_wr_set_sge(q, p->mr[0]->lkey, (uintptr_t)p->buf[0], 8);
	ibv_wr_rdma_write(q, p->mr[1]->rkey, (uintptr_t)p->buf[1]);
	struct ibv_data_buf large = {p->buf[0], 65};
	ibv_wr_set_inline_data_list(q, 1, &large);
	CHECK(ibv_wr_complete(q) == EINVAL);
	for (int round = 0; round < 2; round++) { /* and a list that is too long */
		ibv_wr_start(q);
		for (int i = 0; i < DEPTH + (round == 0); i++) {
			q->wr_id = (uint64_t)i;
			ibv_wr_rdma_write(q, p->mr[1]->rkey, (uintptr_t)p->buf[1]);
			ibv_wr_set_sge(q, p->mr[0]->lkey, (uintptr_t)p->buf[0], 8);
		}
		CHECK(ibv_wr_complete(q) == (round == 0 ? ENOMEM : 0));
	}
	struct ibv_wc all[DEPTH];
	await(p->cq[0], all, DEPTH);
	teardown(p);
}

/* What a queue pair that is refused was to have can be destroyed as ever. */
static void t_refused(void)
{
	struct ibv_context *ctx = open_device("fake0");
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq *cq[2] = {ibv_create_cq(ctx, 16, NULL, channel, 0), ibv_create_cq(ctx, 16, NULL, NULL, 0)};
	CHECK(pd && channel && cq[0] && cq[1]);
	struct ibv_qp_init_attr a = {.send_cq = cq[0], .recv_cq = cq[1], .qp_type = IBV_QPT_RC, .cap = {16, 16, 1000, 1, 0}};
	CHECK(!ibv_create_qp(pd, &a) && errno == EINVAL);
	CHECK(!ibv_destroy_cq(cq[0]) && !ibv_destroy_cq(cq[1]) && !ibv_destroy_comp_channel(channel));
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
}

/* Beside an SRQ the size of the receive queue means nothing. */
static void t_srq_cap(void)
{
	struct ibv_context *ctx = open_device("fake0");
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &sa);
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC, .cap = {16, 0x7fffffff, 1, 0x7fffffff, 0}};
	struct ibv_qp *qp = ibv_create_qp(pd, &a);
	CHECK(qp && !ibv_destroy_qp(qp) && !ibv_destroy_srq(srq));
	CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
}

/* Fields that a request has no use for may hold anything. */
static void *unused_fields(void *arg)
{
	struct pair *p = arg;
	struct ibv_sge empty = {.addr = 8, .length = 0};
	struct ibv_wc wc;
	for (uint64_t i = 0; i < 400; i++) {
		struct ibv_send_wr wr = rdma(p, i, IBV_WR_RDMA_WRITE, (struct ibv_sge *)8, 0, 0), *bad;
		if (i & 1) {
			wr.send_flags |= IBV_SEND_INLINE;
			wr.sg_list = &empty;
			wr.num_sge = i & 2 ? 1 : 0;
		}
		CHECK(!ibv_post_send(p->qp[0], &wr, &bad));
		await(p->cq[0], &wc, 1);
		CHECK(wc.wr_id == i && wc.status == IBV_WC_SUCCESS);
	}
	return NULL;
}

static void t_unused(void)
{
	struct pair *p = setup(0);
	for (int i = 0; i < 20; i++) { /* threads that are new to whatever is called */
		pthread_t t;
		CHECK(!pthread_create(&t, NULL, unused_fields, p));
		CHECK(!pthread_join(t, NULL));
	}
	teardown(p);
}

/* A list of ibv_wr_* calls for which there is no room posts nothing. */
static void t_wr_room(void)
{
	struct pair *p = setup(WITH_WR);
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(p->qp[0]);
	enum { LONG = 20 };
	const int lists[] = {DEPTH - 1, 2, LONG, 1};
	for (int i = 0; i < 4; i++) {
		ibv_wr_start(q);
		for (int n = 0; n < lists[i]; n++) {
			q->wr_id = (uint64_t)(100 * i + n);
			q->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(q, p->mr[1]->rkey, (uintptr_t)p->buf[1]);
			ibv_wr_set_sge(q, p->mr[0]->lkey, (uintptr_t)p->buf[0], 8);
		}
		CHECK(ibv_wr_complete(q) == (i == 1 || i == 2 ? ENOMEM : 0));
	}
	struct ibv_wc wc[DEPTH];
	await(p->cq[0], wc, DEPTH);
	for (int i = 0; i < DEPTH; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == (uint64_t)(i < DEPTH - 1 ? i : 300));
	teardown(p);
}

static int destroyed;

static void *destroy_cq_thread(void *arg)
{
	CHECK(!ibv_destroy_cq(arg));
	__atomic_store_n(&destroyed, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* A CQ is not destroyed while somebody has an event of it. */
static void t_unacked(void)
{
	struct pair *p = setup(WITH_CHANNEL);
	CHECK(!ibv_req_notify_cq(p->cq[0], 0));
	post_one(p, 1, 20000);
	struct ibv_cq *cq;
	void *context;
	CHECK(!ibv_get_cq_event(p->channel, &cq, &context) && cq == p->cq[0]);
	struct ibv_wc wc;
	await(p->cq[0], &wc, 1);
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_destroy_qp(p->qp[i]));
	pthread_t t;
	CHECK(!pthread_create(&t, NULL, destroy_cq_thread, cq));
	usleep(100000);
	CHECK(!__atomic_load_n(&destroyed, __ATOMIC_SEQ_CST));
	ibv_ack_cq_events(cq, 1);
	CHECK(!pthread_join(t, NULL) && destroyed);
	CHECK(!ibv_destroy_cq(p->cq[1]) && !ibv_destroy_comp_channel(p->channel));
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_dereg_mr(p->mr[i]));
	CHECK(!ibv_dealloc_pd(p->pd) && !ibv_close_device(p->ctx));
}

static int interrupted;

static void on_signal(int s) { (void)s; }

static void *interrupted_thread(void *arg)
{
	struct pair *p = arg;
	struct ibv_cq *cq;
	void *context;
	CHECK(ibv_get_cq_event(p->channel, &cq, &context) == -1 && errno == EINTR);
	__atomic_store_n(&interrupted, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* A signal ends a wait, if its handler was installed so. */
static void t_signal(void)
{
	struct pair *p = setup(WITH_CHANNEL);
	struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	CHECK(!sigaction(SIGUSR1, &a, NULL));
	pthread_t t;
	CHECK(!pthread_create(&t, NULL, interrupted_thread, p));
	for (time_t end = time(NULL) + LIMIT; !__atomic_load_n(&interrupted, __ATOMIC_SEQ_CST); usleep(1000)) {
		CHECK(time(NULL) < end);
		CHECK(!pthread_kill(t, SIGUSR1));
	}
	CHECK(!pthread_join(t, NULL));
	teardown(p);
}

static void *destroy_qp_thread(void *arg)
{
	CHECK(!ibv_destroy_qp(arg));
	return NULL;
}

/* Who handles a queue pair's event may make another before acknowledging it,
 * while a third thread destroys the first. */
static void t_async(void)
{
	int (*raise_event)(struct ibv_context *, const char *, void *);
	*(void **)&raise_event = dlsym(RTLD_DEFAULT, "fakeverbs_raise");
	struct pair *p = setup(WITH_CHANNEL);
	if (!raise_event) { /* not the fake */
		teardown(p);
		return;
	}
	struct ibv_async_event e;
	CHECK(!raise_event(p->ctx, "comm_est", p->qp[0]));
	CHECK(!ibv_get_async_event(p->ctx, &e) && e.element.qp == p->qp[0]);
	pthread_t t;
	CHECK(!pthread_create(&t, NULL, destroy_qp_thread, p->qp[0]));
	usleep(100000); /* it waits for the acknowledgement */
	struct ibv_qp_init_attr a = {.send_cq = p->cq[0], .recv_cq = p->cq[0], .qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}};
	struct ibv_qp *another = ibv_create_qp(p->pd, &a);
	CHECK(another);
	ibv_ack_async_event(&e);
	CHECK(!pthread_join(t, NULL));
	p->qp[0] = another;
	teardown(p);
}

#ifndef SLUICE_API
/* An extended CQ, read field by field. */
static void t_cq_ex(void)
{
	struct pair *p = setup(WITH_EX_CQ);
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)p->cq[0];
	struct ibv_poll_cq_attr attr = {0};
	CHECK(ibv_start_poll(cq, &attr) == ENOENT);
	for (uint64_t i = 0; i < 40; i++)
		post_one(p, i, 20000);
	struct ibv_sge into = piece(p, 0, 0, 100);
	struct ibv_recv_wr rwr = {.wr_id = 1000, .sg_list = &into, .num_sge = 1}, *bad_recv;
	CHECK(!ibv_post_recv(p->qp[0], &rwr, &bad_recv));
	struct ibv_sge s = piece(p, 1, 0, 100);
	struct ibv_send_wr wr = {.wr_id = 7, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(5), .sg_list = &s, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED}, *bad;
	CHECK(!ibv_post_send(p->qp[1], &wr, &bad));
	uint64_t next = 0;
	int receives = 0;
	time_t end = time(NULL) + LIMIT;
	while (next < 40 || !receives) {
		CHECK(time(NULL) < end);
		int r = ibv_start_poll(cq, &attr);
		if (r) {
			CHECK(r == ENOENT);
			continue;
		}
		int taken = 0;
		do {
			if (cq->status)
				fprintf(stderr, "%s\n", ibv_wc_status_str(cq->status));
			CHECK(cq->status == IBV_WC_SUCCESS);
			CHECK(ibv_wc_read_qp_num(cq) == p->qp[0]->qp_num);
			if (ibv_wc_read_opcode(cq) & IBV_WC_RECV) {
				CHECK(cq->wr_id == 1000 && ibv_wc_read_byte_len(cq) == 100 && ibv_wc_read_imm_data(cq) == htonl(5));
				receives++;
			} else {
				CHECK(cq->wr_id == next++ && ibv_wc_read_opcode(cq) == IBV_WC_RDMA_WRITE);
			}
		} while (++taken < 5 && !ibv_next_poll(cq)); /* and leave some for the next time */
		ibv_end_poll(cq);
	}
	struct ibv_wc wc;
	await(p->cq[1], &wc, 1);
	teardown(p);
}

/* ibv_next_poll has no more only when the CQ has neither kind: a program may sleep
 * then. */
static void t_cq_ex_both(void)
{
	struct pair *p = setup(WITH_EX_CQ);
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)p->cq[0];
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_sge into = piece(p, 0, 0, 100), from = piece(p, 1, 0, 100);
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 2; i++) {
			struct ibv_recv_wr rwr = {.wr_id = 1000, .sg_list = &into, .num_sge = 1}, *bad_recv;
			CHECK(!ibv_post_recv(p->qp[0], &rwr, &bad_recv));
			struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &from, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
			CHECK(!ibv_post_send(p->qp[1], &wr, &bad));
			struct ibv_wc wc;
			await(p->cq[1], &wc, 1);
			post_one(p, 1, 100);
		}
		usleep(20000); /* all has completed, also where that takes time */
		int sends = 0, receives = 0;
		CHECK(!ibv_start_poll(cq, &attr));
		do {
			CHECK(cq->status == IBV_WC_SUCCESS);
			if (ibv_wc_read_opcode(cq) == IBV_WC_RECV) {
				CHECK(cq->wr_id == 1000 && ibv_wc_read_byte_len(cq) == 100);
				receives++;
			} else {
				CHECK(cq->wr_id == 1 && ibv_wc_read_opcode(cq) == IBV_WC_RDMA_WRITE);
				sends++;
			}
		} while (!ibv_next_poll(cq));
		ibv_end_poll(cq);
		CHECK(sends == 2 && receives == 2);
		CHECK(ibv_start_poll(cq, &attr) == ENOENT);
	}
	teardown(p);
}

/* UD is libibverbs' alone. */
static void t_ud(void)
{
	struct ibv_context *ctx = open_device("fake0");
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {16, 16, 1, 1, 0}};
	struct ibv_qp *qp = ibv_create_qp(pd, &a);
	CHECK(qp && qp->send_cq == cq);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
}
#else
/* A CQ with queue pairs of two sets of options, of which one is left. */
static void t_options(void)
{
	struct ibv_context *ctx = open_device("fake0");
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, channel, 0);
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}};
	struct ibv_qp *qp[2];
	for (int i = 0; i < 2; i++) {
		struct sluice_options o;
		sluice_options_init(&o);
		o.batch = 16 + (uint32_t)i;
		CHECK((qp[i] = sluice_create_qp(pd, &a, &o)));
	}
	for (int i = 0; i < 2; i++) {
		CHECK(sluice_destroy_comp_channel(channel) == EBUSY);
		CHECK(sluice_destroy_cq(cq) == EBUSY);
		CHECK(!sluice_destroy_qp(qp[i]));
		if (!i) { /* the first set again */
			CHECK(sluice_destroy_cq(cq) == EBUSY);
			struct sluice_options o;
			sluice_options_init(&o);
			CHECK((qp[0] = sluice_create_qp(pd, &a, &o)) && !sluice_destroy_qp(qp[0]));
		}
	}
	CHECK(!sluice_destroy_cq(cq));
	CHECK(!sluice_destroy_comp_channel(channel));
	CHECK(!ibv_dealloc_pd(pd) && !sluice_close_device(ctx));
}

/* Queue pairs of one CQ that threads make at the same time, each with its options. */
enum { MAKERS = 8 };
static struct pair *made[MAKERS];
static struct ibv_cq *made_cq;
static pthread_barrier_t start;

static void *maker(void *arg)
{
	int i = (int)(uintptr_t)arg;
	struct pair *p = made[i];
	struct sluice_options o;
	sluice_options_init(&o);
	o.batch = 1 + (uint32_t)i;
	struct ibv_qp_init_attr a = {.send_cq = made_cq, .recv_cq = made_cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {16, 16, 1, 1, 0}};
	pthread_barrier_wait(&start);
	CHECK((p->qp[0] = sluice_create_qp(p->pd, &a, &o)));
	return NULL;
}

static void t_makers(void)
{
	struct ibv_context *ctx = open_device("fake0");
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	uint8_t *buf = calloc(1, 8192);
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, 8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	for (int round = 0; round < 20; round++) {
		pthread_t t[MAKERS];
		made_cq = ibv_create_cq(ctx, 4 * DEPTH, NULL, NULL, 0);
		pthread_barrier_init(&start, NULL, MAKERS);
		for (int i = 0; i < MAKERS; i++) {
			made[i] = calloc(1, sizeof(*made[i]));
			made[i]->pd = pd;
			CHECK(!pthread_create(&t[i], NULL, maker, (void *)(uintptr_t)i));
		}
		for (int i = 0; i < MAKERS; i++)
			CHECK(!pthread_join(t[i], NULL));
		for (int i = 0; i < MAKERS; i++) {
			struct ibv_qp *qp = made[i]->qp[0];
			CHECK(!to_rts(qp, qp->qp_num));
			struct ibv_sge s = {.addr = (uintptr_t)buf, .length = 4096, .lkey = mr->lkey};
			struct ibv_send_wr wr = {.wr_id = (uint64_t)i, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &s, .num_sge = 1}, *bad;
			wr.wr.rdma.remote_addr = (uintptr_t)buf + 4096;
			wr.wr.rdma.rkey = mr->rkey;
			CHECK(!sluice_post_send(qp, &wr, &bad));
			struct ibv_wc wc;
			await(made_cq, &wc, 1);
			CHECK(wc.wr_id == (uint64_t)i && wc.status == IBV_WC_SUCCESS);
		}
		for (int i = 0; i < MAKERS; i++) {
			CHECK(!sluice_destroy_qp(made[i]->qp[0]));
			free(made[i]);
		}
		CHECK(!sluice_destroy_cq(made_cq));
		pthread_barrier_destroy(&start);
	}
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !sluice_close_device(ctx));
	free(buf);
}

static void t_refusals(void)
{
	struct ibv_context *ctx = open_device("fake0");
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {16, 16, 1, 1, 0}};
	struct sluice_options o;
	CHECK(!sluice_create_qp(pd, &a, NULL) && errno == EOPNOTSUPP && strstr(sluice_error(), "only RC"));
	a.qp_type = IBV_QPT_RC;
	memset(&o, 0, sizeof(o));
	CHECK(!sluice_create_qp(pd, &a, &o) && errno == EINVAL && strstr(sluice_error(), "sluice_options_init"));
	sluice_options_init(&o);
	o.engine = "timley";
	CHECK(!sluice_create_qp(pd, &a, &o) && errno == EINVAL && strstr(sluice_error(), "timely"));
	o.engine = "powertcp";
	CHECK(!sluice_create_qp(pd, &a, &o) && errno == EINVAL && strstr(sluice_error(), "switches"));
	o.engine = "timely";
	o.engine_config = "t_lwo: 1us";
	CHECK(!sluice_create_qp(pd, &a, &o) && errno == EINVAL && strstr(sluice_error(), "t_lwo"));
	o.engine_config = "t_low: 60us";
	o.segment = 100;
	CHECK(!sluice_create_qp(pd, &a, &o) && errno == EINVAL && strstr(sluice_error(), "segment"));
	o.segment = 8192;
	a.cap.max_send_sge = 1000;
	CHECK(!sluice_create_qp(pd, &a, &o) && errno == EINVAL);
	a.cap.max_send_sge = 1;
	a.send_cq = NULL;
	CHECK(!sluice_create_qp(pd, &a, &o) && errno == EINVAL && strstr(sluice_error(), "send_cq"));
	a.send_cq = cq;
	struct ibv_qp *qp = sluice_create_qp(pd, &a, &o);
	CHECK(qp && !*sluice_error());
	struct sluice_stats st = {.size = sizeof(st)};
	CHECK(!sluice_query_stats(qp, &st) && !strcmp(st.engine, "timely"));
	CHECK(sluice_destroy_cq(cq) == EBUSY && strstr(sluice_error(), "destroy them first"));
	CHECK(!sluice_destroy_qp(qp) && sluice_query_stats(qp, &st) == EINVAL);
	CHECK(!sluice_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !sluice_close_device(ctx));
	int timely = 0, powertcp = 0;
	for (const char *const *s = sluice_schemes(); *s; s++) {
		timely += !strcmp(*s, "timely");
		powertcp += !strcmp(*s, "powertcp");
	}
	CHECK(timely == 1 && powertcp == 0 && !strcmp(sluice_version(), SLUICE_VERSION));
}
#endif

static void *busy_thread(void *arg)
{
	struct pair *p = setup((uintptr_t)arg & 1 ? WITH_CHANNEL : 0);
	struct ibv_wc wc;
	for (uint64_t i = 0; i < 200; i++) {
		post_one(p, i, 30000);
		await(p->cq[0], &wc, 1);
		CHECK(wc.wr_id == i && wc.status == IBV_WC_SUCCESS);
	}
	teardown(p);
	return NULL;
}

static void t_threads(void)
{
	pthread_t t[4];
	for (uintptr_t i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, busy_thread, (void *)i));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(t[i], NULL));
}

/* Two threads post to one queue pair and poll one CQ. */
static struct pair *shared;
static int completed;

static void *sharing_thread(void *arg)
{
	struct ibv_sge s = piece(shared, 0, 0, 5000);
	(void)arg;
	for (int posted = 0; posted < 500 || __atomic_load_n(&completed, __ATOMIC_SEQ_CST) < 1000;) {
		struct ibv_send_wr wr = rdma(shared, 1, IBV_WR_RDMA_WRITE, &s, 1, 0), *bad;
		if (posted < 500) {
			int r = ibv_post_send(shared->qp[0], &wr, &bad);
			CHECK(!r || r == ENOMEM);
			posted += !r;
		}
		struct ibv_wc wc[4];
		int n = ibv_poll_cq(shared->cq[0], 4, wc);
		CHECK(n >= 0);
		__atomic_fetch_add(&completed, n, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void t_sharing(void)
{
	shared = setup(0);
	pthread_t t[2];
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, sharing_thread, NULL));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(t[i], NULL));
	CHECK(completed == 1000);
	teardown(shared);
}

/* Prints how long a MiB took: no less than the set rate allows. */
static void t_rate(void)
{
	struct pair *p = setup(0);
	struct ibv_wc wc;
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (uint64_t i = 0; i < 8; i++)
		post_one(p, i, SIZE);
	for (uint64_t i = 0; i < 8; i++)
		while (!ibv_poll_cq(p->cq[0], 1, &wc))
			;
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%.6f\n", (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
	teardown(p);
}

/* Queue pairs of several CQs that send to one destination. */
enum { CQS = 4, HERD = 8 };

struct herd {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel[CQS];
	struct ibv_cq *cq[CQS];
	struct ibv_qp *qp[HERD]; /* of CQ i % CQS */
	struct ibv_mr *mr;
	uint8_t *buf;
};

static struct ibv_qp_init_attr herd_attr(struct herd *f, int i)
{
	return (struct ibv_qp_init_attr){.send_cq = f->cq[i % CQS], .recv_cq = f->cq[i % CQS], .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {DEPTH, 1, 1, 1, 0}};
}

static struct herd *herd(bool channels)
{
	struct herd *f = calloc(1, sizeof(*f));
	f->ctx = open_device("fake0");
	f->pd = ibv_alloc_pd(f->ctx);
	f->buf = calloc(2, SIZE);
	f->mr = ibv_reg_mr(f->pd, f->buf, 2 * SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(f->mr);
	for (int i = 0; i < CQS; i++) {
		if (channels)
			CHECK((f->channel[i] = ibv_create_comp_channel(f->ctx)));
		CHECK((f->cq[i] = ibv_create_cq(f->ctx, 4 * DEPTH, NULL, f->channel[i], 0)));
	}
	return f;
}

static void herd_end(struct herd *f)
{
	for (int i = 0; i < HERD; i++)
		CHECK(!f->qp[i] || !ibv_destroy_qp(f->qp[i]));
	for (int i = 0; i < CQS; i++) {
		CHECK(!ibv_destroy_cq(f->cq[i]));
		CHECK(!f->channel[i] || !ibv_destroy_comp_channel(f->channel[i]));
	}
	CHECK(!ibv_dereg_mr(f->mr) && !ibv_dealloc_pd(f->pd) && !ibv_close_device(f->ctx));
	free(f->buf);
	free(f);
}

/* A Write of n bytes to where nobody else's go of another CQ, if n is at most a quarter. */
static void herd_post_of(struct herd *f, int cq, struct ibv_qp *qp, uint64_t id, uint32_t n)
{
	struct ibv_sge s = {.addr = (uintptr_t)f->buf, .length = n, .lkey = f->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &s, .num_sge = 1}, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)f->buf + SIZE + (uintptr_t)cq * SIZE / CQS;
	wr.wr.rdma.rkey = f->mr->rkey;
	CHECK(!ibv_post_send(qp, &wr, &bad));
}

static struct herd *common;

/* Posts to the queue pairs of one CQ, and polls it. */
static void *herd_thread(void *arg)
{
	int cq = (int)(uintptr_t)arg, got = 0, posts = 8;
	for (int i = cq; i < HERD; i += CQS)
		for (int k = 0; k < posts; k++)
			herd_post_of(common, cq, common->qp[i], (uint64_t)i, SIZE / 8);
	while (got < posts * HERD / CQS) {
		struct ibv_wc wc[4];
		int n = ibv_poll_cq(common->cq[cq], 4, wc);
		CHECK(n >= 0);
		for (int k = 0; k < n; k++)
			CHECK(wc[k].status == IBV_WC_SUCCESS && (int)wc[k].wr_id % CQS == cq && wc[k].qp_num == common->qp[wc[k].wr_id]->qp_num);
		got += n;
	}
	return NULL;
}

/* Prints how long 8 MiB took that threads sent by queue pairs of their own: in a group no less
 * than the set rate allows. */
static void t_herd(void)
{
	common = herd(false);
	for (int i = 0; i < HERD; i++) {
		struct ibv_qp_init_attr a = herd_attr(common, i);
		CHECK((common->qp[i] = ibv_create_qp(common->pd, &a)));
		CHECK(!to_rts(common->qp[i], common->qp[i]->qp_num));
	}
	pthread_t t[CQS];
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < CQS; i++)
		CHECK(!pthread_create(&t[i], NULL, herd_thread, (void *)(uintptr_t)i));
	for (int i = 0; i < CQS; i++)
		CHECK(!pthread_join(t[i], NULL));
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%.6f\n", (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
	herd_end(common);
}

#ifdef SLUICE_API
static void herd_post(struct herd *f, struct ibv_qp *qp, uint64_t id, uint32_t n) { herd_post_of(f, 0, qp, id, n); }

/* With an engine, even one that decides nothing, a call makes up for little lateness, and so sends
 * few segments. */
static struct ibv_qp *herd_qp(struct herd *f, int i, const char *group, uint64_t rate, uint64_t outstanding)
{
	struct sluice_options o;
	sluice_options_init(&o);
	o.engine = "none";
	o.rate = rate;
	o.segment = 4096;
	o.max_outstanding = outstanding;
	o.group = group;
	struct ibv_qp_init_attr a = herd_attr(f, i);
	CHECK((f->qp[i] = sluice_create_qp(f->pd, &a, &o)));
	return f->qp[i];
}

static uint64_t segments(struct ibv_qp *qp)
{
	struct sluice_stats st = {.size = sizeof(st)};
	CHECK(!sluice_query_stats(qp, &st));
	return st.segments;
}

static struct sluice_group_stats group_of(struct ibv_qp *qp)
{
	struct sluice_group_stats st = {.size = sizeof(st)};
	CHECK(!sluice_query_group(qp, &st));
	return st;
}

/* Takes what the CQs have, without counting. */
static void herd_poll(struct herd *f)
{
	struct ibv_wc wc[16];
	for (int i = 0; i < CQS; i++)
		CHECK(ibv_poll_cq(f->cq[i], 16, wc) >= 0);
}

/* What the first queue pair sends while the second, of another CQ, sends n segments. */
static uint64_t beside(struct herd *f, uint64_t n)
{
	for (int i = 0; i < 8; i++)
		herd_post(f, f->qp[0], 0, SIZE);
	for (uint64_t i = 0; i < n; i += SIZE / 4096)
		herd_post(f, f->qp[1], 1, SIZE);
	uint64_t from = segments(f->qp[0]), end = segments(f->qp[1]) / 256 * 256 + n;
	while (segments(f->qp[1]) < end)
		herd_poll(f);
	uint64_t sent = segments(f->qp[0]) - from;
	while (group_of(f->qp[0]).outstanding || segments(f->qp[0]) % 256)
		herd_poll(f);
	return sent;
}

/* Weights and classes, across CQs. */
static void t_shares(void)
{
	struct herd *f = herd(false);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp *qp = herd_qp(f, i, "destination", 2000000000, 0);
		CHECK(!to_rts(qp, qp->qp_num));
	}
	struct sluice_stats st = {.size = sizeof(st)};
	CHECK(group_of(f->qp[0]).members == 2 && group_of(f->qp[0]).rate == 2000000000);
	CHECK(!sluice_query_stats(f->qp[1], &st) && st.rate == 2000000000 && !strcmp(st.engine, "none, capped"));
	uint64_t equal = beside(f, 512);
	CHECK(equal > 512 - 32 && equal < 512 + 32);
	CHECK(!sluice_qp_set_share(f->qp[1], 4, 0));
	uint64_t quarter = beside(f, 512);
	CHECK(quarter > 128 - 32 && quarter < 128 + 32);
	CHECK(!sluice_qp_set_share(f->qp[1], 1, 3));
	uint64_t least = beside(f, 1024);
	CHECK(least >= 9 && least < 32);

	CHECK(sluice_qp_set_share(f->qp[0], 0, 0) == EINVAL && strstr(sluice_error(), "weight 0"));
	CHECK(sluice_qp_set_share(f->qp[0], SLUICE_MAX_WEIGHT + 1, 0) == EINVAL && strstr(sluice_error(), "weight"));
	CHECK(sluice_qp_set_share(f->qp[0], 1, -1) == EINVAL && strstr(sluice_error(), "class -1"));
	CHECK(sluice_qp_set_share(f->qp[0], 1, SLUICE_CLASSES) == EINVAL && strstr(sluice_error(), "class"));
	CHECK(!sluice_qp_set_share(f->qp[0], SLUICE_MAX_WEIGHT, SLUICE_CLASSES - 1));
	herd_end(f);
}

/* Whose group is whose, and what ends one. */
static void t_groups(void)
{
	struct herd *f = herd(false);
	struct ibv_qp *alone = herd_qp(f, 0, NULL, 0, 0), *a = herd_qp(f, 1, "path", 0, 0), *b = herd_qp(f, 2, "path", 0, 0), *c = herd_qp(f, 3, "path", 0, 0);
	char longest[66];
	memset(longest, 'x', sizeof(longest));
	longest[64] = 0;
	CHECK(sluice_qp_set_group(alone, "x") == EINVAL && strstr(sluice_error(), "group"));
	CHECK(sluice_qp_set_group(a, longest) == EINVAL && strstr(sluice_error(), "64 bytes"));
	longest[63] = 0;
	CHECK(!sluice_qp_set_group(c, longest) && !to_rts(c, c->qp_num) && group_of(c).members == 1);
	CHECK(sluice_qp_set_group(c, "y") == EBUSY && strstr(sluice_error(), "RESET"));
	CHECK(!to_rts(alone, alone->qp_num) && !group_of(alone).members);
	CHECK(!to_rts(a, a->qp_num) && group_of(a).members == 1);
	CHECK(!to_rts(b, b->qp_num) && group_of(b).members == 2 && group_of(c).members == 1);
	/* Equal options alone make one. */
	struct ibv_qp *d = herd_qp(f, 4, "destination", 0, 0);
	CHECK(!to_rts(d, d->qp_num) && group_of(d).members == 1);
	/* It leaves at RESET, and with its last one the group ends. */
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	CHECK(!sluice_modify_qp(b, &reset, IBV_QP_STATE) && !group_of(b).members && group_of(a).members == 1);
	CHECK(!sluice_qp_set_group(b, "") && !to_rts(b, b->qp_num) && !group_of(b).members);
	CHECK(!sluice_modify_qp(a, &reset, IBV_QP_STATE) && !group_of(a).members);
	CHECK(!to_rts(a, a->qp_num) && group_of(a).members == 1);
	CHECK(!sluice_modify_qp(b, &reset, IBV_QP_STATE) && !sluice_qp_set_group(b, NULL));
	CHECK(!to_rts(b, b->qp_num) && group_of(b).members == 2 && group_of(b).outstanding == 0);
	for (int i = 0; i < 5; i++) {
		struct ibv_wc wc;
		herd_post(f, f->qp[i], (uint64_t)i, 10000);
		await(f->cq[i % CQS], &wc, 1);
		CHECK(wc.wr_id == (uint64_t)i && wc.status == IBV_WC_SUCCESS);
	}
	struct sluice_group_stats bad = {.size = 1};
	CHECK(sluice_query_group(a, &bad) == EINVAL && strstr(sluice_error(), "size"));
	CHECK(sluice_query_group(a, NULL) == EINVAL);
	/* Each way to end them, with something outstanding. */
	herd_post(f, a, 1, SIZE);
	herd_post(f, b, 2, SIZE);
	herd_end(f);
}

/* As many groups as queue pairs. */
static void t_many_groups(void)
{
	struct herd *f = herd(false);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < HERD; i++) {
			struct ibv_qp *qp = herd_qp(f, i, "destination", 1000000000, 0);
			char name[] = {(char)('a' + i), 0};
			CHECK(!sluice_qp_set_group(qp, name) && !to_rts(qp, qp->qp_num));
			herd_post(f, qp, (uint64_t)i, 100000);
		}
		for (int i = 0; i < HERD; i++) {
			CHECK(group_of(f->qp[i]).members == 1);
			struct ibv_wc wc;
			for (time_t end = time(NULL) + LIMIT; !ibv_poll_cq(f->cq[i % CQS], 1, &wc);)
				CHECK(time(NULL) < end);
			CHECK(wc.status == IBV_WC_SUCCESS);
		}
		for (int i = 0; i < HERD; i++)
			CHECK(!ibv_destroy_qp(f->qp[i]));
		memset(f->qp, 0, sizeof(f->qp));
	}
	herd_end(f);
}

/* One queue pair's segments fill the group's limit, and what frees it lets another's go, of a CQ
 * that nobody polls. */
static void t_group_progress(void)
{
	enum { LIMIT = 65536 };
	for (int way = 0; way < 4; way++) {
		struct herd *f = herd(false);
		for (int i = 0; i < 2; i++) {
			struct ibv_qp *qp = herd_qp(f, i, "port", 0, LIMIT);
			CHECK(!to_rts(qp, qp->qp_num));
		}
		herd_post(f, f->qp[0], 0, LIMIT);
		herd_post(f, f->qp[1], 1, 4096);
		CHECK(segments(f->qp[0]) == LIMIT / 4096 && segments(f->qp[1]) == 0);
		CHECK(group_of(f->qp[1]).outstanding == LIMIT);
		struct ibv_wc wc;
		struct ibv_qp_attr to = {.qp_state = way == 1 ? IBV_QPS_RESET : IBV_QPS_ERR};
		switch (way) {
		case 0:
			await(f->cq[0], &wc, 1);
			CHECK(wc.wr_id == 0 && wc.status == IBV_WC_SUCCESS);
			break;
		case 1:
			CHECK(!sluice_modify_qp(f->qp[0], &to, IBV_QP_STATE));
			break;
		case 2:
			CHECK(!sluice_destroy_qp(f->qp[0]));
			f->qp[0] = NULL;
			break;
		default: /* its requests end, however */
			CHECK(!sluice_modify_qp(f->qp[0], &to, IBV_QP_STATE));
			await(f->cq[0], &wc, 1);
		}
		CHECK(segments(f->qp[1]) == 1);
		await(f->cq[1], &wc, 1);
		CHECK(wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS && group_of(f->qp[1]).outstanding == 0);
		CHECK(group_of(f->qp[1]).members == (way == 0 || way == 3 ? 2u : 1u));
		herd_end(f);
	}
}

/* Threads with CQs of their own make, use and end queue pairs of one group, in every way. */
static void *storm_thread(void *arg)
{
	int cq = (int)(uintptr_t)arg;
	unsigned seed = (unsigned)cq + 1;
	struct herd *f = common;
	for (int round = 0; round < 60; round++) {
		struct ibv_qp *qp = herd_qp(f, cq, rand_r(&seed) % 4 ? "destination" : NULL, 0, 65536);
		CHECK(!sluice_qp_set_share(qp, 1 + rand_r(&seed) % SLUICE_MAX_WEIGHT, rand_r(&seed) % SLUICE_CLASSES));
		CHECK(!to_rts(qp, qp->qp_num));
		int posts = 1 + rand_r(&seed) % 8, got = 0, least = rand_r(&seed) % 2 ? posts : 0;
		for (int i = 0; i < posts; i++)
			herd_post_of(f, cq, qp, (uint64_t)i, 1 + (uint32_t)(rand_r(&seed) % 100000));
		bool events = f->channel[cq] && rand_r(&seed) % 2;
		while (got < least) {
			struct ibv_wc wc;
			if (events) {
				struct ibv_cq *from;
				void *context;
				CHECK(!ibv_req_notify_cq(f->cq[cq], 0));
				if (!ibv_poll_cq(f->cq[cq], 1, &wc)) {
					CHECK(!ibv_get_cq_event(f->channel[cq], &from, &context) && from == f->cq[cq]);
					ibv_ack_cq_events(from, 1);
					continue;
				}
			} else if (!ibv_poll_cq(f->cq[cq], 1, &wc)) {
				continue;
			}
			CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == qp->qp_num && wc.wr_id == (uint64_t)got);
			got++;
		}
		CHECK(!sluice_qp_set_share(qp, 1, rand_r(&seed) % SLUICE_CLASSES));
		struct ibv_qp_attr a = {.qp_state = rand_r(&seed) % 2 ? IBV_QPS_RESET : IBV_QPS_ERR};
		switch (rand_r(&seed) % 3) {
		case 0:
			CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
			if (a.qp_state == IBV_QPS_RESET) {
				CHECK(!group_of(qp).members && !to_rts(qp, qp->qp_num));
				herd_post_of(f, cq, qp, 0, 30000);
			}
			for (struct ibv_wc wc; a.qp_state == IBV_QPS_ERR && got < posts;)
				got += ibv_poll_cq(f->cq[cq], 1, &wc);
			break;
		case 1:
			CHECK(group_of(qp).members <= CQS);
		}
		CHECK(!ibv_destroy_qp(qp));
		f->qp[cq] = NULL;
	}
	return NULL;
}

static void t_group_storm(void)
{
	for (int channels = 0; channels < 2; channels++) {
		common = herd(channels);
		pthread_t t[CQS];
		for (int i = 0; i < CQS; i++)
			CHECK(!pthread_create(&t[i], NULL, storm_thread, (void *)(uintptr_t)i));
		for (int i = 0; i < CQS; i++)
			CHECK(!pthread_join(t[i], NULL));
		herd_end(common);
	}
}
#endif

/* One byte below and at the port's longest message it goes through, one above it does not: paced,
 * the post says so, and a device that takes the request ends it with an error. */
static void t_longest(void)
{
	struct pair *p = setup(0);
	struct ibv_port_attr port;
	CHECK(!ibv_query_port(p->ctx, 1, &port));
	for (uint32_t n = port.max_msg_sz - 1; n <= port.max_msg_sz + 1; n++) {
		if (n <= port.max_msg_sz && n > SIZE)
			continue; /* no region is so long */
		struct ibv_sge sge = piece(p, 0, 0, n);
		struct ibv_send_wr wr = rdma(p, n, IBV_WR_RDMA_WRITE, &sge, 1, 0), *bad = NULL;
		struct ibv_wc wc;
		int r = ibv_post_send(p->qp[0], &wr, &bad);
		if (r) {
			CHECK(n > port.max_msg_sz && r == EINVAL && bad == &wr);
			puts("refused");
			continue;
		}
		await(p->cq[0], &wc, 1);
		CHECK((wc.status == IBV_WC_SUCCESS) == (n <= port.max_msg_sz));
		puts(wc.status ? "failed" : "done");
	}
	teardown(p);
}

/* Prints the static rate of a path for which the program gave none. */
static void t_static_rate(void)
{
	struct pair *p = setup(0);
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(p->qp[0], &a, IBV_QP_AV, &init));
	printf("static rate %d\n", a.ah_attr.static_rate);
	teardown(p);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"list", t_list}, {"bad_wr", t_bad_wr}, {"full", t_full}, {"inline", t_inline}, {"two_sided", t_two_sided}, {"srq", t_srq},
	{"turns", t_turns}, {"events", t_events}, {"recv_events", t_recv_events}, {"armed", t_armed}, {"epoll", t_epoll}, {"two_events", t_two_events}, {"cancel", t_cancel}, {"fork", t_fork}, {"quiet", t_quiet},
	{"contexts", t_contexts}, {"error", t_error}, {"flush", t_flush}, {"wr", t_wr}, {"threads", t_threads}, {"sharing", t_sharing}, {"herd", t_herd},
	{"rate", t_rate}, {"refused", t_refused}, {"srq_cap", t_srq_cap}, {"unused", t_unused}, {"wr_room", t_wr_room}, {"unacked", t_unacked},
	{"signal", t_signal}, {"async", t_async}, {"static_rate", t_static_rate}, {"longest", t_longest},
#ifdef SLUICE_API
	{"refusals", t_refusals}, {"options", t_options}, {"makers", t_makers},
	{"shares", t_shares}, {"groups", t_groups}, {"many_groups", t_many_groups}, {"group_progress", t_group_progress}, {"group_storm", t_group_storm},
#else
	{"cq_ex", t_cq_ex}, {"cq_ex_both", t_cq_ex_both}, {"ud", t_ud},
#endif
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (argc < 2)
			puts(tests[i].name);
		else if (!strcmp(argv[1], tests[i].name)) {
			alarm(3 * LIMIT);
			tests[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
