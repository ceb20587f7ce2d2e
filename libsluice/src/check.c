/* Refuses what the engines' Validate refuses (TestConfigurations compares the two). Ranges are
 * those of their fields' tags, in keys.c. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static int bad(const char *engine, const char *key, const char *value, const char *want, va_list args)
{
	char text[300];
	vsnprintf(text, sizeof(text), want, args);
	return sl_fail(EINVAL, "%s: %s is %s: %s", engine, key, value, text);
}

__attribute__((format(printf, 5, 6))) static int bad_unit(const char *engine, enum sl_type type, const char *key, int64_t v, const char *want, ...)
{
	char value[64];
	va_list args;
	if (type == SL_INT)
		snprintf(value, sizeof(value), "%lld", (long long)v);
	else
		sl_print_unit(type, v, value, sizeof(value));
	va_start(args, want);
	int r = bad(engine, key, value, want, args);
	va_end(args);
	return r;
}

__attribute__((format(printf, 4, 5))) static int bad_float(const char *engine, const char *key, double v, const char *want, ...)
{
	char value[64];
	va_list args;
	snprintf(value, sizeof(value), "%g", v);
	va_start(args, want);
	int r = bad(engine, key, value, want, args);
	va_end(args);
	return r;
}

/* The key's number in a configuration. */
static int64_t whole_of(const struct sl_key *k, const union sl_engine_config *c)
{
	int64_t v;
	memcpy(&v, (const char *)c + k->offset, sizeof(v));
	return v;
}

static double float_of(const struct sl_key *k, const union sl_engine_config *c)
{
	double v;
	memcpy(&v, (const char *)c + k->offset, sizeof(v));
	return v;
}

/* The key's range, and the other key that it is no less than. */
static int check_key(const char *e, const struct sl_key *keys, const struct sl_key *k, const union sl_engine_config *c)
{
	const struct sl_key *floor = k->floor ? keys + k->floor - 1 : NULL;
	char text[64];
	if (!k->want)
		return 0;
	if (k->type == SL_FLOAT) {
		double v = float_of(k, c);
		if (k->zero && v == 0)
			return 0;
		if (!(v >= k->low && v <= k->high))
			return bad_float(e, k->name, v, "%s", k->want);
		if (floor && v < float_of(floor, c))
			return bad_float(e, k->name, v, "choose at least %s, %g", floor->name, float_of(floor, c));
		return 0;
	}
	int64_t v = whole_of(k, c);
	if (k->zero && v == 0)
		return 0;
	if (v < k->least || v > k->most)
		return bad_unit(e, k->type, k->name, v, "%s", k->want);
	if (floor && v < whole_of(floor, c))
		return bad_unit(e, k->type, k->name, v, "choose at least %s, %s", floor->name, sl_print_unit(k->type, whole_of(floor, c), text, sizeof(text)));
	return 0;
}

/* ---- rules across keys, as the engine's Validate has them */

static int check_timely(const struct sluice_timely_config *c)
{
	if (c->patched && c->rtt_ref == 0 && c->t_low == 0)
		return bad_unit("timely", SL_TIME, "rtt_ref", c->rtt_ref, "patched TIMELY needs a round trip to steer towards, and t_low is 0 too: set one of them");
	return 0;
}

static int check_swift(const struct sluice_swift_config *c)
{
	if (!(1 / __builtin_sqrt(c->fs_max_cwnd) < 1 / __builtin_sqrt(c->fs_min_cwnd)))
		return bad_float("swift", "fs_max_cwnd", c->fs_max_cwnd, "choose more than fs_min_cwnd, %g", c->fs_min_cwnd);
	if (c->plb)
		return sl_fail(EINVAL, "swift: plb is true: the engine chooses paths, by a port that is the NIC's alone: turn that off, or run the engine in the NIC");
	return 0;
}

int sl_check(const struct sl_scheme *s, const union sl_engine_config *c)
{
	for (size_t i = 0; i < s->n_keys; i++)
		if (check_key(s->name, s->keys, &s->keys[i], c))
			return EINVAL;
	switch (s->kind) {
	case SLUICE_ENGINE_TIMELY:
		return check_timely(&c->timely);
	case SLUICE_ENGINE_SWIFT:
		return check_swift(&c->swift);
	case SLUICE_ENGINE_UNSET:
		return sl_fail(EINVAL, "engine %s is not in this library: take another, such as timely", s->name);
	default:
		return 0;
	}
}

static int above_line(const char *engine, int64_t min_rate, const struct sluice_env *env)
{
	char text[64];
	if (min_rate <= env->line_rate)
		return 0;
	return bad_unit(engine, SL_RATE, "min_rate", min_rate, "choose at most the line rate, %s", sl_print_unit(SL_RATE, env->line_rate, text, sizeof(text)));
}

int sl_check_env(enum sluice_engine_kind kind, const union sl_engine_config *c, const struct sluice_env *env)
{
	struct sluice_engine e;
	const struct sluice_cwnd_rules *r;
	switch (kind) {
	case SLUICE_ENGINE_TIMELY:
		return c->timely.max_rate ? 0 : above_line("timely", c->timely.min_rate, env);
	case SLUICE_ENGINE_FAST:
		return above_line("fast", c->fast.min_rate, env);
	case SLUICE_ENGINE_DCQCN:
		return above_line("dcqcn", c->dcqcn.min_rate, env);
	case SLUICE_ENGINE_SWIFT:
		sluice_engine_start_swift(&e, c->swift, *env);
		r = &e.state.swift.state.packets.rules;
		if (r->most < r->least)
			return bad_float("swift", "min_cwnd", c->swift.min_cwnd, "choose at most the largest window, %g packets, or raise max_cwnd", r->most);
		return 0;
	default:
		return 0;
	}
}
