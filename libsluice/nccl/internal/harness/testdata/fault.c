#include "fault.h"
#include "plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(STATUS_LOC_PROT == (int)IBV_WC_LOC_PROT_ERR && STATUS_FLUSH == (int)IBV_WC_WR_FLUSH_ERR && STATUS_REM_ACCESS == (int)IBV_WC_REM_ACCESS_ERR &&
	       STATUS_REM_OP == (int)IBV_WC_REM_OP_ERR && STATUS_RETRY == (int)IBV_WC_RETRY_EXC_ERR && STATUS_GENERAL == (int)IBV_WC_GENERAL_ERR, "statuses");

enum { FAULTS = 64, HELD = 512, CONTEXTS = 16 };

static struct armed {
	struct connection *c; /* NULL: free */
	struct ibv_cq *cq; /* of c, whose thread polls it: others' queue pairs may go at any time */
	int lane, status;
	enum fault kind;
	int64_t delay;
	bool sticky, fired;
	uint32_t epoch;
	struct ibv_wc held[HELD]; /* a ring */
	int64_t since[HELD];
	unsigned first, count;
} all[FAULTS];

static struct {
	struct ibv_context *context;
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
} real[CONTEXTS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	static int (*f)(struct ibv_qp *, struct ibv_qp_attr *, int);

	if (!f)
		f = (int (*)(struct ibv_qp *, struct ibv_qp_attr *, int))dlsym(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD), "ibv_modify_qp");
	return f(qp, attr, mask);
}

void fault_error(void *comm, int lane)
{
	struct connection *c = comm;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (c->lanes[lane].qp)
		modify(c->lanes[lane].qp, &attr, IBV_QP_STATE);
}

/* find returns what is armed for a connection's queue pair, if it still is that one. */
static struct armed *find(const struct ibv_qp *qp, uint32_t epoch)
{
	for (int i = 0; i < FAULTS; i++) {
		struct armed *f = &all[i];

		if (!f->c || f->c->lanes[f->lane].qp != qp)
			continue;
		if (f->epoch != epoch) {
			f->first = f->count = 0;
			f->fired = false;
			f->epoch = epoch;
			if (!f->sticky)
				f->c = NULL;
		}
		return f->c ? f : NULL;
	}
	return NULL;
}

static void hold(struct armed *f, const struct ibv_wc *wc)
{
	f->held[(f->first + f->count) % HELD] = *wc;
	f->since[(f->first + f->count++) % HELD] = clock_ns();
}

/* release adds what is due of a fault to what a poll has found. */
static int release(struct armed *f, struct ibv_wc *wc, int room)
{
	int n = 0;

	for (; n < room && f->count && (f->fired || clock_ns() - f->since[f->first % HELD] >= f->delay); n++, f->first++, f->count--) {
		wc[n] = f->held[f->first % HELD];
		if (f->kind == SLOW)
			continue;
		wc[n].status = f->fired ? IBV_WC_WR_FLUSH_ERR : (enum ibv_wc_status)f->status;
		if (!f->fired)
			fault_error(f->c, f->lane);
		f->fired = true;
	}
	return n;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	int n, kept = 0, i = 0;

	while (real[i].context != cq->context)
		i++;
	n = real[i].poll_cq(cq, most, wc);
	pthread_mutex_lock(&mutex);
	for (int k = 0; k < n; k++) {
		struct armed *f = NULL;

		for (int j = 0; j < FAULTS && !f; j++)
			if (all[j].c && all[j].cq == cq && all[j].c->lanes[all[j].lane].qp && all[j].c->lanes[all[j].lane].qp->qp_num == wc[k].qp_num)
				f = find(all[j].c->lanes[all[j].lane].qp, wc[k].wr_id >> 32 & 0xffff);
		if (f && wc[k].wr_id >> 56 == 2 && (f->kind == UNACKED || f->kind == SLOW) && wc[k].status == IBV_WC_SUCCESS)
			hold(f, &wc[k]);
		else if (f && wc[k].wr_id >> 56 == 2 && f->kind == DEAD && f->count)
			hold(f, &wc[k]); /* in order */
		else
			wc[kept++] = wc[k];
	}
	for (int k = 0; k < FAULTS; k++)
		if (all[k].c && all[k].cq == cq && all[k].c->lanes[all[k].lane].qp)
			kept += release(&all[k], wc + kept, most - kept);
	pthread_mutex_unlock(&mutex);
	return kept;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int i = 0, result = -1;
	struct armed *f;

	while (real[i].context != qp->context)
		i++;
	pthread_mutex_lock(&mutex);
	f = wr->wr_id >> 56 == 2 ? find(qp, wr->wr_id >> 32 & 0xffff) : NULL;
	if (f && f->kind == REFUSED) {
		*bad = wr;
		result = EAGAIN;
	} else if (f && f->kind == DEAD && !f->fired) {
		struct ibv_wc wc = {.wr_id = wr->wr_id, .qp_num = qp->qp_num};

		hold(f, &wc);
		result = 0;
	}
	pthread_mutex_unlock(&mutex);
	return result < 0 ? real[i].post_send(qp, wr, bad) : result;
}

static void intercept(struct ibv_context *context)
{
	for (int i = 0; i < CONTEXTS; i++) {
		if (real[i].context == context && context->ops.poll_cq == poll_cq)
			return;
		if (real[i].context && real[i].context != context)
			continue;
		real[i].poll_cq = context->ops.poll_cq;
		real[i].post_send = context->ops.post_send;
		real[i].context = context;
		context->ops.poll_cq = poll_cq;
		context->ops.post_send = post_send;
		return;
	}
	abort();
}

void fault_arm(void *comm, int lane, enum fault kind, int status, int64_t delay, bool sticky)
{
	struct connection *c = comm;
	bool held = false;

	fault_clear(comm, lane);
	pthread_mutex_lock(&mutex);
	intercept(c->member[lane % c->members].device->context);
	for (int i = 0; i < FAULTS && !held; i++)
		held = all[i].c == comm && all[i].lane == lane; /* what one holds comes back first */
	for (int i = 0; i < FAULTS && !held; i++)
		if (!all[i].c) {
			all[i] = (struct armed){.c = c, .cq = c->lanes[lane].qp ? c->lanes[lane].qp->send_cq : NULL, .lane = lane, .kind = kind, .status = status, .delay = delay, .sticky = sticky, .epoch = c->lanes[lane].epoch};
			break;
		}
	pthread_mutex_unlock(&mutex);
}

void fault_clear(void *comm, int lane)
{
	pthread_mutex_lock(&mutex);
	for (int i = 0; i < FAULTS; i++)
		if (all[i].c == comm && (lane < 0 || (all[i].lane == lane && !all[i].count)))
			all[i].c = NULL;
		else if (all[i].c == comm && all[i].lane == lane)
			all[i].sticky = false; /* what it holds has to come back */
	pthread_mutex_unlock(&mutex);
}

void fault_deafen(void *comm) { ((struct connection *)comm)->deaf = true; }
int fault_lanes(void *comm) { return ((struct connection *)comm)->qps; }
int fault_members(void *comm) { return ((struct connection *)comm)->members; }
bool fault_up(void *comm, int lane) { return ((struct connection *)comm)->lanes[lane].state == LANE_UP; }
unsigned fault_epoch(void *comm, int lane) { return ((struct connection *)comm)->lanes[lane].epoch; }
bool fault_used(void *comm, int lane) { return ((struct connection *)comm)->balance.paths[lane].known; }
