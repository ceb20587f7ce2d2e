/* What a context can do: its ports' rates, and the NIC's counter. */
#define _GNU_SOURCE
#include "shim.h"

#include <dirent.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

pthread_mutex_t sl_making = PTHREAD_MUTEX_INITIALIZER;
static struct sl_device *devices;

enum { FIRST_READINGS = 8 }; /* so that the first completions have times */

/* ---- the counter */

static int read_counter(struct sl_device *d, uint64_t *ticks)
{
	/* Drivers return the raw counter in tv_nsec, with tv_sec 0 (mlx4 and mlx5 do); one that
	 * splits it counts nanoseconds. */
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	int r = sl_code(ibv_query_rt_values_ex(d->context, &v));
	if (r)
		return r;
	if (!(v.comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		return EOPNOTSUPP;
	*ticks = (uint64_t)v.raw_clock.tv_sec * 1000000000 + (uint64_t)v.raw_clock.tv_nsec;
	return 0;
}

void sl_read_counter(struct sl_device *d)
{
	if (pthread_mutex_trylock(&d->reading))
		return;
	uint64_t ticks;
	int64_t before = sl_clock();
	int r = read_counter(d, &ticks);
	int64_t after = sl_clock();
	if (r) {
		SL_ATOMIC_SET(d->read_again, after + 100000000);
	} else {
		struct sl_reading *to = &d->readings[d->count % SL_READINGS];
		__atomic_store_n(&to->before, before, __ATOMIC_RELAXED);
		__atomic_store_n(&to->ticks, ticks, __ATOMIC_RELAXED);
		__atomic_store_n(&to->after, after, __ATOMIC_RELAXED);
		SL_ATOMIC_SET(d->count, d->count + 1);
	}
	pthread_mutex_unlock(&d->reading);
}

bool sl_reading_at(struct sl_device *d, uint64_t i, struct sl_reading *r)
{
	const struct sl_reading *from = &d->readings[i % SL_READINGS];
	r->before = __atomic_load_n(&from->before, __ATOMIC_RELAXED);
	r->ticks = __atomic_load_n(&from->ticks, __ATOMIC_RELAXED);
	r->after = __atomic_load_n(&from->after, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	/* The next one to be written is number count. */
	return __atomic_load_n(&d->count, __ATOMIC_RELAXED) < i + SL_READINGS;
}

/* Whether completions can carry the counter: by making a CQ that has them. */
static void probe_stamps(struct sl_device *d, const struct ibv_device_attr_ex *a)
{
	uint64_t ticks;
	if (!a->hca_core_clock || !a->completion_timestamp_mask || !d->calls->ibv.create_cq_ex || read_counter(d, &ticks))
		return;
	struct ibv_cq_init_attr_ex attr = {.cqe = 1, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct ibv_cq_ex *cq = d->calls->ibv.create_cq_ex(d->context, &attr);
	if (!cq)
		return;
	d->calls->ibv.destroy_cq(ibv_cq_ex_to_cq(cq));
	d->stamps = true;
	d->clock_hz = (double)a->hca_core_clock * 1000;
	d->clock_bits = 64 - __builtin_clzll(a->completion_timestamp_mask);
	for (int i = 0; i < FIRST_READINGS; i++)
		sl_read_counter(d);
}

/* ---- rates */

/* An interface's line rate by its driver, 0 where that knows none. Below /sys/class/net may be another network namespace's
 * interfaces (nsenter --net): ethtool's are this one's. */
static int64_t speed_of(const char *interface)
{
	/* The kernel answers the first request with the length of its masks, negative, and the second with the settings. */
	union {
		struct ethtool_link_settings settings;
		char room[sizeof(struct ethtool_link_settings) + 3 * 127 * sizeof(uint32_t)];
	} u;
	struct ifreq r;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ok = fd >= 0;

	memset(&u, 0, sizeof(u));
	memset(&r, 0, sizeof(r));
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", interface);
	r.ifr_data = (void *)&u;
	for (int i = 0; ok && i < 2; i++) {
		u.settings.cmd = ETHTOOL_GLINKSETTINGS;
		ok = !ioctl(fd, SIOCETHTOOL, &r);
		if (u.settings.link_mode_masks_nwords > 0)
			break;
		u.settings.link_mode_masks_nwords = (int8_t)-u.settings.link_mode_masks_nwords;
	}
	if (fd >= 0)
		close(fd);
	if (!ok || u.settings.link_mode_masks_nwords <= 0 || u.settings.speed == (uint32_t)SPEED_UNKNOWN)
		return 0;
	return (int64_t)u.settings.speed * 1000000;
}

/* The rate of the network interface that is the device's alone. */
static int64_t rate_of_interface(const struct sl_device *d, int port)
{
	char path[512], name[65];
	const char *ibdev = d->context->device->name;
	struct dirent *e, *only = NULL;
	int64_t rate = 0;
	if (d->ports == 1) {
		snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/device/net", ibdev);
		DIR *dir = opendir(path);
		int n = 0;
		name[0] = 0;
		while (dir && (e = readdir(dir)))
			if (e->d_name[0] != '.') {
				only = e;
				snprintf(name, sizeof(name), "%.64s", only->d_name);
				n++;
			}
		if (dir)
			closedir(dir);
		rate = n == 1 ? speed_of(name) : 0;
	}
	if (rate)
		return rate;
	/* VLANs and bonds on top, or several ports: the first GID is the port's own. */
	snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/ports/%d/gid_attrs/ndevs/0", ibdev, port);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%64s", name) == 1)
		rate = speed_of(name);
	fclose(f);
	return rate;
}

int64_t sl_line_rate(const struct sl_device *d, int port)
{
	/* Lanes and the rate of one, by the codes of the PortInfo attribute (IBA 14.2.5.6 and
	 * its successors): what goes over a lane after its encoding, in units of 10 Mbit/s. */
	static const struct {
		uint8_t code;
		int64_t worth;
	} lanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}},
	  rates[] = {{1, 200}, {2, 400}, {4, 800}, {8, 1000}, {16, 1364}, {32, 2500}, {64, 5000}, {128, 10000}};
	struct ibv_port_attr p;
	memset(&p, 0, sizeof(p));
	if (port < 1 || port > d->ports || ibv_query_port(d->context, (uint8_t)port, &p))
		return 0;
	int64_t rate = rate_of_interface(d, port);
	if (rate)
		return rate;
	int64_t n = 0, each = 0;
	for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++)
		if (lanes[i].code == p.active_width)
			n = lanes[i].worth;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		if (rates[i].code == p.active_speed)
			each = rates[i].worth;
	return n * each * 10000000;
}

/* The bytes of the longest message at a port, 0 if that is not known. */
uint32_t sl_longest(const struct sl_device *d, int port)
{
	struct ibv_port_attr p;
	memset(&p, 0, sizeof(p));
	if (port < 1 || port > d->ports || ibv_query_port(d->context, (uint8_t)port, &p))
		return 0;
	return p.max_msg_sz;
}

/* ---- devices */

struct sl_device *sl_device_of(struct ibv_context *context)
{
	struct sl_device *d = sl_known_device(context);
	if (d)
		return d;
	d = calloc(1, sizeof(*d));
	if (!d) {
		sl_fail(ENOMEM, "create_qp: no memory for the device");
		return NULL;
	}
	d->context = context;
	d->calls = sl_calls_of(context);
	snprintf(d->name, sizeof(d->name), "ibv:%s", context->device->name);
	pthread_mutex_init(&d->list, NULL);
	pthread_mutex_init(&d->reading, NULL);
	struct ibv_device_attr_ex a;
	memset(&a, 0, sizeof(a));
	int r = sl_code(ibv_query_device_ex(context, NULL, &a));
	if (r) {
		free(d);
		sl_fail(r, "query_device ibv:%s: %s", context->device->name, strerror(r));
		return NULL;
	}
	d->max_qp_wr = a.orig_attr.max_qp_wr;
	d->max_cqe = a.orig_attr.max_cqe;
	d->ports = a.phys_port_cnt_ex > a.orig_attr.phys_port_cnt ? (int)a.phys_port_cnt_ex : a.orig_attr.phys_port_cnt;
	d->limits_rc = a.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RC;
	probe_stamps(d, &a);
	d->number = 1;
	for (struct sl_device *o = devices; o;) {
		bool same = !strcmp(o->name, d->name) && o->number == d->number;
		d->number += same;
		o = same ? devices : o->next;
	}
	d->next = devices;
	devices = d;
	sl_debug("level=DEBUG msg=\"device adopted\" device=%s", d->name);
	return d;
}

void sl_device_free(struct sl_device *d)
{
	for (struct sl_device **p = &devices; *p; p = &(*p)->next)
		if (*p == d) {
			*p = d->next;
			break;
		}
	pthread_mutex_destroy(&d->list);
	pthread_mutex_destroy(&d->reading);
	free(d);
}

struct sl_device *sl_known_device(struct ibv_context *context)
{
	struct sl_device *d = devices;
	while (d && d->context != context)
		d = d->next;
	return d;
}

struct sl_device *sl_first_device(void) { return devices; }

/* In the child of a fork: the parent's devices are not this process's. */
void sl_devices_forget(void) { devices = NULL; }
