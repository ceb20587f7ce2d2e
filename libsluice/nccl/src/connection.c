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
		c->members = d->members;
		for (int i = 0; i < d->members; i++)
			c->member[i] = (struct member){.device = d->member[i], .gid = d->member[i]->gid, .gid_index = d->member[i]->gid_index, .mtu = d->member[i]->mtu};
		c->sender = sender;
		c->traffic_class = settings.traffic_class < 0 ? traffic_class : settings.traffic_class;
		c->fd = fd;
	} else {
		close(fd);
		WARN("no memory for a connection");
	}
	return c;
}

nccl_result connection_fail(struct connection *c, nccl_result error)
{
	if (!c->error) {
		c->error = error;
		if (c->stage == CONNECTED) /* the peer is to hear of it */
			shutdown(c->fd, SHUT_WR);
	}
	return c->error;
}

static struct ibv_qp *make_qp(const struct member *m, unsigned sends, unsigned receives)
{
	struct ibv_qp_init_attr init = {
		.send_cq = m->cq, .recv_cq = m->cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = m->device->port,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_qp *qp = ibv_create_qp(m->device->pd, &init);

	if (!qp) {
		WARN("%s makes no queue pair with %u sends and %u receives: %s", m->device->name, sends, receives, strerror(errno));
		return NULL;
	}
	errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (!errno)
		return qp;
	WARN("%s: queue pair %#x does not go to INIT: %s", m->device->name, qp->qp_num, strerror(errno));
	ibv_destroy_qp(qp);
	return NULL;
}

bool connection_lane(struct connection *c, int lane)
{
	struct lane *l = &c->lanes[lane];

	l->qp = make_qp(member_of(c, lane), transfer_sends(c), transfer_receives(c));
	if (!l->qp)
		return false;
	if (getrandom(&l->psn, sizeof l->psn, 0) != sizeof l->psn)
		l->psn = (uint32_t)now_ns();
	l->psn &= 0xffffff;
	return transfer_start(c, lane);
}

/* open_member takes a device into use. */
static bool open_member(struct connection *c, int number, size_t wire)
{
	struct member *m = &c->member[number];
	int queues = (c->qps + c->members - 1) / c->members;

	m->wire_mr = ibv_reg_mr(m->device->pd, c->wire, wire, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!m->wire_mr) {
		WARN("%s does not register %zu bytes: %s", m->device->name, wire, strerror(errno));
		return false;
	}
	m->cq = ibv_create_cq(m->device->context, queues * (int)(transfer_sends(c) + transfer_receives(c)) + 2 * RECEIVES, NULL, NULL, 0);
	if (!m->cq) {
		WARN("%s makes no completion queue: %s", m->device->name, strerror(errno));
		return false;
	}
	memcpy(c->mine.gid[number], m->gid.raw, sizeof m->gid.raw);
	c->mine.mtu[number] = m->mtu;
	c->mine.rkey[number] = htobe32(m->wire_mr->rkey);
	return true;
}

bool connection_open(struct connection *c, int qps)
{
	struct device *d = c->device;
	size_t size = sizeof *c->wire + qps * sizeof *c->wire->lanes;
	uint64_t piece;
	void *block;

	if (!device_use(d))
		return false;
	c->qps = qps;
	if (posix_memalign(&block, 4096, size)) {
		device_release(d);
		return false;
	}
	c->wire = block;
	memset(c->wire, 0, size);
	c->mine.qps = qps;
	c->mine.members = c->members;
	c->mine.wire = htobe64((uintptr_t)c->wire);
	ledger_init(&c->ledger, (unsigned)qps);
	for (int i = 0; i < c->members; i++)
		if (!open_member(c, i, size))
			return false;
	for (int i = 0; i < qps; i++) {
		struct lane *l = &c->lanes[i];

		if (!connection_lane(c, i))
			return false;
		c->mine.qpn[i] = htobe32(l->qp->qp_num);
		c->mine.psn[i] = htobe32(l->psn);
	}
	piece = (uint64_t)settings.piece;
	if (d->max_message && piece > d->max_message)
		piece = d->max_message;
	balance_init(&c->balance, settings.balance, (unsigned)qps, piece);
	return true;
}

/* address fills in where a queue pair sends to. */
static void address(const struct connection *c, const struct member *m, int i, const uint8_t *gid, struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){
		.is_global = 1, .sl = settings.service_level, .port_num = m->device->port,
		.grh = {
			.sgid_index = m->gid_index, .hop_limit = 255,
			.traffic_class = c->traffic_class < 0 ? 0 : c->traffic_class,
			.flow_label = settings.flow_label < 0 ? 0 : (settings.flow_label + i) & 0xfffff,
		},
	};
	memcpy(ah->grh.dgid.raw, gid, sizeof ah->grh.dgid.raw);
}

static bool ready(const struct member *m, struct ibv_qp *qp, const struct ibv_ah_attr *ah, enum ibv_mtu mtu, uint32_t psn, uint32_t peer_qpn, uint32_t peer_psn)
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
	WARN("%s: queue pair %#x does not go to RTS: %s", m->device->name, qp->qp_num, strerror(errno));
	return false;
}

bool connection_join_lane(struct connection *c, int lane)
{
	const struct member *m = member_of(c, lane);
	struct lane *l = &c->lanes[lane];
	int peer = lane % c->theirs.members;
	struct ibv_ah_attr ah;

	address(c, m, lane, c->theirs.gid[peer], &ah);
	return ready(m, l->qp, &ah, c->theirs.mtu[peer] < m->mtu ? c->theirs.mtu[peer] : m->mtu, l->psn, l->peer_qpn, l->peer_psn);
}

bool connection_join(struct connection *c)
{
	char text[MAX_QPS * 32], *at = text;

	for (int i = 0; i < c->qps; i++) {
		struct lane *l = &c->lanes[i];

		l->peer_qpn = be32toh(c->theirs.qpn[i]);
		l->peer_psn = be32toh(c->theirs.psn[i]);
		if (!connection_join_lane(c, i))
			return false;
		at += sprintf(at, " %#x-%#x/%#x", l->qp->qp_num, l->peer_qpn, settings.flow_label < 0 ? 0 : (settings.flow_label + i) & 0xfffff);
	}
	INFO("%s: %s by queue pairs (its own, the peer's, flow label)%s", c->device->name, c->sender ? "sends" : "receives", text);
	return true;
}

bool connection_flush_qp(struct connection *c, struct member *m)
{
	struct ibv_ah_attr ah;

	if (m->flush_qp)
		return true;
	m->flush_qp = make_qp(m, RECEIVES, 1);
	if (!m->flush_qp)
		return false;
	address(c, m, 0, m->gid.raw, &ah);
	return ready(m, m->flush_qp, &ah, m->device->mtu, 0, m->flush_qp->qp_num, 0);
}

void connection_close(struct connection *c)
{
	bool used = c->wire != NULL;

	for (int i = 0; i < c->qps; i++)
		if (c->lanes[i].qp)
			ibv_destroy_qp(c->lanes[i].qp);
	for (int i = 0; i < c->members; i++) {
		struct member *m = &c->member[i];

		if (m->flush_qp)
			ibv_destroy_qp(m->flush_qp);
		if (m->cq)
			ibv_destroy_cq(m->cq);
		if (m->wire_mr)
			ibv_dereg_mr(m->wire_mr);
	}
	free(c->wire);
	if (used)
		device_release(c->device);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}
