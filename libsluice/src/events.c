/* Completion events. A CQ has them of two kinds: the device's, for receives, and ours, for
 * requests whose segments complete on hidden CQs. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <time.h>

/* Bounds a sleep on a channel while work may arrive without an event on that channel. */
enum { LONGEST_NAP = 200000 }; /* nanoseconds */

/* ---- the channel's list */

/* A second event before the first was fetched adds nothing. */
static void add(struct sl_channel *ch, struct sl_cq *c)
{
	pthread_mutex_lock(&ch->lock);
	if (!c->pending) {
		c->pending = true;
		c->next_event = NULL;
		if (ch->last)
			ch->last->next_event = c;
		else
			ch->first = c;
		ch->last = c;
	}
	pthread_mutex_unlock(&ch->lock);
}

/* The first CQ with an event; *more says whether there are others. */
static struct sl_cq *take(struct sl_channel *ch, bool *more)
{
	pthread_mutex_lock(&ch->lock);
	struct sl_cq *c = ch->first;
	if (c) {
		ch->first = c->next_event;
		if (!ch->first)
			ch->last = NULL;
		c->pending = false;
	}
	*more = ch->first != NULL;
	pthread_mutex_unlock(&ch->lock);
	return c;
}

void sl_fire(struct sl_outlet *o)
{
	o->armed = SL_DISARMED;
	__atomic_store_n(&o->cq->armed, SL_DISARMED, __ATOMIC_SEQ_CST);
	if (o->cq->channel)
		add(o->cq->channel, o->cq);
}

/* Arms a CQ, or takes that back. Who is armed for any completion, and arms for solicited ones, stays
 * armed for any (IBA 11.4.2.2). */
static void arm(struct sl_cq *c, enum sl_arming to)
{
	/* First here, and then n is read: see sl_outlet_of. */
	if (to == SL_DISARMED || __atomic_load_n(&c->armed, __ATOMIC_SEQ_CST) < to)
		__atomic_store_n(&c->armed, to, __ATOMIC_SEQ_CST);
	uint32_t n = __atomic_load_n(&c->n, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < n; i++) {
		int state;
		struct sl_outlet *o = c->outlet[i];
		sl_lock(o->shard, &state);
		if (to == SL_DISARMED || o->armed < to)
			o->armed = to;
		if (__atomic_load_n(&c->armed, __ATOMIC_SEQ_CST) < o->armed) /* an event came meanwhile, before this */
			__atomic_store_n(&c->armed, o->armed, __ATOMIC_SEQ_CST);
		sl_unlock(o->shard, state);
	}
}

/* A CQ that the program arms before it has a queue pair is known from then on. NULL where it can't
 * be: it is then the device's alone. */
static struct sl_cq *known(struct ibv_cq *cq)
{
	struct sl_cq *c = sl_cq_of(cq);
	if (c || !cq->channel)
		return c;
	int state = sl_enter();
	pthread_mutex_lock(&sl_making);
	struct sl_device *d = sl_device_of(cq->context);
	c = d ? sl_attach_cq(d, cq) : NULL;
	pthread_mutex_unlock(&sl_making);
	sl_leave(state);
	return c;
}

int sluice_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct sl_cq *c = known(cq);
	if (!c || SL_ATOMIC_GET(c->gone))
		return sl_calls_of(cq->context)->ibv.req_notify_cq(cq, solicited_only);
	if (c->channel)
		__atomic_store_n(&c->sleeps, true, __ATOMIC_SEQ_CST);
	/* First here: an event of the device's that comes at once is for the program. */
	arm(c, solicited_only ? SL_ARMED_SOLICITED : SL_ARMED_ANY);
	int r = c->calls->ibv.req_notify_cq(cq, solicited_only);
	if (r) {
		arm(c, SL_DISARMED);
		return r;
	}
	/* Who arms a CQ with a channel may sleep on the channel's descriptor, where nobody calls
	 * when a segment is due. */
	bool asleep = false;
	for (uint32_t i = 0; c->channel && i < c->n; i++) {
		struct sl_shard *s = c->outlet[i]->shard;
		if (__atomic_load_n(&s->threaded, __ATOMIC_RELAXED))
			continue;
		int state;
		sl_lock(s, &state);
		__atomic_store_n(&s->threaded, true, __ATOMIC_RELAXED);
		sl_unlock(s, state);
		asleep = true;
	}
	if (asleep)
		sl_thread_start(c->dev);
	return 0;
}

/* ---- waiting */

/* Finds the CQ of a channel that has an event, NULL if none has. *wake is then in how many
 * nanoseconds to look again, -1 for never. 0, or an errno value. */
static int look(struct sl_channel *ch, struct sl_cq **out, int64_t *wake)
{
	int r = 0;
	bool more = false;
	struct sl_hidden *reminder = NULL;
	*out = NULL;
	*wake = -1;
	int cancel = sl_enter();
	pthread_mutex_lock(&ch->list);
	for (uint32_t i = 0; i < ch->n && !r; i++) {
		struct sl_shard *s = ch->shards[i];
		int state;
		sl_lock(s, &state);
		/* Arm, then look: what completes after the look makes an event. */
		for (struct sl_hidden *h = s->hidden; h && !r; h = h->next) {
			if (h->channel != ch->channel)
				continue;
			reminder = h;
			if (!h->armed) {
				r = sl_code(s->dev->calls->ibv.req_notify_cq(h->cq, 0));
				h->armed = !r;
			}
		}
		r = r ? r : sl_turn(s);
		struct sl_now now;
		sl_look(s, &now);
		sluice_time due = sl_deadline(s);
		/* In a group what others have with the device counts, and who destroys a queue pair
		 * takes it back without an event. */
		bool elsewhere = sluice_core_gaps_end(&s->core) > now.t;
		for (struct sl_hidden *h = s->hidden; h; h = h->next)
			elsewhere |= (sl_shared(s) || h->channel != ch->channel) && h->in_flight > 0;
		int64_t ns = due == SLUICE_NEVER ? -1 : due <= now.t ? 0 : (due - now.t + 999) / 1000;
		if (elsewhere && (ns < 0 || ns > LONGEST_NAP))
			ns = LONGEST_NAP;
		if (ns >= 0 && (*wake < 0 || ns < *wake))
			*wake = ns;
		sl_unlock(s, state);
	}
	if (!r)
		*out = take(ch, &more);
	pthread_mutex_unlock(&ch->list);
	/* One event of the device may have caused several, and may be consumed: for programs that
	 * sleep on the descriptor and fetch one event each time it is readable. */
	if (more && reminder && (r = sl_wake(reminder))) {
		add(ch, *out);
		*out = NULL;
	}
	if (r)
		sl_fail(r, "get_cq_event %s: %s", ch->dev->name, strerror(r));
	sl_leave(cancel);
	return r;
}

/* Sleeps until the descriptor is readable or ns nanoseconds have passed. A thread may be
 * cancelled here, as in ibv_get_cq_event. */
static void sleep_on(int fd, int64_t ns)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	ppoll(&p, 1, &t, NULL);
}

bool sluice_interpose_took_event(struct ibv_cq *cq)
{
	struct sl_hidden *h = sl_get(SL_HIDDEN, cq);
	int state;
	if (h) {
		sl_calls_of(cq->context)->ibv.ack_cq_events(cq, 1);
		sl_lock(h->shard, &state);
		h->armed = false;
		sl_unlock(h->shard, state);
		return true;
	}
	struct sl_cq *c = sl_cq_of(cq);
	if (c && !SL_ATOMIC_GET(c->gone))
		arm(c, SL_DISARMED); /* it is the event that the program armed it for */
	return false;
}

int sluice_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	const struct sluice_calls *calls = sl_calls_of(channel->context);
	for (;;) {
		struct sl_channel *c = sl_channel_of(channel);
		if (c) {
			struct sl_cq *got;
			int64_t wake;
			int r = look(c, &got, &wake);
			if (r) {
				errno = r;
				return -1;
			}
			if (got) {
				__atomic_fetch_add(&got->synthetic, 1, __ATOMIC_SEQ_CST);
				*cq = got->cq;
				*cq_context = got->cq->cq_context;
				return 0;
			}
			/* Where there is nothing to look for, the wait is libibverbs' own: a
			 * signal ends it, or not, as its handler was installed. */
			int flags = wake < 0 ? O_NONBLOCK : fcntl(channel->fd, F_GETFL);
			if (flags >= 0 && !(flags & O_NONBLOCK)) {
				struct pollfd p = {.fd = channel->fd, .events = POLLIN};
				sleep_on(channel->fd, wake);
				if (poll(&p, 1, 0) <= 0)
					continue;
			}
		}
		struct ibv_cq *from;
		void *context;
		int r = calls->ibv.get_cq_event(channel, &from, &context);
		if (r)
			return r;
		if (sluice_interpose_took_event(from))
			continue;
		*cq = from;
		*cq_context = context;
		return 0;
	}
}

/* ---- acknowledgements */

/* Signalled when a CQ's synthetic is 0 again. */
static pthread_cond_t acked = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t acked_lock = PTHREAD_MUTEX_INITIALIZER;

void sluice_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	struct sl_cq *c = sl_cq_of(cq);
	if (c) {
		uint32_t have = __atomic_load_n(&c->synthetic, __ATOMIC_SEQ_CST);
		while (n && have) {
			uint32_t some = have < n ? have : n;
			if (!__atomic_compare_exchange_n(&c->synthetic, &have, have - some, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
				continue;
			n -= some;
			if (have == some) { /* somebody may be destroying it */
				pthread_mutex_lock(&acked_lock);
				pthread_cond_broadcast(&acked);
				pthread_mutex_unlock(&acked_lock);
			}
			break;
		}
	}
	if (n)
		sl_calls_of(cq->context)->ibv.ack_cq_events(cq, n);
}

void sl_await_acknowledgements(struct sl_cq *c)
{
	pthread_mutex_lock(&acked_lock);
	while (__atomic_load_n(&c->synthetic, __ATOMIC_SEQ_CST))
		pthread_cond_wait(&acked, &acked_lock);
	pthread_mutex_unlock(&acked_lock);
}
