/* Between libsluice.so and libsluice-preload.so, which come from one build. */
#ifndef SLUICE_INTERPOSE_H
#define SLUICE_INTERPOSE_H

#include <stdbool.h>
#include <infiniband/verbs.h>

/* What a context had before it was hooked. */
struct sluice_calls {
	struct {
		int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
		int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
		int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
		int (*req_notify_cq)(struct ibv_cq *, int);
		struct ibv_cq *(*create_cq)(struct ibv_context *, int, void *, struct ibv_comp_channel *, int);
		struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
		int (*destroy_cq)(struct ibv_cq *);
		int (*destroy_comp_channel)(struct ibv_comp_channel *);
		int (*get_cq_event)(struct ibv_comp_channel *, struct ibv_cq **, void **);
		void (*ack_cq_events)(struct ibv_cq *, unsigned int);
		struct ibv_qp *(*create_qp)(struct ibv_pd *, struct ibv_qp_init_attr *);
		int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
		int (*query_qp)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);
		int (*destroy_qp)(struct ibv_qp *);
	} ibv;
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *);
	int (*close_device)(struct ibv_context *);
};

/* The calls of a context. libsluice-preload.so defines it;
 * libsluice.so looks for it among the process's symbols. */
const struct sluice_calls *sluice_preload_calls(struct ibv_context *);
typedef const struct sluice_calls *sluice_preload_calls_fn(struct ibv_context *);

/* libsluice.so's, for the hooks. */

/* Reads the environment: whether queue pairs of the device are to be paced (1, 0),
 * or a negative errno for a configuration that is wrong. *stats says whether
 * sluice_interpose_report is to be called as the process ends. */
int sluice_interpose_wanted(struct ibv_context *, bool *stats);
void sluice_interpose_report(void);

/* sluice_create_qp and sluice_create_qp_ex with the environment's options. */
struct ibv_qp *sluice_interpose_create_qp(struct ibv_pd *, struct ibv_qp_init_attr *);
struct ibv_qp *sluice_interpose_create_qp_ex(struct ibv_context *, struct ibv_qp_init_attr_ex *);

/* Completions of paced sends alone: their number, or a negative errno. *paced
 * says whether cq has paced queue pairs at all. */
int sluice_interpose_poll_sends(struct ibv_cq *, int, struct ibv_wc *, bool *paced);
/* Whether an event was of a CQ of sluice's, and so is nothing to the program; it
 * is acknowledged then. */
bool sluice_interpose_took_event(struct ibv_cq *);
bool sluice_interpose_is_paced(struct ibv_qp *);

#endif
