/* The ranges of the engines' settings: what Validate of their Go refuses
 * (TestConfigurations compares the two). */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const double most_packets = 1e9;

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

static int share(const char *engine, const char *key, double v)
{
	return v > 0 && v <= 1 ? 0 : bad_float(engine, key, v, "choose a number above 0 and up to 1");
}

static int check_timely(const struct sluice_timely_config *c)
{
	static const char e[] = "timely";
	char text[64];
	if (c->t_low < 0)
		return bad_unit(e, SL_TIME, "t_low", c->t_low, "choose a span of zero or more, such as 50us");
	if (c->t_high <= 0)
		return bad_unit(e, SL_TIME, "t_high", c->t_high, "choose a positive span, such as 500us");
	if (c->t_high < c->t_low)
		return bad_unit(e, SL_TIME, "t_high", c->t_high, "choose at least t_low, %s", sl_print_unit(SL_TIME, c->t_low, text, sizeof(text)));
	if (c->delta <= 0)
		return bad_unit(e, SL_RATE, "delta", c->delta, "choose a positive rate, such as 10Mbps");
	if (c->min_rtt < 0)
		return bad_unit(e, SL_TIME, "min_rtt", c->min_rtt, "choose a positive span, or 0 for the base RTT");
	if (c->hai_count < 1)
		return bad_unit(e, SL_INT, "hai_count", c->hai_count, "choose 1 or more (hai_steps: 1 turns hyperactive increase off)");
	if (c->hai_steps < 1)
		return bad_unit(e, SL_INT, "hai_steps", c->hai_steps, "choose 1 (no hyperactive increase) or more");
	if (c->initial_rate < 0)
		return bad_unit(e, SL_RATE, "initial_rate", c->initial_rate, "choose a positive rate, or 0 to start at max_rate");
	if (c->min_rate <= 0)
		return bad_unit(e, SL_RATE, "min_rate", c->min_rate, "choose a positive rate; a flow without one would stop for good");
	if (c->max_rate < 0)
		return bad_unit(e, SL_RATE, "max_rate", c->max_rate, "choose a positive rate, or 0 for the line rate");
	if (c->max_rate > 0 && c->max_rate < c->min_rate)
		return bad_unit(e, SL_RATE, "max_rate", c->max_rate, "choose at least min_rate, %s", sl_print_unit(SL_RATE, c->min_rate, text, sizeof(text)));
	if (c->initial_rate > 0 && c->initial_rate < c->min_rate)
		return bad_unit(e, SL_RATE, "initial_rate", c->initial_rate, "choose at least min_rate, %s", sl_print_unit(SL_RATE, c->min_rate, text, sizeof(text)));
	if (c->rtt_ref < 0)
		return bad_unit(e, SL_TIME, "rtt_ref", c->rtt_ref, "choose a positive span, or 0 for t_low");
	if (c->patched && c->rtt_ref == 0 && c->t_low == 0)
		return bad_unit(e, SL_TIME, "rtt_ref", c->rtt_ref, "patched TIMELY needs a round trip to steer towards, and t_low is 0 too: set one of them");
	double alpha = c->alpha != 0 ? c->alpha : c->patched ? 0.875 : 1.0 / 32;
	int r = share(e, "beta", c->beta);
	r = r ? r : share(e, "alpha", alpha);
	r = r ? r : share(e, "max_decrease", c->max_decrease);
	return r ? r : share(e, "patched_beta", c->patched_beta);
}

static int check_swift(const struct sluice_swift_config *c)
{
	static const char e[] = "swift";
	enum { MAX_HOPS = 255, MAX_ROUNDS = 1 << 20 };
	const int64_t max_span = SLUICE_SECOND;
	if (c->base_target < 0)
		return bad_unit(e, SL_TIME, "base_target", c->base_target, "choose a positive span, such as 25us, or 0 for one that suits the base RTT");
	if (c->hop_scale < 0)
		return bad_unit(e, SL_TIME, "hop_scale", c->hop_scale, "choose a span such as 1us, or 0 for no topology scaling");
	if (c->hops < 0 || c->hops > MAX_HOPS)
		return bad_unit(e, SL_INT, "hops", c->hops, "choose the number of switches on the path, 0 to %d", MAX_HOPS);
	if (c->endpoint_target < 0)
		return bad_unit(e, SL_TIME, "endpoint_target", c->endpoint_target, "choose a positive span, such as 50us, or 0 for the base target");
	if (c->endpoint_target > max_span)
		return bad_unit(e, SL_TIME, "endpoint_target", c->endpoint_target, "choose at most 1s");
	if (c->fs_range < 0)
		return bad_unit(e, SL_TIME, "fs_range", c->fs_range, "choose a positive span, such as 100us, or 0 for no flow scaling");
	if (c->base_target > max_span)
		return bad_unit(e, SL_TIME, "base_target", c->base_target, "choose at most 1s");
	if (c->hop_scale > max_span)
		return bad_unit(e, SL_TIME, "hop_scale", c->hop_scale, "choose at most 1s");
	if (c->fs_range > max_span)
		return bad_unit(e, SL_TIME, "fs_range", c->fs_range, "choose at most 1s");
	if (!(c->fs_min_cwnd > 0 && c->fs_min_cwnd <= most_packets))
		return bad_float(e, "fs_min_cwnd", c->fs_min_cwnd, "choose a positive number of packets, such as 0.1");
	if (!(1 / __builtin_sqrt(c->fs_max_cwnd) < 1 / __builtin_sqrt(c->fs_min_cwnd) && c->fs_max_cwnd <= most_packets))
		return bad_float(e, "fs_max_cwnd", c->fs_max_cwnd, "choose more than fs_min_cwnd, %g, and up to 1e9, such as 100", c->fs_min_cwnd);
	if (!(c->ai > 0 && c->ai <= most_packets))
		return bad_float(e, "ai", c->ai, "choose a positive number of packets, such as 1");
	if (!(c->beta > 0 && c->beta <= most_packets))
		return bad_float(e, "beta", c->beta, "choose a positive number, such as 0.8");
	if (!(c->max_mdf > 0 && c->max_mdf < 1))
		return bad_float(e, "max_mdf", c->max_mdf, "choose a number between 0 and 1, such as 0.5");
	if (!(c->min_cwnd > 0 && c->min_cwnd <= most_packets))
		return bad_float(e, "min_cwnd", c->min_cwnd, "choose a positive number of packets, such as 0.01");
	if (!(c->max_cwnd >= 0 && c->max_cwnd <= most_packets))
		return bad_float(e, "max_cwnd", c->max_cwnd, "choose a number of packets up to 1e9, or 0 for what the line rate fills");
	if (c->max_cwnd > 0 && c->max_cwnd < c->min_cwnd)
		return bad_float(e, "max_cwnd", c->max_cwnd, "choose at least min_cwnd, %g", c->min_cwnd);
	if (!(c->initial_cwnd >= 0 && c->initial_cwnd <= most_packets))
		return bad_float(e, "initial_cwnd", c->initial_cwnd, "choose a positive number of packets, or 0 for what the line rate fills");
	if (c->retx_reset_threshold < 1)
		return bad_unit(e, SL_INT, "retx_reset_threshold", c->retx_reset_threshold, "choose 1 or more timeouts");
	if (!(c->plb_share > 0 && c->plb_share <= 1))
		return bad_float(e, "plb_share", c->plb_share, "choose a share above 0 and up to 1, such as 0.5");
	if (c->plb_idle_rounds < 0 || c->plb_idle_rounds > MAX_ROUNDS)
		return bad_unit(e, SL_INT, "plb_idle_rounds", c->plb_idle_rounds, "choose 1 to %d round trips, or 0 for never", MAX_ROUNDS);
	if (c->plb_rounds < 0 || c->plb_rounds > MAX_ROUNDS)
		return bad_unit(e, SL_INT, "plb_rounds", c->plb_rounds, "choose 1 to %d round trips, or 0 for never", MAX_ROUNDS);
	if (c->plb)
		return sl_fail(EINVAL, "swift: plb is true: the engine chooses paths, by a port that is the NIC's alone: turn that off, or run the engine in the NIC");
	return 0;
}

static int check_dcqcn(const struct sluice_dcqcn_config *c)
{
	static const char e[] = "dcqcn";
	const int64_t least = 100 * SLUICE_NANOSECOND, most = SLUICE_SECOND;
	if (!(c->g > 0 && c->g <= 1))
		return bad_float(e, "g", c->g, "choose a number above 0 and up to 1, such as 0.00390625");
	if (c->alpha_timer < least || c->alpha_timer > most)
		return bad_unit(e, SL_TIME, "alpha_timer", c->alpha_timer, "choose 100ns to 1s, such as 55us");
	if (c->increase_timer < least || c->increase_timer > most)
		return bad_unit(e, SL_TIME, "increase_timer", c->increase_timer, "choose 100ns to 1s, such as 55us");
	if (c->byte_counter != 0 && c->byte_counter < 1000)
		return bad_unit(e, SL_BYTES, "byte_counter", c->byte_counter, "choose 1KB or more, such as 10MB, or 0 for none");
	if (c->cut_interval != 0 && (c->cut_interval < least || c->cut_interval > most))
		return bad_unit(e, SL_TIME, "cut_interval", c->cut_interval, "choose 100ns to 1s, such as 4us, or 0 for a cut at each notification");
	if (c->fast_recovery < 0 || c->fast_recovery > 1000)
		return bad_unit(e, SL_INT, "fast_recovery", c->fast_recovery, "choose 0 to 1000 rises, such as 5");
	if (c->additive_increase <= 0)
		return bad_unit(e, SL_RATE, "additive_increase", c->additive_increase, "choose a positive rate, such as 40Mbps");
	if (c->hyper_increase <= 0)
		return bad_unit(e, SL_RATE, "hyper_increase", c->hyper_increase, "choose a positive rate, such as 400Mbps");
	if (c->min_rate <= 0)
		return bad_unit(e, SL_RATE, "min_rate", c->min_rate, "choose a positive rate; a flow without one would stop for good");
	return 0;
}

static int check_windows(const char *e, double initial, double least)
{
	if (initial != 0 && !(initial >= 1 && initial <= most_packets))
		return bad_float(e, "initial_cwnd", initial, "choose 1 or more packets, such as 10, or 0 for two to four");
	if (!(least >= 1 && least <= most_packets))
		return bad_float(e, "min_cwnd", least, "choose 1 or more packets, such as 2");
	return 0;
}

static int check_dctcp(const struct sluice_dctcp_config *c)
{
	if (c->rate_step < 0)
		return bad_unit("dctcp", SL_RATE, "rate_step", c->rate_step, "choose a positive rate, such as 1Gbps, or 0 for a window");
	if (c->min_rate <= 0)
		return bad_unit("dctcp", SL_RATE, "min_rate", c->min_rate, "choose a positive rate; a flow without one would stop for good");
	if (!(c->g > 0 && c->g <= 1))
		return bad_float("dctcp", "g", c->g, "choose a number above 0 and up to 1, such as 0.0625");
	if (!(c->initial_alpha >= 0 && c->initial_alpha <= 1))
		return bad_float("dctcp", "initial_alpha", c->initial_alpha, "choose a share from 0 to 1, such as 1");
	return check_windows("dctcp", c->initial_cwnd, c->min_cwnd);
}

static int check_retcp(const struct sluice_retcp_config *c)
{
	if (!(c->jump_up >= 1 && c->jump_up <= 1000))
		return bad_float("retcp", "jump_up", c->jump_up, "choose a factor from 1 to 1000, such as 2");
	if (!(c->jump_down >= 1 && c->jump_down <= 1000))
		return bad_float("retcp", "jump_down", c->jump_down, "choose a factor from 1 to 1000, such as 2");
	return check_windows("retcp", c->initial_cwnd, c->min_cwnd);
}

static int check_fast(const struct sluice_fast_config *c)
{
	static const char e[] = "fast";
	char text[64];
	if (c->alpha <= 0)
		return bad_unit(e, SL_RATE, "alpha", c->alpha, "choose a positive rate, such as 50Mbps");
	if (!(c->gamma > 0 && c->gamma <= 1))
		return bad_float(e, "gamma", c->gamma, "choose a number above 0 and up to 1, such as 0.5");
	if (c->base_rtt < 0)
		return bad_unit(e, SL_TIME, "base_rtt", c->base_rtt, "choose a positive span, or 0 for the shortest seen");
	if (c->base_window <= 0)
		return bad_unit(e, SL_TIME, "base_window", c->base_window, "choose a positive span, such as 10s");
	if (c->initial_rate < 0)
		return bad_unit(e, SL_RATE, "initial_rate", c->initial_rate, "choose a positive rate, or 0 for the line rate");
	if (c->min_rate <= 0)
		return bad_unit(e, SL_RATE, "min_rate", c->min_rate, "choose a positive rate; a flow without one would stop for good");
	if (c->initial_rate > 0 && c->initial_rate < c->min_rate)
		return bad_unit(e, SL_RATE, "initial_rate", c->initial_rate, "choose at least min_rate, %s", sl_print_unit(SL_RATE, c->min_rate, text, sizeof(text)));
	return 0;
}

static int check_theta_powertcp(const struct sluice_theta_powertcp_config *c)
{
	static const char e[] = "theta-powertcp";
	if (!(c->gamma > 0 && c->gamma <= 1))
		return bad_float(e, "gamma", c->gamma, "choose a number above 0 and up to 1, such as 0.9");
	if (!(c->flows >= 1 && c->flows <= 1e9))
		return bad_float(e, "flows", c->flows, "choose the number of flows expected to share the NIC, from 1 to 1e9");
	if (!(c->min_current >= 0 && c->min_current < 1))
		return bad_float(e, "min_current", c->min_current, "choose a share from 0 (the paper's, no floor) up to but not 1");
	if (!(c->eta >= 0.5 && c->eta <= 2))
		return bad_float(e, "eta", c->eta, "choose from 0.5 to 2, such as 1 (the paper's)");
	if (c->base_rtt < 0)
		return bad_unit(e, SL_TIME, "base_rtt", c->base_rtt, "choose a positive span, or 0 for the environment's");
	if (c->max_window < 0)
		return bad_unit(e, SL_BYTES, "max_window", c->max_window, "choose a positive size, or 0 for the bandwidth-delay product");
	return 0;
}

int sl_check(const char *name, enum sluice_engine_kind kind, const union sl_engine_config *c)
{
	switch (kind) {
	case SLUICE_ENGINE_NONE:
		return 0;
	case SLUICE_ENGINE_TIMELY:
		return check_timely(&c->timely);
	case SLUICE_ENGINE_SWIFT:
		return check_swift(&c->swift);
	case SLUICE_ENGINE_DCQCN:
		return check_dcqcn(&c->dcqcn);
	case SLUICE_ENGINE_DCTCP:
		return check_dctcp(&c->dctcp);
	case SLUICE_ENGINE_RETCP:
		return check_retcp(&c->retcp);
	case SLUICE_ENGINE_FAST:
		return check_fast(&c->fast);
	case SLUICE_ENGINE_THETA_POWERTCP:
		return check_theta_powertcp(&c->theta_powertcp);
	default:
		return sl_fail(EINVAL, "engine %s is not in this library: take another, such as timely", name);
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
