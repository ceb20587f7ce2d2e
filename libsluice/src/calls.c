/* libibverbs' functions, or what a context had before it was hooked. */
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>

static sluice_preload_calls_fn *preload_calls;

__attribute__((constructor)) static void start(void) { *(void **)&preload_calls = dlsym(RTLD_DEFAULT, "sluice_preload_calls"); }

int sl_code(int r)
{
	if (r == -1)
		return errno ? errno : EIO;
	return r < 0 ? -r : r;
}

/* verbs.h's inline functions, as functions. */
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) { return ibv_post_send(qp, wr, bad); }
static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) { return ibv_post_recv(qp, wr, bad); }
static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc) { return ibv_poll_cq(cq, n, wc); }
static int req_notify_cq(struct ibv_cq *cq, int solicited) { return ibv_req_notify_cq(cq, solicited); }
static struct ibv_cq_ex *create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a) { return ibv_create_cq_ex(c, a); }
static struct ibv_qp *create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a) { return ibv_create_qp_ex(c, a); }

static const struct sluice_calls libibverbs = {
	.ibv.post_send = post_send,
	.ibv.post_recv = post_recv,
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
