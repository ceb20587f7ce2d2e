/* Completion queues, both ways of polling them, and their channels. */
#define _GNU_SOURCE
#include "fake.h"
#include <stdlib.h>

static struct fv_cq *to_cq(struct ibv_cq *cq)
{
	return (struct fv_cq *)cq;
}

/* A CQE's request queue entry is free again once the application has it. */
static inline void consumed(const struct fv_cqe *e)
{
	if (e->is_send && e->qp)
		atomic_store_explicit(&e->qp->sq_free, e->sq_index, memory_order_release);
}

/* cq_push adds a completion. Those of queue pairs with different rates come in
 * the order of their instants; without rates or latency that is the call's. */
void cq_push(struct fv_cq *cq, const struct fv_cqe *e, uint64_t due)
{
	struct fv_when w = {due, 0, 0};
	if (unlikely(cq->timestamps)) {
		uint64_t t = due ? due : now_ns();
		w.ticks = ticks_at(cq->ctx, t);
		w.wall = wall_at(cq->ctx, t);
	}
	spin_lock(&cq->lock, cq->locks);
	if (unlikely(cq->head - cq->tail > cq->mask)) {
		bool first = !cq->overrun;
		cq->overrun = true;
		spin_unlock(&cq->lock, cq->locks);
		if (first)
			raise_event(cq->ctx, IBV_EVENT_CQ_ERR, NULL, cq, NULL, 1);
		return;
	}
	uint32_t i = cq->head;
	if (unlikely(due || cq->timed || cq->timestamps)) {
		cq->timed |= due != 0;
		for (; i != cq->tail && cq->when[(i - 1) & cq->mask].due > due; i--) {
			cq->ring[i & cq->mask] = cq->ring[(i - 1) & cq->mask];
			cq->when[i & cq->mask] = cq->when[(i - 1) & cq->mask];
		}
		cq->when[i & cq->mask] = w;
	}
	cq->ring[i & cq->mask] = *e;
	__atomic_store_n(&cq->head, cq->head + 1, __ATOMIC_RELEASE);
	bool notify = cq->armed && (cq->armed == 1 || e->solicited || e->status);
	if (unlikely(notify)) {
		cq->armed = 0;
		cq->comp_reported++;
	}
	spin_unlock(&cq->lock, cq->locks);
	if (unlikely(notify))
		evq_push(&container(cq->ex.channel, struct fv_channel, ch)->q, cq, 0, due);
}

/* cq_clean takes out what a queue pair that goes away left. */
void cq_clean(struct fv_cq *cq, struct fv_qp *qp)
{
	spin_lock(&cq->lock, cq->locks);
	uint32_t to = cq->tail;
	for (uint32_t i = cq->tail; i != cq->head; i++)
		if (cq->ring[i & cq->mask].qp != qp) {
			cq->ring[to & cq->mask] = cq->ring[i & cq->mask];
			cq->when[to++ & cq->mask] = cq->when[i & cq->mask];
		}
	cq->head = to;
	spin_unlock(&cq->lock, cq->locks);
}

int fv_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct fv_cq *cq = to_cq(ibcq);
	int err = hook(cq->ctx, CALL_poll_cq, NULL, cq);
	if (err)
		return -err;
	/* An empty queue costs a load, as a valid bit in memory does. */
	if (__atomic_load_n(&cq->head, __ATOMIC_ACQUIRE) == __atomic_load_n(&cq->tail, __ATOMIC_RELAXED))
		return 0;
	spin_lock(&cq->lock, cq->locks);
	uint64_t now = 0;
	int got = 0;
	for (; got < n && cq->tail != cq->head; got++) {
		const struct fv_cqe *e = &cq->ring[cq->tail & cq->mask];
		if (unlikely(cq->timed) && cq->when[cq->tail & cq->mask].due > now) {
			now = now_ns();
			if (cq->when[cq->tail & cq->mask].due > now)
				break;
		}
		struct ibv_wc *w = &wc[got];
		w->wr_id = e->wr_id;
		w->status = e->status;
		w->opcode = e->opcode;
		w->vendor_err = e->status ? 0xfa : 0;
		w->byte_len = e->byte_len;
		w->imm_data = e->imm;
		w->qp_num = e->qp_num;
		w->src_qp = e->src_qp;
		w->wc_flags = e->wc_flags;
		w->pkey_index = w->slid = 0;
		w->sl = w->dlid_path_bits = 0;
		consumed(e);
		cq->tail++;
	}
	spin_unlock(&cq->lock, cq->locks);
	return got;
}

int fv_req_notify_cq(struct ibv_cq *ibcq, int solicited)
{
	struct fv_cq *cq = to_cq(ibcq);
	int err = hook(cq->ctx, CALL_req_notify_cq, NULL, cq);
	if (err)
		return err;
	if (!ibcq->channel)
		return EINVAL;
	spin_lock(&cq->lock, cq->locks);
	if (cq->armed != 1)
		cq->armed = solicited ? 2 : 1;
	spin_unlock(&cq->lock, cq->locks);
	return 0;
}

static struct fv_cqe *current_cqe(struct ibv_cq_ex *ex)
{
	struct fv_cq *cq = (struct fv_cq *)ex;
	return &cq->ring[cq->tail & cq->mask];
}

/* show makes the oldest completion the current one, if its time has come. */
static int show(struct fv_cq *cq)
{
	if (cq->tail == cq->head)
		return ENOENT;
	struct fv_cqe *e = current_cqe(&cq->ex);
	if (unlikely(cq->timed) && cq->when[cq->tail & cq->mask].due > now_ns())
		return ENOENT;
	cq->ex.wr_id = e->wr_id;
	cq->ex.status = e->status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct fv_cq *cq = (struct fv_cq *)ex;
	int err = hook(cq->ctx, CALL_start_poll, NULL, cq);
	/* libmlx5 has taken a completion and holds the lock when it can't read the clock's
	 * parameters, since the kernel is writing them. */
	bool busy = err == EBUSY && cq->ctx->cfg.mlx5;
	if (err && !busy)
		return err;
	if (attr->comp_mask)
		return EINVAL;
	if (__atomic_load_n(&cq->head, __ATOMIC_ACQUIRE) == __atomic_load_n(&cq->tail, __ATOMIC_RELAXED))
		return ENOENT;
	spin_lock(&cq->lock, cq->locks);
	err = show(cq);
	if (err)
		spin_unlock(&cq->lock, cq->locks);
	return !err && busy ? EBUSY : err;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct fv_cq *cq = (struct fv_cq *)ex;
	consumed(current_cqe(ex));
	cq->tail++;
	int err = show(cq);
	int failed = err ? 0 : hook(cq->ctx, CALL_next_poll, NULL, cq);
	if (failed) { /* it is lost, as libmlx5 loses it */
		consumed(current_cqe(ex));
		cq->tail++;
		err = failed;
	}
	cq->taken = err != 0; /* end_poll has nothing more to take */
	return err;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct fv_cq *cq = (struct fv_cq *)ex;
	if (!cq->taken) {
		consumed(current_cqe(ex));
		cq->tail++;
	}
	cq->taken = false;
	spin_unlock(&cq->lock, cq->locks);
}

static struct fv_when *current_when(struct ibv_cq_ex *ex)
{
	struct fv_cq *cq = (struct fv_cq *)ex;
	return &cq->when[cq->tail & cq->mask];
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex) { return current_cqe(ex)->opcode; }
static uint32_t read_vendor_err(struct ibv_cq_ex *ex) { return current_cqe(ex)->status ? 0xfa : 0; }
static uint32_t read_byte_len(struct ibv_cq_ex *ex) { return current_cqe(ex)->byte_len; }
static __be32 read_imm_data(struct ibv_cq_ex *ex) { return current_cqe(ex)->imm; }
static uint32_t read_qp_num(struct ibv_cq_ex *ex) { return current_cqe(ex)->qp_num; }
static uint32_t read_src_qp(struct ibv_cq_ex *ex) { return current_cqe(ex)->src_qp; }
static unsigned int read_wc_flags(struct ibv_cq_ex *ex) { return current_cqe(ex)->wc_flags; }
static uint32_t read_slid(struct ibv_cq_ex *ex) { (void)ex; return 0; }
static uint8_t read_sl(struct ibv_cq_ex *ex) { (void)ex; return 0; }
static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex) { (void)ex; return 0; }
static uint64_t read_completion_ts(struct ibv_cq_ex *ex) { return current_when(ex)->ticks; }
static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex) { return current_when(ex)->wall; }

struct ibv_cq_ex *fv_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	struct fv_context *c = to_ctx(ctx);
	int err = hook(c, CALL_create_cq_ex, NULL, NULL);
	uint64_t granted = IBV_WC_STANDARD_FLAGS;
	if (c->cfg.timestamps & TS_RAW)
		granted |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	if (c->cfg.timestamps & TS_WALLCLOCK)
		granted |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	if (!err && attr->wc_flags & ~granted)
		err = EOPNOTSUPP;
	if (!err && (!attr->cqe || attr->cqe > c->cfg.max_cqe ||
		     attr->comp_vector >= (uint32_t)ctx->num_comp_vectors))
		err = EINVAL;
	if (!err && attr->comp_mask & ~(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		err = EOPNOTSUPP;
	if (err)
		return errno = err, NULL;
	struct fv_cq *cq = calloc(1, sizeof *cq);
	uint32_t size = 1;
	while (size < attr->cqe)
		size *= 2;
	cq->ctx = c;
	cq->mask = size - 1;
	cq->ring = calloc(size, sizeof *cq->ring);
	cq->when = calloc(size, sizeof *cq->when);
	cq->locks = c->cfg.locks;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	    attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		cq->locks = false;
	if (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		cq->timestamps |= TS_RAW;
	if (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		cq->timestamps |= TS_WALLCLOCK;
	cq->ex.context = ctx;
	cq->ex.channel = attr->channel;
	cq->ex.cq_context = attr->cq_context;
	cq->ex.cqe = size;
	pthread_mutex_init(&cq->ex.mutex, NULL);
	pthread_cond_init(&cq->ex.cond, NULL);
	if (attr->channel) {
		pthread_mutex_lock(&ctx->mutex);
		attr->channel->refcnt++;
		pthread_mutex_unlock(&ctx->mutex);
	}
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = next_poll;
	cq->ex.end_poll = end_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_vendor_err = read_vendor_err;
	cq->ex.read_wc_flags = read_wc_flags;
	/* As drivers do: what was not asked for is not there. */
#define ASKED(flag, op) cq->ex.op = attr->wc_flags & (flag) ? (op) : NULL
	ASKED(IBV_WC_EX_WITH_BYTE_LEN, read_byte_len);
	ASKED(IBV_WC_EX_WITH_IMM, read_imm_data);
	ASKED(IBV_WC_EX_WITH_QP_NUM, read_qp_num);
	ASKED(IBV_WC_EX_WITH_SRC_QP, read_src_qp);
	ASKED(IBV_WC_EX_WITH_SLID, read_slid);
	ASKED(IBV_WC_EX_WITH_SL, read_sl);
	ASKED(IBV_WC_EX_WITH_DLID_PATH_BITS, read_dlid_path_bits);
	ASKED(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, read_completion_ts);
	ASKED(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, read_completion_wallclock_ns);
	atomic_fetch_add(&c->objects, 1);
	logf_(c, "create_cq_ex cqe=%u wc_flags=%#llx", attr->cqe, (unsigned long long)attr->wc_flags);
	return &cq->ex;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = cqe, .cq_context = cq_context,
					   .channel = channel, .comp_vector = vector,
					   .wc_flags = IBV_WC_STANDARD_FLAGS};
	int err = hook(to_ctx(ctx), CALL_create_cq, NULL, NULL);
	if (!err && cqe < 1)
		err = EINVAL;
	if (err)
		return errno = err, NULL;
	struct ibv_cq_ex *ex = fv_create_cq_ex(ctx, &attr);
	return ex ? ibv_cq_ex_to_cq(ex) : NULL;
}

int fv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	int err = hook(to_ctx(cq->context), CALL_modify_cq, NULL, to_cq(cq));
	if (err)
		return err;
	return attr->attr_mask == IBV_CQ_ATTR_MODERATE ? 0 : EINVAL; /* every one still comes at once */
}

int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct fv_cq *cq = to_cq(ibcq);
	int err = hook(cq->ctx, CALL_resize_cq, NULL, cq);
	if (err)
		return err;
	if (cqe < 1 || (uint32_t)cqe > cq->ctx->cfg.max_cqe)
		return EINVAL;
	uint32_t size = 1;
	while (size < (uint32_t)cqe)
		size *= 2;
	spin_lock(&cq->lock, cq->locks);
	uint32_t n = cq->head - cq->tail;
	if (n > size) {
		spin_unlock(&cq->lock, cq->locks);
		return EINVAL;
	}
	struct fv_cqe *ring = calloc(size, sizeof *ring);
	struct fv_when *when = calloc(size, sizeof *when);
	for (uint32_t i = 0; i < n; i++) {
		ring[i] = cq->ring[(cq->tail + i) & cq->mask];
		when[i] = cq->when[(cq->tail + i) & cq->mask];
	}
	free(cq->ring);
	free(cq->when);
	cq->ring = ring, cq->when = when, cq->mask = size - 1, cq->tail = 0, cq->head = n;
	cq->ex.cqe = size;
	spin_unlock(&cq->lock, cq->locks);
	return 0;
}

int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct fv_cq *cq = to_cq(ibcq);
	struct fv_context *c = cq->ctx;
	int err = hook(c, CALL_destroy_cq, NULL, cq);
	if (err)
		return err;
	if (atomic_load(&cq->users))
		return EBUSY;
	/* Events nobody has read go; those somebody has must be acknowledged. */
	uint32_t dropped = 0, async_dropped = 0;
	if (ibcq->channel)
		evq_drop(&container(ibcq->channel, struct fv_channel, ch)->q, cq, &dropped);
	evq_drop(&c->async, cq, &async_dropped);
	pthread_mutex_lock(&ibcq->mutex);
	while (ibcq->comp_events_completed != cq->comp_reported - dropped ||
	       ibcq->async_events_completed != cq->async_reported - async_dropped)
		pthread_cond_wait(&ibcq->cond, &ibcq->mutex);
	pthread_mutex_unlock(&ibcq->mutex);
	if (ibcq->channel) {
		pthread_mutex_lock(&ibcq->context->mutex);
		ibcq->channel->refcnt--;
		pthread_mutex_unlock(&ibcq->context->mutex);
	}
	atomic_fetch_sub(&c->objects, 1);
	free(cq->ring);
	free(cq->when);
	free(cq);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct fv_context *c = to_ctx(ctx);
	int err = hook(c, CALL_create_comp_channel, NULL, NULL);
	if (err)
		return errno = err, NULL;
	struct fv_channel *ch = calloc(1, sizeof *ch);
	if ((err = evq_init(&ch->q))) {
		free(ch);
		return errno = err, NULL;
	}
	ch->ch.context = ctx;
	ch->ch.fd = ch->q.fd;
	atomic_fetch_add(&c->objects, 1);
	return &ch->ch;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	if (ch->refcnt)
		return EBUSY;
	atomic_fetch_sub(&to_ctx(ch->context)->objects, 1);
	evq_free(&container(ch, struct fv_channel, ch)->q);
	free(container(ch, struct fv_channel, ch));
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **cq_context)
{
	int err = hook(to_ctx(ch->context), CALL_get_cq_event, NULL, NULL);
	if (err)
		return errno = err, -1;
	struct evq_item it;
	if (evq_pop(&container(ch, struct fv_channel, ch)->q, &it))
		return -1;
	*cq = it.object;
	*cq_context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	if (!n)
		return;
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}
