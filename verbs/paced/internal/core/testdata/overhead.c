/*
 * The cost that the core adds to a segment over a provider that completes each request as it is
 * posted, and costs next to nothing: BenchmarkOverhead of package paced in C, without
 * locks. Prints the median over batches of some hundred segments, in nanoseconds.
 *
 *	overhead QUEUE_PAIRS bypass|steered
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sluice_core.h"

enum { BATCH = 16, WR = 64, RING = 1 << 14, ROUND = 200, ROUNDS = 2001, SEGMENT = 4096, MOST_UNREAD = 8 };

struct pair {
	struct sluice_core_qp qp;
	struct sluice_engine engine;
	sluice_rate flip;
	struct sluice_completions_request messages[WR];
	struct sluice_core_request requests[WR];
	struct sluice_verbs_sge sgl[WR];
	struct sluice_completions_posted posted[WR];
};

static struct sluice_core core;
static struct sluice_limiter limiter;
static struct sluice_completions_queue queue;
static struct sluice_completions_slot entries[1 << 16];
static struct sluice_core_sample sample;
static struct pair **pairs;
static struct sluice_verbs_wc ring[RING]; /* of the provider */
static uint32_t head, tail, next, count;
static sluice_time now;
static int steered, unread;

static int64_t nanoseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void release(void)
{
	int64_t n;
	do {
		n = sluice_core_due(&core, now);
		struct sluice_core_batch b;
		for (struct sluice_core_next_result r = sluice_core_next(&core, 0, &b); r.ok; r = sluice_core_next(&core, r.next, &b)) {
			for (int64_t i = 0; i < b.wrs.len; i++)
				ring[tail++ % RING] = (struct sluice_verbs_wc){.wrid = b.wrs.at[i].wrid};
			sluice_core_posted(&core, now, &b, b.wrs.len, (struct sluice_core_refusal){0});
		}
	} while (n == BATCH);
}

static void post(struct pair *p, int n)
{
	struct sluice_verbs_sge sge = {.addr = 4096, .length = SEGMENT, .l_key = 1};
	struct sluice_verbs_send_wr wr = {.wrid = p->qp.wrid >> 32, .flags = 2, .sgl = {&sge, 1, 1}};
	/* The readings of the clock that libsluice makes. */
	bool looks = !sluice_core_qp_filed(&p->qp) || unread == MOST_UNREAD;
	unread = looks ? 0 : unread + 1;
	if (looks) {
		nanoseconds();
		if (sluice_core_filed(&core) > 0)
			release();
	}
	for (int i = 0; i < n; i++)
		if (sluice_core_qp_check(&p->qp, &wr) || !sluice_core_qp_accept(&p->qp, &wr))
			abort();
	if (!sluice_core_qp_filed(&p->qp)) {
		sluice_core_qp_offer(&p->qp, now);
		release();
	}
}

static int poll(struct sluice_verbs_wc *wc)
{
	nanoseconds();
	unread = 0;
	release();
	for (; head != tail; head++) {
		const struct sluice_verbs_wc *c = &ring[head % RING];
		struct pair *p = pairs[c->wrid >> 32];
		if (!sluice_core_qp_complete(&p->qp, c, &sample.segment).ok)
			abort();
		if (steered) {
			/* As unsteady does: another rate each time, which costs most. */
			p->flip ^= 1;
			p->engine.state.timely.p.max_rate = (double)(80 * SLUICE_GBPS / count - p->flip);
		}
		sluice_core_measure(&core, now, &p->qp, c, &sample);
		while (sluice_completions_queue_push(&queue, &p->qp.table))
			;
		sluice_core_qp_file(&p->qp, now);
	}
	nanoseconds();
	release();
	return (int)sluice_completions_queue_pop(&queue, (struct sluice_verbs_wc_slice){wc, BATCH, BATCH});
}

static int turn(void)
{
	static struct sluice_verbs_wc wc[BATCH];
	static int due;
	if (steered && count > 1) {
		for (int i = 0; i < due; i++)
			post(pairs[wc[i].wrid], 1);
	} else if (steered) {
		if (due > 0)
			post(pairs[0], due);
	} else {
		post(pairs[next], BATCH);
		next = (next + 1) % count;
	}
	now += BATCH * sluice_rate_serialize(80 * SLUICE_GBPS, SEGMENT);
	due = poll(wc);
	return due;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	if (argc != 3 || (count = (uint32_t)atoi(argv[1])) == 0)
		return 2;
	steered = strcmp(argv[2], "bypass") != 0;
	struct sluice_limiter_flow *flows = calloc(count, sizeof *flows);
	struct sluice_limiter_links *links = calloc(count, sizeof *links);
	struct sluice_core_qp **by_flow = calloc(count, sizeof *by_flow);
	struct sluice_core_claim *claims = calloc(BATCH, sizeof *claims);
	struct sluice_verbs_send_wr *wrs = calloc(BATCH, sizeof *wrs);
	struct sluice_verbs_sge *sges = calloc(BATCH, sizeof *sges);
	pairs = calloc(count, sizeof *pairs);
	struct sluice_limiter_config pacing = sluice_limiter_default_config();
	if (!flows || !links || !by_flow || !claims || !wrs || !sges || !pairs ||
	    sluice_limiter_start(&limiter, pacing, (struct sluice_limiter_flow_slice){flows, count, count}, (struct sluice_limiter_links_slice){links, count, count}))
		return 1;
	queue.ring = (struct sluice_completions_slot_slice){entries, 1 << 16, 1 << 16};
	struct sluice_core_config config = {.batch = BATCH, .catch_up = pacing.catch_up, .base_rtt = 20 * SLUICE_MICROSECOND, .bypass = !steered};
	sluice_core_start(&core, config, NULL, &limiter, (struct sluice_core_claim_slice){claims, BATCH, BATCH},
			  (struct sluice_core_scratch){{wrs, BATCH, BATCH}, {sges, BATCH, BATCH}, 1}, (struct sluice_core_qp_pointer_slice){by_flow, count, count}, (struct sluice_core_group_pointer_slice){0});
	const sluice_rate line = 100 * SLUICE_GBPS;
	for (uint32_t i = 0; i < count; i++) {
		struct pair *p = pairs[i] = calloc(1, sizeof *p);
		if (!p)
			return 1;
		struct sluice_core_qp_config c = {.number = i, .index = i, .cap = {.max_send_wr = WR, .max_send_sge = 1}, .segment = 16384, .depth = WR, .limit = 507904, .line = line, .mtu = 1024};
		struct sluice_completions_table t = sluice_completions_start(i, WR, WR, (struct sluice_completions_request_slice){p->messages, WR, WR}, (struct sluice_completions_posted_slice){p->posted, WR, WR});
		sluice_core_add(&core, &p->qp, &c, sluice_limiter_add(&limiter, SLUICE_LIMITER_UNPACED).value, t, (struct sluice_core_request_slice){p->requests, WR, WR},
				(struct sluice_verbs_sge_slice){p->sgl, WR, WR}, (struct sluice_uint8_slice){0});
		sluice_core_qp_name(&p->qp, (uint64_t)i << 32);
		struct sluice_timely_config timely = sluice_timely_default_config();
		if (steered) {
			timely.max_rate = 80 * SLUICE_GBPS / count;
			timely.min_rate = timely.max_rate - 1;
		}
		sluice_engine_start_timely(&p->engine, timely, (struct sluice_env){.line_rate = line, .base_rtt = config.base_rtt, .mtu = 1024});
		sluice_core_qp_start(&p->qp, now, &p->engine, line, c.limit, 0);
		sluice_core_qp_resume(&p->qp, now);
	}
	if (steered)
		for (uint32_t i = 0; i < count; i++) {
			now += sluice_rate_serialize(80 * SLUICE_GBPS, SEGMENT);
			for (uint32_t k = 0; k < (count < 16 ? 32 / count : 2); k++)
				post(pairs[i], 1);
		}
	for (uint32_t i = 0; i < 4 * count / BATCH + 1; i++)
		turn();
	static double took[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		int64_t from = nanoseconds(), n = 0;
		while (n < ROUND)
			n += turn();
		took[i] = (double)(nanoseconds() - from) / (double)n;
	}
	qsort(took, ROUNDS, sizeof *took, ascending);
	printf("%.1f\n", took[ROUNDS / 2]);
	return 0;
}
