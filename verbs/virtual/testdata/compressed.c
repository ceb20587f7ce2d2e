/*
 * Compressed CQEs over libmlx5: a queue pair that is connected to itself sends, and the
 * completion queue's ring is read as mlx5dv shows it. The argument is the format, 1 or 2. It
 * prints how many sessions there were, once there was one.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x)                                                                           \
	do {                                                                               \
		errno = 0;                                                                 \
		if (!(x)) {                                                                \
			fprintf(stderr, "line %d: %s (errno: %s)\n", __LINE__, #x, strerror(errno)); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

/* libmlx5 does not see the completions, and so takes no more requests than a queue has room for. */
enum { MESSAGES = 16, MAX_ROUNDS = 250, DEPTH = MESSAGES * MAX_ROUNDS };

static struct mlx5dv_cq ring;
static uint32_t next, sessions;

static struct mlx5_cqe64 *slot(uint32_t i)
{
	return (struct mlx5_cqe64 *)((char *)ring.buf + (size_t)(i & (ring.cqe_cnt - 1)) * ring.cqe_size);
}

/* One of the program's, from the ring or out of a session. */
static struct mlx5_cqe64 take(void)
{
	static struct mlx5_cqe64 title;
	static uint32_t left, index;
	static struct {
		uint16_t counter;
		uint8_t opcode, reserved;
		uint32_t bytes;
	} array[8];
	struct mlx5_cqe64 c;

	if (!left) {
		volatile struct mlx5_cqe64 *v = slot(next);

		while (v->op_own >> 4 == MLX5_CQE_INVALID || (v->op_own & 1) != !!(next & ring.cqe_cnt))
			;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		title = *slot(next);
		if (mlx5dv_get_cqe_format(&title) != 3) {
			next++;
			ring.dbrec[MLX5_RCV_DBR] = htobe32(next & 0xffffff);
			return title;
		}
		sessions++;
		left = be32toh(title.byte_cnt);
		index = 0;
		CHECK(left >= 2 && left <= 64);
	}
	if (index % 8 == 0)
		memcpy(array, slot(next + (index == 0)), sizeof array);
	c = title;
	c.byte_cnt = array[index % 8].bytes;
	if (mlx5dv_get_cqe_opcode(&c) == MLX5_CQE_REQ) {
		c.wqe_counter = array[index % 8].counter;
		c.sop_drop_qpn = htobe32((uint32_t)array[index % 8].opcode << 24 | (be32toh(c.sop_drop_qpn) & 0xffffff));
	} else {
		c.wqe_counter = htobe16(be16toh(title.wqe_counter) + index);
		CHECK(!array[index % 8].counter); /* no hash, no checksum */
	}
	slot(next)->op_own = !!(next & ring.cqe_cnt); /* the device's, until the next lap */
	next++, index++, left--;
	ring.dbrec[MLX5_RCV_DBR] = htobe32(next & 0xffffff);
	return c;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list && *list ? ibv_open_device(*list) : NULL;
	struct mlx5dv_context caps = {.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION};
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 127};
	struct mlx5dv_cq_init_attr dv_attr = {.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE};
	struct ibv_cq_ex *cq;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct mlx5dv_obj obj = {};
	uint16_t counters[2] = {0, 0};
	static char buf[4096];
	union ibv_gid gid;
	int round;

	CHECK(argc == 2 && c);
	dv_attr.cqe_comp_res_format = atoi(argv[1]);
	CHECK(!mlx5dv_query_device(c, &caps));
	CHECK(caps.cqe_comp_caps.max_num == 64 && caps.cqe_comp_caps.supported_format == 3);
	dv_attr.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX;
	CHECK(!mlx5dv_create_cq(c, &cq_attr, &dv_attr) && errno == EINVAL);
	dv_attr.cqe_comp_res_format = atoi(argv[1]);
	dv_attr.comp_mask |= MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
	dv_attr.cqe_size = 128;
	CHECK(!mlx5dv_create_cq(c, &cq_attr, &dv_attr) && errno == EOPNOTSUPP);
	dv_attr.cqe_size = 64;
	cq = mlx5dv_create_cq(c, &cq_attr, &dv_attr);
	CHECK(cq);
	pd = ibv_alloc_pd(c);
	mr = ibv_reg_mr(pd, buf, sizeof buf, IBV_ACCESS_LOCAL_WRITE);
	qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){
		.send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1}});
	CHECK(mr && qp && !ibv_query_gid(c, 1, 0, &gid));
	CHECK(!ibv_modify_qp(qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1},
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK(!ibv_modify_qp(qp, &(struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}}},
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	CHECK(!ibv_modify_qp(qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1},
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	obj.cq.in = ibv_cq_ex_to_cq(cq);
	obj.cq.out = &ring;
	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ) && ring.cqe_size == 64 && ring.cqe_cnt == 128);

	for (round = 0; round < MAX_ROUNDS && (!sessions || round < 20); round++) {
		struct ibv_sge sges[MESSAGES], whole = {(uintptr_t)buf + 2048, 2048, mr->lkey};
		struct ibv_send_wr wrs[MESSAGES], *bad;
		struct ibv_recv_wr recv = {.sg_list = &whole, .num_sge = 1}, *bad_recv;
		int i, sent = 0, received = 0;

		for (i = 0; i < MESSAGES; i++) {
			sges[i] = (struct ibv_sge){(uintptr_t)buf, i + 1, mr->lkey};
			wrs[i] = (struct ibv_send_wr){.sg_list = &sges[i], .num_sge = 1, .opcode = IBV_WR_SEND, .next = i + 1 < MESSAGES ? &wrs[i + 1] : NULL};
			CHECK(!ibv_post_recv(qp, &recv, &bad_recv));
		}
		CHECK(!ibv_post_send(qp, wrs, &bad));
		for (i = 0; i < 2 * MESSAGES; i++) {
			struct mlx5_cqe64 e = take();

			switch (mlx5dv_get_cqe_opcode(&e)) {
			case MLX5_CQE_REQ:
				CHECK(be16toh(e.wqe_counter) == counters[0]++);
				CHECK(be32toh(e.sop_drop_qpn) == (uint32_t)(MLX5_OPCODE_SEND << 24 | qp->qp_num));
				sent++;
				break;
			case MLX5_CQE_RESP_SEND:
				CHECK(be16toh(e.wqe_counter) == counters[1]++);
				CHECK(be32toh(e.byte_cnt) == (uint32_t)++received);
				break;
			default:
				CHECK(!"a completion of another kind");
			}
		}
		CHECK(sent == MESSAGES && received == MESSAGES);
	}
	CHECK(sessions);
	printf("%u sessions\n", sessions);
	return 0;
}
