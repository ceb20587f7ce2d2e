//go:build ibverbs

#ifndef SLUICE_LIBRDMACM_SHIM_H
#define SLUICE_LIBRDMACM_SHIM_H

#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

/* An address and port; a link-local one has the interface's index. */
struct cm_addr {
	uint8_t ip[16];
	uint32_t scope;
	uint16_t port;
	uint8_t six;
};

/* What rdma_conn_param has, but for the private data. */
struct cm_param {
	uint32_t qp_num;
	uint8_t responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count, srq;
};

struct cm_event {
	struct rdma_cm_id *id, *listen_id;
	int kind, status;
	struct cm_param param;
	uint8_t private_data[256];
	int private_len;
};

/*
 * All return 0 or an errno value. cm_load looks librdmacm's functions up, and has
 * to succeed before any other is called.
 */
int cm_load(const char *library, char *why, size_t room);

int cm_create_channel(struct rdma_event_channel **channel);
void cm_destroy_channel(struct rdma_event_channel *channel);
/* cm_get_event gives the event to out, and to held what cm_ack_event takes. */
int cm_get_event(struct rdma_event_channel *channel, struct cm_event *out, struct rdma_cm_event **held);
void cm_ack_event(struct rdma_cm_event *held);

int cm_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id);
int cm_destroy_id(struct rdma_cm_id *id);
int cm_set_option(struct rdma_cm_id *id, int option, int value, size_t size);
int cm_bind(struct rdma_cm_id *id, const struct cm_addr *addr);
int cm_listen(struct rdma_cm_id *id, int backlog);
int cm_resolve_addr(struct rdma_cm_id *id, const struct cm_addr *src, const struct cm_addr *dst, int timeout_ms);
int cm_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int cm_connect(struct rdma_cm_id *id, const struct cm_param *param, const void *data, uint8_t len);
int cm_accept(struct rdma_cm_id *id, const struct cm_param *param, const void *data, uint8_t len);
int cm_reject(struct rdma_cm_id *id, const void *data, uint8_t len);
int cm_establish(struct rdma_cm_id *id);
int cm_notify_established(struct rdma_cm_id *id);
int cm_disconnect(struct rdma_cm_id *id);
/* cm_qp_attr asks for the attributes of the transitions to RTR and RTS at once. */
int cm_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr);

/* cm_device is the name of the device that an id is bound to, or NULL. */
const char *cm_device(struct rdma_cm_id *id);
void cm_addrs(struct rdma_cm_id *id, struct cm_addr *local, struct cm_addr *remote);

#endif
