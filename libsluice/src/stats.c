/* What queue pairs did. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Round trips are counted from 2^18 ps, 262 ns, to 2^42 ps, 4.4 s, in buckets a quarter of a
 * power of two wide. The first bucket counts what is shorter too, the last one what is longer. */
enum { LEAST = 18 };

void sl_rtt_add(struct sl_qp *q, sluice_time rtt)
{
	uint64_t rest = q->rtt_rest + (uint64_t)rtt;
	q->rtt_sum += rest / 1000;
	q->rtt_rest = (uint32_t)(rest % 1000);
	uint64_t v = rtt < 1ll << LEAST ? 1ull << LEAST : (uint64_t)rtt;
	int octave = 63 - __builtin_clzll(v);
	int i = (octave - LEAST) << 2 | (int)(v >> (octave - 2) & 3);
	q->rtt[i < SL_RTT_BUCKETS ? i : SL_RTT_BUCKETS - 1]++;
}

/* The end of the bucket in which the p-th part of the round trips ends, in picoseconds. */
static int64_t quantile(const uint64_t counts[SL_RTT_BUCKETS], double p)
{
	uint64_t n = 0;
	for (int i = 0; i < SL_RTT_BUCKETS; i++)
		n += counts[i];
	if (!n)
		return 0;
	uint64_t rank = (uint64_t)(p * (double)n + 0.5);
	rank = rank ? rank : 1;
	int i = 0;
	while (i < SL_RTT_BUCKETS - 1 && rank > counts[i])
		rank -= counts[i++];
	return sl_rtt_bound(i);
}

/* An engine's variables, as its Inspect in Go names them. */
static void variables(const struct sluice_engine *e, struct sl_values *v)
{
	const struct sluice_swift *swift = NULL;
#define SAY(n, x) (v->variables[v->n_variables].name = (n), v->variables[v->n_variables++].value = (double)(x))
	switch (e->kind) {
	case SLUICE_ENGINE_TIMELY: {
		const struct sluice_timely *t = &e->state.timely;
		SAY("gradient", t->s.rtt_diff / t->p.min_rtt);
		SAY("previous_rtt_us", (double)t->s.prev_rtt / 1e6);
		SAY("negative_gradients", t->s.falling);
		break;
	}
	case SLUICE_ENGINE_DCQCN: {
		const struct sluice_dcqcn_state *s = &e->state.dcqcn.s;
		SAY("rate_bps", s->rate);
		SAY("target_bps", s->target);
		SAY("alpha", s->alpha);
		SAY("timer_stage", s->timed);
		SAY("byte_stage", s->counted);
		break;
	}
	case SLUICE_ENGINE_FAST: {
		const struct sluice_fast *f = &e->state.fast;
		sluice_time base = f->p.base ? f->p.base : f->s.base.now, before = f->s.base.before;
		if (!f->p.base && before > 0 && before < base)
			base = before;
		SAY("rtt_us", (double)f->s.rtt / 1e6);
		SAY("base_rtt_us", (double)base / 1e6);
		SAY("queued_bps", f->s.rtt > 0 ? f->s.rate * (1 - (double)base / (double)f->s.rtt) : 0);
		break;
	}
	case SLUICE_ENGINE_RETCP:
		SAY("cwnd_bytes", e->state.retcp.w.cwnd);
		SAY("circuit", e->state.retcp.jumped);
		break;
	case SLUICE_ENGINE_THETA_POWERTCP:
		SAY("cwnd_bytes", e->state.theta_powertcp.state.bytes.cwnd);
		SAY("smoothed_power", e->state.theta_powertcp.state.smooth);
		break;
	case SLUICE_ENGINE_SWIFT:
		swift = &e->state.swift;
		break;
	case SLUICE_ENGINE_SWIFT_PLB:
		swift = &e->state.swift_plb.engine;
		break;
	default:
		break;
	}
	if (swift) {
		const struct sluice_swift_state *s = &swift->state;
		SAY("cwnd_packets", s->packets.cwnd);
		SAY("endpoint_cwnd_packets", s->endpoint.cwnd);
		SAY("held_us", (double)s->held / 1e6);
		SAY("delay_us", (double)s->delay / 1e6);
		SAY("target_us", sluice_swift_target_target_delay(&swift->p.target, s->packets.cwnd, s->hops) * 1e-6);
		SAY("rtt_us", (double)s->packets.rtt / 1e6);
		SAY("retransmits", s->packets.retransmits);
	}
	if (e->kind == SLUICE_ENGINE_SWIFT_PLB)
		SAY("path", e->state.swift_plb.paths.path);
#undef SAY
}

void sl_values(const struct sl_qp *q, struct sl_values *v)
{
	struct sluice_control c = sluice_core_qp_control(&q->core);
	struct sluice_core_qp_finished_result f = sluice_core_qp_finished(&q->core);
	const struct sluice_engine *e = sluice_core_qp_engine(&q->core);
	*v = (struct sl_values){
		.rate = (uint64_t)(q->cap_rate && c.rate > q->cap_rate ? q->cap_rate : c.rate),
		.window = c.window == SLUICE_UNLIMITED ? 0 : (uint64_t)c.window,
		.outstanding = (uint64_t)sluice_core_qp_outstanding(&q->core),
		.messages = f.all, .failed = f.failed, .segments = q->segments, .bytes = q->bytes,
		.cnps = q->core.loop.driver.cnps, .cuts = q->cuts,
	};
	if (!e)
		return;
	if (e->kind == SLUICE_ENGINE_TIMELY) {
		v->floor = (uint64_t)e->state.timely.p.min_rate;
		v->ceiling = (uint64_t)e->state.timely.p.max_rate;
	} else if (e->kind == SLUICE_ENGINE_DCQCN) {
		v->floor = (uint64_t)e->state.dcqcn.p.min_rate;
		v->ceiling = (uint64_t)e->state.dcqcn.p.max_rate;
	}
	variables(e, v);
}

/* What queue pairs did in all, by device and engine. */
struct totals {
	struct totals *next;
	char name[160];
	uint64_t qps, messages, failed, segments, bytes;
	uint64_t rtt[SL_RTT_BUCKETS];
};

static struct totals *gone; /* of queue pairs that are gone; guarded by the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct totals *totals_of(struct totals **all, const char *name)
{
	struct totals **p = all; /* in order of their names */
	while (*p && strcmp((*p)->name, name) < 0)
		p = &(*p)->next;
	if (*p && !strcmp((*p)->name, name))
		return *p;
	struct totals *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->next = *p;
	return *p = t;
}

static void add(struct totals **all, const struct sl_qp *q)
{
	char name[160], engine[48];
	sl_settings_engine_name(&q->shard->set, engine, sizeof(engine));
	snprintf(name, sizeof(name), "%s, engine %s", q->shard->dev->name, *engine ? engine : "none");
	struct totals *t = totals_of(all, name);
	if (!t)
		return;
	struct sl_values v;
	sl_values(q, &v);
	t->qps++;
	t->messages += v.messages;
	t->failed += v.failed;
	t->segments += v.segments;
	t->bytes += v.bytes;
	for (int i = 0; i < SL_RTT_BUCKETS; i++)
		t->rtt[i] += q->rtt[i];
}

void sl_keep(struct sl_qp *q)
{
	pthread_mutex_lock(&lock);
	add(&gone, q);
	pthread_mutex_unlock(&lock);
}

/* In the child of a fork. */
void sl_stats_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	gone = NULL;
}

void sluice_interpose_report(void)
{
	struct totals *all = NULL;
	pthread_mutex_lock(&sl_making);
	pthread_mutex_lock(&lock);
	for (struct totals *t = gone; t; t = t->next) {
		struct totals *copy = totals_of(&all, t->name);
		struct totals *next = copy ? copy->next : NULL;
		if (copy) {
			*copy = *t;
			copy->next = next;
		}
	}
	pthread_mutex_unlock(&lock);
	for (struct sl_device *d = sl_first_device(); d; d = d->next) {
		pthread_mutex_lock(&d->list);
		for (struct sl_shard *s = d->shards; s; s = s->next) {
			int state;
			sl_lock(s, &state);
			for (uint32_t i = 0; i < s->n_qps; i++)
				if (s->qps[i])
					add(&all, s->qps[i]);
			sl_unlock(s, state);
		}
		pthread_mutex_unlock(&d->list);
	}
	pthread_mutex_unlock(&sl_making);
	while (all) {
		struct totals *t = all;
		char rtt[160] = "", a[64], b[64];
		int64_t p50 = quantile(t->rtt, 0.5);
		if (p50)
			snprintf(rtt, sizeof(rtt), ", RTT p50 %s p99 %s", sl_print_unit(SL_TIME, p50, a, sizeof(a)),
				 sl_print_unit(SL_TIME, quantile(t->rtt, 0.99), b, sizeof(b)));
		fprintf(stderr, "sluice: %s: %llu queue pairs, %llu requests (%llu failed), %llu segments, %llu bytes%s\n", t->name,
			(unsigned long long)t->qps, (unsigned long long)t->messages, (unsigned long long)t->failed,
			(unsigned long long)t->segments, (unsigned long long)t->bytes, rtt);
		all = t->next;
		free(t);
	}
}

int sluice_query_stats(struct ibv_qp *qp, struct sluice_stats *stats)
{
	sl_error_text[0] = 0;
	if (!stats)
		return sl_fail(EINVAL, "query_stats: stats is NULL: give it a struct sluice_stats whose size is set");
	if (stats->size != sizeof(*stats))
		return sl_fail(EINVAL, "query_stats: size is not that of struct sluice_stats: set it, and build with this version's header");
	struct sl_qp *q = sl_qp_of(qp);
	if (!q)
		return sl_fail(EINVAL, "query_stats: the queue pair is not one that sluice made");
	memset(stats, 0, sizeof(*stats));
	stats->size = sizeof(*stats);
	int state;
	sl_lock(q->shard, &state);
	sl_settings_engine_name(&q->shard->set, stats->engine, sizeof(stats->engine));
	struct sl_values v;
	sl_values(q, &v);
	stats->rate = v.rate;
	stats->window = v.window;
	stats->outstanding = v.outstanding;
	stats->messages = v.messages;
	stats->failed = v.failed;
	stats->segments = v.segments;
	stats->segment_bytes = v.bytes;
	stats->cnps = v.cnps;
	uint64_t n = 0;
	for (int i = 0; i < SL_RTT_BUCKETS; i++)
		n += q->rtt[i];
	if (n) {
		stats->rtt_samples = n;
		stats->rtt_mean_ns = q->rtt_sum / n;
		stats->rtt_p50_ns = (uint64_t)quantile(q->rtt, 0.5) / 1000;
		stats->rtt_p90_ns = (uint64_t)quantile(q->rtt, 0.9) / 1000;
		stats->rtt_p99_ns = (uint64_t)quantile(q->rtt, 0.99) / 1000;
		stats->rtt_max_ns = (uint64_t)quantile(q->rtt, 1) / 1000;
	}
	sl_unlock(q->shard, state);
	return 0;
}
