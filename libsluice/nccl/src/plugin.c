/* The tables of functions that NCCL finds, one for each version of its interface, and what differs between these. */
#include "plugin.h"

#include <stdlib.h>
#include <time.h>

nccl_logger plugin_log;
struct settings settings;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static int contexts;
static bool opened;

int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static nccl_result start(nccl_logger log)
{
	nccl_result result = NCCL_SUCCESS;

	pthread_mutex_lock(&lock);
	plugin_log = log;
	if (!opened) {
		if (!settings_read(&settings)) {
			result = NCCL_INVALID_USAGE;
		} else if (settings.disabled) {
			INFO("off: NCCL_IB_DISABLE is 1");
			result = NCCL_INTERNAL_ERROR;
		} else {
			devices_open();
			opened = true;
			INFO("%d queue pairs a connection, chunks of %d bytes, balanced %s", settings.qps, settings.piece,
			     settings.balance == BALANCE_ROUNDROBIN ? "round robin" : "by delay");
		}
	}
	if (!result)
		contexts++;
	pthread_mutex_unlock(&lock);
	return result;
}

static nccl_result init_v6(nccl_logger log)
{
	return start(log);
}

static nccl_result init_v10(nccl_logger log, nccl_profiler profiler)
{
	(void)profiler;
	return start(log);
}

/* The context of one of NCCL's communicators. */
struct context {
	int traffic_class;
};

static nccl_result init_v11(void **context, uint64_t communicator, nccl_config *config, nccl_logger log, nccl_profiler profiler)
{
	struct context *c = malloc(sizeof *c);
	nccl_result result;

	(void)communicator;
	(void)profiler;
	if (!c)
		return NCCL_SYSTEM_ERROR;
	c->traffic_class = config ? config->traffic_class : NCCL_NET_UNDEFINED;
	result = start(log);
	if (result) {
		free(c);
		return result;
	}
	*context = c;
	return NCCL_SUCCESS;
}

static nccl_result finalize(void *context)
{
	pthread_mutex_lock(&lock);
	if (contexts && !--contexts && devices_close())
		opened = false;
	pthread_mutex_unlock(&lock);
	free(context);
	return NCCL_SUCCESS;
}

/* Versions before 11 do not say when they end. */
__attribute__((destructor)) static void unloaded(void)
{
	devices_close();
}

static nccl_result count_devices(int *count)
{
	*count = device_count;
	return NCCL_SUCCESS;
}

static struct device *device_of(int number)
{
	if (number >= 0 && number < device_count)
		return &devices[number];
	WARN("there is no device %d, of %d", number, device_count);
	return NULL;
}

/* ---- properties */

enum { MAX_COMMS = 65536 };

/* What all versions have. */
#define COMMON(p, d) \
	do { \
		(p)->name = (d)->name; \
		(p)->pci_path = (d)->pci_path; \
		(p)->guid = (d)->guid; \
		(p)->ptr_support = (d)->ptr_support; \
		(p)->speed = (d)->speed; \
		(p)->port = (d)->port; \
		(p)->latency = 0; \
		(p)->max_comms = MAX_COMMS; \
		(p)->max_recvs = MAX_RECEIVES; \
	} while (0)
#define FROM_V7(p) \
	do { \
		(p)->device_type = NCCL_NET_DEVICE_HOST; \
		(p)->device_version = NCCL_NET_DEVICE_INVALID_VERSION; \
	} while (0)
#define FROM_V9(p, d) \
	do { \
		FROM_V7(p); \
		(p)->reg_is_global = 1; \
		(p)->force_flush = 0; \
		(p)->members.count = (d)->members; \
		for (int i = 0; i < (d)->members; i++) \
			(p)->members.devices[i] = (int)((d)->member[i] - devices); \
		(p)->max_p2p_bytes = (p)->max_coll_bytes = MAX_MESSAGE; \
	} while (0)

static nccl_result properties_v6(int number, nccl_properties_v6 *p)
{
	struct device *d = device_of(number);

	if (!d)
		return NCCL_INVALID_ARGUMENT;
	COMMON(p, d);
	return NCCL_SUCCESS;
}

static nccl_result properties_v7(int number, nccl_properties_v7 *p)
{
	struct device *d = device_of(number);

	if (!d)
		return NCCL_INVALID_ARGUMENT;
	COMMON(p, d);
	FROM_V7(p);
	return NCCL_SUCCESS;
}

static nccl_result properties_v8(int number, nccl_properties_v8 *p)
{
	struct device *d = device_of(number);

	if (!d)
		return NCCL_INVALID_ARGUMENT;
	COMMON(p, d);
	FROM_V7(p);
	p->reg_is_global = 1;
	return NCCL_SUCCESS;
}

static nccl_result properties_v9(int number, nccl_properties_v9 *p)
{
	struct device *d = device_of(number);

	if (!d)
		return NCCL_INVALID_ARGUMENT;
	COMMON(p, d);
	FROM_V9(p, d);
	return NCCL_SUCCESS;
}

static nccl_result properties_v11(int number, nccl_properties_v11 *p)
{
	struct device *d = device_of(number);

	if (!d)
		return NCCL_INVALID_ARGUMENT;
	COMMON(p, d);
	FROM_V9(p, d);
	p->max_multi_request = 1;
	return NCCL_SUCCESS;
}

static nccl_result properties_v12(int number, nccl_properties_v12 *p)
{
	struct device *d = device_of(number);

	if (!d)
		return NCCL_INVALID_ARGUMENT;
	COMMON(p, d);
	FROM_V9(p, d);
	p->max_multi_request = 1;
	p->rail = p->plane = NCCL_NET_UNDEFINED;
	return NCCL_SUCCESS;
}

static nccl_result make_device_v9(int *number, nccl_members_v9 *m)
{
	return device_make(number, m->count, m->devices);
}

static nccl_result make_device_v12(int *number, nccl_members_v12 *m)
{
	return device_make(number, m->count, m->devices);
}

/* ---- connections */

static int traffic_class(const struct context *c)
{
	return c ? c->traffic_class : NCCL_NET_UNDEFINED;
}

static nccl_result listen_v11(void *context, int number, void *handle, void **listener)
{
	struct device *d = device_of(number);

	return d ? rendezvous_listen(d, traffic_class(context), handle, listener) : NCCL_INVALID_ARGUMENT;
}

static nccl_result listen_v6(int number, void *handle, void **listener)
{
	return listen_v11(NULL, number, handle, listener);
}

static nccl_result connect_v11(void *context, int number, void *handle, void **sender, nccl_device_handle **on_gpu)
{
	struct device *d = device_of(number);

	(void)on_gpu;
	return d ? rendezvous_connect(d, traffic_class(context), handle, sender) : NCCL_INVALID_ARGUMENT;
}

static nccl_result connect_v10(int number, nccl_config *config, void *handle, void **sender, nccl_device_handle **on_gpu)
{
	struct context c = {.traffic_class = config ? config->traffic_class : NCCL_NET_UNDEFINED};

	return connect_v11(&c, number, handle, sender, on_gpu);
}

static nccl_result connect_v7(int number, void *handle, void **sender, nccl_device_handle **on_gpu)
{
	return connect_v11(NULL, number, handle, sender, on_gpu);
}

static nccl_result connect_v6(int number, void *handle, void **sender)
{
	return connect_v11(NULL, number, handle, sender, NULL);
}

static nccl_result accept_v7(void *listener, void **receiver, nccl_device_handle **on_gpu)
{
	(void)on_gpu;
	return rendezvous_accept(listener, receiver);
}

static nccl_result accept_v6(void *listener, void **receiver)
{
	return rendezvous_accept(listener, receiver);
}

static nccl_result close_connection(void *comm)
{
	if (comm)
		connection_close(comm);
	return NCCL_SUCCESS;
}

static nccl_result close_listener(void *listener)
{
	return listener ? rendezvous_close(listener) : NCCL_SUCCESS;
}

/* ---- memory */

static nccl_result register_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd, void **memory)
{
	struct connection *c = comm;

	if (fd < 0) {
		WARN("regMrDmaBuf: %d is no descriptor", fd);
		return NCCL_INVALID_ARGUMENT;
	}
	return memory_register(c->device, data, size, type, offset, fd, (struct memory **)memory);
}

static nccl_result register_v8(void *comm, void *data, size_t size, int type, void **memory)
{
	struct connection *c = comm;

	return memory_register(c->device, data, size, type, 0, -1, (struct memory **)memory);
}

static nccl_result register_v6(void *comm, void *data, int size, int type, void **memory)
{
	return size < 0 ? NCCL_INVALID_ARGUMENT : register_v8(comm, data, size, type, memory);
}

static nccl_result deregister(void *comm, void *memory)
{
	(void)comm;
	return memory_deregister(memory);
}

/* ---- messages */

static nccl_result send_v9(void *sender, void *data, size_t size, int tag, void *memory, void **request)
{
	return transfer_send(sender, data, size, tag, memory, request);
}

static nccl_result send_v10(void *sender, void *data, size_t size, int tag, void *memory, void *event, void **request)
{
	(void)event;
	return transfer_send(sender, data, size, tag, memory, request);
}

static nccl_result send_v6(void *sender, void *data, int size, int tag, void *memory, void **request)
{
	return size < 0 ? NCCL_INVALID_ARGUMENT : transfer_send(sender, data, size, tag, memory, request);
}

static nccl_result receive_v9(void *receiver, int n, void **data, size_t *sizes, int *tags, void **memories, void **request)
{
	return transfer_receive(receiver, n, data, sizes, tags, memories, request);
}

static nccl_result receive_v10(void *receiver, int n, void **data, size_t *sizes, int *tags, void **memories, void **events, void **request)
{
	(void)events;
	return transfer_receive(receiver, n, data, sizes, tags, memories, request);
}

static nccl_result receive_v6(void *receiver, int n, void **data, int *sizes, int *tags, void **memories, void **request)
{
	size_t all[MAX_RECEIVES];

	for (int i = 0; i < n && i < MAX_RECEIVES; i++) {
		if (sizes[i] < 0)
			return NCCL_INVALID_ARGUMENT;
		all[i] = sizes[i];
	}
	return transfer_receive(receiver, n, data, all, tags, memories, request);
}

static nccl_result flush(void *receiver, int n, void **data, int *sizes, void **memories, void **request)
{
	return transfer_flush(receiver, n, data, sizes, memories, request);
}

static nccl_result test(void *request, int *done, int *sizes)
{
	return transfer_test(request, done, sizes);
}

/* What is for GPUs' own access to the network and for hints about traffic is not there, which NCCL understands by NULL. */
#define EXPORT __attribute__((visibility("default")))
#define NAME .name = "Sluice", .devices = count_devices
#define REST \
	.reg_mr_dmabuf = register_dmabuf, .dereg_mr = deregister, .iflush = flush, .test = test, \
	.close_send = close_connection, .close_recv = close_connection, .close_listen = close_listener

EXPORT const nccl_net_v6 ncclNetPlugin_v6 = {
	NAME, .init = init_v6, .get_properties = properties_v6, .listen = listen_v6, .connect = connect_v6, .accept = accept_v6,
	.reg_mr = register_v6, .isend = send_v6, .irecv = receive_v6, REST,
};
EXPORT const nccl_net_v7 ncclNetPlugin_v7 = {
	NAME, .init = init_v6, .get_properties = properties_v7, .listen = listen_v6, .connect = connect_v7, .accept = accept_v7,
	.reg_mr = register_v6, .isend = send_v6, .irecv = receive_v6, REST,
};
EXPORT const nccl_net_v8 ncclNetPlugin_v8 = {
	NAME, .init = init_v6, .get_properties = properties_v8, .listen = listen_v6, .connect = connect_v7, .accept = accept_v7,
	.reg_mr = register_v8, .isend = send_v6, .irecv = receive_v6, REST,
};
EXPORT const nccl_net_v9 ncclNetPlugin_v9 = {
	NAME, .init = init_v6, .get_properties = properties_v9, .listen = listen_v6, .connect = connect_v7, .accept = accept_v7,
	.reg_mr = register_v8, .isend = send_v9, .irecv = receive_v9, REST, .make_device = make_device_v9,
};
EXPORT const nccl_net_v10 ncclNetPlugin_v10 = {
	NAME, .init = init_v10, .get_properties = properties_v9, .listen = listen_v6, .connect = connect_v10, .accept = accept_v7,
	.reg_mr = register_v8, .isend = send_v10, .irecv = receive_v10, REST, .make_device = make_device_v9,
};
EXPORT const nccl_net_v11 ncclNetPlugin_v11 = {
	NAME, .init = init_v11, .get_properties = properties_v11, .listen = listen_v11, .connect = connect_v11, .accept = accept_v7,
	.reg_mr = register_v8, .isend = send_v10, .irecv = receive_v10, REST, .make_device = make_device_v9, .finalize = finalize,
};
EXPORT const nccl_net_v12 ncclNetPlugin_v12 = {
	NAME, .init = init_v11, .get_properties = properties_v12, .listen = listen_v11, .connect = connect_v11, .accept = accept_v7,
	.reg_mr = register_v8, .isend = send_v10, .irecv = receive_v10, REST, .make_device = make_device_v12, .finalize = finalize,
};
