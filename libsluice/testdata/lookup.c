/*
 * A program that loads libibverbs itself, and looks its functions up with their versions, as
 * NCCL does. It writes over a queue pair that is connected to itself. Its argument is a library
 * that only its own RUNPATH leads to.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x)                                                                           \
	do {                                                                               \
		errno = 0;                                                                 \
		if (!(x)) {                                                                \
			fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #x, errno);  \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

static void *lib;

static void *look_up(const char *name)
{
	void *f = dlvsym(lib, name, "IBVERBS_1.1");
	if (!f)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(f);
	return f;
}

#undef ibv_reg_mr
#undef ibv_query_port
#define FUNCTION(name) __typeof__(name) *const my_##name = look_up(#name)

int main(int argc, char **argv)
{
	CHECK(argc == 2 && dlopen(argv[1], RTLD_NOW | RTLD_LOCAL));
	CHECK(!dlopen("libno-such-library.so", RTLD_NOW) && dlerror());
	CHECK(dlopen(NULL, RTLD_NOW));
	lib = dlopen("libibverbs.so.1", RTLD_NOW);
	CHECK(lib);
	FUNCTION(ibv_get_device_list);
	FUNCTION(ibv_get_device_name);
	FUNCTION(ibv_open_device);
	FUNCTION(ibv_close_device);
	FUNCTION(ibv_alloc_pd);
	FUNCTION(ibv_dealloc_pd);
	FUNCTION(ibv_reg_mr);
	FUNCTION(ibv_dereg_mr);
	FUNCTION(ibv_create_cq);
	FUNCTION(ibv_destroy_cq);
	FUNCTION(ibv_create_qp);
	FUNCTION(ibv_modify_qp);
	FUNCTION(ibv_destroy_qp);
	FUNCTION(ibv_query_gid);

	struct ibv_device **list = my_ibv_get_device_list(NULL);
	struct ibv_context *c = NULL;
	for (int i = 0; list[i]; i++)
		if (!strcmp(my_ibv_get_device_name(list[i]), getenv("TEST_DEVICE")))
			c = my_ibv_open_device(list[i]);
	CHECK(c);
	static char buf[1 << 16];
	struct ibv_pd *pd = my_ibv_alloc_pd(c);
	struct ibv_mr *mr = my_ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_cq *cq = my_ibv_create_cq(c, 16, NULL, NULL, 0);
	CHECK(pd && mr && cq);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}};
	struct ibv_qp *qp = my_ibv_create_qp(pd, &init);
	union ibv_gid gid;
	CHECK(qp && !my_ibv_query_gid(c, 1, 0, &gid));
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	CHECK(!my_ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}}};
	CHECK(!my_ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 17, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	CHECK(!my_ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				IBV_QP_MAX_QP_RD_ATOMIC));
	strcpy(buf, "looked up");
	struct ibv_sge s = {(uintptr_t)buf, sizeof(buf) / 2, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)buf + sizeof(buf) / 2, mr->rkey}}, *bad;
	CHECK(!ibv_post_send(qp, &wr, &bad));
	struct ibv_wc wc;
	int n;
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK(n == 1 && wc.wr_id == 7 && wc.status == IBV_WC_SUCCESS && !strcmp(buf + sizeof(buf) / 2, "looked up"));
	CHECK(!my_ibv_destroy_qp(qp) && !my_ibv_destroy_cq(cq) && !my_ibv_dereg_mr(mr) && !my_ibv_dealloc_pd(pd) && !my_ibv_close_device(c));
	return dlclose(lib);
}
