/* Names of codes, rates, and what rdma-core's own parts would call. */
#define _GNU_SOURCE
#include "fake.h"

#define NAMED(table, v) ((unsigned)(v) < sizeof table / sizeof *table ? table[v] : "unknown")

const char *ibv_wc_status_str(enum ibv_wc_status s)
{
	static const char *const t[] = {
		"success", "local length error", "local QP operation error",
		"local EE context operation error", "local protection error",
		"Work Request Flushed Error", "memory management operation error",
		"bad response error", "local access error", "remote invalid request error",
		"remote access error", "remote operation error",
		"transport retry counter exceeded", "RNR retry counter exceeded",
		"local RDD violation error", "remote invalid RD request", "aborted error",
		"invalid EE context number", "invalid EE context state", "fatal error",
		"response timeout error", "general error",
	};
	return NAMED(t, s);
}

const char *ibv_node_type_str(enum ibv_node_type n)
{
	static const char *const t[] = {"", "InfiniBand channel adapter", "InfiniBand switch",
					"InfiniBand router", "iWARP NIC"};
	return n < 1 ? "unknown" : NAMED(t, n);
}

const char *ibv_port_state_str(enum ibv_port_state s)
{
	static const char *const t[] = {"no state change (NOP)", "down", "init", "armed",
					"active", "in active-defer"};
	return NAMED(t, s);
}

const char *ibv_event_type_str(enum ibv_event_type e)
{
	static const char *const t[] = {
		"CQ error", "local work queue catastrophic error", "invalid request local work queue error",
		"local access violation work queue error", "communication established", "send queue drained",
		"path migrated", "path migration failed", "local catastrophic error", "port active",
		"port error", "LID change", "P_Key change", "SM change", "SRQ catastrophic error",
		"SRQ limit reached", "last WQE reached", "client reregistration", "GID table change",
		"WQ fatal",
	};
	return NAMED(t, e);
}

static const struct { enum ibv_rate rate; int mult, mbps; } rates[] = {
	{IBV_RATE_2_5_GBPS, 1, 2500}, {IBV_RATE_5_GBPS, 2, 5000}, {IBV_RATE_10_GBPS, 4, 10000},
	{IBV_RATE_20_GBPS, 8, 20000}, {IBV_RATE_30_GBPS, 12, 30000}, {IBV_RATE_40_GBPS, 16, 40000},
	{IBV_RATE_60_GBPS, 24, 60000}, {IBV_RATE_80_GBPS, 32, 80000},
	{IBV_RATE_120_GBPS, 48, 120000}, {IBV_RATE_14_GBPS, 5, 14062},
	{IBV_RATE_56_GBPS, 22, 56250}, {IBV_RATE_112_GBPS, 45, 112500},
	{IBV_RATE_168_GBPS, 67, 168750}, {IBV_RATE_25_GBPS, 10, 25781},
	{IBV_RATE_100_GBPS, 41, 103125}, {IBV_RATE_200_GBPS, 82, 206250},
	{IBV_RATE_300_GBPS, 123, 309375}, {IBV_RATE_28_GBPS, 11, 28125},
	{IBV_RATE_50_GBPS, 20, 53125}, {IBV_RATE_400_GBPS, 160, 425000},
	{IBV_RATE_600_GBPS, 240, 637500}, {IBV_RATE_800_GBPS, 320, 850000},
	{IBV_RATE_1200_GBPS, 480, 1275000},
};

#define RATE(test, result, otherwise)                                                              \
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)                                  \
		if (rates[i].test)                                                                 \
			return rates[i].result;                                                    \
	return otherwise

int ibv_rate_to_mult(enum ibv_rate r) { RATE(rate == r, mult, -1); }
enum ibv_rate mult_to_ibv_rate(int m) { RATE(mult == m, rate, IBV_RATE_MAX); }
int ibv_rate_to_mbps(enum ibv_rate r) { RATE(rate == r, mbps, -1); }
enum ibv_rate mbps_to_ibv_rate(int m) { RATE(mbps == m, rate, IBV_RATE_MAX); }

int ibv_dontfork_range(void *base, size_t size) { (void)base; (void)size; return 0; }
int ibv_dofork_range(void *base, size_t size) { (void)base; (void)size; return 0; }
void ibv_register_driver(const char *name, void *init) { (void)name; (void)init; }

/* Drivers of rdma-core that a program links with announce themselves to it;
 * nobody opens a device of theirs here. */
void verbs_register_driver_34(const void *ops) { (void)ops; }
