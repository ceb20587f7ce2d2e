/* What `sluice exporter` reads of this process, in Prometheus' text format: names, types and
 * help are those of Sluice's package metrics, which TestMetricsAreGos holds together. */
#define _GNU_SOURCE
#include "shim.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- text */

void sl_text_add(struct sl_text *t, const char *format, ...)
{
	for (;;) {
		va_list args;
		va_start(args, format);
		int n = t->failed ? -1 : vsnprintf(t->at ? t->at + t->n : NULL, t->room - t->n, format, args);
		va_end(args);
		if (n < 0) {
			t->failed = true;
			return;
		}
		if ((size_t)n < t->room - t->n) {
			t->n += (size_t)n;
			return;
		}
		size_t room = 2 * (t->room + (size_t)n) + 4096;
		char *more = realloc(t->at, room);
		if (!more) {
			t->failed = true;
			return;
		}
		t->at = more;
		t->room = room;
	}
}

/* A value of a label within its quotes: the kernel lets a device have almost any name. */
static void quote(char *to, size_t size, const char *from)
{
	size_t n = 0;
	for (; *from && n + 2 < size; from++) {
		if (*from == '"' || *from == '\\')
			to[n++] = '\\';
		to[n++] = *from >= ' ' && *from <= '~' ? *from : '?';
	}
	to[n] = 0;
}

/* ---- values, copied under each queue pair's lock */

struct row {
	char device[200];
	char engine[32];
	uint32_t qpn;
	int state;
	struct sl_values v;
	uint64_t rtt_sum;
	uint64_t rtt[SL_RTT_BUCKETS];
};

struct device {
	char name[200];
	bool trusted, bounded;
	const char *reason;
	double error, drift;
};

struct all {
	struct row *rows;
	size_t n, room;
	struct device *devices;
	size_t n_devices;
	bool failed;
};

/* Where the next value goes: not made under a shard's lock. */
static struct row *next(struct all *a)
{
	if (a->n == a->room) {
		size_t room = 2 * a->room + 16;
		struct row *more = realloc(a->rows, room * sizeof(*more));
		if (!more) {
			a->failed = true;
			return NULL;
		}
		a->rows = more;
		a->room = room;
	}
	return &a->rows[a->n];
}

static void read_shard(struct all *a, struct sl_shard *s, const char *device)
{
	uint32_t n = 1; /* read with the first */
	for (uint32_t i = 0; i < n; i++) {
		struct row *r = next(a);
		int state;
		if (!r)
			return;
		sl_lock(s, &state);
		n = s->n_qps;
		const struct sl_qp *q = i < n ? s->qps[i] : NULL;
		if (q && q->leaving)
			q = NULL;
		if (q) {
			sl_values(q, &r->v);
			r->qpn = q->qp->qp_num;
			r->state = sluice_core_qp_state(&q->core);
			snprintf(r->engine, sizeof(r->engine), "%s", sluice_core_qp_engine(&q->core) ? s->set.cc : "");
			r->rtt_sum = q->rtt_sum;
			memcpy(r->rtt, q->rtt, sizeof(r->rtt));
		}
		sl_unlock(s, state);
		if (q) {
			snprintf(r->device, sizeof(r->device), "%s", device);
			a->n++;
		}
	}
}

/* The calibration of a device's clock, by one of its shards: each has its own of the same
 * readings. */
static void read_calibration(struct device *to, struct sl_shard *s)
{
	static const char *const reasons[] = {
		"trusted", "too few samples", "too few samples since a step of the host clock", "too few samples since a device reset",
		"brackets too wide", "last sample too old",
	};
	int state;
	struct sl_now now;
	sl_lock(s, &state);
	if (s->stamped && s->outlets) {
		sl_look(s, &now);
		struct sluice_calibration_status c = sluice_calibration_status(&s->calibration, now.t);
		to->trusted = c.reason == SLUICE_CALIBRATION_TRUSTED;
		to->reason = c.reason < sizeof(reasons) / sizeof(reasons[0]) ? reasons[c.reason] : "unknown";
		to->bounded = c.bound != SLUICE_NEVER;
		to->error = (double)c.bound * 1e-12;
		to->drift = c.drift_ppm;
	}
	sl_unlock(s, state);
}

static void read_all(struct all *a)
{
	pthread_mutex_lock(&sl_making);
	size_t n = 0;
	for (struct sl_device *d = sl_first_device(); d; d = d->next)
		n++;
	a->devices = calloc(n + 1, sizeof(*a->devices));
	a->failed = !a->devices;
	for (struct sl_device *d = sl_first_device(); d && !a->failed; d = d->next) {
		struct device *to = &a->devices[a->n_devices++];
		char name[2 * sizeof(d->name)], second[16] = "";
		quote(name, sizeof(name), d->name);
		if (d->number > 1)
			snprintf(second, sizeof(second), "#%d", d->number);
		snprintf(to->name, sizeof(to->name), "%s%s", name, second);
		to->reason = "too few samples";
		pthread_mutex_lock(&d->list);
		for (struct sl_shard *s = d->shards; s; s = s->next) {
			read_shard(a, s, to->name);
			if (!to->bounded)
				read_calibration(to, s);
		}
		pthread_mutex_unlock(&d->list);
	}
	pthread_mutex_unlock(&sl_making);
}

/* ---- metrics */

static void head(struct sl_text *t, const char *name, const char *type, const char *help)
{
	sl_text_add(t, "# HELP sluice_%s %s\n# TYPE sluice_%s %s\n", name, help, name, type);
}

static const char *state_name(int state)
{
	static const char *const names[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR", [IBV_QPS_RTS] = "RTS",
		[IBV_QPS_SQD] = "SQD", [IBV_QPS_SQE] = "SQE", [IBV_QPS_ERR] = "ERR",
	};
	return state >= 0 && state < (int)(sizeof(names) / sizeof(names[0])) ? names[state] : "UNKNOWN";
}

static const struct number {
	const char *name, *type, *labels, *help;
	size_t offset; /* of a uint64_t */
	bool optional; /* absent if it is 0 */
} numbers[] = {
#define V(field) offsetof(struct row, v.field)
	{"qp_rate_bps", "gauge", "", "Rate that the engine allows, payload bits per second.", V(rate), false},
	{"qp_rate_floor_bps", "gauge", "", "Least rate of the engine; absent where it bounds a window instead.", V(floor), true},
	{"qp_rate_ceiling_bps", "gauge", "", "Most rate of the engine; absent where it bounds a window instead.", V(ceiling), true},
	/* Round trips are all that libibverbs tells engines of. */
	{"qp_cuts_total", "counter", ",cause=\"rtt\"", "Answers of the engine that lowered its rate or window, by what it was told.", V(cuts), false},
	{"qp_window_bytes", "gauge", "", "Window that the engine allows; absent where it sets none.", V(window), true},
	{"qp_outstanding_bytes", "gauge", "", "Payload bytes that are with the NIC.", V(outstanding), false},
	{"qp_messages_total", "counter", "", "Requests that completed, however.", V(messages), false},
	{"qp_failed_total", "counter", "", "Requests that completed with an error.", V(failed), false},
	{"qp_segments_total", "counter", "", "Segments given to the NIC.", V(segments), false},
	{"qp_segment_bytes_total", "counter", "", "Payload bytes of the segments given to the NIC.", V(bytes), false},
	{"qp_cnps_total", "counter", "", "Congestion notifications that the engine was told of.", V(cnps), false},
#undef V
};
enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

/* Buckets that are exported: every second one of these. */
enum { FIRST_BOUND = 9, LAST_BOUND = 77 };

static void add_rtt(struct sl_text *t, const struct row *r)
{
	uint64_t n = 0;
	for (int i = 0; i < SL_RTT_BUCKETS; i++) {
		n += r->rtt[i];
		if (i >= FIRST_BOUND && i <= LAST_BOUND && (i - FIRST_BOUND) % 2 == 0)
			sl_text_add(t, "sluice_qp_rtt_seconds_bucket{device=\"%s\",qpn=\"0x%06x\",le=\"%.17g\"} %llu\n", r->device, r->qpn,
				    (double)sl_rtt_bound(i) / 1e12, (unsigned long long)n);
	}
	sl_text_add(t, "sluice_qp_rtt_seconds_bucket{device=\"%s\",qpn=\"0x%06x\",le=\"+Inf\"} %llu\n", r->device, r->qpn, (unsigned long long)n);
	sl_text_add(t, "sluice_qp_rtt_seconds_sum{device=\"%s\",qpn=\"0x%06x\"} %.17g\n", r->device, r->qpn, (double)r->rtt_sum * 1e-9);
	sl_text_add(t, "sluice_qp_rtt_seconds_count{device=\"%s\",qpn=\"0x%06x\"} %llu\n", r->device, r->qpn, (unsigned long long)n);
}

static void add_rows(struct sl_text *t, const struct all *a)
{
	const struct row *end = a->rows + a->n;
	head(t, "qp_info", "gauge", "A paced queue pair, its rate engine and its state; always 1.");
	for (const struct row *r = a->rows; r < end; r++)
		sl_text_add(t, "sluice_qp_info{device=\"%s\",qpn=\"0x%06x\",engine=\"%s\",state=\"%s\"} 1\n", r->device, r->qpn, r->engine, state_name(r->state));
	for (int i = 0; i < NUMBERS; i++) {
		const struct number *m = &numbers[i];
		bool any = false;
		for (const struct row *r = a->rows; r < end; r++) {
			uint64_t v;
			memcpy(&v, (const char *)r + m->offset, sizeof(v));
			if (!v && m->optional)
				continue;
			if (!any)
				head(t, m->name, m->type, m->help);
			any = true;
			sl_text_add(t, "sluice_%s{device=\"%s\",qpn=\"0x%06x\"%s} %llu\n", m->name, r->device, r->qpn, m->labels, (unsigned long long)v);
		}
	}
	head(t, "qp_rtt_seconds", "histogram", "Round trips of segments, serialisation included.");
	for (const struct row *r = a->rows; r < end; r++)
		add_rtt(t, r);
	bool any = false;
	for (const struct row *r = a->rows; r < end; r++)
		for (int i = 0; i < r->v.n_variables; i++) {
			if (!any)
				head(t, "qp_engine", "gauge", "A variable of the rate engine, in the unit that its name ends in.");
			any = true;
			sl_text_add(t, "sluice_qp_engine{device=\"%s\",qpn=\"0x%06x\",variable=\"%s\"} %.17g\n", r->device, r->qpn,
				    r->v.variables[i].name, r->v.variables[i].value);
		}
}

static void add_devices(struct sl_text *t, const struct all *a)
{
	const struct device *end = a->devices + a->n_devices;
	bool any = false;
	head(t, "calibration_trusted", "gauge", "1 if NIC timestamps are trusted, else 0; the reason says why not.");
	for (const struct device *d = a->devices; d < end; d++) {
		sl_text_add(t, "sluice_calibration_trusted{device=\"%s\",reason=\"%s\"} %d\n", d->name, d->reason, d->trusted);
		any |= d->bounded;
	}
	if (!any)
		return;
	head(t, "calibration_error_seconds", "gauge", "Bound on the error of a NIC timestamp mapped to the host's clock; absent without samples.");
	for (const struct device *d = a->devices; d < end; d++)
		if (d->bounded)
			sl_text_add(t, "sluice_calibration_error_seconds{device=\"%s\"} %.17g\n", d->name, d->error);
	head(t, "calibration_drift_ppm", "gauge", "How much longer the period of the NIC's clock is than nominal, by the host's clock.");
	for (const struct device *d = a->devices; d < end; d++)
		if (d->bounded)
			sl_text_add(t, "sluice_calibration_drift_ppm{device=\"%s\"} %.17g\n", d->name, d->drift);
}

void sl_metrics(struct sl_text *t)
{
	struct all a = {0};
	read_all(&a);
	if (!a.failed) {
		if (a.n)
			add_rows(t, &a);
		if (a.n_devices)
			add_devices(t, &a);
	}
	t->failed |= a.failed;
	free(a.rows);
	free(a.devices);
}
