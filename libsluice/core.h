/* What the C and the Go parts of libsluice share. Fields that threads change at the
 * same time are accessed by __atomic functions, since cgo does not know _Atomic. */
#ifndef SLUICE_CORE_H
#define SLUICE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose.h"
#include "sluice.h"

/* A shim over a context: paced.Shim with one set of options. changes counts what
 * may have given it work; it is advanced after each call that may have. */
struct sl_shim {
	uint64_t changes;
	uint32_t id;
};

enum { SL_CQ_SHIMS = 8 };

/* A CQ of the application that paced sends complete on. */
struct sl_cq {
	struct ibv_cq *cq;
	const struct sluice_calls *calls;
	uint32_t id;
	uint32_t synthetic; /* events that the device knows nothing of, to be acknowledged */
	bool recv_first;    /* whose turn it is */
	uint32_t shims;     /* how many there are of: */
	struct sl_shim *shim[SL_CQ_SHIMS];
	/* What shim's changes were before a poll that left nothing outstanding and
	 * nothing in this CQ. While they still are, a poll has no business in Go. */
	uint64_t idle_at[SL_CQ_SHIMS];
};

/* A completion channel of such CQs. */
struct sl_channel {
	uint32_t id;
};

/* The CQ on which the segments complete. */
struct sl_hidden {
	struct sl_shim *shim;
};

struct sl_qp {
	struct ibv_qp *qp;
	const struct sluice_calls *calls;
	struct sl_shim *shim;
	struct ibv_cq *send_cq; /* the application's; qp->send_cq is that of the segments */
	struct ibv_qp_cap cap;
	int sq_sig_all;
	uint32_t id;
	struct sl_builder *builder; /* of ibv_wr_* calls, or NULL */
};

/* Settings that Go has read from struct sluice_options. */
struct sl_create {
	const struct sluice_options *options; /* NULL with environment */
	bool environment;
	struct ibv_pd *pd;
	struct ibv_qp_init_attr *attr; /* the head of struct ibv_qp_init_attr_ex is the same */
	/* Results. */
	struct sl_shim *shim;
	uint32_t send_id, recv_id, channel_id[2]; /* 0 for a channel that is not there */
	uint32_t qp_id;
	struct ibv_qp *qp;
	struct ibv_qp_cap cap;
};

/* ---- table.c: objects by the address of libibverbs' object */

enum sl_kind { SL_QP, SL_CQ, SL_CHANNEL, SL_HIDDEN };
void *sl_get(enum sl_kind, const void *key);
/* 0 or ENOMEM. A NULL value takes the key out. */
int sl_set(enum sl_kind, const void *key, void *value);
/* A key that is there and of a context, or NULL. Each of libibverbs' objects has
 * its context first. */
void *sl_any(enum sl_kind, struct ibv_context *);

/* ---- calls.c */

const struct sluice_calls *sl_calls_of(struct ibv_context *);
/* The same, with functions that create, modify and destroy queue pairs by what
 * the application gave, for the Go part to call. */
void sl_calls_for_go(struct ibv_context *, struct sluice_calls *);

/* What the thread's next create_qp or modify_qp is to be given in place of what
 * Go makes up. */
struct sl_pending {
	struct ibv_context *context;
	struct ibv_qp_init_attr *attr;
	struct ibv_qp_init_attr_ex *attr_ex;
	struct ibv_qp *qp;
	struct ibv_qp_attr *modify;
	int mask;
};
extern __thread struct sl_pending sl_pending;

extern bool sl_forked;

/* ---- error.c */

enum { SL_ERROR_SIZE = 512 };
extern __thread char sl_error_text[SL_ERROR_SIZE];
char *sl_error_buffer(void); /* the calling thread's */
int sl_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- wr.c: ibv_wr_* */

struct sl_builder *sl_builder_new(struct sl_qp *, struct ibv_qp_ex *);
void sl_builder_hook(struct sl_builder *);
void sl_builder_free(struct sl_builder *);

/* ---- api.c */

/* sluice_post_send of all requests or, with an error, of none. The caller keeps
 * others from calling it for the same queue pair. */
int sl_post_whole(struct sl_qp *, struct ibv_send_wr *);

/* A CQ of sluice's is about to go. */
void sl_hidden_gone(struct ibv_cq *);

/* Nobody may cancel a thread while it is in Go. */
int sl_enter(void);
void sl_leave(int state);

#endif
