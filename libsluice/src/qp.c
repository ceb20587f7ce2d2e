/* Making, changing and destroying paced queue pairs. The device's calls are made without any
 * lock of a shard. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

enum {
	INDEX_SHIFT = 40,
	GEN_SHIFT = 32,
	MAX_QPS = (1 << 24) - 1,
	/* Segments of a queue pair with the device, whatever max_outstanding would allow. */
	MAX_DEPTH = 4096,
	ANY_MTU = 1024, /* until the program sets one */
};

/* Makes completions of segments posted so far strays. */
static void name(struct sl_qp *q)
{
	uint8_t gen = ++q->shard->gens[q->index];
	sluice_core_qp_name(&q->core, (uint64_t)q->index << INDEX_SHIFT | (uint64_t)gen << GEN_SHIFT);
}

/* The bound on outstanding bytes at a line rate: max_outstanding, or twice what the rate
 * times the base RTT asks, in whole segments, from 64 KiB and four segments to 1 GiB. */
static int64_t outstanding(const struct sl_settings *set, int64_t line)
{
	if (set->max_outstanding > 0)
		return set->max_outstanding;
	__int128 flight = line > 0 ? (__int128)line * set->base_rtt / 8 / SLUICE_SECOND : 0;
	__int128 segments = (2 * flight + set->segment - 1) / set->segment;
	__int128 n = (segments < 4 ? 4 : segments) * set->segment;
	n = n < 65536 ? 65536 : n;
	return n > SLUICE_GI_B ? SLUICE_GI_B : (int64_t)n;
}

static int64_t line_rate(const struct sl_shard *s, int port)
{
	return s->set.line_rate > 0 ? s->set.line_rate : sl_line_rate(s->dev, port);
}

/* Memory of a queue pair besides its own. */
static bool furnish(struct sl_qp *q, const struct ibv_qp_cap *cap, struct sluice_completions_table *table,
		    struct sluice_core_request_slice *requests, struct sluice_verbs_sge_slice *sgl, struct sluice_uint8_slice *data)
{
	int64_t slots = 1, posted = 1;
	while (slots < cap->max_send_wr)
		slots *= 2;
	while (posted < q->depth)
		posted *= 2;
	int64_t sges = slots * cap->max_send_sge, bytes = slots * cap->max_inline_data;
	struct sluice_completions_request_slice ring = {calloc((size_t)slots, sizeof(*ring.at)), slots, slots};
	struct sluice_completions_posted_slice segments = {calloc((size_t)posted, sizeof(*segments.at)), posted, posted};
	*requests = (struct sluice_core_request_slice){calloc((size_t)slots, sizeof(*requests->at)), slots, slots};
	*sgl = (struct sluice_verbs_sge_slice){calloc((size_t)sges, sizeof(*sgl->at)), sges, sges};
	*data = (struct sluice_uint8_slice){calloc((size_t)bytes + 1, 1), bytes, bytes};
	*table = sluice_completions_start(q->qp->qp_num, cap->max_send_wr, q->depth, ring, segments);
	if (ring.at && segments.at && requests->at && sgl->at && data->at)
		return true;
	free(ring.at), free(segments.at), free(requests->at), free(sgl->at), free(data->at);
	return false;
}

static void unfurnish(struct sl_qp *q)
{
	free(q->core.table.messages.at), free(q->core.table.segments.at), free(q->core.requests.at), free(q->core.sgl.at), free(q->core.inline_.at);
}

/* Makes q one of its shard's. The lock is held. */
static int enter(struct sl_qp *q, int64_t line)
{
	struct sl_shard *s = q->shard;
	if (s->live >= MAX_QPS)
		return sl_fail(EINVAL, "create_qp %s: one send CQ, or with groups all of the device's, takes %d queue pairs", s->dev->name, MAX_QPS);
	if (sl_make_room(q->outlet, &q->cap))
		return sl_fail(ENOMEM, "create_qp %s: no memory", s->dev->name);
	struct sluice_completions_table table;
	struct sluice_core_request_slice requests;
	struct sluice_verbs_sge_slice sgl;
	struct sluice_uint8_slice data;
	if (!furnish(q, &q->cap, &table, &requests, &sgl, &data))
		return sl_fail(ENOMEM, "create_qp %s: no memory for %u requests", s->dev->name, q->cap.max_send_wr);
	struct sluice_limiter_add_result flow = sluice_limiter_add(&s->limiter, SLUICE_LIMITER_UNPACED);
	uint32_t i = 0;
	while (i < s->n_qps && s->qps[i])
		i++;
	if (i == s->n_qps)
		s->n_qps++;
	q->index = i;
	s->qps[i] = q;
	s->live++;
	struct sluice_core_qp_config c = {
		.number = q->qp->qp_num, .index = i, .sig_all = q->sq_sig_all != 0, .segment = s->set.segment, .depth = q->depth,
		.limit = outstanding(&s->set, line), .line = line, .mtu = ANY_MTU,
		.cap = {.max_send_wr = q->cap.max_send_wr, .max_send_sge = q->cap.max_send_sge, .max_inline_data = q->cap.max_inline_data},
	};
	sluice_core_add(&s->core, &q->core, &c, flow.value, table, requests, sgl, data);
	name(q);
	q->outlet->capacity += q->cap.max_send_wr;
	return 0;
}

/* The program's attributes, with what pacing changes in them: the CQ, the room in the send
 * queue, and that every segment is signaled. */
static struct ibv_qp *make(struct sl_qp *q, struct ibv_context *context, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			   struct ibv_qp_init_attr_ex *ex, struct ibv_qp_cap *got)
{
	struct ibv_qp_init_attr_ex mine;
	memset(&mine, 0, sizeof(mine));
	memcpy(&mine, attr, ex ? sizeof(*ex) : sizeof(*attr));
	mine.send_cq = q->hidden->cq;
	mine.cap.max_send_wr = (uint32_t)q->depth;
	mine.cap.max_send_sge = q->cap.max_send_sge;
	mine.sq_sig_all = 0;
	if (mine.srq) /* what the program has there may be anything */
		mine.cap.max_recv_wr = mine.cap.max_recv_sge = 0;
	struct ibv_qp *qp = ex ? q->calls->create_qp_ex(context, &mine) : q->calls->ibv.create_qp(pd, (struct ibv_qp_init_attr *)&mine);
	*got = mine.cap;
	return qp;
}

static void unreserve(struct sl_qp *q)
{
	int state;
	sl_lock(q->shard, &state);
	q->hidden->used -= (uint32_t)q->depth;
	sl_unlock(q->shard, state);
}

static void users(struct sl_qp *q, int n)
{
	pthread_mutex_lock(&sl_making);
	q->send->users += (uint32_t)n;
	q->recv->users += (uint32_t)n;
	pthread_mutex_unlock(&sl_making);
}

/* What a queue pair shares with others. sl_making is held. */
static int attach(struct sl_qp *q, struct ibv_context *context, struct ibv_qp_init_attr *attr, const struct sl_settings *set)
{
	struct sl_device *d = sl_device_of(context);
	if (!d)
		return errno;
	if (d->max_qp_wr > 0 && attr->cap.max_send_wr > (uint32_t)d->max_qp_wr)
		return sl_fail(EINVAL, "create_qp %s: max_send_wr is %u, and the device takes %d", d->name, attr->cap.max_send_wr, d->max_qp_wr);
	q->send = sl_attach_cq(d, attr->send_cq);
	q->recv = sl_attach_cq(d, attr->recv_cq);
	if (!q->send || !q->recv)
		return sl_fail(ENOMEM, "create_qp %s: no memory", d->name);
	q->outlet = sl_outlet_of(q->send, set);
	if (!q->outlet)
		return errno;
	q->shard = q->outlet->shard;
	int64_t segments = (outstanding(set, line_rate(q->shard, 1)) + set->segment - 1) / set->segment;
	q->depth = segments > q->cap.max_send_wr ? segments > MAX_DEPTH ? MAX_DEPTH : (int)segments
		   : q->cap.max_send_wr > MAX_DEPTH ? MAX_DEPTH : (int)q->cap.max_send_wr;
	if (d->max_qp_wr > 0 && q->depth > d->max_qp_wr)
		q->depth = d->max_qp_wr;
	/* Events of segments go to where the program sleeps: the channel of the send CQ or else,
	 * since segments must go on while it waits for receives, of the receive CQ. */
	struct sl_channel *channel = q->send->channel ? q->send->channel : q->recv->channel;
	q->hidden = sl_reserve(q->shard, channel, channel ? channel->channel : NULL, q->depth);
	if (!q->hidden)
		return errno;
	q->send->users++;
	q->recv->users++;
	return 0;
}

struct ibv_qp *sl_create(struct ibv_context *context, struct ibv_pd *pd, struct ibv_qp_init_attr *attr, struct ibv_qp_init_attr_ex *ex,
			 const struct sl_settings *set)
{
	struct sl_qp *q = aligned_alloc(64, (sizeof(*q) + 63) & ~(size_t)63);
	if (!q) {
		sl_fail(ENOMEM, "create_qp: no memory");
		return NULL;
	}
	memset(q, 0, sizeof(*q));
	q->calls = sl_calls_of(context);
	q->send_cq = attr->send_cq;
	q->sq_sig_all = attr->sq_sig_all;
	q->port = 1;
	q->mtu = ANY_MTU;
	q->weight = 1;
	q->cap = attr->cap;
	q->cap.max_send_wr = q->cap.max_send_wr ? q->cap.max_send_wr : 1;
	q->cap.max_send_sge = q->cap.max_send_sge ? q->cap.max_send_sge : 1;
	pthread_mutex_init(&q->modifying, NULL);
	pthread_mutex_lock(&sl_making);
	int r = attach(q, context, attr, set);
	pthread_mutex_unlock(&sl_making);
	if (r) {
		free(q);
		errno = r;
		return NULL;
	}
	struct ibv_qp_cap got;
	errno = 0;
	struct ibv_qp *qp = q->qp = make(q, context, pd, attr, ex, &got);
	bool entered = false;
	if (!qp) {
		r = errno ? errno : EIO;
		sl_fail(r, "create_qp %s: %s", q->shard->dev->name, strerror(r));
		goto failed;
	}
	q->cap.max_recv_wr = got.max_recv_wr;
	q->cap.max_recv_sge = got.max_recv_sge;
	int state;
	int64_t line = line_rate(q->shard, 1);
	sl_lock(q->shard, &state);
	r = enter(q, line);
	sl_unlock(q->shard, state);
	if (r)
		goto failed;
	entered = true;
	if (ex && ex->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		struct ibv_qp_ex *qx = ibv_qp_to_qp_ex(qp);
		q->builder = qx ? sl_builder_new(q, qx) : NULL;
		if (!q->builder)
			r = ENOMEM;
	}
	if (!r && sl_failing)
		sl_fail_enter(q);
	if (!r)
		r = sl_set(SL_QP, qp, q);
	if (r) {
		sl_fail(r, "create_qp %s: %s", q->shard->dev->name, strerror(r));
		goto failed;
	}
	char engine[48];
	sl_settings_engine_name(set, engine, sizeof(engine));
	sl_debug("level=DEBUG msg=\"queue pair made\" device=%s qpn=%u engine=\"%s\"", q->shard->dev->name, qp->qp_num, engine);
	attr->cap = q->cap;
	return qp; /* its send_cq stays: drivers may use it whenever they like */

failed:
	if (entered) {
		sl_destroy(q);
	} else {
		if (qp)
			q->calls->ibv.destroy_qp(qp);
		unreserve(q);
		users(q, -1);
		free(q);
	}
	errno = r;
	return NULL;
}

/* ---- modification */

enum { SAME = 0xff }; /* a state for leave and arrive */

/* Makes the engine of a queue pair that is about to send, or makes it one of a group. */
static int start(struct sl_qp *q)
{
	struct sl_shard *s = q->shard;
	const struct sl_settings *set = &s->set;
	int64_t line = line_rate(s, q->port);
	if (line <= 0)
		return sl_fail(EINVAL, "modify_qp qp %u of %s: port %d tells no line rate: set line_rate", q->qp->qp_num, s->dev->name, q->port);
	const char *lacks = sl_settings_lacks(set);
	if (lacks)
		return sl_fail(EOPNOTSUPP, "modify_qp qp %u of %s: the engine %s requires %s, which this device does not report: take an engine that needs round trips only",
			       q->qp->qp_num, s->dev->name, set->cc, lacks);
	struct sluice_env env = {.line_rate = line, .base_rtt = set->base_rtt, .mtu = q->mtu};
	int state;
	bool engine;
	struct sl_now now;
	uint32_t longest = sl_longest(s->dev, q->port);
	struct sl_group *group = NULL; /* if it is the first of one */
	int r = sl_settings_start(set, &q->engine, env, &engine);
	if (r)
		return r;
	if (sl_shared(s)) {
		group = aligned_alloc(64, (sizeof(*group) + 63) & ~(size_t)63);
		if (!group)
			return sl_fail(ENOMEM, "modify_qp qp %u of %s: no memory for a group", q->qp->qp_num, s->dev->name);
		memset(group, 0, sizeof(*group));
		sl_settings_start(set, &group->engine, env, &engine);
	}
	sl_lock(s, &state);
	sl_look(s, &now);
	sluice_core_qp_set_longest(&q->core, longest);
	if (q->group) /* a change to RTS that the device refused */
		sl_quit(q);
	if (group && sl_join(q, &group, engine, &now, line, outstanding(set, line)))
		engine = false; /* the group's steers it */
	sluice_core_qp_start(&q->core, now.t, engine ? &q->engine : NULL, line, outstanding(set, line), 0);
	if (set->cc[0] && set->rate > 0 && set->rate < line) {
		/* What the engine allows beyond it counts as the bound. */
		q->cap_rate = set->rate;
		sluice_core_qp_cap(&q->core, set->rate);
	}
	sl_unlock(s, state);
	free(group);
	return 0;
}

/* Prepares for a state, which the device has yet to take the queue pair to. Meanwhile nothing
 * is sent, unless the state is RTS, or ERR, where the device flushes what is sent. */
static int leave(struct sl_qp *q, int to, int *from)
{
	int state;
	sl_lock(q->shard, &state);
	*from = sluice_core_qp_state(&q->core);
	if (to != SAME && to != IBV_QPS_ERR && to != IBV_QPS_RTS)
		sluice_core_qp_suspend(&q->core, (uint8_t)to);
	sl_unlock(q->shard, state);
	return to == IBV_QPS_RTS && *from == IBV_QPS_RTR ? start(q) : 0;
}

/* Goes back, as the device has refused. */
static void stay(struct sl_qp *q, int from, int to)
{
	int state;
	struct sl_now now;
	if (to == SAME || to == IBV_QPS_ERR || to == IBV_QPS_RTS)
		return;
	sl_lock(q->shard, &state);
	sl_look(q->shard, &now);
	if (sluice_core_qp_state(&q->core) == to)
		sluice_core_qp_restore(&q->core, now.t, (uint8_t)from);
	sl_unlock(q->shard, state);
}

/* Forgets everything that was posted. The lock is held. */
static void clear(struct sl_qp *q, const struct sl_now *now)
{
	int64_t n = sluice_core_qp_clear(&q->core, now->t, &q->outlet->done);
	if (q->outlet->ready && q->outlet->done.head == q->outlet->done.tail)
		SL_ATOMIC_SET(q->outlet->ready, false);
	if (n > 0) {
		q->hidden->in_flight -= n;
		q->hidden->stale = true;
	}
}

/* Takes what the device completed of requests that are forgotten, so that it does not fill
 * the CQ, and sends what others of the group may have outstanding in their place. The lock is
 * held. */
static void sweep(struct sl_qp *q)
{
	if (q->hidden->stale)
		sl_turn(q->shard);
}

static void arrive(struct sl_qp *q, int to)
{
	struct sl_shard *s = q->shard;
	struct sl_now now;
	sl_look(s, &now);
	switch (to) {
	case SAME:
		break;
	case IBV_QPS_RTS:
		sluice_core_qp_resume(&q->core, now.t);
		sl_release(s, &now);
		break;
	case IBV_QPS_RESET:
		clear(q, &now);
		sl_quit(q);
		name(q);
		q->fate.broken = false;
		break;
	case IBV_QPS_ERR:
		sluice_core_qp_fail(&q->core, now.t);
		sl_finish(q, false);
		break;
	default:
		sluice_core_qp_stop(&q->core, now.t, (uint8_t)to);
	}
}

/* Bits per second of a code, 0 for other codes. */
static int64_t rate_of(enum ibv_rate code)
{
	int mbps = ibv_rate_to_mbps(code);
	return mbps > 0 ? mbps * (int64_t)1000000 : 0;
}

/* The lowest static rate that is no lower than nic_rate, where it is to take the place of
 * the queue pair's own limit; else IBV_RATE_MAX. */
static enum ibv_rate static_rate(const struct sl_qp *q, const struct ibv_qp_attr *attr, int mask)
{
	int64_t rate = q->shard->set.nic_rate, best = 0;
	enum ibv_rate code = IBV_RATE_MAX;
	if (!rate || !(mask & IBV_QP_AV) || attr->ah_attr.static_rate || q->shard->dev->limits_rc)
		return code;
	for (int c = IBV_RATE_2_5_GBPS; c <= IBV_RATE_1200_GBPS; c++) {
		int64_t r = rate_of((enum ibv_rate)c);
		if (r >= rate && (!best || r < best)) {
			best = r;
			code = (enum ibv_rate)c;
		}
	}
	return best < sl_line_rate(q->shard->dev, q->port) ? code : IBV_RATE_MAX;
}

/* Has the provider modify the queue pair, its path with a static rate where that is what
 * paces the packets of a segment. */
static int modify(struct sl_qp *q, struct ibv_qp_attr *attr, int mask)
{
	enum ibv_rate rate = static_rate(q, attr, mask);
	if (mask & IBV_QP_AV)
		q->path_rate = IBV_RATE_MAX;
	if (rate != IBV_RATE_MAX) {
		struct ibv_qp_attr with = *attr, kept;
		struct ibv_qp_init_attr init;
		with.ah_attr.static_rate = (uint8_t)rate;
		if (!sl_code(q->calls->ibv.modify_qp(q->qp, &with, mask))) {
			if (!sl_code(q->calls->ibv.query_qp(q->qp, &kept, IBV_QP_AV, &init)) && kept.ah_attr.static_rate == rate)
				q->path_rate = rate;
			return 0;
		}
		/* It may be the rate that it does not take. */
	}
	return sl_code(q->calls->ibv.modify_qp(q->qp, attr, mask));
}

/* Has the NIC pace each segment's packets, where it can. */
static void limit_nic(struct sl_qp *q)
{
	struct sl_device *d = q->shard->dev;
	int64_t rate = q->shard->set.nic_rate, kbps = (rate + 500) / 1000;
	struct ibv_qp_rate_limit_attr a = {.rate_limit = (uint32_t)kbps};
	int state;
	if (kbps < 1 || kbps > UINT32_MAX || ibv_modify_qp_rate_limit(q->qp, &a))
		rate = rate_of(q->path_rate);
	sl_lock(q->shard, &state);
	if (rate)
		sluice_core_qp_set_limiter(&q->core, rate);
	sl_unlock(q->shard, state);
	if (!rate && !__atomic_exchange_n(&d->no_nic_rate, true, __ATOMIC_RELAXED))
		sl_debug("level=WARN msg=\"queue pairs take no nic_rate, and paths keep no static rate: segments leave at line rate\" device=%s", d->name);
}

int sl_modify(struct sl_qp *q, struct ibv_qp_attr *attr, int mask)
{
	int to = mask & IBV_QP_STATE ? (int)attr->qp_state : SAME, from, state;
	int cancel = sl_enter();
	pthread_mutex_lock(&q->modifying);
	if (mask & IBV_QP_PORT && to != IBV_QPS_RTS)
		q->port = attr->port_num;
	int r = leave(q, to, &from);
	if (!r) {
		r = modify(q, attr, mask);
		if (r) {
			sl_fail(r, "modify_qp qp %u of %s: %s", q->qp->qp_num, q->shard->dev->name, strerror(r));
			stay(q, from, to);
		}
	}
	if (!r) {
		if (q->builder)
			sl_builder_hook(q->builder);
		if (from == IBV_QPS_RTR && to == IBV_QPS_RTS && q->shard->set.nic_rate > 0)
			limit_nic(q);
		sl_lock(q->shard, &state);
		if (mask & IBV_QP_PATH_MTU) {
			q->mtu = attr->path_mtu >= 1 && attr->path_mtu <= 5 ? 128 << attr->path_mtu : ANY_MTU;
			sluice_core_qp_set_mtu(&q->core, q->mtu);
		}
		if (mask & IBV_QP_AV) {
			const struct ibv_ah_attr *av = &attr->ah_attr;
			memset(&q->peer, 0, sizeof(q->peer));
			if (av->is_global)
				q->peer = av->grh.dgid;
			q->flow_label = av->is_global ? av->grh.flow_label : 0;
			q->lid = av->is_global ? 0 : av->dlid;
		}
		if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
			sluice_core_qp_set_reads(&q->core, attr->max_rd_atomic);
		if (mask & IBV_QP_TIMEOUT)
			sluice_core_qp_set_timeout(&q->core, attr->timeout);
		arrive(q, to);
		q->used++;
		if (q->shard->doomed)
			sl_bury(q->shard);
		if (to == IBV_QPS_RESET)
			sweep(q);
		q->used--;
		sl_unlock(q->shard, state);
	} else if (q->builder) {
		sl_builder_hook(q->builder);
	}
	pthread_mutex_unlock(&q->modifying);
	sl_leave(cancel);
	return r;
}

/* ---- the end */

int sl_destroy(struct sl_qp *q)
{
	struct sl_shard *s = q->shard;
	struct sl_now now;
	int state;
	/* Out of the table first: the address may be another's as soon as it is free. */
	sl_set(SL_QP, q->qp, NULL);
	sl_lock(s, &state);
	uint8_t before = sluice_core_qp_state(&q->core);
	while (q->used || q->doomed) { /* another thread takes it to ERR */
		if (q->doomed)
			sl_bury(s);
		pthread_mutex_unlock(&s->lock);
		sched_yield();
		pthread_mutex_lock(&s->lock);
	}
	sluice_core_qp_suspend(&q->core, IBV_QPS_RESET);
	q->leaving = true;
	sl_unlock(s, state);
	int r = sl_code(q->calls->ibv.destroy_qp(q->qp)); /* waits until its events are acknowledged */
	sl_lock(s, &state);
	sl_look(s, &now);
	if (r) {
		if (sluice_core_qp_state(&q->core) == IBV_QPS_RESET)
			sluice_core_qp_restore(&q->core, now.t, before);
		q->leaving = false;
		sl_unlock(s, state);
		sl_set(SL_QP, q->qp, q);
		return sl_fail(r, "destroy_qp qp %u of %s: %s", q->qp->qp_num, s->dev->name, strerror(r));
	}
	clear(q, &now);
	sl_quit(q);
	struct sl_hidden *h = q->hidden;
	sluice_core_remove(&s->core, &q->core);
	s->qps[q->index] = NULL;
	s->live--;
	q->outlet->capacity -= q->cap.max_send_wr;
	h->used -= (uint32_t)q->depth;
	if (h->stale) /* and what it had outstanding is its group's again */
		sl_turn(s);
	sl_unlock(s, state);
	users(q, -1);
	sl_keep(q);
	if (q->builder)
		sl_builder_free(q->builder);
	unfurnish(q);
	pthread_mutex_destroy(&q->modifying);
	free(q);
	return 0;
}
