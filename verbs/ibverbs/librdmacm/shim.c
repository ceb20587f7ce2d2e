//go:build ibverbs

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * librdmacm is loaded when it is needed, so that programs which do not connect by
 * it run where it is not installed.
 */
#define FUNCTIONS(F) \
	F(create_event_channel) F(destroy_event_channel) F(get_cm_event) F(ack_cm_event) \
	F(create_id) F(destroy_id) F(set_option) F(bind_addr) F(listen) F(resolve_addr) \
	F(resolve_route) F(connect) F(accept) F(reject) F(establish) F(notify) F(disconnect) \
	F(init_qp_attr)

#define MEMBER(name) __typeof__(rdma_##name) *name;
static struct { FUNCTIONS(MEMBER) } cm;

int cm_load(const char *library, char *why, size_t room)
{
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		snprintf(why, room, "%s", dlerror());
		return ENOSYS;
	}
#define LOOK(name) \
	if (!(cm.name = (__typeof__(cm.name))dlsym(lib, "rdma_" #name))) { \
		snprintf(why, room, "%s has no rdma_" #name, library); \
		dlclose(lib); \
		return ENOSYS; \
	}
	FUNCTIONS(LOOK)
	return 0;
}

/* librdmacm returns -1 and sets errno; of some versions an errno came as such. */
static int code(int r)
{
	if (r == -1)
		return errno ? errno : EIO;
	return r < 0 ? -r : r;
}

static socklen_t pack(const struct cm_addr *a, struct sockaddr_storage *s)
{
	memset(s, 0, sizeof *s);
	if (a->six) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)s;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(a->port);
		in6->sin6_scope_id = a->scope;
		memcpy(&in6->sin6_addr, a->ip, 16);
		return sizeof *in6;
	}
	struct sockaddr_in *in = (struct sockaddr_in *)s;

	in->sin_family = AF_INET;
	in->sin_port = htons(a->port);
	memcpy(&in->sin_addr, a->ip, 4);
	return sizeof *in;
}

static void unpack(const struct sockaddr *s, struct cm_addr *a)
{
	memset(a, 0, sizeof *a);
	if (s->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)s;

		a->six = 1;
		a->port = ntohs(in6->sin6_port);
		a->scope = in6->sin6_scope_id;
		memcpy(a->ip, &in6->sin6_addr, 16);
	} else if (s->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)s;

		a->port = ntohs(in->sin_port);
		memcpy(a->ip, &in->sin_addr, 4);
	}
}

int cm_create_channel(struct rdma_event_channel **channel)
{
	errno = 0;
	*channel = cm.create_event_channel();
	return *channel ? 0 : errno ? errno : ENODEV;
}

void cm_destroy_channel(struct rdma_event_channel *channel)
{
	cm.destroy_event_channel(channel);
}

int cm_get_event(struct rdma_event_channel *channel, struct cm_event *out, struct rdma_cm_event **held)
{
	struct rdma_cm_event *e;
	int r = code(cm.get_cm_event(channel, &e));

	if (r)
		return r;
	memset(out, 0, sizeof *out);
	out->id = e->id;
	out->listen_id = e->listen_id;
	out->kind = e->event;
	out->status = e->status;
	switch (e->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_REJECTED:
		out->param.qp_num = e->param.conn.qp_num;
		out->param.responder_resources = e->param.conn.responder_resources;
		out->param.initiator_depth = e->param.conn.initiator_depth;
		out->param.flow_control = e->param.conn.flow_control;
		out->param.retry_count = e->param.conn.retry_count;
		out->param.rnr_retry_count = e->param.conn.rnr_retry_count;
		out->param.srq = e->param.conn.srq;
		if (e->param.conn.private_data) {
			out->private_len = e->param.conn.private_data_len;
			memcpy(out->private_data, e->param.conn.private_data, out->private_len);
		}
		break;
	default:
		break;
	}
	*held = e;
	return 0;
}

void cm_ack_event(struct rdma_cm_event *held)
{
	cm.ack_cm_event(held);
}

int cm_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id)
{
	return code(cm.create_id(channel, id, NULL, RDMA_PS_TCP));
}

int cm_destroy_id(struct rdma_cm_id *id)
{
	return code(cm.destroy_id(id));
}

int cm_set_option(struct rdma_cm_id *id, int option, int value, size_t size)
{
	uint8_t byte = value;

	return code(cm.set_option(id, RDMA_OPTION_ID, option, size == 1 ? (void *)&byte : (void *)&value, size));
}

int cm_bind(struct rdma_cm_id *id, const struct cm_addr *addr)
{
	struct sockaddr_storage s;

	pack(addr, &s);
	return code(cm.bind_addr(id, (struct sockaddr *)&s));
}

int cm_listen(struct rdma_cm_id *id, int backlog)
{
	return code(cm.listen(id, backlog));
}

int cm_resolve_addr(struct rdma_cm_id *id, const struct cm_addr *src, const struct cm_addr *dst, int timeout_ms)
{
	struct sockaddr_storage s, d;

	if (src)
		pack(src, &s);
	pack(dst, &d);
	return code(cm.resolve_addr(id, src ? (struct sockaddr *)&s : NULL, (struct sockaddr *)&d, timeout_ms));
}

int cm_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	return code(cm.resolve_route(id, timeout_ms));
}

static struct rdma_conn_param conn_param(const struct cm_param *p, const void *data, uint8_t len)
{
	return (struct rdma_conn_param){
		.private_data = len ? data : NULL, .private_data_len = len,
		.responder_resources = p->responder_resources, .initiator_depth = p->initiator_depth,
		.flow_control = p->flow_control, .retry_count = p->retry_count,
		.rnr_retry_count = p->rnr_retry_count, .srq = p->srq, .qp_num = p->qp_num,
	};
}

int cm_connect(struct rdma_cm_id *id, const struct cm_param *param, const void *data, uint8_t len)
{
	struct rdma_conn_param p = conn_param(param, data, len);

	return code(cm.connect(id, &p));
}

int cm_accept(struct rdma_cm_id *id, const struct cm_param *param, const void *data, uint8_t len)
{
	struct rdma_conn_param p = conn_param(param, data, len);

	return code(cm.accept(id, &p));
}

int cm_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	return code(cm.reject(id, len ? data : NULL, len));
}

int cm_establish(struct rdma_cm_id *id)
{
	return code(cm.establish(id));
}

int cm_notify_established(struct rdma_cm_id *id)
{
	return code(cm.notify(id, IBV_EVENT_COMM_EST));
}

int cm_disconnect(struct rdma_cm_id *id)
{
	return code(cm.disconnect(id));
}

int cm_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr)
{
	struct ibv_qp_attr rts;
	int mask, r;

	memset(attr, 0, sizeof *attr);
	attr->qp_state = IBV_QPS_RTR;
	r = code(cm.init_qp_attr(id, attr, &mask));
	if (r)
		return r;
	memset(&rts, 0, sizeof rts);
	rts.qp_state = IBV_QPS_RTS;
	r = code(cm.init_qp_attr(id, &rts, &mask));
	if (r)
		return r;
	attr->sq_psn = rts.sq_psn;
	attr->timeout = rts.timeout;
	attr->retry_cnt = rts.retry_cnt;
	attr->rnr_retry = rts.rnr_retry;
	attr->max_rd_atomic = rts.max_rd_atomic;
	return 0;
}

const char *cm_device(struct rdma_cm_id *id)
{
	return id->verbs ? id->verbs->device->name : NULL;
}

void cm_addrs(struct rdma_cm_id *id, struct cm_addr *local, struct cm_addr *remote)
{
	unpack(&id->route.addr.src_addr, local);
	unpack(&id->route.addr.dst_addr, remote);
}
