/*
 * A program whose calls and completions fail as SLUICE_FAIL asks, for fail_test.go: fail WAY prints
 * what ten Writes of the first queue pair of a pair come to, how that stands then, and what one
 * comes to after a reset. WAY is list, single, wr or ex.
 */
#define main hooks_main
#include "hooks.c"
#undef main
#include <stdbool.h>

enum { WRITES = 10 };

static void said(uint64_t id, int status, unsigned vendor) { printf(" %d:%d/%#x", (int)id, status, vendor); }

/* Takes n completions, and says what polls and they came to. */
static void take(struct pair *p, int n)
{
	time_t end = time(NULL) + LIMIT;
	while (n > 0) {
		struct ibv_wc wc[4];
		int r = ibv_poll_cq(p->cq[0], 4, wc);
		CHECK(time(NULL) < end);
		if (r < 0)
			printf(" poll=%d", errno);
		for (int i = 0; i < r; i++)
			said(wc[i].wr_id, wc[i].status, wc[i].vendor_err);
		n -= r > 0 ? r : 0;
	}
}

/* The same, by an extended CQ. */
static void take_ex(struct pair *p, int n)
{
	time_t end = time(NULL) + LIMIT;
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)p->cq[0];
	while (n > 0) {
		struct ibv_poll_cq_attr a = {0};
		int r = ibv_start_poll(cq, &a);
		CHECK(time(NULL) < end);
		if (r == ENOENT)
			continue;
		if (r) {
			printf(" poll=%d", r);
			continue;
		}
		do {
			said(cq->wr_id, cq->status, cq->status ? ibv_wc_read_vendor_err(cq) : 0);
			n--;
		} while (!(r = ibv_next_poll(cq)));
		ibv_end_poll(cq);
		if (r != ENOENT)
			printf(" poll=%d", r);
	}
}

/* Posts Writes of some numbers at once: how many are taken. */
static int post(struct pair *p, int from, int n)
{
	struct ibv_sge s = piece(p, 0, 0, 8192);
	struct ibv_send_wr wr[WRITES], *bad = NULL;
	for (int i = 0; i < n; i++) {
		wr[i] = rdma(p, (uint64_t)(from + i), IBV_WR_RDMA_WRITE, &s, 1, 0);
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	int r = ibv_post_send(p->qp[0], wr, &bad);
	if (!r)
		return n;
	printf(" post %d=%d", from + (int)(bad - wr), r);
	return (int)(bad - wr);
}

static int post_wr(struct pair *p, int from, int n)
{
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(p->qp[0]);
	ibv_wr_start(q);
	for (int i = 0; i < n; i++) {
		q->wr_id = (uint64_t)(from + i);
		q->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(q, p->mr[1]->rkey, (uintptr_t)p->buf[1]);
		ibv_wr_set_sge(q, p->mr[0]->lkey, (uintptr_t)p->buf[0], 8192);
	}
	int r = ibv_wr_complete(q);
	if (!r)
		return n;
	printf(" post %d=%d", from, r);
	return 0;
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	bool wr = !strcmp(way, "wr"), ex = !strcmp(way, "ex");
	alarm(3 * LIMIT);
	struct pair *p = setup((wr ? WITH_WR : 0) | (ex ? WITH_EX_CQ : 0));
	void (*taking)(struct pair *, int) = ex ? take_ex : take;
	int (*posting)(struct pair *, int, int) = wr ? post_wr : post;
	if (!strcmp(way, "single")) {
		for (int i = 0; i < WRITES; i++)
			taking(p, posting(p, i, 1));
	} else {
		int some = posting(p, 0, WRITES / 2);
		some += posting(p, WRITES / 2, WRITES / 2);
		taking(p, some);
	}
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_UNKNOWN};
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(p->qp[0], &a, IBV_QP_STATE, &init));
	printf("\nstate %d\n", a.qp_state);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET};
	CHECK(!ibv_modify_qp(p->qp[0], &a, IBV_QP_STATE) && !to_rts(p->qp[0], p->qp[1]->qp_num));
	taking(p, posting(p, 50, 1));
	printf("\n");
	teardown(p);
	return 0;
}
