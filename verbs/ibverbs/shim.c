//go:build ibverbs

#define _GNU_SOURCE
#include "shim.h"

/* Without the header of direct verbs there are none. */
#if __has_include(<infiniband/mlx5dv.h>)
#include <infiniband/mlx5dv.h>
#define HAVE_MLX5DV 1
#else
#define HAVE_MLX5DV 0
struct mlx5dv_obj;
#endif

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Some drivers return -1 and set errno, some -errno, most errno. */
static int code(int r)
{
	if (r == -1)
		return errno ? errno : EIO;
	return r < 0 ? -r : r;
}

static int failed(void)
{
	return errno ? errno : EIO;
}

/* ibv_reg_mr is a macro around two functions. */
static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr(pd, addr, length, access);
}

#define DEFAULT(call, f) do { if (!c->call) c->call = (f); } while (0)

void shim_complete_calls(struct ibverbs_calls *c, struct ibv_context *ctx)
{
	DEFAULT(post_send, ctx->ops.post_send);
	DEFAULT(post_recv, ctx->ops.post_recv);
	DEFAULT(post_srq_recv, ctx->ops.post_srq_recv);
	DEFAULT(poll_cq, ctx->ops.poll_cq);
	DEFAULT(req_notify_cq, ctx->ops.req_notify_cq);
	DEFAULT(alloc_pd, ibv_alloc_pd);
	DEFAULT(dealloc_pd, ibv_dealloc_pd);
	DEFAULT(reg_mr, reg_mr);
	DEFAULT(dereg_mr, ibv_dereg_mr);
	DEFAULT(create_cq, ibv_create_cq);
	DEFAULT(create_cq_ex, ibv_create_cq_ex);
	DEFAULT(destroy_cq, ibv_destroy_cq);
	DEFAULT(create_comp_channel, ibv_create_comp_channel);
	DEFAULT(destroy_comp_channel, ibv_destroy_comp_channel);
	DEFAULT(get_cq_event, ibv_get_cq_event);
	DEFAULT(ack_cq_events, ibv_ack_cq_events);
	DEFAULT(create_qp, ibv_create_qp);
	DEFAULT(modify_qp, ibv_modify_qp);
	DEFAULT(query_qp, ibv_query_qp);
	DEFAULT(destroy_qp, ibv_destroy_qp);
	DEFAULT(modify_qp_rate_limit, ibv_modify_qp_rate_limit);
	DEFAULT(create_srq, ibv_create_srq);
	DEFAULT(destroy_srq, ibv_destroy_srq);
	DEFAULT(create_ah, ibv_create_ah);
	DEFAULT(destroy_ah, ibv_destroy_ah);
	DEFAULT(get_async_event, ibv_get_async_event);
	DEFAULT(ack_async_event, ibv_ack_async_event);
	DEFAULT(query_rt_values, ibv_query_rt_values_ex);
}

int shim_open(const char *name, struct ibv_context **out)
{
	int r = ENODEV;
	errno = 0;
	struct ibv_device **list = ibv_get_device_list(NULL);
	if (!list)
		return failed();
	for (struct ibv_device **d = list; *d; d++) {
		if (strcmp(ibv_get_device_name(*d), name))
			continue;
		errno = 0;
		*out = ibv_open_device(*d);
		r = *out ? 0 : failed();
		break;
	}
	ibv_free_device_list(list);
	return r;
}

int shim_query_device(struct ibv_context *ctx, struct ibv_device_attr_ex *a, int *extended)
{
	struct verbs_context *v = verbs_get_ctx_op(ctx, query_device_ex);
	*extended = v != NULL;
	memset(a, 0, sizeof(*a));
	return code(ibv_query_device_ex(ctx, NULL, a));
}

int shim_query_port(struct ibv_context *ctx, int port, struct ibv_port_attr *a)
{
	memset(a, 0, sizeof(*a));
	return code(ibv_query_port(ctx, (uint8_t)port, a));
}

int shim_query_gid(struct ibv_context *ctx, int port, int index, struct ibv_gid_entry *e)
{
	memset(e, 0, sizeof(*e));
	return code(ibv_query_gid_ex(ctx, (uint32_t)port, (uint32_t)index, e, 0));
}

int shim_query_pkey(struct ibv_context *ctx, int port, int index, uint16_t *key)
{
	__be16 k;
	errno = 0;
	if (ibv_query_pkey(ctx, (uint8_t)port, index, &k))
		return errno ? errno : EIO;
	*key = be16toh(k);
	return 0;
}

int shim_readable(int fd, int cancelled, int milliseconds)
{
	/* poll ignores a negative descriptor. */
	struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = cancelled, .events = POLLIN}};
	if (poll(p, 2, milliseconds) < 0)
		return errno == EINTR ? 0 : -errno;
	return p[0].revents != 0;
}

#define MADE(out, expression) do { errno = 0; *(out) = (expression); return *(out) ? 0 : failed(); } while (0)

int shim_alloc_pd(const struct ibverbs_calls *c, struct ibv_context *ctx, struct ibv_pd **out)
{
	MADE(out, c->alloc_pd(ctx));
}

int shim_dealloc_pd(const struct ibverbs_calls *c, struct ibv_pd *pd) { return code(c->dealloc_pd(pd)); }

int shim_reg_mr(const struct ibverbs_calls *c, struct ibv_pd *pd, void *addr, size_t length, int access, struct ibv_mr **out)
{
	MADE(out, c->reg_mr(pd, addr, length, access));
}

int shim_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access, struct ibv_mr **out)
{
	MADE(out, ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access));
}

int shim_dereg_mr(const struct ibverbs_calls *c, struct ibv_mr *mr) { return code(c->dereg_mr(mr)); }

int shim_create_ah(const struct ibverbs_calls *c, struct ibv_pd *pd, struct ibv_ah_attr *a, struct ibv_ah **out)
{
	MADE(out, c->create_ah(pd, a));
}

int shim_destroy_ah(const struct ibverbs_calls *c, struct ibv_ah *ah) { return code(c->destroy_ah(ah)); }

int shim_create_channel(const struct ibverbs_calls *c, struct ibv_context *ctx, struct ibv_comp_channel **out)
{
	MADE(out, c->create_comp_channel(ctx));
}

int shim_destroy_channel(const struct ibverbs_calls *c, struct ibv_comp_channel *ch)
{
	return code(c->destroy_comp_channel(ch));
}

int shim_get_cq_event(const struct ibverbs_calls *c, struct ibv_comp_channel *ch, struct ibv_cq **cq)
{
	void *cq_context;
	errno = 0;
	if (c->get_cq_event(ch, cq, &cq_context))
		return failed();
	c->ack_cq_events(*cq, 1);
	return 0;
}

int shim_get_async_event(const struct ibverbs_calls *c, struct ibv_context *ctx, int *type, void **element, int *port)
{
	struct ibv_async_event e;
	memset(&e, 0, sizeof(e));
	errno = 0;
	if (c->get_async_event(ctx, &e))
		return failed();
	*type = e.event_type;
	*element = NULL;
	*port = 0;
	switch (e.event_type) {
	case IBV_EVENT_CQ_ERR:
		*element = e.element.cq;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		*element = e.element.qp;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		*element = e.element.srq;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		*port = e.element.port_num;
		break;
	default:
		break;
	}
	c->ack_async_event(&e);
	return 0;
}

/* The beginning of struct mlx5dv_context, with room for what follows. */
struct mlx5_context {
	uint8_t version;
	uint64_t flags, comp_mask, rest[64];
};

enum { MLX5_REAL_TIME_TS = 1 << 7 };

static struct {
	pthread_once_t once;
	bool (*is_supported)(struct ibv_device *);
	int (*get_clock_info)(struct ibv_context *, struct shim_mlx5_clock *);
	int (*query_device)(struct ibv_context *, struct mlx5_context *);
	int (*init_obj)(struct mlx5dv_obj *, uint64_t);
} mlx5 = {.once = PTHREAD_ONCE_INIT};

static void load_mlx5(void)
{
	void *lib = dlopen("libmlx5.so.1", RTLD_NOW);
	if (!lib)
		return;
	/* POSIX's way to make a function of what dlsym returns. */
	*(void **)&mlx5.is_supported = dlsym(lib, "mlx5dv_is_supported");
	*(void **)&mlx5.get_clock_info = dlsym(lib, "mlx5dv_get_clock_info");
	*(void **)&mlx5.query_device = dlsym(lib, "mlx5dv_query_device");
	*(void **)&mlx5.init_obj = dlsym(lib, "mlx5dv_init_obj");
}

int shim_create_cq(const struct ibverbs_calls *c, struct ibv_context *ctx, int cqe, struct ibv_comp_channel *channel,
		     uint64_t timestamp, struct shim_cq *out)
{
	out->poll_cq = c->poll_cq;
	out->req_notify_cq = c->req_notify_cq;
	errno = 0;
	if (!timestamp) {
		out->cq = c->create_cq(ctx, cqe, NULL, channel, 0);
		return out->cq ? 0 : failed();
	}
	struct ibv_cq_init_attr_ex a = {
		.cqe = (uint32_t)cqe,
		.channel = channel,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP | timestamp,
	};
	out->ex = c->create_cq_ex(ctx, &a);
	if (!out->ex)
		return failed();
	out->cq = ibv_cq_ex_to_cq(out->ex);
	out->wallclock = timestamp == IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	pthread_once(&mlx5.once, load_mlx5);
	out->mlx5 = mlx5.is_supported && mlx5.is_supported(ctx->device);
	return 0;
}

int shim_destroy_cq(const struct ibverbs_calls *c, struct shim_cq *cq) { return code(c->destroy_cq(cq->cq)); }

int shim_req_notify(struct shim_cq *cq, int solicited) { return code(cq->req_notify_cq(cq->cq, solicited)); }

enum { KEPT_FLAGS = IBV_WC_GRH | IBV_WC_WITH_IMM | IBV_WC_WITH_INV };

static int poll_plain(struct shim_cq *cq, struct shim_wc *out, int n)
{
	struct ibv_wc wc[32];
	int done = 0;
	while (done < n) {
		int want = n - done < 32 ? n - done : 32;
		int got = cq->poll_cq(cq->cq, want, wc);
		if (got < 0) /* the number says nothing: drivers differ */
			return done ? done : -EIO;
		for (int i = 0; i < got; i++) {
			const struct ibv_wc *w = &wc[i];
			struct shim_wc *o = &out[done++];
			memset(o, 0, sizeof(*o));
			o->wr_id = w->wr_id;
			o->status = (uint8_t)w->status;
			o->qpn = w->qp_num;
			if (w->status != IBV_WC_SUCCESS) { /* the rest is not valid */
				o->vendor_err = w->vendor_err;
				continue;
			}
			o->opcode = (uint8_t)w->opcode;
			o->flags = w->wc_flags & KEPT_FLAGS;
			o->byte_len = w->byte_len;
			o->src_qp = w->src_qp;
			if (w->wc_flags & IBV_WC_WITH_IMM)
				o->imm = ntohl(w->imm_data);
			else if (w->wc_flags & IBV_WC_WITH_INV)
				o->imm = w->invalidated_rkey;
		}
		if (got < want)
			break;
	}
	return done;
}

static int poll_extended(struct shim_cq *cq, struct shim_wc *out, int n)
{
	struct ibv_cq_ex *x = cq->ex;
	struct ibv_poll_cq_attr attr = {0};
	int done = 0;
	int r = cq->failed;
	if (r) {
		cq->failed = 0;
		return -r;
	}
	r = ibv_start_poll(x, &attr);
	/* libmlx5 reads the clock's parameters for nanoseconds once it has taken a completion
	 * and the CQ's lock. EBUSY says that the kernel was writing them: the completion is
	 * there, and its nanoseconds are by the parameters of the poll before. */
	if (r == EBUSY && cq->mlx5 && cq->wallclock)
		r = 0;
	if (r)
		return r == ENOENT || r == EBUSY ? 0 : -code(r);
	for (;;) {
		struct shim_wc *o = &out[done++];
		memset(o, 0, sizeof(*o));
		o->wr_id = x->wr_id;
		o->status = (uint8_t)x->status;
		o->qpn = ibv_wc_read_qp_num(x);
		if (x->status != IBV_WC_SUCCESS) {
			o->vendor_err = ibv_wc_read_vendor_err(x);
		} else {
			unsigned int flags = ibv_wc_read_wc_flags(x);
			o->opcode = (uint8_t)ibv_wc_read_opcode(x);
			o->flags = flags & KEPT_FLAGS;
			o->byte_len = ibv_wc_read_byte_len(x);
			if (flags & IBV_WC_WITH_IMM)
				o->imm = ntohl(ibv_wc_read_imm_data(x));
			else if (flags & IBV_WC_WITH_INV)
				o->imm = ibv_wc_read_invalidated_rkey(x);
			if (o->opcode & IBV_WC_RECV)
				o->src_qp = ibv_wc_read_src_qp(x);
			o->timestamp = cq->wallclock ? ibv_wc_read_completion_wallclock_ns(x) : ibv_wc_read_completion_ts(x);
		}
		if (done == n)
			break;
		r = ibv_next_poll(x);
		if (r) {
			if (r != ENOENT) /* libmlx5 has consumed a completion that it could not read */
				cq->failed = code(r);
			break;
		}
	}
	ibv_end_poll(x);
	return done;
}

int shim_poll(struct shim_cq *cq, struct shim_wc *out, int n)
{
	if (n <= 0)
		return 0;
	return cq->ex ? poll_extended(cq, out, n) : poll_plain(cq, out, n);
}

int shim_create_qp(const struct ibverbs_calls *c, struct ibv_pd *pd, struct ibv_qp_init_attr *a, struct ibv_qp **out)
{
	MADE(out, c->create_qp(pd, a));
}

int shim_destroy_qp(const struct ibverbs_calls *c, struct ibv_qp *qp) { return code(c->destroy_qp(qp)); }

static int rq_init(struct shim_rq *rq, int batch, int sge)
{
	rq->batch = batch;
	rq->wr = calloc((size_t)batch, sizeof(*rq->wr));
	rq->sge = calloc((size_t)batch * (size_t)(sge ? sge : 1), sizeof(*rq->sge));
	if (!rq->wr || !rq->sge)
		return ENOMEM;
	for (int i = 0; i < batch; i++) {
		rq->wr[i].next = i + 1 < batch ? &rq->wr[i + 1] : NULL;
		rq->wr[i].sg_list = &rq->sge[i * sge];
	}
	return 0;
}

static void rq_fini(struct shim_rq *rq)
{
	free(rq->wr);
	free(rq->sge);
}

struct shim_qp *shim_qp_new(const struct ibverbs_calls *c, struct ibv_qp *qp, int batch, int send_sge, int recv_sge, int inline_bytes)
{
	struct shim_qp *q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->qp = q->rq.qp = qp;
	q->post_send = c->post_send;
	q->rq.post_recv = c->post_recv;
	q->batch = batch;
	q->wr = calloc((size_t)batch, sizeof(*q->wr));
	q->sge = calloc((size_t)batch * (size_t)(send_sge ? send_sge : 1), sizeof(*q->sge));
	q->inline_data = calloc((size_t)batch, (size_t)(inline_bytes ? inline_bytes : 1));
	if (!q->wr || !q->sge || !q->inline_data || rq_init(&q->rq, batch, recv_sge)) {
		shim_qp_free(q);
		return NULL;
	}
	for (int i = 0; i < batch; i++) {
		q->wr[i].next = i + 1 < batch ? &q->wr[i + 1] : NULL;
		q->wr[i].sg_list = &q->sge[i * send_sge];
	}
	return q;
}

void shim_qp_free(struct shim_qp *q)
{
	free(q->wr);
	free(q->sge);
	free(q->inline_data);
	rq_fini(&q->rq);
	free(q);
}

int shim_create_srq(const struct ibverbs_calls *c, struct ibv_pd *pd, struct ibv_srq_init_attr *a, struct ibv_srq **out)
{
	MADE(out, c->create_srq(pd, a));
}

int shim_limit_srq(struct ibv_srq *srq, uint32_t limit)
{
	struct ibv_srq_attr a = {.srq_limit = limit};
	return code(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT));
}

int shim_resize_cq(struct ibv_cq *cq, int cqe) { return code(ibv_resize_cq(cq, cqe)); }

int shim_destroy_srq(const struct ibverbs_calls *c, struct ibv_srq *srq) { return code(c->destroy_srq(srq)); }

struct shim_rq *shim_srq_new(const struct ibverbs_calls *c, struct ibv_srq *srq, int batch, int sge)
{
	struct shim_rq *rq = calloc(1, sizeof(*rq));
	if (!rq)
		return NULL;
	rq->srq = srq;
	rq->post_srq_recv = c->post_srq_recv;
	if (rq_init(rq, batch, sge)) {
		shim_srq_free(rq);
		return NULL;
	}
	return rq;
}

void shim_srq_free(struct shim_rq *rq)
{
	rq_fini(rq);
	free(rq);
}

int shim_modify_qp(const struct ibverbs_calls *c, struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	return code(c->modify_qp(qp, a, mask));
}

int shim_query_qp(const struct ibverbs_calls *c, struct ibv_qp *qp, struct ibv_qp_attr *a, struct ibv_qp_init_attr *init)
{
	const int mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU |
			 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
			 IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN | IBV_QP_CAP;
	return code(c->query_qp(qp, a, mask, init));
}

int shim_modify_cq(struct ibv_cq *cq, uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr a = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = count, .cq_period = period},
	};
	return code(ibv_modify_cq(cq, &a));
}

int shim_rate_limit(const struct ibverbs_calls *c, struct ibv_qp *qp, uint32_t kbps, uint32_t max_burst, uint16_t typical)
{
	struct ibv_qp_rate_limit_attr a = {.rate_limit = kbps, .max_burst_sz = max_burst, .typical_pkt_sz = typical};
	return code(c->modify_qp_rate_limit(qp, &a));
}

int64_t shim_post_send(struct shim_qp *q, int n)
{
	struct ibv_send_wr *bad = q->wr, *next = q->wr[n - 1].next;
	q->wr[n - 1].next = NULL;
	int r = q->post_send(q->qp, q->wr, &bad);
	q->wr[n - 1].next = next;
	if (!r)
		return n;
	return (int64_t)code(r) << 32 | (bad ? bad - q->wr : 0);
}

int64_t shim_post_recv(struct shim_rq *rq, int n)
{
	struct ibv_recv_wr *bad = rq->wr, *next = rq->wr[n - 1].next;
	rq->wr[n - 1].next = NULL;
	int r = rq->srq ? rq->post_srq_recv(rq->srq, rq->wr, &bad) : rq->post_recv(rq->qp, rq->wr, &bad);
	rq->wr[n - 1].next = next;
	if (!r)
		return n;
	return (int64_t)code(r) << 32 | (bad ? bad - rq->wr : 0);
}

int shim_read_clock(const struct ibverbs_calls *c, struct ibv_context *ctx, int64_t *seconds, int64_t *nanoseconds)
{
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	int r = code(c->query_rt_values(ctx, &v));
	if (r)
		return r;
	if (!(v.comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		return EOPNOTSUPP;
	*seconds = v.raw_clock.tv_sec;
	*nanoseconds = v.raw_clock.tv_nsec;
	return 0;
}

int shim_mlx5_clock(struct ibv_context *ctx, struct shim_mlx5_clock *out)
{
	pthread_once(&mlx5.once, load_mlx5);
	if (!mlx5.is_supported || !mlx5.get_clock_info)
		return ENOSYS;
	if (!mlx5.is_supported(ctx->device))
		return EOPNOTSUPP;
	memset(out, 0, sizeof(*out));
	return code(mlx5.get_clock_info(ctx, out));
}

int shim_mlx5_real_time(struct ibv_context *ctx)
{
	struct mlx5_context c = {0};
	pthread_once(&mlx5.once, load_mlx5);
	return mlx5.is_supported && mlx5.query_device && mlx5.is_supported(ctx->device) &&
	       !mlx5.query_device(ctx, &c) && c.flags & MLX5_REAL_TIME_TS;
}

#if HAVE_MLX5DV

int shim_mlx5_maps(struct ibv_context *ctx)
{
	pthread_once(&mlx5.once, load_mlx5);
	if (!mlx5.is_supported || !mlx5.init_obj)
		return ENOSYS;
	return mlx5.is_supported(ctx->device) ? 0 : EOPNOTSUPP;
}

static int init_obj(struct ibv_context *ctx, struct mlx5dv_obj *obj, uint64_t type)
{
	int r = shim_mlx5_maps(ctx);
	return r ? r : code(mlx5.init_obj(obj, type));
}

int shim_mlx5_map_qp(struct ibv_qp *qp, struct shim_mlx5_qp *out)
{
	struct mlx5dv_qp dv = {0};
	struct mlx5dv_obj obj = {.qp = {qp, &dv}};
	int r = init_obj(qp->context, &obj, MLX5DV_OBJ_QP);
	if (r)
		return r;
	if (dv.sq.stride && dv.sq.stride != MLX5_SEND_WQE_BB)
		return EOPNOTSUPP;
	*out = (struct shim_mlx5_qp){
		.record = dv.dbrec, .send = dv.sq.buf, .recv = dv.rq.buf, .send_blocks = dv.sq.wqe_cnt,
		.recv_count = dv.rq.wqe_cnt, .recv_stride = dv.rq.stride, .doorbell = dv.bf.reg,
	};
	return 0;
}

int shim_mlx5_map_cq(struct ibv_cq *cq, struct shim_mlx5_cq *out)
{
	struct mlx5dv_cq dv = {0};
	struct mlx5dv_obj obj = {.cq = {cq, &dv}};
	int r = init_obj(cq->context, &obj, MLX5DV_OBJ_CQ);
	if (r)
		return r;
	*out = (struct shim_mlx5_cq){
		.record = dv.dbrec, .ring = dv.buf, .entries = dv.cqe_cnt, .entry_size = dv.cqe_size, .num = dv.cqn, .uar = dv.cq_uar,
	};
	return 0;
}

int shim_mlx5_map_srq(struct ibv_srq *srq, struct shim_mlx5_srq *out)
{
	struct mlx5dv_srq dv = {0};
	struct mlx5dv_obj obj = {.srq = {srq, &dv}};
	int r = init_obj(srq->context, &obj, MLX5DV_OBJ_SRQ);
	if (r)
		return r;
	*out = (struct shim_mlx5_srq){.record = dv.dbrec, .ring = dv.buf, .stride = dv.stride, .head = dv.head, .tail = dv.tail};
	return 0;
}

int shim_mlx5_map_ah(struct ibv_ah *ah, uint8_t *vector)
{
	struct mlx5dv_ah dv = {0};
	struct mlx5dv_obj obj = {.ah = {ah, &dv}};
	int r = init_obj(ah->context, &obj, MLX5DV_OBJ_AH);
	if (!r)
		memcpy(vector, dv.av, sizeof(*dv.av));
	return r;
}

#else

int shim_mlx5_maps(struct ibv_context *ctx) { (void)ctx; return ENOSYS; }
int shim_mlx5_map_qp(struct ibv_qp *qp, struct shim_mlx5_qp *out) { (void)qp, (void)out; return ENOSYS; }
int shim_mlx5_map_cq(struct ibv_cq *cq, struct shim_mlx5_cq *out) { (void)cq, (void)out; return ENOSYS; }
int shim_mlx5_map_srq(struct ibv_srq *srq, struct shim_mlx5_srq *out) { (void)srq, (void)out; return ENOSYS; }
int shim_mlx5_map_ah(struct ibv_ah *ah, uint8_t *vector) { (void)ah, (void)vector; return ENOSYS; }

#endif
