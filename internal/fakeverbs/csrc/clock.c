/* The fake NIC's counter and wall clock: the host's, at another rate. */
#include "fake.h"
#include <time.h>
#include <unistd.h>

uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

/* The counter at an instant of CLOCK_MONOTONIC_RAW, wrapped at its width. */
uint64_t ticks_at(struct fv_context *c, uint64_t ns)
{
	double hz = c->cfg.clock_khz * 1000.0 * (1 + c->cfg.drift_ppm * 1e-6);
	/* Whole millihertz: exact for the time a process lives. */
	unsigned __int128 t = (unsigned __int128)ns * (uint64_t)(hz * 1000) / 1000000000000ull;
	uint64_t ticks = (uint64_t)t + c->cfg.clock_start;
	return c->cfg.clock_bits >= 64 ? ticks : ticks & ((1ull << c->cfg.clock_bits) - 1);
}

/* Wall-clock time at an instant of CLOCK_MONOTONIC_RAW: the host's, off by the
 * offset that was chosen, and drifting as the counter does. */
uint64_t wall_at(struct fv_context *c, uint64_t ns)
{
	static uint64_t mono0, wall0;
	static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&mu);
	if (!mono0) {
		struct timespec t;
		clock_gettime(CLOCK_REALTIME, &t);
		mono0 = now_ns();
		wall0 = (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
	}
	pthread_mutex_unlock(&mu);
	int64_t since = (int64_t)(ns - mono0);
	return wall0 + c->cfg.wallclock_offset + since + (int64_t)(since * c->cfg.drift_ppm * 1e-6);
}

int fv_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *v)
{
	struct fv_context *c = to_ctx(ctx);
	int err = hook(c, CALL_query_rt_values, NULL, NULL);
	if (err)
		return err;
	uint32_t asked = v->comp_mask;
	v->comp_mask = 0;
	if (!(asked & IBV_VALUES_MASK_RAW_CLOCK) || asked & ~IBV_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	if (!c->cfg.clock_khz)
		return EOPNOTSUPP;
	/* As mlx4 and mlx5 do: cycles, in the nanoseconds' place. */
	v->raw_clock.tv_sec = 0;
	v->raw_clock.tv_nsec = (long)ticks_at(c, now_ns());
	v->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	return 0;
}

/* What libmlx5's fake needs of a context. Returns false of another's. */
struct fakeverbs_clock {
	uint64_t nsec, cycles, mask;
	uint32_t khz;
};

int fakeverbs_mlx5(struct ibv_context *ctx, int query, struct fakeverbs_clock *out)
{
	struct fv_context *c = to_ctx(ctx);
	int err = hook(c, query ? CALL_mlx5_query_device : CALL_mlx5_clock_info, NULL, NULL);
	if (err)
		return err;
	if (!c->cfg.mlx5)
		return EOPNOTSUPP;
	if (!c->cfg.mlx5_clock || !c->cfg.clock_khz)
		return query ? 0 : EOPNOTSUPP;
	uint64_t now = now_ns();
	out->mask = (1ull << c->cfg.clockinfo_bits) - 1;
	out->khz = c->cfg.clock_khz;
	/* As the kernel does it: refreshed now and then, so a little old. */
	uint64_t then = now - now % 1000000000;
	out->cycles = ticks_at(c, then) & out->mask;
	out->nsec = wall_at(c, then);
	return 0;
}

int fakeverbs_is_mlx5(struct ibv_device *d)
{
	struct config cfg;
	config_read(&cfg, d->name);
	if (cfg.logfd >= 0)
		close(cfg.logfd);
	return cfg.mlx5;
}
