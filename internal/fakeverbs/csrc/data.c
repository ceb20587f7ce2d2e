/* Posting: what a send request does, at once, and the receives it meets. */
#define _GNU_SOURCE
#include "fake.h"
#include <stdlib.h>

enum { BLOCKED = -1 }; /* no receive is posted, and the sender waits for one */

static const uint8_t wc_opcodes[] = {
	[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[IBV_WR_SEND] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
	[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
};

static bool has_opcode(enum ibv_wr_opcode op)
{
	return (unsigned)op <= IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_SEND_WITH_INV;
}

/* at is where a region's address lies in memory, or NULL outside it. */
static inline char *at(const struct fv_mr *m, uint64_t addr, uint64_t len)
{
	uint64_t off = addr - m->iova;
	if (unlikely(off > m->mr.length || len > m->mr.length - off))
		return NULL;
	return (char *)m->mr.addr + off;
}

static inline enum ibv_wc_status check_local(struct fv_qp *qp, const struct ibv_send_wr *wr,
					     uint32_t *len)
{
	uint64_t n = 0;
	bool writes = wr->opcode >= IBV_WR_RDMA_READ && wr->opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *s = &wr->sg_list[i];
		n += s->length;
		if (wr->send_flags & IBV_SEND_INLINE || !s->length)
			continue;
		const struct fv_mr *m = mr_of_key(s->lkey);
		if (unlikely(!m || m->mr.pd != qp->ex.qp_base.pd || !at(m, s->addr, s->length) ||
			     (writes && !(m->access & IBV_ACCESS_LOCAL_WRITE))))
			return IBV_WC_LOC_PROT_ERR;
	}
	*len = n;
	if (unlikely(n > qp->ctx->cfg.max_msg_sz))
		return IBV_WC_LOC_LEN_ERR;
	return IBV_WC_SUCCESS;
}

/* move copies between a request's scatter list, from byte skip of it on, and a
 * stretch of memory. It returns what did not fit. */
static uint64_t move(const struct ibv_sge *sge, int n, bool in_place, uint64_t skip, char *mem,
		     uint64_t len, bool to_list)
{
	for (int i = 0; i < n && len; i++) {
		uint64_t part = sge[i].length;
		if (skip >= part) {
			skip -= part;
			continue;
		}
		uint64_t k = part - skip < len ? part - skip : len;
		char *p;
		if (in_place) {
			p = (char *)(uintptr_t)sge[i].addr + skip;
		} else {
			struct fv_mr *m = mr_of_key(sge[i].lkey);
			p = m ? at(m, sge[i].addr, part) : NULL;
			if (!p)
				return len;
			p += skip;
		}
		memmove(to_list ? p : mem, to_list ? mem : p, k);
		mem += k, len -= k, skip = 0;
	}
	return len;
}

static struct fv_mr *remote(struct fv_qp *peer, uint32_t rkey, uint64_t addr, uint64_t len,
			    unsigned int access, char **mem)
{
	struct fv_mr *m = mr_of_key(rkey);
	if (!m || m->mr.pd != peer->ex.qp_base.pd || !(m->access & access) ||
	    !(peer->attr.qp_access_flags & access))
		return NULL;
	*mem = at(m, addr, len);
	return *mem ? m : NULL;
}

static bool take_receive(struct fv_qp *peer, struct rwqe *out, bool wait)
{
	struct rq *rq = peer->recv;
	bool locks = peer->ctx->cfg.locks, limit = false;
	spin_lock(&rq->lock, locks);
	bool got = rq->head != rq->tail;
	if (got) {
		*out = rq->ring[rq->tail++ % rq->size];
		if (peer->ex.qp_base.srq) {
			struct fv_srq *srq = container(peer->ex.qp_base.srq, struct fv_srq, srq);
			limit = srq->limit && rq->head - rq->tail < srq->limit;
			if (limit)
				srq->limit = 0;
		}
	} else if (wait) {
		rq->waiting++;
	}
	spin_unlock(&rq->lock, locks);
	if (limit)
		raise_event(peer->ctx, IBV_EVENT_SRQ_LIMIT_REACHED, NULL, NULL,
			    container(peer->ex.qp_base.srq, struct fv_srq, srq), 1);
	return got;
}

static void complete_receive(struct fv_qp *peer, const struct rwqe *r, struct fv_cqe e,
			     uint64_t due)
{
	e.wr_id = r->wr_id;
	e.qp = peer;
	e.qp_num = peer->ex.qp_base.qp_num;
	cq_push((struct fv_cq *)peer->ex.qp_base.recv_cq, &e, due);
}

/* deliver carries a request out at the peer. The process's world is held. */
static int deliver(struct fv_qp *qp, struct fv_qp *peer, const struct ibv_send_wr *wr, uint32_t len,
		   uint64_t due)
{
	bool in_place = wr->send_flags & IBV_SEND_INLINE, imm = false;
	bool ud = qp->ex.qp_base.qp_type == IBV_QPT_UD;
	char *mem;
	struct rwqe r;
	struct fv_cqe e = {.opcode = IBV_WC_RECV, .byte_len = len,
			   .solicited = wr->send_flags & IBV_SEND_SOLICITED,
			   .src_qp = qp->ex.qp_base.qp_num};
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		imm = true;
		/* fallthrough */
	case IBV_WR_RDMA_WRITE:
		if (len && !remote(peer, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, len,
				   IBV_ACCESS_REMOTE_WRITE, &mem))
			goto access;
		if (imm && !take_receive(peer, &r, qp->attr.rnr_retry == 7))
			goto not_ready;
		if (len)
			move(wr->sg_list, wr->num_sge, in_place, 0, mem, len, false);
		if (imm) {
			e.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
			e.imm = wr->imm_data;
			e.wc_flags = IBV_WC_WITH_IMM;
			complete_receive(peer, &r, e, due);
		}
		return 0;
	case IBV_WR_RDMA_READ:
		if (len && !remote(peer, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, len,
				   IBV_ACCESS_REMOTE_READ, &mem))
			goto access;
		if (len)
			move(wr->sg_list, wr->num_sge, false, 0, mem, len, true);
		return 0;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD: {
		if (len != 8 || wr->wr.atomic.remote_addr % 8)
			return IBV_WC_REM_INV_REQ_ERR;
		if (!remote(peer, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, 8,
			    IBV_ACCESS_REMOTE_ATOMIC, &mem))
			goto access;
		uint64_t *word = (uint64_t *)mem, old = wr->wr.atomic.compare_add;
		if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			old = __atomic_fetch_add(word, old, __ATOMIC_SEQ_CST);
		else
			__atomic_compare_exchange_n(word, &old, wr->wr.atomic.swap, false,
						    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		move(wr->sg_list, wr->num_sge, false, 0, (char *)&old, 8, true);
		return 0;
	}
	case IBV_WR_SEND_WITH_INV:
		/* Peers invalidate memory windows and fast-registered regions; here are none. */
		if (qp->ex.qp_base.qp_type == IBV_QPT_RC)
			qp->hurt = peer; /* what waits there for the Send is flushed */
		goto access;
	case IBV_WR_SEND_WITH_IMM:
		imm = true;
		break;
	default:
		break;
	}
	if (!take_receive(peer, &r, !ud && qp->attr.rnr_retry == 7))
		goto not_ready;
	if (imm)
		e.imm = wr->imm_data, e.wc_flags = IBV_WC_WITH_IMM;
	uint64_t room = 0, skip = 0;
	for (int i = 0; i < r.num_sge; i++)
		room += r.sge[i].length;
	if (ud) {
		struct ibv_grh grh = {.next_hdr = 27, .hop_limit = 64};
		if (wr->wr.ud.ah) {
			const struct ibv_ah_attr *a = &((struct fv_ah *)wr->wr.ud.ah)->attr;
			grh.sgid = qp->ctx->cfg.gids[a->grh.sgid_index];
			grh.dgid = a->grh.dgid;
		}
		skip = sizeof grh;
		e.byte_len += skip;
		e.wc_flags |= IBV_WC_GRH;
		if (room >= skip)
			move(r.sge, r.num_sge, false, 0, (char *)&grh, skip, true);
	}
	if (room < len + skip) {
		e.status = IBV_WC_LOC_LEN_ERR;
		if (!ud)
			qp->hurt = peer;
		complete_receive(peer, &r, e, due);
		return ud ? 0 : IBV_WC_REM_INV_REQ_ERR;
	}
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *s = &wr->sg_list[i];
		struct fv_mr *m = in_place ? NULL : mr_of_key(s->lkey);
		char *from = in_place ? (char *)(uintptr_t)s->addr : m ? at(m, s->addr, s->length) : NULL;
		if (s->length && (!from || move(r.sge, r.num_sge, false, skip, from, s->length, true))) {
			e.status = IBV_WC_LOC_PROT_ERR;
			qp->hurt = peer;
			complete_receive(peer, &r, e, due);
			return IBV_WC_REM_OP_ERR;
		}
		skip += s->length;
	}
	complete_receive(peer, &r, e, due);
	return 0;
not_ready:
	if (ud || qp->ex.qp_base.qp_type == IBV_QPT_UC)
		return 0; /* lost */
	return qp->attr.rnr_retry == 7 ? BLOCKED : IBV_WC_RNR_RETRY_EXC_ERR;
access:
	if (qp->ex.qp_base.qp_type == IBV_QPT_UC)
		return 0;
	raise_event(peer->ctx, IBV_EVENT_QP_ACCESS_ERR, peer, NULL, NULL, 1);
	return IBV_WC_REM_ACCESS_ERR;
}

/* to_peer finds who a request is for. Another process's queue pair takes
 * everything and gives nothing: that is the null provider. */
static int to_peer(struct fv_qp *qp, const struct ibv_send_wr *wr, uint32_t len, uint64_t due)
{
	enum ibv_qp_type type = qp->ex.qp_base.qp_type;
	if (type == IBV_QPT_RAW_PACKET)
		return 0;
	bool ud = type == IBV_QPT_UD;
	uint32_t number = ud ? wr->wr.ud.remote_qpn : qp->attr.dest_qp_num;
	if (number >> 12 != process_tag())
		return 0;
	int status = 0;
	pthread_rwlock_rdlock(&world);
	struct fv_qp *peer = qp_of_number(number);
	bool there = peer && peer->ex.qp_base.qp_type == type &&
		     peer->ex.qp_base.state >= IBV_QPS_RTR && peer->ex.qp_base.state <= IBV_QPS_SQE;
	if (there && ud)
		there = peer->attr.qkey == wr->wr.ud.remote_qkey;
	else if (there)
		there = peer->attr.dest_qp_num == qp->ex.qp_base.qp_num;
	if (there)
		status = deliver(qp, peer, wr, len, due);
	else if (type == IBV_QPT_RC)
		status = IBV_WC_RETRY_EXC_ERR;
	pthread_rwlock_unlock(&world);
	return status;
}

/* due is when a request's completion is to be seen, 0 at once. */
static uint64_t due_of(struct fv_qp *qp, uint32_t len)
{
	struct fv_context *c = qp->ctx;
	uint64_t now = now_ns(), t = now;
	uint64_t bits = (uint64_t)len * 8;
	if (qp->rate_kbps) {
		if (qp->free_at > t)
			t = qp->free_at;
		qp->free_at = t + bits * 1000000 / qp->rate_kbps;
		t = qp->free_at;
	}
	if (c->cfg.line_bps) {
		pthread_mutex_lock(&c->mu);
		if (c->link_free < now)
			c->link_free = now;
		c->link_free += (uint64_t)((unsigned __int128)bits * 1000000000 / c->cfg.line_bps);
		if (c->link_free > t)
			t = c->link_free;
		pthread_mutex_unlock(&c->mu);
	}
	return t + c->cfg.latency_ns;
}

static inline void complete_send(struct fv_qp *qp, const struct ibv_send_wr *wr, uint32_t index,
				 enum ibv_wc_status status, uint32_t len, uint64_t due)
{
	if (!(wr->send_flags & IBV_SEND_SIGNALED) && !qp->sig_all && likely(!status))
		return;
	struct fv_cq *cq = (struct fv_cq *)qp->ex.qp_base.send_cq;
	spin_lock(&cq->lock, cq->locks);
	if (likely(!due && !cq->timed && !cq->timestamps && !cq->armed && cq->head - cq->tail <= cq->mask)) {
		/* What cq_push does, but field by field in place: a copy of a struct
		 * just written waits for its stores. */
		struct fv_cqe *e = &cq->ring[cq->head & cq->mask];
		e->wr_id = wr->wr_id;
		e->qp = qp;
		e->sq_index = index;
		e->byte_len = len;
		e->imm = e->src_qp = 0;
		e->qp_num = qp->ex.qp_base.qp_num;
		e->status = status;
		e->opcode = has_opcode(wr->opcode) ? wc_opcodes[wr->opcode] : 0;
		e->wc_flags = 0;
		e->is_send = true;
		e->solicited = false;
		__atomic_store_n(&cq->head, cq->head + 1, __ATOMIC_RELEASE);
		spin_unlock(&cq->lock, cq->locks);
		return;
	}
	spin_unlock(&cq->lock, cq->locks);
	struct fv_cqe e = {
		.wr_id = wr->wr_id, .qp = qp, .sq_index = index,
		.byte_len = len, .qp_num = qp->ex.qp_base.qp_num,
		.status = status, .opcode = has_opcode(wr->opcode) ? wc_opcodes[wr->opcode] : 0,
		.is_send = true,
	};
	cq_push(cq, &e, due);
}

static void fail_qp(struct fv_qp *qp);

/* carry_out does a request and completes it. It returns false if it has to wait. */
static inline bool carry_out(struct fv_qp *qp, const struct ibv_send_wr *wr, uint32_t index)
{
	struct fv_context *c = qp->ctx;
	if (unlikely(qp->ex.qp_base.state == IBV_QPS_ERR || qp->ex.qp_base.state == IBV_QPS_SQE)) {
		complete_send(qp, wr, index, IBV_WC_WR_FLUSH_ERR, 0, 0);
		return true;
	}
	uint32_t len = 0;
	int status = check_local(qp, wr, &len);
	uint64_t due = unlikely(qp->timed) ? due_of(qp, len) : 0;
	if (unlikely(c->cfg.nwc)) {
		uint64_t n = atomic_fetch_add(&c->sent, 1) + 1;
		for (int i = 0; i < c->cfg.nwc; i++)
			if (c->cfg.wc[i].nth == n)
				status = c->cfg.wc[i].status;
	}
	if (c->cfg.copy && !status)
		status = to_peer(qp, wr, len, due);
	if (unlikely(status == BLOCKED))
		return false;
	complete_send(qp, wr, index, status, len, due);
	if (unlikely(status))
		fail_qp(qp);
	return true;
}

/* keep copies a request that has to wait. */
static void keep(struct fv_qp *qp, const struct ibv_send_wr *wr, uint32_t index)
{
	struct staged *s = calloc(1, sizeof *s);
	s->wr = *wr;
	s->index = index;
	memcpy(s->sge, wr->sg_list, wr->num_sge * sizeof *s->sge);
	s->wr.sg_list = s->sge;
	if (wr->send_flags & IBV_SEND_INLINE) {
		size_t n = 0;
		for (int i = 0; i < wr->num_sge; i++)
			n += wr->sg_list[i].length;
		s->inl = malloc(n + 1);
		move(wr->sg_list, wr->num_sge, true, 0, (char *)s->inl, n, false);
		s->sge[0] = (struct ibv_sge){.addr = (uintptr_t)s->inl, .length = n};
		s->wr.num_sge = 1;
	}
	*qp->pending_end = s;
	qp->pending_end = &s->next;
}

/* go_on carries out what waits, as far as that goes. The queue pair is locked. */
static void go_on(struct fv_qp *qp)
{
	while (qp->pending) {
		struct staged *s = qp->pending;
		if (!carry_out(qp, &s->wr, s->index))
			return;
		qp->pending = s->next;
		if (!qp->pending)
			qp->pending_end = &qp->pending;
		free(s->inl);
		free(s);
	}
}

/* flush_receives completes all receives of a queue pair's own queue. */
static void flush_receives(struct fv_qp *qp)
{
	if (qp->recv != &qp->rq)
		return;
	bool locks = qp->ctx->cfg.locks;
	for (;;) {
		spin_lock(&qp->rq.lock, locks);
		bool got = qp->rq.head != qp->rq.tail;
		struct rwqe r;
		if (got)
			r = qp->rq.ring[qp->rq.tail++ % qp->rq.size];
		spin_unlock(&qp->rq.lock, locks);
		if (!got)
			return;
		complete_receive(qp, &r, (struct fv_cqe){.opcode = IBV_WC_RECV,
							  .status = IBV_WC_WR_FLUSH_ERR}, 0);
	}
}

static void fail_qp(struct fv_qp *qp)
{
	qp->ex.qp_base.state = qp->attr.qp_state = IBV_QPS_ERR;
	flush_receives(qp);
}

/* qp_error brings a queue pair into error; all it had comes back flushed. */
void qp_error(struct fv_qp *qp)
{
	spin_lock(&qp->lock, qp->ctx->cfg.locks);
	fail_qp(qp);
	go_on(qp);
	spin_unlock(&qp->lock, qp->ctx->cfg.locks);
}

/* settle is what remains to be done once no lock is held. */
static inline void settle(struct fv_qp *qp)
{
	struct fv_qp *hurt = qp->hurt;
	if (likely(!hurt))
		return;
	qp->hurt = NULL;
	pthread_rwlock_rdlock(&world);
	for (int i = 0; i < MAX_QPS; i++)
		if (qps[i] == hurt) {
			qp_error(hurt);
			break;
		}
	pthread_rwlock_unlock(&world);
}

static void log_wr(struct fv_qp *qp, const char *call, const struct ibv_send_wr *wr)
{
	uint64_t len = 0;
	for (int i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	bool rdma = wr->opcode <= IBV_WR_RDMA_WRITE_WITH_IMM || wr->opcode == IBV_WR_RDMA_READ;
	logf_(qp->ctx, "%s qp=%u wr_id=%llu opcode=%d flags=%#x length=%llu num_sge=%d remote=%#llx rkey=%#x",
	      call, qp->ex.qp_base.qp_num, (unsigned long long)wr->wr_id, wr->opcode,
	      wr->send_flags, (unsigned long long)len, wr->num_sge,
	      rdma ? (unsigned long long)wr->wr.rdma.remote_addr : 0, rdma ? wr->wr.rdma.rkey : 0);
}

static inline int post_one(struct fv_qp *qp, const struct ibv_send_wr *wr)
{
	if (unlikely(qp->sq_posted - atomic_load_explicit(&qp->sq_free, memory_order_acquire) >=
		     qp->sq_size))
		return ENOMEM;
	if (unlikely((unsigned)wr->num_sge > qp->cap.max_send_sge || !has_opcode(wr->opcode)))
		return EINVAL;
	if (unlikely(wr->send_flags & IBV_SEND_INLINE)) {
		uint64_t n = 0;
		for (int i = 0; i < wr->num_sge; i++)
			n += wr->sg_list[i].length;
		if (n > qp->cap.max_inline_data)
			return EINVAL;
	}
	uint32_t index = ++qp->sq_posted;
	if (unlikely(qp->pending != NULL) || unlikely(!carry_out(qp, wr, index)))
		keep(qp, wr, index);
	return 0;
}

/* A queue pair that takes no sends yet. libmlx5 refuses them until it has been to RTS, on
 * its way to ERR, too. */
static inline bool early(struct fv_qp *qp)
{
	return qp->ctx->cfg.mlx5 ? !qp->sends : qp->ex.qp_base.state < IBV_QPS_RTS;
}

int fv_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fv_qp *qp = (struct fv_qp *)ibqp;
	int err = hook(qp->ctx, CALL_post_send, qp, NULL);
	if (!err && unlikely(early(qp)))
		err = qp->ctx->cfg.mlx5 ? ENOMEM : EINVAL;
	if (unlikely(err)) {
		*bad = wr;
		return err;
	}
	bool slow = qp->ctx->cfg.slow, locks = qp->ctx->cfg.locks;
	spin_lock(&qp->lock, locks);
	for (; wr; wr = wr->next) {
		if (unlikely(slow)) {
			log_wr(qp, "post_send", wr);
			err = hook(qp->ctx, CALL_post_send_wr, qp, NULL);
		}
		if (!err)
			err = post_one(qp, wr);
		if (unlikely(err)) {
			*bad = wr;
			break;
		}
	}
	spin_unlock(&qp->lock, locks);
	settle(qp);
	return err;
}

/* wake carries on what waited for a receive in rq. */
static void wake(struct rq *rq, bool locks)
{
	pthread_rwlock_rdlock(&world);
	struct fv_qp *blocked[64];
	int n = 0;
	spin_lock(&rq->lock, locks);
	rq->waiting = 0;
	spin_unlock(&rq->lock, locks);
	for (int i = 0; i < MAX_QPS && n < 64; i++) {
		struct fv_qp *q = qps[i];
		if (!q || !q->pending)
			continue;
		struct fv_qp *peer = qp_of_number(q->attr.dest_qp_num);
		if (peer && peer->recv == rq)
			blocked[n++] = q;
	}
	pthread_rwlock_unlock(&world);
	for (int i = 0; i < n; i++) {
		spin_lock(&blocked[i]->lock, locks);
		go_on(blocked[i]);
		spin_unlock(&blocked[i]->lock, locks);
		settle(blocked[i]);
	}
}

static int post_receives(struct fv_context *c, struct rq *rq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	int err = 0;
	spin_lock(&rq->lock, c->cfg.locks);
	for (; wr && !err; wr = err ? wr : wr->next) {
		if (rq->head - rq->tail >= rq->size)
			err = ENOMEM;
		else if ((unsigned)wr->num_sge > rq->max_sge)
			err = EINVAL;
		if (err)
			break;
		struct rwqe *r = &rq->ring[rq->head++ % rq->size];
		r->wr_id = wr->wr_id;
		r->num_sge = wr->num_sge;
		memcpy(r->sge, wr->sg_list, wr->num_sge * sizeof *r->sge);
	}
	bool waiting = rq->waiting && rq->head != rq->tail;
	spin_unlock(&rq->lock, c->cfg.locks);
	if (err)
		*bad = wr;
	if (unlikely(waiting))
		wake(rq, c->cfg.locks);
	return err;
}

int fv_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fv_qp *qp = (struct fv_qp *)ibqp;
	int err = hook(qp->ctx, CALL_post_recv, qp, NULL);
	if (!err && (ibqp->srq || ibqp->state == IBV_QPS_RESET))
		err = qp->ctx->cfg.mlx5 && !ibqp->srq ? ENOMEM : EINVAL;
	if (err) {
		*bad = wr;
		return err;
	}
	err = post_receives(qp->ctx, &qp->rq, wr, bad);
	if (unlikely(ibqp->state == IBV_QPS_ERR))
		flush_receives(qp);
	return err;
}

int fv_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fv_srq *srq = container(ibsrq, struct fv_srq, srq);
	int err = hook(srq->ctx, CALL_post_srq_recv, NULL, NULL);
	if (err) {
		*bad = wr;
		return err;
	}
	return post_receives(srq->ctx, &srq->rq, wr, bad);
}

/* The ibv_wr_ calls: requests are built up and posted by wr_complete. */

static void wr_start(struct ibv_qp_ex *ex)
{
	struct fv_qp *qp = (struct fv_qp *)ex;
	spin_lock(&qp->lock, qp->ctx->cfg.locks);
	qp->stage_len = 0;
	qp->stage_err = 0;
}

static struct staged *wr_new(struct ibv_qp_ex *ex, enum ibv_wr_opcode op, uint64_t wanted)
{
	struct fv_qp *qp = (struct fv_qp *)ex;
	static __thread struct staged spill; /* what can't be posted is built here */
	uint32_t used = qp->sq_posted - atomic_load_explicit(&qp->sq_free, memory_order_acquire);
	struct staged *s = &spill;
	if (unlikely(!(qp->ops & wanted)))
		qp->stage_err = EOPNOTSUPP;
	else if (unlikely(used + qp->stage_len >= qp->sq_size))
		qp->stage_err = ENOMEM;
	else
		s = &qp->stage[qp->stage_len++];
	s->wr.wr_id = ex->wr_id;
	s->wr.send_flags = ex->wr_flags & ~IBV_SEND_INLINE;
	s->wr.opcode = op;
	s->wr.num_sge = 0;
	s->wr.sg_list = s->sge;
	s->wr.next = NULL;
	return s;
}

static struct staged *wr_last(struct ibv_qp_ex *ex)
{
	struct fv_qp *qp = (struct fv_qp *)ex;
	if (unlikely(qp->stage_err || !qp->stage_len)) {
		if (!qp->stage_err)
			qp->stage_err = EINVAL;
		return NULL;
	}
	return &qp->stage[qp->stage_len - 1];
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	struct staged *s = wr_new(ex, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE);
	s->wr.wr.rdma.remote_addr = addr;
	s->wr.wr.rdma.rkey = rkey;
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	struct staged *s = wr_new(ex, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
	s->wr.wr.rdma.remote_addr = addr;
	s->wr.wr.rdma.rkey = rkey;
	s->wr.imm_data = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	struct staged *s = wr_new(ex, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ);
	s->wr.wr.rdma.remote_addr = addr;
	s->wr.wr.rdma.rkey = rkey;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	struct staged *s = wr_new(ex, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);
	s->wr.wr.atomic.remote_addr = addr;
	s->wr.wr.atomic.rkey = rkey;
	s->wr.wr.atomic.compare_add = compare;
	s->wr.wr.atomic.swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	struct staged *s = wr_new(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
	s->wr.wr.atomic.remote_addr = addr;
	s->wr.wr.atomic.rkey = rkey;
	s->wr.wr.atomic.compare_add = add;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	wr_new(ex, IBV_WR_SEND, IBV_QP_EX_WITH_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	wr_new(ex, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM)->wr.imm_data = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	wr_new(ex, IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV)->wr.invalidate_rkey = rkey;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct staged *s = wr_last(ex);
	if (!s)
		return;
	s->wr.wr.ud.ah = ah;
	s->wr.wr.ud.remote_qpn = qpn;
	s->wr.wr.ud.remote_qkey = qkey;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t len)
{
	struct staged *s = wr_last(ex);
	if (!s)
		return;
	s->sge[0] = (struct ibv_sge){.addr = addr, .length = len, .lkey = lkey};
	s->wr.num_sge = 1;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct fv_qp *qp = (struct fv_qp *)ex;
	struct staged *s = wr_last(ex);
	if (!s)
		return;
	if (n > qp->cap.max_send_sge) {
		qp->stage_err = EINVAL;
		return;
	}
	memcpy(s->sge, list, n * sizeof *list);
	s->wr.num_sge = n;
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *bufs)
{
	struct fv_qp *qp = (struct fv_qp *)ex;
	struct staged *s = wr_last(ex);
	if (!s)
		return;
	size_t max = qp->cap.max_inline_data, len = 0;
	uint8_t *to = qp->stage_inl + (qp->stage_len - 1) * (max + 1);
	for (size_t i = 0; i < n; i++) {
		if (bufs[i].length > max - len) {
			qp->stage_err = EINVAL;
			return;
		}
		memcpy(to + len, bufs[i].addr, bufs[i].length);
		len += bufs[i].length;
	}
	s->sge[0] = (struct ibv_sge){.addr = (uintptr_t)to, .length = len};
	s->wr.num_sge = 1;
	s->wr.send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t len)
{
	wr_set_inline_data_list(ex, 1, &(struct ibv_data_buf){addr, len});
}

static void wr_unwanted(struct ibv_qp_ex *ex)
{
	((struct fv_qp *)ex)->stage_err = EOPNOTSUPP;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct fv_qp *qp = (struct fv_qp *)ex;
	int err = hook(qp->ctx, CALL_wr_complete, qp, NULL);
	if (!err)
		err = qp->stage_err;
	if (!err && unlikely(early(qp)))
		err = EINVAL;
	for (uint32_t i = 0; i < qp->stage_len && !err; i++) {
		if (unlikely(qp->ctx->cfg.slow))
			log_wr(qp, "wr", &qp->stage[i].wr);
		err = post_one(qp, &qp->stage[i].wr);
	}
	spin_unlock(&qp->lock, qp->ctx->cfg.locks);
	settle(qp);
	return err;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct fv_qp *qp = (struct fv_qp *)ex;
	qp->stage_len = 0;
	spin_unlock(&qp->lock, qp->ctx->cfg.locks);
}

static int wr_complete_early(struct ibv_qp_ex *ex)
{
	wr_abort(ex);
	return EINVAL;
}

/* libmlx5 writes wr_complete whenever the queue pair goes to RESET or to RTS. */
void wr_complete_set(struct fv_qp *qp)
{
	if (qp->ctx->cfg.mlx5 && qp->ex.wr_complete)
		qp->ex.wr_complete = qp->sends ? wr_complete : wr_complete_early;
}

void wr_ops_set(struct fv_qp *qp)
{
	struct ibv_qp_ex *x = &qp->ex;
	x->wr_start = wr_start;
	x->wr_complete = wr_complete;
	x->wr_abort = wr_abort;
	x->wr_rdma_write = wr_rdma_write;
	x->wr_rdma_write_imm = wr_rdma_write_imm;
	x->wr_rdma_read = wr_rdma_read;
	x->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	x->wr_atomic_fetch_add = wr_atomic_fetch_add;
	x->wr_send = wr_send;
	x->wr_send_imm = wr_send_imm;
	x->wr_send_inv = wr_send_inv;
	x->wr_set_ud_addr = wr_set_ud_addr;
	x->wr_set_sge = wr_set_sge;
	x->wr_set_sge_list = wr_set_sge_list;
	x->wr_set_inline_data = wr_set_inline_data;
	x->wr_set_inline_data_list = wr_set_inline_data_list;
	/* Memory windows, TSO, XRC and atomic writes are refused at wr_complete. */
	x->wr_bind_mw = (void *)wr_unwanted;
	x->wr_local_inv = (void *)wr_unwanted;
	x->wr_send_tso = (void *)wr_unwanted;
	x->wr_set_xrc_srqn = (void *)wr_unwanted;
	x->wr_atomic_write = (void *)wr_unwanted;
}
