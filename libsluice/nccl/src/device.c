/* Devices, their memory, and where peers reach them. */
#include "plugin.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct device devices[MAX_DEVICES];
int device_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of users and pd */

/* speed is a port's, in Mbit/s; of codes that are not known, 10 Gbit/s. */
static int speed(const struct ibv_port_attr *a)
{
	static const struct {
		int code, mbps;
	} lanes[] = {{1, 2500}, {2, 5000}, {4, 10000}, {8, 10000}, {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
	static const struct {
		int code, lanes;
	} widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
	int mbps = 10000, n = 1;

	for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
		if (a->active_speed == lanes[i].code)
			mbps = lanes[i].mbps;
	for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
		if (a->active_width == widths[i].code)
			n = widths[i].lanes;
	return n * mbps;
}

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid->raw, prefix, sizeof prefix);
}

static bool is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* choose_gid takes the index that is set, or the best of RoCEv2: an IPv4 address, another one, a link-local one. */
static bool choose_gid(struct device *d, const struct ibv_port_attr *a)
{
	int best = 0;

	for (int i = 0; i < a->gid_tbl_len; i++) {
		struct ibv_gid_entry e;
		int rank;

		if ((settings.gid_index >= 0 && i != settings.gid_index) || ibv_query_gid_ex(d->context, d->port, i, &e, 0))
			continue;
		rank = is_ipv4(&e.gid) ? 3 : is_link_local(&e.gid) ? 1 : 2;
		if ((settings.gid_index < 0 && e.gid_type != IBV_GID_TYPE_ROCE_V2) || rank <= best)
			continue;
		best = rank;
		d->gid = e.gid;
		d->gid_index = i;
	}
	return best > 0;
}

/* reaches_dmabuf: the kernel has the call if it minds the descriptor. */
static bool reaches_dmabuf(struct ibv_context *context)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr;
	bool there;

	if (!pd)
		return false;
	errno = 0;
	mr = ibv_reg_dmabuf_mr(pd, 0, 0, 0, -1, 0);
	there = mr || errno == EBADF;
	if (mr)
		ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	return there;
}

static int reachable(struct ibv_context *context)
{
	int support = NCCL_PTR_HOST;

	if (!access("/sys/module/nvidia_peermem/version", F_OK) || !access("/sys/kernel/mm/memory_peers/nv_mem/version", F_OK))
		support |= NCCL_PTR_CUDA;
	if (reaches_dmabuf(context))
		support |= NCCL_PTR_DMABUF;
	return support;
}

/* add_port adds a port as a device, with a context of its own. */
static void add_port(struct ibv_device *ib, int port)
{
	struct device *d = &devices[device_count];
	const char *name = ibv_get_device_name(ib);
	struct ibv_port_attr a;
	char path[PATH_MAX];

	memset(d, 0, sizeof *d);
	d->members = 1;
	d->member[0] = d;
	d->context = ibv_open_device(ib);
	if (!d->context) {
		INFO("%s does not open: %s", name, strerror(errno));
		return;
	}
	d->port = port;
	if (ibv_query_port(d->context, port, &a)) {
		INFO("%s:%d can't be queried: %s", name, port, strerror(errno));
	} else if (a.state != IBV_PORT_ACTIVE) {
		INFO("%s:%d is not active", name, port);
	} else if (a.link_layer != IBV_LINK_LAYER_ETHERNET) {
		INFO("%s:%d is no Ethernet port: only RoCE is supported", name, port);
	} else if (!choose_gid(d, &a)) {
		INFO("%s:%d has no GID for RoCEv2%s", name, port, settings.gid_index < 0 ? "" : " at the index of NCCL_IB_GID_INDEX");
	} else {
		snprintf(d->name, sizeof d->name, "%s", name);
		snprintf(path, sizeof path, "%s/device", ib->ibdev_path);
		d->pci_path = realpath(path, NULL);
		d->guid = be64toh(ibv_get_device_guid(ib));
		d->speed = speed(&a);
		d->mtu = a.active_mtu;
		d->max_message = a.max_msg_sz;
		d->ptr_support = reachable(d->context);
		device_count++;
		INFO("%s:%d, %d Mbit/s, GID index %d", name, port, d->speed, d->gid_index);
		return;
	}
	ibv_close_device(d->context);
}

static int ports(struct ibv_device *ib)
{
	struct ibv_context *context = ibv_open_device(ib);
	struct ibv_device_attr a;
	int n = 0;

	if (!context)
		return 0;
	if (!ibv_query_device(context, &a))
		n = a.phys_port_cnt;
	ibv_close_device(context);
	return n;
}

void devices_open(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	device_count = 0;
	for (int i = 0; list && i < n; i++) {
		int count = ports(list[i]);

		for (int port = 1; port <= count && device_count < MAX_DEVICES; port++)
			if (listed(&settings.hcas, ibv_get_device_name(list[i]), port))
				add_port(list[i], port);
	}
	if (list)
		ibv_free_device_list(list);
	if (!device_count)
		INFO("no device of libibverbs with an active RoCE port%s", settings.hcas.given ? " that NCCL_IB_HCA takes" : "");
}

bool devices_close(void)
{
	for (int i = 0; i < device_count; i++)
		if (devices[i].users)
			return false;
	for (int i = 0; i < device_count; i++) {
		if (devices[i].context)
			ibv_close_device(devices[i].context);
		free(devices[i].pci_path);
	}
	device_count = 0;
	return true;
}

nccl_result device_make(int *number, int count, const int *of)
{
	struct device *d, *first;
	nccl_result result = NCCL_INVALID_ARGUMENT;
	char name[sizeof d->name] = "";

	pthread_mutex_lock(&lock);
	if (count < 1 || count > MAX_MEMBERS || device_count == MAX_DEVICES) {
		WARN("makeVDevice: no device of %d, as there are %d: one has 1 to %d, and there are at most %d", count, device_count, MAX_MEMBERS, MAX_DEVICES);
		goto out;
	}
	for (int i = 0; i < count; i++)
		if (of[i] < 0 || of[i] >= device_count || !devices[of[i]].context) {
			WARN("makeVDevice: %d is no device with a port, of %d", of[i], device_count);
			goto out;
		}
	first = &devices[of[0]];
	d = &devices[device_count];
	*d = (struct device){
		.port = first->port, .guid = first->guid, .gid = first->gid, .gid_index = first->gid_index, .mtu = first->mtu,
		.ptr_support = first->ptr_support, .max_message = first->max_message, .pci_path = first->pci_path ? strdup(first->pci_path) : NULL,
		.members = count,
	};
	for (int i = 0; i < count; i++) {
		struct device *m = d->member[i] = &devices[of[i]];
		size_t n = strlen(name);

		snprintf(name + n, sizeof name - n, "%s%s", i ? "+" : "", m->name);
		d->speed += m->speed;
		d->ptr_support &= m->ptr_support;
		if (m->max_message < d->max_message)
			d->max_message = m->max_message;
	}
	memcpy(d->name, name, sizeof name);
	*number = device_count++;
	INFO("%s, %d Mbit/s", d->name, d->speed);
	result = NCCL_SUCCESS;
out:
	pthread_mutex_unlock(&lock);
	return result;
}

static void release_locked(struct device *d, int members)
{
	for (int i = 0; i < members; i++) {
		struct device *m = d->member[i];

		if (--m->users)
			continue;
		ibv_dealloc_pd(m->pd);
		m->pd = NULL;
	}
}

bool device_use(struct device *d)
{
	bool ok = true;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < d->members && ok; i++) {
		struct device *m = d->member[i];

		if (!m->users)
			m->pd = ibv_alloc_pd(m->context);
		ok = m->pd != NULL;
		if (ok) {
			m->users++;
		} else {
			WARN("%s has no protection domain: %s", m->name, strerror(errno));
			release_locked(d, i);
		}
	}
	pthread_mutex_unlock(&lock);
	return ok;
}

void device_release(struct device *d)
{
	pthread_mutex_lock(&lock);
	release_locked(d, d->members);
	pthread_mutex_unlock(&lock);
}

nccl_result memory_register(struct device *d, void *data, size_t size, int type, uint64_t offset, int fd, struct memory **found)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct memory *m;

	*found = NULL;
	if (type != NCCL_PTR_HOST && type != NCCL_PTR_CUDA && type != NCCL_PTR_DMABUF) {
		WARN("regMr: unknown type of memory %d", type);
		return NCCL_INVALID_ARGUMENT;
	}
	m = calloc(1, sizeof *m);
	if (!m)
		return NCCL_SYSTEM_ERROR;
	if (!device_use(d)) {
		free(m);
		return NCCL_SYSTEM_ERROR;
	}
	m->device = d;
	m->addr = (uintptr_t)data;
	m->size = size;
	m->gpu = type != NCCL_PTR_HOST;
	for (int i = 0; i < d->members; i++) {
		struct ibv_pd *pd = d->member[i]->pd;

		m->mr[i] = fd < 0 ? ibv_reg_mr(pd, data, size, access) : ibv_reg_dmabuf_mr(pd, offset, size, m->addr, fd, access);
		if (!m->mr[i]) {
			WARN("%s does not register %zu bytes at %p: %s", d->member[i]->name, size, data, strerror(errno));
			memory_deregister(m);
			return NCCL_SYSTEM_ERROR;
		}
	}
	*found = m;
	return NCCL_SUCCESS;
}

nccl_result memory_deregister(struct memory *m)
{
	nccl_result result = NCCL_SUCCESS;

	if (!m)
		return NCCL_SUCCESS;
	for (int i = 0; i < m->device->members; i++)
		if (m->mr[i] && ibv_dereg_mr(m->mr[i])) {
			WARN("%s does not deregister %zu bytes at %p: %s", m->device->member[i]->name, m->size, (void *)m->addr, strerror(errno));
			result = NCCL_SYSTEM_ERROR;
		}
	device_release(m->device);
	free(m);
	return result;
}

/* interface_address takes the first interface that is listed, or without a list the first that is not the host's own. */
static bool interface_address(struct sockaddr_storage *addr)
{
	struct ifaddrs *all, *i;

	if (getifaddrs(&all))
		return false;
	for (i = all; i; i = i->ifa_next) {
		const struct sockaddr_in6 *v6 = (const void *)i->ifa_addr;

		if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !listed(&settings.interfaces, i->ifa_name, 0))
			continue;
		if (!settings.interfaces.given && (i->ifa_flags & IFF_LOOPBACK || !strncmp(i->ifa_name, "docker", 6)))
			continue;
		if (i->ifa_addr->sa_family == AF_INET || (i->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)))
			break;
	}
	if (i)
		memcpy(addr, i->ifa_addr, i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	freeifaddrs(all);
	return i != NULL;
}

/* own_gid is the GID of an address. */
static union ibv_gid own_gid(const struct sockaddr_storage *addr)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	if (addr->ss_family == AF_INET)
		memcpy(gid.raw + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
	else
		memcpy(gid.raw, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
	return gid;
}

/* each_gid calls f for the port's GIDs of RoCEv2 until it returns true, and returns the index of that one, or -1. */
static int each_gid(const struct device *d, bool (*f)(const union ibv_gid *gid, void *with), void *with)
{
	struct ibv_port_attr a;

	if (ibv_query_port(d->context, d->port, &a))
		return -1;
	for (int i = 0; i < a.gid_tbl_len; i++) {
		struct ibv_gid_entry e;

		if (!ibv_query_gid_ex(d->context, d->port, i, &e, 0) && e.gid_type == IBV_GID_TYPE_ROCE_V2 && f(&e.gid, with))
			return i;
	}
	return -1;
}

static bool is_gid(const union ibv_gid *gid, void *with)
{
	return !memcmp(gid, with, sizeof *gid);
}

int device_gid_index(const struct device *d, const union ibv_gid *gid)
{
	return settings.gid_index < 0 ? each_gid(d, is_gid, (void *)gid) : settings.gid_index;
}

bool device_has(const struct device *d, const struct sockaddr_storage *addr)
{
	union ibv_gid own = own_gid(addr);

	return each_gid(d->member[0], is_gid, &own) >= 0;
}

static void gid_address(const union ibv_gid *gid, struct sockaddr_storage *addr)
{
	struct sockaddr_in *v4 = (void *)addr;
	struct sockaddr_in6 *v6 = (void *)addr;

	memset(addr, 0, sizeof *addr);
	if (is_ipv4(gid)) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, gid->raw + 12, 4);
	} else {
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_addr, gid->raw, 16);
	}
}

struct places {
	const struct device *device;
	struct sockaddr_storage *to;
	int n, most;
};

static bool add_place(const union ibv_gid *gid, void *with)
{
	static const union ibv_gid none;
	struct places *p = with;

	if (!is_link_local(gid) && memcmp(gid, &none, sizeof none) && memcmp(gid, &p->device->gid, sizeof *gid))
		gid_address(gid, &p->to[p->n++]);
	return p->n == p->most;
}

int device_addresses(const struct device *d, struct sockaddr_storage *all, int most)
{
	struct places p = {d, all, 1, most};

	if (settings.interfaces.given || is_link_local(&d->gid)) {
		memset(all, 0, sizeof *all);
		if (interface_address(all))
			return 1;
		WARN("no interface with an address%s", settings.interfaces.given ? " is one of NCCL_SOCKET_IFNAME" : "; set NCCL_SOCKET_IFNAME");
		return 0;
	}
	gid_address(&d->gid, all);
	if (settings.gid_index < 0 && p.n < most)
		each_gid(d->member[0], add_place, &p);
	return p.n;
}

/* The room that the kernel's RoCE driver leaves for headers (iboe_get_mtu). */
enum { HEADERS = 80 };

void device_route(const struct device *d, int fd, union ibv_gid *gid, int *gid_index, enum ibv_mtu *mtu)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof addr;
	union ibv_gid own;
	int bytes, index;
	bool v4;

	*gid = d->gid;
	*gid_index = d->gid_index;
	*mtu = d->mtu;
	if (getsockname(fd, (void *)&addr, &len))
		return;
	v4 = addr.ss_family == AF_INET;
	own = own_gid(&addr);
	index = settings.gid_index < 0 ? each_gid(d, is_gid, &own) : -1;
	if (index >= 0) {
		*gid = own;
		*gid_index = index;
	}
	/* The socket's path is the queue pairs' if its address is theirs. */
	len = sizeof bytes;
	if (memcmp(gid, &own, sizeof own) || getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &bytes, &len))
		return;
	while (*mtu > IBV_MTU_256 && (128 << *mtu) + HEADERS > bytes)
		(*mtu)--;
}
