/*
 * Messages. The receiver says by a Send on the first queue pair which buffers it has (clear_to_send). The sender writes
 * into them in pieces, each on the queue pair that balance.c chooses, and ends a message by a Send on each queue pair
 * that it has used (message_end): a queue pair keeps order, so when all ends are there, so are all pieces.
 *
 * A connection is one thread's at a time, as NCCL has it. Nothing here allocates or locks.
 */
#include "plugin.h"

#include <errno.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages between hosts are little endian");

/* What a work request is, in its wr_id. Those of a sender need no more: they complete in order. */
enum { ARRIVAL = 1, WORK = 2, NOTICE = 3, FLUSHED = 4 };

static uint64_t id(unsigned kind, unsigned lane, unsigned index)
{
	return (uint64_t)kind << 48 | (uint64_t)lane << 32 | index;
}

static nccl_result post(struct connection *c, struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id, uintptr_t addr, uint32_t size, uint32_t lkey,
			uintptr_t remote, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = addr, .length = size, .lkey = lkey};
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = size ? 1 : 0, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = remote, .rkey = rkey},
	}, *bad;

	errno = ibv_post_send(qp, &wr, &bad);
	if (!errno)
		return NCCL_SUCCESS;
	WARN("%s: queue pair %#x takes no request: %s", c->device->name, qp->qp_num, strerror(errno));
	return connection_fail(c, NCCL_SYSTEM_ERROR);
}

static nccl_result post_receive(struct connection *c, unsigned lane, unsigned index)
{
	struct ibv_sge sge = {.lkey = c->wire_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id(ARRIVAL, lane, index), .sg_list = &sge, .num_sge = 1}, *bad;

	if (c->sender) {
		sge.addr = (uintptr_t)&c->wire->sender.arriving[index];
		sge.length = sizeof c->wire->sender.arriving[index];
	} else {
		sge.addr = (uintptr_t)&c->wire->receiver.arriving[lane][index];
		sge.length = sizeof c->wire->receiver.arriving[lane][index];
	}
	errno = ibv_post_recv(c->lanes[lane].qp, &wr, &bad);
	if (!errno)
		return NCCL_SUCCESS;
	WARN("%s: queue pair %#x takes no receive: %s", c->device->name, c->lanes[lane].qp->qp_num, strerror(errno));
	return connection_fail(c, NCCL_SYSTEM_ERROR);
}

bool transfer_start(struct connection *c)
{
	int lanes = c->sender ? 1 : c->qps, each = c->sender ? RECEIVES : SENDS;

	for (int lane = 0; lane < lanes; lane++)
		for (int i = 0; i < each; i++)
			if (post_receive(c, lane, i))
				return false;
	return true;
}

static struct request *take(struct request *all, int n)
{
	for (int i = 0; i < n; i++)
		if (!all[i].used)
			return &all[i];
	return NULL;
}

/* ---- what arrives */

static void cleared(struct connection *c, unsigned index, uint32_t size)
{
	const struct clear_to_send *s = &c->wire->sender.arriving[index];
	unsigned at = s->sequence % RECEIVES;

	if (size != sizeof *s || s->count < 1 || s->count > MAX_RECEIVES || s->sequence - c->next_cleared >= RECEIVES || c->valid[at]) {
		WARN("%s: the peer's receive %u is none", c->device->name, size == sizeof *s ? s->sequence : 0);
		connection_fail(c, NCCL_REMOTE_ERROR);
		return;
	}
	c->cleared[at] = *s;
	memset(c->matched[at], 0, sizeof c->matched[at]);
	c->valid[at] = true;
}

/* Nothing of what a peer says is believed: what NCCL is told of lies within what it has posted. */
static void ended(struct connection *c, const struct message_end *e, uint32_t size)
{
	struct request *r = size == sizeof *e && e->token < RECEIVES ? &c->receives[e->token] : NULL;
	bool known = r && r->used && r->sequence == e->sequence && e->buffer < r->count && r->buffers[e->buffer].ends < e->ends && e->ends <= c->qps &&
		     e->size <= r->buffers[e->buffer].room && e->size <= MAX_MESSAGE;

	/* The ends of a message say the same. */
	if (!known || (r->buffers[e->buffer].ends && (r->buffers[e->buffer].expected != e->ends || r->buffers[e->buffer].size != e->size))) {
		WARN("%s: the peer ends message %u, which is none, or is longer than its buffer", c->device->name, size == sizeof *e ? e->sequence : 0);
		connection_fail(c, NCCL_REMOTE_ERROR);
		return;
	}
	r->buffers[e->buffer].size = e->size;
	r->buffers[e->buffer].expected = e->ends;
	if (++r->buffers[e->buffer].ends == e->ends)
		r->complete++;
}

static void completed(struct connection *c, unsigned lane, int64_t now)
{
	struct lane *l = &c->lanes[lane];
	struct work w = l->works[l->first % WORKS];

	l->first++;
	l->count--;
	c->sends[w.request].outstanding--;
	if (w.piece)
		balance_completed(&c->balance, lane, now);
}

static void completion(struct connection *c, const struct ibv_wc *wc, int64_t now)
{
	unsigned kind = wc->wr_id >> 48, lane = wc->wr_id >> 32 & 0xffff, index = wc->wr_id & 0xffffffff;

	if (wc->status != IBV_WC_SUCCESS) {
		if (!c->error)
			WARN("%s: queue pair %#x: %s (vendor's error %#x)", c->device->name, wc->qp_num, ibv_wc_status_str(wc->status), wc->vendor_err);
		connection_fail(c, NCCL_REMOTE_ERROR);
		return;
	}
	switch (kind) {
	case WORK:
		completed(c, lane, now);
		break;
	case NOTICE:
		c->lanes[0].count--;
		break;
	case FLUSHED:
		c->flushes[index].flushed = true;
		break;
	default:
		if (c->sender)
			cleared(c, index, wc->byte_len);
		else
			ended(c, &c->wire->receiver.arriving[lane][index], wc->byte_len);
		post_receive(c, lane, index);
	}
}

/* ---- what leaves */

static void post_work(struct connection *c, struct request *r, unsigned lane, bool piece)
{
	struct lane *l = &c->lanes[lane];

	l->works[(l->first + l->count++) % WORKS] = (struct work){.request = (uint16_t)(r - c->sends), .piece = piece};
	r->outstanding++;
}

/* end posts the ends of a message whose pieces are all posted. */
static void end(struct connection *c, struct request *r)
{
	struct message_end *e = &c->wire->sender.ends[r - c->sends];

	if (!r->paths)
		r->paths = 1u << c->balance.turn;
	*e = (struct message_end){
		.token = r->token, .sequence = r->sequence, .buffer = r->buffer,
		.ends = (uint16_t)__builtin_popcount(r->paths), .size = r->size,
	};
	for (int i = 0; i < c->qps && !c->error; i++)
		if (r->paths >> i & 1 && !post(c, c->lanes[i].qp, IBV_WR_SEND, id(WORK, i, 0), (uintptr_t)e, sizeof *e, c->wire_mr->lkey, 0, 0))
			post_work(c, r, i, false);
	r->ended = true;
}

/* dispatch posts pieces, of the oldest messages first, while queue pairs have room. */
static void dispatch(struct connection *c, int64_t now)
{
	while (c->queue_count && !c->error) {
		struct request *r = &c->sends[c->queue[c->queue_first % SENDS]];

		while (r->posted < r->size) {
			uint64_t left = r->size - r->posted, size = left < c->balance.piece ? left : c->balance.piece;
			int path = balance_choose(&c->balance, size, now);

			if (path < 0 || post(c, c->lanes[path].qp, IBV_WR_RDMA_WRITE, id(WORK, path, 0), r->addr + r->posted, (uint32_t)size, r->lkey,
					     r->remote + r->posted, r->rkey))
				return;
			post_work(c, r, path, true);
			balance_posted(&c->balance, path, size, now);
			r->paths |= 1u << path;
			r->posted += size;
		}
		end(c, r);
		c->queue_first++;
		c->queue_count--;
	}
}

/* look finds out whether the peer's socket is still open. */
static void look(struct connection *c, int64_t now)
{
	char byte;
	ssize_t n;

	if (now - c->looked < LIVENESS || c->lost)
		return;
	c->looked = now;
	n = recv(c->fd, &byte, 1, 0);
	if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
		c->lost = now;
}

static void progress(struct connection *c)
{
	int64_t now = now_ns();
	struct ibv_wc wc[16];
	int n, all = 0;

	do {
		n = ibv_poll_cq(c->cq, 16, wc);
		if (n < 0) {
			WARN("%s: its completion queue can't be polled", c->device->name);
			connection_fail(c, NCCL_SYSTEM_ERROR);
			return;
		}
		for (int i = 0; i < n; i++)
			completion(c, &wc[i], now);
		all += n;
	} while (n == 16);
	if (c->sender)
		dispatch(c, now);
	if (all)
		return;
	look(c, now);
	if (c->lost && now - c->lost > GRACE && !c->error) {
		WARN("%s: the peer has gone, or has closed the connection", c->device->name);
		connection_fail(c, NCCL_REMOTE_ERROR);
	}
}

/* ---- NCCL's calls */

static bool within(const struct memory *m, const void *data, size_t size)
{
	uintptr_t addr = (uintptr_t)data;

	if (!size)
		return true;
	if (m && addr >= m->addr && size <= m->size && addr - m->addr <= m->size - size)
		return true;
	WARN("%zu bytes at %p are not in the memory that was registered for them", size, data);
	return false;
}

nccl_result transfer_send(struct connection *c, void *data, size_t size, int tag, struct memory *m, void **request)
{
	unsigned at;
	struct request *r;

	*request = NULL;
	if (!c->sender)
		return NCCL_INVALID_ARGUMENT;
	progress(c);
	if (c->error)
		return c->error;
	at = c->next_cleared % RECEIVES;
	if (!c->valid[at])
		return NCCL_SUCCESS;
	for (unsigned i = 0; i < c->cleared[at].count; i++) {
		if (c->matched[at][i] || c->cleared[at].buffers[i].tag != tag)
			continue;
		r = take(c->sends, SENDS);
		if (!r)
			return NCCL_SUCCESS;
		if (size > c->cleared[at].buffers[i].size) /* as NCCL's own transport: the receiver has the last word */
			size = c->cleared[at].buffers[i].size;
		if (size > MAX_MESSAGE) {
			WARN("a message has at most %d bytes, not %zu", MAX_MESSAGE, size);
			return NCCL_INVALID_ARGUMENT;
		}
		if (!within(m, data, size))
			return NCCL_INVALID_ARGUMENT;
		*r = (struct request){
			.connection = c, .kind = SEND, .used = true, .addr = (uintptr_t)data, .size = size, .lkey = size ? m->mr->lkey : 0,
			.remote = c->cleared[at].buffers[i].addr, .rkey = c->cleared[at].buffers[i].rkey,
			.token = c->cleared[at].token, .sequence = c->cleared[at].sequence, .buffer = (uint16_t)i,
		};
		c->matched[at][i] = true;
		c->valid[at] = memchr(c->matched[at], false, c->cleared[at].count) != NULL;
		if (!c->valid[at])
			c->next_cleared++;
		c->queue[(c->queue_first + c->queue_count++) % SENDS] = (uint16_t)(r - c->sends);
		*request = r;
		dispatch(c, now_ns());
		return c->error;
	}
	return NCCL_SUCCESS;
}

nccl_result transfer_receive(struct connection *c, int n, void **data, const size_t *sizes, const int *tags, void **memories, void **request)
{
	struct clear_to_send *s;
	struct request *r;
	unsigned token;

	*request = NULL;
	if (c->sender)
		return NCCL_INVALID_ARGUMENT;
	if (n < 1 || n > MAX_RECEIVES) {
		WARN("a receive has 1 to %d buffers, not %d", MAX_RECEIVES, n);
		return NCCL_INVALID_ARGUMENT;
	}
	progress(c);
	if (c->error)
		return c->error;
	r = take(c->receives, RECEIVES);
	if (!r || c->lanes[0].count == 2 * RECEIVES)
		return NCCL_SUCCESS;
	token = (unsigned)(r - c->receives);
	s = &c->wire->receiver.leaving[token];
	*s = (struct clear_to_send){.sequence = c->sequence, .token = token, .count = n};
	for (int i = 0; i < n; i++) {
		struct memory *m = memories ? memories[i] : NULL;

		if (!within(m, data[i], sizes[i]))
			return NCCL_INVALID_ARGUMENT;
		s->buffers[i].addr = (uintptr_t)data[i];
		s->buffers[i].size = sizes[i];
		s->buffers[i].rkey = m ? m->mr->rkey : 0;
		s->buffers[i].tag = tags[i];
	}
	if (post(c, c->lanes[0].qp, IBV_WR_SEND, id(NOTICE, 0, 0), (uintptr_t)s, sizeof *s, c->wire_mr->lkey, 0, 0))
		return c->error;
	c->lanes[0].count++;
	*r = (struct request){.connection = c, .kind = RECEIVE, .used = true, .count = n, .sequence = c->sequence++};
	for (int i = 0; i < n; i++)
		r->buffers[i].room = sizes[i];
	*request = r;
	return NCCL_SUCCESS;
}

/* A Read of the last buffer with data, from this host's own memory, ends after all Writes before it. */
nccl_result transfer_flush(struct connection *c, int n, void **data, const int *sizes, void **memories, void **request)
{
	struct request *r;
	int last = -1;

	*request = NULL;
	if (c->sender)
		return NCCL_INVALID_ARGUMENT;
	for (int i = 0; i < n; i++)
		if (sizes[i] && memories[i] && ((struct memory *)memories[i])->gpu)
			last = i;
	if (last < 0)
		return NCCL_SUCCESS;
	progress(c);
	if (c->error)
		return c->error;
	if (!connection_flush_qp(c))
		return connection_fail(c, NCCL_SYSTEM_ERROR);
	r = take(c->flushes, RECEIVES);
	if (!r)
		return NCCL_SUCCESS;
	if (post(c, c->flush_qp, IBV_WR_RDMA_READ, id(FLUSHED, 0, (unsigned)(r - c->flushes)), (uintptr_t)c->wire->flushed, 1, c->wire_mr->lkey,
		 (uintptr_t)data[last], ((struct memory *)memories[last])->mr->rkey))
		return c->error;
	*r = (struct request){.connection = c, .kind = FLUSH, .used = true};
	*request = r;
	return NCCL_SUCCESS;
}

static bool finished(const struct request *r)
{
	switch (r->kind) {
	case SEND:
		return r->ended && !r->outstanding;
	case RECEIVE:
		return r->complete == r->count;
	default:
		return r->flushed;
	}
}

nccl_result transfer_test(struct request *r, int *done, int *sizes)
{
	struct connection *c = r->connection;

	*done = 0;
	if (!r->used) {
		WARN("test: the request is complete already");
		return NCCL_INVALID_ARGUMENT;
	}
	if (!finished(r))
		progress(c);
	if (!finished(r))
		return c->error;
	*done = 1;
	if (sizes && r->kind == SEND)
		sizes[0] = (int)r->size;
	if (sizes && r->kind == RECEIVE)
		for (int i = 0; i < r->count; i++)
			sizes[i] = (int)r->buffers[i].size;
	r->used = false;
	return NCCL_SUCCESS;
}
