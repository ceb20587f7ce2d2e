/*
 * Does to a scheduler what the test says on the standard input, and answers with what
 * each call returns. Flows are in an arena of this program's.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sluice_core.h"

enum { FLOWS = 4096, BLOCK = 1 << 14 };

enum { ADD, REMOVE, ENQUEUE, OFFER, DEQUEUE, DEQUEUE_AT, NEXT_DUE, SET_RATE, WITHDRAW, SET_BACK, DUE, NEXT, START };

struct call {
	int64_t what, id, a, b;
};

struct answer {
	int64_t a, b;
};

int main(void)
{
	static struct sluice_limiter s;
	static struct sluice_limiter_flow flows[FLOWS];
	static struct sluice_limiter_links links[FLOWS];
	static struct call calls[BLOCK];
	static struct answer answers[BLOCK];
	for (;;) {
		uint64_t n;
		if (fread(&n, sizeof n, 1, stdin) != 1)
			return 0;
		if (n > BLOCK || fread(calls, sizeof *calls, n, stdin) != n)
			return 1;
		for (uint64_t i = 0; i < n; i++) {
			const struct call *c = &calls[i];
			struct answer r = {0, 0};
			uint32_t id = (uint32_t)c->id;
			switch (c->what) {
			case ADD: {
				struct sluice_limiter_add_result got = sluice_limiter_add(&s, c->a);
				r = (struct answer){got.value, got.err == 0};
				break;
			}
			case REMOVE:
				sluice_limiter_remove_flow(&s, id);
				break;
			case ENQUEUE:
				sluice_limiter_enqueue(&s, c->a, id, c->b);
				break;
			case OFFER:
				r.a = sluice_limiter_offer(&s, c->a, id, c->b);
				break;
			case DEQUEUE: {
				struct sluice_limiter_dequeue_result got = sluice_limiter_dequeue(&s, c->a);
				r = (struct answer){got.value, got.ok};
				break;
			}
			case DEQUEUE_AT: {
				struct sluice_limiter_dequeue_at_result got = sluice_limiter_dequeue_at(&s, c->a, c->b);
				r = (struct answer){got.value, got.ok};
				break;
			}
			case NEXT_DUE:
				r = (struct answer){sluice_limiter_next_due(&s), sluice_limiter_len(&s)};
				break;
			case SET_RATE:
				r.a = sluice_limiter_set_rate(&s, id, c->a) == 0;
				break;
			case WITHDRAW:
				r.a = sluice_limiter_withdraw(&s, id);
				break;
			case SET_BACK:
				sluice_limiter_set_back(&s, c->a);
				break;
			case DUE:
				r = (struct answer){sluice_limiter_due(&s, id), sluice_limiter_queued(&s, id)};
				break;
			case NEXT:
				r = (struct answer){sluice_limiter_next(&s, id), sluice_limiter_rate(&s, id)};
				break;
			case START: {
				struct sluice_limiter_config config = sluice_limiter_default_config();
				config.line_rate = c->id;
				config.burst = c->a;
				config.catch_up = c->b;
				__builtin_memset(&s, 0, sizeof s);
				__builtin_memset(flows, 0, sizeof flows);
				r.a = sluice_limiter_start(&s, config, (struct sluice_limiter_flow_slice){flows, FLOWS, FLOWS},
								     (struct sluice_limiter_links_slice){links, FLOWS, FLOWS});
				break;
			}
			default:
				return 1;
			}
			answers[i] = r;
		}
		fwrite(answers, sizeof *answers, n, stdout);
		fflush(stdout);
	}
}
