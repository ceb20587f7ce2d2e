/* The objects behind the fake libibverbs, and what its files share. */
#ifndef SLUICE_FAKEVERBS_H
#define SLUICE_FAKEVERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#if defined __x86_64__ || defined __i386__
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() ((void)0)
#endif
#define container(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

/* Every call that can be counted, made to fail, or made to raise an event. */
#define CALLS(X)                                                                                   \
	X(open_device) X(query_device) X(query_device_ex) X(query_port) X(query_gid)               \
	X(query_rt_values) X(alloc_pd) X(dealloc_pd) X(reg_mr) X(dereg_mr) X(rereg_mr)             \
	X(create_comp_channel) X(create_cq) X(create_cq_ex) X(resize_cq) X(modify_cq)              \
	X(destroy_cq) X(req_notify_cq) X(get_cq_event) X(poll_cq) X(start_poll) X(next_poll)       \
	X(create_srq) X(modify_srq) X(query_srq) X(destroy_srq) X(post_srq_recv)                   \
	X(create_qp) X(create_qp_ex) X(modify_qp) X(query_qp) X(destroy_qp)                        \
	X(modify_qp_rate_limit) X(post_send) X(post_send_wr) X(post_recv) X(wr_complete)           \
	X(create_ah) X(destroy_ah) X(get_async_event) X(mlx5_clock_info) X(mlx5_query_device)

enum call {
#define X(name) CALL_##name,
	CALLS(X)
#undef X
	NCALLS
};

enum { MAX_RULES = 32, MAX_GIDS = 64, MAX_SGE = 32, MAX_QPS = 4096, MAX_MRS = 1 << 16 };

/* Timestamps that completions can have. */
enum { TS_RAW = 1, TS_WALLCLOCK = 2 };

struct fail_rule {
	enum call call;
	int err;
	uint64_t after, times; /* calls that go well first; times 0 is for good */
};

struct event_rule {
	enum call call;
	enum ibv_event_type type;
	uint64_t nth;
};

struct wc_rule {
	enum ibv_wc_status status;
	uint64_t nth;
};

/* What the environment chose for a device; read as the device is opened. */
struct config {
	bool slow; /* a rule or the log wants to see posts and polls */
	bool copy; /* loopback within the process moves data */
	bool locks;
	int timestamps;
	uint32_t clock_khz;
	int clock_bits, clockinfo_bits;
	double drift_ppm;
	uint64_t clock_start;
	int64_t wallclock_offset;
	bool mlx5, mlx5_clock;
	uint32_t rate_min, rate_max, rate_qpts; /* kbit/s */
	uint64_t latency_ns, line_bps;
	uint32_t max_qp_wr, max_sge, max_inline, max_cqe, max_rd_atom;
	uint32_t max_msg_sz;
	int mtu;
	bool port_down;
	uint8_t speed, width;
	uint32_t vendor_id, vendor_part_id;
	bool odp;
	int ngids;
	union ibv_gid gids[MAX_GIDS];
	uint32_t gid_types[MAX_GIDS];
	unsigned int ifindex;
	int logfd;
	int nfail, nevent, nwc;
	struct fail_rule fail[MAX_RULES];
	struct event_rule event[MAX_RULES];
	struct wc_rule wc[MAX_RULES];
};

struct fv_device {
	struct ibv_device dev; /* first */
	/* Providers of rdma-core look behind an ibv_device for their own. */
	uint64_t zero[64];
	int index;
	uint64_t guid;
};

/* A queue of events behind an eventfd that counts them. */
struct evq {
	int fd;
	pthread_mutex_t mu;
	struct evq_item {
		void *object;
		int type;
		uint64_t due;
	} *items;
	size_t head, len, cap;
};

struct fv_context {
	struct config cfg;
	struct evq async;
	atomic_uint_fast64_t calls[NCALLS];
	atomic_uint_fast64_t sent; /* send requests, for wc rules */
	atomic_int objects;
	pthread_mutex_t mu;
	uint64_t link_free;	     /* when the line is idle again, ns */
	struct verbs_context vctx; /* its ibv_context is last */
};

struct fv_mr {
	struct ibv_mr mr;
	uint64_t iova;
	unsigned int access;
	bool mapped; /* by the fake */
};

struct fv_channel {
	struct ibv_comp_channel ch;
	struct evq q;
};

struct fv_cqe {
	uint64_t wr_id;
	struct fv_qp *qp;
	uint32_t sq_index; /* what of the send queue is free once it is polled */
	uint32_t byte_len, imm, src_qp, qp_num;
	uint8_t status, opcode, wc_flags;
	bool is_send, solicited;
};

/* When a completion is seen (0: at once) and how it is stamped; beside the
 * completions, since most have none. */
struct fv_when {
	uint64_t due, ticks, wall;
};

struct fv_cq {
	struct ibv_cq_ex ex; /* first; an ibv_cq is its beginning */
	struct fv_context *ctx;
	atomic_int lock;
	bool locks;
	int timestamps;
	int armed; /* 1 next, 2 next solicited */
	bool overrun;
	bool taken; /* next_poll came to the end */
	uint32_t head, tail, mask; /* tail is the oldest */
	struct fv_cqe *ring;
	struct fv_when *when;
	bool timed; /* one of when was not 0 */
	uint32_t comp_reported, async_reported;
	atomic_int users;
};

/* A receive queue: a queue pair's own, or a shared one. */
struct rq {
	atomic_int lock;
	uint32_t head, tail, size, max_sge;
	int waiting; /* senders that found it empty */
	struct rwqe {
		uint64_t wr_id;
		int num_sge;
		struct ibv_sge sge[MAX_SGE];
	} *ring;
};

struct fv_srq {
	struct ibv_srq srq;
	struct fv_context *ctx;
	struct rq rq;
	uint32_t limit;
	uint32_t async_reported;
	atomic_int users;
};

/* A send request that waits: for wr_complete, or for a receive at the peer. */
struct staged {
	struct ibv_send_wr wr;
	struct ibv_sge sge[MAX_SGE];
	uint32_t index;
	struct staged *next;
	uint8_t *inl;
};

struct fv_qp {
	struct ibv_qp_ex ex; /* first; an ibv_qp is its beginning */
	struct fv_context *ctx;
	atomic_int lock;
	bool sig_all, timed, sends; /* sends: has been to RTS since RESET */
	uint32_t sq_size, sq_posted;
	atomic_uint sq_free; /* what of sq_posted has come back */
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr;
	struct rq rq, *recv;
	uint64_t free_at; /* when its rate limit lets it go on, ns */
	uint32_t rate_kbps;
	struct staged *pending, **pending_end;
	struct fv_qp *hurt; /* whose error waits until no lock is held */
	/* of the ibv_wr_ calls */
	struct staged *stage;
	uint8_t *stage_inl;
	uint32_t stage_len, stage_cap;
	int stage_err;
	uint64_t ops;
	uint32_t async_reported;
};

struct fv_ah {
	struct ibv_ah ah;
	struct ibv_ah_attr attr;
};

static inline struct fv_context *to_ctx(struct ibv_context *c)
{
	return container(c, struct fv_context, vctx.context);
}

static inline void spin_lock(atomic_int *l, bool on)
{
	if (!on)
		return;
	while (unlikely(atomic_exchange_explicit(l, 1, memory_order_acquire))) {
		int spins = 0;
		while (atomic_load_explicit(l, memory_order_relaxed)) {
			if (++spins > 200) {
				extern int sched_yield(void);
				sched_yield();
				spins = 0;
			}
			PAUSE();
		}
	}
}

static inline void spin_unlock(atomic_int *l, bool on)
{
	if (on)
		atomic_store_explicit(l, 0, memory_order_release);
}

/* config.c */
void config_read(struct config *c, const char *device);
const char *setting(const char *device, const char *name);
extern const char *const call_names[NCALLS];
int event_by_name(const char *name);

/* hooks.c */
int hook_slow(struct fv_context *c, enum call call, struct fv_qp *qp, struct fv_cq *cq);
static inline int hook(struct fv_context *c, enum call call, struct fv_qp *qp, struct fv_cq *cq)
{
	return likely(!c->cfg.slow) ? 0 : hook_slow(c, call, qp, cq);
}
void logf_(struct fv_context *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void raise_event(struct fv_context *c, enum ibv_event_type type, struct fv_qp *qp, struct fv_cq *cq,
		 struct fv_srq *srq, int port);
int evq_init(struct evq *q);
void evq_free(struct evq *q);
void evq_push(struct evq *q, void *object, int type, uint64_t due);
int evq_pop(struct evq *q, struct evq_item *item);
void evq_drop(struct evq *q, void *object, uint32_t *dropped);

/* clock.c */
uint64_t now_ns(void);
uint64_t ticks_at(struct fv_context *c, uint64_t ns);
uint64_t wall_at(struct fv_context *c, uint64_t ns);

/* data.c */
int fv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void wr_ops_set(struct fv_qp *qp);
void wr_complete_set(struct fv_qp *qp);
void qp_flush(struct fv_qp *qp);
void qp_error(struct fv_qp *qp);

/* cq.c */
int fv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int fv_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *v);
int fv_req_notify_cq(struct ibv_cq *cq, int solicited);
struct ibv_cq_ex *fv_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);
int fv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
void cq_push(struct fv_cq *cq, const struct fv_cqe *e, uint64_t due);
void cq_clean(struct fv_cq *cq, struct fv_qp *qp);

/* qp.c */
struct ibv_qp *fv_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
int fv_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
struct ibv_srq *fv_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr);
int fv_get_srq_num(struct ibv_srq *srq, uint32_t *num);

/* memory.c: what the process has, in all its contexts. A copy between queue
 * pairs holds world for reading, what takes an object away for writing. */
extern pthread_rwlock_t world;
extern struct fv_qp *qps[MAX_QPS];
extern struct fv_mr *mrs[MAX_MRS];

static inline struct fv_mr *mr_of_key(uint32_t key)
{
	struct fv_mr *m = mrs[key >> 8 & (MAX_MRS - 1)];
	return likely(m && m->mr.lkey == key) ? m : NULL;
}

struct fv_qp *qp_of_number(uint32_t number);
uint32_t process_tag(void);
void pd_use(struct ibv_pd *pd, int n);

#endif
