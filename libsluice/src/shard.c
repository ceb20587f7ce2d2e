/* What each segment costs: posting, completions, and what is due. */
#define _GNU_SOURCE
#include "shim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>

/* The name of a segment: its queue pair's index, a generation that a reset advances, and
 * its number in the queue pair's table. */
enum { INDEX_SHIFT = 40, POLL_BATCH = 32 };
static const uint64_t kick_wr_id = UINT64_MAX;

/* ---- the lock */

void sl_lock(struct sl_shard *s, int *state)
{
	*state = sl_enter();
	pthread_mutex_lock(&s->lock);
}

bool sl_try_lock(struct sl_shard *s, int *state)
{
	*state = sl_enter();
	if (!pthread_mutex_trylock(&s->lock))
		return true;
	sl_leave(*state);
	return false;
}

static bool has_work(struct sl_shard *s)
{
	if (!s->outlets)
		return false;
	if (sluice_core_in_flight(&s->core) > 0 || sluice_core_filed(&s->core) > 0)
		return true;
	for (struct sl_hidden *h = s->hidden; h; h = h->next)
		if (h->in_flight > 0 || h->stale)
			return true;
	return false;
}

void sl_unlock(struct sl_shard *s, int state)
{
	bool busy = has_work(s);
	if (busy != __atomic_load_n(&s->busy, __ATOMIC_RELAXED))
		SL_ATOMIC_SET(s->busy, busy);
	if (s->threaded && s->outlets)
		sl_thread_alert(s);
	pthread_mutex_unlock(&s->lock);
	sl_leave(state);
}

/* Without the lock for a while. */
static void give_up(struct sl_shard *s) { pthread_mutex_unlock(&s->lock); }
static void take_again(struct sl_shard *s) { pthread_mutex_lock(&s->lock); }

void sl_look(struct sl_shard *s, struct sl_now *now)
{
	int64_t ns = sl_clock();
	if (ns < s->last)
		ns = s->last;
	s->last = now->ns = ns;
	now->t = sluice_core_now(&s->core, sl_long_time(ns));
}

sluice_time sl_deadline(struct sl_shard *s)
{
	sluice_time due = sluice_core_next_due(&s->core);
	if (s->stamped && (sluice_core_in_flight(&s->core) > 0 || due != SLUICE_NEVER)) {
		sluice_time read = sluice_calibration_next_sample(&s->calibration);
		sluice_time again = sluice_core_instant(&s->core, sl_long_time(SL_ATOMIC_GET(s->dev->read_again)));
		read = read < again ? again : read;
		due = due < read ? due : read;
	}
	return due;
}

/* ---- the NIC's clock */

/* Takes the readings that the shard's calibration lacks, and a new one if it is time. */
static void calibrate(struct sl_shard *s, struct sl_now *now)
{
	struct sl_device *d = s->dev;
	if (!s->stamped)
		return;
	if (now->t >= sluice_calibration_next_sample(&s->calibration) && SL_ATOMIC_GET(d->count) == s->readings &&
	    now->ns >= SL_ATOMIC_GET(d->read_again))
		sl_read_counter(d);
	uint64_t count = SL_ATOMIC_GET(d->count);
	if (s->readings == count)
		return;
	if (count - s->readings > SL_READINGS)
		s->readings = count - SL_READINGS;
	sl_look(s, now);
	for (; s->readings < count; s->readings++) {
		struct sl_reading r;
		if (sl_reading_at(d, s->readings, &r))
			sluice_calibration_add(&s->calibration, (struct sluice_calibration_sample){
				.host_before = sluice_core_instant(&s->core, sl_long_time(r.before)), .nic = r.ticks,
				.host_after = sluice_core_instant(&s->core, sl_long_time(r.after)),
			});
	}
	if (sluice_calibration_next_sample(&s->calibration) <= now->t)
		SL_ATOMIC_SET(d->read_again, now->ns + 1000000); /* a reading of no use */
}

/* ---- completions */

static struct sl_qp *named(struct sl_shard *s, uint64_t wr_id)
{
	uint64_t i = wr_id >> INDEX_SHIFT;
	struct sl_qp *q = i < s->n_qps ? s->qps[i] : NULL;
	return q && sluice_core_qp_named(&q->core, wr_id) ? q : NULL;
}

static void fail_qp(struct sl_qp *q, sluice_time now) { sluice_core_qp_fail(&q->core, now); }

/* Takes one completion of the device. */
static void complete(struct sl_hidden *h, const struct sl_now *now, const struct sluice_verbs_wc *wc)
{
	struct sl_shard *s = h->shard;
	if (wc->wrid == kick_wr_id) {
		h->kicked = false;
		h->in_flight--;
		return;
	}
	struct sl_qp *q = named(s, wc->wrid);
	if (!q)
		return; /* of a queue pair that is gone */
	struct sluice_core_qp_complete_result r = sluice_core_qp_complete(&q->core, wc, &h->sample.segment);
	if (!r.ok)
		return;
	h->in_flight -= r.done;
	if (wc->status == IBV_WC_SUCCESS) {
		sluice_core_measure(&s->core, now->t, &q->core, wc, &h->sample);
		if (h->sample.rtt > 0)
			sl_rtt_add(q, h->sample.rtt);
		if (h->sample.marks & SLUICE_CORE_CUT)
			q->cuts++;
	} else {
		fail_qp(q, now->t);
	}
	sl_finish(q, true);
	sluice_core_qp_file(&q->core, now->t);
}

/* Completions of a hidden CQ: their number, or a negative errno. */
static int poll_hidden(struct sl_hidden *h, struct sluice_verbs_wc *out, int n)
{
	struct ibv_cq_ex *x = h->ex;
	if (!x) {
		struct ibv_wc wc[POLL_BATCH];
		int got = h->shard->dev->calls->ibv.poll_cq(h->cq, n, wc);
		if (got < 0)
			return -EIO; /* the number says nothing: drivers differ */
		for (int i = 0; i < got; i++) {
			out[i].wrid = wc[i].wr_id;
			out[i].status = (uint8_t)wc[i].status;
			out[i].vendor_err = wc[i].status == IBV_WC_SUCCESS ? 0 : wc[i].vendor_err;
			out[i].timestamp = 0;
		}
		return got;
	}
	struct ibv_poll_cq_attr attr = {0};
	int r = ibv_start_poll(x, &attr);
	if (r)
		return r == ENOENT || r == EBUSY ? 0 : -sl_code(r);
	int got = 0;
	do {
		struct sluice_verbs_wc *o = &out[got++];
		o->wrid = x->wr_id;
		o->status = (uint8_t)x->status;
		bool good = x->status == IBV_WC_SUCCESS;
		o->vendor_err = good ? 0 : ibv_wc_read_vendor_err(x);
		o->timestamp = good ? ibv_wc_read_completion_ts(x) : 0;
	} while (got < n && !ibv_next_poll(x));
	ibv_end_poll(x);
	return got;
}

int sl_turn(struct sl_shard *s)
{
	if (!s->outlets)
		return 0; /* of no CQ any more */
	struct sl_now now;
	bool fresh = false; /* nothing that takes time since the last reading */
	s->unread = 0;
	bool filed = sluice_core_filed(&s->core) > 0;
	if (filed || (s->stamped && sluice_core_in_flight(&s->core) > 0)) {
		sl_look(s, &now);
		fresh = true;
		calibrate(s, &now);
		/* What is due by now goes before what the completions below let go, which the
		 * limiter will hear of at a later time. */
		if (filed)
			sl_release(s, &now);
	}
	int failed = 0;
	for (struct sl_hidden *h = s->hidden; h; h = h->next) {
		if (h->in_flight == 0 && !h->stale)
			continue;
		for (;;) {
			struct sluice_verbs_wc wc[POLL_BATCH];
			int n = poll_hidden(h, wc, POLL_BATCH);
			if (n < 0) {
				failed = failed ? failed : -n;
				break;
			}
			if (n > 0) {
				/* Also after a reading before the poll: what was polled is at least
				 * as old as the poll, which no round trip may leave out. */
				sl_look(s, &now);
				fresh = true;
			}
			for (int i = 0; i < n; i++)
				complete(h, &now, &wc[i]);
			if (n < POLL_BATCH)
				break;
		}
		h->stale = false;
	}
	if (sluice_core_filed(&s->core) > 0) {
		if (!fresh)
			sl_look(s, &now);
		sl_release(s, &now);
	}
	if (s->doomed)
		sl_bury(s);
	return failed;
}

/* ---- what is due */

static uint8_t refusal(int err)
{
	switch (err) {
	case EFAULT:
		return IBV_WC_LOC_PROT_ERR;
	case EINVAL:
	case EOPNOTSUPP:
	case ENOSYS:
	case ERANGE:
		return IBV_WC_LOC_QP_OP_ERR;
	}
	return IBV_WC_GENERAL_ERR;
}

static void doom(struct sl_qp *q)
{
	if (q->doomed)
		return;
	q->doomed = true;
	q->next_doomed = q->shard->doomed;
	q->shard->doomed = q;
}

void sl_doom(struct sl_qp *q)
{
	struct sl_now now;
	sl_look(q->shard, &now);
	fail_qp(q, now.t);
	doom(q);
}

/* Posts what one queue pair has to send. */
static void post_batch(struct sl_shard *s, const struct sl_now *now, struct sluice_core_batch *b)
{
	struct sl_qp *q = s->qps[sluice_core_qp_index(b->qp)];
	int n = (int)b->wrs.len;
	for (int i = 0; i < n; i++) {
		const struct sluice_verbs_send_wr *from = &b->wrs.at[i];
		struct ibv_send_wr *to = &s->wr[i];
		to->wr_id = from->wrid;
		to->opcode = (enum ibv_wr_opcode)from->opcode;
		to->send_flags = from->flags;
		if (from->flags & IBV_SEND_INLINE) {
			s->sge[i] = (struct ibv_sge){.addr = (uintptr_t)from->inline_.at, .length = (uint32_t)from->inline_.len};
			to->sg_list = &s->sge[i];
			to->num_sge = from->inline_.len > 0;
		} else {
			to->sg_list = (struct ibv_sge *)from->sgl.at;
			to->num_sge = (int)from->sgl.len;
		}
		switch (from->opcode) {
		case IBV_WR_ATOMIC_CMP_AND_SWP:
		case IBV_WR_ATOMIC_FETCH_AND_ADD:
			to->wr.atomic.remote_addr = from->remote_addr;
			to->wr.atomic.compare_add = from->compare_add;
			to->wr.atomic.swap = from->swap;
			to->wr.atomic.rkey = from->r_key;
			break;
		case IBV_WR_SEND_WITH_IMM:
			to->imm_data = htonl(from->imm);
			break;
		case IBV_WR_SEND_WITH_INV:
		case IBV_WR_LOCAL_INV:
			to->invalidate_rkey = from->imm;
			break;
		case IBV_WR_RDMA_WRITE_WITH_IMM:
			to->imm_data = htonl(from->imm);
			/* fallthrough */
		default:
			to->wr.rdma.remote_addr = from->remote_addr;
			to->wr.rdma.rkey = from->r_key;
		}
		to->next = i + 1 < n ? to + 1 : NULL;
	}
	struct ibv_send_wr *bad = s->wr;
	struct sluice_core_refusal why = {0};
	int taken = n;
	int r = sl_code(q->calls->ibv.post_send(q->qp, s->wr, &bad));
	if (r) {
		taken = bad >= s->wr && bad < s->wr + n ? (int)(bad - s->wr) : 0;
		why.full = r == ENOMEM;
		why.status = refusal(r);
	}
	struct sluice_core_posted_result p = sluice_core_posted(&s->core, now->t, b, taken, why);
	q->bytes += (uint64_t)p.bytes;
	q->segments += (uint64_t)taken;
	q->hidden->in_flight += taken;
	if (p.failed)
		doom(q);
}

void sl_release(struct sl_shard *s, struct sl_now *now)
{
	for (;;) {
		int64_t n = sluice_core_due(&s->core, now->t);
		if (!n)
			return;
		struct sluice_core_batch b;
		struct sluice_core_next_result r = sluice_core_next(&s->core, 0, &b);
		for (; r.ok; r = sluice_core_next(&s->core, r.next, &b))
			post_batch(s, now, &b);
		if (n < s->core.cfg.batch)
			return;
		sl_look(s, now);
	}
}

/* Requests at the device must complete, and the peer's requests must stop, as after any
 * failure. If the device refuses this too, its queue pair is in no state to hold any. */
void sl_bury(struct sl_shard *s)
{
	struct sl_qp *q;
	while ((q = s->doomed)) {
		s->doomed = q->next_doomed;
		q->doomed = false;
		q->used++; /* nobody frees it meanwhile */
		give_up(s);
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
		q->calls->ibv.modify_qp(q->qp, &a, IBV_QP_STATE);
		take_again(s);
		q->used--;
		sl_finish(q, false);
	}
}

/* An event on the channel of a queue pair in error. Where its queue has no room for one
 * request more, what fills the queue makes events. */
static void kick(struct sl_qp *q)
{
	struct sl_hidden *h = q->hidden;
	if (h->kicked)
		return;
	struct ibv_send_wr wr = {.wr_id = kick_wr_id, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
	if (q->calls->ibv.post_send(q->qp, &wr, &bad))
		return;
	h->kicked = true;
	h->in_flight++;
}

void sl_finish(struct sl_qp *q, bool from_nic)
{
	struct sl_outlet *o = q->outlet;
	const struct sluice_verbs_wc *wc;
	while ((wc = sluice_completions_queue_push(&o->done, &q->core.table))) {
		if (!o->ready)
			SL_ATOMIC_SET(o->ready, true);
		if (o->armed == SL_ARMED_ANY || (o->armed == SL_ARMED_SOLICITED && wc->status != IBV_WC_SUCCESS)) {
			sl_fire(o);
			if (!from_nic && o->cq->channel)
				kick(q);
		}
	}
}

/* ---- posting */

enum {
	MOST_INLINE = 1 << 16,
	MOST_UNREAD = 8, /* posts in a row without a reading of the clock, and so without what is due */
};

/* Makes to of a request. It keeps pointers into the program's memory, which the core does
 * not. 0, or an errno value with words. */
static int read_request(const struct ibv_send_wr *wr, struct sluice_verbs_send_wr *to, uint8_t *room, size_t size)
{
	if (wr->opcode > IBV_WR_SEND_WITH_INV || wr->opcode == IBV_WR_BIND_MW)
		return sl_fail(EINVAL, "post_send: an opcode that is not paced: use RDMA Writes and Reads, Sends and atomics");
	if (wr->num_sge < 0 || (wr->num_sge > 0 && !wr->sg_list))
		return sl_fail(EINVAL, "post_send: sg_list is NULL, or num_sge negative");
	to->wrid = wr->wr_id;
	to->opcode = (uint8_t)wr->opcode;
	to->flags = wr->send_flags & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE);
	to->ah = NULL;
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		to->remote_addr = wr->wr.atomic.remote_addr;
		to->r_key = wr->wr.atomic.rkey;
		to->compare_add = wr->wr.atomic.compare_add;
		to->swap = wr->wr.atomic.swap;
	} else {
		to->remote_addr = wr->wr.rdma.remote_addr;
		to->r_key = wr->wr.rdma.rkey;
		to->compare_add = to->swap = 0;
	}
	bool imm = wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	to->imm = imm ? ntohl(wr->imm_data) : wr->invalidate_rkey;
	to->sgl = (struct sluice_verbs_sge_slice){0};
	to->inline_ = (struct sluice_uint8_slice){0};
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		if (wr->num_sge > 0) /* else it may hold anything */
			to->sgl = (struct sluice_verbs_sge_slice){(struct sluice_verbs_sge *)wr->sg_list, wr->num_sge, wr->num_sge};
		return 0;
	}
	size_t n = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];
		if (sge->length > MOST_INLINE || (n += sge->length) > MOST_INLINE)
			return sl_fail(EINVAL, "post_send: more inline data than any queue pair takes");
		if (sge->length && !sge->addr)
			return sl_fail(EINVAL, "post_send: inline data at address 0");
	}
	if (wr->num_sge == 1) {
		to->inline_ = (struct sluice_uint8_slice){n ? (uint8_t *)(uintptr_t)wr->sg_list->addr : NULL, (int64_t)n, (int64_t)n};
		return 0;
	}
	if (n > size) /* the check by the queue pair's capacity refuses it, and reads nothing */
		to->inline_ = (struct sluice_uint8_slice){room, (int64_t)n, (int64_t)n};
	else {
		size_t at = 0;
		for (int i = 0; i < wr->num_sge; i++) {
			if (wr->sg_list[i].length)
				memcpy(room + at, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
			at += wr->sg_list[i].length;
		}
		to->inline_ = (struct sluice_uint8_slice){room, (int64_t)n, (int64_t)n};
	}
	return 0;
}

/* What is wrong with a request, in words. */
static int wrong(const struct sl_qp *q, const struct sluice_verbs_send_wr *wr)
{
	const char *object = q->shard->dev->name;
	uint32_t n = q->qp->qp_num;
	int64_t length = wr->flags & IBV_SEND_INLINE ? wr->inline_.len : 0;
	for (int64_t i = 0; !(wr->flags & IBV_SEND_INLINE) && i < wr->sgl.len; i++)
		length += wr->sgl.at[i].length;
	if (wr->flags & IBV_SEND_INLINE) {
		if (length > (int64_t)q->cap.max_inline_data)
			return sl_fail(EINVAL, "post_send qp %u of %s: %lld bytes inline: the queue pair was made for %u", n, object, (long long)length, q->cap.max_inline_data);
		return sl_fail(EINVAL, "post_send qp %u of %s: it can't be inline: it sends no data", n, object);
	}
	if (wr->sgl.len > (int64_t)q->cap.max_send_sge)
		return sl_fail(EINVAL, "post_send qp %u of %s: %lld SGEs: the queue pair was made for %u", n, object, (long long)wr->sgl.len, q->cap.max_send_sge);
	if (length > 1ll << 31)
		return sl_fail(EINVAL, "post_send qp %u of %s: a message of %lld bytes: at most %lld fit", n, object, (long long)length, 1ll << 31);
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		if (length != 8)
			return sl_fail(EINVAL, "post_send qp %u of %s: an atomic returns 8 bytes, and the request has room for %lld", n, object, (long long)length);
		if (wr->remote_addr % 8)
			return sl_fail(EINVAL, "post_send qp %u of %s: an atomic at %#llx: the remote address must be a multiple of 8", n, object, (unsigned long long)wr->remote_addr);
	}
	return sl_fail(EINVAL, "post_send qp %u of %s: opcode %d, which the queue pair does not have: connect it with max_rd_atomic above 0 for Reads and atomics", n, object, wr->opcode);
}

int sl_post(struct sl_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad, bool whole)
{
	struct sl_shard *s = q->shard;
	struct ibv_send_wr *first = wr;
	uint8_t room[1024];
	struct sluice_verbs_send_wr one;
	struct sl_now now = {0};
	int state, r = 0;
	sl_lock(s, &state);
	/* A queue pair whose next segment waits for its time has nothing that can leave now. */
	bool looks = !sluice_core_qp_filed(&q->core) || s->unread == MOST_UNREAD;
	if (looks)
		sl_look(s, &now);
	s->unread = looks ? 0 : s->unread + 1;
	switch (sluice_core_qp_state(&q->core)) {
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
		break;
	default:
		r = sl_fail(EINVAL, "post_send qp %u of %s: the queue pair is in state %d: take it to RTS", q->qp->qp_num, s->dev->name,
			    (int)sluice_core_qp_state(&q->core));
		goto out;
	}
	if (looks && sluice_core_filed(&s->core) > 0)
		sl_release(s, &now);
	if (whole) {
		int64_t n = 0;
		for (; wr; wr = wr->next, n++) {
			r = read_request(wr, &one, room, sizeof(room));
			if (!r && sluice_core_qp_check(&q->core, &one))
				r = wrong(q, &one);
			if (r)
				goto out;
		}
		if (n > sluice_core_qp_room(&q->core)) {
			r = ENOMEM;
			goto out;
		}
		if (sl_failing && (r = sl_fail_post(q, n)))
			goto out;
		wr = first;
	}
	bool some = false;
	for (; wr; wr = wr->next) {
		r = read_request(wr, &one, room, sizeof(room));
		if (r)
			break;
		if (sluice_core_qp_check(&q->core, &one)) {
			r = wrong(q, &one);
			break;
		}
		if (sl_failing && !whole && (r = sl_fail_post(q, 1)))
			break;
		if (!sluice_core_qp_accept(&q->core, &one)) {
			r = ENOMEM;
			break;
		}
		if (sl_failing)
			q->fate.posted++;
		some = true;
	}
	if (some) {
		if (sluice_core_qp_state(&q->core) == IBV_QPS_ERR) {
			sl_finish(q, false);
		} else if (!sluice_core_qp_filed(&q->core)) {
			sluice_core_qp_offer(&q->core, now.t);
			sl_release(s, &now);
		}
	}
out:
	if (s->doomed) {
		q->used++;
		sl_bury(s);
		q->used--;
	}
	sl_unlock(s, state);
	if (r && bad)
		*bad = wr ? wr : first;
	return r;
}

/* ---- polling */

static int pop(struct sl_outlet *o, int n, struct ibv_wc *out)
{
	int done = 0;
	while (done < n) {
		struct sluice_verbs_wc wc[POLL_BATCH];
		int want = n - done < POLL_BATCH ? n - done : POLL_BATCH;
		int got = (int)sluice_completions_queue_pop(&o->done, (struct sluice_verbs_wc_slice){wc, want, want});
		if (sl_failing)
			sl_fail_completed(o->shard, wc, got);
		for (int i = 0; i < got; i++)
			out[done++] = (struct ibv_wc){
				.wr_id = wc[i].wrid, .status = (enum ibv_wc_status)wc[i].status, .opcode = (enum ibv_wc_opcode)wc[i].opcode,
				.vendor_err = wc[i].vendor_err, .byte_len = wc[i].byte_len, .qp_num = wc[i].qpn, .wc_flags = wc[i].flags,
			};
		if (got < want)
			break;
	}
	if (o->ready && o->done.head == o->done.tail)
		SL_ATOMIC_SET(o->ready, false);
	return done;
}

int sl_poll_sends(struct sl_cq *c, int n, struct ibv_wc *wc)
{
	int done = 0;
	uint32_t outlets = SL_ATOMIC_GET(c->n);
	for (uint32_t i = 0; i < outlets; i++) {
		struct sl_outlet *o = c->outlet[i];
		struct sl_shard *s = o->shard;
		if (!SL_ATOMIC_GET(s->busy) && !SL_ATOMIC_GET(o->ready))
			continue;
		int state;
		sl_lock(s, &state);
		int r = sl_turn(s);
		if (!r)
			done += pop(o, n - done, wc + done);
		if (s->doomed) /* by a failure that was asked for */
			sl_bury(s);
		sl_unlock(s, state);
		if (r && !done)
			return -sl_fail(r, "poll_cq %s: the device's CQ of segments can't be polled", c->dev->name);
	}
	return done;
}

enum {
	HELP_EVERY = 5000, /* nanoseconds */
	HELP_AT_ONCE = 8,
};

void sl_help(struct sl_device *d)
{
	int64_t now = sl_clock(), last = __atomic_load_n(&d->helped, __ATOMIC_RELAXED);
	if (now - last < HELP_EVERY)
		return;
	int state = sl_enter();
	if (pthread_mutex_trylock(&d->list)) {
		sl_leave(state);
		return;
	}
	__atomic_store_n(&d->helped, now, __ATOMIC_RELAXED);
	uint32_t n = d->n_shards < HELP_AT_ONCE ? d->n_shards : HELP_AT_ONCE;
	for (uint32_t i = 0; i < n; i++) {
		struct sl_shard *s = d->help ? d->help : d->shards;
		if (!s)
			break;
		d->help = s->next;
		int inner;
		if (!SL_ATOMIC_GET(s->busy) || !sl_try_lock(s, &inner))
			continue;
		sl_turn(s);
		sl_unlock(s, inner);
	}
	pthread_mutex_unlock(&d->list);
	sl_leave(state);
}
