/* What queue pairs share: CQs of the program, its channels, shards and hidden CQs. All of
 * it is made and unmade with sl_making held, unless said otherwise. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static struct sl_shard *spare; /* of CQs that are gone */

/* ---- CQs and channels of the program */

static struct sl_channel *attach_channel(struct sl_device *d, struct ibv_comp_channel *channel)
{
	struct sl_channel *c = sl_channel_of(channel);
	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->channel = channel;
	c->dev = d;
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->list, NULL);
	if (sl_set(SL_CHANNEL, channel, c)) {
		free(c);
		return NULL;
	}
	return c;
}

struct sl_cq *sl_attach_cq(struct sl_device *d, struct ibv_cq *cq)
{
	struct sl_cq *c = sl_cq_of(cq);
	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->cq = cq;
	c->calls = d->calls;
	c->dev = d;
	if (cq->channel && !(c->channel = attach_channel(d, cq->channel))) {
		free(c);
		return NULL;
	}
	if (sl_set(SL_CQ, cq, c)) {
		free(c);
		return NULL;
	}
	if (c->channel)
		c->channel->cqs++;
	return c;
}

/* ---- shards */

/* Memory that a shard keeps, from one CQ to the next. */
static bool prepare(struct sl_shard *s)
{
	free(s->wr);
	free(s->sge);
	free(s->core.claims.at);
	free(s->core.scratch.wrs.at);
	free(s->core.scratch.sges.at);
	int64_t batch = s->set.batch;
	struct sluice_core_claim_slice claims = {calloc((size_t)batch, sizeof(struct sluice_core_claim)), batch, batch};
	struct sluice_core_scratch scratch = {.max_sge = 1,
		.wrs = {calloc((size_t)batch, sizeof(struct sluice_verbs_send_wr)), batch, batch},
		.sges = {calloc((size_t)batch, sizeof(struct sluice_verbs_sge)), batch, batch}};
	s->max_sge = 1;
	s->wr = calloc((size_t)batch, sizeof(*s->wr));
	s->sge = calloc((size_t)batch, sizeof(*s->sge));
	struct sluice_limiter_config limits = sluice_limiter_default_config();
	limits.catch_up = s->set.catch_up;
	struct sluice_core_config cfg = {.batch = batch, .catch_up = s->set.catch_up, .base_rtt = s->set.base_rtt, .bypass = s->set.bypass,
		.origin = sl_long_time(sl_clock())};
	memset(&s->limiter, 0, sizeof(s->limiter));
	sluice_limiter_start(&s->limiter, limits, (struct sluice_limiter_flow_slice){0}, (struct sluice_limiter_links_slice){0});
	s->last = 0;
	s->stamped = s->dev->stamps && s->set.calibrate_every > 0;
	if (s->stamped) {
		struct sluice_calibration_config c = sluice_calibration_default_config(s->dev->clock_bits, s->dev->clock_hz);
		c.max_interval = s->set.calibrate_every;
		c.min_interval = c.min_interval < c.max_interval ? c.min_interval : c.max_interval;
		s->calibration = sluice_calibration_start(c);
		s->clock.cal = &s->calibration;
		s->readings = 0;
	}
	s->groups = NULL;
	sluice_core_start(&s->core, cfg, s->stamped ? &s->clock : NULL, &s->limiter, claims, scratch, (struct sluice_core_qp_pointer_slice){0}, (struct sluice_core_group_pointer_slice){0});
	return claims.at && scratch.wrs.at && scratch.sges.at && s->wr && s->sge;
}

/* The device's shard for options with groups, or NULL. */
static struct sl_shard *shared_shard(struct sl_device *d, const struct sl_settings *set)
{
	struct sl_shard *s = set->group == SL_GROUP_NONE ? NULL : d->shards;
	while (s && !sl_settings_equal(&s->set, set))
		s = s->next;
	return s;
}

/* A shard with o as its first outlet. NULL with an error. */
static struct sl_shard *new_shard(struct sl_device *d, const struct sl_settings *set, struct sl_outlet *o)
{
	struct sl_shard *s = spare;
	if (s) {
		spare = s->next;
	} else {
		s = aligned_alloc(64, (sizeof(*s) + 63) & ~(size_t)63);
		if (!s) {
			sl_fail(ENOMEM, "create_qp: no memory for a scheduler");
			return NULL;
		}
		memset(s, 0, sizeof(*s));
		pthread_mutex_init(&s->lock, NULL);
	}
	int state;
	sl_lock(s, &state);
	s->dev = d;
	s->set = *set;
	s->threaded = false;
	if (!prepare(s)) {
		s->next = spare;
		spare = s;
		pthread_mutex_unlock(&s->lock);
		sl_leave(state);
		sl_fail(ENOMEM, "create_qp: no memory for a scheduler");
		return NULL;
	}
	s->outlets = o;
	sl_unlock(s, state);
	pthread_mutex_lock(&d->list);
	s->next = d->shards;
	d->shards = s;
	__atomic_fetch_add(&d->n_shards, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&d->list);
	if (set->progress_thread) {
		sl_lock(s, &state);
		s->threaded = true;
		sl_unlock(s, state);
		sl_thread_start(d);
	}
	char engine[48];
	sl_settings_engine_name(set, engine, sizeof(engine));
	sl_debug("level=DEBUG msg=pacing device=%s engine=\"%s\" segment=%lld", d->name, engine, (long long)set->segment);
	return s;
}

struct sl_outlet *sl_outlet_of(struct sl_cq *c, const struct sl_settings *set)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (sl_settings_equal(&c->outlet[i]->shard->set, set))
			return c->outlet[i];
	if (c->n == SL_CQ_OUTLETS) {
		sl_fail(ENOSPC, "create_qp: more than 8 sets of options share a CQ");
		return NULL;
	}
	struct sl_outlet *o = aligned_alloc(64, (sizeof(*o) + 63) & ~(size_t)63);
	if (!o) {
		sl_fail(ENOMEM, "create_qp: no memory for a CQ");
		return NULL;
	}
	memset(o, 0, sizeof(*o));
	o->cq = c;
	o->shard = shared_shard(c->dev, set);
	if (o->shard) {
		int state;
		sl_lock(o->shard, &state);
		o->next = o->shard->outlets;
		o->shard->outlets = o;
		sl_unlock(o->shard, state);
	} else if (!(o->shard = new_shard(c->dev, set, o))) {
		free(o);
		return NULL;
	}
	c->outlet[c->n] = o;
	__atomic_store_n(&c->n, c->n + 1, __ATOMIC_SEQ_CST); /* before armed is read: who arms meanwhile sees this outlet, or is seen here */
	int state;
	sl_lock(o->shard, &state);
	enum sl_arming armed = __atomic_load_n(&c->armed, __ATOMIC_SEQ_CST);
	if (o->armed < armed)
		o->armed = armed;
	bool asleep = __atomic_load_n(&c->sleeps, __ATOMIC_SEQ_CST) && !o->shard->threaded;
	if (asleep)
		__atomic_store_n(&o->shard->threaded, true, __ATOMIC_RELAXED);
	sl_unlock(o->shard, state);
	if (asleep)
		sl_thread_start(c->dev);
	return o;
}

/* Takes the CQ's last outlet from it, and from its shard. */
static void close_outlet(struct sl_cq *c)
{
	struct sl_outlet *o = c->outlet[c->n - 1];
	int state;
	SL_ATOMIC_SET(c->n, c->n - 1);
	sl_lock(o->shard, &state);
	struct sl_outlet **p = &o->shard->outlets;
	while (*p != o)
		p = &(*p)->next;
	*p = o->next;
	sl_unlock(o->shard, state);
	free(o->done.ring.at);
	free(o);
}

/* Copies n elements to room for more, the rest zero. */
static void *grown(void *old, size_t n, size_t room, size_t size)
{
	void *p = calloc(room, size);
	if (p && n)
		memcpy(p, old, n * size);
	return p;
}

static uint32_t pow2(uint64_t n)
{
	uint32_t p = 1;
	while (p < n)
		p *= 2;
	return p;
}

int sl_make_room(struct sl_outlet *o, const struct ibv_qp_cap *cap)
{
	struct sl_shard *s = o->shard;
	struct sluice_limiter *l = &s->limiter;
	if (s->live == s->room_qps) {
		uint32_t room = s->room_qps ? 2 * s->room_qps : 8, paced = sl_shared(s) ? 2 * room : room; /* each may be a group */
		struct sl_qp **qps = grown(s->qps, s->room_qps, room, sizeof(*qps));
		uint8_t *gens = grown(s->gens, s->room_qps, room, 1);
		struct sluice_limiter_flow *flows = grown(l->flows.at, (size_t)l->flows.len, paced, sizeof(*flows));
		struct sluice_limiter_links *links = grown(l->links.at, (size_t)l->links.len, paced, sizeof(*links));
		struct sluice_core_qp **cores = grown(s->core.flows.at, (size_t)s->core.flows.len, paced, sizeof(*cores));
		struct sluice_core_group **groups = sl_shared(s) ? grown(s->core.groups.at, (size_t)s->core.groups.len, paced, sizeof(*groups)) : NULL;
		if (!qps || !gens || !flows || !links || !cores || (sl_shared(s) && !groups)) {
			free(qps), free(gens), free(flows), free(links), free(cores), free(groups);
			return ENOMEM;
		}
		free(s->qps), free(s->gens), free(l->flows.at), free(l->links.at), free(s->core.flows.at), free(s->core.groups.at);
		s->qps = qps;
		s->gens = gens;
		l->flows = (struct sluice_limiter_flow_slice){flows, paced, paced};
		l->links = (struct sluice_limiter_links_slice){links, paced, paced};
		s->core.flows = (struct sluice_core_qp_pointer_slice){cores, paced, paced};
		if (groups)
			s->core.groups = (struct sluice_core_group_pointer_slice){groups, paced, paced};
		s->room_qps = room;
	}
	if (cap->max_send_sge > s->max_sge) {
		int64_t n = s->core.cfg.batch * (int64_t)cap->max_send_sge;
		struct sluice_verbs_sge *sges = calloc((size_t)n, sizeof(*sges));
		if (!sges)
			return ENOMEM;
		free(s->core.scratch.sges.at);
		s->core.scratch.sges = (struct sluice_verbs_sge_slice){sges, n, n};
		s->core.scratch.max_sge = s->max_sge = cap->max_send_sge;
	}
	uint32_t need = pow2((uint64_t)o->capacity + cap->max_send_wr);
	struct sluice_completions_queue *q = &o->done;
	if (need > q->ring.len) {
		struct sluice_completions_slot *ring = calloc(need, sizeof(*ring));
		if (!ring)
			return ENOMEM;
		uint32_t n = 0;
		for (uint32_t i = q->head; i != q->tail; i++)
			ring[n++] = q->ring.at[i & (uint32_t)(q->ring.len - 1)];
		free(q->ring.at);
		q->ring = (struct sluice_completions_slot_slice){ring, need, need};
		q->head = 0;
		q->tail = n;
	}
	return 0;
}

/* ---- hidden CQs */

static struct sl_hidden *with_room(struct sl_shard *s, const struct ibv_comp_channel *channel, uint32_t n, uint32_t *size)
{
	*size = 4096;
	for (struct sl_hidden *h = s->hidden; h; h = h->next) {
		if (h->channel != channel)
			continue;
		if (h->size - h->used > n) { /* and one for a kick */
			h->used += n;
			return h;
		}
		*size = *size > 2 * h->size ? *size : 2 * h->size; /* few, since each is polled */
	}
	*size = *size > n + 1 ? *size : n + 1;
	return NULL;
}

static int add_to_channel(struct sl_channel *c, struct sl_shard *s)
{
	int r = 0;
	pthread_mutex_lock(&c->list);
	uint32_t i = 0;
	while (i < c->n && c->shards[i] != s)
		i++;
	if (i == c->n) {
		struct sl_shard **shards = realloc(c->shards, (c->n + 1) * sizeof(*shards));
		if (shards) {
			c->shards = shards;
			shards[c->n++] = s;
		} else {
			r = ENOMEM;
		}
	}
	pthread_mutex_unlock(&c->list);
	return r;
}

struct sl_hidden *sl_reserve(struct sl_shard *s, struct sl_channel *c, struct ibv_comp_channel *channel, int n)
{
	struct sl_device *d = s->dev;
	uint32_t size;
	int state;
	sl_lock(s, &state);
	struct sl_hidden *h = with_room(s, channel, (uint32_t)n, &size);
	sl_unlock(s, state);
	if (h)
		return h;
	if (d->max_cqe > 0 && size > (uint32_t)d->max_cqe)
		size = (uint32_t)d->max_cqe;
	if (c && add_to_channel(c, s)) {
		sl_fail(ENOMEM, "create_qp: no memory");
		return NULL;
	}
	h = aligned_alloc(64, (sizeof(*h) + 63) & ~(size_t)63);
	if (!h) {
		sl_fail(ENOMEM, "create_qp: no memory");
		return NULL;
	}
	memset(h, 0, sizeof(*h));
	h->shard = s;
	h->channel = channel;
	h->size = size;
	h->used = (uint32_t)n;
	errno = 0;
	if (s->stamped) {
		struct ibv_cq_init_attr_ex a = {.cqe = size, .channel = channel,
			.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
		h->ex = d->calls->ibv.create_cq_ex(d->context, &a);
		h->cq = h->ex ? ibv_cq_ex_to_cq(h->ex) : NULL;
		h->sample.stamped = h->ex != NULL;
	}
	if (!h->cq)
		h->cq = d->calls->ibv.create_cq(d->context, (int)size, NULL, channel, 0);
	int r = h->cq ? 0 : errno ? errno : EIO;
	if (!r && (r = sl_set(SL_HIDDEN, h->cq, h)) == 0 && channel) {
		/* Someone may be asleep on the channel already. */
		h->armed = true;
		r = sl_code(d->calls->ibv.req_notify_cq(h->cq, 0));
	}
	if (r) {
		if (h->cq) {
			sl_set(SL_HIDDEN, h->cq, NULL);
			d->calls->ibv.destroy_cq(h->cq);
		}
		free(h);
		sl_fail(r, "create_cq %s: no CQ of %u entries for segments: %s", d->name, size, strerror(r));
		return NULL;
	}
	sl_lock(s, &state);
	h->next = s->hidden;
	s->hidden = h;
	sl_unlock(s, state);
	return h;
}

static int destroy_hidden(struct sl_device *d, struct sl_hidden *h)
{
	int r = 0;
	if (h->waker && (r = sl_code(d->calls->ibv.destroy_qp(h->waker))))
		return r;
	h->waker = NULL;
	if (h->waker_pd && (r = sl_code(ibv_dealloc_pd(h->waker_pd))))
		return r;
	h->waker_pd = NULL;
	sl_set(SL_HIDDEN, h->cq, NULL); /* its address may be another's soon */
	r = sl_code(d->calls->ibv.destroy_cq(h->cq));
	if (r)
		sl_set(SL_HIDDEN, h->cq, h);
	return r;
}

static int make_waker(struct sl_hidden *h)
{
	struct sl_device *d = h->shard->dev;
	errno = 0;
	if (!h->waker_pd && !(h->waker_pd = ibv_alloc_pd(d->context)))
		return errno ? errno : EIO;
	if (h->waker)
		return 0;
	struct ibv_qp_init_attr init = {.send_cq = h->cq, .recv_cq = h->cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct ibv_qp *qp = d->calls->ibv.create_qp(h->waker_pd, &init);
	if (!qp)
		return errno ? errno : EIO;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	int r = sl_code(d->calls->ibv.modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	if (!r) {
		a.qp_state = IBV_QPS_ERR;
		r = sl_code(d->calls->ibv.modify_qp(qp, &a, IBV_QP_STATE));
	}
	if (r) {
		d->calls->ibv.destroy_qp(qp);
		return r;
	}
	h->waker = qp;
	return 0;
}

/* Makes an event on the channel of a hidden CQ. It was never in RTS, so a driver may refuse
 * sends of the waker (mlx5 does): it receives. */
int sl_wake(struct sl_hidden *h)
{
	int state, r;
	pthread_mutex_lock(&sl_making);
	r = make_waker(h);
	if (!r) {
		struct ibv_recv_wr wr = {.wr_id = UINT64_MAX}, *bad;
		sl_lock(h->shard, &state);
		if (!h->kicked) {
			r = sl_code(h->shard->dev->calls->ibv.post_recv(h->waker, &wr, &bad));
			if (!r) {
				h->kicked = true;
				h->in_flight++;
			}
		}
		sl_unlock(h->shard, state);
	}
	pthread_mutex_unlock(&sl_making);
	return r;
}

/* ---- the end */

static void leave_channel(struct sl_channel *c, struct sl_shard *s)
{
	pthread_mutex_lock(&c->list);
	for (uint32_t i = 0; i < c->n; i++)
		if (c->shards[i] == s)
			c->shards[i--] = c->shards[--c->n];
	pthread_mutex_unlock(&c->list);
}

/* Destroys a shard's hidden CQs, those of a channel if that is given. Queue pairs use none
 * of them. */
static int destroy_hiddens(struct sl_shard *s, const struct ibv_comp_channel *channel)
{
	for (;;) {
		int state, r;
		sl_lock(s, &state);
		struct sl_hidden **p = &s->hidden;
		while (*p && channel && (*p)->channel != channel)
			p = &(*p)->next;
		struct sl_hidden *h = *p;
		if (h)
			*p = h->next;
		sl_unlock(s, state);
		if (!h)
			return 0;
		r = destroy_hidden(s->dev, h);
		if (r) {
			sl_lock(s, &state);
			h->next = s->hidden;
			s->hidden = h;
			sl_unlock(s, state);
			return sl_fail(r, "destroy_cq %s: the CQ of segments: %s", s->dev->name, strerror(r));
		}
		struct sl_channel *c = h->channel ? sl_channel_of(h->channel) : NULL;
		if (c && !channel)
			leave_channel(c, s);
		free(h);
	}
}

/* Gives a shard back, whose outlets and hidden CQs are gone. */
static void retire(struct sl_shard *s)
{
	struct sl_device *d = s->dev;
	pthread_mutex_lock(&d->list);
	for (struct sl_shard **p = &d->shards; *p; p = &(*p)->next)
		if (*p == s) {
			*p = s->next;
			break;
		}
	if (d->help == s)
		d->help = s->next;
	__atomic_fetch_sub(&d->n_shards, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&d->list);
	int state;
	sl_lock(s, &state);
	free(s->qps), free(s->gens), free(s->limiter.flows.at), free(s->limiter.links.at), free(s->core.flows.at), free(s->core.groups.at);
	s->qps = NULL;
	s->gens = NULL;
	s->n_qps = s->room_qps = 0;
	sl_unlock(s, state);
	s->next = spare;
	spare = s;
}

int sl_forget_cq(struct ibv_cq *cq, bool wait)
{
	struct sl_cq *c = sl_cq_of(cq);
	pthread_mutex_lock(&sl_making);
	if (c->users) {
		uint32_t users = c->users;
		pthread_mutex_unlock(&sl_making);
		return sl_fail(EBUSY, "destroy_cq %s: %u queue pairs use it: destroy them first", c->dev->name, users);
	}
	int r = 0;
	while (!r && c->n) {
		struct sl_shard *s = c->outlet[c->n - 1]->shard;
		bool last = !s->outlets->next; /* else its hidden CQs may be others', and go with their channels */
		if (last && (r = destroy_hiddens(s, NULL)))
			break;
		if (last && c->channel)
			leave_channel(c->channel, s);
		close_outlet(c);
		if (last)
			retire(s);
	}
	if (r) {
		pthread_mutex_unlock(&sl_making);
		return r;
	}
	if (c->channel) { /* its event goes with it */
		struct sl_channel *ch = c->channel;
		pthread_mutex_lock(&ch->lock);
		struct sl_cq *first = ch->first;
		ch->first = ch->last = NULL;
		while (first) {
			struct sl_cq *next = first->next_event;
			if (first == c) {
				c->pending = false;
			} else {
				first->next_event = NULL;
				if (ch->last)
					ch->last->next_event = first;
				else
					ch->first = first;
				ch->last = first;
			}
			first = next;
		}
		pthread_mutex_unlock(&ch->lock);
		ch->cqs--;
	}
	SL_ATOMIC_SET(c->gone, true);
	pthread_mutex_unlock(&sl_making);
	if (wait)
		sl_await_acknowledgements(c);
	sl_set(SL_CQ, cq, NULL);
	free(c);
	return 0;
}

int sl_forget_channel(struct ibv_comp_channel *channel)
{
	struct sl_channel *c = sl_channel_of(channel);
	int r = 0;
	pthread_mutex_lock(&sl_making);
	if (c->cqs) {
		uint32_t cqs = c->cqs;
		pthread_mutex_unlock(&sl_making);
		return sl_fail(EBUSY, "destroy_comp_channel %s: %u CQs use it: destroy them first", c->dev->name, cqs);
	}
	/* Of receive CQs' queue pairs, whose send CQ is still there. */
	while (!r && c->n) {
		struct sl_shard *s = c->shards[c->n - 1];
		r = destroy_hiddens(s, channel);
		if (!r)
			leave_channel(c, s);
	}
	if (!r)
		sl_set(SL_CHANNEL, channel, NULL);
	pthread_mutex_unlock(&sl_making);
	if (r)
		return r;
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->list);
	free(c->shards);
	free(c);
	return 0;
}

int sl_forget_context(struct ibv_context *context)
{
	pthread_mutex_lock(&sl_making);
	struct sl_device *d = sl_known_device(context);
	if (d) {
		sl_thread_stop(d);
		sl_device_free(d);
	}
	pthread_mutex_unlock(&sl_making);
	return 0;
}

/* In the child of a fork. Shards of the parent's stay as they are, for nobody. */
void sl_objects_forget(void) { spare = NULL; }
