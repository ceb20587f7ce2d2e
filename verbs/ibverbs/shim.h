/* What of libibverbs Go calls, cut so that a crossing does a batch of work.
 * Functions return 0 or an errno unless they say otherwise. Their names are not
 * libsluice's, into which this is linked. */
#ifndef IBVERBS_SHIM_H
#define IBVERBS_SHIM_H

#include <stdint.h>
#include <infiniband/verbs.h>

#include "calls.h"

/* Fills in what is NULL: libibverbs' own functions, and the context's for those
 * which a driver provides. */
void shim_complete_calls(struct ibverbs_calls *, struct ibv_context *);

int shim_open(const char *name, struct ibv_context **);
int shim_query_device(struct ibv_context *, struct ibv_device_attr_ex *, int *extended);
int shim_query_port(struct ibv_context *, int port, struct ibv_port_attr *);
int shim_query_gid(struct ibv_context *, int port, int index, struct ibv_gid_entry *);
int shim_query_pkey(struct ibv_context *, int port, int index, uint16_t *);
/* Readable within the given milliseconds (negative: without end): 1, else 0 or -errno.
 * The wait also ends when cancelled is readable, if it is not negative. */
int shim_readable(int fd, int cancelled, int milliseconds);

int shim_alloc_pd(const struct ibverbs_calls *, struct ibv_context *, struct ibv_pd **);
int shim_dealloc_pd(const struct ibverbs_calls *, struct ibv_pd *);
int shim_reg_mr(const struct ibverbs_calls *, struct ibv_pd *, void *, size_t, int access, struct ibv_mr **);
int shim_reg_dmabuf_mr(struct ibv_pd *, uint64_t offset, size_t length, uint64_t iova, int fd, int access, struct ibv_mr **);
int shim_dereg_mr(const struct ibverbs_calls *, struct ibv_mr *);
int shim_create_ah(const struct ibverbs_calls *, struct ibv_pd *, struct ibv_ah_attr *, struct ibv_ah **);
int shim_destroy_ah(const struct ibverbs_calls *, struct ibv_ah *);

int shim_create_channel(const struct ibverbs_calls *, struct ibv_context *, struct ibv_comp_channel **);
int shim_destroy_channel(const struct ibverbs_calls *, struct ibv_comp_channel *);
/* Takes an event and acknowledges it. */
int shim_get_cq_event(const struct ibverbs_calls *, struct ibv_comp_channel *, struct ibv_cq **);
int shim_get_async_event(const struct ibverbs_calls *, struct ibv_context *, int *type, void **element, int *port);

/* A completion queue. ex is NULL unless it is an extended one. */
struct shim_cq {
	struct ibv_cq *cq;
	struct ibv_cq_ex *ex;
	int wallclock; /* timestamps are nanoseconds */
	int mlx5;
	int failed;    /* what the last ibv_next_poll reported */
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	int (*req_notify_cq)(struct ibv_cq *, int);
};

/* The layout of verbs.WC. */
struct shim_wc {
	uint64_t wr_id;
	uint8_t status, opcode;
	uint32_t flags, byte_len, imm, qpn, src_qp, vendor_err;
	uint64_t timestamp;
};

/* timestamp is 0, or a flag of enum ibv_create_cq_wc_flags. */
int shim_create_cq(const struct ibverbs_calls *, struct ibv_context *, int cqe, struct ibv_comp_channel *,
		     uint64_t timestamp, struct shim_cq *);
int shim_destroy_cq(const struct ibverbs_calls *, struct shim_cq *);
int shim_resize_cq(struct ibv_cq *, int cqe);
/* The number of completions, or -errno. */
int shim_poll(struct shim_cq *, struct shim_wc *, int);
int shim_req_notify(struct shim_cq *, int solicited);

/* A receive queue, of a queue pair or shared, with the requests to be posted.
 * wr[i].next is &wr[i+1] between calls, wr[i].sg_list the i-th part of sge. */
struct shim_rq {
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_recv_wr *wr;
	struct ibv_sge *sge;
	int batch;
	int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	int (*post_srq_recv)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
};

/* A queue pair and its sends, with room for inline data of each. */
struct shim_qp {
	struct ibv_qp *qp;
	struct ibv_send_wr *wr;
	struct ibv_sge *sge;
	uint8_t *inline_data;
	int batch;
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	struct shim_rq rq;
};

int shim_create_qp(const struct ibverbs_calls *, struct ibv_pd *, struct ibv_qp_init_attr *, struct ibv_qp **);
/* Arrays for lists of up to batch requests; NULL if there is no memory. */
struct shim_qp *shim_qp_new(const struct ibverbs_calls *, struct ibv_qp *, int batch, int send_sge, int recv_sge, int inline_bytes);
void shim_qp_free(struct shim_qp *);
int shim_create_srq(const struct ibverbs_calls *, struct ibv_pd *, struct ibv_srq_init_attr *, struct ibv_srq **);
struct shim_rq *shim_srq_new(const struct ibverbs_calls *, struct ibv_srq *, int batch, int sge);
void shim_srq_free(struct shim_rq *);
int shim_limit_srq(struct ibv_srq *, uint32_t limit);
int shim_destroy_srq(const struct ibverbs_calls *, struct ibv_srq *);
int shim_destroy_qp(const struct ibverbs_calls *, struct ibv_qp *);
int shim_modify_qp(const struct ibverbs_calls *, struct ibv_qp *, struct ibv_qp_attr *, int mask);
int shim_query_qp(const struct ibverbs_calls *, struct ibv_qp *, struct ibv_qp_attr *, struct ibv_qp_init_attr *);
int shim_modify_cq(struct ibv_cq *, uint16_t count, uint16_t period);
int shim_rate_limit(const struct ibverbs_calls *, struct ibv_qp *, uint32_t kbps, uint32_t max_burst, uint16_t typical);

/* Post the first n requests of the array: how many were taken in the lower 32
 * bits, the errno in the upper ones. */
int64_t shim_post_send(struct shim_qp *, int n);
int64_t shim_post_recv(struct shim_rq *, int n);

int shim_read_clock(const struct ibverbs_calls *, struct ibv_context *, int64_t *seconds, int64_t *nanoseconds);

/* What mlx5dv_get_clock_info tells. */
struct shim_mlx5_clock {
	uint64_t nsec, last_cycles, frac;
	uint32_t mult, shift;
	uint64_t mask;
};

/* libmlx5 is loaded when it is first asked for; ENOSYS if it is not there,
 * EOPNOTSUPP if the device is not one of its. */
int shim_mlx5_clock(struct ibv_context *, struct shim_mlx5_clock *);
/* Whether a device of mlx5's stamps completions by its real-time clock where the wall
 * clock is asked for, and not by the counter that mlx5dv_get_clock_info is about. */
int shim_mlx5_real_time(struct ibv_context *);

/* An mlx5 device's memory, as mlx5dv_init_obj shows it. From then on libmlx5 takes nothing out
 * of a completion queue by itself. ENOSYS and EOPNOTSUPP as above, and shim_mlx5_maps says
 * them beforehand. */
int shim_mlx5_maps(struct ibv_context *);
struct shim_mlx5_qp {
	uint32_t *record;
	void *send, *recv;
	uint32_t send_blocks, recv_count, recv_stride;
	uint64_t *doorbell;
};
struct shim_mlx5_cq {
	uint32_t *record;
	void *ring;
	uint32_t entries, entry_size, num;
	void *uar; /* the page of its doorbell */
};
struct shim_mlx5_srq {
	uint32_t *record;
	void *ring;
	uint32_t stride, head, tail;
};
int shim_mlx5_map_qp(struct ibv_qp *, struct shim_mlx5_qp *);
int shim_mlx5_map_cq(struct ibv_cq *, struct shim_mlx5_cq *);
int shim_mlx5_map_srq(struct ibv_srq *, struct shim_mlx5_srq *);
/* The 48 bytes of a datagram segment that say where it goes. */
int shim_mlx5_map_ah(struct ibv_ah *, uint8_t *vector);

#endif
