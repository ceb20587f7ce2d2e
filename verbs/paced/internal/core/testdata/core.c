/*
 * Does to a core, its queue pairs and a queue of completions what the test says on the
 * standard input, and answers with what each call returns and, after each block of
 * calls, with all of its memory.
 */
#include <stdio.h>
#include <string.h>

#include "sluice_core.h"

enum { BLOCK = 1 << 12, PAIRS = 6, GROUPS = 2, FLOWS = PAIRS + GROUPS, SLOTS = 16, SEGMENTS = 8, SGES = 3, INLINE = 64, BATCH = 8, RING = 128 };

enum {
	START, ADD, REMOVE, NAME, ENGINE, RESUME, STOP, SUSPEND, RESTORE, CLEAR, FAIL, MTU, LONGEST, READS, TIMEOUT, LIMITER,
	ACCEPT, OFFER, FILE_, DUE, NEXT, POSTED, COMPLETE, MEASURE, FINISH, POP, NOW, NEXT_DUE, COUNTS, HELD, SAMPLE, GROUP, JOIN, LEAVE, CAP,
};

struct call {
	int64_t what, pair, v[12];
};

struct answer {
	int64_t v[3];
};

/* All that a core has, by value. */
static struct memory {
	struct sluice_core core;
	struct sluice_limiter limiter;
	struct sluice_calibration calibration;
	struct sluice_core_sample sample;
	struct sluice_limiter_flow flows[FLOWS];
	struct sluice_limiter_links links[FLOWS];
	struct sluice_core_claim claims[BATCH];
	struct sluice_completions_slot ring[RING];
	struct pair {
		struct sluice_core_qp qp;
		struct sluice_core_member member;
		struct sluice_engine engine;
		struct sluice_completions_request messages[SLOTS];
		struct sluice_completions_posted posted[SEGMENTS];
		struct sluice_core_request requests[SLOTS];
		struct sluice_verbs_sge sgl[SLOTS * SGES];
		uint8_t inline_data[SLOTS * INLINE];
	} pairs[PAIRS];
	struct sluice_core_group groups[GROUPS];
} m;

static struct sluice_engine group_engines[GROUPS];
static struct sluice_core_group *groups_by_flow[FLOWS];

static struct sluice_completions_clock clock_;
static struct sluice_completions_queue queue;
static struct sluice_core_batch batch;
static struct sluice_core_qp *by_flow[FLOWS];
static struct sluice_verbs_send_wr wrs[BATCH];
static struct sluice_verbs_sge sges[BATCH * SGES];

static uint64_t mix(uint64_t d, uint64_t v)
{
	return (d ^ v) * 0x100000001b3;
}

static int64_t digest(const struct sluice_verbs_wc *wc)
{
	uint64_t d = mix(mix(mix(0, wc->wrid), wc->status), wc->opcode);
	return (int64_t)mix(mix(mix(mix(d, wc->byte_len), wc->qpn), wc->vendor_err), wc->timestamp);
}

static int64_t posts(const struct sluice_verbs_send_wr_slice *all)
{
	uint64_t d = 0;
	for (int64_t i = 0; i < all->len; i++) {
		const struct sluice_verbs_send_wr *wr = &all->at[i];
		d = mix(mix(mix(mix(d, wr->wrid), wr->opcode), wr->flags), wr->remote_addr);
		d = mix(mix(mix(mix(d, wr->r_key), wr->imm), wr->compare_add), wr->swap);
		for (int64_t k = 0; k < wr->sgl.len; k++)
			d = mix(mix(mix(d, wr->sgl.at[k].addr), wr->sgl.at[k].length), wr->sgl.at[k].l_key);
		for (int64_t k = 0; k < wr->inline_.len; k++)
			d = mix(d, wr->inline_.at[k]);
	}
	return (int64_t)d;
}

static void start(const struct call *c)
{
	memset(&m, 0, sizeof m);
	memset(by_flow, 0, sizeof by_flow);
	memset(groups_by_flow, 0, sizeof groups_by_flow);
	struct sluice_limiter_config pacing = sluice_limiter_default_config();
	pacing.catch_up = c->v[1];
	if (sluice_limiter_start(&m.limiter, pacing, (struct sluice_limiter_flow_slice){m.flows, FLOWS, FLOWS}, (struct sluice_limiter_links_slice){m.links, FLOWS, FLOWS}))
		__builtin_trap();
	m.calibration = sluice_calibration_start(sluice_calibration_default_config(c->v[4], 1e9));
	clock_.cal = &m.calibration;
	queue = (struct sluice_completions_queue){.ring = {m.ring, RING, RING}};
	struct sluice_core_config config = {.batch = c->v[0], .catch_up = c->v[1], .base_rtt = c->v[2], .origin = sluice_long_nanoseconds(c->v[3]),
					    .nic_clock = c->v[5], .clock_bits = c->v[4], .core_clock_hz = 1e9, .bypass = c->v[6]};
	sluice_core_start(&m.core, config, &clock_, &m.limiter, (struct sluice_core_claim_slice){m.claims, c->v[0], c->v[0]},
			  (struct sluice_core_scratch){.wrs = {wrs, c->v[0], c->v[0]}, .sges = {sges, c->v[0] * SGES, c->v[0] * SGES}, .max_sge = SGES},
			  (struct sluice_core_qp_pointer_slice){by_flow, FLOWS, FLOWS}, (struct sluice_core_group_pointer_slice){groups_by_flow, FLOWS, FLOWS});
}

static int64_t add(const struct call *c)
{
	struct pair *p = &m.pairs[c->pair];
	memset(p, 0, sizeof *p);
	struct sluice_core_qp_config config = {
		.number = (uint32_t)c->v[0], .index = c->pair, .cap = {.max_send_wr = c->v[1], .max_send_sge = SGES, .max_inline_data = INLINE},
		.sig_all = c->v[2], .segment = c->v[3], .depth = c->v[4], .limit = c->v[5], .line = c->v[6], .mtu = c->v[7],
	};
	struct sluice_limiter_add_result id = sluice_limiter_add(&m.limiter, SLUICE_LIMITER_UNPACED);
	struct sluice_completions_table table = sluice_completions_start(config.number, config.cap.max_send_wr, config.depth,
		(struct sluice_completions_request_slice){p->messages, SLOTS, SLOTS}, (struct sluice_completions_posted_slice){p->posted, SEGMENTS, SEGMENTS});
	sluice_core_add(&m.core, &p->qp, &config, id.value, table, (struct sluice_core_request_slice){p->requests, SLOTS, SLOTS},
			(struct sluice_verbs_sge_slice){p->sgl, SLOTS * SGES, SLOTS * SGES}, (struct sluice_uint8_slice){p->inline_data, SLOTS * INLINE, SLOTS * INLINE});
	return id.value;
}

/* Starts the engine of a number at e, and returns it; null for 0. */
static struct sluice_engine *make(struct sluice_engine *e, int64_t number, struct sluice_env env)
{
	switch (number) {
	case 0:
		return NULL;
	case 1:
		sluice_engine_start_timely(e, sluice_timely_default_config(), env);
		break;
	case 2:
		sluice_engine_start_swift(e, sluice_swift_default_config(), env);
		break;
	case 3:
		sluice_engine_start_dcqcn(e, sluice_dcqcn_default_config(), env);
		break;
	case 4:
		sluice_engine_start_hpcc(e, sluice_hpcc_default_config(), env);
		break;
	default:
		sluice_engine_start_dctcp(e, sluice_dctcp_default_config(), env);
	}
	return e;
}

static void engine(const struct call *c)
{
	struct pair *p = &m.pairs[c->pair];
	struct sluice_env env = {.line_rate = c->v[2], .base_rtt = m.core.cfg.base_rtt, .mtu = c->v[4]};
	sluice_core_qp_start(&p->qp, c->v[0], make(&p->engine, c->v[1], env), c->v[2], c->v[3], (uint64_t)c->v[5]);
}

static int64_t group(const struct call *c)
{
	struct sluice_core_group *g = &m.groups[c->v[6]];
	struct sluice_env env = {.line_rate = c->v[2], .base_rtt = m.core.cfg.base_rtt, .mtu = c->v[4]};
	struct sluice_limiter_add_result id = sluice_limiter_add(&m.limiter, SLUICE_LIMITER_UNPACED);
	sluice_core_add_group(&m.core, g, id.value, c->v[2]);
	sluice_core_group_start(g, c->v[0], make(&group_engines[c->v[6]], c->v[1], env), c->v[3], c->v[5]);
	return id.value;
}

static struct answer accept_(const struct call *c)
{
	struct sluice_core_qp *q = &m.pairs[c->pair].qp;
	uint8_t data[2 * INLINE];
	struct sluice_verbs_sge list[SGES + 1];
	struct sluice_verbs_send_wr wr = {
		.wrid = (uint64_t)c->v[0], .opcode = (uint8_t)c->v[1], .flags = (uint32_t)c->v[2], .remote_addr = (uint64_t)c->v[0] << 32, .r_key = 7,
		.imm = (uint32_t)c->v[0] * 3, .compare_add = (uint64_t)c->v[0] * 5, .swap = (uint64_t)c->v[0] * 7,
	};
	for (int64_t i = 0; i < c->v[3]; i++)
		list[i] = (struct sluice_verbs_sge){.addr = (uint64_t)(i + 1) << 40, .length = (uint32_t)c->v[4 + i], .l_key = (uint32_t)i};
	if (wr.flags & 8) {
		for (int64_t i = 0; i < c->v[4]; i++)
			data[i] = (uint8_t)(c->v[0] + i);
		wr.inline_ = (struct sluice_uint8_slice){data, c->v[4], sizeof data};
	} else {
		wr.sgl = (struct sluice_verbs_sge_slice){list, c->v[3], SGES + 1};
	}
	bool right = sluice_core_qp_check(q, &wr) == 0;
	int64_t room = sluice_core_qp_room(q);
	return (struct answer){{right, room, right && sluice_core_qp_accept(q, &wr)}};
}

static struct answer measure(const struct call *c)
{
	struct sluice_core_sample *x = &m.sample;
	struct sluice_verbs_wc wc = {.timestamp = (uint64_t)c->v[1]};
	int64_t how = c->v[2];
	x->stamped = how & 1;
	x->watched = how & 2;
	x->reported = how & 4;
	x->counts_cnps = how & 8;
	x->departed = how & 16;
	x->cnps = (uint64_t)c->v[3];
	x->retransmits = (uint8_t)(how >> 11);
	x->first = (uint64_t)c->v[4];
	x->last = (uint64_t)c->v[5];
	if (x->reported) {
		struct sluice_verbs_telemetry *r = &x->report;
		r->ecn = how & 32;
		r->ein = how & 64;
		r->has_max_delay = how & 128;
		r->max_hop_delay = c->v[6];
		r->reverse_max_hop_delay = c->v[6] / 2;
		r->has_turnaround = how & 256;
		r->turnaround = c->v[7];
		r->coalesced = how & 512;
		r->path.n = how & 1024 ? 1 : 0;
		r->path.hops[0].time = c->v[8];
		r->path.hops[0].q_len = c->v[9];
		r->path.hops[0].tx_bytes = c->v[10];
		r->path.hops[0].rate = c->v[11];
	}
	sluice_core_measure(&m.core, c->v[0], &m.pairs[c->pair].qp, &wc, x);
	struct sluice_control control = sluice_core_qp_control(&m.pairs[c->pair].qp);
	return (struct answer){{x->rtt, x->marks | (int64_t)x->fresh_cnps << 8, control.rate ^ control.window}};
}

static struct answer answer(const struct call *c)
{
	struct sluice_core_qp *q = &m.pairs[c->pair].qp;
	struct answer r = {{0}};
	switch (c->what) {
	case START:
		start(c);
		break;
	case ADD:
		r.v[0] = add(c);
		break;
	case REMOVE:
		sluice_core_remove(&m.core, q);
		break;
	case NAME:
		sluice_core_qp_name(q, (uint64_t)c->v[0]);
		r.v[0] = sluice_core_qp_named(q, (uint64_t)c->v[1]);
		break;
	case ENGINE:
		engine(c);
		break;
	case RESUME:
		sluice_core_qp_resume(q, c->v[0]);
		break;
	case STOP:
		sluice_core_qp_stop(q, c->v[0], (uint8_t)c->v[1]);
		break;
	case SUSPEND:
		sluice_core_qp_suspend(q, (uint8_t)c->v[1]);
		break;
	case RESTORE:
		sluice_core_qp_restore(q, c->v[0], (uint8_t)c->v[1]);
		break;
	case CLEAR:
		r.v[0] = sluice_core_qp_clear(q, c->v[0], &queue);
		break;
	case FAIL:
		sluice_core_qp_fail(q, c->v[0]);
		break;
	case MTU:
		sluice_core_qp_set_mtu(q, c->v[0]);
		break;
	case LONGEST:
		sluice_core_qp_set_longest(q, (uint32_t)c->v[0]);
		break;
	case READS:
		sluice_core_qp_set_reads(q, c->v[0]);
		break;
	case TIMEOUT:
		sluice_core_qp_set_timeout(q, (uint8_t)c->v[0]);
		break;
	case LIMITER:
		sluice_core_qp_set_limiter(q, c->v[0]);
		break;
	case ACCEPT:
		r = accept_(c);
		break;
	case OFFER:
		sluice_core_qp_offer(q, c->v[0]);
		break;
	case FILE_:
		sluice_core_qp_file(q, c->v[0]);
		break;
	case DUE:
		r.v[0] = sluice_core_due(&m.core, c->v[0]);
		break;
	case NEXT: {
		struct sluice_core_next_result got = sluice_core_next(&m.core, c->v[0], &batch);
		if (got.ok)
			r = (struct answer){{got.next, sluice_core_qp_index(batch.qp) + 1, posts(&batch.wrs)}};
		break;
	}
	case POSTED: {
		struct sluice_core_posted_result got = sluice_core_posted(&m.core, c->v[0], &batch, c->v[1], (struct sluice_core_refusal){.full = c->v[2], .status = (uint8_t)c->v[3]});
		r = (struct answer){{got.bytes, got.failed, 0}};
		break;
	}
	case COMPLETE: {
		struct sluice_verbs_wc wc = {.wrid = (uint64_t)c->v[0], .status = (uint8_t)c->v[1], .vendor_err = (uint32_t)c->v[2], .timestamp = (uint64_t)c->v[3]};
		struct sluice_core_qp_complete_result got = sluice_core_qp_complete(q, &wc, &m.sample.segment);
		r = (struct answer){{got.done, got.ok, 0}};
		break;
	}
	case MEASURE:
		r = measure(c);
		break;
	case FINISH: {
		const struct sluice_verbs_wc *wc = sluice_completions_queue_push(&queue, &q->table);
		if (wc)
			r = (struct answer){{digest(wc), 1, 0}};
		break;
	}
	case POP: {
		struct sluice_verbs_wc wc[8];
		r.v[0] = sluice_completions_queue_pop(&queue, (struct sluice_verbs_wc_slice){wc, c->v[0], 8});
		for (int64_t i = 0; i < r.v[0]; i++)
			r.v[1] = (int64_t)mix((uint64_t)r.v[1], (uint64_t)digest(&wc[i]));
		break;
	}
	case NOW: {
		struct sluice_long_time at = sluice_long_time_add(sluice_long_nanoseconds(c->v[0]), c->v[1]);
		r.v[0] = sluice_core_now(&m.core, at);
		r.v[1] = sluice_core_instant(&m.core, sluice_core_long(&m.core, r.v[0] + 5));
		break;
	}
	case NEXT_DUE:
		r = (struct answer){{sluice_core_next_due(&m.core), sluice_core_gaps_end(&m.core), sluice_core_filed(&m.core) << 32 | sluice_core_in_flight(&m.core)}};
		break;
	case COUNTS: {
		struct sluice_core_qp_finished_result f = sluice_core_qp_finished(q);
		r = (struct answer){{(int64_t)(f.all << 32 | f.failed), sluice_core_qp_outstanding(q) << 20 | sluice_core_qp_in_flight(q) << 10 | sluice_core_qp_room(q),
				     sluice_core_qp_state(q) << 1 | sluice_core_qp_filed(q)}};
		break;
	}
	case HELD: {
		struct sluice_long_time sum[SLUICE_CORE_HOLDS] = {{0}};
		sluice_core_qp_add_held(q, c->v[0], sum);
		for (int i = 0; i < SLUICE_CORE_HOLDS; i++)
			r.v[0] = (int64_t)mix((uint64_t)r.v[0], (uint64_t)sluice_long_time_time(sum[i]));
		break;
	}
	case SAMPLE:
		sluice_calibration_add(&m.calibration, (struct sluice_calibration_sample){.host_before = c->v[0], .nic = (uint64_t)c->v[1], .host_after = c->v[2]});
		break;
	case GROUP:
		r.v[0] = group(c);
		break;
	case CAP:
		sluice_core_qp_cap(q, c->v[0]);
		break;
	case JOIN:
		sluice_core_qp_join(q, &m.pairs[c->pair].member, &m.groups[c->v[0]], c->v[1], c->v[2], (uint64_t)c->v[3]);
		r.v[0] = sluice_core_group_members(sluice_core_qp_group(q));
		break;
	case LEAVE: {
		struct sluice_core_group *g = sluice_core_qp_group(q);
		if (g)
			r.v[0] = sluice_core_group_outstanding(g) << 20 ^ sluice_core_group_control(g).rate;
		g = sluice_core_qp_leave(q);
		if (g) {
			sluice_core_remove_group(&m.core, g);
			r.v[1] = 1;
		}
		break;
	}
	default:
		__builtin_trap();
	}
	return r;
}

int main(void)
{
	static struct call calls[BLOCK];
	static struct answer answers[BLOCK];
#define SIZE(type) (uint64_t)sizeof(struct sluice_##type)
	const uint64_t sizes[] = {
		sizeof m, SIZE(core), SIZE(limiter), SIZE(calibration), SIZE(core_sample), SIZE(limiter_flow), SIZE(limiter_links), SIZE(core_claim), SIZE(completions_slot),
		sizeof(struct pair), SIZE(core_qp), SIZE(engine), SIZE(completions_request), SIZE(completions_posted), SIZE(core_request), SIZE(verbs_sge), SIZE(core_member), SIZE(core_group),
	};
	fwrite(sizes, sizeof sizes, 1, stdout);
	fflush(stdout);
	for (;;) {
		uint64_t n;
		if (fread(&n, sizeof n, 1, stdin) != 1)
			return 0;
		if (n > BLOCK || fread(calls, sizeof *calls, n, stdin) != n)
			return 1;
		for (uint64_t i = 0; i < n; i++)
			answers[i] = answer(&calls[i]);
		fwrite(answers, sizeof *answers, n, stdout);
		fwrite(&m, sizeof m, 1, stdout);
		fflush(stdout);
	}
}
