/*
 * Nanoseconds a segment, posted and polled in batches of 16, on a device that
 * completes at once. bench cut posts one Write of 256 KiB, bench whole 16 of 16 KiB;
 * without pacing both post 16 Writes of 16 KiB, which is what a device would see.
 * bench poll is the cost of a poll that finds nothing. A fourth argument is how many queue
 * pairs take turns.
 */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SLUICE_API
#include <sluice.h>
#define ibv_modify_qp sluice_modify_qp
#define ibv_post_send sluice_post_send
#define ibv_poll_cq sluice_poll_cq
#endif

#define CHECK(cond) do { if (!(cond)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); exit(1); } } while (0)

enum { BATCH = 16, SEGMENT = 16384 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* other work on the machine is not ours */
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	CHECK(argc == 4 || argc == 5);
	int paced = atoi(argv[2]), batches = atoi(argv[3]), qps = argc == 5 ? atoi(argv[4]) : 1;
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	struct ibv_context *ctx = ibv_open_device(list[0]);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	static char buf[BATCH * SEGMENT];
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	CHECK(ctx && pd && cq && mr);
#ifdef SLUICE_API
	struct sluice_options o;
	sluice_options_init(&o);
	o.max_outstanding = 1 << 20;
	const char *rate = getenv("TEST_RATE");
	o.rate = rate ? strtoull(rate, NULL, 10) : 0;
	o.engine = getenv("TEST_ENGINE");
	o.engine_config = getenv("TEST_ENGINE_CONFIG");
	o.group = getenv("TEST_GROUP");
#endif
	struct ibv_qp **all = calloc((size_t)qps, sizeof(*all));
	CHECK(all);
	for (int i = 0; i < qps; i++) {
		struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {qps > 1 ? BATCH : 128, 1, 1, 1, 0}};
#ifdef SLUICE_API
		struct ibv_qp *qp = all[i] = sluice_create_qp(pd, &init, &o);
		if (!qp)
			fprintf(stderr, "%s\n", sluice_error());
#else
		struct ibv_qp *qp = all[i] = ibv_create_qp(pd, &init);
#endif
		CHECK(qp);
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
		CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
		a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = 1, .max_dest_rd_atomic = 1,
			.min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}}};
		CHECK(!ibv_query_gid(ctx, 1, 0, &a.ah_attr.grh.dgid));
		CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
		a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
		CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC));
	}

	struct ibv_wc wc[BATCH];
	if (!strcmp(argv[1], "poll")) {
		for (int warm = 1; warm >= 0; warm--) {
			double start = now();
			for (int i = 0; i < batches; i++)
				CHECK(ibv_poll_cq(cq, BATCH, wc) == 0);
			if (!warm)
				printf("%.1f\n", (now() - start) / batches);
		}
		return 0;
	}
	int n = paced && !strcmp(argv[1], "cut") ? 1 : BATCH;
	struct ibv_sge sge[BATCH];
	struct ibv_send_wr wr[BATCH], *bad;
	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)buf + (uintptr_t)i * SEGMENT, .length = (uint32_t)(BATCH / n) * SEGMENT, .lkey = mr->lkey};
		wr[i].wr_id = (uint64_t)i;
		wr[i].opcode = IBV_WR_RDMA_WRITE;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	for (int warm = 1; warm >= 0; warm--) {
		double start = now();
		for (int b = 0; b < batches; b++) {
			CHECK(!ibv_post_send(all[b % qps], wr, &bad));
			for (int got = 0; got < n;) {
				int r = ibv_poll_cq(cq, BATCH, wc);
				CHECK(r >= 0);
				got += r;
			}
		}
		if (!warm)
			printf("%.1f\n", (now() - start) / batches / BATCH);
	}
	return 0;
}
