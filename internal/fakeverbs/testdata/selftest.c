/* What programs see of the fake libibverbs: selftest CASE, in an environment that
 * the Go test sets. It prints what is wrong, and ends with 1 if anything is. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int wrong;
#define CHECK(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("line %d: %s: ", __LINE__, #cond);                                  \
			printf(" " __VA_ARGS__);                                                    \
			printf("\n");                                                              \
			wrong = 1;                                                                 \
		}                                                                                  \
	} while (0)
#define NEED(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("line %d: %s: errno %d\n", __LINE__, #cond, errno);                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char *buf;
enum { LEN = 4 << 20, HALF = LEN / 2 };

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static struct ibv_qp *new_qp(enum ibv_qp_type type, struct ibv_cq *cq, struct ibv_srq *srq, int depth)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type, .pd = pd,
		.cap = {.max_send_wr = depth, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4,
			.max_inline_data = 64},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND |
			IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &a);
	NEED(qp);
	return qp;
}

static void connect_qp(struct ibv_qp *qp, uint32_t dest, int rnr_retry)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_4096, .dest_qp_num = dest,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 3}},
		.rnr_retry = rnr_retry, .retry_cnt = 7, .timeout = 14, .max_rd_atomic = 16,
		.max_dest_rd_atomic = 16, .qkey = 0x1111,
	};
	bool ud = qp->qp_type == IBV_QPT_UD, raw = qp->qp_type == IBV_QPT_RAW_PACKET;
	NEED(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
				    (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	a.qp_state = IBV_QPS_RTR;
	NEED(!ibv_modify_qp(qp, &a, ud || raw ? IBV_QP_STATE : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	NEED(!ibv_modify_qp(qp, &a, ud || raw ? IBV_QP_STATE : IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
			    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static int post(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id, int from, int len, int to,
		unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)buf + from, len, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = op,
				 .send_flags = flags, .imm_data = htonl(77)}, *bad = NULL;
	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)buf + to;
		wr.wr.atomic.rkey = mr->rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 99;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)buf + to;
		wr.wr.rdma.rkey = mr->rkey;
	}
	int err = ibv_post_send(qp, &wr, &bad);
	CHECK(!err == !bad, "%d", err);
	return err;
}

static int receive(struct ibv_qp *qp, struct ibv_srq *srq, uint64_t id, int at, int len)
{
	struct ibv_sge sge = {(uintptr_t)buf + at, len, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
	return srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
}

static struct ibv_wc one(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = {0};
	int n = ibv_poll_cq(cq, 1, &wc);
	CHECK(n == 1 && wc.wr_id == id && wc.status == status, "n %d, wr_id %llu, %s; want %llu, %s", n,
	      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status), (unsigned long long)id,
	      ibv_wc_status_str(status));
	return wc;
}

static void none(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	CHECK(ibv_poll_cq(cq, 1, &wc) == 0, "wr_id %llu", (unsigned long long)wc.wr_id);
}

static void data(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	struct ibv_qp *a = new_qp(IBV_QPT_RC, cq, NULL, 8), *b = new_qp(IBV_QPT_RC, cq, NULL, 8);
	CHECK(post(a, IBV_WR_SEND, 1, 0, 4, 0, 0) == EINVAL, "a post before RTS");
	connect_qp(a, b->qp_num, 7);
	connect_qp(b, a->qp_num, 7);
	for (int i = 0; i < 4096; i++)
		buf[i] = i * 7;
	NEED(!post(a, IBV_WR_RDMA_WRITE, 1, 0, 4096, HALF, IBV_SEND_SIGNALED));
	struct ibv_wc wc = one(cq, 1, IBV_WC_SUCCESS);
	CHECK(wc.opcode == IBV_WC_RDMA_WRITE && wc.qp_num == a->qp_num);
	CHECK(!memcmp(buf, buf + HALF, 4096));
	NEED(!post(a, IBV_WR_RDMA_READ, 2, 8192, 4096, HALF, IBV_SEND_SIGNALED));
	one(cq, 2, IBV_WC_SUCCESS);
	CHECK(!memcmp(buf, buf + 8192, 4096));

	/* Unsignalled requests take room until a later completion is polled. */
	for (int i = 0; i < 7; i++)
		NEED(!post(a, IBV_WR_RDMA_WRITE, i, 0, 8, HALF, 0));
	NEED(!post(a, IBV_WR_RDMA_WRITE, 7, 0, 8, HALF, IBV_SEND_SIGNALED));
	CHECK(post(a, IBV_WR_RDMA_WRITE, 8, 0, 8, HALF, 0) == ENOMEM);
	one(cq, 7, IBV_WC_SUCCESS);
	none(cq);
	NEED(!post(a, IBV_WR_RDMA_WRITE, 9, 0, 8, HALF, IBV_SEND_SIGNALED | IBV_SEND_INLINE));
	one(cq, 9, IBV_WC_SUCCESS);
	CHECK(post(a, IBV_WR_RDMA_WRITE, 9, 0, 65, HALF, IBV_SEND_INLINE) == EINVAL);

	/* A Send waits for its receive, and what follows it waits too. */
	NEED(!post(a, IBV_WR_SEND_WITH_IMM, 10, 0, 100, 0, IBV_SEND_SIGNALED));
	NEED(!post(a, IBV_WR_RDMA_WRITE_WITH_IMM, 11, 0, 200, HALF, IBV_SEND_SIGNALED));
	none(cq);
	NEED(!receive(b, NULL, 20, 16384, 100));
	wc = one(cq, 20, IBV_WC_SUCCESS);
	CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == 100 && ntohl(wc.imm_data) == 77 &&
	      wc.wc_flags == IBV_WC_WITH_IMM && wc.qp_num == b->qp_num);
	CHECK(!memcmp(buf, buf + 16384, 100));
	one(cq, 10, IBV_WC_SUCCESS);
	none(cq);
	NEED(!receive(b, NULL, 21, 16384, 0));
	wc = one(cq, 21, IBV_WC_SUCCESS);
	CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.byte_len == 200);
	one(cq, 11, IBV_WC_SUCCESS);

	/* Atomics. */
	uint64_t *word = (uint64_t *)(buf + HALF), *old = (uint64_t *)buf;
	*word = 5;
	NEED(!post(a, IBV_WR_ATOMIC_CMP_AND_SWP, 30, 0, 8, HALF, IBV_SEND_SIGNALED));
	CHECK(one(cq, 30, IBV_WC_SUCCESS).opcode == IBV_WC_COMP_SWAP && *old == 5 && *word == 99);
	NEED(!post(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 31, 0, 8, HALF, IBV_SEND_SIGNALED));
	CHECK(one(cq, 31, IBV_WC_SUCCESS).opcode == IBV_WC_FETCH_ADD && *old == 99 && *word == 104);

	/* The ibv_wr_ calls, and what they refuse. */
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(a);
	NEED(x);
	ibv_wr_start(x);
	x->wr_id = 40, x->wr_flags = 0;
	ibv_wr_rdma_write(x, mr->rkey, (uintptr_t)buf + HALF);
	ibv_wr_set_inline_data(x, "fourteen bytes", 14);
	x->wr_id = 41, x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(x, mr->rkey, (uintptr_t)buf + HALF);
	struct ibv_sge parts[2] = {{(uintptr_t)buf, 4, mr->lkey}, {(uintptr_t)buf + 100, 10, mr->lkey}};
	ibv_wr_set_sge_list(x, 2, parts);
	NEED(!ibv_wr_complete(x));
	one(cq, 41, IBV_WC_SUCCESS);
	CHECK(!memcmp(buf, "four", 4) && !memcmp(buf + 100, "teen bytes", 10));
	ibv_wr_start(x);
	ibv_wr_rdma_write(x, mr->rkey, (uintptr_t)buf + HALF);
	ibv_wr_set_sge(x, mr->lkey, (uintptr_t)buf, 4);
	ibv_wr_abort(x);
	ibv_wr_start(x);
	ibv_wr_send_inv(x, 1); /* not asked for at creation */
	CHECK(ibv_wr_complete(x) == EOPNOTSUPP);
	ibv_wr_start(x);
	for (int i = 0; i < 9; i++) {
		ibv_wr_rdma_write(x, mr->rkey, (uintptr_t)buf + HALF);
		ibv_wr_set_sge(x, mr->lkey, (uintptr_t)buf, 4);
	}
	CHECK(ibv_wr_complete(x) == ENOMEM);
	none(cq);

	/* A key that is none: the queue pair fails, and all after it is flushed. */
	NEED(!receive(a, NULL, 50, 16384, 100));
	mr->rkey++;
	NEED(!post(a, IBV_WR_RDMA_WRITE, 51, 0, 8, HALF, 0));
	mr->rkey--;
	NEED(!post(a, IBV_WR_RDMA_WRITE, 52, 0, 8, HALF, 0));
	one(cq, 51, IBV_WC_REM_ACCESS_ERR);
	one(cq, 50, IBV_WC_WR_FLUSH_ERR);
	one(cq, 52, IBV_WC_WR_FLUSH_ERR);
	none(cq);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(a, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR);
	struct ibv_async_event e;
	NEED(!ibv_get_async_event(ctx, &e));
	CHECK(e.event_type == IBV_EVENT_QP_ACCESS_ERR && e.element.qp == b, "%s",
	      ibv_event_type_str(e.event_type));
	ibv_ack_async_event(&e);

	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(ibv_destroy_cq(cq) == EBUSY);
	NEED(!ibv_destroy_qp(a));
	/* Its peer is gone. */
	NEED(!post(b, IBV_WR_RDMA_WRITE, 60, 0, 8, HALF, 0));
	one(cq, 60, IBV_WC_RETRY_EXC_ERR);
	NEED(!ibv_destroy_qp(b));
	NEED(!ibv_destroy_cq(cq));
}

static void shared(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &sa);
	NEED(srq);
	struct ibv_qp *a = new_qp(IBV_QPT_RC, cq, NULL, 8), *b = new_qp(IBV_QPT_RC, cq, srq, 8);
	connect_qp(a, b->qp_num, 0);
	connect_qp(b, a->qp_num, 0);
	for (int i = 0; i < 4; i++)
		NEED(!receive(NULL, srq, i, 4096 * i, 64));
	CHECK(receive(NULL, srq, 4, 0, 64) == ENOMEM);
	CHECK(receive(b, NULL, 4, 0, 64) == EINVAL, "a receive to a queue pair with an SRQ");
	struct ibv_srq_attr limit = {.srq_limit = 3};
	NEED(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	for (int i = 0; i < 2; i++) {
		NEED(!post(a, IBV_WR_SEND, 100 + i, HALF, 64, 0, IBV_SEND_SIGNALED));
		one(cq, i, IBV_WC_SUCCESS);
		one(cq, 100 + i, IBV_WC_SUCCESS);
	}
	struct ibv_async_event e;
	NEED(!ibv_get_async_event(ctx, &e));
	CHECK(e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && e.element.srq == srq);
	ibv_ack_async_event(&e);
	NEED(!post(a, IBV_WR_SEND, 102, HALF, 65, 0, IBV_SEND_SIGNALED)); /* too long for it */
	one(cq, 2, IBV_WC_LOC_LEN_ERR);
	one(cq, 102, IBV_WC_REM_INV_REQ_ERR);
	CHECK(b->state == IBV_QPS_ERR);
	NEED(!ibv_destroy_qp(a));
	NEED(!ibv_destroy_qp(b));
	/* Without a receive, and with rnr_retry 0. */
	a = new_qp(IBV_QPT_RC, cq, NULL, 8);
	connect_qp(a, a->qp_num, 0);
	NEED(!post(a, IBV_WR_SEND, 1, 0, 8, 0, 0));
	one(cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	NEED(!ibv_destroy_qp(a));
	NEED(!ibv_destroy_srq(srq));

	/* UD: a header of 40 bytes goes before the payload. */
	a = new_qp(IBV_QPT_UD, cq, NULL, 8);
	b = new_qp(IBV_QPT_UD, cq, NULL, 8);
	connect_qp(a, 0, 0);
	connect_qp(b, 0, 0);
	struct ibv_ah_attr at = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 3}};
	struct ibv_ah *ah = ibv_create_ah(pd, &at);
	NEED(ah);
	NEED(!receive(b, NULL, 1, 0, 200));
	memcpy(buf + HALF, "datagram", 8);
	struct ibv_sge sge = {(uintptr_t)buf + HALF, 8, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED}, *bad;
	wr.wr.ud.ah = ah, wr.wr.ud.remote_qpn = b->qp_num, wr.wr.ud.remote_qkey = 0x1111;
	NEED(!ibv_post_send(a, &wr, &bad));
	struct ibv_wc wc = one(cq, 1, IBV_WC_SUCCESS);
	CHECK(wc.byte_len == 48 && wc.wc_flags & IBV_WC_GRH && wc.src_qp == a->qp_num);
	CHECK(!memcmp(buf + 40, "datagram", 8));
	union ibv_gid gid;
	NEED(!ibv_query_gid(ctx, 1, 3, &gid));
	CHECK(!memcmp(&((struct ibv_grh *)buf)->sgid, &gid, sizeof gid));
	one(cq, 2, IBV_WC_SUCCESS);
	wr.wr.ud.remote_qkey++; /* the wrong key: lost */
	NEED(!ibv_post_send(a, &wr, &bad));
	one(cq, 2, IBV_WC_SUCCESS);
	none(cq);
	NEED(!ibv_destroy_ah(ah));
	NEED(!ibv_destroy_qp(a));
	NEED(!ibv_destroy_qp(b));
	NEED(!ibv_destroy_cq(cq));
}

static void channel(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);
	NEED(ch);
	NEED(!fcntl(ch->fd, F_SETFL, O_NONBLOCK));
	struct ibv_cq *cq = ibv_create_cq(ctx, 8, &wrong, ch, 0), *got;
	void *context;
	struct ibv_qp *a = new_qp(IBV_QPT_RC, cq, NULL, 64);
	connect_qp(a, a->qp_num, 0);
	NEED(!post(a, IBV_WR_RDMA_WRITE, 1, 0, 8, HALF, IBV_SEND_SIGNALED));
	CHECK(ibv_get_cq_event(ch, &got, &context) == -1 && errno == EAGAIN, "an event without having asked");
	NEED(!ibv_req_notify_cq(cq, 0));
	CHECK(ibv_get_cq_event(ch, &got, &context) == -1, "an event for what was there before");
	for (int i = 2; i < 4; i++) /* one event, not two */
		NEED(!post(a, IBV_WR_RDMA_WRITE, i, 0, 8, HALF, IBV_SEND_SIGNALED));
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	CHECK(poll(&p, 1, 0) == 1);
	NEED(!ibv_get_cq_event(ch, &got, &context));
	CHECK(got == cq && context == &wrong);
	CHECK(ibv_get_cq_event(ch, &got, &context) == -1);
	NEED(!ibv_req_notify_cq(cq, 1)); /* solicited ones only */
	NEED(!post(a, IBV_WR_RDMA_WRITE, 4, 0, 8, HALF, IBV_SEND_SIGNALED));
	CHECK(ibv_get_cq_event(ch, &got, &context) == -1);
	ibv_ack_cq_events(cq, 1);
	for (int i = 1; i < 5; i++)
		one(cq, i, IBV_WC_SUCCESS);
	/* More completions than there is room for. */
	for (int i = 0; i < 9; i++)
		NEED(!post(a, IBV_WR_RDMA_WRITE, i, 0, 8, HALF, IBV_SEND_SIGNALED));
	struct ibv_async_event e;
	NEED(!ibv_get_async_event(ctx, &e));
	CHECK(e.event_type == IBV_EVENT_CQ_ERR && e.element.cq == cq);
	ibv_ack_async_event(&e);
	CHECK(ibv_destroy_comp_channel(ch) == EBUSY);
	NEED(!ibv_destroy_qp(a));
	none(cq); /* what a queue pair left goes with it */
	NEED(!ibv_destroy_cq(cq));
	NEED(!ibv_destroy_comp_channel(ch));
}

/* With connectx's clocks, 25 ppm fast, on a counter of 40 bits. */
static void clocks(void)
{
	struct ibv_device_attr_ex attr;
	NEED(!ibv_query_device_ex(ctx, NULL, &attr));
	CHECK(attr.hca_core_clock == 156250 && attr.completion_timestamp_mask == (1ull << 40) - 1);
	struct ibv_cq_init_attr_ex ca = {
		.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(ctx, &ca);
	NEED(ex);
	struct ibv_qp *a = new_qp(IBV_QPT_RC, ibv_cq_ex_to_cq(ex), NULL, 64);
	connect_qp(a, a->qp_num, 0);
	struct ibv_values_ex v0 = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK}, v1 = v0;
	uint64_t t0 = now_ns();
	NEED(!ibv_query_rt_values_ex(ctx, &v0));
	for (int i = 0; i < 3; i++)
		NEED(!post(a, IBV_WR_RDMA_WRITE, i, 0, 8, HALF, IBV_SEND_SIGNALED));
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	uint64_t real = ts.tv_sec * 1000000000ull + ts.tv_nsec;
	struct ibv_poll_cq_attr pa = {0};
	uint64_t mask = attr.completion_timestamp_mask, last = v0.raw_clock.tv_nsec;
	int n = 0;
	NEED(!ibv_start_poll(ex, &pa));
	do {
		uint64_t t = ibv_wc_read_completion_ts(ex), w = ibv_wc_read_completion_wallclock_ns(ex);
		CHECK(ex->wr_id == (uint64_t)n && ex->status == IBV_WC_SUCCESS);
		CHECK(((t - last) & mask) < mask / 2, "timestamps go back");
		/* Offset by 5 s, drifting for as long as the machine is up at most. */
		CHECK(llabs((long long)(w - real) - 5000000000ll) < 1000000000ll, "wall clock %lld ns off",
		      (long long)(w - real));
		struct mlx5dv_clock_info ci;
		NEED(!mlx5dv_get_clock_info(ctx, &ci));
		CHECK(llabs((long long)(mlx5dv_ts_to_ns(&ci, t) - w)) < 100000, "%lld ns apart",
		      (long long)(mlx5dv_ts_to_ns(&ci, t) - w));
		last = t;
		n++;
	} while (!ibv_next_poll(ex));
	ibv_end_poll(ex);
	CHECK(n == 3, "%d completions", n);
	CHECK(ibv_start_poll(ex, &pa) == ENOENT);
	NEED(!ibv_query_rt_values_ex(ctx, &v1));
	uint64_t ticks = (v1.raw_clock.tv_nsec - v0.raw_clock.tv_nsec) & mask, t1 = now_ns();
	CHECK(((v1.raw_clock.tv_nsec - last) & mask) < mask / 2);
	CHECK(ticks <= (t1 - t0) * 0.15625 * 1.000025 + 2, "%llu ticks in %llu ns", (unsigned long long)ticks,
	      (unsigned long long)(t1 - t0));
	CHECK(mlx5dv_is_supported(ctx->device));
	NEED(!ibv_destroy_qp(a));
	NEED(!ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
}

/* A device like soft-RoCE refuses all of it. */
static void plain(void)
{
	struct ibv_device_attr_ex attr;
	NEED(!ibv_query_device_ex(ctx, NULL, &attr));
	CHECK(!attr.hca_core_clock && !attr.completion_timestamp_mask && !attr.packet_pacing_caps.supported_qpts);
	for (int i = 0; i < 2; i++) {
		struct ibv_cq_init_attr_ex ca = {.cqe = 16, .wc_flags = i ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
				: IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
		CHECK(!ibv_create_cq_ex(ctx, &ca) && errno == EOPNOTSUPP);
	}
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	CHECK(ibv_query_rt_values_ex(ctx, &v) == EOPNOTSUPP && !v.comp_mask);
	struct mlx5dv_clock_info ci;
	CHECK(mlx5dv_get_clock_info(ctx, &ci) == EOPNOTSUPP && !mlx5dv_is_supported(ctx->device));
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_qp *a = new_qp(IBV_QPT_RC, cq, NULL, 64);
	connect_qp(a, a->qp_num, 0);
	struct ibv_qp_rate_limit_attr r = {.rate_limit = 1000000};
	CHECK(ibv_modify_qp_rate_limit(a, &r) == EOPNOTSUPP);
	NEED(!ibv_destroy_qp(a));
	NEED(!ibv_destroy_cq(cq));
}

/* FAKEVERBS_LACKS=extended: the ABI without a single extended call. */
static void old(void)
{
	struct ibv_device_attr_ex attr;
	CHECK(!ibv_query_device_ex(ctx, NULL, &attr) && attr.orig_attr.max_qp > 0);
	struct ibv_cq_init_attr_ex ca = {.cqe = 16};
	CHECK(!ibv_create_cq_ex(ctx, &ca) && errno == EOPNOTSUPP);
	struct ibv_port_attr pa;
	CHECK(!ibv_query_port(ctx, 1, &pa) && pa.state == IBV_PORT_ACTIVE && pa.link_layer == IBV_LINK_LAYER_ETHERNET);
}

/* Rate limits granted to RC, and a latency. */
static void rates(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	struct ibv_qp *slow = new_qp(IBV_QPT_RC, cq, NULL, 64), *fast = new_qp(IBV_QPT_RC, cq, NULL, 64);
	struct ibv_qp_rate_limit_attr r = {.rate_limit = 800000}; /* 100 MB/s */
	CHECK(ibv_modify_qp_rate_limit(slow, &r) == EINVAL, "a limit before RTS");
	connect_qp(slow, slow->qp_num, 0);
	connect_qp(fast, fast->qp_num, 0);
	NEED(!ibv_modify_qp_rate_limit(slow, &r));
	r.rate_limit = 2000000000;
	CHECK(ibv_modify_qp_rate_limit(fast, &r) == EINVAL, "a limit above the most");
	uint64_t t0 = now_ns();
	for (int i = 0; i < 4; i++)
		NEED(!post(slow, IBV_WR_RDMA_WRITE, i, 0, 1 << 20, HALF, IBV_SEND_SIGNALED));
	NEED(!post(fast, IBV_WR_RDMA_WRITE, 100, 0, 1 << 20, HALF, IBV_SEND_SIGNALED));
	struct ibv_wc wc;
	for (int got = 0; got < 5;) {
		int n = ibv_poll_cq(cq, 1, &wc);
		if (!n)
			continue;
		/* 10.5 ms each on the slow one, and 2 ms of latency: never sooner. */
		uint64_t least = wc.wr_id == 100 ? 2000000 : 2000000 + 10485760 * (wc.wr_id + 1);
		CHECK(now_ns() - t0 >= least, "wr_id %llu", (unsigned long long)wc.wr_id);
		CHECK(wc.wr_id == 100 ? got == 0 : got == (int)wc.wr_id + 1, "%llu came as number %d",
		      (unsigned long long)wc.wr_id, got);
		got++;
	}
	NEED(!ibv_destroy_qp(slow));
	NEED(!ibv_destroy_qp(fast));
	struct ibv_qp *raw = new_qp(IBV_QPT_RAW_PACKET, cq, NULL, 8);
	connect_qp(raw, 0, 0);
	r.rate_limit = 1000;
	CHECK(ibv_modify_qp_rate_limit(raw, &r) == EOPNOTSUPP);
	NEED(!ibv_destroy_qp(raw));
	NEED(!ibv_destroy_cq(cq));
}

/* FAKEVERBS_FAIL=post_send:ENOMEM:2:1,create_cq:EIO:1,post_send_wr:12:5:1
 * FAKEVERBS_WC=rem_op_err:4, FAKEVERBS_EVENTS=port_err@post_send:2,qp_fatal@post_send:3 */
static void faults(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	NEED(cq);
	CHECK(!ibv_create_cq(ctx, 64, NULL, NULL, 0) && errno == EIO);
	struct ibv_qp *a = new_qp(IBV_QPT_RC, cq, NULL, 64);
	connect_qp(a, a->qp_num, 0);
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, 0, 8, HALF, IBV_SEND_SIGNALED));
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 2, 0, 8, HALF, IBV_SEND_SIGNALED));
	CHECK(post(a, IBV_WR_RDMA_WRITE, 3, 0, 8, HALF, IBV_SEND_SIGNALED) == ENOMEM);
	/* The sixth request fails in the midst of a list; the fourth in error. */
	struct ibv_sge sge = {(uintptr_t)buf, 8, mr->lkey};
	struct ibv_send_wr wr[5], *bad;
	for (int i = 0; i < 5; i++) {
		wr[i] = (struct ibv_send_wr){.wr_id = 10 + i, .next = i < 4 ? &wr[i + 1] : NULL, .sg_list = &sge,
			.num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
		wr[i].wr.rdma.remote_addr = (uintptr_t)buf + HALF;
		wr[i].wr.rdma.rkey = mr->rkey;
	}
	CHECK(ibv_post_send(a, wr, &bad) == ENOMEM && bad == &wr[3]);
	one(cq, 1, IBV_WC_SUCCESS);
	one(cq, 2, IBV_WC_SUCCESS);
	one(cq, 10, IBV_WC_SUCCESS);
	one(cq, 11, IBV_WC_REM_OP_ERR);
	one(cq, 12, IBV_WC_WR_FLUSH_ERR);
	none(cq);
	struct ibv_async_event e;
	NEED(!ibv_get_async_event(ctx, &e));
	CHECK(e.event_type == IBV_EVENT_PORT_ERR && e.element.port_num == 1);
	ibv_ack_async_event(&e);
	NEED(!ibv_get_async_event(ctx, &e));
	CHECK(e.event_type == IBV_EVENT_QP_FATAL && e.element.qp == a);
	ibv_ack_async_event(&e);
	NEED(!ibv_destroy_qp(a));
	NEED(!ibv_destroy_cq(cq));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"data", data}, {"shared", shared}, {"channel", channel}, {"clocks", clocks},
		     {"plain", plain}, {"old", old}, {"rates", rates}, {"faults", faults}};
	int num;
	struct ibv_device **list = ibv_get_device_list(&num);
	NEED(list && num == 1 && argc == 2);
	ctx = ibv_open_device(list[0]);
	NEED(ctx);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	buf = aligned_alloc(4096, LEN);
	NEED(pd && buf);
	memset(buf, 0, LEN);
	mr = ibv_reg_mr(pd, buf, LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC);
	NEED(mr);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			CHECK(ibv_close_device(ctx) == EBUSY);
			NEED(!ibv_dereg_mr(mr));
			NEED(!ibv_dealloc_pd(pd));
			NEED(!ibv_close_device(ctx));
			return wrong;
		}
	printf("there is no case %s\n", argv[1]);
	return 2;
}
