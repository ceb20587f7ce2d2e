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

int64_t sl_rtt_bound(int i) { return (int64_t)(4 + (i & 3) + 1) << (LEAST - 2 + (i >> 2)); }

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
	struct sluice_core_qp_finished_result f = sluice_core_qp_finished(&q->core);
	t->qps++;
	t->messages += f.all;
	t->failed += f.failed;
	t->segments += q->segments;
	t->bytes += q->bytes;
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
	struct sluice_control c = sluice_core_qp_control(&q->core);
	struct sluice_core_qp_finished_result f = sluice_core_qp_finished(&q->core);
	stats->rate = (uint64_t)(q->cap_rate && c.rate > q->cap_rate ? q->cap_rate : c.rate);
	stats->window = c.window == SLUICE_UNLIMITED ? 0 : (uint64_t)c.window;
	stats->outstanding = (uint64_t)sluice_core_qp_outstanding(&q->core);
	stats->messages = f.all;
	stats->failed = f.failed;
	stats->segments = q->segments;
	stats->segment_bytes = q->bytes;
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
