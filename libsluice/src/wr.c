#include "shim.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The requests between ibv_wr_start and ibv_wr_complete, in arrays that grow to
 * the longest list there was. */
struct sl_builder {
	pthread_mutex_t lock;
	struct sl_qp *qp;
	struct ibv_qp_ex *ex;
	struct ibv_send_wr *wr;
	struct ibv_sge *sge;   /* max_sge for each of wr */
	uint8_t *inline_data;  /* max_inline for each of wr */
	int room, n, error;
	int max_sge, max_inline;
};

static struct sl_builder *of(struct ibv_qp_ex *ex) { return sl_get(SL_BUILDER, ex); }

static int grow(struct sl_builder *b)
{
	int room = b->room ? 2 * b->room : 16;
	struct ibv_send_wr *wr = realloc(b->wr, (size_t)room * sizeof(*wr));
	if (wr)
		b->wr = wr;
	struct ibv_sge *sge = realloc(b->sge, (size_t)room * (size_t)b->max_sge * sizeof(*sge));
	if (sge)
		b->sge = sge;
	uint8_t *data = realloc(b->inline_data, (size_t)room * (size_t)b->max_inline + 1);
	if (data)
		b->inline_data = data;
	if (!wr || !sge || !data)
		return ENOMEM;
	b->room = room;
	return 0;
}

/* The next request, or NULL if something has failed. Where it points, the arrays
 * may still move: sg_list is set by wr_complete. */
static struct ibv_send_wr *next(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct sl_builder *b = of(ex);
	if (b->error)
		return NULL;
	if (b->n == (int)b->qp->cap.max_send_wr || (b->n == b->room && grow(b))) {
		b->error = ENOMEM;
		return NULL;
	}
	struct ibv_send_wr *wr = &b->wr[b->n++];
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = ex->wr_id;
	wr->opcode = opcode;
	wr->send_flags = ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE;
	return wr;
}

/* The request that a setter is about. */
static struct ibv_send_wr *last(struct sl_builder *b)
{
	if (b->error)
		return NULL;
	if (!b->n) {
		b->error = EINVAL;
		return NULL;
	}
	return &b->wr[b->n - 1];
}

static void rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr, __be32 imm)
{
	struct ibv_send_wr *wr = next(ex, opcode);
	if (!wr)
		return;
	wr->imm_data = imm;
	wr->wr.rdma.remote_addr = addr;
	wr->wr.rdma.rkey = rkey;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr) { rdma(ex, IBV_WR_RDMA_WRITE, rkey, addr, 0); }
static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr) { rdma(ex, IBV_WR_RDMA_READ, rkey, addr, 0); }
static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void wr_send(struct ibv_qp_ex *ex) { next(ex, IBV_WR_SEND); }

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	struct ibv_send_wr *wr = next(ex, IBV_WR_SEND_WITH_IMM);
	if (wr)
		wr->imm_data = imm;
}

static void invalidate(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_send_wr *wr = next(ex, opcode);
	if (wr)
		wr->invalidate_rkey = rkey;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey) { invalidate(ex, IBV_WR_SEND_WITH_INV, rkey); }
static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey) { invalidate(ex, IBV_WR_LOCAL_INV, rkey); }

static void atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = next(ex, opcode);
	if (!wr)
		return;
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}

static void unsupported(struct ibv_qp_ex *ex)
{
	struct sl_builder *b = of(ex);
	if (!b->error)
		b->error = EOPNOTSUPP;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	(void)mw, (void)rkey, (void)info;
	unsupported(ex);
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t size, uint16_t mss)
{
	(void)hdr, (void)size, (void)mss;
	unsupported(ex);
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *value)
{
	(void)rkey, (void)addr, (void)value;
	unsupported(ex);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct sl_builder *b = of(ex);
	struct ibv_send_wr *wr = last(b);
	if (!wr)
		return;
	if (n > (size_t)b->max_sge) {
		b->error = EINVAL;
		return;
	}
	memcpy(&b->sge[(b->n - 1) * b->max_sge], list, n * sizeof(*list));
	wr->num_sge = (int)n;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge one = {.addr = addr, .length = length, .lkey = lkey};
	wr_set_sge_list(ex, 1, &one);
}

/* Inline data is the application's again at once, so it is copied here. */
static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct sl_builder *b = of(ex);
	struct ibv_send_wr *wr = last(b);
	if (!wr)
		return;
	size_t length = 0;
	for (size_t i = 0; i < n; i++) {
		if (list[i].length > (size_t)b->max_inline - length) {
			b->error = EINVAL;
			return;
		}
		memcpy(&b->inline_data[(size_t)(b->n - 1) * (size_t)b->max_inline + length], list[i].addr, list[i].length);
		length += list[i].length;
	}
	b->sge[(b->n - 1) * b->max_sge].length = (uint32_t)length;
	wr->num_sge = 1;
	wr->send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_data_buf one = {.addr = addr, .length = length};
	wr_set_inline_data_list(ex, 1, &one);
}

static int wr_complete(struct ibv_qp_ex *);

static void wr_start(struct ibv_qp_ex *ex)
{
	struct sl_builder *b = of(ex);
	pthread_mutex_lock(&b->lock);
	if (ex->wr_complete != wr_complete)
		sl_builder_hook(b);
	b->n = 0;
	b->error = 0;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct sl_builder *b = of(ex);
	int r = b->error;
	if (!r && b->n) {
		for (int i = 0; i < b->n; i++) {
			struct ibv_send_wr *wr = &b->wr[i];
			wr->next = i + 1 < b->n ? wr + 1 : NULL;
			wr->sg_list = &b->sge[i * b->max_sge];
			if (wr->send_flags & IBV_SEND_INLINE)
				wr->sg_list->addr = (uintptr_t)&b->inline_data[(size_t)i * (size_t)b->max_inline];
		}
		struct ibv_send_wr *bad;
		r = sl_get(SL_QP, b->qp->qp) ? sl_post(b->qp, b->wr, &bad, true)
					    : b->qp->calls->ibv.post_send(b->qp->qp, b->wr, &bad); /* in the child of a fork */
	}
	pthread_mutex_unlock(&b->lock);
	return r;
}

static void wr_abort(struct ibv_qp_ex *ex) { pthread_mutex_unlock(&of(ex)->lock); }

/* Drivers may write their calls again after a queue pair was made: mlx5 does so with
 * wr_complete when it goes to RESET or RTS. */
void sl_builder_hook(struct sl_builder *b)
{
	struct ibv_qp_ex *ex = b->ex;
	/* Only what the driver has: what it lacks stays NULL. */
#define HOOK(f) do { if (ex->f && ex->f != f) ex->f = f; } while (0)
	HOOK(wr_atomic_cmp_swp);
	HOOK(wr_atomic_fetch_add);
	HOOK(wr_bind_mw);
	HOOK(wr_local_inv);
	HOOK(wr_rdma_read);
	HOOK(wr_rdma_write);
	HOOK(wr_rdma_write_imm);
	HOOK(wr_send);
	HOOK(wr_send_imm);
	HOOK(wr_send_inv);
	HOOK(wr_send_tso);
	HOOK(wr_set_inline_data);
	HOOK(wr_set_inline_data_list);
	HOOK(wr_set_sge);
	HOOK(wr_set_sge_list);
	HOOK(wr_start);
	HOOK(wr_complete);
	HOOK(wr_abort);
	HOOK(wr_atomic_write);
#undef HOOK
}

struct sl_builder *sl_builder_new(struct sl_qp *q, struct ibv_qp_ex *ex)
{
	struct sl_builder *b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	pthread_mutex_init(&b->lock, NULL);
	b->qp = q;
	b->ex = ex;
	b->max_sge = q->cap.max_send_sge ? (int)q->cap.max_send_sge : 1;
	b->max_inline = (int)q->cap.max_inline_data;
	if (sl_set(SL_BUILDER, ex, b)) {
		free(b);
		return NULL;
	}
	sl_builder_hook(b);
	return b;
}

void sl_builder_free(struct sl_builder *b)
{
	sl_set(SL_BUILDER, b->ex, NULL);
	pthread_mutex_destroy(&b->lock);
	free(b->wr);
	free(b->sge);
	free(b->inline_data);
	free(b);
}
