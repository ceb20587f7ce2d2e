/* The list of devices, opening them, and what they say of themselves. */
#define _GNU_SOURCE
#include "fake.h"
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#undef ibv_query_port

static struct fv_device *known[16];
static int nknown;
static pthread_mutex_t known_mu = PTHREAD_MUTEX_INITIALIZER;

/* device finds or makes the one of a name. They live as long as the process:
 * a context outlives the list it was opened from. */
static struct fv_device *device(const char *name)
{
	for (int i = 0; i < nknown; i++)
		if (!strcmp(known[i]->dev.name, name))
			return known[i];
	if (nknown == sizeof known / sizeof *known)
		return NULL;
	struct fv_device *d = calloc(1, sizeof *d);
	d->dev.node_type = IBV_NODE_CA;
	d->dev.transport_type = IBV_TRANSPORT_IB;
	snprintf(d->dev.name, sizeof d->dev.name, "%s", name);
	snprintf(d->dev.dev_name, sizeof d->dev.dev_name, "uverbs%d", nknown);
	snprintf(d->dev.dev_path, sizeof d->dev.dev_path,
		 "/sys/class/infiniband_verbs/uverbs%d", nknown);
	snprintf(d->dev.ibdev_path, sizeof d->dev.ibdev_path, "/sys/class/infiniband/%s", name);
	d->index = nknown;
	d->guid = 0x0200fa4e00000000ull | (unsigned)(nknown + 1);
	return known[nknown++] = d;
}

struct ibv_device **ibv_get_device_list(int *num)
{
	const char *names = getenv("FAKEVERBS_DEVICES");
	char *copy = strdup(names ? names : "fake0"), *save, *name;
	struct ibv_device **list = calloc(17, sizeof *list);
	int n = 0;
	pthread_mutex_lock(&known_mu);
	for (name = strtok_r(copy, ",", &save); name && n < 16; name = strtok_r(NULL, ",", &save)) {
		struct fv_device *d = device(name);
		if (d)
			list[n++] = &d->dev;
	}
	pthread_mutex_unlock(&known_mu);
	free(copy);
	if (num)
		*num = n;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

int ibv_get_device_index(struct ibv_device *d)
{
	return container(d, struct fv_device, dev)->index;
}

__be64 ibv_get_device_guid(struct ibv_device *d)
{
	return htobe64(container(d, struct fv_device, dev)->guid);
}

static int query_device(struct fv_context *c, struct ibv_device_attr *a)
{
	struct config *cfg = &c->cfg;
	struct fv_device *d = container(c->vctx.context.device, struct fv_device, dev);
	*a = (struct ibv_device_attr){
		.fw_ver = "fake.1",
		.node_guid = htobe64(d->guid),
		.sys_image_guid = htobe64(d->guid),
		.max_mr_size = 1ull << 40,
		.page_size_cap = 0xfffff000,
		.vendor_id = cfg->vendor_id,
		.vendor_part_id = cfg->vendor_part_id,
		.max_qp = MAX_QPS - 1,
		.max_qp_wr = cfg->max_qp_wr,
		.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE,
		.max_sge = cfg->max_sge,
		.max_sge_rd = cfg->max_sge,
		.max_cq = 1 << 16,
		.max_cqe = cfg->max_cqe,
		.max_mr = MAX_MRS - 1,
		.max_pd = 1 << 16,
		.max_qp_rd_atom = cfg->max_rd_atom,
		.max_qp_init_rd_atom = cfg->max_rd_atom,
		.max_res_rd_atom = cfg->max_rd_atom * (MAX_QPS - 1),
		.atomic_cap = cfg->max_rd_atom ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE,
		.max_ah = 1 << 16,
		.max_srq = 1 << 16,
		.max_srq_wr = cfg->max_qp_wr,
		.max_srq_sge = cfg->max_sge,
		.max_pkeys = 1,
		.local_ca_ack_delay = 16,
		.phys_port_cnt = 1,
	};
	return 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *a)
{
	int err = hook(to_ctx(ctx), CALL_query_device, NULL, NULL);
	return err ? err : query_device(to_ctx(ctx), a);
}

static int query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *in,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	struct fv_context *c = to_ctx(ctx);
	int err = hook(c, CALL_query_device_ex, NULL, NULL);
	if (err)
		return err;
	if (in && in->comp_mask)
		return EINVAL;
	struct ibv_device_attr_ex a = {0};
	query_device(c, &a.orig_attr);
	a.phys_port_cnt_ex = 1;
	if (c->cfg.timestamps & TS_RAW)
		a.completion_timestamp_mask =
			c->cfg.clock_bits >= 64 ? ~0ull : (1ull << c->cfg.clock_bits) - 1;
	a.hca_core_clock = c->cfg.clock_khz;
	if (c->cfg.rate_qpts) {
		a.packet_pacing_caps.qp_rate_limit_min = c->cfg.rate_min;
		a.packet_pacing_caps.qp_rate_limit_max = c->cfg.rate_max;
		a.packet_pacing_caps.supported_qpts = c->cfg.rate_qpts;
	}
	if (c->cfg.odp) {
		a.odp_caps.general_caps = IBV_ODP_SUPPORT;
		a.odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND |
			IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
	}
	a.cq_mod_caps.max_cq_count = a.cq_mod_caps.max_cq_period = 0xffff;
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

static enum ibv_mtu mtu_code(int mtu)
{
	enum ibv_mtu m = IBV_MTU_256;
	while (m < IBV_MTU_4096 && (256 << m) <= mtu)
		m++;
	return m;
}

static int fv_query_port(struct ibv_context *ctx, uint8_t num, struct ibv_port_attr *attr,
			 size_t size)
{
	struct fv_context *c = to_ctx(ctx);
	int err = hook(c, CALL_query_port, NULL, NULL);
	if (!err && num != 1)
		err = EINVAL;
	if (err)
		return err;
	struct ibv_port_attr a = {
		.state = c->cfg.port_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = mtu_code(c->cfg.mtu),
		.gid_tbl_len = c->cfg.ngids,
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = c->cfg.max_msg_sz,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.active_width = c->cfg.width,
		.active_speed = c->cfg.speed,
		.phys_state = c->cfg.port_down ? 3 : 5,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

/* Its argument is the port's attributes as they were before flags came. */
int ibv_query_port(struct ibv_context *ctx, uint8_t num, struct _compat_ibv_port_attr *attr)
{
	return fv_query_port(ctx, num, (struct ibv_port_attr *)attr,
			     offsetof(struct ibv_port_attr, flags));
}

int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	struct fv_context *c = to_ctx(ctx);
	int err = hook(c, CALL_query_gid, NULL, NULL);
	if (!err && (port != 1 || index < 0 || index >= c->cfg.ngids))
		err = EINVAL;
	if (err)
		return errno = err, -1;
	*gid = c->cfg.gids[index];
	return 0;
}

static void gid_entry(struct fv_context *c, uint32_t i, struct ibv_gid_entry *e)
{
	*e = (struct ibv_gid_entry){.gid = c->cfg.gids[i], .gid_index = i, .port_num = 1,
				    .gid_type = c->cfg.gid_types[i], .ndev_ifindex = c->cfg.ifindex};
}

int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	static const union ibv_gid zero;
	struct fv_context *c = to_ctx(ctx);
	int err = hook(c, CALL_query_gid, NULL, NULL);
	if (err)
		return err;
	if (flags || port != 1 || index >= (uint32_t)c->cfg.ngids || size < sizeof *entry)
		return EINVAL;
	if (!memcmp(&c->cfg.gids[index], &zero, sizeof zero))
		return ENODATA;
	gid_entry(c, index, entry);
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max,
			     uint32_t flags, size_t size)
{
	static const union ibv_gid zero;
	struct fv_context *c = to_ctx(ctx);
	int err = hook(c, CALL_query_gid, NULL, NULL);
	if (err)
		return -err;
	if (flags || size < sizeof *entries)
		return -EINVAL;
	size_t n = 0;
	for (int i = 0; i < c->cfg.ngids; i++) {
		if (!memcmp(&c->cfg.gids[i], &zero, sizeof zero))
			continue;
		if (n == max)
			return -EINVAL;
		gid_entry(c, i, (struct ibv_gid_entry *)((char *)entries + n++ * size));
	}
	return n;
}

/* rdma-core's private call, which ibv_devinfo makes: RoCE v2 is 1 there. */
int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index, int *type)
{
	struct fv_context *c = to_ctx(ctx);
	if (port != 1 || index >= (unsigned)c->cfg.ngids)
		return errno = EINVAL, -1;
	*type = c->cfg.gid_types[index] == IBV_GID_TYPE_ROCE_V2;
	return 0;
}

int ibv_query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	(void)ctx;
	if (port != 1 || index)
		return errno = EINVAL, -1;
	*pkey = 0xffff;
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *ctx, uint8_t port, __be16 pkey)
{
	(void)ctx;
	if (port != 1 || pkey != 0xffff)
		return errno = EINVAL, -1;
	return 0;
}

static int unwanted_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad)
{
	(void)srq;
	*bad = op;
	return EOPNOTSUPP;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct fv_context *c = calloc(1, sizeof *c);
	struct ibv_context *ctx = &c->vctx.context;
	ctx->device = d;
	config_read(&c->cfg, d->name);
	pthread_mutex_init(&c->mu, NULL);
	pthread_mutex_init(&ctx->mutex, NULL);
	ctx->cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int err = evq_init(&c->async);
	if (!err)
		err = hook(c, CALL_open_device, NULL, NULL);
	if (err || ctx->cmd_fd < 0) {
		evq_free(&c->async);
		close(ctx->cmd_fd);
		if (c->cfg.logfd >= 0)
			close(c->cfg.logfd);
		free(c);
		return errno = err ? err : EMFILE, NULL;
	}
	ctx->async_fd = c->async.fd;
	ctx->num_comp_vectors = 4;
	ctx->abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx->ops.poll_cq = fv_poll_cq;
	ctx->ops.req_notify_cq = fv_req_notify_cq;
	ctx->ops.post_send = fv_post_send;
	ctx->ops.post_recv = fv_post_recv;
	ctx->ops.post_srq_recv = fv_post_srq_recv;
	c->vctx.sz = sizeof c->vctx;
	c->vctx.query_port = fv_query_port;
	c->vctx.query_device_ex = query_device_ex;
	c->vctx.query_rt_values = fv_query_rt_values;
	c->vctx.create_cq_ex = fv_create_cq_ex;
	c->vctx.modify_cq = fv_modify_cq;
	c->vctx.create_qp_ex = fv_create_qp_ex;
	c->vctx.create_srq_ex = fv_create_srq_ex;
	c->vctx.get_srq_num = fv_get_srq_num;
	c->vctx.modify_qp_rate_limit = fv_modify_qp_rate_limit;
	c->vctx.post_srq_ops = unwanted_srq_ops;

	/* Calls that the driver of this device lacks altogether. */
	const char *lacks = setting(d->name, "LACKS");
	char *copy = strdup(lacks ? lacks : ""), *save, *name;
	for (name = strtok_r(copy, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
#define LACK(op)                                                                                   \
	if (!strcmp(name, #op)) {                                                                  \
		c->vctx.op = NULL;                                                                 \
		continue;                                                                          \
	}
		LACK(query_device_ex)
		LACK(query_rt_values)
		LACK(create_cq_ex)
		LACK(modify_cq)
		LACK(create_qp_ex)
		LACK(create_srq_ex)
		LACK(modify_qp_rate_limit)
		if (!strcmp(name, "extended")) {
			ctx->abi_compat = NULL; /* the ABI of before 2013 */
			continue;
		}
		fprintf(stderr, "fakeverbs: FAKEVERBS_LACKS: there is no %s to lack\n", name);
		_exit(2);
	}
	free(copy);
	logf_(c, "open_device");
	return ctx;
}

int ibv_close_device(struct ibv_context *ctx)
{
	struct fv_context *c = to_ctx(ctx);
	if (atomic_load(&c->objects))
		return errno = EBUSY, EBUSY;
	logf_(c, "close_device");
	close(ctx->cmd_fd);
	evq_free(&c->async);
	if (c->cfg.logfd >= 0)
		close(c->cfg.logfd);
	free(c);
	return 0;
}

/* The environment of a process without InfiniBand in its /sys. */
const char *ibv_get_sysfs_path(void)
{
	const char *p = getenv("SYSFS_PATH");
	return p ? p : "/sys";
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", dir, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, buf, size);
	close(fd);
	if (n > 0 && buf[n - 1] == '\n')
		buf[--n] = 0;
	else if (n >= 0 && (size_t)n < size)
		buf[n] = 0;
	return n;
}

static enum ibv_fork_status forks = IBV_FORK_DISABLED;

int ibv_fork_init(void)
{
	forks = IBV_FORK_ENABLED;
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return forks;
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *ctx, struct ibv_ah_attr *attr,
				uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	(void)ctx;
	(void)attr;
	memcpy(mac, "\x02\xfa\x4e\0\0\x01", ETHERNET_LL_SIZE);
	*vid = 0xffff;
	return 0;
}
