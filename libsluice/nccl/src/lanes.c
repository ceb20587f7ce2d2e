/*
 * Queue pairs that fail, and come back. What the two ends say to each other of one goes over the others, and names which of
 * a lane's queue pairs (epochs) it is about. So it does not matter in which order it arrives, or how often: when one
 * fails that may have lost such a word, it is said again at once. Waiting for the peer's word on that one, as messages do,
 * two ends could wait for each other.
 */
#include "plugin.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum {
	DRAIN = 1000000000,    /* ns: how long what was posted may take to come back from a queue pair in ERR */
	LOOK = 10000000,       /* ns: how often the peer's count is read while its word is waited for */
	MOST_WAIT = 16,        /* times the first wait, between two offers */
	TRY = 1000000000,      /* ns: how often a peer whose socket is of no use is tried */
};

static const char *const state_names[] = {"up", "draining", "down", "resting", "offered", "probing"};

static void become(struct connection *c, unsigned lane, enum lane_state state)
{
	struct lane *l = &c->lanes[lane];

	c->troubled += (l->state == LANE_UP) - (state == LANE_UP);
	l->state = state;
	l->since = now_ns();
}

static void destroy(struct connection *c, unsigned lane)
{
	if (c->lanes[lane].qp)
		ibv_destroy_qp(c->lanes[lane].qp);
	c->lanes[lane].qp = NULL;
}

int lanes_send(const struct connection *c)
{
	for (int i = 0; i < c->qps; i++)
		if (c->lanes[i].state == LANE_UP && transfer_room(c, i))
			return i;
	return -1;
}

static bool any_up(const struct connection *c)
{
	return c->troubled < c->qps;
}

/* repeat_words marks what a queue pair may have lost of control messages. */
static void repeat_words(struct connection *c, unsigned lane)
{
	const struct ledger_lane *l = &c->ledger.lanes[lane];

	for (uint32_t i = 0; i < l->count; i++) {
		const struct ledger_work *w = &l->works[(l->first + i) % LEDGER_WORKS];

		if (w->kind == LEDGER_NOTE && w->of >= note_of(LANE_FAILED, 0) && w->of < note_of(LANE_PROBE, 0))
			c->lanes[(w->of - NOTE_CONTROL) % MAX_QPS].again |= 1u << (w->of - NOTE_CONTROL) / MAX_QPS;
	}
}

/* again says again what is marked of a lane. */
static void again(struct connection *c, unsigned lane)
{
	struct lane *l = &c->lanes[lane];

	for (unsigned kind = LANE_FAILED; kind < LANE_PROBE && l->again; kind++) {
		int by = lanes_send(c);

		if (l->again >> kind & 1 && by >= 0 && transfer_post(c, by, (struct ledger_work){.kind = LEDGER_NOTE, .of = note_of(kind, lane)}))
			l->again &= ~(1u << kind);
	}
}

void lanes_fail(struct connection *c, unsigned lane)
{
	struct lane *l = &c->lanes[lane];
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (l->state == LANE_DRAINING || l->state == LANE_DOWN || l->state == LANE_RESTING)
		return;
	INFO("%s: queue pair %#x (%u of %d, was %s) is given up", member_of(c, lane)->device->name, l->qp->qp_num, lane, c->qps, state_names[l->state]);
	if (ibv_modify_qp(l->qp, &attr, IBV_QP_STATE))
		INFO("%s: queue pair %#x does not go to ERR: %s", member_of(c, lane)->device->name, l->qp->qp_num, strerror(errno));
	become(c, lane, LANE_DRAINING);
	repeat_words(c, lane);
	if (c->sender)
		balance_down(&c->balance, lane);
	if (!any_up(c) && !c->error) {
		WARN("%s: all queue pairs have failed", c->device->name);
		connection_fail(c, NCCL_REMOTE_ERROR);
	}
}

/* say posts a control message of a lane, if one that is up takes it. */
static bool say(struct connection *c, unsigned lane, enum message_kind kind)
{
	struct lane *l = &c->lanes[lane];
	int by = lanes_send(c);

	if (by < 0)
		return false;
	c->wire->lanes[lane].control[kind] = (struct control){
		.kind = kind, .lane = lane, .epoch = l->epoch, .arrived = c->wire->lanes[lane].count.arrived,
		.qpn = l->qp ? l->qp->qp_num : 0, .psn = l->psn,
	};
	return transfer_post(c, by, (struct ledger_work){.kind = LEDGER_NOTE, .of = note_of(kind, lane)});
}

/* renew makes a lane's next queue pair. */
static bool renew(struct connection *c, unsigned lane, uint32_t epoch)
{
	struct lane *l = &c->lanes[lane];
	struct member *m = member_of(c, lane);
	int index = device_gid_index(m->device, &m->gid);

	if (index >= 0) /* it may stand elsewhere since the port came back */
		m->gid_index = index;
	l->epoch = epoch;
	l->posted = l->flushed = 0;
	c->wire->lanes[lane].count.word = 0;
	c->wire->lanes[lane].count.epoch = epoch;
	if (connection_lane(c, lane))
		return true;
	destroy(c, lane);
	return false;
}

/* drained destroys a queue pair in ERR from which all has come back, or which keeps it. */
static void drained(struct connection *c, unsigned lane, int64_t now)
{
	struct lane *l = &c->lanes[lane];

	if ((l->posted || l->flushed < c->ledger.lanes[lane].count) && now - l->since < DRAIN)
		return;
	destroy(c, lane);
	become(c, lane, LANE_DOWN);
	l->tell = true;
}

/* resolve goes on once the peer has said what had arrived there. */
static void resolve(struct connection *c, unsigned lane, int64_t now)
{
	struct lane *l = &c->lanes[lane];
	struct ledger_work look = {.kind = LEDGER_LOOK, .of = lane};
	const struct control *word = &l->failed[l->epoch % 2];
	uint64_t bytes;
	int by;

	if (l->tell)
		l->tell = !say(c, lane, LANE_FAILED);
	if (word->kind && word->epoch == l->epoch && !l->tell) {
		if (!ledger_settle(&c->ledger, lane, word->arrived)) {
			WARN("%s: the peer has lost what had arrived there", c->device->name);
			connection_fail(c, NCCL_REMOTE_ERROR);
			return;
		}
		bytes = ledger_lost(&c->ledger, lane);
		transfer_resume(c);
		l->wait = l->wait ? l->wait : (int64_t)settings.probe * 1000000;
		become(c, lane, LANE_RESTING);
		INFO("%s: %llu bytes are sent again for queue pair %u of %d", c->device->name, (unsigned long long)bytes, lane, c->qps);
		return;
	}
	/* A receiver that has all its messages may not be called again: what has arrived there is read from its memory. */
	by = now - l->since > LOOK ? lanes_send(c) : -1;
	if (by >= 0 && transfer_post(c, by, look))
		l->since = now;
}

void lanes_looked(struct connection *c, unsigned lane)
{
	struct lane *l = &c->lanes[lane];

	/* Less than what is known already was read before that was. */
	if (l->state == LANE_DOWN && c->wire->lanes[lane].read.epoch == l->epoch)
		ledger_settle(&c->ledger, lane, c->wire->lanes[lane].read.arrived);
}

/* rest waits for the time to bring a queue pair back, which the sender does. */
static void rest(struct connection *c, unsigned lane, int64_t now)
{
	struct lane *l = &c->lanes[lane];
	const struct control *word = &l->failed[(l->epoch + 1) % 2];

	if (word->kind && word->epoch == l->epoch + 1) { /* one that was offered, and is given up again */
		l->epoch = c->wire->lanes[lane].count.epoch = word->epoch;
		c->wire->lanes[lane].count.arrived = 0;
		l->offered = false;
		l->tell = true;
		become(c, lane, LANE_DOWN);
	} else if (c->sender && settings.failback && now - l->since > l->wait) {
		if (lanes_send(c) < 0)
			return;
		if (l->wait < (int64_t)settings.probe * 1000000 * MOST_WAIT)
			l->wait *= 2;
		l->since = now;
		if (renew(c, lane, l->epoch + 1) && say(c, lane, LANE_OFFER))
			become(c, lane, LANE_OFFERED);
	} else if (!c->sender && l->offered && l->offer.epoch > l->epoch) {
		if (lanes_send(c) < 0)
			return;
		l->offered = false;
		l->peer_qpn = l->offer.qpn;
		l->peer_psn = l->offer.psn;
		if (renew(c, lane, l->offer.epoch) && connection_join_lane(c, lane))
			become(c, lane, LANE_PROBING);
		else
			destroy(c, lane);
		say(c, lane, LANE_ANSWER);
	}
}

/* answered is an answer to a sender's offer. */
static void answered(struct connection *c, const struct control *m)
{
	struct lane *l = &c->lanes[m->lane];

	if (l->state != LANE_OFFERED || m->epoch != l->epoch)
		return;
	if (!m->qpn) {
		destroy(c, m->lane);
		become(c, m->lane, LANE_RESTING);
		return;
	}
	l->peer_qpn = m->qpn;
	l->peer_psn = m->psn;
	c->wire->lanes[m->lane].control[LANE_PROBE] = (struct control){.kind = LANE_PROBE, .lane = m->lane, .epoch = l->epoch};
	become(c, m->lane, LANE_PROBING);
	if (!connection_join_lane(c, m->lane) ||
	    !transfer_post(c, m->lane, (struct ledger_work){.kind = LEDGER_NOTE, .of = note_of(LANE_PROBE, m->lane)}))
		lanes_fail(c, m->lane);
}

void lanes_probed(struct connection *c, unsigned lane)
{
	struct lane *l = &c->lanes[lane];

	if (l->state != LANE_PROBING)
		return;
	become(c, lane, LANE_UP);
	l->wait = 0;
	if (c->sender)
		balance_up(&c->balance, lane);
	INFO("%s: queue pair %#x (%u of %d) carries messages again", member_of(c, lane)->device->name, l->qp->qp_num, lane, c->qps);
}

void lanes_hear(struct connection *c, const struct control *m)
{
	struct lane *l = &c->lanes[m->lane];

	switch (m->kind) {
	case LANE_FAILED:
		if (m->epoch < l->epoch)
			return;
		l->failed[m->epoch % 2] = *m;
		if (m->epoch == l->epoch)
			lanes_fail(c, m->lane);
		break;
	case LANE_OFFER:
		l->offer = *m;
		l->offered = true;
		break;
	case LANE_ANSWER:
		answered(c, m);
		break;
	default:
		if (m->epoch == l->epoch)
			lanes_probed(c, m->lane);
	}
}

void lanes_try(struct connection *c)
{
	for (int i = 0; i < c->qps; i++)
		if (c->lanes[i].state == LANE_UP && !c->ledger.lanes[i].count)
			transfer_post(c, i, (struct ledger_work){.kind = LEDGER_LOOK, .of = i});
}

void lanes_progress(struct connection *c, int64_t now)
{
	for (int i = 0; i < c->qps && c->troubled && !c->error; i++) {
		again(c, i);
		switch (c->lanes[i].state) {
		case LANE_DRAINING:
			drained(c, i, now);
			break;
		case LANE_DOWN:
			resolve(c, i, now);
			break;
		case LANE_RESTING:
			rest(c, i, now);
			break;
		default:
			break;
		}
	}
	if (c->deaf && now - c->heard > TRY) {
		c->heard = now;
		lanes_try(c);
	}
}
