/* The environment: doc.go of the package says what each variable means. */
#define _GNU_SOURCE
#include "fake.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

const char *const call_names[NCALLS] = {
#define X(name) #name,
	CALLS(X)
#undef X
};

/* A setting of one device, FAKEVERBS_NAME_device, goes before one of all. */
const char *setting(const char *device, const char *name)
{
	char key[160];
	snprintf(key, sizeof key, "FAKEVERBS_%s_%s", name, device);
	const char *v = getenv(key);
	if (v)
		return v;
	snprintf(key, sizeof key, "FAKEVERBS_%s", name);
	return getenv(key);
}

/* A test that misspells a setting must not pass for that: say so and stop. */
static void wrong(const char *name, const char *value, const char *want)
{
	fprintf(stderr, "fakeverbs: FAKEVERBS_%s=%s: want %s\n", name, value, want);
	_exit(2);
}

static double number(const char *device, const char *name, double otherwise, double lo, double hi)
{
	const char *v = setting(device, name);
	if (!v)
		return otherwise;
	char *end;
	double x = strtod(v, &end);
	if (end == v || *end || !(x >= lo && x <= hi)) {
		char want[80];
		snprintf(want, sizeof want, "a number from %.17g to %.17g", lo, hi);
		wrong(name, v, want);
	}
	return x;
}

static const struct { const char *name; int value; } errnos[] = {
	{"EPERM", EPERM}, {"ENOENT", ENOENT}, {"EIO", EIO}, {"ENXIO", ENXIO}, {"EAGAIN", EAGAIN},
	{"ENOMEM", ENOMEM}, {"EACCES", EACCES}, {"EFAULT", EFAULT}, {"EBUSY", EBUSY},
	{"ENODEV", ENODEV}, {"EINVAL", EINVAL}, {"ENOSPC", ENOSPC}, {"ENOSYS", ENOSYS},
	{"EOPNOTSUPP", EOPNOTSUPP}, {"ETIMEDOUT", ETIMEDOUT}, {"EINTR", EINTR},
};

static int parse_errno(const char *s)
{
	for (size_t i = 0; i < sizeof errnos / sizeof *errnos; i++)
		if (!strcasecmp(s, errnos[i].name))
			return errnos[i].value;
	int n = atoi(s);
	return n > 0 && n < 4096 ? n : -1;
}

static int call_by_name(const char *s)
{
	for (int i = 0; i < NCALLS; i++)
		if (!strcmp(s, call_names[i]))
			return i;
	return -1;
}

static const char *const event_names[] = {
	"cq_err", "qp_fatal", "qp_req_err", "qp_access_err", "comm_est", "sq_drained", "path_mig",
	"path_mig_err", "device_fatal", "port_active", "port_err", "lid_change", "pkey_change",
	"sm_change", "srq_err", "srq_limit_reached", "qp_last_wqe_reached", "client_reregister",
	"gid_change", "wq_fatal",
};

int event_by_name(const char *s)
{
	for (size_t i = 0; i < sizeof event_names / sizeof *event_names; i++)
		if (!strcmp(s, event_names[i]))
			return (int)i;
	return -1;
}

static const char *const status_names[] = {
	"success", "loc_len_err", "loc_qp_op_err", "loc_eec_op_err", "loc_prot_err", "wr_flush_err",
	"mw_bind_err", "bad_resp_err", "loc_access_err", "rem_inv_req_err", "rem_access_err",
	"rem_op_err", "retry_exc_err", "rnr_retry_exc_err", "loc_rdd_viol_err",
	"rem_inv_rd_req_err", "rem_abort_err", "inv_eecn_err", "inv_eec_state_err", "fatal_err",
	"resp_timeout_err", "general_err",
};

/* each calls f with every part of a comma-separated setting. */
static void each(struct config *c, const char *device, const char *name,
		 bool (*f)(struct config *, char *), const char *want)
{
	const char *v = setting(device, name);
	if (!v || !*v)
		return;
	char *copy = strdup(v), *save, *part;
	for (part = strtok_r(copy, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
		char *mine = strdup(part);
		if (!f(c, mine))
			wrong(name, part, want);
		free(mine);
	}
	free(copy);
}

static bool add_fail(struct config *c, char *s)
{
	char *save, *call = strtok_r(s, ":", &save), *err = strtok_r(NULL, ":", &save);
	char *after = strtok_r(NULL, ":", &save), *times = strtok_r(NULL, ":", &save);
	if (!call || !err || c->nfail == MAX_RULES)
		return false;
	int k = call_by_name(call), e = parse_errno(err);
	if (k < 0 || e < 0)
		return false;
	c->fail[c->nfail++] = (struct fail_rule){k, e, after ? strtoull(after, NULL, 10) : 0,
						 times ? strtoull(times, NULL, 10) : 0};
	return c->slow = true;
}

static bool add_event(struct config *c, char *s)
{
	char *save, *event = strtok_r(s, "@", &save), *call = strtok_r(NULL, ":", &save);
	char *nth = strtok_r(NULL, ":", &save);
	if (!event || !call || c->nevent == MAX_RULES)
		return false;
	int t = event_by_name(event), k = call_by_name(call);
	if (t < 0 || k < 0)
		return false;
	c->event[c->nevent++] = (struct event_rule){k, t, nth ? strtoull(nth, NULL, 10) : 1};
	return c->slow = true;
}

static bool add_wc(struct config *c, char *s)
{
	char *save, *status = strtok_r(s, ":", &save), *nth = strtok_r(NULL, ":", &save);
	if (!status || c->nwc == MAX_RULES)
		return false;
	for (size_t i = 1; i < sizeof status_names / sizeof *status_names; i++)
		if (!strcmp(status, status_names[i])) {
			c->wc[c->nwc++] =
				(struct wc_rule){i, nth ? strtoull(nth, NULL, 10) : 1};
			return c->slow = true;
		}
	return false;
}

static bool add_gid(struct config *c, char *s)
{
	char *slash = strrchr(s, '/');
	uint32_t type = IBV_GID_TYPE_ROCE_V2;
	if (slash) {
		*slash++ = 0;
		if (!strcmp(slash, "v1"))
			type = IBV_GID_TYPE_ROCE_V1;
		else if (!strcmp(slash, "ib"))
			type = IBV_GID_TYPE_IB;
		else if (strcmp(slash, "v2"))
			return false;
	}
	if (c->ngids == MAX_GIDS)
		return false;
	union ibv_gid g = {0};
	struct in_addr v4;
	if (inet_pton(AF_INET, s, &v4) == 1) {
		g.raw[10] = g.raw[11] = 0xff;
		memcpy(g.raw + 12, &v4, 4);
	} else if (strcmp(s, "-") && inet_pton(AF_INET6, s, &g) != 1) {
		return false; /* "-" is an empty place in the table */
	}
	c->gids[c->ngids] = g;
	c->gid_types[c->ngids++] = type;
	return true;
}

static bool add_timestamp(struct config *c, char *s)
{
	if (!strcmp(s, "raw"))
		c->timestamps |= TS_RAW;
	else if (!strcmp(s, "wallclock"))
		c->timestamps |= TS_WALLCLOCK;
	else if (strcmp(s, "none"))
		return false;
	return true;
}

static bool add_rate_qpt(struct config *c, char *s)
{
	if (!strcmp(s, "rc"))
		c->rate_qpts |= 1 << IBV_QPT_RC;
	else if (!strcmp(s, "uc"))
		c->rate_qpts |= 1 << IBV_QPT_UC;
	else if (!strcmp(s, "ud"))
		c->rate_qpts |= 1 << IBV_QPT_UD;
	else if (!strcmp(s, "raw"))
		c->rate_qpts |= 1 << IBV_QPT_RAW_PACKET;
	else if (strcmp(s, "none"))
		return false;
	return true;
}

void config_read(struct config *c, const char *d)
{
	memset(c, 0, sizeof *c);
	c->logfd = -1;
	const char *profile = setting(d, "PROFILE");
	bool connectx = profile && !strcmp(profile, "connectx");
	if (profile && !connectx && strcmp(profile, "plain"))
		wrong("PROFILE", profile, "plain or connectx");

	const char *v = setting(d, "DATA");
	c->copy = !v || strcmp(v, "null");
	if (v && c->copy && strcmp(v, "copy"))
		wrong("DATA", v, "copy or null");
	c->locks = !number(d, "SINGLE_THREADED", 0, 0, 1);

	if (setting(d, "TIMESTAMPS"))
		each(c, d, "TIMESTAMPS", add_timestamp, "none, or raw and wallclock");
	else if (connectx)
		c->timestamps = TS_RAW | TS_WALLCLOCK;
	c->clock_khz = number(d, "CLOCK_KHZ", connectx ? 156250 : 0, 0, 4e9);
	c->clock_bits = number(d, "CLOCK_BITS", connectx ? 63 : 64, 8, 64);
	c->clockinfo_bits = number(d, "CLOCKINFO_BITS", 41, 8, 63);
	c->drift_ppm = number(d, "DRIFT_PPM", 0, -1e5, 1e5);
	c->clock_start = number(d, "CLOCK_START", 0, 0, 18e18);
	c->wallclock_offset = number(d, "WALLCLOCK_OFFSET_NS", 0, -9e18, 9e18);
	c->mlx5 = number(d, "MLX5", connectx, 0, 1);
	c->mlx5_clock = number(d, "MLX5_CLOCK", c->mlx5, 0, 1);

	if (setting(d, "RATE_LIMIT"))
		each(c, d, "RATE_LIMIT", add_rate_qpt, "none, or some of rc, uc, ud and raw");
	else if (connectx)
		c->rate_qpts = 1 << IBV_QPT_RAW_PACKET;
	c->rate_min = number(d, "RATE_MIN_KBPS", 1, 0, 4e9);
	c->rate_max = number(d, "RATE_MAX_KBPS", 100e6, 1, 4.29e9);
	c->latency_ns = number(d, "LATENCY_NS", 0, 0, 1e12);
	c->line_bps = number(d, "LINE_BPS", 0, 0, 1e13);

	c->max_qp_wr = number(d, "MAX_QP_WR", 16384, 1, 65536);
	c->max_sge = number(d, "MAX_SGE", 30, 1, MAX_SGE);
	c->max_inline = number(d, "MAX_INLINE", 256, 0, 4096);
	c->max_cqe = number(d, "MAX_CQE", 1 << 20, 1, 1 << 22);
	c->max_rd_atom = number(d, "MAX_RD_ATOM", 16, 0, 255);
	c->max_msg_sz = number(d, "MAX_MSG_SZ", 1u << 30, 1, 1u << 31);
	c->mtu = number(d, "MTU", 4096, 256, 4096);
	c->port_down = number(d, "PORT_DOWN", 0, 0, 1);
	/* 4 lanes of 25 Gbit/s (EDR) unless chosen: IBTA's codes. */
	c->speed = number(d, "ACTIVE_SPEED", 32, 0, 255);
	c->width = number(d, "ACTIVE_WIDTH", 2, 0, 255);
	c->vendor_id = number(d, "VENDOR_ID", connectx ? 0x2c9 : 0, 0, 0xffffffff);
	c->vendor_part_id = number(d, "VENDOR_PART_ID", connectx ? 4125 : 0, 0, 0xffffffff);
	c->odp = number(d, "ODP", connectx, 0, 1);

	if (setting(d, "GIDS")) {
		each(c, d, "GIDS", add_gid, "addresses such as 10.0.0.1/v2, fe80::1/v1 or -");
	} else {
		char def[][24] = {"fe80::1/v1", "fe80::1/v2", "192.0.2.1/v1", "192.0.2.1/v2"};
		for (int i = 0; i < 4; i++)
			add_gid(c, def[i]);
	}
	v = setting(d, "NETDEV");
	c->ifindex = v ? if_nametoindex(v) : 0;

	each(c, d, "FAIL", add_fail, "CALL:ERRNO[:AFTER[:TIMES]], such as post_send:ENOMEM:3");
	each(c, d, "EVENTS", add_event, "EVENT@CALL[:NTH], such as qp_fatal@post_send:12");
	each(c, d, "WC", add_wc, "STATUS[:NTH], such as rem_access_err:12");
	v = setting(d, "LOG");
	if (v && *v) {
		c->logfd = open(v, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
		if (c->logfd < 0)
			wrong("LOG", v, "a file that can be written");
		c->slow = true;
	}
}
