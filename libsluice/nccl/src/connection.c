/* A connection's queue pairs, from their making to their end. */
#include "plugin.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

struct connection *connection_new(struct device *d, bool sender, int traffic_class, int fd)
{
	struct connection *c = calloc(1, sizeof *c);

	if (c) {
		c->device = d;
		c->sender = sender;
		c->traffic_class = settings.traffic_class < 0 ? traffic_class : settings.traffic_class;
		c->fd = fd;
		c->gid = d->gid;
		c->gid_index = d->gid_index;
		c->mtu = d->mtu;
	} else {
		close(fd);
		WARN("no memory for a connection");
	}
	return c;
}

nccl_result connection_fail(struct connection *c, nccl_result error)
{
	if (!c->error)
		c->error = error;
	return c->error;
}

static struct ibv_qp *make_qp(struct connection *c, unsigned sends, unsigned receives)
{
	struct ibv_qp_init_attr init = {
		.send_cq = c->cq, .recv_cq = c->cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = c->device->port,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_qp *qp = ibv_create_qp(c->device->pd, &init);

	if (!qp) {
		WARN("%s makes no queue pair with %u sends and %u receives: %s", c->device->name, sends, receives, strerror(errno));
		return NULL;
	}
	errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (!errno)
		return qp;
	WARN("%s: queue pair %#x does not go to INIT: %s", c->device->name, qp->qp_num, strerror(errno));
	ibv_destroy_qp(qp);
	return NULL;
}

bool connection_open(struct connection *c, int qps)
{
	struct device *d = c->device;
	unsigned sends = c->sender ? BALANCE_PIECES + SENDS : 2 * RECEIVES;
	uint64_t piece;
	void *block;

	if (!device_use(d))
		return false;
	c->qps = qps;
	if (posix_memalign(&block, 4096, sizeof *c->wire))
		goto failed;
	c->wire = block;
	memset(c->wire, 0, sizeof *c->wire);
	c->wire_mr = ibv_reg_mr(d->pd, c->wire, sizeof *c->wire, IBV_ACCESS_LOCAL_WRITE);
	if (!c->wire_mr) {
		WARN("%s does not register %zu bytes: %s", d->name, sizeof *c->wire, strerror(errno));
		goto failed;
	}
	c->cq = ibv_create_cq(d->context, qps * (BALANCE_PIECES + SENDS) + 4 * RECEIVES, NULL, NULL, 0);
	if (!c->cq) {
		WARN("%s makes no completion queue: %s", d->name, strerror(errno));
		goto failed;
	}
	memcpy(c->mine.gid, c->gid.raw, sizeof c->mine.gid);
	c->mine.qps = qps;
	c->mine.mtu = c->mtu;
	for (int i = 0; i < qps; i++) {
		struct lane *l = &c->lanes[i];

		l->qp = make_qp(c, c->sender || !i ? sends : 1, c->sender ? (i ? 1 : RECEIVES) : SENDS);
		if (!l->qp)
			goto failed;
		if (getrandom(&l->psn, sizeof l->psn, 0) != sizeof l->psn)
			l->psn = (uint32_t)now_ns();
		l->psn &= 0xffffff;
		c->mine.qpn[i] = htobe32(l->qp->qp_num);
		c->mine.psn[i] = htobe32(l->psn);
	}
	piece = (uint64_t)settings.piece;
	if (d->max_message && piece > d->max_message)
		piece = d->max_message;
	balance_init(&c->balance, settings.balance, (unsigned)qps, piece);
	if (transfer_start(c))
		return true;
failed:
	if (!c->wire)
		device_release(d);
	return false;
}

/* address fills in where a queue pair sends to. */
static void address(const struct connection *c, int i, const union ibv_gid *gid, struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){
		.is_global = 1, .sl = settings.service_level, .port_num = c->device->port,
		.grh = {
			.dgid = *gid, .sgid_index = c->gid_index, .hop_limit = 255,
			.traffic_class = c->traffic_class < 0 ? 0 : c->traffic_class,
			.flow_label = settings.flow_label < 0 ? 0 : (settings.flow_label + i) & 0xfffff,
		},
	};
}

static bool ready(struct connection *c, struct ibv_qp *qp, const struct ibv_ah_attr *ah, enum ibv_mtu mtu, uint32_t psn, uint32_t peer_qpn, uint32_t peer_psn)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = peer_qpn, .rq_psn = peer_psn,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = *ah,
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = settings.timeout, .retry_cnt = settings.retries, .rnr_retry = 7,
		.sq_psn = psn, .max_rd_atomic = 1,
	};

	errno = ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (!errno)
		errno = ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (!errno)
		return true;
	WARN("%s: queue pair %#x does not go to RTS: %s", c->device->name, qp->qp_num, strerror(errno));
	return false;
}

bool connection_join(struct connection *c)
{
	enum ibv_mtu mtu = c->theirs.mtu < c->mtu ? c->theirs.mtu : c->mtu;
	union ibv_gid gid;
	char text[MAX_QPS * 32], *at = text;

	memcpy(gid.raw, c->theirs.gid, sizeof gid.raw);
	for (int i = 0; i < c->qps; i++) {
		struct lane *l = &c->lanes[i];
		struct ibv_ah_attr ah;

		address(c, i, &gid, &ah);
		if (!ready(c, l->qp, &ah, mtu, l->psn, be32toh(c->theirs.qpn[i]), be32toh(c->theirs.psn[i])))
			return false;
		at += sprintf(at, " %#x-%#x/%#x", l->qp->qp_num, be32toh(c->theirs.qpn[i]), ah.grh.flow_label);
	}
	INFO("%s: %s by queue pairs (its own, the peer's, flow label)%s", c->device->name, c->sender ? "sends" : "receives", text);
	return true;
}

bool connection_flush_qp(struct connection *c)
{
	struct ibv_ah_attr ah;

	if (c->flush_qp)
		return true;
	c->flush_qp = make_qp(c, RECEIVES, 1);
	if (!c->flush_qp)
		return false;
	address(c, 0, &c->gid, &ah);
	return ready(c, c->flush_qp, &ah, c->device->mtu, 0, c->flush_qp->qp_num, 0);
}

void connection_close(struct connection *c)
{
	bool used = c->wire != NULL;

	for (int i = 0; i < c->qps; i++)
		if (c->lanes[i].qp)
			ibv_destroy_qp(c->lanes[i].qp);
	if (c->flush_qp)
		ibv_destroy_qp(c->flush_qp);
	if (c->cq)
		ibv_destroy_cq(c->cq);
	if (c->wire_mr)
		ibv_dereg_mr(c->wire_mr);
	free(c->wire);
	if (used)
		device_release(c->device);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}
