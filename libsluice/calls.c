//go:build ibverbs

#define _GNU_SOURCE
#include "core.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

__thread struct sl_pending sl_pending;
bool sl_forked;

static sluice_preload_calls_fn *preload_calls;

static void in_child(void) { __atomic_store_n(&sl_forked, true, __ATOMIC_SEQ_CST); }

__attribute__((constructor)) static void start(void)
{
	*(void **)&preload_calls = dlsym(RTLD_DEFAULT, "sluice_preload_calls");
	pthread_atfork(NULL, NULL, in_child);
}

/* verbs.h's inline functions, as functions. */
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) { return ibv_post_send(qp, wr, bad); }
static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) { return ibv_post_recv(qp, wr, bad); }
static int post_srq_recv(struct ibv_srq *s, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) { return ibv_post_srq_recv(s, wr, bad); }
static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc) { return ibv_poll_cq(cq, n, wc); }
static int req_notify_cq(struct ibv_cq *cq, int solicited) { return ibv_req_notify_cq(cq, solicited); }
static struct ibv_cq_ex *create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a) { return ibv_create_cq_ex(c, a); }
static struct ibv_qp *create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a) { return ibv_create_qp_ex(c, a); }

/* What is NULL here nobody hooks, and Go has it from libibverbs. */
static const struct sluice_calls libibverbs = {
	.ibv.post_send = post_send,
	.ibv.post_recv = post_recv,
	.ibv.post_srq_recv = post_srq_recv,
	.ibv.poll_cq = poll_cq,
	.ibv.req_notify_cq = req_notify_cq,
	.ibv.create_cq = ibv_create_cq,
	.ibv.create_cq_ex = create_cq_ex,
	.ibv.destroy_cq = ibv_destroy_cq,
	.ibv.destroy_comp_channel = ibv_destroy_comp_channel,
	.ibv.get_cq_event = ibv_get_cq_event,
	.ibv.ack_cq_events = ibv_ack_cq_events,
	.ibv.create_qp = ibv_create_qp,
	.ibv.modify_qp = ibv_modify_qp,
	.ibv.query_qp = ibv_query_qp,
	.ibv.destroy_qp = ibv_destroy_qp,
	.create_qp_ex = create_qp_ex,
	.close_device = ibv_close_device,
};

const struct sluice_calls *sl_calls_of(struct ibv_context *context)
{
	return preload_calls ? preload_calls(context) : &libibverbs;
}

/* The application's attributes, with what pacing changes in them: the CQ, the
 * room in the send queue, and that every segment is signaled. */
static struct ibv_qp *go_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	const struct sluice_calls *calls = sl_calls_of(pd->context);
	struct sl_pending p = sl_pending;
	if (!p.attr || p.qp)
		return calls->ibv.create_qp(pd, a);
	sl_pending.attr = NULL;
	struct ibv_qp_init_attr_ex mine;
	size_t known = p.attr_ex ? sizeof(struct ibv_qp_init_attr_ex) : sizeof(struct ibv_qp_init_attr);
	memset(&mine, 0, sizeof(mine));
	memcpy(&mine, p.attr, known);
	mine.send_cq = a->send_cq;
	mine.cap.max_send_wr = a->cap.max_send_wr;
	mine.cap.max_send_sge = a->cap.max_send_sge;
	mine.sq_sig_all = 0;
	if (mine.srq) /* what the program has there may be anything, and Go gets it back */
		mine.cap.max_recv_wr = mine.cap.max_recv_sge = 0;
	struct ibv_qp *qp = p.attr_ex ? calls->create_qp_ex(p.context, &mine)
				      : calls->ibv.create_qp(pd, (struct ibv_qp_init_attr *)&mine);
	if (qp)
		a->cap = mine.cap;
	return qp;
}

static int go_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct sl_pending *p = &sl_pending;
	if (p->qp == qp) {
		attr = p->modify;
		mask = p->mask;
		p->qp = NULL;
	}
	return sl_calls_of(qp->context)->ibv.modify_qp(qp, attr, mask);
}

static int go_destroy_cq(struct ibv_cq *cq)
{
	const struct sluice_calls *calls = sl_calls_of(cq->context);
	sl_hidden_gone(cq); /* its address may be another's soon */
	return calls->ibv.destroy_cq(cq);
}

void sl_calls_for_go(struct ibv_context *context, struct sluice_calls *out)
{
	*out = *sl_calls_of(context);
	out->ibv.create_qp = go_create_qp;
	out->ibv.modify_qp = go_modify_qp;
	out->ibv.destroy_cq = go_destroy_cq;
}
