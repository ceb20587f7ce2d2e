/* A peer that lies: messages that the plugin would not send, over its own queue pairs. */
#include "lie.h"
#include "plugin.h"

#include <string.h>

static int post(struct connection *c, void *data, size_t size)
{
	struct ibv_sge sge = {.addr = (uintptr_t)data, .length = size, .lkey = c->wire_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	return ibv_post_send(c->lanes[0].qp, &wr, &bad);
}

int lie_cleared(void *sender) { return ((struct connection *)sender)->valid[0]; }

int lie_end(void *sender, enum end_lie lie, size_t room)
{
	struct connection *c = sender;
	struct message_end *e = c->wire->sender.ends;

	e[0] = (struct message_end){.token = c->cleared[0].token, .sequence = c->cleared[0].sequence, .ends = 1, .size = room};
	switch (lie) {
	case LONGER:
		e->size = room + 1;
		break;
	case ENDLESS:
		e->size = UINT64_MAX;
		break;
	case NO_END:
		e->ends = 0;
		break;
	case MANY_ENDS:
		e->ends = c->qps + 1;
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
	case TWICE: /* both buffers' worth of ends for one buffer */
		e[1] = e[0];
		e[1].ends = 2;
		return post(c, &e[0], sizeof *e) || post(c, &e[1], sizeof *e);
	default:
		break;
	}
	return post(c, e, sizeof *e);
}

int lie_clear(void *receiver, enum clear_lie lie)
{
	struct connection *c = receiver;
	struct clear_to_send *s = c->wire->receiver.leaving;

	*s = (struct clear_to_send){.count = 1, .buffers = {{.size = 1, .tag = 1}}};
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
