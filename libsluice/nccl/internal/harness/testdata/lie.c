/* A peer that lies: messages that the plugin would not send, over its own queue pairs. */
#include "lie.h"
#include "plugin.h"

#include <string.h>

static int post(struct connection *c, void *data, size_t size)
{
	struct ibv_sge sge = {.addr = (uintptr_t)data, .length = size, .lkey = c->member[0].wire_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	return ibv_post_send(c->lanes[0].qp, &wr, &bad);
}

int lie_cleared(void *sender) { return ((struct connection *)sender)->valid[0]; }

int lie_end(void *sender, enum end_lie lie, size_t room)
{
	struct connection *c = sender;
	struct message_end *e = c->wire->lanes[0].sender.ends;

	e[0] = (struct message_end){.kind = MESSAGE_END, .token = c->cleared[0].token, .sequence = c->cleared[0].sequence, .size = room, .covers = room};
	switch (lie) {
	case LONGER:
		e->size = e->covers = room + 1;
		break;
	case ENDLESS:
		e->size = e->covers = UINT64_MAX;
		break;
	case COVERS_NOTHING:
		e->covers = 0;
		break;
	case COVERS_MORE:
		e->covers = room + 1;
		break;
	case OTHER_BUFFER:
		e->buffer = 2;
		break;
	case OTHER_TOKEN:
		e->token = UINT32_MAX;
		break;
	case OTHER_SEQUENCE:
		e->sequence++;
		break;
	case CUT_OFF:
		return post(c, e, 8);
	case OTHER_KIND:
		e->kind = LANE_PROBE + 1;
		break;
	case NO_LANE:
		((struct control *)e)->kind = LANE_FAILED;
		((struct control *)e)->lane = MAX_QPS;
		return post(c, e, sizeof(struct control));
	case NEVER_POSTED: /* more Sends have arrived than left */
		*(struct control *)e = (struct control){.kind = LANE_FAILED, .lane = 1, .arrived = 1000};
		return post(c, e, sizeof(struct control));
	case TWICE: /* both buffers' worth of ends for one buffer */
		e[1] = e[0];
		return post(c, &e[0], sizeof *e) || post(c, &e[1], sizeof *e);
	default:
		break;
	}
	return post(c, e, sizeof *e);
}

int lie_clear(void *receiver, enum clear_lie lie)
{
	struct connection *c = receiver;
	struct clear_to_send *s = c->wire->leaving;

	*s = (struct clear_to_send){.kind = CLEAR_TO_SEND, .count = 1, .buffers = {{.size = 1, .tag = 1}}};
	switch (lie) {
	case NO_BUFFER:
		s->count = 0;
		break;
	case MANY_BUFFERS:
		s->count = MAX_RECEIVES + 1;
		break;
	case AHEAD:
		s->sequence = RECEIVES;
		break;
	case CLEAR_CUT_OFF:
		return post(c, s, 8);
	default:
		break;
	}
	return post(c, s, sizeof *s);
}
