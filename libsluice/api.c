//go:build ibverbs

#define _GNU_SOURCE
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "_cgo_export.h"

static bool forked(void) { return __atomic_load_n(&sl_forked, __ATOMIC_RELAXED); }

/* Something may have given the shim work. */
static void changed(struct sl_shim *s) { __atomic_fetch_add(&s->changes, 1, __ATOMIC_RELEASE); }

void sluice_options_init(struct sluice_options *o)
{
	memset(o, 0, sizeof(*o));
	o->size = sizeof(*o);
}

/* ---- what belongs to a queue pair */

/* Registers the CQ of a queue pair and its channel, if they are not there. */
static int enter_cq(struct ibv_cq *cq, uint32_t id, uint32_t channel_id, struct sl_shim *shim)
{
	struct sl_cq *c = sl_get(SL_CQ, cq);
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return ENOMEM;
		c->cq = cq;
		c->calls = sl_calls_of(cq->context);
		c->id = id;
		if (sl_set(SL_CQ, cq, c)) {
			free(c);
			return ENOMEM;
		}
	}
	uint32_t n = __atomic_load_n(&c->shims, __ATOMIC_ACQUIRE);
	uint32_t i = 0;
	while (i < n && c->shim[i] != shim)
		i++;
	if (i == n) {
		if (n == sizeof(c->shim) / sizeof(c->shim[0]))
			return ENOSPC;
		c->shim[n] = shim;
		c->idle_at[n] = __atomic_load_n(&shim->changes, __ATOMIC_RELAXED) - 1;
		__atomic_store_n(&c->shims, n + 1, __ATOMIC_RELEASE);
	}
	if (channel_id && !sl_get(SL_CHANNEL, cq->channel)) {
		struct sl_channel *ch = calloc(1, sizeof(*ch));
		if (!ch)
			return ENOMEM;
		ch->id = channel_id;
		if (sl_set(SL_CHANNEL, cq->channel, ch)) {
			free(ch);
			return ENOMEM;
		}
	}
	return 0;
}

static int enter_hidden(struct ibv_cq *hidden, struct sl_shim *shim)
{
	if (sl_get(SL_HIDDEN, hidden))
		return 0;
	struct sl_hidden *h = calloc(1, sizeof(*h));
	if (!h)
		return ENOMEM;
	h->shim = shim;
	if (sl_set(SL_HIDDEN, hidden, h)) {
		free(h);
		return ENOMEM;
	}
	return 0;
}

/* Registers what Go has attached for a queue pair, which is undone with the CQs and
 * channels, also if the queue pair came to nothing. Threads that make queue pairs
 * of one CQ come here one at a time. */
static int enter(const struct sl_create *c)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	int r = c->qp ? enter_hidden(c->qp->send_cq, c->shim) : 0;
	if (c->send_id) {
		int e = enter_cq(c->attr->send_cq, c->send_id, c->channel_id[0], c->shim);
		r = r ? r : e;
	}
	if (c->recv_id) {
		int e = enter_cq(c->attr->recv_cq, c->recv_id, c->channel_id[1], c->shim);
		r = r ? r : e;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static struct ibv_qp *create(struct ibv_context *context, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			     struct ibv_qp_init_attr_ex *ex, const struct sluice_options *options, bool environment)
{
	sl_error_text[0] = 0;
	const char *wrong = NULL;
	if (attr->qp_type != IBV_QPT_RC) {
		sl_fail(EOPNOTSUPP, "create_qp: only RC queue pairs are paced, since only their acknowledgements give round trips: "
				    "make others with libibverbs");
		return NULL;
	}
	if (!pd)
		wrong = "there is no protection domain";
	else if (!attr->send_cq || !attr->recv_cq)
		wrong = "send_cq and recv_cq must be given";
	else if (options && options->size != sizeof(*options))
		wrong = "options are not of this version: call sluice_options_init() first";
	if (wrong) {
		sl_fail(EINVAL, "create_qp: %s", wrong);
		return NULL;
	}
	if (forked()) {
		sl_fail(EPERM, "create_qp: this process is the child of a fork, in which the library does not work");
		return NULL;
	}

	struct sl_qp *q = calloc(1, sizeof(*q));
	if (!q) {
		errno = ENOMEM;
		return NULL;
	}
	struct sl_create c = {.options = options, .environment = environment, .pd = pd, .attr = attr};
	int state = sl_enter();
	int r = slShim(context, &c);
	if (!r) {
		sl_pending = (struct sl_pending){.context = context, .attr = attr, .attr_ex = ex};
		r = slCreateQP(&c);
		sl_pending = (struct sl_pending){0};
	}
	int entered = enter(&c);
	if (r) {
		sl_leave(state);
		free(q);
		errno = r;
		return NULL;
	}
	struct ibv_qp *qp = c.qp;
	q->qp = qp;
	q->calls = sl_calls_of(context);
	q->shim = c.shim;
	q->send_cq = attr->send_cq;
	q->cap = c.cap;
	q->sq_sig_all = attr->sq_sig_all;
	q->id = c.qp_id;
	r = entered;
	if (!r && ex && ex->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		struct ibv_qp_ex *qx = ibv_qp_to_qp_ex(qp);
		q->builder = qx ? sl_builder_new(q, qx) : NULL;
		if (!q->builder)
			r = ENOMEM;
	}
	if (!r)
		r = sl_set(SL_QP, qp, q);
	if (r) {
		slDestroyQP(q->id);
		if (q->builder)
			sl_builder_free(q->builder);
		free(q);
		sl_leave(state);
		sl_fail(r, "create_qp: %s", r == ENOSPC ? "more than 8 sets of options share a CQ" : strerror(r));
		return NULL;
	}
	/* qp->send_cq stays: drivers may use it whenever they like. */
	attr->cap = q->cap;
	sl_leave(state);
	return qp;
}

struct ibv_qp *sluice_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, const struct sluice_options *options)
{
	return create(pd ? pd->context : NULL, pd, attr, NULL, options, false);
}

struct ibv_qp *sluice_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				   const struct sluice_options *options)
{
	return create(context, attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL,
		      (struct ibv_qp_init_attr *)attr, attr, options, false);
}

struct ibv_qp *sluice_interpose_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return create(pd->context, pd, attr, NULL, NULL, true);
}

struct ibv_qp *sluice_interpose_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	return create(context, attr->pd, (struct ibv_qp_init_attr *)attr, attr, NULL, true);
}

bool sluice_interpose_is_paced(struct ibv_qp *qp) { return sl_get(SL_QP, qp) != NULL; }

int sluice_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct sl_qp *q = sl_get(SL_QP, qp);
	if (!q || forked())
		return sl_calls_of(qp->context)->ibv.modify_qp(qp, attr, mask);
	int state = sl_enter();
	sl_pending = (struct sl_pending){.qp = qp, .modify = attr, .mask = mask};
	int r = slModifyQP(q->id, attr, mask);
	sl_pending = (struct sl_pending){0};
	if (q->builder)
		sl_builder_hook(q->builder);
	changed(q->shim);
	sl_leave(state);
	if (r)
		errno = r;
	return r;
}

int sluice_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	int r = sl_calls_of(qp->context)->ibv.query_qp(qp, attr, mask, init);
	struct sl_qp *q = sl_get(SL_QP, qp);
	if (r || !q)
		return r;
	struct ibv_qp_cap *caps[] = {&attr->cap, &init->cap};
	for (int i = 0; i < 2; i++) {
		caps[i]->max_send_wr = q->cap.max_send_wr;
		caps[i]->max_send_sge = q->cap.max_send_sge;
		caps[i]->max_inline_data = q->cap.max_inline_data;
	}
	init->send_cq = q->send_cq;
	init->sq_sig_all = q->sq_sig_all;
	return 0;
}

int sluice_destroy_qp(struct ibv_qp *qp)
{
	struct sl_qp *q = sl_get(SL_QP, qp);
	if (!q || forked())
		return sl_calls_of(qp->context)->ibv.destroy_qp(qp);
	int state = sl_enter();
	/* Out of the table first: the address may be another's as soon as it is free. */
	sl_set(SL_QP, qp, NULL);
	int r = slDestroyQP(q->id);
	changed(q->shim);
	if (r) {
		sl_set(SL_QP, qp, q);
		errno = r;
	} else {
		if (q->builder)
			sl_builder_free(q->builder);
		free(q);
	}
	sl_leave(state);
	return r;
}

int sluice_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sl_qp *q = sl_get(SL_QP, qp);
	if (!q || forked())
		return sl_calls_of(qp->context)->ibv.post_send(qp, wr, bad);
	int state = sl_enter();
	int r = slPostSend(q->id, wr, bad);
	changed(q->shim);
	sl_leave(state);
	return r;
}

int sl_post_whole(struct sl_qp *q, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	if (forked())
		return q->calls->ibv.post_send(q->qp, wr, &bad);
	int state = sl_enter();
	int r = slPostWhole(q->id, wr);
	changed(q->shim);
	sl_leave(state);
	return r;
}

/* ---- completions */

/* Go knows it no more: it is being destroyed, and waits for acknowledgements. */
static bool forgotten(struct sl_cq *c) { return !__atomic_load_n(&c->shims, __ATOMIC_ACQUIRE); }

static bool busy(struct sl_cq *c)
{
	uint32_t n = __atomic_load_n(&c->shims, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++) {
		if (__atomic_load_n(&c->shim[i]->changes, __ATOMIC_ACQUIRE) !=
		    __atomic_load_n(&c->idle_at[i], __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

static int poll_sends(struct sl_cq *c, int n, struct ibv_wc *wc)
{
	int state = sl_enter();
	int r = slPollSends(c, n, wc);
	sl_leave(state);
	return r;
}

int sluice_interpose_poll_sends(struct ibv_cq *cq, int n, struct ibv_wc *wc, bool *paced)
{
	struct sl_cq *c = sl_get(SL_CQ, cq);
	*paced = c != NULL;
	if (!c || forked() || !busy(c))
		return 0;
	return poll_sends(c, n, wc);
}

int sluice_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct sl_cq *c = sl_get(SL_CQ, cq);
	if (!c)
		return sl_calls_of(cq->context)->ibv.poll_cq(cq, n, wc);
	if (n <= 0 || forked() || !busy(c))
		return c->calls->ibv.poll_cq(cq, n, wc);
	/* When one kind fills the array, the other is first the next time. */
	int got = 0;
	bool recv_first = __atomic_load_n(&c->recv_first, __ATOMIC_RELAXED);
	if (recv_first) {
		__atomic_store_n(&c->recv_first, false, __ATOMIC_RELAXED);
		got = c->calls->ibv.poll_cq(cq, n, wc);
		if (got < 0)
			return got;
	}
	int sends = poll_sends(c, n - got, wc + got); /* with no room left too, for progress */
	if (sends < 0)
		return got ? got : sends;
	got += sends;
	if (recv_first)
		return got;
	if (got == n) {
		__atomic_store_n(&c->recv_first, true, __ATOMIC_RELAXED);
		return got;
	}
	int receives = c->calls->ibv.poll_cq(cq, n - got, wc + got);
	if (receives < 0)
		return got ? got : receives;
	return got + receives;
}

int sluice_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct sl_cq *c = sl_get(SL_CQ, cq);
	if (!c || forked() || forgotten(c))
		return sl_calls_of(cq->context)->ibv.req_notify_cq(cq, solicited_only);
	int state = sl_enter();
	int r = slReqNotify(c->id, solicited_only);
	sl_leave(state);
	return r;
}

/* ---- events */

/* Sleeps until the descriptor is readable or so many nanoseconds have passed. A
 * place where a thread may be cancelled, as ibv_get_cq_event is. */
static void sleep_on(int fd, int64_t ns)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	ppoll(&p, 1, &t, NULL);
}

bool sluice_interpose_took_event(struct ibv_cq *cq)
{
	struct sl_hidden *hidden = sl_get(SL_HIDDEN, cq);
	int state = sl_enter();
	if (hidden) {
		sl_calls_of(cq->context)->ibv.ack_cq_events(cq, 1);
		slFired(hidden->shim->id, cq);
	} else {
		struct sl_cq *mine = sl_get(SL_CQ, cq);
		if (mine && !forgotten(mine))
			slReceived(mine->id);
	}
	sl_leave(state);
	return hidden != NULL;
}

int sluice_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	const struct sluice_calls *calls = sl_calls_of(channel->context);
	for (;;) {
		struct sl_channel *c = forked() ? NULL : sl_get(SL_CHANNEL, channel);
		if (c) {
			void *got = NULL;
			int64_t wake = -1;
			int settled = 1;
			int state = sl_enter();
			int r = slLook(c->id, &got, &wake, &settled);
			sl_leave(state);
			if (r) {
				errno = r;
				return -1;
			}
			if (got) {
				struct sl_cq *mine = sl_get(SL_CQ, got);
				if (!mine)
					continue; /* it is being destroyed */
				__atomic_fetch_add(&mine->synthetic, 1, __ATOMIC_SEQ_CST);
				*cq = mine->cq;
				*cq_context = mine->cq->cq_context;
				return 0;
			}
			if (!settled) {
				sched_yield();
				continue;
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
		if (!forked() && sluice_interpose_took_event(from))
			continue;
		*cq = from;
		*cq_context = context;
		return 0;
	}
}

/* Signalled when a CQ's synthetic is 0 again. */
static pthread_cond_t acked = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t acked_lock = PTHREAD_MUTEX_INITIALIZER;

void sluice_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	struct sl_cq *c = sl_get(SL_CQ, cq);
	if (c) {
		uint32_t have = __atomic_load_n(&c->synthetic, __ATOMIC_SEQ_CST);
		while (n && have) {
			uint32_t take = have < n ? have : n;
			if (__atomic_compare_exchange_n(&c->synthetic, &have, have - take, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
				n -= take;
				if (have == take) { /* somebody may be destroying it */
					pthread_mutex_lock(&acked_lock);
					pthread_cond_broadcast(&acked);
					pthread_mutex_unlock(&acked_lock);
				}
				break;
			}
		}
	}
	if (n)
		sl_calls_of(cq->context)->ibv.ack_cq_events(cq, n);
}

/* ---- the end of what a queue pair was made with */

/* With wait, as ibv_destroy_cq does, until all events are acknowledged. */
static int forget_cq(struct ibv_cq *cq, bool wait)
{
	struct sl_cq *c = sl_get(SL_CQ, cq);
	int r = slForgetCQ(c->id);
	if (r)
		return r;
	__atomic_store_n(&c->shims, 0, __ATOMIC_RELEASE);
	if (wait) {
		pthread_mutex_lock(&acked_lock);
		while (__atomic_load_n(&c->synthetic, __ATOMIC_SEQ_CST))
			pthread_cond_wait(&acked, &acked_lock);
		pthread_mutex_unlock(&acked_lock);
	}
	sl_set(SL_CQ, cq, NULL);
	free(c);
	return 0;
}

static int forget_channel(struct ibv_comp_channel *channel)
{
	struct sl_channel *c = sl_get(SL_CHANNEL, channel);
	int r = slForgetChannel(c->id);
	if (!r) {
		sl_set(SL_CHANNEL, channel, NULL);
		free(c);
	}
	return r;
}

int sluice_destroy_cq(struct ibv_cq *cq)
{
	const struct sluice_calls *calls = sl_calls_of(cq->context);
	if (sl_get(SL_CQ, cq) && !forked()) {
		int state = sl_enter();
		int r = forget_cq(cq, true);
		sl_leave(state);
		if (r) {
			errno = r;
			return r;
		}
	}
	return calls->ibv.destroy_cq(cq);
}

int sluice_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	const struct sluice_calls *calls = sl_calls_of(channel->context);
	if (sl_get(SL_CHANNEL, channel) && !forked()) {
		int state = sl_enter();
		int r = forget_channel(channel);
		sl_leave(state);
		if (r) {
			errno = r;
			return r;
		}
	}
	return calls->ibv.destroy_comp_channel(channel);
}

void sl_hidden_gone(struct ibv_cq *cq)
{
	struct sl_hidden *h = sl_get(SL_HIDDEN, cq);
	sl_set(SL_HIDDEN, cq, NULL);
	free(h);
}

/* libibverbs closes a context whatever the program has left on it. */
int sluice_close_device(struct ibv_context *context)
{
	const struct sluice_calls *calls = sl_calls_of(context);
	if (!forked()) {
		int state = sl_enter();
		int r = 0;
		void *left;
		while (!r && (left = sl_any(SL_QP, context)))
			r = sluice_destroy_qp(left);
		while (!r && (left = sl_any(SL_CQ, context)))
			r = forget_cq(left, false);
		while (!r && (left = sl_any(SL_CHANNEL, context)))
			r = forget_channel(left);
		if (!r)
			r = slForgetContext(context);
		sl_leave(state);
		if (r) {
			errno = r;
			return r;
		}
	}
	return calls->close_device(context);
}

/* ---- the rest */

int sluice_query_stats(struct ibv_qp *qp, struct sluice_stats *stats)
{
	sl_error_text[0] = 0;
	if (!stats)
		return sl_fail(EINVAL, "query_stats: stats is NULL: give it a struct sluice_stats whose size is set");
	if (stats->size != sizeof(*stats))
		return sl_fail(EINVAL, "query_stats: size is not that of struct sluice_stats: set it, and build with this version's header");
	struct sl_qp *q = sl_get(SL_QP, qp);
	if (!q || forked())
		return sl_fail(EINVAL, "query_stats: the queue pair is not one that sluice made");
	memset(stats, 0, sizeof(*stats));
	stats->size = sizeof(*stats);
	int state = sl_enter();
	int r = slStats(q->id, stats);
	sl_leave(state);
	return r;
}

const char *const *sluice_schemes(void)
{
	static const char *const none[] = {NULL};
	static const char *const *schemes;
	if (forked())
		return schemes ? schemes : none;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	if (!schemes)
		schemes = (const char *const *)slSchemes();
	pthread_mutex_unlock(&lock);
	return schemes;
}

const char *sluice_version(void) { return SLUICE_VERSION; }

int sluice_interpose_wanted(struct ibv_context *context, bool *stats)
{
	int s = 0;
	int state = sl_enter();
	int r = slWanted(context, &s);
	sl_leave(state);
	*stats = s != 0;
	return r;
}

void sluice_interpose_report(void)
{
	if (!forked())
		slReport();
}
