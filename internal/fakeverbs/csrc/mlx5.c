/* The fake libmlx5: whether a device is an mlx5 one, and its clock. */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/mlx5dv.h>

struct fakeverbs_clock {
	uint64_t nsec, cycles, mask;
	uint32_t khz;
};
int fakeverbs_mlx5(struct ibv_context *ctx, int query, struct fakeverbs_clock *out);
int fakeverbs_is_mlx5(struct ibv_device *d);

bool mlx5dv_is_supported(struct ibv_device *d)
{
	return fakeverbs_is_mlx5(d);
}

struct ibv_context *mlx5dv_open_device(struct ibv_device *d, struct mlx5dv_context_attr *attr)
{
	if (!fakeverbs_is_mlx5(d) || attr->flags & MLX5DV_CONTEXT_FLAGS_DEVX)
		return errno = EOPNOTSUPP, NULL; /* no DevX here */
	return ibv_open_device(d);
}

int mlx5dv_query_device(struct ibv_context *ctx, struct mlx5dv_context *out)
{
	struct fakeverbs_clock clock = {0};
	int err = fakeverbs_mlx5(ctx, 1, &clock);
	if (err)
		return err;
	uint64_t asked = out->comp_mask;
	out->version = 0;
	out->flags = MLX5DV_CONTEXT_FLAGS_CQE_V1;
	out->comp_mask = 0;
	if (asked & MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE && clock.khz) {
		/* Half the wrap of the counter: longer ago is ambiguous. */
		out->max_clock_info_update_nsec = (uint64_t)((clock.mask / 2) * 1e6 / clock.khz);
		out->comp_mask |= MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE;
	}
	return 0;
}

int mlx5dv_get_clock_info(struct ibv_context *ctx, struct mlx5dv_clock_info *out)
{
	struct fakeverbs_clock clock = {0};
	int err = fakeverbs_mlx5(ctx, 0, &clock);
	if (err)
		return err;
	out->nsec = clock.nsec;
	out->last_cycles = clock.cycles;
	out->frac = 0;
	out->shift = 21;
	out->mult = (uint32_t)(1e6 * (1 << out->shift) / clock.khz + 0.5);
	out->mask = clock.mask;
	return 0;
}
