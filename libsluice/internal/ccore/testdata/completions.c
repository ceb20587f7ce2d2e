/*
 * Does to two tables and a queue of completions what the test says on the standard
 * input, and answers with what each call returns.
 */
#include <stdio.h>

#include "sluice_core.h"

enum { BLOCK = 1 << 14, MESSAGES = 64, DEPTH = 32, TABLES = 2, RING = 128 };

enum { ADD, POST, UNPOST, COMPLETE, FINISH, POP, FAIL, ABORT, RESET, DROP, COUNTS, SET_BACK };

struct call {
	int64_t what, id, a, b;
};

struct answer {
	int64_t a, b;
};

static int64_t digest(const struct sluice_verbs_wc *wc)
{
	uint64_t v[] = {wc->wrid, (uint64_t)wc->status, (uint64_t)wc->opcode, wc->byte_len, wc->qpn, wc->vendor_err, wc->timestamp}, d = 0;
	for (unsigned i = 0; i < sizeof v / sizeof *v; i++)
		d = (d ^ v[i]) * 0x100000001b3;
	return (int64_t)d;
}

int main(void)
{
	static struct sluice_completions_table tables[TABLES];
	static struct sluice_completions_request requests[TABLES][MESSAGES];
	static struct sluice_completions_posted posted[TABLES][DEPTH];
	static struct sluice_completions_slot ring[RING];
	struct sluice_completions_queue queue = {.ring = {ring, RING, RING}};
	static struct call calls[BLOCK];
	static struct answer answers[BLOCK];
	for (uint32_t i = 0; i < TABLES; i++)
		tables[i] = sluice_completions_start(100 + i, MESSAGES - 4, DEPTH - 3, (struct sluice_completions_request_slice){requests[i], MESSAGES, MESSAGES},
						     (struct sluice_completions_posted_slice){posted[i], DEPTH, DEPTH});
	for (;;) {
		uint64_t n;
		if (fread(&n, sizeof n, 1, stdin) != 1)
			return 0;
		if (n > BLOCK || fread(calls, sizeof *calls, n, stdin) != n)
			return 1;
		for (uint64_t i = 0; i < n; i++) {
			const struct call *c = &calls[i];
			struct answer r = {0, 0};
			struct sluice_completions_table *t = &tables[c->id & 1];
			int64_t id = c->id >> 1;
			switch (c->what) {
			case ADD: {
				struct sluice_completions_table_add_result got =
					sluice_completions_table_add(t, (struct sluice_completions_message){(uint64_t)c->a, (uint8_t)(c->b >> 1), c->b & 1});
				r = (struct answer){got.slot, got.ok};
				break;
			}
			case POST:
				r.a = sluice_completions_table_post(t, id, c->a, c->b & 1, c->b);
				break;
			case UNPOST:
				sluice_completions_table_unpost(t, c->a);
				break;
			case COMPLETE: {
				struct sluice_verbs_wc wc = {.status = (uint8_t)c->b, .vendor_err = (uint32_t)(c->b >> 8), .timestamp = (uint64_t)c->b};
				struct sluice_completions_segment out = {0};
				if (sluice_completions_table_complete(t, (uint32_t)c->a, &wc, &out))
					r = (struct answer){out.bytes ^ out.acked << 1 ^ out.sent << 2, out.posted_at + 1};
				break;
			}
			case FINISH: {
				const struct sluice_verbs_wc *wc = sluice_completions_queue_push(&queue, t);
				if (wc)
					r = (struct answer){digest(wc), 1};
				break;
			}
			case POP: {
				struct sluice_verbs_wc wc[8];
				r.a = sluice_completions_queue_pop(&queue, (struct sluice_verbs_wc_slice){wc, c->a, 8});
				for (int64_t k = 0; k < r.a; k++)
					r.b = r.b * 31 + digest(&wc[k]);
				break;
			}
			case FAIL:
				sluice_completions_table_fail(t, id, (uint8_t)c->a);
				break;
			case ABORT:
				sluice_completions_table_abort(t);
				break;
			case RESET:
				sluice_completions_table_reset(t);
				break;
			case DROP:
				sluice_completions_queue_drop(&queue, t);
				break;
			case COUNTS: {
				struct sluice_completions_table_finished_result f = sluice_completions_table_finished(t);
				r.a = sluice_completions_table_room(t) + 100 * sluice_completions_table_in_flight(t) + 10000 * sluice_completions_table_reads(t) +
				      1000000 * sluice_completions_table_unfinished(t) + 100000000 * sluice_completions_queue_len(&queue);
				r.b = sluice_completions_table_outstanding(t) ^ (int64_t)(f.all << 32) ^ (int64_t)f.failed;
				break;
			}
			case SET_BACK:
				sluice_completions_table_set_back(t, c->a);
				break;
			default:
				return 1;
			}
			answers[i] = r;
		}
		fwrite(answers, sizeof *answers, n, stdout);
		fflush(stdout);
	}
}
