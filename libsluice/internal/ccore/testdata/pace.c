/*
 * Paces segments of several flows over a path that this program makes up, by what the
 * core has: an engine and a driver for each flow, and one scheduler. It prints a digest
 * of all that happened, and how long a segment took. pace_test.go does the same in Go.
 *
 *	pace ENGINE FLOWS SEGMENTS [fork]
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sluice_core.h"

enum { SEGMENT = 16384, PACKETS = 4, MOST = 32, ACKS = 1 << 16 };

static const struct sluice_env env = {.line_rate = 100 * SLUICE_GBPS, .base_rtt = 10 * SLUICE_MICROSECOND, .mtu = 4096};

struct flow {
	struct sluice_engine engine;
	struct sluice_driver driver;
	sluice_bytes sent, acked;
	sluice_limiter_flow_id id;
	bool filed;
};

struct ack {
	sluice_time at, sent_at;
	uint32_t flow;
};

static struct sluice_limiter limiter;
static struct flow *flows;
static struct ack acks[ACKS];
static uint32_t first, last; /* of acks, free-running */
static sluice_time now;
static uint64_t dice = 1, digest;

static void mix(int64_t v)
{
	digest = (digest ^ (uint64_t)v) * 0x100000001b3;
}

static void file(struct flow *f)
{
	if (f->filed || f->sent - f->acked >= MOST * SEGMENT)
		return;
	if (!sluice_driver_fits(&f->driver, f->sent - f->acked, SEGMENT)) {
		sluice_driver_shut(&f->driver);
		return;
	}
	sluice_limiter_enqueue(&limiter, now, f->id, SEGMENT);
	f->filed = true;
}

static void take(const struct ack *k)
{
	struct flow *f = &flows[k->flow];
	f->acked += SEGMENT;
	struct sluice_ack a = {
		.now = now, .sent_at = k->sent_at, .rtt = now - k->sent_at, .bytes = SEGMENT, .packets = PACKETS, .acked = f->acked, .sent = f->sent,
		.max_hop_delay = (now - k->sent_at) / 4, .has_max_delay = true, .ecn = now - k->sent_at > 40 * SLUICE_MICROSECOND,
	};
	a.net_rtt = sluice_max(a.rtt - SEGMENT * 80, 0); /* 80 ps a byte */
	sluice_driver_complete(&f->driver, &a, f->sent - f->acked);
	struct sluice_control c = sluice_engine_on_ack(&f->engine, &a);
	if (sluice_driver_apply(&f->driver, c) & SLUICE_CHANGED_RATE)
		sluice_limiter_set_rate(&limiter, f->id, c.rate >= env.line_rate ? SLUICE_LIMITER_UNPACED : c.rate);
	mix(c.rate);
	mix(c.window);
	file(f);
}

static void send(uint32_t id, sluice_time *latest)
{
	struct flow *f = &flows[id];
	f->filed = false;
	f->sent += SEGMENT;
	sluice_driver_sent(&f->driver, now, SEGMENT);
	dice = dice * 6364136223846793005u + 1442695040888963407u;
	*latest = sluice_max(*latest, now + env.base_rtt + (sluice_time)(dice >> 38)); /* up to 67 us */
	acks[last++ % ACKS] = (struct ack){*latest, now, id};
	mix(now);
	mix(id);
	file(f);
}

static void run(int64_t segments)
{
	sluice_time latest = now;
	while (segments > 0) {
		sluice_time due = sluice_limiter_next_due(&limiter);
		if (first != last && acks[first % ACKS].at <= sluice_max(due, now)) {
			struct ack k = acks[first++ % ACKS];
			now = sluice_max(now, k.at);
			take(&k);
			continue;
		}
		if (last - first == ACKS || due == SLUICE_NEVER)
			abort();
		now = sluice_max(now, due);
		struct sluice_limiter_dequeue_result got = sluice_limiter_dequeue(&limiter, now);
		if (got.ok) {
			send(got.value, &latest);
			segments--;
		}
	}
}

static void start(const char *engine, struct sluice_engine *e)
{
#define ENGINE(number, tag, base)                                               \
	if (!strcmp(engine, #tag)) {                                            \
		sluice_engine_start_##tag(e, sluice_##base##_default_config(), env); \
		return;                                                         \
	}
#define WORDS(number, tag, read) ENGINE(number, tag, tag)
#define PLAIN(number, tag)                                \
	if (!strcmp(engine, #tag)) {                      \
		sluice_engine_start_##tag(e, env);        \
		return;                                   \
	}
#include "engines.h"
	exit(2);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	uint32_t n = (uint32_t)atoi(argv[2]);
	int64_t segments = atoll(argv[3]);
	flows = calloc(n, sizeof *flows);
	struct sluice_limiter_flow *room = calloc(n, sizeof *room);
	struct sluice_limiter_links *links = calloc(n, sizeof *links);
	if (!flows || !room || !links)
		return 1;
	struct sluice_limiter_config config = sluice_limiter_default_config();
	if (sluice_limiter_start(&limiter, config, (struct sluice_limiter_flow_slice){room, n, n}, (struct sluice_limiter_links_slice){links, n, n}))
		return 1;
	for (uint32_t i = 0; i < n; i++) {
		struct flow *f = &flows[i];
		start(argv[1], &f->engine);
		sluice_driver_start(&f->driver, &f->engine, env.line_rate, SEGMENT, env.base_rtt);
		f->id = sluice_limiter_add(&limiter, SLUICE_LIMITER_UNPACED).value;
		sluice_limiter_set_rate(&limiter, f->id, sluice_driver_control(&f->driver).rate >= env.line_rate ? SLUICE_LIMITER_UNPACED : sluice_driver_control(&f->driver).rate);
		file(f);
	}
	run(segments / 2);
	/* What follows is measured. */
	if (argc > 4) {
		/* The child goes on where the parent does, and so does the parent. */
		pid_t child = fork();
		if (child < 0)
			return 1;
		if (child > 0) {
			int status;
			run(segments - segments / 2);
			printf("%" PRIx64 " parent\n", digest);
			fflush(stdout);
			return waitpid(child, &status, 0) != child || status != 0;
		}
		run(segments - segments / 2);
		printf("%" PRIx64 " child\n", digest);
		return 0;
	}
	struct timespec from, to;
	clock_gettime(CLOCK_MONOTONIC, &from);
	run(segments - segments / 2);
	clock_gettime(CLOCK_MONOTONIC, &to);
	double ns = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
	printf("%" PRIx64 " %.1f\n", digest, ns / (double)(segments - segments / 2));
	return 0;
}
