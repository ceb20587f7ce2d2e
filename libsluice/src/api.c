/* The functions of sluice.h, as far as they are short. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A fork finds the tables whole, and the child starts without anything of the parent's: the
 * parent's objects are libibverbs' there, and what the child makes is paced anew. */
static void before_fork(void)
{
	pthread_mutex_lock(&sl_making);
	sl_table_before_fork();
}

static void in_parent(void)
{
	sl_table_after_fork(false);
	pthread_mutex_unlock(&sl_making);
}

static void in_child(void)
{
	sl_table_after_fork(true);
	sl_devices_forget();
	sl_objects_forget();
	sl_stats_forget();
	sl_publish_forget();
	pthread_mutex_init(&sl_making, NULL);
}

__attribute__((constructor)) static void start(void) { pthread_atfork(before_fork, in_parent, in_child); }

void sluice_options_init(struct sluice_options *o)
{
	memset(o, 0, sizeof(*o));
	o->size = sizeof(*o);
}

/* The settings of a program under the preload library, read once: 0, or an errno value with
 * words. */
static pthread_once_t environment_once = PTHREAD_ONCE_INIT;
static struct sl_environment environment;
static char environment_error[SL_ERROR_SIZE];

static void read_environment(void)
{
	if (sl_settings_environment(&environment))
		snprintf(environment_error, sizeof(environment_error), "%s", sl_error_text);
	sl_debugging = environment.debug;
}

static int from_environment(const struct sl_environment **out)
{
	pthread_once(&environment_once, read_environment);
	*out = &environment;
	return environment_error[0] ? sl_fail(EINVAL, "%s", environment_error) : 0;
}

static struct ibv_qp *create(struct ibv_context *context, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			     struct ibv_qp_init_attr_ex *ex, const struct sluice_options *options, bool preloaded)
{
	sl_error_text[0] = 0;
	if (attr->qp_type != IBV_QPT_RC) {
		sl_fail(EOPNOTSUPP, "create_qp: only RC queue pairs are paced, since only their acknowledgements give round trips: "
				    "make others with libibverbs");
		return NULL;
	}
	const char *wrong = NULL;
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
	struct sl_settings set;
	const struct sl_environment *e;
	bool metrics = false;
	if (preloaded) {
		if (from_environment(&e))
			return NULL;
		set = e->settings;
		metrics = e->metrics;
	} else if (sl_settings_options(options, &set) || sl_settings_metrics(&metrics)) {
		return NULL;
	}
	if (sl_fail_read())
		return NULL;
	if (metrics)
		sl_publish();
	int state = sl_enter();
	struct ibv_qp *qp = sl_create(context, pd, attr, ex, &set);
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

bool sluice_interpose_is_paced(struct ibv_qp *qp) { return sl_qp_of(qp) != NULL; }

int sluice_interpose_wanted(struct ibv_context *context, bool *stats)
{
	const struct sl_environment *e;
	*stats = false;
	if (from_environment(&e)) {
		fprintf(stderr, "sluice: %s\n", sl_error_text);
		return -EINVAL;
	}
	*stats = e->stats;
	return sl_settings_matches(e, context->device->name);
}

int sluice_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct sl_qp *q = sl_qp_of(qp);
	if (!q)
		return sl_calls_of(qp->context)->ibv.modify_qp(qp, attr, mask);
	int r = sl_modify(q, attr, mask);
	if (r)
		errno = r;
	return r;
}

int sluice_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	int r = sl_calls_of(qp->context)->ibv.query_qp(qp, attr, mask, init);
	struct sl_qp *q = sl_qp_of(qp);
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
	struct sl_qp *q = sl_qp_of(qp);
	if (!q)
		return sl_calls_of(qp->context)->ibv.destroy_qp(qp);
	int state = sl_enter();
	int r = sl_destroy(q);
	sl_leave(state);
	if (r)
		errno = r;
	return r;
}

int sluice_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sl_qp *q = sl_qp_of(qp);
	if (!q)
		return sl_calls_of(qp->context)->ibv.post_send(qp, wr, bad);
	return sl_post(q, wr, bad, false);
}

/* ---- completions */

static bool busy(struct sl_cq *c)
{
	uint32_t n = SL_ATOMIC_GET(c->n);
	for (uint32_t i = 0; i < n; i++)
		if (SL_ATOMIC_GET(c->outlet[i]->shard->busy) || SL_ATOMIC_GET(c->outlet[i]->ready))
			return true;
	return false;
}

/* What other CQs' queue pairs have to send is sent by whoever polls. */
static void help(struct sl_cq *c)
{
	if (__atomic_load_n(&c->dev->n_shards, __ATOMIC_RELAXED) > SL_ATOMIC_GET(c->n))
		sl_help(c->dev);
}

int sluice_interpose_poll_sends(struct ibv_cq *cq, int n, struct ibv_wc *wc, bool *paced)
{
	struct sl_cq *c = sl_cq_of(cq);
	*paced = c != NULL;
	if (!c || SL_ATOMIC_GET(c->gone))
		return 0;
	int r = sl_failing ? sl_fail_poll(cq) : 0;
	if (r)
		return -r;
	help(c);
	return busy(c) ? sl_poll_sends(c, n, wc) : 0;
}

int sluice_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct sl_cq *c = sl_cq_of(cq);
	if (!c)
		return sl_calls_of(cq->context)->ibv.poll_cq(cq, n, wc);
	int r = sl_failing && n > 0 ? sl_fail_poll(cq) : 0;
	if (r) {
		errno = r;
		return -r;
	}
	help(c);
	if (n <= 0 || !busy(c))
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
	int sends = sl_poll_sends(c, n - got, wc + got); /* with no room left too, for progress */
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

/* ---- the end of what a queue pair was made with */

int sluice_destroy_cq(struct ibv_cq *cq)
{
	const struct sluice_calls *calls = sl_calls_of(cq->context);
	if (sl_cq_of(cq)) {
		int state = sl_enter();
		int r = sl_forget_cq(cq, true);
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
	if (sl_channel_of(channel)) {
		int state = sl_enter();
		int r = sl_forget_channel(channel);
		sl_leave(state);
		if (r) {
			errno = r;
			return r;
		}
	}
	return calls->ibv.destroy_comp_channel(channel);
}

/* libibverbs closes a context whatever the program has left on it. */
int sluice_close_device(struct ibv_context *context)
{
	const struct sluice_calls *calls = sl_calls_of(context);
	int state = sl_enter();
	int r = 0;
	void *left;
	while (!r && (left = sl_any(SL_QP, context)))
		r = sluice_destroy_qp(left);
	while (!r && (left = sl_any(SL_CQ, context)))
		r = sl_forget_cq(left, false);
	while (!r && (left = sl_any(SL_CHANNEL, context)))
		r = sl_forget_channel(left);
	if (!r)
		r = sl_forget_context(context);
	sl_leave(state);
	if (r) {
		errno = r;
		return r;
	}
	return calls->close_device(context);
}

/* ---- the rest */

const char *const *sluice_schemes(void) { return sl_settings_schemes(); }

const char *sluice_version(void) { return SLUICE_VERSION; }
