/*
 * Messages. The receiver says by a Send which buffers it has (clear_to_send). The sender writes into them in pieces, each
 * on the queue pair that balance.c chooses, and ends a message by a Send on each queue pair that it has used
 * (message_end): a queue pair keeps order, so when the ends cover the message, all its pieces are there. What a queue pair
 * loses goes by others, as ledger.c says.
 *
 * A connection is one thread's at a time, as NCCL has it. Nothing here allocates or locks.
 */
#include "plugin.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages between hosts are little endian");

/* What a work request is, in its wr_id, with its lane, the lane's epoch and the number of a receive or flush. */
enum { ARRIVAL = 1, WORK = 2, FLUSHED = 3 };

enum { NOTES = 4 * MAX_QPS }; /* that are outstanding on a queue pair, besides messages' ends and buffers */

static uint64_t id(unsigned kind, unsigned lane, unsigned epoch, unsigned index)
{
	return (uint64_t)kind << 56 | (uint64_t)lane << 48 | (uint64_t)(epoch & 0xffff) << 32 | index;
}

unsigned transfer_sends(const struct connection *c)
{
	return (c->sender ? BALANCE_PIECES + SENDS : 2 * RECEIVES) + NOTES;
}

unsigned transfer_receives(const struct connection *c)
{
	const struct wire_lane *w = c->wire->lanes;

	return c->sender ? sizeof w->sender.arriving / sizeof *w->sender.arriving : sizeof w->arriving / sizeof *w->arriving;
}

_Static_assert(BALANCE_PIECES + SENDS + NOTES <= LEDGER_WORKS && 2 * RECEIVES + NOTES <= LEDGER_WORKS, "the ledger has room for all works");
_Static_assert((int)SENDS <= (int)LEDGER_MESSAGES, "the ledger has room for all messages");

bool transfer_room(const struct connection *c, unsigned lane)
{
	return c->ledger.lanes[lane].count < transfer_sends(c);
}

static bool post(struct connection *c, const struct device *d, struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->send_flags = IBV_SEND_SIGNALED;
	errno = ibv_post_send(qp, wr, &bad);
	if (!errno)
		return true;
	WARN("%s: queue pair %#x takes no request: %s", d->name, qp->qp_num, strerror(errno));
	connection_fail(c, NCCL_SYSTEM_ERROR);
	return false;
}

/* end_of fills in what an end on a queue pair says. */
static struct message_end *end_of(struct connection *c, unsigned lane, const struct ledger_work *w)
{
	struct message_end *e = &c->wire->lanes[lane].sender.ends[c->lanes[lane].ends++ % LEDGER_WORKS];
	const struct request *r = &c->sends[w->of];

	*e = (struct message_end){.kind = MESSAGE_END, .token = r->token, .sequence = r->sequence, .buffer = r->buffer, .size = r->size, .covers = w->size};
	return e;
}

bool transfer_post(struct connection *c, unsigned lane, struct ledger_work w)
{
	struct member *m = member_of(c, lane);
	struct lane *l = &c->lanes[lane];
	const struct request *r = &c->sends[w.of % SENDS];
	unsigned peer = lane % c->theirs.members;
	struct ibv_sge sge = {.lkey = m->wire_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id(WORK, lane, l->epoch, 0), .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	switch (w.kind) {
	case LEDGER_PIECE:
		sge = (struct ibv_sge){.addr = r->addr + w.offset, .length = (uint32_t)w.size, .lkey = r->memory->mr[lane % c->members]->lkey};
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = r->remote + w.offset;
		wr.wr.rdma.rkey = r->rkey[peer];
		break;
	case LEDGER_END:
		sge.addr = (uintptr_t)end_of(c, lane, &w);
		sge.length = sizeof(struct message_end);
		break;
	case LEDGER_NOTE:
		if (w.of < NOTE_CONTROL) {
			sge.addr = (uintptr_t)&c->wire->leaving[w.of];
			sge.length = sizeof *c->wire->leaving;
		} else {
			unsigned kind = (w.of - NOTE_CONTROL) / MAX_QPS, about = (w.of - NOTE_CONTROL) % MAX_QPS;

			sge.addr = (uintptr_t)&c->wire->lanes[about].control[kind];
			sge.length = sizeof(struct control);
		}
		break;
	case LEDGER_LOOK:
		sge.addr = (uintptr_t)&c->wire->lanes[w.of].read;
		sge.length = sizeof c->wire->lanes[w.of].read;
		wr.opcode = IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = be64toh(c->theirs.wire) + offsetof(struct wire, lanes) + w.of * sizeof *c->wire->lanes + offsetof(struct wire_lane, count);
		wr.wr.rdma.rkey = be32toh(c->theirs.rkey[peer]);
	}
	if (!post(c, m->device, l->qp, &wr))
		return false;
	ledger_posted(&c->ledger, lane, w);
	return true;
}

/* arriving is where a receive puts what comes. */
static struct ibv_sge arriving(const struct connection *c, unsigned lane, unsigned index)
{
	struct wire_lane *w = &c->wire->lanes[lane];

	if (c->sender)
		return (struct ibv_sge){.addr = (uintptr_t)&w->sender.arriving[index], .length = sizeof w->sender.arriving[index]};
	return (struct ibv_sge){.addr = (uintptr_t)&w->arriving[index], .length = sizeof w->arriving[index]};
}

static bool post_receive(struct connection *c, unsigned lane, unsigned index)
{
	struct member *m = member_of(c, lane);
	struct lane *l = &c->lanes[lane];
	struct ibv_sge sge = arriving(c, lane, index);
	struct ibv_recv_wr wr = {.wr_id = id(ARRIVAL, lane, l->epoch, index), .sg_list = &sge, .num_sge = 1}, *bad;

	sge.lkey = m->wire_mr->lkey;
	errno = ibv_post_recv(l->qp, &wr, &bad);
	if (!errno) {
		l->posted++;
		return true;
	}
	WARN("%s: queue pair %#x takes no receive: %s", m->device->name, l->qp->qp_num, strerror(errno));
	connection_fail(c, NCCL_SYSTEM_ERROR);
	return false;
}

bool transfer_start(struct connection *c, unsigned lane)
{
	for (unsigned i = 0; i < transfer_receives(c); i++)
		if (!post_receive(c, lane, i))
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

static void cleared(struct connection *c, const struct clear_to_send *s, uint32_t size)
{
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

/* fits reports whether an end says what it may of a message's buffer, and the same as other ends of it. */
static bool fits(const struct message_end *e, uint64_t size, uint64_t covered, uint64_t room, bool known)
{
	return e->size <= room && e->size <= MAX_MESSAGE && (!known || e->size == size) && e->covers <= e->size - covered && (e->covers || !e->size);
}

/* Nothing of what a peer says is believed: what NCCL is told of lies within what it has posted. */
static void ended(struct connection *c, const struct message_end *e, uint32_t size)
{
	struct request *r = size == sizeof *e && e->token < RECEIVES ? &c->receives[e->token] : NULL;
	unsigned i;

	if (!r || !r->used || r->sequence != e->sequence || e->buffer >= (unsigned)r->count || r->buffers[e->buffer].complete ||
	    !fits(e, r->buffers[e->buffer].size, r->buffers[e->buffer].covered, r->buffers[e->buffer].room, r->buffers[e->buffer].known)) {
		WARN("%s: the peer ends message %u, which is none, or is longer than its buffer", c->device->name, size == sizeof *e ? e->sequence : 0);
		connection_fail(c, NCCL_REMOTE_ERROR);
		return;
	}
	i = e->buffer;
	r->buffers[i].size = e->size;
	r->buffers[i].known = true;
	r->buffers[i].covered += e->covers;
	if (r->buffers[i].covered == e->size) {
		r->buffers[i].complete = true;
		r->complete++;
	}
}

static void arrived(struct connection *c, unsigned lane, unsigned index, uint32_t size)
{
	const void *at = (const void *)(uintptr_t)arriving(c, lane, index).addr;
	const struct control *m = at;
	uint32_t kind = size < sizeof kind ? 0 : *(const uint32_t *)at;

	c->wire->lanes[lane].count.arrived++;
	if (c->lanes[lane].state == LANE_PROBING)
		lanes_probed(c, lane);
	if (kind == CLEAR_TO_SEND && c->sender) {
		cleared(c, at, size);
	} else if (kind == MESSAGE_END && !c->sender) {
		ended(c, at, size);
	} else if (kind >= LANE_FAILED && kind <= LANE_PROBE && size == sizeof *m && m->lane < (unsigned)c->qps) {
		lanes_hear(c, m);
	} else {
		WARN("%s: the peer sends what is none of its messages, of %u bytes", c->device->name, size);
		connection_fail(c, NCCL_REMOTE_ERROR);
	}
}

static void completed(struct connection *c, unsigned lane, int64_t now)
{
	struct ledger_work w = ledger_done(&c->ledger, lane);

	if (w.kind == LEDGER_PIECE && c->lanes[lane].state == LANE_UP)
		balance_completed(&c->balance, lane, now);
	else if (w.kind == LEDGER_NOTE && w.of == note_of(LANE_PROBE, lane))
		lanes_probed(c, lane);
	else if (w.kind == LEDGER_LOOK)
		lanes_looked(c, w.of);
}

/* failed takes in a work that a queue pair did not do. Others go on if the path or the port is what has failed; what
 * a peer refused, or a device could not do, they would not do either. */
static void failed(struct connection *c, const struct ibv_wc *wc, unsigned kind, unsigned lane)
{
	bool path = wc->status == IBV_WC_WR_FLUSH_ERR || wc->status == IBV_WC_RETRY_EXC_ERR;

	if (kind != FLUSHED && path && settings.failover) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			INFO("%s: queue pair %#x: %s (vendor's error %#x)", member_of(c, lane)->device->name, wc->qp_num, ibv_wc_status_str(wc->status), wc->vendor_err);
		if (kind == WORK)
			c->lanes[lane].flushed++;
		lanes_fail(c, lane);
		return;
	}
	if (!c->error)
		WARN("%s: queue pair %#x: %s (vendor's error %#x)", c->device->name, wc->qp_num, ibv_wc_status_str(wc->status), wc->vendor_err);
	connection_fail(c, NCCL_REMOTE_ERROR);
}

static void completion(struct connection *c, const struct ibv_wc *wc, int64_t now)
{
	unsigned kind = wc->wr_id >> 56, lane = wc->wr_id >> 48 & 0xff, epoch = wc->wr_id >> 32 & 0xffff, index = wc->wr_id & 0xffffffff;
	struct lane *l = &c->lanes[lane];

	if (kind != FLUSHED && (!l->qp || epoch != (l->epoch & 0xffff)))
		return; /* of a queue pair that is no more */
	if (kind == ARRIVAL)
		l->posted--;
	if (wc->status != IBV_WC_SUCCESS) {
		failed(c, wc, kind, lane);
		return;
	}
	switch (kind) {
	case WORK:
		completed(c, lane, now);
		break;
	case FLUSHED:
		c->flushes[index].reads--;
		break;
	default:
		arrived(c, lane, index, wc->byte_len);
		if (l->state == LANE_UP || l->state == LANE_PROBING)
			post_receive(c, lane, index);
	}
}

/* ---- what leaves */

/* end posts the ends of a message whose pieces are all posted, as far as queue pairs take them. */
static void end(struct connection *c, unsigned message)
{
	struct request *r = &c->sends[message];
	struct ledger_work w = {.kind = LEDGER_END, .of = message};
	bool was = r->waiting;

	for (int any = 0; any < 2; any++)
		for (int k = 0; k < c->qps && !c->error; k++) {
			unsigned i = any ? (c->balance.turn + k) % c->qps : (unsigned)k;

			if (c->lanes[i].state == LANE_UP && transfer_room(c, i) && ledger_end(&c->ledger, i, message, any, &w.size))
				transfer_post(c, i, w);
		}
	r->waiting = !c->ledger.messages[message].ended;
	c->waiting += r->waiting - was;
}

/* ends goes on with messages whose ends could not be posted, or were lost. */
static void ends(struct connection *c)
{
	for (int i = 0; i < SENDS && c->waiting && !c->error; i++)
		if (c->sends[i].waiting)
			end(c, i);
}

void transfer_resume(struct connection *c)
{
	c->waiting = 0;
	for (int i = 0; i < SENDS; i++) {
		const struct ledger_message *m = &c->ledger.messages[i];

		c->sends[i].waiting = c->sends[i].used && m->posted == m->size && !m->ended;
		c->waiting += c->sends[i].waiting;
	}
}

/* repeat posts again what queue pairs have lost. It returns false while there is more. */
static bool repeat(struct connection *c, int64_t now)
{
	const struct ledger_work *next;

	while (!c->error && (next = ledger_repeat(&c->ledger)) != NULL) {
		struct ledger_work w = *next;
		bool piece = w.kind == LEDGER_PIECE;
		int lane = piece ? balance_choose(&c->balance, w.size, now) : lanes_send(c);

		if (lane < 0 || !transfer_room(c, lane))
			return false;
		ledger_repeated(&c->ledger);
		if (w.kind == LEDGER_NOTE && w.of >= NOTE_CONTROL)
			continue; /* lanes.c has said it again */
		if (transfer_post(c, lane, w) && piece)
			balance_posted(&c->balance, lane, w.size, now);
	}
	return !c->error;
}

/* dispatch posts pieces, of the oldest messages first, while queue pairs have room. */
static void dispatch(struct connection *c, int64_t now)
{
	while (c->queue_count && !c->error) {
		unsigned message = c->queue[c->queue_first % SENDS];
		struct ledger_message *m = &c->ledger.messages[message];

		while (m->posted < m->size) {
			uint64_t left = m->size - m->posted, size = left < c->balance.piece ? left : c->balance.piece;
			int path = balance_choose(&c->balance, size, now);

			if (path < 0 || !transfer_room(c, path) ||
			    !transfer_post(c, path, (struct ledger_work){.kind = LEDGER_PIECE, .of = message, .offset = m->posted, .size = size}))
				return;
			balance_posted(&c->balance, path, size, now);
		}
		end(c, message);
		c->queue_first++;
		c->queue_count--;
	}
}

/* look finds out whether the peer's socket is still open. One that the network has taken, not the peer, says nothing of
 * queue pairs by other ports. */
static void look(struct connection *c, int64_t now)
{
	char byte;
	ssize_t n;

	if (now - c->looked < LIVENESS || c->lost || c->deaf)
		return;
	c->looked = now;
	n = recv(c->fd, &byte, 1, 0);
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	if (!n || errno == ECONNRESET || !settings.failover)
		c->lost = now;
	else
		c->deaf = true;
}

static int poll(struct connection *c, struct member *m, int64_t now)
{
	struct ibv_wc wc[16];
	int n, all = 0;

	do {
		n = ibv_poll_cq(m->cq, 16, wc);
		if (n < 0) {
			WARN("%s: its completion queue can't be polled", m->device->name);
			connection_fail(c, NCCL_SYSTEM_ERROR);
			return all;
		}
		for (int i = 0; i < n; i++)
			completion(c, &wc[i], now);
		all += n;
	} while (n == 16);
	return all;
}

static void progress(struct connection *c)
{
	int64_t now = now_ns();
	int all = 0;

	for (int i = 0; i < c->members; i++)
		all += poll(c, &c->member[i], now);
	if (c->troubled || c->deaf)
		lanes_progress(c, now);
	if (repeat(c, now) && c->sender) {
		ends(c);
		dispatch(c, now);
	}
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
			.connection = c, .kind = SEND, .used = true, .addr = (uintptr_t)data, .size = size, .memory = m,
			.remote = c->cleared[at].buffers[i].addr,
			.token = c->cleared[at].token, .sequence = c->cleared[at].sequence, .buffer = (uint16_t)i,
		};
		memcpy(r->rkey, c->cleared[at].buffers[i].rkey, sizeof r->rkey);
		ledger_begin(&c->ledger, (unsigned)(r - c->sends), size);
		c->matched[at][i] = true;
		c->valid[at] = memchr(c->matched[at], false, c->cleared[at].count) != NULL;
		if (!c->valid[at])
			c->next_cleared++;
		c->queue[(c->queue_first + c->queue_count++) % SENDS] = (uint16_t)(r - c->sends);
		*request = r;
		if (!ledger_repeat(&c->ledger))
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
	int lane;

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
	lane = lanes_send(c);
	if (!r || lane < 0)
		return NCCL_SUCCESS;
	token = (unsigned)(r - c->receives);
	s = &c->wire->leaving[token];
	*s = (struct clear_to_send){.kind = CLEAR_TO_SEND, .sequence = c->sequence, .token = token, .count = n};
	for (int i = 0; i < n; i++) {
		struct memory *m = memories ? memories[i] : NULL;

		if (!within(m, data[i], sizes[i]))
			return NCCL_INVALID_ARGUMENT;
		s->buffers[i].addr = (uintptr_t)data[i];
		s->buffers[i].size = sizes[i];
		for (int k = 0; m && k < c->members; k++)
			s->buffers[i].rkey[k] = m->mr[k]->rkey;
		s->buffers[i].tag = tags[i];
	}
	if (!transfer_post(c, lane, (struct ledger_work){.kind = LEDGER_NOTE, .of = token}))
		return c->error;
	*r = (struct request){.connection = c, .kind = RECEIVE, .used = true, .count = n, .sequence = c->sequence++};
	for (int i = 0; i < n; i++)
		r->buffers[i].room = sizes[i];
	*request = r;
	return NCCL_SUCCESS;
}

/* A Read of the last buffer with data, from this host's own memory, ends after all Writes of its device before it. */
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
	r = take(c->flushes, RECEIVES);
	if (!r)
		return NCCL_SUCCESS;
	*r = (struct request){.connection = c, .kind = FLUSH, .used = true};
	for (int i = 0; i < c->members; i++) {
		struct member *m = &c->member[i];
		struct ibv_sge sge = {.addr = (uintptr_t)c->wire->flushed, .length = 1, .lkey = m->wire_mr->lkey};
		struct ibv_send_wr wr = {
			.wr_id = id(FLUSHED, 0, 0, (unsigned)(r - c->flushes)), .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
			.wr.rdma = {.remote_addr = (uintptr_t)data[last], .rkey = ((struct memory *)memories[last])->mr[i]->rkey},
		};

		if (!connection_flush_qp(c, m))
			return connection_fail(c, NCCL_SYSTEM_ERROR);
		if (!post(c, m->device, m->flush_qp, &wr))
			return c->error;
		r->reads++;
	}
	*request = r;
	return NCCL_SUCCESS;
}

static bool finished(const struct request *r)
{
	switch (r->kind) {
	case SEND:
		return ledger_finished(&r->connection->ledger, (unsigned)(r - r->connection->sends));
	case RECEIVE:
		return r->complete == r->count;
	default:
		return !r->reads;
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
