/* Queue pairs and shared receive queues, apart from what is posted to them. */
#define _GNU_SOURCE
#include "fake.h"
#include <stdlib.h>

static int rq_init(struct rq *rq, uint32_t size, uint32_t max_sge)
{
	rq->size = size ? size : 1;
	rq->max_sge = max_sge;
	rq->ring = calloc(rq->size, sizeof *rq->ring);
	return rq->ring ? 0 : ENOMEM;
}

struct ibv_qp *fv_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *a)
{
	struct fv_context *c = to_ctx(ctx);
	struct config *cfg = &c->cfg;
	bool ex = a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	int err = hook(c, CALL_create_qp_ex, NULL, NULL);
	if (!err && a->comp_mask & ~(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
				     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		err = EOPNOTSUPP;
	if (!err && a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && a->create_flags)
		err = EOPNOTSUPP;
	const uint64_t ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
		IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
		IBV_QP_EX_WITH_SEND_WITH_INV;
	if (!err && ex && a->send_ops_flags & ~ops)
		err = EOPNOTSUPP;
	switch (a->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_RAW_PACKET:
		break;
	default:
		err = err ? err : EOPNOTSUPP;
	}
	if (!err && (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd || !a->send_cq || !a->recv_cq ||
		     a->cap.max_send_wr > cfg->max_qp_wr || a->cap.max_send_sge > cfg->max_sge ||
		     (!a->srq && (a->cap.max_recv_wr > cfg->max_qp_wr || a->cap.max_recv_sge > cfg->max_sge)) ||
		     a->cap.max_inline_data > cfg->max_inline))
		err = EINVAL;
	if (err)
		return errno = err, NULL;

	struct fv_qp *qp = calloc(1, sizeof *qp);
	struct ibv_qp *q = &qp->ex.qp_base;
	qp->ctx = c;
	qp->sig_all = a->sq_sig_all;
	qp->timed = cfg->latency_ns || cfg->line_bps;
	qp->sq_size = a->cap.max_send_wr ? a->cap.max_send_wr : 1;
	qp->pending_end = &qp->pending;
	qp->cap = a->cap;
	if (!qp->cap.max_send_sge)
		qp->cap.max_send_sge = 1;
	if (!a->srq && rq_init(&qp->rq, a->cap.max_recv_wr, a->cap.max_recv_sge)) {
		free(qp);
		return errno = ENOMEM, NULL;
	}
	qp->recv = a->srq ? &container(a->srq, struct fv_srq, srq)->rq : &qp->rq;
	q->context = ctx;
	q->qp_context = a->qp_context;
	q->pd = a->pd;
	q->send_cq = a->send_cq;
	q->recv_cq = a->recv_cq;
	q->srq = a->srq;
	q->qp_type = a->qp_type;
	q->state = IBV_QPS_RESET;
	pthread_mutex_init(&q->mutex, NULL);
	pthread_cond_init(&q->cond, NULL);
	if (ex) {
		qp->ops = a->send_ops_flags;
		qp->stage_cap = qp->sq_size;
		qp->stage = calloc(qp->sq_size, sizeof *qp->stage);
		qp->stage_inl = calloc(qp->sq_size, qp->cap.max_inline_data + 1);
		wr_ops_set(qp);
		wr_complete_set(qp);
	}
	pthread_rwlock_wrlock(&world);
	static uint32_t next = 1;
	uint32_t i = next;
	for (int tried = 0; qps[i]; tried++) {
		i = i + 1 < MAX_QPS ? i + 1 : 1;
		if (tried == MAX_QPS) {
			pthread_rwlock_unlock(&world);
			free(qp->rq.ring);
			free(qp->stage);
			free(qp->stage_inl);
			free(qp);
			return errno = ENOMEM, NULL;
		}
	}
	next = i + 1 < MAX_QPS ? i + 1 : 1;
	q->qp_num = process_tag() << 12 | i;
	q->handle = i;
	qps[i] = qp;
	pthread_rwlock_unlock(&world);
	pd_use(a->pd, 1);
	atomic_fetch_add(&((struct fv_cq *)a->send_cq)->users, 1);
	atomic_fetch_add(&((struct fv_cq *)a->recv_cq)->users, 1);
	if (a->srq)
		atomic_fetch_add(&container(a->srq, struct fv_srq, srq)->users, 1);
	a->cap = qp->cap;
	logf_(c, "create_qp qp=%u type=%d send_wr=%u send_ops=%#llx", q->qp_num, q->qp_type,
	      qp->sq_size, ex ? (unsigned long long)a->send_ops_flags : 0);
	return q;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	int err = hook(to_ctx(pd->context), CALL_create_qp, NULL, NULL);
	if (err)
		return errno = err, NULL;
	struct ibv_qp_init_attr_ex a = {
		.qp_context = attr->qp_context, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq,
		.srq = attr->srq, .cap = attr->cap, .qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
	};
	struct ibv_qp *qp = fv_create_qp_ex(pd->context, &a);
	if (qp)
		attr->cap = a.cap;
	return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *q)
{
	struct fv_qp *qp = (struct fv_qp *)q;
	return qp->stage ? &qp->ex : NULL;
}

/* The ways between states that the specification has (IBTA 1.4, 10.3.1). */
static bool may_go(enum ibv_qp_state from, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_RESET:
	case IBV_QPS_ERR:
		return true;
	case IBV_QPS_INIT:
		return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
	case IBV_QPS_RTR:
		return from == IBV_QPS_INIT;
	case IBV_QPS_RTS:
		return from == IBV_QPS_RTR || from == IBV_QPS_RTS || from == IBV_QPS_SQD ||
		       from == IBV_QPS_SQE;
	case IBV_QPS_SQD:
		return from == IBV_QPS_RTS || from == IBV_QPS_SQD;
	default:
		return false;
	}
}

int ibv_modify_qp(struct ibv_qp *q, struct ibv_qp_attr *attr, int mask)
{
	struct fv_qp *qp = (struct fv_qp *)q;
	struct config *cfg = &qp->ctx->cfg;
	int err = hook(qp->ctx, CALL_modify_qp, qp, NULL);
	if (err)
		return err;
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : q->state;
	if (mask & IBV_QP_STATE && !may_go(q->state, to))
		return EINVAL;
	bool connected = q->qp_type == IBV_QPT_RC || q->qp_type == IBV_QPT_UC;
	const int need_rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (connected && to == IBV_QPS_RTR && q->state == IBV_QPS_INIT && (mask & need_rtr) != need_rtr)
		return EINVAL;
	if (mask & IBV_QP_AV && (!attr->ah_attr.is_global || attr->ah_attr.grh.sgid_index >= cfg->ngids))
		return EINVAL;
	if (mask & IBV_QP_PORT && attr->port_num != 1)
		return EINVAL;
	if (mask & IBV_QP_PATH_MTU && (256 << (attr->path_mtu - 1)) > cfg->mtu)
		return EINVAL;
	if (mask & IBV_QP_RATE_LIMIT && attr->rate_limit) {
		if (!(cfg->rate_qpts & 1u << q->qp_type))
			return EOPNOTSUPP;
		if (attr->rate_limit < cfg->rate_min || attr->rate_limit > cfg->rate_max)
			return EINVAL;
	}
	if (((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > cfg->max_rd_atom) ||
	    ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > cfg->max_rd_atom))
		return EINVAL;
	struct ibv_qp_attr *a = &qp->attr;
#define TAKE(bit, field)                                                                           \
	if (mask & (bit))                                                                          \
	a->field = attr->field
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_QKEY, qkey);
	TAKE(IBV_QP_AV, ah_attr);
	TAKE(IBV_QP_PATH_MTU, path_mtu);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_DEST_QPN, dest_qp_num);
	TAKE(IBV_QP_RATE_LIMIT, rate_limit);
	if (mask & IBV_QP_RATE_LIMIT) {
		qp->rate_kbps = attr->rate_limit;
		qp->timed = cfg->latency_ns || cfg->line_bps || qp->rate_kbps;
	}
	if (!(mask & IBV_QP_STATE))
		return 0;
	logf_(qp->ctx, "modify_qp qp=%u state=%d dest=%u", q->qp_num, to, a->dest_qp_num);
	if (to == IBV_QPS_ERR && q->state != IBV_QPS_RESET) {
		qp_error(qp);
		return 0;
	}
	if (to == IBV_QPS_RESET) {
		/* Nothing posted completes, and what completed is gone. */
		spin_lock(&qp->lock, cfg->locks);
		while (qp->pending) {
			struct staged *s = qp->pending;
			qp->pending = s->next;
			free(s->inl);
			free(s);
		}
		qp->pending_end = &qp->pending;
		atomic_store(&qp->sq_free, qp->sq_posted);
		spin_unlock(&qp->lock, cfg->locks);
		if (!q->srq)
			qp->rq.tail = qp->rq.head;
		cq_clean((struct fv_cq *)q->send_cq, qp);
		cq_clean((struct fv_cq *)q->recv_cq, qp);
	}
	q->state = a->qp_state = to;
	if (to == IBV_QPS_RESET || to == IBV_QPS_RTS) {
		qp->sends = to == IBV_QPS_RTS;
		wr_complete_set(qp);
	}
	return 0;
}

int ibv_query_qp(struct ibv_qp *q, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct fv_qp *qp = (struct fv_qp *)q;
	(void)mask;
	int err = hook(qp->ctx, CALL_query_qp, qp, NULL);
	if (err)
		return err;
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = q->state;
	attr->cap = qp->cap;
	*init = (struct ibv_qp_init_attr){
		.qp_context = q->qp_context, .send_cq = q->send_cq, .recv_cq = q->recv_cq,
		.srq = q->srq, .cap = qp->cap, .qp_type = q->qp_type, .sq_sig_all = qp->sig_all,
	};
	return 0;
}

int fv_modify_qp_rate_limit(struct ibv_qp *q, struct ibv_qp_rate_limit_attr *attr)
{
	struct fv_qp *qp = (struct fv_qp *)q;
	struct config *cfg = &qp->ctx->cfg;
	int err = hook(qp->ctx, CALL_modify_qp_rate_limit, qp, NULL);
	if (err)
		return err;
	if (!(cfg->rate_qpts & 1u << q->qp_type))
		return EOPNOTSUPP;
	if (attr->comp_mask || q->state != IBV_QPS_RTS ||
	    (attr->rate_limit && (attr->rate_limit < cfg->rate_min || attr->rate_limit > cfg->rate_max)))
		return EINVAL;
	logf_(qp->ctx, "modify_qp_rate_limit qp=%u kbps=%u burst=%u packet=%u", q->qp_num,
	      attr->rate_limit, attr->max_burst_sz, attr->typical_pkt_sz);
	qp->attr.rate_limit = qp->rate_kbps = attr->rate_limit;
	qp->timed = cfg->latency_ns || cfg->line_bps || qp->rate_kbps;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *q)
{
	struct fv_qp *qp = (struct fv_qp *)q;
	struct fv_context *c = qp->ctx;
	int err = hook(c, CALL_destroy_qp, qp, NULL);
	if (err)
		return err;
	uint32_t dropped = 0;
	evq_drop(&c->async, qp, &dropped);
	pthread_mutex_lock(&q->mutex);
	while (q->events_completed != qp->async_reported - dropped)
		pthread_cond_wait(&q->cond, &q->mutex);
	pthread_mutex_unlock(&q->mutex);
	pthread_rwlock_wrlock(&world);
	qps[q->handle] = NULL;
	pthread_rwlock_unlock(&world);
	cq_clean((struct fv_cq *)q->send_cq, qp);
	cq_clean((struct fv_cq *)q->recv_cq, qp);
	atomic_fetch_sub(&((struct fv_cq *)q->send_cq)->users, 1);
	atomic_fetch_sub(&((struct fv_cq *)q->recv_cq)->users, 1);
	if (q->srq)
		atomic_fetch_sub(&container(q->srq, struct fv_srq, srq)->users, 1);
	pd_use(q->pd, -1);
	while (qp->pending) {
		struct staged *s = qp->pending;
		qp->pending = s->next;
		free(s->inl);
		free(s);
	}
	free(qp->rq.ring);
	free(qp->stage);
	free(qp->stage_inl);
	free(qp);
	return 0;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)gid;
	(void)lid;
	return qp->qp_type == IBV_QPT_UD ? EOPNOTSUPP : EINVAL;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return ibv_attach_mcast(qp, gid, lid);
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return EOPNOTSUPP;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	memset(ece, 0, sizeof *ece);
	return EOPNOTSUPP;
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, void *context, struct ibv_srq_attr *attr)
{
	struct fv_context *c = to_ctx(pd->context);
	int err = hook(c, CALL_create_srq, NULL, NULL);
	if (!err && (!attr->max_wr || attr->max_wr > c->cfg.max_qp_wr || attr->max_sge > c->cfg.max_sge))
		err = EINVAL;
	if (err)
		return errno = err, NULL;
	struct fv_srq *s = calloc(1, sizeof *s);
	s->ctx = c;
	s->srq.context = pd->context;
	s->srq.srq_context = context;
	s->srq.pd = pd;
	pthread_mutex_init(&s->srq.mutex, NULL);
	pthread_cond_init(&s->srq.cond, NULL);
	if (rq_init(&s->rq, attr->max_wr, attr->max_sge)) {
		free(s);
		return errno = ENOMEM, NULL;
	}
	pd_use(pd, 1);
	return &s->srq;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return create_srq(pd, attr->srq_context, &attr->attr);
}

struct ibv_srq *fv_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)
{
	(void)ctx;
	bool basic = !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || attr->srq_type == IBV_SRQT_BASIC;
	if (!basic || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD))
		return errno = EOPNOTSUPP, NULL;
	return create_srq(attr->pd, attr->srq_context, &attr->attr);
}

int fv_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	(void)srq;
	(void)num;
	return EOPNOTSUPP; /* only XRC's have numbers */
}

int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct fv_srq *s = container(ibsrq, struct fv_srq, srq);
	int err = hook(s->ctx, CALL_modify_srq, NULL, NULL);
	if (err)
		return err;
	if (mask & IBV_SRQ_MAX_WR || (mask & IBV_SRQ_LIMIT && attr->srq_limit >= s->rq.size))
		return EINVAL;
	if (mask & IBV_SRQ_LIMIT) {
		spin_lock(&s->rq.lock, s->ctx->cfg.locks);
		s->limit = attr->srq_limit;
		spin_unlock(&s->rq.lock, s->ctx->cfg.locks);
	}
	return 0;
}

int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct fv_srq *s = container(ibsrq, struct fv_srq, srq);
	int err = hook(s->ctx, CALL_query_srq, NULL, NULL);
	if (err)
		return err;
	*attr = (struct ibv_srq_attr){s->rq.size, s->rq.max_sge, s->limit};
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct fv_srq *s = container(ibsrq, struct fv_srq, srq);
	int err = hook(s->ctx, CALL_destroy_srq, NULL, NULL);
	if (err)
		return err;
	if (atomic_load(&s->users))
		return EBUSY;
	uint32_t dropped = 0;
	evq_drop(&s->ctx->async, s, &dropped);
	pthread_mutex_lock(&ibsrq->mutex);
	while (ibsrq->events_completed != s->async_reported - dropped)
		pthread_cond_wait(&ibsrq->cond, &ibsrq->mutex);
	pthread_mutex_unlock(&ibsrq->mutex);
	pd_use(ibsrq->pd, -1);
	free(s->rq.ring);
	free(s);
	return 0;
}
