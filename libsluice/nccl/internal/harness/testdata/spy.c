/* Preloaded: prints how queue pairs go to RTR and RTS. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	/* The plugin has brought libibverbs along for itself alone. */
	int (*real)(struct ibv_qp *, struct ibv_qp_attr *, int) = dlvsym(dlopen("libibverbs.so.1", RTLD_LAZY), "ibv_modify_qp", "IBVERBS_1.1");

	if (a->qp_state == IBV_QPS_RTR)
		printf("rtr sgid_index=%d traffic_class=%d sl=%d flow_label=%#x\n", a->ah_attr.grh.sgid_index, a->ah_attr.grh.traffic_class, a->ah_attr.sl,
		       a->ah_attr.grh.flow_label);
	if (a->qp_state == IBV_QPS_RTS)
		printf("rts timeout=%d retry_cnt=%d\n", a->timeout, a->retry_cnt);
	return real(qp, a, mask);
}
