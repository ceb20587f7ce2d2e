/* Refuses what Validate of the engines and of package paced refuses, in the same words
 * (TestConfigurations, TestSettings). Ranges are those of their fields' tags, in keys.c. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* A value, and how errors show it. */
struct shown {
	char text[64];
};

static struct shown shown_unit(enum sl_type type, int64_t v)
{
	struct shown s;
	if (type == SL_INT)
		snprintf(s.text, sizeof(s.text), "%lld", (long long)v);
	else
		sl_print_unit(type, v, s.text, sizeof(s.text));
	return s;
}

static struct shown shown_float(double v)
{
	struct shown s;
	sl_print_float(v, s.text, sizeof(s.text));
	return s;
}

__attribute__((format(printf, 4, 5))) static int bad(const char *of, const char *key, struct shown value, const char *want, ...)
{
	char text[300];
	va_list args;
	va_start(args, want);
	vsnprintf(text, sizeof(text), want, args);
	va_end(args);
	return sl_fail(EINVAL, "%s: %s is %s: %s", of, key, value.text, text);
}

/* The key's number in a configuration; of a float, its bits. */
static int64_t whole_of(const struct sl_key *k, const void *config)
{
	int64_t v;
	memcpy(&v, (const char *)config + k->offset, sizeof(v));
	return v;
}

static double float_of(const struct sl_key *k, const void *config)
{
	double v;
	memcpy(&v, (const char *)config + k->offset, sizeof(v));
	return v;
}

static struct shown shown(const struct sl_key *k, const void *config)
{
	return k->type == SL_FLOAT ? shown_float(float_of(k, config)) : shown_unit(k->type, whole_of(k, config));
}

/* The key's range, and the other key that it is no less than. */
static int check_key(const char *of, const struct sl_key *keys, const struct sl_key *k, const void *config)
{
	const struct sl_key *floor = k->floor ? keys + k->floor - 1 : NULL;
	bool in, above = true, zero;
	if (!k->want || k->type == SL_CHOICE)
		return 0;
	if (k->type == SL_FLOAT) {
		double v = float_of(k, config);
		zero = v == 0;
		in = v >= k->low && v <= k->high;
		above = !floor || v >= float_of(floor, config);
	} else {
		int64_t v = whole_of(k, config);
		zero = v == 0;
		in = v >= k->least && v <= k->most;
		above = !floor || v >= whole_of(floor, config);
	}
	if (k->zero && zero)
		return 0;
	if (!in)
		return bad(of, k->name, shown(k, config), "%s", k->want);
	return above ? 0 : bad(of, k->name, shown(k, config), "choose at least %s, %s", floor->name, shown(floor, config).text);
}

static int check_keys(const char *of, const struct sl_key *keys, size_t n, const void *config)
{
	for (size_t i = 0; i < n; i++)
		if (check_key(of, keys, &keys[i], config))
			return EINVAL;
	return 0;
}

/* ---- rules across keys, as the engine's Validate has them */

static int check_timely(const struct sluice_timely_config *c)
{
	if (c->patched && c->rtt_ref == 0 && c->t_low == 0)
		return bad("timely", "rtt_ref", shown_unit(SL_TIME, c->rtt_ref), "patched TIMELY needs a round trip to steer towards, and t_low is 0 too: set one of them");
	return 0;
}

static int check_swift(const struct sluice_swift_config *c)
{
	if (!(1 / __builtin_sqrt(c->fs_max_cwnd) < 1 / __builtin_sqrt(c->fs_min_cwnd)))
		return bad("swift", "fs_max_cwnd", shown_float(c->fs_max_cwnd), "choose more than fs_min_cwnd, %s", shown_float(c->fs_min_cwnd).text);
	return 0;
}

int sl_check(const struct sl_scheme *s, const union sl_engine_config *c)
{
	if (check_keys(s->name, s->keys, s->n_keys, c))
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
	if (min_rate <= env->line_rate)
		return 0;
	return bad(engine, "min_rate", shown_unit(SL_RATE, min_rate), "choose at most the line rate, %s", shown_unit(SL_RATE, env->line_rate).text);
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
			return bad("swift", "min_cwnd", shown_float(c->swift.min_cwnd), "choose at most the largest window, %s packets, or raise max_cwnd", shown_float(r->most).text);
		if (c->swift.plb)
			return sl_fail(EINVAL, "swift: plb is true: the engine chooses paths, by a port that is the NIC's alone: turn that off, or run the engine in the NIC");
		return 0;
	default:
		return 0;
	}
}

int sl_check_settings(struct sl_settings *s)
{
	for (size_t i = 0; i < sl_variables_n; i++) {
		const struct sl_key *k = &sl_variables[i];
		if (k->usual && !whole_of(k, s))
			memcpy((char *)s + k->offset, &k->usual, sizeof(k->usual));
	}
	s->catch_up = !*s->cc && s->rate > 0 ? sl_fixed_rate_catch_up : sl_catch_up;
	if (check_keys("paced", sl_variables, sl_variables_n, s))
		return EINVAL;
	if (s->line_rate > 0 && s->nic_rate >= s->line_rate)
		return bad("paced", "nic_rate", shown_unit(SL_RATE, s->nic_rate), "choose less than line_rate, %s", shown_unit(SL_RATE, s->line_rate).text);
	/* An engine that can't be made is better known now than when the first queue pair connects. */
	struct sluice_env env = {.line_rate = 10 * SLUICE_GBPS, .base_rtt = s->base_rtt, .mtu = 1024};
	return *s->cc ? sl_check_env(s->kind, &s->config, &env) : 0;
}
